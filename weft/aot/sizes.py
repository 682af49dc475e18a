"""Open sizes: the sizes among a graph's inputs that its plans leave open.

Takes the placeholders of a captured graph and what a key says of a call's inputs; gives the key that all
sizes share, and symbolic shapes and strides for these inputs. One idea: the capture has decided which sizes
are open, and guards whatever it has assumed of them, so its symbols go on, with this call's sizes as hints.

# Note [Plans for open sizes]
    s0, x: f32[s0,4], w: f32[4,2]      traced at 5: the plan for s0 = 5, and a template for s0 of 2 and more
A plan belongs to one key, with all sizes and strides in it. What it does with them follows from a template,
which was traced with symbols: whoever asks for a symbol's value, or for the truth of a comparison, leaves a
condition with the template. Sizes of 0 and 1 have plans of their own, and so have other orders of strides.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from weft.aot.conditions import Place
from weft.aot.facts import Facts, Step, ViewOf
from weft.core.expressions import Expression, Symbol
from weft.core.records import replace
from weft.graph.graph import Graph
from weft.trace.fake import is_tensor
from weft.trace.scalars import Scalars, Sym

Values = dict[Symbol, int]


class Opened(NamedTuple):
    """The inputs of one call, with symbols for what is open."""

    scalars: Scalars
    places: dict[Symbol, Place]
    numbers: dict[int, Any]
    """The inputs that are open numbers."""
    shapes: dict[int, tuple[tuple[Any, ...], tuple[Any, ...]]]
    """Shape and strides of those with open sizes."""

    def like(self, array: Any, source: int) -> tuple[tuple[Any, ...], tuple[Any, ...]] | None:
        """Shape and strides of an array that has the shape of one of the inputs."""
        if source not in self.shapes:
            return None
        shape = self.shapes[source][0]
        return shape, strides_of(shape, array.itemsize, *layout(array.shape, array.strides, array.itemsize))


class OpenSizes:
    """What is open of a graph's inputs."""

    def __init__(
        self, owner: Scalars, numbers: dict[int, Any], axes: dict[int, dict[int, Any]], sources: Values
    ) -> None:
        self.owner, self.numbers, self.axes, self.sources = owner, numbers, axes, sources

    def values(self, key: Any) -> Values | None:
        """The values of the symbols in a call; None where sizes and other numbers do not follow from them, or
        a size is 0 or 1."""
        facts = key[1]
        if any(type(facts[number]) is not tuple or facts[number][0] is not int for number in self.numbers):
            return None
        found = {symbol: facts[number][1] for symbol, number in self.sources.items()}
        for number, value in self.numbers.items():
            if facts[number][1] != value.expression.evaluate(found):
                return None
        for number, axes in self.axes.items():
            shape = facts[number][0]
            if type(shape) is not tuple or 0 in shape:
                return None
            for axis, size in axes.items():
                if shape[axis] < 2 or shape[axis] != size.expression.evaluate(found):
                    return None
        return found

    def key(self, key: Any) -> Any:
        """A key without what is open."""
        modes_of, facts = key
        shared = list(facts)
        for number in self.numbers:
            shared[number] = int
        for number, axes in self.axes.items():
            shape, strides, dtype, *rest = facts[number]
            sizes = tuple([None if axis in axes else size for axis, size in enumerate(shape)])
            shared[number] = (sizes, layout(shape, strides, dtype.itemsize), dtype, *rest)
        return modes_of, tuple(shared)

    def opened(self, key: Any, values: Values) -> Opened:
        """The inputs of a call with this key."""
        scalars = self.owner.derived(values)
        shapes = {}
        for number, axes in self.axes.items():
            sizes, strides, dtype, *_ = key[1][number]
            shape = tuple([scalars.adopt(axes.get(axis, size)) for axis, size in enumerate(sizes)])
            lies = layout(sizes, strides, dtype.itemsize)
            shapes[number] = shape, strides_of(shape, dtype.itemsize, *lies)
        numbers = {number: scalars.adopt(value) for number, value in self.numbers.items()}
        return Opened(scalars, {**self.sources}, numbers, shapes)


