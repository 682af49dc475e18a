"""Measure Weft beside PyTorch and JAX, in one run.

Whole steps (forward, backward, where named the optimizer) of ten programs,
from ten numbers to a transformer block. Each peer that is installed takes its
turn in a process of its own; equal numbers go in, and results are compared.
Figures are ratios: how many times longer than Weft a peer takes. In a
checkout, `pip install '.[bench]'` gets the peers. The rows:

  a  ((a+b)*b).sum(), 10 elements
  b  (tanh(a*b+sin a)*exp(-b*b)).sum(), 1M
  c  MLP 64x784x256x10, log-softmax
  d  two gelu layers of 1024, batch 256
  e  (layer_norm(x)**2).mean(), 4096x512
  f  transformer block 4x128x256, 4 heads
  g  convnet on 28x28, batch 32
  h  Adam step, 100 tensors of 1,000
  i  Hessian-vector product, 64x16x64x64x1
  j  100 steps of an LSTM cell of 64, batch 8

Of each peer are shown: the time of a step, that of the first call in a fresh
process with empty caches (cold) and with full ones (warm), and memory.

  weft bench
  weft bench --rows abe --peers weft jax --output results.json --plot ratios.svg
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any

from weft.cli import doctor
from weft.cli.errors import CommandError, doing
from weft.cli.run import check_writable
from weft.core.progress import working

PLACES = (
    Path(__file__).resolve().parent / "peers.py",
    Path(__file__).resolve().parents[2] / "benchmarks" / "peers.py",
)
"""Where the programs are: in an installed package, in a checkout."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--rows", default="abcdefghij", metavar="LETTERS", help="which programs, say abe (default: all)"
    )
    parser.add_argument(
        "--peers", nargs="+", metavar="PEER", help="of torch, torch.compile, jax, weft (default: all)"
    )
    parser.add_argument("--rounds", type=int, default=1, help="how often peers take turns (default: 1)")
    parser.add_argument("--seconds", type=float, default=0.5, help="how long steps are timed (default: 0.5)")
    parser.add_argument("--output", metavar="FILE", help="write the figures and this machine's facts as JSON")
    parser.add_argument("--plot", metavar="FILE", help="draw the ratios (.png or .svg; needs matplotlib)")


def run(options: argparse.Namespace) -> int:
    peers = programs()
    check(options, peers)
    wanted = options.peers or list(peers.PEERS)
    present = [name for name in wanted if name == "weft" or importlib.util.find_spec(peers.PEERS[name])]
    for name in wanted:
        if name not in present:
            print(f"{name} is left out: {peers.PEERS[name]} is not installed")
    if not present:
        raise CommandError("none of these peers is installed, so there is nothing to measure")
    floor = peers.limits()
    results = {}
    for number, letter in enumerate(options.rows, 1):
        done = f"[{number}/{len(options.rows)}]"
        with working(f"{done} row {letter}, {peers.ROWS[letter].name}: {', '.join(present)}"):
            results[letter] = peers.row_of(letter, present, options.rounds, options.seconds)
        print(f"{done} ", end="")
        peers.report(letter, results[letter], floor)
    if ratios(results) and any(ratios(results).values()):
        print(f"\n{table(peers, results)}")
    if options.output:
        save(options.output, results, floor)
    if options.plot:
        plot(options.plot, peers, results)
    return 0


def programs() -> ModuleType:
    """The module with the programs."""
    path = next((each for each in PLACES if each.is_file()), None)
    if path is None:
        raise CommandError("the benchmark's programs are not part of this installation")
    spec = importlib.util.spec_from_file_location("weft_peers", path)
    assert spec is not None and spec.loader is not None, "a file that ends in .py has a loader"
    module = importlib.util.module_from_spec(spec)
    sys.modules["weft_peers"] = module  # its data classes look themselves up
    spec.loader.exec_module(module)
    return module


