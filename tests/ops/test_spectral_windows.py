"""Windows against SciPy's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.signal import get_window, windows

import weft


@pytest.mark.parametrize("size", [0, 1, 2, 7, 8])
@pytest.mark.parametrize("sym", [True, False])
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("bartlett", {}), ("blackman", {}), ("cosine", {}), ("exponential", {"tau": 2.0}),
        ("gaussian", {"std": 1.5}), ("general_cosine", {"a": (0.5, 0.3, 0.2)}),
        ("general_hamming", {"alpha": 0.6}), ("hamming", {}), ("hann", {}), ("kaiser", {"beta": 5.0}),
        ("nuttall", {}),
    ],
)  # fmt: skip
def test_windows(name: str, options: dict[str, Any], sym: bool, size: int) -> None:
    got = getattr(weft.signal.windows, name)(size, sym=sym, dtype=weft.float64, **options)
    np.testing.assert_allclose(got, getattr(windows, name)(size, sym=sym, **options), atol=1e-12)


def test_older_names_are_periodic() -> None:
    for name in ("bartlett", "blackman", "hamming", "hann"):
        got = getattr(weft, f"{name}_window")(6, dtype=weft.float64)
        np.testing.assert_allclose(got, get_window(name, 6), atol=1e-12)
    np.testing.assert_allclose(weft.kaiser_window(6, False), windows.kaiser(6, 12.0), rtol=1e-5)


def test_errors() -> None:
    with pytest.raises(ValueError, match="general_cosine requires non-negative window length, got M=-1"):
        weft.signal.windows.hann(-1)
    with pytest.raises(ValueError, match="expects float32 or float64 dtypes"):
        weft.signal.windows.bartlett(3, dtype=weft.int32)
    with pytest.raises(ValueError, match="Standard deviation must be positive, got: -1 instead"):
        weft.signal.windows.gaussian(3, std=-1)
    with pytest.raises(RuntimeError, match="hann_window requires non-negative window_length"):
        weft.hann_window(-1)
