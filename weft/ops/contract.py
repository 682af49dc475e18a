"""Matrix products: matmul and its fixed-rank forms, the add-a-product forms, and `nn.functional.linear`.

Takes vectors, matrices and batches of matrices; gives their products. One idea: every op here is `product`
(BLAS through `matmul`, exact integers, half types by way of float32) plus a type rule that raises PyTorch's
error for that op, and every gradient is again a product with a transposed view, never with a transposed copy.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any

import numpy as np

import weft.ops.node_names as node_names
from weft.core import dtypes
from weft.core.arrays import MODULES, Array, as_array, namespace
from weft.core.devices import DEVICES
from weft.core.dtypes import HALF_CHARS
from weft.core.types import TensorType
from weft.ops.batching import logical_result, logical_type, to_front
from weft.ops.families import contract
from weft.ops.record import Op, broadcast_shapes, common_device, ops, quiet, same_shape, unsupported
from weft.ops.samples import Maker, Sample
from weft.ops.values import Number, TensorLike

PLAIN_CHARS = frozenset("fdFD")  # what BLAS takes as it is
FLOAT, DOUBLE = dtypes.float32.numpy, dtypes.float64.numpy
EXACT = 2**53  # whole numbers up to here are exact in float64


# -- kernels -------------------------------------------------------------------------------------------------
def product(x: Array, y: Array) -> Array:
    """`x @ y` with NumPy's broadcasting, in the operands' dtype."""
    kind = x.dtype
    if (kind is FLOAT or kind is DOUBLE) and x.ndim < 3:
        return x @ y
    char = kind.char
    if char not in PLAIN_CHARS:
        if char in HALF_CHARS:
            return product(x.astype(np.float32), y.astype(np.float32)).astype(x.dtype)
        return _whole_product(x, y)
    if (
        x.ndim > 2 and y.ndim == 2 and x.size and x.flags.c_contiguous
    ):  # one large product instead of many small ones
        return (x.reshape(-1, x.shape[-1]) @ y).reshape(x.shape[:-1] + y.shape[1:])
    return x @ y


def _whole_product(x: Array, y: Array) -> Array:
    """Integers, exactly and with wrap-around: through float64 BLAS where no sum can leave its exact range."""
    if x.size * y.shape[-1] > 1 << 15 and y.size and x.dtype.kind in "iu":
        bound = (
            max(abs(int(x.min())), abs(int(x.max())))
            * max(abs(int(y.min())), abs(int(y.max())))
            * x.shape[-1]
        )
        if bound < EXACT:
            return product(x.astype(np.float64), y.astype(np.float64)).astype(np.int64).astype(x.dtype)
    return x @ y


def _widened(*arrays: Array) -> tuple[Array, ...]:
    """Half types as float32, everything else as it is: sums and products of these are rounded once, at the
    end.
    """
    if arrays[0].dtype.char in HALF_CHARS:
        return tuple(a.astype(np.float32) for a in arrays)
    return arrays


def _add_product(total: Array, result: Array, beta: Number, alpha: Number, kind: np.dtype[Any]) -> Array:
    """`beta * total + alpha * result` in result's memory; `total` is not read where beta is 0, so its NaNs
    do not count.
    """
    if alpha != 1:
        result *= result.dtype.type(alpha)
    if beta != 0:
        namespace(total).add(result, total if beta == 1 else total * result.dtype.type(beta), out=result)
    else:
        _need(np.broadcast_shapes(total.shape, result.shape) == result.shape)
    return result if result.dtype is kind else result.astype(kind)


def _need(condition: bool) -> None:
    """Kernels of trusted ops refuse what their rule would refuse; the rule then says why."""
    if not condition:
        raise ValueError("operands do not fit")


def _mm(x: Array, y: Array) -> Array:
    _need(x.ndim == 2 and y.ndim == 2)
    return product(x, y)


def _bmm(x: Array, y: Array) -> Array:
    _need(x.ndim == 3 and y.ndim == 3 and x.shape[0] == y.shape[0])
    return product(x, y)


def _mv(x: Array, y: Array) -> Array:
    _need(x.ndim == 2 and y.ndim == 1)
    return product(x, y)


def _dot(x: Array, y: Array) -> Array:
    xp = namespace(x)
    _need(x.ndim == 1 and y.ndim == 1)
    if x.dtype.char == "?":
        raise ValueError("bool")
    return xp.asarray(product(x[None], y)[0]) if x.dtype.char not in PLAIN_CHARS else xp.matmul(x, y)


def _addmm(total: Array, x: Array, y: Array, beta: Number, alpha: Number) -> Array:
    _need(x.ndim == 2 and y.ndim == 2)
    kind = x.dtype
    total, x, y = _widened(total, x, y)
    return _add_product(total, product(x, y), beta, alpha, kind)


def _addmv(total: Array, x: Array, y: Array, beta: Number, alpha: Number) -> Array:
    _need(x.ndim == 2 and y.ndim == 1 and total.ndim <= 1)
    kind = x.dtype
    total, x, y = _widened(total, x, y)
    return _add_product(total, product(x, y), beta, alpha, kind)


def _baddbmm(total: Array, x: Array, y: Array, beta: Number, alpha: Number) -> Array:
    _need(x.ndim == 3 and y.ndim == 3 and x.shape[0] == y.shape[0])
    kind = x.dtype
    total, x, y = _widened(total, x, y)
    return _add_product(total, product(x, y), beta, alpha, kind)


def _addbmm(total: Array, x: Array, y: Array, beta: Number, alpha: Number) -> Array:
    kind = x.dtype
    total, x, y = _widened(total, x, y)
    rows, columns = x.shape[1], y.shape[2]
    left = x.transpose(1, 0, 2).reshape(rows, x.shape[0] * x.shape[2])
    return _add_product(total, product(left, y.reshape(left.shape[1], columns)), beta, alpha, kind)


def _addr(total: Array, x: Array, y: Array, beta: Number, alpha: Number) -> Array:
    xp = namespace(total)
    kind = _addr_dtype(total, x, y).numpy
    if kind.char == "?":
        result = x.astype(kind)[:, None] & y.astype(kind) if alpha else xp.zeros((x.size, y.size), kind)
        return result if not beta else result | total.astype(kind)
    total, x, y = (_widened(a.astype(kind))[0] for a in (total, x, y))
    return _add_product(total, x[:, None] * y, beta, alpha, kind)


def _linear(x: Array, weight: Array, bias: Array | None) -> Array:
    rank = x.ndim
    if weight.ndim != 2:
        _need(weight.ndim == 1)
        result = as_array(product(x, weight))
        return result if bias is None else (result + bias).astype(x.dtype)
    if rank == 2 and x.dtype.char in PLAIN_CHARS:
        result = x @ weight.T
    else:
        kind = x.dtype
        if kind.char in HALF_CHARS:
            arrays = _widened(x, weight) if bias is None else _widened(x, weight, bias)
            return _linear(*arrays, *(None,) * (3 - len(arrays))).astype(kind)
        _need(rank > 0)
        result = product(_fold(x), weight.T).reshape(x.shape[:-1] + weight.shape[:1])
    if bias is not None:
        result += bias
    return result


def _fold(x: Array) -> Array:
    """All leading dimensions as one."""
    return x if x.ndim == 2 else x.reshape(prod(x.shape[:-1]), x.shape[-1])


# -- type rules ----------------------------------------------------------------------------------------------
def _sizes(x: TensorType) -> str:
    return "x".join(map(str, x.shape))


def mm_type(x: TensorType, y: TensorType) -> TensorType:
    if x.ndim != 2:
        raise RuntimeError("self must be a matrix")
    if y.ndim != 2:
        raise RuntimeError("mat2 must be a matrix")
    if x.shape[1] != y.shape[0]:
        raise RuntimeError(f"mat1 and mat2 shapes cannot be multiplied ({_sizes(x)} and {_sizes(y)})")
    if x.dtype is not y.dtype:
        raise RuntimeError(
            f"expected m1 and m2 to have the same dtype, but got: {x.dtype.cpp_name} != {y.dtype.cpp_name}"
        )
    if x.dtype is dtypes.bool_:
        raise unsupported("addmm_impl_cpu_", x.dtype)
    return TensorType((x.shape[0], y.shape[1]), x.dtype, common_device([x, y]))


def bmm_type(x: TensorType, y: TensorType, kernel: str = "bmm") -> TensorType:
    for name, value in (("batch1", x), ("batch2", y)):
        if value.ndim != 3:
            raise RuntimeError(f"{name} must be a 3D tensor")
    if y.shape[0] != x.shape[0] or y.shape[1] != x.shape[2]:
        raise RuntimeError(
            f"Expected size for first two dimensions of batch2 tensor to be: [{x.shape[0]}, {x.shape[2]}] "
            "but got: "
            f"[{y.shape[0]}, {y.shape[1]}]."
        )
    _same_scalar_type(x, y)
    if x.dtype is dtypes.bool_:
        raise unsupported(kernel, x.dtype)
    return TensorType((x.shape[0], x.shape[1], y.shape[2]), x.dtype, common_device([x, y]))


def _same_scalar_type(x: TensorType, y: TensorType) -> None:
    if x.dtype is not y.dtype:
        raise RuntimeError(f"expected scalar type {x.dtype.scalar_name} but found {y.dtype.scalar_name}")


def _addmv_type(
    total: TensorType, x: TensorType, y: TensorType, _beta: Number = 1, _alpha: Number = 1
) -> TensorType:
    if x.ndim != 2 or y.ndim != 1 or total.ndim > 1:
        raise RuntimeError(f"vector + matrix @ vector expected, got {total.ndim}, {x.ndim}, {y.ndim}")
    size = total.numel()
    if x.shape[1] != y.shape[0] or (size != x.shape[0] and size != 1):
        raise RuntimeError(f"size mismatch, got input ({size}), mat ({_sizes(x)}), vec ({y.shape[0]})")
    if not total.dtype is x.dtype is y.dtype:
        names = [t.dtype.scalar_name for t in (total, x, y)]
        raise RuntimeError(
            f"addmv input tensors must have the same dtype, but got {names[0]}, {names[1]}, and {names[2]}"
        )
    if x.dtype is dtypes.bool_:
        raise unsupported("addmv_impl_cpu", x.dtype)
    return TensorType(x.shape[:1], x.dtype, common_device([total, x, y]))


def mv_type(x: TensorType, y: TensorType) -> TensorType:
    return _addmv_type(TensorType(x.shape[:1], y.dtype, y.device), x, y)


def dot_type(x: TensorType, y: TensorType) -> TensorType:
    if x.ndim != 1 or y.ndim != 1:
        raise RuntimeError(f"1D tensors expected, but got {x.ndim}D and {y.ndim}D tensors")
    if x.dtype is not y.dtype:
        raise RuntimeError(
            f"dot : expected both vectors to have same dtype, but found {x.dtype.scalar_name} and "
            f"{y.dtype.scalar_name}"
        )
    if x.shape != y.shape:
        raise RuntimeError(
            f"inconsistent tensor size, expected tensor {list(x.shape)} and src {list(y.shape)} to have the "
            "same number of "
            f"elements, but got {x.numel()} and {y.numel()} elements respectively"
        )
    if x.dtype is dtypes.bool_:
        raise unsupported("dot", x.dtype)
    return TensorType((), x.dtype, common_device([x, y]))


def matmul_type(x: TensorType, y: TensorType) -> TensorType:
    if not x.ndim or not y.ndim:
        raise RuntimeError(
            f"both arguments to matmul need to be at least 1D, but they are {x.ndim}D and {y.ndim}D"
        )
    if y.ndim <= 2:
        if x.ndim == 1 and y.ndim == 1:
            return dot_type(x, y)
        flat = TensorType((prod(x.shape[:-1]), x.shape[-1]), x.dtype, x.device)
        result = mv_type(flat, y) if y.ndim == 1 else mm_type(flat, y)
        return TensorType(x.shape[:-1] + result.shape[1:], x.dtype, result.device)
    left, right = x.shape if x.ndim > 1 else (1, *x.shape), y.shape
    lead = broadcast_shapes(left[:-2], right[:-2])
    count = prod(lead)
    stacked, other = (TensorType((count, *s[-2:]), t.dtype, t.device) for s, t in ((left, x), (right, y)))
    result = bmm_type(stacked, other)
    return TensorType(lead + (left[-2:-1] if x.ndim > 1 else ()) + right[-1:], x.dtype, result.device)


def _addmm_type(
    total: TensorType, x: TensorType, y: TensorType, _beta: Number = 1, _alpha: Number = 1
) -> TensorType:
    for name, value in (("mat1", x), ("mat2", y)):
        if value.ndim != 2:
            raise RuntimeError(f"{name} must be a matrix, got {value.ndim}-D tensor")
    if x.shape[1] != y.shape[0]:
        raise RuntimeError(f"mat1 and mat2 shapes cannot be multiplied ({_sizes(x)} and {_sizes(y)})")
    _check_sum_dtypes(total, x, y)
    return _add_type(total, mm_type(x, y))


def _check_sum_dtypes(total: TensorType, x: TensorType, y: TensorType) -> None:
    for name, value in (("self", total), ("mat1", x)):
        if value.dtype is not y.dtype:
            raise RuntimeError(
                f"{name} and mat2 must have the same dtype, but got {value.dtype.scalar_name} and "
                f"{y.dtype.scalar_name}"
            )


def _add_type(total: TensorType, result: TensorType) -> TensorType:
    """The product's type; `total` must expand to it."""
    if not same_shape(total.shape, result.shape):
        ops.expand(total, result.shape)
    return TensorType(result.shape, result.dtype, common_device([total, result]))


