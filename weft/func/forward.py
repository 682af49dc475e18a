"""Forward-mode transforms: `jvp`, `linearize`, `jacfwd`, and `hessian`, which is both modes.

Each takes a function and runs it on duals (`weft.autograd.dual`): tensors that carry the direction in
which they move.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from math import prod
from typing import Any

from weft.autograd.batched import shared
from weft.autograd.dual import Directions, is_dual, maps_in, probe
from weft.autograd.entries import Differentiation
from weft.autograd.forward_ad import _set_fwd_grad_enabled, checked_dual
from weft.autograd.mapping import entered, structure, vmap
from weft.autograd.reverse import gradients
from weft.core import modes
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
from weft.func.reverse import basis, jacrev
from weft.ops.record import ops
from weft.tensor.base import Tensor
from weft.tensor.wrapper import levels

JVP = "jvp(f, primals, tangents)"


def jvp(func: Function, primals: Any, tangents: Any, *, strict: bool = False, has_aux: bool = False) -> Any:
    """The function's result, and how it moves when the arguments move along the tangents."""
    return pushed_forward(func, primals, tangents, None, strict, has_aux)


def pushed_forward(
    func: Function, primals: Any, tangents: Any, args: Any, strict: bool, has_aux: bool
) -> Any:
    """As `jvp`; `args` = (all arguments, argnums) where the primals are only some of them."""
    if not isinstance(primals, tuple):
        raise RuntimeError(
            f"{JVP}: Expected primals to be a tuple. E.g. it should be valid to call f(*primals)."
        )
    values, build = flatten(primals)
    moves = flatten(tangents)[0]
    if structure(primals) != structure(tangents):
        raise RuntimeError(
            f"{JVP}: Expected primals and tangents to have the same python structure. For example, if "
            "primals is a tuple of 3 tensors, tangents also must be. Got primals with structure "
            f"{structure(primals)} and tangents with structure {structure(tangents)}"
        )
    for label, found in (("primals", values), ("tangents", moves)):
        if not found:
            raise RuntimeError(f"{JVP}: Expected {label} to contain at least one Tensor.")
        for value in found:
            if not isinstance(value, Tensor):
                raise RuntimeError(f"{JVP}: Expected {label} to only contain Tensors, got {type(value)}")
    level = Directions()
    with entered(level), _set_fwd_grad_enabled(True):
        given = build([checked_dual(x, t, level) for x, t in zip(values, moves, strict=True)])
        if args is not None:
            everything, argnums = args
            given = replaced(everything, argnums, given[0] if isinstance(argnums, int) else given)
        output, aux = split_aux(func(*given), has_aux, JVP)
        check_filled(output, JVP)
        leaves = check_tensors(output, f"{JVP}: expected f(*primals)")
        rebuild = flatten(output)[1]
        results = [leaf.primal if is_dual(leaf, level) else leaf for leaf in leaves]
        if strict and not all(is_dual(leaf, level) for leaf in leaves):
            raise RuntimeError(
                "jvp(f, primals, tangents, strict=True): The output of f is independent of the inputs. This "
                "is not allowed with strict=True."
            )
        directions = [leaf.tangent if is_dual(leaf, level) else ops.zeros_like(leaf) for leaf in leaves]
        if has_aux:
            check_aux(aux)
            extra, again = flatten(aux)
            aux = again([value.primal if is_dual(value, level) else value for value in extra])
    level.close()
    return (
        (rebuild(results), rebuild(directions), aux) if has_aux else (rebuild(results), rebuild(directions))
    )


def linearize(func: Function, *primals: Any) -> tuple[Any, Callable[..., Any]]:
    """The function's result, and its derivative there as a function of tangents, which does not run `func`
    again."""
    leaves, build = flatten(primals)
    expected = structure(primals)
    with Differentiation() as run:
        entries = [run.enter(leaf) if isinstance(leaf, Tensor) else leaf for leaf in leaves]
        output = func(*build(entries))
        tensors = check_tensors(output, "linearize(f, *primals): expected f(*primals)")
        rebuild = flatten(output)[1]
        wanted = [value for value in entries if isinstance(value, Tensor)]
        probes = [probe(tensor, maps_in([*tensors, *entries])) for tensor in tensors]
        pulled = gradients(tensors, wanted, probes, True)

    def push(*tangents: Any) -> Any:
        if structure(tangents) != expected:
            raise RuntimeError(
                f"Expected the tangents {structure(tangents)} to have the same argspec as the primals "
                f"{expected}"
            )
        moves = flatten(tangents)[0]
        for position, (move, like) in enumerate(zip(moves, leaves, strict=True)):
            for label in ("shape", "dtype"):
                if getattr(move, label) != getattr(like, label):
                    raise RuntimeError(
                        f"tangent:{position} with {label} {getattr(move, label)} in flattened pytree doesn't "
                        f"match the {label} {getattr(like, label)} of the corresponding primal."
                    )
        pairs = [(p, t) for p, t in zip(pulled, moves, strict=True) if p is not None]
        graph = modes.grad_enabled() and (run.followed(tensors) or any(move.requires_grad for move in moves))
        token = modes.enter(grad=True, inference=False)
        try:
            found = gradients([p for p, _ in pairs], probes, [t for _, t in pairs], graph)
        finally:
            modes.leave(token)
        return rebuild([ops.zeros_like(o) if d is None else d for d, o in zip(found, tensors, strict=True)])

    left = run.left(output)
    run.pruned(tensors)
    return left, push


def jacfwd(
    func: Function, argnums: Argnums = 0, has_aux: bool = False, *, randomness: str = "error"
) -> Function:
    """The function that gives the Jacobian of `func`, column by column: for functions with more results than
    arguments."""

    @wraps(func)
    def jacobian(*args: Any) -> Any:
        primals = chosen(args, argnums)
        given = (primals,) if isinstance(argnums, int) else primals
        leaves, build = flatten(given)
        for leaf in leaves:
            if not isinstance(leaf, Tensor):
                raise RuntimeError(f"{JVP}: Expected primals to only contain Tensors, got {type(leaf)}")
        check_real(leaves, "jacfwd", "inputs")
        shapes: list[Any] = []

        def push(*moves: Any) -> Any:
            found = pushed_forward(func, given, build(list(moves)), (args, argnums), False, has_aux)
            tensors, build_output = flatten(found[0])
            check_real(tensors, "jacfwd", "outputs")
            shapes.append(build_output)
            directions = tuple(flatten(found[1])[0])
            if not has_aux:
                return directions
            extra, again = flatten(found[2])  # which no direction changes, though each may have its own
            return directions, again([shared(value, levels.get()[-1]) for value in extra])

        out_dims: Any = (0, None) if has_aux else 0
        mapped = vmap(push, out_dims=out_dims, randomness=randomness)(*basis(leaves))
        columns, aux = mapped if has_aux else (mapped, None)
        sizes = [prod(leaf.shape) for leaf in leaves]
        rebuild = flatten(primals)[1]
        results = []
        for column in columns:
            rank = column.ndim - 1
            parts = ops.split_with_sizes(ops.movedim(column, 0, rank), sizes, rank)
            shape = tuple(column.shape[1:])
            results.append(
                rebuild([ops.reshape(p, (*shape, *x.shape)) for p, x in zip(parts, leaves, strict=True)])
            )
        jacobians = shapes[0](results)
        return (jacobians, aux) if has_aux else jacobians

    return jacobian


def hessian(func: Function, argnums: Argnums = 0) -> Function:
    """The function that gives the matrix of second derivatives of `func`: forward over reverse."""
    return jacfwd(jacrev(func, argnums), argnums)
