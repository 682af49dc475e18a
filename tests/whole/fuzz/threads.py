"""Native programs on one thread and on two: the same bits.

Takes nothing; makes small programs be cut into chunks as large ones are, and chunks be shared as soon as
there are two. One idea: threads that share little work rarely meet, so shared chunks are also taken from the
last to the first: what depends on their order differs, whoever runs them.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from unittest import mock

import weft
from weft.native.cpu import conv, conv_weight, copy_operands, pool, pool_text, scatter, steps
from weft.native.lower import folds as lower_folds
from weft.native.plan import order as writes
from weft.native.plan import work

CHUNK = 20
"""About how many ns of work a chunk is."""
SMALL = {
    **{(module, "CHUNK"): CHUNK for module in (work, conv, conv_weight, steps, scatter, copy_operands)},
    (work, "LEAST_ROWS"): 1,
    (work, "LEAST_COLUMNS"): 1,
    (lower_folds, "PART"): 2,
    (lower_folds, "LEAST_COLUMNS"): 1,
    (writes, "LEAST_BUNCH"): 1,
    (writes, "BUNCH_CHUNK"): CHUNK,
}
TURNED = {
    "WORTH_SHARING": 1,
    "WORTH_WAKING": 1,
    "taken": lambda w, _chunks, left: w.sub(left, 1),
}
"""What is changed in the text of the pool: all work is shared, and the last chunk is taken first."""


@contextlib.contextmanager
def cut_small() -> Iterator[None]:
    """Cuts all work into small chunks, meanwhile, and shares it. Programs are kept on disk apart from others:
    their chunks are.
    """
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="weft-fuzz-"))
        stack.enter_context(mock.patch.dict(os.environ, {"WEFT_CACHE_DIR": folder}))
        for (module, name), value in SMALL.items():
            stack.enter_context(mock.patch.object(module, name, value))
        for name, turned in TURNED.items():
            stack.enter_context(mock.patch.object(pool_text, name, turned))
        before = list(pool._pool)
        pool._pool.clear()
        weft.compiler.reset()
        try:
            yield
        finally:
            for each in pool._pool:
                each.close()
            pool._pool[:] = before
            weft.compiler.reset()


@contextlib.contextmanager
def threads(number: int) -> Iterator[None]:
    """So many threads, meanwhile."""
    before = weft.get_num_threads()
    weft.set_num_threads(number)
    try:
        yield
    finally:
        weft.set_num_threads(before)


def forget() -> None:
    """What has run until now is not asked for by `were_asked_for`."""
    for each in pool._pool:
        if each.started:
            each.started = False
            pool._living.remove(each)


def were_asked_for() -> bool:
    """Whether a program had chunks to share since `forget`. What has none does the same on any number."""
    return any(each.started for each in pool._pool)
