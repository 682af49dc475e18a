"""Open calls: native entries for all sizes that a template serves.

Takes a call whose program is of a template, and what differentiation knows of its open sizes; gives the run
of an entry whose numbers follow from the sizes of each call. One idea: what an entry for one size has checked
of it is an expression here, which is computed when sizes change.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from math import prod
from typing import Any, Final

from weft.core import checks as ask
from weft.core.expressions import Expression, Symbol, by_name, constant
from weft.core.records import record
from weft.native.cpu.runner import LONG
from weft.native.entry.entry import NumbersOfSizes, Run
from weft.native.ir.sizes import Size, now
from weft.native.lower.opening import open_strides, values_of
from weft.native.program.program import WORK
from weft.native.program.template import Formulas, Settled, Template

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
    lies: Mapping[int, Sequence[Any]] = field(default_factory=dict)
    """How inputs with open axes lie that do not lie row by row: strides in bytes."""
    told: Sequence[tuple[int, Expression]] = ()
    """The results that are numbers, which follow from sizes."""


def opened_call(found: Any, program: Any) -> OpenCall | None:
    """What is open of a call; None where an entry for it cannot serve other sizes."""
    call = found.sizes
    template = None if call is None else found.forward.template_of(program)
    if template is None:
        return None
    recorded = found.recorded
    if recorded is not None and recorded.plan.template.programs[-1] is not recorded.plan.program:
        return None
    if program.draws is not None and not program.draws.is_default:
        return None
    arrays = [getattr(value, "array", None) for value in found.inputs]
    lies = {
        number: bytes_between(arrays[number], axes, template)
        for number, axes in call.axes.items()
        if not arrays[number].flags.c_contiguous
    }
    if any(now(step) < 0 for steps in lies.values() for step in steps):
        return None
    if not lies_as_wanted(call.strides, template):
        return None
    symbols = template.sizes.values
    places = {**call.places, **found.forward.places}
    if any(symbol not in places for symbol in symbols):
        return None
    facts = [*call.facts, *template.conditions.items()]
    told = [
        (number, each[1].expression)
        for number, each in enumerate(template.program.outputs)
        if isinstance(each, tuple) and type(each[1]) is Size
    ]
    if (told and found.finish is None and recorded is None) or (lies and recorded is not None):
        return None
    return OpenCall(template, frozenset(call.numbers), call.axes, facts, places, lies, told)


def bytes_between(array: Any, axes: Mapping[int, Expression], template: Template) -> list[Any]:
    """The strides of an array that lies as this one, for all sizes."""
    shape = [template.sizes.of(axes[axis]) if axis in axes else size for axis, size in enumerate(array.shape)]
    strides = open_strides(array, tuple(shape))
    assert strides is not None
    return [step * array.itemsize for step in strides]


def telling(call: OpenCall, finish: Any) -> Any:
    """What ends a call, given the numbers of its own sizes among the results."""
    if not call.told:
        return finish
    formulas = Formulas([each for _, each in call.told])
    read = {one: call.places[one] for one in formulas.symbols}
    places = {one: place if isinstance(place, tuple) else (place, None) for one, place in read.items()}

    def told(results: tuple[Any, ...], given: tuple[Any, ...], *drawn: Any) -> Any:
        arrays = [getattr(value, "array", value) for value in given]
        found = [*results]
        numbers = formulas.values(values_of(places, arrays))
        for number, each in call.told:
            found[number] = numbers[formulas.numbers[each]]
        return finish(tuple(found), given, *drawn)

    return told


def lies_as_wanted(strides: Sequence[Any], template: Template) -> bool:
    """Whether all that a program makes lies as eager code has it, at all sizes."""
    program = template.program
    algebra = template.sizes.algebra
    made = {place: (shape, own) for (place, shape, _), own in zip(program.made, program.strides)}
    kinds = {place: kind for place, _, kind in program.made}

    def normal(value: Any) -> Any:
        known = getattr(value, "expression", None)
        return algebra.polynomial(constant(value) if known is None else known)

    for place, wanted in zip(program.outputs, strides):
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
    planned = template.program

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
    looked: list[Expression] = []
    for number, steps in call.lies.items():
        array = operands[number][1]
        assert array is not None
        for axis, step in enumerate(steps):
            looked.append(ask.step(array, axis))
            wanted = step.expression if type(step) is Size else constant(step)
            facts.append((Expression("eq", (looked[-1], wanted), bool), True))
    run.made = [
        (place, kind, shape, strides)
        for (place, kind, _, _), (_, shape, _), strides in zip(
            run.made, planned.made, planned.strides, strict=True
        )
    ]
    run.arena, run.arena_bytes = planned.arena, planned.arena_bytes
    run.code = program.code.__array_interface__["data"][0]
    numbers = dict([*program.givens, *program.written])
    run.givens = [
        (
            place,
            register,
            is_float,
            low,
            reach(found.inputs[numbers[place]], numbers[place], sizes, call, high),
        )
        for place, register, is_float, low, high in run.givens
    ]
    if run.draw is None:
        run.release = released(template)
    numbers_ = program.numbers_of_tables()
    return NumbersOfSizes(symbols, looked, program.functions_of_sizes, facts, numbers_)


def wanted_symbols(template: Any, call: OpenCall) -> list[Symbol]:
    """The symbols on which anything depends."""
    facts = {symbol for fact, _ in call.facts for symbol in fact.symbols}
    axes = {symbol for each in call.axes.values() for follows in each.values() for symbol in follows.symbols}
    every = facts | axes | set(template.sizes.values)
    return by_name(every)


def reach(
    value: Any, number: int, sizes: Mapping[tuple[int, int], Expression], call: OpenCall, high: int
) -> Any:
    """The byte behind the last one of an input."""
    own = {axis: size for (owner, axis), size in sizes.items() if owner == number}
    if not own:
        return high
    array, steps = value.array, call.lies.get(number)
    if steps is None:
        total = constant(array.itemsize * prod(n for axis, n in enumerate(array.shape) if axis not in own))
        for size in own.values():
            total = Expression("mul", (total, size), int)
    else:
        total = constant(array.itemsize)
        for axis, step in enumerate(steps):
            last = Expression("sub", (own.get(axis, constant(array.shape[axis])), constant(1)), int)
            between = step.expression if type(step) is Size else constant(step)
            total = Expression("add", (total, Expression("mul", (last, between), int)), int)
    return Size(call.template.sizes, total, high)


def released(template: Any) -> Any:
    """Whether a run lets others use the interpreter: by its largest step."""
    works = [row[WORK] for row in template.program.rows]
    largest = max(works, key=now, default=0)
    is_long = template.program.work > LONG
    if type(largest) is not Size or now(largest) <= 0:
        return int(is_long)
    times = -(-template.program.work // now(largest))
    asked = Expression("gt", (largest.expression, constant(LONG // times)), bool)
    return Size(template.sizes, Expression("where", (asked, constant(1), constant(0)), int), int(is_long))
