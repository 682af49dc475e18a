"""Settings under PyTorch's names: patched for a while, a few of them Weft's own."""

from __future__ import annotations

import unittest
import unittest.mock

import pytest

import weft
from weft.compat.torch_internals.configs import RecompileError, dynamo, inductor
from weft.core.settings import settings


def test_a_patch_holds_for_a_while():
    before = settings.recompile_limit
    with dynamo.patch(cache_size_limit=3, suppress_errors=True):
        assert (dynamo.recompile_limit, settings.recompile_limit, dynamo.suppress_errors) == (3, 3, True)
    assert (dynamo.cache_size_limit, settings.recompile_limit) == (before, before)

    @dynamo.patch("recompile_limit", 2)
    @inductor.patch({"debug": True})
    def inside():
        return dynamo.recompile_limit, inductor.debug

    assert inside() == (2, True) and not inductor.debug


def test_a_class_of_tests_is_patched():
    @dynamo.patch(verbose=True)
    class Case(unittest.TestCase):
        def test_it(self):
            self.assertTrue(dynamo.verbose)

    result = unittest.TestResult()
    unittest.defaultTestLoader.loadTestsFromTestCase(Case)(result)
    assert result.wasSuccessful() and result.testsRun == 1 and not dynamo.verbose


def test_unknown_settings_are_refused():
    for wrong in (
        lambda: dynamo.nothing,
        lambda: dynamo.patch(nothing=1),
        lambda: setattr(dynamo, "nothing", 1),
    ):
        with pytest.raises(AttributeError, match=r"torch\._dynamo\.config\.nothing does not exist"):
            wrong()
    kept = dynamo.save_config()
    dynamo.verbose = True
    dynamo.load_config(kept)
    assert not dynamo.verbose


def test_compiling_again_may_be_an_error() -> None:
    compiled = weft.compile(lambda x: x + 1, backend="eager", dynamic=False)
    with dynamo.patch(error_on_recompile=True):
        assert compiled(weft.ones(2)).tolist() == compiled(weft.ones(2)).tolist() == [2.0, 2.0]
        with pytest.raises(RecompileError, match=r"Recompiling function <lambda> in .*\n.*guard failure"):
            compiled(weft.ones(3))
    assert compiled(weft.ones(3)).shape == (3,)


def test_unittest_patches_settings():
    before = dynamo.recompile_limit
    with unittest.mock.patch.object(dynamo, "recompile_limit", before + 3):
        assert dynamo.recompile_limit == settings.recompile_limit == before + 3
    assert dynamo.recompile_limit == settings.recompile_limit == before
    with unittest.mock.patch.object(dynamo, "verbose", True):
        assert dynamo.verbose
    assert not dynamo.verbose
