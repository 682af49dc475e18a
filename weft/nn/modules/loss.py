"""Losses as layers: each keeps its options and calls the function of its name.

Takes predictions and targets, gives the loss: per element, or its mean or sum. Weights of classes or
elements are buffers, so that they move with the module.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import weft.nn.functional as F
from weft.nn.modules.distance import PairwiseDistance
from weft.nn.modules.linear import Linear
from weft.nn.modules.module import Module
from weft.nn.modules.utils import named
from weft.ops.losses import legacy_reduction
from weft.tensor.base import Tensor

__all__ = [
    "BCELoss", "BCEWithLogitsLoss", "CTCLoss", "CosineEmbeddingLoss", "CrossEntropyLoss", "GaussianNLLLoss",
    "HingeEmbeddingLoss", "HuberLoss", "KLDivLoss", "L1Loss", "LinearCrossEntropyLoss",
    "LinearCrossEntropyOptions", "MSELoss", "MarginRankingLoss",
    "MultiLabelMarginLoss", "MultiLabelSoftMarginLoss", "MultiMarginLoss", "NLLLoss", "NLLLoss2d",
    "PoissonNLLLoss", "SmoothL1Loss", "SoftMarginLoss", "TripletMarginLoss",
    "TripletMarginWithDistanceLoss",
]  # fmt: skip


class _Loss(Module):
    __call__: Callable[..., Tensor]
    reduction: str

    def __init__(self, size_average: Any = None, reduce: Any = None, reduction: str = "mean") -> None:
        super().__init__()
        self.reduction = legacy_reduction(size_average, reduce, reduction)


class _WeightedLoss(_Loss):
    weight: Tensor | None

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: Any = None,
        reduce: Any = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)


# -- differences ---------------------------------------------------------------------------------------------
class L1Loss(_Loss):
    """`|input - target|`.

    >>> weft.nn.L1Loss()(weft.tensor([1.0, 3.0]), weft.zeros(2))
    tensor(2.)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.l1_loss(input, target, reduction=self.reduction)


