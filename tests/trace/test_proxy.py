"""Tracing with proxies."""

import math
import operator
import threading

import pytest

import weft
from weft import nn
from weft.nn import functional
from weft.trace.fx import symbolic_trace
from weft.trace.module import GraphModule
from weft.trace.proxy import PH, Proxy, ProxyableClassMeta, TraceError, Tracer


def lines(function, **options):
    return symbolic_trace(function, **options).code.splitlines()[3:-1]


OPERATORS = [
    lambda x, y: x + y, lambda x, y: 2 + x, lambda x, y: x - 1, lambda x, y: 1 - x, lambda x, y: x * y,
    lambda x, y: x / y, lambda x, y: 1 / y, lambda x, y: x // y, lambda x, y: x % y, lambda x, y: x**2,
    lambda x, y: 2**x, lambda x, y: (-2) ** x, lambda x, y: x @ y, lambda x, y: -x, lambda x, y: +x,
    lambda x, y: abs(x), lambda x, y: x < y, lambda x, y: x == y, lambda x, y: ~(x != y),
    lambda x, y: (x > 0) & (y > 0), lambda x, y: (x > 0) | (y > 0), lambda x, y: (x >= 0) ^ (y <= 0),
    lambda x, y: x[0], lambda x, y: x[..., None, 1:], lambda x, y: x[:, 0] * y[0, :],
    lambda x, y: x.sum(dim=0), lambda x, y: x.T, lambda x, y: x.T.sum(), lambda x, y: x.view(-1).clone(),
    lambda x, y: weft.relu(x), lambda x, y: weft.cat([x, y], dim=1), lambda x, y: weft.max(x, 0).values,
    lambda x, y: functional.linear(x, y), lambda x, y: weft.where(x > 0, x, y),
    lambda x, y: (x, [y, {"k": x}]),
    lambda x, y: weft.ones(2, 2) * x, lambda x, y: x.add(y, alpha=2),
    lambda x, y: weft.stack((x, y)).unbind(0),
    lambda x, y: functional.dropout(x, 0.5, False), lambda x, y: weft.linalg.norm(x), lambda x, y: 3,
]  # fmt: skip


@pytest.mark.parametrize("function", OPERATORS)
def test_traced_functions_compute_the_same(function):
    x, y = weft.tensor([[1.0, 2.0], [3.0, 5.0]]), weft.tensor([[2.0, 0.5], [1.0, 4.0]])
    traced = symbolic_trace(function)
    traced.graph.check()
    assert repr(traced(x, y)) == repr(function(x, y))


def test_unpacking():
    def function(x):
        values, indices = weft.max(x, dim=0)
        return values * indices

    assert lines(function) == [
        "def forward(self, x):",
        "    max_1 = weft.max(x, 0);  x = None",
        "    getitem = max_1[0]",
        "    getitem_1 = max_1[1];  max_1 = None",
        "    mul = getitem * getitem_1;  getitem = getitem_1 = None",
        "    return mul",
    ]


def test_parameters_of_every_kind():
    def function(a, /, b=2, *rest, c, d=4, **options):
        return a + b + c + d + rest[0] + options["k"]

    traced = symbolic_trace(function)
    assert traced.code.splitlines()[3] == "def forward(self, a, b = 2, *rest, c, d = 4, **options):"
    assert traced(1, 2, 3, c=4, k=5) == function(1, 2, 3, c=4, k=5) == 19
    assert symbolic_trace(lambda x, *, y=3: x + y).code.splitlines()[3] == "def forward(self, x, y = 3):"
    with pytest.raises(TraceError, match="parameter y is required"):
        symbolic_trace(lambda x=1, *, y: x + y)


def test_methods_and_callables():
    class Scaled:
        factor = 3

        def method(self, x):
            return x * self.factor

        def __call__(self, x):
            return x + self.factor

    assert symbolic_trace(Scaled().method)(2) == 6
    assert symbolic_trace(Scaled())(2) == 5


def test_closures():
    shift = weft.ones(2)

    def function(x):
        return x + shift + shift

    traced = symbolic_trace(function)
    assert traced(weft.zeros(2)).tolist() == [2.0, 2.0]
    assert list(traced.state_dict()) == ["_tensor_constant0"]


