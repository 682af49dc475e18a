"""`jit.script`: the one door for functions, modules and classes.

Takes anything that can be scripted; gives its scripted form. One idea: what it is decides, as in TorchScript.
"""

from __future__ import annotations

import contextlib
import enum
import inspect
from collections.abc import Iterator
from typing import Any

import weft.jit.annotations as notes
import weft.jit.marks as marks
from weft.jit.differentiable import with_differentiable_graphs
from weft.jit.executor import Executor
from weft.jit.lookup import root
from weft.jit.modules import ScriptModule, script_module
from weft.jit.passes import inline
from weft.jit.script import ScriptFunction, define, names_of, script_function, service
from weft.jit.support import Future
from weft.jit.types import NONE
from weft.nn.modules.module import Module


def script(
    obj: Any, optimize: Any = None, _frames_up: int = 0, _rcb: Any = None, example_inputs: Any = None
) -> Any:
    """The scripted form of a function, a module or a class.

    >>> import weft
    >>> @weft.jit.script
    ... def biggest(x: weft.Tensor, y: weft.Tensor):
    ...     if x.max() > y.max():
    ...         r = x
    ...     else:
    ...         r = y
    ...     return r
    >>> biggest(weft.tensor([1.0]), weft.tensor([2.0]))
    tensor([2.])
    """
    if isinstance(obj, (ScriptFunction, ScriptModule)):
        return obj
    if isinstance(obj, Module):
        return script_module(obj)
    if isinstance(obj, type):
        return _script_class(obj)
    if inspect.isfunction(obj) or inspect.ismethod(obj):
        if marks.modifier(obj) == marks.IGNORE:
            return obj
        if inspect.ismethod(obj):
            obj = obj.__func__
        return script_function(obj, _rcb)
    if isinstance(obj, (dict, list, tuple)):
        return obj
    if callable(obj):
        raise RuntimeError(f"Expected a function, class or module, found {type(obj).__name__}")
    raise RuntimeError(f"Could not get name of python class object: {obj!r}")


def _script_class(cls: Any) -> Any:
    if issubclass(cls, Module):
        raise RuntimeError(
            f"Type '{cls}' cannot be compiled since it inherits from nn.Module, consider passing an instance "
            "instead"
        )
    if issubclass(cls, enum.Enum) or hasattr(cls, "_fields"):
        return cls
    info = service.class_for(cls)
    for name, found in list(cls.__dict__.items()):
        if inspect.isfunction(found) and marks.modifier(found) == marks.DEFAULT:
            method = info.method(name)
            if method is not None:
                method.ensure()
    return cls


class Interface:
    """The methods that modules of an interface have."""

    def __init__(self, cls: Any) -> None:
        self.cls = cls
        self.attributes: dict[str, Any] = {}
        self.made: dict[str, Any] = {}

    def method(self, name: str) -> Any:
        if name not in self.made:
            function = self.cls.__dict__.get(name)
            if function is None:
                return None
            stub = ScriptFunction.of(function, name, ("self", notes.resolve(self.cls), None))
            stub.schema.returned = stub.schema.returned or NONE
            stub.made = None
            stub.ensure = lambda where=None: None  # type: ignore[method-assign]
            stub.executor.plain = lambda receiver, *args: getattr(receiver, name)(*args)
            self.made[name] = stub
        return self.made[name]


def interface(cls: Any) -> Any:
    """Decorator: the class names the methods that modules of its type have."""
    notes.INTERFACES[cls] = Interface(cls)
    return cls


class CompilationUnit:
    """Scripted functions from text.

    >>> import weft
    >>> unit = weft.jit.CompilationUnit("def double(x):\\n    return x * 2")
    >>> unit.double(weft.tensor([1.0]))
    tensor([2.])
    """

    def __init__(self, lang: str | None = None, _frames_up: int = 0) -> None:
        self.functions: dict[str, ScriptFunction] = {}
        if lang is not None:
            frame = inspect.currentframe()
            for _ in range(_frames_up + 1):
                frame = frame.f_back if frame is not None else None
            space = {**frame.f_globals, **frame.f_locals} if frame is not None else {}
            self.define(lang, space=space)

    def define(
        self, lang: str, rcb: Any = None, _frames_up: int = 0, space: dict[str, Any] | None = None
    ) -> None:
        """Adds the functions of a text."""
        names = names_of(CompilationUnit.define, {**_TEXT_NAMES(), **(space or {}), **self.functions})
        for function in define(lang, names):
            self.functions[function.name] = function

    def __getattr__(self, name: str) -> Any:
        found = self.__dict__.get("functions", {}).get(name)
        if found is None:
            raise AttributeError(f"'CompilationUnit' has no attribute '{name}'")
        return found


def _TEXT_NAMES() -> dict[str, Any]:
    return {
        "torch": root(),
        "weft": root(),
        **{k: v for k, v in notes._FALLBACK.items() if k[0].isupper()},
    }


class ScriptWarning(Warning):
    """Something that scripted code does in another way."""


@contextlib.contextmanager
def optimized_execution(should_optimize: bool) -> Iterator[None]:
    """Where PyTorch would optimise, or not; here code is compiled when it has run for some time."""
    yield


def set_fusion_strategy(strategy: Any) -> Any:
    """Takes what PyTorch takes; there is nothing to choose here."""
    return strategy


def last_executed_optimized_graph() -> Any:
    """The graph of the scripted function that ran last, with its differentiable parts."""
    latest = Executor.latest
    return None if latest is None else with_differentiable_graphs(inline(latest.owner.graph))


def export_opnames(mod: Any) -> list[str]:
    """The names of the operators that a scripted module uses, sorted."""
    methods = mod.__dict__["_script"].methods.values()
    graphs = [inline(method.graph) for method in methods if isinstance(method, ScriptFunction)]
    names = {node.operator for graph in graphs for node in graph.walk()}
    return sorted(name for name in names if name.startswith("aten::"))


def fork(func: Any, *args: Any, **kwargs: Any) -> Future:
    """Runs the function, at once; `wait` gives its result."""
    return Future(func(*args, **kwargs))


def wait(future: Future) -> Any:
    """The result of what was forked."""
    return future.wait()
