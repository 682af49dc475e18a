"""Methods of users that builtins call: as often, in the same order, and never unseen."""

# ruff: noqa: UP031, UP032, E741

from __future__ import annotations

from collections import Counter, defaultdict

import pytest

import weft
from tests.capture.features.harness import check, tensor

LOG: list = []


def logged(function, *calls, **options):
    check(function, *calls, state=LOG.clear, watch=lambda: list(LOG), **options)


class K:
    def __init__(self, n, how):
        self.n, self.how = n, how

    def __hash__(self):
        self.how("hash")
        return self.n % 3

    def __eq__(self, o):
        self.how("eq")
        return self.n == o.n


def test_keys_that_call_back() -> None:
    def f(x):
        y = x + 1
        d = {K(1, LOG.append): 1}
        d[K(4, LOG.append)] = 2
        return y * 2, len(d)

    logged(f, frames=1, breaks=2)


def test_keys_that_log() -> None:
    class Q:
        def __init__(self, n):
            self.n = n

        def __hash__(self):
            LOG.append("hash")
            return 1

        def __eq__(self, o):
            LOG.append("eq")
            return self.n == o.n

    def f(x):
        y = x + 1
        d = {Q(1): 1, Q(2): 2}
        return y * 2, len(d), d[Q(2)]

    logged(f, frames=2, breaks=2)


def test_keys_that_write_a_variable() -> None:
    def f(x):
        n = 0

        def bump(_):
            nonlocal n
            n += 1

        y = x + 1
        d = {K(1, bump): 1, K(4, bump): 2}
        return y * 2, n, len(d)

    check(f, frames=2, breaks=2)


def test_keys_that_take_from_an_iterator() -> None:
    def f(x):
        it = iter(range(10))
        y = x + 1
        d = {K(1, lambda _: next(it)): 1}
        return y * 2, next(it), len(d)

    check(f, frames=2, breaks=2)


def test_key_hashed_by_a_list_that_changed() -> None:
    class M:
        def __init__(self, items):
            self.items = items

        def __hash__(self):
            return hash(tuple(self.items))

        def __eq__(self, o):
            return self.items == o.items

    def f(x, m):
        m.items.append(5)
        d = {m: x + 1}
        return d[M([1, 5])]

    check(f, lambda: (tensor(), M([1])), frames=1, breaks=2)


def test_key_that_changed_before() -> None:
    class M:
        def __init__(self, n):
            self.n = n

        def __hash__(self):
            return hash(self.n)

        def __eq__(self, o):
            return self.n == o.n

    def f(x, m):
        m.n = 7
        d = {m: x + 1}
        return d[M(7)], m.n

    check(f, lambda: (tensor(), M(1)), frames=1, breaks=1)


def test_key_that_changes_after() -> None:
    class M:
        def __init__(self, n):
            self.n = n

        def __hash__(self):
            return hash(self.n)

        def __eq__(self, o):
            return self.n == o.n

    def f(x):
        m = M(1)
        d = {m: x + 1}
        m.n = 2
        return M(1) in d, M(2) in d, len(d)

    check(f)


def test_key_that_holds_a_tensor() -> None:
    class M:
        def __init__(self, t):
            self.t = t

        def __hash__(self):
            return 3

        def __eq__(self, o):
            return self.t is o.t

    def f(x):
        d = {M(x): 1}
        return d[M(x)] + x, d

    check(f)


def test_key_whose_comparison_fails() -> None:
    class M:
        def __hash__(self):
            return 3

        def __eq__(self, o):
            raise ValueError("eq")

    def f(x):
        try:
            {M(): 1, M(): 2}
        except ValueError as e:
            return x + 1, str(e)

    check(f)


def test_string_beside_an_equal_object() -> None:
    class S:
        def __hash__(self):
            return hash("a")

        def __eq__(self, o):
            LOG.append("eq")
            return o == "a"

    def f(x):
        d = {S(): 1}
        return x + d["a"]

    logged(f, frames=1, breaks=1)


def test_given_dict_with_keys_that_log() -> None:
    class S:
        def __init__(self, n):
            self.n = n

        def __hash__(self):
            LOG.append("h")
            return self.n

        def __eq__(self, o):
            return self.n == o.n

    def f(x, d):
        return x + len(d)

    def make():
        d = {S(1): 1}
        LOG.clear()
        return tensor(), d

    logged(f, make, frames=0, breaks=1)


def test_texts_are_asked_for_as_often() -> None:
    class T:
        def __str__(self):
            LOG.append("s")
            return "t"

        __repr__ = __str__

    def f(x):
        return f"{T()}", str([T(), T()]), "%s" % T(), "{}".format(T()), "{!r}".format([T()]), x + 1

    logged(f)


def test_comparisons_in_the_same_order() -> None:
    class T:
        def __init__(self, n):
            self.n = n

        def __lt__(self, o):
            LOG.append((self.n, o.n))
            return self.n < o.n

        def __gt__(self, o):
            LOG.append((self.n, o.n, ">"))
            return self.n > o.n

        def __eq__(self, o):
            LOG.append((self.n, o.n, "="))
            return self.n == o.n

    def f(x):
        ts = [T(3), T(1), T(2)]
        a = [t.n for t in sorted(ts)], min(ts).n, max(ts).n
        ts.sort(reverse=True)
        return (
            a,
            [t.n for t in ts],
            (T(1), T(2)) < (T(1), T(3)),
            [T(1)] == [T(1), T(2)],
            [T(1)] == [T(1)],
            T(2) in ts,
            ts.index(T(1)),
            ts.count(T(2)),
            x + 1,
        )

    logged(f)


