"""Shortcuts: entries whose guards, and where that can be the graph too, run as one native function.

Takes what an entry was made from, and a call that it has just served; gives another function that does the
same, or None. One idea: the shortcut may miss whenever it likes, since the entry itself stands behind it: so
only what is common, and can be checked without running any Python, is checked natively.

# Note [Checks]
Checks are tuples: a name of `weft.native.entry`, the register of the result, operands. A guard that has no
such form is left to one Python function, which runs before anything is read: what native checks read must not
go away under them.

# Note [Sizes]
An entry may serve many sizes, but each has a program of its own. A shortcut that runs one is for the sizes of
the call that it was made from: these are in its checks on tensors, so sizes are constants to it, and
conditions on them hold. `weft.capture.chaining` puts shortcuts for other sizes behind it.
"""

from __future__ import annotations

import builtins
import sys
import types
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from typing import Any, Final, Protocol

from weft.capture.binding import parameter_names
from weft.capture.fronts import uncounted
from weft.capture.guards import Guard, GuardSet, holds, same_keys
from weft.capture.plain import SINGLETONS, Tree, float_bits
from weft.capture.reading import FUNCTION, MISS, Reader, has_plain_dict, local_name
from weft.capture.sources import Ref, Source, builtin_base, class_dict, fetch, safe_member
from weft.core import modes
from weft.core.records import dataclass
from weft.tensor.base import PLAIN, Tensor
from weft.tensor.tape import INFERENCE

NATIVE, SLOW, FINISH = "_v_shortcut", "_v_slow", "_v_finish"
FOUND, MADE = "_v_found", "_v_made"
DICTS: Final = (dict, OrderedDict)
C_CONTIGUOUS, WRITEABLE = 0x1, 0x400
Operands = list[tuple[int, int | None]]
"""Of a graph's inputs: the register of each, and that of its array if it is a tensor."""


class Unreadable(Exception):
    """Native code cannot read or check this."""


class Machine(Protocol):
    """What native entries offer."""

    def slot_offset(self, owner: type, name: str) -> int: ...

    def member_offset(self, kind: type, name: str) -> int | None: ...

    def class_version(self, kind: type) -> int: ...

    def borrowed(self, value: Any) -> Any:
        """The object as an operand that is not kept alive."""

    def direct(self, graph: Any, inputs: Sequence[Any]) -> Any:
        """How the graph runs on these inputs without Python; None if it does not."""

    def finish(self, direct: Any) -> Any:
        """What is left to do behind it, as a function of all that it gives and its inputs; None if nothing
        is. It gives the graph's results, or None where the entry itself must run."""

    def make(
        self, checks: list[Any], registers: int, returned: list[int], direct: Any, operands: Operands
    ) -> Any: ...


@dataclass(slots=True)
class Recipe:
    """What an entry was made from, as far as a shortcut needs it."""

    code: types.CodeType
    guards: GuardSet
    lines: list[str]
    """Everything behind the guards."""
    read: dict[str, Source]
    """Variables that these use, and what guards have read into them."""
    inputs: list[Source]
    outputs: list[str]
    """The variables in which the graph's results are expected."""
    ending: list[str] | None
    """Everything behind the graph; None where the graph must be seen to run."""
    read_behind: dict[str, Source]
    graph: Any


