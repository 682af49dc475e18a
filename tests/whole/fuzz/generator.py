"""Random Python programs: deterministic, terminating, using everything that capture must understand.

Takes a seed; gives source text with a function `main` and a generator function `arguments`, which yields
the calls to make and changes the module's state between them. One idea: templates with typed holes
(grammar.py, classes.py) are filled from what is in scope, so most programs run far before something
raises, and a program is plain text that a person can read and keep.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable

from tests.whole.fuzz.classes import CLASSES
from tests.whole.fuzz.definitions import Definition, Piece
from tests.whole.fuzz.functions import FUNCTIONS
from tests.whole.fuzz.grammar import EXPRESSIONS, LEAVES, NAMES_BOUND
from tests.whole.fuzz.statements import BETWEEN, BETWEEN_WITH, STATEMENTS
from tests.whole.fuzz.templates import Choices, Scope, Template, parse

DEFINITIONS: dict[str, Definition] = CLASSES | FUNCTIONS
IMPORTS = {
    "deque": "from collections import deque",
    "OrderedDict": "from collections import OrderedDict",
    "defaultdict": "from collections import defaultdict",
    "Counter": "from collections import Counter",
    "ChainMap": "from collections import ChainMap",
    "contextlib": "import contextlib",
    "dataclasses": "import dataclasses",
    "enum": "import enum",
    "functools": "import functools",
    "itertools": "import itertools",
    "math": "import math",
    "operator": "import operator",
    "sys": "import sys",
    "typing": "import typing",
    "np": "import numpy as np",
    "nn": "from weft import nn",
    "collections": "import collections.abc",
    "bisect": "import bisect",
    "heapq": "import heapq",
    "json": "import json",
    "re": "import re",
    "fractions": "import fractions",
    "decimal": "import decimal",
    "textwrap": "import textwrap",
    "types": "import types",
    "statistics": "import statistics",
    "struct": "import struct",
    "weakref": "import weakref",
    "datetime": "import datetime",
    "string": "import string",
    "array": "import array",
    "warnings": "import warnings",
    "random": "import random",
    "pprint": "import pprint",
    "threading": "import threading",
    "copy": "import copy",
    "inspect": "import inspect",
    "os": "import os",
    "time": "import time",
}
GLOBALS = {"COUNT": "int", "STATE": "d", "RUNNING": "V", "LAST": "any"}
STATE_LINES = [
    "LOG = []",
    "HISTORY = []",
    "COUNT = 0",
    "STATE = {'n': 1, 'a': 2}",
    "RUNNING = weft.tensor([1.0, 2.0, 3.0])",
    "LAST = None",
]
# Made where the group `library` is on.
LIBRARY_LINES = """\
SPACE = types.SimpleNamespace(n=1, t=None)
COUNTS = Counter('ab')
BYTES = bytearray(b'a')
MATRIX = [[1, 2], [3, 4]]
SHARED = threading.local()
SHARED.value = 1
""".splitlines()
# Made where the group `rare` is on.
RARE_LINES = """\
import contextvars
VARIABLE = contextvars.ContextVar('VARIABLE', default=2)
TICKS = iter([4, 5, 6, 7])
async def later(n):
    return n + 1
def run_async(coroutine):
    try:
        coroutine.send(None)
    except StopIteration as stop:
        return stop.value
