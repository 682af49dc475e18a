"""Function transforms inside captured code: `vmap`, `grad`, `vjp`, `jvp`, Jacobians, duals, also nested.

Takes calls of transforms and of what they made; runs the library's own code over the fakes, the user's
function called back into the interpreter. One idea: a transform is a program like any other, which calls ops
on wrappers; wrappers call ops on what they hold, and those are plain ops on fakes, which the recorder writes
down. So nothing of a transform is in the graph but what it computes.

# Note [Transforms in a graph]
    per_example = vmap(grad(loss), in_dims=(None, 0))       made inside, or before the call
    per_example(weights, xs)

`vmap(f)` gives a closure of the library's code over `f`. When it is called, its cells are read as those of
any function (guarded where it existed before), `f` is put into a `Callback`, and the same code runs on these
cells. What captured code sees inside are wrappers around fakes: tensors that are never inputs or outputs of
the graph. One that is kept by somebody beyond the transform cannot be rebuilt, and is a break.
"""

from __future__ import annotations

import operator
import types
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from weft.autograd import forward_ad, functional
from weft.autograd.batched import BatchTensor
from weft.autograd.dual import DualTensor
from weft.autograd.mapping import vmap
from weft.capture.calls import BY_CODE, handles
from weft.capture.protocols import EQUALITY
from weft.capture.values import Args, Callback, Kwargs, has_type
from weft.capture.wrapping import RULES, SYMBOLIC
from weft.func import forward, reverse
from weft.tensor.base import Tensor
from weft.tensor.wrapper import Level, Wrapper, levels
from weft.trace.breaks import Break, NeedOps
from weft.trace.scalars import plain

if TYPE_CHECKING:
    from weft.capture.machine import Machine

KIND: Final = "transform-inside"
CONTAINERS: Final = frozenset({tuple, list, dict, OrderedDict, defaultdict, deque})
WALKED: Final = ("__iter__", "__len__", "__getitem__", "items", "keys", "values", "__new__", "__init__")


class TransformedFunction(Callback):
    """A function of the user's, as transforms call it."""

    __slots__ = ()

    @property
    def __name__(self) -> str:
        found = getattr(self.function, "__func__", self.function)
        if type(found) is types.FunctionType:
            return found.__name__
        raise AttributeError("__name__")  # the library then asks for its text, which is a break


def adapted(machine: Machine, value: Any) -> Any:
    """The value as the library may hold it: what can be called re-enters the interpreter."""
    if has_type(value, SYMBOLIC) or type(value) in CONTAINERS:
        return settled(value)
    if type(value) is TransformedFunction or has_type(value, (type, Tensor, Level)) or not callable(value):
        return value
    return TransformedFunction(value.function if type(value) is Callback else value, machine.calls.call)


def settled(value: Any) -> Any:
    """The value with numbers in place of those that may vary: dimensions, `argnums`, sizes of chunks."""
    kind = type(value)
    if has_type(value, SYMBOLIC):
        return plain(value)
    if kind is tuple or kind is list:
        items = [settled(item) for item in value]
        return value if all(map(operator.is_, items, value)) else kind(items)
    if kind is dict:
        return {key: settled(item) for key, item in value.items()}
    return value


def check_tree(machine: Machine, value: Any) -> None:
    """Breaks where walking a container would run code of the user's."""
    kind = type(value)
    if kind not in CONTAINERS:
        if not has_type(value, (tuple, list, dict, deque)):
            return
        named = has_type(value, tuple) and hasattr(kind, "_fields")
        names = WALKED[:-2] if named else WALKED
        if any(machine.attributes.python_method(value, name) is not None for name in names):
            raise Break("library-callback", seen=f"a {kind.__name__} handed to a transform")
    if has_type(value, dict):
        machine.c_arguments.check(list(dict.keys(value)), EQUALITY)
    for item in dict.values(value) if has_type(value, dict) else value:
        check_tree(machine, item)


def run(machine: Machine, function: Any, args: Args, kwargs: Kwargs, seen: str) -> Any:
    """Calls code of the library's that calls functions of the user's."""
    if not machine.by_ops:
        raise NeedOps(KIND, seen=seen)
    for value in (*args, *kwargs.values()):
        check_tree(machine, value)
    count = len(machine.world.hooked)
    result = machine.world.keep(machine.native(function, *args, **kwargs))
    machine.world.hooked[count:] = [one for one in machine.world.hooked[count:] if not is_over(machine, one)]
    return result


def is_over(machine: Machine, registered: Any) -> bool:
    """Whether a hook that captured code registered was for the gradients of a transform that has ended."""
    tensor = getattr(registered, "tensor", None)
    if tensor is None:
        return False
    if machine.recorder.is_alias(tensor) and not machine.recorder.is_inner(tensor):
        raise Break(KIND, seen="a hook on an argument of a differentiated function")
    return bool(machine.recorder.is_inner(tensor))


# -- what makes functions of functions -----------------------------------------------------------------------
def _maker(function: Any) -> None:
    @handles(function)
    def make(machine: Machine, args: Args, kwargs: Kwargs) -> Any:
        for value in (*args, *kwargs.values()):
            check_named(machine, value)
        made = machine.native(function, *args, **kwargs)
        inner = made.__wrapped__
        fields = dict(made.__dict__)
        made.__dict__.clear()
        if type(inner) is types.FunctionType:
            for name in fields.keys() - {"__wrapped__"}:
                made.__dict__[name] = machine.attributes.load(inner, name)
        made.__wrapped__ = inner
        return machine.world.keep(made)


