"""Eager speed beside PyTorch: one row per program, as the ratio of Weft's time to torch's in the same run.

    python benchmarks/eager.py [--rows NAME ...] [--threads N] [--json FILE]

Needs torch (the `bench` extra). Each library runs in a process of its own with two threads, because two
thread pools in one process disturb each other; the two take turns row by row, several times, and the best
time of each counts. With one thread (`--threads 1`) it is the process's own time that is taken, so that the
ratios hold beside other work.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
Row = Callable[[Any, Any], Callable[[], Any]]
ROWS: dict[str, tuple[float, Row]] = {}


def row(name: str, aim: float) -> Callable[[Row], Row]:
    def add(function: Row) -> Row:
        ROWS[name] = (aim, function)
        return function

    return add


@row("add, 10 elements", 1.0)
def _(lib: Any, F: Any) -> Callable[[], Any]:
    a, b = lib.randn(10), lib.randn(10)
    return lambda: a + b


@row("add with grad, 10 elements", 1.0)
def _(lib: Any, F: Any) -> Callable[[], Any]:
    a, b = lib.randn(10, requires_grad=True), lib.randn(10, requires_grad=True)
    return lambda: a + b


@row("mul, 10 elements", 1.0)
def _(lib: Any, F: Any) -> Callable[[], Any]:
    a, b = lib.randn(10), lib.randn(10)
    return lambda: a * b


@row("mul by a number, 10 elements", 1.0)
def _(lib: Any, F: Any) -> Callable[[], Any]:
    a = lib.randn(10)
    return lambda: a * 2.0


@row("matmul 8x8", 1.0)
def _(lib: Any, F: Any) -> Callable[[], Any]:
    a, b = lib.randn(8, 8), lib.randn(8, 8)
    return lambda: a @ b


@row("index x[0]", 1.0)
def _(lib: Any, F: Any) -> Callable[[], Any]:
    x = lib.randn(8, 8)
    return lambda: x[0]


@row("index x[1:3]", 1.0)
def _(lib: Any, F: Any) -> Callable[[], Any]:
    x = lib.randn(8, 8)
    return lambda: x[1:3]


@row("index x[2, 3]", 1.0)
def _(lib: Any, F: Any) -> Callable[[], Any]:
    x = lib.randn(8, 8)
    return lambda: x[2, 3]


@row("index x[tensor]", 1.0)
def _(lib: Any, F: Any) -> Callable[[], Any]:
    x, i = lib.randn(8, 8), lib.tensor([0, 3, 5])
    return lambda: x[i]


@row("((a+b)*b).sum() forward", 1.0)
def _(lib: Any, F: Any) -> Callable[[], Any]:
    a, b = lib.randn(10, requires_grad=True), lib.randn(10, requires_grad=True)
    return lambda: ((a + b) * b).sum()


@row("((a+b)*b).sum() forward and backward", 1.0)
def _(lib: Any, F: Any) -> Callable[[], Any]:
    a, b = lib.randn(10, requires_grad=True), lib.randn(10, requires_grad=True)

    def step() -> None:
        ((a + b) * b).sum().backward()
        a.grad = b.grad = None

    return step


@row("MLP step 64x784x256x10", 1.0)
def _(lib: Any, F: Any) -> Callable[[], Any]:
    x, y = lib.randn(64, 784), lib.randint(0, 10, (64,))
    w1, b1 = (lib.randn(256, 784) * 0.03).requires_grad_(), lib.zeros(256, requires_grad=True)
    w2, b2 = (lib.randn(10, 256) * 0.06).requires_grad_(), lib.zeros(10, requires_grad=True)
    parameters = [w1, b1, w2, b2]

    def step() -> None:
        loss = F.cross_entropy(F.linear(F.relu(F.linear(x, w1, b1)), w2, b2), y)
        loss.backward()
        with lib.no_grad():
            for p in parameters:
                p.add_(p.grad, alpha=-0.01)
                p.grad = None

    return step


def _large(name: str) -> Row:
    def make(lib: Any, F: Any) -> Callable[[], Any]:
        x = lib.randn(1000, 1000)
        if name == "softmax":
            return lambda: lib.softmax(x, -1)
        function = F.gelu if name == "gelu" else getattr(lib, name)
        return lambda: function(x)

    return make


for _name in ("tanh", "exp", "sum", "sigmoid", "gelu", "softmax"):
    row(f"{_name}, 1M elements", 3.0)(_large(_name))


@row("conv2d 8x16x32x32, 32 of 3x3", 3.0)
def _(lib: Any, F: Any) -> Callable[[], Any]:
    x, w = lib.randn(8, 16, 32, 32), lib.randn(32, 16, 3, 3)
    return lambda: F.conv2d(x, w, padding=1)


@row("conv2d forward and backward", 3.0)
def _(lib: Any, F: Any) -> Callable[[], Any]:
    x, w = lib.randn(8, 16, 32, 32, requires_grad=True), lib.randn(32, 16, 3, 3, requires_grad=True)

    def step() -> None:
        F.conv2d(x, w, padding=1).sum().backward()
        x.grad = w.grad = None

    return step


@row("depthwise conv2d 8x64x32x32 of 3x3", 3.0)
def _(lib: Any, F: Any) -> Callable[[], Any]:
    x, w = lib.randn(8, 64, 32, 32), lib.randn(64, 1, 3, 3)
    return lambda: F.conv2d(x, w, padding=1, groups=64)


@row("depthwise conv2d forward and backward", 3.0)
def _(lib: Any, F: Any) -> Callable[[], Any]:
    x, w = lib.randn(8, 64, 32, 32, requires_grad=True), lib.randn(64, 1, 3, 3, requires_grad=True)

    def step() -> None:
        F.conv2d(x, w, padding=1, groups=64).sum().backward()
        x.grad = w.grad = None

    return step


@row("LSTM cell 100 times with gradient", 1.5)
def _(lib: Any, F: Any) -> Callable[[], Any]:
    cell = lib.nn.LSTMCell(16, 32)
    xs = lib.randn(100, 4, 16)

    def step() -> None:
        h, c = lib.zeros(4, 32), lib.zeros(4, 32)
        for t in range(100):
            h, c = cell(xs[t], (h, c))
        h.sum().backward()
        cell.zero_grad()

    return step


def _with_grad(lib: Any, *shape: int) -> Any:
    return lib.randn(*shape, requires_grad=True)


def _where(lib: Any, F: Any) -> Callable[[], Any]:
    a, b = _with_grad(lib, 8, 8), lib.randn(8, 8)
    mask = b > 0
    return lambda: lib.where(mask, a, b)


def _where_number(lib: Any, F: Any) -> Callable[[], Any]:
    a = _with_grad(lib, 8, 8)
    mask = a.detach() > 0
    return lambda: lib.where(mask, a, 0.0)


def _clamp(lib: Any, F: Any) -> Callable[[], Any]:
    a = _with_grad(lib, 8, 8)
    return lambda: a.clamp(-1.0, 1.0)


def _clamp_one(lib: Any, F: Any) -> Callable[[], Any]:
    a = lib.randn(8, 8)
    return lambda: a.clamp(min=0.0)


def _masked_fill(lib: Any, F: Any) -> Callable[[], Any]:
    a = _with_grad(lib, 8, 8)
    mask = a.detach() > 0
    return lambda: a.masked_fill(mask, -1.0)


def _gather(lib: Any, F: Any) -> Callable[[], Any]:
    a, index = _with_grad(lib, 8, 8), lib.randint(0, 8, (8, 4))
    return lambda: a.gather(1, index)


def _layer_norm(lib: Any, F: Any) -> Callable[[], Any]:
    a, layer = lib.randn(8, 32), lib.nn.LayerNorm(32)
    return lambda: layer(a)


def _embedding(lib: Any, F: Any) -> Callable[[], Any]:
    index, layer = lib.randint(0, 10, (8,)), lib.nn.Embedding(10, 16)
    return lambda: layer(index)


def _cat(lib: Any, F: Any) -> Callable[[], Any]:
    a, b = _with_grad(lib, 8, 8), lib.randn(8, 8)
    return lambda: lib.cat([a, b], 1)


def _chunk(lib: Any, F: Any) -> Callable[[], Any]:
    a = _with_grad(lib, 8, 8)
    return lambda: a.chunk(4, 1)


def _of(made: str, call: Callable[[Any, Any, Any], Any]) -> Row:
    def make(lib: Any, F: Any) -> Callable[[], Any]:
        x = getattr(lib, made)(10)
        return lambda: call(lib, F, x)

    return make


for _name, _make in {
    "where": _where,
    "where with a number": _where_number,
    "clamp": _clamp,
    "clamp(min=)": _clamp_one,
    "masked_fill": _masked_fill,
    "gather": _gather,
    "layer_norm": _layer_norm,
    "embedding": _embedding,
    "cat": _cat,
    "chunk": _chunk,
    "rand": lambda lib, F: lambda: lib.rand(10),
    "randn": lambda lib, F: lambda: lib.randn(10),
    "randint": lambda lib, F: lambda: lib.randint(0, 10, (10,)),
    "rand_like": _of("zeros", lambda lib, F, x: lib.rand_like(x)),
    "randn_like": _of("zeros", lambda lib, F, x: lib.randn_like(x)),
    "randperm": lambda lib, F: lambda: lib.randperm(10),
    "normal_": _of("zeros", lambda lib, F, x: x.normal_()),
    "bernoulli": _of("rand", lambda lib, F, x: lib.bernoulli(x)),
    "multinomial": _of("rand", lambda lib, F, x: lib.multinomial(x, 2)),
    "dropout": _of("rand", lambda lib, F, x: F.dropout(x, 0.5)),
}.items():
    row(f"{_name}, few elements", 1.5)(_make)


@row("custom Function call", 1.0)
def _(lib: Any, F: Any) -> Callable[[], Any]:
    class Scale(lib.autograd.Function):  # type: ignore[misc, name-defined]
        @staticmethod
        def forward(ctx: Any, x: Any, factor: float) -> Any:
            ctx.factor = factor
            ctx.save_for_backward(x)
            return x * factor

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad * ctx.factor, None

    x = lib.randn(10, requires_grad=True)
    return lambda: Scale.apply(x, 2.0)


@row("hook call, forward and backward", 1.0)
def _(lib: Any, F: Any) -> Callable[[], Any]:
    x = lib.randn(10, requires_grad=True)

    def step() -> None:
        y = x * 2.0
        y.register_hook(lambda grad: grad * 3.0)
        y.sum().backward()
        x.grad = None

    return step


@row("Module call (Identity)", 1.0)
def _(lib: Any, F: Any) -> Callable[[], Any]:
    module, x = lib.nn.Identity(), lib.randn(10)
    return lambda: module(x)


@row("Module call (Linear 8x8)", 1.0)
def _(lib: Any, F: Any) -> Callable[[], Any]:
    module, x = lib.nn.Linear(8, 8), lib.randn(8, 8)
    return lambda: module(x)


def _optimizer(make: Callable[[Any, Any], Any]) -> Row:
    def row_of(lib: Any, F: Any) -> Callable[[], Any]:
        parameters = [lib.randn(32, 32, requires_grad=True) for _ in range(100)]
        for p in parameters:
            p.grad = lib.randn(32, 32)
        return make(lib, parameters).step  # type: ignore[no-any-return]

    return row_of


row("SGD step, 100 tensors", 1.0)(_optimizer(lambda lib, ps: lib.optim.SGD(ps, lr=1e-4, momentum=0.9)))
row("Adam step, 100 tensors", 1.0)(_optimizer(lambda lib, ps: lib.optim.Adam(ps, lr=1e-4)))


@row("checkpointed block, forward and backward", 1.0)
def _(lib: Any, F: Any) -> Callable[[], Any]:
    checkpoint = importlib.import_module(f"{lib.__name__}.utils.checkpoint").checkpoint
    block = lib.nn.Sequential(lib.nn.Linear(32, 64), lib.nn.GELU(), lib.nn.Linear(64, 32))
    x = lib.randn(16, 32, requires_grad=True)

    def step() -> None:
        checkpoint(block, x, use_reentrant=False).sum().backward()
        x.grad = None
        block.zero_grad()

    return step


def measure(step: Callable[[], Any], seconds: float, clock: Callable[[], float]) -> float:
    """The best mean time of a call, over batches that together take about `seconds`."""
    for _ in range(3):
        step()
    began = clock()
    step()
    once = max(clock() - began, 1e-7)
    calls = max(1, int(seconds / 8 / once))
    best = float("inf")
    for _ in range(8):
        began = clock()
        for _ in range(calls):
            step()
        best = min(best, (clock() - began) / calls)
    return best


def worker(library: str, threads: int) -> None:
    """Times the rows named on standard input, one JSON answer a line."""
    lib = importlib.import_module(library)
    functional = importlib.import_module(f"{library}.nn.functional")
    lib.set_num_threads(threads)
    clock = time.process_time if threads == 1 else time.perf_counter
    steps: dict[str, Callable[[], Any]] = {}
    for line in sys.stdin:
        name = json.loads(line)
        try:
            if name not in steps:
                lib.manual_seed(0)
                steps[name] = ROWS[name][1](lib, functional)
            answer: Any = measure(steps[name], 0.4, clock)
        except Exception as error:  # a row that fails is reported, not hidden
            answer = f"{type(error).__name__}: {error}"
        print(json.dumps(answer), flush=True)


def start(library: str, threads: int) -> subprocess.Popen[str]:
    count = str(threads)
    environment = dict(
        os.environ,
        OMP_NUM_THREADS=count,
        OPENBLAS_NUM_THREADS=count,
        MKL_NUM_THREADS=count,
        PYTHONPATH=str(ROOT),
    )
    command = [sys.executable, str(Path(__file__).resolve()), "--worker", library, "--threads", count]
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    )


def ask(process: subprocess.Popen[str], name: str) -> Any:
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(json.dumps(name) + "\n")
    process.stdin.flush()
    return json.loads(process.stdout.readline())


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", nargs="*", help="only rows whose name contains one of these")
    parser.add_argument(
        "--rounds", type=int, default=3, help="how often the two libraries take turns (default 3)"
    )
    parser.add_argument("--threads", type=int, default=2, help="threads of each library (default 2)")
    parser.add_argument("--json", help="write the results to this file")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        worker(options.worker, options.threads)
        return
    names = [n for n in ROWS if not options.rows or any(part in n for part in options.rows)]
    workers = {library: start(library, options.threads) for library in ("weft", "torch")}
    print(f"{'row':42} {'weft':>10} {'torch':>10} {'ratio':>7} {'aim':>5}")
    results = {}
    for name in names:
        times: dict[str, Any] = {}
        for _ in range(options.rounds):
            for library, process in workers.items():
                answer = ask(process, name)
                before = times.get(library)
                times[library] = (
                    min(before, answer) if isinstance(before, float) and isinstance(answer, float) else answer
                )
        results[name] = times
        aim = ROWS[name][0]
        if all(isinstance(t, float) for t in times.values()):
            ratio = times["weft"] / times["torch"]
            verdict = "" if ratio <= aim else "  misses its aim"
            print(
                f"{name:42} {times['weft'] * 1e6:8.2f}us {times['torch'] * 1e6:8.2f}us {ratio:7.2f} "
                f"{aim:5.1f}{verdict}",
                flush=True,
            )
        else:
            print(f"{name:42} {times}", flush=True)
    for process in workers.values():
        assert process.stdin is not None
        process.stdin.close()
        process.wait()
    if options.json:
        facts = {
            "machine": platform.processor() or platform.machine(),
            "python": platform.python_version(),
            "rows": results,
        }
        Path(options.json).write_text(json.dumps(facts, indent=1))


if __name__ == "__main__":
    main()
