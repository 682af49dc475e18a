"""Graphs with open sizes, as planning reads them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import weft
from weft.core.settings import settings
from weft.native import backend

NAMED: dict[str, Callable[[Any], Any]] = {
    "topk": lambda x: x.topk(2),
    "sort": lambda x: x.sort(0),
    "mode": lambda x: x.mode(0),
    "qr": lambda x: weft.linalg.qr(x),
    "svd": lambda x: weft.linalg.svd(x, full_matrices=False),
    "inv_ex": lambda x: weft.linalg.inv_ex(x @ x.t() + weft.eye(x.shape[0])),
}


@pytest.mark.parametrize("name", NAMED)
def test_results_with_names_have_the_sizes_of_the_call(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are tuples of a class of their own; array kernels give them."""
    monkeypatch.setattr(settings, "strict", True)
    weft.compiler.reset()
    function = NAMED[name]
    compiled = weft.compile(function, backend="native", dynamic=True)
    for size in (3, 6, 4):
        x = weft.randn(size, size + 1, generator=weft.Generator().manual_seed(size))
        found, wanted = compiled(x), function(x)
        assert type(found) is type(wanted)
        for one, other in zip(found, wanted, strict=True):
            weft.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


JOINED: dict[str, Callable[[Any, Any], Any]] = {
    "cat": lambda x, y: weft.cat([x, y], 1).exp(),
    "hstack, of which a part is read": lambda x, y: weft.hstack([x, y * 2]).t()[1:].sin(),
    "diff": lambda x, y: weft.diff(x, append=y),
}


@pytest.mark.parametrize("name", JOINED)
def test_gradients_of_what_is_joined_take_one_template(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are parts of larger gradients, and lie with gaps in one call."""
    alone: list[str] = []
    monkeypatch.setattr(backend, "log", lambda topic, text: alone.append(text()))
    monkeypatch.setattr(settings, "strict", True)
    weft.compiler.reset()
    function = JOINED[name]
    compiled = weft.compile(function, backend="native", dynamic=True)
    for size in ((3, 4, 5), (4, 3, 3), (6, 2, 7), (5, 5, 5)):
        x, y = (weft.randn(size[0], columns).requires_grad_() for columns in size[1:])
        results = [call(x, y) for call in (compiled, function)]
        assert weft.allclose(*results) and results[0].stride() == results[1].stride()
        found = [weft.autograd.grad(each.sum(), (x, y)) for each in results]
        assert all(weft.allclose(*pair) for pair in zip(*found, strict=True))
    assert not alone
