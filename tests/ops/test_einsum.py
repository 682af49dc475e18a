"""einsum against NumPy's, its errors and both call forms; products by dimension against their formulas."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import weft
from weft.autograd import gradcheck, gradgradcheck

RANDOM = np.random.default_rng(0)


def tensor(*shape: int, grad: bool = False) -> Any:
    return weft.from_numpy(RANDOM.uniform(-1, 1, shape)).requires_grad_(grad)


CASES = [
    ("ij,jk->ik", (2, 3), (3, 4)),
    ("bhqd,bhkd->bhqk", (2, 3, 4, 5), (2, 3, 6, 5)),
    ("ji,jk->ki", (3, 2), (3, 4)),
    ("i,i->", (3,), (3,)),
    ("i,j->ij", (3,), (2,)),
    ("ij,ij->j", (2, 3), (2, 3)),
    ("...ij,...jk->...ik", (2, 2, 3), (3, 4)),
    ("ii,ij->j", (3, 3), (3, 2)),
    ("abc,cbd->da", (2, 3, 4), (4, 3, 5)),
    ("ab,cd->", (2, 3), (2, 4)),
    ("ijk,k", (2, 3, 4), (4,)),
    ("b...,b...->b...", (2, 3, 4), (2, 3, 4)),
    ("ij,kj->ik", (2, 0), (3, 0)),
    ("Ab,bC", (2, 3), (3, 2)),
    ("ii->i", (3, 3)),
    ("ijij,ik->k", (2, 3, 2, 3), (2, 4)),
    ("ij,jk,kl->il", (2, 3), (3, 4), (4, 5)),
    ("a,b,c->abc", (2,), (3,), (4,)),
    ("...a,ab,b...->...", (3, 2), (2, 4), (4, 3)),
    ("ab,bc,ca->", (2, 3), (3, 4), (4, 2)),
    ("ij->ji", (2, 3)),
    ("ii", (3, 3)),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0])
def test_einsum_equals_numpys(case: tuple[Any, ...]) -> None:
    equation, *shapes = case
    operands = [tensor(*shape) for shape in shapes]
    expected = np.einsum(equation, *[x.numpy() for x in operands])
    out = weft.einsum(equation, *operands)
    assert tuple(out.shape) == expected.shape
    np.testing.assert_allclose(out.numpy(), expected, atol=1e-12)
    if all(x.numel() for x in operands):
        inputs = tuple(x.detach().clone().requires_grad_() for x in operands)
        assert gradcheck(lambda *xs: weft.einsum(equation, *xs), inputs)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_equation_of_two_or_three_operands(data: Any) -> None:
    sizes = dict(zip("abcde", (2, 3, 1, 4, 2), strict=True))
    words = data.draw(st.lists(st.text("abcde", max_size=3), min_size=2, max_size=3))
    used = sorted(set("".join(words)))
    output = "".join(data.draw(st.lists(st.sampled_from(used), unique=True))) if used else ""
    operands = [tensor(*(sizes[letter] for letter in word)) for word in words]
    equation = ",".join(words) + "->" + output
    expected = np.einsum(equation, *[x.numpy() for x in operands])
    np.testing.assert_allclose(weft.einsum(equation, *operands).numpy(), expected, atol=1e-12)


def test_sizes_of_one_broadcast() -> None:
    x, y = tensor(2, 1), tensor(3, 4)
    np.testing.assert_allclose(weft.einsum("ij,jk->ik", x, y).numpy(), x.numpy() * y.numpy().sum(0))
    assert tuple(weft.einsum("bij,bjk->bik", tensor(1, 2, 3), tensor(4, 3, 2)).shape) == (4, 2, 2)


def test_an_ellipsis_missing_from_the_output_is_summed() -> None:
    x, y = tensor(2, 3, 4), tensor(2, 3, 4)
    np.testing.assert_allclose(weft.einsum("b...,b...->b", x, y).numpy(), (x * y).sum((1, 2)).numpy())


def test_lists_of_numbers_and_lists_of_operands() -> None:
    x, y = tensor(2, 3), tensor(3, 4)
    expected = x.numpy() @ y.numpy()
    np.testing.assert_allclose(weft.einsum(x, [0, 1], y, [1, 2], [0, 2]).numpy(), expected)
    np.testing.assert_allclose(weft.einsum(x, [..., 1], y, [1, 2], [..., 2]).numpy(), expected)
    np.testing.assert_allclose(weft.einsum("ij,jk", [x, y]).numpy(), expected)
    np.testing.assert_array_equal(weft.einsum(x, [1, 0]).numpy(), x.numpy().T)


@pytest.mark.parametrize(
    ("equation", "shapes", "text"),
    [
        (
            "ij,jk->ik",
            [(2, 3), (4, 5)],
            "subscript j has size 4 for operand 1 which does not broadcast with previously seen size 3",
        ),
        ("ij,jk", [(2, 3)], "fewer operands were provided than specified in the equation"),
        ("ij", [(2, 3), (3,)], "more operands were provided than specified in the equation"),
        ("ij->ijj", [(2, 3)], "output subscript j appears more than once in the output"),
        ("ij->ik", [(2, 3)], "output subscript k does not appear in the equation for any input operand"),
        (
            "ijk",
            [(2, 3)],
            "(3) does not match the number of dimensions (2) for operand 0 and no ellipsis was given",
        ),
        ("ii->i", [(2, 3)], "subscript i is repeated for operand 0 but the sizes don't match, 3 != 2"),
        (
            "i1->i",
            [(2, 3)],
            "invalid subscript given at index 1 in the equation string, subscripts must be in [a-zA-Z]",
        ),
        ("i.j", [(2, 3)], "found '.' for operand 0 that is not part of any ellipsis"),
        ("...i...", [(2, 3)], "found '.' for operand 0 for which an ellipsis was already found"),
    ],
)
def test_einsum_errors(equation: str, shapes: list[tuple[int, ...]], text: str) -> None:
    with pytest.raises(RuntimeError) as raised:
        weft.einsum(equation, *[tensor(*shape) for shape in shapes])
    assert str(raised.value).startswith("einsum(): ")
    assert text in str(raised.value)


def test_einsum_without_operands() -> None:
    with pytest.raises(ValueError, match="must specify the equation string and at least one operand"):
        weft.einsum("ij")
    with pytest.raises(ValueError, match=r"not within the valid range \[0, 52\)"):
        weft.einsum(tensor(2, 3), [0, 60])


def test_einsum_to_second_order() -> None:
    inputs = tensor(2, 3, grad=True), tensor(3, 2, grad=True), tensor(2, 2, grad=True)
    assert gradgradcheck(lambda *xs: weft.einsum("ij,jk,kk->ik", *xs), inputs)


def test_tensordot() -> None:
    x, y = tensor(2, 3, 4), tensor(4, 2, 5)
    expected = np.tensordot(x.numpy(), y.numpy(), ([2, 0], [0, 1]))
    np.testing.assert_allclose(weft.tensordot(x, y, dims=([2, 0], [0, 1])).numpy(), expected)
    np.testing.assert_allclose(weft.tensordot(tensor(2, 1), weft.ones(3, 4).double(), dims=1).shape, (2, 4))
    with pytest.raises(
        RuntimeError, match="contracted dimensions need to match, but first has size 3 in dim -1"
    ):
        weft.tensordot(tensor(2, 3), tensor(4, 3), dims=1)
    with pytest.raises(RuntimeError, match="both dimension lists should have same length"):
        weft.tensordot(tensor(2, 3), tensor(3, 2), dims=([1, 0], [0]))
    with pytest.raises(RuntimeError, match="dims >= 0"):
        weft.tensordot(tensor(2, 3), tensor(3, 2), dims=-1)


def test_inner_outer_kron() -> None:
    x, y = tensor(2, 3), tensor(4, 3)
    np.testing.assert_allclose(weft.inner(x, y).numpy(), np.inner(x.numpy(), y.numpy()))
    np.testing.assert_allclose(weft.kron(x, y).numpy(), np.kron(x.numpy(), y.numpy()))
    assert weft.inner(weft.ones(()), weft.ones(2, 3).double()).dtype is weft.float64
    np.testing.assert_allclose(weft.outer(x[0], y[0]).numpy(), np.outer(x.numpy()[0], y.numpy()[0]))
    with pytest.raises(RuntimeError, match="outer: Expected 1-D argument vec2, but got 2-D"):
        weft.outer(x[0], y)


def test_cross_broadcasts_and_finds_its_dimension() -> None:
    x, y = tensor(1, 3), tensor(4, 3)
    np.testing.assert_allclose(weft.linalg.cross(x, y).numpy(), np.cross(x.numpy(), y.numpy()))
    with pytest.warns(UserWarning, match="without specifying the dim"):
        out = weft.cross(tensor(3, 3), tensor(3, 3))
    assert tuple(out.shape) == (3, 3)
    with pytest.raises(RuntimeError, match="inputs dimension -1 must have length 3. Got 4 and 4"):
        weft.linalg.cross(tensor(2, 4), tensor(2, 4))


def test_trace_sums_whole_numbers_as_int64() -> None:
    assert weft.trace(weft.ones(3, 4, dtype=weft.int8)).dtype is weft.int64
    x = tensor(3, 2, grad=True)
    weft.trace(x).backward()
    np.testing.assert_array_equal(x.grad.numpy(), np.eye(3, 2))


def test_bilinear() -> None:
    x, y, w, b = tensor(2, 3), tensor(2, 4), tensor(5, 3, 4), tensor(5)
    expected = np.einsum("bi,oij,bj->bo", x.numpy(), w.numpy(), y.numpy()) + b.numpy()
    np.testing.assert_allclose(weft.nn.functional.bilinear(x, y, w, b).numpy(), expected)
    with pytest.raises(RuntimeError, match="input2 size does not match weight size: got 4 but expected 3"):
        weft.nn.functional.bilinear(x, y, tensor(5, 3, 3))


def test_einsum_that_does_nothing_gives_a_view() -> None:
    x = weft.ones(2, requires_grad=True)
    out = weft.einsum("i->i", x)
    assert out is not x and out._is_view() and out.grad_fn is not None