""".splitlines()
ERRORS = [
    "ValueError",
    "KeyError",
    "IndexError",
    "TypeError",
    "RuntimeError",
    "ZeroDivisionError",
    "AssertionError",
]
ALWAYS = ("numbers", "tensors", "lists")
# Groups that break the graph at nearly every use: with them in most programs, few segments would be long.
LIKELY = {
    "rare": 0.15,
    "autograd": 0.2,
    "arrays": 0.2,
    "copies": 0.25,
    "data": 0.35,
    "reflection": 0.35,
    "library": 0.35,
}
COMMON = ("int", "int", "float", "str", "V", "V", "T", "A", "ints", "d", "bool")
SAFE = ("int", "float", "str", "ints", "V", "d", "bool")
COST_LIMIT = 60


class Generator:
    """Writes one program."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.fresh = 0
        self.cost = 0
        self.comprehending = 0
        self.lines: list[str] = []
        self.module = Scope(depth=-1)
        chance = self.chance
        groups = [group for group in EXPRESSIONS if group not in ALWAYS]
        groups += [group for group in STATEMENTS if group not in EXPRESSIONS]
        self.groups = [
            *ALWAYS,
            "plain",
            "jumps",
            *(group for group in groups if chance.random() < LIKELY.get(group, 0.5)),
        ]
        if "breaks" not in self.groups and chance.random() < 0.5:
            self.groups.append("breaks")
        names = list(DEFINITIONS)
        self.definitions = sorted(chance.sample(names, chance.choice((0, 1, 1, 2, 2, 3, 4))), key=names.index)
        self.expressions: dict[str, Choices] = {}
        self.statements = Choices()
        self.raising = Choices()
        for text in STATEMENTS["raising"]:
            self.raising.add(text)
        for group in self.groups:
            for kind, templates in EXPRESSIONS.get(group, {}).items():
                for template in templates:
                    self.offer(kind, template)
            # Statements of a group that is turned on are to be seen, not to drown among the plain ones.
            for template in STATEMENTS.get(group, ()) if group not in ("raising",) else ():
                self.statements.add(template, factor=1.0 if group == "plain" else 1.5)

    def offer(self, kind: str, template: str | tuple[float, str], cost: int = 0, factor: float = 1.0) -> None:
        self.expressions.setdefault(kind, Choices()).add(template, cost, factor)

    # -- expressions -------------------------------------------------------------------
    def expression(self, kind: str, scope: Scope, depth: int) -> str:
        special = SPECIAL.get(kind)
        if special is not None:
            return special(self, scope, depth)
        chance = self.chance
        names = scope.names.get(kind)
        if names and (depth <= 0 or chance.random() < 0.45):
            return chance.choice(names)
        choices = self.expressions.get(kind)
        if depth > 0 and choices is not None:
            for _ in range(4):
                template, cost = choices.pick(chance)
                if self.viable(template, cost, scope):
                    self.cost += cost * scope.multiplicity
                    text = self.fill(template, scope, depth - 1)
                    return f"({text})" if template.open else text
        if names:
            return chance.choice(names)
        leaves = LEAVES.get(kind)
        if leaves is None:
            # A class's instance: the first production constructs one.
            return self.fill(self.expressions[kind].entries[0][0], scope, 0)
        template = parse(chance.choice(leaves))
        text = self.fill(template, scope, 0)
        return f"({text})" if template.open and not text.startswith("(") else text

    def viable(self, template: Template, cost: int, scope: Scope) -> bool:
        if cost and cost * scope.multiplicity > COST_LIMIT:
            return False
        if template.walrus and self.comprehending:
            return False
        for prefix, kind in template.scoped:
            if prefix == "result":
                if scope.result is None:
                    return False
            elif prefix == "drop":
                if len(scope.local) < 3:
                    return False
            elif kind == "any":
                continue
            elif not (scope.names if prefix == "var" else scope.settable).get(kind):
                return False
        return all(
            kind in LEAVES or kind in SPECIAL or kind in self.expressions or kind == "any"
            for kind in template.types
        )

    def name(self, kind: str) -> str:
        self.fresh += 1
        return f"{kind.lower()[:3]}{self.fresh}"

    def fill(
        self,
        template: Template,
        scope: Scope,
        depth: int,
        bound: dict[str, str] | None = None,
        made: list[tuple[str, str]] | None = None,
    ) -> str:
        """`template` with its holes filled; names made by `$new_` are appended to `made`."""
        bound = {} if bound is None else bound
        pieces: list[str] = []
        self.comprehending += template.comprehends
        for part in template.parts:
            if isinstance(part, str):
                pieces.append(part)
                continue
            prefix, kind, uses = part
            if prefix == "bound":
                pieces.append(self.bind(kind, bound))
            elif prefix == "new":
                name = self.name(kind)
                pieces.append(name)
                if made is not None:
                    made.append((name, kind))
            elif prefix == "var" or prefix == "set":
                table = scope.names if prefix == "var" else scope.settable
                pieces.append(
                    self.chance.choice(scope.every() if kind == "any" else table[kind]) if table else "LOG"
                )
            elif prefix == "lit":
                names = scope.names.get(kind)
                pieces.append(self.chance.choice(names or LEAVES.get(kind) or ["LOG"]))
            elif prefix == "drop":
                name = self.chance.choice(scope.local)
                scope.drop(name)
                pieces.append(name)
            else:
                pieces.append(self.fill_hole(kind, uses, scope, depth, bound))
        self.comprehending -= template.comprehends
        return "".join(pieces)

    def fill_hole(self, kind: str, uses: str, scope: Scope, depth: int, bound: dict[str, str]) -> str:
        if not uses:
            return self.expression(kind, scope, depth)
        inner = scope.child(multiplicity=scope.multiplicity * 3, depth=scope.depth)
        for letter in uses:
            inner.add(self.bind(letter, bound), NAMES_BOUND[letter], settable=False)
        return self.expression(kind, inner, max(depth, 1))

    def bind(self, letter: str, bound: dict[str, str]) -> str:
        if letter not in bound:
            self.fresh += 1
            bound[letter] = f"{letter}{self.fresh}"
        return bound[letter]

    # -- statements --------------------------------------------------------------------
    def block(self, scope: Scope, indent: str, count: int) -> None:
        """`count` statements or fewer, at `indent`; at least one line."""
        start = len(self.lines)
        for _ in range(count):
            self.statement(scope, indent)
        if len(self.lines) == start:
            self.lines.append(f"{indent}pass")

    def statement(self, scope: Scope, indent: str) -> None:
        chance = self.chance
        if scope.depth < 3 and chance.random() < 0.05:
            self.nested_function(scope, indent)
            return
        for _ in range(6):
            template, cost = self.statements.pick(chance)
            if template.compound and scope.depth >= 3 or template.jumps and not scope.in_loop:
                continue
            if template.text.split(" ")[0] in GLOBALS and not scope.declares:
                continue
            if self.viable(template, cost, scope):
                self.cost += (cost + 1) * scope.multiplicity
                self.write(template.text, scope, indent)
                return
        self.write("LOG.append($safe)", scope, indent)

    def write(self, text: str, scope: Scope, indent: str, bound: dict[str, str] | None = None) -> None:
        """The lines of a statement's template, with blocks filled in scopes of their own."""
        bound = {} if bound is None else bound
        chance = self.chance
        headed: list[tuple[str, str]] = []
        for line in text.split("\n"):
            stripped = line.lstrip(" ")
            inner = indent + " " * (len(line) - len(stripped))
            if stripped in BLOCKS:
                in_loop = stripped == "$loop" or scope.in_loop and stripped != "$once"
                times = 3 if stripped == "$loop" else 1
                child = scope.child(in_loop=in_loop, multiplicity=scope.multiplicity * times)
                for name, kind in headed:
                    child.add(name, kind)
                    child.local.append(name)
                self.block(child, inner, chance.choice((1, 1, 2, 2, 3)))
                if chance.random() < 0.03:
                    # Names that may be unbound after the block: they must stay so.
                    scope.names = child.names
                headed = []
                continue
            if stripped == "$raising":
                template, _ = self.raising.pick(chance)
                self.write(template.text, scope.child(), inner)
                continue
            made: list[tuple[str, str]] = []
            filled = self.fill(parse(stripped), scope, chance.choice((1, 1, 2, 2, 3)), bound, made)
            self.lines.append(inner + filled)
            if stripped.endswith(":"):
                headed = made
                continue
            if inner == indent:
                for name, kind in made:
                    scope.add(name, kind)
                    scope.local.append(name)

    def nested_function(self, scope: Scope, indent: str) -> None:
        """A function in a function, which may rebind its surroundings' names."""
        chance = self.chance
        self.fresh += 1
        name = f"inner{self.fresh}"
        kind, parameter, result = chance.choice((("fn", "int", "int"), ("fv", "V", "V"), ("g", "int", "int")))
        argument = self.name(parameter)
        default = self.fill(
            parse(chance.choice(("", "", "=$int" if parameter == "int" else "=$V"))), scope, 0
        )
        self.lines.append(f"{indent}def {name}({argument}{default}):")
        inner = scope.child(
            in_loop=False,
            result=result,
            settable={},
            local=[],
            declares=False,
            multiplicity=scope.multiplicity * 3,
        )
        own = [(other, "int") for other in scope.settable.get("int", ()) if other in scope.local]
        own += [(other, "V") for other in scope.settable.get("V", ()) if other in scope.local]
        for other, its_kind in chance.sample(own, min(len(own), chance.choice((0, 1, 2)))):
            self.lines.append(f"{indent}    nonlocal {other}")
            inner.settable.setdefault(its_kind, []).append(other)
        inner.add(argument, parameter)
        self.block(inner, indent + "    ", chance.choice((1, 2, 3)))
        if kind == "g":
            self.lines.append(f"{indent}    for step{self.fresh} in range({argument} % 3):")
            self.lines.append(f"{indent}        yield step{self.fresh} + {self.expression('int', inner, 1)}")
            made = self.name("g")
            self.lines.append(f"{indent}{made} = {name}({self.expression('int', scope, 1)})")
            scope.add(made, "g")
            scope.local.append(made)
            return
        self.lines.append(f"{indent}    return {self.expression(result, inner, 2)}")
        scope.add(name, kind, settable=False)
        scope.local.append(name)
        if chance.random() < 0.7:
            made = self.name(result)
            self.lines.append(f"{indent}{made} = {name}({self.expression(parameter, scope, 1)})")
            scope.add(made, result)
            scope.local.append(made)

    # -- definitions -------------------------------------------------------------------
    def define(self, name: str) -> None:
        """A class or function of classes.py, and the productions that it makes possible."""
        definition = DEFINITIONS[name]
        pieces = [definition.first] + [piece for piece in definition.others if self.chance.random() < 0.6]
        costs = []
        for piece in pieces:
            before = self.cost
            self.piece(piece)
            costs.append(self.cost - before + 1)
        for piece, cost in zip(pieces, costs):
            for kind, templates in piece.gives.items():
                for template in templates:
                    self.offer(kind, template, cost, 2.0 if kind in LEAVES else 1.0)
            for template in piece.does:
                self.statements.add(template, cost, 2.5)
        for line in definition.state:
            target, _, rest = line.partition(": ")
            kind, _, text = rest.partition(" = ")
            self.lines.append(f"{target} = {text}")
            if kind in self.expressions:
                self.module.add(target, kind, settable=False)

    def piece(self, piece: Piece) -> None:
        scope = self.module.child(depth=1)
        bound: dict[str, str] = {}
        for line in piece.text.split("\n"):
            stripped = line.lstrip(" ")
            indent = line[: len(line) - len(stripped)]
            if stripped.startswith("#:"):
                scope = self.module.child(depth=1)
                for words in stripped[2:].split():
                    kind, _, names = words.partition(":")
                    for name in names.split(","):
                        scope.add(name, kind, settable=False)
            elif stripped in BLOCKS or "$" in stripped or "@" in stripped:
                self.write(stripped, scope.child(depth=2) if stripped in BLOCKS else scope, indent, bound)
            else:
                self.lines.append(line)

    def helper(self, index: int) -> None:
        """A module-level function with a signature of some shape."""
        chance = self.chance
        kinds = ("int", "V", "T", "float", "ints", "d", "str")
        result = chance.choice(("int", "V", "T", "float", "ints", "d", "V", "T"))
        parameters = [(self.name(kind), kind) for kind in chance.sample(kinds, chance.choice((1, 2, 2, 3)))]
        positional = [name for name, _ in parameters]
        defaults: dict[str, str] = {}
        for name, kind in parameters[1:]:
            if kind not in ("T",) and (defaults or chance.random() < 0.3):
                defaults[name] = self.expression(kind, Scope(), 0)
            elif defaults:
                defaults = {}
        shape = chance.choice(("plain", "plain", "slash", "star", "extra", "keywords"))
        texts = [f"{name}={defaults[name]}" if name in defaults else name for name in positional]
        if shape == "slash":
            texts.insert(1, "/")
        elif shape == "star" and len(texts) > 1:
            texts.insert(1, "*")
        elif shape == "extra":
            texts.append("*rest")
        elif shape == "keywords":
            texts.append("**options")
        declares = chance.random() < 0.3
        self.lines.append(f"def helper{index}({', '.join(texts)}):")
        if declares:
            self.lines.append("    global COUNT, RUNNING, LAST")
        scope = self.module.child(result=result, declares=declares, depth=0)
        if declares:
            scope.settable.setdefault("int", []).append("COUNT")
        for name, kind in parameters:
            scope.add(name, kind)
            scope.local.append(name)
        if shape == "extra":
            scope.add("rest", "ints", settable=False)
        if shape == "keywords":
            scope.add("options", "d", settable=False)
        before = self.cost
        self.block(scope, "    ", chance.choice((1, 2, 3, 4)))
        self.lines.append(f"    return {self.expression(result, scope, 2)}")
        cost = self.cost - before + 1
        for call in self.calls(f"helper{index}", parameters, defaults, shape):
            self.offer(result, (1.5, call), cost)
            self.statements.add((1.0, f"$new_{result} = {call}"), cost)

    def calls(
        self, function: str, parameters: list[tuple[str, str]], defaults: dict[str, str], shape: str
    ) -> list[str]:
        """Templates of calls: by position, by keyword, with stars, with defaults left out."""
        plain = [f"${kind}" for _, kind in parameters]
        named = [f"{name}=${kind}" for name, kind in parameters]
        required = len(parameters) - len(defaults)
        if shape == "star" and len(parameters) > 1:
            return [
                f"{function}({', '.join([plain[0], *named[1:]])})",
                f"{function}(**dict({', '.join(named)}))",
            ]
        if shape == "slash":
            return [
                f"{function}({', '.join(plain)})",
                f"{function}({', '.join([plain[0], *reversed(named[1:])])})",
            ]
        found = [f"{function}({', '.join(plain)})", f"{function}(*[{', '.join(plain)}])"]
        if required < len(parameters):
            found.append(f"{function}({', '.join(plain[:required])})")
        if shape == "extra":
            found.append(f"{function}({', '.join(plain)}, $int, *$ints)")
        elif shape == "keywords":
            found.append(f"{function}({', '.join(plain)}, extra=$int, **$d)")
        else:
            found.append(f"{function}({', '.join(reversed(named))})")
        return found

    # -- the program -------------------------------------------------------------------
    def program(self) -> str:
        chance = self.chance
        self.lines = list(STATE_LINES)
        if "rare" in self.groups:
            self.lines += RARE_LINES
        if "library" in self.groups:
            self.lines += LIBRARY_LINES
        if chance.random() < 0.2:
            self.lines.append(f"OPTIONS = {{'dynamic': {chance.random() < 0.5}}}")
        for name, kind in GLOBALS.items():
            self.module.add(name, kind, settable=False)
        for name in self.definitions:
            self.define(name)
        for index in range(chance.choice((0, 1, 1, 2, 3))):
            self.helper(index)
        parameters = self.main()
        self.arguments(parameters)
        body = "\n".join(self.lines)
        words = set(re.findall(r"\w+", body))
        imports = [line for name, line in IMPORTS.items() if name in words]
        return "\n".join([*imports, "import weft", "weft.manual_seed(0)", body, ""])

    def main(self) -> list[tuple[str, str]]:
        chance = self.chance
        extra = [
            kind
            for kind in ("P", "Loose", "Slotted", "F", "R", "Named", "Color", "H", "Bag", "Table")
            if kind in self.expressions
        ]
        pool = [
            "int",
            "V",
            "float",
            "ints",
            "d",
            "str",
            "T",
            "tensors",
            "V",
            "ints",
            "bool",
            "fn",
            "pair",
            "s",
            "dq",
            "g",
            *extra,
            *extra,
        ]
        pool += ["N", "N"] if "arrays" in self.groups else []
        kinds = chance.sample(pool, chance.choice((1, 2, 3, 4))) + chance.choice((["T"], ["T"], ["V"], []))
        chance.shuffle(kinds)
        parameters = [(self.name(kind), kind) for kind in kinds]
        texts = [name for name, _ in parameters]
        if chance.random() < 0.3:
            name, kind = parameters[-1]
            if kind not in ("T",):
                texts[-1] = f"{name}={self.expression(kind, Scope(), 0)}"
        if chance.random() < 0.1:
            texts.insert(len(texts) - 1, "*")
        declares = chance.random() < 0.7
        self.lines.append(f"def main({', '.join(texts)}):")
        if declares:
            self.lines.append("    global COUNT, RUNNING, LAST")
        scope = self.module.child(result="any", declares=declares, depth=0)
        if declares:
            scope.settable.setdefault("int", []).append("COUNT")
            scope.settable.setdefault("V", []).append("RUNNING")
        for name, kind in parameters:
            scope.add(name, kind)
            scope.local.append(name)
        # A frame that computes no tensor is not compiled at all: this one does, to its last line.
        touches = chance.random() < 0.85
        if touches:
            self.lines.append("    touch = weft.ones(2) * 2")
        if chance.random() < 0.04:
            self.block(scope, "    ", 2)
            self.lines.append(f"    yield {self.expression('any', scope, 1)}")
        self.block(scope, "    ", chance.choice((3, 5, 7, 9, 12)))
        results = [
            self.expression("any", scope, chance.choice((0, 0, 1, 2)))
            for _ in range(chance.choice((1, 2, 3, 4)))
        ]
        # Functions and iterators are seldom picked among so many names, and what they hold is worth seeing.
        for kind in ("fn", "fv", "g", "any"):
            results += [
                name for name in scope.names.get(kind, ()) if name in scope.local and chance.random() < 0.4
            ]
        results += ["touch + 1"] if touches else []
        self.lines.append(f"    return {', '.join(results)}")
        self.keyword_only = "*" in texts
        return parameters

    def arguments(self, parameters: list[tuple[str, str]]) -> None:
        """The calls: new values, old objects again, aliases, views, other sizes, other types."""
        chance = self.chance
        named = [*self.definitions, *self.groups]
        between = BETWEEN + [line for name in named for line in BETWEEN_WITH.get(name, ())]
        start = len(self.lines)
        assigned: set[str] = set()
        kept: dict[str, list[str]] = {}
        grads = chance.random() < 0.15
        for call in range(chance.choice((2, 3, 3, 4, 5))):
            rows = 2 if call < 2 else chance.choice((1, 2, 3, 4))
            values: list[str] = []
            for _, kind in parameters:
                old = kept.setdefault(kind if kind != "T" else f"T{rows}", [])
                if old and chance.random() < 0.4:
                    values.append(chance.choice(old))
                    continue
                text = self.value(kind, rows, grads)
                views = kept.get(f"T{rows}") if kind == "V" else None
                if views and chance.random() < 0.3:
                    text = f"{chance.choice(views)}[0]"
                if kind in ("int", "float", "str", "bool"):
                    values.append(text)
                    continue
                name = self.name(kind)
                self.lines.append(f"    {name} = {text}")
                old.append(name)
                values.append(name)
            if call and chance.random() < 0.15:
                spot = chance.randrange(len(values))
                values[spot] = chance.choice(SWAPS.get(parameters[spot][1], ["None"]))
            if call and chance.random() < 0.35:
                line = chance.choice(between)
                self.lines.append(f"    {line}")
                target = re.match(r"(\w+) (\W)?= ", line)
                if target:
                    assigned.add(target[1])
            pairs = [f"'{name}': {value}" for (name, _), value in zip(parameters, values)]
            cut = len(values) - 1 if self.keyword_only or chance.random() < 0.15 else len(values)
            positional = "".join(f"{value}, " for value in values[:cut])
            self.lines.append(f"    yield ({positional.rstrip(' ')}), {{{', '.join(pairs[cut:])}}}")
        head = ["def arguments():"] + ([f"    global {', '.join(sorted(assigned))}"] if assigned else [])
        self.lines[start:start] = head

    def value(self, kind: str, rows: int, grads: bool) -> str:
        chance = self.chance
        if kind == "T":
            text = chance.choice(
                (
                    f"weft.arange({rows * 3}.0).reshape({rows}, 3)",
                    f"weft.ones({rows}, 3) * {chance.choice((2, -1, 0.5))}",
                    f"weft.arange({rows * 3}.0).reshape(3, {rows}).t() - 2",
                )
            )
        elif kind == "V":
            numbers = (chance.choice((1.0, -1.0)), chance.choice((2.0, 0.0)), chance.choice((3.0, -0.5)))
            text = f"weft.tensor({list(numbers)})"
        elif kind == "fn":
            return chance.choice(("abs", "lambda k: k + 1", "lambda k, j=2: k * j % 9"))
        else:
            return self.expression(kind, Scope(), 0)
        return f"({text}).requires_grad_()" if grads and chance.random() < 0.5 else text


