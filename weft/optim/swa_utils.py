"""Averages of the models that training passes: `AveragedModel`, and what goes with it.

Takes a model while it is trained, gives one whose parameters are the mean of those seen (SWA) or a mean that
forgets (EMA). One idea: an averaging function says how one more model enters; which function is all that
tells the kinds apart.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable
from copy import deepcopy
from typing import Any

from weft.autograd.grad_mode import no_grad
from weft.core.dtypes import int64
from weft.core.seams import seams
from weft.nn.modules.batchnorm import _BatchNorm
from weft.nn.modules.module import Module
from weft.ops.record import ops
from weft.optim.cycles import check_strategy
from weft.optim.lr_scheduler import LRScheduler
from weft.optim.optimizer import Optimizer
from weft.optim.schedule import for_groups
from weft.tensor.base import Tensor

__all__ = [
    "SWALR", "AveragedModel", "get_ema_avg_fn", "get_ema_multi_avg_fn", "get_swa_avg_fn",
    "get_swa_multi_avg_fn", "update_bn",
]  # fmt: skip

Averaging = Callable[[Any, Any, Any], Any]


def _check_decay(decay: float) -> None:
    if decay < 0.0 or decay > 1.0:
        raise ValueError(f"Invalid decay value {decay} provided. Please provide a value in [0,1] range.")


def get_ema_multi_avg_fn(decay: float = 0.999) -> Averaging:
    """A function that moves lists of averages towards a list of parameters by 1 - decay of the way."""
    _check_decay(decay)

    @no_grad()
    def ema_update(ema_param_list: Any, current_param_list: Any, _: Any) -> None:
        for mean, param in zip(ema_param_list, current_param_list):
            if mean.is_floating_point() or mean.is_complex():
                mean.lerp_(param.to(mean.dtype), 1 - decay)
            else:
                mean.copy_(mean * decay + param * (1 - decay))

    return ema_update


def get_swa_multi_avg_fn() -> Averaging:
    """A function that takes lists of parameters into lists of plain averages."""

    @no_grad()
    def swa_update(averaged_param_list: Any, current_param_list: Any, num_averaged: Any) -> None:
        for mean, param in zip(averaged_param_list, current_param_list):
            if mean.is_floating_point() or mean.is_complex():
                part = 1 / (num_averaged + 1)
                mean.lerp_(param.to(mean.dtype), part.to(mean.dtype) if isinstance(part, Tensor) else part)
            else:
                mean.add_(ops.div(param - mean, num_averaged + 1, rounding_mode="trunc").to(mean.dtype))

    return swa_update


def get_ema_avg_fn(decay: float = 0.999) -> Averaging:
    """A function of one average, one parameter and the count so far: the average that forgets."""
    _check_decay(decay)

    @no_grad()
    def ema_update(ema_param: Any, current_param: Any, num_averaged: Any) -> Any:
        return decay * ema_param + (1 - decay) * current_param

    return ema_update


def get_swa_avg_fn() -> Averaging:
    """A function of one average, one parameter and the count so far: the plain average."""

    @no_grad()
    def swa_update(averaged_param: Any, current_param: Any, num_averaged: Any) -> Any:
        return averaged_param + (current_param - averaged_param) / (num_averaged + 1)

    return swa_update


class AveragedModel(Module):
    """A copy of a model that holds the average of its parameters, brought up to date by
    `update_parameters`.

    >>> import weft
    >>> model = weft.nn.Linear(1, 1, bias=False)
    >>> average = weft.optim.swa_utils.AveragedModel(model)
    >>> for value in (1.0, 2.0, 6.0):
    ...     _ = weft.nn.init.constant_(model.weight, value)
    ...     average.update_parameters(model)
    >>> average.module.weight.item(), average.n_averaged.item()
    (3.0, 3)
    """

    n_averaged: Tensor

    def __init__(
        self, model: Module, device: Any = None, avg_fn: Averaging | None = None,
        multi_avg_fn: Averaging | None = None, use_buffers: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise AssertionError("Only one of avg_fn and multi_avg_fn should be provided")
        self.module = deepcopy(model)
        if device is not None:
            self.module = self.module.to(device)
        self.register_buffer("n_averaged", ops.zeros((), dtype=int64, device=device))
        self.avg_fn, self.multi_avg_fn, self.use_buffers = avg_fn, multi_avg_fn, use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.module(*args, **kwargs)

    def _averaged(self, model: Module) -> list[Any]:
        return [*model.parameters(), *(model.buffers() if self.use_buffers else ())]

    def update_parameters(self, model: Module) -> None:
        """Takes the parameters of this model into the average."""
        means = [tensor.detach() for tensor in self._averaged(self.module)]
        latest = [tensor.detach().to(mean.device) for tensor, mean in zip(self._averaged(model), means)]
        if seams.is_compiling():  # whether this is the first model is not known: both ways are computed
            averaged = [mean.clone() for mean in means]
            self._average(averaged, latest)
            for mean, tensor, value in zip(means, latest, averaged):
                mean.copy_(ops.where(self.n_averaged == 0, tensor, value))
        elif self.n_averaged == 0:
            for mean, tensor in zip(means, latest):
                mean.copy_(tensor)
        else:
            self._average(means, latest)
        if not self.use_buffers:
            for own, buffer in zip(itertools.chain(self.module.buffers()), model.buffers()):
                own.detach().copy_(buffer.detach().to(own.device))
        self.n_averaged += 1

    def _average(self, means: list[Any], latest: list[Any]) -> None:
        """Takes one more model into averages that have seen one."""
        if self.multi_avg_fn is not None or self.avg_fn is None:
            update = self.multi_avg_fn or get_swa_multi_avg_fn()
            update(means, latest, self.n_averaged)
            return
        for mean, tensor in zip(means, latest):
            mean.copy_(self.avg_fn(mean, tensor, self.n_averaged))


@no_grad()
def update_bn(loader: Iterable[Any], model: Module, device: Any = None) -> None:
    """Computes the running statistics of batch norms anew, from the batches of a loader."""
    momenta = {}
    for module in model.modules():
        if isinstance(module, _BatchNorm):
            module.reset_running_stats()
            momenta[module] = module.momentum
    if not momenta:
        return
    was_training = model.training
    model.train()
    for module in momenta:
        module.momentum = None
    for batch in loader:
        given = batch[0] if isinstance(batch, (list, tuple)) else batch
        model(given if device is None else given.to(device))
    for module, momentum in momenta.items():
        module.momentum = momentum
    model.train(was_training)


class SWALR(LRScheduler):
    """Anneals the rates to `swa_lr` over some epochs, and holds them there.

    >>> import weft
    >>> optimizer = weft.optim.SGD([weft.ones(1, requires_grad=True)], lr=1.0)
    >>> schedule = weft.optim.swa_utils.SWALR(optimizer, 0.5, anneal_epochs=2, anneal_strategy="linear")
    >>> for _ in range(3):
    ...     optimizer.step()
    ...     schedule.step()
    ...     print(schedule.get_last_lr())
    [0.75]
    [0.5]
    [0.5]
    """

    def __init__(
        self, optimizer: Optimizer, swa_lr: Any, anneal_epochs: int = 10, anneal_strategy: str = "cos",
        last_epoch: int = -1,
    ) -> None:  # fmt: skip
        rates = for_groups("swa_lr", optimizer, swa_lr)
        for rate, group in zip(rates, optimizer.param_groups):
            group["swa_lr"] = rate
        check_strategy(anneal_strategy)
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ValueError(f"anneal_epochs must be equal or greater than 0, got {anneal_epochs}")
        self._strategy, self.anneal_epochs = anneal_strategy, anneal_epochs
        super().__init__(optimizer, last_epoch)

    def _annealed(self, part: float) -> float:
        part = max(0.0, min(1.0, part))
        return (1 - math.cos(math.pi * part)) / 2 if self._strategy == "cos" else part

    def _rates(self) -> list[Any]:
        # The rate is mixed from what it was before annealing and swa_lr; the former is had back by solving
        # for it, because others may have set rates meanwhile.
        step = self._step_count - 1
        if self.anneal_epochs == 0:
            step = max(1, step)
        before = self._annealed((step - 1) / max(1, self.anneal_epochs))
        now = self._annealed(step / max(1, self.anneal_epochs))
        rates = []
        for group in self.optimizer.param_groups:
            goal = group["swa_lr"]
            start = goal if before == 1 else (group["lr"] - before * goal) / (1 - before)
            rates.append(goal * now + start * (1 - now))
        return rates
