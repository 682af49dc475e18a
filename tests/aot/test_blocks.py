"""Rules of optimizers on long tensors, piece by piece: the same bits."""

from __future__ import annotations

import pytest

import weft
from weft.aot.backends import aot, as_it_is
from weft.aot.blocks import PIECE, Blocks, in_blocks
from weft.aot.inplace import in_place

OPTIMIZERS = {
    "SGD": lambda ps: weft.optim.SGD(ps, lr=0.1, momentum=0.9, weight_decay=0.1, nesterov=True),
    "Adam": lambda ps: weft.optim.Adam(ps, lr=0.1, weight_decay=0.1),
    "AdamW": lambda ps: weft.optim.AdamW(ps, lr=0.1, amsgrad=True),
    "RMSprop": lambda ps: weft.optim.RMSprop(ps, lr=0.1, centered=True),
}


def rows_of(found):
    """A backend that notes how many rows each graph has."""

    def compiler(module, examples):
        nodes = in_blocks(in_place(module)).graph.nodes
        found.append(sum(type(node.target) is Blocks for node in nodes))
        return as_it_is(module, examples)

    return aot(compiler)


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("transposed", [False, True])
def test_steps_are_eagers_to_the_bit(name, transposed):
    results, found = [], []
    for backend in (None, rows_of(found)):
        weft.manual_seed(0)
        shape = (300, 2 * PIECE // 256)
        parameters = [weft.randn(*shape), weft.randn(7), weft.randn(*shape)]
        if transposed:
            parameters = [p.t() if p.dim() > 1 else p for p in parameters]
        parameters = [p.requires_grad_() for p in parameters]
        optimizer = OPTIMIZERS[name](parameters)
        step = optimizer.step if backend is None else weft.compile(optimizer.step, backend=backend)
        for number in range(3):
            for p in parameters:
                p.grad = (p.detach() * 0.5 + number).sin()
            step()
        results.append([p.detach().clone() for p in parameters])
    for ours, theirs in zip(*results, strict=True):
        assert weft.equal(ours, theirs)
    assert max(found) >= 1


def test_values_that_others_read_are_no_part_of_a_row():
    def function(p, g):
        scaled = g * 0.1
        p.add_(scaled)
        p.mul_(2)
        return scaled

    found: list[int] = []
    compiled = weft.compile(function, backend=rows_of(found))
    for run in (function, compiled):
        p, g = weft.ones(3 * PIECE), weft.ones(3 * PIECE)
        assert run(p, g).sum() == (g * 0.1).sum()
        assert weft.equal(p, (weft.ones(3 * PIECE) + g * 0.1) * 2)
        assert p._version == 2
