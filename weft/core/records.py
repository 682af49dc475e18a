"""Records: classes of named fields, made when their module is loaded, written when they are first used.

Takes a class with annotations; gives it as `dataclasses.dataclass` would, for what records of ours need of
that. One idea: the standard library writes and compiles up to six functions for each class, half a
millisecond, though most classes of a module are not used in most processes. Here comparing, hashing and
freezing are functions that all records share, and `__init__` and `__repr__` are compiled by their first call.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, Field, FrozenInstanceError, field
from operator import attrgetter
from typing import Any, TypeVar, dataclass_transform, overload

FIELDS = "__record_fields__"
"""Where a class keeps its fields by name, those of its bases first: default, factory, whether it is named in
calls."""
Facts = dict[str, tuple[Any, Any, bool]]
C = TypeVar("C", bound=type[Any])
R = TypeVar("R")


@overload
@dataclass_transform(field_specifiers=(field, Field))
def record(cls: C, /) -> C: ...
@overload
@dataclass_transform(field_specifiers=(field, Field))
def record(
    *, frozen: bool = False, slots: bool = False, eq: bool = True, kw_only: bool = False
) -> Callable[[C], C]: ...
@dataclass_transform(field_specifiers=(field, Field))
def record(
    cls: type[Any] | None = None,
    /,
    *,
    frozen: bool = False,
    slots: bool = False,
    eq: bool = True,
    kw_only: bool = False,
) -> Any:
    """The class with the methods that its fields ask for; options are those of `dataclasses.dataclass`."""

    def made(target: type[Any]) -> Any:
        return _record(target, frozen, slots, eq, kw_only)

    return made if cls is None else made(cls)


def replace(value: R, **changes: object) -> R:
    """A record like this one, with other values in some fields."""
    facts: Facts = getattr(type(value), FIELDS)
    for name in facts:
        if name not in changes:
            changes[name] = getattr(value, name)
    return type(value)(**changes)


def _record(cls: type[Any], frozen: bool, slots: bool, eq: bool, kw_only: bool) -> Any:
    facts: Facts = {}
    for base in reversed(cls.__mro__[1:]):
        facts.update(base.__dict__.get(FIELDS, ()))
    own = list(cls.__annotations__)
    for name in own:
        given = cls.__dict__.get(name, MISSING)
        if isinstance(given, Field):
            if not (given.init and given.repr and given.compare):
                raise TypeError(f"field {name!r} of {cls.__name__}: fields of records only have defaults")
            facts[name] = given.default, given.default_factory, kw_only
            if given.default is MISSING:
                delattr(cls, name)
            else:
                setattr(cls, name, given.default)
        else:
            facts[name] = given, MISSING, kw_only
    if slots:
        cls = _slotted(cls, own)
    setattr(cls, FIELDS, facts)
    names = tuple(facts)
    matched = tuple([name for name, (_, _, named) in facts.items() if not named])
    setattr(cls, "__match_args__", matched)  # noqa: B010 - mypy refuses the other way
    for name, write in (("__init__", _init_text), ("__repr__", _repr_text)):
        if name not in cls.__dict__:
            setattr(cls, name, _late(cls, name, write, frozen))
    if eq:
        _compare(cls, names, frozen)
    if frozen:
        _freeze(cls, names, slots)
    return cls


def _slotted(cls: Any, own: list[str]) -> Any:
    """The class again, with slots for its own fields."""
    inherited = {name for base in cls.__mro__[1:-1] for name in getattr(base, "__slots__", ())}
    space = dict(cls.__dict__)
    space["__slots__"] = tuple([name for name in own if name not in inherited])
    for name in (*own, "__dict__", "__weakref__"):
        space.pop(name, None)
    made = type(cls)(cls.__name__, cls.__bases__, space)
    made.__qualname__ = cls.__qualname__
    return made


def _late(cls: type[Any], name: str, write: Callable[[Facts, bool, bool], str], frozen: bool) -> Any:
    """A method that is written when it is first called, and stands in the class from then on."""

    def first(self: object, *args: object, **kwargs: object) -> Any:
        facts: Facts = getattr(cls, FIELDS)
        space: dict[str, Any] = {}
        text = write(facts, frozen, hasattr(cls, "__post_init__"))
        exec(compile(text, "<weft: record>", "exec"), _values(facts), space)
        function = space[name]
        function.__qualname__, function.__module__ = f"{cls.__qualname__}.{name}", cls.__module__
        setattr(cls, name, function)
        return function(self, *args, **kwargs)

    first.__name__ = name
    return first


def _values(facts: Facts) -> dict[str, Any]:
    """What the texts below call things."""
    values: dict[str, Any] = {"_set": object.__setattr__, "_missing": MISSING}
    for name, (default, factory, _) in facts.items():
        values[f"_default_{name}"], values[f"_make_{name}"] = default, factory
    return values


def _init_text(facts: Facts, frozen: bool, goes_on: bool) -> str:
    lines: list[str] = []
    plain, named = ["self"], list[str]()
    for name, (default, factory, is_named) in facts.items():
        value = name
        if factory is not MISSING:
            value = f"_make_{name}() if {name} is _missing else {name}"
            text = f"{name}=_missing"
        else:
            text = name if default is MISSING else f"{name}=_default_{name}"
        (named if is_named else plain).append(text)
        lines.append(f"    _set(self, {name!r}, {value})" if frozen else f"    self.{name} = {value}")
    if goes_on:
        lines.append("    self.__post_init__()")
    heads = [*plain, "*", *named] if named else plain
    return "\n".join([f"def __init__({', '.join(heads)}):", *(lines or ["    pass"])])


def _repr_text(facts: Facts, _frozen: bool, _goes_on: bool) -> str:
    inner = ", ".join([f"{name}={{self.{name}!r}}" for name in facts])
    return f"def __repr__(self): return f'{{self.__class__.__qualname__}}({inner})'"


def _compare(cls: Any, names: tuple[str, ...], frozen: bool) -> None:
    """Records of one class are equal where all their fields are."""
    values: Any = (
        attrgetter(*names) if len(names) > 1 else lambda self: tuple([getattr(self, n) for n in names])
    )

    def __eq__(self: object, other: object) -> Any:
        return values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented

    def __hash__(self: object) -> int:
        return hash(values(self))

    if "__eq__" not in cls.__dict__:
        cls.__eq__ = __eq__
    if cls.__dict__.get("__hash__") is None:
        cls.__hash__ = __hash__ if frozen else None


def _freeze(cls: Any, names: tuple[str, ...], slots: bool) -> None:
    fixed = frozenset(names)

    def __setattr__(self: Any, name: str, value: object) -> None:
        if type(self) is cls or name in fixed:
            raise FrozenInstanceError(f"cannot assign to field {name!r}")
        super(cls, self).__setattr__(name, value)

    def __delattr__(self: Any, name: str) -> None:
        if type(self) is cls or name in fixed:
            raise FrozenInstanceError(f"cannot delete field {name!r}")
        super(cls, self).__delattr__(name)

    def __getstate__(self: object) -> list[Any]:
        return [getattr(self, name) for name in names]

    def __setstate__(self: object, state: list[Any]) -> None:
        for name, value in zip(names, state):
            object.__setattr__(self, name, value)

    cls.__setattr__, cls.__delattr__ = __setattr__, __delattr__
    if slots:
        cls.__getstate__, cls.__setstate__ = __getstate__, __setstate__
