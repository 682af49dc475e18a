"""Ops on sparse tensors: written down as values, and program by program beside torch."""

from __future__ import annotations

import warnings

import pytest

import weft
from weft.core.naming import naming

PROGRAMS = """
s
c
h
r
(s._indices(), s._values())
(c.indices(), c.values())
s.coalesce()
s.to_dense()
h.to_dense()
s.to_sparse_csr()
r.to_sparse()
r.to_dense()
d.to_sparse()
d.to_sparse(1)
d.to_sparse_csr()
d.to_sparse_csc()
T.eye(4).to_sparse_bsr((2, 2))
T.eye(4).to_sparse_bsc((2, 2))
T.eye(4).to_sparse_bsr((2, 2)).to_dense()
T.eye(4).to_sparse_bsr((2, 2)).t()
T.eye(2).to_sparse(layout=T.sparse_csr)
s * 2
2 * s
s / 2
s // 2
-s
s + s
c + c
c + e
s - s
c - e
c * e
d + s
d - s
d * s
s * d
s * T.ones(3)
s * T.tensor(3.0)
s / T.tensor(4.0)
s ** 2
s.sqrt()
s.sin()
s.abs()
T.relu(-s)
s.isnan()
s.double()
s.clone()
s.detach()
s.t()
c.t()
s.transpose(0, 1)
s.permute(1, 0)
h.permute(1, 0, 2)
s.unsqueeze(0)
c.unsqueeze(1)
h.unsqueeze(3)
s[0]
s[1, 2]
c[1]
h[0]
s[-1]
list(s)
len(s)
s.index_select(0, T.tensor([1, 0]))
c.index_select(1, T.tensor([2]))
T.cat([s, s])
T.cat([c, c], 1)
T.stack([s, s])
T.zeros_like(s)
T.empty_like(c)
s.sum()
s.sum(0)
s.sum(1)
s.sum(0, keepdim=True)
T.sparse.sum(s)
T.sparse.sum(s, 0)
T.sparse.sum(s, (0, 1))
T.sparse.sum(h, 2)
T.sparse.sum(h, (0, 1))
T.sparse.sum(h, (0, 2))
s.norm()
s.any()
T.sparse.softmax(s, 1)
T.sparse.softmax(c, 0)
T.sparse.softmax(h, 2)
T.sparse.softmax(h, 0)
T.sparse.log_softmax(s, 1)
s @ m
T.mm(s, m)
T.sparse.mm(s, m)
m.t() @ s.t()
s @ T.ones(3)
T.mv(s, T.ones(3))
T.sparse.mm(s, s.t())
s @ s.t()
c @ c.t()
r @ m
r @ T.ones(3)
r * 2
r + r
r.sin()
-r
r.sum()
r.t()
r[0]
r[0, 2]
T.addmm(T.ones(2, 2), s, m)
T.addmm(T.ones(2, 2), s, m, beta=2, alpha=3)
T.sparse.addmm(T.ones(2, 2), s, m)
T.bmm(T.stack([s, s]), T.stack([m, m]))
T.smm(s, m)
T.hspmm(s, m)
T.sspaddmm(T.eye(2).to_sparse(), s, m)
T.spmm(s, m)
T.nn.functional.linear(T.ones(1, 3), s)
d.sparse_mask(s)
d.sparse_mask(c)
e.sparse_mask(c)
T.sparse.sampled_addmm(r, T.ones(2, 4), T.ones(4, 3))
T.sparse.sampled_addmm(r, T.ones(2, 4), T.ones(4, 3), beta=0.5, alpha=2)
T.sparse.spdiags(T.arange(6.0).reshape(2, 3), T.tensor([0, -1]), (3, 3))
s.clone().zero_()
s.clone().mul_(2)
s.clone().div_(2)
s.clone().add_(s)
c.clone().add_(e, alpha=2)
c.clone().sub_(e)
c.clone().copy_(e)
d.clone().add_(s)
d.clone().add_(h.sum(2), alpha=-2)
d.clone().sub_(s)
s.requires_grad
(s.is_sparse, s.layout, s.is_sparse_csr, s.sparse_dim(), s.dense_dim(), s._nnz(), s.is_coalesced())
(r.is_sparse, r.layout, r.is_sparse_csr, r.sparse_dim(), r.dense_dim(), r._nnz())
(h.sparse_dim(), h.dense_dim(), h.shape, h.numel(), h.dim(), h.size(2))
(d.sparse_dim(), d.dense_dim(), d.is_sparse, d.layout)
(r.crow_indices(), r.col_indices(), r.values())
(r.t().ccol_indices(), r.t().row_indices())
s.stride()
s.is_contiguous()
s.type()
T.is_tensor(s)
s.is_same_size(c)
s.dtype
(s.element_size(), s.is_floating_point())
T.sparse_coo_tensor([[0], [0]], [3.0], (1, 1)).item()
bool(T.sparse_coo_tensor([[0], [0]], [3.0], (1, 1)))
s.to(T.float64)
s.to("cpu")
c.sparse_resize_((4, 4), 2, 0)
c.sparse_resize_and_clear_((4, 4, 2), 2, 1)
T.sparse_coo_tensor((2, 3))
T.sparse_coo_tensor(size=(2, 3), dtype=T.float64)
T.sparse_coo_tensor([[0, 1], [0, 2]], [[1.0, 2.0], [3.0, 4.0]]).shape
T.sparse_coo_tensor([[0]], [1], (2,))
T.sparse_coo_tensor([[0, 0]], [True, False], (2,)).coalesce()
T.sparse_coo_tensor(T.tensor([[0, 1]], dtype=T.int32), [1.0, 2.0], (2,))._indices().dtype
T.sparse_coo_tensor([[0, 1]], [1.0, 2.0], (2,), is_coalesced=True).is_coalesced()
T.sparse_coo_tensor([[1]], [1.0], (2,)).is_coalesced()
T.sparse_csr_tensor([0, 1, 3], [1, 0, 1], [1.0, 2, 3])
T.sparse_csr_tensor([0, 1, 3], [1, 0, 1], [1.0, 2, 3], (2, 2), dtype=T.float64)
T.sparse_csc_tensor([0, 1, 3], [1, 0, 1], [1.0, 2, 3], (2, 2))
T.sparse_bsr_tensor([0, 1, 2], [0, 1], T.ones(2, 2, 2), (4, 4))
T.sparse_compressed_tensor([0, 1, 3], [1, 0, 1], [1.0, 2, 3], (2, 2), layout=T.sparse_csr)
T.sparse_coo_tensor(T.zeros(2, 0, dtype=T.long), T.zeros(0), (2, 3))
T.crow_indices_copy(r)
"""

