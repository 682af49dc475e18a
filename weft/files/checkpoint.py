"""`weft.save` and `weft.load`: nested data with tensors, as safetensors files with a tree beside the tensors.

Takes objects and gives files, and back; PyTorch's own files and plain safetensors files are read too. One
idea: memory is saved once, however many tensors lie in it, so that what was shared is shared again.

# Note [Format]
A safetensors file; each entry is the memory of one storage, as a tensor under the name of the first that lies
in it, so that any reader of safetensors sees a state dict as it is. In its metadata stands, under "weft", the
JSON of {"version", "root", "tensors", "sums"}: the tree, for each tensor where it lies, and the CRC-32 of
each storage; and under "weft.crc32" that of this text.
"""

from __future__ import annotations

import json
import struct
import zlib
from typing import Any, Final, cast

import numpy as np

import weft.files.safetensors as safetensors
from weft.core.arrays import HostArray
from weft.core.device import device
from weft.core.dtypes import BY_NAME, BY_NUMPY
from weft.files.errors import FileFormatError, require
from weft.files.places import Place, placer
from weft.files.rebuilding import parameter_of, storage_over, tensor_over
from weft.files.source import Source, opened, writable
from weft.files.torch_files import is_legacy, read_legacy, read_zip
from weft.files.torch_globals import on_meta
from weft.files.tree import CannotSave, Reader, Writer
from weft.tensor.base import Parameter, Tensor, address, storage_root
from weft.tensor.meta import contiguous_strides
from weft.tensor.storage import UntypedStorage
from weft.tensor.views import refresh

VERSION: Final = 1
KEY: Final = "weft"
SUM_KEY: Final = "weft.crc32"


