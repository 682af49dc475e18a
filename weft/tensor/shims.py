"""Shims: how hand-written methods, properties and functions can be overridden at no cost to plain tensors.

Ops go through the dispatcher, which sees every call that is not plain. Hand-written functions have no such
place, and a check in each would cost every user. One idea: the check exists only while an override does.

# Note [Shims]
Subclasses: when a class derives from Tensor, the attributes it inherits from Tensor are put into it once
more, wrapped to offer the call first. `MyTensor.size` then differs from `Tensor.size`; overrides receive
`Tensor.size`.

Modes: while a function mode is active, the functions themselves run other code: `f.__code__` is replaced by
that of

    def shim(*args, **kwargs):
        handler = <constant>
        return handler(args, kwargs)

and put back when the last mode is left, so that `f` stays the same object and `func is Tensor.size` holds
within a mode too. The handler asks the modes of its own context, so other threads see no difference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, wraps
from types import CodeType, FunctionType
from typing import Any

from weft.core.modes import current
from weft.core.once import lock
from weft.tensor.base import PLAIN, PUBLIC, Tensor
from weft.tensor.overrides import disabled_torch_function, intercept_call

IGNORED = frozenset(
    {
        "__class__", "__delattr__", "__delitem__", "__dir__", "__getattr__", "__getattribute__",
        "__hash__", "__init__", "__init_subclass__", "__iter__", "__new__", "__setattr__",
        "__subclasshook__", "__torch_function__", "_make_subclass", "as_subclass", "bump",
        "shared_cell",
    }
)  # fmt: skip
"""Attributes of Tensor that cannot be overridden, as in PyTorch; and our own helpers."""
OFFERED_PRIVATE = frozenset({"_base", "_version", "_is_view", "_backward_hooks"})
NOT_OFFERED = frozenset(
    {
        "are_deterministic_algorithms_enabled", "broadcast_shapes", "can_cast", "compile",
        "from_dlpack", "from_numpy", "frombuffer", "get_default_device", "get_default_dtype",
        "get_num_threads", "get_printoptions", "get_rng_state", "initial_seed",
        "is_autocast_enabled", "is_grad_enabled", "is_inference_mode_enabled", "is_storage",
        "is_tensor", "load", "manual_seed", "promote_types", "save", "seed", "set_default_device",
        "set_default_dtype", "set_grad_enabled", "set_num_threads", "set_printoptions",
        "set_rng_state", "typename", "use_deterministic_algorithms",
    }
)  # fmt: skip
"""Public functions that take or make no tensor of the user's: modes do not see them, as in PyTorch."""
TYPES = ("shape", "dtype", "device", "ndim", "requires_grad")
"""Properties that are read at every turn: modes whose `knows_types` is set are not asked for those of plain
tensors."""
FURTHER: list[Any] = []
"""Functions of layers above that modes shall see."""


def attributes() -> dict[str, Any]:
    """The hand-written methods and properties of Tensor that can be overridden."""
    found: dict[str, Any] = {}
    for name, value in Tensor.__dict__.items():
        private = name.startswith("_") and not name.endswith("__") and name not in OFFERED_PRIVATE
        if name in IGNORED or private:
            continue
        if isinstance(value, property) or (isinstance(value, FunctionType) and not hasattr(value, "op")):
            found[name] = value
    return found


def functions() -> dict[str, FunctionType]:
    """The hand-written public functions that modes see, by qualified name."""
    found = {
        name: value
        for name, value in PUBLIC.items()
        if isinstance(value, FunctionType) and name not in NOT_OFFERED
    }
    return found | {f"{f.__module__.removeprefix('weft.').split('.')[0]}.{f.__name__}": f for f in FURTHER}


# -- subclasses ----------------------------------------------------------------------------------------------
_SHIMS: dict[Any, Any] = {}


def equip(cls: type[Tensor]) -> None:
    """Puts shims into a new subclass, unless it wants no overriding or defines the attribute itself."""
    if getattr(cls, "__torch_function__", None) is disabled_torch_function:
        return
    for name, value in attributes().items():
        owner = next(base for base in cls.__mro__ if name in base.__dict__)
        if owner is Tensor:
            shim = _SHIMS.get(value)
            if shim is None:
                made = property_shim(value) if isinstance(value, property) else method_shim(value)
                shim = _SHIMS.setdefault(value, made)
            setattr(cls, name, shim)


