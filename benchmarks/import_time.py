"""Import time of Weft as a ratio to NumPy's: the best of many fresh interpreters, taking turns, by the time
of the processor that each takes.

python benchmarks/import_time.py
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
AIM = 2.0
CACHE = tempfile.mkdtemp()


def seconds(module: str) -> float:
    code = f"import time; t = time.process_time(); import {module}; print(time.process_time() - t)"
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    environment |= {"PYTHONPATH": str(ROOT), "PYTHONPYCACHEPREFIX": CACHE}  # bytecode is cached, as installed
    return float(
        subprocess.run(
            [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
        ).stdout
    )


def main() -> None:
    best = {"numpy": float("inf"), "weft": float("inf")}
    began = time.perf_counter()
    while time.perf_counter() - began < 8:
        for module in best:
            best[module] = min(best[module], seconds(module))
    ratio = best["weft"] / best["numpy"]
    print(
        f"numpy {best['numpy'] * 1e3:.0f} ms, weft {best['weft'] * 1e3:.0f} ms, ratio {ratio:.2f} (aim {AIM})"
    )


if __name__ == "__main__":
    try:
        main()
    finally:
        shutil.rmtree(CACHE)
