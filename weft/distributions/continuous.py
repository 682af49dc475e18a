"""Distributions over numbers."""

from __future__ import annotations

import math
from typing import Any

from weft.distributions.constraints import Constraint, nonnegative, positive, real
from weft.distributions.distribution import Distribution, broadcast_all
from weft.ops.record import ops

EULER = 0.57721566490153286060


class _LocationScale(Distribution):
    """Distributions of `loc + scale * standard`."""

    arg_constraints = {"loc": real, "scale": positive}
    has_rsample = True
    support = real

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(self.loc.shape, validate_args=validate_args)

    def _standard(self, shape: Any) -> Any:
        raise NotImplementedError

    def rsample(self, sample_shape: Any = ()) -> Any:
        return self.loc + self._standard(self._extended_shape(sample_shape)) * self.scale

    def _reduced(self, value: Any) -> Any:
        return (self._checked(value) - self.loc) / self.scale


class Normal(_LocationScale):
    """The normal distribution."""

    mean = property(lambda self: self.loc)
    mode = mean
    stddev = property(lambda self: self.scale)
    variance = property(lambda self: self.scale.square())

    def _standard(self, shape: Any) -> Any:
        return self.loc.detach().new_empty(shape).normal_()

    def log_prob(self, value: Any) -> Any:
        return -self._reduced(value).square() / 2 - self.scale.log() - math.log(math.sqrt(2 * math.pi))

    def cdf(self, value: Any) -> Any:
        return 0.5 * (1 + (self._reduced(value) / math.sqrt(2)).erf())

    def icdf(self, value: Any) -> Any:
        return self.loc + self.scale * (2 * value - 1).erfinv() * math.sqrt(2)

    def entropy(self) -> Any:
        return 0.5 + 0.5 * math.log(2 * math.pi) + self.scale.log()


class _OfNormal(Distribution):
    """Distributions of a function of a normal variable."""

    has_rsample = True
    base_dist: Normal
    _inner = "base_dist"

    scale = property(lambda self: self.base_dist.scale)


class LogNormal(_OfNormal):
    """The distribution of the exponential of a normal variable."""

    arg_constraints = {"loc": real, "scale": positive}
    support = positive

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.base_dist = Normal(loc, scale, validate_args=validate_args)
        super().__init__(self.loc.shape, validate_args=validate_args)

    loc = property(lambda self: self.base_dist.loc)
    mean = property(lambda self: (self.loc + self.scale.square() / 2).exp())
    mode = property(lambda self: (self.loc - self.scale.square()).exp())

    @property
    def variance(self) -> Any:
        square = self.scale.square()
        return square.expm1() * (2 * self.loc + square).exp()

    def rsample(self, sample_shape: Any = ()) -> Any:
        return self.base_dist.rsample(sample_shape).exp()

    def log_prob(self, value: Any) -> Any:
        logarithm = self._checked(value).log()
        return self.base_dist.log_prob(logarithm) - logarithm

    def cdf(self, value: Any) -> Any:
        return self.base_dist.cdf(self._checked(value).log())

    def icdf(self, value: Any) -> Any:
        return self.base_dist.icdf(value).exp()

    def entropy(self) -> Any:
        return self.base_dist.entropy() + self.loc


class HalfNormal(_OfNormal):
    """The distribution of the magnitude of a normal variable around zero."""

    arg_constraints = {"scale": positive}
    support = nonnegative

    def __init__(self, scale: Any, validate_args: bool | None = None) -> None:
        self.base_dist = Normal(0.0, scale, validate_args=False)
        super().__init__(self.scale.shape, validate_args=validate_args)
        if self._validate_args and not (self.scale > 0).all():
            self.base_dist._check_parameters()

    mean = property(lambda self: self.scale * math.sqrt(2 / math.pi))
    mode = property(lambda self: ops.zeros_like(self.scale))
    variance = property(lambda self: self.scale.square() * (1 - 2 / math.pi))

    def rsample(self, sample_shape: Any = ()) -> Any:
        return self.base_dist.rsample(sample_shape).abs()

    def log_prob(self, value: Any) -> Any:
        inside = self.base_dist.log_prob(self._checked(value)) + math.log(2)
        return ops.where(value >= 0, inside, -math.inf)

    def cdf(self, value: Any) -> Any:
        return 2 * self.base_dist.cdf(self._checked(value)) - 1

    def icdf(self, value: Any) -> Any:
        return self.base_dist.icdf((value + 1) / 2)

    def entropy(self) -> Any:
        return self.base_dist.entropy() - math.log(2)


