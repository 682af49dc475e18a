from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import weft
from weft import nn


def convolve(x, weight, bias, stride=1, padding=0, dilation=1, groups=1):
    """The definition: for every place of the output, the window times the kernel."""
    rank = weight.ndim - 2
    stride, padding, dilation = (np.broadcast_to(v, rank) for v in (stride, padding, dilation))
    x = np.pad(x, [(0, 0), (0, 0), *((p, p) for p in padding)])
    sizes = [
        (size - d * (k - 1) - 1) // s + 1
        for size, d, k, s in zip(x.shape[2:], dilation, weight.shape[2:], stride, strict=True)
    ]
    out = np.zeros((len(x), len(weight), *sizes))
    inside, outside = weight.shape[1], len(weight) // groups
    for place in itertools.product(*map(range, sizes)):
        window = x[
            (
                ...,
                *(
                    slice(i * s, i * s + d * (k - 1) + 1, d)
                    for i, s, d, k in zip(place, stride, dilation, weight.shape[2:])
                ),
            )
        ]
        for group in range(groups):
            part = slice(group * outside, (group + 1) * outside)
            taken = window[:, group * inside : (group + 1) * inside]
            out[(slice(None), part, *place)] = np.tensordot(taken, weight[part], (range(1, rank + 2),) * 2)
    return out if bias is None else out + bias.reshape(-1, *(1,) * rank)


def arrays(layer):
    bias = None if layer.bias is None else layer.bias.detach().numpy()
    return layer.weight.detach().numpy(), bias


CASES = [
    (nn.Conv1d, (4, 6, 3), {}, (2, 4, 5)),
    (nn.Conv1d, (4, 6, 2), {"stride": 2, "padding": 1, "dilation": 2, "bias": False}, (2, 4, 6)),
    (nn.Conv2d, (2, 3, 3), {}, (2, 2, 5, 4)),
    (nn.Conv2d, (4, 2, (2, 3)), {"stride": (2, 1), "padding": (1, 2), "groups": 2}, (1, 4, 3, 4)),
    (nn.Conv2d, (4, 4, 2), {"dilation": (1, 2), "groups": 4}, (1, 4, 3, 4)),
    (nn.Conv3d, (2, 2, 2), {"padding": 1, "stride": 2}, (1, 2, 2, 3, 2)),
]


@pytest.mark.parametrize(("kind", "sizes", "options", "shape"), CASES)
def test_sum_over_windows(agrees, draw, kind, sizes, options, shape):
    layer = kind(*sizes, **options)
    kept = {name: value for name, value in options.items() if name != "bias"}
    agrees(layer, lambda x: convolve(x, *arrays(layer), **kept), draw(*shape))


def test_without_a_batch(agrees, draw):
    layer = nn.Conv2d(2, 3, 2)
    agrees(layer, lambda x: convolve(x[None], *arrays(layer))[0], draw(2, 3, 4))


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel lengths")
def test_same_pads_more_at_the_end(agrees, draw):
    layer = nn.Conv1d(2, 3, 4, padding="same", dilation=1)
    agrees(layer, lambda x: convolve(np.pad(x, [(0, 0), (0, 0), (1, 2)]), *arrays(layer)), draw(1, 2, 5))
    assert repr(layer) == "Conv1d(2, 3, kernel_size=(4,), stride=(1,), padding=same)"


@pytest.mark.parametrize(
    ("mode", "numpy_mode"), [("reflect", "reflect"), ("replicate", "edge"), ("circular", "wrap")]
)
@pytest.mark.parametrize("padding", [(2, 1), "same"])
def test_borders_of_other_kinds(agrees, draw, mode, numpy_mode, padding):
    layer = nn.Conv2d(2, 2, (3, 4), padding=padding, padding_mode=mode)
    border = [(0, 0), (0, 0), (1, 1), (1, 2)] if padding == "same" else [(0, 0), (0, 0), (2, 2), (1, 1)]
    agrees(layer, lambda x: convolve(np.pad(x, border, numpy_mode), *arrays(layer)), draw(1, 2, 4, 5))


