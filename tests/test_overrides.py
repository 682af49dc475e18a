"""Function modes, and the questions that `weft.overrides` answers."""

from __future__ import annotations

import threading

import pytest

import weft
from tests.subclasses import Disabled, Duck, Logged, Plain, Recorder, Shy, seen
from weft import Parameter, Tensor
from weft.overrides import (
    BaseTorchFunctionMode,
    DisableTorchFunctionSubclass,
    TorchFunctionMode,
    _get_current_function_mode,
    _get_current_function_mode_stack,
    _pop_mode_temporarily,
    get_default_nowrap_functions,
    get_ignored_functions,
    get_overridable_functions,
    handle_torch_function,
    has_torch_function,
    is_tensor_like,
    is_tensor_method_or_property,
    resolve_name,
    wrap_torch_function,
)


@pytest.fixture
def x():
    return weft.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])


@pytest.fixture
def logged(x):
    made = x.as_subclass(Logged)
    Logged.log.clear()
    return made


# -- modes ---------------------------------------------------------------------------------------------------
def test_mode_sees_functions_methods_properties_and_creation(x):
    with Recorder() as mode:
        weft.zeros(2)
        weft.tensor([1.0])
        x.add(1)
        x.add_(1)
        x.shape
        x.size()
        x.requires_grad_()
        x.mul(2).sum().backward()
        x.grad
        x.grad = None
        weft.nn.functional.mse_loss(x.detach(), x.detach())
        weft.autograd.grad(x.sum(), x)
        weft.is_grad_enabled()
    assert mode.names == [
        "weft.zeros",
        "weft.tensor",
        "weft.add",
        "weft.add_",
        "weft.Tensor.shape.__get__",
        "weft.Tensor.size",
        "weft.Tensor.requires_grad_",
        "weft.mul",
        "weft.sum",
        "weft.Tensor.backward",
        "weft.Tensor.grad.__get__",
        "weft.Tensor.grad.__set__",
        "weft.Tensor.detach",
        "weft.Tensor.detach",
        "weft.nn.functional.mse_loss",
        "weft.sum",
        "weft.autograd.grad",
    ]


def test_mode_sees_operators_and_indexing(x):
    with Recorder() as mode:
        x + 1
        x[0]
        x[0] = 1
        len(x)
        x.T
        repr(x)
    assert mode.names[1:] == [
        "weft.Tensor.__getitem__",
        "weft.Tensor.__setitem__",
        "weft.Tensor.__len__",
        "weft.Tensor.T.__get__",
        "weft.Tensor.__repr__",
    ]


def test_nothing_is_seen_after_the_mode(x):
    code = Tensor.size.__code__
    with Recorder() as mode:
        assert Tensor.size.__code__ is not code
    x.size(), x.add(1), weft.tensor([1.0])
    assert mode.calls == []
    assert Tensor.size.__code__ is code


