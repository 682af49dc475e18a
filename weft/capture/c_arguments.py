"""C arguments: what may be handed to C code, and in which form.

Takes values on their way into a builtin; breaks where C code would run Python code unseen, or read an object
that no guard describes. One idea: what C code would run is asked for by name (`__eq__`, `__index__`), so each
caller says what its builtin does with its arguments.
"""

from __future__ import annotations

import functools
import itertools
import operator
import re
import types
import typing
from collections import OrderedDict, defaultdict, deque
from collections.abc import Iterable
from enum import Enum
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.capture.attributes import HEAP, IMMUTABLE
from weft.capture.namespaces import InstanceDict
from weft.capture.protocols import EQUALITY, has_own_keys, settle_keys
from weft.capture.sources import PLAIN_PARTS, c_base
from weft.capture.values import CACHED, BoundMethod, Callback, CapturedGenerator, has_type
from weft.capture.wrapping import SCALARS, SYMBOLIC
from weft.core.contexts import LeftAtOnce
from weft.core.naming import home
from weft.core.types import Size
from weft.tensor.base import Tensor
from weft.trace.breaks import Break

if TYPE_CHECKING:
    from weft.capture.machine import Machine

ORDER = ("__lt__", "__gt__", "__le__", "__ge__", "__eq__")
TEXT = ("__str__", "__repr__", "__format__")
NUMERIC = ("__index__", "__int__", "__float__", "__bool__", "__complex__", "__len__")
HASH_OF_MEMBERS = Enum.__hash__
"""Hashes a name: harmless where C code calls it."""
CONTAINERS = frozenset({list, tuple, dict, set, frozenset, deque, OrderedDict, defaultdict, Size})
VIEWS: tuple[Any, ...] = (type({}.keys()), type({}.values()), type({}.items()))
ITERATORS: frozenset[Any] = frozenset(
    {
        type(iter([])), type(iter(())), type(iter({})), type(iter({}.values())), type(iter({}.items())),
        type(iter(set())), type(iter(range(0))), type(iter("")), type(iter("é")), type(iter(b"")),
        type(reversed([])), type(reversed({})), type(reversed({}.items())), type(reversed({}.values())),
        type(iter(range(2**70))), type(iter(deque())), type(reversed(deque())), type(iter(int, 1)),
        type(iter(OrderedDict())), reversed, enumerate, zip, map, filter,
        *(kind for kind in vars(itertools).values() if has_type(kind, type)),
    }
)  # fmt: skip
"""Iterators in C: they run no Python code but that of callbacks and generators, which re-enter."""
ITEMS: tuple[Any, ...] = (list, tuple, dict, set, frozenset, deque)
"""Classes whose C code looks at the items of their subclasses' objects too."""
TRANSPARENT = (
    types.FunctionType, types.MethodType, types.BuiltinFunctionType, types.CellType, type, types.ModuleType,
    property, staticmethod, classmethod, range, slice, functools.partial, np.generic, np.dtype,
    types.MethodDescriptorType, types.WrapperDescriptorType, types.MethodWrapperType, np.ufunc, re.Pattern,
    Enum, frozenset, tuple, CACHED, typing.TypeVar, typing.ParamSpec, typing.TypeVarTuple, LeftAtOnce,
)  # fmt: skip
"""Classes of C code whose objects that existed before hold nothing that is not guarded where it is read."""


