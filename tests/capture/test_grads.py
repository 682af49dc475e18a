"""`.grad` as captured code writes it: when old gradients may go away."""

from __future__ import annotations

import pytest

import weft


def failing(p, x, places, early):
    """A step that fails for some data, before or after the old gradient is let go of."""
    if early:
        x[places]
    p.grad = None
    (x * p).sum().backward()
    if not early:
        x[places]


@pytest.mark.parametrize("early", [True, False])
def test_a_step_that_fails_leaves_the_gradients_that_eager_leaves(early):
    found = []
    for function in (failing, weft.compile(failing, backend="aot_eager")):
        p, x = weft.ones(4, requires_grad=True), weft.arange(4.0)
        for place in (0, 1, 9):
            p.grad = weft.full((4,), 7.0)
            try:
                function(p, x, weft.tensor([place]), early)
            except IndexError as error:
                found.append((str(error), p.grad.tolist()))
            else:
                found.append(p.grad.tolist())
    assert found[:3] == found[3:]
    assert isinstance(found[2], tuple)


@pytest.mark.parametrize("looks", [lambda grad: grad is None, lambda grad: grad.sum()])
def test_gradients_that_were_read_are_kept_until_the_end(looks):
    def step(p, x, places):
        seen = looks(p.grad)
        p.grad = None
        loss = (x[places] * p).sum()
        loss.backward()
        return seen

    found = []
    for function in (step, weft.compile(step, backend="aot_eager")):
        p, x = weft.ones(4, requires_grad=True), weft.arange(4.0)
        for _ in range(2):
            p.grad = weft.full((4,), 7.0)
            found.append((function(p, x, weft.tensor([0, 1, 2, 3])), p.grad.tolist()))
    assert found[:2] == found[2:]
