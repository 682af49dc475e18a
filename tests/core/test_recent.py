"""What is forgotten first."""

from __future__ import annotations

from weft.core.recent import Recent


def test_the_entry_that_nobody_asks_for_goes_first() -> None:
    kept = Recent()
    for number in range(3):
        kept.keep(number, str(number))
    assert kept.find(0) == "0"
    assert kept.find(5) is None
    kept.drop()
    assert [*kept] == [0, 2]
    kept.keep(3, "3")
    kept.find(2)
    kept.drop()
    assert [*kept] == [2, 3]
