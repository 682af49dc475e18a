"""Records a call on fakes of its arguments, and compares what the graph does with what eager does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import weft
from weft.core import generator
from weft.core.trees import flatten
from weft.graph.graph import Graph
from weft.trace.fake import Originals, fake_of, is_fake
from weft.trace.module import GraphModule
from weft.trace.recorder import Recorder


class Recording:
    """A recorded call: its graph, the fakes it was made with and what it gave."""

    def __init__(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        self.graph = Graph()
        self.inputs: list[Any] = []
        self.recorder = Recorder(self.graph, self.on_input)
        originals = Originals()
        flat, build = flatten((args, kwargs))
        self.reals = tensors_in((args, kwargs))
        self.fakes = [fake_of(leaf, originals) if isinstance(leaf, weft.Tensor) else leaf for leaf in flat]
        for fake in tensors_in(self.fakes):
            if not self.recorder.is_input(fake):
                self.recorder.bind(fake, self.graph.placeholder(f"x{len(self.inputs)}", val=fake))
                self.inputs.append(fake)
        given, given_kwargs = build(self.fakes)
        offset = generator.default_generator.get_offset()
        with self.recorder:
            self.result = function(*given, **given_kwargs)
        assert generator.default_generator.get_offset() == offset
        self.recorder.finish()
        self.graph.output(self.recorder.argument(self.result))
        self.graph.lint()

    def on_input(self, value: Any) -> Any:
        raise AssertionError(f"{value!r} is no input and no recorded call made it")

    def run(self) -> Any:
        """The graph on the real inputs, each given once."""
        seen: dict[int, Any] = {id(tensor): tensor for tensor in self.reals}
        return GraphModule(weft.nn.Module(), self.graph)(*seen.values())

    @property
    def targets(self) -> list[Any]:
        return [node.target for node in self.graph.nodes if node.op not in ("placeholder", "output")]


def tensors_in(tree: Any) -> list[Any]:
    return [leaf for leaf in flatten(tree)[0] if isinstance(leaf, weft.Tensor)]


def type_facts(tensor: Any) -> tuple[Any, ...]:
    return tuple(tensor.shape), tensor.dtype, tensor.requires_grad, tensor.is_leaf


def same_elements(a: Any, b: Any) -> bool:
    return bool(np.array_equal(a.array, b.array, equal_nan=a.array.dtype.kind in "fc"))


def shared_with(tensor: Any, inputs: list[Any]) -> list[bool]:
    return [bool(np.shares_memory(tensor.array, other.array)) for other in inputs]


def check(function: Callable[..., Any], make: Callable[[], Any], elements: bool = True) -> Recording:
    """Fails unless recording the call and running the graph does what the call does; `make` gives fresh
    arguments (args, kwargs).
    """
    weft.manual_seed(1)
    args, kwargs = make()
    weft.manual_seed(0)
    wanted = function(*args, **kwargs)
    weft.manual_seed(1)
    recording = Recording(function, *(again := make())[0], **again[1])
    weft.manual_seed(0)
    got = recording.run()
    assert type(got) is type(wanted)
    before, after = tensors_in((args, kwargs)), recording.reals
    fakes = tensors_in(recording.fakes)
    triples = zip(tensors_in(wanted), tensors_in(recording.result), tensors_in(got), strict=True)
    for eager, fake, graphed in triples:
        assert is_fake(fake)
        assert type_facts(eager) == type_facts(fake) == type_facts(graphed)
        assert eager.stride() == graphed.stride()
        if fake.array.exact:
            assert fake.stride() == eager.stride()
        assert not elements or same_elements(eager, graphed)
        shared = shared_with(eager, before)
        assert shared == shared_with(graphed, after)
        if eager.array.size:
            told = [fake is other or (type(fake.cell) is list and fake.cell is other.cell) for other in fakes]
            assert [t for t, x in zip(told, before, strict=True) if x.array.size] == [
                s for s, x in zip(shared, before, strict=True) if x.array.size
            ]
    for eager, graphed in zip(before, after, strict=True):
        assert type_facts(eager) == type_facts(graphed) and same_elements(eager, graphed)
    return recording
