"""Custom functions: a user's `forward` and `backward` as one op of the tape.

Takes subclasses of `Function` with static methods; `Foo.apply(*args)` runs forward without recording and
puts one node, `FooBackward`, behind its outputs. One idea: forward is opaque, so all that autograd knows of
the outputs is decided here, after forward has returned: which are new, which are inputs (returned as they
are, or written to), which are views, which have no gradient.

# Note [Outputs that are inputs]
    return x                       -> a new tensor that views x; writing to it later is refused
    ctx.mark_dirty(x); return x    -> x itself, now with FooBackward as its history
    return x[1:]                   -> the view; writing to it later is refused
The refusals are PyTorch's: replaying the view on a changed base would leave out the custom backward.
"""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple, TypeVarTuple

from weft.autograd.function_context import FunctionCtx as FunctionCtx
from weft.autograd.function_context import keep
from weft.autograd.function_node import FunctionNode, missing_backward, node_class_for, type_of_output
from weft.autograd.function_witness import ABSENT, Witness
from weft.core.dtypes import BY_NUMPY
from weft.core.modes import enter, leave, state
from weft.core.naming import named
from weft.core.seams import seams
from weft.core.warn import warn_at_level
from weft.ops.record import REGISTRY
from weft.tensor.base import Parameter, Tensor, wrap
from weft.tensor.inplace import check_writable, set_history
from weft.tensor.meta import MetaArray
from weft.tensor.saved import note_origin
from weft.tensor.tape import Node, RefusingNode, edges_of, gradient_edge, next_sequence, node_between
from weft.tensor.views import CUSTOM, MULTIPLE, attach_alias, attach_view, refresh
from weft.tensor.wrapper import Wrapper, highest

if TYPE_CHECKING:
    from weft.core.modes import State


__all__ = [
    "BackwardCFunction",
    "Function",
    "FunctionCtx",
    "FunctionMeta",
    "InplaceFunction",
    "NestedIOFunction",
    "VmapInfo",
    "once_differentiable",
]

new = object.__new__
Gradients = TypeVarTuple("Gradients")
INTERPRETERS: dict[type, Callable[[Any, tuple[Any, ...], Any], Any]] = {}
"""Wrapper classes of transforms: class to `handler(function_class, args, level)`, which takes a call over."""
DOCUMENTATION = "For more details, please see the notes on extending weft.func with autograd.Function"


class VmapInfo(NamedTuple):
    """What a Function's `vmap` gets to know of the vmap around it."""

    batch_size: int
    randomness: str


