"""Shortcuts: entries whose guards, and programs where they can, run as one native function.

Each scenario calls a compiled function until it has a shortcut, changes one thing that a guard watches, and
compares with the function itself. One idea: a shortcut may miss, but it must never serve a call that the
entry would not have served.
"""

from __future__ import annotations

import gc
import threading
import tracemalloc
import weakref
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft
from tests.native.harness import calls_by_python
from weft import nn
from weft.aot.runtime.compiled import CompiledFunction
from weft.capture.fronts import FRONT
from weft.native.entry.entry import Entrance
from weft.native.entry.factory import Machine

SCALE = 2.0
TABLE: dict[str, Any] = {"factor": 3.0, "names": ["a", "b"]}
ROWS = [1.0, 2.0]


def helper(x: Any) -> Any:
    return x * 2


def installed(compiled: Any) -> Any:
    """The entry in use."""
    context = compiled.__dict__[FRONT]
    (cache,) = [cache for cache in context.caches.values() if cache.entries]
    return cache.entries[0]


def has_shortcut(compiled: Any) -> bool:
    entry = installed(compiled)
    return entry.run is not entry.step and "_v_shortcut" in entry.run.__code__.co_names


def is_direct(compiled: Any) -> bool:
    """Whether the program runs in the shortcut, too."""
    return has_shortcut(compiled) and "_v_graph" not in installed(compiled).run.__code__.co_names


def same(left: Any, right: Any) -> None:
    if isinstance(left, (tuple, list)):
        assert type(left) is type(right) and len(left) == len(right)
        for one, other in zip(left, right):
            same(one, other)
    elif isinstance(left, weft.Tensor):
        assert left.dtype == right.dtype and left.shape == right.shape
        assert left.requires_grad == right.requires_grad and left.stride() == right.stride()
        weft.testing.assert_close(left.detach(), right.detach(), equal_nan=True)
    else:
        assert left == right


