"""What parameters and values of distributions must be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Constraint:
    """What values must satisfy; `dims` of their last dimensions are looked at together."""

    def __init__(self, text: str, check: Callable[[Any], Any], dims: int = 0) -> None:
        self.text, self.check, self.event_dim = text, check, dims

    def __repr__(self) -> str:
        return self.text


real = Constraint("Real()", lambda value: value == value)
positive = Constraint("GreaterThan(lower_bound=0.0)", lambda value: value > 0)
nonnegative = Constraint("GreaterThanEq(lower_bound=0.0)", lambda value: value >= 0)
unit_interval = Constraint(
    "Interval(lower_bound=0.0, upper_bound=1.0)", lambda value: (value >= 0) & (value <= 1)
)
boolean = Constraint("Boolean()", lambda value: (value == 0) | (value == 1))
whole = Constraint("IntegerGreaterThan(lower_bound=0)", lambda value: (value % 1 == 0) & (value >= 0))
real_vector = Constraint("IndependentConstraint(Real(), 1)", lambda value: (value == value).all(-1), 1)
simplex = Constraint("Simplex()", lambda value: (value >= 0).all(-1) & ((value.sum(-1) - 1).abs() < 1e-6), 1)
one_hot = Constraint(
    "OneHot()", lambda value: ((value == 0) | (value == 1)).all(-1) & (value.sum(-1) == 1), 1
)
positive_definite = Constraint(
    "PositiveDefinite()",
    lambda value: (value == value.mT).all(-1).all(-1) & (value.diagonal(0, -2, -1) > 0).all(-1),
    2,
)
lower_cholesky = Constraint(
    "LowerCholesky()",
    lambda value: (value.tril() == value).all(-1).all(-1) & (value.diagonal(0, -2, -1) > 0).all(-1),
    2,
)


def integers_below(count: int) -> Constraint:
    return Constraint(
        f"IntegerInterval(lower_bound=0, upper_bound={count - 1})",
        lambda value: (value % 1 == 0) & (value >= 0) & (value < count),
    )
