"""Errors and effects in captured code: corners where several features meet."""

# ruff: noqa: B009, B904, C416, E741, F841, SIM115

from __future__ import annotations

import contextlib
import sys
from typing import Any

import pytest

import weft
from tests.capture.features.harness import Call, check, tensor

LOG: list = []


def logged(function, *calls, **options):
    check(function, *calls, state=LOG.clear, watch=lambda: list(LOG), **options)


class Box:
    def __init__(self, **k):
        self.__dict__.update(k)


class Err(Exception):
    pass


def test_uncaught_error_through_frames_and_loops() -> None:
    def a(x):
        return b(x + 1)

    def b(x):
        y = x * 2
        for i in range(3):
            if i == 2:
                raise Err("here")
        return y

    def f(x):
        z = x - 1
        try:
            return a(z)
        finally:
            z = z + 1

    check(f, frames=0, raises=Err)


def test_uncaught_error_with_a_chain() -> None:
    def f(x):
        try:
            try:
                x + 1
                {}["a"]
            except KeyError as e:
                raise Err("b") from e
        except Err:
            raise ValueError("c")

    check(f, frames=0, raises=ValueError)


def test_uncaught_error_in_a_generator() -> None:
    def g(x):
        yield x + 1
        raise Err("g")

    def f(x):
        return [v for v in g(x)]

    check(f, frames=0, raises=Err)


def test_uncaught_error_in_a_property_in_an_operator() -> None:
    class A:
        @property
        def p(self):
            raise Err("p")

        def __add__(self, o):
            return self.p

    def f(x):
        y = x + 1
        return A() + y

    check(f, frames=0, raises=Err)


def test_uncaught_error_after_a_break_with_effects() -> None:
    def f(x, b):
        b.a = x + 1
        print("br")
        b.c = x * 2
        LOG.append(1)
        raise Err(b.c)

    logged(f, lambda: (tensor(), Box()), frames=1, breaks=1, raises=Err)


def test_uncaught_error_in_a_context() -> None:
    @contextlib.contextmanager
    def cm():
        LOG.append("in")
        try:
            yield
        finally:
            LOG.append("out")

    def f(x):
        with cm():
            y = x + 1
            raise Err("w")

    logged(f, frames=0, raises=Err)


def test_error_of_the_breaking_call_as_a_cause() -> None:
    def f(x):
        y = x + 1
        try:
            open("/no/such")
        except OSError as e:
            y = y * 2
            raise Err("from") from e

    check(f, frames=2, breaks=2, raises=Err)


def test_error_in_hand_across_a_break() -> None:
    def f(x):
        y = x + 1
        try:
            open("/no/such")
        except OSError:
            a = sys.exc_info()[0]
            y = y * 2
            print("br")
            b = sys.exc_info()[0]
            return y - 1, a is b

    check(f, frames=3, breaks=2)


def test_errors_in_hand_nested_across_a_break() -> None:
    def f(x):
        y = x + 1
        try:
            raise Err("a")
        except Err:
            try:
                open("/no/such")
            except OSError as e:
                y = y * 2
                print("br")
                return y, str(e.__context__)

    check(f, frames=2, breaks=3)


def test_error_of_an_op_after_effects() -> None:
    def f(x, b, y):
        b.a = x + 1
        LOG.append("a")
        z = x + y
        b.z = z
        return z

    logged(
        f, lambda: (tensor(), Box(), tensor()), lambda: (tensor(), Box(), weft.ones(2)), raises=RuntimeError
    )


def test_list_of_an_object_is_an_argument() -> None:
    def f(b, items, x):
        b.items.append(x + 1)
        return len(items)

    def shared():
        l = [1]
        return Box(items=l), l, tensor()

    check(f, shared, lambda: (Box(items=[1]), [1], tensor()), frames=2)
    check(f, lambda: (Box(items=[1]), [1], tensor()), shared, frames=2)


def test_positional_argument_is_a_keyword_too() -> None:
    def f(*args, **kw):
        args[0].append(kw["x"] + 1)
        kw["new"] = 1
        return len(kw), kw["l"] is args[0]

    def same():
        l = []
        return Call(l, l=l, x=tensor())

    check(f, same, lambda: Call([], l=[], x=tensor()), frames=2)


def test_argument_is_the_default() -> None:
    d = []

    def f(x, l=d):
        l.append(x + 1)
        return len(d)

    check(f, lambda: (tensor(),), lambda: (tensor(), []), lambda: (tensor(), d), frames=3, state=d.clear)


def test_object_put_into_itself() -> None:
    def f(b, x):
        b.me = b
        b.l = [b, x + 1]
        b.d = vars(b).get("a")
        return b

    check(f, lambda: (Box(a=1), tensor()))


def test_lists_swapped_between_objects() -> None:
    def f(a, b, x):
        a.l, b.l = b.l, a.l
        a.l.append(x + 1)
        return b.l

    check(f, lambda: (Box(l=[1]), Box(l=[2]), tensor()))


def test_new_list_beside_the_changed_one() -> None:
    def f(l, x):
        m = l
        l = l + [x + 1]
        m.append(2)
        return l, m

    check(f, lambda: ([1], tensor()))


def test_key_taken_out_and_put_back() -> None:
    def f(d, x):
        v = d.pop("a")
        d["a"] = v
        d["z"] = x + 1
        return list(d)

    check(f, lambda: ({"a": 1, "b": 2}, tensor()))


