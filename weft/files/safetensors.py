"""The safetensors format, both ways: names, types and shapes in JSON, then the elements, one tensor after
another.

Takes dicts of tensors and gives files or bytes, or the other way round. One idea: a header is believed only
when its tensors fill the rest of the file exactly, without gaps and without overlaps.
"""

from __future__ import annotations

import io
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from weft.core.arrays import HostArray
from weft.core.dtypes import ALL, BY_NUMPY, NARROW, dtype
from weft.files.errors import FileFormatError, require
from weft.files.source import Source, opened, writable
from weft.tensor.base import Tensor, fresh

HEADER_LIMIT: Final = 100_000_000
"""The longest header, as in the reference implementation."""
NAMES: Final = {kind.file_name: kind for kind in (*ALL, *NARROW) if kind.file_name is not None}


@dataclass
class Entry:
    """One tensor of a file: where its elements lie, counted from the end of the header."""

    kind: dtype
    shape: tuple[int, ...]
    start: int
    end: int


@dataclass
class Header:
    """What a file says of itself."""

    entries: dict[str, Entry]
    metadata: dict[str, str]
    begin: int
    """Where in the file the elements begin."""
    end: int
    """Where the file ends."""


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise FileFormatError("the header of a safetensors file has a name twice")
    return found


def parse_json(text: bytes, what: str) -> Any:
    """JSON from a file that may be hostile."""
    try:
        return json.loads(text.decode("utf-8"), object_pairs_hook=_once)
    except FileFormatError:
        raise
    except RecursionError:
        raise FileFormatError(f"{what} is nested too deeply") from None
    except ValueError as error:
        raise FileFormatError(f"{what} is not JSON: {error}") from None


def read_header(source: Source, exact: bool = True) -> Header:
    """The header, checked against the file's size. Behind the last tensor nothing may come, if `exact`."""
    name = source.name
    require(source.size >= 8, f"{name} has {source.size} bytes, too few for a safetensors file")
    size = int.from_bytes(source.read(0, 8, "the size of the header"), "little")
    require(size <= HEADER_LIMIT, f"{name}: a header of {size} bytes is over the limit of {HEADER_LIMIT}")
    text = source.read(8, size, "the header of a safetensors file")
    require(text[:1] == b"{", f"{name}: the header of a safetensors file begins with '{{'")
    content = parse_json(text, f"{name}: the header")
    metadata = content.pop("__metadata__", {})
    plain = isinstance(metadata, dict) and all(isinstance(value, str) for value in metadata.values())
    require(plain, f"{name}: __metadata__ must map names to texts")
    entries = {key: _entry(key, facts, name) for key, facts in content.items()}
    place = 0
    for key, entry in sorted(entries.items(), key=lambda item: (item[1].start, item[1].end)):
        require(
            entry.start == place,
            f"{name}: the elements of {key!r} begin at {entry.start}, where {place} was expected: tensors "
            "overlap or leave gaps",
        )
        place = entry.end
    begin = 8 + size
    require(
        begin + place == source.size if exact else begin + place <= source.size,
        f"{name}: the header speaks of {place} bytes of elements, the file has {source.size - begin}",
    )
    return Header(entries, metadata, begin, begin + place)


def _entry(key: str, facts: Any, name: str) -> Entry:
    where = f"{name}: the entry of {key!r}"
    require(isinstance(facts, dict), f"{where} is no object")
    require(set(facts) == {"dtype", "shape", "data_offsets"}, f"{where} has the keys {sorted(facts)}")
    kind, shape, offsets = facts["dtype"], facts["shape"], facts["data_offsets"]
    require(isinstance(kind, str), f"{where} has a dtype that is no text")
    require(kind in NAMES, f"{where} is of dtype {kind}, which Weft does not have")
    require(_are_sizes(shape), f"{where} has the shape {shape!r}")
    require(_are_sizes(offsets) and len(offsets) == 2, f"{where} has the offsets {offsets!r}")
    needed = math.prod(shape) * NAMES[kind].itemsize
    require(
        offsets[1] - offsets[0] == needed,
        f"{where} needs {needed} bytes for {kind}{shape}, and has {offsets[1] - offsets[0]}",
    )
    return Entry(NAMES[kind], tuple(shape), *offsets)


def _are_sizes(value: Any) -> bool:
    return (
        isinstance(value, list)
        and len(value) <= 64
        and all(type(item) is int and 0 <= item < 2**63 for item in value)
    )


def read_tensor(source: Source, header: Header, key: str) -> Tensor:
    """The tensor of this name."""
    entry = header.entries[key]
    content = source.array(header.begin + entry.start, entry.end - entry.start, f"the elements of {key!r}")
    return fresh(as_array(content, entry.kind, entry.shape))


