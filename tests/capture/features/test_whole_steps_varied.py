"""Steps as people write them: accumulation, clipping, averages, schedules, hooks, closures."""

from __future__ import annotations

from typing import Any

import pytest

import weft
from tests.capture.features.test_whole_steps import (  # noqa: F401
    BACKENDS,
    OPTIMIZERS,
    Convolutional,
    check,
    perceptron,
    pictures,
    rows,
    strictly,
)
from weft.nn import functional as F

pytestmark = pytest.mark.parametrize("backend", BACKENDS)


def test_gradients_summed_over_micro_batches(backend: str) -> None:
    def stepping(model: Any, optimizer: Any) -> Any:
        def step(x: Any, y: Any) -> Any:
            total = 0.0
            for part in range(4):
                loss = F.cross_entropy(model(x[part : part + 1]), y[part : part + 1]) / 4
                loss.backward()
                total = total + loss.detach()
            optimizer.step()
            optimizer.zero_grad()
            return total

        return step

    check(stepping=stepping, optimizer=OPTIMIZERS["adam"], backend=backend)


def test_gradients_summed_over_calls(backend: str) -> None:
    """The first micro-batch finds no gradient, the others find one: two graphs, however many calls."""

    def stepping(model: Any, optimizer: Any) -> Any:
        def step(x: Any, y: Any) -> Any:
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            return loss

        return step

    def between(optimizer: Any, number: int) -> None:
        if number % 3 == 2:
            optimizer.step()
            optimizer.zero_grad()

    check(stepping=stepping, between=between, backend=backend, frames=2, count=7)


@pytest.mark.parametrize("set_to_none", [True, False])
def test_zeros_or_none(set_to_none: bool, backend: str) -> None:
    """Zeros are filled into gradients that are there, so whether they are makes two programs."""

    def stepping(model: Any, optimizer: Any) -> Any:
        def step(x: Any, y: Any) -> Any:
            optimizer.zero_grad(set_to_none=set_to_none)
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            return loss

        return step

    check(stepping=stepping, backend=backend, frames=1 if set_to_none else 2)


@pytest.mark.parametrize("way", ["norm", "largest", "value", "norm, returned"])
def test_gradients_are_clipped(way: str, backend: str) -> None:
    def stepping(model: Any, optimizer: Any) -> Any:
        def step(x: Any, y: Any) -> Any:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            if way == "value":
                weft.nn.utils.clip_grad_value_(model.parameters(), 0.05)
            elif way == "largest":
                weft.nn.utils.clip_grad_norm_(model.parameters(), 0.1, norm_type=float("inf"))
            else:
                norm = weft.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
                if way == "norm, returned":
                    loss = (loss, norm)
            optimizer.step()
            return loss

        return step

    check(stepping=stepping, optimizer=OPTIMIZERS["adamw"], backend=backend)


def test_an_average_of_the_parameters_follows(backend: str) -> None:
    averages: list[Any] = []

    def stepping(model: Any, optimizer: Any) -> Any:
        averages[:] = [p.detach().clone() for p in model.parameters()]

        def step(x: Any, y: Any) -> Any:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            with weft.no_grad():
                for average, p in zip(averages, model.parameters()):
                    average.mul_(0.9).add_(p, alpha=0.1)
            return [loss, *[average.clone() for average in averages]]

        return step

    check(stepping=stepping, backend=backend)


def test_another_rate_is_no_other_program(backend: str) -> None:
    def between(optimizer: Any, number: int) -> None:
        optimizer.param_groups[0]["lr"] *= 0.7

    check(between=between, optimizer=OPTIMIZERS["adam"], backend=backend)


@pytest.mark.parametrize("kind", ["StepLR", "CosineAnnealingLR", "ExponentialLR", "LambdaLR", "LinearLR"])
def test_a_schedule_outside(kind: str, backend: str) -> None:
    options: dict[str, Any] = {
        "StepLR": {"step_size": 2}, "CosineAnnealingLR": {"T_max": 10}, "ExponentialLR": {"gamma": 0.9},
        "LambdaLR": {"lr_lambda": lambda epoch: 0.9**epoch}, "LinearLR": {},
    }  # fmt: skip
    schedules: list[Any] = []

    def stepping(model: Any, optimizer: Any) -> Any:
        schedules[:] = [getattr(weft.optim.lr_scheduler, kind)(optimizer, **options[kind])]

        def step(x: Any, y: Any) -> Any:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            return loss

        return step

    def between(optimizer: Any, number: int) -> None:
        schedules[0].step()

    check(stepping=stepping, between=between, optimizer=OPTIMIZERS["sgd, everything"], backend=backend)


