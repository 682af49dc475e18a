"""Sizes: whole numbers of a program that are functions of the sizes of a call.

Takes symbolic ints of a graph; gives `Size` objects, with which planning computes as with ints. One idea: a
plan is made at the sizes of one call, and all of it that depends on them is an expression; what planning has
decided from one is a condition of the plan.

# Note [Decisions on sizes]
    n + m, n * m, n // 4, least(n, 64)     expressions; the normal form is that of `weft.core.polynomials`
    n == m                                 whether they are equal for all calls: code that is right where they
                                           differ is right where they happen to be equal, so nothing is noted
    n < m, bool(n)                         decided if that is so for all calls, else by the sizes of this
    call,
                                           and a condition of the plan
    int(n), range(n), np.zeros(n)          this call's number, and a condition: the plan is for that number
    alone; in a plan for all numbers, `Asked`
    hint(n)                                this call's number, for costs, on which nothing but speed depends
    where(at_least(n, 64), 8, n // 8)      decided in each call: `at_least` and its like give a `Truth`, which
                                           is decided here, as n < m is, where Python asks for it
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from weft.core.expressions import OPERATIONS, Expression, Symbol, constant
from weft.core.polynomials import Algebra, as_constant, subtract, tree
from weft.core.symbolic import Symbolic

LARGEST: Final = 400
"""Longer expressions cost more than a plan for one size."""


class Unsettled(Exception):
    """A plan cannot be made with these sizes open."""


class Asked(Unsettled):
    """A number was asked for that a plan for all of them must not know."""


ORDERS: Final = frozenset({"lt", "le", "gt", "ge"})


class Sizes:
    """The open sizes of a plan: their values in the call for which it is made, and what was decided."""

    def __init__(self, algebra: Algebra, values: Mapping[Symbol, int], general: bool = False) -> None:
        self.algebra, self.values, self.general = algebra, values, general
        self.conditions: dict[Expression, bool] = {}
        self.known: dict[Any, Any] = {}

    def of(self, expression: Expression) -> Any:
        """The size, or the amount, that an expression is; an int if it is one for all calls."""
        if expression.kind is float:
            return Amount(self, expression, expression.evaluate(self.values))
        normal = self.algebra.polynomial(expression)
        number = as_constant(normal)
        if number is not None:
            return number
        simple = tree(normal)
        if simple.size > LARGEST:
            raise Unsettled(f"a size that is a long expression: {simple!r}")
        return Size(self, simple, simple.evaluate(self.values))

    def combined(self, op: str, left: Any, right: Any) -> Any:
        """The number that an op gives, of which at least one operand is a size or an amount of these."""
        first, second = expression(left), expression(right)
        key = op, first, second
        found = self.known.get(key)
        if found is None:
            if first.kind is second.kind is int:
                found = self.of(Expression(op, (first, second), int))
            else:
                made = Expression(op, (first, second), float)
                found = Amount(self, made, made.evaluate(self.values))
            self.known[key] = found
        return found

    def compared(self, op: str, left: Any, right: Any) -> bool:
        """The truth of a comparison: see Note [Decisions on sizes]."""
        first, second = expression(left), expression(right)
        known = self.algebra.compare(op, first, second)
        if known is not None:
            return known
        asked = Expression(op, (first, second), bool)
        truth = self.conditions.get(asked)
        if truth is None:
            truth = self.conditions[asked] = bool(asked.evaluate(self.values))
            self.learn(op, first, second, truth)
        return truth

    def decided(self, asked: Expression) -> bool:
        """The truth of an expression in this call, which is a condition of the plan."""
        truth = self.conditions.get(asked)
        if truth is None:
            truth = self.conditions[asked] = bool(asked.evaluate(self.values))
        return truth

    def learn(self, op: str, left: Expression, right: Expression, truth: bool) -> None:
        """Bounds a symbol, where a comparison is one of a multiple of it with a number."""
        if op not in ORDERS:
            return
        difference = subtract(self.algebra.polynomial(left), self.algebra.polynomial(right))
        variable = [each for each in difference if each]
        if len(variable) != 1 or len(variable[0]) != 1 or variable[0][0].op != "symbol":
            return
        factor, limit = difference[variable[0]], -difference.get((), 0)
        below = (op in ("lt", "le")) is truth
        strict = (op in ("lt", "gt")) is truth
        if factor < 0:
            factor, limit, below = -factor, -limit, not below
        one = variable[0][0].args[0]
        low, high = self.algebra.ranges.get(one, (None, None))
        if below:
            most = (limit - strict) // factor
            high = most if high is None else min(high, most)
        else:
            least_ = -((-limit - strict) // factor)
            low = least_ if low is None else max(low, least_)
        self.algebra.ranges[one] = low, high

    def settle(self, size: Size) -> int:
        """The number of this call; the plan is for it alone. Raises Asked in plans for all numbers."""
        if self.general:
            raise Asked(f"a number that is asked for: {size!r}")
        number: int = size.hint
        self.conditions[Expression("eq", (size.expression, constant(number)), bool)] = True
        return number


def expression(value: Any) -> Expression:
    if type(value) is Size or type(value) is Amount:
        known: Expression = value.expression
        return known
    if type(value) is not int and type(value) is not float:
        raise Unsettled(f"a size beside a {type(value).__name__}")
    return constant(value)


def _arithmetic(op: str) -> Any:
    def method(self: Any, other: Any) -> Any:
        return self.owner.combined(op, self, other) if type(other) in OPERANDS else NotImplemented

    return method


def _reflected(op: str) -> Any:
    def method(self: Any, other: Any) -> Any:
        return self.owner.combined(op, other, self) if type(other) in OPERANDS else NotImplemented

    return method


def _comparison(op: str) -> Any:
    def method(self: Size, other: Any) -> Any:
        if type(other) is not Size and type(other) is not int:
            return NotImplemented
        return self.owner.compared(op, self, other)

    return method


class Amount:
    """What is computed of sizes with floats: a cost, of which only whole numbers get into a program."""

    __slots__ = ("owner", "expression", "hint")

    def __init__(self, owner: Sizes, expression: Expression, hint: float) -> None:
        self.owner, self.expression, self.hint = owner, expression, hint

    __add__, __radd__ = _arithmetic("add"), _reflected("add")
    __sub__, __rsub__ = _arithmetic("sub"), _reflected("sub")
    __mul__, __rmul__ = _arithmetic("mul"), _reflected("mul")
    __truediv__, __rtruediv__ = _arithmetic("truediv"), _reflected("truediv")
    __floordiv__, __rfloordiv__ = _arithmetic("floordiv"), _reflected("floordiv")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Amount) or other.owner is not self.owner:
            return False
        return bool(self.expression == other.expression)

    def __hash__(self) -> int:
        return hash(self.expression)


class Truth:
    """A truth that is known only in a call; Python's `if` decides it."""

    __slots__ = ("owner", "expression", "hint")

    def __init__(self, owner: Sizes, expression: Expression, hint: bool) -> None:
        self.owner, self.expression, self.hint = owner, expression, hint

    def __bool__(self) -> bool:
        return self.owner.decided(self.expression)

    def __and__(self, other: Any) -> Any:
        return _joined("and_", self, other)

    def __or__(self, other: Any) -> Any:
        return _joined("or_", self, other)

    __rand__, __ror__ = __and__, __or__