class Changing(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(3, 3)
        self.power = 2.0
        self.names: tuple[str, ...] = ("x", "y")
        self.options = {"bias": 1.0}

    def forward(self, x: Any) -> Any:
        y = self.fc(x) * self.power + self.options["bias"] + len(self.names)
        return helper(y) if self.training else y


class Cell:
    __slots__ = ("value",)

    def __init__(self, value: float) -> None:
        self.value = value


def change_global() -> None:
    global SCALE
    SCALE += 1.5


def change_helper() -> None:
    global helper

    def helper(x: Any) -> Any:
        return x * 7


@pytest.fixture(autouse=True)
def restored() -> Any:
    global SCALE, helper
    before = SCALE, helper
    yield
    SCALE, helper = before
    TABLE.update(factor=3.0, names=["a", "b"])
    ROWS[:] = [1.0, 2.0]


def module_case(change: Callable[[Changing], None]) -> tuple[Callable[..., Any], Callable[[], None]]:
    net = Changing()
    return lambda x: net(x), lambda: change(net)


def set_forward(net: Changing) -> None:
    net.forward = lambda x: x * 9  # type: ignore[method-assign]


def patch_class(net: Changing) -> None:
    net.__class__ = type("Other", (Changing,), {"forward": lambda self, x: x - 5})


def add_hook(net: Changing) -> None:
    net.fc.register_forward_hook(lambda module, args, out: out + 100)


def swap_parameter(net: Changing) -> None:
    net.fc.weight = nn.Parameter(weft.ones(3, 3) * 4)


def freeze(net: Changing) -> None:
    net.fc.weight.requires_grad_(False)


def stop_training(net: Changing) -> None:
    net.eval()


def rename(net: Changing) -> None:
    net.names = ("x", "y", "z")


def closure_case() -> tuple[Callable[..., Any], Callable[[], None]]:
    count = 2.0

    def run(x: Any) -> Any:
        return x + count

    def change() -> None:
        nonlocal count
        count = 11.0

    return run, change


def slot_case() -> tuple[Callable[..., Any], Callable[[], None]]:
    cell = Cell(2.0)
    return lambda x: x * cell.value, lambda: setattr(cell, "value", 5.0)


def default_case() -> tuple[Callable[..., Any], Callable[[], None]]:
    def inner(x: Any, by: float = 2.0) -> Any:
        return x * by

    def change() -> None:
        inner.__defaults__ = (8.0,)

    return lambda x: inner(x), change


def code_case() -> tuple[Callable[..., Any], Callable[[], None]]:
    def inner(x: Any) -> Any:
        return x * 2

    def other(x: Any) -> Any:
        return x * 3

    def change() -> None:
        inner.__code__ = other.__code__

    return lambda x: inner(x), change


def class_attribute_case() -> tuple[Callable[..., Any], Callable[[], None]]:
    class Holder:
        value = 2.0

        def times(self, x: Any) -> Any:
            return x * self.value

    holder = Holder()
    return lambda x: holder.times(x), lambda: setattr(Holder, "value", 6.0)


def method_case() -> tuple[Callable[..., Any], Callable[[], None]]:
    class Holder:
        def times(self, x: Any) -> Any:
            return x * 2

    holder = Holder()
    return lambda x: holder.times(x), lambda: setattr(Holder, "times", lambda self, x: x * 13)


def instance_hides_class_case() -> tuple[Callable[..., Any], Callable[[], None]]:
    class Holder:
        def times(self, x: Any) -> Any:
            return x * 2

    holder = Holder()
    return lambda x: holder.times(x), lambda: setattr(holder, "times", lambda x: x * 17)


def ordered_case() -> tuple[Callable[..., Any], Callable[[], None]]:
    steps: Any = OrderedDict(first=lambda x: x + 1, second=lambda x: x * 3)

    def run(x: Any) -> Any:
        for step in steps.values():
            x = step(x)
        return x

    return run, lambda: steps.move_to_end("first")


CASES: dict[str, Callable[[], tuple[Callable[..., Any], Callable[[], None]]]] = {
    "global": lambda: (lambda x: x * SCALE, change_global),
    "global function": lambda: (lambda x: helper(x), change_helper),
    "dict item": lambda: (lambda x: x * TABLE["factor"], lambda: TABLE.update(factor=4.0)),
    "list in a dict": lambda: (lambda x: x * len(TABLE["names"]), lambda: TABLE["names"].append("c")),
    "list items": lambda: (lambda x: x * ROWS[0] + ROWS[1], lambda: ROWS.reverse()),
    "closure": closure_case,
    "slot": slot_case,
    "default": default_case,
    "code": code_case,
    "class attribute": class_attribute_case,
    "method": method_case,
    "instance hides class": instance_hides_class_case,
    "order of a dict": ordered_case,
    "module attribute": lambda: module_case(lambda net: setattr(net, "power", 3.0)),
    "module dict": lambda: module_case(lambda net: net.options.update(bias=2.0)),
    "module tuple": lambda: module_case(rename),
    "training": lambda: module_case(stop_training),
    "module forward": lambda: module_case(set_forward),
    "class of a module": lambda: module_case(patch_class),
    "hook": lambda: module_case(add_hook),
    "parameter": lambda: module_case(swap_parameter),
    "requires grad": lambda: module_case(freeze),
}


@pytest.mark.parametrize("name", CASES)
def test_a_change_is_seen(name: str) -> None:
    function, change = CASES[name]()
    compiled = weft.compile(function, backend="native")
    x = weft.tensor([[0.5, -1.0, 2.0], [1.5, 0.25, -3.0]])
    with weft.no_grad():
        for _ in range(4):
            same(compiled(x), function(x))
        assert is_direct(compiled), name
        change()
        for _ in range(4):
            same(compiled(x), function(x))


INPUTS: dict[str, Callable[[], Any]] = {
    "other size": lambda: weft.ones(5),
    "other rank": lambda: weft.ones(2, 2),
    "other dtype": lambda: weft.ones(4, dtype=weft.float64),
    "integers": lambda: weft.ones(4, dtype=weft.int64),
    "other strides": lambda: weft.arange(8.0)[::2],
    "backwards": lambda: weft.arange(4.0).flip(0),
    "a view": lambda: weft.arange(8.0)[2:6],
    "tracked": lambda: weft.ones(4, requires_grad=True),
    "tracked, not a leaf": lambda: weft.ones(4, requires_grad=True) * 2,
    "a parameter": lambda: nn.Parameter(weft.ones(4)),
    "read-only": lambda: weft.from_numpy(np.broadcast_to(np.float32(3.0), (4,))),
    "unaligned": lambda: weft.from_numpy(np.frombuffer(bytearray(17), np.float32, 4, 1)),
    "empty": lambda: weft.ones(0),
    "zero dimensions": lambda: weft.tensor(2.0),
    "float": lambda: 2.0,
    "inference": lambda: made_in_inference(),
}


@pytest.mark.parametrize("reads", [False, True])
def test_views_of_what_depends_on_no_input(reads: bool) -> None:
    def made(x: Any) -> Any:
        y = weft.ones(5)
        if reads:
            ROWS[0] = x
        return y.view(5, 1), y

    compiled = weft.compile(made, backend="native")
    for _ in range(5):
        for one, other in zip(compiled(weft.ones(3)), made(weft.ones(3))):
            same(one, other)


def made_in_inference() -> Any:
    with weft.inference_mode():
        return weft.ones(4)


@pytest.mark.filterwarnings("ignore:The given NumPy array is not writable")
@pytest.mark.parametrize("name", INPUTS)
def test_other_inputs(name: str) -> None:
    def function(x: Any) -> Any:
        return x * 2 + 1, x

    compiled = weft.compile(function, backend="native")
    for _ in range(4):
        same(compiled(weft.arange(4.0)), function(weft.arange(4.0)))
    assert is_direct(compiled)
    given = INPUTS[name]()
    found = compiled(given)
    same(found, function(given))
    assert found[1] is given


def test_views_of_data_are_served() -> None:
    def function(x: Any) -> Any:
        return x * 2

    data = weft.ones(4, 3)
    compiled = weft.compile(function, backend="native")
    for row in data:
        same(compiled(row), function(row))
    assert is_direct(compiled)
    views = [data[0], data[1]]
    assert compiled(views[0]).requires_grad is False
    data.requires_grad_()
    assert compiled(views[0]).requires_grad is function(views[0]).requires_grad is True


def test_modes_are_watched() -> None:
    def function(x: Any) -> Any:
        return x * 2

    x = weft.ones(3, requires_grad=True)
    compiled = weft.compile(function, backend="native")
    for _ in range(4):
        with weft.no_grad():
            assert not compiled(x).requires_grad
    assert is_direct(compiled)
    assert compiled(x).requires_grad
    with weft.inference_mode():
        assert compiled(x).is_inference()
    with weft.no_grad():
        assert not compiled(x).requires_grad and not compiled(x).is_inference()


def test_default_dtype_is_watched() -> None:
    def function(x: Any) -> Any:
        return x + weft.ones(3)

    compiled = weft.compile(function, backend="native")
    x = weft.ones(3, dtype=weft.float32)
    for _ in range(4):
        assert compiled(x).dtype == weft.float32
    weft.set_default_dtype(weft.float64)
    try:
        assert compiled(x).dtype == weft.float64
    finally:
        weft.set_default_dtype(weft.float32)


def test_results_are_new_each_time() -> None:
    compiled = weft.compile(lambda x: (x + 1, x * 2), backend="native")
    x = weft.ones(1000)
    kept = [compiled(x) for _ in range(6)]
    assert is_direct(compiled)
    addresses = {result.data_ptr() for pair in kept for result in pair}
    assert len(addresses) == 12
    kept[3][0].add_(5)
    same(kept[4][0], weft.full((1000,), 2.0))


def test_gradients_in_one_call() -> None:
    def step(a: Any, b: Any) -> Any:
        loss = ((a + b) * b).sum()
        return (loss, *weft.autograd.grad(loss, (a, b)))

    a, b = weft.rand(10, requires_grad=True), weft.rand(10, requires_grad=True)
    compiled = weft.compile(step, backend="native")
    for _ in range(4):
        found = compiled(a, b)
    assert is_direct(compiled)
    for one, other in zip(found, step(a, b)):
        assert one.requires_grad == other.requires_grad
        weft.testing.assert_close(one.detach(), other.detach())
    with pytest.raises(RuntimeError, match="second time"):
        found[0].backward()


def test_forward_with_gradients_outside() -> None:
    net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    compiled = weft.compile(lambda x: net(x).exp(), backend="native")
    x = weft.rand(5, 3, requires_grad=True)

    def gradients(function: Any, order: int) -> Any:
        found = weft.autograd.grad(function(x).sum(), [x, *net.parameters()], create_graph=order > 1)
        if order == 1:
            return found
        return weft.autograd.grad(sum((each * each).sum() for each in found), [x, *net.parameters()])

    for order in (1, 1, 1, 1, 2, 1):
        weft.testing.assert_close(
            gradients(compiled, order), gradients(lambda x: net(x).exp(), order), rtol=1e-4, atol=1e-6
        )
    assert is_direct(compiled)
    out = compiled(x)
    out.sum().backward()
    with pytest.raises(RuntimeError, match="second time"):
        out.sum().backward()
    out = compiled(x)
    with weft.no_grad():
        net[2].weight.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()
    out = compiled(x)
    assert out.grad_fn is not None and out.grad_fn.name() == "CompiledFunctionBackward"


def test_parts_of_gradients() -> None:
    def function(x: Any, y: Any) -> Any:
        return (x * y).sin(), (x + y).tanh()

    compiled = weft.compile(function, backend="native")
    x, y = weft.rand(4, requires_grad=True), weft.rand(4, requires_grad=True)
    for turn in range(8):
        ours, theirs = compiled(x, y), function(x, y)
        place = turn % 2 if turn > 3 else 0
        for one, other in zip(
            weft.autograd.grad(ours[place].sum(), (x, y)), weft.autograd.grad(theirs[place].sum(), (x, y))
        ):
            weft.testing.assert_close(one, other)
    assert is_direct(compiled)


def test_results_that_gradients_need_may_not_be_written() -> None:
    compiled = weft.compile(lambda x: x.exp(), backend="native")
    x = weft.rand(4, requires_grad=True)
    for _ in range(4):
        out = compiled(x)
    assert is_direct(compiled)
    out.detach().mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


def test_floats_may_vary() -> None:
    net = nn.Linear(2, 2)
    optimizer = weft.optim.SGD(net.parameters(), lr=0.1)

    def step(x: Any) -> Any:
        optimizer.zero_grad()
        loss = net(x).square().sum()
        loss.backward()
        optimizer.step()
        return loss

    compiled = weft.compile(step, backend="native")
    twin = nn.Linear(2, 2)
    twin.load_state_dict(net.state_dict())
    other = weft.optim.SGD(twin.parameters(), lr=0.1)
    x = weft.ones(3, 2)
    ahead = next(twin.parameters())._version - next(net.parameters())._version
    for turn in range(8):
        for group in (*optimizer.param_groups, *other.param_groups):
            group["lr"] = 0.1 / (turn + 1)
        compiled(x)
        other.zero_grad()
        twin(x).square().sum().backward()
        other.step()
        for one, expected in zip(net.parameters(), twin.parameters()):
            weft.testing.assert_close(one, expected)
            assert one._version == expected._version - ahead
            weft.testing.assert_close(one.grad, expected.grad)
    assert is_direct(compiled)


def test_classes_and_functions_may_die() -> None:
    def make() -> Any:
        class Holder:
            def times(self, x: Any) -> Any:
                return x * 2

        holder = Holder()
        compiled = weft.compile(lambda x: holder.times(x), backend="native")
        for _ in range(4):
            compiled(weft.ones(2))
        assert is_direct(compiled)
        return weakref.ref(Holder), weakref.ref(holder)

    refs = make()
    gc.collect()
    assert [ref() for ref in refs] == [None, None]


def test_nothing_leaks() -> None:
    compiled = weft.compile(lambda x, y: (x + y, x), backend="native")
    x, y = weft.ones(64), weft.ones(64)
    for _ in range(10):
        compiled(x, y)
    assert is_direct(compiled)
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.take_snapshot()
    for _ in range(2000):
        compiled(x, y)
    gc.collect()
    after = tracemalloc.take_snapshot()
    tracemalloc.stop()
    grown = sum(each.size_diff for each in after.compare_to(before, "filename"))
    assert grown < 50_000


def test_threads() -> None:
    def function(x: Any, y: Any) -> Any:
        return (x @ y).relu() + x, (x * y).sum()

    compiled = weft.compile(function, backend="native")
    x, y = weft.rand(64, 64), weft.rand(64, 64)
    for _ in range(4):
        expected = compiled(x, y)
    assert is_direct(compiled)
    wrong: list[str] = []

    def work() -> None:
        for _ in range(100):
            found = compiled(x, y)
            if any(not np.array_equal(a.numpy(), b.numpy()) for a, b in zip(found, expected)):
                wrong.append("differs")

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_arguments_that_are_one_object() -> None:
    def function(x: Any, y: Any) -> Any:
        x.add_(1)
        return x * y

    compiled = weft.compile(function, backend="native")
    for _ in range(4):
        same(compiled(weft.ones(4), weft.full((4,), 2.0)), weft.full((4,), 4.0))
    same_one = weft.ones(4)
    same(compiled(same_one, same_one), weft.full((4,), 4.0))
    storage = weft.arange(6.0)  # what is written overlaps what is read
    same(compiled(storage[:4], storage[2:]), weft.tensor([3.0, 8.0, 12.0, 20.0]))


def test_results_that_do_not_lie_row_by_row() -> None:
    def function(x: Any, y: Any) -> Any:
        return x.t() * 2, (y.permute(2, 0, 1) + 1).square(), x.t().abs().amax(0), x - 1

    compiled = weft.compile(function, backend="native")
    for _ in range(4):
        x, y = weft.randn(3, 4), weft.randn(2, 3, 5)
        ours, theirs = compiled(x, y), function(x, y)
        assert [each.stride() for each in ours] == [each.stride() for each in theirs]
        assert ours[0].stride() == (1, 4)
        same(ours, theirs)
    assert is_direct(compiled)
    ours[0].t().view(-1)[5] = 7.0  # its memory is one block
    assert ours[0][1, 1] == 7.0


def test_numbers_that_programs_compute() -> None:
    def function(x: Any) -> Any:
        total = x.sum().item()
        return total, x * 2, total * 0.5 + 1, x.amax().item()

    compiled = weft.compile(function, backend="native", fullgraph=True)
    kept = []
    for number in range(50):
        x = weft.arange(4.0) - number
        ours = compiled(x)
        same(ours, function(x))
        assert [type(each) for each in ours] == [float, weft.Tensor, float, float]
        kept.append((ours, function(x)))
    assert is_direct(compiled)
    for ours, theirs in kept:  # each call has floats of its own
        same(ours, theirs)
    x = weft.tensor([float("nan"), 1.0, -0.0, 2.0])
    assert np.isnan(compiled(x)[0]) and compiled(weft.tensor([-0.0]))[3].hex() == "-0x0.0p+0"


def test_numbers_beside_gradients() -> None:
    def function(x: Any, w: Any) -> Any:
        y = (x * w).square()
        return y.sum(), y.detach().amax().item()

    compiled = weft.compile(function, backend="native", fullgraph=True)
    for number in range(6):
        x, w = weft.arange(4.0) + number, weft.ones(4, requires_grad=True)
        loss, largest = compiled(x, w)
        loss.backward()
        assert largest == (number + 3.0) ** 2 and w.grad.tolist() == (2 * x * x).tolist()


def test_conditions_on_whole_numbers_are_computed_natively(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the graph does not run in the shortcut, numbers may be others in each call."""
    seen: list[list[str]] = []
    make = Entrance.making

    def watched(self: Any, lowering: Any, *rest: Any) -> Any:
        seen.append([check[0] for check in lowering.rows])
        return make(self, lowering, *rest)

    monkeypatch.setattr(Entrance, "making", watched)

    def f(x: Any, n: int) -> Any:
        y = weft.linalg.svd(x)[1]
        return y + 1 if n * 2 > 5 else y

    compiled, x = weft.compile(f, backend="native"), weft.eye(3)
    for n in (3, 4, 5, 6):
        same(compiled(x, n), f(x, n))
    assert has_shortcut(compiled) and not is_direct(compiled)
    assert {"whole", "mul", "gt", "true"} < set(seen[-1]) and "call_missing" not in seen[-1]
    for n in (2, 7, True, 2**62):  # the last has no double in 64 bits
        same(compiled(x, n), f(x, n))


def test_conditions_on_floats_are_computed_natively() -> None:
    """Bounds that vary are asked in each call, and without Python."""

    def f(x: Any, delta: float) -> Any:
        return nn.functional.huber_loss(x, x * 0, delta=delta), x.clamp(-delta, delta)

    compiled, x = weft.compile(f, backend="native"), weft.linspace(-3, 3, 7)
    for delta in (0.5, 0.75, 1.25, 2.0, 0.3):
        weft.testing.assert_close(compiled(x, delta), f(x, delta))
    native = installed(compiled).run.__globals__["_v_shortcut"]
    assert is_direct(compiled)
    miss = native(f, x, -1.0)
    assert miss is native(f, x, 0.0) is native(f, x, 1) is native(f, x, 1e39)
    assert len(native(f, x, 0.7)) == 2
    with pytest.raises(RuntimeError, match="non-positive values for delta"):
        compiled(x, -1.0)


# -- what comes behind a program -----------------------------------------------------------------------------
ENDS: dict[str, Callable[[Any], Any]] = {
    "detached twice": lambda x: ((loss := (x * 2).sum(1)).detach(), loss.detach(), loss),
    "a view and its base": lambda x: ((y := x.exp()), y[1:], y.view(-1)[2:]),
    "views alone": lambda x: ((x + 1).t(), (x * 3)[0]),
    "a view of an input": lambda x: (x[1], x.sum()),
    "the same twice": lambda x: ((y := x.tanh()), y),
    "a dict of views": lambda x: {"a": (y := x * x).unbind(1), "b": [y]},
}


@pytest.mark.parametrize("name", ENDS)
@pytest.mark.parametrize("dynamic", [False, True])
def test_views_are_made_behind_the_program(name: str, dynamic: bool) -> None:
    compiled, wanted = weft.compile(ENDS[name], backend="native", dynamic=dynamic), ENDS[name]
    for size in (3, 3, 3, *((4, 5, 6, 3) if dynamic else (3,))):
        given = weft.randn(size, 4)
        results = []
        for run in (compiled, wanted):
            x = given.clone()
            found = [*flat(run(x))]
            with weft.no_grad():
                found[0].mul_(2)  # as far as others share its memory, they see that
                found[-1].add_(1)
            results.append([*found, x, *[weft.tensor(each._version) for each in found]])
        weft.testing.assert_close(*results)
    assert is_direct(compiled)


def flat(value: Any) -> Any:
    for each in value.values() if isinstance(value, dict) else value:
        yield from flat(each) if isinstance(each, (tuple, list)) else (each,)


def accumulating() -> Any:
    weft.manual_seed(0)
    net = nn.Linear(4, 3)
    optimizer = weft.optim.AdamW(net.parameters(), lr=1e-2)
    schedule = weft.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 / (1 + step))
    history: list[Any] = []

    def step(x: Any, last: bool) -> Any:
        loss = net(x).square().mean()
        loss.backward()
        history.append(loss.detach())
        if last:
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
        return loss.detach()

    return step, net, history


def test_steps_that_take_gradients_away_run_natively(monkeypatch: pytest.MonkeyPatch) -> None:
    """And count steps by numbers of Python's, which no program reads."""
    (step, net, history), (eager, other, expected) = accumulating(), accumulating()
    compiled = weft.compile(step, backend="native")
    counted = calls_by_python(monkeypatch)
    for number in range(40):
        x, last = weft.randn(5, 4), number % 3 == 2
        before = counted[0]
        weft.testing.assert_close(compiled(x, last), eager(x, last))
        assert number < 24 or counted[0] == before
        for one, two in zip(net.parameters(), other.parameters(), strict=True):
            assert (one.grad is None) == (two.grad is None) == last
    np.testing.assert_allclose([each.item() for each in history], [each.item() for each in expected], 1e-5)


def test_a_tensor_that_gets_other_data_while_its_shortcut_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """As by another thread: its program must not serve calls of the size that guards have seen."""
    x, call, direct = weft.ones(4), CompiledFunction.__call__, Machine.direct

    def called(self: Any, *inputs: Any) -> Any:
        x.data = weft.ones(50)
        try:
            return call(self, *inputs)
        finally:
            x.data = weft.ones(4)

    def described(self: Any, graph: Any, inputs: Any) -> Any:
        x.data = weft.ones(50)
        return direct(self, graph, inputs)

    compiled = weft.compile(lambda x: (x * 2).sum(), dynamic=False)
    with monkeypatch.context() as patched:
        patched.setattr(CompiledFunction, "__call__", called)
        patched.setattr(Machine, "direct", described)
        for _ in range(4):
            x.data = weft.ones(4)
            compiled(x)
    for size in (4, 50, 4, 50):
        assert compiled(weft.ones(size)).item() == 2 * size
