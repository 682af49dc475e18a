"""A tour: the system rebuilt small, from nothing but NumPy and LLVM.

Run it: `python docs/tour.py`. Each part is what a package of Weft does, in its simplest form, and is checked
as it goes; the comments say where the real thing lives, and what it does beyond this.
"""

from __future__ import annotations

import ctypes
import inspect
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import llvmlite.binding as llvm
import numpy as np


# -- 1. One record per op ------------------------------------------------------------------------------------
# An op is a name, a kernel on arrays, a rule for its gradient, and a scalar body from which machine code is
# made. The rule calls ops, never NumPy: so it works on whatever ops work on (tensors, and below stand-ins
# for them), and a gradient can be differentiated again. In Weft: weft/ops, some 500 records with types,
# batching, casts and samples.
@dataclass(frozen=True)
class Op:
    name: str
    kernel: Callable[..., Any]
    vjp: Callable[..., tuple[Any, ...]]
    emit: str = ""
    """LLVM's instruction, with {0} and {1} for operands; "" where there is none."""

    def __call__(self, *operands: Any) -> Any:
        return apply(self, operands)


def add_vjp(g, out, a, b):
    return g, g


def mul_vjp(g, out, a, b):
    return mul(g, b), mul(g, a)


def neg_vjp(g, out, a):
    return (neg(g),)


def exp_vjp(g, out, a):
    return (mul(g, out),)


def sum_vjp(g, out, a):
    return (spread(g, a),)


def spread_vjp(g, out, a, like):
    return total(g), None


add = Op("add", np.add, add_vjp, "fadd double {0}, {1}")
mul = Op("mul", np.multiply, mul_vjp, "fmul double {0}, {1}")
neg = Op("neg", np.negative, neg_vjp, "fneg double {0}")
exp = Op("exp", np.exp, exp_vjp, "call double @exp(double {0})")
total = Op("total", np.sum, sum_vjp)  # all elements
spread = Op("spread", lambda a, like: np.broadcast_to(a, like.shape), spread_vjp)  # one number, many times


# -- 2. Tensors and the tape ---------------------------------------------------------------------------------
# A tensor is an array, and how it came to be: the op, its operands, its place in time. That is the tape. In
# Weft: weft/tensor and weft/autograd, where tensors also have views, versions, hooks, and types that follow
# PyTorch's.
class Tensor:
    count = 0

    def __init__(self, array: Any, op: Op | None = None, operands: tuple[Any, ...] = ()) -> None:
        self.array, self.op, self.operands = np.asarray(array, np.float64), op, operands
        Tensor.count += 1
        self.when = Tensor.count

    shape = property(lambda self: self.array.shape)
    __add__ = lambda self, other: add(self, other)
    __mul__ = lambda self, other: mul(self, other)
    __neg__ = lambda self: neg(self)
    exp = lambda self: exp(self)
    sum = lambda self: total(self)


recorder: list[Graph] = []
"""Where ops are recorded, while a function is captured: see part 4."""


def apply(op: Op, operands: tuple[Any, ...]) -> Any:
    if recorder:
        return recorder[-1].append(op, operands)
    return Tensor(op.kernel(*[each.array for each in operands]), op, operands)


# -- 3. One sweep --------------------------------------------------------------------------------------------
# Reverse mode: from the result back, latest first, each op's rule turns what its result is worth into what
# its operands are worth. The sweep knows nothing of arrays. In Weft: weft/ops/sweep.py, which waits on
# counts in place of sorting, never recurses, runs hooks, and serves eager, captured and compiled gradients
# alike.
def grad(result: Any, wanted: list[Any]) -> list[Any]:
    worth = {result: ones_like(result)}
    waiting, seen = [result], {result}
    while waiting:
        waiting.sort(key=lambda each: each.when)
        each = waiting.pop()
        if each.op is None:
            continue
        for operand, g in zip(each.operands, each.op.vjp(worth[each], each, *each.operands)):
            if g is None:
                continue
            worth[operand] = add(worth[operand], g) if operand in worth else g
            if operand not in seen:
                seen.add(operand)
                waiting.append(operand)
    return [worth[each] for each in wanted]


def ones_like(value: Any) -> Any:
    if recorder:
        return recorder[-1].constant(np.ones(value.shape))
    return Tensor(np.ones(value.shape))


