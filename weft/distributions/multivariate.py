"""Distributions over vectors and matrices."""

from __future__ import annotations

import math
from typing import Any

import weft.distributions.constraints as constraints
from weft.core.dtypes import finfo
from weft.core.naming import named
from weft.core.warn import warn
from weft.distributions.constraints import (
    corr_cholesky,
    dependent_property,
    independent,
    lower_cholesky,
    positive,
    positive_definite,
    real,
    real_vector,
)
from weft.distributions.distribution import Distribution, ExponentialFamily, density, fact
from weft.distributions.gamma import Beta
from weft.distributions.utils import lazy_property, shape_of, standard_normal, sum_rightmost
from weft.ops.record import broadcast_shapes, ops
from weft.tensor.creation import tensor
from weft.tensor.faces import FUNCTIONS

cholesky, inverse = FUNCTIONS["linalg.cholesky"], FUNCTIONS["linalg.inv"]
solve_triangular = FUNCTIONS["linalg.solve_triangular"]
LOG_2_PI = math.log(2 * math.pi)


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
        shape = (*base_distribution.batch_shape, *base_distribution.event_shape)
        count = reinterpreted_batch_ndims + len(base_distribution.event_shape)
        cut = len(shape) - count
        self.base_dist, self.reinterpreted_batch_ndims = base_distribution, reinterpreted_batch_ndims
        super().__init__(shape[:cut], shape[cut:], validate_args=validate_args)

    def __repr__(self) -> str:
        return f"Independent({self.base_dist!r}, {self.reinterpreted_batch_ndims})"

    _inner = ("base_dist",)

    def _expanded_inner(self, name: str, batch: Any) -> Any:
        return self.base_dist.expand((*batch, *self._event_shape[: self.reinterpreted_batch_ndims]))

    @dependent_property
    def support(self) -> Any:
        found = self.base_dist.support
        count = self.reinterpreted_batch_ndims
        return constraints.independent(found, count) if count else found

    has_rsample = fact(lambda d: d.base_dist.has_rsample)

    @property
    def has_enumerate_support(self) -> bool:
        return not self.reinterpreted_batch_ndims and bool(self.base_dist.has_enumerate_support)

    mean = fact(lambda d: d.base_dist.mean)
    mode = fact(lambda d: d.base_dist.mode)
    variance = fact(lambda d: d.base_dist.variance)

    def sample(self, sample_shape: Any = ()) -> Any:
        return self.base_dist.sample(sample_shape)

    def rsample(self, sample_shape: Any = ()) -> Any:
        return self.base_dist.rsample(sample_shape)

    def _summed(self, value: Any) -> Any:
        return sum_rightmost(value, self.reinterpreted_batch_ndims)

    def log_prob(self, value: Any) -> Any:
        return self._summed(self.base_dist.log_prob(value))

    def entropy(self) -> Any:
        return self._summed(self.base_dist.entropy())

    def enumerate_support(self, expand: bool = True) -> Any:
        if self.reinterpreted_batch_ndims > 0:
            raise NotImplementedError("Enumeration over cartesian product is not implemented")
        return self.base_dist.enumerate_support(expand=expand)


def _factor_of_precision(matrix: Any) -> Any:
    """The Cholesky factor of a matrix's inverse."""
    flipped = cholesky(matrix.flip((-2, -1)))
    upper = flipped.flip((-2, -1)).mT
    eye = ops.eye(matrix.shape[-1], dtype=matrix.dtype, device=matrix.device)
    return solve_triangular(upper, eye, upper=False)


class ByMatrix(Distribution):
    """Distributions by a covariance, a precision, or a factor of the covariance: the others follow."""

    _unbroadcasted_scale_tril: Any
    _kept = ("_unbroadcasted_scale_tril",)

    def _take(self, **given: Any) -> tuple[str, Any]:
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
        return name, matrix

    def _take_factor(self, name: str, matrix: Any) -> None:
        if name == "scale_tril":
            self._unbroadcasted_scale_tril = matrix
        else:
            factor = cholesky if name == "covariance_matrix" else _factor_of_precision
            self._unbroadcasted_scale_tril = factor(matrix)

    def _matrix_shape(self) -> Any:
        size = self._event_shape[-1]
        return shape_of((*self._batch_shape, size, size))

    @lazy_property
    def scale_tril(self) -> Any:
        """The Cholesky factor of the covariance."""
        return self._unbroadcasted_scale_tril.expand(self._matrix_shape())

    @lazy_property
    def covariance_matrix(self) -> Any:
        """The covariance."""
        factor = self._unbroadcasted_scale_tril
        return (factor @ factor.mT).expand(self._matrix_shape())

    @lazy_property
    def precision_matrix(self) -> Any:
        """The inverse of the covariance."""
        return ops.cholesky_inverse(self._unbroadcasted_scale_tril).expand(self._matrix_shape())

    def _half_log_det(self) -> Any:
        return self._unbroadcasted_scale_tril.diagonal(0, -2, -1).log().sum(-1)


