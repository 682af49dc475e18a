"""Where a value came from: a root and steps, as data that prints and can be read again on the next call.

Takes nothing; gives `Source` (an immutable chain), `Ref` (how a guard or a source holds an object without
keeping users' objects alive) and `fetch`, the reference way to read a source. One idea: whatever capture
reads from the outside world it reads along a Source, so that the same path can be guarded, printed, emitted.

# Note [Reading without running user code]
A source is read while nothing is known yet about the objects on its way, so no step may run code that a user
wrote. Attributes are read by the descriptors of classes written in C (`safe_member`), instance dicts by the
getset descriptor that made them (`instance_dict`), items of containers by the methods of the builtin class.
Looking up a string in a dict may still call `__eq__` of a key with the same hash: Python's own lookup of that
name would call it too.
"""

from __future__ import annotations

import builtins
import enum
import functools
import operator
import re
import sys
import types
import weakref
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np

from weft.capture.walkers import place, walked
from weft.core.device import device
from weft.core.dtypes import dtype
from weft.core.errors import IMMUTABLE_TYPE
from weft.core.interrupts import let_through
from weft.core.naming import home
from weft.core.types import layout, memory_format
from weft.tensor.base import PLAIN
from weft.tensor.meta import MetaArray

class_dict: Final[Callable[[type], Mapping[str, Any]]] = type.__dict__["__dict__"].__get__
class_mro: Final[Callable[[type], tuple[type, ...]]] = type.__dict__["__mro__"].__get__
class_flags: Final[Callable[[type], int]] = type.__dict__["__flags__"].__get__
cell_value: Final[Callable[[Any], Any]] = types.CellType.__dict__["cell_contents"].__get__
referent: Final[Callable[[Any], Any]] = weakref.ReferenceType.__call__

class_module: Final[Callable[[type], Any]] = type.__dict__["__module__"].__get__
class_name: Final[Callable[[type], Any]] = type.__dict__["__qualname__"].__get__

DICT_MAKERS: Final = (types.GetSetDescriptorType, types.MemberDescriptorType)
CLASS_MEMBERS: Final = frozenset(
    {
        *DICT_MAKERS,
        types.WrapperDescriptorType,
        types.MethodDescriptorType,
        types.ClassMethodDescriptorType,
    }
)
NAMED: Final = frozenset({dtype, layout, memory_format})


# -- holding -------------------------------------------------------------------------------------------------
class Unholdable(TypeError):
    """The object can be held neither by name nor weakly: guard its type and contents instead."""


# Objects of these very classes hold nothing of a user's, so a strong reference keeps nothing alive.
INERT: Final = frozenset(
    {
        object,
        type(None),
        type(Ellipsis),
        type(NotImplemented),
        bool,
        types.CodeType,
        types.WrapperDescriptorType,
        types.MethodDescriptorType,
        types.ClassMethodDescriptorType,
        device,
        *NAMED,
        np.ufunc,
    }
)


def is_a(value: Any, kind: type) -> bool:
    """As `isinstance`, which would ask the object for its `__class__`."""
    return issubclass(type(value), kind)


def written_in_c(kind: type) -> bool:
    """Whether the class cannot be changed: no attribute of it can be set, nor its bases."""
    return bool(class_flags(kind) & IMMUTABLE_TYPE)


def c_base(kind: type) -> type:
    """The first class written in C: what it keeps, no attribute shows."""
    return next(base for base in class_mro(kind) if written_in_c(base))


def importable_name(value: Any) -> str | None:
    """`module:qualified.name` where importing finds this very object, else None."""
    if is_a(value, types.ModuleType):
        name = safe_member(value, "__dict__").get("__name__")
        return f"{name}:" if type(name) is str and sys.modules.get(name) is value else None
    path = _stated_name(value)
    return path if path is not None and "<" not in path and by_name(path) is value else None


def _stated_name(value: Any) -> str | None:
    """The name that the object itself gives, without asking whether it is there."""
    kind = type(value)
    if is_a(value, type):
        parts = class_module(value), class_name(value)
    elif kind is types.FunctionType or kind is types.BuiltinFunctionType:
        parts = value.__module__, value.__qualname__
    elif kind.__module__ == "numpy" and written_in_c(kind):  # ufuncs and other functions of NumPy
        parts = getattr(value, "__module__", "numpy"), getattr(value, "__name__", None)
    elif kind in NAMED:
        parts = "weft", value.name
    elif kind in CLASS_MEMBERS:
        owner = _stated_name(value.__objclass__)
        return None if owner is None else f"{owner}.{value.__name__}"
    elif is_a(value, enum.Enum):
        owner, name = _stated_name(kind), instance_dict(value).get("_name_")
        return None if owner is None or type(name) is not str else f"{owner}.{name}"
    else:
        return None
    module, name = parts
    return f"{module}:{name}" if type(module) is str and type(name) is str else None