def open_sizes(graph: Graph) -> OpenSizes | None:
    """What is open: sizes, and whole numbers among the inputs, that follow from those which are symbols."""
    metas: list[Any] = [node.meta.get("val") for node in graph.placeholders]
    wholes: dict[int, Any] = {n: value for n, value in enumerate(metas) if isinstance(value, Sym)}
    owner: Scalars | None = next((value.owner for value in wholes.values()), None)
    numbers: dict[int, Any] = {}
    sources: Values = {}
    for number, value in wholes.items():
        expression = value.expression
        if expression.op == "symbol" and expression.kind is int and is_open(owner, value):
            sources.setdefault(expression.args[0], number)
    for number, value in wholes.items():
        whole, known = value.expression.kind is int, value.expression.symbols <= sources.keys()
        if whole and known and is_open(owner, value):
            numbers[number] = value
    axes: dict[int, dict[int, Any]] = {}
    for number, value in enumerate(metas):
        sizes = value.array.shape if is_tensor(value) else ()
        found = {
            axis: size
            for axis, size in enumerate(sizes)
            if isinstance(size, Sym) and is_open(owner, size) and size.expression.symbols <= sources.keys()
        }
        if found:
            axes[number] = found
    return None if owner is None or not sources else OpenSizes(owner, numbers, axes, sources)


def has_sizes(graph: Graph) -> bool:
    """Whether sizes or whole numbers among a graph's inputs are symbolic, or numbers of Python's."""
    for node in graph.placeholders:
        value: Any = node.meta.get("val")
        found = value.array.shape if is_tensor(value) else (value,)
        if any(isinstance(each, Sym) and each.expression.kind is int for each in found):
            return True
        if type(value) is int:
            return True
    return False


def is_open(owner: Scalars | None, value: Sym) -> bool:
    """Whether a number is an open one of this owner's, and known while tracing."""
    expression: Expression = value.expression
    known = owner is not None and value.owner is owner and owner.tells(expression)
    return known and not expression.symbols <= value.owner.settled


def layout(
    shape: Sequence[int], strides: Sequence[int], itemsize: int
) -> tuple[tuple[int, ...], tuple[int | None, ...]]:
    """How elements lie, whatever the sizes are: the axes, innermost first, and strides that do not follow
    from the extent of the axes inside, in bytes."""
    order = tuple(sorted(range(len(shape)), key=lambda axis: (strides[axis], -axis)))
    own: list[int | None] = [None] * len(order)
    extent = itemsize
    for axis in order:
        follows = strides[axis] == extent
        if not follows:
            own[axis] = strides[axis]
        if follows or (shape[axis] != 1 and strides[axis]):
            extent = strides[axis] * shape[axis]
    return order, tuple(own)


def strides_of(
    shape: Sequence[Any], itemsize: int, order: Sequence[int], own: Sequence[int | None]
) -> tuple[Any, ...]:
    """The strides of such elements, for these sizes."""
    strides: list[Any] = list(own)
    extent: Any = itemsize
    for axis in order:
        given = own[axis]
        if given is None:
            strides[axis] = extent
        if given is None or (given and not (type(shape[axis]) is int and shape[axis] == 1)):
            extent = strides[axis] * shape[axis]
    return tuple(strides)


# -- at a call's sizes ---------------------------------------------------------------------------------------
def is_symbolic(value: Any) -> bool:
    """Whether a value holds a symbolic number."""
    if type(value) is slice:
        return is_symbolic((value.start, value.stop, value.step))
    if isinstance(value, (tuple, list)):
        return any(map(is_symbolic, value))
    return isinstance(value, Sym)


def at(value: Any, values: Values) -> Any:
    """A value with numbers in place of symbolic ones."""
    if isinstance(value, Sym):
        return value.expression.evaluate(values)
    if type(value) is slice:
        return slice(*[at(part, values) for part in (value.start, value.stop, value.step)])
    if isinstance(value, (tuple, list)) and is_symbolic(value):
        return type(value)([at(item, values) for item in value])
    return value


def facts_hold_sizes(facts: Facts) -> bool:
    """Whether anything in facts depends on open sizes."""
    views = [output for output in facts.outputs if isinstance(output, ViewOf)]
    steps = [step.rest for output in views for step in output.steps]
    return is_symbolic([[made.strides for made in facts.values], steps])


def facts_at(facts: Facts, values: Values) -> Facts:
    """Facts for one call's sizes."""

    def step_at(step: Step) -> Step:
        return replace(step, rest=at(step.rest, values))

    outputs = [
        replace(output, steps=tuple(map(step_at, output.steps))) if isinstance(output, ViewOf) else output
        for output in facts.outputs
    ]
    made = [replace(each, strides=at(each.strides, values)) for each in facts.values]
    return replace(facts, values=made, outputs=outputs)
