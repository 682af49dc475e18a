"""The FX face: run a graph node by node, rewrite it by overriding methods, trace one with proxies.

Takes a GraphModule; `Interpreter` runs it, `Transformer` makes another, `replace_pattern` changes it in
place; `symbolic_trace` makes one of a function or a module without example inputs. One idea: a transformer is
an interpreter whose values are proxies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from weft.core.records import record
from weft.graph.graph import Graph
from weft.graph.interpreter import attribute
from weft.graph.node import Node, map_arg
from weft.graph.text import last_uses
from weft.nn.modules.module import Module
from weft.trace.module import GraphModule
from weft.trace.proxy import Proxy, Tracer


class Interpreter:
    """Runs a module's graph. Override a method to change what one kind of node does."""

    def __init__(self, module: Any, garbage_collect_values: bool = True, graph: Graph | None = None) -> None:
        self.module = module
        self.graph: Graph = module.graph if graph is None else graph
        self.garbage_collect_values = garbage_collect_values
        self.submodules: dict[str, Any] = dict(module.named_modules()) if isinstance(module, Module) else {}
        self.name, self.extra_traceback = type(self).__name__, True
        self.env: dict[Node, Any] = {}
        self.args_iter: Iterator[Any] = iter(())

    def run(
        self, *args: Any, initial_env: dict[Node, Any] | None = None, enable_io_processing: bool = True
    ) -> Any:
        """What the graph gives for these arguments; nodes in `initial_env` are taken from there."""
        self.env = dict(initial_env or {})
        self.args_iter = iter(args)
        freed = last_uses(self.graph) if self.garbage_collect_values else {}
        for node in self.graph.nodes:
            if node not in self.env:
                self.env[node] = self._run_told(node)
            for unread in freed.get(node, ()):
                self.env.pop(unread, None)
            if node.op == "output":
                return self.env[node]
        return None

    def _run_told(self, node: Node) -> Any:
        """Runs one node; an error that it raises says which."""
        try:
            return self.run_node(node)
        except Exception as error:
            if self.extra_traceback and error.args and isinstance(error.args[0], str):
                line = f"While executing {node.format_node()}"
                where = f"{line}\nOriginal traceback:\n{node.stack_trace}"
                error.args = (f"{error.args[0]}\n\n{where}", *error.args[1:])
            raise

    def boxed_run(self, args_list: list[Any]) -> Any:
        """As `run`, with the arguments in a list, which is emptied, so that nothing here keeps them."""
        args = list(args_list)
        args_list.clear()
        return self.run(*args)

    def run_node(self, n: Node) -> Any:
        """Runs one node: the method named as its op, with the values of its arguments."""
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        return getattr(self, n.op)(n.target, args, kwargs)

    def fetch_args_kwargs_from_env(self, n: Node) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return self.map_nodes_to_values(n.args, n), self.map_nodes_to_values(n.kwargs, n)

    def map_nodes_to_values(self, args: Any, n: Node) -> Any:
        def load(used: Node) -> Any:
            if used not in self.env:
                raise RuntimeError(
                    f"Node {n} referenced nonexistent value {used}! Run Graph.lint() to diagnose such issues"
                )
            return self.env[used]

        return map_arg(args, load)

    def fetch_attr(self, target: str) -> Any:
        return attribute(self.module, target)

    # -- one method for each op ------------------------------------------------------------------------------
    def placeholder(self, target: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if target.startswith("*"):
            return list(self.args_iter)
        for value in self.args_iter:
            return value
        if args:
            return args[0]
        raise RuntimeError(f"Expected positional argument for parameter {target}, but one was not passed in!")

    def get_attr(self, target: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return self.fetch_attr(target)

    def call_function(self, target: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return target(*args, **kwargs)

    def call_method(self, target: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        receiver, *rest = args
        return getattr(receiver, target)(*rest, **kwargs)

    def call_module(self, target: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return self.fetch_attr(target)(*args, **kwargs)

    def output(self, target: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return args[0]


class _CopyTracer(Tracer):
    """A tracer whose nodes remember from which node they were made."""

    def __init__(self, graph: Graph) -> None:
        super().__init__()
        self.graph = graph
        self.original: Node | None = None

    def create_node(self, *args: Any, **kwargs: Any) -> Node:
        node = super().create_node(*args, **kwargs)
        if self.original is not None:
            same = node.op == self.original.op and node.target == self.original.target
            node.meta = {k: v for k, v in self.original.meta.items() if same or k != "val"}
        return node


class Transformer(Interpreter):
    """Makes a new GraphModule from an old one; methods receive and give proxies."""

    def __init__(self, module: GraphModule) -> None:
        super().__init__(module)
        self.new_graph = Graph(name=self.graph.name)
        self.new_graph.source = self.graph.source
        self.new_graph.subgraphs = dict(self.graph.subgraphs)
        self.tracer = _CopyTracer(self.new_graph)
        self.tracer.note_paths(module)

    def run_node(self, n: Node) -> Any:
        self.tracer.original = n
        return super().run_node(n)

    def placeholder(self, target: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Proxy:
        node = self.new_graph.placeholder(target, default_value=args[0] if args else ...)
        if self.tracer.original is not None:
            node.meta, node.type = dict(self.tracer.original.meta), self.tracer.original.type
        return self.tracer.proxy(node)

    def get_attr(self, target: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Proxy:
        return self.tracer.create_proxy("get_attr", target, args, kwargs)

    def call_module(self, target: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return self.tracer.create_proxy("call_module", target, args, kwargs)

    def call_function(self, target: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return self.tracer.create_proxy("call_function", target, args, kwargs)

    def call_method(self, target: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return self.tracer.create_proxy("call_method", target, args, kwargs)

    def transform(self) -> GraphModule:
        """The new module: all methods run once, in order."""
        result = super().run()
        self.tracer.original = None
        self.new_graph.output(self.tracer.create_arg(result))
        root = _Roots(self.module, self.tracer.constants)
        return GraphModule(root, self.new_graph, type(self.module).__name__)


class _Roots(dict[str, Any]):
    """Attributes by path: of a module, and constants that tracing added."""

    def __init__(self, module: Any, constants: dict[str, Any]) -> None:
        super().__init__(constants)
        self.module = module

    def __missing__(self, path: str) -> Any:
        return attribute(self.module, path)


def symbolic_trace(root: Module | Callable[..., Any], concrete_args: Any = None) -> GraphModule:
    """A GraphModule of what `root` does to its arguments, found by calling it once with proxies.

    Branches, loops and lengths that depend on an argument raise TraceError: give it in `concrete_args`, or
    use `make_fx` or `weft.compile`, which see types.
    """
    tracer = Tracer()
    graph = tracer.trace(root, concrete_args)
    name = type(root).__name__ if isinstance(root, Module) else getattr(root, "__name__", type(root).__name__)
    module = GraphModule(_Roots(root, tracer.constants), graph, name)
    if isinstance(root, Module):
        module.training = root.training
    return module


# -- patterns ------------------------------------------------------------------------------------------------
@record(frozen=True)
class Match:
    """One occurrence: its last node, and what stands for each node of the pattern."""

    anchor: Node
    nodes_map: dict[Node, Any]


def replace_pattern(
    gm: GraphModule,
    pattern: Callable[..., Any] | GraphModule | Graph,
    replacement: Callable[..., Any] | GraphModule | Graph,
) -> list[Match]:
    """Puts `replacement` wherever `pattern` occurs, in place; gives the occurrences, which never overlap.

    The inputs of the pattern match anything, the same input always the same node; what it computes on the way
    must be read by nobody else.
    """
    made = replace_pattern_with_filters(gm, pattern, replacement)
    return [Match(each.anchor, each.nodes_map) for each in made]


@record(frozen=True)
class ReplacedPatterns:
    """One occurrence that was replaced: as `Match`, and the nodes that took its place."""

    anchor: Node
    nodes_map: dict[Node, Any]
    replacements: list[Node]


def replace_pattern_with_filters(
    gm: GraphModule,
    pattern: Callable[..., Any] | GraphModule | Graph,
    replacement: Callable[..., Any] | GraphModule | Graph | None = None,
    match_filters: list[Callable[..., bool]] | None = None,
    ignore_literals: bool = False,
    replacement_callback: Callable[..., Any] | None = None,
    node_name_match: str = "",
) -> list[ReplacedPatterns]:
    """As `replace_pattern`, for those occurrences that all filters take: functions of the match, the graph
    and the pattern's graph. A callback of the same makes the replacement of each.
    """
    pattern_graph = _graph_of(pattern)
    given = None if replacement is None else _graph_of(replacement)
    found = [
        match
        for match in _matches(gm.graph, pattern_graph, ignore_literals)
        if all(accepts(match, gm.graph, pattern_graph) for accepts in match_filters or ())
    ]
    replaced: dict[Node, Any] = {}
    results = []
    for match in found:
        new = given
        if new is None:
            assert replacement_callback is not None, (
                "Must provide either a replacement GraphModule or a callback"
            )
            new = _graph_of(replacement_callback(match, gm.graph, pattern_graph))
        before = set(gm.graph.nodes)
        _replace_one(gm.graph, pattern_graph, new, match, replaced)
        fresh = [node for node in gm.graph.nodes if node not in before]
        results.append(ReplacedPatterns(match.anchor, match.nodes_map, fresh))
    gm.recompile()
    return results


def _graph_of(program: Callable[..., Any] | GraphModule | Graph) -> Graph:
    if isinstance(program, Graph):
        return program
    return program.graph if isinstance(program, GraphModule) else symbolic_trace(program).graph


def _matches(graph: Graph, pattern: Graph, any_literals: bool = False) -> Iterator[Match]:
    last = pattern.output_node().args[0]
    if not isinstance(last, Node):
        raise ValueError("a pattern gives one value")
    taken: set[Node] = set()
    for node in graph.nodes:
        nodes_map: dict[Node, Any] = {}
        if node.op == "output" or not _equal(last, node, nodes_map, any_literals):
            continue
        inside = {v for p, v in nodes_map.items() if p.op != "placeholder" and isinstance(v, Node)}
        inner = inside - {node}
        if inside & taken or any(user not in inside for value in inner for user in value.users):
            continue
        taken |= inside
        yield Match(node, nodes_map)


def _equal(pattern: Any, value: Any, nodes_map: dict[Node, Any], any_literals: bool) -> bool:
    """Whether a value has the pattern's structure; fills in what stands for each node of it."""
    if isinstance(pattern, Node):
        if pattern in nodes_map:
            return bool(nodes_map[pattern] is value)
        nodes_map[pattern] = value
        if pattern.op == "placeholder":
            return True
        if not isinstance(value, Node) or (pattern.op, pattern.target) != (value.op, value.target):
            return False
        same = _equal(pattern.args, value.args, nodes_map, any_literals)
        return same and _equal(pattern.kwargs, value.kwargs, nodes_map, any_literals)
    if type(pattern) is not type(value):
        return False
    if isinstance(pattern, (tuple, list)):
        pairs = zip(pattern, value)
        return len(pattern) == len(value) and all(_equal(p, v, nodes_map, any_literals) for p, v in pairs)
    if isinstance(pattern, dict):
        return pattern.keys() == value.keys() and all(
            _equal(p, value[k], nodes_map, any_literals) for k, p in pattern.items()
        )
    return any_literals or bool(pattern == value)


def _replace_one(graph: Graph, pattern: Graph, new: Graph, match: Match, replaced: dict[Node, Any]) -> None:
    inputs = [match.nodes_map[node] for node in pattern.placeholders]
    # An input may itself have been the end of an occurrence that is gone by now.
    values = [replaced.get(value, value) if isinstance(value, Node) else value for value in inputs]
    mapping: dict[Node, Any] = dict(zip(new.placeholders, values, strict=True))
    with graph.inserting_before(match.anchor):
        result = graph.graph_copy(new, mapping)
    if isinstance(result, Node):
        match.anchor.replace_all_uses_with(result)
        result.meta.setdefault("source", match.anchor.meta.get("source"))
    elif match.anchor.users:
        for user in list(match.anchor.users):
            user.args = map_arg(user.args, lambda node: result if node is match.anchor else node)
            user.kwargs = map_arg(user.kwargs, lambda node: result if node is match.anchor else node)
    replaced[match.anchor] = result
    for node in sorted_backward(graph, match):
        graph.erase_node(node)


def sorted_backward(graph: Graph, match: Match) -> list[Node]:
    """The nodes of an occurrence, users first."""
    inside = {
        value for p, value in match.nodes_map.items() if p.op != "placeholder" and isinstance(value, Node)
    }
    return [node for node in reversed(graph.nodes) if node in inside]
