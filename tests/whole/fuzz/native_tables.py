"""Templates of random tensor code, for native_programs.py.

# Note [Holes of tensor code]
`@` is the value that was chosen; `$same` another one of its shape and dtype, `$near` one that may go with it,
`$float` one of floats, `$mask` one of bools; `$axis`, `$axes`, `$order`, `$keep`, `$number`, `$small`,
`$shape`, `$size`, `$last`, `$seed` are what they say.
"""

from __future__ import annotations

PREAMBLE = """\
import weft
from weft import nn
F = nn.functional
weft.manual_seed(0)
OPTIONS = {'backend': 'native'}
STRANGE = [float('nan'), float('inf'), -float('inf'), 0.0, -0.0, 1e-40, -1e-42, 1.0, -2.5, 0.1]
def data(shape, seed, dtype, how, layout):
    chance = weft.Generator().manual_seed(seed)
    lengths = [n * 2 for n in shape] if layout == 'stepped' else list(shape)
    if layout == 'expanded' and shape:
        lengths[-1] = min(lengths[-1], 1)
    if layout == 'shifted' and shape:
        lengths[0] += 1
    if layout == 'turned':
        lengths = lengths[::-1]
    if not dtype.is_floating_point:
        low, high = (0, 2) if dtype is weft.bool else (0, 6) if dtype is weft.uint8 else (-4, 5)
        made = weft.randint(low, high, lengths, generator=chance).to(dtype)
    elif how == 'special':
        made = weft.tensor(STRANGE)[weft.randint(0, len(STRANGE), lengths, generator=chance)].to(dtype)
    else:
        made = weft.randn(lengths, generator=chance, dtype=weft.float64).to(dtype)
    if layout == 'turned':
        made = made.permute(tuple(range(len(shape)))[::-1])
    elif layout == 'stepped':
        made = made[tuple(slice(None, None, 2) for _ in shape)]
    elif layout == 'expanded' and shape:
        made = made.expand(shape)
    elif layout == 'shifted' and shape:
        made = made[1:]
    elif layout == 'flipped' and shape:
        made = made.flip(0)
    return made.detach()
def weights(t):
    return (weft.arange(t.numel(), dtype=weft.float64).reshape(t.shape) * 0.37).cos().to(t.dtype)
def index(shape, high, seed):
    count = 1
    for n in shape:
        count *= n
    return ((weft.arange(count) * (seed + 1) % 7919 * 31 % 101 + seed) % max(high, 1)).reshape(shape)
def batch(shape, count, seed):
    chance = weft.Generator().manual_seed(seed)
    if shape and shape[0] == 'tokens':
        x = weft.randint(0, 11, (count, *shape[1:]), generator=chance)
    else:
        x = weft.randn((count, *shape), generator=chance)
    return x, weft.randint(0, 5, (count,), generator=chance)
"""
NUMBERS = ("0.5", "-1.25", "2", "3", "0", "1.0", "-1", "0.1", "7", "1e-3")
LARGE = (1, 3, 64, 100, 129, 150)

UNARY = [
    "@.sin()",
    "@.cos()",
    "@.tanh()",
    "@.exp()",
    "weft.log(@.abs() + 0.5)",
    "@.sigmoid()",
    "weft.erf(@)",
    "F.gelu(@)",
    "F.silu(@)",
    "weft.log1p(@.abs())",
    "weft.expm1(@)",
    "weft.rsqrt(@.abs() + 1)",
    "F.softplus(@)",
    "weft.atan(@)",
    "@.pow(3)",
    "@.abs().pow(0.7)",
    "F.logsigmoid(@)",
    "F.elu(@)",
    "F.mish(@)",
    "F.gelu(@, approximate='tanh')",
    "weft.exp2(@)",
    "weft.log2(@.abs() + 1)",
    "weft.sinh(@)",
    "F.selu(@)",
    "weft.asin(@.clamp(-0.9, 0.9))",  # at 1, gradients are infinite, and beside it they are not
    "@ ** @.sigmoid()",
    "weft.lgamma(@.abs() + 1)",
    "weft.sinc(@)",
    "F.celu(@, 0.7)",
    "weft.logit(@.sigmoid())",
    "weft.tan(@.clamp(-1, 1))",
    "weft.asinh(@)",
    "weft.erfc(@)",
    "weft.cosh(@.clamp(-3, 3))",
    "F.tanhshrink(@)",
    "weft.atanh(@.clamp(-0.9, 0.9))",
]

