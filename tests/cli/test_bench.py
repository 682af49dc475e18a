"""`weft bench`: rows, peers, files; the programs themselves are tried by hand, beside torch and jax."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from weft.cli import bench
from weft.cli.main import main

ROWS = {"a": SimpleNamespace(name="a small sum"), "b": SimpleNamespace(name="a large sum")}
RESULTS = {
    "a": {"weft": {"step": 1.0}, "jax": {"step": 5.0}, "torch": {"step": 4.0}},
    "b": {"weft": {"step": 2e-3}, "jax": {"step": 1e-3}, "torch": {"error": "out of memory"}},
}


@pytest.fixture
def measured(monkeypatch):
    peers = SimpleNamespace(
        ROWS=ROWS, PEERS={"torch": "no_such_torch", "jax": "numpy", "weft": "weft"},
        limits=lambda: {"bytes": 1e-11},
        row_of=lambda letter, present, rounds, seconds: {name: RESULTS[letter][name] for name in present},
        report=lambda letter, row, floor: print(f"({letter})"),
    )  # fmt: skip
    monkeypatch.setattr(bench, "programs", lambda: peers)
    return peers


def test_programs_are_found():
    peers = bench.programs()
    assert "".join(peers.ROWS) == "abcdefghij" and set(peers.PEERS) == {
        "torch",
        "torch.compile",
        "jax",
        "weft",
    }


def test_ratios_and_table(measured):
    assert bench.ratios(RESULTS) == {"a": {"jax": 5.0, "torch": 4.0}, "b": {"jax": 0.5}}
    lines = bench.table(measured, RESULTS).splitlines()
    assert lines[0].split()[-2:] == ["jax", "torch"]
    assert lines[1].startswith("(a) a small sum") and lines[1].split()[-2:] == ["5.00", "4.00"]
    assert lines[2].split()[-2:] == ["0.50", "-"]


def test_a_run(measured, capsys, tmp_path):
    path = tmp_path / "results.json"
    assert main(["bench", "--rows", "ab", "--output", str(path)]) == 0
    told = capsys.readouterr().out
    assert told.startswith("torch is left out: no_such_torch is not installed\n[1/2] (a)\n[2/2] (b)\n")
    found = json.loads(path.read_text())
    assert found["rows"]["a"]["jax"] == {"step": 5.0} and "numpy" in found["machine"]


def test_a_plot(measured, tmp_path):
    pytest.importorskip("matplotlib")
    bench.plot(str(tmp_path / "ratios.svg"), measured, RESULTS)
    assert "<svg" in (tmp_path / "ratios.svg").read_text()


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--rows", "xyz"], "there is no row 'xyz'"),
        (["--rows", ""], "there is no row ''"),
        (["--rows", "a", "--peers", "abacus"], "there is no peer 'abacus'"),
        (["--rows", "a", "--rounds", "0"], "must be above 0"),
        (["--rows", "a", "--seconds", "-1"], "must be above 0"),
        (["--rows", "a", "--peers", "torch"], "none of these peers is installed"),
        (["--rows", "a", "--output", "no_such_folder/x.json"], "No such directory"),
        (["--rows", "a", "--plot", "ratios.gif"], "must end in .png or .svg"),
    ],
)
def test_wrong_arguments_are_one_line(measured, capsys, arguments, why):
    assert main(["bench", *arguments]) == 1
    told = capsys.readouterr().err
    assert why in told and told.count("\n") == 1


def test_help_names_the_rows(capsys):
    with pytest.raises(SystemExit):
        main(["bench", "--help"])
    text = capsys.readouterr().out
    for letter, row in bench.programs().ROWS.items():
        assert f"  {letter}  {row.name}\n" in text


def test_the_programs_run_without_what_stands_beside_them(tmp_path):
    """As in a wheel, which has this module alone."""
    alone = tmp_path / "peers.py"
    alone.write_text((Path(__file__).parents[2] / "benchmarks" / "peers.py").read_text())
    line = [
        sys.executable,
        str(alone),
        "--rows",
        "a",
        "--peers",
        "weft",
        "--rounds",
        "1",
        "--seconds",
        "0.02",
    ]
    folder = str(Path(__file__).parents[2])
    done = subprocess.run(line, env=os.environ | {"PYTHONPATH": folder}, capture_output=True, text=True)
    assert "weft           step" in done.stdout and "Error" not in done.stdout, done.stdout + done.stderr
