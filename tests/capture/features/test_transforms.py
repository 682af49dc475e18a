"""Function transforms inside captured code: one graph, nothing but ops in it, whatever the nesting."""

from __future__ import annotations

import functools
from collections import namedtuple
from typing import Any

import numpy as np
import pytest

import weft
from tests.capture.features.harness import check, everything_strict
from weft import nn
from weft.autograd import forward_ad, functional
from weft.core.trees import flatten
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
from weft.testing import CompileCounter, EagerAndRecordGraphs

Tensor = weft.Tensor
F = nn.functional


def matrix(rows: int = 4, columns: int = 3, requires_grad: bool = False) -> Tensor:
    made = weft.arange(rows * columns, dtype=weft.float32).reshape(rows, columns) / 7 - 0.6
    return made.requires_grad_(requires_grad)


def rows() -> tuple[Tensor]:
    return (matrix(),)


def tracked_rows() -> tuple[Tensor]:
    return (matrix(requires_grad=True),)


def two() -> tuple[Tensor, Tensor]:
    return matrix(), matrix().cos()


def number(x: Tensor) -> Tensor:
    return (x.sin() * 2).sum()


def elements(x: Tensor) -> Tensor:
    return x.sin() * x


def both(function: Any, **options: Any) -> None:
    """Checks on plain tensors, and on ones whose gradients flow on, which are compared too."""
    check(function, rows, **options)
    check(function, tracked_rows, **options)
    x, y = *tracked_rows(), *tracked_rows()
    pull(function(x))
    pull(weft.compile(function, backend="eager", fullgraph=True)(y))
    assert (x.grad is None and y.grad is None) or weft.allclose(x.grad, y.grad, rtol=1e-4, atol=1e-5)


def pull(result: Any) -> None:
    leaves: list[Any] = []

    def visit(value: Any) -> None:
        if isinstance(value, Tensor):
            leaves.append(value)
        elif isinstance(value, dict):
            visit(list(value.values()))
        elif isinstance(value, (tuple, list)):
            for item in value:
                visit(item)

    visit(result)
    live = [leaf.cos().sum() for leaf in leaves if leaf.requires_grad]
    if live:
        sum(live).backward()


TRANSFORMED = {
    "grad": lambda x: grad(number)(x),
    "grad_and_value": lambda x: grad_and_value(number)(x),
    "grad of grad": lambda x: grad(lambda y: grad(number)(y).sum())(x),
    "third derivative": lambda x: grad(grad(grad(lambda y: (y**4).sum())))(x[0, 0]),
    "vmap": lambda x: vmap(elements)(x),
    "weft.vmap": lambda x: weft.vmap(elements)(x),
    "vmap of vmap": lambda x: vmap(vmap(lambda y: y.exp() * 2))(x),
    "vmap of grad": lambda x: vmap(grad(number))(x),
    "grad of vmap": lambda x: grad(lambda y: vmap(elements)(y).sum())(x),
    "vmap of jacrev": lambda x: vmap(jacrev(elements))(x),
    "vmap of hessian": lambda x: vmap(hessian(number))(x),
    "jvp": lambda x: jvp(elements, (x,), (x * 2,)),
    "jvp of jvp": lambda x: jvp(lambda y: jvp(elements, (y,), (x,))[1], (x,), (x.cos(),)),
    "jvp of grad": lambda x: jvp(grad(number), (x,), (x.cos(),)),
    "grad of jvp": lambda x: grad(lambda y: jvp(elements, (y,), (x,))[1].sum())(x),
    "vjp": lambda x: vjp(elements, x)[1](x.cos()),
    "vjp with its result": lambda x: (lambda pair: (pair[0], pair[1](x)))(vjp(elements, x)),
    "vmap of vjp": lambda x: vmap(lambda y: vjp(elements, y)[1](y))(x),
    "linearize": lambda x: (lambda pair: (pair[0], pair[1](x), pair[1](x.cos())))(linearize(elements, x)),
    "jacrev": lambda x: jacrev(elements)(x),
    "jacfwd": lambda x: jacfwd(elements)(x),
    "hessian": lambda x: hessian(number)(x[0]),
    "jacrev of jacfwd": lambda x: jacrev(jacfwd(number))(x[0]),
    "jacfwd of jacfwd of jacrev": lambda x: jacfwd(jacfwd(jacrev(number)))(x[0]),
    "functional.jacobian": lambda x: functional.jacobian(elements, x[0]),
    "functional.jacobian at once": lambda x: functional.jacobian(elements, x, vectorize=True),
    "functional.jacobian forward": lambda x: functional.jacobian(
        elements, x, vectorize=True, strategy="forward-mode"
    ),
    "functional.jacobian to go on from": lambda x: functional.jacobian(elements, x[0], create_graph=True),
    "functional.hessian": lambda x: functional.hessian(number, x[0]),
    "functional.vjp": lambda x: functional.vjp(elements, x, x),
    "functional.jvp": lambda x: functional.jvp(elements, x, x),
    "functional.hvp": lambda x: functional.hvp(number, x, x),
    "functional.vhp": lambda x: functional.vhp(number, x, x),
}


