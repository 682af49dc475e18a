"""Every layer beside PyTorch's: what it prints, the names and shapes of its weights, and with the same
weights the same outputs and gradients.

One idea: a table of cases; each is built in both libraries, PyTorch's state is loaded into ours, both run on
the same arrays in float32, and the greatest difference counts against the greatest value.
"""

from __future__ import annotations

import copy
import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import weft

TOLERANCE = 1e-5


@dataclass
class Case:
    """One layer: how it is made, what it is called with (shapes stand for random floats), and in which
    mode."""

    name: str
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    inputs: tuple[Any, ...] = ()
    call: dict[str, Any] = field(default_factory=dict)
    training: bool = True
    note: str = ""

    @property
    def label(self) -> str:
        options = [str(value) for value in self.args] + [f"{k}={v}" for k, v in self.kwargs.items()]
        text = f"{self.name}({', '.join(options)})" + ("" if self.training else ".eval()")
        return (f"{text} {self.note}" if self.note else text).replace("\n", "")


@dataclass
class Ints:
    """Random integers below `high`."""

    shape: tuple[int, ...]
    high: int


@dataclass
class Positive:
    """Random floats between 0 and 1; each vector along the last dimension adds up to 1 if `normal`."""

    shape: tuple[int, ...]
    normal: bool = False


@dataclass
class Constant:
    """An array that is the same in both libraries and needs no gradient: masks, weights of classes."""

    value: Any


def case(
    name: str, *args: Any, inputs: Any, training: bool = True, call: Any = None, note: str = "", **kwargs: Any
) -> Case:
    return Case(name, args, kwargs, inputs, call or {}, training, note)


IMAGE = ((2, 4, 6, 7),)
ROWS = ((3, 4, 6),)
VOLUME = ((2, 2, 4, 5, 4),)
MASK = Constant(np.triu(np.ones((5, 5), bool), 1))
PADDED = Constant(np.array([[False] * 4 + [True], [False] * 5]))

ACTIVATIONS = [
    case(name, inputs=((4, 6),))
    for name in (
        "ReLU", "ReLU6", "SiLU", "Mish", "SELU", "Hardsigmoid", "Hardswish", "Sigmoid", "LogSigmoid", "Tanh",
        "Tanhshrink", "Softsign", "ELU", "CELU", "LeakyReLU", "GELU", "Softplus", "Hardshrink", "Softshrink",
        "Hardtanh", "GLU", "PReLU", "Identity",
    )
]  # fmt: skip
ACTIVATIONS += [
    case("Threshold", 0.1, 20.0, inputs=((4, 6),)),
    case("Threshold", 0.1, 20.0, inplace=True, inputs=(), note="(print)"),
    case("ReLU", inplace=True, inputs=(), note="(print)"),
    case("ELU", 1.5, inputs=((4, 6),)),
    case("ELU", 1.5, inplace=True, inputs=(), note="(print)"),
    case("CELU", 1.5, inputs=((4, 6),)),
    case("LeakyReLU", 0.2, inputs=((4, 6),)),
    case("LeakyReLU", 0.2, inplace=True, inputs=(), note="(print)"),
    case("Hardswish", inplace=True, inputs=(), note="(print)"),
    case("Hardsigmoid", inplace=True, inputs=(), note="(print)"),
    case("Hardtanh", -0.5, 2.0, inplace=True, inputs=(), note="(print)"),
    case("ReLU6", inplace=True, inputs=(), note="(print)"),
    case("GELU", "tanh", inputs=((4, 6),)),
    case("Softplus", 2.0, 1.0, inputs=((4, 6),)),
    case("Softshrink", 0.3, inputs=((4, 6),)),
    case("Hardtanh", -0.5, 0.7, inputs=((4, 6),)),
    case("GLU", 0, inputs=((4, 6),)),
    case("PReLU", 4, init=0.1, inputs=IMAGE),
    case("Softmax", 1, inputs=((4, 6),)),
    case("Softmax", -1, inputs=ROWS),
    case("LogSoftmax", 0, inputs=((4, 6),)),
    case("Softmin", dim=1, inputs=((4, 6),)),
    case("Softmax2d", inputs=IMAGE),
]

