"""Guards of every kind in all their forms; sets of guards, and what they say where they miss."""

from __future__ import annotations

import gc
import types
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import pytest

import weft
from tests.capture.watchful import (
    Holder,
    Liar,
    MyDict,
    MyStr,
    X,
    Y,
    build,
    build_native,
    facts_of,
    kept_and_read,
)
from weft.capture.digests import Unkept
from weft.capture.entry_cache.write import EntryWriter
from weft.capture.guards import (
    Condition,
    Guard,
    GuardSet,
    explain_miss,
    guards_for_lookup,
    holds,
    lookup,
)
from weft.capture.guards.base import KINDS, PARTS
from weft.capture.reading import MISS
from weft.capture.sources import constant, local
from weft.core import expressions, modes
from weft.core.dtypes import get_default_dtype
from weft.tensor.base import Tensor


def test_a_set_keeps_order_and_tells_exact_constants_apart() -> None:
    guards = GuardSet([Guard("EQ", X, 1), Guard("EQ", X, True), Guard("EQ", X, 1.0), Guard("EQ", X, 1)])
    assert [guard.payload for guard in guards] == [1, True, 1.0] and len(guards) == 3
    assert Guard("EQ", X, True, where=("f.py", 1, "f")) in guards
    guards = GuardSet([Guard("EQ", X, 0.0), Guard("EQ", X, -0.0), Guard("HAS", X, 1), Guard("HAS", X, True)])
    assert len(guards) == 4
    kind = type("Local", (), {})
    assert len(GuardSet([Guard("TYPE", X, kind), Guard("TYPE", X, kind)])) == 1


def test_a_miss_explains_itself() -> None:
    guards = GuardSet([Guard("TYPE", X, Tensor), facts_of(weft.ones(2)), Guard("EQ", local("n"), 3)])
    x = weft.ones(2)
    assert explain_miss(guards, None, {"x": x, "n": 3}) is None
    told = {
        "type(L['x']) is Tensor  # actual int": {"x": 3, "n": 3},
        "L['n'] == 3  # actual 4": {"x": x, "n": 4},
        "L['n'] == 3  # actual True": {"x": x, "n": True},
        "L['n'] == 3  # actual nothing there (KeyError)": {"x": x},
        "L['x'] is Tensor(float32[2])  # actual Tensor(float32[3], requires_grad)": {
            "x": weft.ones(3, requires_grad=True),
            "n": 3,
        },
    }
    for text, values in told.items():
        assert str(explain_miss(guards, None, values)) == text


@pytest.mark.parametrize(
    ("guard", "values", "text"),
    [
        (Guard("LEN", X, 2), {"x": [1]}, "len(L['x']) == 2  # actual 1"),
        (Guard("KEYS", X, ("a",)), {"x": {"b": 1}}, "list(L['x']) == ['a']  # actual ['b']"),
        (Guard("HAS", X, "a"), {"x": {}}, "'a' in L['x']  # actual otherwise"),
        (
            Guard("EQ", X, 3),
            {"x": Liar()},
            f"L['x'] == 3  # actual an object of class {Liar.__module__}.Liar",
        ),
        (Guard("STRIDE", X, (1,)), {"x": weft.ones(2, 3)}, "L['x'].stride() == (1,)  # actual (3, 1)"),
        (Guard("FACT", X, ("is_leaf", False)), {"x": weft.ones(2)}, "L['x'].is_leaf is False  # actual True"),
        (Guard("MODE", None, False), {}, "modes == (grad=False)  # actual (grad=True)"),
        (Guard("SAME", X, Y), {"x": [], "y": []}, "L['x'] is L['y']  # actual otherwise"),
        (Guard("UNSET", X.cell()), {"x": types.CellType(3)}, "L['x'].cell_contents is unset  # actual 3"),
    ],
    ids=lambda value: value.kind if isinstance(value, Guard) else None,
)
def test_the_text_of_misses(guard: Guard, values: dict[str, Any], text: str) -> None:
    miss = explain_miss([guard], None, values)
    assert miss is not None and miss.guard is guard and str(miss) == text


