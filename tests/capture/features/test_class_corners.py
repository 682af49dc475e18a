"""Classes in captured code: corners where several features meet."""

# ruff: noqa: C417, UP042

from __future__ import annotations

import contextlib
import enum
import functools
import operator
from typing import Any, Generic, NamedTuple, Protocol, TypeVar, runtime_checkable

from tests.capture.features.harness import check, tensor


class Base:
    count = 0
    registry: list = []

    def __init__(self, x=0):
        self.x = x

    def run(self):
        return self.x


def test_class_of_an_object_changed_inside() -> None:
    class A(Base):
        def run(self):
            return self.x + 1

    class B(Base):
        def run(self):
            return self.x + 2

    def f(x):
        a = A(x)
        y = a.run()
        a.__class__ = B
        return y, a.run(), a

    check(f)


def test_class_by_way_of_the_object() -> None:
    class A(Base):
        def clone(self):
            return type(self)(self.x * 2)

        def name(self):
            return self.__class__.__name__

    class B(A):
        pass

    check(lambda x: (B(x).clone(), B(x).name()))


def test_super_reaches_object() -> None:
    class A(Base):
        def __init__(self, x):
            super().__init__(x)
            super().__setattr__("y", x + 1)

        def get(self):
            return super().__getattribute__("y")

        def __eq__(self, o):
            return super().__eq__(o)

        def __repr__(self):
            return "A"

        __hash__ = Base.__hash__

    check(lambda x: (A(x).get(), A(x) == 3, A(x) != 3))


def test_single_object_kept_on_the_class() -> None:
    class S:
        inst = None

        def __new__(cls):
            if cls.inst is None:
                cls.inst = super().__new__(cls)
            return cls.inst

    def reset():
        S.inst = None

    check(lambda x: (S() is S(), x + 1), state=reset, frames=2)


def test_proxy_by_getattr() -> None:
    class P:
        def __init__(self, o):
            self._o = o

        def __getattr__(self, name):
            return getattr(self._o, name)

    check(lambda p: p.x + p.run(), lambda: (P(Base(tensor())),))
    check(lambda x: P(Base(x)).run() + 1)


def test_count_kept_on_the_class() -> None:
    class A(Base):
        count = 0

        def __init__(self):
            type(self).count += 1
            self.__class__.registry2 = 3

    def reset():
        A.count = 0

    check(lambda x: (A(), x + A.count), frames=2, state=reset, watch=lambda: A.count)


def test_list_kept_on_the_class() -> None:
    class A:
        items = []

    def f(x):
        A.items.append(x + 1)
        return len(A.items)

    check(f, frames=2, state=A.items.clear, watch=lambda: list(A.items))


def test_function_on_the_object() -> None:
    class A:
        def __init__(self):
            self.fn = lambda v: v * 2

    check(lambda x, a: a.fn(x), lambda: (tensor(), A()))


def test_bound_methods_compared() -> None:
    def f(x):
        a = Base(x)
        return a.run == a.run, a.run is a.run, a.run.__func__ is Base.run, a.run.__self__ is a, x + 1

    check(f)


def test_hasattr_lets_other_errors_through() -> None:
    class A:
        @property
        def p(self):
            raise ValueError("p")

    def f(x):
        try:
            hasattr(A(), "p")
        except ValueError as e:
            return x + 1, str(e)

    check(f)


def test_what_classes_tell_of_themselves() -> None:
    class A(Base):
        """doc"""

        z: int = 3

    def f(x):
        return (
            A.__name__,
            A.__qualname__,
            A.__module__,
            A.__doc__,
            A.__bases__,
            A.__dict__["z"],
            x + 1,
        )

    check(f)


def test_property_changed_in_place() -> None:
    class A(Base):
        @property
        def p(self):
            return self.x

        @p.setter
        def p(self, v):
            self.x = v * 10

    def f(a):
        a.p += 1
        return a.p

    check(f, lambda: (A(tensor()),))


