"""The namespace against NumPy, whose own is the standard's: values, dtypes and shapes of each function."""

from __future__ import annotations

import hypothesis
import hypothesis.extra.numpy as arrays
import numpy as np
import pytest
from hypothesis import strategies as st

import weft
import weft.array_api as xp

FLOATS = ["float32", "float64"]
COMPLEX = ["complex64", "complex128"]
INTEGERS = ["int8", "int16", "int32", "int64", "uint8"]
REAL = FLOATS + INTEGERS
NUMERIC = REAL + COMPLEX
ALL = [*NUMERIC, "bool"]

TRIGONOMETRIC = (
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atanh",
    "cos",
    "cosh",
    "sin",
    "sinh",
    "tan",
    "tanh",
)
UNARY = {
    **dict.fromkeys((*TRIGONOMETRIC, "exp", "sqrt", "log", "log10"), FLOATS + COMPLEX),
    **dict.fromkeys(("expm1", "log1p", "log2", "reciprocal", "signbit"), FLOATS),
    **dict.fromkeys(("abs", "negative", "positive", "square", "sign"), NUMERIC),
    **dict.fromkeys(("ceil", "floor", "trunc"), REAL),
    **dict.fromkeys(("round", "isfinite", "isinf", "isnan"), NUMERIC),
    **dict.fromkeys(("conj", "real", "imag"), COMPLEX),
    "logical_not": ["bool"],
    "bitwise_invert": [*INTEGERS, "bool"],
}
COMPARISONS = ("less", "less_equal", "greater", "greater_equal")
BINARY = {
    **dict.fromkeys(("add", "subtract", "multiply"), NUMERIC),
    "divide": FLOATS + COMPLEX,
    **dict.fromkeys(("equal", "not_equal"), ALL),
    **dict.fromkeys((*COMPARISONS, "maximum", "minimum", "floor_divide", "remainder"), REAL),
    **dict.fromkeys(("atan2", "copysign", "hypot", "logaddexp", "nextafter", "pow"), FLOATS),
    **dict.fromkeys(("bitwise_and", "bitwise_or", "bitwise_xor"), [*INTEGERS, "bool"]),
    **dict.fromkeys(("bitwise_left_shift", "bitwise_right_shift"), INTEGERS),
    **dict.fromkeys(("logical_and", "logical_or", "logical_xor"), ["bool"]),
}


def example(shape, kind, seed=0, low=-4, high=5):
    random = np.random.default_rng(seed)
    if kind == "bool":
        made = random.integers(0, 2, shape)
    elif kind in INTEGERS:
        made = random.integers(max(low, 0) if kind == "uint8" else low, high, shape)
    else:
        made = random.uniform(low, high, shape)
        made = made + 1j * random.uniform(low, high, shape) if kind in COMPLEX else made
    return np.asarray(made, dtype=kind)


def check(found, expected, loose=0.0, kinds=True):
    if isinstance(expected, (list, tuple)):
        assert len(found) == len(expected)
        for one, two in zip(found, expected, strict=True):
            check(one, two, loose, kinds)
        return
    expected = np.asarray(expected)
    assert type(found) is weft.Tensor
    assert tuple(found.shape) == expected.shape
    # Weft has no unsigned dtypes of more than 8 bits: sums of such are of int64
    if kinds and str(expected.dtype) in ALL:
        assert str(found.dtype).removeprefix("weft.") == str(expected.dtype)
    tolerance = 1e-5 if str(expected.dtype) in ("float32", "complex64") else 1e-11
    np.testing.assert_allclose(
        found.numpy(), expected, rtol=max(tolerance, loose), atol=max(tolerance, loose)
    )


def ours(array):
    return xp.asarray(np.array(array))


