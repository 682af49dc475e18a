"""Expressions: names, operators, literals, attributes, tests.

Takes nodes of the syntax tree; gives sugared values. One idea: one function per kind of node in one table,
and a test gives besides its value what it says about the types of names.
"""

from __future__ import annotations

import ast
import enum
import types as python_types
from typing import Any

import weft.jit.results as results
import weft.jit.types as types
from weft.core.interrupts import let_through
from weft.core.naming import home
from weft.jit.emitter import Base, Condition, describe
from weft.jit.ir import Value
from weft.jit.lookup import as_sugar
from weft.jit.sugar import (
    Bound,
    Builtin,
    Called,
    Class,
    Constant,
    LayerClass,
    ModuleMethod,
    Opaque,
    Python,
    PythonModule,
    ScriptedModule,
    SelfMarker,
    Several,
    Simple,
    Special,
    Sugar,
)  # fmt: skip
from weft.jit.types import (
    ANY,
    BOOL,
    INT,
    NONE,
    NUMBER,
    STR,
    TENSOR,
    DictType,
    ListType,
    ObjectType,
    OptionalType,
    TupleType,
    Type,
    UnionType,
    annotation,
    optional,
    subtype,
    type_of,
    unify,
    union,
)  # fmt: skip
from weft.tensor.base import Tensor

BINARY: dict[type, tuple[str, str]] = {
    ast.Add: ("add", "+"), ast.Sub: ("sub", "-"), ast.Mult: ("mul", "*"), ast.Div: ("div", "/"),
    ast.FloorDiv: ("floordiv", "//"), ast.Mod: ("remainder", "%"), ast.Pow: ("pow", "**"),
    ast.MatMult: ("matmul", "@"), ast.BitAnd: ("__and__", "&"), ast.BitOr: ("__or__", "|"),
    ast.BitXor: ("__xor__", "^"), ast.LShift: ("__lshift__", "<<"), ast.RShift: ("__rshift__", ">>"),
}  # fmt: skip
COMPARE: dict[type, str] = {
    ast.Eq: "eq", ast.NotEq: "ne", ast.Lt: "lt", ast.Gt: "gt", ast.LtE: "le", ast.GtE: "ge",
}  # fmt: skip


