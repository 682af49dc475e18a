"""What operators give: the types of their results.

Takes an operator's name and the types of its arguments; gives the type of its result. One idea: nearly every
operator on tensors gives a tensor, so only the others stand in tables.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from weft.jit.types import (
    ANY,
    BOOL,
    COMPLEX,
    DTYPE,
    FLOAT,
    INT,
    INTS,
    NONE,
    NUMBER,
    STR,
    TENSOR,
    TENSORS,
    DictType,
    ListType,
    OptionalType,
    TupleType,
    Type,
    optional,
    subtype,
    unify,
)  # fmt: skip

PAIR = TupleType((TENSOR, TENSOR))
TRIPLE = TupleType((TENSOR, TENSOR, TENSOR))
Given = list[Type]
Words = dict[str, Type]


def named(fields: str, *kinds: Type) -> TupleType:
    names = fields.split()
    return TupleType(kinds or [TENSOR] * len(names), None, names)


VALUES = named("values indices")
_INT = "dim ndimension numel nelement element_size get_device storage_offset initial_seed".split()  # noqa: SIM905
_BOOL = [
    "is_floating_point",
    "is_complex",
    "is_contiguous",
    "is_signed",
    "is_same_size",
    "equal",
    "allclose",
    "is_nonzero",
    "can_cast",
    "is_grad_enabled",
    "is_tensor",
    "is_inference",
    "is_neg",
    "is_conj",
    "is_pinned",
    "is_set_to",
    "is_coalesced",
    "is_storage",
    "is_inference_mode_enabled",
    "is_autocast_enabled",
    "is_distributed",
    "is_shared",
]
_LISTS = [
    "chunk",
    "split",
    "split_with_sizes",
    "unbind",
    "tensor_split",
    "hsplit",
    "vsplit",
    "dsplit",
    "broadcast_tensors",
    "meshgrid",
    "unsafe_chunk",
    "unsafe_split",
    "unsafe_split_with_sizes",
    "align_tensors",
    "nonzero_numpy",
    "unflatten_dense_tensors",
]
_PAIRS = [
    "frexp",
    "slogdet",
    "linalg_slogdet",
    "linalg_qr",
    "linalg_eigh",
    "linalg_eig",
    "linalg_cholesky_ex",
    "linalg_inv_ex",
    "geqrf",
    "var_mean",
    "std_mean",
    "lstm_cell",
    "max_pool1d_with_indices",
    "max_pool2d_with_indices",
    "max_pool3d_with_indices",
    "adaptive_max_pool1d_with_indices",
    "adaptive_max_pool2d_with_indices",
    "fractional_max_pool2d_with_indices",
    "log_sigmoid_forward",
    "multi_head_attention_forward",
    "qr",
    "gru",
    "rnn_tanh",
    "rnn_relu",
    "symeig",
    "eig",
    "triangular_solve",
]
RESULTS: dict[str, Type] = {
    **dict.fromkeys(_INT, INT), **dict.fromkeys(_BOOL, BOOL), **dict.fromkeys(_LISTS, TENSORS),
    **dict.fromkeys(_PAIRS, PAIR),
    "item": NUMBER, "promote_types": DTYPE, "result_type": DTYPE, "get_default_dtype": DTYPE,
    "sort": VALUES, "topk": VALUES, "kthvalue": VALUES, "mode": VALUES, "cummax": VALUES, "cummin": VALUES,
    "aminmax": named("min max"), "svd": named("U S V"), "linalg_svd": named("U S Vh"),
    "linalg_lu": named("P L U"), "lstm": TRIPLE, "linalg_lu_factor": named("LU pivots"),
    "linalg_lstsq": named("solution residuals rank singular_values"),
    "backward": NONE, "manual_seed": NONE, "set_grad_enabled": NONE, "_assert": NONE,
}  # fmt: skip


def _extreme(given: Given, words: Words) -> Type:
    by_dim = "dim" in words or (len(given) > 1 and given[1] != TENSOR)
    return VALUES if by_dim else TENSOR


def _unique(given: Given, words: Words) -> Type:
    return TENSOR


def _size(given: Given, words: Words) -> Type:
    return INT if len(given) > 1 or words else INTS


def _where(given: Given, words: Words) -> Type:
    return TENSORS if len(given) == 1 and not words else TENSOR


def _same(given: Given, words: Words) -> Type:
    return TENSORS if given and isinstance(given[0], ListType) else TENSOR


BY_ARGUMENTS: dict[str, Callable[[Given, Words], Type]] = {
    "max": _extreme, "min": _extreme, "median": _extreme, "nanmedian": _extreme, "size": _size,
    "stride": _size, "where": _where, "unique": _unique, "atleast_1d": _same, "atleast_2d": _same,
    "atleast_3d": _same,
    "type": lambda given, words: STR if len(given) == 1 and not words else TENSOR,
    "broadcast_shapes": lambda given, words: INTS,
}  # fmt: skip
COUNTED = {
    "unique": ("return_inverse", "return_counts"),
    "unique_consecutive": ("return_inverse", "return_counts"),
}
"""Operators whose results are as many as options that are on."""


def of_tensors(name: str, given: Given, words: Words, on: set[str]) -> Type:
    """The type of a tensor operator's result; `on` are the options that are constantly true."""
    if name in COUNTED:
        count = 1 + sum(option in on for option in COUNTED[name])
        return TENSOR if count == 1 else TupleType([TENSOR] * count)
    if name in ("max_pool1d", "max_pool2d", "max_pool3d", "adaptive_max_pool2d") and "return_indices" in on:
        return PAIR
    rule = BY_ARGUMENTS.get(name)
    if rule is not None:
        return rule(given, words)
    if name.startswith("_foreach_"):
        return NONE if name.endswith("_") else TENSORS
    return RESULTS.get(name, TENSOR)


