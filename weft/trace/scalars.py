"""Symbolic scalars: ints and floats that a capture keeps open, and what it came to assume of them.

Takes numbers read from outside (a size, an argument) and gives `SymInt`/`SymFloat` objects that compute as
Python's own do. One idea: every such object carries a hint, the value of this very run. Whatever cannot stay
symbolic answers by the hint, and the `Scalars` that owns the object notes when that answer holds.

# Note [Conditions]
    def f(x, k):                      k = SymFloat(f0, hint 0.5), x.shape[0] = SymInt(s0, hint 8)
        n = x.shape[0]
        if n // 2 > 3: ...            conditions: s0 // 2 > 3 is True
        t = (k + 1) / n               nothing: a size is never 0
        y[n]                          static: s0 (its guard is `s0 == 8`)
A condition is an Expression of kind bool with the truth it had. Values are fit for the capture exactly when
every condition has that truth again and raises nothing, and every static symbol its value, floats by bits.

# Note [Numbers that only running can tell]
`x.item()` is a symbol without a source, `u0`, whose hint is made up so that its class is right. It computes
as others do, in the graph; whoever asks for its value gets a Break at the place where the number was made.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import BuiltinFunctionType
from typing import Any, Final

import numpy as np

from weft.core.expressions import OPERATIONS, Expression, Symbol, constant, expression_node, symbol
from weft.core.interrupts import let_through
from weft.core.polynomials import Algebra, as_constant, subtract, tree
from weft.core.symbolic import Symbolic
from weft.trace.breaks import Break
from weft.trace.fake import is_tensor

LEAST, GREATEST = -(2**63), 2**63 - 1
LARGEST_EXPRESSION = 200  # beyond it, an expression costs more than capturing again
COMPARISONS: Final = frozenset({"eq", "ne", "lt", "le", "gt", "ge"})
BITWISE: Final = frozenset({"and_", "or_", "xor"})
DIVISIONS: Final = frozenset({"truediv", "floordiv", "mod"})


MADE_UP: Final[dict[type, Any]] = {int: 3, float: 2.5, bool: True}


class Scalars:
    """Owner of one capture's symbolic numbers: their symbols, and the facts relied upon."""

    def __init__(self, where: Callable[[], Any] | None = None) -> None:
        self.conditions: list[tuple[Expression, bool]] = []
        self.static: dict[Symbol, int | float] = {}  # symbols guarded by value
        self.settled: set[Symbol] = set()  # these, and what was static where this was derived from
        self.sources: dict[Symbol, Any] = {}
        self.hints: dict[Symbol, int | float] = {}
        self.labels: dict[Symbol, str] = {}
        self.places: dict[Any, Any] = {}  # condition or static symbol -> where in the user's code
        self.where = where
        self.open = True  # once closed, hints are given and nothing is noted
        self.algebra = Algebra()
        self.untold: dict[Symbol, tuple[Any, str]] = {}
        """Symbols that only running can tell: the first number that each was, and what was called for it."""
        self.keep: Callable[[Any], Any] = lambda value: value
        """Told of each such number, as it is the culprit of breaks."""
        self.asked: Callable[[Any], None] = lambda source: None
        """Told of the sources of numbers whose values are asked for; it may break."""
        self._decided: dict[Expression, bool] = {}

    def derived(self, values: Mapping[Symbol, int | float]) -> Scalars:
        """An owner of the same symbols whose hints are these values, which fit what is relied upon here. It
        knows all that is known here of symbols with values, and notes only what is new: see `adopt`.
        """
        made = Scalars()
        made.sources, made.labels, made.untold = {**self.sources}, {**self.labels}, {**self.untold}
        made.settled, made._decided = {*self.settled}, {**self._decided}
        made.algebra = self.algebra.copied(values)
        made.hints = {**self.hints, **values}
        for one, equal in made.algebra.known.items():
            made.hints[one] = equal.evaluate(made.hints)
        return made

    def adopt(self, value: Any) -> Any:
        """A number of the owner that this was derived from, as one of this owner: plain, if all of its
        symbols are static. Also in tuples, lists and slices; whatever else there is, as it is.
        """
        if isinstance(value, Sym):
            hint = value.expression.evaluate(self.hints)
            return hint if self._settled(value.expression) else type(value)(self, value.expression, hint)
        if type(value) is slice:
            return slice(*map(self.adopt, (value.start, value.stop, value.step)))
        if type(value) is tuple or type(value) is list:
            return type(value)(map(self.adopt, value))
        return value

    def symbol_int(
        self, label: str, hint: int, source: Any = None, *, size: bool = False, counter: bool = False
    ) -> Any:
        """A symbolic int; 0 and 1 are given back plain, their symbol static, but of a `counter`, which is
        likely to pass them. A `size` is known to be at least 2.
        """
        new = symbol(f"s{sum(s.kind is int for s in self.hints)}", int)
        self._register(new.args[0], label, hint, source)
        if (hint in (0, 1) and not counter) or not LEAST <= hint <= GREATEST:
            self._fix(new.args[0], hint)
            return hint
        if size:
            self.algebra.ranges[new.args[0]] = (2, None)
            self._note(Expression("ge", (new, constant(2)), bool), True)
        return SymInt(self, new, hint)

    def symbol_float(self, label: str, hint: float, source: Any = None) -> SymFloat:
        new = symbol(f"f{sum(s.kind is float for s in self.hints)}", float)
        self._register(new.args[0], label, hint, source)
        return SymFloat(self, new, hint)

    def symbol_untold(self, kind: type, seen: str) -> Any:
        """A number that only running can tell; see the Note. `seen` says what gave it."""
        new = symbol(f"u{len(self.untold)}", kind)
        self.hints[new.args[0]] = MADE_UP[kind]
        number = self.number(new, MADE_UP[kind])
        self.untold[new.args[0]] = (number, seen)
        return self.keep(number)

    def truth_of(self, number: Any) -> Any:
        """The truth of a number, without asking for it."""
        return number if type(number) is SymBool else self.binary("ne", number, 0)

    def tells(self, expression: Expression) -> bool:
        """Whether all symbols of an expression have values while capturing."""
        return not self.untold or self.untold.keys().isdisjoint(expression.symbols)

    def refuse(self, expression: Expression) -> None:
        """Breaks where a number that only running can tell was made, if the expression needs one."""
        if self.tells(expression) or not self.open:
            return
        number, seen = max(
            (self.untold[one] for one in expression.symbols if one in self.untold),
            key=lambda found: int(found[0].expression.args[0].name[1:]),
        )
        stop = Break("data-dependent-value", seen)
        stop.culprit = number
        raise stop

    def _register(self, new: Symbol, label: str, hint: Any, source: Any) -> None:
        self.hints[new], self.sources[new], self.labels[new] = hint, source, label

    def close(self) -> None:
        """The capture is over: what asks for a value from here on is a printer, not the user's code."""
        self.open = False

    def guards(self) -> list[tuple[Expression, bool]]:
        """The conditions that static symbols do not settle, in the order they arose."""
        return [(e, truth) for e, truth in self.conditions if not e.symbols <= self.settled]

    def holds(self, values: dict[Symbol, Any]) -> bool:
        """Whether these values of the symbols take the captured path: the reference for guards."""
        try:
            return all(constant(values[s]) == constant(v) for s, v in self.static.items()) and all(
                bool(e.evaluate(values)) is truth for e, truth in self.conditions
            )
        except (ArithmeticError, ValueError) as error:
            let_through(error)
            return False

    # -- facts -----------------------------------------------------------------------------------------------

    def _fix(self, one: Symbol, value: int | float) -> None:
        if one not in self.settled and self.open:
            self.static[one] = value
            self.settled.add(one)
            self.algebra.learn(one, constant(value))
            if self.where is not None:
                self.places[one] = self.where()

    def _note(self, expression: Expression, truth: bool) -> None:
        if expression in self._decided or not self.open:
            return
        if not self.tells(expression):
            assert expression.op == "defined"  # or else the graph fails
            return
        self._decided[expression] = truth
        self.conditions.append((expression, truth))
        if self.where is not None:
            self.places[expression] = self.where()

    def decide(self, expression: Expression, hint: bool) -> bool:
        """The truth of a condition on the hint, noted unless it holds for all values."""
        self.refuse(expression)
        if not self._settled(expression) and expression not in self._decided:
            if not self._learn(expression, hint):
                self._note(expression, hint)
        return hint

    def _learn(self, expression: Expression, truth: bool) -> bool:
        """Draws conclusions from a new fact; True if a static symbol says it all."""
        op, args = expression.op, expression.args
        if op not in COMPARISONS or any(a.kind is not int for a in args) or not self.open:
            return False
        known = self.algebra.compare(op, *args)
        if known is not None:
            assert known is truth, f"{expression!r} is {known}, not {truth}"
            return True
        difference = subtract(*map(self.algebra.polynomial, args))
        equal = (op, truth) in (("eq", True), ("ne", False))
        variable = [m for m in difference if m]
        if len(variable) == 1 and len(variable[0]) == 1 and variable[0][0].op == "symbol":
            one = variable[0][0].args[0]
            if equal:
                self._fix(one, self.hints[one])
                return True
            self._narrow(one, difference[variable[0]], difference.get((), 0), op, truth)
        elif equal and len(variable) == 2 and sorted(difference.values()) == [-1, 1]:
            names = sorted((m[0] for m in variable if len(m) == 1 and m[0].op == "symbol"), key=repr)
            if len(names) == 2 and () not in difference:
                self._unify(names[0], names[1])
        return False

    def _unify(self, kept: Expression, gone: Expression) -> None:
        """Two symbols are equal: what is known of either holds for the one that stays."""
        ranges = self.algebra.ranges
        (low, high), (other_low, other_high) = (ranges.get(e.args[0], (None, None)) for e in (kept, gone))
        lows = [end for end in (low, other_low) if end is not None]
        highs = [end for end in (high, other_high) if end is not None]
        ranges[kept.args[0]] = (max(lows, default=None), min(highs, default=None))
        self.algebra.learn(gone.args[0], kept)

    def _narrow(self, one: Symbol, factor: int, offset: int, op: str, truth: bool) -> None:
        """`factor * one + offset <op> 0` bounds the symbol from one side, if the factor is 1 or -1."""
        if op in ("eq", "ne") or abs(factor) != 1:
            return
        below = op in ("lt", "le")
        strict = op in ("lt", "gt")
        if not truth:
            below, strict = not below, not strict
        limit = -offset * factor
        if factor < 0:
            below = not below
        low, high = self.algebra.ranges.get(one, (None, None))
        if below:
            limit -= strict
            high = limit if high is None else min(high, limit)
        else:
            limit += strict
            low = limit if low is None else max(low, limit)
        self.algebra.ranges[one] = (low, high)

    def specialise(self, expression: Expression, hint: Any) -> Any:
        """The hint, with the guard that the expression has this value."""
        self.refuse(expression)
        if self._settled(expression):
            return hint
        for one in expression.symbols if self.open else ():
            self.asked(self.sources.get(one))
        if expression.op == "symbol":
            self._fix(expression.args[0], hint)
        elif expression.kind is float:
            bits = OPERATIONS["bits"][0](hint)
            same = Expression("eq", (Expression("bits", (expression,), bytes), constant(bits)), bool)
            self.decide(same, True)
        elif expression.kind is bool:
            self.decide(expression, hint)
        else:
            self.decide(Expression("eq", (expression, constant(hint)), bool), True)
        return hint

    def _settled(self, expression: Expression) -> bool:
        return expression.symbols <= self.settled

    # -- arithmetic ------------------------------------------------------------------------------------------

    def operand(self, value: Any) -> tuple[Expression, Any] | None:
        """The expression and value of an operand; None if Python should ask the operand's own class."""
        kind = type(value)
        if kind is SymInt or kind is SymFloat:
            if value.owner is not self:
                return constant(value.plain()), value.hint
            if self._settled(value.expression):
                return constant(value.hint), value.hint
            return value.expression, value.hint
        if kind is bool or kind is SymBool:
            value = int(value)
        elif kind is not int and kind is not float:
            return None
        return constant(value), value

    def binary(self, op: str, left: Any, right: Any) -> Any:
        """`left op right` by Python's rules, symbolic where that can be."""
        function = OPERATIONS[op][0]
        one, two = self.operand(left), self.operand(right)
        if one is None or two is None:
            stranger = left if one is None else right
            if isinstance(stranger, (int, float, complex)) and not isinstance(stranger, np.generic):
                return function(plain(left), plain(right))
            return NotImplemented
        (first, a), (second, b) = one, two
        if not first.symbols and not second.symbols:
            return function(a, b)
        if op in BITWISE and float in (first.kind, second.kind):
            return function(a, b)  # raises
        if op in DIVISIONS and self.tells(second):
            if not self.truth("ne", second, constant(0), b != 0):
                return function(a, b)  # raises
        elif op == "pow":
            first, second, defined = self._power(first, second, a, b)
            if not first.symbols and not second.symbols:
                return function(a, b)
            return self.result(op, (first, second), (a, b), defined=defined)
        if op in COMPARISONS:
            return self.comparison(op, first, second, function(a, b))
        return self.result(op, (first, second), (a, b))

    def truth(self, op: str, left: Expression, right: Expression, hint: bool) -> bool:
        return bool(self.comparison(op, left, right, hint))

    def comparison(self, op: str, left: Expression, right: Expression, hint: bool) -> Any:
        if not left.symbols and not right.symbols:
            return hint
        if left.kind is right.kind is int:
            known = self.algebra.compare(op, left, right)
            if known is not None:
                assert known is hint, f"{left!r} {op} {right!r} is {known}, not {hint}"
                return known
        return SymBool(self, Expression(op, (left, right), bool), hint)

    def _power(self, base: Expression, exponent: Expression, a: Any, b: Any) -> Any:
        """The operands of a power, made constant until the class of the result is certain, and whether it
        is certain to be defined.
        """
        if not self.tells(base) and base.kind is float and exponent.op == "constant" and type(b) is int:
            return base, exponent, True
        if base.kind is exponent.kind is int:
            exponent = constant(self.specialise(exponent, b))
            if b < 0:
                return constant(self.specialise(base, a)), exponent, True
            return base, exponent, True
        if base.symbols and not self.truth("gt", base, constant(0), a > 0):
            base = constant(self.specialise(base, a))
        if not base.symbols and a < 0 and exponent.kind is float:
            exponent = constant(self.specialise(exponent, b))  # -8.0 ** 0.5 is complex
        return base, exponent, False

    def result(
        self, op: str, args: tuple[Expression, ...], hints: tuple[Any, ...], defined: bool = True
    ) -> Any:
        """The number that an op gives: symbolic unless it is one number for all values, or too large."""
        try:
            value = OPERATIONS[op][0](*hints)
        except (ArithmeticError, ValueError):
            for arg, hint in zip(args, hints, strict=True):
                self.specialise(arg, hint)
            raise
        kind = type(value)
        expression = Expression(op, args, kind)
        if kind is int and all(a.kind is int for a in args):
            normal = self.algebra.polynomial(expression)
            number = as_constant(normal)
            if number is not None:
                assert number == value, f"{expression!r} is {number}, not {value}"
                return value
            simple = tree(normal)
            expression = simple if simple.size < expression.size else expression
        if expression.size > LARGEST_EXPRESSION or (kind is int and not LEAST <= value <= GREATEST):
            for arg, hint in zip(args, hints, strict=True):
                self.specialise(arg, hint)
            return value
        if not defined:
            self._note(Expression("defined", (expression,), bool), True)
        return self.number(expression, value)

    def number(self, expression: Expression, hint: Any) -> Any:
        return CLASSES[expression.kind](self, expression, hint)

    def apply(self, function: Callable[..., Any], *args: Any) -> Any:
        """`function(*args)`, symbolic for the functions in `FUNCTIONS` where Python's own call would ask for
        values.
        """
        op = FUNCTIONS.get(function) if isinstance(function, (type, BuiltinFunctionType)) else None
        operands = [self.operand(a) for a in args]
        if op is None or None in operands or not any(o[0].symbols for o in operands if o is not None):
            return function(*args) if None in operands else _called(function, args)
        expressions, hints = zip(*[o for o in operands if o is not None], strict=True)
        if len(args) != OPERATIONS[op][1].count("{}"):
            return function(*args)
        if (op in TO_INT and expressions[0].kind is int) or (op == "float" and expressions[0].kind is float):
            return args[0]
        if function is float or (op in TOTAL and expressions[0].kind is float):
            return self.result(op, expressions, hints)
        return self.result(op, expressions, hints, defined=False)

    def to_node(self, graph: Any, value: Any, memo: dict[Expression, Any]) -> Any:
        """The graph node that computes a symbolic scalar (a plain number is given back). The memo holds the
        nodes of symbols, by `sym.expression`, and takes in what is made.
        """
        if not isinstance(value, Sym):
            return value
        if self._settled(value.expression):
            return value.hint
        return expression_node(
            graph, value.expression, memo, lambda e: self.number(e, e.evaluate(self.hints))
        )


