"""What the tests of guards share: objects that tell when they are asked, and all forms at once."""

from __future__ import annotations

import json
import math
import struct
import textwrap
from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from hypothesis import strategies as st

import weft
from weft.capture.checking import Checks
from weft.capture.entry_cache.read import EntryReader
from weft.capture.entry_cache.write import EntryWriter
from weft.capture.guards import Guard, GuardSet, TensorFacts, holds
from weft.capture.guards.rendering import guarded, render_guards
from weft.capture.reading import FUNCTION, MISS, Reader
from weft.capture.shortcut import settle, with_types
from weft.capture.sources import local
from weft.core.checks import satisfied
from weft.core.expressions import Symbol
from weft.core.slices import PresentCall
from weft.native.entry.entry import NEVER, Layout
from weft.native.entry.factory import Machine
from weft.tensor.base import Parameter, Tensor
from weft.tensor.tape import INFERENCE
from weft.tensor.views import View

X, Y, Z = local("x"), local("y"), local("z")
HIT = "hit"


class Liar:
    """Equal to everything, of every length, and it tells when it is asked."""

    asked: list[str] = []

    def __eq__(self, other: object) -> bool:
        Liar.asked.append("eq")
        return True

    __hash__ = None  # type: ignore[assignment]

    def __len__(self) -> int:
        Liar.asked.append("len")
        return 3

    def __bool__(self) -> bool:
        Liar.asked.append("bool")
        return True


class Raiser:
    def __eq__(self, other: object) -> bool:
        Liar.asked.append("raiser")
        raise RuntimeError("no")

    def __hash__(self) -> int:
        return 12345


class MyInt(int): ...


class MyStr(str): ...


class MyFloat(float): ...


class MyDict(dict[Any, Any]):
    def __iter__(self) -> Any:
        Liar.asked.append("iter")
        return iter(["a", "b"])

    def __len__(self) -> int:
        Liar.asked.append("len")
        return 2

    def __contains__(self, key: object) -> bool:
        Liar.asked.append("contains")
        return True


class MyList(list[Any]):
    def __len__(self) -> int:
        Liar.asked.append("len")
        return 2


class Holder:
    """An ordinary object."""


def nobody_was_asked() -> Iterator[None]:
    """The body of a fixture: fails a test in which one of these objects ran."""
    Liar.asked.clear()
    yield
    assert Liar.asked == []


def build(guards: Iterable[Guard], parameters: Iterable[str], result: str = repr(HIT)) -> Any:
    """The guards as a function of these parameters; returns `result`, or MISS. The text is at `.source`."""
    namespace: dict[str, Any] = {}
    reader = Reader([], namespace, parameters)
    render_guards(guards, reader)
    body = [*guarded(reader), f"return {result}"]
    head = f"def entry({', '.join([*parameters, f'{FUNCTION}=None'])}):\n"
    source = head + textwrap.indent("\n".join(body), "    ")
    exec(source, namespace)
    namespace["entry"].source = source
    return namespace["entry"]


MACHINE = Machine(Layout(Tensor, Parameter, View, INFERENCE), MISS, None)


def build_native(guards: Iterable[Guard], owner: Any, values: dict[str, Any], sized: bool = False) -> Any:
    """The guards as a native function of the owner and these parameters, made from this call: a tuple, or
    MISS. What stays with Python is at `.left`, the checks at `.checks`. What is refused for good has to be
    refused by Python, too.
    """
    guards = list(guards)
    checks, names = Checks(MACHINE, PresentCall(owner, values), sized), list(values)
    left = settle(checks, GuardSet(guards))
    text = build(with_types(left, checks), names)

    def rest(function: Any, *given: Any) -> Any:
        return None if text(*given, **{FUNCTION: function}) is not MISS else MISS

    try:
        native = MACHINE.make((FUNCTION, *names), checks.done, rest if left else None, [], None, [])
    except ReferenceError:  # something is gone, and nothing can hold any more
        native = lambda *_given: MISS

    def entry(function: Any, *given: Any) -> Any:
        found = native(function, *given)
        if found is NEVER:
            assert not all(holds(guard, function, dict(zip(names, given))) for guard in guards)
            found = MISS
        symbols = dict(zip([FUNCTION, *names], (function, *given), strict=True))
        known = {Symbol(name, object): value for name, value in symbols.items()}
        by_meaning = satisfied(checks.done, known) and (not left or rest(function, *given) is None)
        assert by_meaning == (found is not MISS), "machine code is something else than its meaning"
        return found

    entry.left, entry.checks = left, checks.done  # type: ignore[attr-defined]
    return entry


