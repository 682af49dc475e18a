"""L-BFGS and its line search, beside torch and on problems whose end is known."""

from __future__ import annotations

import numpy as np
import pytest

import weft

OPTIONS = [
    {},
    {"lr": 0.3, "max_iter": 4, "history_size": 3},
    {"line_search_fn": "strong_wolfe"},
    {"lr": 0.01, "max_iter": 8, "history_size": 2, "line_search_fn": "strong_wolfe"},
    {"lr": 3.0, "max_eval": 7, "line_search_fn": "strong_wolfe"},
]


def descend(library, options, steps):
    """The losses and the last point of a valley with a bend, in float64."""
    start = library.tensor([-1.2, 1.0], dtype=library.float64, requires_grad=True)
    other = library.tensor(0.5, dtype=library.float64, requires_grad=True)
    optimizer = library.optim.LBFGS([start, other], **options)
    losses = []

    def closure():
        optimizer.zero_grad()
        bend = start[1] - start[0] ** 2
        loss = 5 * bend**2 + (1 - start[0]) ** 2 + (other - start[1]) ** 4
        loss.backward()
        losses.append(loss.item())
        return loss

    for _ in range(steps):
        optimizer.step(closure)
    return losses, start.detach().numpy(), optimizer


@pytest.mark.torch
@pytest.mark.parametrize("options", OPTIONS)
def test_follows_torch(options):
    torch = pytest.importorskip("torch")
    losses, point, optimizer = descend(weft, options, 4)
    expected, end, other = descend(torch, options, 4)
    assert len(losses) == len(expected)
    np.testing.assert_allclose(losses, expected, rtol=1e-6, atol=1e-12)
    np.testing.assert_allclose(point, end, rtol=1e-6)
    mine, theirs = optimizer.state_dict(), other.state_dict()
    assert mine["param_groups"] == theirs["param_groups"]
    assert set(mine["state"][0]) == set(theirs["state"][0])
    for count in ("func_evals", "n_iter"):
        assert mine["state"][0][count] == theirs["state"][0][count]


def test_reaches_the_bottom():
    losses, point, _ = descend(weft, {"line_search_fn": "strong_wolfe", "max_iter": 60}, 2)
    assert losses[-1] < 1e-7
    np.testing.assert_allclose(point, 1, atol=1e-3)


def test_gives_the_loss_it_began_with_and_keeps_its_state():
    _, _, optimizer = descend(weft, {}, 1)
    x, y = optimizer.param_groups[0]["params"]

    def closure():
        optimizer.zero_grad()
        loss = (x * x).sum() + y * y
        loss.backward()
        return loss

    before = ((x * x).sum() + y * y).item()
    assert optimizer.step(closure).item() == before
    saved = optimizer.state_dict()
    again = weft.optim.LBFGS([x, y])
    again.load_state_dict(saved)
    assert again.state[x]["n_iter"] == optimizer.state[x]["n_iter"]


def test_nothing_to_do_where_it_is_flat():
    x = weft.zeros(2, requires_grad=True)
    optimizer = weft.optim.LBFGS([x])

    def closure():
        optimizer.zero_grad()
        loss = (x * x).sum()
        loss.backward()
        return loss

    assert optimizer.step(closure).item() == 0
    assert optimizer.state[x] == {"func_evals": 1, "n_iter": 0}


def test_refuses():
    x, y = weft.ones(1, requires_grad=True), weft.ones(1, requires_grad=True)
    with pytest.raises(ValueError, match=r"LBFGS doesn't support per-parameter options \(parameter groups\)"):
        weft.optim.LBFGS([{"params": [x]}, {"params": [y]}])
    with pytest.raises(ValueError, match="Invalid learning rate: -1"):
        weft.optim.LBFGS([x], lr=-1)
    x.grad = weft.ones(1)
    with pytest.raises(RuntimeError, match="only 'strong_wolfe' is supported"):
        weft.optim.LBFGS([x], line_search_fn="bisect").step(lambda: x.sum())


def test_works_under_compile_without_compiling_its_turns():
    ends = []
    for captured in (False, True):
        x = weft.tensor([3.0, -2.0], requires_grad=True)
        optimizer = weft.optim.LBFGS([x], line_search_fn="strong_wolfe")

        def step(x=x, optimizer=optimizer):
            def closure():
                optimizer.zero_grad()
                loss = (x**4).sum() + (x[0] * x[1] - 1) ** 2
                loss.backward()
                return loss

            return optimizer.step(closure)

        run = weft.compile(step, backend="eager") if captured else step
        ends.append([run().item() for _ in range(3)])
    assert ends[0] == pytest.approx(ends[1])
