"""The target `cpu`: machine code for this machine.

Gives the object that lowering and planning ask. One idea: it says how wide vectors are to functions that know
no machine; what writes their text is loaded when an op first needs it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from weft.core.lazy import lazy
from weft.native.cpu.calls import is_known
from weft.native.cpu.engine import host, unusable

if TYPE_CHECKING:
    from weft.native.cpu.runner import Runner
    from weft.native.ir.definitions import Definition, Shape
    from weft.native.ir.spatial import Geometry, Laid, Sides, Start, WeightedPlaces, Windowed
    from weft.native.plan.rewrite import Rule
    from weft.native.program.planning import Planned

_assemble: Any = lazy("weft.native.program.assemble")
_batch: Any = lazy("weft.native.plan.batch_products")
_blas: Any = lazy("weft.native.cpu.blas")
_conv: Any = lazy("weft.native.cpu.conv")
_conv_weight: Any = lazy("weft.native.cpu.conv_weight")
_copy: Any = lazy("weft.native.cpu.copy_operands")
_emission: Any = lazy("weft.native.cpu.emission")
_packing: Any = lazy("weft.native.cpu.packing")
_products: Any = lazy("weft.native.cpu.products")
_resize: Any = lazy("weft.native.cpu.resize")
_runner: Any = lazy("weft.native.cpu.runner")
_scatter: Any = lazy("weft.native.cpu.scatter")
_steps: Any = lazy("weft.native.cpu.steps")
_windows: Any = lazy("weft.native.cpu.windows")


class Cpu:
    """Vectors and threads of this machine, and the BLAS of NumPy: see `weft.native.target.Target`."""

    name = "cpu"
    joins = True

    def __init__(self, runner: type[Runner] | None = None) -> None:
        self.runner, self.keeps = runner, runner is None
        """What runs programs, where that is to look at them, too: these are not kept."""

    @property
    def vector_bytes(self) -> int:
        return host()[2]

    @property
    def rules(self) -> Sequence[type[Rule]]:
        return _batch.BatchProducts, _packing.PackOperands, _copy.CopyOperands

    # -- steps -----------------------------------------------------------------------------------------------
    def multiplies(self, type_: str) -> bool:
        return type_ in _blas.FUNCTIONS and bool(_blas.function(type_)[0])

    def convolution(
        self, x: Laid, w: Laid, bias: Laid | None, geometry: Geometry, sides: Sides, shape: Shape, type_: str
    ) -> Definition:
        made: Definition = _conv.convolution(x, w, bias, geometry, sides, shape, type_, self.vector_bytes)
        return made

    def input_gradient(
        self, g: Laid, w: Laid, bias: Laid | None, geometry: Geometry, sides: Sides, shape: Shape, type_: str
    ) -> Definition:
        made: Definition = _conv.input_gradient(g, w, bias, geometry, sides, shape, type_, self.vector_bytes)
        return made

    def weight_gradient(
        self, g: Laid, x: Laid, geometry: Geometry, sides: Sides, shape: Shape, type_: str
    ) -> Definition:
        made: Definition = _conv_weight.weight_gradient(
            g, x, geometry, sides, shape, type_, self.vector_bytes
        )
        return made

    def maxima(
        self, x: Laid, windows: Windowed, shape: Shape, type_: str, read: bool
    ) -> tuple[Definition, Definition]:
        made: tuple[Definition, Definition] = _windows.maxima(
            x, windows, shape, type_, read, self.vector_bytes
        )
        return made

    def unpooled(
        self, values: Start, places: Start, planes: Shape, sizes: Shape, spatial: Shape, type_: str,
        unique: bool,
    ) -> Definition:  # fmt: skip
        given = values, places, planes, sizes, spatial
        made: Definition = _windows.unpooled(*given, type_, unique, self.vector_bytes)
        return made

    def gathered(
        self, values: Start, places: Start, planes: Shape, spatial: Shape, sizes: Shape, type_: str
    ) -> Definition:
        given = values, places, planes, spatial, sizes
        made: Definition = _windows.gathered(*given, type_, self.vector_bytes)
        return made

    def weighted_sums(
        self, base: Definition, start: int, shape: Shape, axis: int, lists: WeightedPlaces, type_: str,
        name: str,
    ) -> Definition:  # fmt: skip
        given = base, start, shape, axis, lists
        made: Definition = _resize.weighted_sums(*given, type_, name, self.vector_bytes)
        return made

    def scattered(
        self, kind: str, base: Definition, places: Definition, values: Definition, columns: int, name: str
    ) -> Definition:
        made: Definition = _scatter.scattered(kind, base, places, values, columns, name, self.vector_bytes)
        return made

    def scanned(
        self, kind: str, operands: Sequence[Definition], axis: int, carrier: str, name: str
    ) -> Definition:
        made: Definition = _scatter.scanned(kind, operands, axis, carrier, name, self.vector_bytes)
        return made

    def words(self, seeds: Definition, number: int, shape: Shape, type_: str, threshold: int) -> Definition:
        made: Definition = _steps.words(seeds, number, shape, type_, threshold)
        return made

    def check(self, failure: Definition) -> Definition:
        made: Definition = _steps.check(failure)
        return made

    # -- running ---------------------------------------------------------------------------------------------
    def unusable(self) -> str:
        if not is_known():
            return "this interpreter lays objects out in another way than native entries read them"
        return unusable()

    def executable(self, planned: Planned, inputs: Sequence[Any]) -> Runner:
        emitted = _emission.Emission(planned.plan)
        program = _assemble.assembled(planned, len(inputs), emitted, _products.record_of)
        made: Runner = (self.runner or _runner.Runner)(program, emitted.functions, inputs)
        return made


cpu: Final = Cpu()
