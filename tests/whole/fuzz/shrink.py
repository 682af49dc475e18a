"""The smallest program that still fails.

Takes source text and a predicate; gives shorter text for which the predicate still holds. One idea: edits
are made in place on the syntax tree and undone where the failure is lost, from whole statements down to
operands.
"""

from __future__ import annotations

import ast
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

Predicate = Callable[[str], bool]
LISTS = {
    ast.List: ("elts",),
    ast.Tuple: ("elts",),
    ast.Set: ("elts",),
    ast.Call: ("args", "keywords"),
    ast.FunctionDef: ("decorator_list",),
    ast.ClassDef: ("decorator_list", "bases"),
    ast.comprehension: ("ifs",),
    ast.With: ("items",),
    ast.Global: ("names",),
    ast.Nonlocal: ("names",),
    ast.Try: ("handlers",),
    ast.Match: ("cases",),
    ast.BoolOp: ("values",),
    ast.JoinedStr: ("values",),
}
MODULES = frozenset({"weft", "np", "nn", "math", "operator", "functools", "itertools", "contextlib", "copy"})
BODIES = ("body", "orelse", "finalbody")


class Shrinker:
    """One failing program on its way down; `seconds` bounds the whole search."""

    def __init__(self, source: str, fails: Predicate, seconds: float) -> None:
        self.tree = ast.parse(source)
        self.fails = fails
        self.until = time.monotonic() + seconds
        self.best = source
        self.tried: set[str] = set()

    def holds(self) -> bool:
        """Whether the tree as it stands still fails; if so it is the best so far."""
        if time.monotonic() > self.until:
            return False
        try:
            text = ast.unparse(ast.fix_missing_locations(self.tree)) + "\n"
            if text in self.tried or len(text) > len(self.best) + 40:
                return False
            self.tried.add(text)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", SyntaxWarning)
                compile(text, "<shrunk>", "exec")
        except (SyntaxError, ValueError, RecursionError, AttributeError, TypeError):
            return False
        if not self.fails(text):
            return False
        self.best = text
        return True

    def run(self) -> str:
        changed = True
        while changed and time.monotonic() < self.until:
            changed = self.statements()
            changed |= self.unwraps()
            changed |= self.parameters()
            changed |= self.elements()
            changed |= self.operands()
        return self.best

    def bodies(self) -> Iterator[list[ast.stmt]]:
        """Every list of statements, outer ones first."""
        for node in ast.walk(self.tree):
            for name in BODIES:
                found = getattr(node, name, None)
                if isinstance(found, list) and found and isinstance(found[0], ast.stmt):
                    yield found

    def statements(self) -> bool:
        """Statements left out, many at a time and then one by one."""
        changed = False
        for size in (16, 8, 4, 2, 1):
            for body in list(self.bodies()):
                start = 0
                while start < len(body) and not (len(body) == 1 and isinstance(body[0], ast.Pass)):
                    before = body[:]
                    body[start : start + size] = []
                    if not body:
                        body.append(ast.Pass())
                    if self.holds():
                        changed = True
                    else:
                        body[:] = before
                        start += size
        return changed

    def unwraps(self) -> bool:
        """A compound statement replaced by what is in it."""
        changed = False
        for body in list(self.bodies()):
            index = 0
            while index < len(body):
                statement = body[index]
                for inner in self.insides(statement):
                    body[index : index + 1] = inner
                    if self.holds():
                        changed = True
                        break
                    body[index : index + len(inner)] = [statement]
                index += 1
        return changed

    @staticmethod
    def insides(statement: ast.stmt) -> Iterator[list[ast.stmt]]:
        if isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
            return
        for name in BODIES:
            inner = getattr(statement, name, None)
            if isinstance(inner, list) and inner:
                yield list(inner)
        for handler in getattr(statement, "handlers", ()):
            yield list(handler.body)
        for case in getattr(statement, "cases", ()):
            yield list(case.body)

    def elements(self) -> bool:
        """Elements of displays, arguments, decorators and the like left out one by one."""
        changed = False
        for node in list(ast.walk(self.tree)):
            if isinstance(node, ast.Dict):
                changed |= self.leave_out(node.keys, node.values)
            for name in LISTS.get(type(node), ()):
                changed |= self.leave_out(getattr(node, name))
            if isinstance(node, ast.Try):
                changed |= self.without(node, "orelse", []) | self.without(node, "finalbody", [])
            elif isinstance(node, (ast.If, ast.For, ast.While)) and node.orelse:
                changed |= self.without(node, "orelse", [])
        return changed

    def without(self, node: ast.AST, name: str, value: Any) -> bool:
        before = getattr(node, name)
        if before == value:
            return False
        setattr(node, name, value)
        if self.holds():
            return True
        setattr(node, name, before)
        return False

    def leave_out(self, *lists: list[Any]) -> bool:
        changed = False
        index = 0
        while index < len(lists[0]):
            removed = [items.pop(index) for items in lists]
            if self.holds():
                changed = True
                continue
            for items, item in zip(lists, removed):
                items.insert(index, item)
            index += 1
        return changed

    def parameters(self) -> bool:
        """A parameter of `main` left out together with what is passed for it."""
        functions = {node.name: node for node in ast.walk(self.tree) if isinstance(node, ast.FunctionDef)}
        if not {"main", "arguments"} <= functions.keys():
            return False
        names = functions["main"].args.args
        changed = False
        index = 0
        while index < len(names):
            passed = [
                node.value.elts[0].elts
                for node in ast.walk(functions["arguments"])
                if isinstance(node, ast.Yield)
                and isinstance(node.value, ast.Tuple)
                and isinstance(node.value.elts[0], ast.Tuple)
            ]
            lists: list[list[Any]] = [names, *(values for values in passed if len(values) > index)]
            removed = [items.pop(index) for items in lists]
            if self.holds():
                changed = True
                continue
            for items, item in zip(lists, removed):
                items.insert(index, item)
            index += 1
        return changed

    def operands(self) -> bool:
        """An expression replaced by one of its parts, or by a constant."""
        changed = False
        for node in list(ast.walk(self.tree)):
            for name, value in list(ast.iter_fields(node)):
                if isinstance(value, ast.expr):
                    changed |= self.simplify(partial(setattr, node, name), value)
                elif isinstance(value, list):
                    for index, item in enumerate(value):
                        if isinstance(item, ast.expr):
                            changed |= self.simplify(partial(value.__setitem__, index), item)
        return changed

    def simplify(self, put: Callable[[ast.expr], None], value: ast.expr) -> bool:
        context = getattr(value, "ctx", None)
        if isinstance(value, (ast.Constant, ast.Name)) or isinstance(context, (ast.Store, ast.Del)):
            return False
        for new in [*self.parts(value), ast.Constant(1), ast.Constant(True)]:
            put(new)
            if self.holds():
                return True
        put(value)
        return False

    @staticmethod
    def parts(value: ast.expr) -> list[ast.expr]:
        """What may stand for `value`: its operands, but neither a module nor a function that it calls."""
        children: list[ast.AST] = list(ast.iter_child_nodes(value))
        if isinstance(value, ast.Call):
            children = [*value.args, *(keyword.value for keyword in value.keywords)]
            if isinstance(value.func, ast.Attribute):
                children.append(value.func.value)
        found = [child for child in children if isinstance(child, ast.expr)]
        return [part for part in found if not (isinstance(part, ast.Name) and part.id in MODULES)]


def shrink(source: str, fails: Predicate, seconds: float = 20.0) -> str:
    """A smaller program for which `fails` still holds; `source` itself where nothing can go."""
    return Shrinker(source, fails, seconds).run()
