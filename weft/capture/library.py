"""Library: functions of the standard library that captured code may use, beside the builtins.

Takes calls of heapq, bisect, re, copy and the like. One idea: what works on its arguments alone is called on
the interpreter's values (see `c_calls`); copying walks objects the way `copy` does, but reads with guards.
"""

from __future__ import annotations

import bisect
import copy
import functools
import heapq
import operator
import os
import re
import types
import weakref
from collections import OrderedDict, deque, namedtuple
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from weft.autograd.grad_mode import no_grad, set_grad_enabled
from weft.capture.attributes import HEAP, IMMUTABLE, SPECIAL
from weft.capture.builtins import STOOD_FOR, answers, index_of
from weft.capture.c_arguments import ORDER
from weft.capture.c_calls import CALLED, CALLED_WITH_ONE, METHODS, RECEIVERS, pure
from weft.capture.calls import BY_CODE, Handler, handles, natively
from weft.capture.guards import Guard
from weft.capture.namespaces import ClassDict, ModuleDict
from weft.capture.plain import NotPlain, exact_key, freeze
from weft.capture.protocols import EQUALITY, answers_in_c
from weft.capture.raising import required
from weft.capture.sources import module
from weft.capture.values import CACHED, Args, Callback, Kwargs, has_type
from weft.capture.walkers import WALKERS
from weft.capture.world import ABSENT, items_of
from weft.capture.wrapping import SCALARS, SYMBOLIC
from weft.core.device import device, get_default_device, is_plain
from weft.core.dtypes import dtype
from weft.core.types import Size
from weft.graph.graph import Graph
from weft.graph.node import Node
from weft.ops.record import Ops
from weft.overrides import is_tensor_like
from weft.tensor.base import Tensor
from weft.tensor.facts import (
    CHECK_FAILED,
    _assert,
    _check,
    sym_float,
    sym_int,
    sym_ite,
    sym_max,
    sym_min,
    sym_not,
    sym_sum,
)
from weft.trace.breaks import Break
from weft.trace.recorder import _set_grad_enabled

if TYPE_CHECKING:
    from weft.capture.machine import Machine

pure(heapq.heapify, heapq.heappop, heapq.heappush, heapq.heappushpop, heapq.heapreplace, names=ORDER)
pure(
    bisect.bisect_left,
    bisect.bisect_right,
    bisect.insort_left,
    bisect.insort_right,
    names=(*ORDER, "__index__"),
    calls=("key",),
)
pure(operator.concat, names=())
handles(operator.abs)(lambda machine, args, kwargs: machine.calls.call(abs, args, kwargs))


@handles(operator.length_hint)
def length_hint(machine: Machine, args: Args, kwargs: Kwargs) -> Any:
    if kwargs or not args or not has_type(args[0], (list, tuple, dict, set, frozenset, range, str)):
        raise Break("builtin-call", seen="builtin: operator.length_hint")
    return machine.calls.call(len, args[:1], {})


pure(operator.countOf, operator.indexOf, names=EQUALITY, iterates=True)


@handles(range)
def range_(machine: Machine, args: Args, kwargs: Kwargs) -> Any:
    return machine.c_calls.call_pure(range, tuple(index_of(machine, value) for value in args), kwargs)


@answers(globals, 0, 0)
def globals_(machine: Machine) -> Any:
    assert machine.frame is not None
    return machine.wrapping.module_dict(machine.frame.globals, machine.frame.globals_source)


STOOD_FOR.update({ModuleDict: dict, ClassDict: types.MappingProxyType})


answers(ascii, 1, 1)(lambda machine, value: machine.texts.ascii(value))


@handles(types.MappingProxyType)
def mapping_proxy(machine: Machine, args: Args, kwargs: Kwargs) -> Any:
    if args and not has_type(args[0], (dict, *SCALARS, list, tuple)):
        raise Break("unusual-object", seen=f"a proxy of a {type(args[0]).__name__}")
    return machine.world.keep(machine.native(types.MappingProxyType, *args, **kwargs))


CALLED_WITH_ONE[type(functools.cmp_to_key(lambda a, b: 0))] = lambda machine, key, value: machine.world.keep(
    machine.native(key, value)
)


def dispatch(machine: Machine, function: types.FunctionType, args: Args, kwargs: Kwargs) -> Any:
    """Which function `functools.singledispatch` chooses: read from its registry, leaving its cache alone."""
    source = machine.world.source_of(function)
    if source is None or len(args) != 1 or kwargs:
        raise Break("skipped-function", seen="functools.singledispatch")
    cells = {}
    for position, name in enumerate(function.__code__.co_freevars):
        cell = (function.__closure__ or ())[position]
        if name in ("registry", "cache_token"):
            if id(cell) not in machine.world.known:
                machine.world.learn(cell, cell, source.member("__closure__").item(position))
            cells[name] = machine.variables.cell_content(cell)
    if cells["cache_token"] is not None:
        raise Break("skipped-function", seen="functools.singledispatch with abstract classes")
    registry = cells["registry"]
    found = registry.get(args[0])
    private: Any = functools
    return machine.native(private._find_impl, args[0], registry) if found is None else found


