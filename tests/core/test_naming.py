"""Naming: texts and classes say the name in force, and the library still knows its own."""

from __future__ import annotations

from weft.core.naming import home, named, naming, rename


def test_named_speaks_the_name_in_force(monkeypatch):
    text = "argument 'dtype' must be weft.dtype; see weft.nn.Module, ./weft.txt or weft. There"
    assert named(text) == text
    monkeypatch.setattr(naming, "namespace", "torch")
    assert (
        named(text) == "argument 'dtype' must be torch.dtype; see torch.nn.Module, ./torch.txt or weft. There"
    )


def test_reprs_speak_the_name_in_force(monkeypatch):
    import weft

    value = weft.ones(2, dtype=weft.float64)
    assert repr(value) == "tensor([1., 1.], dtype=weft.float64)"
    monkeypatch.setattr(naming, "namespace", "torch")
    assert repr(value) == "tensor([1., 1.], dtype=torch.float64)"
    assert repr(value.shape) == "torch.Size([2])"
    assert value.type() == "torch.DoubleTensor"
    assert repr(weft.contiguous_format) == "torch.contiguous_format"


def test_a_renamed_class_has_its_home():
    class Kind:
        pass

    before = Kind.__module__
    assert home(Kind) == before
    rename(Kind, "elsewhere.one")
    rename(Kind, "elsewhere.two")
    assert (Kind.__module__, home(Kind)) == ("elsewhere.two", before)