def test_sums_of_objects() -> None:
    class V:
        def __init__(self, v):
            self.v = v

        def __add__(self, o):
            return V(self.v + (o.v if isinstance(o, V) else o))

        __radd__ = __add__

    check(lambda x: (sum([V(x), V(x * 2)]), functools.reduce(operator.add, [V(x), V(1)])))


def test_least_and_greatest_objects() -> None:
    class V:
        def __init__(self, v):
            self.v = v

        def __lt__(self, o):
            return self.v < o.v

    def f(x):
        h = [V(3), V(1), V(2)]
        return min(h).v, sorted(h)[-1].v, max(h, key=lambda v: -v.v).v, x + 1

    check(f)


def test_float_of_a_class_made() -> None:
    class M(float):
        def double(self):
            return M(self * 2)

    check(lambda x: (M(2.0).double() * x, M(3.0)))


def test_float_of_a_class_given() -> None:
    class M(float):
        pass

    check(lambda x, m: x * m, lambda: (tensor(), M(2.0)), lambda: (tensor(), M(3.0)), frames=2)


def test_string_of_a_class_given() -> None:
    class M(str):
        pass

    check(
        lambda x, m: (x + len(m), m + "a", m == "ab"),
        lambda: (tensor(), M("ab")),
        lambda: (tensor(), M("abc")),
        frames=2,
    )


def test_integer_of_a_class_given() -> None:
    class M(int):
        pass

    check(
        lambda x, m: (x + m, m + 1, [1, 2, 3][m]),
        lambda: (tensor(), M(2)),
        lambda: (tensor(), M(1)),
        frames=2,
    )


def test_dict_of_a_class_given() -> None:
    class D(dict):
        def __getitem__(self, k):
            return super().__getitem__(k.upper())

        def __setitem__(self, k, v):
            super().__setitem__(k.upper(), v)

        def __getattr__(self, k):
            if k.upper() not in self.keys():
                raise AttributeError(k)
            return self[k]

    def f(x, d):
        d["b"] = x + 1
        return d["a"] + d.b, list(d)

    check(f, lambda: (tensor(), D(A=2.0)))


def test_list_of_a_class_given() -> None:
    class L(list):
        def __init__(self, *a):
            super().__init__(a)
            self.tag = "t"

        def first(self):
            return self[0]

    def f(x, items):
        items.append(x + 1)
        items.tag += "!"
        return items.first() * 2, items.tag, L(1, 2)

    check(f, lambda: (tensor(), L(2.0)))


def test_tuple_of_a_class() -> None:
    class T(tuple):
        def total(self):
            return sum(self)

    check(lambda x, t: (t.total() + x, T((x + 1, 2))), lambda: (tensor(), T((1, 2))))


def test_exceptions_and_their_parts() -> None:
    class E(Exception):
        def __init__(self, a, b):
            self.a, self.b = a, b

    def f(x):
        out = []
        try:
            raise E
        except TypeError as e:
            out.append(str(e))
        try:
            raise E(1, 2)
        except E as e:
            e.args = ("new",)
            out.append((str(e), e.a, e.args))
            e.__cause__ = ValueError("c")
            out.append(str(e.__cause__))
        try:
            raise ValueError("x").with_traceback(None)
        except ValueError as e:
            out.append(repr(e))
        try:
            raise OSError(2, "msg")
        except OSError as e:
            out.append((e.errno, e.strerror, str(e)))
        try:
            raise ValueError("a", 1)
        except ValueError as e:
            out.append(str(e))
        try:
            raise StopIteration(5)
        except StopIteration as e:
            out.append(e.value)
        return out, x + 1

    check(f)


def test_except_star_breaks() -> None:
    def f(x):
        y = x + 1
        try:
            raise ExceptionGroup("g", [ValueError(1), TypeError(2)])
        except* ValueError:
            y = y * 2
        except* TypeError:
            y = y * 3
        return y

    check(f, frames=1, breaks=2)


