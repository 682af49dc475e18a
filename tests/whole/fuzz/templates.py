"""Templates with typed holes, parsed once; weighted choices among them; and the scopes that fill them.

Takes template text (Note [Holes] in grammar.py); gives Template, Choices and Scope.
"""

from __future__ import annotations

import random
import re
from bisect import bisect
from dataclasses import dataclass, field
from functools import cache
from itertools import accumulate

PREFIXES = frozenset({"new", "var", "set", "lit", "drop"})
HOLE = re.compile(r"\$(?P<hole>\w+)(?:@(?P<uses>[a-z]+)\b)?|@(?P<bound>[a-z])(?!\w)")


@dataclass(frozen=True)
class Template:
    """Parsed text: `parts` alternate between text and holes; a hole is (prefix, type, names it may use)."""

    text: str
    parts: tuple[str | tuple[str, str, str], ...]
    types: frozenset[str]
    scoped: tuple[tuple[str, str], ...]
    open: bool
    comprehends: bool
    walrus: bool
    jumps: bool
    compound: bool


@cache
def parse(text: str) -> Template:
    """The holes of `text`; cached, because every program uses the same templates."""
    parts: list[str | tuple[str, str, str]] = []
    types: set[str] = set()
    scoped: list[tuple[str, str]] = []
    end = 0
    for match in HOLE.finditer(text):
        if match.start() > end:
            parts.append(text[end : match.start()])
        end = match.end()
        if match["bound"]:
            parts.append(("bound", match["bound"], ""))
            continue
        prefix, _, kind = match["hole"].rpartition("_")
        if prefix not in PREFIXES:
            prefix, kind = "", match["hole"]
        parts.append((prefix, kind, match["uses"] or ""))
        if prefix in ("var", "set", "drop"):
            scoped.append((prefix, kind))
        elif kind == "result":
            scoped.append(("result", kind))
        else:
            types.add(kind)
    if end < len(text):
        parts.append(text[end:])
    return Template(
        text,
        tuple(parts),
        frozenset(types),
        tuple(scoped),
        is_open(text),
        " for @" in text,
        ":=" in text,
        bool(re.search(r"^ *(break|continue)$", text, re.M)) and "while" not in text,
        "\n" in text,
    )


def is_open(text: str) -> bool:
    """Whether `text` must be put in parentheses to stand inside another expression."""
    depth = 0
    for character in text:
        if character in "([{":
            depth += 1
        elif character in ")]}":
            depth -= 1
        elif character == " " and depth == 0:
            return True
    return text.startswith("-")


class Choices:
    """A weighted choice of (template, cost)."""

    def __init__(self) -> None:
        self.entries: list[tuple[Template, int]] = []
        self.weights: list[float] = []
        self.sums: list[float] = []

    def add(self, entry: str | tuple[float, str], cost: int = 0, factor: float = 1.0) -> None:
        weight, text = (1.0, entry) if isinstance(entry, str) else entry
        self.entries.append((parse(text), cost))
        self.weights.append(weight * factor)
        self.sums = []

    def pick(self, chance: random.Random) -> tuple[Template, int]:
        if not self.sums:
            self.sums = list(accumulate(self.weights))
        return self.entries[bisect(self.sums, chance.random() * self.sums[-1])]


@dataclass
class Scope:
    """What a place in the program can see and do."""

    names: dict[str, list[str]] = field(default_factory=dict)
    settable: dict[str, list[str]] = field(default_factory=dict)
    local: list[str] = field(default_factory=list)
    in_loop: bool = False
    depth: int = 0
    multiplicity: int = 1
    result: str | None = None
    declares: bool = False

    def child(self, **changes: object) -> Scope:
        copy = Scope(
            {kind: names[:] for kind, names in self.names.items()},
            {kind: names[:] for kind, names in self.settable.items()},
            self.local[:],
            self.in_loop,
            self.depth + 1,
            self.multiplicity,
            self.result,
            self.declares,
        )
        for name, value in changes.items():
            setattr(copy, name, value)
        return copy

    def add(self, name: str, kind: str, settable: bool = True) -> None:
        self.names.setdefault(kind, []).append(name)
        if settable:
            self.settable.setdefault(kind, []).append(name)

    def drop(self, name: str) -> None:
        for table in (self.names, self.settable):
            for kind, names in table.items():
                table[kind] = [other for other in names if other != name]
        self.local = [other for other in self.local if other != name]

    def every(self) -> list[str]:
        return [name for names in self.names.values() for name in names]
