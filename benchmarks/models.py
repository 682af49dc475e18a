"""Models as people train them, beside the peers: whole training steps, and steps of a compiled model.

    python benchmarks/models.py [--rows resnet lstm ...] [--forms step model] [--peers weft torch ...]
                                [--isa avx2] [--rounds 3] [--seconds 1.0] [--json FILE]

A row is a model with its loss and an optimizer. Form `step` compiles all of a step: gradients set to None,
loss, `backward()`, the optimizer's step. Form `model` compiles the model (or the loss, for the rows that say
so) alone; the rest of a step runs as written. torch runs as written in both; `torch.compile` and jax take
part where they are asked for (`--peers`), jax with the rows that have a form for it. Peers take turns, each
in processes of its own; a row's time is the least of the rounds' medians. All get equal
parameters and data, and the losses of the first steps are compared. For Weft, the table has how many Python
functions a steady step calls (form `model`: the loss and `backward()`, without the optimizer), and for all
how long the first step took. `--isa avx2` holds every peer to AVX2. On a machine that computes other things
meanwhile, `--threads 1 --processor-time` gives ratios that mean something.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))
peers = importlib.import_module("peers")
zoo = importlib.import_module("zoo")

PEERS = {"weft": "weft", "torch": "torch", "torch.compile": "torch", "jax": "jax"}
FORMS = ("step", "model")
AIMS = {"step": 1.5, "model": 1.25}
"""Of the geometric mean over rows, against the best peer."""
CALLS = {"step": 20, "model": 60}
"""How many Python functions a steady step may call."""
COMPARED = 3
"""So many steps' losses are compared: later ones differ by what rounding has become."""


# -- one peer, one row ---------------------------------------------------------------------------------------
@dataclass
class Step:
    """A row's step, which gives the loss; what of it Python is counted in, and what comes before that."""

    whole: Callable[[], Any]
    counted: Callable[[], Any]
    before: Callable[[], Any] = lambda: None


def prepared(peer: str, name: str, form: str) -> Step:
    """The row's step."""
    row = zoo.ROWS[name]
    lib = importlib.import_module(PEERS[peer])
    generator = np.random.default_rng(0)
    arrays = row.arrays(generator)
    if peer == "jax":
        step: Callable[[], Any] = row.jax(lib, arrays, zoo.values_of(row.shapes))
        return Step(step, step)
    functional = importlib.import_module(f"{lib.__name__}.nn.functional")
    module = zoo.filled(lib, row.build(lib))
    data = [lib.from_numpy(array) for array in arrays]
    optimizer = lib.optim.SGD(module.parameters(), lr=row.rate, momentum=0.9)
    compiling = peer != "torch"
    inner = module
    loss = row.loss
    if compiling and form == "model" or peer == "torch.compile":
        if row.whole_loss:
            loss = lib.compile(loss)
        else:
            inner = lib.compile(module)

    def forward_and_backward() -> Any:
        found = loss(lib, functional, inner, *data)
        found.backward()
        return found

    def step() -> Any:
        optimizer.zero_grad()
        found = forward_and_backward()
        optimizer.step()
        return found

    if peer == "weft" and form == "step":
        compiled: Callable[[], Any] = lib.compile(step)
        return Step(compiled, compiled)
    return Step(step, forward_and_backward, optimizer.zero_grad)


def python_calls(step: Step) -> int:
    """How many Python functions a step calls, at least."""
    counts = []
    for _ in range(3):
        count = 0

        def profile(_frame: Any, event: str, _argument: Any) -> None:
            nonlocal count
            count += event == "call"

        step.before()
        sys.setprofile(profile)
        step.counted()
        sys.setprofile(None)
        counts.append(count)
    return min(counts)


def measure(peer: str, name: str, form: str, options: argparse.Namespace) -> dict[str, Any]:
    """All that one process finds out."""
    clock = time.process_time if options.processor_time else time.perf_counter
    if peer == "weft":
        peers.hold_compiler()
    lib = importlib.import_module(PEERS[peer])
    if PEERS[peer] == "torch":
        lib.set_num_threads(options.threads)
    made = prepared(peer, name, form)
    step = made.whole
    began = clock()
    losses = [float(peers.finished(peer, step()))]
    first = clock() - began
    losses += [float(step()) for _ in range(COMPARED - 1)]
    step()
    if peer == "weft":
        importlib.import_module("weft.native.cpu.tiers").wait()
    times: list[float] = []
    until = clock() + options.seconds
    while len(times) < 8 or clock() < until:
        began = clock()
        peers.finished(peer, step())
        times.append(clock() - began)
    answer = {"step": statistics.median(times), "least": min(times), "first": first, "losses": losses}
    if peer == "weft":
        answer["calls"] = python_calls(made)
    return answer