def by_name(path: str) -> Any:
    """What an importable name stands for in the modules loaded now; None where it stands for nothing."""
    module, _, name = path.partition(":")
    value: Any = sys.modules.get(module)
    for part in name.split(".") if name else ():
        if is_a(value, type):
            members = class_dict(value)
        elif is_a(value, types.ModuleType):
            members = value.__dict__
        else:
            return None
        value = members.get(part)
    return value


WRAPPERS: Final[dict[type, tuple[str, ...]]] = {
    property: ("fget", "fset", "fdel"),
    classmethod: ("__func__",),
    staticmethod: ("__func__",),
}


def wrapped_parts(value: Any) -> list[Any]:
    return [getattr(value, name) for name in WRAPPERS[type(value)]]


class Ref:
    """One object, by importable name if it has one, strongly if it is inert, else weakly; the descriptor of a
    slot by its class and name; a property or class method by what it wraps, since nothing else can hold it.

    Two Refs are equal if they were made for the same object. `Unholdable` for what can be held in no way.
    """

    __slots__ = ("identity", "name", "strong", "weak", "label", "kind", "parts")

    def __init__(self, value: Any, label: str = "") -> None:
        self.identity = id(value)
        self.name = importable_name(value)
        self.label = label or self.name or type(value).__name__
        self.strong: Any = None
        self.weak: Callable[[], Any] | None = None
        self.kind = type(value) if type(value) in WRAPPERS else None
        self.parts: tuple[Ref, ...] | None = None
        if self.name is not None or is_inert(value):
            self.strong = value
            return
        if self.kind is not None:
            self.parts = tuple(Ref(part) for part in wrapped_parts(value))
            return
        if type(value) in DICT_MAKERS:
            self.weak = WithinClass(value.__objclass__, value.__name__, value)
            return
        if is_a(value, enum.Enum):  # IntEnum members have no weak references
            fields = instance_dict(value)
            named = fields["_name_"] in class_dict(type(value)).get("_member_map_", ())
            self.weak = WithinClass(type(value), fields["_name_" if named else "_value_"], value)
            return
        try:
            self.weak = weakref.ref(value)
        except TypeError as error:
            let_through(error)
            raise Unholdable(f"objects of class {type(value).__name__} have no weak references") from None

    def __call__(self) -> Any:
        """The object, or None once it is gone (and for what is known by its parts alone)."""
        return self.strong if self.weak is None else self.weak()

    @property
    def is_none(self) -> bool:
        return self.weak is None and self.strong is None and self.parts is None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Ref) or self.identity != other.identity:
            return False
        # An id may be used again after its object died.
        if type(self.weak) is weakref.ref:
            return self.weak is other.weak  # one object has one plain weak reference
        return self.weak == other.weak and self.strong is other.strong and self.parts == other.parts

    def __hash__(self) -> int:
        return hash(self.identity)

    def __repr__(self) -> str:
        return f"<{self.label}>"


class WithinClass:
    """What a class made (a slot's descriptor, a member of an enum), found again by the class, held as a Ref,
    and its name.
    """

    __slots__ = ("owner", "name")

    def __init__(self, owner: type, name: Any, value: Any) -> None:
        self.owner, self.name = Ref(owner), name
        if self() is not value:
            raise Unholdable(f"{name} of {class_name(owner)} is not found in its class")

    def __call__(self) -> Any:
        owner = self.owner()
        if owner is None:
            return None
        members = class_dict(owner)
        if "_member_map_" not in members:
            return members.get(self.name)
        kind = "_member_map_" if type(self.name) is str else "_value2member_map_"  # flags put together
        return members[kind].get(self.name)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, WithinClass) and (self.owner, self.name) == (other.owner, other.name)

    def __hash__(self) -> int:
        return hash((self.owner, self.name))


GETTERS: Final = frozenset({operator.attrgetter, operator.itemgetter, operator.methodcaller})
GETTER_PARTS: Final = frozenset({str, int, float, bool, bytes, type(None)})


