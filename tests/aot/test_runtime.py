"""Compiled calls against eager ones."""

from __future__ import annotations

import threading
import tracemalloc

import pytest

import weft
from tests.aot.differing import compare, scalar
from weft.aot import runtime
from weft.aot.runtime import nodes
from weft.core.generator import Generator, default_generator
from weft.nn import functional as F
from weft.tensor.overrides import disabled_torch_function


def floats(*shape: int, grad: bool = True) -> weft.Tensor:
    return weft.randn(*shape, dtype=weft.float64).requires_grad_(grad)


@pytest.fixture(autouse=True)
def afresh():
    weft.compiler.reset()


PROGRAMS = {
    "pointwise": (lambda x, y: (x * y).sin() + x, ((3, 4), (4,))),
    "layer": (lambda x, w, b: (x @ w + b).relu(), ((3, 4), (4, 5), (5,))),
    "reductions": (lambda x: (x.sum(0), x.mean(), x.max(1)[0], x.softmax(1)), ((3, 4),)),
    "views inside": (lambda x: (x.t() @ x).view(-1)[2:].sum(), ((3, 4),)),
    "views given out": (lambda x: ((x + 1).t(), x[0], x.detach(), x.data), ((3, 4),)),
    "layer norm": (lambda x, w, b: F.layer_norm(x, (4,), w, b), ((3, 4), (4,), (4,))),
    "convolution": (lambda x, w: F.conv2d(x, w, padding=1), ((2, 3, 5, 5), (4, 3, 3, 3))),
    "pieces": (lambda x: [part * i for i, part in enumerate(x.split(2))], ((5, 3),)),
    "rows": (lambda x: weft.stack([row * i for i, row in enumerate(x.unbind(0))]).sum(1), ((5, 3),)),
    "unused": (lambda x, y: x * 2, ((5, 3), (2,))),
    "attention": (
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v), ((2, 3, 4), (2, 3, 4), (2, 3, 4))
    ),
    "dropout": (lambda x: F.dropout(x, 0.5) * x, ((4, 4),)),
    "noise": (lambda x: (x * weft.rand(4, dtype=weft.float64)).sin() * x, ((4, 4),)),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_values_and_gradients_to_third_order(name):
    function, shapes = PROGRAMS[name]
    compare(function, *[floats(*shape) for shape in shapes], order=3)


def test_gradients_that_lie_otherwise_than_rules_take_them():
    def function(x):
        return weft.view_as_real(x).clone()

    x = weft.ones(3, dtype=weft.complex128, requires_grad=True)
    y = weft.compile(function, backend="aot_eager")(x)
    (found,) = weft.autograd.grad(y, x, weft.ones((), dtype=weft.float64).expand(3, 2))
    assert found.tolist() == [1 + 1j] * 3


def test_nothing_requires_grad():
    compare(lambda x: (x * 2, x.t()), floats(3, 4, grad=False))


# -- writes and views ----------------------------------------------------------------------------------------
def write_to_view(x, w):
    y = x * w
    view = y[:, 1:]
    view.mul_(2)
    y.t()[0].add_(w.sum())
    return y, view, y[0]


def write_item(x, w):
    y = x.sin()
    y[0] = 1.0
    y[:, 1] = w[0]
    y[1, 2:] += 3
    return y * x


def write_masked(x, w):
    y = x * 1
    y[y > 0] = 0.5
    y[y < -1] = w[0]
    return y * x


def write_input(x, w):
    x.mul_(w)
    return x.sum() * x


def write_input_twice(x, w):
    y = x * 1
    x.add_(1)
    x[0].zero_()
    return y * w, x.t()


def write_under_no_grad(x, w):
    y = x * w
    with weft.no_grad():
        y.add_(1)
    return y * w


def write_through_data(x, w):
    y = x * w
    y.data.mul_(2)
    return y.sin() + w


def no_grad_region(x, w):
    y = x * w
    with weft.no_grad():
        z = y * 2
    return y * z, z


