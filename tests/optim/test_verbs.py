"""Rules on arrays and on ops: the same bits, and arrays only where that is allowed."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from weft.optim import verbs

MAKERS = {
    "sgd": lambda p: weft.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.1, nesterov=True),
    "plain": lambda p: weft.optim.SGD(p, lr=0.1, weight_decay=0.1, maximize=True),
    "adam": lambda p: weft.optim.Adam(p, lr=0.1, weight_decay=0.1, amsgrad=True),
    "steep": lambda p: weft.optim.Adam(p, lr=0.1, betas=(0.2, 0.4)),
    "adamw": lambda p: weft.optim.AdamW(p, lr=0.1, maximize=True),
    "rmsprop": lambda p: weft.optim.RMSprop(p, lr=0.1, centered=True, momentum=0.5, weight_decay=0.1),
}


def trained(make, size):
    random = np.random.default_rng(3)
    x = weft.tensor(random.standard_normal(size).astype("float32"), requires_grad=True)
    optimizer = make([x])
    for _ in range(4):
        x.grad = weft.tensor(random.standard_normal(size).astype("float32"))
        optimizer.step()
    state = optimizer.state[x]
    return [x.detach().numpy(), *(value.numpy() for value in state.values() if value is not None)]


@pytest.mark.parametrize("size", [(), (7, 3), 2 * verbs.PIECE + 77])
@pytest.mark.parametrize("name", MAKERS)
def test_arrays_and_ops_give_the_same_bits(name, size, monkeypatch):
    used = []
    original = verbs.arrays_of
    monkeypatch.setattr(verbs, "arrays_of", lambda tensors: used.append(1) or original(tensors))
    on_arrays = trained(MAKERS[name], size)
    assert used
    monkeypatch.setattr(verbs, "is_direct", lambda: False)
    for x, y in zip(on_arrays, trained(MAKERS[name], size), strict=True):
        np.testing.assert_array_equal(x, y)


def test_what_may_run_on_arrays():
    x = weft.ones(2, 3)
    assert verbs.arrays_of((x, weft.ones(2, 3))) is not None
    assert verbs.arrays_of((x, weft.ones(3, 2).t())) is not None  # a gradient may lie anyhow
    assert verbs.arrays_of((weft.ones(3, 2).t(), x)) is None
    assert verbs.arrays_of((x, weft.ones(3))) is None
    assert verbs.arrays_of((x, weft.ones(2, 3, dtype=weft.float64))) is None
    assert verbs.arrays_of((x.bfloat16(), x.bfloat16())) is None
    assert verbs.arrays_of((weft.ones(2, 3, device="meta"), weft.ones(2, 3, device="meta"))) is None

    class Mine(weft.Tensor):
        pass

    assert verbs.arrays_of((x.as_subclass(Mine), x)) is None
    with weft.inference_mode():
        frozen = weft.ones(2, 3)
    assert verbs.arrays_of((frozen, x)) is None


def test_no_mode_is_passed_by():
    assert not verbs.is_direct()
    with weft.no_grad():
        assert verbs.is_direct()
        with weft.inference_mode():
            assert not verbs.is_direct()


def test_versions_move_on():
    x = weft.ones(2, requires_grad=True)
    y = x.exp()  # saves its result only
    z = x * x
    x.grad = weft.ones(2)
    weft.optim.SGD([x], lr=0.1).step()
    assert x._version == 1
    y.sum().backward()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.sum().backward()


def test_steps_are_counted_by_the_tensor():
    step = weft.tensor(3.0)
    with weft.no_grad():
        assert verbs.advance([step]) == [4]
    assert verbs.advance([step]) == [5]
    assert step.item() == 5 and step._version == 2


@pytest.mark.parametrize("make", [
    lambda p: weft.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.1),
    lambda p: weft.optim.Adam(p, lr=0.1, weight_decay=0.1, amsgrad=True),
    lambda p: weft.optim.AdamW(p, lr=0.1),
    lambda p: weft.optim.RMSprop(p, lr=0.1, momentum=0.5, centered=True),
])  # fmt: skip
def test_versions_count_the_writes_of_ops(make, monkeypatch):
    def versions():
        parameter = weft.nn.Parameter(weft.ones(3))
        parameter.grad = weft.full((3,), 0.5)
        optimizer = make([parameter])
        for _ in range(3):
            optimizer.step()
        state = optimizer.state[parameter]
        return parameter._version, {key: value._version for key, value in state.items() if value is not None}

    direct = versions()
    monkeypatch.setattr(verbs, "is_direct", lambda: False)
    assert direct == versions()
