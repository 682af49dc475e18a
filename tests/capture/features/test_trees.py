"""Functions of pytrees in captured code: all kinds of containers, registered classes, trees that differ."""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque, namedtuple

import pytest

import weft
from tests.capture.features.harness import check, tensor
from weft.utils import _pytree as pytree

Pair = namedtuple("Pair", "left right")


def tree():
    return {
        "list": [tensor(), (tensor(2), 3.0)],
        "pair": Pair(tensor(2), None),
        "ordered": OrderedDict(z=tensor(), a=1),
        "missing": defaultdict(list, {"u": tensor()}),
        "queue": deque([tensor(), 2], maxlen=3),
    }


@pytest.mark.parametrize(
    "function",
    [
        lambda tree: pytree.tree_map_only(weft.Tensor, lambda leaf: leaf * 2, tree),
        lambda tree: pytree.tree_map(lambda leaf: leaf, tree, is_leaf=lambda each: isinstance(each, Pair)),
        lambda tree: pytree.tree_flatten(tree)[0],
        lambda tree: sum(leaf.sum() for leaf in pytree.tree_leaves(tree) if isinstance(leaf, weft.Tensor)),
        lambda tree: pytree.tree_unflatten(range(len(pytree.tree_leaves(tree))), pytree.tree_structure(tree)),
        lambda tree: pytree.tree_map_with_path(lambda path, leaf: (len(path), leaf), tree),
    ],
)  # fmt: skip
def test_functions_of_trees(function):
    check(function, lambda: (tree(),), frames=None)  # some of them compute nothing


def test_trees_beside_trees():
    def function(parameters, rate):
        gradients = weft.func.grad(lambda p: (p["w"] * p["b"]).sum())(parameters)
        return pytree.tree_map(lambda p, g: p - rate * g, parameters, gradients)

    check(function, lambda: ({"w": tensor(), "b": tensor()}, 0.5))


def test_trees_that_do_not_fit():
    def function(x):
        return pytree.tree_map(lambda a, b: a + b, [x, {"a": x}], [x, {"b": x}])

    check(function, lambda: (tensor(),), frames=None, raises=ValueError)


def test_classes_that_are_registered_later():
    class Box:
        def __init__(self, inner):
            self.inner = inner

    compiled = weft.compile(lambda x: len(pytree.tree_leaves(Box([x, x]))) * x, backend="aot_eager")
    x = tensor()
    assert weft.equal(compiled(x), x)
    pytree.register_pytree_node(Box, lambda box: ([box.inner], None), lambda children, _: Box(*children))
    try:
        assert weft.equal(compiled(x), 2 * x)
    finally:
        del pytree.SUPPORTED_NODES[Box]
