"""Backwards as graphs: equal to the engine's, captured once per structure, whatever compiles them."""

from __future__ import annotations

import re
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import weft
from tests.aot.backwards import (
    COMPILERS,
    EAGER,
    Compiler,
    afresh,
    as_it_is,
    check,
    compiler,
    gradients,
    model,
    native,
)
from weft.autograd import Function
from weft.autograd.tasks import queue_callback
from weft.compiler import compiled_autograd, counters, settings
from weft.nn import functional as F
from weft.testing import assert_close, normalize_gm

__all__ = ["afresh"]


# -- structures ----------------------------------------------------------------------------------------------
@COMPILERS
def test_one_backward(compile_graph: Compiler) -> None:
    def program() -> Iterator[Any]:
        net = model()
        net(weft.randn(2, 4)).sum().backward()
        yield from gradients(net)

    check(program, compile_graph, compiles=1)


@COMPILERS
def test_equal_structures_are_captured_once(compile_graph: Compiler) -> None:
    def program() -> Iterator[Any]:
        for _ in range(3):
            net = model()
            net(weft.randn(2, 4)).sum().backward()
            yield from gradients(net)

    check(program, compile_graph, compiles=1)
    assert counters["compiled_autograd"]["hits"] == 2


@COMPILERS
def test_other_structures_are_captured_apart(compile_graph: Compiler) -> None:
    def program() -> Iterator[Any]:
        x = weft.randn(3, requires_grad=True)
        for function in (weft.sin, weft.cos, weft.sin, weft.cos):
            function(x).sum().backward()
            yield x.grad
            x.grad = None

    check(program, compile_graph, captures=2, compiles=2)


@COMPILERS
def test_gradients_of_several_uses_are_added(compile_graph: Compiler) -> None:
    def program() -> Iterator[Any]:
        y = weft.randn(1, 4, requires_grad=True)
        for _ in range(3):
            result = weft.sigmoid(weft.randn(1, 4) * y + weft.sin(y) + weft.cos(y)).sum()
            result.backward()
            yield result
            yield y.grad
            y.grad = None

    check(program, compile_graph, compiles=1)


@COMPILERS
def test_open_sizes_once_they_vary(compile_graph: Compiler) -> None:
    def program() -> Iterator[Any]:
        net = model()
        for rows in range(10, 60, 10):
            net.zero_grad()
            net(weft.randn(rows, 4)).sum().backward()
            yield from gradients(net)

    check(program, compile_graph, captures=2)


def test_open_sizes_from_the_start() -> None:
    net = model()
    with compiled_autograd.enable(as_it_is, dynamic=True):
        for rows in (10, 20, 30):
            net.zero_grad()
            inputs = weft.randn(rows, 4)
            net(inputs).sum().backward()
            found = gradients(net)
            net.zero_grad()
            with compiled_autograd.disable():
                net(inputs).sum().backward()
            for ours, theirs in zip(found, gradients(net), strict=True):
                assert_close(ours, theirs)
    assert counters["compiled_autograd"]["captures"] == 1


def test_sizes_never_open() -> None:
    x = {size: weft.randn(size, requires_grad=True) for size in (2, 3, 4)}
    with compiled_autograd.enable(as_it_is, dynamic=False):
        for size in (2, 3, 4, 2):
            (x[size] * 2).sum().backward()
    assert counters["compiled_autograd"] == {"captures": 3, "hits": 1}


@pytest.mark.parametrize("sizes", [(5, 1, 5, 1), (1, 5, 7), (2, 3, 1)])
def test_a_size_of_one_is_another_structure(sizes: tuple[int, ...]) -> None:
    """Broadcasting sums where a size is one."""
    weight = weft.randn(1, 3, requires_grad=True)
    for rows in sizes:
        x = weft.randn(rows, 3, requires_grad=True)
        with compiled_autograd.enable(EAGER):
            (x * weight).sin().sum().backward()
        found = (weight.grad, x.grad)
        weight.grad = x.grad = None
        (x * weight).sin().sum().backward()
        assert_close(found[0], weight.grad)
        assert_close(found[1], x.grad)
        weight.grad = None