TRANSPOSED = [
    (nn.ConvTranspose1d, (4, 2, 3), {"stride": 2, "output_padding": 1}, (2, 4, 3)),
    (nn.ConvTranspose2d, (2, 3, 3), {"padding": 1, "stride": (1, 2)}, (1, 2, 3, 3)),
    (nn.ConvTranspose2d, (4, 6, 2), {"groups": 2, "dilation": 2, "bias": False}, (1, 4, 3, 2)),
    (nn.ConvTranspose3d, (2, 2, 2), {}, (1, 2, 2, 2, 3)),
]


@pytest.mark.parametrize(("kind", "sizes", "options", "shape"), TRANSPOSED)
def test_transposed_is_the_adjoint(agrees, draw, kind, sizes, options, shape):
    """<conv(y), x> = <y, transposed(x)> for every y, so each output is one such product with a unit
    vector."""
    layer = kind(*sizes, **options)
    kept = {name: value for name, value in options.items() if name not in ("bias", "output_padding")}

    def formula(x):
        weight, bias = arrays(layer)
        out_shape = tuple(layer(weft.from_numpy(x)).shape)
        units = np.eye(math.prod(out_shape[1:])).reshape(-1, *out_shape[1:])
        out = np.tensordot(convolve(units, weight, None, **kept), x[0], x[0].ndim).reshape(out_shape[1:])
        out = out if bias is None else out + bias.reshape(-1, *(1,) * (x.ndim - 2))
        return out[None]

    agrees(layer, formula, draw(1, *shape[1:]))


def test_output_size_chooses_among_those_that_fit():
    layer = nn.ConvTranspose2d(2, 3, 3, stride=2)
    x = weft.randn(1, 2, 4, 4)
    assert layer(x).shape == (1, 3, 9, 9)
    assert layer(x, [10, 9]).shape == layer(x, [1, 3, 10, 9]).shape == (1, 3, 10, 9)
    assert layer(x[0], [3, 10, 9]).shape == (3, 10, 9)
    with pytest.raises(
        ValueError, match=r"requested an output size of \[11, 9\], but valid sizes range from \[9, 9\]"
    ):
        layer(x, [11, 9])
    with pytest.raises(
        ValueError, match=r"ConvTranspose2D: for 4D input, output_size must have 2 or 4 elements"
    ):
        layer(x, [9])


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"groups": 0}, "groups must be a positive integer"),
        ({"groups": 3}, "in_channels must be divisible by groups"),
        ({"groups": 4}, "out_channels must be divisible by groups"),
        ({"padding": "around"}, "Invalid padding string 'around', should be one of"),
        ({"padding": "same", "stride": 2}, "padding='same' is not supported for strided convolutions"),
        ({"padding_mode": "around"}, "padding_mode must be one of"),
    ],
)
def test_options_are_checked(options, text):
    with pytest.raises(ValueError, match=text):
        nn.Conv2d(4, 6, 3, **options)


def test_transposed_pads_with_zeros_only():
    with pytest.raises(ValueError, match='Only "zeros" padding mode is supported for ConvTranspose1d'):
        nn.ConvTranspose1d(4, 6, 3, padding_mode="reflect")


def test_starts_uniform_within_the_root_of_its_window():
    layer = nn.Conv2d(16, 64, 5)
    bound = 1 / math.sqrt(16 * 25)
    drawn = layer.weight.detach().numpy()
    assert np.abs(drawn).max() <= bound and np.abs(layer.bias.detach().numpy()).max() <= bound
    np.testing.assert_allclose(drawn.std(), bound / math.sqrt(3), rtol=0.05)


def test_prints_what_is_unusual():
    layer = nn.Conv2d(4, 6, 3, stride=2, padding=1, dilation=2, groups=2, bias=False, padding_mode="circular")
    assert repr(layer) == (
        "Conv2d(4, 6, kernel_size=(3, 3), stride=(2, 2), padding=(1, 1), dilation=(2, 2), groups=2, "
        "bias=False, padding_mode=circular)"
    )
