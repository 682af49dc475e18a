"""Control-flow functions in captured code: `cond`, `while_loop`, `scan` and `map` with sub-graphs.

Takes a call whose functions are the user's; gives one node, whose parameters are a graph per function. One
idea: each function is interpreted once, into a graph of its own; the tensors it closes over become operands
behind those that were given, so that the sub-graphs stand alone.

# Note [Sub-graphs]
    weft.cond(p, lambda x: x * w, lambda x: x - 1, (x,))

    cond_true_0 = self.cond_true_0        (x, w) -> (x * w,)
    cond_false_0 = self.cond_false_0      (x, w) -> (x - 1,)
    cond = weft.cond(p, cond_true_0, cond_false_0, (x, w))
    getitem = cond[0]
A function that changes anything outside of itself is a break: whether and how often it runs is not known. The
bodies of loops see their operands as tensors of unknown strides, since each round brings others.
"""

from __future__ import annotations

import functools
import operator
import types
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import field
from typing import TYPE_CHECKING, Any, Final

from weft.autograd import control_flow
from weft.autograd.shapes import typed
from weft.capture.calls import handles
from weft.capture.values import Args, Callback, CapturedGenerator, Kwargs, has_type
from weft.capture.world import ABSENT, items_of
from weft.capture.wrapping import SCALARS, SYMBOLIC
from weft.core import modes
from weft.core.dims import wrap_dim
from weft.core.records import record
from weft.core.trees import flatten
from weft.graph.effects import Effect, effect
from weft.graph.graph import Graph
from weft.graph.node import Node
from weft.tensor.base import Tensor, wrap
from weft.tensor.meta import MetaArray
from weft.trace.breaks import Break
from weft.trace.recorder import version

if TYPE_CHECKING:
    from weft.capture.machine import Machine


# -- what graphs call ----------------------------------------------------------------------------------------
def cond_with_numbers(pred: Any, true_graph: Any, false_graph: Any, operands: tuple[Any, ...]) -> Any:
    """`weft.cond` where some operands are numbers."""
    places = [place for place, value in enumerate(operands) if has_type(value, Tensor)]

    def filled(graph: Any) -> Callable[..., Any]:
        def branch(*tensors: Tensor) -> Any:
            values = list(operands)
            for place, tensor in zip(places, tensors, strict=True):
                values[place] = tensor
            return graph(*values)

        return branch

    tensors = tuple([operands[place] for place in places])
    return control_flow.cond(pred, filled(true_graph), filled(false_graph), tensors)


def while_loop(condition: Any, body: Any, carried: tuple[Any, ...], extra: tuple[Any, ...]) -> Any:
    """`weft.while_loop` whose functions take more operands, the same in each round."""
    return control_flow.while_loop(
        lambda *values: condition(*values, *extra)[0], lambda *values: body(*values, *extra), carried
    )


def scan(
    combine: Any,
    carried: tuple[Any, ...],
    xs: tuple[Any, ...],
    dim: int,
    reverse: bool,
    extra: tuple[Any, ...],
) -> Any:
    """`weft.scan` over leaves; the body gives the next carry and then the rows."""

    def step(carry: Any, row: Any) -> Any:
        results = combine(*carry, *row, *extra)
        return results[: len(carry)], results[len(carry) :]

    last, rows = control_flow.scan(step, carried, xs, dim=dim, reverse=reverse)
    return (*last, *rows)


# -- bodies --------------------------------------------------------------------------------------------------
@record(slots=True)
class Body:
    """A function of the user's as a graph: operands, then the tensors it closes over, as placeholders."""

    graph: Graph
    operands: list[Tensor]
    lifted: list[Any] = field(default_factory=list)
    leaves: list[Any] = field(default_factory=list)
    written: list[Tensor] = field(default_factory=list)
    """Tensors from outside that the function writes, where it may."""
    build: Callable[[list[Any]], Any] = field(default=lambda leaves: leaves)

    @property
    def shape(self) -> str:
        """The structure of the result, as text."""
        return repr(self.build([0 if has_type(leaf, Tensor) else leaf for leaf in self.leaves]))

    def tensors(self) -> list[Tensor]:
        return [leaf for leaf in self.leaves if has_type(leaf, Tensor)]

    def whole(self, result: Any) -> Any:
        """The result of the call, as the function would have given it, from what the node gives."""
        fresh = iter(result)
        return self.build([next(fresh) if has_type(leaf, Tensor) else leaf for leaf in self.leaves])


