"""Wrapping: how an object of the outside world becomes a value of the interpreter.

Takes an object and the source it was read from; gives the value to work with, and leaves the guards that make
this reading valid. One idea: one rule per type; see Note [Values of the interpreter] in `world`.
"""

from __future__ import annotations

import functools
import operator
import re
import sys
import types
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.capture.bytecode.instructions import Instruction
from weft.capture.counting import counted
from weft.capture.frame import Frame, Unread
from weft.capture.guards import TensorFacts, shown, wild
from weft.capture.namespaces import ModuleDict
from weft.capture.open_texts import OpenText, written
from weft.capture.rebuild.sets import filled, filling, table_size
from weft.capture.sources import GETTERS, PLAIN_PARTS, Source, c_base, plain_part
from weft.capture.sources import module as module_source
from weft.capture.values import BoundMethod, has_type
from weft.capture.walkers import DICT_VIEWS, WALKERS, alike, standing, walked
from weft.capture.world import Known, items_of
from weft.core.device import device
from weft.core.dtypes import dtype
from weft.core.naming import home
from weft.core.seams import Seams
from weft.core.types import Size
from weft.tensor.base import PLAIN, Parameter, Tensor
from weft.trace.breaks import Break
from weft.trace.fake import fake_of, is_fake
from weft.trace.scalars import SymBool, SymFloat, SymInt, SymNumber, is_untold, plain

if TYPE_CHECKING:
    from weft.capture.machine import Machine

SCALARS = (type(None), bool, int, float, complex, str, bytes, type(Ellipsis), type(NotImplemented))
CONSTANTS = frozenset({*SCALARS, range, slice, np.dtype, device, dtype, Size})
SYMBOLIC = (SymInt, SymFloat, SymBool)
BUILTIN_CALLABLES = (
    types.BuiltinFunctionType, types.MethodDescriptorType, types.WrapperDescriptorType,
    types.MethodWrapperType, types.ClassMethodDescriptorType, types.GetSetDescriptorType,
    types.MemberDescriptorType, np.ufunc,
)  # fmt: skip


COUNTERS = ("last_epoch", "_step_count")
"""What schedules count by: another number in every call."""


