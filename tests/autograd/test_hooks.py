"""Hooks on tensors, leaves and nodes: what they see, what they may return, and in which order they run."""

from __future__ import annotations

import gc
import pickle
import sys
import threading
import weakref
from functools import partial

import pytest

import weft
from weft.autograd import grad, hooks
from weft.autograd.hooks import RemovableHandle


def leaf() -> weft.Tensor:
    return weft.tensor([1.0, 2.0, 3.0], requires_grad=True)


def values(tensor: weft.Tensor) -> list[float]:
    return tensor.array.tolist()


def note(log, name, result=None):
    def hook(gradient):
        log.append((name, None if gradient is None else values(gradient)))
        return None if result is None else result(gradient)

    return hook


def test_a_hook_replaces_the_gradient():
    x = leaf()
    y = x * 2
    y.register_hook(lambda g: g * 10)
    y.register_hook(lambda g: g + 1)
    x.register_hook(lambda g: g * 2)
    y.sum().backward()
    assert values(x.grad) == [44, 44, 44]


def test_a_hook_on_a_leaf_sees_the_full_sum():
    x = leaf()
    log = []
    x.register_hook(note(log, "x"))
    (x * 2 + x * 3).sum().backward()
    assert log == [("x", [5, 5, 5])]


def test_hooks_run_in_order_of_registration():
    x = leaf()
    log = []
    for i in range(3):
        x.register_hook(lambda g, i=i: log.append(i))
    x.sum().backward()
    assert log == [0, 1, 2]


def test_order_of_all_hooks_of_a_node():
    x = leaf()
    y = x * 2
    log = []
    y.grad_fn.register_hook(
        lambda inputs, outputs: log.append(("node", values(inputs[0]), values(outputs[0])))
    )
    y.grad_fn.register_prehook(
        lambda outputs: (log.append(("pre", values(outputs[0]))), (outputs[0] + 1,))[1]
    )
    y.retain_grad()
    y.register_hook(note(log, "tensor", lambda g: g * 10))
    y.sum().backward()
    assert log == [("tensor", [1, 1, 1]), ("pre", [10, 10, 10]), ("node", [22, 22, 22], [11, 11, 11])]
    assert values(y.grad) == [10, 10, 10]
    assert values(x.grad) == [22, 22, 22]


def test_order_of_all_hooks_of_a_leaf():
    x = leaf()
    y = x.clone()
    log = []
    accumulator = y.grad_fn.next_functions[0][0]
    accumulator.register_hook(lambda inputs, outputs: log.append(("node", inputs, values(outputs[0]))))
    accumulator.register_prehook(lambda outputs: log.append(("pre", values(outputs[0]))))
    x.register_post_accumulate_grad_hook(lambda p: log.append(("accumulated", values(p.grad))))
    x.register_hook(note(log, "tensor", lambda g: g * 2))
    y.sum().backward()
    assert log == [
        ("tensor", [1, 1, 1]),
        ("pre", [2, 2, 2]),
        ("accumulated", [2, 2, 2]),
        ("node", (), [2, 2, 2]),
    ]


def test_grad_runs_tensor_hooks_but_not_the_leafs_other_hooks():
    x = leaf()
    y = x.clone()
    log = []
    y.grad_fn.next_functions[0][0].register_prehook(lambda outputs: log.append("pre"))
    x.register_post_accumulate_grad_hook(lambda p: log.append("accumulated"))
    x.register_hook(note(log, "tensor", lambda g: g * 2))
    assert values(grad(y.sum(), x)[0]) == [2, 2, 2]
    assert log == [("tensor", [1, 1, 1])]
    assert x.grad is None


