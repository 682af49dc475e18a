"""Random programs that differentiate and once differed when compiled, shrunk and kept; on both backends.

Each is the text of a module with `main`, `arguments` and perhaps `after`, as tape_programs.py writes them.
"""

from __future__ import annotations

import pytest

from tests.whole.fuzz.compare import agree


@pytest.fixture(params=["eager", "aot_eager"])
def agrees(request):
    """Asserts that a program does the same compiled by one of the backends."""
    return lambda source: agree(f"OPTIONS = {{'backend': '{request.param}'}}\n{source}")


def test_nested_gradients_of_a_tensor_with_a_tape(agrees):
    agrees("""\
import weft

def main(x):
    return (weft.func.grad(weft.func.grad(lambda v: v.sin()))(x), weft.func.vjp(weft.sin, x)[1](x)[0] * 2)

def after(result, *args):
    sum(result).backward()

def arguments():
    yield ((weft.tensor(0.3, requires_grad=True) * 1.5,), {})
""")


def test_gradients_that_come_to_one_output_and_then_to_another(agrees):
    agrees("""\
import weft
W = weft.tensor(0.5, requires_grad=True)
WHICH = [0, 1, 0, 2, 1, 0]

def main(x):
    y = x.sum()
    z = (x * W).sin().sum()
    return (y, z, (W * W * x).sum())

def after(result, *args):
    which = WHICH.pop()
    result[which].backward(retain_graph=True)
    grads = weft.autograd.grad(result[which] ** 2, [W, *args], create_graph=True, allow_unused=True)
    sum(g.sum() for g in grads if g is not None).backward()

def arguments():
    for k in range(6):
        yield ((weft.tensor([k + 1.0, 2.0], requires_grad=True),), {})
""")


def test_histories_that_are_spent(agrees):
    agrees("""\
import weft
W = weft.tensor([0.5, 1.0], requires_grad=True)
V = weft.tensor([0.25, 2.0], requires_grad=True)
LOG = []

def main(x):
    y = W.sin()
    y.sum().backward()
    z = x + x.cumsum(0)
    (z * 2).sum().backward()
    return (y.tanh(), z, y * V)

def after(result, x):
    for t in result:
        for leaf in (W, V, x):
            try:
                LOG.append(weft.autograd.grad(t.sum(), [leaf], allow_unused=True, retain_graph=True))
            except RuntimeError as error:
                LOG.append(str(error))
    result[1].sum().backward()

def arguments():
    yield ((weft.ones(2, requires_grad=True),), {})
""")


@pytest.mark.parametrize("owner", ["NET", "W"])
def test_hooks_removed_before_they_are_met(agrees, owner):
    agrees(f"""\
import weft
from weft import nn
LOG = []
NET = nn.Linear(2, 2)
W = weft.tensor([0.5, 1.0], requires_grad=True)
MADE = dict(
    NET=NET.register_forward_hook(lambda net, args, out: LOG.append('forward')),
    W=W.register_hook(lambda grad: LOG.append('backward')),
)

def main(x):
    MADE['{owner}'].remove()
    (NET(x) * W).sum().backward()

def after(result, *args):
    pass

def arguments():
    yield ((weft.ones(2, 2),), {{}})
""")


@pytest.mark.parametrize(
    "write",
    ["x.copy_(x[2])", "x.index_add_(0, weft.tensor([0, 2]), x[:2])", "x[1:].add_(x[:2])", "x[1:] = x[:2]"],
)
def test_writes_over_what_they_read(agrees, write):
    agrees(f"""\
import weft

def main(x, y):
    z = x * y
    x.mul_(2)
    {write}
    return z

def after(result, *args):
    pass

def arguments():
    yield ((weft.tensor([0.33, 1.36, 0.69]), weft.tensor(0.71, requires_grad=True)), {{}})
""")


