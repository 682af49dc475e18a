"""A program with custom Functions run as it is and run compiled: values, history and gradients compared.

Takes a program and a maker of its arguments; asserts that both sides agree and how many graphs there are.
One idea: gradients are taken of a weighted sum of squares, so that no two outputs or orders look alike.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, is_dataclass
from typing import Any

import weft
from tests.capture.features.harness import numbers
from weft import Tensor
from weft.autograd import Function
from weft.testing import CompileCounterWithBackend

Maker = Callable[[], tuple[Any, ...]]
BACKENDS = ("eager", "aot_eager")


def leaf(*values: float) -> Tensor:
    return weft.tensor(list(values) or [1.0, 2.0, 3.0], dtype=weft.float64, requires_grad=True)


def one() -> tuple[Tensor]:
    return (leaf(),)


def two() -> tuple[Tensor, Tensor]:
    return leaf(), leaf(0.5, -1.5, 2.5)


def tensors_in(value: Any) -> list[Tensor]:
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, (list, tuple)):
        return [found for item in value for found in tensors_in(item)]
    return tensors_in(list(vars(value).values())) if is_dataclass(value) else []


def facts(value: Any) -> Any:
    if isinstance(value, Tensor):
        node = None if value.grad_fn is None else value.grad_fn.name()
        return numbers(value), value.dtype, value.requires_grad, value.is_leaf, node, value._is_view()
    if isinstance(value, (list, tuple)):
        return type(value), [facts(item) for item in value]
    return value


def outcome(function: Callable[..., Any], make: Maker, order: int) -> Any:
    """What a call gives, and the gradients of its weighted sum, of each order."""
    args = make()
    leaves = [tensor for tensor in tensors_in(args) if tensor.requires_grad]
    result = function(*args)
    found = [facts(result)]
    outputs = [tensor for tensor in tensors_in(result) if tensor.requires_grad]
    for number in range(order):
        if not outputs:
            break
        loss = sum((tensor * tensor * (i + 1)).sum() for i, tensor in enumerate(outputs))
        last = number == order - 1
        grads = weft.autograd.grad(loss, leaves, create_graph=not last, allow_unused=True)
        found.append([None if grad is None else numbers(grad) for grad in grads])
        outputs = [grad for grad in grads if grad is not None and grad.requires_grad]
    return found


def gradients_at(
    function: Callable[..., Any], values: tuple[Tensor, ...], loss: Callable[[Any], Tensor] = Tensor.sum
) -> list[Any]:
    """What a function gives for leaves with these values, and the gradients of its loss."""
    leaves = [value.clone().requires_grad_() for value in values]
    result = function(*leaves)
    loss(result).backward()
    return [result, *[leaf.grad for leaf in leaves]]


def without_names(value: Any, names: bool) -> Any:
    """What was found, without the names of nodes, which compiled gradients have of their own."""
    if type(value) is tuple and len(value) == 6:
        return value if names else (*value[:4], *value[5:])
    if isinstance(value, (list, tuple)):
        return [without_names(item, names) for item in value]
    return value


def check(
    function: Callable[..., Any],
    make: Maker = one,
    *,
    order: int = 1,
    frames: int = 1,
    ops: int | None = None,
    fullgraph: bool = True,
    dynamic: bool | None = None,
) -> CompileCounterWithBackend:
    """Asserts, for each backend, that compiled equals eager, twice, with this number of graphs."""
    for backend in BACKENDS:
        counter = CompileCounterWithBackend(backend)
        compiled = weft.compile(function, backend=counter, fullgraph=fullgraph, dynamic=dynamic)
        for _ in range(2):
            found = [outcome(each, make, order) for each in (compiled, function)]
            compiled_one, plain_one = [without_names(each, backend == "eager") for each in found]
            assert compiled_one == plain_one
        assert counter.frame_count == frames
        if ops is not None:
            assert counter.op_count == ops
    return counter


class Cube(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return grad * x * x * 3


class Doubled(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x + x

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return grad * 2


class Same(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, alpha: float = 0.5) -> Tensor:
        return x

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return grad * 5


class Linear(Function):
    @staticmethod
    def forward(input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        output = input.mm(weight.t())
        if bias is not None:
            output += bias.unsqueeze(0).expand_as(output)
        return output

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        input, weight, bias = inputs
        ctx.save_for_backward(input, weight, bias)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        input, weight, bias = ctx.saved_tensors
        grad_input = grad_weight = grad_bias = None
        if ctx.needs_input_grad[0]:
            grad_input = grad.mm(weight)
        if ctx.needs_input_grad[1]:
            grad_weight = grad.t().mm(input)
        if bias is not None and ctx.needs_input_grad[2]:
            grad_bias = grad.sum(0)
        return grad_input, grad_weight, grad_bias


class MixedProduct(Function):
    """A product that says how autocast is to treat it."""

    @staticmethod
    @weft.amp.custom_fwd(device_type="cuda")
    def forward(ctx: Any, a: Tensor, b: Tensor) -> Tensor:
        ctx.save_for_backward(a, b)
        return a.mm(b)

    @staticmethod
    @weft.amp.custom_bwd(device_type="cuda")
    def backward(ctx: Any, grad: Tensor) -> Any:
        a, b = ctx.saved_tensors
        return grad.mm(b.t()), a.t().mm(grad)


@dataclass
class Bundle:
    scale: float
    b: Tensor
    c: Tensor


class Scaled(Function):
    """Takes an object with tensors in it."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weird: Bundle, z: Tensor) -> Tensor:
        ctx.save_for_backward(weird.b, weird.c)
        return weird.b * weird.c * x.clone()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        b, c = ctx.saved_tensors
        return grad * b * c, None, grad * 2


