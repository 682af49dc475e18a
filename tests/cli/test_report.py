"""`weft report`: a page about a program or a function."""

from __future__ import annotations

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
