"""Users' cases of the contract of custom Functions: see docs/demands.md, item 6."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import weft
from tests.whole.demands.cases import differences_agree, facts, leaf, one, plain
from weft import func
from weft.autograd import Function, grad
from weft.autograd.function import once_differentiable
from weft.testing import EagerAndRecordGraphs

Check = Callable[..., Any]
offset = weft.tensor(3.0, dtype=weft.float64)


def gradients(make: Callable[[], Any]) -> tuple[Callable[[], Any], Callable[[Any], Any]]:
    """The same maker, and what takes the gradients of the first tensor of a result."""
    given: list[Any] = []

    def arguments() -> Any:
        given.append(make())
        return given[-1]

    def later(result: Any) -> Any:
        first = result if isinstance(result, weft.Tensor) else result[0]
        (first * first).sum().backward()
        return [facts(tensor) for tensor in given[-1] if isinstance(tensor, weft.Tensor)]

    return arguments, later


# -- pytorch#133491 ------------------------------------------------------------------------------------------
class Doubled_(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        x.mul_(2)
        return x

    @staticmethod
    def backward(ctx, g):
        return g * 2


def test_pytorch_133491_mark_dirty(check: Check, backend: str) -> None:
    def f(x):
        y = x * 3
        z = Doubled_.apply(y)
        return z, y, y is z

    def sums(x):
        y = x * 3
        Doubled_.apply(y)
        return y.sin()

    def argument(x):
        return Doubled_.apply(x)

    arguments, later = gradients(one)
    check(f, arguments, after=later)
    check(argument, lambda: (plain(),), after=lambda y: facts(y))
    differences_agree(sums, leaf(), backend=backend)


# -- pytorch#144142 ------------------------------------------------------------------------------------------
class WithNumbers(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.exp(), [1, 2, 3], None, "text", x.shape[0]

    @staticmethod
    def backward(ctx, g, *others):
        (x,) = ctx.saved_tensors
        assert others == (None, None, None, None)
        return g * x.exp()


def test_pytorch_144142_outputs_that_are_no_tensors(check: Check) -> None:
    def f(x):
        y, numbers, nothing, text, size = WithNumbers.apply(x)
        return y * numbers[1] * size, numbers, nothing, text

    arguments, later = gradients(one)
    check(f, arguments, after=later)
    check(lambda x: WithNumbers.apply(x), *[gradients(one)[0]], after=later)


# -- pytorch#106391 ------------------------------------------------------------------------------------------
seen: list[Any] = []


class Two(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(x)
        return x.sin(), x.cos()

    @staticmethod
    def backward(ctx, first, second):
        (x,) = ctx.saved_tensors
        seen.append((first is None, second is None))
        total = None
        if first is not None:
            total = first * x.cos()
        if second is not None:
            total = -second * x.sin() if total is None else total - second * x.sin()
        return total


def test_pytorch_106391_gradients_that_are_not_materialised(check: Check) -> None:
    def f(x):
        return Two.apply(x)

    def inside(x):
        first, second = Two.apply(x)
        second.sum().backward()
        return x.grad

    def later(which: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def use(result: Any) -> Any:
            which(result).sum().backward()

        return use

    for which in (lambda r: r[0], lambda r: r[1], lambda r: r[0] + 2 * r[1]):
        check(f, one, after=later(which), state=seen.clear, watch=lambda: list(seen))
    check(inside, one, state=seen.clear, watch=lambda: list(seen))


# -- pytorch#106893 ------------------------------------------------------------------------------------------
class Halved(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * x


def test_pytorch_106893_once_differentiable(check: Check) -> None:
    def f(x):
        return Halved.apply(x)

    given: list[Any] = []

    def arguments() -> Any:
        given.append(leaf())
        return (given[-1],)

    def twice(y: Any) -> Any:
        (first,) = grad(y.sum(), given[-1], create_graph=True)
        try:
            grad(first.sum(), given[-1])
        except RuntimeError as error:
            return first.detach(), first.requires_grad, str(error)
        return "differentiated"

    check(f, arguments, after=twice)
    check(f, arguments, after=lambda y: grad(y.sum(), given[-1]))


# -- pytorch#118397 ------------------------------------------------------------------------------------------
class Cubed(Function):
    """Everything a Function may have."""

    @staticmethod
    def forward(x, power):
        return x**power

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, ctx.power = inputs
        ctx.save_for_backward(x)
        ctx.save_for_forward(x)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * ctx.power * x ** (ctx.power - 1), None

    @staticmethod
    def jvp(ctx, tangent, _):
        (x,) = ctx.saved_tensors
        return tangent * ctx.power * x ** (ctx.power - 1)

    @staticmethod
    def vmap(info, places, x, power):
        return Cubed.apply(x, power), places[0]


class Generated(Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x):
        return x.sin()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * x.cos() * 5


def test_pytorch_118397_setup_context_vmap_and_jvp(check: Check, backend: str) -> None:
    def plainly(x):
        return Cubed.apply(x, 3)

    def mapped(x):
        return func.vmap(lambda row: Cubed.apply(row, 3) * row)(x)

    def generated(x):
        return func.vmap(lambda row: Generated.apply(row) * row)(x)

    def inside(x):
        return grad(generated(x).sum(), x)

    def pushed(x):
        return func.jvp(lambda y: Cubed.apply(y, 3), (x,), (weft.ones_like(x),))

    def rows(x):
        return func.vmap(func.grad(lambda row: Generated.apply(row) + Cubed.apply(row, 2)))(x)

    arguments, later = gradients(one)
    check(plainly, arguments, after=later)
    check(mapped, arguments, after=later)
    check(generated, lambda: (plain(),))
    check(inside, one)
    check(pushed, lambda: (plain(),))
    check(rows, lambda: (plain(),))
    differences_agree(plainly, leaf(), backend=backend)


def test_pytorch_118397_a_generated_vmap_rule_differentiated_outside(check: Check) -> None:
    def mapped(x):
        return func.vmap(lambda row: Generated.apply(row) * row)(x)

    arguments, later = gradients(one)
    check(mapped, arguments, after=later, frames=None, breaks=None)


# -- pytorch#118394 ------------------------------------------------------------------------------------------
def test_pytorch_118394_free_variables(check: Check, backend: str) -> None:
    factor = plain(2.0, 3.0, 4.0)
    tracked = leaf(0.5, 0.5, 0.5)

    class Scaled(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.offset = offset
            return x * factor + offset

        @staticmethod
        def backward(ctx, g):
            return g * factor * ctx.offset / 3

    class Tracked(Function):
        @staticmethod
        def forward(ctx, x):
            return x * tracked

        @staticmethod
        def backward(ctx, g):
            return g * tracked

    def f(x):
        return Scaled.apply(x) * Tracked.apply(x)

    arguments, later = gradients(one)
    check(f, arguments, after=later, watch=lambda: tracked.grad)
    differences_agree(f, leaf(), backend=backend, order=1)


# -- pytorch PR#185407 ---------------------------------------------------------------------------------------
class Attended(Function):
    """Lengths of queries and keys may be the same tensor, and queries, keys and values as well."""

    @staticmethod
    def forward(ctx, q, k, starts_q, starts_k):
        ctx.save_for_backward(q, k, starts_q, starts_k)
        return q[starts_q] * k[starts_k]

    @staticmethod
    def backward(ctx, g):
        q, k, starts_q, starts_k = ctx.saved_tensors
        to_q = weft.zeros_like(q).index_add(0, starts_q, g * k[starts_k])
        to_k = weft.zeros_like(k).index_add(0, starts_k, g * q[starts_q])
        return to_q, to_k * 7, None, None


def test_pytorch_185407_the_same_tensor_passed_twice(check: Check) -> None:
    starts = weft.tensor([0, 2, 2])

    def lengths(x, y):
        return Attended.apply(x, y, starts, starts)

    def values(x, y):
        return Attended.apply(x, x, starts, starts) + y

    arguments, later = gradients(lambda: (leaf(), leaf(1.0, 2.0, 3.0)))
    check(lengths, arguments, after=later)
    check(values, arguments, after=later)
    check(lambda x: Attended.apply(x, x, starts, starts), gradients(one)[0], after=lambda y: y.sum())


# -- pytorch#104040 ------------------------------------------------------------------------------------------
class Saved(Function):
    """Saves a tensor that is neither input nor output."""

    @staticmethod
    def forward(ctx, x):
        inner = x.exp()
        ctx.save_for_backward(inner)
        return inner * inner

    @staticmethod
    def backward(ctx, g):
        (inner,) = ctx.saved_tensors
        return 2 * g * inner * inner


def test_pytorch_104040_saved_intermediates_are_right_or_loud(check: Check, backend: str) -> None:
    given: list[Any] = []

    def arguments() -> Any:
        given.append(leaf())
        return (given[-1],)

    def twice(y: Any) -> Any:
        (first,) = grad(y.sum(), given[-1], create_graph=True)
        try:
            (second,) = grad(first.sum(), given[-1])
        except RuntimeError as error:
            return "loud", str(error)
        assert weft.allclose(second, 4 * (2 * given[-1]).exp())
        return "right", second

    def f(x):
        return Saved.apply(x)

    def inside(x):
        (first,) = grad(Saved.apply(x).sum(), x, create_graph=True)
        try:
            return grad(first.sum(), x)
        except RuntimeError as error:
            return str(error)

    check(f, arguments, after=twice)
    check(inside, one)
    differences_agree(f, leaf(), backend=backend, order=1)


# -- pytorch#189573 ------------------------------------------------------------------------------------------
class Many(Function):
    @staticmethod
    def forward(ctx, *tensors):
        ctx.save_for_backward(*tensors)
        return tensors[0] + 1, tensors[1] * 2

    @staticmethod
    def backward(ctx, first, second):
        assert len(ctx.saved_tensors) == 13
        return first, second * 2, *[None] * 11


def test_pytorch_189573_a_function_of_many_tensors_is_one_node(check: Check) -> None:
    """What it costs is a matter of benchmarks; here: one node, captured once, nothing done per call."""

    def f(*tensors):
        return Many.apply(*tensors)

    arguments, later = gradients(lambda: tuple(leaf() for _ in range(13)))
    check(f, *[arguments] * 3, after=later, ops=None)
    backend: Any = EagerAndRecordGraphs()
    weft.compile(f, backend=backend, fullgraph=True)(*arguments())
    (graph,) = backend.graphs
    targets = [node.target for node in graph.graph.nodes if node.op == "call_function"]
    applied = [target for target in targets if "autograd_function_apply" in str(target)]
    assert len(applied) == 1
