"""What names stand for while code is read: values of the graph, and things that exist only then.

Takes Python objects and values; gives sugared values. One idea: a module, a function or a class is no value
of the graph, but what can be done with it (read an attribute, call it, go through it) ends in one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from weft.jit.ir import Value


class Sugar:
    """Anything an expression may stand for."""


@dataclass(eq=False)
class Simple(Sugar):
    """A value of the graph."""

    value: Value


@dataclass(eq=False)
class Several(Sugar):
    """A sequence that is known item by item: a tuple of anything, the modules of a list."""

    items: list[Sugar]
    names: list[str] | None = None
    """The keys, where it is a dict of modules."""


@dataclass(eq=False)
class PythonModule(Sugar):
    """A module of Python, such as `math`."""

    module: Any


@dataclass(eq=False)
class ScriptedModule(Sugar):
    """An nn.Module in scripted form, and the value that stands for it."""

    module: Any
    value: Value


@dataclass(eq=False)
class LayerClass(Sugar):
    """The class of a layer of the library, as `type(self)` says it there."""

    module: Any


@dataclass(eq=False)
class ModuleMethod(Sugar):
    """A method of a module."""

    owner: ScriptedModule
    name: str


@dataclass(eq=False)
class Builtin(Sugar):
    """An operator: `aten::name`, from the namespace it is found in."""

    name: str
    origin: str
    function: Any = None
    receiver: Value | None = None


@dataclass(eq=False)
class Bound(Sugar):
    """A method of a list, a dict, a string, a tuple or an object."""

    receiver: Value
    name: str


@dataclass(eq=False)
class Special(Sugar):
    """A form that is read in a way of its own: `range`, `isinstance`, `annotate`."""

    name: str
    detail: Any = None


@dataclass(eq=False)
class Called(Sugar):
    """A Python function that is scripted when called."""

    function: Any


@dataclass(eq=False)
class Python(Sugar):
    """A Python function that is called as it is."""

    function: Any
    receiver: Value | None = None
    name: str = ""


@dataclass(eq=False)
class Cast(Sugar):
    """A class whose call converts: int, float, bool, str, list, tuple, dict."""

    kind: str


@dataclass(eq=False)
class Class(Sugar):
    """A class whose call makes an object: a NamedTuple, a user's class, an exception, a context."""

    cls: Any
    sort: str


@dataclass(eq=False)
class Iterated(Sugar):
    """What a loop goes through: a range, or several things side by side."""

    sort: str
    values: list[Any] = field(default_factory=list)
    """For a range start, stop and step; for `enumerate` and `zip` what they go through."""


@dataclass(eq=False)
class Raised(Sugar):
    """An exception that was made and not raised yet."""

    cls: Any
    message: Value | None


@dataclass(eq=False)
class Constant(Sugar):
    """A Python object that is a constant of the graph once it is used as a value."""

    value: Any


@dataclass(eq=False)
class Opaque(Constant):
    """A Python object of the surroundings, which is no value."""


@dataclass(eq=False)
class SelfMarker(Sugar):
    """`super()` inside a method."""

    owner: Any
    cls: Any
