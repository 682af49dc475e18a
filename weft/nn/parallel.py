"""Modules on many devices: with one device, the module itself.

Takes modules; `DataParallel` hands calls on, as PyTorch's does where there is no GPU, and
`DistributedDataParallel` says what is missing.
"""

from __future__ import annotations

from typing import Any

from weft.nn.modules.module import Module


class DataParallel(Module):
    """The module, with its calls spread over GPUs: without any, it is called as it is.

    >>> import weft
    >>> DataParallel(weft.nn.Identity())(weft.ones(2))
    tensor([1., 1.])
    """

    def __init__(
        self, module: Module, device_ids: Any = None, output_device: Any = None, dim: int = 0
    ) -> None:
        super().__init__()
        self.dim, self.module = dim, module
        self.device_ids: list[int] = []

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """What the module gives."""
        return self.module(*inputs, **kwargs)


class DistributedDataParallel(Module):
    """The module, trained in many processes at once: there is one."""

    def __init__(self, module: Module, *_args: Any, **_kwargs: Any) -> None:
        raise ValueError(
            "Default process group has not been initialized, please make sure to call init_process_group."
        )
