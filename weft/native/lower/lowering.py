"""Lowering: a graph of pure ops as definitions.

Takes a graph whose nodes know their types; gives the definitions of its outputs. One idea: what an op is
follows from its record: pointwise ops have `emit`, views are found out by looking at what their kernel does
to strides, folds and their kin stand in a table; whatever is left is called as it is.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import field
from functools import cache, partial
from types import SimpleNamespace
from typing import Any, Final, Literal, cast

import numpy as np
from numpy.lib.stride_tricks import as_strided

from weft.core.dtypes import BY_NUMPY
from weft.core.generator import Generator
from weft.core.interrupts import let_through
from weft.core.lazy import load
from weft.core.records import record
from weft.core.requirements import require
from weft.core.settings import settings
from weft.core.symbolic import Symbolic
from weft.core.types import TensorType
from weft.graph.effects import can_fail, effect
from weft.graph.graph import Graph
from weft.graph.node import Node
from weft.native.ir.definitions import (
    Definition,
    Given,
    Number,
    Opaque,
    Point,
    Shape,
    broadcast,
    marked,
    permuted,
    reshaped,
    sliced,
    view,
)
from weft.native.ir.scalar import FLOATS, HALVES, NAMES, TYPES, Builder, Value
from weft.native.ir.sizes import Amount, Asked, Size, Unsettled, broadcast_shape, hint, is_open
from weft.native.lower import bitwise
from weft.native.lower.calls import Unlowered as Unlowered
from weft.native.lower.calls import bound_arguments, is_op, op_of
from weft.native.lower.draws import GENERATOR, Drawn, Stream, blocks_of, sampled
from weft.native.lower.halves import (
    by_half,
    has_half,
    in_half,
    narrowed,
    rounded_places,
    stepping,
    widened,
    widened_result,
)
from weft.native.lower.layouts import Layouts, dense, order_of, row_major
from weft.native.lower.looked import looked_at
from weft.native.lower.numbers import checked, computed, given_number, held_by
from weft.native.lower.numbers import read as read_number
from weft.native.lower.opening import Fixed, Opened, open_strides
from weft.native.plan.units import Indices, Inlining
from weft.native.target import Target
from weft.ops.record import REGISTRY, Kind, Op, ops

Lowered = Any
"""A definition, a tuple of them, or a number."""


NUMBER: Final = "number"
"""The type of what is no tensor: a number that only running tells."""
NUMERIC: Final = frozenset({"_operator", "operator", "math"})
NUMBERS: Final = {"f64": 1.0, "i64": 1, "b1": True}
"""A number of Python's for each type that one has in memory, for rules of types."""
MAKERS: Final = ("tensor", "as_tensor", "asarray", "scalar_tensor")
"""Functions that make tensors of numbers, by name."""
BUILT_IN: Final = frozenset({abs, bool, divmod, float, int, max, min, pow, round, sum})
"""Where functions of numbers come from."""


@record(slots=True)
class Call:
    """A call of an op's own array kernel."""

    op: Callable[..., Any]
    bound: tuple[Any, ...]
    """Its arguments; `Operand` stands for arrays, and for numbers that only running tells."""


@record(frozen=True, slots=True)
class Operand:
    number: int


@record(slots=True)
class LoweredGraph:
    """The definitions of a graph."""

    inputs: list[Node]
    outputs: list[Any] = field(default_factory=list)
    """Definitions, or numbers and None as they are."""
    checks: list[Definition] = field(default_factory=list)
    """Dead values whose computation may raise."""
    failures: list[Definition] = field(default_factory=list)
    """Truths of one element: where one holds, the program must not go on."""
    constants: dict[str, Any] = field(default_factory=dict)
    draws: list[tuple[Any, int]] = field(default_factory=list)
    """From which generator, and how many counter blocks: see `weft.native.program.drawing`."""


Rule = Callable[..., Lowered]
RULES: Final[dict[str, Rule]] = {}
"""How ops become definitions, by name; see `rule`."""
NUMBERS_WELCOME: Final[dict[str, str]] = {}
"""Which numbers that only running tells these rules take."""


def rule(*names: str, numbers: Literal["", "floats", "all"] = "") -> Callable[[Rule], Rule]:
    """Decorator: how these ops become definitions. It gets the lowering and all parameters of the op, with
    definitions for tensors (and for `numbers` that only running tells), and may raise Unlowered.
    """

    def register(function: Rule) -> Rule:
        for name in names:
            if name not in REGISTRY:
                raise KeyError(f"there is no op {name}")
            RULES[name], NUMBERS_WELCOME[name] = function, numbers
        return function

    return register


