"""When compiled functions are captured again, run as written, or refuse; and what they keep alive."""

from __future__ import annotations

import asyncio
import gc
import threading
import warnings
import weakref
from typing import Any

import pytest

import weft
from tests.capture.features.harness import check, everything_strict, tensor
from weft.compiler import RecompileLimitExceeded, Unsupported, counters, settings
from weft.overrides import TorchFunctionMode
from weft.testing import CompileCounter, EagerAndRecordGraphs
from weft.utils.checkpoint import checkpoint

Tensor = weft.Tensor


def counted(function: Any, **options: Any) -> tuple[Any, CompileCounter]:
    counter = CompileCounter()
    return weft.compile(function, backend=counter, **options), counter


# -- guards --------------------------------------------------------------------------------------------------
def test_dtype_rank_and_requires_grad_are_guarded() -> None:
    check(
        lambda x: x * 2,
        lambda: (tensor(),),
        lambda: (tensor().double(),),
        lambda: (tensor()[None],),
        lambda: (tensor().requires_grad_(),),
        lambda: (tensor(),),
        frames=4,
    )


def test_tensor_in_place_of_none() -> None:
    both, one = lambda: (tensor(), tensor()), lambda: (tensor(), None)
    check(lambda x, mask: x if mask is None else x * mask, both, one, both)


def test_parameter_and_tensor_are_told_apart() -> None:
    compiled, counter = counted(lambda x: (x * 2, type(x).__name__), fullgraph=True)
    assert compiled(tensor())[1] == "Tensor"
    assert compiled(weft.nn.Parameter(tensor()))[1] == "Parameter"
    assert counter.frame_count == 2


def test_default_dtype_is_noticed() -> None:
    def f(x: Tensor) -> Any:
        made = weft.zeros(3) + weft.tensor(1.5)
        return made + x, made.dtype == weft.float32, weft.get_default_dtype()

    with everything_strict():
        compiled, _ = counted(f, fullgraph=True)
        assert compiled(tensor())[1:] == (True, weft.float32)
        weft.set_default_dtype(weft.float64)
        try:
            result = compiled(tensor())
        finally:
            weft.set_default_dtype(weft.float32)
        assert result[0].dtype == weft.float64 and result[1:] == (False, weft.float64)
        assert compiled(tensor())[1:] == (True, weft.float32)


def test_tensor_subclasses_run_as_eager() -> None:
    class Logged(Tensor):
        seen: list[str] = []

        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            cls.seen.append(func.__name__)
            return super().__torch_function__(func, types, args, kwargs or {})

    def f(x: Tensor) -> Tensor:
        return x * 2 + 1

    x = tensor().as_subclass(Logged)
    expected = f(x)
    names, Logged.seen = Logged.seen, []
    compiled, _ = counted(f)
    assert type(compiled(x)) is type(expected) is Logged
    assert Logged.seen == names


def test_inference_tensors_are_told_apart_where_asked() -> None:
    def inference() -> tuple[Tensor]:
        with weft.inference_mode():
            return (tensor(),)

    def plain() -> tuple[Tensor]:
        return (tensor(),)

    check(lambda x: (x * 2, x.is_inference()), plain, inference, plain, frames=2)
    check(lambda x: (x * 2, x.view(3).is_inference()), plain, inference, plain, frames=2)


