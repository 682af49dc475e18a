"""The command as its user meets it: help, statuses, errors without tracebacks."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
from pathlib import Path

import pytest

from weft.cli import main as command
from weft.cli.errors import CommandError

REPOSITORY = Path(__file__).resolve().parents[2]


def weft(*arguments: str) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "weft", *arguments]
    return subprocess.run(line, cwd=REPOSITORY, capture_output=True, text=True, check=False)


def test_module_runs_as_a_command():
    result = weft("doctor")
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.startswith("weft ")


def test_help_explains_every_command_and_status(capsys):
    with pytest.raises(SystemExit) as stop:
        command.main(["--help"])
    assert stop.value.code == 0
    text = capsys.readouterr().out
    assert "demo      Train a small GPT, compiled as one function, and show how it" in text
    assert "doctor    Show what Weft runs on, and whether it works here" in text
    assert "130  interrupted" in text


@pytest.mark.parametrize("name", command.COMMANDS)
def test_help_of_a_command_fits_a_terminal(name, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit) as stop:
        command.main([name, "--help"])
    assert stop.value.code == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(f"usage: weft {name} ")
    assert max(map(len, lines)) <= 80


@pytest.mark.parametrize("arguments", [[], ["weave"], ["demo", "--loudly"]])
def test_arguments_not_understood_exit_with_2(arguments, capsys):
    with pytest.raises(SystemExit) as stop:
        command.main(arguments)
    assert stop.value.code == 2
    assert "usage: weft" in capsys.readouterr().err


def test_mistakes_are_told_with_the_usage_of_their_command(capsys):
    with pytest.raises(SystemExit):
        command.main(["run", "--loudly", "program.py"])
    told = capsys.readouterr().err
    assert told.startswith("usage: weft run ") and told.endswith("unrecognized arguments: --loudly\n")


def test_nothing_is_answered_with_help(capsys):
    with pytest.raises(SystemExit) as stop:
        command.main([])
    told = capsys.readouterr()
    assert stop.value.code == 2 and told.out == "" and "doctor    Show what Weft runs on" in told.err


def test_version_is_that_of_the_package(capsys, monkeypatch):
    monkeypatch.setattr(importlib.metadata, "version", lambda name: f"7.8 of {name}")
    with pytest.raises(SystemExit) as stop:
        command.main(["--version"])
    assert stop.value.code == 0
    assert capsys.readouterr().out == "weft 7.8 of weft\n"


@pytest.mark.parametrize(
    ("error", "status", "text"),
    [
        (CommandError("no thread left. Try: a spindle"), 1, "weft: no thread left. Try: a spindle\n"),
        (KeyboardInterrupt(), 130, "weft: interrupted\n"),
    ],
)
def test_errors_of_commands_become_statuses(error, status, text, capsys, monkeypatch):
    def fail(_options):
        raise error

    monkeypatch.setattr(command.COMMANDS["doctor"], "run", fail)
    assert command.main(["doctor"]) == status
    assert capsys.readouterr().err == text


def test_defects_are_not_hidden(monkeypatch):
    def fail(_options):
        raise ZeroDivisionError

    monkeypatch.setattr(command.COMMANDS["doctor"], "run", fail)
    with pytest.raises(ZeroDivisionError):
        command.main(["doctor"])


def test_closed_pipe_is_no_error():
    line = f"set -o pipefail; {sys.executable} -m weft doctor | true"
    result = subprocess.run(["bash", "-c", line], cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (0, "")
