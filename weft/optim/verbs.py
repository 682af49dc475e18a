"""Verbs: the few in-place operations that update rules are written in, for arrays and for tensors.

Takes a rule and rows of (parameter, gradient, state …), gives nothing: parameters and state are written to.
One idea: a rule is written once, as `rule(do, (parameter, gradient, state …), number …)`. With `do = Arrays`
it runs on the arrays of plain tensors, without any layer in between and, where they are long, piece by piece
in cache; with `do = Tensors` it runs on ops, which serve every other case and can be captured. Both compute
the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import Any, Final

import numpy as np

from weft.core import modes
from weft.core.arrays import MODULES, Array
from weft.core.devices import DEVICES
from weft.core.seams import seams
from weft.ops.record import quiet
from weft.tensor.base import Parameter, Tensor
from weft.tensor.tape import INFERENCE

Rule = Callable[..., None]
Row = tuple[tuple[Any, ...], tuple[Any, ...]]
"""(parameter, gradient, *state) and the rule's numbers: floats may reach the rule as zero-dim arrays, so a
rule tests only what is None, bool or int."""
PIECE: Final = 16384  # elements: four arrays of float64 and their results stay in a core's own cache
FLOAT32: Final = np.dtype(np.float32)
FLOAT64: Final = np.dtype(np.float64)


class Arrays:
    """The verbs on arrays of one device and dtype."""

    @staticmethod
    def neg(x: Array) -> Array:
        return MODULES[type(x)].negative(x, out=...)

    @staticmethod
    def scale(x: Array, factor: float) -> None:
        """x *= factor"""
        x *= factor

    @staticmethod
    def add(x: Array, y: Array, alpha: float) -> None:
        """x += alpha * y"""
        x += y * alpha

    @staticmethod
    def plus(x: Array, y: Array, alpha: float) -> Array:
        """x + alpha * y"""
        xp = MODULES[type(x)]
        scaled = xp.multiply(y, alpha, out=...)
        return xp.add(x, scaled, out=scaled)

    @staticmethod
    def add_product(x: Array, left: Array, right: Array, value: float) -> None:
        """x += value * left * right"""
        product = left * right
        product *= value
        x += product

    @staticmethod
    def plus_product(x: Array, left: Array, right: Array, value: float) -> Array:
        """x + value * left * right"""
        xp = MODULES[type(x)]
        product = xp.multiply(left, right, out=...)
        return xp.add(x, xp.multiply(product, value, out=product), out=product)

    @staticmethod
    def add_quotient(x: Array, left: Array, right: Array, value: float) -> None:
        """x += value * left / right"""
        quotient = left / right
        quotient *= value
        x += quotient

    @staticmethod
    def approach(x: Array, end: Array, weight: Any, near: bool) -> None:
        """x moves towards end by this part of the way: from the nearer side, as lerp does. See `way`."""
        span = end - x
        span *= weight if near else 1 - weight
        if near:
            x += span
        else:
            MODULES[type(x)].subtract(end, span, out=x)

    @staticmethod
    def raise_to(x: Array, y: Array) -> None:
        """x = maximum(x, y)"""
        MODULES[type(x)].maximum(x, y, out=x)

    @staticmethod
    def root(x: Array, divisor: float | None, summand: float) -> Array:
        """sqrt(x) / divisor + summand"""
        result = MODULES[type(x)].sqrt(x, out=...)
        if divisor is not None:
            result /= divisor
        result += summand
        return result


class Tensors:
    """The verbs on tensors, by ops."""

    neg = staticmethod(lambda x: x.neg())
    scale = staticmethod(lambda x, factor: x.mul_(factor))
    add = staticmethod(lambda x, y, alpha: x.add_(y, alpha=alpha))
    plus = staticmethod(lambda x, y, alpha: x.add(y, alpha=alpha))
    add_product = staticmethod(lambda x, left, right, value: x.addcmul_(left, right, value=value))
    plus_product = staticmethod(lambda x, left, right, value: x.addcmul(left, right, value=value))
    add_quotient = staticmethod(lambda x, left, right, value: x.addcdiv_(left, right, value=value))
    approach = staticmethod(lambda x, end, weight, near: x.lerp_(end, weight))
    raise_to = staticmethod(lambda x, y: x.copy_(x.maximum(y)))

    @staticmethod
    def root(x: Any, divisor: Any, summand: Any) -> Any:
        result = x.sqrt()
        if divisor is not None:
            result = result.div(divisor)
        return result.add(summand)


class Counting:
    """The verbs on counts: how often a rule writes each of its tensors."""

    @staticmethod
    def written(x: list[int], *_others: Any) -> None:
        x[0] += 1

    @staticmethod
    def made(*_operands: Any) -> list[int]:
        return [0]

    scale = add = add_product = add_quotient = approach = raise_to = written
    neg = plus = plus_product = root = made


@cache
def writes_of(rule: Rule, tensors: int, tested: tuple[Any, ...]) -> tuple[int, ...]:
    """How often a rule writes each tensor of a row, for numbers of which it may test these."""
    counts = [[0] for _ in range(tensors)]
    rule(Counting, counts, *tested)
    return tuple([count[0] for count in counts])


def way(weight: float) -> tuple[float, bool]:
    """The two numbers that `approach` takes: the part of the way, and whether that is the lesser part."""
    return weight, abs(weight) < 0.5


def is_direct() -> bool:
    """Whether nothing surrounds this code that must see ops: recording, modes, a capture."""
    return modes.current() is False and not seams.is_compiling()


def arrays_of(tensors: tuple[Any, ...]) -> tuple[Array, ...] | None:
    """The arrays, if a rule may run on them: plain tensors of one shape and dtype that may be written to."""
    first = tensors[0].array
    shape, dtype, library = first.shape, first.dtype, type(first)
    if library not in DEVICES:
        return None
    if dtype is not FLOAT32 and dtype is not FLOAT64:
        return None
    gradient = tensors[1]
    arrays = []
    for tensor in tensors:
        kind = type(tensor)
        array = tensor.array
        if (kind is not Parameter and kind is not Tensor) or type(array) is not library:
            return None
        if array is not first and (array.dtype is not dtype or array.shape != shape):
            return None
        if tensor is not gradient and (tensor.cell is INFERENCE or not array.flags.c_contiguous):
            return None
        arrays.append(array)
    return tuple(arrays)


def update(rule: Rule, rows: Iterable[Row]) -> None:
    """Runs the rule on every row: on arrays where that is allowed, on tensors elsewhere."""
    direct: list[Row] = []
    others: list[Row] = []
    straight = is_direct()
    given: Any = None
    numbers: Any = None
    dtype: Any = None
    writes: tuple[int, ...] = ()
    for row in rows:
        arrays = arrays_of(row[0]) if straight else None
        if arrays is None:
            others.append(row)
            continue
        if row[1] is not given or arrays[0].dtype is not dtype:
            given, dtype = row[1], arrays[0].dtype
            # A ufunc takes an array of its own dtype twice as fast as a Python number.
            asarray = MODULES[type(arrays[0])].asarray
            numbers = tuple([asarray(n, dtype) if type(n) is float else n for n in given])
            tested = tuple([0.5 if type(n) is float else n for n in given])
            writes = writes_of(rule, len(arrays), tested)
        direct.append((arrays, numbers))
        for tensor, times in zip(row[0], writes):
            if times:
                cell = tensor.cell
                if cell is None:
                    tensor.cell = [times]
                else:
                    cell[0] += times
    if direct:
        quiet(_run, rule, direct)
    for tensors, numbers in others:
        rule(Tensors, tensors, *numbers)


def _run(rule: Rule, rows: list[Row]) -> None:
    for arrays, numbers in rows:
        size = arrays[0].size
        if size <= 2 * PIECE:
            rule(Arrays, arrays, *numbers)
            continue
        flat = [array.reshape(-1) for array in arrays]
        for start in range(0, size, PIECE):
            rule(Arrays, [array[start : start + PIECE] for array in flat], *numbers)


def check_steps(steps: list[Any]) -> None:
    """Step counters are tensors of one element, in the functional forms too."""
    if not all(isinstance(step, Tensor) for step in steps):
        raise RuntimeError("API has changed, `state_steps` argument must contain a list of singleton tensors")


def count_up(steps: list[Any]) -> None:
    """Counts one more step in step tensors."""
    direct = is_direct()
    for step in steps:
        if direct and type(step) is Tensor and type(step.array) in DEVICES:
            step.array.fill(step.array.item() + 1)
            step.bump()
        else:
            step.add_(1)


def advance(steps: list[Any]) -> list[float]:
    """Counts one more step in step tensors and tells the counts."""
    count_up(steps)  # all of them first: a graph can then read them in one go
    direct = is_direct()
    return [step.array.item() if direct and type(step) is Tensor else step.item() for step in steps]
