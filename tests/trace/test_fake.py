"""Fakes tell of a tensor all but its elements."""

from __future__ import annotations

import pytest

import weft
from weft.core.device import cpu
from weft.core.types import TensorType
from weft.tensor.views import View
from weft.trace.breaks import Break
from weft.trace.fake import Originals, fake_from_type, fake_of, is_fake


def facts(tensor):
    return tensor.shape, tensor.stride(), tensor.dtype, tensor.device, tensor.requires_grad, tensor.is_leaf


@pytest.mark.parametrize(
    "make",
    [
        lambda: weft.randn(2, 3),
        lambda: weft.randn(2, 3).t(),
        lambda: weft.randn(4, 5)[1:, ::2],
        lambda: weft.zeros(0, 3, dtype=weft.int64),
        lambda: weft.randn(2, 3, requires_grad=True),
        lambda: weft.randn(2, 3, requires_grad=True) * 2,
        lambda: weft.randn(2, requires_grad=True).unsqueeze(0).expand(3, 2),
        lambda: weft.tensor(True),
        lambda: weft.randn(3, dtype=weft.bfloat16),
    ],
)
def test_a_fake_has_the_facts_of_its_tensor(make):
    tensor = make()
    fake = fake_of(tensor)
    assert is_fake(fake) and not is_fake(tensor)
    assert facts(fake) == facts(tensor)
    assert fake.is_cpu and not fake.is_meta


def test_classes_are_kept():
    parameter = weft.nn.Parameter(weft.randn(2))
    assert type(fake_of(parameter)) is type(parameter)
    assert type(fake_of(weft.randn(2))) is weft.Tensor


def test_meta_tensors_are_no_fakes():
    assert not is_fake(weft.empty(2, device="meta"))
    assert weft.empty(2, device="meta").device.type == "meta"


def test_ops_on_fakes_give_fakes_of_the_same_device():
    fake = fake_of(weft.randn(2, 3))
    for result in (
        fake + 1,
        fake.sum(0),
        fake.t(),
        weft.zeros_like(fake),
        weft.nn.functional.softmax(fake, -1),
    ):
        assert is_fake(result) and result.device == cpu
    assert is_fake(fake.view(6)) and fake.view(3, 2).stride() == (2, 1)


def test_views_of_fakes_have_the_strides_of_real_ones():
    real = weft.randn(4, 5, 6)
    fake = fake_of(real)
    for view in (
        lambda x: x.transpose(0, 2),
        lambda x: x.permute(2, 0, 1)[1],
        lambda x: x[1:3, ::2, None],
        lambda x: x.unbind(1)[2],
        lambda x: x.split(2, 1)[1],
        lambda x: x.unfold(2, 3, 2),
        lambda x: x.diagonal(0, 1, 2),
        lambda x: x.view(20, 6).t(),
        lambda x: x[:, :1].expand(4, 7, 6),
    ):
        assert facts(view(fake)) == facts(view(real))


def test_a_view_of_a_fake_that_strides_forbid_raises_as_for_a_real_tensor():
    with pytest.raises(RuntimeError, match="view size is not compatible"):
        fake_of(weft.randn(4, 5).t()).view(20)


def test_tensors_of_one_storage_share_a_version():
    base = weft.randn(4)
    base.add_(1)
    view = base[1:]
    originals = Originals()
    one, other = fake_of(base, originals), fake_of(view, originals)
    assert one.cell is other.cell and one.cell is not base.cell
    assert isinstance(other.origin, View) and other.origin.base is one
    assert fake_of(base, originals) is one


def test_fakes_from_types():
    fake = fake_from_type(TensorType((2, 3), weft.float32), True, (1, 2))
    assert facts(fake) == ((2, 3), (1, 2), weft.float32, cpu, True, True)


def test_outside_of_a_recorder_fakes_behave_as_meta_tensors_do():
    with pytest.raises(RuntimeError):
        fake_of(weft.randn(())).item()


def test_breaks_are_no_exceptions():
    assert not issubclass(Break, Exception)
    assert str(Break("kind", "what")) == "kind: what"