BY_CODE[functools.singledispatch(lambda value: value).dispatch.__code__] = dispatch


def pop_of_set(machine: Machine, receiver: Any, args: Args, kwargs: Kwargs) -> tuple[bool, Any]:
    """A set remembers where it popped last, which no copy knows."""
    if has_type(receiver, set) and len(receiver) > 1 and not machine.world.is_fresh(receiver):
        raise Break("set-order", seen=f"{machine.world.source_of(receiver)}.pop()")
    return False, None


METHODS["pop"] = pop_of_set


# -- devices -------------------------------------------------------------------------------------------------
def note_device(machine: Machine) -> None:
    """New tensors went where the code around the call says."""
    ask = is_plain if is_plain() else get_default_device
    machine.world.guards.add(Guard("AMBIENT", None, (ask, ask())))


def makes_tensor(node: Node) -> bool:
    """Whether a node gives a tensor that no other tensor and no argument says where to put."""
    if node.op != "call_function" or not has_type(node.meta.get("val"), Tensor):
        return False
    placed = any(has_type(value.meta.get("val"), Tensor) for value in node.all_input_nodes)
    return not placed and node.kwargs.get("device") is None


def note_device_of(machine: Machine, graph: Graph) -> None:
    """Notes where new tensors went, if the graph makes any."""
    if any(map(makes_tensor, graph.nodes)):
        note_device(machine)


@handles(get_default_device)
def default_device(machine: Machine, args: Args, kwargs: Kwargs) -> Any:
    note_device(machine)
    return machine.native(get_default_device, *args, **kwargs)


# -- functools.lru_cache, collections.namedtuple, decorating with grad modes ---------------------------------
def call_cached(machine: Machine, function: Any, args: Args, kwargs: Kwargs) -> Any:
    """A call of what `functools.lru_cache` made: the function itself is captured.

    That is the same where it does nothing but compute, and where nobody can tell a cached result from a new
    one but by its identity. Tensors are found again by their identity, which graphs do not keep.
    """
    if not any(has_type(value, Tensor) for value in (*args, *kwargs.values())):
        raise Break(
            "builtin-call",
            seen="functools.lru_cache without a tensor argument: its cache may hold the result",
        )
    before = effects_so_far(machine)
    inner = machine.attributes.load(function, "__wrapped__")
    result = machine.calls.call(inner, args, kwargs)
    if effects_so_far(machine) != before:
        raise Break("builtin-call", seen="functools.lru_cache around a function with side effects")
    if not shareable(result):
        raise Break(
            "builtin-call",
            seen=f"functools.lru_cache around a function that returns a {type(result).__name__}",
        )
    return result


def effects_so_far(machine: Machine) -> tuple[Any, ...]:
    """What captured code has written to the outside until now."""
    world = machine.world
    writes = [(id(o.target), name, id(v)) for o in world.overlays.values() for name, v in o.writes.items()]
    grown = sum(len(unopened.log) for unopened in world.still_unopened())
    changed = [
        (id(known.value), items_of(known.value) if type(known.value) in WALKERS else [*map(id, known.value)])
        for known in world.changed_mirrors()
    ]
    written = sum("writes" in node.meta for node in machine.graph.nodes)
    return writes, grown, changed, written


def shareable(value: Any) -> bool:
    if type(value) is tuple:
        return all(map(shareable, value))
    return type(value) in SCALARS or has_type(value, (Tensor, *SYMBOLIC, dtype, device, Size))


CALLED[CACHED] = call_cached


@handles(namedtuple)
def namedtuple_(machine: Machine, args: Args, kwargs: Kwargs) -> Any:
    """The class, one for all calls that ask for the same one."""
    try:
        exact = [exact_key(freeze(value)) for value in (args, tuple(kwargs.items()))]
    except NotPlain:
        raise Break("class-definition", seen="collections.namedtuple") from None
    assert machine.frame is not None
    kwargs = {"module": machine.frame.globals.get("__name__", "__main__"), **kwargs}
    key = (*exact, kwargs["module"])
    if key not in TUPLE_CLASSES:
        TUPLE_CLASSES.setdefault(key, machine.native(namedtuple, *args, **kwargs))
    return TUPLE_CLASSES[key]


TUPLE_CLASSES: dict[Any, type] = {}
"""Classes of named tuples that captured code asked for, by how they were asked for."""


