"""Programs that run in many processes: Weft runs in one. What asks is told so; what needs more says so."""

from __future__ import annotations

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


def _needs_a_group(*_args: Any, **_kwargs: Any) -> NoReturn:
    """Needs other processes."""
    raise ValueError(UNINITIALIZED)


get_rank = get_world_size = barrier = all_reduce = broadcast = all_gather = reduce = get_backend = (
    _needs_a_group
)
