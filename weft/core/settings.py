"""Process-wide settings, at most fifteen; each with what it does and its default."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar


@dataclass
class Settings:
    """The settings as they stand; assign to change them."""

    strict: bool = False
    """Turn every silent fallback into an error: a looped batch rule, a function that runs uncompiled because
    capture failed or because it was compiled too often, a graph or a call of one that runs op by op. So is a
    program that is built for the third value of the same number, size or object within a hundred calls."""
    verify: bool = False
    """Capture again on each call that an entry serves, and compare graph and guards with the entry's."""
    recompile_limit: int = 8
    """How often one function is compiled (per `weft.compile`) before its original runs instead."""
    compiled_autograd: bool = False
    """Hand every backward to compiled autograd, with graphs compiled as `weft.compile` compiles by default.
    """

    nan_trace: bool = os.environ.get("WEFT_NAN_TRACE", "0") not in ("", "0")
    """Run native programs step by step, and warn of the first op that makes NaN or an infinity from finite
    operands, with the user's line. `WEFT_NAN_TRACE=1` turns it on from the start."""
    debug: str = os.environ.get("WEFT_DEBUG", "")
    """With "step", compiled graphs run op by op instead of as machine code, and each op is printed, with the
    user's line, on standard error. `WEFT_DEBUG` sets it from the start."""

    tiers: str = os.environ.get("WEFT_TIERS", "auto")
    """Tiers of compilation: with "auto", functions whose work is small beside the cost of optimising them are
    compiled at LLVM's level 0 first, and at level 2 in the background once they are called twice; with
    "smooth", native entries are made in the background and in slices behind calls, too, so that no call
    waits, and full speed comes some tenths of a second later (else they are made in the second call); with
    "full", all are compiled at level 2 at once; with "draft", none ever is. Results are the same, bit by bit
    (but for the signs of NaNs). `WEFT_TIERS` sets it from the start."""

    progress: bool = os.environ.get("WEFT_PROGRESS", "1") != "0"
    """Whether long work, such as compiling for more than a second, says so in a line on the terminal, and
    takes it away again. Begins as the environment variable WEFT_PROGRESS says (`0`: never); nothing is ever
    written where stderr is not a terminal."""

    bitwise: bool = False
    """Compiled code gives eager's bits: what machine code would round otherwise (products, sums, functions)
    is left to eager's kernels, between pieces of machine code. Programs are made for single sizes."""

    watchers: ClassVar[list[Callable[[str], None]]] = []
    """Called with a setting's name after it was assigned: hot paths do not ask, they are told."""

    def __setattr__(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)
        for watcher in self.watchers:
            watcher(name)


settings = Settings()


def change_default(owner: Any, name: str, value: object) -> None:
    """Sets a default that all share, and tells its watchers; where one raises, all are told of the old one:
    some have heard of the new one, others not, and code of either kind would run."""
    before = getattr(owner, name)
    try:
        _tell(owner, name, value)
    except BaseException:
        _tell(owner, name, before)
        raise


def _tell(owner: Any, name: str, value: object) -> None:
    setattr(owner, name, value)
    for watcher in owner.watchers:
        watcher()
