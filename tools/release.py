"""Builds what is released and checks it: `python tools/release.py [FOLDER]`.

Takes this checkout; leaves a wheel and a source archive in FOLDER (`dist`). Says which check failed, and ends
with 1 then. Needs `build` and `twine`; packages that Weft depends on come from wherever pip finds them.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIMIT = 3 * 2**20
"""Bytes of a wheel."""
USES = (
    "import weft; f = weft.compile(lambda x: x.sin().sum()); print(weft.__version__, f(weft.ones(3)).item())"
)


def version() -> str:
    """What the package says it is."""
    text = (ROOT / "weft" / "version.py").read_text(encoding="utf-8")
    return re.findall(r'__version__ = "(.*)"', text)[0]


def latest_entry() -> str:
    """The version of the changelog's newest entry."""
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    return re.findall(r"^## (\S+)", text, re.MULTILINE)[0]


def complaints_of_wheel(path: Path) -> Iterator[str]:
    """What a wheel must not have, and what it must."""
    names = zipfile.ZipFile(path).namelist()
    if path.stat().st_size > LIMIT:
        yield f"{path.name} has {path.stat().st_size} bytes, more than {LIMIT}"
    for name in names:
        if not name.startswith(("weft/", "weft-")) or "/tests/" in name or "__pycache__" in name:
            yield f"{path.name} holds {name}"
    for name in ("weft/py.typed", "weft/__init__.pyi", "weft/tensor/methods.pyi", "weft/report/page.html"):
        if name not in names:
            yield f"{path.name} lacks {name}"
    if not any(name.endswith("licenses/LICENSE") for name in names):
        yield f"{path.name} lacks the license"


def complaints_of_archive(path: Path) -> Iterator[str]:
    """What a source archive must have."""
    with tarfile.open(path) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    for name in (
        "pyproject.toml", "README.md", "CHANGELOG.md", "LICENSE", "weft/version.py", "mkdocs.yml",
        "docs/site.py", "tools/release.py", ".ci/run",
    ):  # fmt: skip
        if name not in names:
            yield f"{path.name} lacks {name}"


ALONE = ["unshare", "--user", "--map-root-user", "--net"]
"""Runs a command in a network of its own that leads nowhere, where the system lets users make one."""
NO_NETWORK = """\
import socket
def refused(*_arguments, **_options):
    raise OSError("this release must not need a network")
socket.socket.connect = socket.socket.connect_ex = socket.create_connection = socket.getaddrinfo = refused
"""
"""Stands before what is run: elsewhere, connections that Python makes are refused."""


def without_network(command: list[str]) -> list[str]:
    """The command, cut off from all networks as far as this system allows."""
    try:
        subprocess.run([*ALONE, "true"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        print("no network of its own can be made here: Python's connections alone are refused")
        return command
    return [*ALONE, *command]


def in_a_fresh_environment(wheel: Path) -> Iterator[str]:
    """Installs the wheel where nothing is, and compiles a function there, without a network."""
    with tempfile.TemporaryDirectory() as folder:
        run([sys.executable, "-m", "venv", folder])
        run([f"{folder}/bin/pip", "install", "-q", str(wheel)])
        command = [f"{folder}/bin/python", "-W", "error", "-c", NO_NETWORK + USES]
        said = run(without_network(command), cwd=folder)
        told, result = said.split()
        if told != version() or abs(float(result) - 2.5244129) > 1e-6:
            yield f"{wheel.name}, installed, says {said!r}"


def run(command: list[str], cwd: str | Path = ROOT) -> str:
    done = subprocess.run(command, cwd=cwd, stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout


def main(arguments: list[str]) -> int:
    folder = Path(arguments[0] if arguments else "dist").resolve()
    run([sys.executable, "-m", "build", "-o", str(folder)])
    (wheel,) = folder.glob(f"weft-{version()}-*.whl")
    (archive,) = folder.glob(f"weft-{version()}.tar.gz")
    found = [*complaints_of_wheel(wheel), *complaints_of_archive(archive)]
    if version() != latest_entry():
        found.append(f"the version is {version()}, and the newest entry of the changelog {latest_entry()}")
    run([sys.executable, "-m", "twine", "check", "--strict", str(wheel), str(archive)])
    found += in_a_fresh_environment(wheel)
    print(f"{wheel.name}: {wheel.stat().st_size / 2**20:.2f} MiB of {LIMIT / 2**20:.0f}")
    for complaint in found:
        print(complaint)
    return bool(found)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
