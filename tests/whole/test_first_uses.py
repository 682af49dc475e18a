"""First uses, disturbed: see `tests.whole.first_uses` for the table of what is made lazily."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import wide
from tests.whole.first_uses import USES, distinct

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "weft"
pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="first uses are repeated by forking")
EAGER = [name for name in USES if not name.startswith("compiled")]
COMPILED = [name for name, first in USES.items() if name.startswith("compiled") and first.loaded]


def run(*words: str, module: str = "first_uses") -> None:
    """Does it in a process that has used nothing yet."""
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-m", f"tests.whole.{module}", *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-6000:]


def test_files_of_first_uses_exist() -> None:
    missing = {file for first in USES.values() for file in first.files if not (PACKAGE / file).exists()}
    assert not missing


def test_interrupted_eager_uses_leave_nothing_half_made() -> None:
    run("walk", ",".join(name for name in EAGER if USES[name].quick), "3")


def test_interrupted_compiled_uses_leave_nothing_half_made() -> None:
    run("walk", ",".join(name for name in COMPILED if USES[name].quick), "1")


@wide.by_hand
@pytest.mark.parametrize("name", USES)
def test_each_line_of_a_first_use_may_be_interrupted(name: str) -> None:
    run("walk", name, "100000")


def test_threads_may_be_first_at_once() -> None:
    run("race", ",".join(EAGER), "1")


def test_threads_may_compile_at_once() -> None:
    run("race", ",".join(COMPILED), "1")


@wide.by_hand
@pytest.mark.parametrize("name", distinct(list(USES)))
def test_threads_may_be_first_at_once_often(name: str) -> None:
    run("race", name, "10")


def test_threads_may_compile_hard_programs_at_once() -> None:
    run("0", "4", module="racing_attacks")


@wide.by_hand
def test_threads_may_compile_all_hard_programs_at_once() -> None:
    run("0", "1", module="racing_attacks")
