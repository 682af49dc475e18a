"""Gradients taken inside captured code: one graph, with the effects that eager has, in eager's order."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

import weft
from tests.capture.features import harness
from weft import nn
from weft.autograd import Function, grad

BACKENDS = ("eager", "aot_eager")


@pytest.fixture(params=BACKENDS)
def check(request: pytest.FixtureRequest) -> Callable[..., Any]:
    return partial(harness.check, backend=request.param)


def leaf(*values: float) -> weft.Tensor:
    return weft.tensor(values or (1.0, 2.0, 3.0), requires_grad=True)


def one() -> tuple[weft.Tensor]:
    return (leaf(),)


def two() -> tuple[weft.Tensor, weft.Tensor]:
    return leaf(), leaf(0.5, -1.0, 2.0)


class Watched:
    """Tensors made anew for each side, and what became of them."""

    def __init__(self, *makers: Callable[[], Any]) -> None:
        self.makers = makers
        self.log: list[Any] = []
        self.values: list[Any] = []
        self.node: Any = None

    def __call__(self) -> None:
        self.values = [make() for make in self.makers]
        self.log = []

    def seen(self) -> list[Any]:
        return [self.log, *[facts(value) for value in self.values]]

    def __getitem__(self, place: int) -> Any:
        return self.values[place]


def facts(tensor: weft.Tensor) -> tuple[Any, ...]:
    return tensor, tensor.grad, tensor.requires_grad, tensor.is_leaf, tensor._version


def again(loss: weft.Tensor) -> str:
    """What a second backward says."""
    try:
        loss.backward()
    except RuntimeError as error:
        return str(error)
    return "nothing"


# -- backward ------------------------------------------------------------------------------------------------
def test_backward_sums_into_leaves(check: Callable[..., Any]) -> None:
    def f(x, y):
        (x * y).sum().backward()
        return x.grad + y.grad

    check(f, two)


def test_grad_is_the_same_object_updated_in_place(check: Callable[..., Any]) -> None:
    w = Watched(leaf)
    kept: list[Any] = []

    def f(x):
        (w[0] * x).square().sum().backward()

    def start() -> None:
        w()
        w[0].grad = weft.ones(3)
        kept[:] = [w[0].grad]

    check(f, harness.one, state=start, watch=lambda: [w.seen(), kept[0] is w[0].grad, kept[0]._version])


def test_one_gradient_for_two_leaves_is_two_tensors(check: Callable[..., Any]) -> None:
    w = Watched(leaf, leaf)

    def f(x):
        (w[0] + w[1] + x).sum().backward()

    def use() -> Any:
        w[0].grad.add_(1)
        return w.seen()

    check(f, harness.one, state=w, watch=use, frames=2)


def test_a_gradient_given_by_the_caller_stays_the_callers(check: Callable[..., Any]) -> None:
    def f(x, g):
        x.backward(g)
        return x

    def use(x: Any) -> Any:
        x.grad.add_(1)
        return x.grad

    check(f, lambda: (leaf(), harness.tensor()), after=use)


def test_the_history_of_what_is_returned_is_spent(check: Callable[..., Any]) -> None:
    def f(x):
        loss = (x * x * x).sum()
        loss.backward()
        return loss

    check(f, one, after=again)


def test_a_linear_history_is_not_spent(check: Callable[..., Any]) -> None:
    def f(x):
        loss = (x + x).sum()
        loss.backward()
        return loss

    check(f, one, after=again)


def test_a_retained_history_serves_again(check: Callable[..., Any]) -> None:
    def f(x):
        loss = (x * x).sum()
        loss.backward(retain_graph=True)
        loss.backward(retain_graph=True)
        return loss

    check(f, one, after=again)


def test_a_second_backward_raises(check: Callable[..., Any]) -> None:
    def f(x):
        loss = (x * x).sum()
        loss.backward()
        try:
            loss.backward()
        except RuntimeError as error:
            return str(error)[:40]

    check(f, one)


def test_what_shares_a_spent_history_is_spent_too(check: Callable[..., Any]) -> None:
    def f(x):
        shared = x.exp()
        shared.sum().backward()
        return (shared * 2).sum()

    check(f, one, after=again)


@pytest.mark.parametrize("inputs", ["one", "list", "generator"])
def test_inputs_of_backward(inputs: str, check: Callable[..., Any]) -> None:
    def f(x, y):
        given = {"one": x, "list": [x], "generator": (t for t in (x,))}[inputs]
        (x * y).sum().backward(inputs=given)
        return y.grad

    check(f, two)


def test_backward_of_several_outputs(check: Callable[..., Any]) -> None:
    def f(x, y):
        weft.autograd.backward([x * y, (x + y).sum()], [weft.ones(3), None])

    check(f, two)


def test_backward_of_a_vector_raises(check: Callable[..., Any]) -> None:
    def f(x):
        (x * 2).backward()

    harness.check(f, one, raises=RuntimeError, frames=0)


def test_backward_without_history_raises(check: Callable[..., Any]) -> None:
    def f(x):
        (x * 2).sum().backward()

    harness.check(f, harness.one, raises=RuntimeError, frames=0)


def test_a_stale_tensor_raises(check: Callable[..., Any]) -> None:
    def f(x):
        y = x.exp()
        z = y.sum()
        y.add_(1)
        z.backward()

    harness.check(f, one, raises=RuntimeError, frames=0)


@pytest.mark.filterwarnings("ignore:Using backward")
def test_create_graph_leaves_a_differentiable_gradient(check: Callable[..., Any]) -> None:
    def f(x):
        (x**3).sum().backward(create_graph=True)
        first = x.grad
        x.grad = None
        first.sum().backward()
        return first.detach(), x.grad

    check(f, one)


def test_no_grad_inside(check: Callable[..., Any]) -> None:
    def f(x):
        y = (x * x).sum()
        with weft.no_grad():
            z = x * 3
        (y + z.sum()).backward()
        return z

    check(f, one)


def test_backward_within_no_grad(check: Callable[..., Any]) -> None:
    def f(x):
        y = (x * x).sum()
        with weft.no_grad():
            y.backward()
            x.sub_(x.grad)

    check(f, one)


def test_a_leaf_made_inside(check: Callable[..., Any]) -> None:
    def f(x):
        w = weft.ones(3, requires_grad=True)
        (w * x).sum().backward()
        return w, w.grad

    check(f, harness.one, after=lambda pair: [facts(pair[0]), pair[0].grad is pair[1]])


def test_requires_grad_of_an_argument(check: Callable[..., Any]) -> None:
    def f(x):
        x.requires_grad_()
        (x * x).sum().backward()
        return x.grad

    check(f, harness.one)


def test_requires_grad_by_assignment(check: Callable[..., Any]) -> None:
    def f(x):
        y = x.detach()
        y.requires_grad = True
        (y * y).sum().backward()
        return y, y.grad

    check(f, one, after=lambda pair: [*facts(pair[0])])


def test_gradients_through_views_and_writes(check: Callable[..., Any]) -> None:
    def f(x, y):
        z = x.clone()
        z[1:] = y[1:] * 2
        z.view(3, 1)[0].mul_(3)
        (z * z).sum().backward()
        return z

    check(f, two, after=again)


def test_indices_with_repeats(check: Callable[..., Any]) -> None:
    places = weft.tensor([0, 2, 0])

    def f(x):
        (x[places] * weft.tensor([1.0, 2.0, 3.0])).sum().backward()

    check(f, one)


def test_a_loop_of_steps(check: Callable[..., Any]) -> None:
    def f(x):
        losses = []
        for _ in range(3):
            loss = (x**2).sum()
            loss.backward()
            with weft.no_grad():
                x -= 0.1 * x.grad
            x.grad = None
            losses.append(loss)
        return losses

    check(f, one, after=lambda losses: [again(loss) for loss in losses])


def test_a_break_after_backward(check: Callable[..., Any], capsys: Any) -> None:
    def f(x):
        loss = (x * x).sum()
        loss.backward()
        print("done")
        return loss * 2

    check(f, one, frames=2, breaks=1, after=again)


def test_a_break_between_forward_and_backward(check: Callable[..., Any], capsys: Any) -> None:
    def f(x):
        loss = (x * x).sum()
        print("forward")
        loss.backward()
        return loss

    check(f, one, frames=None, breaks=None, after=again)


def test_a_tape_from_outside(check: Callable[..., Any]) -> None:
    """Gradients of `x` flow to it behind `y` too, where captured code cannot see."""

    def part(x, y):
        return grad((y * x).sum(), x)

    def unused(x, y):
        return grad(y.sum(), x, allow_unused=True)

    def into_leaf(x, y):
        (y * x).sum().backward(inputs=[x])
        return x.grad

    def both(x, y):
        return grad((y * x).sum(), [x, y])

    def made() -> Any:
        x = leaf()
        return x, x * x

    for function in (part, unused, into_leaf, both):
        check(function, made, frames=None, breaks=None)
    check(lambda y: grad((y * y).sum(), y), lambda: made()[1:])


def test_a_tape_from_before_a_break(check: Callable[..., Any], capsys: Any) -> None:
    def f(x):
        y = x * x
        print("between")
        return grad((y * x).sum(), x)

    check(f, one, frames=None, breaks=None)


# -- autograd.grad -------------------------------------------------------------------------------------------
def test_grad(check: Callable[..., Any]) -> None:
    def f(x, y):
        return grad((x * y).sum(), (x, y))

    check(f, two)


@pytest.mark.parametrize("materialize", [False, True])
def test_unused_inputs(materialize: bool, check: Callable[..., Any]) -> None:
    def f(x, y):
        return grad((x * x).sum(), [x, y], allow_unused=True, materialize_grads=materialize)

    check(f, two)


def test_an_unused_input_raises() -> None:
    def f(x, y):
        return grad((x * x).sum(), [x, y])

    harness.check(f, two, raises=RuntimeError, frames=0)


def test_the_gradient_of_an_intermediate(check: Callable[..., Any]) -> None:
    def f(x):
        h = x * 2
        return grad((h * h).sum(), h)[0]

    check(f, one)


def test_a_gradient_that_is_the_given_one(check: Callable[..., Any]) -> None:
    def f(x, g):
        (a,) = grad(x, x, g)
        return a is g, a

    def use(pair: Any) -> Any:
        pair[1].add_(1)
        return pair[1]

    check(f, lambda: (leaf(), harness.tensor()), after=use)


def test_gradients_to_the_third_order(check: Callable[..., Any]) -> None:
    def f(x):
        results = []
        y = (x**4).sum()
        for _ in range(3):
            (y,) = grad(y.sum(), x, create_graph=True)
            results.append(y)
        return results

    check(f, one, after=lambda results: grad(results[0].sum(), results[0], allow_unused=True))


def test_a_hessian_vector_product(check: Callable[..., Any]) -> None:
    def f(x, v):
        (g,) = grad((x.sin() * x).sum(), x, create_graph=True)
        return grad(g, x, v)[0]

    check(f, lambda: (leaf(), harness.tensor(0.5, 1.0, -1.0)))


def test_forces_are_trained_outside(check: Callable[..., Any]) -> None:
    """A gradient inside, and another through it outside."""
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))

    def f(x):
        energy = model(x).sum()
        return energy, -grad(energy, x, create_graph=True)[0]

    def train(pair: Any) -> Any:
        model.zero_grad()
        (pair[0] ** 2 + (pair[1] ** 2).sum()).backward()
        return [p.grad for p in model.parameters()]

    check(f, one, after=train)


def test_batched_gradients(check: Callable[..., Any]) -> None:
    def f(x):
        return grad(x * x, x, weft.eye(3), is_grads_batched=True)[0]

    check(f, one)


def test_a_gradient_penalty_in_one_step(check: Callable[..., Any]) -> None:
    def f(x, w):
        y = (x * w).tanh().sum()
        (g,) = grad(y, x, create_graph=True)
        ((g.norm() - 1) ** 2).backward()
        return w.grad

    check(f, two)


# -- hooks ---------------------------------------------------------------------------------------------------
def test_hooks_run_in_order_with_effects(check: Callable[..., Any]) -> None:
    w = Watched(leaf)

    def f(x):
        h = w[0] * x
        h.register_hook(lambda g: w.log.append("h"))
        w[0].register_hook(lambda g: w.log.append("w") or g * 2)
        k = h.exp()
        k.register_hook(lambda g: w.log.append("k"))
        k.sum().backward()

    check(f, harness.one, state=w, watch=lambda: [w.log, w[0].grad], frames=None)


def test_hooks_from_outside(check: Callable[..., Any]) -> None:
    w = Watched(leaf)

    def start() -> None:
        w()
        w[0].register_hook(lambda g: w.log.append("first") or g + 1)
        w[0].register_hook(lambda g: g * 2)
        w[0].register_post_accumulate_grad_hook(lambda p: w.log.append(p.grad is w[0].grad))

    def f(x):
        w[0].grad = None
        (w[0] * x).sum().backward()

    check(f, harness.one, state=start, watch=w.seen)


def test_a_hook_added_between_calls_is_noticed(check: Callable[..., Any]) -> None:
    w = Watched(leaf)
    calls = [0]

    def start() -> None:
        w()
        calls[0] = 0

    def arguments() -> Any:
        calls[0] += 1
        if calls[0] == 2:
            w[0].register_hook(lambda g: g * 10)
        return harness.one()

    def f(x):
        w[0].grad = None
        (w[0] * x).sum().backward()

    check(f, arguments, arguments, state=start, watch=w.seen, frames=2)


def on_the_node(w: Watched, kind: str) -> None:
    """Hooks the node that adds to the leaf's `.grad`."""
    w.node = (w[0] * 1).grad_fn.next_functions[0][0]
    if kind == "before":
        w.node.register_prehook(lambda outputs: w.log.append("before") or (outputs[0] * 10,))
    else:
        w.node.register_hook(lambda inputs, outputs: w.log.append((inputs, outputs[0].sum())))


