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
adaptive_avg_pool1d: Averages over windows of such sizes that `output_size` of them cover the input.
adaptive_max_pool1d: Maxima over windows of such sizes that `output_size` of them cover the input.
add: The sum `input + alpha * other`, element by element.
addbmm: `beta * input` plus `alpha` times the sum of the products of two batches of matrices.
addcdiv: `input + value * tensor1 / tensor2`.
addcmul: `input + value * tensor1 * tensor2`.
addmm: `beta * input + alpha * (mat1 @ mat2)`.
addmv: `beta * input + alpha * (mat @ vec)`.
addr: `beta * input` plus `alpha` times the outer product of two vectors.
adjoint: The conjugate transpose of the last two dimensions, as a view.
affine_grid_generator: The grid of places to sample, from affine maps.
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
argmax: Where the maximum stands.
argmin: Where the minimum stands.
argsort: The places of elements in sorted order.
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
avg_pool1d: Averages over windows along the last dimension.
baddbmm: `beta * input + alpha * (batch1 @ batch2)`, for batches of matrices.
batch_norm: Normalises each channel over the batch, or by running statistics.
bernoulli: Ones with the probabilities that the elements say, zeros elsewhere.
binary_cross_entropy: The loss of probabilities against targets between 0 and 1.
bincount: How often each number from 0 on occurs.
bitwise_and: The bits that both have.
bitwise_left_shift: The bits moved to the left.
bitwise_not: The bits inverted.
bitwise_or: The bits that either has.
bitwise_right_shift: The bits moved to the right.
bitwise_xor: The bits that just one has.
block_diag: A matrix with the given matrices along its diagonal.
bmm: The products of two batches of matrices.
broadcast_tensors: The tensors, each expanded to the shape that they have together.
broadcast_to: The tensor expanded to a shape, as a view.
bucketize: Between which boundaries each element lies, as an index.
cartesian_prod: All combinations of elements of the given vectors, one row each.
cat: The tensors joined along a dimension that they have.
cdist: The distances between each row of one tensor and each row of another.
ceil: Each element rounded up.
celu: The continuously differentiable exponential linear unit.
chain_matmul: The product of several matrices, in the cheapest order.
channel_shuffle: The channels, dealt out over groups.
cholesky: The triangular factor `L` of a positive definite matrix `L @ L.mH`.
cholesky_inverse: The inverse of a matrix, from its Cholesky factor.
cholesky_solve: The solution of a linear system, from the matrix's Cholesky factor.
chunk: The tensor cut into about equal pieces along `dim`, as views.
clamp: Each element, no smaller than `min` and no larger than `max`.
clamp_max: Each element, no larger than `max`.
clamp_min: Each element, no smaller than `min`.
clone: A copy, through which gradients flow.
column_stack: Vectors as columns, matrices side by side.
combinations: All combinations of `r` elements of a vector, one row each.
complex: Complex numbers of real and imaginary parts.
conj: The complex conjugate.
conj_physical: The complex conjugate, computed at once.
constant_pad_nd: The tensor with elements of one value around it.
contiguous: The tensor, laid out row by row: itself where it already is.
conv1d: A convolution over signals `(batch, channels, length)`.
conv2d: A convolution over pictures `(batch, channels, height, width)`.
conv3d: A convolution over volumes.
conv_transpose1d: The transpose of a convolution over signals: what its gradient computes.
conv_transpose2d: The transpose of a convolution over pictures: what its gradient computes.
conv_transpose3d: The transpose of a convolution over volumes: what its gradient computes.
convolution: A convolution, or its transpose, over one to three dimensions.
copysign: The size of `input` with the sign of `other`.
corrcoef: The correlations between the rows of a matrix.
cos: The cosine of each element, in radians.
cosh: The hyperbolic cosine of each element.
cosine_similarity: The cosine of the angle between vectors along `dim`.
count_nonzero: How many elements are not zero.
cov: The covariances between the rows of a matrix.
cross: The cross product of vectors of three elements.
cummax: The largest element so far along `dim`, and where it stands.
cummin: The smallest element so far along `dim`, and where it stands.
cumprod: Products of all elements so far along `dim`.
cumsum: Sums of all elements so far along `dim`.
cumulative_trapezoid: Integrals so far along `dim`, by the trapezoidal rule.
deg2rad: Degrees as radians.
det: The determinant.
diag: The diagonal of a matrix, or a matrix with the given diagonal.
diag_embed: Matrices whose diagonals are the vectors along the last dimension.
diagflat: A matrix with the elements of a tensor along its diagonal.
diagonal: The diagonals between two dimensions, as a view.
diagonal_copy: A copy of what `diagonal` shows.
diagonal_scatter: The tensor with another diagonal.
diff: Differences of neighbours along `dim`, `n` times over.
digamma: The logarithmic derivative of the gamma function.
dist: The `p`-norm of the difference.
div: The quotient, rounded as `rounding_mode` says.
dot: The sum of products of two vectors.
dropout: In training, zeroes elements with probability `p` and scales the others up.
dsplit: The tensor cut along its third dimension.
dstack: The tensors joined along the third dimension.
einsum: A sum of products over named indices: `einsum("ij,jk->ik", a, b)`.
embedding: The rows of `weight` that the indices name.
empty: A tensor whose elements are whatever lay there.
empty_like: A tensor of the same shape and type whose elements are whatever lay there.
empty_strided: A tensor with the given strides whose elements are whatever lay there.
eq: Whether elements are equal.
equal: Whether shapes and all elements are equal, as a Python bool.
erf: The error function of each element.
erfc: One less the error function of each element.
erfinv: The inverse of the error function.
exp: The exponential of each element.
exp2: Two to the power of each element.
expand: A view in which dimensions of size 1 are repeated.
expand_as: A view in which dimensions of size 1 are repeated, up to the shape of `other`.
expand_copy: A copy of what `expand` shows.
expm1: `exp(x) - 1`, exact for small elements.
eye: The identity matrix.
feature_alpha_dropout: `alpha_dropout` of whole channels.
feature_dropout: Dropout of whole channels.
fill: The tensor with all elements replaced by one value.
flatten: Some dimensions as one.
flip: The elements in reverse order along dimensions.
fliplr: The columns in reverse order.
flipud: The rows in reverse order.
float_power: Powers in double precision.
floor: Each element rounded down.
floor_divide: The quotient rounded down.
fmax: The larger of two elements; a number where the other is NaN.
fmin: The smaller of two elements; a number where the other is NaN.
fmod: The remainder with the sign of `input`.
frac: What stands behind the decimal point.
frexp: Mantissas and exponents of two.
frobenius_norm: The root of the sum of squares.
full: A tensor of one value.
full_like: A tensor of one value, of the same shape and type.
gather: Elements along `dim` at the places that `index` names.
gcd: The greatest common divisor.
ge: Whether elements are greater or equal.
geqrf: The factors of a QR decomposition, as LAPACK keeps them.
gradient: Estimates of the gradient of a function from its values.
grid_sampler: `grid_sample` by numbers for its modes.
grid_sampler_2d: `grid_sample` by numbers for its modes.
grid_sampler_3d: `grid_sample` by numbers for its modes.
group_norm: Normalises groups of channels.
gt: Whether elements are greater.
hardshrink: Zero within `lambd` of zero, the element elsewhere.
heaviside: 0 below zero, 1 above, `values` at zero.
histc: How many elements fall into each of equal bins.
histogram: How many elements fall into each bin, and the bins' edges.
histogramdd: Counts of points in boxes, and the boxes' edges.
hsplit: The tensor cut along its second dimension, or its first if there is one only.
hstack: The tensors joined along the second dimension, vectors along the first.
hypot: The length of the hypotenuse: `sqrt(input**2 + other**2)`.
i0: The modified Bessel function of order 0.
igamma: The regularised lower incomplete gamma function.
igammac: The regularised upper incomplete gamma function.
imag: The imaginary parts, as a view.
index_add: The tensor with slices of `source` added where `index` says.
index_copy: The tensor with slices of `source` where `index` says.
index_fill: The tensor with slices filled where `index` says.
index_put: The tensor with other values at places that index tensors name.
index_reduce: The tensor with slices of `source` reduced into those that `index` names.
index_select: Slices along `dim` that `index` names.
inner: The sums of products along the last dimensions.
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
istft: The signal of a short-time Fourier transform.
kron: The Kronecker product.
kthvalue: The `k`-th smallest element along `dim`, and where it stands.
layer_norm: Normalises over the last dimensions, then scales and shifts.
lcm: The least common multiple.
ldexp: `input * 2**other`.
le: Whether elements are less or equal.
lerp: `input + weight * (end - input)`.
lgamma: The logarithm of the absolute value of the gamma function.
linspace: `steps` numbers from `start` to `end`, evenly spaced.
log: The natural logarithm of each element.
log10: The logarithm to base 10.
log1p: `log(1 + x)`, exact for small elements.
log2: The logarithm to base 2.
log_softmax: The logarithm of softmax, computed without overflow.
logaddexp: `log(exp(input) + exp(other))`, computed without overflow.
logaddexp2: `log2(2**input + 2**other)`, computed without overflow.
logcumsumexp: The logarithm of sums so far of exponentials.
logdet: The logarithm of the determinant.
logical_and: Whether both are true.
logical_not: Whether it is false.
logical_or: Whether either is true.
logical_xor: Whether just one is true.
logit: The inverse of the sigmoid.
logspace: `steps` numbers, evenly spaced in their logarithms.
logsumexp: The logarithm of the sum of exponentials, computed without overflow.
lt: Whether elements are less.
masked_fill: The tensor with `value` where the mask is true.
masked_scatter: The tensor with elements of `source`, in order, where the mask is true.
masked_select: The elements where the mask is true.
matmul: The matrix product, of vectors, matrices or batches of them.
matrix_exp: The exponential of square matrices.
matrix_power: The `n`-th power of square matrices.
max: The maximum: of all elements, along `dim` with its place, or of two tensors.
max_pool1d: Maxima over windows along the last dimension.
max_pool2d: Maxima over windows of pictures.
max_pool3d: Maxima over windows of volumes.
maximum: The larger of two elements; NaN where either is.
mean: The mean of all elements, or along dimensions.
median: The median, the lower of two: of all elements, or along `dim` with its place.
meshgrid: Coordinates of a grid from coordinates along its axes.
min: The minimum: of all elements, along `dim` with its place, or of two tensors.
minimum: The smaller of two elements; NaN where either is.
mm: The product of two matrices.
mode: The most frequent element along `dim`, and where it stands.
movedim: The dimensions in another order: some moved, the others kept in order.
mse_loss: The mean of squared differences.
msort: The rows in sorted order, each column for itself.
mul: The product, element by element.
multinomial: Places drawn with the probabilities that the rows say.
mv: The product of a matrix and a vector.
mvlgamma: The logarithm of the multivariate gamma function.
nan_to_num: The tensor with numbers for NaN and infinities.
nanmean: The mean of what is not NaN.
nanmedian: The median of what is not NaN.
nanquantile: Quantiles of what is not NaN.
nansum: The sum of what is not NaN.
narrow: A piece along `dim`, as a view.
narrow_copy: A copy of what `narrow` shows.
native_group_norm: `group_norm`, with its means and inverse deviations.
native_layer_norm: `layer_norm`, with its means and inverse deviations.
ne: Whether elements differ.
neg: The negative of each element.
nextafter: The next floating-point number towards `other`.
nll_loss: The negative log-likelihood of the right classes, from log-probabilities.
nonzero: The indices of elements that are not zero, one row each.
nonzero_static: The indices of elements that are not zero, in a fixed number of rows.
norm: A norm of all elements, or along dimensions.
norm_except_dim: Norms over all dimensions but one.
normal: Normal random numbers with the given means and deviations.
nuclear_norm: The sum of singular values.
ones: A tensor of ones.
ones_like: A tensor of ones, of the same shape and type.
orgqr: The matrix Q of Householder reflectors.
ormqr: The product of a matrix with the Q of Householder reflectors.
outer: All products of elements of two vectors.
pairwise_distance: The `p`-norms of differences of vectors.
pdist: The distances between all pairs of rows.
permute: The dimensions in another order, as a view.
permute_copy: A copy of what `permute` shows.
pinverse: The pseudo-inverse.
pixel_shuffle: Channels arranged as finer pixels.
pixel_unshuffle: Pixels arranged as more channels.
polar: Complex numbers of absolute values and angles.
polygamma: The `n`-th derivative of the digamma function.
positive: The tensor itself.
pow: Each element to a power.
prelu: The element where positive, `weight` times it elsewhere.
prod: The product of all elements, or along `dim`.
put: The tensor with other elements at places counted over all of it.
qr: The QR decomposition.
quantile: Quantiles of all elements, or along `dim`.
rad2deg: Radians as degrees.
rand: Uniform random numbers from 0 to before 1.
rand_like: Uniform random numbers, of the same shape and type.
randint: Random whole numbers from `low` to before `high`.
randint_like: Random whole numbers, of the same shape and type.
randn: Normal random numbers of mean 0 and deviation 1.
randn_like: Normal random numbers, of the same shape and type.
randperm: The numbers from 0 to before `n` in random order.
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
rms_norm: Divides by the root of the mean square over the last dimensions.
roll: The elements moved along dimensions, coming back at the other end.
rot90: The tensor turned by 90 degrees in the plane of two dimensions.
round: Each element rounded to the nearest, halves to even.
rrelu: Leaky rectifier with a random slope in training.
rsqrt: One divided by the square root.
rsub: `other - alpha * input`.
scatter: The tensor with values written along `dim` where `index` says.
scatter_add: The tensor with values added along `dim` where `index` says.
scatter_reduce: The tensor with values reduced along `dim` where `index` says.
searchsorted: Where values would stand in sorted sequences.
select: A slice at one index of `dim`, as a view.
select_copy: A copy of what `select` shows.
select_scatter: The tensor with another slice at one index of `dim`.
selu: The scaled exponential linear unit.
sgn: The sign; of complex numbers, the number divided by its modulus.
sigmoid: `1 / (1 + exp(-x))`.
sign: -1, 0 or 1.
signbit: Whether the sign bit is set, that of -0.0 included.
sin: The sine of each element, in radians.
sinc: `sin(pi x) / (pi x)`, 1 at zero.
sinh: The hyperbolic sine of each element.
slice_copy: A copy of what `slice` shows.
slice_scatter: The tensor with another piece along `dim`.
slogdet: The sign and the logarithm of the absolute value of the determinant.
softmax: Exponentials along `dim`, divided by their sum.
sort: The elements in order along `dim`, and where they stood.
split: The tensor cut into pieces of given sizes, as views.
split_copy: A copy of what `split` shows.
split_with_sizes: The tensor cut into pieces of given sizes, as views.
split_with_sizes_copy: A copy of what `split_with_sizes` shows.
sqrt: The square root of each element.
square: The square of each element.
squeeze: The tensor without dimensions of size 1, as a view.
squeeze_copy: A copy of what `squeeze` shows.
stack: The tensors joined along a new dimension.
std: The standard deviation.
std_mean: The standard deviation and the mean.
stft: The short-time Fourier transform of a signal.
sub: `input - alpha * other`.
sum: The sum of all elements, or along dimensions.
sum_to_size: Sums over what a tensor of that size would have been expanded along.
svd: The singular value decomposition.
swapaxes: Two dimensions exchanged, as a view.
swapdims: Two dimensions exchanged, as a view.
t: The transpose of a matrix, as a view.
t_copy: A copy of what `t` shows.
take: Elements at places counted over all of the tensor.
take_along_dim: Elements along `dim` at the places that indices name.
tan: The tangent of each element, in radians.
tanh: The hyperbolic tangent of each element.
tensor_split: The tensor cut into pieces, as views; they need not be equal.
tensordot: Sums of products over dimensions of two tensors.
threshold: The element where greater than `threshold`, `value` elsewhere.
tile: The tensor repeated as often as `dims` says.
topk: The `k` largest (or smallest) elements along `dim`, and where they stand.
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
trunc: Each element without what stands behind the decimal point.
unbind: The slices along `dim`, as views.
unbind_copy: A copy of what `unbind` shows.
unflatten: One dimension as several.
unfold: All windows of `size` along a dimension, as a view.
unfold_copy: A copy of what `unfold` shows.
unique: The different elements, in order.
unique_consecutive: The elements without those that equal the one before.
unravel_index: Indices of places that are counted over all of a tensor.
unsafe_chunk: As `chunk`, but the parts are no views.
unsafe_split: As `split`, but the parts are no views.
unsafe_split_with_sizes: As `split_with_sizes`, but the parts are no views.
unsqueeze: A new dimension of size 1, as a view.
unsqueeze_copy: A copy of what `unsqueeze` shows.
vander: The matrix of powers of a vector's elements.
var: The variance.
var_mean: The variance and the mean.
vdot: The sum of products of two vectors, the first conjugated.
view: The elements in another shape, or of another type, as a view.
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
zeros_like: A tensor of zeros, of the same shape and type.
fft.fft: The discrete Fourier transform along a dimension.
fft.fft2: The discrete Fourier transform along two dimensions.
fft.fftn: The discrete Fourier transform along several dimensions.
fft.fftfreq: The frequencies that belong to the places of a transform.
fft.fftshift: A spectrum with frequency zero in the middle.
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
fft.rfft: The half of a real signal's spectrum that is not redundant.
fft.rfft2: `rfft` along two dimensions.
fft.rfftn: `rfft` along several dimensions.
fft.rfftfreq: The frequencies that belong to the places of `rfft`.
linalg.cholesky: The triangular factor of positive definite matrices.
linalg.cholesky_ex: `cholesky`, telling failures in `info` instead of raising.
linalg.cond: How much errors may grow: the condition number.
linalg.cross: The cross product of vectors of three elements.
linalg.det: The determinant.
linalg.diagonal: The diagonals between two dimensions, as a view.
linalg.eig: Eigenvalues and eigenvectors.
linalg.eigh: Eigenvalues and eigenvectors of Hermitian matrices.
linalg.eigvals: Eigenvalues.
linalg.eigvalsh: Eigenvalues of Hermitian matrices.
linalg.householder_product: The matrix Q of Householder reflectors.
linalg.inv: The inverse of square matrices.
linalg.inv_ex: `inv`, telling failures in `info` instead of raising.
linalg.ldl_factor: The LDL factors of Hermitian matrices.
linalg.ldl_factor_ex: `ldl_factor`, telling failures in `info` instead of raising.
linalg.ldl_solve: The solution of a system, from its LDL factors.
linalg.lstsq: The least-squares solution of a system.
linalg.lu: The factors P, L and U.
linalg.lu_factor: The LU factors in one matrix, with pivots.
linalg.lu_factor_ex: `lu_factor`, telling failures in `info` instead of raising.
linalg.lu_solve: The solution of a system, from its LU factors.
linalg.matrix_exp: The exponential of square matrices.
linalg.matrix_norm: A norm of matrices.
linalg.matrix_power: The `n`-th power of square matrices.
linalg.matrix_rank: How many singular values are not negligible.
linalg.multi_dot: The product of several matrices, in the cheapest order.
linalg.norm: A norm of vectors or matrices.
linalg.pinv: The pseudo-inverse.
linalg.qr: The QR decomposition.
linalg.slogdet: The sign and the logarithm of the absolute value of the determinant.
linalg.solve: The solution of square systems.
linalg.solve_ex: `solve`, telling failures in `info` instead of raising.
linalg.solve_triangular: The solution of triangular systems.
linalg.svd: The singular value decomposition.
linalg.svdvals: The singular values.
linalg.tensorinv: The inverse of a tensor, for `tensordot`.
linalg.tensorsolve: The solution of `tensordot(A, x) = B`.
linalg.vander: The matrix of powers of vectors' elements.
linalg.vecdot: The sums of products of vectors along `dim`, the first conjugated.
linalg.vector_norm: A norm of vectors.
nn.functional.adaptive_avg_pool2d: Averages over windows of pictures, as many as `output_size` says.
nn.functional.adaptive_avg_pool3d: Averages over windows of volumes, as many as `output_size` says.
nn.functional.adaptive_max_pool1d: Maxima over windows of signals, as many as `output_size` says.
nn.functional.adaptive_max_pool2d: Maxima over windows of pictures, as many as `output_size` says.
nn.functional.adaptive_max_pool3d: Maxima over windows of volumes, as many as `output_size` says.
nn.functional.affine_grid: The grid of places to sample, from affine maps.
nn.functional.alpha_dropout: Dropout that keeps mean and variance for self-normalising networks.
nn.functional.avg_pool2d: Averages over windows of pictures.
nn.functional.avg_pool3d: Averages over windows of volumes.
nn.functional.batch_norm: Normalises each channel over the batch, or by running statistics.
nn.functional.bilinear: `x1 @ weight[k] @ x2 + bias[k]`, for each output `k`.
nn.functional.binary_cross_entropy: The loss of probabilities against targets between 0 and 1.
nn.functional.binary_cross_entropy_with_logits: The loss of logits against targets between 0 and 1.
nn.functional.cosine_embedding_loss: Pulls pairs of vectors together or apart, by their angle.
nn.functional.cross_entropy: The loss of scores against classes, or against probabilities of classes.
nn.functional.ctc_loss: The loss of a sequence of scores against a shorter sequence of labels.
nn.functional.dropout: In training, zeroes elements with probability `p` and scales the others up.
nn.functional.dropout1d: Dropout of whole channels of signals.
nn.functional.dropout2d: Dropout of whole channels of pictures.
nn.functional.dropout3d: Dropout of whole channels of volumes.
nn.functional.elu: The element where positive, `alpha * (exp(x) - 1)` elsewhere.
nn.functional.embedding: The rows of `weight` that the indices name.
nn.functional.embedding_bag: Sums, means or maxima of the rows that bags of indices name.
nn.functional.feature_alpha_dropout: `alpha_dropout` of whole channels.
nn.functional.fold: Windows put together to pictures, where they overlap summed.
nn.functional.fractional_max_pool2d: Maxima over windows of random sizes, of pictures.
nn.functional.fractional_max_pool3d: Maxima over windows of random sizes, of volumes.
nn.functional.gaussian_nll_loss: The negative log-likelihood of targets under normal distributions.
nn.functional.gelu: The element times the probability that a normal number is less.
nn.functional.glu: One half of the input times the sigmoid of the other.
nn.functional.grid_sample: Values of pictures or volumes at the places of a grid.
nn.functional.group_norm: Normalises groups of channels.
nn.functional.gumbel_softmax: Samples of a categorical distribution, through which gradients flow.
nn.functional.hardsigmoid: A sigmoid of three straight lines.
nn.functional.hardswish: The element times `hardsigmoid` of it.
nn.functional.hardtanh: Each element, kept between two bounds.
nn.functional.hinge_embedding_loss: The element where the target is 1, a margin less it where it is -1.
nn.functional.huber_loss: Squared differences near zero, absolute ones beyond `delta`.
nn.functional.instance_norm: Normalises each channel of each example.
nn.functional.interpolate: Signals, pictures or volumes in another size.
nn.functional.kl_div: The Kullback-Leibler divergence, from log-probabilities.
nn.functional.l1_loss: The mean of absolute differences.
nn.functional.leaky_relu: The element where positive, a fraction of it elsewhere.
nn.functional.linear: `input @ weight.T + bias`.
nn.functional.linear_cross_entropy: `cross_entropy` of what a linear layer gives.
nn.functional.local_response_norm: Divides by what the neighbouring channels are.
nn.functional.log_softmax: The logarithm of softmax, computed without overflow.
nn.functional.logsigmoid: The logarithm of the sigmoid, computed without overflow.
nn.functional.lp_pool1d: `p`-norms over windows of signals.
nn.functional.lp_pool2d: `p`-norms over windows of pictures.
nn.functional.lp_pool3d: `p`-norms over windows of volumes.
nn.functional.margin_ranking_loss: How far one input is from being greater than the other, by a margin.
nn.functional.max_unpool1d: Maxima put back where they stood, zeros elsewhere.
nn.functional.max_unpool2d: Maxima put back where they stood in pictures, zeros elsewhere.
nn.functional.max_unpool3d: Maxima put back where they stood in volumes, zeros elsewhere.
nn.functional.mish: The element times the hyperbolic tangent of its softplus.
nn.functional.mse_loss: The mean of squared differences.
nn.functional.multi_head_attention_forward: Attention of several heads, with the projections around it.
nn.functional.multi_margin_loss: How far other classes come within a margin of the right one.
nn.functional.multilabel_margin_loss: How far other classes come within a margin of the right ones.
nn.functional.multilabel_soft_margin_loss: The loss of scores for classes that do not exclude each other.
nn.functional.nll_loss: The negative log-likelihood of the right classes, from log-probabilities.
nn.functional.normalize: Vectors along `dim`, divided by their norms.
nn.functional.one_hot: Vectors with a one at the place that each number names.
nn.functional.pad: The tensor with more elements around it.
nn.functional.poisson_nll_loss: The negative log-likelihood of counts under Poisson distributions.
nn.functional.relu6: Each element, kept between 0 and 6.
nn.functional.rrelu: Leaky rectifier with a random slope in training.
nn.functional.scaled_dot_product_attention: Means of values, weighted by how well keys fit queries.
nn.functional.silu: The element times the sigmoid of it.
nn.functional.smooth_l1_loss: Squared differences near zero, absolute ones beyond `beta`.
nn.functional.soft_margin_loss: The logistic loss of scores against -1 and 1.
nn.functional.softmax: Exponentials along `dim`, divided by their sum.
nn.functional.softmin: The softmax of the negative.
nn.functional.softplus: `log(1 + exp(x))`, smooth in place of `relu`.
nn.functional.softshrink: Each element moved towards zero by `lambd`.
nn.functional.softsign: `x / (1 + |x|)`.
nn.functional.tanhshrink: `x - tanh(x)`.
nn.functional.triplet_margin_loss: How much nearer an anchor should be to a positive than to a negative.
nn.functional.unfold: All windows of pictures, as columns.
nn.functional.upsample: Signals, pictures or volumes in another size; `interpolate` by another name.
special.entr: `-x * log(x)`, the entropy.
special.erfcx: `exp(x**2) * erfc(x)`.
special.i0e: `exp(-|x|)` times the modified Bessel function of order 0.
special.i1: The modified Bessel function of order 1.
special.i1e: `exp(-|x|)` times the modified Bessel function of order 1.
special.log_ndtr: The logarithm of the normal distribution function.
special.log_softmax: The logarithm of softmax, computed without overflow.
special.ndtr: The probability that a normal number is less.
special.ndtri: The inverse of the normal distribution function.
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
