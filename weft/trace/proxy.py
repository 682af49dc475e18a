"""Proxies: stand-ins without type or data, which write down what is done to them.

Takes a function or a module; `Tracer.trace` calls it once with proxies and gives the graph of what happened.
One idea: a proxy answers every operator, attribute, method and `weft` function with a new node and a proxy
for it. It knows nothing of values: code that needs one (a branch, a length, a loop) cannot be traced this
way, and says so; `weft.compile` and `make_fx` can.
"""

from __future__ import annotations

import dis
import inspect
import math
import operator
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import CodeType, FunctionType, MethodType
from typing import Any, Final

from weft.core.contexts import set_to
from weft.core.naming import home
from weft.core.once import lock
from weft.core.seams import seams
from weft.graph.graph import Graph
from weft.graph.node import Node
from weft.nn.modules.container import Sequential
from weft.nn.modules.module import Module
from weft.tensor.base import Parameter, Tensor
from weft.trace.wrapped import fronted, recorded


class TraceError(ValueError):
    """Code that needs a value, which a proxy does not have."""


class Proxy:
    """Stands for the value of a node while code is traced."""

    def __init__(self, node: Node, tracer: Tracer | None = None) -> None:
        self.node = node
        self.tracer = GraphAppendingTracer(node.graph) if tracer is None else tracer

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):  # protocols, such as __array__, are asked for
            raise AttributeError(name)
        return Attribute(self, name)

    def __call__(self, *args: Any, **kwargs: Any) -> Proxy:
        return self.tracer.create_proxy("call_method", "__call__", (self, *args), kwargs)

    def __iter__(self) -> Iterator[Proxy]:
        frame = sys._getframe(1)
        count = unpacked_count(frame.f_code, frame.f_lasti)
        if count is None:
            raise TraceError(
                "Proxy object cannot be iterated. This can be attempted when the Proxy is used in a loop or "
                "as a *args or **kwargs function argument."
            )
        return iter([operator.getitem(self, index) for index in range(count)])

    def __bool__(self) -> bool:
        raise TraceError("symbolically traced variables cannot be used as inputs to control flow")

    def __len__(self) -> int:
        raise RuntimeError(
            "'len' is not supported in symbolic tracing: the length of a traced value is unknown"
        )

    def __contains__(self, _item: Any) -> bool:
        raise TraceError("symbolically traced variables cannot be asked for what they contain")

    def __repr__(self) -> str:
        return f"Proxy({self.node.name})"

    @classmethod
    def __torch_function__(
        cls, function: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        tracer = _tracer_in((args, kwargs))
        assert tracer is not None
        return tracer.create_proxy("call_function", function, args, kwargs or {})


class Attribute(Proxy):
    """`x.name`: a method if it is called, else a node that reads the attribute, made at its first use."""

    def __init__(self, owner: Proxy, name: str) -> None:
        self.owner, self.name, self.tracer = owner, name, owner.tracer
        self.made: Node | None = None

    @property
    def node(self) -> Node:  # type: ignore[override]
        if self.made is None:
            self.made = self.tracer.create_proxy("call_function", getattr, (self.owner, self.name), {}).node
        return self.made

    def __call__(self, *args: Any, **kwargs: Any) -> Proxy:
        return self.tracer.create_proxy("call_method", self.name, (self.owner, *args), kwargs)


def _tracer_in(value: Any) -> Tracer | None:
    if isinstance(value, Proxy):
        return value.tracer
    items = value.values() if isinstance(value, dict) else value if isinstance(value, (tuple, list)) else ()
    return next((found for found in map(_tracer_in, items) if found is not None), None)


def unpacked_count(code: CodeType, offset: int) -> int | None:
    """How many values the instruction at this offset unpacks; None where it does something else."""
    for instruction in dis.get_instructions(code):
        if instruction.offset == offset:
            return instruction.argval if instruction.opname == "UNPACK_SEQUENCE" else None
    return None


_BINARY: Final = (
    "add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and_", "or_", "xor", "lshift",
    "rshift",
)  # fmt: skip
_PLAIN: Final = ("neg", "pos", "invert", "abs", "eq", "ne", "lt", "le", "gt", "ge", "getitem")


def _install_operators() -> None:
    def forward(function: Callable[..., Any]) -> Callable[..., Any]:
        def method(self: Proxy, *others: Any) -> Proxy:
            return self.tracer.create_proxy("call_function", function, (self, *others), {})

        return method

    def reflected(function: Callable[..., Any]) -> Callable[..., Any]:
        def method(self: Proxy, other: Any) -> Proxy:
            return self.tracer.create_proxy("call_function", function, (other, self), {})

        return method

    for name in (*_BINARY, *_PLAIN):
        function = getattr(operator, name)
        setattr(Proxy, f"__{name.strip('_')}__", forward(function))
        if name in _BINARY:
            setattr(Proxy, f"__r{name.strip('_')}__", reflected(function))
    Proxy.__hash__ = object.__hash__  # type: ignore[method-assign]  # `==` above would take it away
    for name in ("floor", "ceil", "trunc"):
        setattr(Proxy, f"__{name}__", forward(getattr(math, name)))


_install_operators()


def _function_of(root: Any) -> tuple[Any, list[Any]]:
    """The plain function that a call of `root` runs, and the arguments it gets before the caller's."""
    if isinstance(root, Module):
        root = root.forward
    if isinstance(root, MethodType):
        return root.__func__, [root.__self__]
    return (root, []) if isinstance(root, FunctionType) else (type(root).__call__, [root])


_NAMED: Final = (
    inspect.Parameter.POSITIONAL_ONLY,
    inspect.Parameter.POSITIONAL_OR_KEYWORD,
    inspect.Parameter.KEYWORD_ONLY,
)
_STARS: Final[dict[Any, str]] = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
_active: ContextVar[Tracer | None] = ContextVar("weft_tracer", default=None)
_lock = lock()
_traces: Final[set[object]] = set()
"""What runs now, in any thread."""


@contextmanager
def _asking_tracers() -> Iterator[None]:
    """Meanwhile, calls of submodules and reads of parameters come to the tracer of their context."""
    trace = object()
    try:
        with _lock:
            _traces.add(trace)
            seams.tracer = _active.get
        yield
    finally:
        with _lock:
            _traces.discard(trace)
            if not _traces:
                seams.tracer = None


class Tracer:
    """Traces with proxies. Override `is_leaf_module` to decide which submodules are written as one call."""

    def __init__(self) -> None:
        self.graph = Graph()
        self.root: Module | None = None
        self.paths: dict[int, str] = {}
        self.constants: dict[str, Any] = {}
        self.parameters: dict[str, Proxy] = {}

    # -- for subclasses --------------------------------------------------------------------------------------
    def is_leaf_module(self, module: Module, qualified_name: str) -> bool:
        """Whether calls of this module become one node: modules of weft.nn do, except Sequential."""
        return home(type(module)).startswith("weft.nn") and not isinstance(module, Sequential)

    def call_module(
        self, module: Module, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        path = self.path_of_module(module)
        if self.is_leaf_module(module, path):
            return self.create_proxy("call_module", path, args, kwargs)
        return forward(*args, **kwargs)

    def proxy(self, node: Node) -> Proxy:
        return Proxy(node, self)

    def create_node(
        self,
        op: str,
        target: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        name: str | None = None,
        type_expr: Any = None,
    ) -> Node:
        return self.graph.create_node(op, target, args, kwargs, name, type_expr)

    # -- nodes and arguments ---------------------------------------------------------------------------------
    def create_proxy(
        self, op: str, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], name: str | None = None
    ) -> Proxy:
        return self.proxy(self.create_node(op, target, self.create_arg(args), self.create_arg(kwargs), name))

    def create_arg(self, value: Any) -> Any:
        """A value as it stands in a node's arguments: proxies as nodes, tensors as attributes."""
        if isinstance(value, Proxy):
            return value.node
        if isinstance(value, tuple):
            items = [self.create_arg(item) for item in value]
            kind: Any = type(value)
            return kind(*items) if hasattr(kind, "_fields") else tuple(items)
        if isinstance(value, list):
            return [self.create_arg(item) for item in value]
        if isinstance(value, dict):
            return {key: self.create_arg(item) for key, item in value.items()}
        if isinstance(value, slice):
            return slice(*map(self.create_arg, (value.start, value.stop, value.step)))
        if isinstance(value, Tensor):
            return self.graph.get_attr(self.path_of_tensor(value))
        if isinstance(value, Module):
            raise NotImplementedError(
                f"argument of type: {type(value)}; call the module, or pass its parameters"
            )
        return value

    def path_of_tensor(self, tensor: Tensor) -> str:
        """Where a tensor lives in the root; those that live nowhere become attributes `_tensor_constant0`."""
        path = self.paths.get(id(tensor))
        if path is None:
            path = f"_tensor_constant{len(self.constants)}"
            self.paths[id(tensor)], self.constants[path] = path, tensor
        return path

    def path_of_module(self, module: Module) -> str:
        path = self.paths.get(id(module))
        if path is None:
            raise NameError("module is not installed as a submodule")
        return path

    # -- tracing ---------------------------------------------------------------------------------------------
    def trace(self, root: Module | Callable[..., Any], concrete_args: dict[str, Any] | None = None) -> Graph:
        """The graph of one call of `root` with proxies, or `concrete_args` for the arguments they name."""
        self.graph = Graph()
        self.constants, self.parameters, self.paths = {}, {}, {}
        self.root = root if isinstance(root, Module) else None
        if self.root is not None:
            self.note_paths(self.root)
        flat, arguments = self._placeholders(*_function_of(root), concrete_args or {})
        recording = recorded(lambda value: isinstance(value, Proxy), self._keep_whole)
        with set_to((_active, self)), recording, _asking_tracers(), fronted():
            result = flat(*arguments)
        self.graph.output(self.create_arg(result))
        return self.graph

    def _keep_whole(self, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        return self.create_proxy("call_function", function, args, kwargs)

    def note_paths(self, root: Module) -> None:
        for path, module in root.named_modules():
            self.paths[id(module)] = path
        for table in (root.named_parameters(), root.named_buffers()):
            for path, tensor in table:
                self.paths.setdefault(id(tensor), path)
        for path, module in root.named_modules():  # tensors that are plain attributes
            for name, value in module.__dict__.items():
                if isinstance(value, Tensor):
                    self.paths.setdefault(id(value), f"{path}.{name}".lstrip("."))

    def _placeholders(
        self, function: Any, bound: list[Any], concrete: dict[str, Any]
    ) -> tuple[Callable[..., Any], list[Any]]:
        """The function with all its parameters positional, and a proxy or a concrete value for each."""
        function = inspect.unwrap(function)
        code = function.__code__
        parameters = list(inspect.signature(function).parameters.values())[len(bound) :]
        made: dict[str, Any] = {}
        optional = False
        for parameter in parameters:  # in the order of the signature, so that its text is one too
            required = parameter.default is parameter.empty and parameter.kind in _NAMED
            if required and optional and parameter.name not in concrete:
                raise TraceError(f"parameter {parameter.name} is required, but follows optional ones")
            optional = not required and parameter.kind in _NAMED
            made[parameter.name] = self._placeholder(parameter, concrete)
        count = code.co_argcount + code.co_kwonlyargcount
        count += bool(code.co_flags & inspect.CO_VARARGS) + bool(code.co_flags & inspect.CO_VARKEYWORDS)
        arguments = [*bound, *(made[name] for name in code.co_varnames[len(bound) : count])]
        flat_code = code.replace(
            co_argcount=len(arguments),
            co_kwonlyargcount=0,
            co_posonlyargcount=0,
            co_flags=code.co_flags & ~(inspect.CO_VARARGS | inspect.CO_VARKEYWORDS),
        )
        return FunctionType(
            flat_code, function.__globals__, function.__name__, None, function.__closure__
        ), arguments

    def _placeholder(self, parameter: inspect.Parameter, concrete: dict[str, Any]) -> Any:
        if parameter.name in concrete:
            self.graph.placeholder(parameter.name, default_value=concrete[parameter.name])
            return concrete[parameter.name]
        default = ... if parameter.default is parameter.empty else parameter.default
        name = _STARS.get(parameter.kind, "") + parameter.name
        return self.proxy(self.graph.placeholder(name, default_value=default))

    def read(self, value: Any) -> Any:
        """What an attribute of a module gives while tracing: a proxy for a parameter of the root."""
        path = self.paths.get(id(value)) if isinstance(value, Parameter) else None
        if path is None:
            return value
        if path not in self.parameters:
            self.parameters[path] = self.create_proxy("get_attr", path, (), {})
        return self.parameters[path]


class GraphAppendingTracer(Tracer):
    """Writes what is done to proxies at the end of a graph that is there already."""

    def __init__(self, graph: Graph) -> None:
        super().__init__()
        self.graph = graph
