"""cond, while_loop, scan, map: values and gradients against the Python they stand for, and what they
refuse.
"""

from __future__ import annotations

import warnings

import hypothesis.strategies as st
import pytest
from hypothesis import given

import weft
from weft.autograd import gradcheck, gradgradcheck
from weft.autograd.control_flow import cond, scan, while_loop
from weft.func import grad, jacrev, jvp, vmap

tensor = weft.tensor


def close(a, b):
    return weft.allclose(a, b, rtol=1e-6, atol=1e-8)


def double(*shape, seed=0):
    weft.manual_seed(seed)
    return weft.randn(*shape, dtype=weft.float64, requires_grad=True)


def test_exported():
    assert weft.cond is cond and weft.while_loop is while_loop and weft.scan is scan
    assert weft.map is weft.autograd.control_flow.map


# -- cond ----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("pred", [True, 1, 0.5, tensor(True), tensor([[True]]), tensor(3), tensor(0.5)])
def test_cond_takes_the_branch_that_the_predicate_says(pred):
    x = weft.ones(3)
    assert cond(pred, lambda x: x + 1, lambda x: x - 1, (x,)).tolist() == [2, 2, 2]
    wrong = not pred if isinstance(pred, (bool, int, float)) else pred * 0
    assert cond(wrong, lambda x: x + 1, lambda x: x - 1, [x]).tolist() == [0, 0, 0]


def test_cond_with_trees_and_without_operands():
    x = weft.ones(3)
    result = cond(
        tensor(True),
        lambda d, e: {"s": d["a"] + e[0], "n": 3},
        lambda d, e: {"s": e[0] * 1, "n": 4},
        ({"a": x}, [x]),
    )
    assert result["s"].tolist() == [2, 2, 2] and result["n"] == 3
    assert cond(tensor(False), lambda: weft.ones(2), lambda: weft.zeros(2)).tolist() == [0, 0]


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_cond_gradients(sign):
    x, w = double(3), double(3, seed=1)

    def function(x, w):
        return cond(tensor(sign) > 0, lambda x: (x * w).sin(), lambda x: x.exp() * w * w, (x,))

    assert gradcheck(function, (x, w)) and gradgradcheck(function, (x, w))


def test_cond_gradients_where_the_predicate_depends_on_the_input():
    def function(x):
        return cond(x.sum() > 0, lambda x: x**3, lambda x: x**2, (x,)).sum()

    for x in (weft.tensor([1.0, 2.0]), weft.tensor([-1.0, -2.0])):
        expected = 3 * x**2 if x.sum() > 0 else 2 * x
        assert close(grad(function)(x), expected)
        x.requires_grad_()
        function(x).backward()
        assert close(x.grad, expected.detach())


def test_outputs_require_grad_whichever_branch_ran():
    for taken in (True, False):
        x, y = weft.ones(3, requires_grad=True), weft.ones(3, requires_grad=True)
        out, count = cond(
            tensor(taken),
            lambda x, y: (weft.ones(3), weft.zeros(2, dtype=weft.int64)),
            lambda x, y: (x * 2, weft.ones(2, dtype=weft.int64)),
            (x, y),
        )
        assert out.requires_grad and not count.requires_grad
        assert type(out.grad_fn).__name__ == "CondAutogradOpBackward"
        out.sum().backward()
        assert x.grad.tolist() == ([0, 0, 0] if taken else [2, 2, 2])
        assert y.grad.tolist() == [0, 0, 0]
    with weft.no_grad():
        assert not cond(tensor(True), lambda x: x * 2, lambda x: x * 3, (x,)).requires_grad


def test_unused_operands_get_zeros_under_create_graph_too():
    x, y = double(2), double(2)
    out = cond(tensor(True), lambda x, y: x**3, lambda x, y: y * 1, (x, y))
    gradients = weft.autograd.grad(out.sum(), (x, y), create_graph=True)
    assert gradients[1].tolist() == [0, 0]
    assert close(weft.autograd.grad(gradients[0].sum(), x)[0], 6 * x.detach())