@dataclass(slots=True)
class Checks:
    """Guards as native checks."""

    machine: Machine
    names: tuple[str, ...]
    function: Any
    values: Mapping[str, Any]
    sized: bool = True
    """Whether sizes and whole numbers must be those of this call: see Note [Sizes]."""
    done: list[Any] = field(default_factory=list)
    registers: int = 0
    found: dict[Source, int] = field(default_factory=dict)
    arrays: dict[Source, int] = field(default_factory=dict)
    types: dict[Source, type] = field(default_factory=dict)
    lengths: dict[Source, int] = field(default_factory=dict)
    typing: dict[Source, list[Guard]] = field(default_factory=dict)
    settled: set[int] = field(default_factory=set)
    classes: set[type] = field(default_factory=set)
    walked: set[Source] = field(default_factory=set)

    def register(self, count: int = 1) -> int:
        self.registers += count
        return self.registers - count

    def put(self, name: str, *operands: Any) -> int:
        """A check with a result."""
        register = self.register()
        self.done.append((name, register, *operands))
        return register

    def ask(self, name: str, *operands: Any) -> None:
        self.done.append((name, 0, *operands))

    # -- objects ---------------------------------------------------------------------------------------------
    def hold(self, ref: Ref) -> Any:
        """A Ref's object as an operand: weakly where the Ref holds it so."""
        if ref.parts is not None or (ref.weak is not None and type(ref.weak) is not weakref.ref):
            raise Unreadable(str(ref))
        return ref.strong if ref.weak is None else ref.weak

    def unchanged(self, source: Source) -> type:
        """The class at a source that is a constant; checked not to have changed since now."""
        if source.kind != "constant":
            raise Unreadable(str(source))
        kind = source.detail()
        if not isinstance(kind, type):
            raise Unreadable(str(source))
        if kind not in self.classes:
            version = self.machine.class_version(kind)
            if not version:
                raise Unreadable(f"{kind.__name__} has no version")
            self.ask("version", self.hold(source.detail), version)
            self.classes.add(kind)
        return kind

    # -- sources ---------------------------------------------------------------------------------------------
    def known(self, source: Source) -> type | None:
        found = self.types.get(source)
        if found is not None:
            return found
        for guard in self.typing.get(source, ()):
            self.guard(guard)
        found = self.types.get(source)
        if found is not None:
            return found
        if source.kind == "module" or (
            source.kind == "member" and source.detail in ("__dict__", "__globals__")
        ):
            return dict
        return types.FunctionType if source.kind == "function" else None

    def walk_to(self, source: Source) -> None:
        """Puts what guards say of types on the way to a source, and there, among the checks."""
        if source not in self.walked:
            if source.parent is not None:
                self.walk_to(source.parent)
            self.known(source)
            self.walked.add(source)

    def read(self, source: Source) -> int:
        """The register of what stands at a source."""
        register = self.found.get(source)
        if register is None:
            register = self.found[source] = self.root(source) if source.parent is None else self.step(source)
        return register

    def root(self, source: Source) -> int:
        match source.kind:
            case "local":
                return self.put("argument", self.names.index(source.detail) + 1)
            case "function":
                return self.put("argument", 0)
            case "module":
                return self.put("constant", safe_member(sys.modules[source.detail], "__dict__"))
            case "builtin":
                members = self.put("constant", builtins.__dict__)
                return self.put("dict_item", members, source.detail)
            case _:
                return self.put("constant", self.hold(source.detail))

    def step(self, source: Source) -> int:
        parent, detail = source.parent, source.detail
        assert parent is not None
        match source.kind:
            case "field":
                return self.put("dict_item", self.read(parent.member("__dict__")), detail)
            case "entry":
                return self.put("constant", self.machine.borrowed(class_dict(self.unchanged(parent))[detail]))
            case "member":
                return self.member(parent, detail)
            case "slot":
                kind, owner = self.known(parent), detail[0]()
                if kind is None or owner is None or not issubclass(kind, owner):
                    raise Unreadable(str(source))
                return self.put("slot", self.read(parent), self.machine.slot_offset(owner, detail[1]))
            case "item":
                return self.item(parent, detail)
            case "key" | "value":
                return self.walk(parent) + 2 * int(detail) + (source.kind == "value")
            case "cell" if self.known(parent) is types.CellType or parent.kind == "item":
                return self.cell(parent)
            case "type":
                return self.put("type", self.read(parent))
            case "size" if self.sized:
                _array(self, parent)  # whose sizes are checked
                return self.put("constant", fetch(source, self.function, self.values))
            case _:
                raise Unreadable(str(source))

    def cell(self, parent: Source) -> int:
        offset = self.machine.member_offset(types.CellType, "cell_contents")
        if offset is None:
            raise Unreadable(str(parent))
        above = self.read(parent)
        self.ask("type_is", above, types.CellType)
        return self.put("slot", above, offset)

    def member(self, parent: Source, name: str) -> int:
        kind = self.known(parent)
        if kind is None:
            raise Unreadable(f"{name} of {parent}")
        if kind in PLAIN:
            if name == "array" and parent in self.arrays:
                return self.arrays[parent]
            if name in Tensor.__slots__ and not name.startswith("__"):
                return self.put("slot", self.read(parent), self.machine.slot_offset(Tensor, name))
        elif name == "__dict__" and not issubclass(kind, type) and has_plain_dict(kind):
            if kind.__dictoffset__ == 0:
                raise Unreadable(str(parent))
            return self.put("instance_dict", self.read(parent), dict)
        else:
            offset = self.machine.member_offset(kind, name)
            if offset is not None:
                return self.put("slot", self.read(parent), offset)
        raise Unreadable(f"{name} of {parent}")

    def item(self, parent: Source, key: Any) -> int:
        kind = self.known(parent)
        if kind is None and parent.kind == "member" and parent.detail in ("__closure__", "__defaults__"):
            self.ask("type_is", self.read(parent), tuple)
            kind = self.types[parent] = tuple
        if kind in (list, tuple) and type(key) is int and key >= 0:
            return self.put(f"{kind.__name__}_item", self.read(parent), key)
        if kind is not None and builtin_base(kind) in DICTS and type(key) in (str, int):
            return self.put("dict_item", self.read(parent), key)
        raise Unreadable(f"{parent}[{key!r}]")

    def walk(self, parent: Source) -> int:
        """The register of a dict's first key; its value is in the next, and so on."""
        place = parent.member("<entries>")
        if place not in self.found:
            kind, count = self.known(parent), self.lengths.get(parent)
            if kind is None or builtin_base(kind) is not dict or count is None:
                raise Unreadable(str(parent))
            above, register = self.read(parent), self.register(2 * count)
            self.done.append(("dict_walk", register, above, count))
            self.found[place] = register
        return self.found[place]

    # -- guards ----------------------------------------------------------------------------------------------
    def guard(self, guard: Guard) -> None:
        """Puts a guard among the checks. What it put stays there when it cannot be finished."""
        if id(guard) in self.settled:
            return
        CHECKERS[guard.kind](self, guard)
        self.settled.add(id(guard))


