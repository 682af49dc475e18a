"""Rebuilding by type: how the text that makes an object of each class is written.

Takes a `Builder` and a value that captured code made; gives an expression. One idea: an object is made by the
`__new__` and the stores of the C classes it derives from, never by code of a user's, so building it again
runs nothing that captured code has run already. What no rule knows is a break.
"""

from __future__ import annotations

import functools
import re
import types
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable
from enum import Enum
from typing import Any, Final

import numpy as np

from weft.autograd.hooks import RETAINED
from weft.autograd.spent import spend
from weft.capture.binding import argument_text, parameter_names
from weft.capture.bytecode.generators import rebuild_generator, suspended_code
from weft.capture.frame import Frame
from weft.capture.gradients import history, is_spent, spent_on, without_history
from weft.capture.open_texts import OpenText
from weft.capture.outcome import Outcome
from weft.capture.parts import call_part
from weft.capture.reading import Reader, has_plain_dict
from weft.capture.rebuild import iterators, standins
from weft.capture.rebuild.builder import Builder, Rule
from weft.capture.rebuild.sets import filled, filling, table_size
from weft.capture.resuming import resume_texts, slot_of
from weft.capture.sources import class_dict, class_mro, importable_name, instance_dict, written_in_c
from weft.capture.values import BoundMethod, CapturedGenerator, has_type
from weft.core.contexts import Leaving, LeftAtOnce
from weft.core.device import device
from weft.core.dtypes import dtype
from weft.core.expressions import NAMES, by_name
from weft.core.interrupts import let_through
from weft.core.types import layout, memory_format
from weft.tensor.base import PLAIN, Tensor
from weft.tensor.tape import Node
from weft.trace.breaks import Break
from weft.trace.fake import Outside, is_fake
from weft.trace.scalars import SymBool, SymFloat, SymInt

LARGEST_ARRAY = 10_000  # elements of a NumPy array that an entry may hold as a constant


# -- constants -----------------------------------------------------------------------------------------------
def constant(builder: Builder, value: Any) -> str:
    name = getattr(value, "__name__", "")
    return builder.constant(value, name if type(name) is str else "")


CONSTANT_TYPES: Final = (
    type(None), bool, int, float, complex, str, bytes, type(Ellipsis), type(NotImplemented), range,
    types.CodeType, types.BuiltinFunctionType, types.MethodDescriptorType, types.WrapperDescriptorType,
    types.ClassMethodDescriptorType, types.GetSetDescriptorType, types.MemberDescriptorType,
    types.ModuleType, types.GenericAlias, types.UnionType, re.Pattern, np.ufunc,
    dtype, device, layout, memory_format,
)  # fmt: skip
CONSTANT_FAMILIES: Final = (type, Enum, np.dtype, np.generic, types.ModuleType)


def builtin_function(builder: Builder, value: Any) -> str:
    """A function of C; bound to an object that captured code made, it is looked up again on that object."""
    receiver = getattr(value, "__self__", None)
    if receiver is None or issubclass(type(receiver), (types.ModuleType, type)):
        return constant(builder, value)
    for base in class_mro(type(receiver)):
        found = class_dict(base).get(value.__name__)
        if found is not None and written_in_c(base):
            getter = builder.constant(found.__get__, value.__name__)
            return builder.assign(f"{getter}({builder.text(receiver)})", value.__name__)
    return str(builder.refuse(value))


def symbolic(builder: Builder, value: Any) -> str:
    """A symbolic scalar: computed from the places its symbols were read from."""
    scalars = builder.outcome.scalars
    expression = value.expression
    if expression.symbols <= scalars.static.keys():
        return builder.constant(value.hint)
    if not scalars.tells(expression):
        return builder.output(builder.outcome.recorder.node(value))
    symbols = by_name(expression.symbols)
    names = {symbol: builder.read(scalars.sources[symbol]) for symbol in symbols}
    if expression.op == "symbol":
        return names[symbols[0]]
    text = expression.render(names.__getitem__)
    if builder.reader.reserved & TEXT_NAMES:
        # A parameter hides a name that the text needs: the text moves into a function of its own.
        inner = expression.render(lambda symbol: str(symbol.name))
        text = f"lambda {', '.join(s.name for s in symbols)}: {inner}"
        made = eval(compile(text, "<weft: number>", "eval"), dict(NAMES))
        return builder.assign(f"{builder.constant(made)}({', '.join(names.values())})")
    builder.reader.namespace.update(NAMES)
    return builder.assign(text[1:-1] if text.startswith("(") and _closes_at_end(text) else text)


