"""Drafts: native instructions of one version in canonical words, in native order.

Takes a code object, gives a list of `Draft`, whose stack still is the native one. One idea: one rule per
native instruction, in one dict per version; what is the same everywhere stands in the common one. Internal
ops, which layout.py turns into canonical ones or removes: HOLE (the NULL that 3.11 and 3.12 push before a
callable), END_SEND and LEFT_OUT (nothing at run time, but a place where jumps land).
"""

from __future__ import annotations

import dis
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from types import CodeType
from typing import Any

from weft.capture.bytecode.native import (
    PAIRS,
    EncodedInstruction,
    Positions,
    original_code,
    read_instructions,
    slot_names,
)

VERSION = sys.version_info[:2]

# 3.11 and 3.12 keep the NULL of a call below the callable, 3.13 above it, as the canonical set does.
NULL_FIRST = VERSION < (3, 13)
# Since 3.12 a finished SEND leaves the iterator for END_SEND to drop, and CLEANUP_THROW leaves a None for it.
HAS_END_SEND = VERSION >= (3, 12)

Step = tuple[str, Any]


@dataclass(slots=True)
class Draft:
    """One instruction on its way to the canonical set.

    To enter the code just before it: run `rest`, then go to `entry`. For most, `rest` is empty and `entry` is
    the instruction itself; where one native instruction became several, the later ones have no place of their
    own.
    """

    op: str
    arg: Any
    offset: int
    positions: Positions
    entry: int
    rest: tuple[Step, ...] = ()
    start: int = -1
    """The offset at which jumps land here; -1 where none can."""
    is_root: bool = False
    """Whether the stack is empty before it: the first one, and the first of the original in resumed code."""
    protects: Draft | None = field(default=None, repr=False)
    """Of a handler that has no native counterpart: the one instruction it is for."""


class UnknownInstruction(ValueError):
    """Bytecode that no compiler of the versions known here writes."""


_PRIVATE: Any = dis  # whose tables of names these are
BINARY_OPERATORS = [symbol for _, symbol in getattr(_PRIVATE, "_nb_ops", ())]
UNARY_OPERATORS = {
    "UNARY_NEGATIVE": "-",
    "UNARY_POSITIVE": "+",
    "UNARY_INVERT": "~",
    "UNARY_NOT": "not",
}
CONVERSIONS = (None, "str", "repr", "ascii")
COMPARISON_SHIFT = {(3, 11): 0, (3, 12): 4, (3, 13): 5}
KNOWN = frozenset(COMPARISON_SHIFT)
"""The Pythons whose bytecode is read here."""
# What MAKE_FUNCTION may find under the code object, in the order of the stack.
EXTRAS = {1: "defaults", 2: "kwdefaults", 4: "annotations", 8: "closure"}
INTRINSICS_1: dict[str, Step] = {
    "PRINT": ("PRINT", None),
    "IMPORT_STAR": ("IMPORT_STAR", None),
    "STOPITERATION_ERROR": ("STOPITERATION_ERROR", None),
    "ASYNC_GEN_WRAP": ("ASYNC_GEN_WRAP", None),
    "UNARY_POSITIVE": ("UNARY", "+"),
    "LIST_TO_TUPLE": ("LIST_TO_TUPLE", None),
}


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