def _joined(op: str, left: Any, right: Any) -> Any:
    """Both truths, or one of them; one that is known may settle it."""
    for one, other in ((left, right), (right, left)):
        if type(one) is bool:
            return (other if one else False) if op == "and_" else (True if one else other)
    made = Expression(op, (left.expression, right.expression), bool)
    return Truth(left.owner, made, left.hint and right.hint if op == "and_" else left.hint or right.hint)


def _asked(op: str, left: Any, right: Any) -> Any:
    """A comparison that is left to each call, where it is not known for all of them."""
    owner = next((each.owner for each in (left, right) if type(each) is Size), None)
    if owner is None:
        return PYTHON[op](left, right)
    first, second = expression(left), expression(right)
    known = owner.algebra.compare(op, first, second)
    if known is None:
        known = owner.conditions.get(Expression(op, (first, second), bool))
    if known is not None:
        return known
    return Truth(owner, Expression(op, (first, second), bool), PYTHON[op](hint(left), hint(right)))


PYTHON: Final[dict[str, Callable[..., bool]]] = {"ge": operator.ge, "eq": operator.eq}


def at_least(left: Any, right: Any) -> Any:
    """Whether a number is at least another, asked in each call."""
    return _asked("ge", left, right)


def equal(left: Any, right: Any) -> Any:
    """Whether two numbers are equal, asked in each call."""
    return _asked("eq", left, right)