def detached(x, w):
    y = x * w
    return y.detach() * x + y, y.detach()


def strided(x, w):
    y = x * w
    return y.as_strided((2, 2), (4, 1), 1) * 2, y.diagonal().sum()


def written_strided(x, w):
    y = x * w
    y.as_strided((2, 2), (4, 1), 1).mul_(3)
    return y


def chunks_written(x, w):
    y = x * w
    first, second = y[:, :2], y[:, 2:]
    first.add_(second)
    return y, first


def in_place_keeps_old_value(x, w):
    y = x * 1
    y.mul_(w)
    y.mul_(x)
    return y


def outputs_share(x, w):
    y = x * w
    return y[0], y[1:], y.view(-1)


def copies(x, w):
    y = weft.empty(3, 4, dtype=x.dtype)
    y.copy_(w)
    y[1].copy_(x[2])
    z = weft.zeros_like(x).fill_(2.0)
    return y * x, z


def results_into(x, w):
    with weft.no_grad():
        out = weft.empty(3, 4, dtype=x.dtype)
        weft.mul(x, w, out=out)
    return out * x


WRITES = [
    write_to_view, write_item, write_masked, write_input, write_input_twice, write_under_no_grad,
    write_through_data, no_grad_region, detached, strided, written_strided, chunks_written,
    in_place_keeps_old_value, outputs_share, copies, results_into,
]  # fmt: skip


@pytest.mark.parametrize("function", WRITES, ids=lambda f: f.__name__)
def test_writes_and_views(function):
    compare(function, floats(3, 4), floats(4), order=3)


@pytest.mark.parametrize("function", WRITES, ids=lambda f: f.__name__)
def test_writes_and_views_without_gradients(function):
    compare(function, floats(3, 4, grad=False), floats(4, grad=False))


def test_running_statistics_are_written_back():
    def step(x, mean, variance):
        return F.batch_norm(x, mean, variance, training=True)

    compare(step, floats(5, 3), weft.zeros(3, dtype=weft.float64), weft.ones(3, dtype=weft.float64))


# -- outputs computed from one another -----------------------------------------------------------------------
def chain(x, w):
    y = (x * w).sin()
    z = y.exp() + x
    return y, z, (z * y).sum()


def chain_without_tape(x, w):
    y = x.sin()
    z = y * w
    with weft.no_grad():
        z.mul_(2)
    return z, y


@pytest.mark.parametrize("function", [chain, chain_without_tape])
@pytest.mark.parametrize("create_graph", [False, True])
def test_gradients_between_outputs(function, create_graph):
    x, w = floats(3, 4), floats(4)
    found = []
    for run in (function, weft.compile(function, backend="aot_eager")):
        outputs = run(x, w)
        last, others = scalar(list(outputs)), [o for o in outputs if o.dim()]
        first = weft.autograd.grad(last, [*others, x, w], create_graph=create_graph)
        found.append(list(first))
        if create_graph:
            found[-1] += weft.autograd.grad(scalar(list(first)), [*others, x, w])
    for ours, theirs in zip(found[1], found[0], strict=True):
        weft.testing.assert_close(ours, theirs)


def test_hooks_and_retained_gradients_of_outputs():
    x, w = floats(3, 4), floats(4)
    found = []
    for run in (chain, weft.compile(chain, backend="aot_eager")):
        y, z, total = run(x, w)
        y.retain_grad()
        z.register_hook(lambda g: g * 2)
        total.backward()
        found.append((y.grad, x.grad.clone(), w.grad.clone()))
        x.grad = w.grad = None
    for ours, theirs in zip(found[1], found[0], strict=True):
        weft.testing.assert_close(ours, theirs)


# -- what users see of the tape ------------------------------------------------------------------------------
def sine_twice(x, y):
    sine = x.sin()
    return sine * 2, sine * 3