def test_what_is_written_after_it_was_saved(agrees):
    agrees("""\
import weft

def main(x):
    y = x.detach()
    y.add_(x * y)
    return (y, x.sort().values)

def after(result, *args):
    result[1].sum().backward()
    result[0].sum().backward()

def arguments():
    yield ((weft.tensor([0.26], requires_grad=True),), {})
""")


def test_random_numbers_that_nobody_reads(agrees):
    agrees("""\
import weft
W = weft.tensor([0.5, -1.25, 2.0], requires_grad=True)

def main(x):
    weft.nn.functional.dropout(x * W)
    weft.randn_like(2 * weft.rand(3))
    y = W.sin() * (x + weft.randn_like(x))
    return (y, (y * W).sum() + weft.rand(()))

def after(result, *args):
    total = sum((t * t).sum() for t in result)
    (grad,) = weft.autograd.grad(total, [W], create_graph=True)
    grad.sum().backward()
    return weft.rand(2)

def arguments():
    yield ((weft.ones(3),), {})
""")


def test_gradients_of_what_is_read_from_a_view_that_was_written(agrees):
    agrees("""\
import weft

def main(x, y):
    z = y[0]
    z.add_(x)
    return (z, z * x, z.expand(2, 2) * x)

def after(result, x, y):
    return [weft.autograd.grad(t.sum(), y, allow_unused=True, retain_graph=True) for t in result]

def arguments():
    y = weft.tensor([[-1.36, 0.58], [-0.82, 0.69]], requires_grad=True) * 1.5
    yield ((weft.tensor([2.0, 3.0]), y), {})
""")


def test_leaves_made_on_the_memory_of_others(agrees):
    agrees("""\
import weft

def main(x):
    y = x.detach().requires_grad_()
    (y.detach() * (y + x)).sum().backward()
    return (y, y.grad)

def after(result, *args):
    pass

def arguments():
    x = weft.ones(2, requires_grad=True)
    yield ((x,), {})
    yield ((x,), {})
""")


def test_strides_beyond_a_view(agrees):
    agrees("""\
import weft

def main(x):
    y = x * 2
    return (x.diagonal().as_strided((3,), (1,)), y)

def after(result, *args):
    pass

def arguments():
    yield ((weft.tensor([[1.36, 0.53, 0.91]]),), {})
    yield ((weft.tensor([[1.36]]),), {})
""")


def test_state_made_for_a_step_that_runs_as_written(agrees):
    agrees("""\
import weft
W = weft.tensor([0.5, 1.0], requires_grad=True)
V = weft.tensor([0.25, 2.0], requires_grad=True)
OPT = weft.optim.Adam([W, V])

def main(x):
    loss = (W * W).sum()
    y = W.sin()
    y.sum().backward()
    OPT.step()
    try:
        loss.backward()
    except RuntimeError as error:
        loss = 1
    return (y * V, loss)

def after(result, *args):
    result[0].sum().backward(inputs=[V])

def arguments():
    yield ((weft.ones(2),), {})
    yield ((weft.ones(2),), {})
""")


@pytest.mark.parametrize("made", ["weft.ones(2)", "V * 2", "weft.ones(2, 2)[0]"])
def test_inputs_that_are_written_and_swept(agrees, made):
    agrees(f"""\
import weft
W = weft.tensor([0.5, 1.0], requires_grad=True)
V = weft.tensor([0.25, 2.0], requires_grad=True)
LOG = []

def main(x):
    x.add_(W.sin())
    (x * x).sum().backward()

def after(result, x):
    LOG.append((x.requires_grad, x.is_leaf))
    for leaf in (W, V):
        try:
            LOG.append(weft.autograd.grad((x * x).sum(), [leaf], allow_unused=True))
        except RuntimeError as error:
            LOG.append(str(error))

def arguments():
    for _ in range(2):
        yield (({made},), {{}})
""")