def test_cond_refuses():
    x = weft.ones(3)
    same = lambda x: x * 2
    for args, text in [
        (
            (tensor([True, False]), same, same, (x,)),
            "Expected pred to be bool or single-element tensor, but got",
        ),
        (("yes", same, same, (x,)), "Expected pred to be bool or tensor, but got yes."),
        ((tensor(True), 3, same, (x,)), "Expect both branches to be callable."),
        (
            (tensor(True), same, same, x),
            "Expect operands to be a tuple of possibly nested dict/list/tuple that only",
        ),
        ((tensor(True), same, same, (3,)), "consists of tensor leaves, but got"),
        ((tensor(True), same, lambda x: x.sum(), (x,)), "expected same dim but got 1 and 0"),
        ((tensor(False), same, lambda x: x.sum(), (x,)), "expected same dim but got 1 and 0"),
        (
            (tensor(True), same, lambda x: x.double(), (x,)),
            "expected same dtype but got weft.float32 and weft.float64",
        ),
        ((tensor(True), same, lambda x: (x * 1, x * 2), (x,)), r"true branch returns 1 item\(s\)"),
        ((tensor(True), same, lambda x: 3, (x,)), "expected same type"),
        ((tensor(True), lambda x: "a", lambda x: "b", (x,)), "tensors or ints/bools only"),
        ((tensor(True), lambda x: x, same, (x,)), "Encountered aliasing"),
        ((tensor(True), lambda x: x.view(3, 1), same, (x,)), "Encountered aliasing"),
        ((tensor(True), lambda x: x.add_(1) * 1, same, (weft.ones(3),)), "Encountered input mutation"),
    ]:
        with pytest.raises(RuntimeError, match=text):
            cond(*args)


def test_without_gradients_branches_may_write_to_operands():
    x = weft.ones(3)
    with weft.no_grad():
        out = cond(tensor(True), lambda x: x.mul_(2), lambda x: x + 1, (x,))
    assert out.tolist() == x.tolist() == [2, 2, 2]
    assert out is not x and out.data_ptr() != x.data_ptr()


def test_branch_not_taken_does_nothing():
    buffer = weft.zeros(3)

    def other(x):
        buffer.add_(x)
        return x * weft.rand(3)

    weft.manual_seed(3)
    expected = weft.rand(2)
    weft.manual_seed(3)
    cond(tensor(True), lambda x: x * 2, other, (weft.ones(3),))
    assert buffer.tolist() == [0, 0, 0] and weft.equal(weft.rand(2), expected)


def test_branch_that_depends_on_elements_is_not_compared():
    branch = lambda x: x * 2 if x.sum() > 0 else x.sum()
    assert cond(tensor(True), lambda x: x * 3, branch, (weft.ones(2),)).tolist() == [3, 3]


def test_branches_are_compared_once_for_given_types():
    runs = []

    def other(x):
        runs.append(x.is_meta)
        return x * 1

    for _ in range(3):
        cond(tensor(True), lambda x: x * 3, other, (weft.ones(2),))
    assert runs == [True]
    cond(tensor(True), lambda x: x * 3, other, (weft.ones(2, 2),))
    assert runs == [True, True]


def test_branches_are_not_compared_where_types_do_not_tell():
    x = weft.ones(2, 2)
    with weft.autocast("cpu", dtype=weft.bfloat16):
        out = cond(tensor(True), lambda x: x @ x, lambda x: (x @ x) * 2, (x,))
    assert out.dtype is weft.bfloat16

    class Mine(weft.Tensor):
        pass

    out = cond(
        tensor(True), lambda x: x * 2, lambda x: x.as_subclass(weft.Tensor).sum(), (x.as_subclass(Mine),)
    )
    assert type(out) is Mine


def test_side_effects_of_the_other_branch_are_refused():
    kept = []
    with pytest.raises(RuntimeError, match="may not have side effects"):
        cond(tensor(True), lambda x: x * 2, lambda x: kept.append(x) or x * 3, (weft.ones(2),))


def test_nested_cond_and_meta():
    def sign(x):
        return cond(
            x.sum() > 0,
            lambda x: x * 2,
            lambda x: cond(x.sum() < -5, lambda x: x * 3, lambda x: x * 4, (x,)),
            (x,),
        )

    assert [sign(tensor([v])).item() for v in (1.0, -6.0, -1.0)] == [2, -18, -4]
    out = sign(weft.ones(3, device="meta"))
    assert out.is_meta and out.shape == (3,)
    with pytest.raises(RuntimeError, match="same dim"):
        cond(weft.ones(1, device="meta") > 0, lambda: weft.ones(1), lambda: weft.ones(1, 1))


