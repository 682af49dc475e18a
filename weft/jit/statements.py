"""Statements, and the whole function.

Takes a function's syntax tree; gives its graph. One idea: statements are read one after the other, each with
whether it is the last of the function, where an `if` may hold what is returned.
"""

from __future__ import annotations

import ast
from typing import Any

from weft.core.collection import parsed
from weft.jit.calls import Calls
from weft.jit.emitter import Condition, Context
from weft.jit.errors import Source
from weft.jit.expressions import BINARY, Expressions
from weft.jit.flow import Flow, all_known, assigned_names
from weft.jit.forms import Forms
from weft.jit.indexing import Indexing
from weft.jit.ir import Graph, Node, Value
from weft.jit.schema import Schema
from weft.jit.sugar import (
    Builtin,
    Called,
    Class,
    Constant,
    Iterated,
    Raised,
    ScriptedModule,
    Several,
    Simple,
    Sugar,
)  # fmt: skip
from weft.jit.types import (
    NONE,
    STR,
    TENSOR,
    ListType,
    ObjectType,
    OptionalType,
    TupleType,
    Type,
    UnionType,
    annotation,
    subtype,
    unify,
)  # fmt: skip

INPLACE = {
    "add": "add_", "sub": "sub_", "mul": "mul_", "div": "div_", "floordiv": "floor_divide_",
    "remainder": "remainder_", "pow": "pow_", "__and__": "__iand__", "__or__": "__ior__",
    "__xor__": "__ixor__",
    "__lshift__": "__ilshift__", "__rshift__": "__irshift__",
}  # fmt: skip


STATEMENTS: dict[type, str] = {
    ast.Try: "try blocks", ast.Import: "import statements", ast.ImportFrom: "import statements",
    ast.ClassDef: "class definitions", ast.FunctionDef: "function definitions",
    ast.Nonlocal: "nonlocal variables",
    ast.AsyncFor: "async for loops", ast.AsyncWith: "async with statements",
    ast.AsyncFunctionDef: "async function definitions",
}  # fmt: skip


