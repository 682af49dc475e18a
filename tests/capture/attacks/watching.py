"""What one call shows to whoever makes it: result or error, text, warnings, and the modes that it leaves.

One idea: an error is told with its whole chain and with the user's own lines of each traceback.
"""

from __future__ import annotations

import contextlib
import io
import traceback
import warnings
from collections.abc import Callable
from typing import Any

import weft


def watch(function: Callable[..., Any], *args: Any, **kwargs: Any) -> dict[str, Any]:
    """Calls the function and tells what there is to see."""
    text, seen = io.StringIO(), {}
    with warnings.catch_warnings(record=True) as caught, contextlib.redirect_stdout(text):
        warnings.simplefilter("always")
        try:
            seen["result"] = function(*args, **kwargs)
        except (weft.compiler.CompilerError, weft.compiler.Unsupported):
            raise
        except BaseException as error:
            seen["error"] = told(error)
    seen["text"] = text.getvalue()
    seen["warnings"] = [(each.category, str(each.message), each.filename, each.lineno) for each in caught]
    seen["grad"] = weft.is_grad_enabled()
    seen["arguments"] = [args, kwargs]
    return seen


def told(error: BaseException | None, depth: int = 0) -> Any:
    """The error with its notes, what led to it, and the lines of this folder's files that it went through."""
    if error is None or depth > 8:
        return None
    lines = [
        (frame.f_code.co_name, line)
        for frame, line in traceback.walk_tb(error.__traceback__)
        if "/attacks/test_" in frame.f_code.co_filename
    ]
    return {
        "class": type(error).__qualname__,
        "args": error.args,
        "text": str(error),
        "notes": getattr(error, "__notes__", []),
        "lines": lines,
        "cause": told(error.__cause__, depth + 1),
        "context": told(error.__context__, depth + 1),
        "suppressed": error.__suppress_context__,
    }