def test_cond_under_transforms():
    def function(x):
        return cond(x.sum() > 0, lambda x: x * 2, lambda x: x**3, (x,))

    xs = tensor([[1.0, 2.0], [-3.0, 1.0]])
    assert close(vmap(function)(xs), weft.stack([function(x) for x in xs]))
    assert close(vmap(grad(lambda x: function(x).sum()))(xs), tensor([[2.0, 2.0], [27.0, 3.0]]))
    assert close(grad(lambda x: vmap(function)(x).sum())(xs), tensor([[2.0, 2.0], [27.0, 3.0]]))
    value, tangent = jvp(function, (xs[1],), (weft.ones(2),))
    assert close(value, tensor([-27.0, 1.0])) and close(tangent, tensor([27.0, 3.0]))
    assert close(jacrev(function)(xs[1]), weft.diag(tensor([27.0, 3.0])))
    nested = vmap(vmap(lambda x: cond(x > 0, lambda x: x * 2, lambda x: x * 3, (x,))))
    assert close(nested(xs), weft.where(xs > 0, xs * 2, xs * 3))
    shared = vmap(lambda x, p: cond(p, lambda x: x * 2, lambda x: x * 3, (x,)), in_dims=(0, None))
    assert close(shared(xs, tensor(False)), xs * 3)
    with pytest.raises(RuntimeError, match="examples disagree"):
        vmap(lambda x: cond(x.sum() > 0, lambda x: (x * 2, 1), lambda x: (x * 2, 2), (x,))[0])(xs)


# -- while_loop ----------------------------------------------------------------------------------------------
def test_while_loop_is_the_loop():
    i, x = while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x * 2), (tensor(0), weft.ones(2)))
    assert i.item() == 3 and x.tolist() == [8, 8]
    i, x = while_loop(lambda i, x: 2 * i < x.shape[0], lambda i, x: (i + 1, x + i), (0, weft.ones(4)))
    assert i == 2 and x.tolist() == [2, 2, 2, 2]
    d = while_loop(
        lambda i, d: i < 2, lambda i, d: (i + 1, {"a": d["a"] * 3}), (tensor(0), {"a": weft.ones(1)})
    )[1]
    assert d["a"].item() == 9
    assert while_loop(lambda x: x.sum() < 10, lambda x: x * 2, (weft.ones(2),)).tolist() == [8, 8]


def test_while_loop_without_iterations_copies():
    x = weft.ones(2, requires_grad=True)
    out = while_loop(lambda x: False, lambda x: (x * 2,), (x,))
    assert isinstance(out, tuple) and out[0] is not x and out[0].data_ptr() != x.data_ptr()
    out[0].sum().backward()
    assert x.grad.tolist() == [1, 1]


@given(st.integers(0, 5), st.floats(-1.5, 1.5), st.booleans())
def test_while_loop_gradients(count, scale, closed):
    w = double(3, seed=1)

    def body(i, x):
        return i + 1, (x * w if closed else x * scale).tanh()

    def function(x, w):
        return while_loop(lambda i, x: i < count, body, (tensor(0), x))[1]

    def python(x, w):
        for _ in range(count):
            x = body(0, x)[1]
        return x * 1

    x = double(3)
    assert weft.equal(function(x, w), python(x, w))
    ours = weft.autograd.grad(function(x, w).sum(), (x, w), allow_unused=True)
    theirs = weft.autograd.grad(python(x, w).sum(), (x, w), allow_unused=True)
    assert all((a is None) == (b is None) and (a is None or close(a, b)) for a, b in zip(ours, theirs))


def test_while_loop_gradcheck():
    def function(x):
        return while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, (x * x).sin()), (tensor(0), x))[1]

    assert gradcheck(function, (double(3),)) and gradgradcheck(function, (double(3),))


def test_while_loop_refuses():
    x, i = weft.ones(3), tensor(0)
    goes = lambda i, x: i < 3
    step = lambda i, x: (i + 1, x * 2)
    for args, text in [
        ((3, step, (i, x)), "Expect cond_fn and body_fn to be callable."),
        ((goes, step, x), "carried_inputs must be a tuple or list but got"),
        (
            (lambda i, x: (i < 3).reshape(1), step, (i, x)),
            "cond_fn must return a boolean scalar tensor or a boolean",
        ),
        (
            (lambda i, x: i + 0, step, (i, x)),
            "cond_fn must return a boolean scalar tensor or a boolean but got 0",
        ),
        (
            (goes, lambda i, x: (i + 1,), (i, x)),
            "body_fn_output and carried_inputs to have same number of outputs",
        ),
        (
            (goes, lambda i, x: (i + 1, x.sum()), (i, x)),
            r"pair\[1\] differ in 'shape: weft.Size\(\[\]\) vs weft.Size",
        ),
        ((goes, lambda i, x: (i + 1, x.double()), (i, x)), "'dtype: weft.float64 vs weft.float32'"),
        ((goes, lambda i, x: (i + 1, x), (i, x)), "Encountered aliasing"),
        ((goes, lambda i, x: (i + 1, x.add_(1) * 1), (i, x)), "Encountered input mutation"),
    ]:
        with pytest.raises(RuntimeError, match=text):
            while_loop(*args)
    with pytest.raises(AssertionError, match=r"can only be of .* but got .*str"):
        while_loop(goes, step, (i, "a"))


