"""The table in docs/demands.md has a row for every thread, and every row names tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

HERE = Path(__file__).resolve().parent
TABLE = HERE.parents[2] / "docs" / "demands.md"
THREADS = """
    pytorch#193279 pytorch#184113 pytorch#115750 tinygrad#16618 Thunder#1284
    pytorch#91469 pytorch#183603 torchmd-net#307 matgl_PR#784 PINA#621 cuEquivariance#268
    pytorch#133491 pytorch#144142 pytorch#106391 pytorch#106893 pytorch#118397 pytorch#118394
    pytorch_PR#185407 pytorch#104040 pytorch#189573
    pytorch#91665 pytorch#117758 pytorch#173452 pytorch_PR#181763 Thunder#307 HIPS_autograd#706
    pytorch#120814 aimnetcentral_PR#109
    pytorch#141881 pytorch#197838 pytorch#105181
    jax#14655 pytorch#97436 pytorch#138422
"""


def rows() -> dict[str, list[str]]:
    """The tests of each thread."""
    found: dict[str, list[str]] = {}
    for line in TABLE.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if len(cells) == 5 and "#" in cells[0]:
            thread = cells[0].removesuffix("†").strip().replace(" ", "_")
            assert thread not in found, f"two rows for {thread}"
            assert all(cells), f"an empty cell in the row of {thread}"
            found[thread] = re.findall(r"`(test_\w+)`", cells[4])
    return found


def defined() -> set[str]:
    texts = [path.read_text(encoding="utf-8") for path in HERE.glob("test_*.py")]
    return set(re.findall(r"^def (test_\w+)", "\n".join(texts), re.MULTILINE))


def test_every_thread_has_a_row() -> None:
    assert list(rows()) == THREADS.split()


def test_every_row_names_tests_that_exist() -> None:
    there = defined()
    for thread, names in rows().items():
        number = thread.rpartition("#")[2]
        assert names, f"{thread} names no test"
        for name in names:
            assert name in there, f"{thread} names {name}, which does not exist"
            assert f"_{number}_" in name, f"{name} is not a test of {thread}"


def test_every_test_stands_in_a_row() -> None:
    named = {name for names in rows().values() for name in names}
    assert {name for name in defined() if "_row" not in name} == named
