"""The one way a command says that its user must do something: an error that is shown without a traceback."""

from __future__ import annotations


class CommandError(Exception):
    """What went wrong and what to try, in one or two sentences that follow `weft: `."""
