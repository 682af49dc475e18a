"""`weft.ops.aten`: operators by name, overloads as objects, schemas and calls."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys

import pytest

import weft
from weft.ops import aten


def test_an_overload_is_one_object_with_names():
    add = aten.add.Tensor
    assert add is aten.add.Tensor and add is not aten.add.Scalar and add.overloadpacket is aten.add
    assert (add.name(), str(add), add.__name__) == ("aten::add.Tensor", "aten.add.Tensor", "add.Tensor")
    assert repr(add) == "<OpOverload(op='aten.add', overload='Tensor')>"
    assert (aten.relu.default.name(), str(aten.relu), add.namespace) == ("aten::relu", "aten.relu", "aten")
    assert copy.deepcopy(add) is add and pickle.loads(pickle.dumps(add)) is add
    assert pickle.loads(pickle.dumps(aten.add)) is aten.add
    assert {add: 1}[aten.add.Tensor] == 1


def test_names_that_are_not_there():
    with pytest.raises(AttributeError, match="'_OpNamespace' 'aten' object has no attribute 'nothing'"):
        _ = aten.nothing
    with pytest.raises(
        AttributeError, match="The underlying op of 'aten.relu' has no overload name 'tensor'"
    ):
        _ = aten.relu.tensor


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (lambda x: aten.add.Tensor(x, 2, alpha=3), [7, 8]),
        (lambda x: aten.add(x, x), [2, 4]),
        (lambda x: aten.sum.dim_IntList(x, [0], True), [3]),
        (lambda x: aten.view.default(x, [2, 1]).flatten(), [1, 2]),
        (lambda x: aten.index.Tensor(x, [weft.tensor([1, 0])]), [2, 1]),
        (lambda x: aten.add_.Tensor(x, 1), [2, 3]),
        (lambda x: aten.add.out(x, 1, out=weft.empty(2)), [2, 3]),
        (lambda x: aten.relu.default(self=-x), [0, 0]),
        (lambda x: aten.uniform_.default(x, 3, 3), [3, 3]),
        (lambda x: aten._to_copy.default(x, dtype=weft.int64, non_blocking=True), [1, 2]),
        (lambda x: aten._softmax.default(x * 0, 0, False), [0.5, 0.5]),
        (lambda x: aten.detach.default(x), [1, 2]),
        (lambda x: aten.linear.default(x, weft.eye(2)), [1, 2]),
    ],
)
def test_calls(call, expected):
    assert call(weft.tensor([1.0, 2.0])).tolist() == expected


def test_an_in_place_operator_gives_its_argument():
    x = weft.ones(2)
    assert aten.mul_.Tensor(x, 2) is x and x.tolist() == [2, 2]


def test_schemas_tell_arguments_and_what_is_written():
    schema = aten.add.Tensor._schema
    assert (schema.name, schema.overload_name, schema.is_mutable) == ("aten::add", "Tensor", False)
    assert [argument.name for argument in schema.arguments] == ["self", "other", "alpha"]
    assert schema.arguments[2].kwarg_only and schema.arguments[2].default_value == 1
    assert str(schema) == "aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"
    written = aten.add_.Tensor._schema
    assert written.is_mutable and written.arguments[0].alias_info.is_write
    assert str(aten.t.default._schema) == "aten::t(Tensor(a) self) -> Tensor(a)"
    assert aten.t.default.is_view and not aten.add_.Tensor.is_view
    out = aten.exp.out._schema.arguments[-1]
    assert out.is_out and out.alias_info.is_write


def test_decompositions_are_bodies():
    x = weft.randn(2, 3)
    assert aten.relu.default.decompose(x) is NotImplemented
    weft.testing.assert_close(aten.softmin.default.decompose(x, 1), weft.nn.functional.softmin(x, 1))


def test_the_namespace_lists_operators():
    assert {"add", "mm", "_softmax", "detach"} <= set(dir(aten))
    assert "Tensor" in aten.add.overloads() and "out" in list(aten.add)


def test_operators_without_records_are_there_before_anything_was_handled():
    text = "import weft; print(weft.ops.aten.detach.default(weft.ones(1)).tolist())"
    ran = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False)
    assert (ran.stdout, ran.stderr) == ("[1.0]\n", "")


def test_copies_go_to_other_devices():
    made = aten._to_copy.default(weft.ones(2), device="meta", dtype=weft.float64)
    assert made.is_meta and made.dtype is weft.float64
    assert aten._to_copy.default(weft.ones(2), device="cpu").tolist() == [1, 1]
