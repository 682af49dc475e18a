"""Tools beside the tensor library, under the names PyTorch gives them."""

from typing import Any as _Any

from weft.core.lazy import load as _load
from weft.core.naming import named
from weft.core.progress import progress as progress
from weft.utils import checkpoint as checkpoint

_LATE = (
    "data", "_pytree", "_python_dispatch", "flop_counter", "hooks", "module_tracker",
    "selective_checkpoint", "tensorboard",
)  # fmt: skip


def __getattr__(name: str) -> _Any:
    if name in _LATE:  # loaded when they are first asked for
        return _load(f"weft.utils.{name}")
    raise AttributeError(named(f"module 'weft.utils' has no attribute {name!r}"))