UNARY_EXACT = [
    "@.detach().view(weft.int32)",
    "-@",
    "@.abs()",
    "weft.relu(@)",
    "@.sign()",
    "@.square()",
    "@.clamp(-0.5, 0.75)",
    "@.clamp(min=$number)",
    "@.floor()",
    "@.ceil()",
    "@.round()",
    "@.trunc()",
    "weft.sqrt(@.abs())",
    "weft.isnan(@)",
    "weft.isinf(@)",
    "weft.isfinite(@)",
    "weft.nan_to_num(@)",
    "weft.nan_to_num(@, $number, 5.0, -5.0)",
    "@ > $number",
    "@ == $number",
    "@.reciprocal()",
    "@.signbit()",
    "F.leaky_relu(@, 0.25)",
    "F.hardtanh(@)",
    "F.relu6(@)",
    "F.threshold(@, 0.1, 20.0)",
    "@.double()",
    "@.to(weft.float32)",
    "@.half()",
    "@.bfloat16()",
    "@.bool()",
    "weft.where(@ > 0, @, $number)",
    "@.clone()",
    "@.frac()",
    "F.hardshrink(@, 0.3)",
    "F.softshrink(@, 0.25)",
    "@.nan_to_num().clamp(-100, 100).to(weft.int32)",
    "@ * $number",
    "@ + $number",
    "@ / 3",
    "$number - @",
    "@.nan_to_num().clamp(0, 100).to(weft.uint8)",
    "2 / (@ + 0.25)",
    "@.detach()",
    "weft.heaviside(@, weft.zeros((), dtype=@.dtype))",
    "@.nan_to_num().clamp(-9, 9).long()",
    "@.logical_not()",
    "weft.float_power(@, 2)",
    "@.detach() // 0.75",
    "@ % 0.75",
    "weft.fmod(@, 0.75)",
    "weft.copysign(@, -1.0)",
    "@ != @",
]

UNARY_INT = [
    "~@",
    "-@",
    "@.abs()",
    "@ * 3",
    "@ + $small",
    "@ // 3",
    "@ % 3",
    "@ << 1",
    "@ >> 1",
    "@ & 5",
    "@ | 2",
    "@ ^ 3",
    "@ > 1",
    "@ == 2",
    "@.float()",
    "@.double()",
    "@.to(weft.uint8)",
    "@.to(weft.int8)",
    "@.bool()",
    "@ / 2",
    "@.clamp(0, 3)",
    "@.sign()",
    "@ ** 2",
    "@.float().sqrt()",
    "@.sin()",
    "weft.exp(@)",
    "@ + 0.5",
    "weft.sigmoid(@)",
    "@.to(weft.int16)",
    "@ // -2",
    "@ % -2",
    "weft.fmod(@, 3)",
    "weft.div(@, 2, rounding_mode='trunc')",
    "@ * 0.5",
    "@.to(weft.int64) - 7",
    "weft.bitwise_left_shift(@, 2)",
    "@.logical_not()",
    "@.to(weft.bfloat16)",
    "3 - @",
    "@.to(weft.int32) * 1000000",
]

BINARY = [
    "@ + $near",
    "@ * $near",
    "@ - $near",
    "@ / ($near.abs() + 1)",
    "weft.atan2(@, $near.abs() + 0.5)",
    "weft.atan2(0.5 + $near.abs(), @)",
    "weft.atan2(-0.5 - $near.abs(), @)",
    "weft.hypot(@, $near)",
    "weft.logaddexp(@, $near.to(@.dtype))",
    "weft.lerp(@, $same, 0.3)",
    "weft.lerp(@, $same, $same)",
    "weft.addcmul(@, $same, $same)",
    "weft.addcdiv(@, $same, $same.abs() + 1, value=0.5)",
    "(@.abs() + 0.1) ** $near.sigmoid()",
    "weft.xlogy(@, $near.abs() + 1)",
    "weft.maximum(@, $same)",
    "weft.where($mask, @, $near)",
    "@ + $near.sum()",
    "@ * $near.mean()",
    "weft.add(@, $near, alpha=2)",
    "@ * $near + @",
    "(@ - $same) * (@ + $same)",
    "weft.dist(@, $same)",
    "F.prelu(@, weft.full((1,), 0.25, dtype=@.dtype))",
]

