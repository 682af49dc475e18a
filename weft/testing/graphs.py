"""Texts of graphs, made comparable.

Takes printed graph modules; gives them without what tells nothing: comments (they name files), blanks, what
is freed where, and how sub-graphs are called.
"""

from __future__ import annotations

import re

__all__ = ["normalize_gm"]


def normalize_gm(text: str) -> str:
    """A printed graph module without lines of comment (they name files), trailing and double blanks."""
    without_comments = re.sub(r"(?m)^ *#.*\n?", "", text)
    without_spaces = re.sub(r"(?m)[ \t]+$", "", without_comments)
    return re.sub(r"\n{3,}", "\n\n", without_spaces)


_RELEASE = re.compile(r"(?m)(?:^|;)[ \t]*(?:\w+ = )+None[ \t]*(?=;|$)")
_NESTED = re.compile(r"(?m)^([ \t]+)class \w+\(")
_MODULE = re.compile(r"(?m)^\s*class \w+\((?:torch|weft)\.nn\.Module\):")


def is_graph_text(text: str) -> bool:
    """Whether a text is a printed graph module."""
    return _MODULE.match(text) is not None


def bare_graph(text: str) -> str:
    """A printed graph module without comments, blanks, `;`, releases (`x = None`) and names of sub-graphs."""
    plain = _NESTED.sub(r"\1class GraphModule(", _RELEASE.sub("", normalize_gm(text)))
    return re.sub(r"[\s;]+", "", plain)
