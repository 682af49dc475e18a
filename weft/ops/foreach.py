"""Foreach: one call for a list of tensors, as optimizers do (`_foreach_add_(params, grads, alpha=-lr)`).

Takes lists; gives a tuple of results, or for the forms that end in `_` writes to the first list's tensors and
gives that list back. One idea: each is the plain op, tensor by tensor, so promotion, gradients and in-place
rules are the plain op's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from weft.ops.families import composite
from weft.ops.record import Op, ops, type_of
from weft.ops.values import DType, TensorLike

UNARY = (
    "abs", "acos", "asin", "atan", "ceil", "cos", "cosh", "erf", "erfc", "exp", "expm1", "floor", "frac",
    "lgamma", "log", "log10", "log1p", "log2", "neg", "reciprocal", "round", "rsqrt", "sigmoid", "sign",
    "sin", "sinh", "sqrt", "tan", "tanh", "trunc",
)  # fmt: skip


WRITERS = {"maximum": "clamp_min", "minimum": "clamp_max"}
"""Ops without a method that writes, and one that does the same."""


def check_list(tensors: Sequence[Any]) -> None:
    if not len(tensors):
        raise RuntimeError("Tensor list must have at least one tensor.")


def check_lengths(tensors: Sequence[Any], other: Sequence[Any]) -> None:
    if len(tensors) != len(other):
        raise RuntimeError(
            f"Tensor lists must have the same number of tensors, got {len(tensors)} and {len(other)}"
        )


def is_number(value: object) -> bool:
    return isinstance(value, (bool, int, float, complex))


def operands(name: str, tensors: Sequence[Any], other: Any) -> Sequence[Any]:
    """The second operand of each tensor: a list's items, or one number or zero-dim tensor for all."""
    check_list(tensors)
    if isinstance(other, (tuple, list)):
        if other and is_number(other[0]):
            if len(other) != len(tensors):
                raise RuntimeError("Tensor list must have same number of elements as scalar list.")
        else:
            check_lengths(tensors, other)
        return other
    if hasattr(other, "shape"):
        kind = type_of(other)
        if kind.ndim:
            raise RuntimeError(
                f"scalar tensor expected to be 0 dim but it has {kind.ndim} dimensions and {kind.numel()} "
                "elements."
            )
    elif not is_number(other):
        raise TypeError(
            f"_foreach_{name}() received an invalid combination of arguments - got (list, "
            f"{type(other).__name__})"
        )
    return (other,) * len(tensors)


def scales(tensors: Sequence[Any], value: Any) -> Sequence[Any]:
    """The scalar of each tensor in addcmul and addcdiv: one number, a list of them or a tensor of them."""
    if isinstance(value, (tuple, list)):
        if len(value) != len(tensors):
            raise RuntimeError("Tensor list must have same number of elements as scalar list.")
        return value
    if hasattr(value, "shape"):
        kind = type_of(value)
        if kind.ndim != 1:
            raise RuntimeError(
                f"Expected packed scalar Tensor to be of dimension 1. Got {kind.ndim} instead."
            )
        if kind.shape[0] != len(tensors):
            raise RuntimeError(
                f"Expected length of scalars to match input of length {len(tensors)} "
                f"but got {kind.shape[0]} instead."
            )
        listed: list[Any] = value.tolist()
        return listed
    return (value,) * len(tensors)


def _pair(
    name: str, signature: str, each: Callable[..., Any], *, plain: bool = True, inplace: bool = True
) -> None:
    """Defines `_foreach_<name>` and `_foreach_<name>_`. `each(call, *args)` calls `call` for every tensor: a
    plain op, or the in-place method of the tensor it is given."""

    method = f"{WRITERS.get(name, name)}_"

    def functional(*args: Any) -> Any:
        return tuple(each(getattr(ops, name), *args))

    def written(*args: Any) -> Any:
        each(lambda tensor, *rest, **options: getattr(tensor, method)(*rest, **options), *args)
        return args[0]

    if plain:
        _define(f"_foreach_{name}", signature, functional)
    if inplace:
        _define(f"_foreach_{name}_", signature, written)


def _define(name: str, signature: str, body: Callable[..., Any]) -> Op:
    return composite(signature, name=name, method=False)(body)


def _each_unary(call: Callable[..., Any], tensors: Sequence[Any]) -> list[Any]:
    check_list(tensors)
    return [call(tensor) for tensor in tensors]


for _name in UNARY:
    _pair(_name, "self: Tensors", _each_unary)
_pair("zero", "self: Tensors", _each_unary, plain=False)


