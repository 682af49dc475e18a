"""Large arrays: where an op's array kernel hands over to its native one, once there are native ones.

Takes an op's kernel; gives one that asks `seams.native_kernel` first where the first operand is large. One
idea: machine code is worth its way from Python only for much work, and only for kernels that walk over their
operands several times; the rest is NumPy's, as before.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from weft.core.seams import seams

ndarray = np.ndarray
FEW: Final = 1 << 15
"""Up to so many elements NumPy does it."""
NAMES: Final = frozenset({
    "addcmul", "addcdiv", "lerp", "logaddexp", "tanh_backward", "elu", "selu", "celu", "sigmoid",
    "sigmoid_backward", "silu", "mish", "logsigmoid", "softplus", "gelu", "gelu_backward", "hardsigmoid",
    "hardswish", "erf", "erfc", "logit", "xlogy", "softmax", "log_softmax", "softmax_backward",
    "log_softmax_backward", "layer_norm", "norm_backward", "huber_elements", "sinc",
    "smooth_l1_elements", "convolution", "convolution_input", "convolution_weight",
})  # fmt: skip
"""Ops whose kernels take several steps, and have native ones that take one."""


def native_above(op: Any, kernel: Callable[..., Any]) -> Callable[..., Any]:
    """The kernel of an op, which leaves much work to native code."""

    @functools.wraps(kernel)
    def run(first: Any, *rest: Any, **options: Any) -> Any:
        native = seams.native_kernel
        if native is not None and type(first) is ndarray and first.size > FEW and not options:
            wanted = op.native_above
            if wanted is True or wanted(first, *rest):
                found = native(op, (first, *rest))
                if found is not None:
                    return found
        return kernel(first, *rest, **options)

    return run
