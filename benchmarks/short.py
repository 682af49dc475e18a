"""Programs over short axes: rows of `peers.py` with capital letters, which may run alone, too.

    python benchmarks/short.py [--rows ABC...] [--sizes 100 10000 1000000] [--peers weft jax ...]
                               [--rounds 1] [--seconds 0.3] [--isa avx2]

Each row is a program over so many short rows (vectors in space, classes, quaternions, keys), with its
gradients where it has any, at several sizes. One idea: what is measured is everything but long loops.
"""

from __future__ import annotations

import argparse
import math
import statistics
from collections.abc import Callable
from typing import Any, Final

import peers
from peers import Row, normal

SIZES: Final = (100, 10_000, 1_000_000)
AIM: Final = 1.0
"""Of each row; of all together, `TOGETHER`."""
TOGETHER: Final = 1.5
Made = Callable[[int], Row]
ROWS: dict[str, Made] = {}


def row(letter: str, name: str, size: int, bytes_: float, **parts: Any) -> Row:
    return Row(f"{name}, {size:,}", AIM, cost="bytes", work=size * bytes_, **parts)


# -- A: cross products ---------------------------------------------------------------------------------------
ROWS["A"] = lambda size: row(
    "A", "cross products of 3-vectors", size, 4 * 3 * 5,
    arrays=lambda g: [normal(g, size, 3) for _ in range(3)], wanted=2,
    loss=lambda lib, F, a, b, c: (lib.linalg.cross(a, b) * c).sum(),
    jax_loss=lambda jax, a, b, c: (jax.numpy.cross(a, b) * c).sum(),
)  # fmt: skip

# -- B: rotations --------------------------------------------------------------------------------------------
ROWS["B"] = lambda size: row(
    "B", "rotations of 3-vectors by a matrix each", size, 4 * (9 * 2 + 3 * 3),
    arrays=lambda g: [normal(g, size, 3, 3), normal(g, size, 3), normal(g, size, 3)], wanted=2,
    loss=lambda lib, F, m, x, c: ((m @ x.unsqueeze(-1)).squeeze(-1) * c).sum(),
    jax_loss=lambda jax, m, x, c: ((m @ x[..., None])[..., 0] * c).sum(),
)  # fmt: skip


# -- C: assignments of k-means -------------------------------------------------------------------------------
CENTRES: Final = 8


def assigned(peer: str, lib: Any, arrays: list[Any]) -> Any:
    """No loss: the nearest of a few centres."""
    x, centres = (lib.from_numpy(array) for array in arrays)

    def nearest(x: Any, centres: Any) -> Any:
        less = x.unsqueeze(1) - centres
        return ((less * less).sum(-1).argmin(1),)

    if peer == "torch":
        return lambda: nearest(x, centres)
    compiled = lib.compile(nearest, **({"backend": "native"} if peer == "weft" else {}))
    return lambda: compiled(x, centres)


def jax_assigned(jax: Any, arrays: list[Any]) -> Any:
    x, centres = (jax.numpy.asarray(array) for array in arrays)
    compiled = jax.jit(lambda x, c: (((x[:, None] - c) ** 2).sum(-1).argmin(1),))
    return lambda: compiled(x, centres)


ROWS["C"] = lambda size: row(
    "C", "k-means assignments, 6 features, 8 centres", size, 4 * 6 + 8,
    arrays=lambda g: [normal(g, size, 6), normal(g, CENTRES, 6)], wanted=0,
    step=assigned, jax_step=jax_assigned,
)  # fmt: skip

# -- D: small matrices ---------------------------------------------------------------------------------------
ROWS["D"] = lambda size: row(
    "D", "4x4 batched products", size, 4 * 16 * 5,
    arrays=lambda g: [normal(g, size, 4, 4) for _ in range(3)], wanted=2,
    loss=lambda lib, F, a, b, c: ((a @ b) * c).sum(),
    jax_loss=lambda jax, a, b, c: ((a @ b) * c).sum(),
)  # fmt: skip

