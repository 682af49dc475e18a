"""The names of `weft.data`, where PyTorch has them: the same objects, in modules of the same names."""

import sys

import weft.data as data
import weft.data.collate as collate
import weft.data.dataloader as dataloader
import weft.data.dataset as dataset
import weft.data.distributed as distributed
import weft.data.fetch as fetch
import weft.data.sampler as sampler
import weft.data.worker as worker
import weft.utils.data._utils as _utils  # noqa: F401
from weft.data import *  # noqa: F403
from weft.data.dataloader import _DatasetKind as _DatasetKind

__all__ = data.__all__

for _name, _module in {
    "dataset": dataset,
    "sampler": sampler,
    "dataloader": dataloader,
    "distributed": distributed,
    "_utils.collate": collate,
    "_utils.fetch": fetch,
    "_utils.worker": worker,
}.items():
    sys.modules[f"{__name__}.{_name}"] = _module
