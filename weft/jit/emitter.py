"""The base of the front end: where nodes go, and what every part of it needs.

Takes a function's syntax tree, its source and where names are looked up; gives a graph, which its mixins fill
in. One idea: the place where nodes go and the frame of names are the only state, so a branch is read by
changing both for a while.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

from weft.core.interrupts import let_through
from weft.jit.errors import Range, Source, UnsupportedNodeError, fail
from weft.jit.ir import NOT_CONSTANT, Block, Graph, Node, Value
from weft.jit.schema import Schema
from weft.jit.scopes import Frame
from weft.jit.sugar import Constant, Opaque, Several, Simple, Sugar
from weft.jit.types import (
    ANY,
    BOOL,
    FLOAT,
    INT,
    NEVER,
    NONE,
    NUMBER,
    TENSOR,
    DictType,
    ListType,
    OptionalType,
    TupleType,
    Type,
    UnionType,
    annotation,
    named_tuple,
    subtype,
    type_of,
)  # fmt: skip


class Condition:
    """A test: its value, what is known of it already, and what it says about names."""

    def __init__(self, value: Value | None, static: bool | None = None) -> None:
        self.value, self.static = value, static
        self.when_true: dict[str, Type] = {}
        self.when_false: dict[str, Type] = {}


class Context:
    """What surrounds the code that is read: how names are found, and how callees are scripted."""

    def __init__(self, names: Callable[[str], Any], script: Any, owner: Any = None) -> None:
        self.names, self.script, self.owner = names, script, owner


class Base:
    """State and helpers; `frame` and `block` are where reading stands."""

    def __init__(self, source: Source, context: Context, schema: Schema) -> None:
        self.source, self.context, self.schema = source, context, schema
        self.graph = Graph(schema.name)
        self.block: Block = self.graph.block
        self.frame = Frame(None)
        self.returned: Type | None = schema.returned
        self.here: Any = None
        self.overridden: Range | None = None

    # -- filled in by the mixins -------------------------------------------------------------------------
    def sugared(self, node: ast.expr, hint: Type | None = None) -> Sugar:
        raise NotImplementedError

    def condition(self, node: ast.expr) -> Condition:
        raise NotImplementedError

    def statements(self, body: list[ast.stmt], tail: bool = False) -> Any:
        raise NotImplementedError

    def assign(self, target: ast.expr, value: Sugar, where: Any, declared: Type | None = None) -> None:
        raise NotImplementedError

    def call_operator(
        self,
        name: str,
        args: list[Value],
        words: dict[str, Value],
        where: Any,
        origin: str = "",
        function: Any = None,
    ) -> Value:
        raise NotImplementedError

    def loop(
        self,
        where: ast.AST,
        body: Callable[[Value], None],
        count: Value | None,
        test: Any,
        assigned: list[str],
    ) -> None:
        raise NotImplementedError

    def iterated(self, value: Sugar, where: ast.AST) -> Sugar:
        raise NotImplementedError

    def test_value(self, test: Condition, where: Any) -> Value:
        raise NotImplementedError

    def refine(self, known: dict[str, Type]) -> None:
        raise NotImplementedError

    def common(self, items: list[Value], where: Any, what: str) -> Type:
        raise NotImplementedError

    def spread(self, sugar: Sugar, where: Any) -> list[Value]:
        raise NotImplementedError

    def dunder(self, one: Value, name: str, others: list[Value], where: Any) -> Value:
        raise NotImplementedError

    def arithmetic(self, name: str, one: Value, two: Value, where: Any) -> Value:
        raise NotImplementedError

    def attribute(self, owner: Sugar, name: str, where: Any) -> Sugar:
        raise NotImplementedError

    def call(self, callee: Sugar, args: list[Any], words: dict[str, Any], where: Any) -> Sugar:
        raise NotImplementedError

    def listed(self, sugar: Sugar, where: Any) -> Value:
        raise NotImplementedError

    def special(self, form: Any, node: ast.Call, hint: Type | None = None) -> Sugar:
        raise NotImplementedError

    # -- making nodes ------------------------------------------------------------------------------------
    def place(self, node: Any) -> Range:
        if self.overridden is not None:
            return self.overridden
        return node if isinstance(node, Range) else self.source.range(node)

    def error(self, message: str, where: Any = None, kind: type[Exception] = RuntimeError) -> NoReturn:
        fail(message, self.place(where if where is not None else self.here), kind)

    def unsupported(self, what: str, where: Any) -> NoReturn:
        self.error(what, where, UnsupportedNodeError)

    def emit(
        self,
        operator: str,
        args: list[Value],
        kind: Type | None,
        where: Any = None,
        words: Any = (),
        attributes: dict[str, Any] | None = None,
        name: str = "",
        target: Any = None,
    ) -> Any:
        """A new node; gives its one value, or the node where `kind` is None."""
        place = None if where is None else self.place(where)
        node = Node(operator, self.graph, args, words, attributes, place, target)
        self.block.append(node)
        return node if kind is None else node.add_result(kind, name)

    def constant(self, value: Any, where: Any = None, kind: Type | None = None) -> Value:
        found = kind or type_of(value)
        if found is None:
            return self.error(
                f"python value of type '{type(value).__name__}' cannot be used as a value.", where
            )
        made: Value = self.emit("prim::Constant", [], found, where, attributes={"value": value})
        return made

    @contextmanager
    def inside(self, block: Block, loop: Any = None) -> Iterator[Frame]:
        """Reads what follows into another block, with a frame of its own."""
        before = self.block, self.frame
        self.block, self.frame = block, Frame(self.frame, loop)
        try:
            yield self.frame
        finally:
            self.block, self.frame = before

    # -- values ------------------------------------------------------------------------------------------
    def expression(self, node: ast.expr, hint: Type | None = None) -> Value:
        return self.value(self.sugared(node, hint), node)

    def value(self, sugar: Sugar, where: Any = None) -> Value:
        """The value that an expression stands for."""
        if isinstance(sugar, Simple):
            return sugar.value
        if isinstance(sugar, Constant) and not isinstance(sugar, Opaque):
            kind = type_of(sugar.value)
            if isinstance(sugar.value, (list, dict)):
                kind = None
            if kind is not None:
                return self.constant(sugar.value, where, kind)
        if isinstance(sugar, Several) and sugar.names is None:
            items = [self.value(item, where) for item in sugar.items]
            made: Value = self.emit("prim::TupleConstruct", items, TupleType([v.kind for v in items]), where)
            return made
        what = describe(sugar)
        self.error(
            f"{what} cannot be used as a value. Perhaps it is a closed over global variable? If so, please "
            "consider passing it in as an argument or use a local varible instead.", where,
        )  # fmt: skip
        raise AssertionError

    def convert(self, value: Value, kind: Type, where: Any = None, implicit: bool = False) -> Value:
        """The value as one of the type, where it can be made one without being asked; else as it is."""
        have = value.kind
        if have == kind or kind == ANY:
            return value
        inner = kind.element if isinstance(kind, OptionalType) else kind
        if isinstance(have, TupleType) and isinstance(inner, ListType):
            if all(subtype(element, inner.element) for element in have.elements):
                made: Value = self.emit("prim::ListConstruct", self.unpack(value), inner, where)
                return made
        if isinstance(have, TupleType) and isinstance(inner, TupleType) and have.cls is None:
            if inner.cls is not None and len(inner.elements) == len(have.elements):
                return self.tuple_of(self.unpack(value), inner, where)
            if len(inner.elements) == len(have.elements) and not subtype(have, inner):
                items = self.unpack(value)
                pairs = zip(items, inner.elements, strict=True)
                converted = [self.convert(item, part, where, implicit) for item, part in pairs]
                if any(new is not old for new, old in zip(converted, items, strict=True)):
                    return self.tuple_of(converted, TupleType([v.kind for v in converted]), where)
        constant = value.constant
        empty = isinstance(value.owner, Node) and value.owner.operator in (
            "prim::ListConstruct",
            "prim::DictConstruct",
        )
        if (
            empty
            and isinstance(value.owner, Node)
            and not value.owner.arguments
            and isinstance(inner, (ListType, DictType))
        ):
            if type(have) is type(inner):
                value.kind = inner
                return value
        if have == NONE and constant is None and isinstance(kind, (OptionalType, UnionType)):
            return self.constant(None, where, kind) if subtype(NONE, kind) else value
        if implicit and have == TENSOR and inner in (INT, FLOAT, NUMBER):
            word = {"int": "Int", "float": "Float", "number": "Scalar"}[str(inner)]
            made = self.emit(f"aten::{word}Implicit", [value], inner, where)
            return made
        return value

    def tuple_of(self, items: list[Value], kind: TupleType, where: Any = None) -> Value:
        made: Value = self.emit("prim::TupleConstruct", items, kind, where, target=kind.cls)
        return made

    def unpack(self, value: Value, count: int | None = None, where: Any = None) -> list[Value]:
        """The items of a tuple or of a list that has `count` of them."""
        if isinstance(value.kind, TupleType):
            if isinstance(value.owner, Node) and value.owner.operator == "prim::TupleConstruct":
                return list(value.owner.arguments)
            node = self.emit("prim::TupleUnpack", [value], None, where)
            return [node.add_result(kind) for kind in value.kind.elements]
        kind = value.kind
        element = kind.element if isinstance(kind, ListType) else TENSOR
        node = self.emit("prim::ListUnpack", [value], None, where)
        return [node.add_result(element) for _ in range(count or 0)]

    def to_bool(self, value: Value, where: Any = None) -> Value:
        """The truth of a value, as a test wants it."""
        if value.kind == BOOL:
            return value
        if value.kind in (INT, FLOAT, TENSOR, NUMBER) or value.kind == ANY:
            made: Value = self.emit("aten::Bool", [value], BOOL, where)
            return made
        kind = annotation(value.kind)
        return self.error(f"Could not cast value of type {kind} to bool", where)

    def is_constant(self, value: Value) -> bool:
        return value.constant is not NOT_CONSTANT

    def resolve_type(self, given: Any, where: Any = None) -> Type:
        try:
            found: Type = self.context.script.resolve(given, self.context.names)
            return found
        except RuntimeError as error:
            let_through(error)
            return self.error(str(error), where)

    def named_tuple(self, cls: Any) -> TupleType:
        return named_tuple(cls, lambda given: self.context.script.resolve(given, self.context.names))


def describe(sugar: Sugar) -> str:
    """A thing that is no value, in words."""
    name = type(sugar).__name__
    if isinstance(sugar, Constant):
        return f"python value of type '{type(sugar.value).__name__}'"
    words = {
        "PythonModule": "python module", "ScriptedModule": "module", "ModuleMethod": "method",
        "Builtin": "builtin", "Called": "function", "Python": "python value of type 'function'",
        "Cast": "magic function", "Class": "class", "Special": "magic function",
    }  # fmt: skip
    return words.get(name, name)


VOID = (NONE, NEVER)
