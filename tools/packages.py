"""Runs third-party packages, as shipped, on PyTorch and on Weft in its place, and compares what they compute.

    python tools/packages.py                  # all that are listed
    python tools/packages.py einops gpytorch  # some

Takes pip and an installed PyTorch; gives the table of docs/compat.md. Packages are installed with --no-deps
into a scratch folder (`--site FOLDER` keeps one). A program is core use: it makes a model of the package,
runs it, takes gradients, often steps an optimizer, and says its arrays by `say(name, array)`. It runs twice,
each time in a process of its own; arrays must agree to 5e-4 of the largest element. Random numbers differ
between the two, so `fill(module)` sets parameters by a formula. Not part of the tests: it needs a network.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

REPOSITORY = Path(__file__).resolve().parent.parent
PROGRAMS = Path(__file__).resolve().parent / "programs"

SHOW = False


def install(site: Path, names: list[str]) -> None:
    """Puts packages that are not there yet into the folder."""
    there = {path.name.partition("-")[0].lower().replace("_", "-") for path in site.glob("*.dist-info")}
    missing = [name for name in names if name.partition("==")[0].lower().replace("_", "-") not in there]
    if missing:
        command = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(site), *missing]
        subprocess.run(command, check=True)


def ran(program: Path, library: str, site: Path, folder: Path) -> tuple[dict[str, np.ndarray], str]:
    """The arrays a program says on a library, or what stopped it."""
    result = folder / f"{library}.npz"
    path = os.pathsep.join([str(REPOSITORY), str(site), str(PROGRAMS)])
    done = subprocess.run(
        [sys.executable, "-c", f"import common, runpy; runpy.run_path({str(program)!r})", library,
        str(result)], capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": path, "HF_HUB_OFFLINE": "1"}, cwd=folder, timeout=900,
    )  # fmt: skip
    if done.returncode:
        if SHOW:
            print(done.stderr)
        return {}, (done.stderr.strip().splitlines() or ["stopped"])[-1]
    with np.load(result) as found:
        return dict(found), ""


def compared(mine: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> list[str]:
    """The names of arrays that differ."""
    different = sorted(mine.keys() ^ other.keys())
    for name in mine.keys() & other.keys():
        first, second = mine[name], other[name]
        if first.shape != second.shape:
            different.append(f"{name} (shapes {first.shape}, {second.shape})")
        elif first.dtype.kind in "USO" and (first != second).any():
            different.append(name)
        elif first.dtype.kind not in "USO":
            scale = float(np.nanmax(np.abs(second), initial=1e-3)) if second.size else 1.0
            if not np.allclose(first, second, rtol=5e-4, atol=5e-4 * scale, equal_nan=True):
                different.append(f"{name} (by {np.nanmax(np.abs(first - second)):.2g})")
    return different


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*")
    parser.add_argument("--site", type=Path)
    parser.add_argument("--show", action="store_true", help="tell in full what stopped a program")
    given = parser.parse_args()
    globals()["SHOW"] = given.show
    table = json.loads((PROGRAMS / "packages.json").read_text())
    with tempfile.TemporaryDirectory() as scratch:
        site = given.site or Path(scratch) / "site"
        site.mkdir(parents=True, exist_ok=True)
        for name in given.names or table:
            told = table[name]
            install(site, [name, *told["needs"]])
            program = PROGRAMS / f"run_{name.replace('-', '_').replace('.', '_')}.py"
            other, stopped = ran(program, "torch", site, Path(scratch))
            mine, failed = ran(program, "weft", site, Path(scratch))
            version = next(
                (path.name.split("-")[1] for path in site.glob("*.dist-info")
                 if path.name.partition("-")[0].lower().replace("_", "-") == name.lower().replace("_", "-")),
                 "?",
            ).removesuffix(".dist")  # fmt: skip
            if stopped or failed:
                outcome = f"stops: {failed}" if failed else f"stops on PyTorch: {stopped}"
            else:
                different = compared(mine, other)
                outcome = (
                    f"{len(other)} arrays equal" if not different else f"differs: {', '.join(different)}"
                )
            print(f"| {name} | {version} | {told['what']} | {outcome} |", flush=True)


if __name__ == "__main__":
    main()
