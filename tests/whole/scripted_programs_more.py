# ruff: noqa: UP006, UP035, UP045, B007
"""More programs for scripted code: tensors, loops, calls."""

from typing import List, Optional

import weft
import weft.nn.functional as F
from tests.whole.scripted_programs import helper, program
from weft import Tensor


@program()
def functional(x, y):
    return F.relu(x), F.gelu(y), F.softmax(x, dim=1), F.log_softmax(y, 1), F.mse_loss(x, y)


@program()
def activations(x, y):
    return weft.sigmoid(x), weft.tanh(y), F.silu(x), F.softplus(y), F.leaky_relu(x, 0.1), F.elu(y)


@program()
def linear(x, y):
    return F.linear(x, y), F.linear(x, y, weft.ones(3))


@program()
def normalising(x, y):
    return F.layer_norm(x, [4]), F.normalize(y, dim=1), F.dropout(x, 0.5, False)


@program()
def losses(x, y):
    target = weft.tensor([0, 2, 1])
    return F.cross_entropy(x, target), F.nll_loss(F.log_softmax(y, 1), target), F.smooth_l1_loss(x, y)


@program()
def pointwise(x, y):
    return x.clamp(-0.5, 0.5), weft.where(x > 0, x, y), x.abs().sqrt(), weft.maximum(x, y), x.sign() * y


@program()
def comparisons(x, y):
    return x > y, (x <= 0).logical_and(y > 0), x.eq(y), weft.isnan(x).any()


@program()
def creations(x, y):
    return (
        x + weft.zeros(3, 4), weft.ones_like(y) * x, weft.arange(4) + x, weft.full([2], 3.0), weft.eye(3) @ y,
        x.new_zeros(2), weft.tensor([1.0, 2.0]), weft.empty(0).numel(), weft.linspace(0, 1, 5),
    )  # fmt: skip


@program()
def dtypes(x, y):
    a = x.to(weft.float64)
    b = y.double().float()
    return a, b, x.dtype == weft.float32, weft.zeros(2, dtype=weft.int64), x.long(), a.is_floating_point()


@program()
def joining(x, y):
    return weft.cat([x, y], dim=1), weft.stack((x, y)), weft.cat((x, y))


@program()
def special_functions(x, y):
    r = x.relu().relu() + 0.5
    return weft.special.gammaln(r), weft.special.entr(r), y.cos().relu(), weft.special.expit(x)


@program()
def linear_algebra(x, y):
    a = x @ x.t() + weft.eye(3) * 3
    return weft.linalg.inv(a), weft.linalg.det(a), weft.linalg.norm(y), weft.einsum("ij,kj->ik", x, y)


@program()
def batched(x, y):
    return weft.bmm(x.unsqueeze(0), y.t().unsqueeze(0)), weft.matmul(x, y[0]), weft.outer(x[0], y[0])


@program()
def cumulative(x, y):
    return x.cumsum(0), weft.logsumexp(y, 1), x.var(1), y.norm()


@program()
def gathering(x, y):
    i = weft.tensor([[0, 1], [1, 2], [3, 0]])
    return x.gather(1, i), y.index_select(0, weft.tensor([2, 0])), weft.roll(x, 1, 0), x.flip(0), y.tril()


@program()
def masked(x, y):
    return x.masked_fill(y > 0, -1.0), y.masked_select(x > 10).numel()


@program(4)
def newton(x, y, n: int):
    z = x.abs() + 1
    a = z * z
    for i in range(n):
        z = z - (z * z - a - 1.0) / (2.0 * z)
    return z


@program()
def newton_until(x, y):
    a = x.abs() + 1.0
    z = a
    while ((z * z - a).abs().max() > 1e-4).item():
        z = 0.5 * (z + a / z)
    return z


@program()
def recurrence(x, y):
    h = weft.zeros(4)
    outs: List[Tensor] = []
    for t in range(x.size(0)):
        h = weft.tanh(x[t] + h * y[t])
        outs.append(h)
    return weft.stack(outs), h


@program()
def gated(x, y):
    h = weft.zeros(2)
    c = weft.zeros(2)
    for t in range(x.size(0)):
        i, f = (x[t] * y[t]).chunk(2)
        c = weft.sigmoid(f) * c + weft.tanh(i)
        h = c.tanh()
    return h, c


@program()
def loop_branches(x, y):
    z = x
    for i in range(4):
        if i % 2 == 0:
            z = z * y
        elif i == 3:
            z = z.sin()
        else:
            z = z + 1
    return z


@program()
def carried_list(x, y):
    items: List[Tensor] = [x]
    for i in range(3):
        items = items + [items[i] * y]
    return items[-1], len(items)


@program()
def tuple_state(x, y):
    state = (x, y)
    for i in range(2):
        a, b = state
        state = (b, a * b)
    return state


