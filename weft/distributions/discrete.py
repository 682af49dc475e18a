"""Distributions over choices and counts."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import weft.distributions.constraints as constraints
from weft.core.dtypes import finfo
from weft.distributions.constraints import (
    boolean,
    dependent_property,
    nonnegative,
    nonnegative_integer,
    one_hot,
    real,
    real_vector,
    simplex,
    unit_interval,
)
from weft.distributions.distribution import Distribution, ExponentialFamily, density, fact
from weft.distributions.utils import (
    broadcast_all,
    clamp_probs,
    lazy_property,
    logits_to_probs,
    probs_to_logits,
    shape_of,
)
from weft.ops.record import ops
from weft.tensor.creation import tensor


def surprise(logits: Any, value: Any) -> Any:
    """The negative logarithm of the probability of zeros and ones, or between."""
    return logits.clamp(min=0) - logits * value + (-logits.abs()).exp().log1p()


def given_either(probs: Any, logits: Any) -> tuple[str, Any]:
    """Which of the two was given."""
    if (probs is None) == (logits is None):
        raise ValueError("Either `probs` or `logits` must be specified, but not both.")
    return ("probs", probs) if logits is None else ("logits", logits)


class ByEither(Distribution):
    """Distributions by probabilities or by logits: what was not given follows from the other."""

    _binary = True

    @lazy_property
    def logits(self) -> Any:
        """Log-odds, or logarithms of probabilities."""
        return probs_to_logits(self.probs, is_binary=self._binary)

    @lazy_property
    def probs(self) -> Any:
        """Probabilities."""
        return logits_to_probs(self.logits, is_binary=self._binary)

    @property
    def _param(self) -> Any:
        return self.__dict__["probs" if "probs" in self.__dict__ else "logits"]

    param_shape = fact(lambda d: d._param.shape)


class ByChance(ByEither):
    """Distributions of one probability, given as such or as its log-odds."""

    arg_constraints = {"probs": unit_interval, "logits": real}

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        name, given = given_either(probs, logits)
        (self.__dict__[name],) = broadcast_all(given)
        super().__init__(self._param.shape, validate_args=validate_args)


class ByChanceAndCount(ByEither):
    """Distributions of one probability and a number of trials."""

    def __init__(
        self, total_count: Any = 1, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        name, given = given_either(probs, logits)
        count, self.__dict__[name] = broadcast_all(total_count, given)
        self.total_count = count.type_as(self._param)
        super().__init__(self._param.shape, validate_args=validate_args)


class Bernoulli(ByChance, ExponentialFamily):
    """One with a probability, else zero."""

    support = boolean
    has_enumerate_support = True
    _mean_carrier_measure = 0

    mean = fact(lambda d: d.probs)
    mode = fact(lambda d: ops.where(d.probs == 0.5, math.nan, (d.probs >= 0.5).to(d.probs.dtype)))
    variance = fact(lambda d: d.probs * (1 - d.probs))
    _natural_params = fact(lambda d: (d.logits,))

    def sample(self, sample_shape: Any = ()) -> Any:
        return self.probs.detach().expand(self._extended_shape(sample_shape)).bernoulli()

    @density
    def log_prob(self, value: Any) -> Any:
        logits, value = broadcast_all(self.logits, value)
        return -surprise(logits, value)

    def entropy(self) -> Any:
        return surprise(self.logits, self.probs)

    def enumerate_support(self, expand: bool = True) -> Any:
        values = tensor([0.0, 1.0], dtype=self._param.dtype, device=self._param.device)
        return _enumerated(self, values, expand)

    def _log_normalizer(self, x: Any) -> Any:
        return x.exp().log1p()


def _enumerated(d: Any, values: Any, expand: bool) -> Any:
    """The values of a support in front of the batch dimensions."""
    values = values.reshape((-1, *[1] * len(d._batch_shape)))
    return values.expand((-1, *d._batch_shape)) if expand else values


class Geometric(ByChance):
    """How often something fails before it succeeds for the first time."""

    support = nonnegative_integer

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if not (self.probs > 0).all():
            raise ValueError(
                f"Expected parameter probs (Tensor of shape {tuple(self.probs.shape)}) of distribution "
                f"{self!r} to be positive but found invalid values:\n{self.probs}"
            )

    mean = fact(lambda d: 1 / d.probs - 1)
    mode = fact(lambda d: ops.zeros_like(d.probs))
    variance = fact(lambda d: (1 / d.probs - 1) / d.probs)

    def sample(self, sample_shape: Any = ()) -> Any:
        probs = self.probs.detach()
        least = finfo(probs.dtype).tiny
        drawn = ops.empty(self._extended_shape(sample_shape), dtype=probs.dtype, device=probs.device)
        return (drawn.uniform_(least, 1).log() / (-probs).log1p()).floor()

    @density
    def log_prob(self, value: Any) -> Any:
        value, probs = broadcast_all(value, self.probs)
        probs = probs.masked_fill((probs == 1) & (value == 0), 0)
        return value * (-probs).log1p() + self.probs.log()

    def entropy(self) -> Any:
        return surprise(self.logits, self.probs) / self.probs


class Binomial(ByChanceAndCount):
    """How many of `total_count` trials succeed."""

    arg_constraints = {"total_count": nonnegative_integer, "probs": unit_interval, "logits": real}
    has_enumerate_support = True

    @dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:
        return constraints.integer_interval(0, self.total_count)

    mean = fact(lambda d: d.total_count * d.probs)
    mode = fact(lambda d: ((d.total_count + 1) * d.probs).floor().clamp(max=d.total_count))
    variance = fact(lambda d: d.total_count * d.probs * (1 - d.probs))

    def sample(self, sample_shape: Any = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        return ops.binomial(self.total_count.detach().expand(shape), self.probs.detach().expand(shape))

    @density
    def log_prob(self, value: Any) -> Any:
        count, logits = self.total_count, self.logits
        ways = (count + 1).lgamma() - (value + 1).lgamma() - (count - value + 1).lgamma()
        nothing = count * logits.clamp(min=0) + count * (-logits.abs()).exp().log1p()
        return ways + value * logits - nothing

    def _same_count(self) -> int:
        count = int(self.total_count.max())
        if not self.total_count.min() == count:
            raise NotImplementedError("Inhomogeneous total count not supported by this method.")
        return count

    def entropy(self) -> Any:
        log_prob = self.log_prob(self.enumerate_support(False))
        return -(log_prob.exp() * log_prob).sum(0) if self._same_count() >= 0 else None

    def enumerate_support(self, expand: bool = True) -> Any:
        count = self._same_count()
        return _enumerated(
            self, ops.arange(1 + count, dtype=self._param.dtype, device=self._param.device), expand
        )


class NegativeBinomial(ByChanceAndCount):
    """How many successes before `total_count` failures."""

    arg_constraints = {
        "total_count": nonnegative, "probs": constraints.half_open_interval(0.0, 1.0), "logits": real,
    }  # fmt: skip
    support = nonnegative_integer

    mean = fact(lambda d: d.total_count * d.logits.exp())
    mode = fact(lambda d: ((d.total_count - 1) * d.logits.exp()).floor().clamp(min=0.0))
    variance = fact(lambda d: d.mean / (-d.logits).sigmoid())

    def sample(self, sample_shape: Any = ()) -> Any:
        count, logits = self.total_count.detach(), self.logits.detach()
        shape = self._extended_shape(sample_shape)
        return ops.poisson(ops._standard_gamma(count.expand(shape)) * logits.exp())

    @density
    def log_prob(self, value: Any) -> Any:
        count, logits = self.total_count, self.logits
        chances = count * ops.nn_functional_logsigmoid(-logits) + value * ops.nn_functional_logsigmoid(logits)
        ways = (count + value).lgamma() - (1.0 + value).lgamma() - count.lgamma()
        return chances + ops.where(count + value == 0.0, 0.0, ways)


class Poisson(ExponentialFamily, rate=nonnegative):
    """How often something happens that happens so often on average."""

    support = nonnegative_integer

    mean = variance = fact(lambda d: d.rate)
    mode = fact(lambda d: d.rate.floor())
    _natural_params = fact(lambda d: (d.rate.log(),))

    def sample(self, sample_shape: Any = ()) -> Any:
        return ops.poisson(self.rate.detach().expand(self._extended_shape(sample_shape)))

    @density
    def log_prob(self, value: Any) -> Any:
        rate, value = broadcast_all(self.rate, value)
        return ops.xlogy(value, rate) - rate - (value + 1).lgamma()

    def _log_normalizer(self, x: Any) -> Any:
        return x.exp()


class Categorical(ByEither):
    """One of several, by their probabilities (or logits) along the last dimension."""

    arg_constraints = {"probs": simplex, "logits": real_vector}
    has_enumerate_support = True
    _binary = False

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        name, given = given_either(probs, logits)
        if given.ndim < 1:
            raise ValueError(f"`{name}` parameter must be at least one-dimensional.")
        if logits is None:
            self.__dict__["probs"] = given / given.sum(-1, keepdim=True)
        else:
            self.__dict__["logits"] = given - given.logsumexp(-1, keepdim=True)
        self._num_events = given.shape[-1]
        super().__init__(given.shape[:-1], validate_args=validate_args)

    @dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:
        return constraints.integer_interval(0, self._num_events - 1)

    mean = variance = fact(
        lambda d: ops.full(d._extended_shape(), math.nan, dtype=d.probs.dtype, device=d.probs.device)
    )
    mode = fact(lambda d: d.probs.argmax(-1))

    def sample(self, sample_shape: Any = ()) -> Any:
        sample_shape = shape_of(sample_shape)
        rows = self.probs.detach().reshape(-1, self._num_events)
        drawn = rows.multinomial(sample_shape.numel(), True).T
        return drawn.reshape(self._extended_shape(sample_shape))

    @density
    def log_prob(self, value: Any) -> Any:
        places, logits = ops.broadcast_tensors([value.long().unsqueeze(-1), self.logits])
        return logits.gather(-1, places[..., :1]).squeeze(-1)

    def entropy(self) -> Any:
        return -(self.logits.clamp(min=finfo(self.logits.dtype).min) * self.probs).sum(-1)

    def enumerate_support(self, expand: bool = True) -> Any:
        return _enumerated(self, ops.arange(self._num_events, device=self._param.device), expand)


def of_inner(name: str) -> Any:
    """A fact that an inner distribution knows."""
    return property(lambda d: getattr(getattr(d, d._inner[0]), name))


class OneHotCategorical(Distribution):
    """One of several, as a vector of zeros and a one."""

    arg_constraints = {"probs": simplex, "logits": real_vector}
    support = one_hot
    has_enumerate_support = True
    _inner = ("_categorical",)

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        self._categorical = Categorical(probs, logits)
        shape = self._categorical.param_shape
        super().__init__(shape[:-1], shape[-1:], validate_args=validate_args)

    probs, logits = of_inner("probs"), of_inner("logits")
    param_shape, _param = of_inner("param_shape"), of_inner("_param")
    mean = fact(lambda d: d.probs)
    mode = fact(lambda d: d._spread(d._categorical.mode))
    variance = fact(lambda d: d.probs * (1 - d.probs))

    def _spread(self, places: Any) -> Any:
        zeros = self._param.detach().new_zeros((*places.shape, *self._event_shape))
        return zeros.scatter_(-1, places.unsqueeze(-1), 1.0)

    def enumerate_support(self, expand: bool = True) -> Any:
        return self._spread(self._categorical.enumerate_support(expand))

    def sample(self, sample_shape: Any = ()) -> Any:
        return self._spread(self._categorical.sample(sample_shape))

    @density
    def log_prob(self, value: Any) -> Any:
        return self._categorical.log_prob(value.max(-1)[1])

    def entropy(self) -> Any:
        return self._categorical.entropy()


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """As OneHotCategorical; gradients of draws flow to the probabilities as if these had been drawn."""

    has_rsample = True

    def rsample(self, sample_shape: Any = ()) -> Any:
        probs = self._categorical.probs
        return self.sample(sample_shape) + (probs - probs.detach())


class Multinomial(Distribution):
    """How many of `total_count` draws fell to each of several."""

    arg_constraints = {"probs": simplex, "logits": real_vector}
    _inner = ("_categorical",)

    def __init__(
        self, total_count: int = 1, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        if not isinstance(total_count, int):
            raise NotImplementedError("inhomogeneous total_count is not supported")
        self.total_count = total_count
        self._categorical = Categorical(probs, logits)
        shape = self._categorical.param_shape
        super().__init__(shape[:-1], shape[-1:], validate_args=validate_args)

    @dependent_property(is_discrete=True, event_dim=1)
    def support(self) -> Any:
        return constraints.multinomial(self.total_count)

    probs, logits = of_inner("probs"), of_inner("logits")
    param_shape, _param = of_inner("param_shape"), of_inner("_param")
    mean = fact(lambda d: d.probs * d.total_count)
    variance = fact(lambda d: d.total_count * d.probs * (1 - d.probs))

    def sample(self, sample_shape: Any = ()) -> Any:
        drawn = self._categorical.sample((self.total_count, *sample_shape))
        dims = (*range(1, drawn.ndim), 0)
        places = drawn.permute(dims)
        counts = self._param.detach().new_zeros(self._extended_shape(sample_shape))
        return counts.scatter_add_(-1, places, ops.ones_like(places, dtype=counts.dtype))

    @density
    def log_prob(self, value: Any) -> Any:
        logits, value = broadcast_all(self.logits, value)
        logits = logits.masked_fill((value == 0) & (logits == -math.inf), 0)
        ways = (value.sum(-1) + 1).lgamma() - (value + 1).lgamma().sum(-1)
        return ways + (logits * value).sum(-1)

    def entropy(self) -> Any:
        count = tensor(float(self.total_count), dtype=self._param.dtype, device=self._param.device)
        single = Binomial(self.total_count, probs=self.probs, validate_args=False)
        values = single.enumerate_support(expand=False)[1:]
        chances = single.log_prob(values).exp()
        inner = (chances * (values + 1).lgamma()).sum((0, -1))
        return self.total_count * self._categorical.entropy() - (count + 1).lgamma() + inner


class ContinuousBernoulli(ByChance, ExponentialFamily):
    """A number between zero and one whose density is p ** x * (1 - p) ** (1 - x), made to add up to one.
    Between `lims` formulas are replaced by their series around one half, where they are 0 / 0.
    """

    support = unit_interval
    has_rsample = True
    _mean_carrier_measure = 0

    def __init__(
        self, probs: Any = None, logits: Any = None, lims: tuple[float, float] = (0.499, 0.501),
        validate_args: bool | None = None,
    ) -> None:  # fmt: skip
        self._lims = lims
        super().__init__(probs, logits, validate_args)
        if probs is not None:
            self.probs = clamp_probs(self.probs)

    _natural_params = fact(lambda d: (d.logits,))

    def _by_series(self, formula: Callable[[Any], Any], series: Callable[[Any], Any]) -> Any:
        """A formula of the probability, and its series in the distance from one half where they are close."""
        probs = self.probs
        far = (probs <= self._lims[0]) | (probs > self._lims[1])
        return ops.where(far, formula(ops.where(far, probs, self._lims[0])), series(probs - 0.5))

    def _cont_bern_log_norm(self) -> Any:
        def formula(p: Any) -> Any:
            ratio = (-p).log1p() - p.log()
            return ratio.abs().log() - ops.where(
                p <= 0.5, (-2.0 * p).log1p(), (2.0 * p - 1.0).clamp(min=1e-30).log()
            )

        return self._by_series(
            formula, lambda x: math.log(2.0) + (4.0 / 3.0 + 104.0 / 45.0 * x.square()) * x.square()
        )

    @property
    def mean(self) -> Any:
        return self._by_series(
            lambda p: p / (2.0 * p - 1.0) + 1.0 / ((-p).log1p() - p.log()),
            lambda x: 0.5 + (1.0 / 3.0 + 16.0 / 45.0 * x.square()) * x,
        )

    @property
    def variance(self) -> Any:
        return self._by_series(
            lambda p: p * (p - 1.0) / (1.0 - 2.0 * p).square() + 1.0 / ((-p).log1p() - p.log()).square(),
            lambda x: 1.0 / 12.0 - (1.0 / 15.0 + 128.0 / 945.0 * x.square()) * x.square(),
        )

    def rsample(self, sample_shape: Any = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        return self.icdf(ops.rand(shape, dtype=self._param.dtype, device=self._param.device))

    @density
    def log_prob(self, value: Any) -> Any:
        logits, value = broadcast_all(self.logits, value)
        return -surprise(logits, value) + self._cont_bern_log_norm()

    @density
    def cdf(self, value: Any) -> Any:
        inside = value.clamp(0.0, 1.0)
        result = self._by_series(
            lambda p: (p**inside * (1.0 - p) ** (1.0 - inside) + p - 1.0) / (2.0 * p - 1.0),
            lambda x: inside - 2 * x * inside * (1 - inside),
        )
        return ops.where(value <= 0.0, 0.0, ops.where(value >= 1.0, 1.0, result))

    def icdf(self, value: Any) -> Any:
        return self._by_series(
            lambda p: ((-p + value * (2.0 * p - 1.0)).log1p() - (-p).log1p()) / (p.log() - (-p).log1p()),
            lambda x: value + 2 * x * value * (1 - value),
        )

    def entropy(self) -> Any:
        beyond = (-self.probs).log1p()
        return self.mean * (beyond - self.probs.log()) - self._cont_bern_log_norm() - beyond

    def _log_normalizer(self, x: Any) -> Any:
        far = (x <= self._lims[0] - 0.5) | (x > self._lims[1] - 0.5)
        safe = ops.where(far, x, (self._lims[0] - 0.5) * ops.ones_like(x))
        usual = (safe.exp() - 1).abs().log() - safe.abs().log()
        return ops.where(far, usual, 0.5 * x + x.square() / 24.0 - x.pow(4) / 2880.0)
