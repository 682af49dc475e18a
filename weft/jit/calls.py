"""Calls: operators, functions, methods, classes.

Takes what is called and its arguments; gives nodes. One idea: one function per kind of callee in one table;
special forms, which read their arguments in ways of their own, are in `weft.jit.forms`.
"""

from __future__ import annotations

import ast
import inspect
from typing import Any

import weft.jit.results as results
import weft.jit.types as types
from weft.jit.emitter import Base, describe
from weft.jit.ir import NOT_CONSTANT, Value
from weft.jit.schema import EMPTY, Schema
from weft.jit.sugar import (
    Bound,
    Builtin,
    Called,
    Cast,
    Class,
    Constant,
    ModuleMethod,
    Python,
    Raised,
    ScriptedModule,
    Simple,
    Special,
    Sugar,
)  # fmt: skip
from weft.jit.types import (
    ANY,
    BOOL,
    COMPLEX,
    FLOAT,
    INFERRED,
    INT,
    NONE,
    NUMBER,
    STR,
    TENSOR,
    DictType,
    FutureType,
    ListType,
    ObjectType,
    TupleType,
    Type,
    annotation,
    subtype,
)  # fmt: skip

VARIADIC = frozenset(
    [
        "view",
        "reshape",
        "expand",
        "permute",
        "repeat",
        "tile",
        "flip",
        "new_zeros",
        "new_ones",
        "new_empty",
        "zeros",
        "ones",
        "empty",
        "rand",
        "randn",
        "sum_to_size",
        "unflatten",
        "movedim",
        "moveaxis",
        "resize_",
    ]
)


