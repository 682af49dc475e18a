"""Compiling the same function again, and reusing what is compiled."""

from __future__ import annotations

import weft
from tests.capture.features.harness import tensor
from weft.testing import CompileCounter


def test_a_function_compiled_again_for_a_backend_has_its_entries():
    def function(x):
        return x.sin() + x.cos()

    for counter in (CompileCounter(), CompileCounter()):
        for _ in range(3):
            weft.compile(function, backend=counter)(tensor())
        assert counter.frame_count == 1
        weft.compile(function, backend=counter, dynamic=True)(tensor())
        assert counter.frame_count == 2


def test_functions_of_one_code_have_entries_of_their_own():
    counter = CompileCounter()
    compiled = [weft.compile(lambda x, n=n: x * n, backend=counter, fullgraph=True) for n in range(20)]
    assert [f(tensor(1.0)).item() for f in compiled] == list(range(20))


def test_functions_that_only_reuse_are_captured_by_others():
    inner, outer = CompileCounter(), CompileCounter()

    @weft.compiler.run()
    def reused(x):
        return x.sin() * 10

    compiled = weft.compile(lambda x: reused(x) + 1, backend=inner, fullgraph=True)
    weft.compile(lambda x: compiled(x).relu(), backend=outer, fullgraph=True)(tensor())
    assert (inner.frame_count, outer.frame_count, outer.op_count) == (0, 1, 4)


def test_reusing_compiles_nothing():
    counter = CompileCounter()
    compiled = weft.compile(lambda x: x.cos() + 1, backend=counter)
    compiled(tensor())
    reused = weft.compiler.run(compiled)
    assert reused(weft.ones(2, 2)).shape == (2, 2) and counter.frame_count == 1
    assert compiled(weft.ones(2, 2)).shape == (2, 2) and counter.frame_count == 2


def test_those_who_want_to_know_of_guards_are_told():
    made, failed = [], []
    compiled = weft.compiler.optimize(
        "eager", nopython=True, guard_export_fn=made.extend, guard_fail_fn=failed.append
    )(lambda x, n: x + n)
    compiled(tensor(), 2)
    assert made and not failed
    compiled(weft.ones(2, 2), 2)
    assert len(failed) == 1 and "L['x']" in failed[0].reason and failed[0][0] is failed[0].reason
    assert failed[0].orig_code.co_name == "<lambda>"
