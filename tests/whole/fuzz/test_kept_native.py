"""Random programs that once differed when compiled natively, shrunk and kept."""

from __future__ import annotations

import pytest

from tests.whole.fuzz.compare import agree


@pytest.mark.parametrize("backend", ["aot_eager", "native"])
def test_writes_to_what_may_be_a_copy(backend):
    """Whether `contiguous` gives the tensor itself depends on how it lies, which only running tells."""
    agree(f"""\
import weft
OPTIONS = {{'backend': {backend!r}}}
def main(x):
    y = x * 2
    z = y.contiguous()
    z.add_(1)
    return (y * 1, z * 1)
def arguments():
    yield ((weft.arange(12.0).reshape(3, 4).t(),), {{}})
    yield ((weft.arange(12.0).reshape(4, 3),), {{}})
    yield ((weft.arange(12.0).reshape(2, 6).t(),), {{}})
    yield ((weft.arange(12.0).reshape(6, 2),), {{}})
""")