BINARY_STEADY = [
    "@ + $near",
    "@ * $near",
    "@ - $near",
    "weft.maximum(@, $near)",
    "weft.minimum(@, $near)",
    "weft.where($mask, @, $near)",
    "@.masked_fill($mask, $small)",
    "weft.add(@, $near, alpha=2)",
    "weft.fmax(@, $near)",
    "weft.fmin(@, $near)",
    "@ * $near + $near",
    "weft.clamp(@, $near, $near)",
    "weft.cat([@.reshape(-1), $near.reshape(-1)])",
]
"""What rounds once and changes little where its operands do: any values may be asked."""

BINARY_EXACT = [
    *BINARY_STEADY,
    "@ > $near",
    "@ <= $near",
    "@ == $near",
    "weft.where(@ > 0, $near, @)",
    "weft.logical_and(@, $near)",
    "weft.logical_xor(@, $near)",
    "@ != $near",
    "@ / $near",
    "weft.eq(@, $near).sum()",
    "weft.isclose(@, $same)",
    "weft.where(@ == 0, 1, @)",
    "@ * ($near > 0)",
]

BINARY_INT = [
    "@ & $same",
    "@ | $same",
    "@ ^ $same",
    "@ // ($same.abs() + 1)",
    "@ % ($same.abs() + 1)",
    "@ << ($same & 3)",
    "@ * $near",
    "@ >> ($same & 3)",
    "@ + $near",
    "weft.gcd(@, $same)",
    "weft.remainder(@, $same | 1)",
    "@ / ($near.abs() + 1)",
    "@ // $same",
    "weft.div(@, $same.abs() + 1, rounding_mode='floor')",
    "weft.bincount((@.abs() % 5).reshape(-1).long(), minlength=6)",
]

FOLDS = [
    "@.sum($axis, keepdim=$keep)",
    "@.mean($axis, keepdim=$keep)",
    "@.sum()",
    "@.mean()",
    "@.sum($axes, keepdim=$keep)",
    "@.mean($axes, keepdim=$keep)",
    "@.var($axis, keepdim=$keep)",
    "@.std($axes, correction=0)",
    "@.prod($axis)",
    "@.norm()",
    "weft.logsumexp(@, $axis)",
    "@.softmax($axis)",
    "@.log_softmax($axis)",
    "@.cumsum($axis)",
    "@.cumprod($axis)",
    "@ - @.mean($axis, keepdim=True)",
    "@ / (@.abs().sum($axis, keepdim=True) + 1)",
    "(@ * @).sum($axis).sqrt()",
    "@.amax($axis, keepdim=True) - @",
    "weft.var_mean(@, $axis)[1]",
    "weft.linalg.vector_norm(@, 3, $axis)",
    "(@ - @.amax($axis, keepdim=True)).exp().sum($axis)",
    "weft.logcumsumexp(@, $axis)",
    "@.sum($axis).softmax(0)",
    "@.sum($axis, dtype=weft.float64)",
    "weft.nansum(@, $axis)",
    "weft.nanmean(@)",
    "@.softmax($axis).sum($axis)",
    "F.normalize(@, dim=$axis)",
    "@.std()",
    "@.var($axes)",
    "weft.trapezoid(@)",
    "@.diff(dim=$axis)",
    "@.logsumexp($axes)",
    "@.sum($axis).mean()",
    "(@.sum($axis, keepdim=True) * @).sum()",
    "@.norm(dim=$axis, keepdim=$keep)",
    "@.tanh().prod()",  # of many that are larger, the order decides whether it is infinite on the way
    "weft.cummax(@, $axis).values",
    "@.cumsum($axis).flip($axis)",
    "weft.renorm(@, 2, 0, 1.0)",
    "@.median()",
    "@.max($axis).values",
    "@.aminmax(dim=$axis).min",
    "@.sort($axis).values",
    "@.topk(1, $axis).values",
    "@.median($axis).values",
]

