"""Variance, norms, log-sum-exp, median."""

from __future__ import annotations

import statistics
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import weft

INF, NAN = float("inf"), float("nan")


def tensor(values: Any, kind: Any = np.float64) -> Any:
    return weft.from_numpy(np.array(values, kind))


# -- variance ------------------------------------------------------------------------------------------------
def test_overloads_of_std_and_var() -> None:
    values = np.random.default_rng(0).normal(size=(3, 4))
    x = weft.from_numpy(values)
    for name in ("std", "var"):
        ours, theirs = getattr(weft, name), getattr(np, name)
        np.testing.assert_allclose(ours(x).numpy(), theirs(values, ddof=1))
        np.testing.assert_allclose(ours(x, False).numpy(), theirs(values))
        np.testing.assert_allclose(ours(x, unbiased=False).numpy(), theirs(values))
        np.testing.assert_allclose(ours(x, 0, False, True).numpy(), theirs(values, 0, keepdims=True))
        np.testing.assert_allclose(ours(x, (0, 1), correction=2).numpy(), theirs(values, ddof=2))
        np.testing.assert_allclose(
            ours(x, -1, keepdim=True).numpy(), theirs(values, 1, ddof=1, keepdims=True)
        )
        with pytest.raises(TypeError, match="invalid combination of arguments"):
            ours(x, 0, unbiased=True, correction=1)
        both = getattr(weft, f"{name}_mean")(x, 1, correction=0)
        assert type(both) is tuple
        np.testing.assert_allclose(both[0].numpy(), theirs(values, 1))
        np.testing.assert_allclose(both[1].numpy(), values.mean(1))


@pytest.mark.parametrize("name", ["std", "var", "std_mean", "var_mean"])
def test_no_degrees_of_freedom_warns(name: str) -> None:
    text = rf"^{name}\(\): degrees of freedom is <= 0. Correction should be strictly less than"
    with pytest.warns(UserWarning, match=text):
        out = getattr(weft, name)(tensor([[1.0, 2.0]]), 0)
    assert np.isnan((out[0] if isinstance(out, tuple) else out).numpy()).all()
    with pytest.warns(UserWarning, match=text):
        out = getattr(weft, name)(tensor([1.0, 2.0]), correction=3)
    assert (out[0] if isinstance(out, tuple) else out).item() == INF


def test_variance_survives_a_large_mean_and_half_types() -> None:
    values = (np.random.default_rng(0).normal(size=100_000) + 1000).astype(np.float32)
    exact = values.astype(np.float64).var(ddof=1)
    assert weft.from_numpy(values).var().item() == pytest.approx(exact, rel=1e-5)
    half = tensor(np.tile([0.0, 2.0], 50_000), np.float16)
    assert half.var(correction=0).item() == 1.0


@pytest.mark.parametrize("kind", [weft.float32, weft.bfloat16])
def test_squares_of_great_and_of_small_numbers_are_within_range(kind: weft.dtype) -> None:
    """Deviations of 1, -1 and 0 times 2**100: their squares are beyond float32, the result is not."""
    for scale in (2.0**100, 2.0**-100):
        x = (weft.tensor([2.0, 0.0, 1.0]) * scale).to(kind)
        for call in (lambda x: x.std(), weft.compile(lambda x: x.std())):
            given = x.clone().requires_grad_()
            found = call(given)
            assert found.item() == scale
            found.backward()
            assert given.grad.tolist() == [0.5, -0.5, 0.0]
        assert weft.std_mean(x.reshape(3, 1).expand(3, 40), 0)[0].tolist() == [scale] * 40
    assert x.var().item() == 0.0


def test_the_mean_beside_a_variance_is_summed_in_float64() -> None:
    x = weft.full((6,), 1e38, requires_grad=True)
    for call in (weft.var_mean, weft.compile(lambda x: weft.var_mean(x)), weft.std_mean):
        spread, mean = call(x)
        assert spread.item() == 0.0 and mean.item() == np.float32(1e38)
        (gradient,) = weft.autograd.grad(mean, x)
        np.testing.assert_allclose(gradient, np.full(6, 1 / 6), rtol=1e-6)


def test_std_of_complex_numbers_is_that_of_variances_in_their_type() -> None:
    assert weft.std(weft.tensor([1e30 + 0j, 2e30])).item() == INF
    assert weft.std(weft.tensor([1 + 1j, 3 + 3j])).item() == 2.0


def test_std_gradient_of_equal_elements_is_zero() -> None:
    x = tensor([2.0, 2.0, 2.0]).requires_grad_()
    x.std().backward()
    assert x.grad.numpy().tolist() == [0, 0, 0]


def test_statistics_refuse_whole_numbers() -> None:
    with pytest.raises(RuntimeError, match="std and var only support floating point and complex dtypes"):
        tensor([1, 2], np.int64).std()
    with pytest.raises(RuntimeError, match="std_mean only support floating point"):
        weft.std_mean(tensor([1, 2], np.int64))


