from __future__ import annotations

import pytest

import weft
from weft.testing import make_tensor

DTYPES = (
    weft.float32,
    weft.float64,
    weft.float16,
    weft.bfloat16,
    weft.int64,
    weft.uint8,
    weft.bool,
    weft.complex64,
)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_has_shape_dtype_and_range(dtype):
    x = make_tensor(20, 3, dtype=dtype, device="cpu")
    assert (x.shape, x.dtype) == ((20, 3), dtype)
    real = weft.view_as_real(x) if dtype.is_complex else x.double()
    assert real.min() >= -9 and real.max() <= 10
    assert len(real.unique()) > 1


def test_range_and_sizes():
    x = make_tensor((100,), dtype=weft.float64, low=2, high=3)
    assert x.min() >= 2 and x.max() < 3
    assert make_tensor([2, 3], dtype=weft.int64, low=4, high=5).tolist() == [[4] * 3] * 2
    assert make_tensor((), dtype=weft.float32).shape == ()


def test_options():
    x = make_tensor(4, 5, dtype=weft.float32, noncontiguous=True, requires_grad=True)
    assert x.shape == (4, 5) and not x.is_contiguous() and x.requires_grad and x.is_leaf
    assert (make_tensor(500, dtype=weft.int64, low=-1, high=2, exclude_zero=True) != 0).all()


def test_follows_the_seed():
    weft.manual_seed(3)
    first = make_tensor(5, dtype=weft.float32)
    weft.manual_seed(3)
    assert weft.equal(make_tensor(5, dtype=weft.float32), first)


def test_refuses_what_cannot_be():
    with pytest.raises(ValueError, match="requires_grad"):
        make_tensor(2, dtype=weft.int64, requires_grad=True)
    with pytest.raises(ValueError, match="`low` must be less than `high`"):
        make_tensor(2, dtype=weft.float32, low=3, high=1)
