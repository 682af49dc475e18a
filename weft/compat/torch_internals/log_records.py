"""Logs in tests: `make_logging_test(graph=True)` gives the test the records that it makes."""

from __future__ import annotations

import contextlib
import functools
import io
import logging
from collections.abc import Callable, Iterator
from typing import Any

from weft.core.logs import ROOT, set_logs
from weft.core.logs import TOPICS as KNOWN
from weft.testing.cases import TestCase
from weft.testing.cases import run_tests as run_tests


class Records(logging.Handler):
    """Keeps what is logged."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


@contextlib.contextmanager
def recorded() -> Iterator[list[logging.LogRecord]]:
    """What is logged by the compiler meanwhile."""
    handler = Records()
    logger = logging.getLogger(ROOT)
    logger.addHandler(handler)
    try:
        yield handler.records
    finally:
        logger.removeHandler(handler)


def make_logging_test(**topics: Any) -> Callable[[Any], Any]:
    """Decorator: the test gets the records of these topics."""

    def decorator(test: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(test)
        def run(self: Any) -> Any:
            names = [name for name, wanted in topics.items() if wanted]
            try:
                set_logs(*names)
            except (TypeError, ValueError, KeyError):
                self.skipTest(f"Weft has no log topics {names}")
            try:
                with recorded() as records:
                    return test(self, records)
            finally:
                set_logs()

        return run

    return decorator


def make_settings_test(settings: str) -> Callable[[Any], Any]:
    """Decorator: the test gets the records of the topics in this text."""
    names = [word.strip("+- ") for word in settings.split(",") if word.strip("+- ")]
    return make_logging_test(**dict.fromkeys(names, True))


@contextlib.contextmanager
def log_settings(settings: str) -> Iterator[None]:
    """Topics for a while."""
    set_logs(*(word.strip("+- ") for word in settings.split(",") if word.strip("+- ")))
    try:
        yield
    finally:
        set_logs()


TOPICS = {"graph_code": "graph", "aot_graphs": "graph", "graph_breaks": "breaks", "bytecode": "source"}
"""Weft's topics under PyTorch's names."""


def set_logs_by_name(**topics: Any) -> None:
    """PyTorch's form of `set_logs`: `set_logs(graph_breaks=True)`. Topics that Weft has not say nothing."""
    wanted = [TOPICS.get(name, name) for name, level in topics.items() if level]
    set_logs(*[name for name in wanted if name in KNOWN])


def logs_to_string(module: str, log_option: str) -> tuple[io.StringIO, Callable[[], Any]]:
    """A stream, and what makes a context during which a topic of the logs is written to it."""
    stream = io.StringIO()

    @contextlib.contextmanager
    def context() -> Iterator[None]:
        topic = TOPICS.get(log_option, log_option)
        with contextlib.suppress(ValueError):
            set_logs(topic)
        try:
            with recorded() as records:
                yield
        finally:
            set_logs()
        stream.write("".join(f"{record.getMessage()}\n" for record in records))

    return stream, context


def multiple_logs_to_string(module: str, *log_options: str) -> tuple[list[io.StringIO], Callable[[], Any]]:
    """Streams, and what makes a context during which each topic is written to its stream."""
    made = [logs_to_string(module, option) for option in log_options]

    @contextlib.contextmanager
    def context() -> Iterator[None]:
        with contextlib.ExitStack() as stack:
            for _, one in made:
                stack.enter_context(one())
            yield

    return [stream for stream, _ in made], context


class LoggingTestCase(TestCase):
    """A test case that looks at logs."""

    def getRecord(self, records: list[logging.LogRecord], text: str) -> logging.LogRecord:
        """The one record with this text."""
        found = [record for record in records if text in record.getMessage()]
        self.assertEqual(len(found), 1)
        return found[0]
