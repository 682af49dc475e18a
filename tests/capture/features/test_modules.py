"""Modules in captured code: submodules, containers, hooks, modes, state, and compiled forms."""

from __future__ import annotations

import copy
import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest

import weft
from tests.capture.features.harness import check, everything_strict
from weft import nn
from weft.testing import CompileCounter, EagerAndRecordGraphs

Tensor = weft.Tensor


def ready(make: Callable[[], nn.Module]) -> nn.Module:
    weft.manual_seed(0)
    return make()


def rows() -> tuple[Tensor]:
    return (weft.arange(12).reshape(3, 4) / 10,)


def check_module(
    make: Callable[[], nn.Module], *calls: Any, watch: bool = True, **options: Any
) -> CompileCounter:
    """Checks a module made anew for each side, with its state watched after each call."""
    current: list[nn.Module] = []

    def state() -> Any:
        current[:] = [ready(make)]

        def forward(*args: Any, **kwargs: Any) -> Any:
            return module(*args, **kwargs)

        module = current[0]
        return forward

    def seen() -> Any:
        return dict(current[0].state_dict()) if watch else None

    return check(lambda x: x, *(calls or (rows,)), state=state, watch=seen, **options)


class MLP(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 8)
        self.second = nn.Linear(8, 2)
        self.act = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.act(self.first(x)))


def test_submodules_are_one_graph() -> None:
    check_module(MLP, ops=3)


def test_parameters_are_inputs_and_get_gradients() -> None:
    def backward(result: Tensor) -> Tensor:
        result.sum().backward()
        return result

    check_module(MLP, after=backward)


def test_parameters_replaced_or_written_are_noticed() -> None:
    model = ready(MLP)
    counter = CompileCounter()
    compiled = weft.compile(model, backend=counter, fullgraph=True)
    (x,) = rows()
    compiled(x)
    with weft.no_grad():
        model.first.weight.mul_(2)
    model.second.bias = nn.Parameter(weft.ones(2))
    assert weft.equal(compiled(x), model(x))
    assert counter.frame_count == 1


class Lists(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))
        self.scales = nn.ParameterList([nn.Parameter(weft.ones(4) * i) for i in range(3)])

    def forward(self, x: Tensor) -> Any:
        for layer, scale in zip(self.layers, self.scales):
            x = layer(x) * scale
        return self.layers[-1](x) + self.layers[0](x) + len(self.layers), [
            type(m).__name__ for m in self.layers[1:]
        ]


def test_module_list_and_parameter_list() -> None:
    check_module(Lists)


class Dicts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.heads = nn.ModuleDict({"a": nn.Linear(4, 2), "b": nn.Linear(4, 2)})
        self.table = nn.ParameterDict({"bias": nn.Parameter(weft.ones(2))})

    def forward(self, x: Tensor, name: str) -> Any:
        total = sum(head(x) for head in self.heads.values())
        if "b" in self.heads:
            total = total + self.table["bias"]
        return (
            {key: head(x) for key, head in self.heads.items()},
            self.heads[name](x),
            total,
            list(self.heads.keys()),
        )


def test_module_dict_and_parameter_dict() -> None:
    check_module(Dicts, lambda: (*rows(), "a"), lambda: (*rows(), "b"), frames=2)


def test_sequential_indexing_and_iteration() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Sequential(nn.Linear(4, 2), nn.Sigmoid()))

        def forward(self, x: Tensor) -> Any:
            y = x
            for layer in self.net:
                y = layer(y)
            return y, self.net(x), self.net[0](x), self.net[:2](x), len(self.net)

    check_module(Model)


def test_iterating_parameters_children_and_buffers() -> None:
    class Model(MLP):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("offset", weft.ones(4))

        def forward(self, x: Tensor) -> Any:
            norm = sum((p * p).sum() for p in self.parameters())
            names = [name for name, _ in self.named_children()] + [
                name for name, _ in self.named_parameters()
            ]
            buffers = sum(b.sum() for b in self.buffers())
            return super().forward(x + self.offset) * norm + buffers, names, len(list(self.modules()))

    check_module(Model)


def test_forward_hooks_with_side_effects() -> None:
    class Model(MLP):
        def __init__(self) -> None:
            super().__init__()
            self.seen: list[Any] = []
            self.first.register_forward_hook(
                lambda module, args, output: self.seen.append(tuple(output.shape))
            )
            self.second.register_forward_hook(lambda module, args, output: output * 2)

        def forward(self, x: Tensor) -> Any:
            result = super().forward(x)
            return result, list(self.seen)

    check_module(Model, frames=2)