LINEAR = [
    case("Linear", 6, 5, inputs=((4, 6),)),
    case("Linear", 6, 5, bias=False, inputs=((2, 3, 6),)),
    case("Linear", 6, 5, inputs=((6,),)),
    case("Bilinear", 3, 4, 5, inputs=((2, 3), (2, 4))),
    case("Bilinear", 3, 4, 5, bias=False, inputs=((2, 6, 3), (2, 6, 4))),
    case("Embedding", 7, 3, inputs=(Ints((4, 2), 7),)),
    case("Embedding", 7, 3, padding_idx=2, inputs=(Ints((4, 6), 7),)),
    case("Embedding", 7, 3, padding_idx=-1, max_norm=0.8, norm_type=1.0, inputs=(Ints((5,), 7),)),
    case("Embedding", 7, 3, max_norm=1.0, scale_grad_by_freq=True, inputs=(Ints((9,), 7),)),
]

NORMS = [
    case("LayerNorm", 6, inputs=ROWS),
    case("LayerNorm", (4, 6), eps=1e-3, inputs=ROWS),
    case("LayerNorm", 6, bias=False, inputs=ROWS),
    case("LayerNorm", [6], elementwise_affine=False, inputs=ROWS),
    case("RMSNorm", 6, inputs=ROWS),
    case("RMSNorm", (4, 6), eps=1e-3, inputs=ROWS),
    case("RMSNorm", 6, elementwise_affine=False, inputs=ROWS),
    case("GroupNorm", 2, 4, inputs=IMAGE),
    case("GroupNorm", 4, 4, affine=False, inputs=ROWS),
    case("GroupNorm", 1, 4, bias=False, inputs=((3, 4),)),
    case("BatchNorm1d", 4, inputs=((5, 4),)),
    case("BatchNorm1d", 4, inputs=ROWS, momentum=None),
    case("BatchNorm1d", 4, inputs=ROWS, training=False),
    case("BatchNorm2d", 4, inputs=IMAGE),
    case("BatchNorm2d", 4, eps=1e-3, momentum=0.3, inputs=IMAGE),
    case("BatchNorm2d", 4, affine=False, inputs=IMAGE),
    case("BatchNorm2d", 4, bias=False, inputs=IMAGE),
    case("BatchNorm2d", 4, track_running_stats=False, inputs=IMAGE),
    case("BatchNorm2d", 4, track_running_stats=False, inputs=IMAGE, training=False),
    case("BatchNorm2d", 4, inputs=IMAGE, training=False),
    case("BatchNorm3d", 2, inputs=VOLUME),
    case("InstanceNorm1d", 4, inputs=ROWS),
    case("InstanceNorm1d", 4, inputs=((4, 6),)),
    case("InstanceNorm2d", 4, affine=True, inputs=IMAGE),
    case("InstanceNorm2d", 4, affine=True, bias=False, inputs=IMAGE),
    case("InstanceNorm2d", 4, track_running_stats=True, inputs=IMAGE),
    case("InstanceNorm2d", 4, track_running_stats=True, inputs=IMAGE, training=False),
    case("InstanceNorm3d", 2, inputs=VOLUME),
]

CONVOLUTIONS = [
    case("Conv1d", 4, 6, 3, inputs=ROWS),
    case("Conv1d", 4, 6, 3, stride=2, padding=1, dilation=2, inputs=((2, 4, 11),)),
    case("Conv1d", 4, 6, 4, padding="same", bias=False, inputs=ROWS),
    case("Conv1d", 4, 6, 3, inputs=((4, 6),)),
    case("Conv2d", 4, 6, 3, inputs=IMAGE),
    case("Conv2d", 4, 6, (3, 2), stride=(2, 1), padding=(1, 0), groups=2, inputs=IMAGE),
    case("Conv2d", 4, 4, 3, padding=1, groups=4, bias=False, inputs=IMAGE),
    case("Conv2d", 4, 6, 3, padding="valid", dilation=2, inputs=IMAGE),
    case("Conv2d", 4, 6, (3, 4), padding="same", inputs=IMAGE),
    case("Conv2d", 4, 6, 3, padding=1, padding_mode="reflect", inputs=IMAGE),
    case("Conv2d", 4, 6, 3, padding=(2, 1), padding_mode="circular", inputs=IMAGE),
    case("Conv2d", 4, 6, 4, padding="same", padding_mode="replicate", inputs=IMAGE),
    case("Conv3d", 2, 3, 2, inputs=VOLUME),
    case("Conv3d", 2, 4, (2, 3, 2), padding=1, stride=2, groups=2, inputs=VOLUME),
    case("ConvTranspose1d", 4, 6, 3, stride=2, inputs=ROWS),
    case("ConvTranspose1d", 4, 6, 3, stride=2, inputs=ROWS, call={"output_size": [14]}, note="output_size"),
    case("ConvTranspose2d", 4, 6, 3, inputs=IMAGE),
    case("ConvTranspose2d", 4, 6, 3, stride=2, padding=1, output_padding=1, groups=2, inputs=IMAGE),
    case("ConvTranspose2d", 4, 6, (3, 2), dilation=2, bias=False, inputs=IMAGE),
    case("ConvTranspose3d", 2, 3, 2, inputs=VOLUME),
]

