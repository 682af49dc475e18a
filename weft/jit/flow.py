"""Control flow: branches, loops, comprehensions, and what follows a return.

Takes statements; gives nodes with blocks. One idea: a block's results are the names that it assigns and that
exist outside, found by comparing frames; where one branch of an `if` always returns, what follows is read
into the other, so that an early return needs no node of its own.

# Note [Early exits]
    if c: return a          %r = prim::If(%c)
    rest                      block0(): -> (%a)
    return b                  block1(): rest -> (%b)
Inside loops `return`, `break` and `continue` are nodes that end their block (`prim::ReturnStmt` and so on),
with the values that the loop's names have there.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from weft.jit.emitter import Base, Condition
from weft.jit.ir import Block, Node, Value
from weft.jit.scopes import Frame
from weft.jit.sugar import Constant, Iterated, ScriptedModule, Several, Simple, Sugar
from weft.jit.types import (
    INT,
    STR,
    TENSOR,
    DictType,
    ListType,
    TupleType,
    Type,
    annotation,
    subtype,
    unify,
    union,
)  # fmt: skip

LARGEST = 9223372036854775807


class Loop:
    """A loop that is being read: which names it carries, and the test of a `while`."""

    def __init__(self, carried: list[str], test: Any) -> None:
        self.carried, self.test = carried, test
        self.kinds: list[Type] = []


class Flow(Base):
    # -- if ------------------------------------------------------------------------------------------------
    def branch(self, test: Condition, where: ast.AST, ways: list[Callable[[], None]]) -> Node | None:
        """Reads both ways into blocks and joins the names they assign."""
        assert test.value is not None
        node: Node = self.emit("prim::If", [test.value], None, where)
        frames: list[Frame] = []
        for way, known in zip(ways, (test.when_true, test.when_false), strict=True):
            with self.inside(node.add_block()) as frame:
                self.refine(known)
                way()
                frames.append(frame)
        self.join(node, frames, where)
        going = [
            known
            for block, known in zip(node.blocks_, (test.when_true, test.when_false), strict=True)
            if not block.exits
        ]
        if len(going) == 1:
            self.refine(going[0])
        return node

    def join(self, node: Node, frames: list[Frame], where: ast.AST) -> None:
        names = list(dict.fromkeys([*frames[0].names, *frames[1].names]))
        exits = [block.exits for block in node.blocks_]
        if all(exits):
            return
        for name in names:
            found = [None if out else frame.find(name) for frame, out in zip(frames, exits, strict=True)]
            if any(out for out in exits):
                self.single(node, name, found, exits)
                continue
            if found[0] is None or found[1] is None:
                side = "true" if found[0] is None else "false"
                self.frame.missing[name] = f"{name} is not defined in the {side} branch"
                continue
            self.merge(node, name, found, where)

    def single(self, node: Node, name: str, found: list[Sugar | None], exits: list[bool]) -> None:
        """A name after an `if` of which only one way goes on."""
        going = exits.index(False)
        sugar = found[going]
        if not isinstance(sugar, Simple):
            if sugar is not None:
                self.frame.set(name, sugar)
            return
        node.blocks_[going].returned.append(sugar.value)
        self.frame.set(name, Simple(node.add_result(sugar.value.kind, name)))

    def merge(self, node: Node, name: str, found: list[Any], where: ast.AST) -> None:
        if found[0] is found[1]:
            return
        if not all(isinstance(item, (Simple, Several, Constant)) for item in found):
            self.frame.missing[name] = f"{name} is set to things that are no values in the branches of an if"
            return
        values = []
        for block, item in zip(node.blocks_, found, strict=True):
            if isinstance(item, Simple):
                values.append(item.value)
            else:
                before, self.block = self.block, block
                try:
                    values.append(self.value(item, where))
                finally:
                    self.block = before
        if values[0] is values[1]:
            self.frame.set(name, Simple(values[0]))
            return
        kind = unify(values[0].kind, values[1].kind)
        if kind is None:
            one, two = (annotation(value.kind) for value in values)
            self.frame.missing[name] = (
                f"Type mismatch: {name} is set to type {one} in the true branch and type {two} in "
                f"the false branch"
            )
            return
        for block, value in zip(node.blocks_, values, strict=True):
            before, self.block = self.block, block
            block.returned.append(self.convert(value, kind, where))
            self.block = before
        self.frame.set(name, Simple(node.add_result(kind, name)))

    def read_IfExp(self, node: ast.IfExp, hint: Type | None = None) -> Sugar:
        test = self.condition(node.test)
        if test.static is not None:
            return self.sugared(node.body if test.static else node.orelse, hint)
        assert test.value is not None
        made = self.emit("prim::If", [test.value], None, node)
        values = []
        for part, known in ((node.body, test.when_true), (node.orelse, test.when_false)):
            with self.inside(made.add_block()):
                self.refine(known)
                value = self.expression(part, hint)
                self.block.returned = [value]
                values.append(value)
        kind = (
            hint
            if hint is not None and all(subtype(v.kind, hint) for v in values)
            else unify(values[0].kind, values[1].kind)
        )
        if kind is None:
            self.error(
                "if-expression's true branch has type "
                f"{annotation(values[0].kind)} but false branch has type {annotation(values[1].kind)}", node,
            )  # fmt: skip
        return Simple(made.add_result(kind))

    # -- loops ---------------------------------------------------------------------------------------------
    def loop(
        self,
        where: ast.AST,
        body: Callable[[Value], None],
        count: Value | None,
        test: Any,
        assigned: list[str],
    ) -> None:
        """A `prim::Loop`: `count` times, or while `test` holds."""
        carried = [
            name for name in assigned if isinstance(self.frame.find(name), (Simple, Several, Constant))
        ]
        starts = []
        for name in carried:
            starts.append(self.value(self.frame.find(name), where))  # type: ignore[arg-type]
        limit = self.constant(LARGEST, where) if count is None else count
        true = (
            self.test_value(self.condition(test), where) if test is not None else self.constant(True, where)
        )
        node: Node = self.emit("prim::Loop", [limit, true, *starts], None, where)
        block = node.add_block()
        index = block.add_parameter(INT, "i")
        loop = Loop(carried, test)
        loop.kinds = [TENSOR if start.kind == TENSOR else start.kind for start in starts]
        with self.inside(block, loop) as frame:
            for name, kind in zip(carried, loop.kinds, strict=True):
                frame.set(name, Simple(block.add_parameter(kind, name)))
            if test is not None:
                before = self.block
                self.refine_by(test)
                self.block = before
            body(index)
            if not block.exits:
                block.returned = self.next_values(loop, where)
        for name, kind in zip(carried, loop.kinds, strict=True):
            self.frame.set(name, Simple(node.add_result(kind, name)))
        for name in assigned:
            if name not in carried and self.frame.find(name) is None:
                self.frame.missing[name] = f"{name} is not defined"

    def refine_by(self, test: ast.expr) -> None:
        """What a loop's test says about names, which holds at the start of its body."""
        scratch = Block(self.graph, None)
        numbers = dict(self.graph.counts), self.graph.number
        before, self.block = self.block, scratch
        try:
            found = self.condition(test)
        finally:
            self.block = before
            self.graph.counts, self.graph.number = numbers
        self.refine(found.when_true)

    def next_values(self, loop: Loop, where: ast.AST) -> list[Value]:
        """The test and the names with which a loop goes on."""
        going = (
            self.test_value(self.condition(loop.test), where)
            if loop.test is not None
            else self.constant(True, where)
        )
        return [going, *self.carried_values(loop, where)]

    def carried_values(self, loop: Loop, where: ast.AST) -> list[Value]:
        found = []
        for name, kind in zip(loop.carried, loop.kinds, strict=True):
            sugar = self.frame.find(name)
            if sugar is None:
                self.error(self.frame.why_missing(name) or f"{name} is not defined", where)
            assert sugar is not None
            value = self.convert(self.value(sugar, where), kind, where)
            if not subtype(value.kind, kind):
                self.error(
                    f"Variable '{name}' previously had type {annotation(kind)} but is now being "
                    f"assigned to a "
                    f"value of type {annotation(value.kind)}", where,
                )  # fmt: skip
            found.append(value)
        return found

    def iterated(self, value: Sugar, where: ast.AST) -> Sugar:
        """Something to go through: several items, a range and the like, or a list as a value."""
        if isinstance(value, (Several, Iterated)):
            return (
                Several([Constant(name) for name in value.names])
                if isinstance(value, Several) and value.names
                else value
            )
        if isinstance(value, ScriptedModule):
            items: Sugar | None = value.module.script_items(self, value, where)
            if items is None:
                self.error(
                    "Only constant Sequential, ModuleList, ModuleDict, or ParameterList can be "
                    "used as an iterable",
                    where,
                )
            return items
        found = self.value(value, where)
        if isinstance(found.kind, TupleType):
            return Several([Simple(item) for item in self.unpack(found)])
        if isinstance(found.kind, DictType):
            return Simple(self.emit("aten::keys", [found], ListType(found.kind.key_type), where))
        if not isinstance(found.kind, ListType) and found.kind not in (STR, TENSOR):
            self.error(f"'{annotation(found.kind)}' object is not iterable", where)
        return Simple(found)

    def counted(self, through: Sugar, where: ast.AST) -> tuple[Value, Callable[[Value], Sugar]]:
        """How often a loop runs, and what its variable stands for in each turn."""
        if isinstance(through, Iterated) and through.sort == "range":
            return self.counted_range(through.values, where)
        if isinstance(through, Iterated) and through.sort == "enumerate":
            count, item = self.counted(through.values[0], where)
            start = through.values[1]

            def numbered(index: Value) -> Sugar:
                number = index if start is None else self.emit("aten::add", [index, start], INT, where)
                return Several([Simple(number), item(index)])

            return count, numbered
        if isinstance(through, Iterated):
            pairs = [self.counted(inner, where) for inner in through.values]
            count = pairs[0][0]
            for other, _ in pairs[1:]:
                count = self.emit("prim::min", [count, other], INT, where)
            return count, lambda index: Several([item(index) for _, item in pairs])
        if isinstance(through, Several):
            through = Simple(self.listed(through, where))
        value = self.value(through, where)
        kind = value.kind
        count = self.emit("aten::len", [value], INT, where)
        if kind == TENSOR:
            return count, lambda index: Simple(
                self.emit("aten::select", [value, self.constant(0, where), index], TENSOR, where)
            )
        element = kind.element if isinstance(kind, ListType) else STR
        return count, lambda index: Simple(self.emit("aten::__getitem__", [value, index], element, where))

    def counted_range(self, values: list[Value], where: ast.AST) -> tuple[Value, Callable[[Value], Sugar]]:
        if len(values) == 1:
            return values[0], lambda index: Simple(index)
        start, stop = values[:2]
        step = values[2] if len(values) == 3 else self.constant(1, where)
        count = self.emit("aten::__range_length", [start, stop, step], INT, where)
        return count, lambda index: Simple(
            self.emit("aten::__derive_index", [index, start, step], INT, where)
        )

    def listed(self, sugar: Sugar, where: ast.AST) -> Value:
        """What is iterated over, as one list."""
        if isinstance(sugar, Iterated):
            if sugar.sort == "range":
                made: Value = self.emit("aten::range_list", sugar.values, ListType(INT), where)
                return made
            parts = [sugar.values[0]] if sugar.sort == "enumerate" else sugar.values
            lists = [self.listed(part, where) for part in parts]
            kinds = [value.kind.element if isinstance(value.kind, ListType) else STR for value in lists]
            if sugar.sort == "enumerate":
                start = sugar.values[1] or self.constant(0, where)
                made = self.emit(
                    "aten::enumerate_list", [lists[0], start], ListType(TupleType((INT, kinds[0]))), where
                )
                return made
            made = self.emit("aten::zip_list", lists, ListType(TupleType(kinds)), where)
            return made
        through = self.iterated(sugar, where)
        if isinstance(through, Several):
            items = [self.value(item, where) for item in through.items]
            kind = union([item.kind for item in items]) if items else TENSOR
            made = self.emit("prim::ListConstruct", items, ListType(kind), where)
            return made
        return self.value(through, where)

    # -- comprehensions ------------------------------------------------------------------------------------
    def read_ListComp(self, node: Any, hint: Type | None = None) -> Sugar:
        if len(node.generators) != 1:
            self.unsupported("Only a single generator is currently supported", node)
        (generator,) = node.generators
        through = self.iterated(self.sugared(generator.iter), node)
        element = hint.element if isinstance(hint, ListType) else None
        if isinstance(through, Several) and not generator.ifs:
            return self.unrolled(node, generator, through, element)
        if isinstance(through, Iterated) and all_known(through) and not generator.ifs:
            return self.unrolled(node, generator, Several(self.known_items(through, node)), element)
        count, item = self.counted(through, node)
        made = self.emit("prim::ListConstruct", [], ListType(element or TENSOR), node)
        loop: Node = self.emit("prim::Loop", [count, self.constant(True, node)], None, node)
        block = loop.add_block()
        index = block.add_parameter(INT, "i")
        found: list[Type] = []
        with self.inside(block):
            self.assign(generator.target, item(index), node)

            def add() -> None:
                value = self.expression(node.elt, element)
                found.append(value.kind)
                self.emit("aten::append", [made, value], made.kind, node)

            if generator.ifs:
                tests = generator.ifs
                test = self.condition(
                    tests[0] if len(tests) == 1 else ast.copy_location(ast.BoolOp(ast.And(), tests), node)
                )
                if test.static is None:
                    self.branch(test, node, [add, lambda: None])
                elif test.static:
                    add()
                else:
                    found.append(TENSOR)
            else:
                add()
            block.returned = [self.constant(True, node)]
        if element is None:
            made.kind = ListType(TENSOR if found[0] == TENSOR else found[0])
            for inner in loop.findAllNodes("aten::append"):
                if inner.arguments[0] is made:
                    inner.results[0].kind = made.kind
        return Simple(made)

    def unrolled(self, node: Any, generator: Any, through: Several, element: Type | None) -> Sugar:
        values = []
        for each in through.items:
            with self.inside(self.block):
                self.assign(generator.target, each, node)
                values.append(self.expression(node.elt, element))
        kind = element or (self.common(values, node, "List") if values else TENSOR)
        return Simple(self.emit("prim::ListConstruct", values, ListType(kind), node))

    def known_items(self, through: Iterated, where: ast.AST) -> list[Sugar]:
        """The items of `enumerate` and `zip` over things that are known item by item."""
        if through.sort == "enumerate":
            inner = through.values[0]
            items = inner.items if isinstance(inner, Several) else self.known_items(inner, where)
            start = through.values[1]
            first = 0 if start is None else start.constant
            return [Several([Simple(self.constant(first + i, where)), item]) for i, item in enumerate(items)]
        if through.sort == "range":
            return [
                Simple(self.constant(i, where)) for i in range(*[value.constant for value in through.values])
            ]
        groups = []
        for inner in through.values:
            if isinstance(inner, Several):
                groups.append(inner.items)
            elif isinstance(inner, Iterated):
                groups.append(self.known_items(inner, where))
            else:
                groups.append([])
        length = min(
            (
                len(g)
                for g, v in zip(groups, through.values, strict=True)
                if isinstance(v, (Several, Iterated))
            ),
            default=0,
        )
        for place, inner in enumerate(through.values):
            if not isinstance(inner, (Several, Iterated)):
                value = self.value(inner, where)
                _, item = self.counted(Simple(value), where)
                groups[place] = [item(self.constant(i, where)) for i in range(length)]
        return [Several(list(items)) for items in zip(*groups, strict=False)]

    def read_GeneratorExp(self, node: ast.GeneratorExp, hint: Type | None = None) -> Sugar:
        return self.read_ListComp(node, hint)

    def read_DictComp(self, node: ast.DictComp, hint: Type | None = None) -> Sugar:
        if len(node.generators) != 1 or node.generators[0].ifs:
            self.unsupported("Dict comprehension ifs are not supported yet", node)
        pair = ast.copy_location(ast.Tuple([node.key, node.value], ast.Load()), node)
        listed = ast.copy_location(ast.ListComp(pair, node.generators), node)
        kinds = ListType(TupleType((hint.key_type, hint.value_type))) if isinstance(hint, DictType) else None
        pairs = self.expression(listed, kinds)
        assert isinstance(pairs.kind, ListType) and isinstance(pairs.kind.element, TupleType)
        return Simple(self.emit("aten::dict", [pairs], DictType(*pairs.kind.element.elements), node))


def all_known(through: Iterated) -> bool:
    """Whether what is iterated over is known item by item: modules, whose calls differ in each iteration."""
    if through.sort == "range":
        return False
    inner = through.values[:1] if through.sort == "enumerate" else through.values
    return any(
        isinstance(item, Several) or (isinstance(item, Iterated) and all_known(item)) for item in inner
    )


def assigned_names(nodes: list[ast.stmt]) -> list[str]:
    """The names that statements assign, in order."""
    found: dict[str, None] = {}
    for statement in nodes:
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                found[node.id] = None
    return list(found)
