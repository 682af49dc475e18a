"""The writer of LLVM text: what its loops, branches and memory do when they run."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

from tests.native.targets import TRIPLES, assembled
from weft.native.cpu.engine import Loaded
from weft.native.cpu.writer import Writer, literal, vector_type


def run(w: Writer, name: str, *arguments: int) -> int:
    loaded = Loaded(w.text(), 0)
    shape: Any = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * len(arguments))
    return int(shape(loaded.address(name))(*arguments))


def test_loops_count_and_carry_values() -> None:
    """The sum of products of two loops, of which the inner one begins where the outer one stands."""
    w = Writer()
    with w.function("i64", "sums", "i64 %count"):
        with w.counting("0", "%count", 2, [("i64", "0")]) as outer:
            with w.counting(outer.at, "%count", 1, [("i64", outer.values[0])]) as inner:
                product = w.let(f"mul i64 {outer.at}, {inner.at}")
                inner.following = [w.add(inner.values[0], product)]
            outer.following = inner.values
        w.ret("i64", outer.values[0])
    for count in (0, 1, 2, 7):
        assert run(w, "sums", count) == sum(i * k for i in range(0, count, 2) for k in range(i, count))


def test_blocks_join_what_several_bring() -> None:
    w = Writer()
    with w.function("i64", "chosen", "i64 %number"):
        found = w.phi("i64")
        ten, twenty, join = (w.label() for _ in range(3))
        w.bring(found, -1)
        w.switch("%number", {1: ten, 5: twenty}, join)
        w.begin(ten)
        w.bring(found, 10)
        w.go(join)
        w.begin(twenty)
        with w.when(w.let("icmp sgt i64 %number, 4")):
            double = w.add("10", 10)
        w.bring(found, 20)
        w.go(join)
        with w.joining(join, found):
            w.ret("i64", found.name)
    assert double
    assert [run(w, "chosen", number) for number in (0, 1, 5)] == [-1, 10, 20]


def test_items_and_bytes_of_memory() -> None:
    w = Writer()
    with w.function("i64", "moved", "i64 %address"):
        base = w.let("inttoptr i64 %address to ptr")
        w.put_item("i64", w.item(base, 2), base, 0)
        w.store("i32", w.load(base, 8, "i32"), base, 12)
        missed = w.label()
        w.need(w.same("i64", w.item(base, 0), "7"), missed)
        w.ret("i64", w.scaled(w.item(base, 0), 3))
        w.begin(missed)
        w.ret("i64", -1)
    numbers = np.array([1, 5, 7], np.int64)
    assert run(w, "moved", numbers.ctypes.data) == 21
    assert numbers.tolist() == [7, 5 + (5 << 32), 7]
    numbers[2] = 8
    assert run(w, "moved", numbers.ctypes.data) == -1


@pytest.mark.parametrize("triple", TRIPLES)
@pytest.mark.parametrize("lanes", [1, 4])
def test_functions_of_the_same_text_assemble_for_every_processor(lanes: int, triple: str) -> None:
    w = Writer()
    whole = vector_type("f32", lanes)
    with w.function(whole, "root", f"{whole} %x"):
        w.ret(whole, w.intrinsic("sqrt", "f32", lanes, "%x"))
    with w.function("float", "third"):
        w.ret("float", literal(0.375, "f32"))
    assert len(w.declared) == 1
    assembled(w.text(), triple)


def test_numbers_and_truths() -> None:
    """Arithmetic, comparisons and connectives; a switch over what they tell."""
    w = Writer()
    with w.function("i64", "told", "i64 %a", "i64 %b"):
        inside = w.and_(w.compared("sge", "%a", 0), w.not_(w.compared("sgt", "%a", "%b")))
        some = w.or_(inside, w.same("i64", "%b", "7"))
        place = w.let("alloca i64")
        w.store_at("i64", w.changed("zext", some, "i1", "i64"), place)
        odd, even, other = w.label(), w.label(), w.label()
        w.switch(w.load(place, 0, "i64"), {0: other, 1: even}, odd)
        w.begin(even)
        w.ret("i64", w.add(w.quotient("%b", 3), w.remainder("%b", 3)))
        w.begin(odd)
        w.ret("i64", -2)
        w.begin(other)
        w.ret("i64", w.and_("%a", 6, "i64"))
    for a, b in ((0, 5), (3, 2), (-1, 7), (-3, 8), (4, 4)):
        expected = b // 3 + b % 3 if 0 <= a <= b or b == 7 else a & 6
        assert run(w, "told", a, b) == expected, (a, b)


def test_a_loop_has_the_names_that_it_is_given() -> None:
    w = Writer()
    with w.function("void", "named", "i64 %count", attributes="noinline "):
        with w.counting("0", "%count", names=("rows", "row", "behind", "at")):
            pass
        w.ret()
    text = w.text()
    assert all(f"\n{name}" in text for name in ("rows", "row", "behind"))
    assert "%at" in text and "(i64 %count) noinline {" in text
