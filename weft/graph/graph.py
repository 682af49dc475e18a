"""The graph: nodes in the order they run, and the operations that build and change it.

Takes calls as `call_function(target, args)`; gives a checked, printable, runnable sequence of nodes. One
idea: nodes form a doubly linked ring around a sentinel, so that inserting, moving and erasing cost the same
everywhere, also during iteration.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from types import TracebackType
from typing import Any

from weft.core.naming import OURS, naming
from weft.graph.check import check
from weft.graph.compact import compact, tabular
from weft.graph.effects import impure
from weft.graph.interpreter import run
from weft.graph.names import Names, wished_name
from weft.graph.node import OP_CODES, SIDE_EFFECTS, AnyGraph, Node, map_arg
from weft.graph.text import PythonCode, python_code


class NodeList:
    """The nodes of a graph as a list that follows its changes."""

    __slots__ = ("graph", "backward")

    def __init__(self, graph: Graph, backward: bool = False) -> None:
        self.graph, self.backward = graph, backward

    def __len__(self) -> int:
        return self.graph._count

    def __iter__(self) -> Iterator[Node]:
        root = self.graph._root
        node = root._prev if self.backward else root._next
        while node is not root:
            if not node._erased:
                yield node
            node = node._prev if self.backward else node._next

    def __reversed__(self) -> NodeList:
        return NodeList(self.graph, not self.backward)

    def __getitem__(self, index: Any) -> Any:
        return list(self)[index]

    def __repr__(self) -> str:
        return repr(list(self))


class _Insertion:
    """A change of the insertion point; undone at the end of a `with`, or never when just called."""

    __slots__ = ("graph", "old")

    def __init__(self, graph: Graph, point: Node) -> None:
        self.graph, self.old = graph, graph._insert_before
        graph._insert_before = point

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.graph._insert_before = self.old


class Graph(AnyGraph):
    """Nodes in running order: placeholders first, one output last.

    `name` and `source` (file, line, function) head the print; `subgraphs` are graphs that nodes with op
    `get_attr` name, as parameters of higher-order ops; `impure` decides which unread nodes must stay.
    """

    __slots__ = (
        "_root", "_count", "_insert_before", "_names", "name", "source", "subgraphs", "impure", "meta",
        "owning_module", "__weakref__",
    )  # fmt: skip

    def __init__(
        self, owning_module: object = None, *, name: str = "forward", impure: Callable[[Node], bool] = impure
    ) -> None:
        self._root = Node(self, "", "root", "", (), {})
        self._count = 0
        self._insert_before = self._root
        self._names = Names()
        self.name = name
        self.source: tuple[str, int, str] | None = None
        self.subgraphs: dict[str, Graph] = {}
        self.impure = impure
        self.meta: dict[str, Any] = {}
        self.owning_module = owning_module

    # -- reading ---------------------------------------------------------------------------------------------
    @property
    def nodes(self) -> NodeList:
        return NodeList(self)

    @property
    def placeholders(self) -> list[Node]:
        return self.find_nodes(op="placeholder")

    def output_node(self) -> Node:
        """The node with op `output`; an error where there is none yet."""
        last = self._root._prev
        if last.op == "output":
            return last
        for node in reversed(self.nodes):
            if node.op == "output":
                return node
        raise RuntimeError("the graph has no output node")

    def find_nodes(self, *, op: str, target: object = None, sort: bool = True) -> list[Node]:
        """The nodes with this op and, if given, this target, in order."""
        return [
            node
            for node in self.nodes
            if node.op == op and (target is None or node.target is target or node.target == target)
        ]

    # -- building --------------------------------------------------------------------------------------------
    def create_node(
        self,
        op: str,
        target: object,
        args: Iterable[Any] | None = None,
        kwargs: dict[str, Any] | None = None,
        name: str | None = None,
        type_expr: object = None,
    ) -> Node:
        if op not in OP_CODES:
            raise ValueError(f"{op!r} is no op of a graph; there are {', '.join(OP_CODES)}")
        unique = self._names.create(wished_name(target) if name is None else name)
        node = Node(self, unique, op, target, tuple(args or ()), kwargs or {}, type_expr)
        behind = self._insert_before
        before = behind._prev
        before._next, node._prev, node._next, behind._prev = node, before, behind, node
        self._count += 1
        return node

    def placeholder(
        self, name: str, type_expr: object = None, default_value: object = ..., *, val: object = None
    ) -> Node:
        """An input. `L_x_` becomes a parameter of that name and a node `l_x_`; `*args` is allowed."""
        args = () if default_value is ... else (default_value,)
        wished = wished_name(name.replace("*", "_" if name.startswith("*") else ""))
        wished = "_" + wished.lstrip("_") if name.startswith("*") else wished
        node = self.create_node("placeholder", name, args, name=wished, type_expr=type_expr)
        if val is not None:
            node.meta["val"] = val
        return node

    def rename_node(self, node: Node, name: str) -> None:
        """Calls a node otherwise; its former name stays taken."""
        if node.name != name:
            node.name = self._names.create(name)

    def placeholders_first(self) -> None:
        """Moves inputs that were found late before all that is computed."""
        first = next((node for node in self.nodes if node.op != "placeholder"), None)
        if first is not None:
            for node in self.placeholders:
                first.prepend(node)

    def get_attr(self, qualified_name: str, type_expr: object = None) -> Node:
        return self.create_node("get_attr", qualified_name, type_expr=type_expr)

    def call_function(
        self,
        the_function: Callable[..., Any],
        args: Iterable[Any] | None = None,
        kwargs: dict[str, Any] | None = None,
        type_expr: object = None,
        *,
        name: str | None = None,
    ) -> Node:
        return self.create_node("call_function", the_function, args, kwargs, name, type_expr)

    def call_method(
        self,
        method_name: str,
        args: Iterable[Any] | None = None,
        kwargs: dict[str, Any] | None = None,
        type_expr: object = None,
        *,
        name: str | None = None,
    ) -> Node:
        return self.create_node("call_method", method_name, args, kwargs, name, type_expr)

    def call_module(
        self,
        module_name: str,
        args: Iterable[Any] | None = None,
        kwargs: dict[str, Any] | None = None,
        type_expr: object = None,
    ) -> Node:
        return self.create_node("call_module", module_name, args, kwargs, None, type_expr)

    def output(self, result: object, type_expr: object = None) -> Node:
        return self.create_node("output", "output", (result,), type_expr=type_expr)

    def subgraph(self, name: str, graph: Graph) -> Node:
        """Adds a graph as a parameter for a higher-order op: a `get_attr` node whose value is callable."""
        fresh = Names()
        fresh.used.update(self.subgraphs)
        key = fresh.create(name)
        self.subgraphs[key] = graph
        return self.get_attr(key)

    # -- checking, printing, running -------------------------------------------------------------------------
    def check(self, dialect: str = "captured") -> Graph:
        """The graph itself, if it keeps the rules of the dialect; else GraphError."""
        return check(self, dialect)

    def lint(self) -> None:
        check(self)

    def python_code(self, root_module: str = "self", *, verbose: bool = False, **options: Any) -> PythonCode:
        """FX's text of `forward`; options as `weft.graph.text.python_code`."""
        return python_code(self, root_module, verbose=verbose, **options)

    def print_tabular(self) -> None:
        print(tabular(self))

    def __str__(self) -> str:
        if naming.namespace == OURS:
            return compact(self)
        return "\n    ".join(["graph():", *(node.format_node() for node in self.nodes)])

    def __call__(self, *args: object) -> Any:
        """Runs the graph node by node: how a graph among arguments behaves where it is called."""
        return run(self, args)

    # -- changing --------------------------------------------------------------------------------------------
    def erase_node(self, node: Node) -> None:
        """Removes a node without users. Erasing twice is harmless."""
        if node.graph is not self:
            raise RuntimeError(f"{node.name} belongs to another graph")
        if node.users:
            raise RuntimeError(
                f"Tried to erase Node {node} but it still had {len(node.users)} users in the graph: "
                f"{node.users}!"
            )
        if node._erased:
            return
        if self._insert_before is node:
            self._insert_before = node._next
        node._unlink()
        node._erased = True
        self._count -= 1
        node.args, node.kwargs = (), {}

    def inserting_before(self, node: Node | None = None) -> _Insertion:
        """New nodes go before `node` (at the very beginning when None), within a `with` or from now on."""
        return _Insertion(self, self._own(node) if node is not None else self._root._next)

    def inserting_after(self, node: Node | None = None) -> _Insertion:
        """New nodes go behind `node` (at the very end when None), within a `with` or from now on."""
        return _Insertion(self, self._own(node)._next if node is not None else self._root)

    def _own(self, node: Node) -> Node:
        if node.graph is not self:
            raise RuntimeError(f"{node.name} belongs to another graph")
        return node

    def rename(self) -> None:
        """Names all nodes anew, in order, by their targets."""
        self._names = Names()
        for node in self.nodes:
            wished = node.name if node.op == "placeholder" else wished_name(node.target)
            node.name = self._names.create(wished)

    def eliminate_dead_code(self, is_impure_node: Callable[[Node], bool] | None = None) -> bool:
        """Erases unused nodes without side effects; says whether anything was erased."""
        impure = is_impure_node or self.impure
        before = self._count
        for node in reversed(self.nodes):
            kept = node.op in ("placeholder", "output") or node.target in SIDE_EFFECTS
            if not node.users and not kept and not impure(node):
                self.erase_node(node)
        return self._count != before

    # -- copying ---------------------------------------------------------------------------------------------
    def node_copy(self, node: Node, arg_transform: Callable[[Node], Any] = lambda node: node) -> Node:
        """Copies a node of any graph into this one; `arg_transform` says what stands for its inputs."""
        copied = self.create_node(
            node.op,
            node.target,
            map_arg(node._args, arg_transform),
            map_arg(node._kwargs, arg_transform) if node._kwargs else None,
            node.name,
            node.type,
        )
        copied.meta = dict(node.meta)
        if "writes" in copied.meta:  # what is written are arguments, and so of this graph
            own = set(node.all_input_nodes)
            written = [arg_transform(each) if each in own else each for each in node.meta["writes"]]
            copied.meta["writes"] = tuple(written)
        return copied

    def graph_copy(self, graph: Graph, val_map: dict[Node, Any], return_output_node: bool = False) -> Any:
        """Copies all nodes but the output, noting them in `val_map`; gives what the copied graph returns."""
        for node in graph.nodes:
            if node in val_map:
                continue
            if node.op == "output":
                result = map_arg(node.args[0], val_map.__getitem__)
                return (result, node) if return_output_node else result
            val_map[node] = self.node_copy(node, val_map.__getitem__)
        return None

    def copy(self) -> Graph:
        """An equal graph with nodes of its own, under the same names."""
        other = Graph(self.owning_module, name=self.name, impure=self.impure)
        other.source, other.meta = self.source, dict(self.meta)
        other.subgraphs = {key: graph.copy() for key, graph in self.subgraphs.items()}
        val_map: dict[Node, Any] = {}
        for node in self.nodes:
            val_map[node] = other.node_copy(node, val_map.__getitem__)
        other._names = self._names.copy()
        return other

    def __deepcopy__(self, memo: dict[int, Any]) -> Graph:
        memo[id(self)] = copied = self.copy()
        return copied

    def __reduce__(self) -> Any:
        """Flat, so that long graphs can be saved: nodes as tuples, inputs by position, no `meta["val"]`."""
        places = {node: position for position, node in enumerate(self.nodes)}

        def refer(node: Node) -> _Place:
            return _Place(places[node])

        rows = [
            (
                node.op,
                node.target,
                map_arg(node.args, refer),
                map_arg(node.kwargs, refer),
                node.name,
                node.type,
                {key: value for key, value in node.meta.items() if key != "val"},
            )
            for node in self.nodes
        ]
        facts = {"name": self.name, "source": self.source, "subgraphs": self.subgraphs, "impure": self.impure}
        return _rebuild, (rows, facts)