@pytest.mark.parametrize("write", ["x.add_(1)", "x.index_add_(0, weft.tensor([0, 2]), W[:2])"])
def test_inputs_that_are_written_saved_and_written_again(agrees, write):
    agrees(f"""\
import weft
W = weft.tensor([0.5, -1.25, 2.0], requires_grad=True)

def main(x):
    {write}
    return (x, x * W)

def after(result, x):
    x.add_(1)
    result[1].sum().backward()

def arguments():
    yield ((weft.ones(3),), {{}})
""")


@pytest.mark.parametrize(
    "end",
    [
        "Double.apply(y).backward(W)",
        "return (Double.apply(y), y)",
        "z = Double.apply(y); z.backward(W, retain_graph=True); return (z, y)",
    ],
)
def test_functions_of_views_whose_base_was_written(agrees, end):
    agrees(f"""\
import weft
W = weft.tensor([0.5, 1.25, 2.0])
Q = weft.tensor([0.5, 0.1, 0.3], requires_grad=True)

class Double(weft.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * 2

def main(x):
    y = x[0]
    y.add_(Q)
    x.mul_(2)
    {end}

def after(result, x):
    sum(t.sum() for t in result or ()).backward() if result else None

def arguments():
    yield ((weft.tensor([[0.95, 0.26, 1.39]]),), {{}})
""")


def test_free_strides_where_directions_are_a_batch(agrees):
    agrees("""\
import weft

def main(x):
    return x + x.as_strided((3,), (1,))

def after(result, *args):
    return weft.func.jacfwd(run)(args[0])

def arguments():
    yield ((weft.tensor([0.55, 0.75, 0.34, 0.72, 0.59, 0.79])[3:6],), {})
""")


def test_gradients_that_depend_on_nothing_but_arguments_of_a_transform(agrees):
    agrees("""\
import weft
W = weft.tensor(0.5, requires_grad=True)

def main():
    return weft.func.grad_and_value(lambda v: ((v * v).sin() * v * W).sum())(weft.ones(3))

def after(result, *args):
    gradients = weft.autograd.grad([t.sum() for t in result], W, create_graph=True)
    return [gradient.requires_grad for gradient in gradients]

def arguments():
    yield ((), {})
""")


def test_errors_in_forward_of_a_function_name_no_other_error(agrees):
    agrees("""\
import weft

class Difference(weft.autograd.Function):
    def forward(ctx, x, y):
        return x - y.exp()

def main(x, y):
    return Difference.apply(x, y)

def after(result, *args):
    pass

def arguments():
    yield ((weft.ones(3), weft.ones(3)), {})
    yield ((weft.ones(3), weft.ones(2)), {})
""")


def test_transforms_of_what_was_detached_from_a_tensor_with_a_history(agrees):
    agrees("""\
import weft

def main(x, y):
    row = x[0]
    row[1:].copy_(y[:2])
    return weft.func.grad_and_value(lambda v: (v * y).sum())(row.detach())[1]

def after(result, *args):
    result.backward()

def arguments():
    yield ((weft.tensor([[-0.13, 0.74, -0.5]]), weft.tensor([-0.11, 1.17, -0.61], requires_grad=True)), {})
""")


@pytest.mark.parametrize("write", ["sin_()", "clamp_(min=0.0)", "mul_(W)"])
def test_what_a_write_overwrote_is_a_copy_that_later_writes_do_not_concern(agrees, write):
    agrees(f"""\
import weft
W = weft.tensor([0.5, 1.25], requires_grad=True)

def main(x):
    x.{write}
    return (x,)

def after(result, *args):
    with weft.no_grad():
        result[0].add_(1)
    result[0].sum().backward()

def arguments():
    yield ((weft.tensor([0.5, -0.7], requires_grad=True) * 2,), {{}})
""")


