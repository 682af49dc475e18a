"""Forms: how PyTorch's dispatcher spells a call of a record: the operator, the overload, the arguments.

Takes a record and all its arguments in order; gives the operator's name under `aten`, the overload's, and
arguments as `__torch_dispatch__` is handed them; and back. One idea: records are spelled by rule (the last
part of their name, `default`, defaults left out, sizes as lists); only what PyTorch spells otherwise has a
line here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from weft.core.records import record
from weft.ops.record import REGISTRY, Op

SIMPLE: Final = (type(None), bool, int, float, str)
Arguments = tuple[tuple[Any, ...], dict[str, Any]]


@record(frozen=True, slots=True)
class OperatorForm:
    """How the arguments of one record are spelled: out of its own order, and into it."""

    spelled: Callable[..., Arguments]
    bound: Callable[..., tuple[Any, ...]]


RENAMED: Final = {
    "softmax": "_softmax", "log_softmax": "_log_softmax", "softmax_backward": "_softmax_backward_data",
    "log_softmax_backward": "_log_softmax_backward_data", "_where": "where", "_index_put": "index_put",
    "_var": "var", "_std": "std", "_var_mean": "var_mean", "_std_mean": "std_mean",
    "_as_strided": "as_strided",  "nn.functional.logsigmoid": "log_sigmoid",
    "nn.functional.unfold": "im2col", "nn.functional.fold": "col2im",
}  # fmt: skip
"""Records whose operator has a name that no rule gives."""
_BY_OPERAND: Final = {
    **dict.fromkeys(("eq", "ne", "lt", "le", "gt", "ge", "remainder", "fmod", "rsub", "xlogy"), 1),
    **dict.fromkeys(("bitwise_and", "bitwise_or", "bitwise_xor", "fill", "isin", "float_power"), 1),
    **dict.fromkeys(("bitwise_left_shift", "bitwise_right_shift"), 1),
    "lerp": 2, "masked_fill": 2,
}  # fmt: skip
"""Records with overloads `Tensor` and `Scalar`, by what this argument is."""
_FIXED: Final = {
    **dict.fromkeys(("add", "sub", "mul", "div", "slice", "index"), "Tensor"),
    **dict.fromkeys(("transpose", "select", "unbind"), "int"),
    **dict.fromkeys(("_var", "_std", "_var_mean", "_std_mean"), "correction"),
    "_where": "self", "empty": "memory_format", "split": "Tensor",
}  # fmt: skip
_BY_DIM: Final = {
    "sum": "dim_IntList", "mean": "dim", "prod": "dim_int", "any": "dim", "all": "dim", "squeeze": "dim",
    "max": "dim", "min": "dim", "median": "dim", "nanmedian": "dim",
}  # fmt: skip
"""Records with an overload of this name where the second argument is given."""


def is_tensor(value: object) -> bool:
    """Whether an argument is a tensor and no number."""
    return hasattr(value, "array")


def is_default(value: object, default: object) -> bool:
    """Whether an argument is what it would be if it were left out."""
    same = type(value) is type(default) and isinstance(value, SIMPLE) and value == default
    return value is default or bool(same)


def overload_of(op: Op, bound: tuple[Any, ...]) -> str:
    """The overload that a call with these arguments means."""
    name = op.name
    if name in _BY_OPERAND:
        return "Tensor" if is_tensor(bound[_BY_OPERAND[name]]) else "Scalar"
    if name == "pow":
        words = ["Tensor" if is_tensor(value) else "Scalar" for value in bound[:2]]
        return words[0] if words == ["Scalar", "Tensor"] else "_".join(words)
    if name == "div" and bound[2] is not None:
        return "Tensor_mode"
    if name in _BY_DIM and bound[1] is not None and bound[1] != ():
        many = type(bound[1]) is tuple or type(bound[1]) is list
        return "dims" if many and name in ("any", "all", "squeeze") else _BY_DIM[name]
    if name in ("clamp", "clamp_min", "clamp_max") and any(is_tensor(v) for v in bound[1:]):
        return "Tensor"
    if name in ("scatter", "arange", "eye", "randint", "normal"):
        return _further(name, bound)
    if name == "view" and len(bound[1]) == 1 and not isinstance(bound[1][0], int):
        return "dtype"
    return _FIXED.get(name, "default")


def _further(name: str, bound: tuple[Any, ...]) -> str:
    if name == "scatter":
        return "src" if is_tensor(bound[3]) else "value"
    if name == "arange":
        if bound[1] is None:
            return "default"
        return "start" if bound[2] == 1 else "start_step"
    if name == "eye":
        return "default" if bound[1] is None else "m"
    if name == "normal":
        words = ["Tensor" if is_tensor(value) else "float" for value in bound[:2]]
        return "_".join(words)
    return "low" if bound[1] is not None else "default"


# -- arguments -----------------------------------------------------------------------------------------------
def _listed(value: Any) -> Any:
    return list(value) if type(value) is tuple else value


def by_rule(op: Op, bound: tuple[Any, ...]) -> Arguments:
    """The arguments in the record's order: defaults left out at the end, sizes as lists."""
    positional: list[Any] = []
    keywords: dict[str, Any] = {}
    pending: list[Any] = []
    for parameter, value in zip(op.signature.parameters, bound, strict=True):
        if parameter.keyword_only:
            if not is_default(value, parameter.default):
                keywords[parameter.name] = _listed(value)
        elif not parameter.variadic and is_default(value, parameter.default):
            pending.append(_listed(value))
        else:
            positional += [*pending, _listed(value)]
            pending = []
    return tuple(positional), keywords


