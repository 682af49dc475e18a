"""Every pointwise op, natively, against its array kernel: its samples and numbers that are special."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pytest

import weft
from tests import refusals
from tests.native.lowered import assert_same, opaques
from tests.ops.test_record import bound_arguments
from weft.core.dtypes import dtype
from weft.graph.graph import Graph
from weft.native.cpu.target import cpu
from weft.native.ir.definitions import Definition, Opaque
from weft.native.lower.lowering import Lowering
from weft.native.plan.fuse import fused
from weft.native.program.planning import Planned
from weft.ops.record import REGISTRY, Kind, Op, type_of
from weft.ops.samples import Maker, Sample

OTHERS = {
    "_to_copy", "clone", "copy", "flip", "repeat", "stack", "zeros", "ones", "full", "zeros_like",
    "ones_like", "full_like", "new_zeros", "new_ones", "new_full", "fill", "zero", "arange", "eye", "tril",
    "triu",
}  # fmt: skip
"""Ops that are no pointwise records, but lowered as such."""
OPS = sorted(
    (op for op in REGISTRY.values() if op.kind is Kind.POINTWISE or op.qualified_name in OTHERS),
    key=lambda op: op.qualified_name,
)
UNLOWERED = {
    "complex", "polar", "gcd", "lcm", "digamma", "method.polygamma", "special.zeta", "erfinv",
    "special.erfcx", "special.ndtr", "special.ndtri", "special.log_ndtr", "i0", "special.i0e", "special.i1",
    "special.i1e", "igamma", "igammac", "nextafter", "_ldexp", "_dirichlet_grad",
    "_standard_gamma_grad",
}  # fmt: skip
"""Ops that run as they are."""
UNLOWERED |= {each.qualified_name for each in OPS if re.search("_polynomial_|bessel_|airy_ai", each.name)}
PARTLY = {
    "binary_cross_entropy", "pow", "_to_copy", "full", "repeat",
    "conj_physical",
}  # fmt: skip
"""Ops of which some calls run as they are: ints with a tensor as exponent; complex numbers
and halves; nothing repeated."""
FUNCTIONS = {
    "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "celu", "cos", "cosh", "erf", "exp", "exp2",
    "expm1", "float_power", "hypot", "log", "log10", "log1p", "log2", "logaddexp", "logit", "pow", "selu",
    "sigmoid", "sin", "sinc", "sinh", "special.entr", "special.xlog1py", "tan", "tanh", "xlogy",
    "nn.functional.elu", "nn.functional.logsigmoid", "nn.functional.mish", "nn.functional.silu",
    "nn.functional.softplus",
}  # fmt: skip
ULPS = dict.fromkeys(FUNCTIONS, 4) | {
    "erfc": 8, "binary_cross_entropy": 16, "lgamma": 64, "logaddexp2": 16, "gelu_backward": 64,
    "nn.functional.gelu": 400,
}  # fmt: skip
"""How far results may be from the array kernel's, in units of the last place; elsewhere not at all. Where
gelu is nearly 0 it is a small difference of numbers near 1; lgamma is 0 at 1 and 2."""
SPECIAL = [
    0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.0, -2.0, 2.5, -2.5, 3.0, -3.7, 0.3, 1e-3, -1e-3, 6.0, 9.25, -17.0,
    19.5, -30.0, 87.0, -100.0, 1e-30, -1e-30, 1e6, -1e6, 3e9, 1e30, -1e30, np.inf, -np.inf, np.nan,
]  # fmt: skip
KINDS = {"float32": weft.float32, "float64": weft.float64, "int64": weft.int64,
         "uint8": weft.uint8, "bool": weft.bool}  # fmt: skip


OF_SPECIAL_VALUES = (
    (RuntimeError, "ZeroDivisionError"),
    (RuntimeError, "all elements of input should be between 0 and 1"),
    (RuntimeError, r"masked_fill_ only supports a 0-dimensional value tensor, but got .*"),
)
"""How ops refuse `SPECIAL`, and whole numbers that are zero."""


@dataclass(slots=True)
class Run:
    """A call, what the kernel gives, and what the program gives."""

    op: Op
    sample: Sample
    expected: Any
    given: Any = None
    lowered: bool = False


def special_values(kind: np.dtype[Any]) -> Any:
    if kind.kind == "f":
        limits = np.finfo(kind)
        return np.array([*SPECIAL, limits.max, limits.min, limits.tiny, -limits.smallest_subnormal], kind)
    if kind.kind == "b":
        return np.array([True, False, True])
    limits = np.iinfo(kind)
    values = [0, 1, 2, 3, 5, 7, 31, 64, 100, limits.max, limits.max - 1, limits.min]
    return np.array(values + ([-1, -2, -7, -33] if limits.min else []), kind)


def special_samples(op: Op, samples: list[Sample]) -> Iterator[Sample]:
    """The same numbers and options, with special values for arrays: two arrays meet in all pairs."""
    seen = set()
    for sample in samples:
        arrays = [value for value in sample.args if isinstance(value, np.ndarray)]
        key = repr([value for value in sample.args if not isinstance(value, np.ndarray)]), repr(sample.kwargs)
        if op.name == "lgamma" or "polynomial" in op.name:
            continue  # scipy's lgamma of denormals is infinite; degrees of 1e300 take for ever
        if not arrays or key in seen or op.kind is not Kind.POINTWISE:
            continue
        seen.add(key)
        args, place = [], 0
        for value in sample.args:
            if isinstance(value, np.ndarray):
                value = special_values(value.dtype)
                if place == 0 and len(arrays) > 1:
                    value = value[:, None]
                elif place > 1:
                    value = np.resize(value[::-1], len(special_values(arrays[1].dtype)))
                place += 1
            args.append(value)
        yield Sample(*args, **sample.kwargs)


def samples_of(op: Op, kind: dtype) -> list[Sample]:
    """As many of the op's samples as there are of this dtype: some want numbers below zero."""
    assert op.samples is not None
    found = []
    try:
        for sample in op.samples(Maker(kind)):
            found.append(sample)
    except ValueError as error:
        assert kind is weft.uint8 and str(error) == "high <= 0", op
    return found


