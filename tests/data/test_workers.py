"""Workers, and what interrupts whoever waits for them."""

from __future__ import annotations

import signal
import sys
from typing import Any

import pytest

from weft.data import DataLoader


@pytest.mark.parametrize("name", ["recv_bytes", "send_bytes"])
@pytest.mark.parametrize("kind", [TimeoutError, EOFError, BrokenPipeError])
def test_what_a_handler_raises_is_no_death_of_a_worker(name: str, kind: type[BaseException]) -> None:
    def handle(_number: int, _frame: Any) -> None:
        raise kind("from a handler")

    def profile(frame: Any, event: str, _value: Any) -> None:
        if event == "call" and frame.f_code.co_name == name and "connection" in frame.f_code.co_filename:
            sys.setprofile(None)
            signal.raise_signal(signal.SIGUSR1)

    before = signal.signal(signal.SIGUSR1, handle)
    batches = iter(DataLoader(list(range(8)), num_workers=1))
    try:
        next(batches)
        sys.setprofile(profile)
        with pytest.raises(kind, match="from a handler"):
            list(batches)
    finally:
        sys.setprofile(None)
        signal.signal(signal.SIGUSR1, before)
        del batches
