"""`weft report`: a page about a program or a function."""

from __future__ import annotations

import pytest

from weft.cli.main import main


def test_of_a_function(tmp_path, capsys):
    path = tmp_path / "reported.py"
    path.write_text("def double(x):\n    return x * 2\n")
    page = tmp_path / "page.html"
    assert main(["report", "-o", str(page), "--args", "weft.ones(2)", f"{path}:double"]) == 0
    assert "double" in page.read_text() and str(page) in capsys.readouterr().err


def test_arguments_may_stand_behind_the_function(tmp_path, capsys):
    path = tmp_path / "behind.py"
    path.write_text("def double(x):\n    return x * 2\n")
    assert (
        main(["report", "-o", str(tmp_path / "page.html"), f"{path}:double", "--args", "weft.ones(2)"]) == 0
    )
    assert main(["report", "-o", str(tmp_path / "page.html"), f"{path}:double", "7"]) == 1
    assert "is given by --args" in capsys.readouterr().err


def test_of_a_program(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "reported.py").write_text("import weft\nweft.compile(lambda x: x * 2)(weft.ones(2))\n")
    assert main(["report", "reported.py"]) == 0
    assert "reported.py" in (tmp_path / "report.html").read_text()


def test_of_nothing(tmp_path, capsys):
    path = tmp_path / "reported.py"
    path.write_text("print('no compiling here')")
    assert main(["report", "-o", str(tmp_path / "page.html"), str(path)]) == 1
    assert "compiled nothing" in capsys.readouterr().err
    assert main(["report", str(tmp_path / "missing.py")]) == 1
    assert "cannot open" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "page", "left"),
    [
        (["-o", "page.html", "reported.py", "x"], "page.html", ["x"]),
        (["reported.py", "-o", "page.html"], "page.html", []),
        (["reported.py", "x", "--output=page.html", "--traceback", "y"], "page.html", ["x", "y"]),
        (
            ["reported.py", "-o", "page.html", "--", "-o", "model", "--torch"],
            "page.html",
            ["-o", "model", "--torch"],
        ),
        (["reported.py", "-out", "z", "--out=3", "--args=1"], "report.html", ["-out", "z", "--out=3"]),
    ],
)
def test_options_stand_before_a_program_or_behind_it(words, page, left, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    text = "import sys, weft\nprint(sys.argv[1:])\nweft.compile(lambda x: x * 2)(weft.ones(2))\n"
    (tmp_path / "reported.py").write_text(text)
    assert main(["report", *words]) == 0
    assert capsys.readouterr().out == f"{left}\n"
    assert [each.name for each in tmp_path.glob("*.html")] == [page]


def test_options_behind_need_their_values(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["report", "reported.py", "-o"])
    told = capsys.readouterr().err
    assert stop.value.code == 2 and told.startswith("usage: weft report ") and "expected one argument" in told
