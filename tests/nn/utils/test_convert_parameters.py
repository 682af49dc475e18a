"""Parameters as one vector."""

import pytest

import weft
from weft import nn
from weft.nn.utils import parameters_to_vector, vector_to_parameters


def test_there_and_back():
    made = [nn.Parameter(weft.zeros(2, 2)), nn.Parameter(weft.zeros(1))]
    before = made[0]
    vector_to_parameters(weft.arange(5.0), made)
    assert made[0] is before and made[0].tolist() == [[0, 1], [2, 3]] and made[1].tolist() == [4]
    vector = parameters_to_vector(made)
    assert vector.tolist() == [0, 1, 2, 3, 4]
    (vector * vector).sum().backward()
    assert made[0].grad.tolist() == [[0, 2], [4, 6]]


def test_refusals():
    with pytest.raises(TypeError, match="expected weft.Tensor, but got: int"):
        vector_to_parameters(3, [])
    with pytest.raises(RuntimeError, match="shape '\\[2\\]' is invalid for input of size 1"):
        vector_to_parameters(weft.ones(1), [nn.Parameter(weft.zeros(2))])