def any_expression(generator: Generator, scope: Scope, depth: int) -> str:
    chance = generator.chance
    if chance.random() < 0.7:
        names = scope.every()
        if names:
            return chance.choice(names)
    return generator.expression(chance.choice(COMMON), scope, depth)


SPECIAL: dict[str, Callable[[Generator, Scope, int], str]] = {
    "any": any_expression,
    "safe": lambda generator, scope, depth: generator.expression(generator.chance.choice(SAFE), scope, depth),
    "result": lambda generator, scope, depth: generator.expression(scope.result or "int", scope, depth),
    "idx": lambda generator, scope, depth: generator.chance.choice(("0", "0", "1", "-1", "0")),
    "error": lambda generator, scope, depth: generator.chance.choice(ERRORS),
    "errors": lambda generator, scope, depth: generator.chance.choice(
        (
            "ValueError",
            "KeyError",
            "(KeyError, IndexError)",
            "Exception",
            "Exception",
            "(ValueError, RuntimeError, TypeError)",
            "LookupError",
        )
    ),
}
BLOCKS = frozenset({"$block", "$loop", "$once"})
SWAPS = {
    "int": ["2.5", "True", "None", "'q'", "np.int64(3)", "weft.tensor(2)"],
    "float": ["3", "float('nan')", "None", "weft.tensor(1.5)"],
    "ints": ["(1, 2)", "range(3)", "[1.5, 2.5]", "None", "[]"],
    "V": ["weft.ones(3, dtype=weft.float64)", "weft.arange(3)", "2.0", "weft.ones(1)", "weft.ones(4)"],
    "T": ["weft.ones(3)", "weft.ones(2, 3, dtype=weft.float64)", "weft.ones(1, 3)", "weft.ones(2, 2)"],
    "d": ["{'z': 1}", "{}", "{'b': 1.5, 'a': 2}", "None"],
    "str": ["3", "'other'", "None"],
    "tensors": ["()", "[weft.ones(1)]", "(weft.ones(3), weft.ones(3))"],
    "s": ["frozenset({1})", "set()"],
}


def program(seed: int) -> str:
    """The source text of the program numbered `seed`."""
    return Generator(seed).program()
