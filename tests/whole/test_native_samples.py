"""Every op, natively, under `strict`, against eager: the samples of its record, as they are and turned in
memory; values, dtypes, shapes, strides, what shares memory with what; gradients, too.

Many samples are compiled as one function. Where that fails, halves of them are, until the culprit is found.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import weft
from tests import refusals
from tests.native.lower.test_pointwise import ULPS, ordered
from weft.capture.kinds import Unsupported
from weft.core.settings import settings
from weft.ops.record import REGISTRY, Kind, Op
from weft.ops.samples import Maker, Sample

PARTS = 16
OPS = sorted(
    (op for op in REGISTRY.values() if op.samples is not None and not op.qualified_name.startswith("ops.")),
    key=lambda op: op.qualified_name,
)
UNDEFINED = {"empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided"}
"""Ops whose elements are whatever was in memory."""
SIZED = {
    "argwhere",
    "bincount",
    "masked_select",
    "nonzero",
    "repeat_interleave",
    "unique",
    "unique_consecutive",
}
"""Ops (some calls of them) whose results are as large as values tell: nothing is compiled."""
UNTIED = {"unsafe_chunk", "unsafe_split", "unsafe_split_with_sizes"}
"""Ops whose parts lie in memory that autograd and capture do not follow: graphs break there."""
LAID_OUT_OTHERWISE = {("turned", "adaptive_avg_pool1d"), ("turned", "cat"), ("turned", "norm_backward"),
                      ("complex64", "nn.functional.softsign")}  # fmt: skip
"""Kernels whose results lie in an order that depends on sizes, or on tensors without elements."""
KINDS = {
    "float32": weft.float32, "turned": weft.float32, "int64": weft.int64, "bool": weft.bool,
    "bfloat16": weft.bfloat16, "complex64": weft.complex64, "float64": weft.float64,
}  # fmt: skip


@dataclass(slots=True)
class Case:
    op: Op
    number: int
    sample: Sample
    inputs: list[Any]
    expected: Any = None

    def __str__(self) -> str:
        return f"{self.op.qualified_name}, sample {self.number}"


def arrays_in(value: Any) -> Iterator[Any]:
    if isinstance(value, np.ndarray):
        yield value
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from arrays_in(item)


def spelt(value: Any, tensors: Iterator[str], names: dict[str, Any]) -> str:
    """An argument as source: tensors are parameters, all else globals."""
    if isinstance(value, np.ndarray):
        return next(tensors)
    if type(value) in (tuple, list):
        inside = "".join(f"{spelt(item, tensors, names)}, " for item in value)
        return f"[{inside}]" if type(value) is list else f"({inside})"
    name = f"number_{len(names)}"
    names[name] = value
    return name


def function_of(cases: list[Case]) -> Any:
    """A function that makes all calls and gives a list of what they give."""
    names: dict[str, Any] = {}
    parameters, lines = [], []
    for place, case in enumerate(cases):
        own = [f"x{place}_{i}" for i in range(len(case.inputs))]
        parameters += own
        names[f"op{place}"] = case.op.face
        tensors = iter(own)
        args = [spelt(value, tensors, names) for value in case.sample.args]
        args += [f"{key}={spelt(value, tensors, names)}" for key, value in case.sample.kwargs.items()]
        lines.append(f"    y{place} = op{place}({', '.join(args)})")
    results = ", ".join(f"y{place}" for place in range(len(cases)))
    text = [f"def calls({', '.join(parameters)}):", *lines, f"    return [{results}]"]
    exec("\n".join(text), names)
    return names["calls"]


def cases_of(op: Op, kind: str) -> Iterator[Case]:
    """The op's samples that eager accepts."""
    assert op.samples is not None
    layouts = refusals.OF_LAYOUTS if kind == "turned" else ()
    for number, sample in enumerate(op.samples(Maker(KINDS[kind]))):
        inputs = [*arrays_in((sample.args, list(sample.kwargs.values())))]
        if kind == "turned":
            inputs = [np.asfortranarray(array) if array.ndim > 1 else array for array in inputs]
            if not any(array.ndim > 1 for array in inputs):
                continue
        case = Case(op, number, sample, [weft.from_numpy(array) for array in inputs])
        try:
            (case.expected,) = function_of([case])(*case.inputs)
        except Exception as error:
            refusals.expect(error, KINDS[kind], *layouts)
            continue
        yield case


def leaves(value: Any) -> list[Any]:
    return [leaf for item in value for leaf in leaves(item)] if isinstance(value, (tuple, list)) else [value]


def shared(value: Any, inputs: list[Any]) -> list[Any]:
    """Which inputs a result is, and which it shares memory with."""
    return [(value is each, np.shares_memory(value.array, each.array)) for each in inputs]


def assert_same(case: Case, kind: str, found: Any) -> None:
    ours, theirs = leaves(found), leaves(case.expected)
    assert type(found) is type(case.expected) and len(ours) == len(theirs), case
    for one, other in zip(ours, theirs):
        assert type(one) is type(other), case
        if not isinstance(one, weft.Tensor):
            assert one == other or one != one, case
            continue
        assert (one.dtype, one.shape) == (other.dtype, other.shape), case
        if one.numel() and (kind, case.op.qualified_name) not in LAID_OUT_OTHERWISE:
            assert one.stride() == other.stride(), f"{case}: {one.shape} lies as {one.stride()}"
        if case.op.name != "_unsafe_view":  # eager gives a view of what nobody else has
            assert shared(one, case.inputs) == shared(other, case.inputs), case
        if case.op.qualified_name not in UNDEFINED:
            assert_near(case, one.detach().array, other.detach().array)


