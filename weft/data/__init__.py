"""Data sets, samplers and the loader that makes batches of them, under the names PyTorch gives them.

>>> import weft
>>> pairs = TensorDataset(weft.arange(4.0), weft.arange(4))
>>> for x, y in DataLoader(pairs, batch_size=2):
...     print(x, y)
tensor([0., 1.]) tensor([0, 1])
tensor([2., 3.]) tensor([2, 3])
"""

from weft.data import collate, dataloader, datapipes, dataset, distributed, sampler, worker
from weft.data.collate import *  # noqa: F403
from weft.data.dataloader import *  # noqa: F403
from weft.data.dataloader import _DatasetKind as _DatasetKind
from weft.data.datapipes import *  # noqa: F403
from weft.data.dataset import *  # noqa: F403
from weft.data.distributed import *  # noqa: F403
from weft.data.sampler import *  # noqa: F403
from weft.data.worker import *  # noqa: F403

_PARTS = (collate, dataloader, datapipes, dataset, distributed, sampler, worker)
__all__ = [name for part in _PARTS for name in part.__all__]
