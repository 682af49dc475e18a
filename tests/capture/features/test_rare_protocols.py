"""Classes in captured code: protocols, errors and metaclasses that few programs use."""

# ruff: noqa: B009, PIE804, PLE0303, PLE0304, PLE0305, PLE0307, PLE0309, PLE1132

from __future__ import annotations

import abc
import contextlib
import copy
import dataclasses
import functools
import types
from dataclasses import dataclass, field
from typing import Any

from tests.capture.features.harness import check, tensor

LOG: list = []


def logged(function, *calls, **options):
    check(function, *calls, state=LOG.clear, watch=lambda: list(LOG), **options)


def test_metaclass_that_answers_everything() -> None:
    class M(type):
        k = 3

        def __getattr__(cls, n):
            return n + "!"

        def __setattr__(cls, n, v):
            super().__setattr__(n, v)

        def __call__(cls, *a):
            return super().__call__(*a)

        def __eq__(cls, o):
            return True

        def __hash__(cls):
            return 1

        def __add__(cls, o):
            return o * 2

        def __bool__(cls):
            return False

        def __str__(cls):
            return "cls"

        def __repr__(cls):
            return "rcls"

    class A(metaclass=M):
        def __init__(self, x):
            self.x = x

    check(lambda x: (A.k, A.foo, A(x), A == 3, A + x, not A, str(A), f"{A!r}"))


def test_metaclass_with_its_own_new() -> None:
    class M(type):
        def __new__(m, name, bases, ns, tag=None):
            c = super().__new__(m, name, bases, ns)
            c.tag = tag
            return c

    class A(metaclass=M, tag="t"):
        pass

    check(lambda x: (A.tag, x + len(A.tag)))


def test_abstract_properties_and_class_methods() -> None:
    class A(abc.ABC):
        @property
        @abc.abstractmethod
        def p(self): ...
        @classmethod
        @abc.abstractmethod
        def c(cls): ...

    class B(A):
        @property
        def p(self):
            return 2

        @classmethod
        def c(cls):
            return cls.__name__

    check(lambda x: (B().p * x, B.c()))


def test_object_dict_before_other_descriptors() -> None:
    class D:
        def __get__(self, i, o):
            return "d"

    class A:
        v = D()

    def f(x):
        a = A()
        r = a.v
        a.__dict__["v"] = "i"
        return r, a.v, A.v, x + 1

    check(f)


def test_descriptor_that_checks() -> None:
    class D:
        def __set_name__(self, o, n):
            self.n = n

        def __get__(self, i, o=None):
            if i is None:
                return self
            try:
                return i.__dict__[self.n]
            except KeyError:
                raise AttributeError(self.n) from None

        def __set__(self, i, v):
            if v is None:
                raise ValueError("none")
            i.__dict__[self.n] = v

    class A:
        v = D()
        w = D()

    def f(x, a):
        out = [hasattr(a, "v")]
        a.v = x + 1
        try:
            a.w = None
        except ValueError as e:
            out.append(str(e))
        return out, a.v * 2, A.v.n

    check(f, lambda: (tensor(), A()))


def test_method_bound_by_hand() -> None:
    class A:
        def m(self):
            return 1

    def f(x):
        a = A()
        a.m = types.MethodType(lambda self: 5, a)
        return a.m(), A.m(a), x + 1

    check(f)


def test_getattr_that_gives_functions() -> None:
    class A:
        def __getattr__(self, n):
            LOG.append(n)
            return lambda *a: (n, *a)

    def f(x):
        a = A()
        return a.foo(1), a.bar(x + 1), getattr(a, "baz")(2)

    logged(f)


def test_setattr_that_counts() -> None:
    class A:
        def __setattr__(self, n, v):
            if n == "x":
                self.__dict__["n"] = self.__dict__.get("n", 0) + 1
            object.__setattr__(self, n, v)

    def f(x, a):
        a.x = x + 1
        a.x = x * 2
        a.y = 1
        return a.x, a.n

    check(f, lambda: (tensor(), A()))


def test_class_attributes_along_a_diamond() -> None:
    class A:
        v = 1

    class B(A):
        pass

    class C(A):
        v = 3

    class D(B, C):
        pass

    check(lambda x: (x + D().v, D.v, super(B, D()).v, D.mro()[2] is C))


def test_property_above_read_and_set() -> None:
    class A:
        def __init__(self):
            self._v = 0

        @property
        def v(self):
            return self._v

        @v.setter
        def v(self, n):
            self._v = n

    class B(A):
        @property
        def v(self):
            return super().v * 2

        @v.setter
        def v(self, n):
            A.v.fset(self, n + 1)

    def f(x, b):
        b.v = x
        return b.v

    check(f, lambda: (tensor(), B()))


def test_class_attributes_above() -> None:
    class A:
        names = ["a"]

        def desc(self):
            return self.names

    class B(A):
        names = ["b"]

        def desc(self):
            return super().desc() + super().names + A.names

    check(lambda x: (B().desc(), x + 1))


def test_constructors_that_pass_keywords_on() -> None:
    class A:
        def __init__(self, *, a, **k):
            super().__init__(**k)
            self.a = a

    class B:
        def __init__(self, *, b, **k):
            super().__init__(**k)
            self.b = b

    class C(A, B):
        def __init__(self, c, **k):
            super().__init__(**k)
            self.c = c

    check(lambda x: C(x + 1, a=2, b=x))


