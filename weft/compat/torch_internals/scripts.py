"""A test case for scripted functions, and what PyTorch's tests of them import beside it."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable, Iterator
from typing import Any

from weft.compat.torch_internals.dynamo_utils import clone_inputs
from weft.compat.torch_internals.filecheck import FileCheck as FileCheck
from weft.core.lazy import lazy
from weft.tensor.base import Tensor
from weft.testing.cases import TestCase

RUN_CUDA = RUN_CUDA_HALF = RUN_CUDA_MULTI_GPU = False
_jit: Any = lazy("weft.jit")
_differentiable: Any = lazy("weft.jit.differentiable")


class JitTestCase(TestCase):
    """A test case that compares scripted and traced functions with what they were made of."""

    def checkScript(
        self,
        script: Any,
        inputs: Any,
        name: str = "func",
        optimize: bool = True,
        inputs_requires_grad: bool = False,
        capture_output: bool = False,
        frames_up: int = 1,
        profiling: Any = None,
        atol: float | None = None,
        rtol: float | None = None,
    ) -> Any:
        """The scripted function gives what the function gives, on several calls; returns it."""
        if isinstance(script, str):
            scripted = getattr(_jit.CompilationUnit(script), name)
            space: dict[str, Any] = {}
            exec(compile("from typing import *\nimport torch\n" + script, "<script>", "exec"), space)
            script = space[name]
        else:
            scripted = _jit.script(script)
        for _ in range(3):
            expected = script(*clone_inputs(list(inputs)))
            self.assertEqual(scripted(*clone_inputs(list(inputs))), expected, atol=atol, rtol=rtol)
        return scripted

    def checkTrace(
        self, func: Callable[..., Any], reference_tensors: Any, input_tensors: Any = None, **_options: Any
    ) -> Any:
        """The traced function gives what the function gives; returns it."""
        traced = _jit.trace(func, reference_tensors)
        given = reference_tensors if input_tensors is None else input_tensors
        given = [given] if isinstance(given, Tensor) else list(given)
        self.assertEqual(traced(*clone_inputs(given)), func(*clone_inputs(given)))
        return traced

    def checkModule(self, nn_module: Any, args: Any) -> Any:
        """The scripted module gives what the module gives; returns it."""
        scripted = _jit.script(nn_module)
        self.assertEqual(scripted(*args), nn_module(*args))
        return scripted

    def getExportImportCopy(self, m: Any, also_test_file: bool = True, map_location: Any = None) -> Any:
        """The module, saved and loaded."""
        buffer = io.BytesIO()
        _jit.save(m, buffer)
        buffer.seek(0)
        return _jit.load(buffer, map_location=map_location)

    @contextlib.contextmanager
    def assertRaisesRegexWithHighlight(self, exception: Any, regex: str, highlight: str) -> Iterator[None]:
        """The error, whose text shows this part of the source."""
        with self.assertRaisesRegex(exception, regex) as context:
            yield
        if highlight:
            FileCheck().check(highlight).run(str(context.exception))

    def assertGraphContains(self, graph: Any, kind: str, consider_subgraphs: bool = False) -> None:
        """The graph has a node of this kind."""
        self.assertIn(kind, str(graph))

    def assertGraphContainsExactly(
        self, graph: Any, kind: str, num_kind_nodes: int, consider_subgraphs: bool = False
    ) -> None:
        """The graph has so many nodes of this kind."""
        found = [node for node in _all_nodes(graph, consider_subgraphs) if node.kind() == kind]
        self.assertEqual(len(found), num_kind_nodes, f"{graph}\nhas {len(found)} nodes of kind {kind}")


def _all_nodes(holder: Any, subgraphs: bool) -> Iterator[Any]:
    for node in holder.nodes():
        yield node
        for block in node.blocks():
            yield from _all_nodes(block, subgraphs)
        if subgraphs and node.hasAttribute("Subgraph"):
            yield from _all_nodes(node.g("Subgraph"), subgraphs)


def execWrapper(code: str, glob: dict[str, Any], loc: dict[str, Any]) -> None:
    """Runs code."""
    exec(code, glob, loc)


@contextlib.contextmanager
def disable_autodiff_subgraph_inlining(enabled: bool = True) -> Iterator[None]:
    """Differentiable parts of graphs are shown as such, however small, for a while."""
    smallest = _differentiable.Smallest
    before, smallest.ops = smallest.ops, 1
    try:
        yield
    finally:
        smallest.ops = before


@contextlib.contextmanager
def inline_everything_mode(should_inline: bool = True) -> Iterator[None]:
    """Calls are inlined: they are."""
    yield


set_fusion_group_inlining = enable_cpu_fuser = inline_everything_mode


def enable_profiling_mode_for_profiling_tests() -> Any:
    """Scripted functions know their inputs from the first call on: nothing to change."""
    return contextlib.nullcontext()


def _inline_everything(fn: Any) -> Any:
    return fn


_tmp_donotuse_dont_inline_everything = _inline_everything


def clear_class_registry() -> None:
    """Classes that were scripted are not kept by name: nothing to forget."""


def make_global(*args: Any) -> None:
    """Names that scripted functions are to find: they find those around them."""


def warmup_backward(f: Any, *args: Any) -> list[Any]:
    """Backward, three times; the gradients of the last."""
    results: list[Any] = []
    for _ in range(3):
        f.backward(retain_graph=True)
        results = [value.grad for value in args]
        for value in args:
            value.grad = None
    return results
