"""Reports: what was compiled, as one page that needs no network.

    with weft.report.observe() as seen:
        train()
    weft.report.save(seen, "report.html")

One idea: the compiler tells observers what it makes (`weft.core.logs.tell`); a report is that, read.
"""

from __future__ import annotations

from weft.report.observing import Observed as Observed
from weft.report.observing import observe as observe
from weft.report.page import render as render
from weft.report.page import save as save

__all__ = ["Observed", "observe", "render", "save"]
