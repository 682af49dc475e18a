"""Custom Functions in graphs: what the node `autograd_function_apply` runs.

Takes the graphs of a Function's forward and backward, and their operands; gives what `Function.apply` would
give, with the same node on the tape. One idea: forward's graph also gives all that forward left in its
context, so that a genuine context is filled here; the user's own backward can then run at any time, and the
graph of it only stands in while everything that it was made from still holds.

# Note [Backward that was captured]
    no gradients recorded, no mode active      the graph was made so; else the user's backward runs
    a gradient for each output, of its type    None, batches and other dtypes go to the user's backward
    nothing freed, overwritten or packed       so that errors are raised at the user's line
    what backward read of the world            globals, closures, class attributes: guards, checked each time
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from weft.autograd.function import recorded, unrecorded_outputs
from weft.autograd.function_context import FunctionCtx, Packed, unpack
from weft.autograd.function_witness import ABSENT, Witness
from weft.core.generator import default_generator
from weft.core.interrupts import let_through
from weft.core.modes import enter, leave, state
from weft.core.types import Size
from weft.tensor.base import PLAIN
from weft.tensor.meta import MetaArray
from weft.tensor.views import refresh

RECIPE: Final = "custom_function"
"""Where the graph of a forward keeps its `Recipe`: `graph.meta`."""


class Kept:
    """Stands, in a template, for one of the values that a graph gives."""

    __slots__ = ("place",)

    def __init__(self, place: int) -> None:
        self.place = place

    def __repr__(self) -> str:
        return f"Kept({self.place})"


def build(template: Any, values: Sequence[Any]) -> Any:
    """A fresh structure like the template, with the values in their places."""
    kind = type(template)
    if kind is Kept:
        return values[template.place]
    if kind is tuple or kind is list or kind is Size:
        return kind([build(item, values) for item in template])
    if kind is dict:
        return {key: build(item, values) for key, item in template.items()}
    return template


class StructureChanged(Exception):
    """A structure is not what its template says."""


def collect(template: Any, value: Any, values: dict[int, Any]) -> None:
    """The values that stand in the places of a structure; raises where anything else differs."""
    kind = type(template)
    if kind is Kept:
        values[template.place] = value
    elif kind in (tuple, list, dict, Size):
        if type(value) is not kind or len(value) != len(template):
            raise StructureChanged
        keys = template if kind is dict else range(len(template))
        if kind is dict and list(value) != list(template):
            raise StructureChanged
        for key in keys:
            collect(template[key], value[key], values)
    elif value is not template and (type(value) is not kind or value != template):
        raise StructureChanged


@dataclass(slots=True, eq=False)
class Recipe:
    """What capture knows of one call of a Function, beside its two graphs."""

    owner: Any
    """The Function."""
    outputs: Any
    """What forward returned: a place, or a tuple of places and constants."""
    saved: tuple[Any, ...] | None = None
    """What it saved: places among the kept values, or None."""
    attributes: dict[str, Any] = field(default_factory=dict)
    """What it wrote to its context: templates."""
    materialize: bool = True
    saved_for_forward: tuple[Any, ...] | None = None
    """What it saved for forward mode: places among the kept values."""
    marked: tuple[int, ...] = ()
    """Which outputs have no gradient."""
    dirty: tuple[int, ...] = ()
    """Which outputs are inputs that forward has written to."""
    escaped: tuple[int, ...] = ()
    """The kept values that the program got at otherwise than by what forward returned."""
    gives_context: bool = False
    """Whether the program puts more into the context, when the graph has run."""
    native: bool = False
    """Whether there is no graph of backward: the user's own runs."""
    extra: tuple[Any, ...] = ()
    """What backward's graph takes behind what is in the context: places among the kept values, and None for
    each tensor that `holds` finds elsewhere.
    """
    gradients: tuple[Any, ...] = ()
    """Per output: shape (None for sizes that vary), dtype and device of its gradient, and whether it requires
    grad; None for constants.
    """
    kept: tuple[Any, ...] = ()
    """The same for what backward's graph takes from the context; None for numbers."""
    result: Any = None
    """What backward returned, as a template."""
    holds: Callable[[Any, Any], tuple[Any, ...] | None] = field(default=lambda backward, ctx: None)
    """The tensors that backward reads elsewhere, if all that it read is as it was; else None."""


