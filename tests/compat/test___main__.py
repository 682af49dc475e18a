"""`python -m weft.compat`: scripts, modules and commands, and the refusal beside the real torch."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]


def python(*arguments: str, cwd: Path = REPOSITORY) -> tuple[int, str, str]:
    result = subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd,
        env={"PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        check=False,
    )
    return result.returncode, result.stdout, result.stderr


def test_a_script_is_the_program(tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text("import torch\nvalue = torch.ones(2)\n")
    (tmp_path / "script.py").write_text(
        "import sys, beside, torch\n"
        "if __name__ == '__main__':\n"
        "    print(sys.argv[1:], beside.value, sys.modules['__main__'].beside is beside, __file__)\n"
        "    raise SystemExit(3)\n"
    )
    code, out, error = python("-m", "weft.compat", "script.py", "a", "-m", cwd=tmp_path)
    assert (code, out, error) == (3, "['a', '-m'] tensor([1., 1.]) True script.py\n", "")


def test_a_module_runs_tests(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        "import torch\nfrom torch.testing import assert_close\n"
        "def test_sum():\n    assert_close(torch.ones(3).sum(), torch.tensor(3.0))\n"
    )
    code, out, error = python(
        "-m", "weft.compat", "-m", "pytest", "-q", "-p", "no:cacheprovider", cwd=tmp_path
    )
    assert (code, error) == (0, "") and "1 passed" in out


def test_a_command(tmp_path: Path) -> None:
    command = "import sys, torch; print(torch.tensor(1.5), sys.argv)"
    assert python("-m", "weft.compat", "-c", command, "x") == (0, "tensor(1.5000) ['-c', 'x']\n", "")


def test_errors_show_the_program_only() -> None:
    code, _, error = python("-m", "weft.compat", "-c", "def f():\n    1 / 0\nf()")
    lines = [line for line in error.splitlines() if line.startswith("  File ")]
    assert code == 1 and error.endswith("ZeroDivisionError: division by zero\n")
    assert lines == ['  File "<string>", line 3, in <module>', '  File "<string>", line 2, in f']


def test_mistakes_are_told(tmp_path: Path) -> None:
    code, _, error = python("-m", "weft.compat", "missing.py", cwd=tmp_path)
    assert code == 1 and error.startswith("weft.compat: can't open file 'missing.py': No such file")
    code, out, _ = python("-m", "weft.compat")
    assert code == 2 and out.startswith("usage: python -m weft.compat")


def test_beside_another_torch_it_refuses(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("__version__ = '1.0'\n")
    source = "import torch, weft.compat\ntry:\n    weft.compat.install()\n"
    source += "except ImportError as error:\n    print(error)"
    code, out, error = python("-c", source, cwd=tmp_path)
    assert (code, error) == (0, "")
    assert out.startswith("weft.compat.install(): torch 1.0 is already imported, from ")