NOTHING = frozenset(
    {"RESUME", "NOP", "CACHE", "PRECALL", "TO_BOOL", "COPY_FREE_VARS", "RETURN_GENERATOR", "END_FOR"}
)
# Native name, argument and meaning are the canonical ones.
SAME_BARE = _words(
    """POP_TOP PUSH_NULL LOAD_LOCALS LOAD_BUILD_CLASS LOAD_ASSERTION_ERROR SETUP_ANNOTATIONS BINARY_SUBSCR
    STORE_SUBSCR DELETE_SUBSCR RETURN_VALUE GET_ITER PUSH_EXC_INFO POP_EXCEPT CHECK_EXC_MATCH CHECK_EG_MATCH
    BEFORE_WITH WITH_EXCEPT_START GET_LEN MATCH_MAPPING MATCH_SEQUENCE MATCH_KEYS YIELD_VALUE
    GET_YIELD_FROM_ITER CLEANUP_THROW GET_AITER GET_ANEXT END_ASYNC_FOR BEFORE_ASYNC_WITH END_SEND
    LIST_TO_TUPLE ASYNC_GEN_WRAP PREP_RERAISE_STAR"""
)
SAME_NUMBER = _words(
    """COPY SWAP BUILD_TUPLE BUILD_LIST BUILD_SET BUILD_MAP BUILD_CONST_KEY_MAP BUILD_STRING BUILD_SLICE
    LIST_APPEND SET_ADD MAP_ADD LIST_EXTEND SET_UPDATE DICT_UPDATE DICT_MERGE UNPACK_SEQUENCE UNPACK_EX CALL
    RAISE_VARARGS RERAISE MATCH_CLASS GET_AWAITABLE"""
)
SAME_NAME = _words(
    """STORE_GLOBAL DELETE_GLOBAL LOAD_NAME STORE_NAME DELETE_NAME STORE_ATTR DELETE_ATTR IMPORT_NAME
    IMPORT_FROM LOAD_FROM_DICT_OR_GLOBALS LOAD_METHOD"""
)
SAME_SLOT = _words(
    """LOAD_FAST STORE_FAST DELETE_FAST LOAD_FAST_AND_CLEAR LOAD_CLOSURE MAKE_CELL LOAD_DEREF STORE_DEREF
    DELETE_DEREF LOAD_FROM_DICT_OR_DEREF"""
)
SAME_JUMP = _words("POP_JUMP_IF_TRUE POP_JUMP_IF_FALSE POP_JUMP_IF_NONE POP_JUMP_IF_NOT_NONE FOR_ITER SEND")


class Words:
    """What the numbers in one code object's instructions stand for."""

    def __init__(self, code: CodeType) -> None:
        self.code = code
        self.slots = slot_names(code)

    def name(self, number: int) -> str:
        return self.code.co_names[number]


Rule = Callable[[Words, EncodedInstruction], list[Step]]


def _jump_if_or_pop(words: Words, native: EncodedInstruction) -> list[Step]:
    jump = "POP_" + native.name.removesuffix("_OR_POP")
    return [("COPY", 1), (jump, native.target), ("POP_TOP", None)]


def _load_global(words: Words, native: EncodedInstruction) -> list[Step]:
    load = ("LOAD_GLOBAL", words.name(native.arg >> 1))
    if not native.arg & 1:
        return [load]
    return [("HOLE", None), load] if NULL_FIRST else [load, ("PUSH_NULL", None)]


def _load_attribute(words: Words, native: EncodedInstruction) -> list[Step]:
    if VERSION < (3, 12):
        return [("LOAD_ATTR", words.name(native.arg))]
    return [("LOAD_METHOD" if native.arg & 1 else "LOAD_ATTR", words.name(native.arg >> 1))]


def _load_super_attribute(words: Words, native: EncodedInstruction) -> list[Step]:
    arg = (words.name(native.arg >> 2), bool(native.arg & 1), bool(native.arg & 2))
    return [("LOAD_SUPER_ATTR", arg)]


def _compare(words: Words, native: EncodedInstruction) -> list[Step]:
    return [("COMPARE_OP", dis.cmp_op[native.arg >> COMPARISON_SHIFT[VERSION]])]


def _intrinsic_1(words: Words, native: EncodedInstruction) -> list[Step]:
    name = dis._intrinsic_1_descs[native.arg].removeprefix("INTRINSIC_")  # type: ignore[attr-defined]
    return [INTRINSICS_1.get(name, ("INTRINSIC_1", name))]


def _intrinsic_2(words: Words, native: EncodedInstruction) -> list[Step]:
    name = dis._intrinsic_2_descs[native.arg].removeprefix("INTRINSIC_")  # type: ignore[attr-defined]
    return [(name, None) if name == "PREP_RERAISE_STAR" else ("INTRINSIC_2", name)]


def _make_function(words: Words, native: EncodedInstruction) -> list[Step]:
    # 3.13 has no argument here: the SET_FUNCTION_ATTRIBUTEs that follow are folded in.
    return [("MAKE_FUNCTION", tuple(name for flag, name in EXTRAS.items() if native.arg & flag))]


def _two_slots(words: Words, native: EncodedInstruction) -> list[Step]:
    first, second = PAIRS[native.name]
    return [(first, words.slots[native.arg >> 4]), (second, words.slots[native.arg & 15])]


def _conditional_jump_3_11(words: Words, native: EncodedInstruction) -> list[Step]:
    return [(native.name.replace("FORWARD_", "").replace("BACKWARD_", ""), native.target)]


def _load_class_deref(words: Words, native: EncodedInstruction) -> list[Step]:
    return [("LOAD_LOCALS", None), ("LOAD_FROM_DICT_OR_DEREF", words.slots[native.arg])]


