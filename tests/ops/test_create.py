"""Creation ops: what they make, in which dtype, where, and what they refuse."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import weft
from weft.core.types import TensorType
from weft.ops.options import fits, has_format, strides_in
from weft.ops.record import ops


def refuses(error: type[Exception], text: str, call: Any) -> None:
    with pytest.raises(error) as caught:
        call()
    assert text in str(caught.value)


@pytest.mark.parametrize("name, value", [("zeros", 0), ("ones", 1)])
def test_sizes_as_arguments_sequence_or_keyword(name: str, value: int) -> None:
    make = getattr(weft, name)
    for made in (make(2, 3), make((2, 3)), make([2, 3]), make(size=(2, 3)), make(weft.tensor(2), 3)):
        assert made.shape == (2, 3) and made.dtype is weft.float32
        assert made.tolist() == [[value] * 3] * 2
    assert make(()).shape == () and make(0, 3).shape == (0, 3)
    refuses(TypeError, f'{name}() missing 1 required positional arguments: "size"', make)
    refuses(RuntimeError, f"{name}: Dimension size must be non-negative.", lambda: make(2, -1))
    refuses(TypeError, "must be tuple of ints, not float", lambda: make(2.5))
    refuses(TypeError, "must be tuple of ints, not bool", lambda: make(True))
    refuses(TypeError, "argument 'dtype' must be weft.dtype, not str", lambda: make(2, dtype="float32"))


def test_options() -> None:
    assert weft.zeros(2, dtype=float).dtype is weft.float64
    assert weft.zeros(2, dtype=weft.bool).tolist() == [False, False]
    assert weft.zeros(2, requires_grad=True).requires_grad
    assert weft.zeros(2, layout=weft.strided, pin_memory=False).layout is weft.strided
    refuses(
        RuntimeError,
        "Only Tensors of floating point and complex dtype can require gradients",
        lambda: weft.zeros(2, dtype=weft.long, requires_grad=True),
    )
    refuses(TypeError, "unexpected keyword argument", lambda: weft.zeros(2, foo=1))
    refuses(AssertionError, "CUDA", lambda: weft.zeros(2, device="cuda"))


def test_out_takes_the_tensor_as_it_is() -> None:
    target = weft.empty(0, dtype=weft.long)
    assert weft.zeros(2, 3, out=target) is target
    assert target.shape == (2, 3) and target.dtype is weft.long
    refuses(
        RuntimeError,
        "dtype Long does not match dtype of out parameter (Float)",
        lambda: weft.ones(2, dtype=weft.long, out=weft.zeros(2)),
    )
    kept = weft.zeros(2, 2)
    weft.arange(4.0, out=kept)
    assert kept.tolist() == [[0, 1], [2, 3]]
    with pytest.warns(UserWarning, match="resized"):
        weft.arange(3, out=weft.zeros(2))


def test_default_dtype_and_device() -> None:
    weft.set_default_dtype(weft.float64)
    try:
        assert weft.zeros(1).dtype is weft.arange(2.0).dtype is weft.full((1,), 2.0).dtype is weft.float64
        assert weft.full((1,), 1j).dtype is weft.complex128
    finally:
        weft.set_default_dtype(weft.float32)
    with weft.device("meta"):
        assert all(
            t.is_meta for t in (weft.zeros(2), weft.rand(2), weft.tensor([1]), weft.arange(3), weft.eye(2))
        )
        with weft.device("cpu"):
            assert not weft.ones(2).is_meta
        assert not weft.zeros(2, device="cpu").is_meta
    assert not weft.zeros(2).is_meta
    weft.set_default_device("meta")
    try:
        assert weft.get_default_device() == weft.device("meta") and weft.full((2,), 1).is_meta
        assert not weft.ones_like(weft.zeros(2, device="cpu")).is_meta
    finally:
        weft.set_default_device(None)


def test_meta_costs_no_memory_and_runs_rules() -> None:
    huge = weft.zeros(2**40, device="meta")
    assert huge.shape == (2**40,) and huge.device.type == "meta"
    assert weft.zeros_like(huge, dtype=weft.int8).dtype is weft.int8
    assert weft.zeros_like(weft.zeros(2, device="meta"), device="cpu").tolist() == [0, 0]


def test_full_infers_its_dtype() -> None:
    cases = {1: weft.int64, 1.5: weft.float32, 1j: weft.complex64}
    assert weft.full((2,), True).dtype is weft.bool
    assert all(weft.full((2,), value).dtype is kind for value, kind in cases.items())
    assert weft.full((2,), weft.tensor(1.5, dtype=weft.double)).dtype is weft.float32
    assert weft.full((2,), 1.5, dtype=weft.int32).tolist() == [1, 1]
    refuses(RuntimeError, "type uint8_t without overflow", lambda: weft.full((1,), 300, dtype=weft.uint8))
    refuses(RuntimeError, "type float without overflow", lambda: weft.full((1,), 1j, dtype=weft.float32))
    refuses(RuntimeError, "type c10::Half without overflow", lambda: weft.full((1,), 1e6, dtype=weft.half))
    refuses(TypeError, "must be Number, not str", lambda: weft.full((1,), "a"))
    refuses(TypeError, "must be tuple of ints, not int", lambda: weft.full(2, 1))
    refuses(TypeError, "must be Number, not Tensor", lambda: weft.full((2,), weft.tensor([1])))


def test_fits_wraps_unsigned_and_refuses_nan() -> None:
    assert (
        fits(-1, weft.uint8) == 255
        and fits(1.7, weft.int8) == 1
        and fits(float("inf"), weft.half) == float("inf")
    )
    for value, kind in (
        (-256, weft.uint8),
        (128, weft.int8),
        (float("nan"), weft.int32),
        (2**63, weft.int64),
    ):
        refuses(RuntimeError, "without overflow", lambda value=value, kind=kind: fits(value, kind))


@pytest.mark.parametrize(
    "arguments, values",
    [
        ((5,), [0, 1, 2, 3, 4]),
        ((1, 5, 2), [1, 3]),
        ((5, 1, -2), [5, 3]),
        ((0, 1, 0.25), [0, 0.25, 0.5, 0.75]),
        ((1.0, 2.5), [1.0, 2.0]),
        ((3, 3), []),
        ((2**62, 2**62 + 2), [2**62, 2**62 + 1]),
    ],
)
def test_arange(arguments: tuple[Any, ...], values: list[Any]) -> None:
    made = weft.arange(*arguments)
    assert made.tolist() == values
    whole = all(isinstance(value, int) for value in arguments)
    assert made.dtype is (weft.int64 if whole else weft.float32)


def test_arange_refuses() -> None:
    assert weft.arange(end=3).tolist() == weft.arange(start=0, end=3).tolist() == [0, 1, 2]
    assert weft.arange(300, dtype=weft.uint8)[-1].item() == 43
    assert weft.arange(weft.tensor(3.0)).dtype is weft.float32
    refuses(RuntimeError, "step must be nonzero", lambda: weft.arange(0, 5, 0))
    refuses(
        RuntimeError, "upper bound and lower bound inconsistent with step sign", lambda: weft.arange(5, 1)
    )
    refuses(RuntimeError, "unsupported range: 0 -> inf", lambda: weft.arange(float("inf")))
    refuses(ValueError, "step must be nonzero", lambda: weft.arange(0, 1, 0.3, dtype=weft.int64))
    refuses(
        NotImplementedError,
        "\"arange_cpu\" not implemented for 'Bool'",
        lambda: weft.arange(2, dtype=weft.bool),
    )
    refuses(TypeError, "must be Number, not str", lambda: weft.arange("a"))
    refuses(TypeError, "invalid combination of arguments", weft.arange)


def test_linspace_and_logspace() -> None:
    assert weft.linspace(0, 1, 5).tolist() == [0, 0.25, 0.5, 0.75, 1]
    assert weft.linspace(-3, 10, 4, dtype=weft.int64).tolist() == [-3, 1, 5, 10]
    assert weft.linspace(0, 1, 1).tolist() == [0] and weft.linspace(0, 1, 0).shape == (0,)
    assert weft.linspace(0, 1j, 3).dtype is weft.complex64
    ends = weft.linspace(0.1, 0.7, 101, dtype=weft.float64)
    assert (ends[0].item(), ends[-1].item()) == (0.1, 0.7)
    assert weft.logspace(0, 2, 3).tolist() == [1, 10, 100]
    assert weft.logspace(0, 2, 3, base=2, dtype=weft.long).tolist() == [1, 2, 4]
    refuses(RuntimeError, "number of steps must be non-negative", lambda: weft.linspace(0, 1, -1))
    refuses(RuntimeError, "only supports 0-dimensional", lambda: weft.linspace(weft.tensor([0.0, 1.0]), 1, 3))
    refuses(RuntimeError, "can't be safely cast", lambda: weft.linspace(0, 1j, 3, dtype=weft.float32))


def test_eye() -> None:
    assert weft.eye(2, 3).tolist() == [[1, 0, 0], [0, 1, 0]]
    assert weft.eye(0).shape == (0, 0)
    refuses(RuntimeError, "n must be greater or equal to 0, got -1", lambda: weft.eye(-1))
    refuses(RuntimeError, "m must be greater or equal to 0, got -1", lambda: weft.eye(2, -1))
    refuses(TypeError, "argument 'n' (position 1) must be int, not float", lambda: weft.eye(2.5))


def test_memory_formats() -> None:
    last = weft.empty(2, 3, 4, 5, memory_format=weft.channels_last)
    assert last.stride() == (60, 1, 15, 3) == strides_in((2, 3, 4, 5), weft.channels_last)
    assert weft.zeros_like(last).stride() == last.clone().stride() == last.double().stride() == last.stride()
    assert weft.empty_like(last, memory_format=weft.contiguous_format).stride() == (60, 20, 5, 1)
    assert has_format((2, 1, 4, 5), (20, 1, 5, 1), weft.channels_last)
    assert not has_format((2, 3), (3, 1), weft.channels_last)
    refuses(RuntimeError, "required rank 4 tensor", lambda: weft.empty(2, memory_format=weft.channels_last))
    refuses(
        RuntimeError,
        "unsupported memory format Preserve",
        lambda: weft.empty(2, memory_format=weft.preserve_format),
    )
    volume = weft.empty(2, 3, 4, 5, 6, memory_format=weft.channels_last_3d)
    assert volume.is_contiguous(memory_format=weft.channels_last_3d)


def test_like_keeps_order_of_memory() -> None:
    turned = weft.zeros(2, 3, 4).permute(2, 0, 1)
    assert weft.ones_like(turned).stride() == turned.stride()
    assert weft.full_like(turned, 3, dtype=weft.int8).dtype is weft.int8
    assert (
        weft.zeros(3).expand(2, 3).clone().stride()
        == weft.zeros_like(weft.zeros(3).expand(2, 3)).stride()
        == (3, 1)
    )


def test_new_tensors_take_dtype_and_device() -> None:
    like = weft.zeros(2, dtype=weft.int16)
    assert like.new_zeros(2, 3).dtype is like.new_ones((2,)).dtype is like.new_empty(0).dtype is weft.int16
    assert like.new_full((2,), 1.5).tolist() == [1, 1]
    assert like.new_ones(size=(2,), dtype=weft.float32, requires_grad=True).requires_grad
    assert like.new_tensor([1.5, 2.5]).tolist() == [1, 2]
    assert like.new_empty_strided((2, 3), (1, 2)).stride() == (1, 2)
    assert weft.zeros(2, device="meta").new_ones(3).is_meta


def test_strided() -> None:
    made = weft.empty_strided((2, 3), (1, 2))
    assert made.stride() == (1, 2) and made.untyped_storage().nbytes() == 24
    assert weft.empty_permuted((2, 3, 4), (0, 2, 1)).stride() == (12, 1, 3)
    refuses(RuntimeError, "dimensionality of sizes (2)", lambda: weft.empty_strided((2, 3), (1,)))


def test_fill() -> None:
    x = weft.zeros(2, dtype=weft.int8)
    assert weft.fill(x, 3.5).tolist() == [3, 3] and x.tolist() == [0, 0]
    assert x.fill_(weft.tensor(2.5)).tolist() == [2, 2]
    refuses(
        RuntimeError,
        "fill_ only supports 0-dimension value tensor but got tensor with 1 dimensions.",
        lambda: x.fill_(weft.tensor([1])),
    )
    refuses(TypeError, "invalid combination of arguments", lambda: x.fill_("a"))
    leaf = weft.ones(2, requires_grad=True)
    value = weft.tensor(2.0, requires_grad=True)
    (leaf * 2).fill_(value).sum().backward()
    assert leaf.grad.tolist() == [0, 0] and value.grad.item() == 2
    (leaf * 2).zero_().sum().backward()
    assert leaf.grad.tolist() == [0, 0]


def test_contiguous() -> None:
    x = weft.arange(6.0).reshape(2, 3)
    assert x.contiguous() is x
    turned = x.t().requires_grad_()
    dense = turned.contiguous()
    assert dense.is_contiguous() and dense.tolist() == x.t().tolist()
    assert dense.grad_fn.name() == "CloneBackward0"
    images = weft.zeros(2, 3, 4, 5)
    assert images.contiguous(memory_format=weft.channels_last).stride() == (60, 1, 15, 3)
    assert not images.is_contiguous(memory_format=weft.channels_last)
    refuses(RuntimeError, "required rank 4", lambda: x.contiguous(memory_format=weft.channels_last))


def test_rules_and_kernels_on_types_and_arrays() -> None:
    kind = TensorType((2, 3), weft.float32)
    assert ops.zeros_like(kind) == kind
    assert ops.new_zeros(kind, (4,)) == TensorType((4,), weft.float32)
    array = np.ones((2, 3), np.float32)
    assert type(ops.zeros_like(array)) is type(ops.new_zeros(array, (4,))) is np.ndarray
    assert ops.new_zeros(array, (4,)).shape == (4,)


def test_no_warnings() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        weft.full((2,), float("nan")).long()
        weft.arange(0, 1, 0.1, dtype=weft.bfloat16)


def test_orders_in_memory_that_are_none() -> None:
    text = r"Dimension out of range \(expected to be between 0 and 0, but got 3 at index 0"
    with pytest.raises(RuntimeError, match=text):
        weft.empty_permuted((2,), (3,))
    with pytest.raises(RuntimeError, match="Duplicate dim not allowed"):
        weft.empty_permuted((2, 3), (0, 0))
    with pytest.raises(RuntimeError, match=r"len\(size\) = 1 is not equal to len\(physical_layout\) = 2"):
        weft.empty_permuted((2,), (0, 1))


@pytest.mark.parametrize("kind", [weft.float16, weft.bfloat16])
def test_spaced_halves_are_rounded_after_each_step(kind: weft.dtype) -> None:
    for start, end, steps in ((0, 1, 7), (-3.3, 9.1, 50), (0, 1000, 1000)):
        first, last, count = (weft.tensor([value], dtype=kind) for value in (start, end, steps - 1))
        step = (last - first) / count
        up = weft.arange(steps).to(kind)
        wanted = weft.cat([(first + step * up)[: steps // 2], (last - step * up.flip(0))[steps // 2 :]])
        for linspace in (weft.linspace, weft.compile(weft.linspace)):
            assert weft.equal(linspace(start, end, steps, dtype=kind), wanted)
