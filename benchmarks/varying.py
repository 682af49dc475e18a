"""Programs whose sizes or numbers are others in every call: the rows of `peers.py` from k on.

Takes a library shaped like torch, or jax; gives a function of the number of a call. One idea: what is
measured is a run of calls, compiling included, beside calls that always have the numbers of one of them.
"""

from __future__ import annotations

import importlib
import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Call = Callable[[int], Any]
"""Does the call of a number; gives the loss, or another number by which peers are compared."""


@dataclass(frozen=True)
class Row:
    """A program: `torch` gets a peer's name, its library and how to compile a function; `jax` gets jax."""

    name: str
    calls: int
    kinds: int
    """How many of them, from the first on, are all different; then the same come again."""
    torch: Callable[[str, Any, Callable[[Any], Any]], Call]
    jax: Callable[[Any], Call] | None = None
    programs: int | None = None
    """How many programs Weft may build."""
    settled: int | None = None
    """After so many calls, it may build none."""
    over: tuple[str, float] | None = None
    """How many times faster than which peer Weft is to be, over all calls."""
    fixed: Callable[[str, Any, Callable[[Any], Any]], Call] | None = None
    """The same with numbers that are literals, if not with those of one call in all."""
    compared: bool = True
    """Whether peers have equal results: random numbers are everybody's own."""


ROWS: dict[str, Row] = {}
PEERS = {
    "torch": "torch",
    "torch.compile": "torch",
    "torch.compile dynamic": "torch",
    "jax": "jax",
    "weft": "weft",
}
"""Peers, and the library that each needs."""


def normal(generator: Any, *shape: int, scale: float = 1.0, dtype: Any = np.float32) -> Any:
    return (generator.standard_normal(shape) * scale).astype(dtype)


def filled(lib: Any, module: Any, seed: int = 0) -> Any:
    """A module with parameters that are the same in every library."""
    generator = np.random.default_rng(seed)
    with lib.no_grad():
        for each in module.parameters():
            shape = tuple(each.shape)
            scale = shape[-1] ** -0.5 if len(shape) > 1 else 0.1
            each.copy_(lib.from_numpy(normal(generator, *shape, scale=scale)).to(each.dtype))
    return module


def parameters_of(build: Callable[[Any], Any]) -> list[Any]:
    """The arrays that `filled` would give the parameters of a module: shapes are told by the caller."""
    generator = np.random.default_rng(0)
    made = []
    for shape in build(None):
        scale = shape[-1] ** -0.5 if len(shape) > 1 else 0.1
        made.append(normal(generator, *shape, scale=scale))
    return made


def tensors(lib: Any, batches: Sequence[Sequence[Any]]) -> list[tuple[Any, ...]]:
    return [tuple([lib.from_numpy(array) for array in batch]) for batch in batches]


def sizes_of(count: int, low: int, high: int, seed: int = 1) -> list[int]:
    """So many different sizes, in no order."""
    generator = np.random.default_rng(seed)
    return [int(each) for each in generator.permutation(np.arange(low, high))[:count]]


def jax_trained(
    jax: Any, loss: Callable[..., Any], parameters: list[Any], batches: Sequence[Any], rate: float
) -> Call:
    """Steps of gradient descent, compiled whole."""
    state = [[jax.numpy.asarray(each) for each in parameters]]
    given = [tuple([jax.numpy.asarray(array) for array in batch]) for batch in batches]

    def update(parameters: Any, *batch: Any) -> Any:
        found, gradients = jax.value_and_grad(loss)(parameters, *batch)
        return found, [p - rate * g for p, g in zip(parameters, gradients)]

    compiled = jax.jit(update)

    def call(number: int) -> Any:
        found, state[0] = compiled(state[0], *given[number % len(given)])
        return found

    return call


