"""Names that are both a function and a package: the function is what users find."""

from __future__ import annotations

import subprocess
import sys


def test_the_package_trace_does_not_hide_the_function() -> None:
    """In an interpreter of its own, where nothing has been imported yet."""
    source = (
        "import weft, weft.trace.make_fx, weft.compiler\n"
        "assert weft.trace(weft.ones(2, 2)).item() == 2\n"
        "assert weft.trace.__name__ == 'trace' and weft.compile is not weft.compiler\n"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", source], check=True)
