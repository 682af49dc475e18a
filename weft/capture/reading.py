"""Reading sources in generated code: each source once, into a variable that later code may use again.

Takes the lines of a function under construction and its globals; `read` gives the name under which a source's
value stands, appending the assignments that it needs; `constant` gives a literal or a global. One idea: the
first reader pays, so guards and the segment after them share variables.

# Note [Names]
Parameters keep the user's names. Everything generated starts with `_v` and a digit or underscore, and is none
of the names in `reserved`; builtins are bound under such names too, since a parameter may be called `len`.
The lines are to stand in a `try` whose `except Exception` returns MISS: a read that fails is a miss.
"""

from __future__ import annotations

import builtins
import re
import sys
import types
from collections import OrderedDict, deque
from collections.abc import Iterable
from typing import Any, Final

from weft.capture.plain import SEQUENCES
from weft.capture.sources import (
    APPLIED,
    DICT_MAKERS,
    DICT_MEMBERS,
    Nothing,
    Ref,
    Source,
    builtin_base,
    cell_value,
    class_dict,
    class_mro,
    instance_dict,
    nth,
    safe_item,
    safe_iter,
    safe_member,
    safe_values,
    slot_value,
    written_in_c,
)
from weft.core.interrupts import let_through
from weft.core.origins import ENTRY
from weft.tensor.base import PLAIN, Tensor

FUNCTION: Final = ENTRY
"""The name under which the entry must provide its own function, if `function()` is read."""


class _Miss:
    __slots__ = ()

    def __repr__(self) -> str:
        return "MISS"

    def __reduce__(self) -> str:
        return "MISS"


MISS: Final = _Miss()
"""What an entry returns when a guard fails."""


def missed() -> Any:
    """MISS, where a guard has raised."""
    error = sys.exc_info()[1]
    if error is not None:
        let_through(error)
    return MISS


# What a member of a C object always is, so that its parts can be read without asking.
MEMBER_TYPES: Final[dict[str, type]] = {
    "__dict__": dict,
    "__globals__": dict,
    "__builtins__": dict,
    "__closure__": tuple,
    "keywords": dict,
    "args": tuple,
    "shape": tuple,
    "__mro__": tuple,
}
LITERAL_TYPES: Final = frozenset({type(None), bool, int, str, bytes, float, type(Ellipsis)})


def local_name(name: str) -> str:
    """The parameter's name in generated code: its own, unless it is none (`.0`)."""
    return name if name.isidentifier() else "_v_" + re.sub(r"\W", "", name)


def is_literal(value: Any) -> bool:
    """Whether `repr` is Python text for a constant of the same type and bits."""
    kind = type(value)
    if kind is tuple:
        return all(map(is_literal, value))
    if kind is int:
        return bool(abs(value) < 1 << 256)
    if kind is float:
        return bool(value - value == 0.0)  # neither infinite nor NaN
    return kind in LITERAL_TYPES


