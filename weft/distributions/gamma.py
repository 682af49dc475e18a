"""The gamma distribution and what is made of gamma numbers: chi-square, beta, Dirichlet, F."""

from __future__ import annotations

import math
from typing import Any

from weft.core.dtypes import finfo
from weft.distributions.constraints import independent, nonnegative, positive, simplex, unit_interval
from weft.distributions.distribution import Distribution, ExponentialFamily, density, fact
from weft.distributions.utils import broadcast_all
from weft.ops.record import ops
from weft.tensor.base import Tensor


class Gamma(ExponentialFamily, concentration=positive, rate=positive):
    """The time until something that happens so often has happened `concentration` times."""

    has_rsample = True
    support = nonnegative
    _mean_carrier_measure = 0

    mean = fact(lambda d: d.concentration / d.rate)
    mode = fact(lambda d: ((d.concentration - 1) / d.rate).clamp(min=0))
    variance = fact(lambda d: d.concentration / d.rate.square())
    _natural_params = fact(lambda d: (d.concentration - 1, -d.rate))

    def rsample(self, sample_shape: Any = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        drawn = ops._standard_gamma(self.concentration.expand(shape)) / self.rate.expand(shape)
        return drawn.clamp(min=finfo(drawn.dtype).tiny)

    @density
    def log_prob(self, value: Any) -> Any:
        a, rate = self.concentration, self.rate
        return ops.xlogy(a, rate) + ops.xlogy(a - 1, value) - rate * value - a.lgamma()

    @density
    def cdf(self, value: Any) -> Any:
        return ops.igamma(self.concentration, self.rate * value)

    def entropy(self) -> Any:
        a = self.concentration
        return a - self.rate.log() + a.lgamma() + (1 - a) * a.digamma()

    def _log_normalizer(self, x: Any, y: Any) -> Any:
        return (x + 1).lgamma() + (x + 1) * (-y.reciprocal()).log()


class Chi2(Gamma):
    """The sum of `df` squares of normal numbers."""

    arg_constraints = {"df": positive}

    def __init__(self, df: Any, validate_args: bool | None = None) -> None:
        (df,) = broadcast_all(df)
        super().__init__(0.5 * df, ops.full_like(df, 0.5), validate_args=validate_args)

    df = fact(lambda d: d.concentration * 2)


class Dirichlet(ExponentialFamily):
    """Probabilities that add up to one; the larger the concentrations, the closer to their shares."""

    arg_constraints = {"concentration": independent(positive, 1)}
    has_rsample = True
    support = simplex

    def __init__(self, concentration: Any, validate_args: bool | None = None) -> None:
        if concentration.dim() < 1:
            raise ValueError("`concentration` parameter must be at least one-dimensional.")
        self.concentration = concentration
        shape = concentration.shape
        super().__init__(shape[:-1], shape[-1:], validate_args=validate_args)

    _total = fact(lambda d: d.concentration.sum(-1, True))
    mean = fact(lambda d: d.concentration / d._total)
    _natural_params = fact(lambda d: (d.concentration,))

    @property
    def mode(self) -> Any:
        weights = (self.concentration - 1).clamp(min=0.0)
        mode = weights / weights.sum(-1, True)
        flat = (self.concentration < 1).all(-1, keepdim=True)
        corner = ops.nn_functional_one_hot(mode.argmax(-1), self._event_shape[-1]).to(mode.dtype)
        return ops.where(flat, corner, mode)

    @property
    def variance(self) -> Any:
        a, total = self.concentration, self._total
        return a * (total - a) / (total.square() * (total + 1))

    def rsample(self, sample_shape: Any = ()) -> Any:
        return ops._sample_dirichlet(self.concentration.expand(self._extended_shape(sample_shape)))

    @density
    def log_prob(self, value: Any) -> Any:
        a = self.concentration
        return ops.xlogy(a - 1, value).sum(-1) + a.sum(-1).lgamma() - a.lgamma().sum(-1)

    def entropy(self) -> Any:
        a, count = self.concentration, self.concentration.shape[-1]
        total = a.sum(-1)
        inner = ((a - 1) * a.digamma()).sum(-1)
        return a.lgamma().sum(-1) - total.lgamma() - (count - total) * total.digamma() - inner

    def _log_normalizer(self, x: Any) -> Any:
        return x.lgamma().sum(-1) - x.sum(-1).lgamma()


class Beta(ExponentialFamily):
    """A probability, of which so many successes and failures are known."""

    arg_constraints = {"concentration1": positive, "concentration0": positive}
    has_rsample = True
    support = unit_interval
    _inner = ("_dirichlet",)

    def __init__(self, concentration1: Any, concentration0: Any, validate_args: bool | None = None) -> None:
        both = ops.stack(list(broadcast_all(concentration1, concentration0)), -1)
        self._dirichlet = Dirichlet(both, validate_args=validate_args)
        super().__init__(self._dirichlet._batch_shape, validate_args=validate_args)

    def _part(self, place: int) -> Any:
        found = self._dirichlet.concentration[..., place]
        return found if isinstance(found, Tensor) else ops.full((), found)

    concentration1 = fact(lambda d: d._part(0))
    concentration0 = fact(lambda d: d._part(1))
    mean = fact(lambda d: d.concentration1 / (d.concentration1 + d.concentration0))
    mode = fact(lambda d: d._dirichlet.mode[..., 0])
    _natural_params = fact(lambda d: (d.concentration1, d.concentration0))

    @property
    def variance(self) -> Any:
        total = self.concentration1 + self.concentration0
        return self.concentration1 * self.concentration0 / (total.square() * (total + 1))

    def rsample(self, sample_shape: Any = ()) -> Any:
        return self._dirichlet.rsample(sample_shape).select(-1, 0)

    @density
    def log_prob(self, value: Any) -> Any:
        return self._dirichlet.log_prob(ops.stack([value, 1.0 - value], -1))

    def entropy(self) -> Any:
        return self._dirichlet.entropy()

    def _log_normalizer(self, x: Any, y: Any) -> Any:
        return x.lgamma() + y.lgamma() - (x + y).lgamma()


class FisherSnedecor(Distribution, df1=positive, df2=positive):
    """The ratio of two chi-square numbers, each over its degrees of freedom."""

    has_rsample = True
    support = positive

    def _where(self, least: float, value: Any) -> Any:
        return ops.where(self.df2 > least, value, math.nan)

    mean = fact(lambda d: d._where(2, d.df2 / (d.df2 - 2)))

    @property
    def mode(self) -> Any:
        mode = (self.df1 - 2) / self.df1 * self.df2 / (self.df2 + 2)
        return ops.where(self.df1 <= 2, math.nan, mode)

    @property
    def variance(self) -> Any:
        df1, df2 = self.df1, self.df2
        wide = 2 * df2.square() * (df1 + df2 - 2) / (df1 * (df2 - 2).square() * (df2 - 4))
        return self._where(4, wide)

    def rsample(self, sample_shape: Any = ()) -> Any:
        shape, least = self._extended_shape(sample_shape), finfo(self.df1.dtype).tiny
        over, under = (ops._standard_gamma((df / 2).expand(shape)) / (df / 2) for df in (self.df1, self.df2))
        return (over / under.clamp(min=least)).clamp(min=least)

    @density
    def log_prob(self, value: Any) -> Any:
        first, second, ratio = self.df1 * 0.5, self.df2 * 0.5, self.df1 / self.df2
        constant = (first + second).lgamma() - first.lgamma() - second.lgamma()
        inner = first * ratio.log() + (first - 1) * value.log()
        return constant + inner - (first + second) * (ratio * value).log1p()
