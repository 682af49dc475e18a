"""Sparse tensors as objects: facts, copies, pickles, files, modules, and captures, which break at them."""

from __future__ import annotations

import copy
import io
import pickle
import warnings

import pytest

import weft
from weft.files.errors import FileFormatError
from weft.testing import CompileCounter


def matrix(**options):
    return weft.sparse_coo_tensor([[0, 1], [2, 0]], [3.0, 4.0], (2, 3), **options)


DENSE = [[0.0, 0.0, 3.0], [4.0, 0.0, 0.0]]


def test_facts():
    s = matrix()
    assert isinstance(s, weft.Tensor) and s.is_sparse and s.layout is weft.sparse_coo
    assert (s.shape, s.dtype, s.device, s.dim(), s.numel()) == (
        (2, 3),
        weft.float32,
        weft.device("cpu"),
        2,
        6,
    )
    assert not weft.ones(2).is_sparse and repr(weft.sparse_csr) == "weft.sparse_csr"


def test_dense_tensors_say_that_they_have_no_parts():
    with pytest.raises(
        RuntimeError, match="indices expected sparse coordinate tensor layout but got Strided"
    ):
        weft.ones(2).indices()


@pytest.mark.parametrize("form", ["sparse_coo", "sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc"])
@pytest.mark.parametrize("through", ["pickle", "deepcopy", "save", "clone"])
def test_copies_are_whole(form, through):
    block = (1, 3) if form[-3] == "b" else None
    s = matrix().to_sparse(layout=getattr(weft, form), blocksize=block).requires_grad_()
    if through == "pickle":
        made = pickle.loads(pickle.dumps(s))
    elif through == "deepcopy":
        made = copy.deepcopy(s)
    elif through == "clone":
        made = s.detach().clone().requires_grad_()
    else:
        file = io.BytesIO()
        weft.save({"x": s, "again": [s]}, file)
        file.seek(0)
        loaded = weft.load(file)
        assert loaded["again"][0] is loaded["x"]
        made = loaded["x"]
    assert made is not s and made.layout is s.layout and made.requires_grad and made.is_leaf
    assert made.to_dense().tolist() == DENSE
    with weft.no_grad():
        made.zero_()
    assert s.to_dense().tolist() == DENSE


def test_files_do_not_bring_places_outside_of_the_tensor():
    file = io.BytesIO()
    weft.save(weft.sparse_coo_tensor([[0, 5], [2, 0]], [3.0, 4.0], (2, 3)), file)
    file.seek(0)
    with pytest.raises(FileFormatError, match="size is inconsistent with indices"):
        weft.load(file)


def test_modules_carry_them():
    module = weft.nn.Module()
    module.register_buffer("adjacency", matrix())
    state = {name: value * 2 for name, value in module.state_dict().items()}
    module.load_state_dict(state)
    assert module.adjacency.to_dense().tolist() == [[0.0, 0.0, 6.0], [8.0, 0.0, 0.0]]
    assert module.double().adjacency.dtype is weft.float64


def test_elements_outside_are_noticed_when_they_are_used():
    wrong = weft.sparse_coo_tensor([[0, 1], [0, 3]], [1.0, 2.0], (2, 3))
    for use in (lambda: wrong.to_dense(), lambda: wrong.coalesce(), lambda: wrong @ weft.ones(3, 1)):
        with pytest.raises((RuntimeError, IndexError)):
            use()


def test_compiled_code_breaks_where_one_is_made():
    counter = CompileCounter()

    def function(x):
        y = x * 2
        s = weft.sparse_coo_tensor([[0], [1]], y[:1], (2, 2))
        return s.to_dense() + y.sum()

    x = weft.ones(2)
    compiled = weft.compile(function, backend=counter)
    assert compiled(x).tolist() == function(x).tolist()
    assert counter.frame_count >= 1
    with pytest.raises(weft.compiler.Unsupported, match="sparse"):
        weft.compile(function, fullgraph=True)(x)


def test_compiled_code_tells_sparse_arguments_apart():
    compiled = weft.compile(lambda a, x: (a @ x + 1).sum(), backend="aot_eager")
    x = weft.ones(3, 1)
    for a in (matrix(), matrix() * 2, matrix().to_sparse_csr(), matrix().to_dense()):
        assert compiled(a, x).item() == (a @ x + 1).sum().item()


@pytest.mark.torch
def test_files_of_torch_are_read(tmp_path):
    import torch

    coo = torch.sparse_coo_tensor([[0, 1], [2, 0]], [3.0, 4.0], (2, 3), check_invariants=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that compressed layouts are new
        parts = {"coo": coo, "csr": coo.to_sparse_csr(), "csc": coo.to_sparse_csc()}
    torch.save(parts, tmp_path / "file.pt")
    for name, value in weft.load(tmp_path / "file.pt").items():
        assert value.layout is getattr(weft, f"sparse_{name}") and value.to_dense().tolist() == DENSE
