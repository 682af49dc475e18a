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
import sys
import types
from collections import defaultdict
from collections.abc import Callable
from typing import Any, Final

from weft.capture.bytecode.instructions import Instruction
from weft.capture.bytecode.native import original_code
from weft.capture.frame import NULL, Frame
from weft.capture.rebuild.builder import Builder
from weft.capture.sources import class_dict, class_mro
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
    def next(self, pops: int = 0, *pushes: str | None, condition: str | None = None) -> Way:
        return Way(self.instruction.index + 1, pops, pushes, condition)

    def gives(self, pops: int, text: str) -> Performed:
        """The usual case: one expression whose value is pushed."""
        result = self.fresh()
        return Performed([f"{result} = {text}"], [self.next(pops, result)])

    def does(self, pops: int, *lines: str) -> Performed:
        return Performed(list(lines), [self.next(pops)])


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
@performs("LOAD_ATTR")
def _load_attribute(site: Site) -> Performed:
    (owner,) = site.operands(1)
    return site.gives(1, f"{_atom(owner)}.{site.arg}")


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


@performs("STORE_ATTR")
def _store_attribute(site: Site) -> Performed:
    value, owner = site.operands(2)
    return site.does(2, f"{_atom(owner)}.{site.arg} = {value}")


@performs("DELETE_ATTR")
def _delete_attribute(site: Site) -> Performed:
    (owner,) = site.operands(1)
    return site.does(1, f"del {_atom(owner)}.{site.arg}")


@performs("BINARY_SUBSCR")
def _load_item(site: Site) -> Performed:
    owner, key = site.operands(2)
    return site.gives(2, f"{_named(site, owner)}[{key}]")


@performs("STORE_SUBSCR")
def _store_item(site: Site) -> Performed:
    value, owner, key = site.operands(3)
    return site.does(3, f"{_named(site, owner)}[{key}] = {value}")


@performs("DELETE_SUBSCR")
def _delete_item(site: Site) -> Performed:
    owner, key = site.operands(2)
    return site.does(2, f"del {_named(site, owner)}[{key}]")


# -- operators -----------------------------------------------------------------------------------------------
@performs("UNARY")
def _unary(site: Site) -> Performed:
    (value,) = site.operands(1)
    return site.gives(1, f"{site.arg} {value}" if site.arg == "not" else f"{site.arg}{_atom(value)}")


@performs("BINARY_OP")
def _binary(site: Site) -> Performed:
    left, right = site.operands(2)
    if not site.arg.endswith("="):
        return site.gives(2, f"{_atom(left)} {site.arg} {_atom(right)}")
    result = site.fresh()
    return Performed([f"{result} = {left}", f"{result} {site.arg} {right}"], [site.next(2, result)])


@performs("COMPARE_OP")
def _compare(site: Site) -> Performed:
    left, right = site.operands(2)
    return site.gives(2, f"{left} {site.arg} {right}")


@performs("CONTAINS_OP")
def _contains(site: Site) -> Performed:
    item, container = site.operands(2)
    return site.gives(2, f"{item} {'not in' if site.arg else 'in'} {container}")


@performs("IS_OP")
def _is(site: Site) -> Performed:
    left, right = site.operands(2)
    compare = _is_not_object if site.arg else _is_object
    return site.gives(2, f"{site.constant(compare, 'is')}({left}, {right})")  # `1 is x` warns


def _is_object(left: Any, right: Any) -> bool:
    return left is right


def _is_not_object(left: Any, right: Any) -> bool:
    return left is not right


# -- iteration and jumps -------------------------------------------------------------------------------------
@performs("GET_ITER")
def _get_iterator(site: Site) -> Performed:
    (value,) = site.operands(1)
    return site.gives(1, f"{site.constant(iter, 'iter')}({value})")


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
    compare = _is_not_object if "NOT" in site.instruction.op else _is_object
    line = f"{taken} = {site.constant(compare, 'is')}({value}, None)"
    return Performed([line], [Way(site.arg, 1, (), taken), site.next(1)])


