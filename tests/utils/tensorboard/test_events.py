"""Records and fields, read back by a parser of their definitions."""

from __future__ import annotations

import random
import struct
from pathlib import Path
from typing import Any

import pytest

from weft.utils.tensorboard import events


def slow_crc(data: bytes) -> int:
    """CRC-32C bit by bit, as it is defined."""
    register = 0xFFFFFFFF
    for byte in data:
        register ^= byte
        for _ in range(8):
            register = register >> 1 ^ (events.POLYNOMIAL if register & 1 else 0)
    return register ^ 0xFFFFFFFF


def test_checksums_of_the_standard() -> None:
    assert events.crc32c(b"123456789") == 0xE3069283
    assert events.crc32c(bytes(32)) == 0x8A9136AA
    assert events.crc32c(b"\xff" * 32) == 0x62A8AB43


@pytest.mark.parametrize("length", [0, 1, 1023, 4095, 4096, 4097, 9001, 20480])
def test_checksums_of_long_data(length: int) -> None:
    content = random.Random(length).randbytes(length)
    assert events.crc32c(content) == slow_crc(content)


def varint_at(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def fields(data: bytes) -> dict[int, list[Any]]:
    """The fields of a message by number, undecoded but for how they are framed."""
    found: dict[int, list[Any]] = {}
    at = 0
    while at < len(data):
        key, at = varint_at(data, at)
        value: Any
        if key & 7 == 0:
            value, at = varint_at(data, at)
        elif key & 7 == 1:
            value, at = struct.unpack_from("<d", data, at)[0], at + 8
        elif key & 7 == 5:
            value, at = struct.unpack_from("<f", data, at)[0], at + 4
        else:
            size, at = varint_at(data, at)
            value, at = data[at : at + size], at + size
        found.setdefault(key >> 3, []).append(value)
    return found


def records(path: Path) -> list[dict[int, list[Any]]]:
    """The events of a file, its checksums checked."""
    content, at, found = path.read_bytes(), 0, []
    while at < len(content):
        (size,) = struct.unpack_from("<Q", content, at)
        frame, body = content[at : at + 8], content[at + 12 : at + 12 + size]
        for part, place in ((frame, at + 8), (body, at + 12 + size)):
            sum_ = slow_crc(part)
            rotated = ((sum_ >> 15 | sum_ << 17) + 0xA282EAD8) & 0xFFFFFFFF
            assert struct.unpack_from("<I", content, place)[0] == rotated
        found.append(fields(body))
        at += 16 + size
    return found


def test_fields_come_back() -> None:
    message = events.whole(1, 300) + events.whole(2, -1) + events.double(3, 0.1) + events.single(4, 0.5)
    read = fields(message + events.data(5, "word") + events.doubles(16, [1.0, 2.0]))
    assert read[1] == [300] and read[2] == [2**64 - 1] and read[3] == [0.1] and read[4] == [0.5]
    assert read[5] == [b"word"] and struct.unpack("<2d", read[16][0]) == (1.0, 2.0)


def test_events_are_on_the_disk_after_so_many(tmp_path: Path) -> None:
    file = events.EventFile(tmp_path, ".end", max_queue=2, flush_secs=1e9)
    assert file.path.name.startswith("events.out.tfevents.") and file.path.suffix == ".end"
    assert [each[3] for each in records(file.path)] == [[b"brain.Event:2"]]
    for step in range(3):
        assert len(records(file.path)) == 1
        file.write(events.event(b"", step, 12.5))
    assert [each.get(2) for each in records(file.path)] == [None, [0], [1], [2]]
    assert records(file.path)[1][1] == [12.5]
    file.close()