def _baddbmm_type(
    total: TensorType, x: TensorType, y: TensorType, _beta: Number, _alpha: Number
) -> TensorType:
    result = bmm_type(x, y, "baddbmm")
    if total.dtype is not x.dtype:
        names = [t.dtype.cpp_name for t in (total, x, y)]
        raise RuntimeError(
            f"Input dtypes must be the same, got: input {names[0]}, batch1: {names[1]}, batch2: {names[2]}"
        )
    return _add_type(total, result)


def _addbmm_type(
    total: TensorType, x: TensorType, y: TensorType, _beta: Number, _alpha: Number
) -> TensorType:
    for name, value in (("batch1", x), ("batch2", y)):
        if value.ndim != 3:
            raise RuntimeError(f"{name} must be a 3D tensor")
    if x.shape[0] != y.shape[0]:
        raise RuntimeError(
            f"batch1 and batch2 must have same number of batches, got {x.shape[0]} and {y.shape[0]}"
        )
    if x.shape[2] != y.shape[1]:
        raise RuntimeError(
            f"Incompatible matrix sizes for bmm ({x.shape[1]}x{x.shape[2]} and {y.shape[1]}x{y.shape[2]})"
        )
    _check_sum_dtypes(total, x, y)
    if x.dtype is dtypes.bool_:
        raise unsupported("addmm_impl_cpu_", x.dtype)
    return _add_type(total, TensorType((x.shape[1], y.shape[2]), x.dtype, common_device([x, y])))


