"""Protocols: how C code may hash, compare and print objects whose methods are the user's.

Takes values on their way into a builtin. One idea: what C code only looks at is replaced by stand-ins that
re-enter the interpreter; what it keeps must be the object itself, so a key's methods are interpreted first,
which leaves their guards, and may then run again in C because they changed nothing.
"""

from __future__ import annotations

import contextlib
import typing
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from weft.capture.attributes import HEAP, IMMUTABLE
from weft.capture.guards import lookup
from weft.capture.open_texts import refuse_open
from weft.capture.sources import class_mro
from weft.capture.values import Callback, CapturedGenerator, entered, has_type
from weft.capture.world import ABSENT
from weft.capture.wrapping import SCALARS, SYMBOLIC
from weft.core.naming import home
from weft.tensor.base import Tensor
from weft.trace.breaks import Break
from weft.trace.scalars import SymBool, SymInt

if TYPE_CHECKING:
    from weft.capture.machine import Machine

EQUALITY = ("__eq__", "__hash__")
KEYED = (dict, set, frozenset)
MUTATES = frozenset(
    {
        "append", "appendleft", "clear", "extend", "extendleft", "insert", "pop", "popitem", "popleft",
        "remove", "reverse", "rotate", "sort", "update", "setdefault", "add", "discard", "move_to_end",
        "intersection_update", "difference_update", "symmetric_difference_update", "__setitem__",
        "__delitem__", "__iadd__", "__imul__", "__ior__", "__next__", "send", "throw", "close",
    }
)  # fmt: skip


def is_users(value: Any) -> bool:
    """Whether the value's class is written in Python, and not ours."""
    kind = type(value)
    if not kind.__flags__ & HEAP or kind.__flags__ & IMMUTABLE or home(kind).startswith("weft."):
        return False
    return not has_type(value, (Tensor, type, Callback, CapturedGenerator, *SYMBOLIC))


def answers_in_c(value: Any) -> bool:
    """Whether C code (or this library's) answers all operators on the value."""
    kind = type(value)
    return (
        kind in SCALARS
        or not kind.__flags__ & HEAP
        or bool(kind.__flags__ & IMMUTABLE)
        or has_type(value, (Tensor, *SYMBOLIC))
    )


def as_items(value: Any) -> Any:
    """A container of a user's class as the one that C code takes it for."""
    bases: tuple[Any, ...] = (tuple, list, dict, set, frozenset, deque)
    for base in bases:
        if has_type(value, base):
            return base(base.items(value) if base is dict else base.__iter__(value))
    return value


# -- keys ----------------------------------------------------------------------------------------------------
@contextlib.contextmanager
def purely(machine: Machine) -> Iterator[None]:
    """What runs inside must change nothing and see only what C code would see too. (Where it raises, C code
    will not run it again.)
    """
    before = machine.world.changes, len(machine.graph.nodes)
    machine.world.pure += 1
    try:
        yield
    finally:
        machine.world.pure -= 1
    if (machine.world.changes, len(machine.graph.nodes)) != before:
        raise Break("builtin-protocol", seen="a __hash__ or __eq__ that changes something")


def has_own_keys(machine: Machine, key: Any) -> bool:
    """Whether hashing or comparing this key runs methods of the user's."""
    if type(key) in SCALARS:
        return False
    if has_type(key, (tuple, frozenset)) and any(has_own_keys(machine, item) for item in key):
        return True
    return is_users(key) and any(machine.attributes.python_method(key, name) is not None for name in EQUALITY)


def settle_keys(machine: Machine, keys: Iterable[Any], container: Iterable[Any]) -> None:
    """Interprets what C code will run when it looks these keys up among each other and in a container."""
    by_hash: dict[int, list[Any]] = {}
    for key in container:
        by_hash.setdefault(machine.native(hash, key), []).append(key)
    for key in keys:
        number = settled_hash(machine, key)
        others = by_hash.setdefault(number, [])
        for other in others:
            if other is not key and (has_own_keys(machine, other) or has_own_keys(machine, key)):
                with purely(machine):
                    machine.operators.truth(machine.operators.compare("==", other, key))
        others.append(key)


def settled_hash(machine: Machine, key: Any) -> int:
    if has_own_keys(machine, key):
        settled = machine.world.settled
        if id(key) not in settled:
            with purely(machine):
                hash_of(machine, key, in_c=True)
            machine.world.keep(key)
        settled[id(key)] = machine.native(hash, key)
    return machine.native(hash, key)


def hash_of(machine: Machine, value: Any, in_c: bool = False) -> int:
    """`hash(value)` by the interpreter. `in_c`: C code will ask the object itself again."""
    if is_users(value):
        found = machine.attributes.python_method(value, "__hash__")
        if found is None and machine.attributes.lookup(type(value), "__hash__") is None:
            return machine.native(hash, unhashable(value))
        if found is not None:
            result = machine.calls.call_method(found, value)
            if has_type(result, (SymInt, SymBool)):  # of which C code knows nothing
                if in_c:
                    raise Break("builtin-protocol", seen="a __hash__ whose number differs between calls")
                result = machine.native(int, result)
            return machine.native(hash, Hashed(result))
    if has_type(value, (tuple, frozenset)) and has_own_keys(machine, value):
        base: Any = tuple if has_type(value, tuple) else frozenset
        items = base.__iter__(value)  # which a subclass may override: C code does not ask
        return machine.native(hash, base([Hashed(hash_of(machine, item, in_c)) for item in items]))
    machine.world.identify(value)
    return machine.native(hash, value)


