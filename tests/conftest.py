"""What every test shares: one BLAS thread per worker, a cache on disk for this run alone, hypothesis without
deadlines, torch where it is.

`WEFT_TEST_BACKEND=native` compiles natively wherever `aot_eager` is asked for, by name or by default; a graph
that has no native program is then an error.
"""

from __future__ import annotations

import atexit
import importlib.util
import os
import shutil
import tempfile

# Workers of `pytest -n auto` already fill the cores; BLAS threads on top make them wait for each other.
# This must stand before anything imports NumPy.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# Workers inherit this one, so they share what they compile, as processes of a user do.
if "WEFT_CACHE_DIR" not in os.environ:
    os.environ["WEFT_CACHE_DIR"] = tempfile.mkdtemp(prefix="weft-cache-")
    atexit.register(shutil.rmtree, os.environ["WEFT_CACHE_DIR"], ignore_errors=True)

# Tests ask how entries are made: what another worker has captured must not serve their calls.
os.environ.setdefault("WEFT_CACHE", "programs")

# Tests ask how fast and how good code is from its first call on; those of drafts say so.
os.environ.setdefault("WEFT_TIERS", "full")

import hypothesis
import pytest

import weft.compiler
from weft.aot.runtime import counting

# Deadlines measure the machine's other work. CI must say the same of the same commit twice, so there the
# examples are fixed.
hypothesis.settings.register_profile("weft", deadline=None, derandomize=bool(os.environ.get("CI")))
hypothesis.settings.load_profile("weft")


if os.environ.get("WEFT_TEST_BACKEND") == "native":
    weft.compiler._backends["aot_eager"] = weft.compiler.native

    def _refuse(kind: str, reason: str) -> None:
        if "native" in reason:
            raise counting.NotCompiled(reason)

    counting.watchers.append(_refuse)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if importlib.util.find_spec("torch") is None:
        skip = pytest.mark.skip(reason="torch is not installed")
        for item in items:
            if item.get_closest_marker("torch"):
                item.add_marker(skip)
