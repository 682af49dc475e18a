"""BatchTensor: what code under vmap may ask, write and draw."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft
from weft.func import grad, jacfwd, jacrev, vmap

X = weft.arange(6.0).reshape(2, 3)
PLACES = weft.tensor([0, 1])


def test_facts_are_one_examples() -> None:
    seen: list[Any] = []

    def look(a: Any) -> Any:
        seen.extend(
            [tuple(a.shape), a.ndim, a.dim(), a.numel(), len(a), a.dtype, a.device.type, a.requires_grad]
        )
        seen.extend([a.size(0), a.stride(), a.is_contiguous(), a.is_leaf, a.is_meta])
        return a

    vmap(look, in_dims=1)(X.T)
    assert seen == [(3,), 1, 1, 3, 3, weft.float32, "cpu", False, 3, (1,), True, True, False]


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (
            lambda a: a.sum().item(),
            r"vmap: It looks like you're calling .item\(\) on a Tensor. We don't support vmap",
        ),
        (lambda a: float(a.sum()), r"vmap: It looks like you're calling .item\(\) on a Tensor."),
        (
            lambda a: a if a.sum() > 0 else -a,
            "vmap: It looks like you're attempting to use a Tensor in some data-dep",
        ),
        (lambda a: a.tolist(), "Cannot access data pointer of Tensor that doesn't have storage"),
        (lambda a: a.numpy(), "Cannot access data pointer of Tensor that doesn't have storage"),
        (lambda a: a.nonzero(), "can output dynamic shape. Attempted to vmap over aten::nonzero"),
        (lambda a: a[a > 0], "Attempting to batch over indexing with a boolean mask"),
        (lambda a: a.masked_select(a > 0), "Attempted to vmap over `mask` in torch.masked_select"),
        (lambda a: weft.allclose(a, a), "vmap over torch.allclose isn't supported yet"),
        (
            lambda a: weft.zeros(3).copy_(a),
            r"vmap: inplace arithmetic\(self, \*extra_args\) is not possible because",
        ),
        (lambda a: weft.add(a, a, out=weft.zeros(3)), "the fallback path doesn't work on out= or view ops"),
        (
            lambda a: a.sum().backward(),
            r"backward\(\) called inside a functorch transform. This is not supported",
        ),
        (lambda a: a.requires_grad_(), r"You are attempting to call Tensor.requires_grad_\(\)"),
        (lambda a: weft.autograd.grad(a.sum(), a), "element 0 of tensors does not require grad"),
    ],
)
def test_refusals(function: Any, text: str) -> None:
    with pytest.raises(RuntimeError, match=text):
        vmap(function)(X)


def test_reading_by_index() -> None:
    assert vmap(lambda a, i: a[i])(X, PLACES).tolist() == [0, 4]
    assert vmap(lambda i: X[i])(PLACES).tolist() == X.tolist()
    assert vmap(lambda i: X[:, i])(PLACES).tolist() == [[0, 3], [1, 4]]
    assert vmap(lambda a, i: a[weft.stack([i, i + 1])])(X, PLACES).tolist() == [[0, 1], [4, 5]]
    assert vmap(lambda a: a[weft.tensor([2, 0])])(X).tolist() == [[2, 0], [5, 3]]
    assert vmap(lambda a: a[1:].sum() + a[-1] + a[..., 0])(X).tolist() == [5, 17]
    assert vmap(lambda a: a.masked_select(weft.tensor([True, False, True])))(X).tolist() == [[0, 2], [3, 5]]
    assert vmap(lambda a: sum(a))(X).tolist() == [3, 12]
    cube = weft.arange(24.0).reshape(2, 3, 4)
    assert vmap(lambda a, i: a[:, i])(cube, PLACES).tolist() == [
        cube[0, :, 0].tolist(),
        cube[1, :, 1].tolist(),
    ]
    gradient = vmap(grad(lambda a, i: (a[:, i] ** 2).sum()))(cube, PLACES)
    assert gradient[1, :, 1].tolist() == (2 * cube[1, :, 1]).tolist() and gradient[1, :, 0].abs().sum() == 0


def test_writing() -> None:
    batch = X.clone()
    assert vmap(lambda a: a.add_(1))(batch).tolist() == batch.tolist() == (X + 1).tolist()

    def store(a: Any, i: Any) -> Any:
        z = weft.zeros_like(a)
        z[i] = a[0] + 9
        z[2:] = 5
        z[:1].add_(a[:1])
        return z

    assert vmap(store)(X, PLACES).tolist() == [[9, 0, 5], [3, 12, 5]]
    gradient = vmap(grad(lambda a: (store(a, 1) ** 2).sum()))(X)
    assert gradient.tolist() == [[18, 0, 0], [30, 0, 0]]
    with pytest.raises(RuntimeError, match="result type Float can't be cast to the desired output type Long"):
        vmap(lambda i: i.add_(1.5))(PLACES)
    assert vmap(lambda a: a.clone().fill_(a[1]).mul_(2))(X).tolist() == [[2] * 3, [8] * 3]
    assert vmap(lambda a: a.clone().zero_())(X).abs().sum() == 0


def test_writes_are_seen_by_jacobians() -> None:
    def function(x: Any) -> Any:
        y = x * 1
        y[1:].mul_(x[:2])
        return y

    expected = [[1, 0, 0], [2, 1, 0], [0, 3, 2]]
    x = weft.tensor([1.0, 2.0, 3.0])
    assert jacrev(function)(x).tolist() == jacfwd(function)(x).tolist() == expected


DRAWS: dict[str, Any] = {
    "randn": lambda a: weft.randn(3),
    "rand": lambda a: weft.rand(3, 2),
    "randint": lambda a: weft.randint(0, 10**6, (2,)),
    "randint by high": lambda a: weft.randint(10**6, (2,)),
    "randperm": lambda a: weft.randperm(40),
    "like": lambda a: weft.rand_like(a),
    "like shared": lambda a: weft.rand_like(weft.ones(3)),
    "bernoulli": lambda a: weft.bernoulli(weft.full((60,), 0.5)),
    "dropout": lambda a: weft.nn.functional.dropout(weft.ones(60)),
    "written": lambda a: weft.zeros_like(a).normal_(),
    "uniform": lambda a: a.clone().uniform_(0, 1),
}


@pytest.mark.parametrize("name", DRAWS)
def test_randomness(name: str) -> None:
    with pytest.raises(RuntimeError, match="vmap: called random operation while in randomness error mode."):
        vmap(DRAWS[name])(X)
    first, second = vmap(DRAWS[name], randomness="same")(X)
    assert first.tolist() == second.tolist()
    first, second = vmap(DRAWS[name], randomness="different")(X)
    assert first.tolist() != second.tolist()


def test_randomness_of_batched_parameters() -> None:
    weights = weft.tensor([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    assert vmap(lambda w: weft.multinomial(w, 1), randomness="different")(weights).tolist() == [[0], [2]]
    for draw in (weft.bernoulli, lambda w: weft.multinomial(w, 1)):
        with pytest.raises(RuntimeError, match="same randomness with a batched tensor input"):
            vmap(draw, randomness="same")(weights)
    with pytest.raises(
        RuntimeError, match="Cannot ask for different inplace randomness on an unbatched tensor"
    ):
        vmap(lambda a: weft.zeros(3).normal_(), randomness="different")(X)
    assert vmap(lambda a: weft.zeros(3).normal_(), randomness="same")(X).shape == (2, 3)


@pytest.mark.parametrize(
    ("outer", "inner", "count"),
    [("same", "same", 1), ("same", "different", 3), ("different", "same", 2), ("different", "different", 6)],
)
def test_randomness_of_nested_maps(outer: str, inner: str, count: int) -> None:
    drawn = vmap(lambda a: vmap(lambda b: weft.randn(2), randomness=inner)(a), randomness=outer)(X)
    assert len({tuple(row) for rows in drawn.tolist() for row in rows}) == count


def test_dropout_is_different_for_each_example() -> None:
    found = vmap(weft.nn.functional.dropout, randomness="different")(weft.ones(2, 200))
    assert set(found.unique().tolist()) == {0, 2} and not np.array_equal(found[0].numpy(), found[1].numpy())


def test_batched_gradients_of_autograd_grad() -> None:
    x = weft.tensor([1.0, 2.0, 3.0], requires_grad=True)
    rows = weft.autograd.grad(x**3, x, weft.eye(3), is_grads_batched=True, create_graph=True)[0]
    assert rows.tolist() == weft.diag(3 * x**2).tolist()
    assert weft.autograd.grad(rows.sum(), x)[0].tolist() == [6, 12, 18]


def test_repr() -> None:
    texts: list[str] = []
    vmap(lambda a: (texts.append(repr(a)), a)[1])(weft.ones(2))
    assert texts == ["BatchedTensor(lvl=1, bdim=0, value=\n    tensor([1., 1.])\n)"]


def test_writes_through_strides_reach_each_example() -> None:
    def change(x: Any) -> Any:
        x.as_strided((2, 2), (3, 1)).mul_(2)
        return x * 1

    x = weft.arange(12.0).reshape(2, 2, 3).clone()
    expected = x.clone()
    expected[..., :2] *= 2
    assert weft.equal(vmap(change)(x), expected) and weft.equal(x, expected)


@pytest.mark.parametrize("view", [lambda x: x.unfold(1, 2, 1), lambda x: x.as_strided((2, 3), (1, 1))])
def test_sums_into_memory_that_overlaps_itself_are_refused_in_examples_too(view: Any) -> None:
    def change(x: Any) -> Any:
        view(x).add_(1)
        return x * 1

    x = weft.arange(12.0).reshape(2, 2, 3).clone()
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
        change(x[0].clone())
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
        vmap(change)(x)
    assert weft.equal(x, weft.arange(12.0).reshape(2, 2, 3))


# -- draws by several tensors --------------------------------------------------------------------------------
@pytest.mark.parametrize("shapes", [((4, 2, 3), (4, 3)), ((4, 3), (2, 3)), ((2, 3), (4, 3))])
def test_draws_by_tensors_are_those_of_the_whole_batch(shapes: Any) -> None:
    mean, std = (weft.rand(shape) for shape in shapes)
    dims = tuple(0 if shape[0] == 4 else None for shape in shapes)
    weft.manual_seed(3)
    drawn = vmap(weft.normal, in_dims=dims, randomness="different")(mean, std)
    weft.manual_seed(3)
    rank = max(len(shape) - (dim == 0) for shape, dim in zip(shapes, dims, strict=True))
    wide = [
        value.reshape(4, *(1,) * (rank - value.ndim + 1), *value.shape[1:]) if dim == 0 else value
        for value, dim in zip((mean, std), dims, strict=True)
    ]
    assert drawn.tolist() == weft.normal(*wide).tolist()


@pytest.mark.parametrize("name", ["bernoulli", "poisson", "_standard_gamma", "_sample_dirichlet", "binomial"])
def test_draws_of_a_row_for_each_row_are_those_of_the_whole_batch(name: str) -> None:
    given = [weft.rand(4, 3)] * (2 if name == "binomial" else 1)
    weft.manual_seed(3)
    drawn = vmap(getattr(weft, name), randomness="different")(*given)
    weft.manual_seed(3)
    assert drawn.tolist() == getattr(weft, name)(*given).tolist()


def test_draws_by_tensors_that_all_examples_share() -> None:
    drawn = vmap(lambda x: weft.normal(weft.zeros(3), weft.ones(3)), randomness="different")(weft.ones(4))
    assert drawn.shape == (4, 3) and len({tuple(row) for row in drawn.tolist()}) == 4


def test_probabilities_with_their_batch_last() -> None:
    x, p = weft.empty(2, 3, 4), weft.rand(3, 4)
    vmap(lambda a, q: a.bernoulli_(q), in_dims=(2, 1), out_dims=2, randomness="different")(x, p)
    assert set(x.flatten().tolist()) <= {0.0, 1.0}


def test_refusals_of_draws_by_tensors_in_place() -> None:
    def refused(randomness: str, dims: Any, match: str) -> None:
        with pytest.raises(RuntimeError, match=match):
            vmap(lambda a, q, _: a.bernoulli_(q), in_dims=(*dims, 0), randomness=randomness)(
                weft.empty(4, 3), weft.rand(4, 3), weft.ones(4)
            )

    refused("same", (0, 0), "same randomness with a batched tensor input")
    refused("different", (None, 0), "more elements than `self`")
    refused("different", (None, None), "different inplace randomness on an unbatched tensor")


def test_refusals_name_the_op_and_the_memory_format() -> None:
    x = weft.zeros(5)
    with pytest.raises(RuntimeError, match="out-of-place operators instead of scatter_add_"):
        vmap(lambda s: x.scatter_add_(0, weft.tensor([0, 1]), s))(weft.randn(2, 2))
    with pytest.raises(RuntimeError, match="querying is_contiguous inside of vmap for memory_format"):
        vmap(lambda a: a.contiguous(memory_format=weft.channels_last))(weft.randn(2, 3))
