"""Unopened containers: lists, deques, dicts and tuples from outside of which captured code uses only parts.

Takes the places where such a container is read, and what is done with it; gives what the parts are, with a
guard for each that was looked at, and a log of what was changed. One idea: a mirror would guard the length
and all items, so the container itself stands on the stack for as long as nothing needs more than a part.

# Note [Containers that grow]
    def step(x):                            `history` and the list in it are never opened: that there is a
        history["loss"].append(x)           list under "loss" is guarded, its length is not, and the effect
        print_every(history["loss"][-1])    is `append`, done on the list itself. `[-1]` is what was appended.
What a method does here is kept twice: in the log, which the stores repeat in order (`weft.capture.effects`),
and as what it leaves (`front`, `back`, `items`), which later reads see. Whatever is not known here opens the
container: a mirror is made of what stood there when the call began, and the log is repeated on it. Whoever
holds it still as unopened gets the mirror from then on (`now`).
"""

from __future__ import annotations

import functools
import operator
import types
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any, Final

from weft.capture.attributes import C_DESCRIPTORS, has_dict
from weft.capture.bytecode.effects import JUMP_OPS
from weft.capture.bytecode.instructions import Instruction
from weft.capture.calls import BY_CODE, HANDLERS
from weft.capture.frame import Frame
from weft.capture.fronts import is_front
from weft.capture.policy import Policy, policy_of
from weft.capture.protocols import is_users
from weft.capture.sources import Source, builtin_base, written_in_c
from weft.capture.values import BoundMethod, has_type
from weft.capture.world import ABSENT, Known, Unopened
from weft.capture.wrapping import library_native, plain_key
from weft.tensor.base import Tensor
from weft.trace.scalars import SymInt

if TYPE_CHECKING:
    from weft.capture.machine import Machine

OPEN: Final = object()
"""The answer of a method that needs the whole container."""
BASES: Final = (list, deque, dict, tuple)
LISTED: Final = frozenset({list, tuple, dict, set, frozenset, deque, range})
"""Classes whose items can be drawn without running anything."""
MADE_EMPTY: Final = (list, dict, deque)
"""What makes containers that are left open for as long as may be."""
TAKES_ANYTHING: Final = 0x04 | 0x08 | 0x20 | 0x80 | 0x200
"""Flags of code that packs its arguments, or that runs later."""


def base_of(kind: type) -> Any:
    """Which of `BASES` it is."""
    base = builtin_base(kind)
    return dict if base is OrderedDict else base if base in BASES else None


