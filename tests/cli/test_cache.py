"""`weft cache`: what is kept on disk."""

from __future__ import annotations

import pytest

import weft
from weft.cli.main import main


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("WEFT_CACHE", "1")
    monkeypatch.setenv("WEFT_CACHE_DIR", str(tmp_path / "kept"))
    return tmp_path / "kept"


def test_show_and_clear(folder, capsys):
    assert main(["cache"]) == 0
    assert "0, 0.0 MiB of at most" in capsys.readouterr().out
    weft.compile(lambda x: (x * 5.25).cos().sum(), backend="native")(weft.ones(7))
    count = len(list(folder.iterdir()))
    assert count > 0
    assert main(["cache"]) == 0
    text = capsys.readouterr().out
    assert str(folder) in text and f"{'files':<12} {count}," in text and "object" in text
    assert main(["cache", "clear"]) == 0
    assert capsys.readouterr().out.startswith(f"removed {count} files, ")
    assert not list(folder.iterdir())


def test_turned_off(monkeypatch, capsys):
    monkeypatch.setenv("WEFT_CACHE", "0")
    assert main(["cache"]) == 0
    assert capsys.readouterr().out.startswith("nothing is kept")
