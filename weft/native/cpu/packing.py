"""Products of matrices that are packed: as BLAS does it, but each matrix once, for all tiles.

Takes the products of a program; gives those that are large enough a packed copy of their first matrix, and
the text of functions that multiply it. One idea: a tile of the result stays in registers while it reads two
streams that lie as they are read. BLAS packs both matrices for every call, so for each tile of each thread;
here, the first one is packed by a step of its own, and a strip of the second on the stack of whoever
multiplies by it, so that tiles may be as small as threads like them.

# Note [Packed]
Rows stand in panels of `HEIGHT`, the rest in panels of `LOW`, the last one filled up with zeros. A panel has
its rows' elements for each place of the depth; the one whose first row is r begins at r times the depth.

# Note [Record of a packed product]
That of `weft.native.cpu.blas`, but for three numbers:
    14 rows of a part      15 unused      16 how much of the depth is packed at once
Chunks are cut of strips: all strips of columns for the first part of the rows, then those for the next one.
The sum of an element has the same order wherever the cuts are, so chunks do not change bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, Final

from weft.native.cpu import gemm
from weft.native.cpu.conv_code import Code
from weft.native.cpu.conv_text import transposed
from weft.native.cpu.engine import host
from weft.native.ir.definitions import Definition, Direct, Matrix, Product
from weft.native.ir.sizes import at_least, greatest, least, negated, settled, where, whole_number
from weft.native.plan.rewrite import Definitions, Rule
from weft.native.plan.work import product_work

VECTOR_BYTES: Final = 64
"""Of machines that have registers for this: with narrower vectors, BLAS is as fast."""
LANES: Final = 16
HEIGHT: Final = 12
LOW: Final = 4
"""Rows of a tile: twelve of two vectors take 24 of 32 registers."""
STRIP: Final = 2 * LANES
DEEPEST: Final = 512
"""How much of the depth is packed at once, at most: a strip of it takes 64 KB of the stack."""
PART: Final = 1 << 20
"""About how many elements of the first matrix all strips read before the next ones: these stay near."""
LEAST_PANELS: Final = 16
"""Of a part: strips are packed for each of them."""
AHEAD: Final = 8
"""So many rows ahead, the second matrix is fetched from memory."""
TOGETHER: Final = 4
"""Panels that are packed at once, where their rows lie beside each other: three lines of the cache."""
ELEMENT: Final = 0.2
"""How many ns packing an element takes."""
CHUNK: Final = 10_000
"""About how many ns a chunk takes at least."""
MOST_CHUNKS: Final = 64

LEAST_ROWS: Final = 65
LEAST_COLUMNS: Final = 64
LEAST: Final = 1 << 22
"""Multiplications from which on packing is worth while."""


def is_better(each: Product) -> Any:
    """Whether a product is computed here; measured. Where sizes are open, each call decides."""
    if each.type != "f32" or each.count > 1:
        return False
    work = each.rows * each.columns * each.depth
    large = at_least(work, LEAST) & at_least(each.columns, LEAST_COLUMNS) & at_least(each.rows, LEAST_ROWS)
    strips = -(-each.columns // STRIP) * STRIP
    fits = at_least(each.columns * 10, strips * 9)  # few lanes without work
    return settled(large & fits & negated(gemm.is_better(each)), work, LEAST)


# -- the first matrix ----------------------------------------------------------------------------------------
@cache
def packing_text(turned: bool) -> str:
    """Record: result, source; offset, distance of rows (of columns, where it lies turned), rows, depth.
    Chunks are cut of panels.
    """
    code = Code("f32", VECTOR_BYTES)
    result, source = code.buffer(0), code.buffer(1)
    offset, leading, rows, depth = code.numbers(2, 4)
    start = code.past(source, offset)
    down, across = ("1", leading) if turned else (leading, "1")
    whole = code.least("%hi", code.out.let(f"udiv i64 {rows}, {HEIGHT}"))
    panel = "%lo"
    for beside in (TOGETHER, 1) if turned else (1,):
        with code.loop(panel, code.sub(whole, beside - 1), beside) as high:
            row = code.mul(high.at, HEIGHT)
            here = code.past(start, code.mul(row, down))
            goal = code.past(result, code.mul(row, depth))
            if turned:
                _columns_packed(code, here, leading, goal, depth, beside)
            else:
                _rows_packed(code, here, leading, goal, depth)
        panel = high.at
    with code.loop(panel, "%hi") as low:
        row = code.mul(low.at, HEIGHT)
        here = code.past(start, code.mul(row, down))
        goal = code.past(result, code.mul(row, depth))
        left = code.sub(rows, row)
        with (
            code.loop("0", left, LOW) as some,
            code.loop("0", depth) as place,
            code.loop("0", str(LOW)) as one,
        ):
            number = code.add(some.at, one.at)
            known = code.out.let(f"icmp slt i64 {number}, {left}")
            number = code.out.let(f"select i1 {known}, i64 {number}, i64 0")
            value = code.load_one(
                code.past(here, code.add(code.mul(number, down), code.mul(place.at, across)))
            )
            value = code.out.let(f"select i1 {known}, float {value}, float 0.0")
            target = code.add(code.mul(some.at, depth), code.add(code.mul(place.at, LOW), one.at))
            code.store_one(value, code.past(goal, target))
    return code.text()


def _first(count: int) -> str:
    """A mask of so many lanes."""
    return "<" + ", ".join(f"i1 {'true' if i < count else 'false'}" for i in range(LANES)) + ">"


def _columns_packed(code: Code, here: str, leading: str, goal: str, depth: str, beside: int) -> None:
    """Some panels whose rows lie beside each other."""
    panel = code.mul(depth, HEIGHT)
    with code.loop("0", depth) as place:
        source = code.past(here, code.mul(place.at, leading))
        target = code.past(goal, code.mul(place.at, HEIGHT))
        for number in range(beside):
            value = code.masked_load(code.past(source, number * HEIGHT), _first(HEIGHT))
            code.masked_store(value, code.past(target, code.mul(panel, number)), _first(HEIGHT))


def _rows_packed(code: Code, here: str, leading: str, goal: str, depth: str) -> None:
    """A panel whose rows lie apart: turned round by small registers, which is as fast as memory is, and soon
    compiled; the rest one by one.
    """
    few = Code("f32", LOW * code.size)
    few.out = code.out
    whole = code.out.let(f"and i64 {depth}, {-LOW}")
    with code.loop("0", whole, LOW) as place, code.loop("0", str(HEIGHT), LOW) as some:
        first = code.past(here, code.add(code.mul(leading, some.at), place.at))
        target = code.past(goal, code.add(code.mul(place.at, HEIGHT), some.at))
        rows = [few.load(code.past(first, code.mul(leading, row))) for row in range(LOW)]
        for number, vector in enumerate(transposed(few, rows)):
            few.store(vector, code.past(target, number * HEIGHT))
    with code.loop(whole, depth) as place, code.loop("0", str(HEIGHT)) as row:
        value = code.load_one(code.past(here, code.add(code.mul(leading, row.at), place.at)))
        code.store_one(value, code.past(goal, code.add(code.mul(place.at, HEIGHT), row.at)))


# -- the product ---------------------------------------------------------------------------------------------
@cache
def lines(turned: bool) -> list[str]:
    """The function of a product: see Note [Record of a packed product]. `turned` is how the second matrix
    lies.
    """
    code = Code("f32", VECTOR_BYTES)
    numbers = code.numbers(0, 18)
    rows, columns, depth, leading, beside = (numbers[place] for place in (0, 1, 2, 10, 13))
    left, right, result = (code.past(code.buffer(place), numbers[place + 1]) for place in (5, 8, 11))
    onto = code.out.let(f"icmp ne i64 {numbers[17]}, 0")
    strip = code.room(2 * (DEEPEST + LANES))
    strips = code.out.let(f"udiv i64 {code.add(columns, STRIP - 1)}, {STRIP}")
    with code.loop("%lo", "%hi") as item:
        part, number = code.apart(item.at, strips)
        column = code.mul(number, STRIP)
        wide = code.sub(columns, column)
        masks = [code.first_lanes(wide), code.first_lanes(code.sub(wide, LANES))]
        first = code.mul(part, numbers[14])
        last = code.least(code.add(first, numbers[14]), rows)
        with code.loop("0", depth, numbers[16]) as block:
            deep = code.least(code.sub(depth, block.at), numbers[16])
            if turned:
                start = code.past(right, code.add(code.mul(column, leading), block.at))
                _strip_turned(code, start, leading, strip, deep, wide)
            else:
                start = code.past(right, code.add(code.mul(block.at, leading), column))
                _strip_copied(code, start, leading, strip, deep, masks)
            later = code.out.let(f"icmp sgt i64 {block.at}, 0")
            adds = code.out.let(f"or i1 {later}, {onto}")
            row = first
            for height in (HEIGHT, LOW):
                stop = code.sub(last, height - 1) if height == HEIGHT else last
                with code.loop(row, stop, height) as place:
                    panel = code.add(code.mul(place.at, depth), code.mul(block.at, height))
                    goal = code.past(result, code.add(code.mul(place.at, beside), column))
                    sums = _tile(code, code.past(left, panel), strip, deep, height)
                    below = None if height == HEIGHT else code.sub(last, place.at)
                    _stored(code, sums, goal, beside, masks, adds, below)
                row = place.at
    return code.text().splitlines()


def _strip_copied(code: Code, start: str, leading: str, strip: str, deep: str, masks: Sequence[str]) -> None:
    """Columns of the second matrix, where they lie beside each other."""
    name = "@llvm.prefetch.p0"
    code.out.declared[name] = f"declare void {name}(ptr, i32, i32, i32)"
    with code.loop("0", deep) as place:
        here = code.past(start, code.mul(place.at, leading))
        ahead = code.past(here, code.mul(leading, AHEAD))
        goal = code.past(strip, code.mul(place.at, STRIP))
        for half in range(2):
            code.out.line(f"call void {name}(ptr {code.past(ahead, half * LANES)}, i32 0, i32 3, i32 1)")
            vector = code.masked_load(code.past(here, half * LANES), masks[half])
            code.store(vector, code.past(goal, half * LANES))


def _strip_turned(code: Code, start: str, leading: str, strip: str, deep: str, wide: str) -> None:
    """Columns of the second matrix that lie as rows: turned round by registers, what is left one by one."""
    whole = code.out.let(f"icmp sge i64 {wide}, {STRIP}")
    some = code.out.let(f"and i64 {deep}, {-LANES}")
    some = code.out.let(f"select i1 {whole}, i64 {some}, i64 0")
    with code.loop("0", some, LANES) as place, code.loop("0", str(STRIP), LANES) as half:
        here = code.past(start, code.add(code.mul(half.at, leading), place.at))
        goal = code.past(strip, code.add(code.mul(place.at, STRIP), half.at))
        rows = [code.load(code.past(here, code.mul(leading, row))) for row in range(LANES)]
        for number, vector in enumerate(transposed(code, rows)):
            code.store(vector, code.past(goal, number * STRIP))
    with code.loop(some, deep) as place, code.loop("0", code.least(wide, STRIP)) as column:
        value = code.load_one(code.past(start, code.add(code.mul(column.at, leading), place.at)))
        code.store_one(value, code.past(strip, code.add(code.mul(place.at, STRIP), column.at)))


def _tile(code: Code, panel: str, strip: str, deep: str, height: int) -> list[str]:
    """The sums of a tile."""
    carried = [("ptr", panel), ("ptr", strip), *[(code.vector, "zeroinitializer")] * (2 * height)]
    with code.loop("0", deep, 1, carried) as place:
        left, right, *sums = place.values
        beside = [code.load(right), code.load(code.past(right, LANES))]
        made = []
        for row in range(height):
            spread = code.splat(code.load_one(code.past(left, row)))
            made += [code.fma(spread, beside[half], sums[2 * row + half]) for half in range(2)]
        place.following = [code.past(left, height), code.past(right, STRIP), *made]
    return place.values[2:]


def _stored(
    code: Code, sums: list[str], goal: str, beside: str, masks: list[str], adds: str, below: str | None
) -> None:
    """Puts a tile where it belongs; `below` is how many rows there are, where some may be missing."""
    for row in range(len(sums) // 2):
        for half in range(2):
            mask = masks[half]
            if below is not None:
                known = code.out.let(f"icmp sgt i64 {below}, {row}")
                mask = code.out.let(f"select i1 {known}, {code.mask} {mask}, {code.mask} zeroinitializer")
            target = code.past(goal, code.add(code.mul(beside, row), half * LANES))
            value = sums[2 * row + half]
            total = code.plus(code.masked_load(target, mask), value)
            value = code.out.let(f"select i1 {adds}, {code.vector} {total}, {code.vector} {value}")
            code.masked_store(value, target, mask)


# -- programs ------------------------------------------------------------------------------------------------
def rows_of_part(each: Product) -> Any:
    """How many rows all strips are multiplied with before the next ones."""
    parts = -(-each.rows * each.depth // PART)
    return greatest(-(-each.rows // parts // HEIGHT), LEAST_PANELS) * HEIGHT


def strips_of(each: Product) -> Any:
    return -(-each.columns // STRIP) * -(-each.rows // rows_of_part(each))


def chunks_of(each: Product) -> Any:
    """Into how many chunks the strips are cut: nothing is done for each of them that is not their own."""
    return greatest(1, least(strips_of(each), product_work(each) // CHUNK, MOST_CHUNKS))


def numbers_of(each: Product) -> list[Any]:
    """What stands in the record for batches: see Note [Record of a packed product]."""
    blocks = -(-each.depth // DEEPEST)
    block = -(-each.depth // blocks // LANES) * LANES
    return [rows_of_part(each), 0, least(block, DEEPEST)]


def packed(base: Definition, product: Product, wanted: Any = True) -> Direct:
    """The packed copy of a product's first matrix, which is empty where it is not wanted."""
    rows, depth = product.rows, product.depth
    panels = where(wanted, -(-rows // HEIGHT), 0)
    work = whole_number(20 + ELEMENT * rows * depth)
    turned = product.left.transposed
    return Direct(
        shape=(where(wanted, -(-rows // LOW) * LOW * depth, 0),), type=product.type, name="pack", call=None,
        operands=[base], function=f"pack_{'columns' if turned else 'rows'}", text=packing_text(turned),
        numbers=(product.left.offset, product.left.leading, rows, depth), rows=panels,
        chunks=greatest(1, least(panels, work // CHUNK, MOST_CHUNKS)), work=work,
    )  # fmt: skip


class PackOperands(Rule):
    """Gives products packed copies of their first matrices."""

    kinds = (Product,)

    def __init__(self, definitions: Definitions) -> None:
        super().__init__(definitions)
        self.known: dict[tuple[Any, ...], Direct] = {}

    def applies(self) -> bool:
        return host()[2] == VECTOR_BYTES

    def visit(self, value: Definition) -> None:
        assert isinstance(value, Product)
        wanted = is_better(value)
        if wanted is False:
            return
        base, left, right = value.operands[value.left.operand], value.left, value.right
        number = None if wanted is True else wanted.expression
        key = id(base), left.offset, left.leading, left.transposed, value.rows, value.depth, number
        if key not in self.known:
            self.known[key] = packed(base, value, wanted)
        value.packed = wanted
        if wanted is not True:
            value.operands, value.panels = [*value.operands, self.known[key]], len(value.operands)
            return
        second = value.operands[right.operand]
        value.operands = [self.known[key], second, *([] if value.onto is None else [value.onto])]
        value.left = Matrix(0, 0, False, value.depth, 0)
        value.right = Matrix(1, right.offset, right.transposed, right.leading, 0)