def interpret(
    machine: Machine,
    function: Any,
    args: Args,
    operands: list[Tensor],
    may_write: bool = False,
    once: bool = False,
) -> Body:
    """Captures a call of the function into a graph whose placeholders are these tensors. `once`: it runs at
    most once, there and then.
    """
    body = Body(Graph(), operands)
    versions: list[tuple[Tensor, int]] = [(tensor, version(tensor)) for tensor in operands]
    counts = {id(tensor): version(tensor) for tensor in machine.recorder.tensors()}

    def on_input(value: Any) -> Any:
        if has_type(value, Tensor):
            versions.append((value, counts.get(id(value), first_version(machine, value))))
        elif not has_type(value, SYMBOLIC):
            raise Break("higher-order-operands", seen=f"a {type(value).__name__} used by the function")
        body.lifted.append(value)
        return _placeholder(body.graph, machine, value)

    recorder = machine.recorder
    before, state = Picture(machine, function), modes.current()
    with recorder.nested(body.graph, on_input, numbers=once, checks=True):
        for tensor in operands:
            recorder.bind(tensor, _placeholder(body.graph, machine, tensor))
        result = machine.calls.call(function, args, {})
        body.leaves, body.build = machine.native(flatten, result)
        outputs = tuple([recorder.node(leaf) for leaf in body.tensors()])
        recorder.finish()
        body.graph.output(outputs)
    body.written = [one for one, count in versions if version(one) != count]
    if not same_modes(modes.current(), state) or (body.written and not may_write):
        raise Break("higher-order-effects", seen="a tensor or a mode from outside is changed")
    before.compare(machine)
    for leaf in body.leaves:
        if not (leaf is None or has_type(leaf, (Tensor, bool, int))):
            raise Break("higher-order-operands", seen=f"a {type(leaf).__name__} as result")
    return body


def first_version(machine: Machine, value: Tensor) -> int:
    """The version of a tensor that nothing was known of before the function read it."""
    known = machine.world.known.get(id(value))
    return version(value if known is None else known.original)


def same_modes(first: Any, second: Any) -> bool:
    return all(getattr(first, name) == getattr(second, name) for name in modes.Modes.__slots__)


def key_of(value: Any) -> Any:
    """What tells lifted values apart: a number that may vary is a new object each time."""
    return value.expression if has_type(value, SYMBOLIC) else id(value)


def _placeholder(graph: Graph, machine: Machine, value: Any) -> Node:
    source = machine.world.source_of(value)
    taken = [node.target for node in graph.placeholders]
    name = None if source is None else source.placeholder_name()
    if has_type(value, SYMBOLIC) and value.expression.op == "symbol":
        name = str(next(iter(value.expression.symbols)).name)
    return graph.placeholder(name if name and name not in taken else f"arg{len(taken)}_1", val=value)


def joined_graphs(machine: Machine, bodies: list[Body]) -> tuple[list[Any], list[Graph]]:
    """The tensors that any of the bodies closes over, and the graphs with all of these as placeholders."""
    lifted = {key_of(value): value for body in bodies for value in body.lifted}
    if len(bodies) == 1:
        return bodies[0].lifted, [bodies[0].graph]
    return list(lifted.values()), [
        _with_placeholders(machine, body, list(lifted.values())) for body in bodies
    ]


