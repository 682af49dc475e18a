"""Variables: reading and writing cells and globals, and where a call's arguments go.

Takes a frame and a name; gives the value, guarded where it existed before the call. One idea: variables that
existed before the call are written in the overlays of `World`, those of captured code in place.
"""

from __future__ import annotations

import builtins
import types
from typing import TYPE_CHECKING, Any

from weft.capture.bytecode.effects import STACK
from weft.capture.frame import Frame, Unread
from weft.capture.sources import Source, builtin, module
from weft.capture.values import has_type
from weft.capture.world import ABSENT, Unopened
from weft.trace.breaks import Break

if TYPE_CHECKING:
    from weft.capture.machine import Machine


class Variables:
    """Local variables, cells and globals."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.wrapping = machine.wrapping
        self.world, self.fail = machine.world, machine.fail

    def enter(
        self, frame: Frame, function: types.FunctionType, source: Source | None, bound: dict[str, Any]
    ) -> None:
        """Makes the cells of a frame, and puts the arguments into its variables."""
        code = frame.code
        for position, name in enumerate(code.co_freevars):
            cell = (function.__closure__ or ())[position]
            frame.cells[name] = cell
            if source is not None and id(cell) not in self.world.known:
                self.world.learn(cell, cell, source.member("__closure__").item(position))
        for name in code.co_cellvars:
            frame.cells[name] = self.world.keep(types.CellType())
        for name, value in bound.items():
            if name in frame.cells:
                frame.cells[name].cell_contents = value
            else:
                frame.locals[name] = value

    def read_local(self, frame: Frame, name: str) -> Any:
        """A local variable, which this may be the first to look at."""
        if name not in frame.locals:
            raise self.fail(unbound(frame, name))
        value = frame.locals[name]
        if type(value) is not Unread:
            return value
        if name.startswith(STACK):  # a resumed frame fills its stack
            frame.lazy = True
            return value
        read = self.wrapping.read(value.value, value.source)
        if type(read) is not Unopened:  # of which the argument itself stays unread
            frame.locals[name] = read
        return read

    def read_cell(self, frame: Frame, name: str) -> Any:
        content = self._content(frame.cells[name])
        if content is ABSENT:
            raise self.fail(unbound(frame, name))
        return content

    def cell_content(self, cell: types.CellType) -> Any:
        """What a cell holds, or ABSENT."""
        return self.machine.parts.open(self._content(cell))

    def _content(self, cell: types.CellType) -> Any:
        written, value = self.world.written(cell, None)
        if written:
            return value
        known = self.world.known.get(id(cell))
        try:
            content = cell.cell_contents
        except ValueError:
            if known is not None:
                self.world.guard("UNSET", known.source.cell())
            return ABSENT
        return content if known is None else self.wrapping.read(content, known.source.cell())

    def write_cell(self, cell: types.CellType, value: Any) -> None:
        known = self.world.known.get(id(cell))
        self.world.changes += 1
        self.world.keep(value)
        if known is not None:
            self.world.write(cell, "cell", known.source, None, value)
        elif value is ABSENT:
            del cell.cell_contents
        else:
            cell.cell_contents = value

    def read_global(self, frame: Frame, name: str) -> Any:
        written, value = self.world.written(frame.globals, name)
        if written and value is not ABSENT:
            return value
        self.world.claim(frame.globals, frame.globals)
        if name in frame.globals and not written:
            return self.wrapping.read(frame.globals[name], frame.globals_source.item(name))
        if not written:
            self.world.guard("LACKS", frame.globals_source, name)
        scope = frame.globals.get("__builtins__", __builtins__)
        scope = scope if has_type(scope, dict) else scope.__dict__
        if scope is not builtins.__dict__:
            raise Break("unknown-globals", seen=f"{name}, from custom __builtins__")
        if name not in scope:
            self.world.guard("LACKS", module("builtins"), name)
            raise self.fail(NameError(f"name '{name}' is not defined", name=name))
        return self.wrapping.wrap(scope[name], builtin(name))

    def write_global(self, frame: Frame, name: str, value: Any) -> None:
        self.world.claim(frame.globals, frame.globals)
        if value is ABSENT:
            written, old = self.world.written(frame.globals, name)
            if (written and old is ABSENT) or (not written and name not in frame.globals):
                raise self.fail(NameError(f"name '{name}' is not defined", name=name))
            if not written:
                self.world.guard("HAS", frame.globals_source, name)
        self.world.write(frame.globals, "item", frame.globals_source, name, value)

    def first_argument(self, frame: Frame) -> Any:
        """What zero-argument `super()` takes for the receiver."""
        if not frame.code.co_argcount:
            raise self.fail(RuntimeError("super(): no arguments"))
        name = frame.code.co_varnames[0]
        content = ABSENT
        if name in frame.cells:
            content = self.cell_content(frame.cells[name])
        elif name in frame.locals:
            content = self.read_local(frame, name)
        if content is ABSENT:
            raise self.fail(RuntimeError("super(): arg[0] deleted"))
        return self.machine.parts.open(content)


def unbound(frame: Frame, name: str) -> NameError:
    if name in frame.code.co_freevars:
        text = (
            f"cannot access free variable '{name}' where it is not associated with a value in enclosing scope"
        )
        return NameError(text)
    return UnboundLocalError(f"cannot access local variable '{name}' where it is not associated with a value")