def negated(truth: Any) -> Any:
    if type(truth) is not Truth:
        return not truth
    return Truth(truth.owner, Expression("not_", (truth.expression,), bool), not truth.hint)


def where(condition: Any, yes: Any, no: Any) -> Any:
    """One of two numbers, chosen in each call."""
    if same(yes, no):
        return yes
    if type(condition) is not Truth:
        return yes if condition else no
    owner: Sizes = condition.owner
    made = Expression("where", (condition.expression, expression(yes), expression(no)), int)
    return Size(owner, made, hint(yes) if condition.hint else hint(no))


def where_true(condition: Any, yes: Any, no: Any) -> Any:
    """One of two truths."""
    return (condition & yes) | (negated(condition) & no)


def settled(truth: Any, size: Any, *thresholds: int) -> Any:
    """A truth that changes at thresholds of some size: left to each call if this one is not far from them,
    else decided."""
    if type(truth) is not Truth:
        return truth
    near = min(thresholds) <= FAR * hint(size) and hint(size) <= FAR * max(thresholds)
    return truth if near else bool(truth)


FAR: Final = 64
"""How many times larger or smaller sizes may be until they are worth another plan."""


def word_of(number: Any) -> Any:
    """The bits of an open number as a double."""
    made = Expression("word", (number.expression,), int)
    return Size(number.owner, made, made.evaluate(number.owner.values))


class Size(Symbolic):
    """A whole number that is known only in a call."""

    __slots__ = ("owner", "expression", "hint", "_hash")

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return int  # as of the symbolic ints of graphs

    def __init__(self, owner: Sizes, expression: Expression, hint: int) -> None:
        self.owner, self.expression, self.hint = owner, expression, hint
        self._hash = hash(expression)

    __add__, __radd__ = _arithmetic("add"), _reflected("add")
    __sub__, __rsub__ = _arithmetic("sub"), _reflected("sub")
    __mul__, __rmul__ = _arithmetic("mul"), _reflected("mul")
    __lt__, __le__ = _comparison("lt"), _comparison("le")
    __gt__, __ge__ = _comparison("gt"), _comparison("ge")

    __truediv__, __rtruediv__ = _arithmetic("truediv"), _reflected("truediv")

    def __floordiv__(self, other: Any) -> Any:
        return divided(self, other)[0] if type(other) in NUMBERS else NotImplemented

    def __rfloordiv__(self, other: Any) -> Any:
        return divided(other, self)[0] if type(other) is int else NotImplemented

    def __mod__(self, other: Any) -> Any:
        return divided(self, other)[1] if type(other) in NUMBERS else NotImplemented

    def __rmod__(self, other: Any) -> Any:
        return divided(other, self)[1] if type(other) is int else NotImplemented

    def __divmod__(self, other: Any) -> Any:
        return divided(self, other) if type(other) in NUMBERS else NotImplemented

    def __rdivmod__(self, other: Any) -> Any:
        return divided(other, self) if type(other) is int else NotImplemented

    def __neg__(self) -> Any:
        return self.owner.combined("sub", 0, self)

    def __abs__(self) -> Any:
        return self if self >= 0 else -self

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if type(other) is not Size and type(other) is not int:
            return NotImplemented
        if type(other) is Size and other.owner is not self.owner:
            return False  # of another plan, whose numbers are no concern of this one
        return same(self, other) or self.owner.compared("eq", self, other)

    def __hash__(self) -> int:
        return self._hash

    def __bool__(self) -> bool:
        return bool(self.owner.compared("ne", self, 0))

    def __index__(self) -> int:
        return int(self.owner.settle(self))

    __int__ = __index__

    def __float__(self) -> float:
        return float(self.owner.settle(self))

    def describe(self) -> str:
        return repr(self.expression)

    __repr__ = describe

    def __deepcopy__(self, _memo: Any) -> Size:
        return self

    def __copy__(self) -> Size:
        return self


NUMBERS: Final = frozenset({int, Size})
OPEN: Final = frozenset({Size, Amount, Truth})
OPERANDS: Final = frozenset({int, float, Size, Amount})


def whole_number(value: Any) -> Any:
    """`int(value)` of a cost."""
    if type(value) is not Amount:
        return int(value) if type(value) is not Size else value
    owner: Sizes = value.owner
    return owner.of(Expression("int", (value.expression,), int))


