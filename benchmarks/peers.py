"""Whole steps beside the peers: torch eager, torch.compile, jax.jit and Weft's native backend in one run.

    python benchmarks/peers.py [--rows abc...] [--peers weft jax ...] [--rounds 3] [--seconds 0.5]
                               [--isa avx2] [--json FILE]

Needs torch and jax (the `bench` extra); a peer that is not installed is left out. A row is a forward and a
backward pass (h: an optimizer's step); from k on, its calls vary: see `varying.py`; those of A to G are over
short axes: see `short.py`; from P on, gradients are taken outside: see `outside.py`. Every peer runs it in
processes of its own with two threads, the peers taking turns: `cold` is the first call in a fresh process
whose caches are empty, `warm` the same with the caches of that run, imports of the library itself not
counted; the step's time is the median over batches of calls, of the rounds' medians the middle one. `peak` is
the most that the process held during steps, `memory` the same less what it held when the library was
imported: a compiler that was loaded later is part of it. All peers get equal numbers, and their results are
compared. `--isa` holds all of them to a part of this machine's instructions.
"""

from __future__ import annotations

import argparse
import compileall
import importlib
import importlib.util
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

_found = importlib.util.find_spec("weft")
ROOT = Path(__file__ if _found is None or _found.origin is None else _found.origin).resolve().parent.parent
"""Where Weft is: beside this file's folder, or installed."""
PEERS = {"torch": "torch", "torch.compile": "torch", "jax": "jax", "weft": "weft"}
"""Peers, and the library that each needs."""
Loss = Callable[..., Any]
Step = Callable[[], Any]


@dataclass(frozen=True)
class Row:
    """A program. `loss` is for libraries shaped like torch: it gets the library, its functional module and
    tensors; `jax_loss` gets `jax` and arrays. A row that is no gradient of a loss has steps of its own.
    """

    name: str
    aim: float
    """How many times faster than the best peer Weft is to be."""
    arrays: Callable[[Any], list[Any]]
    """The inputs, from a generator of random numbers."""
    wanted: int
    """How many of them, from the first on, gradients are wanted for."""
    loss: Loss | None = None
    jax_loss: Loss | None = None
    step: Callable[[str, Any, list[Any]], Step] | None = None
    jax_step: Callable[[Any, list[Any]], Step] | None = None
    cost: str = ""
    """What bounds a step: see `limits`."""
    work: float = 0.0
    """Bytes or operations of a step."""


ROWS: dict[str, Row] = {}


def normal(generator: Any, *shape: int, scale: float = 1.0) -> Any:
    return (generator.standard_normal(shape) * scale).astype(np.float32)


# -- a: overhead ---------------------------------------------------------------------------------------------
ROWS["a"] = Row(
    "((a+b)*b).sum(), 10 elements",
    5.0,
    lambda g: [normal(g, 10), normal(g, 10)],
    2,
    lambda lib, F, a, b: ((a + b) * b).sum(),
    lambda jax, a, b: ((a + b) * b).sum(),
)

# -- b: pointwise --------------------------------------------------------------------------------------------
ROWS["b"] = Row(
    "(tanh(a*b+sin a)*exp(-b*b)).sum(), 1M",
    4.0,
    lambda g: [normal(g, 1_000_000), normal(g, 1_000_000)],
    2,
    lambda lib, F, a, b: (lib.tanh(a * b + lib.sin(a)) * lib.exp(-b * b)).sum(),
    lambda jax, a, b: (jax.numpy.tanh(a * b + jax.numpy.sin(a)) * jax.numpy.exp(-b * b)).sum(),
    cost="bytes",
    work=4 * 4e6,
)


# -- c: MLP --------------------------------------------------------------------------------------------------
def mlp_arrays(g: Any) -> list[Any]:
    parameters = [
        normal(g, 256, 784, scale=0.03),
        normal(g, 256),
        normal(g, 10, 256, scale=0.06),
        normal(g, 10),
    ]
    return [*parameters, normal(g, 64, 784), g.integers(0, 10, 64)]