def method_shim(plain: FunctionType) -> Callable[..., Any]:
    @wraps(plain)
    def shim(*args: object, **kwargs: object) -> Any:
        handled, result = intercept_call(plain, args, kwargs)
        return result if handled else plain(*args, **kwargs)

    return shim


def property_shim(plain: property) -> property:
    def bind(function: object, accessor: Any) -> Any:
        if function is None:
            return None

        def shim(*args: object) -> Any:
            handled, result = intercept_call(accessor, args, {})
            return result if handled else accessor(*args)

        return shim

    return property(
        bind(plain.fget, plain.__get__),
        bind(plain.fset, plain.__set__),
        bind(plain.fdel, plain.__delete__),
        plain.__doc__,
    )


# -- modes ---------------------------------------------------------------------------------------------------
class Swap:
    """One function, its own code and the code it runs while a mode is active."""

    __slots__ = ("function", "code", "shim")

    def __init__(self, function: FunctionType, public: Callable[..., Any]) -> None:
        code = function.__code__
        plain = FunctionType(
            code, function.__globals__, function.__name__, function.__defaults__, function.__closure__
        )
        plain.__kwdefaults__ = function.__kwdefaults__

        is_type = any(public == Tensor.__dict__[name].__get__ for name in TYPES)
        follows = public == Tensor.__dict__["requires_grad"].__get__  # of views, what became of their bases

        def handler(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            if is_type and type(args[0]) in PLAIN and not (follows and args[0].origin is not None):
                mode = current()
                functions = () if type(mode) is bool else mode.functions
                if not functions or getattr(functions[-1], "knows_types", False):
                    return plain(*args)
            handled, result = intercept_call(public, args, kwargs)
            return result if handled else plain(*args, **kwargs)

        self.function, self.code, self.shim = function, code, shim_code(code, handler)


_MARK = "weft.tensor.shims: the handler stands here"


@cache
def _shim_pattern(names: str) -> CodeType:
    text = (
        f"def outer({names}):\n    def shim(*args, **kwargs):\n        if 0: ({names})\n"
        f"        handler = {_MARK!r}\n        return handler(args, kwargs)\n"
    )
    outer = next(c for c in compile(text, "<weft shim>", "exec").co_consts if isinstance(c, CodeType))
    return next(c for c in outer.co_consts if isinstance(c, CodeType))


def shim_code(code: CodeType, handler: Callable[..., Any]) -> CodeType:
    """Code that calls the handler, fit for a function with the free variables of `code`."""
    shim = _shim_pattern(", ".join(code.co_freevars))
    constants = tuple(handler if c == _MARK else c for c in shim.co_consts)
    return shim.replace(co_consts=constants, co_name=code.co_name, co_qualname=code.co_qualname)


def _swaps() -> Iterator[Swap]:
    seen: set[int] = set()
    pairs: list[tuple[Any, Any]] = [(f, f) for f in functions().values()]
    for value in attributes().values():
        if isinstance(value, property):
            pairs += [
                (value.fget, value.__get__),
                (value.fset, value.__set__),
                (value.fdel, value.__delete__),
            ]
        else:
            pairs.append((value, value))
    for function, public in pairs:
        if isinstance(function, FunctionType) and not hasattr(function, "op") and id(function) not in seen:
            seen.add(id(function))
            yield Swap(function, public)


_SWAPS: list[Swap] = []
_lock = lock()
_active = 0


def activate() -> None:
    """A function mode was entered. Who is interrupted here has entered none: functions with shims that nobody
    needs still do what they do, and the next mode that is left takes them away.
    """
    global _active
    with _lock:
        if not _active:
            if not _SWAPS:
                _SWAPS[:] = list(_swaps())
            for swap in _SWAPS:
                swap.function.__code__ = swap.shim
        _active += 1


def deactivate() -> None:
    """A function mode was left."""
    global _active
    with _lock:
        _active -= 1
        if _active == 0:
            for swap in _SWAPS:
                swap.function.__code__ = swap.code
