"""Modules as functions of their parameters."""

from __future__ import annotations

from typing import Any

import pytest

import weft
from weft.func import functional_call, grad, stack_module_state, vmap


class Tied(weft.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = weft.nn.Linear(2, 2)
        self.scale = weft.nn.Parameter(weft.ones(2))
        self.again = self.scale
        self.register_buffer("count", weft.zeros(()))

    def forward(self, x: Any) -> Any:
        self.count = self.count + 1
        return self.first(x) * self.scale + self.again


ZERO = {"first.weight": weft.zeros(2, 2), "first.bias": weft.ones(2)}


def test_parameters_are_exchanged_for_one_call() -> None:
    module = Tied()
    before = dict(module.named_parameters())
    found = functional_call(module, (ZERO, {"scale": weft.full((2,), 3.0)}), weft.ones(2))
    assert found.tolist() == [6, 6]  # the tied name follows
    untied = functional_call(
        module, ZERO | {"scale": weft.full((2,), 3.0)}, (weft.ones(2),), tie_weights=False
    )
    assert untied.tolist() == [4, 4]
    assert all(dict(module.named_parameters())[name] is value for name, value in before.items())
    with pytest.raises(ZeroDivisionError):
        functional_call(module, ZERO, weft.ones(2), {"missing": 1 / 0})
    assert module.first.weight is before["first.weight"]


def test_buffers_written_by_the_call_go_to_the_given_dict() -> None:
    module = Tied()
    buffers = {"count": weft.tensor(5.0)}
    functional_call(module, buffers, weft.ones(2))
    assert buffers["count"].item() == 6 and module.count.item() == 0


@pytest.mark.parametrize(
    ("dicts", "options", "error", "text"),
    [
        (
            {"first.weight": 1},
            {"strict": True},
            RuntimeError,
            r"for Tied:\n\tMissing key\(s\): 'again', 'count'",
        ),
        ({"nobody": 1}, {"strict": True}, RuntimeError, r"Unexpected key\(s\): 'nobody'"),
        (
            ({"scale": 1}, {"scale": 2}),
            {},
            ValueError,
            r"\['scale'\] appeared in multiple dictionaries; behavior of",
        ),
        ([1], {}, ValueError, "Expected all elements of parameter_and_buffer_dicts to be dictionaries"),
        (1, {}, ValueError, "to be a dict, or a list/tuple of dicts, but got <class 'int'>"),
        (
            {"scale": 1, "again": 2},
            {},
            ValueError,
            r"multiple values for keys \['again', 'scale'\], which are tied.",
        ),
    ],
)
def test_refusals(dicts: Any, options: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        functional_call(Tied(), dicts, weft.ones(2), **options)


def test_ensembles() -> None:
    models = [weft.nn.Linear(2, 1) for _ in range(3)]
    parameters, buffers = stack_module_state(models)
    assert parameters["weight"].shape == (3, 1, 2) and parameters["weight"].is_leaf
    assert parameters["weight"].requires_grad and not buffers
    x = weft.tensor([[1.0, 2.0], [3.0, 4.0]])
    found = vmap(lambda p, x: functional_call(models[0], p, x), in_dims=(0, None))(parameters, x)
    assert weft.allclose(found, weft.stack([model(x) for model in models]))


def test_gradients_of_each_example() -> None:
    model = weft.nn.Linear(2, 1)
    parameters = {name: value.detach() for name, value in model.named_parameters()}
    xs, ys = weft.tensor([[1.0, 2.0], [3.0, 4.0]]), weft.tensor([[1.0], [2.0]])

    def loss(parameters: Any, x: Any, y: Any) -> Any:
        return ((functional_call(model, parameters, (x,)) - y) ** 2).sum()

    found = vmap(grad(loss), in_dims=(None, 0, 0))(parameters, xs, ys)
    for i in range(2):
        model.zero_grad()
        ((model(xs[i]) - ys[i]) ** 2).sum().backward()
        assert weft.allclose(found["weight"][i], model.weight.grad)


@pytest.mark.parametrize(
    ("models", "text"),
    [
        ([], "Expected at least one model, got 0."),
        ([weft.nn.Linear(2, 2), weft.nn.ReLU()], "Expected all models to be of the same class."),
        ([weft.nn.Linear(2, 2), weft.nn.Linear(2, 2).eval()], "to have the same training/eval mode."),
    ],
)
def test_models_that_cannot_be_stacked(models: Any, text: str) -> None:
    with pytest.raises(RuntimeError, match=text):
        stack_module_state(models)


@pytest.mark.parametrize(
    ("key", "error", "text"),
    [
        ("0", TypeError, "attribute `0`: Linear.* is not an instance of weft.Tensor"),
        ("0.weight.x", TypeError, "submodule `0.weight`: "),
        ("", KeyError, "be empty string"),
        ("0.in_features", TypeError, "attribute `in_features`: 2 is not an instance of weft.Tensor"),
        ("1.weight", AttributeError, "Sequential has no attribute `1`"),
    ],
)
def test_keys_that_name_no_tensor_are_refused(key, error, text):
    model = weft.nn.Sequential(weft.nn.Linear(2, 2))
    with pytest.raises(error, match=text):
        weft.func.functional_call(model, {key: weft.ones(2, 2)}, (weft.ones(1, 2),))
    assert set(model[0].__dict__) == set(weft.nn.Linear(2, 2).__dict__)


def test_plain_and_new_attributes_are_lent_for_the_call():
    class Scaled(weft.nn.Module):
        def __init__(self):
            super().__init__()
            self.factor = weft.tensor(2.0)

        def forward(self, x):
            return x * self.factor + getattr(self, "shift", 0)

    model = Scaled()
    given = {"factor": weft.tensor(3.0), "shift": weft.tensor(1.0)}
    assert weft.func.functional_call(model, given, (weft.ones(2),)).tolist() == [4.0, 4.0]
    assert model.factor.item() == 2.0
    assert not hasattr(model, "shift")


def test_batch_norms_lose_their_state():
    module = weft.nn.Sequential(
        weft.nn.BatchNorm1d(3), weft.nn.InstanceNorm1d(3, track_running_stats=True), weft.nn.BatchNorm1d(3)
    )
    assert weft.func.replace_all_batch_norm_modules_(module) is module
    assert module[0].running_mean is None and not module[2].track_running_stats
    assert module[1].track_running_stats and module[1].running_mean is not None
    x = weft.randn(4, 5, 3)
    each = weft.func.vmap(module[0], randomness="same")(x)
    assert weft.allclose(each[1], module[0](x[1]), atol=1e-6)
