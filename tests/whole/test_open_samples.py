"""Every op, compiled with all sizes open, against eager at sizes of all kinds: values, gradients, strides,
aliasing and errors.

The samples of the records are called as they are, and then with other sizes in place of theirs, the same for
the same: what eager refuses there is refused in its words.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import weft
from tests.aot.test_sizes import sharing
from tests.whole.test_native_samples import OPS, UNDEFINED, UNTIED, Case, arrays_in, function_of, leaves
from weft.aot import runtime
from weft.core import varying
from weft.core.settings import settings
from weft.ops.facts import Kind
from weft.ops.record import Op
from weft.ops.samples import Maker

PARTS = 16
WAYS: tuple[Callable[[int, int], int], ...] = (
    lambda size, _place: size,
    lambda size, _place: 2 * size,
    lambda size, place: size + 1 + place,
    lambda _size, _place: 2,
    lambda _size, _place: 1,
    lambda size, place: 3 if place else size,
    lambda _size, _place: 0,
    lambda size, place: 0 if place == 0 else size,
)
"""What comes in place of a size, given its place among all that are more than 1."""
BY_VALUES = {"linalg.lstsq", "linalg.qr", "qr"}
"""Ops that repeated elements, which lower ranks, change: a result of lstsq is empty or not, and where a
matrix is singular, qr has no derivative, but what rounding leaves of one.
"""
Outcome = tuple[str, Any, Any]


@pytest.fixture(autouse=True)
def strictly(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(settings, "strict", True)
    monkeypatch.setattr(varying, "LOUD", 99)  # some ops ask for sizes
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
    weft.compiler.reset()


def outcome(function: Any, arrays: list[np.ndarray], differentiable: bool) -> Outcome:
    """What a call gives, and the gradients of that; or the error."""
    inputs = [weft.from_numpy(array.copy()) for array in arrays]
    for each in inputs:
        each.requires_grad_(differentiable and (each.is_floating_point() or each.is_complex()))
    weft.manual_seed(0)
    try:
        results = [each for each in leaves(function(*inputs)) if isinstance(each, weft.Tensor)]
        wanted = [each for each in inputs if each.requires_grad]
        parts = [r.abs().sum() if r.is_complex() else r.sum() for r in results if r.requires_grad]
        found = weft.autograd.grad(parts, wanted, allow_unused=True) if parts else ()
    except Exception as error:
        return "error", type(error), str(error)
    return "values", [*results, *inputs], list(found)


def differs(one: Any, other: Any) -> str | None:
    """How two tensors differ."""
    if one is None or other is None:
        return None if one is other else "is not there"
    if (one.dtype, one.shape, one.requires_grad) != (other.dtype, other.shape, other.requires_grad):
        return f"is {one.dtype} of {one.shape}"
    ours, theirs = one.detach().numpy(), other.detach().numpy()
    relative = 1e-6 if one.dtype is weft.float32 else 1e-9  # what is cast to it is added in another order
    if not np.allclose(ours, theirs, rtol=relative, atol=relative / 100, equal_nan=ours.dtype.kind in "fc"):
        return "has other elements"
    return None if one.stride() == other.stride() else f"lies as {one.stride()}, not {other.stride()}"


def difference(ours: Outcome, theirs: Outcome) -> str | None:
    if ours[0] != theirs[0] or ours[0] == "error":
        return None if ours == theirs else f"{ours} instead of {theirs}"
    if len(ours[1]) != len(theirs[1]) or sharing(ours[1]) != sharing(theirs[1]):
        return "other results, or memory that is shared otherwise"
    for number, pair in enumerate(zip(ours[1], theirs[1], strict=True)):
        if found := differs(*pair):
            return f"result {number} {found}"
    for number, (one, other) in enumerate(zip(ours[2], theirs[2], strict=True)):
        if (one is None) != (other is None) or (one is not None and one.shape != other.shape):
            return f"gradient {number} is not alike"
        if one is not None and not np.allclose(
            one.numpy(), other.numpy(), rtol=1e-8, atol=1e-9, equal_nan=True
        ):
            return f"gradient {number} has other elements"
    return None


def run(case: Case, arrays: list[np.ndarray], differentiable: bool, failed: list[str], backend: str) -> None:
    """One sample, compiled once, at all sizes."""
    weft.compiler.reset()
    function = function_of([case])
    compiled = weft.compile(function, backend=backend, dynamic=True)
    sizes = sorted({size for array in arrays for size in array.shape if size > 1})
    narrowed = runtime.counters["narrowed"]
    for way in WAYS:
        other = {size: way(size, place) for place, size in enumerate(sizes)}
        given = [np.resize(array, [other.get(size, size) for size in array.shape]) for array in arrays]
        if way is WAYS[0]:
            given = arrays
        theirs = outcome(function, given, differentiable)
        ours = outcome(compiled, given, differentiable)
        if found := difference(ours, theirs):
            failed.append(f"{case} at {[each.shape for each in given]}: {found[:400]}")
            return
    if runtime.counters["narrowed"] != narrowed:
        failed.append(f"{case}: {runtime.reasons[-1]}")


@pytest.mark.wide
@pytest.mark.parametrize("backend", ["aot_eager", "native"])
@pytest.mark.parametrize("part", range(PARTS))
def test_samples_with_open_sizes(part: int, backend: str, is_sampled: Callable[[Op], bool]) -> None:
    failed: list[str] = []
    natively = weft.compiler.lookup_backend(backend) is weft.compiler.native
    for op in OPS[part::PARTS]:
        left_out = (
            op.qualified_name in UNDEFINED | BY_VALUES or op.name in UNTIED or not (op.function or op.method)
        )
        if left_out or not is_sampled(op):
            continue
        if natively and op.kind is Kind.RANDOM and op.stream is None:
            continue  # their draws are NumPy's: strictly they are refused, in words that tests of native tell
        assert op.samples is not None
        for number, sample in enumerate(op.samples(Maker(weft.float64))):
            arrays = [*arrays_in((sample.args, list(sample.kwargs.values())))]
            if not arrays:
                continue
            case = Case(op, number, sample, arrays)
            kinds = {array.dtype.kind for array in arrays}
            tried = outcome(function_of([case]), arrays, True)
            with_gradients = bool(kinds & {"f", "c"}) and tried[0] == "values"
            run(case, arrays, with_gradients, failed, backend)
    assert not failed, "\n".join(failed)