# -- guards as checks ----------------------------------------------------------------------------------------
def _type(checks: Checks, guard: Guard) -> None:
    source = _source(guard)
    checks.ask("type_is", checks.read(source), checks.hold(guard.payload))
    checks.types[source] = guard.payload()


def _is(checks: Checks, guard: Guard) -> None:
    checks.ask("is_object", checks.read(_source(guard)), checks.hold(guard.payload))


def _equal(checks: Checks, guard: Guard) -> None:
    source, picture = _source(guard), guard.payload
    differs(checks, checks.read(source), picture)
    checks.types[source] = picture.kind if type(picture) is Tree else type(picture)


def differs(checks: Checks, register: int, picture: Any) -> None:
    """Checks that a register's object is what the picture shows."""
    kind = type(picture)
    if kind is Tree and picture.kind in (tuple, list):
        checks.ask("type_is", register, picture.kind)
        checks.ask("length", register, len(picture.items))
        for place, item in enumerate(picture.items):
            differs(checks, checks.put(f"{picture.kind.__name__}_item", register, place), item)
    elif kind in SINGLETONS:
        checks.ask("is_object", register, picture)
    elif kind is float:
        checks.ask("type_is", register, float)
        checks.ask("bits", register, int.from_bytes(float_bits(picture), "little", signed=True))
    elif kind in (int, str, bytes):
        checks.ask("type_is", register, kind)
        checks.ask("equal", register, picture)
    else:
        raise Unreadable(repr(picture))


def _length(checks: Checks, guard: Guard) -> None:
    source = _source(guard)
    kind, register = checks.known(source), checks.read(source)
    if kind is None and source.kind == "member" and source.detail in ("__closure__", "__defaults__"):
        checks.ask("type_is", register, tuple)
        kind = checks.types[source] = tuple
    if kind in (list, tuple):
        checks.ask("length", register, guard.payload)
    elif kind is not None and builtin_base(kind) in DICTS:
        checks.ask("dict_length", register, guard.payload)
    else:
        raise Unreadable(str(guard))
    checks.lengths[source] = guard.payload