def test_one_node_and_unused_inputs():
    x, y = floats(3), floats(3)
    a, b = weft.compile(sine_twice, backend="aot_eager")(x, y)
    assert a.grad_fn is b.grad_fn
    assert type(a.grad_fn).__name__ == "CompiledFunctionBackward"
    (a.sum() + b.sum()).backward()
    assert x.grad is not None
    assert y.grad is None


def test_outputs_without_a_gradient_leave_none():
    x, y = floats(3), floats(3)
    compiled = weft.compile(lambda x, y: (x * 2, y.sin()), backend="aot_eager")
    for _ in range(3):
        x.grad = y.grad = None
        compiled(x, y)[1].sum().backward()
        assert x.grad is None
        weft.testing.assert_close(y.grad, y.detach().cos())


OUTPUTS = {
    "nothing in common": lambda x, y: (x.sin(), x.cos()),
    "something in common": lambda x, y: ((z := x.exp()).sin(), z.cos()),
    "nothing to free": lambda x, y: (x + x, y * 2),
    "nothing to free in common": lambda x, y: ((z := x + y) * x, z * 3),
    "a part detached": lambda x, y: (((z := x.tanh()).detach() * y).exp(), (z * y.detach()).sin()),
    "one from another": lambda x, y: ((z := x.exp()), z.sin(), z * 2, y.cos()),
}


@pytest.mark.parametrize("retain", [False, True])
@pytest.mark.parametrize("name", OUTPUTS)
def test_backward_of_one_output_after_the_other(name, retain):
    """What one of them frees, the others may still need, as in eager."""
    function = OUTPUTS[name]
    compiled = weft.compile(function, backend="aot_eager")
    count = len(function(floats(3), floats(3)))
    values = floats(3).detach(), floats(3).detach()

    def gradients(called, order):
        x, y = [value.clone().requires_grad_() for value in values]
        outputs = called(x, y)
        found, errors = [], []
        for number in order:
            try:
                outputs[number].sum().backward(retain_graph=retain)
            except RuntimeError as error:
                errors.append(str(error))
            found.append([None if t.grad is None else t.grad.clone() for t in (x, y)])
        return found, errors

    for order in (range(count), range(count)[::-1], [0, 0], [count - 1] * 2, [0, count - 1, 0]) * 2:
        (ours, our_errors), (theirs, errors) = gradients(compiled, order), gradients(function, order)
        weft.testing.assert_close(ours, theirs)
        assert our_errors == errors


def test_only_the_first_backward_of_a_set_of_outputs_runs_twice():
    x, y = floats(3), floats(3)
    compiled = weft.compile(sine_twice, backend="aot_eager")
    before = runtime.counters["reruns"]
    for _ in range(3):
        compiled(x, y)[1].sum().backward()
    assert runtime.counters["reruns"] == before + 1


def test_gradients_of_gradients_in_later_calls():
    """The second call runs what the first one found out: which gradients never came."""
    w = floats(3, 2)
    compiled = weft.compile(lambda x: (x @ w.T).tanh(), backend="aot_eager")
    values = floats(6, 2).detach()
    found = []
    for function in (lambda x: (x @ w.T).tanh(), compiled, compiled, compiled):
        x = values.clone().requires_grad_()
        w.grad = None
        (gradient,) = weft.autograd.grad(function(x).sum(), x, create_graph=True)
        gradient.square().sum().backward()
        found.append((x.grad, w.grad))
    for pair in found[1:]:
        weft.testing.assert_close(pair, found[0])


@pytest.mark.parametrize("create_graph", [False, True])
def test_what_runs_again_does_not_write_what_it_runs_from(create_graph):
    def f(x, y):
        y.t().mul_(x)
        return y.sin(), x.exp()

    def gradients(function):
        x, leaf = floats(3).detach().requires_grad_(), floats(3).detach().requires_grad_()
        first, _ = function(x, leaf * 1)
        options = {"retain_graph": True, "create_graph": create_graph, "allow_unused": True}
        return [weft.autograd.grad(first.sum(), [x, leaf], **options) for _ in range(3)]

    compiled = weft.compile(f, backend="aot_eager")
    for function in (compiled, compiled):
        weft.manual_seed(1)
        expected = gradients(f)
        weft.manual_seed(1)
        weft.testing.assert_close(gradients(function), expected)