def test_item_removed_by_equality() -> None:
    class T:
        def __init__(self, n):
            self.n = n

        def __eq__(self, o):
            return self.n == o.n

    def f(x, ts):
        ts.remove(T(2))
        try:
            ts.remove(T(9))
        except ValueError as e:
            return len(ts), str(e), x + 1

    check(f, lambda: (tensor(), [T(1), T(2), T(3)]))


def test_comparison_that_changes_the_object() -> None:
    class T:
        def __init__(self, n):
            self.n = n

        def __eq__(self, o):
            self.n += 1
            return False

    def f(x):
        t = T(1)
        t in [1, 2]
        [t] == [3]
        t == 5
        return t.n, x + 1

    check(f)


def test_identity_before_equality() -> None:
    nan = float("nan")

    def f(x):
        return nan in [nan], [nan] == [nan], (nan,) == (nan,), nan == nan, {nan: 1}[nan], x + 1

    check(f)


def test_sets_of_objects() -> None:
    class T:
        def __init__(self, n):
            self.n = n

        def __eq__(self, o):
            return self.n == o.n

        def __hash__(self):
            return hash(self.n)

        def __repr__(self):
            return f"T{self.n}"

    def f(x):
        a, b = {T(1), T(2)}, {T(2), T(3)}
        a.add(T(1))
        b.discard(T(3))
        return (
            len(a | b),
            len(a & b),
            len(a - b),
            len(a ^ b),
            T(2) in a & b,
            a >= b,
            frozenset([T(1)]) == {T(1)},
            sorted(t.n for t in a.union([T(9)])),
            dict.fromkeys([T(1), T(1)], 3)[T(1)],
            x + 1,
        )

    check(f)


def test_counters_and_default_dicts_of_objects() -> None:
    class T:
        def __init__(self, n):
            self.n = n

        def __eq__(self, o):
            return self.n == o.n

        def __hash__(self):
            return hash(self.n)

    def f(x):
        c = Counter([T(1), T(1), T(2)])
        d = defaultdict(list)
        d[T(1)].append(x + 1)
        d[T(1)].append(2)
        return (
            c[T(1)],
            len(c),
            len(d[T(1)]),
            d.get(T(5)),
            d.setdefault(T(6), 4),
            d.pop(T(6)),
            T(6) in d,
            {**d} == d,
        )

    check(f)


def test_indices_by_objects() -> None:
    class Index:
        def __init__(self, n):
            self.n = n

        def __index__(self):
            LOG.append("i")
            return self.n

    def f(x):
        l = [1, 2, 3]
        l[Index(0)] = 9
        return (
            l[Index(1)],
            l[Index(0) : Index(2)],
            "abc"[Index(1)],
            x[Index(1)],
            list(range(Index(2))),
            (4, 5)[Index(-1)],
            hex(Index(10)),
            x + 1,
        )

    logged(f)


def test_truth_by_objects() -> None:
    class B:
        def __init__(self, b):
            self.b = b

        def __bool__(self):
            LOG.append(self.b)
            return self.b

    def f(x):
        t, n = B(True), B(False)
        r = [
            1 if t else 2,
            1 if n else 2,
            bool(t and n),
            bool(n or t),
            not t,
            any([n, t]),
            all([t, n]),
            list(filter(None, [t, n]))[0] is t,
            [i for i in [1] if n],
        ]
        while n:
            pass
        assert t
        return r, x + 1

    logged(f)


class Counted:
    """Answers builtins with a number that is another in every call."""

    def __init__(self, n):
        self.n = n

    def __hash__(self):
        return self.n

    def __eq__(self, other):
        return self.n == other.n

    def __int__(self):
        return self.n > 3

    def __float__(self):
        return self.n


@pytest.mark.parametrize(
    "use",
    [
        lambda n: hash(Counted(n)),
        lambda n: hash((Counted(n), 2)),
        lambda n: {Counted(n): 1}[Counted(n)],
        lambda n: {(1, Counted(n)): 1}[1, Counted(n)],
        lambda n: int(Counted(n)),
        lambda n: float(Counted(n)),
    ],
)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore:weft.compile built programs")
def test_numbers_that_vary_are_answers_to_builtins(use):
    def f(x, n):
        y = x * n
        try:
            return y, use(n)
        except TypeError as error:
            return y, str(error)

    compiled = weft.compile(f)
    for n in (1, 2, -1, 5):
        found, wanted = compiled(tensor(2.0), n), f(tensor(2.0), n)
        assert repr(found) == repr(wanted)


SHARED: dict = {}


class Appends:
    def __hash__(self):
        LOG.append(SHARED)
        return 1


APPENDS = Appends()


def test_what_was_put_into_a_list_stays_there_where_it_cannot_be_opened() -> None:
    def looks_up(x):
        y = x + 1
        return y, {APPENDS: 2}[hash((APPENDS,))]

    def compares(x):
        y = x + 1
        return y, {APPENDS: 2} == hash((APPENDS,))  # noqa: SIM300 - the dict is read before the call

    logged(looks_up, frames=None, breaks=None, raises=KeyError)
    logged(compares, frames=None, breaks=None)