def symbols_of(values: Sequence[Any]) -> dict[Symbol, tuple[int, int | None]]:
    """Where each symbol can be read from inputs like these (numbers, and tensors that may have open sizes):
    the number of an input, and an axis of it, or None for the input itself.
    """
    found: dict[Symbol, tuple[int, int | None]] = {}
    for number, value in enumerate(values):
        sizes: Iterable[tuple[int | None, Any]] = ((None, value),)
        if not isinstance(value, Sym):
            sizes = enumerate(value.array.shape) if is_tensor(value) else ()
        for axis, size in sizes:
            if isinstance(size, Sym) and size.expression.op == "symbol":
                found.setdefault(size.expression.args[0], (number, axis))
    return found


def is_untold(value: Any) -> bool:
    """Whether this is a number that only running can tell."""
    return isinstance(value, Sym) and not value.owner.tells(value.expression)


def to_node(graph: Any, value: Any, memo: dict[Expression, Any]) -> Any:
    """`Scalars.to_node` of the value's owner; plain numbers are given back."""
    return value.owner.to_node(graph, value, memo) if isinstance(value, Sym) else value


def plain(value: Any) -> Any:
    """The value of a symbolic scalar, which specialises it; anything else as it is."""
    return value.plain() if isinstance(value, Sym) else value