@pytest.mark.parametrize("kind", ["before", "after"])
def test_hooks_from_outside_on_the_node_of_a_leaf(check: Callable[..., Any], kind: str) -> None:
    w = Watched(leaf)

    def start() -> None:
        w()
        on_the_node(w, kind)

    def f(x):
        w[0].grad = None
        (w[0] * x).sum().backward()

    check(f, harness.one, state=start, watch=w.seen)


@pytest.mark.parametrize("kind", ["before", "after"])
def test_a_hook_added_to_the_node_of_a_hooked_leaf_is_noticed(check: Callable[..., Any], kind: str) -> None:
    w = Watched(leaf)
    calls = [0]

    def start() -> None:
        w()
        w[0].register_hook(lambda g: g + 1)
        calls[0] = 0

    def arguments() -> Any:
        calls[0] += 1
        if calls[0] == 2:
            on_the_node(w, kind)
        return harness.one()

    def f(x):
        w[0].grad = None
        (w[0] * x).sum().backward()

    check(f, arguments, arguments, state=start, watch=w.seen, frames=2)


def test_an_optimizer_in_the_hooks(check: Callable[..., Any]) -> None:
    w = Watched(leaf, leaf)

    def update(p):
        with weft.no_grad():
            p -= 0.1 * p.grad
        p.grad = None

    def start() -> None:
        w()
        for value in w.values:
            value.register_post_accumulate_grad_hook(update)

    def f(x):
        loss = (w[0] * x + w[1]).square().sum()
        loss.backward()
        return loss

    check(f, harness.one, state=start, watch=w.seen)


