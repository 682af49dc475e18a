"""What can be seen of objects, as plain nested tuples that two runs can be compared by.

Takes objects; gives tuples of text. One idea: objects are numbered in the order they are first met, and
met again they are only their number, so two snapshots are equal exactly when values, types, order *and*
the pattern of who is the same object as whom (and which tensors share storage) are equal.
"""

from __future__ import annotations

import contextlib
import enum
import functools
import re
import types
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from operator import itemgetter
from typing import Any

import numpy as np

import weft

ADDRESS = re.compile(r"0x[0-9a-f]+")
ATOMS = (
    int,
    float,
    bool,
    str,
    type(None),
    complex,
    bytes,
    range,
    slice,
    type(Ellipsis),
    type(NotImplemented),
)
HALVES = {"float16": 4e-3, "bfloat16": 3e-2}
"""How much sums of numbers with few bits may differ."""
ITERATOR_KINDS = (map, filter, zip, enumerate, reversed)


def atom(value: Any) -> str:
    """Text that tells constants apart by value and type (1, True, 1.0, -0.0); addresses are left out."""
    text = repr(value)
    return ADDRESS.sub("0x", text) if "0x" in text else text


class Numbers:
    """A tensor's numbers: equal to others by their bits, or within `tolerance` of them where it is not 0.

    Note [Tolerance]
    Backends that differentiate ahead of time may add the gradients of one tensor in another order than the
    tape, so sums of three or more differ in their last bits: those of the largest number, where they cancel.
    So may graphs with transforms in them: on the tape, what flows to an argument of a differentiated function
    is added up before it joins what flows to the tensor that was passed. Everything else is the same ops on
    the same numbers. Native programs have sums and functions of their own, which differ in the last bits, and
    so do Python's floats that are read from their results.
    """

    exact = False
    """Whether only bits count now: those of one backend twice."""

    def __init__(self, values: np.ndarray[Any, Any], tolerance: float) -> None:
        self.values = values
        self.tolerance = tolerance

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Numbers) or self.values.shape != other.values.shape:
            return False
        kind = self.values.dtype
        if self.bytes() == other.bytes():
            return True
        if not self.tolerance or kind != other.values.dtype or Numbers.exact:
            return False
        tolerance, ours, theirs = self.tolerance, self.values, other.values
        if kind.name in HALVES:
            tolerance = max(tolerance, HALVES[kind.name])
            ours, theirs = ours.astype(np.float32), theirs.astype(np.float32)
        elif kind.kind not in "fc":
            return False
        absolute = tolerance * max(1.0, float(np.abs(ours[np.isfinite(ours)]).max(initial=0.0)))
        return np.allclose(ours, theirs, tolerance, absolute, equal_nan=True)

    def bytes(self) -> bytes:
        """The bits. NaNs are all alike where code was made twice: whose sign and payload a sum of two has
        depends on the order of operands, which compilers may choose.
        """
        if not (Numbers.exact and self.values.dtype.kind in "fV" and self.values.dtype.names is None):
            return self.values.tobytes()
        return np.where(np.isnan(self.values), np.array(np.nan, self.values.dtype), self.values).tobytes()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(self.values.tolist())


def lies(tensor: weft.Tensor) -> str:
    """Where a tensor's elements lie, in words. Strides of axes with one element are left out: they lead to no
    element, and which of them a kernel of NumPy's gives depends on the loop that it chose.
    """
    strides = [str(step) if size != 1 else "any" for step, size in zip(tensor.stride(), tensor.shape)]
    return f"strides ({', '.join(strides)}) offset {tensor.storage_offset()}"