@COMPILERS
def test_numbers_that_vary(compile_graph: Compiler) -> None:
    def program() -> Iterator[Any]:
        x = weft.randn(3, requires_grad=True)
        for scale in (0.5, 1.5, 2.5, 0.0, -0.0, float("inf")):
            (x * scale).sum().backward()
            yield x.grad
            yield np.signbit(x.grad.numpy()).tolist()
            x.grad = None

    check(program, compile_graph, captures=2)


PROGRAMS: dict[str, Callable[..., Any]] = {
    "layer": lambda x, w: (x @ w + w[0]).relu(),
    "layer norm": lambda x, w: F.layer_norm(x @ w, (4,)),
    "softmax": lambda x, w: (x @ w).softmax(0) * x,
    "loss": lambda x, w: F.cross_entropy(x @ w, weft.arange(x.shape[0]) % 4),
    "mean": lambda x, w: (x - x.mean(0)).square().mean() * w,
    "attention": lambda x, w: F.scaled_dot_product_attention(x @ w, x, x),
    "pieces": lambda x, w: weft.cat([part @ w for part in x.chunk(2)]),
    "rows": lambda x, w: x[1:] * x[:-1] @ w,
    "gathered": lambda x, w: w[weft.arange(x.shape[0]) % 4] * x,
    "flat": lambda x, w: x.reshape(-1)[None].expand(3, -1).sin().sum(0) * w.sum(),
    "sorted": lambda x, w: x.sort(0)[0].cumsum(0) @ w,
    "largest": lambda x, w: x.max(0)[0] * w + x.amax() + x.norm(),
    "convolution": lambda x, w: F.conv1d(x.t()[None], w[:, :, None].expand(4, 4, 1)),
    "transposed": lambda x, w: (x.t() @ x).tril() @ w,
    "padded": lambda x, w: F.pad(x, (1, 2)).flip(0).roll(1, 0)[:, :4] @ w,
}  # fmt: skip
SIZES = (5, 6, 2, 9, 4, 1, 3, 6)


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("compile_graph", [as_it_is, compiler(dynamic=None)], ids=["as_it_is", "eager"])
def test_programs_over_many_sizes(name: str, dynamic: bool | None, compile_graph: Compiler) -> None:
    weft.manual_seed(3)
    for size in SIZES:
        x, w = weft.randn(size, 4, requires_grad=True), weft.randn(4, 4, requires_grad=True)
        out = PROGRAMS[name](x, w)
        seed = weft.randn_like(out)
        out.backward(seed)
        expected, x.grad, w.grad = (x.grad, w.grad), None, None
        with compiled_autograd.enable(compile_graph, dynamic=dynamic):
            PROGRAMS[name](x, w).backward(seed)
        assert_close(x.grad, expected[0])
        assert_close(w.grad, expected[1])
    assert not compiled_autograd.reasons
    if name != "pieces":  # of which some have one row, and some more
        assert counters["compiled_autograd"]["captures"] <= 4


def test_functions_that_are_the_same_share_graphs() -> None:
    def closure(backend: str) -> Compiler:
        return lambda module: weft.compile(module, backend=backend)

    x = weft.randn(3, requires_grad=True)
    for backend in ("eager", "eager", "aot_eager"):
        with compiled_autograd.enable(closure(backend)):
            x.sin().sum().backward()
    assert counters["compiled_autograd"] == {"captures": 2, "hits": 1}


def test_reset_forgets() -> None:
    x = weft.randn(3, requires_grad=True)
    with compiled_autograd.enable(as_it_is):
        x.sin().sum().backward()
        compiled_autograd.reset()
        x.sin().sum().backward()
    assert counters["compiled_autograd"]["captures"] == 2


