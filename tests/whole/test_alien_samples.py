"""Every sample of every op over arrays of another library: values, layouts and gradients as NumPy's give.

`tests/alien.py` has the library. What still names NumPy for work on a tensor's array fails here with its op's
name, long before a GPU is there to find it.
"""

from __future__ import annotations

import ast
import contextlib
import warnings
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft
from tests import refusals, wide
from tests.alien import ALIENS, Alien, aliens, registered
from weft.core import dtypes
from weft.core.arrays import namespace
from weft.ops.record import REGISTRY, Kind, Op
from weft.ops.samples import Maker, Sample
from weft.tensor.base import wrap

NOT_YET: dict[str, str] = {}
"""Ops that do not run on other devices yet, and why."""

OPS = sorted(
    (op for op in REGISTRY.values() if op.samples is not None and not op.qualified_name.startswith("ops.")),
    key=lambda op: op.qualified_name,
)
TABLES = ("gather_flat", "scatter_flat")
"""Ops with positions that gradient rules make from sizes, wherever the tensor is."""
UNSET = ("empty", "new_empty", "resize")
SECOND_ORDER_ONE_IN = 4
OTHER_DTYPES = (dtypes.float32, dtypes.bfloat16, dtypes.int64, dtypes.bool_, dtypes.complex64)
Form = Callable[[Op, Sample, bool, int], list[Any]]


def placed(value: Any, far: bool, leaves: list[Any]) -> Any:
    """The arrays of an argument as tensors, on the other device or on the CPU, with their strides."""
    if isinstance(value, np.ndarray):
        array: Any = value.copy(order="K") if value.base is None else strided_copy(value)
        tensor = wrap(Alien(array) if far else array)
        if array.dtype.kind == "f":
            leaves.append(tensor.requires_grad_())
        return tensor
    if isinstance(value, (tuple, list)) and not hasattr(value, "_fields"):
        return type(value)([placed(item, far, leaves) for item in value])
    return value


def strided_copy(value: Any) -> Any:
    copy = np.empty_like(value)
    copy[...] = value
    return copy


def flat(value: Any) -> list[Any]:
    return [leaf for item in value for leaf in flat(item)] if isinstance(value, (tuple, list)) else [value]


def held(tensor: Any, far: bool) -> Any:
    """A result's elements; those of the other device must still be there."""
    if not isinstance(tensor, weft.Tensor):
        return tensor
    assert type(tensor.array) is (Alien if far else np.ndarray), f"a result is {type(tensor.array)}"
    assert not far or tensor.device == ALIENS.place
    return tensor.array.held if far else tensor.array


def has_arrays(sample: Sample) -> bool:
    """Whether a call is given tensors; others are told by the default device where to make theirs."""
    return any(isinstance(leaf, np.ndarray) for leaf in flat([sample.args, list(sample.kwargs.values())]))


def seed_like(array: Any, far: bool) -> Any:
    numbers = np.cos(np.arange(array.size, dtype=np.float64)).reshape(array.shape).astype(array.dtype)
    return wrap(aliens.asarray(numbers) if far else numbers)


def arguments(op: Op, sample: Sample, far: bool, leaves: list[Any]) -> tuple[Any, dict[str, Any]]:
    kept = {op.signature.names.index("positions")} if op.name in TABLES else set()
    args = tuple(arg if i in kept else placed(arg, far, leaves) for i, arg in enumerate(sample.args))
    return args, {name: placed(value, far, leaves) for name, value in sample.kwargs.items()}


def results(op: Op, sample: Sample, far: bool, order: int) -> list[Any]:
    """The results of a call and their gradients up to an order."""
    leaves: list[Any] = []
    args, kwargs = arguments(op, sample, far, leaves)
    out = flat(op.face(*args, **kwargs))
    found = [held(each, far) for each in out]
    for _ in range(order):
        out = [
            each
            for each in out
            if isinstance(each, weft.Tensor) and each.requires_grad and each.dtype.is_floating_point
        ]
        if not out or not leaves:
            break
        seeds = [seed_like(each.array, far) for each in out]
        out = list(weft.autograd.grad(out, leaves, seeds, create_graph=order > 1, allow_unused=True))
        found += [held(each, far) for each in out]
    return found


def written(op: Op, sample: Sample, far: bool, _order: int) -> list[Any]:
    """What the in-place form leaves in its first argument."""
    args, kwargs = arguments(op, sample, far, [])
    with weft.no_grad():
        getattr(weft.Tensor, f"{op.name}_")(*args, **kwargs)
    return [held(args[0], far)]


