"""Descriptions: one line for each public op, for `help(...)` and for the table of operators.

Takes a name, gives a text. One idea: the line says what the op gives; what its parameters may be stands in
its signature, and PyTorch's names mean what they mean there.
"""

from __future__ import annotations

from typing import Final

_TEXT: Final = """
abs: The absolute value of each element; of complex numbers, their modulus.
acos: The arc cosine of each element, in radians.
acosh: The inverse hyperbolic cosine of each element.
adaptive_avg_pool1d: Average pooling of signals to `output_size`.
adaptive_max_pool1d: Max pooling of signals to `output_size`.
add: The sum `input + alpha * other`, element by element.
addbmm: `beta * input` plus `alpha` times the sum of the products of two batches of matrices.
addcdiv: `input + value * tensor1 / tensor2`.
addcmul: `input + value * tensor1 * tensor2`.
addmm: `beta * input + alpha * (mat1 @ mat2)`.
addmv: `beta * input + alpha * (mat @ vec)`.
addr: `beta * input` plus `alpha` times the outer product of two vectors.
adjoint: The conjugate transpose of the last two dimensions, as a view.
affine_grid_generator: The sampling grid of affine maps.
alias: A view of the whole tensor.
alias_copy: A copy of what `alias` shows.
all: Whether all elements, or all along `dim`, are true.
allclose: Whether all elements are close: `|input - other| <= atol + rtol * |other|`.
alpha_dropout: Dropout that keeps mean and variance for self-normalising networks.
amax: The maximum along dimensions; equal maxima share the gradient.
amin: The minimum along dimensions; equal minima share the gradient.
aminmax: Minimum and maximum, of all elements or along `dim`.
angle: The angle of each element in the complex plane, in radians.
any: Whether any element, or any along `dim`, is true.
arange: Numbers from `start` to before `end` in steps.
argmax: The index of the maximum: of all elements, or along `dim`.
argmin: The index of the minimum: of all elements, or along `dim`.
argsort: The indices that sort the elements along `dim`.
argwhere: The indices of the elements that are not zero, one row each.
as_strided: A view with the given size, strides and offset, in elements.
as_strided_copy: A copy of what `as_strided` shows.
as_strided_scatter: The tensor with the elements replaced that `as_strided` shows.
asin: The arc sine of each element, in radians.
asinh: The inverse hyperbolic sine of each element.
atan: The arc tangent of each element, in radians.
atan2: The angle of the point `(other, input)`, in the right quadrant.
atanh: The inverse hyperbolic tangent of each element.
atleast_1d: The tensor with at least one dimension.
atleast_2d: The tensor with at least two dimensions.
atleast_3d: The tensor with at least three dimensions.
avg_pool1d: Average pooling of signals.
baddbmm: `beta * input + alpha * (batch1 @ batch2)`, for batches of matrices.
batch_norm: Normalises each channel over the batch, or by running statistics.
bernoulli: Zeros and ones, drawn with the elements as probabilities of a one.
binary_cross_entropy: The binary cross entropy of probabilities against targets between 0 and 1.
bincount: How often each integer from 0 on occurs.
bitwise_and: The bitwise and.
bitwise_left_shift: The bits shifted to the left.
bitwise_not: The bitwise complement.
bitwise_or: The bitwise or.
bitwise_right_shift: The bits shifted to the right.
bitwise_xor: The bitwise exclusive or.
block_diag: A matrix with the given matrices along its diagonal.
bmm: The products of two batches of matrices.
broadcast_tensors: The tensors, each expanded to their common shape.
broadcast_to: The tensor expanded to a shape, as a view.
bucketize: The index of the bucket, between sorted boundaries, of each element.
cartesian_prod: All combinations of elements of the given vectors, one row each.
cat: The tensors concatenated along an existing dimension.
cdist: The distances between each row of one tensor and each row of another.
ceil: Each element rounded up.
celu: The continuously differentiable exponential linear unit.
chain_matmul: The product of several matrices, in the cheapest order.
channel_shuffle: The channels, shuffled between groups.
cholesky: The triangular factor `L` of a positive definite matrix `L @ L.mH`.
cholesky_inverse: The inverse of a matrix, from its Cholesky factor.
cholesky_solve: The solution of a linear system, from the matrix's Cholesky factor.
chunk: The tensor split into about equal chunks along `dim`, as views.
clamp: Each element, no smaller than `min` and no larger than `max`.
clamp_max: Each element, no larger than `max`.
clamp_min: Each element, no smaller than `min`.
clone: A copy, through which gradients flow.
column_stack: Vectors as columns, matrices side by side.
combinations: All combinations of `r` elements of a vector, one row each.
complex: Complex numbers of real and imaginary parts.
conj: The complex conjugate.
conj_physical: The complex conjugate, computed instead of marked.
constant_pad_nd: The tensor padded with a constant.
contiguous: The tensor in row-major layout: itself where it already is.
conv1d: A convolution over signals `(batch, channels, length)`.
conv2d: A convolution over images `(batch, channels, height, width)`.
conv3d: A convolution over volumes.
conv_transpose1d: A transposed convolution over signals: the gradient of a convolution.
conv_transpose2d: A transposed convolution over images: the gradient of a convolution.
conv_transpose3d: A transposed convolution over volumes: the gradient of a convolution.
convolution: A convolution, or its transpose, over one to three dimensions.
copysign: The magnitude of `input` with the sign of `other`.
corrcoef: The correlations between the rows of a matrix.
cos: The cosine of each element, in radians.
cosh: The hyperbolic cosine of each element.
cosine_similarity: The cosine of the angle between vectors along `dim`.
count_nonzero: How many elements are not zero.
cov: The covariances between the rows of a matrix.
cross: The cross product of vectors of three elements.
cummax: The cumulative maximum along `dim`, and its index.
cummin: The cumulative minimum along `dim`, and its index.
cumprod: The cumulative product along `dim`.
cumsum: The cumulative sum along `dim`.
cumulative_trapezoid: The cumulative integral along `dim`, by the trapezoidal rule.
deg2rad: Degrees as radians.
det: The determinant.
diag: The diagonal of a matrix, or a matrix with the given diagonal.
diag_embed: Matrices whose diagonals are the vectors along the last dimension.
diagflat: A matrix with the elements of a tensor along its diagonal.
diagonal: The diagonals between two dimensions, as a view.
diagonal_copy: A copy of what `diagonal` shows.
diagonal_scatter: The tensor with another diagonal.
diff: The `n`-th differences of neighbours along `dim`.
digamma: The logarithmic derivative of the gamma function.
dist: The `p`-norm of the difference.
div: The quotient, rounded as `rounding_mode` says.
dot: The dot product of two vectors.
dropout: In training, zeroes elements with probability `p` and scales the others up.
dsplit: The tensor split along its third dimension.
dstack: The tensors stacked along the third dimension.
einsum: A sum of products over named indices: `einsum("ij,jk->ik", a, b)`.
embedding: The rows of `weight` at the indices.
empty: An uninitialised tensor.
empty_like: An uninitialised tensor of the same shape and dtype.
empty_strided: An uninitialised tensor with the given strides.
eq: Whether elements are equal.
equal: Whether shapes and all elements are equal, as a Python bool.
erf: The error function of each element.
erfc: The complementary error function of each element: `1 - erf(x)`.
erfinv: The inverse of the error function.
exp: The exponential of each element.
exp2: Two to the power of each element.
expand: A view in which dimensions of size 1 are repeated.
expand_as: A view in which dimensions of size 1 are repeated, up to the shape of `other`.
expand_copy: A copy of what `expand` shows.
expm1: `exp(x) - 1`, accurate for small elements.
eye: The identity matrix.
feature_alpha_dropout: `alpha_dropout` of whole channels.
feature_dropout: Dropout of whole channels.
fill: The tensor with all elements replaced by one value.
flatten: The tensor with some dimensions joined into one.
flip: The elements in reverse order along dimensions.
fliplr: The columns in reverse order.
flipud: The rows in reverse order.
float_power: Powers in double precision.
floor: Each element rounded down.
floor_divide: The quotient rounded down.
fmax: The larger of two elements; a number where the other is NaN.
fmin: The smaller of two elements; a number where the other is NaN.
fmod: The remainder with the sign of `input`.
frac: The fractional part of each element.
frexp: Mantissas and exponents to base 2.
frobenius_norm: The Frobenius norm: the root of the sum of squares.
full: A tensor of one value.
full_like: A tensor of one value, of the same shape and dtype.
gather: Elements along `dim` at the indices in `index`.
gcd: The greatest common divisor.
ge: Whether elements are greater or equal.
geqrf: The Householder reflectors of a QR decomposition, as LAPACK stores them.
gradient: Estimates of the gradient of a function from its values.
grid_sampler: `grid_sample` with its modes as integers.
grid_sampler_2d: `grid_sample` of images with its modes as integers.
grid_sampler_3d: `grid_sample` of volumes with its modes as integers.
group_norm: Normalises groups of channels.
gt: Whether elements are greater.
hardshrink: 0 within `lambd` of zero, the element elsewhere.
heaviside: 0 below zero, 1 above, `values` at zero.
histc: A histogram with bins of equal width.
histogram: A histogram, and the edges of its bins.
histogramdd: A histogram of points in several dimensions, and the edges of its bins.
hsplit: The tensor split along its second dimension, or its only one.
hstack: The tensors stacked along the second dimension, vectors along the first.
hypot: The length of the hypotenuse: `sqrt(input**2 + other**2)`.
i0: The modified Bessel function of order 0.
igamma: The regularised lower incomplete gamma function.
igammac: The regularised upper incomplete gamma function.
imag: The imaginary parts, as a view.
index_add: The tensor with slices of `source` added at `index`.
index_copy: The tensor with slices of `source` at `index`.
index_fill: The tensor with slices at `index` filled.
index_put: The tensor with other values at the indices.
index_reduce: The tensor with slices of `source` reduced into those at `index`.
index_select: The slices along `dim` at `index`.
inner: The inner products along the last dimensions.
instance_norm: Normalises each channel of each example.
inverse: The inverse of square matrices.
isclose: Whether elements are close.
isfinite: Whether elements are neither infinite nor NaN.
isin: Whether elements are among those of another tensor.
isinf: Whether elements are infinite.
isnan: Whether elements are NaN.
isneginf: Whether elements are negative infinity.
isposinf: Whether elements are positive infinity.
isreal: Whether elements have no imaginary part.
istft: The inverse short-time Fourier transform.
kron: The Kronecker product.
kthvalue: The `k`-th smallest element along `dim`, and its index.
layer_norm: Normalises over the last dimensions, then scales and shifts.
lcm: The least common multiple.
ldexp: `input * 2**other`.
le: Whether elements are less or equal.
lerp: `input + weight * (end - input)`.
lgamma: The logarithm of the absolute value of the gamma function.
linspace: `steps` numbers from `start` to `end`, evenly spaced.
log: The natural logarithm of each element.
log10: The logarithm to base 10.
log1p: `log(1 + x)`, accurate for small elements.
log2: The logarithm to base 2.
log_softmax: The logarithm of softmax, computed without overflow.
logaddexp: `log(exp(input) + exp(other))`, computed without overflow.
logaddexp2: `log2(2**input + 2**other)`, computed without overflow.
logcumsumexp: The logarithm of the cumulative sum of exponentials.
logdet: The logarithm of the determinant.
logical_and: The logical and.
logical_not: The logical not.
logical_or: The logical or.
logical_xor: The logical exclusive or.
logit: The inverse of the sigmoid.
logspace: `steps` numbers, evenly spaced on a logarithmic scale.
logsumexp: The logarithm of the sum of exponentials, computed without overflow.
lt: Whether elements are less.
masked_fill: The tensor with `value` where the mask is true.
masked_scatter: The tensor with elements of `source`, in order, where the mask is true.
masked_select: The elements where the mask is true.
matmul: The matrix product, of vectors, matrices or batches of them.
matrix_exp: The exponential of square matrices.
matrix_power: The `n`-th power of square matrices.
max: The maximum: of all elements, along `dim` with its index, or of two tensors.
max_pool1d: Max pooling of signals.
max_pool2d: Max pooling of images.
max_pool3d: Max pooling of volumes.
maximum: The larger of two elements; NaN where either is.
mean: The mean of all elements, or along dimensions.
median: The median, the lower of two: of all elements, or along `dim` with its index.
meshgrid: Coordinates of a grid from coordinates along its axes.
min: The minimum: of all elements, along `dim` with its index, or of two tensors.
minimum: The smaller of two elements; NaN where either is.
mm: The product of two matrices.
mode: The most frequent element along `dim`, and its index.
movedim: The dimensions in another order: some moved, the others kept in order.
mse_loss: The mean of squared differences.
msort: The elements sorted along the first dimension.
mul: The product, element by element.
multinomial: Indices drawn with the rows as probabilities.
mv: The product of a matrix and a vector.
mvlgamma: The logarithm of the multivariate gamma function.
nan_to_num: The tensor with NaN and infinities replaced by numbers.
nanmean: The mean of the elements that are not NaN.
nanmedian: The median of the elements that are not NaN.
nanquantile: Quantiles of the elements that are not NaN.
nansum: The sum of the elements that are not NaN.
narrow: A slice along `dim`, as a view.
narrow_copy: A copy of what `narrow` shows.
native_group_norm: `group_norm`, with its means and reciprocal standard deviations.
native_layer_norm: `layer_norm`, with its means and reciprocal standard deviations.
ne: Whether elements differ.
neg: The negative of each element.
nextafter: The next floating-point number towards `other`.
nll_loss: The negative log-likelihood of the target classes, from log-probabilities.
nonzero: The indices of elements that are not zero, one row each.
nonzero_static: The indices of elements that are not zero, in a fixed number of rows.
norm: A norm of all elements, or along dimensions.
norm_except_dim: Norms over all dimensions but one.
normal: Normal random numbers with the given means and standard deviations.
nuclear_norm: The sum of singular values.
ones: A tensor of ones.
ones_like: A tensor of ones, of the same shape and dtype.
orgqr: The matrix Q of Householder reflectors.
ormqr: The product of a matrix with the Q of Householder reflectors.
outer: The outer product of two vectors.
pairwise_distance: The `p`-norms of differences of vectors.
pdist: The distances between all pairs of rows.
permute: The dimensions in another order, as a view.
permute_copy: A copy of what `permute` shows.
pinverse: The pseudo-inverse.
pixel_shuffle: Channels rearranged into space: higher resolution, fewer channels.
pixel_unshuffle: Space rearranged into channels: lower resolution, more channels.
polar: Complex numbers of absolute values and angles.
polygamma: The `n`-th derivative of the digamma function.
positive: The tensor itself.
pow: Each element to a power.
prelu: The element where positive, `weight` times it elsewhere.
prod: The product of all elements, or along `dim`.
put: The tensor with other elements at flat indices.
qr: The QR decomposition.
quantile: Quantiles of all elements, or along `dim`.
rad2deg: Radians as degrees.
rand: Uniform random numbers from 0 to before 1.
rand_like: Uniform random numbers, of the same shape and dtype.
randint: Random integers from `low` to before `high`.
randint_like: Random integers, of the same shape and dtype.
randn: Normal random numbers of mean 0 and standard deviation 1.
randn_like: Normal random numbers, of the same shape and dtype.
randperm: A random permutation of the integers from 0 to before `n`.
ravel: All elements as one dimension; a view where it can be.
real: The real parts, as a view.
reciprocal: One divided by each element.
relu: The element where positive, 0 elsewhere.
remainder: The remainder with the sign of `other`, as Python's `%`.
renorm: Slices along `dim`, scaled down to a norm of at most `maxnorm`.
repeat: The tensor repeated along its dimensions.
repeat_interleave: Each element, or slice, repeated.
reshape: The elements in another shape; a view where it can be.
reshape_as: The elements in the shape of `other`.
rms_norm: Normalises by the root mean square over the last dimensions.
roll: The elements shifted along dimensions, wrapping around.
rot90: The tensor rotated by 90 degrees in the plane of two dimensions.
round: Each element rounded to the nearest, halves to even.
rrelu: The leaky rectified linear unit with a random slope in training.
rsqrt: One divided by the square root.
rsub: `other - alpha * input`.
scatter: The tensor with values written along `dim` at `index`.
scatter_add: The tensor with values added along `dim` at `index`.
scatter_reduce: The tensor with values reduced along `dim` at `index`.
searchsorted: The indices at which values would be inserted into sorted sequences.
select: A slice at one index of `dim`, as a view.
select_copy: A copy of what `select` shows.
select_scatter: The tensor with another slice at one index of `dim`.
selu: The scaled exponential linear unit.
sgn: The sign; of complex numbers, the number divided by its modulus.
sigmoid: `1 / (1 + exp(-x))`.
sign: The sign of each element: -1, 0 or 1.
signbit: Whether the sign bit is set, that of -0.0 included.
sin: The sine of each element, in radians.
sinc: `sin(pi x) / (pi x)`, 1 at zero.
sinh: The hyperbolic sine of each element.
slice_copy: A copy of what `slice` shows.
slice_scatter: The tensor with another slice along `dim`.
slogdet: The sign and the logarithm of the absolute value of the determinant.
softmax: Exponentials along `dim`, divided by their sum.
sort: The elements sorted along `dim`, and their indices.
split: The tensor split into pieces of given sizes, as views.
split_copy: A copy of what `split` shows.
split_with_sizes: The tensor split into pieces of given sizes, as views.
split_with_sizes_copy: A copy of what `split_with_sizes` shows.
sqrt: The square root of each element.
square: The square of each element.
squeeze: The tensor without dimensions of size 1, as a view.
squeeze_copy: A copy of what `squeeze` shows.
stack: The tensors stacked along a new dimension.
std: The standard deviation.
std_mean: The standard deviation and the mean.
stft: The short-time Fourier transform of a signal.
sub: `input - alpha * other`.
sum: The sum of all elements, or along dimensions.
sum_to_size: The sum over the dimensions that broadcasting from that size would expand.
svd: The singular value decomposition.
swapaxes: Two dimensions exchanged, as a view.
swapdims: Two dimensions exchanged, as a view.
t: The transpose of a matrix, as a view.
t_copy: A copy of what `t` shows.
take: The elements at flat indices.
take_along_dim: Elements along `dim` at the indices.
tan: The tangent of each element, in radians.
tanh: The hyperbolic tangent of each element.
tensor_split: The tensor split into pieces, as views; they need not be equal.
tensordot: The contraction of two tensors over given dimensions.
threshold: The element where greater than `threshold`, `value` elsewhere.
tile: The tensor repeated as often as `dims` says.
topk: The `k` largest (or smallest) elements along `dim`, and their indices.
trace: The sum of a matrix's diagonal.
transpose: Two dimensions exchanged, as a view.
transpose_copy: A copy of what `transpose` shows.
trapezoid: The integral along `dim`, by the trapezoidal rule.
triangular_solve: The solution of a triangular system.
tril: The part of a matrix on and below a diagonal.
tril_indices: The indices of the part of a matrix on and below a diagonal.
triu: The part of a matrix on and above a diagonal.
triu_indices: The indices of the part of a matrix on and above a diagonal.
true_divide: The quotient.
trunc: Each element truncated towards zero.
unbind: The slices along `dim`, as views.
unbind_copy: A copy of what `unbind` shows.
unflatten: One dimension as several.
unfold: All windows of `size` along a dimension, as a view.
unfold_copy: A copy of what `unfold` shows.
unique: The distinct elements, sorted.
unique_consecutive: The elements without consecutive duplicates.
unravel_index: Flat indices as one index per dimension.
unsafe_chunk: As `chunk`, but the chunks are no views.
unsafe_split: As `split`, but the parts are no views.
unsafe_split_with_sizes: As `split_with_sizes`, but the parts are no views.
unsqueeze: A new dimension of size 1, as a view.
unsqueeze_copy: A copy of what `unsqueeze` shows.
vander: The Vandermonde matrix: powers of the elements of a vector.
var: The variance.
var_mean: The variance and the mean.
vdot: The dot product of two vectors, the first conjugated.
view: The elements in another shape or dtype, as a view.
view_as: A view in the shape of `other`.
view_as_complex: Pairs of real numbers as complex numbers, as a view.
view_as_complex_copy: A copy of what `view_as_complex` shows.
view_as_real: Complex numbers as pairs of real numbers, as a view.
view_as_real_copy: A copy of what `view_as_real` shows.
view_copy: A copy of what `view` shows.
vsplit: The tensor cut along its first dimension.
vstack: The tensors joined along the first dimension, vectors as rows.
where: Elements of `input` where the condition is true, of `other` elsewhere.
xlogy: `input * log(other)`, 0 where `input` is 0.
zeros: A tensor of zeros.
zeros_like: A tensor of zeros, of the same shape and dtype.
fft.fft: The discrete Fourier transform along a dimension.
fft.fft2: The discrete Fourier transform along two dimensions.
fft.fftn: The discrete Fourier transform along several dimensions.
fft.fftfreq: The frequencies of the bins of `fft`.
fft.fftshift: The spectrum with frequency zero in the centre.
fft.hfft: The transform of a signal that is Hermitian in time: its spectrum is real.
fft.hfft2: `hfft` along two dimensions.
fft.hfftn: `hfft` along several dimensions.
fft.ifft: The inverse of `fft`.
fft.ifft2: The inverse of `fft2`.
fft.ifftn: The inverse of `fftn`.
fft.ifftshift: The inverse of `fftshift`.
fft.ihfft: The inverse of `hfft`.
fft.ihfft2: The inverse of `hfft2`.
fft.ihfftn: The inverse of `hfftn`.
fft.irfft: The inverse of `rfft`.
fft.irfft2: The inverse of `rfft2`.
fft.irfftn: The inverse of `rfftn`.
fft.rfft: The Fourier transform of a real signal: the half of its spectrum that is not redundant.
fft.rfft2: `rfft` along two dimensions.
fft.rfftn: `rfft` along several dimensions.
fft.rfftfreq: The frequencies of the bins of `rfft`.
linalg.cholesky: The triangular factor of positive definite matrices.
linalg.cholesky_ex: `cholesky` that reports failures in `info` instead of raising.
linalg.cond: The condition number.
linalg.cross: The cross product of vectors of three elements.
linalg.det: The determinant.
linalg.diagonal: The diagonals between two dimensions, as a view.
linalg.eig: Eigenvalues and eigenvectors.
linalg.eigh: Eigenvalues and eigenvectors of Hermitian matrices.
linalg.eigvals: Eigenvalues.
linalg.eigvalsh: Eigenvalues of Hermitian matrices.
linalg.householder_product: The matrix Q of Householder reflectors.
linalg.inv: The inverse of square matrices.
linalg.inv_ex: `inv` that reports failures in `info` instead of raising.
linalg.ldl_factor: The LDL factors of Hermitian matrices.
linalg.ldl_factor_ex: `ldl_factor` that reports failures in `info` instead of raising.
linalg.ldl_solve: The solution of a system, from its LDL factors.
linalg.lstsq: The least-squares solution of a system.
linalg.lu: The LU decomposition: the factors P, L and U.
linalg.lu_factor: The LU factors in one matrix, with pivots.
linalg.lu_factor_ex: `lu_factor` that reports failures in `info` instead of raising.
linalg.lu_solve: The solution of a system, from its LU factors.
linalg.matrix_exp: The exponential of square matrices.
linalg.matrix_norm: A norm of matrices.
linalg.matrix_power: The `n`-th power of square matrices.
linalg.matrix_rank: The rank: how many singular values are not negligible.
linalg.multi_dot: The product of several matrices, in the cheapest order.
linalg.norm: A norm of vectors or matrices.
linalg.pinv: The pseudo-inverse.
linalg.qr: The QR decomposition.
linalg.slogdet: The sign and the logarithm of the absolute value of the determinant.
linalg.solve: The solution of square systems.
linalg.solve_ex: `solve` that reports failures in `info` instead of raising.
linalg.solve_triangular: The solution of triangular systems.
linalg.svd: The singular value decomposition.
linalg.svdvals: The singular values.
linalg.tensorinv: The inverse of a tensor, for `tensordot`.
linalg.tensorsolve: The solution of `tensordot(A, x) = B`.
linalg.vander: The Vandermonde matrix: powers of the elements of vectors.
linalg.vecdot: The dot products of vectors along `dim`, the first conjugated.
linalg.vector_norm: A norm of vectors.
nn.functional.adaptive_avg_pool2d: Average pooling of images to `output_size`.
nn.functional.adaptive_avg_pool3d: Average pooling of volumes to `output_size`.
nn.functional.adaptive_max_pool1d: Max pooling of signals to `output_size`.
nn.functional.adaptive_max_pool2d: Max pooling of images to `output_size`.
nn.functional.adaptive_max_pool3d: Max pooling of volumes to `output_size`.
nn.functional.affine_grid: The sampling grid of affine maps, for `grid_sample`.
nn.functional.alpha_dropout: Dropout that keeps mean and variance for self-normalising networks.
nn.functional.avg_pool2d: Average pooling of images.
nn.functional.avg_pool3d: Average pooling of volumes.
nn.functional.batch_norm: Normalises each channel over the batch, or by running statistics.
nn.functional.bilinear: `x1 @ weight[k] @ x2 + bias[k]`, for each output `k`.
nn.functional.binary_cross_entropy: The binary cross entropy of probabilities against targets between 0 and 1.
nn.functional.binary_cross_entropy_with_logits: `binary_cross_entropy` of the sigmoid of logits.
nn.functional.cosine_embedding_loss: The loss of the cosine similarity of pairs against targets 1 and -1.
nn.functional.cross_entropy: The cross entropy of logits against class indices or class probabilities.
nn.functional.ctc_loss: The connectionist temporal classification loss of label sequences.
nn.functional.dropout: In training, zeroes elements with probability `p` and scales the others up.
nn.functional.dropout1d: Dropout of whole channels of signals.
nn.functional.dropout2d: Dropout of whole channels of images.
nn.functional.dropout3d: Dropout of whole channels of volumes.
nn.functional.elu: The element where positive, `alpha * (exp(x) - 1)` elsewhere.
nn.functional.embedding: The rows of `weight` at the indices.
nn.functional.embedding_bag: Sums, means or maxima of the rows that bags of indices name.
nn.functional.feature_alpha_dropout: `alpha_dropout` of whole channels.
nn.functional.fold: Windows put together to images; overlaps are summed.
nn.functional.fractional_max_pool2d: Max pooling of images with windows at random places.
nn.functional.fractional_max_pool3d: Max pooling of volumes with windows at random places.
nn.functional.gaussian_nll_loss: The negative log-likelihood of targets under normal distributions.
nn.functional.gelu: The Gaussian error linear unit: `x * ndtr(x)`.
nn.functional.glu: The gated linear unit: one half of the input times the sigmoid of the other.
nn.functional.grid_sample: Values of images or volumes, interpolated at the points of a grid.
nn.functional.group_norm: Normalises groups of channels.
nn.functional.gumbel_softmax: Samples of a categorical distribution, through which gradients flow.
nn.functional.hardsigmoid: A piecewise linear sigmoid.
nn.functional.hardswish: `x * hardsigmoid(x)`.
nn.functional.hardtanh: Each element, clamped between two bounds.
nn.functional.hinge_embedding_loss: The hinge loss of distances against targets 1 and -1.
nn.functional.huber_loss: The Huber loss: squared differences up to `delta`, linear beyond.
nn.functional.instance_norm: Normalises each channel of each example.
nn.functional.interpolate: Signals, images or volumes resampled to another size.
nn.functional.kl_div: The Kullback-Leibler divergence, from log-probabilities.
nn.functional.l1_loss: The mean of absolute differences.
nn.functional.leaky_relu: The element where positive, a fraction of it elsewhere.
nn.functional.linear: `input @ weight.T + bias`.
nn.functional.linear_cross_entropy: `cross_entropy` of the output of a linear layer.
nn.functional.local_response_norm: Normalises by the squares of neighbouring channels.
nn.functional.log_softmax: The logarithm of softmax, computed without overflow.
nn.functional.logsigmoid: The logarithm of the sigmoid, computed without overflow.
nn.functional.lp_pool1d: `p`-norms over windows of signals.
nn.functional.lp_pool2d: `p`-norms over windows of images.
nn.functional.lp_pool3d: `p`-norms over windows of volumes.
nn.functional.margin_ranking_loss: The hinge loss of the order of two inputs.
nn.functional.max_unpool1d: Max pooling undone: maxima at their indices, zeros elsewhere.
nn.functional.max_unpool2d: Max pooling of images undone: maxima at their indices, zeros elsewhere.
nn.functional.max_unpool3d: Max pooling of volumes undone: maxima at their indices, zeros elsewhere.
nn.functional.mish: `x * tanh(softplus(x))`.
nn.functional.mse_loss: The mean of squared differences.
nn.functional.multi_head_attention_forward: Multi-head attention, with its projections.
nn.functional.multi_margin_loss: The multi-class hinge loss of scores against class indices.
nn.functional.multilabel_margin_loss: The multi-label hinge loss of scores against class indices.
nn.functional.multilabel_soft_margin_loss: The binary cross entropy of scores for several labels at once.
nn.functional.nll_loss: The negative log-likelihood of the target classes, from log-probabilities.
nn.functional.normalize: Vectors along `dim`, divided by their `p`-norms.
nn.functional.one_hot: One-hot vectors of class indices.
nn.functional.pad: The tensor, padded.
nn.functional.poisson_nll_loss: The negative log-likelihood of counts under Poisson distributions.
nn.functional.relu6: Each element, clamped between 0 and 6.
nn.functional.rrelu: The leaky rectified linear unit with a random slope in training.
nn.functional.scaled_dot_product_attention: Attention: values averaged with the softmax of query-key products.
nn.functional.silu: `x * sigmoid(x)`.
nn.functional.smooth_l1_loss: The smooth L1 loss: squared differences up to `beta`, linear beyond.
nn.functional.soft_margin_loss: The logistic loss of scores against -1 and 1.
nn.functional.softmax: Exponentials along `dim`, divided by their sum.
nn.functional.softmin: The softmax of the negated elements.
nn.functional.softplus: `log(1 + exp(x))`, a smooth `relu`.
nn.functional.softshrink: Each element shrunk towards zero by `lambd`.
nn.functional.softsign: `x / (1 + |x|)`.
nn.functional.tanhshrink: `x - tanh(x)`.
nn.functional.triplet_margin_loss: The triplet loss of anchors, positives and negatives with a margin.
nn.functional.unfold: All sliding windows of images, as columns.
nn.functional.upsample: Signals, images or volumes resampled to another size; `interpolate` by another name.
special.entr: The entropy of each element: `-x * log(x)`.
special.erfcx: `exp(x**2) * erfc(x)`.
special.i0e: `exp(-|x|)` times the modified Bessel function of order 0.
special.i1: The modified Bessel function of order 1.
special.i1e: `exp(-|x|)` times the modified Bessel function of order 1.
special.log_ndtr: The logarithm of `ndtr`.
special.log_softmax: The logarithm of softmax, computed without overflow.
special.ndtr: The cumulative distribution function of the standard normal distribution.
special.ndtri: The inverse of `ndtr`.
special.softmax: Exponentials along `dim`, divided by their sum.
special.xlog1py: `input * log(1 + other)`, 0 where `input` is 0.
special.zeta: The Hurwitz zeta function.
"""