@pytest.mark.parametrize("name", TRANSFORMED)
def test_one_graph(name: str) -> None:
    both(TRANSFORMED[name])


@pytest.mark.parametrize("name", ["grad", "jvp", "vmap of grad", "hessian", "vjp"])
def test_without_gradients_around(name: str) -> None:
    function = TRANSFORMED[name]

    def quiet(x: Tensor) -> Any:
        with weft.no_grad():
            return function(x), x * 2

    both(quiet)


def test_graph_holds_ops_alone() -> None:
    graphs = EagerAndRecordGraphs()
    compiled = weft.compile(vmap_of_grad, backend=graphs, fullgraph=True)
    compiled(matrix())
    (module,) = graphs.graphs
    names = [node.name for node in module.graph.nodes if node.op.startswith("call")]
    assert "sin" in " ".join(names) and "cos" in names
    assert not [name for name in names if "vmap" in name or "grad_" in name.replace("_set_grad_enabled", "")]


def vmap_of_grad(x: Tensor) -> Tensor:
    return vmap(grad(number))(x)


# -- arguments of transforms ---------------------------------------------------------------------------------
def test_in_dims_and_out_dims() -> None:
    def f(x: Tensor, y: Tensor) -> Any:
        first = vmap(lambda a, b: a * b, in_dims=(1, 0), out_dims=1)(x, y.t())
        second = vmap(lambda a, b: (a + b, a), in_dims=(0, None), out_dims=(0, 1))(x, y[0])
        third = vmap(lambda d: d["a"] * d["b"][0], in_dims=({"a": 0, "b": (None,)},))({"a": x, "b": (y[0],)})
        fourth = vmap(lambda a: (a.sum(), weft.ones(3)), out_dims=(0, None))(x)
        return first, second, third, fourth

    check(f, two)


def test_chunks() -> None:
    both(lambda x: vmap(elements, chunk_size=3)(x))
    both(lambda x: jacrev(elements, chunk_size=2)(x))


def test_argnums() -> None:
    def f(x: Tensor, y: Tensor) -> Any:
        def loss(a: Tensor, b: Tensor, scale: float) -> Tensor:
            return (a * b.sin() * scale).sum()

        return (
            grad(loss, argnums=1)(x, y, 2.0),
            grad(loss, argnums=(0, 1))(x, y, 3.0),
            grad_and_value(loss, argnums=(1,))(x, y, 4.0),
            jacrev(lambda a, b: a * b, argnums=(0, 1))(x[0], y[0]),
            jacfwd(lambda a, b: a * b, argnums=1)(x[0], y[0]),
            hessian(lambda a, b: (a * b).sin().sum(), argnums=(0, 1))(x[0], y[0]),
        )

    check(f, two)


def test_aux() -> None:
    def f(x: Tensor) -> Any:
        def loss(a: Tensor) -> Any:
            y = a.sin()
            return y.sum(), {"y": y, "twice": [a * 2]}

        def pair(a: Tensor) -> Any:
            return a.sin(), a * 2

        return (
            grad(loss, has_aux=True)(x),
            grad_and_value(loss, has_aux=True)(x),
            jacrev(pair, has_aux=True)(x[0]),
            jacfwd(pair, has_aux=True)(x[0]),
            vjp(pair, x, has_aux=True)[2],
            jvp(pair, (x,), (x,), has_aux=True),
        )

    both(f)


def test_trees() -> None:
    Pair = namedtuple("Pair", "left right")

    def loss(weights: Any, x: Tensor) -> Tensor:
        return (x @ weights["w"] + weights["rest"][0]).sin().sum()

    def f(w: Tensor, x: Tensor) -> Any:
        weights = {"w": w, "rest": [x.sum(0)]}
        pulled, pull = vjp(lambda p: {"a": p[0] * p[1], "b": (p[0],)}, (x, x.cos()))
        named = vmap(lambda pair: pair.left * pair.right, in_dims=(Pair(0, 0),))(Pair(x, x.sin()))
        return grad(loss)(weights, x), pull({"a": x, "b": (x,)}), named, pulled

    check(f, lambda: (weft.eye(3), matrix()))


def test_keywords() -> None:
    def loss(x: Tensor, *, scale: Tensor, power: int = 1) -> Tensor:
        return ((x * scale) ** power).sum()

    both(lambda x: grad(loss)(x, scale=x[0], power=2))
    both(lambda x: vmap(lambda a, *, shift: a + shift)(x, shift=x[0]))


@pytest.mark.parametrize("randomness", ["different", "same"])
def test_random_numbers(randomness: str) -> None:
    def f(x: Tensor) -> Any:
        drawn = vmap(lambda a: (a + weft.rand(3), weft.randn(2)), randomness=randomness)(x)
        more = vmap(lambda a: weft.rand_like(a), randomness=randomness)(x)
        return drawn, more, weft.rand(2)

    check(f, rows, state=lambda: weft.manual_seed(7) and None)


