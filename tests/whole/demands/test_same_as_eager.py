"""Users' cases of "compiled means the same as eager": see docs/demands.md, item 3."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import weft
from tests.capture.features import harness
from tests.whole.demands.cases import differences_agree, facts, leaf, one, plain, table
from weft import func, nn
from weft.autograd import Function, grad

Check = Callable[..., Any]


class Rounded(Function):
    """Rounds, and lets three times the gradient through: no rule of its parts would give that."""

    @staticmethod
    def forward(x):
        return x.round()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 3 * g * x

    @staticmethod
    def jvp(ctx, tangent):
        (x,) = ctx.saved_tensors
        return 3 * tangent * x


def rounded_loss(x):
    return (Rounded.apply(x) * 2).sum()


def test_pytorch_193279_a_custom_backward_inside_func_grad(check: Check) -> None:
    def inside(x):
        return func.grad(rounded_loss)(x)

    def second(x):
        return func.grad(lambda y: func.grad(rounded_loss)(y).sum())(x)

    def pulled(x):
        loss, pull = func.vjp(rounded_loss, x)
        return loss, pull(weft.ones_like(loss))

    def forward(x):
        return func.jvp(rounded_loss, (x,), (weft.ones_like(x),))

    for case in (inside, second, pulled, forward, func.grad(rounded_loss)):
        check(case, lambda: (plain(),))
    assert inside(plain()).tolist() == (6 * plain()).tolist()


class Stretched(Function):
    @staticmethod
    def forward(ctx, x, factor):
        ctx.factor = factor
        x.mul_(factor)
        ctx.mark_dirty(x)
        return x

    @staticmethod
    def backward(ctx, g):
        return g * ctx.factor, None


def test_pytorch_184113_a_matmul_changed_in_place_by_a_function(check: Check, backend: str) -> None:
    x = table(3, 2)

    def dropped(w):
        y = x @ w
        Stretched.apply(y, 3.0)
        return (y * y).sum()

    def used(w):
        y = x @ w
        y = Stretched.apply(y, 3.0)
        return (y * y).sum()

    def gradient(loss: Any) -> Any:
        loss.backward()

    weights = lambda: (table(2, 4, requires_grad=True),)
    for case in (dropped, used):
        check(case, weights, after=gradient)
        differences_agree(case, *weights(), backend=backend)


def test_pytorch_184113_heads_turned_in_place(check: Check, backend: str) -> None:
    """The thread's own program: positions turned into the heads of a projection, the result thrown away."""
    x = table(3, 2)
    angle = 0.4
    cosine, sine = 0.9210609940028851, 0.3894183423086505

    class Rotated(Function):
        @staticmethod
        def forward(ctx, heads):
            ctx.mark_dirty(heads)
            even, odd = heads[:, 0::2].clone(), heads[:, 1::2].clone()
            heads[:, 0::2] = even * cosine - odd * sine
            heads[:, 1::2] = even * sine + odd * cosine
            return heads

        @staticmethod
        def backward(ctx, g):
            even, odd = g[:, 0::2], g[:, 1::2]
            back = weft.empty_like(g)
            back[:, 0::2] = even * cosine + odd * sine
            back[:, 1::2] = odd * cosine - even * sine
            return back

    def f(w):
        heads = x @ w
        Rotated.apply(heads)
        return (heads * weft.arange(4, dtype=weft.float64)).square().sum()

    assert abs(cosine - weft.tensor(angle, dtype=weft.float64).cos().item()) < 1e-12
    weights = lambda: (table(2, 4, requires_grad=True),)
    check(f, weights, after=lambda loss: loss.backward())
    differences_agree(f, *weights(), backend=backend)


def test_pytorch_115750_a_backward_hook_registered_after_compiling(check: Check) -> None:
    layers: list[Any] = []
    calls = [0]

    def start() -> None:
        layer = nn.Linear(3, 3, bias=False).double()
        layer.weight = nn.Parameter(weft.eye(3, dtype=weft.float64))
        layers[:] = [layer]
        calls[0] = 0

    def arguments() -> Any:
        calls[0] += 1
        if calls[0] == 2:
            layers[0].register_full_backward_hook(lambda module, inputs, outputs: [inputs[0] * 2])
        elif calls[0] == 3:
            layers[0].register_full_backward_pre_hook(lambda module, outputs: [outputs[0] * 10])
        return one()

    def f(x):
        return layers[0](x)

    def gradient(y: Any) -> Any:
        y.sum().backward()

    watched: list[Any] = []

    def keep() -> Any:
        made = arguments()
        watched[:] = made
        return made

    check(
        f, keep, keep, keep, state=start, after=gradient, frames=3, watch=lambda: [watched[0].grad, calls[0]]
    )
    assert watched[0].grad.tolist() == [20.0, 20.0, 20.0]


def test_tinygrad_16618_an_argument_updated_in_a_step(check: Check) -> None:
    x = table(8, 3)
    y = x @ table(3, 1, start=0.4)
    weights: list[Any] = []

    def step(w):
        loss = ((x @ w - y) ** 2).mean()
        (g,) = grad(loss, w)
        with weft.no_grad():
            w.copy_(w - 0.3 * g)
        return loss.detach()

    def start() -> None:
        weights[:] = [weft.zeros(3, 1, dtype=weft.float64, requires_grad=True)]

    def same() -> Any:
        return (weights[0],)

    losses: list[float] = []

    def watch() -> Any:
        return facts(weights[0])

    check(step, *[same] * 5, state=start, watch=watch, after=lambda loss: losses.append(loss.item()))
    assert losses[5:] == sorted(losses[5:], reverse=True) and len(set(losses[5:])) == 5


def test_thunder_1284_a_leaf_written_in_place_raises(check: Check) -> None:
    def f(x):
        return x.mul_(2)

    check(f, one, raises=RuntimeError, frames=None)

    def caught(x):
        y = x * 3
        try:
            x.mul_(2)
        except RuntimeError as error:
            return str(error), y

    check(caught, one)
    compiled = weft.compile(f, fullgraph=True)
    x = leaf()
    try:
        compiled(x)
    except RuntimeError as error:
        assert str(error) == "a leaf Variable that requires grad is being used in an in-place operation."
    assert x.tolist() == leaf().tolist() and x._version == 0


def test_thunder_1284_a_write_that_is_allowed_is_differentiated(check: Check, backend: str) -> None:
    def f(x):
        y = x.clone()
        y.mul_(x)
        return y.sin_()

    check(f, one, after=lambda y: grad(y.sum(), y))
    differences_agree(f, leaf(), backend=backend)
    harness.check(f, one, backend=backend)