def test_second_order_with_respect_to_an_output():
    """Gradients of exp and tanh are computed from their results, and so depend on them."""

    def f(x):
        y = x.exp()
        return y, y.sin(), x.tanh() * y

    def gradients(function):
        weft.manual_seed(1)
        x = floats(3)
        y, z, v = function(x)
        first = weft.autograd.grad((z * v).sum() + y.square().sum(), [x, y], create_graph=True)
        found = list(first)
        for target in (first[0], first[1], first[0] * first[1]):
            found += weft.autograd.grad(target.sum(), [x, y], retain_graph=True)
        return found

    compiled = weft.compile(f, backend="aot_eager")
    expected = gradients(f)
    for _ in range(2):
        weft.testing.assert_close(gradients(compiled), expected)


def test_second_order_with_respect_to_what_was_written_by_a_view():
    def f(x, w):
        view = w.view(3, 1)[:, 0]
        view.addcmul_(x, x)
        return view.sin()

    def gradients(function):
        weft.manual_seed(1)
        x, w = floats(3), floats(3, grad=False)
        result = function(x * 1, w)
        first = weft.autograd.grad(result.sum() + w.sin().sum(), [x, w], create_graph=True)
        found = list(first)
        for target in first:
            found += weft.autograd.grad(target.sum(), [x, w], retain_graph=True)
        return found

    weft.testing.assert_close(gradients(weft.compile(f, backend="aot_eager")), gradients(f))


@pytest.mark.parametrize("name", [name for name in OUTPUTS if name != "something in common"])
def test_hooks_of_outputs_are_called_in_order(name):
    """Of those with nodes of their own; a node's hooks are called in the order they were registered in."""

    def called(function):
        log = []
        outputs = function(floats(3), floats(3))
        for number, output in enumerate(outputs):
            output.register_hook(lambda gradient, number=number: log.append(number))
        sum(output.sum() for output in outputs).backward()
        return log

    assert called(weft.compile(OUTPUTS[name], backend="aot_eager")) == called(OUTPUTS[name])


def test_second_backward_raises():
    x = floats(3)
    total = weft.compile(lambda x: x.sin().sum(), backend="aot_eager")(x)
    total.backward(retain_graph=True)
    total.backward()
    with pytest.raises(RuntimeError, match="Trying to backward through the graph a second time"):
        total.backward()


def test_saved_tensors_that_were_written_raise():
    x, y = floats(3), floats(3, grad=False)
    out = weft.compile(lambda x, y: x * y, backend="aot_eager")(x, y)
    y.add_(1)
    with pytest.raises(RuntimeError, match=r"weft.DoubleTensor \[3\]\] is at version 1; expected version 0"):
        out.sum().backward()
    out = weft.compile(lambda x: x.exp(), backend="aot_eager")(x)
    out.mul_(2)
    with pytest.raises(RuntimeError, match="which is output 0 of CompiledFunction, is at version 1"):
        out.sum().backward()


def test_inputs_that_overlap_run_as_captured():
    def function(x, y):
        x.add_(1)
        return y * 2

    compiled = weft.compile(function, backend="aot_eager")
    base = weft.arange(6.0)
    compiled(base[:3].clone(), base[3:])
    weft.testing.assert_close(compiled(base[:4], base[2:]), weft.tensor([6.0, 8.0, 8.0, 10.0]))


def test_numbers_vary_without_another_plan():
    x = floats(3)
    compiled = weft.compile(lambda x, k: (x * k).sum(), backend="aot_eager", dynamic=True)
    compiled(x, 0.5)
    before = runtime.counters["plans"]
    for k in (1.5, 2.5):
        assert weft.autograd.grad(compiled(x, k), x)[0].tolist() == [k] * 3
    assert runtime.counters["plans"] == before


