"""Overrides: `__torch_function__` on classes and function modes, either of which may take any call over.

Takes a call that is not plain and decides who handles it: `intercept` answers `(True, result)` if an override
did. One idea: every route (ops by the dispatcher, hand-written functions by `weft.tensor.shims`) ends in one
function, `offer`.

# Note [What an override receives]
`func` is the public function object: for ops the face, which is function and method alike (`weft.add is
Tensor.add`); for properties the bound `__get__`, `__set__` or `__delete__` of `Tensor`'s property, as in
PyTorch. A composite gives itself, and the ops inside it run plain once somebody called `func` under
`DisableTorchFunctionSubclass`. Ops arrive with their arguments in one form whatever the caller wrote:
positional where the signature allows it, keyword-only ones by name, defaults left out.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from functools import wraps
from types import FunctionType
from typing import TYPE_CHECKING, Any, Final, ParamSpec

from weft.core.modes import current, enter, enter_functions, leave, modes
from weft.core.seams import seams
from weft.core.trees import sequence_like
from weft.core.warn import warn_at_level
from weft.ops.record import Op
from weft.ops.signature import MISSING, TENSORS
from weft.tensor.base import PLAIN, Parameter, Tensor, new
from weft.tensor.tape import INFERENCE

if TYPE_CHECKING:
    from weft.core.modes import State


Arguments = ParamSpec("Arguments")
SIMPLE = (type(None), bool, int, float, str)


def disabled_torch_function(
    func: Callable[..., Any], types: tuple[type, ...], args: tuple[Any, ...] = (), kwargs: Any = None
) -> Any:
    """For classes that want no overriding: runs the call and leaves results plain."""
    token = enter(shielded=True)
    try:
        return func(*args, **(kwargs or {}))
    finally:
        leave(token)


def has_override(value: object) -> bool:
    """Whether this argument's class defines a `__torch_function__` that counts."""
    kind = type(value)
    return (
        kind not in PLAIN
        and getattr(kind, "__torch_function__", disabled_torch_function) is not disabled_torch_function
    )


def disabled_torch_dispatch(
    func: Any, types: tuple[type, ...], args: tuple[Any, ...] = (), kwargs: Any = None
) -> Any:
    """What tensors have that want no handler below autograd (see `weft.tensor.below`): the operator on their
    arrays.
    """
    token = enter(dispatch=(), unhandled=True)
    try:
        return func(*args, **(kwargs or {}))
    finally:
        leave(token)


def has_handler(value: object) -> bool:
    """Whether the class of a value has a `__torch_dispatch__` of its own."""
    kind = type(value)
    return kind not in PLAIN and isinstance(value, Tensor) and has_own_handler(kind)


def has_own_handler(kind: Any) -> bool:
    """Whether a class of tensors has a `__torch_dispatch__` of its own."""
    return kind.__torch_dispatch__ is not disabled_torch_dispatch


handling: Final[list[Any]] = []
"""The dispatch modes that are active in any thread, and the first class with a `__torch_dispatch__`. While it
is empty, nobody needs to ask for either.
"""


def is_offered(mode: State, values: Iterable[Any]) -> bool:
    """Whether a mode or a class is to be asked below autograd."""
    if type(mode) is not bool:
        if mode.dispatch:
            return True
        if mode.unhandled:
            return False
    return any(map(has_handler, values))


def offer_function(mode: State, name: str, tensor: Tensor, *args: Any) -> tuple[bool, Any]:
    """Offers an operator that no record stands behind: whether somebody was there, and the answer."""
    if not is_offered(mode, (tensor, *args)):
        return False, None
    return True, seams.below.function_offered(name, tensor, *args)


def overloaded(values: Iterable[Any]) -> list[Any]:
    """The arguments that may take the call over, one per class: in order, subclasses before bases."""
    found: list[Any] = []
    for value in values:
        if not has_override(value):
            continue
        kind = type(value)
        if any(type(other) is kind for other in found):
            continue
        position = next((i for i, other in enumerate(found) if issubclass(kind, type(other))), len(found))
        found.insert(position, value)
    return found


PLAIN_METHOD: Final = (
    "Defining your `__torch_function__` as a plain method is deprecated and will be an error in future, "
    "please define it as a classmethod."
)


def offer(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    candidates: list[Any],
    functions: Any,
) -> Any:
    """The protocol: the innermost mode first, then the classes of `candidates`; TypeError if all decline."""
    types = tuple(type(value) for value in candidates)
    if functions:
        token = enter_functions(functions[:-1])
        try:
            result = functions[-1].__torch_function__(function, types, args, kwargs)
        finally:
            leave(token)
        if result is not NotImplemented:
            return result
    for value in candidates:
        handler: Any = type(value).__torch_function__
        if type(handler) is FunctionType and not isinstance(
            inspect.getattr_static(type(value), "__torch_function__"), staticmethod
        ):
            warn_at_level(PLAIN_METHOD, UserWarning, stacklevel=3)
            handler = handler.__get__(value)
        result = handler(function, types, args, kwargs)
        if result is not NotImplemented:
            return result
    raise TypeError(_declined(function, types, functions))