def _keys(checks: Checks, guard: Guard) -> None:
    source, keys = _source(guard), guard.payload.items
    kind = checks.known(source)
    if kind is None or builtin_base(kind) not in DICTS:
        raise Unreadable(str(guard))
    register = checks.read(source)
    if not keys:
        checks.ask("dict_length", register, 0)
    elif builtin_base(kind) is OrderedDict:  # whose order is its own
        raise Unreadable(str(guard))
    else:
        there = fetch(source, checks.function, checks.values)
        if not same_keys(there, keys) or any(type(key) is not str for key in there):
            raise Unreadable(str(guard))
        checks.ask("dict_keys", register, len(keys), list(there))  # the very objects
    checks.lengths[source] = len(keys)


def _membership(checks: Checks, guard: Guard) -> None:
    source = _source(guard)
    if source.kind == "constant":  # a class's names
        _of_class(checks, guard)
        return
    kind = checks.known(source)
    if kind is None or builtin_base(kind) not in DICTS or type(guard.payload) is not str:
        raise Unreadable(str(guard))
    if guard.kind == "HAS":
        checks.put("dict_item", checks.read(source), guard.payload)
    else:
        checks.ask("dict_lacks", checks.read(source), guard.payload)


def _of_class(checks: Checks, guard: Guard) -> None:
    checks.unchanged(_source(guard))
    if not holds(guard, checks.function, checks.values):
        raise Unreadable(str(guard))


def _code(checks: Checks, guard: Guard) -> None:
    source = _source(guard)
    offset = checks.machine.member_offset(types.FunctionType, "__code__")
    if offset is None:
        raise Unreadable(str(guard))
    register = checks.read(source)
    checks.ask("type_is", register, types.FunctionType)
    checks.ask("slot_is", register, offset, guard.payload)
    checks.types[source] = types.FunctionType


def _same(checks: Checks, guard: Guard) -> None:
    checks.ask("is", checks.read(_source(guard)), checks.read(guard.payload))


def _distinct(checks: Checks, guard: Guard) -> None:
    sources = list(dict.fromkeys([_source(guard), *guard.payload]))
    registers = [checks.read(source) for source in sources]
    if len(registers) > 1:
        checks.ask("distinct", len(registers), registers, [0] * len(registers))


def _tensor(checks: Checks, guard: Guard) -> None:
    source, facts = _source(guard), guard.payload
    if facts.cls not in PLAIN or facts.device.type != "cpu":
        raise Unreadable(str(guard))
    sizes: Iterable[int] = [-1 if size is None else size for size in facts.shape]
    if checks.sized and None in facts.shape:
        if not holds(guard, checks.function, checks.values):
            raise Unreadable(str(guard))
        sizes = fetch(source, checks.function, checks.values).array.shape
    expected = [facts.cls, facts.requires_grad, facts.dtype, len(facts.shape), *sizes]
    checks.arrays[source] = checks.put("tensor", checks.read(source), expected)
    checks.types[source] = facts.cls


def _array(checks: Checks, source: Source) -> int:
    if source not in checks.arrays:
        checks.known(source)
    if source not in checks.arrays:
        raise Unreadable(str(source))
    return checks.arrays[source]


def _stride(checks: Checks, guard: Guard) -> None:
    array = _array(checks, _source(guard))
    found = fetch(_source(guard), checks.function, checks.values).array
    if found.size == 0:
        raise Unreadable(str(guard))
    steps = [step * found.itemsize for step in guard.payload]
    checks.ask("strides", array, len(steps), steps)


SLOT_FACTS: Final[dict[str, tuple[str, Any, bool]]] = {
    "is_leaf": ("node", None, True),
    "is_view": ("origin", None, False),
    "is_inference": ("cell", INFERENCE, True),
    "has_grad": ("_grad", None, False),
    "has_hooks": ("hooks", None, False),
}
"""A fact as a slot, an object, and whether the slot holds that object where the fact does."""
FLAG_FACTS: Final = {"is_contiguous": C_CONTIGUOUS, "writeable": WRITEABLE}


def _fact(checks: Checks, guard: Guard) -> None:
    source, (fact, value) = _source(guard), guard.payload
    if checks.known(source) not in PLAIN or (fact == "has_hooks" and value):
        raise Unreadable(str(guard))
    if fact in FLAG_FACTS:
        mask = FLAG_FACTS[fact]
        checks.ask("flags", _array(checks, source), mask, mask if value else 0)
        return
    slot, there, when = SLOT_FACTS[fact]
    name = "slot_is" if when is value else "slot_isnt"
    checks.ask(name, checks.read(source), checks.machine.slot_offset(Tensor, slot), there)