class Function:
    """A base class for ops whose gradient the user writes.

    Subclasses define static methods: `forward(ctx, *args)`, or `forward(*args)` with
    `setup_context(ctx, inputs, output)`; `backward(ctx, *gradients of the outputs)`, which returns one
    gradient (or None) per argument of forward; perhaps `jvp` and `vmap`. They are called by `apply`.
    """

    generate_vmap_rule: ClassVar[bool] = False
    boxed_grads_call: ClassVar[bool] = False
    """Whether backward takes its gradients as one list, which it may empty: nothing else refers to them."""
    clear_saved_tensors_on_access: ClassVar[bool] = False
    """Whether `ctx.saved_tensors` can be read once, so that backward may drop what it has read."""
    _backward_cls: ClassVar[type[FunctionNode]] = FunctionNode

    def __init__(self, *args: object, **kwargs: object) -> None:
        warn_at_level(
            f"{type(self)} should not be instantiated. Methods on autograd functions are all static, so you "
            "should invoke them on the class itself. Instantiating an autograd function will raise an error "
            + named("in a future version of Weft."),
            DeprecationWarning,
            stacklevel=2,
        )

    def __init_subclass__(cls, **keywords: object) -> None:
        super().__init_subclass__(**keywords)
        cls._backward_cls = node_class_for(cls)

    def __call__(self, *args: object, **kwargs: object) -> Any:
        raise RuntimeError(
            "Legacy autograd function with non-static forward method is deprecated. Please use new-style "
            "autograd function with static forward method. (Example: "
            "https://pytorch.org/docs/stable/autograd.html#torch.autograd.Function)"
        )

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """Computes the outputs. Takes ctx first, unless there is a `setup_context`."""
        raise NotImplementedError("You must implement the forward function for custom autograd.Function.")

    @staticmethod
    def setup_context(ctx: FunctionCtx, inputs: tuple[Any, ...], output: Any) -> Any:
        """Saves what backward needs, where forward takes no ctx."""
        raise NotImplementedError("setup_context is not implemented.")

    backward: ClassVar[Callable[..., Any]] = staticmethod(missing_backward)
    vjp: ClassVar[Callable[..., Any]] = staticmethod(missing_backward)

    @staticmethod
    def jvp(ctx: FunctionCtx, *grad_inputs: object) -> Any:
        """The tangents of the outputs for tangents of the inputs (None for inputs without one)."""
        raise NotImplementedError(
            "You must implement the jvp function for custom autograd.Function to use it with forward mode AD."
        )

    @staticmethod
    def vmap(info: object, in_dims: object, *args: object) -> Any:
        """The outputs, and their batch dimensions, for arguments with these batch dimensions."""
        raise NotImplementedError(
            "To use autograd.Function with vmap, you must either override the vmap staticmethod or set "
            "generate_vmap_rule=True."
        )

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Runs forward on the arguments, and records it where gradients are on and some input needs one."""
        setup = cls.setup_context
        if kwargs or setup is not no_setup:
            args = positional(cls, args, kwargs, setup is no_setup)
        needs: list[bool] = []
        live = False
        for value in args:
            kind = type(value)
            if kind is Tensor or kind is Parameter:
                if value.origin is not None:
                    refresh(value)
                if value.tracked:
                    live = True
                    needs.append(True)
                else:
                    needs.append(False)
            elif isinstance(value, Tensor):
                if isinstance(value, Wrapper):
                    return transformed(cls, args)
                if value.origin is not None:
                    refresh(value)
                needs.append(value.tracked)
                live = live or value.tracked
            else:
                needs.append(False)
        ctx: Any = new(FunctionCtx)
        ctx._forward_cls = cls
        ctx.needs_input_grad = tuple(needs)
        mode = state.get()
        if mode is True:
            if live and cls._backward_cls.watched:
                return modal(cls, ctx, args, live, mode)
            try:
                state.set(False)
                if setup is no_setup and seams.callee is None:
                    result = cls.forward(ctx, *args)
                else:
                    result = run_forward(cls, ctx, args)
            finally:
                state.set(True)
            if live:
                return recorded(cls, ctx, args, result, mode, ABSENT)
            return unrecorded_outputs(ctx, args, result)
        return modal(cls, ctx, args, live and mode is not False and mode.grad and not mode.inference, mode)


no_setup = Function.setup_context


# -- running forward -----------------------------------------------------------------------
def run_forward(cls: type[Function], ctx: FunctionCtx, args: tuple[Any, ...]) -> Any:
    """Forward, in either style, with its context."""
    forward = cls.forward
    if seams.callee is not None:
        forward = seams.callee(forward)
    if cls.setup_context is no_setup:
        return forward(ctx, *args)
    result = forward(*args)
    cls.setup_context(ctx, args, result)
    return result


def modal(cls: type[Function], ctx: FunctionCtx, args: tuple[Any, ...], live: bool, mode: State) -> Any:
    """`apply` where modes are active, or where the call is watched (see `function_witness`)."""
    witness: Any = ABSENT
    if live and cls._backward_cls.watched:
        witness = Witness(args)
        token = enter(grad=False, witness=witness)
    else:
        token = enter(grad=False)
    try:
        result = run_forward(cls, ctx, args)
    finally:
        leave(token)
    if not live:
        return unrecorded_outputs(ctx, args, result)
    result = recorded(cls, ctx, args, result, mode, witness)
    if witness is not ABSENT:
        witness.done(cls._backward_cls)
    return result


class Parameters(NamedTuple):
    """What keyword arguments of `apply` may be called."""

    names: tuple[str, ...]
    defaults: dict[str, Any]
    variadic: bool


def parameters_of(cls: type[Function], with_context: bool) -> Parameters:
    """The positional parameters of forward, after ctx."""
    forward = cls.forward
    function = getattr(forward, "__func__", forward)
    known: Parameters
    seen, known = cls._backward_cls.parameters
    if seen is not function:
        every = list(inspect.signature(forward).parameters.values())[1 if with_context else 0 :]
        kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        plain = [p for p in every if p.kind in kinds]
        defaults = {p.name: p.default for p in plain if p.default is not p.empty}
        variadic = any(p.kind is p.VAR_POSITIONAL for p in every)
        known = Parameters(tuple(p.name for p in plain), defaults, variadic)
        cls._backward_cls.parameters = (function, known)
    return known


def positional(
    cls: type[Function], args: tuple[Any, ...], kwargs: dict[str, Any], with_context: bool
) -> tuple[Any, ...]:
    """All arguments in forward's order. With setup_context, its inputs include defaults."""
    names, defaults, variadic = parameters_of(cls, with_context)
    if len(args) >= len(names) and not kwargs:
        if len(args) > len(names) and not variadic and not with_context:
            raise TypeError("too many positional arguments")
        return args
    bound = list(args)
    for position, name in enumerate(names):
        if position < len(args):
            if name in kwargs:
                raise TypeError(f"forward() got multiple values for argument {name!r}")
        elif name in kwargs:
            bound.append(kwargs[name])
        elif with_context and not any(later in kwargs for later in names[position:]):
            break
        elif name in defaults:
            bound.append(defaults[name])
        elif with_context:
            raise TypeError(f"forward() missing required argument: {name!r} (position {position})")
        else:
            raise TypeError(f"missing a required argument: {name!r}")
    for name in kwargs:
        if name not in names:
            raise TypeError(f"forward() got an unexpected keyword argument {name!r}")
    return tuple(bound)