class CArguments:
    """Checking and preparing what C code gets."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.calls, self.attributes = machine.calls, machine.attributes
        self.world, self.native = machine.world, machine.native

    def check(
        self, value: Any, names: Iterable[str], deep: bool = True, seen: set[int] | None = None
    ) -> None:
        """Breaks where C code working on this value would run Python code of these names, or read an object
        that existed before and is not understood.
        """
        kind = type(value)
        if kind in SCALARS:
            if kind is float and value != value:
                self.world.identify(value)
            return
        if "__hash__" in names and kind not in CONTAINERS:
            self.world.identify(value)
        if has_type(value, (Tensor, type, types.FunctionType, types.ModuleType)):
            return
        if kind in CONTAINERS:
            if not deep or not value:
                return
            seen = set() if seen is None else seen
            if id(value) in seen:
                return
            seen.add(id(value))
            for item in value:
                self.check(item, names, True, seen)
            if has_type(value, dict):
                for item in dict.values(value):
                    self.check(item, names, True, seen)
            return
        if has_type(value, InstanceDict):
            raise Break("opaque-object", seen="__dict__ handed to a builtin")
        if kind is BoundMethod and names:
            raise Break("opaque-object", seen="a builtin method handed to a builtin")
        if kind.__flags__ & HEAP and not kind.__flags__ & IMMUTABLE:
            if home(kind).startswith("weft.") or has_type(value, (*SYMBOLIC, Callback, CapturedGenerator)):
                return
            for name in names:
                found = self.attributes.python_method(value, name)
                if found is not None and found is not HASH_OF_MEMBERS:
                    raise Break("builtin-protocol", seen=f"{name} of {kind.__name__}")
            if not has_type(value, ITEMS) or not deep:
                return
            base = next(base for base in ITEMS if has_type(value, base))
            self.check(
                base(base.__iter__(value)) if base is not dict else dict(dict.items(value)), names, True, seen
            )
            return
        self.refuse_opaque(value)

    def check_keys(self, keys: Any, container: Any = ()) -> None:
        """Makes sure that C code may hash these keys, and look them up in the container."""
        own = any(has_own_keys(self.machine, key) for key in keys)
        if own or (self.world.settled and any(has_own_keys(self.machine, key) for key in container)):
            settle_keys(self.machine, keys, container)
        for key in keys:
            if not has_own_keys(self.machine, key):
                self.check(key, EQUALITY)

    def can_check(self, value: Any, names: tuple[str, ...]) -> bool:
        """Whether C code may work on the value as it is; else stand-ins are needed."""
        try:
            self.check(value, names)
        except Break as stop:
            if stop.kind != "builtin-protocol":
                raise
            return False
        return True

    def check_items(self, value: Any, names: Iterable[str], deep: bool = True) -> None:
        """As `check`, where C code looks at what a container holds and not at itself."""
        kind = type(value)
        base = next((b for b in (dict, list, tuple, set, frozenset, deque) if issubclass(kind, b)), None)
        if base is None or kind in CONTAINERS:
            return self.check(value, names, deep)
        for item in base.__iter__(value) if deep else ():
            self.check(item, names)
        for item in dict.values(value) if deep and base is dict else ():
            self.check(item, names)
        return None

    def refuse_opaque(self, value: Any) -> None:
        """Breaks at objects of C classes that existed before, and whose state no guard describes."""
        known = self.world.known.get(id(value))
        if known is not None and c_base(type(value)) in (object, *PLAIN_PARTS):
            return
        if known is not None and known.value is known.original and not has_type(value, TRANSPARENT):
            word = "opaque-iterator" if hasattr(type(value), "__next__") else "opaque-object"
            raise Break(word, seen=f"{known.source}, a {type(value).__name__}")

    def readable_mapping(self, value: Any) -> Any:
        """An object with `keys` of the user's as a dict that C code may read; other values stay."""
        if has_type(value, InstanceDict):
            return self.native(dict, list(value.items()))
        keys = self.attributes.python_method(value, "keys")
        if keys is None:
            return value
        names = self.machine.iterators.items(self.calls.call_method(keys, value))
        self.check_keys(names)
        return {name: self.calls.call(operator.getitem, (value, name), {}) for name in names}

    # -- callables for C code --------------------------------------------------------------------------------
    def callback(self, function: Any) -> Any:
        """The callable in a form that C code may call. Builtins too: `len` may run a user's `__len__`."""
        if type(function) is Callback or not callable(function):
            return function
        return Callback(function, self.calls.call)

    def factory(self, function: Any) -> Any:
        """As `callback`, for what a defaultdict calls: without arguments, builtin classes see nothing."""
        blind = has_type(function, type) and not function.__flags__ & HEAP
        return function if blind else self.callback(function)
