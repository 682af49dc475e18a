"""The generic dispatcher: what it does for calls that the generated fast path does not take."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import weft


def test_complex_values_pass_gradients_on() -> None:
    x = weft.tensor([3.0, -2.0], requires_grad=True)
    y = weft.complex(x, x) * 2
    assert weft.equal(y.real.detach(), 2 * x.detach())
    y.abs().sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * 2**0.5 * np.sign(x.detach().numpy()), rtol=1e-6)


@pytest.mark.parametrize("times", [1, 3])
def test_complex_leaves_never_get_a_wrong_gradient(times: int) -> None:
    """Also on the second call, when a real dtype would have reached the fast path."""
    x = weft.tensor([1 + 2j, 3 - 1j], requires_grad=True)
    for _ in range(times):
        y = x * x
    y.real.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * np.conj(x.detach().numpy()))
    assert type(y.grad_fn).__name__ == "MulBackward0"


@pytest.mark.parametrize(
    "call",
    [
        lambda: weft.ones(3) - weft.ones(2),
        lambda: weft.add(weft.ones(3), weft.ones(2), alpha=2),
        lambda: weft.ones(3, requires_grad=True) * weft.ones(2),
        lambda: weft.ones(3).mul_(weft.ones(2)),
        lambda: weft.ones(3).view(2),
        lambda: weft.zeros(-1),
        lambda: weft.ones(3) @ weft.ones(2),
    ],
)
def test_errors_of_calls_name_no_other_error(call: Callable[[], object]) -> None:
    for _ in range(2):  # kernels run first for dtypes that they were seen to agree with the rules for
        weft.add(weft.ones(3) - weft.ones(3), weft.ones(3) * weft.ones(3), alpha=2)
    with pytest.raises(RuntimeError) as raised:
        call()
    assert raised.value.__context__ is None
