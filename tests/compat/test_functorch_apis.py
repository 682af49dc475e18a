"""The package `functorch` warns, and does what `torch.func` does."""

from __future__ import annotations

import warnings

import pytest

import weft
from weft import func
from weft.compat import functorch_apis as older


@pytest.mark.parametrize("name", older.MOVED)
def test_functions_of_the_older_package_say_where_they_went(name: str) -> None:
    instead = "torch.vmap" if name == "vmap" else f"torch.func.{name}"
    call = getattr(older, name)
    x = weft.tensor([0.5, 1.0])
    extra = {"vjp": (x,), "jvp": ((x,), (x,))}.get(name, ())
    with pytest.warns(FutureWarning, match=f"`functorch.{name}` is deprecated .* use `{instead}` instead"):
        call(lambda x: x.sin(), *extra)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        getattr(func, name)(lambda x: x.sin(), *extra)


def test_what_they_give_is_the_same() -> None:
    x = weft.tensor([0.5, 1.0])
    with pytest.warns(FutureWarning):
        assert older.grad(lambda x: x.sin().sum())(x).tolist() == x.cos().tolist()
