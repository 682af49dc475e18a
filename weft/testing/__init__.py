"""Testing: what tests of Weft programs need. Backends that count, comparisons, and a test case that starts
afresh.
"""

from weft.testing import backends, cases, comparison, creation, graphs, programs
from weft.testing.backends import *  # noqa: F403
from weft.testing.cases import *  # noqa: F403
from weft.testing.comparison import *  # noqa: F403
from weft.testing.creation import *  # noqa: F403
from weft.testing.graphs import *  # noqa: F403
from weft.testing.programs import *  # noqa: F403

_PARTS = (backends, cases, comparison, creation, graphs, programs)
__all__ = [name for part in _PARTS for name in part.__all__]
