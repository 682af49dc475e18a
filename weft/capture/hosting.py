"""Hosting: what a machine takes over from its recorder.

Takes a machine; gives a `Host`. One idea: the recorder sees these calls, and the machine answers them, since
they concern state outside of graphs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from weft.capture.autocasting import _set_autocast
from weft.capture.custom_ops import user_function
from weft.capture.gradients import accumulate, change, check_inference, differentiate
from weft.capture.values import Args, Kwargs
from weft.trace.host import Host

if TYPE_CHECKING:
    from weft.capture.machine import Machine


class MachineHost(Host):
    """A machine's answers."""

    has_gaps = True

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.set_autocast = _set_autocast

    def autograd(self, func: Any, name: str, args: Args, kwargs: Kwargs) -> Any:
        return differentiate(self.machine, func, name, args, kwargs)

    def change(self, func: Any, name: str, args: Args, kwargs: Kwargs) -> Any:
        return change(self.machine, func, name, args, kwargs)

    def user_function(self, op: Any, attribute: str, function: Any) -> Any:
        return user_function(self.machine, op, attribute, function) if self.machine.hears_ops else function

    def saves_inference(self) -> None:
        check_inference(self.machine)

    def accumulate(self, leaf: Any, gradient: Any, graph: bool) -> Any:
        accumulate(self.machine, leaf, gradient, graph)
