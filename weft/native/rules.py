"""How ops are lowered: all rules, each in the file of its family; importing this makes them known."""

from __future__ import annotations

import weft.native.lower_conv as _conv  # noqa: F401 - registers how convolutions are lowered
import weft.native.lower_extremes as _extremes  # noqa: F401 - and extremes
import weft.native.lower_folds as _folds  # noqa: F401 - and folds
import weft.native.lower_indexing as _indexing  # noqa: F401 - and gathers, pads
import weft.native.lower_joining as _joining  # noqa: F401 - and tensors that are put together
import weft.native.lower_losses as _losses  # noqa: F401 - and losses
import weft.native.lower_norms as _norms  # noqa: F401 - and norms over channels
import weft.native.lower_pointwise as _pointwise  # noqa: F401 - and selections, copies, ranges
import weft.native.lower_pools as _pools  # noqa: F401 - and pools
import weft.native.lower_products as _products  # noqa: F401 - and matrix products
import weft.native.lower_random as _random  # noqa: F401 - and random numbers
import weft.native.lower_resize as _resize  # noqa: F401 - and resizing
import weft.native.lower_scatter as _scatter  # noqa: F401 - and scatters, running folds
