"""Distributions over numbers."""

from __future__ import annotations

import math
from typing import Any

import weft.distributions.constraints as constraints
from weft.core.dtypes import finfo
from weft.distributions.constraints import dependent_property, nonnegative, positive, real
from weft.distributions.distribution import Distribution, ExponentialFamily, density, fact
from weft.distributions.utils import euler_constant, standard_normal
from weft.ops.record import ops

LOG_2_PI = math.log(2 * math.pi)


class _LocationScale(Distribution):
    """Distributions of `loc + scale * standard`."""

    has_rsample = True
    support = real

    def _standard(self, shape: Any) -> Any:
        raise NotImplementedError

    def _empty(self, shape: Any) -> Any:
        return ops.empty(shape, dtype=self.loc.dtype, device=self.loc.device)

    def rsample(self, sample_shape: Any = ()) -> Any:
        return self.loc + self._standard(self._extended_shape(sample_shape)) * self.scale

    def _reduced(self, value: Any) -> Any:
        return (self._checked(value) - self.loc) / self.scale


class Normal(_LocationScale, ExponentialFamily, loc=real, scale=positive):
    """The normal distribution."""

    _mean_carrier_measure = 0

    mean = mode = fact(lambda d: d.loc)
    stddev = fact(lambda d: d.scale)
    variance = fact(lambda d: d.scale.square())
    _natural_params = fact(lambda d: (d.loc / d.scale.square(), -0.5 * d.scale.square().reciprocal()))

    def _standard(self, shape: Any) -> Any:
        return standard_normal(shape, self.loc.dtype, self.loc.device)

    def log_prob(self, value: Any) -> Any:
        return -self._reduced(value).square() / 2 - self.scale.log() - LOG_2_PI / 2

    def cdf(self, value: Any) -> Any:
        return 0.5 * (1 + (self._reduced(value) / math.sqrt(2)).erf())

    def icdf(self, value: Any) -> Any:
        return self.loc + self.scale * (2 * value - 1).erfinv() * math.sqrt(2)

    def entropy(self) -> Any:
        return 0.5 + 0.5 * LOG_2_PI + self.scale.log()

    def _log_normalizer(self, x: Any, y: Any) -> Any:
        return -0.25 * x.square() / y + 0.5 * (-math.pi / y).log()


class Laplace(_LocationScale, loc=real, scale=positive):
    """The Laplace distribution."""

    mean = mode = fact(lambda d: d.loc)
    variance = fact(lambda d: 2 * d.scale.square())
    stddev = fact(lambda d: math.sqrt(2) * d.scale)

    def _standard(self, shape: Any) -> Any:
        drawn = self._empty(shape).uniform_(finfo(self.loc.dtype).eps - 1, 1)
        return -drawn.sign() * (-drawn.abs()).log1p()

    def log_prob(self, value: Any) -> Any:
        return -(2 * self.scale).log() - self._reduced(value).abs()

    def cdf(self, value: Any) -> Any:
        reduced = self._reduced(value)
        return 0.5 - 0.5 * reduced.sign() * (-reduced.abs()).expm1()

    def icdf(self, value: Any) -> Any:
        term = value - 0.5
        return self.loc - self.scale * term.sign() * (-2 * term.abs()).log1p()

    def entropy(self) -> Any:
        return 1 + (2 * self.scale).log()


class Cauchy(_LocationScale, loc=real, scale=positive):
    """The Cauchy distribution, which has neither mean nor variance."""

    mean = fact(lambda d: ops.full_like(d.loc, math.nan))
    mode = fact(lambda d: d.loc)
    variance = fact(lambda d: ops.full_like(d.loc, math.inf))

    def _standard(self, shape: Any) -> Any:
        return self._empty(shape).cauchy_()

    def log_prob(self, value: Any) -> Any:
        return -math.log(math.pi) - self.scale.log() - self._reduced(value).square().log1p()

    def cdf(self, value: Any) -> Any:
        return self._reduced(value).atan() / math.pi + 0.5

    def icdf(self, value: Any) -> Any:
        return (math.pi * (value - 0.5)).tan() * self.scale + self.loc

    def entropy(self) -> Any:
        return math.log(4 * math.pi) + self.scale.log()


