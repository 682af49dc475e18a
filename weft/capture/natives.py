"""Natives: calling C code on the interpreter's values.

Takes a builtin and its arguments. One idea: a builtin that neither touches the outside world nor runs Python
code unseen may simply be called, since the interpreter's values are real objects. `check` says whether
arguments could run something unseen; what they would run is asked for by name.
"""

from __future__ import annotations

import functools
import itertools
import math
import operator
import re
import types
import typing
from collections import OrderedDict, defaultdict, deque
from collections.abc import Container, Iterable
from enum import Enum
from typing import Any

import numpy as np

from weft.capture.attributes import HEAP, IMMUTABLE, number_of
from weft.capture.calls import HANDLERS, Calls
from weft.capture.namespaces import InstanceDict
from weft.capture.protocols import KEYED, MUTATES, has_own_keys, is_users, settle_keys
from weft.capture.sources import GETTERS, PLAIN_PARTS, c_base, plain_part
from weft.capture.values import BoundMethod, Callback, CapturedGenerator, Raised, isinstance
from weft.capture.world import is_changed
from weft.capture.wrapping import SCALARS, SYMBOLIC
from weft.core.naming import home
from weft.core.types import Size
from weft.tensor.base import Tensor
from weft.trace.breaks import Break
from weft.trace.scalars import plain

EQUALITY = ("__eq__", "__hash__")
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
        *(kind for kind in vars(itertools).values() if isinstance(kind, type)),
    }
)  # fmt: skip
"""Iterators in C: they run no Python code but that of callbacks and generators, which re-enter."""
RECEIVERS = CONTAINERS | ITERATORS | {
    str, bytes, bytearray, int, float, complex, bool, range, slice, object, type(None),
    types.MappingProxyType, *VIEWS, functools.partial, CapturedGenerator, types.GenericAlias, re.Pattern,
    re.Match,
}  # fmt: skip
SHALLOW = frozenset(
    {
        "append", "appendleft", "clear", "copy", "extend", "extendleft", "insert", "items", "keys", "pop",
        "popitem", "popleft", "reverse", "rotate", "values", "__iter__", "__len__", "__init__", "__new__",
        "__init_subclass__", "__next__", "move_to_end", "join", "__setattr__", "__getitem__", "get",
    }
)  # fmt: skip
"""Methods that compare no element. (Keys are checked where they are used as such.)"""
ITERATING = frozenset(
    {
        "extend", "extendleft", "update", "union", "intersection", "difference", "symmetric_difference",
        "intersection_update", "difference_update", "symmetric_difference_update", "isdisjoint",
        "issubset", "issuperset", "join", "fromkeys", "__init__", "__new__", "__iadd__",
    }
)  # fmt: skip