class Layout(str):
    """Where a tensor's elements lie. Of gradients that sweeps outside give, one that is one row many times
    on eager's side, which is that of the first operand, may have all its rows: compiled nodes hand on
    gradients of inputs, and where two meet they are added there, not before the rows are repeated.
    """

    def __new__(cls, tensor: weft.Tensor) -> Layout:
        made = super().__new__(cls, lies(tensor))
        made.repeats = any(not step and size > 1 for step, size in zip(tensor.stride(), tensor.shape))
        made.is_whole = tensor.is_contiguous() and not tensor.storage_offset()
        return made

    repeats: bool
    is_whole: bool

    def __eq__(self, other: object) -> bool:
        if str.__eq__(self, other) is True or Numbers.exact or not isinstance(other, Layout):
            return str.__eq__(self, other) is True
        return self.repeats and other.is_whole

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None  # type: ignore[assignment]


@contextlib.contextmanager
def bits() -> Iterator[None]:
    """Numbers are equal by their bits alone, meanwhile."""
    Numbers.exact = True
    try:
        yield
    finally:
        Numbers.exact = False


class Snapshot:
    """One numbering of objects; everything compared together must be seen by the same Snapshot.

    With `tape`, what autograd knows of tensors is seen too (versions, views, whether there is a grad_fn), and
    numbers may differ by `tolerance`, see Note [Tolerance].
    """

    def __init__(self, module_name: str, tape: bool = False, tolerance: float = 0.0) -> None:
        self.module_name = module_name
        self.tape = tape
        self.tolerance = tolerance
        self.swept = False  # whether sweeps outside may have given what is seen
        self.optimized: set[int] = (
            set()
        )  # of these, only whether they were written matters: see optimizer_facts
        self.numbers: dict[int, int] = {}
        self.storages: dict[int, int] = {}
        self.keep: list[Any] = []

    def see(self, value: Any) -> Any:
        kind = type(value)
        if kind in ATOM_SET:
            if kind is str:
                value = self.words(value)
            return atom(value) if kind not in INEXACT or not self.tolerance else self.number(value)
        if kind in CONSTANTS and all(type(item) in ATOM_SET for item in value):
            if self.tolerance and any(type(item) in INEXACT for item in value):
                return (kind.__name__, *self.each(value))
            return atom(value)  # the identity of constants is Python's own affair
        if isinstance(value, np.generic):
            return f"{kind.__name__} {atom(value)}"
        number = self.numbers.get(id(value))
        if number is not None:
            return f"#{number}"
        self.numbers[id(value)] = number = len(self.numbers)
        self.keep.append(value)
        handler = HANDLERS.get(kind)
        if handler is None:
            handler = handler_for(kind)
        return (f"#{number}", *handler(self, value))

    def each(self, values: Any) -> tuple[Any, ...]:
        return tuple(self.see(value) for value in values)

    def pairs(self, mapping: dict[Any, Any]) -> tuple[Any, ...]:
        return tuple((self.see(key), self.see(value)) for key, value in mapping.items())

    def words(self, text: str) -> str:
        """What a program says, without the names of nodes where those of compiled graphs are on one side."""
        return NODE.sub(" a node", text) if self.tolerance else text

    def number(self, value: float | complex) -> tuple[str, Numbers]:
        return type(value).__name__, Numbers(np.array(value), self.tolerance)

    def storage(self, tensor: weft.Tensor) -> str:
        try:
            address = tensor.untyped_storage().data_ptr()
        except (RuntimeError, NotImplementedError) as error:
            return f"no storage: {error}"
        return f"storage {self.storages.setdefault(address, len(self.storages))}"


def tensor_facts(snapshot: Snapshot, value: weft.Tensor) -> tuple[Any, ...]:
    try:
        return readable_tensor_facts(snapshot, value)
    except RuntimeError as error:  # a view that writing to its base made unusable
        return (type(value).__name__, f"unreadable: {error}")


