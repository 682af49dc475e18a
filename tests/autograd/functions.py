"""Leaves, and small Functions of them, for the tests of custom Functions."""

from __future__ import annotations

import weft
from weft.autograd import Function


def leaf(*numbers: float) -> weft.Tensor:
    return weft.tensor(numbers or (1.0, 2.0, 3.0), dtype=weft.float32, requires_grad=True)


def values(tensor: weft.Tensor) -> list[float]:
    return tensor.detach().tolist()


def function(forward, backward=None, name="Foo", **members):
    """A Function class from plain functions."""
    body = {"forward": staticmethod(forward), **members}
    if backward is not None:
        body["backward"] = staticmethod(backward)
    return type(name, (Function,), body)


def double(ctx, x):
    return x * 2


class Mul(Function):
    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        return x * y

    @staticmethod
    def backward(ctx, gradient):
        x, y = ctx.saved_tensors
        return gradient * y, gradient * x


class Exp(Function):
    @staticmethod
    def forward(ctx, x):
        result = x.exp()
        ctx.save_for_backward(result)
        return result

    @staticmethod
    def backward(ctx, gradient):
        return gradient * ctx.saved_tensors[0]
