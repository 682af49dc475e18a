"""Comparing two distributions: `kl_divergence`."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from weft.distributions.continuous import Exponential, Laplace, LogNormal, Normal, Uniform
from weft.distributions.discrete import Bernoulli, Categorical, Geometric, OneHotCategorical
from weft.distributions.distribution import Distribution
from weft.distributions.multivariate import Independent, MultivariateNormal, solve_triangular
from weft.ops.record import ops

Rule = Callable[[Any, Any], Any]
_RULES: dict[tuple[type, type], Rule] = {}


def register_kl(type_p: type, type_q: type) -> Callable[[Rule], Rule]:
    """Decorator: how distributions of two classes are compared by `kl_divergence`."""
    if not (isinstance(type_p, type) and issubclass(type_p, Distribution)):
        raise TypeError(f"Expected type_p to be a Distribution subclass but got {type_p}")

    def register(rule: Rule) -> Rule:
        _RULES[type_p, type_q] = rule
        return rule

    return register


def kl_divergence(p: Any, q: Any) -> Any:
    """How much draws of `p` are surprised by `q`: the mean of `p.log_prob - q.log_prob` over them."""
    for first in type(p).__mro__:
        for second in type(q).__mro__:
            rule = _RULES.get((first, second))
            if rule is not None:
                return rule(p, q)
    raise NotImplementedError(f"No KL(p || q) is implemented for p type {type(p).__name__} and q type "
                              f"{type(q).__name__}")  # fmt: skip


def _softplus(value: Any) -> Any:
    return value.clamp(min=0) + (-value.abs()).exp().log1p()


@register_kl(Normal, Normal)
def _normal(p: Any, q: Any) -> Any:
    ratio = (p.scale / q.scale).square()
    return 0.5 * (ratio + ((p.loc - q.loc) / q.scale).square() - 1 - ratio.log())


@register_kl(LogNormal, LogNormal)
def _log_normal(p: Any, q: Any) -> Any:
    return _normal(p.base_dist, q.base_dist)


@register_kl(Bernoulli, Bernoulli)
def _bernoulli(p: Any, q: Any) -> Any:
    first = p.probs * (_softplus(-q.logits) - _softplus(-p.logits))
    return first + (1 - p.probs) * (_softplus(q.logits) - _softplus(p.logits))


@register_kl(Categorical, Categorical)
def _categorical(p: Any, q: Any) -> Any:
    terms = p.probs * (p.logits - q.logits)
    terms = ops.where(q.probs == 0, math.inf, terms)
    return ops.where(p.probs == 0, 0.0, terms).sum(-1)


@register_kl(OneHotCategorical, OneHotCategorical)
def _one_hot(p: Any, q: Any) -> Any:
    return _categorical(p._categorical, q._categorical)


@register_kl(Exponential, Exponential)
def _exponential(p: Any, q: Any) -> Any:
    ratio = q.rate / p.rate
    return -ratio.log() + ratio - 1


@register_kl(Laplace, Laplace)
def _laplace(p: Any, q: Any) -> Any:
    ratio, apart = p.scale / q.scale, (p.loc - q.loc).abs()
    return -ratio.log() + apart / q.scale + ratio * (-apart / p.scale).exp() - 1


@register_kl(Uniform, Uniform)
def _uniform(p: Any, q: Any) -> Any:
    result = ((q.high - q.low) / (p.high - p.low)).log()
    return ops.where((q.low > p.low) | (q.high < p.high), math.inf, result)


@register_kl(Geometric, Geometric)
def _geometric(p: Any, q: Any) -> Any:
    return -p.entropy() - (-q.probs).log1p() / p.probs - q.logits


@register_kl(MultivariateNormal, MultivariateNormal)
def _multivariate(p: Any, q: Any) -> Any:
    if p.event_shape != q.event_shape:
        raise ValueError(
            "KL-divergence between two Multivariate Normals with different event shapes cannot be computed"
        )
    mine, other = p._unbroadcasted_scale_tril, q._unbroadcasted_scale_tril
    spread = solve_triangular(other, mine, upper=False).square().sum((-2, -1))
    apart = solve_triangular(other, (q.loc - p.loc).unsqueeze(-1), upper=False)
    distance = apart.squeeze(-1).square().sum(-1)
    return q._half_log_det() - p._half_log_det() + 0.5 * (spread + distance - p.event_shape[0])


@register_kl(Independent, Independent)
def _independent(p: Any, q: Any) -> Any:
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError
    return p._summed(kl_divergence(p.base_dist, q.base_dist))