class Laplace(_LocationScale):
    """The Laplace distribution."""

    mean = property(lambda self: self.loc)
    mode = mean
    variance = property(lambda self: 2 * self.scale.square())

    def _standard(self, shape: Any) -> Any:
        drawn = self.loc.detach().new_empty(shape).uniform_(-1 + 1e-7, 1)
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


class Cauchy(_LocationScale):
    """The Cauchy distribution, which has neither mean nor variance."""

    mean = property(lambda self: ops.full_like(self.loc, math.nan))
    mode = property(lambda self: self.loc)
    variance = property(lambda self: ops.full_like(self.loc, math.inf))

    def _standard(self, shape: Any) -> Any:
        return self.loc.detach().new_empty(shape).cauchy_()

    def log_prob(self, value: Any) -> Any:
        return -math.log(math.pi) - self.scale.log() - self._reduced(value).square().log1p()

    def cdf(self, value: Any) -> Any:
        return self._reduced(value).atan() / math.pi + 0.5

    def icdf(self, value: Any) -> Any:
        return (math.pi * (value - 0.5)).tan() * self.scale + self.loc

    def entropy(self) -> Any:
        return math.log(4 * math.pi) + self.scale.log()


class Gumbel(_LocationScale):
    """The Gumbel distribution."""

    mean = property(lambda self: self.loc + self.scale * EULER)
    mode = property(lambda self: self.loc)
    variance = property(lambda self: self.scale.square() * (math.pi**2 / 6))

    def _standard(self, shape: Any) -> Any:
        return -self.loc.detach().new_empty(shape).exponential_().log()

    def log_prob(self, value: Any) -> Any:
        reduced = -self._reduced(value)
        return reduced - reduced.exp() - self.scale.log()

    def cdf(self, value: Any) -> Any:
        return (-(-self._reduced(value)).exp()).exp()

    def icdf(self, value: Any) -> Any:
        return self.loc - self.scale * (-value.log()).log()

    def entropy(self) -> Any:
        return self.scale.log() + (1 + EULER)


class Uniform(Distribution):
    """All numbers from `low` up to `high` alike."""

    has_rsample = True

    def __init__(self, low: Any, high: Any, validate_args: bool | None = None) -> None:
        self.low, self.high = broadcast_all(low, high)
        super().__init__(self.low.shape, validate_args=validate_args)
        if self._validate_args and not (self.low < self.high).all():
            raise ValueError("Uniform is not defined when low>= high")

    arg_constraints = {"low": real, "high": real}

    @property
    def support(self) -> Any:
        low, high = self.low, self.high
        return Constraint(
            f"Interval(lower_bound={low}, upper_bound={high})", lambda v: (v >= low) & (v <= high)
        )

    mean = property(lambda self: (self.high + self.low) / 2)
    mode = property(lambda self: ops.full_like(self.high, math.nan))
    variance = property(lambda self: (self.high - self.low).square() / 12)

    def rsample(self, sample_shape: Any = ()) -> Any:
        drawn = self.low.detach().new_empty(self._extended_shape(sample_shape)).uniform_()
        return self.low + drawn * (self.high - self.low)

    def log_prob(self, value: Any) -> Any:
        inside = (self.low <= self._checked(value)) & (self.high > value)
        return inside.to(self.low.dtype).log() - (self.high - self.low).log()

    def cdf(self, value: Any) -> Any:
        return ((self._checked(value) - self.low) / (self.high - self.low)).clamp(0, 1)

    def icdf(self, value: Any) -> Any:
        return value * (self.high - self.low) + self.low

    def entropy(self) -> Any:
        return (self.high - self.low).log()


class Exponential(Distribution):
    """The time until something that happens so often."""

    arg_constraints = {"rate": positive}
    has_rsample = True
    support = nonnegative

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        (self.rate,) = broadcast_all(rate)
        super().__init__(self.rate.shape, validate_args=validate_args)

    mean = property(lambda self: self.rate.reciprocal())
    stddev = mean
    mode = property(lambda self: ops.zeros_like(self.rate))
    variance = property(lambda self: self.rate.pow(-2))

    def rsample(self, sample_shape: Any = ()) -> Any:
        return self.rate.detach().new_empty(self._extended_shape(sample_shape)).exponential_() / self.rate

    def log_prob(self, value: Any) -> Any:
        return self.rate.log() - self.rate * self._checked(value)

    def cdf(self, value: Any) -> Any:
        return 1 - (-self.rate * self._checked(value)).exp()

    def icdf(self, value: Any) -> Any:
        return -(-value).log1p() / self.rate

    def entropy(self) -> Any:
        return 1 - self.rate.log()
