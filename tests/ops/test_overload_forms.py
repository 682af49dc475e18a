"""Spelling of records: names are found back, and arguments survive the way there and back."""

from __future__ import annotations

import pytest

import weft
from weft.ops.overload_forms import bound_of, operator_name, overload_of, record_named, spelled
from weft.ops.record import REGISTRY, ops

SHARED = {"method.polygamma"}
"""Records that share an operator with another one, which calls them."""


def test_the_operator_of_each_record_that_is_no_composite_is_its_own():
    for op in REGISTRY.values():
        users = op.namespace.startswith("ops.")
        if not op.composed and not users and op.qualified_name not in SHARED:
            assert record_named(operator_name(op)) is op, op


def test_names_that_pytorch_spells_otherwise():
    names = {"softmax": "_softmax", "_where": "where", "linalg.inv": "linalg_inv", "_var": "var"}
    for record, name in names.items():
        assert operator_name(REGISTRY[record]) == name


@pytest.mark.parametrize(
    ("name", "bound", "overload"),
    [
        ("add", (1, 2, 1), "Tensor"),
        ("eq", (1, 2), "Scalar"),
        ("eq", (1, weft.ones(1)), "Tensor"),
        ("pow", (weft.ones(1), 2), "Tensor_Scalar"),
        ("pow", (2, weft.ones(1)), "Scalar"),
        ("pow", (weft.ones(1), weft.ones(1)), "Tensor_Tensor"),
        ("div", (1, 2, "floor"), "Tensor_mode"),
        ("sum", (1, None, False, None), "default"),
        ("sum", (1, (0,), False, None), "dim_IntList"),
        ("any", (1, (0, 1), False), "dims"),
        ("any", (1, 0, False), "dim"),
        ("clamp", (1, weft.ones(1), None), "Tensor"),
        ("scatter", (1, 0, 1, weft.ones(1), None, None), "src"),
        ("arange", (5, None, 1), "default"),
        ("arange", (1, 5, 1), "start"),
        ("arange", (1, 5, 2), "start_step"),
        ("eye", (3, None), "default"),
        ("randint", (1, 5, (2,)), "low"),
        ("normal", (weft.ones(1), 2.0), "Tensor_float"),
        ("view", (1, (weft.int32,)), "dtype"),
        ("view", (1, (2, 3)), "default"),
        ("transpose", (1, 0, 1), "int"),
    ],
)
def test_overloads(name, bound, overload):
    assert overload_of(REGISTRY[name], bound) == overload


def test_defaults_at_the_end_are_left_out_and_sizes_are_lists():
    assert spelled(ops.sum, (1, (0, 2), False, None)) == ((1, [0, 2]), {})
    assert spelled(ops.sum, (1, None, True, None)) == ((1, None, True), {})
    assert spelled(ops.add, (1, 2, 3)) == ((1, 2), {"alpha": 3})
    assert spelled(ops.softmax, (1, -1, None)) == ((1, -1, False), {})


def test_arguments_come_back_in_order():
    assert bound_of(ops.view, (1, [2, 3]), {}) == (1, (2, 3))
    assert bound_of(ops.sum, (), {"self": 1, "dim": [0]}) == (1, (0,), False, None)
    assert bound_of(ops._var, (1, [0]), {"correction": 0}) == (1, (0,), 0, False)
    x, places = weft.ones(2, 2), [None, weft.tensor([1])]
    assert bound_of(ops.index, (x, places), {}) == (x, [places[1]], (1,))