@pytest.mark.parametrize(
    ("function", "error", "text"),
    [
        (lambda x: 1 if x else 2, TraceError, "control flow"),
        (lambda x: [v + 1 for v in x], TraceError, "cannot be iterated"),
        (lambda x: max(*x), TraceError, "cannot be iterated"),
        (lambda x: len(x), RuntimeError, "'len' is not supported"),
        (lambda x: 3 in x, TraceError, "contain"),
    ],
)
def test_what_cannot_be_traced(function, error, text):
    with pytest.raises(error, match=text):
        symbolic_trace(function)


def test_concrete_arguments():
    def function(x, flag):
        return x + 1 if flag else x - 1

    assert symbolic_trace(function, {"flag": True})(3, True) == 4
    assert symbolic_trace(function, {"flag": False})(3, False) == 2
    assert symbolic_trace(function, (PH, True))(3, True) == 4
    with pytest.raises(AssertionError, match="flag has been specialized to have value True but got another"):
        symbolic_trace(function, {"flag": True})(3, False)
    with pytest.raises(AssertionError, match="flag has been specialized to have value None"):
        symbolic_trace(function, {"flag": None})(3, 1)
    with pytest.raises(RuntimeError, match="expected 2 arguments but got 1 concrete arguments"):
        symbolic_trace(function, (True,))


def test_concrete_arguments_in_parts():
    def function(data, pair):
        return data["a"] * pair[0] + data["b"][0]

    told = {"data": {"a": PH, "b": [PH, 2]}, "pair": (3, PH)}
    traced = symbolic_trace(function, told)
    assert traced({"a": 4, "b": [5, 2]}, (3, 9)) == 17
    with pytest.raises(AssertionError, match="pair has been specialized to have value 3"):
        traced({"a": 4, "b": [5, 2]}, (4, 9))
    with pytest.warns(UserWarning, match="Was not able to add assertion"):
        symbolic_trace(lambda x, f: f(x), {"f": abs})


def half(x):
    return x / 2


def test_functions_that_are_kept_whole():
    def function(x):
        return math.sqrt(half(x))

    whole = Tracer(autowrap_functions=(half,)).trace(function)
    assert [node.target for node in whole.nodes if node.op == "call_function"] == [half, math.sqrt]
    assert math.sqrt(4) == 2 and half(4) == 2  # themselves again
    with pytest.raises(TypeError, match="must be real number"):
        Tracer(autowrap_modules=()).trace(function)


def test_tracers_may_answer_for_proxies():
    class Bold(Tracer):
        proxy_buffer_attributes = True
        record_stack_traces = True

        def iter(self, obj):
            return iter([obj[0], obj[1]])

        def to_bool(self, obj):
            return True

        def keys(self, obj):
            return ["a"]

        def getattr(self, attr, attr_val, parameter_proxy_cache):
            read.append(attr)
            return super().getattr(attr, attr_val, parameter_proxy_cache)

    def function(x, d):
        if x > 0:
            x = x + 1
        return [part * 2 for part in x], {**d}

    read: list[str] = []
    graph = Bold().trace(function)
    x = weft.tensor([1, 2])
    doubled, rest = GraphModule({}, graph)(x, {"a": 3})
    assert [part.item() for part in doubled] == [4, 6] and rest == {"a": 3}
    added = next(node for node in graph.nodes if node.target is operator.add)
    assert "x = x + 1" in added.stack_trace
    graph = Bold().trace(Model())
    assert [node.target for node in graph.nodes if node.op == "get_attr"] == ["weight", "shift"]
    assert {"weight", "shift"} <= set(read)


def test_nodes_know_the_modules_around_them():
    graph = symbolic_trace(Model()).graph
    stacks = {node.name: list(node.meta.get("nn_module_stack", ())) for node in graph.nodes}
    assert stacks["first"] == ["first"] and stacks["rest_1"] == ["rest", "rest.1"] and stacks["mul"] == []


class Pair(metaclass=ProxyableClassMeta):
    def __init__(self, left, right):
        self.left, self.right = left, right

    def total(self):
        return self.left + self.right