def test_entries_keep_nothing_alive() -> None:
    model, x = weft.nn.Linear(2, 3), weft.ones(2)
    kind = type("Local", (weft.nn.Linear,), {"extra": property(lambda self, model=model: model)})
    other = kind(2, 3)
    guards = GuardSet(
        [Guard("IS", local("model"), model), Guard("IS", X, x), Guard("TYPE", local("other"), kind)]
    )
    guards.update(
        [
            facts_of(x),
            Guard("TENSOR", local("model").field("_parameters").item("weight"), facts_of(x).payload),
        ]
    )
    guards.update(guards_for_lookup(kind, "extra", lookup(kind, "extra")))
    entry = build(guards, ["model", "x", "other"])
    watches = [weakref.ref(model), weakref.ref(x), weakref.ref(kind), weakref.ref(other)]
    entry(model, x, other)
    del model, x, kind, other
    gc.collect()
    assert [watch() for watch in watches] == [None] * 4
    assert len(guards) > 5 and entry is not None


# -- every kind ----------------------------------------------------------------------------------------------
def helper(x: Any) -> Any:
    return x


def twin(x: Any) -> Any:
    return x + 1


class Mimic:
    """Has the code of a function where functions have it."""

    __slots__ = tuple("abcdefgh")

    def __init__(self) -> None:
        for name in self.__slots__:
            setattr(self, name, helper.__code__)


class Base: ...


class Kind(Base):
    limit = 3


@contextmanager
def patched(owner: Any, name: str, value: Any) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, name, value, raising=False)
        yield


@contextmanager
def other_bases() -> Iterator[None]:
    Kind.__bases__ = (type("Other", (Base,), {}),)
    try:
        yield
    finally:
        Kind.__bases__ = (Base,)


@contextmanager
def other_default() -> Iterator[None]:
    weft.set_default_dtype(weft.float64)
    try:
        yield
    finally:
        weft.set_default_dtype(weft.float32)


def condition(truth: bool) -> Guard:
    s0, s1 = expressions.symbol("s0", int), expressions.symbol("s1", int)
    twice = expressions.Expression("mul", (s1, expressions.constant(2)), int)
    sources = ((s0.args[0], X.size(0)), (s1.args[0], Y))
    return Guard(
        "CONDITION", None, Condition(expressions.Expression("eq", (s0, twice), bool), truth, sources)
    )


