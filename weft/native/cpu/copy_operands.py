"""Transposing: the second matrix of a product, copied into the layout that is fastest for BLAS.

A rule that gives products whose second matrix lies transposed (every `linear`) a copy of it, one for all
products that read it. One idea: BLAS rearranges such a matrix for every call, at half the
speed of everything else where the first one has few rows, and slower than a transposition by registers.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from weft.native.cpu import gemm
from weft.native.cpu.conv_code import Code
from weft.native.ir.definitions import Definition, Direct, Matrix, Product
from weft.native.ir.sizes import at_least, greatest, least, negated, same, settled, where, whole_number
from weft.native.plan.rewrite import Definitions, Rule

BLOCK: Final = 8
"""Rows and columns of what is transposed at once."""
FEWEST_ROWS: Final = 4
MOST_ROWS: Final = 256
"""Of the first matrix: more of them outweigh what BLAS does for each call."""
MOST_ELEMENTS: Final = 1 << 18
"""Of the second: more lie in no near memory, so that copying takes longer than what it saves."""
LEAST: Final = 16
"""Rows and columns of the second."""
ELEMENT: Final = 0.25
"""How many ns an element takes."""
CHUNK: Final = 10_000
MANY_ROWS: Final = 48
"""From which on batches are copied, too."""


@cache
def text(type_: str) -> str:
    """Record: result, source; offset, distance of rows, rows and columns of the source, distance to the next
    source. Chunks are cut of blocks of its columns, of one source after the other.
    """
    code = Code(type_, BLOCK * (4 if type_ == "f32" else 8))
    result, source = code.buffer(0), code.buffer(1)
    offset, leading, rows, columns, beside = code.numbers(2, 5)
    start = code.past(source, offset)
    blocks = code.out.let(f"udiv i64 {code.add(columns, BLOCK - 1)}, {BLOCK}")
    with code.loop("%lo", "%hi") as item:
        entry, block = code.apart(item.at, blocks)
        here = code.past(start, code.mul(entry, beside))
        goal = code.past(result, code.mul(entry, code.mul(rows, columns)))
        across = code.mul(block, BLOCK)
        with code.loop("0", rows, BLOCK) as down:
            _block(code, here, goal, (across, down.at), (leading, rows, columns))
    return code.text()


def _block(code: Code, start: str, result: str, place: tuple[str, str], sizes: tuple[str, str, str]) -> None:
    """One block: whole ones by registers, those at the edges one element at a time."""
    (across, down), (leading, rows, columns) = place, sizes
    left, below = code.sub(columns, across), code.sub(rows, down)
    whole = code.out.let(f"icmp sge i64 {code.least(left, below)}, {BLOCK}")
    wide, narrow, done = (code.out.label(name) for name in ("whole", "part", "done"))
    code.out.choose(whole, wide, narrow)
    code.out.begin(wide)
    pointers = [_row(code, start, down, row, leading, across) for row in range(BLOCK)]
    vectors = _turned(code, [code.load(pointer) for pointer in pointers])
    for column, vector in enumerate(vectors):
        code.store(vector, _row(code, result, across, column, rows, down))
    code.out.go(done)
    code.out.begin(narrow)
    few, some = code.least(left, BLOCK), code.least(below, BLOCK)
    with code.loop("0", few) as right, code.loop("0", some) as lower:
        column_at, row_at = code.add(across, right.at), code.add(down, lower.at)
        value = code.load_one(code.past(start, code.add(code.mul(row_at, leading), column_at)))
        code.store_one(value, code.past(result, code.add(code.mul(column_at, rows), row_at)))
    code.go(done)


def _row(code: Code, start: str, first: str, number: int, leading: str, place: str) -> str:
    """The address of an element of a row."""
    return code.past(start, code.add(code.mul(code.add(first, number), leading), place))


def _turned(code: Code, vectors: list[str]) -> list[str]:
    """Eight vectors of eight, transposed: thrice, each is shuffled with the one half of them further."""
    half = BLOCK // 2
    for _ in range(3):
        found = []
        for number in range(half):
            a, b = vectors[number], vectors[number + half]
            for start in (0, half):
                places = [start + i // 2 + (BLOCK if i % 2 else 0) for i in range(BLOCK)]
                mask = ", ".join(f"i32 {place}" for place in places)
                shuffle = f"{code.vector} {a}, {code.vector} {b}, <{BLOCK} x i32> <{mask}>"
                found.append(code.out.let(f"shufflevector {shuffle}"))
        vectors = found
    return vectors


def is_slow(each: Product) -> Any:
    """Whether BLAS would be slow with the second matrix as it lies; calls decide where sizes are open."""
    if not each.right.transposed or each.packed is True:
        return False
    rows, elements = each.rows, each.columns * each.depth
    sizes = at_least(least(each.columns, each.depth), LEAST)
    some = at_least(rows, FEWEST_ROWS) & at_least(MOST_ROWS, rows)
    few = at_least(MOST_ELEMENTS, elements) | at_least(MOST_ROWS // 4 - 1, rows)
    large = at_least(1, each.count) | at_least(rows, MANY_ROWS)
    wanted = (sizes & some & few & large) | gemm.is_tiny(each)
    return settled(negated(each.packed) & wanted, rows, FEWEST_ROWS, MOST_ROWS)


def transposed(base: Definition, product: Product, wanted: Any = True) -> Direct:
    """A copy of a product's second matrix, or of the whole batch of them; empty where it is not wanted."""
    rows, columns, right = product.columns, product.depth, product.right
    count = where(wanted, product.count if right.batch else 1, 0)
    work = whole_number(20 + ELEMENT * rows * columns * count)
    blocks = -(-columns // BLOCK) * count
    return Direct(
        shape=(count, columns, rows), type=product.type, name="transpose", call=None, operands=[base],
        function=f"transpose_{product.type}", text=text(product.type),
        numbers=(right.offset, right.leading, rows, columns, right.batch), rows=blocks,
        chunks=greatest(1, least(blocks, work // CHUNK)), work=work,
    )  # fmt: skip


class CopyOperands(Rule):
    kinds = (Product,)

    def __init__(self, definitions: Definitions) -> None:
        super().__init__(definitions)
        self.known: dict[tuple[Any, ...], Direct] = {}

    def visit(self, value: Definition) -> None:
        assert isinstance(value, Product)
        wanted = is_slow(value)
        if wanted is False:
            return
        base, left, right = value.operands[value.right.operand], value.left, value.right
        count = value.count if right.batch else 1
        number = None if wanted is True else wanted.expression
        key = id(base), right.offset, right.leading, value.depth, value.columns, count, right.batch, number
        if key not in self.known:
            self.known[key] = transposed(base, value, wanted)
        batch = 0 if same(count, 1) else value.depth * value.columns
        if wanted is not True:
            value.straight = Matrix(len(value.operands), 0, False, value.columns, batch)
            value.operands, value.copied = [*value.operands, self.known[key]], wanted
            return
        onto = [] if value.onto is None else [value.onto]
        value.operands = [value.operands[left.operand], self.known[key], *onto]
        value.left = Matrix(0, left.offset, left.transposed, left.leading, left.batch)
        value.right = Matrix(1, 0, False, value.columns, batch)