def _batch_mahalanobis(factor: Any, value: Any) -> Any:
    """The squared length of a vector, measured by the covariance with this factor."""
    return solve_triangular(factor, value.unsqueeze(-1), upper=False).squeeze(-1).square().sum(-1)


_MATRICES = {
    "covariance_matrix": positive_definite, "precision_matrix": positive_definite,
    "scale_tril": lower_cholesky,
}  # fmt: skip


class MultivariateNormal(ByMatrix):
    """The normal distribution of vectors, by covariance, precision, or a factor of the covariance."""

    arg_constraints = {"loc": real_vector, **_MATRICES}
    support = real_vector
    has_rsample = True

    def __init__(
        self, loc: Any, covariance_matrix: Any = None, precision_matrix: Any = None, scale_tril: Any = None,
        validate_args: bool | None = None,
    ) -> None:  # fmt: skip
        if loc.ndim < 1:
            raise ValueError("loc must be at least one-dimensional.")
        name, matrix = self._take(
            covariance_matrix=covariance_matrix, precision_matrix=precision_matrix, scale_tril=scale_tril
        )
        batch = broadcast_shapes(tuple(matrix.shape[:-2]), tuple(loc.shape[:-1]))
        size = loc.shape[-1]
        self.loc = loc.expand((*batch, size))
        self.__dict__[name] = matrix.expand((*batch, size, size))
        super().__init__(batch, (size,), validate_args=validate_args)
        self._take_factor(name, matrix)

    mean = mode = fact(lambda d: d.loc)

    @property
    def variance(self) -> Any:
        return (
            self._unbroadcasted_scale_tril.square().sum(-1).expand((*self._batch_shape, *self._event_shape))
        )

    def rsample(self, sample_shape: Any = ()) -> Any:
        drawn = standard_normal(self._extended_shape(sample_shape), self.loc.dtype, self.loc.device)
        return self.loc + (self._unbroadcasted_scale_tril @ drawn.unsqueeze(-1)).squeeze(-1)

    @density
    def log_prob(self, value: Any) -> Any:
        distance = _batch_mahalanobis(self._unbroadcasted_scale_tril, value - self.loc)
        return -0.5 * (self._event_shape[0] * LOG_2_PI + distance) - self._half_log_det()

    def entropy(self) -> Any:
        result = 0.5 * self._event_shape[0] * (1 + LOG_2_PI) + self._half_log_det()
        return result.expand(self._batch_shape)


