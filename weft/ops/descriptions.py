"""Descriptions: one line for each public op whose record has no `doc`, for `help(...)` and for the table of
operators.

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
affine_grid_generator: The sampling grid of affine maps.
alias: A view of the whole tensor.
all: Whether all elements, or all along `dim`, are true.
alpha_dropout: Dropout that keeps mean and variance for self-normalising networks.
amax: The maximum along dimensions; equal maxima share the gradient.
amin: The minimum along dimensions; equal minima share the gradient.
angle: The angle of each element in the complex plane, in radians.
any: Whether any element, or any along `dim`, is true.
argmax: The index of the maximum: of all elements, or along `dim`.
argmin: The index of the minimum: of all elements, or along `dim`.
argsort: The indices that sort the elements along `dim`.
argwhere: The indices of the elements that are not zero, one row each.
asin: The arc sine of each element, in radians.
asinh: The inverse hyperbolic sine of each element.
atan: The arc tangent of each element, in radians.
atan2: The angle of the point `(other, input)`, in the right quadrant.
atanh: The inverse hyperbolic tangent of each element.
avg_pool1d: Average pooling of signals.
baddbmm: `beta * input + alpha * (batch1 @ batch2)`, for batches of matrices.
binary_cross_entropy: The binary cross entropy of probabilities against targets between 0 and 1.
bincount: How often each integer from 0 on occurs.
bitwise_and: The bitwise and.
bitwise_left_shift: The bits shifted to the left.
bitwise_not: The bitwise complement.
bitwise_or: The bitwise or.
bitwise_right_shift: The bits shifted to the right.
bitwise_xor: The bitwise exclusive or.
bmm: The products of two batches of matrices.
broadcast_tensors: The tensors, each expanded to their common shape.
broadcast_to: The tensor expanded to a shape, as a view.
cat: The tensors concatenated along an existing dimension.
ceil: Each element rounded up.
celu: The continuously differentiable exponential linear unit.
channel_shuffle: The channels, shuffled between groups.
clamp: Each element, no smaller than `min` and no larger than `max`.
clamp_max: Each element, no larger than `max`.
clamp_min: Each element, no smaller than `min`.
complex: Complex numbers of real and imaginary parts.
conj_physical: The complex conjugate, computed instead of marked.
constant_pad_nd: The tensor padded with a constant.
conv1d: A convolution over signals `(batch, channels, length)`.
conv2d: A convolution over images `(batch, channels, height, width)`.
conv3d: A convolution over volumes.
conv_transpose1d: A transposed convolution over signals: the gradient of a convolution.
conv_transpose2d: A transposed convolution over images: the gradient of a convolution.
conv_transpose3d: A transposed convolution over volumes: the gradient of a convolution.
convolution: A convolution, or its transpose, over one to three dimensions.
copysign: The magnitude of `input` with the sign of `other`.
cos: The cosine of each element, in radians.
cosh: The hyperbolic cosine of each element.
cummax: The cumulative maximum along `dim`, and its index.
cummin: The cumulative minimum along `dim`, and its index.
cumprod: The cumulative product along `dim`.
cumsum: The cumulative sum along `dim`.
deg2rad: Degrees as radians.
diag_embed: Matrices whose diagonals are the vectors along the last dimension.
diagflat: A matrix with the elements of a tensor along its diagonal.
diagonal: The diagonals between two dimensions, as a view.
digamma: The logarithmic derivative of the gamma function.
div: The quotient, rounded as `rounding_mode` says.
dot: The dot product of two vectors.
dsplit: The tensor split along its third dimension.
embedding: The rows of `weight` at the indices.
empty_strided: An uninitialised tensor with the given strides.
eq: Whether elements are equal.
erf: The error function of each element.
erfc: The complementary error function of each element: `1 - erf(x)`.
erfinv: The inverse of the error function.
exp: The exponential of each element.
exp2: Two to the power of each element.
expand: A view in which dimensions of size 1 are repeated.
expand_as: A view in which dimensions of size 1 are repeated, up to the shape of `other`.
expm1: `exp(x) - 1`, accurate for small elements.
feature_alpha_dropout: `alpha_dropout` of whole channels.
feature_dropout: Dropout of whole channels.
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
gather: Elements along `dim` at the indices in `index`.
gcd: The greatest common divisor.
ge: Whether elements are greater or equal.
group_norm: Normalises groups of channels.
gt: Whether elements are greater.
hardshrink: 0 within `lambd` of zero, the element elsewhere.
heaviside: 0 below zero, 1 above, `values` at zero.
histc: A histogram with bins of equal width.
hsplit: The tensor split along its second dimension, or its only one.
hypot: The length of the hypotenuse: `sqrt(input**2 + other**2)`.
i0: The modified Bessel function of order 0.
igamma: The regularised lower incomplete gamma function.
igammac: The regularised upper incomplete gamma function.
index_add: The tensor with slices of `source` added at `index`.
index_copy: The tensor with slices of `source` at `index`.
index_fill: The tensor with slices at `index` filled.
index_select: The slices along `dim` at `index`.
isclose: Whether elements are close.
isfinite: Whether elements are neither infinite nor NaN.
isin: Whether elements are among those of another tensor.
isinf: Whether elements are infinite.
isnan: Whether elements are NaN.
isneginf: Whether elements are negative infinity.
isposinf: Whether elements are positive infinity.
isreal: Whether elements have no imaginary part.
layer_norm: Normalises over the last dimensions, then scales and shifts.
lcm: The least common multiple.
le: Whether elements are less or equal.
lerp: `input + weight * (end - input)`.
lgamma: The logarithm of the absolute value of the gamma function.
log: The natural logarithm of each element.
log10: The logarithm to base 10.
log1p: `log(1 + x)`, accurate for small elements.
log2: The logarithm to base 2.
log_softmax: The logarithm of softmax, computed without overflow.
logaddexp: `log(exp(input) + exp(other))`, computed without overflow.
logaddexp2: `log2(2**input + 2**other)`, computed without overflow.
logcumsumexp: The logarithm of the cumulative sum of exponentials.
logical_and: The logical and.
logical_not: The logical not.
logical_or: The logical or.
logical_xor: The logical exclusive or.
logit: The inverse of the sigmoid.
logsumexp: The logarithm of the sum of exponentials, computed without overflow.
lt: Whether elements are less.
masked_fill: The tensor with `value` where the mask is true.
masked_scatter: The tensor with elements of `source`, in order, where the mask is true.
masked_select: The elements where the mask is true.
matmul: The matrix product, of vectors, matrices or batches of them.
max: The maximum: of all elements, along `dim` with its index, or of two tensors.
max_pool1d: Max pooling of signals.
max_pool2d: Max pooling of images.
max_pool3d: Max pooling of volumes.
maximum: The larger of two elements; NaN where either is.
mean: The mean of all elements, or along dimensions.
method.polygamma: The n-th derivative of digamma.
min: The minimum: of all elements, along `dim` with its index, or of two tensors.
minimum: The smaller of two elements; NaN where either is.
mm: The product of two matrices.
mse_loss: The mean of squared differences.
mul: The product, element by element.
mv: The product of a matrix and a vector.
nan_to_num: The tensor with NaN and infinities replaced by numbers.
ne: Whether elements differ.
neg: The negative of each element.
nextafter: The next floating-point number towards `other`.
nll_loss: The negative log-likelihood of the target classes, from log-probabilities.
permute: The dimensions in another order, as a view.
pixel_shuffle: Channels rearranged into space: higher resolution, fewer channels.
pixel_unshuffle: Space rearranged into channels: lower resolution, more channels.
polar: Complex numbers of absolute values and angles.
pow: Each element to a power.
prod: The product of all elements, or along `dim`.
put: The tensor with other elements at flat indices.
rad2deg: Radians as degrees.
ravel: All elements as one dimension; a view where it can be.
reciprocal: One divided by each element.
relu: The element where positive, 0 elsewhere.
remainder: The remainder with the sign of `other`, as Python's `%`.
repeat: The tensor repeated along its dimensions.
reshape_as: The elements in the shape of `other`.
roll: The elements shifted along dimensions, wrapping around.
round: Each element rounded to the nearest, halves to even.
rsqrt: One divided by the square root.
rsub: `other - alpha * input`.
scatter: The tensor with values written along `dim` at `index`.
scatter_add: The tensor with values added along `dim` at `index`.
scatter_reduce: The tensor with values reduced along `dim` at `index`.
searchsorted: The indices at which values would be inserted into sorted sequences.
select: A slice at one index of `dim`, as a view.
selu: The scaled exponential linear unit.
sgn: The sign; of complex numbers, the number divided by its modulus.
sigmoid: `1 / (1 + exp(-x))`.
sign: The sign of each element: -1, 0 or 1.
signbit: Whether the sign bit is set, that of -0.0 included.
sin: The sine of each element, in radians.
sinc: `sin(pi x) / (pi x)`, 1 at zero.
sinh: The hyperbolic sine of each element.
softmax: Exponentials along `dim`, divided by their sum.
split_with_sizes: The tensor split into pieces of given sizes, as views.
sqrt: The square root of each element.
square: The square of each element.
squeeze: The tensor without dimensions of size 1, as a view.
stack: The tensors stacked along a new dimension.
sub: `input - alpha * other`.
sum: The sum of all elements, or along dimensions.
swapaxes: Two dimensions exchanged, as a view.
swapdims: Two dimensions exchanged, as a view.
t: The transpose of a matrix, as a view.
take: The elements at flat indices.
tan: The tangent of each element, in radians.
tanh: The hyperbolic tangent of each element.
threshold: The element where greater than `threshold`, `value` elsewhere.
trace: The sum of a matrix's diagonal.
transpose: Two dimensions exchanged, as a view.
tril: The part of a matrix on and below a diagonal.
triu: The part of a matrix on and above a diagonal.
true_divide: The quotient.
trunc: Each element truncated towards zero.
unbind: The slices along `dim`, as views.
unfold: All windows of `size` along a dimension, as a view.
unsqueeze: A new dimension of size 1, as a view.
view: The elements in another shape or dtype, as a view.
view_as: A view in the shape of `other`.
view_as_complex: Pairs of real numbers as complex numbers, as a view.
view_as_real: Complex numbers as pairs of real numbers, as a view.
vsplit: The tensor cut along its first dimension.
xlogy: `input * log(other)`, 0 where `input` is 0.
linalg.cholesky: The triangular factor of positive definite matrices.
linalg.cross: The cross product of vectors of three elements.
linalg.det: The determinant.
linalg.eigh: Eigenvalues and eigenvectors of Hermitian matrices.
linalg.eigvalsh: Eigenvalues of Hermitian matrices.
linalg.inv: The inverse of square matrices.
linalg.lstsq: The least-squares solution of a system.
linalg.matrix_exp: The exponential of square matrices.
linalg.pinv: The pseudo-inverse.
linalg.qr: The QR decomposition.
linalg.slogdet: The sign and the logarithm of the absolute value of the determinant.
linalg.solve: The solution of square systems.
linalg.solve_triangular: The solution of triangular systems.
linalg.svd: The singular value decomposition.
linalg.svdvals: The singular values.
linalg.vector_norm: A norm of vectors.
nn.functional.adaptive_avg_pool2d: Average pooling of images to `output_size`.
nn.functional.adaptive_avg_pool3d: Average pooling of volumes to `output_size`.
nn.functional.adaptive_max_pool1d: Max pooling of signals to `output_size`.
nn.functional.adaptive_max_pool2d: Max pooling of images to `output_size`.
nn.functional.adaptive_max_pool3d: Max pooling of volumes to `output_size`.
nn.functional.alpha_dropout: Dropout that keeps mean and variance for self-normalising networks.
nn.functional.avg_pool2d: Average pooling of images.
nn.functional.avg_pool3d: Average pooling of volumes.
nn.functional.elu: The element where positive, `alpha * (exp(x) - 1)` elsewhere.
nn.functional.feature_alpha_dropout: `alpha_dropout` of whole channels.
nn.functional.fold: Windows put together to images; overlaps are summed.
nn.functional.fractional_max_pool2d: Max pooling of images with windows at random places.
nn.functional.fractional_max_pool3d: Max pooling of volumes with windows at random places.
nn.functional.gelu: The Gaussian error linear unit: `x * ndtr(x)`.
nn.functional.hardsigmoid: A piecewise linear sigmoid.
nn.functional.hardswish: `x * hardsigmoid(x)`.
nn.functional.hardtanh: Each element, clamped between two bounds.
nn.functional.leaky_relu: The element where positive, a fraction of it elsewhere.
nn.functional.linear: `input @ weight.T + bias`.
nn.functional.log_softmax: The logarithm of softmax, computed without overflow.
nn.functional.logsigmoid: The logarithm of the sigmoid, computed without overflow.
nn.functional.lp_pool1d: `p`-norms over windows of signals.
nn.functional.lp_pool2d: `p`-norms over windows of images.
nn.functional.lp_pool3d: `p`-norms over windows of volumes.
nn.functional.max_unpool1d: Max pooling undone: maxima at their indices, zeros elsewhere.
nn.functional.max_unpool2d: Max pooling of images undone: maxima at their indices, zeros elsewhere.
nn.functional.max_unpool3d: Max pooling of volumes undone: maxima at their indices, zeros elsewhere.
nn.functional.mish: `x * tanh(softplus(x))`.
nn.functional.relu6: Each element, clamped between 0 and 6.
nn.functional.silu: `x * sigmoid(x)`.
nn.functional.softmax: Exponentials along `dim`, divided by their sum.
nn.functional.softmin: The softmax of the negated elements.
nn.functional.softplus: `log(1 + exp(x))`, a smooth `relu`.
nn.functional.softshrink: Each element shrunk towards zero by `lambd`.
nn.functional.unfold: All sliding windows of images, as columns.
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
max_pool1d_with_indices: Max pooling of signals, and where the maxima lie.
new_empty_strided: An uninitialised tensor with the given strides, of the dtype and on the device of another.
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
