"""Names: what a node is called, and how a function or a class is spelled in printed code.

Takes targets; gives unique Python identifiers (`Names`) and dotted paths under a namespace (`Paths`). One
idea: names follow FX: the target in snake case, with `_1`, `_2` when it is taken or Python's own.
"""

from __future__ import annotations

import builtins
import keyword
import re
import sys
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final

from weft.core.naming import home as place
from weft.core.naming import naming
from weft.ops.record import Op

RESERVED: Final = frozenset(
    {*keyword.kwlist, *dir(builtins), "inf", "nan", "NoneType", "device", "torch", "weft", "self", "operator"}
)
_ILLEGAL: Final = re.compile(r"[^0-9a-zA-Z_]+")
_NUMBERED: Final = re.compile(r"(.*)_(\d+)$", re.DOTALL)
_WORD_START: Final = re.compile(r"(?<=[a-z])([A-Z])")
_PREFIXED: Final = ("linalg", "special", "fft")
"""Namespaces whose ops carry them in their names, as in PyTorch: `weft.linalg.inv` makes `linalg_inv`."""


@lru_cache(maxsize=4096)
def snake_case(text: str) -> str:
    """`FunctionCtx` becomes `function_ctx`, `L_x_` becomes `l_x_`."""
    return _WORD_START.sub(r"_\1", text).lower()


@lru_cache(maxsize=4096)
def clean(candidate: str) -> tuple[str, int | None]:
    """A candidate as an identifier, parted into base and number: `add_1` is ("add", 1)."""
    text = _ILLEGAL.sub("_", candidate) or "_unnamed"
    if text[0].isdigit():
        text = f"_{text}"
    numbered = _NUMBERED.match(text)
    return (numbered[1], int(numbered[2])) if numbered else (text, None)


class Names:
    """The names taken in one graph; `create` gives a fresh one near to the wish."""

    __slots__ = ("used", "counts")

    def __init__(self) -> None:
        self.used: set[str] = set()
        self.counts: dict[str, int] = {}

    def create(self, candidate: str) -> str:
        base, number = clean(candidate)
        name = base if number is None else f"{base}_{number}"
        count = number or self.counts.get(base, 0)
        while name in self.used or name in RESERVED:
            count += 1
            name = f"{base}_{count}"
        self.used.add(name)
        self.counts[base] = count
        return name

    def copy(self) -> Names:
        other = Names()
        other.used, other.counts = set(self.used), dict(self.counts)
        return other


def wished_name(target: object) -> str:
    """What a node with this target would like to be called."""
    if isinstance(target, str):
        magic = target.startswith("__") and target.endswith("__") and len(target) > 4
        return snake_case(target[2:-2] if magic else target)
    op = target if isinstance(target, Op) else getattr(target, "op", None)
    name = target.name if isinstance(target, Op) else getattr(target, "__name__", type(target).__name__)
    if isinstance(op, Op) and op.namespace in _PREFIXED:
        name = f"{op.namespace}_{name}"
    return snake_case(name)


TORCH_PATHS: Final[Mapping[str, str]] = {
    "weft.autograd.function_context.FunctionCtx": "torch.autograd.function.FunctionCtx",
    "weft.autograd.function_apply.autograd_function_apply": (
        "torch._functorch.autograd_function.autograd_function_apply"
    ),
    "weft.trace.proxy._assert_is_none": "torch.fx._symbolic_trace._assert_is_none",
    "weft.trace.recorder._set_grad_enabled": "torch._C._set_grad_enabled",
    "weft.autograd.trace_wrapped.self_invoke": "torch__dynamo__trace_wrapped_higher_order_op_self_invoke",
    "weft.autograd.compiled_calls.call_hook": "torch__dynamo_external_utils_call_hook",
    "weft.autograd.compiled_calls.call_backward": "torch__dynamo_external_utils_call_backward",
    "weft.autograd.compiled_calls.accumulate_grad": "torch.ops.inductor.accumulate_grad_.default",
    "weft.linalg": "torch._C._linalg.linalg",
    "weft.nn.functional.linear": "torch._C._nn.linear",
    "weft.nn.functional.gelu": "torch._C._nn.gelu",
    "weft.nn.functional.softplus": "torch._C._nn.softplus",
    "weft.nn.functional.softshrink": "torch._C._nn.softshrink",
    "weft.nn.functional.one_hot": "torch._C._nn.one_hot",
    "weft.nn.functional.avg_pool2d": "torch._C._nn.avg_pool2d",
    "weft.nn.functional.avg_pool3d": "torch._C._nn.avg_pool3d",
    "weft.nn.functional.logsigmoid": "torch._C._nn.log_sigmoid",
    "weft.nn.functional.scaled_dot_product_attention": "torch._C._nn.scaled_dot_product_attention",
    "weft.cond": "torch.ops.higher_order.cond",
    "weft.while_loop": "torch.ops.higher_order.while_loop",
    "weft.autograd.control_flow.wrap_call": "torch.ops.higher_order.wrap",
}
"""Where a path differs in more than its first word; a module stands for all that it holds."""
_PUBLIC_HOMES: Final = (
    "weft",
    "weft.nn.functional",
    "weft.linalg",
    "weft.special",
    "weft.autograd",
    "weft.nn",
)


class Paths:
    """Spells functions, classes and modules as users write them, with `weft` or another name in front."""

    __slots__ = ("namespace", "renamed")

    def __init__(self, namespace: str | None = None, renamed: Mapping[str, str] | None = None) -> None:
        namespace = namespace or naming.namespace
        self.namespace = namespace
        if renamed is None:
            renamed = TORCH_PATHS if namespace == "torch" else {}
        self.renamed = renamed

    def of(self, target: Callable[..., Any] | type) -> str:
        return self.translate(public_path(target))

    def translate(self, path: str) -> str:
        """A Weft path as this namespace writes it; any other path unchanged."""
        if path in self.renamed:
            return self.renamed[path]
        module, _, name = path.rpartition(".")
        if module in self.renamed and module != "weft":
            return (
                f"{self.renamed[module]}_{name}"
                if module == "weft.linalg"
                else f"{self.renamed[module]}.{name}"
            )
        if path == "weft" or path.startswith("weft."):
            return self.namespace + path[4:]
        return path


def public_path(target: object) -> str:
    """Where users find a function or a class: `weft.add`, `math.sqrt`, `weft.nn.functional.relu`."""
    if isinstance(target, Op):
        return f"weft.{target.qualified_name}"
    name = getattr(target, "__qualname__", None) or getattr(target, "__name__", None) or type(target).__name__
    module = getattr(target, "__module__", None) or type(target).__module__
    if isinstance(target, type):
        module = place(target)
    if module == "builtins":
        return str(name)
    if module == "_operator":
        return f"operator.{name}"
    if module == "weft" or module.startswith("weft."):
        for home in _PUBLIC_HOMES:
            if getattr(sys.modules.get(home), "__dict__", {}).get(name) is target:
                return f"{home}.{name}"
    if module == "__main__":
        return str(name)
    return f"{module}.{name}"
