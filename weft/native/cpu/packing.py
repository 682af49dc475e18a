"""Products of matrices that are packed: as BLAS does it, but each matrix once, for all tiles.

Takes the products of a program; gives those that are large enough a packed copy of their first matrix, and
the text of functions that multiply it. One idea: a tile of the result stays in registers while it reads two
streams that lie as they are read. BLAS packs both matrices for every call, so for each tile of each thread;
here, the first one is packed by a step of its own, and a strip of the second on the stack of whoever
multiplies by it, so that tiles may be as small as threads like them.

# Note [Packed]
Rows stand in panels of a tile's height, the rest in low ones, the last of which is filled up with zeros. A
panel has its rows' elements for each place of the depth; the one whose first row is r begins at r times the
depth.

# Note [Record of a packed product]
That of `weft.native.cpu.blas`, but for three numbers:
    14 rows of a part      15 unused      16 how much of the depth is packed at once
Chunks are cut of strips: all strips of columns for the first part of the rows, then those for the next one.
The sum of an element has the same order wherever the cuts are, so chunks do not change bits.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from weft.native.cpu import gemm
from weft.native.cpu.conv_code import Code
from weft.native.cpu.conv_text import transposed
from weft.native.cpu.tiles import VECTORS, Tile, is_worth_it, tile
from weft.native.ir.definitions import Definition, Direct, Matrix, Product
from weft.native.ir.sizes import at_least, greatest, least, negated, settled, where, whole_number
from weft.native.plan.rewrite import Definitions, Rule
from weft.native.plan.work import product_work

DEEPEST: Final = 512
"""How much of the depth is packed at once, at most: with the widest vectors, a strip of it takes 64 KB of
the stack.
"""
PART: Final = 1 << 20
"""About how many elements of the first matrix all strips read before the next ones: these stay near."""
LEAST_PANELS: Final = 16
"""Of a part: strips are packed for each of them."""
AHEAD: Final = 8
"""So many rows ahead, the second matrix is fetched from memory."""
SQUARE: Final = 4
"""Rows and columns that are turned round at once."""
LINE: Final = 64
"""Bytes that are fetched together."""
TURNS: Final = 4
"""Places of the depth between two jumps."""
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
    strip = tile().strip
    strips = -(-each.columns // strip) * strip
    fits = at_least(each.columns * 10, strips * 9)  # few lanes without work
    return settled(large & fits & negated(gemm.is_better(each)), work, LEAST)


# -- the first matrix ----------------------------------------------------------------------------------------
@cache
def packing_text(turned: bool, tile: Tile) -> str:
    """Record: result, source; offset, distance of rows (of columns, where it lies turned), rows, depth.
    Chunks are cut of panels.
    """
    code, height, low_height = Code("f32", tile.vector_bytes), tile.height, tile.low
    result, source = code.buffer(0), code.buffer(1)
    offset, leading, rows, depth = code.numbers(2, 4)
    start = code.past(source, offset)
    down, across = ("1", leading) if turned else (leading, "1")
    whole = code.least("%hi", code.out.let(f"udiv i64 {rows}, {height}"))
    panel = "%lo"
    for beside in (TOGETHER, 1) if turned else (1,):
        with code.loop(panel, code.sub(whole, beside - 1), beside) as high:
            row = code.mul(high.at, height)
            here = code.past(start, code.mul(row, down))
            goal = code.past(result, code.mul(row, depth))
            if turned:
                _columns_packed(code, tile, here, leading, goal, depth, beside)
            else:
                _rows_packed(code, tile, here, leading, goal, depth)
        panel = high.at
    with code.loop(panel, "%hi") as low:
        row = code.mul(low.at, height)
        here = code.past(start, code.mul(row, down))
        goal = code.past(result, code.mul(row, depth))
        left = code.sub(rows, row)
        with (
            code.loop("0", left, low_height) as some,
            code.loop("0", depth) as place,
            code.loop("0", str(low_height)) as one,
        ):
            number = code.add(some.at, one.at)
            known = code.out.let(f"icmp slt i64 {number}, {left}")
            number = code.out.let(f"select i1 {known}, i64 {number}, i64 0")
            value = code.load_one(
                code.past(here, code.add(code.mul(number, down), code.mul(place.at, across)))
            )
            value = code.out.let(f"select i1 {known}, float {value}, float 0.0")
            target = code.add(code.mul(some.at, depth), code.add(code.mul(place.at, low_height), one.at))
            code.store_one(value, code.past(goal, target))
    return code.text()


def _first(count: int, lanes: int) -> str:
    """A mask of so many lanes."""
    return "<" + ", ".join(f"i1 {'true' if i < count else 'false'}" for i in range(lanes)) + ">"


def _columns_packed(
    code: Code, tile: Tile, here: str, leading: str, goal: str, depth: str, beside: int
) -> None:
    """Some panels whose rows lie beside each other."""
    panel = code.mul(depth, tile.height)
    with code.loop("0", depth) as place:
        source = code.past(here, code.mul(place.at, leading))
        target = code.past(goal, code.mul(place.at, tile.height))
        for number in range(beside):
            for first in range(0, tile.height, code.lanes):
                mask = _first(tile.height - first, code.lanes)
                value = code.masked_load(code.past(source, number * tile.height + first), mask)
                code.masked_store(value, code.past(target, code.add(code.mul(panel, number), first)), mask)


def _rows_packed(code: Code, tile: Tile, here: str, leading: str, goal: str, depth: str) -> None:
    """A panel whose rows lie apart: turned round by small registers, which is as fast as memory is; the rest
    one by one.
    """
    few = Code("f32", SQUARE * code.size)
    few.out = code.out
    whole = code.out.let(f"and i64 {depth}, {-SQUARE}")
    with code.loop("0", whole, SQUARE) as place:
        for some in range(0, tile.height, SQUARE):
            count = min(SQUARE, tile.height - some)
            first = code.past(here, code.add(code.mul(leading, some), place.at))
            target = code.past(goal, code.add(code.mul(place.at, tile.height), some))
            rows = [few.load(code.past(first, code.mul(leading, row))) for row in range(count)]
            for number, vector in enumerate(transposed(few, rows)):
                _first_stored(few, vector, count, few.past(target, number * tile.height))
    with code.loop(whole, depth) as place, code.loop("0", str(tile.height)) as row:
        value = code.load_one(code.past(here, code.add(code.mul(leading, row.at), place.at)))
        code.store_one(value, code.past(goal, code.add(code.mul(place.at, tile.height), row.at)))


def _first_stored(code: Code, vector: str, count: int, target: str) -> None:
    """Stores the first lanes of a vector."""
    if count < code.lanes:
        lanes = ", ".join(f"i32 {lane}" for lane in range(count))
        shuffle = f"shufflevector {code.vector} {vector}, {code.vector} poison, <{count} x i32> <{lanes}>"
        vector = code.out.let(shuffle)
    code.out.line(f"store <{count} x {code.element}> {vector}, ptr {target}, align {code.size}")


# -- the product ---------------------------------------------------------------------------------------------
@cache
def lines(turned: bool, tile: Tile) -> list[str]:
    """The function of a product: see Note [Record of a packed product]. `turned` is how the second matrix
    lies.
    """
    code = Code("f32", tile.vector_bytes)
    numbers = code.numbers(0, 18)
    rows, columns, depth, leading, beside = (numbers[place] for place in (0, 1, 2, 10, 13))
    left, right, result = (code.past(code.buffer(place), numbers[place + 1]) for place in (5, 8, 11))
    onto = code.out.let(f"icmp ne i64 {numbers[17]}, 0")
    strip = code.room(tile.together * VECTORS * (DEEPEST + code.lanes))
    items = code.out.let(f"udiv i64 {code.add(columns, tile.columns - 1)}, {tile.columns}")
    with code.loop("%lo", "%hi") as item:
        part, number = code.apart(item.at, items)
        column = code.mul(number, tile.columns)
        wide = code.least(code.sub(columns, column), tile.columns)
        count = code.out.let(f"udiv i64 {code.add(wide, tile.strip - 1)}, {tile.strip}")
        first = code.mul(part, numbers[14])
        last = code.least(code.add(first, numbers[14]), rows)
        with code.loop("0", depth, numbers[16]) as block:
            deep = code.least(code.sub(depth, block.at), numbers[16])
            length = code.mul(deep, tile.strip)
            if turned:
                start = code.past(right, code.add(code.mul(column, leading), block.at))
                with code.loop("0", count) as some:
                    here = code.past(start, code.mul(code.mul(some.at, tile.strip), leading))
                    goal = code.past(strip, code.mul(some.at, length))
                    left_over = code.sub(wide, code.mul(some.at, tile.strip))
                    _strip_turned(code, here, leading, goal, deep, left_over)
            else:
                start = code.past(right, code.add(code.mul(block.at, leading), column))
                _strips_copied(code, tile, start, leading, strip, deep, wide)
            later = code.out.let(f"icmp sgt i64 {block.at}, 0")
            adds = code.out.let(f"or i1 {later}, {onto}")
            with code.loop("0", count) as one:
                here = code.mul(one.at, tile.strip)
                masks = _masks(code, code.sub(wide, here))
                packed_strip = code.past(strip, code.mul(one.at, length))
                row = first
                for height in (tile.height, tile.low):
                    stop = code.sub(last, height - 1) if height == tile.height else last
                    with code.loop(row, stop, height) as place:
                        panel = code.add(code.mul(place.at, depth), code.mul(block.at, height))
                        across = code.add(column, here)
                        goal = code.past(result, code.add(code.mul(place.at, beside), across))
                        sums = _tile(code, code.past(left, panel), packed_strip, deep, height)
                        below = None if height == tile.height else code.sub(last, place.at)
                        _stored(code, sums, goal, beside, masks, adds, below)
                    row = place.at
    return code.text().splitlines()


def _masks(code: Code, wide: str) -> list[str]:
    """Which columns of a strip there are."""
    return [code.first_lanes(code.sub(wide, half * code.lanes)) for half in range(VECTORS)]


def _strips_copied(
    code: Code, tile: Tile, start: str, leading: str, strip: str, deep: str, wide: str
) -> None:
    """Columns of the second matrix, where they lie beside each other: one strip behind the other."""
    name = "@llvm.prefetch.p0"
    code.out.declared[name] = f"declare void {name}(ptr, i32, i32, i32)"
    masks = [code.first_lanes(code.sub(wide, n * code.lanes)) for n in range(VECTORS * tile.together)]
    length = code.mul(deep, tile.strip)
    with code.loop("0", deep) as place:
        here = code.past(start, code.mul(place.at, leading))
        ahead = code.past(here, code.mul(leading, AHEAD))
        goal = code.past(strip, code.mul(place.at, tile.strip))
        for number, mask in enumerate(masks):
            far = number * code.lanes
            if far * code.size % LINE == 0:
                code.out.line(f"call void {name}(ptr {code.past(ahead, far)}, i32 0, i32 3, i32 1)")
            vector = code.masked_load(code.past(here, far), mask)
            target = code.past(goal, code.mul(length, number // VECTORS))
            code.store(vector, code.past(target, number % VECTORS * code.lanes))


def _strip_turned(code: Code, start: str, leading: str, strip: str, deep: str, wide: str) -> None:
    """Columns of the second matrix that lie as rows: turned round by registers, what is left one by one."""
    width = VECTORS * code.lanes
    whole = code.out.let(f"icmp sge i64 {wide}, {width}")
    some = code.out.let(f"and i64 {deep}, {-code.lanes}")
    some = code.out.let(f"select i1 {whole}, i64 {some}, i64 0")
    with code.loop("0", some, code.lanes) as place, code.loop("0", str(width), code.lanes) as half:
        here = code.past(start, code.add(code.mul(half.at, leading), place.at))
        goal = code.past(strip, code.add(code.mul(place.at, width), half.at))
        rows = [code.load(code.past(here, code.mul(leading, row))) for row in range(code.lanes)]
        for number, vector in enumerate(transposed(code, rows)):
            code.store(vector, code.past(goal, number * width))
    with code.loop(some, deep) as place, code.loop("0", code.least(wide, width)) as column:
        value = code.load_one(code.past(start, code.add(code.mul(column.at, leading), place.at)))
        code.store_one(value, code.past(strip, code.add(code.mul(place.at, width), column.at)))


def _tile(code: Code, panel: str, strip: str, deep: str, height: int) -> list[str]:
    """The sums of a tile; several places of the depth at a time."""
    kinds = ["ptr", "ptr", *[code.vector] * (VECTORS * height)]
    values = [panel, strip, *["zeroinitializer"] * (VECTORS * height)]
    at, wide = "0", VECTORS * code.lanes
    for turns in (TURNS, 1):
        with code.loop(at, code.sub(deep, turns - 1), turns, list(zip(kinds, values))) as place:
            left, right, *sums = place.values
            for turn in range(turns):
                beside = [
                    code.load(code.past(right, turn * wide + half * code.lanes)) for half in range(VECTORS)
                ]
                for row in range(height):
                    spread = code.splat(code.load_one(code.past(left, turn * height + row)))
                    for half, vector in enumerate(beside):
                        number = VECTORS * row + half
                        sums[number] = code.fma(spread, vector, sums[number])
            place.following = [code.past(left, turns * height), code.past(right, turns * wide), *sums]
        at, values = place.at, place.values
    return values[2:]


def _stored(
    code: Code, sums: list[str], goal: str, beside: str, masks: list[str], adds: str, below: str | None
) -> None:
    """Puts a tile where it belongs, or adds it to what is there; `below` is how many rows there are, where
    some may be missing.
    """
    fresh = code.out.let(f"xor i1 {adds}, true")
    for condition in (adds, fresh):
        with code.when(condition):
            for row in range(len(sums) // VECTORS):
                for half in range(VECTORS):
                    mask = masks[half]
                    if below is not None:
                        known = code.out.let(f"icmp sgt i64 {below}, {row}")
                        mask = code.out.let(
                            f"select i1 {known}, {code.mask} {mask}, {code.mask} zeroinitializer"
                        )
                    target = code.past(goal, code.add(code.mul(beside, row), half * code.lanes))
                    value = sums[VECTORS * row + half]
                    if condition is adds:
                        value = code.plus(code.masked_load(target, mask), value)
                    code.masked_store(value, target, mask)


# -- programs ------------------------------------------------------------------------------------------------
def rows_of_part(each: Product) -> Any:
    """How many rows all strips are multiplied with before the next ones."""
    parts = -(-each.rows * each.depth // PART)
    height = tile().height
    return greatest(-(-each.rows // parts // height), LEAST_PANELS) * height


def strips_of(each: Product) -> Any:
    return -(-each.columns // tile().columns) * -(-each.rows // rows_of_part(each))


def chunks_of(each: Product) -> Any:
    """Into how many chunks the strips are cut: nothing is done for each of them that is not their own."""
    return greatest(1, least(strips_of(each), product_work(each) // CHUNK, MOST_CHUNKS))


def numbers_of(each: Product) -> list[Any]:
    """What stands in the record for batches: see Note [Record of a packed product]."""
    blocks = -(-each.depth // DEEPEST)
    lanes = tile().lanes
    block = -(-each.depth // blocks // lanes) * lanes
    return [rows_of_part(each), 0, least(block, DEEPEST)]


def packed(base: Definition, product: Product, wanted: Any = True) -> Direct:
    """The packed copy of a product's first matrix, which is empty where it is not wanted."""
    rows, depth, ours = product.rows, product.depth, tile()
    panels = where(wanted, -(-rows // ours.height), 0)
    work = whole_number(20 + ELEMENT * rows * depth)
    turned, size = product.left.transposed, -(-rows // ours.low) * ours.low * depth
    return Direct(
        shape=(where(wanted, size, 0),), type=product.type, name="pack", call=None, operands=[base],
        function=f"pack_{'columns' if turned else 'rows'}", text=packing_text(turned, ours),
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
        return is_worth_it()

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
