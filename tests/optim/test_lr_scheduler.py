"""Schedules: the first hundred rates of each against a closed formula and against torch; saving; mistakes."""

from __future__ import annotations

import math

import pytest

import weft
from weft.optim import SGD, Adam
from weft.optim import lr_scheduler as schedules

COUNT = 100
BASE = (0.5, 2.0)


def optimizer_of(library, kind="SGD", **options):
    groups = [{"params": [library.ones(1, requires_grad=True)], "lr": lr} for lr in BASE]
    return getattr(library.optim, kind)(groups, **({"momentum": 0.9} if kind == "SGD" else {}) | options)


def rates_of(library, make, kind="SGD"):
    """The rates (and momenta) of both groups at the first hundred epochs."""
    optimizer = optimizer_of(library, kind)
    scheduler = make(library.optim.lr_scheduler, optimizer)
    found = []
    for epoch in range(COUNT):
        values = []
        for group in optimizer.param_groups:
            values += [float(group["lr"]), group["momentum"] if kind == "SGD" else group["betas"][0]]
        found.append(values)
        assert [float(rate) for rate in scheduler.get_last_lr()] == values[::2]
        optimizer.step()
        if isinstance(scheduler, library.optim.lr_scheduler.ReduceLROnPlateau):
            scheduler.step(10 / (epoch + 1) if epoch < 30 else 1.0)
        elif epoch < COUNT - 1:
            scheduler.step()
    return found


def cosine(base, low, part):
    return low + (base - low) * (1 + math.cos(math.pi * part)) / 2


def restarts(epoch, first, growth):
    """How far into its period an epoch lies."""
    length = first
    while epoch >= length:
        epoch -= length
        length *= growth
    return epoch / length


