"""Methods of users that C code would run: what they read may be other in the next call, whoever asks them."""

# ruff: noqa: UP031, UP032

from __future__ import annotations

import enum
import operator
import re
import string
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import weft


class Held:
    number = 1

    def __iter__(self) -> Iterator[int]:
        return iter([self.number, 5])

    def __rmod__(self, other: Any) -> Any:
        return other, self.number

    def __str__(self) -> str:
        return f"<{self.number}>"


class Mapping:
    number = 1

    def keys(self) -> list[str]:
        return ["a"]

    def __getitem__(self, key: Any) -> Any:
        return self.number if key != 97 else "x" * self.number


class Missing(dict[str, int]):
    number = 1

    def __missing__(self, key: str) -> Any:
        return self.number, key


class Items(list[int]):
    number = 1

    def __iter__(self) -> Iterator[int]:
        return iter([self.number, 5])


class Row(tuple[int, ...]):
    number = 1

    def __iter__(self) -> Iterator[int]:
        return iter([type(self).number, 5])

    def __eq__(self, other: object) -> bool:
        return type(self).number > 1

    __hash__ = tuple.__hash__


class Whole(int):
    number = 1

    def __index__(self) -> int:
        return type(self).number


class Real(float):
    number = 1

    def __repr__(self) -> str:
        return f"<{type(self).number}>"


class Text(str):
    number = 1

    def __str__(self) -> str:
        return f"<{type(self).number}>"


class Table(dict[str, int]):
    number = 1

    def keys(self) -> Any:
        return [f"k{self.number}"]

    def __getitem__(self, key: str) -> int:
        return self.number

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())


class Members(set[int]):
    def __iter__(self) -> Iterator[int]:
        return iter([HELD.number])


class Added(list[int]):
    def __radd__(self, other: Any) -> Any:
        return HELD.number


class Level(enum.Enum):
    low, high = 1, 2

    @classmethod
    def _missing_(cls, value: object) -> Any:
        return cls.high if HELD.number > 1 else cls.low


HELD, MAPPING, MISSING, ITEMS = Held(), Mapping(), Missing(a=1), Items([1, 2, 3])
ROW, WHOLE, REAL, TEXT = Row((1, 2, 3)), Whole(7), Real(1.5), Text("abc")
TABLE, MEMBERS, ADDED = Table(a=1), Members([1, 7]), Added([4])
NUMBERED: list[Any] = [TABLE, HELD, MAPPING, MISSING, ITEMS, Row, Whole, Real, Text]
PATTERN = re.compile("a")


def grown() -> Any:
    items: Any = [1]
    items += ADDED
    return items


def given(*args: Any, **named: Any) -> Any:
    return args, named


USES: dict[str, Callable[[], Any]] = {
    "bytes": lambda: (bytes(HELD), bytearray(HELD)),
    "translate": lambda: "abc".translate(MAPPING),
    "format_map": lambda: ("{a}".format_map(MAPPING), "{q}".format_map(MISSING)),
    "percent of a mapping": lambda: ("%(a)s" % MAPPING, "%(q)s" % MISSING),
    "percent of what has one of its own": lambda: "%s" % HELD,
    "missing": lambda: (list(map(MISSING.__getitem__, ["a", "z"])), operator.getitem(MISSING, "z")),
    "Template": lambda: string.Template("$a").substitute(MAPPING),
    "sub": lambda: PATTERN.sub(lambda found: str(HELD), "aba"),
    "subn": lambda: PATTERN.subn(repl=lambda found: str(HELD), string="a"),
    "starred": lambda: (given(*ITEMS), given(*ROW), [*ITEMS], given(1, *ROW)),
    "contains": lambda: (5 in ITEMS, 2 in ITEMS, 5 in ROW),
    "hash": lambda: (hash(ROW) == hash((1, 2, 3)), {(1, 2, 3): 1}.get(ROW)),
    "ints are not asked": lambda: ([*range(9)][WHOLE], range(10)[WHOLE], "a" * WHOLE, "a".center(WHOLE)),
    "ints are what they are": lambda: (list(range(WHOLE)), bin(WHOLE), chr(WHOLE), operator.index(WHOLE)),
    "union of dicts": lambda: (TABLE | {}, {} | TABLE),
    "sets of sets": lambda: (set(MEMBERS), frozenset(MEMBERS), {1}.issubset(MEMBERS), {1}.union(MEMBERS)),
    "items of sets": lambda: (list(MEMBERS), {1}.isdisjoint(MEMBERS), len({1}.difference(MEMBERS))),
    "added in place": grown,
    "members of an enum": lambda: (Level(1), Level(9)),
    "format of a float": lambda: (f"{REAL}", format(REAL), "{}".format(REAL), f"{REAL:.1f}"),
    "format of a text": lambda: (f"{TEXT}", format(TEXT), f"{TEXT:>5}"),
}  # fmt: skip


@pytest.mark.parametrize("name", USES)
@pytest.mark.filterwarnings("ignore:weft.compile (made|hit):RuntimeWarning")
def test_methods_that_c_code_runs_are_seen(name: str) -> None:
    use = USES[name]

    def program(x: weft.Tensor) -> Any:
        return x * 2, use()

    compiled = weft.compile(program, backend="aot_eager")
    for number in (1, 2, 3, 1):
        for each in NUMBERED:
            each.number = number
        assert repr(compiled(weft.ones(2))) == repr(program(weft.ones(2)))
