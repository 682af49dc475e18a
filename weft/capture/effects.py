"""Effects: what captured code did to objects that existed before, as straight-line stores.

Takes the overlays and changed mirrors of a `World` and a `Builder`; gives lines of stores. One idea: the
values are built before the first store, and a store is a C function on a builtin class or a descriptor, so
between the first and the last of them nothing of a user's runs and nothing can fail.

# Note [Minimal stores]
    d = {'a': x, 'b': y}                 stores, given that 'a' and 'b' stood there in that order
    del d['a']; d['c'] = z               del d['a']; d['c'] = z
    d['a'] = d.pop('a')                  del d['a']; d['a'] = x          order is part of what a dict holds
    l.append(x)                          l.append(x)
    l.sort()                             l[:] = [y, x]
A prefix of the new contents that can stay where it is, stays; the rest is deleted and put in again in order.
"""

from __future__ import annotations

import itertools
import operator
import types
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Any, Final

from weft.amp.casting import NAME
from weft.capture.autocasting import put_autocast
from weft.capture.custom_function.context_stores import context_stores
from weft.capture.gradients import OF_FRESH
from weft.capture.grads import SLOT
from weft.capture.outcome import Outcome
from weft.capture.rebuild.builder import Builder
from weft.capture.rebuild.types import check_keys
from weft.capture.sources import Source, class_dict, class_mro, safe_length, written_in_c
from weft.capture.values import has_type
from weft.capture.walkers import INDEXED, WALKERS, settle, standing, walked
from weft.capture.world import ABSENT, Known, Overlay, Unopened, World, is_changed, items_of
from weft.core import modes
from weft.core.interrupts import let_through
from weft.core.modes import Modes, State
from weft.core.records import record, replace
from weft.core.requirements import Doubtful, Unmet
from weft.core.symbolic import Symbolic
from weft.graph.effects import can_fail, effect, op_of
from weft.graph.node import Node
from weft.ops.record import REGISTRY
from weft.tensor.tape import INFERENCE
from weft.tensor.views import refuse_overlap

MOST_HELD = 1 << 18
"""Bytes of old gradients that may be there while new ones are made: shortcuts let go of them late."""
FEW = 8  # single stores rather than one for the whole container


def store_lines(builder: Builder) -> list[str]:
    """All stores of the segment. Whatever they need is built by the builder's own lines."""
    lines: list[str] = []
    world = builder.world
    builder.storing = True
    changed = world.changed_mirrors()
    walkers = [known for known in changed if type(known.value) in WALKERS]
    stepping = [known for known in reversed(walkers) if type(known.value) not in INDEXED]
    indexed = [known for known in walkers if type(known.value) in INDEXED]
    others = [known for known in changed if type(known.value) not in WALKERS]
    for known in [*stepping, *others, *indexed]:
        lines += mirror_stores(builder, known, builder.read(known.source))
    for unopened in world.still_unopened():
        lines += log_stores(builder, unopened)
    for overlay in world.overlays.values():
        lines += OVERLAYS[overlay.kind](builder, overlay, builder.read(overlay.source))
    builder.storing = False
    return lines


def let_go_lines(builder: Builder) -> list[str]:
    """Stores before the graph runs: see Note [Gradients let go] in `weft.capture.grads`."""
    return [
        _attribute_store(builder, overlay, builder.read(overlay.source), SLOT, None)
        for overlay in _let_go(builder)
    ]


def large_let_go(builder: Builder) -> list[Source]:
    """The tensors whose gradients are freed before the graph runs, if these are more than a little."""
    world, overlays = builder.world, _let_go(builder)
    held = sum(world.known[id(overlay.target)].original.array.nbytes for overlay in overlays)
    return [overlay.source for overlay in overlays] if held > MOST_HELD else []


def _let_go(builder: Builder) -> list[Overlay]:
    world = builder.world
    overlays = [overlay for overlay in world.overlays.values() if world.let_go.get(id(overlay.target))]
    return [overlay for overlay in overlays if overlay.writes.get(SLOT) is not None]


# -- mirrors -------------------------------------------------------------------------------------------------
def mirror_stores(builder: Builder, known: Known, target: str) -> list[str]:
    kind = type(known.value)
    if kind in WALKERS:
        return [walker_store(builder, known, target)]
    for base, rule in MIRRORS.items():
        if issubclass(kind, base):
            return rule(builder, known, target)
    return list(builder.refuse(known.value, "that captured code changed"))