class _Memory:
    """The part of a storage that saved tensors lie in."""

    def __init__(self, root: HostArray, name: str) -> None:
        self.root, self.name = root, name
        self.low = self.high = 0
        self.tensors: list[tuple[Tensor, dict[str, Any]]] = []

    def add(self, tensor: Tensor, entry: dict[str, Any]) -> None:
        array: Any = tensor.array
        low, high = np.lib.array_utils.byte_bounds(array) if array.size else (address(array),) * 2
        if array.size:
            empty = self.low == self.high
            self.low, self.high = (low, high) if empty else (min(self.low, low), max(self.high, high))
        self.tensors.append((tensor, entry))

    def content(self) -> HostArray:
        """The memory as an array that safetensors knows, and each tensor's place in it."""
        kinds = {BY_NUMPY[tensor.array.dtype] for tensor, _ in self.tensors}
        kind = kinds.pop() if len(kinds) == 1 else BY_NAME["uint8"]
        if kinds:  # of several dtypes: none may begin in the middle of an element
            start = address(self.root)
            self.low = max(start, start + (self.low - start) // 16 * 16)
        if kind.file_name is None:
            kind = BY_NAME["uint8"]
        for tensor, entry in self.tensors:
            place = address(tensor.array) - self.low if tensor.array.size else 0
            entry["offset"] = place // tensor.itemsize
        for tensor, _ in self.tensors:
            array = cast(HostArray, tensor.array)
            whole = array.flags.c_contiguous and array.nbytes == self.high - self.low
            if array.dtype == kind.numpy and whole:
                return array
        return np.asarray(_Extent(self)).view(kind.numpy)


class _Extent:
    """Bytes from here to there, for NumPy."""

    def __init__(self, memory: _Memory) -> None:
        self.memory = memory
        self.__array_interface__ = {
            "version": 3,
            "data": (memory.low or address(memory.root), True),
            "shape": (memory.high - memory.low,),
            "typestr": "|u1",
        }


class _Table:
    """The tensors that are to be saved, and the memory that they lie in."""

    def __init__(self) -> None:
        self.numbers: dict[int, int] = {}
        self.entries: list[dict[str, Any]] = []
        self.kept: list[Tensor] = []
        self.memories: dict[int, _Memory] = {}
        self.names: set[str] = {"__metadata__"}

    def number(self, tensor: Tensor, path: tuple[str, ...]) -> int:
        known = self.numbers.get(id(tensor))
        if known is not None:
            return known
        if type(tensor) not in (Tensor, Parameter):
            raise CannotSave(
                f"weft.save: a tensor of class {type(tensor).__name__} at {'.'.join(path)!r}; files hold "
                "tensors and parameters"
            )
        if tensor.origin is not None:
            refresh(tensor)
        entry: dict[str, Any] = {
            "dtype": tensor.dtype.name,
            "offset": 0,
            "size": list(tensor.shape),
            "stride": list(tensor.stride()),
        }
        if tensor.tracked:
            entry["requires_grad"] = True
        if type(tensor) is Parameter:
            entry["parameter"] = True
        if tensor.is_meta:
            entry["storage"] = None
        else:
            root = storage_root(tensor.array)
            memory = self.memories.get(id(root))
            if memory is None:
                memory = self.memories[id(root)] = _Memory(root, self._name(path))
            memory.add(tensor, entry)
            entry["storage"] = memory.name
        self.numbers[id(tensor)] = len(self.entries)
        self.entries.append(entry)
        self.kept.append(tensor)
        return len(self.entries) - 1

    def _name(self, path: tuple[str, ...]) -> str:
        wanted = ".".join(path).encode("utf-8", "replace").decode() or "tensor"
        name, count = wanted, 1
        while name in self.names:
            count += 1
            name = f"{wanted}#{count}"
        self.names.add(name)
        return name


PICKLE_OPTIONS: Final = frozenset({"fix_imports", "encoding", "errors", "buffers"})
"""What readers of pickles may be told; a file is data here, of which they change nothing."""


def save(
    obj: Any,
    f: Any,
    pickle_module: Any = None,
    pickle_protocol: Any = None,
    _use_new_zipfile_serialization: bool = True,
    _disable_byteorder_record: bool = False,
) -> None:
    """Writes nested data with tensors to a path or a file object, for `weft.load`.

    Dicts, lists, tuples, numbers, texts, tensors, parameters, dtypes, sizes and devices; state dicts of
    modules, optimizers and schedulers are such data. Tensors that share memory share it again when they are
    loaded. Files are safetensors files and hold no pickles; the arguments that are about pickles change
    nothing.

    >>> import io, weft
    >>> file = io.BytesIO()
    >>> weft.save({"x": weft.arange(3), "step": 7}, file)
    >>> _ = file.seek(0)
    >>> weft.load(file)
    {'x': tensor([0, 1, 2]), 'step': 7}
    """
    table = _Table()
    try:
        root = Writer(table.number).write(obj)
    except RecursionError:
        raise CannotSave("weft.save: the data is nested too deeply") from None
    arrays = {memory.name: memory.content() for memory in table.memories.values()}
    sums = {name: zlib.crc32(_raw(array)) for name, array in arrays.items()}
    told = {"version": VERSION, "root": root, "tensors": table.entries, "sums": sums}
    text = json.dumps(told, separators=(",", ":"))
    metadata = {"format": "weft", KEY: text, SUM_KEY: f"{zlib.crc32(text.encode()):08x}"}
    with writable(f) as file:
        safetensors.write(file, arrays, metadata)


def _raw(array: HostArray) -> Any:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def load(
    f: Any,
    map_location: Any = None,
    pickle_module: Any = None,
    *,
    weights_only: bool | None = None,
    mmap: bool | None = None,
    **pickle_load_args: Any,
) -> Any:
    """Reads what `weft.save` wrote, a safetensors file, or a checkpoint of PyTorch.

    Nothing in a file is ever run, whatever `weights_only` says: pickles in checkpoints of PyTorch are read as
    data, and a file that wants more than data is refused. `map_location` says where tensors go, as in
    PyTorch; `mmap=True` maps the file at a path into memory instead of reading it.
    """
    for name in pickle_load_args.keys() - PICKLE_OPTIONS:
        raise TypeError(f"Unpickler.__init__() got an unexpected keyword argument '{name}'")
    place = placer(map_location)
    with opened(f, bool(mmap)) as source:
        try:
            made, end = _read(source, place)
        except (FileFormatError, OSError, MemoryError):
            raise
        except RecursionError:
            raise FileFormatError(f"{source.name} is nested too deeply") from None
        except (ArithmeticError, LookupError, TypeError, ValueError, AttributeError, struct.error) as error:
            if getattr(place, "failure", None) is error:
                raise  # the user's own
            raise FileFormatError(f"{source.name} is damaged: {error}") from error
        source.leave_at(end)
        return made


def _read(source: Source, place: Place) -> tuple[Any, int]:
    require(source.size, f"{source.name} is empty")
    head = source.read(0, min(source.size, 64), "the beginning")
    if head[:4] == b"PK\x03\x04":
        return read_zip(source, place), source.size
    if is_legacy(head):
        return read_legacy(source, place)
    if head[8:9] == b"{":
        return _read_own(source, place)
    if source.size > 300 and source.read(257, 5, "a tar file's mark") == b"ustar":
        raise FileFormatError(f"{source.name} is a tar file, as PyTorch wrote before 0.1.10; it is not read")
    raise FileFormatError(
        f"{source.name} is none of the files that weft.load() reads: those of weft.save(), safetensors, and "
        f"checkpoints of PyTorch. It begins with {head[:16]!r}"
    )


def _read_own(source: Source, place: Place) -> tuple[Any, int]:
    header = safetensors.read_header(source, exact=False)
    if KEY not in header.metadata:
        ours = SUM_KEY in header.metadata or header.metadata.get("format") == KEY
        require(not ours, f"{source.name}: the tree is missing: the file is damaged")
        header = safetensors.read_header(source)
        found = {}
        for name, entry in header.entries.items():
            what = f"the elements of {name!r}"
            content = source.array(header.begin + entry.start, entry.end - entry.start, what)
            array = safetensors.as_array(content, entry.kind, entry.shape)
            storage = storage_over(array.reshape(-1).view(np.uint8))
            placed = _placed(place, storage)
            found[name] = tensor_over(placed, entry.kind, 0, entry.shape, contiguous_strides(entry.shape))
        return found, header.end
    text = header.metadata[KEY].encode("utf-8", "surrogatepass")
    right = header.metadata.get(SUM_KEY) == f"{zlib.crc32(text):08x}"
    require(right, f"{source.name}: the checksum of the tree is wrong: the file is damaged")
    told = safetensors.parse_json(text, f"{source.name}: the tree")
    good = isinstance(told, dict) and set(told) == {"version", "root", "tensors", "sums"}
    require(good, f"{source.name}: the tree lacks its parts")
    require(told["version"] == VERSION, f"{source.name}: format {str(told['version'])[:20]} of weft.save()")
    require(isinstance(told["tensors"], list), f"{source.name}: the tree has no table of tensors")
    tensors = _Tensors(source, header, told["tensors"], told["sums"], place)
    return Reader(tensors.tensor).read(told["root"]), header.end


def _placed(place: Place, storage: UntypedStorage) -> UntypedStorage | None:
    found = place("cpu", storage)
    if isinstance(found, device):
        return None if on_meta(found) else storage
    return found


class _Tensors:
    """The tensors of a file, made when the tree asks for them."""

    def __init__(
        self, source: Source, header: safetensors.Header, entries: list[Any], sums: Any, place: Place
    ) -> None:
        self.source, self.header, self.entries, self.place = source, header, entries, place
        require(isinstance(sums, dict) and set(sums) == set(header.entries), f"{source.name}: no checksums")
        self.sums = sums
        self.made: dict[int, Tensor] = {}
        self.storages: dict[str, UntypedStorage | None] = {}

    def tensor(self, number: int) -> Tensor:
        found = self.made.get(number)
        if found is None:
            require(0 <= number < len(self.entries), f"{self.source.name}: there is no tensor {number}")
            found = self.made[number] = self._make(self.entries[number])
        return found

    def _make(self, entry: Any) -> Tensor:
        needed = {"dtype", "offset", "size", "stride", "storage"}
        good = isinstance(entry, dict) and needed <= set(entry) <= needed | {"requires_grad", "parameter"}
        require(good, f"{self.source.name}: a tensor lacks its facts")
        name, kind = entry["storage"], entry["dtype"]
        require(
            type(kind) is str and kind in BY_NAME, f"{self.source.name}: the unknown dtype {str(kind)[:80]}"
        )
        require(name is None or type(name) is str, f"{self.source.name}: a storage is named {str(name)[:80]}")
        storage = None if name is None else self._storage(name)
        if kind == "bool" and storage is not None:
            require(not (storage.bytes > 1).any(), "a tensor of truths holds bytes other than 0 and 1")
        tracked = entry.get("requires_grad", False)
        is_parameter = entry.get("parameter", False)
        require(type(is_parameter) is bool, f"{self.source.name}: a tensor's facts are strange")
        made = tensor_over(
            storage,
            BY_NAME[kind],
            entry["offset"],
            entry["size"],
            entry["stride"],
            False if is_parameter else tracked,
        )
        return parameter_of(made, tracked) if is_parameter else made

    def _storage(self, name: str) -> UntypedStorage | None:
        if name not in self.storages:
            require(name in self.header.entries, f"{self.source.name}: there is no storage {name[:80]!r}")
            entry = self.header.entries[name]
            what = f"the elements of {name!r}"
            content = self.source.array(self.header.begin + entry.start, entry.end - entry.start, what)
            require(
                zlib.crc32(_raw(content)) == self.sums[name],
                f"{self.source.name}: the checksum of {name!r} is wrong: the file is damaged",
            )
            if content.ctypes.data % 16:  # a mapping, where elements may not lie
                content = content.copy()
            self.storages[name] = _placed(self.place, storage_over(content))
        return self.storages[name]
