"""Damaged and hostile files by the thousand: each must be refused with a clear error, or read right.

`python -m tests.files.mutations 10000 [seed]` runs so many and tells what came of them. Where checksums
protect a file, reading it right means reading what was saved; where the damage is made with the right
checksum, any answer will do that is data.
"""

from __future__ import annotations

import collections
import io
import json
import random
import signal
import sys
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import weft
from weft.files import FileFormatError, safetensors

HERE = Path(__file__).parent / "checkpoints"
FORBIDDEN = (
    *("os.system", "os.exec", "os.posix_spawn", "os.remove", "os.rename", "os.putenv", "shutil", "pty.spawn"),
    *("subprocess", "socket", "pickle.find_class", "ctypes.dlopen", "code.__new__"),
)
INTERESTING = (0, 1, 127, 128, 255, 65535, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, 2**63, 2**64 - 1)
SECONDS = 10

_seen: list[str] = []
_listening = [False]


def _listen(event: str, _arguments: Any) -> None:
    if _listening[0] and event.startswith(FORBIDDEN):
        _seen.append(event)


def same(one: Any, two: Any) -> bool:
    """Whether two loaded objects are equal, tensors element by element."""
    if type(one) is not type(two):
        return False
    if isinstance(one, weft.Tensor):
        if one.dtype is not two.dtype or one.shape != two.shape or one.requires_grad != two.requires_grad:
            return False
        return one.is_meta or one.detach().numpy().tobytes() == two.detach().numpy().tobytes()
    if isinstance(one, np.ndarray):
        return one.dtype == two.dtype and one.shape == two.shape and one.tobytes() == two.tobytes()
    if isinstance(one, dict):
        return list(one) == list(two) and all(map(same, one.values(), two.values()))
    if isinstance(one, (list, tuple)):
        return len(one) == len(two) and all(map(same, one, two))
    return repr(one) == repr(two) if isinstance(one, float) else one == two


def bytewise(content: bytes, choose: random.Random) -> bytes:
    """A few bytes changed, cut out, doubled or put in."""
    made = bytearray(content)
    for _ in range(choose.choice((1, 1, 1, 2, 5))):
        place = choose.randrange(len(made) + 1)
        width = choose.choice((1, 2, 4, 8, choose.randrange(1, 64)))
        action = choose.randrange(7)
        if action == 0 and place < len(made):
            made[place] ^= 1 << choose.randrange(8)
        elif action == 1:
            made[place : place + width] = choose.randbytes(width)
        elif action == 2:
            number = choose.choice(INTERESTING)
            made[place : place + 8] = number.to_bytes(8, "little")[: choose.choice((1, 2, 4, 8))]
        elif action == 3:
            del made[place : place + width]
        elif action == 4:
            made[place:place] = made[place : place + width]
        elif action == 5:
            del made[place:]
        else:
            other = choose.randrange(len(made) + 1)
            made[place : place + width] = made[other : other + width]
        if not made:
            break
    return bytes(made)


PICKLES = (
    *(b"cos\nsystem\n", b"cbuiltins\neval\n", b"ctorch\nload\n", b"ctorch._utils\n_rebuild_tensor_v2\n"),
    *(
        b"X\x02\x00\x00\x00ls",
        b"J\xff\xff\xff\x7f",
        b"\x8a\xff",
        b"h\x00",
        b"q\x00",
        b"N",
        b"R",
        b"\x81",
        b"\x93",
    ),
    *(b"(", b"t", b"\x85", b"}", b"]", b"a", b"s", b"b", b"0", b"1", b"2", b"Q", b"\x94", b"."),
)


def pickled(content: bytes, choose: random.Random) -> bytes:
    """A pickle with opcodes put in, cut out or moved."""
    made = bytearray(content)
    for _ in range(choose.choice((1, 1, 2, 4))):
        place = choose.randrange(len(made) + 1)
        if choose.random() < 0.5:
            made[place:place] = choose.choice(PICKLES)
        else:
            made = bytearray(bytewise(bytes(made), choose)) or bytearray(b".")
    return bytes(made)


def rezipped(content: bytes, choose: random.Random) -> bytes:
    """A zip file with right checksums around a member that is not."""
    file, archive = io.BytesIO(), zipfile.ZipFile(io.BytesIO(content))
    names = archive.namelist()
    target = next(name for name in names if name.endswith("data.pkl"))
    if choose.random() < 0.2:
        target = choose.choice(names)
    with zipfile.ZipFile(file, "w") as made:
        for name in names:
            member = archive.read(name)
            made.writestr(name, pickled(member, choose) if name == target else member)
    return file.getvalue()