def test_a_hook_that_reads_what_may_change(check: Callable[..., Any]) -> None:
    w = Watched(leaf)
    box = {"scale": 1.0}
    calls = [0.0]

    def start() -> None:
        w()
        calls[0] = 0.0
        w[0].register_hook(lambda g: g * box["scale"])

    def arguments() -> Any:
        calls[0] += 1.0
        box["scale"] = calls[0]
        return harness.one()

    def f(x):
        (w[0] * x).sum().backward()

    check(f, arguments, arguments, state=start, watch=w.seen, frames=None)


def test_a_hook_that_raises() -> None:
    def refuse(g):
        raise ValueError("not this way")

    def f(x):
        h = x * 2
        h.register_hook(refuse)
        h.sum().backward()

    harness.check(f, one, raises=ValueError, frames=0)


def test_an_error_in_a_hook_is_caught(check: Callable[..., Any]) -> None:
    def refuse(g):
        raise ValueError("not this way")

    def f(x):
        h = x * 2
        h.register_hook(refuse)
        try:
            h.sum().backward()
        except ValueError as error:
            return str(error), x * 2

    check(f, one)


def test_a_hook_of_another_shape_raises() -> None:
    def f(x):
        h = x * 2
        h.register_hook(lambda g: g[:1])
        h.sum().backward()

    harness.check(f, one, raises=RuntimeError, frames=0)


