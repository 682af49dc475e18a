"""Matrix products in native programs: every layout, batches that broadcast, vectors, gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import weft
import weft.nn.functional as F
from weft.testing import assert_close

CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "matrices": (lambda a, b: a @ b, ((5, 7), (7, 3))),
    "left transposed": (lambda a, b: a.t() @ b, ((7, 5), (7, 3))),
    "right transposed": (lambda a, b: a @ b.t(), ((5, 7), (3, 7))),
    "both transposed": (lambda a, b: a.t() @ b.t(), ((7, 5), (3, 7))),
    "with bodies around": (lambda a, b: ((a * 2) @ (b + 1)) * 3 + 1, ((5, 7), (7, 3))),
    "a part": (lambda a, b: a[1:, ::2] @ b[:4, 1:], ((5, 7), (7, 3))),
    "vectors": (lambda a, b: a @ b, ((7,), (7,))),
    "a vector on the left": (lambda a, b: a @ b, ((7,), (7, 3))),
    "a vector on the right": (lambda a, b: a @ b, ((2, 5, 7), (7,))),
    "a batch": (lambda a, b: a @ b, ((4, 5, 7), (4, 7, 3))),
    "a batch turned round": (lambda a, b: a.transpose(0, 1) @ b.transpose(-1, -2), ((5, 4, 7), (4, 3, 7))),
    "a batch on one matrix": (lambda a, b: a @ b, ((2, 4, 5, 7), (7, 3))),
    "one matrix on a batch": (lambda a, b: a @ b, ((5, 7), (4, 7, 3))),
    "heads turned round": (
        lambda a, b: a.transpose(1, 2) @ b.permute(0, 2, 3, 1) + a.permute(0, 2, 1, 3).flip(3)[..., :4],
        ((2, 4, 3, 5), (2, 4, 3, 5)),
    ),
    "steps across": (lambda a, b: a[:, ::2] @ b[..., ::2].transpose(-1, -2), ((4, 5, 7), (4, 3, 14))),
    "batches that broadcast": (lambda a, b: a @ b, ((2, 1, 5, 7), (3, 7, 4))),
    "columns of one": (lambda a, b: a @ b, ((5, 1), (1, 3))),
    "linear": (lambda a, b: F.linear(a, b, b[:, 0]), ((2, 5, 7), (3, 7))),
    "a reshape between": (lambda a, b: a.reshape(10, 7) @ b, ((2, 5, 7), (7, 3))),
    "heads": (
        lambda a, b: a.view(2, 5, 2, 4).transpose(1, 2) @ b.view(2, 5, 2, 4).permute(0, 2, 3, 1),
        ((2, 5, 8), (2, 5, 8)),
    ),
}  # fmt: skip


@pytest.mark.parametrize("dtype", [weft.float32, weft.float64])
@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients(name: str, dtype: Any) -> None:
    function, shapes = CASES[name]
    results = []
    for run in (function, weft.compile(function, backend="native", fullgraph=True)):
        weft.manual_seed(0)
        inputs = [weft.randn(*shape, dtype=dtype, requires_grad=True) for shape in shapes]
        value = run(*inputs)
        (value * value).sum().backward()
        results.append([value.detach(), *[each.grad for each in inputs]])
    assert_close(results[1], results[0], rtol=1e-4, atol=1e-5)


def test_inputs_in_an_order_that_blas_cannot_read_are_copied() -> None:
    a, b = weft.randn(4, 3, 2).permute(2, 1, 0), weft.randn(2, 4, 5)
    compiled = weft.compile(weft.bmm, backend="native", fullgraph=True)
    assert_close(compiled(a, b), weft.bmm(a, b))
