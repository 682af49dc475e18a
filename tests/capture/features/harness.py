"""One function run as it is and run compiled, from equal beginnings, with everything seen compared.

Takes a function and, for each call, a maker of its arguments; asserts that both sides do the same and that
the number of graphs is right. One idea: each side is reduced to snapshots that number objects as they are
met, so values, types, order and who is the same object as whom are compared at once.
"""

from __future__ import annotations

import contextlib
import os
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import weft
from tests.whole.fuzz.snapshot import Snapshot, difference
from weft.compiler import settings
from weft.core import varying
from weft.core.counters import counters
from weft.testing import CompileCounter, CompileCounterWithBackend

NATIVE = os.environ.get("WEFT_TEST_BACKEND") == "native"
LAST_DIGITS = 1e-5 if NATIVE else 0.0
"""How far results of `aot_eager` may be from eager's: not at all, but for machine code in its place, which
has sums and functions of its own (see Note [Tolerance] in `tests.whole.fuzz.snapshot`)."""
STEADY: dict[str, Any] = {"eps": 0.1} if NATIVE else {}
"""A gradient that is nothing but rounding (of a bias before a batch norm) counts as much as any other to
optimizers that divide by its size, and machine code rounds otherwise. With this it stays small."""
Function = Callable[..., Any]
Arguments = Callable[[], tuple[Any, ...]]


class Near:
    """Elements of an array: equal to others that differ in their last digits. Kernels of machine code add up
    in another order than NumPy.
    """

    rounded = False
    """Whether floats were made from halves, and differ as these do."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def __eq__(self, other: object) -> bool:
        assert isinstance(other, Near)
        kind = self.array.dtype
        if kind.kind in "biu":
            return np.array_equal(self.array, other.array)
        within = 2e-2 if kind.itemsize == 2 or Near.rounded else 1e-3 if kind == np.float32 else 1e-9
        one, two = self.array.astype(np.float64), other.array.astype(np.float64)
        return np.allclose(one, two, within, within, equal_nan=True)

    def __repr__(self) -> str:
        return f"near {self.array!r}"


def numbers(tensor: weft.Tensor) -> Any:
    """A tensor's numbers, which are equal to others if all digits are; to those of machine code, if they are
    near.
    """
    return Near(np.array(tensor.detach().numpy())) if NATIVE else tensor.tolist()


class Call:
    """Arguments with keywords: `lambda: Call(x, scale=2)` where a tuple would do without them."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.args = args
        self.kwargs = kwargs


def tensor(*values: float) -> weft.Tensor:
    return weft.tensor(values or (1.0, 2.0, 3.0))


def one() -> tuple[weft.Tensor]:
    """The arguments of a function of one tensor."""
    return (tensor(),)


def check(
    function: Function,
    *calls: Arguments,
    frames: int | None = 1,
    breaks: int | None = 0,
    ops: int | None = None,
    state: Callable[[], Any] | None = None,
    watch: Callable[[], Any] | None = None,
    after: Callable[[Any], Any] | None = None,
    raises: type[Exception] | tuple[()] = (),
    backend: str = "eager",
    tape: bool = False,
    tolerance: float = 0.0,
) -> CompileCounter:
    """Asserts that `function` compiled does what it does as it is.

    `calls` make the arguments of one call each (default: one tensor); a single one is used twice. `frames` is
    the number of graphs, `breaks` that of breaks (0 also means `fullgraph=True`), `ops` that of calls in all
    graphs; None is any number. `state()` runs before each side, to put globals and objects back; where it
    gives a function, that is the one to run. `watch()` answers what else to compare after each call,
    `after(result)` uses a result. `raises` is the class of what calls may raise to the test itself. `tape`
    and `tolerance` are those of Snapshot.
    """
    calls = calls or (one,)
    calls = calls * 2 if len(calls) == 1 else calls
    counter: Any = CompileCounter() if backend == "eager" else CompileCounterWithBackend(backend)

    def compiled(plain: Function) -> Function:
        return weft.compile(plain, backend=counter, fullgraph=breaks == 0)  # type: ignore[no-any-return]

    within = tolerance if backend == "eager" else max(tolerance, LAST_DIGITS)

    def look() -> Snapshot:
        return Snapshot(function.__module__, tape, within)

    with everything_strict():
        expected = side(function, lambda plain: plain, calls, state, watch, after, raises, look)
        actual = side(function, compiled, calls, state, watch, after, raises, look)
        broken = sum(counters["graph_break"].values())
    for number, (left, right) in enumerate(zip(expected, actual)):
        for part in left:
            found = difference(left[part], right[part])
            assert found is None, f"call {number}, {part}{found}"
    assert breaks is None or broken == breaks, f"{broken} breaks: {dict(counters['graph_break'])}"
    assert frames is None or counter.frame_count == frames, (
        f"{counter.frame_count} graphs; {dict(counters['recompiles'])}"
    )
    assert ops is None or counter.op_count == ops, f"{counter.op_count} ops"
    return counter  # type: ignore[no-any-return]


@contextlib.contextmanager
def everything_strict() -> Iterator[None]:
    """No silent fallback, nothing kept from before or for later. Frames are counted, so a third program for
    another size or number is no error here.
    """
    before = settings.strict, varying.LOUD
    settings.strict, varying.LOUD = True, 1000
    weft.compiler.reset()
    counters.clear()
    try:
        yield
    finally:
        settings.strict, varying.LOUD = before
        weft.compiler.reset()


def side(
    function: Function,
    compiled: Callable[[Function], Function],
    calls: tuple[Arguments, ...],
    state: Callable[[], Any] | None,
    watch: Callable[[], Any] | None,
    after: Callable[[Any], Any] | None,
    raises: type[Exception] | tuple[()],
    look: Callable[[], Snapshot],
) -> list[dict[str, Any]]:
    """What is seen of each call, by what it is seen on."""
    if state is not None:
        made = state()
        function = made if callable(made) else function
    called = compiled(function)
    return [observe(look(), called, make, watch, after, raises) for make in calls]


def observe(
    snapshot: Snapshot,
    called: Function,
    make: Arguments,
    watch: Callable[[], Any] | None,
    after: Callable[[Any], Any] | None,
    raises: type[Exception] | tuple[()],
) -> dict[str, Any]:
    given = make()
    call = given if isinstance(given, Call) else Call(*given)
    seen: dict[str, Any] = {}
    try:
        result = called(*call.args, **call.kwargs)
    except raises as error:
        seen["result"] = ("raised", snapshot.see(error), str(error), own_lines(error))
    else:
        seen["result"] = snapshot.see(result)
        if after is not None:
            seen["later"] = snapshot.see(after(result))
    seen["arguments"] = snapshot.see([list(call.args), call.kwargs])
    seen["watched"] = None if watch is None else snapshot.see(watch())
    return seen


def own_lines(error: BaseException) -> tuple[Any, ...]:
    """The frames of the tests' own files that the error went through."""
    return tuple(
        (frame.f_code.co_name, line)
        for frame, line in traceback.walk_tb(error.__traceback__)
        if "/features/test_" in frame.f_code.co_filename
    )
