"""Data sets, samplers and the loader that makes batches of them, under the names PyTorch gives them.

>>> import weft
>>> pairs = TensorDataset(weft.arange(4.0), weft.arange(4))
>>> for x, y in DataLoader(pairs, batch_size=2):
...     print(x, y)
tensor([0., 1.]) tensor([0, 1])
tensor([2., 3.]) tensor([2, 3])
"""

from weft.data.collate import default_collate as default_collate
from weft.data.collate import default_convert as default_convert
from weft.data.dataloader import DataLoader as DataLoader
from weft.data.dataloader import _DatasetKind as _DatasetKind
from weft.data.dataset import ChainDataset as ChainDataset
from weft.data.dataset import ConcatDataset as ConcatDataset
from weft.data.dataset import Dataset as Dataset
from weft.data.dataset import IterableDataset as IterableDataset
from weft.data.dataset import StackDataset as StackDataset
from weft.data.dataset import Subset as Subset
from weft.data.dataset import TensorDataset as TensorDataset
from weft.data.dataset import random_split as random_split
from weft.data.distributed import DistributedSampler as DistributedSampler
from weft.data.sampler import BatchSampler as BatchSampler
from weft.data.sampler import RandomSampler as RandomSampler
from weft.data.sampler import Sampler as Sampler
from weft.data.sampler import SequentialSampler as SequentialSampler
from weft.data.sampler import SubsetRandomSampler as SubsetRandomSampler
from weft.data.sampler import WeightedRandomSampler as WeightedRandomSampler
from weft.data.worker import get_worker_info as get_worker_info

__all__ = [
    "BatchSampler",
    "ChainDataset",
    "ConcatDataset",
    "DataLoader",
    "Dataset",
    "DistributedSampler",
    "IterableDataset",
    "RandomSampler",
    "Sampler",
    "SequentialSampler",
    "StackDataset",
    "Subset",
    "SubsetRandomSampler",
    "TensorDataset",
    "WeightedRandomSampler",
    "default_collate",
    "default_convert",
    "get_worker_info",
    "random_split",
]
