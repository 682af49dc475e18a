"""Origins: whose code a frame runs.

Takes a frame; says whether a line of the package's stands there, or of what it stands on. One idea: what a
user has written is in no file of ours, and in no module of Python's own.
"""

from __future__ import annotations

import os
import sys
from types import FrameType
from typing import Final

PACKAGE: Final = f"{os.path.dirname(os.path.dirname(os.path.abspath(__file__)))}{os.sep}"
GRAPH: Final = "weft-graph"
"""How files of code begin that runs graphs. No angle brackets: linecache would not ask for its text."""
FILES: Final = (PACKAGE, "<weft", GRAPH)
"""How files of code begin that is ours, or that we have made."""
ENTRY: Final = "_v_function"
"""The first parameter of entries, which bear the file and the name of the user's function."""
OURS: Final = sys.stdlib_module_names | {"weft", "numpy", "scipy", "ml_dtypes", "llvmlite", "cupy"}
HANDED: Final = 3
"""As many arguments do trace functions get."""


def is_ours(frame: FrameType) -> bool:
    """Whether it runs code of the package, that the package has made, or that it stands on."""
    file = frame.f_code.co_filename
    if file.startswith(FILES):
        return True
    return str(frame.f_globals.get("__name__")).partition(".")[0] in OURS


def is_entry(frame: FrameType) -> bool:
    """Whether it runs an entry: lines of ours in the user's name."""
    return frame.f_code.co_varnames[:1] == (ENTRY,)


def is_tracing(frame: FrameType) -> bool:
    """Whether it is that of a function that debuggers, coverage or profilers have called in between: with
    (frame, event, value), perhaps behind `self`.
    """
    code = frame.f_code
    if code.co_argcount not in (HANDED, HANDED + 1):
        return False
    given = [frame.f_locals.get(name) for name in code.co_varnames[: code.co_argcount]]
    return any(isinstance(each, FrameType) for each in given) and any(isinstance(each, str) for each in given)
