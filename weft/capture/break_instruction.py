"""Break instructions: the instruction at which a segment stops, as Python text that runs it natively.

Takes the root frame at a break and a `Builder` for its operands; gives lines that perform the instruction,
and where to resume. One idea: one template per canonical op, written in the language itself, so that
CPython's own semantics and error texts hold.

# Note [Ways on]
    for item in iterable: ...         FOR_ITER has two: the loop's body with the next item on the stack,
                                      or the code after the loop with the iterator gone
    if x: ...                         two: the target, and the next instruction
    raise x                           none
    f(x)                              one: the result is on the stack
If a handler covers the instruction, an exception is one more way: emit adds it. What has no template (None)
is not performed: the original code is entered at the instruction itself, and runs uncompiled.
"""

from __future__ import annotations

import builtins
import inspect
import operator
import sys
import types
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any, Final

from weft.capture.binding import called
from weft.capture.bytecode.effects import stack_effect
from weft.capture.bytecode.instructions import Instruction
from weft.capture.bytecode.native import original_code
from weft.capture.frame import NULL, Frame
from weft.capture.guards import lookup
from weft.capture.rebuild.builder import Builder
from weft.capture.sources import class_mro
from weft.core.records import record

END: Final = type("End", (), {"__repr__": lambda self: "<end>", "__slots__": ()})()
"""What `next` gives where an iterator is exhausted."""


@record(frozen=True, slots=True)
class Way:
    """Where to go on: `pops` values leave the stack, `pushes` come (None stands for NULL)."""

    target: int
    pops: int = 0
    pushes: tuple[str | None, ...] = ()
    condition: str | None = None
    """Text that says whether this way is taken; the last way has none."""


@record(slots=True)
class Performed:
    lines: list[str]
    ways: list[Way]


class Site:
    """The instruction and the stack under it, for the templates."""

    def __init__(self, frame: Frame, builder: Builder, callee: str) -> None:
        self.frame, self.builder, self.callee_text = frame, builder, callee
        self.instruction: Instruction = frame.instruction
        self.arg = frame.instruction.arg
        self.stack = frame.stack
        self.pops = stack_effect(frame.instruction.op, self.arg)[0]

    def operands(self, count: int) -> list[Any]:
        """The text of the top values, bottom first; None for NULL."""
        if not count:
            return []
        return [None if value is NULL else self.builder.text(value) for value in self.stack[-count:]]

    def peek(self, depth: int) -> str:
        """The text of the value that is `depth`-th from the top, 1 being the top."""
        return self.builder.text(self.stack[-depth])

    def fresh(self, hint: str = "result") -> str:
        return self.builder.reader.fresh(hint)

    def constant(self, value: Any, hint: str = "") -> str:
        return self.builder.constant(value, hint)

    def globals(self) -> str:
        return self.builder.globals_text(self.frame.globals)

    def callee(self, function: Any) -> str:
        """The text of something that is to be called: Python code in its compiled form."""
        text = self.builder.text(function)
        plain = type(function) in (types.BuiltinFunctionType, types.MethodDescriptorType, type)
        return text if plain else f"{self.callee_text}({text})"

    # -- results ---------------------------------------------------------------------------------------------
    def next(self, pops: int = 0, *pushes: str | None) -> Way:
        return Way(self.instruction.index + 1, pops, pushes)

    def gives(self, pops: int, text: str) -> Performed:
        """The usual case: one expression whose value is pushed."""
        result = self.fresh()
        return Performed([f"{result} = {text}"], [self.next(pops, result)])

    def does(self, pops: int, line: str) -> Performed:
        return Performed([line], [self.next(pops)])


Template = Callable[[Site], Performed | None]
TEMPLATES: dict[str, Template] = {}


def performs(*ops: str) -> Callable[[Template], Template]:
    def register(template: Template) -> Template:
        TEMPLATES.update(dict.fromkeys(ops, template))
        return template

    return register


