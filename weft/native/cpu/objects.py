"""Objects: what machine code asks of others.

Takes the bytes of an object file as LLVM writes them; gives the symbols that it does not define. One idea:
a loader links what it cannot find to address 0, and a call of that ends the process, so an object is read
before it is loaded, and refused if it asks for anything.
"""

from __future__ import annotations

import struct
from typing import Final

from weft.core.interrupts import let_through
from weft.native.target import Uncompiled

SYMBOLS: Final = 2
"""The type of a section that holds the table of symbols."""
SECTION: Final = struct.Struct("<IIQQQQIIQQ")
SYMBOL: Final = struct.Struct("<IBBHQQ")
FUNCTION: Final = 0x12
"""What the table says of a function that all may call."""


def symbols(content: bytes) -> list[tuple[str, int, int]]:
    """The symbols of a 64-bit ELF object: name, kind, and the section that defines it, or 0."""
    if content[:6] != b"\x7fELF\x02\x01":
        raise Uncompiled("an object file of a format that cannot be checked")
    try:
        (start,) = struct.unpack_from("<Q", content, 40)
        size, count = struct.unpack_from("<HH", content, 58)
        sections = [SECTION.unpack_from(content, start + size * number) for number in range(count)]
        found: list[tuple[str, int, int]] = []
        for _name, kind, _flags, _address, offset, length, link, _info, _align, entry in sections:
            if kind != SYMBOLS:
                continue
            names = sections[link][4]
            for place in range(offset + entry, offset + length, entry):  # the first one is nobody's
                begin, sort, _other, section, _value, _size = SYMBOL.unpack_from(content, place)
                name = content[names + begin : content.index(b"\0", names + begin)].decode()
                found.append((name, sort, section))
        return found
    except (struct.error, IndexError, ValueError) as error:
        let_through(error)
        raise Uncompiled(f"an object file that cannot be read: {error}") from error


def undefined(content: bytes) -> list[str]:
    """The names that an object uses and does not define."""
    return [name for name, _, section in symbols(content) if section == 0]


def functions(content: bytes) -> list[str]:
    """The names of the functions that an object defines."""
    return [name for name, sort, section in symbols(content) if section and sort == FUNCTION]


def check(content: bytes) -> None:
    """Refuses an object that asks for anything from outside."""
    missing = undefined(content)
    if missing:
        raise Uncompiled(
            f"machine code that calls {', '.join(missing)}: functions from outside are reached by the table "
            "of `weft.native.cpu.outside` only"
        )
