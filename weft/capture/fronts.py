"""Fronts: the functions that users call in place of the ones they wrote.

Takes a function, gives one with exactly its signature that first tries the newest compiled entry. One idea:
the code of a front depends on the signature alone, so it is generated once per code object; each front is
that code with cells of its own.

# Note [Front]
    def f(a, /, b=1, *args, c, **kwargs): ...
becomes
    def f(a, /, b=1, *args, c, **kwargs):
        _weft_result = _weft_first(_weft_function, a, b, c, args, kwargs)
        if _weft_result is not _weft_MISS:
            return _weft_result
        return _weft_slow(_weft_function, a, b, c, args, kwargs)
A front that users keep asks for defaults when it is called, since the function's may have changed by then:
        if b is _weft_unset: b = _weft_default(_weft_function, -1, "b")
`_weft_first` lives in a cell that all fronts of one code object share, so putting a new entry first is one
store to that cell. Entries take every parameter by position, in the order of `co_varnames`. The front of a
bound method lacks the first parameter and takes it from a cell.
"""

from __future__ import annotations

import functools
import linecache
from collections.abc import Callable
from types import CellType, CodeType, FunctionType, MethodType
from typing import Any, TypeVar

from weft.capture.binding import argument_text, parameter_names, signature_text
from weft.capture.bytecode.native import original_code
from weft.capture.reading import MISS

UNSET: Any = type("Unset", (), {"__repr__": lambda self: "<default>", "__slots__": ()})()
"""The default of every parameter of a public front that has one."""


BEGUN = "_weft_begun"
"""Attribute of a resumed function once it runs as written, or its segment has effects. See deoptimise.py."""
UNCOUNTED = "importlib_bootstrap"
"""`warnings` skips frames of files named so when it counts to the frame that `stacklevel` means."""
Run = TypeVar("Run", bound=Callable[..., Any])


def uncounted(function: Run) -> Run:
    """The function, whose frames stand between a user's and the one that it was called from in the original:
    `warnings` must look past them. Its lines are still found for tracebacks.
    """
    code = function.__code__
    folder, _, name = code.co_filename.rpartition("/")
    path = f"{folder}/{UNCOUNTED}/{name}"
    linecache.lazycache(path, function.__globals__)
    function.__code__ = code.replace(co_filename=path)
    return function


def default_of(function: FunctionType, place: int | None, name: str) -> Any:
    """What the function's default is now: by place among `__defaults__`, or by name."""
    try:
        if place is None:
            named: Any = function.__kwdefaults__
            return named[name]
        placed: Any = function.__defaults__
        return placed[place]
    except (TypeError, LookupError):
        kind = "positional" if place is not None else "keyword-only"
    raise TypeError(f"{function.__qualname__}() missing 1 required {kind} argument: '{name}'")


_SPACE: dict[str, Any] = {"_weft_MISS": MISS, "_weft_unset": UNSET, "_weft_default": default_of}
FRONT = "_weft_front"
"""Attribute of a public front: the context that made it."""


def is_front(function: FunctionType) -> bool:
    """Whether this is a public front, not a function that `functools.wraps` gave the attributes of one."""
    return FRONT in function.__dict__ and function.__globals__ is _SPACE


def clean_names(code: CodeType) -> list[str]:
    """The parameters' names as generated code writes them, in the order of `co_varnames`."""
    names = parameter_names(code)
    return [name if name.isidentifier() else f"_weft_{i}" for i, name in enumerate(names)]


def _signature(code: CodeType) -> str:
    """`signature_text` over the clean names (`.0` of a comprehension has another)."""
    names = clean_names(code)
    if tuple(names) != parameter_names(code):
        code = code.replace(co_varnames=(*names, *code.co_varnames[len(names) :]))
    return signature_text(code)


Late = tuple[tuple[str, int | None], ...]
"""Parameters whose defaults are asked for in the call: name, and place among `__defaults__` if there."""


def late_defaults(function: FunctionType) -> Late:
    positional = parameter_names(function.__code__)[: function.__code__.co_argcount]
    count = len(function.__defaults__ or ())
    late: list[tuple[str, int | None]] = [(positional[-i], -i) for i in range(count, 0, -1)]
    return (*late, *((name, None) for name in function.__kwdefaults__ or ()))