class Emitter(Forms, Flow, Calls, Indexing, Expressions):
    """Reads one function."""

    def read(self, function: ast.FunctionDef, receiver: tuple[str, Type, Any] | None = None) -> Graph:
        """The function's graph; `receiver` is `self` with its type and what it stands for."""
        if receiver is not None:
            name, kind, module = receiver
            value = self.block.add_parameter(kind, name)
            self.frame.set(name, ScriptedModule(module, value) if module is not None else Simple(value))
        for argument in self.schema.arguments:
            value = self.block.add_parameter(argument.type, argument.name)
            self.frame.set(argument.name, Simple(value))
        body = function.body
        if body and isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant):
            body = body[1:]
        found = self.statements(body, tail=True)
        if not self.block.exits or found is not None:
            result = found if found is not None else self.fall_through(function)
            self.block.returned = [result]
            self.meet_return(result.kind)
        elif not any(node.operator == "prim::ReturnStmt" for node in self.graph.walk()):
            self.block.returned = [self.finish_never(function)]
        self.schema.returned = self.returned if self.returned is not None else NONE
        return self.graph

    def finish_never(self, function: ast.FunctionDef) -> Value:
        """What a function returns that always raises."""
        kind = self.returned or NONE
        self.returned = kind
        made: Value = self.emit("prim::Uninitialized", [], kind)
        return made

    def fall_through(self, function: ast.FunctionDef) -> Value:
        returns = any(isinstance(n, ast.Return) and n.value is not None for n in ast.walk(function))
        if (
            self.schema.returned is not None
            and not subtype(NONE, self.schema.returned)
            or returns
            and self.schema.returned is None
        ):
            self.error(
                "Function was not annotated as having type None, but does not return along all paths",
                function,
            )
        return self.constant(None, function)

    def meet_return(self, kind: Type) -> None:
        if self.returned is None:
            self.returned = TENSOR if kind == TENSOR else kind
            return
        joined = unify(self.returned, kind)
        if joined is None:
            self.error(
                f"Previous return statement returned a value of type {annotation(self.returned)} "
                f"but this return "
                f"statement returns a value of type {annotation(kind)}"
            )
        self.returned = joined

    # -- in a row ------------------------------------------------------------------------------------------
    def statements(self, body: list[ast.stmt], tail: bool = False) -> Value | None:
        """Reads statements; at the end of the function gives what they return, if they do."""
        for place, statement in enumerate(body):
            self.here = statement
            if self.block.exits:
                return None
            if isinstance(statement, ast.Return) and tail and self.frame.loop is None:
                return self.returning(statement)
            if isinstance(statement, ast.If) and tail and self.frame.loop is None:
                rest = body[place + 1 :]
                if _returns_within(statement):
                    done, value = self.final_if(statement, rest)
                    if done:
                        return value
                    continue
            reader = getattr(self, f"do_{type(statement).__name__}", None)
            if reader is None:
                self.unsupported(
                    f"{STATEMENTS.get(type(statement), type(statement).__name__)} aren't supported", statement
                )
            reader(statement)
        return None

    def returning(self, node: ast.Return) -> Value:
        hint = self.schema.returned
        value = self.constant(None, node) if node.value is None else self.expression(node.value, hint)
        if hint is not None:
            value = self.convert(value, hint, node)
            if not subtype(value.kind, hint):
                self.error(
                    f"Return value was annotated as having type {annotation(hint)} but is actually of type "
                    f"{annotation(value.kind)}", node,
                )  # fmt: skip
        return value

    def final_if(self, node: ast.If, rest: list[ast.stmt]) -> tuple[bool, Value | None]:
        """An `if` with returns in it, at the end of a function: see Note [Early exits] in `weft.jit.flow`.
        Says whether everything behind it was read."""
        test = self.condition(node.test)
        if test.static is not None:
            chosen = node.body if test.static else node.orelse
            return True, self.statements([*chosen, *rest], tail=True)
        both = [_always_returns(node.body), _always_returns(node.orelse)]
        simple = [both[0] or not _has_return(node.body), both[1] or not _has_return(node.orelse)]
        if not (any(both) and all(simple)) and rest:
            short = len(rest) <= 3
            if not short:
                self.plain_if(test, node)
                return False, None
        assert test.value is not None
        made: Node = self.emit("prim::If", [test.value], None, node)
        values: list[Value | None] = []
        for part, known in ((node.body, test.when_true), (node.orelse, test.when_false)):
            with self.inside(made.add_block()):
                self.refine(known)
                value = self.statements([*part, *rest], tail=True)
                if value is None and not self.block.exits:
                    value = self.fall_through_inside(node)
                if value is not None:
                    self.block.returned = [value]
                values.append(value)
        kinds = [value.kind for value in values if value is not None]
        if not kinds:
            return True, None
        kind: Type | None = self.schema.returned
        if kind is None:
            kind = kinds[0]
            for other in kinds[1:]:
                assert kind is not None
                joined = unify(kind, other)
                if joined is None:
                    self.error(
                        f"Previous return statement returned a value of type {annotation(kind)} "
                        f"but this return "
                        f"statement returns a value of type {annotation(other)}", node,
                    )  # fmt: skip
                kind = joined
        assert kind is not None
        return True, made.add_result(TENSOR if kind == TENSOR else kind)

    def fall_through_inside(self, node: ast.If) -> Value:
        if self.schema.returned is not None and not subtype(NONE, self.schema.returned):
            self.error(
                "Function was not annotated as having type None, but does not return along all paths", node
            )
        return self.constant(None, node)

    # -- one by one ----------------------------------------------------------------------------------------
    def do_If(self, node: ast.If) -> None:
        test = self.condition(node.test)
        if test.static is not None:
            self.statements(node.body if test.static else node.orelse)
            return
        self.plain_if(test, node)

    def plain_if(self, test: Condition, node: ast.If) -> None:
        self.branch(test, node, [lambda: self.block_of(node.body), lambda: self.block_of(node.orelse)])

    def block_of(self, body: list[ast.stmt]) -> None:
        self.statements(body)

    def do_Return(self, node: ast.Return) -> None:
        value = self.returning(node)
        self.meet_return(value.kind)
        self.emit("prim::ReturnStmt", [value], None, node)

    def do_Pass(self, node: ast.Pass) -> None:
        pass

    def do_Global(self, node: ast.Global) -> None:
        self.unsupported("global variables aren't supported", node)

    def do_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Constant):
            return
        self.sugared(node.value)

    def do_Assign(self, node: ast.Assign) -> None:
        value = self.sugared(node.value, self.known_type(node.targets))
        comment = _type_comment(self.source, node)
        declared = self.resolve_type(comment, node) if comment else None
        for target in node.targets:
            self.assign(target, value, node, declared)

    def known_type(self, targets: list[ast.expr]) -> Type | None:
        """What a variable or an attribute is known to hold, as a hint for what is assigned."""
        target = targets[0]
        if isinstance(target, ast.Name):
            return self.frame.outer_type(target.id)
        if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name):
            owner = self.frame.find(target.value.id)
            if isinstance(owner, ScriptedModule):
                found: Type | None = owner.module.attribute_type(target.attr)
                return found
        return None

    def do_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is None:
            self.unsupported("without assigned value", node)
        assert node.value is not None
        declared = self.resolve_type(ast.unparse(node.annotation), node)
        self.assign(node.target, self.sugared(node.value, declared), node, declared)

    def assign(self, target: ast.expr, value: Sugar, where: Any, declared: Type | None = None) -> None:
        if isinstance(target, ast.Name):
            self.assign_name(target, value, where, declared)
        elif isinstance(target, (ast.Tuple, ast.List)):
            self.assign_tuple(target, value, where)
        elif isinstance(target, ast.Subscript):
            self.store_item(target, self.value(value, where), where)
        elif isinstance(target, ast.Attribute):
            self.assign_attribute(target, self.value(value, where), where, declared)
        else:
            self.unsupported("left-hand side of this kind", where)

    def assign_name(self, target: ast.Name, value: Sugar, where: Any, declared: Type | None) -> None:
        name = target.id
        if (
            not isinstance(value, (Simple, Several, Constant))
            or isinstance(value, Several)
            and not _plain(value)
        ):
            self.frame.set(name, value)
            return
        if isinstance(value, Constant) and isinstance(value.value, type):
            self.frame.set(name, value)
            return
        if isinstance(value, Several) and declared is None:
            items = [self.value(item, where) for item in value.items]
            made = self.tuple_of(items, TupleType([item.kind for item in items]), where)
        else:
            made = self.value(value, where)
        if declared is not None:
            made = self.declared_value(made, declared, target, where)
        outer = self.frame.outer_type(name)
        if outer is not None:
            made = self.convert(made, outer, where)
            if not subtype(made.kind, outer):
                self.error(
                    f"Variable '{name}' previously had type {outer} but is now being "
                    f"assigned to a "
                    f"value of type {annotation(made.kind)}\n", target,
                )  # fmt: skip
        if made.name.isdigit() and isinstance(made.owner, Node) and made.owner.operator != "prim::Constant":
            made.name = self.graph.name_for(name)
        self.frame.set(name, Simple(made))

    def declared_value(self, made: Value, declared: Type, target: ast.expr, where: Any) -> Value:
        made = self.convert(made, declared, where)
        if not subtype(made.kind, declared):
            name = target.id if isinstance(target, ast.Name) else ast.unparse(target)
            self.error(
                f"Variable '{name}' is annotated with type {annotation(declared)} but is being assigned to a "
                f"value of type {annotation(made.kind)}", target,
            )  # fmt: skip
        if (
            made.kind != declared
            and isinstance(declared, (OptionalType, UnionType))
            or declared.name == "Any"
        ):
            made = self.emit("prim::unchecked_cast", [made], declared, where)
        return made

    def assign_tuple(self, target: Any, value: Sugar, where: Any) -> None:
        starred = [i for i, item in enumerate(target.elts) if isinstance(item, ast.Starred)]
        wanted = len(target.elts)
        if isinstance(value, (Several, Iterated, ScriptedModule)):
            through = self.iterated(value, where)
            items = list(through.items) if isinstance(through, Several) else self.known_items(through, where)  # type: ignore[arg-type]
        else:
            whole = self.value(value, where)
            if isinstance(whole.kind, TupleType):
                items = [Simple(item) for item in self.unpack(whole, where=where)]
            elif isinstance(whole.kind, ListType) or whole.kind == TENSOR:
                if starred:
                    self.error("starred assignment of a list is not supported", where)
                items = [Simple(item) for item in self.unpack(whole, wanted, where)]
            else:
                self.error(f"Expected a tuple, found {annotation(whole.kind)}", where)
        if starred:
            before, after = starred[0], wanted - starred[0] - 1
            end = len(items) - after
            items = [*items[:before], Several(items[before:end]), *items[end:]]
        if len(items) != wanted:
            text = f"need {wanted} values to unpack but found only {len(items)}"
            if len(items) > wanted:
                text = f"too many values to unpack: need {wanted} but found {len(items)}"
            self.error(text, where)
        for part, item in zip(target.elts, items, strict=True):
            self.assign(part.value if isinstance(part, ast.Starred) else part, item, where)

    def assign_attribute(
        self, target: ast.Attribute, value: Value, where: Any, declared: Type | None
    ) -> None:
        owner = self.sugared(target.value)
        if isinstance(owner, ScriptedModule):
            owner.module.script_store(self, owner, target.attr, value, where)
            return
        receiver = self.value(owner, where)
        kind = receiver.kind
        if isinstance(kind, ObjectType) and kind.info is not None and kind.sort == "class":
            known = kind.info.attributes.get(target.attr)
            if known is None:
                kind.info.attributes[target.attr] = known = declared or value.kind
            value = self.convert(value, known, where)
            if not subtype(value.kind, known):
                self.error(
                    f"Wrong type for attribute assignment. Expected {annotation(known)} but got "
                    f"{annotation(value.kind)}", where,
                )  # fmt: skip
            self.emit("prim::SetAttr", [receiver, value], None, where, attributes={"name": target.attr})
            return
        if kind == TENSOR and target.attr in ("requires_grad", "data", "grad"):
            self.emit("prim::SetAttr", [receiver, value], None, where, attributes={"name": target.attr})
            return
        self.error(f"Tried to set an attribute: {target.attr} on a non-class: {kind}", where)

    def do_AugAssign(self, node: ast.AugAssign) -> None:
        load = ast.copy_location(parsed(ast.unparse(node.target), "eval").body, node.target)
        for inner in ast.walk(load):
            ast.copy_location(inner, node.target)
        name = BINARY[type(node.op)][0]
        one, two = self.expression(load), self.expression(node.value)
        if one.kind == TENSOR and name in INPLACE:
            self.emit(f"aten::{INPLACE[name]}", [one, two], TENSOR, node, attributes={"_from": "Tensor"})
            if isinstance(node.target, ast.Name):
                made = self.block.nodes_[-1].results[0]
                made.name = self.graph.name_for(node.target.id)
                self.frame.set(node.target.id, Simple(made))
            return
        if isinstance(one.kind, ListType) and name == "add":
            self.emit("aten::add_", [one, two], one.kind, node)
            return
        result = self.arithmetic(name, one, two, node)
        self.assign(node.target, Simple(result), node)

    def do_Delete(self, node: ast.Delete) -> None:
        for target in node.targets:
            if isinstance(target, ast.Subscript):
                owner, key = self.expression(target.value), self.expression(target.slice)
                self.emit("aten::Delete", [owner, key], None, node)
            elif isinstance(target, ast.Name):
                self.frame.names.pop(target.id, None)
                self.frame.missing[target.id] = f"undefined value {target.id}"
            else:
                self.unsupported("del of this kind", node)

    def do_Assert(self, node: ast.Assert) -> None:
        test = self.condition(node.test)
        if test.static is True:
            return

        def failing() -> None:
            if node.msg is None:
                text = self.constant("AssertionError: ", node)
            else:
                sugar = self.sugared(node.msg)
                message = self.value(sugar, node)
                if message.kind != STR:
                    message = self.emit("aten::str", [message], STR, node)
                text = self.emit("aten::add", [self.constant("AssertionError: ", node), message], STR, node)
            self.emit("prim::RaiseException", [text], None, node)

        if test.static is False:
            failing()
            return
        self.branch(test, node, [lambda: None, failing])

    def do_Raise(self, node: ast.Raise) -> None:
        if node.exc is None:
            self.unsupported("raise without an exception", node)
        assert node.exc is not None
        sugar = self.sugared(node.exc)
        if isinstance(sugar, Class):
            sugar = Raised(sugar.cls, None)
        if not isinstance(sugar, Raised):
            message = self.value(sugar, node)
            self.emit("prim::RaiseException", [message], None, node)
            return
        text = sugar.message if sugar.message is not None else self.constant("", node)
        name = self.constant(f"{sugar.cls.__module__}.{sugar.cls.__qualname__}", node)
        self.emit("prim::RaiseException", [text, name], None, node)

    # -- loops ---------------------------------------------------------------------------------------------
    def do_While(self, node: ast.While) -> None:
        if node.orelse:
            self.unsupported("else branches of loops aren't supported", node)
        self.loop(node, lambda index: self.block_of(node.body), None, node.test, assigned_names(node.body))

    def do_For(self, node: ast.For) -> None:
        if node.orelse:
            self.unsupported("else branches of loops aren't supported", node)
        through = self.iterated(self.sugared(node.iter), node)
        if isinstance(through, Iterated) and all_known(through):
            through = Several(self.known_items(through, node))
        if isinstance(through, Several):
            self.unroll(node, through)
            return
        count, item = self.counted(through, node)

        def body(index: Value) -> None:
            self.assign(node.target, item(index), node)
            self.block_of(node.body)

        names = assigned_names(node.body)
        targets = [n.id for n in ast.walk(node.target) if isinstance(n, ast.Name)]
        carried = [
            name
            for name in dict.fromkeys([*targets, *names])
            if name not in targets or self.frame.find(name) is not None
        ]
        self.loop(node, body, count, None, carried)

    def unroll(self, node: ast.For, through: Several) -> None:
        """A loop through modules, or a tuple: its body once for each."""
        jumps = [n for s in node.body for n in _walk_loop(s) if isinstance(n, (ast.Break, ast.Continue))]
        if jumps:
            self.error("Because we emit iteration over Modulelists or Tuples as unrolled loops, we do not "
                       "support break or continue inside the body of these loops", node)  # fmt: skip
        for item in through.items:
            self.assign(node.target, item, node)
            self.block_of(node.body)
            if self.block.exits:
                return

    def do_Break(self, node: ast.Break) -> None:
        loop = self.frame.loop
        if loop is None:
            self.error("'break' outside loop", node)
        self.emit("prim::BreakStmt", self.carried_values(loop, node), None, node)

    def do_Continue(self, node: ast.Continue) -> None:
        loop = self.frame.loop
        if loop is None:
            self.error("'continue' outside loop", node)
        self.emit("prim::ContinueStmt", self.next_values(loop, node), None, node)

    # -- with ----------------------------------------------------------------------------------------------
    def do_With(self, node: ast.With) -> None:
        self.entered(node, list(node.items))

    def entered(self, node: ast.With, items: list[ast.withitem]) -> None:
        if not items:
            self.block_of(node.body)
            return
        sugar = self.sugared(items[0].context_expr)
        if isinstance(sugar, (Builtin, Called)):
            self.error("this cannot be used as a context manager", node)
        manager = self.value(sugar, node)
        if not isinstance(manager.kind, ObjectType):
            self.error(f"With item expression must return an object, not {annotation(manager.kind)}", node)
        made: Node = self.emit("prim::With", [manager], None, node)
        kind: Type = NONE
        info = manager.kind.info if isinstance(manager.kind, ObjectType) else None
        if info is not None:
            enter, leave = info.method("__enter__"), info.method("__exit__")
            if enter is None or leave is None:
                self.error(
                    "Object returned by with item expression does not define __enter__ and __exit__ methods",
                    node,
                )
            kind = enter.returned_type()
            leave.returned_type()
        entered = made.add_result(kind)
        target = items[0].optional_vars
        if target is not None:
            self.assign(target, Simple(entered), node)
        before, self.block = self.block, made.add_block()
        try:
            self.entered(node, items[1:])
        finally:
            self.block = before