FOLDS_EXACT = [
    "@.amax($axis, keepdim=$keep)",
    "@.amin($axes)",
    "@.max()",
    "@.min()",
    "@.any()",
    "@.all($axis)",
    "@.any($axis, keepdim=$keep)",
    "@.argmax($axis)",
    "@.argmin()",
    "@.argmax()",
    "(@ > 0).sum($axis)",
    "(@ != 0).sum()",
    "weft.count_nonzero(@, $axis)",
    "@.max($axis).indices",
    "@.min($axis).values",
    "@.sort($axis, stable=True).indices",
    "@.sort($axis).values",
    "@.topk(1, $axis).values",
    "(@ > 0).cumsum($axis)",
    "@.long().sum($axis)",
    "@.long().cumsum($axis)",
    "@.long().prod()",
    "@.kthvalue(1, $axis).values",
    "weft.argsort(@, $axis, stable=True)",
    "@.cummin($axis).values",
    "@.cummax($axis).indices",
    "weft.isin(@, weft.tensor([0, 1, 2]))",
    "(@ > 0).float().sum($axis)",
    "(@ == @).all()",
    "@.amax()",
    "@.mode($axis).values",
    "weft.equal(@, @) + @",
    "weft.searchsorted(weft.tensor([-1.0, 0.0, 1.0]), @.float())",
    "weft.bucketize(@.float(), weft.tensor([0.0, 1.0]))",
]

VIEWS = [
    "@.transpose($axis, $other)",
    "@.permute($order)",
    "@.reshape(-1)",
    "@.unsqueeze($axis)",
    "@.squeeze()",
    "@[None]",
    "@[..., None]",
    "@.flip($other)",
    "@.roll($small, $axis)",
    "@[1:]",
    "@[:-1]",
    "@[::2]",
    "@[..., 1:]",
    "@[..., ::2]",
    "@[..., :1]",
    "@[0]",
    "@[-1]",
    "@[..., 0]",
    "@.narrow($axis, 0, 1)",
    "@.select($axis, 0)",
    "@.t()",
    "@.expand($small, *@.shape)",
    "@.flatten()",
    "@.diagonal()",
    "@.unfold($axis, 2, 1)",
    "@.unfold(-1, 3, 2)",
    "@.chunk(2, $axis)[0]",
    "@.split(1, $axis)[-1]",
    "@.unbind($axis)[0]",
    "@.reshape($size, -1)",
    "@.reshape(-1, $size)",
    "@.contiguous()",
    "@.view(-1)",
    "@.mT",
    "@.movedim(0, -1)",
    "@.as_strided((2, 2), (1, 1))",
    "@.as_strided((3, 2), (0, 1))",
    "@.squeeze($axis)",
    "@.expand_as(@)",
    "@.broadcast_to((2, *@.shape))",
    "@.swapaxes(0, -1)",
    "@.ravel()",
    "@.unflatten($axis, (1, -1))",
    "@[:, None]",
    "@[..., -1:]",
    "@[:0]",
    "@.tile(2)",
    "@.rot90()",
    "@.flatten(0, 1)",
    "@.T",
    "@[1:, 1:]",
    "@[:, 1:-1]",
    "@.detach()[1:]",
]

JOINED = [
    "weft.cat([@, $same], $axis)",
    "weft.stack([@, $same], $axis)",
    "weft.stack([@, @, $same])",
    "weft.cat([@[:1], @], 0)",
    "F.pad(@, (1, 2))",
    "F.pad(@, (1, 0, 2, 1), value=1.5)",
    "F.pad(@, (-1, 1))",
    "weft.tril(@)",
    "weft.triu(@, 1)",
    "@.repeat(2, *[1] * @.dim())",
    "@.repeat_interleave(2, $axis)",
    "weft.cat([@.flip(0), $same.flip(0)])",
    "weft.diag_embed(@)",
    "weft.hstack([@, $same])",
    "weft.vstack([@, $same])",
    "weft.cat([@.unsqueeze(0), $same.unsqueeze(0)])",
    "weft.block_diag(@, $same)",
    "weft.cat([@ * 1, $same, @], $axis)",
    "weft.meshgrid(@, $same, indexing='ij')[1]",
    "weft.atleast_2d(@)",
    "weft.triu(@, -1)",
    "F.pad(@[None], (1, 1), mode='replicate')",
    "F.pad(@[None], (1, 1), mode='reflect')",
    "F.pad(@[None], (1, 1), mode='circular')",
]

