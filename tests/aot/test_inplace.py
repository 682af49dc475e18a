"""Graphs that write their inputs in place, and those that must not."""

from __future__ import annotations

import operator

import pytest

import weft
from tests.aot.differing import compare
from weft.aot.backends import aot, as_it_is
from weft.aot.inplace import WRITTEN, in_place


def floats(*shape: int, grad: bool = False) -> weft.Tensor:
    return weft.randn(*shape, dtype=weft.float64).requires_grad_(grad)


def written(function, *inputs):
    """The names of the calls that write, when the function is compiled for these inputs."""
    found = []

    def compiler(module, examples):
        if module.graph.meta.get(WRITTEN):
            nodes = in_place(module).graph.nodes
            found.append([n.target for n in nodes if str(n.target).endswith("_") and n.op == "call_method"])
            found[-1] += ["scatter_into" for n in nodes if "scatter_into" in n.name]
        return as_it_is(module, examples)

    compare(function, *inputs, backend=aot(compiler))
    return found[0]


def steps(p, g):
    p.mul_(0.9).add_(g, alpha=0.1)


def returned(p, g):
    p.mul_(2)
    return p + g, p


def rows(p, g):
    p[1].copy_(g[0])
    p[0].add_(g[1])


def filled(p, g):
    p.zero_()
    p.fill_(3.0)
    return g * 2


WRITES = [(steps, ["mul_", "add_"]), (returned, ["mul_"]), (filled, ["zero_", "fill_"])]


@pytest.mark.parametrize(("function", "calls"), WRITES)
def test_written_in_place(function, calls):
    assert written(function, floats(3, 4), floats(3, 4)) == calls


def test_parts_are_written_in_place():
    assert written(rows, floats(3, 4), floats(3, 4)) == ["scatter_into"] * 2


def old_value_is_read(p, g):
    q = p * 1
    p.add_(g)
    return p - q, q


def old_value_is_given_out(p, g):
    view = p.clone()
    p.add_(g)
    return view


def test_copies_of_old_values_are_no_obstacle():
    assert written(old_value_is_read, floats(3, 4), floats(3, 4)) == ["add_"]
    assert written(old_value_is_given_out, floats(3, 4), floats(3, 4)) == ["add_"]


def swapped(p, g):
    old = p.clone()
    p.copy_(g)
    g.copy_(old)


def transposed(p, g):
    view = p.t()
    p.add_(g)
    return view * 2


def fails_behind(p, g):
    p.add_(1)
    return g[weft.arange(3)] * 2


def other_dtype(p, g):
    p.add_(g.double())


def test_written_early_and_at_the_end():
    assert written(transposed, floats(3, 3), floats(3, 3)) == ["add_"]
    assert written(fails_behind, floats(3, 4), floats(3, 4)) == ["mul_"], "into what was gathered"
    assert written(other_dtype, floats(3, 4), floats(3, 4)) == ["add_"]
    compare(swapped, floats(3, 4), floats(3, 4))


def test_residuals_keep_old_values():
    def function(p, g):
        y = p.clone() * g
        p.add_(1)
        return y * p.sin()

    compare(function, floats(3, 4), floats(3, 4, grad=True))
    compare(function, floats(3, 4, grad=True), floats(3, 4, grad=True))


def test_nothing_is_written_when_an_op_fails():
    def function(p, index):
        p.mul_(2)
        return p.sum() + weft.zeros(3)[index]

    p = weft.ones(3)
    compiled = weft.compile(function, backend="aot_eager")
    compiled(p, weft.tensor([1]))
    expected = p.clone() * 2
    with pytest.raises(IndexError):
        compiled(p, weft.tensor([7]))
    assert p.tolist() == expected.tolist()  # as eager leaves it


REFUSALS = {
    "gaussian_nll_loss": (
        lambda v: weft.nn.functional.gaussian_nll_loss(weft.zeros(2), weft.zeros(2), v),
        ([1.0, 1.0], [-1.0, 1.0]),
    ),
    "lu_factor": (weft.linalg.lu_factor, ([[1.0, 2.0], [3.0, 4.0]], [[1.0, 1.0], [1.0, 1.0]])),
    "matrix_power": (
        lambda a: weft.matrix_power(a, -1),
        ([[1.0, 2.0], [3.0, 4.0]], [[1.0, 1.0], [1.0, 1.0]]),
    ),
    "histc": (lambda x: weft.histc(x, 4), ([0.0, 1.0], [0.0, float("nan")])),
    "quantile": (lambda q: weft.quantile(weft.arange(5.0), q), (0.5, 1.5)),
    "cov": (lambda w: weft.cov(weft.eye(2), aweights=w), ([1.0, 1.0], [-1.0, 1.0])),
    "floor_divide": (lambda d: weft.tensor([3]).floor_divide(d), ([2], [0])),
    "ifloordiv": (lambda d: operator.ifloordiv(weft.tensor([3]), d), ([2], [0])),
}


