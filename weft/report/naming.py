"""Naming: what the inputs of a graph are called by those who wrote the program.

Takes guards, which know where each input comes from; gives names for readers. One idea: a source is printed
as Python (`F.__closure__[0].cell_contents._modules['body']._parameters['weight']`), and a few rules make of
it what the user would write (`model.body.weight`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from types import CodeType
from typing import Any

RULES = [
    (re.compile(r"\b[LG]\['(\w+)'\]"), r"\1"),  # a parameter, a global
    (re.compile(r"\bM\['[\w.]+'\]\['(\w+)'\]"), r"\1"),  # a global of another module
    (re.compile(r"\._(?:modules|parameters|buffers)\['([\w.]+)'\]"), r".\1"),
    (re.compile(r"\.__dict__\['(\w+)'\]"), r".\1"),
    (re.compile(r"\blist\(([\w.\[\]']+)\.values\(\)\)\["), r"\1["),  # an optimizer's state, by position
]
CLOSED = re.compile(r"\bF\.__closure__\[(\d+)\]\.cell_contents")


def names_of_inputs(guards: Iterable[Any], code: CodeType) -> dict[str, str]:
    """For each name of a graph's input, what the user would write for it."""
    sources = (guard.source for guard in guards if guard.source is not None)
    return {source.placeholder_name(): written(str(source), code) for source in sources}


def written(source: str, code: CodeType) -> str:
    """A source as the function with this code would write it."""

    def variable(found: re.Match[str]) -> str:
        number = int(found[1])
        return code.co_freevars[number] if number < len(code.co_freevars) else found[0]

    text = CLOSED.sub(variable, source)
    for pattern, replacement in RULES:
        text = pattern.sub(replacement, text)
    return text