TEXT_NAMES: Final = frozenset({*NAMES, "abs", "round", "int", "float", "str", "repr", "format"})


def _closes_at_end(text: str) -> bool:
    """Whether the first parenthesis is closed by the last one."""
    depth = 0
    for place, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if not depth:
            return place == len(text) - 1
    return False


def tensor(builder: Builder, value: Any) -> str:
    if not is_fake(value):
        builder.refuse(value, "that captured code did not compute")
    recorder = builder.outcome.recorder
    if recorder.is_inner(value) or (value.tracked and recorder.is_alias(value)):
        builder.refuse(value, "that belongs to a function transform")
    if recorder.is_alias(value):
        name = builder.output(without_history(recorder, value))
    elif is_spent(value):
        name = builder.output(without_history(recorder, value))
        builder.line(spending(builder, value, name))
    else:
        name = builder.output(recorder.node(value))
    if value.hooks is RETAINED:
        builder.line(f"{name}.retain_grad()")
    if value.__dict__:
        builder.later(lambda: fill_fields(builder, value, name))
    if value._grad is not None:
        builder.later(lambda: builder.line(f"{name}._grad = {builder.text(value._grad)}"))
    return name


def spending(builder: Builder, value: Any, name: str) -> str:
    """The call that puts a spent history behind a tensor. Leaves that were made here are no reason to give
    them out: whether they are given out anyway is known at the end.
    """
    leaves = spent_on(value)
    if leaves is None:
        return str(builder.refuse(value, "whose autograd history is partly freed"))
    outer = [leaf for leaf in leaves if id(leaf) in builder.world.known]
    if len(outer) < len(leaves):
        builder.spent.append((value, name))
    return _spending_text(builder, value, name, outer)


def _spending_text(builder: Builder, value: Any, name: str, leaves: list[Any]) -> str:
    given = [name, builder.constant(type(value.node).__name__), *[builder.text(leaf) for leaf in leaves]]
    return f"{builder.constant(spend, 'spend')}({', '.join(given)})"


def late_spent_lines(builder: Builder) -> list[str]:
    """The same again for tensors that lead to leaves that were made here and are given out."""
    builder.settle()
    lines = []
    for value, name in builder.spent:
        leaves = spent_on(value) or []
        given = [leaf for leaf in leaves if id(leaf) in builder.world.known or builder.has(leaf)]
        if any(id(leaf) not in builder.world.known for leaf in given):
            lines.append(_spending_text(builder, value, name, given))
    return lines


def spent_lines(builder: Builder) -> list[str]:
    """Lines for tensors from outside that captured code wrote, and through whose new history it swept."""
    lines = []
    for known in list(builder.world.known.values()):
        value = known.value
        if type(value) not in PLAIN or not is_fake(value):
            continue
        if not has_type(history(value), Outside) and is_spent(value):
            if value.origin is not None:
                builder.refuse(value, "that is a view whose autograd history is freed")
            lines.append(spending(builder, value, builder.text(value)))
    return lines


def array(builder: Builder, value: Any) -> str:
    """A NumPy array that owns its data: a copy of a constant."""
    if value.base is not None or value.size > LARGEST_ARRAY or value.dtype.hasobject:
        builder.refuse(value)
    return builder.assign(f"{builder.constant(value.copy(order='K'))}.copy(order='K')")


# -- containers ----------------------------------------------------------------------------------------------
def container(builder: Builder, value: Any, empty: str, whole: str = "{}") -> str:
    """A container: from its contents, put into `whole`. One that holds itself is made as `empty` says, and
    filled when whatever is being built now is there.
    """
    if not builder.cyclic(value):
        return builder.assign(whole.format(contents(builder, value)))
    name = builder.put(value, builder.assign(empty))
    fill = "update" if isinstance(value, dict) else "extend"
    builder.later(lambda: builder.line(f"{name}.{fill}({contents(builder, value)})"))
    return name


def contents(builder: Builder, value: Any) -> str:
    """The items of a dict, or of another container, as the display of a dict or a list."""
    if isinstance(value, dict):
        check_keys(builder, value)
        return f"{{{builder.pairs(value.items())}}}"
    return f"[{builder.items(value)}]"


def list_(builder: Builder, value: list[Any]) -> str:
    return container(builder, value, "[]")


