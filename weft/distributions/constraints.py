"""What parameters and values of distributions must be.

Takes values, gives for each whether it satisfies a constraint. One idea: most constraints are one comparison
with their bounds, so each is a line: its fields are the names that the comparison takes. The last `event_dim`
dimensions of a value are looked at together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from weft.core.dtypes import finfo
from weft.ops.record import ops
from weft.tensor.faces import FUNCTIONS

__all__ = [
    "Constraint", "MixtureSameFamilyConstraint", "boolean", "cat", "corr_cholesky", "dependent",
    "dependent_property", "greater_than", "greater_than_eq", "half_open_interval", "independent",
    "integer_interval", "interval", "is_dependent", "less_than", "lower_cholesky", "lower_triangular",
    "multinomial", "nonnegative", "nonnegative_integer", "one_hot", "positive", "positive_definite",
    "positive_integer", "positive_semidefinite", "real", "real_vector", "simplex", "square", "stack",
    "symmetric", "unit_interval",
]  # fmt: skip


class Constraint:
    """What values must satisfy."""

    is_discrete: Any = False
    event_dim: Any = 0
    fields: tuple[str, ...] = ()

    def check(self, value: Any) -> Any:
        """Whether each value satisfies it."""
        raise NotImplementedError

    def __repr__(self) -> str:
        told = ", ".join(f"{name}={getattr(self, name)}" for name in self.fields)
        return f"{type(self).__name__.lstrip('_')}({told})"


def _constraint(
    name: str, rule: Callable[..., Any], is_discrete: bool = False, event_dim: int = 0
) -> type[Any]:
    """A class of constraints: `rule` takes a value, then the fields."""
    fields = rule.__code__.co_varnames[1 : rule.__code__.co_argcount]

    def __init__(self: Any, *given: Any, **named: Any) -> None:
        bound = dict(zip(fields, given)) | named
        if len(given) > len(fields) or bound.keys() != set(fields):
            raise TypeError(f"{name} takes {', '.join(fields) or 'nothing'}")
        self.__dict__.update(bound)

    def check(self: Any, value: Any) -> Any:
        return rule(value, *(getattr(self, field) for field in fields))

    return type(name, (Constraint,), {
        "__init__": __init__, "check": check, "fields": fields, "is_discrete": is_discrete,
        "event_dim": event_dim, "__module__": __name__, "__doc__": None,
    })  # fmt: skip


def _whole(value: Any) -> Any:
    return value % 1 == 0


def _all(value: Any) -> Any:
    """Whether all elements of each matrix hold."""
    return value.all(-1).all(-1)


def _lower(value: Any) -> Any:
    return _all(value.tril() == value)


def _positive_diagonal(value: Any) -> Any:
    return (value.diagonal(0, -2, -1) > 0).all(-1)


def _unit_rows(value: Any) -> Any:
    apart = (value.square().sum(-1) - 1).abs()
    return (apart < finfo(value.dtype).eps * value.shape[-1] * 10).all(-1)


def _adds_up(value: Any) -> Any:
    return (value >= 0).all(-1) & ((value.sum(-1) - 1).abs() < 1e-6)


def _symmetric(value: Any) -> Any:
    if value.shape[-2] != value.shape[-1]:
        return ops.full(value.shape[:-2], False, device=value.device)
    return _all(ops.isclose(value, value.mT, atol=1e-6))


def _positive_definite(value: Any) -> Any:
    symmetric = _symmetric(value)
    if value.shape[-2] != value.shape[-1]:
        return symmetric
    definite = FUNCTIONS["linalg.cholesky_ex"](value).info == 0
    return ops.where(symmetric.all(), definite, symmetric)


def _semidefinite(value: Any) -> Any:
    symmetric = _symmetric(value)
    if not symmetric.all():
        return symmetric
    return (FUNCTIONS["linalg.eigvalsh"](value) > -1e-6).all(-1)


_Boolean = _constraint("_Boolean", lambda value: (value == 0) | (value == 1), True)
_OneHot = _constraint(
    "_OneHot", lambda value: ((value == 0) | (value == 1)).all(-1) & (value.sum(-1) == 1), True, 1
)
_IntegerInterval = _constraint(
    "_IntegerInterval",
    lambda value, lower_bound, upper_bound: _whole(value) & (lower_bound <= value) & (value <= upper_bound),
    True,
)
_IntegerLessThan = _constraint(
    "_IntegerLessThan", lambda value, upper_bound: _whole(value) & (value <= upper_bound), True
)
_IntegerGreaterThan = _constraint(
    "_IntegerGreaterThan", lambda value, lower_bound: _whole(value) & (value >= lower_bound), True
)
_Real = _constraint("_Real", lambda value: value == value)
_GreaterThan = _constraint("_GreaterThan", lambda value, lower_bound: lower_bound < value)
_GreaterThanEq = _constraint("_GreaterThanEq", lambda value, lower_bound: lower_bound <= value)
_LessThan = _constraint("_LessThan", lambda value, upper_bound: value < upper_bound)
_Interval = _constraint(
    "_Interval", lambda value, lower_bound, upper_bound: (lower_bound <= value) & (value <= upper_bound)
)
_HalfOpenInterval = _constraint(
    "_HalfOpenInterval",
    lambda value, lower_bound, upper_bound: (lower_bound <= value) & (value < upper_bound),
)
_Simplex = _constraint("_Simplex", _adds_up, event_dim=1)
_Multinomial = _constraint(
    "_Multinomial",
    lambda value, upper_bound: (value >= 0).all(-1) & (value.sum(-1) <= upper_bound),
    True, 1,
)  # fmt: skip
_LowerTriangular = _constraint("_LowerTriangular", _lower, event_dim=2)
_LowerCholesky = _constraint(
    "_LowerCholesky", lambda value: _lower(value) & _positive_diagonal(value), event_dim=2
)
_CorrCholesky = _constraint(
    "_CorrCholesky",
    lambda value: _lower(value) & _positive_diagonal(value) & _unit_rows(value),
    event_dim=2,
)
_Square = _constraint(
    "_Square",
    lambda value: ops.full(value.shape[:-2], value.shape[-2] == value.shape[-1], device=value.device),
    event_dim=2,
)
_Symmetric = _constraint("_Symmetric", _symmetric, event_dim=2)
_PositiveSemidefinite = _constraint("_PositiveSemidefinite", _semidefinite, event_dim=2)
_PositiveDefinite = _constraint("_PositiveDefinite", _positive_definite, event_dim=2)


class _Dependent(Constraint):
    """A constraint that depends on other values, such as another parameter; it cannot be checked alone."""

    def __init__(self, *, is_discrete: Any = NotImplemented, event_dim: Any = NotImplemented) -> None:
        self._told = is_discrete, event_dim

    def _known(self, place: int, name: str) -> Any:
        if self._told[place] is NotImplemented:
            raise NotImplementedError(f".{name} cannot be determined statically")
        return self._told[place]

    is_discrete = property(lambda self: self._known(0, "is_discrete"))
    event_dim = property(lambda self: self._known(1, "event_dim"))

    def __call__(self, *, is_discrete: Any = NotImplemented, event_dim: Any = NotImplemented) -> _Dependent:
        first, second = self._told
        return _Dependent(
            is_discrete=first if is_discrete is NotImplemented else is_discrete,
            event_dim=second if event_dim is NotImplemented else event_dim,
        )

    def check(self, value: Any) -> Any:
        raise ValueError("Cannot determine validity of dependent constraint")


class _DependentProperty(property, _Dependent):
    """A property that gives a constraint; asked of the class it is a dependent constraint."""

    def __init__(
        self,
        fn: Any = None,
        *,
        is_discrete: Any = NotImplemented,
        event_dim: Any = NotImplemented,
    ) -> None:
        super().__init__(fn)
        self._told = is_discrete, event_dim

    def __call__(self, fn: Any) -> _DependentProperty:  # type: ignore[override]
        return _DependentProperty(fn, is_discrete=self._told[0], event_dim=self._told[1])


class _IndependentConstraint(Constraint):
    """A constraint on several dimensions that all elements satisfy each for itself."""

    def __init__(self, base_constraint: Any, reinterpreted_batch_ndims: int) -> None:
        if not isinstance(base_constraint, Constraint):
            raise AssertionError(f"Expected a Constraint, got {type(base_constraint).__name__}")
        self.base_constraint = base_constraint
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims

    is_discrete = property(lambda self: self.base_constraint.is_discrete)
    event_dim = property(lambda self: self.base_constraint.event_dim + self.reinterpreted_batch_ndims)

    def check(self, value: Any) -> Any:
        result = self.base_constraint.check(value)
        count = self.reinterpreted_batch_ndims
        if result.ndim < count:
            expected = self.base_constraint.event_dim + count
            raise ValueError(f"Expected value.dim() >= {expected} but got {value.dim()}")
        return result.all(tuple(range(-count, 0))) if count else result

    def __repr__(self) -> str:
        return f"IndependentConstraint({self.base_constraint!r}, {self.reinterpreted_batch_ndims})"


class MixtureSameFamilyConstraint(Constraint):
    """That of the components, for values of a mixture, which lack their dimension."""

    def __init__(self, base_constraint: Any) -> None:
        if not isinstance(base_constraint, Constraint):
            raise AssertionError(f"Expected a Constraint, got {type(base_constraint).__name__}")
        self.base_constraint = base_constraint

    is_discrete = property(lambda self: self.base_constraint.is_discrete)
    event_dim = property(lambda self: self.base_constraint.event_dim)

    def check(self, value: Any) -> Any:
        count = self.event_dim
        if value.ndim < count:
            raise ValueError(f"Expected value.dim() >= {count} but got {value.dim()}")
        result = self.base_constraint.check(value.unsqueeze(-1 - count))
        while result.ndim > value.ndim - count:
            result = result.all(-1)
        return result

    def __repr__(self) -> str:
        return f"MixtureSameFamilyConstraint({self.base_constraint!r})"


class _Several(Constraint):
    """Constraints side by side along a dimension."""

    def __init__(self, cseq: Sequence[Any], dim: int) -> None:
        if not all(isinstance(each, Constraint) for each in cseq):
            raise AssertionError("All elements must be Constraints")
        self.cseq, self.dim = list(cseq), dim

    is_discrete = property(lambda self: any(each.is_discrete for each in self.cseq))


class _Cat(_Several):
    """For values that are joined along a dimension, each as long as `lengths` says."""

    def __init__(self, cseq: Sequence[Any], dim: int = 0, lengths: Sequence[int] | None = None) -> None:
        super().__init__(cseq, dim)
        self.lengths = [1] * len(self.cseq) if lengths is None else list(lengths)

    event_dim = property(lambda self: max(each.event_dim for each in self.cseq))

    def check(self, value: Any) -> Any:
        parts = value.split(self.lengths, self.dim)
        return ops.cat([each.check(part) for each, part in zip(self.cseq, parts, strict=True)], self.dim)


class _Stack(_Several):
    """For values that are stacked along a dimension."""

    def __init__(self, cseq: Sequence[Any], dim: int = 0) -> None:
        super().__init__(cseq, dim)

    @property
    def event_dim(self) -> int:
        most = int(max(each.event_dim for each in self.cseq))
        return most + 1 if self.dim + most < 0 else most

    def check(self, value: Any) -> Any:
        parts = value.unbind(self.dim)
        return ops.stack([each.check(part) for each, part in zip(self.cseq, parts, strict=True)], self.dim)


def is_dependent(constraint: Any) -> bool:
    """Whether a constraint cannot be checked alone."""
    return isinstance(constraint, _Dependent)


dependent = _Dependent()
dependent_property = _DependentProperty
independent = _IndependentConstraint
boolean, one_hot = _Boolean(), _OneHot()
nonnegative_integer, positive_integer = _IntegerGreaterThan(0), _IntegerGreaterThan(1)
integer_interval = _IntegerInterval
real, simplex = _Real(), _Simplex()
real_vector = independent(real, 1)
positive, nonnegative = _GreaterThan(0.0), _GreaterThanEq(0.0)
greater_than, greater_than_eq, less_than = _GreaterThan, _GreaterThanEq, _LessThan
unit_interval, interval, half_open_interval = _Interval(0.0, 1.0), _Interval, _HalfOpenInterval
multinomial = _Multinomial
lower_triangular, lower_cholesky, corr_cholesky = _LowerTriangular(), _LowerCholesky(), _CorrCholesky()
square, symmetric = _Square(), _Symmetric()
positive_semidefinite, positive_definite = _PositiveSemidefinite(), _PositiveDefinite()
cat, stack = _Cat, _Stack
