"""Masked ops against the plain ones on the elements that count."""

from __future__ import annotations

import numpy as np
import pytest

import weft

X = np.random.default_rng(0).standard_normal((3, 6))
MASK = np.array([[1, 0, 1, 1, 0, 1], [1, 1, 1, 1, 1, 1], [0, 0, 1, 0, 1, 0]], bool)


@pytest.mark.parametrize(
    ("name", "fold"),
    [
        ("sum", np.sum), ("prod", np.prod), ("amax", np.max), ("amin", np.min), ("mean", np.mean),
        ("var", lambda v: np.var(v, ddof=1)), ("std", lambda v: np.std(v, ddof=1)),
        ("logsumexp", lambda v: np.log(np.exp(v).sum())), ("norm", np.linalg.norm),
        ("median", lambda v: np.sort(v)[(len(v) - 1) // 2]),
    ],
)  # fmt: skip
def test_rows(name: str, fold: object) -> None:
    x, mask = weft.from_numpy(X), weft.from_numpy(MASK)
    got = getattr(weft.masked, name)(x, dim=1, mask=mask).numpy()
    wanted = [fold(row[kept]) for row, kept in zip(X, MASK, strict=True)]  # type: ignore[operator]
    np.testing.assert_allclose(got, wanted)


def test_lines() -> None:
    x, mask = weft.from_numpy(X), weft.from_numpy(MASK)
    soft = weft.masked.softmax(x, 1, mask=mask).numpy()
    wanted = np.where(MASK, np.exp(X), 0)
    np.testing.assert_allclose(soft, wanted / wanted.sum(1, keepdims=True))
    np.testing.assert_allclose(weft.masked.cumsum(x, 1, mask=mask), np.cumsum(np.where(MASK, X, 0), 1))
    np.testing.assert_allclose(weft.masked.normalize(x, 2.0, 1, mask=mask).norm(dim=1), 1)
    assert weft.masked.argmax(x, 1, mask=mask).dtype is weft.float64


def test_what_does_not_count_gets_no_gradient() -> None:
    x = weft.from_numpy(X.copy()).requires_grad_()
    weft.masked.mean(x, mask=weft.from_numpy(MASK)).backward()
    np.testing.assert_allclose(x.grad.numpy(), MASK / MASK.sum())
    with pytest.raises(ValueError, match="Could not infer output dtype"):
        weft.masked.mean(weft.tensor([1, 2]))


def test_logaddexp_gives_the_dtype_of_its_first_argument() -> None:
    ones = weft.ones(2)
    found = weft.masked.logaddexp(ones.long(), ones, other_mask=weft.tensor([True, False]))
    assert found.dtype is weft.int64 and found.tolist() == [1, 1]
    wide = weft.masked.logaddexp(ones, ones, dtype=weft.float64)
    assert wide.dtype is weft.float64 and wide[0].item() == np.float32(1 + np.log(2))


REFUSED = [
    ("amax", weft.bool, "identity of amax on weft.bool input"),
    ("amin", weft.bool, "identity of amin on weft.bool input"),
    ("argmax", weft.bool, "identity of argmax on weft.bool input"),
    ("logsumexp", weft.bool, "identity of logsumexp on weft.bool input"),
    ("softmax", weft.bool, "identity of amax on weft.bool input"),
    ("softmin", weft.bool, "identity of amin on weft.bool input"),
    ("softmax", weft.int64, "\"softmax_lastdim_kernel_impl\" not implemented for 'Long'"),
    ("log_softmax", weft.uint8, "\"log_softmax_lastdim_kernel_impl\" not implemented for 'Byte'"),
    ("cumsum", weft.bool, "\"cumsum_out_cpu\" not implemented for 'Bool'"),
]


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "native"])
@pytest.mark.parametrize("name, kind, text", REFUSED)
def test_integers_are_refused_where_the_mask_has_no_number_for_them(name, kind, text, backend) -> None:
    def program(x: weft.Tensor, mask: weft.Tensor) -> weft.Tensor:
        return getattr(weft.masked, name)(x, 1, mask=mask)

    run = program if backend == "eager" else weft.compile(program, backend=backend)
    x, mask = weft.tensor([[1, 0, 3], [1, 1, 0]]).to(kind), weft.tensor([[True, False, True], [True] * 3])
    with pytest.raises(NotImplementedError, match=text):
        run(x, mask)


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "native"])
@pytest.mark.parametrize(
    "name, wanted",
    [("cumsum", [[1, 1, 4], [1, 2, 2]]), ("cumprod", [[1, 1, 3], [1, 1, 0]]), ("logsumexp", [3, 1])],
)
def test_results_have_the_dtype_of_integers(name, wanted, backend) -> None:
    def program(x: weft.Tensor, mask: weft.Tensor) -> weft.Tensor:
        return getattr(weft.masked, name)(x, 1, mask=mask)

    run = program if backend == "eager" else weft.compile(program, backend=backend)
    mask = weft.tensor([[True, False, True], [True] * 3])
    found = run(weft.tensor([[1, 0, 3], [1, 1, 0]], dtype=weft.uint8), mask)
    assert found.dtype is weft.uint8 and found.tolist() == wanted


