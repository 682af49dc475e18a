"""The target `cpu`: machine code for this machine.

Gives the object that lowering and planning ask. One idea: it says how wide vectors are to functions that know
no machine; what writes their text is loaded when an op first needs it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from weft.core.lazy import lazy
from weft.native.ir.definitions import Definition, Direct, Shape
from weft.native.ir.spatial import Geometry, Laid, Sides, Start, WeightedPlaces, Windowed
from weft.native.plan.rewrite import Rule

_batch: Any = lazy("weft.native.plan.batch_products")
_blas: Any = lazy("weft.native.cpu.blas")
_conv: Any = lazy("weft.native.cpu.conv")
_conv_weight: Any = lazy("weft.native.cpu.conv_weight")
_copy: Any = lazy("weft.native.cpu.copy_operands")
_engine: Any = lazy("weft.native.cpu.engine")
_packing: Any = lazy("weft.native.cpu.packing")
_resize: Any = lazy("weft.native.cpu.resize")
_scatter: Any = lazy("weft.native.cpu.scatter")
_steps: Any = lazy("weft.native.cpu.steps")
_windows: Any = lazy("weft.native.cpu.windows")


class Cpu:
    """Vectors and threads of this machine, and the BLAS of NumPy: see `weft.native.target.Target`."""

    name = "cpu"
    joins = True

    @property
    def vector_bytes(self) -> int:
        width: int = _engine.host()[2]
        return width

    @property
    def rules(self) -> Sequence[type[Rule]]:
        return _batch.BatchProducts, _packing.PackOperands, _copy.CopyOperands

    # -- steps -----------------------------------------------------------------------------------------------
    def multiplies(self, type_: str) -> bool:
        return type_ in _blas.FUNCTIONS and bool(_blas.function(type_)[0])

    def convolution(
        self, x: Laid, w: Laid, bias: Laid | None, geometry: Geometry, sides: Sides, shape: Shape, type_: str
    ) -> Definition:
        made: Direct = _conv.convolution(x, w, bias, geometry, sides, shape, type_, self.vector_bytes)
        return made

    def input_gradient(
        self, g: Laid, w: Laid, bias: Laid | None, geometry: Geometry, sides: Sides, shape: Shape, type_: str
    ) -> Definition:
        made: Direct = _conv.input_gradient(g, w, bias, geometry, sides, shape, type_, self.vector_bytes)
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


cpu: Final = Cpu()
