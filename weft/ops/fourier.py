"""Fourier transforms: `fft.*`, all made of three records.

Takes signals, lengths, dimensions and a way to normalise; gives spectra. The one idea: complex to complex,
real to half a spectrum and half a spectrum to real are three linear maps that are each other's transposes, up
to padding with zeros and counting twice what stands for two frequencies; everything else cuts, pads and
conjugates around them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from weft.core import dtypes
from weft.core.arrays import Array, HostArray, namespace
from weft.core.device import creation_device
from weft.core.dims import wrap_dim
from weft.core.types import TensorType, layout
from weft.ops.batching import to_front
from weft.ops.create import OPTIONS
from weft.ops.families import HIDDEN, composite, contract, create
from weft.ops.options import check_layout, chosen
from weft.ops.record import Op, ops, type_of
from weft.ops.samples import Maker, Sample, Samples
from weft.ops.values import DeviceLike, Dims, DType, Sizes, TensorLike


# -- records -------------------------------------------------------------------------------------------------
def _check(x: TensorType) -> None:
    if x.dtype in dtypes.HALVES:
        raise RuntimeError(f"Unsupported dtype {x.dtype.scalar_name}")


def _c2c_rule(x: TensorType, dims: Sizes, scale: float, forward: bool) -> TensorType:
    _check(x)
    if not x.dtype.is_complex:
        raise RuntimeError(f"a transform of {x.dtype.scalar_name} elements: they must be complex")
    return x


def _scaled(out: Array, scale: float) -> Array:
    """Times a number, row by row in memory whatever the input was."""
    xp = namespace(out)
    return (
        xp.ascontiguousarray(out) if scale == 1 else xp.multiply(out, out.real.dtype.type(scale), order="C")
    )


def _c2c_kernel(x: Array, dims: Sizes, scale: float, forward: bool) -> Array:
    xp = namespace(x)
    if not dims or not x.size:
        return _scaled(x.copy(), scale)
    if forward:
        return _scaled(xp.fft.fftn(x, axes=dims), scale)
    return _scaled(xp.fft.ifftn(x, axes=dims, norm="forward"), scale)


def _r2c_rule(x: TensorType, dims: Sizes, scale: float) -> TensorType:
    _check(x)
    if not x.dtype.is_floating_point:
        raise RuntimeError(f"a real transform of {x.dtype.scalar_name} elements: they must be real")
    shape = list(x.shape)
    shape[dims[-1]] = shape[dims[-1]] // 2 + 1
    return TensorType(shape, x.dtype.to_complex(), x.device)


def _r2c_kernel(x: Array, dims: Sizes, scale: float) -> Array:
    return _scaled(namespace(x).fft.rfftn(x, axes=dims), scale)


def _c2r_rule(x: TensorType, dims: Sizes, scale: float, last: int) -> TensorType:
    _c2c_rule(x, dims, scale, False)
    shape = list(x.shape)
    shape[dims[-1]] = last
    return TensorType(shape, x.dtype.to_real(), x.device)


def _c2r_kernel(x: Array, dims: Sizes, scale: float, last: int) -> Array:
    sizes = [*(x.shape[d] for d in dims[:-1]), last]
    return _scaled(namespace(x).fft.irfftn(x, sizes, dims, norm="forward"), scale)


def _shifted(op: Op, size: int, args: tuple[Any, ...], dims: tuple[Any, ...]) -> tuple[Any, Any]:
    return op(to_front(args[0], dims[0]), tuple(d + 1 for d in args[1]), *args[2:]), 0


def _r2c_vjp(g: TensorLike, _out: object, _x: TensorType, dims: Sizes, scale: float) -> Any:
    """The frequencies that were left out are zero in the gradient."""
    last = dims[-1]
    missing = _x.shape[last] - g.shape[last]
    pads = (0, 0) * (len(_x.shape) - 1 - last) + (0, missing)
    return ops.real(c2c(ops.constant_pad_nd(g, pads, 0), dims, scale, False))


def _c2r_vjp(g: TensorLike, _out: object, _x: TensorType, dims: Sizes, scale: float, last: int) -> Any:
    """A frequency that stands for its mirror image too counts twice."""
    out, dim = r2c(g, dims, scale), dims[-1]
    half = _x.shape[dim]
    double = last - half
    if double <= 0:
        return out
    parts = [ops.narrow(out, dim, 0, 1), ops.mul(ops.narrow(out, dim, 1, double), 2)]
    if half > double + 1:
        parts.append(ops.narrow(out, dim, double + 1, half - double - 1))
    return ops.cat(parts, dim)


def _complex(make: Maker, *shape: int) -> Any:
    kind = make.kind if make.kind.is_complex else dtypes.complex128
    return make(*shape, kind=kind)


c2c: Op = contract(
    "_fft_c2c", _c2c_kernel, _c2c_rule, "input: Tensor, dims: Any, scale: float, forward: bool",
    vjp=lambda g, _out, _x, dims, scale, forward: c2c(g, dims, scale, not forward), conjugates=True,
    jvp=lambda tangents, out, x, dims, scale, forward: c2c(tangents[0], dims, scale, forward),
    batch=_shifted, node="FftC2CBackward0",
    samples=lambda make: [Sample(_complex(make, 3, 4), (0, 1), 0.5, True)], **HIDDEN,
    refuses="nothing",
)  # fmt: skip
r2c: Op = contract(
    "_fft_r2c", _r2c_kernel, _r2c_rule, "input: Tensor, dims: Any, scale: float", vjp=_r2c_vjp,
    jvp=lambda tangents, out, x, dims, scale: r2c(tangents[0], dims, scale),
    conjugates=True, batch=_shifted, node="FftR2CBackward0",
    samples=lambda make: [Sample(make(3, 4), (0, 1), 0.5), Sample(make(3, 5), (1,), 1.0)], **HIDDEN,
    refuses="nothing",
)  # fmt: skip
c2r: Op = contract(
    "_fft_c2r", _c2r_kernel, _c2r_rule, "input: Tensor, dims: Any, scale: float, last: int", vjp=_c2r_vjp,
    jvp=lambda tangents, out, x, dims, scale, last: c2r(tangents[0], dims, scale, last),
    conjugates=True, batch=_shifted, node="FftC2RBackward0",
    samples=lambda make: [Sample(_complex(make, 3, 3), (0, 1), 0.5, 4),
        Sample(_complex(make, 3, 3), (1,), 1.0, 5)], **HIDDEN,
    refuses="nothing",
)  # fmt: skip


# -- arguments -----------------------------------------------------------------------------------------------
def _factor(norm: str | None, count: int, forward: bool) -> float:
    """What the plain sum is multiplied by."""
    if norm not in (None, "backward", "forward", "ortho"):
        raise RuntimeError(f'Invalid normalization mode: "{norm}"')
    if norm == "ortho":
        return 1 / math.sqrt(count)
    return 1 / count if (norm == "forward") == forward else 1.0


def _promoted(x: TensorLike, to_complex: bool) -> Any:
    """Integers and bools as the default float; real numbers as complex ones where that is needed."""
    kind = type_of(x).dtype
    wanted = dtypes.get_default_dtype() if kind.category < dtypes.FLOAT else kind
    if wanted in dtypes.HALVES:
        raise RuntimeError(f"Unsupported dtype {wanted.scalar_name}")
    wanted = wanted.to_complex() if to_complex else wanted
    return x if wanted is kind else ops._to_copy(x, wanted)


def _resized(x: TensorLike, dim: int, size: int) -> Any:
    """Cut, or padded with zeros, to this length."""
    shape = type_of(x).shape
    if shape[dim] == size:
        return x
    if shape[dim] > size:
        return ops.narrow(x, dim, 0, size)
    return ops.constant_pad_nd(x, (0, 0) * (len(shape) - 1 - dim) + (0, size - shape[dim]), 0)


def _line(x: TensorLike, dim: int) -> int:
    rank = type_of(x).ndim
    if not rank:
        raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
    return wrap_dim(dim, rank)


def _points(size: int) -> int:
    if size < 1:
        raise RuntimeError(f"Invalid number of data points ({size}) specified")
    return size


def _sizes(x: TensorLike, s: Sizes | None, dim: Dims) -> tuple[list[int], tuple[int, ...]]:
    """Lengths and dimensions of a transform of several dimensions."""
    kind = type_of(x)
    if dim is not None:
        dims = tuple(wrap_dim(d, kind.ndim) for d in ((dim,) if isinstance(dim, int) else dim))
        if len(set(dims)) != len(dims):
            raise RuntimeError("FFT dims must be unique")
    given = None if s is None else (s,) if isinstance(s, int) else tuple(s)
    if given is not None:
        if dim is not None and len(given) != len(dims):
            raise RuntimeError("When given, dim and shape arguments must have the same length")
        if len(given) > kind.ndim:
            raise RuntimeError(
                f"Got shape with {len(given)} values but input tensor only has {kind.ndim} dimensions."
            )
        if dim is None:
            dims = tuple(range(kind.ndim - len(given), kind.ndim))
        sizes = [kind.shape[d] if n == -1 else n for n, d in zip(given, dims, strict=True)]
    else:
        dims = tuple(range(kind.ndim)) if dim is None else dims
        sizes = [kind.shape[d] for d in dims]
    for size in sizes:
        _points(size)
    return sizes, dims


def _real(name: str, x: TensorLike, text: str = "{name} expects a real input tensor, but got {kind}") -> None:
    kind = type_of(x).dtype
    if kind.is_complex:
        raise RuntimeError(text.format(name=name, kind=kind.scalar_name))


# -- one dimension -------------------------------------------------------------------------------------------
def _complex_line(_name: str, x: TensorLike, n: int | None, dim: int, norm: str | None, forward: bool) -> Any:
    place = _line(x, dim)
    size = _points(type_of(x).shape[place] if n is None else n)
    scale = _factor(norm, size, forward)
    return c2c(_resized(_promoted(x, True), place, size), (place,), scale, forward)


def _half_line(name: str, x: TensorLike, n: int | None, dim: int, norm: str | None, forward: bool) -> Any:
    _real(name, x)
    place = _line(x, dim)
    size = _points(type_of(x).shape[place] if n is None else n)
    out = r2c(_resized(_promoted(x, False), place, size), (place,), _factor(norm, size, forward))
    return out if forward else ops.conj(out)


def _real_line(_name: str, x: TensorLike, n: int | None, dim: int, norm: str | None, forward: bool) -> Any:
    place = _line(x, dim)
    size = _points(2 * (type_of(x).shape[place] - 1) if n is None else n)
    x = _resized(_promoted(x, True), place, size // 2 + 1)
    return c2r(ops.conj(x) if forward else x, (place,), _factor(norm, size, forward), size)


# -- several dimensions --------------------------------------------------------------------------------------
RFFTN = "{name} expects a real-valued input tensor, but got {kind}"
IHFFTN = "Only supports floating-point dtypes, but found: {kind}"


def _complex_several(
    _name: str, x: TensorLike, s: Sizes | None, dim: Dims, norm: str | None, forward: bool
) -> Any:
    x = _promoted(x, True)
    sizes, dims = _sizes(x, s, dim)
    for size, place in zip(sizes, dims, strict=True):
        x = _resized(x, place, size)
    return c2c(x, dims, _factor(norm, math.prod(sizes), forward), forward)


def _half_several(
    name: str, x: TensorLike, s: Sizes | None, dim: Dims, norm: str | None, forward: bool
) -> Any:
    _real(name, x, RFFTN if forward else IHFFTN)
    x = _promoted(x, False)
    sizes, dims = _sizes(x, s, dim)
    if not dims:
        raise RuntimeError(f"{name} must transform at least one axis")
    for size, place in zip(sizes, dims, strict=True):
        x = _resized(x, place, size)
    scale = _factor(norm, math.prod(sizes), forward)
    if forward or len(dims) == 1:
        out = r2c(x, dims, scale)
        return out if forward else ops.conj(out)
    return c2c(ops.conj(r2c(x, dims[-1:], scale)), dims[:-1], 1.0, False)


def _real_several(
    name: str, x: TensorLike, s: Sizes | None, dim: Dims, norm: str | None, forward: bool
) -> Any:
    x = _promoted(x, True)
    given = None if s is None else [s] if isinstance(s, int) else list(s)
    unknown = given is None or given[-1] == -1
    if given is not None:
        rest = [n if i < len(given) - 1 or n != -1 else -1 for i, n in enumerate(given)]
        sizes, dims = _sizes(x, rest, dim)
    else:
        sizes, dims = _sizes(x, None, dim)
    if not dims:
        raise RuntimeError(f"{name} must transform at least one axis")
    if unknown:
        sizes[-1] = _points(2 * (type_of(x).shape[dims[-1]] - 1))
    for size, place in zip([*sizes[:-1], sizes[-1] // 2 + 1], dims, strict=True):
        x = _resized(x, place, size)
    scale = _factor(norm, math.prod(sizes), forward)
    if not forward:
        return c2r(x, dims, scale, sizes[-1])
    if len(dims) > 1:
        x = c2c(x, dims[:-1], 1.0, True)
    return c2r(ops.conj(x), dims[-1:], scale, sizes[-1])


# -- transforms ----------------------------------------------------------------------------------------------
def _line_samples(make: Maker) -> Iterator[Sample]:
    yield Sample(make(2, 5))
    yield Sample(make(4, 3), 6, 0, "ortho")
    yield Sample(make(2, 5), 3, norm="forward")


def _plane_samples(make: Maker) -> Iterator[Sample]:
    yield Sample(make(3, 4))
    yield Sample(make(2, 3, 4), (4, 3), (0, 2), "ortho")


def _defined(
    name: str, said: str, run: Callable[..., Any], forward: bool, signature: str, samples: Samples, doc: str
) -> None:
    """The transform of this name; in errors it is called as said."""

    def body(input: TensorLike, sizes: Any, dims: Any, norm: str | None) -> Any:
        return run(said, input, sizes, dims, norm, forward)

    composite(f"input: Tensor, {signature}, norm: Any = None", name, namespace="fft", samples=samples,
              out=True, doc=doc)(body)  # fmt: skip


FFT = """The discrete Fourier transform along a dimension.

    >>> import weft
    >>> weft.fft.fft(weft.tensor([1.0, 0.0, 0.0, 0.0])).real
    tensor([1., 1., 1., 1.])
    """
for _name, _of_line, _of_several, _forward, _doc, _doc_of_several in (
    ("fft", _complex_line, _complex_several, True, FFT,
     "The discrete Fourier transform over several dimensions."),
    ("ifft", _complex_line, _complex_several, False, "The inverse of `fft`.",
     "The inverse of the transform over several dimensions."),
    ("rfft", _half_line, _half_several, True,
     "Half the spectrum of a real signal: the other half is its conjugate mirror image.",
     "Half the spectrum of a real signal over several dimensions."),
    ("irfft", _real_line, _real_several, False, "The real signal of half a spectrum: the inverse of `rfft`.",
     "The real signal of half a spectrum over several dimensions."),
    ("hfft", _real_line, _real_several, True,
     "The real spectrum of a Hermitian signal, of which half is given.",
     "The real spectrum of half a Hermitian signal."),
    ("ihfft", _half_line, _half_several, False, "The inverse of `hfft`: half the signal.",
     "Half the signal of a real spectrum over several dimensions."),
):  # fmt: skip
    _defined(_name, _name, _of_line, _forward, "n: Any = None, dim: int = -1", _line_samples, _doc)
    for _suffix, _dims in (("2", "(-2, -1)"), ("n", "None")):
        _signature = f"s: Any = None, dim: Any = {_dims}"
        _defined(f"{_name}{_suffix}", f"{_name}n", _of_several, _forward, _signature, _plane_samples,
                 _doc_of_several)  # fmt: skip


# -- frequencies ---------------------------------------------------------------------------------------------
def _frequencies(name: str, half: bool) -> None:
    """Defines `fftfreq` or `rfftfreq`."""

    def kernel(n: int, d: float, dtype: DType, *_ignored: object) -> Array:
        kind = chosen(dtype, None, name)
        out: HostArray = (
            np.arange(n // 2 + 1)
            if half
            else np.concatenate([np.arange((n + 1) // 2), np.arange(-(n // 2), 0)])
        )
        made: HostArray = out.astype(kind.numpy) * kind.numpy.type(1.0 / (n * d) if n else 1.0)
        return made.astype(kind.numpy)

    def rule(
        n: int, d: float, dtype: DType, layout: layout | None, device: DeviceLike, *_ignored: object
    ) -> TensorType:
        check_layout(layout)
        kind = chosen(dtype, None, name)
        if kind.category < dtypes.FLOAT:
            raise RuntimeError(f"{name} requires a floating point or complex dtype")
        return TensorType((n // 2 + 1 if half else n,), kind, creation_device(device))

    create(
        name, kernel, rule, f"n: int, d: float = 1.0, *, {OPTIONS}", namespace="fft",
        doc="The frequencies of a transform's bins, for samples at this distance.",
        samples=lambda make: [Sample(4), Sample(5, 0.5)],
    )  # fmt: skip


_frequencies("fftfreq", False)
_frequencies("rfftfreq", True)


def _shift(input: TensorLike, dim: Dims, sign: int) -> Any:
    kind = type_of(input)
    dims = tuple(range(kind.ndim)) if dim is None else (dim,) if isinstance(dim, int) else tuple(dim)
    dims = tuple(wrap_dim(d, kind.ndim) for d in dims)
    steps = tuple(kind.shape[d] // 2 if sign > 0 else (kind.shape[d] + 1) // 2 for d in dims)
    return ops.roll(input, steps, dims) if dims else ops.clone(input)


def _shift_samples(make: Maker) -> Iterator[Sample]:
    yield Sample(make(3, 4))
    yield Sample(make(3, 4), 1)


@composite("input: Tensor, dim: Any = None", namespace="fft", samples=_shift_samples)
def fftshift(input: TensorLike, dim: Dims) -> Any:
    """The frequency zero moved to the middle."""
    return _shift(input, dim, 1)


@composite("input: Tensor, dim: Any = None", namespace="fft", samples=_shift_samples)
def ifftshift(input: TensorLike, dim: Dims) -> Any:
    """The inverse of `fftshift`."""
    return _shift(input, dim, -1)
