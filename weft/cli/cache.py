"""Show what is kept on disk, or remove it.

Compiled code is kept in WEFT_CACHE_DIR (else in ~/.cache/weft), so that other
processes need not compile it again. WEFT_CACHE=0 turns that off.

  weft cache
  weft cache clear
"""

from __future__ import annotations

import argparse
import os
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

from weft.cli.errors import doing
from weft.native.program.cache import store


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "action", nargs="?", choices=("show", "clear"), default="show", help="by default, show"
    )


def run(options: argparse.Namespace) -> int:
    kept = store()
    if kept.folder is None:
        print("nothing is kept: WEFT_CACHE turns it off, or there is no home")
        return 0
    folder = Path(kept.folder)
    files = files_in(folder)
    total = sum(size for size, _ in files.values())
    if options.action == "clear":
        for path in files:
            with doing(f"remove {path}"):
                path.unlink(missing_ok=True)
        print(f"removed {len(files):,} files, {megabytes(total)}, from {folder}")
        return 0
    print(f"{'folder':<12} {folder}{'' if folder.is_dir() else ' (not there yet)'}")
    print(f"{'files':<12} {len(files):,}, {megabytes(total)} of at most {megabytes(kept.limit)}")
    for kind, count in sorted(Counter(path.suffix[1:] for path in files).items()):
        size = sum(size for path, (size, _) in files.items() if path.suffix[1:] == kind)
        print(f"{'  ' + kind:<12} {count:,}, {megabytes(size)}")
    if files:
        latest = max(when for _, when in files.values())
        print(f"{'last used':<12} {time.strftime('%Y-%m-%d %H:%M', time.localtime(latest))}")
    return 0


def files_in(folder: Path) -> dict[Path, tuple[int, float]]:
    """The kept files, with their sizes and when they were last used."""
    found = {}
    with doing(f"read {folder}"), suppress(FileNotFoundError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_file(follow_symlinks=False):
                facts = entry.stat(follow_symlinks=False)
                found[Path(entry.path)] = facts.st_size, facts.st_mtime
    return found


def megabytes(count: int) -> str:
    return f"{count / (1 << 20):,.1f} MiB"