class Calls(Base):
    def read_Call(self, node: ast.Call, hint: Type | None = None) -> Sugar:
        callee = self.sugared(node.func)
        if isinstance(callee, Special):
            return self.special(callee, node, hint)
        if isinstance(callee, Class) and callee.sort == "exception":
            return self.exception(callee, node)
        if isinstance(callee, Cast) and callee.kind in ("list", "dict", "tuple"):
            return self.special(Special(callee.kind), node, hint)
        args, words = self.arguments(node)
        if isinstance(callee, Builtin) and callee.name == "tolist" and hint is not None:
            assert callee.receiver is not None
            return Simple(self.emit("prim::tolist", [callee.receiver], hint, node))
        return self.call(callee, args, words, node)

    def arguments(self, node: ast.Call) -> tuple[list[Any], dict[str, Any]]:
        """The arguments; things that are no values stay what they are."""
        args: list[Any] = []
        for arg in node.args:
            if isinstance(arg, ast.Starred):
                args += self.spread(self.sugared(arg.value), arg)
            else:
                sugar = self.sugared(arg)
                args.append(sugar.value if isinstance(sugar, Simple) else sugar)
        words: dict[str, Any] = {}
        for word in node.keywords:
            if word.arg is None:
                self.unsupported("keyword-arg expansion is not supported", node)
            sugar = self.sugared(word.value)
            words[str(word.arg)] = sugar.value if isinstance(sugar, Simple) else sugar
        return args, words

    def call(self, callee: Sugar, args: list[Any], words: dict[str, Any], where: Any) -> Sugar:
        caller = getattr(self, f"call_{type(callee).__name__}", None)
        if caller is None:
            if isinstance(callee, Simple) and isinstance(callee.value.kind, ObjectType):
                return self.call(Bound(callee.value, "__call__"), args, words, where)
            thing = callee.value if isinstance(callee, Constant) else None
            name = str(thing) if thing is not None else describe(callee)
            if isinstance(callee, Simple):
                self.error(f"'{annotation(callee.value.kind)}' object is not callable", where)
            self.error(f"Python builtin {name} is currently not supported in Torchscript", where)
        found: Sugar = caller(callee, args, words, where)
        return found

    def values_of(self, args: list[Any], where: Any) -> list[Value]:
        return [arg if isinstance(arg, Value) else self.value(arg, where) for arg in args]

    def words_of(self, words: dict[str, Any], where: Any) -> dict[str, Value]:
        return {key: arg if isinstance(arg, Value) else self.value(arg, where) for key, arg in words.items()}

    # -- operators -----------------------------------------------------------------------------------------
    def call_Builtin(self, callee: Builtin, args: list[Any], words: dict[str, Any], where: Any) -> Sugar:
        if callee.origin == "math":
            return Simple(self.call_math(callee.name, self.values_of(args, where), where))
        values = self.values_of(args, where)
        if callee.receiver is not None:
            values.insert(0, callee.receiver)
        values = self.gathered(callee, values, where)
        named = self.words_of(words, where)
        return Simple(self.call_operator(callee.name, values, named, where, callee.origin, callee.function))

    def gathered(self, callee: Builtin, values: list[Value], where: Any) -> list[Value]:
        """`x.view(2, 3)` as `x.view([2, 3])`."""
        first = 1 if callee.receiver is not None else 0
        rest = values[first:]
        if callee.name not in VARIADIC or not rest or not all(value.kind == INT for value in rest):
            return values
        made = self.emit("prim::ListConstruct", rest, ListType(INT), where)
        return [*values[:first], made]

    def call_math(self, name: str, values: list[Value], where: Any) -> Value:
        numbers = [
            v if v.kind != TENSOR else self.emit("aten::ScalarImplicit", [v], NUMBER, where) for v in values
        ]
        if name not in results.MATH or any(results.widest(value.kind) is None for value in numbers):
            self.error(f"Arguments for call are not valid: math.{name}", where)
        made: Value = self.emit(
            f"aten::{name}", numbers, results.MATH[name], where, attributes={"_from": "math"}
        )
        return made

    def call_operator(
        self,
        name: str,
        args: list[Value],
        words: dict[str, Value],
        where: Any,
        origin: str = "",
        function: Any = None,
    ) -> Value:
        args = [self.as_list(value, where) for value in args]
        words = {key: self.as_list(value, where) for key, value in words.items()}
        function = function or self.context.script.find_operator(name, origin)
        op = getattr(function, "op", None)
        if op is not None:
            self.check(name, op, args, words, where)
        on = {key for key, value in words.items() if value.constant is True}
        kinds = [value.kind for value in args]
        kind = results.of_tensors(name, kinds, {key: value.kind for key, value in words.items()}, on)
        attributes = {"_from": origin} if origin else None
        made: Value = self.emit(
            f"aten::{name}", [*args, *words.values()], kind, where, tuple(words), attributes
        )
        return made

    def as_list(self, value: Value, where: Any) -> Value:
        """A tuple of tensors or numbers, which operators take as a list."""
        kind = value.kind
        if isinstance(kind, TupleType) and kind.elements and kind.cls is None:
            first = kind.elements[0]
            if first in (TENSOR, INT, FLOAT) and all(element == first for element in kind.elements):
                made: Value = self.emit("prim::ListConstruct", self.unpack(value), ListType(first), where)
                return made
        return value

    def check(self, name: str, op: Any, args: list[Value], words: dict[str, Value], where: Any) -> None:
        """Whether the arguments fit the op's record; the type rule has the last word, when it runs."""
        parameters = op.signature.parameters
        if any(parameter.variadic for parameter in parameters):
            return
        shown = ", ".join(f"{p.annotation} {p.name}" for p in parameters)
        head = f"aten::{name}({shown}) -> Tensor"

        def wrong(text: str) -> None:
            place = self.place(where).highlight()
            raise RuntimeError(
                "\nArguments for call are not valid.\nThe following variants are available:\n  \n  "
                f"{head}:\n  {text}\n\nThe original call is:\n{place}\n"
            )

        limit = op.signature.positional
        if op.promotion is not None and len(args) > limit:
            wrong(f"Expected at most {limit} arguments but found {len(args)} positional arguments.")
        names = [parameter.name for parameter in parameters]
        for word in words:
            if word not in names and word not in (
                "out",
                "dtype",
                "self",
                "keepdim",
                "other",
                "inplace",
                "axis",
                "input",
            ):
                wrong(f"Unknown keyword argument '{word}'.")
        # A list of sizes may stand for several parameters, so only values by position are compared.
        for value, parameter in zip(args, parameters, strict=False):
            fits, expected = results.matches(value.kind, parameter.annotation)
            if not fits:
                label = "self" if parameter.name == "input" else parameter.name
                inferred = (
                    f"\n  Inferred the value for argument '{label}' to be of type 'Tensor' "
                    f"because it was not "
                    "annotated with an explicit type." if value.kind is INFERRED else ""
                )  # fmt: skip
                wrong(
                    f"Expected a value of type '{expected}' for argument '{label}' but instead found type "
                    f"'{value.kind}'.{inferred}"
                )
        given = {*names[: len(args)], *words}
        missing = [
            p
            for p in parameters
            if p.name not in given and p.default is results_missing() and not p.keyword_only
        ]
        if missing and len(args) < op.signature.positional and not {"self", "input"} & set(words):
            wrong(f"Argument {missing[0].name} not provided.")

    # -- functions -----------------------------------------------------------------------------------------
    def call_Called(self, callee: Called, args: list[Any], words: dict[str, Any], where: Any) -> Sugar:
        scripted = self.context.script.function_for(callee.function, self.place(where))
        values = self.bind(scripted.schema, args, words, where)
        kind = scripted.returned_type()
        attributes = {"name": scripted.name}
        return Simple(self.emit("prim::CallFunction", values, kind, where, (), attributes, target=scripted))

    def call_ModuleMethod(
        self, callee: ModuleMethod, args: list[Any], words: dict[str, Any], where: Any
    ) -> Sugar:
        owner = callee.owner
        found: Sugar = owner.module.script_call(self, owner, callee.name, args, words, where)
        return found

    def call_ScriptedModule(
        self, callee: ScriptedModule, args: list[Any], words: dict[str, Any], where: Any
    ) -> Sugar:
        found: Sugar = callee.module.script_call(self, callee, "forward", args, words, where)
        return found

    def call_method(
        self, owner: Value, method: Any, args: list[Any], words: dict[str, Any], where: Any
    ) -> Sugar:
        values = self.bind(method.schema, args, words, where)
        attributes = {"name": method.name.split(".")[-1]}
        kind = method.returned_type()
        return Simple(
            self.emit("prim::CallMethod", [owner, *values], kind, where, (), attributes, target=method)
        )

    def bind(self, schema: Schema, args: list[Any], words: dict[str, Any], where: Any) -> list[Value]:
        """The arguments of a scripted callee in order, defaults filled in."""
        if len(args) > len(schema.arguments):
            self.error(
                f"\n{schema}:\nExpected at most {len(schema.arguments)} arguments but found "
                f"{len(args)} positional "
                "arguments.\n", where,
            )  # fmt: skip
        rest = dict(words)
        found: list[Value] = []
        for position, argument in enumerate(schema.arguments):
            if position < len(args):
                given = args[position]
            elif argument.name in rest:
                given = rest.pop(argument.name)
            elif argument.default is not EMPTY:
                given = self.default(argument.default, argument.type, where)
            else:
                self.error(f"\n{schema}:\nArgument {argument.name} not provided.\n", where)
            value = given if isinstance(given, Value) else self.value(given, where)
            value = self.convert(value, argument.type, where)
            if not subtype(value.kind, argument.type):
                inferred = (
                    "" if argument.type is not INFERRED else
                    f"Inferred '{argument.name}' to be of type 'Tensor' because it was not annotated with an "
                    "explicit type.\n"
                )  # fmt: skip
                self.error(
                    f"\n{schema}:\nExpected a value of type '{argument.type}' for argument "
                    f"'{argument.name}' but "
                    f"instead found type '{value.kind}'.\n{inferred}", where,
                )  # fmt: skip
            found.append(value)
        if rest:
            self.error(f"\n{schema}:\nUnknown keyword argument '{next(iter(rest))}'.\n", where)
        return found

    def default(self, value: Any, kind: Type, where: Any) -> Value:
        """A default as a value: lists and dicts anew for each call."""
        if isinstance(value, list) and isinstance(kind, ListType):
            items = [self.default(item, kind.element, where) for item in value]
            made: Value = self.emit("prim::ListConstruct", items, kind, where)
            return made
        if isinstance(value, tuple) and isinstance(kind, TupleType):
            items = [self.default(item, part, where) for item, part in zip(value, kind.elements, strict=True)]
            return self.tuple_of(items, kind, where)
        if kind == FLOAT and type(value) is int:
            value = float(value)
        return self.constant(value, where, kind)

    def call_Python(self, callee: Python, args: list[Any], words: dict[str, Any], where: Any) -> Sugar:
        """A call that Python itself does; the result has the annotated type, or is a tensor."""
        values, named = self.values_of(args, where), self.words_of(words, where)
        names = self.context.script.names_of(callee.function)
        written = getattr(callee.function, "__annotations__", {}).get("return", inspect.Parameter.empty)
        kind = TENSOR if written is inspect.Parameter.empty else self.context.script.resolve(written, names)
        if callee.receiver is not None:
            values.insert(0, callee.receiver)
        attributes = {"name": callee.name}
        made = self.emit(
            "prim::PythonOp",
            [*values, *named.values()],
            kind,
            where,
            tuple(named),
            attributes,
            target=callee.function,
        )
        return Simple(made)

    # -- methods of values ---------------------------------------------------------------------------------
    def call_Bound(self, callee: Bound, args: list[Any], words: dict[str, Any], where: Any) -> Sugar:
        receiver, name = callee.receiver, callee.name
        kind = receiver.kind
        if isinstance(kind, ObjectType):
            return self.object_method(receiver, kind, name, args, words, where)
        values, named = self.values_of(args, where), self.words_of(words, where)
        kinds = [value.kind for value in values]
        if isinstance(kind, FutureType):
            return Simple(self.emit("aten::wait", [receiver], kind.element, where))
        if kind == types.INTS and name == "numel":
            return Simple(self.emit("aten::numel", [receiver], INT, where))
        if isinstance(kind, ListType):
            values = self.list_values(kind, name, values, where)
            found = results.LIST_METHODS[name](kind, *kinds)
        elif isinstance(kind, DictType):
            found = results.DICT_METHODS[name](kind, *kinds)
        elif kind == ANY:
            found = ANY
        elif name == "format":
            return Simple(
                self.emit("aten::format", [receiver, *values, *named.values()], STR, where, tuple(named))
            )
        else:
            found = results.STRING_METHODS[name]
        arguments = [receiver, *values, *named.values()]
        if found == NONE:
            self.emit(f"aten::{name}", arguments, NONE, where, tuple(named))
            return Simple(self.constant(None, where))
        return Simple(self.emit(f"aten::{name}", arguments, found, where, tuple(named)))

    def list_values(self, kind: ListType, name: str, values: list[Value], where: Any) -> list[Value]:
        """What goes into a list must be of its type."""
        expected = {"append": kind.element, "extend": kind, "remove": kind.element}.get(name)
        if name == "insert" and len(values) == 2:
            return [values[0], self.convert(values[1], kind.element, where)]
        if expected is None or not values:
            return values
        value = self.convert(values[0], expected, where)
        if not subtype(value.kind, expected):
            self.error(
                "\nArguments for call are not valid.\nThe following variants are available:\n  \n  "
                f"aten::{name}.t(t[](a!) self, t(c -> *) el) -> t[](a!):\n  Could not match type "
                f"{annotation(value.kind)} to t in argument 'el': Type variable 't' previously "
                f"matched to type "
                f"{annotation(kind.element)} is matched to type {annotation(value.kind)}.\n\n"
                "The original call is", where,
            )  # fmt: skip
        return [value]

    def object_method(
        self, receiver: Value, kind: ObjectType, name: str, args: list[Any], words: dict[str, Any], where: Any
    ) -> Sugar:
        if kind.info is None:
            self.error(f"'{kind}' object has no attribute or method '{name}'.", where)
        method = kind.info.method(name)
        if method is None:
            self.error(f"'{kind}' object has no attribute or method '{name}'.", where)
        return self.call_method(receiver, method, args, words, where)

    # -- classes -------------------------------------------------------------------------------------------
    def call_Class(self, callee: Class, args: list[Any], words: dict[str, Any], where: Any) -> Sugar:
        if callee.sort == "tuple":
            kind = self.named_tuple(callee.cls)
            defaults = getattr(callee.cls, "_field_defaults", {})
            schema = Schema(callee.cls.__name__, [], kind)
            for name, element in zip(kind.fields, kind.elements, strict=True):
                from_class = defaults.get(name, EMPTY)
                schema.arguments.append(self.context.script.argument(name, element, from_class))
            return Simple(self.tuple_of(self.bind(schema, args, words, where), kind, where))
        if callee.sort == "context":
            values = self.values_of(args, where)
            kind_of = ObjectType(callee.cls, None, "context")
            attributes = {"name": callee.cls.__name__}
            return Simple(
                self.emit("prim::CreateObject", values, kind_of, where, (), attributes, target=callee.cls)
            )
        if callee.sort == "enum":
            found = self.value(args[0], where) if not isinstance(args[0], Value) else args[0]
            if found.constant is NOT_CONSTANT:
                self.error("enum values must be constants", where)
            return Constant(callee.cls(found.constant))
        if callee.sort == "class":
            return self.new_object(callee, args, words, where)
        return self.error(f"Cannot instantiate class '{callee.cls.__name__}' in a script function", where)

    def new_object(self, callee: Class, args: list[Any], words: dict[str, Any], where: Any) -> Sugar:
        info = self.context.script.class_for(callee.cls)
        kind = ObjectType(callee.cls, info, "class")
        made = self.emit("prim::CreateObject", [], kind, where, target=callee.cls)
        method = info.method("__init__")
        if method is not None:
            self.call_method(made, method, args, words, where)
        return Simple(made)

    def exception(self, callee: Class, node: ast.Call) -> Sugar:
        values = [self.expression(arg) for arg in node.args]
        if not values:
            return Raised(callee.cls, None)
        message = values[0]
        if message.kind != STR:
            message = self.emit("aten::str", [message], STR, node)
        return Raised(callee.cls, message)

    def call_Cast(self, callee: Cast, args: list[Any], words: dict[str, Any], where: Any) -> Sugar:
        values = self.values_of(args, where)
        kind: Type = {"int": INT, "float": FLOAT, "bool": BOOL, "complex": COMPLEX, "str": STR}[callee.kind]
        if not values:
            return Simple(
                self.constant({"int": 0, "float": 0.0, "bool": False, "str": "", "complex": 0j}[callee.kind])
            )
        value = values[0]
        if isinstance(value.kind, ObjectType) and callee.kind == "str":
            return self.call(Bound(value, "__str__"), [], {}, where)
        if value.kind == kind:
            return Simple(value)
        operator = "aten::str" if callee.kind == "str" else f"aten::{callee.kind.capitalize()}"
        plain = (INT, FLOAT, BOOL, TENSOR, STR, NUMBER, COMPLEX, ANY)
        if callee.kind != "str" and value.kind not in plain:
            self.error(
                f"Arguments for call are not valid: {callee.kind}() of '{annotation(value.kind)}'", where
            )
        return Simple(self.emit(operator, values, kind, where))


def results_missing() -> Any:
    from weft.ops.signature import MISSING

    return MISSING
