"""Special methods of users' classes in captured code: operators, comparison, containers, truth and text."""

# ruff: noqa: C417, SIM300, SIM905, UP031, UP032

from __future__ import annotations

import functools
import operator
from collections.abc import Iterator
from typing import Any

from tests.capture.features.harness import check, tensor

LOG: list[str] = []


class Number:
    """Answers every arithmetic operator, and says which method ran."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __neg__(self) -> Any:
        return Number(-self.value)

    def __pos__(self) -> Any:
        return ("pos", self.value)

    def __invert__(self) -> Any:
        return ("invert", self.value)

    def __abs__(self) -> Any:
        return ("abs", self.value.abs())

    def __round__(self, digits: int = 0) -> Any:
        return ("round", digits)

    def __int__(self) -> int:
        return 4

    def __float__(self) -> float:
        return 4.5

    def __complex__(self) -> complex:
        return 1j

    def __index__(self) -> int:
        return 2


def _add_operators() -> None:
    names = "add sub mul truediv floordiv mod pow matmul and or xor lshift rshift".split()
    for name in names:

        def forward(self: Any, other: Any, name: str = name) -> Any:
            return (name, self.value * 2, other)

        def backward(self: Any, other: Any, name: str = name) -> Any:
            return ("r" + name, other, self.value + 1)

        def inplace(self: Any, other: Any, name: str = name) -> Any:
            self.value = self.value + len(name)
            return self

        for prefix, method in (("", forward), ("r", backward), ("i", inplace)):
            setattr(Number, f"__{prefix}{name}__", method)


_add_operators()


def number() -> tuple[Number]:
    return (Number(tensor()),)


def test_forward_operators() -> None:
    def f(n: Any) -> Any:
        first = n + 1, n - 1, n * 1, n / 1, n // 1, n % 1, n**1
        return first, n @ 1, n & 1, n | 1, n ^ 1, n << 1, n >> 1

    check(f, number)


def test_reflected_operators() -> None:
    def f(n: Any) -> Any:
        first = 1 + n, 1 - n, 1 * n, 1 / n, 1 // n, 1 % n, 1**n
        return first, 1 @ n, 1 & n, 1 | n, 1 ^ n, 1 << n, 1 >> n

    check(f, number)


def test_reflected_operators_of_other_builtins() -> None:
    check(lambda n: ([1] + n, "a" * n, (1,) + n, None | n), number)


def test_inplace_operators() -> None:
    def f(n: Any) -> Any:
        same = n
        n += 1
        n -= 1
        n *= 1
        n /= 1
        n //= 1
        n %= 1
        n **= 1
        n @= 1
        n &= 1
        n |= 1
        n ^= 1
        n <<= 1
        n >>= 1
        return n is same, n

    check(f, number)


def test_inplace_falls_back_to_the_operator() -> None:
    class Plain:
        def __init__(self, value: Any) -> None:
            self.value = value

        def __add__(self, other: Any) -> Any:
            return Plain(self.value + other)

        def __iadd__(self, other: Any) -> Any:
            return NotImplemented

        def __sub__(self, other: Any) -> Any:
            return Plain(self.value - other)

    def f(x: Any) -> Any:
        first = last = Plain(x)
        last += 2
        last -= 1
        return first is last, last

    check(f)


def test_inplace_on_attributes_and_items() -> None:
    def f(n: Any, d: dict[str, Any]) -> Any:
        n.value *= 2
        d["n"] += 1
        d["x"] += n.value
        return n, d

    check(f, lambda: (Number(tensor()), {"n": Number(tensor()), "x": tensor()}))


def test_unary_operators_and_conversions() -> None:
    def f(n: Any) -> Any:
        return (-n, +n, ~n, abs(n), round(n), round(n, 2), int(n), float(n), complex(n), [5, 6, 7][n])

    check(f, number)


def test_operator_module_functions() -> None:
    check(lambda n: (operator.add(n, 1), operator.neg(n), operator.index(n), operator.iadd(n, 2)), number)


class Refusing:
    def __init__(self, name: str) -> None:
        self.name = name

    def __add__(self, other: Any) -> Any:
        LOG.append(self.name + ".add")
        return NotImplemented

    def __radd__(self, other: Any) -> Any:
        LOG.append(self.name + ".radd")
        return NotImplemented

    def __lt__(self, other: Any) -> Any:
        LOG.append(self.name + ".lt")
        return NotImplemented

    def __gt__(self, other: Any) -> Any:
        LOG.append(self.name + ".gt")
        return NotImplemented

    def __eq__(self, other: Any) -> Any:
        LOG.append(self.name + ".eq")
        return NotImplemented

    __hash__ = None


class Accepting(Refusing):
    def __radd__(self, other: Any) -> Any:
        LOG.append(self.name + ".radd")
        return 5

    def __gt__(self, other: Any) -> Any:
        LOG.append(self.name + ".gt")
        return True


def logged(function: Any, *calls: Any, **options: Any) -> None:
    check(function, *calls, state=LOG.clear, watch=lambda: list(LOG), **options)


def test_not_implemented_both_ways() -> None:
    def f(x: Any) -> Any:
        a, b = Refusing("a"), Refusing("b")
        for attempt in (lambda: a + b, lambda: a < b, lambda: a + 1, lambda: 1 + a):
            try:
                attempt()
            except TypeError as error:
                LOG.append(str(error))
        return x + 1, a == b, a != b, a == 3

    logged(f)


def test_subclass_goes_first_when_reflected() -> None:
    def f(x: Any) -> Any:
        a, b = Refusing("a"), Accepting("b")
        return x * (a + b), a < b

    logged(f)


def test_comparison_by_methods() -> None:
    class Size:
        def __init__(self, size: int) -> None:
            self.size = size

        def __lt__(self, other: Any) -> bool:
            return self.size < other.size

        def __le__(self, other: Any) -> bool:
            return self.size <= other.size

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Size) and self.size == other.size

        def __hash__(self) -> int:
            return hash(self.size)

    def f(x: Any, a: Any, b: Any) -> Any:
        answers = a < b, a > b, a <= b, a >= b, a == b, a != b, a == 3, 3 != a
        return answers, sorted([b, a]), max(a, b), [a, b].index(b), x + 1

    check(f, lambda: (tensor(), Size(1), Size(2)), lambda: (tensor(), Size(2), Size(2)), frames=2)


def test_total_ordering() -> None:
    @functools.total_ordering
    class Version:
        def __init__(self, number: int) -> None:
            self.number = number

        def __eq__(self, other: Any) -> bool:
            return self.number == other.number

        def __lt__(self, other: Any) -> bool:
            return self.number < other.number

    check(lambda x: (x + 1, Version(1) >= Version(2), Version(1) <= Version(1), Version(3) > Version(2)))


def test_comparison_that_gives_tensors() -> None:
    class Lazy:
        def __init__(self, value: Any) -> None:
            self.value = value

        def __lt__(self, other: Any) -> Any:
            return self.value < other

        def __eq__(self, other: Any) -> Any:
            return self.value == other

    check(lambda x: (Lazy(x) < 2, 2 > Lazy(x), Lazy(x) == 1.0))


class Key:
    def __init__(self, name: str) -> None:
        self.name = name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Key) and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)


def test_equal_objects_as_keys_of_a_new_dict() -> None:
    def f(x: Any) -> Any:
        table = {Key("a"): x + 1, Key("b"): x + 2}
        table[Key("a")] = x * 3
        return table[Key("a")], len(table), Key("b") in table, {Key("c"), Key("c")}.__len__()

    check(f)


def test_objects_without_hash_of_their_own_as_keys() -> None:
    class Plain:
        pass

    def f(x: Any) -> Any:
        a, b = Plain(), Plain()
        table = {a: x + 1, b: x + 2}
        return table[a] * table[b], a in table, Plain() in table, {a, b, a} == {b, a}

    check(f)


def test_objects_that_existed_as_keys() -> None:
    class Plain:
        pass

    def f(x: Any, a: Any, b: Any) -> Any:
        return {a: x + 1, b: x + 2}[a]

    one = Plain()
    check(f, lambda: (tensor(), Plain(), Plain()), lambda: (tensor(), one, one), frames=2)


def test_unhashable_objects() -> None:
    def f(x: Any) -> Any:
        try:
            return {Refusing("a"): x}
        except TypeError as error:
            return x + 1, str(error)

    check(f)


class Bag:
    def __init__(self, *items: Any) -> None:
        self.items = list(items)

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.items)

    def __getitem__(self, key: Any) -> Any:
        return self.items[key]

    def __setitem__(self, key: Any, value: Any) -> None:
        self.items[key] = value

    def __delitem__(self, key: Any) -> None:
        del self.items[key]

    def __contains__(self, item: Any) -> bool:
        return any(item is each for each in self.items)

    def __reversed__(self) -> Iterator[Any]:
        return iter(self.items[::-1])


def test_container_protocol_of_an_argument() -> None:
    def f(bag: Bag) -> Any:
        bag[0] = bag[1] + 1
        del bag[2]
        total = sum(each for each in bag)
        first, *rest = bag
        return len(bag), total, first, rest, bag[0] in bag, 5 in bag, bool(bag), list(reversed(bag))

    check(f, lambda: (Bag(tensor(), tensor(), tensor()),))


def test_container_protocol_by_builtins() -> None:
    def f(x: Any) -> Any:
        bag = Bag(x, x + 1, 3)
        table = dict(enumerate(bag))
        return list(bag), tuple(bag), list(zip(bag, bag)), [*bag], table, list(map(lambda y: y * 2, bag))

    check(f)


def test_container_slices() -> None:
    check(lambda x: (Bag(x, x + 1, 3)[1:], Bag(1, 2, x + 3)[::-1]))


def test_truth_by_bool_and_len() -> None:
    class Yes:
        def __init__(self, answer: Any) -> None:
            self.answer = answer

        def __bool__(self) -> Any:
            return self.answer

    def f(x: Any) -> Any:
        answers = [bool(Yes(True)), not Yes(False), bool(Bag()), bool(Bag(1))]
        if Yes(False) or Bag():
            x = x + 1
        try:
            bool(Yes(3))
        except TypeError as error:
            answers.append(str(error))
        return answers, x * 2

    check(f)


def test_iterator_class() -> None:
    class Countdown:
        def __init__(self, start: int) -> None:
            self.left = start

        def __iter__(self) -> Any:
            return self

        def __next__(self) -> int:
            if self.left == 0:
                raise StopIteration
            self.left -= 1
            return self.left

    def f(x: Any, c: Any) -> Any:
        first = next(c)
        for number in c:
            x = x + number
            if number == 2:
                break
        return x, first, list(c), next(c, "end"), list(Countdown(3)), max(Countdown(4))

    check(f, lambda: (tensor(), Countdown(5)))


def test_iteration_by_getitem_alone() -> None:
    class Squares:
        def __getitem__(self, position: int) -> int:
            if position > 3:
                raise IndexError(position)
            return position * position

    check(lambda x: ([x * n for n in Squares()], list(Squares()), 4 in Squares(), 5 in Squares()))


def test_membership_by_iteration() -> None:
    class Listed:
        def __iter__(self) -> Iterator[int]:
            yield 1
            yield 2

    check(lambda x: (2 in Listed(), 3 not in Listed(), x + 1))


def test_not_iterable() -> None:
    def f(x: Any) -> Any:
        try:
            for _ in Number(x):
                pass
        except TypeError as error:
            return x + 1, str(error)

    check(f)


def test_length_that_is_wrong() -> None:
    class Odd:
        def __init__(self, length: Any) -> None:
            self.length = length

        def __len__(self) -> Any:
            return self.length

    def f(x: Any) -> Any:
        texts = []
        for length in (-1, "a", 2.0):
            try:
                texts.append(len(Odd(length)))
            except (TypeError, ValueError) as error:
                texts.append((type(error), str(error)))
        return texts, x + 1

    check(f)


def test_text_of_objects() -> None:
    class Named:
        def __init__(self, name: str) -> None:
            self.name = name

        def __str__(self) -> str:
            return "str " + self.name

        def __repr__(self) -> str:
            return f"Named({self.name!r})"

        def __format__(self, specification: str) -> str:
            return f"<{self.name:{specification}}>"

    def f(x: Any, n: Any) -> Any:
        texts = str(n), repr(n), f"{n}", f"{n!r}", f"{n:>6}", format(n), f"{[n]}", str({"a": n})
        return texts, "%s %r" % (n, n), "{} {!r} {.name}".format(n, n, n), x + 1

    check(f, lambda: (tensor(), Named("a")), lambda: (tensor(), Named("b")), frames=2)


def test_text_falls_back_to_repr() -> None:
    class Only:
        def __repr__(self) -> str:
            return "only"

    check(lambda x: (str(Only()), f"{Only()}", f"{Only()!s:>6}", x + 1))


def test_getitem_with_many_keys_and_ellipsis() -> None:
    class Grid:
        def __getitem__(self, key: Any) -> Any:
            return key

    check(lambda x: (Grid()[1, 2], Grid()[..., 1:2], Grid()[()], x + 1))


def test_special_methods_are_looked_up_on_the_class() -> None:
    class Plain:
        def __len__(self) -> int:
            return 1

    def f(x: Any) -> Any:
        p = Plain()
        p.__len__ = lambda: 9
        p.__call__ = lambda: 9
        return len(p), callable(p), x + 1

    check(f)


def test_special_methods_as_static_and_class_methods() -> None:
    class Odd:
        @staticmethod
        def __call__(x: Any) -> Any:
            return x + 1

        @classmethod
        def __len__(cls) -> int:
            return len(cls.__name__)

    check(lambda x: (Odd()(x), len(Odd())))


def test_callable_attributes_as_operators() -> None:
    class Adder:
        def __call__(self, left: Any, right: Any) -> Any:
            return ("added", right)

    class Owner:
        __add__ = functools.partialmethod(lambda self, extra, other: (extra, other), 7)

    check(lambda x: (Owner() + 3, x + 1))


def test_divmod_pow_and_hash() -> None:
    class Whole:
        def __divmod__(self, other: Any) -> Any:
            return ("divmod", other)

        def __rdivmod__(self, other: Any) -> Any:
            return ("rdivmod", other)

        def __pow__(self, other: Any, modulus: Any = None) -> Any:
            return ("pow", other, modulus)

    check(lambda x: (divmod(Whole(), 2), divmod(2, Whole()), pow(Whole(), 2), pow(Whole(), 2, 5), x + 1))


def test_hash_called() -> None:
    check(lambda x: (hash(Key("a")) == hash("a"), hash((1, Key("a"))) == hash((1, Key("a"))), x + 1))


def test_tensor_operators_with_objects() -> None:
    class Wrapped:
        def __init__(self, value: Any) -> None:
            self.value = value

        def __radd__(self, other: Any) -> Any:
            return ("radd", other * self.value)

        def __rmatmul__(self, other: Any) -> Any:
            return ("rmatmul", other * self.value)

        def __getattr__(self, name: str) -> Any:
            raise AttributeError(name)

    def f(x: Any) -> Any:
        try:
            return x + Wrapped(2)
        except TypeError:
            return x * 3

    check(f)
