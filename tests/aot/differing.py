"""Eager against compiled: the same program on the same inputs, everything that a user can see compared."""

from __future__ import annotations

from typing import Any

import weft
from weft.aot import runtime
from weft.core.trees import flatten


def copies(inputs: tuple[Any, ...]) -> list[Any]:
    return [
        value.detach().clone().requires_grad_(value.requires_grad)
        if isinstance(value, weft.Tensor)
        else value
        for value in inputs
    ]


def assert_same(ours: Any, theirs: Any, tolerance: float = 1e-5) -> None:
    """Values, types, layout and autograd facts."""
    if not isinstance(theirs, weft.Tensor):
        assert ours == theirs or ours is theirs
        return
    assert ours.dtype is theirs.dtype
    assert ours.shape == theirs.shape
    weft.testing.assert_close(ours, theirs, rtol=tolerance, atol=tolerance, equal_nan=True)
    assert ours.requires_grad == theirs.requires_grad
    assert ours.is_leaf == theirs.is_leaf
    assert ours.is_inference() == theirs.is_inference()
    assert ours.is_inference() or ours._version == theirs._version
    assert ours._is_view() == theirs._is_view()
    assert ours.stride() == theirs.stride()


def scalar(leaves: list[Any]) -> Any:
    """A number that depends on every output that has a gradient, and not linearly."""
    total: Any = None
    for number, leaf in enumerate(leaves):
        if isinstance(leaf, weft.Tensor) and leaf.requires_grad and not leaf.dtype.is_complex:
            part = (leaf.double() * (number + 1.25)).sin().sum()
            total = part if total is None else total + part
    return total


def gradients(function: Any, inputs: list[Any], order: int) -> list[list[Any]]:
    """Outputs, and the gradients of `scalar` of them to this order."""
    weft.manual_seed(3)
    leaves = list(inputs)
    given = [v * 1 if isinstance(v, weft.Tensor) and v.requires_grad else v for v in inputs]
    given = [v.clone() if isinstance(v, weft.Tensor) and not v.requires_grad else v for v in given]
    outputs, _ = flatten(function(*given))
    found = [[*outputs, *given]]
    wanted = [v for v in leaves if isinstance(v, weft.Tensor) and v.requires_grad]
    target = scalar(outputs)
    for step in range(order):
        if target is None or not target.requires_grad or not wanted:
            break
        last = step + 1 == order
        made = weft.autograd.grad(target, wanted, create_graph=not last, allow_unused=True)
        found.append(list(made))
        target = scalar(list(made)) if not last else None
    return found


def compare(
    function: Any,
    *inputs: Any,
    order: int = 2,
    refused: bool = False,
    natives: bool | None = None,
    backend: Any = "aot_eager",
) -> None:
    """Runs the function both ways. `refused` says whether it is not compiled at all, `natives` whether some
    of its nodes are not."""
    plain = copies(inputs)
    compiled = weft.compile(function, backend=backend)
    before, before_natives = runtime.counters["fallbacks"], runtime.counters["natives"]
    for _ in range(2):
        theirs = gradients(function, plain, order)
        ours = gradients(compiled, plain, order)
        assert [len(part) for part in ours] == [len(part) for part in theirs]
        for one, other in zip(ours, theirs, strict=True):
            for a, b in zip(one, other, strict=True):
                assert (a is None) == (b is None)
                if b is not None:
                    assert_same_layer(a, b, one is ours[0])
    fallbacks = runtime.counters["fallbacks"] - before
    assert bool(fallbacks) == refused, runtime.reasons[-3:]
    found = runtime.counters["natives"] - before_natives
    assert natives is None or bool(found) == natives, runtime.reasons[-3:]


def assert_same_layer(ours: Any, theirs: Any, outputs: bool) -> None:
    if outputs:
        assert_same(ours, theirs)
    else:
        assert ours.dtype is theirs.dtype
        weft.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5, equal_nan=True)