def same(left: Any, right: Any) -> bool:
    """Whether numbers are equal in all calls; nothing is decided. Of tuples, whether all of them are."""
    if type(left) is tuple and type(right) is tuple:
        return len(left) == len(right) and all(map(same, left, right))
    if type(left) is Size and type(right) is Size:
        return left.owner is right.owner and bool(left.expression == right.expression)
    return type(left) is not Size and type(right) is not Size and bool(left == right)


def divided(left: Any, right: Any) -> tuple[Any, Any]:
    """The quotient and the rest; those of a number that is less than what divides it are known."""
    owner: Sizes = (left if type(left) is Size else right).owner
    if type(left) is int and left >= 0 and known(owner, "lt", left, right):
        return 0, left
    if type(left) is int and left < 0 and known(owner, "ge", right, -left):
        return -1, left + right
    if type(left) is Size and known(owner, "ge", left, 0) and known(owner, "lt", left, right):
        return 0, left
    return owner.combined("floordiv", left, right), owner.combined("mod", left, right)


def known(owner: Sizes, op: str, left: Any, right: Any) -> bool:
    """Whether a comparison holds in all calls; nothing is decided."""
    return owner.algebra.compare(op, expression(left), expression(right)) is True


def _extreme(op: str, builtin: Callable[..., Any], above: str) -> Callable[..., Any]:
    def among(*values: Any) -> Any:
        found = values[0]
        for value in values[1:]:
            owner = next((each.owner for each in (found, value) if type(each) in (Size, Amount)), None)
            if owner is None:
                found = builtin(found, value)
            elif Amount in (type(found), type(value)):
                found = owner.combined(op, found, value)
            elif known(owner, above, value, found):
                continue
            elif known(owner, above, found, value):
                found = value
            else:
                found = owner.combined(op, found, value)
        return found

    return among


least = _extreme("min", min, "ge")
"""The least of some numbers, with nothing decided."""
greatest = _extreme("max", max, "le")
"""The greatest of them."""


def hint(value: Any) -> Any:
    """A number for costs: see Note [Decisions on sizes]. Of a tuple, those of its numbers."""
    if type(value) in OPEN:
        return value.hint
    return tuple([hint(each) for each in value]) if isinstance(value, (tuple, list)) else value


def now(value: Any) -> Any:
    """A value with the numbers of the call for which the plan is made."""
    kind = type(value)
    if kind in OPEN:
        return value.hint
    if kind is slice:
        return slice(now(value.start), now(value.stop), now(value.step))
    return kind([now(each) for each in value]) if kind is list or kind is tuple else value


def unsimplified(op: str, left: Any, right: Any) -> Any:
    """What an op gives of numbers, as it stands: sums of many numbers have long normal forms."""
    owner = next((each.owner for each in (left, right) if type(each) is Size), None)
    found = OPERATIONS[op][0](hint(left), hint(right))
    if owner is None or (op == "add" and type(left) is int and left == 0):
        return right if owner is not None else found
    return Size(owner, Expression(op, (expression(left), expression(right)), int), found)


def is_open(value: Any) -> bool:
    """Whether a number, or one in a tuple, list or slice, depends on the sizes of a call."""
    if type(value) is slice:
        return any(map(is_open, (value.start, value.stop, value.step)))
    if isinstance(value, (tuple, list)):
        return any(map(is_open, value))
    return type(value) is Size


def is_told_late(value: object) -> bool:
    """Whether a value is a number that only a call tells."""
    return type(value) is Size or type(value) is Amount


def broadcast_shape(shapes: Sequence[tuple[Any, ...]]) -> tuple[Any, ...]:
    """The shape that tensors of these shapes have together, which is known to exist."""
    rank = max(map(len, shapes), default=0)
    found: list[Any] = [1] * rank
    for shape in shapes:
        for axis, size in enumerate(shape, rank - len(shape)):
            found[axis] = size if found[axis] == 1 else found[axis]
    return tuple(found)


class At:
    """Numbers of a plan in a call whose symbols have these values."""

    def __init__(self, values: Mapping[Symbol, int]) -> None:
        self.values = values
        self.known: dict[Expression, int] = {}

    def __call__(self, value: Any) -> Any:
        kind = type(value)
        if kind is Size or kind is Amount:
            found = self.known.get(value.expression)
            if found is None:
                found = self.known[value.expression] = value.expression.evaluate(self.values)
            return found
        if kind is tuple:
            return tuple([self(each) for each in value])
        if kind is slice:
            return slice(self(value.start), self(value.stop), self(value.step))
        return [self(each) for each in value] if kind is list else value
