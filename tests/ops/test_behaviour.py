"""What calls of ops do, by their records and the bodies of composites, held against what their kernels do."""

from __future__ import annotations

import warnings
import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import weft
from tests import refusals
from weft.core.dtypes import dtype_of, float32, int64
from weft.core.types import TensorType
from weft.ops.behaviour import Behaviour, behaviour, follows_body
from weft.ops.facts import DEFAULTS, OpFacts
from weft.ops.record import REGISTRY, Kind, Op, ops
from weft.ops.samples import Maker, Sample
from weft.ops.signature import flatten_variadic

FLOATS, INTEGERS = TensorType((2, 2), float32), TensorType((2, 2), int64)


def typed(value: Any) -> Any:
    """Arguments with types in place of arrays."""
    if isinstance(value, np.ndarray):
        return TensorType(value.shape, dtype_of(value))
    return type(value)(map(typed, value)) if type(value) in (tuple, list) else value


def bound_to(op: Op, sample: Sample) -> tuple[Any, ...]:
    args = tuple(sample.args)
    for position, parameter in enumerate(op.signature.parameters):
        if parameter.variadic:
            args = (*args[:position], flatten_variadic(args[position:]))
    return op.signature.bind(args, dict(sample.kwargs))


def of_call(op: Any, *args: Any, **kwargs: Any) -> Behaviour:
    return behaviour(op, op.signature.bind(args, kwargs))


def test_a_composite_refuses_what_its_ops_refuse() -> None:
    cross_entropy = REGISTRY["nn.functional.cross_entropy"]
    assert of_call(cross_entropy, FLOATS, TensorType((2,), int64)).refuses
    assert not of_call(cross_entropy, FLOATS, FLOATS).refuses
    assert of_call(REGISTRY["linalg.matrix_power"], FLOATS, -1).refuses
    assert not of_call(REGISTRY["linalg.matrix_power"], FLOATS, 2).refuses
    assert not of_call(ops.reshape, FLOATS, (4,)).refuses
    assert of_call(REGISTRY["nn.functional.one_hot"], INTEGERS, 3).refuses


def test_indices_that_a_body_has_found_itself_are_not_refused() -> None:
    assert not of_call(ops.cummax, FLOATS, 0).refuses
    assert of_call(ops.take_along_dim, FLOATS, INTEGERS, 0).refuses


def test_what_a_composite_draws_and_writes_depends_on_the_call() -> None:
    dropout = REGISTRY["nn.functional.dropout"]
    assert of_call(dropout, FLOATS, 0.5, True).draws
    assert of_call(dropout, FLOATS, 0.5, False) == Behaviour(False, False)
    assert of_call(dropout, FLOATS, 0.5, True).writes == ()
    assert of_call(dropout, FLOATS, 0.5, True, True).writes == (0,)
    batch_norm = REGISTRY["nn.functional.batch_norm"]
    statistics = TensorType((2,), float32), TensorType((2,), float32)
    assert of_call(batch_norm, FLOATS, *statistics, training=True).writes == (1, 2)
    assert of_call(batch_norm, FLOATS, *statistics, training=False).writes == ()
    assert of_call(batch_norm, FLOATS, None, None, training=True).writes == ()
    embedding = REGISTRY["nn.functional.embedding"]
    assert of_call(embedding, INTEGERS, FLOATS, max_norm=1.0).writes == (1,)
    assert of_call(embedding, INTEGERS, FLOATS).writes == ()


def test_bodies_are_run_without_drawing() -> None:
    before = weft.default_generator.get_state()
    pool = REGISTRY["nn.functional.fractional_max_pool2d"]
    images = TensorType((1, 1, 4, 4), float32)
    assert of_call(pool, images, 2, 3).draws
    assert weft.equal(before, weft.default_generator.get_state())


def test_writes_to_views_of_an_argument_are_writes_to_it() -> None:
    op = Op.__new__(Op)
    for field, default in DEFAULTS.items():
        setattr(op, field, default)
    op.name, op.kind, op.body = "of_view", Kind.COMPOSITE, lambda x, y: ops.transpose(y, 0, 1).add_(x)
    op.rule = op.kernel = op.promotion = None
    assert behaviour(op, (FLOATS, FLOATS)) == Behaviour(False, False, (1,))
    op.body = lambda x, y: ops.add(x, y).add_(x)
    assert behaviour(op, (FLOATS, TensorType((2, 2), float32))).writes == (1,), "what was found is kept"
    other = Op.__new__(Op)
    for field in Op.__slots__:
        if hasattr(op, field):
            setattr(other, field, getattr(op, field))
    assert behaviour(other, (FLOATS, FLOATS)) == Behaviour(False, False)


