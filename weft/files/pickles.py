"""Pickles read as data: a machine for the opcodes that data needs, which calls nothing but a table's makers.

Takes bytes, a table of makers by global name and a function for persistent ids; gives an object. One idea: a
global never becomes the thing it names. It becomes an `Allowed` record from a table of ours, or the file is
refused; and only such a record can be called, with arguments its maker checks.

# Note [Work]
A pickle of n bytes may not take more than about n steps. What costs more than its opcodes (a list that is
handed to a maker again and again, keys that are nested so that hashing them doubles with each level) is
charged to a budget, or refused.
"""

from __future__ import annotations

import pickle
import struct
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from weft.files.errors import FileFormatError, UnsafeFileError, require

STEPS_PER_BYTE: Final = 64
SMALLEST_BUDGET: Final = 1_000_000
KEY_PARTS: Final = 256
"""How many parts a tuple that serves as a key may have, inner ones counted."""


@dataclass(frozen=True, eq=False)
class Allowed:
    """What stands for a global: its name, and what calling it makes; None where it may only be passed on."""

    name: str
    make: Callable[..., Any] | None = None
    value: Any = None


SAFE: Final[dict[str, Any]] = {}
"""By name, the classes that a program has declared safe: files may make objects of them."""


def safe_name(declared: Any) -> str:
    """The name under which files have a declared class: its own, or that of a pair's."""
    if isinstance(declared, tuple):
        return str(declared[1])
    return f"{declared.__module__}.{declared.__qualname__}"


def _declared(title: str) -> Allowed | None:
    found = SAFE.get(title)
    made = found[0] if isinstance(found, tuple) else found
    return None if made is None else Allowed(title, made)


class Building:
    """Something that a maker has begun and a BUILD opcode finishes: then `made` is what users get."""

    made: Any = None

    def build(self, state: Any) -> None:
        raise NotImplementedError


_MISSING: Final = object()
_SIZED: Final = (str, bytes, bytearray, list, tuple, dict, set, frozenset)


