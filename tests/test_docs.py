"""The docs are true: the tour runs, generated pages are current, links lead somewhere, examples hold."""

from __future__ import annotations

import doctest
import importlib
import linecache
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import weft
from weft.cli.main import main, parsed

ROOT = Path(__file__).resolve().parent.parent
DOCS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


def python(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *arguments]
    return subprocess.run(
        command, cwd=ROOT, env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False
    )


def test_the_tour_runs() -> None:
    done = python("docs/tour.py")
    assert done.returncode == 0, done.stderr
    assert "compiled to 3 loops" in done.stdout


def test_generated_pages_are_current() -> None:
    done = python("docs/generate.py", "--check")
    assert done.returncode == 0, done.stderr


GENERATED = {ROOT / "docs/reference/index.md", ROOT / "docs/internals/tour.md"}
"""Pages that `docs/site.py` makes when the site is built, which checks the links on them."""


@pytest.mark.parametrize("page", DOCS, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for link in re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8")):
        target = (page.parent / link).resolve()
        made = target in GENERATED or target.parent.parent == ROOT / "docs/reference"
        assert link.startswith("https://") or target.exists() or made, f"{page.name}: {link}"
        if made and target not in GENERATED:
            assert hasattr(importlib.import_module(target.parent.name), target.stem), link


EXAMPLES = sorted(
    path for path in (ROOT / "weft").rglob("*.py") if ">>> " in path.read_text(encoding="utf-8")
)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: str(path.relative_to(ROOT)))
def test_examples_of_docstrings_hold(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # some write files
    name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    module = importlib.import_module(name)
    space = {**vars(module), "__name__": "__main__", "weft": weft}  # as if a user's
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE  # one line may stand for several
    result = doctest.testmod(module, globs=space, optionflags=flags)
    assert result.failed == 0


MADE_UP = {"weft.a.b", "weft.compiler.settings.NAME"}


@pytest.mark.parametrize("page", DOCS, ids=lambda page: page.name)
def test_names_are_there(page: Path) -> None:
    for name in set(re.findall(r"(?<![\w/.])weft(?:\.\w+)+", page.read_text(encoding="utf-8"))) - MADE_UP:
        found: object = weft
        path = "weft"
        for part in name.split(".")[1:]:
            path += f".{part}"
            found = getattr(found, part) if hasattr(found, part) else importlib.import_module(path)


@pytest.mark.parametrize("page", DOCS, ids=lambda page: page.name)
def test_paths_are_there(page: Path) -> None:
    for path in set(re.findall(r"`((?:weft|tests|docs)/[\w/.*]+)`", page.read_text(encoding="utf-8"))):
        assert list(ROOT.glob(path.rstrip("/"))), f"{page.name}: {path}"


NATIVE_FILES = re.compile(r"`(\w+\*?(?:_\*)?\.py)`")


def test_the_page_of_native_names_its_files() -> None:
    text = (ROOT / "docs" / "native.md").read_text(encoding="utf-8")
    for name in set(NATIVE_FILES.findall(text)):
        assert list((ROOT / "weft" / "native").glob(name)), name


SOURCES = {path: path.read_text(encoding="utf-8") for path in sorted((ROOT / "weft").rglob("*.py"))}


def test_notes_that_are_referred_to_are_there() -> None:
    """`Note [Topic]` stands somewhere, and in the module that is named behind it."""
    places: dict[str, set[Path]] = {}
    for path, text in SOURCES.items():
        for topic in re.findall(r"^[\s#]*Note \[([^\]]+)\]", text, re.MULTILINE):
            places.setdefault(topic, set()).add(path)
    for path, text in SOURCES.items():
        for topic, module in re.findall(r"Note\s\[([^\]]+)\](?:\s+in\s+`([\w.]+)`)?", text):
            found = places.get(" ".join(topic.split()))
            assert found, f"{path}: there is no Note [{topic}]"
            if module:
                parts = module.split(".") if module.startswith("weft.") else [*path.parent.parts, module]
                target = ROOT.joinpath(*parts)
                assert found & {target.with_suffix(".py"), target / "__init__.py"}, (
                    f"{path}: {topic}, {module}"
                )


def test_the_example_of_scripted_functions_runs() -> None:
    text = (ROOT / "docs" / "scripted.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    place = ROOT / "docs" / "scripted.md"
    lines = [line + "\n" for line in code.split("\n")]
    linecache.cache[str(place)] = (len(code), None, lines, str(place))  # scripts are read from their source
    exec(compile(code, str(place), "exec"), {"__name__": "__main__"})


CHAPTERS = sorted(
    [
        ROOT / "docs/index.md",
        *(ROOT / "docs").glob("from_*.md"),
        *(ROOT / "docs/tutorial").glob("*.md"),
        *(ROOT / "docs/howto").glob("*.md"),
    ]
)
TRAINING = """
import weft


def attention(q, k, v):
    return (q @ k.transpose(-1, -2)).softmax(-1) @ v


weft.compile(attention)(*(weft.randn(2, 3, 4) for _ in range(3)))
"""
"""What stands in the files that commands of chapters name."""


def commands(page: Path) -> list[str]:
    """What a reader is told to type: the lines of shell blocks, and whole commands within a line."""
    text = page.read_text(encoding="utf-8")
    blocks = re.findall(r"^```sh\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    lines = [line for block in blocks for line in block.splitlines() if line.strip()]
    return lines + re.findall(r"(?<!`)`(weft [a-z]+(?: [^`]*)?)`(?!`)", text)


@pytest.mark.parametrize(
    "page", [ROOT / "README.md", *CHAPTERS], ids=lambda page: f"{page.parent.name}/{page.name}"
)
def test_commands_of_chapters_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All are Python's shell syntax; those that take a program run with one, the rest are parsed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", sys.path[:])
    for line in commands(page):
        assert subprocess.run(["bash", "-n", "-c", line], check=False).returncode == 0, line
        words = shlex.split(line, comments=True)
        if words[0] != "weft" or len(words) == 1:
            continue
        if len(words) > 2:  # a command alone is a name in a sentence
            parsed(words[1:])
        names = [word.partition(":")[0] for word in words if ".py" in word]
        for name in names:
            Path(name).write_text(TRAINING, encoding="utf-8")
        if names and "--torch" not in words:
            assert main(words[1:]) == 0, line


@pytest.mark.parametrize("page", CHAPTERS, ids=lambda page: f"{page.parent.name}/{page.name}")
def test_code_of_chapters_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All code of a page, as one program."""
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(.*?)^```$", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    source = "\n".join(blocks)
    name = f"<{page.name}>"
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    space: dict[str, object] = {"__name__": "__main__"}
    exec(compile(source, name, "exec"), space)


def test_the_version_is_that_of_the_newest_entry_of_the_changelog() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    entries = re.findall(r"^## (\d+\.\d+\.\d+) \((?:not released|\d{4}-\d\d-\d\d)\)$", text, re.MULTILINE)
    assert entries and entries[0] == weft.__version__
    numbers = [tuple(map(int, entry.split("."))) for entry in entries]
    assert numbers == sorted(set(numbers), reverse=True)
    assert len(entries) == len(re.findall(r"^## ", text, re.MULTILINE))
