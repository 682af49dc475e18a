"""The cache on disk: what compiling gave, for later processes.

Takes contents by kind and key; gives them back in later processes, or nothing. One idea: a file is trusted
for what its bytes say and for nothing else: it begins with the sha256 of its kind, its key and its content,
so a file that is cut off, changed, swapped or of another version is no file at all.

# Note [The cache folder]
`WEFT_CACHE_DIR`, or `weft` in `XDG_CACHE_HOME`, or `~/.cache/weft`; `WEFT_CACHE=0` uses none, and
`WEFT_CACHE=programs` keeps nothing of what was captured. The folder and
its files are the user's alone: a folder that belongs to another user, or that others may write, is refused,
since machine code is run from it. Files appear whole (one of another name is renamed), so processes need no
locks; two that write the same key write the same. `WEFT_CACHE_SIZE` is how many MiB the folder may hold: what
was not used for longest goes first. Whatever fails here costs a compilation, never a result: it is said once,
in one line.
"""

from __future__ import annotations

import hashlib
import os
import stat
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from weft.core.interrupts import let_through
from weft.core.logs import log, logger

MAGIC: Final = b"weft cache 1\n"
"""Changes with the format of the files."""
DIGEST: Final = 32
HEADER: Final = len(MAGIC) + DIGEST
DEFAULT_SIZE: Final = 1024
"""In MiB."""
LARGEST: Final = 1 << 28
"""No file is larger, in bytes."""
STALE: Final = 3600.0
"""After so many seconds, a file that is still being written belongs to nobody."""
OTHERS_MAY_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH

counts: Counter[str] = Counter()
"""How often something was found, missed, written, and so on, in this process."""


class Refused(Exception):
    """The folder cannot be used."""


def key_of(*parts: str) -> str:
    """A key that differs where any part does."""
    made = hashlib.sha256()
    for part in parts:
        content = part.encode()
        made.update(b"%d\n" % len(content))
        made.update(content)
    return made.hexdigest()


def digest(kind: str, key: str, content: bytes) -> bytes:
    return hashlib.sha256(b"%s %s\n" % (kind.encode(), key.encode()) + content).digest()


