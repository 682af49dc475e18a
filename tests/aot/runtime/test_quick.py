"""The gradient taken outside: compiled calls that the tape records, and `backward()` of what they give.

Each test does the same with eager code and with compiled code whose calls and backwards are native by then,
and compares all that can be seen.
"""

from __future__ import annotations

import copy
import gc
import sys
import threading
import weakref
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

import weft
from weft.aot import compiled_autograd
from weft.aot.runtime import direct
from weft.aot.runtime.nodes import MOST_SIZES, OpenCalls
from weft.aot.runtime.quick import Quick
from weft.aot.runtime.recorded import recorded
from weft.autograd import properties
from weft.core.settings import settings
from weft.nn import functional as F

Program = Callable[..., Any]


@pytest.fixture(autouse=True)
def _strict() -> Any:
    before, settings.strict = settings.strict, True
    yield
    settings.strict = before


class Runs:
    """How often backwards ran natively, and how often the engine's way."""

    def __init__(self, monkeypatch: Any) -> None:
        self.native = self.general = self.alone = 0
        """`alone`: of the native ones, those that passed the engine by."""
        alone, run = Quick.alone, Quick.run

        def counted_alone(quick: Any, *given: Any) -> bool:
            done = alone(quick, *given)
            self.native += done
            self.alone += done
            return done

        def counted_run(quick: Any, *given: Any) -> Any:
            found = run(quick, *given)
            known = weft.aot.runtime.quick.NONE
            self.native += found is not known
            self.general += found is known
            return found

        monkeypatch.setattr(Quick, "alone", counted_alone)
        monkeypatch.setattr(Quick, "run", counted_run)

    def since(self) -> tuple[int, int]:
        found = self.native, self.general
        self.native = self.general = 0
        return found


@pytest.fixture
def runs(monkeypatch: Any) -> Runs:

    return Runs(monkeypatch)


class Model:
    """A loss of two parameters and an input, eager or compiled."""

    def __init__(self, compiled: bool) -> None:
        weft.manual_seed(0)
        self.a = weft.nn.Parameter(weft.randn(4, 3))
        self.b = weft.nn.Parameter(weft.randn(3))
        self.x = weft.randn(5, 4)

        def loss(x: Any) -> Any:
            return ((x @ self.a + self.b).tanh() - 0.25).square().mean()

        self.plain = loss
        self.loss = weft.compile(loss) if compiled else loss
        if compiled:
            for _ in range(4):
                self.loss(self.x).backward()
            self.a.grad = self.b.grad = None

    def seen(self) -> Any:
        return [None if p.grad is None else p.grad.tolist() for p in (self.a, self.b)]


def outcome(act: Callable[[Model], Any], model: Model) -> Any:
    try:
        found = act(model)
    except RuntimeError as error:
        found = str(error).partition(" at 0x")[0]
    return found, model.seen(), [p.grad is not None and p.grad._version for p in (model.a, model.b)]


def close(one: Any, other: Any) -> None:
    if isinstance(one, (list, tuple)):
        assert len(one) == len(other)
        for left, right in zip(one, other):
            close(left, right)
    elif isinstance(one, float):
        assert one == pytest.approx(other, rel=1e-4, abs=2e-6)
    else:
        assert one == other


def plain(model: Model) -> Any:
    loss = model.loss(model.x)
    loss.backward()
    return loss.item(), loss.requires_grad, loss._version


def there_already(model: Model) -> Any:
    model.loss(model.x).backward()
    first = model.a.grad
    model.loss(model.x * 2).backward()
    assert model.a.grad is first
    return first._version


def retained(model: Model) -> Any:
    loss = model.loss(model.x)
    loss.backward(retain_graph=True)
    loss.backward(retain_graph=True)
    loss.backward()
    loss.backward()  # raises


def scaled(model: Model) -> Any:
    model.loss(model.x).backward(weft.tensor(3.0))


def from_outside(model: Model) -> Any:
    loss = model.loss(model.x)
    (loss * 2 + loss.exp()).backward()


def two_losses(model: Model) -> Any:
    (model.loss(model.x) + model.loss(model.x + 1)).backward()


