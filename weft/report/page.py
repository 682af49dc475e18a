"""The page: facts as one file of HTML.

Takes an `Observed` or its facts; gives text. One idea: style, script and data stand in the page itself, so it
can be sent, kept and opened with no network; the script draws what the data says.
"""

from __future__ import annotations

import html
import json
import os
from importlib import resources
from typing import Any

from weft.report.facts import facts_of
from weft.report.observing import Observed
from weft.report.sums import Facts


def render(seen: Observed | Facts) -> str:
    """The report as HTML."""
    facts = seen if isinstance(seen, dict) else facts_of(seen)
    parts = {name: _part(name) for name in ("page.css", "page.js")}
    # `<` would let a text of the user's (say "</script>") end the element that the data stands in
    data = json.dumps(facts, separators=(",", ":")).replace("<", "\\u003c")
    filled = {
        "@title@": html.escape(str(facts["title"])),
        "@style@": parts["page.css"],
        "@data@": data,
        "@script@": parts["page.js"],
    }
    pieces = []
    rest = _part("page.html")
    for mark, text in filled.items():  # in the order in which they stand; what is filled in is not searched
        before, _, rest = rest.partition(mark)
        pieces += [before, text]
    return "".join([*pieces, rest])


def save(seen: Observed | Facts, path: str | os.PathLike[str]) -> None:
    """Writes the report to a file."""
    with open(path, "w", encoding="utf-8") as file:
        file.write(render(seen))


def _part(name: str) -> str:
    return resources.files("weft.report").joinpath(name).read_text(encoding="utf-8")


def embedded(seen: Observed | Facts, height: int = 640) -> Any:
    """The report for a notebook's cell: in a frame of its own, so that its style stays inside."""
    return (
        f'<iframe srcdoc="{html.escape(render(seen))}" title="Weft report" '
        f'style="width:100%;height:{height}px;border:1px solid #8886;border-radius:6px"></iframe>'
    )
