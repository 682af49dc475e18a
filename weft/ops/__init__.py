"""The op records, by family. Importing this package defines every op."""

from typing import Any as _Any

from weft.core.naming import named
from weft.ops import (  # noqa: F401
    activation,
    arithmetic,
    attention,
    bags,
    batching,
    bounds,
    comparison,
    contract,
    convolution,
    create,
    ctc,
    custom,
    distances,
    dropouts,
    einsum,
    elementary,
    foreach,
    grids,
    indexing,
    linalg,
    linalg_decompositions,
    linalg_norms,
    losses,
    margin_losses,
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
    windows,
)


def __getattr__(name: str) -> _Any:
    """Custom ops by their namespace: `weft.ops.mylib.myop`."""
    found = custom.NAMESPACES.get(name)
    if found is None:
        raise AttributeError(named(f"module 'weft.ops' has no attribute {name!r}"))
    return found
