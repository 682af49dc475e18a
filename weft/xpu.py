"""Intel's GPUs: there are none that Weft uses, as there are none of Apple's."""

from __future__ import annotations

from weft.mps import device_count as device_count
from weft.mps import empty_cache as empty_cache
from weft.mps import is_available as is_available
from weft.mps import manual_seed as manual_seed