def test_transforms_of_compiled_functions():
    def function(x):
        return (x.sin() * x).sum()

    compiled = weft.compile(function, backend="aot_eager")
    x = floats(4)
    for transform in (weft.func.hessian, weft.func.jacrev, weft.func.grad):
        weft.testing.assert_close(transform(compiled)(x), transform(function)(x))
    rows = floats(3, 4)
    weft.testing.assert_close(weft.func.vmap(compiled)(rows), weft.func.vmap(function)(rows))


def test_training_step_equals_eager():
    losses = []
    for backend in (None, "aot_eager"):
        weft.manual_seed(0)
        model = weft.nn.Sequential(
            weft.nn.Linear(6, 8), weft.nn.BatchNorm1d(8), weft.nn.ReLU(), weft.nn.Dropout(0.2),
            weft.nn.Linear(8, 3),
        )  # fmt: skip
        optimizer = weft.optim.SGD(model.parameters(), lr=0.1)
        x, t = weft.randn(10, 6), weft.randint(0, 3, (10,))

        def loss_of(x, t, model=model):
            y = model(x)
            return F.cross_entropy(y, t), y

        step = loss_of if backend is None else weft.compile(loss_of, backend=backend)
        found = []
        for _ in range(4):
            optimizer.zero_grad()
            loss, _ = step(x, t)
            loss.backward()
            optimizer.step()
            found.append(float(loss))
        losses.append([*found, *model[1].running_mean.tolist()])
    assert losses[1] == pytest.approx(losses[0])


def test_compilers_see_pure_graphs():
    seen = []

    def compiler(module, inputs):
        seen.append((module, inputs))
        return module.forward

    backend = weft.compiler.aot(compiler, compiler)
    compare(write_to_view, floats(3, 4), floats(4), order=1, backend=backend)
    assert len(seen) >= 2
    for module, inputs in seen:
        assert len(module.graph.placeholders) == len(inputs)
        assert not [node for node in module.graph.nodes if node.meta.get("writes") or "_set_" in node.name]


def test_errors_of_compilers_are_reported():
    def compiler(module, inputs):
        raise ZeroDivisionError("mine")

    with pytest.raises(weft.compiler.BackendCompilerFailed, match="mine"):
        weft.compile(lambda x: x * 2, backend=weft.compiler.aot(compiler))(floats(3))


def peak_of(backend):
    weft.manual_seed(0)
    layers = []
    for _ in range(10):
        layers += [weft.nn.Linear(32, 32), weft.nn.LayerNorm(32), weft.nn.GELU()]
    model, x = weft.nn.Sequential(*layers), weft.randn(1000, 32)

    def loss_of(x):
        return model(x).square().mean()

    step = loss_of if backend is None else weft.compile(loss_of, backend=backend)
    step(x).backward()
    model.zero_grad()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    step(x).backward()
    peak = tracemalloc.get_traced_memory()[1] - before
    tracemalloc.stop()
    return peak


def test_ten_layers_take_less_memory_than_eager():
    assert peak_of("aot_eager") < 0.9 * peak_of(None)


def test_tensors_that_eager_keeps_must_not_be_written():
    def function(x, y):
        return weft.maximum(x, y) * 2  # a mask would do for the gradient

    for run in (function, weft.compile(function, backend="aot_eager")):
        x, y = floats(3), floats(3, grad=False)
        out = run(x, y)
        y.mul_(2)
        with pytest.raises(RuntimeError, match=r"weft.DoubleTensor \[3\]\] is at version 1; expected"):
            out.sum().backward()