# -- numbers, strings, lists, dicts -----------------------------------------------------------------------
def widest(*kinds: Type) -> Type | None:
    """The type of an arithmetic result."""
    if not all(kind in (INT, FLOAT, BOOL, COMPLEX, NUMBER) for kind in kinds):
        return None
    for kind in (NUMBER, COMPLEX, FLOAT):
        if kind in kinds:
            return kind
    return INT


ARITHMETIC = ("add", "sub", "mul", "div", "floordiv", "remainder", "pow", "matmul")
BITS = ("__and__", "__or__", "__xor__", "__lshift__", "__rshift__")
COMPARISONS = ("eq", "ne", "lt", "gt", "le", "ge")


def of_binary(name: str, one: Type, two: Type) -> Type | None:
    """The type of a binary operation on what are no tensors; None where there is none."""
    if name in COMPARISONS:
        return BOOL
    if name in BITS:
        if one == BOOL and two == BOOL:
            return BOOL
        return INT if one in (INT, BOOL) and two in (INT, BOOL) else None
    number = widest(one, two)
    if number is not None:
        if name == "div" and number in (INT, BOOL):
            return FLOAT
        if name == "pow" and number == INT:
            return FLOAT
        return number
    if name == "add":
        if one == STR and two == STR:
            return STR
        if isinstance(one, ListType) and isinstance(two, ListType):
            element = unify(one.element, two.element)
            return None if element is None else ListType(element)
        if isinstance(one, TupleType) and isinstance(two, TupleType):
            return TupleType((*one.elements, *two.elements))
    if name == "mul":
        if isinstance(one, ListType) and two == INT:
            return one
        if isinstance(two, ListType) and one == INT:
            return two
        if {one, two} == {STR, INT}:
            return STR
    if name == "remainder" and one == STR:
        return STR
    return None


def _element(kind: Type) -> Type:
    return kind.element if isinstance(kind, ListType) else ANY


LIST_METHODS: dict[str, Callable[..., Type]] = {
    "append": lambda kind, *given: kind, "extend": lambda kind, *given: NONE, "insert": lambda kind,
    *given: NONE,
    "pop": lambda kind, *given: _element(kind), "remove": lambda kind, *given: NONE,
    "index": lambda kind, *given: INT, "count": lambda kind, *given: INT, "reverse": lambda kind,
    *given: NONE,
    "sort": lambda kind, *given: NONE, "clear": lambda kind, *given: NONE, "copy": lambda kind, *given: kind,
}  # fmt: skip


def _get(kind: DictType, *given: Type) -> Type:
    if len(given) < 2:
        return optional(kind.value_type)
    return unify(kind.value_type, given[1]) or kind.value_type


