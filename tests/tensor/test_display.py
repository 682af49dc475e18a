"""What tensors look like: which facts `repr` shows, and format specifications."""

from __future__ import annotations

import pytest

import weft


def test_repr_shows_what_the_elements_do_not() -> None:
    assert repr(weft.tensor([1.0, 2.5])) == "tensor([1.0000, 2.5000])"
    assert repr(weft.tensor([1, 2], dtype=weft.int8)) == "tensor([1, 2], dtype=weft.int8)"
    assert repr(weft.ones(2, requires_grad=True)) == "tensor([1., 1.], requires_grad=True)"
    assert repr(weft.ones(2, requires_grad=True) * 2) == "tensor([2., 2.], grad_fn=<MulBackward0>)"
    assert repr(weft.zeros(2, 3, device="meta")) == "tensor(..., device='meta', size=(2, 3))"
    assert repr(weft.zeros(0, 2)) == "tensor([], size=(0, 2))"
    assert str(weft.tensor(3)) == "tensor(3)"
    assert weft.tensor([1]).__repr__(tensor_contents="x") == "tensor(x)"


def test_default_dtype_is_not_shown() -> None:
    weft.set_default_dtype(weft.float64)
    try:
        assert repr(weft.tensor([1.5])) == "tensor([1.5000])"
        assert repr(weft.tensor([1.5], dtype=weft.float32)) == "tensor([1.5000], dtype=weft.float32)"
    finally:
        weft.set_default_dtype(weft.float32)


def test_a_view_shows_its_present_history() -> None:
    base = weft.zeros(2)
    view = base[:1]
    base.mul_(weft.ones(2, requires_grad=True))
    assert "grad_fn=" in repr(view)


def test_subclasses_show_their_name() -> None:
    class Special(weft.Tensor):
        pass

    assert repr(weft.ones(1).as_subclass(Special)) == "Special([1.])"


def test_format_specifications() -> None:
    assert (
        f"{weft.tensor(3.14159):.2f}" == "3.14"
        and f"{weft.tensor(7)}" == "7"
        and f"{weft.tensor(5):03d}" == "005"
    )
    assert f"{weft.ones(2)}" == "tensor([1., 1.])"
    with pytest.raises(TypeError, match="unsupported format string passed to Tensor.__format__"):
        format(weft.ones(2), ".2f")


def test_printoptions() -> None:
    with weft.printoptions(precision=2):
        assert repr(weft.tensor([1.5])) == "tensor([1.50])"
    assert weft.get_printoptions()["precision"] == 4


def test_what_stands_for_a_tensor_in_a_graph_shows_its_size() -> None:
    graph = weft.compiler.explain(lambda x: x.relu() + 1)(weft.ones(2, 3)).graphs[0].graph
    assert [repr(node.meta["val"]) for node in graph.nodes if "val" in node.meta][:3] == [
        "FakeTensor(..., size=(2, 3))"
    ] * 3


def test_text_of_a_tensor_is_not_folded_while_capturing() -> None:
    compiled = weft.compile(lambda x: f"{x + 1}")
    texts = [compiled(weft.full((2,), float(value))) for value in (1, 2)]
    assert texts == ["tensor([2., 2.])", "tensor([3., 3.])"]
