"""Trees: taken apart and put together, mapped, and with containers of users' own."""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque, namedtuple

import pytest

import weft
from weft.utils import _pytree as pytree

Point = namedtuple("Point", "x y")
TREE = {
    "b": [1, (2, 3)],
    "a": Point(4, OrderedDict(k=5)),
    "d": deque([6], maxlen=3),
    "e": defaultdict(list, z=[7]),
}


def test_there_and_back():
    leaves, spec = pytree.tree_flatten(TREE)
    assert leaves == [1, 2, 3, 4, 5, 6, 7] and spec.num_leaves == 7
    again = pytree.tree_unflatten(leaves, spec)
    assert again == TREE and type(again["a"]) is Point and again["d"].maxlen == 3
    assert again["e"].default_factory is list
    assert spec == pytree.tree_structure(again) and hash(spec) == hash(pytree.tree_structure(again))
    with pytest.raises(
        ValueError, match="`leaves` has length 1 but the spec refers to a pytree that holds 7 items"
    ):
        spec.unflatten([1])


def test_texts():
    assert (
        repr(pytree.tree_structure([1, (2,)])) == "TreeSpec(list, None, [*,\n  TreeSpec(tuple, None, [*])])"
    )
    paths = [pytree.keystr(path) for path, _ in pytree.tree_leaves_with_path({"a": [1, Point(2, 3)]})]
    assert paths == ["['a'][0]", "['a'][1].x", "['a'][1].y"]


def test_maps():
    assert pytree.tree_map(lambda a, b: a + b, [1, {"k": 2}], [10, {"k": 20}]) == [11, {"k": 22}]
    assert pytree.tree_map_only(int, str, [1, 2.0, "x"]) == ["1", 2.0, "x"]
    assert pytree.tree_map(len, [[1, 2], [3]], is_leaf=lambda value: value in ([1, 2], [3])) == [2, 1]
    assert pytree.tree_all(lambda leaf: leaf > 0, TREE) and not pytree.tree_any_only(int, bool, [0])
    with pytest.raises(ValueError, match="Node arity mismatch; expected 2, but got 1"):
        pytree.tree_map(lambda a, b: a, [1, 2], [1])
    assert pytree.arg_tree_leaves(1, [2], k=3) == [1, 2, 3]


def test_a_container_of_ones_own():
    class Box:
        def __init__(self, inside):
            self.inside = inside

    pytree.register_pytree_node(Box, lambda box: ([box.inside], "tag"), lambda children, _: Box(*children))
    try:
        assert pytree.tree_map(lambda leaf: leaf * 2, [Box(3)])[0].inside == 6
        with pytest.raises(ValueError, match="is already registered as pytree node"):
            pytree.register_pytree_node(Box, None, None)
    finally:
        pytree._deregister_pytree_node(Box)
    assert pytree.tree_is_leaf(Box(1))


@pytest.mark.parametrize("name", ["_pytree", "hooks", "data"])
def test_modules_are_there_without_an_import_of_their_own(name: str) -> None:
    module = weft.utils.__getattr__(name)
    assert module is getattr(weft.utils, name) and module.__name__ == f"weft.utils.{name}"
