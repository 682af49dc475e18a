"""Comparing two distributions: `kl_divergence`.

Takes two distributions, gives how much draws of the first are surprised by the second. One idea: the
divergence is the mean of -log q over draws of p, less p's entropy; for most pairs that mean needs only a few
means of p (of x, x squared, log x, log(1 - x), exp(-c x)), so what is known is two tables: means by p, and
formulas of them by q.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from weft.autograd import grad
from weft.core.warn import warn
from weft.distributions.continuous import (
    LOG_2_PI,
    Cauchy,
    Exponential,
    Gumbel,
    Laplace,
    Normal,
    Uniform,
)
from weft.distributions.discrete import (
    Bernoulli,
    Binomial,
    Categorical,
    ContinuousBernoulli,
    Geometric,
    OneHotCategorical,
    Poisson,
)
from weft.distributions.distribution import ExponentialFamily
from weft.distributions.gamma import Beta, Dirichlet, Gamma
from weft.distributions.multivariate import (
    Independent,
    LowRankMultivariateNormal,
    MultivariateNormal,
    solve_triangular,
)
from weft.distributions.transformed import HalfNormal, Pareto, TransformedDistribution
from weft.distributions.transforms import softplus
from weft.distributions.utils import euler_constant, sum_rightmost
from weft.ops.record import ops

__all__ = ["kl_divergence", "register_kl"]

Rule = Callable[[Any, Any], Any]
_KL_REGISTRY: dict[tuple[type, type], Rule] = {}


def register_kl(type_p: type, type_q: type) -> Callable[[Rule], Rule]:
    """Decorator: how distributions of two classes are compared by `kl_divergence`."""
    for name, kind in (("type_p", type_p), ("type_q", type_q)):
        if not isinstance(kind, type):
            raise TypeError(f"Expected {name} to be a Distribution subclass but got {kind}")

    def register(rule: Rule) -> Rule:
        _KL_REGISTRY[type_p, type_q] = rule
        return rule

    return register


def _dispatch_kl(type_p: type, type_q: type) -> Any:
    """The rule for two classes: that of the nearest bases. Where p and q each have their own nearest, p's."""
    fitting = [
        (type_p.__mro__.index(p), type_q.__mro__.index(q), p, q)
        for p, q in _KL_REGISTRY
        if issubclass(type_p, p) and issubclass(type_q, q)
    ]
    if not fitting:
        return NotImplemented
    left, right = min(fitting), min(fitting, key=lambda found: (found[1], found[0]))
    if left[2:] != right[2:]:
        one, other = (
            ", ".join(kind.__name__ for kind in left[2:]),
            ", ".join(kind.__name__ for kind in right[2:]),
        )
        warn(
            f"Ambiguous kl_divergence({type_p.__name__}, {type_q.__name__}). Please register_kl({one}) or "
            f"({other})",
            "RuntimeWarning",
        )
    return _KL_REGISTRY[left[2:]]


def kl_divergence(p: Any, q: Any) -> Any:
    """How much draws of `p` are surprised by `q`: the mean of `p.log_prob - q.log_prob` over them."""
    rule = _dispatch_kl(type(p), type(q))
    if rule is NotImplemented:
        raise NotImplementedError(
            f"No KL(p || q) is implemented for p type {type(p).__name__} and q type {type(q).__name__}"
        )
    return rule(p, q)


# -- pairs of one family -------------------------------------------------------------------------------------
@register_kl(ExponentialFamily, ExponentialFamily)
def _family(p: Any, q: Any) -> Any:
    """Bregman's divergence of the normaliser."""
    if type(p) is not type(q):
        raise NotImplementedError(
            "The cross KL-divergence between different exponential families cannot be computed using Bregman "
            "divergences"
        )
    mine = [each.detach().requires_grad_() for each in p._natural_params]
    other = q._natural_params
    normalizer = p._log_normalizer(*mine)
    slopes = grad(normalizer.sum(), mine, create_graph=True)
    result = q._log_normalizer(*other) - normalizer
    for first, second, slope in zip(mine, other, slopes, strict=True):
        result = result - sum_rightmost((second - first) * slope, len(q.event_shape))
    return result


@register_kl(Normal, Normal)
def _normal(p: Any, q: Any) -> Any:
    ratio = (p.scale / q.scale).square()
    return 0.5 * (ratio + ((p.loc - q.loc) / q.scale).square() - 1 - ratio.log())


@register_kl(HalfNormal, HalfNormal)
def _half_normal(p: Any, q: Any) -> Any:
    return _normal(p.base_dist, q.base_dist)


