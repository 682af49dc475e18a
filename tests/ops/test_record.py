"""Suites generated from the records' samples: every op, every sample, against its own type rule, finite
differences, its in-place and out= forms, promotion, meta tensors and batching.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import weft
from tests import refusals
from weft.autograd import gradcheck, gradgradcheck
from weft.core import dtypes
from weft.core.types import TensorType
from weft.ops.batching import Batched
from weft.ops.record import REGISTRY, Kind, Op, type_of
from weft.ops.samples import Maker, Sample
from weft.ops.signature import flatten_variadic

OURS = [op for op in REGISTRY.values() if not op.qualified_name.startswith("ops.")]  # not of tests
OPS = sorted(OURS, key=lambda op: op.qualified_name)
SAMPLED = [op for op in OPS if op.samples is not None]
FLOATS = [op for op in SAMPLED if op.kind not in (Kind.RANDOM, Kind.CREATE)]


def named(ops: list[Op]) -> Any:
    return pytest.mark.parametrize("op", ops, ids=lambda op: op.qualified_name)


def samples_of(op: Op, kind: dtypes.dtype = dtypes.float64) -> list[Sample]:
    assert op.samples is not None
    return list(op.samples(Maker(kind)))


def tensors_from(value: Any, grad: bool = False) -> Any:
    """Arrays in an argument become tensors that share their strides."""
    if isinstance(value, np.ndarray):
        tensor = weft.from_numpy(value)
        return tensor.requires_grad_() if grad and value.dtype.kind == "f" else tensor
    if isinstance(value, (tuple, list)) and not hasattr(value, "_fields"):
        return type(value)(tensors_from(item, grad) for item in value)
    return value


def flat(value: Any) -> list[Any]:
    if isinstance(value, (tuple, list)):
        return [leaf for item in value for leaf in flat(item)]
    return [value]


def call(op: Op, sample: Sample, **options: Any) -> Any:
    args = tensors_from(sample.args, **options)
    kwargs = {name: tensors_from(value, **options) for name, value in sample.kwargs.items()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return op.face(*args, **kwargs)


def bound_arguments(op: Op, sample: Sample) -> tuple[Any, ...]:
    args = tuple(sample.args)
    for position, parameter in enumerate(op.signature.parameters):
        if parameter.variadic and parameter.name not in sample.kwargs:
            args = (*args[:position], flatten_variadic(args[position:]))
    return op.signature.bind(args, dict(sample.kwargs))


def test_every_op_has_samples() -> None:
    missing = [op.qualified_name for op in OPS if op.samples is None and not op.name.startswith("_")]
    assert not missing


@named([op for op in SAMPLED if op.kind not in (Kind.RANDOM, Kind.COMPOSITE)])
@pytest.mark.parametrize(
    "kind", [dtypes.float64, dtypes.float32, dtypes.bfloat16, dtypes.int64, dtypes.bool_], ids=str
)
def test_kernel_agrees_with_type_rule(op: Op, kind: dtypes.dtype) -> None:
    for sample in samples_of(op, kind):
        bound = bound_arguments(op, sample)
        try:
            expected = op.on_types(typed(bound))
        except Exception as error:
            refusals.expect(error, kind)
            continue
        if expected is None:
            continue
        for got, rule in zip(flat(op.on_arrays(bound)), flat(expected), strict=True):
            assert isinstance(got, np.ndarray), f"{op} gave {type(got)} for {sample}"
            assert type_of(got) == TensorType(rule.shape, rule.dtype), f"{op} {sample}"


def typed(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return type_of(value)
    if isinstance(value, (tuple, list)):
        return type(value)(typed(item) for item in value)
    return value


@named([op for op in FLOATS if op.vjp is not None or op.kind is Kind.COMPOSITE])
@pytest.mark.parametrize("order", [1, 2])
def test_gradients_against_finite_differences(op: Op, order: int) -> None:
    for sample in samples_of(op):
        if not sample.grad:
            continue
        leaves = [
            leaf for leaf in flat([sample.args, list(sample.kwargs.values())]) if isinstance(leaf, np.ndarray)
        ]
        leaves = [leaf for leaf in leaves if leaf.dtype.kind == "f"]
        if not leaves or not all(leaf.size for leaf in leaves):
            continue
        positions = {id(leaf): i for i, leaf in enumerate(leaves)}

        def function(*inputs: Any, sample: Sample = sample, positions: dict[int, int] = positions) -> Any:
            def place(value: Any) -> Any:
                if isinstance(value, np.ndarray):
                    return inputs[positions[id(value)]] if id(value) in positions else weft.from_numpy(value)
                if isinstance(value, (tuple, list)):
                    return type(value)(place(item) for item in value)
                return value

            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                out = op.face(*place(sample.args), **{n: place(v) for n, v in sample.kwargs.items()})
            return tuple(o for o in flat(out) if isinstance(o, weft.Tensor) and o.requires_grad)

        inputs = tuple(weft.from_numpy(np.array(leaf)).requires_grad_() for leaf in leaves)
        if not function(*inputs):
            continue
        if order == 1:
            assert gradcheck(function, inputs), f"{op} {sample}"
        else:
            assert gradgradcheck(function, inputs), f"{op} {sample}"


@named([op for op in FLOATS if (op.function or op.method) and op.name != "svd"])
def test_complex_gradients_along_a_direction(op: Op) -> None:
    """For every sample that complex numbers fit: gradients, and gradients of those, in one random direction.
    (Singular vectors have phases of their own: not here.)
    """
    for sample in samples_of(op, dtypes.complex128)[:3]:
        if not sample.grad:
            continue
        arrays = [a for a in flat([sample.args, list(sample.kwargs.values())]) if isinstance(a, np.ndarray)]
        if any(a.dtype.kind == "c" and not a.size for a in arrays):
            continue
        try:
            out = call(op, sample)
        except Exception as error:
            refusals.expect(error, dtypes.complex128)
            continue
        if any(
            isinstance(o, weft.Tensor) and o.is_complex() or a.dtype.kind == "c"
            for o in flat(out)
            for a in arrays
        ):
            check_direction(op, sample)


def check_direction(op: Op, sample: Sample) -> None:
    random = np.random.default_rng(0)

    def noise(like: Any) -> Any:
        part = random.standard_normal(like.shape)
        return part + 1j * random.standard_normal(like.shape) if like.dtype.kind == "c" else part

    leaves = [a for a in flat([sample.args, list(sample.kwargs.values())]) if isinstance(a, np.ndarray)]
    leaves = [a for a in leaves if a.dtype.kind in "fc"]
    positions = {id(a): i for i, a in enumerate(leaves)}
    first, second = ([np.asarray(noise(a)) for a in leaves] for _ in range(2))
    weights: list[Any] = []

    def loss(inputs: list[Any]) -> Any:
        def place(value: Any) -> Any:
            if isinstance(value, np.ndarray):
                return inputs[positions[id(value)]] if id(value) in positions else weft.from_numpy(value)
            return type(value)(map(place, value)) if isinstance(value, (tuple, list)) else value

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            outs = flat(op.face(*place(sample.args), **{n: place(v) for n, v in sample.kwargs.items()}))
        outs = [o for o in outs if isinstance(o, weft.Tensor) and o.requires_grad]
        if not weights:
            weights.extend(weft.from_numpy(np.asarray(noise(o.detach().numpy()))) for o in outs)
        total = sum(((o * w.conj()).sum() for o, w in zip(outs, weights, strict=True)), weft.zeros(()))
        return total.real if total.is_complex() else total

    def moved(steps: list[Any], size: float) -> list[Any]:
        return [
            weft.from_numpy(np.asarray(a + size * d)).requires_grad_()
            for a, d in zip(leaves, steps, strict=True)
        ]

    def slope(inputs: list[Any], steps: list[Any], graph: bool) -> Any:
        value = loss(inputs)
        if not value.requires_grad:
            return value
        found = weft.autograd.grad(value, inputs, create_graph=graph, allow_unused=True)
        parts = [
            (g.conj() * weft.from_numpy(d)).sum() for g, d in zip(found, steps, strict=True) if g is not None
        ]
        total = sum(parts, weft.zeros(()))
        return total.real if total.is_complex() else total

    size = 1e-6
    exact = slope(moved(first, 0), first, False).item()
    close = (loss(moved(first, size)) - loss(moved(first, -size))).item() / (2 * size)
    np.testing.assert_allclose(exact, close, rtol=1e-5, atol=1e-6, err_msg=f"{op} {sample}")
    inputs = moved(first, 0)
    once = slope(inputs, first, True)
    if not once.requires_grad:
        return
    twice = weft.autograd.grad(once, inputs, allow_unused=True)
    exact = sum(
        (g.conj() * weft.from_numpy(d)).sum().real.item()
        for g, d in zip(twice, second, strict=True)
        if g is not None
    )
    close = (slope(moved(second, size), first, False) - slope(moved(second, -size), first, False)).item()
    np.testing.assert_allclose(exact, close / (2 * size), rtol=1e-4, atol=1e-5, err_msg=f"{op} {sample}")


@named([op for op in FLOATS if op.inplace])
def test_inplace_form_equals_functional_form(op: Op) -> None:
    method = getattr(weft.Tensor, op.name + "_")
    for sample in samples_of(op):
        expected = call(op, sample)
        target = sample.args[0]
        if (
            expected.shape != target.shape
            or type_of(expected).dtype.category > type_of(target).dtype.category
        ):
            continue
        args = tensors_from(tuple(np.array(a) if isinstance(a, np.ndarray) else a for a in sample.args))
        kwargs = {name: tensors_from(value) for name, value in sample.kwargs.items()}
        result = method(*args, **kwargs)
        assert result is args[0]
        assert result._version == 1
        np.testing.assert_array_equal(result.numpy(), expected.to(result.dtype).numpy())


@named([op for op in FLOATS if op.out])
def test_out_form_equals_functional_form(op: Op) -> None:
    for sample in samples_of(op):
        expected = call(op, sample)
        args = tensors_from(sample.args)
        kwargs = {name: tensors_from(value) for name, value in sample.kwargs.items()}
        single = isinstance(expected, weft.Tensor)
        targets = tuple(weft.empty(e.shape, dtype=e.dtype) for e in flat(expected))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = op.face(*args, **kwargs, out=targets[0] if single else targets)
        for got, target, want in zip(flat(result), targets, flat(expected), strict=True):
            assert got is target
            np.testing.assert_array_equal(got.numpy(), want.numpy())


@named([op for op in FLOATS if op.kind is not Kind.COMPOSITE])
def test_meta_tensors_follow_the_type_rule(op: Op) -> None:
    for sample in samples_of(op):
        real = call(op, sample)
        args, kwargs = (
            on_meta(tensors_from(sample.args)),
            {n: on_meta(tensors_from(v)) for n, v in sample.kwargs.items()},
        )
        try:
            meta = op.face(*args, **kwargs)
        except NotImplementedError as error:
            assert "the result's shape depends on values" in str(error), f"{op} {sample}: {error}"
            continue
        for got, want in zip(flat(meta), flat(real), strict=True):
            assert (got.shape, got.dtype, got.device.type) == (want.shape, want.dtype, "meta"), (
                f"{op} {sample}"
            )


def on_meta(value: Any) -> Any:
    if isinstance(value, weft.Tensor):
        return value.to("meta")
    if isinstance(value, (tuple, list)):
        return type(value)(on_meta(item) for item in value)
    return value


BINARY = [op for op in SAMPLED if op.promotion is not None and len(op.signature.tensor_slots) == 2]


OF_PAIRS: tuple[refusals.Words, ...] = (
    (NotImplementedError, r"\"\w+\" not implemented for '\w+'"),
    (RuntimeError, r"Expected both inputs to be Half, Float or Double tensors but got \w+ and \w+"),
    (RuntimeError, r"Expected object of scalar type \w+ but got scalar type \w+ for second argument"),
    (RuntimeError, r"\w+ did not match \w+"),
    (RuntimeError, r"heaviside is not yet implemented for tensors with different dtypes\."),
    (RuntimeError, r"all elements of target should be between 0 and 1"),
    (RuntimeError, r"Promotion for uint16, uint32, uint64 types is not supported, attempted to promote .*"),
    *refusals.OF_BOOLS,
    *refusals.OF_COMPLEX_NUMBERS,
)


@named(BINARY)
def test_promotion_of_every_dtype_pair(op: Op) -> None:
    """Kernel and rule agree on the dtype for tensors, zero-dim tensors and numbers of every kind."""
    numbers = [True, 2, 1.5, 1 + 1j]
    for left in dtypes.ALL:
        a = np.ones((2,), left.numpy)
        for right in [
            *[np.ones((2,), d.numpy) for d in dtypes.ALL],
            *[np.ones((), d.numpy) for d in dtypes.ALL],
            *numbers,
        ]:
            bound = op.signature.bind((a, right), {})
            try:
                rule = op.on_types(typed(bound))
                out = op.on_arrays(bound)
            except (RuntimeError, NotImplementedError) as error:
                assert refusals.is_listed(error, OF_PAIRS), f"{op} {left} {right}: {error}"
                continue
            assert type_of(out).dtype is rule.dtype, (op, left, right)


@named(FLOATS)
def test_batching_equals_example_by_example(op: Op) -> None:
    """A batch of three, in front or last, for the first tensor alone and for all tensors."""
    for sample in samples_of(op):
        bound = bound_arguments(op, sample)
        spots = [
            i for i, value in enumerate(bound) if isinstance(value, np.ndarray) and value.dtype.kind == "f"
        ]
        lists = [i for i in op.signature.list_slots if bound[i]]
        if not spots and not lists:
            continue
        for chosen in {tuple(spots[:1]), tuple(spots)}:
            for last in (False, True):
                check_batch(op, bound, chosen, lists, last)


def check_batch(
    op: Op, bound: tuple[Any, ...], chosen: tuple[int, ...], lists: list[int], last: bool
) -> None:
    factors = (1.0, 0.75, 0.5)

    def examples(value: Any, position: int, factor: float) -> Any:
        if position in chosen:
            return np.array(value * factor, dtype=value.dtype)
        if position in lists:
            return type(value)(
                np.array(v * factor, dtype=v.dtype) if v.dtype.kind == "f" else v for v in value
            )
        return value

    def batched(value: Any, position: int) -> Any:
        def one(array: Any) -> Batched:
            stacked = np.stack([array * f for f in factors], array.ndim if last else 0)
            return Batched(stacked, array.ndim if last else 0, 3)

        if position in chosen:
            return one(value)
        if position in lists:
            return type(value)(one(v) if v.dtype.kind == "f" else v for v in value)
        return value

    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        singles = [op(*[examples(v, i, f) for i, v in enumerate(bound)]) for f in factors]
        result = op(*[batched(v, i) for i, v in enumerate(bound)])
    for position, got in enumerate(flat(result)):
        wanted = np.stack([flat(single)[position] for single in singles])
        value = np.moveaxis(got.value, got.dim, 0) if isinstance(got, Batched) else np.stack([got] * 3)
        assert value.dtype == wanted.dtype, f"{op} {bound}"
        np.testing.assert_allclose(
            value, wanted, rtol=1e-6, atol=1e-9, err_msg=f"{op} {bound} {chosen} {last}"
        )


def test_kernels_called_alone_teach_nothing_that_rules_refuse() -> None:
    op = REGISTRY["lerp"]
    whole = np.arange(3)
    op.on_arrays((whole, whole, np.ones(3, np.int64)))
    with pytest.raises(NotImplementedError, match="not implemented for 'Long'"):
        weft.lerp(weft.tensor([1, 2]), weft.tensor([3, 4]), weft.tensor([1, 1]))
