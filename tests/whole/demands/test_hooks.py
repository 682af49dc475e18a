"""Users' cases of hooks in compiled code, with side effects: see docs/demands.md, item 7."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import weft
from tests.whole.demands.cases import facts, leaf, one, table
from weft import nn
from weft.utils.checkpoint import checkpoint

Check = Callable[..., Any]


class World:
    """A model made anew for each side, what hooks wrote down, and handles."""

    def __init__(self, make: Callable[[], Any] | None = None) -> None:
        self.make = make
        self.log: list[Any] = []
        self.model: Any = None
        self.handles: list[Any] = []
        self.calls = 0

    def __call__(self) -> None:
        weft.manual_seed(0)
        self.log.clear()
        self.calls = 0
        self.handles = []
        if self.make is not None:
            self.model = self.make().double()

    def gradients(self) -> Any:
        return [self.log, [p.grad for p in self.model.parameters()]]


def perceptron() -> Any:
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))


# -- pytorch#91665 -------------------------------------------------------------------------------------------
def test_pytorch_91665_every_hook_of_a_module_fires(check: Check) -> None:
    world = World(perceptron)

    def start() -> None:
        world()
        log, model = world.log, world.model
        model[0].register_forward_pre_hook(lambda m, args: log.append("pre") or (args[0] * 2,))
        model[0].register_forward_hook(lambda m, args, out: log.append(("forward", out.shape)) or out + 1)
        model[2].register_full_backward_pre_hook(lambda m, outs: log.append("backward pre"))
        model[2].register_full_backward_hook(lambda m, ins, outs: log.append("backward"))

    def inside(x):
        world.model.zero_grad()
        loss = world.model(x).square().sum()
        loss.backward()
        return loss

    def outside(x):
        return world.model(x).square().sum()

    check(inside, one, state=start, watch=world.gradients)
    check(outside, one, state=start, watch=world.gradients, after=lambda loss: loss.backward())
    assert world.log == ["pre", ("forward", weft.Size([4])), "backward pre", "backward"] * 2


# -- pytorch#117758 ------------------------------------------------------------------------------------------
def test_pytorch_117758_forward_hooks_registered_after_the_first_call(check: Check) -> None:
    world = World(perceptron)
    sums: dict[int, Any] = {}

    def start() -> None:
        world()
        sums.clear()

    def arguments() -> Any:
        world.calls += 1
        if world.calls == 2:
            for place in (0, 2):
                hook = lambda m, args, out, place=place: sums.__setitem__(place, out.sum())
                world.handles.append(world.model[place].register_forward_hook(hook))
        elif world.calls == 3:
            for handle in world.handles:
                handle.remove()
            sums.clear()
        return one()

    def f(x):
        return world.model(x)

    check(f, *[arguments] * 3, state=start, watch=lambda: dict(sums), frames=2)
    assert not sums


# -- pytorch#173452 ------------------------------------------------------------------------------------------
def test_pytorch_173452_hooks_that_gather_statistics(check: Check) -> None:
    """Gradients of every layer are counted, summed and kept by hooks, and one of them is changed."""
    world = World(perceptron)
    statistics: dict[str, Any] = {}

    def start() -> None:
        world()
        statistics.update({f"layer {place}": weft.zeros((), dtype=weft.float64) for place in range(3)})
        statistics["count"] = 0

    def note(name):
        def hook(g):
            statistics["count"] += 1
            statistics[name] = statistics[name] + g.abs().sum()
            return g.clamp(-0.5, 0.5) if name == "layer 1" else None

        return hook

    def forward(x):
        for place, layer in enumerate(world.model):
            x = layer(x)
            x.register_hook(note(f"layer {place}"))
        return x.square().sum()

    def inside(x):
        world.model.zero_grad()
        loss = forward(x)
        loss.backward()
        return loss

    watch = lambda: [dict(statistics), world.gradients()]
    check(inside, one, one, one, state=start, watch=watch, frames=1)  # in which `count` may be any number
    check(forward, one, state=start, watch=watch, after=lambda loss: loss.backward())
    assert statistics["count"] == 6


# -- pytorch PR#181763 ---------------------------------------------------------------------------------------
def test_pytorch_181763_hooks_on_inputs_intermediates_and_parameters(check: Check) -> None:
    """Registered inside the compiled code, on everything that can have one, some of them removed again."""
    log: list[str] = []
    weights: list[Any] = []

    def start() -> None:
        log.clear()
        weights[:] = [leaf(1.0, 2.0, 3.0)]

    def f(x):
        x.register_hook(lambda g: log.append("input") or g * 2)
        y = x * weights[0]
        y.register_hook(lambda g: log.append("intermediate") or g + 1)
        gone = y.register_hook(lambda g: log.append("removed") or g * 0)
        gone.remove()
        z = y.sin()
        z.register_hook(lambda g: log.append("last"))
        return (z * z).sum()

    def inside(x):
        weights[0].grad = None
        handle = weights[0].register_post_accumulate_grad_hook(lambda p: log.append("accumulated"))
        f(x).backward()
        handle.remove()

    given: list[Any] = []

    def arguments() -> Any:
        given.append(leaf())
        return (given[-1],)

    watch = lambda: [list(log), facts(weights[0]), given[-1].grad]
    check(f, arguments, state=start, watch=watch, after=lambda loss: loss.backward())
    check(inside, arguments, state=start, watch=watch)
    assert log == ["last", "intermediate", "accumulated", "input"] * 2 or set(log) == {
        "last", "intermediate", "accumulated", "input"
    }  # fmt: skip


def test_pytorch_181763_a_hook_inside_a_checkpoint(check: Check) -> None:
    log: list[Any] = []

    def region(x):
        y = x.sin()
        y.register_hook(lambda g: log.append(g.sum()))
        return y * x

    def f(x):
        checkpoint(region, x, use_reentrant=False).sum().backward()
        return x.grad

    check(f, one, state=log.clear, watch=lambda: list(log))


# -- Thunder#307 ---------------------------------------------------------------------------------------------
def test_thunder_307_a_hook_that_checks_that_backward_was_called(check: Check) -> None:
    state = {"called": 0}
    given: list[Any] = []

    def arguments() -> Any:
        given.append(leaf())
        return (given[-1],)

    def start() -> None:
        state["called"] = 0

    def f(x):
        y = x * 2

        def hook(_):
            state["called"] += 1

        y.register_hook(hook)
        return y

    def later(y: Any) -> Any:
        before = state["called"]
        y.sum().backward()
        return before, state["called"], given[-1].grad

    check(f, arguments, state=start, after=later, watch=lambda: dict(state))
    assert state == {"called": 2}


# -- HIPS autograd#706 ---------------------------------------------------------------------------------------
def test_hips_autograd_706_gradients_of_intermediate_values_are_seen(check: Check) -> None:
    class Kept:
        hidden: Any = None

    kept = Kept()
    x, y = table(4, 3), table(4, 1)

    def keep(g):
        kept.hidden = g

    def f(w, v):
        hidden = (x @ w).tanh()
        hidden.register_hook(keep)
        out = hidden @ v
        out.retain_grad()
        loss = ((out - y) ** 2).mean()
        loss.backward()
        return out, out.grad

    arguments = lambda: (table(3, 2, requires_grad=True), table(2, 1, requires_grad=True))
    check(f, arguments, watch=lambda: kept.hidden)
    assert kept.hidden.shape == (4, 2)
