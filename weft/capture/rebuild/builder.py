"""Rebuilding (reconstruction): values of the interpreter as Python text that makes the same objects on each
call.

Takes the values that escape from a segment (returned, on the stack, in locals, cells or stores) and gives an
expression for each, with the lines that must run before. One idea: one visit per object, remembered by
identity, so that what was shared stays shared; the rules by type stand in `weft.capture.rebuild.types`.

# Note [Order of building]
    def f(x):                         _v4 = new(Node)                    allocated at first sight
        node = Node(x)                _v5 = [_v4]
        node.parents = [node]         _v4.__dict__.update({'value': x, 'parents': _v5})   filled later
        return node
Instances, cells and functions are allocated at once and filled by a task that waits in a queue, so cycles
through them need no care, and deep chains no deep recursion. Plain lists, dicts, sets and deques are written
as displays; when one of them turns out to hold itself, building starts again with that one allocated first
and filled after. Whatever reads an object while building (the hash of a key, the position of an iterator)
settles the queue before.
"""

from __future__ import annotations

import keyword
import sys
from collections import deque
from collections.abc import Callable
from types import FunctionType
from typing import Any, TypeVar

from weft.capture.outcome import EscapingException, Outcome
from weft.capture.reading import Reader
from weft.capture.sources import Source, module
from weft.core.interrupts import let_through
from weft.graph.node import Node
from weft.trace.breaks import Break

Result = TypeVar("Result")
Rule = Callable[["Builder", Any], str]

ALLOCATED_FIRST = (list, dict, deque)
"""Of these and their kin a rule can allocate first and fill after, if `Builder.cyclic` asks for it."""


class _StartAgain(Exception):
    """No error: a plain container holds itself."""


