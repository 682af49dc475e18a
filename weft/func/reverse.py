"""Reverse-mode transforms: `grad`, `grad_and_value`, `vjp`, `jacrev`.

Each takes a function and gives a function (or, `vjp`, a result and the function that pulls gradients
back). They nest with each other and with vmap and forward mode in any order; see Note [Levels without
wrappers] in `weft.autograd.entries`.
"""

from __future__ import annotations

from functools import wraps
from math import prod
from typing import Any

from weft.autograd.entries import Differentiation, whole
from weft.autograd.mapping import structure, vmap
from weft.autograd.reverse import gradients
from weft.core import modes
from weft.core.contexts import set_to
from weft.core.trees import flatten
from weft.func.arguments import (
    Argnums,
    Function,
    check_aux,
    check_filled,
    check_real,
    check_tensors,
    chosen,
    replaced,
    split_aux,
)
from weft.ops.record import ops
from weft.tensor.base import Tensor
from weft.tensor.tape import transforming
from weft.tensor.wrapper import highest

GRAD = "grad_and_value(f)(*args)"
VJP = "vjp(f, *primals)"


def _filled(values: list[Any], like: list[Any]) -> list[Any]:
    """Gradients, with zeros where the function does not depend on an argument."""
    return [ops.zeros_like(x) if value is None else value for value, x in zip(values, like, strict=True)]


def _needs_graph(run: Differentiation, outputs: list[Any], seeds: list[Any]) -> bool:
    return modes.grad_enabled() and (run.followed(outputs) or any(seed.requires_grad for seed in seeds))


def grad_and_value(func: Function, argnums: Argnums = 0, has_aux: bool = False) -> Function:
    """The function that gives the gradient of `func`, a function with one number as its result, and that
    number."""

    @wraps(func)
    def differentiated(*args: Any, **kwargs: Any) -> Any:
        leaves, build = flatten(chosen(args, argnums))
        with Differentiation() as run:
            entries = [run.enter(leaf) for leaf in leaves]
            outputs = func(*replaced(args, argnums, build(entries)), **kwargs)
            output, aux = split_aux(outputs, has_aux, GRAD)
            if has_aux:
                check_aux(aux)
            if not isinstance(output, Tensor):
                raise RuntimeError(f"{GRAD}: Expected f(*args) to return a Tensor, got {type(output)}")
            if output.ndim:
                raise RuntimeError(
                    f"{GRAD}: Expected f(*args) to return a scalar Tensor, got tensor with {output.ndim} "
                    "dims. Maybe you wanted to use the vjp or jacrev APIs instead?"
                )
            if output.is_complex():
                raise RuntimeError(
                    f"grad can be implicitly created only for real scalar outputs but got {output.dtype}"
                )
            found: list[Any] = [None] * len(entries)
            if output.requires_grad:
                found = gradients([output], entries, [ops.ones_like(output)], run.followed([output]))
        results = build([*_filled(found, leaves)])
        value = run.left(output)
        run.pruned([*found, value, *flatten(aux)[0]])
        return (results, (value, run.left(aux))) if has_aux else (results, value)

    return differentiated


def grad(func: Function, argnums: Argnums = 0, has_aux: bool = False) -> Function:
    """The function that gives the gradient of `func`, a function with one number as its result."""
    both = grad_and_value(func, argnums, has_aux)

    @wraps(func)
    def differentiated(*args: Any, **kwargs: Any) -> Any:
        results, value = both(*args, **kwargs)
        return (results, value[1]) if has_aux else results

    return differentiated


def vjp(func: Function, *primals: Any, has_aux: bool = False) -> Any:
    """The function's result, and the function from gradients of the result to gradients of the arguments (a
    tuple)."""
    return pulled_back(func, primals, None, has_aux)


