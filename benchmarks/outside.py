"""Gradients taken outside of the compiled function: rows P to V of `peers.py`.

Takes a library shaped like torch, or jax; gives steps of one program in several forms. One idea: Weft's own
step with its gradient inside stands beside the same step with `backward()` outside, in one process and in
turns, so that what the call outside costs is seen apart from what peers cost.
"""

from __future__ import annotations

import importlib
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Step = Callable[[], Any]
"""Does a step, and gives the loss."""
PEERS = ("torch", "torch.compile", "jax", "weft")
INSIDE = "weft, gradient inside"


@dataclass(frozen=True)
class Row:
    """A program. `torch` gets a library and how to compile a function; it gives the parts that are compiled,
    in order, the last of which gives the loss, the first one's inputs, and the parameters."""

    name: str
    torch: Callable[[Any, Any], tuple[list[Any], tuple[Any, ...], list[Any]]]
    jax: Callable[[Any], Step]
    over: float = 0.0
    """How many microseconds the step may take beside the one with its gradient inside."""
    ratio: float = 1.1
    """Or how many times as long."""
    beside: tuple[tuple[str, float], ...] = ()
    """How many times faster than which peers it is to be."""


ROWS: dict[str, Row] = {}


def normal(generator: Any, *shape: int, scale: float = 1.0, dtype: Any = np.float32) -> Any:
    return (generator.standard_normal(shape) * scale).astype(dtype)


def arrays_of(shapes: list[tuple[int, ...]], dtype: Any = np.float32) -> list[Any]:
    g = np.random.default_rng(0)
    return [normal(g, *s, scale=s[-1] ** -0.5 if len(s) > 1 else 0.1, dtype=dtype) for s in shapes]


def tensors_of(lib: Any, arrays: list[Any], tracked: int) -> list[Any]:
    found = [lib.from_numpy(array.copy()) for array in arrays]
    return [each.requires_grad_() if number < tracked else each for number, each in enumerate(found)]


def jax_step(jax: Any, loss: Any, parameters: list[Any], given: tuple[Any, ...]) -> Step:
    gradients = jax.jit(jax.value_and_grad(loss))
    state = [jax.numpy.asarray(each) for each in parameters]
    inputs = [jax.numpy.asarray(each) for each in given]
    return lambda: jax.block_until_ready(gradients(state, *inputs))[0]


# -- P, Q: small losses --------------------------------------------------------------------------------------
def small(size: int) -> Row:
    arrays = arrays_of([(size,), (size,)])

    def torch(lib: Any, _functional: Any) -> Any:
        p, x = tensors_of(lib, arrays, 1)
        return [lambda x: ((x * p).tanh() - 0.5).square().mean()], (x,), [p]

    def in_jax(jax: Any) -> Step:
        loss = lambda p, x: ((jax.numpy.tanh(x * p[0]) - 0.5) ** 2).mean()
        return jax_step(jax, loss, arrays[:1], (arrays[1],))

    aims = (("jax", 1.5), ("torch", 5.0))
    return Row(f"small loss of {size} numbers, backward() outside", torch, in_jax, 5.0, 1.0, aims)


ROWS["P"], ROWS["Q"] = small(10), small(100)


# -- R: MLP --------------------------------------------------------------------------------------------------
MLP = arrays_of([(256, 784), (256,), (10, 256), (10,), (64, 784)])
CLASSES = np.random.default_rng(1).integers(0, 10, 64)


def mlp(lib: Any, F: Any) -> Any:
    w1, b1, w2, b2, x = tensors_of(lib, MLP, 4)

    def loss(x: Any, y: Any) -> Any:
        return F.cross_entropy(F.linear(F.relu(F.linear(x, w1, b1)), w2, b2), y)

    return [loss], (x, lib.from_numpy(CLASSES)), [w1, b1, w2, b2]


def jax_mlp(jax: Any) -> Step:
    def loss(p: Any, x: Any, y: Any) -> Any:
        found = jax.nn.log_softmax(jax.nn.relu(x @ p[0].T + p[1]) @ p[2].T + p[3])
        return -jax.numpy.take_along_axis(found, y[:, None], 1).mean()

    return jax_step(jax, loss, MLP[:4], (MLP[4], CLASSES))


ROWS["R"] = Row("MLP 64x784x256x10, backward() outside", mlp, jax_mlp)


# -- S: a convnet --------------------------------------------------------------------------------------------
CONVNET = arrays_of([(16, 1, 3, 3), (16,), (32, 16, 3, 3), (32,), (10, 32 * 49), (10,), (64, 1, 28, 28)])


