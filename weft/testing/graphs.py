"""Texts of graphs, made comparable."""

from __future__ import annotations

import re


def normalize_gm(text: str) -> str:
    """A printed graph module without lines of comment (they name files), trailing and double blanks."""
    without_comments = re.sub(r"(?m)^ *#.*\n?", "", text)
    without_spaces = re.sub(r"(?m)[ \t]+$", "", without_comments)
    return re.sub(r"\n{3,}", "\n\n", without_spaces)
