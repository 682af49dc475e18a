"""Scripted modules.

Takes nn.Modules; gives `RecursiveScriptModule`s, which share their parameters and buffers and run scripted
methods. One idea: `ModuleInfo` answers whatever the front end asks about a module (an attribute, a method,
its items), so that reading code never touches the module itself.

# Note [Library modules]
Layers of the library whose `forward` is written in Python that scripted code has not are called as they are:
one `prim::PythonOp` on the module's own attributes.
"""

from __future__ import annotations

import functools
import inspect
from typing import Any

import weft.jit.marks as marks
from weft.core.interrupts import let_through
from weft.core.naming import home
from weft.jit.annotations import resolve
from weft.jit.lookup import as_sugar
from weft.jit.script import ScriptFunction, names_of
from weft.jit.sugar import Constant, ModuleMethod, Python, ScriptedModule, Several, Simple, Special, Sugar
from weft.jit.support import Slots
from weft.jit.types import (
    BOOL,
    INFERRED,
    TENSOR,
    ObjectType,
    TupleType,
    Type,
    annotation,
    optional,
    subtype,
    type_of,
)
from weft.nn.modules.container import ModuleDict, ModuleList, ParameterDict, ParameterList, Sequential
from weft.nn.modules.module import Module

PAIR = TupleType((TENSOR, TENSOR))
OPAQUE_RESULTS: dict[str, Type] = {
    "LSTM": TupleType((TENSOR, PAIR)), "GRU": PAIR, "RNN": PAIR, "LSTMCell": PAIR,
    "MultiheadAttention": TupleType((TENSOR, optional(TENSOR))),
}  # fmt: skip
TABLES = ("_parameters", "_buffers", "_modules")
INTERNAL = frozenset(Module().__dict__) | {"training"}