def test_a_removed_hook_is_gone(check: Callable[..., Any]) -> None:
    def f(x):
        h = x * 2
        handle = h.register_hook(lambda g: g * 100)
        h.sum().backward(retain_graph=True)
        handle.remove()
        h.sum().backward()

    check(f, one)


def test_retained_gradients(check: Callable[..., Any]) -> None:
    def f(x):
        h = x * 2
        h.retain_grad()
        (h * h).sum().backward()
        return h, h.grad, h.retains_grad

    harness.check(f, one, breaks=None, frames=None)

    def g(x):
        h = x * 2
        h.retain_grad()
        (h * h).sum().backward()
        return h, h.grad

    check(g, one)


def test_retained_for_a_backward_outside(check: Callable[..., Any]) -> None:
    def f(x):
        h = x * 2
        h.retain_grad()
        return h, (h * h).sum()

    def later(pair: Any) -> Any:
        pair[1].backward()
        return pair[0].grad

    check(f, one, after=later)


def test_a_hook_on_an_intermediate_for_a_backward_outside(check: Callable[..., Any]) -> None:
    w = Watched(leaf)

    def f(x):
        h = w[0] * x
        h.register_hook(lambda g: w.log.append("h") or g * 2)
        return (h * h).sum()

    def later(loss: Any) -> Any:
        loss.backward()

    check(f, harness.one, state=w, watch=w.seen, after=later)


