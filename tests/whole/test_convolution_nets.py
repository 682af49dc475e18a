"""Small nets of convolutions, trained for some steps natively and eagerly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft
import weft.nn.functional as F
from tests.native.whole import programs
from weft import nn
from weft.core.threads import available
from weft.native.cpu import pool
from weft.testing import assert_close


class Residual(nn.Module):
    """Two convolutions beside a shorter way."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.first_norm = nn.BatchNorm2d(outputs)
        self.second = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.second_norm = nn.BatchNorm2d(outputs)
        self.short = nn.Conv2d(inputs, outputs, 1, stride, bias=False)

    def forward(self, x: Any) -> Any:
        y = F.relu(self.first_norm(self.first(x)))
        return F.relu(self.second_norm(self.second(y)) + self.short(x))


class Residuals(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 7, 2, 3)
        self.blocks = nn.Sequential(Residual(8, 16, 1), Residual(16, 16, 2))
        self.head = nn.Linear(16, 5)

    def forward(self, x: Any) -> Any:
        x = F.max_pool2d(F.relu(self.stem(x)), 3, 2, 1)
        return self.head(F.adaptive_avg_pool2d(self.blocks(x), 1).flatten(1))


class Depthwise(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.wide = nn.Conv2d(3, 12, 1)
        self.apart = nn.Conv2d(12, 12, 3, 2, 1, groups=12)
        self.norm = nn.GroupNorm(3, 12)
        self.narrow = nn.Conv2d(12, 5, 1)

    def forward(self, x: Any) -> Any:
        x = F.hardswish(self.apart(F.relu6(self.wide(x))))
        return F.avg_pool2d(self.narrow(self.norm(x)), 2).mean((2, 3))


class There(nn.Module):
    """Down and up again."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.Conv2d(3, 8, 3, 2, 1)
        self.deep = nn.Conv2d(8, 8, 3, 1, 2, dilation=2)
        self.up = nn.ConvTranspose2d(8, 6, 4, 2, 1)
        self.last = nn.Conv2d(9, 5, 3, padding=1)

    def forward(self, x: Any) -> Any:
        y = F.leaky_relu(self.down(x), 0.1)
        y = self.up(F.gelu(self.deep(y)) + y)
        y = self.last(weft.cat([x, y], 1))
        return F.interpolate(y, scale_factor=0.5, mode="bilinear").mean((2, 3))


class Line(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv1d(3, 10, 9, 4, 4)
        self.second = nn.Conv1d(10, 5, 3, padding=1)

    def forward(self, x: Any) -> Any:
        y = F.max_pool1d(F.elu(self.first(x.flatten(2))), 2)
        return F.adaptive_avg_pool1d(self.second(y), 3).amax(-1)


def trained(make: Callable[[], Any], native: bool) -> tuple[list[Any], list[Any]]:
    weft.manual_seed(0)
    model = make()
    optimizer = weft.optim.SGD(model.parameters(), lr=0.05)
    x, y = weft.randn(6, 3, 22, 22), weft.arange(6) % 5
    run = weft.compile(model, backend="native", fullgraph=True) if native else model
    losses = []
    for _ in range(3):
        optimizer.zero_grad()
        loss = F.cross_entropy(run(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return losses, [*model.parameters(), *model.buffers()]


@pytest.mark.parametrize("make", [Residuals, Depthwise, There, Line])
def test_training(make: Any) -> None:
    with programs() as made:
        found = trained(make, True)
    assert made
    assert_close(found, trained(make, False), rtol=2e-3, atol=2e-4)
    left = {
        step.name for each in made for n, step in enumerate(each.program.listing.steps) if n in each.python
    }
    assert not left, left


@pytest.mark.skipif(available() < 2, reason="one processor")
@pytest.mark.parametrize("make", [Residuals, There])
def test_the_bits_do_not_depend_on_threads(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for threads in (1, 2):
        fresh = pool.Pool(threads)
        monkeypatch.setattr(pool, "_pool", [fresh])
        weft.compiler.reset()
        found.append([each.detach().numpy().copy() for part in trained(make, True) for each in part])
        fresh.close()
    for one, two in zip(*found, strict=True):
        assert np.array_equal(one, two)


def test_evaluation() -> None:
    model = Residuals().eval()
    x = weft.randn(2, 3, 30, 26)
    with weft.no_grad(), programs() as made:
        found = weft.compile(model, backend="native", fullgraph=True)(x)
        assert_close(found, model(x), rtol=1e-4, atol=1e-5)
    assert all(not each.python for each in made)
