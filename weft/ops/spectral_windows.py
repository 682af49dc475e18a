"""Windows for spectra: `signal.windows.*` and PyTorch's older `hann_window` and its kin.

Takes a length; gives weights that fall towards the ends. One idea: a window is computed in double precision
over n = 0, 1, … and rounded once; symmetric windows divide by one less than periodic ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from weft.core import dtypes
from weft.core.arrays import Array, HostArray
from weft.core.device import creation_device
from weft.core.lazy import lazy
from weft.core.types import TensorType, layout
from weft.ops.create import OPTIONS
from weft.ops.families import create
from weft.ops.options import check_layout, chosen
from weft.ops.record import Op
from weft.ops.samples import Sample

special = lazy("scipy.special")
PLACE = (
    "sym: bool = True, dtype: DType = None, layout: Any = None, device: Device = None, "
    "requires_grad: bool = False"
)


# -- formulas ------------------------------------------------------------------------------------------------
def _span(size: int, sym: bool) -> int:
    return max(size - 1 if sym else size, 1)


def _cosines(size: int, sym: bool, factors: Sequence[float]) -> HostArray:
    turn = 2 * math.pi * np.arange(size) / _span(size, sym)
    return np.asarray(sum((-1) ** k * a * np.cos(k * turn) for k, a in enumerate(factors)))


def _bartlett(size: int, sym: bool) -> HostArray:
    return 1 - np.abs(-1 + 2 * np.arange(size) / _span(size, sym))


def _cosine(size: int, sym: bool) -> HostArray:
    return np.sin((0.5 + np.arange(size)) * math.pi / (size if sym else size + 1))


def _exponential(size: int, sym: bool, center: float | None, tau: float) -> HostArray:
    middle = (size if not sym and size > 1 else size - 1) / 2 if center is None else center
    made: HostArray = np.exp(-np.abs(np.arange(size) - middle) / tau)
    return made


def _gaussian(size: int, sym: bool, std: float) -> HostArray:
    start = -(size if not sym and size > 1 else size - 1) / 2
    return np.asarray(np.exp(-(((start + np.arange(size)) / (std * math.sqrt(2))) ** 2)))


def _kaiser(size: int, sym: bool, beta: float) -> HostArray:
    at = np.minimum(-beta + 2 * beta * np.arange(size) / _span(size, sym), beta)
    return np.asarray(special.i0(np.sqrt(np.maximum(beta * beta - at * at, 0))) / special.i0(beta))


# -- signal.windows ------------------------------------------------------------------------------------------
def _check(name: str, size: int, kind: dtypes.dtype, layout: layout | None) -> None:
    if size < 0:
        raise ValueError(f"{name} requires non-negative window length, got M={size}")
    check_layout(layout)
    if kind not in (dtypes.float32, dtypes.float64):
        raise ValueError(f"{name} expects float32 or float64 dtypes, got: {kind!r}")


def _window(
    name: str, parameters: str, compute: Callable[..., Array], doc: str, *, family: str = "",
    refuse: Callable[..., None] | None = None, example: dict[str, Any] | None = None,
) -> Op:  # fmt: skip
    """Defines one window; `parameters` are its own, before those that all share."""
    count = len([p for p in parameters.split(",") if p.strip()])

    def kernel(size: int, *rest: Any) -> Array:
        own, (sym, dtype) = rest[:count], rest[count : count + 2]
        kind = chosen(dtype, None, name).numpy
        if size <= 1:
            return np.ones(size, kind)
        return np.asarray(compute(size, sym, *own)).astype(kind)

    def rule(size: int, *rest: Any) -> TensorType:
        own, (_sym, dtype, layout, device) = rest[:count], rest[count : count + 4]
        if refuse is not None:
            refuse(_sym, *own)
        kind = chosen(dtype, None, name)
        _check(family or name, size, kind, layout)
        return TensorType((size,), kind, creation_device(device))

    lead = f"{parameters}, " if parameters else ""
    return create(
        name, kernel, rule, f"M: int, *, {lead}{PLACE}", namespace="signal.windows", doc=doc,
        samples=lambda make: [Sample(5, **(example or {})), Sample(4, sym=False, **(example or {})),
            Sample(1, **(example or {}))],
    )  # fmt: skip


def _no_centre(sym: bool, center: float | None, tau: float) -> None:
    if tau <= 0:
        raise ValueError(f"Tau must be positive, got: {tau} instead.")
    if sym and center is not None:
        raise ValueError("Center must be None for symmetric windows")


def _some_width(_sym: bool, std: float) -> None:
    if std <= 0:
        raise ValueError(f"Standard deviation must be positive, got: {std} instead.")


def _some_shape(_sym: bool, beta: float) -> None:
    if beta < 0:
        raise ValueError(f"beta must be non-negative, got: {beta} instead.")


def _some_factors(_sym: bool, a: Any) -> None:
    if not isinstance(a, (tuple, list)):
        raise TypeError("Coefficients must be a list/tuple")
    if not a:
        raise ValueError("Coefficients cannot be empty")


NUTTALL = (0.3635819, 0.4891775, 0.1365995, 0.0106411)
COSINES = "general_cosine"
_window("bartlett", "", _bartlett, "The Bartlett (triangular) window, 0 at both ends.")
_window(
    "blackman",
    "",
    lambda m, sym: _cosines(m, sym, (0.42, 0.5, 0.08)),
    "The Blackman window: a sum of three cosines.",
    family=COSINES,
)
_window("cosine", "", _cosine, "The cosine window: half a period of a sine.")
_window("exponential", "center: Any = None, tau: float = 1.0", _exponential, "Decays by e over `tau`.",
        refuse=_no_centre)  # fmt: skip
_window(
    "gaussian",
    "std: float = 1.0",
    _gaussian,
    "The Gaussian window of this standard deviation.",
    refuse=_some_width,
)
_window("general_cosine", "a: Any", _cosines, "A sum of cosines with these weights.", refuse=_some_factors,
        example={"a": (0.4, 0.5, 0.1)})  # fmt: skip
_window("general_hamming", "alpha: float = 0.54", lambda m, sym, alpha: _cosines(m, sym, (alpha, 1 - alpha)),
        "A raised cosine.", family=COSINES)  # fmt: skip
_window("hamming", "", lambda m, sym: _cosines(m, sym, (0.54, 0.46)), "A raised cosine.", family=COSINES)
_window(
    "hann",
    "",
    lambda m, sym: _cosines(m, sym, (0.5, 0.5)),
    "The Hann window: a raised cosine that is 0 at the ends.",
    family=COSINES,
)
_window(
    "kaiser",
    "beta: float = 12.0",
    _kaiser,
    "The Kaiser window, with the most energy in the main lobe.",
    refuse=_some_shape,
)
_window(
    "nuttall",
    "",
    lambda m, sym: _cosines(m, sym, NUTTALL),
    "The Nuttall window: a sum of four cosines.",
    family=COSINES,
)


# -- older names ---------------------------------------------------------------------------------------------
def _older(name: str, parameters: str, compute: Callable[..., Array]) -> None:
    """Defines `hann_window` and its kin, which are periodic unless asked not to be."""
    count = len([p for p in parameters.split(",") if p.strip()])

    def kernel(size: int, periodic: bool, *rest: Any) -> Array:
        kind = chosen(rest[count], None, name).numpy
        if size <= 1:
            return np.ones(size, kind)
        return np.asarray(compute(size, not periodic, *rest[:count])).astype(kind)

    def rule(size: int, periodic: bool, *rest: Any) -> TensorType:
        dtype, layout, device = rest[count : count + 3]
        if size < 0:
            raise RuntimeError(f"{name} requires non-negative window_length, got window_length={size}")
        check_layout(layout)
        kind = chosen(dtype, None, name)
        if kind.category < dtypes.FLOAT:
            raise RuntimeError(
                f"{name} expects floating point dtypes, got: TensorOptions(dtype={kind.c_name}, "
                "device=cpu, layout=Strided (default), requires_grad=false (default), pinned_memory=false, "
                "memory_format=(nullopt))"
            )
        return TensorType((size,), kind, creation_device(device))

    lead = f"{parameters}, " if parameters else ""
    create(
        name, kernel, rule, f"window_length: int, periodic: bool = True, {lead}*, {OPTIONS}", method=False,
        doc="A window of this length, periodic or symmetric.",
        samples=lambda make: [Sample(5), Sample(4, False), Sample(0)],
    )  # fmt: skip


_older("bartlett_window", "", _bartlett)
_older("blackman_window", "", lambda m, sym: _cosines(m, sym, (0.42, 0.5, 0.08)))
_older(
    "hamming_window", "alpha: float = 0.54, beta: float = 0.46", lambda m, sym, a, b: _cosines(m, sym, (a, b))
)
_older("hann_window", "", lambda m, sym: _cosines(m, sym, (0.5, 0.5)))
_older("kaiser_window", "beta: float = 12.0", _kaiser)