INDEXED = [
    (
        "@.index_add(0, index(($size,), @.shape[0], $seed), weights(weft.zeros($size, *@.shape[1:], "
        "dtype=@.dtype)))"
    ),
    "@.scatter_add($axis, index(@.shape, @.shape[$axis], $seed) % @.shape[0], $same)",
    "@.scatter_add(-1, index(@.shape, @.shape[-1], $seed), $same)",
    (
        "@.index_put((index(($size,), @.shape[0], $seed),), weft.full((), 0.5, dtype=@.dtype), "
        "accumulate=True)"
    ),
    (
        "weft.zeros(@.shape[0], dtype=@.dtype).index_add(0, index((@.shape[0],), @.shape[0], $seed), "
        "@.reshape(@.shape[0], -1).sum(1))"
    ),
    "F.embedding(index((4, $size), @.shape[0], $seed), @)",
    "@.scatter_reduce(-1, index(@.shape, @.shape[-1], $seed), $same, 'amax')",
    "@.scatter_reduce(-1, index(@.shape, @.shape[-1], $seed), $same, 'mean')",
    "@.gather(-1, index(@.shape, @.shape[-1], $seed))",
    "@.scatter_reduce(0, index(@.shape, @.shape[0], $seed), $same, 'sum', include_self=False)",
    "@[index((7,), @.shape[0], $seed)].sum(0)",
    "@[index((5,), @.shape[0], $seed), index((5,), @.shape[-1], $seed)].exp()",
    "(@ * 2)[..., index((3,), @.shape[-1], $seed)] * 3",
]

INDEXED_EXACT = [
    "@.gather($axis, index(@.shape, @.shape[$axis], $seed) % @.shape[0])",
    "@.gather(-1, index(@.shape, @.shape[-1], $seed))",
    "@.index_select($axis, index(($size,), @.shape[0], $seed))",
    "@[index(($size,), @.shape[0], $seed)]",
    "@[..., index((2, 2), @.shape[-1], $seed)]",
    "@.take(index((2, $size), @.numel(), $seed))",
    "@.index_select(-1, index((5,), @.shape[-1], $seed))",
    "@[weft.tensor([0, -1])]",
    "@[index((3, 1), @.shape[0], $seed), index((1, 2), @.shape[1], $seed)]",
    "@.masked_fill(@ > 0, $small)",
    "@[:, index((3,), @.shape[1], $seed)]",
    "@.index_fill(0, index((2,), @.shape[0], $seed), $small)",
    "@.scatter(-1, index((*@.shape[:-1], 1), @.shape[-1], $seed), 1)",
    "weft.take_along_dim(@, @.argsort(-1, stable=True), -1)",
    "F.one_hot(index(($size,), 5, $seed), 6) * @.reshape(-1)[:1]",
    "@.index_copy(0, weft.arange(@.shape[0]), $same)",
    "@.where($mask, weft.zeros((), dtype=@.dtype))",
    "@[@.shape[0] - 1 - weft.arange(@.shape[0])]",
    "weft.where($mask, @, -@)",
    "@.masked_scatter(@ > 0, $same)",
    "@[index((4,), @.shape[0], $seed), 0]",
    "@[0, index((4,), @.shape[1], $seed)]",
    "@.index_put((index((3,), @.shape[0], $seed),), weft.ones((), dtype=@.dtype))",
    "weft.select_scatter(@, $same[0], 0, 0)",
    "weft.slice_scatter(@, $same[1:], 0, 1)",
    "weft.diagonal_scatter(@, $same.diagonal())",
]