SIMPLE = {
    "lambda": (lambda s, o: s.LambdaLR(o, lambda e: 0.95**e), lambda b, e: b * 0.95**e),
    "multiplicative": (
        lambda s, o: s.MultiplicativeLR(o, lambda e: 1 - 1 / (e + 1)), lambda b, e: b / (e + 1),
    ),
    "step": (lambda s, o: s.StepLR(o, 30, 0.1), lambda b, e: b * 0.1 ** (e // 30)),
    "multistep": (
        lambda s, o: s.MultiStepLR(o, [10, 30, 30, 80], 0.5),
        lambda b, e: b * 0.5 ** ((e >= 10) + 2 * (e >= 30) + (e >= 80)),
    ),
    "constant": (lambda s, o: s.ConstantLR(o, 0.25, 40), lambda b, e: b * (0.25 if e < 40 else 1)),
    "linear": (
        lambda s, o: s.LinearLR(o, 0.1, 0.9, 60), lambda b, e: b * (0.1 + 0.8 * min(e, 60) / 60),
    ),
    "exponential": (lambda s, o: s.ExponentialLR(o, 0.9), lambda b, e: b * 0.9**e),
    "polynomial": (
        lambda s, o: s.PolynomialLR(o, 70, 2.0), lambda b, e: b * (1 - min(e, 70) / 70) ** 2,
    ),
    "cosine": (lambda s, o: s.CosineAnnealingLR(o, 15, 0.05), lambda b, e: cosine(b, 0.05, e / 15)),
    "restarts": (
        lambda s, o: s.CosineAnnealingWarmRestarts(o, 7, 2, 0.01),
        lambda b, e: cosine(b, 0.01, restarts(e, 7, 2)),
    ),
    "sequential": (
        lambda s, o: s.SequentialLR(o, [s.ConstantLR(o, 0.1, 20), s.ExponentialLR(o, 0.9)], [20]),
        lambda b, e: b * 0.1 if e < 20 else b * 0.9 ** (e - 20),
    ),
    "chained": (
        lambda s, o: s.ChainedScheduler([s.ConstantLR(o, 0.1, 20), s.ExponentialLR(o, 0.9)]),
        lambda b, e: b * 0.9**e * (0.1 if e < 20 else 1),
    ),
}  # fmt: skip
OTHERS = {
    "warm up": lambda s, o: s.SequentialLR(
        o, [s.LinearLR(o, 0.1, 1.0, 10), s.CosineAnnealingLR(o, 50), s.ConstantLR(o, 0.5, 3)], [10, 60]
    ),
    "plateau": lambda s, o: s.ReduceLROnPlateau(o, factor=0.5, patience=4, cooldown=3, min_lr=[0.1, 0.2]),
    "plateau max": lambda s, o: s.ReduceLROnPlateau(o, "max", 0.3, 2, 0.2, "abs"),
    "one cycle": lambda s, o: s.OneCycleLR(o, [1.0, 3.0], total_steps=COUNT),
    "one cycle linear": lambda s, o: s.OneCycleLR(
        o, 2.0, epochs=25, steps_per_epoch=4, pct_start=0.2, anneal_strategy="linear", three_phase=True
    ),
    "triangular": lambda s, o: s.CyclicLR(o, 0.1, 1.0, 8, 5),
    "triangular2": lambda s, o: s.CyclicLR(o, [0.1, 0.2], [1.0, 2.0], 7, mode="triangular2"),
    "exp_range": lambda s, o: s.CyclicLR(o, 0.1, 1.0, 6, mode="exp_range", gamma=0.97, base_momentum=0.5),
    "own scale": lambda s, o: s.CyclicLR(o, 0.1, 1.0, 6, scale_fn=lambda x: 1 / x, cycle_momentum=False),
}


@pytest.mark.parametrize("name", SIMPLE)
def test_first_hundred_rates_by_formula(name):
    make, formula = SIMPLE[name]
    for epoch, row in enumerate(rates_of(weft, make)):
        assert row[::2] == pytest.approx([formula(base, epoch) for base in BASE], rel=1e-9, abs=1e-9), epoch
        assert row[1::2] == [0.9, 0.9]


@pytest.mark.torch
@pytest.mark.parametrize("kind", ["SGD", "Adam"])
@pytest.mark.parametrize("name", [*SIMPLE, *OTHERS])
def test_first_hundred_rates_are_those_of_torch(name, kind):
    torch = pytest.importorskip("torch")
    make = SIMPLE[name][0] if name in SIMPLE else OTHERS[name]
    theirs = rates_of(torch, make, kind)
    for ours, expected in zip(rates_of(weft, make, kind), theirs, strict=True):
        assert ours == pytest.approx(expected, rel=1e-13, abs=1e-15)


def plateau(values, **options):
    optimizer = optimizer_of(weft)
    scheduler = schedules.ReduceLROnPlateau(optimizer, **options)
    rates = []
    for value in values:
        scheduler.step(value)
        rates.append(optimizer.param_groups[0]["lr"])
    return rates


def test_plateau():
    assert plateau([1, 1, 1, 1, 1, 1], factor=0.5, patience=1) == [0.5, 0.5, 0.25, 0.25, 0.125, 0.125]
    assert plateau([1, 1, 1, 1, 1, 1], factor=0.5, patience=1, cooldown=1) == [
        0.5,
        0.5,
        0.25,
        0.25,
        0.25,
        0.125,
    ]
    assert plateau([1, 0.5, 0.3, 0.2], factor=0.5, patience=0) == [0.5] * 4
    assert plateau([1, 0.95, 0.9], factor=0.5, patience=0, threshold=0.1) == [0.5, 0.25, 0.125]
    assert plateau([1, 2, 1.5], mode="max", factor=0.5, patience=0) == [0.5, 0.5, 0.25]
    assert plateau([1] * 4, factor=0.5, patience=0, min_lr=0.2) == [0.5, 0.25, 0.2, 0.2]
    assert plateau([weft.tensor(1.0), float("nan")], factor=0.5, patience=0) == [0.5, 0.25]


def test_one_cycle_passes_its_corners():
    optimizer = optimizer_of(weft)
    scheduler = schedules.OneCycleLR(optimizer, 1.0, total_steps=11, pct_start=0.5)
    rates, momenta = [], []
    for step in range(11):
        rates.append(optimizer.param_groups[0]["lr"])
        momenta.append(optimizer.param_groups[0]["momentum"])
        optimizer.step()
        if step < 10:
            scheduler.step()
    assert rates[0] == pytest.approx(1 / 25) and rates[10] == pytest.approx(1 / 25e4)
    assert max(rates) == pytest.approx(1.0, rel=0.05) and rates.index(max(rates)) in (4, 5)
    assert momenta[0] == 0.95 and momenta[10] == pytest.approx(0.95) and min(momenta) < 0.86
    scheduler.step()
    with pytest.raises(ValueError, match="Tried to step 12 times. The specified number of total steps is 11"):
        scheduler.step()


# -- order of calls ------------------------------------------------------------------------------------------
def test_scheduler_before_optimizer_is_a_mistake():
    scheduler = schedules.StepLR(optimizer_of(weft), 1)
    with pytest.warns(
        UserWarning, match=r"^Detected call of `lr_scheduler.step\(\)` before `optimizer.step\(\)`"
    ):
        scheduler.step()
    scheduler.step()  # said once


def test_overridden_step_is_noticed():
    optimizer = optimizer_of(weft)
    scheduler = schedules.StepLR(optimizer, 1)
    optimizer.step = lambda: None
    with pytest.warns(UserWarning, match=r"^Seems like `optimizer.step\(\)` has been overridden"):
        scheduler.step()


def test_rates_are_asked_for_with_get_last_lr():
    optimizer = optimizer_of(weft)
    scheduler = schedules.StepLR(optimizer, 2)
    with pytest.warns(UserWarning, match="please use `get_last_lr"):
        scheduler.get_lr()
    assert scheduler.get_last_lr() == list(BASE)
    with pytest.raises(NotImplementedError):
        schedules.LRScheduler(optimizer)


def test_epoch_argument_takes_the_closed_form():
    optimizer = optimizer_of(weft)
    scheduler = schedules.ExponentialLR(optimizer, 0.5)
    optimizer.step()
    with pytest.warns(UserWarning, match="The epoch parameter in `scheduler.step"):
        scheduler.step(3)
    assert scheduler.get_last_lr() == [0.0625, 0.25] and scheduler.last_epoch == 3


def test_restarts_take_fractions_of_epochs():
    optimizer = optimizer_of(weft)
    scheduler = schedules.CosineAnnealingWarmRestarts(optimizer, 4, 2)
    for epoch in (0.5, 3.75, 4.0, 11.5, 12.25, 40.0):
        scheduler.step(epoch)
        assert scheduler.get_last_lr()[0] == pytest.approx(cosine(0.5, 0, restarts(epoch, 4, 2)), abs=1e-12)
    with pytest.raises(ValueError, match="Expected non-negative epoch, but got -1"):
        scheduler.step(-1)


def test_optimizer_with_a_scheduler_is_freed():
    import gc
    import weakref

    optimizer = optimizer_of(weft)
    schedules.StepLR(optimizer, 1)
    alive = weakref.ref(optimizer)
    gc.disable()
    try:
        del optimizer
        assert alive() is None
    finally:
        gc.enable()


def test_tensor_rates_are_written_in_place():
    rate = weft.tensor(0.5)
    optimizer = Adam([weft.ones(1, requires_grad=True)], lr=rate)
    scheduler = schedules.ExponentialLR(optimizer, 0.5)
    assert optimizer.param_groups[0]["initial_lr"] is not rate
    optimizer.step()
    scheduler.step()
    assert optimizer.param_groups[0]["lr"] is rate and rate.item() == 0.25
    assert optimizer.param_groups[0]["initial_lr"].item() == 0.5
    assert scheduler.get_last_lr()[0] is not rate


# -- saving --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", [*SIMPLE, *OTHERS])
def test_loading_continues_the_schedule(name):
    make = SIMPLE[name][0] if name in SIMPLE else OTHERS[name]
    plain = not name.startswith("plateau")

    def run(optimizer, scheduler, steps):
        rates = []
        for _ in range(steps):
            optimizer.step()
            scheduler.step(*([] if plain else [1.0]))
            rates.append(scheduler.get_last_lr())
        return rates

    optimizer = optimizer_of(weft)
    scheduler = make(schedules, optimizer)
    run(optimizer, scheduler, 25)
    other = optimizer_of(weft)
    resumed = make(schedules, other)
    saved = scheduler.state_dict()
    assert "optimizer" not in saved
    keys = list(saved)
    resumed.load_state_dict(saved)
    other.load_state_dict(optimizer.state_dict())
    assert list(saved) == keys
    assert run(other, resumed, 20) == run(optimizer, scheduler, 20)


def test_callable_objects_are_saved_by_their_attributes():
    class Decay:
        def __init__(self, factor):
            self.factor = factor

        def __call__(self, epoch):
            return self.factor**epoch

    saved = schedules.LambdaLR(optimizer_of(weft), [Decay(0.5), lambda e: 1.0]).state_dict()
    assert saved["lr_lambdas"] == [{"factor": 0.5}, None]
    other = schedules.LambdaLR(optimizer_of(weft), [Decay(0.1), lambda e: 1.0])
    other.load_state_dict(saved)
    assert other.lr_lambdas[0].factor == 0.5


def test_resuming_needs_initial_rates():
    with pytest.raises(KeyError, match="param 'initial_lr' is not specified in param_groups"):
        schedules.StepLR(optimizer_of(weft), 3, last_epoch=4)
    optimizer = optimizer_of(weft)
    for group in optimizer.param_groups:
        group["initial_lr"] = group["lr"]
    scheduler = schedules.CosineAnnealingLR(optimizer, 10, last_epoch=4)
    assert scheduler.last_epoch == 5


# -- mistakes ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda o: schedules.StepLR("x", 1), TypeError, "str is not an Optimizer"),
        (lambda o: schedules.LambdaLR(o, [abs]), ValueError, "Expected 2 lr_lambdas, but got 1"),
        (
            lambda o: schedules.MultiplicativeLR(o, 3), TypeError,
            "lr_lambda should be a function, but got int",
        ),
        (
            lambda o: schedules.ConstantLR(o, 1.5), ValueError,
            "Constant multiplicative factor expected to be between 0 and 1.",
        ),
        (
            lambda o: schedules.LinearLR(o, 0), ValueError,
            "Starting multiplicative factor expected to be greater than 0 and less or equal to 1.",
        ),
        (
            lambda o: schedules.LinearLR(o, 0.5, 2), ValueError,
            "Ending multiplicative factor expected to be between 0 and 1.",
        ),
        (lambda o: schedules.ReduceLROnPlateau(o, factor=1.0), ValueError, "Factor should be < 1.0."),
        (lambda o: schedules.ReduceLROnPlateau(o, "low"), ValueError, "mode low is unknown!"),
        (
            lambda o: schedules.ReduceLROnPlateau(o, threshold_mode="x"), ValueError,
            "threshold mode x is unknown!",
        ),
        (lambda o: schedules.ReduceLROnPlateau(o, min_lr=[1]), ValueError, "expected 2 min_lrs, got 1"),
        (
            lambda o: schedules.CosineAnnealingWarmRestarts(o, 0), ValueError,
            "Expected positive integer T_0, but got 0",
        ),
        (
            lambda o: schedules.CosineAnnealingWarmRestarts(o, 1, 0), ValueError,
            "Expected integer T_mult >= 1, but got 0",
        ),
        (
            lambda o: schedules.OneCycleLR(o, 1.0), ValueError,
            "You must define either total_steps OR (epochs AND steps_per_epoch)",
        ),
        (
            lambda o: schedules.OneCycleLR(o, 1.0, total_steps=0), ValueError,
            "Expected positive integer total_steps, but got 0",
        ),
        (
            lambda o: schedules.OneCycleLR(o, [1.0], total_steps=5), ValueError,
            "max_lr must have the same length as optimizer.param_groups. max_lr has 1 values, param_groups "
            "has "
            "2.",
        ),
        (
            lambda o: schedules.OneCycleLR(o, 1.0, total_steps=5, pct_start=2.0), ValueError,
            "Expected float between 0 and 1 pct_start, but got 2.0",
        ),
        (
            lambda o: schedules.OneCycleLR(o, 1.0, total_steps=5, anneal_strategy="x"), ValueError,
            "anneal_strategy must be one of 'cos' or 'linear', instead got x",
        ),
        (lambda o: schedules.CyclicLR(o, 1, 2, mode="x"), ValueError, "mode is invalid and scale_fn is None"),
        (
            lambda o: schedules.ChainedScheduler([]), ValueError,
            "ChainedScheduler expects at least one scheduler to be chained, but got no scheduler.",
        ),
        (
            lambda o: schedules.SequentialLR(o, [schedules.StepLR(o, 1)], [1]), ValueError,
            "Sequential Schedulers expects number of schedulers provided to be one more than the number of "
            "milestone points, but got number of schedulers 1 and the number of milestones to be equal to 1",
        ),
        (
            lambda o: schedules.SequentialLR(o, [schedules.ReduceLROnPlateau(o)], []), ValueError,
            "SequentialLR does not support `ReduceLROnPlateau` scheduler as it requires additional kwargs "
            "to be "
            "specified when calling `step`, but got one at index 0 in the given schedulers sequence.",
        ),
    ],
)  # fmt: skip
def test_refuses(make, error, text):
    with pytest.raises(error) as caught:
        make(optimizer_of(weft))
    assert str(caught.value) == text