def test_forward_hook_appending_to_a_list_does_not_recompile() -> None:
    class Model(MLP):
        def __init__(self) -> None:
            super().__init__()
            self.seen: list[Any] = []
            self.first.register_forward_hook(lambda module, args, output: self.seen.append(output))

    check_module(Model, rows, rows, rows)


def test_pre_hooks_with_and_without_kwargs() -> None:
    class Scaled(nn.Module):
        def forward(self, x: Tensor, *, scale: float = 1.0) -> Tensor:
            return x * scale

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = Scaled()
            self.inner.register_forward_pre_hook(lambda module, args: (args[0] + 1,))
            self.inner.register_forward_pre_hook(
                lambda module, args, kwargs: (args, {"scale": kwargs["scale"] * 3}), with_kwargs=True
            )
            self.inner.register_forward_hook(
                lambda module, args, kwargs, output: output - kwargs["scale"], with_kwargs=True
            )

        def forward(self, x: Tensor) -> Tensor:
            return self.inner(x, scale=2.0)

    check_module(Model)


def test_hook_added_or_removed_is_noticed() -> None:
    model = ready(MLP)
    counter = CompileCounter()
    compiled = weft.compile(model, backend=counter, fullgraph=True)
    (x,) = rows()
    plain = compiled(x)
    handle = model.second.register_forward_hook(lambda module, args, output: output + 1)
    assert weft.equal(compiled(x), plain + 1)
    handle.remove()
    assert weft.equal(compiled(x), plain)
    assert counter.frame_count == 2


def test_hooks_of_the_compiled_module_itself() -> None:
    model = ready(MLP)
    model.register_forward_hook(lambda module, args, output: output * 3)
    model.register_forward_pre_hook(lambda module, args: (args[0] * 2,))
    counter = CompileCounter()
    compiled = weft.compile(model, backend=counter)
    (x,) = rows()
    assert weft.equal(compiled(x), model(x))
    assert counter.frame_count == 1


def test_train_and_eval_are_guarded() -> None:
    model = ready(lambda: nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5)))
    counter = CompileCounter()
    compiled = weft.compile(model, backend=counter, fullgraph=True)
    (x,) = rows()
    for training in (True, False, True, False):
        model.train(training)
        weft.manual_seed(1)
        expected = model(x)
        weft.manual_seed(1)
        assert weft.equal(compiled(x), expected)
    assert counter.frame_count == 2


def test_counter_attribute_in_forward() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.calls = 0
            self.last: Any = None

        def forward(self, x: Tensor) -> Any:
            self.calls += 1
            self.last = x * 2
            return self.last + 1, self.calls

    check_module(Model, rows, rows, rows, rows, frames=1)


def test_buffers_updated_in_forward() -> None:
    class Model(nn.Module):
        mean: Tensor

        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("mean", weft.zeros(4))
            self.register_buffer("count", weft.tensor(0))

        def forward(self, x: Tensor) -> Tensor:
            self.mean = 0.9 * self.mean + 0.1 * x.mean(0)
            self.count += 1
            return x - self.mean

    check_module(Model, rows, rows, rows)


def test_batch_norm_running_statistics() -> None:
    check_module(lambda: nn.Sequential(nn.BatchNorm1d(4), nn.Linear(4, 2)), rows, rows, rows)


def test_weight_tying() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(5, 4)
            self.out = nn.Linear(4, 5, bias=False)
            self.out.weight = self.embed.weight

        def forward(self, i: Tensor) -> Tensor:
            assert self.out.weight is self.embed.weight
            return self.out(self.embed(i))

    check_module(Model, lambda: (weft.tensor([0, 2, 4]),), after=lambda y: y.sum().backward())


def test_same_submodule_twice() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one = nn.Linear(4, 4)
            self.same = self.one

        def forward(self, x: Tensor) -> Any:
            return self.one(self.same(x)), self.one is self.same

    check_module(Model, ops=2)


class Tree(nn.Module):
    def __init__(self, depth: int) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.children_ = nn.ModuleList([Tree(depth - 1) for _ in range(2)] if depth else [])

    def forward(self, x: Tensor) -> Tensor:
        x = self.linear(x).relu()
        for child in self.children_:
            x = x + child(x)
        return x


def test_recursive_modules() -> None:
    check_module(lambda: Tree(2))


