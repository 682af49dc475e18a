"""The op records, by family. Importing this package defines every op."""

from typing import Any as _Any

from weft.ops import (  # noqa: F401
    activation,
    arithmetic,
    attention,
    batching,
    bounds,
    comparison,
    contract,
    convolution,
    create,
    custom,
    einsum,
    elementary,
    foreach,
    grids,
    indexing,
    linalg,
    linalg_decompositions,
    linalg_norms,
    losses,
    normalisation,
    pooling,
    power,
    random,
    reduce,
    replay,
    scan,
    scatter,
    shape,
    slicing,
    sorting,
    special,
    statistics,
    view,
    vision,
)


def __getattr__(name: str) -> _Any:
    """Custom ops by their namespace: `weft.ops.mylib.myop`."""
    found = custom.NAMESPACES.get(name)
    if found is None:
        raise AttributeError(f"module 'weft.ops' has no attribute {name!r}")
    return found