class Parts:
    """Parts of containers that existed before the call."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.wrapping, self.attributes, self.calls = machine.wrapping, machine.attributes, machine.calls
        self.scalars, self.world = machine.scalars, machine.world
        self.iterators, self.fail = machine.iterators, machine.fail

    # -- taking and opening ----------------------------------------------------------------------------------
    def may_stay_unopened(self, value: Any) -> bool:
        """Whether a container that has just been read may wait for what is done with it."""
        kind = type(value)
        base = base_of(kind)
        if base is None or self.world.pure or id(value) in self.world.by_original:
            return False
        if base is tuple:
            return kind is tuple
        if base is dict:
            if id(value) in self.world.namespaces or dict.__contains__(value, "__name__"):
                return False
            if any(type(key) is not str and has_users(key) for key in dict.__iter__(value)):
                return False  # whose methods any look-up may run
        return True

    def take(self, value: Any, source: Source) -> Unopened:
        """The container, unopened: one for each, from wherever it is read."""
        found = self.world.unopened.get(id(value))
        self.world.guard("TYPE", source, type(value))
        if found is None:
            found = self.world.unopened[id(value)] = Unopened(value, source)
            self.world.known[id(self.world.keep(found))] = Known(found, value, source)
        elif found.source != source:
            self.world.guard("SAME", source, found.source)
        return found

    def now(self, value: Any) -> Any:
        """What stands for the container by now: itself, or the mirror that was made of it."""
        if type(value) is not Unopened:
            return value
        if value.made is not None:
            return value.made
        known = self.world.by_original.get(id(value.original))
        return value if known is None else known.value

    def open(self, value: Any) -> Any:
        """The mirror of an unopened container; other values as they are."""
        value = self.now(value)
        if type(value) is not Unopened:
            return value
        return self.wrapping.wrap(value.original, value.source) if self.settled(value) else value.made

    # -- what a dict may lack --------------------------------------------------------------------------------
    def promised(self, target: Unopened, key: Any, default: Any) -> Any:
        """What a dict has under a key, or else is given: an empty container. Which, is left open, where
        nothing depends on it. OPEN where it must be known at once.
        """
        held = self.key(key)
        if held is OPEN or held in target.items or target.cleared or not self.settled(target):
            return OPEN
        if type(held) is NumberKey or may_be_written(target, held):
            return OPEN
        kind, found = type(default), dict.get(target.original, key, ABSENT)
        if found is not ABSENT:
            if type(found) is not kind or id(found) in self.world.unopened:
                return OPEN
            if not self.may_stay_unopened(found):
                return OPEN
        source = target.source.maybe(key, kind)
        self.world.guard("MAYBE", source)
        original = kind() if found is ABSENT else found
        made = Unopened(original, source, default=default, found=found is not ABSENT)
        self.world.unopened[id(original)] = made
        target.items[held] = made
        self.changed(target, "setdefault", key, made)
        return made

    def settled(self, target: Unopened) -> bool:
        """Whether the container existed before. From now on something depends on it."""
        if target.default is None or target.made is not None:
            return target.made is None
        assert target.source.parent is not None
        key, _kind = target.source.detail
        if target.found:
            self.world.guard("TYPE", target.source, type(target.original))
            self.world.known[id(target)] = Known(target, target.original, target.source)
            target.default = None
            return True
        self.world.guard("LACKS", target.source.parent, key)
        target.made = self.world.keep(target.default)
        self.wrapping.take_over(target.original, target.made)
        return False

    def places_kept(self, instruction: Instruction, stack: list[Any]) -> Collection[int]:
        """Where an instruction can do with unopened containers, counted from the top of the stack."""
        op, arg = instruction.op, instruction.arg
        if op in ("CALL", "CALL_KW"):
            count = arg if op == "CALL" else arg[0]
            function = stack[-count - 2]
            if any(function is each for each in (len, bool, isinstance)):
                return (count,)
            return range(1, count + 1) if self.takes(function) else ()
        if op == "IS_OP" and any(type(each) is Unopened and each.default is not None for each in stack[-2:]):
            return ()  # another one, or the same, as the dict lacks it or not
        if (op == "BINARY_OP" and arg != "+=") or (op == "UNARY" and arg != "not"):
            return ()
        return range(1, len(stack) + 1) if op in MOVES else PLACES.get(op, ())

    def takes(self, function: Any) -> bool:
        """Whether a function may be handed unopened containers: it is interpreted, or a method of one."""
        if type(function) is BoundMethod:
            return function.func is call_part
        if type(function) is types.MethodType and not has_type(function.__self__, Tensor):
            function = function.__func__
        if type(function) is not types.FunctionType or id(function) in HANDLERS:
            return False
        code = function.__code__
        if code in BY_CODE or code.co_flags & TAKES_ANYTHING or is_front(function):
            return False
        if library_native(function) or str(function.__module__).startswith("weft."):
            return False
        return policy_of(function)[0] is Policy.INLINE

    # -- what is known of it ---------------------------------------------------------------------------------
    def in_c(self, target: Unopened, *names: str) -> bool:
        """Whether methods are those of the builtin class. Guarded."""
        kind = type(target.original)
        if written_in_c(kind):
            return True
        return all(has_type(self.attributes.lookup(kind, name), C_DESCRIPTORS) for name in names)

    def method(self, target: Unopened, name: str) -> Any:
        """The bound method of this name, where it does not need the whole container; else OPEN."""
        kind = type(target.original)
        if name not in METHODS[base_of(kind)]:
            return OPEN
        if not written_in_c(kind):
            if not self.in_c(target, name, "__getattribute__") or has_type(target.original, OrderedDict):
                return OPEN
            if has_dict(target.original):
                if name in object.__getattribute__(target.original, "__dict__"):
                    return OPEN
                self.world.guard("LACKS", target.source.member("__dict__"), name)
        return BoundMethod(call_part, self.machine, target, name)

    def changed(self, target: Unopened, name: str, *args: Any) -> None:
        """Files a change, which the stores are to repeat."""
        self.world.changes += 1
        for value in args:
            self.world.keep(value)
        target.log.append((name, args))

    def original_item(self, target: Unopened, key: Any) -> Any:
        """An item that stood there before the call."""
        getter = dict.__getitem__ if base_of(type(target.original)) is dict else operator.getitem
        return self.wrapping.read(getter(target.original, key), target.source.item(key))

    def length(self, target: Unopened) -> Any:
        """`len(container)`."""
        if not self.settled(target) or not self.in_c(target, "__len__") or (bounded(target) and target.log):
            return OPEN
        if base_of(type(target.original)) is dict:
            added = self.keys_added(target)
        else:
            added = len(target.front) + len(target.back) - target.first - target.last
        if added is OPEN or target.cleared:
            return added
        length = self.wrapping.integer(len(target.original), target.source.length())
        return length + added if added else length

    def keys_added(self, target: Unopened) -> Any:
        """How many keys a dict has more than before."""
        added = 0
        for key, value in target.items.items():
            if type(key) is NumberKey:
                return OPEN
            was = not target.cleared and self.stood(target, key)
            added += (value is not ABSENT) - was
        return added

    def stood(self, target: Unopened, key: Any) -> bool:
        """Whether a dict had the key before the call. Guarded."""
        was = dict.__contains__(target.original, key)
        self.world.guard("HAS" if was else "LACKS", target.source, key)
        return was

    def truth(self, target: Unopened) -> Any:
        """`bool(container)`."""
        own = self.attributes.python_method(target.original, "__bool__")
        if not self.settled(target) or own is not None or not self.in_c(target, "__len__"):
            return OPEN
        if target.log:
            if not bounded(target) and (target.front or target.back or holds_new(target)):
                return True
            length = self.length(target)
            return length if length is OPEN else self.machine.operators.truth(length)
        make = functools.partial(self.scalars.symbol_int, counter=True)
        length = self.wrapping.symbol(make, len(target.original), target.source.length())
        return self.machine.operators.truth(length)

    # -- subscription ----------------------------------------------------------------------------------------
    def get_item(self, target: Unopened, key: Any) -> Any:
        if not self.in_c(target, "__getitem__"):
            return OPEN
        kind = type(target.original)
        if base_of(kind) is not dict:
            return self.at(target, key) if type(key) is int else OPEN
        factory = target.original.default_factory if kind is defaultdict else None
        if factory is not None and any(factory is each for each in MADE_EMPTY):
            self.wrapping.wrap(factory, target.source.member("default_factory"))
            found = self.promised(target, key, factory())
            if found is not OPEN:
                return found
        found = self.find(target, key)
        return self.missing(target, key) if found is ABSENT else found

    def find(self, target: Unopened, key: Any) -> Any:
        """What a dict has under a key; ABSENT where nothing, OPEN where that takes all of it. Guarded."""
        held = self.key(key)
        if held is OPEN or held in target.items:
            return OPEN if held is OPEN else target.items[held]
        if type(held) is NumberKey or may_be_written(target, held):
            return OPEN
        if not self.settled(target):
            return OPEN
        if target.cleared:
            return ABSENT
        if dict.__contains__(target.original, key):
            return self.original_item(target, key)
        self.world.guard("LACKS", target.source, key)
        return ABSENT

    def key(self, key: Any) -> Any:
        """The key as `items` holds it; OPEN where looking it up would run code of the user's."""
        if type(key) is SymInt and self.scalars.tells(key.expression):
            return NumberKey(key)
        return key if plain_key(key) else OPEN

    def missing(self, target: Unopened, key: Any) -> Any:
        """What a dict gives for a key that it lacks."""
        kind = type(target.original)
        own = ABSENT if written_in_c(kind) else self.attributes.lookup(kind, "__missing__")
        if has_type(own, types.FunctionType):
            return self.calls.call(own, (target, key), {}) if self.takes(own) else OPEN
        if issubclass(kind, defaultdict):
            source = target.source.member("default_factory")
            factory = self.wrapping.wrap(target.original.default_factory, source)
            if factory is not None:
                value = self.calls.call(factory, (), {})
                self.machine.operators.set_item(self.now(target), key, value)
                return value
        raise self.fail(KeyError(key))

    def at(self, target: Unopened, place: int) -> Any:
        """An item of a sequence by its place."""
        original, front, back = target.original, target.front, target.back
        if bounded(target) and target.log:
            return self.last_added(target, place)
        if target.cleared:
            items = front + back
            return items[place] if -len(items) <= place < len(items) else OPEN
        if place < 0 and -place <= len(back):
            return back[place]
        if not self.settled(target):
            return OPEN
        length = len(original)
        if type(original) is tuple:
            if place < 0:
                self.world.guard("LEN", target.source, length)
                place += length
            return self.original_item(target, place) if 0 <= place < length else OPEN
        if place < 0:
            place += len(back) - target.last
            known = target.first == 0 and -place <= length
        else:
            if place < len(front):
                return front[place]
            place += target.first - len(front)
            known = target.last == 0 and place < length
        return self.original_item(target, place) if known else OPEN

    def last_added(self, target: Unopened, place: int) -> Any:
        """What was last put behind all others in a deque that may have pushed some out."""
        most = target.original.maxlen
        if (
            place >= 0
            or -place > min(len(target.back), most)
            or {name for name, _ in target.log} != {"append"}
        ):
            return OPEN
        self.world.guard("EQ", target.source.member("maxlen"), most)
        return target.back[place]

    def set_item(self, target: Unopened, key: Any, value: Any) -> Any:
        """`container[key] = value`; ABSENT deletes."""
        name = "__delitem__" if value is ABSENT else "__setitem__"
        if base_of(type(target.original)) is not dict or not self.in_c(target, name):
            return OPEN
        if value is ABSENT:
            found = self.find(target, key)
            if found is ABSENT:
                raise self.fail(KeyError(key))
            if found is OPEN:
                return OPEN
        held = self.key(key)
        if held is OPEN:
            return OPEN
        if held not in target.items and may_be_written(target, held):
            return OPEN
        target.items[held] = value
        self.changed(target, name, *((key,) if value is ABSENT else (key, value)))
        return None

    def contains(self, target: Unopened, key: Any) -> Any:
        """`key in container`."""
        if base_of(type(target.original)) is not dict or not self.in_c(target, "__contains__"):
            return OPEN
        held = self.key(key)
        if held is OPEN or held in target.items:
            return OPEN if held is OPEN else target.items[held] is not ABSENT
        if type(held) is NumberKey or may_be_written(target, held) or not self.settled(target):
            return OPEN
        return not target.cleared and self.stood(target, held)

    def add_in_place(self, target: Unopened, more: Any) -> Any:
        """`container += more`."""
        base = base_of(type(target.original))
        if base not in (list, deque) or not self.in_c(target, "__iadd__", "extend"):
            return OPEN
        found = METHODS[base]["extend"](self, target, more)
        return target if found is None else OPEN

    # -- all that is added -----------------------------------------------------------------------------------
    def listed(self, values: Any) -> Any:
        """The items of what a container is extended by; OPEN where drawing them might see the container."""
        values = self.open(values)
        if type(values) not in LISTED:
            return OPEN
        return self.iterators.items(values)

    def pairs(self, values: Any) -> Any:
        """The keys and values of a plain dict with plain keys."""
        values = self.open(values)
        if type(values) is not dict or not all(map(plain_key, values)):
            return OPEN
        return list(values.items())


