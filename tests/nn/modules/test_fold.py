from __future__ import annotations

import numpy as np

from weft import nn


def columns(x, kernel):
    rows, across = x.shape[2] - kernel[0] + 1, x.shape[3] - kernel[1] + 1
    places = [(slice(i, i + kernel[0]), slice(j, j + kernel[1])) for i in range(rows) for j in range(across)]
    return np.stack([x[:, :, down, along].reshape(len(x), -1) for down, along in places], -1)


def test_windows_as_columns(agrees, draw):
    agrees(nn.Unfold((2, 3)), lambda x: columns(x, (2, 3)), draw(2, 2, 4, 5))
    assert repr(nn.Unfold(2)) == "Unfold(kernel_size=2, dilation=1, padding=0, stride=1)"


def test_columns_summed_back(agrees, draw):
    """Each pixel comes back as often as windows cover it."""
    x = draw(2, 2, 4, 5)
    cover = np.zeros((4, 5))
    for i in range(3):
        for j in range(3):
            cover[i : i + 2, j : j + 3] += 1
    agrees(nn.Fold((4, 5), (2, 3)), x * cover, columns(x, (2, 3)))
    expected = "Fold(output_size=(4, 5), kernel_size=(2, 3), dilation=1, padding=0, stride=1)"
    assert repr(nn.Fold((4, 5), (2, 3))) == expected
