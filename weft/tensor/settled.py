"""Calls like earlier ones: what the type rule has allowed once need not be asked again.

Takes an op's call that the generic dispatcher has finished; makes a straight-line function for calls with
tensors in the same places, and notes what the type rule followed from. One idea: a type rule knows shapes,
dtypes and numbers alone, so a call with the same ones is the kernel, a tensor and a node.

# Note [Settled calls]
For `_where` of a mask, a tensor and a number the function is, shortened:

    def path(condition, input, other):
        m = _mode(); x0 = condition.array; x1 = input.array; x2 = other
        f = SETTLED.get((DEFAULT.dtype, x0.shape, x0.dtype, x1.shape, x1.dtype, x2))
        if f is None or …: return UNSURE                         # the dispatcher settles it
        try: r = run(KERNEL, x0, x1, x2)
        except Exception: return UNSURE                          # the dispatcher says what is wrong
        t = new(Tensor); t.array = r; …                          # f: the result may carry a gradient

`op.paths` has it by the classes of the tensor parameters, which say where numbers and None stand. What is
read from elements, a kernel refuses itself, as it does where the dispatcher calls it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

import weft.tensor.source as source
from weft.core import modes
from weft.core.arrays import as_array
from weft.core.dtypes import BY_NUMPY, FLOAT, default, dtype
from weft.core.interrupts import let_through
from weft.core.types import TensorType, memory_format
from weft.core.warn import heard
from weft.ops.record import Kind, Op, run_quietly
from weft.tensor.backward import compile_backward
from weft.tensor.base import PLAIN, Tensor
from weft.tensor.plan import plan_of
from weft.tensor.tape import next_sequence
from weft.tensor.views import refresh

if TYPE_CHECKING:
    from weft.ops.signature import OpParameter
    from weft.tensor.plan import Plan

ndarray = np.ndarray
UNSURE: Final = object()
"""What a path gives for a call that nothing is known of yet."""
MOST: Final = 1024
"""How many calls of a path are settled: numbers that are others at each call are not worth more."""
ABSENT: Final = frozenset({int, float, bool, complex, type(None)})
"""What may stand in a tensor's place."""
ATOMS: Final = frozenset({*ABSENT, str, dtype, memory_format})
UNSETTLED: Final = frozenset({Kind.VIEW, Kind.CREATE, Kind.RANDOM})
"""Kinds of ops whose calls have more to them, or offsets of generators for numbers."""


def has_paths(op: Op, plan: Plan) -> bool:
    """Whether calls of an op can be settled at all."""
    if op.composed or op.kernel is None or op.kind in UNSETTLED or op.returns is not None:
        return False
    if not plan.fixed or not plan.tensor_slots or "Index" in op.signature.words:
        return False
    if op.namespace.startswith("ops."):  # the user's, whose functions are called as often as it is
        return False
    names = (*op.signature.names, *NAMESPACE)
    return op.signature.gradient_slot is None and not any(map(source.LOCAL_NAME.fullmatch, names))


def settle(op: Op, bound: tuple[Any, ...], types: Any, arrays: object) -> None:
    """Notes a call that the generic route has made, if its results' types follow from what is in the key."""
    plan = plan_of(op)
    if op.paths is None or not has_paths(op, plan):
        op.paths = None
        return
    if type(arrays) is not ndarray or type(types) is not TensorType:
        return
    if types.dtype.numpy is not arrays.dtype or types.shape != arrays.shape or arrays.dtype.kind == "c":
        return
    key: list[Any] = [default.dtype]
    for slot in plan.tensor_slots:
        value = bound[slot]
        if type(value) in PLAIN:
            array = value.array
            if type(array) is not ndarray or array.dtype.kind == "c":
                return
            key += (array.shape, array.dtype)
        elif type(value) in ABSENT:
            key.append(value)
        else:
            return
    for slot in plan.plain_slots:
        value = bound[slot]
        if not (type(value) in ATOMS or (type(value) is tuple and all(type(each) is int for each in value))):
            return
        key += (type(value), kinds_of(value), value)
    classes = tuple([type(bound[slot]) for slot in plan.tensor_slots])
    path = op.paths.get(classes) or op.paths.setdefault(classes, make_path(op, plan, classes))
    settled = path.__globals__["SETTLED"]
    if len(settled) < MOST and _is_silent(op, bound):
        settled[tuple(key)] = BY_NUMPY[arrays.dtype].category >= FLOAT


