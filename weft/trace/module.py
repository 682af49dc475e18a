"""`GraphModule`: a graph as a module that can be called.

Takes a graph and the module or dict in which its attributes live; gives an `nn.Module` whose `forward` is
Python generated from the graph. One idea: each GraphModule has a class of its own, so that the generated
function is an ordinary method and a call costs no more than that of a module written by hand.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from functools import partial
from typing import Any, Self

from weft.core.interrupts import let_through
from weft.core.naming import OURS, naming
from weft.graph.describe import describe_readable
from weft.graph.graph import Graph
from weft.graph.interpreter import attribute
from weft.graph.text import READS_GRAPH, class_text, compile_graph, python_code
from weft.nn.modules.module import Module
from weft.tensor.base import Parameter, Tensor


def _put(target: Module, path: str, value: Any) -> None:
    """Puts a value at `path` in a module, with plain modules between."""
    *parents, last = path.split(".")
    for part in parents:
        if part not in target._modules:
            target.add_module(part, Module())
        inner = target._modules[part]
        assert inner is not None
        target = inner
    _assign(target, last, value)


def _assign(target: Module, name: str, value: Any) -> None:
    if isinstance(value, Tensor) and not isinstance(value, Parameter):
        target.register_buffer(name, value)
    elif isinstance(value, Module):
        target.add_module(name, value)
    else:
        setattr(target, name, value)


MORE = "\n# To see more debug info, please use `graph_module.print_readable()`"


class GraphModule(Module):
    """A module generated from a graph. Change `graph`, then call `recompile()`."""

    _graph: Graph
    _class_name: str

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        own = next(base for base in cls.__mro__ if not base.__dict__.get("_generated"))
        made: type[Self] = type(own.__name__, (own,), {"_generated": True, "__module__": own.__module__})
        return super().__new__(made)

    def __init__(
        self,
        root: Module | Mapping[str, Any] | None,
        graph: Graph,
        class_name: str = "GraphModule",
        *,
        lazily: bool = False,
    ) -> None:
        """`lazily`: `forward` is generated when it is called first, since most are never called. The graph
        must not change until then.
        """
        super().__init__()
        type(self).__name__ = type(self).__qualname__ = class_name
        self._class_name = class_name
        if isinstance(root, Module):
            self.training = root.training
        for name, inner in graph.subgraphs.items():
            self.add_module(name, GraphModule(root, inner, name, lazily=lazily))
        self._take_attributes(root, graph)
        self._graph = graph
        graph.owning_module = None
        self.meta: dict[str, Any] = {}
        if lazily:
            type(self).forward = _first_forward
        else:
            self.recompile()

    def _take_attributes(self, root: Module | Mapping[str, Any] | None, graph: Graph) -> None:
        wanted = {
            node.target: None
            for node in graph.nodes
            if node.op in ("get_attr", "call_module") and node.target not in graph.subgraphs
        }
        for path in sorted(wanted, key=lambda path: path.count(".")):
            try:
                _put(self, path, root[path] if isinstance(root, Mapping) else attribute(root, path))
            except (AttributeError, KeyError) as error:
                let_through(error)
                raise RuntimeError(
                    f"the graph reads {path!r}, but the root of the GraphModule has no such attribute"
                ) from None

    @property
    def graph(self) -> Graph:
        return self._graph

    @graph.setter
    def graph(self, graph: Graph) -> None:
        self._graph = graph
        self.recompile()

    @property
    def code(self) -> str:
        """The text of `forward`, as FX writes it."""
        return python_code(self._graph).src

    def recompile(self) -> None:
        """Generates `forward` anew from the graph."""
        type(self).forward = compile_graph(self._graph)

    def materialise(self, compiler: Any = None) -> None:
        """Generates `forward` of this module and of those inside, where that was put off; not for a compiler
        that reads graphs.
        """
        compiler = getattr(compiler, "func", compiler)
        if getattr(compiler, READS_GRAPH, False) and not hasattr(compiler, "__wrapped__"):  # that copies
            return
        for module in self.modules():
            if isinstance(module, GraphModule) and type(module).forward is _first_forward:
                module.recompile()

    # -- submodules ------------------------------------------------------------------------------------------
    def add_submodule(self, target: str, m: Module) -> bool:
        """Puts a module at a path, for nodes to call; False where something else stands in the way."""
        owner: Any = self
        for part in target.split("."):
            if not isinstance(owner, Module):
                return False
            owner = getattr(owner, part, Module())
        _put(self, target, m)
        return True

    def delete_submodule(self, target: str) -> bool:
        """Removes the module at a path; False where there is none."""
        path, _, name = target.rpartition(".")
        try:
            owner = attribute(self, path) if path else self
        except AttributeError as error:
            let_through(error)
            return False
        return owner._modules.pop(name, None) is not None

    def delete_all_unused_submodules(self) -> None:
        """Removes the modules that no node names, nor anything within."""
        used = [node.target for node in self._graph.nodes if node.op in ("call_module", "get_attr")]
        for path, _ in list(self.named_modules()):
            reached = any(
                (name + ".").startswith(path + ".") or (path + ".").startswith(name + ".") for name in used
            )
            if path and not reached:
                self.delete_submodule(path)

    # -- printing --------------------------------------------------------------------------------------------
    def print_readable(
        self,
        print_output: bool = True,
        include_stride: bool = False,
        include_device: bool = False,
        *,
        namespace: str | None = None,
        nested_names: bool = True,
    ) -> str:
        """The graph as a class, with types and the user's lines; sub-graphs as nested classes.

        `nested_names`: whether these are called by their attribute (`wrap_body_0`) or by their class
        (`GraphModule`), as older versions of PyTorch print them.
        """
        describe = partial(describe_readable, stride=include_stride, device=include_device)
        text = self._readable(self._class_name, nested_names, {"namespace": namespace, "describe": describe})
        if print_output:
            print(text)
        return text

    def _readable(self, name: str, nested_names: bool, options: dict[str, Any]) -> str:
        inner = {
            key: child._readable(key if nested_names else "GraphModule", nested_names, options)
            for key, child in self._modules.items()
            if isinstance(child, GraphModule)
        }
        return class_text(self._graph, name, inner, **options)

    def __str__(self) -> str:
        text = f"{super().__repr__()}\n{self.code}"
        return text if naming.namespace == OURS else f"{text}{MORE}"

    # -- copying ---------------------------------------------------------------------------------------------
    def __reduce__(self) -> Any:
        state = {key: value for key, value in self.__dict__.items() if key != "_graph"}
        return _restore, (self._graph, self._class_name, state)

    def __deepcopy__(self, memo: dict[int, Any]) -> GraphModule:
        state = {key: deepcopy(value, memo) for key, value in self.__dict__.items() if key != "_graph"}
        copied = _restore(deepcopy(self._graph, memo), self._class_name, state)
        memo[id(self)] = copied
        return copied

    def __copy__(self) -> GraphModule:
        state = {key: value for key, value in self.__dict__.items() if key != "_graph"}
        return _restore(self._graph.copy(), self._class_name, state)


def _first_forward(self: GraphModule, *args: Any, **kwargs: Any) -> Any:
    """The `forward` of a module whose own was put off."""
    if type(self).forward is _first_forward:  # somebody may have kept this method
        self.recompile()
    return self.forward(*args, **kwargs)


def _restore(graph: Graph, class_name: str, state: dict[str, Any]) -> GraphModule:
    module = GraphModule.__new__(GraphModule)
    type(module).__name__ = type(module).__qualname__ = class_name
    module.__dict__.update(state)
    module.__dict__["_graph"] = graph
    module.recompile()
    return module
