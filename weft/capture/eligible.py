"""Which functions are compiled when something under a break calls them.

Takes a function, gives a yes or no. One idea: what the user wrote is compiled; the standard library, what
only runs piecewise (generators, coroutines) and what a policy sets apart is left as it is.
"""

from __future__ import annotations

import functools
import sysconfig
from types import FunctionType
from typing import Final

from weft.capture.calls import BY_CODE
from weft.capture.policy import Policy, policy_of
from weft.capture.wrapping import library_native

GENERATOR_LIKE: Final = 0x20 | 0x80 | 0x100 | 0x200
"""Flags of generators, coroutines, iterable coroutines and asynchronous generators."""


@functools.cache
def _library_folders() -> tuple[str, ...]:
    paths = sysconfig.get_paths()
    return tuple({paths["stdlib"], paths["platstdlib"]})


def may_compile(function: FunctionType) -> bool:
    """Whether the function may be compiled when something under a break calls it."""
    code = function.__code__
    if code.co_flags & GENERATOR_LIKE or policy_of(function)[0] is not Policy.INLINE:
        return False
    if library_native(function) or code in BY_CODE:
        return False
    name = code.co_filename
    in_library = name.startswith(_library_folders()) and "site-packages" not in name
    return not in_library and not name.startswith("<frozen ")
