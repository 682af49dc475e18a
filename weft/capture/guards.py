"""Guards: what must hold for a captured segment to serve a call, as data.

Takes what capture read (a source and what it saw there), gives `Guard`, `GuardSet` and `explain_miss`. One
idea: a guard has two renderings that must agree: `holds`, the reference here, and the source text of
`weft.capture.guard_render`; neither runs code of a user's, and an exception in either is a miss.

# Note [Guard kinds]
    TYPE       type(source) is the class
    IS         source is this very object (held as `Ref` holds: by name, or weakly)
    EQ         a plain constant: exact type, floats by bits
    CONTENTS   a container of plain constants all through: exact types, order of dicts and sets
    LEN        length of a builtin container
    KEYS       a dict's keys: plain constants, in this order
    HAS/LACKS  a dict has the key, or not
    ABSENT     the class's own dict lacks the name
    MRO        the class resolves names in these classes, in this order
    TENSOR     `TensorFacts`
    STRIDE     a tensor's strides, in elements
    FACT       (name, value): one of `TENSOR_FACTS`
    CODE       a Python function with this code object
    SAME       the same object as another source's
    DISTINCT   (source is the first of) sources of objects that are pairwise different
    UNSET      a cell or slot without a value
    MODE       the modes around the call; True and False are the plain ones
    AMBIENT    (function of ours, result): a global setting such as the default dtype
    CONDITION  `Condition`: an expression over sizes and scalars has this truth
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, Protocol

import numpy as np

from weft.amp.casting import Autocast
from weft.capture.plain import NotPlain, exact_key, freeze, identical, thaw
from weft.capture.sources import (
    WRAPPERS,
    Ref,
    Source,
    cell_value,
    class_dict,
    class_mro,
    constant,
    fetch,
    importable_name,
    safe_contains,
    safe_iter,
    safe_length,
    slot_value,
    wrapped_parts,
    written_in_c,
)
from weft.core import modes
from weft.core.device import cpu, device
from weft.core.errors import qualified_name
from weft.core.records import dataclass
from weft.ops.record import Op
from weft.tensor.base import PLAIN, Tensor
from weft.tensor.meta import MetaArray, contiguous_strides
from weft.tensor.tape import INFERENCE


# -- payloads ------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class TensorFacts:
    """What a graph is specialised to: `None` in the shape is a size that may vary."""

    cls: type
    dtype: np.dtype[Any]
    shape: tuple[int | None, ...]
    requires_grad: bool
    device: device = cpu

    @classmethod
    def of(cls, tensor: Tensor, dynamic: Iterable[int] = ()) -> TensorFacts:
        free = set(dynamic)
        shape = tuple(None if i in free else int(size) for i, size in enumerate(tensor.array.shape))
        return cls(type(tensor), tensor.array.dtype, shape, bool(tensor.tracked), tensor.device)


TENSOR_FACTS: Final[dict[str, Callable[[Tensor], Any]]] = {
    "is_leaf": lambda tensor: tensor.node is None,
    "is_view": lambda tensor: tensor.origin is not None,
    "is_inference": lambda tensor: tensor.cell is INFERENCE,
    "is_contiguous": lambda tensor: bool(tensor.array.flags.c_contiguous),
    "has_grad": lambda tensor: tensor._grad is not None,
    "has_hooks": lambda tensor: bool(tensor.hooks),
    "writeable": lambda tensor: bool(tensor.array.flags.writeable),
}


class Rendered(Protocol):
    """What `Condition` needs of `weft.trace.expressions.Expression`."""

    def render(self, name_of: Callable[[Any], str]) -> str: ...

    def evaluate(self, values: Mapping[Any, Any]) -> Any: ...


@dataclass(frozen=True, slots=True)
class Condition:
    """An expression whose symbols stand for these sources, and the truth that it had."""

    expression: Rendered
    truth: bool
    sources: tuple[tuple[Any, Source], ...]

    def __str__(self) -> str:
        names = {symbol: str(source) for symbol, source in self.sources}
        text = self.expression.render(lambda symbol: names[symbol])
        return text if self.truth else f"not {text}"


@dataclass(frozen=True, slots=True)
class ModeFacts:
    """A `Modes` record in what matters: plain facts, and the objects among them as Refs."""

    plain: tuple[tuple[str, Any], ...]
    objects: tuple[Any, ...]

    @classmethod
    def of(cls, mode: Any) -> ModeFacts:
        return cls(plain_modes(mode), tuple(Ref(part) for part in _mode_objects(mode)))

    def holds(self, mode: Any) -> bool:
        if type(mode) is not modes.Modes:
            return False
        if plain_modes(mode) != self.plain:
            return False
        parts = _mode_objects(mode)
        return len(parts) == len(self.objects) and all(
            part is ref() and part is not None for part, ref in zip(parts, self.objects, strict=True)
        )


def plain_modes(mode: Any) -> tuple[tuple[str, Any], ...]:
    """What has no identity: flags, and the facts of an autocast, which is a new object each time."""
    names = ("grad", "inference", "saved_hooks_error", "anomaly", "shielded")
    facts = [(name, getattr(mode, name)) for name in names]
    # Which hooks they are makes no difference: a graph runs under those that are active then.
    facts += [("saved_hooks", bool(mode.saved_hooks)), ("witness", mode.witness is not None)]
    for _name, value in mode.extra:
        if type(value) is Autocast:
            facts += [("autocast", value.dtype), ("caching", value.caching)]
    return tuple(facts)


def _mode_objects(mode: Any) -> list[Any]:
    return [*mode.functions, *(value for _name, value in mode.extra if type(value) is not Autocast)]


# -- guards --------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True, eq=False)
class Guard:
    """One predicate. Payloads may be given raw (a class, an object, a value): they are held as is right."""

    kind: str
    source: Source | None
    payload: Any = None
    where: tuple[str, int, str] | None = None
    """The user's (file, line, function) that made it necessary."""

    def __post_init__(self) -> None:
        keep = NORMAL.get(self.kind)
        if keep is not None:
            object.__setattr__(self, "payload", keep(self.payload))

    @property
    def identity(self) -> Any:
        """Equal for guards that say the same."""
        if self.kind in ("EQ", "CONTENTS", "KEYS"):
            return self.kind, self.source, exact_key(self.payload)
        if self.kind in ("HAS", "LACKS"):
            return self.kind, self.source, exact_key(freeze(self.payload))
        return self.kind, self.source, self.payload

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Guard) and self.identity == other.identity

    def __hash__(self) -> int:
        return hash(self.identity)

    def __str__(self) -> str:
        return describe(self)


