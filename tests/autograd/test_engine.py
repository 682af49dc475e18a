"""`backward` and `grad`: arguments, checks, texts, and what gradients end up where."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
import weakref
from collections import OrderedDict

import numpy as np
import pytest

import weft
from weft.autograd import backward, grad
from weft.autograd.graph import get_gradient_edge


def leaf(*values: float) -> weft.Tensor:
    return weft.tensor(list(values) or [1.0, 2.0, 3.0], requires_grad=True)


def values(tensor: weft.Tensor) -> list[float]:
    return tensor.array.tolist()


# -- backward --------------------------------------------------------------------------------------
def test_backward_accumulates_into_the_same_object():
    x = leaf()
    x.sum().backward()
    first = x.grad
    x.sum().backward()
    assert x.grad is first
    assert values(first) == [2, 2, 2]
    assert first._version == 1


def test_gradients_of_a_sum_do_not_share_memory():
    x, y = leaf(), leaf()
    (x + y).backward(weft.ones(3))
    x.grad.add_(1)
    assert values(y.grad) == [1, 1, 1]


def test_the_users_gradient_is_copied():
    x, g = leaf(), weft.ones(3)
    x.backward(g)
    assert not np.shares_memory(x.grad.array, g.array)


def test_a_gradient_nobody_holds_is_kept_without_a_copy():
    made = []

    class Rule(weft.autograd.graph.Node):
        __slots__ = ()

        def raw_backward(self, grad):
            array = np.ones(3, np.float32)
            made.append(array.__array_interface__["data"][0])
            return (array,)

    x = leaf()
    node = Rule()
    node._seq, node.next, node.slots, node.hooks, node.saved = 1, (x,), None, None, ()
    y = weft.tensor([1.0, 1.0, 1.0])
    y.node, y.tracked = node, True
    y.backward(weft.ones(3))
    assert x.grad.array.__array_interface__["data"][0] == made[0]


def test_gradient_follows_the_layout_of_a_dense_leaf():
    x = weft.ones(2, 3).t().requires_grad_()
    (x * 2).sum().backward()
    assert x.grad.stride() == (1, 3)
    gaps = weft.ones(4, 3)[::2].requires_grad_()
    (gaps * weft.ones(3, 2).t()).sum().backward()
    assert gaps.grad.stride() == (3, 1)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (
            lambda: (leaf() * 2).backward(),
            RuntimeError,
            "grad can be implicitly created only for scalar outputs",
        ),
        (
            lambda: (leaf() * 2).backward(weft.ones(2)),
            RuntimeError,
            "Mismatch in shape: grad_output[0] has a shape of weft.Size([2]) and output[0] has a shape of "
            "weft.Size([3]).",
        ),
        (
            lambda: leaf().sum().backward(weft.ones(1)),
            RuntimeError,
            "Mismatch in shape: grad_output[0] has a shape of weft.Size([1]) and output[0] has a shape of "
            "weft.Size([]).",
        ),
        (
            lambda: (leaf() * 2).backward(weft.ones(3, dtype=weft.complex64)),
            RuntimeError,
            "For complex Tensors, both grad_output and output are required to have the same dtype. Mismatch "
            "in dtype: "
            "grad_output[0] has a dtype of weft.complex64 and output[0] has a dtype of weft.float32.",
        ),
        (
            lambda: weft.tensor([1.0]).backward(),
            RuntimeError,
            "element 0 of tensors does not require grad and does not have a grad_fn",
        ),
        (
            lambda: backward([leaf().sum(), weft.tensor(1.0)]),
            RuntimeError,
            "element 1 of tensors does not require grad and does not have a grad_fn",
        ),
        (lambda: leaf().sum().backward(3.0), TypeError, "'float' object is not iterable"),
        (lambda: backward([leaf().sum()] * 2, [None]), RuntimeError, "got 2 tensors and 1 gradients"),
        (
            lambda: leaf().sum().backward(inputs=[]),
            RuntimeError,
            "`inputs` argument to `backward()` cannot be empty.",
        ),
        (
            lambda: leaf().sum().backward(inputs=[weft.ones(1)]),
            RuntimeError,
            "can't retain_grad on Tensor that has requires_grad=False",
        ),
        (lambda: backward([3]), TypeError, "expected outputs to be Tensors or GradientEdges, but got int"),
        (
            lambda: (leaf() * 2).backward([3.0]),
            TypeError,
            "gradients can be either Tensors or None, but got float",
        ),
    ],
)
def test_backward_refuses(call, error, text):
    with pytest.raises(error) as caught:
        call()
    assert str(caught.value) == text


@pytest.mark.parametrize("kind", [weft.float64, weft.int64])
def test_gradient_of_another_real_dtype_is_cast(kind):
    x = leaf()
    (x * 2).backward(weft.ones(3, dtype=kind))
    assert x.grad.dtype is weft.float32
    assert values(x.grad) == [2, 2, 2]


def test_one_element_is_a_scalar_whatever_its_rank():
    x = leaf()
    x[:1].backward()
    assert values(x.grad) == [1, 0, 0]


def test_second_backward_needs_retain_graph():
    x = leaf()
    y = x.exp().sum()
    y.backward(retain_graph=True)
    y.backward()
    with pytest.raises(RuntimeError, match="Trying to backward through the graph a second time"):
        y.backward()


def test_second_backward_through_what_saved_nothing():
    x = leaf()
    y = x + 1
    y.sum().backward()
    y.sum().backward()
    assert values(x.grad) == [2, 2, 2]


def test_backward_of_several_outputs():
    x = leaf()
    y = x * 2
    backward([y.sum(), y], [None, weft.tensor([1.0, 2.0, 3.0])])
    assert values(x.grad) == [4, 6, 8]
    backward([])


def test_grad_variables_is_the_old_name():
    x = leaf()
    with pytest.warns(FutureWarning, match="`grad_variables` is deprecated"):
        backward([x.sum()], grad_variables=[None])
    assert values(x.grad) == [1, 1, 1]
    with pytest.warns(FutureWarning), pytest.raises(RuntimeError, match="both passed to `backward"):
        backward([x.sum()], [None], grad_variables=[None])


def test_inputs_limit_where_gradients_go():
    x, y = leaf(), leaf()
    (x * y).sum().backward(inputs=[y])
    assert x.grad is None
    assert values(y.grad) == [1, 2, 3]
    (x * 2).sum().backward(inputs=y)
    assert x.grad is None
    assert values(y.grad) == [1, 2, 3]


def test_inputs_that_are_no_leaves_retain_their_gradient():
    x = leaf()
    y = x * 2
    z = y * 3
    z.sum().backward(inputs=[y])
    assert values(y.grad) == [3, 3, 3]
    assert x.grad is None
    assert y.retains_grad


def test_create_graph_makes_a_new_gradient():
    x = leaf()
    (x * x).sum().backward()
    first = x.grad
    with (
        pytest.warns(UserWarning, match="reference cycle")
        if not weft.autograd.engine._warned_of_cycle
        else _quiet()
    ):
        (x * x).sum().backward(create_graph=True)
    assert x.grad is not first
    assert x.grad.requires_grad
    second = x.grad
    x.grad = None
    second.sum().backward()
    assert values(x.grad) == [2, 2, 2]
    x.grad = None


def test_create_graph_warns_in_every_call_where_warnings_always_come():
    x = leaf()
    weft.set_warn_always(True)
    try:
        for _ in range(2):
            with pytest.warns(UserWarning, match="reference cycle"):
                (x * x).sum().backward(create_graph=True)
    finally:
        weft.set_warn_always(False)
        x.grad = None


class _quiet:
    def __enter__(self):
        return self

    def __exit__(self, *_error):
        return False


# -- grad ------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (
            lambda: grad((leaf() * 2).sum(), leaf()),
            RuntimeError,
            "The differentiated Tensor at index 0 appears to not have been used in the graph. Set "
            "allow_unused=True if "
            "this is the desired behavior.",
        ),
        (
            lambda: grad([], [leaf()]),
            RuntimeError,
            "The differentiated Tensor at index 0 appears to not have been used in the graph. Set "
            "allow_unused=True if "
            "this is the desired behavior.",
        ),
        (
            lambda: grad(leaf().sum(), leaf(), materialize_grads=True, allow_unused=False),
            ValueError,
            "Expected allow_unused to be True or not passed when materialize_grads=True, but got: "
            "allow_unused=False.",
        ),
        (
            lambda: grad(leaf().sum(), weft.ones(3), allow_unused=True),
            RuntimeError,
            "One of the differentiated Tensors does not require grad",
        ),
        (lambda: grad(leaf().sum(), []), RuntimeError, "`inputs` argument to `grad()` cannot be empty."),
        (
            lambda: grad(weft.tensor(1.0), leaf()),
            RuntimeError,
            "element 0 of tensors does not require grad and does not have a grad_fn",
        ),
        (
            lambda: grad([leaf() * 2, leaf()], leaf(), [weft.ones(3)]),
            RuntimeError,
            "got 2 tensors and 1 gradients",
        ),
        (lambda: grad(3, leaf()), TypeError, "'int' object is not iterable"),
        (
            lambda: grad(leaf().sum(), [leaf(), 3]),
            RuntimeError,
            "all inputs have to be Tensors or GradientEdges, but got int",
        ),
        (
            lambda: grad(leaf().sum(), get_gradient_edge(leaf()), materialize_grads=True),
            RuntimeError,
            "materialize_grads cannot be used when the given input is a GradientEdge",
        ),
    ],
)
def test_grad_refuses(call, error, text):
    with pytest.raises(error) as caught:
        call()
    assert str(caught.value) == text


def test_grad_touches_no_grad_attribute():
    x = leaf()
    (result,) = grad((x * x).sum(), x)
    assert values(result) == [2, 4, 6]
    assert x.grad is None
    assert not result.requires_grad


def test_grad_with_respect_to_the_output_itself_and_twice_to_one_input():
    x = leaf()
    g = weft.ones(3)
    assert values(grad(x, x, g)[0]) == [1, 1, 1]
    y = x * 2
    a, b, c = grad(y.sum(), [y, x, x])
    assert (values(a), values(b), values(c)) == ([1, 1, 1], [2, 2, 2], [2, 2, 2])


def test_grad_of_one_output_given_twice():
    x = leaf()
    y = x * 2
    assert values(grad([y, y], x, [weft.ones(3), weft.ones(3)])[0]) == [4, 4, 4]


def test_unused_inputs():
    x, y = leaf(), leaf()
    assert grad((x * 2).sum(), [y, x], allow_unused=True)[0] is None
    zero = grad((x * 2).sum(), [x, y], materialize_grads=True)[1]
    assert values(zero) == [0, 0, 0]


def test_only_inputs_is_ignored_with_a_word():
    x = leaf()
    with pytest.warns(FutureWarning, match="only_inputs argument is deprecated"):
        assert values(grad(x.sum(), x, only_inputs=False)[0]) == [1, 1, 1]


def test_batched_gradients_by_rows():
    x = leaf()
    rows = weft.tensor([[1.0, 0.0, 0.0], [0.0, 1.0, 2.0]])
    (result,) = grad(x * x, x, rows, is_grads_batched=True)
    assert values(result) == [[2, 0, 0], [0, 4, 12]]
    with pytest.raises(
        RuntimeError, match="we interpret the first dimension of each grad_output as the batch"
    ):
        grad(x * x, x, weft.ones(4, 2), is_grads_batched=True)
    with pytest.raises(ValueError, match=r"got sizes \[4, 5\] for the mapped dimension"):
        grad((x * 2, x.sum()), x, (weft.ones(4, 3), weft.ones(5)), is_grads_batched=True)
    with pytest.raises(RuntimeError, match="implicitly created only for scalar outputs"):
        grad(x * x, x, None, is_grads_batched=True)


def test_batched_gradients_of_an_unused_input():
    x, y = leaf(), leaf()
    result = grad(x * 2, [x, y], weft.ones(2, 3), is_grads_batched=True, allow_unused=True)
    assert values(result[0]) == [[2, 2, 2]] * 2
    assert result[1] is None


def test_any_order():
    x = weft.tensor(0.7, dtype=weft.float64, requires_grad=True)
    y = x.sin()
    for expected in (np.cos, lambda v: -np.sin(v), lambda v: -np.cos(v), np.sin, np.cos):
        (y,) = grad(y, x, create_graph=True)
        assert y.item() == pytest.approx(expected(0.7), rel=1e-12)


def test_second_order_through_shared_intermediates():
    x = weft.tensor([0.5, -1.2], dtype=weft.float64, requires_grad=True)
    y = x.exp()
    z = (y * y + x * y).sum()
    (first,) = grad(z, x, create_graph=True)
    (second,) = grad(first.sum(), x)
    v = np.array([0.5, -1.2])
    np.testing.assert_allclose(second.array, 4 * np.exp(2 * v) + 2 * np.exp(v) + v * np.exp(v))


def test_gradient_penalty_reaches_the_parameters():
    weight = weft.tensor([[1.0, 2.0]], dtype=weft.float64, requires_grad=True)
    x = weft.tensor([[3.0], [4.0]], dtype=weft.float64, requires_grad=True)
    (slope,) = grad((weight @ x).pow(2).sum(), x, create_graph=True)
    slope.pow(2).sum().backward()
    # |2 (w x) w|^2 = 4 (w x)^2 |w|^2 with w x = 11 and |w|^2 = 5
    expected = 4 * (2 * 11 * np.array([[3.0, 4.0]]) * 5 + 121 * 2 * np.array([[1.0, 2.0]]))
    np.testing.assert_allclose(weight.grad.array, expected)


# -- edges -----------------------------------------------------------------------------------------
def test_edges_stand_for_inputs_and_outputs():
    x = leaf()
    y = x * 2
    edge = get_gradient_edge(y)
    assert values(grad((y * 3).sum(), edge)[0]) == [3, 3, 3]
    assert values(grad(edge, x, weft.ones(3))[0]) == [2, 2, 2]
    total = get_gradient_edge((x * 5).sum())
    backward(total)
    assert values(x.grad) == [5, 5, 5]
    backward((x * 2).sum(), inputs=[get_gradient_edge(x)])
    assert values(x.grad) == [7, 7, 7]


def test_edges_know_shapes():
    y = leaf() * 2
    with pytest.raises(RuntimeError, match="only for scalar outputs"):
        backward(get_gradient_edge(y))
    with pytest.raises(RuntimeError, match=r"grad_output\[0\] has a shape of weft.Size\(\[2\]\)"):
        backward(get_gradient_edge(y), weft.ones(2))


# -- shapes of graphs ------------------------------------------------------------------------------
class Halves(weft.autograd.Function):
    """Two parts that have nothing to do with each other."""

    @staticmethod
    def forward(ctx, x, y):
        ctx.set_materialize_grads(False)
        return x * 1, y * 2

    @staticmethod
    def backward(ctx, g, h):
        return g, h


@pytest.mark.parametrize("hooked", [False, True])
def test_what_a_run_comes_by_without_a_gradient_is_freed(hooked):
    x, y = weft.ones(2, requires_grad=True), weft.ones(2, requires_grad=True)
    square = x * x
    if hooked:
        square.register_hook(lambda gradient: None)
    Halves.apply(square, y)[1].sum().backward()
    assert x.grad is None
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        square.sum().backward()


def test_undefined_gradients_stay_none():
    x = leaf()
    first, second = (x * 1).split([1, 2])
    assert values(grad(second.sum(), x)[0]) == [0, 1, 1]
    assert grad(second.sum() * 1, [first], allow_unused=True) == (None,)


def test_diamond_runs_each_node_once():
    x = leaf()
    y = x * 2
    calls = []
    y.grad_fn.register_hook(lambda inputs, outputs: calls.append(outputs[0].array.tolist()))
    (y * 3 + y * y).sum().backward()
    assert calls == [[7, 11, 15]]
    assert values(x.grad) == [14, 22, 30]


def test_nodes_run_in_reverse_order_of_making():
    x = leaf()
    y = x * 2
    z, w = y * 3, y * 4
    log = []
    for name, tensor in (("y", y), ("z", z), ("w", w)):
        tensor.register_hook(lambda g, name=name: log.append(name))
    (z + w).sum().backward()
    assert log == ["w", "z", "y"]


DEEP = """
import sys, weft
x = weft.tensor([1.0], requires_grad=True)
y = x
for _ in range(100_000):
    y = y + 1
