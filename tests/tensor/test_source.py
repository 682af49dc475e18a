"""Faces: older positional forms, numbers among the tensors, eager and captured."""

from __future__ import annotations

from typing import Any

import pytest

import weft

A, B, C = weft.tensor([1.0, 2.0]), weft.tensor([3.0, 5.0]), weft.tensor([7.0, 11.0])
M = weft.arange(4.0).reshape(2, 2)
OLDER: dict[str, tuple[Any, Any]] = {
    "add": (lambda: weft.add(A, 2, B), lambda: weft.add(A, B, alpha=2)),
    "add_": (lambda: A.clone().add_(2, B), lambda: weft.add(A, B, alpha=2)),
    "sub_": (lambda: A.clone().sub_(0.5, B), lambda: weft.sub(A, B, alpha=0.5)),
    "addcmul": (lambda: weft.addcmul(A, 2, B, C), lambda: weft.addcmul(A, B, C, value=2)),
    "addcdiv_": (lambda: A.clone().addcdiv_(2, B, C), lambda: weft.addcdiv(A, B, C, value=2)),
    "addmm": (lambda: weft.addmm(2, M, 3, M, M), lambda: weft.addmm(M, M, M, beta=2, alpha=3)),
    "addmm method": (lambda: M.addmm(2, M, M), lambda: weft.addmm(M, M, M, beta=2)),
    "addmv_": (lambda: A.clone().addmv_(2, 3, M, B), lambda: weft.addmv(A, M, B, beta=2, alpha=3)),
    "addr": (lambda: weft.addr(2, M, A, B), lambda: weft.addr(M, A, B, beta=2)),
    "baddbmm": (
        lambda: weft.baddbmm(2, M[None], 3, M[None], M[None]),
        lambda: weft.baddbmm(M[None], M[None], M[None], beta=2, alpha=3),
    ),
}


@pytest.mark.parametrize("name", OLDER)
def test_older_forms(name: str) -> None:
    older, newer = OLDER[name]
    assert weft.equal(older(), newer())
    for backend in ("aot_eager", "native"):
        assert weft.allclose(weft.compile(older, backend=backend, fullgraph=True)(), newer())


def test_older_forms_have_gradients() -> None:
    x = A.clone().requires_grad_()
    y = B.clone().requires_grad_()
    weft.addcmul(x, 2, x, y).sum().backward()
    assert weft.equal(x.grad, 1 + 2 * B) and weft.equal(y.grad, 2 * A)


def test_what_is_no_older_form() -> None:
    """As many tensors as there are, and numbers that have names."""
    for call in (lambda: weft.add(A, B, C), lambda: weft.add(A, 2, 3, B), lambda: weft.mul(A, 2, B)):
        with pytest.raises(TypeError, match="takes 2 positional arguments"):
            call()
    with pytest.raises(TypeError, match="takes 3 positional arguments but 6 were given"):
        weft.addmm(1, M, 2, 3, M, M)


def test_views_as_other_dtypes() -> None:
    x = weft.tensor([1.0, 2.0])
    assert weft.equal(x.view(dtype=weft.int32), x.view(weft.int32))
    assert weft.equal(weft.compile(lambda a: a.view(dtype=weft.int32) + 1)(x), x.view(weft.int32) + 1)