def _addr_dtype(total: Array | TensorType, x: Array | TensorType, y: Array | TensorType) -> dtypes.dtype:
    return dtypes.result_dtype([total, x, y])


def _addr_type(total: TensorType, x: TensorType, y: TensorType, beta: Number, alpha: Number) -> TensorType:
    for name, value in (("vec1", x), ("vec2", y)):
        if value.ndim != 1:
            raise RuntimeError(f"addr: Expected 1-D argument {name}, but got {value.ndim}-D")
    kind = _addr_dtype(total, x, y)
    if kind.category < dtypes.FLOAT:
        for name, number in (("beta", beta), ("alpha", alpha)):
            if isinstance(number, float):
                raise RuntimeError(
                    f"For integral input tensors, argument {name} must not be a floating point number."
                )
    return _add_type(total, TensorType((x.shape[0], y.shape[0]), kind, common_device([x, y])))


def _linear_type(x: TensorType, weight: TensorType, bias: TensorType | None) -> TensorType:
    if not x.ndim or not weight.ndim:
        raise RuntimeError(
            f"both arguments to linear need to be at least 1D, but they are {x.ndim}D and {weight.ndim}D"
        )
    if weight.ndim > 2:
        raise RuntimeError(f"t() expects a tensor with <= 2 dimensions, but self is {weight.ndim}D")
    right = TensorType(weight.shape[::-1], weight.dtype, weight.device)
    if bias is None:
        return matmul_type(x, right)
    flat = TensorType((prod(x.shape[:-1]), x.shape[-1]), x.dtype, x.device)
    if weight.ndim == 1 and (x.ndim == 2 or bias.ndim):
        raise RuntimeError("mat2 must be a matrix, got 1-D tensor")
    _check_sum_dtypes(bias, flat, right)
    if weight.ndim == 2 and (x.ndim == 2 or bias.ndim <= 1):
        result = _addmm_type(bias, flat, right)
        return TensorType(x.shape[:-1] + result.shape[1:], result.dtype, result.device)
    result = matmul_type(x, right)
    wide = broadcast_shapes(result.shape, bias.shape)
    if not same_shape(wide, result.shape):
        raise RuntimeError(
            f"output with shape {list(result.shape)} doesn't match the broadcast shape {list(wide)}"
        )
    return result


