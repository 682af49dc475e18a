"""What the tests of graphs that are thrown away share: calls as they are against calls compiled.

Takes a function and calls of it, good and bad; asserts that results, errors and their lines, effects,
versions and the random stream are equal for both backends, and how often the original ran again. One idea: a
graph that fails must leave nothing behind, so everything seen before and after is compared.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import weft
from tests.capture.features.harness import LAST_DIGITS, everything_strict, own_lines, tensor
from tests.whole.fuzz.snapshot import Snapshot, difference
from weft.compiler import Unsupported
from weft.core.counters import counters
from weft.testing import CompileCounterWithBackend

BACKENDS = ("eager", "aot_eager")
LOG: list[Any] = []


def same(
    function: Callable[..., Any],
    *calls: Callable[[], tuple[Any, ...]],
    deoptimised: int | None = None,
    frames: int = 1,
    fullgraph: bool = True,
    state: Callable[[], Any] | None = None,
    watch: Callable[[], Any] | None = None,
    after: Callable[[Any], Any] | None = None,
) -> None:
    """Asserts that calls do compiled what they do as they are, and how many ran the original again."""

    def begin() -> Any:
        LOG.clear()
        weft.manual_seed(5)
        return None if state is None else state()

    def seen() -> Any:
        return list(LOG), weft.get_rng_state(), weft.is_grad_enabled(), watch() if watch else None

    for backend in BACKENDS:
        counter = CompileCounterWithBackend(backend)

        def compiled(plain: Any, counter: Any = counter) -> Any:
            return weft.compile(plain, backend=counter, fullgraph=fullgraph)

        with everything_strict():
            plain = begin() or function
            expected = [observe(plain, make, seen, after) for make in calls]
            called = compiled(begin() or function)
            actual = [observe(called, make, seen, after) for make in calls]
            fallbacks, recompiles = dict(counters["fallbacks"]), dict(counters["recompiles"])
        for number, (left, right) in enumerate(zip(expected, actual)):
            for part in left:
                found = difference(left[part], right[part])
                assert found is None, f"{backend}, call {number}, {part}{found}"
        raised = sum(part["result"][0] == "raised" for part in expected)
        wanted = raised if deoptimised is None else deoptimised
        assert fallbacks == ({"deoptimised": wanted} if wanted else {}), backend
        assert counter.frame_count == frames, f"{backend}: {counter.frame_count} graphs; {recompiles}"


def observe(called: Any, make: Any, watch: Any, after: Any) -> dict[str, Any]:
    """What is seen of one call, by what it is seen on."""
    snapshot = Snapshot(__name__, tolerance=LAST_DIGITS)
    args = make()
    seen: dict[str, Any] = {}
    try:
        result = called(*args)
    except Exception as error:
        cause = snapshot.see([error, error.__cause__, error.__context__])
        seen["result"] = ("raised", cause, str(error), own_lines(error))
    else:
        seen["result"] = snapshot.see(result)
        if after is not None:
            seen["later"] = snapshot.see(after(result))
    seen["arguments"] = snapshot.see(list(args))
    seen["watched"] = snapshot.see(watch())
    return seen


def good() -> tuple[Any, ...]:
    return (tensor(1.0, 2.0, 3.0),)


def bad() -> tuple[Any, ...]:
    return (tensor(1.0, float("nan"), -3.0),)


def mixed(function: Any, **options: Any) -> None:
    """Good and bad calls in turn."""
    same(function, good, bad, good, bad, **options)


class Refused(Exception):
    pass


def refused(function: Any, *args: Any) -> str:
    with everything_strict(), pytest.raises(Unsupported) as error:
        weft.compile(function, fullgraph=True)(*args)
    return error.value.kind


def places(*values: int) -> Any:
    return weft.tensor(values)