POOLS = [
    case("MaxPool1d", 2, inputs=ROWS),
    case("MaxPool1d", 3, stride=2, padding=1, ceil_mode=True, inputs=ROWS),
    case("MaxPool2d", 2, inputs=IMAGE),
    case("MaxPool2d", (3, 2), stride=(2, 1), padding=1, dilation=1, inputs=IMAGE),
    case("MaxPool2d", 2, return_indices=True, inputs=IMAGE),
    case("MaxPool3d", 2, inputs=VOLUME),
    case("AvgPool1d", 2, inputs=ROWS),
    case("AvgPool1d", 3, stride=2, padding=1, count_include_pad=False, inputs=ROWS),
    case("AvgPool2d", 2, inputs=IMAGE),
    case("AvgPool2d", (3, 2), stride=2, padding=1, ceil_mode=True, inputs=IMAGE),
    case("AvgPool2d", 2, divisor_override=3, inputs=IMAGE),
    case("AvgPool3d", 2, inputs=VOLUME),
    case("LPPool1d", 2, 3, inputs=(Positive((3, 4, 6)),)),
    case("LPPool2d", 2.0, 2, stride=1, inputs=(Positive((2, 4, 6, 7)),)),
    case("LPPool3d", 2, 2, inputs=(Positive((2, 2, 4, 5, 4)),)),
    case("AdaptiveAvgPool1d", 4, inputs=ROWS),
    case("AdaptiveAvgPool2d", (3, None), inputs=IMAGE),
    case("AdaptiveAvgPool2d", 1, inputs=IMAGE),
    case("AdaptiveAvgPool3d", 2, inputs=VOLUME),
    case("AdaptiveMaxPool1d", 4, inputs=ROWS),
    case("AdaptiveMaxPool2d", (3, 4), return_indices=True, inputs=IMAGE),
    case("AdaptiveMaxPool3d", 2, inputs=VOLUME),
]

SHAPES = [
    case("Flatten", inputs=IMAGE),
    case("Flatten", 0, 2, inputs=IMAGE),
    case("Unflatten", 1, (2, 2), inputs=IMAGE),
    case("Dropout", 0.4, inputs=ROWS, training=False),
    case("Dropout", 0.0, True, inputs=(), note="(print)"),
    case("Dropout1d", inputs=ROWS, training=False),
    case("Dropout2d", inputs=IMAGE, training=False),
    case("Dropout3d", inputs=VOLUME, training=False),
    case("ConstantPad1d", (1, 2), 0.5, inputs=ROWS),
    case("ConstantPad2d", 1, 0.5, inputs=IMAGE),
    case("ConstantPad3d", 1, 0.5, inputs=VOLUME),
    case("ZeroPad1d", 1, inputs=ROWS),
    case("ZeroPad2d", (1, -1, 2, 0), inputs=IMAGE),
    case("ZeroPad3d", 1, inputs=VOLUME),
    case("ReflectionPad1d", 2, inputs=ROWS),
    case("ReflectionPad2d", (1, 2, 2, 1), inputs=IMAGE),
    case("ReflectionPad3d", 1, inputs=VOLUME),
    case("ReplicationPad1d", 2, inputs=ROWS),
    case("ReplicationPad2d", 3, inputs=IMAGE),
    case("ReplicationPad3d", 1, inputs=VOLUME),
    case("CircularPad1d", 2, inputs=ROWS),
    case("CircularPad2d", (1, 2, 2, 1), inputs=IMAGE),
    case("CircularPad3d", 1, inputs=VOLUME),
    case("Upsample", scale_factor=2, inputs=IMAGE),
    case("Upsample", (5, 9), mode="bilinear", inputs=IMAGE),
    case("Upsample", scale_factor=(2.0, 1.5), mode="bicubic", align_corners=True, inputs=IMAGE),
    case("UpsamplingNearest2d", scale_factor=2, inputs=IMAGE),
    case("UpsamplingBilinear2d", size=(9, 8), inputs=IMAGE),
    case("PixelShuffle", 2, inputs=IMAGE),
    case("PixelUnshuffle", 2, inputs=((2, 4, 6, 8),)),
    case("ChannelShuffle", 2, inputs=IMAGE),
    case("Unfold", (2, 3), padding=1, inputs=IMAGE),
    case("Fold", (4, 5), (2, 2), inputs=((2, 12, 12),)),
    case("PairwiseDistance", inputs=((4, 6), (4, 6))),
    case("PairwiseDistance", 1.0, keepdim=True, inputs=((4, 6), (4, 6))),
    case("CosineSimilarity", inputs=((4, 6), (4, 6))),
    case("CosineSimilarity", 0, eps=1e-3, inputs=((4, 6), (4, 6))),
]

