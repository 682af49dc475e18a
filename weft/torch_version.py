"""The version of PyTorch whose names and texts Weft follows, as programs ask for it."""

from __future__ import annotations

import re
from typing import Any


def _parts(text: Any) -> tuple[int, ...]:
    """The numbers of a release: `2.13.0+cpu` is (2, 13, 0), and so is `(2, 13)`."""
    numbers = (
        [str(part) for part in text]
        if isinstance(text, (tuple, list))
        else str(text).split("+")[0].split(".")
    )
    found = [int(match[0]) for part in numbers if (match := re.match(r"\d+", part))]
    while found and found[-1] == 0:
        found.pop()
    return tuple(found)


class TorchVersion(str):
    """A version that compares by its numbers, with texts and tuples.

    >>> TorchVersion("2.13.0") > "2.9", TorchVersion("2.13.0") >= (2, 13)
    (True, True)
    """

    __slots__ = ()

    def __lt__(self, other: Any) -> bool:
        return _parts(self) < _parts(other)

    def __le__(self, other: Any) -> bool:
        return _parts(self) <= _parts(other)

    def __gt__(self, other: Any) -> bool:
        return _parts(self) > _parts(other)

    def __ge__(self, other: Any) -> bool:
        return _parts(self) >= _parts(other)

    def __eq__(self, other: object) -> bool:
        return str.__eq__(self, other) is True or _parts(self) == _parts(other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = str.__hash__


__version__ = TorchVersion("2.13.0+weft")
debug = False
cuda = None
hip = None
rocm = None
xpu = None
git_version = "Unknown"
