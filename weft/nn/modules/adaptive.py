"""The softmax over many classes that rare ones make cheap: `AdaptiveLogSoftmaxWithLoss`.

Takes features and classes, gives their log-probabilities and the loss. One idea: frequent classes, and one
entry for each cluster of rare ones, share a short head; a cluster has a smaller projection of its own, which
only its members need.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Sequence
from typing import Any

import weft.nn.functional as F
from weft.core.seams import seams
from weft.nn.modules.container import ModuleList, Sequential
from weft.nn.modules.linear import Linear
from weft.nn.modules.module import Module
from weft.ops.record import ops
from weft.tensor.base import Tensor

__all__ = ["AdaptiveLogSoftmaxWithLoss"]

_ASMoutput = namedtuple("_ASMoutput", ["output", "loss"])
_ASMoutput.__qualname__ = "ASMoutput"


class AdaptiveLogSoftmaxWithLoss(Module):
    """Log-probabilities of `n_classes` sorted by frequency, cut into clusters at `cutoffs`.

    >>> head = weft.nn.AdaptiveLogSoftmaxWithLoss(16, 1000, cutoffs=[20, 200])
    >>> scores, loss = head(weft.zeros(4, 16), weft.tensor([3, 30, 300, 999]))
    >>> scores.shape, head.predict(weft.zeros(4, 16)).shape
    (weft.Size([4]), weft.Size([4]))
    """

    cutoffs: list[int]

    def __init__(
        self, in_features: int, n_classes: int, cutoffs: Sequence[int], div_value: float = 4.0,
        head_bias: bool = False, device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        cuts = list(cutoffs)
        if len(cuts) == 0:
            raise ValueError("cutoffs should be a sequence of length larger than 0")
        increasing = cuts == sorted(cuts) and len(set(cuts)) == len(cuts)
        if not increasing or min(cuts) <= 0 or max(cuts) > n_classes - 1 or any(int(c) != c for c in cuts):
            raise ValueError(
                "cutoffs should be a sequence of unique, positive integers sorted in an increasing order, "
                "where each value is between 1 and n_classes-1"
            )
        self.in_features, self.n_classes = in_features, n_classes
        self.cutoffs = [*cuts, n_classes]
        self.div_value, self.head_bias = div_value, head_bias
        self.shortlist_size = self.cutoffs[0]
        self.n_clusters = len(self.cutoffs) - 1
        self.head_size = self.shortlist_size + self.n_clusters
        self.head = Linear(in_features, self.head_size, head_bias, device, dtype)
        self.tail = ModuleList()
        for number in range(self.n_clusters):
            width = int(in_features // (div_value ** (number + 1)))
            classes = self.cutoffs[number + 1] - self.cutoffs[number]
            self.tail.append(
                Sequential(
                    Linear(in_features, width, False, device, dtype),
                    Linear(width, classes, False, device, dtype),
                )
            )

    def reset_parameters(self) -> None:
        """Draws new weights."""
        self.head.reset_parameters()
        for cluster in self.tail:
            for layer in cluster.children():
                layer.reset_parameters()

    def forward(self, input_: Tensor, target_: Tensor) -> Any:
        """The log-probability of each target, and minus their mean."""
        if target_.dim() == 1 and input_.size(0) != target_.size(0):
            raise RuntimeError("Input and target should have the same size in the batch dimension.")
        if target_.dim() == 0 and input_.dim() != 1:
            raise RuntimeError("0D target tensor expects 1D input tensor")
        if target_.dim() > 1:
            raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
        batched = target_.dim() > 0
        features = input_ if batched else input_.unsqueeze(0)
        target = target_ if batched else target_.unsqueeze(0)
        if not seams.is_compiling():
            self._check_targets(target)
        head = F.log_softmax(self.head(features), dim=1)
        # Every example goes through every cluster and the right answer is chosen: sizes then do not depend
        # on the targets, so that one graph serves all of them. Bad targets are bad places too.
        place = ops.where(target >= self.n_classes, self.head_size, target.clamp(max=self.shortlist_size - 1))
        output = head.gather(1, place.unsqueeze(1)).squeeze(1)
        for number in range(self.n_clusters):
            low, high = self.cutoffs[number], self.cutoffs[number + 1]
            inside = (target >= low) & (target < high)
            within = (target - low).clamp(0, high - low - 1)
            logs = F.log_softmax(self.tail[number](features), dim=1).gather(1, within.unsqueeze(1)).squeeze(1)
            output = ops.where(inside, head[:, self.shortlist_size + number] + logs, output)
        loss = (-output).mean()
        return _ASMoutput(output if batched else output.squeeze(0), loss)

    def _check_targets(self, target: Tensor) -> None:
        if target.numel() == 0:
            return
        least, most = target.min().item(), target.max().item()
        if least < 0 or most >= self.n_classes:
            raise RuntimeError(
                f"Target values should be in [0, {self.n_classes - 1}], but values in range "
                f"[{least}, {most}] were found. "
            )

    def _get_full_log_prob(self, input: Tensor, head_output: Tensor) -> Tensor:
        head = F.log_softmax(head_output, dim=1)
        parts = [head[:, : self.shortlist_size]]
        for number in range(self.n_clusters):
            logs = F.log_softmax(self.tail[number](input), dim=1)
            parts.append(logs + head[:, self.shortlist_size + number].unsqueeze(1))
        return ops.cat(parts, 1)

    def log_prob(self, input: Tensor) -> Tensor:
        """The log-probabilities of all classes."""
        return self._get_full_log_prob(input, self.head(input))

    def predict(self, input: Tensor) -> Tensor:
        """The most probable class of each example."""
        return self.log_prob(input).argmax(dim=1)
