"""What autocast does to ops: by category, by dtype of the arguments, with gradients; the cache of casts."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

import weft
from weft.ops.record import REGISTRY

KINDS = ("float32", "lower", "mixed")
SHAPES = {
    "m": (4, 4), "n": (4, 4), "v": (4,), "b": (2, 4, 4), "c": (2, 4, 4), "x1": (2, 3, 8), "w1": (5, 3, 3),
    "x2": (2, 3, 8, 8), "w2": (5, 3, 3, 3), "bias": (5,), "x3": (1, 3, 4, 4, 4), "w3": (2, 3, 2, 2, 2),
    "t2": (3, 5, 3, 3), "lw": (6, 4), "lb": (6,), "q": (2, 2, 4, 8),
}  # fmt: skip
LOWER = {
    "mm": lambda lib, d: lib.mm(d.m, d.n),
    "matmul": lambda lib, d: d.m @ d.v,
    "bmm": lambda lib, d: lib.bmm(d.b, d.c),
    "addmm": lambda lib, d: lib.addmm(d.m, d.m, d.n),
    "baddbmm": lambda lib, d: d.b.baddbmm(d.b, d.c),
    "addbmm": lambda lib, d: lib.addbmm(d.m, d.b, d.c),
    "einsum": lambda lib, d: lib.einsum("ij,jk->ik", d.m, d.n),
    "vecdot": lambda lib, d: lib.linalg.vecdot(d.m, d.n),
    "linear": lambda lib, d: lib.nn.functional.linear(d.m, d.lw, d.lb),
    "conv1d": lambda lib, d: lib.nn.functional.conv1d(d.x1, d.w1),
    "conv2d": lambda lib, d: lib.nn.functional.conv2d(d.x2, d.w2, d.bias, padding=1),
    "conv3d": lambda lib, d: lib.nn.functional.conv3d(d.x3, d.w3),
    "conv_transpose2d": lambda lib, d: lib.nn.functional.conv_transpose2d(d.x2, d.t2),
    "prelu": lambda lib, d: lib.nn.functional.prelu(d.m - 0.5, d.v),
    "attention": lambda lib, d: lib.nn.functional.scaled_dot_product_attention(d.q, d.q, d.q),
}
FLOAT32 = {
    "mse": lambda lib, d: lib.nn.functional.mse_loss(d.m, d.n),
    "l1": lambda lib, d: lib.nn.functional.l1_loss(d.m, d.n),
    "smooth_l1": lambda lib, d: lib.nn.functional.smooth_l1_loss(d.m, d.n),
    "huber": lambda lib, d: lib.nn.functional.huber_loss(d.m, d.n),
    "kl_div": lambda lib, d: lib.nn.functional.kl_div(d.m, d.n, reduction="sum"),
    "bce": lambda lib, d: lib.nn.functional.binary_cross_entropy(d.m, d.n),
    "bce logits": lambda lib, d: lib.nn.functional.binary_cross_entropy_with_logits(d.m, d.n),
    "cross_entropy": lambda lib, d: lib.nn.functional.cross_entropy(d.m, lib.tensor([1, 0, 2, 3])),
    "soft cross_entropy": lambda lib, d: lib.nn.functional.cross_entropy(d.m, d.n),
    "nll": lambda lib, d: lib.nn.functional.nll_loss(d.m, lib.tensor([1, 0, 2, 3])),
    "prod": lambda lib, d: d.m.prod(0),
    "trace": lambda lib, d: d.m.trace(),
    "inv": lambda lib, d: lib.linalg.inv(d.m + 4 * lib.eye(4)),
    "solve": lambda lib, d: lib.linalg.solve(d.m + 4 * lib.eye(4), d.n.float()),
    "svdvals": lambda lib, d: lib.linalg.svdvals(d.m),
    "avg_pool3d": lambda lib, d: lib.nn.functional.avg_pool3d(d.x3, 2),
    "reflect": lambda lib, d: lib.nn.functional.pad(d.x2, (1, 1, 1, 1), mode="reflect"),
}
WIDEST = {
    "cat": lambda lib, d: lib.cat([d.m, d.n]),
    "stack": lambda lib, d: lib.stack([d.m, d.n]),
    "index_copy": lambda lib, d: d.m.index_copy(0, lib.tensor([1, 0, 2, 3]), d.n),
}
NONE = {
    "add": lambda lib, d: d.m + d.n,
    "sum": lambda lib, d: d.m.sum(),
    "softmax": lambda lib, d: lib.nn.functional.softmax(d.m, -1),
    "exp": lambda lib, d: d.m.exp(),
    "max_pool2d": lambda lib, d: lib.nn.functional.max_pool2d(d.x2, 2),
    "gelu": lambda lib, d: lib.nn.functional.gelu(d.m),
}
EVERY = LOWER | FLOAT32 | WIDEST | NONE


class Data:
    """Leaves of some dtype: all float32, all lower, or by turns."""

    def __init__(self, library, kind, lower):
        random = np.random.default_rng(1)
        for position, (name, shape) in enumerate(SHAPES.items()):
            values = library.tensor(random.uniform(0.2, 0.8, shape).astype("float32"))
            if kind == "lower" or (kind == "mixed" and position % 2):
                values = values.to(getattr(library, lower))
            setattr(self, name, values.requires_grad_())

    def gradients(self):
        found = [getattr(self, name).grad for name in SHAPES]
        return [None if g is None else g.detach().float().numpy() for g in found]


def run(library, call, kind, lower="bfloat16"):
    data = Data(library, kind, lower)
    with library.autocast("cpu", getattr(library, lower)):
        out = call(library, data)
    out.float().sum().backward()
    return str(out.dtype).split(".")[1], out.detach().float().numpy(), data


@pytest.mark.parametrize("lower", ["bfloat16", "float16"])
@pytest.mark.parametrize("kind", KINDS)
def test_dtypes_by_category(kind, lower):
    for name, call in EVERY.items():
        found, _, data = run(weft, call, kind, lower)
        if name in LOWER:
            assert found == lower, name
        elif name in FLOAT32:
            assert found == "float32", name
        elif name in WIDEST:
            assert found == (lower if kind == "lower" else "float32"), name
        else:
            low = kind == "lower" or (kind == "mixed" and name == "max_pool2d")  # x2 is low then, m is not
            assert found == (lower if low else "float32"), name
        for name in SHAPES:
            leaf = getattr(data, name)
            assert leaf.grad is None or leaf.grad.dtype is leaf.dtype


@pytest.mark.torch
@pytest.mark.parametrize("lower", ["bfloat16", "float16"])
@pytest.mark.parametrize("name", EVERY)
def test_values_and_gradients_are_those_of_torch(name, lower):
    torch = pytest.importorskip("torch")
    tolerance = 0.03 if lower == "bfloat16" else 0.004
    for kind in KINDS:
        theirs, expected, leaves = run(torch, EVERY[name], kind, lower)
        ours, values, data = run(weft, EVERY[name], kind, lower)
        assert ours == theirs, kind
        np.testing.assert_allclose(values, expected, rtol=tolerance, atol=tolerance)
        for x, y in zip(data.gradients(), leaves.gradients(), strict=True):
            assert (x is None) == (y is None)
            if x is not None:
                np.testing.assert_allclose(x, y, rtol=4 * tolerance, atol=4 * tolerance)


def test_every_category_is_one_of_three():
    assert {op.amp for op in REGISTRY.values()} == {None, "lower", "float32", "widest"}


def test_lowered_results_are_rounded_sums_of_rounded_factors():
    x, y = weft.randn(8, 16), weft.randn(16, 4)
    with weft.autocast("cpu"):
        out = x @ y
    assert weft.equal(out, (x.bfloat16().float() @ y.bfloat16().float()).bfloat16())


def test_float64_integers_and_meta_tensors_are_left_alone():
    with weft.autocast("cpu"):
        double = weft.ones(2, 2, dtype=weft.float64)
        assert weft.mm(double, double).dtype is weft.float64
        with pytest.raises(RuntimeError, match="dtype"):
            weft.mm(double, weft.ones(2, 2))
        integers = weft.ones(2, 2, dtype=weft.int64)
        assert weft.mm(integers, integers).dtype is weft.int64
        meta = weft.ones(2, 2, device="meta")
        assert weft.mm(meta, meta).dtype is weft.float32
        assert weft.cat([double, weft.ones(2, 2).bfloat16()]).dtype is weft.float64
        assert weft.cat([integers, integers]).dtype is weft.int64


def test_a_second_half_type_has_no_widest():
    with weft.autocast("cpu", weft.bfloat16):
        for other in (weft.ones(2), weft.ones(2).half()):
            with pytest.raises(
                RuntimeError, match="Unexpected floating ScalarType in at::autocast::prioritize"
            ):
                weft.cat([weft.ones(2).half(), other])


def test_writing_forms_are_not_cast():
    x, y = weft.zeros(2, 2), weft.ones(2, 2)
    with weft.autocast("cpu"):
        assert x.addmm_(y, y).dtype is weft.float32
        out = weft.zeros(2, 2)
        weft.mm(y, y, out=out)
    assert x.tolist() == out.tolist() == [[2.0, 2.0], [2.0, 2.0]]


def test_inside_a_composite_with_a_category_nothing_is_cast_again():
    """The layers of attention run in one dtype, with what they compute inside kept in it."""
    q = weft.randn(1, 2, 3, 4)
    with weft.autocast("cpu"):
        out = weft.nn.functional.scaled_dot_product_attention(q, q, q)
        assert weft.is_autocast_enabled("cpu")
    low = q.bfloat16()
    assert weft.equal(out, weft.nn.functional.scaled_dot_product_attention(low, low, low))


# -- the cache -----------------------------------------------------------------------------------------------
def cast_of(x):
    return weft.mm(x, x).grad_fn.next_functions[0][0]


def test_a_parameter_is_cast_once():
    x = weft.ones(2, 2, requires_grad=True)
    with weft.autocast("cpu"):
        first = cast_of(x)
        assert type(first).__name__ == "ToCopyBackward0"
        assert cast_of(x) is first
        with weft.autocast("cpu"):
            assert cast_of(x) is first
        with weft.autocast("cpu", weft.float16):
            assert cast_of(x) is not first
        with weft.autocast("cpu", cache_enabled=False):
            assert not weft.is_autocast_cache_enabled()
            assert cast_of(x) is not first
        assert weft.is_autocast_cache_enabled() and cast_of(x) is first
        weft.clear_autocast_cache()
        assert cast_of(x) is not first
    with weft.autocast("cpu"):
        assert cast_of(x) is not first


def test_what_is_no_leaf_is_cast_anew():
    x = weft.ones(2, 2, requires_grad=True)
    with weft.autocast("cpu"):
        y = x * 1
        assert cast_of(y) is not cast_of(y)
        view = weft.ones(2, 2).t().requires_grad_()
        assert cast_of(view) is not cast_of(view)


def test_a_written_parameter_is_cast_anew():
    x = weft.ones(2, 2, requires_grad=True)
    with weft.autocast("cpu"):
        assert weft.mm(x, x).tolist() == [[2.0, 2.0], [2.0, 2.0]]
        with weft.no_grad():
            x.mul_(2)
        assert weft.mm(x, x).tolist() == [[8.0, 8.0], [8.0, 8.0]]


def test_a_cast_without_recording_does_not_hide_the_parameter():
    x = weft.ones(2, 2, requires_grad=True)
    with weft.autocast("cpu"):
        with weft.no_grad():
            assert not weft.mm(x, x).requires_grad
        weft.mm(x, x).sum().backward()
    assert x.grad.tolist() == [[4.0, 4.0], [4.0, 4.0]]


def test_gradients_of_all_uses_meet_in_the_parameter():
    x = weft.ones(2, 2, requires_grad=True)
    with weft.autocast("cpu"):
        loss = weft.mm(x, x).sum() + weft.mm(x, weft.ones(2, 2)).sum()
    loss.backward()
    assert x.grad.dtype is weft.float32 and x.grad.tolist() == [[6.0, 6.0], [6.0, 6.0]]


def test_nothing_is_kept_alive():
    x = weft.ones(2, 2, requires_grad=True)
    with weft.autocast("cpu"):
        weft.mm(x, x)
    alive = weakref.ref(x)
    del x
    gc.collect()
    assert alive() is None


# -- with other modes ----------------------------------------------------------------------------------------
def test_checkpoint_computes_again_as_before():
    from weft.utils.checkpoint import checkpoint

    x, w = weft.randn(3, 3), weft.randn(3, 3, requires_grad=True)
    seen = []

    def block(value, weight):
        out = weft.mm(value, weight)
        seen.append((out.dtype, weft.is_autocast_enabled("cpu"), weft.get_autocast_dtype("cpu")))
        return out.relu()

    with weft.autocast("cpu", weft.float16):
        loss = checkpoint(block, x, w, use_reentrant=False).sum()
    loss.backward()
    assert seen == [(weft.float16, True, weft.float16)] * 2
    alive = weakref.ref(w)
    del loss, w
    gc.collect()
    assert alive() is None


def test_function_modes_see_the_arguments_as_given():
    from weft.overrides import TorchFunctionMode

    seen = []

    class Note(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen.append((func.__name__, [a.dtype for a in args if isinstance(a, weft.Tensor)]))
            return func(*args, **(kwargs or {}))

    x = weft.ones(2, 2)
    with weft.autocast("cpu"), Note():
        out = weft.mm(x, x)
    assert out.dtype is weft.bfloat16
    assert seen == [("mm", [weft.float32, weft.float32])]


def test_vmap_and_grad():
    x, w = weft.randn(5, 3), weft.randn(3, 3)

    def loss(w, x):
        out = weft.matmul(w, x)
        assert out.dtype is weft.bfloat16
        return out.float().sum()

    with weft.autocast("cpu"):
        found = weft.func.vmap(weft.func.grad(loss), (None, 0))(w, x)
    assert found.dtype is weft.float32 and found.shape == (5, 3, 3)
    expected = x.bfloat16().float()[:, None, :].expand(5, 3, 3)
    assert weft.allclose(found, expected)


def test_inference_mode():
    with weft.inference_mode(), weft.autocast("cpu"):
        x = weft.nn.Linear(2, 2)(weft.ones(1, 2))
    assert x.dtype is weft.bfloat16 and x.is_inference()


def test_bilinear_keeps_the_widest():
    x, weight = weft.randn(2, 3), weft.randn(4, 3, 3)
    with weft.autocast("cpu"):
        assert weft.nn.functional.bilinear(x, x, weight).dtype is weft.float32
        low = weft.nn.functional.bilinear(x.bfloat16(), x.bfloat16(), weight.bfloat16())
    assert low.dtype is weft.bfloat16