def readable_tensor_facts(snapshot: Snapshot, value: weft.Tensor) -> tuple[Any, ...]:
    facts: tuple[Any, ...] = (
        type(value).__name__,
        str(value.dtype),
        str(tuple(value.shape)),
        Layout(value) if snapshot.swept and snapshot.tolerance else lies(value),
        f"requires_grad={value.requires_grad} leaf={value.is_leaf}",
        Numbers(np.array(value.detach().numpy()), snapshot.tolerance)
        if snapshot.tolerance
        else repr(value.detach().tolist()),
        snapshot.storage(value) if value.numel() else "empty",
    )
    if snapshot.tape:
        facts += tape_facts(snapshot, value)
    if value.is_leaf and value.grad is not None:
        facts += (("grad", snapshot.see(value.grad)),)
    if vars(value):
        facts += (("dict", snapshot.pairs(vars(value))),)
    return facts


def tape_facts(snapshot: Snapshot, value: weft.Tensor) -> tuple[Any, ...]:
    version = "inference" if value.is_inference() else f"version {value._version}"
    if id(value) in snapshot.optimized:
        version = f"version {value._version > 0}"
    # With a history, a view is one only as long as the tape behind it is there; see spent.py.
    view = value._is_view() if value.grad_fn is None else "unknown"
    return (version, f"grad_fn={value.grad_fn is not None} view={view} retains={value.retains_grad}")


def is_zero(state: dict[str, Any], tolerance: float) -> bool:
    """Whether there are but numbers that count as zeros, see Numbers."""
    return all(
        isinstance(value, weft.Tensor) and not (value.detach().abs() > tolerance).any()
        for value in state.values()
    )


def optimizer_facts(snapshot: Snapshot, value: weft.optim.Optimizer) -> tuple[Any, ...]:
    """Without the versions of its state and parameters (how many ops a step takes is its own affair), and
    without state that is all zeros, which may be made before the step that begins with it.
    """
    groups = snapshot.see(value.param_groups)
    tape, snapshot.tape = snapshot.tape, False
    state = snapshot.pairs(
        {param: held for param, held in value.state.items() if not is_zero(held, snapshot.tolerance)}
    )
    snapshot.tape = tape
    return (type(value).__name__, groups, state)


def schedule_facts(snapshot: Snapshot, value: weft.optim.lr_scheduler.LRScheduler) -> tuple[Any, ...]:
    return (type(value).__name__, repr(value.last_epoch), repr(value.get_last_lr()))


def scaler_facts(snapshot: Snapshot, value: weft.amp.GradScaler) -> tuple[Any, ...]:
    return ("GradScaler", repr(value.state_dict()))


def module_facts(snapshot: Snapshot, value: weft.nn.Module) -> tuple[Any, ...]:
    state = {
        name: item
        for name, item in vars(value).items()
        if not isinstance(item, type(len)) and "hook" not in name
    }
    return (type(value).__name__, snapshot.pairs(state))


def sequence_facts(snapshot: Snapshot, value: Any) -> tuple[Any, ...]:
    return (type(value).__name__, snapshot.each(value))


def list_facts(snapshot: Snapshot, value: Any) -> tuple[Any, ...]:
    return (type(value).__name__, snapshot.each(list.__iter__(value)), *attributes(snapshot, value))


def deque_facts(snapshot: Snapshot, value: deque[Any]) -> tuple[Any, ...]:
    return (f"deque maxlen={value.maxlen}", snapshot.each(value))


def dict_facts(snapshot: Snapshot, value: dict[Any, Any]) -> tuple[Any, ...]:
    pairs = tuple((snapshot.see(key), snapshot.see(item)) for key, item in dict.items(value))
    factory = getattr(value, "default_factory", None)
    return (
        type(value).__name__,
        pairs,
        *(() if factory is None else ("factory", snapshot.see(factory))),
        *attributes(snapshot, value),
    )


def ordered_facts(snapshot: Snapshot, value: OrderedDict[Any, Any]) -> tuple[Any, ...]:
    return ("OrderedDict", snapshot.pairs(value))  # its own items(): move_to_end does not show in dict's


def set_facts(snapshot: Snapshot, value: Any) -> tuple[Any, ...]:
    return (type(value).__name__, tuple(sorted(atom(item) for item in value)))


