"""The `masked` namespace, generated from the op records."""

from __future__ import annotations

from weft.tensor.faces import FUNCTIONS

globals().update(
    {name.rpartition(".")[2]: face for name, face in FUNCTIONS.items() if name.startswith("masked.")}
)
