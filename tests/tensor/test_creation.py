"""Tensors from Python data: shapes, inferred dtypes, aliases, refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft


@pytest.mark.parametrize(
    "data, kind",
    [
        (1, weft.int64),
        (1.5, weft.float32),
        (True, weft.bool),
        (1j, weft.complex64),
        ([1, 2.5, True], weft.float32),
        ([True, 2], weft.int64),
        ([1, 2j], weft.complex64),
        ([], weft.float32),
        (range(3), weft.int64),
        ((1, 2), weft.int64),
        (np.float64(1), weft.float64),
        (np.float32(1), weft.float32),
        ([np.float64(1), 2.0], weft.float64),
        ([np.int8(1)], weft.int8),
        ([np.int8(1), 2], weft.int64),
        (np.ones(2, np.float16), weft.float16),
        ([np.ones(2), np.ones(2)], weft.float64),
        (np.array(3), weft.int64),
    ],
)
def test_inferred_dtype(data: Any, kind: Any) -> None:
    made = weft.tensor(data)
    assert made.dtype is kind
    assert made.shape == np.shape(data)
    assert np.array_equal(made.numpy(), np.asarray(data))


def test_default_dtype_decides_for_floats() -> None:
    weft.set_default_dtype(weft.float64)
    try:
        assert weft.tensor(1.5).dtype is weft.float64 and weft.tensor(1j).dtype is weft.complex128
    finally:
        weft.set_default_dtype(weft.float32)


def test_tensors_inside_lists() -> None:
    mixed = [weft.tensor(1, dtype=weft.int8), weft.tensor([2.0], dtype=weft.half)]
    assert weft.tensor(mixed).dtype is weft.half and weft.tensor(mixed).tolist() == [1, 2]
    with pytest.raises(ValueError, match="only one element tensors can be converted to Python scalars"):
        weft.tensor([weft.ones(2), weft.ones(2)])


@pytest.mark.parametrize(
    "data, options, error, text",
    [
        ([[2], [1, 2]], {}, ValueError, "expected sequence of length 1 at dim 1 (got 2)"),
        ([[2], 1], {}, TypeError, "not a sequence"),
        ([1, [2]], {}, TypeError, "'list' object cannot be interpreted as an integer"),
        ("a", {}, TypeError, "new(): invalid data type 'str'"),
        (["a"], {}, ValueError, "too many dimensions 'str'"),
        ([1, "a"], {}, TypeError, "new(): invalid data type 'str'"),
        (None, {}, RuntimeError, "Could not infer dtype of NoneType"),
        ({1: 2}, {}, RuntimeError, "Could not infer dtype of dict"),
        (2**63, {}, ValueError, "Overflow when unpacking long long"),
        (
            [300],
            {"dtype": weft.uint8},
            RuntimeError,
            "value cannot be converted to type uint8 without overflow",
        ),
        ([float("nan")], {"dtype": weft.int32}, RuntimeError, "type int32 without overflow"),
        ([1j], {"dtype": weft.float32}, TypeError, "must be real number, not complex"),
        ([None], {"dtype": weft.float32}, TypeError, "must be real number, not NoneType"),
        ([1], {"dtype": "float32"}, TypeError, "argument 'dtype' must be weft.dtype, not str"),
        ([1], {"requires_grad": True}, RuntimeError, "Only Tensors of floating point and complex dtype"),
        (np.array(["a"]), {}, TypeError, "can't convert np.ndarray of type numpy.str_"),
        (np.arange(4)[::-1], {}, ValueError, "At least one stride in the given numpy array is negative"),
        (np.arange(4.0, dtype=">f8"), {}, ValueError, "byte order different from the native byte order"),
    ],
)
def test_refusals(data: Any, options: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error) as caught:
        weft.tensor(data, **options)
    assert text in str(caught.value)


def test_explicit_dtypes() -> None:
    assert weft.tensor([-1], dtype=weft.uint8).tolist() == [255]
    assert weft.tensor([1.9], dtype=weft.int32).tolist() == [1]
    assert weft.tensor([1e300]).item() == float("inf")
    assert weft.tensor([1, 0, 2.5], dtype=weft.bool).tolist() == [True, False, True]
    assert weft.tensor([1], device="meta").is_meta


def test_tensor_copies_and_advises_against_tensors() -> None:
    array = np.ones(2)
    made = weft.tensor(array)
    array[0] = 5
    assert made.tolist() == [1, 1]
    with pytest.warns(UserWarning, match="it is recommended to use sourceTensor.detach"):
        copied = weft.tensor(made)
    assert copied.data_ptr() != made.data_ptr()


def test_as_tensor_and_asarray_share_where_they_can() -> None:
    array = np.arange(3.0)
    assert weft.as_tensor(array).data_ptr() == weft.asarray(array).data_ptr() == array.ctypes.data
    assert weft.as_tensor(array, dtype=weft.float32).dtype is weft.float32
    made = weft.ones(2)
    assert weft.as_tensor(made) is made
    assert weft.asarray(made, copy=True).data_ptr() != made.data_ptr()
    assert weft.asarray(bytearray(8), dtype=weft.float32).tolist() == [0, 0]
    assert weft.asarray([1, 2]).tolist() == [1, 2]
    with pytest.raises(ValueError, match="can't alias arbitrary sequence into a tensor"):
        weft.asarray([1, 2], copy=False)
    with pytest.raises(ValueError, match="can't alias tensor with dtype 'Double' into dtype 'Float'"):
        weft.asarray(array, copy=False, dtype=weft.float32)
    assert weft.asarray(array, requires_grad=True).requires_grad
