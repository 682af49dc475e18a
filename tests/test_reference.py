"""The pages of the reference: each public name has one, and nearly all show an example that has run."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from pathlib import Path

import pytest

import weft

ROOT = Path(__file__).resolve().parent.parent
WITHOUT = {
    "weft": 180, "weft.Tensor": 106, "weft.nn": 1, "weft.nn.functional": 15, "weft.nn.init": 0,
    "weft.nn.utils": 8, "weft.optim": 0, "weft.optim.lr_scheduler": 0, "weft.autograd": 0, "weft.func": 0,
    "weft.compiler": 0, "weft.amp": 0, "weft.linalg": 3, "weft.fft": 0, "weft.special": 0,
    "weft.distributions": 0, "weft.data": 4, "weft.files": 5, "weft.jit": 32, "weft.profiler": 7,
    "weft.utils.tensorboard": 0, "weft.testing": 25,
}  # fmt: skip
"""How many pages show no example: make these smaller."""


def told_by(code: str) -> str:
    """What code prints in a process of its own, beside the makers of pages: examples set modes and seeds."""
    environment = {"PYTHONPATH": f"{ROOT}:{ROOT / 'docs'}"}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_pages_without_an_example_are_counted():
    assert (
        json.loads(told_by("import json, reference; print(json.dumps(reference.without_example()))"))
        == WITHOUT
    )


@pytest.fixture(scope="module")
def pages():
    names = ["weft.add_", "weft.absolute", "weft.Tensor.absolute_", "weft.nn.functional.conv2d", "weft.gru"]
    code = f"""
import json, reference
found = {{}}
for module in ("weft", "weft.Tensor", "weft.nn.functional"):
    for entry in reference.public_names(module):
        if entry.full in {names}:
            found[entry.full] = reference.page(entry)
print(json.dumps(found))
"""
    return json.loads(told_by(code))


@pytest.mark.parametrize(
    ("name", "called"),
    [
        ("weft.add_", ">>> weft.add_("),
        ("weft.absolute", ">>> weft.absolute("),
        ("weft.Tensor.absolute_", ".absolute_()\n"),
        ("weft.nn.functional.conv2d", ">>> weft.nn.functional.conv2d("),
    ],
)
def test_aliases_forms_in_place_and_composites_tell_what_their_record_knows(pages, name, called):
    text = pages[name]
    assert "| gradient | " in text and "| compiled | " in text and "## Shapes and dtypes" in text
    assert called in text


def test_recurrent_functions_show_their_parameters(pages):
    assert "weft.gru(input, hx, params, has_biases, num_layers, dropout, train" in pages["weft.gru"]
    assert list(inspect.signature(weft.lstm).parameters)[-1] == "batch_first"


def test_distributions_show_their_parameters():
    assert list(inspect.signature(weft.distributions.Normal).parameters) == ["loc", "scale", "validate_args"]
    assert inspect.signature(weft.distributions.GeneralizedPareto).parameters["scale"].name == "scale"


def test_all_public_names_have_a_docstring():
    code = """
import reference
entries = [entry for module in reference.MODULES for entry in reference.public_names(module)]
print([entry.full for entry in entries if not reference.body_of(entry).strip()])
"""
    assert told_by(code).strip() == "[]"
