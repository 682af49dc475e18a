"""Writes to what eager saved are errors where its sweep would come by, and nowhere else."""

from __future__ import annotations

import pytest

import weft

BACKENDS = ["eager", "aot_eager", "native"]


def apart(x: weft.Tensor) -> tuple[weft.Tensor, weft.Tensor]:
    """Two results of one stage, whose histories save different tensors."""
    lowest = x.cummin(-1).values
    root = x.sqrt()
    return root, lowest * 2


@pytest.mark.parametrize("backend", BACKENDS)
def test_values_that_get_no_gradient_may_be_written(backend: str) -> None:
    def function(x: weft.Tensor) -> weft.Tensor:
        lowest = x.cummin(-1).values
        spread = x.scatter_reduce(0, weft.arange(1), lowest, "sum")
        joined = weft.cat([lowest])
        spread.scatter_(-1, weft.arange(1), 1)
        return joined

    x = weft.tensor([3.0], requires_grad=True)
    weft.compile(function, backend=backend)(x).sum().backward()
    assert x.grad is not None and x.grad.tolist() == [1.0]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("create_graph", [False, True])
def test_the_sweep_comes_by_one_result(backend: str, create_graph: bool) -> None:
    x = weft.tensor([4.0, 9.0], requires_grad=True)
    for function in (apart, weft.compile(apart, backend=backend)):
        root, twice = function(x)
        root.mul_(2)  # which its own gradient needs as it was
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            weft.autograd.grad(root.sum() + twice.sum(), x, create_graph=create_graph)
        root, twice = function(x)
        root.detach().mul_(2)
        (found,) = weft.autograd.grad(twice.sum(), x, create_graph=create_graph)
        assert found.tolist() == [4.0, 0.0]
