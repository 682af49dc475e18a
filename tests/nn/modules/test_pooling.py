from __future__ import annotations

import itertools

import numpy as np
import pytest

import weft
from weft import nn


def pooled(x, starts, stops, reduce):
    """`reduce` over windows from `starts[d][i]` to `stops[d][i]` along each dimension d after channels."""
    out = np.zeros((*x.shape[:2], *map(len, starts)))
    for place in itertools.product(*(range(len(s)) for s in starts)):
        window = tuple(slice(a[i], b[i]) for a, b, i in zip(starts, stops, place, strict=True))
        out[(..., *place)] = reduce(x[(..., *window)].reshape(*x.shape[:2], -1), axis=-1)
    return out


def sliding(x, kernel, stride, reduce, padding=0, fill=0.0):
    rank = x.ndim - 2
    kernel, stride, padding = (np.broadcast_to(v, rank) for v in (kernel, stride, padding))
    x = np.pad(x, [(0, 0), (0, 0), *((p, p) for p in padding)], constant_values=fill)
    starts = [range(0, n - k + 1, s) for n, k, s in zip(x.shape[2:], kernel, stride, strict=True)]
    stops = [[i + k for i in places] for places, k in zip(starts, kernel, strict=True)]
    return pooled(x, starts, stops, reduce)


def adaptive(x, sizes, reduce):
    starts = [[i * n // m for i in range(m)] for n, m in zip(x.shape[2:], sizes, strict=True)]
    stops = [[-(-(i + 1) * n // m) for i in range(m)] for n, m in zip(x.shape[2:], sizes, strict=True)]
    return pooled(x, starts, stops, reduce)


SHAPES = {1: (2, 3, 7), 2: (1, 2, 5, 6), 3: (1, 2, 4, 4, 3)}


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_maximum_of_windows(agrees, draw, rank):
    kind = (nn.MaxPool1d, nn.MaxPool2d, nn.MaxPool3d)[rank - 1]
    x = draw(*SHAPES[rank])
    agrees(kind(2), lambda x: sliding(x, 2, 2, np.max), x)
    agrees(kind(3, stride=1, padding=1), lambda x: sliding(x, 3, 1, np.max, 1, -np.inf), x)


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_mean_of_windows(agrees, draw, rank):
    kind = (nn.AvgPool1d, nn.AvgPool2d, nn.AvgPool3d)[rank - 1]
    x = draw(*SHAPES[rank])
    agrees(kind(2), lambda x: sliding(x, 2, 2, np.mean), x)
    agrees(kind(2, 1, 1), lambda x: sliding(x, 2, 1, np.mean, 1), x)
    counts = sliding(np.ones_like(x), 2, 1, np.sum, 1)
    agrees(kind(2, 1, 1, count_include_pad=False), lambda x: sliding(x, 2, 1, np.sum, 1) / counts, x)


def test_another_divisor(agrees, draw):
    agrees(nn.AvgPool2d(2, divisor_override=3), lambda x: sliding(x, 2, 2, np.sum) / 3, draw(1, 2, 4, 4))


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_norm_of_windows(agrees, rng, rank):
    kind = (nn.LPPool1d, nn.LPPool2d, nn.LPPool3d)[rank - 1]
    x = rng.uniform(0.1, 1, SHAPES[rank])
    agrees(kind(3, 2), lambda x: sliding(x**3, 2, 2, np.sum) ** (1 / 3), x)


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_as_many_windows_as_asked_for(agrees, draw, rank):
    mean = (nn.AdaptiveAvgPool1d, nn.AdaptiveAvgPool2d, nn.AdaptiveAvgPool3d)[rank - 1]
    greatest = (nn.AdaptiveMaxPool1d, nn.AdaptiveMaxPool2d, nn.AdaptiveMaxPool3d)[rank - 1]
    x = draw(*SHAPES[rank])
    agrees(mean(3), lambda x: adaptive(x, (3,) * rank, np.mean), x)
    agrees(greatest(2), lambda x: adaptive(x, (2,) * rank, np.max), x)


def test_adaptive_sizes_may_be_left_alone(agrees, draw):
    agrees(nn.AdaptiveAvgPool2d((2, None)), lambda x: adaptive(x, (2, 6), np.mean), draw(1, 2, 5, 6))


@pytest.mark.parametrize(
    "layer", [nn.MaxPool2d(2, return_indices=True), nn.AdaptiveMaxPool2d(2, return_indices=True)]
)
def test_indices_say_where_maxima_were(agrees, draw, layer):
    x = draw(1, 2, 4, 4)

    def formula(x):
        out = sliding(x, 2, 2, np.max)
        flat = x.reshape(2, 16)
        places = [
            [[int(np.flatnonzero(plane == v)[0]) for v in row] for row in rows]
            for plane, rows in zip(flat, out[0])
        ]
        return out, np.array([places])

    agrees(layer, formula, x)


def test_printed():
    assert (
        repr(nn.MaxPool2d(3, 2))
        == "MaxPool2d(kernel_size=3, stride=2, padding=0, dilation=1, ceil_mode=False)"
    )
    assert repr(nn.AvgPool1d(3)) == "AvgPool1d(kernel_size=(3,), stride=(3,), padding=(0,))"
    assert repr(nn.AvgPool2d(3)) == "AvgPool2d(kernel_size=3, stride=3, padding=0)"
    assert repr(nn.LPPool1d(2, 3)) == "LPPool1d(norm_type=2, kernel_size=3, stride=None, ceil_mode=False)"
    assert repr(nn.AdaptiveMaxPool2d((1, None))) == "AdaptiveMaxPool2d(output_size=(1, None))"


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_maxima_put_back(draw, rank):
    x = weft.from_numpy(draw(2, 3, *(4,) * rank))
    pool = getattr(nn, f"MaxPool{rank}d")(2, return_indices=True)
    unpool = getattr(nn, f"MaxUnpool{rank}d")(2)
    out, places = pool(x)
    back = unpool(out, places)
    expected = np.where(np.isin(x.numpy(), out.numpy()), x.numpy(), 0)
    assert np.array_equal(back.numpy(), expected)
    assert unpool(out, places, output_size=(5,) * rank).shape == (2, 3, *(5,) * rank)
    assert (
        repr(unpool)
        == f"MaxUnpool{rank}d(kernel_size={(2,) * rank}, stride={(2,) * rank}, padding={(0,) * rank})"
    )


def test_windows_at_random_places(draw):
    x = weft.from_numpy(draw(2, 3, 8, 8))
    out, places = nn.FractionalMaxPool2d(2, output_ratio=0.5, return_indices=True)(x)
    assert out.shape == (2, 3, 4, 4)
    picked = weft.gather(x.flatten(2), 2, places.flatten(2))
    assert weft.equal(picked.view(2, 3, 4, 4), out)
    assert nn.FractionalMaxPool3d(2, 3)(weft.from_numpy(draw(1, 2, 6, 6, 6))).shape == (1, 2, 3, 3, 3)
    for options, text in (
        ({}, "FractionalMaxPool2d requires specifying either an output size, or a pooling ratio"),
        (
            {"output_size": 2, "output_ratio": 0.5},
            "only one of output_size and output_ratio may be specified",
        ),
        ({"output_ratio": 1.5}, r"output_ratio must be between 0 and 1 \(got 1.5\)"),
    ):
        with pytest.raises(ValueError, match=text):
            nn.FractionalMaxPool2d(2, **options)
    with pytest.raises(ValueError, match="kernel_size must be greater than 0, but got 0"):
        nn.FractionalMaxPool3d(0, 2)