class _Place:
    """A node of a saved graph, by position."""

    __slots__ = ("position",)

    def __init__(self, position: int) -> None:
        self.position = position

    def __reduce__(self) -> Any:
        return _Place, (self.position,)


def _fill(value: object, nodes: list[Node]) -> Any:
    if type(value) is _Place:
        return nodes[value.position]
    if isinstance(value, tuple):
        kind: Any = type(value)
        items = [_fill(item, nodes) for item in value]
        return kind(*items) if hasattr(kind, "_fields") else kind(items)
    if isinstance(value, list):
        return [_fill(item, nodes) for item in value]
    if isinstance(value, dict):
        return {key: _fill(item, nodes) for key, item in value.items()}
    if isinstance(value, slice):
        return slice(_fill(value.start, nodes), _fill(value.stop, nodes), _fill(value.step, nodes))
    return value


def _rebuild(rows: list[tuple[Any, ...]], facts: dict[str, Any]) -> Graph:
    graph = Graph(name=facts["name"], impure=facts["impure"])
    graph.source, graph.subgraphs = facts["source"], facts["subgraphs"]
    nodes: list[Node] = []
    for op, target, args, kwargs, name, type_expr, meta in rows:
        node = graph.create_node(op, target, _fill(args, nodes), _fill(kwargs, nodes), name, type_expr)
        node.meta = meta
        nodes.append(node)
    return graph
