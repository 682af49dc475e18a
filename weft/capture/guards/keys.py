"""The keys of dicts, compared exactly and in order.

Takes a dict and the keys that were seen; says whether they are the same, or gives the text that does. One
idea: types are compared before keys are, so no key of a user's is asked.
"""

from __future__ import annotations

import operator
from typing import Any

from weft.capture.plain import identical
from weft.capture.reading import Reader
from weft.capture.sources import safe_iter


def same_keys(mapping: Any, keys: tuple[Any, ...]) -> bool:
    """Whether these are the dict's keys, exactly and in order."""
    found = list(safe_iter(mapping))
    return len(found) == len(keys) and all(map(identical, found, keys))


def other_keys(reader: Reader, name: str, keys: tuple[Any, ...]) -> str:
    """Of a dict of the right length: keys are mostly the very objects seen before, which C code can tell."""
    all_, map_, is_ = (
        reader.constant(all, "all"),
        reader.constant(map, "map"),
        reader.constant(operator.is_, "is"),
    )
    expected = reader.bind(keys, "keys")
    slow = f"{reader.constant(same_keys, 'same_keys')}({name}, {expected})"
    return f"not ({all_}({map_}({is_}, {name}, {expected})) or {slow})"