_EXAMPLES: Final = """
add: weft.add(weft.tensor([1, 2]), 3) -> tensor([4, 5])
arange: weft.arange(0, 6, 2) -> tensor([0, 2, 4])
argmax: weft.tensor([3, 9, 4]).argmax() -> tensor(1)
bmm: weft.bmm(weft.ones(2, 1, 3), weft.ones(2, 3, 1)).flatten() -> tensor([3., 3.])
cat: weft.cat([weft.tensor([1]), weft.tensor([2, 3])]) -> tensor([1, 2, 3])
clamp: weft.tensor([-2, 0, 5]).clamp(-1, 1) -> tensor([-1,  0,  1])
cumsum: weft.tensor([1, 2, 3]).cumsum(0) -> tensor([1, 3, 6])
diag: weft.diag(weft.tensor([1, 2])) -> tensor([[1, 0], [0, 2]])
einsum: weft.einsum("ij->ji", weft.tensor([[1, 2]])) -> tensor([[1], [2]])
eye: weft.eye(2) -> tensor([[1., 0.], [0., 1.]])
flip: weft.tensor([1, 2, 3]).flip(0) -> tensor([3, 2, 1])
floor_divide: weft.tensor([-7, 7]) // 2 -> tensor([-4,  3])
full: weft.full((2,), 7) -> tensor([7, 7])
gather: weft.tensor([5, 6, 7]).gather(0, weft.tensor([2, 0])) -> tensor([7, 5])
index_select: weft.tensor([5, 6, 7]).index_select(0, weft.tensor([2, 2])) -> tensor([7, 7])
linspace: weft.linspace(0, 1, 3) -> tensor([0.0000, 0.5000, 1.0000])
masked_fill: weft.tensor([1, 2]).masked_fill(weft.tensor([True, False]), 0) -> tensor([0, 2])
matmul: weft.tensor([[1., 2.]]) @ weft.tensor([3., 4.]) -> tensor([11.])
mean: weft.tensor([1., 3.]).mean() -> tensor(2.)
mul: weft.tensor([1, 2]) * weft.tensor([3, 4]) -> tensor([3, 8])
nonzero: weft.tensor([0, 3, 4]).nonzero() -> tensor([[1], [2]])
outer: weft.outer(weft.tensor([1, 2]), weft.tensor([3, 4])) -> tensor([[3, 4], [6, 8]])
permute: weft.ones(2, 3).permute(1, 0).shape -> weft.Size([3, 2])
pow: weft.tensor([1, 2, 3]) ** 2 -> tensor([1, 4, 9])
relu: weft.tensor([-1., 2.]).relu() -> tensor([0., 2.])
remainder: weft.tensor([-7, 7]) % 3 -> tensor([2, 1])
repeat: weft.tensor([1, 2]).repeat(2) -> tensor([1, 2, 1, 2])
reshape: weft.arange(4).reshape(2, 2) -> tensor([[0, 1], [2, 3]])
roll: weft.tensor([1, 2, 3]).roll(1) -> tensor([3, 1, 2])
scatter: weft.zeros(3).scatter(0, weft.tensor([1]), 5.0) -> tensor([0., 5., 0.])
softmax: weft.softmax(weft.zeros(2), 0) -> tensor([0.5000, 0.5000])
sort: weft.tensor([3, 1, 2]).sort().values -> tensor([1, 2, 3])
stack: weft.stack([weft.tensor(1), weft.tensor(2)]) -> tensor([1, 2])
sum: weft.tensor([[1, 2], [3, 4]]).sum(0) -> tensor([4, 6])
tanh: weft.tanh(weft.zeros(1)) -> tensor([0.])
topk: weft.tensor([3, 9, 4]).topk(2).values -> tensor([9, 4])
transpose: weft.tensor([[1, 2]]).transpose(0, 1) -> tensor([[1], [2]])
tril: weft.ones(2, 2).tril() -> tensor([[1., 0.], [1., 1.]])
unique: weft.tensor([2, 1, 2]).unique() -> tensor([1, 2])
unsqueeze: weft.tensor([1, 2]).unsqueeze(0) -> tensor([[1, 2]])
where: weft.where(weft.tensor([True, False]), 1, 0) -> tensor([1, 0])
zeros: weft.zeros(2, dtype=weft.int64) -> tensor([0, 0])
nn.functional.linear: weft.nn.functional.linear(weft.ones(2), weft.ones(3, 2)) -> tensor([2., 2., 2.])
nn.functional.one_hot: weft.nn.functional.one_hot(weft.tensor([1]), 3) -> tensor([[0, 1, 0]])
nn.functional.pad: weft.nn.functional.pad(weft.ones(1), (1, 1)) -> tensor([0., 1., 0.])
linalg.det: weft.linalg.det(weft.eye(2) * 3) -> tensor(9.)
linalg.inv: weft.linalg.inv(weft.eye(2) * 2) -> tensor([[0.5000, 0.0000], [0.0000, 0.5000]])
fft.fft: weft.fft.fft(weft.tensor([1., 0.])) -> tensor([1.+0.j, 1.+0.j])
"""

DESCRIPTIONS: Final[dict[str, str]] = dict(line.split(": ", 1) for line in _TEXT.strip().splitlines())
"""What each public op gives, by its qualified name."""
EXAMPLES: Final[dict[str, tuple[str, str]]] = {
    name: (code, result)
    for name, rest in (line.split(": ", 1) for line in _EXAMPLES.strip().splitlines())
    for code, result in [rest.split(" -> ")]
}
"""An expression and what it prints, lines joined, by the op's qualified name."""


def documentation(name: str, face: str, signature: str, own: str = "") -> str | None:
    """The docstring of a face of an op: its parameters, what it gives, an example."""
    text = own or DESCRIPTIONS.get(name)
    if not text:
        return None
    if face.endswith("_"):
        text = f"In place: {text}"
    parts = [f"{face}({signature})", text]
    if name in EXAMPLES and not face.endswith("_"):
        code, result = EXAMPLES[name]
        parts.append(f">>> {code}\n{result}")
    return "\n\n".join(parts)