def test_captured_gradients_and_hooks():
    """As PyTorch: what is captured has passed the hooks, unless the node itself runs too."""
    x = leaf()
    y = x * 2
    log = []
    y.register_hook(note(log, "tensor", lambda g: g * 10))
    y.grad_fn.register_hook(lambda inputs, outputs: log.append("node"))
    assert values(grad(y.sum(), y, retain_graph=True)[0]) == [10, 10, 10]
    assert log == [("tensor", [1, 1, 1])]
    captured, passed = grad(y.sum(), [y, x])
    assert (values(captured), values(passed)) == ([1, 1, 1], [20, 20, 20])


def test_undefined_gradients_reach_hooks_as_none():
    x = leaf()
    first, second = (x * 1).split([1, 2])
    log = []
    first.register_hook(note(log, "first"))
    second.register_hook(note(log, "second"))
    second.grad_fn.register_prehook(lambda outputs: log.append(outputs[0]))
    second.sum().backward()
    assert log == [("first", None), ("second", [1, 1]), None]


@pytest.mark.parametrize(
    ("hook", "error", "text"),
    [
        (lambda g: weft.ones(2), RuntimeError, "hook '<lambda>' has changed the size of value"),
        (
            lambda g: g.double(),
            RuntimeError,
            "hook '<lambda>' has changed the type of value (was weft.FloatTensor got weft.DoubleTensor)",
        ),
        (lambda g: 3, TypeError, "expected Variable, but hook returned 'int'"),
    ],
)
def test_tensor_hooks_must_return_the_like(hook, error, text):
    y = leaf() * 2
    y.register_hook(hook)
    with pytest.raises(error) as caught:
        y.sum().backward()
    assert str(caught.value) == text


@pytest.mark.parametrize(
    ("hook", "error", "text"),
    [
        (
            lambda inputs, outputs: (inputs[0],) * 3,
            RuntimeError,
            "hook '<lambda>' has returned an incorrect number of values (got 3, but expected 2)",
        ),
        (lambda inputs, outputs: inputs[0], TypeError, "expected tuple, but hook returned 'Tensor'"),
    ],
)
def test_node_hooks_must_return_the_like(hook, error, text):
    y = leaf() * 2
    y.grad_fn.register_hook(hook)
    with pytest.raises(error) as caught:
        y.sum().backward()
    assert str(caught.value) == text


@pytest.mark.parametrize(
    ("hook", "error", "text"),
    [
        (lambda outputs: outputs[0] * 2, TypeError, "expected tuple, but hook returned 'Tensor'"),
        (lambda outputs: 3, TypeError, "expected tuple, but hook returned 'int'"),
        (
            lambda outputs: outputs * 2,
            RuntimeError,
            "hook '<lambda>' has returned an incorrect number of values (got 2, but expected 1)",
        ),
    ],
)
def test_node_prehooks_must_return_the_like(hook, error, text):
    y = leaf() * 2
    y.grad_fn.register_prehook(hook)
    with pytest.raises(error) as caught:
        y.sum().backward()
    assert str(caught.value) == text


def test_none_in_the_place_of_a_gradient_stops_it():
    x = leaf()
    y = x * 2
    y.grad_fn.register_hook(lambda inputs, outputs: (None, None))
    y.sum().backward()
    assert x.grad is None
    z = x * 2
    z.grad_fn.register_prehook(lambda outputs: (None,))
    z.sum().backward()
    assert x.grad is None


def test_hooks_record_with_create_graph():
    x = leaf()
    y = x * x
    seen = []
    y.register_hook(lambda g: (seen.append(weft.is_grad_enabled()), g * x)[1])
    (first,) = grad(y.sum(), x, create_graph=True)
    assert seen == [True]
    assert values(first) == [2, 8, 18]
    assert values(grad(first.sum(), x)[0]) == [4, 8, 12]


def test_post_accumulate_hooks():
    x = leaf()

    def step(parameter):
        with weft.no_grad():
            parameter.sub_(parameter.grad)
        parameter.grad = None

    handle = x.register_post_accumulate_grad_hook(step)
    (x * 2).sum().backward()
    assert x.grad is None
    assert values(x) == [-1, 0, 1]
    handle.remove()
    (x * 2).sum().backward()
    assert values(x.grad) == [2, 2, 2]
    x.register_post_accumulate_grad_hook(lambda p: p)
    with pytest.raises(RuntimeError, match="Tensor post accumulate grad hooks should return None"):
        (x * 2).sum().backward()


