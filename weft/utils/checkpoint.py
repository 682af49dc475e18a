"""`weft.utils.checkpoint`: PyTorch's name for what `weft.autograd.checkpoint` gives."""

from typing import Any as _Any

from weft.autograd.checkpoint import CheckpointError as CheckpointError
from weft.autograd.checkpoint import CheckpointFunction as CheckpointFunction
from weft.autograd.checkpoint import check_backward_validity as check_backward_validity
from weft.autograd.checkpoint import checkpoint as checkpoint
from weft.autograd.checkpoint import checkpoint_sequential as checkpoint_sequential
from weft.autograd.checkpoint import detach_variable as detach_variable
from weft.autograd.checkpoint import noop_context_fn as noop_context_fn
from weft.autograd.checkpoint import set_checkpoint_debug_enabled as set_checkpoint_debug_enabled
from weft.autograd.checkpoint import set_checkpoint_early_stop as set_checkpoint_early_stop
from weft.core.lazy import load as _load
from weft.core.naming import named

_SELECTIVE = (
    "SAC_IGNORED_OPS", "CheckpointPolicy", "SelectiveCheckpointContext",
    "create_selective_checkpoint_contexts",
)  # fmt: skip


def __getattr__(name: str) -> _Any:
    if name in _SELECTIVE:
        return getattr(_load("weft.utils.selective_checkpoint"), name)
    raise AttributeError(named(f"module 'weft.utils.checkpoint' has no attribute {name!r}"))
