"""Polynomials: the normal form of integer expressions, by which equal sizes are known to be equal.

Takes int expressions, gives `{monomial: coefficient}`, a monomial being a sorted tuple of atoms: symbols, or
ops that a polynomial cannot hold. One idea: `(12 * s0) // 12 == s0` must leave no guard behind, so sums,
products and exact quotients are decided here, over Python's unbounded ints; floats never come here.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from functools import reduce
from typing import Any

from weft.core.expressions import Expression, Symbol, constant

Monomial = tuple[Expression, ...]
Polynomial = dict[Monomial, int]
Bounds = tuple[int | None, int | None]
MOST_TERMS = 24


class Algebra:
    """Normal forms under what is known of symbols: their value, the symbol they equal, their range."""

    def __init__(self) -> None:
        self.known: dict[Symbol, Expression] = {}
        self.ranges: dict[Symbol, Bounds] = {}
        self.cache: dict[Expression, Polynomial] = {}

    def copied(self, symbols: Container[Symbol]) -> Algebra:
        """Another that knows the same of these symbols, and learns for itself. Where some equal a symbol that
        is none of these, the first of them stands for it.
        """
        made = Algebra()
        made.ranges = {**self.ranges}
        standing: dict[Expression, Expression] = {}
        for one, equal in self.known.items():
            normal = tree(self.polynomial(equal))
            if all(each in symbols for each in normal.symbols):
                made.known[one] = normal
            elif one in symbols:
                own = Expression("symbol", (one,), one.kind)
                first = standing.setdefault(normal, own)
                if first is not own:
                    made.known[one] = first
                elif normal.op == "symbol":
                    made.ranges[one] = self.ranges.get(normal.args[0], (None, None))
        return made

    def learn(self, symbol: Symbol, expression: Expression) -> None:
        """From now on, the symbol is that expression (which does not hold it)."""
        self.known[symbol] = expression
        self.cache.clear()

    def polynomial(self, expression: Expression) -> Polynomial:
        found = self.cache.get(expression)
        if found is None:
            found = self.cache[expression] = self._polynomial(expression)
        return found

    def _polynomial(self, expression: Expression) -> Polynomial:
        op, args = expression.op, expression.args
        if op == "constant":
            return {(): args[0]} if args[0] else {}
        if op == "symbol":
            known = self.known.get(args[0])
            return {(expression,): 1} if known is None else self.polynomial(known)
        if expression.kind is int and all(a.kind is int for a in args):
            rule = RULES.get(op)
            if rule is not None:
                result: Polynomial | None = rule(*[self.polynomial(a) for a in args])
                if result is not None and len(result) <= MOST_TERMS:
                    return result
        return {(Expression(op, tuple(map(self.simplify, args)), expression.kind),): 1}

    def simplify(self, expression: Expression) -> Expression:
        """An equal expression: the normal form of an int if that is shorter, else with simpler arguments."""
        if expression.kind is int:
            normal = tree(self.polynomial(expression))
            return normal if normal.size < expression.size else expression
        if expression.op == "symbol":
            return self.known.get(expression.args[0], expression)
        if expression.op == "constant":
            return expression
        return Expression(expression.op, tuple(map(self.simplify, expression.args)), expression.kind)

    def bounds(self, polynomial: Polynomial) -> Bounds:
        """The least and the greatest value, None where unknown."""
        result: Bounds = (0, 0)
        for monomial, coefficient in polynomial.items():
            product: Bounds = (1, 1)
            for atom in monomial:
                product = multiply_bounds(product, self.atom_bounds(atom))
            result = add_bounds(result, multiply_bounds(product, (coefficient, coefficient)))
        return result

    def atom_bounds(self, atom: Expression) -> Bounds:
        if atom.op == "symbol":
            return self.ranges.get(atom.args[0], (None, None))
        if atom.op in ("floordiv", "mod") and all(a.kind is int for a in atom.args):
            left, right = (self.bounds(self.polynomial(a)) for a in atom.args)
            if right[0] is None or right[0] < 1:
                return None, None
            if atom.op == "mod":
                return 0, None if right[1] is None else right[1] - 1
            return quotient_bounds(left, right)
        if atom.op == "abs" and atom.args[0].kind is int:
            return 0, None
        if atom.op in ("min", "max") and all(a.kind is int for a in atom.args):
            return extreme_bounds(atom.op, [self.bounds(self.polynomial(a)) for a in atom.args])
        return None, None

    def compare(self, op: str, left: Expression, right: Expression) -> bool | None:
        """The truth of a comparison of ints for all values of the symbols, or None if it depends on them."""
        difference = subtract(self.polynomial(left), self.polynomial(right))
        known = COMPARE[op](*self.bounds(difference))
        if known is None and len(difference) > 1:
            shorter = self.without_factors(difference)
            known = None if shorter is difference else COMPARE[op](*self.bounds(shorter))
            if known is None:
                known = COMPARE[op](*self.bounds_from_least(shorter))
        return known

    def bounds_from_least(self, polynomial: Polynomial) -> Bounds:
        """Bounds of sums whose terms are large together: `a * b - a`, where b is at least 2. Over what atoms
        are more than their least, terms of one sign bound the whole."""
        if len(polynomial) > MOST_TERMS // 2 or any(len(monomial) > 4 for monomial in polynomial):
            return None, None
        more: Polynomial = {}
        for monomial, coefficient in polynomial.items():
            parts: list[tuple[Monomial, int]] = [((), coefficient)]
            for atom in monomial:
                low = self.atom_bounds(atom)[0]
                if low is None:
                    return None, None
                parts = [*[((*rest, atom), c) for rest, c in parts], *[(rest, c * low) for rest, c in parts]]
            for rest, c in parts:
                more[rest] = more.get(rest, 0) + c
        signs = {c > 0 for rest, c in more.items() if rest and c}
        known = more.get((), 0)
        return (None if False in signs else known), (None if True in signs else known)

    def without_factors(self, polynomial: Polynomial) -> Polynomial:
        """A polynomial of the same sign: without the factors of all its terms that are positive."""
        first, *others = polynomial
        for atom in first:
            low, _ = self.atom_bounds(atom)
            if low is None or low < 1:
                continue
            shorter = [_without(each, (atom,)) for each in (first, *others)]
            if None not in shorter:
                values = polynomial.values()
                found = {each: value for each, value in zip(shorter, values) if each is not None}
                return self.without_factors(found) if len(found) > 1 else found
        return polynomial


def tree(polynomial: Polynomial) -> Expression:
    """The polynomial as an expression, highest degree first."""
    total: Expression | None = None
    for monomial, coefficient in sorted(polynomial.items(), key=lambda item: (-len(item[0]), repr(item[0]))):
        size = abs(coefficient) if total is not None else coefficient
        factors = [*monomial] if monomial and size == 1 else [*monomial, constant(size)]
        term = reduce(lambda a, b: Expression("mul", (a, b), int), factors)
        if total is None:
            total = term
        else:
            total = Expression("add" if coefficient > 0 else "sub", (total, term), int)
    return constant(0) if total is None else total


def add(left: Polynomial, right: Polynomial, times: int = 1) -> Polynomial:
    result = dict(left)
    for monomial, coefficient in right.items():
        value = result.get(monomial, 0) + times * coefficient
        if value:
            result[monomial] = value
        else:
            result.pop(monomial, None)
    return result


def subtract(left: Polynomial, right: Polynomial) -> Polynomial:
    return add(left, right, -1)


def negate(polynomial: Polynomial) -> Polynomial:
    return add({}, polynomial, -1)


def multiply(left: Polynomial, right: Polynomial) -> Polynomial | None:
    if len(left) * len(right) > 4 * MOST_TERMS:
        return None
    result: Polynomial = {}
    for one, a in left.items():
        for two, b in right.items():
            result = add(result, {tuple(sorted(one + two, key=repr)): a * b})
    return result


def power(base: Polynomial, exponent: Polynomial) -> Polynomial | None:
    count = as_constant(exponent)
    if count is None or not 0 <= count <= 8:
        return None
    result: Polynomial | None = {(): 1}
    for _ in range(count):
        result = None if result is None else multiply(result, base)
    return result


def as_constant(polynomial: Polynomial) -> int | None:
    if not polynomial:
        return 0
    return polynomial[()] if len(polynomial) == 1 and () in polynomial else None


def quotient(left: Polynomial, right: Polynomial) -> Polynomial | None:
    """`left // right` where it is a polynomial (and `right` is not 0, which its op has checked)."""
    divisor = as_constant(right)
    if divisor:
        rest = {m: c for m, c in left.items() if c % divisor}
        remainder = as_constant(rest)  # (d * q + r) // d == q + r // d
        if remainder is None:
            return None
        whole = {m: c // divisor for m, c in left.items() if not c % divisor}
        return add(whole, {(): remainder // divisor} if remainder // divisor else {})
    return exact(left, right)


def remainder(left: Polynomial, right: Polynomial) -> Polynomial | None:
    divisor = as_constant(right)
    if divisor:
        rest = as_constant({m: c for m, c in left.items() if c % divisor})
        return None if rest is None else ({(): rest % divisor} if rest % divisor else {})
    return None if exact(left, right) is None else {}


def exact(left: Polynomial, right: Polynomial) -> Polynomial | None:
    """The polynomial q with `left == q * right`, if long division finds one."""
    if not right:
        return None
    lead, factor = max(right.items(), key=_order)
    result: Polynomial = {}
    for _ in range(MOST_TERMS):
        if not left:
            return result
        monomial, coefficient = max(left.items(), key=_order)
        rest = _without(monomial, lead)
        if rest is None or coefficient % factor:
            return None
        term = {rest: coefficient // factor}
        product = multiply(term, right)
        if product is None:
            return None
        result, left = add(result, term), subtract(left, product)
    return None


def _order(item: tuple[Monomial, int]) -> Any:
    return len(item[0]), repr(item[0])


def _without(monomial: Monomial, factors: Monomial) -> Monomial | None:
    left = list(monomial)
    for factor in factors:
        if factor not in left:
            return None
        left.remove(factor)
    return tuple(left)


def add_bounds(left: Bounds, right: Bounds) -> Bounds:
    low = None if left[0] is None or right[0] is None else left[0] + right[0]
    high = None if left[1] is None or right[1] is None else left[1] + right[1]
    return low, high


def multiply_bounds(left: Bounds, right: Bounds) -> Bounds:
    if None not in (*left, *right):
        ends: list[int] = [a * b for a in left for b in right]  # type: ignore[operator]
        return min(ends), max(ends)
    if left[0] is not None and left[0] == left[1]:
        left, right = right, left
    if right[0] is not None and right[0] == right[1]:  # by a constant
        low, high = (None if end is None else end * right[0] for end in left)
        return (low, high) if right[0] >= 0 else (high, low)
    if left[0] is not None and right[0] is not None and left[0] >= 0 and right[0] >= 0:
        return left[0] * right[0], None
    return None, None


def quotient_bounds(left: Bounds, right: Bounds) -> Bounds:
    """Of a quotient rounded down, by a divisor of at least 1."""
    least, most = right
    assert least is not None
    low, high = left
    if low is not None:
        low = low // least if low < 0 else 0 if most is None else low // most
    if high is not None:
        high = high // least if high >= 0 else -1 if most is None else high // most
    return low, high


def extreme_bounds(op: str, bounds: list[Bounds]) -> Bounds:
    """Those of a least or a greatest number."""
    lows, highs = zip(*bounds)
    near, far = (highs, lows) if op == "min" else (lows, highs)  # one bound is enough; all are needed
    one = [end for end in near if end is not None]
    all_of_them = None if None in far else (min if op == "min" else max)(far)
    if op == "min":
        return all_of_them, min(one, default=None)
    return max(one, default=None), all_of_them


def _equal(low: int | None, high: int | None) -> bool | None:
    if low == 0 == high:
        return True
    return False if (low is not None and low > 0) or (high is not None and high < 0) else None


def _less(low: int | None, high: int | None) -> bool | None:
    if high is not None and high < 0:
        return True
    return False if low is not None and low >= 0 else None


def _less_equal(low: int | None, high: int | None) -> bool | None:
    if high is not None and high <= 0:
        return True
    return False if low is not None and low > 0 else None


def _not(decide: Callable[[int | None, int | None], bool | None]) -> Callable[..., bool | None]:
    def opposite(low: int | None, high: int | None) -> bool | None:
        known = decide(low, high)
        return None if known is None else not known

    return opposite


COMPARE: Mapping[str, Callable[[int | None, int | None], bool | None]] = {
    "eq": _equal,
    "ne": _not(_equal),
    "lt": _less,
    "le": _less_equal,
    "gt": _not(_less_equal),
    "ge": _not(_less),
}
RULES: Mapping[str, Callable[..., Polynomial | None]] = {
    "add": add,
    "sub": subtract,
    "mul": multiply,
    "neg": negate,
    "pow": power,
    "floordiv": quotient,
    "mod": remainder,
}
