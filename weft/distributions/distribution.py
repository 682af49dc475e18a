"""The base of distributions: their shapes, and what follows from `rsample` and `log_prob`."""

from __future__ import annotations

from typing import Any

from weft.core.dtypes import get_default_dtype
from weft.core.types import Size
from weft.distributions.constraints import Constraint
from weft.ops.record import ops
from weft.tensor.base import Tensor
from weft.tensor.creation import tensor


def broadcast_all(*values: Any) -> tuple[Any, ...]:
    """The values as tensors of one shape."""
    given = next((value for value in values if isinstance(value, Tensor)), None)
    dtype = get_default_dtype() if given is None else given.dtype
    made = [value if isinstance(value, Tensor) else tensor(value, dtype=dtype) for value in values]
    return tuple(ops.broadcast_tensors(made))


def _either(probs: Any, logits: Any) -> None:
    if (probs is None) == (logits is None):
        raise ValueError("Either `probs` or `logits` must be specified, but not both.")


def _shape(value: Any) -> Any:
    return Size(value)


class Distribution:
    """Base of all: the shapes, and what follows from `rsample` and `log_prob`."""

    arg_constraints: dict[str, Constraint] = {}
    has_rsample = False
    has_enumerate_support = False
    support: Any = None
    _validate_args = __debug__
    _inner = ""
    """The attribute that holds the distribution which this one is made of, if there is one."""

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Whether parameters and values are checked where nothing else is said."""
        if value not in (True, False):
            raise ValueError
        Distribution._validate_args = value

    def __init__(
        self, batch_shape: Any = (), event_shape: Any = (), validate_args: bool | None = None
    ) -> None:
        self._batch_shape, self._event_shape = _shape(batch_shape), _shape(event_shape)
        if validate_args is not None:
            self._validate_args = validate_args
        if self._validate_args:
            self._check_parameters()

    def _check_parameters(self) -> None:
        for name, constraint in self.arg_constraints.items():
            if name not in self.__dict__:
                continue  # computed from the others
            value = getattr(self, name)
            if not constraint.check(value).all():
                raise ValueError(
                    f"Expected parameter {name} ({type(value).__name__} of shape {tuple(value.shape)}) of "
                    f"distribution {self!r} to satisfy the constraint {constraint!r}, but found invalid "
                    f"values:\n{value}"
                )

    @property
    def batch_shape(self) -> Any:
        """The shape of independent draws."""
        return self._batch_shape

    @property
    def event_shape(self) -> Any:
        """The shape of one draw."""
        return self._event_shape

    @property
    def stddev(self) -> Any:
        """The root of the variance."""
        return self.variance.sqrt()

    @property
    def mean(self) -> Any:
        raise NotImplementedError

    @property
    def variance(self) -> Any:
        raise NotImplementedError

    def sample(self, sample_shape: Any = ()) -> Any:
        """Draws, without gradients."""
        return self.rsample(sample_shape).detach()

    def rsample(self, sample_shape: Any = ()) -> Any:
        """Draws through which gradients of the parameters flow."""
        raise NotImplementedError

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density, or of the probability, at a value."""
        raise NotImplementedError

    def entropy(self) -> Any:
        raise NotImplementedError

    def cdf(self, value: Any) -> Any:
        raise NotImplementedError

    def icdf(self, value: Any) -> Any:
        raise NotImplementedError

    def enumerate_support(self, expand: bool = True) -> Any:
        raise NotImplementedError

    def perplexity(self) -> Any:
        """The exponential of the entropy."""
        return self.entropy().exp()

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """The distribution with its parameters repeated to this shape."""
        made = type(self).__new__(type(self))
        batch = _shape(batch_shape)
        for name, value in self.__dict__.items():
            if isinstance(value, Tensor):
                own = value.shape[len(self._batch_shape) :]
                made.__dict__[name] = value.expand(*batch, *own)
            else:
                made.__dict__[name] = value
        made._batch_shape = batch
        if self._inner:
            made.__dict__[self._inner] = self.__dict__[self._inner].expand(batch_shape)
        return made

    def _extended_shape(self, sample_shape: Any = ()) -> Any:
        return _shape((*sample_shape, *self._batch_shape, *self._event_shape))

    def _validate_sample(self, value: Any) -> None:
        if not isinstance(value, Tensor):
            raise ValueError("The value argument to log_prob must be a Tensor")
        expected = (*self._batch_shape, *self._event_shape)
        for i, j in zip(reversed(tuple(value.shape)), reversed(expected)):
            if i not in (1, j) and j != 1:
                raise ValueError(
                    f"Value is not broadcastable with batch_shape+event_shape: {value.shape} vs "
                    f"{_shape(expected)}."
                )
        if self.support is not None and not self.support.check(value).all():
            raise ValueError(
                f"Expected value argument ({type(value).__name__} of shape {tuple(value.shape)}) to be "
                f"within the support ({self.support!r}) of the distribution {self!r}, but found invalid "
                f"values:\n{value}"
            )

    def _checked(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        return value

    def __repr__(self) -> str:
        names = [name for name in self.arg_constraints if name in self.__dict__]
        parts = []
        for name in names:
            value = self.__dict__[name]
            parts.append(f"{name}: {value if value.numel() == 1 and not value.ndim else value.shape}")
        return f"{type(self).__name__}({', '.join(parts)})"