PRODUCTS = [
    "@ @ $float",
    "@ @ $same.mT",
    "@.mT @ $same",
    "@ @ @.mT",
    "weft.outer(@.reshape(-1), $same.reshape(-1)[:3])",
    "(@ * $same).sum(-1)",
    "weft.einsum('...i,...j->...ij', @, $same)",
    "weft.einsum('...i,...i->...', @, $same)",
    "@.reshape(-1) @ $same.reshape(-1)",
    "F.linear(@, weights(weft.zeros(5, $last, dtype=@.dtype)))",
    "F.linear(@, weights(weft.zeros(4, $last, dtype=@.dtype)), weights(weft.zeros(4, dtype=@.dtype)))",
    "weft.tensordot(@, $same, 1)",
    "weft.bmm(@, $same.mT)",
    "(@ @ $same.mT).relu() @ $same",
    "weft.addmm(@, @, weights(weft.zeros($last, $last, dtype=@.dtype)))",
    "F.linear(@, weights(weft.zeros(3, $last, dtype=@.dtype))).tanh()",
    "weft.softmax(@ @ $same.mT * 0.5, -1) @ $same",
    "F.scaled_dot_product_attention(@, $same, $same)",
    "weft.einsum('ij,kj->ik', @, $same)",
    "weft.einsum('ij,ij->j', @, $same)",
    "@ @ weights(weft.zeros($last, dtype=@.dtype))",
    "weft.kron(@, $same[:1])",
    "weft.baddbmm(@[:, :1], @, $same.mT)",
    "weft.vdot(@.reshape(-1), $same.reshape(-1))",
    "F.bilinear(@, $same, weights(weft.zeros(2, $last, $last, dtype=@.dtype)))",
    "weft.cdist(@, $same)",
    "@.mT @ @",
    "weft.linalg.multi_dot([@, $same.mT, @])",
]

ROWS = [
    "F.layer_norm(@, (@.shape[-1],))",
    "F.layer_norm(@, (@.shape[-1],), weights(@[..., :].reshape(-1, $last)[0]))",
    "F.rms_norm(@, (@.shape[-1],))",
    "F.batch_norm(@, None, None, training=True)",
    "F.group_norm(@, 1)",
    "F.instance_norm(@)",
    "F.softmax(@ * 2 - 1, -1) * @",
    "F.glu(weft.cat([@, @], -1))",
    "F.cross_entropy(@, index((@.shape[0],), @.shape[-1], $seed))",
    "F.mse_loss(@, $same)",
    "F.smooth_l1_loss(@, $same)",
    "F.l1_loss(@, $same)",
    "F.cross_entropy(@, index((@.shape[0],), @.shape[-1], $seed), label_smoothing=0.1, reduction='sum')",
    "F.binary_cross_entropy_with_logits(@, $same.sigmoid())",
    "F.nll_loss(@.log_softmax(-1), index((@.shape[0],), @.shape[-1], $seed), ignore_index=0)",
    "F.kl_div(@.log_softmax(-1), $same.softmax(-1), reduction='batchmean')",
    "F.huber_loss(@, $same, reduction='none')",
    "F.cosine_similarity(@, $same, -1)",
    "F.pairwise_distance(@, $same)",
    "F.hinge_embedding_loss(@, $same.sign())",
    "F.cross_entropy(@, $same.softmax(-1))",
    "F.softmin(@, -1)",
    "F.gaussian_nll_loss(@, $same, $same.abs() + 1)",
    "F.poisson_nll_loss(@.clamp(max=2), $same.abs())",
    "F.layer_norm(@ + $same, (@.shape[-1],)) * 2 + @",
    "(@.softmax(-1) * $same).sum(-1, keepdim=True) + @",
    "F.margin_ranking_loss(@, $same, $same.sign())",
]

WINDOWS = [
    "F.conv1d(@.reshape(1, 1, -1), weights(weft.zeros(2, 1, 3, dtype=@.dtype)), padding=1)",
    "F.max_pool1d(@.reshape(1, 1, -1), 2, 1)",
    (
        "F.conv2d(@.reshape(1, 1, @.shape[0], -1), weights(weft.zeros(3, 1, 2, 2, dtype=@.dtype)), "
        "stride=(2, 1), padding=1)"
    ),
    "F.avg_pool1d(@.reshape(1, 1, -1), 3, 2, 1)",
    "F.conv2d(@.reshape(1, @.shape[0], 1, -1), weights(weft.zeros(2, @.shape[0], 1, 2, dtype=@.dtype)))",
    "F.interpolate(@.reshape(1, 1, -1), scale_factor=2)",
    "F.conv_transpose1d(@.reshape(1, 1, -1), weights(weft.zeros(1, 2, 3, dtype=@.dtype)), stride=2)",
    "F.adaptive_avg_pool1d(@.reshape(1, 1, -1), 2)",
    "F.max_pool2d(@.reshape(1, 1, @.shape[0], -1), 2, 1, ceil_mode=True)",
    "F.interpolate(@.reshape(1, 1, -1), size=5, mode='linear')",
    "F.avg_pool2d(@.reshape(1, 1, @.shape[0], -1), 2, 1, padding=1, count_include_pad=False)",
    "F.unfold(@.reshape(1, 1, @.shape[0], -1), 2)",
    (
        "F.conv1d(@.reshape(1, @.shape[0], -1), weights(weft.zeros(@.shape[0], 1, 2, dtype=@.dtype)), "
        "groups=@.shape[0])"
    ),
    "F.pixel_shuffle(@.reshape(1, 4, 1, -1), 2)",
    "F.conv1d(@.reshape(1, 1, -1), weights(weft.zeros(2, 1, 2, dtype=@.dtype)), dilation=2)",
    "F.adaptive_max_pool1d(@.reshape(1, 1, -1), 2)",
]

