"""Open calls: native entries for all sizes that a template serves.

Takes a call whose program is of a template, and what differentiation knows of its open sizes; gives the run
of an entry whose numbers follow from the sizes of each call. One idea: what an entry for one size has checked
of it is an expression here, which is computed when sizes change.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, Final

from weft.core import checks as ask
from weft.core.expressions import Expression, Symbol, constant
from weft.core.records import record
from weft.native.entry.entry import NumbersOfSizes, Run
from weft.native.ir.sizes import Size, now
from weft.native.program.program import LONG
from weft.native.program.template import Settled, Template

Operands = Sequence[tuple[Expression, Expression | None]]
SMALLEST: Final = 2
"""Sizes of 0 and 1 have programs of their own."""


@record(frozen=True, slots=True)
class OpenCall:
    """What is open of a call."""

    template: Template
    numbers: frozenset[int]
    """The inputs that are open whole numbers."""
    axes: Mapping[int, Mapping[int, Expression]]
    """The open axes of inputs, and what they follow from."""
    facts: Sequence[tuple[Expression, bool]]
    places: Mapping[Symbol, Any]
    """Where symbols are read: the number of an input, or it and an axis."""


def opened_call(found: Any, program: Any) -> OpenCall | None:
    """What is open of a call; None where an entry for it cannot serve other sizes."""
    call = found.sizes
    template = None if call is None else found.forward.template_of(program)
    if template is None or found.finish is not None:
        return None
    recorded = found.recorded
    if recorded is not None and recorded.plan.template.programs[-1] is not recorded.plan.program:
        return None
    if program.draws is not None and not program.draws.is_default:
        return None
    arrays = [getattr(value, "array", None) for value in found.inputs]
    if any(not arrays[number].flags.c_contiguous for number in call.axes):
        return None
    if not lies_as_wanted(call.strides, template):
        return None
    symbols = template.sizes.values
    places = {**call.places, **found.forward.places}
    if any(symbol not in places for symbol in symbols):
        return None
    facts = [*call.facts, *template.conditions.items()]
    return OpenCall(template, frozenset(call.numbers), call.axes, facts, places)


def lies_as_wanted(strides: Sequence[Any], template: Template) -> bool:
    """Whether all that a program makes lies as eager code has it, at all sizes."""
    first = template.first
    algebra = template.sizes.algebra
    made = {
        place: (shape, own)
        for (place, shape, _), own in zip(first.formulas["made"], first.formulas["strides"])
    }
    kinds = {place: kind for place, _, kind in first.made}

    def normal(value: Any) -> Any:
        known = getattr(value, "expression", None)
        return algebra.polynomial(constant(value) if known is None else known)

    for place, wanted in zip(first.outputs, strides):
        if wanted is None or not isinstance(place, int) or place not in made:
            continue
        shape, own = made[place]
        own = row_major(shape, kinds[place].itemsize) if own is None else own
        if len(own) != len(wanted) or any(normal(one) != normal(other) for one, other in zip(own, wanted)):
            return False
    return True


def row_major(shape: Sequence[Any], itemsize: int) -> list[Any]:
    strides: list[Any] = []
    step: Any = itemsize
    for size in reversed(shape):
        strides.insert(0, step)
        step = step * size
    return strides


def open_run(run: Run, found: Any, program: Settled, call: OpenCall, operands: Operands) -> NumbersOfSizes:
    """Has the numbers of a run follow from sizes; says how."""
    template = program.template
    formulas = template.first.formulas

    def read(place: Any) -> Expression:
        """What checks read of a size."""
        number, axis = place if isinstance(place, tuple) else (place, None)
        given, array = operands[number]
        return given if axis is None or array is None else ask.size(array, axis)

    symbols = {symbol: read(call.places[symbol]) for symbol in wanted_symbols(template, call)}
    facts = list(call.facts)
    sizes: dict[tuple[int, int], Expression] = {}
    for number, axes in call.axes.items():
        array = operands[number][1]
        assert array is not None
        for axis, follows in axes.items():
            own = sizes[number, axis] = ask.size(array, axis)
            facts.append((Expression("ge", (own, constant(SMALLEST)), bool), True))
            facts.append((Expression("eq", (own, follows), bool), True))
    run.made = [
        (place, kind, shape, strides)
        for (place, kind, _, _), (_, shape, _), strides in zip(
            run.made, formulas["made"], formulas["strides"], strict=True
        )
    ]
    run.arena, run.arena_bytes = formulas["arena"], formulas["arena_bytes"]
    run.code = program.code.__array_interface__["data"][0]
    numbers = dict([*program.givens, *program.written])
    run.givens = [
        (
            place,
            register,
            is_float,
            low,
            reach(found.inputs[numbers[place]], numbers[place], sizes, template, high),
        )
        for place, register, is_float, low, high in run.givens
    ]
    if run.draw is None:
        run.release = released(template)
    return NumbersOfSizes(symbols, program.functions_of_sizes, facts, program.numbers_of_tables())


def wanted_symbols(template: Any, call: OpenCall) -> list[Symbol]:
    """The symbols on which anything depends."""
    facts = {symbol for fact, _ in call.facts for symbol in fact.symbols}
    axes = {symbol for each in call.axes.values() for follows in each.values() for symbol in follows.symbols}
    every = facts | axes | set(template.sizes.values)
    return sorted(every, key=lambda symbol: symbol.name)


def reach(
    value: Any, number: int, sizes: Mapping[tuple[int, int], Expression], template: Any, high: int
) -> Any:
    """The byte behind the last one of an input that lies row by row."""
    own = {axis: size for (owner, axis), size in sizes.items() if owner == number}
    if not own:
        return high
    shape = value.array.shape
    total = constant(value.array.itemsize * prod(size for axis, size in enumerate(shape) if axis not in own))
    for size in own.values():
        total = Expression("mul", (total, size), int)
    return Size(template.sizes, total, high)


def released(template: Any) -> Any:
    """Whether a run lets others use the interpreter: by its largest step."""
    works = [row[4] for row in template.first.rows]
    largest = max(works, key=now, default=0)
    is_long = template.first.work > LONG
    if type(largest) is not Size or now(largest) <= 0:
        return int(is_long)
    times = -(-template.first.work // now(largest))
    asked = Expression("gt", (largest.expression, constant(LONG // times)), bool)
    return Size(template.sizes, Expression("where", (asked, constant(1), constant(0)), int), int(is_long))