def _with_placeholders(machine: Machine, body: Body, lifted: list[Any]) -> Graph:
    graph = Graph()
    graph.subgraphs.update(body.graph.subgraphs)
    old = list(body.graph.placeholders)
    known = dict(zip([key_of(value) for value in (*body.operands, *body.lifted)], old, strict=True))
    places: dict[Node, Any] = {}
    for node in old[: len(body.operands)]:
        places[node] = graph.node_copy(node)
    for value in lifted:
        node = _placeholder(graph, machine, value)
        if key_of(value) in known:
            places[known[key_of(value)]] = node
    graph.output(graph.graph_copy(body.graph, places))
    return graph


def stand_in(value: Tensor, shape: tuple[Any, ...], tracked: bool = False) -> Tensor:
    """A fake for what a body is given: strides unknown, since every round brings another tensor."""
    array: Any = value.array
    return wrap(MetaArray(shape, array.dtype, None, array.device), tracked)


def result_of(kind: str, value: Tensor, other: Tensor, shape: Any, operands: list[Any]) -> Tensor:
    """The fake for a result of the call: of the type that the body gives, tracked as eager would have it."""
    array: Any = value.array
    second: Any = other.array
    exact = array.exact and second.exact and array.strides == second.strides and shape == array.shape
    strides = array.strides if exact else None
    fresh = wrap(MetaArray(shape, array.dtype, strides, array.device, exact))
    given = [operand for operand in operands if has_type(operand, Tensor)]
    (made,) = control_flow.joined(kind, [fresh], [*given, value, other])
    result: Tensor = made
    return result


def note_effect(node: Node, facts: Effect) -> None:
    """Says what a node does beside giving a value."""
    node.meta["effect"] = facts
    if facts.writes:
        node.meta["writes"] = facts.writes


def draws(nodes: Iterable[Node]) -> bool:
    """Whether one of these nodes draws random numbers."""
    return any(effect(node).random for node in nodes)


def append(
    machine: Machine,
    function: Any,
    name: str,
    parts: list[Any],
    results: list[Tensor],
    facts: Effect | None = None,
) -> tuple[Tensor, ...]:
    """The node of the call. `parts` are its arguments: tensors, structures of them, and graphs by name."""
    recorder = machine.recorder
    arguments = []
    for part in parts:
        if has_type(part, tuple) and len(part) == 2 and has_type(part[1], Graph):
            arguments.append(recorder.graph.subgraph(*part))
            arguments[-1].meta["source"] = machine.where()
        else:
            arguments.append(recorder.argument(part))
    node = recorder.graph.call_function(function, tuple(arguments), name=name)
    node.meta["val"] = tuple(results)
    node.meta["source"] = machine.where()
    recorder.bind_result(tuple(results), node, NO_CALL, [])
    if facts is not None:
        note_effect(node, facts)
    return tuple(results)


class _NoCall:
    tensors: tuple[Tensor, ...] = ()


NO_CALL: Final[Any] = _NoCall()
TRACKED: Final = "CondAutogradOpBackward"
LOOPED: Final = "WhileLoopAutogradOpBackward"


def tensors_only(word: str, tree: Any) -> list[Tensor]:
    leaves = flatten(tree)[0]
    for leaf in leaves:
        if not has_type(leaf, Tensor):
            raise Break("higher-order-operands", seen=f"a {type(leaf).__name__} among {word}")
    return leaves


def parameters(names: tuple[str, ...], args: Args, kwargs: Kwargs, **defaults: Any) -> list[Any]:
    given = {**defaults, **dict(zip(names, args)), **kwargs}
    if len(args) > len(names) or set(given) != {*names, *defaults}:
        raise Break("library-callback", seen="a control-flow function with other arguments")
    return [given[name] for name in (*names, *(key for key in defaults if key not in names))]


