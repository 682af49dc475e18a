"""Lazy modules whose first call is a compiled one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import weft
from weft import nn

MODULES: list[tuple[Callable[[], Any], tuple[int, ...], type]] = [
    (lambda: nn.LazyLinear(4), (2, 3), nn.Linear),
    (lambda: nn.LazyConv1d(4, 3), (2, 3, 6), nn.Conv1d),
    (lambda: nn.LazyConv2d(4, 3, bias=False), (1, 2, 5, 5), nn.Conv2d),
    (lambda: nn.LazyConvTranspose1d(4, 3), (1, 2, 5), nn.ConvTranspose1d),
    (lambda: nn.LazyBatchNorm1d(), (4, 3), nn.BatchNorm1d),
    (lambda: nn.LazyInstanceNorm1d(affine=True), (2, 4, 3), nn.InstanceNorm1d),
]


@pytest.mark.parametrize(("make", "shape", "becomes"), MODULES)
def test_a_first_call_is_captured(make: Callable[[], Any], shape: tuple[int, ...], becomes: type) -> None:
    x = weft.arange(float(weft.Size(shape).numel())).reshape(shape).sin()
    weft.manual_seed(7)
    eager = make()
    expected = eager(x)
    weft.manual_seed(7)
    module = make()
    compiled = weft.compile(module, fullgraph=True)
    found = compiled(x)
    assert type(module) is becomes
    assert not module._forward_pre_hooks
    weft.testing.assert_close(found, expected)
    weft.testing.assert_close(compiled(x), eager(x))
    assert list(module.state_dict()) == list(eager.state_dict())


def model() -> Any:
    return nn.Sequential(nn.Dropout(0.5), nn.LazyLinear(4), nn.Dropout(0.5), nn.LazyLinear(2))


def test_draws_before_weights_stay_before_them() -> None:
    x = weft.ones(2, 3)
    weft.manual_seed(3)
    eager = model()
    expected = [eager(x) for _ in range(3)]
    weft.manual_seed(3)
    compiled = weft.compile(model())
    found = [compiled(x) for _ in range(3)]
    for one, other in zip(found, expected, strict=True):
        weft.testing.assert_close(one, other)


def test_one_graph_is_made_where_it_is_insisted_upon() -> None:
    module = model()
    assert weft.compile(module, fullgraph=True)(weft.ones(2, 3)).shape == (2, 2)
    assert [type(layer) for layer in module][1::2] == [nn.Linear, nn.Linear]


def test_an_input_that_does_not_fit_raises_what_eager_does_and_leaves_the_module_lazy() -> None:
    module = nn.LazyConv2d(4, 3)
    state = weft.get_rng_state()
    with pytest.raises(RuntimeError, match=r"Expected 3D \(unbatched\) or 4D \(batched\) input"):
        weft.compile(module, fullgraph=True)(weft.ones(3, 3))
    assert type(module) is nn.LazyConv2d
    assert module.has_uninitialized_params()
    assert weft.equal(weft.get_rng_state(), state)
    assert weft.compile(module, fullgraph=True)(weft.ones(1, 2, 3, 3)).shape == (1, 4, 1, 1)


def test_a_whole_step_with_gradients() -> None:
    module = nn.LazyLinear(3)

    def step(x: Any) -> Any:
        loss = module(x).sum()
        loss.backward()
        return loss

    weft.compile(step, fullgraph=True)(weft.ones(2, 5))
    assert weft.equal(module.weight.grad, weft.full((3, 5), 2.0))


def test_a_lazy_module_of_ones_own() -> None:
    class Scale(nn.modules.lazy.LazyModuleMixin, nn.Module):
        cls_to_become = None

        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.UninitializedParameter()

        def initialize_parameters(self, x: Any, times: int = 1) -> None:
            if self.has_uninitialized_params():
                with weft.no_grad():
                    self.weight.materialize((x.shape[-1],))
                    self.weight.fill_(float(times))

        def forward(self, x: Any, times: int = 1) -> Any:
            return x * self.weight

    module = Scale()
    compiled = weft.compile(module, fullgraph=True)
    assert compiled(weft.ones(2, 3), times=4).tolist() == [[4.0] * 3] * 2
    assert compiled(weft.ones(2, 3), times=5).tolist() == [[4.0] * 3] * 2
