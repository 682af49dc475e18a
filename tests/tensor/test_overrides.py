"""Subclasses of Tensor, objects with `__torch_function__`, and switching both off."""

from __future__ import annotations

import pytest

import weft
from tests.subclasses import Derived, Disabled, Duck, Logged, Other, Plain, Recorder, Shy, ShyTensor, seen
from weft import Parameter, Tensor
from weft.overrides import (
    DisableTorchFunction,
    DisableTorchFunctionSubclass,
)


@pytest.fixture
def x():
    return weft.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])


@pytest.fixture
def logged(x):
    made = x.as_subclass(Logged)
    Logged.log.clear()
    return made


# -- subclasses keep their type ------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "call",
    [
        lambda s: s.add(1),
        lambda s: weft.add(s, 1),
        lambda s: weft.add(weft.tensor(1.0), s),
        lambda s: s.add_(1),
        lambda s: s.neg(),
        lambda s: s.sum(),
        lambda s: s.data,
        lambda s: s.detach(),
        lambda s: s.clone(),
        lambda s: s.view(3, 2),
        lambda s: s.requires_grad_(),
        lambda s: weft.zeros_like(s),
        lambda s: weft.tensor([[1.0], [2.0]]).mul_(2).add(s),
    ],
)
def test_results_have_the_subclass(x, call):
    assert type(call(x.as_subclass(Plain))) is Plain
    assert type(call(x.as_subclass(Derived))) is Derived


@pytest.mark.parametrize("name", ["T", "mT", "real"])
def test_view_properties_have_the_subclass(x, name):
    assert type(getattr(x.as_subclass(Plain), name)) is Plain


def test_operators_indexing_and_iteration_have_the_subclass(x):
    s = x.as_subclass(Plain)
    for result in (s + 1, 1 + s, s - s, 2 / s, -s, s @ s.T, s == s, s[0], s[:, None], s[s > 2], *s):
        assert type(result) is Plain
    s += 1
    assert type(s) is Plain
    s[0] = 0
    assert s.sum().item() == 18


def test_tuples_of_results_have_the_subclass(x):
    pair = x.as_subclass(Plain).max(1)
    assert [type(item) for item in pair] == [Plain, Plain]
    assert type(pair.values) is Plain
    assert [type(part) for part in x.as_subclass(Plain).unbind()] == [Plain, Plain]
    assert x.as_subclass(Plain).shape == (2, 3)
    assert type(x.as_subclass(Plain).shape) is weft.Size


def test_inplace_gives_the_very_object(x):
    s = x.as_subclass(Plain)
    assert s.add_(1) is s
    assert s.requires_grad_() is s


def test_writing_a_subclass_into_a_plain_tensor(x):
    other = x.clone()
    result = other.add_(x.as_subclass(Plain))
    assert type(result) is Plain
    assert type(other) is Tensor
    assert result.data_ptr() == other.data_ptr()


def test_unrelated_subclasses_do_not_mix(x):
    with pytest.raises(TypeError, match="Multiple dispatch failed for 'weft.add'"):
        weft.add(x.as_subclass(Plain), x.as_subclass(Other))


def test_the_more_derived_class_wins(x):
    assert type(weft.add(x.as_subclass(Plain), x.as_subclass(Derived))) is Derived
    assert type(weft.add(x.as_subclass(Derived), x.as_subclass(Plain))) is Derived


def test_disabled_class_gives_plain_tensors(x):
    d = x.as_subclass(Disabled)
    assert type(d) is Disabled
    assert type(d.add(1)) is Tensor
    assert type(d.data) is Tensor
    assert d.size() == (2, 3)


def test_parameters_give_plain_tensors(x):
    class Special(Parameter):
        pass

    for kind in (Parameter, Special):
        assert type(x.as_subclass(kind).add(1)) is Tensor


# -- gradients -----------------------------------------------------------------------------------------------
def test_gradients_flow_through_subclasses(x):
    leaf = x.clone().requires_grad_()
    s = leaf.as_subclass(Plain)
    assert not s.is_leaf
    assert type(s.grad_fn).__name__ == "AliasBackward0"
    assert s._base is leaf
    out = s.mul(s).sum()
    assert type(out) is Plain
    out.backward()
    assert leaf.grad.tolist() == [[2, 4, 6], [8, 10, 12]]


def test_subclass_leaf_gathers_a_gradient(x):
    s = x.as_subclass(Plain).requires_grad_()
    s.mul(2).sum().backward()
    assert s.grad.tolist() == [[2, 2, 2], [2, 2, 2]]
    assert type(s.grad) is Tensor  # as stored: `grad` is among the functions that do not wrap
    s.grad = None
    assert s.grad is None