def perform(frame: Frame, builder: Builder, callee: str) -> Performed | None:
    """How to perform the instruction that the frame stands before; None where only the original code can."""
    template = TEMPLATES.get(frame.instruction.op)
    return None if template is None else template(Site(frame, builder, callee))


# -- expressions and statements ------------------------------------------------------------------------------
Text = Callable[..., str]
GIVES: Final[dict[str, Text]] = {
    "LOAD_ATTR": lambda site, owner: f"{_atom(owner)}.{site.arg}",
    "BINARY_SUBSCR": lambda site, owner, key: f"{_named(site, owner)}[{key}]",
    "UNARY": lambda site, value: f"not {value}" if site.arg == "not" else f"{site.arg}{_atom(value)}",
    "COMPARE_OP": lambda site, left, right: f"{left} {site.arg} {right}",
    "CONTAINS_OP": lambda site, item, container: f"{item} {'not in' if site.arg else 'in'} {container}",
    "IS_OP": lambda site, left, right: f"{_is(site, site.arg)}({left}, {right})",  # `1 is x` warns
    "GET_ITER": lambda site, value: f"{site.constant(iter, 'iter')}({value})",
    "GET_LEN": lambda site: f"{site.constant(len, 'len')}({site.peek(1)})",
    "BUILD_LIST": lambda site, *texts: f"[{', '.join(texts)}]",
    "BUILD_TUPLE": lambda site, *texts: f"({', '.join(texts)}{',' if len(texts) == 1 else ''})",
    "BUILD_SET": lambda site, *texts: (
        f"{{{', '.join(texts)}}}" if texts else f"{site.constant(set, 'set')}()"
    ),
    "BUILD_MAP": lambda site, *texts: f"{{{_joined_pairs(texts)}}}",
    "BUILD_SLICE": lambda site, *texts: f"{site.constant(slice, 'slice')}({', '.join(texts)})",
    "FORMAT": lambda site, value, *spec: _formatted(site, value, site.arg[0], *spec),
    "CONVERT_VALUE": lambda site, value: _formatted(site, value, site.arg),
    "CHECK_EXC_MATCH": lambda site, kind: (
        f"{site.constant(exception_matches, 'matches')}({site.peek(2)}, {kind})"
    ),
    "WITH_EXCEPT_START": lambda site: _leaving(site, site.callee(site.stack[-4]), site.peek(1)),
    "IMPORT_NAME": lambda site, level, names: (
        f"{site.constant(builtins, 'builtins')}.__import__"
        f"({site.arg!r}, {site.globals()}, None, {names}, {level})"
    ),
    "IMPORT_FROM": lambda site: f"{site.constant(import_from, 'import_from')}({site.peek(1)}, {site.arg!r})",
    "LOAD_BUILD_CLASS": lambda site: f"{site.constant(builtins, 'builtins')}.__build_class__",
}
"""Of ops that push the value of one expression: that expression, from the texts of what they take."""
DOES: Final[dict[str, Text]] = {
    "STORE_ATTR": lambda site, value, owner: f"{_atom(owner)}.{site.arg} = {value}",
    "DELETE_ATTR": lambda site, owner: f"del {_atom(owner)}.{site.arg}",
    "STORE_SUBSCR": lambda site, value, owner, key: f"{_named(site, owner)}[{key}] = {value}",
    "DELETE_SUBSCR": lambda site, owner, key: f"del {_named(site, owner)}[{key}]",
    "STORE_GLOBAL": lambda site, value: f"{site.globals()}[{site.arg!r}] = {value}",
    "LIST_APPEND": lambda site, value: f"{site.peek(site.arg + 1)}.append({value})",
    "LIST_EXTEND": lambda site, value: f"{site.peek(site.arg + 1)}.extend([*{value}])",
    "SET_ADD": lambda site, value: f"{site.peek(site.arg + 1)}.add({value})",
    "SET_UPDATE": lambda site, value: f"{site.peek(site.arg + 1)}.update({{*{value}}})",
    "MAP_ADD": lambda site, key, value: f"{site.peek(site.arg + 2)}[{key}] = {value}",
    "DICT_UPDATE": lambda site, value: f"{site.peek(site.arg + 1)}.update({{**{value}}})",
    "DICT_MERGE": lambda site, value: _merging(site, site.peek(site.arg + 1), value, site.peek(site.arg + 4)),
}
"""Of ops that push nothing and are one statement: that statement."""


