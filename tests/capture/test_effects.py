"""Stores: as few as may be, in an order that leaves what captured code left."""

from __future__ import annotations

import operator
import warnings
from collections import Counter, OrderedDict, defaultdict, deque
from typing import Any

import numpy as np
import pytest

import weft
from tests.capture.segments import Segment, emitted_of, outcome_of
from weft.capture import emit
from weft.capture.effects import can_fail, changed_modes, restore, save, saved_inputs
from weft.capture.sources import local
from weft.capture.world import ABSENT, World, items_of
from weft.core import modes
from weft.graph.graph import Graph


def stores(before, change):
    """Mirrors a container, changes the mirror, and gives the store lines and the original after them."""
    world = World()
    mirror = before.copy() if not isinstance(before, deque) else deque(before, before.maxlen)
    world.learn(mirror, before, local("a"), items_of(mirror))
    change(mirror)
    emitted = emitted_of(outcome_of(world, None, lambda a: None))
    emitted.make()(None, before)
    assert type(before) is type(mirror) and items_of(before) == items_of(mirror)
    lines = [line.strip() for line in emitted.text.splitlines()]
    return lines[lines.index("# stores") + 1 : -1] if "# stores" in lines else []


def swap_ends(mapping):
    mapping["a"] = mapping.pop("a")


LISTS = [
    (lambda v: v.append(7), ["a.append(7)"]),
    (lambda v: v.extend([7, 8]), ["a.extend([7, 8])"]),
    (lambda v: v.__setitem__(1, 9), ["a[1] = 9"]),
    (lambda v: v.pop(), ["del a[2:]"]),
    (lambda v: v.clear(), ["del a[0:]"]),
    (lambda v: v.insert(0, 5), ["a[:] = [5, 'x', 'y', 'z']"]),
    (lambda v: v.reverse(), ["a[0] = 'z'", "a[2] = 'x'"]),
    (lambda v: (v.append(1), v.pop()), []),
]


@pytest.mark.parametrize(("change", "lines"), LISTS)
def test_lists(change, lines):
    assert stores(["x", "y", "z"], change) == lines


DICTS = [
    (lambda v: v.__setitem__("c", 3), ["a['c'] = 3"]),
    (lambda v: v.__setitem__("a", 3), ["a['a'] = 3"]),
    (lambda v: v.pop("a"), ["del a['a']"]),
    (swap_ends, ["del a['a']", "a['a'] = 1"]),
    (lambda v: v.clear(), ["del a['a']", "del a['b']"]),
    (lambda v: (v.pop("b"), v.update(c=1, b=2)), ["del a['b']", "a['c'] = 1", "a['b'] = 2"]),
    (lambda v: (v.update(c=3), v.pop("c")), []),
]


@pytest.mark.parametrize(("change", "lines"), DICTS)
@pytest.mark.parametrize("kind", [dict, OrderedDict])
def test_dicts(kind, change, lines):
    assert stores(kind(a=1, b=2), change) == lines


@pytest.mark.parametrize("kind", [Counter, lambda **k: defaultdict(list, k)])
def test_dicts_whose_class_has_methods_of_its_own(kind):
    lines = stores(kind(a=1, b=2), lambda v: (v.pop("a"), v.update(c=4)))
    assert len(lines) == 2 and all("(a, " in line for line in lines)


SETS = [
    (lambda v: v.add(9), ["a.add(9)"]),
    (lambda v: v.discard(1), ["a.discard(1)"]),
    (lambda v: v.clear(), ["a.clear()"]),
    (lambda v: (v.remove(2), v.add(3)), ["a.discard(2)", "a.add(3)"]),
]


@pytest.mark.parametrize(("change", "lines"), SETS)
def test_sets(change, lines):
    assert stores({1, 2}, change) == lines


DEQUES = [
    (lambda v: v.append(7), ["a.append(7)"]),
    (lambda v: v.popleft(), ["a.popleft()"]),
    (lambda v: (v.popleft(), v.append(7)), ["a.popleft()", "a.append(7)"]),
    (lambda v: v.rotate(1), ["a.popleft()"] * 2 + ["a.extend([1, 2])"]),
    (lambda v: v.clear(), ["a.clear()"]),
    (lambda v: v.reverse(), ["a.popleft()"] * 2 + ["a.extend([2, 1])"]),
    (lambda v: v.pop(), ["a.clear()", "a.extend([1, 2])"]),
]


@pytest.mark.parametrize(("change", "lines"), DEQUES)
def test_deques(change, lines):
    assert stores(deque([1, 2, 3]), change) == lines


def test_a_full_deque_drops_from_the_left():
    assert stores(deque([1, 2], maxlen=2), lambda v: v.append(3)) == ["a.popleft()", "a.append(3)"]


