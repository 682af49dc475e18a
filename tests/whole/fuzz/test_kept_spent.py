"""Random programs that differentiate after writes and after other sweeps, and once differed when compiled.

Each is the text of a module with `main`, `arguments` and perhaps `after`, as tape_programs.py writes them.
"""

from __future__ import annotations

import pytest

from tests.whole.fuzz.compare import agree


@pytest.fixture(params=["eager", "aot_eager"])
def agrees(request):
    """Asserts that a program does the same compiled by one of the backends."""
    return lambda source: agree(f"OPTIONS = {{'backend': '{request.param}'}}\n{source}")


def test_gradients_of_one_value_where_what_another_saved_is_written(agrees):
    agrees("""\
import weft
W = weft.tensor(0.5, requires_grad=True)

def main(x):
    y = 1 * W
    z = y.sin()
    ((x * y + 0.5) * W).sum().backward(retain_graph=True)
    with weft.no_grad():
        W.add_(1)
    return (z,)

def after(result, *args):
    result[0].backward()

def arguments():
    for _ in range(3):
        yield ((weft.tensor([1.0, 2.0], requires_grad=True) * 1.5,), {})
""")


@pytest.mark.parametrize("graph", [False, True])
@pytest.mark.parametrize("first", ["", "result[1 - k].sum().backward(retain_graph=True)", "write()"])
@pytest.mark.parametrize("then", ["", "write()"])
@pytest.mark.parametrize("value", ["1 * W", "W.exp()", "V * 2", "x + V"])
def test_gradients_of_one_value_of_two_around_writes(agrees, graph, first, then, value):
    agrees(f"""\
import weft
W = weft.tensor([0.5, 2.0], requires_grad=True)
V = weft.tensor([1.5, -2.0], requires_grad=True)

def main(x):
    y = {value}
    return (y.sin(), x * y * W)

def write():
    with weft.no_grad():
        W.mul_(0.9)

def after(result, *args):
    kept = []
    for k in (0, 1):
        result = run(*args)
        try:
            {first}
            grads = weft.autograd.grad(result[k].sum(), [W, V], create_graph={graph}, allow_unused=True)
            kept += [g.detach() for g in grads if g is not None]
            {then}
            sum(g.sum() for g in grads if g is not None and g.requires_grad).backward()
        except (RuntimeError, AttributeError) as error:
            kept.append(str(error)[:60])
    return kept

def arguments():
    for _ in range(3):
        yield ((weft.tensor([1.0, 2.0]),), {{}})
""")


def test_gradients_by_another_way_than_the_one_that_was_freed(agrees):
    agrees("""\
import weft
W = weft.tensor(0.5, requires_grad=True)

def main(x):
    y = x * 2
    z = y * W
    y.sum().backward()
    x.add_(z)
    return x

def after(result, *args):
    return weft.autograd.grad(list(result), W)

def arguments():
    for _ in range(3):
        yield ((weft.tensor([1.37], requires_grad=True) * 1.5,), {})
""")


SWEEPS = ["(0, None)", "(1, None)", "(2, None)", "(1, [W])", "(1, [V])", "(0, [W])", "(2, [U])", "(1, [U])"]


@pytest.mark.parametrize("first", SWEEPS)
@pytest.mark.parametrize("last", ["pass", "V.mul_(0.99)"])  # numbers that grow would make much of rounding
def test_sweeps_one_after_the_other_through_values_that_share_nodes(agrees, first, last):
    agrees(f"""\
import weft
W = weft.tensor([0.5, 2.0], requires_grad=True)
V = weft.tensor([1.5, -2.0], requires_grad=True)
U = weft.tensor([0.25, 3.0], requires_grad=True)

def main(x):
    y, z = W.sin(), V.exp() * x
    return (y * 2, y * z * U, z.cos() + 1)

def sweep(result, which, inputs):
    if inputs is None:
        for t in (W, V, U):
            t.grad = None
        result[which].sum().backward()
        return [t.grad for t in (W, V, U)]
    return weft.autograd.grad(result[which].sum(), inputs, allow_unused=True)

def after(result, *args):
    kept = []
    for one in ({", ".join(SWEEPS)}):
        for two in ({", ".join(SWEEPS)}):
            result = run(*args)
            for which, inputs in ({first}, one, two):
                try:
                    kept.append(sweep(result, which, inputs))
                    with weft.no_grad():
                        {last}
                except RuntimeError:  # where both are an error, which one comes first depends
                    kept.append("freed or written")
                    break
    W.grad = V.grad = U.grad = None  # what was accumulated before an error, if anything
    return kept

def arguments():
    yield ((weft.tensor([1.0, 2.0]),), {{}})
""")


