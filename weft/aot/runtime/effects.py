"""Effects: what a call does to tensors that exist, and how its outputs come to be what eager's are.

Takes the facts of a graph with its values; writes inputs back, gives new tensors memory of their own, makes
views from their bases. One idea: everything here is what eager does, on tensors that eager would have.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from weft.aot.facts import DATA, DETACH, Constant, Facts, Input, Number, Output, Step, Value, ViewOf
from weft.core import modes
from weft.core.interrupts import let_through
from weft.ops.record import quiet
from weft.ops.replay import replay
from weft.tensor.base import PLAIN, Tensor, address, storage_root, wrap
from weft.tensor.inplace import check_writable, set_history
from weft.tensor.tape import INFERENCE
from weft.tensor.views import DEFAULT, View

if TYPE_CHECKING:
    from weft.core.arrays import Array


Edges = dict[int, tuple[Any, int]]


def span(array: Array) -> tuple[int, int]:
    """The first and the last byte that an array reaches, by strides."""
    low = high = address(array)
    if not array.size:
        return low, low
    for size, stride in zip(array.shape, array.strides, strict=True):
        if stride < 0:
            low += (size - 1) * stride
        else:
            high += (size - 1) * stride
    return low, high + array.itemsize


def overlapping(facts: Facts, args: tuple[Any, ...]) -> bool:
    """Whether an input that is written may share memory with another one."""
    targets = {written.input for written in facts.written}
    if not targets:
        return False
    arrays = [(value.array, i in targets) for i, value in enumerate(args) if type(value) in PLAIN]
    furthest = furthest_written = -1  # where what begins before ends
    for (low, high), is_written in sorted([(span(array), target) for array, target in arrays if array.size]):
        if low < (furthest if is_written else furthest_written):
            return True
        furthest = max(furthest, high)
        if is_written:
            furthest_written = max(furthest_written, high)
    return False


def sharing_versions(facts: Facts, args: tuple[Any, ...]) -> bool:
    """Whether an input that is written has its version counter in common with another one, as two views of
    one tensor have."""
    cells = [id(value.cell) for value in args if type(value) in PLAIN and type(value.cell) is list]
    return any(cells.count(id(args[written.input].cell)) > 1 for written in facts.written)


def all_writable(facts: Facts, args: tuple[Any, ...]) -> bool:
    """Whether eager would let all inputs be written; if not, it is left to say so."""
    for written in facts.written:
        target = args[written.input]
        if not target.array.flags.writeable:
            return False
        try:
            check_writable(target, written.history, written.history)
        except RuntimeError as error:
            let_through(error)
            return False
    return True


class Lent:
    """The inputs of a graph that may write some of them in place: their versions are counted here, when it
    has run. Tensors of their own for all that is written would take more memory than eager's histories.
    """

    def __init__(self, facts: Facts, args: tuple[Any, ...]) -> None:
        self.cells = [args[written.input].shared_cell() for written in facts.written]
        self.versions = [None if cell is INFERENCE else cell[0] for cell in self.cells]
        self.values = list(args)  # the graph empties it
        for written, cell in zip(facts.written, self.cells, strict=True):
            if cell is INFERENCE:  # which may be written only in its mode, and graphs run in none
                self.values[written.input] = wrap(args[written.input].array)

    def settle(self) -> None:
        """Puts the versions back."""
        for cell, version in zip(self.cells, self.versions, strict=True):
            if version is not None:
                cell[0] = version


def separate(values: list[Any], facts: Facts, args: tuple[Any, ...]) -> None:
    """Gives each value memory of its own, in the order that eager's would have."""
    done = {w.value for w in facts.written if values[w.value].array is args[w.input].array}
    owners = {id(storage_root(value.array)) for value in args if type(value) in PLAIN}
    for number, made in enumerate(facts.values):
        value = values[number]
        if not isinstance(value, Tensor):
            continue
        array = value.array
        if number in done:
            values[number] = wrap(array)
            continue
        owner = id(storage_root(array))
        if owner in owners or not array.flags.writeable:
            array = array.copy("K")
            owner = id(array)
        if made.strides is not None and array.strides != made.strides:
            array = in_layout(array, made.strides)
            owner = id(array)
        owners.add(owner)
        values[number] = wrap(array)


def in_layout(array: Array, strides: tuple[int, ...]) -> Any:
    """A copy with these strides, where they are those of some order of the dimensions."""
    order = sorted(range(array.ndim), key=lambda d: (-strides[d], d))
    made = np.empty([array.shape[d] for d in order], array.dtype)
    made = made.transpose(np.argsort(order)) if order else made
    made[...] = array
    return made