PAIR = ((4, 6), (4, 6))
WEIGHT = Constant(np.linspace(0.5, 1.5, 6, dtype=np.float32))
LOSSES = [
    *[case(name, inputs=PAIR) for name in ("MSELoss", "L1Loss", "SmoothL1Loss", "HuberLoss")],
    *[case("MSELoss", reduction=reduction, inputs=PAIR) for reduction in ("sum", "none")],
    case("SmoothL1Loss", beta=0.3, reduction="sum", inputs=PAIR),
    case("HuberLoss", "none", 0.4, inputs=PAIR),
    case("CrossEntropyLoss", inputs=((4, 6), Ints((4,), 6))),
    case("CrossEntropyLoss", WEIGHT, label_smoothing=0.1, ignore_index=1, inputs=((8, 6), Ints((8,), 6))),
    case("CrossEntropyLoss", reduction="sum", inputs=((4, 6), Positive((4, 6), normal=True))),
    case("CrossEntropyLoss", reduction="none", inputs=((4, 6, 3), Ints((4, 3), 6))),
    case("NLLLoss", inputs=((4, 6), Ints((4,), 6))),
    case("NLLLoss", WEIGHT, ignore_index=2, reduction="sum", inputs=((8, 6), Ints((8,), 6))),
    case("BCELoss", inputs=(Positive((4, 6)), Positive((4, 6)))),
    case("BCELoss", WEIGHT, reduction="sum", inputs=(Positive((4, 6)), Positive((4, 6)))),
    case("BCEWithLogitsLoss", inputs=((4, 6), Positive((4, 6)))),
    case("BCEWithLogitsLoss", WEIGHT, pos_weight=WEIGHT, inputs=((4, 6), Positive((4, 6)))),
    case("KLDivLoss", reduction="batchmean", inputs=((4, 6), Positive((4, 6), normal=True))),
    case("KLDivLoss", reduction="sum", log_target=True, inputs=PAIR),
    case("TripletMarginLoss", inputs=((4, 6), (4, 6), (4, 6))),
    case("TripletMarginLoss", 2.0, p=1.0, swap=True, reduction="sum", inputs=((4, 6), (4, 6), (4, 6))),
]

SEQUENCE = (5, 2, 3)
STATE, BOTH = (1, 2, 4), (4, 2, 4)
RECURRENT = [
    *[case(name, 3, 4, inputs=((2, 3),)) for name in ("RNNCell", "LSTMCell", "GRUCell")],
    *[case(name, 3, 4, bias=False, inputs=((3,),)) for name in ("RNNCell", "LSTMCell", "GRUCell")],
    case("RNNCell", 3, 4, nonlinearity="relu", inputs=((2, 3), (2, 4))),
    case("GRUCell", 3, 4, inputs=((2, 3), (2, 4))),
    case("LSTMCell", 3, 4, inputs=((2, 3), [(2, 4), (2, 4)])),
    case("LSTMCell", 3, 4, inputs=((3,), [(4,), (4,)])),
    *[case(name, 3, 4, inputs=(SEQUENCE,)) for name in ("RNN", "LSTM", "GRU")],
    *[case(name, 3, 4, inputs=((5, 3),), note="unbatched") for name in ("RNN", "LSTM", "GRU")],
    *[
        case(name, 3, 4, num_layers=2, bidirectional=True, batch_first=True, bias=False, inputs=((2, 5, 3),))
        for name in ("RNN", "LSTM", "GRU")
    ],
    case("RNN", 3, 4, 2, "relu", bidirectional=True, inputs=(SEQUENCE, BOTH)),
    case("GRU", 3, 4, 2, bidirectional=True, inputs=(SEQUENCE, BOTH)),
    case("GRU", 3, 4, batch_first=True, inputs=((5, 3), (1, 4)), note="unbatched"),
    case("LSTM", 3, 4, 2, bidirectional=True, inputs=(SEQUENCE, [BOTH, BOTH])),
    case("LSTM", 3, 4, inputs=((5, 3), [(1, 4), (1, 4)]), note="unbatched"),
    case("LSTM", 3, 4, 2, dropout=0.3, inputs=(SEQUENCE,), training=False),
    case("LSTM", 3, 4, proj_size=2, inputs=(SEQUENCE,)),
    case("LSTM", 3, 4, 2, proj_size=2, bidirectional=True, inputs=(SEQUENCE, [(4, 2, 2), BOTH])),
]