MOVES: Final = frozenset({"COPY", "RETURN_VALUE"})
PLACES: Final = {
    "LOAD_ATTR": (1,), "LOAD_METHOD": (1,), "BINARY_SUBSCR": (2,), "STORE_SUBSCR": (2, 3),
    "DELETE_SUBSCR": (2,), "CONTAINS_OP": (1,), "IS_OP": (1, 2), "BINARY_OP": (2,), "UNARY": (1,),
    "STORE_ATTR": (2,), "STORE_DEREF": (1,), "STORE_GLOBAL": (1,), "POP_JUMP_IF_TRUE": (1,),
    "POP_JUMP_IF_FALSE": (1,), "POP_JUMP_IF_NONE": (1,), "POP_JUMP_IF_NOT_NONE": (1,),
}  # fmt: skip
"""Where instructions take unopened containers; those that see no values move them as they are."""


class NumberKey:
    """A number that differs between calls, as a key."""

    __slots__ = ("number",)

    def __init__(self, number: SymInt) -> None:
        self.number = number

    def __eq__(self, other: object) -> bool:
        return type(other) is NumberKey and other.number.expression == self.number.expression

    def __hash__(self) -> int:
        return hash(self.number.expression)


def may_be_written(target: Unopened, key: Any) -> bool:
    """Whether a key may equal one that was written: a number that varies does not tell."""
    if type(key) is NumberKey:
        return any(type(each) in NUMBERS for each in target.items)
    return type(key) in NUMBERS and any(type(each) is NumberKey for each in target.items)


