"""Short-time Fourier transforms, there and back.

Takes a signal (or a spectrogram) and the geometry of its frames; gives a spectrogram (or the signal). The one
idea: frames are a view of the signal; going back, frames are added up where they overlap and divided by the
windows' energy there.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from weft.core import dtypes
from weft.core.arrays import Array
from weft.core.types import TensorType
from weft.ops.families import composite, index
from weft.ops.record import Op, ops, type_of
from weft.ops.samples import Maker, Sample
from weft.ops.values import MaybeTensor, TensorLike


def _describe(kind: TensorType, braces: bool = False) -> str:
    word = (
        f"torch.{kind.dtype.scalar_name}Tensor"
        if not kind.dtype.is_complex
        else f"CPU{kind.dtype.scalar_name}Type"
    )
    sizes = list(kind.shape)
    return f"{word}{{{sizes}}}" if braces else f"{word}{sizes}"


def _window_words(window: MaybeTensor) -> str:
    return "None" if window is None else _describe(type_of(window), True)


def _maybe(value: Any) -> str:
    return "None" if value is None else str(int(value))


def _padded_window(window: MaybeTensor, like: TensorLike, length: int, n_fft: int) -> Any:
    """The window (ones where none is given), centred in a frame."""
    if window is None:
        window = ops.new_ones(like, (length,), dtype=type_of(like).dtype.to_real())
    if length < n_fft:
        left = (n_fft - length) // 2
        window = ops.constant_pad_nd(window, (left, n_fft - length - left), 0)
    return window


# -- there ---------------------------------------------------------------------------------------------------
STFT = (
    "input: Tensor, n_fft: int, hop_length: Any = None, win_length: Any = None, window: MaybeTensor = None, "
    "center: bool = True, pad_mode: str = 'reflect', normalized: bool = False, onesided: Any = None, "
    "return_complex: Any = None, align_to_window: Any = None"
)


def _stft_samples(make: Maker) -> Iterator[Sample]:
    yield Sample(make(10), 4, return_complex=True)
    window = make(3, low=0.5)
    yield Sample(make(2, 10), 4, 2, 3, window, True, "constant", True, False, True)
    yield Sample(make(10), 4, 3, center=False, onesided=False, return_complex=True)


def _centred(input: TensorLike, n_fft: int, pad_mode: str) -> Any:
    kind = type_of(input)
    rows = ops.reshape(input, (1,) * (3 - kind.ndim) + tuple(kind.shape)) if kind.ndim < 3 else input
    padded = ops.nn_functional_pad(rows, (n_fft // 2, n_fft // 2), pad_mode)
    return ops.reshape(padded, (*kind.shape[:-1], type_of(padded).shape[-1]))


def _check_stft(kind: TensorType, n_fft: int, hop: int, length: int, window: MaybeTensor, words: str) -> None:
    if kind.dtype.category < dtypes.FLOAT:
        raise RuntimeError(f"{words} : expected a tensor of floating point or complex values")
    if not 1 <= kind.ndim <= 2:
        raise RuntimeError(f"{words} : expected a 1D or 2D tensor")
    if not 0 < n_fft <= kind.shape[-1]:
        raise RuntimeError(f"{words} : expected 0 < n_fft < {kind.shape[-1]}, but got n_fft={n_fft}")
    if hop <= 0:
        raise RuntimeError(f"{words} : expected hop_length > 0, but got hop_length={hop}")
    if not 0 < length <= n_fft:
        raise RuntimeError(f"{words} : expected 0 < win_length <= n_fft, but got win_length={length}")
    if window is not None and tuple(type_of(window).shape) != (length,):
        raise RuntimeError(
            f"{words} : expected a 1D window tensor of size equal to win_length={length}, but got window "
            f"with size {list(type_of(window).shape)}"
        )


@composite(STFT, samples=_stft_samples, amp="float32")
def stft(
    input: TensorLike, n_fft: int, hop_length: int | None, win_length: int | None, window: MaybeTensor,
    center: bool, pad_mode: str, normalized: bool, onesided: bool | None, return_complex: bool | None,
    align_to_window: bool | None,
) -> Any:  # fmt: skip
    """Spectra of overlapping frames of a signal, `(…, frequencies, frames)`.

    >>> import weft
    >>> weft.stft(weft.ones(64), 16, return_complex=True).shape
    weft.Size([9, 17])
    """
    if center and align_to_window is not None:
        raise RuntimeError("stft align_to_window should only be set when center = false.")
    if center and type_of(input).ndim and n_fft > 0:
        input = _centred(input, n_fft, pad_mode)
    kind = type_of(input)
    hop = n_fft // 4 if hop_length is None else hop_length
    length = n_fft if win_length is None else win_length
    words = (
        f"stft({_describe(kind)}, n_fft={n_fft}, hop_length={hop}, win_length={length}, "
        f"window={_window_words(window)}, normalized={int(normalized)}, onesided={_maybe(onesided)}, "
        f"return_complex={_maybe(return_complex)}, align_to_window={_maybe(align_to_window)})"
    )
    turned = kind.dtype.is_complex or (window is not None and type_of(window).dtype.is_complex)
    if return_complex is None:
        if not turned:
            raise RuntimeError(
                "stft requires the return_complex parameter be given for real inputs, and will further "
                "require that return_complex=True in a future PyTorch release."
            )
        return_complex = True
    _check_stft(kind, n_fft, hop, length, window, words)
    onesided = not turned if onesided is None else onesided
    if onesided and turned:
        raise RuntimeError("Cannot have onesided output if window or input is complex")
    frames = ops.unfold(input, -1, n_fft, hop)
    if window is not None or length < n_fft:
        frames = ops.mul(frames, _padded_window(window, input, length, n_fft))
    norm = "ortho" if normalized else None
    transform = ops.fft_rfft if onesided else ops.fft_fft
    out = ops.transpose(transform(frames, None, -1, norm), -1, -2)
    return out if return_complex else ops.view_as_real(ops.contiguous(out))


# -- back ----------------------------------------------------------------------------------------------------
ISTFT = (
    "input: Tensor, n_fft: int, hop_length: Any = None, win_length: Any = None, window: MaybeTensor = None, "
    "center: bool = True, normalized: bool = False, onesided: Any = None, length: Any = None, "
    "return_complex: bool = False"
)


def _energy_kernel(x: Array, words: str) -> Array:
    low = float(abs(x).min()) if x.size else 1.0
    if low < 1e-11:
        raise RuntimeError(f"{words} window overlap add min: 1")
    return x.copy()


def _energy_rule(x: TensorType, words: str) -> TensorType:
    if x.dtype.category < dtypes.FLOAT:
        raise RuntimeError(f"{words} : a window of {x.dtype.scalar_name} elements")
    return x


_energy: Op = index(
    "_window_energy", _energy_kernel, _energy_rule, "input: Tensor, words: str", vjp=lambda g: g,
    method=False, function=False, samples=lambda make: [Sample(make(3, low=0.5), "istft")],
    batch=lambda op, size, args, dims: (op(*args), dims[0]),
)  # fmt: skip


def _overlapped(frames: TensorLike, n_fft: int, hop: int) -> Any:
    """Frames `(N, n_fft, T)` added up where they lie: `(N, length)`."""
    kind = type_of(frames)
    total = n_fft + hop * (kind.shape[-1] - 1)
    if kind.dtype.is_complex:
        parts = [_overlapped(part(frames), n_fft, hop) for part in (ops.real, ops.imag)]
        return ops.complex(*parts)
    out = ops.nn_functional_fold(frames, (1, total), (1, n_fft), 1, 0, (1, hop))
    return ops.reshape(out, (kind.shape[0], total))


def _check_istft(
    kind: TensorType, n_fft: int, hop: int, width: int, window: MaybeTensor, one: bool, words: str
) -> None:
    if not kind.dtype.is_complex:
        raise RuntimeError(
            "istft requires a complex-valued input tensor matching the output from stft with "
            "return_complex=True."
        )
    if kind.ndim < 2:
        raise IndexError("Dimension out of range (expected to be in range of [-2, 1], but got -3)")
    if not kind.numel():
        raise RuntimeError(f"{words} : input tensor cannot be empty.")
    if kind.ndim not in (2, 3):
        raise RuntimeError(f"{words} : expected a tensor with 3 or 4 dimensions, but got {kind.ndim + 1}")
    wanted = n_fft // 2 + 1 if one else n_fft
    if kind.shape[-2] != wanted:
        raise RuntimeError(
            f"{words} : expected the frequency dimension (3rd to the last) of the input tensor to match "
            f"n_fft{' / 2 + 1' if one else ''} when onesided={one}, but got {kind.shape[-2]}"
        )
    if not 0 < hop <= width:
        raise RuntimeError(f"{words} : expected 0 < hop_length <= win_length")
    if not 0 < width <= n_fft:
        raise RuntimeError(f"{words} : expected 0 < win_length <= n_fft")
    if window is not None and tuple(type_of(window).shape) != (width,):
        raise RuntimeError(f"{words} : Invalid window shape. window has to be 1D and length of `win_length`")


def _istft_samples(make: Maker) -> Iterator[Sample]:
    kind = make.kind if make.kind.is_complex else dtypes.complex128
    yield Sample(make(3, 4, kind=kind), 4)
    yield Sample(make(2, 4, 3, kind=kind), 4, 2, center=False, onesided=False, normalized=True)
    yield Sample(make(3, 4, kind=kind), 4, 1, length=5)


@composite(ISTFT, samples=_istft_samples, amp="float32")
def istft(
    input: TensorLike, n_fft: int, hop_length: int | None, win_length: int | None, window: MaybeTensor,
    center: bool, normalized: bool, onesided: bool | None, length: int | None, return_complex: bool,
) -> Any:  # fmt: skip
    """The signal of a spectrogram: the inverse of `stft`."""
    kind = type_of(input)
    hop = n_fft // 4 if hop_length is None else hop_length
    width = n_fft if win_length is None else win_length
    words = (
        f"istft({_describe(kind)}, n_fft={n_fft}, hop_length={hop}, win_length={width}, "
        f"window={_window_words(window)}, center={int(center)}, normalized={int(normalized)}, "
        f"onesided={_maybe(onesided)}, length={_maybe(length)}, return_complex={int(return_complex)})"
    )
    one = kind.ndim > 1 and kind.shape[-2] != n_fft if onesided is None else onesided
    _check_istft(kind, n_fft, hop, width, window, one, words)
    if return_complex and one:
        raise RuntimeError("Cannot have onesided output if window or input is complex")
    if window is not None and type_of(window).dtype.is_complex and not return_complex:
        raise RuntimeError("Complex windows are incompatible with return_complex=False")
    taper = _padded_window(window, input, width, n_fft)
    batch = ops.reshape(input, (-1, *kind.shape[kind.ndim - 2 :]))
    turned = ops.transpose(batch, 1, 2)
    norm = "ortho" if normalized else None
    if return_complex:
        frames = ops.fft_ifft(turned, None, -1, norm)
    else:
        frames = ops.fft_irfft(turned if one else ops.narrow(turned, -1, 0, n_fft // 2 + 1), n_fft, -1, norm)
    signal = _overlapped(ops.transpose(ops.mul(frames, taper), 1, 2), n_fft, hop)
    count = kind.shape[-1]
    squares = ops.expand(ops.reshape(ops.mul(taper, taper), (1, n_fft, 1)), (1, n_fft, count))
    energy = _overlapped(squares, n_fft, hop)
    start = n_fft // 2 if center else 0
    full = n_fft + hop * (count - 1)
    end = start + length if length is not None else full - n_fft // 2 if center else full
    stop = min(end, full)
    signal, energy = (ops.narrow(x, 1, start, stop - start) for x in (signal, energy))
    out = ops.div(signal, _energy(energy, words))
    if end > full:
        out = ops.constant_pad_nd(out, (0, end - full), 0)
    return out if kind.ndim == 3 else ops.reshape(out, (end - start,))
