"""Convolutions, windows and weighted sums as lowering asks targets for them: sizes, and where operands lie.

Gives records without code. One idea: whatever the number of axes, there are three, of which the missing ones
have one place; so a target knows one kind of convolution, and averages over windows are convolutions by ones.
"""

from __future__ import annotations

from typing import Final

from weft.core.records import record
from weft.native.ir.definitions import Definition, Shape

Sizes = tuple[int, ...]
Start = tuple[Definition, int]
"""Memory in row-major order, and the element that comes first."""
WeightedPlaces = list[list[tuple[int, float]]]
"""For each result along an axis, places and weights."""
AXES: Final = 3


@record(frozen=True, slots=True)
class Geometry:
    """A convolution's axes, three of them: sizes of input, output and kernel."""

    input: Sizes
    output: Sizes
    taps: Sizes
    stride: Sizes
    padding: Sizes
    """Before the first element; what is behind the last follows from the sizes."""
    dilation: Sizes

    def settled(self) -> Geometry:
        """With the numbers of this call: tables list pixel by pixel and tap by tap, so they are for no other.
        Open sizes would be compared, and computed with, as many times."""
        axes = self.input, self.output, self.taps, self.stride, self.padding, self.dilation
        return Geometry(*[tuple(map(int, sizes)) for sizes in axes])


@record(slots=True)
class Sides:
    """How many examples, groups, and channels of each group a convolution reads and gives."""

    examples: int
    groups: int
    inputs: int
    outputs: int


@record(frozen=True, slots=True)
class Laid:
    """Where the elements of an operand lie: its memory, an offset and strides, in elements."""

    base: Definition
    offset: int
    strides: Shape


@record(frozen=True, slots=True)
class Windowed:
    """Windows over planes: `planes` of examples and channels, with three axes each."""

    planes: Shape
    sizes: Shape
    counts: Shape
    """How many windows there are along each axis."""
    taps: int
    """Those of a window along the last axis, as its stride and dilation are."""
    stride: int
    dilation: int
    along: list[list[list[tuple[int, int]]]]
    """For each axis and each window along it: the taps that lie inside, and their places."""
