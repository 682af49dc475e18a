"""Modules on many devices and in many processes, where there is one of each."""

from __future__ import annotations

from typing import Any

from weft.nn.modules.module import Module
from weft.nn.modules.parallel import DataParallel as DataParallel


class DistributedDataParallel(Module):
    """The module, trained in many processes at once: there is one."""

    def __init__(self, module: Module, *_args: Any, **_kwargs: Any) -> None:
        raise ValueError(
            "Default process group has not been initialized, please make sure to call init_process_group."
        )
