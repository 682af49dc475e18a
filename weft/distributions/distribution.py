"""The base of distributions: their shapes, and what follows from `rsample` and `log_prob`.

Takes parameters, gives draws and densities. One idea: a class says its parameters once, with their
constraints, in its header,

    class Gamma(ExponentialFamily, concentration=positive, rate=positive):
        mean = fact(lambda d: d.concentration / d.rate)

and gets its constructor from there: the parameters are broadcast to one shape. Facts and densities are
formulas of the object; `expand` repeats whatever tensors it holds.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import Parameter, Signature
from typing import TYPE_CHECKING, Any

from weft.autograd import grad
from weft.core.naming import named
from weft.core.warn import warn
from weft.distributions.constraints import is_dependent
from weft.distributions.utils import broadcast_all, lazy_property, shape_of
from weft.tensor.base import Tensor

GIVEN = Parameter.POSITIONAL_OR_KEYWORD

fact = property
"""A formula of the parameters."""


def density(formula: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Decorator: a formula of the object and a value, which is checked first."""

    def method(self: Any, value: Any) -> Any:
        return formula(self, self._checked(value))

    return method


def _is_computed(cls: type, name: str) -> bool:
    """Whether a parameter is one that follows from others. The class is not asked for the attribute, which
    would make a property to show."""
    for each in cls.__mro__:
        if name in each.__dict__:
            return isinstance(each.__dict__[name], lazy_property)
    return False


def _constructor(name: str, parameters: dict[str, Any]) -> Callable[..., None]:
    """`__init__` of a class with these parameters: constraints, or pairs of a constraint and a default."""
    defaults = {key: told[1] for key, told in parameters.items() if isinstance(told, tuple)}
    order = (*parameters, "validate_args")

    def __init__(self: Any, *given: Any, **named: Any) -> None:
        bound = {**defaults, "validate_args": None, **dict(zip(order, given)), **named}
        if len(given) > len(order) or len(bound) != len(order):
            missing = [key for key in parameters if key not in bound]
            raise TypeError(
                f"{name}() takes ({', '.join(order)})" + (f"; missing: {missing}" if missing else "")
            )
        values = broadcast_all(*[bound[key] for key in parameters])
        for key, value in zip(parameters, values, strict=True):
            setattr(self, key, value)
        Distribution.__init__(self, values[0].shape, validate_args=bound["validate_args"])
        self._made()

    kinds = [
        Parameter(key, GIVEN, default=defaults.get(key, Parameter.empty)) for key in ("self", *parameters)
    ]
    last = Parameter("validate_args", GIVEN, default=None)
    __init__.__dict__["__signature__"] = Signature([*kinds, last])
    return __init__