# -- two operands ------------------------------------------------------------------------------------------
def _each_binary(name: str, scaled: bool) -> Callable[..., list[Any]]:
    def each(
        call: Callable[..., Any],
        tensors: Sequence[Any],
        other: Any,
        scalar: Any,
        scalars: Any,
        alpha: Any = 1,
    ) -> list[Any]:
        given = next((value for value in (other, scalar, scalars) if value is not None), None)
        pairs = zip(tensors, operands(name, tensors, given), strict=True)
        if scaled and alpha != 1:
            if is_number(given):
                raise TypeError(
                    f"_foreach_{name}() received an invalid combination of arguments - alpha with a number"
                )
            return [call(tensor, value, alpha=alpha) for tensor, value in pairs]
        if name in WRITERS and getattr(call, "name", None) == name:  # maximum takes tensors only
            return [(getattr(ops, WRITERS[name]) if is_number(v) else call)(t, v) for t, v in pairs]
        return [call(tensor, value) for tensor, value in pairs]

    return each


BINARY = "self: Tensors, other: Any = None, *, scalar: Any = None, scalars: Any = None"
for _name in ("add", "sub"):
    _pair(_name, BINARY + ", alpha: Number = 1", _each_binary(_name, True))
for _name in ("mul", "div", "maximum", "minimum", "clamp_min", "clamp_max"):
    _pair(_name, BINARY, _each_binary(_name, False))


def _each_power(call: Callable[..., Any], base: Any, exponent: Any) -> list[Any]:
    pairs = zip(base, operands("pow", base, exponent), strict=True)
    return [call(tensor, value) for tensor, value in pairs]


def _foreach_pow(base: Any, exponent: Any) -> Any:
    if is_number(base) or getattr(base, "ndim", None) == 0:
        check_list(exponent)
        return tuple(ops.pow(base, value) for value in exponent)
    return tuple(_each_power(ops.pow, base, exponent))


_define("_foreach_pow", "self: Any, exponent: Any", _foreach_pow)
_pair("pow", "self: Tensors, exponent: Any", _each_power, plain=False)


def _foreach_copy_(tensors: Sequence[Any], sources: Sequence[TensorLike], non_blocking: bool) -> Any:
    check_list(tensors)
    check_lengths(tensors, sources)
    for tensor, source in zip(tensors, sources, strict=True):
        tensor.copy_(source, non_blocking)
    return tensors


_define("_foreach_copy_", "self: Tensors, src: Tensors, non_blocking: bool = False", _foreach_copy_)


# -- three operands ----------------------------------------------------------------------------------------
def _each_ternary(
    call: Callable[..., Any], tensors: Any, first: Any, second: Any, value: Any, scalars: Any
) -> list[Any]:
    check_list(tensors)
    check_lengths(tensors, first)
    check_lengths(tensors, second)
    each = scales(tensors, value if scalars is None else scalars)
    return [call(t, a, b, value=v) for t, a, b, v in zip(tensors, first, second, each, strict=True)]


for _name in ("addcmul", "addcdiv"):
    _signature = "self: Tensors, tensor1: Tensors, tensor2: Tensors, value: Any = 1, *, scalars: Any = None"
    _pair(_name, _signature, _each_ternary)


def _each_lerp(call: Callable[..., Any], tensors: Any, ends: Any, weight: Any, weights: Any) -> list[Any]:
    check_list(tensors)
    check_lengths(tensors, ends)
    each = operands("lerp", tensors, weight if weights is None else weights)
    return [call(t, end, w) for t, end, w in zip(tensors, ends, each, strict=True)]


_pair("lerp", "self: Tensors, tensors1: Tensors, weight: Any = None, *, weights: Any = None", _each_lerp)


# -- folds -------------------------------------------------------------------------------------------------
def _foreach_norm(tensors: Sequence[TensorLike], ord: Any, dtype: DType) -> Any:
    check_list(tensors)
    return tuple(ops.norm(tensor, ord, dtype=dtype) for tensor in tensors)


def _foreach_max(tensors: Sequence[TensorLike]) -> Any:
    check_list(tensors)
    if any(not type_of(tensor).numel() for tensor in tensors):
        raise RuntimeError(
            "_foreach_max cannot compute the maximum of an empty tensor; max over zero elements is undefined."
        )
    return tuple(ops.max(tensor) for tensor in tensors)


_define("_foreach_norm", "self: Tensors, ord: Any = 2, dtype: DType = None", _foreach_norm)
_define("_foreach_max", "self: Tensors", _foreach_max)
_define(
    "_foreach_clone", "self: Tensors, *, memory_format: Any = None",
    lambda tensors, memory_format: tuple(ops.clone(t, memory_format=memory_format) for t in tensors),
)  # fmt: skip
