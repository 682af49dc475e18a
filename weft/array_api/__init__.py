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
from weft.array_api.arrangement import *  # noqa: F403
from weft.array_api.creation import *  # noqa: F403
from weft.array_api.data_types import *  # noqa: F403
from weft.array_api.data_types import KNOWN as _KNOWN
from weft.array_api.data_types import __array_namespace_info__ as __array_namespace_info__
from weft.array_api.elementwise import *  # noqa: F403
from weft.array_api.elementwise import TABLE as _TABLE
from weft.array_api.linalg import matmul as matmul
from weft.array_api.linalg import tensordot as tensordot
from weft.array_api.linalg import vecdot as vecdot
from weft.array_api.statistics import *  # noqa: F403

__array_api_version__ = "2024.12"
globals().update(_KNOWN)
globals().update(_TABLE)
