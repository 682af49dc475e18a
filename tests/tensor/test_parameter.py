"""Parameters: what they are made from, how they show, how they are copied."""

from __future__ import annotations

import copy
import pickle

import pytest

import weft


class Special(weft.Tensor):
    """A subclass that can become a parameter."""


def test_made_from_a_tensor_on_its_memory() -> None:
    data = weft.ones(2)
    parameter = weft.nn.Parameter(data)
    assert parameter.requires_grad and parameter.is_leaf and parameter.data_ptr() == data.data_ptr()
    assert isinstance(parameter, weft.Tensor) and not isinstance(data, weft.nn.Parameter)
    assert not weft.nn.Parameter(parameter, requires_grad=False).requires_grad
    assert weft.nn.Parameter().shape == (0,)
    with pytest.raises(RuntimeError, match="Only Tensors of floating point and complex dtype"):
        weft.nn.Parameter(weft.ones(2, dtype=weft.long))
    with pytest.raises(AttributeError, match="detach"):
        weft.nn.Parameter([1.0])


def test_results_are_plain_tensors() -> None:
    parameter = weft.nn.Parameter(weft.ones(2))
    for made in (parameter * 2, parameter.clone(), parameter.detach(), parameter.data, parameter[0]):
        assert type(made) is weft.Tensor
    (parameter * 3).sum().backward()
    assert parameter.grad.tolist() == [3, 3]


def test_text() -> None:
    assert (
        repr(weft.nn.Parameter(weft.ones(2))) == "Parameter containing:\ntensor([1., 1.], requires_grad=True)"
    )


def test_copies() -> None:
    parameter = weft.nn.Parameter(weft.ones(2))
    for made in (copy.deepcopy(parameter), pickle.loads(pickle.dumps(parameter))):
        assert (
            type(made) is weft.nn.Parameter and made.requires_grad and made.data_ptr() != parameter.data_ptr()
        )
    assert type(copy.copy(parameter)) is weft.nn.Parameter
    first, second = copy.deepcopy([parameter, parameter])
    assert first is second


def test_other_classes_keep_theirs_and_count_as_parameters() -> None:
    special = weft.ones(2).as_subclass(Special)
    made = weft.nn.Parameter(special)
    assert type(made) is Special and isinstance(made, weft.nn.Parameter) and made.requires_grad
    assert not isinstance(special, weft.nn.Parameter)