def call(name, *parts, **options):
    """The function of this name in both namespaces."""
    space, there = xp, np
    for word in name.split(".")[:-1]:
        space, there = getattr(space, word), getattr(there, word)
    last = name.split(".")[-1]

    def mine(value):
        if isinstance(value, np.ndarray):
            return ours(value)
        return [mine(each) for each in value] if isinstance(value, list) else value

    with np.errstate(all="ignore"):
        expected = getattr(there, last)(*parts, **options)
    check(getattr(space, last)(*map(mine, parts), **{k: mine(v) for k, v in options.items()}), expected)


@pytest.mark.parametrize("name", UNARY)
def test_functions_of_one(name):
    for kind in UNARY[name]:
        low, high = (1, 4) if name in ("acosh", "log", "log2", "log10", "sqrt", "reciprocal") else (-0.9, 0.9)
        for shape in [(), (0,), (2, 3)]:
            whole = kind in INTEGERS
            call(name, example(shape, kind, 1, *((-4, 5) if whole else (low, high))))
    if name in ("isfinite", "isinf", "isnan", "signbit", "round", "ceil", "floor", "trunc", "sign"):
        call(name, np.array([np.inf, -np.inf, np.nan, -0.0, 0.5, 1.5, -2.5], "float32"))


@pytest.mark.parametrize("name", BINARY)
def test_functions_of_two(name):
    for kind in BINARY[name]:
        shift = name.endswith("shift")
        one = example((2, 3), kind, 1, *((0, 5) if name == "pow" else (-4, 5)))
        two = example(
            (3,), kind, 2, *((1, 4) if shift or name in ("floor_divide", "remainder", "pow") else (-4, 5))
        )
        call(name, one, two)
        call(name, one, two[:1].reshape(()))
        number = two[0].item()
        check(getattr(xp, name)(ours(one), number), getattr(np, name)(one, number))
        check(getattr(xp, name)(number, ours(two)), getattr(np, name)(number, two))


@hypothesis.settings(max_examples=40)
@hypothesis.given(
    st.sampled_from(["add", "multiply", "maximum", "less", "where", "matmul"]),
    st.sampled_from(REAL),
    st.sampled_from(REAL),
    st.sampled_from([((), (2,)), ((3, 1), (1, 4)), ((2,), ()), ((), ())]),
)
def test_promotion_does_not_ask_for_dimensions(name, one, two, shapes):
    a, b = example(shapes[0], one), example(shapes[1], two, 3)
    kind = np.result_type(a.dtype, b.dtype)
    mixed = (one in FLOATS) != (two in FLOATS)  # left open by the standard
    if name == "matmul":
        a, b = example((2, 2), one), example((2, 2), two, 3)
    if name == "where":
        found, expected = xp.where(ours(True), ours(a), ours(b)), np.where(True, a, b)
    else:
        found, expected = getattr(xp, name)(ours(a), ours(b)), getattr(np, name)(a, b)
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-5)
    if not mixed:
        assert found.dtype is (weft.bool if name == "less" else getattr(weft, str(kind)))
        assert xp.result_type(ours(a), ours(b)) is getattr(weft, str(kind))


AXES = [None, 0, -1, (0, 1), ()]


@pytest.mark.parametrize(
    "name", ["sum", "prod", "max", "min", "mean", "var", "std", "all", "any", "count_nonzero"]
)
def test_reductions(name):
    kinds = {"max": REAL, "min": REAL, "mean": FLOATS, "var": FLOATS, "std": FLOATS}.get(name, ALL)
    kinds = [kind for kind in kinds if name not in ("sum", "prod") or kind != "bool"]
    for kind in kinds:
        x = example((2, 3), kind, 3)
        for axis in AXES:
            for keep in (False, True):
                call(name, x, axis=axis, keepdims=keep)
    if name in ("sum", "prod"):
        call(name, example((2, 3), "int8"), dtype=None)
        check(
            getattr(xp, name)(ours(example(3, "int8")), dtype=xp.float64),
            getattr(np, name)(example(3, "int8"), dtype="f8"),
        )
    if name in ("var", "std"):
        call(name, example((4, 3), "float64"), axis=0, correction=1.0)
    with pytest.raises(IndexError):
        getattr(xp, name)(xp.ones(2), axis=1)