# -- gradients -----------------------------------------------------------------------------------------------
def transposed(x: Any) -> Any:
    """The last two dimensions exchanged: a view, also of a raw array."""
    return x.swapaxes(-2, -1) if type(x) in DEVICES else ops.transpose(x, -2, -1)


def adjoint(x: TensorLike) -> Any:
    """The conjugate transpose."""
    kind = x.dtype
    if (kind.kind == "c") if type(x) in DEVICES else kind.is_complex:
        x = ops.conj(x)
    return transposed(x)


def multiply(x: TensorLike, y: TensorLike) -> Any:
    """`matmul`, without ceremony where both are arrays."""
    return quiet(product, x, y) if type(x) in DEVICES and type(y) in DEVICES else matmul(x, y)


def reduced(g: TensorLike, shape: tuple[int, ...]) -> Any:
    """A gradient summed over the dimensions along which its input was broadcast."""
    return g if same_shape(g.shape, shape) else ops.sum_to_size(g, tuple(shape))


def scaled(g: TensorLike, factor: Number) -> Any:
    return g if factor == 1 else ops.mul(g, factor)


def folded(x: TensorLike) -> Any:
    """All leading dimensions as one, so that a sum over them is a product of matrices."""
    shape = tuple(x.shape)
    return x if len(shape) == 2 else ops.reshape(x, (prod(shape[:-1]), shape[-1]))