def mlp(lib: Any, F: Any, w1: Any, b1: Any, w2: Any, b2: Any, x: Any, y: Any) -> Any:
    return F.nll_loss(F.log_softmax(F.linear(F.relu(F.linear(x, w1, b1)), w2, b2), -1), y)


def jax_mlp(jax: Any, w1: Any, b1: Any, w2: Any, b2: Any, x: Any, y: Any) -> Any:
    found = jax.nn.log_softmax(jax.nn.relu(x @ w1.T + b1) @ w2.T + b2)
    return -jax.numpy.take_along_axis(found, y[:, None], 1).mean()


ROWS["c"] = Row(
    "MLP 64x784x256x10, log-softmax", 1.0, mlp_arrays, 4, mlp, jax_mlp,
    cost="flops", work=2 * 64 * (784 * 256 * 2 + 256 * 10 * 3),
)  # fmt: skip


# -- d: gelu layers ------------------------------------------------------------------------------------------
def gelu_arrays(g: Any) -> list[Any]:
    weights = [normal(g, 1024, 1024, scale=0.03), normal(g, 1024), normal(g, 1024, 1024, scale=0.03)]
    return [*weights, normal(g, 1024), normal(g, 256, 1024)]


def gelu_layers(lib: Any, F: Any, w1: Any, b1: Any, w2: Any, b2: Any, x: Any) -> Any:
    return F.gelu(F.linear(F.gelu(F.linear(x, w1, b1)), w2, b2)).sum()


def jax_gelu_layers(jax: Any, w1: Any, b1: Any, w2: Any, b2: Any, x: Any) -> Any:
    gelu = jax.nn.gelu
    return gelu(gelu(x @ w1.T + b1, approximate=False) @ w2.T + b2, approximate=False).sum()


ROWS["d"] = Row(
    "two gelu layers of 1024, batch 256", 1.0, gelu_arrays, 4, gelu_layers, jax_gelu_layers,
    cost="flops", work=2 * 256 * 1024 * 1024 * 5,
)  # fmt: skip


# -- e: layer norm -------------------------------------------------------------------------------------------
def jax_norm(jax: Any, x: Any, weight: Any = None, bias: Any = None) -> Any:
    centred = x - x.mean(-1, keepdims=True)
    found = centred * jax.lax.rsqrt((centred * centred).mean(-1, keepdims=True) + 1e-5)
    return found if weight is None else found * weight + bias


ROWS["e"] = Row(
    "(layer_norm(x)**2).mean(), 4096x512",
    1.5,
    lambda g: [normal(g, 4096, 512)],
    1,
    lambda lib, F, x: (F.layer_norm(x, (512,)) ** 2).mean(),
    lambda jax, x: (jax_norm(jax, x) ** 2).mean(),
    cost="bytes",
    work=4096 * 512 * 4 * 2,
)

# -- f: a transformer block ----------------------------------------------------------------------------------
BATCH, TOKENS, WIDTH, HEADS = 4, 128, 256, 4


def block_arrays(g: Any) -> list[Any]:
    sizes = [(3 * WIDTH, WIDTH), (WIDTH, WIDTH), (4 * WIDTH, WIDTH), (WIDTH, 4 * WIDTH)]
    weights = [normal(g, *size, scale=0.06) for size in sizes]
    biases = [normal(g, size[0]) for size in sizes]
    norms = [normal(g, WIDTH) for _ in range(4)]
    return [*weights, *biases, *norms, normal(g, BATCH, TOKENS, WIDTH)]


