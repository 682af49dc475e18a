"""Every op, every sample: values and gradients to second order, of the plain and of the in-place form."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import weft
from tests import refusals, wide
from tests.aot.differing import gradients
from weft.aot import runtime
from weft.aot.backends import as_it_is
from weft.aot.partition import min_cut
from weft.fx import Graph, GraphModule
from weft.ops.record import REGISTRY, Kind, Op
from weft.ops.samples import Maker, Sample

OPS = sorted((op for op in REGISTRY.values() if op.samples is not None), key=lambda op: op.qualified_name)
UNCOMPILED = {
    "bincount", "masked_select", "nonzero", "argwhere", "repeat_interleave", "masked_scatter", "unique",
    "index_put", "equal", "allclose",
}  # fmt: skip
"""Ops whose results, or gradients, have shapes that only running tells; and whose result is a truth."""


def module_of(function: Any, sample: Sample, copied: bool) -> tuple[GraphModule, list[Any]]:
    """A graph of one call, and its tensors as inputs."""
    graph = Graph()
    inputs: list[Any] = []

    def place(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            tensor = weft.from_numpy(value)
            inputs.append(tensor.requires_grad_() if value.dtype.kind == "f" else tensor)
            return graph.placeholder(f"x{len(inputs)}")
        if isinstance(value, (tuple, list)) and not hasattr(value, "_fields"):
            return type(value)([place(item) for item in value])
        return value

    args = place(sample.args)
    kwargs = {name: place(value) for name, value in sample.kwargs.items()}
    if copied:
        args = (graph.call_function(weft.clone, (args[0],)), *args[1:])
    graph.output(graph.call_function(function, args, kwargs))
    return GraphModule({}, graph), inputs


def assert_equal_runs(module: GraphModule, inputs: list[Any], order: int, empty: bool) -> bool:
    """Whether the graph was compiled, given that it does as the captured one."""
    compiled = runtime.CompiledFunction(module, as_it_is, as_it_is, min_cut)
    before = runtime.counters["fallbacks"]
    theirs = gradients(module.forward, inputs, order)
    ours = gradients(compiled, inputs, order)
    assert [len(part) for part in ours] == [len(part) for part in theirs]
    for one, other in zip(ours, theirs, strict=True):
        for a, b in zip(one, other, strict=True):
            assert (a is None) == (b is None)
            if empty:
                assert a.shape == b.shape and a.dtype is b.dtype
            elif isinstance(b, weft.Tensor):
                assert a.requires_grad == b.requires_grad
                weft.testing.assert_close(a, b, rtol=1e-9, atol=1e-9, equal_nan=True)
            else:
                assert a == b
    return runtime.counters["fallbacks"] == before


@wide.over(OPS)
@pytest.mark.parametrize("form", ["plain", "in place"])
def test_samples(op: Op, form: str) -> None:
    function = op.face
    if form == "in place":
        function = getattr(weft.Tensor, f"{op.name}_", None) if op.inplace else None
        if function is None:
            return
    compiled, writes = True, refusals.OF_WRITES if form == "in place" else ()
    for sample in op.samples(Maker()):
        module, inputs = module_of(function, sample, form != "plain")
        order = 2 if sample.grad and op.kind is not Kind.RANDOM else 1
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                gradients(module.forward, inputs, order)
            except (RuntimeError, NotImplementedError) as error:
                refusals.expect(error, weft.float64, *refusals.OF_GRADIENTS, *writes)
                continue
            compiled = assert_equal_runs(module, inputs, order, "empty" in op.name) and compiled
    assert compiled or op.name in UNCOMPILED or "a call that warns" in runtime.reasons[-1], runtime.reasons[
        -1
    ]