def _ref(value: Any) -> Ref:
    return value if isinstance(value, Ref) else Ref(value)


def _mode(value: Any) -> Any:
    if type(value) is modes.Modes and is_watched(value, value.grad):
        return value.grad
    return ModeFacts.of(value) if type(value) is modes.Modes else value


def is_watched(mode: Any, grad: bool) -> bool:
    """Whether nothing is active but gradients (or not) and a witness of a Function's forward, who sees what
    a graph computes as well as anything else.
    """
    if type(mode) is not modes.Modes or mode.witness is None or mode.grad is not grad:
        return False
    others = [name for name in modes.Modes.__slots__ if name not in ("grad", "witness")]
    return all(getattr(mode, name) == getattr(UNWATCHED, name) for name in others)


UNWATCHED: Final = modes.Modes()


NORMAL: Final[dict[str, Callable[[Any], Any]]] = {
    "TYPE": _ref,
    "IS": _ref,
    "EQ": freeze,
    "CONTENTS": freeze,
    "KEYS": lambda keys: freeze(tuple(keys)),
    "MRO": lambda classes: tuple(_ref(kind) for kind in classes),
    "MODE": _mode,
    "AMBIENT": lambda pair: (_ref(pair[0]), freeze(pair[1])),
    "DISTINCT": tuple,
    "STRIDE": tuple,
    "FACT": tuple,
}


class GuardSet:
    """Guards in the order in which they were added, each once."""

    def __init__(self, guards: Iterable[Guard] = ()) -> None:
        self._guards: dict[Guard, None] = {}
        for guard in guards:
            self.add(guard)

    def add(self, guard: Guard) -> None:
        self._guards.setdefault(guard)

    def update(self, guards: Iterable[Guard]) -> None:
        for guard in guards:
            self.add(guard)

    def __iter__(self) -> Iterator[Guard]:
        return iter(self._guards)

    def __len__(self) -> int:
        return len(self._guards)

    def __contains__(self, guard: object) -> bool:
        return guard in self._guards

    def __str__(self) -> str:
        return "\n".join(map(str, self))


# -- the reference -------------------------------------------------------------------------------------------
def holds(guard: Guard, function: Any, values: Mapping[str, Any]) -> bool:
    """Whether the guard holds for a call of `function` with these locals. Never raises an Exception."""
    try:
        return _holds(guard, function, values)
    except Exception:
        return False