class Listed(list):
    def append(self, item):
        raise AssertionError

    extend = __setitem__ = append


def test_stores_run_no_code_of_subclasses():
    for change in (
        lambda v: list.append(v, 3),
        lambda v: list.__setitem__(v, 0, 3),
        lambda v: list.insert(v, 0, 3),
        lambda v: list.extend(v, [3, 4]),
    ):
        world, before = World(), Listed([1, 2])
        mirror = Listed([1, 2])
        world.learn(mirror, before, local("a"), list(mirror))
        change(mirror)
        emitted_of(outcome_of(world, None, lambda a: None)).make()(None, before)
        assert list.__eq__(before, mirror)


class Plain:
    pass


class Slotted:
    __slots__ = ("x",)


class Guarded:
    """Whose class takes every way of writing for itself."""

    @property
    def x(self):
        raise AssertionError

    def __setattr__(self, name, value):
        raise AssertionError

    __delattr__ = __setattr__

    def __getattribute__(self, name):
        raise AssertionError


def written(target, kind, writes, known=True):
    world = World()
    if known:
        world.learn(target, target, local("a"))
    overlay = world.overlay(target, kind, local("a"))
    overlay.writes.update(writes)
    overlay.deleted.update(dict.fromkeys(name for name, value in writes.items() if value is ABSENT))
    emitted = emitted_of(outcome_of(world, None, lambda a: None))
    emitted.make()(None, target)
    return emitted.text


def test_attributes():
    target = Plain()
    target.gone = 1
    written(target, "attribute", {"x": [1], "gone": ABSENT, "never": ABSENT})
    assert vars(target) == {"x": [1]}


def test_slots():
    target = Slotted()
    written(target, "attribute", {"x": 5})
    assert target.x == 5
    written(target, "attribute", {"x": ABSENT})
    assert not hasattr(target, "x")
    written(target, "attribute", {"x": ABSENT})


def test_attributes_of_a_class_that_takes_writes_for_itself():
    target = Guarded.__new__(Guarded)
    written(target, "attribute", {"x": 5, "y": 6})
    assert object.__getattribute__(target, "__dict__") == {"x": 5, "y": 6}


def test_class_attributes_globals_and_cells():
    written(Plain, "attribute", {"shared": 3})
    assert Plain.shared == 3
    del Plain.shared
    space = {"old": 1}
    written(space, "item", {"new": 2, "old": ABSENT, "never": ABSENT})
    assert space == {"new": 2}

    def outer():
        value = 1
        return lambda: value

    cell = outer().__closure__[0]
    written(cell, "cell", {None: 7})
    assert cell.cell_contents == 7
    written(cell, "cell", {None: ABSENT})
    with pytest.raises(ValueError, match="empty"):
        cell.cell_contents
    written(cell, "cell", {None: ABSENT})


def test_building_comes_before_storing():
    world = World()
    first, second = Plain(), Plain()
    world.learn(first, first, local("a"))
    world.learn(second, second, local("b"))
    fresh = Plain()
    fresh.back = [first]
    world.overlay(first, "attribute", local("a")).writes["x"] = fresh
    world.overlay(second, "attribute", local("b")).writes["y"] = fresh
    emitted = emitted_of(outcome_of(world, fresh, lambda a, b: None))
    lines = [line.strip() for line in emitted.text.splitlines()]
    at = lines.index("# stores")
    assert len(lines[at + 1 :]) == 3 and lines[-1].startswith("return _v")
    assert emitted.make()(None, first, second) is first.x is second.y


def test_modes_that_differ():
    assert changed_modes(True, True) == {} and changed_modes(True, False) == {"grad": False}
    record = modes.Modes()
    record.inference = True
    record.grad = False
    assert changed_modes(True, record) == {"grad": False, "inference": True}


def test_modes_left_behind():
    def f(x):
        weft.set_grad_enabled(False)
        return x * 2

    x = weft.ones(2, requires_grad=True)
    segment = Segment(f, x)
    try:
        assert not segment().requires_grad and not weft.is_grad_enabled()
    finally:
        weft.set_grad_enabled(True)


def test_modes_at_a_break():
    def f(x, log):
        with weft.no_grad():
            y = x * 2
            print("inside")
            log.append(weft.is_grad_enabled())
        log.append(weft.is_grad_enabled())
        return y

    log = []
    x = weft.ones(2, requires_grad=True)
    assert not Segment(f, x, log)().requires_grad
    assert log == [False, True] and weft.is_grad_enabled()


def test_modes_are_put_back_when_the_graph_fails():
    def f(x, index):
        with weft.no_grad():
            y = x * 2
            z = y.gather(0, index)
        return z

    x, good, bad = weft.ones(2, requires_grad=True), weft.tensor([1]), weft.tensor([5])
    segment = Segment(f, x, good)
    with pytest.raises(IndexError if _raises(IndexError, f, x, bad) else RuntimeError):
        segment(x, bad)
    assert weft.is_grad_enabled()


