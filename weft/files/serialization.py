"""What programs know of files beside `load` and `save`, under the names of `torch.serialization`.

Takes classes that a program trusts; gives the list of them, which reading asks. One idea: a class on the list
may be made from a file by what it says of itself (`__new__` and `__setstate__`, or its attributes); all
others are refused.
"""

from __future__ import annotations

import os
import zipfile
from collections.abc import Sequence
from enum import Enum
from typing import IO, Any, TypeAlias

from weft.core.dtypes import dtype
from weft.files.pickles import SAFE, safe_name
from weft.tensor.base import PUBLIC
from weft.tensor.storage import UntypedStorage

FileLike: TypeAlias = str | os.PathLike[str] | IO[bytes]
FILE_LIKE = FileLike
MAP_LOCATION: TypeAlias = Any
Storage = UntypedStorage
STORAGE = UntypedStorage
DEFAULT_PROTOCOL = 2


class SourceChangeWarning(Warning):
    """Code that a file was written with is another now. Files here hold no code."""


class LoadEndianness(Enum):
    """In which order the bytes of a file's numbers stand, where it does not say so itself."""

    NATIVE = 1
    LITTLE = 2
    BIG = 3


def get_default_load_endianness() -> LoadEndianness:
    """The order that is assumed: that of nearly all machines."""
    return LoadEndianness.LITTLE


def add_safe_globals(safe_globals: Sequence[Any]) -> None:
    """Lets files make objects of these classes; a pair says the name that files have for the class."""
    SAFE.update({safe_name(each): each for each in safe_globals})


def get_safe_globals() -> list[Any]:
    """The classes that files may make objects of."""
    return list(SAFE.values())


def clear_safe_globals() -> None:
    """Forgets all classes of `add_safe_globals`."""
    SAFE.clear()


class safe_globals:
    """Lets files make objects of these classes meanwhile."""

    def __init__(self, safe_globals: Sequence[Any]) -> None:
        self.added = {safe_name(each): each for each in safe_globals}
        self.before: dict[str, Any] = {}

    def __enter__(self) -> None:
        self.before = dict(SAFE)
        SAFE.update(self.added)

    def __exit__(self, *_error: object) -> None:
        SAFE.clear()
        SAFE.update(self.before)


class PyTorchFileReader:
    """The records of a file that PyTorch wrote: a zip file, whose members are named below one folder."""

    def __init__(self, name_or_buffer: Any) -> None:
        self._file = zipfile.ZipFile(name_or_buffer)
        names = self._file.namelist()
        self._folder = names[0].partition("/")[0] + "/" if names else ""

    def has_record(self, name: str) -> bool:
        """Whether there is a record of this name."""
        return self._folder + name in self._file.namelist()

    def get_record(self, name: str) -> bytes:
        """The bytes of a record."""
        if not self.has_record(name):
            raise RuntimeError(f"PytorchStreamReader failed locating file {name}: file not found")
        return self._file.read(self._folder + name)

    def get_all_records(self) -> list[str]:
        """The names of all records."""
        return [name.removeprefix(self._folder) for name in self._file.namelist()]

    def get_storage_from_record(self, name: str, numel: int, dtype: dtype) -> Any:
        """The elements of a record, as a tensor of its own memory."""
        return PUBLIC["frombuffer"](bytearray(self.get_record(name)), dtype=dtype, count=numel)
