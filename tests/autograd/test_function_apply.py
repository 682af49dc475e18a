"""The node of custom Functions in graphs, by itself: templates, types, graphs that lost their Function."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

import weft
from weft import Tensor
from weft.autograd import Function
from weft.autograd.function_apply import (
    Kept,
    StructureChanged,
    autograd_function_apply,
    build,
    collect,
    fitting,
)
from weft.graph.interpreter import run
from weft.testing import EagerAndRecordGraphs


class Triple(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.factor = 3
        return x * 3

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return grad * ctx.factor


def captured() -> Any:
    recorded = EagerAndRecordGraphs()
    weft.compile(lambda x: Triple.apply(x), backend=recorded, fullgraph=True)(
        weft.ones(2, requires_grad=True)
    )
    return recorded.graphs[0]


def test_templates_are_filled_afresh_and_read_back() -> None:
    template = {"a": [Kept(0), (1, Kept(1))], "b": "text", "shape": weft.Size([2, 3])}
    first, second = build(template, [10, 20]), build(template, [10, 20])
    assert first == {"a": [10, (1, 20)], "b": "text", "shape": weft.Size([2, 3])}
    assert first["a"] is not second["a"] and type(first["shape"]) is weft.Size
    places: dict[int, Any] = {}
    collect(template, first, places)
    assert places == {0: 10, 1: 20}


@pytest.mark.parametrize(
    ("template", "value"),
    [([Kept(0)], [1, 2]), ([Kept(0)], (1,)), ({"a": 1}, {"b": 1}), (1, True), ("a", "b"), ((1, 2), (1, 3))],
)
def test_structures_that_changed_are_noticed(template: Any, value: Any) -> None:
    with pytest.raises(StructureChanged):
        collect(template, value, {})


def test_gradients_must_be_of_their_type() -> None:
    cpu = weft.device("cpu")
    facts = ((2, None), weft.ones(1).array.dtype, cpu, False)
    assert fitting([weft.ones(2, 7)], (facts,))
    assert fitting([None], (None,))
    others = (
        weft.ones(3, 7), weft.ones(2), weft.ones(2, 7, dtype=weft.float64),
        weft.ones(2, 7, requires_grad=True), None,
    )  # fmt: skip
    for other in others:
        assert not fitting([other], (facts,))
    assert not fitting([weft.ones(1)], (None,))
    assert not fitting([], (facts,))


@pytest.mark.parametrize("way", ["copied", "interpreted"])
def test_graphs_keep_their_function_when_copied_or_interpreted(way: str) -> None:
    module = captured()
    x = weft.ones(2, requires_grad=True)
    if way == "copied":
        (y,) = copy.deepcopy(module)(x)
    else:
        (y,) = run(module.graph, [x], owner=module)
    y.sum().backward()
    assert y.grad_fn.name() == "TripleBackward" and y.grad_fn.factor == 3
    assert x.grad is not None and x.grad.tolist() == [3.0, 3.0]


def test_a_graph_without_its_function_says_so() -> None:
    module = pickle.loads(pickle.dumps(captured()))
    with pytest.raises(RuntimeError, match="without its Function"):
        module(weft.ones(2, requires_grad=True))


def test_where_nothing_is_recorded_there_is_no_node() -> None:
    module = captured()
    with weft.no_grad():
        (y,) = module(weft.ones(2, requires_grad=True))
    assert not y.requires_grad and y.tolist() == [3.0, 3.0]
    (node,) = module.graph.find_nodes(op="call_function", target=autograd_function_apply)
    assert node.kwargs == {"args_tensor_mask": [True]}