@register_kl(Bernoulli, Bernoulli)
def _bernoulli(p: Any, q: Any) -> Any:
    yes = p.probs * (softplus(-q.logits) - softplus(-p.logits))
    no = (1 - p.probs) * (softplus(q.logits) - softplus(p.logits))
    yes = ops.where(p.probs == 0, 0.0, ops.where(q.probs == 0, math.inf, yes))
    return yes + ops.where(p.probs == 1, 0.0, ops.where(q.probs == 1, math.inf, no))


@register_kl(Binomial, Binomial)
def _binomial(p: Any, q: Any) -> Any:
    if (p.total_count < q.total_count).any():
        raise NotImplementedError(
            "KL between Binomials where q.total_count > p.total_count is not implemented"
        )
    inside = p.total_count * (p.probs * (p.logits - q.logits) + (-p.probs).log1p() - (-q.probs).log1p())
    return ops.where(p.total_count > q.total_count, math.inf, inside)


@register_kl(Categorical, Categorical)
def _categorical(p: Any, q: Any) -> Any:
    terms = p.probs * (p.logits - q.logits)
    terms = ops.where(q.probs == 0, math.inf, terms)
    return ops.where(p.probs == 0, 0.0, terms).sum(-1)


@register_kl(OneHotCategorical, OneHotCategorical)
def _one_hot(p: Any, q: Any) -> Any:
    return _categorical(p._categorical, q._categorical)


@register_kl(ContinuousBernoulli, ContinuousBernoulli)
def _continuous_bernoulli(p: Any, q: Any) -> Any:
    linear = p.mean * (p.logits - q.logits)
    constants = p._cont_bern_log_norm() - q._cont_bern_log_norm()
    return linear + constants + (-p.probs).log1p() - (-q.probs).log1p()


@register_kl(Beta, Beta)
def _beta(p: Any, q: Any) -> Any:
    return _dirichlet(p._dirichlet, q._dirichlet)


@register_kl(Dirichlet, Dirichlet)
def _dirichlet(p: Any, q: Any) -> Any:
    mine, other = p.concentration, q.concentration
    total = mine.sum(-1)
    constants = total.lgamma() - other.sum(-1).lgamma() - (mine.lgamma() - other.lgamma()).sum(-1)
    return constants + ((mine - other) * (mine.digamma() - total.digamma().unsqueeze(-1))).sum(-1)


@register_kl(Exponential, Exponential)
def _exponential(p: Any, q: Any) -> Any:
    ratio = q.rate / p.rate
    return -ratio.log() + ratio - 1


@register_kl(Gamma, Gamma)
def _gamma(p: Any, q: Any) -> Any:
    a, b = p.concentration, q.concentration
    constants = b * (p.rate / q.rate).log() + b.lgamma() - a.lgamma()
    return constants + (a - b) * a.digamma() + (q.rate - p.rate) * (a / p.rate)


@register_kl(Gumbel, Gumbel)
def _gumbel(p: Any, q: Any) -> Any:
    ratio = p.scale / q.scale
    apart = q.loc / q.scale - p.loc / q.scale
    return (
        -ratio.log()
        - apart
        + ratio * euler_constant
        + (apart + (1 + ratio).lgamma()).exp()
        - (1 + euler_constant)
    )


@register_kl(Geometric, Geometric)
def _geometric(p: Any, q: Any) -> Any:
    return -p.entropy() - (-q.probs).log1p() / p.probs - q.logits


@register_kl(Laplace, Laplace)
def _laplace(p: Any, q: Any) -> Any:
    ratio, apart = p.scale / q.scale, (p.loc - q.loc).abs()
    return -ratio.log() + apart / q.scale + ratio * (-apart / p.scale).exp() - 1


@register_kl(Pareto, Pareto)
def _pareto(p: Any, q: Any) -> Any:
    ratio, power = p.scale / q.scale, q.alpha / p.alpha
    result = q.alpha * ratio.log() - power.log() + power - 1
    return ops.where(p.scale < q.scale, math.inf, result)


@register_kl(Poisson, Poisson)
def _poisson(p: Any, q: Any) -> Any:
    return p.rate * (p.rate.log() - q.rate.log()) - (p.rate - q.rate)


@register_kl(Uniform, Uniform)
def _uniform(p: Any, q: Any) -> Any:
    result = ((q.high - q.low) / (p.high - p.low)).log()
    return ops.where((q.low > p.low) | (q.high < p.high), math.inf, result)


@register_kl(Cauchy, Cauchy)
def _cauchy(p: Any, q: Any) -> Any:
    spread = (p.scale + q.scale).square() + (p.loc - q.loc).square()
    return spread.log() - (4 * p.scale * q.scale).log()


@register_kl(TransformedDistribution, TransformedDistribution)
def _transformed(p: Any, q: Any) -> Any:
    if p.transforms != q.transforms:
        raise NotImplementedError
    if p.event_shape != q.event_shape:
        raise NotImplementedError
    return kl_divergence(p.base_dist, q.base_dist)