RULES: dict[str, Rule] = {
    **dict.fromkeys(NOTHING, lambda words, native: [("LEFT_OUT", None)]),
    **dict.fromkeys(SAME_BARE, lambda words, native: [(native.name, None)]),
    **dict.fromkeys(SAME_NUMBER, lambda words, native: [(native.name, native.arg)]),
    **dict.fromkeys(SAME_NAME, lambda words, native: [(native.name, words.name(native.arg))]),
    **dict.fromkeys(SAME_SLOT, lambda words, native: [(native.name, words.slots[native.arg])]),
    **dict.fromkeys(SAME_JUMP, lambda words, native: [(native.name, native.target)]),
    **dict.fromkeys(PAIRS, _two_slots),
    **dict.fromkeys(UNARY_OPERATORS, lambda words, native: [("UNARY", UNARY_OPERATORS[native.name])]),
    **dict.fromkeys(
        ("JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT"),
        lambda words, native: [("JUMP", native.target)],
    ),
    **dict.fromkeys(("JUMP_IF_TRUE_OR_POP", "JUMP_IF_FALSE_OR_POP"), _jump_if_or_pop),
    **{
        f"POP_JUMP_{way}_IF_{what}": _conditional_jump_3_11
        for way in ("FORWARD", "BACKWARD")
        for what in ("TRUE", "FALSE", "NONE", "NOT_NONE")
    },
    "LOAD_CONST": lambda words, native: [("LOAD_CONST", words.code.co_consts[native.arg])],
    "RETURN_CONST": lambda words, native: [
        ("LOAD_CONST", words.code.co_consts[native.arg]),
        ("RETURN_VALUE", None),
    ],
    "LOAD_FAST_CHECK": lambda words, native: [("LOAD_FAST", words.slots[native.arg])],
    "LOAD_CLASSDEREF": _load_class_deref,
    "LOAD_GLOBAL": _load_global,
    "LOAD_ATTR": _load_attribute,
    "LOAD_SUPER_ATTR": _load_super_attribute,
    "BINARY_OP": lambda words, native: [("BINARY_OP", BINARY_OPERATORS[native.arg])],
    "COMPARE_OP": _compare,
    "IS_OP": lambda words, native: [("IS_OP", bool(native.arg))],
    "CONTAINS_OP": lambda words, native: [("CONTAINS_OP", bool(native.arg))],
    "BINARY_SLICE": lambda words, native: [("BUILD_SLICE", 2), ("BINARY_SUBSCR", None)],
    "STORE_SLICE": lambda words, native: [("BUILD_SLICE", 2), ("STORE_SUBSCR", None)],
    "FORMAT_VALUE": lambda words, native: [("FORMAT", (CONVERSIONS[native.arg & 3], bool(native.arg & 4)))],
    "FORMAT_SIMPLE": lambda words, native: [("FORMAT", (None, False))],
    "FORMAT_WITH_SPEC": lambda words, native: [("FORMAT", (None, True))],
    "CONVERT_VALUE": lambda words, native: [("CONVERT_VALUE", CONVERSIONS[native.arg])],
    "CALL_FUNCTION_EX": lambda words, native: [("CALL_FUNCTION_EX", bool(native.arg & 1))],
    "MAKE_FUNCTION": _make_function,
    "CALL_INTRINSIC_1": _intrinsic_1,
    "CALL_INTRINSIC_2": _intrinsic_2,
    "IMPORT_STAR": lambda words, native: [("IMPORT_STAR", None), ("POP_TOP", None)],
    "PRINT_EXPR": lambda words, native: [("PRINT", None), ("POP_TOP", None)],
}
if NULL_FIRST:
    RULES["PUSH_NULL"] = lambda words, native: [("HOLE", None)]


FOLDING = frozenset(
    {
        "KW_NAMES", "PRECALL", "LOAD_CONST", "PUSH_NULL", "CONVERT_VALUE", "MAKE_FUNCTION", "END_FOR",
        "RETURN_GENERATOR", "YIELD_VALUE", "MAKE_CELL",
    }
)  # fmt: skip
"""Those that other instructions may belong to, or that mean something else there."""


