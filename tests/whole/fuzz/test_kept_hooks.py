"""Random programs with hooks that once differed when compiled, shrunk and kept; on both backends.

As those in test_kept_tape.py.
"""

from __future__ import annotations

import pytest

from tests.whole.fuzz.compare import agree


@pytest.fixture(params=["eager", "aot_eager"])
def agrees(request):
    """Asserts that a program does the same compiled by one of the backends."""
    return lambda source: agree(f"OPTIONS = {{'backend': '{request.param}'}}\n{source}")


def test_hooks_of_tensors_that_no_gradient_comes_to(agrees):
    agrees("""\
import weft
LOG = []
W = weft.tensor(0.5, requires_grad=True)

def main(x):
    y = x * W
    y.register_hook(lambda grad: LOG.append(grad))
    z = y * 2
    z.register_hook(lambda grad: grad * x)
    return (x * W.sin(), y.cos(), z)

def after(result, *args):
    for t in result:
        t.sum().backward(retain_graph=True)

def arguments():
    yield ((weft.ones(2),), {})
""")


def test_hooks_of_nodes_see_eager_nodes(agrees):
    agrees("""\
import weft
LOG = []
W = weft.tensor([0.5, -1.25], requires_grad=True)
Q = weft.tensor([[0.5, -1.25], [1.0, 2.0]], requires_grad=True)

def main(x):
    y = (Q @ x).sin()
    z = y * W
    z.grad_fn.register_hook(lambda inputs, outputs: LOG.append((len(inputs), len(outputs))))
    z.grad_fn.register_prehook(lambda outputs: (outputs[0] * 0.5,))
    return (z.tanh(), y, z)

def after(result, *args):
    sum(t.sum() for t in result).backward()

def arguments():
    yield ((weft.ones(2),), {})
    yield ((weft.ones(2),), {})
""")


def test_modules_with_backward_hooks_on_what_is_written_afterwards(agrees):
    agrees("""\
import weft
from weft import nn
LOG = []
NET = nn.Linear(3, 3)
NET.register_full_backward_hook(lambda net, inputs, outputs: LOG.append(len(inputs)))

def main(x):
    y = weft.ones(2, 3) * x
    y.add_(NET(y).cumsum(0))
    return (y,)

def after(result, *args):
    result[0].sum().backward()

def arguments():
    yield ((weft.tensor([-0.78, -0.67, 0.01], requires_grad=True),), {})
""")


def test_hooks_of_inputs_that_the_differentiated_output_does_not_depend_on(agrees):
    agrees("""\
import weft
LOG = []
W = weft.tensor(0.5, requires_grad=True)
W.register_hook(lambda grad: LOG.append(grad))

class Nothing(weft.autograd.Function):
    def forward(ctx, x):
        ctx.set_materialize_grads(False)
        return x * 2

    def backward(ctx, grad):
        LOG.append('backward')
        return grad

def main(x, y):
    return (x * 2, x * W, x * y)

def after(result, *args):
    result[0].sum().backward(retain_graph=True)
    result[2].sum().backward(retain_graph=True)

def arguments():
    x = weft.ones(2, requires_grad=True)
    y = Nothing.apply(x)
    y.register_hook(lambda grad: LOG.append(grad))
    yield ((x, y), {})
""")


def test_hooks_of_compiled_outputs_that_a_node_outside_hands_nothing_to(agrees):
    agrees("""\
import weft
LOG = []

class Blocked(weft.autograd.Function):
    def forward(ctx, x, y):
        return x + y

    def backward(ctx, grad):
        return grad, None

def main(x):
    y = x * 3
    y.register_hook(lambda grad: LOG.append(grad))
    return (x * 2, y)

def after(result, *args):
    Blocked.apply(*result).sum().backward()

def arguments():
    yield ((weft.ones(2, requires_grad=True),), {})
""")


def test_gradients_that_hooks_keep(agrees):
    agrees("""\
import weft
HISTORY = []
W = weft.tensor([0.5, -1.25], requires_grad=True)
W.register_hook(lambda grad: HISTORY.append(grad))

def main(x):
    W.register_hook(lambda grad: HISTORY.append(grad))
    (found,) = weft.autograd.grad((x * W).sum(), W)
    found.mul_(2)
    (W * W).sum().backward()
    return found

def after(result, *args):
    result.mul_(2)

def arguments():
    yield ((weft.ones(2),), {})
    yield ((weft.ones(2),), {})
""")