def rewritten(content: bytes, choose: random.Random) -> bytes:
    """A safetensors file whose header is JSON still, with other words and numbers in it."""
    size = int.from_bytes(content[:8], "little")
    header, rest = json.loads(content[8 : 8 + size]), content[8 + size :]

    def change(node: Any) -> Any:
        if isinstance(node, dict) and node:
            key = choose.choice(list(node))
            node[key] = change(node[key])
            if choose.random() < 0.1:
                node[choose.choice(("as", "again", "tensor", "x"))] = choose.choice(INTERESTING)
        elif isinstance(node, list) and node:
            place = choose.randrange(len(node))
            node[place] = change(node[place])
        elif isinstance(node, str) and node.startswith("{"):
            return json.dumps(change(json.loads(node)))
        else:
            return choose.choice((None, True, -1, 1.5, "F32", [], {}, "x", [[]], *INTERESTING))
        return node

    metadata = header.get("__metadata__", {})
    if "weft" in metadata and choose.random() < 0.8:
        import zlib

        metadata["weft"] = json.dumps(change(json.loads(metadata["weft"])))
        metadata["weft.crc32"] = f"{zlib.crc32(metadata['weft'].encode()):08x}"
    else:
        header = change(header)
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + rest


def own_files() -> dict[str, bytes]:
    """What Weft itself writes."""
    base = weft.arange(12.0).reshape(3, 4)
    data = {
        "base": base,
        "row": base[1],
        "turned": base.t(),
        "list": [1, (2.5, None), {"k": weft.float16}, float("nan")],
        "halves": weft.ones(3, dtype=weft.bfloat16),
        "parameter": weft.nn.Parameter(weft.ones(2)),
        "size": weft.Size([1]),
    }
    data["again"] = data["list"]
    file = io.BytesIO()
    weft.save(data, file)
    plain = {name: weft.ones(2, 3, dtype=kind) for name, kind in [("a", weft.float32), ("b", weft.int64)]}
    return {"own": file.getvalue(), "plain": safetensors.save(plain, {"by": "hand"})}


def cases(count: int, seed: int) -> Iterator[tuple[str, bytes, Any]]:
    """(what it is, the damaged file, what an undamaged one holds, or None where any data will do)."""
    choose = random.Random(seed)
    files = {path.name: path.read_bytes() for path in sorted(HERE.iterdir()) if path.name != "module.pt"}
    files.update(own_files())
    whole = {name: weft.load(io.BytesIO(content)) for name, content in files.items()}
    ways: list[tuple[str, Callable[[bytes, random.Random], bytes], bool]] = [
        *((name, bytewise, name not in ("legacy.pth", "plain")) for name in files),
        *((name, rezipped, False) for name in files if name.endswith(".pt")),
        ("legacy.pth", pickled, False),
        ("own", rewritten, False),
        ("plain", rewritten, False),
    ]
    for _ in range(count):
        name, way, protected = choose.choice(ways)
        yield f"{name}/{way.__name__}", way(files[name], choose), whole[name] if protected else None


def attempt(name: str, content: bytes, expected: Any) -> str:
    """ "refused" or "read"; raises where neither is what happened."""
    try:
        found = weft.load(io.BytesIO(content))
    except FileFormatError as error:
        assert len(str(error)) > 10, name
        return "refused"
    except RuntimeError as error:
        assert "location" in str(error) or "CUDA" in str(error), (name, error)
        return "refused"
    assert expected is None or same(found, expected), f"{name}: a damaged file was read as something else"
    repr(type(found))
    return "read"


def run(count: int, seed: int = 0) -> collections.Counter[str]:
    """Tries so many; gives how many were read and how many refused, by kind."""
    if not _seen and not getattr(run, "listening", False):
        sys.addaudithook(_listen)
        run.listening = True  # type: ignore[attr-defined]
    told: collections.Counter[str] = collections.Counter()
    before = signal.signal(signal.SIGALRM, _too_long)
    try:
        for name, content, expected in cases(count, seed):
            signal.alarm(SECONDS)
            _listening[0] = True
            try:
                told[f"{name}: {attempt(name, content, expected)}"] += 1
            except BaseException:
                if __name__ == "__main__":
                    Path(f"failed-{name.replace('/', '-')}.bin").write_bytes(content)
                raise
            finally:
                _listening[0] = False
                signal.alarm(0)
            assert not _seen, f"{name}: reading it led to {_seen}"
    finally:
        signal.signal(signal.SIGALRM, before)
    return told


def _too_long(*_signal: Any) -> None:
    raise AssertionError(f"reading a file took more than {SECONDS} s")


if __name__ == "__main__":
    began = time.monotonic()
    result = run(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    for key in sorted(result):
        print(f"{result[key]:6} {key}")
    print(f"{sum(result.values())} files in {time.monotonic() - began:.0f} s: each refused or read right")
