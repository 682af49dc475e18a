"""DualTensor: the forward rule of every op, and duals that are written to."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import weft
from tests import refusals, wide
from weft.autograd.dual import Directions, dual, merged, split
from weft.func import jvp, vjp, vmap
from weft.ops.record import REGISTRY, Kind, Op
from weft.ops.samples import Maker, Sample

OPS = [
    op
    for op in sorted(REGISTRY.values(), key=lambda op: op.qualified_name)
    if op.samples is not None and op.kind not in (Kind.RANDOM, Kind.CREATE) and "philox" not in op.name
]


def tensors(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return weft.from_numpy(value)
    if isinstance(value, (tuple, list)) and not hasattr(value, "_fields"):
        return type(value)(tensors(item) for item in value)
    return value


def floats(value: Any) -> list[Any]:
    if isinstance(value, (tuple, list)):
        return [leaf for item in value for leaf in floats(item)]
    return [value] if isinstance(value, np.ndarray) and value.dtype.kind == "f" else []


def function_of(op: Op, sample: Sample, leaves: list[Any]) -> Any:
    """The op as a function of its float arguments, giving its float results."""
    numbers = {id(leaf): i for i, leaf in enumerate(leaves)}

    def function(*values: Any) -> Any:
        def place(value: Any) -> Any:
            if id(value) in numbers:
                return values[numbers[id(value)]]
            if isinstance(value, (tuple, list)) and not hasattr(value, "_fields"):
                return type(value)(place(item) for item in value)
            return tensors(value)

        out = op.face(*place(sample.args), **{name: place(value) for name, value in sample.kwargs.items()})
        results = out if isinstance(out, (tuple, list)) else (out,)
        return tuple(o for o in results if isinstance(o, weft.Tensor) and o.is_floating_point())

    return function


@wide.over(OPS)
def test_forward_rule_is_the_transpose_of_the_gradient(op: Op) -> None:
    """<v, J t> = <J' v, t>, and a batch of tangents gives the batch of results; J' itself is tested
    elsewhere."""
    maker = np.random.default_rng(3)
    assert op.samples is not None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for sample in op.samples(Maker()):
            leaves = floats([sample.args, list(sample.kwargs.values())])
            if not sample.grad or not leaves or not all(leaf.size for leaf in leaves):
                continue
            if op.vjp is None and not op.composed:
                continue
            function = function_of(op, sample, leaves)
            primals = tuple(tensors(leaf) for leaf in leaves)
            moves = tuple(weft.from_numpy(np.asarray(maker.normal(size=leaf.shape))) for leaf in leaves)
            try:
                if not function(*primals):
                    continue  # complex
                outputs, pull = vjp(function, *primals)
            except NotImplementedError as error:
                refusals.expect(error, weft.float64, *refusals.OF_GRADIENTS)
                continue
            seeds = tuple(weft.from_numpy(np.asarray(maker.normal(size=tuple(o.shape)))) for o in outputs)
            expected = sum((g * t).sum().item() for g, t in zip(pull(seeds), moves, strict=True))
            found = jvp(function, primals, moves)[1]
            got = sum((v * d).sum().item() for v, d in zip(seeds, found, strict=True))
            assert got == pytest.approx(expected, rel=1e-7, abs=1e-9), sample
            pairs = tuple(weft.stack([move, 2 * move]) for move in moves)
            both = vmap(lambda *t, f=function, p=primals: jvp(f, p, t)[1])(*pairs)
            for pair, single in zip(both, found, strict=True):
                np.testing.assert_allclose(pair[1].numpy(), 2 * single.numpy(), rtol=1e-7, atol=1e-9)


X = weft.tensor([1.0, 2.0, 3.0])


def moved(function: Any) -> tuple[list[float], list[float]]:
    value, move = jvp(function, (X,), (X,))
    return value.tolist(), move.tolist()


def test_constants_become_duals_by_writing() -> None:
    def filled(x: Any) -> Any:
        z = weft.zeros(3)
        z[0] = x[0]
        z.add_(x)
        return z

    assert moved(filled) == ([2, 2, 3], [2, 2, 3])

    def through_a_view(x: Any) -> Any:
        z = weft.zeros(3)
        tail = z[1:]
        tail.copy_(x[1:])
        tail.mul_(x[:2])
        return z

    assert moved(through_a_view) == ([0, 2, 6], [0, 4, 12])

    def like(x: Any) -> Any:
        z = weft.zeros_like(x)
        z[0] = x[0]
        return z + x

    assert vmap(lambda x: jvp(like, (x,), (x,))[1])(weft.stack([X, X])).tolist() == [[2, 2, 3]] * 2
    assert weft.func.jacfwd(filled)(X).tolist() == [[2, 0, 0], [0, 1, 0], [0, 0, 1]]


def test_captured_tensors_are_plain_again_afterwards() -> None:
    captured = weft.zeros(3)
    assert moved(lambda x: captured.add_(x)) == ([1, 2, 3], [1, 2, 3])
    assert type(captured) is weft.Tensor and captured.tolist() == [1, 2, 3]
    kept: list[Any] = []
    jvp(lambda x: (kept.append(x * 2), x)[1], (X,), (X,))
    assert type(kept[0]) is weft.Tensor and kept[0].tolist() == [2, 4, 6]


def test_writing_does_not_reach_other_tangents() -> None:
    tangent = weft.ones(3)

    def function(x: Any) -> Any:
        y = x + 1
        view = y[1:]
        y.mul_(2)
        view.mul_(x[:2])
        return x, y

    (_, second), (first_move, second_move) = jvp(function, (X.clone(),), (tangent,))
    assert first_move.tolist() == [1, 1, 1] and tangent.tolist() == [1, 1, 1]
    assert second.tolist() == [4, 6, 16] and second_move.tolist() == [2, 8, 12]


def test_overwriting_with_constants_stops_the_movement() -> None:
    assert moved(lambda x: x.clone().zero_()) == ([0, 0, 0], [0, 0, 0])
    assert moved(lambda x: (x * 2).fill_(5)) == ([5, 5, 5], [0, 0, 0])

    def partly(x: Any) -> Any:
        y = x * 2
        y[0] = 7.0
        return y

    assert moved(partly) == ([7, 4, 6], [0, 4, 6])


def test_values_can_be_read() -> None:
    def look(x: Any) -> Any:
        assert x[0].item() == 1 and float(x[1]) == 2 and x.tolist() == [1, 2, 3] and bool(x[0] > 0)
        assert x.numpy().tolist() == [1, 2, 3] and not isinstance(x.detach(), type(x))
        return x

    moved(look)


def test_split_and_merged_are_inverses_under_other_levels() -> None:
    outer, inner = Directions(), Directions()
    nested = dual(dual(X, X * 2, outer), dual(X * 3, X * 4, outer), inner)
    primal, tangent = split(nested, outer)
    assert primal.tangent.tolist() == [3, 6, 9] and tangent.primal.tolist() == [2, 4, 6]
    again: Any = merged(primal, tangent, outer)
    assert again.level is inner and again.primal.tangent.tolist() == [2, 4, 6]
    assert again.tangent.tangent.tolist() == [4, 8, 12]


def test_views_that_there_are_move_with_a_base_that_is_written() -> None:
    def f(x: Any) -> Any:
        base = x.detach() * 0
        whole, part = base[:], base[1:]
        inner = part[:1]
        apart = base.clone()
        base.copy_(x)
        return inner, part * 2, whole, apart

    tangents = jvp(f, (X,), (weft.tensor([1.0, 2.0, 3.0]),))[1]
    assert [t.tolist() for t in tangents] == [[2], [4, 6], [1, 2, 3], [0, 0, 0]]


def test_views_of_what_was_written_are_plain_again_afterwards() -> None:
    base = weft.zeros(3)
    part = base[1:]
    jvp(lambda x: base.copy_(x).sum(), (X,), (X,))
    assert type(part) is weft.Tensor and type(base) is weft.Tensor
    part.add_(1)
    assert base.tolist() == [1, 3, 4] and part._base is base
