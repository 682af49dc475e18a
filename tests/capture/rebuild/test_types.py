"""Every class that emitted code can build: type, contents and state come back."""

from __future__ import annotations

import enum
import functools
import math
import operator
import types
from collections import ChainMap, Counter, OrderedDict, UserDict, defaultdict, deque, namedtuple
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pytest

import weft
from tests.capture.segments import Segment, rebuilt, text_of
from weft.capture.rebuild.types import hashes_plainly
from weft.trace.breaks import Break


class Colour(enum.Enum):
    RED = 1


class Slotted:
    __slots__ = ("a", "b")


class SlottedChild(Slotted):
    __slots__ = ("c", "__dict__")


class Watchful:
    """Runs code on every step of an object's life, and must never be seen running it."""

    made = []

    def __new__(cls, *args):
        cls.made.append("new")
        return super().__new__(cls)

    def __init__(self, value):
        self.made.append("init")
        self.__dict__["value"] = value

    def __setattr__(self, name, value):
        self.made.append("set")

    def __getattribute__(self, name):
        if name not in ("made", "__dict__", "__class__"):
            object.__getattribute__(self, "made").append(f"get {name}")
        return object.__getattribute__(self, name)


class MyList(list):
    def append(self, item):
        raise AssertionError

    extend = __setitem__ = __iter__ = append


class MyDict(dict):
    def __setitem__(self, key, value):
        raise AssertionError

    update = keys = __iter__ = __setitem__


class MyOrdered(OrderedDict):
    def __setitem__(self, key, value):
        raise AssertionError


class MySet(set):
    def add(self, item):
        raise AssertionError

    update = add


class MyTuple(tuple):
    pass


class MyInt(int):
    def __repr__(self):
        raise AssertionError


class MyStr(str):
    __slots__ = ()


Point = namedtuple("Point", "x y")


class Named(NamedTuple):
    x: int
    y: int = 2


@dataclass
class Data:
    x: int
    items: list = field(default_factory=list)


@dataclass(frozen=True)
class Frozen:
    x: int


@dataclass(frozen=True, slots=True)
class FrozenSlots:
    x: int


class Hashing:
    def __hash__(self):
        raise AssertionError


class Fault(Exception):
    def __init__(self, code, detail):
        super().__init__(code)
        self.detail = detail


PLAIN = [
    None, True, 0, -1, 2**70, 1.5, -0.0, math.inf, 1j, "text", "\ud800", b"bytes", ..., NotImplemented, int,
    Colour.RED, weft.float32, weft.device("cpu"), np.float32(2), np.dtype("f4"), math, len, math.sqrt,
    range(2, 9, 3), (), (1, (2, "x")), [], [1, [2]], {}, {"b": 1, "a": [2]}, {1, 2}, set(), frozenset({1}),
    frozenset(), slice(1, None, 2), deque([1, 2]), deque([1, 2], maxlen=2), OrderedDict(b=1, a=2),
    defaultdict(list, a=[1]), Counter("hello"), Point(1, [2]), Named(1), Data(1, [2]), Frozen(1),
    FrozenSlots(3), bytearray(b"xy"), types.SimpleNamespace(a=1), list[int], int | None,
    operator.itemgetter(1, 2), operator.attrgetter("a.b"), operator.methodcaller("m", 1, k=2),
    MyTuple((1, 2)), MyStr("s"), types.MappingProxyType({"a": 1}),
]  # fmt: skip


@pytest.mark.parametrize("value", PLAIN, ids=lambda value: type(value).__name__)
def test_equal_and_of_the_same_class(value):
    made = rebuilt([value])[0]
    assert type(made) is type(value)
    if isinstance(value, (operator.itemgetter, operator.attrgetter, operator.methodcaller)):
        assert repr(made) == repr(value)
    else:
        assert made == value
    if isinstance(value, (dict, set)):
        assert list(made) == list(value)
    if isinstance(value, float):
        assert math.copysign(1, made) == math.copysign(1, value)


def test_not_a_number():
    assert math.isnan(rebuilt([math.nan])[0])


@pytest.mark.parametrize("value", [deque([1], maxlen=3), defaultdict(None, a=1)])
def test_what_containers_know_besides_items(value):
    made = rebuilt(value)
    assert getattr(made, "maxlen", 0) == getattr(value, "maxlen", 0)
    assert getattr(made, "default_factory", 0) is getattr(value, "default_factory", 0)


def test_subclasses_of_containers_run_none_of_their_code():
    value = MyList()
    list.extend(value, [1, 2])
    value.extra = "x"
    made = rebuilt((value,))[0]
    assert type(made) is MyList and list.__eq__(made, [1, 2]) and made.extra == "x"
    mapping = MyDict()
    dict.update(mapping, a=1)
    made = rebuilt((mapping,))[0]
    assert type(made) is MyDict and dict.__eq__(made, {"a": 1})
    ordered = MyOrdered()
    OrderedDict.__setitem__(ordered, "a", 1)
    made = rebuilt((ordered,))[0]
    assert type(made) is MyOrdered and dict(OrderedDict.items(made)) == {"a": 1}
    items = MySet()
    set.update(items, [3])
    made = rebuilt((items,))[0]
    assert type(made) is MySet and set.__eq__(made, {3})