def check(guards: Guard | Iterable[Guard], owner: Any = None, **values: Any) -> bool:
    """Whether the guards hold, by all forms, which must agree."""
    guards = [guards] if isinstance(guards, Guard) else list(guards)
    by_reference = all(holds(guard, owner, values) for guard in guards)
    entry = build(guards, values)
    by_text = entry(**values, **{FUNCTION: owner}) is not MISS
    assert by_reference == by_text, entry.source
    for sized in (False, True):
        native = build_native(guards, owner, values, sized)
        assert by_reference == (native(owner, *values.values()) is not MISS), native.checks
    return by_reference


def kept_and_read(guard: Guard, owner: Any = None, **values: Any) -> Guard:
    """The guard as another process would read it from disk."""
    writer = EntryWriter()
    data = json.loads(json.dumps(writer.guard(guard)))
    return EntryReader({"sources": json.loads(json.dumps(writer.sources))}, owner, values).guard(data)


def facts_of(tensor: Any, *free: int) -> Guard:
    return Guard("TENSOR", X, TensorFacts.of(tensor, free))


NAN = struct.unpack("<d", b"\x01\x00\x00\x00\x00\x00\xf8\x7f")[0]
OTHER_NAN = struct.unpack("<d", b"\x02\x00\x00\x00\x00\x00\xf8\x7f")[0]


CONSTANTS: list[Any] = [
    None, True, False, 0, 1, -7, 2**80, 0.0, -0.0, 1.0, 2.5, math.inf, -math.inf, NAN, OTHER_NAN, 0j,
    complex(0.0, -0.0), 1 + 2j, "", "a", "ü'\"\n", "\ud800", b"", b"a", ..., NotImplemented, (), (1,),
    (True,), (1.0,), (1, (2, "a")), (0.0,), (-0.0,), (NAN,), range(3), range(0, 3, 2), slice(1, None),
    slice(True, None), frozenset({1}), frozenset({True}), weft.float32, weft.float64, weft.device("cpu"),
    weft.device("meta"), np.dtype("f4"), np.dtype(">f4"), np.float32(1), np.float64(1), np.int64(1),
    np.float32(-0.0), np.float32(0.0), weft.Size([1]), weft.Size([1, 2]), MyInt(1), MyStr("a"),
    MyFloat(1.0), [], [1], [True], {}, {"a": 1}, {"a": True}, {"b": 1}, {"a": 1, "b": 2}, {"b": 2, "a": 1},
    {1: 1}, {True: 1}, OrderedDict(a=1), OrderedDict([("a", 1), ("b", 2)]),
    OrderedDict([("b", 2), ("a", 1)]), {1}, {True}, deque([1]), deque([1], maxlen=2), deque([1], maxlen=3),
    [[1], [2]], [[1], [2.0]], {"a": [1, {"b": (None, 2)}]}, {"a": [1, {"b": (None, 2.0)}]},
    {"a": [1, {"b": (True, 2)}]}, MyDict(a=1), MyList([1]), list(range(30)), [*range(29), 29.0],
    {str(i): i for i in range(30)}, {(1, 2): 3}, {(1, 2.0): 3}, {None: 1},
]  # fmt: skip
FOREIGN: list[Any] = [
    Liar(),
    Raiser(),
    [Liar()],
    (Liar(),),
    {"a": Liar()},
    {Raiser(): 1},
    {"a": 1, Raiser(): 2},
]


leaves = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 3), st.sampled_from([0.0, -0.0, 1.0, 2.5, NAN, math.inf]),
    st.text("ab", max_size=2)
)  # fmt: skip
trees = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(st.sampled_from(["a", "b", "c", 1, 2, (1, "a")]), inner, max_size=3),
    ),
    max_leaves=6,
)


def exactly(value: Any) -> Any:
    """Another way to compare exactly: text of types and bits."""
    if isinstance(value, float):
        return struct.pack("<d", value)
    if isinstance(value, dict):
        return "dict", [(exactly(key), exactly(item)) for key, item in value.items()]
    if isinstance(value, (list, tuple)):
        return type(value).__name__, [exactly(item) for item in value]
    return repr(value)
