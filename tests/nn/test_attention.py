"""Choosing how attention is computed changes nothing."""

from __future__ import annotations

import pytest

import weft
from weft.nn.attention import SDPBackend, sdpa_kernel
from weft.nn.functional import scaled_dot_product_attention


def test_a_choice_changes_nothing():
    x = weft.arange(12.0).view(1, 1, 4, 3) / 10
    plain = scaled_dot_product_attention(x, x, x)
    with sdpa_kernel(SDPBackend.MATH), sdpa_kernel([SDPBackend.FLASH_ATTENTION]):
        assert weft.equal(scaled_dot_product_attention(x, x, x), plain)
    with pytest.raises(AssertionError, match="Backend must be"), sdpa_kernel([]):
        pass
