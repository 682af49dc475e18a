"""Special forms: calls whose arguments are read in ways of their own.

Takes the call; gives a sugared value. One idea: `form_<name>` reads the form of that name, so that adding one
is adding a method.
"""

from __future__ import annotations

import ast
from typing import Any

import weft.jit.results as results
import weft.jit.types as types
from weft.core.interrupts import let_through
from weft.jit.emitter import Base, Condition
from weft.jit.ir import Value
from weft.jit.sugar import (
    Constant,
    Iterated,
    LayerClass,
    ScriptedModule,
    SelfMarker,
    Several,
    Simple,
    Special,
    Sugar,
)
from weft.jit.types import (
    ANY,
    BOOL,
    DEVICE,
    FLOAT,
    INT,
    NONE,
    NUMBER,
    STR,
    TENSOR,
    DictType,
    FutureType,
    ListType,
    ObjectType,
    OptionalType,
    TupleType,
    Type,
    UnionType,
    annotation,
    subtype,
    union,
)  # fmt: skip


class Forms(Base):
    def special(self, form: Special, node: ast.Call, hint: Type | None = None) -> Sugar:
        reader = getattr(self, f"form_{form.name.replace('.', '_')}", None)
        if reader is None:
            return self.unknown_form(form, node)
        found: Sugar = reader(node, form, hint)
        return found

    def unknown_form(self, form: Special, node: ast.Call) -> Sugar:
        return self.error(f"Python builtin {form.name} is currently not supported in Torchscript", node)

    def read_args(self, node: ast.Call) -> list[Sugar]:
        found: list[Sugar] = []
        for arg in node.args:
            if isinstance(arg, ast.Starred):
                found += [Simple(value) for value in self.spread(self.sugared(arg.value), arg)]
            else:
                found.append(self.sugared(arg))
        return found

    def read_values(self, node: ast.Call) -> list[Value]:
        return [self.value(item, node) for item in self.read_args(node)]

    # -- what loops go through -----------------------------------------------------------------------------
    def form_range(self, node: ast.Call, form: Special, hint: Any) -> Sugar:
        values = [self.convert(value, INT, node, implicit=True) for value in self.read_values(node)]
        if not 1 <= len(values) <= 3:
            self.error(f"range expected at most 3 arguments, got {len(values)}", node)
        if any(value.kind not in (INT, BOOL, NUMBER) for value in values):
            self.error("all inputs of range must be ints, found " + str([str(v.kind) for v in values]), node)
        return Iterated("range", list(values))

    def form_enumerate(self, node: ast.Call, form: Special, hint: Any) -> Sugar:
        args = self.read_args(node)
        start = self.value(args[1], node) if len(args) > 1 else None
        for word in node.keywords:
            start = self.expression(word.value)
        return Iterated("enumerate", [self.iterated(args[0], node), start])

    def form_zip(self, node: ast.Call, form: Special, hint: Any) -> Sugar:
        return Iterated("zip", [self.iterated(arg, node) for arg in self.read_args(node)])

    def form_reversed(self, node: ast.Call, form: Special, hint: Any) -> Sugar:
        arg = self.read_args(node)[0]
        through = self.iterated(arg, node)
        if isinstance(through, Several):
            return Several(through.items[::-1])
        value = self.value(through, node)
        return Simple(self.emit("aten::reversed", [value], value.kind, node))

    def form_iter(self, node: ast.Call, form: Special, hint: Any) -> Sugar:
        return self.read_args(node)[0]

    def form_modules_keys(self, node: ast.Call, form: Special, hint: Any) -> Sugar:
        return Several([Constant(name) for name in form.detail.names])

    def form_modules_values(self, node: ast.Call, form: Special, hint: Any) -> Sugar:
        return Several(form.detail.items)

    def form_modules_items(self, node: ast.Call, form: Special, hint: Any) -> Sugar:
        pairs = zip(form.detail.names, form.detail.items, strict=True)
        return Several([Several([Constant(name), item]) for name, item in pairs])

    # -- questions about types -----------------------------------------------------------------------------
    def call_condition(self, node: ast.Call) -> Condition | None:
        if not isinstance(node.func, (ast.Name, ast.Attribute)):
            return None
        if isinstance(node.func, ast.Attribute) and not isinstance(
            node.func.value, (ast.Name, ast.Attribute)
        ):
            return None
        if isinstance(node.func, ast.Name) and self.frame.find(node.func.id) is not None:
            return None
        try:
            callee = self.sugared(node.func)
        except RuntimeError as error:
            let_through(error)
            return None
        if not isinstance(callee, Special):
            return None
        if callee.name in ("is_scripting", "is_tracing"):
            return Condition(None, callee.name == "is_scripting")
        if callee.name == "isinstance":
            return self.instance_test(node)
        if callee.name == "hasattr":
            return Condition(None, self.has_attribute(node))
        return None

    def instance_test(self, node: ast.Call) -> Condition:
        if len(node.args) != 2:
            self.error("isinstance expected 2 arguments", node)
        sugar = self.sugared(node.args[0])
        if not isinstance(sugar, (Simple, Constant, Several)):
            kind: Any = type(sugar.module.original_class) if isinstance(sugar, ScriptedModule) else None
            return Condition(None, kind is not None and self.module_is(sugar, node))
        value = self.value(sugar, node)
        targets = self.instance_types(node.args[1])
        options = value.kind.options if isinstance(value.kind, UnionType) else (value.kind,)
        if isinstance(value.kind, OptionalType):
            options = (value.kind.element, NONE)
        if value.kind == ANY:
            options = ()
        yes = [option for option in options if any(_is(option, target) for target in targets)]
        no = [option for option in options if option not in yes]
        if options and (not yes or not no):
            return Condition(None, not no)
        shown = tuple(str(target) if isinstance(target, Type) else target for target in targets)
        made = Condition(
            self.emit(
                "prim::isinstance", [value], BOOL, node, attributes={"types": list(shown)}, target=targets
            )
        )
        if isinstance(node.args[0], ast.Name):
            concrete = [target for target in targets if isinstance(target, Type)]
            if yes:
                made.when_true[node.args[0].id] = union(yes)
            elif concrete:
                made.when_true[node.args[0].id] = union(concrete)
            if no:
                made.when_false[node.args[0].id] = union(no)
        return made

    def module_is(self, sugar: Any, node: ast.Call) -> bool:
        given = node.args[1].elts if isinstance(node.args[1], ast.Tuple) else [node.args[1]]
        classes = [self.sugared(item) for item in given]
        wanted = tuple(
            item.value for item in classes if isinstance(item, Constant) and isinstance(item.value, type)
        )
        return issubclass(sugar.module.original_class, wanted) if wanted else False

    def instance_types(self, node: ast.expr) -> list[Any]:
        """The types of isinstance's second argument; bare `list`, `tuple`, `dict` as words."""
        if isinstance(node, ast.Tuple):
            return [target for item in node.elts for target in self.instance_types(item)]
        text = ast.unparse(node)
        if text in ("list", "tuple", "dict", "List", "Tuple", "Dict"):
            return [text.lower()]
        return [self.resolve_type(text, node)]

    def form_isinstance(self, node: ast.Call, form: Special, hint: Any) -> Sugar:
        test = self.instance_test(node)
        return Simple(test.value) if test.value is not None else Constant(bool(test.static))

    def has_attribute(self, node: ast.Call) -> bool:
        owner = self.sugared(node.args[0])
        name = self.expression(node.args[1]).constant
        if isinstance(owner, ScriptedModule):
            return bool(owner.module.has_script_attribute(name))
        if isinstance(owner, Simple):
            if isinstance(owner.value.kind, ObjectType) and owner.value.kind.info is not None:
                info = owner.value.kind.info
                return name in info.attributes or hasattr(owner.value.kind.cls, name)
            if isinstance(owner.value.kind, TupleType):
                return name in owner.value.kind.fields
            return name in results.ATTRIBUTES
        return hasattr(getattr(owner, "module", getattr(owner, "value", owner)), name)

    def form_hasattr(self, node: ast.Call, form: Special, hint: Any) -> Sugar:
        return Constant(self.has_attribute(node))

    def form_getattr(self, node: ast.Call, form: Special, hint: Any) -> Sugar:
        owner, name = self.sugared(node.args[0]), self.expression(node.args[1]).constant
        if not isinstance(name, str):
            self.error("getattr's second argument must be a string literal", node)
        if (
            len(node.args) == 3
            and isinstance(owner, ScriptedModule)
            and not owner.module.has_script_attribute(name)
        ):
            return self.sugared(node.args[2])
        return self.attribute(owner, name, node)

    def form_is_scripting(self, node: ast.Call, form: Special, hint: Any) -> Sugar:
        return Constant(True)

    def form_is_tracing(self, node: ast.Call, form: Special, hint: Any) -> Sugar:
        return Constant(False)

    def form_annotate(self, node: ast.Call, form: Special, hint: Any) -> Sugar:
        kind = self.resolve_type(ast.unparse(node.args[0]), node)
        value = self.convert(self.expression(node.args[1], kind), kind, node)
        if not subtype(value.kind, kind):
            self.error(
                f"expected an expression of type {annotation(kind)} but found {annotation(value.kind)}", node
            )
        if value.kind != kind and isinstance(kind, (OptionalType, UnionType)):
            value = self.emit("prim::unchecked_cast", [value], kind, node)
        return Simple(value)

    def form_unused(self, node: ast.Call, form: Special, hint: Any) -> Sugar:
        text = self.constant(
            f"The function {form.detail.__name__} is marked @torch.jit.unused and cannot be called", node
        )
        self.read_values(node)
        self.emit("prim::RaiseException", [text], None, node, attributes={"_guarded": True})
        names = self.context.script.names_of(form.detail)
        written = getattr(form.detail, "__annotations__", {}).get("return", "Tensor")
        kind = self.context.script.resolve(written, names)
        return Simple(self.emit("prim::Uninitialized", [], kind, node))

    def form_super(self, node: ast.Call, form: Special, hint: Any) -> Sugar:
        owner = self.frame.find("self")
        cls = self.context.owner
        if node.args:
            named = self.sugared(node.args[0])
            cls = getattr(named, "value", getattr(named, "cls", cls))
        return SelfMarker(owner, cls)

    def form_type(self, node: ast.Call, form: Special, hint: Any) -> Sugar:
        """Layers of the library find in their class what those of other ranks have differently."""
        args = self.read_args(node)
        if len(args) == 1 and isinstance(args[0], ScriptedModule) and args[0].module.is_library:
            return LayerClass(args[0].module)
        return self.unknown_form(form, node)

    # -- functions of Python -------------------------------------------------------------------------------
    def form_len(self, node: ast.Call, form: Special, hint: Any) -> Sugar:
        arg = self.read_args(node)[0]
        if isinstance(arg, (Several, ScriptedModule)):
            through = self.iterated(arg, node)
            if isinstance(through, Several):
                return Simple(self.constant(len(through.items), node))
        if isinstance(arg, Iterated):
            return Simple(self.emit("aten::len", [self.listed(arg, node)], INT, node))
        value = self.value(arg, node)
        if isinstance(value.kind, TupleType):
            return Simple(self.constant(len(value.kind.elements), node))
        if isinstance(value.kind, ObjectType):
            return self.call(self.attribute(Simple(value), "__len__", node), [], {}, node)
        if not isinstance(value.kind, (ListType, DictType)) and value.kind not in (STR, TENSOR, ANY):
            self.error(f"Arguments for call are not valid: len() of '{annotation(value.kind)}'", node)
        return Simple(self.emit("aten::len", [value], INT, node))

    def form_print(self, node: ast.Call, form: Special, hint: Any) -> Sugar:
        self.emit("prim::Print", self.read_values(node), None, node)
        return Simple(self.constant(None, node))

    def form_warn(self, node: ast.Call, form: Special, hint: Any) -> Sugar:
        self.emit("aten::warn", self.read_values(node)[:1], None, node)
        return Simple(self.constant(None, node))

    def extreme(self, name: str, node: ast.Call) -> Sugar:
        values = self.read_values(node)
        if len(values) == 1 and isinstance(values[0].kind, ListType):
            if values[0].kind.element == TENSOR:
                self.error(f"Arguments for call are not valid: {name}() of a list of tensors", node)
            return Simple(self.emit(f"prim::{name}", values, values[0].kind.element, node))
        if len(values) == 1 and values[0].kind == TENSOR:
            return Simple(self.emit(f"prim::{name}", values, TENSOR, node))
        found = values[0]
        for other in values[1:]:
            if isinstance(found.kind, ListType):
                kind: Type | None = found.kind
            elif TENSOR in (found.kind, other.kind):
                kind = TENSOR
            else:
                kind = results.widest(found.kind, other.kind)
            if kind is None:
                self.error(f"Arguments for call are not valid: {name}()", node)
            found = self.emit(f"prim::{name}", [found, other], kind, node)
        return Simple(found)

    def form_min(self, node: ast.Call, form: Special, hint: Any) -> Sugar:
        return self.extreme("min", node)

    def form_max(self, node: ast.Call, form: Special, hint: Any) -> Sugar:
        return self.extreme("max", node)

    def form_abs(self, node: ast.Call, form: Special, hint: Any) -> Sugar:
        (value,) = self.read_values(node)
        if value.kind == TENSOR:
            return Simple(self.emit("aten::abs", [value], TENSOR, node))
        kind = FLOAT if value.kind == types.COMPLEX else results.widest(value.kind)
        return Simple(self.emit("prim::abs", [value], kind or ANY, node))

    def form_sum(self, node: ast.Call, form: Special, hint: Any) -> Sugar:
        (value, *_rest) = self.read_values(node)
        if value.kind == TENSOR:
            return Simple(self.emit("aten::sum", [value], TENSOR, node))
        kind = results.of_sum(value.kind)
        if kind is None:
            self.error(f"Arguments for call are not valid: sum() of '{annotation(value.kind)}'", node)
        return Simple(self.emit("aten::sum", [value], kind if kind != BOOL else INT, node))

    def form_round(self, node: ast.Call, form: Special, hint: Any) -> Sugar:
        values = self.read_values(node)
        kind = TENSOR if values[0].kind == TENSOR else FLOAT
        return Simple(self.emit("aten::round", values, kind, node, attributes={"_from": "python"}))

    def form_pow(self, node: ast.Call, form: Special, hint: Any) -> Sugar:
        one, two = self.read_values(node)
        return Simple(self.arithmetic("pow", one, two, node))

    def form_divmod(self, node: ast.Call, form: Special, hint: Any) -> Sugar:
        one, two = self.read_values(node)
        kind = results.widest(one.kind, two.kind) or ANY
        return Simple(self.emit("aten::divmod", [one, two], TupleType((kind, kind)), node))

    def form_sorted(self, node: ast.Call, form: Special, hint: Any) -> Sugar:
        value = self.listed(self.read_args(node)[0], node)
        return Simple(self.emit("aten::sorted", [value], value.kind, node))

    def truth(self, name: str, node: ast.Call) -> Sugar:
        (value,) = self.read_values(node)
        if value.kind == TENSOR:
            return Simple(self.emit(f"aten::{name}", [value], TENSOR, node))
        return Simple(self.emit(f"aten::{name}", [value], BOOL, node))

    def form_any(self, node: ast.Call, form: Special, hint: Any) -> Sugar:
        return self.truth("any", node)

    def form_all(self, node: ast.Call, form: Special, hint: Any) -> Sugar:
        return self.truth("all", node)

    def text(self, name: str, node: ast.Call, kind: Type) -> Sugar:
        return Simple(self.emit(f"aten::{name}", self.read_values(node), kind, node))

    def form_ord(self, node: ast.Call, form: Special, hint: Any) -> Sugar:
        return self.text("ord", node, INT)

    def form_chr(self, node: ast.Call, form: Special, hint: Any) -> Sugar:
        return self.text("chr", node, STR)

    def form_hex(self, node: ast.Call, form: Special, hint: Any) -> Sugar:
        return self.text("hex", node, STR)

    def form_oct(self, node: ast.Call, form: Special, hint: Any) -> Sugar:
        return self.text("oct", node, STR)

    def form_bin(self, node: ast.Call, form: Special, hint: Any) -> Sugar:
        return self.text("bin", node, STR)

    def form_hash(self, node: ast.Call, form: Special, hint: Any) -> Sugar:
        return self.text("hash", node, INT)

    def form_device(self, node: ast.Call, form: Special, hint: Any) -> Sugar:
        return Simple(self.emit("aten::device", self.read_values(node), DEVICE, node))

    def form_list(self, node: ast.Call, form: Special, hint: Any) -> Sugar:
        if not node.args:
            return self.sugared(ast.copy_location(ast.List([], ast.Load()), node), hint)
        arg = self.read_args(node)[0]
        if isinstance(arg, Simple) and arg.value.kind == STR:
            return Simple(self.emit("aten::list", [arg.value], ListType(STR), node))
        value = self.listed(arg, node)
        return Simple(self.emit("aten::list", [value], value.kind, node))

    def form_tuple(self, node: ast.Call, form: Special, hint: Any) -> Sugar:
        if not node.args:
            return Several([])
        arg = self.read_args(node)[0]
        through = self.iterated(arg, node)
        if isinstance(through, Several):
            return through
        value = self.value(through, node)
        if isinstance(value.kind, TupleType):
            return Simple(value)
        if isinstance(hint, TupleType):
            return Several([Simple(item) for item in self.unpack(value, len(hint.elements), node)])
        if getattr(value.owner, "operator", "") == "prim::ListConstruct":
            made: Any = value.owner
            return Several([Simple(item) for item in made.arguments])
        return self.error("cannot statically infer the expected size of a list in this context", node)

    def form_dict(self, node: ast.Call, form: Special, hint: Any) -> Sugar:
        keys = [ast.copy_location(ast.Constant(word.arg), node) for word in node.keywords]
        if not node.args:
            literal = ast.Dict([*keys], [word.value for word in node.keywords])
            return self.sugared(ast.copy_location(literal, node), hint)
        sugar = self.sugared(node.args[0])
        if isinstance(sugar, Iterated):
            sugar = Simple(self.listed(sugar, node))
        value = self.value(sugar, node)
        if isinstance(value.kind, DictType):
            kind: Type = value.kind
        elif isinstance(value.kind, ListType) and isinstance(value.kind.element, TupleType):
            kind = DictType(*value.kind.element.elements)
        else:
            self.error("dict() takes a dict or a list of pairs", node)
        return Simple(self.emit("aten::dict", [value], kind, node))

    # -- futures -------------------------------------------------------------------------------------------
    def form_fork(self, node: ast.Call, form: Special, hint: Any) -> Sugar:
        inner = ast.copy_location(ast.Call(node.args[0], node.args[1:], node.keywords), node)
        value = self.expression(inner)
        return Simple(self.emit("prim::fork", [value], FutureType(value.kind), node))

    def form__fork(self, node: ast.Call, form: Special, hint: Any) -> Sugar:
        return self.form_fork(node, form, hint)

    def form_wait(self, node: ast.Call, form: Special, hint: Any) -> Sugar:
        (value,) = self.read_values(node)
        kind = value.kind.element if isinstance(value.kind, FutureType) else ANY
        return Simple(self.emit("aten::wait", [value], kind, node))

    def form__wait(self, node: ast.Call, form: Special, hint: Any) -> Sugar:
        return self.form_wait(node, form, hint)


def _is(kind: Type, target: Any) -> bool:
    """Whether a value of this type passes isinstance."""
    if target == "list":
        return isinstance(kind, ListType)
    if target == "tuple":
        return isinstance(kind, TupleType)
    if target == "dict":
        return isinstance(kind, DictType)
    return subtype(kind, target)
