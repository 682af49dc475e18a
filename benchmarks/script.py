"""Scripted functions beside torch.jit.script and torch eager, in one run.

    python benchmarks/script.py [--rounds 5] [--steps 500] [--peers weft torch torch.jit] [--json FILE]

Two programs, each a forward and a backward pass: `newton`,
a scripted Newton iteration of cube roots (30 turns
over 256 numbers) with the gradient of the last one, and `lstm`, a loop of 500 steps of an LSTM cell (batch 4,
16 inputs, 32 units) with the gradients of its weights. Every peer runs in a process of its own with two
threads, on equal numbers, first until it has compiled what it compiles, then timed; the time is the best of
the rounds, and the results are compared. A peer that is not installed is left out.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
PEERS = {"weft": "weft", "weft eager": "weft", "torch.jit": "torch", "torch": "torch"}
PROGRAMS = """
import {library} as lib


def newton(a, n: int):
    x = a
    for i in range(n):
        x = x - (x * x * x - a) / (3.0 * x * x)
    return x.sum()


def lstm(x, w, u, b):
    h = lib.zeros(x.size(1), u.size(0))
    c = lib.zeros(x.size(1), u.size(0))
    for t in range(x.size(0)):
        gates = x[t] @ w + h @ u + b
        i, f, o, n = gates.chunk(4, 1)
        c = lib.sigmoid(f) * c + lib.sigmoid(i) * lib.tanh(n)
        h = lib.sigmoid(o) * lib.tanh(c)
    return h.sum()
"""


def inputs(name: str, steps: int) -> tuple[list[Any], list[Any], int]:
    """Arrays that gradients are wanted for, others, and the number of turns."""
    generator = np.random.default_rng(0)
    if name == "newton":
        return [generator.random(256, dtype=np.float32) + 1], [], 30
    wanted = [
        generator.standard_normal((16, 128)) * 0.3,
        generator.standard_normal((32, 128)) * 0.1,
        np.zeros(128),
    ]
    sequence = generator.standard_normal((steps, 4, 16))
    return [a.astype(np.float32) for a in wanted], [sequence.astype(np.float32)], 0


def run_peer(peer: str, rounds: int, steps: int, folder: str) -> dict[str, Any]:
    """Times one peer, in this process."""
    library = importlib.import_module(PEERS[peer])
    if PEERS[peer] == "torch":
        library.set_num_threads(2)
    path = Path(folder) / f"programs_{PEERS[peer]}.py"
    path.write_text(PROGRAMS.format(library=PEERS[peer]))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    programs = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(programs)
    return {name: run_program(name, peer, library, programs, rounds, steps) for name in ("newton", "lstm")}


def run_program(
    name: str, peer: str, library: Any, programs: Any, rounds: int, steps: int
) -> dict[str, float]:
    """Times one program."""
    wanted, others, turns = inputs(name, steps)
    tensors = [library.from_numpy(array).requires_grad_() for array in wanted]
    rest = [library.from_numpy(array) for array in others]
    function = getattr(programs, name)
    if not peer.endswith("eager") and peer != "torch":
        function = library.jit.script(function)

    def step() -> Any:
        for tensor in tensors:
            tensor.grad = None
        result = function(tensors[0], turns) if name == "newton" else function(*rest, *tensors)
        result.backward()
        return result

    start = time.perf_counter()
    calls = 0
    while calls < 12 or time.perf_counter() - start < 3.0:
        result = step()
        calls += 1
    best = min(timed(step) for _ in range(rounds))
    gradient = float(tensors[0].grad.double().sum())
    return {"seconds": best, "result": float(result.detach()), "gradient": gradient}


def timed(step: Any) -> float:
    start = time.perf_counter()
    step()
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--peers", nargs="*", default=list(PEERS))
    parser.add_argument("--json")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        with tempfile.TemporaryDirectory() as folder:
            print(json.dumps(run_peer(options.one, options.rounds, options.steps, folder)))
        return
    found = {}
    for peer in options.peers:
        if PEERS[peer] != "weft" and importlib.util.find_spec(PEERS[peer]) is None:
            continue
        command = [sys.executable, "-W", "ignore", __file__, "--one", peer]
        command += ["--rounds", str(options.rounds), "--steps", str(options.steps)]
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "2"}
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
        if done.returncode:
            sys.exit(f"{peer} failed:\n{done.stderr}")
        found[peer] = json.loads(done.stdout.splitlines()[-1])
    for name in ("newton", "lstm"):
        ours = found.get("weft", {}).get(name)
        for peer, results in found.items():
            row = results[name]
            factor = f"{row['seconds'] / ours['seconds']:6.1f}x" if ours else ""
            shown = f"result {row['result']:.5f} gradient {row['gradient']:.4f}"
            print(f"{name:8} {peer:12} {row['seconds'] * 1e3:9.2f} ms {factor}  {shown}")
    if options.json:
        Path(options.json).write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