EQUAL = """
s * s
s * c
c * s
s.add(c, alpha=3)
c.clone().add_(s)
c.index_select(0, T.tensor([1, 0, 1]))
s.index_select(1, T.tensor([2, 0]))
r @ r.t().to_sparse_csr()
h * h
h.index_select(2, T.tensor([1]))
T.bmm(T.stack([s, c]), T.stack([m, m]))
"""
"""Where torch stores the same in another order."""

REFUSED = """
s.indices()
s.values()
s.numpy()
s.reshape(6)
s.data_ptr()
s.untyped_storage()
bool(s)
s.item()
s + d
s + 1
1 - s
s / d
s ** 0
s.__setitem__((0, 0), 1)
d.clone().copy_(s)
s @ T.ones(2, 3)
s @ m.double()
r.indices()
r.is_coalesced()
r.coalesce()
r.stride()
d.indices()
d.values()
d.coalesce()
d.is_coalesced()
d.crow_indices()
d.to_sparse(3)
s.to_dense(T.float64)
T.sparse.sum(d)
T.sparse_coo_tensor([[0, 1], [0, 1]], [1.0, 2.0, 3.0], (2, 2))
T.sparse_coo_tensor([[0, 1], [0, 1]], [1.0, 2.0], (2,))
T.sparse_coo_tensor([[0, 1], [0, 1]], [1.0, 2.0], (2, 2, 2))
T.sparse_coo_tensor([[0, 1], [0, 1]], [[1.0, 2.0], [3, 4]], (2, 2, 3))
T.sparse_coo_tensor([[0, 2], [0, 1]], [1.0, 2.0], (2, 2), check_invariants=True)
T.sparse_coo_tensor([[0, -2], [0, 1]], [1.0, 2.0], (2, 2), check_invariants=True)
"""

LACKING = """
s.exp()
s.cos()
s == s
T.equal(s, s)
T.ones_like(s)
s.max()
s.mean()
s.view(6)
T.sparse.softmax(d, 1)
d._nnz()
d._indices()
r._indices()
"""
"""What torch has no kernel for: its text lists its backends, so the class of the error is compared."""


def operands(T):
    """A tensor with a place that repeats, a coalesced one, another, a hybrid one, a CSR one, dense ones."""
    s = T.sparse_coo_tensor([[0, 1, 1, 0], [2, 0, 2, 2]], [1.0, 2.0, 3.0, 4.0], (2, 3))
    c = T.sparse_coo_tensor([[0, 1], [1, 2]], [5.0, 6.0], (2, 3)).coalesce()
    e = T.sparse_coo_tensor([[0, 1], [1, 0]], [7.0, 8.0], (2, 3)).coalesce()
    h = T.sparse_coo_tensor([[0, 1, 0], [1, 0, 1]], [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], (2, 3, 2))
    r = T.sparse_csr_tensor([0, 1, 3], [2, 0, 2], [5.0, 2.0, 3.0], (2, 3))
    d = T.arange(1.0, 7.0).reshape(2, 3)
    m = T.arange(6.0).reshape(3, 2)
    return {"T": T, "s": s, "c": c, "e": e, "h": h, "r": r, "d": d, "m": m}


def run(text, T):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return eval(text, operands(T))


def told(text, T):
    """What a program gives, as text."""
    return [line.rstrip() for line in repr(run(text, T)).split("\n")]


@pytest.mark.torch
@pytest.mark.parametrize("text", PROGRAMS.split("\n")[1:-1])
def test_as_torch(text, monkeypatch):
    import torch

    monkeypatch.setattr(naming, "namespace", "torch")  # lines are as long as torch's
    assert told(text, weft) == told(text, torch)


@pytest.mark.torch
@pytest.mark.parametrize("text", EQUAL.split("\n")[1:-1])
def test_equals_torch(text):
    import torch

    ours, theirs = run(text, weft), run(text, torch)
    assert ours.layout is getattr(weft, str(theirs.layout).removeprefix("torch."))
    assert ours.to_dense().tolist() == theirs.to_dense().tolist()


def refusal(text, T):
    with pytest.raises(Exception) as caught:
        run(text, T)
    return type(caught.value).__name__, str(caught.value).split(" (FYI")[0].replace("torch.", "weft.")


@pytest.mark.torch
@pytest.mark.parametrize("text", REFUSED.split("\n")[1:-1])
def test_refuses_as_torch(text):
    import torch

    assert refusal(text, weft) == refusal(text, torch)


@pytest.mark.torch
@pytest.mark.parametrize("text", LACKING.split("\n")[1:-1])
def test_lacks_what_torch_lacks(text):
    import torch

    assert refusal(text, weft)[0] == refusal(text, torch)[0]
