"""Random functions over one world, which is changed at random between their calls.

Takes a seed; gives a function that reads and writes what it can reach, and a list of changes (attributes,
classes, closures, defaults, globals, aliases, types). One idea: eager and compiled start from the same text,
so after every change both must give the same result and leave the same world.
"""

from __future__ import annotations

import random
import sys
import types
from typing import Any

import pytest

from tests.capture.attacks.scenario import Compile, same, tensor

WORLD = """
import collections, enum, weft
class Base:
    scale = 1
    items = [1, 2]
    def apply(self, x): return x * self.scale
    @property
    def more(self): return self.scale + 1
    @classmethod
    def told(cls): return cls.scale
class Middle(Base):
    shift = 2.5
class Node(Middle):
    def __init__(self, **fields): self.__dict__.update(fields)
class Slotted:
    __slots__ = ("a", "b", "c")
    def __init__(self): self.a, self.b = 1, [1]
def helper(x, by=2, *, plus=1): return x * by + plus
def make(n): return lambda x: x + n
def count(value):
    if isinstance(value, weft.Tensor): return value.sum()
    if isinstance(value, (int, float)): return value
    return len(value) if isinstance(value, (str, list, tuple, dict, set)) else 5
def step():
    global G
    G = G + 1
closure, shared, G = make(3), [1, 2], 4
root = Node(
    i=3, f=1.5, s="ab", n=None, l=[1, 2, 3], d={"a": 1, "b": 2.0, "c": [1]}, t=(1, 2.0, "x"), slots=Slotted(),
    o=Node(i=5, l=shared), same=shared, tensor=weft.ones(3), set={1, 2}, queue=collections.deque([1, 2], 4),
    function=helper,
)
root.o.parent = root
"""
PLACES = [
    "root.i",
    "root.f",
    "root.s",
    "root.n",
    "root.l",
    "root.d",
    "root.t",
    "root.o",
    "root.o.i",
    "root.o.l",
    "root.same",
    "root.tensor",
    "root.set",
    "root.queue",
    "root.slots",
    "root.slots.a",
    "root.slots.b",
    "root.scale",
    "root.shift",
    "root.items",
    "Node.scale",
    "Base.items",
    "G",
    "shared",
    "root.more",
    "root.told()",
    "root.o.parent.i",
    "root.absent",
]
VALUES = [
    "0",
    "1",
    "7",
    "True",
    "None",
    "1.5",
    "-0.0",
    "'z'",
    "[1]",
    "[]",
    "{'a':1}",
    "{'b':2.0,'a':1}",
    "(1,2)",
    "()",
    "shared",
    "root.l",
    "weft.zeros(3)",
    "weft.ones(2,3)",
    "root.tensor",
    "{3,4}",
    "Node(i=9,l=[5])",
    "Slotted()",
    "float('nan')",
]
READS = (
    "out.append(count({0}))", "x = x * 1 + count({0})", "out.append({0})", "out.append(type({0}).__name__)",
    "out.append([count(v) for v in {0}])", "out.append(getattr({0}, 'i', -1))", "x = root.apply(x)",
    "x = helper(x)", "x = closure(x)", "x = root.function(x)", "out.append(sorted(vars(root.o)))",
    "out.append(hasattr(root, 'absent'))", "out.append(list(root.d))", "graph_break()",
)  # fmt: skip
WRITES = (
    "root.i = count({0})", "root.new = {0}", "root.o.x = {0}", "root.slots.c = {0}", "Node.last = count({0})",
    "{0}.append(count({1}))", "{0}.update(q=1)", "{0}.pop('a', None)", "{0}.add(9)", "shared.reverse()",
    "step()", "root.__dict__.pop('new', None)", "del root.new",
)  # fmt: skip
CHANGES = (
    "root.{name} = {value}", "root.o.{name} = {value}", "root.slots.a = {value}", "Base.scale = 3",
    "Middle.scale = 4", "Node.shift = {value}", "root.scale = 9", "root.__dict__.pop('scale', None)",
    "globals()['G'] += 1", "helper.__defaults__ = (5,)", "helper.__kwdefaults__ = {{'plus': 4}}",
    "closure.__closure__[0].cell_contents = 8", "globals()['closure'] = make(6)", "shared.append(5)",
    "Base.apply = lambda self, x: x - 1", "root.apply = lambda x: x * 6", "root.__dict__.pop('apply', None)",
    "Base.more = property(lambda self: 11)", "root.d = dict(reversed(list(root.d.items())))", "pass",
    "root.__class__ = type('Other', (Node,), {{'scale': 12}})", "root.o.parent = root.o",
    "globals()['shared'] = [7]", "root.tensor.data.add_(1)", "root.tensor = weft.ones(3, requires_grad=True)",
    "Base.__getattr__ = lambda self, name: 21", "globals()['len'] = lambda value: 77", "Base.items = [3]",
)  # fmt: skip


def written(chance: random.Random) -> str:
    lines = ["def forward(x):", "    out = []"]
    for _ in range(chance.randint(2, 7)):
        text = chance.choice(READS + WRITES).format(chance.choice(PLACES), chance.choice(PLACES))
        lines += [f"    try: {text}", "    except Exception as error: out.append(type(error).__name__)"]
    return "\n".join([*lines, "    return x * 1, out"])


def change(chance: random.Random) -> str:
    name = chance.choice(["i", "f", "s", "n", "l", "d", "t", "same", "tensor", "set", "queue", "absent"])
    return chance.choice(CHANGES).format(name=name, value=chance.choice(VALUES))


@pytest.mark.parametrize("seed", range(40))
def test_world(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(seed)
    program, changes = written(chance), [change(chance) for _ in range(6)]

    def scenario(compile: Compile) -> Any:
        module = types.ModuleType("attacked_world")
        monkeypatch.setitem(sys.modules, "attacked_world", module)
        space = vars(module)
        exec(f"from weft.compiler import graph_break\n{WORLD}\n{program}", space)
        compiled, results = compile(space["forward"]), []
        for text in ("pass", *changes):
            try:
                exec(text, space)
                results.append(compiled(tensor()))
            except (AttributeError, TypeError, KeyError) as error:
                results.append(type(error).__name__)
            kept = {name: vars(space["Node"]).get(name) for name in ("shift", "last")}
            results.append([space["root"], space["shared"], space["G"], kept])
        return results

    same(scenario)
