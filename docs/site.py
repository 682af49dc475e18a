"""The pages of the site that are made when it is built: the reference, and the tour.

`mkdocs.yml` names this file as a hook. The reference is made by `docs/reference.py`, the tour of
`docs/tour.py`.
"""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File
from mkdocs.utils import get_relative_url
from reference import MODULES, index_page, page, public_names

HERE = Path(__file__).resolve().parent
ELSEWHERE = "https://unpkg.com/iframe-worker/shim"


def on_files(files: Any, config: Any) -> Any:
    """Adds the generated pages: MkDocs calls this once it knows the others."""
    entries = {module: list(public_names(module)) for module in MODULES}
    for group in entries.values():
        for entry in group:
            files.append(File.generated(config, entry.path, content=page(entry)))
    files.append(File.generated(config, "reference/index.md", content=index_page(entries)))
    files.append(File.generated(config, "internals/tour.md", content=tour_page()))
    return files


def on_post_page(output: str, page: Any, config: Any) -> str:
    """Replaces the theme's script for searching files, which it would load from elsewhere, by one of ours."""
    return output.replace(ELSEWHERE, get_relative_url("assets/frame_worker.js", page.url))


# -- the tour ------------------------------------------------------------------------------------------------
def tour_page() -> str:
    """`docs/tour.py` as a chapter: titles and comments at the margin are prose, the rest is code."""
    source = (HERE / "tour.py").read_text(encoding="utf-8")
    lines = ["# The system, rebuilt small", "", inspect.cleandoc(source.split('"""')[1]), ""]
    code: list[str] = []

    def close() -> None:
        text = "\n".join(code).strip("\n")
        if text:
            lines.extend(["```python", text, "```", ""])
        code.clear()

    for line in source.split('"""', 2)[2].splitlines():
        title = re.match(r"# -- (.*?) -*$", line)
        if title:
            close()
            lines.extend([f"## {title[1]}", ""])
        elif line.startswith("# ") or line == "#":
            close()
            if lines[-1] == "" and len(lines) > 1 and not lines[-2].startswith(("#", "```")):
                lines.pop()
            lines.extend([line[2:], ""])
        else:
            code.append(line)
    close()
    return "\n".join(lines)