# -- recording -----------------------------------------------------------------------
def recorded(
    cls: type[Function], ctx: Any, args: tuple[Any, ...], result: Any, mode: Any, witness: object
) -> Any:
    """Puts a node behind the outputs of forward."""
    single = type(result) is Tensor or type(result) is not tuple and not isinstance(result, tuple)
    if single and not isinstance(result, Tensor):
        return result
    node = new(cls._backward_cls)
    targets: list[Any] = []
    given = False
    types: list[Any] = []
    offset = 0
    for value in args:
        if isinstance(value, Tensor):
            if value.tracked:
                maker = value.node
                targets.append(value if maker is None else maker)
                offset = offset or value.index
            else:
                targets.append(None)
            array = value.array
            types.append(array.shape)
            types.append(array.dtype)
            given = given or value is result
    node._seq = next_sequence()
    node.next = tuple(targets)
    node.slots = tuple([v.index for v in args if isinstance(v, Tensor)]) if offset else None
    node.layout = None if len(targets) == len(args) else tuple([isinstance(v, Tensor) for v in args])
    node.saved = node.params = ()
    node.versions = node.hooks = node.outputs = None
    node.ctx = ctx
    node.__dict__ = ctx.__dict__
    ctx._node = weakref.ref(node)
    if single:
        array = result.array
        types.append(array.shape)
        types.append(array.dtype)
        if (
            not given
            and ctx.dirty_tensors is None
            and ctx.non_differentiable is None
            and result.origin is None
            and array.dtype.kind == "f"
        ):
            result.node, result.index, result.tracked = node, 0, True
        else:
            result = outputs_of(ctx, node, args, (result,), True)[0]
    else:
        result = outputs_of(ctx, node, args, tuple(result), False)
    node.types = tuple(types)
    if ctx.to_save is not None:
        keep(ctx, node, args, mode, witness)
        ctx.to_save = None
    if mode is not True and mode.anomaly is not None:
        note_origin(node)
    return result


def outputs_of(
    ctx: FunctionCtx, node: Node, args: tuple[Any, ...], values: tuple[Any, ...], single: bool
) -> tuple[Any, ...]:
    """The outputs with this node as their history; see Note [Outputs that are inputs]."""
    dirty, flat = checked_marks(ctx, values)
    tensors = sum(isinstance(value, Tensor) for value in values)
    creation = MULTIPLE if tensors > 1 else CUSTOM
    results: list[Any] = []
    for index, value in enumerate(values):
        if isinstance(value, Tensor):
            given = holds(args, value)
            if BY_NUMPY[value.array.dtype].category < 2 or holds(flat, value):
                value = without_gradient(value, given, holds(dirty, value))
            elif holds(dirty, value):
                value.bump()
                overwritten(value, node, index, tensors)
            else:
                if given:
                    value = alias_view(value, creation)
                elif value.origin is not None:
                    value.origin.creation, value.origin.seen = creation, value.cell[0]
                value.node, value.index, value.tracked = node, index, True
        results.append(value)
    if not single:
        node.outputs = tuple([type_of_output(value) for value in results])
    return tuple(results)