def convnet(lib: Any, F: Any) -> Any:
    w1, b1, w2, b2, w3, b3, x = tensors_of(lib, CONVNET, 6)

    def loss(x: Any, y: Any) -> Any:
        x = F.max_pool2d(F.relu(F.conv2d(x, w1, b1, padding=1)), 2)
        x = F.max_pool2d(F.relu(F.conv2d(x, w2, b2, padding=1)), 2)
        return F.cross_entropy(F.linear(x.flatten(1), w3, b3), y)

    return [loss], (x, lib.from_numpy(CLASSES)), [w1, b1, w2, b2, w3, b3]


def jax_convnet(jax: Any) -> Step:
    def loss(p: Any, x: Any, y: Any) -> Any:
        for weight, bias in ((p[0], p[1]), (p[2], p[3])):
            x = jax.lax.conv_general_dilated(x, weight, (1, 1), "SAME") + bias[:, None, None]
            window = (1, 1, 2, 2)
            x = jax.lax.reduce_window(jax.nn.relu(x), -np.inf, jax.lax.max, window, window, "VALID")
        found = jax.nn.log_softmax(x.reshape(len(x), -1) @ p[4].T + p[5])
        return -jax.numpy.take_along_axis(found, y[:, None], 1).mean()

    return jax_step(jax, loss, CONVNET[:6], (CONVNET[6], CLASSES))


ROWS["S"] = Row("convnet on 28x28, batch 64, backward() outside", convnet, jax_convnet)


# -- T: layers that are compiled apart -----------------------------------------------------------------------
LAYERS = arrays_of([*[(64, 64), (64,)] * 6, (32, 64)])


def apart(lib: Any, F: Any) -> Any:
    *parameters, x = tensors_of(lib, LAYERS, 12)

    def layer(number: int) -> Any:
        weight, bias = parameters[2 * number : 2 * number + 2]
        return lambda x: F.linear(x, weight, bias).tanh()

    return [*map(layer, range(6)), lambda x: (x * x).mean()], (x,), parameters


def jax_apart(jax: Any) -> Step:
    def loss(p: Any, x: Any) -> Any:
        for number in range(6):
            x = jax.numpy.tanh(x @ p[2 * number].T + p[2 * number + 1])
        return (x * x).mean()

    return jax_step(jax, loss, LAYERS[:12], (LAYERS[12],))


ROWS["T"] = Row("six layers and a loss, each compiled apart", apart, jax_apart, ratio=1.5)


# -- U: second derivatives -----------------------------------------------------------------------------------
PINN = arrays_of([(20, 2), (20,), (20, 20), (20,), (1, 20), (1,), (100, 2)], np.float64)


def pinn(lib: Any, F: Any) -> Any:
    *p, points = tensors_of(lib, PINN, 7)

    def loss(at: Any) -> Any:
        u = F.linear(F.linear(F.linear(at, p[0], p[1]).tanh(), p[2], p[3]).tanh(), p[4], p[5])
        (first,) = lib.autograd.grad(u.sum(), at, create_graph=True)
        (second,) = lib.autograd.grad(first[:, 0].sum(), at, create_graph=True)
        return (first[:, 1] + u[:, 0] * first[:, 0] - 0.01 * second[:, 0]).square().mean()

    return [loss], (points,), p


def jax_pinn(jax: Any) -> Step:
    jax.config.update("jax_enable_x64", True)
    tanh = jax.numpy.tanh

    def at_point(p: Any, at: Any) -> Any:
        return (p[4] @ tanh(p[2] @ tanh(p[0] @ at + p[1]) + p[3]) + p[5])[0]

    def residual(p: Any, at: Any) -> Any:
        first = jax.grad(at_point, 1)(p, at)
        second = jax.grad(lambda at: jax.grad(at_point, 1)(p, at)[0])(at)
        return first[1] + at_point(p, at) * first[0] - 0.01 * second[0]

    def loss(p: Any, points: Any) -> Any:
        return (jax.vmap(lambda at: residual(p, at))(points) ** 2).mean()

    return jax_step(jax, loss, PINN[:6], (PINN[6],))


ROWS["U"] = Row(
    "PINN in float64 with second derivatives, backward() outside", pinn, jax_pinn, beside=(("torch", 3.0),)
)


# -- V: the transformer block of row f -----------------------------------------------------------------------
def block(lib: Any, F: Any) -> Any:
    peers = importlib.import_module("peers")
    *p, x = tensors_of(lib, peers.block_arrays(np.random.default_rng(0)), 12)
    return [lambda x: peers.block(lib, F, *p, x)], (x,), p


def jax_block(jax: Any) -> Step:
    peers = importlib.import_module("peers")
    *p, x = peers.block_arrays(np.random.default_rng(0))
    return jax_step(jax, lambda p, x: peers.jax_block(jax, *p, x), p, (x,))