def test_functional_call() -> None:
    model = ready(MLP)
    check(
        lambda params, x: weft.func.functional_call(model, params, (x,)),
        lambda: ({k: v.detach() * 2 for k, v in model.named_parameters()}, *rows()),
    )


def test_module_compile_in_place() -> None:
    model = ready(MLP)
    (x,) = rows()
    expected = model(x)
    counter = CompileCounter()
    model.compile(backend=counter, fullgraph=True)
    assert weft.equal(model(x), expected) and weft.equal(model(x), expected)
    assert counter.frame_count == 1
    assert list(model.state_dict()) == ["first.weight", "first.bias", "second.weight", "second.bias"]


def test_optimized_module_is_the_original_in_all_but_calls() -> None:
    model = ready(MLP)
    compiled = weft.compile(model, backend="eager")
    assert isinstance(compiled, weft.compiler.OptimizedModule) and compiled._orig_mod is model
    assert compiled.first is model.first
    assert list(compiled.state_dict()) == list(model.state_dict())
    compiled.eval()
    assert not model.first.training
    compiled.extra = 3
    assert model.extra == 3
    compiled.load_state_dict({name: weft.zeros_like(value) for name, value in compiled.state_dict().items()})
    assert not model.first.weight.any()


def test_module_as_argument_and_global() -> None:
    def f(module: nn.Module, x: Tensor) -> Tensor:
        return module(x) + GLOBAL(x)

    first, second = ready(MLP), ready(lambda: nn.Linear(4, 2))
    check(f, lambda: (first, *rows()), lambda: (second, *rows()), lambda: (first, *rows()), frames=2)


def test_modules_of_equal_structure_share_an_entry() -> None:
    models = [ready(MLP) for _ in range(3)]
    for scale, model in enumerate(models):
        model.first.weight.data.mul_(scale)
    counter = CompileCounter()
    compiled = weft.compile(lambda model, x: model(x), backend=counter, fullgraph=True)
    for model in models:
        assert weft.equal(compiled(model, *rows()), model(*rows()))
    assert counter.frame_count == 1


GLOBAL = ready(lambda: nn.Linear(4, 2))


@pytest.mark.parametrize(
    ("make", "arguments"),
    [
        (lambda: nn.Dropout(0.5), rows),
        (lambda: nn.LayerNorm(4), rows),
        (lambda: nn.RMSNorm(4), rows),
        (lambda: nn.GroupNorm(2, 4), rows),
        (lambda: nn.Embedding(5, 3, padding_idx=0), lambda: (weft.tensor([[1, 0], [4, 2]]),)),
        (lambda: nn.Conv1d(2, 3, 3, padding=1), lambda: (weft.arange(16).reshape(1, 2, 8) / 8,)),
        (lambda: nn.Conv2d(1, 2, 3), lambda: (weft.arange(25).reshape(1, 1, 5, 5) / 25,)),
        (lambda: nn.ConvTranspose2d(1, 2, 2), lambda: (weft.arange(9).reshape(1, 1, 3, 3) / 9,)),
        (lambda: nn.MaxPool2d(2), lambda: (weft.arange(16).reshape(1, 1, 4, 4) / 8,)),
        (lambda: nn.AvgPool1d(2), lambda: (weft.arange(8).reshape(1, 1, 8) / 8,)),
        (lambda: nn.AdaptiveAvgPool2d(1), lambda: (weft.arange(16).reshape(1, 1, 4, 4) / 8,)),
        (lambda: nn.Bilinear(4, 4, 2), lambda: rows() * 2),
        (lambda: nn.Flatten(), lambda: (weft.ones(2, 3, 4),)),
        (lambda: nn.Softmax(dim=-1), rows),
        (lambda: nn.GELU(), rows),
        (lambda: nn.PReLU(), rows),
        (lambda: nn.CrossEntropyLoss(), lambda: (*rows(), weft.tensor([0, 1, 2]))),
        (lambda: nn.MSELoss(), lambda: (*rows(), weft.zeros(3, 4))),
        (lambda: nn.Upsample(scale_factor=2), lambda: (weft.arange(4).reshape(1, 1, 2, 2) / 8,)),
    ],
)
def test_layers(make: Callable[[], nn.Module], arguments: Any) -> None:
    check_module(make, arguments)


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_recurrent_layers(kind: Any) -> None:
    check_module(
        lambda: kind(4, 5, num_layers=2, batch_first=True), lambda: (weft.arange(24).reshape(2, 3, 4) / 24,)
    )


