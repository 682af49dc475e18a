"""Forms: the compiled form of whatever a user hands to `weft.compile`.

Takes functions, methods, modules, classes and other callables, gives what to call instead. One idea:
everything ends at the front of a Python function (see Note [Front]); what has none is wrapped in a function
that calls it.

# Note [Optimised modules]
An `OptimizedModule` has the original module's `__dict__` for its own, and looks names up on the original. So
parameters, state dicts, hooks and attributes are the same ones, whichever of the two is asked. Methods that
return the module itself (`to`, `eval`) return the optimised one.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any, Final

from weft.capture.calls import BY_CODE, handles
from weft.capture.eligible import GENERATOR_LIKE
from weft.capture.kinds import Unsupported
from weft.capture.policy import MARK
from weft.capture.runtime import Context, original_of
from weft.capture.values import Args, Kwargs
from weft.capture.wrapping import library_native
from weft.core.seams import seams
from weft.nn.modules import hooks
from weft.nn.modules.module import Module, _addindent

if TYPE_CHECKING:
    from weft.capture.machine import Machine

CALL = "__call__"
CALLS: Final = {Module.__call__.__code__}
"""The code of the `__call__` of modules that the library gives them: they do no more than `_call_impl`."""


def compiled_form(context: Context, target: Any) -> Any:
    """What to call instead of `target`, so that it runs compiled."""
    if isinstance(target, Module):
        return OptimizedModule(target, context)
    if isinstance(target, type):
        return _class_form(context, target)
    if not callable(target):
        raise AssertionError(f"A callable function is expected, but {type(target)} is provided.")
    if type(target) is functools.partial:
        return _partial_form(context, target)
    if isinstance(target, (FunctionType, MethodType)):
        return _function_form(context, original_of(target))
    return context.front(_calling(target))  # which finds `__call__` where Python does, at each call


def _function_form(context: Context, target: Any) -> Any:
    function = target.__func__ if isinstance(target, MethodType) else target
    if function is Module._call_impl:
        return module_call(target.__self__, context)
    if not isinstance(function, FunctionType):
        return context.front(_calling(target))
    if MARK in function.__dict__:
        return target
    if function.__code__.co_flags & GENERATOR_LIKE:
        return _as_written(context, target)
    of_library = library_native(function) or function.__code__ in BY_CODE
    return context.front(_calling(target) if of_library else target)


def _partial_form(context: Context, target: functools.partial[Any]) -> functools.partial[Any]:
    """A partial of the compiled function; the keywords are the same dictionary, which users may change."""
    made = functools.partial(compiled_form(context, target.func))
    held: Any = made
    held.__setstate__((made.func, target.args, target.keywords, {**target.__dict__}))
    return made


def _calling(target: Any) -> FunctionType:
    """A Python function around something that has no code of its own, or whose code is the library's."""

    @functools.wraps(target, updated=())
    def call(*args: Any, **kwargs: Any) -> Any:
        return target(*args, **kwargs)

    return call  # type: ignore[return-value]


def _as_written(context: Context, target: Callable[..., Any]) -> Callable[..., Any]:
    """Generators and coroutines are suspended and resumed by others: they run as written.

    So the function is its own compiled form: others ask whether it is a coroutine function.
    """
    if not context.fullgraph:
        return target

    @functools.wraps(target)
    def refuse(*_args: Any, **_kwargs: Any) -> Any:
        raise Unsupported(
            f"{target.__qualname__} is a generator or coroutine function, which runs as written"
        )

    return refuse


def _class_form(context: Context, cls: type) -> type:
    """The class itself; calls of its instances run compiled."""
    if issubclass(cls, Module):

        def call(self: Module, *args: Any, **kwargs: Any) -> Any:
            whole = MethodType(Module._call_impl, self)
            return context.callee(whole if has_hooks(self) else self.forward)(*args, **kwargs)

        CALLS.add(call.__code__)
        setattr(cls, CALL, call)
    else:
        own = getattr(cls, CALL, None)
        if type(own) is FunctionType:
            setattr(cls, CALL, context.front(original_of(own)))
    return cls


# -- modules -------------------------------------------------------------------------------------------------
SELF_RETURNING = (
    "apply", "bfloat16", "cpu", "cuda", "double", "eval", "float", "half", "requires_grad_", "share_memory",
    "to", "to_empty", "train", "type", "zero_grad",
)  # fmt: skip
FORWARDED = (
    "__len__", "__iter__", "__reversed__", "__contains__", "__getitem__", "__setitem__", "__delitem__",
    "__enter__", "__exit__",
)  # fmt: skip


def has_hooks(module: Module) -> bool:
    fields = module.__dict__
    return bool(
        fields["_backward_hooks"]
        or fields["_backward_pre_hooks"]
        or fields["_forward_hooks"]
        or fields["_forward_pre_hooks"]
        or hooks._global_backward_hooks
        or hooks._global_backward_pre_hooks
        or hooks._global_forward_hooks
        or hooks._global_forward_pre_hooks
    )


