"""One module on several devices: `DataParallel`, here with the one device there is.

Takes a module, gives one that calls it. State dicts have the prefix `module.`, as those of PyTorch have.
"""

from __future__ import annotations

from typing import Any

from weft.nn.modules.module import Module

__all__ = ["DataParallel"]


class DataParallel(Module):
    """Calls `module`; with no device but the CPU nothing is split.

    >>> import weft
    >>> model = weft.nn.DataParallel(weft.nn.Linear(2, 1))
    >>> list(model.state_dict())
    ['module.weight', 'module.bias']
    """

    def __init__(
        self, module: Module, device_ids: Any = None, output_device: Any = None, dim: int = 0
    ) -> None:
        super().__init__()
        self.module = module
        self.device_ids: list[Any] = []
        self.output_device, self.dim = output_device, dim

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        return self.module(*inputs, **kwargs)