CLASS = constant("Kind", Kind)
LEAF, WIDE, EMPTY = weft.ones(2, requires_grad=True), weft.ones(2, 3), types.CellType()
DICT, LIST = Guard("TYPE", X, dict), Guard("TYPE", X, list)
ONE, TWO = [1], [1]
Values = dict[str, Any]
SAMPLES: dict[str, tuple[list[Guard], Values, list[Values | Callable[[], Any]]]] = {
    "TYPE": ([Guard("TYPE", X, int)], {"x": 3}, [{"x": True}, {"x": 3.0}, {"x": Liar()}]),
    "IS": ([Guard("IS", X, len)], {"x": len}, [{"x": abs}, {"x": None}, {"x": Liar()}]),
    "EQ": ([Guard("EQ", X, 2.5)], {"x": 2.5}, [{"x": -2.5}, {"x": 2}, {"x": Liar()}]),
    "CONTENTS": (
        [Guard("CONTENTS", X, (1, [0.0, "a"]))],
        {"x": (1, [0.0, "a"])},
        [{"x": (1, [-0.0, "a"])}, {"x": (True, [0.0, "a"])}, {"x": (1, (0.0,))}, {"x": (1, [0.0, "a"], 2)}],
    ),
    "LEN": ([LIST, Guard("LEN", X, 2)], {"x": [1, 2]}, [{"x": [1]}, {"x": (1, 2)}, {"x": Liar()}]),
    "KEYS": (
        [DICT, Guard("KEYS", X, ("a", "b"))],
        {"x": {"a": 1, "b": 2}},
        [{"x": {"b": 2, "a": 1}}, {"x": {"a": 1}}, {"x": {"a": 1, MyStr("b"): 2}}],
    ),
    "MAYBE": (
        [DICT, Guard("MAYBE", X.maybe("a", list))],
        {"x": {"a": []}},
        [{"x": {"a": ()}}, {"x": MyDict()}, {"x": {"a": None}}],
    ),
    "HAS": ([DICT, Guard("HAS", X, "a")], {"x": {"a": 1}}, [{"x": {}}, {"x": {"b": 1}}, {"x": MyDict(a=1)}]),
    "LACKS": ([DICT, Guard("LACKS", X, "a")], {"x": {"b": 1}}, [{"x": {"a": 1}}, {"x": MyDict()}]),
    "ABSENT": ([Guard("ABSENT", CLASS, "more")], {}, [lambda: patched(Kind, "more", 1)]),
    "MRO": ([Guard("MRO", CLASS, Kind.__mro__)], {}, [other_bases]),
    "TENSOR": (
        [facts_of(WIDE)],
        {"x": WIDE},
        [{"x": weft.ones(3, 3)}, {"x": weft.ones(2, 3, requires_grad=True)}, {"x": weft.nn.Parameter(WIDE)}],
    ),
    "STRIDE": (
        [facts_of(WIDE), Guard("STRIDE", X, (3, 1))],
        {"x": WIDE},
        [{"x": weft.ones(3, 2).t()}, {"x": weft.ones(2, 6)[:, ::2]}],
    ),
    "FACT": ([facts_of(LEAF), Guard("FACT", X, ("is_leaf", True))], {"x": LEAF}, [{"x": LEAF * 2}]),
    "CODE": ([Guard("CODE", X, helper.__code__)], {"x": helper}, [{"x": twin}, {"x": len}, {"x": Mimic()}]),
    "SAME": ([Guard("SAME", X, Y)], {"x": ONE, "y": ONE}, [{"x": ONE, "y": TWO}]),
    "DISTINCT": ([Guard("DISTINCT", X, [Y])], {"x": ONE, "y": TWO}, [{"x": ONE, "y": ONE}]),
    "UNSET": ([Guard("UNSET", X.cell())], {"x": EMPTY}, [{"x": types.CellType(3)}, {"x": 3}]),
    "MODE": ([Guard("MODE", None, True)], {}, [weft.no_grad, weft.inference_mode]),
    "AMBIENT": ([Guard("AMBIENT", None, (get_default_dtype, weft.float32))], {}, [other_default]),
    "CONDITION": (
        [facts_of(weft.ones(6, 2), 0), condition(True)],
        {"x": weft.ones(6, 2), "y": 3},
        [{"x": weft.ones(7, 2), "y": 3}, {"x": weft.ones(6, 2), "y": 4}, {"x": WIDE, "y": True}],
    ),
}  # fmt: skip
"""For each kind: guards of which the last is of it, a call that they let through, and calls that they do not:
other values, or what is around the call."""
PYTHON_ALONE = {"UNSET"}
"""Kinds that have no native form, and are not kept."""


def test_every_kind_is_sampled() -> None:
    assert set(SAMPLES) == set(KINDS)
    assert [guards[-1].kind for guards, _fits, _misfits in SAMPLES.values()] == list(SAMPLES)


@pytest.mark.parametrize("sized", [False, True])
@pytest.mark.parametrize("kind", SAMPLES)
def test_every_kind_in_all_its_forms(kind: str, sized: bool) -> None:
    guards, fits, misfits = SAMPLES[kind]
    text, native = build(guards, fits), build_native(guards, None, fits, sized)
    assert bool(native.left) == (kind in PYTHON_ALONE)

    def found(values: Values) -> list[bool]:
        by_meaning = all(holds(guard, None, values) for guard in guards)
        return [by_meaning, text(**values) is not MISS, native(None, *values.values()) is not MISS]

    assert found(fits) == [True] * 3
    for misfit in misfits:
        with misfit() if callable(misfit) else nullcontext():
            assert found(fits if callable(misfit) else misfit) == [False] * 3, misfit
    assert all(str(guard) for guard in guards)


@pytest.mark.parametrize("kind", SAMPLES)
def test_every_kind_is_kept_and_read(kind: str) -> None:
    guards, fits, misfits = SAMPLES[kind]
    if kind in PYTHON_ALONE:
        with pytest.raises(Unkept, match=kind):
            kept_and_read(guards[-1], None, **fits)
        with pytest.raises(Unkept, match=kind):
            KINDS[kind].form.read(None, None, None)  # type: ignore[arg-type]
        return
    again = kept_and_read(guards[-1], None, **fits)
    assert again == guards[-1] and type(again) is KINDS[kind]
    assert str(again).endswith(str(guards[-1])) or kind == "ABSENT"  # names of classes are whole ones now
    assert holds(again, None, fits)
    for misfit in misfits:
        with misfit() if callable(misfit) else nullcontext():
            values = fits if callable(misfit) else misfit
            assert holds(again, None, values) == holds(guards[-1], None, values)