class Machine:
    """Runs one pickle. `place` is where it stands, and afterwards where the pickle has ended."""

    def __init__(
        self,
        code: bytes,
        name: str,
        globals_: dict[str, Allowed],
        persistent: Callable[[Any], Any],
        place: int = 0,
    ) -> None:
        self.content, self.name, self.place = code, name, place
        self.globals, self.persistent = globals_, persistent
        self.stack: list[Any] = []
        self.marks: list[list[Any]] = []
        self.memo: dict[int, Any] = {}
        self.budget = SMALLEST_BUDGET + STEPS_PER_BYTE * len(code)
        self.result: Any = _MISSING

    def load(self) -> Any:
        """The object that the pickle makes."""
        text, table = self.content, _OPCODES
        while self.result is _MISSING:
            require(self.place < len(text), f"{self.name}: the pickle is cut off")
            opcode = text[self.place]
            self.place += 1
            action = table.get(opcode)
            if action is None:
                raise UnsafeFileError(
                    f"{self.name}: opcode {bytes([opcode])!r} at byte {self.place - 1} is not for data"
                )
            action(self)
        require(not self.marks, f"{self.name}: the pickle ends inside of a list")
        return content(self.result)

    # -- reading and the stack
    def take(self, count: int) -> bytes:
        found = self.content[self.place : self.place + count]
        require(count >= 0 and len(found) == count, f"{self.name}: the pickle is cut off")
        self.place += count
        return found

    def number(self, count: int) -> int:
        return int.from_bytes(self.take(count), "little")

    def line(self) -> bytes:
        end = self.content.find(b"\n", self.place)
        require(end >= 0, f"{self.name}: the pickle is cut off")
        found = self.content[self.place : end]
        self.place = end + 1
        return found

    def text(self, raw: bytes) -> str:
        try:
            return raw.decode("utf-8", "surrogatepass")
        except UnicodeDecodeError:
            raise FileFormatError(f"{self.name}: a text in the pickle is not UTF-8") from None

    def pop(self) -> Any:
        require(self.stack, f"{self.name}: the pickle takes from an empty stack")
        return self.stack.pop()

    def pops(self, count: int) -> list[Any]:
        require(len(self.stack) >= count, f"{self.name}: the pickle takes from an empty stack")
        found = self.stack[-count:]
        del self.stack[-count:]
        return found

    def top(self) -> Any:
        require(self.stack, f"{self.name}: the pickle looks at an empty stack")
        return self.stack[-1]

    def pop_mark(self) -> list[Any]:
        """What was put on the stack since the last mark."""
        require(self.marks, f"{self.name}: the pickle ends a list that it did not begin")
        found, self.stack = self.stack, self.marks.pop()
        return found

    def charge(self, steps: int) -> None:
        self.budget -= steps
        require(
            self.budget >= 0, f"{self.name}: reading the pickle takes far more work than its size explains"
        )

    # -- what opcodes do
    def put(self, key: int) -> None:
        self.memo[key] = self.top()

    def get(self, key: int) -> None:
        require(key in self.memo, f"{self.name}: the pickle refers to object {key}, which it has not made")
        self.stack.append(self.memo[key])

    def find(self, module: str, title: str) -> None:
        found = self.globals.get(f"{module}.{title}") or _declared(f"{module}.{title}")
        if found is None:
            raise UnsafeFileError(
                f"Weights only load failed. {self.name}: Unsupported global: "
                f"GLOBAL {module[:80]}.{title[:80]} was not an allowed global by default. weft.load() "
                "reads tensors, parameters, containers, numbers and texts, never runs code or makes "
                "objects of other classes. If the file holds a whole module, save its state_dict() instead."
            )
        self.stack.append(found)

    def call(self, function: Any, arguments: Any) -> None:
        if not isinstance(function, Allowed) or function.make is None:
            what = function.name if isinstance(function, Allowed) else type(function).__name__
            raise UnsafeFileError(f"{self.name}: the pickle calls {what}, which it may not")
        require(type(arguments) is tuple, f"{self.name}: {function.name} is called with no tuple")
        arguments = tuple(map(finished, arguments))
        self.charge(sum(len(each) for each in arguments if isinstance(each, _SIZED)))
        try:
            made = function.make(*arguments)
        except (FileFormatError, MemoryError):
            raise
        except Exception as error:
            raise FileFormatError(f"{self.name}: {function.name} cannot be made: {error}") from None
        self.stack.append(made)

    def build(self) -> None:
        state = finished(self.pop())
        target = self.pop()
        if isinstance(target, Building):
            try:
                target.build(state)
            except (FileFormatError, MemoryError):
                raise
            except Exception as error:
                raise FileFormatError(f"{self.name}: a {type(target).__name__}: {error}") from None
            self.stack.append(target)
            return
        plain = type(target) is OrderedDict and type(state) is dict and set(state) <= {"_metadata"}
        if any(type(target) is each for each in SAFE.values()):
            restore = getattr(target, "__setstate__", None)
            if restore is not None:
                restore(state)
                self.stack.append(target)
                return
            plain = type(state) is dict
        if not plain:
            raise UnsafeFileError(
                f"{self.name}: the pickle sets attributes of an object of type {type(target).__name__}"
            )
        target.__dict__.update(state)
        self.stack.append(target)

    def set_items(self, target: Any, pairs: list[Any]) -> None:
        require(
            isinstance(target, dict) and len(pairs) % 2 == 0,
            f"{self.name}: the pickle sets items of an object of type {type(target).__name__}",
        )
        for position in range(0, len(pairs), 2):
            target[checked_key(finished(pairs[position]))] = content(pairs[position + 1])

    def extend(self, target: Any, items: list[Any]) -> None:
        require(
            hasattr(type(target), "append") and type(target).__name__ in ("list", "deque"),
            f"{self.name}: the pickle appends to an object of type {type(target).__name__}",
        )
        target.extend(map(content, items))

    def add(self, target: Any, items: list[Any]) -> None:
        require(
            type(target) is set, f"{self.name}: the pickle adds to an object of type {type(target).__name__}"
        )
        target.update(checked_key(finished(item)) for item in items)


def checked_key(value: Any) -> Any:
    """The value, if it is one that keys of dicts and items of sets are made of."""
    parts, waiting = 0, [value]
    while waiting:
        each = waiting.pop()
        parts += 1
        require(parts <= KEY_PARTS, f"a key of more than {KEY_PARTS} parts")
        if type(each) in (tuple, frozenset):
            waiting.extend(each)
        elif type(each) is int:
            require(-(2**63) <= each < 2**64, "a key that is a number of more than 64 bits")
        elif each is not None and type(each) not in (str, float, bool, bytes, complex):
            require(_is_plain(each), f"an object of type {type(each).__name__} as a key")
    return value


