"""Handlers below autograd: what they are handed, in which order, and that gradients, writes and views are
eager's whatever class the tensors have."""

from __future__ import annotations

import copy
import pickle

import pytest

import weft
from tests.handlers import Held, Through
from weft import Tensor, nn
from weft.ops import aten
from weft.overrides import _disabled_torch_function_impl
from weft.utils._python_dispatch import TorchDispatchMode
from weft.utils.checkpoint import checkpoint


def seen(function):
    with Through() as mode:
        function()
    return mode.seen


def test_a_mode_sees_operators_of_composites_and_of_backward():
    layer, x = nn.Linear(3, 4), weft.randn(2, 3)
    forward = ["aten.t.default", "aten.addmm.default", "aten.relu.default", "aten.sum.default"]
    assert seen(lambda: layer(x).relu().sum()) == forward
    loss = layer(x).relu().sum()
    behind = seen(loss.backward)
    assert behind.count("aten.mm.default") == 1  # of the weight: nobody asked for the input's
    assert layer.weight.grad is not None


def test_gradients_under_a_mode_are_summed_in_place():
    x = weft.ones(3, requires_grad=True)
    x.grad = before = weft.ones(3)
    with Through():
        (x * 3).sum().backward()
    assert x.grad is before and x.grad.tolist() == [4, 4, 4]


def test_the_history_is_that_of_the_call():
    x = weft.ones(2, requires_grad=True)
    with Through():
        y = x.exp()
        assert weft.is_grad_enabled()
    assert y.grad_fn.name() == "ExpBackward0"