@register_kl(Independent, Independent)
def _independent(p: Any, q: Any) -> Any:
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError
    return p._summed(kl_divergence(p.base_dist, q.base_dist))


# -- normal vectors ------------------------------------------------------------------------------------------
def _parts(d: Any) -> Any:
    """Matrices whose outer products add up to the covariance, side by side."""
    if isinstance(d, MultivariateNormal):
        return d._unbroadcasted_scale_tril
    factor, diag = d._unbroadcasted_cov_factor, d._unbroadcasted_cov_diag.sqrt().diag_embed()
    shape = ops.broadcast_tensors([factor[..., 0, 0], diag[..., 0, 0]])[0].shape
    return ops.cat([factor.expand((*shape, *factor.shape[-2:])), diag.expand((*shape, *diag.shape[-2:]))], -1)


def _log_determinant(d: Any) -> Any:
    return 2 * d._half_log_det() if isinstance(d, MultivariateNormal) else d._log_det()


def _normal_vectors(p: Any, q: Any) -> Any:
    if p.event_shape != q.event_shape:
        kinds = (
            "Multivariate Normals" if isinstance(p, MultivariateNormal) else "Low Rank Multivariate Normals"
        )
        raise ValueError(f"KL-divergence between two {kinds} with different event shapes cannot be computed")
    apart = q.loc - p.loc
    if isinstance(q, MultivariateNormal):
        factor = q._unbroadcasted_scale_tril
        spread = solve_triangular(factor, _parts(p), upper=False).square().sum((-2, -1))
        distance = solve_triangular(factor, apart.unsqueeze(-1), upper=False).square().sum((-2, -1))
    else:
        spread = q._distance(_parts(p).movedim(-1, 0)).sum(0)
        distance = q._distance(apart)
    return 0.5 * (_log_determinant(q) - _log_determinant(p) + spread + distance - p.event_shape[0])


for _first in (MultivariateNormal, LowRankMultivariateNormal):
    for _second in (MultivariateNormal, LowRankMultivariateNormal):
        register_kl(_first, _second)(_normal_vectors)


# -- pairs by means ------------------------------------------------------------------------------------------
# Note [Divergence by means]
# `_MEANS[P]` gives means over draws of p by their names: of log x, of log(1 - x), of exp(-c x) (a
# function of c), and "low" and "high", between which p lies. Those of x and of its square are p's own.
# `_SURPRISE[Q]` is the mean of -log q, from these. Where p may fall where q cannot, it is infinite.
Means = dict[str, Callable[..., Any]]
_MEANS: dict[type, Means] = {
    Beta: {
        "of_log": lambda p: p.concentration1.digamma() - (p.concentration1 + p.concentration0).digamma(),
        "of_log1m": lambda p: p.concentration0.digamma() - (p.concentration1 + p.concentration0).digamma(),
        "low": lambda p: ops.zeros_like(p.concentration1), "high": lambda p: ops.ones_like(p.concentration1),
    },
    ContinuousBernoulli: {
        "low": lambda p: ops.zeros_like(p.probs), "high": lambda p: ops.ones_like(p.probs),
    },
    Exponential: {
        "of_log": lambda p: -euler_constant - p.rate.log(),
        "of_exp": lambda p, c: p.rate / (p.rate + c),
    },
    Gamma: {
        "of_log": lambda p: p.concentration.digamma() - p.rate.log(),
        "of_exp": lambda p, c: (1 + c / p.rate).pow(-p.concentration),
    },
    Gumbel: {},
    Laplace: {},
    Normal: {"of_exp": lambda p, c: (-c * p.loc + 0.5 * (c * p.scale).square()).exp()},
    Pareto: {"of_log": lambda p: p.scale.log() + 1 / p.alpha},
    Uniform: {
        "of_log": lambda p: (ops.xlogy(p.high, p.high) - ops.xlogy(p.low, p.low)) / (p.high - p.low) - 1,
        "of_log1m": lambda p: (ops.xlogy(1 - p.low, 1 - p.low) - ops.xlogy(1 - p.high, 1 - p.high))
        / (p.high - p.low) - 1,
        "of_exp": lambda p, c: ((-c * p.low).exp() - (-c * p.high).exp()) / (c * (p.high - p.low)),
        "low": lambda p: p.low, "high": lambda p: p.high,
    },
}  # fmt: skip


def _outside(p: Any, means: Means, low: Any, high: Any) -> Any:
    """Where p reaches beyond these bounds."""
    return (means["low"](p) < low) | (means["high"](p) > high)


def _by_normal(p: Any, q: Any, means: Means) -> Any:
    second = p.variance + (p.mean - q.loc).square()
    return q.scale.log() + LOG_2_PI / 2 + second / (2 * q.scale.square())


