"""Lazy modules in captured code: their parameters are made before the graph, not in it.

Takes what a lazy module says in its first call (`LazyModuleMixin._infer_parameters`); has the real module
take its sizes from tensors without data, and capture begin anew. One idea: afterwards it is an ordinary
module, so that the first call and all later ones are one program.

# Note [Draws before the draws]
    model = Sequential(Dropout(), LazyLinear(3))       eager: a mask is drawn, then the weights
Weights that are made before the graph draw before what it draws. So a module that comes to life after other
draws ends the segment; only where one graph is insisted upon, they come first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from weft.capture.calls import handles
from weft.capture.higher_order import draws
from weft.capture.outcome import Unprepared
from weft.capture.values import Args, Kwargs
from weft.core.generator import default_generator
from weft.core.trees import tree_map
from weft.nn.modules.lazy import LazyModuleMixin
from weft.nn.parameter import is_lazy
from weft.ops.record import ops
from weft.tensor.base import Tensor
from weft.trace.breaks import Break
from weft.trace.scalars import hint_of

if TYPE_CHECKING:
    from weft.capture.machine import Machine

Undo = Callable[[], None]


class OutOfOrder(Break):
    """What has to be made before the call is captured would come after something that the graph draws."""

    def __init__(self, seen: str, prepare: Callable[[], Undo]) -> None:
        super().__init__("library-state", seen)
        self.prepare = prepare


@handles(LazyModuleMixin._infer_parameters)
def infer_before(machine: Machine, args: Args, kwargs: Kwargs) -> None:
    """Stands for `_infer_parameters` in captured code."""
    _self, module, given, *named = args
    if machine.world.is_fresh(module):
        raise Break("library-state", seen=f"the first call of a {type(module).__name__} made in the graph")
    inputs, options = tree_map(_without_data, (given, (*named, {})[0] or {}))

    def prepare() -> Undo:
        return make(module, inputs, options)

    if draws(machine.recorder.graph.nodes):
        raise OutOfOrder(f"the first call of a {type(module).__name__} after random numbers", prepare)
    raise Unprepared(prepare)


def _without_data(value: Any) -> Any:
    if isinstance(value, Tensor):
        shape = [int(hint_of(size)) for size in value.shape]
        return ops.empty(shape, dtype=value.dtype, device="meta")
    return hint_of(value)


def make(module: Any, inputs: tuple[Any, ...], options: dict[str, Any]) -> Undo:
    """Has a lazy module make its parameters; gives what makes it lazy again."""
    kind, fields = type(module), dict(vars(module))
    tables = [(table, dict(table)) for table in fields.values() if isinstance(table, dict)]
    waiting = [
        (tensor, type(tensor), tensor.array)
        for table in (module._parameters, module._buffers)
        for tensor in table.values()
        if is_lazy(tensor)
    ]
    state = default_generator.get_state()

    def undo() -> None:
        module.__class__ = kind
        vars(module).clear()
        vars(module).update(fields)
        for table, items in tables:
            table.clear()
            table.update(items)
        for tensor, lazy_kind, array in waiting:
            tensor.array = array
            tensor.__class__ = lazy_kind
        default_generator.set_state(state)

    try:
        module._infer_parameters(module, inputs, options)
    except BaseException:
        undo()
        raise
    return undo
