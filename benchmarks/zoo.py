"""Models that `models.py` measures, written once for libraries that are shaped like torch.

Takes a library; gives modules, data and losses. One idea: what people write, as they write it: modules, loops
over layers and time steps, batch norms that count, index_add.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Row:
    """A model: `build` gets a library, `loss` a library, its functional module, the module and data."""

    title: str
    build: Callable[[Any], Any]
    arrays: Callable[[Any], list[Any]]
    loss: Callable[..., Any]
    work: float = 0.0
    """Operations of a step's products and convolutions, as `torch.utils.flop_counter` counts them."""
    rate: float = 1e-3
    whole_loss: bool = False
    """Whether the loss is compiled instead of the module: it takes gradients, or calls parts of it."""
    jax: Callable[..., Any] | None = None
    """Gets jax, data and the parameters in order; gives a step."""
    shapes: tuple[tuple[int, ...], ...] = ()
    """Of the parameters, for jax."""


ROWS: dict[str, Row] = {}


def normal(generator: Any, *shape: int, dtype: Any = np.float32) -> Any:
    return generator.standard_normal(shape).astype(dtype)


def values_of(shapes: list[tuple[int, ...]]) -> list[Any]:
    """Arrays for parameters of these shapes: small weights; of single rows, numbers about one half."""
    generator = np.random.default_rng(1)
    made = []
    for shape in shapes:
        scale = (math.prod(shape[1:]) or 1) ** -0.5 if len(shape) > 1 else 0.1
        made.append(generator.standard_normal(shape) * scale + (0.5 if len(shape) == 1 else 0.0))
    return made


def filled(lib: Any, module: Any) -> Any:
    """A module with parameters that are the same in every library."""
    parameters = list(module.parameters())
    with lib.no_grad():
        for each, array in zip(parameters, values_of([tuple(each.shape) for each in parameters])):
            each.copy_(lib.from_numpy(array))
    return module


# -- images --------------------------------------------------------------------------------------------------
def residual(lib: Any, stages: list[tuple[int, int]], first: int) -> Any:
    """A ResNet for small images: stages are (channels, blocks)."""
    nn = lib.nn

    class Block(nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self, taken: int, given: int, stride: int) -> None:
            super().__init__()
            self.conv1 = nn.Conv2d(taken, given, 3, stride, 1, bias=False)
            self.norm1 = nn.BatchNorm2d(given)
            self.conv2 = nn.Conv2d(given, given, 3, 1, 1, bias=False)
            self.norm2 = nn.BatchNorm2d(given)
            self.short = None
            if stride != 1 or taken != given:
                self.short = nn.Sequential(
                    nn.Conv2d(taken, given, 1, stride, bias=False), nn.BatchNorm2d(given)
                )

        def forward(self, x: Any) -> Any:
            out = nn.functional.relu(self.norm1(self.conv1(x)))
            out = self.norm2(self.conv2(out))
            return nn.functional.relu(out + (x if self.short is None else self.short(x)))

    layers = [nn.Conv2d(3, first, 3, 1, 1, bias=False), nn.BatchNorm2d(first), nn.ReLU()]
    taken = first
    for number, (given, blocks) in enumerate(stages):
        for block in range(blocks):
            layers.append(Block(taken, given, 2 if number and not block else 1))
            taken = given
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(taken, 10))


def images(batch: int) -> Callable[[Any], list[Any]]:
    return lambda g: [normal(g, batch, 3, 32, 32), g.integers(0, 10, batch)]


def classified(lib: Any, F: Any, module: Any, x: Any, y: Any) -> Any:
    return F.cross_entropy(module(x), y)


ROWS["resnet20"] = Row(
    "ResNet of 20 layers, 16 to 64 channels, 32x32, batch 32",
    lambda lib: residual(lib, [(16, 3), (32, 3), (64, 3)], 16),
    images(32), classified, work=7.81e9,
)  # fmt: skip
ROWS["resnet18"] = Row(
    "ResNet-18, 64 to 512 channels, 32x32, batch 16",
    lambda lib: residual(lib, [(64, 2), (128, 2), (256, 2), (512, 2)], 64),
    images(16), classified, work=5.33e10,
)  # fmt: skip


