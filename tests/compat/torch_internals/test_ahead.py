"""`aot_function`: compilers see forward and backward."""

from __future__ import annotations

import weft
from weft.compat.torch_internals.ahead import AOTAutogradCache, aot_function, aot_module, make_boxed_func, nop


def test_compilers_see_both_directions():
    seen = []

    def compiler(graph_module, inputs):
        seen.append(len(inputs))
        return make_boxed_func(graph_module)

    x = weft.ones(3, requires_grad=True)
    aot_function(lambda x: (x.sin() * 2).sum(), fw_compiler=compiler, bw_compiler=nop)(x).backward()
    assert len(seen) == 1
    assert weft.allclose(x.grad, 2 * weft.ones(3).cos())
    layer = weft.nn.Linear(3, 1)
    assert weft.allclose(aot_module(layer, nop)(weft.ones(2, 3)), layer(weft.ones(2, 3)))


def test_what_was_compiled_is_forgotten():
    counter = weft.testing.CompileCounter()
    function = weft.compile(lambda x: x + 1, backend=counter)
    function(weft.ones(2))
    AOTAutogradCache.clear()
    function(weft.ones(2))
    assert counter.frame_count == 2