class Distribution:
    """Base of all: the shapes, and what follows from `rsample` and `log_prob`."""

    arg_constraints: Any = {}
    has_rsample: Any = False
    has_enumerate_support: Any = False
    support: Any = None
    _validate_args = __debug__
    _inner: tuple[str, ...] = ()
    """The attributes that hold distributions which this one is made of."""
    _kept: tuple[str, ...] = ()
    """The tensors that `expand` leaves as they are."""

    if TYPE_CHECKING:  # the parameters that a header says

        def __getattr__(self, name: str) -> Any: ...

    def __init_subclass__(cls, **parameters: Any) -> None:
        super().__init_subclass__()
        if parameters:
            cls.arg_constraints = {
                name: told[0] if isinstance(told, tuple) else told for name, told in parameters.items()
            }
            cls.__init__ = _constructor(cls.__name__, parameters)  # type: ignore[method-assign]

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Whether parameters and values are checked where nothing else is said."""
        if value not in (True, False):
            raise ValueError
        Distribution._validate_args = value

    def __init__(
        self, batch_shape: Any = (), event_shape: Any = (), validate_args: bool | None = None
    ) -> None:
        self._batch_shape, self._event_shape = shape_of(batch_shape), shape_of(event_shape)
        if validate_args is not None:
            self._validate_args = validate_args
        if self._validate_args:
            self._check_parameters()

    def _made(self) -> None:
        """What a class checks or adds when its parameters are there."""

    def _check_parameters(self) -> None:
        try:
            known = self.arg_constraints
        except NotImplementedError:
            warn(
                named(
                    f"{type(self)} does not define `arg_constraints`. Please set `arg_constraints = {{}}` or "
                    "initialize the distribution with `validate_args=False` to turn off validation."
                )
            )
            return
        for name, constraint in known.items():
            if is_dependent(constraint):
                continue
            if name not in self.__dict__ and _is_computed(type(self), name):
                continue  # from the others
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
    def mean(self) -> Any:
        raise NotImplementedError

    @property
    def mode(self) -> Any:
        raise NotImplementedError(f"{type(self)} does not implement mode")

    @property
    def variance(self) -> Any:
        raise NotImplementedError

    @property
    def stddev(self) -> Any:
        """The root of the variance."""
        return self.variance.sqrt()

    def sample(self, sample_shape: Any = ()) -> Any:
        """Draws, without gradients."""
        return self.rsample(sample_shape).detach()

    def sample_n(self, n: int) -> Any:
        """The older name of `sample((n,))`."""
        warn("sample_n will be deprecated. Use .sample((n,)) instead")
        return self.sample((n,))

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
        made = self._get_checked_instance(None, _instance)
        batch = shape_of(batch_shape)
        for name, value in list(self.__dict__.items()):
            if isinstance(value, Tensor) and name not in self._kept:
                own = value.shape[len(self._batch_shape) :]
                made.__dict__[name] = value.expand(*batch, *own)
            elif name not in made.__dict__:
                made.__dict__[name] = value
        made._batch_shape, made._event_shape = batch, self._event_shape
        for name in self._inner:
            made.__dict__[name] = self._expanded_inner(name, batch)
        return made

    def _expanded_inner(self, name: str, batch: Any) -> Any:
        return self.__dict__[name].expand(batch)

    def _get_checked_instance(self, cls: Any, _instance: Any = None) -> Any:
        """The object that `expand` fills in: the given one, or a new one of this class. `cls` is the class
        whose `expand` asks: a subclass with a constructor of its own must bring its own.
        """
        if _instance is not None:
            return _instance
        if cls is not None and type(self).__init__ != cls.__init__:
            raise NotImplementedError(
                f"Subclass {type(self).__name__} of {cls.__name__} that defines a custom __init__ method "
                "must also define a custom .expand() method."
            )
        return self.__new__(type(self))

    def _extended_shape(self, sample_shape: Any = ()) -> Any:
        return shape_of((*sample_shape, *self._batch_shape, *self._event_shape))

    def _validate_sample(self, value: Any) -> None:
        if not isinstance(value, Tensor):
            raise ValueError("The value argument to log_prob must be a Tensor")
        expected = (*self._batch_shape, *self._event_shape)
        if value.ndim < len(self._event_shape):
            raise ValueError(
                f"The right-most size of value must match event_shape: {value.shape} vs {self._event_shape}."
            )
        for i, j in zip(reversed(tuple(value.shape)), reversed(expected)):
            if i not in (1, j) and j != 1:
                raise ValueError(
                    f"Value is not broadcastable with batch_shape+event_shape: {value.shape} vs "
                    f"{shape_of(expected)}."
                )
        try:
            support = self.support
        except NotImplementedError:
            support = None
        if support is not None and not is_dependent(support) and not support.check(value).all():
            raise ValueError(
                f"Expected value argument ({type(value).__name__} of shape {tuple(value.shape)}) to be "
                f"within the support ({support!r}) of the distribution {self!r}, but found invalid "
                f"values:\n{value}"
            )

    def _checked(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        return value

    def __repr__(self) -> str:
        parts = []
        for name in self.arg_constraints:
            if name in self.__dict__:
                value = self.__dict__[name]
                plain = not isinstance(value, Tensor) or not value.ndim
                parts.append(f"{name}: {value if plain else value.shape}")
        return f"{type(self).__name__}({', '.join(parts)})"


class ExponentialFamily(Distribution):
    """Distributions whose density is exp(<natural parameters, statistics> - normaliser): entropy and
    divergence follow from the normaliser's gradient.
    """

    _mean_carrier_measure: Any = None

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        raise NotImplementedError

    def _log_normalizer(self, *natural_params: Any) -> Any:
        raise NotImplementedError

    def entropy(self) -> Any:
        measure = self._mean_carrier_measure
        if measure is None:
            raise NotImplementedError
        natural = [each.detach().requires_grad_() for each in self._natural_params]
        normalizer = self._log_normalizer(*natural)
        slopes = grad(normalizer.sum(), natural, create_graph=True)
        result = normalizer - measure
        for parameter, slope in zip(natural, slopes, strict=True):
            term = parameter * slope
            result = result - term.reshape((*self._batch_shape, -1)).sum(-1)
        return result
