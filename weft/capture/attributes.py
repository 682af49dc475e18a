"""Attributes: CPython's lookup of names on objects, classes, modules and `super()`, with guards.

Takes an object and a name; gives what `getattr` would, without running anything unseen. One idea: the same
steps as `object.__getattribute__`, each read from the outside world leaving a guard, presence and absence
alike.
"""

from __future__ import annotations

import builtins
import collections
import functools
import itertools
import operator
import re
import sys
import types
from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, Any

from weft.capture.grads import GRADIENT, load_grad, load_node, store_grad
from weft.capture.guards import ClassSources, Guard, guards_for_member, lookup
from weft.capture.namespaces import ClassDict, InstanceDict, is_added, missing_text
from weft.capture.sources import Source, class_mro, constant, written_in_c
from weft.capture.sources import module as module_source
from weft.capture.values import CACHED, Args, BoundMethod, Callback, CapturedTraceback, Raised, has_type
from weft.capture.world import ABSENT, Known, Unopened
from weft.capture.wrapping import SYMBOLIC
from weft.core.contexts import LEFT_IN_C, LeftAtOnce
from weft.core.interrupts import let_through
from weft.core.naming import OURS, naming
from weft.core.seams import Seams
from weft.tensor.base import Tensor
from weft.trace.breaks import Break
from weft.trace.scalars import SymFloat, SymInt

if TYPE_CHECKING:
    from weft.capture.machine import Machine

_Sample = collections.namedtuple("_Sample", "field")
IMMUTABLE = 1 << 8  # Py_TPFLAGS_IMMUTABLETYPE
HEAP = 1 << 9
BOUND_BY_C = (
    types.MethodDescriptorType, types.WrapperDescriptorType, types.ClassMethodDescriptorType,
    type(_Sample.__dict__["field"]),
)  # fmt: skip
TENSOR_SLOTS = frozenset({"array", "cell", "node", "index", "origin", "tracked", "hooks"})
"""What tensors are made of: only the library itself reads these."""
OWN_TENSOR_STATE = frozenset({"grad_fn", "_base", "_version", "_backward_hooks"})


