"""Modules of `weft.data` under the names that PyTorch has for them."""

import weft.data.collate as collate  # noqa: F401
import weft.data.fetch as fetch  # noqa: F401
import weft.data.worker as worker  # noqa: F401
from weft.data.worker import CHECK_SECONDS as MP_STATUS_CHECK_INTERVAL  # noqa: F401
