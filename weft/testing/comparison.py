"""Comparing results: `assert_close` says where two differ, `same` only whether they do.

Takes tensors, numbers, containers and (for `same`) users' objects. One idea: `assert_close` walks both sides
in step and names the place of a difference; what it allows follows from the dtypes.
"""

from __future__ import annotations

import dataclasses
import enum
import types
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from typing import Any

import numpy as np

from weft.core.dtypes import BY_NAME
from weft.core.seams import seams
from weft.tensor.base import Tensor, wrap
from weft.tensor.overrides import has_handler

__all__ = ["assert_allclose", "assert_close", "same"]

Message = str | Callable[[str], str] | None


@dataclasses.dataclass(frozen=True)
class Rules:
    """What `assert_close` was asked to check."""

    allow_subclasses: bool
    rtol: float | None
    atol: float | None
    equal_nan: bool
    check_device: bool
    check_dtype: bool
    check_stride: bool

    def tolerances(self, *names: str) -> tuple[float, float]:
        """What is allowed between these dtypes: what was asked for, else the laxer default."""
        if self.rtol is not None and self.atol is not None:
            return self.rtol, self.atol
        found = [BY_NAME[name].tolerances if name in BY_NAME else (0.0, 0.0) for name in names]
        return max(rtol for rtol, _ in found), max(atol for _, atol in found)


def assert_close(
    actual: Any,
    expected: Any,
    *,
    allow_subclasses: bool = True,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = False,
    check_device: bool = True,
    check_dtype: bool = True,
    check_layout: bool = True,
    check_stride: bool = False,
    msg: Message = None,
) -> None:
    """Raises AssertionError where they differ by more than `atol + rtol * |expected|`, naming the place."""
    if (rtol is None) != (atol is None):
        missing = "rtol" if rtol is None else "atol"
        raise ValueError(f"Both 'rtol' and 'atol' must be either specified or omitted, but got no {missing}.")
    rules = Rules(allow_subclasses, rtol, atol, equal_nan, check_device, check_dtype, check_stride)
    for place, problem in _differences(actual, expected, rules, ()):
        where = "".join(f"[{key!r}]" for key in place)
        text = problem + (f"\n\nThe failure occurred for item {where}" if place else "")
        raise AssertionError(msg(text) if callable(msg) else text if msg is None else msg)


def assert_allclose(
    actual: Any,
    expected: Any,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = True,
    msg: str = "",
) -> None:
    """`assert_close` that looks at values only."""
    assert_close(
        actual,
        expected,
        rtol=rtol,
        atol=atol,
        equal_nan=equal_nan,
        check_device=True,
        check_dtype=False,
        msg=msg or None,
    )


Differences = Iterator[tuple[tuple[Any, ...], str]]


def _differences(actual: Any, expected: Any, rules: Rules, place: tuple[Any, ...]) -> Differences:
    if _is_sequence(actual) and _is_sequence(expected):
        if len(actual) != len(expected):
            yield place, f"The length of the sequences mismatch: {len(actual)} != {len(expected)}"
            return
        for index in range(len(actual)):
            yield from _differences(actual[index], expected[index], rules, (*place, index))
    elif isinstance(actual, Mapping) and isinstance(expected, Mapping):
        yield from _differences_of_mappings(actual, expected, rules, place)
    elif isinstance(actual, Tensor) and isinstance(expected, Tensor):
        if not rules.allow_subclasses and type(actual) is not type(expected):
            raise TypeError(_no_pair(actual, expected))
        yield from ((place, problem) for problem in _differences_of_tensors(actual, expected, rules))
    elif actual is None or expected is None:
        if actual is not expected:
            yield place, f"None mismatch: {actual} is not {expected}"
    elif _is_number(actual) and _is_number(expected):
        yield from ((place, problem) for problem in _differences_of_numbers(actual, expected, rules))
    elif _is_array(actual) and _is_array(expected):
        yield from ((place, problem) for problem in _differences_of_arrays(actual, expected, rules))
    else:
        raise TypeError(_no_pair(actual, expected))


def _no_pair(actual: Any, expected: Any) -> str:
    return f"No comparison pair was able to handle inputs of type {type(actual)} and {type(expected)}."