class LowRankMultivariateNormal(Distribution):
    """The normal distribution of vectors with covariance `cov_factor @ cov_factor.T + diag(cov_diag)`."""

    arg_constraints = {
        "loc": real_vector, "cov_factor": independent(real, 2), "cov_diag": independent(positive, 1),
    }  # fmt: skip
    support = real_vector
    has_rsample = True
    _kept = ("_unbroadcasted_cov_factor", "_unbroadcasted_cov_diag", "_capacitance_tril")

    def __init__(self, loc: Any, cov_factor: Any, cov_diag: Any, validate_args: bool | None = None) -> None:
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        size = loc.shape[-1]
        if cov_factor.dim() < 2:
            raise ValueError(
                "cov_factor must be at least two-dimensional, with optional leading batch dimensions"
            )
        if cov_factor.shape[-2] != size:
            raise ValueError(f"cov_factor must be a batch of matrices with shape {size} x m")
        if cov_diag.shape[-1] != size:
            raise ValueError(f"cov_diag must be a batch of vectors with shape ({size},)")
        batch = broadcast_shapes(
            tuple(loc.shape[:-1]), tuple(cov_factor.shape[:-2]), tuple(cov_diag.shape[:-1])
        )
        self.loc = loc.expand((*batch, size))
        self.cov_factor = cov_factor.expand((*batch, *cov_factor.shape[-2:]))
        self.cov_diag = cov_diag.expand((*batch, size))
        super().__init__(batch, (size,), validate_args=validate_args)
        self._unbroadcasted_cov_factor, self._unbroadcasted_cov_diag = cov_factor, cov_diag
        scaled = cov_factor.mT / cov_diag.unsqueeze(-2)
        inner = scaled @ cov_factor
        self._capacitance_tril = cholesky(
            inner + ops.eye(inner.shape[-1], dtype=inner.dtype, device=inner.device)
        )

    mean = mode = fact(lambda d: d.loc)

    @lazy_property
    def variance(self) -> Any:
        """The variance of each element."""
        spread = self._unbroadcasted_cov_factor.square().sum(-1) + self._unbroadcasted_cov_diag
        return spread.expand((*self._batch_shape, *self._event_shape))

    @lazy_property
    def covariance_matrix(self) -> Any:
        """The covariance."""
        factor = self._unbroadcasted_cov_factor
        return (factor @ factor.mT + self._unbroadcasted_cov_diag.diag_embed()).expand(
            (*self._batch_shape, *self._event_shape, *self._event_shape)
        )

    @lazy_property
    def scale_tril(self) -> Any:
        """The Cholesky factor of the covariance."""
        return cholesky(self.covariance_matrix)

    @lazy_property
    def precision_matrix(self) -> Any:
        """The inverse of the covariance, by Woodbury's identity."""
        inverse_diag = self._unbroadcasted_cov_diag.reciprocal()
        scaled = self._unbroadcasted_cov_factor.mT * inverse_diag.unsqueeze(-2)
        solved = solve_triangular(self._capacitance_tril, scaled, upper=False)
        return (inverse_diag.diag_embed() - solved.mT @ solved).expand(
            (*self._batch_shape, *self._event_shape, *self._event_shape)
        )

    def rsample(self, sample_shape: Any = ()) -> Any:
        shape, like = self._extended_shape(sample_shape), self.loc
        short = standard_normal((*shape[:-1], self.cov_factor.shape[-1]), like.dtype, like.device)
        long = standard_normal(shape, like.dtype, like.device)
        low = (self._unbroadcasted_cov_factor @ short.unsqueeze(-1)).squeeze(-1)
        return self.loc + low + self._unbroadcasted_cov_diag.sqrt() * long

    def _log_det(self) -> Any:
        inner = self._capacitance_tril.diagonal(0, -2, -1).log().sum(-1)
        return 2 * inner + self._unbroadcasted_cov_diag.log().sum(-1)

    def _distance(self, apart: Any) -> Any:
        diag = self._unbroadcasted_cov_diag
        scaled = self._unbroadcasted_cov_factor.mT / diag.unsqueeze(-2)
        projected = (scaled @ apart.unsqueeze(-1)).squeeze(-1)
        return (apart.square() / diag).sum(-1) - _batch_mahalanobis(self._capacitance_tril, projected)

    @density
    def log_prob(self, value: Any) -> Any:
        distance = self._distance(value - self.loc)
        return -0.5 * (self._event_shape[0] * LOG_2_PI + self._log_det() + distance)

    def entropy(self) -> Any:
        result = 0.5 * (self._event_shape[0] * (1 + LOG_2_PI) + self._log_det())
        return result.expand(self._batch_shape)


def multidigamma(value: Any, size: int) -> Any:
    """The derivative of the logarithm of the multivariate gamma function."""
    steps = ops.arange(size, dtype=value.dtype, device=value.device) / 2
    return (value.unsqueeze(-1) - steps).digamma().sum(-1)