class Captured:
    """Stands in for a user's backward; see Note [Backward that was captured]."""

    __slots__ = ("recipe", "body", "extra")
    interprets = False

    def __init__(self, recipe: Recipe, body: Any, kept: Sequence[Any]) -> None:
        self.recipe, self.body = recipe, body
        self.extra = [None if place is None else kept[place] for place in recipe.extra]

    def around(self, backward: Any, original: Any) -> Callable[..., Any]:
        """A function that runs the graph, or `backward`; `original` is what guards are checked on."""

        def run(ctx: Any, *gradients: Any) -> Any:
            values = self.values(ctx, original, gradients)
            if values is None:
                return backward(ctx, *gradients)
            drawn = default_generator.get_offset()
            try:
                result = self.body(None, *[g for g in gradients if g is not None], *values)
            except Exception as error:  # which the user's own lines have to raise
                let_through(error)
                result = None
            finally:
                state.set(False)
            if result is None:
                default_generator.go_back(drawn)
                return backward(ctx, *gradients)
            return build(self.recipe.result, result)

        return run

    def values(self, ctx: Any, original: object, gradients: tuple[Any, ...]) -> list[Any] | None:
        """What the graph takes behind the gradients; None where it must not run."""
        recipe = self.recipe
        if state.get() is not False or not fitting(gradients, recipe.gradients):
            return None
        places: dict[int, Any] = {}
        try:
            if recipe.saved is not None:
                if not is_intact(ctx):
                    return None
                collect(recipe.saved, unpack(ctx), places)
            for name, template in recipe.attributes.items():
                collect(template, ctx.__dict__[name], places)
        except (StructureChanged, KeyError) as error:
            let_through(error)
            return None
        kept = [places[place] for place in range(len(places))]
        if not all(facts is None or is_tensor(value, *facts) for value, facts in zip(kept, recipe.kept)):
            return None
        read = recipe.holds(original, ctx)
        if read is None:
            return None
        found = iter(read)
        extra = zip(recipe.extra, self.extra)
        return [*kept, *[next(found) if place is None else value for place, value in extra]]


def fitting(values: Sequence[Any], wanted: tuple[Any, ...]) -> bool:
    """Whether the gradients are of the types that the graph was made for."""
    if len(values) != len(wanted):
        return False
    for value, facts in zip(values, wanted):
        if facts is None:
            if value is not None:
                return False
        elif not is_tensor(value, *facts):
            return False
    return True


def is_tensor(value: Any, shape: tuple[Any, ...], kind: Any, device: object, tracked: bool) -> bool:
    if type(value) not in PLAIN or value.tracked is not tracked:
        return False
    array = value.array
    if array.dtype != kind or len(array.shape) != len(shape) or value.device != device:
        return False
    return all(size is None or size == given for size, given in zip(shape, array.shape))


def is_intact(ctx: Any) -> bool:
    """Whether what was saved can be given back without an error, and without calling hooks."""
    items, versions = ctx._items, ctx._versions
    if items is None or any(type(item) is Packed for item in items):
        return False
    return versions is None or all(versions[i][0] == versions[i + 1] for i in range(0, len(versions), 2))


def recipe_of(body: object) -> Recipe:
    graph = getattr(body, "graph", None)
    recipe: Recipe | None = None if graph is None else graph.meta.get(RECIPE)
    if recipe is None:
        raise RuntimeError(
            "this graph of a custom Function was saved or rebuilt without its Function, and cannot be run"
        )
    return recipe


def run_forward(fwd: Any, operands: Any, owner: Any, args: Any, live: bool, mode: object) -> tuple[Any, ...]:
    """What forward's graph gives, and who watched it: see `function_witness`."""
    body = getattr(fwd, "forward", fwd)
    watched = live and owner._backward_cls.watched
    if mode is True and not watched:
        try:
            state.set(False)
            return (*body(None, *operands), ABSENT)
        finally:
            state.set(True)
    witness: Any = Witness(args) if watched else ABSENT
    token = enter(grad=False, witness=witness) if watched else enter(grad=False)
    try:
        return (*body(None, *operands), witness)
    finally:
        leave(token)