class ModuleInfo:
    """What is known of one module, `live`, that was made from an object of `original_class`."""

    def __init__(self, live: Any, original_class: Any) -> None:
        self.live, self.original_class = live, original_class
        self.kind = ObjectType(original_class, self, "module")
        self.methods: dict[str, Any] = {}
        self.failed_attributes: dict[str, str] = {}
        self.constants = self.find_constants()

    def find_constants(self) -> set[str]:
        """The attributes that are constants: in `__constants__`, or annotated as Final."""
        found: set[str] = set()
        for cls in self.original_class.__mro__:
            found |= set(cls.__dict__.get("__constants__", ()))
            for name, given in cls.__dict__.get("__annotations__", {}).items():
                if "Final" in str(given):
                    found.add(name)
        return found

    # -- attributes ----------------------------------------------------------------------------------------
    def attribute_type(self, name: str) -> Type | None:
        """The type of what is no parameter, buffer or module; None where there is none."""
        written = self.annotations().get(name)
        if written is not None and "Final" not in str(written):
            return resolve(written, names_of(self.original_class.__init__))
        declared: Type | None = self.live.__dict__.get("_attribute_types", {}).get(name)
        if declared is not None:
            return declared
        if name not in self.live.__dict__:
            return None
        kind = type_of(self.live.__dict__[name], resolve)
        if kind is None:
            value = self.live.__dict__[name]
            self.failed_attributes[name] = (
                f"This attribute exists on the Python module, but we failed to convert Python type: "
                f"'{type(value).__name__}' to a TorchScript type."
            )
        return kind

    def annotations(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for cls in reversed(self.original_class.__mro__):
            if home(cls).startswith("weft.nn.modules"):
                continue
            found.update(cls.__dict__.get("__annotations__", {}))
        return found

    def has_script_attribute(self, name: str) -> bool:
        tables = [self.live.__dict__[table] for table in TABLES]
        return (
            any(name in table for table in tables)
            or name in self.live.__dict__
            or hasattr(self.original_class, name)
        )

    def get(
        self, emitter: Any, owner: ScriptedModule, name: str, kind: Type, where: Any, table: str = ""
    ) -> Any:
        attributes = {"name": name, "_table": table} if table else {"name": name}
        return emitter.emit("prim::GetAttr", [owner.value], kind, where, attributes=attributes, name=name)

    def script_attribute(self, emitter: Any, owner: ScriptedModule, name: str, where: Any) -> Sugar | None:
        live = self.live
        if name in ("keys", "values", "items") and issubclass(
            self.original_class, (ModuleDict, ParameterDict)
        ):
            return Special(f"modules.{name}", self.script_items(emitter, owner, where))
        for table in ("_parameters", "_buffers"):
            if name in live.__dict__[table]:
                if live.__dict__[table][name] is None and name not in self.annotations():
                    return Constant(None)
                written = self.annotations().get(name)
                kind = TENSOR if written is None else resolve(written, names_of(self.original_class.__init__))
                return Simple(self.get(emitter, owner, name, kind, where, table))
        if name in live.__dict__["_modules"]:
            inner = live.__dict__["_modules"][name]
            if inner is None:
                return Constant(None)
            info = info_of(inner)
            return ScriptedModule(info, self.get(emitter, owner, name, info.kind, where, "_modules"))
        if name == "training":
            return Simple(self.get(emitter, owner, name, BOOL, where))
        return self.other_attribute(emitter, owner, name, where)

    def other_attribute(self, emitter: Any, owner: ScriptedModule, name: str, where: Any) -> Sugar | None:
        if name in self.live.__dict__ and name not in INTERNAL:
            value = self.live.__dict__[name]
            if name in self.constants and not isinstance(value, (list, dict)):
                return self.constant(value)
            kind = self.attribute_type(name)
            if value is None and kind is not None and kind.name == "NoneType":
                return Constant(None)
            if kind is not None:
                return Simple(self.get(emitter, owner, name, kind, where))
            return as_sugar(value)
        found = inspect.getattr_static(self.original_class, name, None)
        if found is None and name in self.annotations():
            return None
        if isinstance(found, property):
            return self.read_property(emitter, owner, name, found, where)
        function = getattr(found, "__func__", found)
        is_method = inspect.isfunction(function) or isinstance(found, functools.partialmethod | StaticStub)
        if is_method and not isinstance(found, staticmethod):
            return self.method_sugar(owner, name, function)
        return self.class_attribute(name)

    def class_attribute(self, name: str) -> Sugar | None:
        """What stands in the class and is no method."""
        found = inspect.getattr_static(self.original_class, name, None)
        if isinstance(found, staticmethod):
            return as_sugar(found.__func__)
        return None if found is None else self.constant(found)

    def constant(self, value: Any) -> Sugar | None:
        """A constant; lists and tuples are known item by item."""
        if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
            return Several([self.constant(item) or Constant(item) for item in value])
        return as_sugar(value) or Constant(value)

    def method_sugar(self, owner: ScriptedModule, name: str, function: Any) -> Sugar:
        mark = marks.modifier(function)
        if mark == marks.IGNORE:
            return Python(function, owner.value, name)
        if mark == marks.UNUSED:
            return Special("unused", function)
        return ModuleMethod(owner, name)

    def read_property(
        self, emitter: Any, owner: ScriptedModule, name: str, found: property, where: Any
    ) -> Sugar:
        if marks.modifier(found.fget) in (marks.IGNORE, marks.UNUSED):
            return Python(found.fget, owner.value, name)
        key = f"{name}.getter"
        if key not in self.methods:
            self.methods[key] = self.make(found.fget, key)
        made: Sugar = emitter.call_method(owner.value, self.methods[key], [], {}, where)
        return made

    def script_store(self, emitter: Any, owner: ScriptedModule, name: str, value: Any, where: Any) -> None:
        for table in ("_parameters", "_buffers"):
            if name in self.live.__dict__[table]:
                if value.kind != TENSOR:
                    emitter.error(
                        f"Wrong type for attribute assignment. Expected Tensor but got "
                        f"{annotation(value.kind)}",
                        where,
                    )
                emitter.emit("prim::SetAttr", [owner.value, value], None, where, attributes={"name": name})
                return
        if name in self.constants:
            emitter.error(f"Assigning to constant attribute '{name}' of a module is not allowed", where)
        kind = BOOL if name == "training" else self.attribute_type(name)
        if kind is None:
            emitter.error(
                f"Tried to set nonexistent attribute: {name}. Did you forget to initialize it in __init__()?",
                where,
            )
        assert kind is not None
        value = emitter.convert(value, kind, where)
        if not subtype(value.kind, kind):
            emitter.error(
                f"Wrong type for attribute assignment. Expected {annotation(kind)} but got "
                f"{annotation(value.kind)}", where,
            )  # fmt: skip
        emitter.emit("prim::SetAttr", [owner.value, value], None, where, attributes={"name": name})

    def script_items(self, emitter: Any, owner: ScriptedModule, where: Any) -> Sugar | None:
        """The items that a loop over the module goes through."""
        if issubclass(self.original_class, (ParameterList, ParameterDict)):
            names = list(self.live.__dict__["_parameters"])
            items = [Simple(self.get(emitter, owner, name, TENSOR, where, "_parameters")) for name in names]
            return Several(list(items), names if issubclass(self.original_class, ParameterDict) else None)
        if not issubclass(self.original_class, (Sequential, ModuleList, ModuleDict)):
            return None
        names = list(self.live.__dict__["_modules"])
        found: list[Sugar] = []
        for name in names:
            info = info_of(self.live.__dict__["_modules"][name])
            found.append(ScriptedModule(info, self.get(emitter, owner, name, info.kind, where, "_modules")))
        return Several(found, names if issubclass(self.original_class, ModuleDict) else None)

    # -- methods -------------------------------------------------------------------------------------------
    def make(self, function: Any, name: str, cls: Any = None) -> ScriptFunction:
        first = next(iter(inspect.signature(function).parameters))
        cls = cls or defining_class(self.original_class, name.split(".")[0])
        made = ScriptFunction.of(function, name, (first, self.kind, self), cls)
        made.__module__ = self.original_class.__module__
        return made

    def method(self, name: str) -> ScriptFunction | None:
        """A method's scripted form, not read yet; None where there is no such method."""
        if name in self.methods:
            known: ScriptFunction | None = self.methods[name]
            return known
        if name.startswith("super."):
            _, cls_name, short = name.split(".")
            mro = self.original_class.__mro__
            place = next(i for i, cls in enumerate(mro) if cls.__name__ == cls_name)
            cls = next(cls for cls in mro[place + 1 :] if short in cls.__dict__)
            made = self.make(cls.__dict__[short], name, cls)
        else:
            found = inspect.getattr_static(self.original_class, name, None)
            function = getattr(found, "__func__", found)
            if isinstance(found, StaticStub):
                function = found.function
            if not inspect.isfunction(function):
                return None
            made = self.make(function, name)
        if (
            name == "forward"
            and issubclass(self.original_class, Sequential)
            and self.live.__dict__["_modules"]
        ):
            self.sequential(made)
        self.methods[name] = made
        return made

    def sequential(self, made: ScriptFunction) -> None:
        """A Sequential takes what its first module takes."""
        first = info_of(next(iter(self.live.__dict__["_modules"].values()))).method("forward")
        if first is not None and made.schema.arguments and first.schema.arguments:
            kind = first.schema.arguments[0].type
            made.schema.arguments[0].type = kind if kind.name != "Any" else INFERRED
        made.schema.returned = None

    def script_call(
        self,
        emitter: Any,
        owner: ScriptedModule,
        name: str,
        args: list[Any],
        words: dict[str, Any],
        where: Any,
    ) -> Sugar:
        if self.is_library and name == "forward" and not issubclass(self.original_class, Sequential):
            if not self.readable():
                return self.opaque(emitter, owner, args, words, where)
        method = self.method(name)
        if method is None:
            made: Sugar = emitter.error(f"Module has no method '{name}'", where)
            return made
        method.ensure(emitter.place(where))
        found: Sugar = emitter.call_method(owner.value, method, args, words, where)
        return found

    @property
    def is_library(self) -> bool:
        return home(self.original_class).startswith("weft.nn.modules")

    def readable(self) -> bool:
        """Whether a library layer's `forward` can be scripted: see Note [Library modules]."""
        if self.original_class.__name__ in OPAQUE_RESULTS:
            return False
        before = dict(self.methods)
        try:
            method = self.method("forward")
            assert method is not None
            method.ensure()
        except (RuntimeError, TypeError, AttributeError, KeyError, OSError) as error:
            let_through(error)
            self.methods = before
            return False
        return True

    def opaque(
        self, emitter: Any, owner: ScriptedModule, args: list[Any], words: dict[str, Any], where: Any
    ) -> Sugar:
        values, named = emitter.values_of(args, where), emitter.words_of(words, where)
        kind = OPAQUE_RESULTS.get(self.original_class.__name__, TENSOR)
        attributes = {"name": self.original_class.__name__, "_library": library_path(self.original_class)}
        function = as_it_is(self.original_class)
        made = emitter.emit(
            "prim::PythonOp",
            [owner.value, *values, *named.values()],
            kind,
            where,
            tuple(named),
            attributes,
            target=function,
        )
        return Simple(made)


def library_path(cls: Any) -> str:
    """Where a layer of the library is found: `linear:Linear`."""
    return f"{home(cls).removeprefix('weft.nn.modules').lstrip('.')}:{cls.__name__}"


def defining_class(cls: Any, name: str) -> Any:
    return next((base for base in cls.__mro__ if name in base.__dict__), cls)


class BoundMethod:
    """A scripted method of one module."""

    def __init__(self, owner: Any, function: ScriptFunction) -> None:
        self.owner, self.function = owner, function
        self.__name__ = self.name = function.name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function.executor.call(args, kwargs, self.owner)

    @property
    def graph(self) -> Any:
        return self.function.graph

    @property
    def inlined_graph(self) -> Any:
        return self.function.inlined_graph

    @property
    def code(self) -> str:
        return self.function.code

    @property
    def schema(self) -> Any:
        return self.function.schema

    def graph_for(self, *args: Any, **kwargs: Any) -> Any:
        return self.function.executor.graph_for(args, kwargs, self.owner)

    def get_debug_state(self) -> Any:
        return self.function.executor


class StaticStub:
    """A method of a `ScriptModule` class that was marked with `script_method`."""

    def __init__(self, function: Any) -> None:
        self.function = self.__func__ = function
        self.__name__ = function.__name__
        self.__wrapped__ = function

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return self
        method = info_of(instance).method(self.__name__)
        assert method is not None
        method.ensure()
        return BoundMethod(instance, method)


def script_method(function: Any) -> Any:
    """Decorator: a scripted method of a class derived from `ScriptModule`."""
    return StaticStub(function)


class ScriptModule(Module):
    """A module with scripted methods: those marked with `script_method`."""

    def __getattr__(self, name: str) -> Any:
        return super().__getattr__(name)

    def method(self, name: str) -> Any:
        """A scripted method by its name."""
        return getattr(self, name)

    @property
    def graph(self) -> Any:
        """The graph of `forward`."""
        return self.method("forward").graph

    @property
    def inlined_graph(self) -> Any:
        """The graph of `forward`, with its callees in place of calls."""
        return self.method("forward").inlined_graph

    @property
    def code(self) -> str:
        """The code of `forward`."""
        return str(self.method("forward").code)

    def graph_for(self, *args: Any, **kwargs: Any) -> Any:
        """The graph that runs for these inputs."""
        return self.method("forward").graph_for(*args, **kwargs)

    def save(self, f: Any, _extra_files: Any = None) -> None:
        """Writes the module to a file, from which `jit.load` reads it."""
        Slots.save(self, f, _extra_files)

    def save_to_buffer(self, _extra_files: Any = None) -> bytes:
        """The file's bytes."""
        import io

        stream = io.BytesIO()
        self.save(stream, _extra_files)
        return stream.getvalue()


class RecursiveScriptModule(ScriptModule):
    """The scripted form of an nn.Module, made by `jit.script`."""

    def __init__(self, original: Any = None) -> None:
        super().__init__()
        self.__dict__["original_name"] = type(original).__name__

    @property
    def forward(self) -> Any:  # type: ignore[override]
        method = self.__dict__["_script"].methods.get("forward")
        if method is None:
            return super().forward
        return BoundMethod(self, method)

    def __getattr__(self, name: str) -> Any:
        info = self.__dict__.get("_script")
        if info is not None and not name.startswith("__"):
            method = info.methods.get(name)
            if method is not None:
                return BoundMethod(self, method)
            for table in TABLES:
                if name in self.__dict__[table]:
                    return self.__dict__[table][name]
            found = inspect.getattr_static(info.original_class, name, None)
            if isinstance(found, property) and found.fget is not None:
                return found.fget(self)
            if found is not None and hasattr(found, "__get__"):
                return found.__get__(self, type(self))
            if found is not None:
                return found
        return super().__getattr__(name)

    def __len__(self) -> int:
        return len(self._modules) or len(self._parameters)

    def __iter__(self) -> Any:
        info = self.__dict__["_script"]
        if issubclass(info.original_class, ModuleDict):
            return iter(self._modules)
        if issubclass(info.original_class, (Sequential, ModuleList)):
            return iter(self._modules.values())
        if issubclass(info.original_class, ParameterList):
            return iter(self._parameters.values())
        raise TypeError(f"'{info.original_class.__name__}' object is not iterable")

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, str):
            return self._modules[index]
        return list(iter(self))[index]

    def __contains__(self, key: Any) -> bool:
        return key in self._modules

    def __bool__(self) -> bool:
        return True

    def __copy__(self) -> Any:
        return copied(self, {})

    def __deepcopy__(self, memo: Any) -> Any:
        return copied(self, memo, deep=True)

    def _get_name(self) -> str:
        return "RecursiveScriptModule"

    def extra_repr(self) -> str:
        return f"original_name={self.__dict__['original_name']}"


