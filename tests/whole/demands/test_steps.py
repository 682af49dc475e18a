"""Users' cases of whole training steps, constants, checkpoints and Jacobians of compiled functions: see
docs/demands.md, items 10, 21, 22 and 23.
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

import weft
from tests.capture.features.harness import everything_strict
from tests.whole.demands.cases import differences_agree, leaf, one, plain, table
from weft import func, nn
from weft.autograd import grad
from weft.autograd.graph import saved_tensors_hooks
from weft.testing import CompileCounterWithBackend
from weft.utils.checkpoint import checkpoint

Check = Callable[..., Any]
F = nn.functional


# -- pytorch#120814 ------------------------------------------------------------------------------------------
OPTIMIZERS: dict[str, Callable[[Any], Any]] = {
    "sgd": lambda p: weft.optim.SGD(p, lr=0.05, momentum=0.9),
    "adam": lambda p: weft.optim.Adam(p, lr=0.05),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_pytorch_120814_a_whole_training_step_is_one_graph(name: str, check: Check) -> None:
    """zero_grad, the criterion, backward and step, none of which is outside; five iterations."""
    world: dict[str, Any] = {}

    def start() -> None:
        weft.manual_seed(0)
        world["model"] = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2)).double()
        world["optimizer"] = OPTIMIZERS[name](world["model"].parameters())

    def step(x, y):
        world["optimizer"].zero_grad()
        loss = nn.CrossEntropyLoss()(world["model"](x), y)
        loss.backward()
        world["optimizer"].step()
        return loss.detach()

    data = lambda: (table(5, 3), weft.tensor([0, 1, 1, 0, 1]))
    losses: list[float] = []
    check(
        step,
        *[data] * 5,
        state=start,
        watch=lambda: [world["model"], world["optimizer"], [p.grad for p in world["model"].parameters()]],
        after=lambda loss: losses.append(loss.item()),
    )
    assert losses[5:] == sorted(losses[5:], reverse=True)


# -- aimnetcentral PR#109 ------------------------------------------------------------------------------------
class Atoms(nn.Module):
    """Energies of molecules that lie one behind the other, with checks and numbers read from tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.kinds = nn.Embedding(4, 3)
        self.shifts = nn.Embedding(4, 1)
        self.layer = nn.Linear(3, 1)
        self.register_buffer("cutoff", weft.tensor(5.0, dtype=weft.float64))

    def forward(self, positions, numbers, molecules):
        if numbers.min() < 0:
            raise ValueError("atomic numbers are not negative")
        assert bool((molecules >= 0).all()), "molecules are counted from 0"
        cutoff = self.cutoff.item()
        apart = positions[:, None] - positions[None]
        same = (molecules[:, None] == molecules[None]) & ~weft.eye(len(numbers), dtype=weft.bool)
        distances = (apart.square().sum(-1) + 1e-3).sqrt()
        near = weft.where(same & (distances < cutoff), 0.5 * (distances * 3.14 / cutoff).cos() + 0.5, 0.0)
        mixed = near @ self.kinds(numbers)
        energies = self.layer(mixed.tanh())[:, 0] + self.shifts(numbers)[:, 0]
        return weft.zeros(2, dtype=weft.float64).index_add(0, molecules, energies)


def atoms() -> Any:
    numbers, molecules = weft.tensor([1, 3, 0, 2, 1]), weft.tensor([0, 0, 0, 1, 1])
    return table(5, 3, requires_grad=True), numbers, molecules


@pytest.mark.parametrize("training", [False, True])
def test_aimnet_109_energies_and_forces_without_a_break(training: bool, check: Check) -> None:
    world: dict[str, Any] = {}

    def start() -> None:
        weft.manual_seed(0)
        world["model"] = Atoms().double()
        world["optimizer"] = weft.optim.SGD(world["model"].parameters(), lr=0.01)

    def forces(positions, numbers, molecules):
        energies = world["model"](positions, numbers, molecules)
        (gradient,) = grad(energies.sum(), positions)
        return energies.detach(), -gradient

    def step(positions, numbers, molecules):
        energies = world["model"](positions, numbers, molecules)
        (gradient,) = grad(energies.sum(), positions, create_graph=True)
        loss = energies.square().sum() + gradient.square().sum()
        world["optimizer"].zero_grad()
        loss.backward(inputs=list(world["model"].parameters()))
        world["optimizer"].step()
        return loss.detach()

    watch = lambda: [world["model"], [p.grad for p in world["model"].parameters()]]
    check(step if training else forces, *[atoms] * 3, state=start, watch=watch)


# -- jax#14655 -----------------------------------------------------------------------------------------------
def test_jax_14655_closed_over_constants_are_neither_folded_nor_copied(check: Check, backend: str) -> None:
    size = 1_000_000
    rows = weft.arange(size)
    values = weft.ones(size, dtype=weft.float64)

    def operator(x):
        """The product of a sparse matrix, of whose entries a few are looked at, and a vector."""
        chosen = rows[:4] % 3
        return weft.zeros(3, dtype=weft.float64).index_add(0, chosen, values[:4] * x[chosen]).sin()

    check(operator, one, after=lambda y: y.sum())
    counter: Any = CompileCounterWithBackend(backend)
    with everything_strict():
        compiled = weft.compile(operator, backend=counter, fullgraph=True)
        tracemalloc.start()
        compiled(leaf()).sum().backward()
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < size * 8 / 2, "either constant alone takes more"
        values[1] = 5.0  # written after capture: a folded constant would not notice
        assert weft.equal(compiled(leaf()), operator(leaf()))
    assert counter.frame_count == 1


