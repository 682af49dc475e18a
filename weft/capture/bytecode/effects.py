"""The canonical set: what each op takes from the stack and gives to it.

Takes an op and its argument, gives (pops, pushes) for going on and for jumping. One idea: this table *is* the
set, so an op without a stack effect does not exist. What the ops mean is told in instructions.py, Note
[Canonical set].
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Effect = tuple[int, int]
STACK = ".stack"
"""How the parameters of resumed code for the values on its stack begin."""


def _unpack_ex(arg: int) -> Effect:
    before, after = arg & 0xFF, arg >> 8
    return 1, before + 1 + after


def _super_attribute(arg: tuple[str, bool, bool]) -> Effect:
    return 3, 2 if arg[1] else 1


EFFECTS: dict[str, Effect | Callable[[Any], Effect]] = {
    # the stack itself
    "POP_TOP": (1, 0),
    "PUSH_NULL": (0, 1),
    "COPY": lambda depth: (0, 1),
    "SWAP": lambda depth: (depth, depth),
    # names
    "LOAD_CONST": (0, 1),
    "LOAD_FAST": (0, 1),
    "STORE_FAST": (1, 0),
    "DELETE_FAST": (0, 0),
    "LOAD_FAST_AND_CLEAR": (0, 1),
    "RESTORE_FAST": (1, 0),
    "LOAD_CLOSURE": (0, 1),
    "MAKE_CELL": (0, 0),
    "LOAD_DEREF": (0, 1),
    "STORE_DEREF": (1, 0),
    "DELETE_DEREF": (0, 0),
    "LOAD_GLOBAL": (0, 1),
    "STORE_GLOBAL": (1, 0),
    "DELETE_GLOBAL": (0, 0),
    "LOAD_NAME": (0, 1),
    "STORE_NAME": (1, 0),
    "DELETE_NAME": (0, 0),
    "LOAD_LOCALS": (0, 1),
    "LOAD_FROM_DICT_OR_GLOBALS": (1, 1),
    "LOAD_FROM_DICT_OR_DEREF": (1, 1),
    "LOAD_BUILD_CLASS": (0, 1),
    "LOAD_ASSERTION_ERROR": (0, 1),
    "SETUP_ANNOTATIONS": (0, 0),
    # attributes and items
    "LOAD_ATTR": (1, 1),
    "LOAD_METHOD": (1, 2),
    "LOAD_SUPER_ATTR": _super_attribute,
    "STORE_ATTR": (2, 0),
    "DELETE_ATTR": (1, 0),
    "BINARY_SUBSCR": (2, 1),
    "STORE_SUBSCR": (3, 0),
    "DELETE_SUBSCR": (2, 0),
    # operators
    "UNARY": (1, 1),
    "BINARY_OP": (2, 1),
    "COMPARE_OP": (2, 1),
    "IS_OP": (2, 1),
    "CONTAINS_OP": (2, 1),
    # building
    "BUILD_TUPLE": lambda count: (count, 1),
    "BUILD_LIST": lambda count: (count, 1),
    "BUILD_SET": lambda count: (count, 1),
    "BUILD_MAP": lambda count: (2 * count, 1),
    "BUILD_CONST_KEY_MAP": lambda count: (count + 1, 1),
    "BUILD_STRING": lambda count: (count, 1),
    "BUILD_SLICE": lambda count: (count, 1),
    "LIST_APPEND": (1, 0),
    "SET_ADD": (1, 0),
    "MAP_ADD": (2, 0),
    "LIST_EXTEND": (1, 0),
    "SET_UPDATE": (1, 0),
    "DICT_UPDATE": (1, 0),
    "DICT_MERGE": (1, 0),
    "LIST_TO_TUPLE": (1, 1),
    "UNPACK_SEQUENCE": lambda count: (1, count),
    "UNPACK_EX": _unpack_ex,
    "CONVERT_VALUE": (1, 1),
    "FORMAT": lambda arg: (2 if arg[1] else 1, 1),
    # calls and functions
    "CALL": lambda count: (count + 2, 1),
    "CALL_KW": lambda arg: (arg[0] + 2, 1),
    "CALL_FUNCTION_EX": lambda keywords: (3 + keywords, 1),
    "MAKE_FUNCTION": lambda extras: (len(extras) + 1, 1),
    "RETURN_VALUE": (1, 0),
    # jumps and loops
    "JUMP": (0, 0),
    "POP_JUMP_IF_TRUE": (1, 0),
    "POP_JUMP_IF_FALSE": (1, 0),
    "POP_JUMP_IF_NONE": (1, 0),
    "POP_JUMP_IF_NOT_NONE": (1, 0),
    "GET_ITER": (1, 1),
    "FOR_ITER": (0, 1),
    # exceptions and with
    "RAISE_VARARGS": lambda count: (count, 0),
    "RERAISE": (1, 0),
    "PUSH_EXC_INFO": (1, 2),
    "POP_EXCEPT": (1, 0),
    "CHECK_EXC_MATCH": (1, 1),
    "CHECK_EG_MATCH": (2, 2),
    "PREP_RERAISE_STAR": (2, 1),
    "BEFORE_WITH": (1, 2),
    "WITH_EXCEPT_START": (0, 1),
    # match
    "GET_LEN": (0, 1),
    "MATCH_MAPPING": (0, 1),
    "MATCH_SEQUENCE": (0, 1),
    "MATCH_KEYS": (0, 1),
    "MATCH_CLASS": (3, 1),
    # generators and coroutines
    "YIELD_VALUE": (1, 1),
    "GET_YIELD_FROM_ITER": (1, 1),
    "SEND": (1, 1),
    "CLEANUP_THROW": (3, 1),
    "STOPITERATION_ERROR": (1, 1),
    "ASYNC_GEN_WRAP": (1, 1),
    "GET_AWAITABLE": (1, 1),
    "GET_AITER": (1, 1),
    "GET_ANEXT": (0, 1),
    "END_ASYNC_FOR": (2, 0),
    "BEFORE_ASYNC_WITH": (1, 2),
    # modules and type parameters
    "IMPORT_NAME": (2, 1),
    "IMPORT_FROM": (0, 1),
    "IMPORT_STAR": (1, 1),
    "PRINT": (1, 1),
    "INTRINSIC_1": (1, 1),
    "INTRINSIC_2": (2, 1),
}

# Where jumping leaves another stack than going on.
JUMP_EFFECTS: dict[str, Effect] = {"FOR_ITER": (1, 0), "SEND": (2, 1)}

JUMP_OPS = frozenset(
    {
        "JUMP",
        "POP_JUMP_IF_TRUE",
        "POP_JUMP_IF_FALSE",
        "POP_JUMP_IF_NONE",
        "POP_JUMP_IF_NOT_NONE",
        "FOR_ITER",
        "SEND",
    }
)

# After these nothing goes on to the next instruction.
FINAL_OPS = frozenset({"JUMP", "RETURN_VALUE", "RAISE_VARARGS", "RERAISE"})


# These move values, and look at none.
MOVES_ONLY = frozenset({"POP_TOP", "SWAP", "STORE_FAST", "RESTORE_FAST", "LIST_APPEND"})

# These look at no value below those that they pop.
POP_ONLY = frozenset(
    {
        "PUSH_NULL", "LOAD_CONST", "LOAD_FAST", "DELETE_FAST", "LOAD_FAST_AND_CLEAR",
        "LOAD_CLOSURE", "MAKE_CELL", "LOAD_DEREF", "STORE_DEREF", "DELETE_DEREF", "LOAD_GLOBAL",
        "STORE_GLOBAL", "LOAD_ASSERTION_ERROR", "LOAD_ATTR", "LOAD_METHOD", "STORE_ATTR", "DELETE_ATTR",
        "BINARY_SUBSCR",
        "STORE_SUBSCR", "DELETE_SUBSCR", "UNARY", "BINARY_OP", "COMPARE_OP", "IS_OP", "CONTAINS_OP",
        "BUILD_TUPLE", "BUILD_LIST", "BUILD_SET", "BUILD_MAP", "BUILD_CONST_KEY_MAP", "BUILD_STRING",
        "BUILD_SLICE", "UNPACK_SEQUENCE", "UNPACK_EX", "CONVERT_VALUE", "FORMAT", "CALL",
        "CALL_KW", "CALL_FUNCTION_EX", "MAKE_FUNCTION", "JUMP", "POP_JUMP_IF_TRUE", "POP_JUMP_IF_FALSE",
        "POP_JUMP_IF_NONE", "POP_JUMP_IF_NOT_NONE", "GET_ITER", "PUSH_EXC_INFO", "IMPORT_NAME",
    }
)  # fmt: skip


def values_seen(op: str, arg: Any) -> int | None:
    """How many of the top values an op looks at; None where it may look at all."""
    if op in MOVES_ONLY:
        return 0
    if op == "FOR_ITER":
        return 1
    return stack_effect(op, arg)[0] if op in POP_ONLY else None


def stack_effect(op: str, arg: Any, jump: bool = False) -> Effect:
    """How many values an op pops, then how many it pushes; `jump` for the edge to its target."""
    if jump and op in JUMP_EFFECTS:
        return JUMP_EFFECTS[op]
    effect = EFFECTS[op]
    return effect(arg) if callable(effect) else effect