def test_backwards_that_no_gradient_reaches_do_not_run():
    ran = []

    class Noted(weft.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            ran.append(1)
            return g * 2

    compiled = weft.compile(lambda x, y: (x.sin() * 2, y.sin() * 3), backend="aot_eager")
    for _ in range(2):
        compiled(Noted.apply(floats(3)), floats(3))[1].sum().backward()
    assert not ran


@pytest.mark.parametrize("backend", ["aot_eager", "native"])
def test_tensors_may_move_to_other_memory_before_the_backward(backend):
    """What is kept for a backward are elements, which a tensor can leave behind."""

    def moves(x):
        x.data = x.data * 3

    def turns(x):
        x.detach().t_()
        with weft.no_grad():
            x.t_()

    def gradients(run, move):
        x = weft.tensor([[0.5, 2.0], [-1.0, 4.0]], requires_grad=True)
        w = weft.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
        result = run(x, w)
        move(x)
        try:
            result.sum().backward()
        except RuntimeError as error:
            return str(error)
        return x.grad.tolist(), w.grad.tolist()

    def product(x, w):
        return x * x * w

    for move in (moves, turns):
        assert gradients(weft.compile(product, backend=backend), move) == gradients(product, move)


def test_values_written_behind_the_tape_are_watched_too():
    def function(x, w):
        y = x * w
        z = y * w
        y.data.mul_(2)
        return y, z

    for run in (function, weft.compile(function, backend="aot_eager")):
        y, z = run(floats(3), floats(3))
        with weft.no_grad():
            y.mul_(2)
        with pytest.raises(RuntimeError, match="is at version 1; expected version 0"):
            z.sum().backward()


def masked(x: weft.Tensor) -> tuple[weft.Tensor, weft.Tensor, weft.Tensor]:
    first, second = F.dropout(x, 0.5), F.dropout(x, 0.5)
    return (first * first * x).sum() + (second**3).sum(), first, second


def test_another_seed_between_a_call_and_its_differentiable_gradient() -> None:
    """The gradient is that of the numbers that the call has drawn."""
    results = []
    for call in (masked, weft.compile(masked)):
        weft.manual_seed(5)
        x = weft.arange(1.0, 17.0).requires_grad_()
        loss = call(x)[0]
        weft.manual_seed(7)
        weft.rand(3)
        (once,) = weft.autograd.grad(loss, x, create_graph=True)
        (twice,) = weft.autograd.grad(once.sum(), x)
        results.append((once.tolist(), twice.tolist(), weft.rand(2).tolist()))
    assert results[0] == results[1]


@pytest.mark.parametrize("backend", ["native", "reference"])
def test_draws_of_another_thread_beside_those_of_a_call(backend: str) -> None:
    """Between the draws of a call stand another thread's, in each call, and in its gradient."""
    taken: list[int] = []
    advance = Generator.advance

    def draw() -> None:
        taken.append(advance(default_generator, 1)[1])

    def between(self: Generator, blocks: int) -> tuple[int, int]:
        for when in range(2):
            thread = threading.Thread(target=draw)
            thread.start()
            thread.join()
            if not when:
                found = advance(self, blocks)
        return found

    compiled = weft.compile(masked, backend=backend)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Generator, "advance", between)
        for _ in range(3):
            x = weft.arange(1.0, 17.0).requires_grad_()
            loss, *masks = compiled(x)
            (found,) = weft.autograd.grad(loss, x, create_graph=True)
            first, second = [(mask != 0).float() * 2 for mask in masks]
            assert found.tolist() == (3 * (first**2 + second**3) * x * x).tolist()
    assert len(set(taken)) == len(taken) > 10


UNDERIVABLE = {
    "heaviside": lambda x: weft.heaviside(x, weft.zeros(1, dtype=x.dtype)) * x,
    "floor_divide": lambda x: weft.floor_divide(x, 2.0) + x,
    "igamma": lambda x: weft.igamma(x, x + 1),
    "scatter": lambda x: x.scatter(0, weft.tensor([0, 1]), 2.0, reduce="multiply"),
    "view": lambda x: x.view(weft.int64).view(weft.float64) * x,
}