class Wrapping:
    """The interpreter's dealings with what existed before the call."""

    def __init__(self, machine: Machine, volatile: frozenset[str], dynamic: bool | None) -> None:
        self.machine = machine
        self.world, self.recorder, self.scalars = machine.world, machine.recorder, machine.scalars
        self.volatile = volatile
        self.dynamic = dynamic
        self.symbols: dict[Source, Any] = {}

    # -- reading ---------------------------------------------------------------------------------------------
    def wrap(self, value: Any, source: Source) -> Any:
        """The value for an object read from `source`."""
        kind = type(value)
        rule = RULES.get(kind)
        if rule is None:
            rule = _rule_for(value, kind)
        if self.world.pure and kind in (int, float):
            rule = Wrapping.constant
        known = self.seen_before(value, source) if rule in READ_ONCE else None
        result = rule(self, value, source) if known is None else known.value
        if self.world.pure and result is not value:
            raise Break("builtin-protocol", seen=f"{source}, read by a __hash__ or __eq__")
        return result

    def read(self, value: Any, source: Source) -> Any:
        """As `wrap`, for a value that goes to the stack: containers of the user's stay unopened there."""
        parts = self.machine.parts
        if parts.may_stay_unopened(value):
            if not self.machine.attributes.in_library() or takes_part_next(self.machine.frame, value):
                return parts.take(value, source)
        return self.wrap(value, source)

    def force(self, value: Any) -> Any:
        """The value, read where nothing has read it yet, and opened."""
        if type(value) is Unread:
            return self.wrap(value.value, value.source)
        return self.machine.parts.open(value)

    def take_over(self, original: Any, mirror: Any) -> Any:
        """Repeats on a mirror what was done to the container while it was unopened."""
        unopened = self.world.unopened.get(id(original))
        if unopened is None:
            return mirror
        kinds: tuple[Any, ...] = (OrderedDict, dict, list, deque)
        base = next((kind for kind in kinds if has_type(mirror, kind)), tuple)
        for name, args in unopened.log:
            if name in ("__setitem__", "__delitem__"):
                args = (plain(args[0]), *args[1:])  # a number that is a key must be known
            getattr(base, name)(mirror, *map(self.force, args))
        return mirror

    def seen_before(self, value: Any, source: Source) -> Known | None:
        """The record of an object that was read before; from another source, that both are one is guarded."""
        known = self.world.by_original.get(id(value))
        if known is not None and known.source != source:
            self.world.guard("SAME", source, known.source)
        return known

    def constant(self, value: Any, source: Source) -> Any:
        """A value that a guard compares."""
        if type(value) is str:
            self.refuse_volatile(source)
        return self.guarded(value, source)

    def guarded(self, value: Any, source: Source) -> Any:
        """A value that a guard compares, even one that varies."""
        self.world.guard("EQ", source, value)
        return value

    def refuse_volatile(self, source: Source) -> None:
        """Breaks where a value is asked for that is another one in every call."""
        if self.volatile and source is not None and wild(source) in self.volatile:
            raise Break("value-varies", seen=str(source))

    def open_text(self, op: str, number: Any, *more: str) -> OpenText | None:
        """A number that is another one in every call, as text that need not be known; None for others."""
        if not self.volatile or not isinstance(number, SymNumber) or is_untold(number):
            return None
        sources = [self.scalars.sources.get(one) for one in number.expression.symbols]
        seen = next(
            (str(each) for each in sources if each and self.volatile & {wild(each), shown(each)}), None
        )
        found = None if seen is None else written(op, number, seen, *more)
        self.machine.open_texts |= found is not None
        return found

    def identical(self, value: Any, source: Source) -> Any:
        """An object that a guard pins down: classes, modules, builtins, enum members."""
        self.world.guard("IS", source, value)
        if id(value) not in self.world.known:
            self.world.learn(value, value, source)
        return value

    def typed(self, value: Any, source: Source) -> Any:
        """An object that stays itself: its type is guarded, and whatever is read from it later."""
        self.world.guard("TYPE", source, type(value))
        return self.world.learn(value, value, source)

    def plain_part(self, value: Any, source: Source) -> Any:
        """A number or text of a class of the user's."""
        self.world.guard("TYPE", source, type(value))
        self.world.guard("EQ", source.plain(), plain_part(value))
        return self.world.learn(value, value, source)

    def integer(self, value: int, source: Source) -> Any:
        """A symbol where the number may vary, else a constant."""
        if not self.is_dynamic(source) or not -(2**62) < value < 2**62:
            return self.constant(value, source)
        if source.kind != "length":
            self.world.guard("TYPE", source, int)
        make = functools.partial(self.scalars.symbol_int, counter=self.passes_units(source))
        return self.symbol(make, value, source)

    def number(self, value: float, source: Source) -> Any:
        if value != value:  # containers know a NaN by its identity
            known = self.seen_before(value, source)
            self.world.guard("EQ", source, value)
            return value if known is not None else self.world.learn(value, value, source)
        argument = source.kind in ("local", "item")
        if (self.dynamic is False or not argument) and str(source) not in self.volatile:
            return self.constant(value, source)
        self.world.guard("TYPE", source, float)
        return self.symbol(self.scalars.symbol_float, value, source)

    def symbol(self, make: Callable[..., Any], value: Any, source: Source) -> Any:
        """The one symbol for what stands there, however often it is read."""
        if source not in self.symbols:
            self.symbols[source] = make(str(source), value, source)
        return self.symbols[source]

    def is_dynamic(self, source: Source) -> bool:
        root: Source | None = source
        while root is not None and root.kind == "item":
            root = root.parent
        if self.dynamic is not None and root is not None and root.kind == "local":
            return self.dynamic
        return self.is_counter(source) or str(source) in self.volatile

    def passes_units(self, source: Source) -> bool:
        """Whether a number that varies will be 0 or 1 in passing."""
        return self.is_counter(source) or source.kind == "length" or counted(source) in self.volatile

    def is_counter(self, source: Source) -> bool:
        """Whether this is the step counter of a schedule, and `dynamic` was not given."""
        return self.dynamic is None and source.kind in ("field", "member") and source.detail in COUNTERS

    # -- tensors ---------------------------------------------------------------------------------------------
    def tensor(self, value: Tensor, source: Source) -> Any:
        """A fake of the tensor, with symbols for the sizes that may vary."""
        if is_fake(value):
            raise Break("nested-capture", seen=str(source))
        if type(value.array) is not np.ndarray:
            raise Break("unknown-tensor", seen=f"{source}: a tensor on {value.device}")
        if value.requires_grad is not value.tracked:
            raise Break("unknown-tensor", seen=f"{source}: a view that does not follow its base")
        fake = fake_of(value, self.recorder.originals)
        shape: list[int | None] = list(value.array.shape)
        sizes: list[Any] = list(value.array.shape)
        for dim, size in enumerate(value.array.shape):
            if size > 1 and self.dynamic_size(value, source, dim):
                shape[dim] = None
                inner = size_source(source, dim)
                sizes[dim] = self.scalars.symbol_int(str(inner), size, inner, size=True)
        if any(size is None for size in shape):
            array: Any = fake.array
            array.shape = tuple(sizes)
            array.strides = open_strides(value.array, sizes)
        facts = TensorFacts(type(value), value.array.dtype, tuple(shape), value.requires_grad, value.device)
        self.world.guard("TENSOR", source, facts)
        return self.world.learn(fake, value, source)

    def dynamic_size(self, value: Tensor, source: Source, dim: int) -> bool:
        marks = value.__dict__.get("_dynamic_dims", {}) if hasattr(value, "__dict__") else {}
        if dim in marks:
            return bool(marks[dim])
        if self.dynamic is not None:
            return self.dynamic
        return str(size_source(source, dim)) in self.volatile

    # -- containers ------------------------------------------------------------------------------------------
    def sequence(self, value: Any, source: Source) -> Any:
        """A mirror of a list or deque."""
        kind: Any = type(value)
        list_like: Any = deque if issubclass(kind, deque) else list
        mirror: Any = list_like.__new__(kind)
        if list_like is deque:
            deque.__init__(mirror, (), value.maxlen)
            self.world.guard("EQ", source.member("maxlen"), value.maxlen)
        self.guard_length(value, source, list_like.__len__(value))
        with self.world.mirroring(mirror, value, source):
            for position, item in enumerate(list_like.__iter__(value)):
                list_like.append(mirror, self.wrap(item, source.item(position)))
            return self.take_over(value, self.snapshot(mirror))

    def tuple_(self, value: Any, source: Source) -> Any:
        if all(type(item) in SCALARS for item in tuple.__iter__(value)) and str(source) not in self.volatile:
            if type(value) is tuple and not any(self.is_dynamic(source.item(i)) for i in range(len(value))):
                return self.contents(value, source)
        known = self.seen_before(value, source)
        if known is not None:
            return known.value
        self.guard_length(value, source, tuple.__len__(value))
        items = [self.wrap(item, source.item(i)) for i, item in enumerate(tuple.__iter__(value))]
        mirror = tuple.__new__(type(value), items)
        if type(value) is not tuple and not all(map(operator.is_, items, tuple.__iter__(value))):
            fields = getattr(value, "__dict__", None)
            if fields:
                raise Break("unusual-object", seen=f"{type(value).__name__} with attributes of its own")
        if not items:
            return mirror
        return self.world.learn(mirror, value, source)

    def module_dict(self, fields: dict[str, Any], source: Source) -> Any:
        """The variables of a module as a value: one for each module."""
        known = self.world.by_original.get(id(fields))
        if known is not None:
            return known.value
        return self.world.learn(ModuleDict(self.machine, fields, source), fields, source)

    def mapping(self, value: Any, source: Source) -> Any:
        """A mirror of a dict."""
        name = value.get("__name__") if type(value) is dict else None
        if type(name) is str and name in sys.modules and sys.modules[name].__dict__ is value:
            self.world.guard("SAME", source, module_source(name))
            return self.module_dict(value, module_source(name))
        if id(value) in self.world.namespaces:
            raise Break("unusual-object", seen=f"{source}, a __dict__ that two sources lead to")
        kind: Any = type(value)
        first: Any = c_base(kind)
        mirror: Any = first.__new__(kind)
        self.world.guard("TYPE", source, kind)
        if issubclass(kind, defaultdict):
            factory = self.wrap(value.default_factory, source.member("default_factory"))
            mirror.default_factory = self.machine.c_arguments.factory(factory)
        with self.world.mirroring(mirror, value, source):
            self.fill(mirror, value, source)
            return self.take_over(value, self.snapshot(mirror))

    def fill(self, mirror: Any, value: Any, source: Source) -> None:
        """Puts the pairs of a dict into its mirror."""
        base = OrderedDict if issubclass(type(value), OrderedDict) else dict  # which keeps its order apart
        keys = list(base.keys(value))
        if all(plain_key(key) for key in keys):
            self.world.guard("KEYS", source, tuple(keys))
            for key in keys:
                base.__setitem__(mirror, key, self.wrap(dict.__getitem__(value, key), source.item(key)))
        else:
            self.world.guard("LEN", source, len(keys))
            items = []
            for position, (key, item) in enumerate(base.items(value)):
                kept = self.wrap(key, source.key(position))
                self.world.identify(kept)
                if kept is not key and not has_type(key, (tuple, Tensor)):
                    raise Break("unusual-key", seen=f"a {type(key).__name__} as key of {source}")
                items.append((kept, self.wrap(item, source.value(position))))
            self.machine.c_arguments.check_keys([key for key, _ in items])
            if len({*keys}) < len(keys) or any(dict.get(value, key, self) is self for key in keys):
                raise Break("unusual-key", seen=f"a key of {source} that has changed since it was put there")
            for kept, inner in items:
                base.__setitem__(mirror, kept, inner)

    def set_(self, value: Any, source: Source) -> Any:
        """A mirror of a set that walks in the same order; a frozenset stays itself."""
        kind = type(value)
        self.world.guard("TYPE", source, kind)
        base: Any = set if issubclass(kind, set) else frozenset
        items = list(base.__iter__(value))
        if all(plain_key(item) for item in items):
            self.world.guard("KEYS", source, tuple(items))
        else:
            self.world.guard("LEN", source, len(items))
            for position, item in enumerate(items):
                if self.wrap(item, source.element(position)) is not item:
                    raise Break("unusual-key", seen=f"a {type(item).__name__} in the set {source}")
            self.machine.c_arguments.check_keys(items)
            if len({*items}) < len(items) or not all(base.__contains__(value, item) for item in items):
                raise Break("unusual-key", seen=f"an item of {source} that has changed since")
        if base is frozenset:
            return self.world.learn(value, value, source)  # all of it is guarded, and it cannot change
        order, at_once = filling(items, table_size(value)) or (items, 0)
        mirror = filled(set.__new__(kind), order, at_once)
        if any(a is not b for a, b in zip(set.__iter__(mirror), items, strict=True)):
            raise Break("set-order", seen=str(source))
        if table_size(mirror) != table_size(value):
            self.world.cramped.add(id(mirror))
        self.world.learn(mirror, value, source)
        return self.snapshot(mirror)

    def guard_length(self, value: Any, source: Source, length: int) -> None:
        """Guards the type and the length of a container."""
        self.world.guard("TYPE", source, type(value))
        self.world.guard("LEN", source, length)

    def snapshot(self, mirror: Any) -> Any:
        """A mirror is filled: what it holds now is what the original holds."""
        known = self.world.known[id(mirror)]
        known.snapshot = items_of(mirror)
        return mirror

    def contents(self, value: Any, source: Source) -> Any:
        """A tuple of constants, compared as a whole."""
        self.world.guard("CONTENTS", source, value)
        if value and id(value) not in self.world.known:
            self.world.learn(value, value, source)  # who returns it returns this very object
        return value

    # -- iterators and views ---------------------------------------------------------------------------------
    def view(self, value: Any, source: Source) -> Any:
        """A view of a dict as one of its mirror."""
        self.world.guard("TYPE", source, type(value))
        try:
            mirror = self.wrap(walked(value), source.walked())
        except Break:
            mirror = None
        if not has_type(mirror, dict):
            return self.world.learn(value, value, source)
        return self.world.learn(DICT_VIEWS[type(value)](mirror), value, source)

    def walker(self, value: Any, source: Source) -> Any:
        """An iterator of a builtin container as one over its mirror, at the same position. One that stands
        elsewhere in every call is not looked into.
        """
        self.world.guard("TYPE", source, type(value))
        position = standing(value)
        if position is None or str(source.place()) in self.volatile:
            return self.world.learn(value, value, source)
        self.world.guard("EQ", source.place(), position)
        try:
            over: Any = self.wrap(walked(value), source.walked())
        except Break:
            return self.world.learn(value, value, source)
        within = over if type(value) is zip else (over,)
        if type(value) in (zip, enumerate) and not all(self.is_mirrored(each) for each in within):
            return self.world.learn(value, value, source)
        mirror = self.world.learn(alike(value, over), value, source)
        self.world.known[id(mirror)].snapshot = items_of(mirror)
        return mirror

    def is_mirrored(self, iterator: Any) -> bool:
        known = self.world.known.get(id(iterator))
        return known is not None and type(iterator) in WALKERS and known.value is not known.original

    # -- callables -------------------------------------------------------------------------------------------
    def function(self, value: types.FunctionType, source: Source) -> Any:
        """A Python function: its code is guarded, and later what it reads."""
        if library_native(value):
            return self.identical(value, source)
        if id(value) not in self.world.known:
            self.world.guard("TYPE", source, types.FunctionType)
            self.world.guard("CODE", source, value.__code__)
            self.world.learn(value, value, source)
        else:
            self.seen_before(value, source)
        return value

    def method(self, value: types.MethodType, source: Source) -> Any:
        self.world.guard("TYPE", source, types.MethodType)
        function = self.wrap(value.__func__, source.member("__func__"))
        receiver = self.wrap(value.__self__, source.member("__self__"))
        return self.world.learn(types.MethodType(function, receiver), value, source)

    def builtin(self, value: Any, source: Source) -> Any:
        receiver = getattr(value, "__self__", None)
        if receiver is None or has_type(receiver, (types.ModuleType, type)):
            return self.identical(value, source)
        known = self.seen_before(value, source)
        if known is not None:
            return known.value
        self.world.guard("TYPE", source, type(value))
        self.world.guard("EQ", source.member("__name__"), value.__name__)
        if self.machine.parts.may_stay_unopened(receiver):
            taken = self.machine.parts.take(receiver, source.member("__self__"))
            method = self.machine.parts.method(taken, value.__name__)
            if type(method) is BoundMethod:
                return self.world.learn(method, value, source)
        inner = self.wrap(receiver, source.member("__self__"))
        return self.world.learn(getattr(inner, value.__name__), value, source)

    def partial(self, value: functools.partial[Any], source: Source) -> Any:
        self.world.guard("TYPE", source, functools.partial)
        function = self.wrap(value.func, source.member("func"))
        args = self.wrap(value.args, source.member("args"))
        keywords = self.wrap(value.keywords, source.member("keywords"))
        return self.world.learn(functools.partial(function, *args, **keywords), value, source)

    def unguarded(self, value: Any, source: Source) -> Any:
        """The slots between our own layers (`weft.core.seams`), which need no guard."""
        return value


