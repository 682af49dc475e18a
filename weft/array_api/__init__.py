"""The array API standard (2024.12) over Weft tensors, as far as it goes.

The functions keep gradients and compile like Weft's own; they differ from these in names, in arguments
(`axis`, `keepdims`) and in promotion, which here treats arrays without dimensions like others. Missing are
dtypes that Weft does not have, and the attribute `size`, which on a tensor is PyTorch's method.

>>> import weft
>>> import weft.array_api as xp
>>> xp.sum(xp.asarray([[1.0, 2.0], [3.0, 4.0]]), axis=0)
tensor([4., 6.])
>>> weft.ones(2).__array_namespace__() is xp
True
"""

import weft.array_api.fft as fft  # noqa: F401
import weft.array_api.linalg as linalg  # noqa: F401
from weft.array_api.arrangement import argmax as argmax
from weft.array_api.arrangement import argmin as argmin
from weft.array_api.arrangement import argsort as argsort
from weft.array_api.arrangement import concat as concat
from weft.array_api.arrangement import count_nonzero as count_nonzero
from weft.array_api.arrangement import expand_dims as expand_dims
from weft.array_api.arrangement import flip as flip
from weft.array_api.arrangement import matrix_transpose as matrix_transpose
from weft.array_api.arrangement import moveaxis as moveaxis
from weft.array_api.arrangement import nonzero as nonzero
from weft.array_api.arrangement import permute_dims as permute_dims
from weft.array_api.arrangement import repeat as repeat
from weft.array_api.arrangement import reshape as reshape
from weft.array_api.arrangement import roll as roll
from weft.array_api.arrangement import searchsorted as searchsorted
from weft.array_api.arrangement import sort as sort
from weft.array_api.arrangement import squeeze as squeeze
from weft.array_api.arrangement import stack as stack
from weft.array_api.arrangement import take as take
from weft.array_api.arrangement import take_along_axis as take_along_axis
from weft.array_api.arrangement import tile as tile
from weft.array_api.arrangement import unique_all as unique_all
from weft.array_api.arrangement import unique_counts as unique_counts
from weft.array_api.arrangement import unique_inverse as unique_inverse
from weft.array_api.arrangement import unique_values as unique_values
from weft.array_api.arrangement import unstack as unstack
from weft.array_api.arrangement import where as where
from weft.array_api.creation import arange as arange
from weft.array_api.creation import asarray as asarray
from weft.array_api.creation import e as e
from weft.array_api.creation import empty as empty
from weft.array_api.creation import empty_like as empty_like
from weft.array_api.creation import eye as eye
from weft.array_api.creation import from_dlpack as from_dlpack
from weft.array_api.creation import full as full
from weft.array_api.creation import full_like as full_like
from weft.array_api.creation import inf as inf
from weft.array_api.creation import linspace as linspace
from weft.array_api.creation import meshgrid as meshgrid
from weft.array_api.creation import nan as nan
from weft.array_api.creation import newaxis as newaxis
from weft.array_api.creation import ones as ones
from weft.array_api.creation import ones_like as ones_like
from weft.array_api.creation import pi as pi
from weft.array_api.creation import tril as tril
from weft.array_api.creation import triu as triu
from weft.array_api.creation import zeros as zeros
from weft.array_api.creation import zeros_like as zeros_like
from weft.array_api.data_types import KNOWN as _KNOWN
from weft.array_api.data_types import __array_namespace_info__ as __array_namespace_info__
from weft.array_api.data_types import astype as astype
from weft.array_api.data_types import broadcast_arrays as broadcast_arrays
from weft.array_api.data_types import broadcast_to as broadcast_to
from weft.array_api.data_types import can_cast as can_cast
from weft.array_api.data_types import finfo as finfo
from weft.array_api.data_types import iinfo as iinfo
from weft.array_api.data_types import isdtype as isdtype
from weft.array_api.data_types import result_type as result_type
from weft.array_api.elementwise import TABLE as _TABLE
from weft.array_api.elementwise import clip as clip
from weft.array_api.elementwise import conj as conj
from weft.array_api.elementwise import imag as imag
from weft.array_api.elementwise import pow as pow
from weft.array_api.elementwise import real as real
from weft.array_api.elementwise import sign as sign
from weft.array_api.linalg import matmul as matmul
from weft.array_api.linalg import tensordot as tensordot
from weft.array_api.linalg import vecdot as vecdot
from weft.array_api.statistics import all as all
from weft.array_api.statistics import any as any
from weft.array_api.statistics import cumulative_prod as cumulative_prod
from weft.array_api.statistics import cumulative_sum as cumulative_sum
from weft.array_api.statistics import diff as diff
from weft.array_api.statistics import max as max
from weft.array_api.statistics import mean as mean
from weft.array_api.statistics import min as min
from weft.array_api.statistics import prod as prod
from weft.array_api.statistics import std as std
from weft.array_api.statistics import sum as sum
from weft.array_api.statistics import var as var

__array_api_version__ = "2024.12"
globals().update(_KNOWN)
globals().update(_TABLE)