def tuple_(builder: Builder, value: tuple[Any, ...]) -> str:
    return builder.assign(builder.tuple_text(value)) if value else "()"


def dict_(builder: Builder, value: dict[Any, Any]) -> str:
    return container(builder, value, "{}")


def set_(builder: Builder, value: set[Any]) -> str:
    kind = builder.constant(set, "set")
    return builder.assign(set_text(builder, value, f"{kind}()") if value else f"{kind}()")


def frozenset_(builder: Builder, value: frozenset[Any]) -> str:
    check_keys(builder, value)
    if value and all(type(item) in IMMUTABLE_KEYS for item in value):
        name = builder.constant(value, "items")
        alike = all(a is b for a, b in zip(value.union(), value, strict=True))
        return builder.assign(f"{name}.union()") if alike else name  # a new one, walked in the same order
    return builder.assign(f"{builder.constant(frozenset, 'frozenset')}([{builder.items(value)}])")


def set_text(builder: Builder, value: Any, empty: str) -> str:
    """The empty set filled with the items of this one, to be walked in this one's order."""
    items = list(set.__iter__(value))
    check_keys(builder, items)
    order, at_once = items, 0
    if all(type(item) in IMMUTABLE_KEYS for item in items):
        # Objects hashed by identity are hashed otherwise in the next call: no order is the right one.
        found = filling(items, table_size(value))
        if found is None:
            raise Break("set-order", seen=f"a set of {len(items)} items made by captured code")
        order, at_once = found
    return f"{builder.constant(filled, 'filled')}({empty}, [{builder.items(order)}], {at_once})"


def check_keys(builder: Builder, keys: Any) -> None:
    """Hashing these must run no code of a user's; keys are built, and filled, before their container."""
    plain = True
    for key in keys:
        if not hashes_plainly(key) and builder.world.settled.get(id(key)) != hash(key):
            builder.refuse(key, "as a key: its class defines __hash__ or __eq__")
        if type(key) not in IMMUTABLE_KEYS:
            plain = False
            builder.text(key)
    if not plain:
        builder.settle()


IMMUTABLE_KEYS: Final = frozenset({str, int, float, bool, bytes, type(None), complex})
TRUSTED_MODULES: Final = ("weft", "enum", "fractions", "uuid", "pathlib", "ipaddress", "typing", "weakref")


def hashes_plainly(key: Any) -> bool:
    kind = type(key)
    if kind in (tuple, frozenset):
        return all(map(hashes_plainly, key))
    for name in ("__hash__", "__eq__"):
        for base in class_mro(kind):
            found = class_dict(base).get(name)
            if found is not None:
                if not _is_trusted(found):
                    return False
                break
    return True


def _is_trusted(method: Any) -> bool:
    """Written in C, in the library or the standard library, or generated by `dataclass`."""
    if not has_type(method, types.FunctionType):
        return type(method) in CONSTANT_TYPES
    return method.__code__.co_filename == "<string>" or method.__module__.startswith(TRUSTED_MODULES)


def deque_(builder: Builder, value: deque[Any]) -> str:
    kind = builder.constant(deque, "deque")
    bound = "" if value.maxlen is None else f", {value.maxlen}"
    return container(builder, value, f"{kind}([]{bound})", f"{kind}({{}}{bound})")


def ordered_dict(builder: Builder, value: Any) -> str:
    kind = builder.constant(OrderedDict, "OrderedDict")
    return container(builder, value, f"{kind}()", f"{kind}({{}})" if value else f"{kind}()")


def default_dict(builder: Builder, value: defaultdict[Any, Any]) -> str:
    kind = builder.constant(defaultdict, "defaultdict")
    factory = builder.text(value.default_factory)
    return container(builder, value, f"{kind}({factory})", f"{kind}({factory}, {{}})")


def made_of(*names: str) -> Rule:
    """The rule for objects that a call of their class makes of these attributes."""

    def rule(builder: Builder, value: Any) -> str:
        maker = builder.constant(type(value), type(value).__name__)
        return builder.assign(builder.call_text(maker, [getattr(value, name) for name in names]))

    return rule


def bytearray_(builder: Builder, value: bytearray) -> str:
    return builder.assign(f"{builder.constant(bytearray, 'bytearray')}({bytes(value)!r})")


