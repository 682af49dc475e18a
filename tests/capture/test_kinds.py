"""The table of break kinds is complete, and a break reads as the style guide says."""

from __future__ import annotations

import ast
import linecache
import pickle
from pathlib import Path

import pytest

import weft
from weft.capture.kinds import (
    KINDS,
    Unsupported,
    documentation,
    in_torch_words,
    page,
    render_break,
    source_lines,
    unsupported,
)
from weft.core.naming import naming
from weft.trace.breaks import Break

MODEL = """\
class Model:
    def forward(self, x):
        y = x * 2
        if y.sum() > 0: y = y * 2
\tz = y
        größe = f(y)
        return g(
            y)
"""


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    path = tmp_path / "model.py"
    path.write_text(MODEL, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    linecache.checkcache()
    return str(path)


def test_a_break_reads_as_the_style_guide_shows(model: str) -> None:
    text = render_break(
        "data-dependent-branch", "truth of %4: b1[] = gt(%3, 0)", model, 4, "forward", (4, 4, 11, 22)
    )
    assert text == (
        "GraphBreak data-dependent-branch at model.py:4 in forward\n"
        "    if y.sum() > 0: y = y * 2\n"
        "       ^^^^^^^^^^^\n"
        "Why:  the branch depends on a tensor's value, which is unknown while capturing.\n"
        "Try:  weft.where(...) keeps both sides in one graph; weft.cond(...) if they do different work.\n"
        "Seen: truth of %4: b1[] = gt(%3, 0)"
    )


def test_a_place_outside_the_current_folder_keeps_its_path(
    model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "elsewhere"
    other.mkdir()
    monkeypatch.chdir(other)
    assert f"at {model}:3" in render_break("builtin-call", "", model, 3)


def test_what_is_unknown_is_left_out() -> None:
    lines = render_break("builtin-call").splitlines()
    assert lines[0] == "GraphBreak builtin-call"
    assert [line[:5] for line in lines[1:]] == ["Why: ", "Try: "]


def test_no_source_no_carets() -> None:
    assert source_lines("<string>", 3, (3, 3, 0, 5)) == []


def test_columns_are_bytes_and_carets_are_characters(model: str) -> None:
    start = len("        größe = ".encode())
    assert source_lines(model, 6, (6, 6, start, start + 4)) == ["    größe = f(y)", "            ^^^^"]


def test_several_lines_are_marked_to_the_end_of_the_first(model: str) -> None:
    assert source_lines(model, 7, (7, 8, 15, 14)) == ["    return g(", "           ^^"]


def test_tabs_do_not_shift_the_carets(model: str) -> None:
    assert source_lines(model, 5, (5, 5, 5, 6)) == ["    z = y", "        ^"]


@pytest.mark.parametrize("positions", [None, (4, 4, None, None), (3, 4, 0, 5)])
def test_unknown_columns_have_no_carets(model: str, positions: object) -> None:
    assert source_lines(model, 4, positions) == ["    if y.sum() > 0: y = y * 2"]


def test_a_break_may_bring_its_own_reason() -> None:
    error = unsupported(Break("builtin-call", "builtin: print", why="because.", try_="nothing."))
    assert isinstance(error, RuntimeError)
    assert "builtin: print" in str(error)
    assert "Why:  because." in str(error) and "Try:  nothing." in str(error)


def test_the_error_has_the_text_of_the_break(model: str) -> None:
    stop = Break("builtin-call", "builtin: print")
    error = unsupported(stop, model, 3, "forward", (3, 3, 12, 17))
    assert str(error) == render_break("builtin-call", "builtin: print", model, 3, "forward", (3, 3, 12, 17))
    assert type(error).__name__ == "Unsupported"
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.kind) == (str(error), "builtin-call") and type(again) is Unsupported


def raised_kinds() -> dict[str, str]:
    """Every literal kind of a `Break(...)` in the package, with a place."""
    found = {}
    root = Path(weft.__file__).parent
    for path in root.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", None) == "Break" and node.args:
                for word in ast.walk(node.args[0]):
                    if isinstance(word, ast.Constant) and type(word.value) is str:
                        found[word.value] = f"{path.relative_to(root)}:{node.lineno}"
    return found


def test_every_kind_that_is_raised_is_in_the_table() -> None:
    raised = raised_kinds()
    assert "data-dependent-branch" in raised
    assert {kind: place for kind, place in raised.items() if kind not in KINDS} == {}


def test_kinds_are_whole_sentences() -> None:
    for name, kind in KINDS.items():
        assert name == name.lower() and " " not in name
        assert kind.why.endswith(".") and kind.try_.endswith("."), name


def test_the_table_is_the_documentation() -> None:
    text = documentation()
    assert text.count("\n") == len(KINDS) + 1
    assert "| `data-dependent-branch` | the branch depends" in text


def test_a_kind_that_is_missing_still_reads() -> None:
    assert "Why:  capture does not know this." in render_break("never-heard-of")


def test_the_manual_is_current() -> None:
    manual = Path(__file__).resolve().parents[2] / "docs" / "breaks.md"
    assert manual.read_text(encoding="utf-8") == page(), "python -m weft.capture.kinds > docs/breaks.md"


@pytest.mark.parametrize(
    ("kind", "seen", "words"),
    [
        ("data-dependent-branch", "", ["Data-dependent branching"]),
        ("builtin-call", "builtin: print", ["Failed to trace builtin operator", "builtin operator `print`"]),
        ("builtin-call", "builtin: time.time", ["marked as skipped", "the builtin `time.time.`"]),
        (
            "skipped-function",
            "weft.compiler.graph_break()",
            ["Call to `torch._dynamo.graph", "User"],
        ),
        ("skipped-function", "helper is disabled", ["Skip calling `torch.compiler.disable()`d function"]),
        ("set-order", "", []),
    ],
)
def test_breaks_in_the_words_of_pytorch(
    kind: str, seen: str, words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = in_torch_words(kind, seen)
    assert len(found) == len(words) and all(one in line for one, line in zip(words, found, strict=True))
    assert "Torch:" not in str(unsupported(Break(kind, seen)))
    monkeypatch.setattr(naming, "namespace", "torch")
    assert str(unsupported(Break(kind, seen))).count("Torch: ") == len(words)
