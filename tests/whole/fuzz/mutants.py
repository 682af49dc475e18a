"""Compile functions that are wrong on purpose: each makes one kind of mistake that capture could make.

Takes a function; gives one that is not quite the same. One idea: a fuzzer is only as good as the mistakes
it is known to find, so each of these must be found by a short run.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import io
import itertools
import types
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any

import weft

Function = Callable[..., Any]


def changing_result(change: Callable[[Any], Any]) -> Callable[[Function], Function]:
    """A mutant that applies `change` to the result and to what the result's containers hold."""

    def deep(value: Any) -> Any:
        changed = change(value)
        if changed is not value:
            return changed
        if type(value) is tuple:
            items = tuple(deep(item) for item in value)
            return items if any(one is not other for one, other in zip(items, value)) else value
        return value

    def mutant(function: Function) -> Function:
        return lambda *args, **kwargs: deep(function(*args, **kwargs))

    return mutant


def drops_argument_effects(function: Function) -> Function:
    """Writes to lists and dicts among the arguments are lost."""

    def run(*args: Any, **kwargs: Any) -> Any:
        return function(
            *[copy.copy(value) if type(value) in (list, dict) else value for value in args], **kwargs
        )

    return run


def drops_global_effects(function: Function) -> Function:
    """Rebinding a global is lost."""

    def run(*args: Any, **kwargs: Any) -> Any:
        before = function.__globals__["COUNT"]
        try:
            return function(*args, **kwargs)
        finally:
            function.__globals__["COUNT"] = before

    return run


def repeats_effects(function: Function) -> Function:
    """The last thing logged is logged twice, as when a segment is run again after a break."""

    def run(*args: Any, **kwargs: Any) -> Any:
        log = function.__globals__["LOG"]
        before = len(log)
        try:
            return function(*args, **kwargs)
        finally:
            if len(log) > before:
                log.append(log[-1])

    return run


def loses_exceptions(function: Function) -> Function:
    def run(*args: Any, **kwargs: Any) -> Any:
        with contextlib.suppress(ValueError, KeyError, IndexError):
            return function(*args, **kwargs)

    return run


