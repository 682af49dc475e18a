"""Training scripts written for PyTorch give the losses that PyTorch gives.

Each runs in an interpreter of its own, as users run it; `programs/losses.json` holds what torch 2.13 printed.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAMS = Path(__file__).parents[1] / "programs"
REPOSITORY = PROGRAMS.parents[2]
NAMES = ["mlp", "char_rnn", "tiny_gpt"]


def losses(name: str, *how: str) -> list[float]:
    command = [sys.executable, "-W", "error", *how, str(PROGRAMS / f"{name}.py")]
    result = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


@pytest.mark.parametrize("name", NAMES)
def test_losses_are_those_of_pytorch(name: str) -> None:
    recorded = json.loads((PROGRAMS / "losses.json").read_text())[name]
    assert losses(name, "-m", "weft.compat") == pytest.approx(recorded, abs=1e-4, rel=0)


@pytest.mark.torch
@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")
@pytest.mark.parametrize("name", NAMES)
def test_losses_are_those_of_torch_here(name: str) -> None:
    assert losses(name, "-m", "weft.compat") == pytest.approx(losses(name), abs=1e-4, rel=0)
