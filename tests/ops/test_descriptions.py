"""Every public op says what it gives, and its example holds."""

from __future__ import annotations

import re

import pytest

import weft
from weft.ops.descriptions import DESCRIPTIONS, EXAMPLES
from weft.ops.record import REGISTRY
from weft.tensor.faces import FUNCTIONS


def test_every_public_function_has_a_docstring():
    inner = re.compile(r"(^|\.)_|_backward$|_with_indices$|^philox")
    missing = [name for name, face in FUNCTIONS.items() if not face.__doc__ and not inner.search(name)]
    assert missing == []


def test_descriptions_are_of_ops():
    assert [name for name in DESCRIPTIONS if name not in REGISTRY] == []
    assert [name for name in EXAMPLES if name not in REGISTRY] == []


def test_no_op_is_described_twice():
    assert [name for name in DESCRIPTIONS if REGISTRY[name].doc] == []


def test_docstrings_show_parameters_text_and_example():
    assert weft.add.__doc__ == (
        "add(input: Operand, other: Operand, *, alpha: Number = 1)\n\n"
        "The sum `input + alpha * other`, element by element.\n\n"
        ">>> weft.add(weft.tensor([1, 2]), 3)\ntensor([4, 5])"
    )
    assert weft.Tensor.add_.__doc__.splitlines()[-1].startswith("In place: The sum")


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_hold(name):
    code, result = EXAMPLES[name]
    assert " ".join(repr(eval(code, {"weft": weft})).split()) == " ".join(result.split())
