"""The names of the operator list: all of them exist, as functions, methods or in-place methods."""

from __future__ import annotations

import pytest

import weft
import weft.nn.functional as F

TIER_1 = """
abs acos acosh add addbmm addcdiv addcmul addmm addmv addr all allclose amax amin any arange argmax argmin
argsort as_strided asin asinh atan atan2 atanh baddbmm bernoulli bitwise_and bitwise_left_shift bitwise_not
bitwise_or bitwise_right_shift bitwise_xor bmm broadcast_tensors broadcast_to cat ceil chunk clamp clamp_max
clamp_min clone complex conj contiguous cos cosh cross cumprod cumsum deg2rad diag diag_embed diagonal diff
div dot einsum empty empty_like eq equal erf erfc erfinv exp exp2 expand expand_as expm1 eye fill flatten
flip float_power floor floor_divide fmax fmin fmod frac full full_like gather ge gt hstack hypot imag
index_add index_copy index_fill index_put index_select inner isclose isfinite isinf isnan item kron le lerp
lgamma linspace log log10 log1p log2 log_softmax logaddexp logical_and logical_not logical_or logical_xor
logsumexp lt masked_fill masked_scatter masked_select matmul max maximum mean median meshgrid min minimum mm
movedim mul multinomial mv nan_to_num narrow ne neg new_empty new_full new_ones new_zeros nonzero norm
normal numel ones ones_like outer permute polar pow prod rad2deg rand rand_like randint randn randn_like
randperm ravel real reciprocal remainder repeat repeat_interleave reshape roll round rsqrt rsub scatter
scatter_add scatter_reduce select sigmoid sign sin sinc sinh softmax sort split sqrt square squeeze stack
std std_mean sub sum sum_to_size swapaxes t take take_along_dim tan tanh tensor tensor_split tensordot tile
to topk trace transpose tril triu trunc unbind unflatten unfold unique unsqueeze var var_mean view view_as
vstack where xlogy zero_ zeros zeros_like random_ uniform_ normal_ exponential_ copy_
"""
TIER_2 = """
aminmax angle argwhere atleast_1d atleast_2d atleast_3d bincount block_diag bucketize cartesian_prod cauchy
cdist column_stack combinations copysign corrcoef count_nonzero cov cummax cummin cumulative_trapezoid
diagflat diagonal_scatter dist dsplit dstack exponential fliplr flipud frexp gcd geometric gradient
heaviside histc hsplit igamma igammac index_reduce isin isneginf isposinf isreal kthvalue lcm ldexp
log_normal logaddexp2 logcumsumexp logdet logspace mode msort mvlgamma nanmean nanmedian nanquantile nansum
nextafter put quantile renorm rot90 searchsorted select_scatter sgn signbit slice_scatter trapezoid
tril_indices triu_indices uniform unique_consecutive unravel_index vander vdot view_as_complex view_as_real
vsplit stft istft cholesky_inverse cholesky_solve geqrf ormqr triangular_solve
"""
FUNCTIONAL = """
adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d avg_pool1d avg_pool2d avg_pool3d batch_norm
binary_cross_entropy binary_cross_entropy_with_logits celu conv1d conv2d conv3d conv_transpose1d
conv_transpose2d conv_transpose3d cosine_similarity cross_entropy dropout elu embedding gelu glu group_norm
hardsigmoid hardswish hardtanh huber_loss instance_norm interpolate kl_div l1_loss layer_norm leaky_relu
linear logsigmoid max_pool1d max_pool2d max_pool3d mish mse_loss multi_head_attention_forward nll_loss
normalize one_hot pad pairwise_distance pixel_shuffle prelu relu relu6 rms_norm scaled_dot_product_attention
selu silu smooth_l1_loss softmin softplus softshrink softsign tanhshrink threshold triplet_margin_loss fold
unfold gumbel_softmax lp_pool1d lp_pool2d affine_grid adaptive_max_pool1d adaptive_max_pool2d
adaptive_max_pool3d alpha_dropout bilinear channel_shuffle cosine_embedding_loss ctc_loss dropout1d
dropout2d dropout3d embedding_bag feature_alpha_dropout fractional_max_pool2d fractional_max_pool3d
gaussian_nll_loss grid_sample hardshrink hinge_embedding_loss local_response_norm margin_ranking_loss
max_unpool1d max_unpool2d max_unpool3d multi_margin_loss multilabel_margin_loss multilabel_soft_margin_loss
pdist pixel_unshuffle poisson_nll_loss rrelu soft_margin_loss triplet_margin_with_distance_loss
"""
LINALG = """
cholesky cond det diagonal eigh eigvalsh inv lstsq matrix_exp matrix_norm matrix_power multi_dot norm pinv
qr slogdet solve solve_triangular svd svdvals vecdot vector_norm cholesky_ex eig eigvals householder_product
inv_ex ldl_factor ldl_factor_ex ldl_solve lu lu_factor lu_factor_ex lu_solve matrix_rank tensorinv
tensorsolve vander
"""
SPECIAL = """
digamma entr erfcx expit gammaln i0 i0e i1 i1e log_ndtr logit multigammaln ndtr ndtri polygamma psi xlog1py
zeta gammainc gammaincc airy_ai bessel_j0 bessel_j1 bessel_y0 bessel_y1 chebyshev_polynomial_t
chebyshev_polynomial_u chebyshev_polynomial_v chebyshev_polynomial_w hermite_polynomial_h
hermite_polynomial_he laguerre_polynomial_l legendre_polynomial_p modified_bessel_i0 modified_bessel_i1
modified_bessel_k0 modified_bessel_k1 scaled_modified_bessel_k0 scaled_modified_bessel_k1
shifted_chebyshev_polynomial_t shifted_chebyshev_polynomial_u shifted_chebyshev_polynomial_v
shifted_chebyshev_polynomial_w spherical_bessel_j0 erf erfc erfinv exp2 expm1 log1p log_softmax logsumexp
round sinc softmax xlogy
"""
FFT = """
fft ifft fft2 ifft2 fftn ifftn rfft irfft rfft2 irfft2 rfftn irfftn hfft ihfft hfft2 ihfft2 hfftn ihfftn
fftfreq rfftfreq fftshift ifftshift
"""
WINDOWS = """
bartlett blackman cosine exponential gaussian general_cosine general_hamming hamming hann kaiser nuttall
"""


@pytest.mark.parametrize("name", (TIER_1 + TIER_2).split())
def test_tensors(name: str) -> None:
    assert any(hasattr(weft.Tensor, word) for word in (name, f"{name}_")) or callable(getattr(weft, name))


@pytest.mark.parametrize(
    ("module", "names"),
    [
        (F, FUNCTIONAL),
        (weft.linalg, LINALG),
        (weft.special, SPECIAL),
        (weft.fft, FFT),
        (weft.signal.windows, WINDOWS),
    ],
    ids=["nn.functional", "linalg", "special", "fft", "signal.windows"],
)
def test_namespaces(module: object, names: str) -> None:
    assert [name for name in names.split() if not callable(getattr(module, name, None))] == []
