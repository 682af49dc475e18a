"""The reverse sweep, on nodes that are nothing but edges."""

from __future__ import annotations

from itertools import count

from weft.ops.sweep import LEAF_SEQUENCE, discover, sweep

made = count().__next__


class Node:
    def __init__(self, name, *edges, outputs=None):
        self.name = name
        self.next = tuple(edge[0] if isinstance(edge, tuple) else edge for edge in edges)
        slots = tuple(edge[1] if isinstance(edge, tuple) else 0 for edge in edges)
        self.slots = slots if any(slots) else None
        self.outputs = outputs
        self._seq = made()


class Leaf:
    _seq = LEAF_SEQUENCE
    outputs = None
    next = ()

    def __init__(self, name):
        self.name = name


def run(seeds, wanted=None, rule=None):
    log = []

    def apply(node, gradient):
        log.append((node.name, gradient))
        if rule is not None:
            return rule(node, gradient)
        return [gradient] * len(node.next)

    def arrive(leaf, gradient):
        log.append((leaf.name, gradient))

    sweep(seeds, apply, arrive, lambda a, b: a + b, wanted)
    return log


def test_each_node_runs_once_with_the_sum():
    x = Leaf("x")
    a = Node("a", x)
    b, c = Node("b", a), Node("c", a)
    d = Node("d", b, c)
    assert run([(d, 0, 1)]) == [("d", 1), ("c", 1), ("b", 1), ("a", 2), ("x", 2)]


def test_leaves_run_as_soon_as_they_are_complete():
    x, y = Leaf("x"), Leaf("y")
    a = Node("a", x)
    b = Node("b", y)
    c = Node("c", a, b)
    assert [name for name, _ in run([(c, 0, 1)])] == ["c", "b", "y", "a", "x"]


def test_roots_may_be_leaves_or_lie_behind_other_roots():
    x = Leaf("x")
    a = Node("a", x)
    b = Node("b", a)
    assert run([(x, 0, 5), (b, 0, 1), (a, 0, 10)]) == [("b", 1), ("a", 11), ("x", 16)]
    assert run([(x, 0, 5), (x, 0, 6)]) == [("x", 11)]
    assert run([]) == []


def test_several_outputs():
    x = Leaf("x")
    split = Node("split", x, outputs=("p", "q", "r"))
    a, b = Node("a", (split, 2)), Node("b", (split, 2))
    c = Node("c", a, b)
    log = run(
        [(c, 0, 1)], rule=lambda node, g: [sum(v for v in g if v)] if node is split else [g] * len(node.next)
    )
    assert log[-2:] == [("split", [None, None, 2]), ("x", 2)]
    assert run([(split, 0, 1), (split, 0, 2)], rule=lambda node, g: None) == [("split", [3, None, None])]


def test_nothing_arrives_as_none():
    x = Leaf("x")
    a = Node("a", x)
    b = Node("b", a, None)
    assert run([(b, 0, 1)], rule=lambda node, g: [None] * len(node.next)) == [
        ("b", 1),
        ("a", None),
        ("x", None),
    ]


def test_only_wanted_nodes_run():
    x, y = Leaf("x"), Leaf("y")
    a, b = Node("a", x), Node("b", y)
    c = Node("c", a, b)
    assert [name for name, _ in run([(c, 0, 1)], wanted={c, a, x})] == ["c", "a", "x"]


def test_order_and_counts():
    x = Leaf("x")
    a = Node("a", x)
    b = Node("b", a, x)
    assert discover([b], None) == ([b, a], {x: 2})


def test_a_long_chain():
    node = x = Leaf("x")
    for i in range(50_000):
        node = Node(i, node)
    log = run([(node, 0, 1)])
    assert len(log) == 50_001
    assert log[-1] == ("x", 1)
    while node is not x:  # frees the chain one by one: these plain objects would recurse
        node = node.next[0]