def cell_facts(snapshot: Snapshot, value: types.CellType) -> tuple[Any, ...]:
    try:
        contents = value.cell_contents
    except ValueError:
        return ("empty cell",)
    return ("cell", snapshot.see(contents))


def function_facts(snapshot: Snapshot, value: types.FunctionType) -> tuple[Any, ...]:
    code = value.__code__
    cells = value.__closure__ or ()
    return (
        f"function {value.__qualname__} line {code.co_firstlineno}",
        snapshot.see(value.__defaults__),
        snapshot.see(value.__kwdefaults__),
        tuple(
            (name, snapshot.see(cell))
            for name, cell in sorted(zip(code.co_freevars, cells), key=itemgetter(0))
        ),
        snapshot.pairs({name: item for name, item in value.__dict__.items() if name != "__wrapped__"}),
    )


def class_facts(snapshot: Snapshot, value: type) -> tuple[Any, ...]:
    if value.__module__ != snapshot.module_name:
        return (f"class {value.__module__}.{value.__qualname__}",)
    entries = tuple(
        (name, snapshot.see(item))
        for name, item in vars(value).items()
        if not name.startswith("_") and not isinstance(item, NOT_STATE)
    )
    return (f"class {value.__qualname__}", entries)


def method_facts(snapshot: Snapshot, value: types.MethodType) -> tuple[Any, ...]:
    return (f"method {value.__func__.__qualname__}", snapshot.see(value.__self__))


def builtin_facts(snapshot: Snapshot, value: Any) -> tuple[Any, ...]:
    owner = value.__self__
    inside = () if owner is None or isinstance(owner, types.ModuleType) else (snapshot.see(owner),)
    return (f"builtin {value.__qualname__}", *inside)


def partial_facts(snapshot: Snapshot, value: functools.partial[Any]) -> tuple[Any, ...]:
    return ("partial", snapshot.see(value.func), snapshot.each(value.args), snapshot.pairs(value.keywords))


def generator_facts(snapshot: Snapshot, value: types.GeneratorType[Any, Any, Any]) -> tuple[Any, ...]:
    frame = value.gi_frame
    where = "finished" if frame is None else f"suspended at line {frame.f_lineno}"
    return (f"generator {value.__name__}", where)


PRODUCER = re.compile(r"(?<=operation: )\[.*(?= Hint)|, which is output \d+ of \w+,")


NODE = re.compile(r"\s+grad_fn=<\w+>|(?<=, which is output )\d+ of \w+(?=, is at version)")


def exception_facts(snapshot: Snapshot, value: BaseException) -> tuple[Any, ...]:
    """Where compiled code differentiates, without the names of nodes, which are those of compiled graphs on
    one of the sides, and without the tensor that was found to be stale, which is one of several perhaps.
    """
    args = value.args
    if (snapshot.tape or snapshot.tolerance) and args and type(args[0]) is str:
        args = (PRODUCER.sub("", args[0]), *args[1:])
    return (
        type(value).__qualname__,
        snapshot.each(args),
        snapshot.pairs(value.__dict__),
        ("cause", chain(value.__cause__)),
        ("context", chain(value.__context__)),
        f"suppress={value.__suppress_context__}",
    )


def chain(error: BaseException | None, depth: int = 0) -> Any:
    """The classes of what led to an error."""
    if error is None or depth > 5:
        return None
    return (type(error).__qualname__, chain(error.__cause__, depth + 1), chain(error.__context__, depth + 1))


def enum_facts(snapshot: Snapshot, value: enum.Enum) -> tuple[Any, ...]:
    return (f"{type(value).__qualname__}.{value.name}",)


def attributes(snapshot: Snapshot, value: Any) -> tuple[Any, ...]:
    """What the object holds in its dict (in order) and slots."""
    held = getattr(value, "__dict__", None)
    found: tuple[Any, ...] = (("dict", snapshot.pairs(held)),) if held else ()
    for owner in type(value).__mro__:
        slots = owner.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            member = owner.__dict__.get(name)
            if isinstance(member, types.MemberDescriptorType):
                try:
                    item = member.__get__(value)
                except AttributeError:
                    continue
                found += ((name, snapshot.see(item)),)
    return found


