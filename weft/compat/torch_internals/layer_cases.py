"""What PyTorch's tests of layers share (`common_nn`): a test case that knows modules, and a small net.

Takes modules and inputs, gives results and gradients in PyTorch's forms. The tables of modules that tests
are generated from are empty here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import weft
from weft import nn
from weft.tensor.base import Tensor
from weft.testing.cases import TestCase

module_tests: list[Any] = []
criterion_tests: list[Any] = []
loss_reference_fns: dict[str, Callable[..., Any]] = {}


def get_new_module_tests() -> list[Any]:
    """Tests that are made from PyTorch's table of modules: none."""
    return []


class NNTestCase(TestCase):
    """A test case with the steps of a training by hand."""

    def _forward(self, module: Any, input: Any) -> Any:
        return module(*input) if isinstance(input, tuple) else module(input)

    def _backward(
        self, module: Any, input: Any, output: Tensor, grad_output: Tensor, create_graph: bool = False
    ) -> Any:
        output.backward(grad_output, retain_graph=True, create_graph=create_graph)
        if isinstance(input, tuple):
            return tuple(one.grad.data if one.grad is not None else None for one in input)
        return input.grad.data if input.grad is not None else None

    def _get_parameters(self, module: Any) -> tuple[list[Any], list[Any]]:
        params = list(module.parameters())
        for param in params:
            if param.grad is None:
                param.grad = weft.zeros_like(param)
        return params, [param.grad for param in params]

    def _zero_grad_parameters(self, module: Any) -> None:
        for param in module.parameters():
            if param.grad is not None:
                param.grad = param.grad.detach().zero_()

    def _zero_grad_input(self, input: Any) -> None:
        for one in input if isinstance(input, (tuple, list)) else (input,):
            if one.requires_grad and one.grad is not None:
                one.grad = one.grad.detach().zero_()


class Layer(nn.Module):
    """A parameter and a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.layer_dummy_param = nn.Parameter(weft.zeros(3, 5))
        self.register_buffer("layer_dummy_buf", weft.zeros(1, 3, 3, 7))


class Net(nn.Module):
    """A layer, and a parameter and a buffer of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.l1 = Layer()
        self.dummy_param = nn.Parameter(weft.zeros(3, 5))
        self.register_buffer("dummy_buf", weft.zeros(7, 3, 3, 1))


def _create_basic_net() -> tuple[Layer, Net, nn.Sequential]:
    net = Net()
    return net.l1, net, nn.Sequential(net, net)