def walker_store(builder: Builder, known: Known, target: str) -> str:
    """Takes an iterator to where captured code left it. Those that can only step do so before containers
    change, outer ones first, as they step by those within; those that count are put behind that.
    """
    position, walker = standing(known.value), known.value
    over = walked(walker)
    if type(walker) in INDEXED:
        beyond = position is not None and position > safe_length(over)
    else:
        beyond = any(map(is_reordered, containers(builder.world, over)))
    if position is None or beyond:
        builder.refuse(walker, "whose container changed while it was walked")
    return f"{builder.constant(settle, 'settle')}({target}, {position})"


def containers(world: World, over: Any) -> list[Known]:
    """The mirrors that an iterator over this goes over, through iterators within it."""
    within = over if type(over) is tuple and any(type(each) in WALKERS for each in over) else (over,)
    found = [each for one in within if type(one) in WALKERS for each in containers(world, walked(one))]
    known = [world.known.get(id(one)) for one in within if type(one) not in WALKERS]
    return found + [each for each in known if each is not None and each.snapshot is not None]


def is_reordered(known: Known) -> bool:
    """Whether walking over what a container held before would not give the same places."""
    now, before = items_of(known.value), known.snapshot
    if has_type(known.value, dict):
        return [id(key) for key, _ in now] != [id(key) for key, _ in before]
    return len(now) != len(before) if has_type(known.value, list) else is_changed(known)


def list_stores(builder: Builder, known: Known, target: str) -> list[str]:
    before, now = known.snapshot, items_of(known.value)
    exact = type(known.value) is list
    same = common_prefix(before, now)
    if same == len(before):
        return [_extend(builder, list, exact, target, now[same:])]
    changed = [place for place, (old, new) in enumerate(zip(before, now)) if old is not new]
    if len(before) == len(now) and len(changed) <= FEW:
        return [_put(builder, list, exact, target, str(place), now[place]) for place in changed]
    if len(now) == same and len(before) - same <= FEW and exact:
        return [f"del {target}[{same}:]"]
    items = f"[{builder.items(now)}]"
    if exact:
        return [f"{target}[:] = {items}"]
    return [_call(builder, list, False, target, "__setitem__", builder.constant(slice(None), "all"), items)]


def common_prefix(before: list[Any], now: list[Any]) -> int:
    """How many leading items are the same objects."""
    count = 0
    for old, new in zip(before, now):
        if old is not new:
            break
        count += 1
    return count


def _call(builder: Builder, base: Any, exact: bool, target: str, name: str, *given: str) -> str:
    """A call of a method of a container's own class, whatever a class of the user's makes of it."""
    if exact:
        return f"{target}.{name}({', '.join(given)})"
    return f"{builder.constant(getattr(base, name), name.strip('_'))}({', '.join([target, *given])})"


def _extend(builder: Builder, base: Any, exact: bool, target: str, items: list[Any]) -> str:
    if len(items) == 1:
        return _call(builder, base, exact, target, "append", builder.text(items[0]))
    return _call(builder, base, exact, target, "extend", f"[{builder.items(items)}]")


def _put(builder: Builder, base: Any, exact: bool, target: str, key: str, value: Any) -> str:
    if exact:
        return f"{target}[{key}] = {builder.text(value)}"
    return _call(builder, base, False, target, "__setitem__", key, builder.text(value))


def deque_stores(builder: Builder, known: Known, target: str) -> list[str]:
    before, now = known.snapshot, items_of(known.value)
    exact = type(known.value) is deque
    if common_prefix(before, now) == len(before) and known.value.maxlen is None:
        return [_extend(builder, deque, exact, target, now[len(before) :])]
    for dropped in range(1, min(FEW + 1, len(before))):
        kept = before[dropped:]
        if common_prefix(kept, now) == len(kept):
            pop = _call(builder, deque, exact, target, "popleft")
            added = now[len(kept) :]
            return [pop] * dropped + ([_extend(builder, deque, exact, target, added)] if added else [])
    return [_call(builder, deque, exact, target, "clear")] + (
        [_extend(builder, deque, exact, target, now)] if now else []
    )