def _is_plain(value: Any) -> bool:
    """Objects of ours and of NumPy's that are hashed in one step."""
    return type(value).__module__ in ("weft", "numpy") and not hasattr(type(value), "__len__")


def finished(value: Any) -> Any:
    """A value as makers get it: globals that stand for a value have become it, and what was begun is done."""
    if type(value) is Allowed:
        return value if value.value is None else value.value
    if isinstance(value, Building):
        require(value.made is not None, f"the pickle uses a {type(value).__name__} that is not complete")
        return value.made
    return value


def content(value: Any) -> Any:
    """A value as users get it."""
    value = finished(value)
    if type(value) is Allowed or (type(value) is tuple and any(type(each) is Allowed for each in value)):
        raise UnsafeFileError("the pickle holds a function or a class instead of data")
    return value


def _integer(raw: bytes) -> int:
    try:
        return int(raw)
    except ValueError:
        raise FileFormatError(f"a number in the pickle is {raw[:80]!r}") from None


def _int_line(machine: Machine) -> None:
    raw = machine.line()
    machine.stack.append({b"00": False, b"01": True}.get(raw) if raw in (b"00", b"01") else _integer(raw))


def _float_line(machine: Machine) -> None:
    raw = machine.line()
    try:
        machine.stack.append(float(raw))
    except ValueError:
        raise FileFormatError(f"a number in the pickle is {raw[:80]!r}") from None


def _long(machine: Machine, width: int) -> None:
    count = machine.number(width)
    require(count < 2**31, "a number in the pickle has a size below 0")
    machine.stack.append(int.from_bytes(machine.take(count), "little", signed=True))


def _old_text(machine: Machine, width: int) -> None:
    machine.stack.append(machine.take(machine.number(width)).decode("latin1"))


def _unicode(machine: Machine, width: int) -> None:
    machine.stack.append(machine.text(machine.take(machine.number(width))))


def _bytes(machine: Machine, width: int) -> None:
    machine.stack.append(machine.take(machine.number(width)))


def _global(machine: Machine) -> None:
    module, title = machine.line(), machine.line()
    machine.find(machine.text(module), machine.text(title))


def _stack_global(machine: Machine) -> None:
    module, title = machine.pops(2)
    require(type(module) is str and type(title) is str, "a global in the pickle is named by no text")
    machine.find(module, title)


def _reduce(machine: Machine) -> None:
    function, arguments = machine.pops(2)
    machine.call(function, arguments)


def _new_object(machine: Machine) -> None:
    """As a call, but that a declared class is made without its constructor."""
    function = machine.stack[-2] if len(machine.stack) > 1 else None
    if isinstance(function, Allowed) and SAFE.get(function.name) is function.make:
        kind: Any = function.make
        machine.stack[-2] = Allowed(function.name, lambda *given: kind.__new__(kind, *given))
    _reduce(machine)


def _mark(machine: Machine) -> None:
    machine.marks.append(machine.stack)
    machine.stack = []


def _pop(machine: Machine) -> None:
    if machine.stack:
        machine.stack.pop()
    else:
        machine.pop_mark()


def _tuple(machine: Machine, count: int) -> None:
    machine.stack.append(tuple(map(finished, machine.pops(count))))


def _marked(machine: Machine, make: Callable[[Machine, list[Any]], Any]) -> None:
    items = machine.pop_mark()
    machine.stack.append(make(machine, items))


def _onto(machine: Machine, act: Callable[[Machine, Any, list[Any]], None], count: int | None) -> None:
    items = machine.pop_mark() if count is None else machine.pops(count)
    act(machine, machine.top(), items)


def _dict(machine: Machine, items: list[Any]) -> dict[Any, Any]:
    made: dict[Any, Any] = {}
    machine.set_items(made, items)
    return made


def _frozen(machine: Machine, items: list[Any]) -> frozenset[Any]:
    return frozenset(checked_key(finished(item)) for item in items)


def _persistent(machine: Machine) -> None:
    machine.stack.append(machine.persistent(machine.pop()))


def _stop(machine: Machine) -> None:
    machine.result = machine.pop()