# -- functions -----------------------------------------------------------------------------------------------
def cell(builder: Builder, value: types.CellType) -> str:
    name = builder.put(value, builder.assign(f"{builder.constant(types.CellType, 'cell')}()"))
    try:
        content = value.cell_contents
    except ValueError:
        return name
    builder.later(lambda: builder.line(f"{name}.cell_contents = {builder.text(content)}"))
    return name


def function(builder: Builder, value: types.FunctionType) -> str:
    if importable_name(value) is not None:
        return constant(builder, value)  # it stands in a module: captured code did not make it
    maker = builder.constant(types.FunctionType, "function")
    closure = "" if value.__closure__ is None else f", None, {builder.tuple_text(value.__closure__)}"
    code = builder.constant(value.__code__, value.__code__.co_name)
    globals_ = builder.globals_text(value.__globals__)
    name = builder.assign(f"{maker}({code}, {globals_}, {value.__name__!r}{closure})", value.__name__)
    builder.put(value, name)
    builder.later(lambda: _function_attributes(builder, value, name))
    return name


def _function_attributes(builder: Builder, value: types.FunctionType, name: str) -> None:
    blank = types.FunctionType(value.__code__, value.__globals__, value.__name__, None, value.__closure__)
    for attribute in (
        "__defaults__",
        "__kwdefaults__",
        "__qualname__",
        "__module__",
        "__doc__",
        "__type_params__",
    ):
        now, default = getattr(value, attribute, None), getattr(blank, attribute, None)
        if now is not default and now != default:
            builder.line(f"{name}.{attribute} = {builder.text(now)}")
    if value.__annotations__:
        builder.line(f"{name}.__annotations__ = {builder.text(value.__annotations__)}")
    fill_fields(builder, value, name)


def partial(builder: Builder, value: functools.partial[Any]) -> str:
    if value.func is call_part and type(value) is BoundMethod:
        _machine, unopened, method = value.args
        return builder.assign(f"{builder.text(unopened)}.{method}", method)
    bound = standins.standing_method(value)
    if bound is not None:
        return builder.assign(f"{builder.text(bound[1])}.{bound[0]}", bound[0])
    kind = type(value)
    maker = builder.constant(kind, "partial")
    args: tuple[Any, ...] = (value.func, *value.args)
    if value.func is call_part:  # Python has put two into one
        args = (BoundMethod(*args[:4]), *args[4:])
    if kind is not functools.partial:
        maker, args = builder.constant(functools.partial.__new__, "partial_new"), (kind, *args)
    name = builder.put(value, builder.assign(builder.call_text(maker, args, value.keywords)))
    fill_fields(builder, value, name)
    return name


# -- instances -----------------------------------------------------------------------------------------------
Filler = Callable[[Builder, Any, str], None]


def fill_list(builder: Builder, value: Any, name: str) -> None:
    if list.__len__(value):
        extend = builder.constant(list.extend, "extend")
        builder.line(f"{extend}({name}, [{builder.items(list.__iter__(value))}])")


def fill_dict(builder: Builder, value: Any, name: str) -> None:
    if dict.__len__(value):
        check_keys(builder, dict.__iter__(value))
        update = builder.constant(dict.update, "update")
        builder.line(f"{update}({name}, {{{builder.pairs(dict.items(value))}}})")


def fill_ordered_dict(builder: Builder, value: Any, name: str) -> None:
    check_keys(builder, OrderedDict.__iter__(value))
    put = builder.constant(OrderedDict.__setitem__, "setitem")
    for key, item in OrderedDict.items(value):
        builder.line(f"{put}({name}, {builder.text(key)}, {builder.text(item)})")


def fill_default_dict(builder: Builder, value: Any, name: str) -> None:
    put = builder.constant(class_dict(defaultdict)["default_factory"].__set__, "put_factory")
    builder.line(f"{put}({name}, {builder.text(value.default_factory)})")
    fill_dict(builder, value, name)


def fill_set(builder: Builder, value: Any, name: str) -> None:
    if set.__len__(value):
        builder.line(set_text(builder, value, name))


def fill_deque(builder: Builder, value: Any, name: str) -> None:
    init = builder.constant(deque.__init__, "deque_init")
    builder.line(f"{init}({name}, [{builder.items(deque.__iter__(value))}], {value.maxlen!r})")


def fill_bytearray(builder: Builder, value: Any, name: str) -> None:
    builder.line(f"{builder.constant(bytearray.extend, 'extend')}({name}, {bytes(value)!r})")


def fill_nothing(_builder: Builder, _value: Any, _name: str) -> None:
    pass


