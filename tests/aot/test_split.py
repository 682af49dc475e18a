"""Graphs of which some nodes run as they are, between compiled pieces."""

from __future__ import annotations

from typing import Any

import pytest

import weft
from tests.aot.differing import compare
from weft.aot import runtime
from weft.aot.backends import as_it_is
from weft.aot.partition import min_cut
from weft.aot.split import split
from weft.autograd import Function
from weft.autograd.function import once_differentiable
from weft.nn import functional as F
from weft.testing import EagerAndRecordGraphs


def floats(*shape: int, grad: bool = True) -> weft.Tensor:
    return weft.randn(*shape, dtype=weft.float64).requires_grad_(grad)


@pytest.fixture(autouse=True)
def afresh():
    weft.compiler.reset()


class Cube(Function):
    @staticmethod
    def forward(ctx, x, k=1.0):
        ctx.save_for_backward(x)
        ctx.k = k
        return x**3 * k, x.detach().sign()

    @staticmethod
    def backward(ctx, g, h):
        (x,) = ctx.saved_tensors
        return 3 * x * x * g * ctx.k, None


class Marked(Function):
    @staticmethod
    def forward(ctx, x):
        a, b = x * 2, (x > 0).double()
        ctx.mark_non_differentiable(b)
        return a, b

    @staticmethod
    def backward(ctx, g, h):
        return g * 2


class Dirty(Function):
    @staticmethod
    def forward(ctx, x):
        x.mul_(3)
        ctx.mark_dirty(x)
        return x

    @staticmethod
    def backward(ctx, g):
        return g * 3


