"""`.grad` in captured code: reading it is guarded, writing it is not."""

from __future__ import annotations

from typing import Any

import pytest

import weft
from tests.capture.features.harness import check, tensor


def leaf(*values: float) -> weft.Tensor:
    return tensor(*values).requires_grad_()


def with_grad(*values: float) -> weft.Tensor:
    given = leaf(*values)
    given.grad = weft.ones_like(given)
    return given


def test_none_is_written_whatever_was_there() -> None:
    def clear(x: Any) -> Any:
        x.grad = None
        return x * 2

    check(clear, lambda: (leaf(),), lambda: (with_grad(),), frames=1)


def test_deleting_leaves_none() -> None:
    def clear(x: Any) -> Any:
        y = x + 1
        del x.grad
        return y, x.grad

    check(clear, lambda: (leaf(),), lambda: (with_grad(),), frames=1)


@pytest.mark.parametrize("set_to_none", [True, False])
@pytest.mark.parametrize("by_module", [True, False])
def test_gradients_are_dropped_or_filled_with_zeros(set_to_none: bool, by_module: bool) -> None:
    models: list[Any] = []

    def make() -> Any:
        weft.manual_seed(3)
        model = weft.nn.Linear(3, 2)
        optimizer = weft.optim.SGD(model.parameters(), lr=0.1)
        models[:] = [model, optimizer]
        owner = model if by_module else optimizer

        def clear(x: Any) -> Any:
            owner.zero_grad(set_to_none=set_to_none)
            return x + 1

        return clear

    def arguments() -> tuple[Any]:
        for parameter in models[0].parameters():
            parameter.grad = weft.ones_like(parameter)
        return (tensor(),)

    check(make(), arguments, arguments, state=make, watch=lambda: [p.grad for p in models[0].parameters()])


def test_whether_there_was_a_gradient_is_asked_only_where_it_matters() -> None:
    model = weft.nn.Linear(3, 2)

    def clear(x: Any) -> Any:
        model.zero_grad()
        return x + 1

    def arguments(filled: bool) -> Any:
        for parameter in model.parameters():
            parameter.grad = weft.ones_like(parameter) if filled else None
        return (tensor(),)

    def grads() -> Any:
        return [parameter.grad for parameter in model.parameters()]

    check(clear, lambda: arguments(False), lambda: arguments(True), frames=1, watch=grads)


def test_a_gradient_is_read_after_it_was_written() -> None:
    def replace(x: Any, y: Any) -> Any:
        x.grad = y * 2
        x.grad += 1
        return x.grad * 3

    check(replace, lambda: (leaf(), tensor()), lambda: (with_grad(), tensor()), frames=1)


def test_the_very_tensor_is_kept() -> None:
    def keep(x: Any, y: Any) -> Any:
        x.grad = y
        x.grad.mul_(2)
        return y + 1, x.grad is y

    check(keep, lambda: (leaf(), tensor()))


def test_a_gradient_from_before_is_guarded() -> None:
    def read(x: Any) -> Any:
        return x * 2 if x.grad is None else x * x.grad

    check(read, lambda: (leaf(),), lambda: (with_grad(),), frames=2)


def test_a_new_leaf_is_handed_out_with_its_gradient() -> None:
    def make(x: Any) -> Any:
        new = weft.ones(3, requires_grad=True)
        new.grad = x * 2
        return new, new.grad

    check(make)


@pytest.mark.parametrize(
    "wrong", [lambda x: x.double(), lambda x: x[:2], lambda x: 3.0, lambda x: x.requires_grad_()]
)
def test_what_does_not_fit_is_refused_in_the_same_words(wrong: Any) -> None:
    def write(x: Any) -> Any:
        y = x * 2
        x.grad = wrong(x)
        return y

    if wrong(leaf()).__class__ is float:
        check(write, lambda: (leaf(),), frames=None, breaks=None, raises=TypeError)
    else:
        check(write, lambda: (leaf(),), frames=None, breaks=None, raises=RuntimeError)