def test_context_managers_that_yield_wrongly() -> None:
    @contextlib.contextmanager
    def twice():
        yield 1
        yield 2

    @contextlib.contextmanager
    def never():
        if False:
            yield

    def f(x):
        out = []
        for cm in (twice, never):
            try:
                with cm():
                    pass
            except RuntimeError as e:
                out.append(str(e))
        return out, x + 1

    check(f)


def test_enum_with_methods_of_its_own() -> None:
    class P(enum.Enum):
        EARTH = (1, 2.0)
        MARS = (3, 4.0)

        def __init__(self, a, b):
            self.a, self.b = a, b

        @property
        def s(self):
            return self.a * self.b

        def __str__(self):
            return "P." + self.name.lower()

        @classmethod
        def _missing_(cls, v):
            return cls.MARS

    def f(x, p):
        return x * p.s, str(p), f"{p}", P((1, 2.0)), p.b, P("zz"), repr(p)

    check(f, lambda: (tensor(), P.EARTH))


def test_flags_walked() -> None:
    class F(enum.Flag):
        A = 1
        B = 2
        C = 4

    class G(enum.IntFlag):
        A = 1
        B = 2

    def f(x):
        v = F.A | F.C
        return [m.name for m in v], v.value, (G.A | G.B) + 1, F(0), F.B not in v, len(v), repr(v), x + 1

    check(f)


def test_enum_mixed_with_str() -> None:
    class S(str, enum.Enum):
        A = "a"

    check(
        lambda x, t: (t[S.A] + 1, S.A == "a", S("a") is S.A, S.A.upper(), {"a": 1}[S.A]),
        lambda: (tensor(), {"a": tensor()}),
    )


def test_named_tuple_with_its_own_new() -> None:
    class N(NamedTuple):
        a: Any
        b: int = 1

    class M(N):
        def __new__(cls, a):
            return super().__new__(cls, a * 2, 7)

        @property
        def c(self):
            return self.a + self.b

    check(lambda x: (M(x), M(x).c))


def test_generic_classes_and_protocols() -> None:
    T = TypeVar("T")

    class Bx(Generic[T]):
        def __init__(self, v: T):
            self.v = v

        def get(self) -> T:
            return self.v

    @runtime_checkable
    class HasGet(Protocol):
        def get(self): ...

    check(lambda x: (Bx(x).get() + 1, Bx[int](x).get() * 2, isinstance(Bx(x), HasGet), isinstance(3, HasGet)))


def test_wrong_type_questions() -> None:
    def f(x):
        out = []
        for a in (lambda: issubclass(3, int), lambda: isinstance(3, 3), lambda: isinstance(3)):
            try:
                a()
            except TypeError as e:
                out.append(str(e))
        return out, x + 1

    check(f)


def test_slots_inherited_with_a_dict() -> None:
    class A:
        __slots__ = ("a",)

        def __init__(self, a):
            self.a = a

    class B(A):
        __slots__ = ("b", "__dict__")

        def __init__(self, a):
            super().__init__(a)
            self.b = a * 2
            self.c = 3

    def f(b, x):
        b.a = x + 1
        b.d = 4
        return b.b + b.c, B(x + 2)

    check(f, lambda: (B(tensor()), tensor()))


def test_iterators_of_users_in_builtins() -> None:
    class C:
        def __init__(self, n):
            self.n = n

        def __iter__(self):
            return self

        def __next__(self):
            if self.n <= 0:
                raise StopIteration
            self.n -= 1
            return self.n

    def f(x):
        c = C(3)
        return (
            list(zip(C(2), "ab")),
            list(enumerate(C(2))),
            list(map(lambda a: a + 1, C(2))),
            dict(zip("ab", C(2))),
            list(iter(lambda: next(c, 0), 0)),
            set(C(2)),
            sum(C(3)),
            tuple(C(2)),
            [*C(2)],
            sorted(C(3)),
            any(C(2)),
            x + 1,
        )

    check(f)