def _giving(text: Text) -> Template:
    return lambda site: site.gives(site.pops, text(site, *site.operands(site.pops)))


def _doing(text: Text) -> Template:
    return lambda site: site.does(site.pops, text(site, *site.operands(site.pops)))


TEMPLATES.update({op: _giving(text) for op, text in GIVES.items()})
TEMPLATES.update({op: _doing(text) for op, text in DOES.items()})


def _is(site: Site, negated: bool) -> str:
    return site.constant(operator.is_not if negated else operator.is_, "is")


def _joined_pairs(texts: Sequence[str]) -> str:
    return ", ".join(f"{key}: {value}" for key, value in zip(texts[::2], texts[1::2], strict=True))


def _formatted(site: Site, value: str, conversion: str | None, *spec: str) -> str:
    value = _named(site, value)
    after = "".join(f":{{{_named(site, each)}}}" for each in spec)
    return f'f"{{{value}{CONVERSIONS[conversion]}{after}}}"'


def _leaving(site: Site, leave: str, error: str) -> str:
    return f"{leave}({site.constant(type, 'type')}({error}), {error}, {error}.__traceback__)"


def _merging(site: Site, target: str, value: str, function: str) -> str:
    return f"{site.constant(merge_keywords, 'merge_keywords')}({target}, {value}, {function})"


# -- calls ---------------------------------------------------------------------------------------------------
READ_THEIR_CALLER: Final = tuple(
    each
    for each in (
        locals, globals, vars, dir, eval, exec, super, breakpoint, sys._getframe, inspect.currentframe,
        inspect.stack, getattr(sys, "_getframemodulename", None),
    )
    if each is not None
)  # fmt: skip
"""Functions that look at the frame they are called from, which must be the user's own."""


def _looks_at_frame(function: Any) -> bool:
    return any(function is each for each in READ_THEIR_CALLER)


def locals_of(*items: tuple[str, bool, Any]) -> dict[str, Any]:
    """What `locals()` gives: names with their values, or (where true) with the cells that hold them."""
    found: dict[str, Any] = {}
    for name, held, value in items:
        try:
            found[name] = value.cell_contents if held else value
        except ValueError:  # not bound
            continue
    return found


def _locals(site: Site) -> Performed | None:
    """`locals()` in the order of the original code. Resumed code has cells behind all other names; where
    no argument is in one, that is the same."""
    frame = site.frame
    code = original_code(frame.code)
    if not set(code.co_cellvars).intersection(code.co_varnames):
        return None
    items = []
    for name in dict.fromkeys((*code.co_varnames, *code.co_cellvars, *code.co_freevars)):
        held = name in frame.cells
        if held or name in frame.locals:
            value = frame.cells[name] if held else frame.locals[name]
            items.append(f"({name!r}, {held}, {site.builder.text(value)})")
    return site.gives(2, f"{site.constant(locals_of, 'locals_of')}({', '.join(items)})")


@performs("CALL")
def _call(site: Site) -> Performed | None:
    return _call_with(site, site.arg, ())


@performs("CALL_KW")
def _call_keywords(site: Site) -> Performed | None:
    return _call_with(site, *site.arg)


def _call_with(site: Site, count: int, names: tuple[str, ...]) -> Performed | None:
    function = site.stack[-count - 2]
    if function is locals and not count:
        return _locals(site)
    if _looks_at_frame(function):
        return None
    called = site.callee(function)
    texts = [text for text in site.operands(count + 1) if text is not None]
    plain = len(texts) - len(names)
    parts = [*texts[:plain], *[f"{name}={text}" for name, text in zip(names, texts[plain:], strict=True)]]
    return site.gives(count + 2, f"{called}({', '.join(parts)})")