def test_removal():
    x = leaf()
    log = []
    handles = []

    def first(_gradient):
        log.append(1)
        handles[0].remove()
        handles[1].remove()

    handles += [x.register_hook(first), x.register_hook(lambda g: log.append(2))]
    x.sum().backward()
    assert log == [1, 2], "a hook removed while hooks run still runs this time"
    x.sum().backward()
    assert log == [1, 2]
    handles[0].remove()


def test_handles_are_context_managers():
    x = leaf()
    with x.register_hook(lambda g: g * 2) as handle:
        assert isinstance(handle, RemovableHandle)
        x.sum().backward()
    x.sum().backward()
    assert values(x.grad) == [3, 3, 3]


def test_handles_outlive_what_they_belong_to():
    x, log = leaf(), []
    y = x * 2
    handle = y.register_hook(log.append)
    reference, z = weakref.ref(y), y.sum()
    del y
    assert reference() is None
    handle.remove()
    handle.remove()
    z.backward()
    assert not log and values(x.grad) == [2, 2, 2]


def test_hooks_do_not_keep_tensors_alive():
    gc.disable()
    try:
        y = leaf() * 2
        y.retain_grad()
        y.register_hook(lambda g: None)
        reference = weakref.ref(y)
        z = y.sum()
        del y
        assert reference() is None
        z.backward()
    finally:
        gc.enable()


def test_hooks_stay_with_the_value_they_were_registered_on():
    x = leaf()
    y = x * 2
    log = []
    y.register_hook(note(log, "before"))
    y.retain_grad()
    y.mul_(5)
    y.register_hook(note(log, "after"))
    y.sum().backward()
    assert log == [("after", [1, 1, 1]), ("before", [5, 5, 5])]
    assert y.retains_grad
    assert values(y.grad) == [1, 1, 1], "retain_grad follows the tensor"


def test_retain_grad_follows_views():
    y = leaf() * 2
    v = y[0:2]
    log = []
    v.retain_grad()
    v.register_hook(note(log, "old"))
    y.mul_(5)
    v.sum().backward()
    assert values(v.grad) == [1, 1]
    assert log == []


def test_retain_grad_adds_up_and_is_a_copy():
    x = leaf()
    y = x * 2
    y.retain_grad()
    y.retain_grad()
    y.sum().backward(retain_graph=True)
    y.sum().backward()
    assert values(y.grad) == [2, 2, 2]
    y.grad.mul_(0)
    assert values(x.grad) == [4, 4, 4]


def test_leaf_hooks_survive_requires_grad():
    x = leaf()
    x.register_hook(lambda g: g * 2)
    x.requires_grad_(False)
    x.requires_grad_()
    x.sum().backward()
    assert values(x.grad) == [2, 2, 2]


def test_who_keeps_a_gradient_has_the_tensor_that_others_get():
    """As PyTorch has it: versions, and what is written, are seen by all."""
    kept = []
    x = weft.ones(2, requires_grad=True)
    y = x * 2
    for tensor in (x, y, x):
        tensor.register_hook(lambda gradient: kept.append(gradient))
    (found,) = weft.autograd.grad(y.sum(), x)
    assert len(kept) == 3 and kept[1] is kept[2] is found and kept[0] is not found
    kept.clear()
    (x * 2).sum().backward()
    assert kept[0] is kept[1] and kept[0].array is not x.grad.array


def shown(*_given: object) -> None:
    """A hook that can be pickled."""


