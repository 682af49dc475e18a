"""`weft run`: a program, and what was compiled in it."""

from __future__ import annotations

import sys

import pytest

from weft.cli.main import main

PROGRAM = """
import weft

@weft.compile
def step(x):
    y = x * 2
    print("on the way")
    return y.sum()

step(weft.ones(3))
step(weft.ones(3, 3))
print("done")
"""

PACKED = """
import weft

rnn = weft.nn.GRU(4, 8, batch_first=True)

@weft.compile(fullgraph=True)
def step(x, lengths):
    packed = weft.nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True)
    return rnn(packed)[1].sum()

step(weft.randn(3, 5, 4), weft.tensor([5, 3, 2]))
"""


@pytest.fixture
def program(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    return path


def test_says_what_was_compiled(program, capsys):
    assert main(["run", str(program)]) == 0
    told = capsys.readouterr()
    assert told.out == "on the way\non the way\ndone\n"
    lines = told.err.splitlines()
    assert lines[0].startswith("weft: 4 calls compiled in ") and "2 breaks, 2 recompiles" in lines[0]
    assert lines[1] == f"weft: break in step at {program}:7: builtin-call: builtin: print"
    assert lines[2].startswith("weft:   why: a builtin that acts on the world outside")
    assert lines[3].startswith("weft:   try: the code around it is still captured")
    assert lines[4] == lines[1]
    assert lines[5].startswith("weft: step was compiled again: L['x'] is Tensor(float32[3])")


def test_quiet_and_report(program, capsys, tmp_path):
    page = tmp_path / "page.html"
    assert main(["run", "--quiet", "--report", str(page), str(program)]) == 0
    assert capsys.readouterr().err == f"weft: report written to {page}\n"
    assert "program.py" in page.read_text()


def test_report_to_nowhere(program, capsys, tmp_path):
    assert main(["run", "--quiet", "--report", str(tmp_path / "no" / "page.html"), str(program)]) == 1
    assert "weft: cannot write" in capsys.readouterr().err


def test_the_page_is_checked_before_the_work(capsys, tmp_path):
    path = tmp_path / "program.py"
    path.write_text("print('working')")
    for page in (tmp_path / "no" / "page.html", tmp_path):
        assert main(["run", "--report", str(page), str(path)]) == 1
        told = capsys.readouterr()
        assert told.out == "" and "cannot write" in told.err


def test_interrupted_programs_leave_their_page(capsys, tmp_path):
    path, page = tmp_path / "program.py", tmp_path / "page.html"
    path.write_text(PROGRAM + "raise KeyboardInterrupt\n")
    for command in (["run", "--report"], ["report", "-o"]):
        assert main([*command, str(page), str(path)]) == 130
        assert page.exists() and capsys.readouterr().err.endswith("weft: interrupted\n")
        page.unlink()


def test_arguments_and_status_are_the_programs(tmp_path, capsys):
    path = tmp_path / "program.py"
    path.write_text("import sys\nprint(sys.argv[1:])\nsys.exit(7)")
    assert main(["run", str(path), "--quiet", "x"]) == 7
    told = capsys.readouterr()
    assert told.out == "['--quiet', 'x']\n" and told.err == "weft: nothing was compiled\n"


@pytest.mark.parametrize("command", ["run", "report"])
def test_a_program_needs_no_arguments(command, capsys):
    with pytest.raises(SystemExit) as stop:
        main([command])
    assert stop.value.code == 2
    told = capsys.readouterr().err
    assert "[arguments ...]" in told and told.splitlines()[-1].endswith(
        ("required: script", "required: target")
    )


def test_a_break_that_is_refused_names_its_value_and_a_remedy(tmp_path, capsys):
    path = tmp_path / "program.py"
    path.write_text(PACKED)
    assert main(["run", "--quiet", str(path)]) == 1
    *_, told = capsys.readouterr().err.splitlines()
    assert f"data-dependent-value at {path}:8 in step: " in told
    assert "Tensor.tolist of a tensor of shape [3]. Try: keep it a tensor" in told
    assert "pass Python numbers in its place" in told


def test_an_error_ends_in_one_line(tmp_path, capsys):
    path = tmp_path / "program.py"
    path.write_text("raise ValueError('no yarn')")
    for command in ("run", "report"):
        assert main([command, str(path)]) == 1
        *_, told = capsys.readouterr().err.splitlines()
        assert told == f"weft: {path}:1: ValueError: no yarn (--traceback shows all of it)"


def test_programs_for_torch_are_told_how(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    path = tmp_path / "program.py"
    path.write_text("import torch.nn")
    assert main(["run", str(path)]) == 1
    assert ". Try: --torch, which lets it mean Weft (" in capsys.readouterr().err