@performs("JUMP")
def _jump(site: Site) -> Performed:
    return Performed([], [Way(site.arg)])


# -- building ------------------------------------------------------------------------------------------------
@performs("UNPACK_SEQUENCE")
def _unpack(site: Site) -> Performed:
    (value,) = site.operands(1)
    names = [site.fresh("part") for _ in range(site.arg)]
    return Performed([f"[{', '.join(names)}] = {value}"], [site.next(1, *reversed(names))])


@performs("UNPACK_EX")
def _unpack_starred(site: Site) -> Performed:
    (value,) = site.operands(1)
    before, after = site.arg & 0xFF, site.arg >> 8
    names = [site.fresh("part") for _ in range(before + 1 + after)]
    targets = [f"*{name}" if place == before else name for place, name in enumerate(names)]
    return Performed([f"[{', '.join(targets)}] = {value}"], [site.next(1, *reversed(names))])


BRACKETS: Final = {"BUILD_SET": ("{", "}"), "BUILD_LIST": ("[", "]"), "BUILD_TUPLE": ("(", ")")}


@performs("BUILD_SET", "BUILD_LIST", "BUILD_TUPLE")
def _build(site: Site) -> Performed:
    texts = ", ".join(site.operands(site.arg))
    left, right = BRACKETS[site.instruction.op]
    if site.instruction.op == "BUILD_SET" and not site.arg:
        return site.gives(0, f"{site.constant(set, 'set')}()")
    comma = "," if site.instruction.op == "BUILD_TUPLE" and site.arg == 1 else ""
    return site.gives(site.arg, f"{left}{texts}{comma}{right}")


@performs("BUILD_MAP")
def _build_map(site: Site) -> Performed:
    texts = site.operands(2 * site.arg)
    pairs = ", ".join(f"{key}: {value}" for key, value in zip(texts[::2], texts[1::2], strict=True))
    return site.gives(2 * site.arg, f"{{{pairs}}}")


@performs("BUILD_SLICE")
def _build_slice(site: Site) -> Performed:
    return site.gives(site.arg, f"{site.constant(slice, 'slice')}({', '.join(site.operands(site.arg))})")


@performs("LIST_EXTEND")
def _extend_list(site: Site) -> Performed:
    (value,) = site.operands(1)
    return site.does(1, f"{site.peek(site.arg + 1)}.extend([*{value}])")


@performs("SET_UPDATE")
def _update_set(site: Site) -> Performed:
    (value,) = site.operands(1)
    return site.does(1, f"{site.peek(site.arg + 1)}.update({{*{value}}})")


@performs("DICT_UPDATE")
def _update_dict(site: Site) -> Performed:
    (value,) = site.operands(1)
    return site.does(1, f"{site.peek(site.arg + 1)}.update({{**{value}}})")


@performs("DICT_MERGE")
def _merge_keywords(site: Site) -> Performed:
    (value,) = site.operands(1)
    target, function = site.peek(site.arg + 1), site.peek(site.arg + 4)
    merge = site.constant(merge_keywords, "merge_keywords")
    return site.does(1, f"{merge}({target}, {value}, {function})")


def merge_keywords(target: dict[str, Any], mapping: Any, function: Any) -> None:
    """Adds `**mapping` to the keyword arguments of a call of the function."""
    name = getattr(function, "__qualname__", None)
    module = getattr(function, "__module__", None)
    text = str(function) if name is None else f"{name}()"
    if name is not None and module not in (None, "builtins"):
        text = f"{module}.{text}"
    if not hasattr(mapping, "keys"):
        raise TypeError(f"{text} argument after ** must be a mapping, not {type(mapping).__name__}")
    for key in mapping.keys():  # noqa: SIM118 - what Python asks a mapping for
        if key in target:
            raise TypeError(f"{text} got multiple values for keyword argument '{key}'")
        target[key] = mapping[key]


