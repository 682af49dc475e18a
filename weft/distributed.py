"""Programs that run in many processes: Weft runs in one. What asks is told so; what needs more says so."""

from __future__ import annotations

from enum import Enum
from typing import Any, NoReturn

UNINITIALIZED = "Default process group has not been initialized, please make sure to call init_process_group."


def is_available() -> bool:
    """Whether processes can work together."""
    return False


def is_initialized() -> bool:
    """Whether they do."""
    return False


def is_torchelastic_launched() -> bool:
    """Whether a launcher started this process among others."""
    return False


def init_process_group(*_args: Any, **_kwargs: Any) -> NoReturn:
    """Joins other processes."""
    raise RuntimeError("init_process_group: Weft runs in one process; start the program without a launcher")


def destroy_process_group(group: Any = None) -> None:
    """Leaves the other processes: there are none."""


class ProcessGroup:
    """Processes that work together: there are none, but annotations name the class."""

    def __init__(self, *_args: Any, **_kwargs: Any) -> None:
        raise ValueError(UNINITIALIZED)


class ReduceOp(Enum):
    """How values of several processes become one."""

    SUM, AVG, PRODUCT, MIN, MAX, BAND, BOR, BXOR, PREMUL_SUM = range(9)


class DeviceMesh:
    """Devices of many processes as a grid: there are none, but annotations name the class."""

    def __init__(self, *_args: Any, **_kwargs: Any) -> None:
        raise ValueError(UNINITIALIZED)


class DTensor:
    """A tensor spread over many processes: none is, as `isinstance` says."""

    def __init__(self, *_args: Any, **_kwargs: Any) -> None:
        raise ValueError(UNINITIALIZED)


def record(fn: Any, error_handler: Any = None) -> Any:
    """Decorator of a program's main function, whose errors a launcher would collect: there is none."""
    return fn


def _needs_a_group(*_args: Any, **_kwargs: Any) -> NoReturn:
    """Needs other processes."""
    raise ValueError(UNINITIALIZED)


get_rank = get_world_size = barrier = all_reduce = broadcast = all_gather = reduce = get_backend = (
    _needs_a_group
)
