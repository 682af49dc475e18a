"""Every op's samples: machine code against the reference, bit by bit but for the order of sums."""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable
from itertools import islice
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import weft
from tests import refusals, wide
from weft.core.dtypes import dtype
from weft.graph.graph import Graph
from weft.native.ir.definitions import Opaque
from weft.native.ir.scalar import FLOATS, FOLDED
from weft.native.plan.build import Built
from weft.native.program.executable import Executable, planned
from weft.native.program.reference import Reading, Reference
from weft.ops.record import REGISTRY, Op
from weft.ops.samples import Maker, Sample


def may_round_otherwise(step: Any) -> bool:
    """Whether bits of a step depend on the width of vectors (the order of sums), BLAS or the C library."""
    if not isinstance(step, Built):
        return isinstance(step, Opaque)
    folds = any(
        each.kind in ("sum", "prod") and each.type in FLOATS
        for part in step.kernel.phases
        for each in part.folds
    )
    body = [each for part in step.kernel.phases for each in (*part.body, *part.after)]
    chains = any(each.op == FOLDED and each.value[0] in ("add", "mul") for each in body)
    return folds or chains or any(each.op == "call" for each in body)


def one_call(op: Op, sample: Sample, expected: Any) -> tuple[Graph, list[Any]]:
    """A call as a graph, and its inputs."""
    graph, arrays = Graph(), []

    def place(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            arrays.append(value.copy())
            node = graph.placeholder(f"x{len(arrays)}")
            node.meta["val"] = weft.from_numpy(arrays[-1])
            return node
        return type(value)([place(item) for item in value]) if type(value) in (tuple, list) else value

    args, kwargs = place(tuple(sample.args)), {name: place(value) for name, value in sample.kwargs.items()}
    node = graph.call_function(op, args, kwargs)
    if not isinstance(expected, (tuple, list)):
        node.meta["val"] = weft.from_numpy(np.asarray(expected))
        graph.output((node,))
        return graph, arrays
    node.meta["val"] = tuple([weft.from_numpy(np.asarray(each)) for each in expected])
    items = [graph.call_function(operator.getitem, (node, number)) for number in range(len(expected))]
    for item, value in zip(items, node.meta["val"], strict=True):
        item.meta["val"] = value
    graph.output(tuple(items))
    return graph, arrays


def eagerly(op: Op, sample: Sample) -> Any:
    """The arrays that a call gives."""

    def tensors(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            return weft.from_numpy(value.copy())
        return type(value)([tensors(each) for each in value]) if type(value) in (tuple, list) else value

    def arrays(value: Any) -> Any:
        if isinstance(value, (tuple, list)):
            return [arrays(each) for each in value]
        return value.array if isinstance(value, weft.Tensor) else value

    named = {name: tensors(value) for name, value in sample.kwargs.items()}
    return arrays(op.face(*tensors(sample.args), **named))


def compared(op: Op, sample: Sample, kind: dtype) -> bool:
    """Compares one call; False where there is nothing to compare."""
    try:
        expected = eagerly(op, sample)
    except Exception as error:
        refusals.expect(error, kind)
        return False
    several = expected if isinstance(expected, (tuple, list)) else (expected,)
    if not all(isinstance(each, (np.ndarray, np.generic)) for each in several):
        return False
    if any(np.asarray(each).dtype.kind == "c" for each in several):
        return False  # array kernels have these
    graph, arrays = one_call(op, sample, expected)
    results = []
    for kind in (Reference, Executable):
        outputs, plan, homes = planned(Reading(graph, arrays), SimpleNamespace(graph=graph))
        if all(isinstance(step, Opaque) for step in plan.steps):
            return False
        is_near = any(may_round_otherwise(step) for step in plan.steps)
        results.append(kind(outputs, plan, arrays, homes)([array.copy() for array in arrays]))
    for read, run in zip(*results, strict=True):
        read, run = np.asarray(read), np.asarray(run)
        assert (read.shape, read.dtype) == (run.shape, run.dtype)
        if is_near and read.dtype.kind == "f":
            near = 1e-5 if read.dtype == np.float32 else 1e-13
            assert np.allclose(read, run, rtol=near, atol=near, equal_nan=True), (op, sample)
        else:
            assert np.array_equal(read, run, equal_nan=read.dtype.kind == "f"), (op, sample)
    return True


@pytest.mark.wide
@pytest.mark.parametrize(
    ("kind", "most"),
    [(weft.float32, 2), (weft.float64, 1), (weft.int64, 1), (weft.uint8, 1), (weft.bfloat16, 1)],
)
def test_samples(
    kind: Any, most: int, is_sampled: Callable[[Op], bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WEFT_CACHE", "0")
    count = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for op in REGISTRY.values():
            if op.samples is None or op.composed or op.name.startswith(("empty", "new_empty")):
                continue
            if not is_sampled(op):
                continue
            for sample in islice(op.samples(Maker(kind)), most):
                count += compared(op, sample, kind)
    assert count > 150 * most // wide.ONE_IN