def unet(lib: Any) -> Any:
    nn = lib.nn

    def pair(taken: int, given: int) -> Any:
        return nn.Sequential(
            nn.Conv2d(taken, given, 3, padding=1), nn.GroupNorm(8, given), nn.SiLU(),
            nn.Conv2d(given, given, 3, padding=1), nn.GroupNorm(8, given), nn.SiLU(),
        )  # fmt: skip

    class UNet(nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.down1, self.down2, self.bottom = pair(3, 16), pair(16, 32), pair(32, 64)
            self.up2, self.up1 = nn.ConvTranspose2d(64, 32, 2, 2), nn.ConvTranspose2d(32, 16, 2, 2)
            self.right2, self.right1 = pair(64, 32), pair(32, 16)
            self.last = nn.Conv2d(16, 3, 1)

        def forward(self, x: Any) -> Any:
            first = self.down1(x)
            second = self.down2(nn.functional.max_pool2d(first, 2))
            third = self.bottom(nn.functional.max_pool2d(second, 2))
            x = self.right2(lib.cat([self.up2(third), second], 1))
            return self.last(self.right1(lib.cat([self.up1(x), first], 1)))

    return UNet()


ROWS["unet"] = Row(
    "U-Net, 16 to 64 channels, 32x32, batch 8",
    unet,
    lambda g: [normal(g, 8, 3, 32, 32), normal(g, 8, 3, 32, 32)],
    lambda lib, F, module, x, y: F.mse_loss(module(x), y),
    work=1.2e9,
)


# -- sequences -----------------------------------------------------------------------------------------------
def recurrent(kind: str) -> Callable[[Any], Any]:
    def build(lib: Any) -> Any:
        nn = lib.nn

        class Tagger(nn.Module):  # type: ignore[misc,name-defined]
            def __init__(self) -> None:
                super().__init__()
                self.layers = getattr(nn, kind)(64, 128, num_layers=2)
                self.head = nn.Linear(128, 10)

            def forward(self, x: Any) -> Any:
                return self.head(self.layers(x)[0])

        return Tagger()

    return build


def tagged(lib: Any, F: Any, module: Any, x: Any, y: Any) -> Any:
    return F.cross_entropy(module(x).flatten(0, 1), y.flatten())


for _kind, _work in (("LSTM", 1.05e9), ("GRU", 7.89e8)):
    ROWS[_kind.lower()] = Row(
        f"{_kind} of two layers of 128, 50 steps, batch 16",
        recurrent(_kind),
        lambda g: [normal(g, 50, 16, 64), g.integers(0, 10, (50, 16))],
        tagged,
        _work,
    )


def gpt(lib: Any) -> Any:
    nn = lib.nn
    width, heads, tokens, vocabulary = 128, 4, 64, 128

    class Block(nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.inner, self.outer = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.wide = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

        def forward(self, x: Any) -> Any:
            batch = x.shape[0]
            parts = self.inner(self.norm1(x)).view(batch, tokens, 3, heads, width // heads)
            q, k, v = parts.permute(2, 0, 3, 1, 4)
            seen = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.outer(seen.transpose(1, 2).reshape(batch, tokens, width))
            return x + self.wide(self.norm2(x))

    class GPT(nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.words, self.places = nn.Embedding(vocabulary, width), nn.Embedding(tokens, width)
            self.blocks = nn.Sequential(*[Block() for _ in range(4)])
            self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary)

        def forward(self, x: Any) -> Any:
            x = self.words(x) + self.places(lib.arange(x.shape[1]))
            return self.head(self.norm(self.blocks(x)))

    return GPT()


ROWS["gpt"] = Row(
    "GPT, 4 blocks of 128, 8x64 tokens",
    gpt,
    lambda g: [g.integers(0, 128, (8, 64)), g.integers(0, 128, (8, 64))],
    tagged,
    2.47e9,
)


# -- others --------------------------------------------------------------------------------------------------
def vae(lib: Any) -> Any:
    nn = lib.nn

    class VAE(nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(784, 400)
            self.means, self.spreads = nn.Linear(400, 20), nn.Linear(400, 20)
            self.outer, self.last = nn.Linear(20, 400), nn.Linear(400, 784)

        def forward(self, x: Any, noise: Any) -> Any:
            hidden = nn.functional.relu(self.inner(x))
            mean, spread = self.means(hidden), self.spreads(hidden)
            z = mean + lib.exp(0.5 * spread) * noise
            return self.last(nn.functional.relu(self.outer(z))), mean, spread

    return VAE()


def vae_loss(lib: Any, F: Any, module: Any, x: Any, noise: Any) -> Any:
    found, mean, spread = module(x, noise)
    likely = F.binary_cross_entropy_with_logits(found, x, reduction="sum")
    return (likely - 0.5 * (1 + spread - mean * mean - spread.exp()).sum()) / x.shape[0]


ROWS["vae"] = Row(
    "VAE 784-400-20, batch 128",
    vae,
    lambda g: [g.random((128, 784)).astype(np.float32), normal(g, 128, 20)],
    vae_loss,
    4.2e8,
)

NODES, EDGES = 1000, 5000


def graph_network(lib: Any) -> Any:
    nn = lib.nn

    class Layer(nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.message = nn.Sequential(nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 64))
            self.update = nn.Sequential(nn.Linear(128, 64), nn.ReLU())

        def forward(self, x: Any, begins: Any, ends: Any) -> Any:
            sent = self.message(lib.cat([x[begins], x[ends]], -1))
            got = lib.zeros_like(x).index_add(0, ends, sent)
            return x + self.update(lib.cat([x, got], -1))

    class Network(nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.first, self.last = nn.Linear(16, 64), nn.Linear(64, 7)
            self.layers = nn.ModuleList([Layer() for _ in range(3)])

        def forward(self, x: Any, begins: Any, ends: Any) -> Any:
            x = nn.functional.relu(self.first(x))
            for layer in self.layers:
                x = layer(x, begins, ends)
            return self.last(x)

    return Network()


ROWS["graph"] = Row(
    "graph network, 1,000 nodes, 5,000 edges, 3 layers of 64",
    graph_network,
    lambda g: [
        normal(g, NODES, 16), g.integers(0, NODES, EDGES), g.integers(0, NODES, EDGES),
        g.integers(0, 7, NODES),
    ],
    lambda lib, F, module, x, begins, ends, y: F.cross_entropy(module(x, begins, ends), y),
    1.26e9,
)  # fmt: skip


def critic(lib: Any) -> Any:
    nn = lib.nn
    return nn.Sequential(
        nn.Linear(64, 256), nn.LeakyReLU(0.2), nn.Linear(256, 256), nn.LeakyReLU(0.2), nn.Linear(256, 1)
    )


def penalised(lib: Any, F: Any, module: Any, real: Any, fake: Any, share: Any) -> Any:
    between = (share * real + (1 - share) * fake).requires_grad_()
    (slope,) = lib.autograd.grad(module(between).sum(), between, create_graph=True)
    penalty = ((slope.norm(2, 1) - 1) ** 2).mean()
    return module(fake).mean() - module(real).mean() + 10 * penalty


ROWS["wgan"] = Row(
    "WGAN's critic with gradient penalty, 64-256-256-1, batch 64",
    critic,
    lambda g: [normal(g, 64, 64), normal(g, 64, 64), g.random((64, 1)).astype(np.float32)],
    penalised,
    whole_loss=True,
)


def field(lib: Any) -> Any:
    nn = lib.nn
    return nn.Sequential(nn.Linear(2, 50), nn.Tanh(), nn.Linear(50, 50), nn.Tanh(), nn.Linear(50, 2))


def along(apply: Callable[[Any], Any], y: Any, steps: int = 20, size: float = 0.05) -> Any:
    """Runge and Kutta's method."""
    for _ in range(steps):
        a = apply(y)
        b = apply(y + size / 2 * a)
        c = apply(y + size / 2 * b)
        y = y + size / 6 * (a + 2 * b + 2 * c + apply(y + size * c))
    return y


def jax_steps(jax: Any, loss: Callable[..., Any], parameters: list[Any], rate: float) -> Callable[[], Any]:
    """Steps of SGD with momentum on a loss of parameters."""

    def update(state: Any) -> Any:
        values, moved = state
        found, slopes = jax.value_and_grad(loss)(values)
        moved = [0.9 * m + s for m, s in zip(moved, slopes)]
        return found, ([v - rate * m for v, m in zip(values, moved)], moved)

    compiled = jax.jit(update, donate_argnums=0)
    values = [jax.numpy.asarray(each) for each in parameters]
    state = [(values, [jax.numpy.zeros_like(each) for each in values])]

    def step() -> Any:
        found, state[0] = compiled(state[0])
        return found

    return step


def jax_layers(jax: Any, values: list[Any], x: Any) -> Any:
    """Layers with tanh between them."""
    for number in range(0, len(values), 2):
        x = (jax.numpy.tanh(x) if number else x) @ values[number].T + values[number + 1]
    return x


def jax_ode(jax: Any, arrays: list[Any], parameters: list[Any]) -> Callable[[], Any]:
    start, goal = [jax.numpy.asarray(each) for each in arrays]

    def loss(values: list[Any]) -> Any:
        return ((along(lambda y: jax_layers(jax, values, y), start) - goal) ** 2).mean()

    return jax_steps(jax, loss, [each.astype(np.float32) for each in parameters], 1e-3)


ROWS["ode"] = Row(
    "neural ODE, 20 steps of Runge-Kutta, 2-50-50-2, batch 128",
    field,
    lambda g: [normal(g, 128, 2), normal(g, 128, 2)],
    lambda lib, F, module, start, goal: F.mse_loss(along(module, start), goal),
    whole_loss=True,
    jax=jax_ode,
    shapes=((50, 2), (50,), (50, 50), (50,), (2, 50), (2,)),
)


def solution(lib: Any) -> Any:
    nn = lib.nn
    layers = [nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh()]
    return nn.Sequential(*layers, nn.Linear(32, 1)).double()


def burgers(lib: Any, F: Any, module: Any, x: Any, t: Any) -> Any:
    """How far u is from solving Burgers' equation."""
    x, t = x.detach().requires_grad_(), t.detach().requires_grad_()
    u = module(lib.cat([x, t], 1))
    ux, ut = lib.autograd.grad(u.sum(), (x, t), create_graph=True)
    (uxx,) = lib.autograd.grad(ux.sum(), x, create_graph=True)
    return ((ut + u * ux - 0.01 / math.pi * uxx) ** 2).mean()


ROWS["pinn"] = Row(
    "PINN of Burgers' equation in float64, 4 layers of 32, 256 points",
    solution,
    lambda g: [g.random((256, 1)) * 2 - 1, g.random((256, 1))],
    burgers,
    whole_loss=True,
)
