"""Tapes of every op, of models that are trained, and of random programs, run as graphs and by the engine."""

from __future__ import annotations

import contextlib
import types
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import weft
from tests import refusals, wide
from tests.aot.backwards import AOT, EAGER, Compiler, afresh, as_it_is, compiler
from tests.aot.test_joint import OPS, module_of
from tests.capture.features.harness import STEADY
from tests.capture.features.test_whole_steps import bits
from tests.whole.fuzz import compare
from tests.whole.fuzz.tape_programs import program
from weft.compiler import compiled_autograd, counters
from weft.nn import functional as F
from weft.ops.record import Op
from weft.ops.samples import Maker

__all__ = ["afresh"]
DATA_DEPENDENT = {"masked_scatter"}
"""Ops the shape of whose gradients only running tells."""


# -- every op ------------------------------------------------------------------------------------------------
def bits_of_gradients(module: Any, inputs: list[Any]) -> list[Any] | None:
    """The bits of the gradients of all inputs; None where there are none."""
    for leaf in inputs:
        leaf.grad = None
    weft.manual_seed(3)
    result = module.forward(*inputs)
    every = result if isinstance(result, (tuple, list)) else [result]
    outputs = [each for each in every if isinstance(each, weft.Tensor) and each.requires_grad]
    if not outputs:
        return None
    seeds = [weft.randn(each.shape, dtype=weft.float64).to(each.dtype) for each in outputs]
    weft.autograd.backward(outputs, seeds)
    return [
        None if leaf.grad is None else (leaf.grad.stride(), leaf.grad.numpy().tobytes()) for leaf in inputs
    ]


@wide.over(OPS)
def test_samples(op: Op) -> None:
    for dynamic, sample in zip((None, True, None), op.samples(Maker()), strict=False):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            module, inputs = module_of(op.face, sample, False)
            try:
                expected = bits_of_gradients(module, inputs)
            except (RuntimeError, NotImplementedError) as error:
                refusals.expect(error, weft.float64, *refusals.OF_GRADIENTS)
                continue
            with compiled_autograd.enable(as_it_is, dynamic=dynamic):
                assert bits_of_gradients(module, inputs) == expected
    assert not compiled_autograd.reasons or op.name in DATA_DEPENDENT


# -- models --------------------------------------------------------------------------------------------------
class Recurrent(weft.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cells, self.last = weft.nn.GRU(6, 8, batch_first=True), weft.nn.Linear(8, 5)

    def forward(self, x: Any) -> Any:
        return self.last(self.cells(x)[0][:, -1])


class Attention(weft.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.norm = weft.nn.Embedding(11, 8), weft.nn.LayerNorm(8)
        self.parts, self.last = weft.nn.Linear(8, 24), weft.nn.Linear(8, 5)

    def forward(self, x: Any) -> Any:
        hidden = self.norm(self.words(x))
        mixed = F.scaled_dot_product_attention(*self.parts(hidden).chunk(3, -1))
        return self.last((hidden + mixed).mean(1))


def convolutional() -> Any:
    return weft.nn.Sequential(
        weft.nn.Conv2d(1, 4, 3, padding=1), weft.nn.BatchNorm2d(4), weft.nn.ReLU(), weft.nn.MaxPool2d(2),
        weft.nn.Flatten(), weft.nn.Dropout(0.3), weft.nn.Linear(4 * 4 * 4, 5),
    )  # fmt: skip


MODELS: dict[str, tuple[Callable[[], Any], Callable[[int], Any]]] = {
    "convolutional": (convolutional, lambda rows: weft.randn(rows, 1, 8, 8)),
    "recurrent": (Recurrent, lambda rows: weft.randn(rows, 5, 6)),
    "attention": (Attention, lambda rows: weft.randint(0, 11, (rows, 7))),
}


def trained(name: str, hooked: bool) -> tuple[Any, ...]:
    """Losses, parameters and what hooks noted, after some steps with batches of several sizes."""
    make, data = MODELS[name]
    weft.manual_seed(0)
    model = make()
    optimizer = weft.optim.Adam(model.parameters(), lr=1e-2, **STEADY)
    losses, log = [], []

    def clamp(parameter: Any) -> None:
        parameter.grad.clamp_(-0.01, 0.01)

    if hooked:
        list(model.children())[-1].register_full_backward_hook(lambda *given: log.append(len(given[1])))
        for parameter in model.parameters():
            parameter.register_post_accumulate_grad_hook(clamp)
    for rows in (4, 4, 6, 3):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(data(rows)), weft.arange(rows) % 5)
        loss.backward()
        optimizer.step()
        losses.append(bits(loss))
    return losses, bits(list(model.parameters())), log


@pytest.mark.parametrize("compile_graph", [EAGER, AOT, compiler("aot_eager", False, None)])
@pytest.mark.parametrize("hooked", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_training(name: str, hooked: bool, compile_graph: Compiler) -> None:
    expected = trained(name, hooked)
    with compiled_autograd.enable(compile_graph):
        assert trained(name, hooked) == expected
    counted = counters["compiled_autograd"]
    assert (counted["captures"], counted["native"]) == (2, 0)


# -- random programs -----------------------------------------------------------------------------------------
@contextlib.contextmanager
def second_run_under(compile_graph: Compiler, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Programs are run as they are twice, the second time with their backwards as graphs."""
    execute = compare.execute

    def run(code: types.CodeType, compile_function: Any) -> Any:
        if compile_function is compare.identity:
            return execute(code, compare.identity)
        with compiled_autograd.enable(compile_graph):
            return execute(code, compare.identity)

    with monkeypatch.context() as patch:
        patch.setattr(compare, "execute", run)
        yield


@pytest.mark.parametrize("first", range(0, 40, 10))
@pytest.mark.parametrize(
    "compile_graph", [as_it_is, compiler("eager", False, None)], ids=["as_it_is", "eager"]
)
def test_random_programs(first: int, compile_graph: Compiler, monkeypatch: pytest.MonkeyPatch) -> None:
    with second_run_under(compile_graph, monkeypatch):
        for seed in range(first, first + 10):
            found = compare.compare(program(seed), compare.compiled)
            if found is not None and "Full backward hook" not in found.detail:  # which names our lines
                pytest.fail(f"program {seed}: {found.detail}")
