"""C calls: calling C code on the interpreter's values.

Takes a builtin and its arguments. One idea: a builtin that neither touches the outside world nor runs Python
code unseen may simply be called, since the interpreter's values are real objects. What its arguments could
run unseen is the business of `c_arguments`.
"""

from __future__ import annotations

import functools
import itertools
import math
import operator
import re
import types
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.capture.attributes import HEAP, IMMUTABLE, number_of
from weft.capture.c_arguments import CONTAINERS, ITERATORS, NUMERIC, TEXT, VIEWS
from weft.capture.calls import HANDLERS
from weft.capture.iterators import is_iterable
from weft.capture.namespaces import InstanceDict
from weft.capture.protocols import EQUALITY, KEYED, MUTATES, answers_in_c, as_items, is_users
from weft.capture.sources import GETTERS
from weft.capture.values import Args, Callback, CapturedGenerator, Kwargs, has_type
from weft.capture.wrapping import SCALARS, SYMBOLIC
from weft.core.types import Size
from weft.tensor.base import Tensor
from weft.trace.breaks import Break
from weft.trace.scalars import plain

if TYPE_CHECKING:
    from weft.capture.machine import Machine

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


class CCalls:
    """Calling C code."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.calls, self.c_arguments = machine.calls, machine.c_arguments
        self.iterators, self.operators = machine.iterators, machine.operators
        self.world, self.scalars = machine.world, machine.scalars
        self.native, self.fail = machine.native, machine.fail

    def call(self, function: Any, args: Args, kwargs: Kwargs) -> Any:
        """Calls a function, method or class written in C; a break where it is not known to be harmless."""
        special = CALLED_WITH_ONE.get(type(function))
        if special is not None and len(args) == 1 and not kwargs:
            return special(self.machine, function, args[0])
        called = CALLED.get(type(function))
        if called is not None:
            return called(self.machine, function, args, kwargs)
        if id(function) in PURE:
            return self.call_pure(function, args, kwargs)
        receiver = getattr(function, "__self__", None)
        if receiver is itertools.chain:
            return self.call_pure(FROM_ITERABLE, args, kwargs)
        if has_type(function, (types.BuiltinFunctionType, types.MethodWrapperType)) and receiver is not None:
            if not has_type(receiver, (types.ModuleType, type)):
                return self.call_method(function.__name__, receiver, args, kwargs, function)
            if has_type(receiver, type) and receiver in RECEIVERS:
                return self.call_method(function.__name__, receiver, args, kwargs, function)
        if has_type(receiver, type) and has_type(function, BOUND):
            owner = getattr(function, "__objclass__", type)
            handler = HANDLERS.get(id(owner.__dict__.get(function.__name__)))
            if handler is not None:
                return handler(self.machine, (receiver, *args), kwargs)
        if has_type(function, (types.MethodDescriptorType, types.WrapperDescriptorType)) and args:
            name = function.__name__
            if has_type(args[0], SYMBOLIC):
                args = (number_of(args[0]), *args[1:])
            if function.__objclass__ in RECEIVERS or name in ("__init__", "__new__"):
                if has_type(args[0], SYMBOLIC):
                    args = (args[0].plain(), *args[1:])
                bound = self.native(function.__get__, args[0])
                return self.call_method(name, args[0], args[1:], kwargs, bound)
        if has_type(function, type) and issubclass(function, np.generic):
            args = tuple(plain(value) for value in args)
            if all(type(v) in SCALARS or has_type(v, np.generic) for v in (*args, *kwargs.values())):
                return self.native(function, *args, **kwargs)
            raise Break("numpy-call", seen=f"builtin: {function.__name__}")
        if has_type(function, type) and issubclass(function, BaseException):
            return self.world.keep(self.native(function, *args, **kwargs))
        if not callable(function):
            raise self.fail(TypeError(f"'{type(function).__name__}' object is not callable"))
        raise Break("builtin-call", seen=f"builtin: {builtin_name(function)}")

    def call_pure(self, function: Any, args: Args, kwargs: Kwargs) -> Any:
        """Calls a builtin of `PURE`, its arguments checked and prepared as stated there."""
        names, iterates, callbacks = PURE[id(function)]
        if callbacks:
            args, kwargs = self.callable_arguments(function, callbacks, args, kwargs)
        if function in (dict, OrderedDict):
            args = tuple(map(self.c_arguments.readable_mapping, args))
        if function in (range, hex, bin, oct, chr):
            args = tuple(self.calls.call(operator.index, (v,), {}) if is_users(v) else v for v in args)
        if function in (set, frozenset):
            args = tuple(map(table_of, args))
        if function in NESTED:
            function, args = self.inner_iterables(function, args)
        if iterates is not False:
            places = range(len(args)) if iterates is True else iterates
            given, args = args, self.iterators.iterables(args, places)
            if function in (list, tuple) and len(args) == 1:
                self.iterators.ask_length(given[0])
            if "iterable" in kwargs:
                kwargs = {**kwargs, "iterable": self.iterators.iterable(kwargs["iterable"])}
        if function in COUNTED or function is itertools.product:
            for value in (*(args[1:] if function in COUNTED else ()), *kwargs.values()):
                self.c_arguments.check(value, NUMERIC, deep=False)
        if function in MAKES_KEYS and args and not kwargs:
            args = self.keyed_arguments(function, args)
        else:
            for value in (*args, *kwargs.values()):
                self.c_arguments.check(value, names)
        if function.__class__ is types.BuiltinFunctionType and any(has_type(v, SYMBOLIC) for v in args):
            if not kwargs:
                return self.native(self.scalars.apply, function, *args)
        return self.world.keep(self.native(function, *args, **kwargs))

    def callable_arguments(
        self, function: Any, places: tuple[Any, ...], args: Args, kwargs: Kwargs
    ) -> tuple[Args, Kwargs]:
        """The arguments, with those that C code calls in a form that it may call."""
        call = {itertools.groupby: self.call_to_compare, itertools.accumulate: self.call_or_add}.get(function)
        call = self.call_for_truth if function in DECIDERS else call
        if call is not None and not any(place < len(args) for place in places if type(place) is int):
            kwargs = {**dict.fromkeys([place for place in places if type(place) is str]), **kwargs}

        def ready(value: Any) -> Any:
            if call is None or (value is not None and not callable(value)):
                return self.c_arguments.callback(value)
            return Callback(value, call)

        args = tuple(ready(value) if place in places else value for place, value in enumerate(args))
        return args, {name: ready(value) if name in places else value for name, value in kwargs.items()}

    def inner_iterables(self, function: Any, args: Args) -> tuple[Any, tuple[Any, ...]]:
        """The arguments, where C code iterates what an iterable gives, asks it for truth, or does so late."""
        if all(type(value) in CONTAINERS and all(map(answers_in_c, value)) for value in args[-1:]):
            if function is not itertools.chain or all(map(answers_in_c, args)):
                return function, args
        if function is itertools.chain:
            function, args = itertools.chain.from_iterable, (args,)
        if not args:
            return function, args
        made = map(self.c_arguments.callback(NESTED[function]), self.iterators.iterable(args[-1]))
        return function, (*args[:-1], self.world.keep(made))

    def call_to_compare(self, function: Any, args: Args, kwargs: Kwargs) -> Any:
        """A result that C code is going to compare; the argument itself where there is no function."""
        result = args[0] if function is None else self.calls.call(function, args, kwargs)
        self.c_arguments.check(result, EQUALITY)
        return result

    def call_for_truth(self, function: Any, args: Args, kwargs: Kwargs) -> bool:
        """A result of which C code is going to ask whether it is true."""
        return self.operators.truth(args[0] if function is None else self.calls.call(function, args, kwargs))

    def call_or_add(self, function: Any, args: Args, kwargs: Kwargs) -> Any:
        """What `accumulate` calls: addition where there is no function."""
        return self.calls.call(operator.add if function is None else function, args, kwargs)

    def keyed_arguments(self, function: Any, args: Args) -> tuple[Any, ...]:
        """What a new set or dict is made of, its keys checked."""
        if has_type(args[0], (dict, types.MappingProxyType)):
            self.c_arguments.check_keys(list(args[0].keys()))
            return args
        items = self.iterators.items(args[0])
        if function in (set, frozenset):
            self.c_arguments.check_keys(items)
            return (
                args if type(args[0]) in (set, frozenset) else (items, *args[1:])
            )  # their tables are copied
        pairs = [tuple(self.iterators.items(item)) if is_iterable(item) else item for item in items]
        self.c_arguments.check_keys([pair[0] for pair in pairs if type(pair) is tuple and pair])
        return (pairs, *args[1:])

    def check_arguments(self, name: str, receiver: Any, args: Args, kwargs: Kwargs) -> None:
        """Breaks where a builtin method would run Python code unseen on its receiver or arguments."""
        if has_type(receiver, KEYED) and name in BY_KEY and not kwargs:
            self.c_arguments.check_keys(args[:1], receiver)
            return
        if name == "fromkeys" and args and not kwargs:
            self.c_arguments.check_keys(args[0] if has_type(args[0], list) else ())
            return
        readable = (set, frozenset, dict) if has_type(receiver, dict) else (*KEYED, list, tuple)
        if has_type(receiver, KEYED) and all(has_type(value, readable) for value in args) and not kwargs:
            if name not in SHALLOW:
                keys = [key for value in args for key in value]
                self.c_arguments.check_keys(keys, receiver)
            return
        if name not in SHALLOW:
            self.c_arguments.check_items(receiver, EQUALITY)
        names = (*TEXT, *ITEMS_BY_KEY) if has_type(receiver, str) else EQUALITY
        if not has_type(receiver, (*KEYED, list, tuple, deque)):
            names = (*names, *NUMERIC, "__bytes__")  # containers keep what they are given, and ask it nothing
        check = self.c_arguments.check_items if name in ITERATING else self.c_arguments.check
        for value in args:
            check(value, names, deep=name not in SHALLOW)
        for value in kwargs.values():
            check(value, (*names, *NUMERIC), deep=name not in SHALLOW)

    def misses(self, receiver: Any) -> bool:
        """Whether a dict asks a method of the user's for what it has not."""
        return (
            is_users(receiver)
            and self.operators.attributes.python_method(receiver, "__missing__") is not None
        )

    def counts(self, name: str, receiver: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """The arguments of a builtin method, with numbers where it asks for `__index__`."""
        places = COUNTS.get(name, ()) if not has_type(receiver, (*KEYED, types.MappingProxyType)) else ()
        if not any(is_users(args[place]) for place in places if place < len(args)):
            return args
        index = self.operators.index
        return tuple([index(value) if place in places else value for place, value in enumerate(args)])

    def call_method(self, name: str, receiver: Any, args: Args, kwargs: Kwargs, function: Any) -> Any:
        """Calls a builtin method, of which `function` is bound to the receiver."""
        kind = type(receiver)
        special = METHODS.get(name)
        if special is not None:
            handled, result = special(self.machine, receiver, args, kwargs)
            if handled:
                return result
        if has_type(receiver, Tensor):
            return self.native(function, *args, **kwargs)
        if kind in (int, float, bool, complex):
            args = tuple(map(plain, args))  # which know no other classes
        user = kind.__flags__ & HEAP and not kind.__flags__ & IMMUTABLE and not has_type(receiver, type)
        if (
            user
            and not issubclass(kind, tuple(CONTAINERS) + (BaseException, str, int, float))
            and not issubclass(kind, InstanceDict)
        ):
            if name not in ("__init__", "__init_subclass__", "__new__"):
                if not has_type(receiver, (CapturedGenerator, *SYMBOLIC, np.generic)):
                    raise Break("builtin-call", seen=f"builtin: {kind.__name__}.{name}")
        elif not user and kind not in RECEIVERS and not has_type(receiver, type):
            if not has_type(receiver, (np.generic, BaseException, operator.itemgetter)):
                raise Break("builtin-call", seen=f"builtin: {kind.__name__}.{name}")
        if not user and kind not in CONTAINERS and not has_type(receiver, (BaseException, *GETTERS)):
            self.c_arguments.refuse_opaque(receiver)
        if name == "update" and has_type(receiver, dict):
            args = tuple(map(self.c_arguments.readable_mapping, args))
        if name in ITERATING and not has_type(receiver, BaseException):
            if name == "fromkeys" and args and is_iterable(args[0]):
                args = (self.iterators.items(args[0]), *args[1:])
            elif name != "fromkeys":
                args = (
                    tuple(map(table_of, args))
                    if has_type(receiver, (set, frozenset)) and name != "isdisjoint"
                    else args
                )
                args = self.iterators.iterables(args, range(len(args)))
        if "key" in kwargs:
            kwargs = {**kwargs, "key": self.c_arguments.callback(kwargs["key"])}
        if name in MUTATES:
            self.world.changes += 1
        if has_type(receiver, re.Pattern):
            args = tuple(map(self.c_arguments.callback, args))
            kwargs = {key: self.c_arguments.callback(value) for key, value in kwargs.items()}
        if has_type(receiver, dict) and name == "__getitem__" and self.misses(receiver):
            raise Break("builtin-protocol", seen=f"__missing__ of {kind.__name__}")
        args = self.counts(name, receiver, args)
        if name == "translate" and args and type(args[0]) is dict:  # which knows no other numbers
            args = ({key: plain(value) for key, value in args[0].items()}, *args[1:])
        self.check_arguments(name, receiver, args, kwargs)
        return self.world.keep(self.native(function, *args, **kwargs))


def table_of(value: Any) -> Any:
    """A set of a user's class as the one that other sets copy: they do not ask it for its items."""
    return as_items(value) if has_type(value, (set, frozenset)) and is_users(value) else value


MAKES_KEYS = (set, frozenset, dict, OrderedDict)
ITEMS_BY_KEY = ("__getitem__", "__missing__")
COUNTS: dict[str, tuple[int, ...]] = {
    **dict.fromkeys(("center", "ljust", "rjust", "zfill", "expandtabs", "to_bytes"), (0,)),
    **dict.fromkeys(("pop", "insert", "rotate", "__getitem__", "__setitem__", "__delitem__"), (0,)),
    **dict.fromkeys(("__mul__", "__rmul__", "__imul__", "__round__"), (0,)),
    **dict.fromkeys(("index", "rindex", "find", "rfind", "count", "startswith", "endswith"), (1, 2)),
    **dict.fromkeys(("split", "rsplit", "hex"), (1,)),
    "replace": (2,),
}
"""Which arguments builtin methods ask for `__index__`: counts, widths and places."""
BY_KEY = frozenset(
    {
        "get", "pop", "setdefault", "add", "discard", "remove", "move_to_end", "__contains__", "__getitem__",
        "__setitem__", "__delitem__",
    }
)  # fmt: skip
"""Methods of dicts and sets whose first argument is a key."""


def builtin_name(function: Any) -> str:
    owner = getattr(function, "__self__", None) or getattr(function, "__objclass__", None)
    name = getattr(function, "__name__", type(function).__name__)
    if has_type(owner, types.ModuleType):
        return str(name) if owner.__name__ == "builtins" else f"{owner.__name__}.{name}"
    if owner is None:
        module = getattr(function, "__module__", "")
        return str(name) if module in ("builtins", None, "") else f"{module}.{name}"
    return f"{owner.__name__ if has_type(owner, type) else type(owner).__name__}.{name}"


BOUND = (types.BuiltinFunctionType, types.MethodWrapperType)
CALLED: dict[type, Callable[[Machine, Any, Args, Kwargs], Any]] = {}
"""What captured code does instead of calling objects of these types: `(machine, object, args, kwargs)`."""
CALLED_WITH_ONE: dict[type, Callable[[Machine, Any, Any], Any]] = {}
"""As `CALLED`, where the object is called with one argument: `(machine, object, argument)`."""
METHODS: dict[str, Callable[[Machine, Any, Args, Kwargs], tuple[bool, Any]]] = {}
"""Methods that capture does itself: `(machine, receiver, args, kwargs) -> (handled, result)`."""

Treatment = tuple[tuple[str, ...], bool | tuple[int, ...], tuple[Any, ...]]
PURE: dict[int, Treatment] = {}
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
    """Files builtins in `PURE`."""
    for function in functions:
        PURE[id(function)] = (names, iterates, calls)
        _KEPT.append(function)


pure(*(f for f in vars(math).values() if callable(f)), names=NUMERIC)
pure(math.fsum, math.prod, math.dist, getattr(math, "sumprod", math.dist), names=NUMERIC, iterates=True)
pure(chr, ord, bin, hex, oct, divmod, round, pow, abs, complex, int, names=NUMERIC)
pure(bytes, bytearray, names=(*NUMERIC, "__iter__", "__getitem__", "__bytes__"))
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