class Expressions(Base):
    def sugared(self, node: ast.expr, hint: Type | None = None) -> Sugar:
        before, self.here = self.here, node
        try:
            if isinstance(
                node,
                (
                    ast.List,
                    ast.Dict,
                    ast.Tuple,
                    ast.IfExp,
                    ast.Call,
                    ast.ListComp,
                    ast.DictComp,
                    ast.GeneratorExp,
                ),
            ):
                made: Sugar = getattr(self, f"read_{type(node).__name__}")(node, hint)
                return made
            reader = getattr(self, f"read_{type(node).__name__}", None)
            if reader is None:
                self.unsupported(f"{_word(node)} aren't supported", node)
            found: Sugar = reader(node)
            return found
        finally:
            self.here = before

    # -- names and literals --------------------------------------------------------------------------------
    def read_Name(self, node: ast.Name) -> Sugar:
        found = self.frame.find(node.id)
        if found is not None:
            return found
        why = self.frame.why_missing(node.id)
        if why is not None:
            self.error(why, node)
        try:
            thing = self.context.names(node.id)
        except (NameError, KeyError) as error:
            let_through(error)
            return self.error(f"undefined value {node.id}", node)
        return self.known(thing, node)

    def known(self, thing: Any, where: Any, constant: bool = False) -> Sugar:
        """What a Python object stands for. Numbers of the surroundings are not read unless they are
        attributes of modules."""
        sugar = as_sugar(thing)
        if sugar is None:
            if constant and type_of(thing) is not None:
                return Constant(thing)
            return Constant(thing) if _always(thing) else Opaque(thing)
        return sugar

    def read_Constant(self, node: ast.Constant) -> Sugar:
        if node.value is Ellipsis:
            return Special("ellipsis")
        return Simple(self.constant(node.value, node))

    def read_JoinedStr(self, node: ast.JoinedStr) -> Sugar:
        text, values = "", []
        for part in node.values:
            if isinstance(part, ast.Constant):
                text += str(part.value).replace("{", "{{").replace("}", "}}")
                continue
            assert isinstance(part, ast.FormattedValue)
            if part.conversion != -1 and part.conversion != 115:
                self.unsupported("Don't support conversion in JoinedStr", node)
            spec = ""
            if part.format_spec is not None:
                inner: Any = part.format_spec
                if not isinstance(inner, ast.JoinedStr) or not all(
                    isinstance(v, ast.Constant) for v in inner.values
                ):
                    self.unsupported("Don't support formatting in JoinedStr", node)
                spec = ":" + "".join(str(v.value) for v in inner.values if isinstance(v, ast.Constant))
            text += f"{{{spec}}}"
            values.append(self.expression(part.value))
        pattern = self.constant(text, node)
        return Simple(self.emit("aten::format", [pattern, *values], STR, node))

    def read_List(self, node: ast.List, hint: Type | None = None) -> Sugar:
        inner = _inner(hint)
        element = inner.element if isinstance(inner, ListType) else None
        items = self.items(node.elts, element)
        if element is None:
            element = self.common(items, node, "List") if items else TENSOR
        items = [self.fit(item, element, node, "list") for item in items]
        return Simple(self.emit("prim::ListConstruct", items, ListType(element), node))

    def items(self, nodes: list[ast.expr], hint: Type | None) -> list[Value]:
        found: list[Value] = []
        for item in nodes:
            if isinstance(item, ast.Starred):
                spread = self.sugared(item.value)
                found += self.spread(spread, item)
            else:
                found.append(self.expression(item, hint))
        return found

    def spread(self, sugar: Sugar, where: Any) -> list[Value]:
        """The values behind a star: those of a tuple."""
        if isinstance(sugar, Several):
            return [self.value(item, where) for item in sugar.items]
        value = self.value(sugar, where)
        if not isinstance(value.kind, TupleType):
            self.error("cannot unpack a value that is no tuple", where)
        return self.unpack(value, where=where)

    def common(self, items: list[Value], where: Any, what: str) -> Type:
        kind = items[0].kind
        for item in items[1:]:
            joined = unify(kind, item.kind)
            if joined is None:
                if kind in (INT, types.FLOAT) and item.kind in (INT, types.FLOAT):
                    self.error(
                        f"Expected all elements to be of the same type: found {kind} and {item.kind}", where
                    )
                joined = union([kind, item.kind])
            kind = joined
        return TENSOR if kind == TENSOR else kind

    def fit(self, value: Value, kind: Type, where: Any, what: str) -> Value:
        made = self.convert(value, kind, where)
        if not subtype(made.kind, kind):
            self.error(
                f"Expected a {what} element of type '{annotation(kind)}' but found "
                f"'{annotation(made.kind)}' instead", where,
            )  # fmt: skip
        return made

    def read_Tuple(self, node: ast.Tuple, hint: Type | None = None) -> Sugar:
        inner = _inner(hint)
        parts = (
            inner.elements if isinstance(inner, TupleType) and len(inner.elements) == len(node.elts) else None
        )
        items: list[Sugar] = []
        for position, item in enumerate(node.elts):
            if isinstance(item, ast.Starred):
                items += [Simple(value) for value in self.spread(self.sugared(item.value), item)]
            else:
                items.append(self.sugared(item, parts[position] if parts else None))
        return Several(items)

    def read_Dict(self, node: ast.Dict, hint: Type | None = None) -> Sugar:
        inner = _inner(hint)
        key = inner.key_type if isinstance(inner, DictType) else None
        item = inner.value_type if isinstance(inner, DictType) else None
        keys = [self.expression(k, key) for k in node.keys if k is not None]
        values = [self.expression(v, item) for v in node.values]
        if key is None or item is None:
            key = self.common(keys, node, "Dict") if keys else STR
            item = self.common(values, node, "Dict") if values else TENSOR
        keys = [self.fit(k, key, node, "dict") for k in keys]
        values = [self.fit(v, item, node, "dict") for v in values]
        arguments = [each for pair in zip(keys, values, strict=True) for each in pair]
        return Simple(self.emit("prim::DictConstruct", arguments, DictType(key, item), node))

    # -- operators -----------------------------------------------------------------------------------------
    def read_BinOp(self, node: ast.BinOp) -> Sugar:
        one, two = self.expression(node.left), self.expression(node.right)
        return Simple(self.binary(type(node.op), one, two, node))

    def binary(self, operator: type, one: Value, two: Value, where: Any) -> Value:
        if operator not in BINARY:
            self.unsupported(f"unsupported binary operator: {operator.__name__}", where)
        name = BINARY[operator][0]
        return self.arithmetic(name, one, two, where)

    def arithmetic(self, name: str, one: Value, two: Value, where: Any) -> Value:
        if isinstance(one.kind, ObjectType):
            return self.dunder(one, f"__{name.strip('_')}__", [two], where)
        if TENSOR in (one.kind, two.kind):
            other = two if one.kind == TENSOR else one
            if (
                other.kind != TENSOR
                and not subtype(other.kind, NUMBER)
                and other.kind not in (NUMBER, BOOL, ANY)
            ):
                self.wrong_operands(name, one, two, where)
            if name == "floordiv":
                name = "floor_divide"
            made: Value = self.emit(f"aten::{name}", [one, two], TENSOR, where)
            return made
        if ANY in (one.kind, two.kind):
            made = self.emit(f"aten::{name}", [one, two], ANY, where)
            return made
        kind = results.of_binary(name, one.kind, two.kind)
        if kind is None:
            self.wrong_operands(name, one, two, where)
        made = self.emit(f"aten::{name}", [one, two], kind, where)
        return made

    def dunder(self, one: Value, name: str, others: list[Value], where: Any) -> Value:
        return self.value(self.call(Bound(one, name), others, {}, where), where)

    def wrong_operands(self, name: str, one: Value, two: Value, where: Any) -> None:
        if isinstance(one.kind, OptionalType) or isinstance(two.kind, OptionalType):
            wrong, number = (one, "self") if isinstance(one.kind, OptionalType) else (two, "other")
            expected = "Tensor" if TENSOR in (one.kind, two.kind) else "number"
        else:
            wrong, number = (two, "other") if one.kind == TENSOR or two.kind != TENSOR else (one, "self")
            expected = "Tensor" if TENSOR in (one.kind, two.kind) else str(one.kind)
        inside = f"aten::{name}.Tensor(Tensor self, Tensor other) -> Tensor"
        place = self.place(where).highlight()
        raise RuntimeError(
            "\nArguments for call are not valid.\nThe following variants are available:\n  \n  "
            f"{inside}:\n  Expected a value of type '{expected}' for argument '{number}' but "
            f"instead found type "
            f"'{wrong.kind}'.\n\nThe original call is:\n{place}\n"
        )

    def read_UnaryOp(self, node: ast.UnaryOp) -> Sugar:
        if isinstance(node.op, ast.Not):
            test = self.condition(node)
            assert test.value is not None or test.static is not None
            return Simple(self.constant(test.static, node) if test.value is None else test.value)
        value = self.expression(node.operand)
        constant = value.constant
        if isinstance(node.op, ast.USub) and type(constant) in (int, float, complex):
            return Simple(self.constant(-constant, node))
        if isinstance(node.op, ast.UAdd):
            return Simple(value)
        name = "neg" if isinstance(node.op, ast.USub) else "bitwise_not"
        if isinstance(value.kind, ObjectType):
            return Simple(self.dunder(value, "__neg__" if name == "neg" else "__invert__", [], node))
        if value.kind != TENSOR and results.widest(value.kind) is None:
            self.error(f"Arguments for call are not valid: unary {name} of '{value.kind}'", node)
        kind = value.kind if value.kind != BOOL else INT
        return Simple(self.emit(f"aten::{name}", [value], kind, node))

    def read_BoolOp(self, node: ast.BoolOp) -> Sugar:
        return Simple(self.test_value(self.condition(node), node))

    def test_value(self, test: Condition, where: Any) -> Value:
        return test.value if test.value is not None else self.constant(bool(test.static), where)

    def read_Compare(self, node: ast.Compare) -> Sugar:
        if len(node.ops) == 1 and not isinstance(node.ops[0], (ast.Is, ast.IsNot, ast.In, ast.NotIn)):
            one, two = self.expression(node.left), self.expression(node.comparators[0])
            return Simple(self.compare(type(node.ops[0]), one, two, node))
        return Simple(self.test_value(self.condition(node), node))

    def compare(self, operator: type, one: Value, two: Value, where: Any) -> Value:
        name = COMPARE.get(operator)
        if name is None:
            return self.error(f"unsupported comparison operator: {operator.__name__}", where)
        if isinstance(one.kind, ObjectType) and one.kind.sort != "enum":
            return self.dunder(one, f"__{name}__", [two], where)
        if TENSOR in (one.kind, two.kind):
            other = two if one.kind == TENSOR else one
            if other.kind != TENSOR and not subtype(other.kind, NUMBER):
                self.wrong_operands(name, one, two, where)
            made: Value = self.emit(f"aten::{name}", [one, two], TENSOR, where)
            return made
        numbers = results.widest(one.kind) is not None and results.widest(two.kind) is not None
        loose = {ANY, NONE} & {one.kind, two.kind} or any(
            isinstance(kind, (OptionalType, UnionType)) for kind in (one.kind, two.kind)
        )
        if not numbers and not loose and unify(one.kind, two.kind) is None:
            self.wrong_operands(name, one, two, where)
        if isinstance(one.kind, OptionalType) and name not in ("eq", "ne"):
            self.wrong_operands(name, one, two, where)
        made = self.emit(f"aten::{name}", [one, two], BOOL, where)
        return made

    # -- attributes ----------------------------------------------------------------------------------------
    def read_Attribute(self, node: ast.Attribute) -> Sugar:
        owner = self.sugared(node.value)
        return self.attribute(owner, node.attr, node)

    def attribute(self, owner: Sugar, name: str, where: Any) -> Sugar:
        if isinstance(owner, PythonModule):
            if not hasattr(owner.module, name):
                self.error(f"module '{owner.module.__name__}' has no attribute '{name}'", where)
            return self.known(getattr(owner.module, name), where, constant=True)
        if isinstance(owner, ScriptedModule):
            return self.module_attribute(owner, name, where)
        if isinstance(owner, LayerClass):
            shared: Sugar | None = owner.module.class_attribute(name)
            return self.error(f"type object has no attribute '{name}'", where) if shared is None else shared
        if isinstance(owner, SelfMarker):
            return ModuleMethod(owner.owner, f"super.{owner.cls.__name__}.{name}")
        if isinstance(owner, Class):
            return self.class_attribute(owner, name, where)
        if isinstance(owner, (Constant, Opaque)):
            if isinstance(owner.value, enum.Enum):
                return Constant(getattr(owner.value, name))
            if isinstance(owner, Opaque):
                return self.known(getattr(owner.value, name), where)
        if isinstance(owner, Several) and owner.names is not None and name in ("keys", "values", "items"):
            return Special(f"modules.{name}", owner)
        if isinstance(owner, (Special, Called)):
            thing = getattr(owner, "function", None) or owner.detail  # type: ignore[union-attr]
            return self.error(
                f"'{getattr(thing, '__name__', describe(owner))}' has no attribute '{name}'", where
            )
        return self.value_attribute(self.value(owner, where), name, where)

    def class_attribute(self, owner: Class, name: str, where: Any) -> Sugar:
        found = getattr(owner.cls, name, None)
        if found is None:
            return self.error(f"type object '{owner.cls.__name__}' has no attribute '{name}'", where)
        if isinstance(found, python_types.FunctionType) and owner.sort in ("class", "tuple"):
            return Called(found)
        if name == "apply" and owner.sort == "function":
            return Python(found, None, owner.cls.__name__)
        return Constant(found) if isinstance(found, enum.Enum) else self.known(found, where, constant=True)

    def module_attribute(self, owner: ScriptedModule, name: str, where: Any) -> Sugar:
        found: Sugar | None = owner.module.script_attribute(self, owner, name, where)
        if found is None:
            kind = getattr(owner.module.original_class, "__name__", "Module")
            reason = owner.module.failed_attributes.get(name)
            text = f"Module '{kind}' has no attribute '{name}' {f'({reason}) ' if reason else ''}"
            return self.error(text, where)
        return found

    def value_attribute(self, value: Value, name: str, where: Any) -> Sugar:
        kind = value.kind
        if kind == TENSOR:
            if name == "device":
                return Simple(self.emit("prim::device", [value], types.DEVICE, where))
            if name in results.ATTRIBUTES:
                operator = {"shape": "aten::size", "ndim": "aten::dim"}.get(name, f"prim::{name}")
                return Simple(self.emit(operator, [value], results.ATTRIBUTES[name], where))
            if name == "is_tensor" or not hasattr(Tensor, name):
                self.error(f"'{kind}' object has no attribute or method '{name}'.", where)
            return Builtin(name, "Tensor", None, value)
        if isinstance(kind, TupleType) and name in kind.fields:
            index = self.constant(kind.fields.index(name), where)
            element = kind.elements[kind.fields.index(name)]
            return Simple(self.emit("prim::TupleIndex", [value, index], element, where))
        if isinstance(kind, ObjectType):
            return self.object_attribute(value, kind, name, where)
        if kind == types.DEVICE and name in ("type", "index"):
            return Simple(
                self.emit(f"prim::{name}", [value], STR if name == "type" else optional(INT), where)
            )
        if kind == STR and name in results.STRING_METHODS or kind == ANY:
            return Bound(value, name)
        if isinstance(kind, ListType) and name in results.LIST_METHODS:
            return Bound(value, name)
        if kind == types.INTS and name == "numel":
            return Bound(value, name)
        if isinstance(kind, DictType) and name in results.DICT_METHODS:
            return Bound(value, name)
        if kind == types.DTYPE and name in ("is_floating_point", "is_complex"):
            return Simple(self.emit(f"prim::{name}", [value], BOOL, where))
        if kind in (types.COMPLEX,) and name in ("real", "imag"):
            return Simple(self.emit(f"prim::{name}", [value], types.FLOAT, where))
        if isinstance(kind, types.FutureType) and name == "wait":
            return Bound(value, name)
        self.error(
            f"'{annotation(kind) if kind != NONE else 'NoneType'}' object has no attribute or "
            f"method '{name}'.",
            where,
        )
        raise AssertionError

    def object_attribute(self, value: Value, kind: ObjectType, name: str, where: Any) -> Sugar:
        if kind.sort == "enum":
            if name == "name":
                return Simple(self.emit("prim::EnumName", [value], STR, where))
            members = [member.value for member in kind.cls]
            found = type_of(members[0]) or ANY
            return Simple(self.emit("prim::EnumValue", [value], found, where))
        if kind.info is None:
            self.error(f"'{kind}' object has no attribute or method '{name}'.", where)
        if kind.sort == "module":
            return self.module_attribute(ScriptedModule(kind.info, value), name, where)
        if name in kind.info.attributes:
            found = kind.info.attributes[name]
            return Simple(self.emit("prim::GetAttr", [value], found, where, attributes={"name": name}))
        return Bound(value, name)

    # -- tests ---------------------------------------------------------------------------------------------
    def condition(self, node: ast.expr) -> Condition:
        """A test, with what it says about types of names on either way."""
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            inner = self.condition(node.operand)
            static = None if inner.static is None else not inner.static
            value = None
            if inner.value is not None:
                value = self.emit("aten::__not__", [inner.value], BOOL, node)
            made = Condition(value, static)
            made.when_true, made.when_false = inner.when_false, inner.when_true
            return made
        if isinstance(node, ast.BoolOp):
            return self.both(node.values, isinstance(node.op, ast.And), node)
        if isinstance(node, ast.Compare):
            return self.comparison(node)
        if isinstance(node, ast.Call):
            found = self.call_condition(node)
            if found is not None:
                return found
        if isinstance(node, ast.Constant) and isinstance(node.value, bool):
            return Condition(self.constant(node.value, node))
        sugar = self.sugared(node)
        if isinstance(sugar, Constant) and isinstance(sugar.value, bool):
            return Condition(None, sugar.value)
        value = self.value(sugar, node)
        return Condition(self.to_bool(value, node))

    def call_condition(self, node: ast.Call) -> Condition | None:
        """Calls whose answer is known while reading: isinstance, hasattr, is_scripting."""
        raise NotImplementedError

    def both(self, nodes: list[ast.expr], conjunction: bool, where: Any) -> Condition:
        """`a and b`, `a or b`: the second is read under what the first says."""
        first = self.condition(nodes[0])
        if len(nodes) == 1:
            return first
        if first.static is not None:
            if first.static != conjunction:
                return first
            return self.both(nodes[1:], conjunction, where)
        assert first.value is not None
        node = self.emit("prim::If", [first.value], None, where)
        known = first.when_true if conjunction else first.when_false
        going, ending = node.add_block(), node.add_block()
        with self.inside(going):
            self.refine(known)
            second = self.both(nodes[1:], conjunction, where)
            going.returned = [self.test_value(second, where)]
        with self.inside(ending):
            ending.returned = [self.constant(not conjunction, where)]
        if not conjunction:
            node.blocks_.reverse()
        made = Condition(node.add_result(BOOL))
        if conjunction:
            made.when_true = {**first.when_true, **second.when_true}
        else:
            made.when_false = {**first.when_false, **second.when_false}
        return made

    def refine(self, known: dict[str, Type]) -> None:
        for name, kind in known.items():
            found = self.frame.find(name)
            if isinstance(found, Simple) and found.value.kind != kind:
                cast = self.emit("prim::unchecked_cast", [found.value], kind, name=name)
                self.frame.refine(name, Simple(cast))

    def comparison(self, node: ast.Compare) -> Condition:
        if len(node.ops) > 1:
            return self.chain(node)
        operator, other = node.ops[0], node.comparators[0]
        if isinstance(operator, (ast.Is, ast.IsNot)):
            return self.identity(node, isinstance(operator, ast.Is), other)
        if isinstance(operator, (ast.In, ast.NotIn)):
            return self.contained(node, isinstance(operator, ast.In), other)
        one, two = self.expression(node.left), self.expression(other)
        return Condition(self.to_bool(self.compare(type(operator), one, two, node), node))

    def chain(self, node: ast.Compare) -> Condition:
        """`a < b < c` is `a < b and b < c`."""
        parts: list[ast.expr] = []
        left = node.left
        for operator, right in zip(node.ops, node.comparators, strict=True):
            parts.append(ast.copy_location(ast.Compare(left, [operator], [right]), node))
            left = right
        return self.both(parts, True, node)

    def identity(self, node: ast.Compare, same: bool, other: ast.expr) -> Condition:
        left, right = self.sugared(node.left), self.sugared(other)
        for one, two, name in ((left, right, node.left), (right, left, other)):
            if isinstance(two, Simple) and two.value.kind == NONE:
                if not isinstance(one, (Simple, Constant)):
                    return Condition(None, not same)
                value = self.value(one, node)
                return self.none_test(value, two.value, name, same, node)
        one_value, two_value = self.value(left, node), self.value(right, node)
        operator = "aten::__is__" if same else "aten::__isnot__"
        if BOOL in (one_value.kind, two_value.kind) or one_value.kind == two_value.kind:
            return Condition(self.emit(operator, [one_value, two_value], BOOL, node))
        return Condition(self.emit(operator, [one_value, two_value], BOOL, node))

    def none_test(self, value: Value, none: Value, name: ast.expr, same: bool, where: Any) -> Condition:
        kind = value.kind
        if kind == NONE:
            return Condition(None, same)
        never = not subtype(NONE, kind)
        if never:
            return Condition(None, not same)
        operator = "aten::__is__" if same else "aten::__isnot__"
        made = Condition(self.emit(operator, [value, none], BOOL, where))
        if isinstance(name, ast.Name) and kind != ANY:
            rest = kind.element if isinstance(kind, OptionalType) else _without_none(kind)
            no, yes = made.when_false, made.when_true
            if not same:
                no, yes = yes, no
            no[name.id] = rest
            yes[name.id] = NONE
        return made

    def contained(self, node: ast.Compare, positive: bool, other: ast.expr) -> Condition:
        container = self.sugared(other)
        if isinstance(container, Several) and container.names is not None:
            key = self.expression(node.left)
            return Condition(None, (key.constant in container.names) is positive)
        item, value = self.expression(node.left), self.value(container, node)
        kind = value.kind
        if not isinstance(kind, (ListType, DictType, TupleType)) and kind not in (STR, TENSOR, ANY):
            self.error(f"'{annotation(kind)}' object is not a container", node)
        made = self.emit("aten::__contains__", [value, item], BOOL, node)
        return Condition(made if positive else self.emit("aten::__not__", [made], BOOL, node))


def _always(thing: Any) -> bool:
    """Objects that may be used wherever they come from."""
    return thing is None or isinstance(thing, enum.Enum) or home(type(thing)).startswith("weft.core")


def _inner(hint: Type | None) -> Type | None:
    if isinstance(hint, OptionalType):
        return hint.element
    if isinstance(hint, UnionType):
        fitting = [option for option in hint.options if isinstance(option, (ListType, DictType, TupleType))]
        return fitting[0] if len(fitting) == 1 else None
    return hint


def _without_none(kind: Type) -> Type:
    return union([o for o in kind.options if o != NONE]) if isinstance(kind, UnionType) else kind


def _word(node: ast.expr) -> str:
    return type(node).__name__
