"""What PyTorch's programs ask of its C module by name."""

from __future__ import annotations

from typing import Any

from weft.autograd.grad_mode import is_grad_enabled as is_grad_enabled
from weft.overrides import DisableTorchFunction as DisableTorchFunction
from weft.overrides import DisableTorchFunctionSubclass as DisableTorchFunctionSubclass
from weft.overrides import _disabled_torch_function_impl as _disabled_torch_function_impl
from weft.overrides import has_torch_function as has_torch_function


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
