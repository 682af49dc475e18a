"""Results that come later: from another thread, with errors, several together."""

from __future__ import annotations

from threading import Thread
from typing import Any

import pytest

from weft.utils import futures


def test_results() -> None:
    first: futures.Future[Any] = futures.Future()
    seen: list[Any] = []
    first.add_done_callback(lambda done: seen.append(done.value()))
    second = first.then(lambda done: done.value() * 2)
    with pytest.raises(RuntimeError, match="not been completed"):
        first.value()
    thread = Thread(target=first.set_result, args=(3,))
    thread.start()
    assert second.wait() == 6 and first.done() and seen == [3]
    thread.join()
    with pytest.raises(RuntimeError, match="complete again"):
        first.set_result(4)


def test_errors() -> None:
    first: futures.Future[Any] = futures.Future()
    second = first.then(lambda done: done.wait())
    first.set_exception(KeyError("x"))
    with pytest.raises(KeyError):
        second.wait()
    with pytest.raises(KeyError):
        futures.wait_all([first, second])
    with pytest.raises(AssertionError, match="not an Exception"):
        futures.Future().set_exception("text")  # type: ignore[arg-type]
    assert futures.collect_all([]).wait() == []
