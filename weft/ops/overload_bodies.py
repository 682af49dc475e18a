"""Bodies: records that PyTorch's dispatcher never sees, in terms of those that it does.

Takes the arguments of such a record, calls others. One idea: what is one step here for speed (`linear`,
`matmul` of any rank, a key of several parts) is several operators for whoever watches them.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any, Final

from weft.ops.record import Op, broadcast_shapes, ops


def _matmul(input: Any, other: Any) -> Any:
    ranks = input.ndim, other.ndim
    if ranks == (1, 1):
        return ops.dot(input, other)
    if ranks == (2, 1):
        return ops.mv(input, other)
    if ranks == (2, 2):
        return ops.mm(input, other)
    if ranks == (1, 2):
        return ops.squeeze(ops.mm(ops.unsqueeze(input, 0), other), 0)
    if 0 in ranks or input.shape[-1] != other.shape[-2 if ranks[1] > 1 else -1]:
        return NotImplemented
    if ranks[1] == 1:
        flat = ops.mv(ops.reshape(input, (-1, input.shape[-1])), other)
        return ops.reshape(flat, input.shape[:-1])
    if ranks[1] == 2:
        flat = ops.mm(ops.reshape(input, (prod(input.shape[:-1]), input.shape[-1])), other)
        return ops.view(flat, (*input.shape[:-1], other.shape[-1]))
    return _batched(ops.unsqueeze(input, 0) if ranks[0] == 1 else input, other, ranks[0] == 1)


def _batched(input: Any, other: Any, is_row: bool) -> Any:
    shape = broadcast_shapes(tuple(input.shape[:-2]), tuple(other.shape[:-2]))
    parts = []
    for each in (input, other):
        whole = (*shape, *each.shape[-2:])
        wide = each if tuple(each.shape) == whole else ops.expand(each, whole)
        parts.append(ops.reshape(wide, (prod(shape), *each.shape[-2:])))
    result = ops.view(ops.bmm(*parts), (*shape, input.shape[-2], other.shape[-1]))
    return ops.squeeze(result, -2) if is_row else result


def _linear(input: Any, weight: Any, bias: Any) -> Any:
    if weight.ndim != 2 or input.ndim < 1 or input.shape[-1] != weight.shape[1]:
        return NotImplemented
    turned = ops.t(weight)
    if bias is None or bias.ndim != 1:
        product = _matmul(input, turned)
        return product if bias is None else ops.add(product, bias)
    if input.ndim == 2:
        return ops.addmm(bias, input, turned)
    if input.ndim == 1:
        return ops.add(_matmul(input, turned), bias)
    flat = ops.addmm(bias, ops.reshape(input, (prod(input.shape[:-1]), input.shape[-1])), turned)
    return ops.view(flat, (*input.shape[:-1], weight.shape[0]))


def _by_parts(input: Any, key: tuple[Any, ...]) -> Any:
    """A key of ints, slices, None and Ellipsis, one operator for each part that does something."""
    place, found = 0, input
    left = sum(part is not None and part is not ... for part in key)
    for part in key:
        if part is None:
            found = ops.unsqueeze(found, place)
            place += 1
        elif part is ...:
            place += input.ndim - left
        elif isinstance(part, slice):
            if part.start is not None or part.stop is not None or part.step is not None:
                start, stop, step = part.start, part.stop, 1 if part.step is None else part.step
                found = ops.slice(found, place, start, stop, step)
            place += 1
        else:
            found = ops.select(found, place, part)
    return ops.alias(input) if found is input else found


def _softmax_in(op: Op) -> Callable[..., Any]:
    def body(input: Any, dim: int, dtype: Any) -> Any:
        if dtype is None or dtype is input.dtype:
            return NotImplemented
        return op(ops._to_copy(input, dtype), dim)

    return body


BODIES: Final[dict[str, Callable[..., Any]]] = {
    "matmul": _matmul,
    "nn.functional.linear": _linear,
    **dict.fromkeys(("basic_select", "basic_slice", "basic_unsqueeze", "basic_alias"), _by_parts),
    "softmax": _softmax_in(ops.softmax),
    "log_softmax": _softmax_in(ops.log_softmax),
}
"""By qualified name; what gives NotImplemented is one operator for these arguments."""
