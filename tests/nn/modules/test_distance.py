from __future__ import annotations

import numpy as np

from weft import nn


def test_pairwise_distance(agrees, draw):
    agrees(nn.PairwiseDistance(), lambda x, y: np.sqrt(((x - y + 1e-6) ** 2).sum(-1)), draw(4, 3), draw(4, 3))
    agrees(
        nn.PairwiseDistance(1.0, eps=0.1, keepdim=True),
        lambda x, y: np.abs(x - y + 0.1).sum(-1, keepdims=True),
        draw(4, 3),
        draw(4, 3),
    )


def test_cosine_similarity(agrees, draw):
    def formula(x, y):
        lengths = np.linalg.norm(x, axis=0) * np.linalg.norm(y, axis=0)
        return (x * y).sum(0) / lengths

    agrees(nn.CosineSimilarity(0), formula, draw(4, 3), draw(4, 3))
