"""Rewriting: rules that change the definitions of a program, applied one after the other.

Takes what a program must give; knows all definitions behind that, in order, and who reads them; shows these
to rules, which change them or put others in their place. One idea: a rule sees each definition behind those
that it is made of, and these read already what stands in the place of others; so a rule says what becomes of
one definition, and nothing of those that read it.

# Note [Rules]
A rule is a class: which kinds of definitions it is shown (`kinds`), what it does with one (`visit`), whether
it has to do with a program at all (`applies`), and which rules go before it if so (`first`). There is one
object of it for each program. The lists of rules, in the order in which they are applied, stand where
programs are planned, in `weft.native.program.planning`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, TypeVar

from weft.native.ir.definitions import Definition, Fold, Gather, Opaque, Point, Reshape, View, operands_of


def ordered(outputs: Iterable[Definition]) -> list[Definition]:
    """All definitions behind the outputs, each behind what it is made of."""
    found: list[Definition] = []
    seen: set[Definition] = set()
    open_: list[Definition] = []  # whose operands are looked at; a None on the stack ends the last one
    stack: list[Definition | None] = [*outputs]
    stack.reverse()
    while stack:
        value = stack.pop()
        if value is None:
            found.append(open_.pop())
        elif value not in seen:
            seen.add(value)
            operands: Sequence[Definition] = value.operands
            if not operands:
                found.append(value)
                continue
            open_.append(value)
            stack.append(None)
            stack += [each for each in reversed(operands) if each not in seen]
    return found


class Rule:
    """One way of rewriting, on one program."""

    kinds: ClassVar[tuple[type[Definition], ...]] = (Definition,)
    """What it is shown."""
    first: ClassVar[tuple[type[Rule], ...]] = ()
    """Rules that go before it, where it applies."""
    changes_outputs: ClassVar[bool] = True
    """Whether what it replaces is replaced among the outputs, too, and not for readers alone."""

    def __init__(self, definitions: Definitions) -> None:
        self.definitions = definitions

    def applies(self) -> bool:
        """Whether it has to do with this program."""
        return True

    def visit(self, value: Definition) -> None:
        """Changes a definition, or puts another one in its place."""

    def finish(self) -> None:
        """What is left to do when all definitions were seen."""


AnyRule = TypeVar("AnyRule", bound=Rule)


class Definitions:
    """The definitions behind what a program gives, and behind `others`, which it needs, too."""

    def __init__(self, outputs: Sequence[Any], others: Sequence[Definition] = ()) -> None:
        self.outputs, self.others = list(outputs), list(others)
        self.read()

    def read(self) -> None:
        """Looks at the program anew."""
        wanted = [each for each in (*self.outputs, *self.others) if isinstance(each, Definition)]
        self.order = ordered(wanted)
        self.wanted = Counter(map(id, wanted))
        self.instead: dict[int, Definition] = {}
        """What stands in the place of others, by their `id`."""
        self._readers: dict[int, list[Definition]] | None = None

    @property
    def readers(self) -> dict[int, list[Definition]]:
        """By `id`, who reads a definition, as often as they do."""
        if self._readers is None:
            self._readers = {}
            for value in self.order:
                for each in operands_of(value) if id(value) not in self.instead else ():
                    now = self.instead.get(id(each), each)
                    self._readers.setdefault(id(now), []).append(value)
        return self._readers

    def is_wanted(self, value: Definition) -> bool:
        """Whether a definition is an output, or needed as it is."""
        return bool(self.wanted[id(value)])

    def readers_of(self, value: Definition) -> list[Definition]:
        return self.readers.get(id(value), [])

    def uses(self, value: Definition) -> int:
        """How often a definition is read or wanted."""
        return len(self.readers_of(value)) + self.wanted[id(value)]

    def replace(self, value: Definition, other: Definition) -> None:
        """Puts another definition, which is there already, in the place of one."""
        self.instead[id(value)] = other
        self.wanted[id(other)] += self.wanted[id(value)]
        if self._readers is not None:
            left = [each for each in self.readers_of(other) if each is not value]
            self.readers[id(other)] = left + self.readers_of(value)

    def apply(self, kind: type[AnyRule]) -> AnyRule:
        """Applies a rule; gives it as it is afterwards."""
        self.read()
        rule = kind(self)
        if not rule.applies():
            return rule
        if kind.first:
            self.apply_all(kind.first)
            self.read()
        for value in self.order:
            if self.instead:
                reread(value, self.instead)
            if isinstance(value, kind.kinds):
                rule.visit(value)
        rule.finish()
        if kind.changes_outputs:
            self.outputs = [self.instead.get(id(each), each) for each in self.outputs]
        return rule

    def apply_all(self, rules: Iterable[type[Rule]]) -> None:
        for each in rules:
            self.apply(each)


def reread(value: Definition, instead: dict[int, Definition]) -> None:
    """Makes a definition read what stands in the place of others."""
    if isinstance(value, (Point, Opaque)):
        value.operands[:] = [instead.get(id(each), each) for each in value.operands]
    elif isinstance(value, (View, Reshape)):
        value.base = instead.get(id(value.base), value.base)
    elif isinstance(value, Gather):
        value.base = instead.get(id(value.base), value.base)
        value.index = instead.get(id(value.index), value.index)
    elif isinstance(value, Fold):
        value.operand = instead.get(id(value.operand), value.operand)