# -- pytorch#97436 -------------------------------------------------------------------------------------------
class Convolutions(nn.Module):
    def __init__(self, checkpointed: bool) -> None:
        super().__init__()
        self.first = nn.Conv2d(1, 3, 3, padding=1)
        self.second = nn.Conv2d(3, 3, 3, padding=1)
        self.third = nn.Conv2d(3, 1, 3, padding=1)
        self.checkpointed = checkpointed

    def forward(self, x):
        x = F.relu(self.first(x))
        x = checkpoint(self.second, x, use_reentrant=False) if self.checkpointed else self.second(x)
        return self.third(F.relu(x))


@pytest.mark.parametrize("inside", [False, True])
def test_pytorch_97436_checkpointed_convolutions(inside: bool, check: Check) -> None:
    world: dict[str, Any] = {}

    def start() -> None:
        weft.manual_seed(0)
        world["model"] = Convolutions(checkpointed=True).double()

    def forward(x):
        return world["model"](x).square().sum()

    def step(x):
        world["model"].zero_grad()
        loss = forward(x)
        loss.backward()
        return loss.detach()

    picture = lambda: (table(4, 4).reshape(1, 1, 4, 4),)
    watch = lambda: [p.grad for p in world["model"].parameters()]
    if inside:
        check(step, picture, state=start, watch=watch)
    else:
        check(forward, picture, state=start, watch=watch, after=lambda loss: loss.backward())


@pytest.mark.parametrize("where", ["around", "inside"])
def test_pytorch_97436_hooks_of_saved_tensors(where: str, backend: str) -> None:
    """The thread of the same month (#113263, #116221): what pack and unpack do must have its effect."""

    def run(compiled: Callable[[Any], Any]) -> Any:
        a, b = leaf(1.0, 2.0, 3.0), leaf(4.0, 5.0, 6.0)
        pack, unpack = (lambda t: t.detach() * 2), (lambda t: t)

        def product(a, b):
            return (a * b).sum()

        def around(a, b):
            with saved_tensors_hooks(pack, unpack):
                product(a, b).backward()

        def whole(a, b):
            with saved_tensors_hooks(pack, unpack):
                loss = called(a, b)
            loss.backward()

        called = compiled(product)
        (whole if where == "around" else compiled(around))(a, b)
        return a.grad.tolist(), b.grad.tolist()

    with everything_strict():
        expected = run(lambda function: function)
        assert expected == ([8.0, 10.0, 12.0], [2.0, 4.0, 6.0])
        assert run(lambda function: weft.compile(function, backend=backend, fullgraph=True)) == expected


# -- pytorch#138422 ------------------------------------------------------------------------------------------
def test_pytorch_138422_a_jacobian_by_vmap_over_grad_of_a_compiled_output(backend: str) -> None:
    def f(x):
        return x**2 + x.roll(1).sin()

    counter: Any = CompileCounterWithBackend(backend)
    with everything_strict():
        compiled = weft.compile(f, backend=counter, fullgraph=True)
        for _ in range(2):
            found = []
            for function in (f, compiled):
                x = leaf()
                y = function(x)
                get = lambda v, y=y, x=x: grad(y, x, v, retain_graph=True)[0]
                unit = weft.eye(3, dtype=weft.float64)
                found.append((func.vmap(get)(unit), grad(y, x, unit, is_grads_batched=True)[0]))
            weft.testing.assert_close(found[0], found[1])
    assert counter.frame_count == 1


@pytest.mark.parametrize("transform", ["vmap", "jacrev", "jacfwd", "hessian", "grad of vmap"])
def test_pytorch_138422_transforms_of_a_compiled_function(transform: str, backend: str) -> None:
    def f(x):
        return (x**2 + x.roll(1).sin()).sum(-1)

    transforms: dict[str, Callable[[Any], Any]] = {
        "vmap": func.vmap,
        "jacrev": func.jacrev,
        "jacfwd": func.jacfwd,
        "hessian": lambda g: func.vmap(func.hessian(g)),
        "grad of vmap": lambda g: func.grad(lambda x: func.vmap(g)(x).square().sum()),
    }
    chosen = transforms[transform]
    with everything_strict():
        compiled = weft.compile(f, backend=backend, fullgraph=True)
        compiled(plain())
        weft.testing.assert_close(chosen(compiled)(table(2, 3)), chosen(f)(table(2, 3)))
        weft.testing.assert_close(
            weft.compile(chosen(f), backend=backend, fullgraph=True)(table(2, 3)), chosen(f)(table(2, 3))
        )
    differences_agree(f, leaf(), backend=backend)
    assert compiled(leaf()).requires_grad
