"""Distributions over choices and counts."""

from __future__ import annotations

import math
from typing import Any

from weft.distributions.constraints import (
    boolean,
    integers_below,
    one_hot,
    real,
    real_vector,
    simplex,
    unit_interval,
    whole,
)
from weft.distributions.distribution import Distribution, _either, _shape, broadcast_all
from weft.ops.record import ops
from weft.tensor.creation import tensor


def _surprise(logits: Any, value: Any) -> Any:
    """The negative logarithm of the probability of zeros and ones, or between."""
    return logits.clamp(min=0) - logits * value + (-logits.abs()).exp().log1p()


class _ByEither(Distribution):
    """Distributions by probabilities or by logits: what was not given follows from the other."""

    _logits_of: Any
    _probs_of: Any

    def __getattr__(self, name: str) -> Any:
        if name == "logits" and "probs" in self.__dict__:
            eps = 1.1920928955078125e-07 if self.probs.dtype.itemsize <= 4 else 2.220446049250313e-16
            return self._logits_of(self.probs.clamp(eps, 1 - eps))
        if name == "probs" and "logits" in self.__dict__:
            return self._probs_of(self.logits)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


class _ByChance(_ByEither):
    """Distributions of one probability, given as such or as its log-odds."""

    arg_constraints = {"probs": unit_interval, "logits": real}
    _logits_of = staticmethod(lambda probs: probs.log() - (-probs).log1p())
    _probs_of = staticmethod(lambda logits: logits.sigmoid())

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        _either(probs, logits)
        (given,) = broadcast_all(probs if logits is None else logits)
        self.__dict__["probs" if logits is None else "logits"] = given
        super().__init__(given.shape, validate_args=validate_args)

    param_shape = property(lambda self: self._batch_shape)


class Bernoulli(_ByChance):
    """One with a probability, else zero."""

    support = boolean
    has_enumerate_support = True

    mean = property(lambda self: self.probs)
    mode = property(lambda self: (self.probs >= 0.5).to(self.probs.dtype))
    variance = property(lambda self: self.probs * (1 - self.probs))

    def sample(self, sample_shape: Any = ()) -> Any:
        return self.probs.detach().expand(self._extended_shape(sample_shape)).bernoulli()

    def log_prob(self, value: Any) -> Any:
        logits, value = broadcast_all(self.logits, self._checked(value))
        return -_surprise(logits, value)

    def entropy(self) -> Any:
        return _surprise(self.logits, self.probs)

    def enumerate_support(self, expand: bool = True) -> Any:
        values = tensor([0.0, 1.0], dtype=self.probs.dtype).reshape(2, *[1] * len(self._batch_shape))
        return values.expand(2, *self._batch_shape) if expand else values


class Geometric(_ByChance):
    """How often something fails before it succeeds for the first time."""

    support = whole

    mean = property(lambda self: 1 / self.probs - 1)
    mode = property(lambda self: ops.zeros_like(self.probs))
    variance = property(lambda self: (1 / self.probs - 1) / self.probs)

    def sample(self, sample_shape: Any = ()) -> Any:
        drawn = self.probs.detach().new_empty(self._extended_shape(sample_shape)).uniform_(1e-7, 1)
        return (drawn.log() / (-self.probs.detach()).log1p()).floor()

    def log_prob(self, value: Any) -> Any:
        value, probs = broadcast_all(self._checked(value), self.probs)
        probs = probs.masked_fill((probs == 1) & (value == 0), 0)
        return value * (-probs).log1p() + self.probs.log()

    def entropy(self) -> Any:
        return Bernoulli(self.probs, validate_args=False).entropy() / self.probs


class Categorical(_ByEither):
    """One of several, by their probabilities (or logits) along the last dimension."""

    arg_constraints = {"probs": simplex, "logits": real_vector}
    _logits_of = staticmethod(lambda probs: probs.log())
    _probs_of = staticmethod(lambda logits: logits.softmax(-1))
    has_enumerate_support = True

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        _either(probs, logits)
        name, given = ("probs", probs) if logits is None else ("logits", logits)
        if given.ndim < 1:
            raise ValueError(f"`{name}` parameter must be at least one-dimensional.")
        if logits is None:
            self.__dict__["probs"] = given / given.sum(-1, keepdim=True)
        else:
            self.__dict__["logits"] = given - given.logsumexp(-1, keepdim=True)
        self._num_events = given.shape[-1]
        super().__init__(given.shape[:-1], validate_args=validate_args)

    @property
    def param_shape(self) -> Any:
        return self.__dict__["probs" if "probs" in self.__dict__ else "logits"].shape

    support = property(lambda self: integers_below(self._num_events))
    mean = property(lambda self: ops.full(self._batch_shape, math.nan, dtype=self.probs.dtype))
    variance = mean
    mode = property(lambda self: self.probs.argmax(-1))

    def sample(self, sample_shape: Any = ()) -> Any:
        sample_shape = _shape(sample_shape)
        rows = self.probs.detach().reshape(-1, self._num_events)
        drawn = rows.multinomial(sample_shape.numel(), True).T
        return drawn.reshape(self._extended_shape(sample_shape))

    def log_prob(self, value: Any) -> Any:
        places = self._checked(value).long().unsqueeze(-1)
        places, logits = ops.broadcast_tensors([places, self.logits])
        return logits.gather(-1, places[..., :1]).squeeze(-1)

    def entropy(self) -> Any:
        least = -3.4028234663852886e38 if self.logits.dtype.itemsize <= 4 else -1.7976931348623157e308
        return -(self.logits.clamp(min=least) * self.probs).sum(-1)

    def enumerate_support(self, expand: bool = True) -> Any:
        values = ops.arange(self._num_events).reshape(-1, *[1] * len(self._batch_shape))
        return values.expand(-1, *self._batch_shape) if expand else values


class OneHotCategorical(Distribution):
    """One of several, as a vector of zeros and a one."""

    arg_constraints = {"probs": simplex, "logits": real_vector}
    support = one_hot
    has_enumerate_support = True
    _inner = "_categorical"

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        self._categorical = Categorical(probs, logits, validate_args=validate_args)
        shape = self._categorical.param_shape
        super().__init__(shape[:-1], shape[-1:], validate_args=validate_args)

    mode = property(lambda self: self._spread(self._categorical.mode))

    def _spread(self, places: Any) -> Any:
        zeros = self.probs.detach().new_zeros((*places.shape, *self._event_shape))
        return zeros.scatter_(-1, places.unsqueeze(-1), 1.0)

    def enumerate_support(self, expand: bool = True) -> Any:
        return self._spread(self._categorical.enumerate_support(expand))

    probs = property(lambda self: self._categorical.probs)
    logits = property(lambda self: self._categorical.logits)
    mean = property(lambda self: self.probs)
    variance = property(lambda self: self.probs * (1 - self.probs))

    def sample(self, sample_shape: Any = ()) -> Any:
        return self._spread(self._categorical.sample(sample_shape))

    def log_prob(self, value: Any) -> Any:
        return self._categorical.log_prob(self._checked(value).max(-1)[1])

    def entropy(self) -> Any:
        return self._categorical.entropy()
