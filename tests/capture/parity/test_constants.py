"""Things that are known while capturing: numbers in new tensors, addresses, annotations."""

from __future__ import annotations

import typing

import weft
from tests.capture.features.harness import check, tensor

Word = typing.TypeVar("Word")
table = {"a": 1}


class Thing:
    pass


def test_numbers_in_new_tensors_are_known():
    def function(x):
        index = weft.tensor(1)
        sizes = x.reshape(-1, x.shape[index])
        kept = index.item()
        index.add_(1)
        return (
            sizes,
            [x, x + 1, x + 2][weft.as_tensor(2)],
            kept,
            float(weft.tensor(0.1)),
            int(weft.tensor(2.7)),
        )

    check(function, lambda: (weft.ones(2, 3, 4),))


def test_numbers_that_were_written_over_are_not():
    def function(x):
        number = weft.tensor(3)
        number.view(1).add_(1)
        return x + number.item()

    check(function, frames=2, breaks=1)


def test_addresses_of_objects_that_existed_before():
    things = [Thing(), Thing()]

    def function(x, thing):
        memo = {id(table): True, id(thing): 2}
        return (x + 1 if id(table) in memo else x), id(thing) == id(things[0])

    check(function, lambda: (tensor(), things[0]), lambda: (tensor(), things[1]), frames=2)


def test_addresses_of_new_objects_break():
    check(lambda x: (x + 1, id(Thing()) > 0), breaks=1)


def test_annotations_of_inner_functions():
    def function(x):
        def total(values: typing.List[Thing], rest: list[Thing] | None = None) -> weft.Tensor:  # noqa: UP006
            return values[0] + 1

        def call(function: typing.Callable[[Word], Word], value: Word) -> Word:
            return function(value)

        return call(total, [x]), total

    check(function, after=lambda result: str(typing.get_type_hints(result[1])["values"]))


def test_what_stands_for_a_tensor():
    class Wrapper:
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return weft.tensor(123)

    def function(x, value):
        return x * 2 if weft.overrides.is_tensor_like(value) else x + 3

    check(
        function,
        lambda: (tensor(), tensor()),
        lambda: (tensor(), 4),
        lambda: (tensor(), Wrapper()),
        frames=3,
    )


def test_numbers_by_functions_of_the_library():
    def function(x):
        weft._assert(x.shape[0] > 1, f"shape {x.shape}")
        rows, columns = x.shape
        sizes = weft.sym_max(rows, columns), weft.sym_min(rows, 3), weft.sym_sum([rows, columns])
        words = weft.sym_not(rows > 2), weft.sym_int(2.7), weft.sym_float(rows), weft.sym_ite(rows > 2, 1, 2)
        return x + sizes[0], sizes, words, weft.compiler.is_exporting()

    shapes = (2, 3), (4, 3), (5, 6), (1, 2)
    check(
        function,
        *[lambda shape=shape: (weft.ones(*shape),) for shape in shapes],
        raises=AssertionError,
        frames=None,
    )


def test_tensors_for_numbers_break():
    check(lambda x, k: weft.topk(x + 1, k).values, lambda: (tensor(), weft.tensor(2)), breaks=1, frames=None)
    check(lambda x: x.permute(*weft.tensor([1, 0])), lambda: (weft.ones(2, 3),), breaks=None, frames=None)
    check(lambda x, n: (x + 1, weft.arange(n)), lambda: (tensor(), weft.tensor(3)), breaks=1)