QUERY = (5, 2, 8)
SELF = ("self", QUERY)
ATTENTION = [
    case("MultiheadAttention", 8, 2, inputs=SELF),
    case("MultiheadAttention", 8, 2, inputs=(QUERY, (3, 2, 8), (3, 2, 8))),
    case("MultiheadAttention", 8, 4, bias=False, inputs=SELF, call={"average_attn_weights": False},
    note="per head"), case("MultiheadAttention", 8, 2, inputs=SELF, call={"need_weights": False},
    note="no weights"), case("MultiheadAttention", 8, 2, batch_first=True, inputs=("self", (2, 5, 8))),
    case("MultiheadAttention", 8, 2, batch_first=True, inputs=((2, 5, 8), (2, 3, 8), (2, 3, 8))),
    case("MultiheadAttention", 8, 2, kdim=3, vdim=4, inputs=(QUERY, (6, 2, 3), (6, 2, 4))),
    case("MultiheadAttention", 8, 2, kdim=3, bias=False, add_bias_kv=True, inputs=(QUERY, (6, 2, 3), (6, 2,
    8))), case("MultiheadAttention", 8, 2, add_bias_kv=True, add_zero_attn=True, inputs=SELF),
    case("MultiheadAttention", 8, 2, inputs=("self", (5, 8)), note="unbatched"),
    case("MultiheadAttention", 8, 2, dropout=0.4, inputs=SELF, training=False),
    case("MultiheadAttention", 8, 2, inputs=SELF, call={"attn_mask": MASK}, note="masked"),
    case("MultiheadAttention", 8, 2, inputs=SELF, call={"attn_mask": MASK, "key_padding_mask": PADDED},
    note="padded"), case(
        "MultiheadAttention", 8, 2, inputs=SELF, note="causal",
        call={"attn_mask": MASK, "is_causal": True, "need_weights": False},
    ),
    case(
        "MultiheadAttention", 8, 2, add_zero_attn=True, inputs=SELF, note="padded and padded by a zero",
        call={"key_padding_mask": PADDED},
    ),
]  # fmt: skip