# -- handlers ------------------------------------------------------------------------------------------------
@handles(control_flow.cond)
def cond(machine: Machine, args: Args, kwargs: Kwargs) -> Any:
    names = ("pred", "true_fn", "false_fn", "operands")
    pred, true_fn, false_fn, operands = parameters(names, args, kwargs, operands=())
    if not has_type(pred, Tensor):
        if not has_type(pred, (bool, int, float, *SYMBOLIC)):
            machine.native(control_flow.cond, pred, true_fn, false_fn, operands)
        return machine.calls.call(true_fn if machine.operators.truth(pred) else false_fn, tuple(operands), {})
    machine.native(control_flow._checked_operands, pred, callable, callable, operands)
    leaves = tensors_only("operands", operands)
    inner = tuple(machine.iterators.items(operands))
    bodies = [interpret(machine, function, inner, leaves) for function in (true_fn, false_fn)]
    first, second = bodies
    types_given = [[typed(leaf) for leaf in body.leaves] for body in bodies]
    machine.native(control_flow.compare_branches, *types_given)
    if first.shape != second.shape:
        raise Break("higher-order-operands", seen="branches that give different structures or numbers")
    pairs = list(zip(first.tensors(), second.tensors(), strict=True))
    for one, other in pairs:
        if tuple(one.array.shape) != tuple(other.array.shape):
            raise Break("data-dependent-shape", seen="branches of cond that give different shapes")
    lifted, graphs = joined_graphs(machine, bodies)
    every = [*leaves, *lifted]
    watch = control_flow.Watch("weft.cond", leaves)
    for body in bodies:
        machine.native(watch.outputs, body.tensors(), lenient=not modes.grad_enabled())
    results = [result_of(TRACKED, a, b, a.array.shape, every) for a, b in pairs]
    parts = [pred, ("cond_true_0", graphs[0]), ("cond_false_0", graphs[1]), tuple(every)]
    plain = all(has_type(value, Tensor) for value in every)
    target = control_flow.cond if plain else cond_with_numbers
    return first.whole(append(machine, target, "cond", parts, results))


@handles(control_flow.while_loop)
def while_loop_(machine: Machine, args: Args, kwargs: Kwargs) -> Any:
    condition, body, carried = parameters(("cond_fn", "body_fn", "carried_inputs"), args, kwargs)
    if not has_type(carried, (tuple, list)):
        return machine.native(control_flow.while_loop, condition, body, carried)
    leaves = tensors_only("carried_inputs", carried)
    build = flatten(carried)[1]
    tracked = any(leaf.requires_grad for leaf in leaves)
    given = [stand_in(leaf, leaf.array.shape, tracked and leaf.is_floating_point()) for leaf in leaves]
    inner = tuple(build(given))
    bodies = [interpret(machine, function, inner, given) for function in (condition, body)]
    test, step = bodies
    if len(test.leaves) != 1:
        raise Break("higher-order-operands", seen="a condition that gives more than one value")
    machine.native(control_flow._checked_condition, test.leaves[0])
    if not has_type(test.leaves[0], Tensor):
        raise Break("higher-order-operands", seen="a condition that gives a bool")
    machine.native(control_flow.same_metadata, "body_fn_output", "carried_inputs", step.leaves, leaves)
    lifted, graphs = joined_graphs(machine, bodies)
    every = [*leaves, *lifted]
    results = [result_of(LOOPED, a, b, b.array.shape, every) for a, b in zip(step.tensors(), given)]
    parts = [("cond_fn_0", graphs[0]), ("body_fn_0", graphs[1]), tuple(leaves), tuple(lifted)]
    return step.whole(append(machine, while_loop, "while_loop", parts, results))


