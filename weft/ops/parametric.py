"""Draws whose parameters are tensors: gamma, Dirichlet, Poisson and binomial numbers.

Takes tensors of parameters and a generator, gives draws in their shape. One idea: as in `weft.ops.random`, a
sampler takes (key, offset) and calls a pure op, here with a gradient: how a draw moves with its parameters
where its place in the distribution stays (Note [Implicit reparameterisation] in `weft.ops.accepted`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import weft.ops.accepted as accepted
from weft.core.arrays import Array, namespace
from weft.core.generator import Generator
from weft.core.types import TensorType
from weft.ops.families import HIDDEN, pointwise, random, sampler
from weft.ops.random import take
from weft.ops.record import broadcast_shapes, ops, type_of, unsupported
from weft.ops.samples import Maker, Sample
from weft.ops.values import TensorLike


def _common_rule(name: str) -> Callable[..., TensorType]:
    """The type rule of an op on real tensors of one dtype."""

    def rule(*types: TensorType) -> TensorType:
        for each in types:
            if not each.dtype.is_floating_point:
                raise unsupported(name, each.dtype)
            if each.dtype is not types[0].dtype:
                raise RuntimeError(f"{name}: expected tensors of one dtype")
        return TensorType(broadcast_shapes(*[each.shape for each in types]), types[0].dtype, types[0].device)

    return rule


def _pair_samples(make: Maker) -> Iterator[Sample]:
    yield Sample(make(2, 3, low=0.5, high=3.0), make(2, 3, low=0.2, high=4.0), grad=False)


standard_gamma_grad = pointwise(
    "_standard_gamma_grad", lambda x, output: accepted.gamma_slope(x, output).astype(x.dtype, copy=False),
    None, "input: Tensor, output: Tensor", rule=_common_rule("_standard_gamma_grad"), samples=_pair_samples,
    method=False, inplace=False, out=False,
)  # fmt: skip


def _dirichlet_samples(make: Maker) -> Iterator[Sample]:
    value, parameter = make(2, 3, low=0.1, high=0.9), make(2, 3, low=0.5, high=3.0)
    yield Sample(value, parameter, parameter + make(2, 3, low=0.5, high=3.0), grad=False)


dirichlet_grad = pointwise(
    "_dirichlet_grad",
    lambda x, alpha, total: accepted.dirichlet_slope(x, alpha, total).astype(x.dtype, copy=False),
    None, rule=_common_rule("_dirichlet_grad"), signature="x: Tensor, alpha: Tensor, total: Tensor",
    samples=_dirichlet_samples, method=False,
    inplace=False,
    out=False,
)  # fmt: skip


def _gamma_kernel(shape: Array, key: int, offset: int) -> Array:
    drawn = accepted.gamma(key, offset, shape)
    return namespace(shape).maximum(drawn, accepted.smallest(shape.dtype)).astype(shape.dtype)


philox_gamma = random(
    "philox_gamma", _gamma_kernel, lambda shape, _key, _offset: shape, "input: Tensor, key: int, offset: int",
    vjp=lambda g, out, shape: ops.mul(g, standard_gamma_grad(shape, out)), node="StandardGammaBackward0",
    samples=lambda make: [Sample(make(2, 3, low=0.5, high=3.0), 7, 5, grad=False)], **HIDDEN,
)  # fmt: skip


def _dirichlet_kernel(concentration: Array, key: int, offset: int) -> Array:
    drawn = namespace(concentration).maximum(accepted.gamma(key, offset, concentration), 1e-300)
    return (drawn / drawn.sum(-1, keepdims=True)).astype(concentration.dtype)


def _dirichlet_vjp(g: Any, out: Any, concentration: Any, *_rest: Any) -> Any:
    total = ops.sum(concentration, -1, True)
    inward = ops.sub(g, ops.sum(ops.mul(out, g), -1, True))
    return ops.mul(dirichlet_grad(out, concentration, total), inward)


philox_dirichlet = random(
    "philox_dirichlet", _dirichlet_kernel, lambda concentration, _key, _offset: concentration,
    "input: Tensor, key: int, offset: int", vjp=_dirichlet_vjp, node="SampleDirichletBackward0",
    samples=lambda make: [Sample(make(2, 3, low=0.5, high=3.0), 7, 5, grad=False)], **HIDDEN,
)  # fmt: skip


def _poisson_kernel(rate: Array, key: int, offset: int) -> Array:
    if not bool((rate >= 0).all()):
        raise RuntimeError("invalid Poisson rate, expected rate to be non-negative")
    return accepted.poisson(key, offset, rate).astype(rate.dtype)


philox_poisson = random(
    "philox_poisson", _poisson_kernel, lambda rate, _key, _offset: rate,
    "input: Tensor, key: int, offset: int",
    vjp=lambda g: ops.zeros_like(g), node="PoissonBackward0",
    samples=lambda make: [Sample(make(2, 3, low=0.5, high=30.0), 7, 5, grad=False)], **HIDDEN,
)  # fmt: skip


def _binomial_kernel(count: Array, chance: Array, key: int, offset: int) -> Array:
    shape = broadcast_shapes(count.shape, chance.shape)
    return accepted.binomial(key, offset, count, chance, shape).astype(count.dtype)


def _binomial_rule(count: TensorType, chance: TensorType, _key: int, _offset: int) -> TensorType:
    return TensorType(broadcast_shapes(count.shape, chance.shape), count.dtype, count.device)


philox_binomial = random(
    "philox_binomial", _binomial_kernel, _binomial_rule, "count: Tensor, prob: Tensor, key: int, offset: int",
    vjp=(
        lambda g, _out, _count: ops.new_zeros(g, _count.shape),
        lambda g, _out, _count, _prob: ops.new_zeros(g, _prob.shape),
    ),
    node="BinomialBackward0",
    samples=lambda make: [
        Sample(make(2, 1, low=5.0, high=60.0), make(3, low=0.1, high=0.9), 7, 5, grad=False)
    ],
    **HIDDEN,
)  # fmt: skip


DRAWN_FROM = "input: Tensor, generator: Generator = None"


def _tried(name: str, generator: Generator | None, *parameters: TensorLike) -> tuple[int, int]:
    """(key, offset) for draws of the parameters' common shape."""
    types = [type_of(each) for each in parameters]
    for each in types:
        if not each.dtype.is_floating_point:
            raise unsupported(name, each.dtype)
    count = math.prod(broadcast_shapes(*[each.shape for each in types]))
    return take("tried", count, types[0].dtype, generator, name)