y.sum().backward()
assert x.grad.item() == 1.0
(again,) = weft.autograd.grad(y.sum(), x, create_graph=True)
del y, again
z = x
for _ in range(100_000):
    z = z * 1.0
del z
print("done")
"""


def test_chains_of_a_hundred_thousand_nodes_build_run_and_free():
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", DEEP], capture_output=True, text=True, timeout=300, check=False
    )
    assert (result.returncode, result.stdout) == (0, "done\n"), result.stderr[-2000:]


def test_graphs_are_freed_without_the_collector():
    gc.collect()
    gc.disable()
    try:
        x = leaf()
        y = x.exp() * 2
        node, tensor = weakref.ref(y.grad_fn), weakref.ref(y)
        y.sum().backward()
        y.retain_grad()
        y.register_hook(lambda g: None)
        del y
        assert tensor() is None
        assert node() is None
        g = grad((x * x).sum(), x, create_graph=True)[0]
        held = weakref.ref(g.grad_fn)
        del g
        assert held() is None
        gradient = weakref.ref(x.grad)
        x.grad = None
        assert gradient() is None
    finally:
        gc.enable()


# -- threads ---------------------------------------------------------------------------------------
def test_threads_share_leaves():
    x = weft.ones(1000, requires_grad=True)
    calls = []
    x.register_hook(lambda g: calls.append(1))
    failures = []

    def work():
        try:
            for _ in range(20):
                (x * 2).sum().backward()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert len(calls) == 80
    assert set(values(x.grad)) == {160.0}


def test_threads_start_with_gradients_on():
    seen = []
    with weft.no_grad():
        thread = threading.Thread(target=lambda: seen.append(weft.is_grad_enabled()))
        thread.start()
        thread.join()
    assert seen == [True]


def test_leaves_that_stopped_requiring_grad_get_none():
    x = leaf()
    y = x * 2
    seen = []
    x.register_hook(seen.append)
    x.requires_grad_(False)
    y.sum().backward()
    assert x.grad is None
    assert len(seen) == 1


def test_leaves_that_moved_into_the_graph():
    x, p = leaf(), leaf()
    y = x * 2
    x.detach_()
    x.mul_(p)
    with pytest.raises(RuntimeError, match="leaf variable has been moved into the graph interior"):
        y.sum().backward()


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "native"])
@pytest.mark.parametrize("graph", [False, True])
def test_materialized_gradients_may_be_differentiated_where_a_graph_is_created(graph, backend):
    def program(x, y):
        return weft.autograd.grad((x * 2).sum(), [x, y], materialize_grads=True, create_graph=graph)[1]

    run = program if backend == "eager" else weft.compile(program, backend=backend)
    found = run(weft.ones(2, requires_grad=True), weft.ones(3, requires_grad=True))
    assert found.tolist() == [0.0, 0.0, 0.0]
    assert found.requires_grad is graph and found.is_leaf


def test_inputs_may_have_names():
    def f(x, y):
        z = (x**2 + y * x).sum()
        found = weft.autograd.grad(z, {"x": x, 1: y})
        return found["x"], found[1], list(found)

    x, y = weft.tensor([1.0, 2.0], requires_grad=True), weft.tensor([3.0, 5.0], requires_grad=True)
    for function in (
        f,
        weft.compile(f, fullgraph=True),
        weft.compile(f, fullgraph=True, backend="aot_eager"),
    ):
        first, second, names = function(x, y)
        assert first.tolist() == [5.0, 9.0] and second.tolist() == [1.0, 2.0] and names == ["x", 1]
    assert weft.autograd.grad(x.sum(), {"x": x, "y": y}, allow_unused=True)["y"] is None
    (x * y).sum().backward(inputs={"only": x})
    assert x.grad.tolist() == [3.0, 5.0] and y.grad is None
    with pytest.raises(TypeError, match="must be a dict"):
        weft.autograd.grad(x.sum(), OrderedDict(x=x))
    for call in (lambda: weft.autograd.grad(x.sum(), {}), lambda: x.sum().backward(inputs={})):
        with pytest.raises(RuntimeError, match="cannot be empty"):
            call()


def test_zeros_stand_for_unused_tensors_beside_edges_that_are_used() -> None:
    x, y = (weft.ones(2, requires_grad=True).clone() for _ in range(2))
    edge = weft.autograd.graph.get_gradient_edge(x)
    out = (x * 3).sum()
    found = weft.autograd.grad(out, (edge, y), allow_unused=True, materialize_grads=True)
    assert [g.tolist() for g in found] == [[3, 3], [0, 0]]