class Once(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * x.cos()


class Unmaterialised(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.set_materialize_grads(False)
        return x * 2, x * 3

    @staticmethod
    def backward(ctx, g, h):
        assert h is None
        return g * 2


@weft.compiler.allow_in_graph
def opaque(x):
    return Cube.apply(x)[0]


def custom(x, w):
    b, s = Cube.apply(x * w, 2.0)
    d, _ = Cube.apply(b.sin() + s)
    return d * w, b


def custom_under_no_grad(x, w):
    with weft.no_grad():
        a, _ = Cube.apply(x * w)
        b, _ = Cube.apply(a)
    return b * x, a


def marked(x, w):
    a, b = Marked.apply(x * w)
    return a * b, b


def dirty(x, w):
    y = x * w
    z = Dirty.apply(y)
    return y + 1, z


def conditional(x, w):
    y = x * w
    return weft.cond(y.sum() > 0, lambda a: a * w, lambda a: a - w, (y,)).sin() * x


def looped(x, w):
    with weft.no_grad():
        start = weft.zeros((), dtype=weft.int64), x * w
        _, y = weft.while_loop(lambda n, y: n < 3, lambda n, y: (n + 1, y * 2), start)
    return y * x


def scanned(x, w):
    last, rows = weft.scan(lambda c, r: (c + r, c * r), w.clone(), x)
    return last.sin() * 2, rows


def mapped(x, w):
    return weft.map(lambda r: r.sin() * w, x * 2) * x


SUBGRAPHS = [
    custom, custom_under_no_grad, marked, dirty, conditional, looped, scanned, mapped,
    lambda x, w: Unmaterialised.apply(x * w)[0] * x,
]  # fmt: skip


@pytest.mark.parametrize("function", SUBGRAPHS, ids=lambda f: f.__name__)
def test_graphs_with_graphs_inside(function):
    compare(function, floats(3, 4), floats(4), natives=False)


def test_backward_that_is_differentiable_once():
    def function(x, w):
        return Once.apply(x * w) * x

    compare(function, floats(3, 4), floats(4), order=1)
    x, w = floats(3, 4), floats(4)
    out = weft.compile(function, backend="aot_eager")(x, w)
    (gradient,) = weft.autograd.grad(out.sum(), w, create_graph=True)
    with pytest.raises(RuntimeError, match="marked with @once_differentiable"):
        weft.autograd.grad(gradient.sum(), w)


def test_backward_reads_the_world_when_it_runs():
    class Scaled(Function):
        factor = 2.0

        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * Scaled.factor

    compiled = weft.compile(lambda x: Scaled.apply(x * 1) * 1, backend="aot_eager", fullgraph=True)
    x = floats(3)
    for factor in (2.0, 5.0):
        Scaled.factor = factor
        assert weft.autograd.grad(compiled(x).sum(), x)[0].tolist() == [factor] * 3


# -- single nodes --------------------------------------------------------------------------------------------
def makes_a_leaf(x, w):
    leaf = weft.zeros(3, 4, dtype=x.dtype, requires_grad=True)
    return leaf * x, leaf


def gives_a_view_and_more(x, w):
    view = (x * w)[0]
    return view, view.sin()


def gives_chunks_and_more(x, w):
    a, b = (x * w).chunk(2, 1)
    return a, a.sin() + b, b


def writes_input_and_views(x, w):
    x.mul_(2)
    y = x[0]
    y.add_(w)
    return x, y, y.sin()


def writes_several_through_mask(x, w):
    y = x * 1
    mask = y > -100
    y[mask] = w.repeat(3) * 2
    return y * w


def requires_grad_inside(x, w):
    y = (x * w).detach().requires_grad_()
    return y * 2, y


def detached_in_place(x, w):
    y = x * w
    y.detach_()
    return y * w


def writes_between_outputs(x, w):
    y = x.sin()
    z = y * w
    with weft.no_grad():
        z.mul_(2)
    return z, y, z * y


def writes_data_between_outputs(x, w):
    y = x * w
    y.data.mul_(2)
    return y, y.sin()


def writes_in_stages(x, w):
    y = x * w
    y.add_(1)
    z = y.sin()
    z[0].mul_(2)
    return y, z, z + y


def draws_and_overwrites(x, w):
    noise = weft.empty_like(x).normal_()
    noise.uniform_()
    return x * w * noise + weft.randn_like(x)


NATIVE = [
    makes_a_leaf, gives_a_view_and_more, gives_chunks_and_more, requires_grad_inside,
    detached_in_place, writes_between_outputs, writes_data_between_outputs,
    lambda x, w: opaque(x * w).sin(),
]  # fmt: skip


@pytest.mark.parametrize("function", NATIVE, ids=lambda f: f.__name__)
def test_nodes_that_run_as_they_are(function):
    compare(function, floats(3, 4), floats(4), natives=True)


def test_views_that_are_written_and_read_run_as_captured():
    compare(writes_input_and_views, floats(3, 4), floats(4), natives=True, refused=True)


@pytest.mark.parametrize("function", [writes_in_stages, draws_and_overwrites, writes_several_through_mask])
def test_whole_graphs(function):
    compare(function, floats(3, 4), floats(4), natives=False)


def test_warnings_come_each_time():
    compiled = weft.compile(lambda x, w: F.mse_loss(x * w, w[None]) * x, backend="aot_eager")
    plans = runtime.counters["plans"]
    for _ in range(2):
        with pytest.warns(UserWarning, match="target size") as seen:
            compiled(floats(3, 4), floats(4))
        assert len(seen) == 1
    assert runtime.counters["plans"] == plans + 2  # before and behind the call that warns


def test_values_between_parts_are_freed():
    backend = EagerAndRecordGraphs()
    weft.compile(custom, backend=backend)(floats(3, 4), floats(4))
    graph: Any = backend.graphs[0].graph
    natives = [node for node in graph.nodes if "autograd_function_apply" in node.name]
    parts = split(backend.graphs[0], natives)
    assert [part.native for part in parts] == [False, True, False, True, False]
    given = {node for part in parts for node in part.outputs}
    freed = {node for part in parts for node in part.freed}
    kept = set(graph.output_node().all_input_nodes)
    assert freed - set(graph.placeholders) == given - kept


def test_views_of_a_detached_tensor_share_it():
    def function(x):
        plain = x.detach()
        return plain, plain.unsqueeze(0), plain[1:]

    for run in (function, weft.compile(function, backend="aot_eager")):
        x = floats(3, 4)
        plain, view, part = run(x)
        assert view._base is plain
        assert part._base is plain
        view[0, 0] = x[0]
        assert plain.requires_grad


def take(values, number):
    return values[number]


def test_tensors_in_containers_are_no_constants():
    graph = weft.fx.Graph()
    x = graph.placeholder("x")
    parts = graph.call_method("unbind", (x, 0))
    graph.call_function(take, (parts, 0))
    graph.output((graph.call_method("sin", (graph.call_function(take, (parts, 2)),)),))
    compiled = runtime.CompiledFunction(weft.fx.GraphModule({}, graph), as_it_is, as_it_is, min_cut)
    x = floats(3, 4)
    for _ in range(2):
        (gradient,) = weft.autograd.grad(compiled(x)[0].sum(), x)
        weft.testing.assert_close(gradient[2], x.detach()[2].cos())


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "native"])
@pytest.mark.parametrize("write", [lambda t: t.add_(1), lambda t: t[0].add_(1)], ids=["whole", "part"])
def test_errors_of_what_is_written_and_never_read(backend: str, write: Any) -> None:
    def function(x: weft.Tensor) -> weft.Tensor:
        shares = x // x
        write(shares)
        return x + 1

    compiled = weft.compile(function, backend=backend)
    assert compiled(weft.tensor([1, 2])).tolist() == [2, 3]
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        compiled(weft.tensor([1, 0]))