def autograd_function_apply(
    fwd: Any,
    bwd: Any,
    *operands: Any,
    args_tensor_mask: Sequence[bool],
    non_differentiable_idx: Sequence[int] = (),
) -> Any:
    """Runs forward's graph and puts the Function's node behind what it gives.

    `args_tensor_mask` says which arguments of `apply` were tensors: these are the first operands; the others
    are tensors that forward read elsewhere.
    """
    recipe = recipe_of(fwd)
    owner = recipe.owner
    args: Any = []
    needs: list[bool] = []
    rest = iter(operands)
    for given in args_tensor_mask:
        if given:
            value = next(rest)
            if value.origin is not None:
                refresh(value)
            args.append(value)
            needs.append(value.tracked)
        else:
            args.append(None)
            needs.append(False)
    args = tuple(args)
    ctx: Any = object.__new__(FunctionCtx)
    ctx._forward_cls, ctx.needs_input_grad = owner, tuple(needs)
    mode = state.get()
    live = (mode if type(mode) is bool else mode.grad and not mode.inference) and True in needs
    values, kept, witness = run_forward(fwd, operands, owner, args, live, mode)
    outputs = recipe.outputs
    result = values if type(outputs) is Kept else build(outputs, values)
    fill(ctx, recipe, kept)
    if non_differentiable_idx or recipe.dirty:
        mark(ctx, result, non_differentiable_idx, recipe.dirty)
    escaped = [kept[place] for place in recipe.escaped]
    if not live:
        result = unrecorded_outputs(ctx, args, result)
    else:
        if not recipe.native:
            ctx._captured = Captured(recipe, getattr(bwd, "forward", bwd), kept)
        result = recorded(owner, ctx, args, result, mode, witness)
        if witness is not ABSENT:
            witness.done(owner._backward_cls)
    return (result, *escaped, ctx) if escaped or recipe.gives_context else result


class Attached:
    """Puts a Function's node behind tensors that a graph has computed, op by op, as forward would have.

    It is the target of a graph's node: one for each call that was captured.
    """

    def __init__(self, recipe: Recipe, mask: tuple[bool, ...]) -> None:
        self.recipe, self.mask = recipe, mask
        self.constants: frozenset[int] = frozenset()
        """Positions of saved tensors that forward did not compute from its inputs."""
        self.__name__ = self.__qualname__ = f"{recipe.owner.__name__.lower()}_applied"
        self.__module__ = __name__

    def __call__(self, values: Any, operands: tuple[Any, ...], kept: Sequence[Any]) -> Any:
        recipe = self.recipe
        for value in operands:
            if value.origin is not None:
                refresh(value)
        rest = iter(operands)
        args = tuple([next(rest) if given else None for given in self.mask])
        needs = tuple([value is not None and value.tracked for value in args])
        ctx: Any = object.__new__(FunctionCtx)
        ctx._forward_cls, ctx.needs_input_grad = recipe.owner, needs
        result = build(recipe.outputs, values)
        fill(ctx, recipe, kept)
        mark(ctx, result, recipe.marked, recipe.dirty)
        mode = state.get()
        recording = mode if type(mode) is bool else mode.grad and not mode.inference
        if recording and any(needs):
            given = recorded(recipe.owner, ctx, args, result, mode, self)
        else:
            given = unrecorded_outputs(ctx, args, result)
        pairs = zip(given, result) if type(given) is tuple else ((given, result),)
        for made, before in pairs:
            if made is not before and type(made.array) is MetaArray:
                made.array = before.array  # by which those who trace graphs know an input that is returned
        return given, ctx

    def is_constant(self, _node: object, position: int, _tensor: object) -> bool:
        """What a `Witness` says, who saw forward while it was captured."""
        return position in self.constants


def native_backward(function_ctx: Any, *gradients: object) -> Any:
    """Stands, in a graph, for a backward that is no graph: the user's own."""
    owner = function_ctx._forward_cls
    return owner._backward_cls.find_backward()(function_ctx, *gradients)


def function_outputs(result: object, operands: tuple[Any, ...], dirty: tuple[int, ...] = ()) -> Any:
    """What `apply` gives where nothing is recorded: inputs that forward returned are views of themselves,
    unless it has written to them.
    """
    ctx: Any = object.__new__(FunctionCtx)
    mark(ctx, result, (), dirty)
    return unrecorded_outputs(ctx, operands, result)


def mark(ctx: FunctionCtx, result: object, flat: Sequence[int], dirty: Sequence[int]) -> None:
    """Says of the outputs what forward said of them."""
    every = result if type(result) is tuple else (result,)
    if flat:
        ctx.non_differentiable = tuple([every[place] for place in flat])
    if dirty:
        ctx.dirty_tensors = tuple([every[place] for place in dirty])


def fill(ctx: FunctionCtx, recipe: Recipe, kept: Sequence[Any]) -> None:
    """Leaves in the context what forward left there."""
    fields = ctx.__dict__
    if recipe.saved is not None:
        fields["to_save"] = tuple([None if item is None else kept[item.place] for item in recipe.saved])
    if recipe.saved_for_forward is not None:
        fields["saved_for_forward"] = build(recipe.saved_for_forward, kept)
    for name, template in recipe.attributes.items():
        fields[name] = build(template, kept)
    if not recipe.materialize:
        fields["materialize_grads"] = False