class Builder:
    """The objects that one segment makes, as text."""

    def __init__(self, outcome: Outcome, reader: Reader, rule_for: Callable[[Any], Rule | None]) -> None:
        self.outcome = outcome
        self.world = outcome.world
        self.reader = reader
        self.rule_for = rule_for
        self.lines: list[str] = []
        self.late: list[str] = []
        """Lines that must run after the stores: iterators over dicts that the stores change."""
        self.outputs: dict[Node, str] = {}
        """The graph's outputs, each with the variable it is unpacked to."""
        self._names: dict[int, str] = {}
        self._open: dict[int, Any] = {}
        self._tasks: deque[Callable[[], None]] = deque()
        self._filling = 0
        self._late: set[int] = set()
        self.storing = False
        """Whether the text asked for now is stored into something, rather than handed on by the segment."""
        self._cyclic: set[int] = set()
        self.spent: list[tuple[Any, str]] = []
        """Tensors with spent histories that lead to leaves made here, and their names."""
        self._keep: list[Any] = []

    # -- entry points ----------------------------------------------------------------------------------------
    def build(self, wanted: Callable[[Builder], Result]) -> Result:
        """What `wanted` makes of this builder, run again from the start while cycles are found."""
        while True:
            try:
                result = wanted(self)
                self.settle()
            except _StartAgain:
                self._forget()
            except RecursionError as error:
                let_through(error)
                raise Break("cannot-rebuild", seen="an object nested too deeply") from None
            else:
                return result

    def _forget(self) -> None:
        self.lines.clear()
        self.late.clear()
        self.outputs.clear()
        self._names.clear()
        self._open.clear()
        self._tasks.clear()
        self._late.clear()
        self.spent.clear()
        self._filling = 0

    def late_line(self, value: Any, text: str) -> None:
        """A line that makes the value after the stores: only for what the segment itself hands on."""
        self._late.add(id(value))
        self._check_late(value, own=1)
        self.late.append(text)

    def _check_late(self, value: Any, own: int = 0) -> None:
        if len(self._open) > own or self._filling or self.storing:
            self.refuse(value, "over a dict that captured code changed")

    def text(self, value: Any) -> str:
        """An expression for the value, fit to be written any number of times."""
        key = id(value)
        name = self._names.get(key)
        if name is None:
            known = self.world.known.get(key)
            if known is not None:
                name = self.reader.read(known.source)
            else:
                name = self._make(value)
            self.put(value, name)
        elif key in self._late:
            self._check_late(value)
        return name

    def has(self, value: Any) -> bool:
        """Whether the value is built."""
        return id(value) in self._names

    @property
    def built(self) -> list[Any]:
        """All values that were asked for so far."""
        return self._keep

    @property
    def opened(self) -> bool:
        """Whether some rule is at work, and may ask for more."""
        return bool(self._open)

    def _make(self, value: Any) -> str:
        key = id(value)
        raised = self.world.raised.get(key)
        if raised is not None and raised[0] is value:
            raise EscapingException(raised[1])
        if key in self._open:
            self._find_cycle(key)
        rule = self.rule_for(value)
        if rule is None:
            return str(self.refuse(value))
        self._open[key] = value
        name = rule(self, value)
        del self._open[key]
        return name

    def _find_cycle(self, key: int) -> None:
        """Marks the first container between an open object and itself that can be allocated first."""
        opened = list(self._open)
        for member in opened[opened.index(key) :]:
            if issubclass(type(self._open[member]), ALLOCATED_FIRST) and member not in self._cyclic:
                self._cyclic.add(member)
                self._keep.append(self._open[member])
                raise _StartAgain
        self.refuse(self._open[key], "that holds itself")

    def refuse(self, value: Any, why: str = "") -> Any:
        kind = type(value)
        name = (
            kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
        )
        stop = Break("cannot-rebuild", seen=f"an object of class {name} {why}".rstrip())
        stop.culprit = value
        raise stop

    # -- for the rules ---------------------------------------------------------------------------------------
    def put(self, value: Any, name: str) -> str:
        """Files the expression of a value; the value is kept, so that its identity stays its own."""
        self._names[id(value)] = name
        self._keep.append(value)
        return name

    def line(self, text: str) -> None:
        self.lines.append(text)

    def assign(self, text: str, hint: str = "") -> str:
        name = self.reader.fresh(hint if hint.isidentifier() and hint.isascii() else "")
        self.lines.append(f"{name} = {text}")
        return name

    def constant(self, value: Any, hint: str = "") -> str:
        return self.reader.constant(value, hint if hint.isidentifier() and hint.isascii() else "")

    def cyclic(self, value: Any) -> bool:
        """Whether this container must be allocated before its items are built."""
        return id(value) in self._cyclic

    def later(self, task: Callable[[], None]) -> None:
        """Runs a task that fills an allocated object, before anything is stored."""
        self._tasks.append(task)

    def settle(self) -> None:
        self._filling += 1
        while self._tasks:
            self._tasks.popleft()()
        self._filling -= 1

    def items(self, values: Any) -> str:
        """The values as they stand between the brackets of a display."""
        return ", ".join([self.text(value) for value in values])

    def tuple_text(self, values: Any) -> str:
        texts = [self.text(value) for value in values]
        return f"({texts[0]},)" if len(texts) == 1 else f"({', '.join(texts)})"

    def pairs(self, mapping: Any) -> str:
        """The (key, value) pairs as they stand between the braces of a display."""
        return ", ".join([f"{self.text(key)}: {self.text(value)}" for key, value in mapping])

    def call_text(self, function: str, args: Any, kwargs: Any = None) -> str:
        parts = [self.text(value) for value in args]
        named = dict(kwargs or {})
        if all(type(key) is str and key.isidentifier() and not keyword.iskeyword(key) for key in named):
            parts += [f"{key}={self.text(value)}" for key, value in named.items()]
        else:
            parts.append(f"**{{{self.pairs(named.items())}}}")
        return f"{function}({', '.join(parts)})"

    def output(self, node: Node) -> str:
        """The variable for a result of the graph."""
        name = self.outputs.get(node)
        if name is None:
            hint = node.name if node.name.isascii() else ""
            name = self.outputs[node] = self.reader.fresh(hint)
        return name

    def read(self, source: Source) -> str:
        return self.reader.read(source)

    def globals_text(self, globals_: dict[str, Any]) -> str:
        """The dict of globals that a function made here has."""
        frame = self.outcome.frame
        known = self.world.by_original.get(id(globals_))
        if known is not None and known.original is globals_:
            return self.read(known.source)
        if frame.globals is globals_:
            return self.read(frame.globals_source)
        name = globals_.get("__name__")
        if isinstance(name, str) and self.is_module_dict(name, globals_):
            return self.read(module(name))
        for other in self.world.known.values():  # a module of nobody's: whoever was read from it has it
            if type(other.original) is FunctionType and other.original.__globals__ is globals_:
                return self.read(other.source.member("__globals__"))
        return str(self.refuse(globals_, "as the globals of a function"))

    @staticmethod
    def is_module_dict(name: str, globals_: dict[str, Any]) -> bool:
        return getattr(sys.modules.get(name), "__dict__", None) is globals_
