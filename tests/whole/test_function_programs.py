"""Programs with custom Functions, from end to end: modules, structures as arguments, training, and what users
have asked of Functions in public threads."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum

import pytest

import weft
from weft import nn
from weft.autograd import Function, grad
from weft.autograd.function import once_differentiable


def values(tensor: weft.Tensor) -> list[float]:
    return tensor.detach().tolist()


class AddSelf(Function):
    @staticmethod
    def forward(ctx, x):
        return x + x

    @staticmethod
    def backward(ctx, gradient):
        return gradient


class RootOfSize(Function):
    """Triples its input; its gradient is scaled by the square root of the number of elements."""

    @staticmethod
    def forward(ctx, x):
        result = x + x
        result = result + x
        ctx.save_for_backward(result)
        return result

    @staticmethod
    def backward(ctx, gradient):
        (result,) = ctx.saved_tensors
        return gradient * math.sqrt(result.numel())


# -- spelled in modules ------------------------------------------------------------
class OnInstance(nn.Module):
    def forward(self, x):
        return AddSelf().apply(x)


class OnClass(nn.Module):
    def forward(self, x):
        return AddSelf.apply(x)


class Stored(nn.Module):
    def __init__(self):
        super().__init__()
        self.function = AddSelf.apply

    def forward(self, x):
        return self.function(x)


@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")
@pytest.mark.parametrize("module", [OnInstance, OnClass, Stored])
@pytest.mark.parametrize("requires_grad", [True, False])
def test_spellings_in_modules(module, requires_grad):
    x = weft.ones(2, 3, requires_grad=requires_grad)
    y = module()(x)
    assert values(y) == [[2.0] * 3] * 2
    assert y.requires_grad is requires_grad
    if requires_grad:
        y.sum().backward()
        assert values(x.grad) == [[1.0] * 3] * 2


def test_saved_output_of_several_steps():
    x = weft.randn(3, 3, requires_grad=True)
    y = RootOfSize.apply(x)
    assert weft.allclose(y, 3 * x)
    y.sum().backward()
    assert values(x.grad) == [[3.0] * 3] * 3


class Linear(Function):
    @staticmethod
    def forward(x, weight, bias):
        output = x.mm(weight.t())
        if bias is not None:
            output += bias.unsqueeze(0).expand_as(output)
        return output

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, gradient):
        x, weight, bias = ctx.saved_tensors
        return (
            gradient.mm(weight) if ctx.needs_input_grad[0] else None,
            gradient.t().mm(x) if ctx.needs_input_grad[1] else None,
            gradient.sum(0) if bias is not None and ctx.needs_input_grad[2] else None,
        )


@pytest.mark.parametrize("with_bias", [True, False])
def test_linear(with_bias):
    x, weight = (weft.randn(*shape, dtype=weft.float64, requires_grad=True) for shape in ((2, 2), (3, 2)))
    bias = weft.randn(3, dtype=weft.float64, requires_grad=True) if with_bias else None
    inputs = [tensor for tensor in (x, weight, bias) if tensor is not None]
    mine = Linear.apply(x, weight, bias)
    theirs = nn.functional.linear(x, weight, bias)
    assert weft.allclose(mine, theirs)
    for found, expected in zip(grad(mine.sin().sum(), inputs), grad(theirs.sin().sum(), inputs)):
        assert weft.allclose(found, expected)
    assert weft.autograd.gradcheck(lambda *args: Linear.apply(*args, *[None] * (not with_bias)), inputs)
    assert weft.autograd.gradgradcheck(lambda *args: Linear.apply(*args, *[None] * (not with_bias)), inputs)


def test_training_with_a_custom_layer():
    """Gradient descent through a straight-through estimator finds the signs of a target."""

    class Sign(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.sign()

        @staticmethod
        def backward(ctx, gradient):
            (x,) = ctx.saved_tensors
            return gradient * (x.abs() <= 1)

    target = weft.tensor([1.0, -1.0, 1.0, 1.0, -1.0])
    weight = weft.nn.Parameter(weft.tensor([-0.3, 0.4, -0.1, 0.2, 0.6]))
    for _ in range(20):
        loss = ((Sign.apply(weight) - target) ** 2).sum()
        loss.backward()
        with weft.no_grad():
            weight -= 0.05 * weight.grad
        weight.grad = None
    assert values(Sign.apply(weight)) == values(target)


# -- arguments of many kinds ------------------------------------------------------------
def test_enumerations_as_arguments():
    class Wave(Enum):
        SINE = 0
        COSINE = 1

    class Waves(Function):
        @staticmethod
        def forward(ctx, x, wave):
            return x.sin() if wave is Wave.SINE else x.cos()

        @staticmethod
        def backward(ctx, gradient):
            return gradient, None

    x = weft.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], requires_grad=True)
    assert values(Waves.apply(x, Wave.SINE)) == values(x.sin())
    assert values(Waves.apply(x, Wave.COSINE)) == values(x.cos())


@dataclass
class Weird:
    number: float
    b: weft.Tensor
    c: weft.Tensor


def scalar(number: float, requires_grad: bool = True) -> weft.Tensor:
    return weft.tensor(number, requires_grad=requires_grad)


def test_tensors_in_objects_are_constants():
    class Product(Function):
        @staticmethod
        def forward(ctx, x, weird, z):
            ctx.save_for_backward(weird.b, weird.c)
            return weird.b * weird.c * x.clone()

        @staticmethod
        def backward(ctx, gradient):
            b, c = ctx.saved_tensors
            return gradient * b * c, None, gradient * 2

    x, z = scalar(2.0), scalar(3.0)
    weird = Weird(1.2, scalar(2.5), scalar(3.5, False))
    result = Product.apply(x, weird, z)
    result.sum().backward()
    assert result.item() == 17.5
    assert (x.grad.item(), z.grad.item(), weird.b.grad) == (8.75, 2.0, None)


def test_tensors_in_lists_are_constants():
    class Scaled(Function):
        @staticmethod
        def forward(ctx, x, weird, z, pair):
            ctx.save_for_backward(weird.b, weird.c, *pair)
            return x.clone() * weird.b * weird.c * pair[0]

        @staticmethod
        def backward(ctx, gradient):
            b, c, first, _ = ctx.saved_tensors
            return gradient * b * c * first, None, gradient * 2, None

    x, z = scalar(2.0), scalar(3.0)
    weird = Weird(1.2, scalar(2.5), scalar(3.5))
    pair = [scalar(0.5), scalar(0.6)]
    Scaled.apply(x, weird, z, pair).sum().backward()
    assert (x.grad.item(), z.grad.item()) == (2.5 * 3.5 * 0.5, 2.0)
    assert [tensor.grad for tensor in (weird.b, weird.c, *pair)] == [None] * 4


def test_no_gradient_for_a_tensor_input():
    class Half(Function):
        @staticmethod
        def forward(ctx, x, y):
            ctx.save_for_backward(y)
            return x.clone() * y

        @staticmethod
        def backward(ctx, gradient):
            return gradient * ctx.saved_tensors[0], None

    x, y = scalar(2.0), scalar(3.0)
    Half.apply(x, y).sum().backward()
    assert (x.grad.item(), y.grad) == (3.0, None)


def test_bounds_from_free_variables():
    class LowerBound(Function):
        @staticmethod
        def forward(ctx, x, bound):
            ctx.save_for_backward(x, x.new_ones(1) * bound)
            return x.clamp(min=bound)

        @staticmethod
        def backward(ctx, gradient):
            x, bound = ctx.saved_tensors
            return (x >= bound) * gradient, None

    class Bounded(nn.Module):
        def __init__(self):
            super().__init__()
            self.gamma = nn.Parameter(weft.tensor([0.5, 1.5, 2.5]))

        def forward(self, x):
            return x + LowerBound.apply(self.gamma, 1)

    module = Bounded()
    y = module(weft.ones(3))
    assert values(y) == [2, 2.5, 3.5]
    y.sum().backward()
    assert values(module.gamma.grad) == [0, 1, 1]


def test_structures_carried_on_the_context():
    class Smuggle(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.tensor, ctx.numbers, ctx.size = x, [1, 2, 3], x.size(0)
            return x * 2

        @staticmethod
        def backward(ctx, gradient):
            result = gradient * ctx.tensor
            for number in ctx.numbers:
                result = result * number + result
            return result * ctx.size

    x = weft.tensor([1.0, -2.0], requires_grad=True)
    Smuggle.apply(x).sum().backward()
    assert values(x.grad) == [48, -96]


def test_shapes_as_arguments_and_saved_draws():
    class Noise(Function):
        @staticmethod
        def forward(ctx, x, shape):
            ctx.save_for_backward(weft.randn(shape))
            return x + 1

        @staticmethod
        def backward(ctx, gradient):
            return ctx.saved_tensors[0], None

    weft.manual_seed(0)
    x = weft.randn(10, 10, requires_grad=True)
    y = Noise.apply(x, (10, 10))
    (noise,) = y.grad_fn.saved_tensors
    y.sum().backward()
    assert values(y) == values(x + 1)
    assert values(x.grad) == values(noise)


def test_an_input_among_the_outputs():
    """Also kept on the context: the input, its copy among the outputs and the attribute are one tensor."""

    class Add(Function):
        @staticmethod
        def forward(ctx, x, y):
            ctx.save_for_backward(x, y)
            ctx.first, ctx.second = x, y
            return x + y, x

        @staticmethod
        def backward(ctx, gradient, of_input):
            x, y = ctx.saved_tensors
            return of_input + x * ctx.first * gradient, y * ctx.second * gradient

    x = weft.tensor([1.0, 2.0], requires_grad=True)
    y = weft.tensor([3.0, 4.0], requires_grad=True)
    z, same = Add.apply(x, y)
    (z.sum() + 10 * same.sum()).backward()
    assert values(z) == [4, 6]
    assert values(x.grad) == [11, 14]
    assert values(y.grad) == [9, 16]


def test_marks_inside_no_grad():
    class Marked(Function):
        @staticmethod
        def forward(ctx, x):
            with weft.no_grad():
                ctx.save_for_backward(x)
                ctx.mark_non_differentiable(x)
                return x

        @staticmethod
        def backward(ctx, gradient):
            return gradient

    for x in (weft.rand(1), weft.rand(1, requires_grad=True)):
        y = Marked.apply(x)
        assert values(y) == values(x)
        assert not y.requires_grad


# -- what users have asked for ------------------------------------------------------------
def test_mark_dirty_keeps_identity_and_history():
    """pytorch#133491."""

    class Scale(Function):
        @staticmethod
        def forward(ctx, x, factor):
            ctx.factor = factor
            ctx.mark_dirty(x)
            x.mul_(factor)
            return x

        @staticmethod
        def backward(ctx, gradient):
            return gradient * ctx.factor, None

    x = weft.ones(3, requires_grad=True)
    y = x.clone()
    view = y[:2]
    z = Scale.apply(y, 5.0)
    assert z is y
    assert values(view) == [5, 5]
    (view.sum() + z.sum()).backward()
    assert values(x.grad) == [10, 10, 5]


