"""What a recorder does with each public function: tables from function to treatment, and to its graph form.

Takes function objects as overrides receive them (see Note [What an override receives] in
`weft.tensor.overrides`); gives a `Treatment`, or the way the call is written in a graph. One idea: whatever
is in no list here is simply run on fakes, and becomes a node if it gives or writes a tensor.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from enum import Enum
from types import FunctionType
from typing import Any, Final

from weft.autograd import engine
from weft.autograd.hooks import KINDS
from weft.tensor import shims
from weft.tensor.base import PUBLIC, Tensor
from weft.trace.breaks import Break
from weft.trace.recorder_special import specials


class Treatment(Enum):
    """What becomes of a call."""

    ANSWER = "answered from the fake"
    FACT = "answered from the fake, and noted as something relied upon"
    DATA = "needs elements"
    BRANCH = "needs the truth of an element"
    WRITE = "changes what the tensor is"
    AUTOGRAD = "works on the tape"
    MEMORY = "asks where elements lie"
    GRAD = "the accumulated gradient"


METHODS: Final = {
    Treatment.ANSWER: (
        "dim", "ndimension", "size", "numel", "nelement", "element_size", "is_floating_point", "is_complex",
        "is_signed", "__len__", "is_same_size", "get_device", "is_conj", "is_neg",
        "is_pinned", "is_shared", "share_memory_", "__dlpack_device__",
    ),
    Treatment.FACT: ("stride", "is_contiguous", "dim_order", "is_inference"),
    Treatment.DATA: (
        "item", "tolist", "__int__", "__float__", "__complex__", "__index__", "__contains__", "numpy",
        "__array__", "__array_wrap__", "__dlpack__", "__repr__", "__format__", "is_nonzero", "apply_", "map_",
    ),
    Treatment.BRANCH: ("__bool__",),
    Treatment.WRITE: (
        "set_", "resize_", "resize_as_", "requires_grad_", "detach_", "t_", "transpose_", "swapaxes_",
        "swapdims_", "squeeze_", "unsqueeze_", "as_strided_",
    ),
    Treatment.AUTOGRAD: ("backward", *[kind.method for kind in KINDS if kind.of != "node"]),
    Treatment.MEMORY: (
        "data_ptr", "storage", "untyped_storage", "storage_offset", "is_set_to", "_is_view", "__reduce_ex__",
        "__deepcopy__",
    ),
}  # fmt: skip
PROPERTIES: Final = {
    Treatment.ANSWER: (
        "shape", "dtype", "device", "ndim", "itemsize", "nbytes", "is_meta", "layout", "requires_grad",
        "is_cpu", "is_cuda", "is_sparse", "is_sparse_csr", "is_quantized", "is_mkldnn", "is_mps", "is_xpu",
        "is_xla", "is_nested", "is_vulkan", "is_ipu", "is_hpu", "is_mtia", "is_maia",
    ),
    Treatment.FACT: ("is_leaf",),
    Treatment.AUTOGRAD: ("grad_fn", "output_nr", "retains_grad", "_backward_hooks"),
    Treatment.MEMORY: ("_version", "_base"),
    Treatment.GRAD: ("grad",),
}  # fmt: skip
UNTYING: Final = frozenset({"unsafe_split", "unsafe_split_with_sizes", "unsafe_chunk"})
"""Ops whose results share memory with the tensor, but are no views of it: graphs cannot say that."""
PRINTS: Final = frozenset({"__repr__", "__format__"})
PYTHON: Final = {
    "__getitem__": operator.getitem, "__setitem__": operator.setitem, "__invert__": operator.invert,
    "__iadd__": operator.iadd, "__isub__": operator.isub, "__imul__": operator.imul,
    "__itruediv__": operator.itruediv, "__ifloordiv__": operator.ifloordiv, "__imod__": operator.imod,
    "__ipow__": operator.ipow, "__iand__": operator.iand, "__ior__": operator.ior, "__ixor__": operator.ixor,
    "__ilshift__": operator.ilshift, "__irshift__": operator.irshift, "__reversed__": reversed,
}  # fmt: skip
REFLECTED: Final = {
    "__rpow__": operator.pow, "__rfloordiv__": operator.floordiv, "__rmod__": operator.mod,
    "__rmatmul__": operator.matmul, "__rlshift__": operator.lshift, "__rrshift__": operator.rshift,
    "__rtruediv__": operator.truediv,
}  # fmt: skip

Form = tuple[str, Any, bool]
"""Op code of the node, its target, and whether the two operands change places."""


class Rules:
    """The tables by function object, made when first needed (ops defined later have no entry to miss)."""

    def __init__(self) -> None:
        self.treatments: dict[Any, Treatment] = {}
        self.forms: dict[Any, Form] = {}
        self.specials = specials()
        for treatment, names in METHODS.items():
            for name in names:
                self.treatments[Tensor.__dict__[name]] = treatment
                if name in PUBLIC:
                    self.treatments[PUBLIC[name]] = treatment
        for treatment, names in PROPERTIES.items():
            for name in names:
                self.treatments[Tensor.__dict__[name], "__get__"] = treatment
        for name, value in Tensor.__dict__.items():
            if isinstance(value, property):
                self.forms[value, "__get__"] = ("call_function", name, False)
                if name in ("real", "imag"):
                    self.forms[value, "__set__"] = ("call_function", name, False)
                else:
                    self.treatments[value, "__set__"] = Treatment.WRITE
                self.treatments[value, "__delete__"] = Treatment.WRITE
        for function in (engine.grad, engine.backward):
            self.treatments[function] = Treatment.AUTOGRAD
        for name in ("to_dlpack", "utils.dlpack.to_dlpack"):
            self.treatments[PUBLIC[name]] = Treatment.DATA
        for name, value in shims.attributes().items():
            if isinstance(value, FunctionType) and name not in PYTHON and name not in REFLECTED:
                self.forms[value] = ("call_method", name, False)
        for value in PUBLIC.values():
            if isinstance(value, FunctionType):
                self.forms[value] = ("call_function", value, False)

    def form(self, function: Any) -> Form:
        """How a call of this function is written in a graph."""
        found = self.forms.get(function)
        if found is None:
            found = self.forms[function] = self._form(function)
        return found

    def _form(self, function: Any) -> Form:
        name = getattr(function, "__name__", "")
        op = getattr(function, "op", None)
        if name in PYTHON:
            return "call_function", PYTHON[name], False
        if name in REFLECTED:
            return "call_function", REFLECTED[name], True
        if op is not None and name != op.name and hasattr(Tensor, name):  # an in-place form
            return ("call_function", function, False) if op.function else ("call_method", name, False)
        if op is None or op.function:
            return "call_function", function, False
        if op.method:
            return "call_method", name, False
        return "call_function", op, False


def refusal(treatment: Treatment, name: str, first: Any) -> Break:
    """The break for a call that cannot be recorded."""
    seen = f"Tensor.{name}"
    if isinstance(first, Tensor):
        seen += f" of a tensor of shape {list(first.array.shape)}"
    if treatment is Treatment.BRANCH:
        return Break("data-dependent-branch", seen)
    if treatment is Treatment.DATA:
        return Break("data-dependent-print" if name in PRINTS else "data-dependent-value", seen)
    if treatment is Treatment.WRITE:
        return Break("tensor-metadata-write", seen)
    if treatment is Treatment.MEMORY:
        return Break("tensor-memory", seen)
    return Break("autograd-inside", seen)


Function = Callable[..., Any]
