"""`weft explain`: what becomes of a function."""

from __future__ import annotations

import pytest

from weft.cli.main import main

MODULE = """
import weft

def smooth(x, scale=2.0):
    return (weft.tanh(x) * scale).sum()

def halting(x):
    y = x + 1
    print("here")
    return y
"""


@pytest.fixture
def module(tmp_path):
    path = tmp_path / "explained.py"
    path.write_text(MODULE)
    return path


def test_graphs_guards_and_kernels(module, capsys):
    arguments = ["explain", f"{module}:smooth", "--args", "weft.randn(4)", "--backend", "native"]
    assert main(arguments) == 0
    text = capsys.readouterr().out
    assert text.startswith("smooth: 1 graph, 3 ops, 0 breaks, ")
    assert 'tanh: "f32[4]" = weft.tanh(' in text
    assert "L['x'] is Tensor(float32[4])" in text
    assert "tanh mul sum" in text and f"{module}:5" in text


def test_breaks_and_reports(module, capsys, tmp_path):
    page = tmp_path / "page.html"
    assert main(["explain", f"{module}:halting", "--args", "weft.ones(2)", "--report", str(page)]) == 0
    told = capsys.readouterr()
    assert f"{module}:9: builtin-call: builtin: print\n    why: a builtin that" in told.out
    assert "\n    try: the code around it is still captured" in told.out
    assert page.read_text().startswith("<!doctype html>")


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["{}:smooth"], "missing a required argument: 'x'. Give them with --args"),
        (["{}:nothing"], "has no 'nothing'"),
        (["{}"], "names no function. Write module:function, or file.py:function. `weft run "),
        (["{}:smooth", "--args", "weft.ones("], "SyntaxError"),
        (["{}:smooth", "--args", "weft.ones(2)", "--backend", "loom"], "Invalid backend: 'loom'"),
    ],
)
def test_errors_are_one_line(module, capsys, arguments, why):
    assert main(["explain", *(each.format(module) for each in arguments)]) == 1
    told = capsys.readouterr().err
    assert why in told and told.count("\n") == 1


def test_functions_of_the_library_have_no_line_of_a_user(capsys):
    assert main(["explain", "weft.nn.functional:gelu", "--args", "weft.ones(3)"]) == 0
    told = capsys.readouterr().out
    assert "gelu" in told and "forms.py" not in told