def _fold(words: Words, natives: list[EncodedInstruction], index: int) -> tuple[list[Step], int]:
    """The steps of the instructions from `index` on that belong together, and how many these are."""
    native = natives[index]
    following = natives[index + 1].name if index + 1 < len(natives) else ""
    if native.name == "KW_NAMES":  # then PRECALL (3.11) and CALL
        count = 1 + next(k for k in range(1, 3) if natives[index + k].name == "CALL")
        names = words.code.co_consts[native.arg]
        return [("CALL_KW", (natives[index + count - 1].arg, names))], count
    if native.name == "PRECALL":
        return [("CALL", native.arg)], 2
    if native.name == "LOAD_CONST" and following == "CALL_KW":
        return [("CALL_KW", (natives[index + 1].arg, words.code.co_consts[native.arg]))], 2
    if native.name == "PUSH_NULL" and NULL_FIRST and following == "SWAP":  # only resumed code has that
        return [("PUSH_NULL", None)], 2
    if native.name == "CONVERT_VALUE" and following == "FORMAT_SIMPLE":
        return [("FORMAT", (CONVERSIONS[native.arg], False))], 2
    if native.name == "MAKE_FUNCTION" and following == "SET_FUNCTION_ATTRIBUTE":
        count = 1
        while natives[index + count].name == "SET_FUNCTION_ATTRIBUTE":
            count += 1
        flags = {each.arg for each in natives[index + 1 : index + count]}
        return [("MAKE_FUNCTION", tuple(name for flag, name in EXTRAS.items() if flag in flags))], count
    if native.name == "END_FOR" and VERSION >= (3, 13):  # FOR_ITER jumps over the POP_TOP as well
        return [("LEFT_OUT", None)], 2
    if native.name == "RETURN_GENERATOR":  # the generator it gives is the caller's; then POP_TOP
        return [("LEFT_OUT", None)], 2
    if native.name == "YIELD_VALUE":  # RESUME says what kind of suspension it was
        return [("YIELD_VALUE", following == "RESUME" and natives[index + 1].arg & 3 in (2, 3))], 1
    if native.name == "MAKE_CELL" and native.offset < _body_start(natives):
        return [("LEFT_OUT", None)], 1
    if native.name not in RULES:
        raise UnknownInstruction(f"{native.name} at {native.offset} in {words.code.co_qualname}")
    return RULES[native.name](words, native), 1


def _body_start(natives: list[EncodedInstruction]) -> int:
    """Where cells are made and the arguments are in place: the first RESUME."""
    return next((native.offset for native in natives if native.name == "RESUME"), 0)


def draft(code: CodeType) -> list[Draft]:
    """The drafts of `code`, their jumps as native offsets."""
    words = Words(code)
    natives = read_instructions(code)
    drafts: list[Draft] = []
    index = 0
    while index < len(natives):
        first = last = natives[index]
        if first.name in FOLDING or first.name not in RULES:
            steps, count = _fold(words, natives, index)
            last = natives[index + count - 1]
        else:
            steps, count = RULES[first.name](words, first), 1
        for position, (op, arg) in enumerate(steps):
            entry, start = (last.end, -1) if position else (first.start, first.start)
            rest = tuple(steps[position:]) if position else ()
            drafts.append(Draft(op, arg, last.offset, last.positions, entry, rest, start))
        index += count
    drafts = drafts if HAS_END_SEND else _with_cleanup(drafts)
    return drafts if original_code(code) is code else _from_entrance(drafts)


def _from_entrance(drafts: list[Draft]) -> list[Draft]:
    """Code entered in the middle (resume.py) jumps to its tail first: that part is put first here.

    So it reads from top to bottom, as all compiled code does: Note [Holes] counts on that. For the same
    reason all of the body counts as reached: what is found out about it is what was found out about the
    original.
    """
    leave = next(index for index, each in enumerate(drafts) if each.op == "JUMP")
    drafts[leave + 1].is_root = True
    entrance = next(index for index, each in enumerate(drafts) if each.start == drafts[leave].arg)
    return drafts[entrance:] + drafts[:entrance]


NO_ENTRY = -1


def _with_cleanup(drafts: list[Draft]) -> list[Draft]:
    """For 3.11, the CLEANUP_THROW that later versions have for each delegating yield.

    SEND end; YIELD_VALUE; RESUME; JUMP back   ->   (the same); CLEANUP_THROW; JUMP end
    """
    result: list[Draft] = []
    for index, each in enumerate(drafts):
        result.append(each)
        if index < 3 or drafts[index - 3].op != "SEND" or drafts[index - 2].op != "YIELD_VALUE":
            continue
        send, suspended = drafts[index - 3], drafts[index - 2]
        cleanup = Draft("CLEANUP_THROW", None, suspended.offset, suspended.positions, NO_ENTRY)
        cleanup.protects = suspended
        leave = Draft("JUMP", send.arg, suspended.offset, suspended.positions, send.arg)
        result += [cleanup, leave]
    return result
