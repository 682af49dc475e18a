"""Blocks of random words, as LLVM text.

Gives the modules of two functions: one that stores words, and one that stores whether they are below a
threshold. One idea: a block has several numbers, so whoever computes one element alone computes the others in
vain; these functions go from block to block, and what is made of the words are kernels like any other. See
Note [Counter scheme] in `weft.ops.philox`.

# Note [Record of a draw]
    0 result    1 seeds    2 which draw    3 elements    4 threshold
What is cut into chunks are blocks. Of the last block, only the words that are wanted are stored.
"""

from __future__ import annotations

from functools import cache
from typing import Final

from weft.native.cpu.conv_code import Code
from weft.ops.philox import MULTIPLIER, ROUNDS, WEYL

LANES: Final = {"u32": 8, "u64": 4, "b1": 8}
"""How many elements a block has."""
STORED: Final = {"u32": "i32", "u64": "i64", "b1": "i8"}
ALIGNED: Final = {"u32": 4, "u64": 8, "b1": 1}
BLOCK: Final = 9
"""How long a block takes, in ns."""


def signed(word: int) -> int:
    """A word of 64 bits as LLVM writes it."""
    word %= 2**64
    return word - 2**64 if word >= 2**63 else word


def _product(code: Code, x: str, factor: int) -> tuple[str, str]:
    """The upper and the lower half of a product."""
    wide = code.out.let(f"zext i64 {x} to i128")
    product = code.out.let(f"mul i128 {wide}, {factor}")
    upper = code.out.let(f"lshr i128 {product}, 64")
    return code.out.let(f"trunc i128 {upper} to i64"), code.out.let(f"trunc i128 {product} to i64")


def _xor(code: Code, *words: str) -> str:
    found = words[0]
    for word in words[1:]:
        found = code.out.let(f"xor i64 {found}, {word}")
    return found


def _block(code: Code, counter: str, keys: list[str]) -> str:
    """The four words of a block, as a vector."""
    first, second, third, fourth = counter, "0", "0", "0"
    for turn in range(ROUNDS):
        high_third, low_third = _product(code, third, MULTIPLIER[1])
        high_first, low_first = _product(code, first, MULTIPLIER[0])
        first = _xor(code, high_third, second, keys[turn])
        third = _xor(code, high_first, fourth, str(signed(turn * WEYL[1])))
        second, fourth = low_third, low_first
    found = "poison"
    for place, word in enumerate((first, second, third, fourth)):
        found = code.out.let(f"insertelement <4 x i64> {found}, i64 {word}, i64 {place}")
    return found


def _elements(code: Code, block: str, type_: str, threshold: str) -> tuple[str, str]:
    """The type of a block's elements, and these."""
    if type_ == "u64":
        return "<4 x i64>", block
    halves = code.out.let(f"bitcast <4 x i64> {block} to <8 x i32>")
    if type_ == "u32":
        return "<8 x i32>", halves
    first = code.out.let(f"insertelement <8 x i32> poison, i32 {threshold}, i64 0")
    limit = code.out.let(f"shufflevector <8 x i32> {first}, <8 x i32> poison, <8 x i32> zeroinitializer")
    below = code.out.let(f"icmp ult <8 x i32> {halves}, {limit}")
    return "<8 x i8>", code.out.let(f"zext <8 x i1> {below} to <8 x i8>")


@cache
def draw(type_: str) -> str:
    """Words of 32 or 64 bits, or (b1) whether those of 32 bits are below the threshold."""
    code = Code("i64", 32)
    out, lanes, element, aligned = code.out, LANES[type_], STORED[type_], ALIGNED[type_]
    room = code.room(1)
    target, seeds = code.buffer(0), code.buffer(1)
    number, count = code.numbers(2, 2)
    threshold = out.let(f"trunc i64 {code.number(4)} to i32") if type_ == "b1" else "0"
    place = code.mul(number, 2)
    key, offset = code.number(place, seeds), code.number(code.add(place, 1), seeds)
    keys = [code.add(key, signed(turn * WEYL[0])) for turn in range(ROUNDS)]
    whole = out.let(f"udiv i64 {count}, {lanes}")
    stop = code.least("%hi", whole)
    with code.loop("%lo", stop) as block:
        kind, made = _elements(code, _block(code, code.add(offset, block.at), keys), type_, threshold)
        to = code.past(target, code.mul(block.at, lanes), element)
        out.line(f"store {kind} {made}, ptr {to}, align {aligned}")
    with code.when(out.let(f"icmp sgt i64 %hi, {whole}")):
        kind, made = _elements(code, _block(code, code.add(offset, whole), keys), type_, threshold)
        out.line(f"store {kind} {made}, ptr {room}, align 8")
        start = code.mul(whole, lanes)
        with code.loop("0", code.sub(count, start)) as lane:
            word = out.let(f"load {element}, ptr {code.past(room, lane.at, element)}, align {aligned}")
            to = code.past(target, code.add(start, lane.at), element)
            out.line(f"store {element} {word}, ptr {to}, align {aligned}")
    return code.text()
