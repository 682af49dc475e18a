"""The cache on disk under faults: whatever happens to it, a compilation is all that is lost."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from weft.native.program import cache
from weft.native.program.cache import HEADER, MAGIC, Store, digest, folder_of, key_of, size_of

KEY, OTHER = key_of("one"), key_of("two")
CONTENT = bytes(range(256)) * 20


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "deep" / "cache"


@pytest.fixture
def kept(folder: Path) -> Store:
    made = Store(str(folder))
    made.put("object", KEY, CONTENT)
    return made


def file_of(folder: Path, key: str = KEY) -> Path:
    return folder / f"{key}.object"


def test_what_was_put_is_found_by_others(kept: Store, folder: Path) -> None:
    assert Store(str(folder)).get("object", KEY) == CONTENT
    assert Store(str(folder)).get("object", OTHER) is None
    assert Store(str(folder)).get("program", KEY) is None


def test_keys_tell_parts_apart() -> None:
    assert len({key_of("ab", "c"), key_of("a", "bc"), key_of("abc"), key_of("abc", "")}) == 4


def test_it_is_private(kept: Store, folder: Path) -> None:
    assert folder.stat().st_mode & 0o777 == 0o700
    assert [path.stat().st_mode & 0o777 for path in folder.iterdir()] == [0o600]


def test_no_folder_keeps_nothing() -> None:
    nowhere = Store(None)
    nowhere.put("object", KEY, CONTENT)
    assert nowhere.get("object", KEY) is None


# -- damaged files -------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "length", [0, 1, len(MAGIC), HEADER - 1, HEADER, HEADER + 1, HEADER + len(CONTENT) - 1]
)
def test_truncated(kept: Store, folder: Path, length: int) -> None:
    file = file_of(folder)
    file.write_bytes(file.read_bytes()[:length])
    assert kept.get("object", KEY) is None
    assert not file.exists()
    kept.put("object", KEY, CONTENT)
    assert kept.get("object", KEY) == CONTENT


@pytest.mark.parametrize(
    "place", [0, len(MAGIC), HEADER - 1, HEADER, HEADER + 1000, HEADER + len(CONTENT) - 1]
)
@pytest.mark.parametrize("bit", [0, 7])
def test_a_bit_flipped(kept: Store, folder: Path, place: int, bit: int) -> None:
    file = file_of(folder)
    content = bytearray(file.read_bytes())
    content[place] ^= 1 << bit
    file.write_bytes(content)
    assert kept.get("object", KEY) is None
    assert not file.exists()


def test_longer_than_written(kept: Store, folder: Path) -> None:
    with file_of(folder).open("ab") as file:
        file.write(b"\0")
    assert kept.get("object", KEY) is None


def test_swapped(kept: Store, folder: Path) -> None:
    kept.put("object", OTHER, CONTENT[::-1])
    file_of(folder).rename(folder / "aside")
    file_of(folder, OTHER).rename(file_of(folder))
    (folder / "aside").rename(file_of(folder, OTHER))
    assert kept.get("object", KEY) is None
    assert kept.get("object", OTHER) is None


def test_of_another_kind(kept: Store, folder: Path) -> None:
    file_of(folder).rename(folder / f"{KEY}.program")
    assert kept.get("program", KEY) is None


def test_of_another_version(kept: Store, folder: Path) -> None:
    foreign = MAGIC.replace(b"1", b"0")
    file_of(folder).write_bytes(foreign + digest("object", KEY, CONTENT) + CONTENT)
    assert kept.get("object", KEY) is None


@pytest.mark.parametrize("mode", [0o620, 0o602])
def test_a_file_that_others_may_write(kept: Store, folder: Path, mode: int) -> None:
    file_of(folder).chmod(mode)
    assert kept.get("object", KEY) is None


def test_a_link_is_not_followed(kept: Store, folder: Path, tmp_path: Path) -> None:
    file_of(folder).rename(tmp_path / "elsewhere")
    file_of(folder).symlink_to(tmp_path / "elsewhere")
    assert Store(str(folder)).get("object", KEY) is None
    assert (tmp_path / "elsewhere").exists()


def test_a_folder_in_a_files_place(kept: Store, folder: Path) -> None:
    file_of(folder).unlink()
    file_of(folder).mkdir()
    assert Store(str(folder)).get("object", KEY) is None


# -- folders that cannot be used -----------------------------------------------------------------------------
def lines_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]


@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o770, 0o720])
def test_a_folder_that_others_may_write(
    kept: Store, folder: Path, mode: int, caplog: pytest.LogCaptureFixture
) -> None:
    folder.chmod(mode)
    for _ in range(3):
        assert kept.get("object", KEY) is None
        kept.put("object", OTHER, CONTENT)
    assert lines_of(caplog) == [f"weft: the cache {folder} is not used: others may write it"]
    assert not file_of(folder, OTHER).exists()


def test_a_folder_of_another_user(
    kept: Store, folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: folder.stat().st_uid + 1)
    assert kept.get("object", KEY) is None
    assert lines_of(caplog) == [f"weft: the cache {folder} is not used: it belongs to another user"]


def test_a_folder_that_is_a_file(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "cache").write_text("")
    kept = Store(str(tmp_path / "cache"))
    kept.put("object", KEY, CONTENT)
    assert kept.get("object", KEY) is None
    assert len(lines_of(caplog)) == 2  # one for writing, one for reading


def test_a_folder_that_may_only_be_read(
    kept: Store, folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refused(*_args: object, **_kwargs: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    opened = os.open
    monkeypatch.setattr(os, "utime", refused)
    monkeypatch.setattr(
        os,
        "open",
        lambda path, flags, *a, **k: refused() if flags & os.O_CREAT else opened(path, flags, *a, **k),
    )
    for _ in range(3):
        kept.put("object", OTHER, CONTENT)
        assert kept.get("object", KEY) == CONTENT
    assert lines_of(caplog) == [f"weft: the cache {folder} is not written: Read-only file system"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission_to_write(kept: Store, folder: Path) -> None:
    folder.chmod(0o500)
    kept.put("object", OTHER, CONTENT)
    assert kept.get("object", KEY) == CONTENT
    folder.chmod(0o700)


def test_a_full_disk(
    kept: Store, folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Full:
        def __init__(self, file: int, _mode: str) -> None:
            self.file = file

        def __enter__(self) -> Full:
            return self

        def __exit__(self, *_error: object) -> None:
            os.close(self.file)

        def write(self, content: bytes) -> None:
            os.write(self.file, content[:100])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(cache, "open", Full, raising=False)
        for _ in range(3):
            kept.put("object", OTHER, CONTENT)
    assert lines_of(caplog) == [f"weft: the cache {folder} is not written: No space left on device"]
    assert [path.name for path in folder.iterdir()] == [f"{KEY}.object"]
    assert kept.get("object", KEY) == CONTENT


def test_a_folder_that_vanishes(kept: Store, folder: Path) -> None:
    file_of(folder).unlink()
    folder.rmdir()
    assert kept.get("object", KEY) is None
    kept.put("object", KEY, CONTENT)
    assert kept.get("object", KEY) == CONTENT


# -- room ----------------------------------------------------------------------------------------------------
def test_what_was_not_used_for_longest_goes_first(folder: Path) -> None:
    kept = Store(str(folder), limit=10 * (HEADER + 1000))
    keys = [key_of(str(number)) for number in range(10)]
    for number, key in enumerate(keys):
        kept.put("object", key, bytes(1000))
        os.utime(file_of(folder, key), (number, number))
    kept.get("object", keys[0])  # used now
    Store(str(folder), limit=kept.limit).put("object", OTHER, bytes(1000))
    left = {path.stem for path in folder.iterdir()}
    assert left == {keys[0], OTHER, *keys[5:]}


def test_it_stays_within_its_bounds(folder: Path) -> None:
    kept = Store(str(folder), limit=50_000)
    for number in range(200):
        kept.put("object", key_of(str(number)), bytes(1000))
    assert sum(path.stat().st_size for path in folder.iterdir()) < 50_000 * 1.1
    kept.put("object", OTHER, bytes(60_000))
    assert not file_of(folder, OTHER).exists()


def test_files_that_were_never_finished_are_removed(kept: Store, folder: Path) -> None:
    old, new = folder / ".a.object.1.2", folder / ".b.object.1.2"
    for path in (old, new):
        path.write_bytes(b"")
    hours_ago = time.time() - 7200
    os.utime(old, (hours_ago, hours_ago))
    Store(str(folder)).put("object", OTHER, CONTENT)
    assert not old.exists() and new.exists()


# -- processes -----------------------------------------------------------------------------------------------
WRITING = """
import sys
from weft.native.program.cache import Store, counts, key_of
kept = Store(sys.argv[1], limit=200_000)
for turn in range(30):
    for number in range(20):
        key = key_of(str(number))
        content = key.encode() * 100
        found = kept.get("object", key)
        assert found is None or found == content
        kept.put("object", key, content)
