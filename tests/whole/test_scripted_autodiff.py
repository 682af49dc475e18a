# ruff: noqa: UP006, UP035
"""Autodiff of scripted functions: nodes of the tape, what requires grad, gradients that never came."""

from typing import List

import pytest

import weft
from weft import Tensor


@weft.jit.ignore
def python_function(x):
    return x.relu()


def concatenated(tensors: List[Tensor], added):
    joined = weft.cat(tensors, dim=1)
    return weft.sin(joined + added)


def test_node_counts_intermediates_and_takes_none():
    scripted = weft.jit.script(concatenated)
    a, b = weft.rand(3, 6, requires_grad=True), weft.rand(3, 10, requires_grad=True)
    y = weft.rand(3, 16, requires_grad=True)
    for _ in range(2):
        scripted([a, b], y).sum().backward()
    total = scripted([a, b], y).sum()
    node = total.grad_fn.next_functions[0][0]
    grad = weft.rand(3, 16)
    found = node(grad, None)
    expected = weft.autograd.grad(concatenated([a, b], y), [a, b, y], grad)
    assert len(found) == 3
    for one, two in zip(found, expected, strict=True):
        weft.testing.assert_close(one, two)
    nothing = node(None, None)
    assert len(nothing) == 3
    assert all(value is None or value.abs().max() == 0 for value in nothing)
    assert "DifferentiableGraph" in type(node).__name__


def two_results(a, b, c):
    return a.relu() + b.relu(), c.relu()


def around_python(a, b, c):
    x = a.sin().relu()
    python_function(x)
    return weft.relu(x), weft.nn.functional.gelu(x), c.cos().relu()


def around_no_grad(a, b, c):
    x = a.sin().relu()
    y = python_function(b)
    with weft.no_grad():
        z = x + c
    return x, y, z


def two_readers(a, b, c):
    r = a.relu().relu()
    return weft.special.gammaln(r), weft.special.entr(r), c.cos().relu()


@pytest.mark.parametrize("function", [two_results, around_python, around_no_grad, two_readers])
def test_outputs_require_grad_as_in_eager_code(function):
    scripted = weft.jit.script(function)
    for wanted in [(0, 0, 1), (1, 1, 1), (0, 0, 0), (1, 0, 0), (0, 0, 1), (0, 1, 1)] * 2:
        tensors = [weft.rand(4, requires_grad=bool(one)) for one in wanted]
        found, expected = scripted(*tensors), function(*tensors)
        assert [t.requires_grad for t in found] == [t.requires_grad for t in expected]
        with weft.no_grad():
            assert not any(t.requires_grad for t in scripted(*tensors))


def cubes(x):
    return (x * x * x).sin() * x


def test_gradients_of_any_order():
    scripted = weft.jit.script(cubes)
    x = weft.rand(3, dtype=weft.float64, requires_grad=True)
    for _ in range(3):
        one, two = scripted(x).sum(), cubes(x).sum()
        for _ in range(3):
            weft.testing.assert_close(one, two)
            (one,) = weft.autograd.grad(one, x, create_graph=True)
            (two,) = weft.autograd.grad(two, x, create_graph=True)
            one, two = one.sum(), two.sum()
    assert weft.autograd.gradcheck(scripted, (x,))


def test_second_backward_is_refused_and_retained_is_not():
    scripted = weft.jit.script(cubes)
    x = weft.rand(3, requires_grad=True)
    scripted(x)
    y = scripted(x).sum()
    y.backward(retain_graph=True)
    y.backward()
    with pytest.raises(RuntimeError, match="a second time"):
        y.backward()


def test_hooks_run_once():
    scripted = weft.jit.script(cubes)
    x = weft.rand(3, requires_grad=True)
    seen = []
    x.register_hook(lambda grad: seen.append(grad))
    for count in range(1, 4):
        scripted(x).sum().backward()
        assert len(seen) == count


def test_stale_inputs_are_noticed():
    scripted = weft.jit.script(cubes)
    x = weft.rand(3, requires_grad=True)
    for _ in range(2):
        a = x * 1
        y = scripted(a).sum()
        with weft.no_grad():
            a.add_(1)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            y.backward()


def test_graph_for_shows_differentiable_graphs():
    scripted = weft.jit.script(two_results)
    plain, wanted = weft.rand(2), weft.rand(2, requires_grad=True)
    assert "DifferentiableGraph" not in str(scripted.graph_for(plain, plain, plain))
    assert "prim::DifferentiableGraph_0(" in str(scripted.graph_for(wanted, plain, plain))
    with weft.no_grad():
        assert "DifferentiableGraph" not in str(scripted.graph_for(wanted, plain, plain))


def loop(x, n: int):
    y = x
    for i in range(n):
        if i % 2 == 0:
            y = y.sin() + x
        else:
            y = y * x
    return y


def test_reverse_mode_through_branches_and_loops():
    scripted = weft.jit.script(loop)
    x = weft.rand(3, dtype=weft.float64, requires_grad=True)
    for n in (0, 1, 4):
        assert weft.autograd.gradcheck(lambda x, n=n: scripted(x, n), (x,))
