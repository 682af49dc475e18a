"""Modules without initial values."""

import pytest

import weft
from weft import nn
from weft.nn.utils import skip_init


class Layer(nn.Module):
    def __init__(self, size, device=None):
        super().__init__()
        self.weight = nn.Parameter(weft.ones(size, device=device))
        self.made_on = self.weight.device


def test_skip_init():
    m = skip_init(Layer, 3)
    assert m.made_on.type == "meta" and m.weight.device.type == "cpu" and m.weight.shape == (3,)
    assert skip_init(Layer, 3, device="meta").weight.is_meta


def test_refusals():
    with pytest.raises(RuntimeError, match="Expected a Module; got <class 'int'>"):
        skip_init(int)
    with pytest.raises(RuntimeError, match="Module must support a 'device' arg"):
        skip_init(nn.Sequential)
