"""The older spelling of mixed precision on a device that is not there."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

import weft
from weft.amp import cuda


def test_autocast_is_off_where_there_is_no_device() -> None:
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        block = cuda.autocast()
    assert [each.category for each in seen] == [FutureWarning, UserWarning]
    assert "Please use `weft.amp.autocast('cuda', args...)` instead" in str(seen[0].message)
    with block:
        assert not weft.is_autocast_enabled("cuda")


@pytest.mark.filterwarnings("ignore")
def test_functions_and_scalers_need_no_device() -> None:
    class Doubled(weft.autograd.Function):
        @staticmethod
        @cuda.custom_fwd(cast_inputs=weft.float32)
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        @cuda.custom_bwd
        def backward(ctx: Any, g: Any) -> Any:
            return g * 2

    x = weft.ones(2, requires_grad=True)
    Doubled.apply(x).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]
    assert not cuda.GradScaler(1024.0).is_enabled()
