"""Users' cases of double backward through compiled code: see docs/demands.md, item 4."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import weft
from tests.capture.features.harness import everything_strict
from tests.whole.demands.cases import differences_agree, leaf, one, table
from weft import nn
from weft.autograd import Function, grad
from weft.testing import CompileCounterWithBackend

Check = Callable[..., Any]
F = nn.functional


def seeded(make: Callable[[], Any]) -> Any:
    weft.manual_seed(0)
    return make().double()


def parameters_and_gradients(model: Any) -> Any:
    return [(p, p.grad) for p in model.parameters()]


# -- pytorch#91469 -------------------------------------------------------------------------------------------
def test_pytorch_91469_a_compiled_function_differentiated_twice(check: Check, backend: str) -> None:
    def f(x):
        return x * x * x * x * x * 1.0

    def twice(y: Any) -> Any:
        x = given[-1]
        (first,) = grad(y.sum(), x, create_graph=True)
        (second,) = grad(first.sum(), x, create_graph=True)
        return first, second, grad(second.sum(), x)[0]

    given: list[Any] = []

    def arguments() -> Any:
        given.append(leaf())
        return (given[-1],)

    check(f, arguments, after=twice)
    differences_agree(f, leaf(), backend=backend)


def test_pytorch_91469_gradients_inside_behind_a_break(check: Check, capsys: Any) -> None:
    def f(x):
        y = x * x * x * x * x
        print("between")
        (first,) = grad(y.sum(), x, create_graph=True)
        (second,) = grad(first.sum(), x)
        return first, second

    check(f, one, frames=None, breaks=None)


def test_pytorch_91469_gradients_inside_without_a_break(check: Check) -> None:
    def f(x):
        y = x * x * x * x * x
        (first,) = grad(y.sum(), x, create_graph=True)
        (second,) = grad(first.sum(), x)
        return first, second

    check(f, one)


# -- pytorch#183603 ------------------------------------------------------------------------------------------
def test_pytorch_183603_a_gradient_inside_and_another_outside(check: Check, backend: str) -> None:
    def f(x):
        return grad((x**4).sum(), x, create_graph=True)[0]

    given: list[Any] = []

    def arguments() -> Any:
        given.append(leaf(0.5, 1.5, 2.5, 3.5))
        return (given[-1],)

    check(f, arguments, after=lambda first: grad(first.sum(), given[-1]))
    differences_agree(f, leaf(0.5, 1.5, 2.5, 3.5), backend=backend)


# -- torchmd-net#307 -----------------------------------------------------------------------------------------
class Pairs(nn.Module):
    """An energy of positions, by the distances of all pairs."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden = nn.Linear(1, 6)
        self.out = nn.Linear(6, 1)

    def forward(self, positions):
        apart = positions[:, None] - positions[None]
        distances = (apart.square().sum(-1) + weft.eye(len(positions), dtype=weft.float64)).sqrt()
        near = weft.exp(-distances)[..., None]
        return self.out(F.silu(self.hidden(near))).sum()


def test_torchmd_net_307_forces_are_trained_through_a_compiled_model(check: Check, backend: str) -> None:
    models: list[Any] = []

    def start() -> Any:
        models[:] = [seeded(Pairs)]
        return models[0].forward

    def train(energy: Any) -> Any:
        (gradient,) = grad(energy, given[-1], create_graph=True, retain_graph=True)
        models[0].zero_grad()
        (energy**2 + (gradient - 0.1).square().sum()).backward()
        return gradient, parameters_and_gradients(models[0]), given[-1].grad

    given: list[Any] = []

    def arguments() -> Any:
        given.append(table(4, 3, requires_grad=True))
        return (given[-1],)

    check(Pairs.forward, arguments, state=start, after=train)
    differences_agree(seeded(Pairs), table(3, 3, requires_grad=True), backend=backend)


# -- matgl PR#784 --------------------------------------------------------------------------------------------
class Potential(nn.Module):
    """Energy, forces, stresses and, if asked for, the Hessian, of a model that alone is compiled."""

    def __init__(self, model: Any, calc_hessian: bool) -> None:
        super().__init__()
        self.model = model
        self.calc_hessian = calc_hessian

    def forward(self, positions, cell):
        strain = weft.zeros(3, 3, dtype=weft.float64, requires_grad=True)
        positions = positions.requires_grad_()
        moved = positions + positions @ strain
        energy = self.model(moved) * (1 + (cell @ strain).square().sum())
        gradient, virial = grad(energy, (positions, strain), create_graph=True)
        volume = cell.det().abs()
        rows = []
        if self.calc_hessian:
            rows = [grad(row, positions, retain_graph=True)[0].flatten() for row in gradient.flatten()]
        return energy, -gradient, virial / volume, weft.stack(rows) if rows else None


