"""Attention, and the layers around it: embeddings, one-hot vectors, dropout.

Takes queries, keys and values (or indices and tables of vectors); gives their weighted sums. The one idea:
attention is a composite of products and a softmax, so that fusing it is left to whoever compiles it; only the
embedding's gather and its scattered gradient are records of their own.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from weft.core.arrays import Array, is_array, namespace
from weft.core.dtypes import FLOAT, HALVES, bool_, dtype, float32, int32, int64
from weft.core.seams import seams
from weft.core.sparse_array import SparseArray
from weft.core.types import Size, TensorType
from weft.core.warn import warn
from weft.ops.batching import spread_to, to_front
from weft.ops.families import HIDDEN, composite, index
from weft.ops.record import Op, ops, type_of
from weft.ops.samples import Maker, Sample
from weft.ops.softmax import floats_only, no_grad, softmax, working
from weft.ops.values import MaybeTensor, TensorLike


# -- embedding ---------------------------------------------------------------------------------------------
def _embedding_kernel(weight: Array, indices: Array, padding: int, by_frequency: bool, sparse: bool) -> Array:
    xp = namespace(weight)
    if indices.size and (int(indices.min()) < 0 or int(indices.max()) >= weight.shape[0]):
        raise IndexError("index out of range in self")
    return xp.take(weight, indices, axis=0)


def _embedding_rule(
    weight: TensorType, indices: TensorType, padding: int, by_frequency: bool, sparse: bool
) -> TensorType:
    if weight.ndim != 2:
        raise RuntimeError("'weight' must be 2-D")
    if indices.dtype not in (int64, int32):
        raise RuntimeError(
            "Expected tensor for argument #1 'indices' to have one of the following scalar types: Long, "
            "Int; but got "
            f"torch.{indices.dtype.scalar_name}Tensor instead (while checking arguments for embedding)"
        )
    return TensorType((*indices.shape, weight.shape[1]), weight.dtype, weight.device)


def _embedding_backward_kernel(
    g: Array, indices: Array, count: int, padding: int, by_frequency: bool
) -> Array:
    """Sums the rows of `g` that belong to one entry: sorted by entry, they are runs."""
    xp = namespace(g)
    width = g.shape[-1]
    flat, rows = indices.reshape(-1), working(g).reshape(indices.size, width)
    out = xp.zeros((count, width), rows.dtype)
    if flat.size:
        order = xp.argsort(flat, kind="stable")
        ordered = flat[order]
        starts = xp.flatnonzero(xp.concatenate([xp.ones(1, bool), ordered[1:] != ordered[:-1]]))
        entries = ordered[starts]
        sums = xp.add.reduceat(rows[order], starts, axis=0)
        if by_frequency:
            sums /= xp.diff(xp.append(starts, flat.size))[:, None]
        out[entries] = sums
        if padding >= 0:
            out[padding] = 0
    return out.astype(g.dtype, copy=False)


def _embedding_backward_rule(
    g: TensorType, indices: TensorType, count: int, padding: int, by: bool
) -> TensorType:
    if g.dtype.category < FLOAT:
        floats_only("embedding_backward", g.dtype)
    return TensorType((count, g.shape[-1]), g.dtype, g.device)


def _shares_kernel(indices: Array, padding: int, by_frequency: bool, like: dtype) -> Array:
    """How much of its gradient each occurrence passes on: none where padded, by frequency its share."""
    xp = namespace(indices)
    share = xp.ones(indices.shape, like.numpy)
    if by_frequency and indices.size:
        _, inverse, counts = xp.unique(indices, return_inverse=True, return_counts=True)
        share = share / counts[inverse].reshape(indices.shape)
    if padding >= 0:
        share = xp.where(indices == padding, 0, share)
    return xp.asarray(share).astype(like.numpy)


embedding_shares = index(
    "embedding_shares", _shares_kernel,
    lambda i, padding, by, like: TensorType(i.shape, like, i.device),
    "indices: Tensor, padding_idx: int, scale_grad_by_freq: bool, dtype: DType",
    samples=lambda make: [Sample(make.ints(4, high=3), 1, True, make.kind)],
    batch=lambda op, size, args, dims: (
        NotImplemented if args[2] else (op(to_front(args[0], dims[0]), *args[1:]), 0)
    ),
    **HIDDEN,
    refuses="integers",
)  # fmt: skip


def _embedding_second(
    g: TensorLike, _out: object, _g: object, indices: TensorLike, _count: int, padding: int, by: bool
) -> Any:
    rows = embedding(g, indices)
    if padding < 0 and not by:
        return rows
    share = embedding_shares(indices, padding, by, type_of(g).dtype)
    return ops.mul(rows, ops.unsqueeze(share, -1))


def _offset(indices: TensorLike, dim: int | None, size: int, count: int) -> Any:
    """Indices into the tables of all examples, laid end to end."""
    indices = spread_to(indices, dim, size)
    steps = ops.mul(ops.cumsum(ops.new_ones(indices, (size,)), 0), count)
    return ops.add(indices, ops.reshape(ops.sub(steps, count), (size, *(1,) * (len(indices.shape) - 1))))


def _embedding_batch(op: Op, size: int, args: tuple[Any, ...], dims: tuple[Any, ...]) -> Any:
    weight, indices, padding, by_frequency, sparse = args
    if dims[0] is None:
        return op(weight, to_front(indices, dims[1]), *args[2:]), 0
    if padding >= 0:
        return NotImplemented
    weight = to_front(weight, dims[0])
    table = ops.reshape(weight, (size * weight.shape[1], weight.shape[2]))
    return op(table, _offset(indices, dims[1], size, weight.shape[1]), -1, by_frequency, sparse), 0


def _embedding_backward_batch(op: Op, size: int, args: tuple[Any, ...], dims: tuple[Any, ...]) -> Any:
    g, indices, count, padding, by_frequency = args
    g = spread_to(g, dims[0], size)
    places = _offset(indices, dims[1], size, count)
    if padding >= 0:
        kept = ops.unsqueeze(ops.ne(spread_to(indices, dims[1], size), padding), -1)
        g = ops.mul(g, kept)
    out = op(g, places, size * count, -1, by_frequency)
    return ops.reshape(out, (size, count, out.shape[-1])), 0


def _embedding_samples(make: Maker) -> Iterator[Sample]:
    yield Sample(make(5, 3), make.ints(4, high=5))
    yield Sample(make(5, 3), make.ints(2, 3, high=5), 1, grad=False)
    yield Sample(make(5, 3), make.ints(high=5))
    yield Sample(make(5, 3), make.ints(0, high=5))


def _embedding_backward_samples(make: Maker) -> Iterator[Sample]:
    yield Sample(make(4, 3), make.ints(4, high=5), 5, -1, False)
    yield Sample(make(2, 3, 3), make.ints(2, 3, high=5), 5, 1, True)
    yield Sample(make(0, 3), make.ints(0, high=5), 5, -1, False)


def _embedding_gradient(
    g: TensorLike, _out: object, _weight: TensorType, indices: Any, padding: int, by: bool, sparse: bool
) -> Any:
    """The gradient of the table: of the rows that were looked up only, where it is to be sparse."""
    if not sparse:
        return embedding_backward(g, indices, _weight.shape[0], padding, by)
    if by:
        raise RuntimeError("embedding_backward: scale_grad_by_freq not supported with sparse gradients")
    if not is_array(g):
        return seams.sparse_rows(g, indices, tuple(_weight.shape), padding)
    places, rows = indices.reshape(1, -1), g.reshape(indices.size, _weight.shape[1])
    if padding >= 0:
        kept = namespace(places).flatnonzero(places[0] != padding)
        places, rows = places[:, kept], rows[kept]
    return SparseArray(places.astype("int64"), rows, tuple(_weight.shape))


embedding: Op = index(
    "embedding", _embedding_kernel, _embedding_rule,
    "weight: Tensor, indices: Tensor, padding_idx: int = -1, scale_grad_by_freq: bool = False, sparse: bool "
    "= False",
    vjp=(_embedding_gradient, None), batch=_embedding_batch, samples=_embedding_samples,
    method=False, refuses="integers", lowering="indexing",
)  # fmt: skip
embedding_backward: Op = index(
    "embedding_dense_backward", _embedding_backward_kernel, _embedding_backward_rule,
    "grad: Tensor, indices: Tensor, num_weights: int, padding_idx: int, scale_grad_by_freq: bool",
    vjp=(_embedding_second, None), batch=_embedding_backward_batch, samples=_embedding_backward_samples,
    **HIDDEN,
    refuses="integers", lowering="scatter",
)  # fmt: skip


def _renorm_kernel(weight: Array, indices: Array, max_norm: float, norm_type: float) -> Array:
    """The table with every used row cut back to the greatest norm allowed."""
    xp = namespace(weight)
    out = weight.copy()
    used = xp.unique(indices.reshape(-1))
    rows = working(weight)[used]
    lengths = xp.linalg.norm(rows, ord=norm_type, axis=-1, keepdims=True)
    out[used] = xp.where(lengths > max_norm, rows * (max_norm / (lengths + 1e-7)), rows)
    return out


embedding_renorm = index(
    "embedding_renorm", _renorm_kernel, lambda weight, *rest: weight,
    "input: Tensor, indices: Tensor, max_norm: float, norm_type: float",
    samples=lambda make: [Sample(make(5, 3), make.ints(4, high=5), 1.0, 2.0)], **HIDDEN,
    refuses="integers",
)  # fmt: skip


def _lookup_samples(make: Maker) -> Iterator[Sample]:
    yield Sample(make.ints(4, high=5), make(5, 3))
    yield Sample(make.ints(2, 3, high=5), make(5, 3), -2, scale_grad_by_freq=True, grad=False)


@composite(
    "input: Tensor, weight: Tensor, padding_idx: Any = None, max_norm: Any = None, norm_type: float = 2.0, "
    "scale_grad_by_freq: bool = False, sparse: bool = False",
    name="embedding", namespace="nn.functional", samples=_lookup_samples,
)  # fmt: skip
def _embedding_user(
    input: TensorLike, weight: TensorLike, padding_idx: int | None, max_norm: float | None, norm_type: float,
    scale_grad_by_freq: bool, sparse: bool,
) -> Any:  # fmt: skip
    """The rows of a table at these indices."""
    count = type_of(weight).shape[0] if type_of(weight).shape else 0
    if padding_idx is None:
        padding_idx = -1
    else:
        limits = -count <= padding_idx < count
        assert limits, "Padding_idx must be within num_embeddings"
        padding_idx = padding_idx if padding_idx >= 0 else count + padding_idx
    if max_norm is not None:
        smaller = no_grad(embedding_renorm, weight, input, float(max_norm), float(norm_type))
        if hasattr(weight, "copy_"):
            no_grad(weight.copy_, smaller)
        else:
            weight = smaller
    sparse = sparse and seams.gives_sparse_rows(weight)
    return embedding(weight, input, padding_idx, scale_grad_by_freq, sparse)


# -- one-hot vectors -----------------------------------------------------------------------------------------
def _one_hot_kernel(x: Array, count: int) -> Array:
    xp = namespace(x)
    if x.size and int(x.min()) < 0:
        raise RuntimeError("Class values must be non-negative.")
    if x.size and int(x.max()) >= count:
        raise RuntimeError("Class values must be smaller than num_classes.")
    return (x[..., None] == xp.arange(count, dtype=xp.int64)).astype(xp.int64)


one_hot_elements = index(
    "one_hot_elements", _one_hot_kernel,
    lambda x, count: TensorType((*x.shape, max(count, 0)), int64, x.device),
    "input: Tensor, num_classes: int",
    batch=lambda op, size, args, dims: (op(to_front(args[0], dims[0]), args[1]), 0),
    samples=lambda make: [Sample(make.ints(2, 3, high=4), 5), Sample(make.ints(high=4), 4)], **HIDDEN,
    refuses="integers", lowering="indexing",
)  # fmt: skip


@composite(
    "tensor: Tensor, num_classes: int = -1", namespace="nn.functional",
    samples=lambda make: [Sample(make.ints(2, 3, high=4), 5), Sample(make.ints(high=4), 4)],
)  # fmt: skip
def one_hot(tensor: TensorLike, num_classes: int) -> Any:
    """A vector of zeros with a one at each class."""
    kind = type_of(tensor)
    if kind.dtype is not int64:
        raise RuntimeError("one_hot is only applicable to index tensor of type LongTensor.")
    if kind.numel() == 0 and num_classes <= 0:
        raise RuntimeError("Can not infer total number of classes from empty tensor.")
    if num_classes == -1:
        if not hasattr(tensor, "item"):
            raise NotImplementedError("one_hot needs num_classes where the values are not known")
        num_classes = max(int(ops.amax(tensor).item()) + 1, 0)
    return one_hot_elements(tensor, num_classes)


# -- dropout -------------------------------------------------------------------------------------------------
def _keep(x: TensorLike, p: float) -> Any:
    """What each element is multiplied by: zero with probability p, and otherwise what keeps the mean."""
    if p >= 1:
        return no_grad(ops.zeros_like, x)
    return no_grad(lambda: ops.div(ops.bernoulli(x, 1 - p), 1 - p))


def _apply_dropout(x: Any, p: float, training: bool, inplace: bool) -> Any:
    kind = type_of(x)
    if not training or p == 0 or kind.numel() == 0:
        return x
    if kind.dtype.category < 2:
        raise RuntimeError(
            f"result type Float can't be cast to the desired output type {kind.dtype.scalar_name}"
        )
    noise = _keep(x, p)
    return x.mul_(noise) if inplace else ops.mul(x, noise)


def _dropout_samples(make: Maker) -> Iterator[Sample]:
    yield Sample(make(2, 3), 0.5, False)
    yield Sample(make(2, 3), 1.0, True)


@composite("input: Tensor, p: float, train: bool", method=False, samples=_dropout_samples)
def dropout(x: TensorLike, p: float, train: bool) -> Any:
    """Zeroes elements with probability p and scales the others up."""
    if not 0 <= p <= 1:
        raise RuntimeError(f"dropout probability has to be between 0 and 1, but got {p}")
    return _apply_dropout(x, p, train, False)


@composite(
    "input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False", name="dropout",
    namespace="nn.functional", samples=_dropout_samples,
)  # fmt: skip
def _dropout_user(x: TensorLike, p: float, training: bool, inplace: bool) -> Any:
    """Zeroes elements with probability p while training and scales the others up."""
    if p < 0.0 or p > 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
    return _apply_dropout(x, p, training, inplace)


# -- attention -----------------------------------------------------------------------------------------------
def _check_attention(query: TensorType, key: TensorType, value: TensorType, mask: TensorType | None) -> None:
    kinds = (query.dtype, key.dtype, value.dtype)
    if len(set(kinds)) > 1:
        names = [kind.cpp_name for kind in kinds]
        raise RuntimeError(
            f"Expected query, key, and value to have the same dtype, but got query.dtype: {names[0]} "
            f"key.dtype: {names[1]} and "
            f"value.dtype: {names[2]} instead."
        )
    if min(query.ndim, key.ndim, value.ndim) < 2:
        raise RuntimeError(
            "Expected query, key, and value to all be  at least 2 dimensional, but got query.dim: "
            f"{query.ndim} key.dim: "
            f"{key.ndim} and value.dim: {value.ndim} instead."
        )
    if mask is not None and mask.dtype not in (bool_, float32, query.dtype):
        raise RuntimeError(
            "Expected attn_mask dtype to be bool or float or to match query dtype, but got attn_mask.dtype: "
            f"{mask.dtype.cpp_name} and  query.dtype: {query.dtype.cpp_name} instead."
        )
    if not query.dtype.is_floating_point and not query.dtype.is_complex:
        raise RuntimeError(f"expected scalar type Float but found {query.dtype.scalar_name}")


def _repeat_heads(x: TensorLike, heads: int) -> Any:
    """Each of the fewer heads as often as it takes to match the queries'."""
    have = type_of(x).shape[-3]
    if have == heads:
        return x
    if have == 0 or heads % have:
        raise RuntimeError("Number of heads in key and value must divide the number of heads in ")
    return ops.repeat_interleave(x, heads // have, -3)


def _safe_softmax(scores: TensorLike) -> Any:
    """Softmax along the last dimension, with zeros where everything is masked (also in the gradient)."""
    empty = no_grad(lambda: ops.all(ops.eq(scores, -math.inf), -1, True))
    return ops.masked_fill(softmax(ops.masked_fill(scores, empty, 0.0), -1), empty, 0.0)


def _attention_samples(make: Maker) -> Iterator[Sample]:
    yield Sample(make(2, 3, 4), make(2, 5, 4), make(2, 5, 2))
    yield Sample(make(2, 3, 4), make(2, 5, 4), make(2, 5, 2), make(3, 5), scale=0.3)
    yield Sample(make(2, 3, 4), make(2, 3, 4), make(2, 3, 4), is_causal=True)
    yield Sample(make(1, 4, 3, 2), make(1, 2, 5, 2), make(1, 2, 5, 2), enable_gqa=True)


@composite(
    "query: Tensor, key: Tensor, value: Tensor, attn_mask: MaybeTensor = None, dropout_p: float = 0.0, "
    "is_causal: bool = False, *, scale: Any = None, enable_gqa: bool = False",
    namespace="nn.functional", amp="lower", samples=_attention_samples,
)  # fmt: skip
def scaled_dot_product_attention(
    query: TensorLike, key: TensorLike, value: TensorLike, attn_mask: MaybeTensor, dropout_p: float,
    is_causal: bool, scale: float | None, enable_gqa: bool,
) -> Any:  # fmt: skip
    """Values weighted by the softmax of the products of queries and keys."""
    kind = type_of(query)
    mask = None if attn_mask is None else type_of(attn_mask)
    _check_attention(kind, type_of(key), type_of(value), mask)
    if is_causal and attn_mask is not None:
        raise RuntimeError(
            "_scaled_dot_product_attention: Explicit attn_mask should not be set when is_causal=True"
        )
    if enable_gqa and kind.ndim >= 3:
        key, value = _repeat_heads(key, kind.shape[-3]), _repeat_heads(value, kind.shape[-3])
    factor = 1.0 / math.sqrt(kind.shape[-1] or 1) if scale is None else scale
    if kind.dtype in HALVES:  # rounded once, at the end
        query, key, value = (ops._to_copy(x, float32) for x in (query, key, value))
    scores = ops.matmul(ops.mul(query, factor), ops.transpose(key, -2, -1))
    if is_causal:
        shape = type_of(scores).shape[-2:]
        allowed = no_grad(lambda: ops.tril(ops.new_ones(query, tuple(shape), dtype=bool_)))
        weights = softmax(ops.masked_fill(scores, ops.logical_not(allowed), -math.inf), -1)
    elif attn_mask is None:
        weights = softmax(scores, -1)
    elif mask is not None and mask.dtype is bool_:
        weights = _safe_softmax(ops.masked_fill(scores, ops.logical_not(attn_mask), -math.inf))
    else:
        weights = _safe_softmax(ops.add(scores, attn_mask))
    if dropout_p > 0.0 or dropout_p < 0.0:
        weights = dropout(weights, dropout_p, True)
    out = ops.matmul(weights, value)
    return ops._to_copy(out, kind.dtype) if kind.dtype in HALVES else out


def _canonical_mask(
    mask: MaybeTensor, name: str, other: MaybeTensor, other_name: str, kind: Any, check_other: bool = True
) -> Any:
    """A mask as numbers to add: minus infinity where a boolean mask says no."""
    if mask is None:
        return None
    have = type_of(mask).dtype
    if have is not bool_ and not have.is_floating_point:
        raise AssertionError(f"only bool and floating types of {name} are supported")
    if check_other and other is not None and type_of(other).dtype is not have:
        warn(f"Support for mismatched {name} and {other_name} is deprecated. Use same type for both instead.")
    if have is not bool_:
        return mask
    return no_grad(
        lambda: ops.masked_fill(ops.new_zeros(mask, type_of(mask).shape, dtype=kind), mask, -math.inf)
    )


def _check_heads(
    query: TensorLike, key: TensorLike, value: TensorLike, padding_mask: MaybeTensor, attn_mask: MaybeTensor,
    heads: int,
) -> bool:  # fmt: skip
    """Whether there is a batch; refuses ranks that do not belong together."""
    ranks = [len(type_of(x).shape) for x in (query, key, value)]
    if ranks[0] not in (2, 3):
        raise AssertionError(
            f"query should be unbatched 2D or batched 3D tensor but received {ranks[0]}-D query tensor"
        )
    batched = ranks[0] == 3
    word, rank = ("batched", 3) if batched else ("unbatched", 2)
    assert ranks[1] == rank and ranks[2] == rank, (
        f"For {word} ({rank}-D) `query`, expected `key` and `value` to be {rank}-D but found {ranks[1]}-D "
        f"and {ranks[2]}-D "
        "tensors respectively"
    )
    if padding_mask is not None:
        have = len(type_of(padding_mask).shape)
        assert have == rank - 1, (
            f"For {word} ({rank}-D) `query`, expected `key_padding_mask` to be `None` or {rank - 1}-D but "
            f"found {have}-D tensor "
            "instead"
        )
    if attn_mask is not None:
        shape = tuple(type_of(attn_mask).shape)
        assert len(shape) in (2, 3), (
            f"For {word} ({rank}-D) `query`, expected `attn_mask` to be `None`, 2-D or 3-D but found "
            f"{len(shape)}-D tensor "
            "instead"
        )
        if len(shape) == 3 and not batched:
            wanted = (heads, type_of(query).shape[0], type_of(key).shape[0])
            assert shape == wanted, f"Expected `attn_mask` shape to be {wanted} but got {shape}"
    return batched


def _project(
    query: TensorLike, key: TensorLike, value: TensorLike, packed: MaybeTensor, bias: MaybeTensor,
    separate: tuple[Any, Any, Any] | None,
) -> list[Any]:  # fmt: skip
    """Queries, keys and values through their input projections."""
    width = type_of(query).shape[-1]
    linear = ops.nn_functional_linear
    if separate is None:
        assert packed is not None, "use_separate_proj_weight is False but in_proj_weight is None"
        if query is key and key is value:
            parts = ops.split(linear(query, packed, bias), width, -1)
            return list(parts)
        weights = ops.split(packed, width, 0)
    else:
        for weight, letter in zip(separate, "qkv", strict=True):
            assert weight is not None, f"use_separate_proj_weight is True but {letter}_proj_weight is None"
        weights = separate
    biases = (None, None, None) if bias is None else ops.split(bias, width, 0)
    return [linear(x, w, b) for x, w, b in zip((query, key, value), weights, biases, strict=True)]


def _fit_mask(mask: MaybeTensor, batch: int, heads: int, target: int, source: int) -> Any:
    """An attention mask as `(1 or batch * heads, target, source)`."""
    if mask is None:
        return None
    shape = tuple(type_of(mask).shape)
    wanted = {2: (target, source), 3: (batch * heads, target, source)}.get(len(shape))
    if wanted is None:
        raise RuntimeError(f"attn_mask's dimension {len(shape)} is not supported")
    if shape != wanted:
        raise RuntimeError(
            f"The shape of the {len(shape)}D attn_mask is {Size(shape)!r}, but should be {wanted}."
        )
    return ops.unsqueeze(mask, 0) if len(shape) == 2 else mask


def _widen(*masks: MaybeTensor) -> list[Any]:
    """Masks with one more column, which is allowed."""
    return [None if mask is None else ops.nn_functional_pad(mask, (0, 1)) for mask in masks]


def _split_heads(x: TensorLike, rows: int, heads: int) -> Any:
    """`(length, batch, heads * width)` as `(batch * heads, length, width)`."""
    shape = type_of(x).shape
    return ops.transpose(ops.reshape(x, (shape[0], rows, math.prod(shape[1:]) // rows)), 0, 1)


def _static(x: TensorLike, name: str, rows: int, width: int) -> Any:
    shape = type_of(x).shape
    assert shape[0] == rows, f"expecting {name}.size(0) of {rows}, but got {shape[0]}"
    assert shape[2] == width, f"expecting {name}.size(2) of {width}, but got {shape[2]}"
    return x


MULTI_HEAD = (
    "query: Tensor, key: Tensor, value: Tensor, embed_dim_to_check: int, num_heads: int, in_proj_weight: "
    "MaybeTensor, "
    "in_proj_bias: MaybeTensor, bias_k: MaybeTensor, bias_v: MaybeTensor, add_zero_attn: bool, dropout_p: "
    "float, "
    "out_proj_weight: Tensor, out_proj_bias: MaybeTensor, training: bool = True, key_padding_mask: "
    "MaybeTensor = None, "
    "need_weights: bool = True, attn_mask: MaybeTensor = None, use_separate_proj_weight: bool = False, "
    "q_proj_weight: MaybeTensor = None, k_proj_weight: MaybeTensor = None, v_proj_weight: MaybeTensor = "
    "None, "
    "static_k: MaybeTensor = None, static_v: MaybeTensor = None, average_attn_weights: bool = True, "
    "is_causal: bool = False"
)


def _multi_head_samples(make: Maker) -> Iterator[Sample]:
    x, packed, out = make(3, 2, 4), make(12, 4), make(4, 4)
    yield Sample(x, x, x, 4, 2, packed, make(12), None, None, False, 0.0, out, make(4))
    yield Sample(
        x, make(5, 2, 4), make(5, 2, 4), 4, 2, packed, None, make(1, 1, 4), make(1, 1, 4), True, 0.0, out,
        None, attn_mask=make(3, 5), average_attn_weights=False,
    )  # fmt: skip


@composite(MULTI_HEAD, namespace="nn.functional", amp="lower", samples=_multi_head_samples)
def multi_head_attention_forward(
    query: TensorLike, key: TensorLike, value: TensorLike, embed_dim_to_check: int, num_heads: int,
    in_proj_weight: MaybeTensor, in_proj_bias: MaybeTensor, bias_k: MaybeTensor, bias_v: MaybeTensor,
    add_zero_attn: bool, dropout_p: float, out_proj_weight: TensorLike, out_proj_bias: MaybeTensor,
    training: bool, key_padding_mask: MaybeTensor, need_weights: bool, attn_mask: MaybeTensor,
    use_separate_proj_weight: bool, q_proj_weight: MaybeTensor, k_proj_weight: MaybeTensor,
    v_proj_weight: MaybeTensor, static_k: MaybeTensor, static_v: MaybeTensor, average_attn_weights: bool,
    is_causal: bool,
) -> Any:  # fmt: skip
    """Attention with several heads: projections in, attention per head, projection out; gives (output,
    weights)."""
    batched = _check_heads(query, key, value, key_padding_mask, attn_mask, num_heads)
    if not batched:
        same = query is key, key is value
        query = ops.unsqueeze(query, 1)
        key = query if same[0] else ops.unsqueeze(key, 1)
        value = key if same[1] else ops.unsqueeze(value, 1)
        key_padding_mask = None if key_padding_mask is None else ops.unsqueeze(key_padding_mask, 0)
    target, batch, width = type_of(query).shape
    source, kind = type_of(key).shape[0], type_of(query).dtype
    padding = _canonical_mask(key_padding_mask, "key_padding_mask", attn_mask, "attn_mask", kind)
    if is_causal and attn_mask is None:
        raise RuntimeError("Need attn_mask if specifying the is_causal hint.")
    if is_causal and padding is None and not need_weights:
        attn_mask = None
    else:
        attn_mask = _canonical_mask(attn_mask, "attn_mask", None, "", kind, check_other=False)
        is_causal = is_causal and padding is None
    _check_widths(query, key, value, embed_dim_to_check, num_heads, use_separate_proj_weight)
    separate = (q_proj_weight, k_proj_weight, v_proj_weight) if use_separate_proj_weight else None
    q, k, v = _project(query, key, value, in_proj_weight, in_proj_bias, separate)
    attn_mask = _fit_mask(attn_mask, batch, num_heads, target, source)
    if bias_k is not None and bias_v is not None:
        assert static_k is None, "bias cannot be added to static key."
        assert static_v is None, "bias cannot be added to static value."
        k = ops.cat([k, ops.repeat(bias_k, (1, batch, 1))], 0)
        v = ops.cat([v, ops.repeat(bias_v, (1, batch, 1))], 0)
        attn_mask, padding = _widen(attn_mask, padding)
    else:
        assert bias_k is None
        assert bias_v is None
    rows, head = batch * num_heads, width // num_heads
    q = _split_heads(q, rows, num_heads)
    k = _split_heads(k, rows, num_heads) if static_k is None else _static(static_k, "static_k", rows, head)
    v = _split_heads(v, rows, num_heads) if static_v is None else _static(static_v, "static_v", rows, head)
    if add_zero_attn:
        k = ops.cat([k, ops.new_zeros(k, (rows, 1, head))], 1)
        v = ops.cat([v, ops.new_zeros(v, (rows, 1, head))], 1)
        attn_mask, padding = _widen(attn_mask, padding)
    attn_mask = _merge_masks(attn_mask, padding, batch, num_heads, type_of(k).shape[1])
    rate = dropout_p if training else 0.0
    if need_weights:
        assert not (is_causal and attn_mask is None), "FIXME: is_causal not implemented for need_weights"
        mixed, weights = _weighted_values(q, k, v, attn_mask, rate)
    else:
        mixed, weights = _fused_values(q, k, v, attn_mask, rate, is_causal, batch, num_heads), None
    joined = ops.reshape(ops.transpose(mixed, 0, 1), (target * batch, width))
    out = ops.nn_functional_linear(joined, out_proj_weight, out_proj_bias)
    out = ops.reshape(out, (target, batch, type_of(out).shape[1]))
    if weights is not None:
        weights = ops.reshape(weights, (batch, num_heads, target, type_of(k).shape[1]))
        weights = ops.mean(weights, 1) if average_attn_weights else weights
    if batched:
        return out, weights
    return ops.squeeze(out, 1), None if weights is None else ops.squeeze(weights, 0)


def _check_widths(
    query: TensorLike, key: TensorLike, value: TensorLike, expected: int, heads: int, separate: bool
) -> None:
    width = type_of(query).shape[-1]
    keys, values = Size(type_of(key).shape), Size(type_of(value).shape)
    assert width == expected, f"was expecting embedding dimension of {expected}, but got {width}"
    assert width // heads * heads == width, f"embed_dim {width} not divisible by num_heads {heads}"
    if separate:
        assert keys[:2] == values[:2], (
            f"key's sequence and batch dims {keys[:2]} do not match value's {values[:2]}"
        )
    else:
        assert keys == values, f"key shape {keys} does not match value shape {values}"


def _merge_masks(attn_mask: MaybeTensor, padding: MaybeTensor, batch: int, heads: int, source: int) -> Any:
    """Both masks as one to add to `(batch * heads, target, source)`."""
    if padding is None:
        return attn_mask
    have = tuple(type_of(padding).shape)
    assert have == (batch, source), (
        f"expecting key_padding_mask shape of {(batch, source)}, but got {Size(have)}"
    )
    padding = ops.expand(ops.reshape(padding, (batch, 1, 1, source)), (batch, heads, 1, source))
    padding = ops.reshape(padding, (batch * heads, 1, source))
    return padding if attn_mask is None else ops.add(attn_mask, padding)


def _weighted_values(
    q: TensorLike, k: TensorLike, v: TensorLike, mask: MaybeTensor, rate: float
) -> tuple[Any, Any]:
    """Attention that also gives its weights."""
    scaled = ops.mul(q, math.sqrt(1.0 / type_of(q).shape[-1]))
    scores = ops.bmm(scaled, ops.transpose(k, -2, -1))
    weights = softmax(scores if mask is None else ops.add(mask, scores), -1)
    weights = dropout(weights, rate, True) if rate > 0.0 else weights
    return ops.bmm(weights, v), weights


def _fused_values(
    q: TensorLike, k: TensorLike, v: TensorLike, mask: MaybeTensor, rate: float, causal: bool, batch: int,
    heads: int,
) -> Any:  # fmt: skip
    def by_head(x: TensorLike) -> Any:
        return ops.reshape(x, (batch, heads, *type_of(x).shape[1:]))

    if mask is not None:
        mask = ops.unsqueeze(mask, 0) if type_of(mask).shape[0] == 1 else by_head(mask)
    out = scaled_dot_product_attention(by_head(q), by_head(k), by_head(v), mask, rate, causal)
    return ops.reshape(out, (batch * heads, *type_of(out).shape[2:]))