@pytest.mark.parametrize("value", ["x + x", "x.tanh()", "x", "(x + x) * W.exp()", "W + x", "x * W.sin()"])
@pytest.mark.parametrize("target", ["W", "x", "result[0]"])
def test_gradients_of_gradients_after_writes_to_what_nobody_saved(agrees, value, target):
    agrees(f"""\
import weft
W = weft.tensor([0.5, 1.25], requires_grad=True)

def main(x):
    return (({value}) * (W + 1),)

def after(result, *args):
    with weft.no_grad():
        {target.replace("x", "args[0]")}.mul_(2)
    grads = weft.autograd.grad(result[0].sum(), [W], create_graph=True)
    return grads, grads[0].requires_grad and weft.autograd.grad(grads[0].sum(), [W], allow_unused=True)

def arguments():
    yield ((weft.tensor([0.5, -0.7]),), {{}})
    yield ((weft.tensor([0.9, -0.1]),), {{}})
""")


def test_what_a_sweep_came_by_without_a_gradient(agrees):
    agrees("""\
import weft
W = weft.tensor([0.5, 0.1], requires_grad=True)

class Halves(weft.autograd.Function):
    def forward(ctx, x, y):
        ctx.set_materialize_grads(False)
        return x * 3, y * 2

    def backward(ctx, g, h):
        return (None if g is None else g * 3, None if h is None else h * 2)

def main(x):
    square = W * W
    Halves.apply(square, x)[1].sum().backward()
    return square

def after(result, *args):
    result.sum().backward()

def arguments():
    yield ((weft.ones(2, requires_grad=True),), {})
""")


@pytest.mark.parametrize("saved", ["y * W", "y.view(3) * W", "weft.linalg.solve(weft.diag(W), y)", "y.exp()"])
@pytest.mark.parametrize("write", ["y.data.mul_(2)", "y[:2].data.add_(1)", "y.data[0] = 5.0"])
def test_writes_that_no_version_tells_of_are_seen_by_what_was_saved_before(agrees, saved, write):
    agrees(f"""\
import weft
W = weft.tensor([0.5, -1.25, 2.0], requires_grad=True)

def main(x, mask):
    y = weft.tanh(x).clone()
    z = {saved}
    x[mask] = 0.25
    {write}
    return z, (z * W).sum()

def after(result, x, mask):
    grads = weft.autograd.grad(sum(t.sum() for t in result), [W, LEAF], create_graph=True)
    return grads, weft.autograd.grad(sum(g.sin().sum() for g in grads), [W, LEAF], allow_unused=True)

def arguments():
    global LEAF
    for _ in range(2):
        LEAF = weft.tensor([0.17, -0.5, 1.09], requires_grad=True)
        yield ((LEAF * 2, weft.tensor([True, False, False])), {{}})
""")


@pytest.mark.parametrize("value", ["x + x", "x.tanh()", "x", "(x + x) * W.exp()", "W + x", "x * W.sin()"])
@pytest.mark.parametrize("target", ["W", "x", "result[0]"])
@pytest.mark.parametrize("end", ["(y * (W + 1)).exp()", "(y * W.cos()).sin()"])
def test_writes_between_gradients_and_their_gradients(agrees, value, target, end):
    agrees(f"""\
import weft
W = weft.tensor([0.5, 1.25], requires_grad=True)

def main(x):
    y = {value}
    return ({end},)

def after(result, *args):
    grads = weft.autograd.grad(result[0].sum(), [W], create_graph=True)
    with weft.no_grad():
        {target.replace("x", "args[0]")}.mul_(2)
    return grads, weft.autograd.grad(grads[0].sum(), [W])

def arguments():
    yield ((weft.tensor([0.5, -0.7]),), {{}})
    yield ((weft.tensor([0.9, -0.1]),), {{}})
""")


def test_gradients_of_a_part_that_ends_in_inference_mode(agrees):
    agrees("""\
import weft
W = weft.tensor([0.5, 0.1], requires_grad=True)

def main(x):
    y = x @ W
    with weft.inference_mode():
        weft.tensor([1.0]).detach() + 1
    return y * y

def after(result, *args):
    (gradient,) = weft.autograd.grad(result.sum(), args, create_graph=True)
    return weft.autograd.grad((gradient * gradient).sum(), W)

def arguments():
    yield ((weft.ones(1, 2, requires_grad=True),), {})
""")


