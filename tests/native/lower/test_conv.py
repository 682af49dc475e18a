"""Every op of the families that have functions of their own, natively, against its array kernel."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft
from tests.native.lowered import opaques
from weft.core.dtypes import float32, float64, int64
from weft.ops.record import REGISTRY, Op
from weft.ops.samples import Maker

WORDS = ("convolution", "conv1d", "conv2d", "conv3d", "conv_transpose", "pool", "upsample", "interpolate")
NORMS = ("batch_norm", "group_norm", "instance_norm", "norm_backward")
OPS = sorted(name for name in REGISTRY if any(word in name for word in (*WORDS, *NORMS)))
"""What array kernels still do: windows that are not all alike, and what no kernel of ours computes."""
LEFT = {
    name
    for name in OPS
    if any(word in name for word in ("adaptive_max_pool", "lp_pool", "fractional_max_pool", "max_unpool"))
}


def face(op: Op) -> Any:
    return op.face if op.face is not None else op


def tensors(value: Any) -> Any:
    return weft.from_numpy(value) if isinstance(value, np.ndarray) else value


def call_of(op: Op, sample: Any) -> tuple[Any, list[Any]]:
    """A function of a sample's tensors, and those."""
    full, more = [tensors(each) for each in sample.args], {w: tensors(v) for w, v in sample.kwargs.items()}
    slots = [place for place, each in enumerate(full) if isinstance(each, weft.Tensor)]
    words = [word for word, each in more.items() if isinstance(each, weft.Tensor)]

    def run(*given: Any) -> Any:
        args, kwargs = list(full), dict(more)
        for place, tensor in zip(slots, given):
            args[place] = tensor
        for word, tensor in zip(words, given[len(slots) :]):
            kwargs[word] = tensor
        return face(op)(*args, **kwargs)

    return run, [full[place] for place in slots] + [more[word] for word in words]


@pytest.mark.parametrize("kind", [float32, float64])
@pytest.mark.parametrize("name", OPS)
@pytest.mark.filterwarnings("ignore")
def test_samples(name: str, kind: Any) -> None:
    op = REGISTRY[name]
    assert op.samples is not None
    for number, sample in enumerate(op.samples(Maker(kind))):
        run, given = call_of(op, sample)
        found = weft.compile(run, backend="native", fullgraph=True)(*[each.clone() for each in given])
        wanted = run(*[each.clone() for each in given])
        both = [each if isinstance(each, (tuple, list)) else (each,) for each in (found, wanted)]
        for one, other in zip(*both, strict=True):
            assert (one.dtype, one.shape) == (other.dtype, other.shape), number
            close = 1e-4 if one.dtype is float32 else 1e-11
            assert np.allclose(one.numpy(), other.numpy(), close, close, equal_nan=True), number
        if name not in LEFT and all(0 not in each.shape for each in given):
            assert not opaques(run, *[each.clone() for each in given]), number


def test_ints_are_left_to_array_kernels() -> None:
    x, w = weft.ones(1, 2, 5, 5, dtype=int64), weft.ones(3, 2, 3, 3, dtype=int64)
    assert opaques(lambda x, w: weft.nn.functional.conv2d(x, w), x, w) == {"convolution"}