FILLED: Final[dict[type, Filler]] = {
    object: fill_nothing,
    types.SimpleNamespace: fill_nothing,
    list: fill_list,
    dict: fill_dict,
    OrderedDict: fill_ordered_dict,
    defaultdict: fill_default_dict,
    set: fill_set,
    deque: fill_deque,
    bytearray: fill_bytearray,
}
"""C classes whose instances are allocated empty, and how their own part is filled."""

VALUES: Final[dict[type, Callable[[Builder, Any], str]]] = {
    tuple: lambda builder, value: builder.tuple_text(tuple.__iter__(value)),
    frozenset: lambda builder, value: f"[{builder.items(frozenset.__iter__(value))}]",
    int: lambda builder, value: builder.constant(int.__int__(value)),
    float: lambda builder, value: builder.constant(float.__float__(value)),
    complex: lambda builder, value: builder.constant(complex.__complex__(value)),
    str: lambda builder, value: builder.constant(str.__str__(value)),
    bytes: lambda builder, value: builder.constant(bytes.__bytes__(value)),
}
"""C classes whose instances get their value when they are made, and what `__new__` is to be given."""


def allocator(kind: type) -> type:
    """The first class written in C: its `__new__` makes the instances, its methods fill them."""
    return next(base for base in class_mro(kind) if written_in_c(base))


def instance(builder: Builder, value: Any) -> str:
    """An object of a user's class."""
    kind = type(value)
    base = allocator(kind)
    maker = builder.constant(base.__new__, f"new_{base.__name__}")
    class_text = builder.text(kind)
    if base in VALUES:
        if base is frozenset:
            check_keys(builder, frozenset.__iter__(value))
        made = f"{maker}({class_text}, {VALUES[base](builder, value)})"
    else:
        made = f"{maker}({class_text})"
    name = builder.put(value, builder.assign(made, kind.__name__))
    builder.later(lambda: _fill(builder, value, name, FILLED.get(base, fill_nothing)))
    return name


def _fill(builder: Builder, value: Any, name: str, own: Filler) -> None:
    own(builder, value, name)
    fill_slots(builder, value, name)
    fill_fields(builder, value, name)
    if has_type(value, LeftAtOnce):
        builder.line(f"{name}._prepare()")


def fill_slots(builder: Builder, value: Any, name: str) -> None:
    for base in class_mro(type(value)):
        if written_in_c(base) or base in (Leaving, LeftAtOnce):
            continue
        for slot, member in class_dict(base).items():
            if type(member) is types.MemberDescriptorType and slot not in ("__dict__", "__weakref__"):
                try:
                    content = member.__get__(value)
                except AttributeError as error:
                    let_through(error)
                    continue
                builder.line(
                    f"{builder.constant(member.__set__, f'put_{slot}')}({name}, {builder.text(content)})"
                )


def fill_fields(builder: Builder, value: Any, name: str) -> None:
    try:
        fields = instance_dict(value)
    except AttributeError as error:
        let_through(error)
        return
    if fields:
        own = f"{name}.__dict__"
        if not has_plain_dict(type(value)):
            own = f"{builder.constant(instance_dict, 'dict')}({name})"
        builder.line(f"{own}.update({{{builder.pairs(fields.items())}}})")


# -- exceptions ----------------------------------------------------------------------------------------------
def exception(builder: Builder, value: BaseException) -> str:
    """An exception that was never raised: its arguments, its own state and its chain."""
    kind = type(value)
    base = allocator(kind)
    maker = builder.constant(base.__new__, f"new_{base.__name__}")
    stored: Any = BaseException.args
    args = stored.__get__(value)
    name = builder.put(value, builder.assign(builder.call_text(maker, (kind, *args)), kind.__name__))
    if has_type(value, OSError):  # whose `__new__` leaves them to an `__init__` of a user's
        builder.line(f"{name}.args = {builder.tuple_text(args)}")
    builder.later(lambda: _fill_exception(builder, value, name))
    return name