def write_back(facts: Facts, values: list[Any], args: tuple[Any, ...], edges: Edges) -> None:
    """Puts new elements into the inputs, and new histories behind them."""
    for written in facts.written:
        target = args[written.input]
        array = values[written.value].array
        if array is not target.array:
            quiet(np.copyto, target.array, array, casting="unsafe")
        cell = target.shared_cell()
        if cell is not INFERENCE:
            cell[0] += written.times
        if written.history and written.value in edges:
            set_history(target, *edges[written.value])


def own(facts: Facts, values: list[Any], edges: Edges) -> None:
    """Makes the values tensors of the user's, with their history."""
    for number, made in enumerate(facts.values):
        value = values[number]
        if isinstance(value, Tensor):
            if made.inference:
                value.cell = INFERENCE
            elif made.version:
                value.cell = [made.version]
            if number in edges:
                value.node, value.index = edges[number]
                value.tracked = True


def rebuilt(facts: Facts, args: tuple[Any, ...], values: list[Any]) -> list[Any]:
    """What stands for the outputs."""
    outputs = facts.outputs
    views: dict[int, Any] = {}
    before = _as_before(facts, args) if facts.written else ()
    try:
        found = [_rebuilt(output, args, values, views) for output in outputs]
    finally:
        for view in before:
            view.seen = -1
    for output, tensor in zip(outputs, found, strict=True):  # when all are there: old views have views, too
        if isinstance(output, ViewOf):
            if output.version and tensor.cell is not INFERENCE:
                tensor.shared_cell()[0] = output.version  # shared by other views of the same detached tensor
            base = args[output.base.index] if isinstance(output.base, Input) else values[output.base.index]
            if tensor.origin is None:
                continue
            # Where the base is a view, too, both have their histories from the base of all.
            counted = base.origin is not None and any(args[n].cell is tensor.cell for n in output.behind)
            if output.stale or counted:
                tensor.origin.seen = -1
    return found


def _as_before(facts: Facts, args: tuple[Any, ...]) -> list[View]:
    """Has the inputs of which views are made again, behind the writes, be as up to date as they were before:
    eager code made its views then, or recorded none. To renew such an input may be forbidden.
    """
    found: list[View] = []
    for output in facts.outputs:
        if isinstance(output, ViewOf) and isinstance(output.base, Input):
            base = args[output.base.index]
            view, cell = base.origin, base.cell
            if view is None or view.creation == DEFAULT or cell is INFERENCE:
                continue
            counted = sum(each.times for each in facts.written if args[each.input].cell is cell)
            if counted and view.seen == cell[0] - counted:
                view.seen = cell[0]
                found.append(view)
    return found


def _rebuilt(output: Output, args: tuple[Any, ...], values: list[Any], made: dict[int, Any]) -> Any:
    """What stands for one. `made` are the views there are already: views of one detached tensor have that in
    common.
    """
    if isinstance(output, (Value, Number)):
        return values[output.index]
    if isinstance(output, Input):
        return args[output.index]
    if isinstance(output, Constant):
        return output.value
    base = args[output.base.index] if isinstance(output.base, Input) else values[output.base.index]
    tensor = base
    for step, identity in zip(output.steps, output.tensors, strict=True):
        if identity not in made:
            made[identity] = stepped(tensor, step)
        tensor = made[identity]
    return tensor


def stepped(tensor: Tensor, step: Step) -> Any:
    if modes.state.get() is step.grad and not step.inference:  # as most are made, and taken
        return made_in_mode(tensor, step)
    token = modes.enter(grad=step.grad, inference=step.inference)
    try:
        return made_in_mode(tensor, step)
    finally:
        modes.leave(token)


def made_in_mode(tensor: Tensor, step: Step) -> Any:
    if step.op == DETACH:
        return tensor.detach()
    if step.op == DATA:
        return tensor.data
    return replay(tensor, ((step.op, step.rest, step.position),))


def keep_apart(
    residuals: list[Any], facts: Facts, args: tuple[Any, ...], values: list[Any], private: frozenset[int]
) -> None:
    """Copies residuals that lie in memory about to be written, and those in the user's memory that eager code
    has in its own (compilers may leave out a clone)."""
    written = {id(storage_root(args[w.input].array)) for w in facts.written}
    if not written and not private:
        return
    shared = {id(storage_root(value.array)) for value in (*args, *values) if type(value) in PLAIN}
    for position, value in enumerate(residuals):
        if isinstance(value, Tensor):
            memory = id(storage_root(value.array))
            if memory in written or (memory in shared and position in private):
                residuals[position] = wrap(value.array.copy("K"))
