from __future__ import annotations

import weft
from weft import nn


def test_calls_the_module_and_has_its_state():
    layer = nn.Linear(3, 2)
    model = nn.DataParallel(layer)
    x = weft.randn(4, 3)
    assert weft.equal(model(x), layer(x)) and model.module is layer
    other = nn.DataParallel(nn.Linear(3, 2))
    other.load_state_dict(model.state_dict())
    assert weft.equal(other(x), layer(x))
    assert weft.allclose(weft.compile(model, backend="eager", fullgraph=True)(x), layer(x))