class TracedModule(RecursiveScriptModule):
    """A module whose methods are what they once did."""

    def _get_name(self) -> str:
        return str(self.__dict__["original_name"])


def copied(module: Any, memo: Any, deep: bool = False) -> Any:
    """A scripted module of its own with the same methods."""
    import copy

    made = RecursiveScriptModule.__new__(RecursiveScriptModule)
    Module.__init__(made)
    memo[id(module)] = made
    for key, value in module.__dict__.items():
        if key == "_script":
            continue
        made.__dict__[key] = copy.deepcopy(value, memo) if deep else value
    info = module.__dict__["_script"]
    fresh = ModuleInfo(made, info.original_class)
    fresh.methods = info.methods
    made.__dict__["_script"] = fresh
    return made


def info_of(module: Any) -> ModuleInfo:
    """What is known of a module; modules that are not scripted yet are."""
    found: ModuleInfo | None = module.__dict__.get("_script")
    if found is None:
        found = ModuleInfo(module, type(module))
        module.__dict__["_script"] = found
        if not isinstance(module, ScriptModule):
            raise RuntimeError(f"{type(module).__name__} was not scripted")
        for name, inner in list(module._modules.items()):
            if inner is not None and not isinstance(inner, ScriptModule):
                module._modules[name] = script_module(inner)
    return found


