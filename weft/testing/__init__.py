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
from weft.testing.programs import clone_me as clone_me
from weft.testing.programs import collect_results as collect_results
from weft.testing.programs import empty_line_normalizer as empty_line_normalizer
from weft.testing.programs import expectedFailureCodegenDynamic as expectedFailureCodegenDynamic
from weft.testing.programs import expectedFailureDynamic as expectedFailureDynamic
from weft.testing.programs import make_test_cls_with_patches as make_test_cls_with_patches
from weft.testing.programs import rand_strided as rand_strided
from weft.testing.programs import reduce_to_scalar_loss as reduce_to_scalar_loss
from weft.testing.programs import remove_optimized_module_prefix as remove_optimized_module_prefix
from weft.testing.programs import remove_trailing_space as remove_trailing_space
from weft.testing.programs import requires_bwd_pass as requires_bwd_pass
from weft.testing.programs import reset_rng_state as reset_rng_state
from weft.testing.programs import skipIfNotPy311 as skipIfNotPy311
from weft.testing.programs import skipIfNotPy312 as skipIfNotPy312
from weft.testing.programs import skipIfOnlyNotPy312 as skipIfOnlyNotPy312
from weft.testing.programs import skipIfPy312 as skipIfPy312
from weft.testing.programs import standard_test as standard_test
from weft.testing.programs import strip_comment as strip_comment
from weft.testing.programs import three as three
from weft.testing.programs import unsupported as unsupported
from weft.testing.programs import xfailIfPy312 as xfailIfPy312

__all__ = [
    "CompileCounter",
    "CompileCounterWithBackend",
    "EagerAndRecordGraphs",
    "TestCase",
    "assert_allclose",
    "assert_close",
    "clone_me",
    "collect_results",
    "empty_line_normalizer",
    "expectedFailureCodegenDynamic",
    "expectedFailureDynamic",
    "make_tensor",
    "make_test_cls_with_patches",
    "normalize_gm",
    "rand_strided",
    "reduce_to_scalar_loss",
    "remove_optimized_module_prefix",
    "remove_trailing_space",
    "requires_bwd_pass",
    "reset_rng_state",
    "run_tests",
    "same",
    "skipIfNotPy311",
    "skipIfNotPy312",
    "skipIfOnlyNotPy312",
    "skipIfPy312",
    "standard_test",
    "strip_comment",
    "three",
    "unsupported",
    "xfailIfPy312",
]
