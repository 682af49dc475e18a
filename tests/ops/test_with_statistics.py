"""Ops that give what others compute on the way."""

from __future__ import annotations

import numpy as np
import pytest

import weft
import weft.nn.functional as F


def test_norms_with_their_statistics() -> None:
    x = weft.arange(24.0).sin().reshape(2, 3, 4)
    out, mean, scale = weft.native_layer_norm(x, [4], None, None, 1e-5)
    assert weft.equal(out, F.layer_norm(x, [4]))
    assert mean.shape == scale.shape == (2, 3, 1)
    given = weft.native_layer_norm(x.clone().requires_grad_(), [4], None, None, 1e-5)
    assert [part.requires_grad for part in given] == [True, False, False]
    assert weft.allclose((x - mean) * scale, out, atol=1e-5)
    out, mean, scale = weft.native_group_norm(x, None, None, 2, 3, 4, 3, 1e-5)
    assert weft.equal(out, F.group_norm(x, 3))
    assert weft.allclose(mean, x.mean(2))
    assert scale.shape == (2, 3)


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "native"])
def test_groups_of_no_samples(backend: str) -> None:
    def norm(x: weft.Tensor, weight: weft.Tensor) -> tuple[weft.Tensor, ...]:
        return tuple(weft.native_group_norm(x, weight, None, 0, 4, 2, 2, 1e-5))

    run = norm if backend == "eager" else weft.compile(norm, backend=backend)
    weight = weft.ones(4, requires_grad=True)
    found = run(weft.ones(0, 4, 2), weight)
    assert [part.shape for part in found] == [(0, 4, 2), (0, 2), (0, 2)]
    found[0].sum().backward()
    assert weight.grad.tolist() == [0.0] * 4


def test_norms_by_older_names() -> None:
    x = weft.tensor([[3.0, 0.0], [0.0, 4.0]])
    assert weft.frobenius_norm(x).item() == 5
    assert weft.frobenius_norm(x, 1, True).tolist() == [[3], [4]]
    assert weft.nuclear_norm(x).item() == pytest.approx(7)
    assert weft.norm_except_dim(x, 2, 1).tolist() == [[3, 4]]
    assert weft.norm_except_dim(x, 2, -1).item() == 5


def test_sampling_by_numbers() -> None:
    x, grid = weft.arange(9.0).reshape(1, 1, 3, 3), weft.zeros(1, 1, 1, 2)
    for mode, name in enumerate(("bilinear", "nearest", "bicubic")):
        expected = F.grid_sample(x, grid, name, "border", True)
        assert weft.equal(weft.grid_sampler(x, grid, mode, 1, True), expected)


def test_counts_in_several_dimensions() -> None:
    points = weft.tensor([[0.0, 1], [1, 0], [2, 1], [2, 2]])
    counts, edges = weft.histogramdd(points, [3, 2], weight=weft.tensor([1.0, 2, 4, 8]))
    assert counts.tolist() == [[0, 1], [2, 0], [0, 12]]
    assert edges[1].tolist() == [0, 1, 2]
    given = weft.histogramdd(points, (weft.tensor([0.0, 3]), weft.tensor([0.0, 1, 3])), density=True)
    assert weft.allclose((given.hist * weft.tensor([3.0, 6.0])).sum(), weft.tensor(1.0))
    with pytest.raises(RuntimeError, match="input tensor should have at least 2 dimensions"):
        weft.histogramdd(weft.ones(3), 2)


def test_indices_in_a_fixed_number_of_rows() -> None:
    x = weft.tensor([[1, 0], [0, 2]])
    assert x.nonzero_static(size=3).tolist() == [[0, 0], [1, 1], [-1, -1]]
    assert weft.nonzero_static(x, size=1, fill_value=7).tolist() == [[0, 0]]
    assert weft.nonzero_static(weft.zeros(2), size=2, fill_value=7).tolist() == [[7], [7]]
    assert weft.compile(lambda x: weft.nonzero_static(x, size=2), fullgraph=True)(x).tolist() == [
        [0, 0],
        [1, 1],
    ]


@pytest.mark.parametrize("used", [(1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2)])
def test_gradients_of_statistics_of_groups_count_each_for_itself(used: tuple[int, ...]) -> None:
    """PyTorch agrees where both statistics have a gradient, and drops the one that arrives alone."""
    random = np.random.default_rng(0)
    x, weight, bias = (
        weft.from_numpy(random.standard_normal(shape)).requires_grad_() for shape in ((2, 4, 3), 4, 4)
    )

    def parts(*given: weft.Tensor) -> tuple[weft.Tensor, ...]:
        out = weft.native_group_norm(*given, 2, 4, 3, 2, 1e-5)
        return tuple(out[place] for place in used)

    assert weft.autograd.gradcheck(lambda x: parts(x, weight.detach(), bias.detach()), x)
    outs, compiled = parts(x, weight, bias), weft.compile(parts)(x, weight, bias)
    (wanted,), (found,) = (
        weft.autograd.grad(sum((out**2).sum() for out in each), x) for each in (outs, compiled)
    )
    np.testing.assert_allclose(found.numpy(), wanted.numpy(), rtol=1e-10, atol=1e-12)