def test_groups_with_options_of_their_own(backend: str) -> None:
    models: list[Any] = []

    def make() -> Any:
        models[:] = [perceptron()]
        return models[0]

    def optimizer(_parameters: Any) -> Any:
        first, _, last = models[0]
        groups = [
            {"params": first.parameters()},
            {"params": [last.weight], "lr": 0.01, "weight_decay": 0.1},
            {"params": [last.bias], "momentum": 0.0},
        ]
        return weft.optim.SGD(groups, lr=0.05, momentum=0.9)

    check(make, optimizer=optimizer, backend=backend)


def test_a_parameter_that_the_loss_does_not_reach(backend: str) -> None:
    class Partly(weft.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.used = weft.nn.Linear(6, 3)
            self.unused = weft.nn.Linear(6, 3)

        def forward(self, x: Any) -> Any:
            return self.used(x)

    check(Partly, optimizer=OPTIMIZERS["adam"], backend=backend)


def test_parameters_that_are_frozen(backend: str) -> None:
    def make() -> Any:
        model = perceptron()
        model[0].requires_grad_(False)
        return model

    check(make, optimizer=OPTIMIZERS["sgd, everything"], backend=backend)


def test_tied_parameters(backend: str) -> None:
    class Tied(weft.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = weft.nn.Linear(6, 6)
            self.second = weft.nn.Linear(6, 6)
            self.second.weight = self.first.weight

        def forward(self, x: Any) -> Any:
            return self.second(self.first(x).tanh())

    check(Tied, optimizer=OPTIMIZERS["adam"], backend=backend)


def test_a_closure_computes_the_loss(backend: str) -> None:
    def stepping(model: Any, optimizer: Any) -> Any:
        def step(x: Any, y: Any) -> Any:
            def closure() -> Any:
                optimizer.zero_grad()
                loss = F.cross_entropy(model(x), y)
                loss.backward()
                return loss

            return optimizer.step(closure)

        return step

    check(stepping=stepping, optimizer=OPTIMIZERS["sgd, everything"], backend=backend)


def test_two_optimizers(backend: str) -> None:
    """As adversarial training has it: each half is trained against the other."""

    def stepping(model: Any, optimizer: Any) -> Any:
        first = weft.optim.Adam(model[0].parameters(), lr=0.01)
        second = weft.optim.SGD(model[2].parameters(), lr=0.1, momentum=0.5)

        def step(x: Any, y: Any) -> Any:
            model.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            first.step()
            second.zero_grad()
            other = -F.cross_entropy(model(x), y)
            other.backward()
            second.step()
            return loss, other

        return step

    check(stepping=stepping, backend=backend)


@pytest.mark.parametrize("kind", ["forward", "forward_pre"])
def test_hooks_of_modules(kind: str, backend: str) -> None:
    def make() -> Any:
        model = perceptron()
        if kind == "forward":
            model[0].register_forward_hook(lambda module, args, result: result * 1.5)
        else:
            model[2].register_forward_pre_hook(lambda module, args: (args[0] * 0.5,))
        return model

    check(make, backend=backend)


def test_the_mode_of_the_model_is_guarded(backend: str) -> None:
    models: list[Any] = []

    def make() -> Any:
        models[:] = [Convolutional()]
        return models[0]

    def between(optimizer: Any, number: int) -> None:
        models[0].train(number % 2 == 1)

    check(make, pictures, between=between, backend=backend, frames=2)


def test_hooks_of_the_optimizer(backend: str) -> None:
    def optimizer(parameters: Any) -> Any:
        made = weft.optim.SGD(parameters, lr=0.1)

        def halve(opt: Any, args: Any, kwargs: Any) -> None:
            for group in opt.param_groups:
                for p in group["params"]:
                    p.grad.mul_(0.5)

        made.register_step_pre_hook(halve)
        return made

    check(optimizer=optimizer, backend=backend)


def test_a_penalty_on_the_gradients(backend: str) -> None:
    def stepping(model: Any, optimizer: Any) -> Any:
        def step(x: Any, y: Any) -> Any:
            optimizer.zero_grad()
            x = x.clone().requires_grad_()
            loss = F.cross_entropy(model(x), y)
            (slope,) = weft.autograd.grad(loss, x, create_graph=True)
            (loss + slope.square().sum()).backward()
            optimizer.step()
            return loss

        return step

    check(stepping=stepping, backend=backend)


def test_gradients_taken_rather_than_summed(backend: str) -> None:
    def stepping(model: Any, optimizer: Any) -> Any:
        parameters = list(model.parameters())

        def step(x: Any, y: Any) -> Any:
            loss = F.cross_entropy(model(x), y)
            with weft.no_grad():
                for p, g in zip(parameters, weft.autograd.grad(loss, parameters)):
                    p -= 0.1 * g
            return loss

        return step

    check(stepping=stepping, backend=backend)


def test_batches_of_another_size(backend: str) -> None:
    """The first other size makes the batch's size a number that may vary."""
    sizes = iter([4, 4, 5, 6, 7] * 2)

    def data() -> Any:
        size = next(sizes)
        return weft.randn(size, 6), weft.randint(0, 3, (size,))

    check(data=data, optimizer=OPTIMIZERS["adam"], backend=backend, frames=2)


def test_rows_as_given(backend: str) -> None:
    check(data=rows, backend=backend, count=3)


@pytest.mark.parametrize("kind", ["module", "module, before", "tensor", "after accumulating"])
def test_hooks_of_the_backward(kind: str, backend: str) -> None:
    def halve(parameter: Any) -> None:
        parameter.grad.mul_(0.5)

    def make() -> Any:
        model = perceptron()
        if kind == "module":
            model[2].register_full_backward_hook(lambda module, given, taken: (given[0] * 2,))
        elif kind == "module, before":
            model[2].register_full_backward_pre_hook(lambda module, taken: (taken[0] * 3,))
        elif kind == "tensor":
            model[0].weight.register_hook(lambda gradient: gradient * 2)
        else:
            model[0].weight.register_post_accumulate_grad_hook(halve)
        return model

    check(make, backend=backend)


def test_optimizers_that_run_within_the_backward(backend: str) -> None:
    """As soon as a gradient is there it is used and dropped."""

    def stepping(model: Any, optimizer: Any) -> Any:
        own = {p: weft.optim.SGD([p], lr=0.1, momentum=0.9) for p in model.parameters()}

        def use(parameter: Any) -> None:
            own[parameter].step()
            own[parameter].zero_grad()

        for parameter in model.parameters():
            parameter.register_post_accumulate_grad_hook(use)

        def step(x: Any, y: Any) -> Any:
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            return loss

        return step

    check(stepping=stepping, backend=backend)


def test_a_schedule_inside(backend: str) -> None:
    """The first call is a program of its own; from then on one serves all."""

    def stepping(model: Any, optimizer: Any) -> Any:
        schedule = weft.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)

        def step(x: Any, y: Any) -> Any:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            schedule.step()
            return loss, optimizer.param_groups[0]["lr"]

        return step

    check(stepping=stepping, backend=backend, frames=2, count=8)


@pytest.mark.parametrize("name", ["foreach", "capturable", "fused", "betas"])
def test_other_forms_of_adam(name: str, backend: str) -> None:
    options: dict[str, Any] = {name: True}
    if name == "betas":
        options = {"betas": (weft.tensor(0.9), weft.tensor(0.99)), "capturable": True}
    check(optimizer=lambda p: weft.optim.Adam(p, lr=0.01, **options), backend=backend)


def test_training_and_evaluating(backend: str) -> None:
    def stepping(model: Any, optimizer: Any) -> Any:
        def step(x: Any, y: Any) -> Any:
            model.train()
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            model.eval()
            with weft.no_grad():
                return loss, model(x)

        return step

    check(Convolutional, pictures, stepping=stepping, backend=backend)


def test_two_losses_of_one_history(backend: str) -> None:
    def stepping(model: Any, optimizer: Any) -> Any:
        def step(x: Any, y: Any) -> Any:
            optimizer.zero_grad()
            scores = model(x)
            first, second = F.cross_entropy(scores, y), scores.square().mean()
            first.backward(retain_graph=True)
            second.backward()
            optimizer.step()
            return first, second

        return step

    check(stepping=stepping, backend=backend)