def unhashable(value: Any) -> Any:
    """An object that `hash` complains about under the name of the value's class."""
    return type(type(value).__name__, (), {"__hash__": None})()


class Hashed:
    """Has a given hash."""

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number = number

    def __hash__(self) -> int:
        return self.number


# -- stand-ins -----------------------------------------------------------------------------------------------
def _comparison(symbol: str) -> Callable[[StandIn, object], bool]:
    def compare(self: StandIn, other: object) -> bool:
        other = other.value if has_type(other, StandIn) else other
        result = entered(self.machine.operators.compare, symbol, self.value, other)
        return result if type(result) is bool else entered(self.machine.operators.truth, result)

    return compare


class StandIn:
    """An object of the user's in a form that C code may compare and print: the interpreter runs its methods.
    Each has a class of the same name, for errors.
    """

    __slots__ = ("machine", "value")

    def __init__(self, machine: Machine, value: Any) -> None:
        self.machine, self.value = machine, value

    __eq__, __ne__ = _comparison("=="), _comparison("!=")
    __lt__, __le__ = _comparison("<"), _comparison("<=")
    __gt__, __ge__ = _comparison(">"), _comparison(">=")

    def __hash__(self) -> int:
        return entered(hash_of, self.machine, self.value)

    def _text(self, function: Callable[..., str], *args: str) -> str:
        found = entered(function, self.value, *args)
        refuse_open((found,))  # C code takes strings alone
        return found

    def __str__(self) -> str:
        return self._text(self.machine.texts.text)

    def __repr__(self) -> str:
        return self._text(self.machine.texts.text, "__repr__")

    def __format__(self, specification: str) -> str:
        return self._text(self.machine.texts.format, specification)

    def __getattr__(self, name: str) -> Any:
        found = entered(self.machine.attributes.load, self.value, name)
        return StandIns(self.machine)(found)

    def __getitem__(self, key: Any) -> Any:
        return StandIns(self.machine)(entered(self.machine.operators.get_item, self.value, key))


class StandIns:
    """Copies of containers with stand-ins for the users' objects in them, one for each object."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.made: dict[int, Any] = {}

    def __call__(self, value: Any) -> Any:
        kind = type(value)
        if kind in SCALARS or has_type(value, (Tensor, *SYMBOLIC)):
            return value
        if id(value) in self.made:
            return self.made[id(value)]
        copier = COPIERS.get(kind)
        if copier is not None:
            return copier(self, value)
        if is_users(value):
            made: Any = type(kind.__name__, (StandIn,), {"__slots__": ()})
            return self.put(value, made(self.machine, value))
        return self.put(value, value)

    def put(self, value: Any, made: Any) -> Any:
        self.made[id(value)] = made
        return made

    def tuple_(self, value: Any) -> Any:
        return self.put(value, tuple([self(item) for item in value]))

    def list_(self, value: Any) -> Any:
        made = self.put(value, deque(maxlen=value.maxlen) if type(value) is deque else [])
        made.extend([self(item) for item in value])
        return made

    def set_(self, value: Any) -> Any:
        items = [self(item) for item in value]
        made = self.put(value, type(value)(items))
        if any(a is not b for a, b in zip(made, items, strict=True)):
            raise Break("set-order", seen=f"a {type(value).__name__} of objects of the user's")
        return made

    def dict_(self, value: Any) -> Any:
        made = self.put(value, type(value)())
        made.update([(self(key), self(item)) for key, item in value.items()])
        if type(value) is defaultdict:
            made.default_factory = value.default_factory
        return made


COPIERS: dict[type, Callable[[StandIns, Any], Any]] = {
    tuple: StandIns.tuple_,
    list: StandIns.list_,
    deque: StandIns.list_,
    set: StandIns.set_,
    frozenset: StandIns.set_,
    dict: StandIns.dict_,
    OrderedDict: StandIns.dict_,
    defaultdict: StandIns.dict_,
}


# -- classes that ask for names ------------------------------------------------------------------------------
def fits_protocol(machine: Machine, value: Any, cls: type) -> bool | None:
    """Whether an object of the user's has all names of a `typing.Protocol`; guarded. The same as `isinstance`
    where those are methods and plain attributes, else a break. None where that is not the question.
    """
    kind = type(value)
    if not cls.__dict__.get("_is_protocol") or not is_users(value) or cls in class_mro(kind):
        return None
    if not getattr(cls, "_is_runtime_protocol", False):
        return None
    if lookup(kind, "__getattr__") is not None:
        raise Break("builtin-protocol", seen=f"whether a {kind.__name__} is a {cls.__name__}")
    fits = True
    private: Any = typing
    for name in sorted(private._get_protocol_attrs(cls)):
        found = machine.attributes.lookup(kind, name)
        if has_type(found, property) or (
            found is not ABSENT and machine.attributes.is_data_descriptor(found)
        ):
            raise Break("builtin-protocol", seen=f"whether a {kind.__name__} is a {cls.__name__}")
        own = machine.attributes.field(value, name)
        held = found if own is ABSENT else own
        is_method = callable(getattr(cls, name, None))
        fits = fits and held is not ABSENT and (held is not None or not is_method)
    return fits