def _declined(function: Callable[..., Any], types: tuple[type, ...], functions: Any) -> str:
    name = name_of(function)
    if name.startswith("weft.nn.functional."):
        found = (
            f"no implementation found for '{name}' on types that implement __torch_function__: {list(types)}"
        )
        return f"{found} nor in mode {functions[-1]}" if functions else found
    lines = [
        f"Multiple dispatch failed for '{name}'; all __torch_function__ handlers returned NotImplemented:",
        "",
    ]
    lines += [f"  - mode object {functions[-1]}"] if functions else []
    return "\n".join([*lines, *(f"  - tensor subclass {kind}" for kind in types)])


def name_of(function: Callable[..., Any]) -> str:
    """The public name of something overridable: `weft.add`, `weft.Tensor.shape.__get__`."""
    owner = getattr(function, "__self__", None)
    name = getattr(function, "__name__", repr(function))
    if isinstance(owner, property):
        found = next((key for key, value in Tensor.__dict__.items() if value is owner), "property")
        return f"weft.Tensor.{found}.{name}"
    if hasattr(function, "op") and not name.startswith("__"):
        return f"{function.__module__}.{name}"
    method = next((key for key, value in Tensor.__dict__.items() if value is function), None)
    if method is not None:
        return f"weft.Tensor.{method}"
    layer = getattr(function, "__module__", "weft").split(".")[1:2]
    return ".".join(["weft", *(part for part in layer if part != "tensor"), name])