def test_handles_go_through_pickles_with_their_modules() -> None:
    module = weft.nn.Linear(2, 2)
    handle = module.register_forward_hook(shown)
    module, handle = pickle.loads(pickle.dumps((module, handle)))
    assert list(module._forward_hooks) == [handle.id]
    handle.remove()
    assert not module._forward_hooks
    handle = weft.nn.Linear(2, 2).register_forward_hook(shown)
    gc.collect()
    pickle.loads(pickle.dumps(handle)).remove()  # of a module that is gone


# -- views that are written after they got hooks -------------------------------------
def written(log: list[object], used: bool, kind: str):
    """A program whose view gets a hook, may be used, and is written."""

    def run(x: weft.Tensor) -> weft.Tensor:
        base = x * 2
        view = base[1:]
        if kind == "tensor":
            view.register_hook(lambda gradient: (log.append(gradient.tolist()), gradient * 10)[1])
        else:
            view.grad_fn.register_prehook(lambda gradients: log.append(gradients[0].tolist()))
        before = (view * 7).sum() if used else 0
        view.mul_(3)
        return (view * 5).sum() + base.sum() + before

    return run


@pytest.mark.parametrize("backend", [None, "eager", "aot_eager", "native"])
@pytest.mark.parametrize("used", [False, True])
def test_hooks_of_a_view_hear_only_of_uses_before_it_is_written(used: bool, backend: str | None) -> None:
    log: list[object] = []
    program = written(log, used, "tensor")
    x = leaf()
    (program if backend is None else weft.compile(program, backend=backend))(x).backward()
    assert log == ([[7, 7]] if used else [])  # the write reads the base, not the view as it was
    inside = 2 * 3 * (5 + 1) + (2 * 10 * 7 if used else 0)
    assert values(x.grad) == [2, inside, inside]


@pytest.mark.parametrize("used", [False, True])
def test_so_do_prehooks_of_its_node(used: bool) -> None:
    log: list[object] = []
    x = leaf()
    written(log, used, "node")(x).backward()
    assert log == ([[7, 7]] if used else [])
    inside = 2 * 3 * (5 + 1) + (2 * 7 if used else 0)
    assert values(x.grad) == [2, inside, inside]


def at_once(functions):
    """What functions give that threads call at once."""
    barrier = threading.Barrier(len(functions))
    found = {}

    def work(number, function):
        barrier.wait()
        found[number] = function()

    threads = [threading.Thread(target=work, args=each) for each in enumerate(functions)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [found[number] for number in range(len(functions))]


def noted(log, entry, *_given):
    log.append(entry)


def first_edge(node):
    return node.next_functions[0][0]


@pytest.fixture
def impatient():
    """Threads that give way as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("kind", ["tensor", "accumulated", "node"])
def test_first_hooks_of_several_threads_are_all_there(kind):
    for _ in range(300):
        x, seen = leaf(), []
        y = x * 2
        register = {
            "tensor": x.register_hook,
            "accumulated": x.register_post_accumulate_grad_hook,
            "node": y.grad_fn.register_hook,
        }[kind]
        at_once([partial(register, partial(noted, seen, n)) for n in range(6)])
        y.sum().backward()
        assert sorted(seen) == [0, 1, 2, 3, 4, 5]


@pytest.mark.usefixtures("impatient")
def test_threads_see_one_accumulate_grad():
    for _ in range(300):
        faces = at_once([partial(first_edge, (leaf() * 2).grad_fn)] * 6)
        assert len(set(map(id, faces))) == 1


def test_backward_runs_while_a_first_hook_is_registered(monkeypatch):
    x, seen = leaf(), []
    x.register_hook(lambda g: seen.append("tensor"))
    y = (x * 2).sum()

    class Table(hooks.HookTable):
        """Whose making is interrupted, by another thread or a handler of signals."""

        def __init__(self):
            super().__init__()
            y.backward(retain_graph=True)

    monkeypatch.setattr(hooks, "HookTable", Table)
    x.register_post_accumulate_grad_hook(lambda p: seen.append("accumulated"))
    assert seen == ["tensor"] * len(seen) and seen
    y.backward()
    assert seen[-2:] == ["tensor", "accumulated"]