def test_recurrent_cell_in_a_loop() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cell = nn.LSTMCell(4, 5)

        def forward(self, x: Tensor) -> Any:
            state = None
            outputs = []
            for step in x.unbind(0):
                state = self.cell(step[None], state)
                outputs.append(state[0])
            return weft.cat(outputs), state

    check_module(Model)


def test_multihead_attention() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.attention = nn.MultiheadAttention(4, 2, batch_first=True)

        def forward(self, x: Tensor) -> Any:
            return self.attention(x, x, x, need_weights=True)

    check_module(Model, lambda: (weft.arange(24).reshape(2, 3, 4) / 24,))


def test_parameter_made_at_first_use() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight: Any = None

        def forward(self, x: Tensor) -> Tensor:
            if self.weight is None:
                self.weight = nn.Parameter(weft.full((4,), 2.0))
            return x * self.weight

    check_module(Model, rows, rows, rows, frames=2)


def test_layer_made_inside() -> None:
    check_module(lambda: Made(), rows, rows)


class Made(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return nn.Linear(4, 2)(x)


def test_sequential_backwards() -> None:
    net = ready(lambda: nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4)))
    check(lambda x: [layer(x) for layer in reversed(net)], rows, ops=3)


def test_optimizer_step() -> None:
    current: list[Any] = []

    def state() -> Any:
        model = ready(lambda: nn.Linear(4, 2))
        optimizer = weft.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        current[:] = model.parameters()

        def step(x: Tensor) -> Tensor:
            optimizer.zero_grad()
            for parameter in model.parameters():
                parameter.grad = weft.ones_like(parameter) * x.sum()
            optimizer.step()
            return model(x)

        return step

    check(lambda x: x, rows, rows, rows, rows, state=state, watch=lambda: list(current), frames=1)


def test_forward_replaced_on_the_instance_is_used() -> None:
    model = ready(MLP)
    compiled = weft.compile(lambda m, x: m(x), backend=CompileCounter(), fullgraph=True)
    (x,) = rows()
    compiled(model, x)
    model.forward = lambda x: x * 2
    assert weft.equal(compiled(model, x), x * 2)


def test_training_step_updates_weights_the_same() -> None:
    with everything_strict():
        plain = ready(MLP)
        other = copy.deepcopy(plain)
        compiled = weft.compile(other, backend=CompileCounter(), fullgraph=True)
        for model, run in ((plain, plain), (other, compiled)):
            optimizer = weft.optim.SGD(model.parameters(), lr=0.1)
            for _ in range(3):
                optimizer.zero_grad()
                run(*rows()).square().mean().backward()
                optimizer.step()
    for left, right in zip(plain.parameters(), other.parameters()):
        assert weft.equal(left, right)


def test_entries_keep_no_model_alive() -> None:
    compiled = weft.compile(lambda model, x: model(x), backend="eager", fullgraph=True)
    model = ready(MLP)
    compiled(model, *rows())
    reference, weight = weakref.ref(model), weakref.ref(model.first.weight)
    del model
    gc.collect()
    assert reference() is None and weight() is None


def test_entries_of_a_closure_keep_no_model_alive() -> None:
    def closing_over(model: nn.Module) -> Callable[[Tensor], Tensor]:
        return lambda x: model(x)

    model = ready(MLP)
    compiled = weft.compile(closing_over(model), backend="eager", fullgraph=True)
    compiled(*rows())
    reference = weakref.ref(model)
    del model, compiled
    gc.collect()
    assert reference() is None


def test_placeholders_name_where_parameters_come_from() -> None:
    graphs = EagerAndRecordGraphs()
    weft.compile(ready(MLP), backend=graphs)(*rows())
    names = [node.name.lower() for node in graphs.graphs[0].graph.nodes if node.op == "placeholder"]
    assert len(names) == 5
    assert sum("weight" in name for name in names) == 2


def test_break_inside_a_submodule() -> None:
    class Broken(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            x = x + 1
            weft.compiler.graph_break()
            return x * 2

    check_module(lambda: nn.Sequential(nn.Linear(4, 4), Broken(), nn.Linear(4, 2)), frames=4, breaks=3)


def test_module_made_inside_breaks_or_computes_the_same() -> None:
    def f(x: Tensor) -> Tensor:
        return nn.functional.linear(nn.Identity()(x), weft.ones(2, 4))

    check(f, rows)
