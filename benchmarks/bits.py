"""What bits on demand cost: training steps compiled with `settings.bitwise`, as ratios to ordinary compiled
code and to eager code, in the CPU time of one thread.

    python benchmarks/bits.py

The three take turns, several times, and the best time of each counts.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import weft
import weft.nn as nn
import weft.nn.functional as F
from weft.core.settings import settings

ROUNDS = 3
Step = Callable[[], Any]


def block() -> nn.Module:
    return nn.TransformerEncoderLayer(64, 4, 128, dropout=0.0, batch_first=True)


def stepping(net: nn.Module, x: Any, target: Any) -> Step:
    optimizer = weft.optim.AdamW(net.parameters(), lr=1e-3)

    def step() -> Any:
        optimizer.zero_grad()
        out = net(x)
        loss = F.mse_loss(out[0] if isinstance(out, tuple) else out, target)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


ROWS: dict[str, Callable[[], Step]] = {
    "MLP 64x784x256x10": lambda: stepping(
        nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 10)),
        weft.randn(64, 784),
        weft.randn(64, 10),
    ),
    "small MLP 16x32x32x1": lambda: stepping(
        nn.Sequential(nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1)), weft.randn(16, 32), weft.randn(16, 1)
    ),
    "transformer block 8x32x64": lambda: stepping(block(), weft.randn(8, 32, 64), weft.randn(8, 32, 64)),
    "convnet 8x3x32x32": lambda: stepping(
        nn.Sequential(
            nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.Flatten(), nn.Linear(16384, 10)
        ),
        weft.randn(8, 3, 32, 32),
        weft.randn(8, 10),
    ),
    "LSTM 8x10x16": lambda: stepping(
        nn.LSTM(16, 32, batch_first=True), weft.randn(8, 10, 16), weft.randn(8, 10, 32)
    ),
}


def best(step: Step, seconds: float = 0.2) -> float:
    """The best mean time of a call, over batches that together take about so long."""
    began = time.process_time()
    step()
    calls = max(1, int(seconds / 4 / max(time.process_time() - began, 1e-6)))
    found = math.inf
    for _ in range(4):
        began = time.process_time()
        for _ in range(calls):
            step()
        found = min(found, (time.process_time() - began) / calls)
    return found


def made(name: str, bitwise: bool | None) -> Step:
    """The step of a row, eager (None) or compiled, which has run a few times."""
    weft.manual_seed(0)
    step = ROWS[name]()
    if bitwise is not None:
        step = weft.compile(step, fullgraph=True)
    for _ in range(3):
        step()
    return step


def main() -> None:
    weft.set_num_threads(1)
    print(f"{'row':28} {'eager':>10} {'ordinary':>10} {'bitwise':>10} {'to ordinary':>12} {'to eager':>9}")
    logs = []
    for name in ROWS:
        times = dict.fromkeys(("eager", "ordinary", "bitwise"), math.inf)
        for _ in range(ROUNDS):
            for how, bitwise in (("eager", None), ("ordinary", False), ("bitwise", True)):
                settings.bitwise = bool(bitwise)
                times[how] = min(times[how], best(made(name, bitwise)))
        ratio = times["bitwise"] / times["ordinary"]
        logs.append(math.log(ratio))
        shown = " ".join(f"{each * 1e6:8.1f}us" for each in times.values())
        print(f"{name:28} {shown} {ratio:12.2f} {times['bitwise'] / times['eager']:9.2f}", flush=True)
    print(f"geometric mean, to ordinary: {math.exp(sum(logs) / len(logs)):.2f}")


if __name__ == "__main__":
    main()
