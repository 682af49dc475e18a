"""Tensors as text, character for character as PyTorch writes them.

Takes an array and the facts about the tensor around it (dtype name, device, gradient facts, namespace); gives
the text of `repr`. The one idea: first cut the array down to what will be shown, then choose one `Column` (a
width and a spelling) for all of its elements, then lay the spelled elements out in nested brackets.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from weft.core.arrays import HostArray
from weft.core.naming import naming

__all__ = ["PrintOptions", "format_tensor", "get_printoptions", "printoptions", "set_printoptions"]


@dataclass(frozen=True)
class PrintOptions:
    """How numbers and lines are written; `sci_mode=None` lets the values decide."""

    precision: int = 4
    threshold: float = 1000
    edgeitems: int = 3
    linewidth: int = 80
    sci_mode: bool | None = None


PROFILES = {
    "default": PrintOptions(),
    "short": PrintOptions(precision=2, edgeitems=2),
    "full": PrintOptions(threshold=math.inf),
}

_current = PROFILES["default"]


def set_printoptions(
    precision: int | None = None,
    threshold: float | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
) -> None:
    """Change how tensors print. What is None stays, except `sci_mode`, which goes back to automatic."""
    global _current
    given = {"precision": precision, "threshold": threshold, "edgeitems": edgeitems, "linewidth": linewidth}
    changes: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    # An unknown profile changes nothing: PyTorch ignores it too, and scripts rely on not failing here.
    base = PROFILES.get(profile, _current) if profile is not None else _current
    _current = replace(base, **changes, sci_mode=sci_mode)


def get_printoptions() -> dict[str, Any]:
    """The options in force, as keyword arguments for `set_printoptions`."""
    return asdict(_current)


@contextmanager
def printoptions(**options: Any) -> Iterator[None]:
    """Change the print options inside a `with` block."""
    global _current
    before = _current
    set_printoptions(**options)
    try:
        yield
    finally:
        _current = before


@dataclass(frozen=True)
class Column:
    """How one element is written: `spell` gives its text, which is set flush right in `width` characters."""

    width: int
    spell: Callable[[Any], str]

    def text(self, value: object) -> str:
        return self.spell(value).rjust(self.width)


def _spell_whole(value: float) -> str:
    return f"{value:.0f}." if math.isfinite(value) else f"{value:.0f}"


def _real_column(values: HostArray, options: PrintOptions) -> Column:
    """The column for float64 values: whole ('1.'), fixed ('1.5000') or scientific ('1.5000e+00').

    Zeros, infinities and NaN have no say: neither in the choice nor in the width.
    """
    counted = values[np.isfinite(values) & (values != 0)]
    if counted.size == 0:
        return Column(1, _spell_whole)
    sizes = np.abs(counted)
    smallest, largest = float(sizes.min()), float(sizes.max())
    whole = bool((counted == np.ceil(counted)).all())
    scientific = largest / smallest > 1000 or largest > 1e8 or (not whole and smallest < 1e-4)

    def spell_scientific(value: float) -> str:
        return f"{value:.{options.precision}e}"

    def spell_fixed(value: float) -> str:
        return f"{value:.{options.precision}f}"

    if options.sci_mode is not None:
        scientific = options.sci_mode
    spell = spell_scientific if scientific else _spell_whole if whole else spell_fixed
    return Column(max(len(spell(value)) for value in counted.tolist()), spell)


def _complex_column(values: HostArray, options: PrintOptions) -> Column:
    real = _real_column(values.real, options)
    imaginary = _real_column(values.imag, options)

    def spell(value: complex) -> str:
        second = imaginary.spell(value.imag)
        sign = "" if second.startswith("-") else "+"
        return f"{real.text(value.real)}{sign}{second}j"

    # This width only breaks lines: the imaginary part is never padded, so `_contents` does not pad the whole.
    return Column(real.width + imaginary.width + 1, spell)


def _condense(array: HostArray, edge: int) -> tuple[HostArray, tuple[bool, ...]]:
    """The array without its middle in every long dimension, and which dimensions lost one."""
    gaps = tuple(length > 2 * edge for length in array.shape)
    if any(gaps):
        kept = (
            np.r_[0:edge, length - edge : length] if gap else np.arange(length)
            for length, gap in zip(array.shape, gaps, strict=True)
        )
        array = array[np.ix_(*kept)]  # one gather over all dimensions, so a long row is never copied whole
    return array, gaps


def _nested(
    texts: list[Any], element_width: int, gaps: tuple[bool, ...], indent: int, options: PrintOptions
) -> str:
    """Nested lists of spelled elements in brackets; `indent` is the column at which the text starts."""
    edge = options.edgeitems
    if len(gaps) == 1:
        parts = texts
        if gaps[0]:
            parts = [*texts[:edge], " ...", *texts[edge:]] if edge else ["..."]
        per_line = max(1, (options.linewidth - indent) // (element_width + 2))
        lines = [", ".join(parts[start : start + per_line]) for start in range(0, len(parts), per_line)]
        separator = ",\n" + " " * (indent + 1)
        return "[" + separator.join(lines) + "]"
    parts = [_nested(part, element_width, gaps[1:], indent + 1, options) for part in texts]
    if gaps[0]:
        parts = [*parts[:edge], "...", *parts[edge:]]
    separator = "," + "\n" * (len(gaps) - 1) + " " * (indent + 1)
    return "[" + separator.join(parts) + "]"


def _widened(array: HostArray) -> HostArray:
    """Floats as float64 and complex as complex128, exactly; bfloat16 counts as kind 'V' in NumPy."""
    if array.dtype.kind in "biu":
        return array
    with np.errstate(invalid="ignore"):  # uninitialised memory may hold signalling NaNs
        return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)


def _contents(array: HostArray, indent: int, options: PrintOptions) -> str:
    """The elements between the outer parentheses."""
    gaps: tuple[bool, ...] = (False,) * array.ndim
    if array.size > options.threshold:
        array, gaps = _condense(array, options.edgeitems)
    array = _widened(array)
    kind = array.dtype.kind
    if kind == "c":
        column = _complex_column(array, options)
        spell = column.spell
    else:
        if kind in "biu":
            column = Column(max((len(str(value)) for value in array.ravel().tolist()), default=1), str)
        else:
            column = _real_column(array, options)
        spell = column.text
    if array.ndim == 0:
        return spell(array.item())

    def spell_all(values: list[Any], depth: int) -> list[Any]:
        return [spell_all(value, depth - 1) for value in values] if depth else list(map(spell, values))

    return _nested(spell_all(array.tolist(), array.ndim - 1), column.width, gaps, indent, options)


def with_suffixes(
    text: str, suffixes: list[str], start: int, indent: int, linewidth: int, apart: bool = False
) -> str:
    """The text, which starts at column `start`, and its suffixes after commas, wrapped to column `indent`;
    the first on a line of its own, where they are to stand apart."""
    _, newline, last_line = text.rpartition("\n")
    used = (0 if newline else start) + len(last_line) + 2  # two to spare, as in PyTorch
    for suffix in suffixes:
        if apart or used + len(suffix) + 2 > linewidth:
            text += ",\n" + " " * indent + suffix
            used = indent + len(suffix)
            apart = False
        else:
            text += ", " + suffix
            used += len(suffix) + 2
    return text + ")"


def format_elements(array: HostArray, column: int) -> str:
    """The elements alone, for a line on which they begin at a column; sizes, where there are none."""
    if not array.size:
        return f"[], size={tuple(array.shape)}"
    return _contents(array, column, _current)


def format_tensor(
    array: HostArray,
    *,
    dtype_name: str,
    default_float: str = "float32",
    default_complex: str = "complex64",
    requires_grad: bool = False,
    grad_fn_name: str | None = None,
    device: str = "cpu",
    class_name: str = "tensor",
    is_parameter: bool = False,
    has_elements: bool = True,
    indent: int = 0,
    tensor_contents: str | None = None,
    namespace: str | None = None,
    options: PrintOptions | None = None,
) -> str:
    """The text of `repr(tensor)`.

    On the meta device, or without `has_elements`, only the shape of `array` is read. `indent` is the column
    at which the text will be placed: it moves the continuation lines. `tensor_contents` replaces the
    elements, `options` the options in force.
    """
    options = _current if options is None else options
    prefix = class_name + "("
    column = indent + len(prefix)
    shape = tuple(array.shape)
    suffixes = [] if device == "cpu" else [f"device='{device}'"]
    unstated = {default_float}  # dtypes that the elements themselves show
    if device == "meta" or not has_elements:
        suffixes.append(f"size={shape}")
        contents = "..."
    elif 0 in shape:
        if len(shape) != 1:
            suffixes.append(f"size={shape}")
        contents = "[]"
    else:
        unstated |= {default_complex, "int64", "bool"}
        if (
            options.edgeitems == 0
        ):  # then elements may tell nothing, so PyTorch states the size, summarised or not
            suffixes.append(f"size={shape}")
        contents = "" if tensor_contents is not None else _contents(array, column, options)
    if tensor_contents is not None:
        contents = tensor_contents
    if dtype_name not in unstated:
        suffixes.append(f"dtype={namespace or naming.namespace}.{dtype_name}")
    if grad_fn_name is not None:
        suffixes.append(f"grad_fn=<{grad_fn_name}>")
    elif requires_grad:
        suffixes.append("requires_grad=True")
    text = with_suffixes(prefix + contents, suffixes, indent, column, options.linewidth)
    return "Parameter containing:\n" + " " * indent + text if is_parameter else text
