"""Short-time transforms: frame by frame, and there and back."""

from __future__ import annotations

import numpy as np
import pytest

import weft

SIGNAL = np.random.default_rng(0).standard_normal((2, 50))
WINDOW = np.hanning(14)[1:-1]


def test_each_frame_is_a_transform() -> None:
    got = weft.stft(
        weft.from_numpy(SIGNAL), 16, 5, 12, weft.from_numpy(WINDOW), center=False, return_complex=True
    ).numpy()
    taper = np.pad(WINDOW, (2, 2))
    for frame in range(got.shape[-1]):
        part = SIGNAL[:, 5 * frame : 5 * frame + 16] * taper
        np.testing.assert_allclose(got[..., frame], np.fft.rfft(part), atol=1e-12)


@pytest.mark.parametrize("onesided", [True, False])
@pytest.mark.parametrize("normalized", [True, False])
def test_there_and_back(normalized: bool, onesided: bool) -> None:
    x, window = weft.from_numpy(SIGNAL), weft.from_numpy(WINDOW)
    spectrum = weft.stft(x, 16, 4, 12, window, normalized=normalized, onesided=onesided, return_complex=True)
    back = weft.istft(spectrum, 16, 4, 12, window, normalized=normalized, onesided=onesided, length=50)
    np.testing.assert_allclose(back.numpy(), SIGNAL, atol=1e-12)


def test_errors() -> None:
    x = weft.ones(50)
    with pytest.raises(RuntimeError, match="stft requires the return_complex parameter be given"):
        weft.stft(x, 16)
    with pytest.raises(RuntimeError, match="expected hop_length > 0, but got hop_length=0"):
        weft.stft(x, 16, 0, return_complex=True)
    with pytest.raises(RuntimeError, match="Cannot have onesided output if window or input is complex"):
        weft.stft(x + 0j, 16, onesided=True, return_complex=True)
    with pytest.raises(RuntimeError, match="istft requires a complex-valued input tensor"):
        weft.istft(weft.ones(9, 4), 16)
    with pytest.raises(RuntimeError, match="window overlap add min: 1"):
        weft.istft(weft.ones(9, 4, dtype=weft.complex64), 16, window=weft.zeros(16))
