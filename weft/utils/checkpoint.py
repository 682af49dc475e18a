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


class DefaultDeviceType:
    """Which kind of device has states to keep where no tensor says it: the CPU, unless another is named."""

    _default_device_type: str | None = None

    @staticmethod
    def set_device_type(device: str = "cuda") -> None:
        """Names another kind."""
        DefaultDeviceType._default_device_type = device

    @staticmethod
    def get_device_type() -> str:
        """The kind."""
        return DefaultDeviceType._default_device_type or "cpu"


def get_device_states(*args: _Any) -> tuple[list[int], list[_Any]]:
    """The accelerators on which arguments lie, and the states of their random numbers: none but the CPU's
    generator is there, which `checkpoint` keeps itself.
    """
    return [], []


def set_device_states(devices: _Any, states: _Any, *, device_type: str | None = None) -> None:
    """Puts states of accelerators back that `get_device_states` gave."""
    if list(devices):
        kind = device_type or DefaultDeviceType.get_device_type()
        raise RuntimeError(f"there is no device of type {kind!r} whose random numbers could be set")