SIGNS = Constant(np.where(np.arange(24).reshape(4, 6) % 3 == 0, -1, 1).astype(np.float32))
SIGNS_4 = Constant(SIGNS.value[:, 0])
LABELS = Constant(
    np.array([[3, 0, -1, 1, 2, 4], [0, -1, 2, 3, 1, 5], [1, 2, 3, 4, 5, 0], [5, 4, -1, 0, 1, 2]])
)
COUNTS = Constant(np.arange(24, dtype=np.float32).reshape(4, 6) % 5)
PLACES = Constant(np.array([[[0, 3, 5], [1, 2, 4]], [[1, 3, 4], [0, 2, 5]]]))
PLACES_2D = Constant(np.array([[[[0, 3], [9, 14]], [[5, 2], [8, 11]]]]))
PLACES_3D = Constant(np.array([[[[[0, 3], [9, 14]], [[37, 34], [40, 63]]]]]))
SAMPLES_2D = Constant(np.linspace(0.1, 0.8, 16, dtype=np.float32).reshape(2, 4, 2))
SAMPLES_3D = Constant(np.linspace(0.1, 0.8, 12, dtype=np.float32).reshape(2, 2, 3))
SPEECH = ((7, 2, 5), Ints((2, 3), 4), Constant(np.array([7, 6])), Constant(np.array([3, 2])))
MORE = [
    case("RReLU", inputs=((4, 6),), training=False),
    case("RReLU", 0.1, 0.4, inplace=True, inputs=(), note="(print)"),
    case("AlphaDropout", 0.3, inputs=ROWS, training=False),
    case("FeatureAlphaDropout", 0.3, inputs=ROWS, training=False),
    case("AlphaDropout", 0.0, inputs=ROWS),
    case("LocalResponseNorm", 2, inputs=ROWS),
    case("LocalResponseNorm", 3, 0.5, 0.6, 2.0, inputs=IMAGE),
    case("CrossMapLRN2d", 3, 0.5, 0.6, 2.0, inputs=(), note="(print)"),
    case("MaxUnpool1d", 2, inputs=((2, 2, 3), PLACES)),
    case("MaxUnpool2d", 2, stride=2, inputs=((1, 2, 2, 2), PLACES_2D)),
    case("MaxUnpool3d", 2, inputs=((1, 1, 2, 2, 2), PLACES_3D)),
    case("MaxUnpool1d", 2, inputs=((2, 2, 3), PLACES), call={"output_size": [7]}, note="output_size"),
    case("FractionalMaxPool2d", 2, (3, 4), _random_samples=SAMPLES_2D, inputs=IMAGE),
    case(
        "FractionalMaxPool2d", (3, 2), output_ratio=(0.6, 0.5), return_indices=True,
        _random_samples=SAMPLES_2D, inputs=IMAGE,
    ),
    case("FractionalMaxPool3d", 2, 2, _random_samples=SAMPLES_3D, inputs=VOLUME),
    case("EmbeddingBag", 7, 3, inputs=(Ints((4, 5), 7),)),
    case("EmbeddingBag", 7, 3, mode="sum", inputs=(Ints((6,), 7), Constant(np.array([0, 2, 2])))),
    case(
        "EmbeddingBag", 7, 3, mode="max", include_last_offset=True,
        inputs=(Ints((6,), 7), Constant(np.array([0, 2, 6]))),
    ),
    case("EmbeddingBag", 7, 3, mode="sum", padding_idx=2, inputs=(Ints((4, 5), 7), None, (4, 5))),
    case("EmbeddingBag", 7, 3, max_norm=0.8, norm_type=1.0, inputs=(Ints((4, 5), 7),)),
    case("AdaptiveLogSoftmaxWithLoss", 16, 12, [3, 7], inputs=((6, 16), Ints((6,), 12))),
    case("AdaptiveLogSoftmaxWithLoss", 8, 9, [4], 2.0, head_bias=True, inputs=((8,), Ints((), 9))),
    *[case("PoissonNLLLoss", full=full, inputs=((4, 6), COUNTS)) for full in (False, True)],
    case("PoissonNLLLoss", False, reduction="sum", inputs=(Positive((4, 6)), COUNTS)),
    case("GaussianNLLLoss", inputs=((4, 6), (4, 6), Positive((4, 6)))),
    case("GaussianNLLLoss", full=True, reduction="none", inputs=((4, 6), (4, 6), Positive((4, 1)))),
    case("CosineEmbeddingLoss", inputs=((4, 6), (4, 6), SIGNS_4)),
    case("CosineEmbeddingLoss", 0.2, reduction="sum", inputs=((4, 6), (4, 6), SIGNS_4)),
    *[case("HingeEmbeddingLoss", 0.7, reduction=r, inputs=((4, 6), SIGNS)) for r in ("mean", "none")],
    *[case("MarginRankingLoss", m, inputs=((4, 6), (4, 6), SIGNS)) for m in (0.0, 0.4)],
    *[case("SoftMarginLoss", reduction=r, inputs=((4, 6), SIGNS)) for r in ("mean", "sum")],
    *[case("MultiLabelMarginLoss", reduction=r, inputs=((4, 6), LABELS)) for r in ("mean", "none")],
    case("MultiLabelSoftMarginLoss", inputs=((4, 6), Positive((4, 6)))),
    case("MultiLabelSoftMarginLoss", WEIGHT, reduction="none", inputs=((4, 6), Positive((4, 6)))),
    case("MultiMarginLoss", inputs=((4, 6), Ints((4,), 6))),
    case("MultiMarginLoss", 2, 0.5, WEIGHT, reduction="sum", inputs=((4, 6), Ints((4,), 6))),
    case("TripletMarginWithDistanceLoss", inputs=((4, 6), (4, 6), (4, 6))),
    case("TripletMarginWithDistanceLoss", margin=2.0, swap=True, inputs=((4, 6), (4, 6), (4, 6))),
    case("CTCLoss", inputs=SPEECH),
    case("CTCLoss", 4, "sum", True, inputs=SPEECH),
    case("CTCLoss", 4, "none", inputs=SPEECH),
]  # fmt: skip
SMALL = {"dim_feedforward": 7, "dropout": 0.0}
TRANSFORMERS = [
    case("TransformerEncoderLayer", 8, 2, **SMALL, inputs=(QUERY,)),
    case("TransformerEncoderLayer", 8, 2, 7, 0.3, inputs=(QUERY,), training=False),
    case(
        "TransformerEncoderLayer", 8, 2, **SMALL, activation="gelu", norm_first=True, batch_first=True,
        bias=False, layer_norm_eps=1e-3, inputs=((2, 5, 8), MASK, PADDED),
    ),
    case("TransformerEncoderLayer", 8, 2, **SMALL, inputs=((5, 8),), note="unbatched"),
    case("TransformerDecoderLayer", 8, 2, **SMALL, inputs=(QUERY, (3, 2, 8))),
    case(
        "TransformerDecoderLayer", 8, 2, **SMALL, activation="gelu", norm_first=True, batch_first=True,
        bias=False, inputs=((2, 5, 8), (2, 3, 8), MASK),
    ),
    case("Transformer", 8, 2, 2, 2, **SMALL, inputs=((3, 2, 8), QUERY), call={"tgt_mask": MASK}),
    case(
        "Transformer", 8, 2, 1, 1, **SMALL, batch_first=True, norm_first=True, bias=False,
        inputs=((2, 5, 8), (2, 3, 8)), call={"src_mask": MASK, "src_key_padding_mask": PADDED}, note="masked",
    ),
]  # fmt: skip