def has_users(key: Any) -> bool:
    """Whether hashing or comparing a key may run methods of the user's."""
    return any(map(has_users, key)) if type(key) is tuple else is_users(key)


NUMBERS: Final = frozenset({bool, int, float, complex, NumberKey})


def holds_new(target: Unopened) -> bool:
    """Whether a dict has something under a key that was written."""
    return any(value is not ABSENT for value in target.items.values())


def bounded(target: Unopened) -> bool:
    """Whether what is added may push others out."""
    return has_type(target.original, deque) and target.original.maxlen is not None


# -- methods -------------------------------------------------------------------------------------------------
def append(parts: Parts, target: Unopened, value: Any) -> None:
    target.back.append(value)
    parts.changed(target, "append", value)


def append_left(parts: Parts, target: Unopened, value: Any) -> None:
    target.front.insert(0, value)
    parts.changed(target, "appendleft", value)


def insert(parts: Parts, target: Unopened, place: Any, value: Any) -> Any:
    if type(place) is not int or place != 0:
        return OPEN
    target.front.insert(0, value)
    return parts.changed(target, "insert", 0, value)


def extend(parts: Parts, target: Unopened, values: Any) -> Any:
    items = parts.listed(values)
    if items is OPEN or type(parts.now(target)) is not Unopened:
        return OPEN
    for item in items:
        append(parts, target, item)
    return None