def _holds(guard: Guard, function: Any, values: Mapping[str, Any]) -> bool:
    if guard.kind in WITHOUT_SOURCE:
        return WITHOUT_SOURCE[guard.kind](guard.payload)
    if guard.kind == "CONDITION":
        found = {symbol: fetch(source, function, values) for symbol, source in guard.payload.sources}
        return bool(guard.payload.expression.evaluate(found)) is guard.payload.truth
    assert guard.source is not None
    if guard.kind == "UNSET":
        return _is_unset(guard.source, function, values)
    value = fetch(guard.source, function, values)
    if guard.kind == "SAME":
        return value is fetch(guard.payload, function, values)
    if guard.kind == "DISTINCT":
        found_ids = {id(value)} | {id(fetch(source, function, values)) for source in guard.payload}
        return len(found_ids) == len({guard.source, *guard.payload})
    return PREDICATES[guard.kind](value, guard.payload)


def _is_unset(source: Source, function: Any, values: Mapping[str, Any]) -> bool:
    assert source.parent is not None
    above = fetch(source.parent, function, values)
    if source.kind == "cell":
        return cell_is_unset(above)
    return slot_is_unset(above, source.detail[0](), source.detail[1])


def cell_is_unset(cell: Any) -> bool:
    try:
        cell_value(cell)
    except ValueError:
        return True
    return False


def slot_is_unset(value: Any, owner: Any, name: str) -> bool:
    try:
        slot_value(value, owner, name)
    except AttributeError:
        return True
    return False


def is_object(value: Any, ref: Ref) -> bool:
    """Whether the value is the Ref's object: never once that is gone."""
    if ref.parts is not None:
        return type(value) is ref.kind and all(map(is_object, wrapped_parts(value), ref.parts))
    return value is ref() and (value is not None or ref.is_none)


def same_keys(mapping: Any, keys: tuple[Any, ...]) -> bool:
    """Whether these are the dict's keys, exactly and in order."""
    found = list(safe_iter(mapping))
    return len(found) == len(keys) and all(map(identical, found, keys))


def same_classes(kind: type, refs: tuple[Ref, ...]) -> bool:
    found = class_mro(kind)
    return len(found) == len(refs) and all(map(is_object, found, refs))


def is_tensor(value: Any, facts: TensorFacts) -> bool:
    kind: Any = facts.cls
    if type(value) is not kind:
        return False
    array = value.array
    if type(array) is not (MetaArray if facts.device.type == "meta" else np.ndarray):
        return False
    if array.dtype is not facts.dtype or value.tracked is not facts.requires_grad:
        return False
    if not facts.requires_grad and value.origin is not None and value.requires_grad:
        return False
    shape = array.shape
    return len(shape) == len(facts.shape) and all(
        want is None or want == size for want, size in zip(facts.shape, shape, strict=True)
    )


def strides_of(tensor: Tensor) -> tuple[int, ...]:
    """As `Tensor.stride()`, which a function mode may take over."""
    array = tensor.array
    if array.size == 0:
        return contiguous_strides(array.shape)
    item = array.dtype.itemsize
    return tuple(step // item for step in array.strides)


def has_type(tensor: Any, cls: Any, tracked: bool, holder: Any, kind: Any, shape: tuple[int, ...]) -> bool:
    """Whether a tensor is what a guard says: for entries with many, whose text would be long otherwise."""
    if type(tensor) is not cls or tensor.tracked is not tracked:
        return False
    if not tracked and tensor.origin is not None and tensor.requires_grad:
        return False
    array = tensor.array
    return type(array) is holder and array.dtype is kind and bool(array.shape == shape)


def has_code(value: Any, code: types.CodeType) -> bool:
    return type(value) is types.FunctionType and value.__code__ is code


PREDICATES: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "TYPE": lambda value, ref: is_object(type(value), ref),
    "IS": is_object,
    "EQ": identical,
    "CONTENTS": identical,
    "LEN": lambda value, length: safe_length(value) == length,
    "KEYS": lambda value, keys: same_keys(value, keys.items),
    "HAS": lambda value, key: safe_contains(value, key),
    "LACKS": lambda value, key: not safe_contains(value, key),
    "ABSENT": lambda value, name: name not in class_dict(value),
    "MRO": same_classes,
    "TENSOR": is_tensor,
    "STRIDE": lambda value, strides: type(value) in PLAIN and strides_of(value) == strides,
    "FACT": lambda value, fact: type(value) in PLAIN and TENSOR_FACTS[fact[0]](value) is fact[1],
    "CODE": has_code,
}


def mode_holds(facts: Any) -> bool:
    mode = modes.current()
    return facts.holds(mode) if type(facts) is ModeFacts else mode is facts or is_watched(mode, facts)


def ambient_holds(payload: tuple[Ref, Any]) -> bool:
    return identical(payload[0]()(), payload[1])