INLINED_LIBRARY = (
    "weft.nn.modules", "weft.nn.utils", "weft.nn.init", "weft.nn.in_place", "weft.nn.recurrent",
    "weft.nn.triplets", "weft.optim", "weft.testing",
    "weft.amp", "weft.func.modules", "weft.autograd.checkpoint", "weft.generated", "weft.array_api",
    "weft.cli", "weft.nn.pools", "weft.distributions", "weft.compat.torch_internals", "weft.utils._pytree",
)  # fmt: skip


def library_native(function: types.FunctionType) -> bool:
    """Whether a function of this library runs as it is under capture, its calls recorded."""
    module = function.__module__ or ""
    if not module.startswith("weft"):
        return False
    return module == "weft" or (module.startswith("weft.") and not module.startswith(INLINED_LIBRARY))


def plain_key(key: Any) -> bool:
    """Whether a key can be written down in a guard."""
    kind = type(key)
    if kind is tuple:
        return all(plain_key(item) for item in key)
    return kind in SCALARS and (kind is not float or key == key)


def takes_part_next(frame: Frame | None, value: Any) -> bool:
    """Whether the next instructions take `.append`, or an item by a constant, of what is being read."""
    if frame is None or not (reads_plainly(frame.instruction) or frame.instruction.op == "BINARY_SUBSCR"):
        return False
    following = frame.bytecode.instructions[frame.index : frame.index + 2]
    ops = [instruction.op for instruction in following]
    if ops[:1] == ["LOAD_METHOD"] or ops == ["LOAD_ATTR", "PUSH_NULL"]:  # of a name that was imported
        return type(value) is list and following[0].arg == "append"
    if ops != ["LOAD_CONST", "BINARY_SUBSCR"]:
        return False
    key = following[0].arg
    if type(value) is dict:
        return plain_key(key) and key in value
    return type(value) in (list, tuple) and type(key) is int and -len(value) <= key < len(value)


