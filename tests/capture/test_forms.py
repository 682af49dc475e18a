from __future__ import annotations

import copy
import functools
import gc
import inspect
import pickle
import weakref

import pytest

import weft
from weft import nn
from weft.capture.forms import OptimizedModule
from weft.compiler import Unsupported
from weft.testing import CompileCounter, same

X = weft.ones(2, 3)


class Model(nn.Module):
    """A model."""

    scale = 2

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.register_buffer("offset", weft.ones(3))
        self.calls = 0

    def forward(self, x, *, times=1):
        return self.linear(x) * times + self.offset

    def extra_repr(self):
        return "special"

    @property
    def doubled(self):
        return 2 * self.scale


@pytest.fixture
def counter():
    return CompileCounter()


# -- functions -----------------------------------------------------------------------------------------------
class Thing:
    factor = 3

    def method(self, x):
        return x * self.factor

    def __call__(self, x):
        return x + self.factor

    @classmethod
    def of_class(cls, x):
        return x - cls.factor

    @staticmethod
    def plain(x):
        return x / 2


@pytest.mark.parametrize(
    "target",
    [
        lambda x: x + 1,
        Thing().method,
        Thing.of_class,
        Thing.plain,
        Thing(),
        functools.partial(lambda x, n: x * n, n=3),
        weft.sin,
        nn.functional.relu,
        X.__add__,
    ],
    ids=[
        "lambda",
        "method",
        "class method",
        "static method",
        "object",
        "partial",
        "op",
        "library",
        "bound op",
    ],
)
def test_all_kinds_of_callables(target, counter):
    compiled = weft.compile(target, backend=counter)
    for _ in range(2):
        assert same(compiled(X), target(X))
    assert counter.frame_count == 1
    if not isinstance(target, (Thing, functools.partial)):
        assert compiled.__name__ == target.__name__
        assert compiled.__wrapped__ == target or callable(compiled.__wrapped__)
    assert inspect.signature(compiled) == inspect.signature(target)


def test_compiling_again_starts_from_the_original(counter):
    def function(x):
        return x + 1

    first = weft.compile(function)
    second = weft.compile(first, backend=counter)
    assert second.__wrapped__ is function
    assert same(second(X), X + 1)
    assert counter.frame_count == 1


def test_generators_and_coroutines_run_as_written(counter):
    def numbers(n):
        yield from range(n)

    async def later(x):
        return x

    compiled = weft.compile(numbers, backend=counter)
    assert list(compiled(3)) == [0, 1, 2]
    assert inspect.isgenerator(compiled(1))
    task = weft.compile(later)(5)
    with pytest.raises(StopIteration) as finished:
        task.send(None)
    assert finished.value.value == 5
    with pytest.raises(Unsupported, match="numbers is a generator"):
        weft.compile(numbers, fullgraph=True)(3)
    assert counter.frame_count == 0


def test_what_cannot_be_called_is_refused():
    with pytest.raises(AssertionError, match="A callable function is expected, but <class 'int'>"):
        weft.compile(3)


def test_calls_of_instances_of_a_class_run_compiled(counter):
    @weft.compile(backend=counter)
    class Callable:
        def __call__(self, x):
            return x * 3

    @weft.compile(backend=counter)
    class Small(nn.Module):
        def forward(self, x):
            return x * 4

    assert isinstance(Callable, type) and isinstance(Small(), nn.Module)
    for _ in range(2):
        assert same(Callable()(X), X * 3)
        assert same(Small()(X), X * 4)
    assert counter.frame_count == 2


# -- modules -------------------------------------------------------------------------------------------------
def test_module_runs_compiled(counter):
    model = Model()
    compiled = weft.compile(model, backend=counter)
    assert isinstance(compiled, OptimizedModule) and isinstance(compiled, nn.Module)
    for _ in range(2):
        assert same(compiled(X), model(X))
        assert same(compiled.forward(X, times=1), model(X))
    assert counter.frame_count == 1
    assert same(compiled(X, times=2), model(X, times=2))