def test_subclasses_of_values():
    made = rebuilt((MyInt(5),))[0]
    assert type(made) is MyInt and int.__eq__(made, 5)
    assert rebuilt((weft.Size([1, 2]),))[0] == weft.Size([1, 2])
    assert type(rebuilt((weft.Size([1, 2]),))[0]) is weft.Size


def test_classes_written_over_dicts():
    value = ChainMap({"a": 1}, {"b": 2})
    assert rebuilt((value,))[0] == value
    value = UserDict(a=1)
    assert rebuilt((value,))[0].data == {"a": 1}


def test_slots_set_and_unset():
    value = SlottedChild()
    value.a, value.c, value.free = 1, [2], 3
    made = rebuilt((value,))[0]
    assert type(made) is SlottedChild and (made.a, made.c, made.free) == (1, [2], 3)
    assert not hasattr(made, "b")


def test_no_code_of_the_class_runs():
    value = Watchful(3)
    Watchful.made.clear()
    made = rebuilt((value,))[0]
    assert Watchful.made == []
    assert object.__getattribute__(made, "__dict__") == {"value": 3} and type(made) is Watchful


def test_frozen_dataclasses_as_keys():
    key = Frozen(2)
    made = rebuilt({key: 1, (key, 1): 2})
    assert made == {Frozen(2): 1, (Frozen(2), 1): 2}
    assert rebuilt({FrozenSlots(1)}) == {FrozenSlots(1)}


def test_keys_whose_class_hashes_in_python_are_refused():
    key = Hashing.__new__(Hashing)
    assert not hashes_plainly(key) and not hashes_plainly((1, key)) and hashes_plainly(Colour.RED)
    with pytest.raises(Break, match="as a key"):
        text_of({(1, object()): 1} | dict.fromkeys([1])) and rebuilt(_with_key(key))


def _with_key(key):
    class Silent(dict):
        pass

    Hashing.__hash__ = object.__hash__
    try:
        return {key: 1}
    finally:
        Hashing.__hash__ = lambda self: 1


def test_functions_with_all_their_attributes():
    def f(a, b=(1,), *, c=(2,), d: int = 3) -> str:
        "text"
        return a, b, c, d

    f.tag = "x"
    f.__qualname__ = "other"
    made = rebuilt(f)
    assert made(0) == f(0) and made.__code__ is f.__code__ and made.__globals__ is f.__globals__
    assert made.__defaults__ == ((1,),) and made.__kwdefaults__ == {"c": (2,), "d": 3}
    assert made.__doc__ == "text" and made.__qualname__ == "other" and made.tag == "x"
    assert made.__annotations__ == f.__annotations__ and made.__module__ == f.__module__
    assert made.__name__ == "f"


def test_lambdas_and_wrapped_functions():
    @functools.wraps(rebuilt)
    def f():
        return 1

    made = rebuilt(f)
    assert made() == 1 and made.__wrapped__ is rebuilt and made.__name__ == "rebuilt"
    assert rebuilt(lambda x: x + 1)(2) == 3


def test_bound_methods_and_builtin_methods():
    value = [3, 1]
    made = rebuilt((value, value.append, value.__len__, value.sort))
    made[1](2)
    made[3]()
    assert made[0] == [1, 2, 3] and made[2]() == 3
    data = Data(1)
    owner, method = rebuilt((data, data.__eq__))
    assert method.__self__ is owner and method.__func__ is Data.__eq__
    assert rebuilt(dict.fromkeys) == dict.fromkeys and rebuilt(str.upper) is str.upper


def test_builtin_methods_of_subclasses_are_those_of_the_builtin():
    value = MyList()
    made = rebuilt((value, super(MyList, value).append))
    made[1](4)
    assert list.__eq__(made[0], [4])


def test_partials_properties_and_wrappers():
    made = rebuilt(functools.partial(divmod, 7))
    assert made(2) == (3, 1)
    keyword = functools.partial(sorted, key=len, reverse=True)
    keyword.tag = 1
    made = rebuilt(keyword)
    assert made(["a", "bbb"]) == ["bbb", "a"] and made.tag == 1
    odd = functools.partial(dict, **{"not a name": 1})
    assert rebuilt(odd)() == {"not a name": 1}
    made = rebuilt(staticmethod(len)), rebuilt(classmethod(len)), rebuilt(property(len, doc="d"))
    assert [type(each) for each in made] == [staticmethod, classmethod, property]
    assert made[0].__func__ is len and made[2].fget is len and made[2].__doc__ == "d"


def test_exceptions_never_raised():
    error = Fault(1, "d")
    error.__cause__ = KeyError("k")
    error.add_note("n")
    made = rebuilt(error)
    assert type(made) is Fault and made.args == (1,) and made.detail == "d" and made.__notes__ == ["n"]
    assert type(made.__cause__) is KeyError and made.__cause__.args == ("k",) and made.__suppress_context__
    assert made.__traceback__ is None


