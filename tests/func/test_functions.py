"""Custom Functions inside transforms: their own rules, and generated ones."""

from __future__ import annotations

from typing import Any

import pytest

import weft
from weft.autograd import Function
from weft.func import grad, hessian, jacfwd, jacrev, jvp, vmap

X = weft.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], dtype=weft.float64)
Y = weft.tensor([1.0, 2.0], dtype=weft.float64)


class Generated(weft.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x: Any, y: Any, power: int) -> Any:
        return x.sin() * y, x**power

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        x, y, ctx.power = inputs
        ctx.save_for_backward(x, y)
        ctx.save_for_forward(x, y)

    @staticmethod
    def backward(ctx: Any, g: Any, h: Any) -> Any:
        x, y = ctx.saved_tensors
        return g * x.cos() * y + h * ctx.power * x ** (ctx.power - 1), g * x.sin(), None

    @staticmethod
    def jvp(ctx: Any, tx: Any, ty: Any, _power: Any) -> Any:
        x, y = ctx.saved_tensors
        return tx * x.cos() * y + ty * x.sin(), tx * ctx.power * x ** (ctx.power - 1)


class Own(weft.autograd.Function):
    seen: list[Any] = []

    @staticmethod
    def forward(x: Any) -> Any:
        return x**3

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(inputs[0])

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * 3 * ctx.saved_tensors[0] ** 2

    @staticmethod
    def vmap(info: Any, in_dims: Any, x: Any) -> Any:
        Own.seen.append((info.batch_size, info.randomness, in_dims, tuple(x.shape)))
        return Own.apply(x), in_dims[0]


def custom(x: Any, y: Any) -> Any:
    first, second = Generated.apply(x, y, 3)
    return first.sum() + second.sum()


def plain(x: Any, y: Any) -> Any:
    return (x.sin() * y).sum() + (x**3).sum()


TRANSFORMS: dict[str, Any] = {
    "vmap": lambda f: vmap(f, in_dims=(0, None))(X, Y),
    "other dims": lambda f: vmap(f, in_dims=(1, 0))(X, Y),
    "vmap of grad": lambda f: vmap(grad(f, argnums=(0, 1)), in_dims=(0, None))(X, Y),
    "grad of vmap": lambda f: grad(lambda x, y: vmap(f, in_dims=(0, None))(x, y).sum(), argnums=(0, 1))(X, Y),
    "jvp": lambda f: jvp(f, (X[0], Y), (Y, Y)),
    "jvp of one": lambda f: jvp(lambda y: f(X[0], y), (Y,), (Y,)),
    "jacobians": lambda f: (jacfwd(f, argnums=(0, 1))(X[0], Y), jacrev(f, argnums=(0, 1))(X[0], Y)),
    "hessian": lambda f: hessian(f)(X[0], Y),
    "jvp of vmap": lambda f: jvp(lambda x, y: vmap(f, in_dims=(0, None))(x, y), (X, Y), (X, Y)),
    "vmap of jvp": lambda f: vmap(lambda x: jvp(lambda a: f(a, Y), (x,), (Y,)))(X),
}


def flat(value: Any) -> list[Any]:
    return [leaf for item in value for leaf in flat(item)] if isinstance(value, tuple) else [value]


@pytest.mark.parametrize("name", TRANSFORMS)
def test_generated_rule_agrees_with_plain_ops(name: str) -> None:
    for found, expected in zip(flat(TRANSFORMS[name](custom)), flat(TRANSFORMS[name](plain)), strict=True):
        assert weft.allclose(found, expected)


def test_own_rule_sees_the_whole_batch() -> None:
    Own.seen.clear()
    assert weft.allclose(vmap(Own.apply, in_dims=1, out_dims=1)(X), X**3)
    assert Own.seen == [(2, "error", (1,), (3, 2))]
    assert weft.allclose(vmap(grad(lambda x: Own.apply(x).sum()))(X), 3 * X**2)


def test_refusals() -> None:
    class Missing(weft.autograd.Function):
        forward = Own.forward
        setup_context = Own.setup_context
        backward = Own.backward

    with pytest.raises(
        RuntimeError, match="You tried to vmap over Missing, but it does not have vmap support."
    ):
        vmap(Missing.apply)(X)
    with pytest.raises(
        NotImplementedError, match="You must implement the jvp function for custom autograd.Func"
    ):
        jvp(Missing.apply, (X,), (X,))