def dict_stores(builder: Builder, known: Known, target: str) -> list[str]:
    before, now = known.snapshot, items_of(known.value)
    check_keys(builder, [key for key, _ in (*before, *now)])
    exact = type(known.value) in (dict, OrderedDict)
    base = OrderedDict if issubclass(type(known.value), OrderedDict) else dict
    kept = kept_pairs(before, now)
    kept_keys = {id(key) for key, _ in now[:kept]}
    old_values = {id(key): value for key, value in before}
    lines = [_delete(builder, base, exact, target, key) for key, _ in before if id(key) not in kept_keys]
    for place, (key, value) in enumerate(now):
        if place >= kept or old_values[id(key)] is not value:
            lines.append(_put(builder, base, exact, target, builder.text(key), value))
    return lines


def kept_pairs(before: list[Any], now: list[Any]) -> int:
    """How many leading pairs of `now` can stay in the dict, because their keys stood there in that order."""
    places = {id(key): place for place, (key, _) in enumerate(before)}
    last = -1
    for count, (key, _) in enumerate(now):
        place = places.get(id(key), -1)
        if place <= last:
            return count
        last = place
    return len(now)


def _delete(builder: Builder, base: Any, exact: bool, target: str, key: Any) -> str:
    if exact:
        return f"del {target}[{builder.text(key)}]"
    return _call(builder, base, False, target, "__delitem__", builder.text(key))


def set_stores(builder: Builder, known: Known, target: str) -> list[str]:
    before, now = known.snapshot, items_of(known.value)
    check_keys(builder, [*before, *now])
    old, new = {id(item) for item in before}, {id(item) for item in now}
    gone = [item for item in before if id(item) not in new]
    added = [item for item in now if id(item) not in old]
    exact = type(known.value) is set
    if not now:
        return [_call(builder, set, exact, target, "clear")]
    return [
        _call(builder, set, exact, target, name, builder.text(item))
        for name, items in (("discard", gone), ("add", added))
        for item in items
    ]


MIRRORS: Final[dict[type, Callable[[Builder, Known, str], list[str]]]] = {
    list: list_stores,
    dict: dict_stores,
    set: set_stores,
    deque: deque_stores,
}


# -- unopened containers -------------------------------------------------------------------------------------
def log_stores(builder: Builder, unopened: Unopened) -> list[str]:
    """What was done to a container of which only parts are known, in order."""
    kind = type(unopened.original)
    base = next((base for base in (OrderedDict, dict, list, deque) if issubclass(kind, base)), tuple)
    exact = written_in_c(kind)
    target = builder.text(unopened)
    lines: list[str] = []
    for name, calls in itertools.groupby(unopened.log, key=lambda call: call[0]):
        given = [args for _name, args in calls]
        if name == "append":
            lines.append(_extend(builder, base, exact, target, [value for (value,) in given]))
        elif name == "__setitem__":
            lines += [_put(builder, base, exact, target, builder.text(key), value) for key, value in given]
        elif name == "__delitem__":
            lines += [_delete(builder, base, exact, target, key) for (key,) in given]
        else:
            lines += [_call(builder, base, exact, target, name, *map(builder.text, args)) for args in given]
    return lines


# -- overlays ------------------------------------------------------------------------------------------------
def attribute_stores(builder: Builder, overlay: Overlay, target: str) -> list[str]:
    pairs = [*((name, ABSENT) for name in gone(overlay)), *written_last(overlay)]
    return [_attribute_store(builder, overlay, target, name, value) for name, value in pairs]


def gone(overlay: Overlay) -> list[Any]:
    """What has to be deleted first."""
    absent = [name for name, value in overlay.writes.items() if value is ABSENT]
    return list(dict.fromkeys([*overlay.deleted, *absent]))


def written_last(overlay: Overlay) -> list[tuple[Any, Any]]:
    """What stands there in the end, after all deletions."""
    return [(name, value) for name, value in overlay.writes.items() if value is not ABSENT]


def _attribute_store(builder: Builder, overlay: Overlay, target: str, name: str, value: Any) -> str:
    """A store into a slot or the object's own dict, whatever `__setattr__` or property its class has."""
    owner = overlay.target
    if issubclass(type(owner), type):
        if value is ABSENT:
            return f"{builder.constant(type.__delattr__, 'delattr')}({target}, {name!r})"
        return f"{builder.constant(type.__setattr__, 'setattr')}({target}, {name!r}, {builder.text(value)})"
    member = find_member(type(owner), name)
    if member is None:
        fields = builder.read(overlay.source.member("__dict__"))
        if value is ABSENT:
            return f"{fields}.pop({name!r}, None)"
        return f"{fields}[{name!r}] = {builder.text(value)}"
    if value is ABSENT:
        return f"{builder.constant(unset, 'unset')}({target}, {builder.constant(member, name)})"
    return f"{builder.constant(member.__set__, f'put_{name}')}({target}, {builder.text(value)})"