class Attributes:
    """Reading and writing attributes."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.calls, self.wrapping = machine.calls, machine.wrapping
        self.world, self.recorder = machine.world, machine.recorder
        self.native, self.fail = machine.native, machine.fail
        self.classes = ClassSources()
        self.looked_up: dict[tuple[int, str], tuple[type, Any] | None] = {}
        self.tracebacks: dict[int, CapturedTraceback] = {}
        self.classes_written = False

    # -- classes ---------------------------------------------------------------------------------------------
    def lookup(self, cls: type, name: str) -> Any:
        """What the class attribute `name` is along the MRO, raw; ABSENT if nowhere. Guarded."""
        key = (id(cls), name)
        if key in self.looked_up:
            found = self.looked_up[key]
        else:
            found = self.looked_up[key] = lookup(cls, name)
            self.world.keep(cls)
            if not written_in_c(cls):
                self.world.guards.update(self.classes.guards_for_lookup(cls, name, found))
        if self.classes_written:
            for owner in class_mro(cls):
                written, new = self.world.written(owner, name)
                if written:
                    return new
                if found is not None and owner is found[0]:
                    break
        if found is None:
            return ABSENT
        owner, value = found
        if value is LEFT_IN_C and issubclass(cls, LeftAtOnce):
            return self.lookup(cls, "_leave")
        self._learn_entry(owner, name, value)
        return value

    def _learn_entry(self, owner: type, name: str, value: Any) -> None:
        """Functions of a class get a source, by which their defaults and closures are read."""
        if has_type(value, (types.FunctionType, property, staticmethod, classmethod)):
            if id(value) not in self.world.known:
                self.world.learn(value, value, self.classes.of(owner).entry(name))

    def python_method(self, value: Any, name: str) -> Any:
        """The user's own `name` among the class attributes, or None where C code or nothing stands."""
        cls = type(value)
        if not cls.__flags__ & HEAP or cls.__flags__ & IMMUTABLE or has_type(value, (Tensor, *SYMBOLIC)):
            return None
        if cls.__module__.startswith("weft.capture"):
            return None
        found = self.lookup(cls, name)
        if found is ABSENT or has_type(found, C_DESCRIPTORS):
            return None
        if has_type(value, Enum) and self.is_plain_enum(cls):
            return None if getattr(found, "__module__", "") == "enum" else found
        return found

    def is_plain_enum(self, cls: type) -> bool:
        """Whether members are what `enum` makes of them, so that its methods may run as they are."""
        for name in ("__new__", "__eq__", "__hash__", "__str__", "__repr__", "__format__", "_missing_"):
            found = self.lookup(cls, name)
            found = found.__func__ if has_type(found, (staticmethod, classmethod)) else found
            if has_type(found, types.FunctionType) and found.__module__ != "enum":
                return False
        return True

    # -- loading ---------------------------------------------------------------------------------------------
    def load(self, value: Any, name: str) -> Any:
        """`value.name`."""
        return self.machine.parts.open(self.load_unopened(value, name))

    def load_unopened(self, value: Any, name: str) -> Any:
        """`value.name`, for the stack: a container may be unopened."""
        if type(value) is Unopened:
            method = self.machine.parts.method(value, name)
            if type(method) is BoundMethod:
                return method
            value = self.machine.parts.open(value)
        if has_type(value, type):
            return self.load_from_class(value, name)
        if has_type(value, types.ModuleType):
            return self.load_from_module(value, name)
        if has_type(value, Tensor):
            return self.load_from_tensor(value, name)
        if has_type(value, SYMBOLIC):
            if name == "__class__":
                return value.expression.kind
            stays = name in ("real", "imag", "numerator", "denominator")
            return self.native(getattr, value if stays else number_of(value), name)
        cls = type(value)
        if cls is Seams:
            return False if name == "callee_active" else SEAMS.get(name)
        special = SPECIAL.get(cls)
        if special is not None:
            return special(self.machine, value, name)
        if (not cls.__flags__ & HEAP or cls.__flags__ & IMMUTABLE) and cls is not types.SimpleNamespace:
            return self.load_from_c_object(value, name)
        return self.load_from_instance(value, name)

    def load_from_instance(self, value: Any, name: str) -> Any:
        """An attribute of an object whose class is written in Python."""
        cls = type(value)
        hook = self.lookup(cls, "__getattribute__")
        if not has_type(hook, types.FunctionType):
            self.refuse_unusual_storage(hook, cls)
            return self.load_plainly(value, name)
        try:
            return self.calls.call(hook, (value, name), {})
        except Raised as raised:
            return self.ask_getattr(value, name, raised)

    def refuse_unusual_storage(self, hook: Any, cls: type) -> None:
        """Breaks where C code keeps the attributes of its objects in a way of its own (`threading.local`)."""
        if hook is not ABSENT and hook not in USUAL_HOOKS:
            raise Break("unusual-object", seen=f"attributes of a {cls.__name__}")

    def ask_getattr(self, value: Any, name: str, raised: Raised) -> Any:
        """What `__getattr__` gives where reading an attribute raised AttributeError."""
        hook = self.lookup(type(value), "__getattr__")
        if hook is ABSENT or not has_type(raised.exception, AttributeError):
            raise raised
        return self.calls.call_method(hook, value, name)

    def load_plainly(self, value: Any, name: str, *, fallback: bool = True) -> Any:
        """As `object.__getattribute__`, then `__getattr__`."""
        cls = type(value)
        found = self.lookup(cls, name)
        if found is ABSENT or not (self.is_data_descriptor(found) and hasattr(type(found), "__get__")):
            field = self.field(value, name)
            if field is not ABSENT:
                return field
        if found is not ABSENT:
            try:
                return self.bind(found, value, cls)
            except Raised as raised:
                if not fallback:
                    raise
                return self.ask_getattr(value, name, raised)
        hook = self.lookup(cls, "__getattr__") if fallback else ABSENT
        if hook is not ABSENT:
            return self.calls.call_method(hook, value, name)
        raise self.fail(
            AttributeError(f"'{cls.__name__}' object has no attribute '{name}'", name=name, obj=value)
        )

    def is_data_descriptor(self, found: Any) -> bool:
        """Whether a class attribute comes before the object's own. Guarded."""
        kind = type(found)
        if not kind.__flags__ & HEAP or kind.__flags__ & IMMUTABLE:
            return hasattr(kind, "__set__") or hasattr(kind, "__delete__")
        return any(self.lookup(kind, name) is not ABSENT for name in ("__set__", "__delete__"))

    def field(self, value: Any, name: Any) -> Any:
        """The entry of the object's own `__dict__`, or ABSENT. Guarded either way."""
        written, new = self.world.written(value, name)
        if written:
            return new
        known = self.world.known.get(id(value))
        original = value if known is None else known.original
        try:
            fields = object.__getattribute__(original, "__dict__")
        except AttributeError as error:
            let_through(error)
            return ABSENT
        if known is None:
            return fields.get(name, ABSENT)
        self.world.claim(fields, known)
        source = known.source.member("__dict__")
        if name not in fields:
            self.world.guard("LACKS", source, name)
            return ABSENT
        return self.wrapping.read(fields[name], known.source.field(name))

    def bind(self, found: Any, value: Any, cls: type) -> Any:
        """What a class attribute gives when read through an object of the class."""
        kind = type(found)
        if kind is types.FunctionType:
            return types.MethodType(found, value)
        if kind is staticmethod:
            return self.wrapped_function(found)
        if kind is classmethod:
            return types.MethodType(self.wrapped_function(found), cls)
        if kind is property:
            return self.call_property(found, value)
        if kind is functools.cached_property:
            return self.fill_cached_property(found, value)
        if kind is types.MemberDescriptorType:
            return self.load_slot(found, value)
        if kind is types.GetSetDescriptorType:
            return self.load_getset(found, value)
        if kind in BOUND_BY_C:
            return self.native(found.__get__, value, cls)
        if kind is CACHED:
            return types.MethodType(self.class_value(found, cls), value)
        if has_type(found, types.BuiltinFunctionType):
            return found
        getter = self.lookup(kind, "__get__") if kind.__flags__ & HEAP else ABSENT
        if has_type(getter, types.FunctionType):
            owner = self.class_value(found, cls)
            return self.calls.call(getter, (owner, value, cls), {})
        if self.acts_as_property(found, "__get__"):
            return self.call_property(found, value)
        if getter is not ABSENT or hasattr(kind, "__get__"):
            raise Break("unusual-descriptor", seen=f"{kind.__name__} on {cls.__name__}")
        return self.class_value(found, cls)

    def acts_as_property(self, found: Any, slot: str) -> bool:
        """Whether a descriptor does in this slot what properties do; classes of users may say otherwise."""
        kind = type(found)
        if kind is property or not issubclass(kind, property):
            return kind is property
        functions = [(name, getattr(property, name)) for name in (slot, "fget", "fset", "fdel")]
        return all(self.lookup(kind, name) is known for name, known in functions)

    def class_value(self, found: Any, cls: type) -> Any:
        """A plain value that stands in a class: read through the class that owns it."""
        if id(found) in self.world.known and self.world.known[id(found)].original is found:
            return found
        for owner in cls.__mro__:
            for name, entry in owner.__dict__.items():
                if entry is found:
                    return self.wrapping.wrap(found, self.classes.of(owner).entry(name))
        return found

    def wrapped_function(self, wrapper: Any) -> Any:
        """The function inside a staticmethod or classmethod."""
        function = wrapper.__func__
        source = self.world.source_of(wrapper)
        if has_type(function, types.FunctionType) and source is not None:
            return self.wrapping.wrap(function, source.member("__func__"))
        return function

    def call_property(self, found: property, value: Any) -> Any:
        """What the getter of a property gives."""
        getter = found.fget
        if getter is None:
            raise self.fail(AttributeError(f"property of {type(value).__name__!r} object has no getter"))
        source = self.world.source_of(found)
        if source is not None:
            getter = self.wrapping.wrap(getter, source.member("fget"))
        return self.calls.call(getter, (value,), {})

    def fill_cached_property(self, found: functools.cached_property[Any], value: Any) -> Any:
        """A cached property that has no value yet. Its lock is left alone: nobody else sees this object."""
        if found.attrname is None or not has_dict(value):
            raise Break("unusual-descriptor", seen="a cached_property without a place to keep its value")
        function = self.class_value(found, type(value)).func
        source = self.world.source_of(found)
        if source is not None:
            function = self.wrapping.wrap(function, source.member("func"))
        result = self.machine.parts.open(self.calls.call(function, (value,), {}))
        known = self.world.known.get(id(value))
        if known is not None:
            self.world.write(value, "attribute", known.source, found.attrname, result)
        else:
            value.__dict__[found.attrname] = result
        return result

    def load_slot(self, found: Any, value: Any) -> Any:
        """What a slot (`__slots__`) of an object holds."""
        name = found.__name__
        written, new = self.world.written(value, name)
        if written:
            return self.raise_missing(value, name) if new is ABSENT else new
        known = self.world.known.get(id(value))
        if known is None:
            return self.native(found.__get__, value)
        source = known.source.slot(found.__objclass__, name)
        try:
            content = found.__get__(known.original)
        except AttributeError as error:
            let_through(error)
            self.world.guard("UNSET", source)
            return self.raise_missing(value, name)
        return self.wrapping.read(content, source)

    def raise_missing(self, value: Any, name: str) -> Any:
        """Raises, in the captured program, that an attribute is not there."""
        raise self.fail(AttributeError(missing_text(type(value), name), name=name, obj=value))

    def load_getset(self, found: Any, value: Any) -> Any:
        """What a getter in C gives: `__dict__`, `__class__`, and what exceptions keep."""
        name = found.__name__
        if name == "__dict__":
            return self.instance_dict(value)
        if self.world.is_fresh(value) or name == "__class__":
            if has_type(value, BaseException) and name == "__traceback__":
                return self.traceback_of(value)
            return self.native(found.__get__, value)
        known = self.world.known[id(value)]
        if has_type(value, BaseException) and name in ("__cause__", "__context__", "args"):
            return self.wrapping.wrap(found.__get__(known.original), known.source.member(name))
        raise Break("unusual-attribute", seen=f"{name} of {type(value).__name__}")

    def traceback_of(self, error: BaseException) -> Any:
        """`error.__traceback__`: None for an exception that was never raised."""
        if id(error) not in self.world.raised and self.world.is_fresh(error):
            return None
        return self.tracebacks.setdefault(id(error), CapturedTraceback(error))

    def instance_dict(self, value: Any) -> Any:
        """`value.__dict__`."""
        known = self.world.known.get(id(value))
        if known is None:
            return object.__getattribute__(value, "__dict__")
        return InstanceDict(self.machine, known)

    # -- from other things -----------------------------------------------------------------------------------
    def load_from_class(self, cls: type, name: str) -> Any:
        meta = type(cls)
        if meta is not type and has_type(self.lookup(meta, "__getattribute__"), types.FunctionType):
            raise Break("unusual-object", seen=f"attributes of a class of {meta.__name__}")
        above = self.lookup(meta, name)
        if above is not ABSENT and self.is_data_descriptor(above):
            if has_type(above, (types.GetSetDescriptorType, types.MemberDescriptorType)) or meta is type:
                return (
                    self.native(getattr, cls, name) if written_in_c(cls) else self.load_from_type(cls, name)
                )
            return self.bind(above, cls, meta)
        written, new = self.world.written(cls, name)
        if written:
            return new
        found = self.lookup(cls, name)
        if found is not ABSENT:
            return self.bind_to_class(found, cls, name)
        if above is not ABSENT:
            return self.bind(above, cls, meta)
        hook = self.lookup(meta, "__getattr__")
        if hook is not ABSENT:
            return self.calls.call_method(hook, cls, name)
        text = f"type object '{cls.__name__}' has no attribute '{name}'"
        raise self.fail(AttributeError(text, name=name, obj=cls))

    def load_from_type(self, cls: type, name: str) -> Any:
        """What `type` itself keeps of a class: `__mro__`, `__name__`, `__dict__`."""
        if name == "__dict__":
            return self.world.keep(ClassDict(self.machine, cls))
        value = self.native(getattr, cls, name)
        if name in ("__mro__", "__bases__", "__base__"):
            self.world.guards.add(Guard("MRO", self.classes.of(cls), cls.__mro__))
        elif value is None or type(value) is str:
            self.world.guard("EQ", self.classes.of(cls).member(name), value)
        elif type(value) is dict:
            raise Break("unusual-attribute", seen=f"{name} of {cls.__name__}")
        return value

    def bind_to_class(self, found: Any, cls: type, name: str) -> Any:
        """What a class attribute gives when read through the class itself."""
        kind = type(found)
        if kind is types.FunctionType:
            return found
        if kind is staticmethod:
            return self.wrapped_function(found)
        if kind is classmethod:
            return types.MethodType(self.wrapped_function(found), cls)
        if not cls.__flags__ & HEAP or has_type(found, C_DESCRIPTORS):
            return self.native(found.__get__, None, cls) if hasattr(kind, "__get__") else found
        getter = self.lookup(kind, "__get__") if kind.__flags__ & HEAP else ABSENT
        if has_type(getter, types.FunctionType):
            return self.calls.call(getter, (self.class_value(found, cls), None, cls), {})
        if hasattr(kind, "__get__") and kind is not property:
            return self.native(found.__get__, None, cls)
        return self.class_value(found, cls)

    def load_from_module(self, module: types.ModuleType, name: str) -> Any:
        kind, fields = type(module), module.__dict__
        self.world.claim(fields, fields)
        if kind is not types.ModuleType and has_type(
            self.lookup(kind, "__getattribute__"), types.FunctionType
        ):
            raise Break("module-getattr", seen=f"{kind.__name__}.__getattribute__")
        found = self.lookup(kind, name)
        if found is not ABSENT and self.is_data_descriptor(found) and not has_type(found, C_DESCRIPTORS):
            return self.bind(found, module, kind)
        written, new = self.world.written(fields, name)
        if written and new is not ABSENT:
            return new
        source = self.module_source(module)
        if name in fields and not written:
            return self.wrapping.wrap(fields[name], source.item(name))
        if not written and str(fields.get("__name__")).split(".")[0] in (OURS, naming.namespace):
            return self.load_lazy_name(module, name, source)
        if not written:
            self.world.guard("LACKS", source, name)
        if has_type(found, C_DESCRIPTORS):
            raise Break("module-getattr", seen=f"{fields.get('__name__')}.{name}")
        if found is not ABSENT:
            return self.bind(found, module, kind)
        return self.ask_module_getattr(module, name, source)

    def load_lazy_name(self, module: types.ModuleType, name: str, source: Source) -> Any:
        """An attribute that a module of this library files when it is asked for."""
        try:
            value = self.native(getattr, module, name)
        except Raised:
            self.world.guard("LACKS", source, name)
            raise
        if name in module.__dict__:
            return self.wrapping.wrap(value, source.item(name))
        return self.wrapping.identical(value, constant(f"{module.__name__}.{name}", value))

    def ask_module_getattr(self, module: types.ModuleType, name: str, source: Source) -> Any:
        """What the `__getattr__` of a module's class or of the module itself gives."""
        hook = self.lookup(type(module), "__getattr__")
        if hook is not ABSENT:
            return self.calls.call_method(hook, module, name)
        written, own = self.world.written(module.__dict__, "__getattr__")
        if not written and "__getattr__" in module.__dict__:
            own = self.wrapping.wrap(module.__dict__["__getattr__"], source.item("__getattr__"))
        elif not written:
            self.world.guard("LACKS", source, "__getattr__")
        if own is not None and own is not ABSENT:
            return self.calls.call(own, (name,), {})
        return self.native(getattr, types.ModuleType(str(module.__dict__.get("__name__"))), name)

    def module_source(self, module: types.ModuleType) -> Source:
        """Where a module's dict is found again."""
        from_import = module_by_name(module)
        if from_import is not None:
            return from_import
        known = self.world.source_of(module)
        if known is None:
            raise Break("unknown-module", seen=module.__name__)
        return known.member("__dict__")

    def load_from_tensor(self, value: Tensor, name: str) -> Any:
        """An attribute of a tensor: its state by rule, its methods as they are, and what users put on it."""
        written, new = self.world.written(value, name)
        if written:
            return self.raise_missing(value, name) if new is ABSENT else new
        known = self.world.known.get(id(value))
        if name in GRADIENT:
            return load_grad(self.machine, value, name)
        if name == "__dict__":
            return self.instance_dict(value)
        if name in OWN_TENSOR_STATE:
            if name == "grad_fn" and self.is_leaf(value):
                return None
            current = value.origin is None or value.origin.seen == value.cell[0]
            if name == "grad_fn" and known is None and current:
                return load_node(self.machine, value)
            raise Break("tensor-state", seen=f".{name} of a tensor")
        if name in TENSOR_SLOTS and not self.in_library():
            raise Break("tensor-state", seen=f".{name} of a tensor")
        found = lookup(type(value), name)
        if known is not None and found is None:
            return self.load_plainly(value, name, fallback=False)
        if found is not None and is_added(found[1]):
            return self.bind(self.lookup(type(value), name), value, type(value))
        return self.native(getattr, value, name)

    def in_library(self) -> bool:
        """Whether the code that runs now is this library's."""
        frame = self.machine.frame
        return frame is not None and str(frame.globals.get("__name__", "")).startswith("weft.")

    def is_leaf(self, value: Tensor) -> bool:
        """Whether no op made the tensor, as far as that is sure; guarded."""
        if value.requires_grad and id(value) in self.world.known:
            self.recorder.facts.append((value, "is_leaf"))
        return not value.requires_grad or (value.node is None and value.origin is None)

    def load_from_c_object(self, value: Any, name: str) -> Any:
        """Attributes of objects whose class is C code."""
        if name == "__traceback__" and has_type(value, BaseException):
            return self.traceback_of(value)
        known = self.world.known.get(id(value))
        if known is None or known.value is not known.original:
            found = self.native(getattr, value, name)
            return found.function if type(found) is Callback else found
        if has_type(value, (types.MethodType, re.Pattern)):
            return self.native(getattr, value, name)
        if has_type(value, (types.FunctionType, property, staticmethod, classmethod, CACHED)):
            return self.load_from_function(value, known, name)
        if callable(getattr(type(value), name, None)):
            return self.native(getattr, value, name)  # a bound method: what it does is decided when called
        if has_type(value, BaseException):
            return self.load_plainly(value, name)
        raise Break("opaque-object", seen=f".{name} of {known.source}, a {type(value).__name__}")

    def load_from_function(self, value: Any, known: Known, name: str) -> Any:
        written, new = self.world.written(value, name)
        if written:
            return self.raise_missing(value, name) if new is ABSENT else new
        fields = getattr(value, "__dict__", {})
        if name in fields:
            return self.wrapping.wrap(fields[name], known.source.field(name))
        if name in ("__name__", "__qualname__", "__module__", "__doc__", "__defaults__", "__kwdefaults__"):
            return self.wrapping.wrap(getattr(value, name), known.source.member(name))
        if name == "__dict__":
            return self.instance_dict(value)
        if name == "__annotations__":
            return self.wrapping.wrap(getattr(value, name), known.source.member(name))
        if name in ("__code__", "__globals__", "__closure__"):
            raise Break("function-state", seen=f"{value.__name__}.{name}")
        if hasattr(type(value), name):
            return self.native(getattr, value, name)
        self.world.guard("LACKS", known.source.member("__dict__"), name)
        return self.native(getattr, value, name)

    def load_super(self, cls: type, receiver: Any, name: str) -> Any:
        """`super(cls, receiver).name`."""
        start = receiver if has_type(receiver, type) and issubclass(receiver, cls) else type(receiver)
        mro = start.__mro__
        if cls not in mro:
            text = "super(type, obj): obj must be an instance or subtype of type"
            raise self.fail(TypeError(text))
        for owner in mro[mro.index(cls) + 1 :]:
            written, new = self.world.written(owner, name)
            if written:
                return new
            if owner.__flags__ & HEAP and not owner.__flags__ & IMMUTABLE:
                if name in owner.__dict__:
                    entry = self.classes.of(owner).entry(name)
                    self.world.guards.update(guards_for_member(entry, owner.__dict__[name]))
                else:
                    self.world.guards.add(Guard("ABSENT", self.classes.of(owner), name))
            if name in owner.__dict__:
                found = owner.__dict__[name]
                self._learn_entry(owner, name, found)
                if start is receiver:
                    return self.bind_to_class(found, start, name)
                return self.bind(found, receiver, start)
        raise self.fail(AttributeError(f"'super' object has no attribute '{name}'"))

    # -- storing ---------------------------------------------------------------------------------------------
    def store(self, value: Any, name: str, new: Any) -> None:
        """`value.name = new`; ABSENT deletes."""
        if has_type(value, Tensor):
            return self.store_on_tensor(value, name, new)
        if has_type(value, type):
            return self.store_on_class(value, name, new)
        if has_type(value, types.FunctionType) and not self.world.is_fresh(value):
            if name.startswith("__"):
                raise Break("function-state", seen=f"{value.__name__}.{name}")
            return self.world.write(value, "attribute", self.world.known[id(value)].source, name, new)
        hook_name = "__setattr__" if new is not ABSENT else "__delattr__"
        cls = type(value)
        hook = self.lookup(cls, hook_name) if cls.__flags__ & HEAP else ABSENT
        if has_type(hook, types.FunctionType):
            self.calls.call(hook, with_new(new, value, name), {})
            return None
        self.refuse_unusual_storage(hook, cls)
        return self.store_plainly(value, name, new)

    def store_plainly(self, value: Any, name: str, new: Any) -> None:
        """As `object.__setattr__` and `object.__delattr__`."""
        self.world.changes += 1
        if type(new) is CapturedTraceback and has_type(value, BaseException) and name == "__traceback__":
            return None  # raising will set it anew
        cls = type(value)
        found = self.lookup(cls, name) if cls.__flags__ & HEAP else ABSENT
        if found is not ABSENT and self.is_data_descriptor(found):
            if self.acts_as_property(found, "__delete__" if new is ABSENT else "__set__"):
                return self.store_by_property(found, value, name, new)
            if not has_type(found, (types.MemberDescriptorType, types.GetSetDescriptorType)):
                return self.store_by_descriptor(found, value, new)
            if has_type(found, types.GetSetDescriptorType) and not self.world.is_fresh(value):
                raise Break("unusual-attribute", seen=f"writing {name} of {cls.__name__}")
        if has_type(value, types.ModuleType):
            return self.store_on_module(value, name, new)
        if self.world.is_fresh(value):
            return self.store_in_c(value, name, new)
        return self.store_on_known(value, name, new, found)

    def store_in_c(self, value: Any, name: str, new: Any) -> None:
        """Has C code store, or delete: what it raises is the captured program's."""
        function = object.__delattr__ if new is ABSENT else object.__setattr__
        self.native(function, *with_new(self.machine.parts.open(new), value, name))

    def store_on_module(self, value: types.ModuleType, name: str, new: Any) -> None:
        source = self.module_source(value)
        if new is ABSENT:
            written, old = self.world.written(value.__dict__, name)
            if not written:
                old = name if name in value.__dict__ else ABSENT
                self.world.guard("LACKS" if old is ABSENT else "HAS", source, name)
            if old is ABSENT:
                self.native(delattr, types.ModuleType("module"), name)
                return
        self.world.write(value.__dict__, "item", source, name, new)

    def store_on_known(self, value: Any, name: str, new: Any, found: Any) -> None:
        known = self.world.known[id(value)]
        slotted = has_type(found, types.MemberDescriptorType)
        if not slotted and not hasattr(type(known.original), "__dictoffset__"):
            raise Break("opaque-object", seen=f"writing {name} of {known.source}")
        if not slotted and not has_dict(known.original):
            # There is nowhere to store it: Python says so in its own words.
            return self.store_in_c(known.original, name, new)  # which raises
        if not slotted:
            self.world.claim(object.__getattribute__(known.original, "__dict__"), known)
        if new is ABSENT:
            if slotted:
                try:
                    self.load_slot(found, value)
                except Raised:
                    raise self.fail(AttributeError(name)) from None
            elif self.field(value, name) is ABSENT:
                text = f"'{type(value).__name__}' object has no attribute '{name}'"
                raise self.fail(AttributeError(text))
        return self.world.write(value, "attribute", known.source, name, new)

    def store_by_property(self, found: property, value: Any, name: str, new: Any) -> None:
        function = found.fdel if new is ABSENT else found.fset
        if function is None:
            word = "deleter" if new is ABSENT else "setter"
            text = f"property '{name}' of '{type(value).__qualname__}' object has no {word}"
            raise self.fail(AttributeError(text))
        source = self.world.source_of(found)
        if source is not None:
            function = self.wrapping.wrap(function, source.member("fdel" if new is ABSENT else "fset"))
        self.calls.call(function, with_new(new, value), {})

    def store_by_descriptor(self, found: Any, value: Any, new: Any) -> None:
        setter = self.lookup(type(found), "__delete__" if new is ABSENT else "__set__")
        if not has_type(setter, types.FunctionType):
            raise Break("unusual-descriptor", seen=type(found).__name__)
        self.calls.call(setter, with_new(new, self.class_value(found, type(value)), value), {})

    def store_on_tensor(self, value: Tensor, name: str, new: Any) -> None:
        if name in ("real", "imag") and new is not ABSENT:
            self.native(setattr, value, name, new)
            return None
        known = self.world.known.get(id(value))
        if name in GRADIENT:
            return store_grad(self.machine, value, new)
        if name == "requires_grad" and type(new) is bool and value.node is None:
            self.native(self.recorder.call_method, "requires_grad_", (value, new))
            return None
        if lookup(type(value), name) is not None:
            raise Break("tensor-metadata-write", seen=f".{name} = ...")
        if known is None:
            return self.store_in_c(value, name, self.world.keep(new))
        if new is ABSENT and self.field(value, name) is ABSENT:
            raise self.fail(AttributeError(name))
        return self.world.write(value, "attribute", known.source, name, new)

    def store_on_class(self, cls: type, name: str, new: Any) -> None:
        hook = self.lookup(type(cls), "__setattr__")
        if has_type(hook, types.FunctionType) or name.startswith("__") or new is ABSENT:
            raise Break("class-write", seen=f"{cls.__name__}.{name} = ...")
        if callable(new) or hasattr(type(new), "__get__"):
            raise Break("class-write", seen=f"{cls.__name__}.{name} = a {type(new).__name__}")
        self.classes_written = True
        known = self.world.source_of(cls)
        self.world.write(cls, "attribute", known or self.classes.of(cls), name, new)