def test_running_sums():
    for kind in REAL:
        x = example((3, 4), kind, 5)
        for name in ("cumulative_sum", "cumulative_prod"):
            call(name, x, axis=1)
            call(name, x, axis=0, include_initial=True)
            call(name, x[0])
    x = example((3, 4), "float32")
    call("diff", x)
    call("diff", x, axis=0, n=2)
    check(xp.diff(ours(x), prepend=ours(x), append=ours(x[:, :1])), np.diff(x, prepend=x, append=x[:, :1]))
    with pytest.raises(ValueError, match="needs an axis"):
        xp.cumulative_sum(xp.ones((2, 2)))


def test_arrangement():
    x, y = example((2, 3), "float32"), example((2, 3), "float64", 1)
    for axis in (0, 1, -1, None):
        call("concat", [x, y], axis=axis)
        call("flip", x, axis=axis)
        call("repeat", x, 2, axis=axis)
        call("roll", x, 4, axis=axis)
    call("repeat", x, np.array([1, 2]), axis=0)
    call("roll", x, (1, 2), axis=(0, 1))
    for axis in (0, 1, -1):
        call("stack", [x, y], axis=axis)
        call("unstack", x, axis=axis)
        call("expand_dims", x, axis=axis)
    call("moveaxis", example((2, 3, 4), "int8"), 0, -1)
    call("moveaxis", example((2, 3, 4), "int8"), (0, 1), (2, 0))
    call("permute_dims", x, (1, 0))
    call("matrix_transpose", x)
    call("tile", x, (2,))
    call("tile", x, (2, 1, 3))
    call("reshape", x, (3, -1))
    call("squeeze", x.reshape(1, 2, 1, 3), axis=0)
    call("squeeze", x.reshape(1, 2, 1, 3), axis=(0, 2))
    with pytest.raises(ValueError, match="cannot squeeze"):
        xp.squeeze(ours(x), axis=0)
    call("broadcast_to", x, (4, 2, 3))
    call("broadcast_arrays", x, y[0])
    mine = ours(x)
    assert (
        xp.reshape(mine, (6,), copy=True).data_ptr() != mine.data_ptr() == xp.reshape(mine, (6,)).data_ptr()
    )
    with pytest.raises(ValueError, match="without a copy"):
        xp.reshape(xp.permute_dims(mine, (1, 0)), (6,), copy=False)


def test_indexing_sorting_searching():
    x = example((3, 4), "float32", 2)
    indices = np.array([2, 0, -1])
    call("take", x, indices, axis=0)
    call("take", x[0], indices)
    call("take_along_axis", x, np.argsort(x, axis=1), axis=1)
    call("take_along_axis", x, np.array([[0, -1, 1, 2]]), axis=0)
    for axis in (None, 0, 1):
        call("argmax", x, axis=axis)
        call("argmin", x, axis=axis, keepdims=True)
    for kind in REAL:
        z = example((3, 5), kind, 4)
        for axis in (0, -1):
            call("sort", z, axis=axis)
            check(xp.argsort(ours(z), axis=axis), np.argsort(z, axis=axis, stable=True))
            down = xp.sort(ours(z), axis=axis, descending=True)
            check(down, np.flip(np.sort(z, axis=axis), axis=axis))
    call("nonzero", example((3, 4), "bool"))
    call("where", x > 0, x, x * 2)
    check(xp.where(ours(x) > 0, ours(x), 0), np.where(x > 0, x, np.float32(0)))
    sorted_, wanted = np.array([1.0, 2, 2, 5]), np.array([[0.0, 2], [5, 9]])
    call("searchsorted", sorted_, wanted)
    call("searchsorted", sorted_, wanted, side="right")
    check(
        xp.searchsorted(ours(sorted_[::-1].copy()), ours(wanted), sorter=ours([3, 2, 1, 0])),
        np.searchsorted(sorted_, wanted),
    )
    for kind in REAL:
        z = example((3, 4), kind, 6, 0, 3)
        z = z.round() if kind in FLOATS else z
        for name in ("unique_all", "unique_counts", "unique_inverse"):
            call(name, z)
        check(xp.unique_values(ours(z)), np.unique(z))
    values = xp.unique_values(ours([np.nan, 1.0, np.nan]))
    assert values.shape == (3,)


