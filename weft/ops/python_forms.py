"""Functions that PyTorch writes in Python: tracers record calls of them with every option, by keyword.

Takes a function and a call's arguments; gives them as PyTorch's own code hands such a call on. One idea: what
must be given stays where it was given, and what has a default is said by name, where transformers of graphs
look for it. Functions of which PyTorch has a form in C++ under the same name keep what was given.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

WITH_OUT: Final = frozenset({"tensordot", "norm", "lu", "chain_matmul", "normalize"})
"""Those of them that also say `out=None`."""
WITH_OPTIONS: Final = WITH_OUT | {
    "cdist", "split", "stft", "unique", "unique_consecutive",
    "adaptive_avg_pool2d", "adaptive_avg_pool3d", "adaptive_max_pool1d", "adaptive_max_pool2d",
    "adaptive_max_pool3d", "affine_grid", "alpha_dropout", "batch_norm", "binary_cross_entropy",
    "binary_cross_entropy_with_logits", "cosine_embedding_loss", "cross_entropy", "ctc_loss", "dropout",
    "dropout1d", "dropout2d", "dropout3d", "elu", "embedding", "embedding_bag", "feature_alpha_dropout",
    "fold", "fractional_max_pool2d", "fractional_max_pool3d", "gaussian_nll_loss", "glu", "grid_sample",
    "group_norm", "gumbel_softmax", "hardsigmoid", "hardswish", "hardtanh", "hinge_embedding_loss",
    "huber_loss", "instance_norm", "interpolate", "kl_div", "l1_loss", "leaky_relu", "local_response_norm",
    "log_softmax", "lp_pool1d", "lp_pool2d", "lp_pool3d", "margin_ranking_loss", "max_unpool1d",
    "max_unpool2d", "max_unpool3d", "mish", "mse_loss", "multi_margin_loss", "multilabel_margin_loss",
    "multilabel_soft_margin_loss", "nll_loss", "pad", "poisson_nll_loss", "relu6", "rrelu", "silu",
    "smooth_l1_loss", "soft_margin_loss", "softmax", "softmin", "softsign", "tanhshrink",
    "triplet_margin_loss", "triplet_margin_with_distance_loss", "unfold", "upsample",
}  # fmt: skip


def with_options(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The call's arguments as PyTorch's code in Python says them; as they are for all other functions."""
    name = getattr(function, "__name__", "")
    if name not in WITH_OPTIONS:
        return args, kwargs
    parameters = _parameters(function)
    optional = {each.name: each.default for each in parameters if each.default is not each.empty}
    required = [each.name for each in parameters if each.default is each.empty]
    given = dict(zip([each.name for each in parameters], args)) | kwargs
    if (
        len(args) > len(parameters)
        or not given.keys() >= {*required}
        or not given.keys() <= {*required, *optional}
    ):
        return args, kwargs
    if name in WITH_OUT:
        optional.setdefault("out", None)
    return tuple(given[each] for each in required), {
        each: given.get(each, optional[each]) for each in optional
    }


@lru_cache(maxsize=256)
def _parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    return list(inspect.signature(function).parameters.values())