def test_dropout_under_vmap() -> None:
    check(
        lambda x: vmap(lambda a: F.dropout(a, 0.5), randomness="different")(x),
        rows,
        state=lambda: weft.manual_seed(7) and None,
    )


def test_refused_random_numbers() -> None:
    check(lambda x: vmap(lambda a: a + weft.rand(3))(x), rows, frames=0, breaks=None, raises=RuntimeError)


# -- where transforms and functions come from ----------------------------------------------------------------
mapped_outside = vmap(elements)
differentiated_outside = grad(number)
partial_outside = functools.partial(vmap, in_dims=1, out_dims=1)
weight = weft.tensor([1.0, -2.0, 0.5])


@vmap
def decorated(x: Tensor) -> Tensor:
    return x * weight + x.sum()


def test_transforms_made_outside() -> None:
    def f(x: Tensor) -> Any:
        return mapped_outside(x), differentiated_outside(x), partial_outside(elements)(x), decorated(x)

    both(f)


def test_transform_as_argument_made_anew_each_time() -> None:
    check(lambda x, g: g(x), lambda: (matrix(), vmap(elements)))
    check(lambda x, g: vmap(g)(x), lambda: (matrix(), grad(number)))


def test_other_function_in_a_transform_is_another_graph() -> None:
    check(
        lambda x, g: g(x),
        lambda: (matrix(), vmap(elements)),
        lambda: (matrix(), vmap(number)),
        lambda: (matrix(), vmap(elements, out_dims=1)),
        lambda: (matrix(), vmap(elements)),
        frames=3,
    )


def test_modules_methods_builtins_and_partials_are_transformed() -> None:
    linear = nn.Linear(3, 2)

    class Scaled:
        def __init__(self) -> None:
            self.factor = 3.0

        def scale(self, x: Tensor) -> Tensor:
            return x * self.factor

        def __call__(self, x: Tensor) -> Tensor:
            return x / self.factor

    scaled = Scaled()

    def f(x: Tensor) -> Any:
        return (
            vmap(linear)(x),
            vmap(scaled.scale)(x),
            vmap(scaled)(x),
            vmap(weft.sin)(x),
            vmap(functools.partial(weft.mul, 2))(x),
            jacrev(weft.sin)(x[0]),
            grad(weft.sum)(x),
        )

    both(f)


def test_closure_that_changes_is_noticed() -> None:
    scale = 2.0

    def set_scale(value: float) -> None:
        nonlocal scale
        scale = value

    def f(x: Tensor) -> Tensor:
        return vmap(lambda a: a * scale)(x)

    with everything_strict():
        counter = CompileCounter()
        compiled = weft.compile(f, backend=counter, fullgraph=True)
        first = compiled(matrix())
        set_scale(5.0)
        second = compiled(matrix())
        compiled(matrix())
    assert weft.equal(first, matrix() * 2) and weft.equal(second, matrix() * 5)
    assert counter.frame_count == 2


def test_global_tensor_that_changes_is_an_input() -> None:
    global weight
    before = weight
    with everything_strict():
        counter = CompileCounter()
        compiled = weft.compile(lambda x: decorated(x), backend=counter, fullgraph=True)
        compiled(matrix())
        weight = weft.tensor([3.0, 3.0, 3.0])
        try:
            assert weft.equal(compiled(matrix()), decorated(matrix()))
        finally:
            weight = before
    assert counter.frame_count == 1


def test_transform_that_leaves_the_compiled_function() -> None:
    def f(x: Tensor) -> Any:
        shift = x.sum()
        return vmap(lambda a: a + shift), grad(number), x * 2

    check(f, rows, after=lambda result: (result[0](matrix()), result[1](matrix())))


def test_compiled_transform() -> None:
    for made in (vmap(elements), grad(number), jacrev(elements), jacfwd(elements), hessian(number)):
        with everything_strict():
            counter = CompileCounter()
            compiled = weft.compile(made, backend=counter, fullgraph=True)
            for _ in range(2):
                assert weft.allclose(compiled(matrix()[0]), made(matrix()[0]))
            assert counter.frame_count == 1


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


def test_second_call_compiles_nothing() -> None:
    check(TRANSFORMED["hessian"], rows, rows, rows, frames=1)


@pytest.mark.parametrize("name", TRANSFORMED)
def test_differentiated_ahead_of_time(name: str) -> None:
    function = TRANSFORMED[name]
    compiled = weft.compile(function, backend="aot_eager", fullgraph=True)
    for make in (rows, tracked_rows):
        for _ in range(2):
            (x,), (y,) = make(), make()
            expected, actual = function(x), compiled(y)
            for a, b in zip(flatten(expected)[0], flatten(actual)[0], strict=True):
                assert weft.allclose(a, b, rtol=1e-4, atol=1e-6) and a.requires_grad == b.requires_grad
            pull(expected)
            pull(actual)
            same = x.grad is None and y.grad is None
            assert same or weft.allclose(x.grad, y.grad, rtol=1e-4, atol=1e-5)


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