def _left_gradient(g: TensorLike, x: TensorType, y: TensorLike) -> Any:
    ranks = x.ndim, len(y.shape)
    if ranks[1] == 1:
        return ops.mul(g if ranks[0] == 1 else ops.unsqueeze(g, -1), y)
    if ranks[0] == 1:
        column = ops.matmul(y, ops.unsqueeze(g, -1))
        return reduced(ops.squeeze(column, -1), x.shape)
    return reduced(multiply(g, transposed(y)), x.shape)


def _right_gradient(g: TensorLike, x: TensorLike, y: TensorType) -> Any:
    ranks = len(x.shape), y.ndim
    if ranks[0] == 1:
        return ops.mul(g, x) if ranks[1] == 1 else ops.mul(ops.unsqueeze(x, -1), ops.unsqueeze(g, -2))
    if ranks[1] == 1:
        return multiply(transposed(folded(x)), g if ranks[0] == 2 else ops.reshape(g, (prod(x.shape[:-1]),)))
    if ranks[1] == 2:
        return multiply(transposed(folded(x)), folded(g))
    return reduced(multiply(transposed(x), g), y.shape)


def _linear_input(g: TensorLike, _out: object, _x: object, weight: TensorLike) -> Any:
    return multiply(g, weight) if len(weight.shape) == 2 else ops.mul(ops.unsqueeze(g, -1), weight)


def _linear_weight(g: TensorLike, _out: object, x: TensorLike) -> Any:
    if len(g.shape) != len(x.shape):  # a one-dimensional weight
        return _right_gradient(g, x, TensorType(x.shape[-1:], dtypes.float32))
    if len(x.shape) == 1:
        return ops.mul(ops.unsqueeze(g, -1), x)
    return multiply(transposed(folded(g)), folded(x))