x = Tensor([0.5, -1.0, 2.0])
y = (x * x).exp().sum()
(slope,) = grad(y, [x])
assert np.allclose(slope.array, 2 * x.array * np.exp(x.array**2))
(curve,) = grad(slope.sum(), [x])  # the gradient's own tape: gradients of gradients need nothing more
assert np.allclose(curve.array, (2 + 4 * x.array**2) * np.exp(x.array**2))
print("eager gradients of first and second order are right")


# -- 4. Capture ----------------------------------------------------------------------------------------------
# The function runs once on stand-ins that have a shape and no elements; ops write themselves down. `grad`
# runs as well, on stand-ins: so backward passes are captured with nothing added. What was relied upon is
# guarded. In Weft: weft/capture reads the function's bytecode instead of running it, so that Python's own
# state, branches, side effects and exceptions are followed and guarded, and what cannot be captured breaks
# the graph, not the program.
class StandIn(Tensor):
    shape: Any = ()

    def __init__(self, shape: Any, op: Op | None, operands: tuple[Any, ...], when: int, value: Any) -> None:
        self.shape, self.op, self.operands, self.when = shape, op, operands, when
        self.value = value  # of constants


@dataclass
class Graph:
    nodes: list[StandIn] = field(default_factory=list)

    def append(
        self, op: Op | None, operands: tuple[Any, ...], shape: Any = None, value: Any = None
    ) -> StandIn:
        if shape is None:
            shapes = [each.shape for each in operands]
            shape = () if op is total else shapes[-1] if op is spread else np.broadcast_shapes(*shapes)
        node = StandIn(shape, op, operands, len(self.nodes), value)
        self.nodes.append(node)
        return node

    def constant(self, value: Any) -> StandIn:
        return self.append(None, (), value.shape, value)


def captured(
    function: Callable[..., Any], shapes: list[tuple[int, ...]]
) -> tuple[Graph, list[StandIn], list[Any]]:
    graph = Graph()
    inputs = [graph.append(None, (), shape) for shape in shapes]
    recorder.append(graph)
    try:
        results = function(*inputs)
    finally:
        recorder.pop()
    return graph, inputs, list(results)


# -- 5. Fuse, and emit ---------------------------------------------------------------------------------------
# Everything pointwise that leads to one result, or to one sum, is one loop: no array between. A value is an
# expression of the loop's index; asking for it emits its instructions once. In Weft: weft/native, with SIMD
# of the machine's width, folds along axes, matrix products, convolutions, memory that is reused, and a pool
# of threads.
def loop_text(name: str, result: StandIn, places: dict[StandIn, int]) -> str:
    """A function of LLVM's that computes one result from arrays, all of whose addresses it is given."""
    body = result.operands[0] if result.op is total else result
    lines: list[str] = []
    known: dict[StandIn, str] = {}

    def line(text: str) -> str:
        lines.append(f"  %v{len(lines)} = {text}")
        return f"%v{len(lines) - 1}"

    def value(node: StandIn) -> str:
        if node not in known:
            if node in places:  # it lies in memory: at the index or, if it is one number, at the start
                buffer = line(f"getelementptr ptr, ptr %buffers, i64 {places[node]}")
                start = line(f"load ptr, ptr {buffer}")
                place = line(f"getelementptr double, ptr {start}, i64 {'%i' if node.shape else 0}")
                known[node] = line(f"load double, ptr {place}")
            elif node.op is spread:  # the same number, wherever one looks
                known[node] = value(node.operands[0])
            else:
                known[node] = line(node.op.emit.format(*[value(each) for each in node.operands]))
        return known[node]

    last = value(body)
    if result.op is total:
        store, end = [f"  %sum1 = fadd double %sum, {last}"], ["  store double %sum1, ptr %out"]
    else:
        store, end = ["  %at = getelementptr double, ptr %out, i64 %i", f"  store double {last}, ptr %at"], []
        store.append("  %sum1 = fadd double %sum, 0.0")
    return "\n".join(
        [
            f"define void @{name}(ptr %buffers, ptr %out, i64 %count) {{",
            "start:", "  br label %loop", "loop:",
            "  %i = phi i64 [0, %start], [%next, %loop]", "  %sum = phi double [0.0, %start], [%sum1, %loop]",
            *lines, *store, "  %next = add i64 %i, 1", "  %more = icmp slt i64 %next, %count",
            "  br i1 %more, label %loop, label %done", "done:", *end, "  ret void", "}",
        ]
    )  # fmt: skip


