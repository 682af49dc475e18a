"""Parametrizations that are often wanted: orthogonal matrices, weights of a learnt norm, weights of spectral
norm 1.

Takes a module and the name of a weight, gives the module with that weight parametrized (see
`weft.nn.utils.parametrize`).
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Any

import weft.linalg as linalg
import weft.nn.functional as F
import weft.nn.utils.parametrize as parametrize
from weft.autograd.grad_mode import no_grad
from weft.core.dtypes import finfo
from weft.nn.modules.module import Module
from weft.nn.utils.weight_norm import _weight_norm, norm_except_dim
from weft.nn.utils.weights import as_matrix, check_iterations, drawn_vectors, output_dim
from weft.ops.record import ops
from weft.tensor.base import Tensor

__all__ = ["orthogonal", "spectral_norm", "weight_norm"]


def _weight_of(module: Module, name: str) -> Any:
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    return weight


# -- orthogonal matrices -------------------------------------------------------------------------------------
class _OrthMaps(Enum):
    matrix_exp = auto()
    cayley = auto()
    householder = auto()


def _is_orthogonal(matrix: Any) -> bool:
    rows, columns = matrix.size(-2), matrix.size(-1)
    if rows < columns:
        return False
    identity = ops.eye(columns, dtype=matrix.dtype, device=matrix.device)
    bound = 10 * rows * float(finfo(matrix.dtype).eps)
    return bool(ops.allclose(matrix.mH @ matrix, identity, atol=bound))


def _make_orthogonal(matrix: Any) -> Any:
    """The orthogonal factor of a matrix, signs as if the other factor had a positive diagonal."""
    orthogonal, triangle = linalg.qr(matrix)
    return orthogonal * ops.diagonal(triangle, 0, -2, -1).sgn().unsqueeze(-2)


def _reflected(lower: Any, weights: Any) -> Any:
    """The product of the Householder reflections in the columns of a matrix with an empty upper triangle."""
    rows, columns = lower.size(-2), lower.size(-1)
    identity = ops.eye(rows, columns, dtype=lower.dtype, device=lower.device)
    vectors = lower + identity
    result = identity.expand(*lower.shape[:-2], rows, columns)
    for column in reversed(range(columns)):
        vector = vectors[..., column : column + 1]
        result = result - weights[..., column, None, None] * (vector @ (vector.mT @ result))
    return result


def _reflectors(matrix: Any) -> tuple[Any, Any]:
    """Householder vectors below the diagonal, the triangular factor above, and the weights: what LAPACK's
    geqrf gives."""
    columns = matrix.size(-1)
    matrix = matrix.clone()
    weights = ops.new_zeros(matrix, (*matrix.shape[:-2], columns))
    for column in range(columns):
        alpha = matrix[..., column, column].clone()
        below = matrix[..., column + 1 :, column].clone()
        rest = (below * below).sum(-1)
        length = (alpha * alpha + rest).sqrt()
        beta = ops.where(rest == 0, alpha, ops.where(alpha >= 0, -length, length))
        safe = ops.where(rest == 0, ops.ones_like(beta), beta)
        weight = ops.where(rest == 0, ops.zeros_like(beta), (beta - alpha) / safe)
        scale = ops.where(rest == 0, ops.ones_like(beta), alpha - beta)
        vector = below / scale.unsqueeze(-1)
        whole = ops.cat([ops.ones_like(alpha).unsqueeze(-1), vector], -1).unsqueeze(-1)
        part = matrix[..., column:, column + 1 :]
        part.sub_(weight[..., None, None] * (whole @ (whole.mT @ part.clone())))
        matrix[..., column, column] = beta
        matrix[..., column + 1 :, column] = vector
        weights[..., column] = weight
    return matrix, weights


class _Orthogonal(Module):
    base: Any

    def __init__(self, weight: Any, orthogonal_map: _OrthMaps, *, use_trivialization: bool = True) -> None:
        super().__init__()
        if weight.is_complex() and orthogonal_map == _OrthMaps.householder:
            raise ValueError("The householder parametrization does not support complex tensors.")
        self.shape = weight.shape
        self.orthogonal_map = orthogonal_map
        if use_trivialization:
            self.register_buffer("base", None)

    def forward(self, X: Any) -> Any:
        rows, columns = X.size(-2), X.size(-1)
        transposed = rows < columns
        if transposed:
            X, rows, columns = X.mT, columns, rows
        if self.orthogonal_map == _OrthMaps.householder:
            lower = X.tril(-1)
            weights = 2.0 / (1.0 + (lower * lower).sum(-2))
            # The diagonal is ±1 and takes no gradient.
            made = _reflected(lower, weights) * ops.diagonal(X, 0, -2, -1).int().unsqueeze(-2)
        else:
            made = self._from_skew(X.tril(), rows, columns)
        if hasattr(self, "base"):
            made = self.base @ made
        return made.mT if transposed else made

    def _from_skew(self, lower: Any, rows: int, columns: int) -> Any:
        if rows != columns:
            rest = ops.new_zeros(lower, (rows, rows - columns)).expand(*lower.shape[:-2], -1, -1)
            lower = ops.cat([lower, rest], -1)
        skew = lower - lower.mH
        if self.orthogonal_map == _OrthMaps.matrix_exp:
            made = ops.matrix_exp(skew)
        else:
            identity = ops.eye(rows, dtype=skew.dtype, device=skew.device)
            made = linalg.solve(identity - skew * 0.5, identity + skew * 0.5)
        return made[..., :columns] if rows != columns else made

    @no_grad()
    def right_inverse(self, Q: Any) -> Any:
        """What stands for this matrix, made orthogonal if it is not."""
        if Q.shape != self.shape:
            raise ValueError(
                f"Expected a matrix or batch of matrices of shape {self.shape}. "
                f"Got a tensor of shape {Q.shape}."
            )
        given = Q
        rows, columns = Q.size(-2), Q.size(-1)
        transposed = rows < columns
        if transposed:
            Q, rows, columns = Q.mT, columns, rows
        if not hasattr(self, "base"):
            if self.orthogonal_map != _OrthMaps.householder:
                raise NotImplementedError(
                    "It is not possible to assign to the matrix exponential or the Cayley parametrizations "
                    "when use_trivialization=False."
                )
            packed, weights = _reflectors(Q)
            signs = ops.diagonal(packed, 0, -2, -1).sign()
            signs = ops.where(weights == 0.0, -signs, signs)
            packed = packed.tril(-1) + packed.triu(1) + _with_diagonal(packed, signs)
            return packed.mT if transposed else packed
        if rows == columns:
            base = Q.clone() if _is_orthogonal(Q) else _make_orthogonal(Q)
        else:
            drawn = ops.randn((*Q.shape[:-2], rows, rows - columns), dtype=Q.dtype, device=Q.device)
            base = _make_orthogonal(ops.cat([Q, drawn], -1))
        self.base = base
        return _with_diagonal(given, -1.0)


def _with_diagonal(like: Any, values: Any) -> Any:
    """Zeros of this shape, with these values along the diagonal."""
    rows, columns = like.size(-2), like.size(-1)
    eye = ops.eye(rows, columns, dtype=like.dtype, device=like.device).expand(like.shape)
    return eye * (values.unsqueeze(-2) if isinstance(values, Tensor) else values)


def orthogonal(
    module: Module, name: str = "weight", orthogonal_map: str | None = None, *,
    use_trivialization: bool = True,
) -> Module:  # fmt: skip
    """Keeps a matrix, or a batch of them, orthogonal (its rows or columns, if it is not square).

    >>> import weft
    >>> layer = weft.nn.utils.parametrizations.orthogonal(weft.nn.Linear(3, 3))
    >>> weft.allclose(layer.weight @ layer.weight.mT, weft.eye(3), atol=1e-5)
    True
    """
    weight = _weight_of(module, name)
    if weight.ndim < 2:
        raise ValueError(f"Expected a matrix or batch of matrices. Got a tensor of {weight.ndim} dimensions.")
    if orthogonal_map is None:
        tall = weight.size(-2) != weight.size(-1)
        orthogonal_map = "householder" if tall and not weight.is_complex() else "matrix_exp"
    kind = getattr(_OrthMaps, orthogonal_map, None)
    if kind is None:
        raise ValueError(
            f'orthogonal_map has to be one of "matrix_exp", "cayley", "householder". Got: {orthogonal_map}'
        )
    made = _Orthogonal(weight, kind, use_trivialization=use_trivialization)
    return parametrize.register_parametrization(module, name, made, unsafe=True)


# -- norms ---------------------------------------------------------------------------------------------------
class _WeightNorm(Module):
    def __init__(self, dim: int | None = 0) -> None:
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, weight_g: Any, weight_v: Any) -> Any:
        return _weight_norm(weight_v, weight_g, self.dim)

    def right_inverse(self, weight: Any) -> tuple[Any, Any]:
        """Length and direction."""
        return norm_except_dim(weight, 2, self.dim), weight


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """Stores a weight as its norms along `dim` (`original0`) and its direction (`original1`)."""
    parametrize.register_parametrization(module, name, _WeightNorm(dim), unsafe=True)

    def rename(state_dict: Any, prefix: str, *_rest: Any) -> None:
        """Takes states of the older `weight_norm`."""
        old = [f"{prefix}{name}_g", f"{prefix}{name}_v"]
        if all(key in state_dict for key in old):
            for number, key in enumerate(old):
                state_dict[f"{prefix}parametrizations.{name}.original{number}"] = state_dict.pop(key)

    module._register_load_state_dict_pre_hook(rename)
    return module


class _SpectralNorm(Module):
    _u: Any
    _v: Any

    def __init__(self, weight: Any, n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12) -> None:
        super().__init__()
        rank = weight.ndim
        if dim >= rank or dim < -rank:
            raise IndexError(
                f"Dimension out of range (expected to be in range of [-{rank}, {rank - 1}] but got {dim})"
            )
        check_iterations(n_power_iterations)
        self.dim = dim if dim >= 0 else dim + rank
        self.eps = eps
        if rank > 1:
            self.n_power_iterations = n_power_iterations
            matrix = as_matrix(weight, self.dim)
            left, right = drawn_vectors(matrix)
            self.register_buffer("_u", F.normalize(left, dim=0, eps=eps))
            self.register_buffer("_v", F.normalize(right, dim=0, eps=eps))
            self._power_method(matrix, 15)

    def _power_method(self, matrix: Any, n_power_iterations: int) -> None:
        """Moves the two vectors towards those of the greatest singular value, in place."""
        with no_grad():
            for _ in range(n_power_iterations):
                self._u.copy_(F.normalize(ops.mv(matrix, self._v), dim=0, eps=self.eps))
                self._v.copy_(F.normalize(ops.mv(matrix.mH, self._u), dim=0, eps=self.eps))

    def forward(self, weight: Any) -> Any:
        if weight.ndim == 1:
            return F.normalize(weight, dim=0, eps=self.eps)
        matrix = as_matrix(weight, self.dim)
        if self.training:
            self._power_method(matrix.detach(), self.n_power_iterations)
        left, right = self._u.clone(), self._v.clone()  # written to by the next forward
        return weight / (left.conj() * ops.mv(matrix, right)).sum()

    def right_inverse(self, value: Any) -> Any:
        """The weight itself: what was divided away is not known."""
        return value


def spectral_norm(
    module: Module, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12,
    dim: int | None = None,
) -> Module:  # fmt: skip
    """Divides a weight by its greatest singular value, estimated by power iteration.

    >>> import weft
    >>> layer = weft.nn.utils.parametrizations.spectral_norm(weft.nn.Linear(4, 3))
    >>> abs(weft.linalg.matrix_norm(layer.eval().weight, 2).item() - 1) < 0.1
    True
    """
    made = _SpectralNorm(_weight_of(module, name), n_power_iterations, output_dim(module, dim), eps)
    return parametrize.register_parametrization(module, name, made)