def _raises(kind, f, *args):
    try:
        f(*args)
    except Exception as error:
        return isinstance(error, kind)
    return False


def test_the_graph_fails_after_writing_in_place():
    calls = []

    def f(x, index):
        x.add_(1)
        y = x.gather(0, index)
        return y

    x, good, bad = weft.zeros(3), weft.tensor([1]), weft.tensor([7])
    segment = Segment(f, x, good)
    assert "save" in segment.text
    assert segment().tolist() == [1.0] and x.tolist() == [1.0] * 3
    with pytest.raises((IndexError, RuntimeError)) as ours:
        segment(x, bad)
    assert x.tolist() == [2.0] * 3, "written once, by the original"
    with pytest.raises(type(ours.value)) as eager:
        f(weft.zeros(3), bad)
    assert str(ours.value) == str(eager.value) and not calls
    names = [entry.name for entry in ours.traceback]
    assert ours.value.__context__ is None and "f" in names


def test_nothing_is_saved_where_nothing_can_fail():
    def f(x, y):
        x.add_(y)
        return x * 2 + y

    assert "save" not in Segment(f, weft.ones(2), weft.ones(2)).text


def test_random_numbers_are_not_drawn_twice():
    def f(x, index):
        noise = weft.rand(3)
        return (x + noise).gather(0, index)

    x, good, bad = weft.zeros(3), weft.tensor([1]), weft.tensor([7])
    segment = Segment(f, x, good)
    weft.manual_seed(0)
    with pytest.raises((IndexError, RuntimeError)):
        f(x, bad)
    after = weft.rand(1)
    weft.manual_seed(0)
    with pytest.raises((IndexError, RuntimeError)):
        segment(x, bad)
    assert weft.rand(1).tolist() == after.tolist()


def test_saving_and_restoring():
    x = weft.arange(3.0)
    view = x[1:]
    saved = save(x)
    x.mul_(0)
    restore(x, saved)
    assert x.tolist() == [0.0, 1.0, 2.0] and view.tolist() == [1.0, 2.0]
    restore(3, save(3))


def test_what_can_fail():
    graph = Graph()
    x = graph.placeholder("x")
    assert not can_fail(x)
    assert not can_fail(graph.call_function(operator.add, (x, 1)))
    assert not can_fail(graph.call_function(operator.getitem, (x, 0)))
    assert can_fail(graph.call_function(operator.getitem, (x, x)))
    assert can_fail(graph.call_function(operator.floordiv, (x, x)))
    assert can_fail(graph.call_function(weft.gather, (x, 0, x)))
    assert not can_fail(graph.call_function(weft.exp, (x,)))
    assert can_fail(graph.call_function(print, (x,)))