WITHOUT_SOURCE: Final[dict[str, Callable[[Any], bool]]] = {"MODE": mode_holds, "AMBIENT": ambient_holds}


# -- text ----------------------------------------------------------------------------------------------------
def describe(guard: Guard) -> str:
    """The guard as a Python-like expression: `type(L['x']) is Tensor`, `L['n'] == 3`."""
    at, payload = guard.source, guard.payload
    match guard.kind:
        case "TYPE":
            kind = payload()
            return f"type({at}) is {'<gone>' if kind is None else kind.__name__}"
        case "IS":
            return f"{at} is {payload.strong!r}" if payload.is_none else f"{at} is {payload!r}"
        case "EQ" | "CONTENTS":
            return f"{at} == {_short(thaw(payload))}"
        case "LEN":
            return f"len({at}) == {payload}"
        case "KEYS":
            return f"list({at}) == {_short(list(map(thaw, payload.items)))}"
        case "HAS":
            return f"{payload!r} in {at}"
        case "LACKS":
            return f"{payload!r} not in {at}"
        case "ABSENT":
            return f"{payload!r} not in {at}.__dict__"
        case "MRO":
            return f"{at}.__mro__ == ({', '.join(map(repr, payload))})"
        case "TENSOR":
            return f"{at} is {facts_text(payload)}"
        case "STRIDE":
            return f"{at}.stride() == {payload}"
        case "FACT":
            return f"{at}.{payload[0]} is {payload[1]}"
        case "CODE":
            return f"{at}.__code__ is <code {payload.co_qualname}, line {payload.co_firstlineno}>"
        case "SAME":
            return f"{at} is {payload}"
        case "DISTINCT":
            return f"distinct({', '.join(map(str, dict.fromkeys([at, *payload])))})"
        case "UNSET":
            return f"{at} is unset"
        case "MODE":
            return "modes == " + (mode_text(payload))
        case "AMBIENT":
            return f"{payload[0].label.rpartition(':')[2]}() == {thaw(payload[1])!r}"
        case _:
            return str(payload)


def mode_text(payload: Any) -> str:
    if type(payload) is not ModeFacts:
        return f"(grad={payload})"
    facts = [f"{name}={value!r}" for name, value in payload.plain]
    return f"({', '.join([*facts, *map(repr, payload.objects)])})"


def facts_text(facts: TensorFacts) -> str:
    """`Tensor(f32[2, *], requires_grad)`: a star for a size that may vary."""
    shape = ", ".join("*" if size is None else str(size) for size in facts.shape)
    grad = ", requires_grad" if facts.requires_grad else ""
    where = "" if facts.device == cpu else f", device={facts.device}"
    return f"{facts.cls.__name__}({facts.dtype.name}[{shape}]{grad}{where})"


def _short(value: Any, limit: int = 120) -> str:
    text = repr(value)
    return text if len(text) <= limit else text[: limit - 3] + "..."


# -- misses --------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Miss:
    """The guard that failed, and what was there instead."""

    guard: Guard
    actual: str

    def __str__(self) -> str:
        return f"{self.guard}  # actual {self.actual}"


def wild(source: Any) -> str:
    """The mark of a source whose values are never the same; see Note [Wild values] in `misses`."""
    return f"{source} is wild"


def explain_miss(guards: Iterable[Guard], function: Any, values: Mapping[str, Any]) -> Miss | None:
    """The first guard that does not hold for these locals, or None."""
    for guard in guards:
        if not holds(guard, function, values):
            return Miss(guard, _actual(guard, function, values))
    return None


def _actual(guard: Guard, function: Any, values: Mapping[str, Any]) -> str:
    if guard.kind == "MODE":
        mode = modes.current()
        return mode_text(mode if type(mode) is bool else ModeFacts.of(mode))
    try:
        if guard.kind == "AMBIENT":
            return _safe_text(guard.payload[0]()())
        if guard.kind == "CONDITION":
            found = ((source, fetch(source, function, values)) for _symbol, source in guard.payload.sources)
            return ", ".join(f"{source} = {_safe_text(value)}" for source, value in found)
        assert guard.source is not None
        value = fetch(guard.source, function, values)
    except Exception as error:
        return f"nothing there ({type(error).__name__})"
    return _actual_of(guard, value)