def pulled_back(func: Function, args: tuple[Any, ...], argnums: Argnums | None, has_aux: bool) -> Any:
    """As `vjp`, for the arguments that argnums names."""
    wanted = args if argnums is None else chosen(args, argnums)
    leaves, build = flatten(wanted)
    with Differentiation() as run:
        entries = [run.enter(leaf) for leaf in leaves]
        given = build(entries)
        outputs = func(*(given if argnums is None else replaced(args, argnums, given)))
        output, aux = split_aux(outputs, has_aux, VJP)
        check_filled(output, VJP)
        tensors = check_tensors(output, f"{VJP}: expected f(*primals)")
        if has_aux:
            check_aux(aux)
    expected = structure(output)

    def pull(cotangents: Any, retain_graph: bool = True, create_graph: bool | None = None) -> Any:
        if structure(cotangents) != expected:
            raise RuntimeError(
                "Expected pytree structure of cotangents to be the same as pytree structure of outputs to "
                f"the function. cotangents: {_short(cotangents)}, primal output: {_short(output)}"
            )
        seeds = flatten(cotangents)[0]
        for position, (seed, tensor) in enumerate(zip(seeds, tensors, strict=True)):
            if tuple(seed.shape) != tuple(tensor.shape):
                raise RuntimeError(
                    f"Mismatch in shape: grad_output[{position}] has a shape of {seed.shape} and "
                    f"output[{position}] has a shape of {tensor.shape}."
                )
        graph = _needs_graph(run, tensors, seeds)
        token = modes.enter(grad=True, inference=False)
        try:
            with set_to((transforming, True)), whole(cuts):
                found = gradients(tensors, entries, seeds, graph)
        finally:
            modes.leave(token)
        if graph:
            run.pruned(found)
        return build(_filled(found, leaves))

    left = run.left(output)
    cuts = run.pruned([*tensors, *flatten(aux)[0]])
    return (left, pull, run.left(aux)) if has_aux else (left, pull)


def _short(tree: Any) -> str:
    if isinstance(tree, dict):
        return "{" + ", ".join(f"{key!r}: {_short(value)}" for key, value in tree.items()) + "}"
    if isinstance(tree, (tuple, list)):
        inside = ", ".join(_short(item) for item in tree)
        if isinstance(tree, list):
            return f"[{inside}]"
        return f"({inside},)" if len(tree) == 1 else f"({inside})"
    return "*"


def basis(tensors: list[Any]) -> list[Any]:
    """For each tensor a batch of its directions, one per element of all the tensors."""
    sizes = [prod(tensor.shape) for tensor in tensors]
    total = sum(sizes)
    made = []
    start = 0
    for tensor, size in zip(tensors, sizes, strict=True):
        rows = ops.new_zeros(tensor if highest([tensor]) is None else _plain(tensor), (total, size))
        if size:
            ops.diagonal(rows, -start, 0, 1).fill_(1)
        made.append(ops.reshape(rows, (total, *tensor.shape)))
        start += size
    return made


def _plain(tensor: Any) -> Any:
    while (wrapper := highest([tensor])) is not None:
        tensor = wrapper.held
    return tensor


def jacrev(
    func: Function,
    argnums: Argnums = 0,
    *,
    has_aux: bool = False,
    chunk_size: int | None = None,
    _preallocate_and_copy: bool = False,
) -> Function:
    """The function that gives the Jacobian of `func`, row by row: for functions with fewer results than
    arguments."""
    if not (chunk_size is None or chunk_size > 0):
        raise ValueError("jacrev: `chunk_size` should be greater than 0.")

    @wraps(func)
    def jacobian(*args: Any) -> Any:
        check_real(flatten(chosen(args, argnums))[0], "jacrev", "inputs")
        found = pulled_back(func, args, argnums, has_aux)
        output, pull, aux = found if has_aux else (*found, None)
        tensors, build = flatten(output)
        check_real(tensors, "jacrev", "outputs")
        wanted, rebuild = flatten(chosen(args, argnums))
        rows = vmap(lambda *seeds: tuple(flatten(pull(build(list(seeds))))[0]), chunk_size=chunk_size)(
            *basis(tensors)
        )
        sizes = [prod(tensor.shape) for tensor in tensors]
        parts = [ops.split_with_sizes(row, sizes, 0) for row in rows]  # per argument, per output
        results = build(
            [
                rebuild(
                    [
                        ops.reshape(part[i], (*o.shape, *x.shape))
                        for part, x in zip(parts, wanted, strict=True)
                    ]
                )
                for i, o in enumerate(tensors)
            ]
        )
        return (results, aux) if has_aux else results

    return jacobian
