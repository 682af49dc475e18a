"""The table of the paths that only PyTorch's own test files import: what stands behind each.

Takes nothing; gives, for a path under one of `weft.compat.table.OF_TESTS`, a `Place`. One idea: this is the
part of the table of `weft.compat` that no program pays for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from weft.compat.table import TORCH_INTERNALS, Place, gather

MODULES: Final[Mapping[str, Place]] = {
    "torch.testing._internal": gather(),
    "torch.testing._internal.common_utils": gather(
        f"{TORCH_INTERNALS}.common", "weft.testing.cases", make_tensor="weft.testing:make_tensor"
    ),
    "torch.testing._internal.common_device_type": gather(f"{TORCH_INTERNALS}.devices"),
    "torch.testing._internal.common_dtype": gather(f"{TORCH_INTERNALS}.dtypes"),
    "torch.testing._internal.common_cuda": gather(f"{TORCH_INTERNALS}.devices", f"{TORCH_INTERNALS}.common"),
    "torch.testing._internal.common_nn": gather(
        f"{TORCH_INTERNALS}.layer_cases", f"{TORCH_INTERNALS}.common", "weft.testing.cases"
    ),
    "torch.testing._internal.common_jit": gather(f"{TORCH_INTERNALS}.references"),
    "torch.testing._internal.common_methods_invocations": gather(f"{TORCH_INTERNALS}.outside"),
    "torch.testing._internal.common_modules": gather(
        f"{TORCH_INTERNALS}.outside", modules=f"{TORCH_INTERNALS}.devices:modules"
    ),
    "torch.testing._internal.common_optimizers": gather(f"{TORCH_INTERNALS}.outside"),
    "torch.testing._internal.dynamo_pytree_test_utils": gather(f"{TORCH_INTERNALS}.outside"),
    "torch.testing._internal.opinfo": gather(),
    "torch.testing._internal.opinfo.core": gather(f"{TORCH_INTERNALS}.outside"),
    "torch.testing._internal.hop_db": gather(hop_db=f"{TORCH_INTERNALS}.outside:more_ops"),
    "torch.testing._internal.autograd_function_db": gather(
        autograd_function_db=f"{TORCH_INTERNALS}.outside:more_ops"
    ),
    "torch.testing._internal.custom_op_db": gather(custom_op_db=f"{TORCH_INTERNALS}.outside:more_ops"),
    "torch.testing._internal.jit_utils": gather(f"{TORCH_INTERNALS}.scripts", f"{TORCH_INTERNALS}.common"),
    "torch.testing._internal.triton_utils": gather(f"{TORCH_INTERNALS}.devices"),
    "torch.testing._internal.inductor_utils": gather(f"{TORCH_INTERNALS}.devices"),
    "torch.testing._internal.logging_utils": gather(f"{TORCH_INTERNALS}.log_records"),
    "torch.testing._internal.logging_tensor": gather(f"{TORCH_INTERNALS}.logging_tensor"),
    "torch.testing._internal.two_tensor": gather(f"{TORCH_INTERNALS}.two_tensor"),
    "torch._dynamo.test_case": gather(
        TestCase="weft.testing.cases:TestCase",
        CPythonTestCase="weft.testing.cases:TestCase",
        run_tests="weft.testing.cases:run_tests",
    ),
    "torch._inductor.test_case": gather(
        TestCase="weft.testing.cases:TestCase", run_tests="weft.testing.cases:run_tests"
    ),
}
