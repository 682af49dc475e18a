"""Event files: records framed with their length and checksums, in messages of protocol buffers.

Takes fields by their numbers, gives bytes; appends records to a file. One idea: a message is the
concatenation of its fields, so each is written by a function that knows one way of encoding. The checksum is
CRC-32C, of long records in lanes side by side: the register is linear in what it has read, so that one lane
after another is shifted by its length and added.
"""

from __future__ import annotations

import itertools
import os
import socket
import struct
import time
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import numpy as np

from weft.core.once import lock

POLYNOMIAL = 0x82F63B78
"""Of CRC-32C, its bits reversed."""
LANE = 1024


# -- checksums -----------------------------------------------------------------------------------------------
def _byte_table() -> np.ndarray:
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & 1, (table >> 1) ^ np.uint32(POLYNOMIAL), table >> 1).astype(np.uint32)
    return table


TABLE = _byte_table()
_TABLE: list[int] = TABLE.tolist()


@cache
def _lane_shift() -> list[list[int]]:
    """What a register becomes by a lane of zeros: for each of its bytes and their values, to be added."""
    registers = (np.arange(256, dtype=np.uint32) << np.arange(0, 32, 8, dtype=np.uint32)[:, None]).ravel()
    for _ in range(LANE):
        registers = TABLE[registers & 0xFF] ^ (registers >> 8)
    found: list[list[int]] = registers.reshape(4, 256).tolist()
    return found


def crc32c(data: bytes) -> int:
    """The CRC-32C (Castagnoli) of some bytes."""
    register, done = 0xFFFFFFFF, 0
    if len(data) >= 4 * LANE:
        lanes = np.frombuffer(data, np.uint8, len(data) // LANE * LANE).reshape(-1, LANE)
        columns = np.ascontiguousarray(lanes.T).astype(np.uint32)
        registers = np.zeros(len(lanes), np.uint32)
        for column in columns:
            registers = TABLE[(registers ^ column) & 0xFF] ^ (registers >> 8)
        first, second, third, fourth = _lane_shift()
        for lane in registers.tolist():
            register = (
                first[register & 0xFF]
                ^ second[register >> 8 & 0xFF]
                ^ third[register >> 16 & 0xFF]
                ^ fourth[register >> 24]
                ^ lane
            )
        done = lanes.size
    for byte in data[done:]:
        register = _TABLE[(register ^ byte) & 0xFF] ^ (register >> 8)
    return register ^ 0xFFFFFFFF


def masked(data: bytes) -> int:
    """The checksum as records keep it: rotated and moved, so that data with checksums in it is no trap."""
    sum_ = crc32c(data)
    return ((sum_ >> 15 | sum_ << 17) + 0xA282EAD8) & 0xFFFFFFFF


def record(data: bytes) -> bytes:
    """Data framed by its length, the length's checksum, and its own."""
    length = struct.pack("<Q", len(data))
    return length + struct.pack("<I", masked(length)) + data + struct.pack("<I", masked(data))


# -- fields of messages --------------------------------------------------------------------------------------
def varint(value: int) -> bytes:
    """Seven bits a byte, the lowest first; negative numbers as 64 bits."""
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def whole(number: int, value: int) -> bytes:
    """A field that is an integer, a bool or an enum."""
    return varint(number << 3) + varint(value)


def single(number: int, value: float) -> bytes:
    """A field that is a float of 32 bits."""
    return varint(number << 3 | 5) + np.float32(value).tobytes()


def double(number: int, value: float) -> bytes:
    """A field that is a float of 64 bits."""
    return varint(number << 3 | 1) + struct.pack("<d", value)


def data(number: int, value: bytes | str) -> bytes:
    """A field that is bytes, text, or a message."""
    content = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(content)) + content


def doubles(number: int, values: Iterable[float]) -> bytes:
    """A field that is a row of floats of 64 bits."""
    return data(number, np.asarray(list(values), "<f8").tobytes())


# -- files ---------------------------------------------------------------------------------------------------
_numbers = itertools.count()


def event(content: bytes, step: int | None, wall_time: float | None = None) -> bytes:
    """An `Event` with this content, at this step and time."""
    when = time.time() if wall_time is None else wall_time
    return double(1, when) + (b"" if step is None else whole(2, int(step))) + content


class EventFile:
    """A file in a folder that events are appended to; they are on the disk after `flush`, which happens by
    itself after so many events or seconds."""

    def __init__(self, folder: Path, suffix: str, max_queue: int, flush_secs: float) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        host, number = socket.gethostname(), next(_numbers)
        name = f"events.out.tfevents.{int(time.time()):010d}.{host}.{os.getpid()}.{number}{suffix}"
        self.path = folder / name
        self.max_queue, self.flush_secs = max_queue, flush_secs
        self._lock = lock()
        self._file = open(self.path, "xb")  # noqa: SIM115  # open as long as this object is
        self._waiting, self._flushed = 0, time.monotonic()
        self.write(event(data(3, "brain.Event:2"), None))
        self.flush()

    def write(self, content: bytes) -> None:
        """Appends an event."""
        framed = record(content)
        with self._lock:
            self._file.write(framed)
            self._waiting += 1
            due = self._waiting > self.max_queue or time.monotonic() - self._flushed > self.flush_secs
        if due:
            self.flush()

    def flush(self) -> None:
        """Writes what waits to the disk."""
        with self._lock:
            self._file.flush()
            self._waiting, self._flushed = 0, time.monotonic()

    def close(self) -> None:
        """Writes what waits, and ends the file."""
        with self._lock:
            self._file.close()