class Wishart(ByMatrix, ExponentialFamily):
    """Sums of outer products of `df` normal vectors: random covariances."""

    support = positive_definite
    has_rsample = True
    _mean_carrier_measure = 0

    def __init__(
        self, df: Any, covariance_matrix: Any = None, precision_matrix: Any = None, scale_tril: Any = None,
        validate_args: bool | None = None,
    ) -> None:  # fmt: skip
        name, matrix = self._take(
            covariance_matrix=covariance_matrix, precision_matrix=precision_matrix, scale_tril=scale_tril
        )
        df = df if hasattr(df, "shape") else tensor(df, dtype=matrix.dtype, device=matrix.device)
        batch, size = broadcast_shapes(tuple(matrix.shape[:-2]), tuple(df.shape)), matrix.shape[-1]
        if (df <= size - 1).any():
            raise ValueError(f"Value of df={df} expected to be greater than ndim - 1 = {size - 1}.")
        self.df = df.expand(batch)
        self.__dict__[name] = matrix.expand((*batch, size, size))
        self._size = size
        super().__init__(batch, (size, size), validate_args=validate_args)
        if (self.df <= size).any():
            warn(
                "Low df values detected. Singular samples are highly likely to occur for "
                "ndim - 1 < df < ndim."
            )
        self._take_factor(name, matrix.expand((*batch, size, size)))

    @property
    def arg_constraints(self) -> Any:
        return {**_MATRICES, "df": constraints.greater_than(self._event_shape[-1] - 1)}

    mean = fact(lambda d: d.df.reshape((*d._batch_shape, 1, 1)) * d.covariance_matrix)

    @property
    def mode(self) -> Any:
        factor = self.df - self._size - 1
        factor = ops.where(factor > 0, factor, math.nan)
        return factor.reshape((*self._batch_shape, 1, 1)) * self.covariance_matrix

    @property
    def variance(self) -> Any:
        covariance = self.covariance_matrix
        diag = covariance.diagonal(0, -2, -1)
        spread = covariance.square() + diag.unsqueeze(-1) * diag.unsqueeze(-2)
        return self.df.reshape((*self._batch_shape, 1, 1)) * spread

    def rsample(self, sample_shape: Any = (), max_try_correction: Any = None) -> Any:
        """Draws by Bartlett's decomposition: roots of chi-square numbers over normal ones in a triangle."""
        shape, like, size = shape_of((*sample_shape, *self._batch_shape)), self.df, self._size
        steps = ops.arange(size, dtype=like.dtype, device=like.device)
        halves = ((like.unsqueeze(-1) - steps) / 2).expand((*shape, size))
        roots = (2 * ops._standard_gamma(halves)).clamp(min=finfo(like.dtype).tiny).sqrt()
        noise = standard_normal((*shape, size, size), like.dtype, like.device).tril(-1)
        factor = self._unbroadcasted_scale_tril @ (roots.diag_embed() + noise)
        return factor @ factor.mT

    def _log_constant(self) -> Any:
        half = self.df / 2
        determinant = -self.df * self._half_log_det()
        return determinant - half * self._size * math.log(2) - ops.mvlgamma(half, self._size)

    @density
    def log_prob(self, value: Any) -> Any:
        solved = ops.cholesky_solve(value, self._unbroadcasted_scale_tril)
        trace = solved.diagonal(0, -2, -1).sum(-1)
        stretch = FUNCTIONS["linalg.slogdet"](value).logabsdet
        return self._log_constant() + (self.df - self._size - 1) / 2 * stretch - trace / 2

    def entropy(self) -> Any:
        half, size = self.df / 2, self._size
        expected = multidigamma(half, size) + size * math.log(2) + 2 * self._half_log_det()
        return -self._log_constant() - (self.df - size - 1) / 2 * expected + size * half

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        return -self.precision_matrix / 2, (self.df - self._size - 1) / 2

    def _log_normalizer(self, x: Any, y: Any) -> Any:
        size = self._size
        half = y + (size + 1) / 2
        return half * (-FUNCTIONS["linalg.slogdet"](-2 * x).logabsdet + math.log(2) * size) + ops.mvlgamma(
            half, size
        )


class LKJCholesky(Distribution):
    """Cholesky factors of correlation matrices, whose density is a power of their determinant."""

    arg_constraints = {"concentration": positive}
    support = corr_cholesky

    def __init__(self, dim: int, concentration: Any = 1.0, validate_args: bool | None = None) -> None:
        if dim < 2:
            raise ValueError(f"Expected dim to be an integer greater than or equal to 2. Found dim={dim}.")
        self.dim = dim
        given = concentration if hasattr(concentration, "shape") else tensor(float(concentration))
        self.concentration = given
        super().__init__(given.shape, (dim, dim), validate_args=validate_args)
        marginal = given + 0.5 * (dim - 2)
        steps = ops.arange(dim - 1, dtype=given.dtype, device=given.device)
        steps = ops.cat([steps.new_zeros((1,)), steps])
        self._beta = Beta(steps + 0.5, marginal.unsqueeze(-1) - 0.5 * steps)

    _inner = ("_beta",)

    def _expanded_inner(self, name: str, batch: Any) -> Any:
        return self._beta.expand((*batch, self.dim))

    def sample(self, sample_shape: Any = ()) -> Any:
        """By the onion method: each row is a direction, of a length that a beta number gives."""
        lengths = self._beta.sample(sample_shape).unsqueeze(-1)
        like = self.concentration
        rows = standard_normal(self._extended_shape(sample_shape), like.dtype, like.device).tril(-1)
        rows = rows / rows.norm(dim=-1, keepdim=True)
        first = rows[..., :1, :] * 0
        rows = ops.cat([first.nan_to_num(), rows[..., 1:, :]], -2)
        factor = lengths.sqrt() * rows
        left = (1 - factor.square().sum(-1)).clamp(min=finfo(factor.dtype).tiny).sqrt()
        return (factor + left.diag_embed()).detach()

    @density
    def log_prob(self, value: Any) -> Any:
        size = self.dim
        diag = value.diagonal(0, -2, -1)[..., 1:]
        order = ops.arange(2, size + 1, device=self.concentration.device)
        order = 2 * (self.concentration - 1).unsqueeze(-1) + size - order
        density_ = (order * diag.log()).sum(-1)
        count = size - 1
        alpha = self.concentration + 0.5 * count
        constant = 0.5 * count * math.log(math.pi) + ops.mvlgamma(alpha - 0.5, count) - alpha.lgamma() * count
        return density_ - constant


