"""Padding, resizing, folding and grids: values against NumPy, identities, and PyTorch's error texts."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from weft.nn import functional as F

random = np.random.default_rng(0)


def make(*shape: int) -> weft.Tensor:
    return weft.from_numpy(random.standard_normal(shape))


@pytest.mark.parametrize(
    ("mode", "numpy_mode"),
    [("constant", "constant"), ("reflect", "reflect"), ("replicate", "edge"), ("circular", "wrap")],
)
def test_pad_is_numpys(mode: str, numpy_mode: str) -> None:
    x = make(2, 3, 4, 5)
    expected = np.pad(x.numpy(), [(0, 0), (0, 0), (2, 1), (1, 3)], mode=numpy_mode)
    np.testing.assert_array_equal(F.pad(x, (1, 3, 2, 1), mode).numpy(), expected)


def test_pad_with_a_value_and_negative_amounts() -> None:
    x = weft.tensor([[1, 2, 3]])
    assert F.pad(x, (1, -1), value=7).tolist() == [[7, 1, 2]]
    assert F.pad(x, (0, 1), value=2.7).tolist() == [[1, 2, 3, 2]]
    assert F.pad(x, ()).tolist() == x.tolist()


def test_pad_refusals() -> None:
    x = weft.zeros(1, 1, 4, 4)
    with pytest.raises(RuntimeError, match="Padding length must be divisible by 2"):
        F.pad(x, (1,))
    with pytest.raises(
        RuntimeError,
        match=r"Argument #4: Padding size should be less than the corresponding input "
        r"dimension, but got: padding \(4, 1\) at dimension 3",
    ):
        F.pad(x, (4, 1, 1, 1), "reflect")
    with pytest.raises(RuntimeError, match="Padding value causes wrapping around more than once"):
        F.pad(x, (5, 1, 1, 1), "circular")
    with pytest.raises(NotImplementedError, match="Padding size 2 is not supported for 4D input tensor"):
        F.pad(x, (1, 1), "reflect")
    with pytest.raises(RuntimeError, match='Padding mode "reflect" doesn\'t take in value argument'):
        F.pad(x, (1, 1, 1, 1), "reflect", value=1)
    with pytest.raises(NotImplementedError, match="Unrecognised padding mode soft"):
        F.pad(x, (1, 1, 1, 1), "soft")


def test_resizing_a_line() -> None:
    x = weft.tensor([[[0.0, 1.0, 2.0, 3.0]]])
    assert F.interpolate(x, 2).tolist() == [[[0.0, 2.0]]]
    assert F.interpolate(x, 2, mode="nearest-exact").tolist() == [[[1.0, 3.0]]]
    assert F.interpolate(x, 7, mode="linear", align_corners=True).tolist() == [[[0, 0.5, 1, 1.5, 2, 2.5, 3]]]
    assert F.interpolate(x, scale_factor=0.5, mode="linear").tolist() == [[[0.5, 2.5]]]
    assert F.interpolate(x, 2, mode="area").tolist() == [[[0.5, 2.5]]]


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("antialias", [False, True])
def test_resizing_keeps_what_is_constant(mode: str, antialias: bool) -> None:
    x = weft.full((1, 2, 5, 7), 3.0, dtype=weft.float64)
    out = F.interpolate(x, (9, 3), mode=mode, antialias=antialias)
    np.testing.assert_allclose(out.numpy(), 3.0, rtol=1e-12)


def test_a_scale_is_not_the_ratio_of_sizes() -> None:
    x = make(1, 1, 5)
    given = F.interpolate(x, scale_factor=1.5, mode="linear")
    recomputed = F.interpolate(x, scale_factor=1.5, mode="linear", recompute_scale_factor=True)
    assert given.shape == recomputed.shape == (1, 1, 7)
    assert not np.allclose(given.numpy(), recomputed.numpy())


def test_resizing_refusals() -> None:
    x = weft.zeros(1, 1, 4, 4)
    with pytest.raises(ValueError, match="only one of size or scale_factor should be defined"):
        F.interpolate(x, 2, 2)
    with pytest.raises(ValueError, match="either size or scale_factor should be defined"):
        F.interpolate(x)
    with pytest.raises(ValueError, match="align_corners option can only be set with the interpolating modes"):
        F.interpolate(x, 2, align_corners=True)
    with pytest.raises(NotImplementedError, match="Got 4D input, but linear mode needs 3D input"):
        F.interpolate(x, 2, mode="linear")
    with pytest.raises(RuntimeError, match="Input and output sizes should be greater than 0"):
        F.interpolate(x, 0)
    with pytest.warns(UserWarning, match="`nn.functional.upsample` is deprecated"):
        assert F.upsample(x, 2).shape == (1, 1, 2, 2)


def test_unfolding_makes_convolution_a_product() -> None:
    x, w = make(2, 3, 6, 5), make(4, 3, 3, 2)
    columns = F.unfold(x, (3, 2), padding=1, stride=2)
    out = (w.reshape(4, -1) @ columns).reshape(2, 4, *F.conv2d(x, w, padding=1, stride=2).shape[2:])
    np.testing.assert_allclose(out.numpy(), F.conv2d(x, w, padding=1, stride=2).numpy(), rtol=1e-12)


def test_folding_counts_how_often_a_place_was_read() -> None:
    ones = weft.ones(1, 1, 4, 4, dtype=weft.float64)
    counts = F.fold(F.unfold(ones, 2), 4, 2)
    assert counts[0, 0].tolist() == [[1, 2, 2, 1], [2, 4, 4, 2], [2, 4, 4, 2], [1, 2, 2, 1]]
    assert F.fold(F.unfold(ones[0], 2), 4, 2).shape == (1, 4, 4)


def test_folding_refusals() -> None:
    with pytest.raises(
        RuntimeError,
        match=r"expected size of input's dimension 2 to match the calculated number of "
        r"sliding blocks 3 \* 3 = 9, but got input.size\(2\)=8",
    ):
        F.fold(weft.zeros(1, 12, 8), 4, 2)
    with pytest.raises(RuntimeError, match=r"calculated shape of the array of sliding blocks as \(0, 0\)"):
        F.unfold(weft.zeros(1, 3, 4, 4), 5)


def test_rearranging_channels() -> None:
    x = weft.arange(8).reshape(1, 8, 1, 1)
    assert F.pixel_shuffle(x, 2).tolist() == [[[[0, 1], [2, 3]], [[4, 5], [6, 7]]]]
    assert F.pixel_unshuffle(F.pixel_shuffle(x, 2), 2).tolist() == x.tolist()
    assert F.channel_shuffle(x, 2).reshape(-1).tolist() == [0, 4, 1, 5, 2, 6, 3, 7]
    same = F.pixel_shuffle(x, 1)
    same += 1
    assert x[0, 0, 0, 0].item() == 0, "the result is new memory even where nothing moves"
    with pytest.raises(RuntimeError, match=r"input.size\(-3\)=8 is not divisible by 9"):
        weft.pixel_shuffle(x, 3)


# -- numbers that are no elements of a dtype -----------------------------------------------------------------
REFUSED = r"value cannot be converted to type uint8_t without overflow"


@pytest.mark.parametrize("backend", [None, "aot_eager", "native"])
def test_padding_with_numbers_that_are_no_elements(backend: str | None) -> None:
    def padded(x: weft.Tensor, value: float) -> weft.Tensor:
        return F.pad(x, (1, 0), value=value)

    def op(x: weft.Tensor, value: float) -> weft.Tensor:
        return weft.constant_pad_nd(x, (1, 0), value)

    if backend is not None:
        padded, op = (weft.compile(each, backend=backend) for each in (padded, op))
    x = weft.tensor([1, 2], dtype=weft.uint8)
    for value in (-1, 300, float("nan")):  # a float of no sign, as PyTorch has it
        with pytest.raises(RuntimeError, match=REFUSED):
            padded(x, value)
    assert padded(x, 7.9).tolist() == [7, 1, 2]
    assert op(x, -1).tolist() == [255, 1, 2]
    assert F.pad(x, (-1, 0), value=300).tolist() == [2], "nothing is filled"