def test_method_shadowed_and_uncovered() -> None:
    def f(x):
        b = Base(x)
        b.run = lambda: x * 5
        r = b.run()
        del b.run
        return r, b.run()

    check(f)


def test_equal_objects_in_containers() -> None:
    class V:
        def __init__(self, v):
            self.v = v

        def __eq__(self, o):
            return isinstance(o, V) and self.v == o.v

        def __hash__(self):
            return hash(self.v)

    def f(x, vs):
        return (
            V(1) in vs,
            vs.index(V(2)),
            vs.count(V(1)),
            vs == [V(1), V(2)],
            (V(1), 2) == (V(1), 2),
            {V(1), V(2)} == set(vs),
            {V(3): x + 1}[V(3)],
            {"a": V(1)} == {"a": V(1)},
            x,
        )

    check(f, lambda: (tensor(), [V(1), V(2)]))


def test_keys_that_change_are_noticed() -> None:
    class V:
        def __init__(self, v):
            self.v = v

        def __eq__(self, o):
            return self.v == o.v

        def __hash__(self):
            return hash(self.v)

    def f(x, d, k):
        return x + d[k]

    check(
        f,
        lambda: (tensor(), {V(1): 1, V(2): 2}, V(1)),
        lambda: (tensor(), {V(1): 1, V(2): 2}, V(2)),
        lambda: (tensor(), {V(2): 1, V(1): 2}, V(1)),
        frames=3,
    )


def test_getattribute_with_effects() -> None:
    class W:
        def __init__(self):
            self.n = 0
            self.v = 5

        def __getattribute__(self, name):
            if name == "v":
                object.__setattr__(self, "n", object.__getattribute__(self, "n") + 1)
            return object.__getattribute__(self, name)

    def f(x, w):
        return x + w.v + w.v, w.n, isinstance(w, int)

    check(f, lambda: (tensor(), W()))


def test_object_that_lies_about_its_class() -> None:
    class L:
        @property
        def __class__(self):
            return int

    check(lambda x: (isinstance(L(), int), isinstance(L(), L), type(L()) is L, x + 1))


def test_decorator_that_is_a_descriptor() -> None:
    class Deco:
        def __init__(self, fn):
            self.fn = fn

        def __get__(self, o, t=None):
            return functools.partial(self.fn, o) if o is not None else self

        def __call__(self, *a):
            return self.fn(*a)

    class A(Base):
        @Deco
        def go(self, k):
            return self.x * k

    check(lambda x: (A(x).go(3), A.go(A(x), 2)))


def test_class_and_static_methods_inherited() -> None:
    class A(Base):
        @classmethod
        def make(cls, *a, **k):
            return cls(*a, **k)

        @staticmethod
        def st(a, *, b=2):
            return a * b

        al = st

    class B(A):
        @classmethod
        def make(cls, *a, **k):
            return super().make(*a, **k)

    check(lambda x: (B.make(x=x + 1), B.st(x, b=3), A.al(x), B(x).make(x)))


def test_linked_objects() -> None:
    class Node:
        def __init__(self, v, nxt=None):
            self.v, self.nxt = v, nxt

        def total(self):
            return self.v + (self.nxt.total() if self.nxt else 0)

    check(lambda n: n.total(), lambda: (Node(tensor(), Node(tensor(), Node(1))),))


def test_protocols_of_an_argument() -> None:
    class V:
        def __init__(self, v):
            self.v = v

        def __iadd__(self, o):
            self.v = self.v + o
            return self

        def __getitem__(self, i):
            return self.v[i]

        def __setitem__(self, i, w):
            self.v[i] = w

        def __delitem__(self, i):
            self.d = i

        def __contains__(self, i):
            return i == 3

        def __enter__(self):
            return self.v

        def __exit__(self, *a):
            self.left = True

    def f(o):
        o += 1
        o[0] = 9.0
        del o["k"]
        with o as v:
            y = v * 2
        return y, 3 in o, o[1]

    check(f, lambda: (V(tensor()),))
