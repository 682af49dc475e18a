"""vmap: dimensions, trees, chunks, and PyTorch's refusals."""

from __future__ import annotations

from typing import Any

import pytest

import weft
from weft.autograd.mapping import spread, structure
from weft.func import vmap

X = weft.arange(6.0).reshape(2, 3)


def test_structures() -> None:
    assert structure((1, {"a": 2})) == "TreeSpec(tuple, None, [*,\n  TreeSpec(dict, ['a'], [*])])"
    assert spread(0, {"a": 1, "b": (2, 3)}) == [0, 0, 0]
    assert spread((0, (1, None)), (5, (6, {"c": 7, "d": 8}))) == [0, 1, None, None]
    assert spread((0, 1), (1,)) is None and spread({"a": 0}, {"b": 1}) is None and spread([0], (1,)) is None


def test_dimensions() -> None:
    assert vmap(lambda a: a.sum(), in_dims=1)(X).tolist() == [3, 5, 7]
    assert vmap(lambda a: a.sum(), in_dims=-1)(X).tolist() == [3, 5, 7]
    assert vmap(lambda a: a, out_dims=1)(X).shape == (3, 2) and vmap(lambda a: a, out_dims=-1)(X).shape == (
        3,
        2,
    )
    assert vmap(lambda a, b: a * b, in_dims=(0, None))(X, 2).tolist() == (X * 2).tolist()
    found = vmap(lambda a: {"z": a, "q": (a, a.sum())}, out_dims={"z": 1, "q": (0, 0)})(X)
    assert found["z"].shape == (3, 2) and found["q"][1].tolist() == [3, 12]
    assert (
        vmap(lambda tree: tree["a"] + tree["b"], in_dims=({"a": 0, "b": None},))({"a": X, "b": 1.0}).shape
        == X.shape
    )
    assert vmap(lambda a: weft.ones(2))(X).tolist() == [[1, 1], [1, 1]]
    assert vmap(lambda a: weft.ones(2), out_dims=None)(X).tolist() == [1, 1]
    assert vmap(lambda a, b: a * b)(X, b=2.0).tolist() == (X * 2).tolist()
    assert vmap(lambda a: a * 2)(weft.ones(0, 3)).shape == (0, 3)
    assert vmap(weft.sin).__name__ == "sin"


def test_chunks() -> None:
    sizes: list[int] = []

    def function(a: Any) -> Any:
        sizes.append(a.level.size)
        return a * 2, a.sum()

    doubled, sums = vmap(function, in_dims=1, out_dims=(1, 0), chunk_size=2)(X)
    assert doubled.tolist() == (X * 2).tolist() and sums.tolist() == [3, 5, 7] and sizes == [2, 1]


STRUCTURE = (
    r"in_dims has structure TreeSpec\(tuple, None, \[\*\]\) but inputs has structure TreeSpec\(tuple, None"
)
LAMBDA = r"vmap\(<lambda>, in_dims="


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: vmap(lambda a, b: a, in_dims=(0,))(X, X), ValueError, STRUCTURE),
        (
            lambda: vmap(lambda a: a, in_dims="a")(X),
            ValueError,
            LAMBDA + r"a, ...\)\(<inputs>\): expected `in_dims` to be",
        ),
        (
            lambda: vmap(lambda a: a, in_dims=[0])(X),
            ValueError,
            r"matching the structure of inputs, got: <class 'list'>.",
        ),
        (
            lambda: vmap(lambda a: a, in_dims=(0.0,))(X),
            ValueError,
            "Got in_dim=0.0 for an input but in_dim must be eith",
        ),
        (
            lambda: vmap(lambda a: a, in_dims=(None,))(X),
            ValueError,
            "vmap: Expected at least one Tensor to vmap over",
        ),
        (
            lambda: vmap(lambda a: a, in_dims=3)(X),
            ValueError,
            "of dimensionality 2 so expected in_dim to satisfy -2 <= in_",
        ),
        (
            lambda: vmap(lambda a: a)(weft.ones(())),
            ValueError,
            "expected in_dim to satisfy -0 <= in_dim < 0.",
        ),
        (
            lambda: vmap(lambda a, b: a)(X, 2),
            ValueError,
            "We cannot vmap over non-Tensor arguments, please use None",
        ),
        (
            lambda: vmap(lambda: X)(),
            ValueError,
            r"vmap\(<lambda>\)\(<inputs>\): got no inputs. Maybe you forgot to add",
        ),
        (
            lambda: vmap(lambda a, b: a)(X, weft.ones(3)),
            ValueError,
            r"got sizes \[2, 3\] for the mapped dimension",
        ),
        (
            lambda: vmap(lambda a: None)(X),
            ValueError,
            "must only return Tensors, got type <class 'NoneType'>. Did you mea",
        ),
        (
            lambda: vmap(lambda a: a, out_dims=None)(X),
            ValueError,
            "can not return a BatchedTensor when out_dim is None",
        ),
        (lambda: vmap(lambda a: a, out_dims=2)(X), IndexError, r"in range of \[-2, 1\], but got 2"),
        (
            lambda: vmap(lambda a: (a, a), out_dims=(0, 1, 2))(X),
            ValueError,
            "out_dims is not compatible with the structure",
        ),
        (
            lambda: vmap(lambda a: a, out_dims="a")(X),
            ValueError,
            "`out_dims` must be an int, None or a python collection",
        ),
        (
            lambda: vmap(lambda a: a, out_dims=(0, 1.0))(X),
            ValueError,
            r"out_dims=\(0, 1.0\)\): `out_dims` must be an int",
        ),
        (
            lambda: vmap(lambda a: a, randomness="foo"),
            RuntimeError,
            "'error', 'different', or 'same'. Got foo",
        ),
        (
            lambda: vmap(lambda a: a, chunk_size=0),
            ValueError,
            r"chunk_size should be None or greater than 0. \(got 0\)",
        ),
    ],
)
def test_refusals(call: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        call()


def test_chunks_draw_the_same_numbers_where_examples_do() -> None:
    x = weft.zeros(5, 3)
    state = weft.get_rng_state()
    whole = vmap(lambda a: a + weft.rand_like(a), randomness="same")(x)
    weft.set_rng_state(state)
    pieces = vmap(lambda a: a + weft.rand_like(a), randomness="same", chunk_size=2)(x)
    assert pieces.tolist() == whole.tolist()


def test_a_result_that_has_its_batch_in_place_is_not_moved() -> None:
    x = weft.randn(2, 5, 3)
    assert vmap(lambda a: a.contiguous(), in_dims=0)(x) is x
    assert vmap(lambda a: a, in_dims=1, out_dims=-2)(x) is x
