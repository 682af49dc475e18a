"""Hooks that are traced: in eager, under `make_fx`, behind compiled functions, and by compiled autograd.

One test per behaviour that users know from PyTorch's higher-order backward; the texts of graphs are printed
under the name `torch`, as they know them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import weft
from weft.autograd.trace_wrapped import trace_wrapped
from weft.compiler import Unsupported, compiled_autograd, counters, lookup_backend, optimize, reset
from weft.testing import assert_close, normalize_gm
from weft.trace.make_fx import make_fx

BACKENDS = ["eager", "aot_eager"]
WRAPPED = """\
class hook(torch.nn.Module):
    def forward(self, grad_1: "f32[2]"):
        trace_wrapped: "f32[2]" = torch__dynamo__trace_wrapped_higher_order_op_self_invoke(grad_1);  grad_1 = None
        return trace_wrapped
"""  # noqa: E501
INLINED = """\
class GraphModule(torch.nn.Module):
    def forward(self, L_inputs_ : list):
        l_inputs_ = L_inputs_

        getitem: "f32[s0]" = l_inputs_[0];  l_inputs_ = None

        new_grad: "f32[s0]" = torch.clone(getitem)

        result: "f32[s0]" = getitem * getitem;  getitem = None

        new_grad_1: "f32[s0]" = torch.clone(result);  result = None
        return (new_grad, new_grad_1)
"""


@pytest.fixture(autouse=True)
def afresh() -> Iterator[None]:
    reset()
    counters.clear()
    yield
    reset()


def square(value: Any) -> Any:
    return value * value


def hook(grad: Any) -> Any:
    return trace_wrapped(grad, fn=square)


def halves() -> Any:
    return weft.tensor([0.5, 0.5], requires_grad=True)


def twos() -> Any:
    return weft.tensor([2.0, 2.0])


def readable(module: Any) -> str:
    return normalize_gm(module.print_readable(False, namespace="torch"))


def test_in_eager() -> None:
    x, y = halves(), halves()
    x.register_hook(hook)
    (x * y).backward(twos())
    assert_close(x.grad, y.detach() * twos())


@pytest.mark.parametrize("backend", BACKENDS)
def test_registered_inside_a_compiled_function(backend: str) -> None:
    def product(x: Any, y: Any) -> Any:
        x.register_hook(hook)
        return x * y

    x, y = halves(), halves()
    out = optimize(backend)(product)(x, y)
    out.backward(twos())
    assert_close(x.grad, twos() * y.detach())
    assert not counters["graph_break"]


def test_make_fx_of_a_leaf() -> None:
    x = halves()
    traced = make_fx(hook)(x)
    assert_close(traced(x), weft.tensor([0.25, 0.25]))
    assert readable(traced) == WRAPPED
    ours = normalize_gm(traced.print_readable(False))
    assert "trace_wrapped: " in ours and " = weft.autograd.trace_wrapped.self_invoke(grad_1)" in ours


def test_make_fx_of_a_gradient() -> None:
    x = halves()
    z = x * x
    (z + z).backward(weft.tensor([1.0, 1.0]))
    traced = make_fx(hook)(x.grad)
    assert_close(traced(x.grad), weft.tensor([4.0, 4.0]))
    assert readable(traced) == WRAPPED


@pytest.mark.parametrize("inner", BACKENDS)
@pytest.mark.parametrize("backend", BACKENDS)
def test_inlined_by_compiled_autograd(backend: str, inner: str) -> None:
    graphs: list[Any] = []

    def compiler_fn(module: Any) -> Callable[..., Any]:
        def inner_compiler(graph_module: Any, example_inputs: list[Any]) -> Callable[..., Any]:
            graphs.append(graph_module)
            return lookup_backend(inner)(graph_module, example_inputs)

        return weft.compile(module, backend=inner_compiler, fullgraph=True, dynamic=True)  # type: ignore[no-any-return]

    def total(x: Any, y: Any) -> Any:
        x.register_hook(hook)
        return x + y

    x, y = halves(), halves()
    out = optimize(backend)(total)(x, y)
    with compiled_autograd.enable(compiler_fn):
        out.backward(twos())
    assert_close(x.grad, twos() * twos())
    assert_close(y.grad, twos())
    assert len(graphs) == 1
    assert readable(graphs[0]) == INLINED


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_hook_that_breaks_the_graph(backend: str) -> None:
    def noisy(value: Any) -> Any:
        print("Boo!")
        return square(value)

    def noisy_hook(grad: Any) -> Any:
        return trace_wrapped(grad, fn=noisy)

    def total(x: Any, y: Any) -> Any:
        x.register_hook(noisy_hook)
        return x + y

    def compiler_fn(module: Any) -> Callable[..., Any]:
        return weft.compile(module, backend="aot_eager", fullgraph=True, dynamic=True)  # type: ignore[no-any-return]

    x, y = halves(), halves()
    out = optimize(backend, nopython=True)(total)(x, y)
    with pytest.raises(Unsupported, match="print"), compiled_autograd.enable(compiler_fn):
        out.backward(twos())
    assert x.grad is None and y.grad is None
    out.backward(twos())  # nothing was freed
    assert_close(x.grad, twos() * twos())
