"""Interrupts while the command is being imported: one line, and its own status."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from weft.core import starting

REPOSITORY = Path(__file__).resolve().parents[2]
INTERRUPTED_WHILE_IMPORTING = """
import os, signal, sys

class Finder:
    def find_spec(name, path=None, target=None):
        if name == "weft.nn":
            os.kill(os.getpid(), signal.SIGINT)

signal.signal(signal.SIGINT, signal.{before})
sys.meta_path.insert(0, Finder)
sys.argv = [{name!r}, "doctor"]
import weft
print("imported")
"""


def imported(name: str, before: str = "default_int_handler") -> subprocess.CompletedProcess[str]:
    code = INTERRUPTED_WHILE_IMPORTING.format(name=name, before=before)
    line = [sys.executable, "-c", code]
    return subprocess.run(line, cwd=REPOSITORY, capture_output=True, text=True, check=False)


def test_the_command_ends_with_one_line():
    done = imported("/usr/local/bin/weft")
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "weft: interrupted\n")


def test_programs_that_import_weft_get_pythons_exception():
    done = imported("program.py")
    assert done.returncode != 130 and done.stdout == "" and "KeyboardInterrupt" in done.stderr


def test_interrupts_that_are_ignored_stay_so():
    done = imported("weft", "SIG_IGN")
    assert (done.returncode, done.stdout, done.stderr) == (0, "imported\n", "")


@pytest.mark.parametrize(
    ("name", "line", "expected"),
    [
        ("/usr/bin/weft", ["/usr/bin/python3", "/usr/bin/weft"], True),
        ("-m", ["python", "-m", "weft", "demo"], True),
        ("-m", ["python", "-W", "error", "-m", "weft"], True),
        ("-m", ["python", "-m", "pytest", "weft"], False),
        ("-c", ["python", "-c", "import weft"], False),
        ("interweft", ["python", "interweft"], False),
    ],
)
def test_what_the_command_is(name, line, expected, monkeypatch):
    monkeypatch.setattr(sys, "argv", [name])
    monkeypatch.setattr(sys, "orig_argv", line)
    assert starting.is_command() is expected
