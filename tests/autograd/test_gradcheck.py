"""gradcheck and gradgradcheck find wrong gradients and accept right ones."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from weft.autograd import GradcheckError, gradcheck, gradgradcheck
from weft.autograd.graph import Node
from weft.tensor.tape import gradient_edge, next_sequence


def double(*shape: int) -> weft.Tensor:
    array = np.random.default_rng(0).uniform(0.5, 1.5, shape)
    return weft.from_numpy(array).requires_grad_()


class Wrong(Node):
    """A node whose gradient is what the test wants."""

    __slots__ = ()

    def raw_backward(self, grad):
        return (self.rule(grad),)

    def graph_backward(self, grad):
        return (weft.from_numpy(np.array(self.rule(grad.array))),)

    runs_without_gradient = True


def doubled(x: weft.Tensor, rule) -> weft.Tensor:
    """2 x, with a gradient rule of its own on arrays."""
    y = (x.detach() * 2).clone()
    target, slot = gradient_edge(x)
    node = Wrong()
    node._seq, node.next, node.slots = next_sequence(), (target,), (slot,) if slot else None
    node.hooks = node.versions = None
    node.saved = node.params = ()
    node.types = (x.array.shape, x.array.dtype) * 2
    node.rule = lambda g: None if g is None else rule(g)
    y.node, y.tracked = node, True
    return y


@pytest.mark.parametrize("fast", [False, True])
def test_right_gradients_pass(fast):
    x, y = double(2, 3), double(3)
    assert gradcheck(lambda a, b: (a.sin() * b, (a + b).exp().sum()), (x, y), fast_mode=fast)
    assert gradgradcheck(lambda a, b: a.sin() * b, (x, y), fast_mode=fast)
    assert gradcheck(weft.sin, x, fast_mode=fast, check_batched_grad=True)
    assert gradcheck(lambda a, s: a * s, (x, 2.0), fast_mode=fast)
    assert gradcheck(lambda a: a.t(), (x,), fast_mode=fast)
    assert gradcheck(lambda a: a, (x,), fast_mode=fast)
    assert gradcheck(weft.sin, (double(3) * 2,), fast_mode=fast)
    assert gradcheck(lambda a: (a * 2, a > 0), (x,), fast_mode=fast)


def test_inputs_are_left_as_they_were():
    x = double(3)
    before = x.array.copy()
    gradcheck(weft.sin, (x,))
    gradcheck(weft.sin, (x,), fast_mode=True)
    np.testing.assert_array_equal(x.array, before)
    assert x.grad is None


@pytest.mark.parametrize("fast", [False, True])
def test_wrong_gradients_are_named(fast):
    x, y = double(3), double(3)
    with pytest.raises(GradcheckError) as caught:
        gradcheck(lambda a, b: (a * 2, doubled(b, lambda g: g * 3)), (x, y), fast_mode=fast)
    text = str(caught.value)
    assert text.startswith("Jacobian mismatch for output 1 with respect to input 1,\nnumerical:")
    assert "analytical:" in text
    assert ("in slow mode" in text) == fast
    assert not gradcheck(lambda a: doubled(a, lambda g: g * 3), (x,), raise_exception=False, fast_mode=fast)
    assert issubclass(GradcheckError, RuntimeError)


def test_missing_second_order_is_found():
    x = double(3)

    def square(a):
        return a * a.detach() * 2 - a.detach() * a.detach()

    assert gradcheck(lambda a: a * 2, (x,))
    with pytest.raises(GradcheckError, match="Jacobian mismatch"):
        gradgradcheck(square, (x,))


def test_gradients_that_vary_are_found():
    x = double(2)
    calls = [0]

    def rule(g):
        calls[0] += 1
        return g * 2 * (1 + calls[0] * 1e-9)

    with pytest.raises(
        GradcheckError, match="Backward is not reentrant, i.e., running backward with same input"
    ):
        gradcheck(lambda a: doubled(a, rule), (x,))
    assert gradcheck(lambda a: doubled(a, rule), (x,), nondet_tol=1e-3)


def test_gradients_that_are_not_linear_are_found():
    x = double(2)
    with pytest.raises(GradcheckError, match="backward not multiplied by grad_output"):
        gradcheck(lambda a: doubled(a, lambda g: g * 2 + 1e-9), (x,))


def test_undefined_gradients_must_give_nothing():
    x = double(2)

    def careless(a):
        y = doubled(a, lambda g: g * 2)
        y.node.rule = lambda g: np.ones(2) if g is None else g * 2
        return y

    with pytest.raises(GradcheckError, match="Expected all input grads to be undefined or zero"):
        gradcheck(careless, (x,))
    assert gradcheck(careless, (x,), check_undefined_grad=False)


def test_no_gradient_where_there_should_be_one():
    x = double(2)
    with pytest.raises(GradcheckError, match="Numerical gradient for function expected to be zero"):
        gradcheck(lambda a: a.detach() * 1, (x,))
    assert gradcheck(lambda a: weft.ones(2), (x,))


def test_refusals():
    x = double(3)
    with pytest.raises(ValueError, match="gradcheck expects at least one input tensor to require gradient"):
        gradcheck(weft.sin, (x.detach(),))
    with pytest.raises(RuntimeError, match="The 0th input has a dimension with stride 0"):
        gradcheck(weft.sin, (double(1).detach().expand(3).requires_grad_(),))
    with pytest.warns(UserWarning, match="Input #0 requires gradient and is not a double precision"):
        assert not gradcheck(weft.sin, (x.detach().float().requires_grad_(),), raise_exception=False)
    with pytest.raises(AssertionError, match="at least one of check_forward_ad or check_backward_ad"):
        gradcheck(weft.sin, (x,), check_backward_ad=False)


def test_given_gradients_for_the_second_order():
    x = double(3)
    assert gradgradcheck(weft.sin, (x,), double(3))
    assert gradgradcheck(weft.sin, (x,), gen_non_contig_grad_outputs=True)


def test_forward_mode_is_checked_as_well() -> None:
    x = weft.tensor([0.3, -1.2], dtype=weft.float64, requires_grad=True)
    y = weft.tensor([2.0, 0.5], dtype=weft.float64, requires_grad=True)
    assert gradcheck(lambda x, y: (x * y, x.exp()), (x, y), check_forward_ad=True)
    assert gradcheck(lambda x: x.sin(), x, check_forward_ad=True, check_backward_ad=False)
    z = weft.tensor([0.3 + 1j, -1.2 - 2j], dtype=weft.complex128, requires_grad=True)
    assert gradcheck(lambda z: (z * z).abs(), z, check_forward_ad=True)
    assert gradgradcheck(lambda x, y: x.sin() * y, (x, y), check_fwd_over_rev=True)
    with pytest.raises(AssertionError, match="check_undefined_grad=True requires check_rev_over_rev"):
        gradgradcheck(lambda x: x.sin(), x, check_fwd_over_rev=True, check_rev_over_rev=False)


def test_a_wrong_jvp_is_found() -> None:
    class Twice(weft.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return grad * 2

        @staticmethod
        def jvp(ctx, tangent):
            return tangent * 3

    x = weft.ones(2, dtype=weft.float64, requires_grad=True)
    assert gradcheck(Twice.apply, x)
    with pytest.raises(GradcheckError, match="Jacobian computed with forward mode mismatch for output 0"):
        gradcheck(Twice.apply, x, check_forward_ad=True)


@pytest.mark.parametrize("fast", [False, True])
def test_outputs_whose_type_depends_on_values_are_refused(fast: bool) -> None:
    x = weft.ones(1, dtype=weft.float64, requires_grad=True)
    text = r"outputs with the same {0} when inputs are perturbed.* by 1e-06, but got: {0}s .* and "
    with pytest.raises(AssertionError, match=text.format("shape")):
        gradcheck(lambda x: weft.cat([x, x]) if x >= 1 else x, (x,), fast_mode=fast)
    with pytest.raises(AssertionError, match=text.format("dtype")):
        gradcheck(lambda x: x.to(weft.float32) if x >= 1 else x, (x,), fast_mode=fast)


@pytest.mark.parametrize("fast", [False, True])
def test_a_backward_that_differs_from_run_to_run_is_found(fast: bool) -> None:
    class Jitter(weft.autograd.Function):
        @staticmethod
        def forward(ctx: object, x: weft.Tensor) -> weft.Tensor:
            return x * 1

        @staticmethod
        def backward(ctx: object, g: weft.Tensor) -> weft.Tensor:
            return g * (1 + weft.rand_like(g) * 1e-6)

    x = weft.rand(3, dtype=weft.float64, requires_grad=True)
    with pytest.raises(GradcheckError, match="Backward is not reentrant"):
        gradcheck(Jitter.apply, (x,), fast_mode=fast)
    assert gradcheck(Jitter.apply, (x,), fast_mode=fast, nondet_tol=1e-5)


@pytest.mark.parametrize("fast", [False, True])
def test_a_backward_that_refuses_undefined_gradients_is_found(fast: bool) -> None:
    def refusing(x: weft.Tensor) -> weft.Tensor:
        def hook(grad: weft.Tensor | None) -> None:
            if grad is None:
                raise RuntimeError("no gradient")

        out = x.clone()
        out.register_hook(hook)
        return out

    x = weft.ones(1, dtype=weft.float64, requires_grad=True)
    with (
        pytest.warns(UserWarning, match="New undefined gradient support checking feature"),
        pytest.raises(GradcheckError, match="Expected backward function to handle undefined output grads"),
    ):
        gradcheck(refusing, (x,), fast_mode=fast)
    assert gradcheck(refusing, (x,), fast_mode=fast, check_undefined_grad=False)


def test_all_inputs_are_duals_where_forward_mode_is_checked() -> None:
    seen = []

    def f(x: weft.Tensor, y: weft.Tensor) -> weft.Tensor:
        seen.append([weft.autograd.forward_ad.unpack_dual(each).tangent is not None for each in (x, y)])
        return x * y

    x, y = (weft.rand(1, dtype=weft.float64, requires_grad=True) for _ in range(2))
    assert gradcheck(f, (x, y), check_forward_ad=True, check_backward_ad=False)
    assert seen.count([True, True]) == 2 and [True, False] not in seen
