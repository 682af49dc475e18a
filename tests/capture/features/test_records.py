"""Dataclasses, named tuples and enums in captured code."""

# ruff: noqa: PIE796

from __future__ import annotations

import dataclasses
import enum
from collections import namedtuple
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

from tests.capture.features.harness import check, tensor


@dataclass
class Point:
    x: Any
    y: float = 2.0
    tags: list[str] = field(default_factory=list)
    hidden: Any = field(default=None, repr=False, compare=False)
    dimensions: ClassVar[int] = 2

    def total(self) -> Any:
        return self.x * self.y


@dataclass(frozen=True)
class Fixed:
    name: str
    size: int = 1


@dataclass(order=True)
class Ranked:
    rank: int
    name: str = field(compare=False, default="")


@dataclass
class Derived(Point):
    scale: dataclasses.InitVar[float] = 3.0
    area: Any = field(init=False)

    def __post_init__(self, scale: float) -> None:
        self.area = self.x * self.y * scale


@dataclass(slots=True, kw_only=True)
class Compact:
    left: Any
    right: int = 0


def test_dataclass_made_and_returned() -> None:
    check(lambda x: Point(x + 1, tags=["a"]))


def test_dataclass_as_argument() -> None:
    def f(p: Point) -> Any:
        p.tags.append("seen")
        p.x = p.total()
        return p.x + Point.dimensions

    check(f, lambda: (Point(tensor()),), lambda: (Point(tensor(2.0)),), frames=2)


def test_dataclass_default_factory_makes_new_ones() -> None:
    check(lambda x: (Point(x).tags is Point(x).tags, Point(x + 1)))


def test_dataclass_post_init_and_init_var() -> None:
    check(lambda x: Derived(x, 3.0, scale=2.0))


def test_dataclass_frozen() -> None:
    def f(x: Any, fixed: Fixed) -> Any:
        try:
            fixed.size = 3
        except dataclasses.FrozenInstanceError as error:
            return x * fixed.size, str(error), Fixed("b", 5)

    check(f, lambda: (tensor(), Fixed("a")), lambda: (tensor(), Fixed("a", 2)), frames=2)


def test_dataclass_frozen_as_key() -> None:
    def f(x: Any, table: dict[Fixed, Any]) -> Any:
        table[Fixed("new", 2)] = x + 1
        seen = {Fixed("a"), Fixed("a"), Fixed("b")}
        return table[Fixed("a")] * 2, Fixed("c") in table, len(seen), {Fixed("q"): x * 3}

    check(f, lambda: (tensor(), {Fixed("a"): tensor(), Fixed("b"): 3}))


def test_dataclass_frozen_as_key_changes() -> None:
    def f(x: Any, table: dict[Fixed, Any]) -> Any:
        return x + table.get(Fixed("a"), 10)

    first, second = lambda: (tensor(), {Fixed("a"): 1}), lambda: (tensor(), {Fixed("b"): 1})
    check(f, first, second, frames=2)


def test_dataclass_equality_and_order() -> None:
    def f(x: Any, a: Ranked, b: Ranked) -> Any:
        answers = a == b, a != b, a < b, a >= b, a == 3, Ranked(1) == Ranked(1, "other")
        return answers, sorted([b, a]), max(a, b).rank, [a, b] == [Ranked(1), Ranked(2)], x + 1

    check(f, lambda: (tensor(), Ranked(1), Ranked(2)), lambda: (tensor(), Ranked(2), Ranked(2)), frames=2)


def test_dataclass_text() -> None:
    check(lambda x: (repr(Fixed("a")), str(Ranked(2, "b")), f"{Fixed('c')} {[Ranked(1)]}", x + 1))


def test_dataclass_replace() -> None:
    check(lambda x: (dataclasses.replace(Point(x + 1), y=5.0), dataclasses.replace(Fixed("a"), size=9)))


def test_dataclass_asdict_and_astuple() -> None:
    def f(x: Any) -> Any:
        inner = Point(Fixed("a"), tags=["t"])
        return dataclasses.asdict(inner), dataclasses.astuple(inner), x + 1

    check(f)


def test_dataclass_fields() -> None:
    def f(p: Point) -> Any:
        names = [each.name for each in dataclasses.fields(p)]
        return names, dataclasses.is_dataclass(p), p.x + len(names)

    check(f, lambda: (Point(tensor()),))


def test_dataclass_with_slots_and_keywords() -> None:
    def f(c: Compact) -> Any:
        c.right += 1
        return Compact(left=c.left + 1, right=c.right), c

    check(f, lambda: (Compact(left=tensor()),))


def test_dataclass_matched() -> None:
    def f(x: Any, p: Any) -> Any:
        match p:
            case Point(x=value, y=2.0):
                return value + x
            case Fixed("a", size):
                return x * size
            case _:
                return x

    calls = [lambda: (tensor(), Point(tensor())), lambda: (tensor(), Fixed("a", 4)), lambda: (tensor(), 3)]
    check(f, *calls, frames=2)


class Pair(NamedTuple):
    left: Any
    right: Any = 2

    def total(self) -> Any:
        return self.left + self.right

    @property
    def swapped(self) -> Any:
        return Pair(self.right, self.left)


Triple = namedtuple("Triple", "a b c", defaults=(3,))


