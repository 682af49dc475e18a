"""Testing: what tests of Weft programs need. Backends that count, comparisons, and a test case that starts
afresh.
"""

from weft.testing.backends import CompileCounter as CompileCounter
from weft.testing.backends import CompileCounterWithBackend as CompileCounterWithBackend
from weft.testing.backends import EagerAndRecordGraphs as EagerAndRecordGraphs
from weft.testing.cases import TestCase as TestCase
from weft.testing.cases import run_tests as run_tests
from weft.testing.comparison import assert_allclose as assert_allclose
from weft.testing.comparison import assert_close as assert_close
from weft.testing.comparison import same as same
from weft.testing.creation import make_tensor as make_tensor
from weft.testing.graphs import normalize_gm as normalize_gm

__all__ = [
    "CompileCounter",
    "CompileCounterWithBackend",
    "EagerAndRecordGraphs",
    "TestCase",
    "assert_allclose",
    "assert_close",
    "make_tensor",
    "normalize_gm",
    "run_tests",
    "same",
]
