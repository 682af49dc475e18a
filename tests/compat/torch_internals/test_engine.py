"""What programs ask of a backward that runs."""

from __future__ import annotations

import gc
from typing import Any

import pytest

import weft
from weft.autograd import set_multithreading_enabled
from weft.compat.torch_internals import engine


def test_backwards_have_numbers() -> None:
    seen: list[int] = []
    x = weft.ones((), requires_grad=True).clone()
    x.register_hook(lambda _: seen.append(engine._current_graph_task_id()))
    x.backward(retain_graph=True)
    x.backward(retain_graph=True)
    assert seen[1] == seen[0] + 1 and engine._current_graph_task_id() == -1


def test_the_order_is_known_before() -> None:
    a, b = weft.ones((), requires_grad=True), weft.ones((), requires_grad=True)
    out = (a * b).sin()
    order: list[Any] = []
    out.register_hook(lambda _: order.extend(engine._current_graph_task_execution_order()))
    with set_multithreading_enabled(False):
        weft.autograd.grad(out, (a,), retain_graph=True)
    names = ["SinBackward0", "MulBackward0", "AccumulateGrad"]
    assert [node.name().rpartition(":")[2] for node in order] == names
    with pytest.raises(RuntimeError, match="multithreading disabled"):
        out.backward()
    with pytest.raises(RuntimeError, match="should only be called during the backward pass"):
        engine._current_graph_task_execution_order()


def test_which_nodes_will_run() -> None:
    a, b = weft.ones((), requires_grad=True), weft.ones((), requires_grad=True)
    c = a * b
    other, out = c.cos(), c.sin()
    seen: list[bool] = []
    handle = out.register_hook(
        lambda _: seen.extend(
            [
                engine._will_engine_execute_node(c.grad_fn),
                engine._will_engine_execute_node(other.grad_fn),
                engine._get_current_graph_task_keep_graph(),
            ]
        )
    )
    out.backward(retain_graph=True)
    assert seen == [True, False, True]
    handle.remove()
    out.register_hook(lambda _: engine._will_engine_execute_node(c.grad_fn.next_functions[0][0]))
    with pytest.raises(RuntimeError, match=r"currently running autograd.grad\(\)"):
        weft.autograd.grad(out, (a,))
    with pytest.raises(RuntimeError, match="expects an grad_fn"):
        engine._will_engine_execute_node(out)


def test_nodes_by_name() -> None:
    x = weft.ones(2, requires_grad=True)
    late = engine.DelayedError("too late", 1)(x)
    with pytest.raises(RuntimeError, match="too late"):
        late.sum().backward()
    engine.UndefinedGrad()(x * 2).sum().backward()
    assert x.grad is None
    assert type(late.grad_fn.next_functions[0][0]) is engine.AccumulateGrad


def test_saved_tensors_of_no_node() -> None:
    x = weft.ones(2)
    assert engine._make_saved_tensor(x).unpack() is x
    with weft.autograd.graph.saved_tensors_hooks(lambda value: value * 2, lambda value: value + 1):
        saved = engine._make_saved_tensor(x)
    assert saved.unpack().tolist() == [3.0, 3.0]
    with pytest.raises(RuntimeError, match="from Python is forbidden"):
        engine.SavedTensor()
    with pytest.raises(TypeError, match="incompatible function arguments"):
        (weft.ones(2, requires_grad=True).exp()).grad_fn._raw_saved_result.register_hooks(len)
    assert engine._saved_tensors_hooks_is_enabled()
    engine._saved_tensors_hooks_disable("no hooks")
    assert not engine._saved_tensors_hooks_is_enabled()
    engine._saved_tensors_hooks_enable()
    engine._unsafe_set_version_counter((x,), (5,))
    assert x._version == 5
    with pytest.raises(RuntimeError, match="Cannot set"):
        engine._unsafe_set_version_counter((x,), (-1,))


def test_references_to_tensors() -> None:
    x = weft.ones(2)
    reference = engine._WeakTensorRef(x)
    assert not reference.expired()
    del x
    gc.collect()
    assert reference.expired()
