"""Hosts: what a recorder asks of the code that it records for.

Takes the calls that a recorder cannot answer from types alone; gives answers, or NotImplemented, which leaves
them to the recorder. One idea: a recorder by itself knows tensors and graphs; tapes, autocast and functions
of the user's are the business of what it works for, which says so in one place.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Host:
    """Takes nothing over."""

    set_autocast: Callable[[Any, bool], None] | None = None
    """What switches autocast in a graph: its dtype (or None) and whether casts are kept."""

    has_gaps = False
    """Whether calls that are not recorded run as they are, between graphs."""

    def autograd(self, func: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A call that concerns the tape."""
        return NotImplemented

    def change(self, func: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A call that changes what a tensor is."""
        return NotImplemented

    def user_function(self, op: Any, attribute: str, function: Any) -> Any:
        """What is called in place of a function that the user registered with a custom op. Where a program is
        captured, what it reads is guarded, and what it changes is written down."""
        return function

    def saves_inference(self) -> None:
        """A transform saves a tensor that was made in inference mode, which only transforms may."""

    def accumulate(self, leaf: Any, gradient: Any, graph: bool) -> Any:
        """Adds a gradient to a leaf's `.grad` where the engine runs over fakes; `graph`: whether the sum must
        be differentiable."""
        return NotImplemented
