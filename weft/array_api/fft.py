"""Fourier transforms: the standard's extension `fft`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.array_api.base import named, w
from weft.tensor.base import Tensor


def _line(name: str, text: str) -> Callable[..., Tensor]:
    def function(x: Tensor, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Tensor:
        made: Tensor = getattr(w, f"fft_{name}")(x, n=n, dim=axis, norm=norm)
        return made

    return named(function, name, text)


def _space(name: str, text: str) -> Callable[..., Tensor]:
    def function(x: Tensor, /, *, s: Any = None, axes: Any = None, norm: str = "backward") -> Tensor:
        made: Tensor = getattr(w, f"fft_{name}")(x, s=s, dim=axes, norm=norm)
        return made

    return named(function, name, text)


fft = _line("fft", "The discrete Fourier transform along a dimension.")
ifft = _line("ifft", "Its inverse.")
rfft = _line("rfft", "That of real numbers: the half that tells all.")
irfft = _line("irfft", "Its inverse: real numbers from a half.")
hfft = _line("hfft", "That of a half of a Hermitian signal: real numbers.")
ihfft = _line("ihfft", "Its inverse.")
fftn = _space("fftn", "The discrete Fourier transform along several dimensions.")
ifftn = _space("ifftn", "Its inverse.")
rfftn = _space("rfftn", "That of real numbers: the half that tells all.")
irfftn = _space("irfftn", "Its inverse: real numbers from a half.")


def fftfreq(n: int, /, *, d: float = 1.0, dtype: Any = None, device: Any = None) -> Tensor:
    """The frequencies that the elements of a transform stand for."""
    return w.fft_fftfreq(n, d, dtype=dtype, device=device)


def rfftfreq(n: int, /, *, d: float = 1.0, dtype: Any = None, device: Any = None) -> Tensor:
    """The same for the transform of real numbers."""
    return w.fft_rfftfreq(n, d, dtype=dtype, device=device)


def fftshift(x: Tensor, /, *, axes: Any = None) -> Tensor:
    """The transform with frequency 0 in the middle."""
    return w.fft_fftshift(x, axes)


def ifftshift(x: Tensor, /, *, axes: Any = None) -> Tensor:
    """The transform with frequency 0 at the beginning again."""
    return w.fft_ifftshift(x, axes)