def steps_of(results: list[StandIn]) -> list[StandIn]:
    """What lies in memory, in order: the results, and each sum that something else is made of."""
    found: list[StandIn] = []
    waiting = list(results)
    while waiting:
        each = waiting.pop()
        if each.op is not None and (each.op is total or each in results) and each not in found:
            found.append(each)
        waiting += [] if each.op is None else each.operands
    return sorted(found, key=lambda each: each.when)


# -- 6. A program --------------------------------------------------------------------------------------------
# Functions from the text, and records that say which function runs on which memory. In Weft the records are
# run by a small native loop, entered through one native call that also checks the guards; code is kept on
# disk.
llvm.initialize_native_target()
llvm.initialize_native_asmprinter()
ENGINES: list[Any] = []


def machine_code(text: str, names: list[str]) -> list[Any]:
    module = llvm.parse_assembly(text)
    machine = llvm.Target.from_default_triple().create_target_machine(opt=3)
    engine = llvm.create_mcjit_compiler(module, machine)
    engine.finalize_object()
    ENGINES.append(engine)  # the code lives as long as its engine
    kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
    return [kind(engine.get_function_address(name)) for name in names]


def program(graph: Graph, inputs: list[StandIn], results: list[StandIn]) -> Callable[[list[Any]], list[Any]]:
    steps = steps_of(results)
    fixed = [node for node in graph.nodes if node.value is not None]
    places = {node: number for number, node in enumerate([*inputs, *fixed, *steps])}
    texts = ["declare double @exp(double)"]
    for number, step in enumerate(steps):
        others = {node: place for node, place in places.items() if node is not step}
        texts.append(loop_text(f"step{number}", step, others))
    functions = machine_code("\n".join(texts), [f"step{number}" for number in range(len(steps))])

    def run(arrays: list[Any]) -> list[Any]:
        memory = [
            *arrays,
            *(np.ascontiguousarray(node.value) for node in fixed),
            *(np.empty(s.shape) for s in steps),
        ]
        buffers = (ctypes.c_void_p * len(memory))(*[each.ctypes.data for each in memory])
        for step, function in zip(steps, functions):
            counted = step.operands[0] if step.op is total else step
            function(buffers, memory[places[step]].ctypes.data, math.prod(counted.shape))
        return [memory[places[each]] for each in results]

    return run


# -- 7. compile ----------------------------------------------------------------------------------------------
# Capture on the first call, then run; capture again where a guard fails. In Weft: weft/compiler.py, and
# guards on everything that was read: globals, closures, attributes, types, sizes, modes, aliasing.
def compile(function: Callable[..., Any]) -> Callable[..., Any]:
    entries: dict[Any, Any] = {}

    def compiled(*tensors: Tensor) -> list[Tensor]:
        guard = (function.__code__, tuple(each.shape for each in tensors))
        if guard not in entries:
            graph, inputs, results = captured(function, [each.shape for each in tensors])
            entries[guard] = program(graph, inputs, results)
        return [Tensor(each) for each in entries[guard]([t.array for t in tensors])]

    compiled.entries = entries  # type: ignore[attr-defined]
    return compiled


def step(x, w):  # a loss and both gradients, captured and compiled as one
    loss = ((x * w).exp() * -x).sum()
    return loss, *grad(loss, [x, w])


numbers = np.random.default_rng(0)
x, w = Tensor(numbers.normal(size=50_000)), Tensor(numbers.normal(size=50_000))
fast = compile(step)
for eager, ours in zip(step(x, w), fast(x, w)):
    assert np.allclose(eager.array, ours.array)
graph, _, results = captured(step, [x.shape, w.shape])
count = sum(node.op is not None for node in graph.nodes)
print(f"captured {count} ops, compiled to {len(steps_of(results))} loops")


def seconds(function: Callable[[], Any]) -> float:
    best = math.inf
    for _ in range(5):
        began = time.perf_counter()
        function()
        best = min(best, time.perf_counter() - began)
    return best


print(f"a step takes {seconds(lambda: step(x, w)) / seconds(lambda: fast(x, w)):.1f} times longer op by op")
fast(Tensor([1.0]), Tensor([2.0]))
assert len(fast.entries) == 2  # another shape, another entry
lines = len(inspect.getsource(inspect.getmodule(Tensor)).splitlines())
print(f"{lines} lines; the rest is doing it for all of PyTorch")
