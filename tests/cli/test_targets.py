"""Programs and functions that a command line names, and what goes wrong with them."""

from __future__ import annotations

import argparse
import re
import sys

import pytest

import weft
from weft.cli.errors import CommandError
from weft.cli.main import main
from weft.cli.targets import arguments_from, explained, function_named, run_script


@pytest.fixture
def script(tmp_path):
    def write(text: str, name: str = "program.py") -> str:
        (tmp_path / name).write_text(text)
        return str(tmp_path / name)

    return write


def status_of(path, *arguments, torch=False, show_traceback=False):
    return run_script(path, arguments, torch=torch, show_traceback=show_traceback)


def test_programs_run_as_main_with_their_arguments(script, capsys):
    path = script("import sys\nprint(__name__, __file__ == sys.argv[0], sys.argv[1:])")
    before = sys.modules["__main__"], sys.argv, list(sys.path)
    assert status_of(path, "--loud", "3") == 0
    assert capsys.readouterr().out == "__main__ True ['--loud', '3']\n"
    assert (sys.modules["__main__"], sys.argv, sys.path) == before


def test_modules_beside_a_program_are_found(script, capsys):
    script("value = 41", "beside_the_program.py")
    assert status_of(script("import beside_the_program\nprint(beside_the_program.value + 1)")) == 0
    assert capsys.readouterr().out == "42\n"


@pytest.mark.parametrize(("code", "status"), [("None", 0), ("3", 3), ("'sorry'", 1)])
def test_exits_are_the_programs_own(script, capsys, code, status):
    assert status_of(script(f"raise SystemExit({code})")) == status
    assert capsys.readouterr().err == ("sorry\n" if status == 1 else "")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("x = 1\nx / 0", "program.py:2: ZeroDivisionError: division by zero (--traceback"),
        (
            "import weft\n\nweft.ones(2) + weft.ones(3)",
            "program.py:3: RuntimeError: The size of tensor a (2) must",
        ),
        ("def f(:", "program.py:1: SyntaxError: invalid syntax"),
        ("raise ValueError('one\\ntwo')", "program.py:1: ValueError: one (--traceback"),
        ("assert False", "program.py:1: AssertionError (--traceback"),
    ],
)
def test_errors_are_one_line_with_their_place(script, capsys, text, line):
    assert status_of(script(text)) == 1
    *_, told = capsys.readouterr().err.splitlines()
    assert line in told and told.startswith("weft: ")


def test_a_program_has_its_own_traceback(script, capsys):
    text = """\
import weft
@weft.compile
def f(x):
    return x @ x
def main():
    try:
        f(weft.ones(2, 3))
    except RuntimeError as error:
        raise ValueError("no product") from error
main()
"""
    path = script(text)
    assert status_of(path) == 1
    told = capsys.readouterr().err
    for line, name in ((7, "main"), (4, "f"), (10, "<module>"), (9, "main")):
        assert f'File "{path}", line {line}, in {name}' in told
    assert "The above exception was the direct cause" in told and "ValueError: no product\n" in told
    assert "weft/capture" not in told and "weft/tensor" not in told


def test_tracebacks_are_shown_when_asked_for(script, capsys):
    assert status_of(script("def f():\n    return 1 / 0\nf()"), show_traceback=True) == 1
    told = capsys.readouterr().err
    assert "program.py" in told and "ZeroDivisionError" in told and "targets.py" not in told


def test_missing_programs(tmp_path):
    with pytest.raises(CommandError, match="cannot open .*nothing.py: No such file"):
        status_of(str(tmp_path / "nothing.py"))
    with pytest.raises(CommandError, match="cannot open .*: Is a directory"):
        status_of(str(tmp_path))


def test_functions_by_name(script):
    path = script(
        "class Model:\n    def step(self, x):\n        return x\nmodel = Model()\nwidth = 3", "lib.py"
    )
    function, module = function_named(f"{path}:model.step")
    assert function(4) == 4 and module.width == 3
    assert function_named("weft.nn.functional:relu")[0] is weft.nn.functional.relu


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("relu", "names no function"),
        (":relu", "names no function"),
        ("no_such_module:f", "there is no module no_such_module"),
        ("weft.nope:f", "there is no module weft.nope"),
        ("weft:no_such_op", "weft has no 'no_such_op'"),
        ("weft:__version__", "is a str, which cannot be called"),
        ("missing.py:f", "cannot open missing.py"),
    ],
)
def test_names_of_nothing(name, why):
    with pytest.raises(CommandError, match=why):
        function_named(name)


def test_arguments_are_python():
    args, kwargs = arguments_from("weft.ones(2), size, flag=True", sys.modules[__name__])
    assert args[0].shape == (2,) and args[1] == size and kwargs == {"flag": True}
    assert arguments_from("", sys.modules[__name__]) == ((), {})
    with pytest.raises(CommandError, match="--args 'nope': NameError"):
        arguments_from("nope", sys.modules[__name__])


size = 5


def test_a_line_is_named_once(tmp_path, capsys):
    path = tmp_path / "program.py"
    path.write_text("x = (1\n")
    for command in (["run", str(path)], ["explain", f"{path}:f"], ["report", f"{path}:f"]):
        assert main(command) == 1
        *_, told = capsys.readouterr().err.splitlines()
        assert told.startswith(f"weft: {path}:1: SyntaxError: '(' was never closed (--traceback")


def test_what_is_no_python_is_told_with_its_name(tmp_path, capsys):
    path = tmp_path / "program.py"
    path.write_bytes(b"x = 1\0\n")
    assert main(["run", str(path)]) == 1
    *_, told = capsys.readouterr().err.splitlines()
    assert told.startswith(f"weft: {path}: SyntaxError: source code string cannot contain")
    path.write_bytes(b"x = '\xff'\n")
    assert main(["run", str(path)]) == 1
    *_, told = capsys.readouterr().err.splitlines()
    assert told.startswith(f"weft: {path}:1: SyntaxError: (unicode error)")


def test_what_a_backend_raised_is_told(tmp_path, capsys):
    path = tmp_path / "program.py"
    path.write_text(
        "import weft\ndef broken(module, inputs):\n    raise ValueError('no thread')\n"
        "weft.compile(lambda x: x + 1, backend=broken)(weft.ones(2))\n"
    )
    assert main(["run", "--quiet", str(path)]) == 1
    assert (
        "BackendCompilerFailed: backend='broken' raised: ValueError: no thread (" in capsys.readouterr().err
    )


def test_arguments_that_are_missing_are_asked_for(script):
    path = script("def f(x, n=2):\n    return x * n", "lib.py")
    wanted = re.escape("f(x, n=2): missing a required argument: 'x'. Give them with --args 'weft.randn(3)")
    for command in ("explain", "report"):
        with pytest.raises(CommandError, match=wanted):
            explained(f"{path}:f", "", argparse.Namespace(torch=False, traceback=False))
        assert main([command, f"{path}:f"]) == 1
