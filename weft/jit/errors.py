"""Source ranges of scripted code, and the errors that point at them.

Takes sources of functions; gives ranges of text and the errors that point at them. One idea: a range knows
its source, so that an error needs only a message and a range.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from typing import Any, NoReturn

from weft.core.collection import parsed
from weft.core.interrupts import let_through


class Error(RuntimeError):
    """What scripted code raises while it runs, by `raise` or `assert`."""


class FrontendError(RuntimeError):
    """A mistake in the text of scripted code."""


class NotSupportedError(FrontendError):
    """Scripted code does not support this form of Python."""


class UnsupportedNodeError(NotSupportedError):
    """Scripted code does not support this kind of statement or expression."""


class Source:
    """The text of one function: its file, the number of its first line and how far it was indented."""

    def __init__(self, text: str, file: str, line: int) -> None:
        self.original = text
        self.text = textwrap.dedent(text)
        first = text.splitlines()[0] if text else ""
        self.indent = len(first) - len(first.lstrip())
        self.file, self.line = file, line
        self.lines = self.text.splitlines()

    def range(self, node: Any) -> Range:
        """Where a node of the syntax tree stands."""
        line, column = getattr(node, "lineno", 1), getattr(node, "col_offset", 0)
        end_line = getattr(node, "end_lineno", None) or line
        end = getattr(node, "end_col_offset", None)
        return Range(self, line, column, end_line, column + 1 if end is None else end)


class Range:
    """A piece of a source."""

    __slots__ = ("source", "line", "column", "end_line", "end_column")

    def __init__(self, source: Source, line: int, column: int, end_line: int, end_column: int) -> None:
        self.source, self.line, self.column = source, line, column
        self.end_line, self.end_column = end_line, end_column

    @property
    def place(self) -> str:
        """`file:line:column`, as graphs print it."""
        return f"{self.source.file}:{self.source.line + self.line - 1}:{self.column + self.source.indent}"

    def highlight(self) -> str:
        """The lines around, the piece underlined and pointed at."""
        lines = self.source.lines
        first, last = max(1, self.line - 3), min(len(lines), self.end_line + 3)
        shown = [f'  File "{self.source.file}", line {self.source.line + self.line - 1}']
        for number in range(first, last + 1):
            text = lines[number - 1]
            shown.append(" " * self.source.indent + text if text.strip() else text)
            if self.line <= number <= self.end_line:
                start = self.column if number == self.line else len(text) - len(text.lstrip())
                end = self.end_column if number == self.end_line else len(text)
                if end > start:
                    mark = " " * (start + self.source.indent) + "~" * (end - start)
                    shown.append(mark + (" <--- HERE" if number == self.end_line else ""))
        return "\n".join(shown)


def fail(message: str, where: Range | None = None, kind: type[Exception] = RuntimeError) -> NoReturn:
    """Raises the error at a piece of source."""
    if where is None:
        raise kind(message)
    raise kind(f"\n{message}:\n{where.highlight()}\n")


def parse(function: Any) -> tuple[ast.FunctionDef, Source]:
    """The syntax tree of a function, and its source."""
    try:
        lines, first = inspect.getsourcelines(function)
        file = inspect.getsourcefile(function) or "<unknown>"
    except (OSError, TypeError) as error:
        let_through(error)
        raise OSError(
            f"Can't get source for {function}. TorchScript requires source access in order to carry out "
            "compilation, make sure original .py files are available."
        ) from error
    source = Source("".join(lines), file, first)
    try:
        tree = parsed(source.text)
    except SyntaxError as error:
        raise RuntimeError(f"Expected a single top-level function: {file}:{first}") from error
    found = tree.body[0] if len(tree.body) == 1 else None
    if not isinstance(found, ast.FunctionDef):
        lambdas = [node for node in ast.walk(tree) if isinstance(node, ast.Lambda)]
        if len(lambdas) == 1:
            return _as_function(lambdas[0]), source
        raise RuntimeError(f"Expected a single top-level function: {file}:{first}")
    return found, source


def _as_function(node: ast.Lambda) -> ast.FunctionDef:
    """A lambda as a function that returns its body."""
    returned = ast.copy_location(ast.Return(node.body), node.body)
    made = ast.FunctionDef("<lambda>", node.args, [returned], [], None)
    return ast.copy_location(made, node)