def _mode(checks: Checks, guard: Guard) -> None:
    if type(guard.payload) is not bool:
        raise Unreadable(str(guard))
    checks.ask("mode", modes.state, guard.payload)


def _ambient(checks: Checks, guard: Guard) -> None:
    ref, picture = guard.payload
    if type(picture) not in SINGLETONS:
        raise Unreadable(str(guard))
    checks.ask("call_is", checks.hold(ref), picture)


def _condition(checks: Checks, guard: Guard) -> None:
    """A condition on whole numbers that are checked to be those of this call, for which it holds."""
    if not checks.sized or not holds(guard, checks.function, checks.values):
        raise Unreadable(str(guard))
    found = [(source, fetch(source, checks.function, checks.values)) for _, source in guard.payload.sources]
    if any(type(value) is not int for _source, value in found):
        raise Unreadable(str(guard))
    for source, value in found:
        register = checks.read(source)
        if source.kind != "size":
            differs(checks, register, value)


def _left(checks: Checks, guard: Guard) -> None:
    raise Unreadable(str(guard))


def _source(guard: Guard) -> Source:
    assert guard.source is not None
    return guard.source


CHECKERS: Final[dict[str, Callable[[Checks, Guard], None]]] = {
    "TYPE": _type, "IS": _is, "EQ": _equal, "CONTENTS": _equal, "LEN": _length, "KEYS": _keys,
    "HAS": _membership, "LACKS": _membership, "ABSENT": _of_class, "MRO": _of_class, "TENSOR": _tensor,
    "STRIDE": _stride, "FACT": _fact, "CODE": _code, "SAME": _same, "DISTINCT": _distinct, "UNSET": _left,
    "MODE": _mode, "AMBIENT": _ambient, "CONDITION": _condition,
}  # fmt: skip


# -- when ----------------------------------------------------------------------------------------------------
OFTEN = 2
"""So often an entry has served a call before a shortcut to it is made."""


def when_served(
    step: Callable[..., Any],
    then: Callable[[Any, Any], None],
    first: Callable[[Any, Any], None] | None = None,
) -> Callable[..., Any]:
    """The entry; once it has served often enough, `then` is told the function and the values of the call;
    `first` is told those of the first one.
    """
    served = 0

    @uncounted
    def run(function: Any, *values: Any) -> Any:
        nonlocal served
        result = step(function, *values)
        if result is not MISS:
            served += 1
            if served == 1 and first is not None:
                first(function, values)
            if served == OFTEN:
                then(function, values)
        return result

    return run


# -- shortcuts -----------------------------------------------------------------------------------------------
Python = Callable[[types.CodeType, GuardSet], Callable[..., Any]]
"""Makes a Python function of guards."""


def shortcut(
    recipe: Recipe,
    machine: Machine,
    python: Python,
    slow: Any,
    function: Any,
    values: Sequence[Any],
    direct: Any = None,
) -> tuple[str, dict[str, Any], bool] | None:
    """The text of an entry's shortcut, what it needs beside the entry's own names, and whether it runs the
    program, which then is for calls like this one alone; None where there is none. The entry, which is to
    stand behind it, has just served a call of the function with these values, or `direct` says how it is run.
    """
    names = parameter_names(recipe.code)
    given = function, dict(zip(names, values, strict=True))
    checks = Checks(machine, names, *given)
    left = _settle(checks, recipe.guards)
    if direct is not None:
        return _text(recipe, checks, left, direct, _operands(recipe, checks), python, slow)
    direct, operands = _direct(recipe, machine, checks)
    if direct is None:
        checks = Checks(machine, names, *given, sized=False)
        left = _settle(checks, recipe.guards)
    return _text(recipe, checks, left, direct, operands, python, slow)


