"""Distributions over vectors."""

from __future__ import annotations

import math
from typing import Any

from weft.distributions.constraints import lower_cholesky, positive_definite, real_vector
from weft.distributions.distribution import Distribution
from weft.ops.record import ops
from weft.tensor.faces import FUNCTIONS

cholesky, inverse = FUNCTIONS["linalg.cholesky"], FUNCTIONS["linalg.inv"]
solve_triangular = FUNCTIONS["linalg.solve_triangular"]


class Independent(Distribution):
    """Some of the last dimensions of independent draws, taken as one draw."""

    def __init__(
        self, base_distribution: Any, reinterpreted_batch_ndims: int, validate_args: bool | None = None
    ) -> None:
        if reinterpreted_batch_ndims > len(base_distribution.batch_shape):
            raise ValueError(
                "Expected reinterpreted_batch_ndims <= len(base_distribution.batch_shape), actual "
                f"{reinterpreted_batch_ndims} vs {len(base_distribution.batch_shape)}"
            )
        self.base_dist, self.reinterpreted_batch_ndims = base_distribution, reinterpreted_batch_ndims
        shape = (*base_distribution.batch_shape, *base_distribution.event_shape)
        left = len(base_distribution.batch_shape) - reinterpreted_batch_ndims
        super().__init__(shape[:left], shape[left:], validate_args=validate_args)

    def __repr__(self) -> str:
        return f"Independent({self.base_dist!r}, {self.reinterpreted_batch_ndims})"

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        inner = tuple(self._event_shape)[: self.reinterpreted_batch_ndims]
        return Independent(
            self.base_dist.expand((*batch_shape, *inner)), self.reinterpreted_batch_ndims, False
        )

    @property
    def has_rsample(self) -> bool:  # type: ignore[override]
        return bool(self.base_dist.has_rsample)

    mean = property(lambda self: self.base_dist.mean)
    mode = property(lambda self: self.base_dist.mode)
    variance = property(lambda self: self.base_dist.variance)

    def sample(self, sample_shape: Any = ()) -> Any:
        return self.base_dist.sample(sample_shape)

    def rsample(self, sample_shape: Any = ()) -> Any:
        return self.base_dist.rsample(sample_shape)

    def _summed(self, value: Any) -> Any:
        count = self.reinterpreted_batch_ndims
        return value.sum(tuple(range(-count, 0))) if count else value

    def log_prob(self, value: Any) -> Any:
        return self._summed(self.base_dist.log_prob(value))

    def entropy(self) -> Any:
        return self._summed(self.base_dist.entropy())


class MultivariateNormal(Distribution):
    """The normal distribution of vectors, by covariance, precision, or a factor of the covariance."""

    arg_constraints = {
        "loc": real_vector, "covariance_matrix": positive_definite, "precision_matrix": positive_definite,
        "scale_tril": lower_cholesky,
    }  # fmt: skip
    support = real_vector
    has_rsample = True

    def __init__(
        self, loc: Any, covariance_matrix: Any = None, precision_matrix: Any = None, scale_tril: Any = None,
        validate_args: bool | None = None,
    ) -> None:  # fmt: skip
        if loc.ndim < 1:
            raise ValueError("loc must be at least one-dimensional.")
        given = {
            "covariance_matrix": covariance_matrix, "precision_matrix": precision_matrix,
            "scale_tril": scale_tril,
        }  # fmt: skip
        told = {name: value for name, value in given.items() if value is not None}
        if len(told) != 1:
            raise ValueError(
                "Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified."
            )
        ((name, matrix),) = told.items()
        if matrix.ndim < 2:
            raise ValueError(
                f"{name} must be at least two-dimensional, with optional leading batch dimensions"
            )
        batch = ops.broadcast_tensors([loc[..., 0], matrix[..., 0, 0]])[0].shape
        size = loc.shape[-1]
        self.loc = loc.expand(*batch, size)
        self.__dict__[name] = matrix.expand(*batch, size, size)
        super().__init__(batch, (size,), validate_args=validate_args)
        if name == "covariance_matrix":
            self._unbroadcasted_scale_tril = cholesky(self.__dict__[name])
        elif name == "scale_tril":
            self._unbroadcasted_scale_tril = self.__dict__[name]
        else:
            self._unbroadcasted_scale_tril = cholesky(inverse(self.__dict__[name]))

    def __getattr__(self, name: str) -> Any:
        if name in self.arg_constraints and "_unbroadcasted_scale_tril" in self.__dict__:
            factor = self._unbroadcasted_scale_tril
            if name == "scale_tril":
                return factor
            covariance = factor @ factor.mT
            return covariance if name == "covariance_matrix" else inverse(covariance)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    mean = property(lambda self: self.loc)
    mode = mean

    @property
    def variance(self) -> Any:
        return self._unbroadcasted_scale_tril.square().sum(-1).expand(*self._batch_shape, *self._event_shape)

    def rsample(self, sample_shape: Any = ()) -> Any:
        drawn = self.loc.detach().new_empty(self._extended_shape(sample_shape)).normal_()
        return self.loc + (self._unbroadcasted_scale_tril @ drawn.unsqueeze(-1)).squeeze(-1)

    def _half_log_det(self) -> Any:
        return self._unbroadcasted_scale_tril.diagonal(0, -2, -1).log().sum(-1)

    def log_prob(self, value: Any) -> Any:
        apart = (self._checked(value) - self.loc).unsqueeze(-1)
        solved = solve_triangular(self._unbroadcasted_scale_tril, apart, upper=False)
        distance = solved.squeeze(-1).square().sum(-1)
        return -0.5 * (self._event_shape[0] * math.log(2 * math.pi) + distance) - self._half_log_det()

    def entropy(self) -> Any:
        return 0.5 * self._event_shape[0] * (1 + math.log(2 * math.pi)) + self._half_log_det()