def test_named_tuple_made() -> None:
    check(lambda x: (Pair(x + 1), Triple(x, b=2), Pair(*[x, 3])))


def test_named_tuple_as_argument() -> None:
    def f(p: Pair) -> Any:
        left, right = p
        return p.total() * p.right, p.swapped, p[0] + left, len(p), p._fields, right

    check(f, lambda: (Pair(tensor()),), lambda: (Pair(tensor(), 5),), frames=2)


def test_named_tuple_methods() -> None:
    def f(t: Any, x: Any) -> Any:
        return t._replace(a=x + 1), t._asdict(), Triple._make([x, 1, 2]), t.index(2), repr(Pair(1, "b"))

    check(f, lambda: (Triple(1, 2), tensor()))


def test_named_tuple_compared_and_matched() -> None:
    def f(x: Any, p: Any) -> Any:
        match p:
            case Pair(1, right):
                x = x + right
            case Pair(left=left):
                x = x * left
        return (
            x,
            p == (1, 2),
            p < Pair(5),
            {p: 1}[Pair(1, 2)] if p.left == 1 else None,
            hash(p) == hash((1, 2)),
        )

    check(f, lambda: (tensor(), Pair(1)), lambda: (tensor(), Pair(3)), frames=2)


class Colour(enum.Enum):
    RED = 1
    GREEN = "g"
    CRIMSON = 1

    @property
    def loud(self) -> str:
        return self.name.upper() + "!"

    @classmethod
    def default(cls) -> Colour:
        return cls.GREEN


class Level(enum.IntEnum):
    LOW = enum.auto()
    HIGH = enum.auto()


class Access(enum.Flag):
    READ = enum.auto()
    WRITE = enum.auto()
    BOTH = READ | WRITE


class Word(enum.StrEnum):
    ONE = enum.auto()


def test_enum_as_argument() -> None:
    def f(x: Any, colour: Colour) -> Any:
        return x + 1 if colour is Colour.RED else x * 2

    red, green = lambda: (tensor(), Colour.RED), lambda: (tensor(), Colour.GREEN)
    check(f, red, green, red, frames=2)


def test_enum_members_and_their_parts() -> None:
    def f(x: Any, c: Colour) -> Any:
        return c.name, c.value, c.loud, Colour.default(), Colour.RED is Colour.CRIMSON, c == Colour.RED, x + 1

    check(f, lambda: (tensor(), Colour.GREEN))


def test_enum_looked_up() -> None:
    def f(x: Any) -> Any:
        try:
            Colour(7)
        except ValueError as error:
            text = str(error)
        try:
            Colour["BLUE"]
        except KeyError as error:
            return Colour(1), Colour["GREEN"], Colour("g"), text, error.args, x + 1

    check(f)


def test_enum_iterated() -> None:
    def f(x: Any) -> Any:
        names = [member.name for member in Colour]
        return names, list(Level), len(Colour), Colour.RED in Colour, x * sum(Level), dict(Colour.__members__)

    check(f)


def test_enum_as_key() -> None:
    def f(x: Any, table: dict[Colour, Any], wanted: Colour) -> Any:
        return table[wanted] + {Colour.RED: x, Level.LOW: 2}[Colour.RED], Colour.RED in table

    check(f, lambda: (tensor(), {Colour.RED: tensor(), Colour.GREEN: 2}, Colour.GREEN))


def test_enum_of_integers() -> None:
    def f(x: Any, level: Level) -> Any:
        return (
            x * level,
            level + 1,
            level < Level.HIGH,
            [10, 20, 30][level],
            level == 1,
            int(level),
            f"{level:03d}",
        )

    check(f, lambda: (tensor(), Level.LOW), lambda: (tensor(), Level.HIGH), frames=2)


def test_enum_of_flags() -> None:
    def f(x: Any, access: Access) -> Any:
        answers = access | Access.WRITE, access & Access.WRITE, ~access, access ^ Access.BOTH
        return answers, Access.READ in access, bool(access & Access.WRITE), x + access.value

    check(f, lambda: (tensor(), Access.READ), lambda: (tensor(), Access.BOTH), frames=2)


def test_enum_of_strings() -> None:
    check(lambda x: (Word.ONE, Word.ONE == "one", Word.ONE + "!", f"{Word.ONE}", {"one": x + 1}[Word.ONE]))


def test_enum_matched() -> None:
    def f(x: Any, colour: Any) -> Any:
        match colour:
            case Colour.RED:
                return x + 1
            case Level.LOW | Level.HIGH:
                return x + 2
            case _:
                return x + 3

    members = [Colour.RED, Colour.GREEN, Level.LOW]
    check(f, *[lambda m=m: (tensor(), m) for m in members], frames=3)


def test_enum_text() -> None:
    check(lambda x: (str(Colour.RED), repr(Colour.RED), f"{Level.LOW}", f"{Colour.GREEN!r}", x + 1))


def test_enum_member_on_an_object() -> None:
    @dataclass
    class Setting:
        colour: Colour

    def f(x: Any, setting: Setting) -> Any:
        setting.colour = Colour.RED if setting.colour is Colour.GREEN else Colour.GREEN
        return x + len(setting.colour.name)

    check(f, lambda: (tensor(), Setting(Colour.RED)), lambda: (tensor(), Setting(Colour.GREEN)), frames=2)
