"""FileCheck finds what it is told to, in order."""

from __future__ import annotations

import pytest

from weft.compat.torch_internals.filecheck import FileCheck

TEXT = "one two\ntwo three\nfour"


@pytest.mark.parametrize(
    "check",
    [
        FileCheck().check("one").check("three"),
        FileCheck().check("one").check_same("two").check_next("two"),
        FileCheck().check_count("two", 2, exactly=True),
        FileCheck().check_not("five").check("one").check_not("five"),
        FileCheck().check_dag("three").check_dag("one").check("four"),
        FileCheck().check_regex(r"th\w+e"),
    ],
)
def test_found(check):
    check.run(TEXT)


@pytest.mark.parametrize(
    ("check", "text"),
    [
        (FileCheck().check("three").check("one"), 'Expected to find "one" but did not find it'),
        (
            FileCheck().check("one").check_not("three").check("four"),
            'Expected to not find "three" but found it',
        ),
        (FileCheck().check_count("two", 1, exactly=True), "Expected to not find 'two' but found it"),
        (FileCheck().check("one").check_next("three four"), "three four"),
        (FileCheck().check("one").check_same("three"), "Expected to not find"),
        (FileCheck().check_regex("x+"), "regex"),
    ],
)
def test_missed(check, text):
    with pytest.raises(RuntimeError, match=text):
        check.run(TEXT)


def test_checks_in_a_comment():
    FileCheck().run("# CHECK: one\n# CHECK-NOT: five\n# CHECK-COUNT-2: two\n", TEXT)