class Gumbel(_LocationScale, loc=real, scale=positive):
    """The Gumbel distribution."""

    mean = fact(lambda d: d.loc + d.scale * euler_constant)
    mode = fact(lambda d: d.loc)
    stddev = fact(lambda d: math.pi / math.sqrt(6) * d.scale)
    variance = fact(lambda d: d.stddev.square())

    def _standard(self, shape: Any) -> Any:
        return -self._empty(shape).exponential_().log()

    def log_prob(self, value: Any) -> Any:
        reduced = -self._reduced(value)
        return reduced - reduced.exp() - self.scale.log()

    def cdf(self, value: Any) -> Any:
        return (-(-self._reduced(value)).exp()).exp()

    def icdf(self, value: Any) -> Any:
        return self.loc - self.scale * (-value.log()).log()

    def entropy(self) -> Any:
        return self.scale.log() + (1 + euler_constant)


class StudentT(_LocationScale, df=positive, loc=(real, 0.0), scale=(positive, 1.0)):
    """Student's t: a normal number over the root of a chi-square one, which has heavier tails."""

    mode = fact(lambda d: d.loc)
    mean = fact(lambda d: ops.where(d.df > 1, d.loc, math.nan))

    @property
    def variance(self) -> Any:
        df = self.df
        wide = self.scale.square() * df / (df - 2)
        return ops.where(df > 2, wide, ops.where(df > 1, math.inf, math.nan).to(wide.dtype))

    def _standard(self, shape: Any) -> Any:
        normal = standard_normal(shape, self.df.dtype, self.df.device)
        half = (self.df / 2).expand(shape)
        return normal * (half / ops._standard_gamma(half)).sqrt()

    def _log_constant(self) -> Any:
        df = self.df
        return 0.5 * df.log() + 0.5 * math.log(math.pi) + (0.5 * df).lgamma() - (0.5 * (df + 1)).lgamma()

    def log_prob(self, value: Any) -> Any:
        reduced = self._reduced(value)
        tail = 0.5 * (self.df + 1) * (reduced.square() / self.df).log1p()
        return -tail - self._log_constant() - self.scale.log()

    def entropy(self) -> Any:
        df = self.df
        apart = (0.5 * (df + 1)).digamma() - (0.5 * df).digamma()
        return self.scale.log() + 0.5 * (df + 1) * apart + self._log_constant()


