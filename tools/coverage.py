"""Prints how many of PyTorch's public names Weft has, by module, and those it has not.

    python tools/coverage.py            # the table, then the names that are absent
    python tools/coverage.py torch nn   # only of these modules

Takes an installed PyTorch; gives the table of docs/compat.md. A module's public names are its `__all__`;
where it has none, all names without an underscore that are not modules. A name counts where asking for it
under `weft.compat` gives something: what raises counts as absent. Each of the two is asked in a process of
its own.
"""

from __future__ import annotations

import json
import subprocess
import sys

MODULES = (
    "torch", "torch.Tensor", "torch.nn", "torch.nn.functional", "torch.linalg", "torch.fft", "torch.special",
    "torch.optim", "torch.autograd", "torch.func", "torch.distributions", "torch.fx",
    "torch.utils.checkpoint",
    "torch.utils.data",
)  # fmt: skip

LISTING = """
import importlib, json, sys, types
import torch
found = {}
for path in json.loads(sys.argv[1]):
    holder = torch.Tensor if path == "torch.Tensor" else importlib.import_module(path)
    names = getattr(holder, "__all__", None)
    if names is None:
        names = [name for name in dir(holder) if not name.startswith("_")]
        names = [name for name in names if not isinstance(getattr(holder, name), types.ModuleType)]
    found[path] = sorted(set(names))
print(json.dumps(found))
"""

ASKING = """
import importlib, json, sys
import weft.compat
weft.compat.install()
import torch
absent = {}
for path, names in json.load(sys.stdin).items():
    try:
        holder = torch.Tensor if path == "torch.Tensor" else importlib.import_module(path)
    except ImportError:
        absent[path] = names
        continue
    absent[path] = [name for name in names if not hasattr(holder, name)]
print(json.dumps(absent))
"""


def answer(program: str, *arguments: str, given: str = "") -> dict[str, list[str]]:
    """What a program that prints JSON says, in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        input=given,
        text=True,
        check=True,
        stdout=subprocess.PIPE,
    )
    found: dict[str, list[str]] = json.loads(done.stdout.splitlines()[-1])
    return found


def main(asked: list[str]) -> None:
    chosen = [path for path in MODULES if not asked or path in asked or path.removeprefix("torch.") in asked]
    public = answer(LISTING, json.dumps(chosen))
    absent = answer(ASKING, given=json.dumps(public))
    print(f"{'module':26}{'names':>7}{'here':>7}{'':>9}")
    for path in chosen:
        count, missing = len(public[path]), len(absent[path])
        print(f"{path:26}{count:7}{count - missing:7}{(count - missing) / max(count, 1):9.1%}")
    total, missing = sum(map(len, public.values())), sum(map(len, absent.values()))
    print(f"{'all':26}{total:7}{total - missing:7}{(total - missing) / max(total, 1):9.1%}")
    for path in chosen:
        if absent[path]:
            print(f"\n{path}: {', '.join(absent[path])}")


if __name__ == "__main__":
    main(sys.argv[1:])
