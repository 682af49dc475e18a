"""Records are what `dataclasses.dataclass` makes of the same classes."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from dataclasses import FrozenInstanceError, field
from typing import Any

import pytest

from weft.core import records
from weft.core.records import replace


def classes(decorate: Any) -> tuple[Any, ...]:
    @decorate(frozen=True, slots=True)
    class Fixed:
        """Facts."""

        a: int
        b: str = "b"
        c: list[int] = field(default_factory=list)
        d: float = field(default=0.5)

        def twice(self) -> int:
            return 2 * self.a

    @decorate(slots=True)
    class Open:
        a: int
        b: tuple[int, ...] = ()

    @decorate(eq=False, slots=True, kw_only=True)
    class Base:
        name: str
        size: int = 1

    @decorate(eq=False, slots=True, kw_only=True)
    class Derived(Base):
        more: int
        parts: list[Any] = field(default_factory=list)

        def __repr__(self) -> str:
            return f"<{self.name}>"

    @decorate
    class Counted:
        a: int

        def __post_init__(self) -> None:
            self.a += 1

    @decorate(frozen=True, slots=True)
    class Empty:
        pass

    return Fixed, Open, Base, Derived, Counted, Empty


PAIRS = list(zip(classes(dataclasses.dataclass), classes(records.record), strict=True))
CALLS: list[tuple[int, tuple[Any, ...], dict[str, Any]]] = [
    (0, (1,), {}),
    (0, (1, "x"), {"d": 1.5}),
    (0, (), {"a": 2, "c": [1]}),
    (0, (), {}),
    (0, (1, 2, 3, 4, 5), {}),
    (1, (1,), {"b": (2,)}),
    (2, (), {"name": "n"}),
    (2, ("n",), {}),
    (3, (), {"name": "n", "more": 2}),
    (3, (), {"more": 2}),
    (4, (1,), {}),
    (5, (), {}),
    (5, (1,), {}),
]


@pytest.mark.parametrize("number, args, kwargs", CALLS)
def test_made_as_dataclasses_are(number: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    theirs, ours = PAIRS[number]
    try:
        expected = theirs(*args, **kwargs)
    except TypeError as error:
        with pytest.raises(TypeError) as caught:
            ours(*args, **kwargs)
        assert str(caught.value) == str(error)
        return
    found = ours(*args, **kwargs)
    assert repr(found) == repr(expected)
    for each in dataclasses.fields(expected):
        assert repr(getattr(found, each.name)) == repr(getattr(expected, each.name))
    same, other = ours(*args, **kwargs), theirs(*args, **kwargs)
    assert (found == same) == (expected == other)
    assert (found != same) == (expected != other)
    assert found != expected
    assert hasattr(found, "__dict__") == hasattr(expected, "__dict__")
    assert ours.__match_args__ == theirs.__match_args__


def test_hashes() -> None:
    """Frozen records have hashes, those that can change have none, and without `eq` they are themselves."""
    _, ours = PAIRS[0]
    assert hash(ours(1, c=())) == hash(ours(1, c=()))
    assert hash(ours(1, c=())) != hash(ours(2, c=()))
    with pytest.raises(TypeError, match="unhashable"):
        hash(PAIRS[1][1](1))
    assert hash(PAIRS[2][1](name="n")) != hash(PAIRS[2][1](name="n"))
    assert len({PAIRS[5][1](), PAIRS[5][1]()}) == 1


def test_frozen() -> None:
    value = PAIRS[0][1](1)
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'a'"):
        value.a = 2
    with pytest.raises(FrozenInstanceError, match="cannot delete field 'a'"):
        del value.a
    with pytest.raises(FrozenInstanceError):
        value.unknown = 2


def test_methods_and_defaults_stay() -> None:
    ours = PAIRS[0][1]
    assert ours(3).twice() == 6
    assert ours(1).c is not ours(1).c, "a factory is called each time"
    assert repr(PAIRS[3][1](name="n", more=1)) == "<n>", "what the class says itself stays"
    match ours(1, "x"):
        case ours(a, b):
            assert (a, b) == (1, "x")
    ours(0)
    assert list(inspect.signature(ours).parameters) == ["a", "b", "c", "d"], "once it was called"


@records.record(frozen=True, slots=True)
class Kept:
    """One that can be found by its name."""

    a: int
    b: Any = None


def test_copies() -> None:
    value = Kept(1, [2])
    assert replace(value, a=3) == Kept(3, [2])
    assert value == Kept(1, [2])
    assert pickle.loads(pickle.dumps(value)) == value
    copied = copy.deepcopy(value)
    assert copied == value and copied.b is not value.b
    with pytest.raises(TypeError, match="unexpected keyword argument 'c'"):
        replace(value, c=1)


@pytest.mark.parametrize("option", ["init", "repr", "compare"])
def test_options_that_would_be_ignored_are_refused(option: str) -> None:
    with pytest.raises(TypeError, match="field 'a' of Odd: fields of records only have defaults"):

        @records.record
        class Odd:
            a: int = field(default=0, **{option: False})  # type: ignore[call-overload]