# -- all together --------------------------------------------------------------------------------------------
@dataclass
class Found:
    """What a peer's processes found out about a row in a form."""

    step: float = math.inf
    first: float = math.inf
    calls: int = 0
    losses: list[float] = field(default_factory=list)
    error: str = ""

    def take(self, answer: dict[str, Any]) -> None:
        if "error" in answer:
            self.error = answer["error"]
            return
        self.step, self.first = min(self.step, answer["step"]), min(self.first, answer["first"])
        self.calls, self.losses = answer.get("calls", 0), answer["losses"]


def asked(peer: str, name: str, form: str, options: argparse.Namespace) -> dict[str, Any]:
    """What a fresh process with empty caches finds out."""
    with tempfile.TemporaryDirectory() as folder:
        environment = peers.environment(folder, options.threads)
        command = [sys.executable, str(Path(__file__).resolve())]
        command += ["--threads", str(options.threads), "--seconds", str(options.seconds)]
        command += ["--processor-time"] * options.processor_time + ["--worker", peer, name, form]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        return {"error": lines[-1][:200] if lines else f"ended with {done.returncode}"}
    return dict(json.loads(done.stdout.strip().splitlines()[-1]))


def row_of(name: str, form: str, options: argparse.Namespace) -> dict[str, Found]:
    taking = [each for each in options.peers if each != "jax" or zoo.ROWS[name].jax is not None]
    found = {peer: Found() for peer in taking}
    for _ in range(options.rounds):
        for peer in taking:
            found[peer].take(asked(peer, name, form, options))
    return found


def differing(found: dict[str, Found]) -> list[str]:
    """Peers whose losses are not those of the first one."""
    known = [(peer, each.losses) for peer, each in found.items() if not each.error]
    return [
        peer
        for peer, losses in known[1:]
        if any(not abs(a - b) <= 3e-3 * max(1.0, abs(a)) for a, b in zip(known[0][1], losses))
    ]


def report(name: str, form: str, found: dict[str, Found], flop: float) -> float | None:
    """Prints a row; gives how many times faster Weft is than the best peer."""
    floor = zoo.ROWS[name].work * flop
    least = f", at least {peers.unit(floor)} by products" if floor else ""
    print(f"{name} ({form}): {zoo.ROWS[name].title}{least}")
    for peer, each in found.items():
        calls = f"  {each.calls} Python calls" if each.calls else ""
        line = f"step {peers.unit(each.step):>9}  first {peers.unit(each.first):>9}{calls}"
        print(f"    {peer:14} {each.error or line}")
    wrong = differing(found)
    if wrong:
        print(f"    losses differ: {', '.join(f'{peer} {found[peer].losses}' for peer in found)}")
    others = {peer: each.step for peer, each in found.items() if peer != "weft" and not each.error}
    if "weft" not in found or found["weft"].error or not others:
        return None
    best = min(others, key=lambda peer: others[peer])
    ratio = others[best] / found["weft"].step
    most = CALLS[form]
    calls = "" if found["weft"].calls <= most else f", MISSED: at most {most} Python calls"
    print(f"    {ratio:.2f}x {best}{calls}", flush=True)
    return ratio


def mean(ratios: list[float]) -> float:
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", nargs="*", default=list(zoo.ROWS), choices=list(zoo.ROWS))
    parser.add_argument("--forms", nargs="*", default=list(FORMS), choices=FORMS)
    parser.add_argument("--peers", nargs="*", default=["weft", "torch"], choices=list(PEERS))
    parser.add_argument(
        "--isa", default="", choices=list(peers.ISAS), help="hold all peers to these instructions"
    )
    parser.add_argument("--rounds", type=int, default=3, help="how often the peers take turns (default 3)")
    parser.add_argument("--seconds", type=float, default=1.0, help="how long a process times steps")
    parser.add_argument("--json", help="write the results to this file")
    parser.add_argument("--threads", type=int, default=2, help="of each peer (default 2)")
    parser.add_argument(
        "--processor-time", action="store_true", help="time is that of processors, not of clocks"
    )
    parser.add_argument("--worker", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        peer, name, form = options.worker
        print(json.dumps(measure(peer, name, form, options)))
        return
    peers.held_to(options.isa)
    flop = 0.0 if options.processor_time else peers.limits()["flops"]
    kept: dict[str, Any] = {}
    for form in options.forms:
        ratios = {}
        for name in options.rows:
            found = row_of(name, form, options)
            ratios[name] = report(name, form, found, flop)
            kept[f"{name} {form}"] = {peer: vars(each) for peer, each in found.items()}
        known = [each for each in ratios.values() if each is not None]
        if known:
            slowest = min((each, name) for name, each in ratios.items() if each is not None)
            print(
                f"== {form}: geometric mean {mean(known):.2f}x (aim {AIMS[form]}), "
                f"least {slowest[0]:.2f}x ({slowest[1]}; aim 1.0)", flush=True,
            )  # fmt: skip
    if options.json:
        Path(options.json).write_text(json.dumps({"isa": options.isa, "rows": kept}, indent=1))


if __name__ == "__main__":
    main()
