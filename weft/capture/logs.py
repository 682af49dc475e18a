"""Warnings of the compiler: at the user's own line, and none while capturing.

Takes texts; gives warnings. What the compiler logs goes through `weft.core.logs`. One idea: code that is
being captured will run again, and will warn then.
"""

from __future__ import annotations

import os
import sys
import warnings
from types import FrameType
from typing import Final

from weft.core import modes
from weft.core.seams import seams
from weft.core.warn import warn
from weft.tensor.meta import recorder_of
from weft.trace.op_recorder import OpRecorder

PACKAGE: Final = f"{os.path.dirname(os.path.dirname(os.path.abspath(__file__)))}{os.sep}"


COMMANDS: Final = f"{PACKAGE}cli{os.sep}"
"""Whose programs are written as users write theirs."""


def is_ours(file: str) -> bool:
    """Whether code of this file is the library's own."""
    return file.startswith(PACKAGE) and not file.startswith(COMMANDS)


def warn_user(text: str) -> None:
    """Warns of something at the line of the user's that led to it."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith((PACKAGE, "<weft")):
        frame = frame.f_back
    if frame is None:
        warnings.warn(text, RuntimeWarning, stacklevel=2)
        return
    space = frame.f_globals
    registry = space.setdefault("__warningregistry__", {})
    place = frame.f_code.co_filename, frame.f_lineno
    warnings.warn_explicit(text, RuntimeWarning, *place, space.get("__name__"), registry)


def recorded(text: str, category: str) -> bool:
    """What library code is about to warn of, while a graph is recorded: calls that stand in the graph as they
    are will warn when it runs; of those that were taken apart nothing would be left that does.
    """
    recorder = recorder_of(modes.current())
    if recorder is None:
        return False
    if isinstance(recorder, OpRecorder) and recorder in modes.modes().functions:
        recorder.append(("call_function", warn, False), (text, category), {}, None)
    else:
        recorder.warnings.append((text, category))
    return True


seams.warned = recorded