print(counts["discarded"], counts["refused"])
"""


def test_processes_that_write_at_once(folder: Path) -> None:
    root = str(Path(cache.__file__).parents[3])
    command = [sys.executable, "-W", "error", "-c", WRITING, str(folder)]
    running = [
        subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    results = [process.communicate(timeout=120) for process in running]
    assert results == [("0 0\n", "")] * 2
    assert len(list(folder.iterdir())) == 20


# -- the environment -----------------------------------------------------------------------------------------
def test_where_it_lies(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert folder_of(None, None) == "/somewhere/weft"
    assert folder_of(None, str(tmp_path)) == str(tmp_path)
    assert folder_of("0", str(tmp_path)) is None
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", "/home/user")
    assert folder_of("1", None) == "/home/user/.cache/weft"


def test_how_large_it_may_be(caplog: pytest.LogCaptureFixture) -> None:
    assert size_of("3") == 3 << 20 and size_of(None) == 1024 << 20
    assert size_of("many") == 1024 << 20
    assert lines_of(caplog) == ["weft: WEFT_CACHE_SIZE=many is no number of MiB: it is taken for 1024"]


def test_the_environment_is_asked_each_time(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("WEFT_CACHE_DIR", str(tmp_path))
    assert cache.store().folder == str(tmp_path)
    monkeypatch.setenv("WEFT_CACHE", "0")
    assert cache.store().folder is None


def test_words_that_are_not_known_are_told(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    for word in (None, "", "0", "1", "on", "programs"):
        folder_of(word, str(tmp_path))
    assert lines_of(caplog) == []
    assert folder_of("banana", str(tmp_path)) == str(tmp_path)
    (line,) = lines_of(caplog)
    assert line.startswith("weft: WEFT_CACHE=banana is taken for 1. It may be 0 (keep nothing)")
