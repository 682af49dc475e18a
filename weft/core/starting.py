"""Starting: what an interrupt does while the command is still being imported.

Takes nothing; sets a handler of signals. One idea: `import weft` comes before any line of the command, so the
package calls this first of all where it is imported by the command; an interrupt then ends the process with
one line, as it does later, when `main` has taken over.
"""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType

INTERRUPTED = 130
MESSAGE = "weft: interrupted\n"


def is_command() -> bool:
    """Whether this process was started as `weft` or as `python -m weft`."""
    name = sys.argv[0] if sys.argv else ""
    if name == "-m":  # what stands there until the module has been found
        return "weft" in sys.orig_argv and sys.orig_argv[sys.orig_argv.index("weft") - 1] == "-m"
    return os.path.basename(name) in ("weft", "weft.exe")


def end(_number: int, _frame: FrameType | None) -> None:
    """An interrupt when no one could catch an exception, or when nothing is left to be done."""
    os.write(2, MESSAGE.encode())
    os._exit(INTERRUPTED)


def answer_interrupts() -> None:
    """An interrupt ends the process, from now on; where interrupts are ignored, they stay so."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, end)


def raise_interrupts() -> bool:
    """An interrupt raises KeyboardInterrupt again. Gives whether it has ended the process before."""
    ended = signal.getsignal(signal.SIGINT) is end
    if ended:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    return ended
