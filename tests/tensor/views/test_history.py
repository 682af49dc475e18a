"""Views and the tape: circumstances of making, refreshing, and a walk of random writes checked by finite
differences."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import weft
from weft.tensor.views import overlaps_itself

BASE = "its base or another view of its base has been"


def leaf() -> weft.Tensor:
    return weft.tensor([1.0, 2.0, 3.0], requires_grad=True)


def quietly(function):
    with weft.no_grad():
        return function()


def test_views_made_in_no_grad_require_grad_without_history():
    x = leaf()
    v = quietly(lambda: x[:2])
    assert (v.requires_grad, v.grad_fn, v.is_leaf, v._is_view()) == (True, None, True, True)
    w = v * 2
    assert w.requires_grad
    w.sum().backward()
    assert x.grad is None
    assert v.grad is None
    assert not quietly(lambda: weft.ones(3)[:2]).requires_grad
    assert not quietly(lambda: x[:2] * 1).requires_grad


def test_writing_to_the_base_of_a_view_made_in_no_grad():
    y = leaf() * 1
    v = quietly(lambda: y[:2])
    y.mul_(2)
    with pytest.raises(
        RuntimeError, match=f"A view was created in no_grad mode and {BASE} modified inplace with grad mode"
    ):
        v.grad_fn
    x = leaf()
    w = quietly(lambda: x[:2])
    quietly(lambda: x.add_(1))
    with pytest.raises(RuntimeError, match=f"A view was created in no_grad mode and {BASE}"):
        w * 2


@pytest.mark.parametrize(
    "write", [lambda y, parts: y.mul_(2), lambda y, parts: quietly(lambda: parts[1].mul_(2))]
)
def test_writing_to_the_base_of_one_of_several_views(write):
    y = leaf() * 1
    parts = y.unbind()
    write(y, parts)
    with pytest.raises(
        RuntimeError,
        match=f"Output 0 of Unbind is a view and {BASE} modified inplace. This view is the output",
    ):
        parts[0].grad_fn
    with pytest.raises(RuntimeError, match="Output 0 of Unbind"):
        parts[0].sum()


def test_several_views_of_constants_may_be_written_to():
    y = weft.ones(3)
    a, _ = y.split([1, 2])
    a.mul_(2)
    assert y.array.tolist() == [2, 1, 1]


def test_views_of_leaves_follow_an_optimizer_step():
    x = leaf()
    v = x[:2]
    quietly(lambda: x.mul_(2))
    v.sum().backward()
    assert x.grad.array.tolist() == [1, 1, 0]


def test_stale_views_follow_when_the_base_starts_to_require_grad():
    x = weft.ones(3)
    v = x[:2]
    x.add_(1)
    x.requires_grad_()
    assert v.requires_grad
    assert v.grad_fn is not None


def test_views_of_another_dtype_never_require_grad():
    y = leaf() * 1
    v = y.view(weft.int32)
    y.mul_(2)
    assert not v.requires_grad
    assert not quietly(lambda: y.view(weft.int32)).requires_grad


def test_a_view_keeps_its_base_alive():
    v = (leaf() * 1)[:2]
    assert v._base.array.tolist() == [1, 2, 3]


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (np.zeros(3), False),
        (np.zeros((2, 3)).T, False),
        (np.zeros((4, 3))[::2, 1:], False),
        (np.broadcast_to(np.zeros(1), (3,)), True),
        (np.lib.stride_tricks.as_strided(np.zeros(4), (2, 3), (8, 8)), True),
        (np.zeros((0, 3)), False),
    ],
)
def test_overlaps_itself(array, expected):
    assert overlaps_itself(array) is expected


VIEWS = [
    lambda t: t[:2],
    lambda t: t[..., 1:],
    lambda t: t[-1],
    lambda t: t.transpose(0, -1),
    lambda t: t.unsqueeze(0),
    lambda t: t.select(-1, 0),
    lambda t: t.narrow(0, 0, 1),
    lambda t: t[::2],
    lambda t: t.diagonal() if t.ndim > 1 else t.view(-1),
]
WRITES = [
    lambda t, p: t.mul_(p),
    lambda t, p: t.add_(p * p),
    lambda t, p: t.sin_(),
    lambda t, p: t.copy_(p.expand(t.shape)),
    lambda t, p: t.mul_(t.detach().clone()),
    lambda t, p: t.zero_(),
]
STEP = st.tuples(st.sampled_from(["view", "write", "use"]), st.integers(0, 100), st.integers(0, 100))


def walk(x: weft.Tensor, p: weft.Tensor, steps: list[tuple[str, int, int]]) -> weft.Tensor:
    """Makes views of views of a product, writes to some of them, and sums what is left."""
    base = x * 1
    made = [base]
    total = (base * 0).sum()
    for kind, which, number in steps:
        chosen = made[which % len(made)]
        if kind == "view" and chosen.ndim and min(chosen.shape) > 1:
            made.append(VIEWS[number % len(VIEWS)](chosen))
        elif kind == "write":
            WRITES[number % len(WRITES)](chosen, p)
        elif kind == "use":
            total = total + (chosen.clone() * (1 + number % 3)).sum()
    return total + sum((tensor.clone().sum() for tensor in made), weft.zeros((), dtype=weft.float64))


@settings(max_examples=60)
@given(st.lists(STEP, max_size=10))
def test_gradients_through_random_views_and_writes(steps):
    generator = np.random.default_rng(0)
    x = weft.from_numpy(generator.uniform(0.5, 1.5, (3, 3))).requires_grad_()
    p = weft.from_numpy(generator.uniform(0.5, 1.5, ())).requires_grad_()
    steps = [step for step in steps if not (step[0] == "write" and step[2] % len(WRITES) == 4)]
    assert weft.autograd.gradcheck(lambda a, b: walk(a, b, steps), (x, p), fast_mode=True)


def test_out_is_a_view_that_another_view_gave_a_history():
    weight = weft.tensor(0.5, requires_grad=True)
    view = weft.arange(6.0)[3:6]
    view.view(3).mul_(weight)
    with pytest.raises(RuntimeError, match="don't support automatic differentiation"):
        weft.add(weft.ones(3), 1, out=view)
    with weft.no_grad():
        weft.add(weft.ones(3), 1, out=view)
    assert view.tolist() == [2.0, 2.0, 2.0]