class MSELoss(_Loss):
    """`(input - target)**2`.

    >>> weft.nn.MSELoss()(weft.tensor([1.0, 3.0]), weft.zeros(2))
    tensor(5.)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.mse_loss(input, target, reduction=self.reduction)


class SmoothL1Loss(_Loss):
    """Quadratic where the difference is below `beta`, and the difference less `beta / 2` beyond.

    >>> weft.nn.SmoothL1Loss()(weft.tensor([1.0, 3.0]), weft.zeros(2))
    tensor(1.5000)
    """

    def __init__(
        self, size_average: Any = None, reduce: Any = None, reduction: str = "mean", beta: float = 1.0
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.beta = beta

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.smooth_l1_loss(input, target, reduction=self.reduction, beta=self.beta)


class HuberLoss(_Loss):
    """Half the square where the difference is below `delta`, and linear beyond.

    >>> weft.nn.HuberLoss()(weft.tensor([1.0, 3.0]), weft.zeros(2))
    tensor(1.5000)
    """

    def __init__(self, reduction: str = "mean", delta: float = 1.0) -> None:
        if not isinstance(delta, (float, int)):
            raise TypeError(f"delta must be a float or int, got: {type(delta)}")
        super().__init__(reduction=reduction)
        self.delta = delta

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.huber_loss(input, target, reduction=self.reduction, delta=self.delta)


# -- likelihoods ---------------------------------------------------------------------------------------------
class NLLLoss(_WeightedLoss):
    """Minus the log-probability given for the target's class.

    >>> weft.nn.NLLLoss()(weft.tensor([[-1.0, -2.0], [-3.0, -4.0]]), weft.tensor([0, 1]))
    tensor(2.5000)
    """

    def __init__(
        self, weight: Tensor | None = None, size_average: Any = None, ignore_index: int = -100,
        reduce: Any = None, reduction: str = "mean",
    ) -> None:  # fmt: skip
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index = ignore_index

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.nll_loss(
            input, target, weight=self.weight, ignore_index=self.ignore_index, reduction=self.reduction
        )


class NLLLoss2d(NLLLoss):
    """The old name of `NLLLoss` for images.

    >>> import warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     layer = weft.nn.NLLLoss2d()
    ...
    >>> layer(weft.zeros(1, 3, 2, 2), weft.zeros(1, 2, 2, dtype=weft.int64)).shape
    weft.Size([])
    """

    def __init__(
        self, weight: Tensor | None = None, size_average: Any = None, ignore_index: int = -100,
        reduce: Any = None, reduction: str = "mean",
    ) -> None:  # fmt: skip
        warnings.warn(
            "NLLLoss2d has been deprecated. Please use NLLLoss instead as a drop-in replacement and see "
            "https://pytorch.org/docs/main/nn.html#torch.nn.NLLLoss for more details.",
            FutureWarning,
            stacklevel=2,
        )
        super().__init__(weight, size_average, ignore_index, reduce, reduction)


class PoissonNLLLoss(_Loss):
    """Minus the log-likelihood of counts, from their mean or its log.

    >>> weft.nn.PoissonNLLLoss()(weft.zeros(2), weft.tensor([1.0, 3.0]))
    tensor(1.)
    """

    def __init__(
        self, log_input: bool = True, full: bool = False, size_average: Any = None, eps: float = 1e-8,
        reduce: Any = None, reduction: str = "mean",
    ) -> None:  # fmt: skip
        super().__init__(size_average, reduce, reduction)
        self.log_input, self.full, self.eps = log_input, full, eps

    def forward(self, log_input: Tensor, target: Tensor) -> Tensor:
        return F.poisson_nll_loss(
            log_input, target, log_input=self.log_input, full=self.full, eps=self.eps,
            reduction=self.reduction,
        )  # fmt: skip


class GaussianNLLLoss(_Loss):
    """Minus the log-likelihood of normal values, from their mean and variance.

    >>> weft.nn.GaussianNLLLoss()(weft.zeros(3), weft.ones(3), weft.ones(3))
    tensor(0.5000)
    """

    def __init__(self, *, full: bool = False, eps: float = 1e-6, reduction: str = "mean") -> None:
        super().__init__(None, None, reduction)
        self.full, self.eps = full, eps

    def forward(self, input: Tensor, target: Tensor, var: Any) -> Tensor:
        return F.gaussian_nll_loss(input, target, var, full=self.full, eps=self.eps, reduction=self.reduction)


class CrossEntropyLoss(_WeightedLoss):
    """Minus the log of the softmax at the target's class, or the mean of it under target probabilities.

    >>> weft.nn.CrossEntropyLoss()(weft.zeros(3, 4), weft.tensor([0, 3, 1]))
    tensor(1.3863)
    """

    def __init__(
        self, weight: Tensor | None = None, size_average: Any = None, ignore_index: int = -100,
        reduce: Any = None, reduction: str = "mean", label_smoothing: float = 0.0,
    ) -> None:  # fmt: skip
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index, self.label_smoothing = ignore_index, label_smoothing

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.cross_entropy(
            input, target, weight=self.weight, ignore_index=self.ignore_index, reduction=self.reduction,
            label_smoothing=self.label_smoothing,
        )  # fmt: skip


@dataclass(frozen=True)
class LinearCrossEntropyOptions:
    """How to cut `linear_cross_entropy` into chunks: accepted, and without effect on any number.

    >>> options = weft.nn.LinearCrossEntropyOptions(batch_chunk_size=64)
    >>> weft.nn.LinearCrossEntropyLoss(8, 4, options=options)(weft.zeros(1, 8), weft.tensor([0]))
    tensor(1.3863, grad_fn=<NllLossBackward0>)
    """

    allow_retain_graph: bool = False
    batch_chunk_size: int | None = None
    chunking_method: str | None = "auto"
    acc_policy: str = "auto"
    acc_dtype: Any = None

    def __post_init__(self) -> None:
        size = self.batch_chunk_size
        if size is not None and (not isinstance(size, int) or size <= 0):
            raise ValueError(f"batch_chunk_size must be positive int or None, got {size}")
        if (self.chunking_method or "auto").partition(":")[0] not in ("auto", "aspect_ratio"):
            raise ValueError(f"invalid chunking_method: {self.chunking_method!r}")
        if self.acc_policy not in ("accurate", "balanced", "compact", "auto"):
            raise ValueError(f"invalid acc_policy: {self.acc_policy!r}")


class LinearCrossEntropyLoss(Module):
    """The `CrossEntropyLoss` of what its own linear layer gives.

    >>> head = weft.nn.LinearCrossEntropyLoss(8, 4)
    >>> head(weft.zeros(3, 8), weft.tensor([0, 3, 1]))
    tensor(1.3863, grad_fn=<NllLossBackward0>)
    """

    __call__: Callable[..., Tensor]
    weight: Tensor | None

    def __init__(
        self, in_features: int, num_classes: int, *, out_features: tuple[int, ...] = (), bias: bool = False,
        device: Any = None, dtype: Any = None, reduction: str = "mean", weight: Tensor | None = None,
        ignore_index: int | None = None, label_smoothing: float = 0.0,
        options: LinearCrossEntropyOptions | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        if weight is not None and tuple(weight.shape) != (num_classes,):
            raise RuntimeError(f"expected weight shape to be ({num_classes},), got {tuple(weight.shape)}")
        if not 0.0 <= label_smoothing <= 1.0:
            raise RuntimeError(f"expected label_smoothing to be in range [0, 1], got {label_smoothing}")
        self.in_features, self.num_classes, self.out_features = in_features, num_classes, tuple(out_features)
        outputs = math.prod(self.out_features, start=num_classes)
        self.linear = Linear(in_features, outputs, bias=bias, device=device, dtype=dtype)
        self.register_buffer("weight", weight)
        self.reduction, self.ignore_index = reduction, ignore_index
        self.label_smoothing, self.options = label_smoothing, options

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        places = (self.num_classes, *self.out_features)
        bias = self.linear.bias
        return F.linear_cross_entropy(
            input, self.linear.weight.reshape(*places, self.in_features), target,
            linear_bias=None if bias is None else bias.reshape(places), weight=self.weight,
            reduction=self.reduction, ignore_index=self.ignore_index, label_smoothing=self.label_smoothing,
            options=self.options,
        )  # fmt: skip

    def extra_repr(self) -> str:
        sizes = named(self, "in_features", "num_classes", "out_features")
        rest = named(self, "reduction", "ignore_index", "label_smoothing", "options")
        return f"{sizes}, bias={self.linear.bias is not None}, {rest}"


class BCELoss(_WeightedLoss):
    """The cross entropy of two classes, from probabilities.

    >>> weft.nn.BCELoss()(weft.tensor([0.5, 0.5]), weft.tensor([1.0, 0.0]))
    tensor(0.6931)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.binary_cross_entropy(input, target, weight=self.weight, reduction=self.reduction)


