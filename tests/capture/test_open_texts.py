"""Texts made of floats that are others in every call: handed on without a break, looked into behind one."""

from __future__ import annotations

import copy
import json
import math
import sys
import warnings
from collections.abc import Callable
from typing import Any

import pytest

import weft
from weft.compiler import counters

VALUES = (0.5, 0.25, 1.75, -0.0, 1e300, math.nan, 12345.678, math.inf, 3.0, 0.1, -7.25)


class Box:
    text: Any = None
    name = 3


class Shown:
    """Its text is a float's."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __repr__(self) -> str:
        return f"{self.value:.2f}"

    def __format__(self, specification: str) -> str:
        return f"{self.value:{specification or '.3f'}}"


def handled(make: Callable[..., Any], *args: Any) -> Any:
    """What a call gives, or how it fails."""
    try:
        return make(*args)
    except TypeError as error:
        return str(error)


def told(text: str, *rest: Any, **named: Any) -> Any:
    return text, rest, named


def remade(text: str) -> str:
    return f"<{text}>"


HANDED_ON: dict[str, Callable[..., Any]] = {
    "format": lambda s, box, log: f"{s:.2f}",
    "plain": lambda s, box, log: f"a {s} b",
    "repr": lambda s, box, log: f"{s!r}",
    "str": lambda s, box, log: str(s),
    "nested": lambda s, box, log: f"{f'{s:.1f}'} {s:>10.3e}",
    "width": lambda s, box, log: f"{s:{8}.{2}f}",
    "computed": lambda s, box, log: f"{s * 2 + 1:.3f}",
    "builtin": lambda s, box, log: format(s, ".4g"),
    "containers": lambda s, box, log: [f"{s:.2f}", {"a": f"{s}"}, (f"{s:.1f}",)],
    "argument": lambda s, box, log: told(f"{s:.2f}", f"{s}", key=f"{s:.0f}"),
    "inlined": lambda s, box, log: remade(f"{s:.3f}"),
    "attribute": lambda s, box, log: setattr(box, "text", f"{s:.2f}"),
    "kind": lambda s, box, log: (isinstance(f"{s}", str), type(f"{s}") is str, f"{s:.2f}"),
    "twice": lambda s, box, log: (f"{s:.2f}", f"{s:.2f}"),
    "joined": lambda s, box, log: f"{s}{s:.1f}{'x'}{s:e}",
    "str of an object": lambda s, box, log: handled(str, Shown(s)),
    "repr of an object": lambda s, box, log: (f"{Shown(s)!r}", handled(repr, Shown(s))),
    "format of an object": lambda s, box, log: (f"{Shown(s)}", handled(format, Shown(s), ".1f")),
}
LOOKED_INTO: dict[str, Callable[..., Any]] = {
    "upper": lambda s, box, log: f"{s:.2e}".upper(),
    "length": lambda s, box, log: len(f"{s}"),
    "truth": lambda s, box, log: 1 if f"{s}" else 2,
    "not": lambda s, box, log: not f"{s}",
    "equal": lambda s, box, log: f"{s:.1f}" == "0.5",
    "equal, reflected": lambda s, box, log: "0.5" == f"{s:.1f}",  # noqa: SIM300
    "unequal": lambda s, box, log: f"{s:.1f}" != "0.5",
    "less": lambda s, box, log: f"{s:.1f}" < "1",
    "in": lambda s, box, log: "." in f"{s}",
    "in a list": lambda s, box, log: f"{s}" in ["0.5", "0.25"],
    "in a dict": lambda s, box, log: f"{s}" in {"0.5": 1},
    "key": lambda s, box, log: {f"{s}": 1},
    "item": lambda s, box, log: {"0.5": 1}.get(f"{s}", 2),
    "set": lambda s, box, log: {f"{s}"},
    "first": lambda s, box, log: f"{s}"[0],
    "iteration": lambda s, box, log: [c + c for c in f"{s}"],
    "unpacked": lambda s, box, log: [*f"{s}"],
    "added": lambda s, box, log: "a" + f"{s}",
    "added to": lambda s, box, log: f"{s}" + "a",
    "repeated": lambda s, box, log: f"{s}" * 2,
    "percent": lambda s, box, log: "%s!" % f"{s}",  # noqa: UP031
    "percent of an object": lambda s, box, log: handled(lambda: "%s!" % Shown(s)),  # noqa: UP031
    "repr of objects": lambda s, box, log: handled(str, [Shown(s)]),
    "str.format of an object": lambda s, box, log: handled("{} {!r}".format, Shown(s), [Shown(s)]),
    "ascii of an object": lambda s, box, log: handled(ascii, Shown(s)),
    "percent of a tuple": lambda s, box, log: "%s %d!" % (f"{s}", 2),  # noqa: UP031
    "formatted again": lambda s, box, log: f"{f'{s}':>30}",
    "repr of it": lambda s, box, log: f"{f'{s}'!r}",
    "repr of a list": lambda s, box, log: str([f"{s}"]),
    "str.format": lambda s, box, log: "{} {a}".format(f"{s}", a=f"{s}"),
    "join": lambda s, box, log: ", ".join([f"{s}", "a"]),
    "getattr": lambda s, box, log: getattr(box, f"{s}", 5),
    "setattr": lambda s, box, log: setattr(box, f"a{s}", 5),
    "float": lambda s, box, log: float(f"{s}") * 1,
    "int": lambda s, box, log: int(f"{s:.0f}") if math.isfinite(s) else 0,
    "append": lambda s, box, log: log.append(f"{s}"),
    "sorted": lambda s, box, log: sorted([f"{s}", "1"]),
    "max": lambda s, box, log: max(f"{s}", "1"),
    "json": lambda s, box, log: json.dumps({"a": f"{s}"}),
    "copy": lambda s, box, log: copy.copy(f"{s}"),
    "deepcopy": lambda s, box, log: copy.deepcopy([f"{s}"]),
    "bytes": lambda s, box, log: f"{s}".encode(),
    "keyword": lambda s, box, log: told("a", **{f"k{s}": 1}),
    "bad specification": lambda s, box, log: f"{s:d}",
    "raised": lambda s, box, log: (_ for _ in ()).throw(ValueError(f"bad {s}")),
    "hash": lambda s, box, log: isinstance(hash(f"{s}"), int),
    "match": lambda s, box, log: 1 if any(part == f"{s}" for part in ("0.5", "3.0")) else 2,
    "split": lambda s, box, log: f"{s:.2f}".split("."),
    "operand": lambda s, box, log: weft.einsum(f"{'i' if s == s else 'i'},i->", weft.ones(2), weft.ones(2)),
}


def run(use: Callable[..., Any], compiled: bool) -> list[Any]:
    """What each call gives, raises and leaves behind."""

    def program(x: Any, s: float, box: Any, log: list[Any]) -> Any:
        y = x * s
        text = use(s, box, log)
        return y + 1, text

    function = weft.compile(program) if compiled else program
    found: list[Any] = []
    for s in VALUES:
        box, log = Box(), []
        try:
            y, text = function(weft.ones(2), s, box, log)
            found.append((repr(y.tolist()), repr(text), type(text), vars(box), log))
        except (ValueError, TypeError, AttributeError, KeyError, OverflowError) as error:
            found.append((type(error), str(error), vars(box), log))
    return found


@pytest.mark.parametrize("name", HANDED_ON)
def test_texts_that_are_handed_on(name: str) -> None:
    weft.compiler.reset()
    counters.clear()
    assert run(HANDED_ON[name], True) == run(HANDED_ON[name], False)
    assert not counters["graph_break"] and not counters["fallbacks"]


@pytest.mark.parametrize("name", LOOKED_INTO)
def test_texts_that_are_looked_into(name: str) -> None:
    weft.compiler.reset()
    with warnings.catch_warnings():  # of too many captures, where text is a key
        warnings.simplefilter("ignore", RuntimeWarning)
        assert run(LOOKED_INTO[name], True) == run(LOOKED_INTO[name], False)


def test_one_native_entry_serves_all() -> None:
    """No call of Python's but that of `format`, once the value is known to vary."""
    calls: list[str] = []

    def called(frame: Any, event: str, function: Any) -> None:
        if event == "c_call":
            calls.append(function.__name__)

    compiled = weft.compile(lambda x, s: (x * s, f"{s:.2f}"))
    x = weft.ones(3)
    for number in range(1, 12):
        compiled(x, 1 / number)
    before = sys.getprofile()
    sys.setprofile(called)
    try:
        result = compiled(x, 0.375)
    finally:
        sys.setprofile(before)
    assert calls.count("format") == 1 and len(calls) <= 4
    assert result[0].tolist() == [0.375] * 3 and result[1] == "0.38"


