"""Callbacks around compilations, and what runs while code is captured."""

from __future__ import annotations

from typing import Any

import pytest

import weft
from weft.compat.torch_internals import compiling
from weft.testing.backends import CompileCounter


def test_callbacks_surround_each_compilation() -> None:
    seen: list[str] = []
    handler = compiling.CallbackHandler()
    handler.register_start_callback(lambda args: seen.append(f"start {args.callback_trigger.name}"))
    handler.register_end_callback(lambda args: seen.append("end"))

    def broken(x: Any) -> Any:
        x = x + 1
        weft.compiler.graph_break()
        return x.sin()

    try:
        weft.compile(broken, backend="eager")(weft.ones(2))
        assert seen == ["start DYNAMO", "end"] * 2
    finally:
        handler.clear()
    weft.compile(lambda x: x * 3, backend="eager")(weft.ones(2))
    assert len(seen) == 4


def test_a_callback_may_be_removed() -> None:
    handler = compiling.CallbackHandler()
    seen: list[Any] = []
    for register, remove in (
        (handler.register_start_callback, handler.remove_start_callback),
        (handler.register_end_callback, handler.remove_end_callback),
    ):
        remove(register(seen.append))
    try:
        weft.compile(lambda x: x * 5, backend="eager")(weft.ones(2))
        assert not seen
    finally:
        handler.clear()


def test_comptime_breaks_and_says_nothing_else() -> None:
    counter = CompileCounter()

    def program(x: Any) -> Any:
        y = x * 2
        compiling.comptime.graph_break()
        return y * 2

    assert weft.compile(program, backend=counter)(weft.ones(2)).tolist() == [4.0, 4.0]
    assert counter.frame_count == 2
    assert compiling.comptime(lambda context: 1) is None
    assert compiling.comptime.print_graph() is None


def test_what_was_compiled_of_a_function() -> None:
    def compiled(x: Any) -> Any:
        return x + 1

    weft.compile(compiled, backend="eager")(weft.ones(2))
    assert len(compiling._debug_get_cache_entry_list(compiled)) == 1
    assert compiling._debug_get_cache_entry_list((lambda x: x).__code__) == []
    with pytest.raises(TypeError, match="expected a code object!"):
        compiling._debug_get_cache_entry_list(1)


def test_settings_for_a_while() -> None:
    with compiling.patch_dynamo_config(verbose=True):
        assert compiling.dynamo.verbose
    assert not compiling.dynamo.verbose
    with compiling.error_on_graph_break(False):
        pass
    assert compiling.dont_skip_tracing(len) is len
    assert compiling.dont_skip_tracing()(len) is len
    assert compiling.substitute_in_graph(len)(sum) is sum