def half_there(model: Model) -> Any:
    model.b.grad = weft.ones(3)
    model.loss(model.x).backward()


def transposed(model: Model) -> Any:
    model.a.data = model.a.data.t().contiguous().t()
    model.loss(model.x).backward()
    return model.a.grad.stride()


def moved(model: Model) -> Any:
    loss = model.loss(model.x)
    model.a.data = model.a.data * 2
    loss.backward()


def backward_under_no_grad(model: Model) -> Any:
    loss = model.loss(model.x)
    with weft.no_grad():
        loss.backward()


NATIVE = [plain, there_already, retained, from_outside, two_losses, half_there, moved]


@pytest.mark.parametrize("act", [*NATIVE, scaled, transposed, backward_under_no_grad])
def test_gradients_and_their_memory_are_those_of_eager_code(act: Any, runs: Runs) -> None:
    model = Model(True)
    runs.since()
    close(outcome(act, model), outcome(act, Model(False)))
    native, _ = runs.since()
    assert native or act not in NATIVE
    if model.a.grad is not None:
        assert model.a.grad.data_ptr() != model.b.grad.data_ptr()


# -- what has to go through the engine -----------------------------------------------------------------------
def tensor_hook(model: Model) -> Any:
    loss = model.loss(model.x)
    loss.register_hook(lambda g: g * 2)
    loss.backward()


def node_hook(model: Model) -> Any:
    loss, seen = model.loss(model.x), []
    loss.grad_fn.register_hook(lambda given, got: seen.append(len(got)))
    loss.backward()
    return len(seen)


def node_prehook(model: Model) -> Any:
    loss = model.loss(model.x)
    loss.grad_fn.register_prehook(lambda got: (got[0] * 3,))
    loss.backward()


def leaf_hook(model: Model) -> Any:
    loss = model.loss(model.x)
    model.a.register_hook(lambda g: g + 1)
    loss.backward()


def leaf_hook_before(model: Model) -> Any:
    model.b.register_hook(lambda g: g + 1)
    model.loss(model.x).backward()


def after_accumulation(model: Model) -> Any:
    seen: list[Any] = []
    model.a.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.tolist()))
    model.loss(model.x).backward()
    return seen


def retain_grad(model: Model) -> Any:
    loss = model.loss(model.x)
    loss.retain_grad()
    loss.backward()
    return loss.grad.item()


def some_inputs(model: Model) -> Any:
    model.loss(model.x).backward(inputs=[model.b])


def with_graph(model: Model) -> Any:
    loss = model.loss(model.x)
    (grad,) = weft.autograd.grad(loss, model.a, create_graph=True)
    grad.square().sum().backward()


def anomaly(model: Model) -> Any:
    loss = model.loss(model.x)
    with weft.autograd.detect_anomaly(check_nan=False):
        loss.backward()


def written_between(model: Model) -> Any:
    loss = model.loss(model.x)
    with weft.no_grad():
        model.a.add_(1)
        model.x.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation") as found:
        loss.backward()
    model.a.grad = model.b.grad = None  # eager has come to one of them
    return str(found.value)


def twice(model: Model) -> Any:
    loss = model.loss(model.x)
    loss.backward()
    loss.backward()


def frozen_since(model: Model) -> Any:
    loss = model.loss(model.x)
    model.a.requires_grad_(False)
    loss.backward()


def became_inner(model: Model) -> Any:
    loss = model.loss(model.x)
    with weft.enable_grad():
        model.b.data.add_(0)
    model.a.grad = weft.zeros(4, 3)
    loss.backward()


def inside_another(model: Model) -> Any:
    other = weft.ones(2, requires_grad=True)
    loss = model.loss(model.x)
    out = other * 2
    out.register_hook(lambda g: loss.backward())
    out.sum().backward()
    return other.grad.tolist()


ENGINE = [
    tensor_hook, node_hook, node_prehook, leaf_hook, leaf_hook_before, after_accumulation, retain_grad,
    some_inputs, with_graph, anomaly, written_between, frozen_since,
]  # fmt: skip