def script_module(original: Any, memo: dict[int, Any] | None = None, methods: bool = True) -> Any:
    """The scripted form of a module and of all below it."""
    memo = {} if memo is None else memo
    if isinstance(original, ScriptModule):
        return original
    known = memo.get(id(original))
    if known is not None:
        return known
    made = RecursiveScriptModule(original)
    memo[id(original)] = made
    share(original, made, memo)
    info = ModuleInfo(made, type(original))
    made.__dict__["_script"] = info
    if methods:
        read_methods(info)
    return made


def share(original: Any, made: Any, memo: dict[int, Any]) -> None:
    """Parameters and buffers in common, modules scripted, other attributes as they are."""
    made._parameters.update(original._parameters)
    made._buffers.update(original._buffers)
    made._non_persistent_buffers_set |= original._non_persistent_buffers_set
    made.__dict__["training"] = original.training
    for name, inner in original._modules.items():
        made._modules[name] = None if inner is None else script_module(inner, memo, methods=False)
    kinds: dict[str, Type] = {}
    for name, value in original.__dict__.items():
        if name in INTERNAL or name == "_script":
            continue
        if isinstance(value, marks.Attribute):
            kinds[name] = resolve(value.type, names_of(type(original).__init__))
            value = value.value
        made.__dict__[name] = (
            list(value) if type(value) is list else dict(value) if type(value) is dict else value
        )
    if kinds:
        made.__dict__["_attribute_types"] = kinds


