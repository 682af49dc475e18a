"""How captured code reads: descriptors, rows of tensors, the environment."""

from __future__ import annotations

import os

import pytest

import weft
from tests.capture.features.harness import check, tensor


class Doubling:
    def __set__(self, instance, value):
        instance.__dict__["field"] += value * 2


class Holder:
    field = Doubling()

    def __init__(self):
        self.__dict__["field"] = 0


def test_a_descriptor_that_only_sets_does_not_hide_the_attribute():
    def function(x, holder):
        holder.field = 10
        return x + holder.field

    check(function, lambda: (tensor(), Holder()))


def test_rows_are_nodes_of_their_own():
    def function(x):
        for row in x:
            row.add_(1.0)
        return row, [each * 2 for each in x.__iter__()]

    check(function, lambda: (weft.zeros(3, 2),), ops=12)


def test_rows_of_tensors_that_require_grad():
    check(lambda x: [row * 2 for row in x], lambda: (weft.ones(2, 2, requires_grad=True),), ops=5)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x + 1 if os.environ.get("WEFT_PARITY") == "1" else x - 1,
        lambda x: x + len(os.getenv("WEFT_PARITY", "none")),
        lambda x: x + ("WEFT_PARITY" in os.environ),
    ],
)
def test_one_variable_of_the_environment_is_guarded(function, monkeypatch):
    monkeypatch.setenv("WEFT_PARITY", "1")
    check(function)
    compiled = weft.compile(function, fullgraph=True)
    for value in ("1", "zero", None, "1"):
        if value is None:
            monkeypatch.delenv("WEFT_PARITY")
        else:
            monkeypatch.setenv("WEFT_PARITY", value)
        monkeypatch.setenv("WEFT_PARITY_OTHER", str(value))
        assert compiled(tensor()).tolist() == function(tensor()).tolist()


def test_checks_of_sizes():
    def function(x):
        weft._check(x.shape[0] > 2, lambda: f"{x.shape[0]} is too few")
        return x + 1

    check(function, lambda: (tensor(),), lambda: (tensor(1.0),), raises=RuntimeError, frames=1)
    with pytest.raises(RuntimeError, match="Expected cond to be True"):
        weft._check(False)
