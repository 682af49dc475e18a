"""Who listens to topics, asked in every compile."""

from __future__ import annotations

import logging
import threading

import pytest

import weft
from weft.core.logs import ROOT, TOPICS, is_heard, logger


def test_who_is_asked_takes_no_lock() -> None:
    """An interrupt in `logging.getLogger` may have left it to a thread that does not release it."""
    compiled, done = weft.compile(lambda x: x * 2 + 1, backend="aot_eager"), threading.Event()

    def there() -> None:
        logging.getLogger(f"{ROOT}.graph").setLevel(logging.NOTSET)  # forgets what levels it has compared
        logging._lock.acquire()  # type: ignore[attr-defined]
        taken.set()
        done.wait(20)
        logging._lock.release()  # type: ignore[attr-defined]

    taken = threading.Event()
    threads = [threading.Thread(target=there), threading.Thread(target=lambda: compiled(weft.ones(2)))]
    threads[0].start()
    assert taken.wait(10)
    threads[1].start()
    threads[1].join(10)
    stuck = threads[1].is_alive()
    done.set()
    for each in threads:
        each.join()
    assert not stuck


def test_topics_are_loggers_as_others_are(monkeypatch: pytest.MonkeyPatch) -> None:
    assert logger("graph") is logging.getLogger(f"{ROOT}.graph")
    assert not any(map(is_heard, TOPICS))
    parent = logging.getLogger(ROOT)
    monkeypatch.setattr(parent, "level", logging.DEBUG)
    assert all(map(is_heard, TOPICS))
    monkeypatch.setattr(logger("graph"), "disabled", True)
    monkeypatch.setattr(logger("guards"), "level", logging.INFO)
    assert [topic for topic in TOPICS if not is_heard(topic)] == ["graph", "guards"]
    monkeypatch.setattr(parent.manager, "disable", logging.DEBUG)
    assert not any(map(is_heard, TOPICS))
