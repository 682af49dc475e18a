"""Faces: the functions users call, made from the op records.

At import each op gets light stubs: its function, its method, its in-place form. A stub's first call writes
the specialised source (`weft.tensor.source`), compiles it and swaps it into the same function object, so
that `from weft import add` before that call is as good as after it.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any

import numpy as np

import weft.tensor.source as source
from weft.core import modes
from weft.core.arrays import as_array
from weft.core.device import cpu, is_plain
from weft.core.interrupts import let_through
from weft.ops.descriptions import documentation
from weft.ops.record import REGISTRY, Op, run_quietly
from weft.ops.signature import flatten_variadic
from weft.tensor.backward import compile_backward
from weft.tensor.base import PLAIN, Parameter, Tensor
from weft.tensor.dispatch import NUMBERS, dispatch, dispatch_out
from weft.tensor.face_signatures import FaceSignature
from weft.tensor.inplace import dispatch_inplace
from weft.tensor.node_names import labelled
from weft.tensor.plan import plan_of
from weft.tensor.settled import UNSURE, has_paths
from weft.tensor.tape import next_sequence
from weft.tensor.views import attach_view, refresh
from weft.tensor.wrapper import levels

SHARED: dict[str, Any] = {
    "Tensor": Tensor,
    "Parameter": Parameter,
    "PLAIN": PLAIN,
    "_mode": modes.current,
    "new": object.__new__,
    "run": run_quietly,
    "sequence": next_sequence,
    "refresh": refresh,
    "dispatch": dispatch,
    "dispatch_out": dispatch_out,
    "dispatch_inplace": dispatch_inplace,
    "ndarray": np.ndarray,
    "asarray": as_array,
    "flatten_variadic": flatten_variadic,
    "copyto": np.copyto,
    "attach_view": attach_view,
    "_on_cpu": is_plain,
    "__name__": "weft",
    "labelled": labelled,
    "in_new_form": source.in_new_form,
    "let_through": let_through,
    "NUMBERS": NUMBERS,
    "UNSURE": UNSURE,
    "CPU": cpu,
    "INTS": frozenset({int}),
    "_levels": levels.get,
}


def stub(op: Op, name: str, write: Callable[[Op, str], str]) -> FunctionType:
    """A function that becomes its specialised self at the first call."""
    namespace: dict[str, Any] = dict(SHARED)

    def materialise() -> None:
        plan = plan_of(op)
        if not hasattr(plan.node_class, "compiled"):
            compile_backward(op, plan)
        namespace.update(
            OP=op,
            KERNEL=op.kernel,
            BODY=op.body,
            K=op.known,
            KS=op.known_scalar,
            N=plan.node_class,
            FACE=function,
            PATHS=op.paths,
            UFUNC=getattr(op.kernel, "ufunc", None),
            INTO=getattr(op.kernel, "into", None),
            **{f"D_{p.name}": p.default for p in op.signature.parameters},
        )
        python_name = name if name.isidentifier() else "face"
        exec(compile(write(op, python_name), f"<weft {name}>", "exec"), namespace)
        made = namespace[python_name]
        function.__defaults__ = made.__defaults__  # the stub, which takes anything, does not look at these
        function.__kwdefaults__ = made.__kwdefaults__
        function.__code__ = made.__code__  # last: from here on calls need all of it

    namespace["materialise"] = materialise
    exec(_STUB, namespace)
    function: FunctionType = namespace["stub"]
    namespace["function"] = function
    function.__name__ = name
    function.__qualname__ = name
    function.__module__ = "weft" if not op.namespace else f"weft.{op.namespace}"
    function.__doc__ = documentation(op.qualified_name, name, op.signature.text, op.doc)
    function.__signature__ = FaceSignature(op.signature)  # type: ignore[attr-defined]
    function.op = op  # type: ignore[attr-defined]
    return function


_STUB = compile(
    "def stub(*args, **kwargs):\n    materialise()\n    return function(*args, **kwargs)\n",
    "<weft stub>",
    "exec",
)


def function_source(op: Op, name: str) -> str:
    plan = plan_of(op)
    return source.face_source(op, plan, name, has_paths(op, plan))


def inplace_source(op: Op, name: str) -> str:
    return source.inplace_source(op, plan_of(op), name)


FUNCTIONS: dict[str, Callable[..., Any]] = {}
"""Public functions by qualified name: what `weft`, `weft.nn.functional`, `weft.linalg`, `weft.special`
export.
"""


def install(op: Op) -> None:
    """Makes the op's faces and attaches its methods."""
    face = stub(op, op.name, function_source)
    op.face = face
    names = (op.name, *op.aliases)
    prefix = f"{op.namespace}." if op.namespace else ""
    for name in names:
        if "." in name:  # an alias in another namespace
            FUNCTIONS[name] = face
            continue
        if op.function:
            FUNCTIONS[prefix + name] = face
        if op.method:
            setattr(Tensor, name, face)
    if op.inplace:
        written = stub(op, f"{op.name}_", inplace_source)
        for name in names:
            if "." in name:
                FUNCTIONS[f"{name}_"] = written
                continue
            setattr(Tensor, f"{name}_", written)
            if op.function:
                FUNCTIONS[f"{prefix}{name}_"] = written


def install_all() -> None:
    for op in list(REGISTRY.values()):
        install(op)