def test_creation():
    for arguments in [(3,), (1, 7, 2), (5, 1, -2), (5, 1), (0,), (1.5, 4.0, 0.5)]:
        found, expected = xp.arange(*arguments), np.arange(*arguments)
        check(found, expected, kinds=False)
        assert found.dtype is (weft.float32 if expected.dtype.kind == "f" else weft.int64)
    for options in [{}, {"endpoint": False}, {"num": 1}, {"num": 0}]:
        number = options.pop("num", 5)
        check(xp.linspace(-1, 3, number, dtype=xp.float64, **options), np.linspace(-1, 3, number, **options))
    check(xp.linspace(0, 1j, 3, dtype=xp.complex128), np.linspace(0, 1j, 3))
    assert xp.linspace(0, 9, 4, dtype=xp.int64).tolist() == [0, 3, 6, 9]
    for arguments, k in [((3,), 0), ((2, 4), 1), ((4, 2), -1), ((0,), 0)]:
        check(xp.eye(*arguments, k=k, dtype=xp.float64), np.eye(*arguments, k=k))
    check(xp.full((2,), 3), np.full((2,), 3))
    check(xp.full(2, 3.0, dtype=xp.float64), np.full(2, 3.0))
    assert xp.full((), True).dtype is xp.bool and xp.full((), 1j).dtype is xp.complex64
    for name in ("zeros", "ones", "empty"):
        assert getattr(xp, name)((2, 3)).dtype is weft.float32 and getattr(xp, name)(2).shape == (2,)
        assert getattr(xp, f"{name}_like")(xp.ones((2, 3)), dtype=xp.int8).dtype is xp.int8
    assert xp.full_like(xp.ones(2, dtype=xp.int16), 4).tolist() == [4, 4]
    call("meshgrid", np.arange(2), np.arange(3))
    call("meshgrid", np.arange(2), np.arange(3), indexing="ij")
    for k in (-1, 0, 2):
        call("tril", example((3, 4), "int32"), k=k)
        call("triu", example((2, 3, 4), "float32"), k=k)
    check(xp.from_dlpack(np.arange(3)), np.arange(3))
    shared = np.zeros(2)
    xp.from_dlpack(shared)[0] = 5
    assert shared[0] == 5 and np.from_dlpack(xp.ones(2)).tolist() == [1, 1]


@hypothesis.settings(max_examples=30)
@hypothesis.given(
    arrays.arrays(
        np.float32, arrays.array_shapes(max_dims=3, max_side=4), elements=st.floats(-5, 5, width=32)
    ),
    st.data(),
)
def test_clip(x, data):
    low = data.draw(st.none() | st.floats(-3, 0, width=32))
    high = data.draw(st.none() | st.floats(0, 3, width=32))
    expected = x.copy() if low is None and high is None else np.clip(x, low, high)
    check(xp.clip(ours(x), low, high), expected)
    check(xp.clip(ours(x), ours(x) * 0, None), np.maximum(x, 0))


def spd(shape, kind):
    x = example(shape, kind, 8)
    return x @ np.conj(np.swapaxes(x, -1, -2)) + 3 * np.eye(shape[-1], dtype=kind)