def _text(
    recipe: Recipe, checks: Checks, left: list[Guard], direct: Any, operands: Operands, python: Any, slow: Any
) -> tuple[str, dict[str, Any], bool] | None:
    machine, names = checks.machine, checks.names
    finish = None if direct is None else machine.finish(direct)
    read = recipe.read if direct is None else recipe.read_behind
    try:
        wanted = [checks.read(source) for source in read.values()]
    except Unreadable:
        return None
    if finish is not None:
        wanted += [register for register, _array in operands]
    if left:
        rest = python(recipe.code, _with_types(left, checks))
        checks.done.insert(0, ("call_missing", 0, rest))
    checks.done.sort(key=lambda check: check[0] not in ("call_missing", "call_is"))
    native = machine.make(checks.done, checks.registers, wanted, direct, operands)
    given = ", ".join([FUNCTION, *map(local_name, names)])
    lines = [f"{FOUND} = {NATIVE}({given})", f"if {FOUND} is {MISS!r}: return {SLOW}({given})"]
    if finish is not None:
        start = -len(wanted)
        results, inputs = f"{FOUND}[:{start}]", f"{FOUND}[{-len(operands)}:]"
        lines += [f"{MADE} = {FINISH}({results}, {inputs})", f"if {MADE} is None: return {SLOW}({given})"]
        lines += [f"[{', '.join(recipe.outputs)}] = {MADE}"] if recipe.outputs else []
        part = f"{FOUND}[{start}:{-len(operands)}]"
        lines += [f"[{', '.join(read)}] = {part}"] if read else []
        lines.append(f"del {FOUND}, {MADE}")
    else:
        variables = [*(recipe.outputs if direct is not None else ()), *read]
        lines += [f"[{', '.join(variables)}] = {FOUND}", f"del {FOUND}"] if variables else []
    lines += recipe.lines if direct is None else recipe.ending or []
    text = "\n".join([f"def entry({given}):", *("    " + line for line in lines)]) + "\n"
    return text, {NATIVE: native, SLOW: slow, FINISH: finish, repr(MISS): MISS}, direct is not None


def _settle(checks: Checks, guards: GuardSet) -> list[Guard]:
    """Puts guards among the checks; gives those that cannot be."""
    for guard in guards:
        if guard.source is not None and guard.kind in ("TYPE", "TENSOR", "CODE"):
            checks.typing.setdefault(guard.source, []).append(guard)
    left = []
    for guard in sorted(guards, key=_turn):
        try:
            if guard.source is not None:
                checks.walk_to(guard.source)
            checks.guard(guard)
        except (Unreadable, ReferenceError, LookupError, AttributeError, TypeError):
            left.append(guard)
    return left


FIRST: Final = frozenset({"MODE", "AMBIENT", "ABSENT", "MRO", "LEN", "KEYS"})


def _turn(guard: Guard) -> int:
    """When a guard is checked: sizes that vary come first, since most misses are theirs."""
    if guard.kind == "TENSOR" and None in guard.payload.shape and _source(guard).kind == "local":
        return 0
    return 1 if guard.kind in FIRST else 2


def _with_types(left: list[Guard], checks: Checks) -> GuardSet:
    """The guards, behind those that say of what type things are on the way to what they read."""
    found = GuardSet()
    for guard in left:
        sources = [] if guard.source is None else [guard.source]
        if guard.kind == "CONDITION":
            sources += [source for _symbol, source in guard.payload.sources]
        elif guard.kind in ("SAME", "DISTINCT"):
            sources += [guard.payload] if guard.kind == "SAME" else guard.payload
        for place in [step for source in sources for step in source.path()]:
            found.update(checks.typing.get(place, ()))
        found.add(guard)
    return found


def _operands(recipe: Recipe, checks: Checks) -> Operands:
    return [(checks.read(source), checks.arrays.get(source)) for source in recipe.inputs]


def _direct(recipe: Recipe, machine: Machine, checks: Checks) -> tuple[Any, Operands]:
    """How the graph runs natively, and the registers of its inputs; None where it does not."""
    if recipe.ending is None or recipe.graph is None:
        return None, []
    try:
        operands = _operands(recipe, checks)
        inputs = [fetch(source, checks.function, checks.values) for source in recipe.inputs]
    except Unreadable:
        return None, []
    return machine.direct(recipe.graph, inputs), operands


def variables_read(reader: Reader, names: Iterable[str]) -> dict[str, Source] | None:
    """What guards have read into these variables; None where that is no source's value."""
    sources = {name: source for source, name in reader.names.items()}
    return {name: sources[name] for name in names} if all(name in sources for name in names) else None