class BCEWithLogitsLoss(_Loss):
    """The cross entropy of two classes, from what a sigmoid would be taken of.

    >>> weft.nn.BCEWithLogitsLoss()(weft.tensor([0.0, 0.0]), weft.tensor([1.0, 0.0]))
    tensor(0.6931)
    """

    weight: Tensor | None
    pos_weight: Tensor | None

    def __init__(
        self, weight: Tensor | None = None, size_average: Any = None, reduce: Any = None,
        reduction: str = "mean", pos_weight: Tensor | None = None,
    ) -> None:  # fmt: skip
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)
        self.register_buffer("pos_weight", pos_weight)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.binary_cross_entropy_with_logits(
            input, target, self.weight, pos_weight=self.pos_weight, reduction=self.reduction
        )


class KLDivLoss(_Loss):
    """`target * (log(target) - input)`, with the input (and by choice the target) given as logs.

    >>> half = weft.tensor([[0.5, 0.5]])
    >>> weft.nn.KLDivLoss(reduction="batchmean")(half.log(), weft.tensor([[1.0, 0.0]]))
    tensor(0.6931)
    """

    def __init__(
        self, size_average: Any = None, reduce: Any = None, reduction: str = "mean", log_target: bool = False
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.log_target = log_target

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.kl_div(input, target, reduction=self.reduction, log_target=self.log_target)


# -- distances -----------------------------------------------------------------------------------------------
class TripletMarginLoss(_Loss):
    """How far the positive example is not nearer, by the margin, than the negative one.

    >>> near, far = weft.tensor([[0.0, 1.0]]), weft.tensor([[0.0, 5.0]])
    >>> weft.nn.TripletMarginLoss(margin=2.0, eps=0.0)(weft.zeros(1, 2), far, near)
    tensor(6.)
    """

    def __init__(
        self, margin: float = 1.0, p: float = 2.0, eps: float = 1e-6, swap: bool = False,
        size_average: Any = None, reduce: Any = None, reduction: str = "mean",
    ) -> None:  # fmt: skip
        super().__init__(size_average, reduce, reduction)
        if margin <= 0:
            raise ValueError(f"TripletMarginLoss: expected margin to be greater than 0, got {margin} instead")
        self.margin, self.p, self.eps, self.swap = margin, p, eps, swap

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        return F.triplet_margin_loss(
            anchor, positive, negative, margin=self.margin, p=self.p, eps=self.eps, swap=self.swap,
            reduction=self.reduction,
        )  # fmt: skip


class TripletMarginWithDistanceLoss(_Loss):
    """As `TripletMarginLoss`, by any distance.

    >>> distance = lambda x, y: (x - y).abs().sum(-1)
    >>> near, far = weft.tensor([[0.0, 1.0]]), weft.tensor([[0.0, 5.0]])
    >>> weft.nn.TripletMarginWithDistanceLoss(distance_function=distance)(weft.zeros(1, 2), far, near)
    tensor(5.)
    """

    def __init__(
        self, *, distance_function: Callable[[Tensor, Tensor], Tensor] | None = None, margin: float = 1.0,
        swap: bool = False, reduction: str = "mean",
    ) -> None:  # fmt: skip
        super().__init__(size_average=None, reduce=None, reduction=reduction)
        if margin <= 0:
            raise ValueError(
                f"TripletMarginWithDistanceLoss: expected margin to be greater than 0, got {margin} instead"
            )
        self.distance_function: Any = distance_function if distance_function else PairwiseDistance()
        self.margin, self.swap = margin, swap

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        return F.triplet_margin_with_distance_loss(
            anchor, positive, negative, distance_function=self.distance_function, margin=self.margin,
            swap=self.swap, reduction=self.reduction,
        )  # fmt: skip


class _MarginLoss(_Loss):
    def __init__(
        self, margin: float = 0.0, size_average: Any = None, reduce: Any = None, reduction: str = "mean"
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.margin = margin


class CosineEmbeddingLoss(_MarginLoss):
    """1 less the cosine of pairs that belong together, the cosine beyond the margin of those that do not.

    >>> left, right = weft.tensor([[1.0, 0.0]]), weft.tensor([[0.0, 1.0]])
    >>> weft.nn.CosineEmbeddingLoss()(left, right, weft.tensor([1]))
    tensor(1.)
    """

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        return F.cosine_embedding_loss(input1, input2, target, margin=self.margin, reduction=self.reduction)


# -- margins -------------------------------------------------------------------------------------------------
class HingeEmbeddingLoss(_MarginLoss):
    """The distance of pairs that belong together, what is missing to the margin of those that do not.

    >>> weft.nn.HingeEmbeddingLoss()(weft.tensor([0.5, 0.5]), weft.tensor([1.0, -1.0]))
    tensor(0.5000)
    """

    def __init__(
        self, margin: float = 1.0, size_average: Any = None, reduce: Any = None, reduction: str = "mean"
    ) -> None:
        super().__init__(margin, size_average, reduce, reduction)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.hinge_embedding_loss(input, target, margin=self.margin, reduction=self.reduction)


class MarginRankingLoss(_MarginLoss):
    """How far the input that the target ranks first is not ahead by the margin.

    >>> weft.nn.MarginRankingLoss()(weft.tensor([1.0, 1.0]), weft.tensor([3.0, 3.0]), weft.tensor([1, -1]))
    tensor(1.)
    """

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        return F.margin_ranking_loss(input1, input2, target, margin=self.margin, reduction=self.reduction)


class SoftMarginLoss(_Loss):
    """`log(1 + exp(-target * input))`.

    >>> weft.nn.SoftMarginLoss()(weft.zeros(2), weft.tensor([1.0, -1.0]))
    tensor(0.6931)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.soft_margin_loss(input, target, reduction=self.reduction)


class MultiLabelMarginLoss(_Loss):
    """How far the classes listed in the target are not ahead of all others by 1.

    >>> weft.nn.MultiLabelMarginLoss()(weft.zeros(1, 4), weft.tensor([[2, 0, -1, -1]]))
    tensor(1.)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.multilabel_margin_loss(input, target, reduction=self.reduction)


class MultiLabelSoftMarginLoss(_WeightedLoss):
    """The mean over classes of the cross entropy of each class being there or not.

    >>> weft.nn.MultiLabelSoftMarginLoss()(weft.zeros(1, 2), weft.tensor([[1.0, 0.0]]))
    tensor(0.6931)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.multilabel_soft_margin_loss(input, target, weight=self.weight, reduction=self.reduction)


class MultiMarginLoss(_WeightedLoss):
    """How far the target's class is not ahead of all others by the margin.

    >>> weft.nn.MultiMarginLoss()(weft.tensor([[0.0, 2.0, 0.5, 0.5]]), weft.tensor([1]))
    tensor(0.)
    """

    def __init__(
        self, p: int = 1, margin: float = 1.0, weight: Tensor | None = None, size_average: Any = None,
        reduce: Any = None, reduction: str = "mean",
    ) -> None:  # fmt: skip
        super().__init__(weight, size_average, reduce, reduction)
        if p not in (1, 2):
            raise ValueError("only p == 1 and p == 2 supported")
        if weight is not None and weight.dim() != 1:
            raise ValueError(
                f"MultiMarginLoss: expected weight to be None or 1D tensor, got {weight.dim()}D instead"
            )
        self.p, self.margin = p, margin

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.multi_margin_loss(
            input, target, p=self.p, margin=self.margin, weight=self.weight, reduction=self.reduction
        )


# -- sequences -----------------------------------------------------------------------------------------------
class CTCLoss(_Loss):
    """Minus the log-likelihood of a label sequence under all its alignments with a longer one.

    >>> scores = weft.zeros(5, 1, 3).log_softmax(2)
    >>> loss = weft.nn.CTCLoss()(scores, weft.tensor([[1, 2]]), weft.tensor([5]), weft.tensor([2]))
    >>> loss.shape
    weft.Size([])
    """

    def __init__(self, blank: int = 0, reduction: str = "mean", zero_infinity: bool = False) -> None:
        super().__init__(reduction=reduction)
        self.blank, self.zero_infinity = blank, zero_infinity

    def forward(self, log_probs: Tensor, targets: Tensor, input_lengths: Any, target_lengths: Any) -> Tensor:
        return F.ctc_loss(
            log_probs, targets, input_lengths, target_lengths, self.blank, self.reduction, self.zero_infinity
        )