def _front_text(code: CodeType, bound: bool, late: Late) -> str:
    names = clean_names(code)
    fill = "".join(
        f"        if {name} is _weft_unset: {name} = _weft_default(_weft_function, {place}, {name!r})\n"
        for name, place in late
        if not (bound and name == names[0])
    )
    signature = _signature(code)
    if bound and code.co_argcount:
        first = signature.split(", ")[0]
        rest = signature.split(", ")[1:]
        signature = ", ".join(rest[1:] if rest[:1] == ["/"] else rest)
        names[names.index(first)] = "_weft_self"
    elif bound:  # def method(*args): the tuple starts with the object
        star = code.co_argcount + code.co_kwonlyargcount
        names[star] = f"(_weft_self, *{names[star]})"
    values = ", ".join(["_weft_function", *names])
    cells = "_weft_function = _weft_first = _weft_slow = _weft_self = None"
    return (
        f"def make():\n"
        f"    {cells}\n"
        f"    def front({signature}):\n"
        f"{fill}"
        f"        _weft_result = _weft_first({values})\n"
        f"        if _weft_result is not _weft_MISS:\n"
        f"            return _weft_result\n"
        f"        return _weft_slow({values})\n"
    )


@functools.lru_cache(maxsize=4096)
def front_code(code: CodeType, bound: bool, late: Late = ()) -> CodeType:
    """The code of fronts for functions with this code."""
    text = _front_text(code, bound, late)
    outer = compile(text, f"<weft: front of {code.co_name}, {UNCOUNTED}>", "exec")
    make = next(part for part in outer.co_consts if isinstance(part, CodeType))
    inner = next(part for part in make.co_consts if isinstance(part, CodeType))
    return inner.replace(co_name=code.co_name, co_qualname=code.co_qualname)


@functools.lru_cache(maxsize=4096)
def original_call(code: CodeType) -> Callable[..., Any]:
    """`call(function, *parameters)` runs the function as written, from parameters given by position."""
    names = clean_names(code)
    begun = "" if original_code(code) is code else f"    _weft_function.{BEGUN} = True\n"
    head = f"def call({', '.join(['_weft_function', *names])}):\n{begun}"
    text = f"{head}    return _weft_function({argument_text(code, names)})\n"
    space: dict[str, Any] = {}
    exec(compile(text, f"<weft: call of {code.co_name}, {UNCOUNTED}>", "exec"), space)
    call: Callable[..., Any] = space["call"]
    return call


def make_front(
    function: FunctionType,
    first: CellType,
    slow: CellType,
    owner: Any = None,
    code: CodeType | None = None,
    late: bool = False,
) -> FunctionType:
    """A front with the function's defaults, and nothing else of it. `owner` is a bound method's object, and
    `code` the front's where it is at hand: looking it up hashes the function's. `late`: the defaults are
    those that the function has when the front is called.
    """
    code = code or front_code(function.__code__, owner is not None, late_defaults(function) if late else ())
    cells = {
        "_weft_first": first,
        "_weft_slow": slow,
        "_weft_function": CellType(function),
        "_weft_self": CellType(owner),
    }
    closure = tuple(cells[name] for name in code.co_freevars)
    defaults = function.__defaults__
    if owner is not None and defaults and len(defaults) == function.__code__.co_argcount:
        defaults = defaults[1:]
    if late and defaults:
        defaults = (UNSET,) * len(defaults)
    front = FunctionType(code, _SPACE, function.__name__, defaults, closure)
    if function.__kwdefaults__:
        front.__kwdefaults__ = {k: UNSET if late else v for k, v in function.__kwdefaults__.items()}
    return front


def public(front: FunctionType, original: Any, context: Any) -> FunctionType:
    """Makes a front look like the function that it stands for."""
    functools.update_wrapper(front, original)
    function = original.__func__ if isinstance(original, MethodType) else original
    front.__doc__ = function.__doc__
    front.__dict__[FRONT] = context
    return front


def original_of(function: Any) -> Any:
    """What a public front stands for; anything else itself."""
    if type(function) is MethodType and type(function.__func__) is FunctionType:
        inner = original_of(function.__func__)
        return function if inner is function.__func__ else MethodType(inner, function.__self__)
    known: Any = function
    return known.__wrapped__ if type(function) is FunctionType and is_front(function) else function
