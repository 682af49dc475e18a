"""Transforms by constraint: how free numbers become values that satisfy it.

Takes a constraint, gives a transform from real numbers: `biject_to(constraint)` one that can be undone with
its density, `transform_to(constraint)` one that is cheap to optimise through. One idea: a table by the
constraint's class, to which `register` adds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import weft.distributions.constraints as constraints
import weft.distributions.transforms as transforms

__all__ = ["ConstraintRegistry", "biject_to", "transform_to"]

Factory = Callable[[Any], Any]


class ConstraintRegistry:
    """Transforms by class of constraint."""

    def __init__(self) -> None:
        self._registry: dict[type, Factory] = {}

    def register(self, constraint: Any, factory: Factory | None = None) -> Any:
        """Says which transform a class of constraints gets; also a decorator of the factory."""
        if factory is None:
            return lambda made: self.register(constraint, made)
        kind = type(constraint) if isinstance(constraint, constraints.Constraint) else constraint
        if not isinstance(kind, type) or not issubclass(kind, constraints.Constraint):
            raise TypeError(
                f"Expected constraint to be either a Constraint subclass or instance, but got {constraint}"
            )
        self._registry[kind] = factory
        return factory

    def __call__(self, constraint: Any) -> Any:
        factory = self._registry.get(type(constraint))
        if factory is None:
            raise NotImplementedError(f"Cannot transform {type(constraint).__name__} constraints")
        return factory(constraint)


biject_to, transform_to = ConstraintRegistry(), ConstraintRegistry()


def _for_both(constraint: Any) -> Callable[[Factory], Factory]:
    def register(factory: Factory) -> Factory:
        biject_to.register(constraint, factory)
        return transform_to.register(constraint, factory)  # type: ignore[no-any-return]

    return register


def _sided(bound: Any, sign: int) -> Any:
    return transforms.ComposeTransform([transforms.ExpTransform(), transforms.AffineTransform(bound, sign)])


@_for_both(constraints.interval)
@_for_both(constraints.half_open_interval)
def _between(constraint: Any) -> Any:
    low, high = constraint.lower_bound, constraint.upper_bound
    numbers = isinstance(low, (int, float)) and isinstance(high, (int, float))
    if numbers and low == 0 and high == 1:
        return transforms.SigmoidTransform()
    return transforms.ComposeTransform(
        [transforms.SigmoidTransform(), transforms.AffineTransform(low, high - low)]
    )


_for_both(constraints.real)(lambda constraint: transforms.identity_transform)
_for_both(constraints.positive)(lambda constraint: _above(constraint))
_for_both(constraints.greater_than_eq)(lambda constraint: _above(constraint))
_for_both(constraints.less_than)(lambda constraint: _sided(constraint.upper_bound, -1))
_for_both(constraints.corr_cholesky)(lambda constraint: transforms.CorrCholeskyTransform())
biject_to.register(constraints.simplex, lambda constraint: transforms.StickBreakingTransform())
transform_to.register(constraints.simplex, lambda constraint: transforms.SoftmaxTransform())
transform_to.register(constraints.lower_cholesky, lambda constraint: transforms.LowerCholeskyTransform())
transform_to.register(
    constraints.positive_definite, lambda constraint: transforms.PositiveDefiniteTransform()
)
transform_to.register(
    constraints.positive_semidefinite, lambda constraint: transforms.PositiveDefiniteTransform()
)


def _above(constraint: Any) -> Any:
    if isinstance(constraint.lower_bound, (int, float)) and constraint.lower_bound == 0:
        return transforms.ExpTransform()
    return _sided(constraint.lower_bound, 1)


def _for_several(registry: ConstraintRegistry) -> None:
    """Constraints that are made of others: the transforms of these."""
    registry.register(
        constraints.independent,
        lambda it: transforms.IndependentTransform(
            registry(it.base_constraint), it.reinterpreted_batch_ndims
        ),
    )
    registry.register(
        constraints.cat,
        lambda it: transforms.CatTransform([registry(each) for each in it.cseq], it.dim, it.lengths),
    )
    registry.register(
        constraints.stack, lambda it: transforms.StackTransform([registry(each) for each in it.cseq], it.dim)
    )


_for_several(biject_to)
_for_several(transform_to)