@program()
def several_targets(x, y):
    a = b = x * 2
    c, d = a + b, 1
    return c * d


@program()
def augmented(x, y):
    n = 2
    n += 3
    n *= 2
    n -= 1
    n //= 2
    z = x * n
    return z, n


@program()
def shadowing(x, y):
    x = x + 1
    x = x * y
    return x


@program()
def type_by_branch(x, y):
    z: Optional[Tensor] = None
    if x.size(0) == 3:
        z = y * 2
    if z is not None:
        x = x + z
    return x


@program()
def raising(x, y):
    if x.size(0) > 5:
        raise ValueError("too large")
    return x


@program()
def hooks_free(x, y):
    a = x * 2
    b = a.view(-1)
    c = b[1:5].sin()
    return c.sum() * y


@program()
def gradients_asked(x, y):
    return x.requires_grad, (x * 2).requires_grad, y.is_leaf


@program()
def scalar_tensor(x, y):
    s = x.sum()
    return s * y, s.item() == s.item(), s + 1


@program()
def power(x, y):
    return x**2, 2**x, x.pow(3), weft.exp(y) ** 0.5


@program()
def division(x, y):
    return x / 2, 1 / (y.abs() + 1), x.detach() // 2, x % 3, weft.div(x, 2, rounding_mode="floor")


@program()
def remainder_of_types(x, y):
    a = x.size(0) / 2
    b = 5 // 2
    return x * a * b, a, b


@program()
def function_defaults(x, y, n: int = 3, s: str = "a"):
    return x * n, s


@program()
def deep_expression(x, y):
    return ((x.sin() + y.cos()).tanh() * (x - y).sigmoid()).exp().log1p().sum(dim=1).mean()


@program()
def not_differentiable(x, y):
    return x.argmax(dim=1), (x > 0).float() * y, x.sign(), x.round() + y


@program()
def mixed_paths(x, y):
    a = x.detach() + y
    with weft.no_grad():
        b = y * 2
    return a * b, b * x


@program()
def wheres(x, y):
    return weft.where(x > 0, x * 2, y), x.where(y > 0, y)


@program()
def empty_loops(x, y):
    z = x
    for i in range(0):
        z = z * 0
    for t in weft.jit.annotate(List[Tensor], []):
        z = z + t
    return z


@program(2)
def loop_limits(x, y, n: int):
    z = x
    for i in range(n, n + x.size(0)):
        z = z + y[i - n] * i
    return z


@program()
def pass_statement(x, y):
    if x.size(0) == 1:
        pass
    else:
        y = y + 1
    return y


@program()
def deleting(x, y):
    a = [x, y]
    del a[0]
    z = x * 2
    del x
    return a[0], z


@program()
def starred(x, y):
    a = (x, y)
    b, *c = (x, y, x)
    return (*a, 1), b, c[0]


@program()
def sorting(x, y):
    return x, sorted([3, 1, 2]), [float(i) for i in range(2)]


@program()
def long_branch(x, y):
    if x.dim() == 1:
        z = x
    elif x.dim() == 2:
        z = x.t().contiguous()
    elif x.dim() == 3:
        z = x[0]
    else:
        z = y
    return z.sin()


def closed_over(x):
    return CLOSED(x)


CLOSED = helper


@program()
def closures(x, y):
    return closed_over(x) + CLOSED(y)


@program()
def forked(x, y):
    future = weft.jit.fork(helper, x)
    z = y * 2
    return weft.jit.wait(future) + z


@program(1.5)
def formatted_floats(x, y, a: float):
    return x, f"{a:.3f}", "{:d}|{}".format(3, "b"), f"{{}} {a}"


def nothing(x):
    x * 2


@program()
def calls_nothing(x, y):
    nothing(x)
    return y


@program()
def attribute_questions(x, y):
    if hasattr(x, "shape"):
        z = x.T
    else:
        z = y.T
    return z, x.device == y.device, x.ndim


@program(weft.float64)
def dtype_argument(x, y, kind: weft.dtype):
    return x.to(kind), weft.zeros(2, dtype=kind)


@program(True, 2)
@program(False, 2)
def returns_in_branches(x, y, flag: bool, n: int):
    if flag:
        z = x * n
        return z + y
    elif n > 1:
        for i in range(n):
            y = y * x
        return y
    else:
        raise RuntimeError("never")


@program([[1, 2], [3]])
def nested_lists(x, y, ns: List[List[int]]):
    total = 0
    for row in ns:
        for n in row:
            total += n
    return x * total, [len(row) for row in ns]


@program()
def changes_list_argument(x, y):
    a = [x]
    appended(a, y)
    return a[0] + a[1], len(a)


def appended(a: List[Tensor], t: Tensor):
    a.append(t)
