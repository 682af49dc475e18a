"""The line search of LBFGS: a step length that satisfies the strong Wolfe conditions.

Takes the value and slope of a function along a line, gives a point of it. One idea: lengths grow until two of
them hold such a point between them; then the pair closes in by cubic interpolation.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

LESS = 1e-4  # of the first slope: how far the value must fall
FLATTER = 0.9  # of the first slope: how flat the line must have become


@dataclass(frozen=True)
class Point:
    """A length along the line, with the function's value, gradient and slope there."""

    length: Any
    value: float
    gradient: Any
    slope: Any


def cubic(first: Point, second: Point, bounds: tuple[Any, Any] | None = None) -> Any:
    """Where the cubic through two points with these slopes is least, within the bounds."""
    x1, x2 = first.length, second.length
    low, high = bounds if bounds is not None else ((x1, x2) if x1 <= x2 else (x2, x1))
    mid = first.slope + second.slope - 3 * (first.value - second.value) / (x1 - x2)
    square = mid**2 - first.slope * second.slope
    if not square >= 0:
        return (low + high) / 2.0
    root = math.sqrt(square)
    left, right = (first, second) if x1 <= x2 else (second, first)
    part = (right.slope + root - mid) / (right.slope - left.slope + 2 * root)
    least = right.length - (right.length - left.length) * part
    return min(max(least, low), high)


def strong_wolfe(
    evaluate: Callable[[Any], Point],
    start: Point,
    length: Any,
    reach: Any,
    most: int,
    tolerance: float = 1e-9,
) -> tuple[Point, int]:
    """The point chosen and how often the function was evaluated; `reach` is the direction's largest element,
    `most` the number of lengths to try after the first."""
    bracket, tries = _expand(evaluate, start, length, most)
    evaluations = tries + 1
    if len(bracket) == 1:
        return bracket[0], evaluations
    low = _lower(bracket)
    stuck = False
    while tries < most:
        high = 1 - low
        ends = [bracket[0].length, bracket[1].length]
        if abs(ends[1] - ends[0]) * reach < tolerance:
            break
        length, stuck = _inside(cubic(bracket[0], bracket[1]), ends, stuck)
        point = evaluate(length)
        evaluations += 1
        tries += 1
        if point.value > start.value + LESS * length * start.slope or point.value >= bracket[low].value:
            bracket[high] = point
            low = _lower(bracket)
            continue
        good = abs(point.slope) <= -FLATTER * start.slope
        if not good and point.slope * (bracket[high].length - bracket[low].length) >= 0:
            bracket[high] = bracket[low]
        bracket[low] = point
        if good:
            break
    return bracket[low], evaluations


def _lower(bracket: list[Point]) -> int:
    return 0 if bracket[0].value <= bracket[1].value else 1


def _expand(
    evaluate: Callable[[Any], Point], start: Point, length: Any, most: int
) -> tuple[list[Point], int]:
    """Two points that hold a good one between them, or a good one alone; and the tries it took."""
    before, point = start, evaluate(length)
    for tries in range(most):
        fell_short = point.value > start.value + LESS * length * start.slope
        if fell_short or (tries > 1 and point.value >= before.value):
            return [before, point], tries
        if abs(point.slope) <= -FLATTER * start.slope:
            return [point], tries
        if point.slope >= 0:
            return [before, point], tries
        bounds = (length + 0.01 * (length - before.length), length * 10)
        length = cubic(before, point, bounds)
        before, point = point, evaluate(length)
    return [start, point], max(most, 0)


def _inside(length: Any, ends: list[Any], stuck: bool) -> tuple[Any, bool]:
    """Keeps a length away from the ends if it comes near them twice, or lies on one."""
    least, most = min(ends), max(ends)
    margin = 0.1 * (most - least)
    if min(most - length, length - least) >= margin:
        return length, False
    if stuck or length >= most or length <= least:
        near_most = abs(length - most) < abs(length - least)
        return (most - margin if near_most else least + margin), False
    return length, True
