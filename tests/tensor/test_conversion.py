"""Conversions: dtypes, devices, formats, Python values, and writing over tensors."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import weft

KINDS = [
    weft.bool, weft.uint8, weft.int8, weft.int16, weft.int32, weft.int64, weft.float16, weft.bfloat16,
    weft.float32,
    weft.float64, weft.complex64, weft.complex128,
]  # fmt: skip


def refuses(error: type[Exception], text: str, call: Any) -> None:
    with pytest.raises(error) as caught:
        call()
    assert text in str(caught.value)


@pytest.mark.parametrize("source", KINDS, ids=str)
@pytest.mark.parametrize("target", KINDS, ids=str)
@pytest.mark.filterwarnings("ignore:Casting complex")
def test_every_cast(source: Any, target: Any) -> None:
    x = weft.tensor([0, 1, 2], dtype=source)
    made = x.to(target)
    assert made.dtype is target and (made is x) == (source is target)
    expected = [0, 1, 1] if weft.bool in (source, target) else [0, 1, 2]
    assert made.tolist() == expected


def test_to_in_all_its_forms() -> None:
    x = weft.zeros(2, 3)
    assert (
        x.to(weft.float32) is x.to("cpu") is x.to(x) is x.to() is x.to(None) is x.to(x.device, x.dtype) is x
    )
    assert x.to(weft.float32, copy=True) is not x
    other = weft.ones(1, dtype=weft.int16)
    for made in (x.to(other), x.to("cpu", weft.int16), x.to(dtype=weft.int16), x.to(weft.int16, True, True)):
        assert made.dtype is weft.int16
    assert x.to(float).dtype is weft.float64
    assert x.to("meta").is_meta
    images = weft.zeros(2, 3, 4, 5)
    assert images.to(memory_format=weft.channels_last).stride() == (60, 1, 15, 3)
    assert images.to(weft.half, memory_format=weft.channels_last).stride() == (60, 1, 15, 3)
    refuses(NotImplementedError, "Cannot copy out of meta tensor; no data!", x.to("meta").cpu)
    refuses(TypeError, "to() received an invalid combination of arguments", lambda: x.to(weft.channels_last))
    refuses(TypeError, "unexpected keyword argument 'foo'", lambda: x.to(foo=1))
    refuses(AssertionError, "CUDA", lambda: x.to("cuda"))
    refuses(AssertionError, "CUDA", x.cuda)


def test_short_casts_and_type() -> None:
    x = weft.zeros(2)
    names = {"half": weft.float16, "bfloat16": weft.bfloat16, "double": weft.float64, "int": weft.int32,
             "long": weft.int64, "short": weft.int16, "char": weft.int8, "byte": weft.uint8,
             "bool": weft.bool,
             "cfloat": weft.complex64, "cdouble": weft.complex128}  # fmt: skip
    for name, kind in names.items():
        assert getattr(x, name)().dtype is kind
    assert x.float() is x.cpu() is x.type(weft.float32) is x.type_as(x) is x
    with pytest.warns(UserWarning, match="discards the imaginary part"):
        weft.tensor([1j]).float()


def test_casts_carry_gradients() -> None:
    x = weft.ones(2, requires_grad=True)
    y = x.double()
    assert y.grad_fn.name() == "ToCopyBackward0" and not x.long().requires_grad
    (y * 3).sum().backward()
    assert x.grad.dtype is weft.float32 and x.grad.tolist() == [3, 3]


def test_python_values() -> None:
    assert (
        weft.tensor([[1.5]]).item() == 1.5
        and weft.tensor(True).item() is True
        and weft.tensor(2j).item() == 2j
    )
    assert weft.tensor(1.5, dtype=weft.bfloat16).item() == 1.5
    assert weft.tensor([[1, 2], [3, 4]]).tolist() == [[1, 2], [3, 4]] and weft.tensor(5).tolist() == 5
    assert int(weft.tensor(3.7)) == 3 and float(weft.tensor(2)) == 2.0 and complex(weft.tensor(1.5)) == 1.5
    assert [10, 20, 30][weft.tensor(1)] == 20 and list(range(weft.tensor([2]))) == [0, 1]
    refuses(RuntimeError, "a Tensor with 6 elements cannot be converted to Scalar", weft.zeros(2, 3).item)
    refuses(RuntimeError, "Tensor.item() cannot be called on meta tensors", weft.zeros(1, device="meta").item)
    refuses(
        ValueError, "only one element tensors can be converted to Python scalars", lambda: int(weft.zeros(2))
    )
    refuses(RuntimeError, "type double without overflow", lambda: float(weft.tensor(1j)))
    refuses(TypeError, "only integer tensors of a single element", lambda: [1][weft.tensor(0.0)])


def test_truth() -> None:
    assert bool(weft.tensor([[2]])) and not weft.tensor(0.0)
    more = "Boolean value of Tensor with more than one value is ambiguous"
    refuses(RuntimeError, more, lambda: bool(weft.zeros(2)))
    refuses(RuntimeError, "Boolean value of Tensor with no values is ambiguous", lambda: bool(weft.zeros(0)))
    refuses(RuntimeError, more, weft.zeros(2).is_nonzero)


def test_sequences() -> None:
    x = weft.arange(6.0).reshape(3, 2).requires_grad_()
    assert len(x) == 3 and [row.tolist() for row in x] == x.tolist()
    assert next(iter(x)).grad_fn.name() == "UnbindBackward0"
    assert list(reversed(weft.arange(3)))[0].item() == 2
    assert 4 in x and weft.tensor(9.0) not in x
    refuses(TypeError, "len() of a 0-d tensor", lambda: len(weft.tensor(1)))
    refuses(TypeError, "iteration over a 0-d tensor", lambda: iter(weft.tensor(1)))
    refuses(RuntimeError, "Tensor.__contains__ only supports Tensor or scalar", lambda: "a" in x)


def test_copy_broadcasts_casts_and_counts() -> None:
    x = weft.zeros(2, 3, dtype=weft.int32)
    assert x.copy_(weft.tensor([1.9, -2.9, 3])) is x and x.tolist() == [[1, -2, 3]] * 2
    assert x._version == 1
    x.copy_(7)
    assert x.tolist() == [[7] * 3] * 2
    refuses(
        RuntimeError,
        "The size of tensor a (3) must match the size of tensor b (2)",
        lambda: x.copy_(weft.ones(2)),
    )
    refuses(RuntimeError, "output with shape [2, 3] doesn't match the broadcast shape [4, 2, 3]",
            lambda: x.copy_(weft.ones(4, 2, 3)))  # fmt: skip
    refuses(TypeError, "must be Tensor, not str", lambda: x.copy_("a"))
    with pytest.warns(UserWarning, match="discards the imaginary part"):
        x.copy_(weft.tensor(3 + 4j))
    assert x[0, 0].item() == 3


def test_copy_carries_gradients_into_views() -> None:
    source = weft.ones(3, requires_grad=True)
    x = weft.zeros(2, 3)
    x[0].copy_(source)
    assert x.requires_grad and x.grad_fn.name().endswith("CopySlices")
    (x * weft.tensor([[2.0], [5.0]])).sum().backward()
    assert source.grad.tolist() == [2, 2, 2]
    whole = weft.zeros(2, 3).copy_(source)
    assert whole.grad_fn.name().endswith("CopyBackwards")
    source.grad = None
    whole.sum().backward()
    assert source.grad.tolist() == [2, 2, 2]
    for name in ("copy_", "fill_", "zero_"):
        arguments = () if name == "zero_" else (weft.tensor(1.0),)
        refuses(
            RuntimeError,
            "a leaf Variable that requires grad",
            lambda n=name, a=arguments: getattr(source, n)(*a),
        )
    with weft.no_grad():
        assert source.zero_().tolist() == [0, 0, 0]


def test_writing_respects_memory() -> None:
    x = weft.zeros(4)
    x[1:3].fill_(2)
    assert x.tolist() == [0, 2, 2, 0] and x._version == 1
    x[::2].zero_()
    assert x.tolist() == [0, 2, 0, 0] and x._version == 2
    refuses(
        RuntimeError,
        "more than one element of the written-to tensor",
        lambda: weft.zeros(1).expand(3).fill_(weft.ones(())),
    )
    assert weft.zeros(2, device="meta").fill_(3).copy_(weft.ones(2)).zero_().is_meta


def test_apply_and_map() -> None:
    x = weft.arange(3.0)
    assert x.apply_(lambda value: value * 2).tolist() == [0, 2, 4]
    assert x.map_(weft.tensor(1.0), lambda a, b: a - b).tolist() == [-1, 1, 3]


def test_saved_values_notice_writes() -> None:
    x = weft.ones(2, requires_grad=True)
    y = x * 2
    z = y * y
    y.copy_(weft.zeros(2))
    refuses(RuntimeError, "modified by an inplace operation", lambda: z.sum().backward())
    assert np.array_equal(y.detach().numpy(), [0, 0])


def test_copies_from_more_dimensions_are_refused() -> None:
    """Also where these have one element each, which NumPy would drop."""
    for target, source in (((3,), (1, 3)), ((2, 3), (1, 1, 2, 3)), ((), (1,)), ((), (1, 1))):
        text = f"output with shape {list(target)} doesn't match the broadcast shape {list(source)}"
        given = weft.ones(source)
        for call in (weft.Tensor.copy_, weft.compile(lambda x, y: x.copy_(y))):
            with pytest.raises(RuntimeError, match=re.escape(text)):
                call(weft.zeros(target), given)
        with pytest.raises(RuntimeError, match=re.escape(text)):
            weft.zeros(target).copy_(given.requires_grad_())
    x = weft.zeros(3)
    x[:] = weft.ones(1, 3)  # but not those of assignments
    assert x.tolist() == [1, 1, 1]


def test_maps_over_three_tensors():
    x = weft.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert x.map2_(weft.tensor([10.0, 20.0]), weft.tensor(0.5), lambda a, b, c: a + b * c) is x
    assert x.tolist() == [[6.0, 12.0], [8.0, 14.0]]
    with pytest.raises(RuntimeError, match="Can't call map2_"):
        x.map2_(weft.ones(2, requires_grad=True), x, lambda a, b, c: a)


def test_what_takes_the_place_of_a_loaded_tensor():
    x, other = weft.zeros(2), weft.ones(2)
    assert x.module_load(other).tolist() == [1.0, 1.0] and x.tolist() == [1.0, 1.0]
    assert x.module_load(other, assign=True).data_ptr() == other.data_ptr() == other.const_data_ptr()