CASES = [
    *ACTIVATIONS, *LINEAR, *NORMS, *CONVOLUTIONS, *POOLS, *SHAPES, *LOSSES, *RECURRENT, *ATTENTION, *MORE,
    *TRANSFORMERS,
]  # fmt: skip


# -- both libraries at once ----------------------------------------------------------------------------------
class Library:
    """One of the two: how it makes tensors of arrays and arrays of tensors."""

    def __init__(self, module: Any) -> None:
        self.module = module

    def tensor(self, array: np.ndarray, tracked: bool = False) -> Any:
        made = self.module.from_numpy(np.array(array))
        return made.requires_grad_() if tracked else made

    def option(self, value: Any) -> Any:
        return self.tensor(value.value) if isinstance(value, Constant) else value

    def build(self, made: Case) -> Any:
        kind = getattr(self.module.nn, made.name)
        kwargs = {key: self.option(value) for key, value in made.kwargs.items()}
        return kind(*map(self.option, made.args), **kwargs).train(made.training)


def arrays(spec: Any, rng: np.random.Generator) -> Any:
    """What a case's inputs stand for."""
    match spec:
        case tuple():
            return rng.standard_normal(spec).astype(np.float32)
        case Ints():
            return rng.integers(0, spec.high, spec.shape)
        case Positive():
            drawn = rng.uniform(0.05, 0.95, spec.shape).astype(np.float32)
            return drawn / drawn.sum(-1, keepdims=True) if spec.normal else drawn
        case Constant():
            return spec.value
        case None:
            return None
        case list():
            return [arrays(item, rng) for item in spec]


def run(library: Library, layer: Any, made: Case, inputs: list[Any]) -> dict[str, np.ndarray]:
    """Outputs, gradients and buffers by name."""
    tracked: list[Any] = []

    def convert(value: Any) -> Any:
        if isinstance(value, list):
            return tuple(map(convert, value))
        if value is None:
            return None
        made = library.tensor(value, value.dtype.kind == "f")
        tracked.append(made)
        return made

    given = [spec for spec in made.inputs if spec != "self"]
    tensors = [
        library.option(spec) if isinstance(spec, Constant) else convert(value)
        for spec, value in zip(given, inputs)
    ]
    if made.inputs[0] == "self":
        tensors *= 3
    out = layer(*tensors, **{key: library.option(value) for key, value in made.call.items()})
    outputs = [item for item in flat(out) if item is not None]
    found = {f"output {position}": item.detach().numpy() for position, item in enumerate(outputs)}
    # Any fixed weights would do; these treat no two elements alike.
    total = sum(
        (
            item
            * library.tensor(
                (0.3 + np.cos(np.arange(item.numel(), dtype=np.float32))).reshape(tuple(item.shape))
            )
        ).sum()
        for item in outputs
        if item.requires_grad
    )
    if not isinstance(total, int):
        total.backward()
    for position, tensor in enumerate(tracked):
        if tensor.grad is not None:
            found[f"gradient of input {position}"] = tensor.grad.numpy()
    for name, parameter in layer.named_parameters():
        assert parameter.grad is not None, name
        found[f"gradient of {name}"] = parameter.grad.numpy()
    found.update({name: value.numpy() for name, value in layer.named_buffers()})
    return found


def flat(value: Any) -> list[Any]:
    return [item for part in value for item in flat(part)] if isinstance(value, tuple) else [value]


def shaken(state: dict[str, Any], rng: np.random.Generator) -> dict[str, np.ndarray]:
    """The state as arrays, with ones and zeros replaced: what is constant at the start would hide
    mistakes."""
    arrays = {}
    for name, value in state.items():
        array = value.detach().numpy()
        if array.dtype.kind == "f" and array.size and np.ptp(array) == 0:
            array = rng.uniform(0.5, 1.5, array.shape).astype(array.dtype)
        arrays[name] = np.array(array)
    return arrays


