"""Names of `nn.functional` about arguments: what a flag chooses between, modes as numbers, annotations.

Takes two functions and the flag that decides; gives one. The annotations mean what they are given.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final

GRID_SAMPLE_INTERPOLATION_MODES: Final = {"bilinear": 0, "nearest": 1, "bicubic": 2}
GRID_SAMPLE_PADDING_MODES: Final = {"zeros": 0, "border": 1, "reflection": 2}


def boolean_dispatch(
    arg_name: str,
    arg_index: int,
    default: bool,
    if_true: Callable[..., Any],
    if_false: Callable[..., Any],
    module_name: str,
    func_name: str,
) -> Callable[..., Any]:
    """A function that is one of two, by an argument: given by name, by place, or by its default."""

    def chosen(*args: Any, **kwargs: Any) -> Any:
        flag = default
        if arg_name in kwargs:
            flag = kwargs[arg_name]
        elif arg_index < len(args):
            flag = args[arg_index]
        return (if_true if flag else if_false)(*args, **kwargs)

    documented = if_false if if_false.__doc__ is not None else if_true
    functools.update_wrapper(chosen, documented, assigned=("__doc__",), updated=())
    chosen.__module__, chosen.__name__ = module_name, func_name
    return chosen


def assert_int_or_pair(arg: Any, arg_name: str, message: str) -> None:
    """Refuses what is neither a whole number nor a pair."""
    if not (isinstance(arg, int) or len(arg) == 2):
        raise AssertionError(message.format(arg_name))


class _Broadcasting:
    """`BroadcastingList2[int]`: a number or as many as it says, for the reader."""

    def __getitem__(self, types: Any) -> None:
        return None


BroadcastingList1, BroadcastingList2, BroadcastingList3 = _Broadcasting(), _Broadcasting(), _Broadcasting()
