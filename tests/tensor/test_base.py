"""The plain facts of a tensor."""

from __future__ import annotations

import pytest

import weft
from weft.tensor.base import PUBLIC, Parameter, Tensor, storage_root


def test_facts() -> None:
    x = weft.zeros(2, 3, dtype=weft.int16)
    assert x.shape == x.size() == (2, 3) and isinstance(x.shape, weft.Size) and x.size(-1) == 3
    assert x.ndim == x.dim() == x.ndimension() == 2 and x.numel() == x.nelement() == 6
    assert x.element_size() == x.itemsize == 2 and x.nbytes == 12
    assert x.stride() == (3, 1) and x.stride(0) == 3 and x.t().stride() == (1, 3)
    assert x.dtype is weft.int16 and x.device == weft.device("cpu") and not x.is_meta
    assert not x.is_floating_point() and not x.is_complex() and x.is_signed()
    assert hash(x) != hash(weft.zeros(2, 3, dtype=weft.int16)) and {x: 1}[x] == 1
    with pytest.raises(
        IndexError, match=r"Dimension out of range \(expected to be in range of \[-2, 1\], but got 2\)"
    ):
        x.size(2)


def test_strides_of_empty_tensors_are_those_of_pytorch() -> None:
    assert weft.zeros(0, 3).stride() == (3, 1) and weft.zeros(2, 0, 3).stride() == (3, 3, 1)


def test_versions() -> None:
    x = weft.zeros(2)
    view = x[0]
    assert x._version == 0
    view.fill_(1)
    assert x._version == view._version == 1
    assert x.clone()._version == 0
    with weft.inference_mode():
        made = weft.ones(2)
    assert made.is_inference()
    with pytest.raises(RuntimeError, match="Inference tensors do not track version counter."):
        _ = made._version


def test_addresses_and_offsets() -> None:
    x = weft.arange(12).reshape(3, 4)
    assert x[1:, 2].storage_offset() == 6 and x[1:].t()[2].storage_offset() == 6
    assert x[2, 3].data_ptr() == x.data_ptr() + 88 and weft.zeros(0).data_ptr() == 0
    assert storage_root(x[1:, 2].array) is storage_root(x.array)


def test_public_names_are_exported() -> None:
    assert all(getattr(weft, name) is value for name, value in PUBLIC.items() if "." not in name)


def test_parameter_is_a_tensor_without_slots_of_its_own() -> None:
    assert issubclass(Parameter, Tensor) and Parameter.__slots__ == ()
