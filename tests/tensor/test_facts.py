"""Facts as functions, constants, default dtypes and devices."""

from __future__ import annotations

import math
import subprocess
import sys

import numpy as np
import pytest

import weft


def test_exports() -> None:
    assert weft.float is weft.float32 and weft.double is weft.float64 and weft.half is weft.float16
    assert weft.long is weft.int64 and weft.int is weft.int32 and weft.short is weft.int16
    assert weft.cfloat is weft.complex64 and weft.cdouble is weft.complex128
    assert weft.inf == math.inf and math.isnan(weft.nan) and weft.pi == math.pi and weft.e == math.e
    assert weft.newaxis is None
    assert repr(weft.channels_last) == "weft.channels_last" and repr(weft.strided) == "weft.strided"


def test_functions() -> None:
    x = weft.zeros(2, 3)
    assert weft.is_tensor(x) and not weft.is_tensor(3)
    assert weft.is_floating_point(x) and not weft.is_complex(x) and weft.is_signed(x)
    assert weft.numel(x) == 6 and weft.get_device(x) == x.get_device() == -1
    assert x.is_same_size(weft.ones(2, 3)) and not weft.is_same_size(x, weft.ones(3))
    assert x.is_cpu and not (x.is_cuda or x.is_sparse or x.is_quantized or x.is_conj() or x.is_neg())
    assert x.resolve_conj() is x.to_dense() is x
    assert x.dim_order() == (0, 1) and x.t().dim_order() == (1, 0)
    with pytest.raises(
        TypeError, match=r"numel\(\): argument 'input' \(position 1\) must be Tensor, not int"
    ):
        weft.numel(3)


def test_promotion() -> None:
    assert weft.result_type(weft.tensor([1]), 1.5) is weft.float32
    assert weft.result_type(weft.tensor(1.0, dtype=weft.double), weft.tensor([1.0])) is weft.float32
    assert weft.result_type(1, 1.5) is weft.float32
    assert weft.promote_types(weft.uint8, weft.int8) is weft.int16
    assert weft.can_cast(weft.double, weft.float) and not weft.can_cast(weft.float, weft.int)
    with pytest.raises(TypeError, match="must be weft.dtype, not str"):
        weft.promote_types("float", weft.int8)
    with pytest.raises(TypeError, match="must be Tensor, not str"):
        weft.result_type("a", 1)


def test_broadcast_shapes() -> None:
    assert weft.broadcast_shapes((2,), (3, 1), 1) == (3, 2) and weft.broadcast_shapes() == ()
    assert isinstance(weft.broadcast_shapes((2, 0), (1,)), weft.Size)
    with pytest.raises(RuntimeError, match="Attempting to broadcast a dimension of length 3 at -1!"):
        weft.broadcast_shapes((2,), (3,))
    with pytest.raises(ValueError, match="with negative length!"):
        weft.broadcast_shapes((-1,), (2,))


def test_default_dtype() -> None:
    for wrong in (weft.int32, "float"):
        with pytest.raises(TypeError, match="only floating-point types are supported as the default type"):
            weft.set_default_dtype(wrong)
    with pytest.warns(UserWarning, match="deprecated"):
        weft.set_default_tensor_type(weft.DoubleTensor)
    try:
        assert weft.get_default_dtype() is weft.float64
    finally:
        weft.set_default_dtype(weft.float32)


def test_device_contexts() -> None:
    @weft.device("meta")
    def made() -> weft.Tensor:
        return weft.zeros(2)

    assert made().is_meta and not weft.zeros(2).is_meta
    with pytest.raises(ValueError), weft.device("meta"):
        raise ValueError
    assert weft.get_default_device() == weft.device("cpu")
    with pytest.raises(RuntimeError, match="Invalid device string: 'cpu:x'"):
        weft.device("cpu:x")