class Natives(Calls):
    """Calling C code."""

    # -- what may be handed to C code ------------------------------------------------------------------------
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
        if isinstance(value, (Tensor, type, types.FunctionType, types.ModuleType)):
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
            if isinstance(value, dict):
                for item in dict.values(value):
                    self.check(item, names, True, seen)
            return
        if isinstance(value, InstanceDict):
            raise Break("opaque-object", seen="__dict__ handed to a builtin")
        if kind is BoundMethod and names:
            raise Break("opaque-object", seen="a builtin method handed to a builtin")
        if kind.__flags__ & HEAP and not kind.__flags__ & IMMUTABLE:
            if home(kind).startswith("weft.") or isinstance(value, (*SYMBOLIC, Callback, CapturedGenerator)):
                return
            for name in names:
                found = self.python_method(value, name)
                if found is not None and found is not HASH_OF_MEMBERS:
                    raise Break("builtin-protocol", seen=f"{name} of {kind.__name__}")
            if not isinstance(value, ITEMS) or not deep:
                return
            base = next(base for base in ITEMS if isinstance(value, base))
            self.check(
                base(base.__iter__(value)) if base is not dict else dict(dict.items(value)), names, True, seen
            )
            return
        self.refuse_opaque(value)

    def check_keys(self, keys: Any, container: Any = ()) -> None:
        own = any(has_own_keys(self, key) for key in keys)
        if own or (self.world.settled and any(has_own_keys(self, key) for key in container)):
            settle_keys(self, keys, container)
        for key in keys:
            if not has_own_keys(self, key):
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
        """Objects of C classes that existed before, and whose state no guard describes."""
        known = self.world.known.get(id(value))
        if known is not None and c_base(type(value)) in (object, *PLAIN_PARTS):
            return
        if known is not None and known.value is known.original and not isinstance(value, TRANSPARENT):
            word = "opaque-iterator" if hasattr(type(value), "__next__") else "opaque-object"
            raise Break(word, seen=f"{known.source}, a {type(value).__name__}")

    # -- calls -----------------------------------------------------------------------------------------------
    def call_native(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if id(function) in PURE:
            return self.call_pure(function, args, kwargs)
        receiver = getattr(function, "__self__", None)
        if receiver is itertools.chain:
            return self.call_pure(FROM_ITERABLE, args, kwargs)
        if (
            isinstance(function, (types.BuiltinFunctionType, types.MethodWrapperType))
            and receiver is not None
        ):
            if not isinstance(receiver, (types.ModuleType, type)):
                return self.call_builtin_method(function.__name__, receiver, args, kwargs, function)
            if isinstance(receiver, type) and receiver in RECEIVERS:
                return self.call_builtin_method(function.__name__, receiver, args, kwargs, function)
        if isinstance(receiver, type) and isinstance(function, BOUND):
            owner = getattr(function, "__objclass__", type)
            handler = HANDLERS.get(id(owner.__dict__.get(function.__name__)))
            if handler is not None:
                return handler(self, (receiver, *args), kwargs)
        if isinstance(function, (types.MethodDescriptorType, types.WrapperDescriptorType)) and args:
            name = function.__name__
            if isinstance(args[0], SYMBOLIC):
                args = (number_of(args[0]), *args[1:])
            if function.__objclass__ in RECEIVERS or name in ("__init__", "__new__"):
                if isinstance(args[0], SYMBOLIC):
                    args = (args[0].plain(), *args[1:])
                bound = self.native(function.__get__, args[0])
                return self.call_builtin_method(name, args[0], args[1:], kwargs, bound)
        if isinstance(function, np.ufunc) or (
            isinstance(function, type) and issubclass(function, np.generic)
        ):
            args = tuple(plain(value) for value in args)
            if all(type(v) in SCALARS or isinstance(v, np.generic) for v in (*args, *kwargs.values())):
                return self.native(function, *args, **kwargs)
            raise Break("numpy-call", seen=f"builtin: {function.__name__}")
        if isinstance(function, type) and issubclass(function, BaseException):
            return self.world.keep(self.native(function, *args, **kwargs))
        if not callable(function):
            raise self.fail(TypeError(f"'{type(function).__name__}' object is not callable"))
        raise Break("builtin-call", seen=f"builtin: {builtin_name(function)}")

    def call_pure(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        names, iterates, callbacks = PURE[id(function)]
        if callbacks:
            args, kwargs = self.called_arguments(function, callbacks, args, kwargs)
        if function in (dict, OrderedDict):
            args = tuple(map(self.readable_mapping, args))
        if function in (range, hex, bin, oct, chr):
            args = tuple(self.call(operator.index, (v,), {}) if is_users(v) else v for v in args)
        if function in NESTED:
            function, args = self.inner_iterables(function, args)
        if iterates is not False:
            given, args = args, self.iterables(args, range(len(args)) if iterates is True else iterates)
            if function in (list, tuple) and len(args) == 1:
                self.ask_length(given[0])
            if "iterable" in kwargs:
                kwargs = {**kwargs, "iterable": self.iterable(kwargs["iterable"])}
        if function in COUNTED:
            for value in (*args[1:], *kwargs.values()):
                self.check(value, NUMERIC, deep=False)
        if function in MAKES_KEYS and args and not kwargs:
            args = self.keyed_arguments(function, args)
        else:
            for value in (*args, *kwargs.values()):
                self.check(value, names)
        if function.__class__ is types.BuiltinFunctionType and any(isinstance(v, SYMBOLIC) for v in args):
            if not kwargs:
                return self.native(self.scalars.apply, function, *args)
        return self.world.keep(self.native(function, *args, **kwargs))

    def called_arguments(
        self, function: Any, places: tuple[Any, ...], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments, with those that C code calls in a form that it may call."""
        call = {itertools.groupby: self.compared, itertools.accumulate: self.added}.get(function)
        call = self.decided if function in DECIDERS else call
        if call is not None and not any(place < len(args) for place in places if type(place) is int):
            kwargs = {**dict.fromkeys([place for place in places if type(place) is str]), **kwargs}

        def ready(value: Any) -> Any:
            if call is None or (value is not None and not callable(value)):
                return self.callback(value)
            return Callback(value, call)

        args = tuple(ready(value) if place in places else value for place, value in enumerate(args))
        return args, {name: ready(value) if name in places else value for name, value in kwargs.items()}

    def inner_iterables(self, function: Any, args: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
        """The arguments, where C code iterates what an iterable gives, asks it for truth, or does so late."""
        if all(type(value) in CONTAINERS and all(map(self.is_plain, value)) for value in args[-1:]):
            if function is not itertools.chain or all(map(self.is_plain, args)):
                return function, args
        if function is itertools.chain:
            function, args = itertools.chain.from_iterable, (args,)
        if not args:
            return function, args
        made = map(self.callback(NESTED[function]), self.iterable(args[-1]))
        return function, (*args[:-1], self.world.keep(made))

    def compared(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A result that C code is going to compare; the argument itself where there is no function."""
        result = args[0] if function is None else self.call(function, args, kwargs)
        self.check(result, EQUALITY)
        return result

    def decided(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """A result of which C code is going to ask whether it is true."""
        return self.truth(args[0] if function is None else self.call(function, args, kwargs))

    def added(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return self.call(operator.add if function is None else function, args, kwargs)

    def truth(self, value: Any) -> bool:
        raise NotImplementedError

    def is_plain(self, value: Any) -> bool:
        raise NotImplementedError

    def keyed_arguments(self, function: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """What a new set or dict is made of, its keys checked."""
        if isinstance(args[0], (dict, types.MappingProxyType)):
            self.check_keys(list(args[0].keys()))
            return args
        items = self.items(args[0])
        if function in (set, frozenset):
            self.check_keys(items)
            return (
                args if type(args[0]) in (set, frozenset) else (items, *args[1:])
            )  # their tables are copied
        pairs = [tuple(self.items(item)) if is_iterable(item) else item for item in items]
        self.check_keys([pair[0] for pair in pairs if type(pair) is tuple and pair])
        return (pairs, *args[1:])

    def readable_mapping(self, value: Any) -> Any:
        """An object with `keys` of the user's as a dict that C code may read; other values stay."""
        if isinstance(value, InstanceDict):
            return self.native(dict, list(value.items()))
        keys = self.python_method(value, "keys")
        if keys is None:
            return value
        names = self.items(self.call_method(keys, value))
        self.check_keys(names)
        return {name: self.call(operator.getitem, (value, name), {}) for name in names}

    def check_arguments(
        self, name: str, receiver: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        if isinstance(receiver, KEYED) and name in BY_KEY and not kwargs:
            self.check_keys(args[:1], receiver)
            return
        if name == "fromkeys" and args and not kwargs:
            self.check_keys(args[0] if isinstance(args[0], list) else ())
            return
        readable = (set, frozenset, dict) if isinstance(receiver, dict) else (*KEYED, list, tuple)
        if isinstance(receiver, KEYED) and all(isinstance(value, readable) for value in args) and not kwargs:
            if name not in SHALLOW:
                keys = [key for value in args for key in value]
                self.check_keys(keys, receiver)
            return
        if name not in SHALLOW:
            self.check_items(receiver, EQUALITY)
        names = TEXT if isinstance(receiver, str) else EQUALITY
        check = self.check_items if name in ITERATING else self.check
        for value in (*args, *kwargs.values()):
            check(value, names, deep=name not in SHALLOW)

    def call_builtin_method(
        self, name: str, receiver: Any, args: tuple[Any, ...], kwargs: dict[str, Any], function: Any
    ) -> Any:
        kind = type(receiver)
        special = METHODS.get(name)
        if special is not None:
            handled, result = special(self, receiver, args, kwargs)
            if handled:
                return result
        if isinstance(receiver, Tensor):
            return self.native(function, *args, **kwargs)
        user = kind.__flags__ & HEAP and not kind.__flags__ & IMMUTABLE and not isinstance(receiver, type)
        if (
            user
            and not issubclass(kind, tuple(CONTAINERS) + (BaseException, str, int, float))
            and not issubclass(kind, InstanceDict)
        ):
            if name not in ("__init__", "__init_subclass__", "__new__"):
                if not isinstance(receiver, (CapturedGenerator, *SYMBOLIC, np.generic)):
                    raise Break("builtin-call", seen=f"builtin: {kind.__name__}.{name}")
        elif not user and kind not in RECEIVERS and not isinstance(receiver, type):
            if not isinstance(receiver, (np.generic, BaseException, operator.itemgetter)):
                raise Break("builtin-call", seen=f"builtin: {kind.__name__}.{name}")
        if not user and kind not in CONTAINERS and not isinstance(receiver, (BaseException, *GETTERS)):
            self.refuse_opaque(receiver)
        if name == "update" and isinstance(receiver, dict):
            args = tuple(map(self.readable_mapping, args))
        if name in ITERATING and not isinstance(receiver, BaseException):
            if name == "fromkeys" and args and is_iterable(args[0]):
                args = (self.items(args[0]), *args[1:])
            elif name != "fromkeys":
                args = self.iterables(args, range(len(args)))
        if "key" in kwargs:
            kwargs = {**kwargs, "key": self.callback(kwargs["key"])}
        if name in MUTATES:
            self.changes += 1
        self.check_arguments(name, receiver, args, kwargs)
        return self.world.keep(self.native(function, *args, **kwargs))

    # -- iteration -------------------------------------------------------------------------------------------
    def iterables(self, args: tuple[Any, ...], places: Container[int]) -> tuple[Any, ...]:
        """The arguments, with those at some places made ready for C code to iterate."""
        return tuple(
            self.iterable(value) if place in places and is_iterable(value) else value
            for place, value in enumerate(args)
        )

    def iterable(self, value: Any) -> Any:
        """Something that C code may iterate in place of the value."""
        kind = type(value)
        if isinstance(value, set):
            self.note_order(value)
        if kind in CONTAINERS or kind in SCALARS or isinstance(value, (CapturedGenerator, UserIterator)):
            return value
        if isinstance(value, Tensor):
            return value
        if not kind.__flags__ & HEAP or kind.__flags__ & IMMUTABLE:
            self.refuse_opaque(value)
            return value
        if isinstance(value, InstanceDict):
            return list(value)
        maker = self.python_method(value, "__iter__")
        if maker is not None:
            return self.iterable_iterator(self.call_method(maker, value))
        if isinstance(value, Enum) and hasattr(kind, "__iter__"):
            return self.native(list, value)  # the members of a flag
        if self.python_method(value, "__next__") is not None and hasattr(kind, "__iter__"):
            return UserIterator(value, self)
        if self.python_method(value, "__getitem__") is not None and not hasattr(kind, "__iter__"):
            return SequenceIterator(value, self)
        return value

    def rows(self, value: Any) -> Any:
        """As `iterable`, for what is walked at once: each row of a tensor is a node of its own where no
        gradient can tell.
        """
        if not isinstance(value, Tensor) or value.requires_grad:
            return self.iterable(value)
        shape = value.shape
        if not shape or type(shape[0]) is not int:
            return value
        return self.world.keep([self.call(operator.getitem, (value, row), {}) for row in range(shape[0])])

    def note_order(self, value: set[Any]) -> None:
        """A set that existed before, and that captured code changed, is about to be walked."""
        known = self.world.known.get(id(value))
        if known is not None and is_changed(known):
            if id(value) in self.world.cramped:
                raise Break("set-order", seen=f"{known.source}, once larger")
            self.world.guard("EQ", known.source.plain(), plain_part(known.original))

    def iterable_iterator(self, value: Any) -> Any:
        """What a user's `__iter__` gave, for C code to advance."""
        if self.python_method(value, "__next__") is not None:
            return UserIterator(value, self)
        if not hasattr(type(value), "__next__"):
            text = f"iter() returned non-iterator of type '{type(value).__name__}'"
            raise self.fail(TypeError(text))
        self.refuse_opaque(value)
        return value

    def iterator(self, value: Any) -> Any:
        """`iter(value)`."""
        kind = type(value)
        if kind.__flags__ & HEAP and not kind.__flags__ & IMMUTABLE and not isinstance(value, Tensor):
            maker = self.python_method(value, "__iter__")
            if maker is not None:
                result = self.call_method(maker, value)
                self.iterable_iterator(result)
                return result
        ready = self.rows(value)
        return ready if isinstance(ready, UserIterator) else self.world.keep(self.native(iter, ready))

    def next_item(self, iterator: Any) -> Any:
        """`next(iterator)`; raises Raised(StopIteration) at the end."""
        kind = type(iterator)
        if kind is CapturedGenerator:
            return self.advance(iterator, None, None)
        step = self.python_method(iterator, "__next__")
        if step is not None:
            return self.call_method(step, iterator)
        self.refuse_opaque(iterator)
        if kind not in ITERATORS and not isinstance(iterator, (UserIterator, SequenceIterator)):
            if not hasattr(kind, "__next__"):
                raise self.fail(TypeError(f"'{kind.__name__}' object is not an iterator"))
            if not home(kind).startswith(("weft", "_collections_abc")):
                raise Break("opaque-iterator", seen=f"a {kind.__name__}")
        return self.native(next, iterator)

    def items(self, value: Any, asks: bool = False) -> list[Any]:
        """All items of an iterable, as captured code would get them."""
        ready = self.rows(value)
        if asks:
            self.ask_length(value)
        return self.native(list, ready)  # type: ignore[no-any-return]

    def ask_length(self, value: Any) -> None:
        """What makes a list or tuple of an iterable asks how long it may be."""
        if self.is_plain(value):
            return
        for name in ("__len__", "__length_hint__"):
            found = self.python_method(value, name)
            try:
                if found is not None:
                    self.call(len, (value,), {}) if name == "__len__" else self.call_method(found, value)
                    return
            except Raised as raised:
                if not isinstance(raised.exception, TypeError):
                    raise


class UserIterator:
    """A user's iterator in a form that C code may advance."""

    __slots__ = ("iterator", "machine")

    def __init__(self, iterator: Any, machine: Natives) -> None:
        self.iterator, self.machine = iterator, machine

    def __iter__(self) -> UserIterator:
        return self

    def __next__(self) -> Any:
        try:
            result = self.machine.next_item(self.iterator)
        except Raised as raised:
            error = raised.exception
        else:
            return result
        raise error


class SequenceIterator:
    """Iterates an object that has only `__getitem__`."""

    __slots__ = ("machine", "position", "value")

    def __init__(self, value: Any, machine: Natives) -> None:
        self.value, self.machine, self.position = value, machine, 0

    def __iter__(self) -> SequenceIterator:
        return self

    def __next__(self) -> Any:
        machine = self.machine
        try:
            found = machine.python_method(self.value, "__getitem__")
            result = machine.call_method(found, self.value, self.position)
        except Raised as raised:
            error = raised.exception
        else:
            self.position += 1
            return result
        if isinstance(error, (IndexError, StopIteration)):
            raise StopIteration
        raise error


ITEMS: tuple[Any, ...] = (list, tuple, dict, set, frozenset, deque)
"""Classes whose C code looks at the items of their subclasses' objects too."""
MAKES_KEYS = (set, frozenset, dict, OrderedDict)
BY_KEY = frozenset(
    {
        "get", "pop", "setdefault", "add", "discard", "remove", "move_to_end", "__contains__", "__getitem__",
        "__setitem__", "__delitem__",
    }
)  # fmt: skip
"""Methods of dicts and sets whose first argument is a key."""


def is_iterable(value: Any) -> bool:
    kind = type(value)
    return (
        kind not in SCALARS
        and (hasattr(kind, "__iter__") or hasattr(kind, "__getitem__"))
        and not isinstance(value, type)
    )


def builtin_name(function: Any) -> str:
    owner = getattr(function, "__self__", None) or getattr(function, "__objclass__", None)
    name = getattr(function, "__name__", type(function).__name__)
    if isinstance(owner, types.ModuleType):
        return str(name) if owner.__name__ == "builtins" else f"{owner.__name__}.{name}"
    if owner is None:
        module = getattr(function, "__module__", "")
        return str(name) if module in ("builtins", None, "") else f"{module}.{name}"
    return f"{owner.__name__ if isinstance(owner, type) else type(owner).__name__}.{name}"


TRANSPARENT = (
    types.FunctionType, types.MethodType, types.BuiltinFunctionType, types.CellType, type, types.ModuleType,
    property, staticmethod, classmethod, range, slice, functools.partial, np.generic, np.dtype,
    types.MethodDescriptorType, types.WrapperDescriptorType, types.MethodWrapperType, np.ufunc, re.Pattern,
    Enum, frozenset, tuple, typing.TypeVar, typing.ParamSpec, typing.TypeVarTuple,
)  # fmt: skip

BOUND = (types.BuiltinFunctionType, types.MethodWrapperType)
METHODS: dict[str, Any] = {}
"""Methods that capture does itself: `(machine, receiver, args, kwargs) -> (handled, result)`."""

Care = tuple[tuple[str, ...], bool | tuple[int, ...], tuple[Any, ...]]
PURE: dict[int, Care] = {}
"""Builtins that may be called: the protocols they use on arguments (deeply), whether they iterate them (all,
or those at some places), and which arguments they call.
"""
NESTED = {
    itertools.chain: iter,
    itertools.chain.from_iterable: iter,
    itertools.starmap: tuple,
    itertools.compress: bool,
}
"""Builtins whose last argument's items C code treats so."""
DECIDERS = (filter, itertools.filterfalse, itertools.takewhile, itertools.dropwhile)
COUNTED = (
    enumerate, deque, itertools.islice, itertools.repeat, itertools.combinations, itertools.permutations,
    itertools.combinations_with_replacement, getattr(itertools, "batched", itertools.islice),
)  # fmt: skip
"""Builtins whose further arguments are numbers."""
_KEPT: list[Any] = []


def pure(
    *functions: Any,
    names: tuple[str, ...] = EQUALITY,
    iterates: bool | tuple[int, ...] = False,
    calls: tuple[Any, ...] = (),
) -> None:
    for function in functions:
        PURE[id(function)] = (names, iterates, calls)
        _KEPT.append(function)


pure(*(f for f in vars(math).values() if callable(f)), names=NUMERIC, iterates=True)
pure(chr, ord, bin, hex, oct, divmod, round, pow, abs, complex, int, bytes, bytearray, names=NUMERIC)
pure(range, slice, float, names=NUMERIC)
pure(
    object,
    object.__new__,
    tuple.__new__,
    str.__new__,
    int.__new__,
    float.__new__,
    names=NUMERIC,
    iterates=True,
)
pure(list.__new__, dict.__new__, set.__new__, frozenset.__new__, names=EQUALITY, iterates=True)
pure(BaseException.__new__, BaseExceptionGroup.__new__, names=())
pure(list, tuple, zip, names=(), iterates=True)
pure(enumerate, deque, reversed, names=(), iterates=(0,))
pure(set, frozenset, dict, OrderedDict, names=EQUALITY, iterates=True)
pure(Size, names=NUMERIC, iterates=True)
pure(map, filter, names=(), iterates=True, calls=(0,))
pure(
    staticmethod, classmethod, property, functools.partial, types.MethodType, types.SimpleNamespace, names=()
)
FROM_ITERABLE = itertools.chain.from_iterable  # a new object at each reading
pure(
    itertools.chain,
    FROM_ITERABLE,
    itertools.cycle,
    itertools.zip_longest,
    itertools.product,
    names=(),
    iterates=True,
)
pure(itertools.repeat, names=())
pure(itertools.count, names=NUMERIC)
pure(
    itertools.islice,
    itertools.combinations,
    itertools.permutations,
    itertools.combinations_with_replacement,
    itertools.pairwise,
    itertools.tee,
    names=(),
    iterates=(0,),
)
pure(itertools.compress, names=("__bool__", "__len__"), iterates=True)
pure(
    itertools.starmap,
    itertools.takewhile,
    itertools.dropwhile,
    itertools.filterfalse,
    names=(),
    iterates=True,
    calls=(0,),
)
pure(itertools.groupby, names=(), iterates=(0,), calls=(1, "key"))
pure(itertools.accumulate, names=(), iterates=(0,), calls=(1, "func"))
pure(getattr(itertools, "batched", itertools.islice), names=(), iterates=(0,))
pure(functools.cmp_to_key, names=(), calls=(0,))
pure(operator.itemgetter, operator.attrgetter, operator.methodcaller, names=())
pure(
    str.maketrans,
    dict.fromkeys,
    OrderedDict.fromkeys,
    float.fromhex,
    int.from_bytes,
    bytes.fromhex,
    iterates=(0,),
)
