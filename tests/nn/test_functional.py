"""Every function of `nn.functional` beside PyTorch's: outputs and gradients in float32, and a list that says
that none was forgotten.

One idea: a table of calls; tuples stand for random floats of that shape, which take gradients, and everything
else is passed as it is.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import weft

TOLERANCE = 1e-5
IMAGE, ROWS, VOLUME, PLAIN = (2, 4, 6, 7), (3, 4, 6), (2, 2, 4, 5, 4), (4, 6)


class Fixed:
    """An array that is the same in both libraries and takes no gradient."""

    def __init__(self, value: Any, dtype: Any = None) -> None:
        self.array = np.asarray(value, dtype)


class Positive(tuple):
    """Random floats between 0 and 1 of this shape."""


SIGNS = Fixed(np.where(np.arange(24).reshape(4, 6) % 3 == 0, -1, 1), np.float32)
CLASSES = Fixed([0, 5, 2, 3])
STATISTICS = (Fixed(np.linspace(-1, 1, 4), np.float32), Fixed(np.linspace(0.5, 2, 4), np.float32))
MASK = Fixed(np.tril(np.ones((5, 5), bool)))
CALLS: dict[str, list[tuple[tuple[Any, ...], dict[str, Any]]]] = {
    **{
        name: [((PLAIN,), {})]
        for name in (
            "celu", "elu", "gelu", "glu", "hardshrink", "hardsigmoid", "hardswish", "hardtanh", "leaky_relu",
            "logsigmoid", "mish", "relu", "relu6", "selu", "sigmoid", "silu", "softplus", "softshrink",
            "softsign", "tanh", "tanhshrink", "normalize", "pdist",
        )
    },
    "threshold": [((PLAIN, 0.1, 2.0), {})],
    "prelu": [((IMAGE, (4,)), {}), ((IMAGE, (1,)), {})],
    "rrelu": [((PLAIN,), {}), ((PLAIN, 0.2, 0.4), {})],
    **{
        name: [((ROWS,), {"dim": 1}), ((PLAIN,), {"dim": -1})]
        for name in ("softmax", "log_softmax", "softmin")
    },
    "gelu tanh": [((PLAIN,), {"approximate": "tanh"})],
    "normalize p": [((ROWS,), {"p": 3.0, "dim": 2}), ((ROWS,), {"p": 1.0, "dim": 0, "eps": 1e-3})],
    "pdist p": [((PLAIN,), {"p": p}) for p in (1.0, 3.0, float("inf"))],
    "linear": [((ROWS, (5, 6), (5,)), {}), ((PLAIN, (5, 6)), {})],
    "bilinear": [(((2, 3), (2, 4), (5, 3, 4), (5,)), {})],
    "embedding": [((Fixed([[0, 2], [2, 4]]), (5, 3)), {}), ((Fixed([1, 1]), (5, 3)), {"padding_idx": 1})],
    "embedding_bag": [
        ((Fixed([[0, 2], [2, 4]]), (5, 3)), {"mode": mode}) for mode in ("sum", "mean", "max")
    ],
    "one_hot": [((Fixed([0, 2, 1]),), {}), ((Fixed([[0, 2]]),), {"num_classes": 4})],
    "conv1d": [((ROWS, (5, 4, 3), (5,)), {"padding": 1}), ((ROWS, (4, 2, 2)), {"groups": 2, "stride": 2})],
    "conv_tbc": [(((6, 2, 3), (3, 3, 4), (4,)), {}), (((6, 2, 3), (3, 3, 4), (4,), 1), {})],
    "conv2d": [
        ((IMAGE, (5, 4, 3, 2), (5,)), {}), ((IMAGE, (5, 4, 3, 3)), {"padding": "same", "dilation": 2}),
    ],
    "conv3d": [((VOLUME, (3, 2, 2, 3, 2), (3,)), {"stride": 2, "padding": 1})],
    "conv_transpose1d": [((ROWS, (4, 5, 3), (5,)), {"stride": 2, "output_padding": 1})],
    "conv_transpose2d": [((IMAGE, (4, 3, 3, 2), (6,)), {"groups": 2, "padding": 1})],
    "conv_transpose3d": [((VOLUME, (2, 3, 2, 2, 2)), {"dilation": 2})],
    "unfold": [((IMAGE, [2, 3]), {"padding": 1})],
    "avg_pool1d": [((ROWS, 2), {}), ((ROWS, 3), {"padding": 1, "count_include_pad": False})],
    "avg_pool2d": [((IMAGE, 2), {}), ((IMAGE, 3), {"stride": 2, "ceil_mode": True, "divisor_override": 5})],
    "avg_pool3d": [((VOLUME, 2), {})],
    "max_pool1d": [((ROWS, 2), {"return_indices": True}), ((ROWS, 2), {"dilation": 2, "stride": 1})],
    "max_pool2d": [((IMAGE, 2), {}), ((IMAGE, 3), {"stride": 2, "padding": 1, "ceil_mode": True})],
    "max_pool3d": [((VOLUME, 2), {"return_indices": True})],
    "max_pool1d_with_indices": [((ROWS, 2), {})],
    "max_pool2d_with_indices": [((IMAGE, 2), {"stride": 1})],
    "max_pool3d_with_indices": [((VOLUME, 2), {})],
    "adaptive_max_pool1d_with_indices": [((ROWS, 3), {})],
    "adaptive_max_pool2d_with_indices": [((IMAGE, 3), {})],
    "adaptive_max_pool3d_with_indices": [((VOLUME, 2), {})],
    "fractional_max_pool2d_with_indices": [
        ((IMAGE, 2), {"output_size": 3, "_random_samples": Fixed(np.full((2, 4, 2), 0.4), np.float32)})
    ],
    "fractional_max_pool3d_with_indices": [
        ((VOLUME, 2), {"output_ratio": 0.5, "_random_samples": Fixed(np.full((2, 2, 3), 0.4), np.float32)})
    ],
    "lp_pool1d": [((Positive(ROWS), 2.0, 2), {})],
    "lp_pool2d": [((Positive(IMAGE), 3.0, 2), {"stride": 1})],
    "lp_pool3d": [((Positive(VOLUME), 2.0, 2), {})],
    **{
        f"adaptive_{kind}_pool{rank}d": [((shape, 3), {}), ((shape, 1), {})]
        for kind in ("avg", "max")
        for rank, shape in ((1, ROWS), (2, IMAGE), (3, VOLUME))
    },
    "max_unpool1d": [(((1, 2, 2), Fixed([[[0, 3], [1, 2]]]), 2), {})],
    "max_unpool2d": [(((1, 1, 2, 2), Fixed([[[[0, 3], [9, 14]]]]), 2), {})],
    "max_unpool3d": [(((1, 1, 1, 2, 2), Fixed([[[[[0, 3], [9, 14]]]]]), 2), {"output_size": (2, 4, 4)})],
    "fractional_max_pool2d": [
        ((IMAGE, 2), {"output_size": 3, "_random_samples": Fixed(np.full((2, 4, 2), 0.4), np.float32)})
    ],
    "fractional_max_pool3d": [
        ((VOLUME, 2), {"output_ratio": 0.5, "_random_samples": Fixed(np.full((2, 2, 3), 0.4), np.float32)})
    ],
    "layer_norm": [((ROWS, [6], (6,), (6,)), {}), ((ROWS, [4, 6]), {"eps": 1e-3})],
    "rms_norm": [((ROWS, [6], (6,)), {}), ((ROWS, [4, 6]), {"eps": 1e-3})],
    "group_norm": [((IMAGE, 2, (4,), (4,)), {})],
    "batch_norm": [
        ((IMAGE, *STATISTICS, (4,), (4,)), {"training": training}) for training in (False, True)
    ],
    "instance_norm": [((IMAGE,), {}), ((IMAGE, *STATISTICS, (4,), (4,)), {"use_input_stats": False})],
    "local_response_norm": [((IMAGE, 3), {"alpha": 0.5}), ((ROWS, 2), {"k": 2.0})],
    **{
        name: [((shape,), {"training": False}), ((shape,), {"p": 0.0})]
        for name, shape in (
            ("dropout", ROWS), ("dropout1d", ROWS), ("dropout2d", IMAGE), ("dropout3d", VOLUME),
            ("alpha_dropout", ROWS), ("feature_alpha_dropout", IMAGE),
        )
    },
    "pad": [
        ((IMAGE, [1, 2, 0, 1]), {"mode": mode}) for mode in ("constant", "reflect", "replicate", "circular")
    ],
    "pixel_shuffle": [((IMAGE, 2), {})],
    "pixel_unshuffle": [(((2, 3, 4, 6), 2), {})],
    "channel_shuffle": [((IMAGE, 2), {})],
    "fold": [(((2, 12, 12), [4, 5], [2, 2]), {})],
    "interpolate": [
        *[((IMAGE,), {"scale_factor": 1.7, "mode": m}) for m in ("nearest", "bilinear", "bicubic", "area")],
        *[((IMAGE,), {"size": [3, 4], "mode": m, "align_corners": True}) for m in ("bilinear", "bicubic")],
        ((IMAGE,), {"size": [3, 4], "mode": "bilinear", "antialias": True}),
        ((ROWS,), {"size": 9, "mode": "linear"}), ((VOLUME,), {"scale_factor": 2.0, "mode": "trilinear"}),
        ((IMAGE,), {"size": 5, "mode": "nearest-exact"}),
    ],
    "upsample": [((IMAGE,), {"scale_factor": 2})],
    "upsample_nearest": [((IMAGE,), {"scale_factor": 2})],
    "upsample_bilinear": [((IMAGE,), {"size": [5, 5]})],
    "affine_grid": [(((2, 2, 3), [2, 1, 4, 5]), {"align_corners": a}) for a in (False, True)],
    "grid_sample": [
        (
            ((1, 2, 4, 5), Positive((1, 3, 3, 2))),
            {"mode": mode, "padding_mode": pad, "align_corners": corners},
        )
        for mode, pad, corners in (
            ("bilinear", "zeros", False), ("nearest", "border", True), ("bicubic", "reflection", False),
        )
    ],
    "cosine_similarity": [((PLAIN, PLAIN), {}), ((ROWS, ROWS), {"dim": 2})],
    "pairwise_distance": [((PLAIN, PLAIN), {}), ((PLAIN, PLAIN), {"p": 1.0, "keepdim": True})],
    "scaled_dot_product_attention": [
        (((2, 5, 4), (2, 5, 4), (2, 5, 3)), {}), (((2, 5, 4), (2, 5, 4), (2, 5, 3)), {"is_causal": True}),
        (((2, 5, 4), (2, 5, 4), (2, 5, 3)), {"attn_mask": MASK, "scale": 0.3}),
    ],
    "multi_head_attention_forward": [
        (((5, 2, 4), (5, 2, 4), (5, 2, 4), 4, 2, (12, 4), (12,), None, None, False, 0.0, (4, 4), (4,)), {})
    ],
    **{
        name: [((PLAIN, PLAIN), {}), ((PLAIN, PLAIN), {"reduction": "none"})]
        for name in ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss")
    },
    "kl_div": [((PLAIN, Positive(PLAIN)), {"reduction": r}) for r in ("batchmean", "sum", "none")],
    "binary_cross_entropy": [
        ((Positive(PLAIN), Positive(PLAIN)), {"weight": Fixed(np.arange(6), np.float32)})
    ],
    "binary_cross_entropy_with_logits": [((PLAIN, Positive(PLAIN)), {"reduction": "sum"})],
    "cross_entropy": [((PLAIN, CLASSES), {"label_smoothing": 0.2}), ((PLAIN, Positive(PLAIN)), {})],
    "linear_cross_entropy": [((PLAIN, (6, 6), CLASSES), {"label_smoothing": 0.2})],
    "nll_loss": [((PLAIN, CLASSES), {"ignore_index": 2})],
    "ctc_loss": [(((7, 2, 5), Fixed([[1, 2, 2], [3, 1, 4]]), Fixed([7, 6]), Fixed([3, 2])), {})],
    "poisson_nll_loss": [((PLAIN, Fixed(np.arange(24).reshape(4, 6) % 5, np.float32)), {"full": True})],
    "gaussian_nll_loss": [((PLAIN, PLAIN, Positive(PLAIN)), {"full": True})],
    "cosine_embedding_loss": [((PLAIN, PLAIN, Fixed([1, -1, 1, -1])), {"margin": 0.1})],
    "hinge_embedding_loss": [((PLAIN, SIGNS), {})],
    "margin_ranking_loss": [((PLAIN, PLAIN, SIGNS), {"margin": 0.3})],
    "soft_margin_loss": [((PLAIN, SIGNS), {})],
    "multi_margin_loss": [((PLAIN, CLASSES), {"p": 2})],
    "multilabel_margin_loss": [((PLAIN, Fixed([[3, 0, -1, 1, 2, 4]] * 4)), {})],
    "multilabel_soft_margin_loss": [((PLAIN, Positive(PLAIN)), {})],
    "triplet_margin_loss": [((PLAIN, PLAIN, PLAIN), {"swap": True})],
    "triplet_margin_with_distance_loss": [((PLAIN, PLAIN, PLAIN), {"margin": 2.0})],
}  # fmt: skip
TABLE = [
    (name.split()[0], args, kwargs, number)
    for name, calls in CALLS.items()
    for number, (args, kwargs) in enumerate(calls)
]
IN_PLACE = (
    "celu_", "elu_", "hardtanh_", "leaky_relu_", "relu_",
    "rrelu_", "selu_", "sigmoid_", "tanh_", "threshold_",
)  # fmt: skip
RANDOM = ("gumbel_softmax",)
OTHER_NAMES = {"native_channel_shuffle": "channel_shuffle"}
OF_OVERRIDES = (
    "handle_torch_function", "has_torch_function", "has_torch_function_unary", "has_torch_function_variadic",
    "assert_int_or_pair", "boolean_dispatch",  # see test_dispatching
)  # fmt: skip


def outcome(library: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[np.ndarray]:
    rng = np.random.default_rng(11)
    tracked: list[Any] = []

    def convert(value: Any) -> Any:
        if isinstance(value, Fixed):
            return library.from_numpy(value.array.copy())
        if not isinstance(value, tuple):
            return value
        if isinstance(value, Positive):
            drawn = rng.uniform(0.05, 0.95, tuple(value))
        else:
            drawn = rng.standard_normal(value)
        tracked.append(library.from_numpy(drawn.astype(np.float32)).requires_grad_())
        return tracked[-1]

    function = getattr(library.nn.functional, name)
    # Numbers of windows and sizes are ints and lists: a tuple is always a shape here.
    given = [convert(value) for value in args]
    named = {key: convert(value) if isinstance(value, Fixed) else value for key, value in kwargs.items()}
    out = function(*given, **named)
    outputs = [part for part in (out if isinstance(out, tuple) else (out,)) if part is not None]
    loss = sum(
        (
            part
            * library.from_numpy(0.3 + np.cos(np.arange(part.numel(), dtype=np.float32))).view(part.shape)
        ).sum()
        for part in outputs
        if part.requires_grad
    )
    if not isinstance(loss, int):
        loss.backward()
    found = [part.detach().numpy() for part in outputs]
    # No gradient and a gradient of zeros are one: which it is may depend on what was saved.
    return found + [(0 * t.detach() if t.grad is None else t.grad).numpy() for t in tracked]


@pytest.mark.torch
@pytest.mark.parametrize(("name", "args", "kwargs", "number"), TABLE, ids=[f"{t[0]}-{t[3]}" for t in TABLE])
def test_beside_torch(name: str, args: Any, kwargs: Any, number: int) -> None:
    torch = pytest.importorskip("torch")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ours, theirs = outcome(weft, name, args, kwargs), outcome(torch, name, args, kwargs)
    assert len(ours) == len(theirs)
    for found, expected in zip(ours, theirs):
        assert found.shape == expected.shape and found.dtype == expected.dtype
        finite = np.isfinite(expected)
        assert np.array_equal(finite, np.isfinite(found))
        scale = max(float(np.abs(expected[finite]).max(initial=0)), 1e-6)
        assert np.abs(found[finite] - expected[finite].astype(float)).max(initial=0) <= TOLERANCE * scale


def test_no_function_is_forgotten() -> None:
    public = {
        name
        for name, value in vars(weft.nn.functional).items()
        if not name.startswith("_") and callable(value) and name != "annotations"
    }
    compared = {entry[0] for entry in TABLE} | set(IN_PLACE) | set(RANDOM) | set(OF_OVERRIDES)
    functional = vars(weft.nn.functional)
    assert all(functional[name] is functional[same] for name, same in OTHER_NAMES.items())
    compared |= set(OTHER_NAMES)
    assert public - compared == set()


def test_keywords_of_constructors_for_functions_that_make_tensors():
    give = weft.nn.factory_kwargs
    assert give(None) == {} and give({"dtype": weft.float64}) == {"dtype": weft.float64}
    assert give({"factory_kwargs": {"device": "cpu"}, "dtype": None}) == {"device": "cpu", "dtype": None}
    with pytest.raises(TypeError, match="unexpected kwargs {'colour'}"):
        give({"colour": 1})
    with pytest.raises(TypeError, match="dtype specified twice"):
        give({"dtype": None, "factory_kwargs": {"dtype": None}})


def test_overrides_are_asked_for():
    class Own(weft.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return "own"

    own, plain = weft.ones(2).as_subclass(Own), weft.ones(2)
    functional = weft.nn.functional
    assert functional.has_torch_function_unary(own) and not functional.has_torch_function_unary(plain)
    assert functional.has_torch_function_variadic(plain, own) and functional.has_torch_function((own,))
    assert functional.handle_torch_function(weft.add, (own,), own) == "own"


def test_randomised_leaks_in_place():
    x = weft.tensor([-1.0, 2.0])
    assert weft.nn.functional.rrelu_(x, 0.5, 0.5) is x and x.tolist() == [-0.5, 2.0]