def block(lib: Any, F: Any, wa: Any, wo: Any, w1: Any, w2: Any, ba: Any, bo: Any, b1: Any, b2: Any,
          n1: Any, m1: Any, n2: Any, m2: Any, x: Any) -> Any:  # fmt: skip
    inner = F.linear(F.layer_norm(x, (WIDTH,), n1, m1), wa, ba)
    parts = inner.reshape(BATCH, TOKENS, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
    seen = F.scaled_dot_product_attention(parts[0], parts[1], parts[2])
    x = x + F.linear(seen.transpose(1, 2).reshape(BATCH, TOKENS, WIDTH), wo, bo)
    x = x + F.linear(F.gelu(F.linear(F.layer_norm(x, (WIDTH,), n2, m2), w1, b1)), w2, b2)
    return (x * x).mean()


def jax_block(jax: Any, wa: Any, wo: Any, w1: Any, w2: Any, ba: Any, bo: Any, b1: Any, b2: Any,
              n1: Any, m1: Any, n2: Any, m2: Any, x: Any) -> Any:  # fmt: skip
    inner = jax_norm(jax, x, n1, m1) @ wa.T + ba
    q, k, v = inner.reshape(BATCH, TOKENS, 3, HEADS, WIDTH // HEADS).transpose(2, 0, 3, 1, 4)
    scores = jax.nn.softmax(q @ k.swapaxes(-1, -2) / (WIDTH // HEADS) ** 0.5, -1)
    x = x + (scores @ v).swapaxes(1, 2).reshape(BATCH, TOKENS, WIDTH) @ wo.T + bo
    hidden = jax.nn.gelu(jax_norm(jax, x, n2, m2) @ w1.T + b1, approximate=False)
    x = x + hidden @ w2.T + b2
    return (x * x).mean()


ROWS["f"] = Row(
    "transformer block 4x128x256, 4 heads", 1.1, block_arrays, 12, block, jax_block, cost="flops",
    work=2 * BATCH * TOKENS * WIDTH * (12 * WIDTH + 2 * TOKENS) * 3,
)  # fmt: skip


# -- g: a convnet --------------------------------------------------------------------------------------------
def convnet_arrays(g: Any) -> list[Any]:
    weights = [normal(g, 16, 1, 3, 3, scale=0.3), normal(g, 16), normal(g, 32, 16, 3, 3, scale=0.1)]
    more = [normal(g, 32), normal(g, 10, 32 * 49, scale=0.03), normal(g, 10)]
    return [*weights, *more, normal(g, 32, 1, 28, 28), g.integers(0, 10, 32)]


def convnet(lib: Any, F: Any, w1: Any, b1: Any, w2: Any, b2: Any, w3: Any, b3: Any, x: Any, y: Any) -> Any:
    x = F.max_pool2d(F.relu(F.conv2d(x, w1, b1, padding=1)), 2)
    x = F.max_pool2d(F.relu(F.conv2d(x, w2, b2, padding=1)), 2)
    return F.cross_entropy(F.linear(x.flatten(1), w3, b3), y)


def jax_convnet(jax: Any, w1: Any, b1: Any, w2: Any, b2: Any, w3: Any, b3: Any, x: Any, y: Any) -> Any:
    for weight, bias in ((w1, b1), (w2, b2)):
        x = jax.lax.conv_general_dilated(x, weight, (1, 1), "SAME") + bias[:, None, None]
        x = jax.lax.reduce_window(
            jax.nn.relu(x), -jax.numpy.inf, jax.lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID"
        )
    found = jax.nn.log_softmax(x.reshape(len(x), -1) @ w3.T + b3)
    return -jax.numpy.take_along_axis(found, y[:, None], 1).mean()


ROWS["g"] = Row(
    "convnet on 28x28, batch 32", 1.0, convnet_arrays, 6, convnet, jax_convnet, cost="flops",
    work=2 * 32 * (784 * 9 * 16 * 2 + 196 * 9 * 16 * 32 * 3 + 1568 * 10 * 3),
)  # fmt: skip


# -- h: Adam -------------------------------------------------------------------------------------------------
def adam_arrays(g: Any) -> list[Any]:
    return [normal(g, 1000) for _ in range(200)]


def adam_step(peer: str, lib: Any, arrays: list[Any]) -> Step:
    """Parameters and gradients are given; the step changes the parameters."""
    tensors = [lib.from_numpy(array) for array in arrays]
    parameters = [each.requires_grad_() for each in tensors[:100]]
    for each, gradient in zip(parameters, tensors[100:]):
        each.grad = gradient
    optimizer = lib.optim.Adam(parameters, lr=1e-3)
    if peer == "torch":
        return lambda: (optimizer.step(), parameters[0])[1:]
    kinds = {"weft": {"backend": "native"}}
    compiled = lib.compile(lambda: optimizer.step(), **kinds.get(peer, {}))
    return lambda: (compiled(), parameters[0])[1:]


def jax_adam(jax: Any, arrays: list[Any]) -> Step:
    np_ = jax.numpy
    given = [np_.asarray(array) for array in arrays]

    def update(state: Any, gradients: Any) -> Any:
        count, triples = state
        count = count + 1
        made = []
        for (p, m, v), g in zip(triples, gradients):
            m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
            made.append((p - 1e-3 * (m / (1 - 0.9**count)) / (np_.sqrt(v / (1 - 0.999**count)) + 1e-8), m, v))
        return count, made

    compiled = jax.jit(update, donate_argnums=0)
    state = [(np_.float32(0), [(p, np_.zeros_like(p), np_.zeros_like(p)) for p in given[:100]])]

    def step() -> Any:
        state[0] = compiled(state[0], given[100:])
        return (state[0][1][0][0],)

    return step


ROWS["h"] = Row(
    "Adam step, 100 tensors of 1,000", 3.0, adam_arrays, 0, step=adam_step, jax_step=jax_adam,
    cost="bytes", work=100 * 1000 * 4 * 7,
)  # fmt: skip


# -- i: Hessian-vector product -------------------------------------------------------------------------------
def tanh_arrays(g: Any) -> list[Any]:
    parameters = []
    for rows, columns in ((64, 16), (64, 64), (1, 64)):
        parameters += [normal(g, rows, columns, scale=columns**-0.5), normal(g, rows)]
    return [*parameters, *[normal(g, *each.shape) for each in parameters], normal(g, 64, 16)]


def tanh_mlp(tanh: Any, linear: Any, parameters: Any, x: Any) -> Any:
    w1, b1, w2, b2, w3, b3 = parameters
    return linear(tanh(linear(tanh(linear(x, w1, b1)), w2, b2)), w3, b3).sum()


def product_step(peer: str, lib: Any, arrays: list[Any]) -> Step:
    tensors = [lib.from_numpy(array) for array in arrays]
    parameters, vectors, x = tuple(tensors[:6]), tuple(tensors[6:12]), tensors[12]
    linear = lib.nn.functional.linear
    if peer == "torch.compile":  # which knows no double backward, but forward over reverse
        gradient = lib.func.grad(lambda p: tanh_mlp(lib.tanh, linear, p, x))
        compiled = lib.compile(lambda p, v: lib.func.jvp(gradient, (p,), (v,))[1])
        return lambda: compiled(parameters, vectors)
    for each in parameters:
        each.requires_grad_()

    def twice(parameters: Any, vectors: Any, x: Any) -> Any:
        loss = tanh_mlp(lib.tanh, linear, parameters, x)
        first = lib.autograd.grad(loss, parameters, create_graph=True)
        total = sum((a * b).sum() for a, b in zip(first, vectors))
        return lib.autograd.grad(total, parameters, allow_unused=True)

    made = lib.compile(twice, backend="native") if peer == "weft" else twice
    return lambda: made(parameters, vectors, x)


def jax_product(jax: Any, arrays: list[Any]) -> Step:
    given = [jax.numpy.asarray(array) for array in arrays]
    parameters, vectors, x = tuple(given[:6]), tuple(given[6:12]), given[12]
    gradient = jax.grad(lambda p, x: tanh_mlp(jax.numpy.tanh, lambda x, w, b: x @ w.T + b, p, x))
    compiled = jax.jit(lambda p, v, x: jax.jvp(lambda q: gradient(q, x), (p,), (v,))[1])
    return lambda: compiled(parameters, vectors, x)


ROWS["i"] = Row(
    "Hessian-vector product, 64x16x64x64x1", 3.0, tanh_arrays, 0, step=product_step, jax_step=jax_product,
    cost="flops", work=2 * 64 * (16 * 64 + 64 * 64 + 64) * 8,
)  # fmt: skip

# -- j: LSTM -------------------------------------------------------------------------------------------------
STEPS, CELLS, SEQUENCES = 100, 64, 8


def lstm_arrays(g: Any) -> list[Any]:
    weights = [normal(g, 4 * CELLS, CELLS, scale=0.1), normal(g, 4 * CELLS, CELLS, scale=0.1)]
    return [*weights, normal(g, 4 * CELLS), normal(g, STEPS, SEQUENCES, CELLS)]


def lstm(lib: Any, F: Any, wi: Any, wh: Any, b: Any, x: Any) -> Any:
    h = c = lib.zeros(SEQUENCES, CELLS)
    for t in range(STEPS):
        i, f, g, o = (F.linear(x[t], wi, b) + F.linear(h, wh)).chunk(4, 1)
        c = lib.sigmoid(f) * c + lib.sigmoid(i) * lib.tanh(g)
        h = lib.sigmoid(o) * lib.tanh(c)
    return (h * h).sum()


def jax_lstm(jax: Any, wi: Any, wh: Any, b: Any, x: Any) -> Any:
    def cell(state: Any, given: Any) -> Any:
        h, c = state
        i, f, g, o = jax.numpy.split(given @ wi.T + b + h @ wh.T, 4, 1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jax.numpy.tanh(g)
        return (jax.nn.sigmoid(o) * jax.numpy.tanh(c), c), None

    zero = jax.numpy.zeros((SEQUENCES, CELLS), "float32")
    (h, _), _ = jax.lax.scan(cell, (zero, zero), x)
    return (h * h).sum()


ROWS["j"] = Row(
    "100 steps of an LSTM cell of 64, batch 8", 3.0, lstm_arrays, 3, lstm, jax_lstm, cost="flops",
    work=2 * STEPS * SEQUENCES * CELLS * 4 * CELLS * 2 * 2.75,
)  # fmt: skip


# -- one peer, one row ---------------------------------------------------------------------------------------
def prepared(peer: str, row: Row) -> Step:
    """The row's step; it gives the loss, if there is one, and gradients."""
    arrays = row.arrays(np.random.default_rng(0))
    lib = importlib.import_module(PEERS[peer])
    if peer == "jax":
        return jax_prepared(lib, row, arrays)
    if row.step is not None:
        return row.step(peer, lib, arrays)
    functional = importlib.import_module(f"{lib.__name__}.nn.functional")
    tensors = tuple([lib.from_numpy(array) for array in arrays])
    for each in tensors[: row.wanted]:
        each.requires_grad_()
    loss = row.loss
    assert loss is not None

    def forward(*given: Any) -> Any:
        return loss(lib, functional, *given)

    def both(*given: Any) -> Any:
        found = forward(*given)
        return (found, *lib.autograd.grad(found, given[: row.wanted]))

    if peer == "weft":
        compiled = lib.compile(both, backend="native")
        return lambda: compiled(*tensors)
    if peer == "torch":
        return lambda: both(*tensors)
    first = lib.compile(forward)

    def step() -> Any:
        found = first(*tensors)
        return (found, *lib.autograd.grad(found, tensors[: row.wanted]))

    return step


def jax_prepared(jax: Any, row: Row, arrays: list[Any]) -> Step:
    if row.jax_step is not None:
        return row.jax_step(jax, arrays)
    given = tuple([jax.numpy.asarray(array) for array in arrays])
    gradient = jax.value_and_grad(lambda *a: row.jax_loss(jax, *a), tuple(range(row.wanted)))  # type: ignore[misc]
    compiled = jax.jit(gradient)
    return lambda: (lambda found: (found[0], *found[1]))(compiled(*given))


def held(field: str) -> float:
    """Megabytes: VmRSS, or VmHWM, the most since that was last cleared."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) / 1024
    return 0.0


def finished(peer: str, results: Any) -> Any:
    """The results, once they are there."""
    if peer == "jax":
        importlib.import_module("jax").block_until_ready(results)
    return results


def numbers(results: Any) -> list[float]:
    """A few numbers of each result, by which peers are compared."""
    found = []
    for each in results:
        if each is None:  # as good as zeros
            found += [0.0, 0.0]
            continue
        array = np.asarray(each.detach() if hasattr(each, "detach") else each, np.float64)
        found += [float(array.sum()), float(np.abs(array).sum())]
    return found


def beside(name: str) -> Any:
    """A module of more rows, which stands beside this one in a checkout; a wheel has this one alone."""
    found = Path(__file__).with_name(f"{name}.py").is_file()
    return importlib.import_module(name) if found else SimpleNamespace(ROWS={}, PEERS={})


def varying() -> Any:
    """The rows whose calls vary."""
    return beside("varying")


def outside() -> Any:
    """The rows whose gradients are taken outside of what is compiled, likewise."""
    return beside("outside")


def short() -> Any:
    """The rows over short axes, likewise."""
    return beside("short")


def row_called(name: str) -> Row:
    """A row by its letter, which a size follows where it has several."""
    return ROWS[name] if name in ROWS else short().found(name)  # type: ignore[no-any-return]


# -- what machines have --------------------------------------------------------------------------------------
HELD = "BENCHMARK_ISA"
ISAS: dict[str, dict[str, str]] = {
    "avx2": {
        "OPENBLAS_CORETYPE": "Haswell",
        "NPY_DISABLE_CPU_FEATURES": "X86_V4 AVX512_ICL AVX512_SPR",
        "ATEN_CPU_CAPABILITY": "avx2",
        "ONEDNN_MAX_CPU_ISA": "AVX2",
        "MKL_ENABLE_INSTRUCTIONS": "AVX2",
        "XLA_FLAGS": "--xla_cpu_max_isa=AVX2",
    }
}
"""What holds peers, and the libraries that they call, to a part of this machine's instructions."""


def held_to(isa: str) -> None:
    """Has all processes that are started from now on use no more than these instructions."""
    if isa:
        os.environ.update(ISAS[isa], **{HELD: isa})


def hold_compiler() -> None:
    """The same for what Weft compiles, in this process: LLVM is told of a smaller machine."""
    if os.environ.get(HELD) != "avx2":
        return
    llvm = importlib.import_module("llvmlite.binding")
    features = llvm.get_host_cpu_features()
    features.update(dict.fromkeys([each for each in features if each.startswith("avx512")], False))
    vars(llvm).update(get_host_cpu_name=lambda: "haswell", get_host_cpu_features=lambda: features)


def measure(peer: str, letter: str, seconds: float) -> dict[str, Any]:
    """All that one process finds out."""
    if peer == "weft":
        hold_compiler()
    if letter in outside().ROWS:
        return dict(outside().measure(peer, letter, seconds or 0.5))
    if letter in varying().ROWS:
        return dict(varying().measure(peer, letter, lambda result: finished(peer, result)))
    lib = importlib.import_module(PEERS[peer])
    if PEERS[peer] == "torch":
        lib.set_num_threads(2)
    base = held("VmRSS")
    step = prepared(peer, row_called(letter))
    began = time.perf_counter()
    results = finished(peer, step())
    first = time.perf_counter() - began
    answer = {"first": first, "numbers": numbers(results)}
    if not seconds:
        return answer
    for _ in range(4):
        finished(peer, step())
    if peer == "weft":
        importlib.import_module(
            "weft.native.cpu.tiers"
        ).wait()  # drafts are compiled again: others are done by now
    del results
    Path("/proc/self/clear_refs").write_text("5")
    began = time.perf_counter()
    finished(peer, step())
    calls = max(1, int(seconds / 10 / max(time.perf_counter() - began, 1e-7)))
    times = []
    for _ in range(10):
        began = time.perf_counter()
        for _ in range(calls):
            finished(peer, step())
        times.append((time.perf_counter() - began) / calls)
    peak = held("VmHWM")
    return {**answer, "step": statistics.median(times), "peak": peak, "memory": peak - base}


# -- all together --------------------------------------------------------------------------------------------
def environment(folder: str, threads: int = 2) -> dict[str, str]:
    """Variables of a fresh process: how many threads, and all caches in this folder."""
    many = str(threads)
    return dict(
        os.environ, OMP_NUM_THREADS=many, OPENBLAS_NUM_THREADS=many, MKL_NUM_THREADS=many,
        PYTHONPATH=str(ROOT),
        TORCHINDUCTOR_CACHE_DIR=f"{folder}/inductor", WEFT_CACHE_DIR=f"{folder}/weft", WEFT_NUM_THREADS=many,
        TRITON_CACHE_DIR=f"{folder}/triton", JAX_COMPILATION_CACHE_DIR=f"{folder}/jax", JAX_PLATFORMS="cpu",
        JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS="0", JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES="-1",
    )  # fmt: skip


def asked(peer: str, letter: str, seconds: float, folder: str) -> dict[str, Any]:
    """What a fresh process finds out, with its caches in this folder."""
    command = [sys.executable, str(Path(__file__).resolve()), "--worker", peer, letter, str(seconds)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(folder), check=False)
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        return {"error": lines[-1][:200] if lines else f"ended with {done.returncode}"}
    return dict(json.loads(done.stdout.strip().splitlines()[-1]))


def row_of(letter: str, peers: list[str], rounds: int, seconds: float) -> dict[str, dict[str, Any]]:
    """Peers take turns; each round has a cold and a warm process."""
    found: dict[str, list[dict[str, Any]]] = {peer: [] for peer in peers}
    for _ in range(rounds):
        for peer in peers:
            with tempfile.TemporaryDirectory() as folder:
                cold = asked(peer, letter, 0, folder)
                warm = asked(peer, letter, seconds, folder)
            both = {**warm, "cold": cold.get("first"), "warm": warm.get("first")}
            both.update({"error": cold["error"]} if "error" in cold else {})
            found[peer].append(both)
    made: dict[str, dict[str, Any]] = {}
    for peer, answers in found.items():
        errors = [each["error"] for each in answers if "error" in each]
        if errors:
            made[peer] = {"error": errors[0]}
            continue
        made[peer] = {
            key: statistics.median(each[key] for each in answers)
            for key in ("step", "cold", "warm", "peak", "memory")
        }
        made[peer]["numbers"] = answers[0]["numbers"]
    return made


def varying_row(letter: str, peers: list[str], rounds: int) -> dict[str, dict[str, Any]]:
    """The same of a row whose calls vary: processes with empty caches."""
    found: dict[str, list[dict[str, Any]]] = {peer: [] for peer in peers}
    for _ in range(rounds):
        for peer in peers:
            with tempfile.TemporaryDirectory() as folder:
                found[peer].append(asked(peer, letter, 0, folder))
    if letter in outside().ROWS:
        return {peer: outside().best(answers) for peer, answers in found.items()}
    return {peer: varying().best(varying().ROWS[letter], answers) for peer, answers in found.items()}


def differing(results: dict[str, dict[str, Any]]) -> list[str]:
    """Peers whose results are not those of the first one."""
    known = [(peer, each["numbers"]) for peer, each in results.items() if "numbers" in each]
    wrong = []
    for peer, given in known[1:]:
        pairs = list(zip(known[0][1], given))
        scale = max(1.0, *[abs(a) for a, _ in pairs])
        if len(given) != len(known[0][1]) or any(abs(a - b) > 2e-3 * scale for a, b in pairs):
            wrong.append(peer)
    return wrong


def limits() -> dict[str, float]:
    """Seconds that a byte and an operation take here, at best: of a sum of arrays, of a large product."""
    a = np.ones(8_000_000, np.float32)
    b = np.ones((1024, 1024), np.float32)
    out = np.empty_like(a)
    best = {"bytes": float("inf"), "flops": float("inf")}
    for _ in range(5):
        began = time.perf_counter()
        np.add(a, 1.0, out=out)
        best["bytes"] = min(best["bytes"], (time.perf_counter() - began) / 64e6)
        began = time.perf_counter()
        b @ b
        best["flops"] = min(best["flops"], (time.perf_counter() - began) / 2**31)
    return best


def unit(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    return f"{seconds * 1e6:.1f}us" if seconds < 1e-3 else f"{seconds * 1e3:.1f}ms"


def report(letter: str, results: dict[str, dict[str, Any]], floor: dict[str, float]) -> None:
    """A row of the table, and a line for each peer."""
    row = row_called(letter)
    least = f", at least {unit(row.work * floor[row.cost])} by {row.cost}" if row.cost else ""
    print(f"({letter}) {row.name}{least}")
    for peer, each in results.items():
        if "error" in each:
            print(f"    {peer:14} {each['error']}")
            continue
        print(
            f"    {peer:14} step {unit(each['step']):>9}  cold {unit(each['cold']):>9}  "
            f"warm {unit(each['warm']):>9}  peak {each['peak']:6.1f} MB  memory {each['memory']:6.1f} MB"
        )
    wrong = differing(results)
    if wrong:
        print(f"    results differ: {', '.join(wrong)}")
    print("    " + verdict(row, results), flush=True)


def verdict(row: Row, results: dict[str, dict[str, Any]]) -> str:
    """Weft beside the best peer, with the aims."""
    own = results.get("weft", {})
    others = {peer: each for peer, each in results.items() if peer != "weft" and "step" in each}
    if "step" not in own or not others:
        return "nothing to compare"
    best = min(others, key=lambda peer: float(others[peer]["step"]))
    ratio = others[best]["step"] / own["step"]
    parts = [f"{ratio:.2f}x {best} (aim {row.aim}{'' if ratio >= row.aim else ', MISSED'})"]
    aims = (("jax", "cold", 1.0), ("torch.compile", "cold", 0.1), ("torch", "peak", 1.0))
    for peer, key, most in aims:
        if peer in others:
            part = own[key] / max(others[peer][key], 1e-9)
            parts.append(f"{key} {part:.2f} of {peer}'s (aim {most}{'' if part <= most else ', MISSED'})")
    return "; ".join(parts)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    rows = "".join([*ROWS, *varying().ROWS, *short().ROWS, *outside().ROWS])
    parser.add_argument("--rows", default=rows, help="letters of rows (default: all)")
    libraries = PEERS | varying().PEERS
    parser.add_argument("--peers", nargs="*", default=list(libraries), choices=list(libraries))
    parser.add_argument("--rounds", type=int, default=3, help="how often the peers take turns (default 3)")
    parser.add_argument("--seconds", type=float, default=0.5, help="how long a process times steps")
    parser.add_argument("--isa", choices=list(ISAS), default="", help="hold all peers to these instructions")
    parser.add_argument("--json", help="write the results to this file")
    parser.add_argument("--worker", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        peer, letter, seconds = options.worker
        print(json.dumps(measure(peer, letter, float(seconds))))
        return
    held_to(options.isa)
    peers = []
    for peer in options.peers:
        if libraries[peer] == "weft" or importlib.util.find_spec(libraries[peer]) is not None:
            peers.append(peer)
        else:
            print(f"{peer} is left out: {libraries[peer]} is not installed")
    compileall.compile_dir(ROOT / "weft", quiet=2)  # as installing does: peers are installed, too
    floor = limits()
    print(f"{platform.platform()}, {1e-9 / floor['bytes']:.1f} GB/s, {1e-9 / floor['flops']:.0f} GFLOP/s")
    results = {}
    for letter in options.rows:
        if letter in outside().ROWS:
            results[letter] = varying_row(letter, [each for each in peers if each in PEERS], options.rounds)
            outside().report(letter, results[letter])
            continue
        if letter in short().ROWS:
            continue  # all together, at the end
        if letter not in ROWS:
            results[letter] = varying_row(letter, peers, options.rounds)
            varying().report(letter, results[letter])
            continue
        results[letter] = row_of(
            letter, [each for each in peers if each in PEERS], options.rounds, options.seconds
        )
        report(letter, results[letter], floor)
    letters = "".join([letter for letter in options.rows if letter in short().ROWS])
    if letters:
        known = [each for each in peers if each in PEERS]
        results.update(short().run(letters, short().SIZES, known, options.rounds, options.seconds))
    if options.json:
        Path(options.json).write_text(json.dumps({"limits": floor, "rows": results}, indent=1))


if __name__ == "__main__":
    main()