def assert_near(case: Case, one: Any, other: Any) -> None:
    if case.op.kind in (Kind.VIEW, Kind.CREATE) or one.dtype.kind in "biu":
        np.testing.assert_array_equal(one, other, err_msg=str(case))
        return
    if case.op.kind is Kind.POINTWISE and one.dtype in (np.float32, np.float64):
        there = ~np.isnan(other)
        np.testing.assert_array_equal(there, ~np.isnan(one), err_msg=str(case))
        apart = np.abs(ordered(one[there]) - ordered(other[there]))
        assert not (apart > ULPS.get(case.op.qualified_name, 0)).any(), case
        return
    wide = np.complex128 if one.dtype.kind == "c" else np.float64
    near = {2: 1e-2, 4: 2e-5}.get(one.dtype.itemsize, 2e-5 if one.dtype == np.complex64 else 1e-11)
    np.testing.assert_allclose(one.astype(wide), other.astype(wide), near, near, err_msg=str(case))


def run(cases: list[Case], kind: str, failed: list[str]) -> None:
    """Compiles these calls as one; finds out which ones do not go."""
    weft.compiler.reset()
    compiled = weft.compile(function_of(cases), backend="native", fullgraph=True)
    try:
        found = compiled(*[tensor for case in cases for tensor in case.inputs])
        for case, result in zip(cases, found, strict=True):
            assert_same(case, kind, result)
    except BaseException as error:  # refusals under strict are no Exceptions
        if len(cases) == 1:
            sized = type(error) is Unsupported and str(error).startswith("GraphBreak data-dependent-shape at")
            if not sized or cases[0].op.qualified_name not in SIZED:
                failed.append(f"{cases[0]}: {type(error).__name__}: {str(error)[:400]}")
            return
        half = len(cases) // 2
        run(cases[:half], kind, failed)
        run(cases[half:], kind, failed)


@pytest.fixture(autouse=True)
def strictly() -> Iterator[None]:
    settings.strict = True
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
    settings.strict = False
    weft.compiler.reset()


@pytest.mark.wide
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "float64"])
def test_samples(kind: str, part: int, is_sampled: Callable[[Op], bool]) -> None:
    ops = [op for op in OPS[part::PARTS] if op.kind is not Kind.RANDOM and is_sampled(op)]
    ops = [op for op in ops if op.name not in UNTIED]
    plain = [case for op in ops if op.qualified_name not in SIZED for case in cases_of(op, kind)]
    failed: list[str] = []
    run(plain, kind, failed)
    for op in ops:
        if op.qualified_name in SIZED:
            for case in cases_of(op, kind):
                run([case], kind, failed)
    assert not failed, "\n".join(failed)


# -- gradients -----------------------------------------------------------------------------------------------
def loss_of(results: list[Any]) -> Any:
    """One number that depends on all elements of all results, on each in a different way."""
    total = None
    for result in leaves(results):
        if isinstance(result, weft.Tensor) and result.requires_grad and not result.is_complex():
            part = (result * weft.arange(1, result.numel() + 1).reshape(result.shape)).sum()
            total = part if total is None else total + part
    return total


def differentiated(function: Any, inputs: list[Any]) -> list[Any]:
    given = [each.detach().clone().requires_grad_() if each.is_floating_point() else each for each in inputs]
    loss = loss_of(function(*given))
    if loss is not None:
        loss.backward()
    return [each.grad for each in given]


def run_gradients(cases: list[Case], failed: list[str]) -> None:
    weft.compiler.reset()
    inputs = [tensor for case in cases for tensor in case.inputs]
    function = function_of(cases)
    expected = differentiated(function, inputs)
    try:
        found = differentiated(weft.compile(function, backend="native", fullgraph=True), inputs)
        for one, other in zip(found, expected, strict=True):
            assert (one is None) == (other is None)
            if one is not None:
                assert one.stride() == other.stride() and one.dtype is other.dtype
                np.testing.assert_allclose(one.array, other.array, 1e-9, 1e-9)
    except BaseException as error:  # refusals under strict are no Exceptions
        if len(cases) == 1:
            failed.append(f"{cases[0]}: {type(error).__name__}: {str(error)[:400]}")
            return
        half = len(cases) // 2
        run_gradients(cases[:half], failed)
        run_gradients(cases[half:], failed)


@pytest.mark.wide
@pytest.mark.parametrize("part", range(PARTS))
def test_gradients(part: int, is_sampled: Callable[[Op], bool]) -> None:
    cases = []
    for op in OPS[part::PARTS]:
        if op.kind in (Kind.RANDOM, Kind.CREATE) or op.qualified_name in SIZED | UNTIED or not is_sampled(op):
            continue
        for sample in list(cases_of(op, "float64"))[:2]:
            if sample.sample.grad and differentiable(sample):
                cases.append(sample)
    failed: list[str] = []
    run_gradients(cases, failed)
    assert not failed, "\n".join(failed)


def differentiable(case: Case) -> bool:
    try:
        return any(grad is not None for grad in differentiated(function_of([case]), case.inputs))
    except (NotImplementedError, RuntimeError) as error:
        refusals.expect(error, weft.float64, *refusals.OF_GRADIENTS)
        return False
