"""Failures: graphs that fail, and errors after breaks, show what the original shows."""

from __future__ import annotations

from typing import Any

import weft
from tests.capture.attacks.scenario import Compile, same, tensor
from tests.capture.attacks.watching import watch


def test_a_failed_graph_does_not_stand_beside_its_original_in_tracebacks() -> None:
    def scenario(compile: Compile) -> Any:
        def inner(x: Any, index: Any) -> Any:
            return (x * 2)[index]

        def forward(x: Any, index: Any, log: list[Any]) -> Any:
            x.add_(1)
            log.append(x)
            return inner(x, index)

        compiled = compile(forward)
        return [watch(compiled, tensor(), weft.tensor([index]), []) for index in (1, 5, 2, 7)]

    same(scenario, frames=1, breaks=0)


def test_a_failed_graph_of_a_method_with_starred_arguments() -> None:
    def scenario(compile: Compile) -> Any:
        class Thing:
            def forward(*args: Any) -> Any:
                args[1].mul_(2)
                return args[1][args[2]]

        compiled = compile(Thing().forward)
        return [watch(compiled, tensor(), weft.tensor([index])) for index in (1, 5)]

    same(scenario, frames=1, breaks=0)


def test_errors_of_graphs_that_the_program_catches_itself() -> None:
    def scenario(compile: Compile) -> Any:
        def forward(a: Any, log: list[Any]) -> Any:
            a.mul_(2)
            log.append(1)
            noise = weft.rand(2)
            try:
                log.append(2)
                result = weft.linalg.inv(a)
            except RuntimeError as error:
                log.append(type(error).__name__)
                result = a + weft.rand(2)
            finally:
                a.sub_(1)
            return result, noise

        compiled = compile(forward)
        weft.manual_seed(0)
        matrices = [weft.eye(2), weft.zeros(2, 2), weft.eye(2), weft.ones(2, 2)]
        return [watch(compiled, matrix, []) for matrix in matrices]

    same(scenario, frames=1)


def test_what_runs_uncompiled_after_a_break_stands_alone_in_tracebacks() -> None:
    def scenario(compile: Compile) -> Any:
        def forward(x: Any) -> Any:
            error = 1
            try:
                raise ValueError(1)
            except ValueError as error:  # noqa: F841
                x = x + 1
            try:
                print(error)
            except NameError as missing:
                print(missing)
            return x, error

        return [watch(compile(forward), tensor()) for _ in range(2)]

    same(scenario)


def test_subscripting_literals_at_a_break_warns_of_nothing() -> None:
    def scenario(compile: Compile) -> Any:
        def forward(x: Any, five: Any = 5) -> Any:
            y = x + 1
            try:
                five[0]
            except TypeError as error:
                print(error, y.sum().item())
                five[0]

        return watch(compile(forward), tensor())

    same(scenario)
