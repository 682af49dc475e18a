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
    calculus,
    comparison,
    contract,
    convolution,
    copies,
    counting,
    create,
    ctc,
    custom,
    distances,
    dropouts,
    einsum,
    elementary,
    flat_index,
    floats,
    foreach,
    fourier,
    grids,
    indexing,
    joining,
    linalg,
    linalg_decompositions,
    linalg_factors,
    linalg_norms,
    linalg_reflectors,
    losses,
    margin_losses,
    masked,
    native_forms,
    normalisation,
    parametric,
    polynomials,
    pooling,
    power,
    projected_losses,
    random,
    ranks,
    reduce,
    replay,
    scan,
    scatter,
    shape,
    slicing,
    sorting,
    special,
    spectral_windows,
    spectrogram,
    statistics,
    view,
    vision,
    windows,
    with_statistics,
)


def __getattr__(name: str) -> _Any:
    """Custom ops by their namespace: `weft.ops.mylib.myop`."""
    found = custom.found(name)
    if found is None:
        raise AttributeError(named(f"module 'weft.ops' has no attribute {name!r}"))
    return found