@pytest.mark.parametrize("part", PARTS)
def test_a_kind_that_lacks_a_part_is_refused(part: str) -> None:
    members = {name: vars(KINDS["CODE"])[name] for name in PARTS if name != part}
    with pytest.raises(TypeError, match=f"guards of kind HALF lack {part}"):
        type("Half", (Guard,), members, kind="HALF")
    assert "HALF" not in KINDS


def test_a_kind_stands_once() -> None:
    with pytest.raises(TypeError, match="two are CODE"):
        type("Again", (KINDS["CODE"],), {}, kind="CODE")
    with pytest.raises(KeyError, match="NONE"):
        Guard("NONE", X)


def test_parameters_are_kept_as_such() -> None:
    parameter = weft.nn.Parameter(weft.ones(2))
    guard = facts_of(parameter)
    assert kept_and_read(guard, x=parameter) == guard != facts_of(weft.ones(2, requires_grad=True))
    open_size = kept_and_read(facts_of(parameter, 0), x=parameter)
    assert open_size == guard  # a program that is kept is for the sizes that it has met


def test_what_is_held_by_itself_alone_is_not_kept() -> None:
    kind = type("Local", (), {})
    for guard in (
        Guard("TYPE", X, kind), Guard("IS", X, Holder()), Guard("EQ", constant("k", kind).entry("a"), 1),
        Guard("IS", X, property(lambda self: 1)), Guard("SAME", X, constant("k", kind)),
        Guard("DISTINCT", X, [constant("k", kind)]), Guard("MRO", X, [kind, object]),
        Guard("EQ", X.slot(kind, "a"), 1), Guard("HAS", X, (1, 2)), facts_of(weft.ones(2, device="meta")),
    ):  # fmt: skip
        with pytest.raises(Unkept):
            EntryWriter().guard(guard)
    with weft.inference_mode(), pytest.raises(Unkept, match="modes"):
        EntryWriter().guard(Guard("MODE", None, modes.current()))
    text = expressions.Expression("str", (expressions.symbol("f0", float),), str)
    told = expressions.Expression("eq", (text, expressions.constant("1.0")), bool)
    with pytest.raises(Unkept, match="a condition with an expression of type str"):
        EntryWriter().guard(Guard("CONDITION", None, Condition(told, True, ((text.args[0].args[0], X),))))


def test_what_others_ask() -> None:
    """What `misses`, `verifying` and `chaining` need to know."""
    wide, open_wide = facts_of(weft.ones(1, 3)), facts_of(weft.ones(1, 3), 0)
    now = {"x": weft.ones(2, 3)}.__getitem__
    assert wide.changed(lambda _source: now("x")) == {"L['x'].size()[0]"} == wide.units()
    assert open_wide.changed(lambda _source: now("x")) == set() == open_wide.units()
    assert [wide.is_open(), open_wide.is_open(), open_wide.turn(), wide.turn()] == [False, True, 0, 2]
    number, pair = Guard("EQ", X, 1), Guard("CONTENTS", X, (1, 2.0))
    assert number.changed(lambda _source: 2) == number.units() == {"L['x']"}
    assert number.changed(lambda _source: "a") == set() == Guard("EQ", X, 2).units()
    assert pair.changed(lambda _source: (2, 3.0, "a")) == {"L['x']", "L['x'][0]", "L['x'][1]"}
    assert number.exact_sources() == [X] and pair.exact_sources() == []
    assert {kind for kind, cls in KINDS.items() if cls.tells_value} == {"EQ", "TENSOR"}
    assert {kind for kind, cls in KINDS.items() if cls.tells_type} == {"TYPE", "TENSOR", "CODE"}
    assert {kind for kind, cls in KINDS.items() if cls.around} == {"MODE", "AMBIENT"}
