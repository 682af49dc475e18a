"""Show what Weft runs on, and whether it works here.

Prints versions, processor, threads and BLAS, then takes one gradient. Include
its output when you report a problem.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import platform
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import weft

REQUIRED = ("numpy", "scipy", "llvmlite", "ml_dtypes")
OPTIONAL = ("rich",)
THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def add_arguments(_parser: argparse.ArgumentParser) -> None:
    """None: the report is always whole, so that two of them can be compared."""


def run(_options: argparse.Namespace) -> int:
    troubles = list(find_troubles())
    for name, fact in facts():
        print(f"{name:<12} {fact}")
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
    limits = [f"{name}={os.environ[name]}" for name in THREAD_VARIABLES if name in os.environ]
    yield "threads", " ".join(limits) or "no limit set in the environment"


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