RANDOM = [
    "@ + weft.rand_like(@)",
    "@ * weft.randn_like(@)",
    "F.dropout(@, 0.5)",
    "F.dropout(@, 0.1) + F.dropout(@, 0.3)",
    "weft.rand(@.shape) + @",
    "weft.bernoulli(@.sigmoid())",
    "@ + weft.randint(0, 5, @.shape)",
    "@[weft.randperm(@.shape[0])]",
    "weft.normal(0.0, 1.0, @.shape) + @",
    "F.alpha_dropout(@, 0.2, True)",
    "F.rrelu(@, training=True)",
    "@ * weft.empty_like(@).uniform_(-1, 1)",
    "@ + weft.zeros_like(@).normal_()",
    "F.feature_dropout(@, 0.5)",
    "weft.randn($size, $last) + @",
    "F.gumbel_softmax(@, dim=-1)",
    "@ * weft.zeros_like(@).exponential_()",
    "weft.randint_like(@, 3) * @",
]

CREATED = [
    "weft.arange(@.numel()).reshape(@.shape) + @",
    "weft.full_like(@, 2)",
    "weft.zeros_like(@) - @",
    "weft.ones(@.shape) * @",
    "weft.eye(@.shape[-1]) * @",
    "weft.linspace(0, 1, @.shape[-1]) + @",
    "weft.arange(@.shape[-1]) * @",
    "weft.arange(5, 0, -1)",
    "weft.full(@.shape, 3.5)",
    "@.new_ones(3)",
    "weft.tensor([1.5, -2.0]) * @.sum()",
    "weft.arange(0.0, 1.0, 0.25)",
    "weft.ones_like(@, dtype=weft.int64).cumsum(0) * @",
    "weft.tril_indices(3, 3)",
    "weft.zeros(0)",
    "weft.tensor($number) + @",
]

WRITES = [
    "@.add_($near)",
    "@.mul_($number)",
    "@.mul_($near)",
    "@.copy_($near)",
    "@[0] = $number",
    "@[1:] = @[:-1].clone()",
    "@[..., 0] = $small",
    "@[1:].add_(@[:-1].clone())",
    "@[...].mul_(2)",
    "@.zero_()",
    "@.fill_(3)",
    "@.clamp_(-1, 1)",
    "@.t().add_(1)",
    "@.transpose(0, -1).mul_($small)",
    "@.view(-1)[::2].add_(1)",
    "@[0].copy_(@[-1])",
    "@.index_add_(0, index((4,), @.shape[0], $seed), weft.ones(4, *@.shape[1:], dtype=@.dtype))",
    "@.masked_fill_(@ > 0, 0)",
    "@[@ > 0] = 1",
    "@.neg_()",
    "@.sub_($same)",
    "@[index((2,), @.shape[0], $seed)] = 2",
    "@[index((3,), @.shape[0], $seed)] += 1",
    "@.diagonal().fill_(2)",
    "@[..., ::2] = @[..., :1].clone()",
    "@.relu_()",
    "@ += 1",
    "@ *= $near",
    "@.scatter_(-1, index(@.shape, @.shape[-1], $seed), 1)",
    "@.scatter_add_(-1, index(@.shape, @.shape[-1], $seed), $same.clone())",
    "@.unbind(0)[0].add_(1)",
    "@.narrow(0, 0, 1).zero_()",
    "@.flatten()[0] = 1",
    "@.select(-1, 0).sub_(1)",
    "@.squeeze_()",
    "@.sin_()",
    "@.exp_()",
    "@.uniform_()",
    "@.normal_()",
    "@.bernoulli_(0.5)",
    "@.swapaxes(0, -1)[0] = $small",
    "@.data.mul_(2)",
    "@.detach().add_(1)",
    "@.copy_(@.flip(0))",
    "@.copy_($same.flip(0))",
    "@[1:].copy_($same[:-1])",
    "@.index_copy_(0, weft.arange(@.shape[0]).flip(0), $same.clone())",
    "@.cumsum_(0)",
    "@.addcmul_($same, $same)",
    "@.lerp_($same, 0.25)",
    "@.masked_fill_($mask, 2)",
    "@.put_(weft.tensor([0]), weft.ones(1, dtype=@.dtype))",
    "@.sort(0).values.add_(1)",
]

