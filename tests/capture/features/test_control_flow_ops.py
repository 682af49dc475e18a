"""Functions of control flow in captured code (cond, while_loop, scan, map), and custom ops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft
from tests.capture.features.harness import check, tensor
from weft import nn
from weft.autograd.control_flow import wrap_call
from weft.testing import EagerAndRecordGraphs

Tensor = weft.Tensor


def up() -> tuple[Tensor]:
    return (tensor(),)


def down() -> tuple[Tensor]:
    return (-tensor(),)


def graph_of(function: Any, *args: Any) -> Any:
    graphs = EagerAndRecordGraphs()
    weft.compile(function, backend=graphs, fullgraph=True)(*args)
    (found,) = graphs.graphs
    return found


# -- cond ----------------------------------------------------------------------------------------------------
def test_cond_takes_either_branch_in_one_graph() -> None:
    check(lambda x: weft.cond(x.sum() > 0, lambda x: x * 2, lambda x: x - 1, (x,)), up, down)


def test_cond_is_one_node_with_graphs_as_attributes() -> None:
    module = graph_of(lambda x: weft.cond(x.sum() > 0, lambda x: x.sin() * 2, lambda x: x.cos(), (x,)), *up())
    nodes = list(module.graph.nodes)
    (call,) = [node for node in nodes if node.target is weft.cond]
    assert [node.op for node in call.args[1:3]] == ["get_attr", "get_attr"]
    true_graph, false_graph = (getattr(module, node.target).graph for node in call.args[1:3])
    assert [node.op for node in true_graph.nodes] == ["placeholder", "call_method", "call_function", "output"]
    assert [node.target for node in false_graph.nodes if node.op == "call_method"] == ["cos"]
    assert "cond_true_0" in module.print_readable(print_output=False)


def test_cond_lifts_what_branches_close_over() -> None:
    def f(x: Tensor, w: Tensor) -> Tensor:
        scale = x.sum()
        return weft.cond(scale > 0, lambda y: y * w + scale, lambda y: y - GLOBAL, (x,)) + 1

    check(f, lambda: (*up(), tensor()), lambda: (*down(), tensor()))
    module = graph_of(f, *up(), tensor())
    (call,) = [node for node in module.graph.nodes if node.target is weft.cond]
    assert len(call.args[3]) == 4


GLOBAL = weft.tensor([1.0, 2.0, 4.0])


def test_cond_gives_structures() -> None:
    def f(x: Tensor) -> Any:
        result = weft.cond(
            x.sum() > 0,
            lambda x: {"a": x + 1, "b": [x * 2, None]},
            lambda x: {"a": x - 1, "b": [x * 3, None]},
            (x,),
        )
        return result["a"] + result["b"][0], result

    check(f, up, down)


def test_cond_nested() -> None:
    def inner(x: Tensor) -> Tensor:
        return weft.cond(x.max() > 2, lambda x: x + 10, lambda x: x * GLOBAL, (x,))

    check(
        lambda x: weft.cond(x.sum() > 0, inner, lambda x: x.clone(), (x,)), up, down, lambda: (tensor() / 9,)
    )


def test_cond_gradients() -> None:
    def f(x: Tensor) -> Tensor:
        return weft.cond(x.sum() > 0, lambda x: x * x, lambda x: x.sin(), (x,))

    def backward(result: Tensor) -> Tensor:
        result.sum().backward()
        return result

    check(f, lambda: (tensor().requires_grad_(),), lambda: ((-tensor()).requires_grad_(),), after=backward)


def test_cond_calls_modules() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.left, self.right = nn.Linear(3, 2), nn.Linear(3, 2)

        def forward(self, x: Tensor) -> Tensor:
            return weft.cond(x.sum() > 0, self.left, self.right, (x,))

    model = Model()
    with weft.no_grad():
        check(lambda x: model(x), up, down)


def test_cond_on_a_python_value_is_inlined() -> None:
    check(
        lambda x, flag: weft.cond(flag, lambda x: x + 1, lambda x: x - 1, (x,)),
        lambda: (*up(), True),
        lambda: (*up(), False),
        frames=2,
        ops=2,
    )


def test_cond_branches_of_different_dtypes_raise_as_eager() -> None:
    check(
        lambda x: weft.cond(x.sum() > 0, lambda x: x + 1, lambda x: x.long(), (x,)),
        up,
        frames=0,
        raises=RuntimeError,
    )


def test_cond_with_effects_breaks() -> None:
    seen: list[Any] = []

    def f(x: Tensor) -> Tensor:
        def left(x: Tensor) -> Tensor:
            seen.append("left")
            return x + 1

        return weft.cond((x * 1).sum() > 0, left, lambda x: x - 1, (x,)) * 2

    check(f, up, frames=2, breaks=1, state=seen.clear, watch=lambda: len(seen) > 0)


def test_cond_writing_a_fresh_object_breaks() -> None:
    def f(x: Tensor) -> Any:
        table: dict[str, int] = {}
        count = 0

        def left(x: Tensor) -> Tensor:
            nonlocal count
            count += 1
            return x + 1

        result = weft.cond(x.sum() > 0, left, lambda x: x - 1, (x,))
        return result, table

    graphs = EagerAndRecordGraphs()
    compiled = weft.compile(f, backend=graphs)
    assert weft.equal(compiled(*up())[0], tensor() + 1)
    with pytest.raises(weft.compiler.Unsupported, match="higher-order-effects"):
        weft.compile(f, backend="eager", fullgraph=True)(*up())


def test_cond_writing_a_closed_over_tensor_breaks() -> None:
    weight = weft.ones(3)

    def f(x: Tensor) -> Tensor:
        def left(x: Tensor) -> Tensor:
            weight.add_(1)
            return x * weight

        return weft.cond(x.sum() > 0, left, lambda x: x - 1, (x,)) * 2

    def state() -> None:
        weight.fill_(1)

    check(f, up, down, frames=2, breaks=1, state=state, watch=weight.clone)


def test_cond_with_grad_modes_in_branches() -> None:
    def left(x: Tensor) -> Tensor:
        with weft.no_grad():
            y = x * 2
        return y + x

    def f(x: Tensor) -> Tensor:
        return weft.cond(x.sum() > 0, left, lambda x: x - 1, (x,))

    check(f, lambda: (tensor().requires_grad_(),), after=lambda y: y.sum().backward())


def test_cond_draws_random_numbers_as_eager() -> None:
    def f(x: Tensor) -> Tensor:
        return weft.cond(x.sum() > 0, lambda x: x + weft.rand(3), lambda x: x - 1, (x,))

    def state() -> None:
        weft.manual_seed(3)

    check(f, up, down, up, state=state, after=lambda _: weft.rand(1))


def test_numbers_that_branches_close_over_are_operands() -> None:
    compiled = weft.compile(
        lambda x, n: weft.cond(x.sum() > 0, lambda x: x * n + x.shape[0], lambda x: x - n, (x,)),
        backend=(graphs := EagerAndRecordGraphs()),
        dynamic=True,
        fullgraph=True,
    )
    for size, number in ((3, 5), (4, 6), (5, 7)):
        x = weft.ones(size)
        assert weft.equal(compiled(x, number), x * number + size)
        assert weft.equal(compiled(-x, number), -x - number)
    assert len(graphs.graphs) == 1


def test_loops_with_dynamic_sizes() -> None:
    def f(x: Tensor) -> Any:
        looped = weft.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * 2), (weft.tensor(0), x))
        carry, rows = weft.scan(lambda c, r: (c + r, c * 2), weft.zeros(3), x)
        return looped[1], carry, rows, weft.map(lambda r: r.sum() + x.shape[0], x)

    graphs = EagerAndRecordGraphs()
    compiled = weft.compile(f, backend=graphs, dynamic=True, fullgraph=True)
    for size in (3, 4, 6):
        assert repr(compiled(weft.ones(size, 3))) == repr(f(weft.ones(size, 3)))
    assert len(graphs.graphs) == 1


# -- loops ---------------------------------------------------------------------------------------------------
def test_while_loop() -> None:
    def f(x: Tensor, limit: Tensor) -> Any:
        count = weft.tensor(0)
        return weft.while_loop(lambda i, x: x.sum() < limit, lambda i, x: (i + 1, x * 2), (count, x))

    check(f, lambda: (tensor(), weft.tensor(100.0)), lambda: (tensor(), weft.tensor(1.0)), ops=2 + 2)


def test_while_loop_graphs() -> None:
    def f(x: Tensor) -> Any:
        return weft.while_loop(lambda x: x.sum() < 50, lambda x: (x + GLOBAL,), (x,))

    module = graph_of(f, *up())
    assert {"cond_fn_0", "body_fn_0"} <= set(dict(module.named_children()))
    (call,) = [node for node in module.graph.nodes if node.name == "while_loop"]
    assert len(call.args[2]) == 1 and len(call.args[3]) == 1


def test_scan() -> None:
    def f(xs: Tensor, w: Tensor) -> Any:
        def step(carry: Tensor, x: Tensor) -> Any:
            following = carry * w + x
            return following, following.sin()

        return weft.scan(step, weft.zeros(3), xs, dim=0)

    check(f, lambda: (weft.arange(12).reshape(4, 3) / 4, tensor()), ops=2 + 2)


def test_scan_reverse_over_structures() -> None:
    def f(xs: Tensor) -> Any:
        def step(carry: Any, x: Any) -> Any:
            total = carry["total"] + x["a"] * x["b"]
            return {"total": total}, [total * 1, x["a"].clone()]

        return weft.scan(step, {"total": weft.zeros(3)}, {"a": xs, "b": xs + 1}, reverse=True)

    check(f, lambda: (weft.arange(12).reshape(4, 3) / 4,))


def test_map() -> None:
    check(
        lambda xs, w: weft.map(lambda x, w: (x * w, x.sum() + GLOBAL), xs, w),
        lambda: (weft.arange(12).reshape(4, 3) / 4, tensor()),
    )


def test_scan_gradients() -> None:
    def f(xs: Tensor, w: Tensor) -> Any:
        return weft.scan(lambda c, x: (c * w + x, c.clone()), weft.zeros(3), xs)

    def backward(result: Any) -> Any:
        (result[0].sum() + result[1].sum()).backward()
        return result[0].requires_grad, result[1].requires_grad

    check(f, lambda: (weft.arange(12).reshape(4, 3) / 4, tensor().requires_grad_()), after=backward)


# -- custom ops ----------------------------------------------------------------------------------------------
RUNS: list[str] = []


@weft.library.custom_op("features::sine", mutates_args=())
def sine(x: Tensor) -> Tensor:
    RUNS.append("kernel")
    return weft.from_numpy(np.sin(x.detach().numpy()))


@sine.register_fake
def _(x: Tensor) -> Tensor:
    RUNS.append("fake")
    return weft.empty_like(x)


sine.register_autograd(
    lambda ctx, grad: grad * ctx.saved_tensors[0].cos(),
    setup_context=lambda ctx, inputs, output: ctx.save_for_backward(inputs[0]),
)


@weft.library.custom_op("features::split_two", mutates_args=())
def split_two(x: Tensor, at: int) -> tuple[Tensor, Tensor]:
    return x[:at].clone(), x[at:].clone()


@split_two.register_fake
def _(x: Tensor, at: int) -> tuple[Tensor, Tensor]:
    return x.new_empty(at), x.new_empty(x.shape[0] - at)


@weft.library.custom_op("features::shift_", mutates_args=("x",))
def shift_(x: Tensor, by: float) -> None:
    x.add_(by)


@shift_.register_fake
def _(x: Tensor, by: float) -> None:
    return None


def test_custom_op_is_one_node_and_no_kernel_runs_at_capture() -> None:
    compiled_graphs = EagerAndRecordGraphs()
    RUNS.clear()

    def backend(module: Any, inputs: Any) -> Any:
        assert "kernel" not in RUNS
        return compiled_graphs(module, inputs)

    compiled = weft.compile(lambda x: sine(x + 1) * 2, backend=backend, fullgraph=True)
    assert weft.allclose(compiled(*up()), (tensor() + 1).sin() * 2)
    assert "kernel" in RUNS
    (module,) = compiled_graphs.graphs
    assert [node.op for node in module.graph.nodes].count("call_function") == 3


def test_custom_op_values_and_gradients() -> None:
    def backward(result: Tensor) -> Tensor:
        result.sum().backward()
        return result

    check(lambda x: sine(x * 2) + 1, lambda: (tensor().requires_grad_(),), after=backward)


def test_custom_op_of_several_results() -> None:
    def f(x: Tensor) -> Any:
        left, right = split_two(x, 1)
        return left * 2, right.sum() + left

    check(f, up)


def test_custom_op_that_writes_its_argument() -> None:
    def f(x: Tensor) -> Tensor:
        y = x * 2
        shift_(x, 1.0)
        return y + x

    check(f, up)


def test_custom_op_by_namespace() -> None:
    check(lambda x: weft.ops.features.sine(x) + 1, up)


def test_allow_in_graph_is_one_node() -> None:
    @weft.compiler.allow_in_graph
    def helper(x: Tensor) -> Tensor:
        return x.sin() + 1

    check(lambda x: helper(x) * 2, up, ops=2)


# -- wrap ----------------------------------------------------------------------------------------------------
def test_a_wrapped_call_is_one_node_with_what_it_uses() -> None:
    def f(x: Tensor) -> Tensor:
        return wrap_call(lambda x, unused, scale: x.sin() * GLOBAL * scale, x, x + 1, scale=2) + 1

    check(f, up)
    module = graph_of(f, *up())
    (call,) = [node for node in module.graph.nodes if node.target is wrap_call]
    assert len(call.args) == 3
    body = getattr(module, call.args[0].target).graph
    assert [node.op for node in body.nodes].count("placeholder") == 2


def test_a_wrapped_call_gives_views_writes_draws_and_has_gradients() -> None:
    def f(x: Tensor) -> Any:
        wrap_call(lambda y: y.add_(1), x)
        same, view, drawn = wrap_call(lambda y: (y, y.view(-1), weft.rand_like(y)), x)
        return same is x, view, drawn

    check(f, up, state=lambda: weft.manual_seed(0) and None)

    def g(x: Tensor) -> Tensor:
        loss = wrap_call(lambda y: (y * GLOBAL).sum(), x)
        loss.backward()
        return loss

    check(g, lambda: (tensor().requires_grad_(),))


def test_regions_are_nodes_wherever_they_are_called() -> None:
    @weft.compiler.nested_compile_region
    def region(x: Tensor) -> Tensor:
        return x.cos() + 1

    check(lambda x: region(x) * region(x * 2), up)
    module = graph_of(lambda x: region(x) * region(x * 2), *up())
    assert [node.target for node in module.graph.nodes].count(wrap_call) == 2
    assert region.__name__ == "region"


def test_a_function_may_read_objects_that_were_not_read_before() -> None:
    class Inner(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(3, 3)

        def forward(self, x: Tensor) -> Tensor:
            return self.linear(x)

    inner = Inner()

    def outer(x: Tensor) -> Tensor:
        return x.cos() + wrap_call(inner, x)

    check(lambda x: wrap_call(outer, x), up)
    check(lambda x: weft.cond(x.sum() > 0, outer, lambda x: outer(x) * 2, (x,)), up, down)
