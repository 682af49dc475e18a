"""Expressions: small immutable trees of Python arithmetic over symbols.

Takes symbols and constants, gives trees that render to Python text, evaluate on values, become graph nodes
and can be stored. One idea: an op here is a Python function with a text template, so the forms cannot
disagree; nothing is simplified in this module (see `weft.core.polynomials`), so floats keep every bit.
`weft.core.checks` adds what can be asked of objects, for guards that run as machine code.
"""

from __future__ import annotations

import math
import operator
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from weft.core.records import record

NAMES: Final[dict[str, Any]] = {"math": math, "struct": struct}
"""What rendered text needs among its globals, besides builtins."""


@record(frozen=True, slots=True)
class Symbol:
    """An unknown number: `s0` for ints, `f0` for floats. Its source and hint are no part of what it is."""

    name: str
    kind: type


def by_name(symbols: Iterable[Symbol]) -> list[Symbol]:
    """Symbols in an order that is the same in all processes, as that of a set is not."""
    return sorted(symbols, key=lambda one: one.name)


Operation = tuple[Callable[..., Any], str]


def is_defined(_value: object) -> bool:
    """True where its argument could be computed; an argument that raises is a condition that fails."""
    return True


def float_bits(value: float) -> bytes:
    return struct.pack("<d", value)


def float_word(value: float) -> int:
    """The bits of a double as a whole number."""
    found: int = struct.unpack("<q", struct.pack("<d", value))[0]
    return found


def chosen(condition: bool, yes: Any, no: Any) -> Any:
    return yes if condition else no


# op -> (what it computes, its text); the functions are the targets of graph nodes
_PYTHON: Final[dict[str, Operation]] = {
    "add": (operator.add, "({} + {})"),
    "sub": (operator.sub, "({} - {})"),
    "mul": (operator.mul, "({} * {})"),
    "truediv": (operator.truediv, "({} / {})"),
    "floordiv": (operator.floordiv, "({} // {})"),
    "mod": (operator.mod, "({} % {})"),
    "pow": (operator.pow, "({} ** {})"),
    "and_": (operator.and_, "({} & {})"),
    "or_": (operator.or_, "({} | {})"),
    "xor": (operator.xor, "({} ^ {})"),
    "not_": (operator.not_, "(not {})"),
    "neg": (operator.neg, "(-{})"),
    "abs": (abs, "abs({})"),
    "min": (min, "min({}, {})"),
    "max": (max, "max({}, {})"),
    "eq": (operator.eq, "({} == {})"),
    "ne": (operator.ne, "({} != {})"),
    "lt": (operator.lt, "({} < {})"),
    "le": (operator.le, "({} <= {})"),
    "gt": (operator.gt, "({} > {})"),
    "ge": (operator.ge, "({} >= {})"),
    "round": (round, "round({})"),
    "round_to": (round, "round({}, {})"),
    "int": (int, "int({})"),
    "float": (float, "float({})"),
    "floor": (math.floor, "math.floor({})"),
    "ceil": (math.ceil, "math.ceil({})"),
    "trunc": (math.trunc, "math.trunc({})"),
    "str": (str, "str({})"),
    "repr": (repr, "repr({})"),
    "format": (format, "format({}, {})"),
    "defined": (is_defined, "({} is not None)"),
    "bits": (float_bits, "struct.pack('<d', {})"),
    "word": (float_word, "struct.unpack('<q', struct.pack('<d', {}))[0]"),
    "where": (chosen, "({1} if {0} else {2})"),
}
_MATH: Final = {
    1: "sqrt exp expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh "
    "erf erfc gamma lgamma fabs degrees radians isnan isinf isfinite",
    2: "atan2 copysign fmod hypot",
}
OPERATIONS: Final[dict[str, Operation]] = _PYTHON | {
    name: (getattr(math, name), f"math.{name}({', '.join(['{}'] * count)})")
    for count, names in _MATH.items()
    for name in names.split()
}


