"""How ops are lowered: which file has the rule of an op.

Takes the name of an op; gives the module that makes its rule known. One idea: what a process does not compute
it need not load, and a table of names takes a fraction of the time that the files take. A rule is found if it
is listed here.
"""

from __future__ import annotations

from typing import Final

FAMILIES: Final = {
    "conv": """
        convolution convolution_forward convolution_input convolution_weight
    """,
    "extremes": """
        _max_all _max_indices _min_all _min_indices _placed _std _tie_weights _var argmax argmin
        linalg.vector_norm logsumexp
    """,
    "folds": """
        all amax amin any layer_norm log_softmax log_softmax_backward mean norm_backward prod
        softmax softmax_backward sum
    """,
    "indexing": """
        _diagonal_copy _max_values _median_values _min_values _shift _sort_values _topk_values
        channel_shuffle circular_pad1d circular_pad2d circular_pad3d constant_pad_nd diag_embed div
        embed embedding floor_divide fmod gather gather_flat identity_like index index_select
        nn.functional.unfold one_hot_elements pixel_shuffle pixel_unshuffle reflection_pad1d
        reflection_pad2d reflection_pad3d remainder replication_pad1d replication_pad2d
        replication_pad3d roll scatter_flat take trace trace_backward trunc_divide view_scatter
    """,
    "joining": """
        cat
    """,
    "losses": """
        binary_cross_entropy mse_loss nll_loss nll_loss_backward
    """,
    "norms": """
        batch_norm_inference batch_norm_training group_norm
    """,
    "pointwise": """
        _to_copy _where arange clone copy eye fill flip full full_like keep masked_fill nan_to_num
        new_full new_ones new_zeros ones ones_like repeat stack tril triu zero zeros zeros_like
    """,
    "pools": """
        adaptive_max_pool1d adaptive_max_pool2d_with_indices adaptive_max_pool3d_with_indices
        avg_pool1d avg_pool_backward max_pool1d_with_indices max_pool2d_with_indices
        max_pool3d_with_indices nn.functional.avg_pool2d nn.functional.avg_pool3d pool_gather
        pool_scatter
    """,
    "products": """
        addbmm addmm addmv addr baddbmm bmm dot matmul mm mv nn.functional.linear
    """,
    "random": """
        _bernoulli _normal bernoulli cauchy exponential geometric normal rand rand_like randint
        randint_like randn randn_like random uniform
    """,
    "resize": """
        _upsample_bicubic2d_aa _upsample_bilinear2d_aa _upsample_nearest_exact1d
        _upsample_nearest_exact2d _upsample_nearest_exact3d adaptive_avg_pool1d
        adaptive_avg_pool_backward nn.functional.adaptive_avg_pool2d
        nn.functional.adaptive_avg_pool3d upsample_backward upsample_bicubic2d upsample_bilinear2d
        upsample_linear1d upsample_nearest1d upsample_nearest2d upsample_nearest3d
        upsample_trilinear3d
    """,
    "scatter": """
        _index_put _linear_scan _take_backward border_backward cumprod cumsum
        embedding_dense_backward index_add index_copy index_embed index_fill scatter scatter_add
        scatter_reduce
    """,
}
"""The ops of each file `lower_...`."""
FILES: Final = {op: f"weft.native.lower_{family}" for family, ops in FAMILIES.items() for op in ops.split()}
"""The module that has the rule of an op."""