SCALED_GRAPH = """\
class GraphModule(torch.nn.Module):
    def forward(self, L_x_: "f32[]", L_z_: "f32[]", L_weird_b: "f32[]", L_weird_c: "f32[]"):
        l_x_ = L_x_
        l_z_ = L_z_
        l_weird_b = L_weird_b
        l_weird_c = L_weird_c

        function_ctx = torch.autograd.function.FunctionCtx();  function_ctx = None
        fwd_body_0 = self.fwd_body_0
        bwd_body_0 = self.bwd_body_0
        autograd_function_apply: "f32[]" = torch._functorch.autograd_function.autograd_function_apply(\
fwd_body_0, bwd_body_0, l_x_, l_z_, l_weird_b, l_weird_c, args_tensor_mask = [True, False, True]);  \
fwd_body_0 = bwd_body_0 = l_x_ = l_z_ = l_weird_b = l_weird_c = None
        return (autograd_function_apply,)

    class GraphModule(torch.nn.Module):
        def forward(self, function_ctx, l_x_: "f32[]", l_z_: "f32[]", l_weird_b: "f32[]", l_weird_c: "f32[]"):
            mul: "f32[]" = l_weird_b * l_weird_c
            clone: "f32[]" = l_x_.clone();  l_x_ = None
            mul_1: "f32[]" = mul * clone;  mul = clone = None
            return (mul_1, [l_weird_b, l_weird_c])

    class GraphModule(torch.nn.Module):
        def forward(self, function_ctx, mul_1: "f32[]", l_weird_b: "f32[]", l_weird_c: "f32[]"):
            _set_grad_enabled = torch._C._set_grad_enabled(False);  _set_grad_enabled = None

            mul: "f32[]" = mul_1 * l_weird_b;  l_weird_b = None
            mul_2: "f32[]" = mul * l_weird_c;  mul = l_weird_c = None
            mul_3: "f32[]" = mul_1 * 2;  mul_1 = None

            _set_grad_enabled_1 = torch._C._set_grad_enabled(True);  _set_grad_enabled_1 = None
            return (mul_2, mul_3)
"""
"""The graph of `Scaled.apply(x, weird, z)`, which is a function's of these names."""
