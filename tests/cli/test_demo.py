"""The demo: it learns, repeats itself by seed, and reports its troubles as a user should see them."""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from pathlib import Path

import pytest

from weft.cli import demo
from weft.cli.errors import CommandError
from weft.cli.main import main

TEXT = "to and fro goes the loom, over and under the thread; " * 30


@pytest.fixture
def small(monkeypatch):
    for name, value in {
        "LENGTH": 16,
        "BATCH": 4,
        "WIDTH": 16,
        "HEADS": 2,
        "LAYERS": 1,
        "COMPARED": 1,
    }.items():
        monkeypatch.setattr(demo, name, value)


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text(TEXT)
    return str(path)


def trained(seed, steps):
    training = demo.prepared(TEXT, seed, 1e-2)
    reports = []
    options = argparse.Namespace(steps=steps, seconds=None, learning_rate=1e-2)
    found = demo.train(training, options, lambda *told: reports.append(told))
    return found, reports


def test_training_learns_and_repeats_itself(small):
    (steps, loss, seconds), reports = trained(0, 60)
    assert steps == 60 and seconds > 0
    assert reports[0][:2] == (0.0, 0) and reports[-1] == (1.0, 60, loss)
    assert loss < 0.8 * reports[1][2]
    assert trained(0, 60)[0][1] == loss != trained(1, 60)[0][1]


def test_the_command_shows_and_writes(small, text, capsys, tmp_path):
    page = tmp_path / "page.html"
    assert main(["demo", "--steps", "8", "--text", text, "--report", str(page)]) == 0
    output, errors = capsys.readouterr()
    told = " ".join(output.split())
    assert errors == ""
    assert f"learns to write from {len(TEXT):,} characters" in told
    assert re.search(r"compiled to one function of machine code in \d+\.\d\d s: \d+ ops", told)
    assert "with 0 graph breaks" in told
    assert re.search(r"A step takes \d+\.\d ms eagerly, \d+\.\d ms compiled: \d+\.\d times faster", told)
    assert re.search(r"8 steps in \d+\.\d s, [\d,]+ characters a second, loss \d\.\d{3}", told)
    assert "gpt.py" in page.read_text()


def test_narrow_and_plain_terminals(small, text, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("NO_COLOR", "1")
    assert main(["demo", "--steps", "2", "--text", text, "--no-report"]) == 0
    output = capsys.readouterr().out
    assert max(map(len, output.splitlines())) <= 40 and "\x1b" not in output


def test_a_short_time_is_enough(small, text):
    assert main(["demo", "--seconds", "0.01", "--text", text, "--no-report"]) == 0


def test_divergence_is_told_without_a_traceback(small, text, capsys):
    assert main(["demo", "--learning-rate", "1e30", "--text", text, "--steps", "50", "--no-report"]) == 1
    errors = capsys.readouterr().err
    assert re.match(r"weft: the loss became (nan|inf) in step \d+: training diverged\. ", errors)
    assert errors.endswith(". Try a --learning-rate below 1e+30\n") and errors.count("\n") == 1


@pytest.mark.parametrize(
    ("content", "why"),
    [(None, "cannot open"), (b"\xff\xfe\x00", "is no text in UTF-8"), (b"short", "has 5 characters")],
)
def test_texts_that_are_none(content, why, tmp_path, capsys):
    path = tmp_path / "text.txt"
    if content is not None:
        path.write_bytes(content)
    assert main(["demo", "--text", str(path)]) == 1
    errors = capsys.readouterr().err
    assert why in errors and errors.count("\n") == 1


def test_a_report_that_cannot_be_written(small, text, capsys, tmp_path):
    assert main(["demo", "--steps", "1", "--text", text, "--report", str(tmp_path / "no" / "page.html")]) == 1
    assert "weft: cannot write" in capsys.readouterr().err


def test_the_shipped_text_is_there():
    text = demo.read_text(None)
    assert len(text) > 50_000 and len(set(text)) < 120


def test_without_rich_the_demo_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "rich.console", None)
    with pytest.raises(CommandError, match="needs rich, .* pip install rich"):
        demo.run(None)


@pytest.mark.parametrize(
    ("option", "value", "text"),
    [
        ("--steps", "0", "'0' is not a whole number above 0"),
        ("--seconds", "soon", "'soon' is not a finite number above 0"),
        ("--seed", "1.5", "'1.5' is not a whole number from 0 on"),
        ("--learning-rate", "nan", "'nan' is not a finite number above 0"),
    ],
)
def test_wrong_options_are_named(option, value, text, capsys):
    with pytest.raises(SystemExit) as stop:
        main(["demo", option, value])
    assert stop.value.code == 2
    assert f"argument {option}: {text}" in capsys.readouterr().err


def test_where_nothing_can_be_written_the_page_goes_elsewhere(monkeypatch, tmp_path):
    def refuse(path):
        raise CommandError(f"cannot write {path}")

    monkeypatch.setattr(demo, "check_writable", refuse)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    path = demo.report_path(None)
    assert Path(path).name == "weft-report.html" and Path(path).parents[1] == tmp_path
    with pytest.raises(CommandError, match="cannot write mine.html"):
        demo.report_path("mine.html")
    monkeypatch.setattr(demo, "check_writable", lambda path: None)
    assert demo.report_path(None) == "weft-report.html" and demo.report_path("mine.html") == "mine.html"
