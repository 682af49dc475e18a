"""Open sizes: one plan serves them, and compiled calls give what eager ones do at each."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import weft
from tests.aot.differing import assert_same, assert_same_layer, copies, gradients
from weft.aot import runtime
from weft.aot.sizes import layout, open_sizes, strides_of
from weft.core import settings as core_settings
from weft.core import varying
from weft.graph.text import TAKES_SIZES
from weft.nn import functional as F

BATCHES = (3, 5, 7, 12, 4, 9)
PAIRS = ((3, 4), (5, 6), (7, 3), (4, 12), (6, 5))


@pytest.fixture(autouse=True)
def afresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core_settings.settings, "strict", True)
    monkeypatch.setattr(varying, "LOUD", 1000)  # plans are counted here
    weft.compiler.reset()


def floats(*shape: int, grad: bool = True) -> weft.Tensor:
    return weft.randn(*shape, dtype=weft.float64).requires_grad_(grad)


def over_sizes(
    function: Callable[..., Any],
    make: Callable[..., tuple[Any, ...]],
    sizes: Iterable[Any],
    *,
    order: int = 1,
    plans: int = 2,
    natives: bool = False,
    **options: Any,
) -> Any:
    """Runs the function both ways for inputs of these sizes; it takes at most so many plans (without those of
    gradients of gradients)."""
    compiled = weft.compile(function, **{"backend": "aot_eager", **options})
    before = dict(runtime.counters)
    for size in sizes:
        inputs = copies(make(*size) if isinstance(size, tuple) else make(size))
        theirs = gradients(function, inputs, order)
        ours = gradients(compiled, inputs, order)
        assert [len(part) for part in ours] == [len(part) for part in theirs]
        for one, other in zip(ours, theirs, strict=True):
            for a, b in zip(one, other, strict=True):
                assert (a is None) == (b is None)
                if b is not None:
                    assert_same_layer(a, b, one is ours[0])
        assert sharing(ours[0]) == sharing(theirs[0])
    made = {kind: count - before[kind] for kind, count in runtime.counters.items()}
    assert made["plans"] <= plans, made
    assert not made["fallbacks"] and not made["narrowed"], runtime.reasons[-3:]
    assert bool(made["natives"]) == natives, runtime.reasons[-3:]
    return compiled


def sharing(values: list[Any]) -> list[tuple[int, int]]:
    """Which of these tensors lie in the same memory."""
    arrays = [v.detach().numpy() if isinstance(v, weft.Tensor) else np.zeros(0) for v in values]
    pairs = itertools.combinations(enumerate(arrays), 2)
    return [(i, j) for (i, a), (j, b) in pairs if np.shares_memory(a, b)]


def shifted(x: Any) -> Any:
    y = x * 2
    y[1:] = x[:-1]
    y[0] += 1
    return y


BATCHED: dict[str, tuple[Any, Any]] = {
    "layer": (lambda x, w: F.relu(x @ w).sum(), lambda b: (floats(b, 4), floats(4, 3))),
    "a size as a number": (lambda x: (x * 2).sum() / x.shape[0], lambda b: (floats(b, 4),)),
    "a power of a size": (lambda x: x / x.shape[0] ** 0.5 - x.shape[0], lambda b: (floats(b, 4),)),
    "a size given out": (lambda x: (x * 2, x.shape[0] * 2, x.shape), lambda b: (floats(b, 4),)),
    "means": (lambda x: (x.mean(0), x.var(0), x.std(1), x.mean()), lambda b: (floats(b, 4),)),
    "folds": (
        lambda x: (x.prod(0), x.amax(0), x.logsumexp(0), x.norm(dim=0), x.cumsum(0)),
        lambda b: (floats(b, 4),),
    ),
    "reshape": (lambda x: x.reshape(-1).exp(), lambda b: (floats(b, 4),)),
    "view": (lambda x: (x * 2).view(x.shape[0] * 2, -1).exp(), lambda b: (floats(b, 4),)),
    "a view given out": (lambda x: (x.t(), x[1:], x * 2), lambda b: (floats(b, 4),)),
    "a view from a size on": (lambda x: (x * 1).view(-1)[x.shape[0] :], lambda b: (floats(b, 4),)),
    "views of one another": (lambda x: (x.view(-1), x.view(-1)[3:], x.detach()), lambda b: (floats(b, 4),)),
    "slices": (lambda x: x[1:] * x[:-1], lambda b: (floats(b, 4),)),
    "cat": (lambda x, y: weft.cat([x, y, x]) ** 2, lambda b: (floats(b, 4), floats(b + 2, 4))),
    "stack": (lambda x: weft.stack([x, x * 2], 1).flatten(0, 1), lambda b: (floats(b, 4),)),
    "chunks": (lambda x: x.chunk(2, 1)[0] * x.chunk(2, 1)[1], lambda b: (floats(b, 4),)),
    "repeats": (lambda x: x.repeat(2, 1) + x.repeat_interleave(2, 0), lambda b: (floats(b, 4),)),
    "expand": (lambda x: x[:1].expand(x.shape[0], 4) * x, lambda b: (floats(b, 4),)),
    "flip and roll": (lambda x: x.flip(0).roll(1, 0), lambda b: (floats(b, 4),)),
    "sort": (lambda x: x.sort(0)[0] + x.topk(2, 0)[0].sum(0), lambda b: (floats(b, 6),)),
    "made from a size": (
        lambda x: weft.ones(x.shape[0], 2) + x[:, :2] * weft.arange(x.shape[0])[:, None],
        lambda b: (floats(b, 4),),
    ),
    "cross entropy": (
        lambda x, y: F.cross_entropy(x, y, label_smoothing=0.1),
        lambda b: (floats(b, 4), weft.arange(b) % 4),
    ),
    "mean squares": (
        lambda x, y: F.mse_loss(x, y) + F.huber_loss(x, y),
        lambda b: (floats(b, 4), floats(b, 4)),
    ),
    "convolution": (
        lambda x, k: F.max_pool2d(F.relu(F.conv2d(x, k, padding=1)), 2),
        lambda b: (floats(b, 2, 6, 6), floats(3, 2, 3, 3)),
    ),
    "batch norm": (lambda x: F.batch_norm(x, None, None, training=True), lambda b: (floats(b, 4),)),
    "gather": (
        lambda x, i: x.gather(1, i).cumsum(0),
        lambda b: (floats(b, 4), weft.arange(b)[:, None] % 4),
    ),
    "index_add": (
        lambda x, i: weft.zeros(3, 4, dtype=weft.float64).index_add(0, i, x),
        lambda b: (floats(b, 4), weft.arange(b) % 3),
    ),
    "interpolation": (lambda x: F.interpolate(x, scale_factor=2.0), lambda b: (floats(b, 2, 3, 3),)),
    "dropout": (lambda x: F.dropout(x, 0.5) * x, lambda b: (floats(b, 4),)),
    "noise": (lambda x: x + weft.randn(x.shape, dtype=weft.float64), lambda b: (floats(b, 4),)),
    "where": (lambda x: weft.where(x > 0, x, 0 * x).cumsum(0), lambda b: (floats(b, 4),)),
    "written slices": (shifted, lambda b: (floats(b, 4),)),
    "a written input": (lambda x: x.mul_(2).add_(x.shape[0]), lambda b: (floats(b, 4, grad=False),)),
    "a written input of others": (
        lambda x, y: (x.mul_(y), x[1:], y * 3),
        lambda b: (floats(b, 4, grad=False), floats(b, 4, grad=False)),
    ),
    "a written input with a history": (lambda x: x.mul_(2).exp(), lambda b: (floats(b, 4),)),
    "columns": (lambda x: (x.exp(), x.t() @ x), lambda b: (floats(4, b).t(),)),
    "every second row": (lambda x: x * 2 + 1, lambda b: (floats(2 * b, 4)[::2],)),
    "some columns": (lambda x: (x.reshape(-1), x + 1), lambda b: (floats(b, 6)[:, 1:5],)),
    "one row for all": (lambda x: x * 2, lambda b: (floats(1, 4).expand(b, 4),)),
}
PAIRED: dict[str, tuple[Any, Any]] = {
    "two inputs": (lambda x, y: weft.cat([x, y]) ** 2, lambda b, c: (floats(b, 4), floats(c, 4))),
    "all pairs": (lambda x, y: x[:, None] * y[None], lambda b, c: (floats(b), floats(c))),
    "softmax": (
        lambda x: F.softmax(x @ x.transpose(1, 2), -1) @ x,
        lambda b, t: (floats(b, t, 4),),
    ),
    "layer norm": (lambda x, w: F.layer_norm(x, (4,), w), lambda b, t: (floats(b, t, 4), floats(4))),
    "images": (
        lambda x, k: F.avg_pool2d(F.relu(F.conv2d(x, k, padding=1)), 2),
        lambda h, w: (floats(2, 2, h + 4, w + 5), floats(3, 2, 3, 3)),
    ),
    "index": (lambda x, i: x[i], lambda b, c: (floats(b, 4), weft.arange(c) % b)),
    "embedding": (
        lambda e, i: F.embedding(i, e).mean(1),
        lambda b, t: (floats(5, 4), weft.arange(b * t).reshape(b, t) % 5),
    ),
    "attention": (
        lambda q: F.scaled_dot_product_attention(q, q, q, is_causal=True),
        lambda b, t: (floats(b, 2, t, 4),),
    ),
    "padding": (lambda x: F.pad(x, (1, 2)), lambda b, t: (floats(b, t),)),
    "triangle": (lambda x: x.tril() + x.sum(1, keepdim=True), lambda b, t: (floats(b, t),)),
    "einsum": (
        lambda x, y: weft.einsum("bij,bjk->bik", x, y),
        lambda b, t: (floats(b, t, 4), floats(b, 4, t)),
    ),
    "heads": (
        lambda x: x.view(x.shape[0], x.shape[1], 2, 2).transpose(1, 2).contiguous().view(-1, 2),
        lambda b, t: (floats(b, t, 4),),
    ),
    "a mask": (
        lambda x, m: x.masked_fill(m, 0.0).sum(1) / m.sum(1),
        lambda b, t: (floats(b, t), weft.ones(b, t, dtype=weft.bool).tril(1)),
    ),
}


@pytest.mark.parametrize("name", BATCHED)
def test_one_open_size(name: str) -> None:
    over_sizes(*BATCHED[name], BATCHES)


@pytest.mark.parametrize("name", PAIRED)
def test_two_open_sizes(name: str) -> None:
    over_sizes(*PAIRED[name], PAIRS)


@pytest.mark.parametrize(
    "name", ["layer", "reshape", "slices", "cat", "means", "batch norm", "cross entropy"]
)
def test_gradients_of_gradients(name: str) -> None:
    before = runtime.counters["plans"]
    over_sizes(*BATCHED[name], BATCHES[:1], order=3, plans=9)
    made = runtime.counters["plans"] - before
    weft.compiler.reset()
    over_sizes(*BATCHED[name], BATCHES, order=3, plans=2 * made)  # those of one size, and of all others


@pytest.mark.parametrize("name", ["layer", "view", "a written input", "columns"])
def test_sizes_are_open_at_once_where_that_is_asked_for(name: str) -> None:
    over_sizes(*BATCHED[name], BATCHES, plans=1 if name != "columns" else 2, dynamic=True)


# -- what makes other plans ----------------------------------------------------------------------------------
def test_sizes_of_one_and_none_have_plans_of_their_own() -> None:
    sizes = (3, 5, 1, 7, 0, 2, 1, 0, 9)
    over_sizes(lambda x: (x * 2).sum(0) + x.shape[0], lambda b: (floats(b, 4),), sizes, plans=4)


def test_a_size_that_decides_has_a_plan_for_each_answer() -> None:
    def function(x: Any, k: Any) -> Any:
        return F.conv1d(x, k)  # fails for rows that are too short

    compiled = over_sizes(function, lambda n: (floats(2, 2, n), floats(3, 2, 3)), (4, 6, 8, 3, 5), plans=3)
    with pytest.raises(RuntimeError) as expected:
        function(floats(2, 2, 2), floats(3, 2, 3))
    with pytest.raises(RuntimeError) as found:
        compiled(floats(2, 2, 2), floats(3, 2, 3))
    assert str(found.value) == str(expected.value)


def test_errors_of_sizes_that_do_not_fit() -> None:
    def function(x: Any, y: Any) -> Any:
        x.add_(1)
        return x * y

    compiled = over_sizes(
        function, lambda b: (floats(b, 4, grad=False), floats(b, 4, grad=False)), (3, 4, 6), plans=2
    )
    x = weft.zeros(5, 4, dtype=weft.float64)
    with pytest.raises(RuntimeError, match=r"must match the size of tensor b \(3\)"):
        compiled(x, floats(3, 4, grad=False))
    assert_same(compiled(weft.ones(5, 1), weft.ones(5, 4)), weft.full((5, 4), 2.0))


def test_orders_of_strides_have_plans_of_their_own() -> None:
    def make(b: int, columns: bool) -> Any:
        return (floats(4, b).t() if columns else floats(b, 4),)

    sizes = [(b, columns) for columns in (False, True) for b in (3, 5, 7)] + [(9, False), (9, True)]
    over_sizes(lambda x: (x * 2, x.reshape(-1)), make, sizes, plans=4)


def test_gradients_that_never_come_have_one_plan_for_all_sizes() -> None:
    def function(x: Any) -> Any:
        return (x * 2).exp(), (x * 3).sin()

    compiled = weft.compile(function, backend="aot_eager")
    for number, b in enumerate((3, 5, 7, 9, 5, 11)):
        results = []
        for call in (function, compiled):
            weft.manual_seed(b)
            x = floats(b, 4)
            first, second = call(x)
            (first.sum() + second.sum() if number < 3 else second.sum()).backward()
            results.append(x.grad)
        assert_same(results[1], results[0])
        if number == 3:
            reruns = runtime.counters["reruns"]
    assert runtime.counters["reruns"] - reruns <= 1  # a plan that was there before the gradients did not come


def test_compilers_that_do_not_take_sizes_see_none() -> None:
    seen: list[Any] = []

    def compiler(module: Any, _examples: Any) -> Any:
        seen.append([node.meta["val"] for node in module.graph.placeholders])
        return module.forward

    compiled = weft.compile(lambda x: x * 2 + x.shape[0], backend=weft.compiler.aot(compiler))
    for b in (3, 5, 7):
        assert_same(compiled(weft.ones(b)), weft.full((b,), 2.0 + b))
    assert len(seen) == 3
    assert all(type(v) is int for vals in seen for val in vals for v in getattr(val, "shape", (val,)))
    seen.clear()
    setattr(compiler, TAKES_SIZES, True)
    compiled = weft.compile(lambda x: x * 3 + x.shape[0], backend=weft.compiler.aot(compiler))
    for b in (3, 5, 7):
        assert_same(compiled(weft.ones(b)), weft.full((b,), 3.0 + b))
    assert len(seen) == 2 and [v.describe() for v in seen[1][1].array.shape] == ["s0"]


def test_compilers_that_ask_for_a_size_compile_for_it() -> None:
    asked: list[int] = []

    def compiler(module: Any, _examples: Any) -> Any:
        for node in module.graph.placeholders:
            if hasattr(node.meta["val"], "array"):
                asked.append(int(node.meta["val"].array.shape[0]))
        return module.forward

    setattr(compiler, TAKES_SIZES, True)
    compiled = weft.compile(lambda x: x * 2, backend=weft.compiler.aot(compiler))
    for b in (3, 5, 7, 5):
        assert_same(compiled(weft.ones(b)), weft.full((b,), 2.0))
    assert asked == [3, 5, 7]


# -- pieces --------------------------------------------------------------------------------------------------
class Doubled(weft.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x * 2

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad * 3


def test_hooks_and_pieces() -> None:
    def function(x: Any) -> Any:
        y = x * x.shape[0]
        y.register_hook(lambda grad: grad * 2)
        return y.reshape(-1).exp() + Doubled.apply(y).reshape(-1)

    over_sizes(function, lambda b: (floats(b, 4),), BATCHES, plans=4)


def test_steps_with_their_gradients_inside() -> None:
    def step(x: Any, w: Any) -> Any:
        loss = F.mse_loss(F.relu(x @ w), x[:, :3])
        (grad,) = weft.autograd.grad(loss, (w,))
        with weft.no_grad():
            w -= 0.1 * grad
        return loss.detach()

    compiled = weft.compile(step, backend="aot_eager")
    before = runtime.counters["plans"]
    ours, theirs = (weft.linspace(-1, 1, 12).reshape(4, 3).requires_grad_() for _ in range(2))
    for b in BATCHES:
        x = floats(b, 4, grad=False).float()
        assert_same(compiled(x, ours), step(x, theirs))
        assert_same(ours, theirs)
    assert runtime.counters["plans"] - before == 2


# -- layouts and keys ----------------------------------------------------------------------------------------
shapes = st.lists(st.integers(1, 4), min_size=1, max_size=4)


@settings(max_examples=60)
@given(shapes, st.randoms(use_true_random=False), st.lists(st.booleans(), min_size=4, max_size=4))
def test_layouts_give_the_strides_of_arrays(shape: list[int], order: Any, halved: list[bool]) -> None:
    axes = list(range(len(shape)))
    order.shuffle(axes)
    whole = np.empty([size * (2 if half else 1) for size, half in zip(shape, halved, strict=False)])
    array = whole[tuple([slice(size) for size in shape])].transpose(axes)
    found = layout(array.shape, array.strides, array.itemsize)
    assert strides_of(array.shape, array.itemsize, *found) == array.strides
    if array.flags.c_contiguous and 1 not in array.shape:
        assert found[1] == (None,) * array.ndim
        other = np.empty([size + 3 for size in array.shape])
        assert layout(other.shape, other.strides, 8) == found


def test_sizes_are_open_where_whole_numbers_tell_them() -> None:
    graphs: list[Any] = []

    def backend(module: Any, _inputs: Any) -> Any:
        graphs.append(module.graph)
        return module.forward

    compiled = weft.compile(lambda x, y: x * 2 + y.sum() * x.shape[0], backend=backend)
    compiled(weft.ones(3, 4), weft.ones(5))
    assert open_sizes(graphs[0]) is None
    compiled(weft.ones(5, 4), weft.ones(7))
    found = open_sizes(graphs[1])
    assert found is not None and [[*axes] for axes in found.axes.values()] == [[0], [0]]
    numbers = {number: (int, size) for number, size in zip(found.numbers, (6, 8), strict=True)}
    places = [*found.axes]
    kind = SimpleNamespace(itemsize=4)

    def key(first: Any, second: Any) -> Any:
        facts = {**numbers, places[0]: (first, (16, 4), kind), places[1]: (second, (4,), kind)}
        return None, tuple([facts[number] for number in sorted(facts)])

    values = found.values(key((6, 4), (8,)))
    assert values is not None and sorted(values.values()) == [6, 8]
    assert found.values(key((7, 4), (8,))) is None and found.values(key((6, 4), (0,))) is None
    assert found.key(key((6, 4), (8,))) == found.key(key((7, 4), (8,)))
    assert found.key(key((6, 4), (8,))) != found.key(key((6, 5), (8,)))


# -- any sizes -----------------------------------------------------------------------------------------------
ANY = {name: BATCHED[name] for name in ("layer", "view", "slices", "means", "written slices", "columns")} | {
    name: PAIRED[name] for name in ("two inputs", "softmax", "heads", "padding")
}


@settings(max_examples=40)
@given(st.sampled_from(sorted(ANY)), st.lists(st.tuples(*[st.integers(1, 9)] * 2), min_size=2, max_size=6))
def test_any_sizes(name: str, sizes: list[tuple[int, int]]) -> None:
    weft.compiler.reset()
    function, make = ANY[name]
    given = sizes if name in PAIRED else [(max(first, 2),) for first, _ in sizes]
    over_sizes(function, make, given, plans=2 * len(sizes))


def test_sizes_that_follow_from_others_are_inputs_of_pieces() -> None:
    """Behind a leaf that others see, the graph goes on as a piece, which is given a number of elements."""

    def function(x: weft.Tensor, w: weft.Tensor) -> tuple[weft.Tensor, weft.Tensor]:
        before = (x * 2).sum() / x.numel()
        place = x.detach().requires_grad_()
        (slope,) = weft.autograd.grad((place * w).exp().sum(), place, create_graph=True)
        return slope / x.numel() + before, place

    compiled = weft.compile(function, backend="aot_eager")
    w = floats(1)
    before = dict(runtime.counters)
    for size in BATCHES:
        x = floats(size, 3)
        for one, other in zip(compiled(x, w), function(x, w), strict=True):
            assert_same(one, other)
    assert runtime.counters["plans"] - before["plans"] <= 4  # two pieces, for the first size and for others
    assert runtime.counters["narrowed"] == before["narrowed"]


def test_numbers_that_only_running_tells_leave_sizes_of_pieces_open() -> None:
    """As in optimizers, which ask tensors for their step. Pieces are compiled when capture is over."""

    def function(x: weft.Tensor, w: weft.Tensor, count: weft.Tensor) -> tuple[weft.Tensor, weft.Tensor]:
        place = x.detach().requires_grad_()
        return (place * w).sum() / (1 - 0.5 ** count.item()) + x.shape[0], place

    compiled = weft.compile(function, backend="aot_eager")
    w = floats(1)
    before = dict(runtime.counters)
    for number, size in enumerate(BATCHES):
        x, count = floats(size), weft.tensor(float(number + 1))
        for one, other in zip(compiled(x, w, count), function(x, w, count), strict=True):
            assert_same(one, other)
    assert runtime.counters["plans"] - before["plans"] <= 4
    assert runtime.counters["narrowed"] == before["narrowed"]