def _protocol(machine: Machine) -> None:
    version = machine.number(1)
    require(version <= pickle.HIGHEST_PROTOCOL, f"{machine.name}: a pickle of the unknown protocol {version}")


def _binfloat(machine: Machine) -> None:
    machine.stack.append(struct.unpack(">d", machine.take(8))[0])


def _push(value: Callable[[Machine], Any]) -> Callable[[Machine], None]:
    return lambda machine: machine.stack.append(value(machine))


_OPCODES: Final[dict[int, Callable[[Machine], Any]]] = {
    code[0]: action
    for code, action in {
        pickle.PROTO: _protocol,
        pickle.FRAME: lambda m: m.take(8),
        pickle.STOP: _stop,
        pickle.MARK: _mark,
        pickle.POP: _pop,
        pickle.POP_MARK: lambda m: m.pop_mark(),
        pickle.DUP: _push(Machine.top),
        pickle.NONE: _push(lambda m: None),
        pickle.NEWTRUE: _push(lambda m: True),
        pickle.NEWFALSE: _push(lambda m: False),
        pickle.INT: _int_line,
        pickle.LONG: _push(lambda m: _integer(m.line().rstrip(b"L"))),
        pickle.FLOAT: _float_line,
        pickle.BININT: _push(lambda m: int.from_bytes(m.take(4), "little", signed=True)),
        pickle.BININT1: _push(lambda m: m.number(1)),
        pickle.BININT2: _push(lambda m: m.number(2)),
        pickle.LONG1: lambda m: _long(m, 1),
        pickle.LONG4: lambda m: _long(m, 4),
        pickle.BINFLOAT: _binfloat,
        pickle.BINUNICODE: lambda m: _unicode(m, 4),
        pickle.SHORT_BINUNICODE: lambda m: _unicode(m, 1),
        pickle.BINUNICODE8: lambda m: _unicode(m, 8),
        pickle.BINSTRING: lambda m: _old_text(m, 4),
        pickle.SHORT_BINSTRING: lambda m: _old_text(m, 1),
        pickle.BINBYTES: lambda m: _bytes(m, 4),
        pickle.SHORT_BINBYTES: lambda m: _bytes(m, 1),
        pickle.BINBYTES8: lambda m: _bytes(m, 8),
        pickle.BYTEARRAY8: _push(lambda m: bytearray(m.take(m.number(8)))),
        pickle.EMPTY_LIST: _push(lambda m: []),
        pickle.EMPTY_DICT: _push(lambda m: {}),
        pickle.EMPTY_SET: _push(lambda m: set()),
        pickle.EMPTY_TUPLE: _push(lambda m: ()),
        pickle.TUPLE1: lambda m: _tuple(m, 1),
        pickle.TUPLE2: lambda m: _tuple(m, 2),
        pickle.TUPLE3: lambda m: _tuple(m, 3),
        pickle.TUPLE: lambda m: _marked(m, lambda _, items: tuple(map(finished, items))),
        pickle.LIST: lambda m: _marked(m, lambda _, items: list(map(content, items))),
        pickle.DICT: lambda m: _marked(m, _dict),
        pickle.FROZENSET: lambda m: _marked(m, _frozen),
        pickle.APPEND: lambda m: _onto(m, Machine.extend, 1),
        pickle.APPENDS: lambda m: _onto(m, Machine.extend, None),
        pickle.SETITEM: lambda m: _onto(m, Machine.set_items, 2),
        pickle.SETITEMS: lambda m: _onto(m, Machine.set_items, None),
        pickle.ADDITEMS: lambda m: _onto(m, Machine.add, None),
        pickle.BINPUT: lambda m: m.put(m.number(1)),
        pickle.LONG_BINPUT: lambda m: m.put(m.number(4)),
        pickle.PUT: lambda m: m.put(_integer(m.line())),
        pickle.MEMOIZE: lambda m: m.put(len(m.memo)),
        pickle.BINGET: lambda m: m.get(m.number(1)),
        pickle.LONG_BINGET: lambda m: m.get(m.number(4)),
        pickle.GET: lambda m: m.get(_integer(m.line())),
        pickle.GLOBAL: _global,
        pickle.STACK_GLOBAL: _stack_global,
        pickle.REDUCE: _reduce,
        pickle.NEWOBJ: _new_object,
        pickle.BUILD: Machine.build,
        pickle.BINPERSID: _persistent,
    }.items()
}
