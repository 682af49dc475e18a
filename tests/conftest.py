"""What every test shares: one BLAS thread per worker, a cache on disk for this run alone, hypothesis without
deadlines, torch where it is.

`WEFT_TEST_BACKEND=native` compiles natively wherever `aot_eager` is asked for, by name or by default; a graph
that has no native program is then an error. `WEFT_TEST_CPU=avx2` compiles for a machine without AVX-512,
whatever this one has, and asks the same of BLAS and of NumPy. `WEFT_TEST_SEED=7` starts the random numbers of
every test from another seed than 0; tests seed again only where they compare two runs.
"""

from __future__ import annotations

import atexit
import gc
import importlib.util
import os
import random
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

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

# Read by OpenBLAS and NumPy as they are loaded.
if os.environ.get("WEFT_TEST_CPU") == "avx2":
    os.environ["OPENBLAS_CORETYPE"] = "Haswell"
    os.environ["NPY_DISABLE_CPU_FEATURES"] = "X86_V4 AVX512_ICL AVX512_SPR"

import hypothesis
import numpy as np
import pytest

import weft.compiler
from tests import wide
from weft.aot.runtime import counting
from weft.ops.record import Op

# Deadlines, and checks of how long examples take to draw, measure the machine's other work. CI must say the
# same of the same commit twice, so there the examples are fixed.
hypothesis.settings.register_profile(
    "weft",
    deadline=None,
    derandomize=bool(os.environ.get("CI")),
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("weft")


if os.environ.get("WEFT_TEST_BACKEND") == "native":
    weft.compiler._backends["aot_eager"] = weft.compiler.native

    def _refuse(kind: str, reason: str) -> None:
        if "native" in reason:
            raise counting.NotCompiled(reason)

    counting.watchers.append(_refuse)


if os.environ.get("WEFT_TEST_CPU") == "avx2":
    import llvmlite.binding as llvm

    _features = llvm.get_host_cpu_features

    def _without_avx512() -> Any:
        found = _features()
        for name in found:
            if name.startswith("avx512"):
                found[name] = False
        return found

    llvm.get_host_cpu_name = lambda: "haswell"
    llvm.get_host_cpu_features = _without_avx512


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not wide.is_asked_for(config):
        left = {item for item in items if any(map(_is_beyond_share, item.iter_markers("wide")))}
        config.hook.pytest_deselected(items=[*left])
        items[:] = [item for item in items if item not in left]
    if importlib.util.find_spec("torch") is None:
        skip = pytest.mark.skip(reason="torch is not installed")
        for item in items:
            if item.get_closest_marker("torch"):
                item.add_marker(skip)


def _is_beyond_share(mark: pytest.Mark) -> bool:
    """Whether plain runs leave out what bears this mark; one without a name asks `is_sampled` instead."""
    return bool(mark.args) and not wide.is_in_share(mark.args[0])


@pytest.fixture(autouse=True)
def _seeded() -> None:
    """The same numbers in every run of a test, whatever ran before it; `WEFT_TEST_SEED` gives others."""
    seed = int(os.environ.get("WEFT_TEST_SEED", "0"))
    weft.manual_seed(seed)
    np.random.seed(seed)
    random.seed(seed)
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(seed)


@pytest.fixture(autouse=True, scope="module")
def _small_heap(request: pytest.FixtureRequest) -> Iterator[None]:
    """Collections in files that ask for them do not walk over what other tests have left: seconds each."""
    if not hasattr(request.module, "gc") or request.module.__name__.endswith("test_collection"):
        yield
        return
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture
def is_sampled(request: pytest.FixtureRequest) -> Callable[[Op], bool]:
    """Tells which ops a test that goes over all of them takes in this run."""
    whole = wide.is_asked_for(request.config)
    return lambda op: whole or wide.is_in_share(op.qualified_name)