def test_contiguity() -> None:
    x = weft.zeros(2, 1, 4, 5)
    assert x.is_contiguous() and x.is_contiguous(memory_format=weft.channels_last)
    assert not x.transpose(2, 3).is_contiguous() and weft.zeros(0, 3).t().is_contiguous()
    assert weft.zeros(2, 3, 4, 5, device="meta").is_contiguous()


def test_limits() -> None:
    assert repr(weft.finfo(weft.float16)) == (
        "finfo(resolution=0.001, min=-65504, max=65504, eps=0.000976562, smallest_normal=6.10352e-05, "
        "tiny=6.10352e-05, dtype=float16)"
    )
    assert weft.finfo(weft.bfloat16).eps == 2**-7 and weft.finfo().dtype == "float32"
    assert repr(weft.iinfo(weft.int8)) == "iinfo(min=-128, max=127, dtype=int8)"
    with pytest.raises(TypeError, match="weft.bool is not supported by weft.iinfo"):
        weft.iinfo(weft.bool)


def test_size() -> None:
    size = weft.Size([2, 3])
    assert size + (1,) == (2, 3, 1) and isinstance(size + (1,), weft.Size) and size.numel() == 6
    assert repr(size[:1]) == "weft.Size([2])" and weft.Size([weft.tensor(2)]) == (2,)
    with pytest.raises(TypeError, match=r"takes an iterable of 'int' \(item 1 is 'float'\)"):
        weft.Size([1, 2.5])
    with pytest.raises(TypeError, match=r"can only concatenate tuple \(not list\) to weft.Size"):
        size + [1]


def test_result_type_of_numpy_numbers() -> None:
    assert weft.result_type(weft.ones(2, dtype=weft.int8), np.int64(2)) is weft.int8


def test_number_of_threads() -> None:
    before = weft.get_num_threads()
    weft.set_num_threads(1)
    assert weft.get_num_threads() == 1
    weft.set_num_threads(before)
    with pytest.raises(RuntimeError, match="set_num_threads expects a positive integer"):
        weft.set_num_threads(0)
    with pytest.raises(RuntimeError, match="set_num_threads expects an int, but got float"):
        weft.set_num_threads(2.0)
    assert weft.get_num_threads() == before


def test_return_types_are_public() -> None:
    assert isinstance(weft.ones(2).max(0), weft.return_types.max)


def test_facts_of_what_is_not_here():
    assert weft.has_lapack and weft.has_spectral and not (weft.has_mkl or weft.has_openmp)
    assert not weft.is_vulkan_available() and not weft.is_distributed(weft.ones(2))
    assert not weft.ones(2).is_distributed() and weft.sym_sqrt(9) == 3


def test_threads_between_ops_are_noted_once():
    program = """
import weft
assert weft.get_num_interop_threads() >= 1
for wrong in (0, 1.5):
    try:
        weft.set_num_interop_threads(wrong)
    except RuntimeError:
        continue
    raise AssertionError(wrong)
weft.set_num_interop_threads(3)
assert weft.get_num_interop_threads() == 3
try:
    weft.set_num_interop_threads(2)
except RuntimeError as error:
    assert "cannot set number of interop threads" in str(error)
else:
    raise AssertionError
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_checks_by_class():
    kinds = {
        "_check_index": IndexError,
        "_check_value": ValueError,
        "_check_type": TypeError,
        "_check_not_implemented": NotImplementedError,
    }
    for name, kind in kinds.items():
        getattr(weft, name)(True, lambda: "not asked for")
        with pytest.raises(kind, match="^told$"):
            getattr(weft, name)(False, lambda: "told")
    with pytest.raises(OSError, match="Expected cond to be True"):
        weft._check_with(OSError, False)


def test_all_and_any_of_bools():
    x = weft.tensor([True, False])
    assert (weft._is_all_true(x).item(), weft._is_any_true(x).item()) == (False, True)
    for function in (weft._is_all_true, weft._is_any_true):
        with pytest.raises(RuntimeError, match="kBool"):
            function(weft.ones(2))
