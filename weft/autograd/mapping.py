"""vmap: a function of one example made a function of a batch.

Takes a function and which dimension of each argument is the batch (`in_dims`, a tree that may stop above
the leaves); gives the function of whole batches. One idea: the function runs once, on BatchTensors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any

from weft.autograd.batched import Map, batched, front, is_batched
from weft.autograd.engine import check_sizes
from weft.core.contexts import Block, set_to
from weft.core.dims import outside
from weft.core.trees import flatten
from weft.ops.record import ops
from weft.tensor.base import Tensor
from weft.tensor.random_state import get_rng_state, set_rng_state
from weft.tensor.wrapper import Level, levels

RANDOMNESS = ("error", "different", "same")


def structure(tree: object) -> str:
    """The shape of a tree as text, with PyTorch's words for it: two trees are alike if their texts are."""
    return _structure(tree, 0)


def _structure(tree: object, indent: int) -> str:
    if isinstance(tree, dict):
        kind, context, children = type(tree).__name__, repr(list(tree)), list(tree.values())
    elif isinstance(tree, (tuple, list)):
        named = hasattr(tree, "_fields")
        kind = "namedtuple" if named else type(tree).__name__
        context, children = (type(tree).__name__ if named else "None"), list(tree)
    else:
        return "*"
    pad = " " * (indent + 2)
    parts = [_structure(children[0], indent)] if children else []
    parts += [pad + _structure(child, indent + 2) for child in children[1:]]
    return f"TreeSpec({kind}, {context}, [" + ",\n".join(parts) + "])"


def spread(prefix: object, tree: object) -> list[Any] | None:
    """One entry of `prefix` per leaf of `tree`: a prefix may hold one value where the tree has a whole
    branch. None if they do not fit."""
    found: list[Any] = []

    def visit(part: object, branch: object) -> bool:
        if not isinstance(part, (dict, tuple, list)):
            found.extend([part] * len(flatten(branch)[0]))
            return True
        if type(part) is not type(branch) or len(part) != len(branch):
            return False
        if isinstance(part, dict) and isinstance(branch, dict):
            return part.keys() == branch.keys() and all(visit(part[key], branch[key]) for key in branch)
        return all(visit(a, b) for a, b in zip(part, branch, strict=True))

    return found if visit(prefix, tree) else None


# -- arguments -----------------------------------------------------------------------------------------------
def function_name(function: Callable[..., Any]) -> str:
    return getattr(function, "__name__", None) or repr(function)


def _read_inputs(
    function: Callable[..., Any], in_dims: object, args: tuple[Any, ...]
) -> tuple[list[Any], list[Any], Callable[[list[Any]], Any], int]:
    """The leaves of the arguments, each leaf's batch dimension, the way back to a tree, and the size of the
    batch."""

    def where() -> str:
        return f"vmap({function_name(function)}, in_dims={in_dims}, ...)(<inputs>)"

    if not isinstance(in_dims, (int, tuple)):
        raise ValueError(
            f"{where()}: expected `in_dims` to be int or a (potentially nested) tuple matching the structure "
            "of inputs, "
            f"got: {type(in_dims)}."
        )
    if not args:
        raise ValueError(
            f"vmap({function_name(function)})(<inputs>): got no inputs. Maybe you forgot to add "
            "inputs, or you are trying to vmap over a function with no inputs. The latter is unsupported."
        )
    leaves, build = flatten(args)
    dims = spread(in_dims, args)
    if dims is None:
        raise ValueError(
            f"{where()}: in_dims is not compatible with the structure of `inputs`. in_dims has structure "
            f"{structure(in_dims)} but inputs has structure {structure(args)}."
        )
    checked = [_checked_dim(where, leaf, dim) for leaf, dim in zip(leaves, dims, strict=True)]
    sizes = [leaf.shape[dim] for leaf, dim in zip(leaves, checked, strict=True) if dim is not None]
    if not sizes:
        raise ValueError("vmap: Expected at least one Tensor to vmap over")
    check_sizes(sizes)
    return leaves, checked, build, sizes[0]


def _checked_dim(where: Callable[[], str], leaf: object, dim: object) -> int | None:
    if dim is None:
        return None
    if not isinstance(dim, int):
        raise ValueError(
            f"{where()}: Got in_dim={dim} for an input but in_dim must be either an integer dimension or "
            "None."
        )
    if not isinstance(leaf, Tensor):
        raise ValueError(
            f"{where()}: Got in_dim={dim} for an input but the input is of type {type(leaf)}. We cannot vmap "
            "over non-Tensor "
            "arguments, please use None as the respective in_dim"
        )
    rank = leaf.ndim
    if not -rank <= dim < rank:
        raise ValueError(
            f"{where()}: Got in_dim={dim} for some input, but that input is a Tensor of dimensionality "
            f"{rank} so expected in_dim to satisfy -{rank} <= in_dim < {rank}."
        )
    return dim % rank


