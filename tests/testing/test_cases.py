from __future__ import annotations

import subprocess
import sys
import unittest

import pytest

import weft
from weft.core.counters import counters
from weft.testing import CompileCounter, TestCase


def run(body):
    """Runs one test method of a test case; gives what it raised."""

    class Case(TestCase):
        test = body

    result = unittest.TestResult()
    Case("test").run(result)
    return [text.strip().splitlines()[-1] for _case, text in (*result.failures, *result.errors)]


def test_tensors_are_equal_by_value():
    def body(self):
        self.assertEqual(weft.ones(2), weft.ones(2))
        self.assertEqual([weft.ones(2), 1], [weft.ones(2), 1])
        self.assertEqual(weft.tensor(3), 3)
        self.assertEqual(weft.tensor([1.0]), weft.tensor([1.2]), atol=0.3)
        self.assertEqual(1.0, 1.2, atol=0.3)
        self.assertEqual(weft.tensor([float("nan")]), weft.tensor([float("nan")]))
        self.assertNotEqual(weft.ones(2), weft.zeros(2))
        self.assertEqual("a", "a")
        self.assertExpectedInline(12, "12")

    assert run(body) == []


@pytest.mark.parametrize(
    "body",
    [
        lambda self: self.assertEqual(weft.ones(2), weft.zeros(2)),
        lambda self: self.assertEqual(weft.ones(2), weft.ones(2).double()),
        lambda self: self.assertEqual(weft.ones(2), [weft.ones(2)]),
        lambda self: self.assertEqual(1, 2),
        lambda self: self.assertEqual(weft.tensor(3), 4),
        lambda self: self.assertNotEqual(weft.ones(2), weft.ones(2)),
        lambda self: self.assertExpectedInline("a", "b"),
    ],
)
def test_differences_fail(body):
    assert len(run(body)) == 1


def test_each_test_starts_with_nothing_compiled():
    counter = CompileCounter()
    compiled = weft.compile(lambda x: x + 1, backend=counter)

    def body(self):
        self.assertEqual(sum(counters["frames"].values()), 0)
        compiled(weft.ones(2))

    assert run(body) == run(body) == []
    assert counter.frame_count == 2


def test_run_tests_runs_the_program(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        "import weft\nfrom weft.testing import TestCase, run_tests\n"
        "class Case(TestCase):\n"
        "    def test_one(self):\n        self.assertEqual(weft.ones(1), weft.ones(1))\n"
        "    def test_two(self):\n        self.assertEqual(weft.ones(1), weft.zeros(1))\n"
        "run_tests()\n"
    )
    result = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, env=environment())
    assert result.returncode == 1
    assert "Ran 2 tests" in result.stderr
    assert "failures=1" in result.stderr


def environment():
    import os
    from pathlib import Path

    return {**os.environ, "PYTHONPATH": str(Path(weft.__file__).parent.parent)}