def extend_left(parts: Parts, target: Unopened, values: Any) -> Any:
    items = parts.listed(values)
    if items is OPEN or type(parts.now(target)) is not Unopened:
        return OPEN
    for item in items:
        append_left(parts, target, item)
    return None


def pop_first(parts: Parts, target: Unopened) -> Any:
    found = OPEN if target.last or bounded(target) else parts.at(target, 0)
    if found is OPEN:
        return OPEN
    if target.front or target.cleared:
        del (target.front or target.back)[0]
    else:
        target.first += 1
    parts.changed(target, *(("popleft",) if has_type(target.original, deque) else ("pop", 0)))
    return found


def pop_last(parts: Parts, target: Unopened, place: Any = -1) -> Any:
    if type(place) is int and place == 0:
        return pop_first(parts, target)
    found = OPEN if target.first or bounded(target) or place != -1 else parts.at(target, -1)
    if found is OPEN:
        return OPEN
    if target.back or target.cleared:
        del (target.back or target.front)[-1]
    else:
        target.last += 1
    parts.changed(target, "pop")
    return found


def clear(parts: Parts, target: Unopened) -> None:
    target.cleared, target.first, target.last = True, 0, 0
    for held in (target.front, target.back, target.items):
        held.clear()
    parts.changed(target, "clear")