def test_hooks_that_nobody_can_meet(check: Callable[..., Any]) -> None:
    """One on a tensor that goes nowhere, and one on a tensor that another hook holds and hands out."""
    w = Watched(leaf)

    def f(x):
        nowhere = (w[0] * 5).exp()
        nowhere.register_hook(lambda g: w.log.append("nowhere"))
        held = w[0] * 3
        held.register_hook(lambda g: w.log.append("held"))
        h = w[0] * x
        h.register_hook(lambda g: w.log.append(held))
        return (h * h).sum()

    def later(loss: Any) -> Any:
        loss.backward(retain_graph=True)
        w.log[-1].sum().backward()

    check(f, harness.one, state=w, watch=w.seen, after=later)


def test_a_hook_on_the_node_of_one_of_several_results(check: Callable[..., Any]) -> None:
    w = Watched(leaf)

    def f(x):
        values, _ = (w[0] * x).sort()
        values.grad_fn.register_hook(lambda inputs, outputs: w.log.append(len(inputs)))
        return (values * values).sum()

    def later(loss: Any) -> Any:
        loss.backward()

    check(f, harness.one, state=w, watch=w.seen, after=later)


def test_module_hooks(check: Callable[..., Any]) -> None:
    w = Watched(leaf)
    models: list[Any] = []

    def start() -> None:
        w()
        weft.manual_seed(0)
        model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
        model[0].register_forward_hook(lambda m, i, o: w.log.append("forward") or o * 2)
        model[1].register_forward_pre_hook(lambda m, i: w.log.append("pre"))
        model[2].register_full_backward_hook(lambda m, i, o: w.log.append("backward"))
        model[0].register_full_backward_pre_hook(lambda m, o: w.log.append("backward pre"))
        models[:] = [model]

    def f(x):
        loss = models[0](x).square().sum()
        loss.backward()
        return loss

    check(f, one, state=start, watch=lambda: [w.log, [p.grad for p in models[0].parameters()]], frames=None)


# -- custom Functions ----------------------------------------------------------------------------------------
class Cube(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * 3 * x**2


def test_a_custom_function(check: Callable[..., Any]) -> None:
    def f(x):
        (g,) = grad(Cube.apply(x).sum(), x, create_graph=True)
        g.sum().backward()
        return g.detach()

    check(f, one)


# -- lifetimes -----------------------------------------------------------------------------------------------
def test_entries_keep_no_tensor_alive() -> None:
    w = leaf()

    def f(x):
        (w * x).sum().backward()

    compiled = weft.compile(f, fullgraph=True)
    x = harness.tensor()
    gc.collect()
    gc.disable()
    try:
        compiled(x)
        kept = weakref.ref(x), weakref.ref(w.grad)
        w.grad = None
        del x
        assert [reference() for reference in kept] == [None, None]
    finally:
        gc.enable()


def test_what_tensors_are_made_of_is_not_looked_into() -> None:
    seen: list[Any] = []

    def f(x):
        seen.append(type(x.array).__name__)
        return x + 1

    harness.check(f, state=seen.clear, watch=lambda: seen, frames=1, breaks=1)