@handles(control_flow.scan)
def scan_(machine: Machine, args: Args, kwargs: Kwargs) -> Any:
    names = ("combine_fn", "init", "xs")
    combine, init, xs, dim, reverse = parameters(names, args, kwargs, dim=0, reverse=False)
    first, leaves = tensors_only("init", init), tensors_only("xs", xs)
    if not leaves:
        return init, []
    place = machine.native(control_flow._checked_scan, callable, leaves, first, dim, reverse)
    length = leaves[0].array.shape[place]
    carry = [stand_in(leaf, leaf.array.shape, leaf.requires_grad) for leaf in first]
    body, rows = _interpret_rows(machine, combine, carry, leaves, place, flatten(init)[1], flatten(xs)[1])
    machine.native(control_flow.same_metadata, "init", "carry", first, body.leaves[: len(first)])
    results = [result_of(LOOPED, a, b, b.array.shape, []) for a, b in zip(body.leaves, carry)]
    for value in rows:
        at = wrap_dim(place, len(value.array.shape) + 1) if place <= len(value.array.shape) else 0
        shape = (*value.array.shape[:at], length, *value.array.shape[at:])
        results.append(result_of(LOOPED, value, value, shape, []))
    parts = [
        ("scan_combine_fn_0", body.graph),
        tuple(first),
        tuple(leaves),
        place,
        reverse,
        tuple(body.lifted),
    ]
    return body.whole(append(machine, scan, "scan", parts, results))


def _interpret_rows(
    machine: Machine,
    combine: Any,
    carry: list[Tensor],
    leaves: list[Tensor],
    place: int,
    build: Any,
    build_row: Any,
) -> tuple[Body, list[Tensor]]:
    """The body of a scan. A carry that only the body makes tracked is tracked in all rounds but the first."""
    rows = [_row(leaf, place) for leaf in leaves]
    while True:
        body = interpret(machine, combine, (build(carry), build_row(rows)), [*carry, *rows])
        results = body.build(list(body.leaves))
        if not has_type(results, (tuple, list)) or len(results) != 2:
            text = f"Expect combine_fn to return a tuple (next_carry, y) but got {results}."
            raise machine.fail(RuntimeError(text))
        count = len(flatten(results[0])[0])
        following, ys = body.leaves[:count], body.leaves[count:]
        if count != len(carry) or not all(has_type(leaf, Tensor) for leaf in body.leaves):
            raise Break("higher-order-operands", seen="a scan that gives other values than tensors")
        late = [new.requires_grad and not old.requires_grad for new, old in zip(following, carry)]
        if not any(late):
            return body, ys
        pairs = zip(carry, late)
        carry[:] = [stand_in(old, old.array.shape, old.requires_grad or flag) for old, flag in pairs]


def _row(leaf: Tensor, dim: int) -> Tensor:
    shape = leaf.array.shape
    return stand_in(leaf, (*shape[:dim], *shape[dim + 1 :]), leaf.requires_grad)


@handles(control_flow.map)
def map_(machine: Machine, args: Args, kwargs: Kwargs) -> Any:
    if len(args) < 2 or kwargs:
        raise Break("library-callback", seen="weft.map with keywords")
    function, xs, *rest = args
    leaves, others = tensors_only("xs", xs), tensors_only("args", rest)
    if not leaves or any(not leaf.array.shape or leaf.array.shape[0] == 0 for leaf in leaves):
        machine.native(control_flow.map, *args)
    rows = [_row(leaf, 0) for leaf in leaves]
    given = [stand_in(leaf, leaf.array.shape, leaf.requires_grad) for leaf in others]
    inner = (flatten(xs)[1](rows), *flatten(rest)[1](given))
    body = interpret(machine, function, inner, [*rows, *given])
    if len(body.tensors()) != len(body.leaves):
        raise Break("higher-order-operands", seen="a mapped function that gives other values than tensors")
    length = leaves[0].array.shape[0]
    results = [result_of(LOOPED, a, a, (length, *a.array.shape), []) for a in body.tensors()]
    parts = [("map_body_0", body.graph), tuple(leaves), *others, *body.lifted]
    return body.whole(append(machine, mapped, "map", parts, results))


def mapped(body: Any, xs: tuple[Any, ...], *args: Any) -> Any:
    """`weft.map` over leaves."""
    return control_flow.map(lambda row, *rest: body(*row, *rest), xs, *args)