# -- leaves --------------------------------------------------------------------------------------------------
@COMPILERS
def test_accumulation_without_zero_grad(compile_graph: Compiler) -> None:
    def program() -> Iterator[Any]:
        net = model()
        for _ in range(5):
            net(weft.randn(5, 4)).sum().backward()
            yield from gradients(net)

    check(program, compile_graph, captures=1, compiles=2)


@COMPILERS
def test_existing_gradients_stay_the_same_objects(compile_graph: Compiler) -> None:
    def program() -> Iterator[Any]:
        weight = weft.randn(4, requires_grad=True)
        for _ in range(3):
            kept = weft.rand(4)
            weight.grad = kept
            before = kept._version
            (weight * weft.randn(4)).sum().backward()
            assert weight.grad is kept
            yield kept
            yield kept._version - before

    check(program, compile_graph, compiles=1)


@COMPILERS
def test_gradients_belong_to_one_leaf_each(compile_graph: Compiler) -> None:
    x, y = weft.ones(2, requires_grad=True), weft.ones(2, requires_grad=True)
    seed = weft.ones(2)
    with compiled_autograd.enable(compile_graph):
        (x + y).backward(seed)
    x.grad.add_(1)
    seed.add_(5)
    assert_close(y.grad, weft.ones(2))


@COMPILERS
def test_gradients_follow_the_layout_of_their_leaf(compile_graph: Compiler) -> None:
    def program() -> Iterator[Any]:
        x = weft.randn(2, 3).t().requires_grad_()
        (x * 2).sum().backward()
        yield x.grad.stride()
        yield x.grad

    check(program, compile_graph)


def test_a_leaf_that_needs_no_gradient_any_more() -> None:
    x, y = weft.ones(2, requires_grad=True), weft.ones(2, requires_grad=True)
    out = x * y
    x.requires_grad_(False)
    with compiled_autograd.enable(EAGER):
        out.sum().backward()
    assert x.grad is None
    assert_close(y.grad, weft.ones(2))


def test_half_and_bfloat16() -> None:
    for kind in (weft.float16, weft.bfloat16):
        x = weft.ones(3, dtype=kind, requires_grad=True)
        (x * 3).sum().backward()
        expected, x.grad = x.grad, None
        with compiled_autograd.enable(EAGER):
            (x * 3).sum().backward()
        assert x.grad.dtype is kind
        assert_close(x.grad, expected)


# -- grad() and inputs= --------------------------------------------------------------------------------------
@COMPILERS
def test_grad_leaves_leaves_alone(compile_graph: Compiler) -> None:
    def program() -> Iterator[Any]:
        y, z = (weft.randn(1, 4, requires_grad=True) for _ in range(2))
        for _ in range(3):
            result = weft.sigmoid(weft.randn(1, 4) * z + weft.sin(y) + weft.cos(y)).sum()
            yield from weft.autograd.grad(result, [y, z])
            assert y.grad is None and z.grad is None

    check(program, compile_graph, compiles=1)


