"""How much suites over samples leave out: by dtype, and that no words of the list have become idle."""

from __future__ import annotations

import warnings
from collections import Counter
from functools import cache

import pytest

import weft
from tests import refusals
from tests.whole.test_alien_samples import OPS, REFUSED, results, run, stored, written
from weft.core import dtypes
from weft.ops.record import Kind
from weft.ops.samples import Maker

LEAST = {"float32": 1.0, "float64": 1.0, "bfloat16": 0.84, "int64": 0.67, "uint8": 0.67, "complex64": 0.63,
         "bool": 0.53}  # fmt: skip
"""The part of all samples that eager code takes."""


@cache
def met(name: str) -> tuple[int, int, Counter[refusals.Words]]:
    """How many samples of a dtype are taken, how many are refused, and in which words."""
    kind: dtypes.dtype = getattr(weft, name)
    taken, refused, words = 0, 0, Counter[refusals.Words]()
    for op in OPS:
        assert op.samples is not None
        try:
            samples = list(op.samples(Maker(kind)))
        except ValueError as error:  # numbers below zero
            assert kind is weft.uint8 and str(error) == "high <= 0", op
            continue
        for sample in samples:
            try:
                run(results, op, sample, False, 0)
                taken += 1
            except Exception as error:
                refused += 1
                listed = [each for each in refusals.of_dtype(kind) if refusals.is_listed(error, [each], kind)]
                assert listed, f"{op} of {kind}: {type(error).__name__}: {error}"
                words.update(listed)
    return taken, refused, words


@pytest.mark.parametrize("name", LEAST)
def test_samples_that_are_taken(name: str) -> None:
    taken, refused, _ = met(name)
    assert taken > 1400 and taken / (taken + refused) >= LEAST[name], (taken, refused)


def test_words_about_dtypes_are_all_met() -> None:
    listed = {
        *refusals.OF_DTYPE,
        *refusals.OF_WHOLE_NUMBERS,
        *refusals.OF_BOOLS,
        *refusals.OF_COMPLEX_NUMBERS,
    }
    assert listed == {words for name in LEAST for words in met(name)[2]}


def test_gradients_and_forms_that_are_taken() -> None:
    counts, words = Counter[str](), set()
    for op in OPS:
        assert op.samples is not None
        forms = [(written, 0)] * bool(op.inplace) + [(stored, 0)] * bool(op.out)
        if op.kind not in (Kind.CREATE, Kind.RANDOM):
            forms.append((results, 2))
        for form, order in forms:
            listed = refusals.OF_GRADIENTS if order else REFUSED[form]
            for sample in op.samples(Maker()):
                try:
                    run(form, op, sample, False, order)
                    counts[form.__name__] += 1
                except Exception as error:
                    found = [each for each in listed if refusals.is_listed(error, [each])]
                    assert found, f"{form.__name__} of {op}: {type(error).__name__}: {error}"
                    words.update(found)
                    counts[f"{form.__name__} refused"] += 1
    assert {*refusals.OF_GRADIENTS, refusals.OF_WRITES[0]} == words
    assert counts["results refused"] / counts["results"] < 0.06, counts
    assert counts["written refused"] / counts["written"] < 0.14, counts
    assert not counts["stored refused"], counts


def test_what_is_not_listed_is_raised() -> None:
    spelt_wrongly = TypeError("_view() takes 2 positional arguments but 3 were given")
    for error, kind in [
        (spelt_wrongly, weft.int64),
        (NotImplementedError("\"abs_cpu\" not implemented for 'Bool'"), weft.float32),  # takes everything
        (NotImplementedError("\"abs_cpu\" not implemented for 'Bool'"), weft.int64),  # another dtype's words
        (ValueError("\"abs_cpu\" not implemented for 'Bool'"), weft.bool),  # another class
        (NotImplementedError("\"abs_cpu\" not implemented for 'Bool', too"), weft.bool),  # longer
    ]:
        with pytest.raises(type(error)):
            refusals.expect(error, kind)
    refusals.expect(NotImplementedError("\"abs_cpu\" not implemented for 'Bool'"), weft.bool)
    refusals.expect(spelt_wrongly, weft.int64, (TypeError, r"_view\(\) takes .*"))


@pytest.fixture(autouse=True)
def _quiet() -> object:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
