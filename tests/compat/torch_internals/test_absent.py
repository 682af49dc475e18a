"""Placeholders of names that Weft lacks."""

from __future__ import annotations

import pytest

from weft.compat.torch_internals.absent import absent


def test_what_is_asked_of_a_placeholder_is_one() -> None:
    observer = absent("torch.ao.quantization.Observer")
    assert observer.__name__ == "Observer"
    made = observer.with_args(dtype=1)(2)
    assert made.path == "torch.ao.quantization.Observer.with_args()()"


def test_a_value_is_refused() -> None:
    missing = absent("torch.inner.part")
    with pytest.raises(NotImplementedError, match=r"torch\.inner\.part is an inner part of PyTorch"):
        bool(missing)
    with pytest.raises(NotImplementedError):
        list(missing)
    with pytest.raises(NotImplementedError):
        len(missing)
    with pytest.raises(NotImplementedError), missing:
        pass


def test_it_may_be_caught_and_derived_from() -> None:
    missing = absent("torch.inner.Failure")

    class Derived(missing):  # type: ignore[misc]
        pass

    with pytest.raises(ValueError):
        try:
            raise ValueError
        except missing:
            pass
    assert issubclass(Derived, missing)