class Unreachable(Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        raise RuntimeError("nobody asked for this gradient")


@COMPILERS
def test_what_nobody_asked_for_does_not_run(compile_graph: Compiler) -> None:
    def program() -> Iterator[Any]:
        y, z = (weft.randn(1, 4, requires_grad=True) for _ in range(2))
        for _ in range(3):
            (gradient,) = weft.autograd.grad(weft.sigmoid(Unreachable.apply(y) * z).sum(), [z])
            yield gradient
            weft.sigmoid(Unreachable.apply(y) * z).sum().backward(inputs=[z])
            assert y.grad is None
            yield z.grad
            z.grad = None

    check(program, compile_graph, captures=2, compiles=2)


@COMPILERS
def test_gradients_of_tensors_that_are_no_leaves(compile_graph: Compiler) -> None:
    def program() -> Iterator[Any]:
        x = weft.randn(4, requires_grad=True)
        y = x.exp()
        z = (y * y).sum()
        yield from weft.autograd.grad(z, [y, x], retain_graph=True)
        yield weft.autograd.grad(z, [weft.ones(4, requires_grad=True)], allow_unused=True)[0]

    check(program, compile_graph, captures=2)


@COMPILERS
def test_retain_grad(compile_graph: Compiler) -> None:
    def program() -> Iterator[Any]:
        for _ in range(2):
            x = weft.randn(4, requires_grad=True)
            y = x.exp()
            y.retain_grad()
            (y * 3).sum().backward()
            yield y.grad
            yield x.grad

    check(program, compile_graph)


@COMPILERS
def test_several_outputs_and_no_gradient_for_some(compile_graph: Compiler) -> None:
    def program() -> Iterator[Any]:
        x = weft.randn(6, requires_grad=True)
        a, b, _ = x.split(2)
        weft.autograd.backward([a.sum(), (b * a).sum()])
        yield x.grad

    check(program, compile_graph)


# -- what is freed, and what is stale ------------------------------------------------------------------------
@COMPILERS
def test_a_second_backward_raises(compile_graph: Compiler) -> None:
    x = weft.randn(3, requires_grad=True)
    out = x.exp().sum()
    with compiled_autograd.enable(compile_graph):
        out.backward()
        with pytest.raises(RuntimeError, match="Trying to backward through the graph a second time"):
            out.backward()
    with pytest.raises(RuntimeError, match="Trying to backward through the graph a second time"):
        out.backward()


@COMPILERS
def test_retain_graph(compile_graph: Compiler) -> None:
    x = weft.tensor([2.0], requires_grad=True)
    y = x**2
    for _ in range(3):
        x.grad = None
        with compiled_autograd.enable(compile_graph):
            y.backward(retain_graph=True)
        assert_close(x.grad, weft.tensor([4.0]))
        x.grad = None
        y.backward(retain_graph=True)
        assert_close(x.grad, weft.tensor([4.0]))
    assert counters["compiled_autograd"]["captures"] == 1


def test_a_stale_tape_raises_as_in_eager() -> None:
    x = weft.ones(2, requires_grad=True)
    y = x.exp()
    out = (y * y).sum()
    with weft.no_grad():
        y.add_(1)
    with (
        compiled_autograd.enable(EAGER),
        pytest.raises(RuntimeError, match="modified by an inplace operation"),
    ):
        out.backward()
    assert compiled_autograd.reasons == ["a saved tensor that was written since"]


@COMPILERS
def test_shapes_of_gradients_are_checked(compile_graph: Compiler) -> None:
    x = weft.ones(2, requires_grad=True)
    with compiled_autograd.enable(compile_graph):
        with pytest.raises(RuntimeError, match="grad can be implicitly created only for scalar outputs"):
            (x * 2).backward()
        with pytest.raises(RuntimeError, match="Mismatch in shape"):
            (x * 2).backward(weft.ones(3))


# -- compiled functions --------------------------------------------------------------------------------------
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@COMPILERS
def test_behind_compiled_functions(compile_graph: Compiler, backend: str) -> None:
    def program() -> Iterator[Any]:
        net = model()
        compiled = weft.compile(net, backend=backend, fullgraph=True)
        for _ in range(3):
            net.zero_grad()
            (compiled(weft.randn(2, 4)) * 2).sum().backward()
            yield from gradients(net)

    check(program, compile_graph)


def test_a_backward_inside_a_compiled_function() -> None:
    """It is part of that graph, and none of the tape's."""
    x = weft.ones(3, requires_grad=True)

    @weft.compile(fullgraph=True)
    def step(x: Any) -> Any:
        loss = x.exp().sum()
        loss.backward()
        return loss

    with compiled_autograd.enable(EAGER):
        step(x)
    assert_close(x.grad, weft.ones(3).exp())
    assert not counters["compiled_autograd"]["captures"]


def test_list_of_inputs_is_one_placeholder() -> None:
    graphs: list[Any] = []

    def keep(graph_module: Any, _inputs: list[Any]) -> Any:
        graphs.append(graph_module)
        return graph_module.forward

    def compile_graph(module: Any) -> Any:
        return weft.compile(module, backend=keep)

    a, b, c = (weft.randn(2, 2, requires_grad=True) for _ in range(3))
    with compiled_autograd.enable(compile_graph):
        (a @ b @ c).sum().backward()
    (graph,) = graphs
    assert [node.target for node in graph.graph.placeholders] == ["L_inputs_"]


# -- what is left to the engine ------------------------------------------------------------------------------
def test_gradients_that_can_be_differentiated() -> None:
    def program() -> Iterator[Any]:
        x = weft.tensor([0.5, 1.5], requires_grad=True)
        (first,) = weft.autograd.grad((x**3).sum(), x, create_graph=True)
        first.sum().backward()
        yield x.grad

    native(program, "create_graph=True")
    assert counters["compiled_autograd"]["captures"] == 1


def test_checkpointed_code() -> None:
    def program() -> Iterator[Any]:
        x = weft.ones(3, requires_grad=True)
        weft.utils.checkpoint.checkpoint(lambda v: v.exp().sin(), x, use_reentrant=False).sum().backward()
        yield x.grad

    native(program, "saved tensors that the library's own hooks have packed")


def test_anomaly_detection() -> None:
    x = weft.zeros(2, requires_grad=True)
    nan = pytest.raises(RuntimeError, match="returned nan values in its 0th output")
    warned = pytest.warns(UserWarning, match="Anomaly|Error detected in")
    with compiled_autograd.enable(EAGER), warned, weft.autograd.detect_anomaly(), nan:
        (x.sqrt() * 0).sum().backward()
    assert compiled_autograd.reasons == ["modes other than grad and no_grad"]


# -- switching -----------------------------------------------------------------------------------------------
def test_switched_on_for_one_thread() -> None:
    seen: list[bool] = []
    with compiled_autograd.enable(as_it_is):
        seen.append(compiled_autograd.enabled())
        thread = threading.Thread(target=lambda: seen.append(compiled_autograd.enabled()))
        thread.start()
        thread.join()
        with compiled_autograd.disable():
            seen.append(compiled_autograd.enabled())
        seen.append(compiled_autograd.enabled())
    seen.append(compiled_autograd.enabled())
    assert seen == [True, False, False, True, False]


def test_threads_share_graphs() -> None:
    leaves = [weft.randn(4, requires_grad=True) for _ in range(4)]
    failures: list[BaseException] = []

    def work(leaf: Any) -> None:
        try:
            with compiled_autograd.enable(EAGER):
                for _ in range(5):
                    leaf.grad = None
                    leaf.sin().sum().backward()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(leaf,)) for leaf in leaves]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    for leaf in leaves:
        assert_close(leaf.grad, leaf.detach().cos())
    assert counters["compiled_autograd"]["captures"] == 1


