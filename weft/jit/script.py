"""Scripted functions and classes.

Takes Python functions; gives `ScriptFunction`s. One idea: a function is read when it is scripted or first met
in a scripted caller, and its callees with it, so that all mistakes show then.
"""

from __future__ import annotations

import ast
import builtins
import inspect
from collections.abc import Callable
from typing import Any

import weft.jit.annotations as notes
import weft.jit.lookup as lookup
from weft.core.collection import parsed
from weft.core.once import lock
from weft.jit.annotations import comment_types, resolve
from weft.jit.code import code_of
from weft.jit.emitter import Context
from weft.jit.errors import Range, Source, fail, parse
from weft.jit.executor import Executor
from weft.jit.ir import Graph
from weft.jit.passes import inline
from weft.jit.schema import EMPTY, Argument, Schema, schema_of
from weft.jit.statements import read_function
from weft.jit.support import Slots
from weft.jit.types import INFERRED, NONE, ObjectType, Type


def names_of(function: Any, extra: dict[str, Any] | None = None) -> Callable[[str], Any]:
    """Looks names up as a function would: in its closure, its globals, and builtins."""
    function = inspect.unwrap(function) if callable(function) else function
    function = getattr(function, "__func__", function)
    space = getattr(function, "__globals__", {})
    code = getattr(function, "__code__", None)
    cells = dict(
        zip(getattr(code, "co_freevars", ()), getattr(function, "__closure__", None) or (), strict=False)
    )

    def look(name: str) -> Any:
        if extra is not None and name in extra:
            return extra[name]
        if name in cells:
            try:
                return cells[name].cell_contents
            except ValueError:
                raise NameError(name) from None
        if name in space:
            return space[name]
        if hasattr(builtins, name):
            return getattr(builtins, name)
        raise NameError(name)

    return look


class Service:
    """What the front end asks for: types, operators, scripted forms of callees."""

    resolve = staticmethod(resolve)
    find_operator = staticmethod(lookup.find_operator)
    names_of = staticmethod(names_of)
    argument = staticmethod(Argument)

    def function_for(self, function: Any, where: Range | None = None) -> ScriptFunction:
        """The scripted form of a function that scripted code calls."""
        if isinstance(function, ScriptFunction):
            return function
        with _reading:
            found = known_form(function)
            if found is None:
                found = ScriptFunction.of(function)
                function.__dict__[FORM] = found
            found.ensure(where)
            return found

    def class_for(self, cls: Any) -> ScriptClass:
        with _reading:
            found = _classes.get(cls)
            if found is None:
                found = _classes[cls] = ScriptClass(cls)  # before it is read: its methods may name it
                try:
                    found.read()
                except BaseException:
                    del _classes[cls]
                    raise
            return found


service = Service()
FORM = "_scripted_form"
"""Where a function keeps its scripted form, so that both can go together."""
_classes: dict[Any, ScriptClass] = {}
_reading = lock()
"""Held by the thread that reads functions and classes: what it finds half read it is reading itself."""
notes.CLASSES = lambda cls: service.class_for(cls)


def known_form(function: Any) -> ScriptFunction | None:
    """The scripted form of a function, if there is one; wrappers copy what a function keeps."""
    found: ScriptFunction | None = function.__dict__.get(FORM)
    if found is None or found.__wrapped__ is not function or found.read_code is not function.__code__:
        return None
    return found


class ScriptFunction:
    """A scripted function. Called, it runs its graph; `graph` and `code` show it."""

    is_script_function = True

    def __init__(self, name: str, schema: Schema, graph: Graph | None = None) -> None:
        self.name, self.schema = name, schema
        self.__name__ = name.split(".")[-1]
        self.__qualname__ = name
        self.made = graph
        self.reading = False
        self.tree: Any = None
        self.source: Source | None = None
        self.context: Context | None = None
        self.receiver: tuple[str, Type, Any] | None = None
        self.executor = Executor(self)

    @classmethod
    def of(
        cls, function: Any, name: str | None = None, receiver: Any = None, owner: Any = None
    ) -> ScriptFunction:
        """The function's scripted form, not read yet."""
        original = inspect.unwrap(function) if not isinstance(function, type) else function
        tree, source = parse(original)
        # A class that is being scripted has no name in its module yet.
        own = {owner.__name__: owner} if isinstance(owner, type) else None
        names = names_of(original, own)
        schema = schema_of(original, source, names, name or original.__name__, receiver is not None)
        made = cls(schema.name, schema)
        made.tree, made.source = tree, source
        made.context = Context(names, service, owner)
        made.receiver = receiver
        made.__doc__ = original.__doc__
        made.__module__ = original.__module__
        made.__wrapped__ = function
        made.read_code = getattr(function, "__code__", None)
        made._torchdynamo_inline = function
        return made

    __wrapped__: Any
    read_code: Any = None
    _torchdynamo_inline: Any

    def ensure(self, where: Range | None = None) -> None:
        """Reads the function, if that was not done."""
        if self.made is not None:
            return
        with _reading:
            self._read(where)

    def _read(self, where: Range | None) -> None:
        """Reads the function, in the one thread that does so now."""
        if self.made is not None:
            return
        if self.reading:
            fail(f"function '{self.name}' is called recursively. Recursive calls are not supported", where)
        try:
            self.reading = True
            assert self.source is not None and self.context is not None
            self.made = read_function(self.tree, self.source, self.schema, self.context, self.receiver)
        finally:
            self.reading = False

    def returned_type(self) -> Type:
        self.ensure()
        return self.schema.returned if self.schema.returned is not None else NONE

    # -- what users see ------------------------------------------------------------------------------------
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if kwargs:
            kwargs.pop("profile_and_replay", None)  # of tests; all that is to be known is known at once
        return self.executor.call(args, kwargs)

    def __reduce__(self) -> Any:
        raise RuntimeError("ScriptFunction cannot be pickled; use save()")

    def __copy__(self) -> ScriptFunction:
        return self

    def __deepcopy__(self, memo: Any) -> ScriptFunction:
        return self

    @property
    def graph(self) -> Graph:
        """The graph as it was read."""
        self.ensure()
        assert self.made is not None
        return self.made

    @property
    def inlined_graph(self) -> Graph:
        """The graph with its callees in place of calls."""
        return inline(self.graph)

    @property
    def code(self) -> str:
        """The graph as TorchScript's Python."""
        return code_of(self)

    @property
    def code_with_constants(self) -> tuple[str, Any]:
        return self.code, ()

    @property
    def qualified_name(self) -> str:
        return f"__torch__.{getattr(self, '__module__', '')}.{self.name}"

    def graph_for(self, *args: Any, **kwargs: Any) -> Graph:
        """The graph that runs for these inputs, with its differentiable parts as nodes of their own."""
        return self.executor.graph_for(args, kwargs)

    def get_debug_state(self) -> Any:
        return self.executor

    def save(self, f: Any, _extra_files: Any = None) -> None:
        """Writes the function to a file, from which `jit.load` reads it."""
        Slots.save(self, f, _extra_files)

    def save_to_buffer(self, _extra_files: Any = None) -> bytes:
        import io

        stream = io.BytesIO()
        self.save(stream, _extra_files)
        return stream.getvalue()

    def __repr__(self) -> str:
        return f"<weft.jit.ScriptFunction object at {id(self):#x}>"