ROWS["V"] = Row("transformer block 4x128x256, 4 heads, backward() outside", block, jax_block)


# -- one peer, one row ---------------------------------------------------------------------------------------
def outside(parts: list[Any], given: tuple[Any, ...], parameters: list[Any]) -> Step:
    def step() -> Any:
        for each in parameters:
            each.grad = None
        found = parts[0](*given)
        for part in parts[1:]:
            found = part(found)
        found.backward()
        return found

    return step


def steps_of(peer: str, row: Row) -> dict[str, Step]:
    """The forms of a row's step, by name."""
    lib = importlib.import_module("torch" if peer.startswith("torch") else peer)
    if peer == "jax":
        return {peer: row.jax(lib)}
    functional = importlib.import_module(f"{lib.__name__}.nn.functional")
    parts, given, parameters = row.torch(lib, functional)
    if peer == "torch":
        return {peer: outside(parts, given, parameters)}
    found = {peer: outside([lib.compile(part) for part in parts], given, parameters)}
    if peer == "weft":
        parts, given, parameters = row.torch(lib, functional)
        whole = outside(parts, given, parameters)
        found[INSIDE] = lib.compile(whole)
    return found


def measure(peer: str, letter: str, seconds: float) -> dict[str, Any]:
    """What one process finds out: the step's median times, its forms taking turns."""
    if peer.startswith("torch"):
        importlib.import_module("torch").set_num_threads(2)
    steps = steps_of(peer, ROWS[letter])
    began = time.perf_counter()
    numbers = [float(step()) for step in steps.values()]
    first = time.perf_counter() - began
    for _ in range(6):
        for step in steps.values():
            step()
    if peer == "weft":
        importlib.import_module("weft.native.cpu.tiers").wait()
    counts, times = {}, {name: [] for name in steps}  # type: dict[str, int], dict[str, list[float]]
    for name, step in steps.items():
        began = time.perf_counter()
        step()
        counts[name] = max(1, int(seconds / 20 / max(time.perf_counter() - began, 1e-7)))
    for _ in range(20):
        for name, step in steps.items():
            began = time.perf_counter()
            for _ in range(counts[name]):
                step()
            times[name].append((time.perf_counter() - began) / counts[name])
    found = {name: statistics.median(each) for name, each in times.items()}
    return {"first": first, "numbers": numbers, "steps": found}


def best(answers: list[dict[str, Any]]) -> dict[str, Any]:
    """The least figures of several processes: others disturb, and never help."""
    errors = [each for each in answers if "error" in each]
    if errors:
        return errors[0]
    steps = {name: min(each["steps"][name] for each in answers) for name in answers[0]["steps"]}
    return {"steps": steps, "numbers": answers[0]["numbers"]}


def unit(seconds: float) -> str:
    return f"{seconds * 1e6:.2f}us" if seconds < 1e-3 else f"{seconds * 1e3:.2f}ms"


def report(letter: str, results: dict[str, dict[str, Any]]) -> None:
    """A row of the table, and a line for each form of its step."""
    row = ROWS[letter]
    print(f"({letter}) {row.name}")
    known = None
    for peer, each in results.items():
        if "error" in each:
            print(f"    {peer:22} {each['error']}")
            continue
        for name, seconds in each["steps"].items():
            print(f"    {name:22} {unit(seconds):>10}")
        known = each["numbers"][0] if known is None else known
        if any(abs(one - known) > 2e-3 * max(1.0, abs(known)) for one in each["numbers"]):
            print(f"    results differ: {peer}")
    print("    " + "; ".join(verdicts(row, results)), flush=True)


def verdicts(row: Row, results: dict[str, dict[str, Any]]) -> list[str]:
    """Weft beside its own step with the gradient inside, and beside the peers; with the aims."""
    steps = {name: seconds for each in results.values() for name, seconds in each.get("steps", {}).items()}
    if "weft" not in steps:
        return ["nothing to compare"]
    own, inside = steps["weft"], steps[INSIDE]
    missed = own > inside * row.ratio + row.over * 1e-6
    aim = f"{row.over:.0f} us more" if row.over else f"{row.ratio}"
    found = [f"{own / inside:.2f} of the step inside, {unit(own - inside)} more (aim {aim}"]
    found[0] += ", MISSED)" if missed else ")"
    aims = dict(row.beside)
    for peer in PEERS[:-1]:
        if peer in steps:
            ratio = steps[peer] / own
            wanted = aims.get(peer)
            text = f" (aim {wanted}{'' if ratio >= wanted else ', MISSED'})" if wanted else ""
            found.append(f"{ratio:.2f}x {peer}{text}")
    return found
