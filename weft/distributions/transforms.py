"""Transforms of values: from one support to another, with the logarithm of how much they stretch.

Takes values, gives values; `transform.inv` goes back, and `log_abs_det_jacobian(x, y)` is what the density
changes by. One idea: a transform of single numbers is four formulas (there, back, stretching, sign); the
others say in addition how many dimensions belong together.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import weft.distributions.constraints as constraints
from weft.core.dtypes import finfo
from weft.core.types import Size
from weft.distributions.utils import (
    broadcast_all,
    shape_of,
    sum_rightmost,
    tril_matrix_to_vec,
    vec_to_tril_matrix,
)
from weft.ops.record import broadcast_shapes, ops
from weft.tensor.faces import FUNCTIONS

__all__ = [
    "AbsTransform", "AffineTransform", "CatTransform", "ComposeTransform", "CorrCholeskyTransform",
    "CumulativeDistributionTransform", "ExpTransform", "IndependentTransform", "LowerCholeskyTransform",
    "PositiveDefiniteTransform", "PowerTransform", "ReshapeTransform", "SigmoidTransform", "SoftmaxTransform",
    "SoftplusTransform", "StackTransform", "StickBreakingTransform", "TanhTransform", "Transform",
    "identity_transform",
]  # fmt: skip


class Transform:
    """Base of all. A subclass has `domain`, `codomain`, `_call`, and where it is bijective `_inverse` and
    `log_abs_det_jacobian`. With `cache_size=1` the last pair is kept, so that going back is exact.
    """

    bijective: Any = False
    domain: Any
    codomain: Any

    def __init__(self, cache_size: int = 0) -> None:
        self._cache_size = cache_size
        self._inv: Any = None
        if cache_size not in (0, 1):
            raise ValueError("cache_size must be 0 or 1")
        if cache_size:
            self._cached_x_y: Any = None, None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_inv": None}

    @property
    def event_dim(self) -> int:
        """How many last dimensions belong together, where both sides agree."""
        if self.domain.event_dim == self.codomain.event_dim:
            return int(self.domain.event_dim)
        raise ValueError("Please use either .domain.event_dim or .codomain.event_dim")

    @property
    def inv(self) -> Any:
        """The transform that goes back."""
        inverse = None if self._inv is None else self._inv()
        if inverse is None:
            inverse = _InverseTransform(self)
            self._inv = weakref.ref(inverse)
        return inverse

    @property
    def sign(self) -> Any:
        """Whether it rises (1) or falls (-1)."""
        raise NotImplementedError

    def with_cache(self, cache_size: int = 1) -> Any:
        """The same transform with this size of cache."""
        if self._cache_size == cache_size:
            return self
        if type(self).__init__ is Transform.__init__:
            return type(self)(cache_size=cache_size)
        raise NotImplementedError(f"{type(self)}.with_cache is not implemented")

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)

    def __call__(self, x: Any) -> Any:
        if not self._cache_size:
            return self._call(x)
        before, after = self._cached_x_y
        if x is before:
            return after
        y = self._call(x)
        self._cached_x_y = x, y
        return y

    def _inv_call(self, y: Any) -> Any:
        if not self._cache_size:
            return self._inverse(y)
        before, after = self._cached_x_y
        if y is after:
            return before
        x = self._inverse(y)
        self._cached_x_y = x, y
        return x

    def _call(self, x: Any) -> Any:
        raise NotImplementedError

    def _inverse(self, y: Any) -> Any:
        raise NotImplementedError

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """The logarithm of |dy/dx|."""
        raise NotImplementedError

    def forward_shape(self, shape: Any) -> Any:
        """The shape of the result, for a value of this shape."""
        return shape

    def inverse_shape(self, shape: Any) -> Any:
        """The shape that gives this one."""
        return shape

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


def undone(transform: Any, y: Any) -> Any:
    """`transform.inv(y)`, without an object for the inverse where a class has none of its own: that one is
    remembered by a weak reference, which ends a captured graph."""
    inverse = type(transform).inv
    if inverse is Transform.inv:
        return transform._inv_call(y)
    if inverse is not ComposeTransform.inv:
        return transform.inv(y)
    for part in transform.parts[::-1]:
        y = undone(part, y)
    return y


class _InverseTransform(Transform):
    """Another transform, backwards."""

    def __init__(self, transform: Any) -> None:
        super().__init__(cache_size=transform._cache_size)
        self._inv: Any = transform

    inv = property(lambda self: self._inv)
    domain = property(lambda self: self._inv.codomain)
    codomain = property(lambda self: self._inv.domain)
    bijective = property(lambda self: self._inv.bijective)
    sign = property(lambda self: self._inv.sign)

    def __getstate__(self) -> dict[str, Any]:
        return dict(self.__dict__)

    def with_cache(self, cache_size: int = 1) -> Any:
        return self.inv.with_cache(cache_size).inv

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _InverseTransform) and self._inv == other._inv

    __hash__ = Transform.__hash__

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._inv!r})"

    def __call__(self, x: Any) -> Any:
        return self._inv._inv_call(x)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return -self._inv.log_abs_det_jacobian(y, x)

    def forward_shape(self, shape: Any) -> Any:
        return self._inv.inverse_shape(shape)

    def inverse_shape(self, shape: Any) -> Any:
        return self._inv.forward_shape(shape)


class ComposeTransform(Transform):
    """Several transforms, one behind the other."""

    def __init__(self, parts: Sequence[Any], cache_size: int = 0) -> None:
        self.parts = [part.with_cache(cache_size) for part in parts] if cache_size else list(parts)
        super().__init__(cache_size=cache_size)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ComposeTransform) and self.parts == other.parts

    __hash__ = Transform.__hash__

    def _end(self, name: str, parts: Sequence[Any], far: str) -> Any:
        """The constraint at one end, with the dimensions that the parts beyond take together."""
        if not parts:
            return constraints.real
        found = getattr(parts[0], name)
        count = getattr(parts[-1], far).event_dim
        for part in reversed(parts):
            here, there = getattr(part, name).event_dim, getattr(part, far).event_dim
            count = max(count + here - there, here)
        if count > found.event_dim:
            found = constraints.independent(found, count - found.event_dim)
        return found

    domain = property(lambda self: self._end("domain", self.parts, "codomain"))
    codomain = property(lambda self: self._end("codomain", self.parts[::-1], "domain"))
    bijective = property(lambda self: all(part.bijective for part in self.parts))

    @property
    def sign(self) -> Any:
        return math.prod(part.sign for part in self.parts)

    @property
    def inv(self) -> Any:
        inverse = None if self._inv is None else self._inv()
        if inverse is None:
            inverse = ComposeTransform([part.inv for part in reversed(self.parts)])
            self._inv = weakref.ref(inverse)
            inverse._inv = weakref.ref(self)
        return inverse

    def with_cache(self, cache_size: int = 1) -> Any:
        return self if self._cache_size == cache_size else ComposeTransform(self.parts, cache_size)

    def __call__(self, x: Any) -> Any:
        for part in self.parts:
            x = part(x)
        return x

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        if not self.parts:
            return ops.zeros_like(x)
        values = [x]
        for part in self.parts[:-1]:
            values.append(part(values[-1]))
        values.append(y)
        terms, count = [], self.domain.event_dim
        for part, before, after in zip(self.parts, values[:-1], values[1:], strict=True):
            stretch = part.log_abs_det_jacobian(before, after)
            terms.append(sum_rightmost(stretch, count - part.domain.event_dim))
            count += part.codomain.event_dim - part.domain.event_dim
        return sum(terms[1:], terms[0])

    def forward_shape(self, shape: Any) -> Any:
        for part in self.parts:
            shape = part.forward_shape(shape)
        return shape

    def inverse_shape(self, shape: Any) -> Any:
        for part in reversed(self.parts):
            shape = part.inverse_shape(shape)
        return shape

    def __repr__(self) -> str:
        inner = ",\n    ".join(map(repr, self.parts))
        return f"{type(self).__name__}(\n    {inner}\n)"


identity_transform = ComposeTransform([])


class IndependentTransform(Transform):
    """A transform of which some more dimensions are taken together."""

    def __init__(self, base_transform: Any, reinterpreted_batch_ndims: int, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.base_transform = base_transform.with_cache(cache_size)
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims

    def with_cache(self, cache_size: int = 1) -> Any:
        if self._cache_size == cache_size:
            return self
        return IndependentTransform(self.base_transform, self.reinterpreted_batch_ndims, cache_size)

    def _wider(self, constraint: Any) -> Any:
        return constraints.independent(constraint, self.reinterpreted_batch_ndims)

    domain = property(lambda self: self._wider(self.base_transform.domain))
    codomain = property(lambda self: self._wider(self.base_transform.codomain))
    bijective = property(lambda self: self.base_transform.bijective)
    sign = property(lambda self: self.base_transform.sign)

    def _call(self, x: Any) -> Any:
        if x.dim() < self.domain.event_dim:
            raise ValueError("Too few dimensions on input")
        return self.base_transform(x)

    def _inverse(self, y: Any) -> Any:
        if y.dim() < self.codomain.event_dim:
            raise ValueError("Too few dimensions on input")
        return undone(self.base_transform, y)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        stretch = self.base_transform.log_abs_det_jacobian(x, y)
        return sum_rightmost(stretch, self.reinterpreted_batch_ndims)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_transform!r}, {self.reinterpreted_batch_ndims})"

    def forward_shape(self, shape: Any) -> Any:
        return self.base_transform.forward_shape(shape)

    def inverse_shape(self, shape: Any) -> Any:
        return self.base_transform.inverse_shape(shape)


class ReshapeTransform(Transform):
    """Another shape of the last dimensions."""

    bijective = True

    def __init__(self, in_shape: Any, out_shape: Any, cache_size: int = 0) -> None:
        self.in_shape, self.out_shape = shape_of(in_shape), shape_of(out_shape)
        if self.in_shape.numel() != self.out_shape.numel():
            raise ValueError("in_shape, out_shape have different numbers of elements")
        super().__init__(cache_size=cache_size)

    domain = property(lambda self: constraints.independent(constraints.real, len(self.in_shape)))
    codomain = property(lambda self: constraints.independent(constraints.real, len(self.out_shape)))

    def with_cache(self, cache_size: int = 1) -> Any:
        if self._cache_size == cache_size:
            return self
        return ReshapeTransform(self.in_shape, self.out_shape, cache_size)

    def _call(self, x: Any) -> Any:
        return x.reshape((*x.shape[: x.dim() - len(self.in_shape)], *self.out_shape))

    def _inverse(self, y: Any) -> Any:
        return y.reshape((*y.shape[: y.dim() - len(self.out_shape)], *self.in_shape))

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return x.new_zeros(x.shape[: x.dim() - len(self.in_shape)])

    def _replaced(self, shape: Any, old: Any, new: Any) -> Any:
        if len(shape) < len(old):
            raise ValueError("Too few dimensions on input")
        cut = len(shape) - len(old)
        if tuple(shape[cut:]) != tuple(old):
            raise ValueError(f"Shape mismatch: expected {shape[cut:]} but got {old}")
        return shape[:cut] + new

    def forward_shape(self, shape: Any) -> Any:
        return self._replaced(shape, self.in_shape, self.out_shape)

    def inverse_shape(self, shape: Any) -> Any:
        return self._replaced(shape, self.out_shape, self.in_shape)


class _OfNumbers(Transform):
    """A transform without parameters: all of a class are equal."""

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self)

    __hash__ = Transform.__hash__


def _clipped_sigmoid(x: Any) -> Any:
    limits = finfo(x.dtype)
    return x.sigmoid().clamp(min=limits.tiny, max=1.0 - limits.eps)


def softplus(value: Any) -> Any:
    """log(1 + exp(value)), without overflow."""
    return ops.logaddexp(value, ops.zeros_like(value))


def _logit(y: Any) -> Any:
    limits = finfo(y.dtype)
    y = y.clamp(min=limits.tiny, max=1.0 - limits.eps)
    return y.log() - (-y).log1p()


def _scalar(
    name: str, domain: Any, codomain: Any, call: Callable[[Any], Any], inverse: Callable[[Any], Any],
    stretch: Callable[[Any, Any], Any], doc: str, sign: int = 1, bijective: bool = True,
) -> type[Transform]:  # fmt: skip
    """A class of transforms of single numbers, by its formulas."""
    return type(name, (_OfNumbers,), {
        "domain": domain, "codomain": codomain, "bijective": bijective, "sign": sign, "__doc__": doc,
        "__module__": __name__, "_call": lambda self, x: call(x), "_inverse": lambda self, y: inverse(y),
        "log_abs_det_jacobian": lambda self, x, y: stretch(x, y),
    })  # fmt: skip


ExpTransform = _scalar(
    "ExpTransform", constraints.real, constraints.positive,
    lambda x: x.exp(), lambda y: y.log(), lambda x, y: x, "y = exp(x).",
)  # fmt: skip
SigmoidTransform = _scalar(
    "SigmoidTransform", constraints.real, constraints.unit_interval, _clipped_sigmoid, _logit,
    lambda x, y: -softplus(-x) - softplus(x), "y = 1 / (1 + exp(-x)).",
)  # fmt: skip
SoftplusTransform = _scalar(
    "SoftplusTransform", constraints.real, constraints.positive, softplus,
    lambda y: (-y).expm1().neg().log() + y, lambda x, y: -softplus(-x), "y = log(1 + exp(x)).",
)  # fmt: skip
TanhTransform = _scalar(
    "TanhTransform", constraints.real, constraints.interval(-1.0, 1.0), lambda x: x.tanh(),
    lambda y: y.atanh(), lambda x, y: 2.0 * (math.log(2.0) - x - softplus(-2.0 * x)), "y = tanh(x).",
)  # fmt: skip


class AbsTransform(_OfNumbers):
    """y = |x|."""

    domain, codomain = constraints.real, constraints.positive

    def _call(self, x: Any) -> Any:
        return x.abs()

    def _inverse(self, y: Any) -> Any:
        return y


class PowerTransform(Transform):
    """y = x ** exponent."""

    domain = codomain = constraints.positive
    bijective = True

    def __init__(self, exponent: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        (self.exponent,) = broadcast_all(exponent)

    def with_cache(self, cache_size: int = 1) -> Any:
        return self if self._cache_size == cache_size else PowerTransform(self.exponent, cache_size)

    @property
    def sign(self) -> Any:
        return self.exponent.sign()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PowerTransform) and bool(self.exponent.eq(other.exponent).all())

    __hash__ = Transform.__hash__

    def _call(self, x: Any) -> Any:
        return x.pow(self.exponent)

    def _inverse(self, y: Any) -> Any:
        return y.pow(1 / self.exponent)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return (self.exponent * y / x).abs().log()

    def forward_shape(self, shape: Any) -> Any:
        return _common(shape, self.exponent)

    inverse_shape = forward_shape


class AffineTransform(Transform):
    """y = loc + scale * x; the last `event_dim` dimensions belong together."""

    bijective = True

    def __init__(self, loc: Any, scale: Any, event_dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.loc, self.scale, self._event_dim = loc, scale, event_dim

    event_dim = property(lambda self: self._event_dim)
    domain = codomain = constraints.dependent_property(is_discrete=False)(
        lambda self: (
            constraints.independent(constraints.real, self._event_dim)
            if self._event_dim
            else constraints.real
        )
    )

    def with_cache(self, cache_size: int = 1) -> Any:
        if self._cache_size == cache_size:
            return self
        return AffineTransform(self.loc, self.scale, self._event_dim, cache_size)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, AffineTransform):
            return False
        pairs = ((self.loc, other.loc), (self.scale, other.scale))
        return all(
            bool(mine == its) if isinstance(mine, (int, float)) else bool((mine == its).all())
            for mine, its in pairs
        )

    __hash__ = Transform.__hash__

    @property
    def sign(self) -> Any:
        scale = self.scale
        return (scale > 0) - (scale < 0) if isinstance(scale, (int, float)) else scale.sign()

    def _call(self, x: Any) -> Any:
        return self.loc + self.scale * x

    def _inverse(self, y: Any) -> Any:
        return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        scale = self.scale
        if isinstance(scale, (int, float)):
            stretch = ops.full_like(x, math.log(abs(scale)))
        else:
            stretch = scale.abs().log().expand(x.shape)
        return sum_rightmost(stretch, self._event_dim)

    def forward_shape(self, shape: Any) -> Any:
        return _common(shape, self.loc, self.scale)

    inverse_shape = forward_shape


def _common(shape: Any, *values: Any) -> Any:
    """What a shape becomes by broadcasting with these values."""
    return Size(broadcast_shapes(shape, *(tuple(getattr(value, "shape", ())) for value in values)))


class CorrCholeskyTransform(Transform):
    """A vector to the Cholesky factor of a correlation matrix: tanh, then row by row what is left of one."""

    domain, codomain = constraints.real_vector, constraints.corr_cholesky
    bijective = True

    def _call(self, x: Any) -> Any:
        x = x.tanh()
        eps = finfo(x.dtype).eps
        x = x.clamp(min=-1 + eps, max=1 - eps)
        r = vec_to_tril_matrix(x, diag=-1)
        left = (1 - r * r).sqrt().cumprod(-1)
        r = r + ops.eye(r.shape[-1], dtype=r.dtype, device=r.device)
        before = ops.constant_pad_nd(left[..., :-1], [1, 0], value=1)
        return r * before

    def _inverse(self, y: Any) -> Any:
        left = 1 - (y * y).cumsum(-1)
        before = ops.constant_pad_nd(left[..., :-1], [1, 0], value=1)
        t = tril_matrix_to_vec(y, diag=-1) / tril_matrix_to_vec(before, diag=-1).sqrt()
        return (t.log1p() - t.neg().log1p()) / 2

    def log_abs_det_jacobian(self, x: Any, y: Any, intermediates: Any = None) -> Any:
        left = 1 - (y * y).cumsum(-1)
        stretch = 0.5 * tril_matrix_to_vec(left, diag=-2).log().sum(-1)
        return stretch - 2 * (x + softplus(-2 * x) - math.log(2.0)).sum(-1)

    def forward_shape(self, shape: Any) -> Any:
        if len(shape) < 1:
            raise ValueError("Too few dimensions on input")
        count = shape[-1]
        size = round((0.25 + 2 * count) ** 0.5 + 0.5)
        if size * (size - 1) // 2 != count:
            raise ValueError("Input is not a flattened lower-diagonal number")
        return Size((*shape[:-1], size, size))

    def inverse_shape(self, shape: Any) -> Any:
        if len(shape) < 2:
            raise ValueError("Too few dimensions on input")
        if shape[-2] != shape[-1]:
            raise ValueError("Input is not square")
        return Size((*shape[:-2], shape[-1] * (shape[-1] - 1) // 2))


class SoftmaxTransform(_OfNumbers):
    """Logits to probabilities: not bijective, and going back gives logarithms."""

    domain, codomain = constraints.real_vector, constraints.simplex

    def _call(self, x: Any) -> Any:
        probs = (x - x.max(-1, keepdim=True)[0]).exp()
        return probs / probs.sum(-1, keepdim=True)

    def _inverse(self, y: Any) -> Any:
        return y.log()

    def forward_shape(self, shape: Any) -> Any:
        if len(shape) < 1:
            raise ValueError("Too few dimensions on input")
        return shape

    inverse_shape = forward_shape


class StickBreakingTransform(_OfNumbers):
    """A vector to a longer one that adds up to one: each element takes a part of what is left."""

    domain, codomain = constraints.real_vector, constraints.simplex
    bijective = True

    def _offset(self, count: int, like: Any) -> Any:
        return (count + 1 - like.new_ones(count).cumsum(-1)).log()

    def _call(self, x: Any) -> Any:
        parts = _clipped_sigmoid(x - self._offset(x.shape[-1], x))
        left = (1 - parts).cumprod(-1)
        return ops.constant_pad_nd(parts, [0, 1], value=1) * ops.constant_pad_nd(left, [1, 0], value=1)

    def _inverse(self, y: Any) -> Any:
        cut = y[..., :-1]
        left = (1 - cut.cumsum(-1)).clamp(min=finfo(y.dtype).tiny)
        return cut.log() - left.log() + self._offset(cut.shape[-1], y)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        x = x - self._offset(x.shape[-1], x)
        return (-x - softplus(-x) + y[..., :-1].log()).sum(-1)

    def _longer(self, shape: Any, by: int) -> Any:
        if len(shape) < 1:
            raise ValueError("Too few dimensions on input")
        return Size((*shape[:-1], shape[-1] + by))

    def forward_shape(self, shape: Any) -> Any:
        return self._longer(shape, 1)

    def inverse_shape(self, shape: Any) -> Any:
        return self._longer(shape, -1)


class LowerCholeskyTransform(_OfNumbers):
    """Any square matrix to a lower triangular one with a positive diagonal."""

    domain, codomain = constraints.independent(constraints.real, 2), constraints.lower_cholesky

    def _call(self, x: Any) -> Any:
        return x.tril(-1) + x.diagonal(0, -2, -1).exp().diag_embed()

    def _inverse(self, y: Any) -> Any:
        return y.tril(-1) + y.diagonal(0, -2, -1).log().diag_embed()


class PositiveDefiniteTransform(_OfNumbers):
    """Any square matrix to a positive definite one, through its Cholesky factor."""

    domain, codomain = constraints.independent(constraints.real, 2), constraints.positive_definite

    def _call(self, x: Any) -> Any:
        factor = LowerCholeskyTransform()(x)
        return factor @ factor.mT

    def _inverse(self, y: Any) -> Any:
        return LowerCholeskyTransform().inv(FUNCTIONS["linalg.cholesky"](y))


class CatTransform(Transform):
    """Several transforms side by side along a dimension, each for as many elements as `lengths` says."""

    def __init__(
        self, tseq: Sequence[Any], dim: int = 0, lengths: Sequence[int] | None = None, cache_size: int = 0
    ) -> None:
        if not all(isinstance(each, Transform) for each in tseq):
            raise AssertionError("All elements must be Transforms")
        super().__init__(cache_size=cache_size)
        self.transforms = [each.with_cache(cache_size) for each in tseq] if cache_size else list(tseq)
        self.lengths = [1] * len(self.transforms) if lengths is None else list(lengths)
        self.dim = dim

    event_dim = property(lambda self: max(each.event_dim for each in self.transforms))
    length = property(lambda self: sum(self.lengths))
    bijective = property(lambda self: all(each.bijective for each in self.transforms))
    domain = constraints.dependent_property(
        lambda self: constraints.cat([each.domain for each in self.transforms], self.dim, self.lengths)
    )
    codomain = constraints.dependent_property(
        lambda self: constraints.cat([each.codomain for each in self.transforms], self.dim, self.lengths)
    )

    def with_cache(self, cache_size: int = 1) -> Any:
        if self._cache_size == cache_size:
            return self
        return CatTransform(self.transforms, self.dim, self.lengths, cache_size)

    def _each(self, call: Callable[[Any, Any], Any], value: Any) -> Any:
        parts = value.split(self.lengths, self.dim)
        return ops.cat([call(one, part) for one, part in zip(self.transforms, parts, strict=True)], self.dim)

    def _call(self, x: Any) -> Any:
        return self._each(lambda each, part: each(part), x)

    def _inverse(self, y: Any) -> Any:
        return self._each(undone, y)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        before, after = x.split(self.lengths, self.dim), y.split(self.lengths, self.dim)
        stretches = []
        for each, first, second in zip(self.transforms, before, after, strict=True):
            stretch = each.log_abs_det_jacobian(first, second)
            stretches.append(sum_rightmost(stretch, self.event_dim - each.event_dim))
        dim = self.dim if self.dim < 0 else self.dim - x.dim()
        dim += self.event_dim
        return ops.cat(stretches, dim) if dim < 0 else sum(stretches[1:], stretches[0])


class StackTransform(Transform):
    """Several transforms, one for each slice along a dimension."""

    def __init__(self, tseq: Sequence[Any], dim: int = 0, cache_size: int = 0) -> None:
        if not all(isinstance(each, Transform) for each in tseq):
            raise AssertionError("All elements must be Transforms")
        super().__init__(cache_size=cache_size)
        self.transforms = [each.with_cache(cache_size) for each in tseq] if cache_size else list(tseq)
        self.dim = dim

    bijective = property(lambda self: all(each.bijective for each in self.transforms))
    domain = constraints.dependent_property(
        lambda self: constraints.stack([each.domain for each in self.transforms], self.dim)
    )
    codomain = constraints.dependent_property(
        lambda self: constraints.stack([each.codomain for each in self.transforms], self.dim)
    )

    def with_cache(self, cache_size: int = 1) -> Any:
        if self._cache_size == cache_size:
            return self
        return StackTransform(self.transforms, self.dim, cache_size)

    def _each(self, call: Callable[..., Any], *values: Any) -> Any:
        slices = zip(*(value.unbind(self.dim) for value in values), strict=True)
        return ops.stack(
            [call(one, *parts) for one, parts in zip(self.transforms, slices, strict=True)], self.dim
        )

    def _call(self, x: Any) -> Any:
        return self._each(lambda each, part: each(part), x)

    def _inverse(self, y: Any) -> Any:
        return self._each(undone, y)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return self._each(lambda each, first, second: each.log_abs_det_jacobian(first, second), x, y)


class CumulativeDistributionTransform(Transform):
    """A value to the probability of what lies below it."""

    bijective = True
    codomain = constraints.unit_interval
    sign = +1

    def __init__(self, distribution: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.distribution = distribution

    domain = property(lambda self: self.distribution.support)

    def with_cache(self, cache_size: int = 1) -> Any:
        if self._cache_size == cache_size:
            return self
        return CumulativeDistributionTransform(self.distribution, cache_size)

    def _call(self, x: Any) -> Any:
        return self.distribution.cdf(x)

    def _inverse(self, y: Any) -> Any:
        return self.distribution.icdf(y)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return self.distribution.log_prob(x)
