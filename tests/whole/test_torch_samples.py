"""Every public op against torch, on its own samples: values, dtypes and gradients, real and complex."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import weft
from tests import refusals
from weft.core import dtypes
from weft.ops.record import REGISTRY, Kind, Op
from weft.ops.samples import Maker

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

DIFFERENT = {
    "cdist": "torch crashes on empty complex input",
    "pdist": "torch crashes on the gradients of no rows",
    "empty_permuted": "its elements are unset",
    "linalg.eig": "eigenvectors have any phase",
    "linalg.eigh": "eigenvectors have any phase",
    "linalg.qr": "columns have any phase",
    "linalg.svd": "singular vectors have any phase",
    "svd": "singular vectors have any phase",
    "kthvalue": "of equal elements torch takes any",
    "cumprod": "torch reads imaginary parts that a real dtype= has dropped",
    "ldexp": "torch's gradient takes integer powers of two, which are 0 below one",
    "polar": "of negative sizes torch gives another gradient",
    "topk": "what is not sorted may come in any order",
    "linalg.lstsq": "torch has no gradients of residuals",
    "std": "torch's gradients over the dimensions () are infinite",
    "std_mean": "torch's gradients over the dimensions () are infinite",
    "var": "torch's gradients over the dimensions () are infinite",
    "var_mean": "torch's gradients over the dimensions () are infinite",
    "cholesky": "samples are not Hermitian where they are complex",
    "linalg.cholesky": "samples are not Hermitian where they are complex",
    "linalg.cholesky_ex": "samples are not Hermitian where they are complex",
}
ONLY_REAL = {
    "adaptive_avg_pool1d", "nn.functional.adaptive_avg_pool2d", "nn.functional.adaptive_avg_pool3d",
    "masked.median", "masked.std", "masked.var", "nn.functional.mse_loss", "nn.functional.smooth_l1_loss",
}  # fmt: skip
"""Ops that torch lets complex numbers through, here or there."""
OF_CALLS: tuple[refusals.Words, ...] = (
    (
        RuntimeError,
        r"The function '\w+' is not differentiable with respect to argument '\w+'\. This input .*",
    ),
    (RuntimeError, r"\w+ does not support automatic differentiation for outputs with complex dtype\."),
    (RuntimeError, r"Expected tensor for argument #1 'weight' to have .*; but got CPUComplexDoubleType .*"),
    (RuntimeError, r"output with shape \[\] doesn't match the broadcast shape \[1, 1\]"),  # logsumexp
    (RuntimeError, r"source tensor shape must match self tensor shape, .* source\.shape = \[\]"),
    (TypeError, r"torch\.iinfo\(\) requires an integer input type\. .*"),  # masked.amax of complex numbers
    (TypeError, r"mul\(\): argument 'other' \(position 1\) must be Tensor, not tuple"),  # lp_pool1d
    (TypeError, r"(argsort|sort)\(\) received an invalid combination of arguments - .*stable=bool.*"),
    (TypeError, r"clone\(\): argument 'memory_format' must be torch\.memory_format, not memory_format"),
    (TypeError, r"(flip|tile)\(\): argument 'dims' \(position 2\) must be tuple of ints, not int"),
    (TypeError, r"frobenius_norm\(\) missing 1 required positional arguments: \"dim\""),
    (TypeError, r"max_pool\dd\(\) got an unexpected keyword argument 'return_indices'"),
    (TypeError, r"(broadcast_to|permute|reshape)\(\) takes 2 positional arguments but \d were given"),
    (ValueError, r"Expected theta to have floating point type, but got torch\.complex128"),
)
"""What torch does not take of samples, or takes in another form, beside what both refuse."""
OF_GRADIENTS: tuple[refusals.Words, ...] = (
    (NotImplementedError, r"the derivative for '\w+(: input)?' is not implemented\."),
    (RuntimeError, r"derivative for aten::\w+ is not implemented"),
    (RuntimeError, r"Expected a proper Tensor but got None .* for argument #0 'self'"),  # dist
    (RuntimeError, r"Function Scatter\w*Backward0 returned an invalid gradient at index 1 - got .*"),
    (RuntimeError, r"INDICES element is out of DATA bounds, id=-1 axis_dim=4"),  # index_fill from behind
    (
        RuntimeError,
        r"one of the variables needed for gradient computation has been modified .*",
    ),  # vander, cond
    (RuntimeError, r"tensor does not have a device"),  # group_norm of nothing
)
NAMES = sorted(
    name
    for name, op in REGISTRY.items()
    if op.samples is not None and op.function and op.kind not in (Kind.RANDOM, Kind.CREATE)
    and not name.startswith(("ops.", "method.")) and not name.rpartition(".")[2].startswith("_")
)  # fmt: skip


def theirs(name: str) -> Any:
    place: Any = torch
    for word in name.split("."):
        place = getattr(place, word, None)
        if place is None:
            pytest.skip("not in torch")
    return place


def converted(value: Any, make: Any) -> Any:
    """Arguments with their arrays and dtypes replaced; arrays of floats want gradients."""
    if isinstance(value, np.ndarray):
        tensor = make(value.copy())
        return tensor.requires_grad_() if value.dtype.kind in "fc" else tensor
    if isinstance(value, dtypes.dtype):
        return value if make is weft.from_numpy else getattr(torch, value.name)
    if isinstance(value, (tuple, list)):
        return type(value)(converted(item, make) for item in value)
    return value


def flat(value: Any) -> list[Any]:
    if isinstance(value, dict):
        value = list(value.values())
    return [leaf for item in value for leaf in flat(item)] if isinstance(value, (tuple, list)) else [value]


def same(ours: Any, other: Any, name: str) -> None:
    other = (other.detach() + 0).resolve_conj() if other.dtype is not torch.bool else other
    assert str(ours.dtype).rpartition(".")[2] == str(other.dtype).rpartition(".")[2], name
    np.testing.assert_allclose(ours.detach().numpy(), other.numpy(), rtol=1e-7, atol=1e-8, err_msg=name)


def call(function: Any, sample: Any, make: Any) -> tuple[list[Any], list[Any]]:
    args = converted(sample.args, make)
    kwargs = {key: converted(value, make) for key, value in sample.kwargs.items()}
    outs = flat(function(*args, **kwargs))
    return outs, [x for x in flat([args, kwargs]) if getattr(x, "requires_grad", False)]


def gradients(module: Any, outs: list[Any], inputs: list[Any], make: Any) -> list[Any]:
    """Of all results, each element with a weight of its own."""
    live = [o for o in outs if getattr(o, "requires_grad", False)]
    random = np.random.default_rng(0)
    seeds = []
    for out in live:
        seed = random.standard_normal(tuple(out.shape))
        turned = random.standard_normal(tuple(out.shape)) * 1j if out.is_complex() else 0
        seeds.append(make(np.asarray(seed + turned)).to(out.dtype))
    return list(module.autograd.grad(live, inputs, seeds, allow_unused=True)) if live and inputs else []


@pytest.mark.parametrize("kind", [dtypes.float64, dtypes.complex128], ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_samples(name: str, kind: dtypes.dtype) -> None:
    if name in DIFFERENT:
        pytest.skip(DIFFERENT[name])
    if name in ONLY_REAL and kind.is_complex:
        pytest.skip("real numbers only")
    op: Op = REGISTRY[name]
    function = theirs(name)
    assert op.samples is not None
    for sample in op.samples(Maker(kind)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                expected, leaves = call(function, sample, torch.from_numpy)
            except Exception as error:
                refusals.expect(error, kind, *OF_CALLS)
                continue
            found, inputs = call(op.face, sample, weft.from_numpy)
            assert len(found) == len(expected), sample
            for mine, other in zip(found, expected, strict=True):
                if isinstance(other, torch.Tensor):
                    same(mine, other, f"{name} {sample}")
                else:
                    assert mine == other, sample
            try:
                wanted = gradients(torch, expected, leaves, torch.from_numpy)
            except (RuntimeError, NotImplementedError) as error:
                refusals.expect(error, dtypes.float64, *OF_GRADIENTS)
                continue
            if not wanted:
                continue
            for mine, other in zip(gradients(weft, found, inputs, weft.from_numpy), wanted, strict=True):
                if mine is not None and other is not None:
                    same(mine, other, f"gradient of {name} {sample}")
                else:  # none and zeros are the same to a user
                    rest = other if mine is None else mine
                    assert rest is None or not rest.any(), f"gradient of {name} {sample}"
