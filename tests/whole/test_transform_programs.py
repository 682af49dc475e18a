"""Random programs of nested transforms: as they are, compiled whole, and with a compiled function inside.

Each program is a few functions of three numbers, with writes, detached parts, custom Functions and modules in
them, under a tower of transforms. One idea: a program is text, made by a seed, so that one that fails can be
printed and run by itself: `python -m tests.whole.test_transform_programs 17`.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import weft
from weft.compiler import settings

HEAD = """
import weft
from weft.autograd import functional
from weft.func import *

weight = (weft.arange(9.0).reshape(3, 3) / 5 - 0.7).requires_grad_({tracked})
linear = weft.nn.Linear(3, 3)
buffer = weft.ones(3)
log = []

class Square(weft.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x):
        return x**2

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def backward(ctx, gradient):
        return 2 * ctx.saved_tensors[0] * gradient

    @staticmethod
    def jvp(ctx, tangent):
        return 2 * ctx.saved_tensors[0] * tangent
"""
EXPRESSIONS = (
    "{a}.sin()", "{a} * {b}", "{a} + {b}", "{a} @ weight", "{a}.tanh()", "({a} * {b}).sum() * {a}",
    "{a}.exp() * 0.3", "weft.softmax({a}, 0)", "{a}[[2, 0, 1]]", "{a}.flip(0)", "{a}.cumsum(0)",
    "weft.stack([{a}[0], {b}[1], {a}[2]])", "weft.where({a} > 0, {a}, {b} * 2)", "linear({a})",
    "weft.cat([{a}[:1], {b}[1:]])", "({a}**2 + 1).sqrt()", "{a}.detach() * {b}", "{a} - {b}.mean()",
    "{a}.clamp(-0.5, 0.5) * {b}", "{a}.sort().values", "{a}.roll(1)", "{a} / ({b}.abs() + 1)",
    "Square.apply({a})", "functional_call(linear, {{'weight': weight.t()}}, ({a},))", "{a} + buffer",
)  # fmt: skip
STATEMENTS = (
    "{v} = {v}.clone().mul_(2)", "{v} = {v}.clone().add_({a})", "{v} = {v}.clone(); {v}[0] = {a}[1]",
    "{v} = {v}.clone(); {v}[1:] = {a}[:2]", "log.append({name!r})", "buffer.mul_(0.5)",
    "{v} = weft.stack([item * i for i, item in enumerate({v})])",
    "{v} = {v} if {v}.shape[0] == 3 else {v} * 2",
)  # fmt: skip
TOWERS = (
    "grad(lambda a: {f}(a).sum())({x})", "grad_and_value(lambda a: {f}(a).cos().sum())({x})[0]",
    "vmap(lambda a: {f}(a).sum())(weft.stack([{x}, {x} * 2, {x}.cos()]))", "jacrev({f})({x}).sum(0)",
    "jacfwd({f})({x}).sum(1)", "jvp({f}, ({x},), ({x}.cos(),))[1]", "vjp({f}, {x})[1]({x}.sin())[0]",
    "hessian(lambda a: {f}(a).sum())({x}).sum(0)", "linearize({f}, {x})[1]({x}.cos())",
    "vmap(grad(lambda a: {f}(a).sum()))(weft.stack([{x}, {x} * 2])).sum(0)",
    "grad(lambda a: vmap({f})(weft.stack([a, a * 2])).sum())({x})",
    "vmap({f}, in_dims=1, out_dims=1, chunk_size=2)({x}[:, None] * {x}).sum(0)",
    "functional.jacobian({f}, {x}).sum(0)", "functional.hvp(lambda a: {f}(a).sum(), {x}, {x})[1]",
)  # fmt: skip


def function(source: random.Random, name: str, depth: int) -> list[str]:
    """The lines of a function from three numbers to three numbers."""
    lines, names = [f"def {name}(x):"], ["x"]
    for number in range(source.randint(1, 4)):
        words = {"a": source.choice(names), "b": source.choice(names), "v": f"v{number}", "name": name}
        lines.append(f"    v{number} = " + source.choice(EXPRESSIONS).format(**words))
        if source.random() < 0.3:
            lines.append("    " + source.choice(STATEMENTS).format(**words))
        names.append(f"v{number}")
    if depth and source.random() < 0.5:
        inner = f"{name}_inner"
        lines += ["    " + line for line in function(source, inner, depth - 1)]
        lines.append("    found = " + source.choice(TOWERS).format(f=inner, x=names[-1]))
        names.append("found")
    return [*lines, f"    return {names[-1]}"]


def program(seed: int) -> str:
    source = random.Random(seed)
    lines = [HEAD.format(tracked=source.random() < 0.5), *function(source, "f", 2), "def main(x):"]
    quiet = source.random() < 0.15
    lines += ["    with weft.no_grad():"] if quiet else []
    lines.append("    " * (1 + quiet) + "y = " + source.choice(TOWERS).format(f="f", x="x"))
    following = source.choice(TOWERS).format(f="f", x="y") if source.random() < 0.3 else "y * 2"
    return "\n".join([*lines, f"    return y, {following}"])


def outcome(text: str, compiled: str | None = None, backend: str = "eager") -> list[Any]:
    """What three calls give: results, whether these require grad, gradients, and what was written."""
    weft.compiler.reset()
    weft.manual_seed(0)
    space: dict[str, Any] = {"__name__": "transform_program"}
    exec(compile(text, "<transform program>", "exec"), space)
    if compiled is not None:
        space[compiled] = weft.compile(space[compiled], backend=backend)
    seen: list[Any] = []
    for requires_grad in (False, True, False):
        x = weft.tensor([0.3, -0.7, 1.1], requires_grad=requires_grad)
        space["weight"].grad = None
        try:
            results = space["main"](x)
        except RuntimeError as error:  # transforms that do not nest
            seen += [type(error), str(error), len(space["log"])]
            continue
        live = [result.cos().sum() for result in results if result.requires_grad]
        if live:
            sum(live).backward()
        seen += [result.requires_grad for result in results] + [len(space["log"])]
        grads = [None if t.grad is None else t.grad for t in (x, space["weight"])]
        seen += [t if t is None else np.asarray(t.tolist()) for t in (*results, *grads, space["buffer"])]
    return seen


def difference(expected: list[Any], actual: list[Any]) -> str | None:
    if len(expected) != len(actual):
        return f"expected {expected}, got {actual}"
    for place, (one, other) in enumerate(zip(expected, actual, strict=True)):
        if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
            if not np.allclose(one, other, rtol=2e-3, atol=2e-3 * max(1, np.abs(one).max()), equal_nan=True):
                return f"{place}: expected {one}, got {other}"
        elif isinstance(one, np.ndarray) or isinstance(other, np.ndarray) or one != other:
            return f"{place}: expected {one}, got {other}"
    return None


def check(seed: int) -> None:
    text = program(seed)
    expected = outcome(text)
    settings.strict = True
    for compiled in ("main", "f"):
        for backend in ("eager", "aot_eager"):
            found = difference(expected, outcome(text, compiled, backend))
            assert found is None, f"seed {seed}, {compiled} compiled for {backend}: {found}\n{text}"


@pytest.fixture(autouse=True)
def lenient_afterwards() -> Iterator[None]:
    before = settings.strict
    yield
    settings.strict = before


@pytest.mark.filterwarnings("ignore")  # overflows in steep towers, on both sides
@pytest.mark.parametrize("start", range(0, 20, 10))
def test_random_towers(start: int) -> None:
    for seed in range(start, start + 10):
        check(seed)


if __name__ == "__main__":
    for given in sys.argv[1:]:
        print(program(int(given)))
        check(int(given))
