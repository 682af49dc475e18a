"""Views of results whose strides only running tells: they raise where eager's do, and nowhere else."""

from __future__ import annotations

import pytest

import weft
from weft.core.settings import settings

BACKENDS = ["eager", "aot_eager", "native"]


def outcome(function, x):
    """What a call gives or raises, and what it leaves of its argument."""
    x = x.detach().clone(memory_format=weft.preserve_format).requires_grad_(x.requires_grad)
    try:
        result = function(x)
    except RuntimeError as error:
        return type(error), str(error), x.tolist()
    return result.tolist(), result.stride(), x.tolist()


def doubled(x):
    return (x * 2).view(-1)


def summed(x):
    return (x * 2).view(-1).sum()


def split(x):
    return (-x + 1).view(2, -1)


def chained(x):
    return (-x).view(2, -1).square().view(-1)


def unused(x):
    (x * 2).view(-1)
    return x + 1


def behind_a_write(x):
    with weft.no_grad():
        x.add_(1)
    return (x * 2).view(-1)


def differentiated(x):
    y = (x * 2).view(-1)
    (gradient,) = weft.autograd.grad(y.square().sum(), x)
    return gradient


def reshaped(x):
    return (x * 2).reshape(-1).square().sum() + (x + 1).flatten()[0]


def of_a_product(x):
    return (x @ x.mT).view(-1)


def of_running_sums(x):
    return x.cumsum(0).view(-1)


INPUTS = {
    "row-major": lambda: weft.arange(12.0).reshape(4, 3),
    "transposed": lambda: weft.arange(12.0).reshape(3, 4).t(),
    "one row": lambda: weft.arange(4.0).reshape(1, 4).t(),
    "every other": lambda: weft.arange(24.0).reshape(4, 6)[:, ::2],
    "turned": lambda: weft.arange(24.0).reshape(2, 3, 4).permute(1, 0, 2),
}


@pytest.mark.parametrize("tracked", [False, True])
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("kind", INPUTS)
@pytest.mark.parametrize(
    "function",
    [
        doubled, summed, split, chained, unused, behind_a_write, differentiated, reshaped, of_a_product,
        of_running_sums,
    ],
)  # fmt: skip
def test_views_raise_where_eager_does(function, kind, backend, tracked, monkeypatch):
    monkeypatch.setattr(settings, "strict", True)
    x = INPUTS[kind]().requires_grad_(tracked or function is differentiated)
    compiled = weft.compile(function, backend=backend)
    for _ in range(2):
        assert outcome(compiled, x) == outcome(function, x)


@pytest.mark.parametrize("backend", BACKENDS)
def test_views_that_strides_allow_are_compiled_whole(backend, monkeypatch):
    monkeypatch.setattr(settings, "strict", True)
    compiled = weft.compile(chained, backend=backend, fullgraph=True)
    x = INPUTS["row-major"]()
    weft.compiler.counters.clear()
    assert outcome(compiled, x) == outcome(chained, x)
    assert not weft.compiler.counters["deoptimisations"]
