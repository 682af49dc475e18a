"""The namespace `weft.sparse`: errors of its functions, and checks of gradients of sparse tensors."""

from __future__ import annotations

import pytest

import weft


def matrix():
    return weft.sparse_coo_tensor([[0, 1, 1], [2, 0, 2]], [1.0, 2.0, 3.0], (2, 3), dtype=weft.float64)


def test_products():
    a = matrix()
    assert weft.sparse.mm(a, weft.ones(3, 1, dtype=a.dtype)).tolist() == [[1.0], [5.0]]
    assert weft.sparse.mm(a, a.t()).to_dense().tolist() == [[1.0, 3.0], [3.0, 13.0]]
    with pytest.raises(RuntimeError, match="Expected dim 0 size 3, got 2"):
        weft.sparse.mm(a, weft.ones(2, 1, dtype=a.dtype))
    with pytest.raises(RuntimeError, match="expected scalar type Double but found Float"):
        weft.sparse.mm(a, weft.ones(3, 1))
    with pytest.raises(NotImplementedError, match="reduce='amax'"):
        weft.sparse.mm(a, a.t(), "amax")


def test_softmax_is_over_what_is_stored():
    rows = weft.sparse.softmax(matrix(), 1).to_dense()
    assert rows.sum(1).tolist() == pytest.approx([1.0, 1.0]) and rows[0].tolist() == [0.0, 0.0, 1.0]
    with pytest.raises(NotImplementedError, match="_sparse_softmax"):
        weft.sparse.softmax(weft.ones(2, 2), 1)


def test_diagonals():
    made = weft.sparse.spdiags(weft.arange(6.0).reshape(2, 3), weft.tensor([0, -1]), (3, 3))
    assert made.to_dense().tolist() == [[0.0, 0.0, 0.0], [3.0, 1.0, 0.0], [0.0, 4.0, 2.0]]
    with pytest.raises(RuntimeError, match="duplicate"):
        weft.sparse.spdiags(weft.ones(2, 3), weft.tensor([1, 1]), (3, 3))


def test_gradcheck_takes_sparse_tensors():
    check = weft.sparse.as_sparse_gradcheck(weft.autograd.gradcheck)
    assert check(lambda a, x: a @ x, (matrix().requires_grad_(), weft.ones(3, 2, dtype=weft.float64)))
    wrong = lambda a: a.detach() * a.to_dense()
    with pytest.raises(RuntimeError, match="Jacobian"):
        check(wrong, (matrix().requires_grad_(),))
