"""Function transforms inside captured code: what transformed functions do, and what they leave behind."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft
from tests.capture.features.harness import check, everything_strict
from tests.capture.features.transforming import both, elements, matrix, number, rows, tracked_rows
from weft import nn
from weft.autograd import forward_ad, functional
from weft.func import (
    functional_call,
    grad,
    grad_and_value,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    linearize,
    stack_module_state,
    vjp,
    vmap,
)

Tensor = weft.Tensor
F = nn.functional


# -- what functions do inside --------------------------------------------------------------------------------
def test_effects_of_the_function() -> None:
    seen: list[Any] = []
    counts = {"calls": 0}

    def loss(x: Tensor) -> Tensor:
        seen.append(tuple(x.shape))
        counts["calls"] += 1
        return x.sin().sum()

    def f(x: Tensor) -> Any:
        return grad(loss)(x), vmap(loss)(x), counts["calls"]

    def reset() -> None:
        seen.clear()
        counts["calls"] = 0

    check(f, rows, state=reset, watch=lambda: (seen, counts), frames=None)


def test_errors_of_the_function() -> None:
    def fails(x: Tensor) -> Tensor:
        raise KeyError("inside")

    def f(x: Tensor) -> Any:
        try:
            return vmap(fails)(x)
        except KeyError as error:
            return x * 2, error.args

    check(f, rows)
    check(lambda x: vmap(fails)(x), rows, frames=0, breaks=None, raises=KeyError)
    check(lambda x: grad(lambda a: a)(x), rows, frames=0, breaks=None, raises=RuntimeError)
    check(lambda x: vmap(lambda a: a @ x)(x), rows, frames=0, breaks=None, raises=RuntimeError)
    check(lambda x: vmap(elements, in_dims=5)(x), rows, frames=0, breaks=None, raises=ValueError)
    check(lambda x: vmap(lambda a: a.sum().item())(x), rows, frames=0, breaks=None, raises=RuntimeError)


def test_error_that_is_caught_leaves_no_level_open() -> None:
    def f(x: Tensor) -> Any:
        try:
            vmap(lambda a: a @ x)(x)
        except RuntimeError:
            y = x + 1
        return y + weft.rand(3)

    check(f, rows, state=lambda: weft.manual_seed(3) and None)


def test_in_place_inside() -> None:
    def inner(a: Tensor) -> Tensor:
        b = a.clone()
        b += 1
        b.mul_(a)
        b[0] = a.sum()
        return b

    both(lambda x: vmap(inner)(x))
    both(lambda x: jacrev(inner)(x[0]))
    both(lambda x: jacfwd(inner)(x[0]))
    both(lambda x: jvp(inner, (x[0],), (x[1],)))


def test_in_place_on_what_vmap_was_given() -> None:
    def f(x: Tensor) -> Any:
        y = x * 2
        out = vmap(lambda a: a.add_(1))(y)
        return out, y

    check(f, rows)


def test_branches_on_shapes_and_python_values() -> None:
    def inner(a: Tensor, flip: bool) -> Tensor:
        if a.ndim == 1 and a.shape[0] > 2 and flip:
            return a.flip(0)
        return a

    both(lambda x: vmap(lambda a: inner(a, True))(x) + vmap(lambda a: inner(a, False))(x))


def test_loops_comprehensions_and_generators_inside() -> None:
    def inner(a: Tensor) -> Tensor:
        parts = [part * i for i, part in enumerate(a)]
        total = sum(part for part in parts)
        for part in a.unbind():
            total = total + part
        return weft.stack(parts) + total

    both(lambda x: vmap(inner)(x))
    both(lambda x: jacrev(inner)(x[0]))


def test_indexing_inside() -> None:
    index = weft.tensor([2, 0])

    def inner(a: Tensor) -> Any:
        return a[index], a[1:], a[None, ::2], a[..., -1], weft.where(a > 0, a, -a)

    both(lambda x: vmap(inner)(x))
    both(lambda x: jacfwd(lambda a: inner(a)[0])(x[0]))


def test_no_grad_inside() -> None:
    def loss(a: Tensor) -> Tensor:
        with weft.no_grad():
            scale = a.sin()
        return (a * scale).sum()

    both(lambda x: grad(loss)(x))
    both(lambda x: vmap(grad(loss))(x))


def test_strides_asked_inside_are_guarded() -> None:
    def f(x: Tensor) -> Tensor:
        return vmap(lambda a: a * 2 if a.is_contiguous() else a * 3)(x)

    check(f, rows, lambda: (matrix(3, 4).t(),), rows, frames=2)

    def g(x: Tensor) -> Tensor:
        return grad(lambda a: (a * (2 if a.is_contiguous() else 3)).sum())(x)

    check(g, rows, lambda: (matrix(3, 4).t(),), rows, frames=2)


def test_autocast_and_dtypes_inside() -> None:
    both(lambda x: vmap(lambda a: a.double().to(weft.float32) + a.half().float())(x))

    def f(x: Tensor) -> Any:
        with weft.autocast("cpu", dtype=weft.bfloat16):
            mapped = vmap(lambda a: a @ weft.eye(3))(x)
            return mapped, grad(lambda a: (a @ weft.eye(3)).sum().float())(x)

    check(f, rows)


# -- wrappers that escape ------------------------------------------------------------------------------------
def test_tensor_of_a_transform_that_is_kept_is_a_break() -> None:
    kept: list[Any] = []

    def inner(a: Tensor) -> Tensor:
        kept.append(a)
        return a * 2

    with everything_strict(), pytest.raises(weft.compiler.Unsupported):
        weft.compile(lambda x: vmap(inner)(x), backend="eager", fullgraph=True)(matrix())
    kept.clear()
    assert weft.equal(weft.compile(lambda x: vmap(inner)(x), backend="eager")(matrix()), matrix() * 2)
    assert type(kept[0]).__name__ == "BatchTensor"


def test_tensor_with_a_history_inside_that_is_kept_is_a_break() -> None:
    kept: dict[str, Any] = {}

    def loss(a: Tensor) -> Tensor:
        kept["sine"] = a.sin()
        return kept["sine"].sum()

    check(lambda x: grad(loss)(x), rows, state=kept.clear, watch=lambda: kept, frames=0, breaks=None)
    check(lambda x: grad(loss)(x), tracked_rows, state=kept.clear, watch=lambda: kept, frames=None)


def test_dual_that_is_kept_becomes_its_primal() -> None:
    kept: list[Any] = []

    def inner(a: Tensor) -> Tensor:
        kept.append(a.sin())
        return kept[-1]

    check(lambda x: jvp(inner, (x,), (x,)), rows, state=kept.clear, watch=lambda: kept, frames=None)


def test_hooks_inside() -> None:
    seen: list[Any] = []

    def loss(a: Tensor) -> Tensor:
        a.register_hook(lambda g: g * 2)
        b = a * a
        b.register_hook(lambda g: seen.append(tuple(g.shape)))
        return b.sum()

    check(lambda x: grad(loss)(x), rows, state=seen.clear, watch=lambda: seen)


def test_custom_functions_inside() -> None:
    both(lambda x: grad(lambda a: Square.apply(a).sum())(x))
    check(lambda x: vmap(Square.apply)(x), rows)
    both(lambda x: vmap(grad(lambda a: Square.apply(a).sum()))(x))
    both(lambda x: jvp(Square.apply, (x,), (x.cos(),)))


class Square(weft.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return x**2

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return 2 * x * gradient

    @staticmethod
    def jvp(ctx: Any, tangent: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return 2 * x * tangent


def test_gradients_by_the_tape_inside() -> None:
    def batched(x: Tensor) -> Any:
        y = elements(x)
        return vmap(lambda v: weft.autograd.grad(y, x, v)[0])(weft.eye(12).reshape(12, 4, 3))

    check(batched, tracked_rows)

    def penalty(a: Tensor) -> Tensor:
        (slope,) = weft.autograd.grad((a * a).sum(), a, create_graph=True)
        return slope.sin().sum()

    both(lambda x: grad(penalty)(x))


def test_function_that_is_one_node_breaks_under_vmap() -> None:
    function = weft.compiler.allow_in_graph(lambda a: a.sin().exp())
    check(lambda x: vmap(function)(x), rows, frames=0, breaks=None)
    check(lambda x: grad(lambda a: function(a).sum())(x), rows, frames=None, breaks=None)


def test_result_that_is_what_was_given() -> None:
    check(lambda x: (x * 1, vmap(lambda a: a)(x)), rows)
    check(lambda x: (x * 1, vjp(lambda a: a, x)[0]), rows)
    check(lambda x: (x * 1, vjp(lambda a: a, x)[0]), tracked_rows, frames=None, breaks=None)


def test_function_of_gradients_that_leaves() -> None:
    check(lambda x: vjp(elements, x), rows, frames=None, breaks=None, after=lambda pair: pair[1](matrix()))
    check(lambda x: linearize(elements, x), rows, frames=None, breaks=None, after=lambda p: p[1](matrix()))


def test_function_of_gradients_from_outside() -> None:
    check(lambda x, g: g(x), lambda: (matrix(), vjp(elements, matrix())[1]), frames=None, breaks=None)


def test_break_inside_runs_the_transform_as_it_is() -> None:
    def inner(a: Tensor) -> Tensor:
        weft.compiler.graph_break()
        return a.sin()

    check(lambda x: vmap(inner)(x * 2) + 1, rows, frames=None, breaks=None)
    check(lambda x: grad(lambda a: inner(a).sum())(x * 2) + 1, rows, frames=None, breaks=None)


# -- modules -------------------------------------------------------------------------------------------------
def test_functional_call() -> None:
    torso = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))

    def f(x: Tensor) -> Any:
        parameters = dict(torso.named_parameters())

        def loss(given: Any, row: Tensor) -> Tensor:
            return functional_call(torso, given, (row,)).sum()

        return grad(loss)(parameters, x), vmap(grad(loss), in_dims=(None, 0))(parameters, x)

    check(f, rows)


def test_ensemble() -> None:
    models = [nn.Linear(3, 2) for _ in range(3)]

    def f(x: Tensor) -> Any:
        parameters, buffers = stack_module_state(models)
        return vmap(lambda p, b: functional_call(models[0], (p, b), (x,)))(parameters, buffers)

    check(f, rows)


def test_training_step_by_transforms() -> None:
    def f(w: Tensor, x: Tensor) -> Any:
        def loss(given: Tensor) -> Tensor:
            return ((x @ given) ** 2).mean()

        for _ in range(3):
            gradient, value = grad_and_value(loss)(w)
            w = w - 0.1 * gradient
        return w, value

    check(f, lambda: (weft.eye(3), matrix()))


# -- forward mode by hand ------------------------------------------------------------------------------------
def test_duals() -> None:
    def f(x: Tensor) -> Any:
        with forward_ad.dual_level():
            moving = forward_ad.make_dual(x, x.cos())
            primal, tangent = forward_ad.unpack_dual(elements(moving))
        return primal, tangent

    both(f)


def test_duals_without_a_block() -> None:
    def f(x: Tensor) -> Any:
        level = forward_ad.enter_dual_level()
        moving = forward_ad.make_dual(x, x.cos(), level=level)
        found = forward_ad.unpack_dual(elements(moving))
        still = forward_ad.unpack_dual(x)
        forward_ad.exit_dual_level()
        return found, still.tangent, moving * 2

    check(f, rows)


def test_break_inside_a_dual_level() -> None:
    def f(x: Tensor) -> Any:
        y = x * 2
        with forward_ad.dual_level():
            moving = forward_ad.make_dual(y, x.cos())
            weft.compiler.graph_break()
            found = forward_ad.unpack_dual(elements(moving))
        return found.primal, found.tangent

    check(f, rows, frames=None, breaks=None)


def test_level_that_stays_open_is_a_break() -> None:
    def f(x: Tensor) -> Any:
        forward_ad.enter_dual_level()
        return x * 2

    with everything_strict(), pytest.raises(weft.compiler.Unsupported):
        weft.compile(f, backend="eager", fullgraph=True)(matrix())
    weft.compile(f, backend="eager")(matrix())
    forward_ad.exit_dual_level()


# -- values --------------------------------------------------------------------------------------------------
def finite_differences(function: Any, x: Any, step: float = 1e-6) -> Any:
    columns = []
    for place in range(x.size):
        move = np.zeros_like(x).reshape(-1)
        move[place] = step
        move = move.reshape(x.shape)
        up, down = (np.asarray(function(weft.tensor(x + s * move)).tolist()) for s in (1, -1))
        columns.append((up - down) / (2 * step))
    return np.stack(columns, -1).reshape(*columns[0].shape, *x.shape)


@pytest.mark.parametrize("transform", [jacrev, jacfwd])
def test_jacobian_against_finite_differences(transform: Any) -> None:
    def inner(a: Tensor) -> Tensor:
        return weft.stack([a[0] * a[1].exp(), (a * a).sum().sqrt(), F.softmax(a, 0)[2]])

    point = np.array([0.3, -0.7, 1.1])
    compiled = weft.compile(lambda x: transform(inner)(x), backend="eager", fullgraph=True)
    found = np.asarray(compiled(weft.tensor(point)).tolist())
    assert np.allclose(found, finite_differences(inner, point), atol=1e-7)


def test_hessian_against_finite_differences() -> None:
    def inner(a: Tensor) -> Tensor:
        return (a.sin() * a.roll(1).exp()).sum() + a.prod()

    point = np.array([0.3, -0.7, 1.1])
    compiled = weft.compile(lambda x: hessian(inner)(x), backend="eager", fullgraph=True)
    found = np.asarray(compiled(weft.tensor(point)).tolist())
    assert np.allclose(found, finite_differences(grad(inner), point), atol=1e-7)


def test_sizes_that_vary() -> None:
    check(
        lambda x: (vmap(grad(number))(x), jacrev(elements)(x[:, 0])),
        lambda: (matrix(4),),
        lambda: (matrix(5),),
        lambda: (matrix(6),),
        lambda: (matrix(7),),
        frames=None,
    )


def test_detached_inside_is_detached_for_further_derivatives() -> None:
    def inner(a: Tensor) -> Tensor:
        b = (a.detach() * a).clone()
        b[0] = a[1]
        return (b.cos() * a.detach()).sum()

    both(lambda x: grad(inner)(x[0]))
    both(lambda x: vmap(grad(inner))(x))


def test_lists_as_indices_inside() -> None:
    both(lambda x: grad(lambda a: (a[[2, 0]][:, 1] * a[:, [0, 2]][1]).sum())(x[:3]))
    both(lambda x: vmap(lambda a: a[[2, 0, 1]])(x))


def test_buffer_that_is_written_while_the_tape_differentiates() -> None:
    buffer = weft.ones(3)

    def inner(a: Tensor) -> Tensor:
        buffer.mul_(0.5)
        return F.softmax(a, 0) * buffer

    def f(x: Tensor) -> Any:
        return functional.hvp(lambda a: inner(a).sum(), x, x)

    for make in (lambda: (matrix()[0].detach(),), lambda: (matrix()[0].detach().requires_grad_(),)):
        check(f, make, state=lambda: buffer.fill_(1) is None, watch=lambda: buffer)