def test_objects_made_of_proxies():
    traced = symbolic_trace(lambda x, y: Pair(x, y).total())
    assert traced(2, 3) == 5 and Pair(1, 2).total() == 3
    assert [node.target for node in traced.graph.nodes if node.op == "call_function"] == [Pair]


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(2, 2)
        self.rest = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
        self.weight = nn.Parameter(weft.ones(2))
        self.register_buffer("shift", weft.ones(2))

    def forward(self, x, scale=2.0):
        return self.rest(self.first(x)) * scale + self.weight * 2 + self.weight + self.shift


def test_modules():
    model = Model()
    traced = symbolic_trace(model)
    assert traced.code.splitlines()[3:-1] == [
        "def forward(self, x, scale = 2.0):",
        "    first = self.first(x);  x = None",
        '    rest_0 = getattr(self.rest, "0")(first);  first = None',
        '    rest_1 = getattr(self.rest, "1")(rest_0);  rest_0 = None',
        "    mul = rest_1 * scale;  rest_1 = scale = None",
        "    weight = self.weight",
        "    mul_1 = weight * 2",
        "    add = mul + mul_1;  mul = mul_1 = None",
        "    add_1 = add + weight;  add = weight = None",
        "    shift = self.shift",
        "    add_2 = add_1 + shift;  add_1 = shift = None",
        "    return add_2",
    ]
    x = weft.randn(3, 2)
    assert weft.equal(traced(x), model(x))
    assert traced.weight is model.weight
    assert set(traced.state_dict()) == set(model.state_dict())
    assert type(traced).__name__ == "Model"


def test_leaf_modules_can_be_chosen():
    class Deep(Tracer):
        def is_leaf_module(self, module, qualified_name):
            return qualified_name == "rest.1"

    graph = Deep().trace(Model())
    assert [node.target for node in graph.find_nodes(op="call_module")] == ["rest.1"]
    assert len(graph.find_nodes(op="call_function", target=functional.linear)) == 2


def test_modules_are_themselves_again_afterwards():
    before = nn.Module.__call__, nn.Module.__getattr__
    with pytest.raises(ZeroDivisionError):
        symbolic_trace(lambda x: 1 / 0)
    assert (nn.Module.__call__, nn.Module.__getattr__) == before


def test_other_threads_see_plain_modules():
    model, results = Model(), []

    def function(x):
        thread = threading.Thread(target=lambda: results.append(type(model.weight)))
        thread.start()
        thread.join()
        return x

    Tracer().trace(function)
    assert results == [nn.Parameter]


def test_nobody_sees_another_class_of_modules_meanwhile():
    seen = []

    def function(x):
        seen.append((nn.Module.__call__, nn.Module.__getattr__))
        return x

    Tracer().trace(function)
    assert seen == [(nn.Module.__call__, nn.Module.__getattr__)]


def test_threads_trace_at_once():
    both, found = threading.Barrier(2, timeout=10), []

    class Waiting(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear, self.scale = nn.Linear(2, 2), nn.Parameter(weft.ones(2))

        def forward(self, x):
            both.wait()
            return self.linear(x) * self.scale

    def trace():
        found.append([node.op for node in Tracer().trace(Waiting()).nodes])

    threads = [threading.Thread(target=trace) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [["placeholder", "call_module", "get_attr", "call_function", "output"]] * 2


def test_modules_from_elsewhere():
    class Holder(nn.Module):
        def forward(self, x):
            return other(x)

    other = Model()
    x = weft.randn(3, 2)
    traced = symbolic_trace(Holder())
    assert weft.equal(traced(x), other(x))
    with pytest.raises(NotImplementedError, match="argument of type"):
        symbolic_trace(lambda x: x.apply(other))


def test_proxies():
    seen = []

    def function(x):
        seen.append((repr(x), hash(x) == hash(x), isinstance(x, Proxy), hasattr(x, "__array__")))
        return operator.call(x, 1)

    traced = symbolic_trace(function)
    assert seen == [("Proxy(x)", True, True, False)]
    assert traced(lambda value: value + 1) == 2


def test_assertions_are_nodes():
    def checked(x):
        weft._assert(x.shape[-1] == 3, "three, please")
        return x * 2

    traced = symbolic_trace(checked)
    assert weft._assert in [node.target for node in traced.graph.nodes]
    assert traced(weft.ones(3)).tolist() == [2, 2, 2]
    with pytest.raises(AssertionError, match="three, please"):
        traced(weft.ones(2))