def trained(
    lib: Any, compiled: Callable[[Any], Any], net: Any, loss: Any, batches: Sequence[Any], rate: float
) -> Call:
    """Steps of gradient descent, as they are written by everybody."""
    optimizer = lib.optim.SGD(net.parameters(), lr=rate)
    given = tensors(lib, batches)

    def step(*batch: Any) -> Any:
        optimizer.zero_grad()
        found = loss(net, *batch)
        found.backward()
        optimizer.step()
        return found.detach()

    made = compiled(step)
    return lambda number: made(*given[number % len(given)])


# -- k: MLP --------------------------------------------------------------------------------------------------
def mlp_batches() -> list[Any]:
    g = np.random.default_rng(2)
    return [(normal(g, n, 784), g.integers(0, 10, n)) for n in sizes_of(100, 16, 116)]


def mlp(_peer: str, lib: Any, compiled: Any) -> Call:
    nn = lib.nn
    net = filled(lib, nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 10)))
    cross_entropy = nn.functional.cross_entropy
    return trained(lib, compiled, net, lambda net, x, y: cross_entropy(net(x), y), mlp_batches(), 0.01)


def jax_cross_entropy(jax: Any, scores: Any, y: Any) -> Any:
    return -jax.numpy.take_along_axis(jax.nn.log_softmax(scores), y[:, None], 1).mean()


def jax_mlp(jax: Any) -> Call:
    parameters = parameters_of(lambda _: [(256, 784), (256,), (10, 256), (10,)])

    def loss(p: Any, x: Any, y: Any) -> Any:
        return jax_cross_entropy(jax, jax.nn.relu(x @ p[0].T + p[1]) @ p[2].T + p[3], y)

    return jax_trained(jax, loss, parameters, mlp_batches(), 0.01)


ROWS["k"] = Row(
    "MLP step over 100 batch sizes, 200 calls", 200, 100, mlp, jax_mlp, 3, over=("torch.compile dynamic", 3.0)
)


# -- l: LSTM -------------------------------------------------------------------------------------------------
STEPS, WIDTH, CELLS = 20, 32, 64


def lstm_batches() -> list[Any]:
    g = np.random.default_rng(3)
    return [(normal(g, n, STEPS, WIDTH), normal(g, n, STEPS, 8)) for n in sizes_of(50, 2, 66)]


