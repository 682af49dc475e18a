"""Small matrix products: register tiles, without packing the operands.

Gives the text of functions with the records of `weft.native.cpu.blas`. One idea: what BLAS gains by
rearranging
matrices it loses where there are few rows, so a tile of the result is held in registers, the second matrix is
read along its rows, and elements of the first one are spread over lanes.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from weft.native.cpu.conv_code import Code
from weft.native.cpu.tiles import Tile, tile
from weft.native.ir.definitions import Product
from weft.native.ir.sizes import at_least, equal, greatest, negated, where, where_true

WIDE: Final = (12, 4, 1)
THREES: Final = 3
"""Rows that are reached from one pointer: addresses have a factor of up to two, and more."""


SMALL: Final = 1_000_000
"""Up to so many multiplications, BLAS has kernels of its own that rearrange nothing."""
LITTLE: Final = 400_000
"""The same, of one of many products."""
TINY: Final = 1 << 15
"""Multiplications of one of many products that are not worth a call."""
MOST_ROWS: Final = 64
FEW: Final = 8
NEAR: Final = 1 << 16
"""Up to so many elements of a matrix are read as fast as if they were rearranged."""
DEEPEST: Final = 512


def is_tiny(each: Product) -> Any:
    """Whether each product of a batch takes less than what BLAS does for a call, which threads do one after
    the other."""
    if each.type != "f32":
        return False
    return at_least(each.count, 2) & at_least(TINY, each.rows * each.columns * each.depth)


def is_better(each: Product) -> Any:
    """Whether a product is computed here: measured, for float32, at half of BLAS's time up to its own. Where
    sizes are open, each call decides."""
    if each.type != "f32" or each.packed is True or (each.right.transposed and each.straight is None):
        return False
    rows, columns, depth = each.rows, each.columns, each.depth
    size = rows * columns * depth
    turned = each.left.transposed  # whose rows lie side by side, not behind each other in the same lines
    most = greatest(rows // 4 if turned else rows, columns) * depth
    deepest = 2 * DEEPEST if turned else DEEPEST
    strip = tile().strip
    lanes = -(-columns // strip) * strip
    fits = at_least(columns * 10, lanes * 9)  # few lanes without work
    near = fits & at_least(NEAR, most) & at_least(deepest, depth)
    single = at_least(1, each.count)
    large = at_least(size, where(single, SMALL, LITTLE) + 1)
    fours = equal(rows % 4, 0)
    tall = near & large & (at_least(rows, MOST_ROWS + 1) | negated(single))
    whole = at_least(rows, 2 * FEW) | (at_least(rows, FEW) & fours)  # no row by itself
    low = whole & at_least(MOST_ROWS, rows) & at_least(size, SMALL + 1)
    lies = negated(each.packed) & (each.copied if each.right.transposed else True)
    wide = at_least(columns, strip) & where_true(tall, fours | at_least(rows, 2 * MOST_ROWS), low)
    return lies & (wide | is_tiny(each))


@cache
def lines(type_: str, batched: bool, tile: Tile) -> list[str]:
    """The function of a product whose second matrix is not transposed: see Note [Record of a product] in
    `weft.native.cpu.blas`.
    """
    code = Code(type_, tile.vector_bytes)
    numbers = code.numbers(0, 18)
    left, right, result = (code.past(code.buffer(place), numbers[place + 1]) for place in (5, 8, 11))
    turned = code.out.let(f"icmp ne i64 {numbers[3]}, 0")
    down = code.out.let(f"select i1 {turned}, i64 1, i64 {numbers[7]}")
    across = code.out.let(f"select i1 {turned}, i64 {numbers[7]}, i64 1")
    onto = code.out.let(f"icmp ne i64 {numbers[17]}, 0")
    product = _Product(code, numbers, down, across, onto, *tile.heights)
    if batched:
        with code.loop("%lo", "%hi") as entry:
            a, b, c = (
                code.past(start, code.mul(entry.at, numbers[place]))
                for start, place in ((left, 14), (right, 15), (result, 16))
            )
            product.write(a, b, c, "0", numbers[0])
    else:
        product.write(left, right, result, "%lo", "%hi")
    return code.text().splitlines()


class _Product:
    """Writes the loops of one product."""

    def __init__(
        self, code: Code, numbers: list[str], down: str, across: str, onto: str, plain: tuple[int, ...],
        masked: tuple[int, ...],
    ) -> None:  # fmt: skip
        self.code, self.down, self.across, self.onto = code, down, across, onto
        self.plain, self.masked = plain, masked
        """Heights of tiles whose columns all exist (none where masks cost nothing), and of others."""
        self.columns, self.depth = numbers[1], numbers[2]
        self.right_step, self.result_step = numbers[10], numbers[13]

    def write(self, a: str, b: str, c: str, first: str, last: str) -> None:
        code = self.code
        step = 2 * code.lanes
        at = "0"
        if self.plain:
            with code.loop(at, code.sub(self.columns, step - 1), step) as column:
                self.strip(a, b, c, first, last, column.at, [], self.plain)
            at = column.at
        with code.loop(at, self.columns, step) as column:
            left = code.sub(self.columns, column.at)
            masks = [code.first_lanes(left), code.first_lanes(code.sub(left, code.lanes))]
            self.strip(a, b, c, first, last, column.at, masks, self.masked)

    def strip(
        self, a: str, b: str, c: str, first: str, last: str, column: str, masks: list[str],
        heights: tuple[int, ...],
    ) -> None:  # fmt: skip
        """Two vectors of columns of all rows."""
        code = self.code
        start = code.past(b, column)
        row = first
        for height in heights:
            stop = code.sub(last, height - 1)
            with code.loop(row, stop, height) as rows:
                target = code.past(c, code.add(code.mul(rows.at, self.result_step), column))
                self.tile(code.past(a, code.mul(rows.at, self.down)), start, target, masks, height)
            row = rows.at

    def load(self, pointer: str, part: int, masks: list[str]) -> str:
        pointer = self.code.past(pointer, part * self.code.lanes) if part else pointer
        return self.code.masked_load(pointer, masks[part]) if masks else self.code.load(pointer)

    def tile(self, a: str, b: str, c: str, masks: list[str], height: int) -> None:
        """`height` rows of two vectors, of all columns where there are no masks."""
        code = self.code
        pointers = [code.past(a, code.mul(self.down, row)) for row in range(0, height, THREES)]
        carried = [("ptr", b), *[("ptr", pointer) for pointer in pointers]]
        carried += [(code.vector, "zeroinitializer")] * (2 * height)
        with code.loop("0", self.depth, 1, carried) as depth:
            here, *rest = depth.values
            starts, sums = rest[: len(pointers)], rest[len(pointers) :]
            row_of_b = [self.load(here, part, masks) for part in range(2)]
            made = []
            for row in range(height):
                start, number = starts[row // THREES], row % THREES
                place = start if not number else code.past(start, code.mul(self.down, number))
                spread = code.splat(code.load_one(place))
                for part in range(2):
                    made.append(code.fma(spread, row_of_b[part], sums[2 * row + part]))
            depth.following = [
                code.past(here, self.right_step), *[code.past(each, self.across) for each in starts], *made
            ]  # fmt: skip
        sums = depth.values[1 + len(pointers) :]
        for row in range(height):
            for part in range(2):
                target = code.past(c, code.add(code.mul(self.result_step, row), part * code.lanes))
                old = self.load(target, 0, masks[part:])
                total = code.plus(old, sums[2 * row + part])
                value = code.out.let(
                    f"select i1 {self.onto}, {code.vector} {total}, {code.vector} {sums[2 * row + part]}"
                )
                if masks:
                    code.masked_store(value, target, masks[part])
                else:
                    code.store(value, target)