def module_call(module: Module, context: Context) -> Callable[..., Any]:
    """What calls the module compiled: its forward alone where there are no hooks, else the whole call; what
    its class has for `__call__`, where that is not ours.
    """
    whole = context.front(MethodType(Module._call_impl, module))
    special = context.front(_calling(module))
    plain = Module.__call__
    known: Any = None
    compiled: Any = None

    def call(*args: Any, **kwargs: Any) -> Any:
        nonlocal known, compiled
        own = type(module).__call__
        if own is not plain and getattr(own, "__code__", None) not in CALLS:
            return special(*args, **kwargs)
        if has_hooks(module):
            return whole(*args, **kwargs)
        forward = module.forward
        if forward != known:
            known, compiled = forward, compiled_form(context, forward)
        return compiled(*args, **kwargs)

    return call


class OptimizedModule(Module):
    """The compiled face of the module `_orig_mod`."""

    __module__ = "weft.compiler"
    __slots__ = ("_orig_mod", "_weft_call", "_weft_context")
    _orig_mod: Module
    _weft_call: Callable[..., Any]
    _weft_context: Context

    def __new__(cls, module: Module, *_rest: Any) -> OptimizedModule:
        names = [name for name in FORWARDED if hasattr(type(module), name)]
        if names and cls is OptimizedModule:
            members = {name: _FORWARDED[name] for name in names}
            cls = type(
                "OptimizedModule",
                (OptimizedModule,),
                {"__slots__": (), "__module__": cls.__module__, **members},
            )
        return object.__new__(cls)

    def __init__(self, module: Module, context: Context) -> None:
        object.__setattr__(self, "__dict__", module.__dict__)
        for name, value in (
            ("_orig_mod", module),
            ("_weft_context", context),
            ("_weft_call", module_call(module, context)),
        ):
            object.__setattr__(self, name, value)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return _call_of(self)(*args, **kwargs)

    forward = __call__

    def __getattribute__(self, name: str) -> Any:
        if name in OWN:
            return object.__getattribute__(self, name)
        return getattr(_original_of(self), name)

    def __getattr__(self, name: str) -> Any:  # asked again where the original has no such attribute
        return getattr(_original_of(self), name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(_original_of(self), name, value)

    def __delattr__(self, name: str) -> None:
        delattr(_original_of(self), name)

    def __dir__(self) -> list[str]:
        return sorted({*dir(_original_of(self)), "_orig_mod"})

    def __repr__(self) -> str:
        return f"OptimizedModule(\n  (_orig_mod): {_addindent(repr(_original_of(self)), 2)}\n)"

    def __reduce_ex__(self, protocol: Any) -> Any:
        return _compiled_again, (_original_of(self), self._weft_context.options)

    def __deepcopy__(self, memo: dict[int, Any]) -> OptimizedModule:
        original = copy.deepcopy(_original_of(self), memo)
        memo[id(self)] = made = OptimizedModule(original, self._weft_context.again())
        return made

    def __copy__(self) -> OptimizedModule:
        return OptimizedModule(copy.copy(_original_of(self)), self._weft_context)


def _compiled_again(original: Module, options: dict[str, Any]) -> Any:
    """Unpickles an optimised module: the original is pickled, entries are not."""
    return seams.compile(original, **options)


def _forwarded(name: str) -> Callable[..., Any]:
    def method(self: OptimizedModule, *args: Any) -> Any:
        return getattr(_original_of(self), name)(*args)

    method.__name__ = name
    return method


def _keeping(name: str) -> Callable[..., Any]:
    def method(self: OptimizedModule, *args: Any, **kwargs: Any) -> Any:
        original = _original_of(self)
        result = getattr(original, name)(*args, **kwargs)
        return self if result is original else result

    method.__name__ = name
    return method


_original_of: Callable[[OptimizedModule], Module] = OptimizedModule.__dict__["_orig_mod"].__get__
_call_of: Callable[[OptimizedModule], Callable[..., Any]] = OptimizedModule.__dict__["_weft_call"].__get__
for _name in SELF_RETURNING:
    if hasattr(Module, _name):
        setattr(OptimizedModule, _name, _keeping(_name))
_FORWARDED = {name: _forwarded(name) for name in FORWARDED}
OWN = frozenset(OptimizedModule.__dict__) - {"__doc__", "__module__"} | {"__class__", "__dict__"}


# -- in captured code: the original, whatever is asked -------------------------------------------------------
def _in_capture(machine: Machine, optimised: Any) -> Any:
    return machine.attributes.load_slot(OptimizedModule.__dict__["_orig_mod"], optimised)


@handles(OptimizedModule.__call__)
def _call_in_capture(machine: Machine, args: Args, kwargs: Kwargs) -> Any:
    return machine.calls.call(_in_capture(machine, args[0]), args[1:], kwargs)


@handles(OptimizedModule.__getattribute__)
def _load_in_capture(machine: Machine, args: Args, _kwargs: Kwargs) -> Any:
    optimised, name = args
    original = _in_capture(machine, optimised)
    return original if name == "_orig_mod" else machine.attributes.load(original, name)


@handles(OptimizedModule.__setattr__)
def _store_in_capture(machine: Machine, args: Args, _kwargs: Kwargs) -> None:
    machine.attributes.store(_in_capture(machine, args[0]), args[1], args[2])


def _forwarded_in_capture(name: str) -> Any:
    def handler(machine: Machine, args: Args, kwargs: Kwargs) -> Any:
        method = machine.attributes.load(_in_capture(machine, args[0]), name)
        return machine.calls.call(method, args[1:], kwargs)

    return handler


for _name, _method in _FORWARDED.items():
    handles(_method)(_forwarded_in_capture(_name))