def _linear_bias(g: TensorLike, _out: object, _x: object, _weight: object, _bias: TensorType) -> Any:
    if (
        type(g) in DEVICES
        and g.ndim == 2
        and _bias.ndim == 1
        and g.dtype.char in PLAIN_CHARS
        and g.shape[1] == _bias.shape[0]
    ):
        return MODULES[type(g)].add.reduce(g, 0)
    return reduced(g, _bias.shape)


def _addbmm_spread(g: TensorLike, x: TensorType, y: TensorType) -> Any:
    """The gradient of a sum over batches, seen by each of them."""
    return ops.expand(ops.unsqueeze(g, 0), (x.shape[0], x.shape[1], y.shape[2]))


# -- batches -------------------------------------------------------------------------------------------------
def _padded(x: TensorLike, dim: int | None, rank: int) -> Any:
    """The batch in front and ones after it, so that one example has this rank."""
    if dim is None:
        return x
    shape = tuple(x.shape)
    gap = rank - (len(shape) - 1)
    return ops.reshape(x, (shape[0], *(1,) * gap, *shape[1:])) if gap else x


def batch_product(x: TensorLike, x_dim: int | None, y: TensorLike, y_dim: int | None) -> Any:
    """matmul of every example, batch in front."""
    ranks = logical_type(x, x_dim).ndim, logical_type(y, y_dim).ndim
    x, y = to_front(x, x_dim), to_front(y, y_dim)
    if ranks[0] == 1:
        x = ops.unsqueeze(x, -2)
    if ranks[1] == 1:
        y = ops.unsqueeze(y, -1)
    rank = max(2, *ranks)
    out = matmul(_padded(x, x_dim, rank), _padded(y, y_dim, rank))
    if ranks[1] == 1:
        out = ops.squeeze(out, -1)
    return ops.squeeze(out, -1 if ranks[1] == 1 else -2) if ranks[0] == 1 else out


def _batch_two(op: Op, _size: int, args: tuple[Any, ...], dims: tuple[Any, ...]) -> tuple[Any, Any]:
    logical_result(op, args, dims)
    return batch_product(args[0], dims[0], args[1], dims[1]), 0


def _batch_sum(op: Op, size: int, args: tuple[Any, ...], dims: tuple[Any, ...]) -> tuple[Any, Any]:
    """addmm and its kin: the product of every example, plus the scaled input."""
    expected = logical_result(op, args, dims)
    total, x, y, beta, alpha = args
    if op is addr:
        x, y = ops.unsqueeze(to_front(x, dims[1]), -1), ops.unsqueeze(to_front(y, dims[2]), -2)
        out = ops.mul(x, y)
    else:
        out = batch_product(x, dims[1], y, dims[2])
        out = ops.sum(out, -3) if op is addbmm else out
    out = scaled(out, alpha)
    if beta != 0:
        out = ops.add(out, scaled(_padded(to_front(total, dims[0]), dims[0], expected.ndim), beta))
    return ops.expand(out, (size, *expected.shape)), 0


def _batch_linear(op: Op, _size: int, args: tuple[Any, ...], dims: tuple[Any, ...]) -> Any:
    expected = logical_result(op, args, dims)
    x, weight, bias = args
    if dims[1] is None and dims[2] is None:
        return op(to_front(x, dims[0]), weight, bias), 0
    flat = logical_type(weight, dims[1]).ndim == 1
    weight = to_front(weight, dims[1])
    at = None if dims[1] is None else 0
    out = batch_product(x, dims[0], weight if flat else transposed(weight), at)
    return (
        out if bias is None else ops.add(out, _padded(to_front(bias, dims[2]), dims[2], expected.ndim))
    ), 0


