"""Leaves made inside captured code, of which nothing but the spent history of a loss is left."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

import weft
from tests.capture.features import harness
from tests.capture.features.test_gradients_inside import BACKENDS, facts, leaf
from weft.autograd import grad


@pytest.fixture(params=BACKENDS)
def check(request: pytest.FixtureRequest) -> Callable[..., Any]:
    return partial(harness.check, backend=request.param)


PENALTIES: dict[str, Callable[[Any, Any], Any]] = {
    "the loss": lambda loss, between: loss,
    "the loss, then the leaf": lambda loss, between: (loss, between),
    "the leaf, then the loss": lambda loss, between: [between, loss],
    "the leaf in an attribute": lambda loss, between: setattr(loss, "between", between) or loss,
}


@pytest.mark.parametrize("given", PENALTIES)
def test_a_loss_of_a_gradient_with_respect_to_a_leaf_made_inside(
    check: Callable[..., Any], given: str
) -> None:
    """What a spent history leads to is given out only where captured code gives it out."""

    def f(x, w):
        between = (x * 2).detach().requires_grad_()
        (slope,) = grad((between * w).square().sum(), between, create_graph=True)
        loss = (slope.norm() - 1) ** 2
        loss.backward()
        return PENALTIES[given](loss, between)

    def after(result: Any) -> list[Any]:
        leaves = list(result) if isinstance(result, (tuple, list)) else [result, *vars(result).values()]
        loss = next(each for each in leaves if not each.is_leaf)
        seen: list[Any] = [facts(each) if each.is_leaf else each.requires_grad for each in leaves]
        for wanted in (each for each in leaves if each.is_leaf):
            with pytest.raises(RuntimeError) as raised:
                grad(loss, wanted)
            seen.append(str(raised.value))
        with pytest.raises(RuntimeError) as raised:
            loss.backward()
        return [*seen, str(raised.value)]

    check(f, lambda: (weft.arange(1.0, 4.0), leaf(0.5, -1.0, 2.0)), after=after)


def test_a_leaf_that_only_the_history_of_a_loss_leads_to_is_no_output() -> None:
    def f(x, w):
        between = (x * 2).requires_grad_()
        (slope,) = grad((between * w).square().sum(), between, create_graph=True)
        loss = (slope.norm() - 1) ** 2
        loss.backward()
        return loss

    w = leaf(0.5, -1.0, 2.0)
    (graph,) = weft.compiler.explain(f)(weft.arange(1.0, 4.0), w).graphs
    names = [node.name for node in graph.graph.output_node().args[0]]
    assert len(names) == 2  # the loss, and the gradient of `w`
    assert not [name for name in names if name.startswith("requires_grad")], names