def test_checkpoints_that_are_written_to_tensors_from_outside(agrees):
    agrees("""\
import weft
checkpoint = weft.utils.checkpoint.checkpoint

def main(x, y):
    y.mul_(checkpoint(lambda v: v * x, x, use_reentrant=False))
    found = weft.autograd.grad((x * x).sum(), x)
    with weft.no_grad():
        x.sub_(0.5)
    return found

def after(result, x, y):
    y.sum().backward()

def arguments():
    yield ((weft.tensor([0.16], requires_grad=True), weft.ones(1)), {})
""")


@pytest.mark.parametrize(
    "lines",
    [
        "y[1] = weft.func.grad_and_value(lambda v: (v * y).sum())(x)[1]; return (y,)",
        "g, o = weft.func.grad_and_value(lambda v: (v.sin() * y * y).sum())(x); y.mul_(2); return (g, o)",
        "o, pull = weft.func.vjp(lambda v: (v * y).sum(), x); y[1] = o; return (y,)",
        "o, pull = weft.func.vjp(lambda v: (v * y).sum(), x); y[1] = o; return (y, pull(weft.ones(()))[0])",
    ],
)
def test_writes_to_what_a_transform_saved_for_its_own_argument(agrees, lines):
    agrees(f"""\
import weft
W = weft.tensor(0.5, requires_grad=True)

def main(x):
    y = weft.ones(3) * W
    {lines}

def after(result, *args):
    for value in result:
        value.sum().backward(retain_graph=True)

def arguments():
    yield ((weft.tensor(0.4),), {{}})
""")


@pytest.mark.parametrize("write", ["x.squeeze_()", "x.view(3).mul_(2)", "result[1].mul_(2)"])
@pytest.mark.parametrize("graph", [False, True])
@pytest.mark.parametrize("inside", [False, True])
def test_gradients_that_eager_computes_from_something_else_than_what_was_written(
    agrees, write, graph, inside
):
    lines = ["", write] if inside else [write, ""]
    agrees(f"""\
import weft
W = weft.tensor(0.5, requires_grad=True)

def main(x):
    y = x * 2
    result = (x.cos() * W, y, y.sin() * weft.outer(x, x).sum(0) * W)
    {lines[1] or "pass"}
    return result

def after(result, x):
    {lines[0] or "pass"}
    for value in (result[0], result[2]):
        (grad,) = weft.autograd.grad(value.sum(), W, create_graph={graph})
        W.grad = grad.detach() if W.grad is None else W.grad + grad.detach()

def arguments():
    for _ in range(3):
        yield ((weft.tensor([1.36, 0.69, 0.23], requires_grad=True) * 1.5,), {{}})
""")


@pytest.mark.parametrize("mode", ["no_grad", "enable_grad"])
@pytest.mark.parametrize("view", ["x.view(3)", "x[:2]"])
def test_writes_to_views_of_a_leaf_that_is_a_view(agrees, mode, view):
    agrees(f"""\
import weft

def main(x):
    with weft.{mode}():
        y = {view}
    y.mul_(2)
    return y * 3

def after(result, *args):
    if result.requires_grad:
        result.sum().backward()

def arguments():
    x = weft.tensor([0.51, 0.76, 0.28, 0.82, 0.65, 0.38])[3:6].requires_grad_()
    yield ((x,), {{}})
    yield ((x,), {{}})
""")


VIEWS = {
    "views of one tensor": "y = x * 1; yield (y[0], y[1]), {}",
    "written and detached": "y = x * 1; yield (y[0], y[1].detach()), {}",
    "saved and detached": "y = x * 1; yield (y[0].detach(), y[1]), {}",
    "both detached": "yield (x[0].detach(), x[1].detach()), {}",
    "apart": "yield (x[0], (x * 1)[1]), {}",
}


@pytest.mark.parametrize("first", list(VIEWS))
@pytest.mark.parametrize("backend", ["eager", "aot_eager", "native"])
def test_writes_to_one_of_two_inputs_that_count_their_versions_together(first, backend):
    then = [views for name, views in VIEWS.items() if name != first]
    agree(f"""\
OPTIONS = {{'backend': '{backend}'}}
import weft

def main(a, b):
    y = a * W
    b.add_(1)
    return y

W = weft.tensor(2., requires_grad=True)

def after(result, *args):
    weft.autograd.grad(result.sum(), W)

def arguments():
    x = weft.arange(4.).reshape(2, 2).requires_grad_()
    {VIEWS[first]}
    {VIEWS[first]}
    {
        '''
    '''.join(then)
    }
""")