def test_inplace_on_a_recorded_subclass(x):
    s = x.as_subclass(Plain).requires_grad_()
    y = s.mul(2)
    y.mul_(3)
    y.sum().backward()
    assert s.grad.tolist() == [[6] * 3] * 2


def test_view_of_a_subclass_follows_its_base(logged):
    base = logged.requires_grad_().mul(1)
    part = base.view(6)
    base.mul_(2)
    Logged.log.clear()
    part.sum().backward()
    assert "weft.view" not in seen()
    assert logged.grad.tolist() == [[2] * 3] * 2


# -- making subclass instances -------------------------------------------------------------------------------
def test_constructor():
    made = Plain([1, 2])
    assert type(made) is Plain
    assert made.dtype is weft.float32
    assert made.tolist() == [1, 2]
    assert Plain(2, 3).shape == (2, 3)
    assert Plain(weft.Size([2, 3])).shape == (2, 3)
    assert Plain().shape == (0,)
    assert type(Tensor([1.5])) is Tensor
    assert Tensor(2, device="meta").is_meta


def test_constructor_shares_a_tensors_memory():
    x = weft.tensor([1, 2])
    made = Plain(x)
    assert made.dtype is weft.int64
    assert made.data_ptr() == x.data_ptr()


@pytest.mark.parametrize(
    "args, text",
    [
        ((1.5,), r"new\(\): data must be a sequence \(got float\)"),
        (("a",), r"new\(\): invalid data type 'str'"),
        (([1, 2], 5), r"new\(\) received an invalid combination of arguments - got \(list, int\)"),
    ],
)
def test_constructor_refuses(args, text):
    with pytest.raises(TypeError, match=text):
        Plain(*args)
    with pytest.raises(RuntimeError, match=r"Trying to create tensor with negative dimension -1: \[-1, 2\]"):
        Plain(-1, 2)


def test_constructor_with_further_arguments(x):
    class Named(Tensor):
        @staticmethod
        def __new__(cls, data, name, **kwargs):
            return data.as_subclass(cls)

        def __init__(self, data, name, scale=1.0):
            self.name, self.scale = name, scale

    made = Named(x, "depth", scale=2.0)
    assert (type(made), made.name, made.scale) == (Named, "depth", 2.0)
    assert type(made.add(1)) is Named
    assert not hasattr(made.add(1), "name")

    class Made(Tensor):
        @staticmethod
        def __new__(cls, data, tag):
            made = Tensor._make_subclass(cls, data, True)
            made.tag = tag
            return made

    made = Made(x, "t")
    assert (made.tag, made.requires_grad, made.is_leaf) == ("t", True, True)


def test_make_subclass_is_a_leaf_on_the_same_memory(x):
    leaf = x.requires_grad_()
    made = Tensor._make_subclass(Plain, leaf)
    assert (type(made), made.requires_grad, made.is_leaf, made._is_view()) == (Plain, False, True, False)
    assert made.data_ptr() == leaf.data_ptr()
    assert Tensor._make_subclass(Plain, leaf, True).requires_grad
    with pytest.raises(TypeError, match=r"argument 'data' \(position 2\) must be Tensor, not int"):
        Tensor._make_subclass(Plain, 3)


@pytest.mark.parametrize(
    "cls, text", [(int, "does not inherit from Tensor"), (3, r"cls must be a type \(got int\)")]
)
def test_as_subclass_refuses(x, cls, text):
    with pytest.raises(TypeError, match=text):
        x.as_subclass(cls)
    with pytest.raises(TypeError, match=text):
        Tensor._make_subclass(cls, x)


def test_as_subclass_is_not_overridden(logged):
    assert type(logged.as_subclass(Plain)) is Plain
    assert type(logged.as_subclass(Tensor)) is Tensor
    assert Logged.log == []


def test_own_methods_win_over_tensors(x):
    class Mixin:
        def size(self, dim=None):
            return "mixin"

    class Mixed(Mixin, Tensor):
        @property
        def shape(self):
            return "own"

        def numel(self):
            return super().numel() + 1

    made = x.as_subclass(Mixed)
    assert (made.size(), made.shape, made.numel()) == ("mixin", "own", 7)

    class Deeper(Mixed):
        pass

    assert x.as_subclass(Deeper).size() == "mixin"


def test_init_subclass_keywords_reach_the_user():
    class Registered(Tensor):
        def __init_subclass__(cls, tag=None, **kwargs):
            super().__init_subclass__(**kwargs)
            cls.tag = tag

    class Tagged(Registered, tag="t"):
        pass

    assert Tagged.tag == "t"
    assert type(Tagged([1]).add(1)) is Tagged


