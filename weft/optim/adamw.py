"""AdamW: Adam whose weight decay shrinks the parameters directly and never enters the running means."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

from weft.optim.adam import Adam, adam
from weft.optim.rules import Options, declared
from weft.tensor.base import Tensor

__all__ = ["AdamW", "adamw"]


class AdamW(Adam):
    """Adam with `decoupled_weight_decay`."""

    _fixed: ClassVar[Options] = {"decoupled_weight_decay": True}

    @declared
    def __init__(
        self, params: Iterable[Any], lr: float | Tensor = 1e-3,
        betas: tuple[float | Tensor, float | Tensor] = (0.9, 0.999), eps: float = 1e-8,
        weight_decay: float = 1e-2, amsgrad: bool = False, *, maximize: bool = False,
        foreach: bool | None = None, capturable: bool = False, differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:  # fmt: skip
        ...

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            group["decoupled_weight_decay"] = True  # whatever a loaded state dict says


def adamw(*lists: Any, **options: Any) -> None:
    """As `weft.optim.adam.adam`, with weight decay decoupled."""
    adam(*lists, **{**options, "decoupled_weight_decay": True})
