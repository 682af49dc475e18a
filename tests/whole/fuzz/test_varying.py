"""Programs whose calls bring other sizes and numbers; many: `python -m tests.whole.fuzz --family varying`."""

from __future__ import annotations

import pytest

from tests.whole.fuzz import compare, varying_programs


@pytest.mark.parametrize("seed", range(20, 26))
def test_calls_of_other_sizes_and_numbers_are_eagers(seed: int) -> None:
    compare.agree(varying_programs.program(seed))


def test_programs_follow_from_their_seed_and_vary() -> None:
    texts = [varying_programs.program(seed) for seed in range(30)]
    assert texts == [varying_programs.program(seed) for seed in range(30)]
    assert all("def main(" in text and "r, n):" in text for text in texts)
    assert (
        sum(
            " r" in text.partition("def main")[2].partition("\n")[2].partition("def after")[0]
            for text in texts
        )
        > 5
    )
    for text in texts:
        calls = [line for line in text.splitlines() if line.startswith("    yield")]
        assert len(calls) >= 4 and len(set(calls)) > 1