def test_hooks_of_what_is_written_into_a_view_of_a_view(agrees):
    agrees("""\
import weft
LOG = []

def main(x):
    row = weft.zeros(2, 3)[0]
    y = weft.ones(2, 3) * x
    y.register_hook(lambda grad: LOG.append(grad))
    row[1:].copy_(y.mean(0)[:2])
    return row

def after(result, *args):
    weft.autograd.grad((result * result).sum(), args)

def arguments():
    yield ((weft.tensor([-0.08, -1.08, -1.05], requires_grad=True),), {})
""")


def test_hooks_of_what_is_written_into_an_input_that_is_a_view(agrees):
    agrees("""\
import weft
W = weft.tensor(0.5, requires_grad=True)

def main(x):
    y = weft.arange(3.0) * W
    y.register_hook(lambda grad: grad * grad)
    x[0] = y + y
    return x

def after(result, *args):
    sum((t * t).sum() for t in result).backward()

def arguments():
    yield ((weft.tensor([0.37, -0.32, -1.42, 1.29, 0.39, -0.23])[:6].view(2, 3),), {})
""")


def test_custom_functions_that_hand_none_on_to_what_is_compiled(agrees):
    """Hooks are told, and what the run comes by there is freed."""
    agrees("""\
import weft
LOG = []
W = weft.tensor([0.5, -1.25, 2.0], requires_grad=True)

class First(weft.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * 2, None

def main(x, y):
    z = y * W
    z.register_hook(lambda grad: LOG.append(grad))
    return First.apply(x.sin(), z * W), y

def after(result, x, y):
    y.register_hook(lambda grad: LOG.append(grad))
    result[0].sum().backward()
    result[1].sum().backward()

def arguments():
    for _ in range(2):
        y = weft.tensor([0.37, -0.32, -1.42], requires_grad=True) * weft.ones(3, requires_grad=True)
        yield ((weft.tensor([0.3, -1.2, 1.29], requires_grad=True), y), {})
""")


def test_hooks_of_leaves_that_one_compiled_node_leads_to(agrees):
    agrees("""\
import weft
LOG = []
Q = weft.tensor([[0.5, 0.1], [0.2, -0.6]], requires_grad=True)
W = weft.tensor([0.5, -0.25], requires_grad=True)

def stepping(leaf):
    with weft.no_grad():
        leaf.sub_(leaf.grad)
    leaf.grad = None

def refusing(leaf):
    if len(LOG) > 5:
        raise ValueError("enough")

def main(x, y):
    unused = x + W
    out = weft.nn.functional.linear(weft.ones(2, 2), Q * W, y)
    return (out, (weft.nn.functional.linear(weft.ones(2, 2), Q, x) @ Q).clone() * W)

def after(result, *args):
    sum(t.sum() for t in result).backward()

def arguments():
    x = weft.tensor([1.0, 2.0], requires_grad=True)
    for name, leaf in {"x": x, "Q": Q, "W": W}.items():
        leaf.register_hook(lambda grad, name=name: LOG.append(name))
        leaf.register_post_accumulate_grad_hook(lambda leaf, name=name: LOG.append((name, leaf.grad is None)))
    yield ((x, weft.ones(2)), {})
    yield ((x, x), {})
    Q.register_post_accumulate_grad_hook(stepping)
    W.register_post_accumulate_grad_hook(refusing)
    yield ((x, x), {})
""")


def test_gradients_that_lie_in_memory_of_others_are_no_views(agrees):
    agrees("""\
import weft
SEEN = []
P = weft.tensor([1.0, 2.0, 3.0], requires_grad=True)

def main(x):
    y = x * P
    y.register_hook(SEEN.append)
    (y.view(3) ** 2).sum().backward()
    return weft.autograd.grad((P.reshape(3, 1).t() * 2).sum(), P)

def after(result, *args):
    for value in (*result, *SEEN):
        value.mul_(2)

def arguments():
    for _ in range(2):
        yield ((weft.tensor(-0.55, requires_grad=True),), {})
""")


def test_handles_of_other_kinds_of_hooks_are_not_taken_for_each_other(agrees):
    """The first handle removes a hook of a leaf, the second one of the module, which its call then lacks."""
    agrees("""\
import weft
from weft import nn
LOG = []
NET = nn.Linear(3, 3)
HANDLES = [NET.register_full_backward_hook(lambda net, gi, go: LOG.append("module"))]
HANDLES.append(NET.weight.register_post_accumulate_grad_hook(lambda leaf: LOG.append("leaf")))

def main(x):
    if HANDLES:
        HANDLES.pop().remove()
    return NET(x)

def after(result, *args):
    result.sum().backward()

def arguments():
    for _ in range(3):
        yield ((weft.ones(2, 3, requires_grad=True),), {})
""")
