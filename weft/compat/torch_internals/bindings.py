"""What PyTorch's programs ask of its C module by name."""

from __future__ import annotations

from contextvars import Token
from typing import Any

from weft.autograd.grad_mode import is_grad_enabled as is_grad_enabled
from weft.core.modes import State, enter, leave
from weft.ops.batching import loops
from weft.overrides import DisableTorchFunction as DisableTorchFunction
from weft.overrides import DisableTorchFunctionSubclass as DisableTorchFunctionSubclass
from weft.overrides import _disabled_torch_function_impl as _disabled_torch_function_impl
from weft.overrides import has_torch_function as has_torch_function
from weft.tensor.overrides import disabled_torch_dispatch

_disabled_torch_dispatch_impl = disabled_torch_dispatch


class _DisableTorchDispatch:
    """Meanwhile, neither modes nor classes handle calls below autograd; a guard lasts as long as it lives."""

    def __init__(self) -> None:
        self.token: Token[State] | None = enter(dispatch=(), unhandled=True)

    def __enter__(self) -> _DisableTorchDispatch:
        return self

    def __exit__(self, *_error: object) -> None:
        self.__del__()

    def __del__(self) -> None:
        if self.token is not None:
            token, self.token = self.token, None
            leave(token)


def _get_tracing_state() -> None:
    """The state of `jit.trace`: there is none to be seen."""
    return


def _has_mps() -> bool:
    return False


has_mps = has_cuda = has_mkl = has_cudnn = False
has_lapack = True


def has_torch_function_unary(tensor: Any) -> bool:
    """Whether the argument's class takes calls over."""
    return has_torch_function((tensor,))


def has_torch_function_variadic(*tensors: Any) -> bool:
    """Whether the class of any argument takes calls over."""
    return has_torch_function(tensors)


# -- vmap ----------------------------------------------------------------------------------------------------
def _is_vmap_fallback_enabled() -> bool:
    """Whether ops without a batch rule run example by example."""
    return loops.allowed


def _set_vmap_fallback_enabled(enabled: bool) -> None:
    """Whether ops without a batch rule are to run example by example, or to be refused."""
    loops.allowed = enabled


class _Told:
    loops: bool = True


def _debug_only_are_vmap_fallback_warnings_enabled() -> bool:
    """What `_debug_only_display_vmap_fallback_warnings` was last told: Weft always warns."""
    return _Told.loops


def _debug_only_display_vmap_fallback_warnings(enabled: bool) -> None:
    """Warnings of loops are asked for: they come anyway."""
    _Told.loops = enabled