def _actual_of(guard: Guard, value: Any) -> str:
    try:
        match guard.kind:
            case "TYPE":
                return type(value).__name__
            case "LEN":
                return str(safe_length(value))
            case "KEYS":
                return f"[{', '.join(map(_safe_text, safe_iter(value)))}]"
            case "STRIDE":
                return str(strides_of(value))
            case "FACT":
                return str(TENSOR_FACTS[guard.payload[0]](value))
            case "MRO":
                return ", ".join(kind.__name__ for kind in class_mro(value))
            case "HAS" | "LACKS" | "ABSENT" | "SAME" | "DISTINCT":
                return "otherwise"
            case "CODE" if type(value) is types.FunctionType:
                return f"<code {value.__code__.co_qualname}, line {value.__code__.co_firstlineno}>"
    except Exception:
        return f"an object of class {type(value).__name__}"
    return _safe_text(value)


def _safe_text(value: Any) -> str:
    """A text for the value that runs no `__repr__` of a user's."""
    if type(value) in PLAIN and type(getattr(value, "array", None)) in (np.ndarray, MetaArray):
        return facts_text(TensorFacts.of(value))
    try:
        return _short(thaw(freeze(value)))
    except NotPlain:
        return f"an object of class {qualified_name(type(value))}"


# -- saving --------------------------------------------------------------------------------------------------
def saveable(guard: Guard) -> bool:
    """Whether the guard is plain data and importable names, so that another process could check it."""
    return _saveable_source(guard.source) and _saveable_payload(guard.payload)


def _saveable_source(source: Source | None) -> bool:
    while source is not None:
        if not _saveable_payload(source.detail):
            return False
        source = source.parent
    return True


def _saveable_payload(payload: Any) -> bool:
    if isinstance(payload, Source):
        return _saveable_source(payload)
    if isinstance(payload, Ref):
        if payload.parts is not None:
            return all(map(_saveable_payload, payload.parts))
        return payload.name is not None or payload.is_none
    if isinstance(payload, TensorFacts):
        return importable_name(payload.cls) is not None
    if isinstance(payload, Condition):
        return all(_saveable_source(source) for _symbol, source in payload.sources)
    if isinstance(payload, ModeFacts):
        return not payload.objects
    if isinstance(payload, types.CodeType):
        return True  # by file, qualified name and hash
    if isinstance(payload, tuple):
        return all(map(_saveable_payload, payload))
    return True


# -- names looked up on classes ------------------------------------------------------------------------------
def lookup(cls: type, name: str) -> tuple[type, Any] | None:
    """The first class of the method resolution order whose own dict has the name, and what it has there."""
    for owner in class_mro(cls):
        members = class_dict(owner)
        if name in members:
            return owner, members[name]
    return None


def class_source(cls: type) -> Source:
    """The class as a constant, held by name or weakly."""
    return constant(cls.__name__, cls)


def guards_for_lookup(cls: type, name: str, found: tuple[type, Any] | None) -> list[Guard]:
    """What keeps a `lookup` true: absence before the owner, and the value there. None for classes in C."""
    guards: list[Guard] = []
    if not written_in_c(cls):
        guards.append(Guard("MRO", class_source(cls), class_mro(cls)))
    for owner in class_mro(cls):
        if found is not None and owner is found[0]:
            if not written_in_c(owner):
                guards += guards_for_member(class_source(owner).entry(name), found[1])
            break
        if not written_in_c(owner):
            guards.append(Guard("ABSENT", class_source(owner), name))
    return guards


def guards_for_member(source: Source, value: Any) -> list[Guard]:
    """Guards that the value in a class's dict stays what it is: functions by code, constants by value,
    wrappers by what they wrap, else by identity where it can be held, else by type alone.
    """
    if type(value) is types.FunctionType:
        if isinstance(getattr(value, "op", None), Op):  # whose code is another after the first call
            return [Guard("IS", source, value)]
        return [Guard("CODE", source, value.__code__)]
    if type(value) in WRAPPERS:
        guards = [Guard("TYPE", source, type(value))]
        for member in WRAPPERS[type(value)]:
            guards += guards_for_member(source.member(member), getattr(value, member))
        return guards
    for kind in ("EQ", "IS"):
        try:
            return [Guard(kind, source, value)]
        except TypeError:  # NotPlain, Unholdable
            continue
    return [Guard("TYPE", source, type(value))]


class ClassLookup:
    """`lookup` with its guards, each (class, name) guarded once in the set."""

    def __init__(self, guards: GuardSet) -> None:
        self.guards = guards
        self._seen: dict[tuple[int, str], tuple[type, Any] | None] = {}
        self._classes: list[type] = []  # so that an id stays its class's

    def find(self, cls: type, name: str) -> tuple[type, Any] | None:
        key = (id(cls), name)
        if key not in self._seen:
            self._classes.append(cls)
            found = self._seen[key] = lookup(cls, name)
            self.guards.update(guards_for_lookup(cls, name, found))
        return self._seen[key]
