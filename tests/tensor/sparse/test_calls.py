"""Gradients of sparse tensors and to them: by finite differences, as values, and beside torch."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import weft

INDICES = [[0, 1, 1, 0], [2, 0, 2, 2]]
FUNCTIONS = {
    "to_dense": lambda s, d: s.to_dense() ** 2,
    "coalesce": lambda s, d: s.coalesce().values() ** 2,
    "mm": lambda s, d: s @ d.t(),
    "dense @ sparse": lambda s, d: d.t() @ s,
    "sparse @ sparse": lambda s, d: (s @ (s.t() * 2)).to_dense(),
    "mv": lambda s, d: s @ d[0],
    "addmm": lambda s, d: weft.addmm(d @ d.t(), s, d.t(), beta=2, alpha=3),
    "scaled": lambda s, d: (s * 3 / 2 - s).to_dense() ** 2,
    "sparse + sparse": lambda s, d: (s + (s * d)).to_dense() ** 2,
    "sparse * sparse": lambda s, d: (s * (s * d)).to_dense(),
    "dense + sparse": lambda s, d: (d + s) ** 2,
    "transposed": lambda s, d: (s.t() * d.t()).to_dense(),
    "sum": lambda s, d: weft.sparse.sum(s * d, 0).to_dense() ** 2,
    "sum of all": lambda s, d: (s * d).sum(),
    "softmax": lambda s, d: weft.sparse.softmax(s * d, 1).to_dense() * d,
    "log_softmax": lambda s, d: weft.sparse.log_softmax(s * d, 0).to_dense() * d,
    "sin": lambda s, d: (s * d).sin().to_dense(),
    "mask": lambda s, d: (d * d).sparse_mask(s).to_dense(),
    "sparse mask": lambda s, d: (s * s).sparse_mask(s * d).to_dense(),
    "index_select": lambda s, d: s.index_select(1, weft.tensor([2, 2, 0])).to_dense() * d,
    "row": lambda s, d: (s * d)[1].to_dense() * d[0],
    "cat": lambda s, d: weft.cat([s, s * d]).to_dense() ** 2,
    "csr": lambda s, d: s.to_sparse_csr() @ d.t(),
    "bsr": lambda s, d: s.to_sparse_bsr((1, 3)).to_dense() * d,
    "sampled": lambda s, d: weft.sparse.sampled_addmm(s.to_sparse_csr(), d @ d.t(), d).to_dense(),
    "norm": lambda s, d: (s * d).norm(),
    "from dense": lambda s, d: (d.to_sparse() * s).to_dense(),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients_to_second_order(name):
    values = weft.tensor([1.0, 2.0, 3.0, 4.0], dtype=weft.float64, requires_grad=True)
    dense = (weft.arange(1.0, 7.0, dtype=weft.float64).reshape(2, 3) / 4).requires_grad_()

    def function(values, dense):
        return FUNCTIONS[name](weft.sparse_coo_tensor(INDICES, values, (2, 3)), dense)

    assert weft.autograd.gradcheck(function, (values, dense))
    assert weft.autograd.gradgradcheck(function, (values, dense))


def leaf(requires_grad=True):
    return weft.sparse_coo_tensor(INDICES, [1.0, 2.0, 3.0, 4.0], (2, 3), requires_grad=requires_grad)


def test_the_gradient_has_each_place_once():
    s = leaf()
    (s.to_dense() * weft.arange(6.0).reshape(2, 3)).sum().backward()
    assert s.grad.indices().tolist() == [[0, 1, 1], [2, 0, 2]]
    assert s.grad.values().tolist() == [2.0, 3.0, 5.0]
    assert s.grad is s.grad and s.is_leaf and s.grad_fn is None


def test_gradients_add_up_and_are_dropped():
    s = leaf()
    s.to_dense().sum().backward()
    s.to_dense().sum().backward()
    assert s.grad.values().tolist() == [2.0, 2.0, 2.0]
    s.grad = None
    assert s.grad is None
    s.grad = weft.ones(2, 3).to_sparse()
    assert s.grad.to_dense().tolist() == [[0.0, 0.0, 1.0], [1.0, 0.0, 1.0]]
    with pytest.raises(RuntimeError, match="size '\\[2\\]'"):
        s.grad = weft.ones(2)


def test_grad_answers_in_the_layout_of_the_input():
    s, d = leaf(), weft.ones(3, 2, requires_grad=True)
    to_sparse, to_dense = weft.autograd.grad(weft.sparse.mm(s, d).sum(), (s, d))
    assert to_sparse.layout is weft.sparse_coo and to_sparse.values().tolist() == [2.0, 2.0, 2.0]
    assert to_dense.tolist() == [[2.0, 2.0], [0.0, 0.0], [8.0, 8.0]]
    (twice,) = weft.autograd.grad((s * 2), s, weft.ones(2, 3))
    assert twice.to_dense().tolist() == [[0.0, 0.0, 2.0], [2.0, 0.0, 2.0]]


def test_values_of_the_user_get_the_gradient():
    values = weft.tensor([3.0, 4.0], requires_grad=True)
    s = weft.sparse_coo_tensor([[0, 1], [1, 0]], values, (2, 2))
    assert not s.is_leaf and s.requires_grad
    (s * s).to_dense().sum().backward()
    assert values.grad.tolist() == [6.0, 8.0]


def test_a_leaf_made_of_a_tensor_is_another_leaf():
    values = weft.tensor([3.0, 4.0])
    s = weft.sparse_coo_tensor([[0, 1], [1, 0]], values, (2, 2), requires_grad=True)
    assert s.is_leaf and not values.requires_grad
    s.requires_grad_(False)
    assert not s.requires_grad


def test_hooks_see_sparse_gradients():
    s, seen = leaf(), []
    s.register_hook(lambda g: seen.append(g) or g * 2)
    s.to_dense().sum().backward()
    assert seen[0].layout is weft.sparse_coo and s.grad.values().tolist() == [2.0, 2.0, 2.0]


def test_writing_to_a_leaf_is_refused():
    s = leaf()
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        s.mul_(2)
    with weft.no_grad():
        s.mul_(2)
    assert s._values().tolist() == [2.0, 4.0, 6.0, 8.0]


def test_what_makes_zeros_something_else_is_refused():
    with pytest.raises(NotImplementedError, match="aten::exp.*SparseCPU"):
        leaf().exp()
    with pytest.raises(NotImplementedError, match="SparseCsrCPU"):
        leaf().to_sparse_csr().cos()


def test_transforms_close_over_sparse_tensors():
    a, x = leaf(False).coalesce(), weft.ones(4, 3, 2)
    assert weft.func.vmap(lambda x: a @ x)(x).tolist() == [[[5.0, 5.0], [5.0, 5.0]]] * 4
    assert weft.func.vmap(lambda x: a @ x)(x[..., 0]).tolist() == [[5.0, 5.0]] * 4
    assert weft.func.grad(lambda x: (a @ x).sum())(x[0]).tolist() == [[2.0, 2.0], [0.0, 0.0], [8.0, 8.0]]
    out, move = weft.func.jvp(lambda x: a @ x, (x[0],), (2 * x[0],))
    assert move.tolist() == [[10.0, 10.0], [10.0, 10.0]]


HERE_ONLY = ("sin", "index_select", "row", "sampled", "bsr", "norm", "sparse mask", "cat")
"""Whose gradients torch has no kernels for, or gives otherwise for elements whose places repeat."""


@pytest.mark.torch
@pytest.mark.parametrize("name", [name for name in FUNCTIONS if name not in HERE_ONLY])
def test_gradients_as_torch(name, monkeypatch):
    import torch

    def gradients(T):
        monkeypatch.setitem(globals(), "weft", T)
        values = T.tensor([1.0, 2.0, 3.0, 4.0], requires_grad=True)
        dense = (T.arange(1.0, 7.0).reshape(2, 3) / 4).requires_grad_()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            FUNCTIONS[name](T.sparse_coo_tensor(INDICES, values, (2, 3)), dense).sum().backward()
        return [None if x.grad is None else np.array(x.grad.to_dense().tolist()) for x in (values, dense)]

    for ours, theirs in zip(gradients(weft), gradients(torch), strict=True):
        assert (ours is None) == (theirs is None)
        assert ours is None or ours == pytest.approx(theirs, abs=1e-5)
