"""Subscripts: what stands in brackets, read and written.

Takes subscripts; gives nodes. One idea: a tensor's index is taken dimension by dimension, as TorchScript does
it: a number selects, a slice cuts, None adds a dimension, and tensors are left for one `aten::index` at the
end.
"""

from __future__ import annotations

import ast
from typing import Any

from weft.jit.emitter import Base
from weft.jit.ir import NOT_CONSTANT, Value
from weft.jit.sugar import ScriptedModule, Several, Simple, Special, Sugar
from weft.jit.types import (
    ANY,
    BOOL,
    INT,
    NONE,
    STR,
    TENSOR,
    DictType,
    ListType,
    ObjectType,
    OptionalType,
    TupleType,
    annotation,
    optional,
    subtype,
    union,
)  # fmt: skip

INDICES = ListType(OptionalType(TENSOR))


class Indexing(Base):
    def read_Subscript(self, node: ast.Subscript) -> Sugar:
        owner = self.sugared(node.value)
        if isinstance(owner, (Several, ScriptedModule)):
            return self.module_item(owner, node)
        value = self.value(owner, node.value)
        kind = value.kind
        if kind == TENSOR:
            return Simple(self.tensor_item(value, node.slice, node))
        if isinstance(kind, TupleType):
            return self.tuple_item(value, kind, node)
        if isinstance(kind, DictType):
            key = self.expression(node.slice)
            if not subtype(key.kind, kind.key_type):
                self.error(f"Expected key of type '{kind.key_type}' but found '{key.kind}'", node)
            return Simple(self.emit("aten::__getitem__", [value, key], kind.value_type, node))
        if isinstance(kind, ListType) or kind == STR:
            if isinstance(node.slice, ast.Slice):
                return Simple(self.cut(value, node.slice, node))
            index = self.convert(self.expression(node.slice), INT, node, implicit=True)
            if index.kind not in (INT, BOOL):
                self.error(f"Expected an integer index of a list, found '{annotation(index.kind)}'", node)
            element = kind.element if isinstance(kind, ListType) else STR
            return Simple(self.emit("aten::__getitem__", [value, index], element, node))
        if isinstance(kind, ObjectType):
            return Simple(self.dunder(value, "__getitem__", [self.expression(node.slice)], node))
        if kind == ANY:
            return Simple(self.emit("aten::__getitem__", [value, self.expression(node.slice)], ANY, node))
        return self.error(f"'{annotation(kind)}' object is not subscriptable", node)

    def cut(self, value: Value, index: ast.Slice, where: Any) -> Value:
        """A slice of a list or a string."""
        bounds = [self.bound(part, where) for part in (index.lower, index.upper)]
        step = self.constant(1, where) if index.step is None else self.expression(index.step)
        made: Value = self.emit("aten::slice", [value, *bounds, step], value.kind, where)
        return made

    def bound(self, part: ast.expr | None, where: Any) -> Value:
        if part is None:
            return self.constant(None, where)
        return self.convert(self.expression(part), optional(INT), where, implicit=True)

    def tuple_item(self, value: Value, kind: TupleType, node: ast.Subscript) -> Sugar:
        if isinstance(node.slice, ast.Slice):
            bounds = [
                None if p is None else self.expression(p).constant
                for p in (node.slice.lower, node.slice.upper, node.slice.step)
            ]
            if NOT_CONSTANT in bounds:
                self.error("tuple slices must be constants", node)
            items: list[Sugar] = [Simple(item) for item in self.unpack(value)]
            return Several(items[slice(*bounds)])
        index = self.expression(node.slice)
        constant = index.constant
        if not isinstance(constant, int):
            kinds = kind.elements
            if kinds and all(element == kinds[0] for element in kinds):
                return Simple(self.emit("prim::TupleIndex", [value, index], kinds[0], node))
            if index.kind != INT:
                self.error("tuple index must be an integer", node)
            self.error(
                "Cannot index into a tuple with a non-integer literal because we cannot resolve "
                "the output type",
                node,
            )
        if not -len(kind.elements) <= constant < len(kind.elements):
            size = len(kind.elements)
            self.error(f"Tuple index out of range. Tuple is length {size} and index is {constant}", node)
        if isinstance(value.owner, object) and getattr(value.owner, "operator", "") == "prim::TupleConstruct":
            made: Any = value.owner
            return Simple(made.arguments[constant])
        return Simple(self.emit("prim::TupleIndex", [value, index], kind.elements[constant], node))

    def module_item(self, owner: Sugar, node: ast.Subscript) -> Sugar:
        """An item of a tuple of things, of a list or a dict of modules."""
        items = self.iterated(owner, node) if not isinstance(owner, Several) else owner
        if not isinstance(items, Several):
            return self.error("this object is not subscriptable", node)
        if isinstance(node.slice, ast.Slice):
            bounds = [
                None if p is None else self.expression(p).constant
                for p in (node.slice.lower, node.slice.upper, node.slice.step)
            ]
            return Several(items.items[slice(*bounds)])
        index = self.expression(node.slice)
        constant = index.constant
        if items.names is not None and isinstance(constant, str):
            if constant not in items.names:
                self.error(f"Key Error, {constant}", node)
            return items.items[items.names.index(constant)]
        if not isinstance(constant, int):
            if all(isinstance(item, Simple) for item in items.items):
                value = self.value(Several(items.items), node)
                kinds = value.kind.elements  # type: ignore[attr-defined]
                return Simple(self.emit("prim::TupleIndex", [value, index], union(kinds), node))
            self.error(
                "Unable to extract string literal index. ModuleDict indexing is only supported with string "
                "literals. Enumeration of ModuleDict is supported, e.g. 'for k, v in self.items(): ...'"
                if items.names is not None else
                "Expected integer literal for index. ModuleList/Sequential indexing is only supported with "
                "integer literals. Enumeration is supported, e.g. 'for index, v in enumerate(self): ...'",
                node,
            )  # fmt: skip
        if not -len(items.items) <= constant < len(items.items):
            self.error("Index out of range", node)
        return items.items[constant]

    # -- tensors -------------------------------------------------------------------------------------------
    def tensor_item(self, value: Value, index: ast.expr, where: Any) -> Value:
        value, indices = self.view_of(value, index, where)
        return value if indices is None else self.emit("aten::index", [value, indices], TENSOR, where)

    def view_of(self, value: Value, index: ast.expr, where: Any) -> tuple[Value, Value | None]:
        """The view that numbers, slices and None make, and the list of tensors that is left."""
        parts = self.index_parts(index)
        rest = sum(1 for sort, _ in parts if sort in ("number", "slice", "tensor"))
        dim, after = 0, False
        tensors: dict[int, Value] = {}
        for sort, part in parts:
            rest -= sort in ("number", "slice", "tensor")
            at = -(rest + 1) if after else dim
            if sort == "ellipsis":
                after = True
            elif sort == "none":
                value = self.emit("aten::unsqueeze", [value, self.constant(at, where)], TENSOR, where)
                dim += 1
            elif sort == "number":
                value = self.emit("aten::select", [value, self.constant(at, where), part], TENSOR, where)
            elif sort == "slice":
                value = self.tensor_cut(value, at, part, where)
                dim += 1
            else:
                tensors[at] = part
                dim += 1
        if not tensors:
            return value, None
        return value, self.index_list(value, tensors, where)

    def index_list(self, value: Value, tensors: dict[int, Value], where: Any) -> Value:
        if any(at < 0 for at in tensors):
            self.error("tensors behind an ellipsis are not supported in an index", where)
        filled: list[Value] = []
        for at in range(max(tensors) + 1):
            filled.append(tensors[at] if at in tensors else self.constant(None, where, OptionalType(TENSOR)))
        made: Value = self.emit("prim::ListConstruct", filled, INDICES, where)
        return made

    def tensor_cut(self, value: Value, dim: int, part: ast.Slice | Value, where: Any) -> Value:
        if isinstance(part, Value):
            return value
        if part.lower is None and part.upper is None and part.step is None:
            return value
        bounds = [self.bound(piece, where) for piece in (part.lower, part.upper)]
        step = self.constant(1, where) if part.step is None else self.expression(part.step)
        at = self.constant(dim, where)
        made: Value = self.emit("aten::slice", [value, at, *bounds, step], TENSOR, where)
        return made

    def index_parts(self, index: ast.expr) -> list[tuple[str, Any]]:
        nodes = index.elts if isinstance(index, ast.Tuple) else [index]
        parts: list[tuple[str, Any]] = []
        for node in nodes:
            if isinstance(node, ast.Slice):
                parts.append(("slice", node))
                continue
            sugar = self.sugared(node)
            if isinstance(sugar, Special) and sugar.name == "ellipsis":
                parts.append(("ellipsis", None))
                continue
            if isinstance(sugar, Several) and not isinstance(index, ast.Tuple):
                return [self.index_part(self.value(item, node), node) for item in sugar.items]
            parts.append(self.index_part(self.value(sugar, node), node))
        return parts

    def index_part(self, value: Value, where: Any) -> tuple[str, Any]:
        kind = value.kind
        if kind == NONE:
            return "none", None
        if kind == INT:
            return "number", value
        if kind == TENSOR:
            return "tensor", value
        if isinstance(kind, ListType) or kind == BOOL:
            return "tensor", self.emit("aten::tensor", [value], TENSOR, where)
        if isinstance(kind, OptionalType) and kind.element == TENSOR:
            return "tensor", value
        self.error(
            "Unsupported operation: indexing tensor with unsupported index type "
            f"'{annotation(kind)}'. Only ints, slices, lists and tensors are supported", where,
        )  # fmt: skip
        raise AssertionError

    # -- writing -------------------------------------------------------------------------------------------
    def store_item(self, target: ast.Subscript, value: Value, where: Any) -> None:
        owner = self.expression(target.value)
        kind = owner.kind
        if kind == TENSOR:
            view, indices = self.view_of(owner, target.slice, where)
            self.store_tensor(view, indices, value, owner, where)
            return
        if isinstance(kind, ObjectType):
            self.dunder(owner, "__setitem__", [self.expression(target.slice), value], where)
            return
        if isinstance(kind, TupleType):
            self.error("'Tuple' object does not support item assignment", where)
        if isinstance(target.slice, ast.Slice):
            self.error("Performing index assignment on a slice is not supported for lists", where)
        key = self.expression(target.slice)
        expected = (
            kind.element
            if isinstance(kind, ListType)
            else kind.value_type
            if isinstance(kind, DictType)
            else None
        )
        if expected is None:
            self.error(f"'{annotation(kind)}' object does not support item assignment", where)
        assert expected is not None
        value = self.convert(value, expected, where)
        if not subtype(value.kind, expected):
            self.error(
                f"Expected a value of type '{annotation(expected)}' for argument 'el' but instead found type "
                f"'{annotation(value.kind)}'.", where,
            )  # fmt: skip
        self.emit("aten::_set_item", [owner, key, value], None, where)

    def store_tensor(
        self, view: Value, indices: Value | None, value: Value, owner: Value, where: Any
    ) -> None:
        if indices is not None:
            if value.kind != TENSOR:
                dtype = self.emit("prim::dtype", [owner], INT, where)
                value = self.emit("aten::tensor", [value, dtype], TENSOR, where, words=("dtype",))
            self.emit("aten::index_put_", [view, indices, value], TENSOR, where)
        elif value.kind == TENSOR:
            self.emit("aten::copy_", [view, value], TENSOR, where)
        else:
            self.emit("aten::fill_", [view, value], TENSOR, where)