def test_module_is_its_original_in_everything_else():
    model = Model()
    compiled = weft.compile(model)
    assert compiled._orig_mod is model
    assert (
        list(compiled.state_dict()) == list(model.state_dict()) == ["offset", "linear.weight", "linear.bias"]
    )
    assert [name for name, _ in compiled.named_parameters()] == ["linear.weight", "linear.bias"]
    assert next(compiled.parameters()) is model.linear.weight
    assert (compiled.scale, compiled.doubled, compiled.calls) == (2, 4, 0)
    assert compiled.linear is model.linear
    assert compiled.__doc__ == "A model."
    compiled.calls = 5
    compiled.extra = nn.Parameter(weft.ones(1))
    assert model.calls == 5 and "extra" in dict(model.named_parameters())
    del compiled.extra
    assert not hasattr(model, "extra") and not hasattr(compiled, "extra")
    assert "linear" in dir(compiled) and "_orig_mod" in dir(compiled)
    assert repr(compiled).startswith("OptimizedModule(\n  (_orig_mod): Model(\n    special\n")
    with pytest.raises(AttributeError, match="'Model' object has no attribute 'nothing'"):
        compiled.nothing


def test_methods_that_return_the_module_return_the_optimised_one():
    model = Model()
    compiled = weft.compile(model)
    assert compiled.eval() is compiled and not model.training and not compiled.training
    assert compiled.train() is compiled and model.linear.training
    assert compiled.double() is compiled and model.linear.weight.dtype == weft.float64
    assert compiled.to(weft.float32) is compiled
    assert compiled.requires_grad_(False) is compiled
    assert compiled.apply(lambda module: None) is compiled
    loaded = compiled.load_state_dict(model.state_dict())
    assert not loaded.missing_keys


def test_containers_stay_containers():
    compiled = weft.compile(nn.Sequential(nn.Linear(3, 3), nn.ReLU()))
    assert len(compiled) == 2 and isinstance(compiled[1], nn.ReLU)
    assert [type(part) for part in compiled] == [nn.Linear, nn.ReLU]
    assert bool(weft.compile(Model()))
    assert not hasattr(type(weft.compile(Model())), "__len__")


def test_training_mode_is_guarded(counter):
    model = nn.Dropout(0.5)
    compiled = weft.compile(model, backend=counter)
    assert not same(compiled(weft.ones(100)), weft.ones(100))
    model.eval()
    assert same(compiled(weft.ones(100)), weft.ones(100))


def test_parts_of_a_larger_module(counter):
    model = Model()
    outer = nn.Sequential(weft.compile(model, backend=counter), nn.ReLU())
    assert same(outer(X), model(X).relu())
    assert counter.frame_count == 1
    assert list(outer.state_dict()) == ["0.offset", "0.linear.weight", "0.linear.bias"]


def test_forward_that_is_replaced_is_seen(counter):
    model = Model()
    compiled = weft.compile(model, backend=counter)
    compiled(X)
    model.forward = lambda x: x * 7
    assert same(compiled(X), X * 7)


def test_hooks_are_run(counter):
    model = nn.Linear(3, 3)
    compiled = weft.compile(model, backend=counter)
    compiled(X)
    seen = []
    handle = model.register_forward_pre_hook(lambda module, args: seen.append(len(args)))
    assert same(compiled(X), nn.functional.linear(X, model.weight, model.bias))
    assert seen == [1]
    handle.remove()
    compiled(X)
    assert seen == [1]


def test_gradients_reach_the_original():
    model = Model()
    weft.compile(model)(X).sum().backward()
    expected = copy.deepcopy(model)
    expected.zero_grad()
    expected(X).sum().backward()
    assert same(model.linear.weight.grad, expected.linear.weight.grad)


def test_copies_and_pickles(counter):
    model = Model()
    compiled = weft.compile(model, backend=counter)
    compiled(X)
    deep = copy.deepcopy(compiled)
    assert isinstance(deep, OptimizedModule) and deep._orig_mod is not model
    assert same(deep(X), model(X))
    with weft.no_grad():
        deep.linear.weight.zero_()
    assert not same(deep(X), model(X))
    shallow = copy.copy(compiled)
    assert shallow._orig_mod.linear is model.linear
    plain = weft.compile(model, backend="eager", fullgraph=True)
    loaded = pickle.loads(pickle.dumps(plain))
    assert isinstance(loaded, OptimizedModule)
    assert same(loaded(X), model(X))