def inside_another_with_gradients_on(model: Model) -> Any:
    """In hooks they are off otherwise, which is another reason."""
    other = weft.ones(2, requires_grad=True)
    loss = model.loss(model.x)

    def hook(_grad: Any) -> None:
        with weft.enable_grad():
            loss.backward()

    out = other * 2
    out.register_hook(hook)
    out.sum().backward()
    return other.grad.tolist()


def under_compiled_autograd(model: Model) -> Any:
    loss, graphs = model.loss(model.x), []

    def noted(graph: Any) -> Any:
        graphs.append(graph)
        return weft.compile(graph, backend="eager")

    with compiled_autograd.enable(noted):
        loss.backward()
    assert len(graphs) == 1


@pytest.mark.parametrize(
    "act, sweeps",
    [(plain, 0), (scaled, 1), (inside_another_with_gradients_on, 2), (under_compiled_autograd, 1)],
)
def test_the_engine_itself_runs(act: Any, sweeps: int, runs: Runs, monkeypatch: Any) -> None:
    """Where a gradient is passed, in another backward, and where compiled autograd has taken over: nothing
    passes the engine by."""
    model, general, seen = Model(True), properties.backward, []

    def swept(*args: Any, **kwargs: Any) -> None:
        seen.append(args)
        general(*args, **kwargs)

    monkeypatch.setattr(properties, "backward", swept)
    alone = runs.alone
    found = outcome(act, model)
    assert (len(seen), runs.alone - alone) == (sweeps, int(not sweeps))
    close(found, outcome(act, Model(False)))


@pytest.mark.filterwarnings("ignore:Anomaly Detection")
@pytest.mark.parametrize("act", [*ENGINE, twice, became_inner, inside_another])
def test_what_somebody_sees_goes_through_the_engine(act: Any, runs: Runs) -> None:
    model = Model(True)
    runs.since()
    close(outcome(act, model), outcome(act, Model(False)))
    native, _ = runs.since()
    assert not native or act not in ENGINE


def test_leaves_that_are_shared_get_the_sum_in_one_array(runs: Runs) -> None:
    def layers(compiled: bool) -> Any:
        weft.manual_seed(0)
        w = weft.nn.Parameter(weft.randn(3, 3))
        one = (weft.compile if compiled else lambda f: f)(lambda x: (x @ w).tanh())
        x = weft.randn(2, 3)
        for _ in range(4):
            w.grad = None
            one(one(x)).sum().backward()
        return w.grad.tolist(), w.grad._version

    expected = layers(False)
    close(layers(True), expected)
    assert runs.since()[0]


def hook_of_gradient(leaf: Any, seen: list[Any]) -> Any:
    return leaf.register_hook(lambda gradient: (seen.append("hook"), gradient * 2)[1])


def hook_behind_accumulation(leaf: Any, seen: list[Any]) -> Any:
    return leaf.register_post_accumulate_grad_hook(lambda leaf: seen.append(leaf.grad.tolist()))


@pytest.mark.parametrize("register", [hook_of_gradient, hook_behind_accumulation])
def test_hooks_of_leaves_that_share_their_gradient(register: Any, runs: Runs) -> None:
    """One array goes to both leaves, so none of them may keep it."""
    loss = weft.compile(lambda a, b: (a + b).sum())
    leaves = [weft.ones(3, requires_grad=True) for _ in range(2)]
    for _ in range(4):
        loss(*leaves).backward()
    runs.since()
    loss(*leaves).backward()
    assert runs.since() == (1, 0)
    for leaf in leaves:
        leaf.grad = None
    seen: list[Any] = []
    handle = register(leaves[1], seen)
    loss(*leaves).backward()
    expected = 2.0 if register is hook_of_gradient else 1.0
    assert seen == (["hook"] if register is hook_of_gradient else [[1.0] * 3])
    assert [leaf.grad.tolist() for leaf in leaves] == [[1.0] * 3, [expected] * 3]
    handle.remove()
    loss(*leaves).backward()
    assert len(seen) == 1


def test_a_leaf_that_comes_twice_gets_one_gradient() -> None:
    seen: list[Any] = []
    for compiled in (False, True):
        function: Program = lambda a, b: (a + b).sum()
        loss = weft.compile(function) if compiled else function
        leaf, other = [weft.ones(3, requires_grad=True) for _ in range(2)]
        for each in (other, other, other, other, leaf, leaf, leaf):
            leaf.grad = None
            loss(leaf, each).backward()
        seen.append((leaf.grad.tolist(), leaf.grad._version))
    assert seen[0] == seen[1]