def test_identity_of_functions_inside_a_mode(x):
    size, shape, tensor = Tensor.size, Tensor.shape, weft.tensor
    received = []

    class Watch(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            received.append(func)
            return func(*args, **(kwargs or {}))

    with Watch():
        assert Tensor.size is size and Tensor.shape is shape and weft.tensor is tensor
        x.size(), x.shape, weft.tensor([1.0])
    assert received[0] is size
    assert received[1] == shape.__get__
    assert received[2] is tensor


def test_modes_nest_innermost_first(x):
    sink = []
    with Recorder("outer", sink) as outer, Recorder("inner", sink) as inner:
        assert _get_current_function_mode_stack() == [outer, inner]
        assert _get_current_function_mode() is inner
        x.add(1)
        x.size()
        with _pop_mode_temporarily() as popped:
            assert popped is inner
            x.neg()
        assert _get_current_function_mode() is inner
    assert sink == [
        ("inner", "weft.add"),
        ("outer", "weft.add"),
        ("inner", "weft.Tensor.size"),
        ("outer", "weft.Tensor.size"),
        ("outer", "weft.neg"),
    ]
    assert _get_current_function_mode() is None


def test_a_mode_may_be_entered_twice(x):
    mode = Recorder()
    with mode, mode:
        x.add(1)
    assert mode.names == ["weft.add"] * 2
    with mode:
        x.neg()
    assert mode.names[2:] == ["weft.neg"]


def test_mode_is_off_inside_its_own_handler(x):
    class Busy(TorchFunctionMode):
        depth = 0

        def __torch_function__(self, func, types, args=(), kwargs=None):
            Busy.depth += 1
            assert Busy.depth == 1
            weft.tensor([1.0]).add(1).size()
            result = func(*args, **(kwargs or {}))
            Busy.depth -= 1
            return result

    with Busy():
        x.add(1)
        x.size()
    assert Busy.depth == 0


def test_mode_may_reenter_itself(x):
    class Again(TorchFunctionMode):
        calls = 0

        def __torch_function__(self, func, types, args=(), kwargs=None):
            Again.calls += 1
            if Again.calls < 3:
                with self:
                    return func(*args, **(kwargs or {}))
            return func(*args, **(kwargs or {}))

    with Again():
        result = x.add(1)
    assert result.tolist() == [[2, 3, 4], [5, 6, 7]]
    assert Again.calls == 3


def test_mode_may_change_arguments_and_results(x):
    class Doubles(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            if func is weft.zeros:
                return weft.ones(*args, **{**(kwargs or {}), "dtype": weft.float64})
            return func(*args, **(kwargs or {}))

    with Doubles():
        made = weft.zeros(2, 3)
    assert (made.dtype, made.tolist()) == (weft.float64, [[1, 1, 1]] * 2)


def test_mode_comes_before_subclasses(logged):
    sink = []

    class Mode(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            sink.append(types)
            assert Logged.log == []
            return func(*args, **(kwargs or {}))

    with Mode():
        assert type(logged.add(1)) is Logged
    assert sink == [(Logged,)]
    assert seen() == ["weft.add"]


def test_mode_that_declines_leaves_the_call_to_classes(x):
    class Declines(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            return NotImplemented

    with Declines():
        assert weft.add(x, Duck())[0] == "duck"
        with pytest.raises(TypeError, match=r"(?s)Multiple dispatch failed for 'weft.add'.*- mode object <"):
            x.add(1)
        with pytest.raises(TypeError, match=r"__torch_function__: \[\] nor in mode <"):
            weft.nn.functional.mse_loss(x, x)


def test_base_modes(x):
    with BaseTorchFunctionMode():
        assert x.add(1).sum().item() == 27
    with pytest.raises(NotImplementedError), TorchFunctionMode():
        x.add(1)
    with pytest.warns(UserWarning, match="no longer necessary"):
        mode = Recorder.push("pushed")
    with mode:
        x.add(1)
    assert mode.calls == [("pushed", "weft.add")]


def test_modes_of_other_threads_are_not_ours(x):
    found = []
    with Recorder() as mode:
        thread = threading.Thread(target=lambda: found.append(x.size() and x.add(1).sum().item()))
        thread.start()
        thread.join()
    assert found == [27]
    assert mode.calls == []


def test_gradients_under_a_mode(x):
    with BaseTorchFunctionMode():
        leaf = x.clone().requires_grad_()
        (g,) = weft.autograd.grad(leaf.mul(leaf).sum(), leaf, create_graph=True)
        g.sum().backward()
    assert leaf.grad.tolist() == [[2] * 3] * 2


def test_grad_modes_and_function_modes_mix(x):
    leaf = x.requires_grad_()
    with weft.no_grad(), Recorder():
        assert not leaf.mul(2).requires_grad
        with weft.enable_grad():
            assert leaf.mul(2).requires_grad
    assert leaf.mul(2).requires_grad


# -- questions -----------------------------------------------------------------------------------------------
def test_has_torch_function(x):
    assert not has_torch_function((x, 1))
    assert has_torch_function((x, Duck()))
    assert has_torch_function((x.as_subclass(Plain),))
    assert not has_torch_function((x.as_subclass(Disabled), Parameter(x)))
    with DisableTorchFunctionSubclass():
        assert not has_torch_function((Duck(),))
    with Recorder():
        assert has_torch_function((x,))


def test_handle_torch_function(x):
    def double(input):
        if has_torch_function((input,)):
            return handle_torch_function(double, (input,), input)
        return weft.mul(input, 2)

    assert double(Duck())[1] is double
    assert double(x.as_subclass(Plain)).sum().item() == 42
    assert type(double(x.as_subclass(Plain))) is Plain
    with pytest.raises(TypeError, match="double"):
        double(Shy())


def test_wrap_torch_function(x):
    @wrap_torch_function(lambda a, scale=2: (a,))
    def scaled(a, scale=2):
        return a.mul(scale)

    assert scaled(x).sum().item() == 42
    label, func, _, args, kwargs = scaled(Duck(), scale=3)
    assert (label, kwargs) == ("duck", {"scale": 3})
    assert func is scaled


def test_is_tensor_like(x):
    assert is_tensor_like(x) and is_tensor_like(x.as_subclass(Plain)) and is_tensor_like(Duck())
    assert not is_tensor_like(1) and not is_tensor_like(x.numpy())


def test_resolve_name():
    assert resolve_name(weft.add) == "weft.add"
    assert resolve_name(Tensor.shape.__get__) == "weft.Tensor.shape.__get__"
    assert resolve_name(Tensor.size) == "weft.Tensor.size"
    assert resolve_name(weft.nn.functional.mse_loss) == "weft.nn.functional.mse_loss"
    assert resolve_name(weft.tensor) == "weft.tensor"
    assert resolve_name(weft.autograd.grad) == "weft.autograd.grad"
    assert resolve_name(print) is None


def test_is_tensor_method_or_property():
    assert is_tensor_method_or_property(Tensor.size)
    assert is_tensor_method_or_property(Tensor.add)
    assert is_tensor_method_or_property(Tensor.grad.__get__)
    assert not is_tensor_method_or_property(weft.nn.functional.mse_loss)
    assert not is_tensor_method_or_property(print)


def test_nowrap_and_ignored_functions():
    assert Tensor.grad.__get__ in get_default_nowrap_functions()
    assert Tensor._base.__get__ in get_default_nowrap_functions()
    ignored = get_ignored_functions()
    assert weft.from_numpy in ignored and Tensor.as_subclass in ignored
    assert weft.add not in ignored


def test_overridable_functions_come_from_the_records():
    found = get_overridable_functions()
    assert weft.add in found[weft] and weft.tensor in found[weft]
    assert weft.from_numpy not in found[weft]
    assert Tensor.add in found[Tensor] and Tensor.size in found[Tensor] and Tensor.add_ in found[Tensor]
    assert Tensor.as_subclass not in found[Tensor]
    assert weft.nn.functional.mse_loss in found[weft.nn.functional]
    assert found[Tensor.shape] == [Tensor.shape.__get__]
    assert Tensor.requires_grad.__set__ in found[Tensor.requires_grad]
    for functions in found.values():
        for function in functions:
            assert resolve_name(function) is not None