def decorate_with_mode(machine: Machine, function: types.FunctionType, args: Args, kwargs: Kwargs) -> Any:
    """`no_grad()(function)` and the like, for a function that captured code made."""
    plain = len(args) == 2 and not kwargs and type(args[1]) is types.FunctionType
    if not plain or not machine.world.is_fresh(args[1]) or args[1].__code__.co_flags & SUSPENDS:
        raise Break("library-callback", seen=f"a {type(args[0]).__name__} as a decorator")
    return machine.world.keep(machine.native(function, *args))


SUSPENDS = 0x20 | 0x80 | 0x100 | 0x200
for _mode in (no_grad, set_grad_enabled):
    BY_CODE[_mode.__call__.__code__] = decorate_with_mode


# -- the library's own ---------------------------------------------------------------------------------------
natively(_set_grad_enabled)  # PyTorch's inner switch, which context managers of users call


SPECIAL[Ops] = lambda machine, value, name: machine.native(getattr, value, name)  # ops never change


@handles(Tensor.__iter__)
def iterate_tensor(machine: Machine, args: Args, kwargs: Kwargs) -> Any:
    return machine.iterators.iterator(*args, **kwargs)


@handles(_check)
def check(machine: Machine, args: Args, kwargs: Kwargs) -> Any:
    """The message is asked for where the condition is false, by the captured code."""
    condition, *rest = args
    message = rest[0] if rest else kwargs.get("message")
    if required(machine, condition) or machine.operators.truth(condition):
        return None
    text = CHECK_FAILED if message is None else machine.calls.call(message, (), {})
    raise machine.fail(RuntimeError(text))


def _as_python(function: Callable[..., Any]) -> Handler:
    """A function of Python's own in place of ours."""
    return lambda machine, args, kwargs: machine.calls.call(function, args, kwargs)


for _ours, _python in (
    (sym_max, max), (sym_min, min), (sym_not, operator.not_), (sym_int, int), (sym_float, float),
    (sym_sum, sum),
):  # fmt: skip
    handles(_ours)(_as_python(_python))


@handles(sym_ite)
def choose(machine: Machine, args: Args, kwargs: Kwargs) -> Any:
    condition, yes, no = machine.native(lambda b, t, f: (b, t, f), *args, **kwargs)
    return yes if machine.operators.truth(condition) else no


@handles(_assert)
def assert_(machine: Machine, args: Args, kwargs: Kwargs) -> Any:
    condition, message = machine.native(lambda condition, message: (condition, message), *args, **kwargs)
    if not required(machine, condition) and not machine.operators.truth(condition):
        raise machine.fail(AssertionError(message))


@answers(id, 1, 1)
def address(machine: Machine, value: Any) -> Any:
    """`id` of an object that existed before the call; what captured code makes has another one in every
    call."""
    known = machine.world.known.get(id(value))
    if known is None:
        raise Break("builtin-call", seen="builtin: id of an object that is new in every call")
    machine.world.guard("EQ", known.source.address(), id(known.original))
    return id(known.original)


def dereference(machine: Machine, reference: Any, args: Args, kwargs: Kwargs) -> Any:
    """`reference()`, for a weak reference that existed before; guarded, as all that is read from there."""
    source = machine.world.source_of(reference)
    if source is None or args or kwargs:
        raise Break("builtin-call", seen="a weak reference made here")
    return machine.wrapping.wrap(reference(), source.referent())


CALLED[weakref.ReferenceType] = dereference


@handles(is_tensor_like)
def tensor_like(machine: Machine, args: Args, kwargs: Kwargs) -> Any:
    given = machine.native(lambda inp: inp, *args, **kwargs)
    if has_type(given, Tensor):
        return True
    return (
        not answers_in_c(given) and machine.attributes.lookup(type(given), "__torch_function__") is not ABSENT
    )


# -- the environment -----------------------------------------------------------------------------------------
@handles(type(os.environ).__getitem__)
def environment(machine: Machine, args: Args, kwargs: Kwargs) -> Any:
    """One variable of `os.environ`, guarded alone."""
    variables: Any = os.environ
    if len(args) != 2 or kwargs or args[0] is not variables or type(args[1]) is not str:
        raise Break("skipped-function", seen="os.environ[...]")
    key = machine.native(variables.encodekey, args[1])
    source = module("os").item("environ").field("_data")
    if key in variables._data:
        return machine.native(
            variables.decodevalue, machine.wrapping.wrap(variables._data[key], source.item(key))
        )
    machine.world.guard("LACKS", source, key)
    raise machine.fail(KeyError(args[1]))


@handles(os.getenv)
def getenv(machine: Machine, args: Args, kwargs: Kwargs) -> Any:
    variables = machine.wrapping.wrap(os.environ, module("os").item("environ"))
    return machine.calls.call(machine.attributes.load(variables, "get"), args, kwargs)