def test_layers_compiled_apart_stay_native(runs: Runs) -> None:
    def chain(compiled: bool) -> Any:
        weft.manual_seed(0)
        layers = [weft.nn.Linear(4, 4) for _ in range(3)]
        calls = [weft.compile(layer) if compiled else layer for layer in layers]
        x, y = weft.randn(5, 4), weft.randn(5, 4)
        for _ in range(5):
            for layer in layers:
                layer.zero_grad()
            out = x
            for call in calls:
                out = call(out).relu()
            runs.since()
            F.mse_loss(out, y).backward()
        return [p.grad.tolist() for layer in layers for p in layer.parameters()]

    close(chain(True), chain(False))


def test_outputs_of_which_one_comes_of_the_other() -> None:
    def train(compiled: bool) -> Any:
        weft.manual_seed(0)
        net = weft.nn.Linear(3, 2)

        def both(x: Any) -> Any:
            out = net(x)
            return out, out.square().mean()

        call = weft.compile(both) if compiled else both
        x, found = weft.randn(4, 3), []
        for turn in range(6):
            net.zero_grad()
            out, loss = call(x)
            (loss if turn % 2 else loss + out.sum()).backward()
            found.append([p.grad.tolist() for p in net.parameters()])
        return found

    close(train(True), train(False))


def test_random_numbers_are_the_same_when_gradients_run_again() -> None:
    def train(compiled: bool) -> Any:
        weft.manual_seed(0)
        net = weft.nn.Linear(8, 8)

        def function(x: Any) -> Any:
            return F.dropout(net(x), 0.5).square().sum()

        call = weft.compile(function) if compiled else function
        x, found = weft.randn(4, 8), []
        for turn in range(6):
            net.zero_grad()
            loss = call(x)
            if turn == 5:
                grads = weft.autograd.grad(loss, list(net.parameters()), create_graph=True)
                sum(g.square().sum() for g in grads).backward()
            else:
                loss.backward()
            found.append([p.grad.tolist() for p in net.parameters()])
        return found, weft.randn(2).tolist()

    close(train(True), train(False))


def test_buffers_that_calls_write(runs: Runs) -> None:
    def train(compiled: bool) -> Any:
        weft.manual_seed(0)
        net = weft.nn.Sequential(weft.nn.Linear(4, 6), weft.nn.BatchNorm1d(6), weft.nn.ReLU())
        call = weft.compile(net) if compiled else net
        x, found = weft.randn(8, 4), []
        for turn in range(7):
            net.zero_grad()
            runs.since()
            out = call(x + turn).square().sum()
            if turn == 6:  # gradients are computed again, from buffers as they were
                grads = weft.autograd.grad(out, list(net.parameters()), create_graph=True)
                sum(g.square().sum() for g in grads).backward()
            else:
                out.backward()
            assert not compiled or turn != 5 or runs.since()[0]
            state = [b.tolist() for b in net.buffers()], [b._version for b in net.buffers()]
            found.append([state, [p.grad.tolist() for p in net.parameters()]])
        return found

    ours, theirs = train(True), train(False)
    for one, other in zip(ours, theirs):
        assert one[0][1] == other[0][1]
        weft.testing.assert_close(
            weft.tensor(one[0][0][0]), weft.tensor(other[0][0][0]), rtol=1e-4, atol=1e-5
        )
        for left, right in zip(one[1], other[1]):
            weft.testing.assert_close(weft.tensor(left), weft.tensor(right), rtol=1e-3, atol=1e-3)