def test_subclass_with_slots(x):
    class Slotted(Tensor):
        __slots__ = ("extra",)

    made = x.as_subclass(Slotted)
    made.extra = 1
    assert type(made.add(1)) is Slotted


# -- what an override receives -------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "call, name, count, kwargs",
    [
        (lambda s: s.add(1), "weft.add", 2, {}),
        (lambda s: weft.add(s, 1, alpha=2), "weft.add", 2, {"alpha": 2}),
        (lambda s: s.add_(1), "weft.add_", 2, {}),
        (lambda s: s.sum(), "weft.sum", 1, {}),
        (lambda s: s.sum(dim=1), "weft.sum", 2, {}),
        (lambda s: s.view(3, 2), "weft.view", 3, {}),
        (lambda s: s.view((3, 2)), "weft.view", 3, {}),
        (lambda s: s.shape, "weft.Tensor.shape.__get__", 1, {}),
        (lambda s: s.size(0), "weft.Tensor.size", 2, {}),
        (lambda s: s.requires_grad, "weft.Tensor.requires_grad.__get__", 1, {}),
        (lambda s: s.grad, "weft.Tensor.grad.__get__", 1, {}),
        (lambda s: setattr(s, "grad", None), "weft.Tensor.grad.__set__", 2, {}),
        (lambda s: s.detach(), "weft.Tensor.detach", 1, {}),
        (lambda s: s.requires_grad_(True), "weft.Tensor.requires_grad_", 2, {}),
        (lambda s: s.numpy(), "weft.Tensor.numpy", 1, {}),
    ],
)
def test_override_receives_the_public_function(logged, call, name, count, kwargs):
    call(logged)
    assert len(Logged.log) == 1
    found, types, args, keywords = Logged.log[0]
    assert (found, types, len(args), keywords) == (name, (Logged,), count, kwargs)
    assert args[0] is logged


