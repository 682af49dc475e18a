"""Numbers that vary where C code, or Python's own rules of identity, meet them: as plain numbers do."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import pytest

import weft

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