def test_as_a_setting() -> None:
    x = weft.randn(3, requires_grad=True)
    x.sin().sum().backward()
    expected, x.grad = x.grad, None
    settings.compiled_autograd = True
    for _ in range(2):
        x.grad = None
        x.sin().sum().backward()
    settings.compiled_autograd = False
    assert_close(x.grad, expected)
    assert counters["compiled_autograd"] == {"captures": 1, "hits": 1}
    x.sin().sum().backward()
    assert counters["compiled_autograd"] == {"captures": 1, "hits": 1}


def test_errors_of_the_compiler_leave_the_tape_as_it_was() -> None:
    x = weft.randn(3, requires_grad=True)
    out = x.exp().sum()

    def broken(_module: Any) -> Any:
        raise ValueError("no compiler today")

    with compiled_autograd.enable(broken), pytest.raises(ValueError, match="no compiler today"):
        out.backward()
    out.backward()
    assert_close(x.grad, x.detach().exp())


def test_callbacks_at_the_end_of_a_backward() -> None:
    log: list[str] = []
    x = weft.ones(2, requires_grad=True)

    def hook(_grad: Any) -> None:
        queue_callback(lambda: log.append("end"))
        log.append("hook")

    x.register_hook(hook)
    with compiled_autograd.enable(as_it_is):
        (x * 2).sum().backward()
    assert log == ["hook", "end"]


