"""The page on data and files says what is so: its examples run."""

from __future__ import annotations

import doctest
from pathlib import Path


def test_examples_of_the_page():
    page = Path(__file__).parents[2] / "docs" / "data_and_files.md"
    told = doctest.testfile(str(page), module_relative=False)
    assert told.attempted > 8 and told.failed == 0