def is_inert(value: Any) -> bool:
    """Whether a strong reference to the object keeps nothing of a user's alive."""
    kind = type(value)
    if kind is types.BuiltinFunctionType:
        owner = value.__self__
        return owner is None or is_a(owner, types.ModuleType) or is_inert(owner)
    if is_a(value, type):
        return written_in_c(value)
    if kind in GETTERS:
        maker, parts = value.__reduce__()
        more = (*maker.args, *maker.keywords.values()) if type(maker) is functools.partial else ()
        return all(type(part) in GETTER_PARTS for part in (*parts, *more))
    return kind in INERT or is_a(value, np.dtype) or home(kind).startswith("weft.core.")


# -- sources -------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """A root, or a step from a parent. Equal sources read the same place."""

    parent: Source | None
    kind: str
    detail: Any = None
    _hash: int = field(init=False, repr=False, default=0)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash((self.parent, self.kind, self.detail)))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return (
            isinstance(other, Source)
            and self._hash == other._hash
            and self.kind == other.kind
            and self.detail == other.detail
            and self.parent == other.parent
        )

    # -- steps
    # ------------------------------------------------------------------------------------------------------
    def field(self, name: str) -> Source:
        return Source(self, "field", name)

    def slot(self, owner: type, name: str) -> Source:
        return Source(self, "slot", (Ref(owner), name))

    def member(self, name: str) -> Source:
        return Source(self, "member", name)

    def item(self, key: Any) -> Source:
        return Source(self, "item", key)

    def key(self, position: int) -> Source:
        return Source(self, "key", position)

    def value(self, position: int) -> Source:
        return Source(self, "value", position)

    def element(self, position: int) -> Source:
        return Source(self, "element", position)

    def cell(self) -> Source:
        return Source(self, "cell")

    def entry(self, name: str) -> Source:
        return Source(self, "entry", name)

    def size(self, dim: int) -> Source:
        return Source(self, "size", dim)

    def maybe(self, key: Any, kind: type) -> Source:
        return Source(self, "maybe", (key, Ref(kind)))

    def length(self) -> Source:
        return Source(self, "length")

    def plain(self) -> Source:
        return Source(self, "plain")

    def address(self) -> Source:
        return Source(self, "address")

    def referent(self) -> Source:
        return Source(self, "referent")

    def walked(self) -> Source:
        return Source(self, "walked")

    def place(self) -> Source:
        return Source(self, "place")

    # -- facts
    # ------------------------------------------------------------------------------------------------------
    def root(self) -> Source:
        source = self
        while source.parent is not None:
            source = source.parent
        return source

    def path(self) -> list[Source]:
        """The sources from the root to this one."""
        steps = [self]
        while steps[-1].parent is not None:
            steps.append(steps[-1].parent)
        return steps[::-1]

    def __str__(self) -> str:
        return _text(self)

    def placeholder_name(self) -> str:
        """A name for the graph input that comes from here: `L_x_`, `L_self_modules_fc_parameters_weight_`."""
        return re.sub(r"[^a-zA-Z0-9]+", "_", str(self))


def local(name: str) -> Source:
    """A parameter of the entry, or a local of the frame it resumes."""
    return Source(None, "local", name)


def function() -> Source:
    """The entry's own function object."""
    return Source(None, "function")


def module(name: str) -> Source:
    """The dict of the module of this name: its globals are items of it."""
    return Source(None, "module", name)


def builtin(name: str) -> Source:
    """What the builtins module holds under this name."""
    return Source(None, "builtin", name)


def constant(label: str, holder: Any) -> Source:
    """An object known when capturing (a class, a function): held as `Ref` holds it."""
    ref = holder if isinstance(holder, Ref) else Ref(holder, label)
    if ref.parts is not None:
        raise Unholdable(f"{ref} is known by its parts alone")
    return Source(None, "constant", ref)


def _text(source: Source) -> str:
    key = source.detail
    if source.parent is None:
        match source.kind:
            case "local":
                return f"L[{key!r}]"
            case "function":
                return "F"
            case "module":
                return f"M[{key!r}]"
            case "builtin":
                return f"B[{key!r}]"
            case _:
                return str(key.label).replace(":", ".")
    if source.parent.kind == "function" and source.kind == "member" and key == "__globals__":
        return "G"
    return STEPS[source.kind].text(_text(source.parent), key)