def differences(made: Case) -> dict[str, float]:
    """The greatest difference of each result, as a part of its greatest value."""
    torch = pytest.importorskip("torch")
    theirs_library, ours_library = Library(torch), Library(weft)
    theirs, ours = theirs_library.build(made), ours_library.build(made)
    assert repr(ours) == repr(theirs)
    state = theirs.state_dict()
    shapes = [(name, tuple(value.shape), str(value.dtype).split(".")[-1]) for name, value in state.items()]
    assert [(n, tuple(v.shape), str(v.dtype).split(".")[-1]) for n, v in ours.state_dict().items()] == shapes
    if not made.inputs:
        return {}
    rng = np.random.default_rng(len(made.label))
    values = shaken(state, rng)
    theirs.load_state_dict({name: theirs_library.tensor(value) for name, value in values.items()})
    loaded = ours.load_state_dict({name: ours_library.tensor(value) for name, value in values.items()})
    assert loaded.missing_keys == loaded.unexpected_keys == []
    inputs = [arrays(spec, rng) for spec in made.inputs if spec != "self"]
    expected, found = run(theirs_library, theirs, made, inputs), run(ours_library, ours, made, inputs)
    assert list(found) == list(expected)
    figures = {}
    for name, wanted in expected.items():
        assert found[name].shape == wanted.shape and found[name].dtype == wanted.dtype, name
        scale = max(float(np.abs(wanted).max(initial=0)), 1e-6)
        figures[name] = float(np.abs(found[name].astype(float) - wanted).max(initial=0)) / scale
    return figures


@pytest.mark.torch
@pytest.mark.parametrize("made", CASES, ids=lambda made: made.label)
def test_beside_torch(made: Case) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch's own
        figures = differences(made)
    assert {name: value for name, value in figures.items() if not value <= TOLERANCE} == {}


def captured(layer: Any) -> Any:
    """The layer as one graph, with the parts that `run` reads."""
    compiled = weft.compile(layer, backend="eager", fullgraph=True)

    class Captured:
        named_parameters = staticmethod(layer.named_parameters)
        named_buffers = staticmethod(layer.named_buffers)

        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            return compiled(*args, **kwargs)

    return Captured()


@pytest.mark.parametrize(
    "made", [made for made in MORE + TRANSFORMERS if made.inputs], ids=lambda made: made.label
)
def test_captured_whole(made: Case) -> None:
    """No breaks, and eager's outputs, gradients and buffers."""
    library, rng = Library(weft), np.random.default_rng(len(made.label))
    layer = library.build(made)
    other = copy.deepcopy(layer)
    inputs = [arrays(spec, rng) for spec in made.inputs if spec != "self"]
    expected, found = run(library, layer, made, inputs), run(library, captured(other), made, inputs)
    assert list(found) == list(expected)
    for name, wanted in expected.items():
        np.testing.assert_allclose(found[name], wanted, rtol=1e-5, atol=1e-6, err_msg=name)


RANDOM = [
    case("Dropout", 0.4, inputs=ROWS),
    case("Dropout1d", inputs=ROWS),
    case("Dropout2d", inputs=IMAGE),
    case("Dropout3d", inputs=VOLUME),
    case("AlphaDropout", 0.4, inputs=ROWS),
    case("FeatureAlphaDropout", 0.4, inputs=IMAGE),
    case("RReLU", inputs=ROWS),
    case("FractionalMaxPool2d", 2, 3, inputs=IMAGE),
    case("LSTM", 3, 4, 2, dropout=0.4, inputs=(SEQUENCE,)),
    case("MultiheadAttention", 8, 2, dropout=0.4, inputs=SELF),
    case("TransformerEncoderLayer", 8, 2, 7, 0.4, inputs=(QUERY,)),
]


@pytest.mark.parametrize("made", RANDOM, ids=lambda made: made.label)
def test_what_is_drawn_in_a_graph_is_what_eager_draws(made: Case) -> None:
    library, rng = Library(weft), np.random.default_rng(1)
    layer = library.build(made)
    graph = captured(copy.deepcopy(layer))
    inputs = [arrays(spec, rng) for spec in made.inputs if spec != "self"]
    results = []
    for kind in (layer, graph):
        weft.manual_seed(3)
        results.append([run(library, kind, made, inputs)["output 0"] for _ in range(2)])
    assert not np.array_equal(*results[0])
    for ours, wanted in zip(*results):
        np.testing.assert_allclose(ours, wanted, rtol=1e-5, atol=1e-6)
