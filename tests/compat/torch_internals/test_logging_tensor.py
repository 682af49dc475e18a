"""Tensors that log what is done to them."""

from __future__ import annotations

import logging

import pytest

import weft
from weft.compat.torch_internals.logging_tensor import (
    LoggingTensor,
    capture_logs,
    capture_logs_with_logging_tensor_mode,
    log_input,
)


def test_calls_are_logged_and_results_log_too(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "LoggingTensor")
    x = LoggingTensor(weft.ones(3), requires_grad=True)
    y = (x * 2).sum()
    assert type(y) is LoggingTensor and type(x.elem) is weft.Tensor
    y.backward()
    assert x.grad.elem.tolist() == [2.0] * 3
    assert "weft._ops.aten.sum.default" in [record.getMessage() for record in caplog.records]


def test_lines_number_tensors():
    with capture_logs() as lines:
        x = LoggingTensor(weft.ones(3), requires_grad=True)
        log_input("x", x)
        y = (x * 2).sum()
        y.backward()
    assert lines[0] == "$0 = input('x')"
    assert lines[1:3] == ["$1 = weft._ops.aten.mul.Tensor($0, 2)", "$2 = weft._ops.aten.sum.default($1)"]
    with capture_logs() as after:
        x * 2
    assert len(after) == 1 and len(lines) > 3


def test_a_mode_logs_plain_tensors():
    with capture_logs_with_logging_tensor_mode() as lines:
        weft.cat([weft.ones(1), weft.ones(1)])
    assert lines[-1] == "$2 = weft._ops.aten.cat.default([$0, $1])"
