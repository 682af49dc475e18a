"""Numbers that vary where C code, or Python's own rules of identity, meet them: as plain numbers do."""

from __future__ import annotations

import bisect
import itertools
import math
import operator
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest

import weft
from tests.capture.features.harness import everything_strict

ONE, THREE, TEXT = 1, 3, "a"


class Iterable:
    """Has items, and is a number, too."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __iter__(self) -> Any:
        return iter([self.number, 2])

    def __float__(self) -> float:
        return self.number * 0.5

    def __index__(self) -> int:
        return self.number

    def __floor__(self) -> int:
        return self.number

    __ceil__ = __trunc__ = __floor__


pytestmark = pytest.mark.filterwarnings("ignore:weft.compile built programs")  # values are asked for
USES: dict[str, Callable[[int, float], Any]] = {
    "a truth is True": lambda n, s: ((n > 2) is True, (n > 2) is not True, (s > 1) is False),
    "truths are one another": lambda n, s: ((n > 2) is (s > 1), operator.is_(n > 2, True)),
    "True is no 1": lambda n, s: ((n > 2) is ONE, n is True, (n > 2) is n),
    "small numbers": lambda n, s: (n is THREE, THREE is n, n + 1 is THREE, n is n),
    "other classes": lambda n, s: (n is None, s is None, n is s, n is TEXT),
    "ldexp": lambda n, s: (math.ldexp(s, n), math.ldexp(0.5, n), math.ldexp(s, n > 3)),
    "ldexp of no int": lambda n, s: math.ldexp(s, s),
    "divmod": lambda n, s: (divmod(s, n), divmod(n, s)),
    "divmod by a zero": lambda n, s: divmod(s, 0.0),
    "divmod of ints by a zero": lambda n, s: divmod(n, 0),
    "methods of numbers": lambda n, s: (s.__mod__(n), s.__eq__(s), s.__rpow__(n), n.__and__(n), n.__lt__(s)),
    "methods of plain numbers": lambda n, s: ((2.5).__mod__(n), (7).__divmod__(n), (7).__lt__(s)),
    "floor of what has items": lambda n, s: (math.floor(Iterable(n)), math.ceil(Iterable(n))),
    "trunc of what has items": lambda n, s: math.trunc(Iterable(n)),
    "numbers that have items": lambda n, s: (math.sqrt(Iterable(n)), math.gcd(Iterable(n), 6)),
    "items": lambda n, s: (math.prod(Iterable(n)), math.fsum(Iterable(n)), math.dist(Iterable(n), (s, n))),
}  # fmt: skip


@pytest.mark.parametrize("name", USES)
def test_numbers_that_vary_are_what_they_are(name: str) -> None:
    use = USES[name]

    def program(x: weft.Tensor, n: int, s: float) -> Any:
        y = x * 2
        try:
            found = use(n, s)
        except (TypeError, ZeroDivisionError, ValueError) as error:
            found = type(error), str(error)
        return y + 1, found

    compiled = weft.compile(program, backend="aot_eager")
    for n, s in [(3, 0.5), (4, 1.25), (1, 7.0), (5, 2.5), (3, 0.1)]:
        assert repr(compiled(weft.ones(2), n, s)) == repr(program(weft.ones(2), n, s))


def test_equal_numbers_may_be_two_objects() -> None:
    def program(x: weft.Tensor, n: int, m: int) -> Any:
        return x * n, n is m

    compiled = weft.compile(program, backend="aot_eager", dynamic=True)
    for text in ("1000", "2000", "3"):
        n, m = int(text), int(text)
        for pair in ((n, n), (n, m), (n, 7)):
            assert compiled(weft.ones(2), *pair)[1] is program(weft.ones(2), *pair)[1]


class Count:
    """A number of the user's, which builtins ask for by `__index__`, `__bool__` and `__bytes__`."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __index__(self) -> int:
        return self.number

    def __bool__(self) -> bool:
        return self.number > 1

    def __bytes__(self) -> bytes:
        return bytes([self.number])


