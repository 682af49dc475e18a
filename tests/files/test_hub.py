"""Models by name: from folders, and files that are fetched once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import weft
from weft.files import hub

SOURCE = '''
dependencies = ["numpy"]
def double(factor=2):
    """Twice as much."""
    return lambda x: x * factor
def _hidden(): ...
'''


def test_folders(tmp_path: Path) -> None:
    (tmp_path / "hubconf.py").write_text(SOURCE)
    folder = str(tmp_path)
    assert hub.list(folder) == ["double"] and hub.help(folder, "double") == "Twice as much."
    assert hub.load(folder, "double", source="local", factor=3)(2) == 6
    with pytest.raises(RuntimeError, match="Cannot find callable nothing in hubconf"):
        hub.load(folder, "nothing", source="local")
    with pytest.raises(RuntimeError, match="is a repository on a network"):
        hub.load("someone/models", "net")


def test_addresses(tmp_path: Path, monkeypatch: Any) -> None:
    """A file is fetched once, checked, and read as data."""
    weft.save({"x": weft.ones(2)}, tmp_path / "net.pt")
    monkeypatch.setattr(hub, "_chosen", {"dir": str(tmp_path / "kept")})
    address = (tmp_path / "net.pt").as_uri()
    assert hub.load_state_dict_from_url(address)["x"].tolist() == [1, 1]
    (tmp_path / "net.pt").unlink()
    assert hub.load_state_dict_from_url(address)["x"].tolist() == [1, 1]
    with pytest.raises(OSError, match="cannot be fetched"):
        hub.load_state_dict_from_url((tmp_path / "other.pt").as_uri())
    (tmp_path / "data").write_bytes(b"abc")
    with pytest.raises(RuntimeError, match="invalid hash value"):
        hub.download_url_to_file((tmp_path / "data").as_uri(), str(tmp_path / "copy"), "1234")
    assert not (tmp_path / "copy").exists()