def hint_of(value: Any) -> Any:
    """The hint of a symbolic scalar, with nothing noted; anything else as it is."""
    return value.hint if isinstance(value, Sym) else value


def surely_equal(one: Any, other: Any) -> bool:
    """Whether two sizes, or tuples of them, are known to be equal for all values of their symbols, with
    nothing noted."""
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(map(surely_equal, one, other))
    symbolic = [each for each in (one, other) if isinstance(each, Sym)]
    if not symbolic:
        return bool(one == other)
    owner = symbolic[0].owner
    if any(each.owner is not owner or each.expression.kind is not int for each in symbolic):
        return False
    left, right = (e.expression if isinstance(e, Sym) else constant(e) for e in (one, other))
    return left.kind is right.kind and owner.algebra.compare("eq", left, right) is True


class Sym(Symbolic):
    """What symbolic scalars share: all that asks for the value specialises."""

    __slots__ = ("owner", "expression", "hint")
    owner: Scalars
    expression: Expression

    def __init__(self, owner: Scalars, expression: Expression, hint: Any) -> None:
        self.owner, self.expression, self.hint = owner, expression, hint

    def plain(self) -> Any:
        return self.owner.specialise(self.expression, self.hint)

    def describe(self) -> str:
        owner = self.owner
        return str(self.hint) if owner._settled(self.expression) else repr(self.expression)

    def __bool__(self) -> bool:
        return bool(self.plain())

    def __int__(self) -> int:
        return int(self.plain())

    def __float__(self) -> float:
        return float(self.plain())

    def __complex__(self) -> complex:
        return complex(self.plain())

    def __hash__(self) -> int:
        return hash(self.plain())

    def __repr__(self) -> str:
        return repr(self.plain())

    def __format__(self, form: str) -> str:
        return format(self.plain(), form)

    def __copy__(self) -> Sym:
        return self

    def __deepcopy__(self, _memo: Any) -> Sym:
        return self

    def __reduce_ex__(self, _protocol: Any) -> Any:
        return self.expression.kind, (self.plain(),)

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return np.asarray(self.plain(), dtype=dtype)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        # NumPy treats Python numbers as weak; an array made of one would promote differently.
        return getattr(ufunc, method)(*map(plain, inputs), **kwargs)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or not hasattr(self.expression.kind, name):
            raise AttributeError(f"{self.expression.kind.__name__!r} object has no attribute {name!r}")
        return getattr(self.plain(), name)


