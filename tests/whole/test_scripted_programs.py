"""Scripted programs against eager ones: values, gradients, and which outputs require grad, in ten calls."""

import os

import pytest

import tests.whole.scripted_programs_more  # noqa: F401 - which adds to the programs
import weft
from tests.whole.scripted_programs import PROGRAMS
from weft.core.trees import flatten


def inputs(seed, gradients):
    weft.manual_seed(seed)
    return [weft.randn(3, 4, requires_grad=wanted) for wanted in gradients]


NOT_NATIVE = {"hooks_free"}
CALLS = [
    (False, False), (True, True), (False, True), (True, True), (True, False), (False, False), (True, True),
    (False, True), "no_grad", (True, True),
]  # fmt: skip


def run(function, case, extra):
    """What a call gives: its leaves, and the gradients of the tensors it was given."""
    tensors = inputs(len(extra), (True, True) if case == "no_grad" else case)
    if case == "no_grad":
        with weft.no_grad():
            result = function(*tensors, *extra)
    else:
        result = function(*tensors, *extra)
    leaves = flatten(result)[0]
    total = [leaf.double().sum() * (place + 1) for place, leaf in enumerate(leaves)
             if isinstance(leaf, weft.Tensor) and leaf.requires_grad]  # fmt: skip
    wanted = [tensor for tensor in tensors if tensor.requires_grad]
    gradients = weft.autograd.grad(sum(total), wanted, allow_unused=True) if total and wanted else ()
    return leaves, gradients


def same(one, two):
    if isinstance(one, weft.Tensor):
        assert one.dtype == two.dtype and tuple(one.shape) == tuple(two.shape)
        assert one.requires_grad == two.requires_grad
        weft.testing.assert_close(one.detach(), two.detach(), equal_nan=True, rtol=1e-5, atol=1e-6)
    else:
        assert type(one) is type(two) and one == two


@pytest.mark.parametrize(
    "function, extra", PROGRAMS, ids=[f"{f.__name__}{place}" for place, (f, _) in enumerate(PROGRAMS)]
)
def test_program(function, extra):
    if function.__name__ in NOT_NATIVE and os.environ.get("WEFT_TEST_BACKEND") == "native":
        pytest.skip("a reshape of what lies transposed in memory is not planned: it runs op by op")
    scripted = weft.jit.script(function)
    scripted.graph.lint()
    assert str(scripted.graph).startswith("graph(") and scripted.code.startswith("def ")
    for case in CALLS:
        expected, expected_gradients = run(function, case, extra)
        found, gradients = run(scripted, case, extra)
        assert len(found) == len(expected)
        for one, two in zip(found, expected, strict=True):
            same(one, two)
        for one, two in zip(gradients, expected_gradients, strict=True):
            assert (one is None) == (two is None)
            if one is not None:
                same(one, two)


def test_there_are_many():
    assert len(PROGRAMS) >= 150
