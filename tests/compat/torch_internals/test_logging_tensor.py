"""Tensors that log what is done to them."""

from __future__ import annotations

import logging

import pytest

import weft
from weft.compat.torch_internals.logging_tensor import LoggingTensor


def test_calls_are_logged_and_results_log_too(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "LoggingTensor")
    x = LoggingTensor(weft.ones(3), requires_grad=True)
    y = (x * 2).sum()
    assert type(y) is LoggingTensor and type(x.elem) is weft.Tensor
    y.backward()
    assert x.grad.tolist() == [2.0] * 3
    assert "sum" in [record.getMessage() for record in caplog.records]