def check(options: argparse.Namespace, peers: ModuleType) -> None:
    unknown = [letter for letter in options.rows if letter not in peers.ROWS]
    if unknown or not options.rows:
        raise CommandError(f"there is no row {''.join(unknown)!r}: the rows are {''.join(peers.ROWS)}")
    if options.rounds < 1 or not options.seconds > 0:
        raise CommandError(
            f"--rounds and --seconds must be above 0, not {options.rounds} and {options.seconds}"
        )
    check_writable(options.output)
    check_writable(options.plot)
    strange = [name for name in options.peers or () if name not in peers.PEERS]
    if strange:
        raise CommandError(f"there is no peer {strange[0]!r}: the peers are {', '.join(peers.PEERS)}")
    if options.plot and Path(options.plot).suffix not in (".png", ".svg"):
        raise CommandError(f"--plot {options.plot}: the name must end in .png or .svg")
    if options.plot and importlib.util.find_spec("matplotlib") is None:
        raise CommandError("--plot needs matplotlib. Try: pip install matplotlib")


def ratios(results: dict[str, dict[str, Any]]) -> dict[str, dict[str, float]]:
    """For each row, how many times longer than Weft's a peer's step takes."""
    found: dict[str, dict[str, float]] = {}
    for letter, row in results.items():
        own = row.get("weft", {}).get("step")
        if own:
            found[letter] = {
                peer: each["step"] / own for peer, each in row.items() if peer != "weft" and "step" in each
            }
    return found


def table(peers: ModuleType, results: dict[str, dict[str, Any]]) -> str:
    """Times beside Weft's: above 1, Weft is faster."""
    names = list(dict.fromkeys(peer for row in results.values() for peer in row if peer != "weft"))
    lines = [f"{'a step takes ... times as long as with Weft':46}" + "".join(f"{name:>15}" for name in names)]
    for letter, row in ratios(results).items():
        cells = "".join(f"{row[name]:15.2f}" if name in row else f"{'-':>15}" for name in names)
        lines.append(f"({letter}) {peers.ROWS[letter].name[:41]:42}{cells}")
    return "\n".join(lines)


def save(path: str, results: dict[str, Any], floor: dict[str, float]) -> None:
    facts = dict(doctor.facts())
    made = {"machine": facts, "when": time.strftime("%Y-%m-%d %H:%M:%S"), "limits": floor, "rows": results}
    with doing(f"write {path}"):
        Path(path).write_text(json.dumps(made, indent=1), encoding="utf-8")
    print(f"written to {path}")


def plot(path: str, peers: ModuleType, results: dict[str, dict[str, Any]]) -> None:
    """Bars: for each row, how many times longer than Weft's a peer's step takes."""
    backend = importlib.import_module("matplotlib")
    backend.use("Agg")
    pyplot = importlib.import_module("matplotlib.pyplot")
    found = ratios(results)
    names = list(dict.fromkeys(peer for row in found.values() for peer in row))
    figure, axes = pyplot.subplots(figsize=(9, 0.6 * len(found) + 1.6), layout="constrained")
    height = 0.8 / max(len(names), 1)
    for place, name in enumerate(names):
        rows = [number for number, row in enumerate(found.values()) if name in row]
        values = [row[name] for row in found.values() if name in row]
        bars = axes.barh([number + place * height for number in rows], values, height, label=name)
        axes.bar_label(bars, fmt="%.2f", padding=3, fontsize=8)
    axes.axvline(1.0, color="black", linewidth=1)
    axes.set_yticks([number + 0.4 - height / 2 for number in range(len(found))])
    axes.set_yticklabels([f"({letter}) {peers.ROWS[letter].name[:38]}" for letter in found])
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.set_xlabel("time of a step over Weft's (right of 1: Weft is faster)")
    axes.legend()
    with doing(f"write {path}"):
        figure.savefig(path, dpi=150)
    print(f"drawn to {path}")
