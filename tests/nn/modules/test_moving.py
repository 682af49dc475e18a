"""Modules in other dtypes and on other devices."""

import pytest

import weft
from weft import nn


class Holder(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(weft.ones(2))
        self.register_buffer("mean", weft.zeros(2))
        self.register_buffer("count", weft.tensor(0))


def nested():
    root = Holder()
    root.inner = Holder()
    root.inner.again = root.weight
    return root


@pytest.mark.parametrize("name", ["float", "double", "half", "bfloat16"])
def test_casts_touch_floating_point_only(name):
    kind = {"float": weft.float32, "double": weft.float64, "half": weft.float16}.get(name, weft.bfloat16)
    root = nested()
    weights = list(root.parameters())
    assert getattr(root.double() if name == "float" else root, name)() is root
    assert [p.dtype for p in root.parameters()] == [kind, kind]
    assert all(new is old for new, old in zip(root.parameters(), weights, strict=True))
    assert root.inner.again is root.weight
    assert root.inner.mean.dtype is kind and root.count.dtype is weft.int64


def test_gradients_move_too():
    m = Holder()
    m.weight.grad = weft.ones(2)
    gradient = m.weight.grad
    m.double()
    assert m.weight.grad is gradient and gradient.dtype is weft.float64


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [
        ((weft.float64,), {}),
        (("cpu", weft.float64), {}),
        ((weft.device("cpu"), weft.float64, True), {}),
        ((weft.ones(1, dtype=weft.float64),), {}),
        ((), {"dtype": weft.float64, "device": "cpu", "non_blocking": True}),
    ],
)
def test_overloads_of_to(args, kwargs):
    m = Holder()
    assert m.to(*args, **kwargs) is m
    assert m.weight.dtype is m.mean.dtype is weft.float64 and m.count.dtype is weft.int64


def test_to_without_wishes_changes_nothing():
    m = Holder()
    data = m.weight.data_ptr()
    m.to()
    m.to("cpu")
    assert m.weight.data_ptr() == data


@pytest.mark.parametrize("kind", [weft.int32, weft.bool])
def test_to_refuses_integers(kind):
    with pytest.raises(TypeError, match="nn.Module.to only accepts floating point or complex dtypes"):
        Holder().to(kind)


@pytest.mark.parametrize(
    ("args", "kwargs", "got"),
    [
        ((weft.ones(1), weft.float32), {}, r"\(Tensor, weft.dtype\)"),
        ((), {"other": 1}, r"\(other=int, \)"),
        (("cpu",), {"device": "cpu"}, r"\(str, device=str, \)"),
    ],
)
def test_to_refuses_what_it_does_not_know(args, kwargs, got):
    with pytest.raises(TypeError, match=rf"to\(\) received an invalid combination of arguments - got {got}"):
        Holder().to(*args, **kwargs)


def test_complex_modules_warn():
    with pytest.warns(UserWarning, match="Complex modules are a new feature"):
        m = Holder().to(weft.complex64)
    assert m.weight.dtype is weft.complex64


def test_memory_format_touches_images_only():
    m = nn.Module()
    m.kernel = nn.Parameter(weft.ones(2, 3, 4, 5))
    m.vector = nn.Parameter(weft.ones(2))
    m.to(memory_format=weft.channels_last)
    assert m.kernel.is_contiguous(memory_format=weft.channels_last) and m.vector.is_contiguous()


def test_type():
    m = nn.Module()
    m.weight = nn.Parameter(weft.ones(2))
    assert m.type(weft.float64).weight.dtype is weft.float64
    with pytest.raises(
        RuntimeError, match="data set to a tensor that requires gradients must be floating point"
    ):
        m.type(weft.int32)


def test_to_another_device_makes_new_parameters():
    m = Holder()
    before = m.weight
    before.grad = weft.ones(2)
    m.to("meta")
    assert m.weight is not before and isinstance(m.weight, nn.Parameter) and m.weight.is_meta
    assert m.weight.requires_grad and m.weight.grad.is_meta and m.count.is_meta
    with pytest.raises(NotImplementedError, match="Please use weft.nn.Module.to_empty"):
        m.to("cpu")
    m.to_empty(device="cpu")
    assert m.weight.shape == (2,) and not m.weight.is_meta and not m.count.is_meta


def test_to_empty_keeps_to_itself_if_asked():
    root = nested()
    root.to_empty(device="meta", recurse=False)
    assert root.weight.is_meta and not root.inner.weight.is_meta
    with pytest.raises(TypeError, match="required keyword-only argument: 'device'"):
        root.to_empty()


def test_share_memory_and_cpu_give_the_module():
    m = Holder()
    assert m.share_memory() is m and m.cpu() is m
    with pytest.raises(AssertionError):
        m.cuda()
