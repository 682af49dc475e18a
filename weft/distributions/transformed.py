"""Distributions of what transforms make of draws, and those that are best said so.

Takes a distribution and transforms; gives the distribution of the result. One idea: a density changes by how
much the transforms stretch.
"""

from __future__ import annotations

import math
from typing import Any

import weft.distributions.constraints as constraints
from weft.distributions.constraints import (
    dependent_property,
    nonnegative,
    positive,
    real,
    real_vector,
    simplex,
    unit_interval,
)
from weft.distributions.continuous import Cauchy, Exponential, Normal, Uniform
from weft.distributions.discrete import ByChance, Categorical, of_inner
from weft.distributions.distribution import Distribution, density, fact
from weft.distributions.gamma import Gamma
from weft.distributions.multivariate import Independent
from weft.distributions.transforms import (
    AbsTransform,
    AffineTransform,
    ComposeTransform,
    ExpTransform,
    PowerTransform,
    SigmoidTransform,
    StickBreakingTransform,
    Transform,
    undone,
)
from weft.distributions.utils import broadcast_all, clamp_probs, euler_constant, shape_of, sum_rightmost
from weft.ops.record import ops


class TransformedDistribution(Distribution):
    """What one transform, or several in order, make of draws of a distribution."""

    arg_constraints: Any = {}

    def __init__(self, base_distribution: Any, transforms: Any, validate_args: bool | None = None) -> None:
        if isinstance(transforms, Transform):
            self.transforms = [transforms]
        elif isinstance(transforms, list):
            if not all(isinstance(each, Transform) for each in transforms):
                raise ValueError("transforms must be a Transform or a list of Transforms")
            self.transforms = transforms
        else:
            raise ValueError(f"transforms must be a Transform or list, but was {transforms}")
        shape = shape_of((*base_distribution.batch_shape, *base_distribution.event_shape))
        own = len(base_distribution.event_shape)
        whole = ComposeTransform(self.transforms)
        if len(shape) < whole.domain.event_dim:
            raise ValueError(
                f"base_distribution needs to have shape with size at least {whole.domain.event_dim}, but got "
                f"{shape}."
            )
        after = whole.forward_shape(shape)
        before = whole.inverse_shape(after)
        base = base_distribution
        if shape != before:
            base = base.expand(before[: len(before) - own])
        more = whole.domain.event_dim - own
        self.base_dist = Independent(base, more) if more > 0 else base
        count = whole.codomain.event_dim + max(own - whole.domain.event_dim, 0)
        cut = len(after) - count
        super().__init__(after[:cut], after[cut:], validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        made = self._get_checked_instance(None, _instance)
        made.transforms = self.transforms
        batch = shape_of(batch_shape)
        before = ComposeTransform(self.transforms).inverse_shape(shape_of((*batch, *self.event_shape)))
        made.base_dist = self.base_dist.expand(before[: len(before) - len(self.base_dist.event_shape)])
        Distribution.__init__(made, batch, self.event_shape, validate_args=False)
        made._validate_args = self._validate_args
        return made

    @dependent_property(is_discrete=False)
    def support(self) -> Any:
        if not self.transforms:
            return self.base_dist.support
        support = self.transforms[-1].codomain
        if len(self._event_shape) > support.event_dim:
            support = constraints.independent(support, len(self._event_shape) - support.event_dim)
        return support

    has_rsample = of_inner("has_rsample")
    _inner = ("base_dist",)

    def _transformed(self, value: Any) -> Any:
        for transform in self.transforms:
            value = transform(value)
        return value

    def sample(self, sample_shape: Any = ()) -> Any:
        return self._transformed(self.base_dist.sample(sample_shape)).detach()

    def rsample(self, sample_shape: Any = ()) -> Any:
        return self._transformed(self.base_dist.rsample(sample_shape))

    @density
    def log_prob(self, value: Any) -> Any:
        count, result, y = len(self.event_shape), 0.0, value
        for transform in self.transforms[::-1]:
            x = undone(transform, y)
            count += transform.domain.event_dim - transform.codomain.event_dim
            stretch = transform.log_abs_det_jacobian(x, y)
            result = result - sum_rightmost(stretch, count - transform.domain.event_dim)
            y = x
        return result + sum_rightmost(self.base_dist.log_prob(y), count - len(self.base_dist.event_shape))

    def _rises(self) -> Any:
        return math.prod(transform.sign for transform in self.transforms)

    def _by_sign(self, value: Any) -> Any:
        """A probability of what lies below, turned where the transforms fall."""
        sign = self._rises()
        return value if isinstance(sign, int) and sign == 1 else sign * (value - 0.5) + 0.5

    @density
    def cdf(self, value: Any) -> Any:
        for transform in self.transforms[::-1]:
            value = undone(transform, value)
        return self._by_sign(self.base_dist.cdf(value))

    def icdf(self, value: Any) -> Any:
        return self._transformed(self.base_dist.icdf(self._by_sign(value)))


class LogNormal(TransformedDistribution):
    """The distribution of the exponential of a normal variable."""

    arg_constraints = {"loc": real, "scale": positive}
    support = positive
    has_rsample = True

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        super().__init__(Normal(loc, scale, validate_args=validate_args), ExpTransform(), validate_args)

    loc, scale = of_inner("loc"), of_inner("scale")
    mean = fact(lambda d: (d.loc + d.scale.square() / 2).exp())
    mode = fact(lambda d: (d.loc - d.scale.square()).exp())

    @property
    def variance(self) -> Any:
        square = self.scale.square()
        return square.expm1() * (2 * self.loc + square).exp()

    def entropy(self) -> Any:
        return self.base_dist.entropy() + self.loc


class _Half(TransformedDistribution):
    """The magnitude of a variable that is symmetric around zero."""

    arg_constraints = {"scale": positive}
    support = nonnegative
    has_rsample = True
    _whole: Any

    def __init__(self, scale: Any, validate_args: bool | None = None) -> None:
        base = type(self)._whole(0, scale, validate_args=False)
        super().__init__(base, AbsTransform(), validate_args=validate_args)

    scale = of_inner("scale")
    mode = fact(lambda d: ops.zeros_like(d.scale))

    @density
    def log_prob(self, value: Any) -> Any:
        return ops.where(value >= 0, self.base_dist.log_prob(value) + math.log(2), -math.inf)

    @density
    def cdf(self, value: Any) -> Any:
        return 2 * self.base_dist.cdf(value) - 1

    def icdf(self, value: Any) -> Any:
        return self.base_dist.icdf((value + 1) / 2)

    def entropy(self) -> Any:
        return self.base_dist.entropy() - math.log(2)


class HalfNormal(_Half):
    """The distribution of the magnitude of a normal variable around zero."""

    _whole = Normal
    mean = fact(lambda d: d.scale * math.sqrt(2 / math.pi))
    variance = fact(lambda d: d.scale.square() * (1 - 2 / math.pi))


class HalfCauchy(_Half):
    """The distribution of the magnitude of a Cauchy variable around zero."""

    _whole = Cauchy
    mean = fact(lambda d: ops.full_like(d.scale, math.inf))
    variance = fact(lambda d: d.base_dist.variance)


class Weibull(TransformedDistribution):
    """The time until something breaks whose risk grows, or falls, as a power of its age."""

    arg_constraints = {"scale": positive, "concentration": positive}
    support = positive

    def __init__(self, scale: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.scale, self.concentration = broadcast_all(scale, concentration)
        base = Exponential(ops.ones_like(self.scale), validate_args=validate_args)
        transforms = [
            PowerTransform(exponent=self.concentration.reciprocal()),
            AffineTransform(0, self.scale),
        ]
        super().__init__(base, transforms, validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return _made_anew(
            self, Weibull, batch_shape, _instance, scale=self.scale, concentration=self.concentration
        )

    def _moment(self, order: int) -> Any:
        return self.scale.pow(order) * (1 + order / self.concentration).lgamma().exp()

    mean = fact(lambda d: d._moment(1))
    variance = fact(lambda d: d._moment(2) - d._moment(1).square())

    @property
    def mode(self) -> Any:
        k = self.concentration
        return self.scale * ((k - 1) / k) ** k.reciprocal()

    def entropy(self) -> Any:
        inverse = self.concentration.reciprocal()
        return euler_constant * (1 - inverse) + (self.scale * inverse).log() + 1


def _made_anew(self: Any, cls: Any, batch_shape: Any, instance: Any, **parameters: Any) -> Any:
    """A distribution of a class whose transforms hold its parameters, with these repeated to a shape."""
    made = self._get_checked_instance(cls, instance)
    batch = shape_of(batch_shape)
    repeated = {name: value.expand(batch) for name, value in parameters.items()}
    cls.__init__(made, **repeated, validate_args=False)
    made._validate_args = self._validate_args
    return made


class Pareto(TransformedDistribution):
    """What is left of a power law beyond its scale."""

    arg_constraints = {"alpha": positive, "scale": positive}

    def __init__(self, scale: Any, alpha: Any, validate_args: bool | None = None) -> None:
        self.scale, self.alpha = broadcast_all(scale, alpha)
        base = Exponential(self.alpha, validate_args=validate_args)
        transforms = [ExpTransform(), AffineTransform(loc=0, scale=self.scale)]
        super().__init__(base, transforms, validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return _made_anew(self, Pareto, batch_shape, _instance, scale=self.scale, alpha=self.alpha)

    @dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        return constraints.greater_than_eq(self.scale)

    mode = fact(lambda d: d.scale)

    @property
    def mean(self) -> Any:
        a = self.alpha.clamp(min=1)  # infinite mean for alpha <= 1
        return a * self.scale / (a - 1)

    @property
    def variance(self) -> Any:
        a = self.alpha.clamp(min=2)  # infinite variance for alpha <= 2
        return self.scale.square() * a / ((a - 1).square() * (a - 2))

    def entropy(self) -> Any:
        return (self.scale / self.alpha).log() + (1 + self.alpha.reciprocal())


class Kumaraswamy(TransformedDistribution):
    """Close to the beta distribution, with a distribution function in closed form."""

    arg_constraints = {"concentration1": positive, "concentration0": positive}
    support = unit_interval

    def __init__(self, concentration1: Any, concentration0: Any, validate_args: bool | None = None) -> None:
        self.concentration1, self.concentration0 = broadcast_all(concentration1, concentration0)
        base = Uniform(
            ops.full_like(self.concentration0, 0), ops.full_like(self.concentration0, 1), validate_args
        )
        transforms = [
            PowerTransform(exponent=self.concentration0.reciprocal()),
            AffineTransform(loc=1.0, scale=-1.0),
            PowerTransform(exponent=self.concentration1.reciprocal()),
        ]
        super().__init__(base, transforms, validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return _made_anew(
            self, Kumaraswamy, batch_shape, _instance,
            concentration1=self.concentration1, concentration0=self.concentration0,
        )  # fmt: skip

    def _moment(self, order: int) -> Any:
        a, b = self.concentration1, self.concentration0
        shift = 1 + order / a
        return (b.log() + shift.lgamma() + b.lgamma() - (shift + b).lgamma()).exp()

    mean = fact(lambda d: d._moment(1))
    variance = fact(lambda d: d._moment(2) - d._moment(1).square())

    @property
    def mode(self) -> Any:
        a, b = self.concentration1, self.concentration0
        mode = ((a - 1) / (a * b - 1)) ** a.reciprocal()
        return ops.where((a < 1) | (b < 1), math.nan, mode)

    def entropy(self) -> Any:
        a, b = self.concentration1, self.concentration0
        harmonic = (b + 1).digamma() + euler_constant
        return (1 - b.reciprocal()) + (1 - a.reciprocal()) * harmonic - a.log() - b.log()


class InverseGamma(TransformedDistribution):
    """One over a gamma number."""

    arg_constraints = {"concentration": positive, "rate": positive}
    support = positive
    has_rsample = True

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        base = Gamma(concentration, rate, validate_args=validate_args)
        super().__init__(base, PowerTransform(-base.rate.new_ones(())), validate_args=validate_args)

    concentration, rate = of_inner("concentration"), of_inner("rate")
    mode = fact(lambda d: d.rate / (d.concentration + 1))
    mean = fact(lambda d: ops.where(d.concentration > 1, d.rate / (d.concentration - 1), math.inf))

    @property
    def variance(self) -> Any:
        a = self.concentration
        return ops.where(a > 2, self.rate.square() / ((a - 1).square() * (a - 2)), math.inf)

    def entropy(self) -> Any:
        a = self.concentration
        return a + self.rate.log() + a.lgamma() - (1 + a) * a.digamma()


class LogisticNormal(TransformedDistribution):
    """Probabilities that a stick broken by normal numbers gives."""

    arg_constraints = {"loc": real, "scale": positive}
    support = simplex
    has_rsample = True

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        base = Normal(loc, scale, validate_args=validate_args)
        if not base.batch_shape:
            base = base.expand([1])
        super().__init__(base, StickBreakingTransform(), validate_args=validate_args)

    loc = fact(lambda d: d.base_dist.base_dist.loc)
    scale = fact(lambda d: d.base_dist.base_dist.scale)


class LogitRelaxedBernoulli(ByChance):
    """Log-odds of a relaxed Bernoulli variable: logistic noise around the logits, over a temperature."""

    arg_constraints = {"probs": unit_interval, "logits": real}
    support = real
    has_rsample = True
    _kept = ("temperature",)

    def __init__(
        self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        self.temperature = temperature
        super().__init__(probs, logits, validate_args)

    def rsample(self, sample_shape: Any = ()) -> Any:
        probs = clamp_probs(self.probs.expand(self._extended_shape(sample_shape)))
        drawn = clamp_probs(ops.rand(probs.shape, dtype=probs.dtype, device=probs.device))
        odds = drawn.log() - (-drawn).log1p() + probs.log() - (-probs).log1p()
        return odds / self.temperature

    @density
    def log_prob(self, value: Any) -> Any:
        logits, value = broadcast_all(self.logits, value)
        apart = logits - value * self.temperature
        return ops.log(self.temperature * ops.ones_like(apart)) + apart - 2 * apart.exp().log1p()


class RelaxedBernoulli(TransformedDistribution):
    """A number near zero or one, the nearer the lower the temperature, through which gradients flow."""

    arg_constraints = {"probs": unit_interval, "logits": real}
    support = unit_interval
    has_rsample = True

    def __init__(
        self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        base = LogitRelaxedBernoulli(temperature, probs, logits)
        super().__init__(base, SigmoidTransform(), validate_args=validate_args)

    temperature, logits, probs = of_inner("temperature"), of_inner("logits"), of_inner("probs")


class ExpRelaxedCategorical(Distribution):
    """Logarithms of a relaxed one-hot variable."""

    arg_constraints = {"probs": simplex, "logits": real_vector}
    support = real_vector
    has_rsample = True
    _inner = ("_categorical",)
    _kept = ("temperature",)

    def __init__(
        self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        self._categorical = Categorical(probs, logits)
        self.temperature = temperature
        shape = self._categorical.param_shape
        super().__init__(shape[:-1], shape[-1:], validate_args=validate_args)

    probs, logits = of_inner("probs"), of_inner("logits")
    param_shape, _param = of_inner("param_shape"), of_inner("_param")

    def rsample(self, sample_shape: Any = ()) -> Any:
        shape, like = self._extended_shape(sample_shape), self._param
        drawn = clamp_probs(ops.rand(shape, dtype=like.dtype, device=like.device))
        scores = (self.logits - (-drawn.log()).log()) / self.temperature
        return scores - scores.logsumexp(-1, keepdim=True)

    @density
    def log_prob(self, value: Any) -> Any:
        count = self._categorical._num_events
        logits, value = broadcast_all(self.logits, value)
        temperature = self.temperature * ops.ones_like(logits[..., 0])
        constant = math.lgamma(count) + (count - 1) * temperature.log()
        score = logits - value * self.temperature
        return (score - score.logsumexp(-1, keepdim=True)).sum(-1) + constant


class RelaxedOneHotCategorical(TransformedDistribution):
    """Probabilities near a corner, the nearer the lower the temperature, through which gradients flow."""

    arg_constraints = {"probs": simplex, "logits": real_vector}
    support = simplex
    has_rsample = True

    def __init__(
        self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        base = ExpRelaxedCategorical(temperature, probs, logits, validate_args=validate_args)
        super().__init__(base, ExpTransform(), validate_args=validate_args)

    temperature, logits, probs = of_inner("temperature"), of_inner("logits"), of_inner("probs")