def find_member(kind: type, name: str) -> Any:
    """The slot, or the C attribute, that holds the name; None where the object's own dict does."""
    for base in class_mro(kind):
        found = class_dict(base).get(name)
        if found is not None:
            stores = type(found) in (types.MemberDescriptorType, types.GetSetDescriptorType)
            return found if stores else None
    return None


def item_stores(builder: Builder, overlay: Overlay, target: str) -> list[str]:
    lines = [f"{target}.pop({builder.text(key)}, None)" for key in gone(overlay)]
    return lines + [
        f"{target}[{builder.text(key)}] = {builder.text(value)}" for key, value in written_last(overlay)
    ]


def cell_stores(builder: Builder, overlay: Overlay, target: str) -> list[str]:
    return [
        f"del {target}.cell_contents"
        if value is ABSENT
        else f"{target}.cell_contents = {builder.text(value)}"
        for value in overlay.writes.values()
    ]


OVERLAYS: Final[dict[str, Callable[[Builder, Overlay, str], list[str]]]] = {
    "attribute": attribute_stores,
    "item": item_stores,
    "cell": cell_stores,
    "context": context_stores,
}


# -- what emitted code calls ---------------------------------------------------------------------------------
def unset(owner: Any, member: Any) -> None:
    """Empties a slot; one that captured code filled and emptied again was empty before."""
    try:
        member.__delete__(owner)
    except AttributeError as error:
        let_through(error)


# -- modes ---------------------------------------------------------------------------------------------------
def changed_modes(before: State, after: State) -> dict[str, Any]:
    """The parts of the modes that captured code changed."""
    if before is after:
        return {}
    old, new = modes.in_full(before), modes.in_full(after)
    pairs = {name: (getattr(old, name), getattr(new, name)) for name in Modes.__slots__}
    return {name: new for name, (old, new) in pairs.items() if old is not new and old != new}


def with_grad(state: State, grad: bool) -> State:
    """The modes with gradients switched on or off."""
    return replace(state, grad=grad) if isinstance(state, Modes) else grad


def mode_lines(builder: Builder, before: State, after: State) -> list[str]:
    """Stores that put the modes where captured code left them."""
    changes = changed_modes(before, after)
    if not changes:
        return []
    extra = changes.pop("extra", None)
    lines = [] if extra is None else _autocast_lines(builder, extra)
    if not changes:
        return lines
    put = builder.constant(modes.enter, "put_modes")
    parts = ", ".join(f"{name}={builder.text(value)}" for name, value in changes.items())
    return [*lines, f"{put}({parts})"]


def _autocast_lines(builder: Builder, extra: tuple[tuple[str, Any], ...]) -> list[str]:
    found = [value for name, value in extra if name == NAME]
    kind, caching = (found[0].dtype, found[0].caching) if found else (None, True)
    put = builder.constant(put_autocast, "put_autocast")
    return [f"{put}({builder.text(kind)}, {caching}, {builder.outcome.autocasts})"]


def changes_modes(node: Node) -> bool:
    """Whether a node of the graph switches gradients, inference mode or autocast on or off."""
    return getattr(node.target, "__name__", node.target) in MODE_SWITCHES


def switches_grad(node: Node) -> bool:
    return getattr(node.target, "__name__", node.target) in MODE_SWITCHES[:2]


MODE_SWITCHES: Final = (
    "_set_grad_enabled", "set_grad_enabled", "_set_inference_mode", "_set_autocast", "_save_copies",
)  # fmt: skip


# -- writes of the graph itself ------------------------------------------------------------------------------
@record(slots=True)
class Writes:
    """What a graph does to one of its inputs."""

    first: int
    """The place of the first node that writes it."""
    certain: bool = False
    """Whether it was written when the graph was captured."""
    history: bool = False
    """Whether the tape must follow a write."""
    several: bool = False
    """Whether several elements are written at once, which may be refused where they lie in one place."""
    refusing: bool = False
    """Whether it is written as one, and not by a key or by what is let write to elements that share a place:
    a write that is refused where others would be."""
    counted: bool = False
    """Whether a view of it is changed, no element: the count of writes, which is theirs together, shows."""
    again: bool = False
    """Whether a part of it is written, or a write counted, before other writes, which may be refused."""


