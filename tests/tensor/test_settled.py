"""Calls like earlier ones: results, gradients, errors and warnings are those of the dispatcher."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

import weft
import weft.nn.functional as F
from weft.ops.record import REGISTRY, ops
from weft.tensor import dispatch as dispatching
from weft.tensor import settled

MASK = weft.tensor([[True, False, True], [False, True, False]])
PLACES = weft.tensor([[0, 2], [1, 0]])
CALLS: dict[str, Any] = {
    "where": lambda x, y: weft.where(MASK, x, y),
    "where, second number": lambda x, y: weft.where(MASK, x, 2.0) * y,
    "where, first number": lambda x, y: weft.where(MASK, -1.5, x) * y,
    "clamp": lambda x, y: x.clamp(-0.5, 0.5) * y,
    "clamp by tensors": lambda x, y: x.clamp(y - 1, y + 1),
    "clamp from below": lambda x, y: x.clamp(min=0.0) * y,
    "masked_fill": lambda x, y: x.masked_fill(MASK, 3.0) * y,
    "masked_fill by a tensor": lambda x, y: x.masked_fill(MASK, y[0, 0]),
    "gather": lambda x, y: x.gather(1, PLACES) * y[:, :2],
    "layer_norm": lambda x, y: F.layer_norm(x, (3,), y[0], None),
    "embedding": lambda x, y: F.embedding(PLACES, weft.cat([x, y])),
    "mixed dtypes": lambda x, y: x + y.double(),
    "lerp": lambda x, y: weft.lerp(x, y, 0.25),
}


def run(call: Any) -> tuple[Any, ...]:
    weft.manual_seed(2)
    x, y = weft.randn(2, 3, requires_grad=True), weft.randn(2, 3, requires_grad=True)
    out = call(x, y)
    (out * out).sum().backward()
    return out.detach(), type(out.grad_fn).__name__, x.grad, y.grad


@pytest.mark.parametrize("name", CALLS)
def test_as_the_dispatcher_gives_them(name: str, monkeypatch: Any) -> None:
    first = run(CALLS[name])
    again = run(CALLS[name])
    for op in REGISTRY.values():
        monkeypatch.setattr(op, "paths", op.paths)
        if op.paths:
            for path in op.paths.values():
                path.__globals__["SETTLED"].clear()
    with monkeypatch.context() as patched:
        patched.setattr(dispatching, "settle", lambda *_: None)
        expected = run(CALLS[name])
    for found in (first, again):
        assert weft.equal(found[0], expected[0]) and found[1] == expected[1]
        for one, other in zip(found[2:], expected[2:], strict=True):
            assert (one is None) is (other is None) and (one is None or weft.equal(one, other))


def test_the_second_call_asks_no_type_rule(monkeypatch: Any) -> None:
    op = ops._where
    x = weft.randn(2, 3, requires_grad=True)
    weft.where(MASK, x, 0.25)
    asked = []
    rule = op.rule
    monkeypatch.setattr(op, "rule", lambda *bound: asked.append(1) or rule(*bound))
    weft.where(MASK, x, 0.25)
    assert not asked
    weft.where(MASK, x[:1], 0.25)
    assert asked


def test_errors_remain() -> None:
    x = weft.randn(2, 3)
    for _ in range(3):
        assert x.gather(1, PLACES).shape == (2, 2)
        with pytest.raises(RuntimeError, match="index 3 is out of bounds for dimension 1 with size 3"):
            x.gather(1, PLACES + 1)
        with pytest.raises(RuntimeError, match="index -1 is out of bounds"):
            x.gather(1, PLACES - 1)
        with pytest.raises(RuntimeError, match="must match the size"):
            weft.where(MASK, x, weft.zeros(4))
        with pytest.raises(RuntimeError, match="only supports boolean masks"):
            x.masked_fill(PLACES[:, :1], 1.0)


def test_numbers_of_other_classes_are_other_calls() -> None:
    x = weft.arange(3)
    for value, kind in ((1, weft.int64), (1.0, weft.float32), (True, weft.int64)) * 2:
        assert weft.where(x > 0, x, value).dtype is kind
    one = weft.randn(2, 3)
    for _ in range(2):
        F.layer_norm(one[:, :1], (1,))
        with pytest.raises((TypeError, RuntimeError)):
            weft.gather(one, 1.0, PLACES)  # type: ignore[arg-type]
        weft.gather(one, 1, PLACES)


def test_the_default_dtype_is_part_of_a_call() -> None:
    x = weft.arange(3)
    for kind in (weft.float32, weft.float64) * 2:
        weft.set_default_dtype(kind)
        try:
            assert weft.where(x > 0, x, 0.5).dtype is kind
        finally:
            weft.set_default_dtype(weft.float32)


def test_rules_that_warn_are_asked_again() -> None:
    bytes_ = weft.tensor([1, 0], dtype=weft.uint8)
    for _ in range(3):
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            weft.where(bytes_, weft.ones(2), weft.zeros(2))
        assert len(seen) == 1


def test_writes_before_backward_are_seen() -> None:
    for _ in range(3):
        x, y = weft.randn(2, 3, requires_grad=True), weft.randn(2, 3)
        mask = MASK.clone()
        out = x.masked_fill(mask, 0.0) * y
        mask.zero_()
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            out.sum().backward()


def test_a_view_that_follows_a_write_has_its_history() -> None:
    for _ in range(3):
        base = weft.zeros(2, 3)
        view = base[0]
        base.mul_(weft.ones(2, 3, requires_grad=True))
        out = weft.where(MASK[0], view, 0.0)
        assert out.requires_grad


def test_modes_and_subclasses_see_each_call() -> None:
    class Seen(weft.Tensor):
        pass

    x = weft.randn(2, 3)
    for _ in range(3):
        assert type(weft.where(MASK, x.as_subclass(Seen), 0.0)) is Seen
        with weft.inference_mode():
            assert weft.where(MASK, x, 0.0).is_inference()
        assert weft.vmap(lambda row: row.clamp(-1.0, 1.0))(x).shape == (2, 3)
        assert weft.where(MASK.to("meta"), x.to("meta"), 0.0).device.type == "meta"


def test_numbers_that_vary_fill_no_table() -> None:
    x = weft.randn(2, 3)
    x.clamp(-1.0, 0.5)
    path = ops.clamp.paths[weft.Tensor, float, float]  # type: ignore[index]
    for number in range(settled.MOST + 50):
        assert float(x.clamp(-1.0, float(number)).max()) <= number
    assert len(path.__globals__["SETTLED"]) <= settled.MOST
