"""Fourier transforms against NumPy's, and their gradients."""

from __future__ import annotations

import numpy as np
import pytest

import weft

RANDOM = np.random.default_rng(0)
REAL = RANDOM.standard_normal((4, 6))
BOTH = REAL + 1j * RANDOM.standard_normal((4, 6))


@pytest.mark.parametrize("norm", [None, "ortho", "forward"])
@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"])
def test_lines(name: str, norm: str | None) -> None:
    x = REAL if name in ("rfft", "ihfft") else BOTH
    for n, dim in ((None, -1), (3, 0), (7, 1), (9, -1)):
        got = getattr(weft.fft, name)(weft.from_numpy(x), n, dim, norm).numpy()
        np.testing.assert_allclose(got, getattr(np.fft, name)(x, n, dim, norm), atol=1e-12)


@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft"])
def test_several_dimensions(name: str) -> None:
    x = np.stack([REAL if name == "rfft" else BOTH] * 2)
    for s, dim in ((None, (0, 2)), ((3, 8), (1, 2)), ((5,), (1,))):
        got = getattr(weft.fft, f"{name}n")(weft.from_numpy(x), s, dim, "ortho").numpy()
        np.testing.assert_allclose(got, getattr(np.fft, f"{name}n")(x, s, dim, "ortho"), atol=1e-12)
    got = getattr(weft.fft, f"{name}2")(weft.from_numpy(x)).numpy()
    np.testing.assert_allclose(got, getattr(np.fft, f"{name}2")(x), atol=1e-12)


def test_mirrored_signals_go_there_and_back() -> None:
    half = weft.fft.ihfftn(weft.from_numpy(REAL))
    np.testing.assert_allclose(weft.fft.hfftn(half, (4, 6)).numpy(), REAL, atol=1e-12)


def test_single_precision_stays_single() -> None:
    assert weft.fft.fft(weft.ones(4)).dtype is weft.complex64
    assert weft.fft.irfft(weft.ones(4, dtype=weft.complex64)).dtype is weft.float32
    assert weft.fft.fft(weft.arange(4)).dtype is weft.complex64


def test_frequencies_and_shifts() -> None:
    for n in (4, 5):
        np.testing.assert_allclose(weft.fft.fftfreq(n, 0.5).numpy(), np.fft.fftfreq(n, 0.5), rtol=1e-6)
        np.testing.assert_allclose(weft.fft.rfftfreq(n).numpy(), np.fft.rfftfreq(n), rtol=1e-6)
        x = weft.arange(n)
        np.testing.assert_array_equal(weft.fft.fftshift(x).numpy(), np.fft.fftshift(x.numpy()))
        assert weft.equal(weft.fft.ifftshift(weft.fft.fftshift(x)), x)


def test_transforms_compile() -> None:
    def loss(x: weft.Tensor) -> weft.Tensor:
        return (weft.fft.irfft(weft.fft.rfft(x) * 1j) ** 2).sum()

    x = weft.randn(8, requires_grad=True)
    (wanted,) = weft.autograd.grad(loss(x), x)
    (got,) = weft.autograd.grad(weft.compile(loss, fullgraph=True, backend="aot_eager")(x), x)
    assert weft.allclose(got, wanted, atol=1e-6)


def test_errors() -> None:
    with pytest.raises(RuntimeError, match=r"Invalid number of data points \(0\) specified"):
        weft.fft.fft(weft.ones(3), 0)
    with pytest.raises(RuntimeError, match='Invalid normalization mode: "all"'):
        weft.fft.fft(weft.ones(3), norm="all")
    with pytest.raises(RuntimeError, match="rfft expects a real input tensor, but got ComplexFloat"):
        weft.fft.rfft(weft.ones(3, dtype=weft.complex64))
    with pytest.raises(RuntimeError, match="FFT dims must be unique"):
        weft.fft.fftn(weft.ones(3, 3), dim=(0, 0))
    with pytest.raises(RuntimeError, match="Unsupported dtype Half"):
        weft.fft.fft(weft.ones(3, dtype=weft.float16))


def names_on_the_tape(tensor):
    names = [tensor.grad_fn.name()]
    edges = tensor.grad_fn.next_functions
    while edges and edges[0][0] is not None:
        names.append(edges[0][0].name())
        edges = edges[0][0].next_functions
    return names


def test_transforms_over_one_axis_are_no_transforms_over_several():
    x = weft.randn(4, 3, dtype=weft.complex128, requires_grad=True)
    one, several = names_on_the_tape(weft.fft.hfft(x)), names_on_the_tape(weft.fft.hfftn(x, dim=[1]))
    assert one == several and "FftC2CBackward0" not in one
    assert "FftC2CBackward0" in names_on_the_tape(weft.fft.hfftn(x, dim=[0, 1]))
