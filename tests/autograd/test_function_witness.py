"""What a Function saves that is neither input nor output: constants stay constants, the rest raises when
differentiated."""

from __future__ import annotations

import pytest

import weft
from weft.autograd import Function, grad
from weft.core.modes import current

LOST = "saved a tensor of shape .* that its forward computed from an input"


def saver(intermediate):
    """A Function that saves what `intermediate` makes of its input."""

    class Saver(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x, intermediate(x))
            return x * 2

        @staticmethod
        def backward(ctx, gradient):
            x, saved = ctx.saved_tensors
            return gradient * (x[:1] * saved).sum()

    return Saver


def stored(x):
    made = weft.zeros(3)
    made[0] = x[0]
    return made


COMPUTED = {
    "product": lambda x: x * 2,
    "slice": lambda x: x[:2],
    "cast": lambda x: x.double().float(),
    "copied": lambda x: weft.zeros(3).copy_(x),
    "added in place": lambda x: weft.zeros(3).add_(x),
    "stored": stored,
    "softmax": lambda x: weft.nn.functional.softmax(x, 0),
    "stack": lambda x: weft.stack([x, x]).sum(0),
    "reshape": lambda x: x.reshape(3, 1),
    "clone": lambda x: x.clone(),
    "where": lambda x: weft.where(x > 1, x, 0.0),
    "norm": lambda x: x.norm(),
    "variance": lambda x: x.var(),
    "einsum": lambda x: weft.einsum("i,i->", x, x),
    "layer norm": lambda x: weft.nn.functional.layer_norm(x, (3,)),
    "unbind": lambda x: x.unbind(0)[0],
    "function": lambda x: saver(lambda y: y * 3).apply(x),
}
CONSTANT = {
    "random": lambda x: weft.rand_like(x),
    "dropout mask": lambda x: (weft.rand_like(x) > 0.5).float() / 0.5,
    "detached": lambda x: x.detach() * 2,
    "data": lambda x: x.data * 2,
    "ones": lambda x: weft.ones(3) * 4,
    "ones of its shape": lambda x: weft.ones(3).expand_as(x),
    "its kind of ones": lambda x: x.new_ones(3),
    "full": lambda x: weft.full_like(x, 3.0),
    "mask": lambda x: (x > 0).float(),
    "chosen numbers": lambda x: weft.where(x > 1, 1.0, 0.0),
    "place": lambda x: x.argmax().float(),
}


def first_gradient(kind, *args):
    x = weft.tensor([1.0, 2.0, 3.0], requires_grad=True)
    (first,) = grad(kind.apply(x, *args).sum(), x, create_graph=True)
    return x, first


@pytest.mark.parametrize("case", COMPUTED)
def test_what_was_computed_from_an_input_raises_if_a_gradient_reaches_it(case):
    kind = saver(COMPUTED[case])
    for _ in range(3):
        x, first = first_gradient(kind)
        with pytest.raises(RuntimeError, match=LOST):
            grad(first.sum(), x, retain_graph=True)
        with pytest.raises(RuntimeError, match=LOST):
            first.sum().backward()
    assert not kind._backward_cls.watched


@pytest.mark.parametrize("case", CONSTANT)
def test_constants_stay_constants(case):
    kind = saver(CONSTANT[case])
    for _ in range(3):
        x, first = first_gradient(kind)
        assert grad(first.sum(), x)[0].shape == (3,)
    assert kind._backward_cls.watched


@pytest.mark.parametrize("case", COMPUTED)
def test_the_first_derivative_is_never_in_doubt(case):
    x = weft.tensor([1.0, 2.0, 3.0], requires_grad=True)
    kind = saver(COMPUTED[case])
    for _ in range(2):
        kind.apply(x).sum().backward()
    with weft.no_grad():
        saved = COMPUTED[case](x)
        once = (x[:1] * saved).sum().item()
    assert x.grad.tolist() == pytest.approx([2 * once] * 3, rel=1e-5)


def test_a_gradient_must_reach_it():
    """The saved tensor is used by backward, but what is differentiated does not depend on it."""

    class Norm(Function):
        @staticmethod
        def forward(ctx, x, y):
            ctx.save_for_backward(x, y, x.norm())
            return x * y

        @staticmethod
        def backward(ctx, gradient):
            x, y, norm = ctx.saved_tensors
            return gradient * y, gradient * norm

    x = weft.tensor([3.0, 4.0], requires_grad=True)
    y = weft.tensor([1.0, 2.0], requires_grad=True)
    by_x, by_y = grad(Norm.apply(x, y).sum(), (x, y), create_graph=True)
    assert by_y.tolist() == [5, 5]
    assert grad(by_x.sum(), y)[0].tolist() == [1, 1]
    with pytest.raises(RuntimeError, match=LOST):
        grad(by_y.sum(), x)


def test_integers_and_masks_need_no_watching():
    kind = saver(lambda x: x > 1)
    x, first = first_gradient(kind)
    grad(first.sum(), x)
    assert not kind._backward_cls.watched


def test_functions_that_save_inputs_and_outputs_need_no_watching():
    class Exp(Function):
        @staticmethod
        def forward(ctx, x):
            result = x.exp()
            ctx.save_for_backward(x, result)
            return result

        @staticmethod
        def backward(ctx, gradient):
            return gradient * ctx.saved_tensors[1]

    assert Exp._backward_cls.watched
    Exp.apply(weft.ones(3))
    assert Exp._backward_cls.watched  # nothing was recorded yet
    Exp.apply(weft.ones(3, requires_grad=True))
    assert not Exp._backward_cls.watched


def test_a_function_that_saves_more_than_before():
    """A tensor at a position that was never watched is taken to be computed; then calls are watched again."""

    class Sometimes(Function):
        @staticmethod
        def forward(ctx, x, mask):
            ctx.save_for_backward(x, (weft.rand_like(x) > 0.5).float() if mask else None)
            return x * x

        @staticmethod
        def backward(ctx, gradient):
            x, mask = ctx.saved_tensors
            return gradient * 2 * x if mask is None else gradient * 2 * x * mask, None

    first_gradient(Sometimes, False)
    assert not Sometimes._backward_cls.watched
    x, first = first_gradient(Sometimes, True)
    with pytest.raises(RuntimeError, match=LOST):
        grad(first.sum(), x)
    assert Sometimes._backward_cls.watched
    x, first = first_gradient(Sometimes, True)
    grad(first.sum(), x)


def test_subclasses_of_tensor_are_followed():
    class Marked(weft.Tensor):
        pass

    kind = saver(lambda x: x.as_subclass(Marked) * 2)
    x, first = first_gradient(kind)
    with pytest.raises(RuntimeError, match=LOST):
        grad(first.sum(), x)


def test_watching_leaves_no_mode_behind():
    saver(lambda x: x * 2).apply(weft.ones(3, requires_grad=True))
    assert current() is True