def into_order(op: Op, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """All arguments of the record, defaults filled in; PyTorch calls the first one `self`."""
    names = op.signature.names
    given = dict(kwargs)
    if "self" in given and names and names[0] not in given:
        given[names[0]] = given.pop("self")
    if "from" in given:
        given["from_"] = given.pop("from")
    given = {name: value for name, value in given.items() if name in names or name not in _IGNORED}
    bound = list(op.signature.bind(args, given))
    for slot, parameter in enumerate(op.signature.parameters):
        if type(bound[slot]) is list and parameter.annotation != "Tensors":
            bound[slot] = tuple(bound[slot])
        elif parameter.variadic and not isinstance(bound[slot], (tuple, list)):
            bound[slot] = (bound[slot],)
    return tuple(bound)


_IGNORED: Final = frozenset({"pin_memory", "layout", "non_blocking", "implicit"})
"""Arguments that PyTorch hands to operators whose records have no use for them."""


def _spelled_softmax(input: Any, dim: int, dtype: Any) -> Arguments:
    return (input, dim, False), {}


def _spelled_index(input: Any, indices: Any, dims: Any) -> Arguments:
    places: list[Any] = [None] * (max(dims) + 1)
    for place, item in zip(dims, indices):
        places[place] = item
    return (input, places), {}


def _bound_index(self: Any, indices: Any) -> tuple[Any, ...]:
    dims = tuple(place for place, item in enumerate(indices) if item is not None)
    return self, [item for item in indices if item is not None], dims


def _spelled_put(input: Any, values: Any, indices: Any, dims: Any, accumulate: bool) -> Arguments:
    (_, places), _ = _spelled_index(input, indices, dims)
    return (input, places, values, *((True,) if accumulate else ())), {}


def _bound_put(self: Any, indices: Any, values: Any, accumulate: bool = False, **_more: Any) -> Any:
    _, items, dims = _bound_index(self, indices)
    return self, values, items, dims, accumulate


def _spelled_copy(input: Any, dtype: Any, memory_format: Any) -> Arguments:
    more = {} if memory_format is None else {"memory_format": memory_format}
    return (input,), {"dtype": dtype, **more}


def _bound_copy(self: Any, *, dtype: Any = None, memory_format: Any = None, **_more: Any) -> Any:
    return self, self.dtype if dtype is None else dtype, memory_format


def _spelled_spread(input: Any, dim: Any, correction: float, keepdim: bool) -> Arguments:
    kwargs: dict[str, Any] = {} if correction == 1 else {"correction": correction}
    return (input, *((_listed(dim),) if dim is not None or kwargs or keepdim else ())), (
        kwargs | ({"keepdim": True} if keepdim else {})
    )


def _bound_spread(self: Any, dim: Any = None, *, correction: Any = None, keepdim: bool = False) -> Any:
    dims = tuple(dim) if type(dim) is list else dim
    return self, dims, 1 if correction is None else correction, keepdim


FORMS: Final = {
    "softmax": OperatorForm(_spelled_softmax, lambda self, dim, half_to_float=False: (self, dim, None)),
    "log_softmax": OperatorForm(_spelled_softmax, lambda self, dim, half_to_float=False: (self, dim, None)),
    "index": OperatorForm(_spelled_index, _bound_index),
    "_index_put": OperatorForm(_spelled_put, _bound_put),
    "_to_copy": OperatorForm(_spelled_copy, _bound_copy),
    "method.polygamma": OperatorForm(lambda input, n: ((n, input), {}), lambda n, self: (self, n)),
    **dict.fromkeys(("_var", "_std", "_var_mean", "_std_mean"), OperatorForm(_spelled_spread, _bound_spread)),
}
"""Records whose operators take other arguments than they."""


def spelled(op: Op, bound: tuple[Any, ...]) -> Arguments:
    """The arguments as PyTorch's operator takes them."""
    form = FORMS.get(op.qualified_name)
    return by_rule(op, bound) if form is None else form.spelled(*bound)


def bound_of(op: Op, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """The record's arguments for those of PyTorch's operator."""
    form = FORMS.get(op.qualified_name)
    return into_order(op, args, kwargs) if form is None else form.bound(*args, **kwargs)


# -- names ---------------------------------------------------------------------------------------------------
_SPACES: Final = {
    "linalg": "linalg_", "special": "special_", "fft": "fft_", "signal.windows": "signal_windows_",
    "masked": "masked_",
}  # fmt: skip
_KEPT: Final = {name: qualified for qualified, name in RENAMED.items()}


def operator_name(op: Op) -> str:
    """What the operator of a record is called under `aten`."""
    known = RENAMED.get(op.qualified_name)
    if known is not None:
        return known
    return _SPACES.get(op.namespace, "") + op.name


def record_named(name: str) -> Op | None:
    """The record whose operator has this name."""
    for candidate in (_KEPT.get(name, ""), name, f"nn.functional.{name}"):
        if candidate in REGISTRY:
            return REGISTRY[candidate]
    for space, prefix in _SPACES.items():
        found = REGISTRY.get(f"{space}.{name.removeprefix(prefix)}") if name.startswith(prefix) else None
        if found is not None:
            return found
    return next((op for op in REGISTRY.values() if name in op.aliases), None)