def test_sizes_that_vary_stay_native(runs: Runs) -> None:
    def train(compiled: bool) -> Any:
        weft.manual_seed(0)
        net = weft.nn.Sequential(weft.nn.Linear(4, 8), weft.nn.Tanh(), weft.nn.Linear(8, 2))

        def both(x: Any) -> Any:
            out = net(x)
            return out, out.square().mean()

        call, found = weft.compile(both) if compiled else both, []
        for turn, size in enumerate([40, 50, 60, 55, 45, 70, 41, 42, 43, 44]):
            net.zero_grad()
            x = weft.randn(size, 4, requires_grad=True)
            runs.since()
            out, loss = call(x)
            assert out.grad_fn._input_metadata[0].shape == (size, 2)
            if turn == 8:  # gradients run again, at these sizes
                grads = weft.autograd.grad(loss, [x, *net.parameters()], create_graph=True)
                sum(g.square().sum() for g in grads).backward()
            elif turn == 9:
                with weft.no_grad():
                    net[2].weight.add_(1)
                with pytest.raises(RuntimeError, match="modified by an inplace operation") as error:
                    loss.backward()
                found.append(str(error.value).partition(", which is")[0])
                continue
            else:
                (loss + out.sum() if turn % 2 else loss).backward()
            assert not compiled or not 5 <= turn < 8 or runs.since() == (2, 0)
            found.append([x.grad.tolist(), [p.grad.tolist() for p in net.parameters()]])
        return found

    ours, theirs = train(True), train(False)
    assert ours.pop().partition(" is at")[0] == theirs.pop().partition(" is at")[0]
    close(ours, theirs)


def test_random_numbers_of_sizes_that_vary() -> None:
    def train(compiled: bool) -> Any:
        weft.manual_seed(0)
        net = weft.nn.Linear(4, 4)

        def function(x: Any) -> Any:
            return F.dropout(net(x), 0.5).square().mean()

        call, found = weft.compile(function) if compiled else function, []
        for size in [40, 50, 60, 55, 45, 70]:
            net.zero_grad()
            loss = call(weft.ones(size, 4))
            grads = weft.autograd.grad(loss, list(net.parameters()), create_graph=True)
            sum(g.square().sum() for g in grads).backward()
            found.append([p.grad.tolist() for p in net.parameters()])
        return found, weft.randn(2).tolist()

    close(train(True), train(False))


def test_memory_goes_with_the_loss_and_with_its_backward() -> None:
    model = Model(True)
    loss = model.loss(model.x)
    node = weakref.ref(loss.grad_fn)
    saved = [weakref.ref(each) for each in loss.grad_fn.saved if not isinstance(each, (int, float))]
    assert saved
    del loss
    assert node() is None and not any(each() is not None for each in saved if each() is not model.x.array)
    loss = model.loss(model.x)
    kept = [weakref.ref(each) for each in loss.grad_fn.saved if each is not model.x.array]
    loss.backward()
    assert kept and not any(each() is not None for each in kept)
    assert loss.grad_fn.saved is None
    gc.collect()
    before = len(gc.get_objects())
    for _ in range(50):
        model.loss(model.x).backward()
    gc.collect()
    assert len(gc.get_objects()) < before + 50


def test_what_is_seen_of_a_node() -> None:
    model, eager = Model(True), Model(False)
    node = model.loss(model.x).grad_fn
    assert node.name() == "CompiledFunctionBackward"
    assert {each[0].variable for each in node.next_functions} == {model.a, model.b}
    assert node._sequence_nr() < eager.loss(eager.x).grad_fn._sequence_nr()
    assert node.metadata == {} and not model.loss(model.x).is_leaf
    with pytest.raises(RuntimeError, match="Only Tensors created explicitly"):
        copy.deepcopy(model.loss(model.x))


def test_modes_around_calls() -> None:
    model = Model(True)
    with weft.no_grad():
        assert not model.loss(model.x).requires_grad
    with weft.inference_mode():
        assert model.loss(model.x).is_inference()
    with weft.autocast("cpu", dtype=weft.bfloat16):
        loss = model.loss(model.x)
        assert loss.grad_fn is not None
    loss.backward()
    assert model.loss(model.x).requires_grad


def test_the_log_says_what_is_left_to_python(caplog: Any) -> None:
    weft.compiler.set_logs("entries")
    x = weft.randn(3, 3, requires_grad=True)

    def views(x: Any) -> Any:
        y = x * 2
        return y, y[0]

    def decomposed(x: Any) -> Any:
        return weft.linalg.svd(x)[1].sum() * 2

    try:
        with caplog.at_level("DEBUG", "weft.compile"):
            for function in (views, decomposed):
                call = weft.compile(function)
                for _ in range(3):
                    call(x)
    finally:
        weft.compiler.set_logs()
    said = caplog.text
    assert "the nodes of a graph are left to Python: it gives views" in said
    assert "Python does 0: array kernel svd" in said and "in decomposed" in said


