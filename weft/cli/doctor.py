"""Show what Weft runs on, and whether it works here.

Prints versions, processor, threads, BLAS, graphics processors and the cache,
then takes one gradient eagerly and one compiled. Include its output when you
report a problem.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import platform
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import weft
from weft.native.program import cache

REQUIRED = ("numpy", "scipy", "llvmlite", "ml_dtypes")
OPTIONAL = ("rich", "matplotlib", "torch", "jax")
THREAD_VARIABLES = ("WEFT_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def add_arguments(_parser: argparse.ArgumentParser) -> None:
    """None: the report is always whole, so that two of them can be compared."""


def run(_options: argparse.Namespace) -> int:
    for name, fact in facts():  # first: code that is compiled finds out about the cache, too, and says so
        print(f"{name:<12} {fact}")
    troubles = list(find_troubles())
    for trouble in troubles:
        print(f"{'trouble':<12} {trouble}")
    if not troubles:
        print(f"{'gradient':<12} as expected")
    return 1 if troubles else 0


def facts() -> Iterator[tuple[str, str]]:
    """What a report needs, as (name, fact), nothing measured."""
    yield "weft", version("weft") or "not installed (runs from a checkout)"
    yield "python", f"{platform.python_version()} ({platform.python_implementation()})"
    yield "system", platform.platform()
    for name in (*REQUIRED, *OPTIONAL):
        yield name, version(name) or "not installed"
    yield "processor", processor()
    yield "cores", f"{usable_cores()} usable of {os.cpu_count()}"
    blas = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
    yield "blas", f"{blas.get('name')} {blas.get('version')}"
    yield "features", features()
    yield "gpu", graphics()
    yield "cache", cache_fact(cache.store())
    yield "compiled", f"{weft.get_num_threads()} threads"
    limits = [f"{name}={os.environ[name]}" for name in THREAD_VARIABLES if name in os.environ]
    yield "threads", " ".join(limits) or "no limit set in the environment"


def cache_fact(kept: cache.Store) -> str:
    """Where compiled code is kept, and whether that can be done."""
    if kept.folder is None:
        return "turned off" if os.environ.get("WEFT_CACHE") in cache.OFF else "not used"
    try:
        with kept.opened(make=True) as place:
            usable = os.access(".", os.W_OK, dir_fd=place)
    except (OSError, cache.Refused) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        return f"{kept.folder} (cannot be used: {reason}; code is compiled anew in each process)"
    return kept.folder if usable else f"{kept.folder} (read, not written: it is read-only)"


def find_troubles() -> Iterator[str]:
    """Why Weft cannot work here, one sentence each."""
    for name in REQUIRED:
        if version(name) is None:
            yield f"{name} is required and is not installed. Try: pip install {name}"
    x = weft.tensor([0.5, -2.0], requires_grad=True)
    (x * x).sum().backward()
    gradient = None if x.grad is None else x.grad.tolist()
    if gradient != [1.0, -4.0]:
        yield f"the gradient of the sum of squares at [0.5, -2.0] is {gradient}, not [1.0, -4.0]"
    yield from compiled_troubles()


def compiled_troubles() -> Iterator[str]:
    """Why compiled code cannot work here."""
    x = weft.tensor([0.5, -2.0], requires_grad=True)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        try:
            weft.compile(lambda x: (x * x).sum(), backend="native")(x).backward()
        except Exception as error:
            yield f"compiling failed: {type(error).__name__}: {error}"
            return
    gradient = None if x.grad is None else x.grad.tolist()
    if gradient != [1.0, -4.0]:
        yield f"the compiled gradient of the sum of squares is {gradient}, not [1.0, -4.0]"
    for each in seen:
        yield f"no machine code is made: {each.message}"


def features() -> str:
    """What the processor can do that compiled code uses."""
    listing = Path("/proc/cpuinfo")
    words: list[str] = []
    if listing.is_file():
        for line in listing.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith(("flags", "Features")):
                words = line.partition(":")[2].split()
                break
    known = [word for word in ("avx", "avx2", "fma", "f16c", "avx512f", "asimd", "sve") if word in words]
    return " ".join(known) or "not known"


def graphics() -> str:
    """Graphics processors; Weft does not use them yet."""
    listing = Path("/proc/driver/nvidia/gpus")
    count = len(list(listing.iterdir())) if listing.is_dir() else 0
    return f"{count} from NVIDIA, not used yet" if count else "none found"


def version(distribution: str) -> str | None:
    """The installed version, read from metadata so that nothing heavy is imported."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def processor() -> str:
    """The processor's name as the system gives it."""
    listing = Path("/proc/cpuinfo")
    if listing.is_file():
        for line in listing.read_text(encoding="utf-8", errors="replace").splitlines():
            name, _, fact = line.partition(":")
            if name.strip() == "model name":
                return fact.strip()
    return platform.processor() or platform.machine()


def usable_cores() -> int:
    """The cores that this process may run on, where the system tells; else all of them."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity is not None else os.cpu_count() or 1