def test_a_mode_is_off_inside_its_handler_and_can_be_put_on_again():
    depths = []

    class Nested(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            depths.append(str(func))
            if func is aten.mul.Tensor:
                weft.ones(2) + 1
                with self:
                    return aten.exp.default(args[0])
            return func(*args, **(kwargs or {}))

    x = weft.zeros(2)
    with Nested():
        result = x * 2
    assert depths == ["aten.mul.Tensor", "aten.exp.default"] and result.tolist() == [1, 1]


def test_the_innermost_mode_comes_first_and_hands_on():
    order = []

    class Named(TorchDispatchMode):
        def __init__(self, name):
            super().__init__()
            self.name = name

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            order.append(self.name)
            return func(*args, **(kwargs or {}))

    with Named("outer"), Named("inner"):
        weft.ones(2)
    assert order == ["inner", "outer"]


def test_a_mode_comes_before_classes_and_is_told_of_them():
    told = []

    class Told(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            told.append(types)
            return func(*args, **(kwargs or {}))

    x = Held(weft.ones(2))
    Held.seen.clear()
    with Told():
        y = x + 1
    assert told[0] == (Held,) and Held.seen == ["aten.add.Tensor"]
    assert told[1:] == [()] or told[1:] == []  # what the class calls inside, on plain tensors
    assert type(y) is Held


def test_all_declining_is_a_type_error():
    class Declines(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return NotImplemented

    with (
        pytest.raises(TypeError, match="all __torch_dispatch__ handlers returned NotImplemented"),
        Declines(),
    ):
        weft.ones(2)


def test_results_of_handlers_stand_in_for_those_of_kernels():
    class Twice(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            result = func(*args, **(kwargs or {}))
            return result * 2 if func is aten.exp.default else result

    x = weft.zeros(2, requires_grad=True)
    with Twice():
        y = x.exp()
    y.sum().backward()
    assert y.tolist() == [2, 2] and x.grad.tolist() == [2, 2]  # its rule reads the result


def test_an_argument_given_back_keeps_its_own_history():
    class Same(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return args[0] if func is aten.relu.default else func(*args, **(kwargs or {}))

    x = weft.ones(2, requires_grad=True)
    with Same():
        y = x.relu()
    assert y is not x and x.is_leaf and y.grad_fn is not None


def test_views_under_a_mode_follow_their_base():
    base = weft.ones(2, 2, requires_grad=True) * 1
    with Through() as mode:
        view = base[0]
        view.mul_(3)
    assert view._base is base and base.tolist() == [[3, 3], [1, 1]]
    assert "aten.mul_.Tensor" in mode.seen
    (grad,) = weft.autograd.grad(base.sum(), [view], allow_unused=True)
    assert grad is None or grad.shape == (2,)


def test_versions_move_once_for_a_write():
    x = weft.ones(2)
    with Through():
        x.add_(1)
    assert x._version == 1


def test_a_stale_tensor_is_found():
    x = Held(weft.ones(2), requires_grad=True)
    y = x.exp()
    z = y * y
    with weft.no_grad():
        y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.sum().backward()


def test_functions_without_records_are_offered():
    x = weft.ones(1, requires_grad=True)

    def work():
        x.detach()
        x.item()

    assert seen(work) == ["aten.detach.default", "aten._local_scalar_dense.default"]


def test_draws_are_whole():
    assert seen(lambda: weft.rand(2)) == ["aten.rand.default"]
    assert seen(lambda: weft.empty(2).uniform_())[-1] == "aten.uniform_.default"


def program(x):
    y = x * 2 + 1
    z = y[0].exp()
    y = y.clone()
    y.mul_(3)
    y[1].add_(z)
    u = nn.functional.linear(y, y)
    return (u.softmax(-1) * u).sum() + weft.matmul(y, y.t()).tanh().mean()


def test_a_class_without_arrays_is_differentiated_to_second_order():
    plain = weft.randn(2, 3, dtype=weft.float64, requires_grad=True)
    held = Held(plain.detach().clone(), requires_grad=True)

    def both(x):
        (first,) = weft.autograd.grad(program(x), [x], create_graph=True)
        (second,) = weft.autograd.grad(first.pow(2).sum(), [x])
        return first, second

    for one, other in zip(both(plain), both(held), strict=True):
        assert type(other) is Held
        weft.testing.assert_close(other.held, one, check_stride=False)


def test_backward_of_a_class_gives_gradients_of_the_class():
    plain = weft.randn(2, 3, requires_grad=True)
    held = Held(plain.detach().clone(), requires_grad=True)
    program(plain).backward()
    for _ in range(2):
        program(held).backward()
    assert type(held.grad) is Held
    weft.testing.assert_close(held.grad.held, 2 * plain.grad)


def test_layers_and_optimizers_take_parameters_of_a_class():
    start = weft.randn(3)

    def trained(make):
        parameter = nn.Parameter(make(start.clone()))
        optimizer = weft.optim.Adam([parameter], lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            (parameter * parameter).sum().backward()
            optimizer.step()
        return parameter

    found = trained(Held)
    assert type(found) is Held and isinstance(found, nn.Parameter)
    weft.testing.assert_close(found.held, trained(lambda t: t).detach())


def test_a_class_inside_a_function_of_the_users():
    class Into(weft.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return Held(x.clone())

        @staticmethod
        def backward(ctx, gradient):
            return gradient.held

    class OutOf(weft.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.held.clone()

        @staticmethod
        def backward(ctx, gradient):
            return Held(gradient)

    x = weft.randn(3, requires_grad=True)
    OutOf.apply(Into.apply(x * 2).exp().sin()).sum().backward()
    y = x.detach().clone().requires_grad_()
    (y * 2).exp().sin().sum().backward()
    assert type(x.grad) is Tensor
    weft.testing.assert_close(x.grad, y.grad)


def test_checkpoints_and_hooks_see_the_class():
    plain = weft.randn(2, 3, requires_grad=True)
    held = Held(plain.detach().clone(), requires_grad=True)
    program(plain).backward()
    checkpoint(program, held, use_reentrant=False).backward()
    weft.testing.assert_close(held.grad.held, plain.grad)
    packed = []
    with weft.autograd.graph.saved_tensors_hooks(lambda t: packed.append(type(t)) or t, lambda t: t):
        y = held.exp()
    assert packed == [Held]
    (grad,) = weft.autograd.grad(y.sum(), [held])
    weft.testing.assert_close(grad.held, plain.detach().exp())


def test_indexing_and_conversions_take_no_short_cuts():
    class Real(Tensor):
        """Has an array, which no method may read unseen."""

        calls: list[str] = []
        __torch_function__ = _disabled_torch_function_impl

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            cls.calls.append(str(func))
            return super().__torch_dispatch__(func, types, args, kwargs)

    x = Tensor._make_subclass(Real, weft.arange(6.0).view(2, 3))
    for work, name in (
        (lambda: x[0], "aten.select.int"),
        (lambda: x[:, 1:], "aten.slice.Tensor"),
        (lambda: x[None], "aten.unsqueeze.default"),
        (lambda: x[weft.tensor([0])], "aten.index.Tensor"),
        (lambda: x.double(), "aten._to_copy.default"),
        (lambda: x.to(weft.float64), "aten._to_copy.default"),
    ):
        Real.calls.clear()
        result = work()
        assert name in Real.calls and type(result) is Tensor, name
    assert type(x.as_subclass(Tensor)) is Tensor


def test_copies_and_pickles_of_wrappers():
    x = Held(weft.arange(3.0), requires_grad=True)
    for made in (copy.deepcopy(x), copy.copy(x), pickle.loads(pickle.dumps(x))):
        assert type(made) is Held and made.requires_grad and made.held.tolist() == [0, 1, 2]
    assert copy.deepcopy(x).held is not x.held


def test_compiled_calls_run_as_written_under_modes_and_for_classes():
    compiled = weft.compile(lambda x: (x * 2 + 1).relu())
    x = weft.randn(3)
    expected = compiled(x)
    for _ in range(2):
        with Through() as mode:
            result = compiled(x)
        weft.testing.assert_close(result, expected)
        assert mode.seen == ["aten.mul.Tensor", "aten.add.Tensor", "aten.relu.default"]
        weft.testing.assert_close(compiled(Held(x)).held, expected)


def test_modes_entered_in_compiled_code_are_told():
    def program(x):
        y = x * 2
        with Through() as mode:
            y = (y + 1).exp()
        return y * 3, mode.seen

    compiled, x = weft.compile(program), weft.randn(3)
    for _ in range(2):
        result, told = compiled(x)
        assert told == ["aten.add.Tensor", "aten.exp.default"]
        weft.testing.assert_close(result, program(x)[0])


def test_a_compiled_call_is_differentiated_under_a_mode():
    x = weft.ones(3, requires_grad=True)
    y = weft.compile(lambda x: (x * 2).sin().sum())(x)
    with Through() as mode:
        y.backward()
    weft.testing.assert_close(x.grad, 2 * weft.cos(weft.full((3,), 2.0)))
    assert mode.seen


def test_custom_ops_are_offered():
    @weft.library.custom_op("tests_below::twice", mutates_args=())
    def twice(x: Tensor) -> Tensor:
        return x * 2

    try:
        twice.register_autograd(lambda ctx, gradient: gradient * 2)
        x = weft.ones(2, requires_grad=True)
        with Through() as mode:
            y = weft.ops.tests_below.twice(x)
        assert mode.seen == ["tests_below.twice.default"] or mode.seen == ["tests_below.twice"]
        y.sum().backward()
        assert x.grad.tolist() == [2, 2]
    finally:
        twice._destroy()


def test_transforms_offer_what_they_call():
    with Through() as mode:
        result = weft.func.vmap(weft.func.grad(lambda x: x.sin()))(weft.zeros(3))
    assert result.tolist() == [1, 1, 1] and "aten.cos.default" in mode.seen


def test_who_has_met_classes_refuses_outputs_that_are_none():
    assert Held.__torch_dispatch__ is not None
    with pytest.raises(TypeError, match="expected outputs to be Tensors or GradientEdges, but got int"):
        weft.autograd.backward([3])


def test_elements_of_a_class_are_compared_and_checked():
    x = Held(weft.randn(2, 3, dtype=weft.float64), requires_grad=True)
    weft.testing.assert_close(x.detach(), Held(x.held.clone()))
    with pytest.raises(AssertionError, match="not close"):
        weft.testing.assert_close(x.detach(), Held(x.held + 1))
    with pytest.raises(AssertionError, match="not close"):
        weft.testing.assert_close(x.detach().sum(), Held(x.held.sum() + 1))
    assert weft.autograd.gradcheck(lambda t: (t * t).sin().sum(0), x)

    class Wrong(weft.autograd.Function):
        @staticmethod
        def forward(ctx, t):
            return t * 2

        @staticmethod
        def backward(ctx, gradient):
            return gradient * 3

    with pytest.raises(RuntimeError, match="Jacobian mismatch"):
        weft.autograd.gradcheck(Wrong.apply, x)
