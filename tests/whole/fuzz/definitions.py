"""What a definition of a random program is: pieces of text, and what each piece makes possible.

Takes nothing; gives Piece and Definition, of which classes.py and functions.py are full. One idea: a
piece (one method, say) carries the expressions and statements that use it, so a program never asks for
what was left out.

Note [Pieces]
A line `#: int:self.n V:self.t` says what is in scope from there on, for the holes that follow; it is not
written to the program. For holes see Note [Holes] in grammar.py.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Piece:
    """Some lines of a definition; `gives` are expressions by type, `does` are statements, that need them."""

    text: str
    gives: dict[str, list[str]] = field(default_factory=dict)
    does: tuple[str, ...] = ()


@dataclass(frozen=True)
class Definition:
    """A class or function: `first` always, `others` by chance; `needs` are definitions before it."""

    first: Piece
    others: tuple[Piece, ...] = ()
    needs: tuple[str, ...] = ()
    state: tuple[str, ...] = ()
    """Module-level lines made for it: `NAME: type = text` puts NAME in every scope."""