def reads_plainly(instruction: Instruction) -> bool:
    """Whether what an instruction reads is what it pushes."""
    return instruction.op in ("LOAD_GLOBAL", "LOAD_FAST", "LOAD_DEREF", "LOAD_ATTR")


def open_strides(array: Any, sizes: list[Any]) -> tuple[Any, ...]:
    """The strides of an array whose sizes may vary: a stride that is the extent of the next inner dimension
    varies with it.
    """
    strides: list[Any] = list(array.strides)
    order = sorted(range(array.ndim), key=lambda dim: (array.strides[dim], -dim))
    extent, varying = array.itemsize, array.itemsize
    for dim in order:
        if array.strides[dim] == extent:
            strides[dim] = varying
        extent, varying = array.strides[dim] * array.shape[dim], strides[dim] * sizes[dim]
    return tuple(strides)


def size_source(source: Source, dim: int) -> Source:
    return source.size(dim)


Rule = Callable[[Wrapping, Any, Source], Any]
RULES: dict[type, Rule] = {
    **dict.fromkeys(CONSTANTS, Wrapping.constant),
    int: Wrapping.integer,
    float: Wrapping.number,
    Tensor: Wrapping.tensor,
    Parameter: Wrapping.tensor,
    list: Wrapping.sequence,
    deque: Wrapping.sequence,
    tuple: Wrapping.tuple_,
    dict: Wrapping.mapping,
    OrderedDict: Wrapping.mapping,
    defaultdict: Wrapping.mapping,
    set: Wrapping.set_,
    frozenset: Wrapping.set_,
    **dict.fromkeys(DICT_VIEWS, Wrapping.view),
    **dict.fromkeys(WALKERS, Wrapping.walker),
    types.FunctionType: Wrapping.function,
    types.MethodType: Wrapping.method,
    functools.partial: Wrapping.partial,
    types.ModuleType: Wrapping.identical,
    Seams: Wrapping.unguarded,
    **dict.fromkeys(BUILTIN_CALLABLES, Wrapping.builtin),
}
READ_ONCE = frozenset(
    {
        Wrapping.tensor, Wrapping.sequence, Wrapping.mapping, Wrapping.set_, Wrapping.method,
        Wrapping.partial, Wrapping.typed, Wrapping.plain_part, Wrapping.view, Wrapping.walker,
    }
)  # fmt: skip
"""Rules for objects that give, however often they are read, the value that they gave first."""
PINNED = (type, types.ModuleType, Enum, property, staticmethod, classmethod, re.Pattern, *GETTERS)


SUBCLASSED: tuple[tuple[type, Rule], ...] = (
    (list, Wrapping.sequence),
    (dict, Wrapping.mapping),
    (tuple, Wrapping.tuple_),
    (set, Wrapping.set_),
    (frozenset, Wrapping.set_),
    (deque, Wrapping.sequence),
)


def _rule_for(value: Any, kind: type) -> Rule:
    """The rule for a type seen for the first time. Nothing is filed for user classes: they may go away."""
    if has_type(value, PINNED):
        return Wrapping.identical
    if has_type(value, tuple) and type(getattr(kind, "n_sequence_fields", None)) is int:
        return Wrapping.identical  # as `sys.version_info`, of which there are no copies
    if has_type(value, np.generic):
        return Wrapping.constant
    if has_type(value, Tensor) and kind not in PLAIN:
        return Wrapping.typed
    if home(kind).startswith("weft.core"):
        by_identity: Any = kind.__hash__
        return Wrapping.identical if by_identity is object.__hash__ else Wrapping.typed
    for base, rule in SUBCLASSED:
        if has_type(value, base):
            return rule
    return Wrapping.plain_part if c_base(kind) in PLAIN_PARTS else Wrapping.typed