def test_every_composite_runs_on_types_or_says_what_it_does() -> None:
    unknown = set()
    for name, op in REGISTRY.items():
        if op.samples is None or not follows_body(op):
            continue
        for sample in op.samples(Maker()):
            bound = typed(bound_to(op, sample))
            if behaviour(op, bound) == Behaviour(True, True, tuple(range(len(bound)))):
                unknown.add(name)
    assert not unknown - {"nn.functional.fractional_max_pool2d", "nn.functional.fractional_max_pool3d"}


def test_the_facts_of_a_record_are_its_fields() -> None:
    assert set(DEFAULTS) == set(OpFacts.__annotations__)
    made = {"name", "kind", "signature", "known", "known_scalar", "face", "operands", "alike", "paths"}
    fields = set(Op.__slots__) - made
    assert fields - {"kernel", "rule", "promotion", "body"} == set(DEFAULTS)


def test_an_op_that_says_nothing_may_do_anything() -> None:
    unknown = Op.__new__(Op)
    for field, default in DEFAULTS.items():
        setattr(unknown, field, default)
    unknown.name, unknown.kind, unknown.body = "unknown", Kind.INDEX, None
    assert behaviour(unknown, (FLOATS,)) == Behaviour(True, True)
    assert unknown.shares_memory and not unknown.cheap and not unknown.exact


BAD = {"b": (0, 1), "i": (0, 1, 1000, -1, -1000), "u": (0, 1, 100),
       "f": (0.0, 1.0, -1.0, -2.5, 1e4, np.nan, np.inf, -np.inf)}  # fmt: skip
SHARES = 12


def arrays_in(value: Any) -> Iterator[Any]:
    if isinstance(value, np.ndarray):
        yield value
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from arrays_in(item)


def replaced(value: Any, arrays: Iterator[Any]) -> Any:
    if isinstance(value, np.ndarray):
        return weft.from_numpy(next(arrays).copy())
    return type(value)(replaced(each, arrays) for each in value) if type(value) in (tuple, list) else value


def call(op: Op, sample: Sample, arrays: list[Any]) -> None:
    left = iter(arrays)
    args = replaced(sample.args, left)
    op.face(*args, **{name: replaced(value, left) for name, value in sample.kwargs.items()})


def accepts(op: Op, sample: Sample, arrays: list[Any]) -> bool:
    """Whether a call with other data does not raise."""
    try:
        call(op, sample, arrays)
    except Exception:  # whatever it is, the op must be known to refuse data
        return False
    return True


def changed(array: Any) -> Iterator[Any]:
    """Arrays of the same type with bad data: everywhere (matrices are singular), or as one element."""
    values = [
        value
        for value in BAD["f" if array.dtype.kind in "fcV" else array.dtype.kind]
        if array.dtype.itemsize > 1 or abs(value) < 128
    ]
    yield from (np.full_like(array, value) for value in values)
    for value in values if array.size else ():
        copy = array.copy()
        copy.flat[-1] = value
        yield copy


def refused(op: Op) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Data that an op refuses though it takes others of the same types, with those types."""
    assert op.samples is not None
    for kind in (weft.float32, weft.int64, weft.complex64, weft.bool):
        for sample in op.samples(Maker(kind)):
            arrays = [*arrays_in((sample.args, list(sample.kwargs.values())))]
            try:
                call(op, sample, arrays)
            except Exception as error:
                refusals.expect(error, kind)
                continue
            types = typed(bound_to(op, sample))
            for place, array in enumerate(arrays):
                for bad in changed(array):
                    if not accepts(op, sample, [*arrays[:place], bad, *arrays[place + 1 :]]):
                        yield types, bad


def result_of(op: Op, types: tuple[Any, ...]) -> Any:
    return op.on_types(types) if op.refuses == "zero divisors" else None


@pytest.mark.parametrize("shares", [[0], pytest.param(range(1, SHARES), marks=pytest.mark.slow)])
def test_ops_that_refuse_data_are_known(shares: Any) -> None:
    wrong = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, op in REGISTRY.items():
            if op.samples is not None and zlib.crc32(name.encode()) % SHARES in shares:
                for types, bad in refused(op):
                    if not behaviour(op, types, result_of(op, types)).refuses:
                        wrong[name] = bad
    assert not wrong


@pytest.mark.parametrize("kind", [weft.float32, weft.int64, weft.bool])
def test_results_that_share_no_memory(kind: Any) -> None:
    wrong = set()
    for name, op in REGISTRY.items():
        if op.samples is None or op.composed or op.shares_memory:
            continue
        for sample in op.samples(Maker(kind)):
            bound = bound_to(op, sample)
            try:
                op.on_types(typed(bound))
                results = [*arrays_in(op.on_arrays(bound))]
            except Exception as error:
                refusals.expect(error, kind)
                continue
            if any(np.shares_memory(a, b) for a in results for b in arrays_in(bound) if a.size and b.size):
                wrong.add(name)
    assert not wrong