def test_outputs_that_are_no_tensors():
    """pytorch#144142."""

    class Described(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2, {"size": x.numel()}, None, 7

        @staticmethod
        def backward(ctx, gradient, *rest):
            assert rest == (None, None, None)
            return gradient * 2

    x = weft.ones(3, requires_grad=True)
    y, facts, nothing, seven = Described.apply(x)
    assert (facts, nothing, seven) == ({"size": 3}, None, 7)
    y.sum().backward()
    assert values(x.grad) == [2, 2, 2]


@pytest.mark.parametrize("materialize", [True, False])
def test_materialised_gradients(materialize):
    """pytorch#106391."""
    seen = []

    class Pair(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(materialize)
            return x.clone(), x.clone()

        @staticmethod
        def backward(ctx, first, second):
            seen.append(second if second is None else values(second))
            return first

    x = weft.ones(2, requires_grad=True)
    Pair.apply(x)[0].sum().backward()
    assert seen == [[0, 0] if materialize else None]


def test_once_differentiable_is_loud():
    """pytorch#106893."""

    class Halve(Function):
        @staticmethod
        def forward(ctx, x):
            return x

        @staticmethod
        @once_differentiable
        def backward(ctx, gradient):
            return gradient * 0.5

    x = weft.ones(3, requires_grad=True)
    y = Halve.apply(x)
    (first,) = grad((y * y).sum(), x, create_graph=True)
    assert values(first) == [1, 1, 1]
    with pytest.raises(RuntimeError, match="trying to differentiate twice"):
        grad(first.sum(), x)


def test_free_variables_of_forward_and_backward():
    """pytorch#118394: closures see later values, and tensors in them get no gradient."""
    factor, weight = 2.0, weft.tensor([3.0], requires_grad=True)

    class Closure(Function):
        @staticmethod
        def forward(ctx, x):
            return x * factor * weight

        @staticmethod
        def backward(ctx, gradient):
            return gradient * factor

    x = weft.ones(1, requires_grad=True)
    y = Closure.apply(x)
    factor = 5.0
    y.backward()
    assert (y.item(), x.grad.item(), weight.grad) == (6.0, 5.0, None)


def test_the_same_tensor_passed_twice():
    """pytorch PR#185407: once by itself, once as an alias, once more in-place."""

    class Affine(Function):
        @staticmethod
        def forward(ctx, a, b, c):
            ctx.save_for_backward(a, b, c)
            return a * b + c

        @staticmethod
        def backward(ctx, gradient):
            a, b, _ = ctx.saved_tensors
            assert ctx.saved_tensors[0] is ctx.saved_tensors[2]
            return gradient * b, gradient * a, gradient

    x = weft.tensor([2.0, 3.0], requires_grad=True)
    y = x * 1
    Affine.apply(y, y.view(2), y).sum().backward()
    assert values(x.grad) == [5, 7]


def test_saved_intermediates_are_right_or_loud():
    """pytorch#104040: silently wrong second derivatives where an intermediate is saved."""

    class Wrong(Function):
        @staticmethod
        def forward(ctx, x):
            root = x.sqrt()
            ctx.save_for_backward(root)
            return root.exp()

        @staticmethod
        def backward(ctx, gradient):
            (root,) = ctx.saved_tensors
            return gradient * root.exp() / (2 * root)

    class Right(Function):
        """Returns the intermediate too, so that its history is known."""

        @staticmethod
        def forward(ctx, x):
            root = x.sqrt()
            result = root.exp()
            ctx.save_for_backward(root, result)
            return result, root

        @staticmethod
        def backward(ctx, gradient, of_root):
            root, result = ctx.saved_tensors
            return (gradient * result + of_root) / (2 * root)

    x = weft.tensor([0.5, 2.0], dtype=weft.float64, requires_grad=True)
    (expected,) = grad(x.sqrt().exp().sum(), x, create_graph=True)
    (second,) = grad(expected.sum(), x)
    for _ in range(2):
        (first,) = grad(Wrong.apply(x).sum(), x, create_graph=True)
        assert weft.allclose(first, expected)
        with pytest.raises(RuntimeError, match="second derivative would be wrong"):
            grad(first.sum(), x)
    (first,) = grad(Right.apply(x)[0].sum(), x, create_graph=True)
    assert weft.allclose(grad(first.sum(), x)[0], second)
    assert weft.autograd.gradgradcheck(lambda a: Right.apply(a)[0], (x,))


def test_functions_compose_with_checkpoints_and_hooks():
    """pytorch#97436: checkpoints, hooks on saved tensors and custom Functions in one graph."""
    packed = []

    def pack(tensor):
        packed.append(tensor.shape)
        return tensor.detach().numpy().copy()

    def block(x):
        return RootOfSize.apply(x).sin()

    x = weft.tensor([1.0, 2.0, 3.0, 4.0], requires_grad=True)
    with weft.autograd.graph.saved_tensors_hooks(pack, weft.from_numpy):
        y = weft.utils.checkpoint.checkpoint(block, x, use_reentrant=False)
        z = RootOfSize.apply(y)
    assert packed == [(4,), (4,)]  # the checkpoint's input and the last Function's output
    z.sum().backward()
    assert values(x.grad) == pytest.approx(values(4 * (3 * x).cos()), rel=1e-5)
