"""Peak memory of training steps, counted in bytes: small ones here, and those of `benchmarks.memory`."""

from __future__ import annotations

import functools
import gc
import tracemalloc

import pytest

import weft
from benchmarks import memory
from weft.aot.backends import aot_eager
from weft.core.seams import seams
from weft.nn import functional as F

LAYERS, WIDTH = 3, 192  # parameters long enough for pieces
OPTIMIZERS = {
    "SGD": lambda parameters: weft.optim.SGD(parameters, lr=1e-2),
    "momentum": lambda parameters: weft.optim.SGD(parameters, lr=1e-2, momentum=0.9),
    "Adam": lambda parameters: weft.optim.Adam(parameters, lr=1e-3),
}


def perceptron():
    weft.manual_seed(0)
    layers = [(weft.nn.Linear(WIDTH, WIDTH), weft.nn.LayerNorm(WIDTH), weft.nn.GELU()) for _ in range(LAYERS)]
    return weft.nn.Sequential(*[module for layer in layers for module in layer])


@functools.cache
def peak(optimizer, rows, compiled, backend=aot_eager):
    """The most bytes beyond what is there before that one step allocates; `compiled`: what of it is."""
    model = perceptron()
    optimizer = OPTIMIZERS[optimizer](model.parameters())

    def loss_of(x, target):
        return F.mse_loss(model(x), target)

    if compiled == "forward":
        loss_of = weft.compile(loss_of, backend=backend)

    def step(x, target):
        optimizer.zero_grad()
        loss = loss_of(x, target)
        loss.backward()
        optimizer.step()
        return loss.detach()

    if compiled == "step":
        step = weft.compile(step, backend=backend, fullgraph=True)
    x, target = weft.randn(rows, WIDTH), weft.randn(rows, WIDTH)
    for _ in range(3):
        step(x, target)
    tracemalloc.start()
    try:
        step(x, target)  # its gradients are counted when the next one begins
        gc.collect()
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        step(x, target)
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()


@pytest.fixture(autouse=True)
def by_array_kernels(monkeypatch):
    """Native kernels, which large arrays go to once there are any, take other memory than array kernels."""
    monkeypatch.setattr(seams, "native_kernel", None)


ACTIVATIONS = 256
"""Rows with which activations take more memory than parameters do."""


@pytest.mark.parametrize(
    ("compiled", "optimizer"), [("forward", "SGD"), ("step", "momentum"), ("step", "Adam")]
)
def test_steps_take_no_more_memory_than_eager_ones(optimizer, compiled):
    assert peak(optimizer, ACTIVATIONS, compiled) <= peak(optimizer, ACTIVATIONS, None)


def test_old_gradients_are_gone_before_new_ones_are_made():
    assert peak("Adam", 8, "step") < peak("Adam", 8, None) + WIDTH * WIDTH * 4 // 2


def test_gradients_of_activations_are_written_over():
    one = ACTIVATIONS * WIDTH * 4
    assert peak("SGD", ACTIVATIONS, "step") < peak("SGD", ACTIVATIONS, None) - one // 2


MOST = {
    ("forward", "SGD", "tall"): 0.8,
    ("forward", "momentum", "wide"): 1,
    ("whole step", "SGD", "tall"): 1,
    ("whole step", "SGD", "wide"): 1,
    ("whole step", "Adam", "tall"): 1,
    ("whole step", "Adam", "wide"): 1,
}
"""By what is compiled, optimizer and size: the peak beside eager's."""


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "optimizer", "size"), MOST)
def test_peaks_are_no_higher_than_eagers(kind, optimizer, size):
    eager, compiled = [memory.peak(kind, optimizer, size, backend) for backend in (None, aot_eager)]
    assert compiled <= MOST[kind, optimizer, size] * eager


# -- machine code --------------------------------------------------------------------------------------------
RESIDUALS = 8 * WIDTH * 4 * LAYERS * 3
"""What is kept for gradients of eight rows: three values a layer."""


@pytest.mark.parametrize("optimizer", ["SGD", "momentum", "Adam"])
@pytest.mark.parametrize("rows", [8, ACTIVATIONS])
def test_native_steps_take_no_more_memory_than_eager_ones(optimizer, rows):
    assert peak(optimizer, rows, "step", "native") <= peak(optimizer, rows, None)


def test_native_gradients_take_no_more_memory_than_eager_ones_with_what_they_read():
    """A program that computes all gradients holds what it reads until it is done."""
    assert peak("SGD", 8, "forward", "native") <= peak("SGD", 8, None) + RESIDUALS


@pytest.mark.slow
@pytest.mark.parametrize(("optimizer", "size"), [("SGD", "wide"), ("Adam", "wide"), ("Adam", "tall")])
def test_native_peaks_are_no_higher_than_eagers(optimizer, size):
    eager, compiled = [memory.peak("whole step", optimizer, size, backend) for backend in (None, "native")]
    assert compiled <= eager