class Uniform(Distribution, low=real, high=real):
    """All numbers from `low` up to `high` alike."""

    has_rsample = True
    arg_constraints = property(
        lambda d: {"low": constraints.less_than(d.high), "high": constraints.greater_than(d.low)}
    )

    def _check_parameters(self) -> None:
        if not (self.low < self.high).all():
            raise ValueError("Uniform is not defined when low>= high")

    @dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        return constraints.interval(self.low, self.high)

    mean = fact(lambda d: (d.high + d.low) / 2)
    mode = fact(lambda d: ops.full_like(d.high, math.nan))
    variance = fact(lambda d: (d.high - d.low).square() / 12)

    def rsample(self, sample_shape: Any = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        drawn = ops.rand(shape, dtype=self.low.dtype, device=self.low.device)
        return self.low + drawn * (self.high - self.low)

    @density
    def log_prob(self, value: Any) -> Any:
        inside = (self.low <= value) & (self.high > value)
        return inside.to(self.low.dtype).log() - (self.high - self.low).log()

    @density
    def cdf(self, value: Any) -> Any:
        return ((value - self.low) / (self.high - self.low)).clamp(0, 1)

    def icdf(self, value: Any) -> Any:
        return value * (self.high - self.low) + self.low

    def entropy(self) -> Any:
        return (self.high - self.low).log()


class Exponential(ExponentialFamily, rate=positive):
    """The time until something that happens so often."""

    has_rsample = True
    support = nonnegative
    _mean_carrier_measure = 0

    mean = stddev = fact(lambda d: d.rate.reciprocal())
    mode = fact(lambda d: ops.zeros_like(d.rate))
    variance = fact(lambda d: d.rate.pow(-2))
    _natural_params = fact(lambda d: (-d.rate,))

    def rsample(self, sample_shape: Any = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        return ops.empty(shape, dtype=self.rate.dtype, device=self.rate.device).exponential_() / self.rate

    @density
    def log_prob(self, value: Any) -> Any:
        return self.rate.log() - self.rate * value

    @density
    def cdf(self, value: Any) -> Any:
        return 1 - (-self.rate * value).exp()

    def icdf(self, value: Any) -> Any:
        return -(-value).log1p() / self.rate

    def entropy(self) -> Any:
        return 1 - self.rate.log()

    def _log_normalizer(self, x: Any) -> Any:
        return -(-x).log()


class VonMises(Distribution, loc=real, concentration=positive):
    """Angles around a direction: the normal distribution of a circle."""

    support = real

    mean = mode = fact(lambda d: d.loc)

    @property
    def variance(self) -> Any:
        k = self.concentration
        return 1 - ops.special_i1e(k) / ops.special_i0e(k)

    @density
    def log_prob(self, value: Any) -> Any:
        k = self.concentration
        return k * ((value - self.loc).cos() - 1) - math.log(2 * math.pi) - ops.special_i0e(k).log()

    def sample(self, sample_shape: Any = ()) -> Any:
        """By rejection from a wrapped Cauchy distribution (Best and Fisher), in float64: of all places, until
        each has been accepted. What is drawn depends on values, so a graph ends here.
        """
        shape, loc = self._extended_shape(sample_shape), self.loc.detach()
        k = self.concentration.detach().double().expand(shape)
        root = 1 + (1 + 4 * k.square()).sqrt()
        rho = (root - (2 * root).sqrt()) / (2 * k)
        ratio = ops.where(k < 1e-5, 1 / k + k, (1 + rho.square()) / (2 * rho))
        angle, done = ops.zeros_like(k), ops.zeros_like(k, dtype=ops.eq(k, k).dtype)
        while not done.all():
            first, second, third = ops.rand((3, *shape), dtype=k.dtype, device=k.device).unbind(0)
            z = (math.pi * first).cos()
            f = (1 + ratio * z) / (ratio + z)
            c = k * (ratio - f)
            accepted = ((c * (2 - c) - second) > 0) | ((c / second).log() + 1 - c >= 0)
            angle = ops.where(~done & accepted, (third - 0.5).sign() * f.clamp(-1, 1).acos(), angle)
            done = done | accepted
        turned = (angle + math.pi + loc.double()) % (2 * math.pi) - math.pi
        return turned.to(loc.dtype)


class GeneralizedPareto(_LocationScale, loc=real, scale=positive, concentration=real):
    """What exceeds a threshold: heavy tails for positive concentration, an end for negative."""

    @dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        end = self.loc - self.scale / self.concentration
        return constraints.interval(self.loc, ops.where(self.concentration < 0, end, math.inf))

    def _near_zero(self) -> Any:
        return ops.isclose(self.concentration, ops.zeros_like(self.concentration))

    def _safe(self) -> Any:
        return ops.where(self._near_zero(), ops.ones_like(self.concentration), self.concentration)

    @property
    def mean(self) -> Any:
        k = self.concentration
        usual = self.loc + self.scale / (1 - ops.where(k < 1, k, 0.5))
        return ops.where(k < 1, usual, math.inf)

    @property
    def variance(self) -> Any:
        k = self.concentration
        safe = ops.where(k < 0.5, k, 0.25)
        return ops.where(k < 0.5, self.scale.square() / ((1 - safe).square() * (1 - 2 * safe)), math.inf)

    mode = fact(lambda d: d.loc)

    def rsample(self, sample_shape: Any = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        return self.icdf(ops.rand(shape, dtype=self.loc.dtype, device=self.loc.device))

    def _tail(self, value: Any) -> Any:
        """Minus the logarithm of how much lies beyond."""
        reduced, k = self._reduced(value), self._safe()
        inside = (1 + k * reduced).clamp(min=0)
        return ops.where(self._near_zero(), reduced, inside.log() / k)

    def log_prob(self, value: Any) -> Any:
        result = -self.scale.log() - (1 + ops.where(self._near_zero(), 0.0, self._safe())) * self._tail(value)
        return ops.where((value >= self.loc), result, -math.inf)

    def cdf(self, value: Any) -> Any:
        return -(-self._tail(value)).expm1()

    def log_survival_function(self, value: Any) -> Any:
        """The logarithm of the probability of what lies beyond a value."""
        return -self._tail(value)

    def log_cdf(self, value: Any) -> Any:
        """The logarithm of the probability of what lies below a value."""
        return self.cdf(value).log()

    def icdf(self, value: Any) -> Any:
        beyond, k = (-value).log1p(), self._safe()
        wide = ops.where(self._near_zero(), -beyond, (-k * beyond).expm1() / k)
        return self.loc + self.scale * wide

    def entropy(self) -> Any:
        return (1 + self.scale.log() + self.concentration).expand(self._batch_shape)
