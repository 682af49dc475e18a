"""FileCheck: a list of things that must be found in a text, one after the other.

Takes a text, by `run`; raises RuntimeError that names what is missing. Each check starts where the one before
it was found; a `check_not` looks between its neighbours.
"""

from __future__ import annotations

import re
from typing import Any


class FileCheck:
    """Checks, added one by one and run over a text.

    >>> FileCheck().check("add").check_not("mul").check_count("relu", 2).run("add relu relu")
    """

    def __init__(self) -> None:
        self.checks: list[tuple[str, str, Any]] = []

    def _add(self, kind: str, text: str, count: Any = None) -> FileCheck:
        self.checks.append((kind, text, count))
        return self

    def check(self, text: str) -> FileCheck:
        """The text comes."""
        return self._add("CHECK", text)

    def check_not(self, text: str) -> FileCheck:
        """The text does not come before what is checked next."""
        return self._add("CHECK-NOT", text)

    def check_same(self, text: str) -> FileCheck:
        """The text comes on the same line."""
        return self._add("CHECK-SAME", text)

    def check_next(self, text: str) -> FileCheck:
        """The text comes on the next line."""
        return self._add("CHECK-NEXT", text)

    def check_count(self, text: str, count: int, exactly: bool = False) -> FileCheck:
        """The text comes so often; with `exactly`, no more often."""
        return self._add("CHECK-COUNT", text, (count, exactly))

    def check_dag(self, text: str) -> FileCheck:
        """The text comes, in any order among neighbours of this kind."""
        return self._add("CHECK-DAG", text)

    def check_regex(self, text: str) -> FileCheck:
        """The pattern comes."""
        return self._add("CHECK-REGEX", text)

    check_source_highlighted = check

    def run(self, text: Any, *_rest: Any) -> None:
        """Raises where the text does not pass."""
        text = str(text)
        if _rest:  # checks that are written in comments of a first text
            self._read(text)
            text = str(_rest[0])
        position, barred, index = 0, [], 0
        while index < len(self.checks):
            kind, wanted, more = self.checks[index]
            if kind == "CHECK-NOT":
                barred.append(wanted)
                index += 1
                continue
            if kind == "CHECK-DAG":
                group = []
                while index < len(self.checks) and self.checks[index][0] == "CHECK-DAG":
                    group.append(self.checks[index][1])
                    index += 1
                found = [self._find(kind, one, text, position) for one in group]
                start, end = min(a for a, _ in found), max(b for _, b in found)
            else:
                start, end = self._place(kind, wanted, more, text, position)
                index += 1
            self._refuse(barred, text, position, start)
            barred, position = [], end
        self._refuse(barred, text, position, len(text))

    def _place(self, kind: str, wanted: str, more: Any, text: str, position: int) -> tuple[int, int]:
        if kind == "CHECK-COUNT":
            count, exactly = more
            start = end = position
            for number in range(count):
                first, end = self._find(kind, wanted, text, end)
                start = first if number == 0 else start
            if exactly and text.find(wanted, end) >= 0:
                self._fail(f"Expected to not find {wanted!r} but found it", text, end)
            return start, end
        if kind == "CHECK-REGEX":
            match = re.compile(wanted).search(text, position)
            if match is None:
                self._fail(f"Expected to find regex {wanted!r} but did not find it", text, position)
            return match.span()  # type: ignore[union-attr]
        start, end = self._find(kind, wanted, text, position)
        lines = text.count("\n", position, start)
        if kind == "CHECK-SAME" and lines != 0:
            self._fail(f"Expected to not find '\\n' but found it before {wanted!r}", text, position)
        if kind == "CHECK-NEXT" and lines != 1:
            self._fail(f"Expected to find {wanted!r} on the next line", text, position)
        return start, end

    def _find(self, kind: str, wanted: str, text: str, position: int) -> tuple[int, int]:
        start = text.find(wanted, position)
        if start < 0:
            self._fail(f'Expected to find "{wanted}" but did not find it', text, position, kind)
        return start, start + len(wanted)

    def _refuse(self, barred: list[str], text: str, start: int, end: int) -> None:
        for one in barred:
            place = text.find(one, start, end)
            if place >= 0:
                self._fail(f'Expected to not find "{one}" but found it', text, place, "CHECK-NOT")

    def _fail(self, reason: str, text: str, position: int, kind: str = "CHECK") -> None:
        raise RuntimeError(f"{reason}\nSearched string:\n{text[position:]}\nFrom {kind}: {reason}")

    def _read(self, text: str) -> None:
        kinds = {
            "": "CHECK",
            "-NOT": "CHECK-NOT",
            "-SAME": "CHECK-SAME",
            "-NEXT": "CHECK-NEXT",
            "-DAG": "CHECK-DAG",
        }
        for name, count, wanted in re.findall(r"#\s*CHECK(-[A-Z]+)?(?:-(\d+))?: ?(.*)", text):
            if name == "-COUNT":
                self.check_count(wanted, int(count))
            else:
                self._add(kinds[name], wanted)
