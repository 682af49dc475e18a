"""Constructors: what is checked always, and what `check_invariants` checks."""

from __future__ import annotations

import pytest

import weft

GOOD = ([0, 1, 3], [1, 0, 1], [1.0, 2.0, 3.0], (2, 2))
WRONG = {
    "indices\\[..., 0\\] == 0": ([1, 1, 3], [1, 0, 1], [1.0, 2.0, 3.0], (2, 2)),
    "indices\\[..., -1\\] == nnz": ([0, 1, 4], [1, 0, 1], [1.0, 2.0, 3.0], (2, 2)),
    "indices < n": ([0, 1, 3], [1, 0, 5], [1.0, 2.0, 3.0], (2, 2)),
    "sorted and distinct": ([0, 1, 3], [1, 1, 0], [1.0, 2.0, 3.0], (2, 2)),
    "must be equal to the number of": ([0, 1, 3, 3], [1, 0, 1], [1.0, 2.0, 3.0], (2, 2)),
    "0 <= .* <= n": ([0, 3, 2], [1, 0], [1.0, 2.0], (2, 2)),
}


@pytest.mark.parametrize("name", ["sparse_csr_tensor", "sparse_csc_tensor"])
@pytest.mark.parametrize("text", WRONG)
def test_invariants_of_compressed_layouts(name, text):
    make = getattr(weft, name)
    assert make(*GOOD, check_invariants=True).to_dense().sum().item() == 6.0
    make(*WRONG[text])  # nobody looks
    with pytest.raises(RuntimeError, match=text):
        make(*WRONG[text], check_invariants=True)
    with weft.sparse.check_sparse_tensor_invariants(), pytest.raises(RuntimeError, match=text):
        make(*WRONG[text])
    make(*WRONG[text])


def test_invariants_of_coordinates():
    with pytest.raises(RuntimeError, match="for dim 0, size is 2 but found index 2"):
        weft.sparse_coo_tensor([[0, 2], [0, 1]], [1.0, 2.0], (2, 2), check_invariants=True)


def test_switches_of_checks():
    checks = weft.sparse.check_sparse_tensor_invariants
    assert not checks.is_enabled()
    checks.enable()
    assert checks.is_enabled()
    with checks(False):
        assert not checks.is_enabled()
    checks.disable()
    assert checks(True)(checks.is_enabled)() and not checks.is_enabled()


def test_what_does_not_fit_is_refused():
    with pytest.raises(
        RuntimeError, match="must have same nnz, but got nnz from indices: 1, nnz from values: 2"
    ):
        weft.sparse_coo_tensor([[0]], [1.0, 2.0], (2,))
    with pytest.raises(TypeError, match="unexpected keyword argument 'colour'"):
        weft.sparse_csr_tensor(*GOOD, colour=1)
    with pytest.raises(RuntimeError, match="found negative index -1 for dim 0"):
        weft.sparse_coo_tensor([[-1]], [1.0])


def test_meta_tensors_are_refused():
    with pytest.raises(NotImplementedError, match="has no sparse form"):
        weft.ones(2, device="meta").to_sparse()