def _is_silent(op: Op, bound: tuple[Any, ...]) -> bool:
    """Whether the type rule warns nobody."""
    said: list[str] = []

    def listen(text: str) -> bool:
        said.append(text)
        return True

    with heard(listen):
        op.on_types(tuple([type_of(each) for each in bound]))
    return not said


def type_of(value: Any) -> Any:
    if type(value) not in PLAIN:
        return value
    return TensorType(value.array.shape, BY_NUMPY[value.array.dtype], value.device)


def kinds_of(value: object) -> Any:
    """The classes of a tuple's items: (True,) is equal to (1,), and refused where that is taken."""
    return tuple(map(type, value)) if type(value) is tuple else None


def make_path(op: Op, plan: Plan, classes: tuple[type, ...]) -> Any:
    """The function for calls with tensors in these places."""
    if not hasattr(plan.node_class, "compiled"):
        compile_backward(op, plan)
    namespace = dict(NAMESPACE, KERNEL=op.kernel, SETTLED={}, N=plan.node_class, OP=op, PROMOTED=op.promotion)
    exec(compile(path_source(op, plan, classes), f"<weft path of {op.name}>", "exec"), namespace)
    return namespace["path"]


def path_source(op: Op, plan: Plan, classes: tuple[type, ...]) -> str:
    """The text of that function."""
    parameters = op.signature.parameters
    tensors = [parameters[i] for i in plan.tensor_slots]
    absent = [p for p, kind in zip(tensors, classes, strict=True) if kind in ABSENT]
    live = [p for p in tensors if p not in absent]
    key = ["DEFAULT.dtype"]
    for i, p in enumerate(tensors):
        key += [f"x{i}"] if p in absent else [f"x{i}.shape", f"x{i}.dtype"]
    for slot in plan.plain_slots:
        name = parameters[slot].name
        key += [f"type({name})", f"kinds_of({name})", name]
    arrays = [f"type(x{i}) is not ndarray" for i, p in enumerate(tensors) if p in live]
    lines = [
        f"def path({', '.join(p.name for p in parameters)}):",
        "    m = _mode()",
        "    if m is not True and m is not False:",
        "        return UNSURE",
        *[f"    x{i} = {p.name if p in absent else p.name + '.array'}" for i, p in enumerate(tensors)],
        f"    if {' or '.join(arrays)}:",
        "        return UNSURE",
        "    try:",
        f"        f = SETTLED.get(({', '.join(key)},))",
        "        if f is None:",
        "            return UNSURE",
        f"        r = {_kernel_call(op, plan)}",
        "    except Exception as _error:",
        "        let_through(_error)",
        "        return UNSURE",
        "    if type(r) is not ndarray:",
        "        r = asarray(r)",
        "    t = new(Tensor)",
        "    t.array = r",
        "    t.cell = t.origin = t._grad = t.hooks = None",
        "    t.index = 0",
        "    if f:",
        *_recording(op, plan, tensors, absent, live),
        "    t.node = None",
        "    t.tracked = False",
        "    return t",
    ]
    return "\n".join(lines) + "\n"


def _recording(
    op: Op, plan: Plan, tensors: list[OpParameter], absent: list[OpParameter], live: list[OpParameter]
) -> list[str]:
    if op.vjp is not None:
        return [line.removeprefix("    ") for line in source.record_block(op, plan, tensors, absent)]
    tracked = " or ".join(f"{p.name}.tracked" for p in live)
    stale = " or ".join(f"{p.name}.origin is not None" for p in live)
    return [f"        if m is True and ({tracked} or {stale}):", "            return UNSURE"]


def _kernel_call(op: Op, plan: Plan) -> str:
    slots = plan.tensor_slots
    words = [f"x{slots.index(i)}" if i in slots else p.name for i, p in enumerate(op.signature.parameters)]
    if op.promotion is not None:
        return f"PROMOTED.run(OP, ({', '.join(words)},))"
    return f"run(KERNEL, {', '.join(words)})"


NAMESPACE: Final[dict[str, Any]] = {
    "Tensor": Tensor,
    "_mode": modes.current,
    "new": object.__new__,
    "run": run_quietly,
    "sequence": next_sequence,
    "refresh": refresh,
    "ndarray": ndarray,
    "asarray": as_array,
    "let_through": let_through,
    "kinds_of": kinds_of,
    "DEFAULT": default,
    "UNSURE": UNSURE,
}