def as_array(content: HostArray, kind: dtype, shape: tuple[int, ...]) -> HostArray:
    """Bytes as elements; those of a mapping may lie where elements of this size may not."""
    if content.ctypes.data % kind.itemsize:
        content = content.copy()
    if kind.name == "bool":
        require(not (content > 1).any(), "a tensor of truths holds bytes other than 0 and 1")
    return content.view(kind.numpy).reshape(shape)


def write(file: Any, arrays: Mapping[str, HostArray], metadata: Mapping[str, str] | None) -> None:
    """Writes contiguous arrays, those with the largest elements first, so that all lie aligned."""
    header: dict[str, Any] = {}
    if metadata:
        header["__metadata__"] = dict(metadata)
    order = sorted(arrays, key=lambda name: (-arrays[name].dtype.itemsize, name))
    place = 0
    for name in order:
        array = arrays[name]
        kind = BY_NUMPY[array.dtype]
        if kind.file_name is None:
            raise TypeError(f"safetensors has no dtype for {kind}, which {name!r} is of")
        end = place + array.nbytes
        header[name] = {
            "dtype": kind.file_name,
            "shape": list(array.shape),
            "data_offsets": [place, end],
        }
        place = end
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    if len(text) > HEADER_LIMIT:
        raise ValueError(f"a header of {len(text)} bytes is over the limit of safetensors, {HEADER_LIMIT}")
    file.write(len(text).to_bytes(8, "little"))
    file.write(text)
    for name in order:
        # `view` needs a dimension, and bfloat16 has no buffer of its own
        file.write(np.ascontiguousarray(arrays[name]).reshape(-1).view(np.uint8).data)


def _arrays(tensors: Mapping[str, Tensor]) -> dict[str, HostArray]:
    if not isinstance(tensors, Mapping):
        raise ValueError(f"Expected a dict of [str, weft.Tensor] but received {type(tensors)}")
    found = {}
    for name, tensor in tensors.items():
        if not isinstance(name, str) or not isinstance(tensor, Tensor):
            raise ValueError(
                f"Key `{name}` is invalid, expected weft.Tensor but received {type(tensor)}"
                if isinstance(name, str)
                else f"Key {name!r} is no text"
            )
        if name == "__metadata__":
            raise ValueError("'__metadata__' cannot be the name of a tensor")
        if tensor.is_meta:
            raise ValueError(f"{name!r} is a meta tensor, which has no elements to save")
        found[name] = np.asarray(tensor.array)
    return found


def save(tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None) -> bytes:
    """The bytes of a safetensors file with these tensors.

    >>> import weft
    >>> load(save({"x": weft.arange(3)}))
    {'x': tensor([0, 1, 2])}
    """
    file = io.BytesIO()
    write(file, _arrays(tensors), metadata)
    return file.getvalue()


def save_file(
    tensors: Mapping[str, Tensor], filename: Any, metadata: Mapping[str, str] | None = None
) -> None:
    """Writes these tensors as a safetensors file, which other libraries read too."""
    arrays = _arrays(tensors)
    with writable(filename) as file:
        write(file, arrays, metadata)


def load(data: bytes) -> dict[str, Tensor]:
    """The tensors in the bytes of a safetensors file."""
    return load_file(io.BytesIO(data))


def load_file(filename: Any, device: Any = "cpu") -> dict[str, Tensor]:
    """The tensors of a safetensors file, by name."""
    with opened(filename) as source:
        header = read_header(source)
        found = {key: read_tensor(source, header, key) for key in header.entries}
    return {key: tensor.to(device) for key, tensor in found.items()}


class safe_open:
    """A safetensors file whose tensors are read one by one, when they are asked for.

    >>> import os, tempfile, weft
    >>> path = os.path.join(tempfile.mkdtemp(), "x.safetensors")
    >>> save_file({"x": weft.arange(3)}, path, {"by": "me"})
    >>> with safe_open(path) as file:
    ...     print(file.keys(), file.metadata(), file.get_tensor("x"))
    ['x'] {'by': 'me'} tensor([0, 1, 2])
    """

    def __init__(self, filename: Any, framework: str = "weft", device: Any = "cpu") -> None:
        self._context = opened(filename)
        self._source = self._context.__enter__()
        self._device = device
        try:
            self._header = read_header(self._source)
        except BaseException:
            self._context.__exit__(None, None, None)
            raise

    def __enter__(self) -> safe_open:
        return self

    def __exit__(self, *error: Any) -> None:
        self._context.__exit__(None, None, None)

    def keys(self) -> list[str]:
        """The names of the tensors."""
        return list(self._header.entries)

    def metadata(self) -> dict[str, str]:
        """The texts that the file carries."""
        return dict(self._header.metadata)

    def get_tensor(self, name: str) -> Tensor:
        """The tensor of this name."""
        if name not in self._header.entries:
            raise KeyError(f"File does not contain tensor {name}")
        return read_tensor(self._source, self._header, name).to(self._device)