class Expression:
    """A constant, a symbol, or an op on expressions. Equal when built alike; constants by type and bits."""

    __slots__ = ("op", "args", "kind", "symbols", "size", "_key", "_hash")

    def __init__(self, op: str, args: tuple[Any, ...], kind: type) -> None:
        self.op, self.args, self.kind = op, args, kind
        if op == "constant":
            value = args[0]
            self.symbols: frozenset[Symbol] = frozenset()
            self.size = 1
            self._key: Any = (kind, float_bits(value) if kind is float else value)
        elif op == "symbol":
            self.symbols = frozenset(args)
            self.size = 1
            self._key = args
        else:
            self.symbols = frozenset().union(*[a.symbols for a in args])
            self.size = 1 + sum(a.size for a in args)
            self._key = args
        self._hash = hash((op, self._key))

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, Expression)
            and self._hash == other._hash
            and self.op == other.op
            and self._key == other._key
        )

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> Any:
        return Expression, (self.op, self.args, self.kind)

    def render(self, name_of: Callable[[Symbol], str]) -> str:
        """Python text that computes this where `name_of` names the symbols and `NAMES` are global."""
        if self.op == "constant":
            return constant_text(self.args[0])
        if self.op == "symbol":
            return name_of(self.args[0])
        return OPERATIONS[self.op][1].format(*[a.render(name_of) for a in self.args])

    def evaluate(self, values: Mapping[Symbol, Any]) -> Any:
        """What Python computes for these values of the symbols, or the error it raises."""
        if self.op == "constant":
            return self.args[0]
        if self.op == "symbol":
            return values[self.args[0]]
        return OPERATIONS[self.op][0](*[a.evaluate(values) for a in self.args])

    def replaced(self, values: Mapping[Symbol, Expression]) -> Expression:
        """This, with expressions in place of symbols."""
        if self.op == "symbol":
            return values.get(self.args[0], self)
        if not self.symbols:
            return self
        return Expression(self.op, tuple([each.replaced(values) for each in self.args]), self.kind)

    def __repr__(self) -> str:
        text = self.render(lambda symbol: symbol.name)
        whole = text.startswith("(") and text.endswith(")")
        return text[1:-1] if whole else text


def in_order(expressions: Iterable[Expression]) -> Iterator[Expression]:
    """These, and all that they are made of, each once, behind its arguments."""
    done: set[Expression] = set()
    waiting = [(each, False) for each in reversed([*expressions])]
    while waiting:
        each, ready = waiting.pop()
        if each in done:
            continue
        if ready or each.op not in OPERATIONS:
            done.add(each)
            yield each
        else:
            waiting.append((each, True))
            waiting += [(arg, False) for arg in reversed(each.args)]


def constant(value: object) -> Expression:
    return Expression("constant", (value,), type(value))


def symbol(name: str, kind: type) -> Expression:
    return Expression("symbol", (Symbol(name, kind),), kind)


def constant_text(value: Any) -> str:
    """A constant as Python text that gives the same bits."""
    if type(value) is float and not math.isfinite(value):
        if math.isinf(value):
            return "math.inf" if value > 0 else "(-math.inf)"
        return f"struct.unpack('<d', {float_bits(value)!r})[0]"
    return f"({value!r})" if type(value) in (int, float) and math.copysign(1, value) < 0 else repr(value)


# -- as data -------------------------------------------------------------------------------------------------
STORED: Final[dict[str, type]] = {kind.__name__: kind for kind in (int, float, bool, bytes)}
"""The kinds of expressions that can be stored."""


def to_data(expression: Expression) -> list[Any]:
    """The expression as lists of texts, which JSON keeps; a TypeError where it cannot be stored."""
    kind, op = expression.kind.__name__, expression.op
    if STORED.get(kind) is not expression.kind:
        raise TypeError(f"an expression of type {expression.kind.__qualname__}")
    if op == "constant":
        value = expression.args[0]
        return [
            op,
            float_bits(value).hex() if kind == "float" else value.hex() if kind == "bytes" else repr(value),
            kind,
        ]
    if op == "symbol":
        return [op, expression.args[0].name, kind]
    if op not in OPERATIONS:
        raise TypeError(f"an expression with {op}")
    return [op, [to_data(each) for each in expression.args], kind]


def from_data(data: Sequence[Any]) -> Expression:
    """The expression that `to_data` has made this of."""
    op, given, name = data
    kind = STORED[name]
    if op == "constant":
        if kind in (int, bool):
            return constant(int(given) if kind is int else given == "True")
        raw = bytes.fromhex(given)
        return constant(raw if kind is bytes else struct.unpack("<d", raw)[0])
    if op == "symbol":
        return symbol(given, kind)
    if op not in OPERATIONS:
        raise ValueError(f"no operation is called {op}")
    return Expression(op, tuple([from_data(each) for each in given]), kind)


def expression_node(
    graph: Any, expression: Expression, memo: dict[Expression, Any], describe: Callable[[Expression], Any]
) -> Any:
    """The graph node (or the constant) that computes an expression; symbols must be in the memo, and what is
    made joins it. `describe` gives the `val` of a new node.
    """
    if expression.op == "constant":
        return expression.args[0]
    node = memo.get(expression)
    if node is None:
        if expression.op == "symbol":
            raise KeyError(f"no node gives {expression!r}")
        args = tuple(expression_node(graph, a, memo, describe) for a in expression.args)
        node = memo[expression] = graph.call_function(OPERATIONS[expression.op][0], args)
        node.meta["val"] = describe(expression)
    return node
