"""Breaks: how recording and capture say that they cannot go on here.

Takes a kind (a key of the one table of kinds, which holds the reason and the advice) and what was seen; is
raised. One idea: a Break is no `Exception`, so that no code that runs on behalf of the captured program can
swallow it by accident.
"""

from __future__ import annotations


class Break(BaseException):
    """The captured program does something here that only running it can do."""

    def __init__(self, kind: str, seen: str = "", why: str | None = None, try_: str | None = None) -> None:
        super().__init__(kind, seen)
        self.kind = kind
        self.seen = seen
        self.why = why
        self.try_ = try_
        self.culprit: object = None
        """The object that could not be rebuilt, where that is the reason."""

    def __str__(self) -> str:
        return f"{self.kind}: {self.seen}" if self.seen else self.kind


class NeedOps(Break):
    """What comes next can be recorded op by op only: recording starts anew, with an `OpRecorder`. Where that
    is done already, it is the break that it says.
    """


class NeedCalls(Break):
    """What was recorded op by op leaves something behind that only a node for a whole call can: recording
    starts anew, call by call.
    """


__all__ = ["Break", "NeedCalls", "NeedOps"]