def test_module_compile_in_place(counter):
    model = Model()
    expected = model(X)
    model.compile(backend=counter)
    for _ in range(2):
        assert same(model(X), expected)
    assert counter.frame_count == 1
    assert same(copy.deepcopy(model)(X), expected)
    assert same(pickle.loads(pickle.dumps(model))(X), expected)


def test_compiled_forms_do_not_keep_models_alive(counter):
    model = Model()
    compiled = weft.compile(model, backend=counter)
    compiled(X)
    watch = weakref.ref(model)
    del compiled, model
    gc.collect()
    assert watch() is None


def test_optimised_modules_in_captured_code(counter):
    model = weft.compile(Model(), backend=counter)

    def function(x):
        return model(x) + model.linear.bias + model.scale + model.training

    expected = function(X)
    counter.clear()
    assert same(weft.compile(function, backend=counter, fullgraph=True)(X), expected)
    assert counter.frame_count == 1


def test_captured_code_writes_to_the_original():
    model = weft.compile(Model())

    def function(x):
        model.calls = 7
        return x + model.calls

    assert same(weft.compile(function)(X), X + 7)
    assert model._orig_mod.calls == 7


class Base:
    def __call__(self, x):
        return x * 2


class Scaled:
    """A descriptor that gives a function of its own."""

    def __init__(self, factor):
        self.factor = factor

    def __get__(self, instance, owner=None):
        return lambda x: x * self.factor


def replaced(cls):
    cls.__call__ = lambda self, x: x * 100


def test_call_is_looked_up_at_each_call():
    def follows(target, change):
        compiled = weft.compile(target)
        for _ in range(3):
            assert compiled(weft.ones(1)).tolist() == target(weft.ones(1)).tolist()
        change()
        for _ in range(2):
            assert compiled(weft.ones(1)).tolist() == target(weft.ones(1)).tolist() != [2.0]

    own = type("Own", (), {"__call__": lambda self, x: x * 2})
    follows(own(), lambda: replaced(own))
    inheriting = type("Inheriting", (type("Ancestor", (Base,), {}),), {})
    follows(inheriting(), lambda: replaced(inheriting.__mro__[1]))
    overriding = type("Overriding", (Base,), {})
    follows(overriding(), lambda: replaced(overriding))
    changed = type("Changed", (Base,), {})()
    follows(changed, lambda: setattr(changed, "__class__", type("Other", (Base,), {"__call__": Scaled(7)})))
    described = Scaled(2)
    follows(type("Described", (), {"__call__": described})(), lambda: setattr(described, "factor", 9))
    static = type("Static", (), {"__call__": staticmethod(lambda x: x * 2)})
    follows(static(), lambda: setattr(static, "__call__", staticmethod(lambda x: x * 3)))
    inner = type("Inner", (Base,), {})
    follows(functools.partial(inner()), lambda: replaced(inner))
    partial = functools.partial(lambda x, factor: x * factor, factor=2)
    follows(partial, lambda: partial.keywords.update(factor=5))


def test_an_object_that_is_no_longer_callable_raises():
    cls = type("Once", (), {"__call__": lambda self, x: x * 2})
    compiled = weft.compile(cls())
    compiled(weft.ones(1))
    del cls.__call__
    with pytest.raises(TypeError, match="'Once' object is not callable"):
        compiled(weft.ones(1))


def test_modules_with_a_call_of_their_own():
    class Own(weft.nn.Module):
        def __call__(self, x):
            return super().__call__(x) + 1

        def forward(self, x):
            return x * 2

    module = Own()
    compiled = weft.compile(module)
    assert compiled(weft.ones(1)).tolist() == [3.0]
    replaced(Own)
    assert compiled(weft.ones(1)).tolist() == [100.0]
    del Own.__call__
    assert compiled(weft.ones(1)).tolist() == [2.0]
    Own.forward = lambda self, x: x * 5
    assert compiled(weft.ones(1)).tolist() == [5.0]
    module.forward = lambda x: x * 6
    assert compiled(weft.ones(1)).tolist() == [6.0]


def test_a_partial_with_a_call_of_its_own():
    class Doubling(functools.partial):
        def __call__(self, *args):
            return super().__call__(*args) * 2

    assert weft.compile(Doubling(weft.add, 1))(weft.ones(1)).tolist() == [4.0]