class Reader:
    """Names for sources and constants within one generated function."""

    def __init__(self, lines: list[str], namespace: dict[str, Any], reserved: Iterable[str] = ()) -> None:
        self.lines = lines
        self.namespace = namespace
        self.reserved = set(reserved)
        self.names: dict[Source, str] = {}
        self.types: dict[Source, type] = {}
        """Exact types that the lines so far have checked: reads from these sources may take the short way."""
        self.facts: dict[Source, Any] = {}
        """What the lines so far have checked of tensors, as `TensorFacts`."""
        self.terse = False
        """Whether the text is to be short, as it is long anyway."""
        self._constants: dict[int, str] = {}
        self._count = 0

    # -- names -----------------------------------------------------------------------------------------------
    def fresh(self, hint: str = "") -> str:
        """A name that nothing else has."""
        while True:
            name = f"_v{self._count}" + (f"_{hint}" if hint else "")
            self._count += 1
            if name not in self.reserved and name not in self.namespace:
                return name

    def constant(self, value: Any, hint: str = "") -> str:
        """A literal, or the name of a global that holds the value (strongly)."""
        if is_literal(value):
            return "..." if value is Ellipsis else repr(value)
        return self.bind(value, hint)

    def bind(self, value: Any, hint: str = "") -> str:
        """The name of a global that holds this very object."""
        name = self._constants.get(id(value))
        if name is None:
            name = self._constants[id(value)] = self.fresh(re.sub(r"\W", "_", hint))
            self.namespace[name] = value
        return name

    def assign(self, text: str, hint: str = "") -> str:
        """Emits an assignment to a new variable; gives its name."""
        name = self.fresh(hint)
        self.lines.append(f"{name} = {text}")
        return name

    def miss_if(self, text: str) -> None:
        self.lines.append(f"if {text}: return {self.constant(MISS, 'MISS')}")

    def known(self, source: Source) -> type | None:
        """The exact type of what stands at the source, where the lines so far or its nature tell."""
        found = self.types.get(source)
        if found is not None:
            return found
        if source.kind == "module":
            return dict
        if source.kind == "function":
            return types.FunctionType
        if source.kind == "member":
            return MEMBER_TYPES.get(source.detail)
        parent = source.parent
        if source.kind == "item" and parent is not None and parent.detail == "__closure__":
            return types.CellType
        return None

    # -- reading ---------------------------------------------------------------------------------------------
    def read(self, source: Source) -> str:
        """The name of the variable or parameter that holds the source's value."""
        name = self.names.get(source)
        if name is None:
            name = self.names[source] = self._root(source) if source.parent is None else self._step(source)
        return name

    def read_ref(self, ref: Ref) -> str:
        """The name of an object held by a Ref; gone is a miss."""
        if ref.weak is None:
            return self.constant(ref.strong, getattr(ref.strong, "__name__", ""))
        name = self.assign(f"{self.constant(ref.weak)}()")
        self.miss_if(f"{name} is None")
        return name

    def _root(self, source: Source) -> str:
        match source.kind:
            case "local":
                return local_name(source.detail)
            case "function":
                return FUNCTION
            case "module":
                return self.constant(safe_member(sys.modules[source.detail], "__dict__"), "globals")
            case "builtin":
                return self.assign(f"{self.constant(builtins.__dict__, 'builtins')}[{source.detail!r}]")
            case _:
                return self.read_ref(source.detail)

    def _step(self, source: Source) -> str:
        parent, detail = source.parent, source.detail
        assert parent is not None
        if source.kind == "field":
            return self.assign(f"{self.read(parent.member('__dict__'))}[{detail!r}]")
        if source.kind == "entry":
            return self.assign(f"{self.read_class_dict(parent)}[{detail!r}]")
        if source.kind == "item":
            return self._item(source, parent)
        if source.kind == "size":
            return self.assign(f"{self.read_shape(parent)}[{detail}]")
        if source.kind == "member" and detail == "array":
            return self._slot(parent, Ref(Tensor), "array")
        above = self.read(parent)
        match source.kind:
            case "slot":
                return self._slot(parent, *detail)
            case "member":
                name = self.assign(self._member(parent, above, detail))
                kind = self.known(parent)
                if detail in DICT_MEMBERS and kind is not None and not issubclass(kind, type):
                    checks = self.constant(type, "type"), self.constant(dict, "dict")
                    self.miss_if(
                        f"{checks[0]}({name}) is not {checks[1]}"
                    )  # somebody may put a subclass there
                return name
            case "key" | "element":
                return self.assign(f"{self.constant(nth, 'nth')}({self.iteration(parent)}, {detail})")
            case "value":
                values = f"{self.constant(safe_values, 'values')}({above})"
                return self.assign(f"{self.constant(nth, 'nth')}({values}, {detail})")
            case "cell":
                short = self.known(parent) is types.CellType
                reader = self.constant(cell_value, "cell")
                return self.assign(f"{above}.cell_contents" if short else f"{reader}({above})")
            case "maybe":
                return self._maybe(above, detail[0], detail[1]())
            case "length" if (kind := self.known(parent)) is not None and written_in_c(kind):
                return self.assign(f"{self.constant(len, 'len')}({above})")
            case kind:
                hint = "id" if kind == "address" else kind
                return self.assign(f"{self.constant(APPLIED[kind], hint)}({above})")

    def _item(self, source: Source, parent: Source) -> str:
        above, kind = self.read(parent), self.known(parent)
        key = self.constant(source.detail)
        if kind is dict or kind is OrderedDict or kind is deque or kind in SEQUENCES:
            return self.assign(f"{above}[{key}]")
        if kind is not None and builtin_base(kind) in (dict, OrderedDict):
            miss = self.constant(MISS, "MISS")
            name = self.assign(f"{self.constant(dict.get, 'get')}({above}, {key}, {miss})")
            self.miss_if(f"{name} is {miss}")
            return name
        return self.assign(f"{self.constant(safe_item, 'item')}({above}, {key})")

    def _maybe(self, above: str, key: Any, kind: type) -> str:
        nothing = self.bind(Nothing(), "nothing")
        name = self.assign(f"{self.constant(dict.get, 'get')}({above}, {self.constant(key)}, {nothing})")
        exact = f"{self.constant(type, 'type')}({name}) is not {self.constant(kind, kind.__name__)}"
        self.miss_if(f"{exact} and {name} is not {nothing}")
        return name

    def _slot(self, parent: Source, owner: Ref, name: str) -> str:
        above = self.read(parent)
        if owner.weak is not None:
            return self.assign(
                f"{self.constant(slot_value, 'slot')}({above}, {self.read_ref(owner)}, {name!r})"
            )
        if owner.strong is Tensor and self.known(parent) in PLAIN:
            return self.assign(f"{above}.{name}")
        getter = class_dict(owner.strong)[name].__get__
        return self.assign(f"{self.constant(getter, name)}({above})")

    def _member(self, parent: Source, above: str, name: str) -> str:
        kind = self.known(parent)
        if name == "shape" and parent.kind == "member" and parent.detail == "array":
            return f"{above}.shape"  # of our own slot: an array
        if name == "__dict__" and (kind is None or issubclass(kind, type) or not has_plain_dict(kind)):
            if kind is not None and not issubclass(kind, type):
                return f"{self.constant(instance_dict, 'dict')}({above})"
            return f"{self.constant(safe_member, 'member')}({above}, '__dict__')"
        if kind is not None and (name == "__dict__" or written_in_c(kind) or kind in PLAIN):
            return f"{above}.{name}"
        return f"{self.constant(safe_member, 'member')}({above}, {name!r})"

    # -- parts that guards share with reads ------------------------------------------------------------------
    def read_class_dict(self, source: Source) -> str:
        """The dict of the class at the source: a global if the class is held by name."""
        place = source.member("__dict__")
        name = self.names.get(place)
        if name is None:
            ref = source.detail
            if source.kind == "constant" and ref.weak is None:
                name = self.constant(class_dict(ref.strong), f"{ref.strong.__name__}_dict")
            else:
                name = self.assign(f"{self.constant(class_dict, 'class_dict')}({self.read(source)})")
            self.names[place] = name
        return name

    def read_array(self, source: Source) -> str:
        """The array of the tensor at the source, whose class has been checked."""
        return self.read(source.member("array"))

    def read_shape(self, source: Source) -> str:
        """The shape of the tensor at the source, a tuple."""
        return self.read(source.member("array").member("shape"))

    def iteration(self, source: Source) -> str:
        """An iterator or iterable over the builtin container at the source."""
        kind = self.known(source)
        if kind is not None and written_in_c(kind):
            return f"{self.constant(iter, 'iter')}({self.read(source)})"
        return f"{self.constant(safe_iter, 'iter')}({self.read(source)})"


def has_plain_dict(kind: type) -> bool:
    """Whether `x.__dict__` of instances runs nothing of a user's."""
    for base in class_mro(kind):
        members = class_dict(base)
        if "__getattribute__" in members and not written_in_c(base):
            return False
    for base in class_mro(kind):
        if "__dict__" in class_dict(base):
            return type(class_dict(base)["__dict__"]) in DICT_MAKERS
    return False