HELD = Count(1)
ASKED: dict[str, Callable[[Any], Any]] = {
    "center": lambda c: (
        "ab".center(c),
        "ab".ljust(c, "x"),
        "ab".rjust(c),
        "3".zfill(c),
        "a\tb".expandtabs(c),
    ),
    "center, unbound": lambda c: str.center("a", c),
    "split": lambda c: ("a,b,c,d,e".split(",", c), "a b c d".rsplit(None, c)),
    "split by name": lambda c: "a,b,c,d,e".split(",", maxsplit=c),
    "splitlines": lambda c: "a\nb".splitlines(c),
    "replace": lambda c: "aaaaa".replace("a", "b", c),
    "find": lambda c: ("abcabc".find("a", c), "abcabc".count("a", 0, c), "abc".startswith("b", c)),
    "pop": lambda c: ([1, 2, 3, 4, 5].pop(c), bytearray(b"abcdef").pop(c)),
    "insert": lambda c: [items := [1, 2, 3, 4], items.insert(c, 7)],
    "index": lambda c: ((1, 2, 3, 4).index(4, 0, 4) + (3, 3, 3, 3, 3).index(3, c), [3] * c),
    "to_bytes": lambda c: (1).to_bytes(c, "big"),
    "to_bytes by name": lambda c: (1).to_bytes(length=c, byteorder="big"),
    "from_bytes": lambda c: int.from_bytes(c, "big"),
    "hex": lambda c: b"abc".hex("-", c),
    "round": lambda c: ((1.2345).__round__(c), float.__round__(1.2345, c), round(1.2345, c)),
    "items": lambda c: ([1, 2, 3, 4, 5].__getitem__(c), [1].__mul__(c)),
    "slice": lambda c: slice(1, 9, 2).indices(c),
    "product": lambda c: list(itertools.product("ab", repeat=c)),
    "islice": lambda c: list(itertools.islice(range(9), c)),
    "bisect": lambda c: bisect.bisect([1, 2, 3, 4, 5], 0, c),
    "translate": lambda c: "abc".translate({97: c.number, 98: "x"}),
    "sorted": lambda c: (sorted([1, 3, 2], reverse=c), [3, 1, 2].sort(reverse=c)),
}


@pytest.mark.parametrize("name", ASKED)
@pytest.mark.parametrize("held", [True, False])
@pytest.mark.filterwarnings("ignore:weft.compile (made|hit):RuntimeWarning")
def test_builtins_that_ask_for_numbers_are_seen_to_ask(name: str, held: bool) -> None:
    """What `__index__` reads is guarded, or a number that varies: the next call may find another."""
    use = ASKED[name]

    def program(x: weft.Tensor, n: int) -> Any:
        y = x * 2
        try:
            found = use(HELD if held else Count(n))
        except TypeError as error:
            found = str(error)
        return y + 1, found

    compiled = weft.compile(program, backend="aot_eager")
    for number in (1, 2, 3, 1, 4):
        HELD.number = number
        assert repr(compiled(weft.ones(2), number)) == repr(program(weft.ones(2), number))


MOMENT = time.gmtime(3)


@pytest.mark.parametrize(
    "function, frames",
    [
        (lambda x: x + 1 if sys.version_info >= (3, 11) else x, 1),
        (lambda x: (x + sys.version_info[0], sys.float_info.max, sys.version_info.minor), 1),
        (lambda x: (x + MOMENT.tm_sec, MOMENT[5], MOMENT), 0),  # which no guard can pin down
    ],
)
def test_records_of_c_are_read(function: Callable[..., Any], frames: int) -> None:
    counter = weft.testing.CompileCounter()
    compiled = weft.compile(function, backend=counter)
    with everything_strict():
        assert repr(compiled(weft.ones(2))) == repr(function(weft.ones(2)))
    assert counter.frame_count == frames