# -- regular expressions -------------------------------------------------------------------------------------
def _plain_text_work(function: Any) -> None:
    @handles(function)
    def work(machine: Machine, args: Args, kwargs: Kwargs) -> Any:
        for value in (*args, *kwargs.values()):
            if not has_type(value, (*SCALARS, re.Pattern, re.RegexFlag, types.FunctionType)):
                raise Break("skipped-function", seen=f"re.{function.__name__}")
        args = tuple(machine.c_arguments.callback(v) if has_type(v, types.FunctionType) else v for v in args)
        return machine.world.keep(machine.native(function, *args, **kwargs))


for _function in (
    re.compile, re.escape, re.findall, re.finditer, re.fullmatch, re.match, re.search, re.split, re.sub,
    re.subn,
):  # fmt: skip
    _plain_text_work(_function)
assert {re.Pattern, re.Match} <= RECEIVERS


# -- copies --------------------------------------------------------------------------------------------------
SHARED = (
    *SCALARS, *SYMBOLIC, type, types.FunctionType, types.BuiltinFunctionType, types.ModuleType, range,
    property, re.Pattern, Callback,
)  # fmt: skip
"""What a copy shares with the original."""
STATE_METHODS = (
    "__copy__", "__deepcopy__", "__reduce__", "__reduce_ex__", "__getstate__", "__setstate__",
    "__getnewargs__", "__getnewargs_ex__",
)  # fmt: skip


@handles(copy.copy)
def copy_(machine: Machine, args: Args, kwargs: Kwargs) -> Any:
    if len(args) != 1 or kwargs:
        return machine.native(copy.copy, *args, **kwargs)
    value = args[0]
    kind = type(value)
    if has_type(value, SHARED) or kind in (tuple, frozenset):
        return value
    if kind in (list, dict, set, deque, OrderedDict):
        return machine.world.keep(kind.copy(value))
    own = machine.attributes.python_method(value, "__copy__")
    if own is not None:
        return machine.calls.call_method(own, value)
    result, fields = like(machine, value, "copy.copy")
    result.__dict__.update(fields)
    return result


@handles(copy.deepcopy)
def deepcopy_(machine: Machine, args: Args, kwargs: Kwargs) -> Any:
    if len(args) != 1 or kwargs:
        raise Break("skipped-function", seen="copy.deepcopy with a memo")
    return deep(machine, args[0], {})


def deep(machine: Machine, value: Any, memo: dict[int, Any]) -> Any:
    kind = type(value)
    if has_type(value, SHARED):
        return value
    if id(value) in memo:
        return memo[id(value)]
    if kind is tuple or kind is frozenset:
        items = [deep(machine, item, memo) for item in value]
        if id(value) in memo:  # it holds itself
            return memo[id(value)]
        same = kind is tuple and all(a is b for a, b in zip(items, value, strict=True))
        memo[id(value)] = result = value if same else machine.world.keep(kind(items))
        return result
    if kind is list or kind is deque:
        result = memo[id(value)] = machine.world.keep([] if kind is list else deque(maxlen=value.maxlen))
        for item in value:
            result.append(deep(machine, item, memo))
        return result
    if kind is dict or kind is OrderedDict:
        result = memo[id(value)] = machine.world.keep(kind())
        for key, item in value.items():
            copied = deep(machine, key, memo)
            machine.c_arguments.check(copied, EQUALITY)
            result[copied] = deep(machine, item, memo)
        return result
    if kind is set:
        items = [deep(machine, item, memo) for item in value]
        machine.c_arguments.check(items, EQUALITY)
        result = memo[id(value)] = machine.world.keep(set(items))
        return result
    result, fields = like(machine, value, "copy.deepcopy")
    memo[id(value)] = result
    for name, item in fields.items():
        result.__dict__[name] = deep(machine, item, memo)
    return result


def like(machine: Machine, value: Any, seen: str) -> tuple[Any, dict[str, Any]]:
    """A new object of an ordinary class, and the attributes of the old one."""
    kind = type(value)
    ordinary = kind.__flags__ & HEAP and not kind.__flags__ & IMMUTABLE and not has_type(value, Tensor)
    maker: Any = kind.__new__
    if not ordinary or maker is not object.__new__ or kind.__dictoffset__ == 0:
        raise Break("skipped-function", seen=f"{seen} of a {kind.__name__}")
    slots = any("__slots__" in base.__dict__ for base in kind.__mro__)
    own = any(machine.attributes.python_method(value, name) is not None for name in STATE_METHODS)
    if slots or own or machine.attributes.lookup(kind, "__del__") is not ABSENT:
        raise Break("skipped-function", seen=f"{seen} of a {kind.__name__}")
    fields = dict(machine.attributes.load(value, "__dict__"))
    return machine.world.keep(object.__new__(kind)), fields
