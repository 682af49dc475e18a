"""Context variables that are set for the length of a block.

Takes variables and values; gives a context manager. One idea: an interrupt may strike after any call, so
values are set inside the block that takes them back, and all of them are taken back by one call.

# Note [Blocks that an interrupt leaves]
    with set_to((state, False)): ...     an interrupt strikes in `contextlib`, as the block is entered or left
The generator below is then closed when the exception is let go of: blocks around it have taken their own
values back long before, and another context or thread may be the one that runs. So a block takes its values
back only where it, and no block around it, has not done so yet. Where that is too late, as in each call of
compiled code, a `try` stands in place of a block: nothing of Python's comes between.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import chain, repeat, starmap
from operator import contains
from typing import Any, Final

_blocks: Final[ContextVar[tuple[object, ...]]] = ContextVar("weft_blocks", default=())
"""Marks of the blocks that this context is in."""


@contextmanager
def set_to(*pairs: tuple[ContextVar[Any], Any]) -> Iterator[None]:
    """Variables, which have values or defaults, have these values meanwhile."""
    mark = object()
    pairs = ((_blocks, (*_blocks.get(), mark)), *pairs)
    before = {True: [(variable, variable.get()) for variable, _ in pairs], False: []}
    is_inside = map(contains, starmap(_blocks.get, [()]), repeat(mark))  # asked when it is taken back
    take_back = starmap(ContextVar.set, chain.from_iterable(map(before.__getitem__, is_inside)))
    try:
        list(starmap(ContextVar.set, pairs))
        yield
    finally:
        list(take_back)
