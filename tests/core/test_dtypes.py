"""Dtypes: what one knows of itself, and the lattice of promotion."""

from __future__ import annotations

import io
import math
from typing import Any

import numpy as np
import pytest

import weft
from weft.core import dtypes
from weft.core.dtypes import ALL, HALVES, WIDE_UNSIGNED, dtype, promote_types


def test_names_are_told_apart() -> None:
    for field in ("name", "short", "scalar_name", "cpp_name", "c_name"):
        assert len({getattr(kind, field) for kind in ALL}) == len(ALL), field
    written = [kind.file_name for kind in ALL if kind.file_name is not None]
    assert len({*written}) == len(written) == len(ALL) - 1  # there are no files of complex128


def test_halves_compute_in_float32() -> None:
    assert set(HALVES) == {weft.float16, weft.bfloat16}
    assert {kind.computes_in for kind in HALVES} == {weft.float32}
    assert all(kind.computes_in is kind for kind in ALL if kind not in HALVES)


@pytest.mark.parametrize("kind", [kind for kind in ALL if kind.digits], ids=repr)
def test_digits_are_those_of_whole_numbers(kind: dtype) -> None:
    whole = weft.tensor([2**kind.digits - 1, 2**kind.digits + 1])
    assert (whole.to(kind).long() == whole).tolist() == [True, False]
    assert weft.finfo(kind).eps == 2.0 ** (1 - kind.digits)


@pytest.mark.parametrize("kind", WIDE_UNSIGNED, ids=repr)
def test_unsigned_numbers_are_promoted_with_floats_alone(kind: dtype) -> None:
    assert not kind.is_signed
    x = weft.tensor([1, 2, 3], dtype=kind)
    for other in ALL:
        if other.category >= dtypes.FLOAT or other is kind:
            assert promote_types(kind, other) is promote_types(other, kind) is other
            continue
        with pytest.raises(RuntimeError, match="Promotion for uint16, uint32, uint64 types is not supported"):
            promote_types(kind, other)
        with pytest.raises(RuntimeError, match=f"attempted to promote {kind.scalar_name} and"):
            x * weft.ones(3, dtype=other)
    assert (x * 2).dtype is kind and (x / 2).tolist() == [0.5, 1.0, 1.5]
    assert (x * 1.5).dtype is weft.float32 and x.sum().dtype is weft.int64


@pytest.mark.parametrize("kind", WIDE_UNSIGNED, ids=repr)
def test_unsigned_numbers_are_kept_exactly(kind: dtype, tmp_path: Any) -> None:
    most = weft.iinfo(kind).max
    x = weft.tensor([0, 1, most], dtype=kind)
    assert most == 2 ** (8 * kind.itemsize) - 1 and x.tolist() == [0, 1, most] and x[2].item() == most
    assert repr(x[:2]) == f"tensor([0, 1], dtype={kind})" and x.view(weft.uint8).numel() == 3 * kind.itemsize
    assert weft.from_numpy(x.numpy()).dtype is kind and weft.from_dlpack(x).tolist() == x.tolist()
    file = io.BytesIO()
    weft.save(x, file)
    file.seek(0)
    assert weft.load(file).tolist() == x.tolist()
    for function in (lambda x: x * 2, lambda x: x[1:].clone(), lambda x: (x == most).sum()):
        assert weft.compile(function)(x).tolist() == function(x).tolist()


def test_unsigned_numbers_that_cannot_be() -> None:
    assert weft.tensor([2**64 - 1, True], dtype=weft.uint64).tolist() == [2**64 - 1, 1]
    assert repr(weft.iinfo(weft.uint64)) == "iinfo(min=0, max=1.84467e+19, dtype=uint64)"
    for value, error, text in [
        (-1, OverflowError, "can't convert negative int to unsigned"),
        (2**64, OverflowError, "int too big to convert"),
        (1.5, TypeError, "an integer is required"),
    ]:
        with pytest.raises(error, match=text):
            weft.tensor([value], dtype=weft.uint64)
    with pytest.raises(RuntimeError, match="cannot be converted to type uint16 without overflow"):
        weft.tensor([70000], dtype=weft.uint16)
    assert weft.tensor(np.array([3], np.uint32)).dtype is weft.uint32


NARROW = ("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu")


@pytest.mark.parametrize("name", NARROW)
def test_narrow_storage(name: str) -> None:
    """Numbers of eight bits are stored, moved and cast, compiled too; arithmetic refuses them."""
    kind = getattr(weft, name)
    x = weft.tensor([0.5, 1.0, 2.0, 4.0])
    y = x.to(kind)
    assert y.element_size() == 1 and y.dtype is kind and kind.is_floating_point
    assert weft.equal(y.float(), x) and y.tolist() == x.tolist()
    assert weft.equal(
        weft.cat([y[2:], y[:2]]).reshape(2, 2).T.contiguous().float().flatten(), x[[2, 0, 3, 1]]
    )
    assert weft.equal(y.view(weft.uint8).view(kind).float(), x)
    assert weft.equal(weft.zeros(4, dtype=kind).copy_(x).float(), x)
    assert weft.ones(2, dtype=kind).tolist() == [1.0, 1.0]
    with pytest.raises(NotImplementedError, match="not implemented for 'Float8"):
        y + y
    with pytest.raises(RuntimeError, match="Promotion for Float8 Types is not supported"):
        y + x
    compiled = weft.compile(lambda a: (a * 2).to(kind).to(weft.float32) * 3, fullgraph=True)
    assert weft.equal(compiled(x), x * 6)
    leaf = x.clone().requires_grad_()
    leaf.to(kind).to(weft.float32).sum().backward()
    assert weft.equal(leaf.grad, weft.ones(4))


@pytest.mark.torch
@pytest.mark.parametrize("name", NARROW)
def test_narrow_casts_as_pytorch(name: str) -> None:
    torch = pytest.importorskip("torch")
    values = [1.3, -2.7, 449.0, 500.0, 1e6, math.inf, -math.inf, math.nan, 1e-3, 6e4, 0.0, -0.0, 3.0, 1e-9]
    mine = weft.tensor(values).to(getattr(weft, name)).float().tolist()
    other = torch.tensor(values).to(getattr(torch, name)).float().tolist()
    assert [str(value) for value in mine] == [str(value) for value in other]