class Store:
    """A folder of contents; None keeps nothing."""

    def __init__(self, folder: str | None, limit: int = DEFAULT_SIZE << 20) -> None:
        self.folder, self.limit = folder, limit
        self.unswept = -1
        """How many bytes were written since the folder was last looked through; negative before that."""
        self.read_only = False

    # -- the folder ------------------------------------------------------------------------------------------
    @contextmanager
    def opened(self, make: bool = False) -> Iterator[int]:
        """The folder as a descriptor, checked: what follows cannot be led elsewhere by a rename."""
        assert self.folder is not None
        if make:
            os.makedirs(self.folder, mode=0o700, exist_ok=True)
        place = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            facts = os.fstat(place)
            if facts.st_uid != os.geteuid():
                raise Refused("it belongs to another user")
            if facts.st_mode & OTHERS_MAY_WRITE:
                raise Refused("others may write it")
            yield place
        finally:
            os.close(place)

    def refuse(self, doing: str, error: Exception) -> None:
        """Says why the folder is not used, and uses it no more."""
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        if doing == "read":
            logger("cache").warning("weft: the cache %s is not used: %s", self.folder, reason)
            self.folder = None
        else:
            logger("cache").warning("weft: the cache %s is not written: %s", self.folder, reason)
            self.read_only = True
        counts["refused"] += 1

    # -- contents --------------------------------------------------------------------------------------------
    def get(self, kind: str, key: str) -> bytes | None:
        """The content of this key, if there is one and it is whole."""
        content = None
        if self.folder is not None:
            try:
                with self.opened() as place:
                    content = self.read(place, kind, key)
            except FileNotFoundError as error:
                let_through(error)
            except (OSError, Refused) as error:
                let_through(error)
                self.refuse("read", error)
        counts[f"{kind} {'missed' if content is None else 'found'}"] += 1
        log("cache", lambda: f"{kind} {key[:16]} {'missed' if content is None else 'found'}")
        return content

    def read(self, place: int, kind: str, key: str) -> bytes | None:
        name, fault = f"{key}.{kind}", ""
        file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=place)
        with open(file, "rb") as opened:
            facts = os.fstat(file)
            private = facts.st_uid == os.geteuid() and not facts.st_mode & OTHERS_MAY_WRITE
            usable = stat.S_ISREG(facts.st_mode) and private and facts.st_size <= LARGEST
            content = opened.read() if usable else b""
        if not usable:
            fault = "not a private file"
        elif content[: len(MAGIC)] != MAGIC:
            fault = "of another version"
        elif content[len(MAGIC) : HEADER] != digest(kind, key, content[HEADER:]):
            fault = "damaged"
        if fault:
            self.discard(place, name, fault)
            return None
        try:
            os.utime(name, dir_fd=place, follow_symlinks=False)  # it was used: it stays
        except OSError as error:
            let_through(error)
        return content[HEADER:]

    def discard(self, place: int, name: str, reason: str) -> None:
        log("cache", lambda: f"{name} is {reason}")
        counts["discarded"] += 1
        try:
            os.unlink(name, dir_fd=place)
        except OSError as error:
            let_through(error)

    def put(self, kind: str, key: str, content: bytes) -> None:
        """Keeps a content. A failure is said once; nothing is written afterwards."""
        if self.folder is None or self.read_only or HEADER + len(content) > min(LARGEST, self.limit):
            return
        try:
            with self.opened(make=True) as place:
                self.write(place, f"{key}.{kind}", MAGIC + digest(kind, key, content) + content)
                if self.unswept < 0 or self.unswept > self.limit // 16:
                    self.sweep(place)
        except (OSError, Refused) as error:
            let_through(error)
            self.refuse("write", error)
            return
        counts[f"{kind} written"] += 1
        log("cache", lambda: f"{kind} {key[:16]} written, {len(content)} bytes")

    def write(self, place: int, name: str, content: bytes) -> None:
        passing = f".{name}.{os.getpid()}.{os.urandom(4).hex()}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
        file = os.open(passing, flags, 0o600, dir_fd=place)
        try:
            with open(file, "wb") as opened:
                opened.write(content)
            os.rename(passing, name, src_dir_fd=place, dst_dir_fd=place)
        except BaseException:
            try:
                os.unlink(passing, dir_fd=place)
            except OSError as error:
                let_through(error)
            raise
        if self.unswept >= 0:
            self.unswept += len(content)

    def sweep(self, place: int) -> None:
        """Removes what was not used for longest, until a quarter of the room is free again."""
        self.unswept = 0
        now, total = time.time(), 0
        files: list[tuple[float, int, str]] = []
        with os.scandir(place) as entries:
            for entry in entries:
                try:
                    facts = entry.stat(follow_symlinks=False)
                except OSError as error:
                    let_through(error)
                    continue  # another process was faster
                if entry.name.startswith("."):
                    if now - facts.st_mtime > STALE:
                        self.discard(place, entry.name, "left behind")
                elif stat.S_ISREG(facts.st_mode):
                    files.append((facts.st_mtime, facts.st_size, entry.name))
                    total += facts.st_size
        if total <= self.limit:
            return
        for _time, size, name in sorted(files):
            if total <= self.limit * 3 // 4:
                break
            self.discard(place, name, "old, and the cache is full")
            total -= size


# -- the one of this process ---------------------------------------------------------------------------------
VARIABLES: Final = ("WEFT_CACHE", "WEFT_CACHE_DIR", "WEFT_CACHE_SIZE", "XDG_CACHE_HOME", "HOME")
ON: Final = ("1", "on", "yes", "true", "programs")
OFF: Final = ("0", "off", "no", "false")
_stores: dict[tuple[str | None, ...], Store] = {}


def store() -> Store:
    """What the environment asks for."""
    asked = tuple([os.environ.get(name) for name in VARIABLES])
    found = _stores.get(asked)
    if found is None:
        found = _stores[asked] = Store(folder_of(*asked[:2]), size_of(asked[2]))
    return found


def keeps_entries() -> bool:
    """Whether what was captured is kept beside programs and objects."""
    return store().folder is not None and os.environ.get("WEFT_CACHE") != "programs"


def folder_of(switch: str | None, asked: str | None) -> str | None:
    """The folder, or None where nothing is to be kept."""
    if switch in OFF or not hasattr(os, "geteuid"):
        return None
    if switch and switch not in ON:
        known = "0 (keep nothing), 1 (keep all) or programs (keep nothing that was captured)"
        logger("cache").warning("weft: WEFT_CACHE=%s is taken for 1. It may be %s", switch, known)
    if asked:
        return os.path.abspath(asked)
    base = os.environ.get("XDG_CACHE_HOME") or ""
    if not os.path.isabs(base):
        base = os.path.join(os.path.expanduser("~"), ".cache")
    if not os.path.isabs(base):
        log("cache", lambda: "no home folder: nothing is cached on disk")
        return None
    return os.path.join(base, "weft")


def size_of(asked: str | None) -> int:
    """How many bytes the folder may hold."""
    try:
        return int(asked or DEFAULT_SIZE) << 20
    except ValueError as error:
        let_through(error)
        text = "weft: WEFT_CACHE_SIZE=%s is no number of MiB: it is taken for %s"
        logger("cache").warning(text, asked, DEFAULT_SIZE)
        return DEFAULT_SIZE << 20