# -- reading: the reference ----------------------------------------------------------------------------------
def exact_dict(value: Any) -> dict[str, Any]:
    if type(value) is not dict:
        raise TypeError("a dict of a class of its own")
    return value


def instance_dict(value: Any) -> dict[str, Any]:
    """The object's own dict, whatever its class says `__dict__` is. AttributeError where it has none;
    TypeError where it is of a class of its own, whose methods Python's lookup passes over.
    """
    for kind in class_mro(type(value)):
        maker: Any = class_dict(kind).get("__dict__")
        if type(maker) in DICT_MAKERS:
            return exact_dict(maker.__get__(value))
    raise AttributeError(f"{type(value).__name__} has no __dict__")


DICT_MEMBERS: Final = frozenset({"__dict__", "__globals__", "__builtins__"})
OURS: Final = PLAIN | {MetaArray}
"""Our own classes, whose slots are read as they are."""


READ_BY: Final[dict[tuple[type, str], Callable[[Any], Any]]] = {}
"""Members of classes of the library that a function reads, without running code of the user's."""


def safe_member(value: Any, name: str) -> Any:
    """The attribute as the first class in C that knows it answers; else from the object's own dict."""
    if name == "__dict__":
        return class_dict(value) if is_a(value, type) else instance_dict(value)
    if type(value) in OURS:
        return getattr(value, name)
    own = READ_BY.get((type(value), name))
    if own is not None:
        return own(value)
    for kind in class_mro(type(value)):
        if written_in_c(kind):
            found = class_dict(kind).get(name)
            if found is not None:
                result = found.__get__(value)
                return exact_dict(result) if name in DICT_MEMBERS else result
    return instance_dict(value)[name]


def builtin_base(kind: type) -> type | None:
    """The builtin container class that this class is or derives from."""
    for base in class_mro(kind):
        if base in CONTAINERS:
            return base
    return None


CONTAINERS: Final = frozenset(
    {
        list,
        tuple,
        dict,
        OrderedDict,
        set,
        frozenset,
        deque,
        str,
        bytes,
        bytearray,
        range,
        types.MappingProxyType,
    }
)
MAPPINGS: Final = frozenset({dict, OrderedDict})
ABSENT: Final = object()


def safe_length(value: Any) -> int:
    base: Any = builtin_base(type(value))
    if base is None:
        raise TypeError(f"no builtin length: {type(value).__name__}")
    length: int = base.__len__(value)
    return length


def safe_iter(value: Any) -> Any:
    base: Any = builtin_base(type(value))
    if base is None:
        raise TypeError(f"no builtin iteration: {type(value).__name__}")
    return base.__iter__(value)


def safe_values(value: Any) -> Any:
    """An iterator over the values of a dict: asked by key, it might run a `__hash__` of the user's."""
    base: Any = builtin_base(type(value))
    return iter(base.values(value))


def safe_item(value: Any, key: Any) -> Any:
    """`value[key]` of the builtin container, with neither `__missing__` nor a default factory."""
    base = builtin_base(type(value))
    if base is None:
        raise TypeError(f"no builtin items: {type(value).__name__}")
    if base in MAPPINGS:
        found = dict.get(value, key, ABSENT)
        if found is ABSENT:
            raise KeyError(key)
        return found
    getter: Any = base.__dict__["__getitem__"]
    return getter(value, key)


class Nothing:
    """Stands where a dict lacks a key: another one for each place."""


def maybe_item(value: Any, key: Any, kind: Any) -> Any:
    """What a dict has under a key, of this very class; Nothing where it lacks the key."""
    found = dict.get(value, key, ABSENT)
    if found is not ABSENT and type(found) is not kind:
        raise TypeError(f"not a {kind.__name__}")
    return Nothing() if found is ABSENT else found


def safe_contains(value: Any, key: Any) -> bool:
    """Whether a dict (or a subclass's dict part, or a class's dict) has the key."""
    if type(value) is types.MappingProxyType:
        return key in value
    return dict.__contains__(value, key)


PLAIN_PARTS: Final[dict[type, Callable[[Any], Any]]] = {
    int: int.__int__, float: float.__float__, complex: complex.__complex__, str: str.__str__,
    bytes: bytes.__bytes__,
}  # fmt: skip


def plain_part(value: Any) -> Any:
    """The exact number or text in an object of a subclass of these; the size of a set with its table."""
    base = c_base(type(value))
    return set.__sizeof__(value) if base is set else PLAIN_PARTS[base](value)