def test_while_loop_under_transforms():
    def function(x):
        return while_loop(lambda x: x.sum() < 10, lambda x: (x * x + 1,), (x,))[0]

    xs = tensor([[1.0, 2.0], [3.0, 1.0], [9.0, 9.0]])
    rows = weft.stack([function(x) for x in xs])
    assert close(vmap(function)(xs), rows)
    expected = weft.stack([grad(lambda x: function(x).sum())(x) for x in xs])
    assert close(vmap(grad(lambda x: function(x).sum()))(xs), expected)
    assert close(grad(lambda xs: vmap(function)(xs).sum())(xs), expected)
    assert close(jvp(function, (xs[0],), (weft.ones(2),))[1], expected[0])
    with pytest.raises(RuntimeError, match="carries an int"):
        vmap(lambda x: while_loop(lambda i, x: x.sum() < 10, lambda i, x: (i + 1, x * 2), (0, x))[1])(xs)


def test_while_loop_on_meta():
    out = while_loop(lambda x: x.sum() < 3, lambda x: (x + 1,), (weft.ones(3, device="meta"),))
    assert out[0].is_meta and out[0].shape == (3,)


# -- scan ----------------------------------------------------------------------------------------------------
def python_scan(combine, init, xs, dim, reverse):
    rows = list(xs.unbind(dim))
    carry, ys = init, []
    for row in reversed(rows) if reverse else rows:
        carry, y = combine(carry, row)
        ys.append(y)
    if reverse:
        ys.reverse()
    return carry, weft.stack(ys, dim)


@given(st.integers(0, 1), st.booleans(), st.integers(1, 4), st.integers(1, 3))
def test_scan_against_a_loop(dim, reverse, length, width):
    shape = (length, width) if dim == 0 else (width, length)
    xs, init, w = double(*shape), double(width, seed=1), double(width, seed=2)

    def combine(carry, x):
        carry = (carry * w + x).tanh()
        return carry, carry * x

    carry, ys = scan(combine, init, xs, dim=dim - 2 * (length % 2), reverse=reverse)
    expected = python_scan(combine, init, xs, dim, reverse)
    assert weft.equal(carry, expected[0]) and weft.equal(ys, expected[1])
    ours = weft.autograd.grad(carry.sum() + (ys**2).sum(), (init, xs, w))
    theirs = weft.autograd.grad(expected[0].sum() + (expected[1] ** 2).sum(), (init, xs, w))
    assert all(close(a, b) for a, b in zip(ours, theirs))


def test_scan_gradcheck_with_a_closure():
    w = double(3, seed=2)

    def function(init, xs, w):
        return scan(lambda c, x: ((c * w + x).sin(), c * x), init, xs)

    assert gradcheck(function, (double(3), double(4, 3, seed=1), w))
    assert gradgradcheck(function, (double(3), double(2, 3, seed=1), w))


def test_scan_with_trees():
    xs = {"a": weft.arange(6.0).reshape(3, 2), "b": [weft.ones(3)]}
    init = (weft.zeros(2), weft.zeros(()))

    def combine(carry, x):
        total, count = carry
        return (total + x["a"], count + x["b"][0]), {"mean": total * 1, "none": None}

    (total, count), ys = scan(combine, init, xs)
    assert total.tolist() == [6, 9] and count.item() == 3
    assert ys["mean"].tolist() == [[0, 0], [0, 1], [2, 4]] and ys["none"] is None
    assert scan(combine, init, []) == (init, [])


def test_scan_of_small_results_along_a_late_dimension():
    carry, ys = scan(lambda c, x: (c + x.sum(), x.sum()), tensor(0.0), weft.ones(2, 3, 4), dim=2)
    assert carry.item() == 24 and ys.tolist() == [6, 6, 6, 6]


