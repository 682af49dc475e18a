"""Eager ops on large arrays: a record's native kernel instead of its array kernel.

Takes an op and its arguments, arrays among them; gives its results, or None where its array kernel is to do
it. One idea: an op is a program of one node, made once per layout of its arguments.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, Final

import numpy as np

from weft.core.dtypes import BY_NUMPY
from weft.core.interrupts import let_through
from weft.core.lazy import lazy
from weft.core.once import lock
from weft.core.types import TensorType
from weft.core.varying import Builds
from weft.graph.graph import Graph
from weft.native.cpu.target import cpu
from weft.native.program.program import Changed
from weft.native.program.stored import kept_or_made
from weft.native.target import Running
from weft.ops.record import Op

MOST_PROGRAMS: Final = 512
SIMPLE: Final = (int, bool, str, type(None))
_programs: dict[Any, Running | None] = {}
_builds: dict[Op, Builds] = {}
"""By op: whether its numbers vary, see Note [Numbers that vary] in `weft.core.varying`."""
_making = lock()
_planning: Any = lazy("weft.native.program.planning")


def kernels() -> Callable[[Op, tuple[Any, ...]], Any] | None:
    """What gives native kernels, unless this process may have none."""
    return None if cpu.unusable() else native_kernel


def native_kernel(op: Op, bound: tuple[Any, ...]) -> Any:
    """The results of an op; None where it has no program for these arguments."""
    key: list[Any] = [op]
    inputs: list[Any] = []
    for value in bound:
        kind = type(value)
        if kind is np.ndarray:
            if not value.flags.c_contiguous and 0 in value.strides and op.native_above is not True:
                value = np.ascontiguousarray(value)  # a sum's gradient; of such, few ops give the layout back
            if not value.flags.c_contiguous or not value.flags.aligned:
                return None
            key.append((value.shape, value.dtype))
            inputs.append(value)
        elif kind is float:
            key.append(float)
            inputs.append(value)
        elif kind is tuple and _is_of_ints(value):
            key.append(value)
        elif kind in SIMPLE:
            key.append((kind, value))
        else:
            return None
    found = tuple(key)
    builds = _builds.get(op) or _builds.setdefault(op, Builds())
    builds.calls[0] += 1
    if found not in _programs:
        layout = tuple([_but_for_sizes(each) for each in found])
        if not builds.wants(layout, found):
            return None
        if _remember(found, op, bound, inputs):
            builds.made(layout)
    program = _programs.get(found)
    if program is None:
        return None
    try:
        results = program(inputs)
    except Changed:
        return None
    return tuple(results) if len(results) > 1 else results[0]


def _is_of_ints(value: tuple[Any, ...]) -> bool:
    """Whether a tuple holds ints, or tuples of them."""
    return all(type(item) is int or (type(item) is tuple and _is_of_ints(item)) for item in value)


def _but_for_sizes(part: Any) -> Any:
    """A part of a key without whole numbers, those of shapes among them."""
    if type(part) is not tuple or part[:1] == (int,):
        return None if type(part) is tuple else part
    return (len(part[0]), part[1]) if len(part) == 2 and isinstance(part[1], np.dtype) else part


def _remember(key: Any, op: Op, bound: tuple[Any, ...], inputs: list[Any]) -> bool:
    """Makes the program of a key, or notes that there is none; False where another thread was faster."""
    with _making:
        if key in _programs:
            return False
        if len(_programs) >= MOST_PROGRAMS:
            _programs.clear()
        try:
            graph = SimpleNamespace(graph=one_node(op, bound))
            program = kept_or_made(graph, inputs, lambda arrays: made_for(graph, arrays), False)
        except Exception as error:  # the array kernel says what is wrong, if anything is
            let_through(error)
            _programs[key] = None
            return True
        _programs[key] = program if program.frame is not None else None
        return True


def made_for(graph: Any, arrays: list[Any]) -> Any:
    """A new program."""
    return cpu.executable(_planning.planned(graph, arrays, cpu), arrays)


def one_node(op: Op, bound: tuple[Any, ...]) -> Graph:
    """The op as a graph; arrays and floats are its inputs."""
    graph = Graph()
    arguments: list[Any] = []
    types: list[Any] = []
    for number, value in enumerate(bound):
        if type(value) in (np.ndarray, float):
            arguments.append(graph.placeholder(f"input{number}"))
        else:
            arguments.append(value)
        is_array = type(value) is np.ndarray
        types.append(TensorType(value.shape, BY_NUMPY[value.dtype]) if is_array else value)
    node = graph.call_function(op, tuple(arguments))
    result = op.on_types(tuple(types))
    if isinstance(result, (tuple, list)):
        node.meta["val"] = tuple([_standing_for(each) for each in result])
        graph.output(tuple([graph.call_function(operator.getitem, (node, k)) for k in range(len(result))]))
    else:
        node.meta["val"] = _standing_for(result)
        graph.output((node,))
    return graph


def _standing_for(type_: Any) -> Any:
    """What nodes know of their values."""
    return SimpleNamespace(array=SimpleNamespace(shape=tuple(type_.shape), dtype=type_.dtype.numpy))