@pytest.mark.parametrize(
    "error",
    [
        ValueError(), KeyError("a", 1), StopIteration(3), SystemExit(2), OSError(2, "no", "file"),
        ImportError("m", name="n", path="p"), AttributeError("a", name="n", obj=1), NameError("x", name="y"),
        UnicodeDecodeError("utf8", b"x", 0, 1, "r"), SyntaxError("bad", ("f", 1, 2, "t")),
        ExceptionGroup("g", [ValueError(1)]), FileNotFoundError(2, "x"),
    ],
    ids=lambda error: type(error).__name__,
)  # fmt: skip
def test_builtin_exceptions(error):
    made = rebuilt((error,))[0]
    assert type(made) is type(error) and str(made) == str(error)
    assert repr(made.args) == repr(error.args)
    for name in ("value", "code", "errno", "filename", "name", "path", "obj", "reason", "lineno", "msg"):
        assert getattr(made, name, None) == getattr(error, name, None)


def test_exceptions_with_a_traceback_are_refused():
    try:
        raise ValueError
    except ValueError as error:
        caught = error
    with pytest.raises(Break, match="has a traceback"):
        rebuilt(caught)


def test_arrays_are_copied_each_time():
    value = np.arange(3.0)
    made = rebuilt([value])[0]
    made[0] = 9
    assert rebuilt([value])[0].tolist() == [0.0, 1.0, 2.0] and value[0] == 0


def test_views_of_arrays_are_refused():
    with pytest.raises(Break, match="ndarray"):
        rebuilt([np.arange(3.0)[1:]])


def test_symbols_are_computed_from_their_sources():
    from tests.capture.segments import emitted_of, outcome_of
    from weft.capture.sources import local
    from weft.capture.world import World

    outcome = outcome_of(World(), None, lambda a, b: None)
    n = outcome.scalars.symbol_int("a", 7, local("a"))
    k = outcome.scalars.symbol_float("b", 0.5, local("b"))
    outcome.value = [n, k, n // 2 * k, n > 3]
    call = emitted_of(outcome).make()
    assert call(None, 7, 0.5) == [7, 0.5, 1.5, True]
    assert call(None, 9, 0.25) == [9, 0.25, 1.0, True]


def test_symbols_where_a_parameter_hides_math():
    from tests.capture.segments import emitted_of, outcome_of
    from weft.capture.sources import local
    from weft.capture.world import World
    from weft.trace import scalars

    outcome = outcome_of(World(), None, lambda math, int: None)
    k = outcome.scalars.symbol_float("math", 2.25, local("math"))
    root = outcome.scalars.apply(math.sqrt, k)
    assert isinstance(root, scalars.SymFloat)
    outcome.value = root
    assert emitted_of(outcome).make()(None, 6.25, 1) == 2.5


def test_fakes_are_outputs_of_the_graph():
    def f(x):
        a, b = x.split(1)
        return {"a": a, "both": [b, b]}

    x = weft.arange(2.0)
    made = Segment(f, x)()
    assert made["a"].tolist() == [0.0] and made["both"][0] is made["both"][1]


def test_unstarted_and_finished_generators():
    def f(x, log):
        def numbers(n, *rest, step=1, **more):
            log.append("started")
            yield from range(0, n, step)

        waiting, done = numbers(3, 9, step=2, k=1), numbers(2)
        total = x + sum(done)
        return total, waiting, done

    log = []
    total, waiting, done = Segment(f, weft.ones(1), log)()
    assert total.tolist() == [2.0] and list(done) == [] and log == ["started"]
    assert type(waiting) is types.GeneratorType and waiting.__name__ == "numbers"
    assert list(waiting) == [0, 2] and log == ["started"] * 2


def test_started_generators():
    def f(x):
        def numbers(n):
            total = 0
            try:
                for i in range(n):
                    got = yield i + total
                    total += got or 0
            except ValueError as error:
                yield ("caught", error.args, total)
            finally:
                closed.append(total)

        closed = []
        made = numbers(4)
        first = next(made), made.send(10)
        return x + 1, made, first, closed

    eager, ours = f(weft.ones(1)), Segment(f, weft.ones(1))()
    for _, made, first, closed in (eager, ours):
        assert first == (0, 11)
        assert made.send(5) == 17
        assert made.throw(ValueError(3)) == ("caught", (3,), 15)
        assert next(made, "end") == "end" and closed == [15]


def test_generators_that_delegate():
    def f(x):
        def inner():
            got = yield 1
            yield got

        def outer():
            result = yield from inner()
            yield result

        made = outer()
        next(made)
        return x + 1, made

    _, made = Segment(f, weft.ones(1))()
    assert made.send("a") == "a" and next(made) is None and next(made, "end") == "end"


def test_generators_close_with_their_finally():
    def f(x):
        log = []

        def numbers():
            try:
                yield 1
                yield 2
            finally:
                log.append("closed")

        made = numbers()
        next(made)
        return x + 1, made, log

    _, made, log = Segment(f, weft.ones(1))()
    made.close()
    assert log == ["closed"]