@pytest.mark.parametrize("whole", [False, True])
def test_matgl_784_a_potential_with_hessian_trains(whole: bool, backend: str) -> None:
    """The model alone compiled, as the library does, and the whole potential; three sizes, two graphs."""

    def run(compiled: Callable[[Any], Any]) -> Any:
        model = seeded(Pairs)
        inner = model if whole else compiled(model)
        potential = Potential(inner, calc_hessian=True)
        called = compiled(potential) if whole else potential
        seen = []
        for atoms in (2, 3, 4):
            model.zero_grad()
            energy, forces, stresses, hessian = called(table(atoms, 3), weft.eye(3, dtype=weft.float64) * 4)
            (energy + forces.square().sum() + stresses.square().sum()).backward()
            seen.append([energy, forces, stresses, hessian, *[p.grad for p in model.parameters()]])
        return [[value.detach() for value in values] for values in seen]

    counter: Any = CompileCounterWithBackend(backend)
    with everything_strict():
        expected = run(lambda module: module)
        actual = run(lambda module: weft.compile(module, backend=counter, fullgraph=True))
    for left, right in zip(expected, actual, strict=True):
        weft.testing.assert_close(right, left)
        hessian = right[3]
        assert weft.allclose(hessian, hessian.T) and hessian.abs().max() > 0.01
    assert counter.frame_count == (3 if whole else 2)


# -- PINA#621 ------------------------------------------------------------------------------------------------
def net() -> Any:
    return nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))


def laplacian(u, points):
    (first,) = grad(u.sum(), points, create_graph=True)
    total = 0
    for place in range(points.shape[1]):
        (second,) = grad(first[:, place].sum(), points, create_graph=True)
        total = total + second[:, place]
    return total


def test_pina_621_a_physics_informed_step(check: Check) -> None:
    """The residual of Poisson's equation, trained: the network compiled, and the whole residual."""
    models: list[Any] = []

    def residual(points):
        u = models[0](points)
        return (laplacian(u, points) + points.prod(1).sin()).square().mean()

    def network(points):
        return models[0](points)

    def start() -> None:
        models[:] = [seeded(net)]

    def train(loss: Any) -> Any:
        models[0].zero_grad()
        loss.backward()
        return parameters_and_gradients(models[0])

    def train_network(u: Any) -> Any:
        return train((laplacian(u, given[-1]) + given[-1].prod(1).sin()).square().mean())

    given: list[Any] = []

    def points() -> Any:
        given.append(table(6, 2, requires_grad=True))
        return (given[-1],)

    check(residual, points, state=start, after=train)
    check(network, points, state=start, after=train_network)


class LabelTensor(weft.Tensor):
    """Points with names of their columns."""

    labels: list[str]

    def column(self, name):
        return self.as_subclass(weft.Tensor)[:, self.labels.index(name)]


def test_pina_621_points_with_labels(check: Check) -> None:
    models: list[Any] = []

    def labelled() -> Any:
        points = table(6, 2).as_subclass(LabelTensor).requires_grad_()
        points.labels = ["x", "y"]
        return (points,)

    def residual(points):
        u = models[0](points.as_subclass(weft.Tensor))
        (first,) = grad(u.sum(), points, create_graph=True)
        (second,) = grad(first[:, 0].sum(), points, create_graph=True)
        return (second.as_subclass(weft.Tensor)[:, 0] - points.column("y")).square().mean()

    def start() -> None:
        models[:] = [seeded(net)]

    def train(loss: Any) -> Any:
        models[0].zero_grad()
        loss.backward()
        return [p.grad for p in models[0].parameters()]

    check(residual, labelled, state=start, after=train, frames=None, breaks=None)


# -- cuEquivariance#268 --------------------------------------------------------------------------------------
class Product(Function):
    """A product of vectors and weights with rules of its own, to any order: its backward is made of it."""

    generate_vmap_rule = True

    @staticmethod
    def forward(vectors, weights):
        return weft.linalg.cross(vectors, weights, dim=-1)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, g):
        vectors, weights = ctx.saved_tensors
        return Product.apply(weights, g), Product.apply(g, vectors)


def test_cuequivariance_268_forces_of_an_equivariant_product_are_trained(check: Check, backend: str) -> None:
    def energy(positions, weights):
        turned = Product.apply(positions, weights)
        return (turned.square().sum(-1) + 0.1).sqrt().sum()

    def forces(positions, weights):
        return -grad(energy(positions, weights), positions, create_graph=True)[0]

    given: list[Any] = []

    def arguments() -> Any:
        given.append((table(3, 3, requires_grad=True), table(3, 3, 0.2, requires_grad=True)))
        return given[-1]

    def train_energy(value: Any) -> Any:
        (gradient,) = grad(value, given[-1][0], create_graph=True)
        return grad((gradient.square().sum()), given[-1])

    def train(value: Any) -> Any:
        return grad(value.square().sum(), given[-1])

    check(energy, arguments, after=train_energy)
    check(forces, arguments, after=train)
    differences_agree(energy, *arguments(), backend=backend)