# -- E: softmax ----------------------------------------------------------------------------------------------
ROWS["E"] = lambda size: row(
    "E", "softmax over 5 classes", size, 4 * 5 * 3,
    arrays=lambda g: [normal(g, size, 5) for _ in range(2)], wanted=1,
    loss=lambda lib, F, x, c: (F.softmax(x, -1) * c).sum(),
    jax_loss=lambda jax, x, c: (jax.nn.softmax(x, -1) * c).sum(),
)  # fmt: skip


# -- F: quaternions ------------------------------------------------------------------------------------------
def turned(stack: Any, a: Any, b: Any) -> Any:
    p, q, r, s = (a[:, place] for place in range(4))
    t, u, v, w = (b[:, place] for place in range(4))
    parts = [
        p * t - q * u - r * v - s * w,
        p * u + q * t + r * w - s * v,
        p * v - q * w + r * t + s * u,
        p * w + q * v - r * u + s * t,
    ]
    return stack(parts, -1)


ROWS["F"] = lambda size: row(
    "F", "quaternion products", size, 4 * 4 * 5,
    arrays=lambda g: [normal(g, size, 4) for _ in range(3)], wanted=2,
    loss=lambda lib, F, a, b, c: (turned(lib.stack, a, b) * c).sum(),
    jax_loss=lambda jax, a, b, c: (turned(jax.numpy.stack, a, b) * c).sum(),
)  # fmt: skip

# -- G: attention --------------------------------------------------------------------------------------------
KEYS, HEAD = 12, 8


def jax_attention(jax: Any, q: Any, k: Any, v: Any) -> Any:
    return jax.nn.softmax(q @ k.swapaxes(-1, -2) / HEAD**0.5, -1) @ v


ROWS["G"] = lambda size: row(
    "G", "attention over 12 keys of 8", size, 4 * HEAD * 7,
    arrays=lambda g: [normal(g, -(-size // KEYS), KEYS, HEAD) for _ in range(4)], wanted=3,
    loss=lambda lib, F, q, k, v, c: (F.scaled_dot_product_attention(q, k, v) * c).sum(),
    jax_loss=lambda jax, q, k, v, c: (jax_attention(jax, q, k, v) * c).sum(),
)  # fmt: skip


def found(name: str) -> Row:
    """The row of a letter and a size: "A100"."""
    return ROWS[name[0]](int(name[1:]))


def measured(name: str, libraries: list[str], rounds: int, seconds: float) -> dict[str, dict[str, Any]]:
    """All peers, taking turns; what is compiled is kept on disk between rounds."""
    return peers.row_of(name, libraries, rounds, seconds)


def ratio(results: dict[str, dict[str, Any]]) -> float | None:
    """How many times faster than the best peer Weft is."""
    others = [each["step"] for peer, each in results.items() if peer != "weft" and "step" in each]
    return min(others) / results["weft"]["step"] if others and "step" in results.get("weft", {}) else None


def run(letters: str, sizes: list[int], libraries: list[str], rounds: int, seconds: float) -> dict[str, Any]:
    """Prints all rows, and how they do together."""
    results, ratios = {}, []
    floor = peers.limits()
    for letter in letters:
        for size in sizes:
            name = f"{letter}{size}"
            results[name] = measured(name, libraries, rounds, seconds)
            peers.report(name, results[name], floor)
            one = ratio(results[name])
            ratios += [] if one is None else [one]
    if ratios:
        together = statistics.fmean(map(math.log, ratios))
        print(f"short axes: geomean {math.exp(together):.2f}x (aim {TOGETHER}), least {min(ratios):.2f}x")
    return results


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", default="".join(ROWS), help="letters of rows (default: all)")
    parser.add_argument("--sizes", nargs="*", type=int, default=list(SIZES))
    parser.add_argument("--peers", nargs="*", default=list(peers.PEERS), choices=list(peers.PEERS))
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=0.3)
    parser.add_argument("--isa", choices=list(peers.ISAS), default="", help="hold all peers to it")
    options = parser.parse_args()
    peers.held_to(options.isa)
    run(options.rows, options.sizes, options.peers, options.rounds, options.seconds)


if __name__ == "__main__":
    main()
