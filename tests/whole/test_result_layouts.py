"""Where results lie: ops that give row-major results in PyTorch whatever their arguments lie like do so here,
so that programs may ask for views of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import weft
from weft.nn import functional as F

OPS: dict[str, Callable[[weft.Tensor], Any]] = {
    "softmax": lambda x: [x.softmax(0), x.softmax(-1)],
    "log_softmax": lambda x: [x.log_softmax(0), x.log_softmax(-1)],
    "cumsum": lambda x: [x.cumsum(0), x.cumsum(1)],
    "cumprod": lambda x: [x.cumprod(0), x.cumprod(1)],
    "cummax": lambda x: [*x.cummax(0), *x.cummin(-1)],
    "logcumsumexp": lambda x: x.logcumsumexp(1),
    "layer_norm": lambda x: F.layer_norm(x, x.shape[-1:]),
    "masked_fill": lambda x: x.masked_fill(x > 2, 0),
    "gather": lambda x: x.gather(0, (x * 0).long()),
    "stack": lambda x: [weft.stack([x, x]), weft.stack([x, x], -1)],
    "sum": lambda x: [x.sum(0), x.sum(-1), x.mean(-1), x.var(0), x.norm(dim=0)],
    "prod": lambda x: [x.prod(0), x.prod(-1)],
    "amax": lambda x: [x.amax(0), x.amin(-1), (x > 2).all(0), (x > 2).any(-1)],
    "vector_norm": lambda x: [weft.linalg.vector_norm(x, order, 0) for order in (0, 1, 2, float("inf"))],
}


def lying(kind: str) -> weft.Tensor:
    x = weft.arange(120.0) / 7 + 1
    if kind == "transposed":
        return x.reshape(10, 12).t()
    if kind == "permuted":
        return x.reshape(2, 5, 12).permute(2, 0, 1)
    if kind == "large":
        return weft.ones(5, 40000).t()  # other code for long columns and many rows
    return x.reshape(2, 3, 4, 5).to(memory_format=weft.channels_last)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("kind", ["transposed", "permuted", "large", "channels_last"])
@pytest.mark.parametrize("name", OPS)
def test_results_lie_row_by_row(name: str, kind: str, compiled: bool) -> None:
    x = lying(kind)
    assert not x.is_contiguous()
    found = (weft.compile(OPS[name]) if compiled else OPS[name])(x)
    for each in found if isinstance(found, list) else [found]:
        assert each.is_contiguous()
        assert each.view(-1).numel() == each.numel()


@pytest.mark.parametrize("compiled", [False, True])
def test_what_is_joined_lies_row_by_row_unless_channels_come_last_in_all_of_it(compiled: bool) -> None:
    join: Any = lambda x, y: [weft.cat([x, y]), weft.cat([x, y], 1), weft.cat([y, x.double()], 1)]
    join = weft.compile(join) if compiled else join
    for x in (lying("transposed"), lying("permuted")):
        assert all(each.is_contiguous() for each in join(x, x))
    images = lying("channels_last")
    assert all(each.is_contiguous(memory_format=weft.channels_last) for each in join(images, images))
    assert all(each.is_contiguous() for each in join(images, images.contiguous()))
