"""`.grad` of leaves that a backward inside compiled code writes: where its elements lie."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import weft

LEAVES: dict[str, Callable[[], weft.Tensor]] = {
    "transposed": lambda: weft.ones(3, 4).t(),
    "permuted": lambda: weft.ones(2, 3, 4).permute(2, 0, 1),
    "channels last": lambda: weft.ones(2, 3, 4, 4).contiguous(memory_format=weft.channels_last),
    "with gaps": lambda: weft.ones(4, 6)[:, ::2],
    "expanded": lambda: weft.ones(3, 1).expand(3, 4),
    "row by row": lambda: weft.ones(3, 4),
}
STRIDES = {
    "transposed": (1, 4), "permuted": (1, 12, 4), "channels last": (48, 1, 12, 3), "with gaps": (3, 1),
    "expanded": (4, 1), "row by row": (4, 1),
}  # fmt: skip
LOSSES: dict[str, Callable[[weft.Tensor, weft.Tensor], weft.Tensor]] = {
    "product": lambda w, x: ((w * x) ** 2).sum(),
    "sum": lambda w, x: w.sum(),
    "flat": lambda w, x: (w.reshape(-1) * x.reshape(-1)).sum(),
}


def compiled(function: Callable[..., Any], backend: str | None) -> Callable[..., Any]:
    return function if backend is None else weft.compile(function, backend=backend)


@pytest.mark.parametrize("backend", [None, "native", "aot_eager", "eager"])
@pytest.mark.parametrize("leaf", LEAVES)
def test_a_gradient_lies_as_its_leaf(leaf: str, backend: str | None) -> None:
    for name, loss in LOSSES.items():
        w = LEAVES[leaf]().detach().requires_grad_()
        x = weft.ones(w.shape)

        def step(x: weft.Tensor, w: weft.Tensor = w, loss: Any = loss) -> None:
            loss(w, x).backward()

        run = compiled(step, backend)
        for count in (1, 2):  # the second call adds to what is there
            run(x)
            assert w.grad is not None
            assert w.grad.stride() == STRIDES[leaf], (name, count)
            assert w.grad._base is None and w.grad.is_leaf
            assert w.grad.sum().item() == count * w.numel() * (2 if name == "product" else 1)


@pytest.mark.filterwarnings("ignore:Using backward")
@pytest.mark.parametrize("backend", [None, "native", "aot_eager"])
def test_a_gradient_with_a_history_lies_as_its_leaf(backend: str | None) -> None:
    w = weft.ones(3, 4).t().detach().requires_grad_()
    x = weft.ones(4, 3)

    def step(x: weft.Tensor) -> None:
        ((w * x) ** 3).sum().backward(create_graph=True)

    compiled(step, backend)(x)
    assert w.grad is not None and w.grad.stride() == (1, 4)
    (second,) = weft.autograd.grad(w.grad.sum(), w)
    assert second.sum().item() == 6 * 12


@pytest.mark.parametrize("backend", [None, "native", "aot_eager"])
def test_state_of_an_optimizer_lies_as_its_parameter(backend: str | None) -> None:
    w = weft.nn.Parameter(weft.ones(3, 4).t().detach())
    optimizer = weft.optim.Adam([w])

    def step(x: weft.Tensor) -> None:
        optimizer.zero_grad()
        (w * x).sum().backward()
        optimizer.step()

    run = compiled(step, backend)
    for _ in range(2):
        run(weft.ones(4, 3))
    assert w.stride() == (1, 4) and w.grad is not None and w.grad.stride() == (1, 4)
    assert optimizer.state[w]["exp_avg"].stride() == (1, 4)