# -- what surrounds a call -----------------------------------------------------------------------------------
class Counting(TorchFunctionMode):
    """Counts the calls it sees."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += 1
        return func(*args, **(kwargs or {}))


def test_function_modes_see_every_call_and_no_fakes() -> None:
    compiled, counter = counted(lambda x: x * 2 + 1, recompile_limit=3)
    x = tensor()
    for _ in range(5):
        with Counting() as mode:
            compiled(x)
        assert mode.count == 2
    assert counter.frame_count == 0
    assert weft.equal(compiled(x), x * 2 + 1)
    assert counter.frame_count == 1


def test_saved_tensor_hooks_see_every_tensor_and_no_fakes() -> None:
    compiled, counter = counted(lambda x: (x * x).sin(), recompile_limit=2)
    seen: list[Any] = []

    def pack(value: Tensor) -> Tensor:
        seen.append(value.tolist())
        return value

    for _ in range(4):
        counts = []
        for function in (compiled, lambda x: (x * x).sin()):
            seen.clear()
            with weft.autograd.graph.saved_tensors_hooks(pack, lambda value: value):
                function(tensor().requires_grad_()).sum().backward()
            counts.append(list(seen))
        assert counts[0] == counts[1]
    assert counter.frame_count == 1


def test_checkpoint_of_a_compiled_function() -> None:
    compiled, counter = counted(lambda x: (x * x).sin().sum(), recompile_limit=2)
    for _ in range(4):
        x, y = tensor().requires_grad_(), tensor().requires_grad_()
        checkpoint(compiled, x, use_reentrant=False).backward()
        (y * y).sin().sum().backward()
        assert weft.equal(x.grad, y.grad)
    assert counter.frame_count == 1


def test_transforms_of_a_compiled_function() -> None:
    compiled, _ = counted(lambda x: (x * x).sum())
    compiled(tensor())
    assert weft.equal(weft.func.grad(compiled)(tensor()), tensor() * 2)
    assert weft.equal(weft.vmap(compiled)(weft.ones(2, 3)), weft.full((2,), 3.0))
    assert weft.equal(weft.func.hessian(compiled)(tensor()), weft.eye(3) * 2)


def test_error_while_a_graph_runs_leaves_what_eager_leaves() -> None:
    table = weft.arange(10).float()

    def f(x: Tensor, index: Tensor) -> Tensor:
        x.add_(1)
        noise = weft.rand(3)
        picked = table[index]
        x.mul_(2)
        return noise + picked + x

    good, bad = lambda: (tensor(), weft.tensor([1, 2, 3])), lambda: (tensor(), weft.tensor([1, 2, 30]))
    seed = lambda: weft.manual_seed(1) and None
    check(f, good, bad, good, state=seed, raises=IndexError, watch=lambda: weft.rand(1))


# -- limits --------------------------------------------------------------------------------------------------
def test_recompile_limit_names_the_guard_and_runs_the_original() -> None:
    compiled, counter = counted(lambda x, name: x + len(name), recompile_limit=2)
    for name in ("a", "bb"):
        compiled(tensor(), name)
    with pytest.warns(RuntimeWarning, match=r"recompile_limit.*L\['name'\] == "):
        assert weft.equal(compiled(tensor(), "ccc"), tensor() + 3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert weft.equal(compiled(tensor(), "dddd"), tensor() + 4)
    assert counter.frame_count == 2


def test_recompile_limit_raises_under_fullgraph() -> None:
    compiled, _ = counted(lambda x, name: x + len(name), recompile_limit=1, fullgraph=True)
    compiled(tensor(), "a")
    with pytest.raises(RecompileLimitExceeded, match="recompile_limit"):
        compiled(tensor(), "b")


def test_limit_of_the_settings() -> None:
    before = settings.recompile_limit
    settings.recompile_limit = 3
    try:
        compiled, counter = counted(lambda x, name: x + len(name))
        for name in "abc":
            compiled(tensor(), name)
        with pytest.warns(RuntimeWarning):
            compiled(tensor(), "d")
    finally:
        settings.recompile_limit = before
    assert counter.frame_count == 3


def test_recompiles_are_counted_with_their_reason() -> None:
    with everything_strict():
        compiled, _ = counted(lambda x, flag: x + 1 if flag else x - 1)
        compiled(tensor(), True)
        compiled(tensor(), False)
        assert list(counters["recompiles"]) == ["L['flag'] == True  # actual False"]


def test_reset_forgets() -> None:
    compiled, counter = counted(lambda x: x + 1)
    compiled(tensor())
    weft.compiler.reset()
    compiled(tensor())
    assert counter.frame_count == 2


# -- lifetimes -----------------------------------------------------------------------------------------------
def test_entries_keep_no_tensors_alive() -> None:
    compiled, _ = counted(lambda x, items: (x * 2, items[0] + 1))
    x, y = tensor(), tensor()
    references = [weakref.ref(compiled(x, [y])[0]), weakref.ref(x), weakref.ref(y)]
    del x, y
    gc.collect()
    assert [reference() for reference in references] == [None] * 3


def test_entries_keep_no_objects_alive() -> None:
    class Holder:
        def __init__(self) -> None:
            self.weight = tensor()

    def f(x: Tensor, holder: Holder) -> Tensor:
        return x * holder.weight

    compiled, counter = counted(f, fullgraph=True)
    for _ in range(3):
        holder = Holder()
        compiled(tensor(), holder)
        reference = weakref.ref(holder)
        del holder
        gc.collect()
        assert reference() is None
    assert counter.frame_count == 1


def test_compiled_function_is_freed_with_its_entries() -> None:
    def make() -> Any:
        scale = tensor()

        def f(x: Tensor) -> Tensor:
            return x * scale

        return f, weakref.ref(scale)

    f, reference = make()
    compiled, _ = counted(f)
    compiled(tensor())
    del f, compiled
    gc.collect()
    assert reference() is None


# -- threads -------------------------------------------------------------------------------------------------
def test_threads_compile_and_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "recompile_limit", 64)  # threads may all meet something new at once
    compiled, counter = counted(lambda x, n: x * n + x.shape[0])
    start = threading.Barrier(8)
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            start.wait()
            for step in range(20):
                x = tensor(*range(1, 2 + (number + step) % 4))
                assert weft.equal(compiled(x, number), x * number + x.shape[0])
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures
    assert counter.frame_count <= 64


def test_grad_mode_of_one_thread_is_not_another_s() -> None:
    compiled, _ = counted(lambda x: x * 2, fullgraph=True)
    x = tensor().requires_grad_()
    results: dict[str, bool] = {}

    def work() -> None:
        with weft.no_grad():
            results["inside"] = compiled(x).requires_grad

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    results["outside"] = compiled(x).requires_grad
    assert results == {"inside": False, "outside": True}


def test_compiled_within_backend_and_nested() -> None:
    inner, inner_counter = counted(lambda x: x * 2)
    outer, outer_counter = counted(lambda x: inner(x) + 1, fullgraph=True)
    assert weft.equal(outer(tensor()), tensor() * 2 + 1)
    assert (inner_counter.frame_count, outer_counter.frame_count) == (0, 1)


# -- functions that are not captured -------------------------------------------------------------------------
def test_generator_function_runs_as_written() -> None:
    def f(x: Tensor) -> Any:
        for step in range(3):
            received = yield x + step
            x = x if received is None else received

    compiled, counter = counted(f)
    generator = compiled(tensor())
    assert weft.equal(next(generator), tensor())
    assert weft.equal(generator.send(tensor() * 2), tensor() * 2 + 1)
    assert [value.shape for value in generator] == [(3,)]
    assert counter.frame_count == 0


def test_async_function_runs_as_written() -> None:
    async def inner(x: Tensor) -> Tensor:
        await asyncio.sleep(0)
        return x * 2

    async def f(x: Tensor) -> Tensor:
        return await inner(x) + 1

    compiled, counter = counted(f)
    assert weft.equal(asyncio.run(compiled(tensor())), tensor() * 2 + 1)
    assert counter.frame_count == 0


def test_plain_functions_under_async_code_are_compiled() -> None:
    compiled, counter = counted(lambda x: x * 2, fullgraph=True)

    async def main() -> list[Tensor]:
        async def one(number: int) -> Tensor:
            await asyncio.sleep(0)
            return compiled(tensor() * number)

        return await asyncio.gather(*[one(number) for number in range(3)])

    results = asyncio.run(main())
    assert weft.equal(results[2], tensor() * 4) and counter.frame_count == 1


# -- errors --------------------------------------------------------------------------------------------------
def test_fullgraph_raises_what_it_saw() -> None:
    def f(x: Tensor) -> Tensor:
        print("hello")
        return x + 1

    compiled, _ = counted(f, fullgraph=True)
    with pytest.raises(Unsupported, match="builtin: print"):
        compiled(tensor())


def test_errors_of_compile_itself() -> None:
    with pytest.raises(weft.compiler.CompilerError, match="nothing_of_the_kind"):
        weft.compile(lambda x: x, backend="nothing_of_the_kind")
    with pytest.raises(RuntimeError, match="mode or options"):
        weft.compile(lambda x: x, mode="default", options={"a": 1})
    with pytest.raises(RuntimeError, match="Unrecognized mode"):
        weft.compile(lambda x: x, backend="eager", mode="fastest")


def test_backend_that_fails_is_named() -> None:
    def broken(module: Any, inputs: Any) -> Any:
        raise ValueError("no such luck")

    with pytest.raises(weft.compiler.BackendCompilerFailed, match="broken.*no such luck|no such luck"):
        weft.compile(lambda x: x + 1, backend=broken)(tensor())


def test_backend_receives_the_graph_and_example_inputs() -> None:
    seen: list[Any] = []

    def backend(module: Any, inputs: list[Any]) -> Any:
        seen.append((len(list(module.graph.nodes)), [tuple(value.shape) for value in inputs]))
        return module.forward

    compiled = weft.compile(lambda x, y: x + y.sum(), backend=backend)
    compiled(tensor(), weft.ones(2, 2))
    assert seen == [(5, [(2, 2), (3,)])]  # in the order in which they are used


def test_wrong_arguments_raise_as_the_function_does() -> None:
    def f(x: Tensor, *, scale: float) -> Tensor:
        return x * scale

    compiled, _ = counted(f)
    with pytest.raises(TypeError) as expected:
        f(tensor())  # type: ignore[call-arg]
    with pytest.raises(TypeError) as actual:
        compiled(tensor())
    assert str(actual.value) == str(expected.value)


def test_compile_as_decorator_with_and_without_options() -> None:
    @weft.compile
    def plain(x: Tensor) -> Tensor:
        return x + 1

    @weft.compile(backend="eager", fullgraph=True)
    def optioned(x: Tensor) -> Tensor:
        return x + 2

    @weft.compile(disable=True)
    def disabled(x: Tensor) -> Tensor:
        return x + 3

    for extra, function in enumerate((plain, optioned, disabled), 1):
        assert weft.equal(function(tensor()), tensor() + extra)
    assert plain.__name__ == "plain" and plain.__wrapped__ is not plain


def test_methods_classmethods_and_callables_compile() -> None:
    class Model:
        def __init__(self, scale: float) -> None:
            self.scale = scale

        def run(self, x: Tensor) -> Tensor:
            return x * self.scale

        @classmethod
        def make(cls, x: Tensor) -> Tensor:
            return cls(3.0).run(x)

        def __call__(self, x: Tensor) -> Tensor:
            return self.run(x) + 1

    model = Model(2.0)
    for function, expected in (
        (model.run, tensor() * 2),
        (Model.make, tensor() * 3),
        (model, tensor() * 2 + 1),
    ):
        compiled, counter = counted(function, fullgraph=True)
        assert weft.equal(compiled(tensor()), expected) and weft.equal(compiled(tensor()), expected)
        assert counter.frame_count == 1


def test_disable_breaks_and_runs_as_written() -> None:
    @weft.compiler.disable
    def outside(x: Tensor) -> Tensor:
        assert not weft.compiler.is_compiling()
        return x * 2

    def f(x: Tensor) -> Tensor:
        assert weft.compiler.is_compiling() or True
        return outside(x + 1) + 1

    check(f, frames=2, breaks=1)


def test_is_compiling_says_so() -> None:
    compiled, _ = counted(lambda x: (x + 1, weft.compiler.is_compiling()), fullgraph=True)
    assert compiled(tensor())[1] is True


def test_explain_counts() -> None:
    def f(x: Tensor) -> Tensor:
        x = x + 1
        weft.compiler.graph_break()
        return x * 2

    output = weft.compiler.explain(f)(tensor())
    assert (output.graph_count, output.graph_break_count, output.op_count) == (2, 1, 2)


def test_graph_is_typed_and_knows_its_lines() -> None:
    graphs = EagerAndRecordGraphs()
    weft.compile(lambda x: x.sin() + 1, backend=graphs)(tensor())
    text = graphs.graphs[0].print_readable(print_output=False)
    assert 'sin: "f32[3]" = l_x_.sin()' in text and "test_recompiling.py" in text


def test_values_that_are_never_the_same_are_not_compiled_for() -> None:
    log: list[str] = []

    def report(x: Any) -> Any:
        loss = (x * x).sum()
        log.append(f"loss {loss.item():.3f}, {loss.item()!r}")
        return loss * 2

    with everything_strict():
        counter = CompileCounter()
        compiled = weft.compile(report, backend=counter)
        for number in range(30):
            assert compiled(weft.tensor([1.0, number])).item() == 2 + 2 * number**2
        assert sum(counters["recompiles"].values()) <= 16, "each text and number is given up soon"
        before = dict(counters["recompiles"])
        compiled(weft.tensor([1.0, 100.0]))
        assert dict(counters["recompiles"]) == before
    assert log[3] == "loss 10.000, 10.0" and len(log) == 31