def nth(iterator: Any, position: int) -> Any:
    for _ in range(position):
        next(iterator)
    return next(iterator)


def slot_value(value: Any, owner: Any, name: str) -> Any:
    """The slot `name` that class `owner` made; AttributeError while it is unset."""
    if owner is None:
        raise ReferenceError("the class is gone")
    return class_dict(owner)[name].__get__(value)


APPLIED: Final[dict[str, Callable[[Any], Any]]] = {
    "cell": cell_value,
    "plain": plain_part,
    "length": safe_length,
    "address": id,
    "referent": referent,
    "walked": walked,
    "place": place,
}
"""Steps that one function takes, whatever their detail: see `STEPS`."""


class PathStep(NamedTuple):
    """What a step says of what it leads from, given as text, and how it is taken; both with its detail."""

    text: Callable[[str, Any], str]
    read: Callable[[Any, Any], Any]


def _attribute_text(above: str, name: str) -> str:
    return f"{above}.{name}" if name.isidentifier() else f"{above}.__dict__[{name!r}]"


def _applied(text: str, kind: str) -> PathStep:
    function = APPLIED[kind]
    return PathStep(lambda above, _detail: text.format(above), lambda above, _detail: function(above))


STEPS: Final[dict[str, PathStep]] = {
    # obj.__dict__[name]
    "field": PathStep(_attribute_text, lambda above, name: instance_dict(above)[name]),
    # the value of a member descriptor; key (Ref of the class that has it, name)
    "slot": PathStep(
        lambda above, key: f"{above}.{key[1]}",
        lambda above, key: slot_value(above, key[0](), key[1]),
    ),
    # an attribute that C code answers: __func__, __code__, start, maxlen, ...
    "member": PathStep(_attribute_text, safe_member),
    # of a sequence by index, of a dict by a constant key
    "item": PathStep(lambda above, key: f"{above}[{key!r}]", safe_item),
    # of a dict by a constant key, which may lack it; key (the key, Ref of the class of what may stand there)
    "maybe": PathStep(
        lambda above, key: f"{above}.get({key[0]!r})",
        lambda above, key: maybe_item(above, key[0], key[1]()),
    ),
    # the i-th key of a dict, in its order
    "key": PathStep(lambda above, i: f"list({above})[{i}]", lambda above, i: nth(safe_iter(above), i)),
    # the i-th value of a dict, in its order
    "value": PathStep(
        lambda above, i: f"list({above}.values())[{i}]",
        lambda above, i: nth(safe_values(above), i),
    ),
    # the i-th element of a set, deque or any builtin container, in its order
    "element": PathStep(lambda above, i: f"list({above})[{i}]", lambda above, i: nth(safe_iter(above), i)),
    "cell": _applied("{}.cell_contents", "cell"),
    # cls.__dict__[name]
    "entry": PathStep(
        lambda above, name: f"{above}.__dict__[{name!r}]",
        lambda above, name: class_dict(above)[name],
    ),
    # of a tensor, dimension i
    "size": PathStep(lambda above, i: f"{above}.size()[{i}]", lambda above, i: above.array.shape[i]),
    # the number or text in an object of a subclass of int, float, complex, str or bytes
    # of a builtin container
    "length": _applied("len({})", "length"),
    "plain": _applied("plain({})", "plain"),
    "address": _applied("id({})", "address"),
    # what a weak reference leads to
    "referent": _applied("{}()", "referent"),
    # what an iterator or a view of a builtin container goes over, and where an iterator stands
    "walked": _applied("walked({})", "walked"),
    "place": _applied("place({})", "place"),
}
"""Every step from a source to the next one."""


def fetch(source: Source, function: Any, local_values: Mapping[str, Any]) -> Any:
    """The value at a source now. Any exception means that there is none."""
    parent, key = source.parent, source.detail
    if parent is None:
        match source.kind:
            case "local":
                return local_values[key]
            case "function":
                return function
            case "module":
                return safe_member(sys.modules[key], "__dict__")
            case "builtin":
                return builtins.__dict__[key]
            case _:
                value = key()
                if value is None and not key.is_none:
                    raise ReferenceError(f"{key} is gone")
                return value
    return fetch_step(source, fetch(parent, function, local_values))


def fetch_step(source: Source, above: Any) -> Any:
    """The value at a source whose parent's value is this."""
    return STEPS[source.kind].read(above, source.detail)