def object_facts(snapshot: Snapshot, value: Any) -> tuple[Any, ...]:
    if type(value).__module__ == snapshot.module_name:
        return (type(value).__qualname__, *attributes(snapshot, value))
    return (f"{type(value).__module__}.{type(value).__qualname__}",)


def plain(snapshot: Snapshot, value: Any) -> tuple[Any, ...]:
    return (type(value).__name__, atom(value))


def iterator_facts(snapshot: Snapshot, value: Any) -> tuple[Any, ...]:
    left = value.__length_hint__() if hasattr(value, "__length_hint__") else ""
    return (type(value).__name__, f"left {left}")


NOT_STATE = (
    types.FunctionType,
    staticmethod,
    classmethod,
    property,
    types.MemberDescriptorType,
    functools.cached_property,
)
ATOM_SET = frozenset(ATOMS)
INEXACT = frozenset({float, complex})
CONSTANTS = frozenset({tuple, weft.Size})
HANDLERS: dict[type, Callable[[Snapshot, Any], tuple[Any, ...]]] = {
    list: list_facts,
    tuple: sequence_facts,
    dict: dict_facts,
    set: set_facts,
    frozenset: set_facts,
    deque: deque_facts,
    OrderedDict: ordered_facts,
    types.FunctionType: function_facts,
    types.MethodType: method_facts,
    types.BuiltinFunctionType: builtin_facts,
    types.CellType: cell_facts,
    types.GeneratorType: generator_facts,
    functools.partial: partial_facts,
    type: class_facts,
}
BY_BASE: list[tuple[type, Callable[[Snapshot, Any], tuple[Any, ...]]]] = [
    (enum.Enum, enum_facts),
    (weft.Tensor, tensor_facts),
    (weft.nn.Module, module_facts),
    (weft.optim.Optimizer, optimizer_facts),
    (weft.optim.lr_scheduler.LRScheduler, schedule_facts),
    (weft.amp.GradScaler, scaler_facts),
    (type, class_facts),
    (BaseException, exception_facts),
    (tuple, sequence_facts),
    (OrderedDict, ordered_facts),
    (dict, dict_facts),
    (list, list_facts),
    (np.ndarray, plain),
    (weft.dtype, plain),
    (weft.device, plain),
]


def handler_for(kind: type) -> Callable[[Snapshot, Any], tuple[Any, ...]]:
    for base, handler in BY_BASE:
        if issubclass(kind, base):
            return handler
    if kind.__module__ in ("builtins", "itertools", "collections") and hasattr(kind, "__next__"):
        return iterator_facts
    return object_facts


def reachable(value: Any, depth: int = 3) -> Iterator[Any]:
    """Objects that a result holds in plain containers, for trying them out afterwards."""
    yield value
    if depth and isinstance(value, (list, tuple, deque)):
        for item in list(value):
            yield from reachable(item, depth - 1)
    elif depth and type(value) is dict:
        for item in list(value.values()):
            yield from reachable(item, depth - 1)


def difference(expected: Any, actual: Any, path: str = "") -> str | None:
    """The first place where two snapshots part, in words; None when they are equal."""
    if expected == actual:
        return None
    if isinstance(expected, tuple) and isinstance(actual, tuple):
        for index, (left, right) in enumerate(zip(expected, actual)):
            found = difference(
                left,
                right,
                f"{path}[{index}]" if not isinstance(left, tuple) or path.count("[") < 8 else path,
            )
            if found:
                return found
        counts = f"{len(expected)} parts expected, {len(actual)} seen"
        return f"{path}: {counts}: {shorten(expected)} / {shorten(actual)}"
    return f"{path}: expected {shorten(expected)}, compiled gave {shorten(actual)}"


def shorten(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 300 else text[:300] + "..."