def _by_gamma(p: Any, q: Any, means: Means) -> Any:
    a = q.concentration
    return a.lgamma() - a * q.rate.log() - (a - 1) * means["of_log"](p) + q.rate * p.mean


def _by_gumbel(p: Any, q: Any, means: Means) -> Any:
    beyond = (q.loc / q.scale).exp() * means["of_exp"](p, 1 / q.scale)
    return q.scale.log() + (p.mean - q.loc) / q.scale + beyond


def _by_beta(p: Any, q: Any, means: Means) -> Any:
    a, b = q.concentration1, q.concentration0
    constant = a.lgamma() + b.lgamma() - (a + b).lgamma()
    return constant - (a - 1) * means["of_log"](p) - (b - 1) * means["of_log1m"](p)


def _by_continuous_bernoulli(p: Any, q: Any, means: Means) -> Any:
    return -(p.mean * q.logits + (-q.probs).log1p() + q._cont_bern_log_norm())


_SURPRISE: dict[type, Callable[[Any, Any, Means], Any]] = {
    Beta: _by_beta,
    ContinuousBernoulli: _by_continuous_bernoulli,
    Exponential: lambda p, q, means: q.rate * p.mean - q.rate.log(),
    Gamma: _by_gamma,
    Gumbel: _by_gumbel,
    Normal: _by_normal,
    Pareto: lambda p, q, means: (q.alpha + 1) * means["of_log"](p) - q.alpha.log() - q.alpha * q.scale.log(),
    Uniform: lambda p, q, means: (q.high - q.low).log() + 0 * p.mean,
}
_BOUNDS: dict[type, Callable[[Any], tuple[Any, Any]]] = {
    Beta: lambda q: (0.0, 1.0),
    ContinuousBernoulli: lambda q: (0.0, 1.0),
    Exponential: lambda q: (0.0, math.inf),
    Gamma: lambda q: (0.0, math.inf),
    Pareto: lambda q: (q.scale, math.inf),
    Uniform: lambda q: (q.low, q.high),
}
"""Where q lies, if not everywhere."""


def _by_means(p_type: type, q_type: type) -> None:
    means, surprise_ = _MEANS[p_type], _SURPRISE[q_type]

    def rule(p: Any, q: Any) -> Any:
        result = surprise_(p, q, means) - p.entropy()
        if q_type in _BOUNDS and "low" in means:
            result = ops.where(_outside(p, means, *_BOUNDS[q_type](q)), math.inf, result)
        return result

    register_kl(p_type, q_type)(rule)


def _infinite(p: Any, q: Any) -> Any:
    """Of distributions where p reaches beyond q, whatever the parameters."""
    shape = ops.broadcast_tensors([_any_parameter(p), _any_parameter(q)])[0]
    return ops.full_like(shape, math.inf)


def _any_parameter(d: Any) -> Any:
    return getattr(d, next(iter(d.arg_constraints)))


for _p, _finite, _never in (
    (Beta, (ContinuousBernoulli, Exponential, Gamma, Normal, Uniform), (Pareto,)),
    (ContinuousBernoulli, (Exponential, Normal, Uniform), (Pareto,)),
    (Exponential, (Gamma, Gumbel, Normal), (Beta, ContinuousBernoulli, Pareto, Uniform)),
    (Gamma, (Exponential, Gumbel, Normal), (Beta, ContinuousBernoulli, Pareto, Uniform)),
    (Gumbel, (Normal,), (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform)),
    (Laplace, (Normal,), (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform)),
    (Normal, (Gumbel,), (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform)),
    (Pareto, (Exponential, Gamma, Normal), (Beta, ContinuousBernoulli, Uniform)),
    (Uniform, (Beta, ContinuousBernoulli, Exponential, Gamma, Gumbel, Normal, Pareto), ()),
):
    for _q in _finite:
        _by_means(_p, _q)
    for _q in _never:
        register_kl(_p, _q)(_infinite)

register_kl(Poisson, Bernoulli)(_infinite)
register_kl(Poisson, Binomial)(_infinite)


@register_kl(Bernoulli, Poisson)
def _bernoulli_poisson(p: Any, q: Any) -> Any:
    return -p.entropy() - (p.probs * q.rate.log() - q.rate)


@register_kl(Normal, Laplace)
def _normal_laplace(p: Any, q: Any) -> Any:
    apart = p.loc - q.loc
    reduced = apart / p.scale
    away = (
        math.sqrt(2 / math.pi) * p.scale * (-0.5 * reduced.square()).exp()
        + apart * (reduced / math.sqrt(2)).erf()
    )
    return (2 * q.scale).log() + away / q.scale - p.entropy()
