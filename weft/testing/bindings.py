"""What PyTorch's programs ask of its C module by name."""

from __future__ import annotations

from weft.autograd.grad_mode import is_grad_enabled as is_grad_enabled
from weft.overrides import DisableTorchFunction as DisableTorchFunction
from weft.overrides import DisableTorchFunctionSubclass as DisableTorchFunctionSubclass
from weft.overrides import _disabled_torch_function_impl as _disabled_torch_function_impl


def _get_tracing_state() -> None:
    """The state of `jit.trace`: there is none to be seen."""
    return


def _has_mps() -> bool:
    return False


has_mps = has_cuda = has_mkl = has_cudnn = False
has_lapack = True