class ScriptClass:
    """What scripted code knows of a user's class: its attributes and methods."""

    def __init__(self, cls: Any) -> None:
        self.cls = cls
        self.attributes: dict[str, Type] = {}
        self.methods: dict[str, ScriptFunction | None] = {}
        self.kind = ObjectType(cls, self, "class")

    def read(self) -> None:
        """Learns the attributes: those annotated, and those that `__init__` sets."""
        for name, given in getattr(self.cls, "__annotations__", {}).items():
            if not name.startswith("__"):
                self.attributes[name] = resolve(given, notes.module_names(self.cls, None))
        if "__init__" in self.cls.__dict__:
            method = self.method("__init__")
            assert method is not None
            method.ensure()
        elif hasattr(self.cls, "__dataclass_fields__"):
            self.method("__init__")

    def method(self, name: str) -> ScriptFunction | None:
        if name in self.methods:
            return self.methods[name]
        found = inspect.getattr_static(self.cls, name, None)
        if isinstance(found, staticmethod):
            return None
        function = getattr(found, "__func__", found)
        if not inspect.isfunction(function) or name == "__init__" and self.cls.__init__ is object.__init__:
            self.methods[name] = None
            return None
        first = next(iter(inspect.signature(function).parameters))
        made = ScriptFunction.of(function, f"{self.cls.__name__}.{name}", (first, self.kind, None), self.cls)
        if name == "__init__":
            made.schema.returned = NONE
        self.methods[name] = made
        return made


def script_function(function: Any, names: Callable[[str], Any] | None = None) -> ScriptFunction:
    """The scripted form of a function, read whole."""
    with _reading:
        made = known_form(function)
        if made is None:
            made = ScriptFunction.of(function)
            if names is not None and made.context is not None:
                made.context.names = names
            function.__dict__[FORM] = made
        try:
            made.ensure()
        except BaseException:
            function.__dict__.pop(FORM, None)
            raise
        return made


def define(text: str, names: Callable[[str], Any], file: str = "<string>") -> list[ScriptFunction]:
    """The functions of a text; they may call each other."""
    source = Source(text, file, 1)
    made: dict[str, ScriptFunction] = {}

    def look(name: str) -> Any:
        if name in made:
            return made[name]
        return names(name)

    for node in parsed(source.text).body:
        if not isinstance(node, ast.FunctionDef):
            raise RuntimeError(f"Expected a function, found {type(node).__name__}")
        schema = text_schema(node, look, source)
        function = ScriptFunction(node.name, schema)
        function.tree, function.source = node, source
        function.context = Context(look, service)
        made[node.name] = function
    for function in made.values():
        function.ensure()
    return list(made.values())


def text_schema(node: ast.FunctionDef, look: Callable[[str], Any], source: Source, skip: int = 0) -> Schema:
    """A schema from a syntax tree alone."""
    positional = [*node.args.posonlyargs, *node.args.args][skip:]
    defaults: list[Any] = [EMPTY] * (len(positional) - len(node.args.defaults))
    defaults += [
        eval(compile(ast.Expression(d), "<weft: default>", "eval"), {}, notes._Names(look))
        for d in node.args.defaults
    ]
    commented = comment_types(source.lines[node.lineno - 1 : node.body[0].lineno], look)
    arguments = []
    for place, (argument, default) in enumerate(zip(positional, defaults, strict=True)):
        kind: Type = (
            INFERRED if argument.annotation is None else resolve(ast.unparse(argument.annotation), look)
        )
        if argument.annotation is None and commented is not None and place < len(commented[0]):
            kind = commented[0][place]
        arguments.append(Argument(argument.arg, kind, default))
    returned = None if node.returns is None else resolve(ast.unparse(node.returns), look)
    if returned is None and commented is not None:
        returned = commented[1]
    return Schema(node.name, arguments, returned)