def holds(values: Any, value: object) -> bool:
    """Whether this very object is among the values."""
    for other in values:  # noqa: SIM110  (a generator costs four times as much)
        if value is other:
            return True
    return False


def checked_marks(ctx: FunctionCtx, values: tuple[Any, ...]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """What was marked dirty and what was marked as without gradient, or PyTorch's errors."""
    dirty, flat = ctx.dirty_tensors or (), ctx.non_differentiable or ()
    for value in dirty:
        if not isinstance(value, Tensor):
            raise RuntimeError(
                f"mark_dirty can only accept variables, but argument is of type {type(value).__name__}"
            )
        if not holds(values, value):
            raise RuntimeError(
                "Some elements marked as dirty during the forward method were not returned as output. The "
                "inputs that are modified inplace must all be outputs of the Function."
            )
    for value in flat:
        if not isinstance(value, Tensor):
            raise RuntimeError(
                f"mark_non_differentiable only accepts variable arguments, but got {type(value).__name__}"
            )
    return dirty, flat


def overwritten(value: Tensor, node: Node, index: int, tensors: int) -> None:
    """An output that was marked dirty: the tensor itself gets this history."""
    if value.origin is None:
        if value.tracked and value.node is None:
            raise RuntimeError("a leaf Variable that requires grad has been used in an in-place operation.")
    elif tensors > 1:
        raise RuntimeError(
            "If your Function modifies inplace an input that is a view of another Tensor, your Function "
            "cannot return more than one Tensor. This is not supported by the current autograd engine. You "
            "should either make sure the input is not a view (using .clone() for example) or make your "
            "Function only return one Tensor (potentially splitting it into two Functions: one doing the "
            "inplace that returns a single Tensor and a second one that does the other operations)."
        )
    else:
        check_writable(value, True, True)
    set_history(value, node, index)


def alias_view(value: Tensor, creation: int) -> Tensor:
    """A view of all of a tensor, for an input that is returned as it is."""
    array = value.array.alias() if type(value.array) is MetaArray else value.array[...]
    made = attach_view(value, array, (REGISTRY["alias"], (), None), creation)
    if type(value) is not Tensor and type(value) is not Parameter:
        made.__class__ = type(value)
    return made


def without_gradient(value: Tensor, given: bool, dirty: bool) -> Tensor:
    """An output that no gradient reaches."""
    if dirty:
        value.bump()
        return value.detach() if value.tracked else value
    if given:
        return attach_alias(value)
    if value.tracked and value.origin is None:
        value.detach_()
    return value


def unrecorded_outputs(ctx: FunctionCtx, args: tuple[Any, ...], result: object) -> Any:
    """The outputs of a call that is not recorded: inputs returned as they are become views of themselves."""
    if isinstance(result, tuple):
        values = tuple(result)
    elif isinstance(result, Tensor):
        values = (result,)
    else:
        return result
    if ctx.dirty_tensors is None and ctx.non_differentiable is None:
        for value in values:
            if isinstance(value, Tensor) and (
                value.tracked or value.origin is not None or holds(args, value)
            ):
                break
        else:
            return values if isinstance(result, tuple) else result
    dirty, _flat = checked_marks(ctx, values)
    creation = MULTIPLE if sum(isinstance(value, Tensor) for value in values) > 1 else CUSTOM
    results: list[Any] = []
    for value in values:
        if isinstance(value, Tensor):
            if holds(dirty, value):
                value.bump()
                value = value.detach() if value.tracked else value
            elif holds(args, value):
                value = plain_view(value, creation)
            elif value.origin is not None:
                if not value.tracked:
                    value.origin.creation = creation
            elif value.tracked:
                value.detach_()
        results.append(value)
    return tuple(results) if isinstance(result, tuple) else results[0]


def plain_view(value: Tensor, creation: int) -> Tensor:
    """As `alias_view`, without a gradient even where the tensor needs one."""
    made = alias_view(value, creation)
    if made.tracked:
        made = wrap(made.array, False, type(made))
        made.cell = value.cell
    return made


# -- differentiating once -----------------------------------------------------------------------
TWICE: Final = "trying to differentiate twice a function that was marked with @once_differentiable"


class DelayedError(RefusingNode):
    """Behind the results of a backward that may not be differentiated."""

    __slots__ = ()
    _forward_cls = None  # what runs in backward is not for compilers to try


def once_differentiable(fn: Callable[[Any, *Gradients], Any]) -> Callable[[Any, *Gradients], Any]:
    """Decorator for a `backward` that cannot itself be differentiated: doing so raises."""

    @wraps(fn)
    def backward(ctx: Any, *args: *Gradients) -> Any:
        token = enter(grad=False)
        try:
            outputs = fn(ctx, *args)
        finally:
            leave(token)
        mode = state.get()
        recording = mode if type(mode) is bool else mode.grad
        given = [value for value in args if isinstance(value, Tensor) and value.tracked]
        if not recording or not given:
            return outputs
        several = isinstance(outputs, tuple)
        cut = [blocked(ctx, given, value) for value in (outputs if several else (outputs,))]
        return tuple(cut) if several else cut[0]

    return backward


def blocked(ctx: Any, given: list[Tensor], value: Any) -> Any:
    """A gradient that raises when it is differentiated. Its edges lead to all it may depend on."""
    if value is None:
        return None
    value = value.detach()
    owner = None if getattr(ctx, "_node", None) is None else ctx._node()
    edges = [gradient_edge(tensor) for tensor in given]
    if owner is not None:
        edges += edges_of(owner)
    value.node, value.index, value.tracked = node_between(DelayedError, edges, params=(TWICE,)), 0, True
    return value


# -- transforms -----------------------------------------------------------------------
def transformed(cls: type[Function], args: tuple[Any, ...]) -> Any:
    """`apply` inside a transform: the wrapper class of the innermost one takes the call over."""
    top = highest(args)
    assert top is not None
    handler = INTERPRETERS.get(type(top))
    if handler is None:
        raise NotImplementedError(f"{cls.__name__}.apply on {type(top).__name__} is not supported")
    return handler(cls, args, top.level)


def check_transformable(cls: type[Function]) -> None:
    """Raises where a Function cannot be transformed because its forward takes ctx."""
    if cls.setup_context is no_setup:
        raise RuntimeError(
            "In order to use an autograd.Function with functorch transforms (vmap, grad, jvp, jacrev, ...), "
            f"it must override the setup_context staticmethod. {DOCUMENTATION}"
        )


def batching_rule(cls: type[Function]) -> Callable[..., Any] | None:
    """The Function's own `vmap`; None where the rule is to be generated. Raises where there is neither."""
    check_transformable(cls)
    written = cls.vmap is not Function.vmap
    if cls.generate_vmap_rule:
        if written:
            raise RuntimeError(
                f"You tried to vmap over {cls.__name__}, but it has both generate_vmap_rule=True and an "
                "overridden vmap staticmethod. Please set generate_vmap_rule=False or delete the overridden "
                f"vmap staticmethod to avoid ambiguity. {DOCUMENTATION}"
            )
        return None
    if not written:
        raise RuntimeError(
            f"You tried to vmap over {cls.__name__}, but it does not have vmap support. Please override and "
            f"implement the vmap staticmethod or set generate_vmap_rule=True. {DOCUMENTATION}"
        )
    found: Callable[..., Any] | None = cls.vmap
    return found


def tangents_of(cls: type[Function], ctx: Any, tangents: tuple[Any, ...], count: int) -> tuple[Any, ...]:
    """Runs the Function's `jvp`: one tangent (or None) for each of `count` outputs."""
    if ctx.saved_for_forward is not None:
        ctx._items, ctx._versions, ctx._plain = ctx.saved_for_forward, None, True
    result = cls.jvp(ctx, *tangents)
    values = result if isinstance(result, tuple) else (result,)
    if len(values) != count:
        raise RuntimeError(
            f"Function's jvp returned an invalid number of forward gradients (expected {count} but got "
            f"{len(values)})"
        )
    return values


# -- other names -----------------------------------------------------------------------
BackwardCFunction = FunctionNode
FunctionMeta = type


APPLY: Final[Any] = Function.__dict__["apply"].__func__
"""The function of `Function.apply`, to be told from those of other classes."""


class InplaceFunction(Function):
    """A Function that can be asked to write to its input."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace


class NestedIOFunction(Function):
    """Kept for its name: Functions take and give nested containers as plain objects."""