def _forward(op: str) -> Any:
    def method(self: Any, other: Any) -> Any:
        return self.owner.binary(op, self, other)

    return method


def _reflected(op: str) -> Any:
    def method(self: Any, other: Any) -> Any:
        return self.owner.binary(op, other, self)

    return method


def _divided(left: Any, right: Any) -> tuple[Any, Any]:
    """`divmod(left, right)`."""
    try:
        return left // right, left % right
    except ZeroDivisionError as error:
        let_through(error)
    found: tuple[Any, Any] = divmod(hint_of(left), hint_of(right))  # which says so in words of its own
    return found


def _called(function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    """A call of C code with numbers. Some of it asks for Python's classes themselves."""
    try:
        return function(*args)
    except TypeError as error:
        let_through(error)
    return function(*map(plain, args))


class SymNumber(Sym):
    """Arithmetic and comparisons of symbolic ints and floats."""

    __slots__ = ()

    __add__, __radd__ = _forward("add"), _reflected("add")
    __sub__, __rsub__ = _forward("sub"), _reflected("sub")
    __mul__, __rmul__ = _forward("mul"), _reflected("mul")
    __truediv__, __rtruediv__ = _forward("truediv"), _reflected("truediv")
    __floordiv__, __rfloordiv__ = _forward("floordiv"), _reflected("floordiv")
    __mod__, __rmod__ = _forward("mod"), _reflected("mod")
    __rpow__ = _reflected("pow")
    __eq__, __ne__ = _forward("eq"), _forward("ne")
    __lt__, __le__ = _forward("lt"), _forward("le")
    __gt__, __ge__ = _forward("gt"), _forward("ge")
    __hash__ = Sym.__hash__

    def __pow__(self, exponent: Any, modulus: Any = None) -> Any:
        if modulus is not None:
            return pow(plain(self), plain(exponent), plain(modulus))
        return self.owner.binary("pow", self, exponent)

    def __divmod__(self, other: Any) -> Any:
        if self.owner.operand(other) is None:
            return divmod(self.plain(), other)
        return _divided(self, other)

    def __rdivmod__(self, other: Any) -> Any:
        if self.owner.operand(other) is None:
            return divmod(other, self.plain())
        return _divided(other, self)

    def _unary(self, op: str, defined: bool = True) -> Any:
        if self.owner._settled(self.expression):
            return OPERATIONS[op][0](self.hint)
        return self.owner.result(op, (self.expression,), (self.hint,), defined)

    def __neg__(self) -> Any:
        return self._unary("neg")

    def __pos__(self) -> Any:
        return self

    def __abs__(self) -> Any:
        return self._unary("abs")

    def __bool__(self) -> bool:
        return bool(self.owner.binary("ne", self, 0))


class SymInt(SymNumber):
    """A symbolic int."""

    __slots__ = ()

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return int  # isinstance(x, int) holds, in binders and in users' code

    def __index__(self) -> int:
        return int(self.plain())

    def __trunc__(self) -> Any:
        return self

    __floor__ = __ceil__ = __trunc__

    def __round__(self, digits: Any = None) -> Any:
        return self if digits is None or operator.index(digits) >= 0 else round(self.plain(), digits)

    def __abs__(self) -> Any:
        return self if self >= 0 else -self

    def __invert__(self) -> Any:
        return -self - 1

    def __lshift__(self, count: Any) -> Any:
        return _shift(operator.lshift, self, count)

    def __rlshift__(self, other: Any) -> Any:
        return _shift(operator.lshift, other, self)

    def __rshift__(self, count: Any) -> Any:
        return _shift(operator.rshift, self, count)

    def __rrshift__(self, other: Any) -> Any:
        return _shift(operator.rshift, other, self)

    __and__, __or__, __xor__ = _forward("and_"), _forward("or_"), _forward("xor")
    __rand__, __ror__, __rxor__ = __and__, __or__, __xor__


def _shift(function: Callable[[Any, Any], Any], value: Any, count: Any) -> Any:
    """A shift by a constant is a product or a quotient; the count of a shift is never symbolic."""
    count = plain(count)
    if isinstance(value, SymInt) and type(count) is int and 0 <= count < 63:
        return value * (1 << count) if function is operator.lshift else value // (1 << count)
    value = plain(value)
    return function(value, count) if isinstance(value, int) and isinstance(count, int) else NotImplemented


class SymFloat(SymNumber):
    """A symbolic float."""

    __slots__ = ()

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return float

    def __trunc__(self) -> Any:
        return self._unary("trunc", defined=False)

    def __floor__(self) -> Any:
        return self._unary("floor", defined=False)

    def __ceil__(self) -> Any:
        return self._unary("ceil", defined=False)

    def __round__(self, digits: Any = None) -> Any:
        if digits is None:
            return self._unary("round", defined=False)
        return round(self.plain(), digits)


class SymBool(Sym):
    """The truth of a comparison of symbolic numbers; asked for, it becomes a condition."""

    __slots__ = ()

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return bool

    def plain(self) -> bool:
        return self.owner.decide(self.expression, self.hint)

    def __index__(self) -> int:
        return int(self.plain())

    def negated(self) -> SymBool:
        """`not self`, without asking for its truth."""
        return SymBool(self.owner, Expression("eq", (self.expression, constant(False)), bool), not self.hint)

    def _logic(self, op: str, other: Any) -> Any:
        if type(other) is SymBool and other.owner is self.owner:
            expression = Expression(op, (self.expression, other.expression), bool)
            return SymBool(self.owner, expression, OPERATIONS[op][0](self.hint, other.hint))
        return OPERATIONS[op][0](self.plain(), plain(other))

    def __and__(self, other: Any) -> Any:
        return self._logic("and_", other)

    def __or__(self, other: Any) -> Any:
        return self._logic("or_", other)

    def __xor__(self, other: Any) -> Any:
        return self._logic("xor", other)

    __rand__, __ror__, __rxor__ = __and__, __or__, __xor__

    def __round__(self, *digits: Any) -> Any:
        return round(self.plain(), *digits)


def _as_plain(function: Callable[..., Any], swapped: bool = False) -> Any:
    """A method of SymBool that Python's bool has: computed on the truth itself."""

    def method(self: SymBool, *args: Any) -> Any:
        return function(*args, self.plain()) if swapped else function(self.plain(), *args)

    return method


_BINARY: Final[dict[str, Callable[..., Any]]] = {
    name: getattr(operator, name)
    for name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "lshift", "rshift")
} | {"pow": pow, "divmod": divmod}
for _name, _function in _BINARY.items():
    setattr(SymBool, f"__{_name}__", _as_plain(_function))
    setattr(SymBool, f"__r{_name}__", _as_plain(_function, swapped=True))
for _name in (*sorted(COMPARISONS), "neg", "pos", "abs", "invert"):
    setattr(SymBool, f"__{_name}__", _as_plain(getattr(operator, _name)))
for _name in ("trunc", "floor", "ceil"):
    setattr(SymBool, f"__{_name}__", _as_plain(getattr(math, _name)))
SymBool.__hash__ = Sym.__hash__  # type: ignore[method-assign]

CLASSES: Final[dict[type, type[Sym]]] = {int: SymInt, float: SymFloat, bool: SymBool}
TO_INT: Final = frozenset({"int", "floor", "ceil", "trunc", "round"})
TOTAL: Final = frozenset({"atan", "asinh", "tanh", "erf", "erfc", "fabs", "isnan", "isinf", "isfinite"}) | {
    "copysign",
    "degrees",
    "radians",
    "atan2",
    "hypot",
}
FUNCTIONS: Final[dict[Callable[..., Any], str]] = {
    function: name
    for name, (function, text) in OPERATIONS.items()
    if text.startswith("math.") or name in ("int", "float", "round")
}
