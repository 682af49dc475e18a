"""Targets: what programs are planned for, and what runs them.

Gives the protocol that lowering, planning and running ask. One idea: what an op means, which values one
kernel computes and which share memory is the same everywhere; how wide vectors are, which functions there are
beside kernels, and what a kernel is compiled to is a target's own. `weft.native.cpu.target` compiles to
machine code, `weft.native.reference.target` reads the same programs with NumPy; a third touches neither.

# Note [Steps of a target]
What is not a kernel (convolutions, maxima of windows, scatters, random words) is asked of the target by what
it computes, and where its operands lie. It answers with definitions, which may be several steps, or raises
`Unlowered`: then the op runs its array kernel.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from weft.native.ir.definitions import Definition, Shape
    from weft.native.ir.spatial import Geometry, Laid, Sides, Start, WeightedPlaces, Windowed
    from weft.native.plan.rewrite import Rule
    from weft.native.program.drawing import Draws
    from weft.native.program.planning import Planned
    from weft.native.program.program import Program


class Uncompiled(Exception):
    """There is no machine code for something, or it cannot be run here."""


class Unlowered(Exception):
    """An op, or this call of it, has no kernels of ours."""


class Running(Protocol):
    """A program in this process."""

    program: Program
    draws: Draws | None
    looks: bool
    """Whether a call sees by itself that inputs are not as the program was made for."""
    is_restored: bool
    """Whether the program comes from the disk."""

    @property
    def givens(self) -> Sequence[tuple[int, int]]: ...
    @property
    def written(self) -> Sequence[tuple[int, int]]: ...
    @property
    def python(self) -> Mapping[int, Any]:
        """Steps that Python does."""

    @property
    def results(self) -> Sequence[tuple[str, Any]]:
        """See `weft.native.program.program.results_of`."""

    @property
    def frame(self) -> Any:
        """What native entries run it by; None where they cannot."""

    def __call__(self, inputs: Sequence[Any]) -> list[Any]:
        """The results for these inputs, which are numbered as the graph's are. Raises `Changed` where they
        are laid out otherwise, and `Failed` where it has written nothing."""


class Target(Protocol):
    """What programs are for."""

    name: str
    keeps: bool
    """Whether a program is kept, for later processes and for other sizes; else, each layout has its own."""
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

    # -- running ---------------------------------------------------------------------------------------------
    def unusable(self) -> str:
        """Why this process cannot run programs; "" where it can."""

    def executable(self, planned: Planned, inputs: Sequence[Any]) -> Running:
        """The program of a plan, with code, for inputs that are laid out as these."""
