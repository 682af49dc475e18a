"""Foreach forms: every operand kind, in place and not, against the plain ops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft
from weft.ops import foreach


def tensors(*sizes: int, start: float = 1.0) -> list[Any]:
    return [weft.from_numpy(np.linspace(start, start + 1, n)) for n in sizes]


def lists(values: Any) -> list[Any]:
    return [v.numpy().tolist() for v in values]


@pytest.mark.parametrize("name", foreach.UNARY)
def test_unary(name: str) -> None:
    xs = tensors(2, 3, start=-0.9 if name == "atan" else 0.0 if name == "acos" else 0.5)
    if name in ("acos", "asin"):
        xs = [x * 0.5 for x in xs]
    expected = [getattr(weft, name)(x) for x in xs]
    got = getattr(weft, f"_foreach_{name}")(xs)
    assert type(got) is tuple
    assert lists(got) == lists(expected)
    assert getattr(weft, f"_foreach_{name}_")(xs) is xs
    assert lists(xs) == lists(expected)


@pytest.mark.parametrize("name", ["add", "sub", "mul", "div", "maximum", "minimum", "clamp_min", "clamp_max"])
@pytest.mark.parametrize("other", [2, 1.25, [0.5, 1.5], "tensors"])
def test_binary(name: str, other: Any) -> None:
    xs = tensors(2, 3)
    given = tensors(2, 3, start=1.3) if other == "tensors" else other
    each = given if isinstance(given, list) else [given] * 2
    wanted = {"maximum": np.maximum, "minimum": np.minimum, "clamp_min": np.maximum, "clamp_max": np.minimum}
    plain: Any = (
        wanted.get(name) or {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide}[name]
    )
    expected = [plain(x.numpy(), getattr(v, "array", v)).tolist() for x, v in zip(xs, each, strict=True)]
    assert lists(getattr(weft, f"_foreach_{name}")(xs, given)) == expected
    getattr(weft, f"_foreach_{name}_")(xs, given)
    assert lists(xs) == expected


def test_alpha_tensor_and_keywords() -> None:
    xs = tensors(2, 3)
    assert lists(weft._foreach_add(xs, xs, alpha=-1)) == [[0, 0], [0, 0, 0]]
    weft._foreach_add_(xs, xs, alpha=1)
    assert lists(xs) == [[2, 4], [2, 3, 4]]
    half = weft.from_numpy(np.array(0.5))
    assert lists(weft._foreach_mul(xs, half)) == [[1, 2], [1, 1.5, 2]]
    assert lists(weft._foreach_add(xs, scalar=1)) == [[3, 5], [3, 4, 5]]
    assert lists(weft._foreach_sub(xs, scalars=[1, 2])) == [[1, 3], [0, 1, 2]]


@pytest.mark.parametrize("name", ["addcmul", "addcdiv"])
@pytest.mark.parametrize("value", [2, [1, 3], "packed"])
def test_ternary(name: str, value: Any) -> None:
    xs, ys, zs = tensors(2, 3), tensors(2, 3, start=3), tensors(2, 3, start=0.5)
    given = weft.from_numpy(np.array([1.0, 3.0])) if value == "packed" else value
    each = [2, 2] if value == 2 else [1, 3]
    plain = getattr(weft, name)
    expected = [plain(x, y, z, value=v) for x, y, z, v in zip(xs, ys, zs, each, strict=True)]
    assert lists(getattr(weft, f"_foreach_{name}")(xs, ys, zs, given)) == lists(expected)
    getattr(weft, f"_foreach_{name}_")(xs, ys, zs, given)
    assert lists(xs) == lists(expected)


@pytest.mark.parametrize("weight", [0.5, [0.5, 0.5], "tensors"])
def test_lerp(weight: Any) -> None:
    xs, ys = tensors(2, 3), tensors(2, 3, start=2)
    given = [weft.from_numpy(np.full(n, 0.5)) for n in (2, 3)] if weight == "tensors" else weight
    expected = [[1.5, 2.5], [1.5, 2, 2.5]]
    assert lists(weft._foreach_lerp(xs, ys, given)) == expected
    assert weft._foreach_lerp_(xs, ys, given) is xs
    assert lists(xs) == expected


def test_powers() -> None:
    xs = tensors(2)
    assert lists(weft._foreach_pow(xs, 2)) == [[1, 4]]
    assert lists(weft._foreach_pow(xs, [3])) == [[1, 8]]
    assert lists(weft._foreach_pow(2, xs)) == [[2, 4]]
    weft._foreach_pow_(xs, xs)
    assert lists(xs) == [[1, 4]]


def test_copies_zeros_and_folds() -> None:
    xs = tensors(2, 3)
    assert lists(weft._foreach_norm(xs)) == [weft.norm(x).item() for x in xs]
    assert lists(weft._foreach_norm(xs, 1)) == [3, 4.5]
    assert lists(weft._foreach_max(xs)) == [2, 2]
    weft._foreach_zero_(xs)
    assert lists(xs) == [[0, 0], [0, 0, 0]]
    weft._foreach_copy_(
        xs, [weft.from_numpy(np.array([1], np.int32)), weft.from_numpy(np.ones(3, np.float32))]
    )
    assert lists(xs) == [[1, 1], [1, 1, 1]]


def test_gradients_flow_through() -> None:
    x, y = (t.requires_grad_() for t in tensors(2, 3))
    first, second = weft._foreach_mul([x, y], [x, 3.0 * y])
    (first.sum() + second.sum()).backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * x.detach().numpy())
    np.testing.assert_allclose(y.grad.numpy(), 6 * y.detach().numpy())
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        weft._foreach_add_([x], 1)


def test_errors() -> None:
    xs = tensors(2, 3)
    with pytest.raises(RuntimeError, match="Tensor list must have at least one tensor."):
        weft._foreach_add([], 1)
    with pytest.raises(RuntimeError, match="must have the same number of tensors, got 2 and 1"):
        weft._foreach_add(xs, xs[:1])
    with pytest.raises(RuntimeError, match="Tensor list must have same number of elements as scalar list."):
        weft._foreach_mul(xs, [1.0])
    with pytest.raises(RuntimeError, match="expected to be 0 dim but it has 1 dimensions and 2 elements."):
        weft._foreach_mul(xs, xs[0])
    with pytest.raises(
        RuntimeError, match="Expected packed scalar Tensor to be of dimension 1. Got 0 instead."
    ):
        weft._foreach_addcmul(xs, xs, xs, weft.from_numpy(np.array(1.0)))
    with pytest.raises(TypeError, match="expected Tensor as element 1 in argument 0, but got int"):
        weft._foreach_sqrt([xs[0], 1])
