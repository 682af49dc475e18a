"""The generic dispatcher: what it does for calls that the generated fast path does not take."""

from __future__ import annotations

import pytest

import weft


def test_complex_values_flow_and_their_gradients_are_refused() -> None:
    x = weft.randn(3, requires_grad=True)
    y = weft.complex(x, x) * 2
    assert y.requires_grad
    assert weft.equal(y.real.detach(), 2 * x.detach())
    with pytest.raises(NotImplementedError, match="gradients through complex tensors"):
        y.abs().sum().backward()


@pytest.mark.parametrize("times", [1, 3])
def test_complex_leaves_never_get_a_wrong_gradient(times: int) -> None:
    """Also on the second call, when a real dtype would have reached the fast path."""
    x = weft.tensor([1 + 2j, 3 - 1j], requires_grad=True)
    for _ in range(times):
        y = x * x
    with pytest.raises(NotImplementedError, match="gradients through complex tensors"):
        y.real.sum().backward()
    assert x.grad is None