@pytest.mark.parametrize("wanted", ["W", "Q", "args[0]", "W, Q"])
@pytest.mark.parametrize("written", ["W", "args[0]", "args[1]", "result[0]", "result[1]"])
def test_writes_to_what_only_other_gradients_need(agrees, wanted, written):
    agrees(f"""\
import weft
W = weft.tensor([0.5, 1.25], requires_grad=True)
Q = weft.tensor([1.5, 0.25], requires_grad=True)

def main(x, y):
    z = y * W
    return (x * x * y + (W + 1) * Q, z.exp() * (y + 1) + Q * 2)

def after(result, *args):
    with weft.no_grad():
        {written}.mul_(2)
    return weft.autograd.grad(sum(t.sum() for t in result), [{wanted}], allow_unused=True)

def arguments():
    for _ in range(2):
        x = weft.tensor([0.5, -0.7], requires_grad=True) * 1
        yield ((x, weft.tensor([0.3, 0.6])), {{}})
""")


def test_transforms_of_what_writes_views_without_gradients(agrees):
    agrees("""\
import weft

def main(x):
    v = x[:2]
    with weft.no_grad():
        v.add_(1)
    return x.pow(2).sum() * v.sum()

def after(result, x):
    return weft.func.jacrev(lambda a: run(a * 2))(x), weft.func.hessian(lambda a: run(a * 2))(x)

def arguments():
    yield ((weft.tensor([0.3, 0.5, -0.7]),), {})
""")


@pytest.mark.parametrize("write", ["x.add_(1)", "x[:2].mul_(2)"])
@pytest.mark.parametrize("first", ["0", "x.sin()"])
def test_views_of_what_is_outside_written_without_gradients(agrees, write, first):
    agrees(f"""\
import weft

def main(x):
    y = {first}
    with weft.no_grad():
        {write}
    return (y + x.pow(2).sum(),)

def after(result, x):
    grads = weft.autograd.grad(result[0].sum(), [x, BASE], allow_unused=True, retain_graph=True)
    return grads, weft.autograd.grad(result[0].sum(), [x], allow_unused=True, create_graph=True)

def arguments():
    global BASE
    for _ in range(2):
        BASE = weft.tensor([1.46, 0.68, 1.48, -0.57, 1.01], requires_grad=True)
        yield (((BASE * 2)[1:4],), {{}})
""")


def test_first_gradients_lie_row_by_row(agrees):
    agrees("""\
import weft
W = weft.tensor([0.5, -1.25, 2.0], requires_grad=True)
Q = weft.tensor([[0.5, 0.1, -0.3], [0.2, -0.6, 0.4]], requires_grad=True)
Q.register_hook(lambda grad: grad * 2)

def main():
    (Q.t()[:, 0] * W * W).sum().backward()

def after(result, *args):
    return Q.grad, Q.grad.stride()

def arguments():
    yield ((), {})
    yield ((), {})
""")


def test_inputs_that_are_views_written_through_what_is_detached(agrees):
    agrees("""\
import weft

def main(x, y):
    detached = x.detach()
    detached.add_(1)
    new = weft.zeros(3)
    new[1:].copy_(x[:2])
    return new.sum(), y, detached.expand(2, 3)

def after(result, x, y):
    grads = weft.autograd.grad(result[0] * result[0] + y.sum(), [x, y], create_graph=True, allow_unused=True)
    return grads

def arguments():
    for _ in range(2):
        view = (weft.tensor([-0.34, 0.49, -0.58, -0.26, -0.2], requires_grad=True) * 2)[1:4]
        yield ((view, view), {})
        yield ((view.detach(), view), {})
        yield ((view, view * 2), {})
""")


