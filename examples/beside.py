"""What the examples share: numbers that are the same in every library, speed beside eager code, and plots.

All draws come from NumPy, so a program gives the same results with Weft, through `weft.compat`, and on
PyTorch (with `import torch as weft`).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

import weft


class Draws:
    """A stream of random tensors."""

    def __init__(self, seed: int = 0, dtype: Any = np.float32) -> None:
        self.generator, self.dtype = np.random.default_rng(seed), dtype

    def normal(self, *shape: int) -> Any:
        return weft.from_numpy(self.generator.standard_normal(shape).astype(self.dtype))

    def uniform(self, *shape: int, low: float = 0.0, high: float = 1.0) -> Any:
        return weft.from_numpy(self.generator.uniform(low, high, shape).astype(self.dtype))

    def integers(self, high: int, *shape: int) -> Any:
        return weft.from_numpy(self.generator.integers(0, high, shape))


def filled(module: Any, seed: int = 0) -> Any:
    """The module with parameters drawn anew: matrices by their number of inputs, vectors zero."""
    draws = Draws(seed)
    with weft.no_grad():
        for each in module.parameters():
            shape = tuple(each.shape)
            scale = 1.0 / np.sqrt(np.prod(shape[1:])) if len(shape) > 1 else 0.0
            each.copy_((draws.normal(*shape) * float(scale)).to(each.dtype))
    return module


def speed(eager: Callable[..., Any], compiled: Callable[..., Any], *args: Any, calls: int = 20) -> str:
    """How long a call takes, as written and compiled: the quickest of some."""

    def best(function: Callable[..., Any]) -> float:
        took = []
        for _ in range(calls):
            began = time.perf_counter()
            function(*args)
            took.append(time.perf_counter() - began)
        return min(took)

    slow, fast = best(eager), best(compiled)
    ratio = f"{slow / fast:.1f} times"
    return f"a step takes {fast * 1e6:,.0f} us compiled, {slow * 1e6:,.0f} us as written: {ratio}"


def draw(path: str, curves: dict[str, tuple[Any, Any]], across: str, upwards: str) -> None:
    """Draws curves, each the numbers across and upwards, to a file; nothing without a path."""
    if not path:
        return
    try:
        import matplotlib
    except ImportError:
        raise SystemExit("--plot needs matplotlib. Try: pip install matplotlib") from None
    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 4), layout="constrained")
    for label, (x, y) in curves.items():
        axes.plot(np.asarray(x), np.asarray(y), label=label)
    axes.set_xlabel(across)
    axes.set_ylabel(upwards)
    axes.legend()
    figure.savefig(path, dpi=120)
    pyplot.close(figure)