def test_momentum_must_exist_to_be_cycled():
    class Plain(SGD):
        def __init__(self, params):
            super().__init__(params, lr=0.1)
            del self.defaults["momentum"]

    with pytest.raises(ValueError, match="optimizer must support momentum or beta1 with `cycle_momentum`"):
        schedules.OneCycleLR(Plain([weft.ones(1, requires_grad=True)]), 1.0, total_steps=5)


def test_schedules_of_different_optimizers_are_not_joined():
    first, second = optimizer_of(weft), optimizer_of(weft)
    parts = [schedules.StepLR(first, 1), schedules.StepLR(second, 1)]
    with pytest.raises(
        ValueError, match="ChainedScheduler expects all schedulers to belong to the same optim"
    ):
        schedules.ChainedScheduler(parts)


SETTLED = {
    "ExponentialLR": ({"gamma": 0.9}, 2),
    "CosineAnnealingLR": ({"T_max": 10}, 2),
    "OneCycleLR": ({"max_lr": 0.1, "total_steps": 100}, 2),
    "LambdaLR": ({"lr_lambda": lambda epoch: 0.9**epoch}, 2),
    "StepLR": ({"step_size": 3}, 3),
    "MultiStepLR": ({"milestones": [2, 4]}, 4),
}
"""Options, and how many programs a step with the schedule in it takes at most: the first call, all others,
and one more for each branch that the schedule takes."""


@pytest.mark.parametrize("name", SETTLED)
def test_steps_with_their_schedule_compile_once_more_at_most(name):
    options, most = SETTLED[name]
    compiled = []

    def backend(graph, _inputs):
        compiled.append(graph)
        return graph

    def run(wrap):
        weft.manual_seed(0)
        module = weft.nn.Linear(3, 2)
        optimizer = weft.optim.SGD(module.parameters(), lr=0.1, momentum=0.9)
        schedule = getattr(weft.optim.lr_scheduler, name)(optimizer, **options)

        def step(x):
            optimizer.zero_grad()
            loss = module(x).square().sum()
            loss.backward()
            optimizer.step()
            schedule.step()
            return loss

        step = wrap(step)
        return [(step(weft.ones(4, 3)).item(), schedule.get_last_lr(), schedule.last_epoch) for _ in range(9)]

    expected = run(lambda step: step)
    assert run(lambda step: weft.compile(step, backend=backend, fullgraph=True)) == expected
    assert len(compiled) <= most