def test_a_parameter_that_is_called_format() -> None:
    def program(x: Any, format: float, str: float) -> Any:
        return x * format, f"{format:.3f} {str}"

    compiled = weft.compile(program)
    for s in VALUES:
        found, expected = compiled(weft.ones(2), s, s), program(weft.ones(2), s, s)
        assert found[1] == expected[1] and repr(found[0].tolist()) == repr(expected[0].tolist())


def test_the_float_is_read_when_the_text_is_made() -> None:
    """Attributes of objects that the function changes behind it."""

    def program(x: Any, box: Any) -> Any:
        text = f"{box.scale:.3f}"
        box.scale = box.scale * 2
        return x * box.scale, text, f"{box.scale:.3f}"

    compiled = weft.compile(program)
    for s in VALUES:
        first, second = Box(), Box()
        first.scale = second.scale = s  # type: ignore[attr-defined]
        found, expected = compiled(weft.ones(2), first), program(weft.ones(2), second)
        assert found[1:] == expected[1:] and repr(vars(first)) == repr(vars(second))


def test_open_texts_are_joined() -> None:
    weft.compiler.counters.clear()

    def program(x: Any, n: int, s: float) -> Any:
        numbers = [n, n + 1]
        return (
            x * n,
            ",".join(str(each) for each in numbers),
            "; ".join([f"{n}", "of", f"{s:.2f}"]),
            "-".join(map(str, numbers)),
            ".".join(("only",)),
            "".join([]),
        )

    compiled = weft.compile(program, fullgraph=False)
    for n in range(2, 8):
        found, expected = compiled(weft.ones(2), n, n / 4), program(weft.ones(2), n, n / 4)
        assert found[0].tolist() == expected[0].tolist() and found[1:] == expected[1:]
    assert weft.compiler.counters["frames"]["ok"] == 2
    with pytest.raises(TypeError, match="sequence item 1: expected str instance, int found"):
        weft.compile(lambda x, n: (x * n, ",".join([f"{n}", n])))(weft.ones(2), 3)


def test_texts_of_whole_numbers_that_vary_are_open() -> None:
    weft.compiler.counters.clear()
    compiled = weft.compile(lambda x, n: (x * n, f"step {n} of {n + 1:4d}: {n!r} {n / 2:.3f}"))
    for n in range(2, 10):
        assert compiled(weft.ones(2), n)[1] == f"step {n} of {n + 1:4d}: {n!r} {n / 2:.3f}"
    assert weft.compiler.counters["frames"]["ok"] == 2 and not weft.compiler.counters["graph_break"]