def test_scan_refuses():
    init, xs = weft.zeros(3), weft.arange(12.0).reshape(4, 3)
    step = lambda c, x: (c + x, c * x)
    for args, keywords, text in [
        ((3, init, xs), {}, "Combine_fn must be a callable, but got 3"),
        ((step, [], xs), {}, r"scan\(\) operator requires init leaves."),
        ((step, ["a"], xs), {}, "All init leaves must be a Tensor but got a"),
        ((step, init, ["a"]), {}, "All xs leaves must be a Tensor but got a"),
        ((step, init, weft.zeros(0, 3)), {}, "All xs leaves must at least have 'dim' number of dimensions"),
        ((step, init, [xs, weft.zeros(5, 3)]), {}, "All xs leaves must have the same size along dim 0"),
        ((step, init, xs), {"dim": 1.0}, "Dim must be an int, but got <class 'float'>"),
        ((step, init, xs), {"reverse": 1}, "Reverse must be a bool, but got <class 'int'>"),
        ((lambda c, x: c + x, init, xs), {}, r"Expect combine_fn to return a tuple \(next_carry, y\)"),
        (
            (lambda c, x: ((c + x).sum(), x * 1), init, xs),
            {},
            "Expected init and carry to have same metadata",
        ),
        ((lambda c, x: ((c + x).double(), x * 1), init, xs), {}, "'dtype: weft.float32 vs weft.float64'"),
        ((lambda c, x: ([c + x, x * 1], x * 1), init, xs), {}, "Expected init and carry to have same number"),
        ((lambda c, x: (c + x, 3), init, xs), {}, "Expected all leaves to be of weft.Tensor type, but got 3"),
        ((lambda c, x: (c, x * 1), init, xs), {}, "Encountered aliasing"),
        ((lambda c, x: (c.add_(x) * 1, x * 1), weft.zeros(3), xs), {}, "Encountered input mutation"),
    ]:
        with pytest.raises(RuntimeError, match=text):
            scan(*args, **keywords)
    with pytest.raises(IndexError, match="Dimension out of range"):
        scan(step, init, xs, dim=3)


def test_scan_under_transforms():
    def function(x):
        return scan(lambda c, x: ((c * x).sin(), c + x), x[0] * 1, x)

    xs = double(3, 4).detach()
    carry, ys = vmap(function)(xs)
    rows = [function(x) for x in xs]
    assert close(carry, weft.stack([r[0] for r in rows])) and close(ys, weft.stack([r[1] for r in rows]))
    slopes = vmap(grad(lambda x: function(x)[0]))(xs)
    assert close(slopes, weft.stack([grad(lambda x: function(x)[0])(x) for x in xs]))
    assert close(jvp(lambda x: function(x)[0], (xs[0],), (weft.ones_like(xs[0]),))[1], slopes[0].sum())


# -- map -----------------------------------------------------------------------------------------------------
def test_map_is_the_loop():
    xs, y = double(4, 3), double(3, seed=1)
    out = weft.map(lambda x, y, k: (x * y).sin() * k, xs, y, 2)
    assert weft.equal(out, (xs * y).sin() * 2)
    assert gradcheck(lambda xs, y: weft.map(lambda x, y: (x * y).sin(), xs, y), (xs, y))
    tree = weft.map(lambda d: {"s": d["a"] + d["b"], "n": None}, {"a": xs, "b": xs * 2})
    assert weft.equal(tree["s"], xs * 3) and tree["n"] is None


def test_map_refuses():
    xs = weft.ones(4, 3)
    for args, text in [
        ((lambda x: x * 1, "a"), r"Mapped xs can only consist of tensors. Got xs \['a'\]."),
        ((lambda x: x * 1, weft.zeros(0, 2)), "Leading dimensions of mapped xs cannot be 0."),
        ((lambda x: x[0] * 1, [xs, weft.zeros(3, 3)]), "Leading dimensions of mapped xs must be consistent."),
        ((lambda x: x * 1, tensor(1.0)), "Mapped xs must have a leading dimension"),
        ((3, xs), "callable"),
        ((lambda x: 3, xs), "Expected all leaves to be of weft.Tensor type"),
        ((lambda x: x, xs), "Encountered aliasing"),
    ]:
        with pytest.raises(RuntimeError, match=text):
            weft.map(*args)


def test_map_under_vmap():
    xs = double(2, 3, 4).detach()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert close(vmap(lambda x: weft.map(lambda r: r.sum() * r, x))(xs), xs.sum(-1, keepdim=True) * xs)
