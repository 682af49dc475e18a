"""Templates: what they need at sizes for which they were not planned."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

import weft
from weft import nn
from weft.core.seams import seams
from weft.core.settings import settings
from weft.native.cpu.runner import Runner
from weft.native.plan import memory
from weft.native.program.template import Formulas, Template
from weft.nn import functional as F

WASTE = 1.25
"""How much more memory a template may need than a program for that size alone. (Where all values are small,
such a program is ordered by what can run at once, and fits into less; blocks of so few bytes are no concern.)
"""


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cells, self.last = nn.LSTM(8, 16, batch_first=True), nn.Linear(16, 3)

    def forward(self, x: Any) -> Any:
        return self.last(self.cells(x)[0][:, -1])


class Attending(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.block = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True)
        self.last = nn.Linear(32, 3)

    def forward(self, x: Any) -> Any:
        return self.last(self.block(x).mean(1))


def perceptron() -> Any:
    wide = [nn.Linear(256, 256), nn.ReLU()]
    return nn.Sequential(nn.Linear(20, 256), nn.ReLU(), *wide, nn.Linear(256, 3))


def convolutional() -> Any:
    first = [nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2)]
    return nn.Sequential(*first, nn.Conv2d(8, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(288, 3))


MODELS: dict[str, tuple[Callable[[], Any], tuple[int, ...], int]] = {
    "perceptron": (perceptron, (20,), 64),
    "convolutional": (convolutional, (3, 16, 16), 16),
    "attending": (Attending, (12, 32), 64),
    "recurrent": (Recurrent, (6, 8), 64),
}


def step_of(make: Callable[[], Any]) -> Callable[[Any, Any], Any]:
    weft.manual_seed(0)
    net = make()

    def step(x: Any, y: Any) -> Any:
        loss = F.cross_entropy(net(x), y)
        for parameter in net.parameters():
            parameter.grad = None
        loss.backward()
        return loss

    return step


@pytest.mark.parametrize("name", MODELS)
def test_memory_at_other_sizes(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """At a quarter and at four times the sizes of the plan, too."""
    make, shape, planned = MODELS[name]
    templates: list[Template] = []
    programs: list[Runner] = []
    fill, made = Template.__init__, Runner.__init__

    def filled(self: Template, *given: Any) -> None:
        fill(self, *given)
        templates.append(self)

    def noted(self: Runner, *given: Any) -> None:
        made(self, *given)
        programs.append(self)

    monkeypatch.setenv("WEFT_CACHE", "0")
    monkeypatch.setattr(settings, "tiers", "draft")
    monkeypatch.setattr(Template, "__init__", filled)
    monkeypatch.setattr(Runner, "__init__", noted)
    weft.compiler.reset()
    x, y = weft.randn(planned, *shape), weft.randint(0, 3, (planned,))
    for each in (x, y):
        weft.compiler.mark_dynamic(each, 0)
    weft.compile(step_of(make), fullgraph=True)(x, y)
    (template,) = templates
    formulas = Formulas([template.program.arena_bytes.expression])
    for size in (planned // 4, planned, planned * 4):
        programs.clear()
        alone = weft.compile(step_of(make), fullgraph=True, dynamic=False)
        alone(weft.randn(size, *shape), weft.randint(0, 3, (size,)))
        (program,) = programs
        (needed,) = formulas.values(dict.fromkeys(template.sizes.values, size))
        assert needed <= WASTE * program.arena_bytes, (size, needed, program.arena_bytes)


def test_what_would_waste_memory_is_another_template(monkeypatch: pytest.MonkeyPatch) -> None:
    """Here, any waste is too much: half way to four times the sizes of one, the next begins."""
    templates: list[Template] = []
    make_template = Template.__init__

    def made(self: Template, *given: Any) -> None:
        make_template(self, *given)
        templates.append(self)

    monkeypatch.setenv("WEFT_CACHE", "0")
    monkeypatch.setattr(settings, "tiers", "draft")
    monkeypatch.setattr(settings, "strict", True)
    monkeypatch.setattr(Template, "__init__", made)
    monkeypatch.setattr(memory, "LARGE", 0)
    weft.compiler.reset()
    make, shape, _ = MODELS["perceptron"]
    sizes = (64, 16, 24, 32, 64, 100, 128, 256, 300, 16, 256)

    def losses(limit: float) -> list[Any]:
        templates.clear()
        weft.compiler.reset()
        monkeypatch.setattr(memory, "MOST_WASTE", limit)
        step = weft.compile(step_of(make), fullgraph=True)
        found = []
        for size in sizes:
            x, y = weft.ones(size, *shape) / size, weft.arange(size) % 3
            for each in (x, y):
                weft.compiler.mark_dynamic(each, 0)
            found += [step(x, y).item() for _ in range(3)]
        return found

    as_one = losses(WASTE)
    assert len(templates) == 1
    assert losses(0.0) == as_one
    assert len(templates) == 3  # for 64, 16 and 256


PEAKS = ("perceptron", "recurrent")


@pytest.mark.parametrize("name", PEAKS)
def test_eagers_peak_bounds_templates(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """At a quarter of the sizes of the plan, at these, and at four times as much."""
    make, shape, planned = MODELS[name]
    monkeypatch.setattr(seams, "native_kernel", None)
    monkeypatch.setattr(settings, "strict", True)
    weft.compiler.reset()
    eager, compiled = step_of(make), weft.compile(step_of(make), fullgraph=True)

    def peak(step: Callable[[Any, Any], Any], size: int) -> int:
        x, y = weft.randn(size, *shape), weft.randint(0, 3, (size,))
        for each in (x, y):
            weft.compiler.mark_dynamic(each, 0)
        for _ in range(4):
            step(x, y)
        gc.collect()
        tracemalloc.start()
        try:
            step(x, y)
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    for size in (planned, planned // 4, planned * 4):
        assert peak(compiled, size) <= peak(eager, size), size