def moves_exceptions(function: Function) -> Function:
    """The right class and args, raised from elsewhere."""

    def run(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except (ValueError, KeyError, IndexError) as error:
            raise error.with_traceback(None) from error.__cause__

    return run


def forgets_context(function: Function) -> Function:
    def run(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except Exception as error:
            error.__context__ = None
            raise

    return run


def swallows_output(function: Function) -> Function:
    def run(*args: Any, **kwargs: Any) -> Any:
        with contextlib.redirect_stdout(io.StringIO()):
            return function(*args, **kwargs)

    return run


def forgets_guards(function: Function) -> Function:
    """Answers with the first result whenever the arguments' types are the same."""
    kept: dict[Any, Any] = {}

    def run(*args: Any, **kwargs: Any) -> Any:
        key = (*map(type, args), *kwargs)
        if key not in kept:
            kept[key] = function(*args, **kwargs)
        return kept[key]

    return run


def drops_tensor_writes(function: Function) -> Function:
    """In-place writes reach a copy."""

    def run(*args: Any, **kwargs: Any) -> Any:
        copies = [value.clone() if isinstance(value, weft.Tensor) else value for value in args]
        back = {id(one): other for one, other in zip(copies, args)}
        result = function(*copies, **kwargs)
        return (
            tuple(back.get(id(item), item) for item in result)
            if type(result) is tuple
            else back.get(id(result), result)
        )

    return run


def leaks_grad_mode(function: Function) -> Function:
    """Leaves grad mode as it was inside the last `with`."""

    def run(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        finally:
            if "no_grad" in function.__code__.co_names:
                weft.set_grad_enabled(False)

    return run


def pollutes_globals(function: Function) -> Function:
    def run(*args: Any, **kwargs: Any) -> Any:
        function.__globals__["resume_1"] = None
        return function(*args, **kwargs)

    return run


def binds_early(function: Function) -> Function:
    """Globals are read when compiling, not when calling."""
    frozen = dict(function.__globals__)
    return types.FunctionType(
        function.__code__, frozen, function.__name__, function.__defaults__, function.__closure__
    )


def unshared_cells(value: Any) -> Any:
    """A function whose cells are copies: it no longer sees what its siblings do."""
    if not isinstance(value, types.FunctionType) or not value.__closure__:
        return value
    cells = tuple(copy_cell(cell) for cell in value.__closure__)
    made = types.FunctionType(value.__code__, value.__globals__, value.__name__, value.__defaults__, cells)
    made.__dict__.update(value.__dict__)
    made.__qualname__ = value.__qualname__
    made.__kwdefaults__ = value.__kwdefaults__
    return made


def copy_cell(cell: types.CellType) -> types.CellType:
    try:
        return types.CellType(cell.cell_contents)
    except ValueError:
        return types.CellType()


def drained(value: Any) -> Any:
    """A generator run to its end at once."""
    if not isinstance(value, types.GeneratorType):
        return value
    items = list(itertools.islice(value, 20))

    def again() -> Iterator[Any]:
        yield from items

    return again()


def reversed_dict(value: Any) -> Any:
    if type(value) is dict and len(value) > 1:
        items = list(value.items())
        value.clear()
        value.update(reversed(items))
    return value


MUTANTS: dict[str, Callable[[Function], Function]] = {
    "drops_argument_effects": drops_argument_effects,
    "drops_global_effects": drops_global_effects,
    "repeats_effects": repeats_effects,
    "loses_exceptions": loses_exceptions,
    "moves_exceptions": moves_exceptions,
    "forgets_context": forgets_context,
    "swallows_output": swallows_output,
    "forgets_guards": forgets_guards,
    "drops_tensor_writes": drops_tensor_writes,
    "leaks_grad_mode": leaks_grad_mode,
    "pollutes_globals": pollutes_globals,
    "binds_early": binds_early,
    "reorders_dicts": changing_result(reversed_dict),
    "copies_lists": changing_result(lambda value: list(value) if type(value) is list else value),
    "copies_tensors": changing_result(
        lambda value: value.clone() if isinstance(value, weft.Tensor) else value
    ),
    "restrides": changing_result(
        lambda value: (
            value.contiguous() if isinstance(value, weft.Tensor) and not value.is_contiguous() else value
        )
    ),
    "detaches": changing_result(
        lambda value: value.detach() if isinstance(value, weft.Tensor) and value.requires_grad else value
    ),
    "widens_ints": changing_result(lambda value: float(value) if type(value) is int else value),
    "numbers_bools": changing_result(lambda value: int(value) if type(value) is bool else value),
    "flattens_classes": changing_result(
        lambda value: (
            dict(value) if isinstance(value, (OrderedDict, dict)) and type(value) is not dict else value
        )
    ),
    "unshares_cells": changing_result(unshared_cells),
    "drains_generators": changing_result(drained),
    "copies_objects": changing_result(
        lambda value: (
            copy.copy(value)
            if type(value).__module__ == "fuzzed_program"
            and hasattr(value, "__dict__")
            and not isinstance(value, (type, types.FunctionType))
            else value
        )
    ),
    "wraps_functions": changing_result(
        lambda value: functools.partial(value) if isinstance(value, types.FunctionType) else value
    ),
}


# -- mistakes in differentiation ---------------------------------------------------
def gradients_kept(function: Function, change: Callable[[weft.Tensor], None]) -> Function:
    """Runs `change` on the leaves that programs of tape_programs.py differentiate by."""

    def run(*args: Any, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        change(function.__globals__["W"])
        return result

    return run


def renew_gradient(leaf: weft.Tensor) -> None:
    if leaf.grad is not None:
        leaf.grad = leaf.grad.clone()


def zero_gradient(leaf: weft.Tensor) -> None:
    if leaf.grad is None:
        leaf.grad = weft.zeros_like(leaf)


def without_hooks(function: Function) -> Function:
    """Hooks that the function registers are lost."""

    def run(*args: Any, **kwargs: Any) -> Any:
        before = weft.Tensor.register_hook
        weft.Tensor.register_hook = lambda self, hook: contextlib.nullcontext()  # type: ignore[method-assign, assignment, return-value]
        try:
            return function(*args, **kwargs)
        finally:
            weft.Tensor.register_hook = before  # type: ignore[method-assign]

    return run


def draws_more(function: Function) -> Function:
    """One random number more than asked for."""

    def run(*args: Any, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        weft.rand(())
        return result

    return run


def through_once(value: Any) -> Any:
    """First gradients right, second ones lost."""

    class Once(weft.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: weft.Tensor) -> weft.Tensor:
            return x.clone()

        @staticmethod
        def backward(ctx: Any, g: weft.Tensor) -> weft.Tensor:
            return g.detach()

    return Once.apply(value) if isinstance(value, weft.Tensor) and value.requires_grad else value


TAPE_MUTANTS: dict[str, Callable[[Function], Function]] = {
    "renews_gradients": lambda function: gradients_kept(function, renew_gradient),
    "zeroes_gradients": lambda function: gradients_kept(function, zero_gradient),
    "bumps_versions": lambda function: gradients_kept(
        function, lambda leaf: weft.autograd.graph.increment_version(leaf)
    ),
    "loses_hooks": without_hooks,
    "draws_more": draws_more,
    "differentiates_once": changing_result(through_once),
    "detaches_results": MUTANTS["detaches"],
    "copies_results": MUTANTS["copies_tensors"],
}