DICT_METHODS: dict[str, Callable[..., Type]] = {
    "keys": lambda kind, *given: ListType(kind.key_type), "values": lambda kind,
    *given: ListType(kind.value_type),
    "items": lambda kind, *given: ListType(TupleType((kind.key_type, kind.value_type))), "get": _get,
    "pop": lambda kind, *given: kind.value_type, "update": lambda kind, *given: NONE,
    "setdefault": lambda kind, *given: kind.value_type, "clear": lambda kind, *given: NONE,
    "copy": lambda kind, *given: kind, "popitem": lambda kind,
    *given: TupleType((kind.key_type, kind.value_type)),
}  # fmt: skip
_STRINGS = [
    "capitalize",
    "center",
    "expandtabs",
    "ljust",
    "lower",
    "lstrip",
    "replace",
    "rjust",
    "rstrip",
    "strip",
    "swapcase",
    "title",
    "upper",
    "zfill",
    "join",
    "format",
    "casefold",
    "removeprefix",
    "removesuffix",
]
_TESTS = [
    "endswith",
    "isalnum",
    "isalpha",
    "isdecimal",
    "isdigit",
    "isidentifier",
    "islower",
    "isnumeric",
    "isprintable",
    "isspace",
    "istitle",
    "isupper",
    "startswith",
]
STRING_METHODS: dict[str, Type] = {
    **dict.fromkeys(_STRINGS, STR), **dict.fromkeys(_TESTS, BOOL),
    **dict.fromkeys(("count", "find", "index", "rfind", "rindex"), INT),
    **dict.fromkeys(("split", "rsplit", "splitlines"), ListType(STR)),
    **dict.fromkeys(("partition", "rpartition"), TupleType((STR, STR, STR))),
}  # fmt: skip

_FLOATS = [
    "sqrt",
    "exp",
    "expm1",
    "log",
    "log2",
    "log10",
    "log1p",
    "sin",
    "cos",
    "tan",
    "asin",
    "acos",
    "atan",
    "atan2",
    "sinh",
    "cosh",
    "tanh",
    "asinh",
    "acosh",
    "atanh",
    "erf",
    "erfc",
    "gamma",
    "lgamma",
    "fabs",
    "copysign",
    "degrees",
    "radians",
    "ldexp",
    "fmod",
    "hypot",
    "dist",
]
MATH: dict[str, Type] = {
    **dict.fromkeys(_FLOATS, FLOAT), **dict.fromkeys(("floor", "ceil", "trunc", "factorial", "gcd"), INT),
    **dict.fromkeys(("isnan", "isinf", "isfinite"), BOOL), "pow": FLOAT, "remainder": FLOAT,
    "modf": TupleType((FLOAT, FLOAT)), "frexp": TupleType((FLOAT, INT)),
}  # fmt: skip

ATTRIBUTES: dict[str, Type] = {
    "shape": INTS, "dtype": DTYPE, "ndim": INT, "requires_grad": BOOL, "is_leaf": BOOL, "is_cuda": BOOL,
    "is_sparse": BOOL, "is_quantized": BOOL, "is_meta": BOOL, "is_mkldnn": BOOL, "is_mps": BOOL,
    "is_cpu": BOOL, "is_xpu": BOOL, "is_nested": BOOL, "is_vulkan": BOOL, "is_ipu": BOOL,
    "itemsize": INT, "nbytes": INT, "retains_grad": BOOL,
    "grad": OptionalType(TENSOR), "data": TENSOR, "T": TENSOR, "mT": TENSOR, "H": TENSOR, "mH": TENSOR,
    "real": TENSOR, "imag": TENSOR, "layout": DTYPE, "name": OptionalType(STR),
}  # fmt: skip


def of_sum(kind: Type) -> Type | None:
    """The type of `sum(list)`."""
    return (
        kind.element if isinstance(kind, ListType) and kind.element in (INT, FLOAT, BOOL, COMPLEX) else None
    )


def matches(kind: Type, word: str) -> tuple[bool, str]:
    """Whether an argument fits a parameter of an op record, and what the parameter's type is called."""
    number = kind in (INT, FLOAT, BOOL, COMPLEX, NUMBER)
    maybe = isinstance(kind, OptionalType) and kind.element == TENSOR
    lists = isinstance(kind, ListType) and subtype(kind.element, optional(TENSOR))
    tuples = isinstance(kind, TupleType) and all(element == TENSOR for element in kind.elements)
    rules: dict[str, tuple[bool, str]] = {
        "Tensor": (kind == TENSOR, "Tensor"),
        "Operand": (kind == TENSOR or number, "Tensor"),
        "MaybeTensor": (kind in (TENSOR, NONE) or maybe, "Optional[Tensor]"),
        "MaybeOperand": (
            kind in (TENSOR, NONE) or maybe or number or isinstance(kind, OptionalType),
            "Optional[number]",
        ),
        "Tensors": (lists or tuples, "List[Tensor]"),
        "bool": (kind != STR and not isinstance(kind, (ListType, DictType)), "bool"),
        "Number": (kind != STR and not isinstance(kind, (ListType, DictType)), "number"),
        "int": (kind != STR and not isinstance(kind, DictType), "int"),
        "float": (kind != STR and not isinstance(kind, (ListType, DictType)), "float"),
    }
    return rules.get(word, (True, word))


def flat(groups: Any) -> list[Any]:
    return list(itertools.chain.from_iterable(groups))