def writes_of(nodes: list[Node], grad: bool) -> tuple[dict[Node, Writes], int]:
    """The inputs that a graph writes, and the place of the last node that may fail, if it writes any. `grad`:
    whether gradients are recorded when it begins.
    """
    roots: dict[Node, set[Node]] = {}
    written: dict[Node, Writes] = {}
    last = -1
    if not any(map(may_write, nodes)):
        return written, last
    for place, node in enumerate(nodes):
        if node.op == "placeholder":
            roots[node] = {node}
            continue
        if node.op == "call_function" and switches_grad(node):
            grad = bool(node.args[0])
        fails = can_fail(node)
        last = place if fails else last  # an op that writes may itself fail half way
        facts = effect(node)
        writes = node.meta.get("writes")
        if facts.aliases:
            reached: set[Node] = set()
            for each in writes or node.all_input_nodes:  # what a write gives is what it writes
                reached |= roots.get(each, reached)
            roots[node] = reached
        targets = node.all_input_nodes if facts.unknown and fails else facts.writes
        targets = targets if writes is None else writes
        if not targets:
            continue
        changes = node.op == "call_method" and node.target in OF_FRESH  # what a tensor is, and no elements
        alone = changes or node.op == "call_method" and node.target in OF_ONE_TENSOR
        for target in targets:
            for root in roots.get(target, ()):
                if alone and not _is_same(root, target):
                    if writes is not None and _share_memory(root, target):
                        written.setdefault(root, Writes(place)).counted = True
                    continue
                found = written.setdefault(root, Writes(place))
                if writes is None or changes:
                    continue
                if not _share_memory(root, target):
                    last = place  # what may be the input's memory or a copy is refused only here
                else:
                    found.again |= (found.certain or found.counted) and not found.refusing
                    found.certain = True
                    follows = _is_tracked(root) or _is_tracked(target)  # now: statistics do not
                    found.history |= grad and follows and any(map(_is_tracked, (node, *node.all_input_nodes)))
                    alike = _shape(target) == _shape(root)
                    found.several |= _shape(target) != () and not _writes_one(node)
                    found.refusing |= alike and not _writes_places(node)
    return written, last


def _writes_one(node: Node) -> bool:
    """Whether a node is `x[3] = ...`, which writes one element, wherever the others lie."""
    if node.target is not operator.setitem:
        return False
    keys = node.args[1] if isinstance(node.args[1], tuple) else (node.args[1],)
    return all(type(key) is int for key in keys) and len(keys) == len(_shape(node.args[0]) or ())


def _writes_places(node: Node) -> bool:
    """Whether a node puts values in places, which may be allowed where elements share one: see
    Note [Writes to memory that overlaps itself] in `weft.tensor.inplace`."""
    found = op_of(node)
    op = REGISTRY.get(str(node.target).removesuffix("_")) if found is None else found[0]
    return node.target is operator.setitem or (op is not None and op.placing is not None)


def may_write(node: Node) -> bool:
    """Whether a node writes anything, as far as one knows."""
    facts = effect(node)
    return facts.unknown or bool(facts.writes) or "writes" in node.meta


OF_ONE_TENSOR: Final = frozenset(
    {
        "requires_grad_", "detach_", "t_", "transpose_", "swapaxes_", "swapdims_", "squeeze_", "unsqueeze_",
        "as_strided_",
    }
)  # fmt: skip
"""Methods that change what a tensor is, and no elements: others on its memory stay as they are."""


def _is_same(first: Node, second: Node) -> bool:
    return first.meta.get("val") is second.meta.get("val")


def _share_memory(first: Node, second: Node) -> bool:
    """Whether two nodes give tensors of one storage for sure: the same one, or a view of it, or of its
    `.data`, which counts its own writes."""
    one, other = first.meta.get("val"), second.meta.get("val")
    cell, counted = getattr(one, "cell", None), getattr(other, "cell", None)
    if one is other or (cell is not None and cell is counted):
        return True
    while second.target is not getattr or second.args[1] != "data":
        counting = [node for node in second.all_input_nodes if _cell(node) is counted is not None]
        if not counting:
            return False
        (second, *_) = counting
    return _share_memory(first, second.args[0])


def _cell(node: Node) -> Any:
    return getattr(node.meta.get("val"), "cell", None)