# -- samples -------------------------------------------------------------------------------------------------
def _pairs(*shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> Any:
    def samples(make: Maker) -> Iterator[Sample]:
        for left, right in shapes:
            yield Sample(make(*left), make(*right))
        left, right = shapes[0]
        yield Sample(make(*left[::-1]).T, make(*right[::-1]).T)

    return samples


def _sums(
    total: tuple[int, ...], left: tuple[int, ...], right: tuple[int, ...], small: tuple[int, ...] = ()
) -> Any:
    def samples(make: Maker) -> Iterator[Sample]:
        yield Sample(make(*total), make(*left), make(*right))
        yield Sample(make(*total), make(*left), make(*right), beta=2, alpha=3)
        yield Sample(make(*small), make(*left), make(*right), beta=2)
        yield Sample(make(*total), make(*left), make(*right), beta=0)
        yield Sample(make(*total[::-1]).T, make(*left[::-1]).T, make(*right[::-1]).T)

    return samples


def _linear_samples(make: Maker) -> Iterator[Sample]:
    yield Sample(make(2, 3), make(4, 3), make(4))
    yield Sample(make(2, 3), make(4, 3))
    yield Sample(make(3), make(4, 3), make(4))
    yield Sample(make(2, 2, 3), make(4, 3), make(4))
    yield Sample(make(2, 3), make(3))
    yield Sample(make(3), make(3))
    yield Sample(make(0, 3), make(4, 3), make(4))
    yield Sample(make(2, 0), make(4, 0), make(4))
    yield Sample(make(3, 2).T, make(3, 4).T, make())


# -- records -------------------------------------------------------------------------------------------------
matmul = contract(
    "matmul", product, matmul_type, "input: Tensor, other: Tensor", trusted=True, amp="lower",
    node="MmBackward0", aliases=("linalg.matmul",), batch=_batch_two, out="exact",
    vjp=(lambda g, _out, _x, y: _left_gradient(g, _x, y), lambda g, _out, x, _y: _right_gradient(g, x, _y)),
    samples=_pairs(
        ((2, 3), (3, 4)), ((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 2)), ((2, 2, 3), (3,)), ((3,), (2, 3, 4)),
        ((2, 2, 3), (3, 4)), ((2, 3), (2, 3, 2)), ((2, 1, 2, 3), (2, 3, 2)), ((0, 3), (3, 2)),
        ((2, 0), (0, 3)),
    ),
    refuses="nothing", lowering="products", row_major=True,
    node_name=node_names.product,
)  # fmt: skip
mm = contract(
    "mm", _mm, mm_type, "input: Tensor, mat2: Tensor", trusted=True, amp="lower", batch=_batch_two,
    out="exact",
    vjp=(lambda g, _out, _x, y: multiply(g, transposed(y)), lambda g, _out, x: multiply(transposed(x), g)),
    samples=_pairs(((2, 3), (3, 4)), ((0, 3), (3, 2)), ((2, 0), (0, 3))),
    refuses="nothing", lowering="products", row_major=True,
)  # fmt: skip
bmm = contract(
    "bmm", _bmm, bmm_type, "input: Tensor, mat2: Tensor", trusted=True, amp="lower", batch=_batch_two,
    out="exact",
    vjp=(lambda g, _out, _x, y: multiply(g, transposed(y)), lambda g, _out, x: multiply(transposed(x), g)),
    samples=_pairs(((2, 2, 3), (2, 3, 2)), ((0, 2, 3), (0, 3, 2)), ((2, 2, 0), (2, 0, 3))),
    refuses="nothing", lowering="products", row_major=True,
)  # fmt: skip
mv = contract(
    "mv", _mv, mv_type, "input: Tensor, vec: Tensor", trusted=True, batch=_batch_two, out="exact",
    vjp=(lambda g, _out, _x, y: _left_gradient(g, _x, y), lambda g, _out, x: multiply(transposed(x), g)),
    samples=_pairs(((2, 3), (3,)), ((0, 3), (3,)), ((2, 0), (0,))),
    refuses="nothing", lowering="products", row_major=True,
)  # fmt: skip
dot = contract(
    "dot", _dot, dot_type, "input: Tensor, tensor: Tensor", trusted=True, batch=_batch_two, out="exact",
    vjp=(lambda g, _out, _x, y: ops.mul(g, y), lambda g, _out, x: ops.mul(g, x)),
    samples=_pairs(((3,), (3,)), ((0,), (0,))),
    refuses="nothing", lowering="products", row_major=True,
)  # fmt: skip
ADD = ", *, beta: Number = 1, alpha: Number = 1"
addmm = contract(
    "addmm", _addmm, _addmm_type, "input: Tensor, mat1: Tensor, mat2: Tensor" + ADD, trusted=True,
    inplace=True, amp="lower", out="exact",
    vjp=(
        lambda g, _out, _t, _x, _y, beta: scaled(reduced(g, _t.shape), beta),
        lambda g, _out, _t, _x, y, beta, alpha: scaled(multiply(g, transposed(y)), alpha),
        lambda g, _out, _t, x, _y, beta, alpha: scaled(multiply(transposed(x), g), alpha),
    ),
    samples=_sums((2, 4), (2, 3), (3, 4), (4,)), batch=_batch_sum,
    refuses="nothing", lowering="products", row_major=True,
)  # fmt: skip
addmv = contract(
    "addmv", _addmv, _addmv_type, "input: Tensor, mat: Tensor, vec: Tensor" + ADD, trusted=True, inplace=True,
    out="exact",
    vjp=(
        lambda g, _out, _t, _x, _y, beta: scaled(reduced(g, _t.shape), beta),
        lambda g, _out, _t, _x, y, beta, alpha: scaled(_left_gradient(g, _x, y), alpha),
        lambda g, _out, _t, x, _y, beta, alpha: scaled(multiply(transposed(x), g), alpha),
    ),
    samples=_sums((2,), (2, 3), (3,), (1,)), batch=_batch_sum,
    refuses="nothing", lowering="products",
)  # fmt: skip
addr = contract(
    "addr", _addr, _addr_type, "input: Tensor, vec1: Tensor, vec2: Tensor" + ADD, inplace=True,
    vjp=(
        lambda g, _out, _t, _x, _y, beta: scaled(reduced(g, _t.shape), beta),
        lambda g, _out, _t, _x, y, beta, alpha: scaled(ops.mv(g, y), alpha),
        lambda g, _out, _t, x, _y, beta, alpha: scaled(ops.mv(transposed(g), x), alpha),
    ),
    samples=_sums((2, 3), (2,), (3,), (3,)), batch=_batch_sum,
    refuses="nothing", lowering="products",
)  # fmt: skip
baddbmm = contract(
    "baddbmm", _baddbmm, _baddbmm_type, "input: Tensor, batch1: Tensor, batch2: Tensor" + ADD, inplace=True,
    amp="lower", trusted=True, out="exact",
    vjp=(
        lambda g, _out, _t, _x, _y, beta: scaled(reduced(g, _t.shape), beta),
        lambda g, _out, _t, _x, y, beta, alpha: scaled(multiply(g, transposed(y)), alpha),
        lambda g, _out, _t, x, _y, beta, alpha: scaled(multiply(transposed(x), g), alpha),
    ),
    samples=_sums((2, 2, 4), (2, 2, 3), (2, 3, 4), (4,)), batch=_batch_sum,
    refuses="nothing", lowering="products", row_major=True,
)  # fmt: skip
addbmm = contract(
    "addbmm", _addbmm, _addbmm_type, "input: Tensor, batch1: Tensor, batch2: Tensor" + ADD, inplace=True,
    amp="lower", out="exact",
    vjp=(
        lambda g, _out, _t, _x, _y, beta: scaled(reduced(g, _t.shape), beta),
        lambda g, _out, _t, _x, y, beta, alpha: scaled(
            multiply(_addbmm_spread(g, _x, y), transposed(y)), alpha
        ),
        lambda g, _out, _t, x, _y, beta, alpha: scaled(
            multiply(transposed(x), _addbmm_spread(g, x, _y)), alpha
        ),
    ),
    samples=_sums((2, 4), (2, 2, 3), (2, 3, 4), (4,)), batch=_batch_sum,
    refuses="nothing", lowering="products",
)  # fmt: skip
linear = contract(
    "linear", _linear, _linear_type, "input: Tensor, weight: Tensor, bias: MaybeTensor = None",
    namespace="nn.functional", trusted=True, amp="lower", node="AddmmBackward0", out="exact",
    vjp=(_linear_input, _linear_weight, _linear_bias), samples=_linear_samples, batch=_batch_linear,
    refuses="nothing", lowering="products", row_major=True,
    node_name=node_names.linear,
)  # fmt: skip