class MixtureSameFamily(Distribution):
    """Draws of one of several distributions of a family, which a categorical variable chooses."""

    arg_constraints: Any = {}

    def __init__(
        self, mixture_distribution: Any, component_distribution: Any, validate_args: bool | None = None
    ) -> None:
        self._mixture_distribution, self._component_distribution = (
            mixture_distribution,
            component_distribution,
        )
        if not hasattr(mixture_distribution, "_num_events"):
            raise ValueError(
                named(" The Mixture distribution needs to be an instance of weft.distributions.Categorical")
            )
        if not isinstance(component_distribution, Distribution):
            raise ValueError(
                named("The Component distribution need to be an instance of weft.distributions.Distribution")
            )
        chooser, parts = mixture_distribution.batch_shape, component_distribution.batch_shape[:-1]
        for first, second in zip(reversed(chooser), reversed(parts), strict=False):
            if first != 1 and second != 1 and first != second:
                raise ValueError(
                    f"`mixture_distribution.batch_shape` ({chooser}) is not compatible with "
                    f"`component_distribution.batch_shape`({parts})"
                )
        count, offered = mixture_distribution._num_events, component_distribution.batch_shape[-1]
        if count is not None and offered is not None and count != offered:
            raise ValueError(
                f"`mixture_distribution component` ({count}) does not equal "
                f"`component_distribution.batch_shape[-1]` ({offered})"
            )
        self._num_component = offered
        event = component_distribution.event_shape
        self._event_ndims = len(event)
        super().__init__(parts, event, validate_args=validate_args)

    _inner = ("_mixture_distribution", "_component_distribution")

    def _expanded_inner(self, name: str, batch: Any) -> Any:
        more = (self._num_component,) if name == "_component_distribution" else ()
        return self.__dict__[name].expand((*batch, *more))

    mixture_distribution = fact(lambda d: d._mixture_distribution)
    component_distribution = fact(lambda d: d._component_distribution)

    @dependent_property
    def support(self) -> Any:
        return constraints.MixtureSameFamilyConstraint(self._component_distribution.support)

    def _pad_mixture_dimensions(self, value: Any) -> Any:
        chooser, parts = self._mixture_distribution.batch_shape, self.batch_shape
        more = 0 if len(chooser) == len(parts) else len(parts)
        shape = value.shape
        return value.reshape((*shape[:-1], *[1] * more, *shape[-1:], *[1] * self._event_ndims))

    def _average(self, value: Any) -> Any:
        probs = self._pad_mixture_dimensions(self._mixture_distribution.probs)
        return (probs * value).sum(-1 - self._event_ndims)

    mean = fact(lambda d: d._average(d._component_distribution.mean))

    @property
    def variance(self) -> Any:
        parts = self._component_distribution
        middle = self.mean.unsqueeze(-1 - self._event_ndims)
        return self._average(parts.variance) + self._average((parts.mean - middle).square())

    def _padded(self, value: Any) -> Any:
        return value.unsqueeze(-1 - self._event_ndims)

    def cdf(self, value: Any) -> Any:
        inner = self._component_distribution.cdf(self._padded(value))
        return (inner * self._mixture_distribution.probs).sum(-1)

    def log_prob(self, value: Any) -> Any:
        inner = self._component_distribution.log_prob(self._padded(self._checked(value)))
        return (inner + self._mixture_distribution.logits.log_softmax(-1)).logsumexp(-1)

    def sample(self, sample_shape: Any = ()) -> Any:
        shape = shape_of(sample_shape)
        place = len(shape) + len(self.batch_shape)
        chosen = self._mixture_distribution.expand(self.batch_shape).sample(shape)
        drawn = self._component_distribution.sample(shape)
        index = chosen.reshape((*chosen.shape, *[1] * (self._event_ndims + 1)))
        index = index.expand((*chosen.shape, 1, *self._event_shape))
        return drawn.gather(place, index).squeeze(place).detach()

    def __repr__(self) -> str:
        return f"MixtureSameFamily(\n  {self._mixture_distribution!r},\n  {self._component_distribution!r})"
