"""Targets: a third one, which no module of the package knows, runs the programs of all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import weft
from weft.aot.runtime import counting
from weft.core.settings import settings
from weft.native import backend
from weft.native.ir.definitions import Definition, Opaque, Product, Shape
from weft.native.plan.build import Built
from weft.native.program.assemble import Recorded, assembled
from weft.native.program.planning import Planned
from weft.native.reference.target import Interpretation
from weft.native.target import Unlowered
from weft.tensor.base import wrap


class NoFunctions:
    """What has been emitted for a target that has kernels alone, which are read."""

    choices: dict[Any, str] = {}
    multiplies = False

    def __init__(self, steps: Sequence[Any]) -> None:
        self.names = ["kernel" if isinstance(step, Built) else "" for step in steps]


class KernelsAlone:
    """A target without any steps but kernels: for all else, array kernels run."""

    name, keeps, joins, rules = "kernels", False, False, ()
    reason = ""

    def __init__(self) -> None:
        self.programs: list[Interpretation] = []
        self.asked: list[str] = []

    def __getattr__(self, step: str) -> Any:
        def refused(*_args: Any) -> Definition:
            self.asked.append(step)
            raise Unlowered(f"{step}, which this target does not have")

        return refused

    def multiplies(self, _type: str) -> bool:
        return False

    def check(self, failure: Definition) -> Definition:
        raise Unlowered(f"a check of {failure.name}")

    def words(self, *_args: Any) -> Definition:
        raise Unlowered("random words")

    def unusable(self) -> str:
        return self.reason

    def executable(self, planned: Planned, inputs: Sequence[Any]) -> Interpretation:
        def product(each: Product, _place: Any) -> Recorded:
            raise AssertionError(each)

        emitted = NoFunctions(planned.plan.steps)
        self.programs.append(Interpretation(assembled(planned, len(inputs), emitted, product)))
        return self.programs[-1]


def layers(x: Any, w: Any) -> Any:
    y = weft.softmax(x @ w, -1)
    images = weft.nn.functional.conv2d(y.reshape(1, 1, 4, 5), w[:3, :3].reshape(1, 1, 3, 3), padding=1)
    pooled = weft.nn.functional.max_pool2d(images, 2)
    return weft.cat([pooled.reshape(-1), y.cumsum(0).tanh().reshape(-1)]).sum() * 2


@pytest.fixture
def target(monkeypatch: pytest.MonkeyPatch) -> KernelsAlone:
    monkeypatch.setattr(settings, "strict", True)
    weft.compiler.reset()
    return KernelsAlone()


def compiled(function: Any, target: KernelsAlone) -> Any:
    layout = backend.Layout(lambda value: getattr(value, "array", value), wrap, counting.strict)
    chosen = weft.compiler.aot(backend.compiler(layout, target))
    return weft.compile(function, backend=chosen, fullgraph=True)


def test_it_runs_what_all_targets_share(target: KernelsAlone) -> None:
    inputs = []
    results = []
    for function in (layers, compiled(layers, target)):
        weft.manual_seed(0)
        inputs = [weft.randn(4, 6, requires_grad=True), weft.randn(6, 5, requires_grad=True)]
        result = function(*inputs)
        result.backward()
        results.append([result.detach().numpy(), *[each.grad.numpy() for each in inputs]])
    for ours, theirs in zip(*results, strict=True):
        np.testing.assert_allclose(theirs, ours, rtol=1e-5, atol=1e-6)
    assert {"convolution", "maxima", "scanned"} <= {*target.asked}
    steps = [step for each in target.programs for step in each.program.listing.steps]  # type: ignore[union-attr]
    assert any(isinstance(step, Built) for step in steps)
    assert not any(isinstance(step, Product) for step in steps)
    assert any(isinstance(step, Opaque) for step in steps)


def test_what_it_cannot_run_says_so(target: KernelsAlone) -> None:
    target.reason = "there is no such machine"
    with pytest.raises(weft.compiler.NotCompiled, match="there is no such machine"):
        compiled(lambda x: x * 2 + 1, target)(weft.ones(3))


def test_shapes_are_the_programs(target: KernelsAlone) -> None:
    doubled = compiled(lambda x: (x * 2).sum(0), target)
    for rows in (2, 3, 5):
        assert doubled(weft.ones(rows, 4)).tolist() == [2.0 * rows] * 4
    made: Shape = target.programs[-1].program.made[0][1]
    assert tuple(made) == (4,)