@pytest.mark.parametrize("name", UNDERIVABLE)
@pytest.mark.parametrize("backend", ["aot_eager", "native"])
def test_what_has_no_derivative_has_values(name, backend, monkeypatch):
    """Backward says so, as in eager; that forward cannot be differentiated ahead of it is no failure."""
    monkeypatch.setattr(weft.compiler.settings, "strict", True)
    function = UNDERIVABLE[name]
    found = []
    for each in (function, weft.compile(function, backend=backend)):
        x = weft.tensor([0.5, 1.5, 4.0], dtype=weft.float64, requires_grad=True)
        y = each(x)
        try:
            y.sum().backward()
            raised = None
        except RuntimeError as error:
            raised = type(error), str(error)
        found.append((y.tolist(), y.requires_grad, raised, None if x.grad is None else x.grad.tolist()))
    assert found[0] == found[1]
    assert found[0][2] is not None or name == "view"  # whose ints have no gradient to hand on


def test_what_a_backward_has_looked_at_is_not_freed_under_it(monkeypatch):
    """Another thread that runs backward of the same graph may come in between any two lines."""
    check = nodes.CompiledFunctionBackward.check

    def interleaved(self, *args):
        found = check(self, *args)
        self.release()
        return found

    monkeypatch.setattr(nodes.CompiledFunctionBackward, "check", interleaved)
    x = weft.arange(5.0).requires_grad_()
    y = weft.compile(lambda x: (x.sin() * x).sum(), backend="aot_eager")(x)
    y.backward()
    assert weft.allclose(x.grad, (x.sin() + x * x.cos()).detach())
    with pytest.raises(RuntimeError, match="Trying to backward through the graph a second time"):
        y.backward()


@pytest.mark.parametrize("backend", ["aot_eager", "native"])
def test_inputs_that_are_written_are_as_they_were_in_every_rerun(backend):
    def function(x):
        x.mul_(2)
        return x.exp()

    leaf = floats(3)
    out = weft.compile(function, backend=backend)(leaf * 1)
    expected = 2 * (2 * leaf.detach()).exp()
    for _ in range(3):  # gradients with graphs run the captured one again
        (found,) = weft.autograd.grad(out.sum(), leaf, create_graph=True)
        weft.testing.assert_close(found.detach(), expected)


def test_calls_from_overrides_run_as_captured():
    class Quiet(weft.Tensor):
        __torch_function__ = disabled_torch_function

    compiled = weft.compile(lambda x: x.sin() * 2, backend="aot_eager")
    found = disabled_torch_function(compiled, (Quiet,), (floats(3),))
    assert runtime.reasons[-1] == "a function mode is active, which sees every call"
    assert found.grad_fn is not None


@pytest.mark.parametrize("backend", ["aot_eager", "native"])
def test_second_derivatives_read_what_data_has_written(backend):
    """The product saves `v`, which requires no grad: its own derivative reads the elements written later."""

    def function(q, v, w):
        product = (q @ v) * w
        v.data.mul_(2)
        return product.sum()

    found = []
    for run in (function, weft.compile(function, backend=backend)):
        weft.manual_seed(0)
        q, w = weft.randn(3, 3, requires_grad=True), weft.randn(3, 3, requires_grad=True)
        (gradient,) = weft.autograd.grad(run(q, weft.randn(3, 3), w), w, create_graph=True)
        gradient.sum().backward()
        found.append((gradient.detach(), q.grad))
    weft.testing.assert_close(found[1], found[0])


def test_what_fails_behind_its_writes_does_not_run_again(monkeypatch):
    compiled = weft.compile(lambda x: x.add_(1) * 2, backend="aot_eager")
    x = weft.zeros(2)
    compiled(x)

    def fail(*_given):
        raise ValueError("a defect")

    monkeypatch.setattr("weft.aot.runtime.plans.rebuilt", fail)
    with pytest.raises(RuntimeError, match="behind the writes of a compiled call: ValueError: a defect"):
        compiled(x)
    assert x.tolist() == [2.0, 2.0]