def test_warnings_of_losses(agrees):
    agrees("""\
import weft
from weft import nn
W = weft.tensor([0.5, 0.1], requires_grad=True)

def main(x, y):
    x[1] = nn.functional.mse_loss(y, x)
    loss = nn.functional.mse_loss(y, x * W)
    if y.dim() < 2:
        loss.backward()

def after(result, *args):
    pass

def arguments():
    yield ((weft.ones(2), weft.ones(())), {})
    yield ((weft.ones(2), weft.ones((), dtype=weft.int64)), {})
    yield ((weft.ones(2), weft.ones(1, 1)), {})
""")


@pytest.mark.parametrize("shown", ["y.grad_fn.register_hook(lambda a, b: None)", "HISTORY.append(y)"])
def test_second_order_where_a_write_concerns_other_values_only(agrees, shown):
    agrees(f"""\
import weft
HISTORY = []
W = weft.tensor([0.5, -1.25, 2.0], requires_grad=True)

def main(x):
    z = W + x
    y = x * z * W
    {shown}
    weft.compiler.graph_break()
    x.view(3).mul_(2)
    return (z * z * W,)

def after(result, *args):
    grads = weft.autograd.grad((result[0] * result[0]).sum(), [W], create_graph=True)
    return grads, weft.autograd.grad(grads[0].sum(), [W])

def arguments():
    for _ in range(2):
        yield ((weft.tensor([0.15, 0.88, -1.02]),), {{}})
""")


def test_writes_that_no_version_tells_of_in_pieces_of_pieces(agrees):
    agrees("""\
import weft

def main(x):
    unread = weft.arange(1) % 101
    y = x.amax()
    x.data.mul_(2)
    return (y * x, y)

def after(result, *args):
    sum(t.sum() for t in result).backward()

def arguments():
    yield ((weft.tensor([1.0, 2.0]).requires_grad_(),), {})
""")


def test_transforms_of_one_output_beside_another_that_depends_on_more(agrees):
    agrees("""\
import weft
W = weft.tensor([0.5, -1.25], requires_grad=True)

def main(x):
    y = x ** 2
    return (y + y, (y.norm() * W).cumsum(0), y * 3 + W)

def after(result, x):
    found = [weft.func.vjp(lambda a: run(a)[k], x)[1](weft.ones(2)) for k in range(3)]
    return (found, [weft.func.vjp(lambda a: run(a)[k], x)[0] for k in range(3)])

def arguments():
    yield ((weft.tensor([1.0, 2.0]),), {})
    yield ((weft.tensor([1.0, 2.0]),), {})
""")


def test_contexts_behind_views_whose_base_is_written(agrees):
    agrees("""\
import weft

class Twice(weft.autograd.Function):
    def forward(ctx, x, y):
        ctx.kept = y
        return x * 2

    def backward(ctx, grad):
        return (grad * ctx.kept, None)

def main(x, y):
    weft.func.grad(lambda v: v)(y)
    x[1].register_hook(lambda grad: None)
    x[0].add_(Twice.apply(x.sum(), y))

def after(result, x, y):
    x.sum().backward()

def arguments():
    yield (((weft.ones(6, requires_grad=True) * 2).view(2, 3), weft.tensor(0.5)), {})
""")


@pytest.mark.parametrize("around", ["weft.inference_mode()", "weft.no_grad()", "weft.enable_grad()"])
def test_transforms_that_save_tensors_made_in_inference_mode(agrees, around):
    agrees(f"""\
import weft
W = weft.tensor(0.5, requires_grad=True)

def main(x):
    with {around}:
        y = x + 1
        found = weft.func.grad(lambda v: v * y * x)(W)
        return (weft.func.hessian(lambda v: v ** 3)(W), found, found.is_inference(), found.requires_grad)

def arguments():
    with weft.inference_mode():
        x = weft.tensor(3.0)
    yield ((x,), {{}})
""")
