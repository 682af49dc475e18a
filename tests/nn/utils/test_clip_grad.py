"""Clipping gradients."""

import math

import pytest

import weft
from weft import nn
from weft.nn import utils


def parameters():
    made = [nn.Parameter(weft.ones(size)) for size in (2, 3, 1)]
    made[0].grad = weft.tensor([3.0, 4.0])
    made[1].grad = weft.tensor([0.0, 0.0, 12.0])
    return made


def gradients(made):
    return [value for p in made if p.grad is not None for value in p.grad.tolist()]


@pytest.mark.parametrize(
    ("order", "norm"),
    [(1, 19.0), (2, 13.0), (3.0, (27 + 64 + 1728) ** (1 / 3)), (math.inf, 12.0), ("inf", 12.0), (0, 2.0)],
)
def test_norms(order, norm):
    made = parameters()
    before = made[0].grad
    total = utils.clip_grad_norm_(made, 1.0, norm_type=order)
    assert total.item() == pytest.approx(norm, rel=1e-6)
    expected = [value / (norm + 1e-6) for value in (3, 4, 0, 0, 12)]
    assert gradients(made) == pytest.approx(expected, rel=1e-6)
    assert made[0].grad is before and made[2].grad is None


def test_small_gradients_stay():
    made = parameters()
    assert utils.clip_grad_norm_(iter(made), 100.0).item() == 13
    assert gradients(made) == [3, 4, 0, 0, 12]


def test_one_parameter_or_none():
    made = parameters()
    assert utils.clip_grad_norm_(made[0], 1.0).item() == 5
    assert utils.clip_grad_norm_([], 1.0).item() == 0
    assert utils.clip_grad_norm_([made[2]], 1.0).item() == 0
    with pytest.warns(UserWarning, match="`parameters` is an empty generator"):
        utils.clip_grad_norm_((p for p in ()), 1.0)


def test_norms_that_are_not_finite():
    made = parameters()
    made[0].grad[0] = math.nan
    with pytest.raises(RuntimeError, match="The total norm of order 2.0 for gradients .* is non-finite"):
        utils.clip_grad_norm_(made, 1.0, error_if_nonfinite=True)
    assert gradients(made)[1:] == [4, 0, 0, 12]
    assert math.isnan(utils.clip_grad_norm_(made, 1.0).item())


def test_in_two_steps():
    made = parameters()
    total = utils.get_total_norm([p.grad for p in made[:2]])
    assert total.item() == 13
    utils.clip_grads_with_norm_(made, 1.0, total * 2)
    assert gradients(made) == pytest.approx([value / 26 for value in (3, 4, 0, 0, 12)], rel=1e-6)


def test_values():
    made = parameters()
    utils.clip_grad_value_(made, 3.5)
    assert gradients(made) == [3, 3.5, 0, 0, 3.5]
    made[0].grad.neg_()
    utils.clip_grad_value_(made[0], 2)
    assert gradients(made)[:2] == [-2, -2]


def test_the_old_name_warns():
    with pytest.warns(FutureWarning, match="clip_grad_norm` is now deprecated"):
        assert utils.clip_grad_norm(parameters(), 1.0).item() == 13
