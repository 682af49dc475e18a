"""Targets: what programs are planned for, and what runs them.

Gives the protocol that lowering and planning ask. One idea: what an op means, which values one kernel
computes and which share memory is the same everywhere; how wide vectors are, which functions there are
beside kernels, and what a kernel is compiled to is a target's own. `weft.native.cpu.target` compiles to
machine code, `weft.native.reference.target` reads the same programs with NumPy; a third touches neither.

# Note [Steps of a target]
What is not a kernel (convolutions, maxima of windows, scatters, random words) is asked of the target by what
it computes, and where its operands lie. It answers with definitions, which may be several steps, or raises
`Unlowered`: then the op runs its array kernel.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from weft.native.ir.definitions import Definition, Shape
    from weft.native.ir.spatial import Geometry, Laid, Sides, Start, WeightedPlaces, Windowed
    from weft.native.plan.rewrite import Rule


class Unlowered(Exception):
    """An op, or this call of it, has no kernels of ours."""


class Target(Protocol):
    """What programs are for."""

    name: str
    joins: bool
    """Whether parts of a value may be computed where they belong in it."""

    # -- what planning asks ----------------------------------------------------------------------------------
    @property
    def rules(self) -> Sequence[type[Rule]]:
        """What is done to definitions when it is known which lie in inputs, in this order."""

    # -- steps: see Note [Steps of a target] -----------------------------------------------------------------
    def multiplies(self, type_: str) -> bool:
        """Whether there are products of matrices of this type."""

    def convolution(
        self, x: Laid, w: Laid, bias: Laid | None, geometry: Geometry, sides: Sides, shape: Shape, type_: str
    ) -> Definition:
        """`x` correlated with `w`, which has output channels first; row by row, as all that follow."""

    def input_gradient(
        self, g: Laid, w: Laid, bias: Laid | None, geometry: Geometry, sides: Sides, shape: Shape, type_: str
    ) -> Definition:
        """What a convolution's input gets from its result's gradient `g`; `sides` say what is read and given
        here: outputs are the convolution's input channels."""

    def weight_gradient(
        self, g: Laid, x: Laid, geometry: Geometry, sides: Sides, shape: Shape, type_: str
    ) -> Definition:
        """What a convolution's weights get from its result's gradient `g`."""

    def maxima(
        self, x: Laid, windows: Windowed, shape: Shape, type_: str, read: bool
    ) -> tuple[Definition, Definition]:
        """The maxima of windows, and their places in planes, if these are `read`."""

    def unpooled(
        self, values: Start, places: Start, planes: Shape, sizes: Shape, spatial: Shape, type_: str,
        unique: bool,
    ) -> Definition:  # fmt: skip
        """Zeros of `spatial` sizes with each plane's values, of `sizes`, put (or added, unless they are
        `unique`) at their places in it."""

    def gathered(
        self, values: Start, places: Start, planes: Shape, spatial: Shape, sizes: Shape, type_: str
    ) -> Definition:
        """The values at each plane's places."""

    def weighted_sums(
        self, base: Definition, start: int, shape: Shape, axis: int, lists: WeightedPlaces, type_: str,
        name: str,
    ) -> Definition:  # fmt: skip
        """Sums along an axis of what has this shape, and begins there in its memory."""

    def scattered(
        self, kind: str, base: Definition, places: Definition, values: Definition, columns: int, name: str
    ) -> Definition:
        """A copy of `base` with rows of `values` put (or added) where `places` say, in elements from its
        beginning, one after the other."""

    def scanned(
        self, kind: str, operands: Sequence[Definition], axis: int, carrier: str, name: str
    ) -> Definition:
        """A running fold along an axis, computed in the type `carrier`."""

    def words(self, seeds: Definition, number: int, shape: Shape, type_: str, threshold: int) -> Definition:
        """Random words: see Note [Seeds] in `weft.native.program.drawing`."""

    def check(self, failure: Definition) -> Definition:
        """A step behind which a program goes on only where this is false."""