def test_function_and_method_are_one_object(x):
    received = []

    class Watch(Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            received.append(func)
            return super().__torch_function__(func, types, args, kwargs)

    s = x.as_subclass(Watch)
    s.add(1), s.shape, s.size()
    assert received[0] is weft.add is Tensor.add
    assert received[1] == Tensor.shape.__get__
    assert received[2] is Tensor.size


def test_backward_goes_through_the_override(logged):
    loss = logged.requires_grad_().sum()
    Logged.log.clear()
    loss.backward()
    assert seen() == ["weft.Tensor.backward"]


def test_composite_gives_itself_and_its_ops_run_plain(logged):
    out = weft.nn.functional.mse_loss(logged, weft.zeros(2, 3))
    assert seen() == ["weft.nn.functional.mse_loss"]
    assert type(out) is Logged


def test_implementations_by_table(x):
    table = {}

    def implements(function):
        def register(implementation):
            table[function] = implementation
            return implementation

        return register

    class Scalar:
        def __init__(self, size, value):
            self.size, self.value = size, value

        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            if func not in table or not all(issubclass(t, (Tensor, Scalar)) for t in types):
                return NotImplemented
            return table[func](*args, **(kwargs or {}))

    @implements(weft.mean)
    def mean(input):
        return input.value / input.size

    @implements(weft.add)
    def add(input, other):
        return "sum"

    diagonal = Scalar(5, 2.0)
    assert weft.mean(diagonal) == 0.4
    assert weft.add(x, diagonal) == weft.add(diagonal, x) == x + diagonal == "sum"
    with pytest.raises(TypeError, match="Multiple dispatch failed for 'weft.mul'"):
        weft.mul(diagonal, 2)


# -- objects that are no tensors -----------------------------------------------------------------------------
def test_duck_takes_calls_over(x):
    duck = Duck()
    for call, function, args, kwargs in [
        (lambda: weft.add(duck, 1), weft.add, (duck, 1), {}),
        (lambda: weft.add(x, duck), weft.add, (x, duck), {}),
        (lambda: x.add(duck, alpha=3), weft.add, (x, duck), {"alpha": 3}),
        (lambda: x.add_(duck), Tensor.add_, (x, duck), {}),
        (lambda: weft.nn.functional.softmax(duck, 0), weft.nn.functional.softmax, (duck, 0), {}),
    ]:
        label, found, types, found_args, found_kwargs = call()
        assert (label, types, found_kwargs) == ("duck", (Duck,), kwargs)
        assert found is function
        assert all(a is b or a == b for a, b in zip(found_args, args, strict=True))


def test_duck_in_a_list_and_as_out(x):
    duck = Duck()
    assert weft.cat([x, duck])[0] == "duck"
    assert weft.cat([x, duck], 1)[3][1] == 1
    assert weft.stack((duck, x))[2] == (Duck,)


def test_out_is_seen_by_overrides(x, logged):
    out = weft.empty(2, 3)
    weft.add(logged, 1, out=out)
    assert [(name, list(kwargs)) for name, _, _, kwargs in Logged.log] == [("weft.add", ["out"])]
    assert out.tolist() == x.add(1).tolist()
    Logged.log.clear()
    weft.add(x, 1, out=logged)
    assert seen() == ["weft.add"]


def test_what_is_neither_is_refused(x):
    with pytest.raises(TypeError, match=r"argument 'other' \(position 2\) must be Tensor, not object"):
        weft.add(x, object())


def test_disabled_duck_is_refused(x):
    with DisableTorchFunctionSubclass(), pytest.raises(TypeError, match="must be Tensor, not Duck"):
        weft.add(x, Duck())
    with DisableTorchFunction(), pytest.raises(TypeError, match="must be Tensor, not Duck"):
        weft.cat([x, Duck()])


def test_all_declined(x):
    shy = x.as_subclass(ShyTensor)
    with pytest.raises(TypeError) as caught:
        weft.cat([Shy(), shy])
    assert str(caught.value) == (
        "Multiple dispatch failed for 'weft.cat'; "
        "all __torch_function__ handlers returned NotImplemented:\n\n"
        f"  - tensor subclass {Shy}\n  - tensor subclass {ShyTensor}"
    )
    with pytest.raises(TypeError, match="no implementation found for 'weft.nn.functional.mse_loss' on types"):
        weft.nn.functional.mse_loss(shy, x)
    with pytest.raises(TypeError, match="failed for 'weft.Tensor.shape.__get__'"):
        shy.shape
    with pytest.raises(TypeError, match="failed for 'weft.Tensor.size'"):
        shy.size()


def test_subclasses_are_asked_first(x):
    asked = []

    def watcher(name, base):
        def handler(cls, func, types, args=(), kwargs=None):
            asked.append(name)
            return NotImplemented

        return type(name, (base,), {"__torch_function__": classmethod(handler)})

    first = watcher("First", Tensor)
    second = watcher("Second", first)
    third = watcher("Third", Tensor)
    for order, wanted in [
        ((first, second, third), ["Second", "First", "Third"]),
        ((third, first, second), ["Third", "Second", "First"]),
        ((first, first, third), ["First", "Third"]),
    ]:
        asked.clear()
        with pytest.raises(TypeError):
            weft.cat([x.as_subclass(kind) for kind in order])
        assert asked == wanted


# -- switching off -------------------------------------------------------------------------------------------
def test_disable_subclass(logged):
    with DisableTorchFunctionSubclass():
        assert type(logged.add(1)) is Tensor
        assert logged.shape == (2, 3)
        with DisableTorchFunctionSubclass():
            logged.numel()
        logged.numel()
    assert Logged.log == []
    assert type(logged.add(1)) is Logged


def test_disable_subclass_leaves_modes_on(logged):
    with Recorder() as mode, DisableTorchFunctionSubclass():
        assert type(logged.add(1)) is Tensor
        logged.size()
    assert mode.names == ["weft.add", "weft.Tensor.size"]
    assert Logged.log == []


def test_disable_everything(logged):
    with Recorder() as mode:
        with DisableTorchFunction():
            logged.add(1)
            weft.zeros(2)
            logged.size()
        assert mode.calls == []
        logged.size()
    assert mode.names == ["weft.Tensor.size"]
    assert weft.overrides._get_current_function_mode() is None


def test_disabling_ends_when_an_error_leaves(logged):
    with pytest.raises(ZeroDivisionError), DisableTorchFunction():
        raise ZeroDivisionError
    logged.add(1)
    assert seen() == ["weft.add"]


def test_keys_and_values_of_plain_tensors_take_indexing_over() -> None:
    calls: list[str] = []

    class Seen(weft.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            calls.append(func.__name__)
            return super().__torch_function__(func, types, args, kwargs or {})

    key = weft.tensor([0, 1]).as_subclass(Seen)
    calls.clear()
    x = weft.ones(3)
    assert type(x[key]) is Seen and type(weft.ones(3, 2)[:, key]) is Seen
    x[key] = 2.0
    x[0:2] = weft.ones(2).as_subclass(Seen)
    assert calls == ["__getitem__", "__getitem__", "__setitem__", "__setitem__"] and x.tolist() == [1, 1, 1]