def typed(value: Any) -> Any:
    """Types for arrays."""
    if isinstance(value, dict):
        return {name: typed(item) for name, item in value.items()}
    if type(value) in (tuple, list):
        return type(value)([typed(item) for item in value])
    return type_of(value) if isinstance(value, np.ndarray) else value


def calls(kind: dtype) -> Iterator[Run]:
    for op in OPS:
        samples = samples_of(op, kind)
        for sample in (*samples, *special_samples(op, samples)):
            bound = bound_arguments(op, sample)
            try:
                op.on_types(typed(bound))
                expected = op.on_arrays(bound)
            except Exception as error:
                refusals.expect(error, kind, *OF_SPECIAL_VALUES)
                continue
            yield Run(op, sample, expected)


@cache
def runs(kind: str) -> dict[str, list[Run]]:
    """All calls on tensors of a kind, as one program."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = list(calls(KINDS[kind]))
    graph, arrays = Graph(), []

    def place(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            arrays.append(value)
            return graph.placeholder(f"x{len(arrays)}")
        return type(value)([place(item) for item in value]) if type(value) in (tuple, list) else value

    placed = [(place(run.sample.args), {k: place(v) for k, v in run.sample.kwargs.items()}) for run in found]
    nodes = []
    for run, (args, kwargs) in zip(found, placed):
        nodes.append(graph.call_function(run.op, args, kwargs))
        nodes[-1].meta["val"] = weft.from_numpy(np.asarray(run.expected))
    graph.output(tuple(nodes))
    lowering = Lowering(graph, arrays, cpu)
    program = lowering.run(lambda path: None)
    wanted = [value for value in program.outputs if isinstance(value, Definition)]
    results = cpu.executable(Planned(program.outputs, fused(wanted), {}), arrays)(arrays)
    by_op: dict[str, list[Run]] = {}
    for run, node, result in zip(found, nodes, results):
        run.given, run.lowered = result, not isinstance(lowering.values[node], Opaque)
        by_op.setdefault(run.op.qualified_name, []).append(run)
    return by_op


def ordered(x: Any) -> Any:
    """Floats as ints in the same order, one apart where floats are neighbours."""
    bits = x.view(np.int32 if x.dtype == np.float32 else np.int64).astype(np.int64)
    least = np.iinfo(np.int32 if x.dtype == np.float32 else np.int64).min
    return np.where(bits < 0, least - bits, bits)


def assert_near(run: Run, ulps: int) -> None:
    one, other = np.ascontiguousarray(run.given), np.ascontiguousarray(run.expected)
    assert one.dtype == other.dtype and one.shape == other.shape
    if one.dtype not in (np.float32, np.float64):
        np.testing.assert_array_equal(one, other, err_msg=repr(run.sample))
        return
    np.testing.assert_array_equal(np.isnan(one), np.isnan(other), err_msg=repr(run.sample))
    there = ~np.isnan(other)
    one, other = one[there], other[there]
    far = np.abs(ordered(one) - ordered(other)) > ulps
    assert not far.any(), (run.sample, one[far][:8], other[far][:8])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("op", OPS, ids=lambda op: op.qualified_name)
def test_values(op: Op, kind: str) -> None:
    for run in runs(kind).get(op.qualified_name, ()):
        assert_near(run, ULPS.get(op.qualified_name, 0))


def test_what_has_no_elements_needs_no_kernel() -> None:
    def f(x: weft.Tensor) -> tuple[weft.Tensor, ...]:
        return (x * 2).exp(), x.t() + 1, x.sum(0), weft.zeros(0, 2)

    for shape in ((0, 3), (3, 0)):
        x = weft.randn(*shape)
        for ours, theirs in zip(weft.compile(f, backend="native", fullgraph=True)(x), f(x)):
            assert weft.equal(ours, theirs) and ours.dtype is theirs.dtype


def test_numbers_wrap_as_in_eager_calls() -> None:
    def f(x: weft.Tensor) -> tuple[weft.Tensor, ...]:
        return x + 300, x.sub(x, alpha=2), x == 257, x.float() * 1e40

    x = weft.arange(7, dtype=weft.uint8)
    for ours, theirs in zip(weft.compile(f, backend="native", fullgraph=True)(x), f(x)):
        assert ours.dtype is theirs.dtype
        np.testing.assert_array_equal(ours.numpy(), theirs.numpy())


@pytest.mark.parametrize("kind", [weft.float16, weft.bfloat16, weft.float32, weft.float64])
def test_infinities_become_the_largest_numbers_of_their_own_kind(kind: dtype) -> None:
    def f(x: weft.Tensor) -> tuple[weft.Tensor, ...]:
        return x.nan_to_num(), (x * 2).nan_to_num(3.0, posinf=7.0)

    x = weft.tensor([float("inf"), float("-inf"), float("nan"), 1.0], dtype=kind)
    assert not opaques(f, x)
    for ours, theirs in zip(weft.compile(f, backend="native", fullgraph=True)(x), f(x)):
        assert ours.dtype is kind and ours.tolist() == theirs.tolist()


@pytest.mark.parametrize("name", ["floor_divide", "remainder", "fmod", "trunc"])
def test_ints_divided_by_zero_raise_as_in_eager_calls(name: str) -> None:
    def f(x: weft.Tensor, y: weft.Tensor) -> weft.Tensor:
        made = weft.div(x, y, rounding_mode="trunc") if name == "trunc" else getattr(weft, name)(x, y)
        return made * 2

    x = weft.randint(-100, 100, (50, 60))
    y = weft.arange(1, 61) - 90
    assert not opaques(f, x, y)
    assert_same(f, x, y)
    compiled = weft.compile(f, backend="native", fullgraph=True)
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        compiled(x, y + 60)


def test_places_are_right_in_every_chunk() -> None:
    def f(x: weft.Tensor, y: weft.Tensor) -> tuple[weft.Tensor, ...]:
        places = x + weft.arange(300), weft.tril(x, 3), weft.triu(x, -2).t() * 2, weft.eye(700, 300) * x
        turned = x.flip(0, 1) * 2 + x, weft.stack([x, x * 2, x + 1], 1), y.repeat(500, 3) + 1
        return *places, *turned, (x * 2).reshape(100, 2100).t() + 1, weft.arange(200_001) * 2

    x, y = weft.randn(700, 300), weft.randn(300)
    for ours, theirs in zip(weft.compile(f, backend="native", fullgraph=True)(x, y), f(x, y)):
        assert weft.equal(ours, theirs) and ours.dtype is theirs.dtype


@pytest.mark.parametrize("dim", [0, 1, -1])
def test_many_are_stacked(dim: int) -> None:
    def f(x: weft.Tensor, y: weft.Tensor) -> tuple[weft.Tensor, ...]:
        rows = [(x * i).tanh() for i in range(9)]
        made = weft.stack([*rows, y.t()], dim)
        return made, made.sum(dim), weft.stack([row[0].half() for row in rows], 0)

    x, y = weft.randn(4, 5), weft.randn(5, 4)
    assert not opaques(f, x, y)
    assert_same(f, x, y)


def test_places_in_folds() -> None:
    def f(x: weft.Tensor) -> tuple[weft.Tensor, ...]:
        parts = weft.tril(x, 2)
        return parts.sum(-1), parts.sum(0), parts.sum(1), parts.sum(), (x * weft.arange(60)).sum((1, 2))

    x = weft.randn(4, 50, 60, dtype=weft.float64)
    for ours, theirs in zip(weft.compile(f, backend="native", fullgraph=True)(x), f(x)):
        weft.testing.assert_close(ours, theirs)


def test_bodies_are_dear_where_functions_are() -> None:
    graph = Graph()
    x = graph.placeholder("x")
    array = np.ones(3, np.float32)
    nodes = [graph.call_function(REGISTRY[name], (x,)) for name in ("neg", "tanh")]
    for node in nodes:
        node.meta["val"] = weft.from_numpy(array)
    graph.output(tuple(nodes))
    cheap, dear = Lowering(graph, [array], cpu).run(lambda path: None).outputs
    assert cheap.cost <= 2 < 15 < dear.cost


@pytest.mark.parametrize("kind", KINDS)
def test_all_are_lowered_but_those_that_are_known(kind: str) -> None:
    missing = {
        name
        for name, found in runs(kind).items()
        if not all(run.lowered for run in found) and name not in UNLOWERED | PARTLY
    }
    assert not missing
    assert not {name for name in UNLOWERED for run in runs(kind).get(name, ()) if run.lowered}


def kept(x: weft.Tensor) -> tuple[weft.Tensor, ...]:
    """Functions that leave a zero as it is, whatever its sign."""
    F = weft.nn.functional
    zero = weft.zeros((), dtype=x.dtype)
    made = (
        F.relu(x),
        F.relu6(x),
        F.elu(x),
        F.selu(x),
        F.celu(x, 0.7),
        F.hardtanh(x, 0.0, 1.0),
        F.leaky_relu(x),
    )
    return *made, x.clamp(0), x.clamp(max=0), x.clamp(0, 6), x.clamp(zero, zero + 1), x.clamp(-1, 1)


@pytest.mark.parametrize("kind", [weft.float32, weft.float64, weft.float16, weft.bfloat16], ids=str)
def test_zeros_keep_their_signs(kind: dtype) -> None:
    compiled = weft.compile(kept, backend="native", fullgraph=True)
    for size in (1, 3, 64, 5000):  # kernels have loops of their own for some
        for zero in (0.0, -0.0):
            x = weft.full((size,), zero, dtype=kind)
            for number, (ours, eager) in enumerate(zip(compiled(x), kept(x), strict=True)):
                assert ours.signbit().eq(x.signbit()).all(), (number, size, zero)
                assert eager.signbit().eq(x.signbit()).all(), (number, size, zero)


def test_of_two_zeros_the_first_is_the_larger_one_for_fmax() -> None:
    """As with PyTorch; NumPy gives one or the other by where an element stands."""
    compiled = weft.compile(lambda x, y: (weft.fmax(x, y), weft.fmin(x, y)), backend="native", fullgraph=True)
    x, y = weft.zeros(67), -weft.zeros(67)
    assert not any(each.signbit().any() for each in compiled(x, y))
    assert all(each.signbit().all() for each in compiled(y, x))


@pytest.mark.parametrize("kind", [weft.float32, weft.float64, weft.float16, weft.bfloat16])
@pytest.mark.parametrize("steps", [0, 1, 2, 5, 300])
def test_even_steps_between_numbers_that_vary(kind: weft.dtype, steps: int, programs: list[Any]) -> None:
    def even(x: weft.Tensor, a: float, b: float) -> tuple[weft.Tensor, ...]:
        lines = weft.linspace(a, b, steps, dtype=kind), weft.linspace(-1, b, steps, dtype=kind)
        return *[line * x for line in lines], weft.linspace(-1, 2.5, steps, dtype=kind) * x

    compiled = weft.compile(even, fullgraph=True)
    x = weft.ones(1, dtype=kind)
    for a, b in ((0.5, 0.25), (-3.7, 1e3), (0.0, -0.0), (2.0, 2.0)):
        weft.testing.assert_close(compiled(x, a, b), even(x, a, b), rtol=0, atol=0)
    is_half = kind in (weft.float16, weft.bfloat16)  # rounded after each step by the array kernel
    assert is_half or (len(programs) <= 1 and not any(each.python for each in programs))