def test_views_of_a_dict_that_changes() -> None:
    def f(d, x):
        k = d.keys()
        i = d.items()
        d["n"] = x + 1
        return list(k), len(i), "n" in k, k

    check(f, lambda: ({"a": 1}, tensor()))


def test_who_is_which_tensor() -> None:
    def f(x, y, b):
        b.t = x
        z = x
        x = x + 1
        return z is b.t, x is z, y is z, [x, y, z]

    def same():
        t = tensor()
        return t, t, Box()

    check(f, same, lambda: (tensor(), tensor(), Box()), frames=2)


def test_tensor_in_a_list_written_in_place() -> None:
    def f(l, x):
        t = l[0]
        l[0] += 1
        t.mul_(2)
        x[0] = 5.0
        return t is l[0], t + x

    check(f, lambda: ([tensor()], tensor()))


def test_parameter_under_two_names() -> None:
    class N(weft.nn.Module):
        def __init__(self):
            super().__init__()
            self.w = weft.nn.Parameter(tensor())
            self.v = self.w
            self.cache = {}

        def forward(self, x):
            self.cache["y"] = x * self.w + self.v
            return self.cache["y"].sum(), self.w is self.v

    n = N()
    check(lambda x: n(x), state=n.cache.clear, watch=lambda: dict(n.cache), frames=1)


def test_object_in_a_closure_changes() -> None:
    G = Box(n=0, hist=[])

    def reset():
        G.n = 0
        G.hist.clear()

    def f(x):
        G.n += 1
        G.hist.append(x * G.n)
        return G.hist[-1]

    check(f, *[lambda: (tensor(),)] * 4, frames=1, state=reset, watch=lambda: [G.n, list(G.hist)])


def test_class_of_an_argument_changes() -> None:
    class A:
        def run(self, x):
            return x + 1

    class B:
        def run(self, x):
            return x * 2

    check(
        lambda o, x: o.run(x),
        lambda: (A(), tensor()),
        lambda: (B(), tensor()),
        lambda: (A(), tensor()),
        frames=2,
    )


def test_type_of_an_attribute_changes() -> None:
    check(
        lambda b, x: x + b.v if b.v is not None else x,
        *[lambda v=v: (Box(v=v), tensor()) for v in (1, 2.5, None, True, 7)],
        frames=4,
    )


def test_attribute_that_comes_and_goes() -> None:
    check(
        lambda b, x: x + getattr(b, "v", 10),
        lambda: (Box(), tensor()),
        lambda: (Box(v=3), tensor()),
        lambda: (Box(), tensor()),
        frames=2,
    )


def test_length_of_a_list_changes() -> None:
    check(
        lambda l, x: x + sum(l),
        lambda: ([1, 2], tensor()),
        lambda: ([1, 2, 3], tensor()),
        lambda: ([1, 2], tensor()),
        frames=2,
    )


def test_object_as_default_changes() -> None:
    class A:
        def __init__(self):
            self.k = 2

    def make():
        a = A()

        def f(x, o=a):
            o.k += 1
            return x * o.k

        return f

    check(make(), *[lambda: (tensor(),)] * 3, frames=1, state=make)


def test_bound_method_compiled() -> None:
    class M:
        def __init__(self):
            self.n = 2

        def go(self, x):
            self.n += 1
            return x * self.n

    m = M()

    def reset():
        m.n = 2

    check(m.go, *[lambda: (tensor(),)] * 3, frames=1, state=reset, watch=lambda: m.n)


def test_callable_object_called() -> None:
    class M:
        def __init__(self):
            self.n = 2

        def __call__(self, x):
            return x * self.n

    m = M()
    check(lambda x: m(x))


def test_class_attribute_written_by_a_class_method() -> None:
    class C:
        k = 2

        @classmethod
        def up(cls):
            cls.k = cls.k + 1

    def f(x):
        C.up()
        return x * C.k

    def reset():
        C.k = 2

    check(f, *[lambda: (tensor(),)] * 3, frames=3, state=reset, watch=lambda: C.k)


def test_attribute_deleted_uncovers_that_of_the_class() -> None:
    class C:
        v = 5

    def mk():
        c = C()
        c.v = 7
        return c, tensor()

    def f(c, x):
        a = c.v
        del c.v
        return x + a, c.v, "v" in vars(c)

    check(f, mk)


def test_attribute_read_after_writes() -> None:
    def f(b, x):
        b.t = x + 1
        u = b.t
        b.t = None
        b.t = u * 2
        return getattr(b, "t"), hasattr(b, "t"), vars(b)["t"] is b.t

    check(f, lambda: (Box(), tensor()))


WRITES = {
    "pointwise": lambda x: x.add_(1),
    "scan": lambda x: x.cumsum_(0),
    "product": lambda x: x.addmm_(x, x),
    "out=": lambda x: weft.cumprod(x, 0, out=x),
    "places": lambda x: x.index_add_(0, weft.tensor([0]), weft.ones(1, 3)),
    "twice": lambda x: x.cumsum_(0).mul_(2),
}


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "native"])
@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_views_that_another_layout_refuses_leave_one_write(write: Any, backend: str) -> None:
    def f(x: Any) -> Any:
        write(x)
        return x.view(-1)

    compiled = weft.compile(f, backend=backend)
    compiled(weft.arange(9.0).reshape(3, 3))
    found = []
    for function in (f, compiled):
        x = weft.arange(9.0).reshape(3, 3).T
        with pytest.raises(RuntimeError, match="view size is not compatible"):
            function(x)
        found.append(x.tolist())
    assert found[0] == found[1]