@performs("CALL_FUNCTION_EX")
def _call_unpacked(site: Site) -> Performed | None:
    count = 4 if site.arg else 3
    function = site.stack[-count]
    if _looks_at_frame(function):
        return None
    called = site.callee(function)
    args = site.operands(count - 2)
    keywords = f", **{args[1]}" if site.arg else ""
    return site.gives(count, f"{called}(*{args[0]}{keywords})")


# -- attributes and items ------------------------------------------------------------------------------------
def _atom(text: str) -> str:
    """Fit to stand before a dot: a number literal needs parentheses."""
    return text if text.isidentifier() else f"({text})"


@performs("LOAD_METHOD")
def _load_method(site: Site) -> Performed:
    (owner,) = site.operands(1)
    result = site.fresh()
    return Performed([f"{result} = {_atom(owner)}.{site.arg}"], [site.next(1, result, None)])


@performs("LOAD_SUPER_ATTR")
def _load_super(site: Site) -> Performed | None:
    name, is_method, _two_arguments = site.arg
    if site.stack[-3] is not super:
        return None
    kind, owner = site.operands(2)
    result = site.fresh()
    pushes = (result, None) if is_method else (result,)
    return Performed(
        [f"{result} = {site.constant(super, 'super')}({kind}, {owner}).{name}"], [site.next(3, *pushes)]
    )


# -- operators -----------------------------------------------------------------------------------------------
@performs("BINARY_OP")
def _binary(site: Site) -> Performed:
    left, right = site.operands(2)
    if not site.arg.endswith("="):
        return site.gives(2, f"{_atom(left)} {site.arg} {_atom(right)}")
    result = site.fresh()
    return Performed([f"{result} = {left}", f"{result} {site.arg} {right}"], [site.next(2, result)])


# -- iteration and jumps -------------------------------------------------------------------------------------
@performs("FOR_ITER")
def _next_item(site: Site) -> Performed:
    (iterator,) = site.operands(1)
    item, end = site.fresh("item"), site.constant(END, "end")
    line = f"{item} = {site.constant(next, 'next')}({iterator}, {end})"
    return Performed([line], [Way(site.arg, 1, (), f"{item} is {end}"), site.next(0, item)])


@performs("POP_JUMP_IF_TRUE", "POP_JUMP_IF_FALSE")
def _jump_if(site: Site) -> Performed:
    (value,) = site.operands(1)
    taken = site.fresh("jump")
    negated = "not not" if site.instruction.op.endswith("TRUE") else "not"
    return Performed([f"{taken} = {negated} {value}"], [Way(site.arg, 1, (), taken), site.next(1)])


@performs("POP_JUMP_IF_NONE", "POP_JUMP_IF_NOT_NONE")
def _jump_if_none(site: Site) -> Performed:
    (value,) = site.operands(1)
    taken = site.fresh("jump")
    line = f"{taken} = {_is(site, 'NOT' in site.instruction.op)}({value}, None)"
    return Performed([line], [Way(site.arg, 1, (), taken), site.next(1)])


@performs("JUMP")
def _jump(site: Site) -> Performed:
    return Performed([], [Way(site.arg)])


# -- building ------------------------------------------------------------------------------------------------
@performs("UNPACK_SEQUENCE", "UNPACK_EX")
def _unpack(site: Site) -> Performed:
    (value,) = site.operands(1)
    starred = site.arg & 0xFF if site.instruction.op == "UNPACK_EX" else None
    names = [site.fresh("part") for _ in range(stack_effect(site.instruction.op, site.arg)[1])]
    targets = [f"*{name}" if place == starred else name for place, name in enumerate(names)]
    return Performed([f"[{', '.join(targets)}] = {value}"], [site.next(1, *reversed(names))])


