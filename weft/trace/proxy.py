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
from weft.core.naming import home, named
from weft.core.once import lock
from weft.core.seams import seams
from weft.core.warn import warn_at_level
from weft.graph.graph import Graph
from weft.graph.node import Node
from weft.nn.modules.container import Sequential
from weft.nn.modules.module import Module
from weft.ops.python_forms import with_options
from weft.tensor.base import PUBLIC, Parameter, Tensor
from weft.tensor.saved import user_lines
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
            found: Iterator[Proxy] = self.tracer.iter(self)
            return found
        return iter([operator.getitem(self, index) for index in range(count)])

    def __bool__(self) -> bool:
        return self.tracer.to_bool(self)

    def keys(self) -> Any:
        """What `**proxy` asks for."""
        return self.tracer.keys(self)

    def __len__(self) -> int:
        raise RuntimeError(
            "'len' is not supported in symbolic tracing by default. If you want this call to be recorded, "
            + named("please call weft.fx.wrap('len') at module scope")
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
        args, kwargs = with_options(function, args, kwargs or {})
        return tracer.create_proxy("call_function", function, args, kwargs)


class ProxyableClassMeta(type):
    """The metaclass of classes whose objects may be made of proxies: that is one node."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        tracer = _tracer_in((args, kwargs))
        if tracer is None:
            return super().__call__(*args, **kwargs)
        return tracer.create_proxy("call_function", cls, args, kwargs)


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


class ToBeGiven:
    """What stands in `concrete_args` for values that are not told."""

    def __repr__(self) -> str:
        return "PH"


PH: Final = ToBeGiven()


def _holds_place(value: Any) -> bool:
    """Whether some of an argument is not told."""
    items = value.values() if isinstance(value, dict) else value if isinstance(value, (tuple, list)) else ()
    return value is PH or any(map(_holds_place, items))


def _assert_is_none(value: Any, text: str) -> None:
    assert value is None, text


class Tracer:
    """Traces with proxies. Override `is_leaf_module` to decide which submodules are written as one call.

    Functions of `autowrap_modules`, and globals that are one of `autowrap_functions`, are kept whole where
    proxies are given to them.
    """

    record_stack_traces = False
    """Whether nodes know the user's lines."""
    proxy_buffer_attributes = False
    """Whether buffers become nodes where they are read, as parameters do."""

    def __init__(
        self,
        autowrap_modules: tuple[Any, ...] = (math,),
        autowrap_functions: tuple[Callable[..., Any], ...] = (),
        param_shapes_constant: bool = False,
    ) -> None:
        self.graph = Graph()
        self.autowrap_modules, self.autowrap_functions = autowrap_modules, autowrap_functions
        self.param_shapes_constant = param_shapes_constant
        self.module_stack: dict[str, Any] = {}
        self.specialized = 0  # how many arguments were told
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
        around, self.module_stack = self.module_stack, {**self.module_stack, path: (path, type(module))}
        try:
            if self.is_leaf_module(module, path):
                return self.create_proxy("call_module", path, args, kwargs)
            return forward(*args, **kwargs)
        finally:
            self.module_stack = around

    def iter(self, obj: Proxy) -> Any:
        """What a loop over a proxy runs over."""
        raise TraceError(
            "Proxy object cannot be iterated. This can be attempted when the Proxy is used in a loop or "
            "as a *args or **kwargs function argument."
        )

    def to_bool(self, obj: Proxy) -> bool:
        """Which way a branch on a proxy goes."""
        raise TraceError("symbolically traced variables cannot be used as inputs to control flow")

    def keys(self, obj: Proxy) -> Any:
        """The keys of a proxy that is handed on as `**proxy`."""
        return Attribute(obj, "keys")()

    def getattr(self, attr: str, attr_val: Any, parameter_proxy_cache: dict[str, Any]) -> Any:
        """What reading a parameter or a buffer of a module gives: a proxy for those of the root."""
        kept = isinstance(attr_val, Parameter) or self.proxy_buffer_attributes
        path = self.paths.get(id(attr_val)) if kept and isinstance(attr_val, Tensor) else None
        if path is None:
            return attr_val
        if path not in parameter_proxy_cache:
            parameter_proxy_cache[path] = self.create_proxy("get_attr", path, (), {})
        return parameter_proxy_cache[path]

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
        node = self.graph.create_node(op, target, args, kwargs, name, type_expr)
        if self.module_stack:
            node.meta["nn_module_stack"] = dict(self.module_stack)
        if self.record_stack_traces:
            lines = user_lines()
            if lines:
                node.meta["source"] = (lines[-1].filename, lines[-1].lineno or 0, lines[-1].name)
        return node

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
    def trace(self, root: Module | Callable[..., Any], concrete_args: Any = None) -> Graph:
        """The graph of one call of `root` with proxies, or `concrete_args` for the arguments they name."""
        self.graph = Graph()
        self.constants, self.parameters, self.paths = {}, {}, {}
        self.specialized = 0
        self.root = root if isinstance(root, Module) else None
        if self.root is not None:
            self.note_paths(self.root)
        self.module_stack = {}
        function, bound = _function_of(root)
        flat, arguments = self._placeholders(function, bound, concrete_args or {})
        recording = recorded(lambda value: isinstance(value, Proxy), self._keep_whole)
        kept = fronted(self._kept_whole(inspect.unwrap(function).__globals__))
        with set_to((_active, self)), recording, _asking_tracers(), kept:
            result = flat(*arguments)
        self.graph.output(self.create_arg(result))
        return self.graph

    def _kept_whole(self, space: dict[str, Any]) -> list[tuple[dict[str, Any], str]]:
        """The names, and where they stand, of functions that this tracer keeps whole."""
        found = [(space, n) for n, value in space.items() if any(value is f for f in self.autowrap_functions)]
        for module in self.autowrap_modules:
            names = [n for n, value in vars(module).items() if callable(value) and not n.startswith("_")]
            found += [(vars(module), name) for name in names]
        return found

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
        self, function: Any, bound: list[Any], concrete: Any
    ) -> tuple[Callable[..., Any], list[Any]]:
        """The function with all its parameters positional, and a proxy or a concrete value for each."""
        function = inspect.unwrap(function)
        code = function.__code__
        parameters = list(inspect.signature(function).parameters.values())[len(bound) :]
        if isinstance(concrete, tuple):
            if len(concrete) != len(parameters):
                raise RuntimeError(
                    f"Tracing expected {len(parameters)} arguments but got {len(concrete)} concrete arguments"
                )
            concrete = dict(zip([parameter.name for parameter in parameters], concrete))
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
            return self._specialized(parameter, concrete[parameter.name])
        default = ... if parameter.default is parameter.empty else parameter.default
        name = _STARS.get(parameter.kind, "") + parameter.name
        return self.proxy(self.graph.placeholder(name, default_value=default))

    def _specialized(self, parameter: inspect.Parameter, value: Any) -> Any:
        """What stands for an argument whose value is told: that, with a check that calls bring the same; a
        proxy in each place of PH.
        """
        self.specialized += 1
        default = ... if parameter.default is parameter.empty else parameter.default
        name = parameter.name if _holds_place(value) else f"{parameter.name}_{self.specialized}"
        return self._taken_apart(
            self.proxy(self.graph.placeholder(name, default_value=default)), parameter.name, value
        )

    def _taken_apart(self, proxy: Any, name: str, value: Any) -> Any:
        """The told value of what a proxy stands for, with checks; proxies in the places of PH."""
        if value is PH:
            return proxy
        if isinstance(value, dict):
            return {key: self._taken_apart(proxy[key], name, item) for key, item in value.items()}
        if isinstance(value, (tuple, list)):
            items = [self._taken_apart(proxy[place], name, item) for place, item in enumerate(value)]
            return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
        if value is None:
            text = f"{name} has been specialized to have value None but got another value"
            self.create_proxy("call_function", _assert_is_none, (proxy, text), {})
        elif isinstance(value, (bool, int, float, str, complex)):
            text = f"{name} has been specialized to have value {value} but got another value"
            self.create_proxy("call_function", PUBLIC["_assert"], (proxy == value, text), {})
        else:
            warn_at_level(
                f"Was not able to add assertion to guarantee correct input {name} to specialized function. "
                "It is up to the user to make sure that your inputs match the inputs you specialized the "
                "function with.",
                UserWarning,
                stacklevel=4,
            )
        return value

    def read(self, name: str, value: Any) -> Any:
        """Asked by modules whose parameters and buffers are read meanwhile."""
        return self.getattr(name, value, self.parameters)


class GraphAppendingTracer(Tracer):
    """Writes what is done to proxies at the end of a graph that is there already."""

    def __init__(self, graph: Graph) -> None:
        super().__init__()
        self.graph = graph