def test_variance_of_complex_is_real() -> None:
    out = weft.var(tensor([0, 2j], np.complex64))
    assert out.dtype is weft.float32 and out.item() == 2.0


# -- log-sum-exp ---------------------------------------------------------------------------------------------
def test_logsumexp() -> None:
    x = tensor([[1000.0, 1000.0], [-INF, -INF], [INF, 0.0], [INF, -INF], [NAN, 0.0]])
    expected = [1000 + np.log(2), -INF, INF, INF, NAN]
    np.testing.assert_allclose(weft.logsumexp(x, 1).numpy(), expected)
    assert weft.logsumexp(tensor(np.ones((2, 3)), np.int64), (0, 1), True).dtype is weft.float32
    assert weft.logsumexp(tensor(np.ones((0, 3))), 0).numpy().tolist() == [-INF] * 3
    assert weft.special.logsumexp is weft.logsumexp


# -- median --------------------------------------------------------------------------------------------------
def test_median_is_the_lower_of_two() -> None:
    x = tensor([[4.0, 1.0, 3.0, 2.0], [8.0, 5.0, NAN, 6.0]])
    assert x[0].median().item() == 2
    values, indices = x.median(1)
    np.testing.assert_array_equal(values.numpy(), [2, NAN])
    assert indices.numpy().tolist() == [3, 2]
    assert np.isnan(x.median().item())
    assert np.isnan(tensor([]).median().item())
    assert x.median(0, True).values.shape == (1, 4)


def test_median_errors_and_gradient() -> None:
    with pytest.raises(NotImplementedError, match="\"median_cpu\" not implemented for 'Bool'"):
        tensor([True], bool).median()
    with pytest.raises(IndexError, match=r"median\(\): Expected reduction dim 0 to have non-zero size"):
        tensor(np.ones((0, 3))).median(0)
    x = tensor([1.0, 2.0, 2.0, 3.0]).requires_grad_()
    x.median().backward()
    assert x.grad.numpy().tolist() == [0, 0.5, 0.5, 0]


# -- norms ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("order", [2, 1, 0, INF, -INF, 3, 0.5])
@pytest.mark.parametrize("dim", [0, 1])
def test_norms_against_numpy(order: float, dim: int) -> None:
    values = np.random.default_rng(0).normal(size=(3, 4))
    values[1, 2] = 0
    got = weft.norm(weft.from_numpy(values), order, dim)
    np.testing.assert_allclose(got.numpy(), np.linalg.norm(values, order, dim))


def test_forms_of_norm() -> None:
    values = np.random.default_rng(0).normal(size=(3, 4))
    x = weft.from_numpy(values)
    length = np.linalg.norm(values)
    for out in (
        x.norm(),
        x.norm("fro"),
        x.norm(None),
        x.norm(2, (0, 1)),
        x.norm(p=2, dim=()),
        weft.norm(x, 2),
    ):
        np.testing.assert_allclose(out.numpy(), length)
    assert x.norm(2, keepdim=True).shape == (1, 1)
    assert tensor([3.0, 4.0], np.float32).norm(dtype=weft.float64).dtype is weft.float64
    assert tensor([3 + 4j], np.complex64).norm().dtype is weft.float32


def test_norm_errors() -> None:
    with pytest.raises(RuntimeError, match="Expected a floating point or complex tensor as input. Got Long"):
        tensor([1], np.int64).norm()
    with pytest.raises(RuntimeError, match="should be convertible without narrowing"):
        tensor([1.0]).norm(dtype=weft.float32)
    with pytest.raises(RuntimeError, match="cannot compute the inf norm on an empty tensor"):
        tensor([]).norm(INF)


@pytest.mark.parametrize("order", [2, 1, INF, 3, 1.5])
def test_norm_gradient_at_zero_is_zero(order: float) -> None:
    x = tensor([0.0, 0.0]).requires_grad_()
    x.norm(order).backward()
    assert x.grad.numpy().tolist() == [0, 0]


# -- two results of one node ---------------------------------------------------------------------------------
TOGETHER = {
    "VarMeanBackward0": lambda x: weft.var_mean(x, 1),
    "StdMeanBackward0": lambda x: weft.std_mean(x, 1),
    "AminmaxBackward0": lambda x: tuple(weft.aminmax(x, dim=1)),
}
APART = {
    "VarMeanBackward0": lambda x: (x.var(1), x.mean(1)),
    "StdMeanBackward0": lambda x: (x.std(1), x.mean(1)),
    "AminmaxBackward0": lambda x: (x.amin(1), x.amax(1)),
}


def drawn(grad: bool = True) -> Any:
    return weft.from_numpy(np.random.default_rng(5).normal(size=(3, 4))).requires_grad_(grad)