def stored(op: Op, sample: Sample, far: bool, _order: int) -> list[Any]:
    """What the `out=` form stores in an empty tensor."""
    args, kwargs = arguments(op, sample, far, [])
    with weft.no_grad():
        expected = op.face(*args, **kwargs)
        empty = [wrap(namespace(each.array).empty(0, each.array.dtype)) for each in flat(expected)]
        out = empty[0] if isinstance(expected, weft.Tensor) else tuple(empty)
        op.face(*args, **kwargs, out=out)
    return [held(each, far) for each in empty]


REFUSED: dict[Form, tuple[refusals.Words, ...]] = {results: (), written: refusals.OF_WRITES, stored: ()}


def run(form: Form, op: Op, sample: Sample, far: bool, order: int) -> list[Any]:
    weft.manual_seed(0)
    created_there = far and not has_arrays(sample)
    with warnings.catch_warnings(), ALIENS.place if created_there else contextlib.nullcontext():
        warnings.simplefilter("ignore")
        return form(op, sample, far, order)


def compare(form: Form, op: Op, kind: dtypes.dtype, order: int = 0) -> None:
    for number, sample in enumerate(samples_of(op, kind)):
        where = f"{op} {form.__name__} {kind} sample {number}"
        try:
            expected = run(form, op, sample, False, order)
        except Exception as error:  # no such dtype, gradient or form: neither there
            refusals.expect(error, kind, *refusals.OF_GRADIENTS if order else REFUSED[form])
            with pytest.raises(type(error)) as refusal:
                run(form, op, sample, True, order)
            assert str(refusal.value) == str(error), where
            continue
        given = run(form, op, sample, True, order)
        for one, two in zip(given, expected, strict=True):
            assert type(one) is type(two), where
            if isinstance(two, np.ndarray):
                assert (one.shape, one.dtype) == (two.shape, two.dtype), where
                assert one.strides == two.strides or one.size < 2, where
                if not op.name.startswith(UNSET):
                    assert same_elements(one, two), where
            elif not isinstance(two, weft.Generator):
                assert one == two, where


def samples_of(op: Op, kind: dtypes.dtype) -> list[Sample]:
    return list(op.samples(Maker(kind)))  # type: ignore[misc]


def same_elements(one: Any, two: Any) -> bool:
    if two.dtype.kind == "V":  # bfloat16
        one, two = one.astype(np.float32), two.astype(np.float32)
    near = 1e-12 if two.dtype.char in "dD" else 1e-5
    return bool(np.allclose(one, two, rtol=near, atol=near, equal_nan=True))


def is_second_order(op: Op) -> bool:
    return zlib.crc32(f"second {op.qualified_name}".encode()) % SECOND_ORDER_ONE_IN == 0


@wide.over(OPS)
def test_samples(op: Op) -> None:
    """First values, which name the leak best; then gradients, other dtypes, and forms that write."""
    if op.qualified_name in NOT_YET:
        pytest.skip(NOT_YET[op.qualified_name])
    with registered():
        compare(results, op, dtypes.float64)
        if op.kind not in (Kind.CREATE, Kind.RANDOM):
            compare(results, op, dtypes.float64, 2 if is_second_order(op) else 1)
        for kind in OTHER_DTYPES:
            compare(results, op, kind)
        if op.inplace:
            compare(written, op, dtypes.float64)
        if op.out:
            compare(stored, op, dtypes.float64)


OF_ANY_LIBRARY = frozenset(
    [
        "broadcast_shapes",
        "dtype",
        "errstate",
        "finfo",
        "iinfo",
        "inf",
        "LinAlgError",
        "linalg",
        "nan",
        "ndarray",
        "ndindex",
        "prod",
        "result_type",
        "bool_",
        "generic",
        "integer",
        "int8",
        "int16",
        "int32",
        "int64",
        "uint8",
        "uint32",
        "uint64",
        "float16",
        "float32",
        "float64",
        "complex64",
        "complex128",
    ]
)
"""Words of NumPy's that say something about types, sizes and constants, wherever arrays are."""


def test_kernels_name_no_library() -> None:
    """What is given arrays of any device says `xp.`, also where no sample comes by."""
    found = []
    for path in sorted(Path(weft.ops.__file__).parent.rglob("*.py")):
        for function in ast.walk(ast.parse(path.read_text())):
            if not isinstance(function, ast.FunctionDef):
                continue
            given = [argument.annotation for argument in function.args.args]
            if not any(isinstance(each, ast.Name) and each.id == "Array" for each in given):
                continue
            for node in ast.walk(function):
                if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                    if node.value.id == "np" and node.attr not in OF_ANY_LIBRARY:
                        found.append(f"{path.name}:{node.lineno} {function.name}: np.{node.attr}")
    assert not found