def test_what_depends_on_layouts(monkeypatch):
    seen = []

    monkeypatch.setattr(emit, "saved_inputs", lambda nodes: seen.append(saved_inputs(nodes)) or seen[-1])

    def f(x, count, w):
        count.add_(1)
        return (weft.nn.functional.conv2d(x, w) * 2).view(2, -1), x.view(2, 3, 4, 2, 2)

    def g(x, count, w):
        count.add_(1)
        return (x * 2).view(-1)

    for function, saves in ((f, 0), (g, 1)):
        seen.clear()
        weft.compile(function, backend="eager")(weft.ones(2, 3, 4, 4), weft.ones(()), weft.ones(2, 3, 1, 1))
        assert {len(each) for each in seen} == {saves}


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "native"])
@pytest.mark.parametrize("second", [lambda x: x.mul_(2), lambda x: x[1:].mul_(2)], ids=["whole", "part"])
def test_a_part_is_not_written_twice_where_the_next_write_is_refused(backend: str, second: Any) -> None:
    def function(x: weft.Tensor) -> weft.Tensor:
        x[0].add_(1)
        second(x)
        return x + 1

    compiled = weft.compile(function, backend=backend)
    compiled(weft.zeros(8))
    x = weft.zeros(1).expand(8)
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
        compiled(x)
    assert x.tolist() == [1.0] * 8


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "native"])
@pytest.mark.parametrize("key", [0, slice(1), (slice(None), 0), (..., 0), (0, 0)], ids=str)
def test_items_are_not_written_twice_where_the_next_write_is_refused(backend: str, key: Any) -> None:
    def function(x: weft.Tensor) -> None:
        x[key] = x[key] + 1
        x.mul_(2)

    def outcome(called: Any) -> tuple[Any, ...]:
        x = weft.zeros(3, 1).expand(3, 4)
        with pytest.raises(RuntimeError, match="unsupported operation") as found:
            called(x)
        return x.tolist(), x._version, str(found.value)

    compiled = weft.compile(function, backend=backend)
    compiled(weft.zeros(3, 4))
    assert outcome(compiled) == outcome(function)


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "native"])
@pytest.mark.parametrize("same", [True, False])
def test_changed_views_are_counted_once_where_the_next_write_is_refused(backend: str, same: bool) -> None:
    """A view that is turned in place counts as a write of all tensors on its memory."""

    def function(x: weft.Tensor, y: weft.Tensor) -> None:
        (x if same else y)[None].squeeze_()
        x.mul_(2)

    compiled = weft.compile(function, backend=backend)
    compiled(weft.zeros(8), weft.zeros(3))
    x, y = weft.zeros(1).expand(8), weft.zeros(3)
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
        compiled(x, y)
    assert (x._version, y._version) == ((1, 0) if same else (0, 1))


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "native"])
def test_another_input_is_not_written_twice_where_a_part_is_refused(backend: str) -> None:
    """A row overlaps as the whole does, and a column does not."""

    def function(x: weft.Tensor, y: weft.Tensor, turned: bool) -> None:
        y.add_(1)
        (x[:, 0] if turned else x[0]).add_(1)

    compiled = weft.compile(function, backend=backend)
    for turned in (True, False):
        compiled(weft.zeros(3, 4), weft.zeros(3), turned)
    x, y = weft.zeros(3, 1).expand(3, 4), weft.zeros(3)
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
        compiled(x, y, False)
    assert (x.tolist(), y.tolist(), y._version) == ([[0.0] * 4] * 3, [1.0] * 3, 1)
    compiled(x, y, True)
    assert (x.tolist(), y.tolist(), y._version) == ([[1.0] * 4] * 3, [2.0] * 3, 2)


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "native"])
def test_parts_of_what_overlaps_that_do_not_overlap_are_written(backend: str, monkeypatch: Any) -> None:
    def function(x: weft.Tensor, y: weft.Tensor) -> None:
        x[::2] = 1
        y.fill_(3)

    monkeypatch.setattr(weft.core.settings.settings, "strict", True)
    x, y = weft.zeros(1).expand(2), weft.zeros(())
    weft.compile(function, backend=backend)(x, y)
    assert x.tolist() == [1.0, 1.0] and y.item() == 3


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "native"])
@pytest.mark.parametrize("first", ["fill_", "zero_", "index_fill_", "tril_"])
def test_writes_that_are_let_pass_are_not_done_twice_where_the_next_is_refused(
    backend: str, first: str
) -> None:
    given = {"fill_": (3,), "index_fill_": (0, weft.tensor([0, 1, 2]), 3)}.get(first, ())

    def function(x: weft.Tensor) -> None:
        getattr(x, first)(*given)
        x.copy_(x.flip(0))

    compiled = weft.compile(function, backend=backend)
    compiled(weft.ones(3, 5))
    x = weft.zeros(1).expand(3, 5)
    with warnings.catch_warnings(action="ignore"), pytest.raises(RuntimeError, match="more than one element"):
        compiled(x)
    assert x._version == 1


def frozen() -> weft.Tensor:
    array = np.ones((4, 5), np.float32)
    array.flags.writeable = False
    with warnings.catch_warnings(action="ignore"):
        return weft.from_numpy(array)


SHARING: dict[str, Any] = {
    "data": lambda x: x.data,
    "a view of data": lambda x: x.data.t().diagonal(),
    "data of data": lambda x: x.detach().data.data[1:],
    "contiguous": lambda x: x.contiguous(),
    "reshape": lambda x: x.reshape(-1),
    "to": lambda x: x.to(weft.float32),
}
LAID: dict[str, Any] = {
    "p": lambda: weft.ones(4, 5),
    "e": lambda: weft.ones(4, 1).expand(4, 5),
    "r": frozen,
}


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "native"])
@pytest.mark.parametrize("how", SHARING)
def test_writes_are_not_done_twice_where_memory_that_may_be_an_inputs_is_refused(
    how: str, backend: str
) -> None:
    def function(x: weft.Tensor, y: weft.Tensor) -> None:
        y.add_(2)
        SHARING[how](x).mul_(2)
        y.add_(3)

    def outcome(run: Any, laid: str) -> tuple[Any, ...]:
        x, y = LAID[laid](), weft.ones(3)
        try:
            run(x, y)
        except (RuntimeError, ValueError) as error:
            return str(error), x.tolist(), y.tolist(), x._version, y._version
        return x.tolist(), y.tolist(), x._version, y._version

    compiled = weft.compile(function, backend=backend)
    for laid in "perpree":
        assert outcome(compiled, laid) == outcome(function, laid), laid
