"""Small programs in the manner of PyTorch's tutorials and tests print what they print under PyTorch.

`programs/small.txt` holds them, `programs/small.json` what torch 2.13 printed: values, reprs, texts of errors
and warnings, numbers of captured graphs.
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
EXPECTED: dict[str, str] = json.loads((PROGRAMS / "small.json").read_text())


def outputs(*how: str) -> dict[str, str]:
    command = [sys.executable, *how, str(PROGRAMS / "runner.py"), str(PROGRAMS / "small.txt")]
    result = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


@pytest.fixture(scope="module")
def ours() -> dict[str, str]:
    return outputs("-m", "weft.compat")


@pytest.mark.parametrize("name", EXPECTED)
def test_prints_what_pytorch_prints(ours: dict[str, str], name: str) -> None:
    assert ours[name] == EXPECTED[name]


@pytest.mark.torch
@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")
def test_torch_here_prints_it_too() -> None:
    assert outputs() == EXPECTED
