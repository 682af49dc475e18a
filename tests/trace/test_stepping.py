"""Stepping: ops are told as they run, at the user's lines."""

from __future__ import annotations

import pytest

import weft
from weft.compiler import settings


@pytest.fixture
def stepping():
    settings.debug = "step"
    yield
    settings.debug = ""


def slope(x, w):
    y = weft.tanh(x * w)
    return y.sum()


def test_ops_are_told_where_they_stand(stepping, capsys):
    x, w = weft.tensor([0.5, 1.0], requires_grad=True), weft.tensor([1.0, 2.0], requires_grad=True)
    compiled = weft.compile(slope, backend="native")
    compiled(x, w).backward()
    got = x.grad.clone()
    lines = capsys.readouterr().err.splitlines()
    line = slope.__code__.co_firstlineno + 1
    assert lines[0] == f"test_stepping.py:{line}  y = weft.tanh(x * w)  |  mul: f32[2], 0.5 to 2, mean 1.25"
    assert lines[2].startswith(f"test_stepping.py:{line + 1}  return y.sum()  |  sum: f32[] 1.426")
    assert any("tanh_backward" in each for each in lines[3:])
    x.grad = None
    slope(x, w).backward()
    assert weft.allclose(got, x.grad)


def test_native_code_is_back_afterwards(capsys):
    weft.compile(slope, backend="native")(weft.ones(2), weft.ones(2))
    assert capsys.readouterr().err == ""


def test_other_words_are_refused():
    settings.debug = "steps"
    try:
        with pytest.raises(weft.compiler.BackendCompilerFailed, match="may be 'step'"):
            weft.compile(slope, backend="native")(weft.ones(2), weft.ones(2))
    finally:
        settings.debug = ""
