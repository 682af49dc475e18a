"""Results that come later, as `torch.futures` has them: who waits gets the value or the error.

Takes nothing; gives `Future` objects that any thread may fulfil. One idea: they are those of Python's own
`concurrent.futures`, under PyTorch's names.
"""

from __future__ import annotations

import concurrent.futures as futures
from collections.abc import Callable
from typing import Any, Generic, TypeVar

__all__ = ["Future", "collect_all", "wait_all"]

T = TypeVar("T")


class Future(Generic[T]):
    """A result that comes later."""

    def __init__(self, *, devices: Any = None) -> None:
        self._inner: futures.Future[Any] = futures.Future()

    def done(self) -> bool:
        """Whether the result, or an error, is there."""
        return self._inner.done()

    def wait(self) -> T:
        """The result, when it is there; an error is raised."""
        found: T = self._inner.result()
        return found

    def value(self) -> T:
        """The result, which must be there."""
        if not self.done():
            raise RuntimeError("Future has not been completed: call wait() first")
        return self.wait()

    def set_result(self, result: T) -> None:
        """Gives the result; once."""
        if self.done():
            raise RuntimeError("Attempting to mark a completed Future as complete again.")
        self._inner.set_result(result)

    def set_exception(self, result: BaseException) -> None:
        """Gives an error instead of the result."""
        if not isinstance(result, Exception):
            raise AssertionError(f"{result} is of type {type(result)}, not an Exception.")
        self._inner.set_exception(result)

    def add_done_callback(self, callback: Callable[[Future[T]], None]) -> None:
        """Calls this with the future when it is done: at once where it is."""
        self._inner.add_done_callback(lambda _inner: callback(self))

    def then(self, callback: Callable[[Future[T]], Any]) -> Future[Any]:
        """A future of what the callback makes of this one when it is done."""
        made: Future[Any] = Future()

        def run(_inner: Any) -> None:
            try:
                made.set_result(callback(self))
            except Exception as error:
                made.set_exception(error)

        self._inner.add_done_callback(run)
        return made


def collect_all(futures: list[Future[Any]]) -> Future[list[Future[Any]]]:
    """A future of all of these, done when they are."""
    made: Future[list[Future[Any]]] = Future()
    left = [len(futures)]

    def note(_done: Future[Any]) -> None:
        left[0] -= 1
        if not left[0]:
            made.set_result(futures)

    if not futures:
        made.set_result(futures)
    for each in futures:
        each.add_done_callback(note)
    return made


def wait_all(futures: list[Future[Any]]) -> list[Any]:
    """All results; the first error is raised."""
    return [each.wait() for each in collect_all(futures).wait()]