def test_dataclass_features_together() -> None:
    @dataclass
    class A:
        x: Any

        def __add__(self, o):
            return dataclasses.replace(self, x=self.x + o.x)

    @dataclass
    class B(A):
        y: int = field(default=2, kw_only=True)
        z: list = field(default_factory=lambda: [1], repr=False)

    @dataclass(eq=False)
    class Cc:
        v: int = 1

    def f(x):
        b = B(x, y=5)
        return (
            (b + B(x)).x,
            b.z,
            dataclasses.fields(B)[1].name,
            Cc() == Cc(),
            B.__match_args__,
            repr(B(1)),
            b.__dataclass_fields__["y"].default,
        )

    check(f)


def test_dataclass_computes_after_init() -> None:
    @dataclass
    class C:
        x: Any
        n: Any = None

        def __post_init__(self):
            if self.n is None:
                self.n = self.x.norm()

    check(lambda x: C(x))
    check(lambda c: c.n + dataclasses.replace(c, x=c.x * 2).n, lambda: (C(tensor()),))


def test_frozen_dataclass_sets_itself_up() -> None:
    @dataclass(frozen=True)
    class C:
        x: Any
        y: Any = None

        def __post_init__(self):
            object.__setattr__(self, "y", self.x * 2)

    check(lambda x: (C(x).y, C(x)))


def test_objects_copied() -> None:
    class C:
        def __init__(self, x):
            self.x = x
            self.l = [x]

    def f(x, c):
        d = copy.copy(c)
        d.x = x + 1
        return d.l is c.l, d, c.x

    check(f, lambda: (tensor(), C(tensor())))


def test_items_by_position_alone() -> None:
    class A:
        def __getitem__(self, i):
            if i > 2:
                raise IndexError
            return i * 10

    check(lambda x: (20 in A(), 25 in A(), list(A()), [*A()], x + 1, list(zip(A(), A())), max(A())))


def test_special_methods_that_answer_wrongly() -> None:
    class A:
        def __iter__(self):
            return 3

        def __len__(self):
            return -1

        def __bool__(self):
            return 2

        def __str__(self):
            return 3

        def __repr__(self):
            return 3

        def __index__(self):
            return "a"

        def __hash__(self):
            return "a"

        def __int__(self):
            return "a"

        def __float__(self):
            return "a"

        def __contains__(self, i):
            return "yes"

        def __format__(self, s):
            return 3

    def f(x):
        a, out = A(), []
        for t in (
            lambda: iter(a),
            lambda: len(a),
            lambda: bool(a),
            lambda: str(a),
            lambda: repr(a),
            lambda: [1][a],
            lambda: hash(a),
            lambda: int(a),
            lambda: float(a),
            lambda: 1 in a,
            lambda: f"{a}",
            lambda: {a: 1},
            lambda: range(a),
            lambda: [*a],
            lambda: list(a),
        ):
            try:
                out.append(t())
            except Exception as e:
                out.append((type(e), str(e)))
        return out, x + 1

    check(f)


def test_errors_of_wrong_calls() -> None:
    class A:
        def m(self, a, b=1, *, c):
            pass

        @staticmethod
        def s(a):
            pass

        @classmethod
        def k(cls, a):
            pass

        def __call__(self, a):
            pass

    def f(x):
        a, out = A(), []
        for t in (
            lambda: a.m(),
            lambda: a.m(1),
            lambda: a.m(1, 2, 3, c=1),
            lambda: a.m(1, c=1, d=2),
            lambda: A.m(),
            lambda: a.s(),
            lambda: a.k(),
            lambda: a(),
            lambda: A(1),
            lambda: a.zz,
            lambda: A.zz,
            lambda: object().q,
            lambda: a.m.zz,
            lambda: A.m(1, a=2, c=3, **{"a": 1}),
        ):
            try:
                out.append(t())
            except Exception as e:
                out.append((type(e), str(e)))
        return out, x + 1

    check(f)


def test_errors_of_slots() -> None:
    class A:
        __slots__ = ("a",)

    def f(x):
        a, out = A(), []

        def s():
            a.b = 1

        def d():
            del a.a

        for t in (lambda: a.a, s, d):
            try:
                out.append(t())
            except Exception as e:
                out.append((type(e), str(e)))
        a.a = x + 1
        return out, a.a

    check(f)


def test_context_in_a_loop_with_a_break() -> None:
    @contextlib.contextmanager
    def cm(n):
        LOG.append(("in", n))
        try:
            yield n
        finally:
            LOG.append(("out", n))

    def f(x):
        for i in range(3):
            with cm(i) as n:
                x = x + n
                if i == 1:
                    print("b")
        return x

    check(f, state=LOG.clear, watch=lambda: list(LOG), frames=2, breaks=2)


def test_generator_with_contexts() -> None:
    @contextlib.contextmanager
    def cm(n):
        LOG.append(("in", n))
        yield n
        LOG.append(("out", n))

    def g(x):
        with cm(1) as a:
            r = yield x + a
            with cm(2):
                yield r

    def f(x):
        it = g(x)
        a = next(it)
        b = it.send(x * 3)
        return a, b, list(it)

    logged(f)


def test_cached_property() -> None:
    class A:
        def __init__(self, x):
            self.x = x

        @functools.cached_property
        def v(self):
            LOG.append("c")
            return self.x * 2

    def f(a):
        return a.v + a.v

    logged(f, lambda: (A(tensor()),))


def test_strings_of_a_class_as_keys() -> None:
    class S(str):
        pass

    check(lambda x: ({S("a"): x + 1}["a"], S("a") == "a", S("b") in {"b": 1}))


def test_operators_with_tensors() -> None:
    class A:
        def __add__(self, o):
            return NotImplemented

        def __mul__(self, o):
            return o * 2

    def f(x):
        try:
            r = A() + x
        except TypeError as e:
            r = type(e)
        return A() * x, r

    check(f)