def lstm(_peer: str, lib: Any, compiled: Any) -> Call:
    nn = lib.nn

    class Net(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.cells = nn.LSTM(WIDTH, CELLS, batch_first=True)
            self.out = nn.Linear(CELLS, 8)

        def forward(self, x: Any) -> Any:
            return self.out(self.cells(x)[0])

    mse = nn.functional.mse_loss
    return trained(lib, compiled, filled(lib, Net()), lambda net, x, y: mse(net(x), y), lstm_batches(), 0.1)


def jax_lstm(jax: Any) -> Call:
    np_ = jax.numpy
    shapes = [(4 * CELLS, WIDTH), (4 * CELLS, CELLS), (4 * CELLS,), (4 * CELLS,), (8, CELLS), (8,)]

    def loss(p: Any, x: Any, y: Any) -> Any:
        def cell(state: Any, given: Any) -> Any:
            h, c = state
            i, f, g, o = np_.split(given @ p[0].T + p[2] + h @ p[1].T + p[3], 4, 1)
            c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * np_.tanh(g)
            h = jax.nn.sigmoid(o) * np_.tanh(c)
            return (h, c), h

        zero = np_.zeros((len(x), CELLS), "float32")
        _, found = jax.lax.scan(cell, (zero, zero), x.swapaxes(0, 1))
        return ((found.swapaxes(0, 1) @ p[4].T + p[5] - y) ** 2).mean()

    return jax_trained(jax, loss, parameters_of(lambda _: shapes), lstm_batches(), 0.1)


ROWS["l"] = Row(
    "LSTM of 20 steps over 50 batch sizes, 200 calls", 200, 50, lstm, jax_lstm, 4, over=("best compiler", 5.0)
)


# -- m: a convnet --------------------------------------------------------------------------------------------
def convnet_batches() -> list[Any]:
    g = np.random.default_rng(4)
    return [(normal(g, n, 1, 28, 28), g.integers(0, 10, n)) for n in sizes_of(50, 4, 60)]


def convnet(_peer: str, lib: Any, compiled: Any) -> Call:
    nn = lib.nn
    layers = [nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
    layers += [nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(1568, 10)]
    net = filled(lib, nn.Sequential(*layers))
    cross_entropy = nn.functional.cross_entropy
    return trained(lib, compiled, net, lambda net, x, y: cross_entropy(net(x), y), convnet_batches(), 0.01)


def jax_convnet(jax: Any) -> Call:
    shapes = [(16, 1, 3, 3), (16,), (32, 16, 3, 3), (32,), (10, 1568), (10,)]

    def loss(p: Any, x: Any, y: Any) -> Any:
        for weight, bias in ((p[0], p[1]), (p[2], p[3])):
            x = jax.nn.relu(jax.lax.conv_general_dilated(x, weight, (1, 1), "SAME") + bias[:, None, None])
            x = jax.lax.reduce_window(x, -jax.numpy.inf, jax.lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")
        return jax_cross_entropy(jax, x.reshape(len(x), -1) @ p[4].T + p[5], y)

    return jax_trained(jax, loss, parameters_of(lambda _: shapes), convnet_batches(), 0.01)


ROWS["m"] = Row(
    "convnet over 50 batch sizes, 200 calls", 200, 50, convnet, jax_convnet, 4, over=("best compiler", 5.0)
)


# -- n: a padded transformer ---------------------------------------------------------------------------------
WORDS, MODEL, HEADS, LONGEST = 100, 64, 4, 64


def padded_batches() -> list[Any]:
    g = np.random.default_rng(5)
    batches = []
    for n, length in zip(sizes_of(50, 2, 60, 6), sizes_of(50, 8, LONGEST, 7)):
        lengths = g.integers(2, length + 1, n)
        lengths[0] = length
        padded = np.arange(length)[None] >= lengths[:, None]
        words = np.where(padded, 0, g.integers(1, WORDS, (n, length)))
        batches.append((words, padded, g.integers(0, 10, n)))
    return batches


def transformer(_peer: str, lib: Any, compiled: Any) -> Call:
    nn = lib.nn

    class Net(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.words = nn.Embedding(WORDS, MODEL)
            self.places = nn.Embedding(LONGEST, MODEL)
            self.layers = nn.ModuleList(
                [
                    nn.TransformerEncoderLayer(MODEL, HEADS, 128, 0.0, "gelu", batch_first=True)
                    for _ in range(2)
                ]
            )
            self.out = nn.Linear(MODEL, 10)

        def forward(self, words: Any, padded: Any) -> Any:
            x = self.words(words) + self.places(lib.arange(words.shape[1]))
            for layer in self.layers:
                x = layer(x, src_key_padding_mask=padded)
            kept = (~padded).unsqueeze(-1).to(x.dtype)
            return self.out((x * kept).sum(1) / kept.sum(1))

    def loss(net: Any, words: Any, padded: Any, y: Any) -> Any:
        return nn.functional.cross_entropy(net(words, padded), y)

    return trained(lib, compiled, filled(lib, Net()), loss, padded_batches(), 0.05)


def jax_transformer(jax: Any) -> Call:
    np_ = jax.numpy
    layer = [(3 * MODEL, MODEL), (3 * MODEL,), (MODEL, MODEL), (MODEL,), (128, MODEL), (128,), (MODEL, 128)]
    layer += [(MODEL,)] * 5
    shapes = [(WORDS, MODEL), (LONGEST, MODEL), *layer, *layer, (10, MODEL), (10,)]

    def norm(x: Any, weight: Any, bias: Any) -> Any:
        centred = x - x.mean(-1, keepdims=True)
        return centred * jax.lax.rsqrt((centred * centred).mean(-1, keepdims=True) + 1e-5) * weight + bias

    def loss(p: Any, words: Any, padded: Any, y: Any) -> Any:
        n, length = words.shape
        x = p[0][words] + p[1][:length]
        for start in (2, 14):
            wa, ba, wo, bo, w1, b1, w2, b2, n1, m1, n2, m2 = p[start : start + 12]
            parts = (x @ wa.T + ba).reshape(n, length, 3, HEADS, MODEL // HEADS).transpose(2, 0, 3, 1, 4)
            scores = parts[0] @ parts[1].swapaxes(-1, -2) / (MODEL // HEADS) ** 0.5
            scores = np_.where(padded[:, None, None], -np_.inf, scores)
            seen = (jax.nn.softmax(scores, -1) @ parts[2]).swapaxes(1, 2).reshape(n, length, MODEL)
            x = norm(x + seen @ wo.T + bo, n1, m1)
            x = norm(x + jax.nn.gelu(x @ w1.T + b1, approximate=False) @ w2.T + b2, n2, m2)
        kept = (~padded)[..., None].astype(x.dtype)
        return jax_cross_entropy(jax, (x * kept).sum(1) / kept.sum(1) @ p[26].T + p[27], y)

    return jax_trained(jax, loss, parameters_of(lambda _: shapes), padded_batches(), 0.05)


ROWS["n"] = Row(
    "padded transformer over 50 batches and lengths, 200 calls", 200, 50, transformer, jax_transformer, 4,
    over=("best compiler", 5.0),
)  # fmt: skip


# -- o: a loop of training -----------------------------------------------------------------------------------
def schedule_at(step: int) -> float:
    """Warm-up, then a cosine."""
    return (step + 1) / 4 if step < 4 else 0.5 * (1 + math.cos(math.pi * min(step - 4, 100) / 100))


def loop_batches() -> list[Any]:
    g = np.random.default_rng(8)
    return [(normal(g, 32, 64), normal(g, 32, 64)) for _ in range(16)]


def loop(_peer: str, lib: Any, compiled: Any) -> Call:
    nn = lib.nn
    net = filled(lib, nn.Sequential(nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 64)))
    optimizer = lib.optim.AdamW(net.parameters(), lr=1e-3)
    schedule = lib.optim.lr_scheduler.LambdaLR(optimizer, schedule_at)
    history: dict[str, list[Any]] = {"loss": [], "norm": []}
    given = tensors(lib, loop_batches())

    def step(x: Any, y: Any, last: bool) -> Any:
        loss = nn.functional.mse_loss(net(x), y) / 4
        loss.backward()
        history["loss"].append(loss.detach())
        if last:
            history["norm"].append(nn.utils.clip_grad_norm_(net.parameters(), 1.0))
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
        return loss.detach()

    made = compiled(step)
    return lambda number: made(*given[number % 16], number % 4 == 3)


ROWS["o"] = Row(
    "AdamW, clipping, schedule, accumulation over 4, history; 400 calls",
    400,
    400,
    loop,
    None,
    None,
    24,
    ("torch", 5.0),
)


# -- p, q: a force field -------------------------------------------------------------------------------------
FEATURES, BASIS = 16, 8


def atoms_batches(dtype: Any) -> list[Any]:
    g = np.random.default_rng(9)
    batches = []
    for atoms in g.integers(10, 40, 60):
        edges = int(atoms) * 6 + int(g.integers(0, 20))
        first = g.integers(0, atoms, edges)
        second = (first + g.integers(1, atoms, edges)) % atoms
        place = normal(g, atoms, 3, scale=2.0, dtype=dtype)
        batches.append((place, g.integers(0, 4, atoms), first, second, normal(g, atoms, 3, dtype=dtype)))
    return batches


def force_field(dtype: Any) -> Callable[[str, Any, Any], Call]:
    def prepared(_peer: str, lib: Any, compiled: Any) -> Call:
        nn = lib.nn

        class Net(nn.Module):  # type: ignore[misc, name-defined]
            def __init__(self) -> None:
                super().__init__()
                self.kinds = nn.Embedding(4, FEATURES)
                self.filters = nn.ModuleList([nn.Linear(BASIS, FEATURES) for _ in range(2)])
                self.updates = nn.ModuleList([nn.Linear(FEATURES, FEATURES) for _ in range(2)])
                self.out = nn.Linear(FEATURES, 1)

            def forward(self, place: Any, kinds: Any, first: Any, second: Any) -> Any:
                away = place[second] - place[first]
                distance = (away * away).sum(-1, keepdim=True).sqrt()
                centres = lib.linspace(0.0, 4.0, BASIS, dtype=place.dtype)
                basis = lib.exp(-((distance - centres) ** 2))
                state = self.kinds(kinds)
                for filters, update in zip(self.filters, self.updates):
                    messages = state[second] * lib.tanh(filters(basis))
                    gathered = lib.zeros_like(state).index_add(0, first, messages)
                    state = state + lib.tanh(update(gathered))
                return self.out(state).sum()

        net = filled(lib, Net().to(getattr(lib, dtype)))
        optimizer = lib.optim.Adam(net.parameters(), lr=1e-3)
        given = tensors(lib, atoms_batches(getattr(np, dtype)))

        def step(place: Any, kinds: Any, first: Any, second: Any, forces: Any) -> Any:
            place = place.detach().requires_grad_()
            energy = net(place, kinds, first, second)
            (slope,) = lib.autograd.grad(energy, place, create_graph=True)
            loss = ((slope + forces) ** 2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss.detach()

        made = compiled(step)
        return lambda number: made(*given[number % len(given)])

    return prepared


def jax_force_field(dtype: str) -> Callable[[Any], Call]:
    def prepared(jax: Any) -> Call:
        np_ = jax.numpy
        jax.config.update("jax_enable_x64", dtype == "float64")
        hidden = [(FEATURES, BASIS), (FEATURES,)] * 2 + [(FEATURES, FEATURES), (FEATURES,)] * 2
        shapes = [(4, FEATURES), *hidden, (1, FEATURES), (1,)]
        parameters = [each.astype(dtype) for each in parameters_of(lambda _: shapes)]

        def energy(place: Any, p: Any, kinds: Any, first: Any, second: Any) -> Any:
            away = place[second] - place[first]
            distance = np_.sqrt((away * away).sum(-1, keepdims=True))
            basis = np_.exp(-((distance - np_.linspace(0.0, 4.0, BASIS, dtype=dtype)) ** 2))
            state = p[0][kinds]
            for number in range(2):
                filters, update = p[1 + 2 * number :], p[5 + 2 * number :]
                messages = state[second] * np_.tanh(basis @ filters[0].T + filters[1])
                gathered = np_.zeros_like(state).at[first].add(messages)
                state = state + np_.tanh(gathered @ update[0].T + update[1])
            return (state @ p[9].T + p[10]).sum()

        def loss(p: Any, place: Any, kinds: Any, first: Any, second: Any, forces: Any) -> Any:
            return ((jax.grad(energy)(place, p, kinds, first, second) + forces) ** 2).mean()

        def update(state: Any, *batch: Any) -> Any:
            count, p, m, v = state
            found, slopes = jax.value_and_grad(loss)(p, *batch)
            count = count + 1
            m = [0.9 * a + 0.1 * g for a, g in zip(m, slopes)]
            v = [0.999 * a + 0.001 * g * g for a, g in zip(v, slopes)]
            p = [
                a - 1e-3 * (b / (1 - 0.9**count)) / (np_.sqrt(c / (1 - 0.999**count)) + 1e-8)
                for a, b, c in zip(p, m, v)
            ]
            return found, (count, p, m, v)

        compiled = jax.jit(update)
        zeros = [np_.zeros_like(each) for each in parameters]
        state = [(np_.asarray(0.0, dtype), [np_.asarray(each) for each in parameters], zeros, zeros)]
        given = [
            tuple([np_.asarray(array) for array in batch]) for batch in atoms_batches(getattr(np, dtype))
        ]

        def call(number: int) -> Any:
            found, state[0] = compiled(state[0], *given[number % len(given)])
            return found

        return call

    return prepared


for letter, kind in (("p", "float32"), ("q", "float64")):
    ROWS[letter] = Row(
        f"force field, {kind}: 60 molecules, all of other sizes", 120, 60, force_field(kind),
        jax_force_field(kind), 4, over=("torch", 5.0),
    )  # fmt: skip


# -- r to u: options that vary -------------------------------------------------------------------------------
LENGTH = 4096
KINDS = 101


def option(number: int) -> float:
    """Another number in each call."""
    return 0.25 + 0.5 * ((number * 37) % 101) / 101


def with_options(step: Callable[..., Any], literal: bool) -> Callable[[str, Any, Any], Call]:
    """A loss with a number, and its gradient; the number is the first call's where it is a literal."""

    def prepared(_peer: str, lib: Any, compiled: Any) -> Call:
        g = np.random.default_rng(10)
        x = lib.from_numpy(normal(g, LENGTH // 16, 16)).requires_grad_()
        y = lib.from_numpy(g.integers(0, 16, LENGTH // 16))
        first = option(0)

        def both(x: Any, y: Any, number: float) -> Any:
            loss = step(lib, x, y, number)
            (slope,) = lib.autograd.grad(loss, x)
            return loss.detach() + (slope * slope).sum()

        def fixed(x: Any, y: Any, _number: float) -> Any:
            return both(x, y, first)

        made = compiled(fixed if literal else both)
        numbers = [option(number) for number in range(KINDS)]  # told in time: they are no part of a call
        return lambda number: made(x, y, numbers[number % KINDS])

    return prepared


def jax_options(step: Callable[..., Any]) -> Callable[[Any], Call]:
    def prepared(jax: Any) -> Call:
        g = np.random.default_rng(10)
        x = jax.numpy.asarray(normal(g, LENGTH // 16, 16))
        y = jax.numpy.asarray(g.integers(0, 16, LENGTH // 16))

        def both(x: Any, number: float) -> Any:
            loss, slope = jax.value_and_grad(lambda x: step(jax, x, y, number))(x)
            return loss + (slope * slope).sum()

        compiled = jax.jit(both)
        return lambda number: compiled(x, option(number))

    return prepared


def drawn(lib: Any, x: Any, _y: Any, std: float) -> Any:
    return (x * lib.normal(0.0, std, tuple(x.shape))).sum()


def jax_huber(jax: Any, x: Any, y: Any, delta: float) -> Any:
    size = abs(x - y[:, None])
    return jax.numpy.where(size < delta, 0.5 * size * size, delta * (size - 0.5 * delta)).mean()


def jax_smoothed(jax: Any, x: Any, y: Any, smoothing: float) -> Any:
    scores = jax.nn.log_softmax(x)
    told = -jax.numpy.take_along_axis(scores, y[:, None], 1)[:, 0]
    return ((1 - smoothing) * told - smoothing * scores.mean(-1)).mean()


OPTIONS: dict[str, tuple[str, Any, Any]] = {
    "r": (
        "clamp with bounds that vary",
        lambda lib, x, y, bound: (x.clamp(-bound, bound) ** 2).sum(),
        lambda jax, x, y, bound: (jax.numpy.clip(x, -bound, bound) ** 2).sum(),
    ),
    "s": (
        "huber_loss with a delta that varies",
        lambda lib, x, y, delta: lib.nn.functional.huber_loss(
            x, y[:, None].expand(x.shape).to(x.dtype), delta=delta
        ),
        jax_huber,
    ),
    "t": (
        "cross_entropy with smoothing that varies",
        lambda lib, x, y, smoothing: lib.nn.functional.cross_entropy(x, y, label_smoothing=smoothing),
        jax_smoothed,
    ),
    "u": ("normal with a std that varies", drawn, None),
}
for letter, (name, step, jax_step) in OPTIONS.items():
    ROWS[letter] = Row(
        f"{name}, 303 calls", 303, KINDS, with_options(step, False),
        jax_options(jax_step) if jax_step else None, 2, fixed=with_options(step, True),
        compared=letter != "u",
    )  # fmt: skip


# -- one peer, one row ---------------------------------------------------------------------------------------
def compiling(peer: str, lib: Any, dynamic: bool | None = None) -> Callable[[Any], Any]:
    """How a peer compiles a function."""
    if peer == "torch":
        return lambda function: function
    options: dict[str, Any] = {"dynamic": True} if peer.endswith("dynamic") else {}
    if dynamic is not None:
        options["dynamic"] = dynamic
    if peer == "weft":
        options["backend"] = "native"
    return lambda function: lib.compile(function, **options)


def prepared(peer: str, row: Row, lib: Any, fixed: bool) -> Call | None:
    """The calls of a row; `fixed`: those whose numbers never vary. None where a peer has no such program."""
    if peer == "jax":
        return None if row.jax is None else row.jax(lib)
    if fixed and row.fixed is not None:
        return row.fixed(peer, lib, compiling(peer, lib))
    return row.torch(peer, lib, compiling(peer, lib, False if fixed and peer != "torch" else None))


def counting(peer: str) -> Callable[[], list[int]]:
    """A function that tells how many captures, plans and programs there were."""
    if peer != "weft":
        return list
    built = importlib.import_module("weft.compiler").counters["built"]
    return lambda: [built[kind] for kind in ("captures", "plans", "programs")]


def timed(call: Call, number: int, finished: Callable[[Any], Any]) -> float:
    """What one of equal calls takes."""
    found = []
    for _ in range(20):
        began = time.perf_counter()
        finished(call(number))
        found.append(time.perf_counter() - began)
    return statistics.median(found)


def measure(peer: str, letter: str, finished: Callable[[Any], Any]) -> dict[str, Any]:
    """All that one process finds out. `finished` waits for a result."""
    row, lib = ROWS[letter], importlib.import_module(PEERS[peer])
    if PEERS[peer] == "torch":
        lib.set_num_threads(2)
    counts = counting(peer)
    call = prepared(peer, row, lib, False)
    if call is None:
        return {"error": "has no such program"}
    times, results, made = [], [], []
    for number in range(row.calls):
        began = time.perf_counter()
        result = finished(call(number))
        times.append(time.perf_counter() - began)
        results.append(float(result))
        made.append(counts())
    again, alone = [], []
    for number in (0, row.kinds // 3, 2 * row.kinds // 3):
        fixed = prepared(peer, row, lib, True)
        assert fixed is not None
        for _ in range(5):
            finished(call(number))
            finished(fixed(number))
        if peer == "weft":
            importlib.import_module("weft.native.cpu.tiers").wait()
        again.append(timed(call, number, finished))
        alone.append(timed(fixed, number, finished))
    return {"times": times, "numbers": results, "counts": made, "again": again, "alone": alone}


# -- all together --------------------------------------------------------------------------------------------
def summary(row: Row, answer: dict[str, Any]) -> dict[str, Any]:
    """What is printed of a process: all calls, the median of those that brought new numbers late, how many of
    these took long beside a call that brought the same ones again, and calls of equal numbers."""
    times = answer["times"]
    late = range(row.kinds // 2, row.kinds)
    several = [n for n in late if n + row.kinds < row.calls]
    slow = [n for n in several if times[n] > 1.2 * times[n + row.kinds] + 50e-6]
    return {
        "all": sum(times),
        "first": times[0],
        "new": statistics.median([times[n] for n in late]),
        "slow": len(slow) / len(several) if several else 0.0,
        "again": sum(answer["again"]),
        "alone": sum(answer["alone"]),
        "counts": answer["counts"][-1],
        "settled": answer["counts"][row.settled - 1] if row.settled and row.settled < row.calls else None,
        "numbers": answer["numbers"],
    }


def best(row: Row, answers: list[dict[str, Any]]) -> dict[str, Any]:
    """The least figures of several processes: others disturb, and never help."""
    errors = [each for each in answers if "error" in each]
    if errors:
        return errors[0]
    found = [summary(row, each) for each in answers]
    least = {
        key: min(each[key] for each in found) for key in ("all", "first", "new", "slow", "again", "alone")
    }
    return {**found[0], **least}


def differing(row: Row, results: dict[str, dict[str, Any]]) -> list[str]:
    """Peers whose results are not those of the first one."""
    known = [(peer, each["numbers"]) for peer, each in results.items() if "numbers" in each]
    if not row.compared:
        return []
    scale = max([1e-3, *[abs(number) for number in known[0][1]]]) if known else 1.0
    return [
        peer
        for peer, given in known[1:]
        if not all(abs(a - b) <= 2e-3 * scale for a, b in zip(known[0][1], given, strict=True))
    ]


def unit(seconds: float) -> str:
    return (
        f"{seconds * 1e6:.0f}us"
        if seconds < 1e-3
        else f"{seconds * 1e3:.1f}ms"
        if seconds < 1
        else f"{seconds:.2f}s"
    )


def report(letter: str, results: dict[str, dict[str, Any]]) -> None:
    """A row of the table, and a line for each peer."""
    row = ROWS[letter]
    print(f"({letter}) {row.name}")
    for peer, each in results.items():
        if "error" in each:
            print(f"    {peer:22} {each['error']}")
            continue
        print(
            f"    {peer:22} all {unit(each['all']):>8}  first {unit(each['first']):>8}  "
            f"new {unit(each['new']):>8}  again {unit(each['again'] / 3):>8}  "
            f"fixed {unit(each['alone'] / 3):>8}  slow {each['slow']:.0%}"
        )
    wrong = differing(row, results)
    if wrong:
        print(f"    results differ: {', '.join(wrong)}")
    print("    " + "; ".join(verdicts(row, results)), flush=True)


def verdicts(row: Row, results: dict[str, dict[str, Any]]) -> list[str]:
    """Weft beside the peers, and beside itself with numbers that do not vary; with the aims."""
    own = results.get("weft", {})
    if "all" not in own:
        return ["nothing to compare"]
    found = []
    captures, plans, programs = own["counts"]
    part = f"{captures} captures, {plans} plans, {programs} programs"
    if row.programs is not None:
        part += f" (aim {row.programs}{'' if programs <= row.programs else ', MISSED'})"
    found.append(part)
    if own["settled"] is not None:
        more = programs - own["settled"][2]
        found.append(f"{more} programs after call {row.settled} (aim 0{', MISSED' if more else ''})")
    others = {peer: each for peer, each in results.items() if peer != "weft" and "all" in each}
    for peer, each in others.items():
        ratio = each["all"] / own["all"]
        aim = row.over is not None and (
            row.over[0] == peer or (row.over[0] == "best compiler" and peer != "torch")
        )
        text = f"{ratio:.2f}x {peer}"
        if aim and row.over is not None:
            text += f" (aim {row.over[1]}{'' if ratio >= row.over[1] else ', MISSED'})"
        found.append(text)
    found.append(f"again {own['again'] / own['alone']:.2f} of fixed")
    if "torch" in others:
        eager = others["torch"]
        kept = (eager["again"] / own["again"]) / (eager["alone"] / own["alone"])
        found.append(f"{kept:.2f} of the fixed ratio to torch ({eager['alone'] / own['alone']:.2f}x)")
    return found