@pytest.mark.parametrize("backend", ["aot_eager", "native"])
def test_pieces_of_pieces_know_what_is_written_behind_them_all(backend):
    """The first piece is split again, and its first part saves what the last piece writes unnoticed."""

    def function(t, w):
        y = t * w + (t + 1) * w  # saves t, from which it would be cheap to compute t + 1 again
        with weft.no_grad():
            y.mul_(2)
        z = y * w
        weft.arange(1) % 101  # may fail, so that it runs by itself
        t.data.mul_(2)
        return y, z

    found = []
    for run in (function, weft.compile(function, backend=backend)):
        w = weft.full((100,), 0.25, dtype=weft.float64, requires_grad=True)
        y, z = run(weft.full((100,), 0.5, dtype=weft.float64), w)
        (y.sum() + z.sum()).backward()
        found.append(w.grad)
    weft.testing.assert_close(found[1], found[0])


LEAVES = {
    "detached": lambda x: x.detach().requires_grad_(),
    "cloned": lambda x: x.detach().clone().requires_grad_(True),
}


@pytest.mark.parametrize("leaf", LEAVES)
def test_a_leaf_that_nobody_sees_is_no_piece_of_its_own(leaf):
    """Forces, as force fields take them: with gradients of gradients, all inside."""
    made = LEAVES[leaf]

    def step(x, w):
        place = made(x)
        (slope,) = weft.autograd.grad(((place * w) ** 3).sum(), place, create_graph=True)
        loss = (slope * slope).sum()
        loss.backward()
        return loss.detach(), place.grad

    def run(function):
        w = floats(4)
        with weft.no_grad():
            w.copy_(weft.arange(4.0) - 1.5)
        return [*function(weft.arange(4.0, dtype=weft.float64), w), w.grad]

    before = dict(runtime.counters)
    ours, theirs = run(weft.compile(step, backend="aot_eager", fullgraph=True)), run(step)
    assert all(weft.equal(one, other) for one, other in zip(ours, theirs, strict=True))
    assert runtime.counters["natives"] == before["natives"]
    assert runtime.counters["plans"] == before["plans"] + 1


@pytest.mark.parametrize(
    "seen",
    [
        lambda place, w: (place, (place * w).sum()),
        lambda place, w: ((place * w).sum(),),
        lambda place, w: (weft.autograd.grad((place * w).exp().sum(), place, create_graph=True)[0],),
        lambda place, w: (place[1:], place.detach()),
    ],
)
def test_a_leaf_that_somebody_can_reach_is_a_leaf(seen):
    def function(x, w):
        return seen(x.detach().requires_grad_(), w)

    x, w = floats(4), floats(4)
    ours, theirs = weft.compile(function, backend="aot_eager")(x, w), function(x, w)
    for one, other in zip(ours, theirs, strict=True):
        assert weft.equal(one, other)
        assert (one.requires_grad, one.is_leaf) == (other.requires_grad, other.is_leaf)
        if one.requires_grad:
            found = [weft.autograd.grad(each.sum(), w, allow_unused=True)[0] for each in (one, other)]
            assert (found[0] is None) == (found[1] is None)
            assert found[0] is None or weft.equal(found[0], found[1])


READS = {
    "index": lambda x, i: x[i],
    "two indices": lambda x, i: x[i, i],
    "index_select": lambda x, i: x.index_select(1, i),
    "gather": lambda x, i: x.gather(0, i.unsqueeze(1)),
}


@pytest.mark.parametrize("read", READS)
def test_gradients_of_indexing_that_nobody_reads_are_no_pieces_of_their_own(read):
    """They ask nothing of the indices that the forward has not asked; which raises eager's error."""

    def step(x, i, w):
        place = x.detach().requires_grad_()
        (slope,) = weft.autograd.grad((READS[read](place, i) * w).exp().sum(), w, create_graph=True)
        loss = (slope * slope).sum()
        loss.backward()
        return loss.detach()

    compiled = weft.compile(step, backend="aot_eager")
    x, w = floats(3, 3, grad=False), floats(1)
    before = runtime.counters["natives"]
    i = weft.tensor([0, 2, 2])
    weft.testing.assert_close(compiled(x, i, w), step(x, i, w.detach().requires_grad_()))
    assert runtime.counters["natives"] == before
    for bad in (weft.tensor([0, 3, 1]), weft.tensor([0, -4, 1])):
        errors = []
        for function in (step, compiled):
            with pytest.raises((IndexError, RuntimeError)) as found:
                function(x, bad, w)
            errors.append((found.type, str(found.value)))
        assert errors[0] == errors[1]


@pytest.mark.parametrize("read", READS)
def test_indexing_that_nobody_reads_raises(read):
    """Of another tensor, which is smaller; and by other indices."""

    def function(x, y, i, j):
        READS[read](y, i)
        READS[read](x, j)
        return READS[read](x, i) * 2

    compiled = weft.compile(function, backend="aot_eager")
    x, good, bad = floats(3, 3, grad=False), weft.tensor([0, 1]), weft.tensor([0, 2])
    assert weft.equal(compiled(x, x[:2, :2], good, good), READS[read](x, good) * 2)
    for arguments in ((x, x[:2, :2], bad, good), (x[:2, :2], x, good, bad)):
        for each in (function, compiled):
            with pytest.raises((IndexError, RuntimeError)):
                each(*arguments)