@pytest.mark.parametrize("backend", ["aot_eager", "native"])
@pytest.mark.parametrize("name", REFUSALS)
def test_an_op_that_refuses_its_data_leaves_one_write(name, backend):
    function, (good, bad) = REFUSALS[name]

    def program(x, data):
        x.add_(1)
        return function(data)

    compiled = weft.compile(program, backend=backend)
    for _ in range(3):
        compiled(weft.zeros(2), weft.tensor(good))
    x = weft.zeros(2)
    with pytest.raises(Exception) as expected:
        program(weft.zeros(2), weft.tensor(bad))
    with pytest.raises(expected.type):
        compiled(x, weft.tensor(bad))
    assert x.tolist() == [1.0, 1.0]


def test_versions_are_counted_as_eager_counts():
    p, g = weft.ones(3), weft.ones(3)
    compiled = weft.compile(steps, backend="aot_eager")
    for count in (2, 4):
        compiled(p, g)
        assert p._version == count


def test_gradients_lie_in_memory_as_those_of_eager_code():
    def second(function):
        q = floats(3, 3, grad=True)
        (gradient,) = weft.autograd.grad(function(q)[0].sum(), q, create_graph=True)
        (found,) = weft.autograd.grad(gradient.sum(), q)
        return found.stride()

    def cubed(q):
        return q @ q @ q

    assert second(weft.compile(cubed, backend="aot_eager")) == second(cubed) == (3, 1)


def test_values_on_the_way_lie_in_memory_as_those_of_eager_code():
    def made(x):
        return weft.nn.functional.gelu(x.expand(2, 3)).exp() * weft.ones(2, 3) + x

    def gradient(x):
        y = floats(2, 3).requires_grad_()
        (found,) = weft.autograd.grad(weft.nn.functional.gelu(y), y, x.expand(2, 3).exp() * 2)
        return found * 2

    for function in (made, gradient):
        compiled = weft.compile(function, backend="aot_eager")
        assert compiled(floats(3)).stride() == function(floats(3)).stride() == (3, 1)


@pytest.mark.parametrize("shape", [(3, 4), (200, 300)])
@pytest.mark.parametrize("name", ["gelu", "tanh", "sigmoid"])
def test_gradients_are_written_over_what_came_before_them(name, shape):
    function = getattr(weft.nn.functional, name)
    found = []

    def compiler(module, examples):
        found.extend(node.name for node in in_place(module).graph.nodes)
        return as_it_is(module, examples)

    def gradients(x, y):
        return weft.autograd.grad((function(x) * y).sum(), [x, y])

    for x, y in [(floats(*shape), floats(*shape)), (floats(*shape[::-1]).t(), floats(*shape))]:
        compare(gradients, x.requires_grad_(), y.requires_grad_(), backend=aot(compiler))
    assert f"{name}_backward_over" in found


def zero_the_first(x, n):
    x.split(n)[0].zero_()
    return x * 2


def scale_a_half(x, n):
    x[: x.shape[0] // 2] *= n
    return x.sum()


def shift_a_narrow_part(x, n):
    x.narrow(0, n - 2, 3).add_(n)
    return x + n


@pytest.mark.parametrize("function", [zero_the_first, scale_a_half, shift_a_narrow_part])
def test_views_whose_numbers_vary_are_written_in_place(function, monkeypatch):
    monkeypatch.setattr(weft.compiler.settings, "strict", True)
    compiled = weft.compile(function, backend="aot_eager")
    for size, n in ((6, 2), (12, 3), (13, 4), (9, 5)):
        given, own = weft.arange(size * 2.0).reshape(size, 2), weft.arange(size * 2.0).reshape(size, 2)
        assert weft.equal(compiled(given, n), function(own, n)) and weft.equal(given, own)