def _is_sequence(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def _is_number(value: Any) -> bool:
    return isinstance(value, bool | int | float | complex | np.number | np.bool_)


def _is_array(value: Any) -> bool:
    return isinstance(value, np.ndarray)


def _differences_of_mappings(
    actual: Mapping[Any, Any], expected: Mapping[Any, Any], rules: Rules, place: tuple[Any, ...]
) -> Differences:
    missing = [key for key in expected if key not in actual]
    additional = [key for key in actual if key not in expected]
    if missing or additional:
        yield (
            place,
            "The keys of the mappings do not match:\n"
            f"Missing keys in the actual mapping: {missing}\n"
            f"Additional keys in the actual mapping: {additional}",
        )
        return
    for key in expected:
        yield from _differences(actual[key], expected[key], rules, (*place, key))


def _differences_of_tensors(actual: Tensor, expected: Tensor, rules: Rules) -> Iterator[str]:
    names = ["shape"]
    names += ["device"] if rules.check_device else []
    names += ["dtype"] if rules.check_dtype else []
    for name in names:
        mine, theirs = getattr(actual, name), getattr(expected, name)
        if mine != theirs:
            yield f"The values for attribute '{name}' do not match: {mine} != {theirs}."
            return
    if rules.check_stride and actual.stride() != expected.stride():
        yield f"The values for attribute 'stride()' do not match: {actual.stride()} != {expected.stride()}."
        return
    tolerances = rules.tolerances(_dtype_name(actual), _dtype_name(expected))
    mine, theirs = _values(actual), _values(expected)
    if mine.ndim == 0 and mine.dtype.kind in "fciu":
        yield from _difference_of_scalars(mine.item(), theirs.item(), tolerances, rules.equal_nan)
    else:
        yield from _difference_of_values(mine, theirs, tolerances, rules.equal_nan)


def _dtype_name(tensor: Tensor) -> str:
    return str(tensor.dtype).rpartition(".")[2]


def _values(tensor: Tensor) -> Any:
    if has_handler(tensor):
        tensor = wrap(seams.below.elements(tensor))
    array = np.asarray(tensor.detach().cpu().resolve_conj().array)
    return array.astype(np.float64) if array.dtype.name == "bfloat16" else array


def _differences_of_arrays(actual: Any, expected: Any, rules: Rules) -> Iterator[str]:
    if actual.shape != expected.shape:
        yield f"The values for attribute 'shape' do not match: {actual.shape} != {expected.shape}."
    elif rules.check_dtype and actual.dtype != expected.dtype:
        yield f"The values for attribute 'dtype' do not match: {actual.dtype} != {expected.dtype}."
    else:
        tolerances = rules.tolerances(actual.dtype.name, expected.dtype.name)
        yield from _difference_of_values(actual, expected, tolerances, rules.equal_nan)


def _differences_of_numbers(actual: Any, expected: Any, rules: Rules) -> Iterator[str]:
    if isinstance(actual, bool | np.bool_) or isinstance(expected, bool | np.bool_):
        if type(actual) is not type(expected) or actual != expected:
            yield f"Booleans mismatch: {actual} is not {expected}"
        return
    if rules.check_dtype and isinstance(actual, int | float | complex) and type(actual) is not type(expected):
        yield f"The (d)types do not match: {type(actual)} != {type(expected)}."
        return
    names = {float: "float64", complex: "complex128"}
    tolerances = rules.tolerances(*(names.get(type(value), "int64") for value in (actual, expected)))
    yield from _difference_of_scalars(actual, expected, tolerances, rules.equal_nan)


def _difference_of_scalars(
    actual: Any, expected: Any, tolerances: tuple[float, float], equal_nan: bool
) -> Iterator[str]:
    rtol, atol = tolerances
    if actual == expected or (equal_nan and actual != actual and expected != expected):
        return
    difference = abs(actual - expected)
    if difference <= atol + rtol * abs(expected) and np.isfinite(difference):
        return
    relative = difference / abs(expected) if expected else float("inf")
    word = "close" if rtol or atol else "equal"
    allowed = (f" (up to {atol} allowed)", f" (up to {rtol} allowed)") if word == "close" else ("", "")
    yield (
        f"Scalars are not {word}!\n\nExpected {expected} but got {actual}.\n"
        f"Absolute difference: {difference}{allowed[0]}\nRelative difference: {relative}{allowed[1]}"
    )


def _difference_of_values(
    actual: Any, expected: Any, tolerances: tuple[float, float], equal_nan: bool
) -> Iterator[str]:
    rtol, atol = tolerances
    exact = actual.dtype.kind not in "fc" and expected.dtype.kind not in "fc" and not rtol and not atol
    with np.errstate(all="ignore"):
        if exact:
            matches = actual == expected
            mine, theirs = actual.astype(object), expected.astype(object)
        else:
            wide = np.complex128 if "c" in (actual.dtype.kind, expected.dtype.kind) else np.float64
            mine, theirs = actual.astype(wide), expected.astype(wide)
            matches = np.isclose(mine, theirs, rtol=rtol, atol=atol, equal_nan=equal_nan)
        if matches.all():
            return
        wrong = ~matches
        if exact:
            gaps = [abs(int(a) - int(b)) for a, b in zip(mine[wrong], theirs[wrong])]
            sizes = [abs(int(b)) for b in theirs[wrong]]
        else:
            if actual.dtype == expected.dtype and actual.dtype.kind in "fc":
                mine, theirs = actual, expected  # differences are told as the dtype itself has them
            gaps, sizes = list(np.abs(mine - theirs)[wrong]), list(np.abs(theirs)[wrong])
    yield _array_report(matches, gaps, sizes, None if exact else tolerances)


def _array_report(
    matches: Any, gaps: list[Any], sizes: list[Any], tolerances: tuple[float, float] | None
) -> str:
    places = [tuple(int(i) for i in place) for place in np.argwhere(~matches)]
    narrow = np.float32 if tolerances is None else type(gaps[0])
    ratios = [float(narrow(gap) / narrow(size)) if size else float("inf") for gap, size in zip(gaps, sizes)]
    gaps = [gap if isinstance(gap, int) else float(gap) for gap in gaps]
    rtol, atol = tolerances or (0.0, 0.0)
    lines = []
    for word, found, bound in (("absolute", gaps, atol), ("relative", ratios, rtol)):
        worst = max(range(len(found)), key=lambda i: found[i] if found[i] == found[i] else float("inf"))
        allowed = "" if tolerances is None else f" (up to {bound} allowed)"
        lines.append(f"Greatest {word} difference: {found[worst]} at index {places[worst]}{allowed}")
    share = 100 * len(places) / matches.size
    return (
        f"Tensor-likes are not {'equal' if tolerances is None else 'close'}!\n\n"
        f"Mismatched elements: {len(places)} / {matches.size} ({share:.1f}%)\n" + "\n".join(lines)
    )


# -- same ----------------------------------------------------------------------------------------------------
ATOMS = (str, bytes, type(None), enum.Enum, type(Ellipsis), slice, range, type, types.ModuleType)
FUNCTIONS = (types.FunctionType, types.BuiltinFunctionType, types.MethodType)


NUMBERS = (int, float, bool, complex)


def same(
    ref: Any,
    res: Any,
    *,
    tol: float = 1e-4,
    equal_nan: bool = False,
    exact_dtype: bool = True,
    _seen: set[tuple[int, int]] | None = None,
) -> bool:
    """Whether two results are alike: tensors and numbers within `tol`, containers item by item, other objects
    by class and attributes. Functions are alike when their code is.
    """
    seen = set() if _seen is None else _seen
    if (id(ref), id(res)) in seen:  # a cycle, compared further out
        return True
    seen.add((id(ref), id(res)))

    def alike(a: Any, b: Any) -> bool:
        return same(a, b, tol=tol, equal_nan=equal_nan, exact_dtype=exact_dtype, _seen=seen)

    if isinstance(ref, Tensor) and type(res) in NUMBERS or isinstance(res, Tensor) and type(ref) in NUMBERS:
        left, right = (_values(one) if isinstance(one, Tensor) else one for one in (ref, res))
        return _close(left, right, tol, equal_nan)
    if isinstance(ref, Tensor) or isinstance(res, Tensor):
        return (
            isinstance(ref, Tensor)
            and isinstance(res, Tensor)
            and _same_tensors(ref, res, tol, equal_nan, exact_dtype)
        )
    if isinstance(ref, np.ndarray | np.generic) or isinstance(res, np.ndarray | np.generic):
        left, right = np.asarray(ref), np.asarray(res)
        return left.shape == right.shape and _close(left, right, tol, equal_nan)
    if isinstance(ref, bool | int | float | complex):
        if type(ref) is not type(res):
            return False
        return bool(ref == res) if isinstance(ref, bool | int) else _close(ref, res, tol, equal_nan)
    if type(ref) is not type(res):
        return (
            isinstance(ref, list | tuple) and isinstance(res, list | tuple) and _same_items(ref, res, alike)
        )
    if isinstance(ref, ATOMS):
        return bool(ref == res)
    if isinstance(ref, FUNCTIONS):
        return _same_functions(ref, res)
    if isinstance(ref, list | tuple | deque):
        return _same_items(ref, res, alike) and alike(_attributes(ref), _attributes(res))
    if isinstance(ref, Mapping):
        return ref.keys() == res.keys() and all(alike(ref[key], res[key]) for key in ref)
    if isinstance(ref, Set):
        return set(ref) == set(res)
    return alike(_attributes(ref), _attributes(res))


def _same_items(ref: Any, res: Any, alike: Callable[[Any, Any], bool]) -> bool:
    return len(ref) == len(res) and all(alike(a, b) for a, b in zip(ref, res))


def _same_functions(ref: Any, res: Any) -> bool:
    if isinstance(ref, types.MethodType):
        ref, res = ref.__func__, res.__func__
    return ref is res or (isinstance(ref, types.FunctionType) and ref.__code__ == res.__code__)


def _attributes(value: Any) -> dict[str, Any]:
    """An object's attributes, from its dict and its slots."""
    found = dict(getattr(value, "__dict__", {}))
    for owner in type(value).__mro__:
        slots = owner.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name not in ("__dict__", "__weakref__") and hasattr(value, name):
                found[name] = getattr(value, name)
    return found


def _same_tensors(ref: Tensor, res: Tensor, tol: float, equal_nan: bool, exact_dtype: bool) -> bool:
    if ref.shape != res.shape or (exact_dtype and ref.dtype != res.dtype):
        return False
    left, right = _values(ref), _values(res)
    if left.dtype.kind not in "fc" and right.dtype.kind not in "fc":
        return bool((left == right).all())
    return _close(left, right, tol, equal_nan)


def _close(ref: Any, res: Any, tol: float, equal_nan: bool) -> bool:
    with np.errstate(all="ignore"):
        return bool(np.allclose(res, ref, rtol=tol, atol=tol, equal_nan=equal_nan))