# -- ops -----------------------------------------------------------------------------------------------------
def call_form(op: Op, bound: tuple[Any, ...]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The bound arguments as a user would write them: see Note [What an override receives]."""
    positional: list[Any] = []
    keywords: dict[str, Any] = {}
    pending: list[Any] = []
    for parameter, value in zip(op.signature.parameters, bound, strict=True):
        if parameter.variadic:
            sizes = not value and parameter.annotation == "Shape"  # zeros(()) is not zeros()
            positional += [*pending, *(((),) if sizes else value)]
            pending = []
            continue
        default = parameter.default is not MISSING and _same(value, parameter.default)
        if parameter.keyword_only:
            if not default:
                keywords[parameter.name] = value
        elif default:
            pending.append(value)
        else:
            positional += [*pending, value]
            pending = []
    return tuple(positional), keywords


def _same(value: object, default: object) -> bool:
    return value is default or (
        type(value) is type(default) and type(value) in SIMPLE and bool(value == default)
    )


def intercept(op: Op, bound: tuple[Any, ...], tensors: list[Any], mode: State) -> tuple[bool, Any]:
    """Offers the call of an op to modes and argument classes."""
    return intercept_function(op.face, op, bound, tensors, mode)


def intercept_function(
    function: Callable[..., Any],
    op: Op,
    bound: tuple[Any, ...],
    tensors: list[Any],
    mode: Any,
    out: Any = None,
) -> tuple[bool, Any]:
    """As `intercept`, for any form of the op. Ops that no user can name are never offered."""
    shielded, functions = (False, ()) if type(mode) is bool else (mode.shielded, mode.functions)
    public = op.function or op.method or (functions and getattr(functions[-1], "sees_private", False))
    values = tensors if out is None else [*tensors, *(out if isinstance(out, (tuple, list)) else (out,))]
    candidates = [] if shielded or not public else overloaded(values)
    if not candidates and not (functions and public):
        _refuse_strangers(op, bound)
        return False, None
    args, kwargs = call_form(op, bound)
    if out is not None:
        kwargs["out"] = out
    return True, offer(function, args, kwargs, candidates, functions)


def _refuse_strangers(op: Op, bound: tuple[Any, ...]) -> None:
    """Objects that only their own `__torch_function__` could serve must not reach a kernel."""
    for position, (parameter, value) in enumerate(zip(op.signature.parameters, bound, strict=True)):
        if parameter.is_tensor:
            items: Any = (value,)
        elif parameter.annotation == TENSORS:
            items = value
        else:
            continue
        for item in items:
            if not isinstance(item, Tensor) and has_override(item):
                raise TypeError(
                    f"{op.name}(): argument '{parameter.name}' (position {position + 1}) must be Tensor, "
                    f"not {type(item).__name__}"
                )


# -- hand-written functions ----------------------------------------------------------------------------------
def intercept_call(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[bool, Any]:
    """Offers a call that no op stands behind; looks into sequences of arguments one level deep."""
    mode = current()
    shielded, functions = (False, ()) if type(mode) is bool else (mode.shielded, mode.functions)
    candidates = [] if shielded else overloaded(_laid_out((*args, *kwargs.values())))
    if not candidates and not functions:
        return False, None
    return True, offer(function, args, kwargs, candidates, functions)


def _laid_out(values: Iterable[Any]) -> list[Any]:
    flat: list[Any] = []
    for value in values:
        flat += value if type(value) is list or type(value) is tuple else (value,)
    return flat


def has_torch_function(relevant_args: Iterable[Any]) -> bool:
    """Whether a mode or the class of one of these arguments would take a call over."""
    mode = current()
    if type(mode) is not bool:
        if mode.functions:
            return True
        if mode.shielded:
            return False
    return any(has_override(value) for value in relevant_args)


def handle_torch_function(
    public_api: Callable[..., Any], relevant_args: Iterable[Any], *args: object, **kwargs: object
) -> Any:
    """Hands a call of `public_api` to whoever overrides it; to be asked after `has_torch_function`."""
    mode = modes()
    candidates = [] if mode.shielded else overloaded(relevant_args)
    return offer(public_api, args, kwargs, candidates, mode.functions)


def wrap_torch_function(
    dispatcher: Callable[Arguments, Iterable[Any]],
) -> Callable[[Callable[Arguments, Any]], Callable[Arguments, Any]]:
    """Decorator: makes a function overridable by the arguments that `dispatcher`, called alike, picks."""

    def decorate(function: Callable[Arguments, Any]) -> Callable[Arguments, Any]:
        @wraps(function)
        def wrapped(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Any:
            relevant = tuple(dispatcher(*args, **kwargs))
            if has_torch_function(relevant):
                return handle_torch_function(wrapped, relevant, *args, **kwargs)
            return function(*args, **kwargs)

        return wrapped

    return decorate


# -- what Tensor subclasses do by default --------------------------------------------------------------------
NO_WRAP = ("_base", "grad")
"""Properties that give a tensor as it was stored."""


def default_torch_function(
    cls: type[Tensor],
    func: Callable[..., Any],
    types: tuple[type, ...],
    args: tuple[Any, ...] = (),
    kwargs: Any = None,
) -> Any:
    """What a Tensor subclass does unless it says otherwise: run the call, and give results its own class."""
    if not all(issubclass(cls, kind) for kind in types):
        return NotImplemented
    token = enter(shielded=True)
    try:
        result = func(*args, **(kwargs or {}))
        owner = getattr(func, "__self__", None)
        if isinstance(owner, property) and any(owner is Tensor.__dict__.get(name) for name in NO_WRAP):
            return result
        return convert(result, cls, args)
    finally:
        leave(token)


def convert(result: object, cls: type[Tensor], args: tuple[Any, ...] = ()) -> Any:
    """Plain tensors in a result take the subclass. A tensor made by the call itself is taken over with its
    history; one that exists beside it (an argument, a leaf) gets a view of the other class."""
    if cls is Tensor:
        return result
    if isinstance(result, Tensor):
        if isinstance(result, cls):
            return result
        shared = (
            result.hooks is not None
            or (result.tracked and result.node is None)
            or any(result is a for a in args)
        )
        return result.as_subclass(cls) if shared else retyped(result, cls)
    if isinstance(result, (tuple, list)) and any(isinstance(item, (Tensor, tuple, list)) for item in result):
        return sequence_like(result, [convert(item, cls, args) for item in result])
    return result


def retyped(tensor: Tensor, cls: type[Tensor]) -> Any:
    """The tensor as an instance of another class: same memory, version and history."""
    made = new(cls)
    made.array, made.tracked, made.node, made.index = tensor.array, tensor.tracked, tensor.node, tensor.index
    made.cell = tensor.cell if tensor.cell is INFERENCE else tensor.shared_cell()
    view = tensor.origin
    made.origin = None if view is None else type(view)(view.base, view.steps, view.creation, view.seen)
    made._grad = made.hooks = None
    return made


class DisableTorchFunctionSubclass:
    """Context in which no class takes a call over; function modes still do."""

    def __init__(self) -> None:
        self._before: list[dict[str, Any]] = []

    def _changes(self) -> dict[str, Any]:
        return {"shielded": True}

    def __enter__(self) -> None:
        changes = self._changes()
        before = modes()
        self._before.append({name: getattr(before, name) for name in changes})
        enter(**changes)

    def __exit__(self, *_error: object) -> None:
        enter(**self._before.pop())


class DisableTorchFunction(DisableTorchFunctionSubclass):
    """Context in which neither classes nor the modes entered so far take a call over."""

    def _changes(self) -> dict[str, Any]:
        return {"shielded": True, "functions": ()}


setattr(Tensor, "__torch_function__", classmethod(default_torch_function))  # noqa: B010
setattr(Tensor, "__torch_dispatch__", staticmethod(disabled_torch_dispatch))  # noqa: B010
setattr(Parameter, "__torch_function__", staticmethod(disabled_torch_function))  # noqa: B010
