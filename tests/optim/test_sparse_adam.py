"""SparseAdam beside a formula and torch; other optimizers with sparse gradients."""

from __future__ import annotations

import math

import numpy as np
import pytest

import weft

STEPS = [[1, 1, 3], [1], [0, 3, 3, 3]]


def trained(T, make, sparse=True):
    table = T.nn.Embedding(5, 2, sparse=sparse)
    with T.no_grad():
        table.weight.copy_(T.arange(10.0).reshape(5, 2) / 10)
    optimizer = make(T, table.parameters())
    for rows in STEPS:
        optimizer.zero_grad()
        (table(T.tensor(rows)) ** 2).sum().backward()
        assert str(table.weight.grad.layout).endswith("sparse_coo" if sparse else "strided")
        optimizer.step()
    return np.array(table.weight.detach().tolist()), optimizer


def test_follows_the_formula():
    x = np.arange(10.0).reshape(5, 2) / 10
    mean, square = np.zeros_like(x), np.zeros_like(x)
    for step, rows in enumerate(STEPS, 1):
        g = np.zeros_like(x)
        np.add.at(g, rows, 2 * x[rows])
        touched = sorted(set(rows))
        mean[touched] = 0.9 * mean[touched] + 0.1 * g[touched]
        square[touched] = 0.999 * square[touched] + 0.001 * g[touched] ** 2
        size = 0.1 * math.sqrt(1 - 0.999**step) / (1 - 0.9**step)
        x[touched] -= size * mean[touched] / (np.sqrt(square[touched]) + 1e-8)
    ours, optimizer = trained(weft, lambda T, params: T.optim.SparseAdam(params, 0.1))
    assert ours == pytest.approx(x, abs=1e-5)
    assert optimizer.state_dict()["state"][0]["step"] == 3


MAKERS = {
    "SparseAdam": lambda T, params: T.optim.SparseAdam(params, 0.1),
    "SparseAdam maximize": lambda T, params: T.optim.SparseAdam(params, 0.1, (0.8, 0.9), 1e-4, True),
    "SGD": lambda T, params: T.optim.SGD(params, 0.1),
    "SGD momentum": lambda T, params: T.optim.SGD(params, 0.1, momentum=0.9),
    "SGD nesterov": lambda T, params: T.optim.SGD(params, 0.1, momentum=0.9, nesterov=True),
    "SGD maximize": lambda T, params: T.optim.SGD(params, 0.1, maximize=True),
    "Adagrad": lambda T, params: T.optim.Adagrad(params, 0.1, lr_decay=0.1),
    "Adagrad maximize": lambda T, params: T.optim.Adagrad(params, 0.1, maximize=True),
}


@pytest.mark.torch
@pytest.mark.parametrize("name", MAKERS)
def test_as_torch(name):
    import torch

    assert trained(weft, MAKERS[name])[0] == pytest.approx(trained(torch, MAKERS[name])[0], abs=1e-6)


@pytest.mark.parametrize("name", ["SGD", "Adagrad"])
def test_sparse_gradients_move_rows_as_dense_ones(name):
    assert trained(weft, MAKERS[name])[0] == pytest.approx(trained(weft, MAKERS[name], False)[0], abs=1e-6)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("Adam", "Adam does not support sparse gradients, please consider SparseAdam instead"),
        ("AdamW", "Adam does not support sparse gradients, please consider SparseAdam instead"),
        ("RMSprop", "RMSprop does not support sparse gradients"),
        ("Adamax", "Adamax does not support sparse gradients"),
    ],
)
def test_others_refuse(name, text):
    with pytest.raises(RuntimeError, match=text):
        trained(weft, lambda T, params: getattr(T.optim, name)(params, 0.1))


def test_refuses_what_torch_refuses():
    x = weft.ones(2, requires_grad=True)
    with pytest.raises(ValueError, match="Invalid learning rate: 0"):
        weft.optim.SparseAdam([x], 0)
    with pytest.raises(ValueError, match="Sparse params at indices \\[0\\]"):
        weft.optim.SparseAdam([weft.ones(2).to_sparse().requires_grad_()])
    x.sum().backward()
    with pytest.raises(RuntimeError, match="please consider Adam instead"):
        weft.optim.SparseAdam([x]).step()
    with pytest.raises(RuntimeError, match="weight_decay option is not compatible with sparse gradients"):
        trained(weft, lambda T, params: T.optim.Adagrad(params, 0.1, weight_decay=0.1))
    with pytest.raises(RuntimeError, match="add\\(sparse, dense\\) is not supported"):
        trained(weft, lambda T, params: T.optim.SGD(params, 0.1, weight_decay=0.1))


def test_a_compiled_step_is_the_same():
    def run(compiled):
        table = weft.nn.Embedding(5, 2, sparse=True)
        weft.nn.init.ones_(table.weight)
        optimizer = weft.optim.SparseAdam(table.parameters(), 0.1)

        def step(rows):
            optimizer.zero_grad()
            loss = (table(rows) ** 2).sum()
            loss.backward()
            optimizer.step()
            return loss

        step = weft.compile(step, backend="aot_eager") if compiled else step
        losses = [step(weft.tensor(rows)).item() for rows in STEPS]
        return losses, table.weight.tolist(), table.weight.grad.layout

    assert run(True) == run(False)