def get(parts: Parts, target: Unopened, key: Any, default: Any = None) -> Any:
    found = parts.find(target, key)
    return default if found is ABSENT else found


def set_default(parts: Parts, target: Unopened, key: Any, default: Any = None) -> Any:
    if written_empty(parts.machine.frame, default):
        found = parts.promised(target, key, default)
        if found is not OPEN:
            return found
    found = parts.find(target, key)
    if found is not ABSENT:
        return found
    return OPEN if parts.set_item(target, key, default) is OPEN else default


def pop_key(parts: Parts, target: Unopened, key: Any, *default: Any) -> Any:
    found = parts.find(target, key) if len(default) < 2 else OPEN
    if found is ABSENT:
        if default:
            return default[0]
        raise parts.fail(KeyError(key))
    return OPEN if found is OPEN or parts.set_item(target, key, ABSENT) is OPEN else found


def update(parts: Parts, target: Unopened, /, *others: Any, **named: Any) -> Any:
    pairs = parts.pairs(others[0]) if others else []
    if pairs is OPEN or type(parts.now(target)) is not Unopened or not parts.in_c(target, "__setitem__"):
        return OPEN
    for key, value in [*pairs, *named.items()]:
        parts.machine.operators.set_item(parts.now(target), key, value)
    return None


def written_empty(frame: Frame | None, value: Any) -> bool:
    """Whether a value is the `[]` or `{}` that the call is written with, which nobody else has."""
    if frame is None or frame.instruction.op != "CALL" or type(value) not in (list, dict) or value:
        return False
    place, instructions = frame.instruction.index, frame.bytecode.instructions
    before = instructions[place - 1]
    if before.op not in ("BUILD_LIST", "BUILD_MAP") or before.arg != 0:
        return False
    return not any(each.op in JUMP_OPS and each.arg == place for each in instructions)


SEQUENCE: Final[dict[str, Callable[..., Any]]] = {
    "append": append, "extend": extend, "pop": pop_last, "clear": clear,
}  # fmt: skip
METHODS: Final[dict[Any, dict[str, Callable[..., Any]]]] = {
    list: {**SEQUENCE, "insert": insert},
    deque: {**SEQUENCE, "appendleft": append_left, "extendleft": extend_left, "popleft": pop_first},
    dict: {"get": get, "setdefault": set_default, "pop": pop_key, "update": update, "clear": clear},
    tuple: {},
}
"""Methods that do with a part: they answer OPEN, having done nothing, where they need all of it."""
COUNTS: Final = {
    "append": (1, 1), "appendleft": (1, 1), "extend": (1, 1), "extendleft": (1, 1), "insert": (2, 2),
    "popleft": (0, 0), "pop": (0, 0), "clear": (0, 0), "get": (1, 2), "setdefault": (1, 2), "update": (0, 1),
}  # fmt: skip


def call_part(machine: Machine, target: Unopened, name: str, /, *given: Any, **named: Any) -> Any:
    """Calls a method of a container that was unopened when the method was read."""
    parts = machine.parts
    if type(parts.now(target)) is Unopened and fits(target, name, len(given), named):
        result = METHODS[base_of(type(target.original))][name](parts, target, *given, **named)
        if result is not OPEN:
            return result
    method = machine.attributes.load(parts.open(target), name)
    opened = {key: parts.open(value) for key, value in named.items()}
    return machine.calls.call(method, tuple(map(parts.open, given)), opened)


def fits(target: Unopened, name: str, count: int, named: dict[str, Any]) -> bool:
    """Whether a method takes these arguments; else it says itself what is wrong with them."""
    least, most = COUNTS[name]
    if name == "pop":
        least, most = (1, 2) if has_type(target.original, dict) else (0, has_type(target.original, list))
    return least <= count <= most and (not named or name == "update")


HANDLERS[id(call_part)] = lambda machine, args, kwargs: machine.parts.open(call_part(*args, **kwargs))