def read_methods(info: ModuleInfo) -> None:
    """Reads `forward` and the exported methods, and with them whatever they call below."""
    cls = info.original_class
    names = [
        name for name in dir(cls)
        if inspect.isfunction(inspect.getattr_static(cls, name, None))
        and marks.modifier(inspect.getattr_static(cls, name)) == marks.EXPORT
    ]  # fmt: skip
    forward = getattr(cls, "forward", None)
    has_forward = forward is not None and forward is not Module.forward
    if has_forward and marks.modifier(forward) not in (marks.IGNORE, marks.UNUSED):
        names.insert(0, "forward")
    for name in dict.fromkeys(names):
        if name == "forward" and info.is_library and not issubclass(cls, Sequential) and not info.readable():
            info.methods["forward"] = opaque_method(info)
            continue
        method = info.method(name)
        if method is None:
            continue
        method.ensure()
    for inner in info.live._modules.values():
        if inner is not None and "forward" not in inner.__dict__["_script"].methods:
            child = inner.__dict__["_script"]
            exported = any(
                marks.modifier(getattr(child.original_class, n, None)) == marks.EXPORT
                for n in dir(child.original_class)
            )
            if child.is_library or exported:
                try:
                    read_methods(child)
                except RuntimeError as error:
                    let_through(error)
                    child.methods.pop("forward", None)


@functools.cache
def as_it_is(cls: Any) -> Any:
    """The class's `forward` on a scripted module: on an object of the class that has the same attributes."""

    def forward(module: Any, *args: Any, **kwargs: Any) -> Any:
        twin = object.__new__(cls)
        object.__setattr__(twin, "__dict__", module.__dict__)
        return cls.forward(twin, *args, **kwargs)

    return forward


def opaque_method(info: ModuleInfo) -> Any:
    """The `forward` of a layer that is called as it is."""
    function = as_it_is(info.original_class)

    class Executor:
        @staticmethod
        def call(args: tuple[Any, ...], kwargs: dict[str, Any], owner: Any) -> Any:
            return function(owner, *args, **kwargs)

    class Opaque:
        name, executor, made = "forward", Executor, None
        schema = None

    return Opaque