def test_generated_rules_within_generated_rules() -> None:
    def plain(x: Any, y: Any) -> Any:
        return x.sin() * y, x**3

    def custom(x: Any, y: Any) -> Any:
        return Generated.apply(x, y, 3)

    def results(function: Any, dims: tuple[Any, ...]) -> list[Any]:
        inner = vmap(function, in_dims=(0, None))
        outer = vmap(inner, in_dims=dims)
        through = grad(lambda x: sum(r.sum() for r in outer(x, Y)))(cube)
        within = vmap(grad(lambda x: sum(r.sum() for r in inner(x, Y))))(cube)
        return [*outer(cube, Y), through, within]

    cube = weft.arange(12.0, dtype=weft.float64).reshape(2, 3, 2) / 5
    for dims in ((0, None), (1, None), (2, 0)):
        ours, theirs = results(custom, dims), results(plain, dims)
        assert all(weft.allclose(a, b) for a, b in zip(ours, theirs, strict=True))


# -- what jvp must do as forward does ------------------------------------------------------------------------
def moved(cls: Any, x: Any, tangent: Any) -> Any:
    with weft.autograd.forward_ad.dual_level():
        dual = weft.autograd.forward_ad.make_dual(x, tangent)
        out = cls.apply(dual)
        return out is dual, weft.autograd.forward_ad.unpack_dual(out).tangent


@pytest.mark.parametrize("tracked", [False, True])
def test_an_input_that_is_written_to_moves_in_place(tracked: bool) -> None:
    class Twice(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.mark_dirty(x)
            return x.mul_(2)

        @staticmethod
        def backward(ctx: Any, gradient: Any) -> Any:
            return gradient * 2

        @staticmethod
        def jvp(ctx: Any, t: Any) -> Any:
            return t.mul_(2) if in_place else t * 2

    x = weft.ones(3, requires_grad=tracked)
    in_place = True
    given = x.clone()
    same, tangent = moved(Twice, given, weft.ones(3))
    assert same and tangent.tolist() == [2.0] * 3 and given.tolist() == [2.0] * 3
    in_place = False
    with pytest.raises(RuntimeError, match="must modify the corresponding gradient inplace"):
        moved(Twice, x.clone(), weft.ones(3))


def test_views_move_as_views_and_constants_do_not() -> None:
    class Half(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x[:2]

        @staticmethod
        def jvp(ctx: Any, t: Any) -> Any:
            return t[:2] if as_view else t[:2].clone()

    as_view = True
    assert moved(Half, weft.ones(4), weft.arange(4.0))[1].tolist() == [0.0, 1.0]
    as_view = False
    with pytest.raises(RuntimeError, match="jvp is not returning a view of the given input"):
        moved(Half, weft.ones(4), weft.arange(4.0))

    class Constant(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            out = x.clone()
            ctx.mark_non_differentiable(out)
            return out

        @staticmethod
        def jvp(ctx: Any, t: Any) -> Any:
            return t.clone()

    with pytest.raises(RuntimeError, match="You should return None at that position instead"):
        moved(Constant, weft.ones(4), weft.ones(4))


def test_jvp_reads_what_was_saved_for_forward() -> None:
    class Saves(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x.clone()

        @staticmethod
        def jvp(ctx: Any, t: Any) -> Any:
            assert ctx.saved_tensors == ()
            return t.clone()

    assert moved(Saves, weft.ones(2), weft.ones(2))[1].tolist() == [1.0, 1.0]


def squared(rule: Any) -> Any:
    class Squared(weft.autograd.Function):
        @staticmethod
        def forward(x: Any, *_rest: Any) -> Any:
            return x * x

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            pass

        @staticmethod
        def vmap(info: Any, in_dims: Any, x: Any, *rest: Any) -> Any:
            return rule(in_dims, x)

    return Squared


def test_a_vmap_of_its_own_gives_results_and_where_they_carry_the_batch() -> None:
    x = weft.ones(3)
    with pytest.raises(RuntimeError, match=r"to have two returns, .* Got a <class .*Tensor'> instead"):
        weft.func.vmap(squared(lambda dims, x: x).apply)(x)
    with pytest.raises(RuntimeError, match=r"two returns, .* Got 3 returns instead"):
        weft.func.vmap(squared(lambda dims, x: (x, 0, 0)).apply)(x)
    text = r"(?s)an incompatible \(output, out_dims\) tuple. Expected out_dims=\(0, 0\) .*structure \*\."
    with pytest.raises(RuntimeError, match=text):
        weft.func.vmap(squared(lambda dims, x: (x, (0, 0))).apply)(x)


def test_a_vmap_of_its_own_is_told_dims_in_the_structure_of_the_arguments() -> None:
    seen = []

    def rule(dims: Any, x: Any) -> Any:
        seen.append(dims)
        return x, 0

    x, y = weft.ones(2), weft.ones(3, 2)
    weft.func.vmap(squared(rule).apply, in_dims=(0, [0, 1], None))(x, [x, y], 5)
    assert seen == [(0, [0, 1], None)] and type(seen[0][1]) is list