# -- results -------------------------------------------------------------------------------------------------
def _read_out_dims(function: Callable[..., Any], out_dims: object, outputs: object) -> list[Any]:
    """One out_dim per leaf of the outputs."""
    leaves = flatten(out_dims)[0]
    if isinstance(out_dims, bool) or not all(leaf is None or isinstance(leaf, int) for leaf in leaves):
        raise ValueError(
            f"vmap({function_name(function)}, ..., out_dims={out_dims}): `out_dims` must be an int, None "
            "or a python collection of ints representing where in the outputs the vmapped dimension should "
            "appear."
        )
    if isinstance(out_dims, tuple) and len(out_dims) == 1 and isinstance(outputs, Tensor):
        out_dims = out_dims[0]
    dims = spread(out_dims, outputs)
    if dims is None:
        raise ValueError(
            f"vmap({function_name(function)}, ..., out_dims={out_dims})(<inputs>): out_dims is not "
            "compatible with the structure of "
            f"`outputs`. out_dims has structure {structure(out_dims)} but outputs has structure "
            f"{structure(outputs)}."
        )
    return dims


def _unwrapped(function: Callable[..., Any], output: object, dim: int | None, level: Map) -> Any:
    if not isinstance(output, Tensor):
        if dim is None:
            return output
        name = function_name(function)
        raise ValueError(
            f"vmap({name}, ...): `{name}` must only return Tensors, got type {type(output)}. Did you mean "
            "to set out_dims= "
            "to None for output?"
        )
    if dim is None:
        if is_batched(output, level):
            name = function_name(function)
            raise ValueError(
                f"vmap({name}, ...): `{name}` can not return a BatchedTensor when out_dim is None"
            )
        return output
    whole = front(output, level)
    rank = whole.ndim
    if not -rank <= dim < rank:
        raise outside(dim, rank)
    if is_batched(output, level) and output.place == dim % rank:
        return output.value
    return whole if not dim % rank else ops.movedim(whole, 0, dim)


# -- the transform -------------------------------------------------------------------------------------------
def entered(level: Level) -> Block:
    """The level as the innermost one."""
    return set_to((levels, (*levels.get(), level)), given=level)


def run_mapped(
    function: Callable[..., Any],
    leaves: list[Any],
    dims: list[Any],
    build: Callable[[list[Any]], Any],
    size: int,
    out_dims: object,
    randomness: str,
    kwargs: dict[str, Any],
) -> tuple[list[Any], list[Any], Callable[[list[Any]], Any]]:
    """One run over one batch: the outputs' leaves, their batch dimensions, and the way back to a tree."""
    with entered(Map(size, randomness)) as level:
        given = [
            leaf if dim is None else batched(leaf, dim, level) for leaf, dim in zip(leaves, dims, strict=True)
        ]
        outputs = function(*build(given), **kwargs)
        places = _read_out_dims(function, out_dims, outputs)
        results, rebuild = flatten(outputs)
        return (
            [_unwrapped(function, o, d, level) for o, d in zip(results, places, strict=True)],
            places,
            rebuild,
        )


def _chunks(leaves: list[Any], dims: list[Any], size: int, chunk: int) -> Iterable[tuple[list[Any], int]]:
    for start in range(0, size, chunk):
        length = min(chunk, size - start)
        yield (
            [
                leaf if dim is None else ops.slice(leaf, dim, start, start + length, 1)
                for leaf, dim in zip(leaves, dims, strict=True)
            ],
            length,
        )


def vmap(
    func: Callable[..., Any],
    in_dims: object = 0,
    out_dims: object = 0,
    randomness: str = "error",
    *,
    chunk_size: int | None = None,
) -> Callable[..., Any]:
    """The function over batches: `vmap(f)(xs)[i]` is `f(xs[i])`. `chunk_size` bounds how many examples run at
    once."""
    if randomness not in RANDOMNESS:
        raise RuntimeError(
            f"Only allowed values for randomness are 'error', 'different', or 'same'. Got {randomness}"
        )
    if not (chunk_size is None or chunk_size > 0):
        raise ValueError(f"vmap: chunk_size should be None or greater than 0. (got {chunk_size})")

    @wraps(func)
    def mapped(*args: object, **kwargs: object) -> Any:
        leaves, dims, build, size = _read_inputs(func, in_dims, args)
        if chunk_size is None or chunk_size >= size:
            results, _, rebuild = run_mapped(func, leaves, dims, build, size, out_dims, randomness, kwargs)
            return rebuild(results)
        columns: list[list[Any]] = []
        places: list[Any] = []
        drawn = get_rng_state() if randomness == "same" else None
        for part, length in _chunks(leaves, dims, size, chunk_size):
            if drawn is not None:  # all pieces draw what the first draws
                set_rng_state(drawn)
            results, places, rebuild = run_mapped(
                func, part, dims, build, length, out_dims, randomness, kwargs
            )
            columns.append(results)
        joined = [
            column[0] if place is None else ops.cat(list(column), place)
            for column, place in zip(zip(*columns, strict=True), places, strict=True)
        ]
        return rebuild(joined)

    return mapped
