"""Zip archives as PyTorch writes them: members that are stored as they are, found by name.

Takes a `Source`; gives its members. One idea: members that are not compressed cannot grow, so an archive
whose members are stored, lie inside the file and do not overlap holds no more than the file has.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from weft.core.arrays import HostArray
from weft.files.errors import FileFormatError, UnsafeFileError, require
from weft.files.source import Source

_END: Final = struct.Struct("<4s4H2LH")
_END64: Final = struct.Struct("<4sQ2H2L4Q")
_LOCATOR64: Final = struct.Struct("<4sLQL")
_CENTRAL: Final = struct.Struct("<4s6H3L5H2L")
_LOCAL: Final = struct.Struct("<4s5H3L2H")
_FULL: Final = 0xFFFFFFFF
LONGEST_COMMENT: Final = 0xFFFF


@dataclass
class Member:
    """One file in an archive."""

    name: str
    size: int
    crc: int
    header: int
    start: int = 0


SCRIPTED: Final = (
    "{} is a TorchScript archive, which holds code, and Weft reads data alone. Save its parameters in "
    "PyTorch: torch.save(torch.jit.load(path).state_dict(), other_path), and load those here"
)


class Archive:
    """The members of a zip file, all checked before the first is read."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.members: dict[str, Member] = {}
        start, count, size = self._directory()
        self._read_directory(start, count, size)
        self._place(start)
        self.has_sums = any(member.crc for member in self.members.values())
        """PyTorch can be told to leave checksums out; then all are 0."""

    def _directory(self) -> tuple[int, int, int]:
        """Where the directory of members begins, how many there are, and how many bytes that takes."""
        source = self.source
        tail_size = min(source.size, _END.size + LONGEST_COMMENT)
        tail = source.read(source.size - tail_size, tail_size, "the end of a zip file")
        place = tail.rfind(b"PK\x05\x06")
        require(place >= 0, f"{source.name}: no directory at the end of the zip file: it is cut off")
        require(len(tail) - place >= _END.size, f"{source.name}: the end of the zip file is cut off")
        _, disk, first, here, count, size, start, comment = _END.unpack_from(tail, place)
        require(
            len(tail) == place + _END.size + comment,
            f"{source.name}: something follows the end of the zip file",
        )
        require(disk in (0, 0xFFFF) and first in (0, 0xFFFF), f"{source.name}: part of a split zip file")
        end = source.size - tail_size + place
        locator_at = end - _LOCATOR64.size
        if locator_at >= 0:
            locator = source.read(locator_at, _LOCATOR64.size, "the zip64 locator")
            if locator[:4] == b"PK\x06\x07":
                at = _LOCATOR64.unpack(locator)[2]
                record = source.read(at, _END64.size, "the zip64 end of the directory")
                require(
                    record[:4] == b"PK\x06\x06", f"{source.name}: the zip64 end of directory is elsewhere"
                )
                here, count, size, start = _END64.unpack(record)[6:]
                end = at
        require(here == count, f"{source.name}: part of a split zip file")
        require(
            start + size <= end,
            f"{source.name}: the directory of the zip file should lie at {start}, {size} bytes long, but "
            f"must end at {end}",
        )
        return start, count, size

    def _read_directory(self, start: int, count: int, size: int) -> None:
        name = self.source.name
        require(
            count * _CENTRAL.size <= size, f"{name}: {count} members do not fit {size} bytes of directory"
        )
        text = self.source.read(start, size, "the directory of the zip file")
        place = 0
        for _ in range(count):
            require(place + _CENTRAL.size <= size, f"{name}: the directory of the zip file is cut off")
            fields = _CENTRAL.unpack_from(text, place)
            signature, _, _, flags, method, _, _, crc, packed, full, *lengths = fields[:13]
            offset = fields[16]
            require(signature == b"PK\x01\x02", f"{name}: the directory of the zip file is damaged")
            name_length, extra_length, comment_length = lengths
            place += _CENTRAL.size
            after = place + name_length + extra_length + comment_length
            require(after <= size, f"{name}: the directory of the zip file is cut off")
            title = self._title(text[place : place + name_length])
            extra = text[place + name_length : place + name_length + extra_length]
            full, packed, offset = self._wide(title, extra, full, packed, offset)
            require(not flags & 1, f"{name}: {title!r} is encrypted")
            if "code" in title.split("/")[1:-1]:  # behind the name of the file
                raise UnsafeFileError(SCRIPTED.format(name))
            require(
                method == 0 and packed == full,
                f"{name}: {title!r} is compressed, which PyTorch's files never are",
            )
            require(title not in self.members, f"{name}: two members are named {title!r}")
            self.members[title] = Member(title, full, crc, offset)
            place = after

    def _title(self, raw: bytes) -> str:
        try:
            title = raw.decode("utf-8")
        except UnicodeDecodeError:
            raise FileFormatError(f"{self.source.name}: a member's name is not UTF-8: {raw[:80]!r}") from None
        parts = title.split("/")
        wrong = not title or title.startswith("/") or "\\" in title or "\0" in title or ".." in parts
        require(not wrong, f"{self.source.name}: {title[:80]!r} is no name for a member")
        return title

    def _wide(self, title: str, extra: bytes, full: int, packed: int, offset: int) -> tuple[int, int, int]:
        """Sizes and place where they need 64 bits: they stand in a field of their own."""
        values = [full, packed, offset]
        wanted = [position for position, value in enumerate(values) if value == _FULL]
        if not wanted:
            return full, packed, offset
        place = 0
        while place + 4 <= len(extra):
            tag, length = struct.unpack_from("<HH", extra, place)
            place += 4
            if tag == 1:
                require(
                    len(wanted) * 8 <= length and place + length <= len(extra),
                    f"{self.source.name}: the zip64 field of {title!r} is cut off",
                )
                for number, position in enumerate(wanted):
                    (values[position],) = struct.unpack_from("<Q", extra, place + 8 * number)
                return values[0], values[1], values[2]
            place += length
        raise FileFormatError(f"{self.source.name}: {title!r} has no zip64 sizes")

    def _place(self, limit: int) -> None:
        """Finds where the members' bytes begin, and that none overlaps another."""
        name, before, last = self.source.name, 0, ""
        for member in sorted(self.members.values(), key=lambda each: each.header):
            title = member.name
            raw = self.source.read(member.header, _LOCAL.size, f"the header of {title!r}")
            fields = _LOCAL.unpack(raw)
            require(fields[0] == b"PK\x03\x04", f"{name}: there is no member at the place of {title!r}")
            named = self.source.read(member.header + _LOCAL.size, fields[9], f"the name of {title!r}")
            require(
                named == title.encode(), f"{name}: the member at the place of {title!r} is {named[:80]!r}"
            )
            member.start = member.header + _LOCAL.size + fields[9] + fields[10]
            require(member.header >= before, f"{name}: {title!r} and {last!r} overlap")
            before, last = member.start + member.size, title
            require(before <= limit, f"{name}: {title!r} ends at {before}, where the directory is at {limit}")

    def _member(self, title: str) -> Member:
        require(title in self.members, f"{self.source.name}: there is no {title!r} in the zip file")
        return self.members[title]

    def read(self, title: str) -> bytes:
        """The content of a member."""
        member = self._member(title)
        found = self.source.read(member.start, member.size, repr(title))
        self._check(member, found)
        return found

    def array(self, title: str) -> HostArray:
        """The content of a member, as an array of bytes."""
        member = self._member(title)
        found = self.source.array(member.start, member.size, repr(title))
        self._check(member, np.ascontiguousarray(found))
        return found

    def _check(self, member: Member, content: Any) -> None:
        if self.has_sums:
            require(
                zlib.crc32(content) == member.crc,
                f"{self.source.name}: the checksum of {member.name!r} is wrong: the file is damaged",
            )