def test_threads_call_backward_of_one_function_at_once() -> None:
    weft.manual_seed(0)
    w = weft.nn.Parameter(weft.randn(64, 64))
    call = weft.compile(lambda x: (x @ w).tanh().square().sum())
    x = weft.randn(8, 64)
    expected = weft.autograd.grad((x @ w).tanh().square().sum(), w)[0]
    turns, gate = 25, threading.Barrier(4)
    failures: list[BaseException] = []

    def work() -> None:
        try:
            gate.wait()
            for _ in range(turns):
                call(x).backward()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert not failures
    weft.testing.assert_close(w.grad, expected * (4 * turns), rtol=1e-3, atol=1e-3)


def test_one_loss_is_differentiated_once_by_threads() -> None:
    model = Model(True)
    for _ in range(20):
        loss, raised = model.loss(model.x), []
        gate = threading.Barrier(2)

        def work(loss: Any = loss, raised: Any = raised, gate: Any = gate) -> None:
            gate.wait()
            try:
                loss.backward()
            except RuntimeError as error:
                raised.append(str(error))

        threads = [threading.Thread(target=work) for _ in range(2)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        assert len(raised) == 1 and "second time" in raised[0]


def test_threads_ask_for_calls_of_more_sizes_than_are_kept() -> None:
    """Whatever a thread finds full, another may have emptied."""
    template = SimpleNamespace(compiled=None, plan_at=lambda _values, _program: SimpleNamespace(types=None))
    sizes = SimpleNamespace(sizes=SimpleNamespace(axes={}))
    calls = OpenCalls(SimpleNamespace(template=template, program=None, types=[], compiled=sizes), ["size"])
    failed: list[Exception] = []

    def work(thread: int) -> None:
        try:
            for number in range(40000):
                calls.at((number * 4 + thread,))
        except Exception as error:
            failed.append(error)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert not failed
    assert len(calls.made) <= MOST_SIZES + len(threads)


def test_what_functions_settle_is_asked_of_each():
    """Where one for some layout settles a leaf that the one for all sizes leaves to the sweep."""
    weft.manual_seed(0)

    def program(x: Any, w: Any) -> Any:
        return (x @ w).tanh()

    compiled = weft.compile(program)

    def gradients(function: Program, size: int, turned: bool, again: bool) -> list[Any]:
        x, w = weft.randn(size, 4, requires_grad=True), weft.randn(4, 3, requires_grad=True)
        gradient = weft.ones(3, size).t() if turned else weft.ones(size, 3)
        values, given = [function(x, w)], [gradient]
        if again:
            values, given = [*values, (x * 3).sum()], [gradient, None]
        weft.autograd.backward(values, given)
        return [x.grad, w.grad]

    calls = [(5, False, False), (6, False, False)] + [(7, True, False)] * 5
    calls += [(size, False, False) for size in (8, 9, 8, 9, 8, 9)] + [(7, True, True)] * 3
    for call in calls:
        weft.manual_seed(call[0])
        expected = gradients(program, *call)
        weft.manual_seed(call[0])
        for one, other in zip(gradients(compiled, *call), expected, strict=True):
            weft.testing.assert_close(one, other)


def test_a_plan_that_was_not_called_yet_has_no_recorded_calls(monkeypatch: Any) -> None:
    """As one that another thread has just made."""
    given: list[Any] = []

    def noted(*args: Any) -> Any:
        given.append(args)
        return recorded(*args)

    monkeypatch.setattr(direct, "recorded", noted)
    compiled = weft.compile(lambda x, w: (x @ w).tanh())
    for _ in range(8):
        compiled(weft.ones(3, 4), weft.ones(4, 3, requires_grad=True)).sum().backward()
    plan, *others = given[-1]
    assert recorded(plan, *others) is not None
    plan.types = None
    assert recorded(plan, *others) is None