@pytest.mark.parametrize("kind", FLOATS)
def test_linear_algebra(kind):
    a, b = spd((2, 3, 3), kind), example((2, 3, 2), kind, 9)
    loose = 2e-4 if kind == "float32" else 1e-9
    lin = xp.linalg
    mine = ours(a)
    for name in ("cholesky", "det", "inv", "eigvalsh", "svdvals", "matrix_rank", "pinv", "diagonal", "trace"):
        check(getattr(lin, name)(mine), getattr(np.linalg, name)(a), loose)
    check(lin.cholesky(mine, upper=True), np.linalg.cholesky(a, upper=True), loose)
    check(lin.solve(mine, ours(b)), np.linalg.solve(a, b), loose)
    check(lin.solve(mine, ours(b[0, :, 0])), np.linalg.solve(a, b[0, :, 0]), loose)
    check(lin.slogdet(mine), np.linalg.slogdet(a), loose)
    check(lin.matrix_power(mine, 3), np.linalg.matrix_power(a, 3), loose * 100)
    for order in ("fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf):
        check(lin.matrix_norm(ours(b), ord=order), np.linalg.matrix_norm(b, ord=order), loose)
    for order in (0, 1, 2, 3.5, np.inf, -np.inf):
        check(lin.vector_norm(ours(b), ord=order), np.linalg.vector_norm(b, ord=order), loose)
        check(
            lin.vector_norm(ours(b), axis=1, keepdims=True, ord=order),
            np.linalg.vector_norm(b, axis=1, keepdims=True, ord=order),
            loose,
        )
    values, vectors = lin.eigh(mine)
    check(vectors * values[:, None, :] @ xp.matrix_transpose(vectors), a, loose * 10)
    q, r = lin.qr(ours(b))
    check(q @ r, b, loose)
    u, s, vh = lin.svd(ours(b), full_matrices=False)
    check(u * s[:, None, :] @ vh, b, loose)
    check(lin.diagonal(mine, offset=1), np.linalg.diagonal(a, offset=1))
    x, y = example(3, kind), example(3, kind, 1)
    check(lin.outer(ours(x), ours(y)), np.outer(x, y))
    check(lin.cross(ours(x), ours(y)), np.cross(x, y), loose)
    call("vecdot", b, example((2, 3, 2), kind, 4))
    call("vecdot", b, example((2, 3, 2), kind, 4), axis=1)
    call("matmul", a, b)
    call("tensordot", a[0], a[0])
    call("tensordot", a, b, axes=((2, 0), (1, 0)))


def test_fourier_transforms():
    fft = xp.fft
    real, whole = example((3, 8), "float64"), example((3, 8), "complex128", 1)
    for name in ("fft", "ifft", "fftn", "ifftn", "hfft", "irfft", "irfftn"):
        check(getattr(fft, name)(ours(whole)), getattr(np.fft, name)(whole))
    for name in ("rfft", "rfftn", "ihfft"):
        check(getattr(fft, name)(ours(real)), getattr(np.fft, name)(real))
    check(fft.fft(ours(whole), n=5, axis=0, norm="ortho"), np.fft.fft(whole, n=5, axis=0, norm="ortho"))
    check(fft.rfftn(ours(real), s=(2, 6), axes=(0, 1)), np.fft.rfftn(real, s=(2, 6), axes=(0, 1)))
    for number in (4, 5):
        check(fft.fftfreq(number, d=0.5, dtype=xp.float64), np.fft.fftfreq(number, 0.5))
        check(fft.rfftfreq(number, dtype=xp.float64), np.fft.rfftfreq(number))
    check(fft.fftshift(ours(real)), np.fft.fftshift(real))
    check(fft.ifftshift(ours(real), axes=1), np.fft.ifftshift(real, axes=1))


def test_complex_products():
    a, b = example(3, "complex128"), example(3, "complex128", 1)
    call("vecdot", a, b)
    call("tensordot", a, b, axes=0)


def test_dtypes():
    info = xp.__array_namespace_info__()
    assert (
        info.default_dtypes()["integral"] is xp.int64 and info.default_dtypes()["real floating"] is xp.float32
    )
    assert set(info.dtypes(kind="real floating")) == {"float32", "float64"}
    assert set(info.dtypes(kind=("bool", "complex floating"))) == {"bool", "complex64", "complex128"}
    assert info.capabilities()["boolean indexing"] and info.default_device() in info.devices()
    assert xp.isdtype(xp.uint8, "unsigned integer") and xp.isdtype(xp.int8, ("bool", "integral"))
    assert not xp.isdtype(xp.bool, "numeric") and xp.isdtype(xp.int8, xp.int8)
    with pytest.raises(ValueError, match="unknown kind"):
        xp.isdtype(xp.int8, "whole")
    for one in ALL:
        for two in ALL:
            if (one in FLOATS + COMPLEX) == (two in FLOATS + COMPLEX) and "bool" not in (one, two):
                expected = getattr(weft, str(np.promote_types(one, two)))
                assert xp.result_type(getattr(xp, one), getattr(xp, two)) is expected
                assert xp.can_cast(getattr(xp, one), getattr(xp, two)) == np.can_cast(one, two)
    assert xp.result_type(xp.int8, 3) is xp.int8 and xp.result_type(xp.float64, 1j) is xp.complex128
    assert xp.astype(xp.ones(2), xp.int8).dtype is xp.int8
    same = xp.ones(2)
    assert xp.astype(same, xp.float32, copy=False) is same and xp.astype(same, xp.float32) is not same
    with pytest.raises(TypeError, match="complex"):
        xp.astype(xp.ones(1, dtype=xp.complex64), xp.float32)
    with pytest.raises(TypeError, match="at least one operand must be an array"):
        xp.add(1, 2)
    assert xp.finfo(xp.float32).bits == 32 and xp.iinfo(xp.int8).max == 127


def test_namespace_of_a_tensor():
    assert weft.ones(1).__array_namespace__() is xp is weft.array_api
    assert weft.ones(1).__array_namespace__(api_version="2024.12") is xp
    with pytest.raises(ValueError, match="1999"):
        weft.ones(1).__array_namespace__(api_version="1999")
    assert xp.__array_api_version__ == "2024.12" and xp.pi == np.pi and xp.newaxis is None


def test_every_name_of_the_standard_is_there():
    extra = {"float16", "bfloat16"}
    known = [name for name in np.__array_namespace_info__().dtypes() if name not in extra]
    missing = {name for name in known if not hasattr(xp, name)}
    assert missing <= {"uint16", "uint32", "uint64"}
    standard = (
        "arange asarray empty empty_like eye from_dlpack full full_like linspace meshgrid ones "
        "ones_like tril triu zeros zeros_like astype broadcast_arrays broadcast_to can_cast finfo "
        "iinfo isdtype result_type take take_along_axis matmul matrix_transpose tensordot vecdot "
        "concat expand_dims flip moveaxis permute_dims repeat reshape roll squeeze stack tile "
        "unstack argmax argmin count_nonzero nonzero searchsorted where unique_all unique_counts "
        "unique_inverse unique_values argsort sort cumulative_prod cumulative_sum max mean min prod "
        "std sum var all any diff clip pow e inf nan newaxis pi linalg "
    )
    assert [name for name in [*standard.split(), *UNARY, *BINARY] if not hasattr(xp, name)] == []


def test_gradients_flow_and_functions_compile():
    def function(x):
        return xp.sum(xp.multiply(xp.exp(x), 2) + xp.linalg.vector_norm(x, axis=-1, keepdims=True))

    x = weft.arange(6.0).reshape(2, 3).requires_grad_()
    expected = weft.autograd.grad(function(x), x)[0]
    found = weft.autograd.grad(weft.compile(function, fullgraph=True)(x), x)[0]
    weft.testing.assert_close(found, expected)
