"""Questions about the world around PyTorch."""

from __future__ import annotations

import unittest
from typing import Any

import weft
from weft.compat.torch_internals import outside
from weft.utils import _pytree


def test_there_is_none_of_it() -> None:
    assert not outside.is_in_onnx_export()
    assert not outside.is_fx_tracing()
    assert not outside.has_triton()
    assert outside.get_decompositions([weft.sin]) == {}
    with outside.fresh_cache(), outside.preserve_node_meta():
        pass
    assert outside.optims([])(test_there_is_none_of_it).__unittest_skip__


def test_shapes_as_tensors() -> None:
    x = weft.ones(2, 6)
    assert outside.shape_as_tensor(x).tolist() == [2, 6]
    assert outside.reshape_from_tensor_shape(x, weft.tensor([3, 4])).shape == (3, 4)


def test_containers_are_registered_until_the_test_ends() -> None:
    class Pair:
        def __init__(self, first: Any, second: Any) -> None:
            self.first, self.second = first, second

    class Case(outside.PytreeRegisteringTestCase):
        def test_one(self) -> None:
            self.register_pytree_node(
                Pair, lambda pair: ([pair.first, pair.second], None), lambda parts, _: Pair(*parts)
            )
            self.assertEqual(_pytree.tree_leaves(Pair(1, 2)), [1, 2])

    result = unittest.TestResult()
    Case("test_one").run(result)
    assert result.wasSuccessful() and result.testsRun == 1
    assert Pair not in _pytree.SUPPORTED_NODES


def test_every_name_finds_the_one_entry_of_the_tables() -> None:
    (op,) = [entry for entry in outside.op_db if entry.name == "nn.functional.relu"]
    assert [entry for entry in outside.op_db if entry.name != "add"] == [] and op.decorators == ()
    (module,) = [entry for entry in outside.module_db if entry.module_cls == weft.nn.Linear]
    assert module.decorators == ()
    rule = outside.XFailRule(name="one", sample_match_fn=len)
    assert rule.name == "one" and rule.sample_match_fn is len
    test = test_there_is_none_of_it
    assert outside.sample_skips_and_xfails([rule])(test) is test
