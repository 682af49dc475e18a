"""Backward of nodes that native entries have made, as native functions.

Takes the stage of a program and, in each run, a node and the gradients of its outputs; gives the gradients
behind it, some of which are in the `.grad` of their leaves already. One idea: what such a function does is
what `raw_backward`, the accumulation into leaves and `release` do one after the other where nobody looks on;
wherever anything is not so, it misses, and these do it.

# Note [Settled edges]
A gradient that is an array of its own, lies as its leaf does, and comes to it from nowhere else in this sweep
is put into `.grad` by the native function, where None stands there when it is done. So a sweep says how many
edges lead to each leaf, and leaves that were served are taken from those that it waits for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from weft.aot.runtime.counting import refuse, strict
from weft.autograd.tasks import accumulate, local
from weft.core.interrupts import let_through
from weft.core.records import record
from weft.tensor.base import Tensor

if TYPE_CHECKING:
    from weft.aot.runtime.nodes import CompiledFunctionBackward
    from weft.aot.runtime.plans import CompiledCut

RUNS_BEFORE: Final = 1
"""So many runs the general way has done before there is a native function."""
MISSES_BEFORE: Final = 2
"""So many have missed before there is another one, where sizes are open."""
MOST: Final = 8
NONE: Final = object()
"""That the general way is to do it."""


@record(frozen=True, slots=True)
class DirectBackward:
    """One run of a node's backward, as data."""

    forward: Any
    """What the compiler of the backward graph gave."""
    inputs: list[Any]
    """Arrays and numbers: what the node saved, and gradients."""
    saved: int
    """How many of these it saved."""
    node: Any
    settles: bool
    """Whether gradients may be put into leaves."""
    releases: bool
    """Whether the node is freed."""
    parts: int
    """The parts of eager's tape that it frees, a bit for each in `Stage.parts`."""
    frees_all: bool
    """Whether these are all that there are."""


@record(slots=True)
class Entered:
    """A native function for a stage."""

    enter: Any
    settled: list[int]
    """The edges whose gradients it puts into leaves: see Note [Settled edges]."""
    ends: bool
    """Whether all edges lead to leaves."""


class Quick:
    """How a stage's backward runs natively, once it has run otherwise."""

    __slots__ = ("machine", "stage", "forward", "miss", "mask", "seed", "made", "runs", "missed")

    def __init__(
        self, machine: Any, program: CompiledCut, number: int, outputs: tuple[Any, ...] | None
    ) -> None:
        """`outputs`: the types of what the stage gives, if these are known."""
        stage = program.joint.stages[number]
        self.machine, self.miss = machine, machine.miss
        self.stage: Any = stage
        self.forward = getattr(program.backwards[number], "function", None)
        self.mask = list(stage.mask)
        self.made: dict[tuple[bool, bool], list[Entered]] = {}
        """By whether gradients may be settled, and whether the node is freed."""
        self.runs = self.missed = 0
        self.seed: Any = None
        """The gradient that a backward of its only output starts from."""
        if outputs is not None and len(outputs) == 1 and self.mask == [True]:
            shape, kind = outputs[0].shape, outputs[0].dtype.numpy
            self.seed = np.ones(shape, kind) if np.prod(shape) == 1 and kind.kind != "c" else None

    def entered(
        self, node: CompiledFunctionBackward, gradients: list[Any], settles: bool, releases: bool
    ) -> list[Entered]:
        """The native functions for such runs, the latest that served first; one more is made where none has,
        as some are for some sizes."""
        key = settles, releases
        known = self.made.get(key)
        if known is not None and (self.missed < MISSES_BEFORE or len(known) >= MOST or node.sizes is None):
            return known
        if self.runs < RUNS_BEFORE:
            self.runs += 1
            return []
        saved = node.saved
        if type(saved) is not tuple or type(node.rerun) is not tuple or not self.machine.is_ready():
            return known or []
        made = self.new(node, [*saved, *gradients], len(saved), *key)
        self.made[key] = [*([] if made is None else [made]), *(known or [])]
        self.missed = 0
        return self.made[key]

    def served(self, key: tuple[bool, bool], place: int) -> None:
        """Puts the function that has served first."""
        known = self.made[key]
        self.made[key] = [known[place], *known[:place], *known[place + 1 :]]

    def new(
        self, node: CompiledFunctionBackward, inputs: list[Any], saved: int, settles: bool, releases: bool
    ) -> Entered | None:
        stage = node.call.plan.whole.joint.stages[node.stage]
        come = sum([1 << slot for slot, there in enumerate(self.mask) if there])
        every = (1 << len(stage.parts)) - 1
        parts = sum([1 << number for number, (_, values) in enumerate(stage.parts) if values & come])
        parts = every if all(self.mask) else parts
        releases = releases and stage.spent
        found = DirectBackward(self.forward, inputs, saved, node, settles, releases, parts, parts == every)
        try:
            made = self.machine.backward(found)
        except Exception as error:  # the general way serves all calls
            let_through(error)
            reason = f"a backward that has no native function: {type(error).__name__}: {error}"
            refuse(reason)
            strict(reason)
            return None
        return None if made is None else Entered(*made)

    def run(self, node: CompiledFunctionBackward, grad: Any) -> Any:
        """The gradients of a run in a sweep; None where all of them are settled, NONE where it is for the
        general way."""
        task = local.task
        if task is None or task.leaves is None or node.hooks is not None:
            return NONE
        given = []
        for value, wanted in zip(grad, self.mask, strict=True):
            if (value is not None) is not wanted:
                return NONE
            if wanted:
                given.append(value)
        leaves, targets = task.leaves, node.next
        settles, releases = True, not task.retain
        functions = self.entered(node, given, settles, releases)
        if functions and not comes_once(functions[0].settled, targets, leaves):
            settles = False
            functions = self.entered(node, given, settles, releases)
        for place, entered in enumerate(functions):
            if place and not comes_once(entered.settled, targets, leaves):
                continue  # it settles others than the first one
            found = entered.enter(node, *given)
            if found is not self.miss:
                if place:
                    self.served((settles, releases), place)
                break
        else:
            self.missed += 1
            return NONE
        if found is None:
            return None
        results = [*found]
        for j in entered.settled:
            if results[j] is None:
                del leaves[targets[j]]
            else:
                results[j] = results[j].array
        return results

    def alone(self, node: CompiledFunctionBackward, tensor: Tensor, retain: bool) -> bool:
        """Does a whole backward of the node's only output, if that ends with it."""
        seed, array = self.seed, tensor.array
        functions = self.made.get((True, not retain))
        if not functions or seed is None or not functions[0].ends:
            return False
        if type(array) is not np.ndarray or array.shape != seed.shape or array.dtype is not seed.dtype:
            return False
        for place, entered in enumerate(functions):
            found = entered.enter(node, seed)
            if found is not self.miss:
                if place:
                    self.served((True, not retain), place)
                break
        else:
            return False
        if found is not None:
            for target, value in zip(node.next, found, strict=True):
                if value is not None:
                    accumulate(target, value.array if type(value) is Tensor else value, False, ALWAYS)
        return True


def comes_once(settled: list[int], targets: Any, leaves: dict[Any, int]) -> bool:
    """Whether no other edges of a sweep lead to the leaves that these lead to."""
    return not settled or all(leaves.get(targets[j]) == 1 for j in settled)


ALWAYS: Final = -(1 << 30)
"""More references than any array has: others may have the gradient, too."""