@COMPILERS
def test_graphs_keep_nothing_of_the_tape_alive(compile_graph: Compiler) -> None:
    leaf = weft.nn.Parameter(weft.ones(3))

    def hook(grad: Any) -> Any:
        return grad * 2

    leaf.register_hook(hook)
    inner = leaf.exp()
    kept = [weakref.ref(each) for each in (leaf, inner, hook)]
    with compiled_autograd.enable(compile_graph):
        inner.sin().sum().backward()
    del leaf, inner, hook
    assert [reference() for reference in kept] == [None] * 3


def test_the_setting_reaches_backwards_that_compiled_functions_leave_out() -> None:
    net = model()
    inputs = weft.randn(1, 4)
    settings.compiled_autograd = True

    outside = net(inputs).sum()
    weft.compile(lambda: outside.backward())()
    assert counters["compiled_autograd"]["captures"] == 1

    @weft.compiler.disable
    def left_out(loss: Any) -> None:
        loss.backward()

    weft.compile(lambda: left_out(net(inputs).sum()), backend="eager")()
    assert counters["compiled_autograd"] == {"captures": 1, "hits": 1}
    with compiled_autograd.disable():
        net(inputs).sum().backward()
    assert counters["compiled_autograd"] == {"captures": 1, "hits": 1}


TAPE = """\
class CompiledAutograd(torch.nn.Module):
    def forward(self, inputs : list, sizes : list, scalars : list, hooks : list):
        getitem: "f32[2]" = inputs[0]
        getitem_1: "f32[2]" = inputs[1]
        getitem_2: "f32[2]" = inputs[2];  inputs = None
        mul: "f32[2]" = torch.mul(getitem, getitem_2)
        mul_1: "f32[2]" = torch.mul(getitem, getitem_1);  getitem = None
        getitem_3 = hooks[0];  hooks = None
        call_hook: "f32[2]" = torch__dynamo_external_utils_call_hook(getitem_3, mul);  getitem_3 = mul = None
        accumulate_grad = torch.ops.inductor.accumulate_grad_.default(getitem_1, call_hook);  \
getitem_1 = call_hook = accumulate_grad = None
        accumulate_grad_1 = torch.ops.inductor.accumulate_grad_.default(getitem_2, mul_1);  \
getitem_2 = mul_1 = accumulate_grad_1 = None
        return ()
"""


def test_the_text_of_a_tape() -> None:
    graphs: list[Any] = []

    def keep(module: Any) -> Any:
        graphs.append(module)
        return module

    x, y = weft.ones(2, requires_grad=True), weft.ones(2, requires_grad=True)
    x.register_hook(lambda grad: grad * 2)
    with compiled_autograd.enable(keep):
        (x * y).backward(weft.ones(2))
    text = normalize_gm(graphs[0].print_readable(False, namespace="torch"))
    assert re.sub(r"CompiledAutograd\d+", "CompiledAutograd", text) == TAPE


def test_threads_of_the_engine_are_no_mode() -> None:
    compiled_autograd.reset()
    x = weft.ones(3, requires_grad=True)
    before = counters["compiled_autograd"]["captures"]
    with weft.autograd.set_multithreading_enabled(False):
        assert weft.core.modes.current() is True
        with compiled_autograd.enable(lambda graph: weft.compile(graph, backend="eager")):
            (x * x).sum().backward()
    assert counters["compiled_autograd"]["captures"] == before + 1
    assert x.grad is not None and x.grad.tolist() == [2.0, 2.0, 2.0]
