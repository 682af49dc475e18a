"""Classes that a program declares safe may be made from PyTorch's files, others not."""

from __future__ import annotations

import io
import pickle
import zipfile
from typing import Any

import pytest

import weft
from weft.files import UnsafeFileError
from weft.files import serialization as files


class Note:
    def __init__(self, text: str) -> None:
        raise AssertionError("the constructor is not called")


class Counted:
    def __init__(self, count: int) -> None:
        self.count = count

    def __reduce__(self) -> Any:
        return Counted, (self.count,)


def written(value: Any) -> io.BytesIO:
    """A file as PyTorch writes it, without tensors."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("archive/data.pkl", pickle.dumps(value, protocol=2))
        archive.writestr("archive/version", "3\n")
    buffer.seek(0)
    return buffer


def test_declared_classes() -> None:
    note = Note.__new__(Note)
    note.text = "hello"  # type: ignore[attr-defined]
    for value in (note, Counted(3)):
        with pytest.raises(UnsafeFileError, match="was not an allowed global"):
            weft.load(written([value]))
    with files.safe_globals([Note, Counted]):
        assert files.get_safe_globals() == [Note, Counted]
        (found,), (counted,) = weft.load(written([note])), weft.load(written([Counted(3)]))
        assert type(found) is Note and found.__dict__ == {"text": "hello"} and counted.count == 3
    assert files.get_safe_globals() == []
    files.add_safe_globals([(Counted, f"{Counted.__module__}.Counted")])
    assert weft.load(written(Counted(4))).count == 4
    files.clear_safe_globals()


def test_records() -> None:
    reader = files.PyTorchFileReader(written({"a": 1}))
    assert reader.has_record("version") and reader.get_record("version") == b"3\n"
    assert set(reader.get_all_records()) == {"data.pkl", "version"}
    with pytest.raises(RuntimeError, match="file not found"):
        reader.get_record("data/7")