def _fill_exception(builder: Builder, value: BaseException, name: str) -> None:
    for base in class_mro(type(value)):
        if not written_in_c(base) or base is BaseException:
            continue
        for member, found in class_dict(base).items():
            if type(found) is types.MemberDescriptorType:
                content = found.__get__(value)
                if content is not None:
                    put = builder.constant(found.__set__, f"put_{member}")
                    try:
                        found.__set__(value, content)
                    except (AttributeError, TypeError) as error:
                        let_through(error)
                        continue  # of an exception group: read-only, made of its arguments
                    builder.line(f"{put}({name}, {builder.text(content)})")
    if value.__cause__ is not None:
        builder.line(f"{name}.__cause__ = {builder.text(value.__cause__)}")
    if value.__context__ is not None:
        builder.line(f"{name}.__context__ = {builder.text(value.__context__)}")
    if value.__suppress_context__ != (value.__cause__ is not None):
        builder.line(f"{name}.__suppress_context__ = {value.__suppress_context__}")
    if value.__traceback__ is not None:
        builder.refuse(value, "that has a traceback")
    fill_slots(builder, value, name)
    fill_fields(builder, value, name)


# -- generators ----------------------------------------------------------------------------------------------
def generator(builder: Builder, value: CapturedGenerator) -> str:
    """A generator: unstarted by calling the function, finished closed, others suspended where they were."""
    if value.running or value.function is None:
        builder.refuse(value, "(a generator that is running)")
    frame = value.frame
    if value.started and frame is not None:
        return suspended(builder, value, frame)
    texts = [builder.text(value.arguments[name]) for name in parameter_names(value.code)]
    builder.settle()
    call = f"{builder.text(value.function)}({argument_text(value.code, texts)})"
    name = builder.assign(call, "generator")
    if frame is None:
        builder.line(f"{name}.close()")
    return name


def suspended(builder: Builder, value: CapturedGenerator, frame: Frame) -> str:
    """A generator that stands at a yield: its locals and its stack go into one that is brought there."""
    index = frame.index
    assert frame.bytecode.instructions[index - 1].op == "YIELD_VALUE"
    stack = [slot_of(builder, each) for each in frame.stack]
    point, arguments, cells = resume_texts(builder, frame, index, stack, suspended_code)
    builder.settle()
    function = value.function
    assert function is not None
    maker = builder.constant(rebuild_generator, "rebuild_generator")
    parts = [builder.constant(point, f"at_{index}"), builder.globals_text(frame.globals), cells]
    parts += [f"({', '.join(arguments)}{',' if len(arguments) == 1 else ''})"]
    parts += [repr(function.__name__), repr(function.__qualname__)]
    return builder.assign(f"{maker}({', '.join(parts)})", "generator")


# -- the table -----------------------------------------------------------------------------------------------
RULES: Final[dict[type, Rule]] = {
    **iterators.RULES,
    **standins.RULES,
    **dict.fromkeys(CONSTANT_TYPES, constant),
    types.BuiltinFunctionType: builtin_function,
    types.MethodWrapperType: builtin_function,
    SymInt: symbolic,
    SymFloat: symbolic,
    SymBool: symbolic,
    OpenText: symbolic,
    np.ndarray: array,
    list: list_,
    tuple: tuple_,
    dict: dict_,
    set: set_,
    frozenset: frozenset_,
    deque: deque_,
    OrderedDict: ordered_dict,
    defaultdict: default_dict,
    slice: made_of("start", "stop", "step"),
    bytearray: bytearray_,
    types.CellType: cell,
    types.FunctionType: function,
    types.MethodType: made_of("__func__", "__self__"),
    functools.partial: partial,
    staticmethod: made_of("__func__"),
    classmethod: made_of("__func__"),
    property: made_of("fget", "fset", "fdel", "__doc__"),
    CapturedGenerator: generator,
}


OUR_OWN: Final = ("weft.capture", "weft.trace", "weft.graph")
"""Where classes live whose objects are no part of the user's program."""


def rule_for(value: Any) -> Rule | None:
    """The rule for an object, None where there is none."""
    kind = type(value)
    rule = RULES.get(kind)
    if rule is not None:
        return rule
    if issubclass(kind, Tensor):
        return tensor
    if issubclass(kind, Node):  # of the tape: it belongs to fakes
        return None
    if issubclass(kind, CONSTANT_FAMILIES) or kind.__module__ == "typing":
        return constant
    if issubclass(kind, BaseException):
        return exception
    if issubclass(kind, functools.partial):
        return partial
    if kind.__module__.startswith(OUR_OWN):
        return None
    base = allocator(kind)
    known = base in FILLED or base in VALUES or issubclass(kind, LeftAtOnce)
    return instance if known and (kind in FILLED or not written_in_c(kind)) else None


def make_builder(outcome: Outcome, reader: Reader) -> Builder:
    return Builder(outcome, reader, rule_for)
