"""Opening: graphs whose sizes are symbolic, as planning reads them.

Takes a graph whose nodes' types have symbolic sizes; gives copies of it, in which these are sizes of a plan
or
the numbers of one call. One idea: what computes sizes is no part of a program, so such nodes go, and their
numbers stand in the arguments of others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from weft.core.expressions import Expression, Symbol
from weft.core.interrupts import let_through
from weft.core.polynomials import Algebra
from weft.core.records import record
from weft.core.symbolic import Symbolic, any_symbolic
from weft.graph.graph import Graph
from weft.graph.node import SYMBOL, Node
from weft.native.ir.sizes import Sizes
from weft.native.lower.layouts import dense, order_of, row_major

Places = dict[Symbol, tuple[int, int | None]]


@record(frozen=True, slots=True)
class Fixed:
    """A float among the inputs for which a program is made, and which is a part of it."""

    value: float


class Opened:
    """A graph with open sizes, as planning sees it."""

    def __init__(
        self,
        graph: Graph,
        places: Places,
        inputs: Sequence[Any],
        wrap: Callable[[Any], Any],
        general: bool = False,
    ) -> None:
        algebra = algebra_of(graph)
        assert algebra is not None
        values = values_of(places, inputs)
        self.sizes = Sizes(algebra.copied(values), values, general)
        self.graph = with_sizes(graph, self.sizes.of, values, wrap)
        settled = settled_graph(graph, values, wrap)
        self.settled = dict(zip(self.graph.nodes, settled.nodes, strict=True))
        """By node: the same node at the sizes of this call."""


class SettledModule:
    """A graph module whose graph has the sizes of one call."""

    def __init__(self, graph_module: Any, values: Mapping[Symbol, int], wrap: Callable[[Any], Any]) -> None:
        self.owner, self.graph = graph_module, settled_graph(graph_module.graph, values, wrap)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.owner, name)


def array_of(value: Any) -> Any:
    return getattr(value, "array", None)


def open_places(graph: Graph) -> Places:
    """Where the open sizes of a graph can be read: the number of an input, and an axis of it, or None for an
    input that is the number itself. Floats are among these where a size is made of one."""
    found: Places = {}
    needed = symbols_of_sizes(graph)
    for number, node in enumerate(graph.placeholders):
        value = node.meta.get("val")
        array = array_of(value)
        if node.meta.get(SYMBOL) in needed:
            found.setdefault(node.meta[SYMBOL], (number, None))
        sizes = [(None, value)] if array is None else enumerate(array.shape)
        for axis, size in sizes:
            if isinstance(size, Symbolic) and is_size(size) and size.expression.op == "symbol":
                found.setdefault(size.expression.args[0], (number, axis))
    return found


def sizes_agree(graph: Graph, places: Places, given: Sequence[Any]) -> bool:
    """Whether the sizes of inputs are those that follow from where open sizes are read: another thread may
    have given a tensor other data since its size was asked for."""
    values = values_of(places, given)
    for node, array in zip(graph.placeholders, given, strict=True):
        for size, now in zip(
            getattr(array_of(node.meta.get("val")), "shape", ()), getattr(array, "shape", ())
        ):
            if is_size(size) and size.expression.symbols <= values.keys():
                if size.expression.evaluate(values) != now:
                    return False
    return True


def symbols_of_sizes(graph: Graph) -> set[Symbol]:
    """All on which sizes in a graph depend."""
    found: set[Symbol] = set()
    for node in graph.nodes:
        value = node.meta.get("val")
        for each in value if isinstance(value, (tuple, list)) else (value,):
            for size in getattr(array_of(each), "shape", ()):
                if is_size(size):
                    found |= size.expression.symbols
    return found


def unread(graph: Graph, places: Places) -> bool:
    """Whether a graph has sizes that cannot be read from its inputs."""
    return not symbols_of_sizes(graph) <= places.keys()


def is_size(value: object) -> bool:
    return isinstance(value, Symbolic) and value.expression.kind is int


def is_number(value: object) -> bool:
    """Whether a value is a number that may follow from sizes."""
    return isinstance(value, Symbolic) and value.expression.kind in (int, float)


def has_sizes(value: object) -> bool:
    """Whether symbolic sizes stand in an argument."""
    if isinstance(value, (tuple, list)):
        return any(map(has_sizes, value))
    if isinstance(value, dict):
        return any(map(has_sizes, value.values()))
    return has_sizes((value.start, value.stop, value.step)) if type(value) is slice else is_number(value)


def algebra_of(graph: Graph) -> Algebra | None:
    """What is known of the open sizes of a graph."""
    for node in graph.nodes:
        value = node.meta.get("val")
        for size in (value,) if array_of(value) is None else array_of(value).shape:
            if isinstance(size, Symbolic) and is_size(size):
                known: Algebra = size.owner.algebra
                return known
    return None


def open_key(graph: Graph, inputs: Sequence[Any], key_of: Callable[[Any], Any]) -> Any:
    """What a template depends on, but for its sizes: layouts of inputs whose sizes are open by the order in
    which their axes lie, all else as for programs without open sizes."""
    found = []
    for node, value in zip(graph.placeholders, inputs):
        known = node.meta.get("val")
        array = array_of(known)
        if array is None:
            found.append(is_size(known) or key_of(value))
        else:
            found.append(layout_of(value) if any_symbolic(array.shape) else key_of(value))
    return tuple(found)


def layout_of(array: Any) -> Any:
    """How an array lies: in which order, if there are no gaps, else by which strides."""
    strides = tuple([step // array.itemsize for step in array.strides])
    if strides == row_major(array.shape):
        return array.dtype, array.ndim
    order = order_of(array.shape, strides)
    return array.dtype, tuple(order) if dense(array.shape, order) == strides else strides, 0 in array.shape


def open_strides(array: Any, shape: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """The strides, in elements, of arrays of this shape that lie as this one; None of row-major ones."""
    _, layout, *_ = layout_of(array)
    if isinstance(layout, int):
        return None
    strides = tuple([step // array.itemsize for step in array.strides])
    return strides if layout == strides else dense(shape, layout)


def values_of(places: Places, inputs: Sequence[Any]) -> dict[Symbol, int]:
    """The open sizes of a call."""
    return {
        symbol: inputs[number] if axis is None else inputs[number].shape[axis]
        for symbol, (number, axis) in places.items()
    }


def settled_graph(graph: Graph, values: Mapping[Symbol, int], wrap: Callable[[Any], Any]) -> Graph:
    """The graph with the sizes of one call."""
    return with_sizes(graph, lambda each: each.evaluate(values), values, wrap)


def with_sizes(
    graph: Graph,
    number_of: Callable[[Expression], Any],
    known: Mapping[Symbol, Any],
    wrap: Callable[[Any], Any],
) -> Graph:
    """A copy of a graph with numbers for its sizes: `number_of` an expression of the symbols in `known`.
    `wrap`: a tensor on an array."""
    made = Graph(graph.owning_module, name=graph.name, impure=graph.impure)
    made.source, made.meta = graph.source, dict(graph.meta)
    made.subgraphs = graph.subgraphs
    stands: dict[Node, Any] = {}

    def converted(value: Any) -> Any:
        if isinstance(value, tuple):  # of several results, too, which have names
            return tuple([converted(each) for each in value])
        if type(value) is list:
            return [converted(each) for each in value]
        if type(value) is dict:
            return {key: converted(each) for key, each in value.items()}
        if type(value) is slice:
            return slice(converted(value.start), converted(value.stop), converted(value.step))
        if is_number(value):
            return number_of(value.expression) if value.expression.symbols <= known.keys() else value
        array = array_of(value)
        if array is None or not any_symbolic((*array.shape, *array.strides)):
            return value
        shape, strides = ([number(each) for each in numbers] for numbers in (array.shape, array.strides))
        return wrap(type(array)(shape, array.dtype, strides, array.device, array.exact))

    def number(value: Any) -> Any:
        return number_of(value.expression) if isinstance(value, Symbolic) else value

    for node in graph.nodes:
        value = node.meta.get("val")
        follows = (
            isinstance(value, Symbolic) and is_number(value) and value.expression.symbols <= known.keys()
        )
        if follows and node.op != "placeholder":
            stands[node] = converted(value)
            continue
        copied = made.node_copy(node, stands.__getitem__)
        stands[node] = copied
        if has_sizes((node.args, node.kwargs)):
            copied.args, copied.kwargs = converted(copied.args), converted(copied.kwargs)
        if value is not None:
            try:
                copied.meta["val"] = converted(value)
            except (TypeError, AttributeError) as error:
                let_through(error)
        lies = node.meta.get("lies")
        if isinstance(lies, tuple):
            copied.meta["lies"] = converted(lies)
        if follows:
            stands[node] = copied.meta["val"]
    return made
