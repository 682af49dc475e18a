"""PyTorch's checkpoints, read without PyTorch and without running anything: zip files, and those before 1.6.

Takes a `Source`; gives what was saved. One idea: a zip file's storages are members of it, an old file's
follow its pickles, and both are asked for by the same persistent ids.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from weft.core.device import device
from weft.core.dtypes import dtype
from weft.files.errors import FileFormatError, UnsafeFileError, require
from weft.files.pickles import Machine
from weft.files.places import Place
from weft.files.rebuilding import storage_over
from weft.files.source import Source
from weft.files.torch_globals import TABLE, Stored, on_meta, storage_facts
from weft.files.zips import SCRIPTED, Archive
from weft.tensor.storage import UntypedStorage

MAGIC: Final = 0x1950A86A20F9469CFC6C
PROTOCOL: Final = 1001
LONGEST_PICKLE: Final = 1 << 30


def located(storage: UntypedStorage, kind: dtype | None, location: str, place: Place) -> Stored:
    """The storage where `map_location` wants it."""
    found = place(location, storage)
    if isinstance(found, device):
        return Stored(None if on_meta(found) else storage, kind, found)
    return Stored(found, kind, found.device)


def read_zip(source: Source, place: Place) -> Any:
    """What a zip file of PyTorch holds."""
    archive = Archive(source)
    pickles = [name for name in archive.members if name.rpartition("/")[2] == "data.pkl"]
    require(pickles, f"{source.name} is a zip file, but not one of PyTorch's: it has no data.pkl")
    roots = sorted(name.count("/") for name in pickles)
    require(roots.count(roots[0]) == 1, f"{source.name} has several data.pkl")
    title = min(pickles, key=lambda name: name.count("/"))
    root = title[: -len("data.pkl")]
    if f"{root}constants.pkl" in archive.members:
        raise UnsafeFileError(SCRIPTED.format(source.name))
    order = archive.read(f"{root}byteorder") if f"{root}byteorder" in archive.members else b"little"
    require(
        order == b"little", f"{source.name}: elements in byte order {order[:20]!r}, which is not read here"
    )
    require(archive.members[title].size <= LONGEST_PICKLE, f"{source.name}: {title!r} is too long")
    known: dict[str, UntypedStorage] = {}

    def persistent(identity: Any) -> Stored:
        kind, key, location, count = storage_facts(identity, 5, source.name)
        require(key.isascii() and key.isdigit(), f"{source.name}: a storage is named {key[:80]!r}")
        size = count * (1 if kind is None else kind.itemsize)
        member = f"{root}data/{key}"
        if location == "meta" and member not in archive.members:
            return Stored(None, kind, device("meta"))
        found = known.get(key)
        if found is None:
            found = known[key] = storage_over(archive.array(member))
        require(
            found.nbytes() == size,
            f"{source.name}: storage {key} has {found.nbytes()} bytes, and should have {size}",
        )
        check_truths(found, kind)
        return located(found, kind, location, place)

    return Machine(archive.read(title), f"{source.name}/data.pkl", TABLE, persistent).load()


def check_truths(storage: UntypedStorage, kind: dtype | None) -> None:
    """NumPy's truths are bytes 0 and 1, and nothing else."""
    if kind is not None and kind.name == "bool":
        require(not (storage.bytes > 1).any(), "a storage of truths holds bytes other than 0 and 1")


def is_legacy(head: bytes) -> bool:
    """Whether a file begins as those before PyTorch 1.6 do: with the pickle of a certain number."""
    number = MAGIC.to_bytes(10, "little")
    return head[:2] in (b"\x80\x02", b"\x80\x03", b"\x80\x04") and number in head[:40]


def read_legacy(source: Source, place: Place) -> tuple[Any, int]:
    """What a file of PyTorch before 1.6 holds, and where it ends.

    Storages come after the pickle that uses them: it is read twice, first for what storages there are.
    """
    name = source.name
    require(source.size <= LONGEST_PICKLE * 64, f"{name} is too long")
    content = source.read(0, source.size, "the file")
    known: dict[str, tuple[dtype, int]] = {}
    storages: dict[str, UntypedStorage] = {}

    def refuse(identity: Any) -> Any:
        raise FileFormatError(f"{name}: a storage where there should be none")

    def note(identity: Any) -> Stored:
        kind, key, location, count, view = storage_facts(identity, 6, name)
        require(kind is not None, f"{name}: a storage without a dtype")
        require(view is None, f"{name}: a storage that is a part of another")
        first = known.setdefault(key, (kind, count))
        require(first == (kind, count), f"{name}: storage {key[:80]} is described in two ways")
        return Stored(None, kind, device("meta"))

    def use(identity: Any) -> Stored:
        kind, key, location, _, _ = storage_facts(identity, 6, name)
        return located(storages[key], kind, location, place)

    at = 0

    def pickled(handler: Any) -> Any:
        nonlocal at
        machine = Machine(content, name, TABLE, handler, at)
        found = machine.load()
        at = machine.place
        return found

    require(pickled(refuse) == MAGIC, f"{name} is not one of PyTorch's files: the magic number is wrong")
    version = pickled(refuse)
    require(version == PROTOCOL, f"{name}: PyTorch's file format {str(version)[:80]}, where 1001 is known")
    facts = pickled(refuse)
    good = isinstance(facts, dict) and facts.get("little_endian") is True
    require(good, f"{name}: elements in a byte order that is not read here")
    start = at
    pickled(note)
    keys = pickled(refuse)
    require(
        isinstance(keys, list) and all(type(key) is str for key in keys) and sorted(keys) == sorted(known),
        f"{name}: the storages that follow are not those that are used",
    )
    for key in keys:
        kind, count = known[key]
        require(at + 8 <= len(content), f"{name}: the file is cut off")
        said = int.from_bytes(content[at : at + 8], "little", signed=True)
        require(said == count, f"{name}: storage {key[:80]} has {said} elements, and should have {count}")
        at += 8
        require(at + count * kind.itemsize <= len(content), f"{name}: the file is cut off")
        part = np.frombuffer(content, np.uint8, count * kind.itemsize, at)
        storages[key] = storage_over(part.copy())
        check_truths(storages[key], kind)
        at += count * kind.itemsize
    end, at = at, start
    return pickled(use), end
