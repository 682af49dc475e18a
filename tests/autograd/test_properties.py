"""What a Tensor shows of autograd: flags, gradients, detaching."""

from __future__ import annotations

import warnings

import pytest

import weft

NOT_LEAF = "you can only change requires_grad flags of leaf variables."
ADVICE = (
    " If you want to use a computed variable in a subgraph that doesn't require differentiation use "
    "var_no_grad = var.detach()."
)


def leaf() -> weft.Tensor:
    return weft.tensor([1.0, 2.0, 3.0], requires_grad=True)


def assign(tensor, name, value):
    setattr(tensor, name, value)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: assign(leaf() * 2, "requires_grad", False), RuntimeError, NOT_LEAF + ADVICE),
        (lambda: assign(leaf() * 2, "requires_grad", True), RuntimeError, NOT_LEAF),
        (lambda: (leaf() * 2).requires_grad_(False), RuntimeError, NOT_LEAF + ADVICE),
        (
            lambda: assign(weft.ones(3, dtype=weft.int64), "requires_grad", True),
            RuntimeError,
            "only Tensors of floating point and complex dtype can require gradients",
        ),
        (
            lambda: weft.ones(3, dtype=weft.int64).requires_grad_(),
            RuntimeError,
            "only Tensors of floating point dtype can require gradients",
        ),
        (lambda: assign(leaf(), "requires_grad", 1), RuntimeError, "requires_grad must be a bool"),
        (
            lambda: leaf().requires_grad_(1.0),
            TypeError,
            "requires_grad_(): argument 'requires_grad' (position 1) must be bool, not float",
        ),
        (
            lambda: assign(leaf(), "grad", 3),
            TypeError,
            "assigned grad expected to be a Tensor or None but got grad of type int",
        ),
        (
            lambda: assign(leaf(), "grad", weft.ones(4)),
            RuntimeError,
            "attempting to assign a gradient of size '[4]' to a tensor of size '[3]'. Please ensure that the "
            "gradient and "
            "the tensor are the same size",
        ),
        (lambda: assign(x := leaf(), "grad", x), RuntimeError, "can't assign Variable as its own grad"),
        (
            lambda: weft.ones(2).retain_grad(),
            RuntimeError,
            "can't retain_grad on Tensor that has requires_grad=False",
        ),
        (
            lambda: weft.ones(2).register_hook(print),
            RuntimeError,
            "cannot register a hook on a tensor that doesn't require gradient",
        ),
        (
            lambda: weft.ones(2).register_post_accumulate_grad_hook(print),
            RuntimeError,
            "cannot register a hook on a tensor that doesn't require gradient",
        ),
        (
            lambda: (leaf() * 2).register_post_accumulate_grad_hook(print),
            RuntimeError,
            "post accumulate grad hooks cannot be registered on non-leaf tensors",
        ),
        (lambda: assign(leaf(), "data", 3), TypeError, "Variable data has to be a tensor, but got int"),
        (
            lambda: assign(leaf(), "data", weft.ones(3, dtype=weft.int64)),
            RuntimeError,
            "data set to a tensor that requires gradients must be floating point or complex dtype",
        ),
    ],
)
def test_refusals(call, error, text):
    with pytest.raises(error) as caught:
        call()
    assert str(caught.value) == text


def test_gradient_of_another_dtype_is_refused():
    with pytest.raises(RuntimeError, match="attempting to assign a gradient with dtype"):
        leaf().grad = weft.ones(3, dtype=weft.float64)


def test_facts_of_a_leaf_and_of_a_result():
    x = leaf()
    y = x * 2
    assert (x.is_leaf, x.grad_fn, x.output_nr, x.requires_grad) == (True, None, 0, True)
    assert (y.is_leaf, y.output_nr, y.requires_grad) == (False, 0, True)
    assert y.grad_fn.name() == "MulBackward0"
    assert (x * 1).split(1)[2].output_nr == 2
    assert weft.ones(2).is_leaf
    for name in ("grad_fn", "is_leaf"):
        with pytest.raises(AttributeError):
            setattr(x, name, None)


def test_complex_tensors_may_be_asked_to_require_grad():
    assert weft.ones(2, dtype=weft.complex64).requires_grad_().requires_grad


def test_setting_true_on_a_result_is_allowed_by_the_method():
    y = leaf() * 2
    assert y.requires_grad_() is y


def test_grad_can_be_set_and_deleted():
    x, g = leaf(), weft.ones(3)
    x.grad = g
    assert x.grad is g
    (x * 2).sum().backward()
    assert g.array.tolist() == [3, 3, 3]
    del x.grad
    assert x.grad is None
    plain = weft.ones(3)
    plain.grad = g
    assert plain.grad is g


def test_reading_grad_of_a_result_warns():
    y = leaf() * 2
    with pytest.warns(UserWarning, match="The .grad attribute of a Tensor that is not a leaf") as caught:
        assert y.grad is None
    assert caught[0].filename == __file__
    y.retain_grad()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert y.grad is None


def test_retain_grad_on_a_leaf_does_nothing():
    x = leaf()
    x.retain_grad()
    assert not x.retains_grad


def test_detach_shares_memory_and_version():
    x = leaf()
    y = x * 2
    d = y.detach()
    assert (d.requires_grad, d.is_leaf, d._is_view(), d._base) == (False, True, False, None)
    d.mul_(2)
    assert y.array.tolist() == [4, 8, 12]
    assert y._version == 1


def test_detach_in_place():
    x = leaf()
    y = x * 2
    v = y[:2]
    assert y.detach_() is y
    assert (y.requires_grad, y.is_leaf) == (False, True)
    assert v.requires_grad
    with pytest.raises(RuntimeError, match=r"Can't detach views in-place. Use detach\(\) instead"):
        v.detach_()


def test_data_has_a_version_of_its_own():
    x = leaf()
    y = x.exp()
    y.data.mul_(2)
    assert y._version == 0
    y.sum().backward()
    assert x.grad.array.tolist() == pytest.approx(y.array.tolist())


def test_data_can_be_replaced():
    x = leaf()
    x.data = weft.zeros(5)
    assert (x.requires_grad, x.is_leaf, x.array.tolist()) == (True, True, [0] * 5)
    y = leaf() * 2
    y.data = weft.zeros(3)
    assert y.grad_fn is not None


def test_bases_and_views():
    x = weft.ones(4)
    v = x[1:]
    w = v[1:]
    assert (x._is_view(), v._is_view(), w._is_view()) == (False, True, True)
    assert v._base is x
    assert w._base is x
    assert x._base is None


def test_backward_hooks_are_listed():
    x = leaf()
    assert x._backward_hooks is None
    x.register_hook(print)
    assert list(x._backward_hooks.values()) == [print]
    y = x * 2
    assert y._backward_hooks is None
    y.register_hook(len)
    assert list(y._backward_hooks.values()) == [len]


def test_requires_grad_can_be_asked_of_views_that_may_not_be_used() -> None:
    x = weft.ones(2, 3)
    with weft.no_grad():
        row = x[0]
    x.mul_(weft.ones(3, requires_grad=True))
    assert row.requires_grad
    with pytest.raises(RuntimeError, match="created in no_grad mode"):
        row.grad_fn


def test_what_may_be_deleted():
    x = weft.ones(2, requires_grad=True)
    x.grad = weft.ones(2)
    del x.grad
    assert x.grad is None
    with pytest.raises(RuntimeError, match="Deleting tensor data is not allowed"):
        del x.data
    with pytest.raises(RuntimeError, match="requires_grad must be a bool"):
        del x.requires_grad
    with pytest.raises(AttributeError):
        del x.is_leaf