LOSSES = [
    "F.cross_entropy(out, y)",
    "F.cross_entropy(out, y, label_smoothing=0.1)",
    "F.nll_loss(out.log_softmax(-1), y)",
    "(out ** 2).mean() + out.sum() * 0.1",
]

NETS = [
    (
        "nn.Sequential(nn.Linear(7, 9), nn.ReLU(), nn.Linear(9, 5))",
        "(7,)",
        LOSSES,
    ),
    (
        "nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.LayerNorm(8), nn.Dropout(0.3), nn.Linear(8, 5))",
        "(6,)",
        LOSSES,
    ),
    (
        (
            "nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), "
            "nn.Linear(36, 5))"
        ),
        "(1, 6, 6)",
        LOSSES,
    ),
    (
        (
            "nn.Sequential(nn.Conv2d(2, 3, 3, stride=2), nn.SiLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(), "
            "nn.Linear(12, 5))"
        ),
        "(2, 9, 7)",
        LOSSES,
    ),
    (
        "nn.Sequential(nn.Embedding(11, 6), nn.Flatten(), nn.Linear(24, 5))",
        "('tokens', 4)",
        LOSSES,
    ),
    (
        (
            "nn.Sequential(nn.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True), nn.Flatten(), "
            "nn.Linear(24, 5))"
        ),
        "(3, 8)",
        LOSSES,
    ),
    (
        "nn.Sequential(nn.Conv1d(3, 6, 3), nn.GroupNorm(2, 6), nn.Tanh(), nn.Flatten(), nn.Linear(30, 5))",
        "(3, 7)",
        LOSSES,
    ),
    (
        (
            "nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 16), nn.Sigmoid(), nn.Linear(16, 5), "
            "nn.Softplus())"
        ),
        "(6,)",
        LOSSES,
    ),
    (
        (
            "nn.Sequential(nn.Unflatten(1, (2, 3)), nn.Linear(3, 4), nn.Hardswish(), nn.Flatten(), "
            "nn.Linear(8, 5))"
        ),
        "(6,)",
        LOSSES,
    ),
    (
        (
            "nn.Sequential(nn.ConvTranspose2d(1, 3, 2, 2), nn.LeakyReLU(), nn.AvgPool2d(2), nn.Flatten(), "
            "nn.Linear(27, 5))"
        ),
        "(1, 3, 3)",
        LOSSES,
    ),
]

OPTIMIZERS = [
    "weft.optim.SGD(NET.parameters(), lr=0.1)",
    "weft.optim.SGD(NET.parameters(), lr=0.05, momentum=0.9, nesterov=True, weight_decay=0.01)",
    "weft.optim.Adam(NET.parameters(), lr=0.01, eps=0.1)",
    "weft.optim.AdamW(NET.parameters(), lr=0.01, eps=0.1, amsgrad=True)",
    "weft.optim.RMSprop(NET.parameters(), lr=0.01, eps=0.1, centered=False, momentum=0.5)",
    "weft.optim.Adagrad(NET.parameters(), lr=0.01, eps=0.1)",
    "weft.optim.Adadelta(NET.parameters(), eps=0.1)",
    "weft.optim.Adamax(NET.parameters(), eps=0.1)",
    "weft.optim.SGD(NET.parameters(), lr=0.1, momentum=0.5, dampening=0.1, maximize=True)",
    "weft.optim.NAdam(NET.parameters(), eps=0.1)",
]
