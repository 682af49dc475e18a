"""Idioms of programs around models."""

from __future__ import annotations

import weft
from tests.capture.features.harness import check, tensor
from weft import nn

model = nn.Linear(2, 2)


def dtype_of(module):
    try:
        return next(module.parameters()).dtype
    except StopIteration:
        return None


def test_the_first_parameter_of_a_model():
    check(lambda x: (x + next(model.parameters()).shape[0], dtype_of(model), dtype_of(nn.ReLU())))
    check(lambda x: (x + 1, next(model.named_parameters())[0], next(iter(model.named_children()), None)))


def test_a_delegating_generator_that_is_dropped():
    log = []

    def inner():
        try:
            yield 1
            yield 2
        finally:
            log.append("closed")

    def outer():
        yield from inner()

    def plain():
        yield from [1, 2]

    def function(x):
        first = next(outer())
        second = next(plain())
        return x + first + second

    check(function, state=log.clear, watch=lambda: list(log), breaks=None, frames=None)
    check(lambda x: x + next(plain()))


def test_keywords_with_the_names_of_our_parameters():
    check(lambda x: weft._foreach_pow(self=[x], exponent=2.0))
    check(lambda x, **rest: dict(rest, function=x + 1), lambda: (tensor(),))
    check(lambda x: dict(self=x + 1, function=2, machine=3))  # noqa: C408