def _is_tracked(node: Node) -> bool:
    return bool(getattr(node.meta.get("val"), "tracked", False))


def _shape(node: Node) -> Any:
    return getattr(getattr(node.meta.get("val"), "array", None), "shape", None)


def saved_inputs(writes: tuple[dict[Node, Writes], int]) -> list[Node]:
    """The placeholders to be saved before the graph runs: it writes them, and may fail afterwards."""
    written, last = writes
    return [root for root, found in written.items() if found.first <= last]


def early_numbers(outcome: Outcome) -> None:
    """Moves what is computed of numbers alone right behind its operands, where inputs would have to be saved
    as it may fail: `1 - beta ** step` of an optimizer stands between writes otherwise.
    """
    graph = outcome.recorder.graph
    nodes = list(graph.nodes)
    if not any(map(_gives_number, nodes)) or not saved_inputs(writes_of(nodes, True)):
        return
    numbers, moving = set(), set()
    for node in nodes:
        operands = node.all_input_nodes
        if _gives_number(node):
            numbers.add(node)
        elif node.op == "call_function" and operands and isinstance(node.meta.get("val"), NUMBERS):
            if all(used in numbers for used in operands) and effect(node).pure:
                numbers.add(node)
                moving.add(node)
    order: dict[Node, None] = {}
    stack = [node for node in reversed(nodes) if node not in moving]
    stack.sort(key=lambda node: node.op == "placeholder" and node in numbers)  # parameters, after all
    while stack:
        node = stack.pop()
        order[node] = None
        ready = [u for u in node.users if u in moving and all(used in order for used in u.all_input_nodes)]
        stack += reversed(ready)
    nodes[0].prepend(next(iter(order)))
    for before, after in itertools.pairwise(order):
        before.append(after)
    places = {node: place for place, node in enumerate(order)}
    outcome.inputs.sort(key=lambda item: places[item.node])


def _gives_number(node: Node) -> bool:
    """Whether a node is a number that is computed of no other number."""
    if node.op == "placeholder" or (node.op == "call_method" and node.target == "item"):
        return isinstance(node.meta.get("val"), NUMBERS)
    return False


NUMBERS: Final = (int, float, Symbolic)


def late_inputs(writes: tuple[dict[Node, Writes], int]) -> dict[Node, Writes]:
    """The placeholders that are written when nothing but their state can make the graph fail: they must be
    fit to be written, or some would be written and then another be refused. A single one is refused before,
    if it is not written in part first.
    """
    written, last = writes
    late = {root: found for root, found in written.items() if found.first > last}
    sure = {root: found for root, found in late.items() if found.certain and _shape(root) is not None}
    return sure if len(late) > 1 or any(found.again for found in late.values()) else {}


def check_ready(several: tuple[Any, ...], single: tuple[Any, ...]) -> None:
    """Raises where one of these tensors, or a part of it, may not be written: `single` are written element
    by element. A part of what overlaps may overlap or not, so the code itself has to tell.
    """
    for tensor in (*several, *single):
        refused = tensor.cell is INFERENCE and not modes.modes().inference
        if refused or not tensor.array.flags.writeable:
            raise Unmet("an input may not be written")
    for tensor in several:
        if not tensor.array.flags.forc:
            try:
                refuse_overlap(tensor.array)
            except RuntimeError as error:
                let_through(error)
                raise Doubtful(str(error)) from None


STATE: Final = ("array", "tracked", "node", "index", "cell")


def save(tensor: Any) -> tuple[Any, ...]:
    """What a graph that writes this tensor may change of it."""
    if type(tensor) is list:  # see Note [Lists as inputs] in `tape_calls`
        return tuple(map(save, tensor))
    if not hasattr(tensor, "array"):
        return ()
    version = tensor.cell[0] if type(tensor.cell) is list else None
    return (tensor.array.copy(), version, *[getattr(tensor, name, None) for name in STATE])


def restore(tensor: Any, saved: tuple[Any, ...]) -> None:
    """Puts a tensor back to what it was."""
    if type(tensor) is list:
        for item, kept in zip(tensor, saved, strict=True):
            restore(item, kept)
    elif saved:
        data, version, array, *rest = saved
        if array.flags.writeable:  # else the graph was refused to write there
            array[...] = data
        if version is not None:
            rest[-1][0] = version
        for name, value in zip(STATE, (array, *rest), strict=True):
            if getattr(tensor, name, None) is not value:
                setattr(tensor, name, value)
