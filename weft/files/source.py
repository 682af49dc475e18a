"""Where bytes come from: a path, a file object or a mapping, read at any place, never past the end.

Takes what users pass as `f`; gives a `Source`. One idea: whoever wants bytes says how many, and the size of
the file is known, so that no file can make its reader take more memory than the file has.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from weft.core.arrays import HostArray
from weft.files.errors import FileFormatError, require
from weft.tensor.interchange import adopt


class Source:
    """Bytes of a file object from where it stands to its end."""

    def __init__(self, file: Any, name: str) -> None:
        self.file, self.name = file, name
        self.start = file.tell()
        self.size = file.seek(0, os.SEEK_END) - self.start

    def _seek(self, start: int, count: int, what: str) -> None:
        inside = 0 <= start <= self.size and 0 <= count <= self.size - start
        require(
            inside,
            f"{self.name}: {what} should be bytes {start} to {start + count} of a file of {self.size}: "
            "the file is cut off, or its sizes are wrong",
        )
        self.file.seek(self.start + start)

    def read(self, start: int, count: int, what: str) -> bytes:
        """So many bytes from there; `what` they are is for the error."""
        self._seek(start, count, what)
        found = self.file.read(count)
        require(len(found) == count, f"{self.name}: {what} could not be read to its end")
        return bytes(found)

    def array(self, start: int, count: int, what: str) -> HostArray:
        """The same as an array of bytes with memory of its own."""
        self._seek(start, count, what)
        made = np.empty(count, np.uint8)
        if not hasattr(self.file, "readinto"):
            found = self.file.read(count)
            require(len(found) == count, f"{self.name}: {what} could not be read to its end")
            made[...] = np.frombuffer(found, np.uint8)
            return made
        view, done = memoryview(made.data), 0
        while done < count:
            step = self.file.readinto(view[done:])
            require(step, f"{self.name}: {what} could not be read to its end")
            done += step
        return made

    def leave_at(self, place: int) -> None:
        """Lets the file object stand behind what was read, where another object may follow."""
        self.file.seek(self.start + place)


class Mapped(Source):
    """Bytes of a file that is mapped: arrays are parts of the mapping, which writes do not reach."""

    def __init__(self, file: Any, name: str) -> None:
        super().__init__(file, name)
        self.mapping: HostArray = np.memmap(file, np.uint8, "c") if self.size else np.empty(0, np.uint8)

    def array(self, start: int, count: int, what: str) -> HostArray:
        self._seek(start, count, what)
        part = np.asarray(self.mapping[start : start + count])
        return part.copy() if start % 16 else adopt(part)  # elements must lie aligned


@contextmanager
def opened(f: Any, mmap: bool = False) -> Iterator[Source]:
    """The bytes that a path or a file object stands for."""
    if isinstance(f, (str, os.PathLike)):
        with open(f, "rb") as file:
            yield (Mapped if mmap else Source)(file, os.fspath(f))
        return
    if mmap:
        raise ValueError("f must be a file path in order to use the mmap argument")
    if not hasattr(f, "read"):
        raise AttributeError(
            f"{type(f).__name__!r} object has no attribute 'read': weft.load() takes a path or a file that "
            "is open for reading"
        )
    name = str(getattr(f, "name", type(f).__name__))
    stream: Any = f
    if not (hasattr(f, "seek") and hasattr(f, "tell") and getattr(f, "seekable", lambda: True)()):
        content = f.read()
        if not isinstance(content, (bytes, bytearray)):
            raise FileFormatError(f"{name} is open as text; open it with mode 'rb'")
        stream = io.BytesIO(content)
    elif isinstance(f, io.TextIOBase):
        raise FileFormatError(f"{name} is open as text; open it with mode 'rb'")
    yield Source(stream, name)


@contextmanager
def writable(f: Any) -> Iterator[Any]:
    """A file object to write to, for a path or a file object."""
    if isinstance(f, (str, os.PathLike)):
        with open(f, "wb") as file:
            yield file
        return
    if not hasattr(f, "write"):
        raise AttributeError(
            f"expected 'f' to be string, path, or a file-like object with a 'write' attribute, not {f!r}"
        )
    yield f
