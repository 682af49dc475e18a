"""Generated functions show their parameters to `inspect.signature`, `help` and editors."""

from __future__ import annotations

import copy
import functools
import inspect
import pickle

import pytest

import weft
from weft.tensor.faces import FUNCTIONS


def names(function: object) -> list[str]:
    return list(inspect.signature(function).parameters)  # type: ignore[arg-type]


def test_functions_methods_and_in_place_forms() -> None:
    found = inspect.signature(weft.add)
    assert str(found) == "(input: 'Operand', other: 'Operand', *, alpha: 'Number' = 1)"
    assert names(weft.Tensor.add_) == ["input", "other", "alpha"]
    assert names(weft.ones(2).add) == ["other", "alpha"]
    assert names(weft.nn.functional.conv2d)[:3] == ["input", "weight", "bias"]
    assert inspect.signature(weft.nn.functional.conv2d).parameters["stride"].default == 1


def test_it_stays_when_the_function_has_run() -> None:
    weft.atan2(weft.ones(2), weft.ones(2))
    assert names(weft.atan2) == ["input", "other"]


def test_every_function_has_one_that_binds() -> None:
    for name, face in FUNCTIONS.items():
        found = inspect.signature(face)
        assert list(found.parameters) == list(face.op.signature.names), name  # type: ignore[attr-defined]
        assert found == found.replace()


def test_what_is_made_of_it() -> None:
    found = inspect.signature(weft.add)
    bound = found.bind(weft.ones(1), 2, alpha=3)
    assert bound.arguments["alpha"] == 3
    with pytest.raises(TypeError, match="missing a required argument: 'other'"):
        found.bind(weft.ones(1))
    assert names(functools.partial(weft.add, weft.ones(1))) == ["other", "alpha"]
    assert pickle.loads(pickle.dumps(found)) == found
    assert copy.deepcopy(found) == found
    assert hash(found) == hash(found.replace())