def test_truths_have_no_spread() -> None:
    with pytest.raises(RuntimeError, match="Subtraction, the `-` operator, with a bool tensor"):
        weft.masked.var(weft.tensor([True, False]), 0)


@pytest.mark.parametrize("backend", [None, "native", "aot_eager"])
def test_medians_of_whole_numbers_are_whole_and_of_nothing_are_refused(backend: str | None) -> None:
    median = weft.masked.median

    def run(*args: object, **kwargs: object) -> weft.Tensor:
        if backend is None:
            return median(*args, **kwargs)
        return weft.compile(lambda *a: median(*a, **kwargs), backend=backend)(*args)

    x = weft.tensor([[3, 1, 2], [7, 5, 4]])
    mask = weft.tensor([[True, False, True], [False, True, True]])
    for kind in (weft.int64, weft.uint8, weft.int8):
        found = run(x.to(kind), 1, mask=mask)
        assert found.dtype is kind and found.tolist() == [2, 4]
    assert run(x, 1, dtype=weft.float64).dtype is weft.float64
    assert run(x.bool(), 0).tolist() == [True, True, True]
    assert run(x, (1, 0)).tolist() == run(x, None).tolist() == [3, 1, 2]
    assert run(x.float(), 1, dtype=weft.float64).dtype is weft.float32
    mask = weft.tensor([[False, False, False], [True, True, True]])
    assert run(x.float(), 1, mask=mask).isnan().tolist() == [True, False]
    with pytest.raises(ValueError, match="masked median expects no fully masked out rows"):
        run(x, 1, mask=mask)


@pytest.mark.parametrize("backend", [None, "native"])
def test_variances_have_the_dtype_that_is_asked_for_or_the_inputs(backend: str | None) -> None:
    def spreads(x: weft.Tensor, **options: object) -> tuple[weft.Tensor, weft.Tensor]:
        return weft.masked.var(x, 1, **options), weft.masked.std(x, 1, **options)

    def run(x: weft.Tensor, **options: object) -> tuple[weft.Tensor, weft.Tensor]:
        called = spreads if backend is None else weft.compile(spreads, backend=backend)
        return called(x, **options)

    x = weft.tensor([[1 + 2j, 2, 3], [4j, 4, 8]])
    squared, root = run(x)
    assert squared.dtype is root.dtype is weft.complex64
    assert squared.real.tolist() == pytest.approx([7 / 3, 64 / 3]) and not squared.imag.any()
    squared, root = run(weft.tensor([[3, 1, 2], [7, 5, 4]]), dtype=weft.int64)
    assert squared.dtype is weft.int64 and squared.tolist() == [1, 2]
    assert root.dtype is weft.float32 and root.tolist() == pytest.approx([1, 2**0.5])