def _rates(make: Maker) -> Iterator[Sample]:
    yield Sample(make(2, 3, low=0.5, high=20.0), grad=False)
    yield Sample(make(0, 3, low=0.5, high=20.0), grad=False)


@sampler(
    "input: Tensor, generator: Generator = None",
    "_standard_gamma",
    method=False,
    stream="tried",
    samples=_rates,
)
def standard_gamma(x: TensorLike, generator: Generator | None) -> Any:
    """Gamma numbers of these shapes, with rate one."""
    return philox_gamma(x, *_tried("gamma", generator, x))


@sampler(
    "input: Tensor, generator: Generator = None",
    "_sample_dirichlet",
    method=False,
    stream="tried",
    samples=_rates,
)
def sample_dirichlet(x: TensorLike, generator: Generator | None) -> Any:
    """Numbers that add up to one along the last dimension, of a Dirichlet distribution."""
    return philox_dirichlet(x, *_tried("dirichlet", generator, x))


@sampler(DRAWN_FROM, method=False, stream="tried", samples=_rates)
def poisson(x: TensorLike, generator: Generator | None) -> Any:
    """Poisson numbers of these rates."""
    return philox_poisson(x, *_tried("poisson", generator, x))


def _trials(make: Maker) -> Iterator[Sample]:
    yield Sample(make(2, 3, low=1.0, high=40.0), make(3, low=0.1, high=0.9), grad=False)


@sampler(
    "count: Tensor, prob: Tensor, generator: Generator = None", method=False, stream="tried", samples=_trials
)
def binomial(count: TensorLike, prob: TensorLike, generator: Generator | None) -> Any:
    """How many of so many trials of these probabilities succeed."""
    return philox_binomial(count, prob, *_tried("binomial", generator, count, prob))
