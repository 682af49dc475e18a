"""The demo learns, repeats itself by seed, and reports its troubles as a user should see them."""

from __future__ import annotations

import re
import sys

import numpy as np
import pytest

from weft.cli import demo, digits
from weft.cli.errors import CommandError
from weft.cli.main import main

SMALL = {"epochs": 2, "hidden": 32, "batch_size": 100, "learning_rate": 0.2, "seed": 0}


@pytest.fixture
def small_data(monkeypatch):
    monkeypatch.setattr(demo, "TRAINING_SIZE", 600)
    monkeypatch.setattr(demo, "TEST_SIZE", 200)


def test_training_learns_to_read():
    result = demo.train(**SMALL | {"epochs": 6, "hidden": 64}, report=lambda done, loss: None)
    assert result.accuracy > 0.8  # guessing reads one in ten
    assert result.steps == 600
    assert result.seconds > 0


def test_answers_are_those_shown(small_data):
    result = demo.train(**SMALL | {"epochs": 20}, report=lambda done, loss: None)
    _, labels = digits.draw(200, seed=1)
    assert len(result.answers) == demo.SHOWN
    assert (np.array(result.answers) == labels[: demo.SHOWN]).mean() > 0.5


def test_progress_ends_at_the_last_epoch_with_the_loss(small_data):
    reports: list[tuple[float, float]] = []
    result = demo.train(**SMALL, report=lambda done, loss: reports.append((done, loss)))
    assert [done for done, _ in reports] == [1, 2]
    assert reports[-1][1] == result.loss < reports[0][1]


def test_equal_seeds_give_equal_runs(small_data):
    losses = [demo.train(**SMALL | {"seed": seed}, report=lambda *_: None).loss for seed in (5, 5, 6)]
    assert losses[0] == losses[1] != losses[2]


def test_command_prints_accuracy_and_speed(small_data, capsys):
    assert main(["demo", "--epochs", "2", "--batch-size", "100"]) == 0
    output, errors = capsys.readouterr()
    assert errors == ""
    assert "2/2 epochs" in output
    assert re.search(r"\d+\.\d% of 200 unseen digits read correctly, final loss \d\.\d{4}", output)
    assert re.search(r"12 steps in \d+\.\d\d s: [\d,]+ steps/s, [\d,]+ pictures/s", output)


def test_divergence_is_told_without_a_traceback(small_data, capsys):
    assert main(["demo", "--learning-rate", "1e30"]) == 1
    errors = capsys.readouterr().err
    assert re.match(r"weft: the loss became (nan|inf) in epoch 1: training diverged\. ", errors)
    assert errors.endswith(". Try a --learning-rate below 1e+30\n") and errors.count("\n") == 1


def test_without_rich_the_demo_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "rich.console", None)
    with pytest.raises(CommandError, match=r"needs rich.console, .* pip install 'weft\[cli\]'"):
        demo.run(None)


@pytest.mark.parametrize(
    ("option", "value", "text"),
    [
        ("--epochs", "0", "'0' is not a whole number above 0"),
        ("--hidden", "many", "'many' is not a whole number above 0"),
        ("--batch-size", "-3", "'-3' is not a whole number above 0"),
        ("--seed", "1.5", "'1.5' is not a whole number from 0 on"),
        ("--learning-rate", "nan", "'nan' is not a finite number above 0"),
        ("--learning-rate", "fast", "'fast' is not a finite number above 0"),
    ],
)
def test_arguments_are_checked(option, value, text, capsys):
    with pytest.raises(SystemExit) as stop:
        main(["demo", f"{option}={value}"])
    assert stop.value.code == 2
    assert f"error: argument {option}: {text}" in capsys.readouterr().err


def test_sketch_puts_each_answer_below_its_picture():
    pictures, _ = digits.draw(3, seed=0)
    *lines, answers = demo.sketch(pictures, [4, 0, 7])
    assert len(lines) == 5
    assert [answers.index(mark) for mark in "407"] == [4, 15, 26]