def check_named(machine: Machine, value: Any) -> None:
    """Breaks where reading the name of a callable would run code of the user's."""
    for name in ("__getattr__", "__getattribute__"):
        found = machine.attributes.python_method(value, name)
        if found is not None and not (getattr(found, "__module__", None) or "").startswith("weft."):
            raise Break("library-callback", seen=f"a {type(value).__name__} with {name} of its own")


for _function in (vmap, reverse.grad, reverse.grad_and_value, reverse.jacrev, forward.jacfwd):
    _maker(_function)


@handles(forward.hessian)
def hessian(machine: Machine, args: Args, kwargs: Kwargs) -> Any:
    func, argnums = machine.native(lambda func, argnums=0: (func, argnums), *args, **kwargs)
    return machine.calls.call(
        forward.jacfwd, (machine.calls.call(reverse.jacrev, (func, argnums), {}), argnums), {}
    )


def code_within(function: Any, name: str) -> types.CodeType:
    """The code of a function that is defined inside another one."""
    found = [c for c in function.__code__.co_consts if has_type(c, types.CodeType) and c.co_name == name]
    return found[0]


def call_made(machine: Machine, function: types.FunctionType, args: Args, kwargs: Kwargs) -> Any:
    """A call of what a maker made: see Note [Transforms in a graph]."""
    if not machine.by_ops:
        raise NeedOps(KIND, seen=function.__code__.co_qualname)
    source, code = machine.world.source_of(function), function.__code__
    if source is not None:
        machine.world.guard("CODE", source, code)
    contents = []
    for position, cell in enumerate(function.__closure__ or ()):
        if source is not None and id(cell) not in machine.world.known:
            machine.world.learn(cell, cell, source.member("__closure__").item(position))
        contents.append(types.CellType(adapted(machine, machine.variables.cell_content(cell))))
    copy = types.FunctionType(code, function.__globals__, code.co_name, None, tuple(contents))
    return run(machine, copy, args, kwargs, code.co_qualname)


for _function, _name in (
    (vmap, "mapped"), (reverse.grad, "differentiated"), (reverse.grad_and_value, "differentiated"),
    (reverse.jacrev, "jacobian"), (forward.jacfwd, "jacobian"),
):  # fmt: skip
    BY_CODE[code_within(_function, _name)] = call_made


# -- what takes functions ------------------------------------------------------------------------------------
def _taker(function: Any) -> None:
    @handles(function)
    def take(machine: Machine, args: Args, kwargs: Kwargs) -> Any:
        args = (*[adapted(machine, value) for value in args[:1]], *args[1:])
        if "func" in kwargs:
            kwargs = {**kwargs, "func": adapted(machine, kwargs["func"])}
        return run(machine, function, args, kwargs, function.__name__)


for _taken in (
    reverse.vjp, forward.jvp, forward.linearize, functional.vjp, functional.jvp, functional.vhp,
    functional.hvp, functional.jacobian, functional.hessian,
):  # fmt: skip
    _taker(_taken)


def call_pulled(machine: Machine, function: types.FunctionType, args: Args, kwargs: Kwargs) -> Any:
    """The function that `vjp` or `linearize` gave along with the result: it calls nothing of the user's."""
    if not machine.world.is_fresh(function):
        raise Break("autograd-inside", seen=f"{function.__qualname__} from outside")
    return run(machine, function, args, kwargs, function.__qualname__)


BY_CODE[code_within(reverse.pulled_back, "pull")] = call_pulled
BY_CODE[code_within(forward.linearize, "push")] = call_pulled


# -- forward mode by hand ------------------------------------------------------------------------------------
def _native(function: Any, seen: str) -> None:
    @handles(function)
    def call(machine: Machine, args: Args, kwargs: Kwargs) -> Any:
        if not machine.by_ops:
            raise NeedOps(KIND, seen=seen)
        result = machine.world.keep(machine.native(function, *args, **kwargs))
        for level in levels.get():
            machine.world.keep(level)  # and when it was opened
        return result


for _name in ("enter_dual_level", "exit_dual_level", "make_dual", "unpack_dual", "dual_level"):
    _native(getattr(forward_ad, _name), f"forward_ad.{_name}")
for _name in ("__enter__", "__exit__"):
    _native(getattr(forward_ad.dual_level, _name), "forward_ad.dual_level")


# -- wrappers ------------------------------------------------------------------------------------------------
def _method(function: Any) -> None:
    @handles(function)
    def call(machine: Machine, args: Args, kwargs: Kwargs) -> Any:
        if function.__name__ == "register_hook":
            raise Break(KIND, seen=f"{function.__name__} of a tensor inside a transform")
        return machine.native(function, *args, **kwargs)


_methods: dict[int, Callable[..., Any]] = {
    id(value): value
    for owner in (Wrapper, BatchTensor, DualTensor)
    for value in vars(owner).values()
    if type(value) is types.FunctionType
}
for _function in _methods.values():
    _method(_function)


def escaped(wrapping: Any, value: Any, source: Any) -> Any:
    """A tensor of a transform that has ended, which user code has kept."""
    raise Break(KIND, seen=f"{source}: a {type(value).__name__}")


RULES.update({BatchTensor: escaped, DualTensor: escaped})


# -- compiled functions inside transforms --------------------------------------------------------------------
def is_transforming() -> bool:
    """Whether a vmap or a forward-mode transform runs: compiled functions then run as they are."""
    return bool(levels.get())
