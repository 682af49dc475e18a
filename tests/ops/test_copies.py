"""Copies of views: the same elements, contiguous, in memory of their own."""

from __future__ import annotations

import pytest

import weft
from weft.ops.copies import SAMPLES
from weft.ops.record import REGISTRY
from weft.ops.samples import Maker


@pytest.mark.parametrize("name", SAMPLES)
def test_copies_share_nothing(name: str) -> None:
    sample = SAMPLES[name](Maker(weft.float64, 0))
    x = weft.from_numpy(sample.args[0])
    shown = REGISTRY[name](x, *sample.args[1:])
    copied = getattr(weft, name + "_copy")(x, *sample.args[1:])
    pairs = zip(copied, shown, strict=True) if isinstance(shown, (tuple, list)) else [(copied, shown)]
    for one, other in pairs:
        assert weft.equal(one, other)
        assert one.is_contiguous()
        assert one._base is None
        assert one.untyped_storage().data_ptr() != x.untyped_storage().data_ptr()


def test_what_a_view_shows_is_replaced() -> None:
    x = weft.zeros(2, 3, requires_grad=True)
    source = weft.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    out = weft.as_strided_scatter(x, source, (2, 2), (3, 1), 1)
    assert out.tolist() == [[0, 1, 2], [0, 3, 4]]
    out.sum().backward()
    assert x.grad is not None and source.grad is not None
    assert x.grad.tolist() == [[0, 1, 1], [0, 1, 1]]  # as PyTorch: of what was replaced
    assert source.grad.tolist() == [[1, 1], [1, 1]]
    with pytest.raises(RuntimeError, match="expected src to have a size equal to the slice of self"):
        weft.as_strided_scatter(x, source[0], (2, 2), (3, 1))


STRIDED = {
    "transposed": (lambda: weft.arange(12.0).reshape(3, 4).t(), ((2, 2), (1, 2), 1)),
    "every other": (lambda: weft.arange(24.0).reshape(4, 6)[:, ::2], ((2, 2), (1, 2), 1)),
    "a part": (lambda: weft.arange(24.0).reshape(4, 6)[1:, 1:3], ((2, 2), (1, 2), 9)),
    "from its start": (lambda: weft.arange(24.0).reshape(4, 6)[1:, 1:3], ((2, 2), (1, 2))),
    "expanded": (lambda: weft.arange(3.0).expand(2, 3), ((2,), (1,), 0)),
}
REPLACED = {  # what PyTorch gives
    "transposed": [[0, 100, 8], [100, 5, 9], [100, 6, 10], [100, 7, 11]],
    "every other": [[0, 100, 100], [6, 8, 10], [12, 14, 16], [18, 20, 22]],
    "a part": [[7, 8], [13, 14], [19, 20]],
    "from its start": [[100, 100], [13, 14], [19, 20]],
    "expanded": [[100, 100, 2], [0, 1, 2]],
}


@pytest.mark.parametrize("name", STRIDED)
def test_what_strides_show_of_memory_is_replaced(name: str) -> None:
    make, where = STRIDED[name]
    source = weft.full(where[0], 100.0)
    for call in (weft.as_strided_scatter, weft.compile(lambda x: weft.as_strided_scatter(x, source, *where))):
        args = (make(), source, *where) if call is weft.as_strided_scatter else (make(),)
        assert call(*args).tolist() == REPLACED[name]


def test_what_lies_beyond_memory_is_not_replaced() -> None:
    with pytest.raises(RuntimeError, match="out of bounds for storage"):
        weft.as_strided_scatter(weft.zeros(4), weft.ones(2, 2), (2, 2), (3, 1), 1)


PIECES = [
    lambda y: weft.unsafe_split(y, 2),
    lambda y: y.unsafe_split_with_sizes([2, 2]),
    lambda y: y.unsafe_chunk(2),
]


@pytest.mark.parametrize("backend", [None, "eager", "aot_eager", "native"])
@pytest.mark.parametrize("cut", PIECES)
def test_pieces_are_written_one_by_one(cut, backend) -> None:
    def run(y: weft.Tensor) -> tuple[weft.Tensor, weft.Tensor]:
        first, second = cut(y)
        first.mul_(3)
        second[0] = 5.0
        return first * second, y + 1

    x = weft.tensor([1.0, 2.0, 3.0, 4.0], requires_grad=True)
    y = x * 2
    product, whole = (run if backend is None else weft.compile(run, backend=backend))(y)
    assert (product.tolist(), whole.tolist()) == ([30, 96], [7, 13, 6, 9])  # the memory is that of y
    assert y._version == 0 and y.grad_fn.name() == "MulBackward0"
    product.sum().backward()
    assert x.grad is not None and x.grad.tolist() == [2 * 3 * 5, 2 * 3 * 8, 0, 2 * 12]


@pytest.mark.parametrize("cut", PIECES)
def test_pieces_have_versions_of_their_own(cut) -> None:
    with weft.no_grad():
        leaf = weft.ones(4, requires_grad=True)
        first, second = cut(leaf)
    first.mul_(3)
    assert leaf.tolist() == [3, 3, 1, 1] and not first.requires_grad and not first._is_view()
    assert [tensor._version for tensor in (leaf, first, second)] == [0, 1, 0]


def test_pieces_are_those_of_the_views() -> None:
    x = weft.arange(5)
    assert [len(piece) for piece in weft.unsafe_chunk(x, 2)] == [3, 2]
    assert [len(piece) for piece in weft.unsafe_split(x, 2)] == [2, 2, 1]
    assert [len(piece) for piece in x.unsafe_split_with_sizes([4, 1])] == [4, 1]


def test_gradients_of_what_is_written_through_strides() -> None:
    """As PyTorch has them: the tensor gets those of what was replaced."""

    def f(x: weft.Tensor, source: weft.Tensor) -> weft.Tensor:
        return weft.as_strided_scatter(x, source, (2, 2), (3, 1), 1)

    weights = weft.arange(6.0).reshape(2, 3)
    for call in (f, weft.compile(f)):
        x, source = weft.ones(2, 3, requires_grad=True), weft.zeros(2, 2, requires_grad=True)
        out = call(x, source)
        assert out.tolist() == [[1, 0, 0], [1, 0, 0]]
        (out * weights).sum().backward()
        assert x.grad.tolist() == [[0, 1, 2], [0, 4, 5]]
        assert source.grad.tolist() == [[1, 2], [4, 5]]


def test_elements_written_through_strides_twice() -> None:
    source = weft.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert weft.as_strided_scatter(weft.zeros(4), source, (2, 2), (1, 1)).tolist() == [1, 3, 4, 0]
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor refers to"):
        weft.as_strided_scatter(weft.zeros(4), source, (2, 2), (0, 1))
    found = weft.vmap(lambda x: weft.as_strided_scatter(x, source, (2, 2), (2, 1), 1))(weft.zeros(2, 5))
    assert found.tolist() == [[0, 1, 2, 3, 4]] * 2
