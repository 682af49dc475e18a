"""The compiler that `native` gives to differentiation: graphs of pure ops to functions of tensors.

Takes a graph and, in each call, tensors; compiles a program per layout of the inputs. One idea: whatever
cannot be compiled runs as it is, and says why.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import weft.native.lower_folds as _folds  # noqa: F401 - registers how folds are lowered
import weft.native.lower_pointwise as _pointwise  # noqa: F401 - and selections, copies, ranges
import weft.native.lower_products as _products  # noqa: F401 - and matrix products
from weft.native.lower import Unlowered
from weft.native.run import Executable, executable


@dataclass(frozen=True, slots=True)
class Layout:
    """What this package has to know of tensors."""

    array: Callable[[Any], Any]
    """The array of a tensor; numbers as they are."""
    wrap: Callable[[Any], Any]
    """A tensor on an array."""
    refuse: Callable[[str], None] = lambda reason: None
    """Told why a graph has no program; may raise."""


class Compiled:
    """A graph, with a program per layout of its inputs."""

    def __init__(self, graph_module: Any, layout: Layout) -> None:
        self.graph_module, self.layout = graph_module, layout
        self.programs: dict[Any, Executable | str] = {}

    def __call__(self, *inputs: Any) -> tuple[Any, ...]:
        arrays = [self.layout.array(value) for value in inputs]
        key = tuple([key_of(array) for array in arrays])
        program = self.programs.get(key)
        if program is None:
            program = self.programs[key] = self.program(arrays)
        if isinstance(program, str):
            results: tuple[Any, ...] = self.graph_module.forward(*inputs)
            return results
        given = dict(zip(map(id, arrays), inputs))
        return tuple([self.result(each, given) for each in program(arrays)])

    def program(self, arrays: list[Any]) -> Executable | str:
        """The program for these inputs, or why there is none."""
        try:
            return executable(self.graph_module, arrays)
        except (Unlowered, NotImplementedError) as error:
            reason = str(error) or type(error).__name__
            self.layout.refuse(f"no native program: {reason}")
            warnings.warn(f"a graph runs op by op, since it has no native program: {reason}", stacklevel=3)
            return reason

    def result(self, value: Any, given: dict[int, Any]) -> Any:
        """A tensor for an array: an input where it is one's own."""
        if not isinstance(value, np.ndarray):
            return value
        return given[id(value)] if id(value) in given else self.layout.wrap(value)


def key_of(value: Any) -> Any:
    """What a program depends on."""
    if isinstance(value, np.ndarray):
        return value.shape, value.strides, value.dtype
    return type(value), value


def compiler(layout: Layout) -> Callable[[Any, list[Any]], Callable[..., Any]]:
    """A compiler for `weft.compiler.aot`."""

    def compile_graph(graph_module: Any, _example_inputs: list[Any]) -> Callable[..., Any]:
        return Compiled(graph_module, layout)

    return compile_graph