def rule_of(name: str) -> Rule | None:
    """How an op becomes definitions, if there is a rule for it. Its file is loaded for that, and waited for
    where another thread loads it: rules are known before what they call is.
    """
    op = REGISTRY.get(name)
    if op is not None and op.lowering is not None:
        load(f"weft.native.lower.{op.lowering}")
    return RULES.get(name)


def type_name(kind: Any) -> str:
    """The name of a dtype in bodies. Raises Unlowered for those that bodies do not know."""
    name = NAMES.get(np.dtype(kind))
    if name is None:
        raise Unlowered(f"kernels have no dtype {kind}")
    return name


class Lowering:
    """One graph."""

    def __init__(
        self, graph: Graph, arrays: Sequence[Any], target: Target, opened: Opened | None = None
    ) -> None:
        self.graph, self.arrays, self.target, self.opened = graph, arrays, target, opened
        self.values: dict[Node, Lowered] = {}
        self.definitions = LoweredGraph(list(graph.placeholders))
        for number, (node, array) in enumerate(zip(self.definitions.inputs, arrays)):
            self.values[node] = self.given(number, array)
        self.node: Node | None = None
        self.op: Any = None
        self.gives_halves = False
        """Whether the op gives halves, which its rule computes in float32."""
        self.half = ""
        """The half type that a pointwise op computes with, if it does."""
        self.seeds = Given(shape=(0,), type="u64", name="seeds", input=len(arrays))
        self.costs: dict[Any, int] = {}
        self.layouts = Layouts(dict(zip(map(self.settled, self.definitions.inputs), arrays)))

    def settled(self, node: Node) -> Node:
        """A node with the sizes of this call, if they are open."""
        return node if self.opened is None else self.opened.settled[node]

    def given(self, number: int, array: Any) -> Lowered:
        if isinstance(array, Generator):
            return Stream(number)
        if isinstance(array, Fixed):
            return array.value
        if not isinstance(array, np.ndarray):
            if self.opened is not None and is_open(self.definitions.inputs[number].meta.get("val")):
                return self.definitions.inputs[number].meta["val"]
            return given_number(number) if type(array) is float else array
        item = array.itemsize
        shape: Shape = array.shape
        strides = None if array.flags.c_contiguous else tuple([stride // item for stride in array.strides])
        if self.opened is not None and is_open(self.definitions.inputs[number].meta["val"].array.shape):
            shape = tuple(self.definitions.inputs[number].meta["val"].array.shape)
            strides = open_strides(array, shape)
        made = Given(
            shape=shape,
            type=NAMES.get(array.dtype, str(array.dtype)),
            name=f"input {number}",
            input=number,
            strides=strides,
        )
        return made

    def run(self, attribute: Callable[[str], Any]) -> LoweredGraph:
        read = surely_read(self.graph)
        for node in self.graph.nodes:
            self.node = node
            if node.op == "get_attr":
                self.values[node] = self.constant(attribute(node.target))
            elif node.op == "output":
                self.definitions.outputs = self.outputs(node.args[0])
            elif node.op != "placeholder":
                self.values[node] = made = self.call(node)
                marked(made, node.meta.get("source") or ())
                if node not in read and self.is_checked(node):
                    several = made if isinstance(made, (tuple, list)) else [made]
                    self.definitions.checks += [each for each in several if isinstance(each, Opaque)][:1]
        return self.definitions

    def is_checked(self, node: Node) -> bool:
        """Whether a dead node is to be computed all the same."""
        settled = self.settled(node)
        return can_fail(settled) or (not node.users and self.graph.impure(settled))

    def strides_of(self, node: Node, shape: Shape) -> Shape:
        """The strides of eager's tensor; of one with open sizes, their order is settled."""
        settled = self.settled(node)
        strides: Shape = self.layouts.of(settled)
        if self.opened is None or not is_open(shape):
            return strides
        known = tuple(settled.meta["val"].array.shape)
        if strides == row_major(known):
            return row_major(shape)
        if 0 in known and not any(strides):  # as NumPy has those of arrays without elements
            return strides
        still = [n > 1 and not step for n, step in zip(known, strides)]  # axes whose elements are one
        moving = tuple([1 if own else n for own, n in zip(still, known)])
        order = order_of(moving, strides)
        found = dense(moving, order)
        array = node.meta["val"].array
        if array.exact and any(step != other for own, step, other in zip(still, strides, found) if not own):
            return gaps(array, strides)
        found = dense(tuple([1 if own else n for own, n in zip(still, shape)]), order)
        return tuple([0 if own else step for own, step in zip(still, found)])

    def outputs(self, nodes: Sequence[Any]) -> list[Any]:
        """The values of outputs, in the order in which eager's lie in memory."""
        found: list[Any] = []
        written = {output for _, output in self.graph.meta.get("written", ())}
        for number, node in enumerate(nodes):
            value = self.argument(node)
            found.append(value)
            if not isinstance(value, Definition) or isinstance(value, Given) or not value.shape:
                continue
            strides = self.strides_of(node, value.shape)
            if strides == row_major(value.shape):
                continue
            if not value.size:
                made = np.ndarray(value.shape, numpy_type(value.type))
                found[-1] = Given(shape=value.shape, type=value.type, name="nothing", constant=made)
            elif value.type in TYPES:
                found[-1] = turned(value, strides, number not in written)
        return found

    def constant(self, array: Any) -> Lowered:
        if not isinstance(array, np.ndarray):
            return array
        made = np.ascontiguousarray(array)
        kind = NAMES.get(made.dtype, str(made.dtype))
        return Given(shape=made.shape, type=kind, name="constant", constant=made)

    def argument(self, value: Any) -> Any:
        if isinstance(value, Node):
            return self.values[value]
        if isinstance(value, (tuple, list)):
            return type(value)([self.argument(item) for item in value])
        return value

    # -- calls -----------------------------------------------------------------------------------------------
    def call(self, node: Node) -> Lowered:
        args, kwargs = self.argument(node.args), {k: self.argument(v) for k, v in node.kwargs.items()}
        if node.target is operator.getitem:
            return args[0][args[1]]
        if not is_op(node):
            return self.outside(node, args, kwargs)
        op = op_of(node)
        bound = bound_arguments(op, args, kwargs)
        result = node.meta["val"]
        if effect(self.settled(node)).random:
            return self.drawn(op, bound, result)
        if settings.bitwise:
            return self.in_eagers_bits(op, bound, result)
        try:
            return unless_empty(self.lowered(op, bound, result), result)
        except (Unlowered, Asked):
            return self.opaque(op, bound, result)

    def in_eagers_bits(self, op: Op, bound: tuple[Any, ...], result: Any) -> Lowered:
        """As machine code where that has the bits of the array kernel, else this."""
        failures = len(self.definitions.failures)
        try:
            made = unless_empty(self.lowered(op, bound, result), result)
            if bitwise.gives_eagers_bits(op, made, bound):
                return made
        except Unlowered:
            pass
        del self.definitions.failures[failures:]
        made = self.opaque(op, bound, result)
        assert self.node is not None
        nodes = bound_arguments(op, self.node.args, self.node.kwargs)
        wanted = [bitwise.strides_wanted(each, self.layouts.of) for each in nodes]
        if any(each is not None for each in wanted):
            for each in bitwise.definitions_in([made]):
                cast(Opaque, each).call.op = bitwise.lying_as(op, wanted)
        return made

    def drawn(self, op: Op, bound: tuple[Any, ...], result: Any) -> Lowered:
        """Random numbers, which are drawn when the program begins, in the order of the graph."""
        if op.stream is None:
            raise Unlowered(f"{op.name}: random numbers that programs cannot draw")
        names = op.signature.names
        slot = names.index(GENERATOR)
        stream = bound[slot]
        blocks = blocks_of(op.stream, dict(zip(names, bound, strict=True)), result.array)
        if type(blocks) not in (int, Size):
            raise Unlowered("a count of random numbers that is known only at run time")
        number, source = len(self.definitions.draws), stream.number if isinstance(stream, Stream) else stream
        self.definitions.draws.append((source, blocks))
        self.seeds.shape = (2 * number + 2,)
        given = [*bound]
        given[slot] = Drawn(self.target, self.seeds, number, result.array.dtype)
        try:
            return unless_empty(self.lowered(op, tuple(given), result), result)
        except Unlowered:
            given[slot] = self.seeds
            made = self.opaque(op, tuple(given), result)
            made.call.op = sampled(op, slot, number)
            return made

    def outside(self, node: Node, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Lowered:
        """What is no op: numbers that are read from tensors, arithmetic on them, checks, tensors made of
        them. Numbers of which none is read from a tensor are known here.
        """
        function = node.target
        result = node.meta.get("val")
        tensor = getattr(result, "array", None)
        if hasattr(function, "on_arrays") and not effect(self.settled(node)).random and not kwargs:
            return self.opaque(function.on_arrays, args, result, str(node.name))
        if node.op == "call_method" and function == "item":
            function = np.ndarray.item
        elif node.op != "call_function" or not (
            function is require
            or getattr(function, "__module__", "") in NUMERIC
            or function in BUILT_IN
            or (tensor is not None and getattr(function, "__name__", "") in MAKERS)
        ):
            raise Unlowered(f"a call of {node.target}")
        made = self.on_numbers(function, args, kwargs)
        if made is None and tensor is not None and len(args) == 1 and not kwargs:
            made = held_by(args[0], tensor)
        if made is not None:
            return made
        operands: list[Definition] = []
        numbered = partial(collected, operands)
        given = [numbered(value) for value in args]
        reading = function is np.ndarray.item or function is require
        if any(each.type != NUMBER and not isinstance(each, Number) for each in operands) and not reading:
            raise Unlowered(f"a call of {node.target} on a tensor")
        if tensor is not None:
            call = Call(lambda *values: function(*values, **kwargs).array, tuple(given))
            kind = NAMES.get(tensor.dtype, str(tensor.dtype))
            return Opaque(shape=tuple(tensor.shape), type=kind, name="tensor", call=call, operands=operands)
        if not operands and function is not require:
            return function(*args, **kwargs)
        call = Call(partial(function, **kwargs) if kwargs else function, tuple(given))
        return Opaque(shape=(), type=NUMBER, name=str(node.name), call=call, operands=operands)

    def on_numbers(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A function of numbers that machine code computes; None where there is none."""
        if kwargs:
            return None
        if function is np.ndarray.item and len(args) == 1 and isinstance(args[0], Definition):
            return read_number(args[0])
        if checked(function, args, self.definitions.failures):
            return ()
        return computed(function, args, self.definitions.failures)

    def lowered(self, op: Op, bound: tuple[Any, ...], result: Any) -> Lowered:
        """Definitions of what an op gives. On halves it computes in float32, and rounds what it gives."""
        self.gives_halves, self.half = has_half(result), ""
        if op.kind is Kind.VIEW or op.reshapes or not (has_half(bound) or self.gives_halves):
            return self.plainly(op, bound, result)
        self.half = computed_half(op, bound)
        node = self.node
        assert node is not None
        self.node = cast(Any, SimpleNamespace(meta={"val": widened_result(result)}, users=node.users))
        try:
            made = self.plainly(op, widened(bound), result)
        finally:
            self.node, self.half = node, ""
        return narrowed(made, result)

    def plainly(self, op: Op, bound: tuple[Any, ...], result: Any) -> Lowered:
        flat = [item for v in bound for item in (v if isinstance(v, (tuple, list)) else (v,))]
        numbers = any(isinstance(item, Number) for item in flat)
        for item in flat:
            if isinstance(item, Definition):
                type_name_of(item)
        self.op = op
        known = rule_of(op.qualified_name)
        if known is not None:
            whole = any(isinstance(item, Number) and item.type == "i64" for item in flat)
            welcome = NUMBERS_WELCOME.get(op.qualified_name, "")
            if (numbers and not welcome) or (whole and welcome != "all"):
                raise Unlowered(f"{op.name} of a scalar that is known only at run time")
            return known(self, *bound)
        if op.kind is Kind.POINTWISE and op.emit is not None and op.promotion is not None:
            return self.pointwise(op, bound)
        if op.kind is Kind.VIEW:
            return self.looked_at(op, bound)
        raise Unlowered(op.name)

    def opaque(
        self, op: Callable[..., Any], bound: tuple[Any, ...], result: Any, name: str | None = None
    ) -> Lowered:
        """The op's own kernel, on arrays; of what is no op, a function of arrays, and a name."""
        operands: list[Definition] = []
        call = Call(op, tuple([collected(operands, value) for value in bound]))
        several = isinstance(result, (tuple, list))
        made = []
        for number, value in enumerate(result if several else (result,)):
            array = getattr(value, "array", None)
            if array is None and not isinstance(value, Symbolic):
                made.append(value)
                continue
            kind = NUMBER if array is None else NAMES.get(array.dtype, str(array.dtype))
            made.append(
                Opaque(
                    shape=() if array is None else tuple(array.shape),
                    type=kind,
                    name=cast(Op, op).name if name is None else name,
                    call=call,
                    operands=operands,
                    number=number,
                )
            )
        return tuple(made) if several else made[0]

    # -- pointwise -------------------------------------------------------------------------------------------
    def pointwise(self, op: Op, bound: tuple[Any, ...], divides: bool = False) -> Definition:
        """`emit` on the elements, in the dtype that the op computes in. It may divide ints by anything where
        zeros are somebody else's business.
        """
        slots = [slot for slot in op.signature.tensor_slots if bound[slot] is not None]
        others = [i for i, v in enumerate(bound) if isinstance(v, Definition) and i not in slots]
        if not all(isinstance(bound[i], Number) for i in others):
            raise Unlowered(f"{op.name} with a tensor as a scalar argument")
        half = self.half
        rounded = rounded_places(op, bound) if half else ()
        bound = tuple([in_half(v, half) if i in rounded else v for i, v in enumerate(bound)])
        operands = [bound[slot] for slot in slots]
        bare = [slot for slot in slots if not isinstance(bound[slot], Definition)]
        numbers = frozenset(bare + [slot for slot in slots if isinstance(bound[slot], Number)])
        types = [as_type(value) for value in operands]
        assert op.promotion is not None
        compute, result = op.promotion.dtypes(types)
        inner, outer = type_name(compute.numpy), type_name(result.numpy)
        whole = [i for i, v in enumerate(bound) if isinstance(v, Number) and v.type == "i64"]
        if whole and (half or inner not in FLOATS or not {*whole} <= {*slots}):
            raise Unlowered(f"{op.name} of an int that is known only at run time")
        tensors = [value for value in operands if isinstance(value, Definition)]
        shapes = {value.shape for value in tensors}
        shape = shapes.pop() if len(shapes) == 1 else broadcast_shape([*shapes])

        def make(builder: Builder, values: list[Value], _place: Any) -> Value:
            given = iter(values)
            full = list(bound)
            for slot in slots:
                value = bound[slot]
                if isinstance(value, Definition):
                    found = next(given)
                    found = by_half(builder, found, half) if slot in rounded else found
                    full[slot] = builder.cast(found, inner)
                else:
                    full[slot] = number(builder, value, inner)
            for place in others:
                found = next(given)
                full[place] = by_half(builder, found, half) if place in rounded else found
            builder.divides, builder.numbers, builder.half = divides, numbers, half
            with np.errstate(all="ignore"):
                made = op.emit(stepping(op, builder, half), *full)
            if made is NotImplemented:
                raise Unlowered(f"{op.name} of {inner}")
            return builder.cast(made, outer)

        tensors += [bound[place] for place in others]
        key = (op, inner, outer, divides, half, *[known(value) for value in bound])
        cost = self.costs.get(key) if None not in key else None
        try:
            cost = self.costs[key] = tried(make, tensors) if cost is None else cost
        except (TypeError, AttributeError, ValueError) as error:
            let_through(error)
            if not others:
                raise
            raise Unlowered(f"{op.name} of a scalar that is known only at run time: {error}") from None
        return point(make, tuple(shape), outer, tensors, op.name, cost)

    # -- views -----------------------------------------------------------------------------------------------
    def looked_at(self, op: Op, bound: tuple[Any, ...]) -> Lowered:
        """A view, by what the op's kernel does to an array that moves along one axis only."""
        base = bound[0]
        if op.reshapes:
            raise Unlowered(op.name)
        if is_open((*base.shape, *bound[1:])):
            return self.seen(op, base, bound[1:])
        results = [self.probe(op, base.shape, axis, bound[1:]) for axis in range(len(base.shape))]
        if not results:
            results = []
            made = self.probe(op, base.shape, None, bound[1:])
            return self.from_probes(base, [], made)
        return self.from_probes(base, results, results[0])

    def seen(self, op: Op, base: Definition, rest: tuple[Any, ...]) -> Lowered:
        """A view whose sizes only a call knows."""
        try:
            probes, several = looked_at(op, base.shape, rest)
        except (AttributeError, TypeError, ValueError) as error:
            let_through(error)
            raise Unlowered(f"{op.name} with sizes that only a call knows: {error}") from None
        return self.from_probes(
            base, [(each, several) for each in probes] if base.shape else [], (probes[0], several)
        )

    def probe(self, op: Op, shape: Shape, axis: int | None, rest: tuple[Any, ...]) -> Any:
        """What the kernel gives: views of which the strides and the start tell the map."""
        start = np.zeros(1, np.int8)
        strides = tuple([int(i == axis) for i in range(len(shape))])
        dummy = as_strided(start, shape, strides, writeable=False)
        assert op.kernel is not None
        try:
            made = op.kernel(dummy, *rest)
        except (RuntimeError, TypeError, ValueError) as error:  # it looks at more than where elements lie
            let_through(error)
            raise Unlowered(f"{op.name}: {error}") from None
        origin = start.__array_interface__["data"][0]
        return [
            (each.shape, each.strides, each.__array_interface__["data"][0] - origin)
            for each in (made if isinstance(made, (tuple, list)) else (made,))
        ], isinstance(made, (tuple, list))

    def from_probes(self, base: Definition, probes: list[Any], first: Any) -> Lowered:
        views = []
        for number, (shape, _strides, _start) in enumerate(first[0]):
            offsets = tuple([probe[0][number][2] for probe in probes])
            steps = [tuple(probe[0][number][1]) for probe in probes]
            views.append(view(base, tuple(shape), offsets, steps))
        return tuple(views) if first[1] else views[0]


def collected(operands: list[Definition], value: Any) -> Any:
    """An argument of a call, its definitions put among the operands."""
    if isinstance(value, Definition):
        operands.append(value)
        return Operand(len(operands) - 1)
    if isinstance(value, (tuple, list)):
        return type(value)([collected(operands, item) for item in value])
    return value


def computed_half(op: Op, bound: tuple[Any, ...]) -> str:
    """The name of the half type that a pointwise op computes with; empty where it does not."""
    if op.kind is not Kind.POINTWISE or op.promotion is None:
        return ""
    operands = [as_type(bound[slot]) for slot in op.signature.tensor_slots if bound[slot] is not None]
    name = NAMES.get(op.promotion.dtypes(operands)[0].numpy, "")
    return name if name in HALVES else ""


def as_type(value: Any) -> Any:
    """An operand as type rules know it."""
    if isinstance(value, Number):
        return NUMBERS[value.type]
    if type(value) is Size or type(value) is Amount:
        return value.hint  # types do not depend on it
    if isinstance(value, Definition) and value.type == NUMBER:
        raise Unlowered("a scalar that Python computes")
    if isinstance(value, Definition):
        return TensorType(value.shape, dtype_of_name(value.type))
    return value


@cache
def dtype_of_name(name: str) -> Any:
    found = next((kind for kind, known in NAMES.items() if known == name), None)
    return BY_NUMPY[np.dtype(name) if found is None else found]


def numpy_type(name: str) -> Any:
    return TYPES.get(name) or np.dtype(name)


def surely_read(graph: Graph) -> set[Node]:
    """The live nodes: some element of the outputs depends on them. Others are dead, such as what is computed
    from an empty tensor."""
    read: set[Node] = set()
    for node in reversed(list(graph.nodes)):
        if node.op == "output" or node in read:
            read.update([used for used in node.all_input_nodes if not is_empty(used.meta.get("val"))])
    return read


def is_empty(value: Any) -> bool:
    """Whether a value is a tensor without elements, or some of them."""
    if isinstance(value, (tuple, list)):
        return bool(value) and all(map(is_empty, value))
    array = getattr(value, "array", None)
    return array is not None and 0 in array.shape


def unless_empty(value: Lowered, result: Any) -> Lowered:
    """The lowered value; an empty buffer for an empty tensor (for which a rule may give None): kernels have
    no loops with trip count 0.
    """
    if isinstance(value, tuple):
        return tuple([unless_empty(item, part) for item, part in zip(value, result)])
    array = getattr(result, "array", None)
    if array is None or 0 not in array.shape:
        return value
    kind = NAMES.get(array.dtype, str(array.dtype))
    made = np.zeros(tuple(array.shape), array.dtype)
    return Given(shape=made.shape, type=kind, name="nothing", constant=made)


def type_name_of(value: Definition) -> str:
    """The type of a definition, if bodies know it."""
    if value.type not in TYPES:
        raise Unlowered(f"kernels have no dtype {value.type}")
    return value.type


def gaps(array: Any, strides: Shape) -> Shape:
    """The strides of a result between whose elements others lie: those that its type says."""
    found: Shape = tuple([step // array.dtype.itemsize for step in array.strides])
    if hint(found) != strides:
        raise Unsettled("a result with gaps whose sizes only a call knows")
    return found


def number(builder: Builder, value: Any, type_: str) -> Value:
    """A number of a call, as eager ops cast it: ints wrap."""
    if type(value) is Size or type(value) is Amount:
        return builder.const(value, type_)
    if isinstance(value, (complex, np.complexfloating)):
        raise Unlowered("a complex scalar")
    array = np.asarray(value)
    if array.dtype == object:
        raise Unlowered("an int of more than 64 bits")
    with np.errstate(all="ignore"):
        return builder.const(array.astype(TYPES[type_]).item(), type_)


COSTS: Final = {"const": 0, "load": 0, "index": 0, "div": 4, "rem": 20, "sqrt": 4, "call": 20}


def known(value: Any) -> Any:
    """What the cost of a body may depend on, of one of its arguments; None where that is not known."""
    if isinstance(value, Definition):
        return value.type
    if type(value) is Size or type(value) is Amount:
        return type(value)
    plain = value is None or type(value) in (int, float, bool, str)
    return (type(value), repr(value)) if plain else None


def tried(make: Callable[[Builder, list[Value], Any], Value], operands: Sequence[Definition]) -> int:
    """What a body costs, roughly: the number of its instructions. Raises Unlowered where there is none: the
    numbers of this call may not fit, or a function that it needs may be missing from the builder.
    """
    builder = Inlining(Indices(()), [], lambda _: False, lambda *_: None).builder
    values = [builder.load(place, each.type) for place, each in enumerate(operands)]
    try:
        make(builder, values, lambda axis: builder.make("index", "i64", value=axis))
    except AttributeError as error:
        if error.obj is not builder:
            raise
        raise Unlowered(f"kernels have no instruction {error.name}") from None
    except OverflowError as error:
        let_through(error)
        raise Unlowered(str(error)) from None
    return sum(COSTS.get(each.op, 1) for each in builder.instructions)


def point(
    make: Callable[[Builder, list[Value], Any], Value],
    shape: Shape,
    type_: str,
    operands: Sequence[Definition],
    name: str,
    cost: int = 1,
) -> Definition:
    """A pointwise definition; operands are brought to its shape."""
    given = [broadcast(each, shape) for each in operands]
    return Point(shape=shape, type=type_, name=name, make=make, operands=given, cost=cost)


def turned(value: Definition, strides: Shape, spread: bool) -> Definition:
    """A copy that lies as these strides say, without gaps: axes from the outermost to the innermost. Where
    all elements along an axis share one, it may be stored once.
    """
    still = [axis for axis, n in enumerate(value.shape) if spread and n > 1 and not strides[axis]]
    looked = value
    for axis in still:
        looked = sliced(looked, axis, 0, 1, 1)
    order = order_of(looked.shape, strides)
    without_gaps = dense(looked.shape, order)
    kept = [axis for axis, n in enumerate(value.shape) if n == 1 or axis in still]  # where nothing moves
    shown = tuple([strides[axis] if axis in kept else step for axis, step in enumerate(without_gaps)])
    if shown == row_major(value.shape):
        return value
    looked = permuted(looked, order)
    made = point(lambda _b, v, _p: v[0], looked.shape, value.type, (looked,), "copy")
    made.shown = value.shape, shown
    return made


@rule("view", "reshape", "_unsafe_view")
def _reshape(lowering: Lowering, base: Definition, shape: Any, *_: Any) -> Definition:
    result: Any = lowering.node.meta["val"] if lowering.node is not None else None
    if result.dtype.numpy != np.dtype(result.array.dtype) or type_name(result.array.dtype) != base.type:
        raise Unlowered("a view as another dtype")
    node = lowering.node
    if node is not None and is_op(node) and op_of(node) is ops.view:
        settled = lowering.settled(node)
        if not lowering.layouts.allows_view(settled.args[0], settled.meta["val"].array.shape):
            always = point(lambda b, _v, _p: b.const(1, "b1"), (), "b1", (), "not viewable")
            lowering.definitions.failures.append(always)
    return reshaped(base, tuple(result.array.shape))