@handles(control_flow.wrap_call)
def wrap_call(machine: Machine, args: Args, kwargs: Kwargs) -> Any:
    """Only what the function uses is handed to its graph. Where a gradient of it is taken in the same
    graph, its ops are among the others.
    """
    function, *given = args
    if machine.by_ops:
        return machine.calls.call(function, tuple(given), kwargs)
    whole = functools.partial(function, **kwargs) if kwargs else function
    body = interpret(machine, whole, tuple(given), [], may_write=True, once=True)
    writes = tuple([machine.recorder.node(tensor) for tensor in body.written])
    parts = [("wrap_body_0", body.graph), *body.lifted]
    facts = Effect(random=draws(body.graph.nodes), writes=writes)
    return body.whole(append(machine, control_flow.wrap_call, "wrap", parts, body.tensors(), facts))


# -- effects -------------------------------------------------------------------------------------------------
class Picture:
    """Everything that a function called now could change, shallowly, object by object."""

    def __init__(self, machine: Machine, function: Any) -> None:
        self.parts: dict[int, tuple[Any, list[Any]]] = {}
        world = machine.world
        waiting: list[Any] = [function, *(known.value for known in world.known.values())]
        frame = machine.frame
        while frame is not None:
            waiting += [*frame.locals.values(), *frame.stack, *frame.cells.values()]
            frame = frame.parent
        while waiting:
            value = waiting.pop()
            if id(value) not in self.parts:
                parts = parts_of(machine, value)
                if parts is not None:
                    self.parts[id(value)] = (value, parts)
                    waiting += parts
        self.writes = {key: list(overlay.writes.items()) for key, overlay in world.overlays.items()}
        self.changed = {id(known) for known in world.changed_mirrors()}
        self.appended = appended(world)

    def compare(self, machine: Machine) -> None:
        """Breaks where something is not what it was."""
        for value, before in self.parts.values():
            now = parts_of(machine, value)
            if (now is None or type(value) is types.CellType) and not machine.world.is_fresh(value):
                continue  # known by now: what is written to it stands in an overlay
            if now is None or len(now) != len(before) or any(a is not b for a, b in zip(now, before)):
                raise Break("higher-order-effects", seen=f"a {type(value).__name__} from outside is changed")
        world = machine.world
        for key, overlay in world.overlays.items():
            before = self.writes.get(key, [])
            now = list(overlay.writes.items())
            if len(before) != len(now) or any(a[1] is not b[1] for a, b in zip(before, now)):
                raise Break("higher-order-effects", seen=f"{overlay.source} is written")
        grown = appended(world) != self.appended
        if grown or any(id(known) not in self.changed for known in world.changed_mirrors()):
            raise Break("higher-order-effects", seen="a container from outside is changed")


def appended(world: Any) -> dict[int, int]:
    return {id(found.original): len(found.log) for found in world.still_unopened() if found.log}


def parts_of(machine: Machine, value: Any) -> list[Any] | None:
    """What an object holds, where that can change or lead on to something that can."""
    kind = type(value)
    if kind in SCALARS or has_type(value, (Tensor, type, types.ModuleType)):
        return None
    if has_type(value, dict):
        return [part for pair in dict.items(value) for part in pair]
    if has_type(value, (list, tuple, set, frozenset, deque)):
        return items_of(value)
    if kind is types.CellType:
        content = machine.variables.cell_content(value) if machine.world.is_fresh(value) else ABSENT
        return [content]
    if kind is types.FunctionType:
        return list(value.__closure__ or ())
    if kind is types.MethodType:
        return [value.__self__, value.__func__]
    if kind is CapturedGenerator:
        frame = value.frame
        return [] if frame is None else [*frame.stack, *frame.locals.values(), frame.instruction]
    if kind is Callback:
        return [value.function]
    if (kind.__module__ or "").startswith("weft.capture"):
        return None
    if machine.world.is_fresh(value) and hasattr(value, "__dict__"):
        return list(vars(value).values())
    if hasattr(kind, "__length_hint__"):
        return [ROUNDS[min(operator.length_hint(value), len(ROUNDS) - 1)]]
    return None


ROUNDS: Final = [object() for _ in range(4096)]
"""One object per length, since parts are compared by identity."""