C_DESCRIPTORS = (
    types.WrapperDescriptorType, types.MethodDescriptorType, types.BuiltinFunctionType,
    types.GetSetDescriptorType, types.MemberDescriptorType, types.ClassMethodDescriptorType,
)  # fmt: skip


USUAL_HOOKS = frozenset(
    cls.__dict__[name]
    for module in (builtins, collections, functools, operator, itertools)
    for cls in (*vars(module).values(), types.SimpleNamespace)
    if has_type(cls, type) and cls not in (type, super)
    for name in ("__getattribute__", "__setattr__", "__delattr__")
    if name in cls.__dict__
)
"""Builtin classes whose objects keep attributes as `object` does."""


def number_of(value: Any) -> Any:
    """The number that a symbolic one is, which from now on it must be."""
    return int(value) if type(value) is SymInt else float(value) if type(value) is SymFloat else bool(value)


def with_new(new: Any, *args: Any) -> Args:
    """What a function that stores is called with; one that deletes is given no value."""
    return args if new is ABSENT else (*args, new)


def has_dict(value: Any) -> bool:
    try:
        object.__getattribute__(value, "__dict__")
    except AttributeError as error:
        let_through(error)
        return False
    return True


def module_by_name(module: types.ModuleType) -> Source | None:
    """The source of a module's dict, where the module can be found again by its name."""
    name = module.__dict__.get("__name__")
    return module_source(name) if has_type(name, str) and sys.modules.get(name) is module else None


SEAMS: dict[str, Any] = {"callee": None, "is_compiling": lambda: True}
SPECIAL: dict[type, Callable[[Machine, Any, str], Any]] = {}
"""Types whose attributes are read in a way of their own, filled by the modules that define them."""