def merge_keywords(target: dict[str, Any], mapping: Any, function: Any) -> None:
    """Adds `**mapping` to the keyword arguments of a call of the function."""
    text = called(function)
    if not hasattr(mapping, "keys"):
        raise TypeError(f"{text} argument after ** must be a mapping, not {type(mapping).__name__}")
    for key in mapping.keys():  # noqa: SIM118 - what Python asks a mapping for
        if key in target:
            raise TypeError(f"{text} got multiple values for keyword argument '{key}'")
        target[key] = mapping[key]


CONVERSIONS: Final = {None: "", "str": "!s", "repr": "!r", "ascii": "!a"}


def _named(site: Site, text: str) -> str:
    """A name for the text: literals may hold quotes, which an f-string of 3.11 cannot, and to subscript one
    may be a SyntaxWarning.
    """
    return text if text.isidentifier() else site.builder.assign(text)


# -- exceptions and contexts ---------------------------------------------------------------------------------
@performs("RAISE_VARARGS")
def _raise(site: Site) -> Performed:
    texts = site.operands(site.arg)
    return Performed([f"raise {' from '.join(texts)}".rstrip()], [])


def exception_matches(error: BaseException, kind: Any) -> bool:
    """Whether `except kind` catches the exception."""
    kinds = kind if isinstance(kind, tuple) else (kind,)
    if not all(isinstance(each, type) and BaseException in class_mro(each) for each in kinds):
        raise TypeError("catching classes that do not inherit from BaseException is not allowed")
    return any(each in class_mro(type(error)) for each in kinds)


@performs("BEFORE_WITH")
def _enter_context(site: Site) -> Performed:
    (manager,) = site.operands(1)
    enter, leave, entered = site.fresh("enter"), site.fresh("exit"), site.fresh("entered")
    find = f"{enter}, {leave} = {site.constant(context_methods, 'context_methods')}({manager})"
    # Behind a call, signals are looked at: a lock would be taken, and nobody there to release it. As here,
    # they are not behind what makes an item.
    call = f"{entered} = {site.constant(defaultdict, 'defaultdict')}({site.callee_text}({enter}))[0]"
    return Performed([find, call], [site.next(1, leave, entered)])


def context_methods(manager: Any) -> tuple[Any, Any]:
    """`__enter__` and `__exit__` as a `with` finds them: on the class."""
    return _special(manager, "__enter__"), _special(manager, "__exit__")


def _special(manager: Any, name: str) -> Any:
    entry = lookup(type(manager), name)
    if entry is None:
        raise no_context(type(manager), name)
    getter = getattr(type(entry[1]), "__get__", None)
    return entry[1] if getter is None else getter(entry[1], manager, type(manager))


def no_context(kind: type, lacking: str) -> TypeError:
    """The error of a `with` over an object whose class lacks one of the two methods."""
    missed = " (missed __exit__ method)" if lacking == "__exit__" else ""
    return TypeError(f"'{kind.__name__}' object does not support the context manager protocol{missed}")


# -- modules -------------------------------------------------------------------------------------------------
def import_from(module: Any, name: str) -> Any:
    """What `from module import name` gives or raises."""
    space: dict[str, Any] = {"__builtins__": {"__import__": lambda *_args: module}}
    exec(compile(f"from m import {name} as found", "<weft: import>", "exec"), space)
    return space["found"]


@performs("POP_TOP")
def _pop(site: Site) -> Performed:
    return Performed([], [site.next(1)])


# -- the original code ---------------------------------------------------------------------------------------
def enter_original(
    point: Any, function: types.FunctionType, cells: tuple[types.CellType, ...]
) -> types.FunctionType:
    """The function that goes on at a point as written, uncompiled."""
    made = types.FunctionType(point.code, function.__globals__, function.__name__, None, cells or None)
    made.__qualname__ = function.__qualname__
    return made
