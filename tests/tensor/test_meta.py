"""Tensors without elements stay so, also where ops have learnt to go straight to their kernels."""

import pytest

import weft


@pytest.mark.parametrize(
    "make",
    [
        lambda t, **options: t.new_empty((2,), **options),
        lambda t, **options: t.new_zeros((2,), **options),
        lambda t, **options: t.new_full((2,), 1.0, **options),
        lambda t, **options: weft.empty_like(t, **options),
        lambda t, **options: weft.ones_like(t, **options),
        lambda t, **options: weft.full_like(t, 2.0, **options),
    ],
)
def test_making_one_tensor_like_another(make):
    plain, meta = weft.ones(3), weft.ones(3, device="meta")
    for _ in range(3):  # the first call teaches the op its dtypes
        assert not make(plain).is_meta
        assert make(meta).is_meta
        assert make(plain, device="meta").is_meta


def test_writing_in_place():
    for _ in range(3):
        assert weft.ones(2).mul_(2.0).tolist() == [2, 2]
        assert weft.ones(2, device="meta").mul_(2.0).is_meta