@performs("SET_ADD")
def _add_to_set(site: Site) -> Performed:
    (value,) = site.operands(1)
    return site.does(1, f"{site.peek(site.arg + 1)}.add({value})")


@performs("LIST_APPEND")
def _append_to_list(site: Site) -> Performed:
    (value,) = site.operands(1)
    return site.does(1, f"{site.peek(site.arg + 1)}.append({value})")


@performs("MAP_ADD")
def _add_to_map(site: Site) -> Performed:
    key, value = site.operands(2)
    return site.does(2, f"{site.peek(site.arg + 2)}[{key}] = {value}")


CONVERSIONS: Final = {None: "", "str": "!s", "repr": "!r", "ascii": "!a"}


@performs("FORMAT")
def _format(site: Site) -> Performed:
    conversion, has_spec = site.arg
    value, *spec = site.operands(2 if has_spec else 1)
    value = _named(site, value)
    after = f":{{{_named(site, spec[0])}}}" if spec else ""
    return site.gives(1 + has_spec, f'f"{{{value}{CONVERSIONS[conversion]}{after}}}"')


@performs("CONVERT_VALUE")
def _convert(site: Site) -> Performed:
    (value,) = site.operands(1)
    return site.gives(1, f'f"{{{_named(site, value)}{CONVERSIONS[site.arg]}}}"')


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


@performs("CHECK_EXC_MATCH")
def _match_exception(site: Site) -> Performed:
    error, kind = site.operands(2)
    return site.gives(1, f"{site.constant(exception_matches, 'matches')}({error}, {kind})")


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
    name = type(manager).__name__
    enter = _special(manager, "__enter__")
    if enter is None:
        raise TypeError(f"'{name}' object does not support the context manager protocol")
    leave = _special(manager, "__exit__")
    if leave is None:
        text = f"'{name}' object does not support the context manager protocol (missed __exit__ method)"
        raise TypeError(text)
    return enter, leave


def _special(owner: Any, name: str) -> Any:
    for base in class_mro(type(owner)):
        members = class_dict(base)
        if name in members:
            found = members[name]
            getter = getattr(type(found), "__get__", None)
            return found if getter is None else getter(found, owner, type(owner))
    return None


@performs("WITH_EXCEPT_START")
def _leave_context(site: Site) -> Performed:
    leave = site.callee(site.stack[-4])
    error = site.peek(1)
    kind = site.constant(type, "type")
    return site.gives(0, f"{leave}({kind}({error}), {error}, {error}.__traceback__)")


# -- modules -------------------------------------------------------------------------------------------------
@performs("IMPORT_NAME")
def _import(site: Site) -> Performed:
    level, names = site.operands(2)
    module = site.constant(builtins, "builtins")
    return site.gives(2, f"{module}.__import__({site.arg!r}, {site.globals()}, None, {names}, {level})")


@performs("IMPORT_FROM")
def _import_from(site: Site) -> Performed:
    return site.gives(0, f"{site.constant(import_from, 'import_from')}({site.peek(1)}, {site.arg!r})")


def import_from(module: Any, name: str) -> Any:
    """What `from module import name` gives or raises."""
    space: dict[str, Any] = {"__builtins__": {"__import__": lambda *_args: module}}
    exec(compile(f"from m import {name} as found", "<weft: import>", "exec"), space)
    return space["found"]


@performs("STORE_GLOBAL")
def _store_global(site: Site) -> Performed:
    (value,) = site.operands(1)
    return site.does(1, f"{site.globals()}[{site.arg!r}] = {value}")


@performs("LOAD_BUILD_CLASS")
def _load_build_class(site: Site) -> Performed:
    return site.gives(0, f"{site.constant(builtins, 'builtins')}.__build_class__")


@performs("GET_LEN")
def _length(site: Site) -> Performed:
    return site.gives(0, f"{site.constant(len, 'len')}({site.peek(1)})")


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