def _plain(value: Several) -> bool:
    """Whether all items can be values."""
    return value.names is None and all(
        isinstance(item, (Simple, Constant)) or isinstance(item, Several) and _plain(item)
        for item in value.items
    )


def _type_comment(source: Source, node: ast.Assign) -> str | None:
    line = source.lines[(node.end_lineno or node.lineno) - 1]
    _, found, comment = line.partition("# type:")
    comment = comment.strip()
    return comment if found and not comment.startswith(("ignore", "(")) else None


def _walk_loop(node: ast.AST) -> list[ast.AST]:
    """A statement's parts without those of inner loops."""
    if isinstance(node, (ast.For, ast.While)):
        return []
    return [node, *[inner for child in ast.iter_child_nodes(node) for inner in _walk_loop(child)]]


def _has_return(body: list[ast.stmt]) -> bool:
    return any(isinstance(n, ast.Return) for s in body for n in ast.walk(s))


def _returns_within(node: ast.If) -> bool:
    return _has_return(node.body) or _has_return(node.orelse)


def _always_returns(body: list[ast.stmt]) -> bool:
    if not body:
        return False
    last = body[-1]
    if isinstance(last, (ast.Return, ast.Raise)):
        return True
    if isinstance(last, ast.If):
        return _always_returns(last.body) and _always_returns(last.orelse)
    return isinstance(last, ast.With) and _always_returns(last.body)


def read_function(
    tree: ast.FunctionDef, source: Source, schema: Schema, context: Context, receiver: Any = None
) -> Graph:
    """The graph of one function."""
    return Emitter(source, context, schema).read(tree, receiver)
