"""Frames: the state of one interpreted function, as CPython's frame objects hold it."""

from __future__ import annotations

from types import CellType, CodeType, FunctionType
from typing import Any

from weft.capture.bytecode.instructions import Bytecode, Instruction, decode
from weft.capture.sources import Source

NULL: Any = type("Null", (), {"__repr__": lambda self: "<NULL>", "__slots__": ()})()
"""The stack slot that calls without a `self` leave empty."""


class PreviousException:
    """The stack slot under a handler: what was being handled before, and what is handled now."""

    __slots__ = ("previous", "current")

    def __init__(self, previous: BaseException | None, current: BaseException) -> None:
        self.previous, self.current = previous, current


class Unread:
    """An argument of the root frame that nothing has looked at yet: no guard stands for it."""

    __slots__ = ("source", "value")

    def __init__(self, value: Any, source: Source) -> None:
        self.value, self.source = value, source


class Frame:
    """One interpreted call: code, variables, value stack and the place in the code."""

    __slots__ = (
        "awaits", "bytecode", "cells", "closure", "code", "current", "function", "globals", "globals_source",
        "handled", "index", "instruction", "lazy", "locals", "parent", "stack", "steps",
    )  # fmt: skip

    def __init__(
        self,
        code: CodeType,
        globals_: dict[str, Any],
        globals_source: Source,
        function: FunctionType | None,
        parent: Frame | None,
    ) -> None:
        self.code = code
        self.bytecode: Bytecode = decode(code)
        self.globals = globals_
        self.globals_source = globals_source
        self.function = function
        self.parent = parent
        self.locals: dict[str, Any] = {}
        self.cells: dict[str, CellType] = {}
        """Of cell and free variables alike: real cells; those that existed before are in `World.known`."""
        self.stack: list[Any] = []
        self.index = 0
        self.instruction: Instruction = self.bytecode.instructions[0]
        self.handled: BaseException | None = None
        """The exception being handled in this frame, as `sys.exc_info` would say."""
        self.steps = 0
        self.awaits: CodeType | None = None
        """What the current call runs first, whose result it pushes as it is."""
        self.lazy = False
        """Whether values that nothing has read yet lie on the stack."""

    @property
    def root(self) -> Frame:
        frame = self
        while frame.parent is not None:
            frame = frame.parent
        return frame

    def forget(self) -> None:
        """Lets go of all values."""
        self.locals.clear()
        self.cells.clear()
        self.stack.clear()
        self.handled = None

    def place(self) -> tuple[str, int, str]:
        """File, line and function now."""
        line = self.instruction.line or self.code.co_firstlineno
        return self.code.co_filename, line, self.code.co_name
