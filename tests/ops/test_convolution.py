"""Convolutions against a loop over windows, by their adjoint identities, and by PyTorch's error texts."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import weft
from weft.nn import functional as F

random = np.random.default_rng(0)


def make(*shape: int, grad: bool = False) -> weft.Tensor:
    tensor = weft.from_numpy(random.standard_normal(shape))
    return tensor.requires_grad_() if grad else tensor


def by_loops(x: Any, w: Any, stride: Any, padding: Any, dilation: Any, groups: int) -> Any:
    """The definition, one output at a time."""
    padded = np.pad(x, [(0, 0), (0, 0), *((p, p) for p in padding)])
    spans = [d * (k - 1) + 1 for k, d in zip(w.shape[2:], dilation, strict=True)]
    counts = [(n - span) // s + 1 for n, span, s in zip(padded.shape[2:], spans, stride, strict=True)]
    out = np.zeros((x.shape[0], w.shape[0], *counts))
    per_group, inputs = w.shape[0] // groups, w.shape[1]
    for n, o, *place in itertools.product(*map(range, out.shape)):
        group = o // per_group
        window = padded[(n, slice(group * inputs, (group + 1) * inputs))]
        index = tuple(
            slice(p * s, p * s + span, d)
            for p, s, span, d in zip(place, stride, spans, dilation, strict=True)
        )
        out[(n, o, *place)] = (window[(slice(None), *index)] * w[o]).sum()
    return out


@pytest.mark.parametrize(
    ("shape", "weight", "options"),
    [
        ((2, 4, 9), (6, 2, 3), {"stride": (2,), "padding": (1,), "dilation": (2,), "groups": 2}),
        ((2, 3, 6, 5), (4, 3, 3, 2), {"stride": (1, 2), "padding": (0, 1), "dilation": (2, 1), "groups": 1}),
        (
            (1, 2, 4, 4, 3),
            (2, 1, 2, 2, 2),
            {"stride": (1, 1, 1), "padding": (1, 0, 1), "dilation": (1, 1, 1), "groups": 2},
        ),
    ],
    ids=["1d", "2d", "3d"],
)
def test_values_are_those_of_the_definition(shape: Any, weight: Any, options: Any) -> None:
    x, w, b = make(*shape), make(*weight), make(weight[0])
    function = getattr(F, f"conv{len(shape) - 2}d")
    expected = by_loops(x.numpy(), w.numpy(), **options) + b.numpy().reshape(-1, *(1,) * (len(shape) - 2))
    np.testing.assert_allclose(function(x, w, b, **options).numpy(), expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_transposed_convolution_is_the_adjoint(axes: int) -> None:
    """<conv(x), y> = <x, conv_transpose(y)> for every x and y."""
    space = (5, 6, 4)[:axes]
    w = make(4, 3, *(3, 2, 2)[:axes])
    x = make(2, 3, *space)
    forward = getattr(F, f"conv{axes}d")(x, w, stride=2, padding=1)
    y = make(*forward.shape)
    have = [(n - 1) * 2 - 2 + k for n, k in zip(forward.shape[2:], w.shape[2:], strict=True)]
    extra = tuple(n - h for n, h in zip(space, have, strict=True))
    back = getattr(F, f"conv_transpose{axes}d")(y, w, stride=2, padding=1, output_padding=extra)
    assert back.shape == x.shape
    np.testing.assert_allclose((forward * y).sum().item(), (x * back).sum().item(), rtol=1e-10)


def test_unbatched_input_gives_unbatched_output() -> None:
    x, w = make(3, 6, 6), make(2, 3, 3, 3)
    np.testing.assert_allclose(F.conv2d(x, w).numpy(), F.conv2d(x[None], w)[0].numpy())
    w = make(3, 2, 3, 3)
    np.testing.assert_allclose(F.conv_transpose2d(x, w).numpy(), F.conv_transpose2d(x[None], w)[0].numpy())


def test_named_padding() -> None:
    x, w = make(1, 2, 5, 5), make(2, 2, 3, 3)
    np.testing.assert_array_equal(
        F.conv2d(x, w, padding="same", dilation=2).numpy(), F.conv2d(x, w, padding=2, dilation=2).numpy()
    )
    np.testing.assert_array_equal(F.conv2d(x, w, padding="valid").numpy(), F.conv2d(x, w).numpy())
    even = make(2, 2, 2, 2)
    with pytest.warns(UserWarning, match="even kernel lengths"):
        out = F.conv2d(x, even, padding="same")
    padded = F.conv2d(F.pad(x, (0, 1, 0, 1)), even)
    np.testing.assert_allclose(out.numpy(), padded.numpy(), rtol=1e-12)


def test_half_precision_rounds_once() -> None:
    x = weft.ones(1, 4096, 1, dtype=weft.bfloat16)
    assert F.conv1d(x, weft.ones(1, 4096, 1, dtype=weft.bfloat16)).item() == 4096


def test_gradient_node_and_third_order() -> None:
    x, w = make(1, 2, 4, grad=True), make(2, 2, 3, grad=True)
    out = F.conv1d(x, w, padding=1)
    assert type(out.grad_fn).__name__ == "ConvolutionBackward0"
    (first,) = weft.autograd.grad((out**3).sum(), x, create_graph=True)
    (second,) = weft.autograd.grad(first.sum(), x, create_graph=True)
    (third,) = weft.autograd.grad(second.sum(), w)
    step = 1e-6

    def summed(weights: Any) -> float:
        y = make(1, 2, 4)
        y.array[...] = x.numpy(force=True)
        y.requires_grad_()
        (a,) = weft.autograd.grad((F.conv1d(y, weights, padding=1) ** 3).sum(), y, create_graph=True)
        (b,) = weft.autograd.grad(a.sum(), y)
        return b.sum().item()

    moved = w.detach().clone()
    moved[1, 0, 2] += step
    lower = w.detach().clone()
    lower[1, 0, 2] -= step
    np.testing.assert_allclose(third[1, 0, 2].item(), (summed(moved) - summed(lower)) / (2 * step), rtol=1e-6)


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        (
            ((1, 3, 4, 4), (2, 4, 3, 3)),
            RuntimeError,
            r"Given groups=1, weight of size \[2, 4, 3, 3\], expected "
            r"input\[1, 3, 4, 4\] to have 4 channels, but got 3 channels instead",
        ),
        (
            ((1, 3, 4, 4), (2, 3, 5, 5)),
            RuntimeError,
            r"Calculated padded input size per channel: \(4 x 4\). Kernel "
            r"size: \(5 x 5\). Kernel size can't be greater than actual input size",
        ),
        (
            ((4, 4), (2, 4, 3, 3)),
            RuntimeError,
            r"Expected 3D \(unbatched\) or 4D \(batched\) input to conv2d, but got "
            r"input of size: \[4, 4\]",
        ),
        (
            ((1, 3, 4, 4), (2, 3, 3, 3), (3,)),
            RuntimeError,
            r"Given weight of size \[2, 3, 3, 3\], expected bias to be "
            r"1-dimensional with 2 elements, but got bias of size \[3\] instead",
        ),
    ],
)
def test_shapes_that_do_not_fit(arguments: Any, error: Any, text: str) -> None:
    with pytest.raises(error, match=text):
        F.conv2d(*[weft.zeros(shape) for shape in arguments])


def test_arguments_that_do_not_fit() -> None:
    x, w = weft.zeros(1, 3, 4, 4), weft.zeros(2, 3, 3, 3)
    with pytest.raises(
        RuntimeError, match="expected stride to be a single integer value or a list of 2 values"
    ):
        F.conv2d(x, w, stride=(1, 1, 1))
    with pytest.raises(RuntimeError, match="padding='same' is not supported for strided convolutions"):
        F.conv2d(x, w, padding="same", stride=2)
    with pytest.raises(RuntimeError, match="Invalid padding string: 'soft'"):
        F.conv2d(x, w, padding="soft")
    with pytest.raises(RuntimeError, match="expected scalar type Float but found Double"):
        F.conv2d(x, w.double())
    with pytest.raises(
        RuntimeError, match="Given groups=2, expected weight to be divisible by 2 at dimension 0"
    ):
        F.conv2d(x, weft.zeros(3, 3, 3, 3), groups=2)
    with pytest.raises(RuntimeError, match="output padding must be smaller than either stride or dilation"):
        F.conv_transpose2d(x, weft.zeros(3, 2, 3, 3), output_padding=1)
    with pytest.raises(TypeError, match="argument 'stride' must be tuple of ints, not float"):
        F.conv2d(x, w, stride=1.5)


def test_function_is_the_same_in_both_namespaces() -> None:
    assert weft.conv2d is F.conv2d
    assert weft.conv_transpose1d is F.conv_transpose1d