@pytest.mark.parametrize("name", TOGETHER)
def test_statistics_computed_together_are_results_of_one_node(name: str) -> None:
    first, second = TOGETHER[name](drawn())
    assert first.grad_fn is second.grad_fn
    assert first.grad_fn.name() == name
    assert (first.output_nr, second.output_nr) == (0, 1)


@pytest.mark.parametrize("used", [(0,), (1,), (0, 1)])
@pytest.mark.parametrize("name", TOGETHER)
def test_hooks_of_that_node_get_and_give_both_gradients(name: str, used: tuple[int, ...]) -> None:
    seen = []

    def doubled(gradients: Any) -> Any:
        seen.append([None if g is None else g.tolist() for g in gradients])
        return tuple(None if g is None else g * 2 for g in gradients)

    x = drawn()
    results = TOGETHER[name](x)
    results[0].grad_fn.register_prehook(doubled)
    (found,) = weft.autograd.grad(sum(results[i].sum() for i in used), x)
    assert seen == [[[1.0] * 3 if i in used else None for i in (0, 1)]]
    y = drawn()
    (wanted,) = weft.autograd.grad(sum(2 * APART[name](y)[i].sum() for i in used), y)
    np.testing.assert_allclose(found.numpy(), wanted.numpy(), rtol=1e-12)


@pytest.mark.parametrize("name", TOGETHER)
def test_gradients_of_statistics_computed_together(name: str) -> None:
    assert weft.autograd.gradcheck(TOGETHER[name], drawn(), check_forward_ad=True)
    assert weft.autograd.gradgradcheck(TOGETHER[name], drawn())

    def weighed(x: Any) -> Any:
        first, second = TOGETHER[name](x)
        return (first * first * second).sum()

    def slopes(x: Any) -> Any:
        return weft.autograd.grad(weighed(x), x)[0]

    np.testing.assert_allclose(weft.compile(slopes)(drawn()).numpy(), slopes(drawn()).numpy(), rtol=1e-12)
    rows = weft.func.vmap(lambda row: weft.stack(TOGETHER[name](row[None])))(drawn(False))
    whole = weft.stack(TOGETHER[name](drawn(False))).T[:, :, None]
    np.testing.assert_allclose(rows.numpy(), whole.numpy(), rtol=1e-12)


@pytest.mark.parametrize("name", ["var", "std"])
def test_directions_of_complex_variances_are_real(name: str) -> None:
    random = np.random.default_rng(6)
    x, along = (weft.from_numpy(random.normal(size=5) + 1j * random.normal(size=5)) for _ in range(2))
    function = getattr(weft, name)
    _, found = weft.func.jvp(function, (x,), (along,))
    step = 1e-6
    wanted = (function(x + step * along) - function(x - step * along)) / (2 * step)
    assert found.dtype is weft.float64
    np.testing.assert_allclose(found.numpy(), wanted.numpy(), rtol=1e-6)
    _, (together, mean) = weft.func.jvp(getattr(weft, f"{name}_mean"), (x,), (along,))
    np.testing.assert_allclose(together.numpy(), found.numpy())
    np.testing.assert_allclose(mean.numpy(), along.mean().numpy())


@pytest.mark.parametrize("backend", [None, "native", "aot_eager"])
@pytest.mark.parametrize("name", ["std", "var", "std_mean", "var_mean"])
def test_equal_numbers_have_no_variance_and_their_root_no_gradient(name: str, backend: str | None) -> None:
    """Sums of equal float64 are rounded: a mean that is off by one digit gave a root with a gradient."""

    def spread(x: weft.Tensor) -> tuple[weft.Tensor, weft.Tensor]:
        made = getattr(weft, name)(x, 1)
        first = made[0] if isinstance(made, tuple) else made
        return first.detach(), weft.autograd.grad(first.sum(), x)[0]

    run = spread if backend is None else weft.compile(spread, backend=backend)
    for value, count in ((0.1, 6), (0.1, 1000), (1e30, 6), (3e38, 3), (1e-310, 7)):
        found, gradient = run(weft.full((2, count), value, dtype=weft.float64, requires_grad=True))
        assert found.tolist() == [0.0, 0.0]
        if name.startswith("std"):
            assert not gradient.any()


@pytest.mark.parametrize("backend", [None, "native"])
def test_variances_far_from_their_first_number(backend: str | None) -> None:
    values = np.random.default_rng(1).normal(size=(50, 3)) + 1e9
    values[0] = 1e12
    run = weft.var if backend is None else weft.compile(lambda x, *rest: weft.var(x, *rest), backend=backend)
    exact = [statistics.variance([Fraction(each) for each in column]) for column in values.T]
    np.testing.assert_allclose(run(weft.from_numpy(values), 0).numpy(), [float(v) for v in exact], rtol=1e-12)
