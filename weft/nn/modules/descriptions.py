"""What the arguments of layers mean, and the shapes of what they take and give: `describe`.

Takes a layer's class with its own short docstring; `help` then shows that, each argument, the shapes, and the
example. One idea: an argument that many layers share is described once, by its name, and a class or a base
says otherwise by `Class.argument`; nearest in the order of inheritance counts.
"""

from __future__ import annotations

import inspect
from typing import Final

_ARGUMENTS: Final = """
device: where parameters are made; the CPU is the only place
dtype: of the parameters; by default that of `weft.get_default_dtype()`
bias: whether a learnt bias is added
inplace: whether the input itself is overwritten with the result
eps: added where something is divided by, so that the quotient stays finite
affine: whether a learnt `weight` and `bias`, one per channel, are applied at the end
in_features: the size of the input's last dimension
out_features: the size of the result's last dimension
kernel_size: how large a window is, one number for all dimensions or one each
stride: how far apart windows lie, one number or one each
padding: how much is added on both sides of each dimension, one number or one each
dilation: the distance between the elements of one window, one number or one each
ceil_mode: whether a window that reaches over the end counts too
return_indices: whether the places of the maxima are returned as well, for `MaxUnpool`
output_size: the size of the result in each dimension, one number or one each
p: the probability that an element is dropped
reduction: "mean" or "sum" of the losses, or "none" for each of them
size_average: deprecated, see `reduction`
reduce: deprecated, see `reduction`
margin: how far apart is far enough
full: whether terms that do not depend on the input are counted too
ignore_index: the target that counts for nothing
label_smoothing: the part of the target, from 0 to 1, that is spread evenly over all classes
max_norm: vectors that are longer are scaled down to this norm, in the table itself, when they are looked up
norm_type: which norm `max_norm` bounds
scale_grad_by_freq: whether the gradient of a row is divided by how often the batch names it
sparse: accepted; the gradient of the table is dense
num_embeddings: the number of rows
embedding_dim: the size of each row

Identity.args: anything, by place or by name: forgotten

_WithAlpha.alpha: the least value is `-alpha`
GELU.approximate: "none" for the exact function, "tanh" for an approximation
GLU.dim: the dimension that is halved
_AlongDim.dim: the dimension along which the results sum to 1; guessed, with a warning, if left out
Hardtanh.min_val: the least value of the result
Hardtanh.max_val: the greatest value of the result
Hardtanh.min_value: deprecated name of `min_val`
Hardtanh.max_value: deprecated name of `max_val`
_Shrink.lambd: what lies within this distance of 0 becomes 0
LeakyReLU.negative_slope: the slope where the input is negative
PReLU.num_parameters: how many slopes are learnt: 1, or one per channel
PReLU.init: the slopes at first
RReLU.lower: the least slope drawn
RReLU.upper: the greatest slope drawn
Softplus.beta: how sharply the curve bends
Softplus.threshold: where `beta * x` is above this, the result is `x`
Threshold.threshold: the bound
Threshold.value: what stands in place of elements that are not above it

MultiheadAttention.embed_dim: features of the queries and of the result, divisible by `num_heads`
MultiheadAttention.num_heads: the number of heads, each with `embed_dim // num_heads` features
MultiheadAttention.dropout: the probability that an attention weight is dropped while training
MultiheadAttention.bias: whether the projections have biases
MultiheadAttention.add_bias_kv: whether one learnt key and value are appended
MultiheadAttention.add_zero_attn: whether a key and value of zeros are appended
MultiheadAttention.kdim: features of the keys; by default `embed_dim`
MultiheadAttention.vdim: features of the values; by default `embed_dim`
MultiheadAttention.batch_first: whether the batch is the first dimension instead of the second
AdaptiveLogSoftmaxWithLoss.n_classes: the number of classes, numbered from the most frequent to the rarest
AdaptiveLogSoftmaxWithLoss.cutoffs: the first class of each cluster of rare ones, in increasing order
AdaptiveLogSoftmaxWithLoss.div_value: each cluster is computed from this many times fewer features than the
    last
AdaptiveLogSoftmaxWithLoss.head_bias: whether the scores of frequent classes and of clusters have a bias

_NormBase.num_features: the number of channels
_NormBase.momentum: the weight of the newest batch in the running statistics; None for the mean of all batches
_NormBase.track_running_stats: whether running statistics are kept, and used in evaluation
_NormBase.bias: whether there is a `bias` where there is a `weight`
SyncBatchNorm.process_group: the processes that share statistics
GroupNorm.num_groups: the number of groups, which must divide `num_channels`
GroupNorm.num_channels: the number of channels
_Affine.bias: whether there is a `bias` where there is a `weight`
LayerNorm.normalized_shape: the sizes of the last dimensions, which are normalised together, or that of one
LayerNorm.elementwise_affine: whether a learnt `weight` and `bias` of that shape are applied at the end
RMSNorm.normalized_shape: the sizes of the last dimensions, which are normalised together, or that of one
RMSNorm.eps: added to the mean of squares; by default the machine epsilon of the input's dtype
RMSNorm.elementwise_affine: whether a learnt `weight` of that shape is applied at the end
LocalResponseNorm.size: how many neighbouring channels count
LocalResponseNorm.alpha: the weight of the mean of squares
LocalResponseNorm.beta: the power
LocalResponseNorm.k: added to the weighted mean of squares

_ConvNd.in_channels: channels of the input
_ConvNd.out_channels: channels of the result
_ConvNd.groups: into how many groups channels are divided, each convolved for itself
_Convolution.padding: how much is added on both sides, one number or one each; "valid" for none, "same" to
    keep the size
_Convolution.padding_mode: what is added: "zeros", "reflect", "replicate" or "circular"
_ConvTransposeNd.stride: how far apart the windows lie that input elements are spread to, one number or one
    each
_ConvTransposeNd.padding: how much is cut off on both sides, one number or one each
_ConvTransposeNd.output_padding: how much is added at the far end, one number or one each, below `stride` or
    `dilation`
_ConvTransposeNd.padding_mode: "zeros"
CosineSimilarity.dim: the dimension of the vectors
CosineSimilarity.eps: the least norm that is divided by
PairwiseDistance.p: the degree of the norm
PairwiseDistance.eps: added to each difference
PairwiseDistance.keepdim: whether the last dimension stays, with size 1
Flatten.start_dim: the first dimension that is joined
Flatten.end_dim: the last one
Unflatten.dim: the dimension that is split, its place or its name
Unflatten.unflattened_size: the sizes that it is split into, one of which may be -1; pairs `(name, size)`
    for names
Fold.output_size: height and width of the images
ChannelShuffle.groups: the number of groups of channels
PixelShuffle.upscale_factor: how many times larger height and width become
PixelUnshuffle.downscale_factor: how many times smaller height and width become
Bilinear.in1_features: the size of the first input's last dimension
Bilinear.in2_features: the size of the second input's last dimension

Sequential.args: modules in order, or one ordered dict of them
ModuleList.modules: modules in order
ModuleDict.modules: a mapping of names to modules, or pairs
ParameterList.values: tensors or other values in order
ParameterDict.parameters: a mapping of names to tensors or other values, or pairs
DataParallel.module: what is called
DataParallel.device_ids: accepted; nothing is split over devices
DataParallel.output_device: accepted; results stay on the CPU
DataParallel.dim: the dimension of the batch

_PadNd.padding: one number for all sides, or (before, after) for each dimension, the last one first
_ConstantPadNd.value: what the border is filled with
_AvgPoolNd.divisor_override: what sums are divided by, in place of the size of the window
AvgPool1d.count_include_pad: whether zeros of the padding count as elements
_AvgPoolNd.count_include_pad: whether zeros of the padding count as elements
_FractionalMaxPoolNd.output_ratio: the size of the result as a part of the input's, between 0 and 1; this or
    `output_size`
_LPPoolNd.norm_type: the degree of the norm
_MaxUnpoolNd.padding: that of the pool that is undone

_Recurrent.input_size: features of each step of the input
_Recurrent.hidden_size: features of the hidden state
RNNBase.mode: "RNN_TANH", "RNN_RELU", "LSTM" or "GRU"
RNNBase.num_layers: the number of layers, each of which reads the states of the one below
RNNBase.batch_first: whether sequences are `(N, L, features)` instead of `(L, N, features)`
RNNBase.dropout: the probability that what one layer gives to the next is dropped while training
RNNBase.bidirectional: whether a second set of layers reads the sequence from its end
RNNBase.proj_size: the size that the hidden state of an `LSTM` is projected to; 0 for none
RNNBase.bias: whether there are `bias_ih` and `bias_hh`
RNNCellBase.bias: whether there are `bias_ih` and `bias_hh`
RNN.nonlinearity: "tanh" or "relu"
RNNCell.nonlinearity: "tanh" or "relu"
_OneState.proj_size: refused: only an `LSTM` has a projection
RNNCellBase.num_chunks: the number of gates
Embedding.padding_idx: a row that starts as zeros and receives no gradient
EmbeddingBag.padding_idx: a row that counts for nothing and receives no gradient
EmbeddingBag.mode: "sum", "mean" or "max" of the rows of a bag
EmbeddingBag.include_last_offset: whether the offsets end with the number of all indices

Transformer.custom_encoder: what encodes, in place of a `TransformerEncoder`
Transformer.custom_decoder: what decodes, in place of a `TransformerDecoder`
Transformer.d_model: features of the inputs and of the result
Transformer.nhead: the number of heads of each attention
Transformer.num_encoder_layers: the number of layers of the encoder
Transformer.num_decoder_layers: the number of layers of the decoder
Transformer.dim_feedforward: features between the two linear layers of each feed-forward network
Transformer.dropout: the probability that an element is dropped while training
Transformer.activation: between the two linear layers: "relu", "gelu" or a function of a tensor
Transformer.layer_norm_eps: the `eps` of each normalisation
Transformer.batch_first: whether the batch is the first dimension instead of the second
Transformer.norm_first: whether normalisation comes before attention and feed-forward instead of after
Transformer.bias: whether linear layers and normalisations have biases
_Layer.d_model: features of the input and of the result
_Layer.nhead: the number of heads of each attention
_Layer.dim_feedforward: features between the two linear layers
_Layer.dropout: the probability that an element is dropped while training
_Layer.activation: between the two linear layers: "relu", "gelu" or a function of a tensor
_Layer.layer_norm_eps: the `eps` of each normalisation
_Layer.batch_first: whether the batch is the first dimension instead of the second
_Layer.norm_first: whether normalisation comes before attention and feed-forward instead of after
_Layer.bias: whether linear layers and normalisations have biases
TransformerEncoder.encoder_layer: the layer that is copied
TransformerEncoder.num_layers: the number of copies
TransformerEncoder.norm: what is applied to the last result
TransformerEncoder.enable_nested_tensor: accepted; padded sequences are computed whole
TransformerEncoder.mask_check: accepted
TransformerDecoder.decoder_layer: the layer that is copied
TransformerDecoder.num_layers: the number of copies
TransformerDecoder.norm: what is applied to the last result
Upsample.size: the size of the result in each dimension, one number or one each
Upsample.scale_factor: how many times larger each dimension becomes; this or `size`
Upsample.mode: "nearest", "linear", "bilinear", "bicubic", "trilinear" or others of `functional.interpolate`
Upsample.align_corners: whether the centres of corner elements stay at the corners
Upsample.recompute_scale_factor: whether the factor is computed again from the rounded size

_WeightedLoss.weight: a weight for each class
BCELoss.weight: a weight for each element of the batch
BCEWithLogitsLoss.weight: a weight for each element of the batch
BCEWithLogitsLoss.pos_weight: a weight for positive targets, one per class
CTCLoss.blank: the class that stands for no label
CTCLoss.zero_infinity: whether an infinite loss, of a label sequence that is too long, counts as 0
CosineEmbeddingLoss.margin: the cosine that pairs that do not belong together may have, from -1 to 1
GaussianNLLLoss.eps: the least variance
HuberLoss.delta: the difference at which the square becomes a line
KLDivLoss.log_target: whether the target is given as logarithms too
KLDivLoss.reduction: "mean" over elements, "batchmean" over the batch, "sum", or "none"
MarginRankingLoss.margin: how far ahead the higher ranked input must be
MultiMarginLoss.p: the power of what is missing to the margin: 1 or 2
MultiMarginLoss.margin: how far ahead of others the score of the target's class must be
PoissonNLLLoss.log_input: whether the input is the logarithm of the mean
PoissonNLLLoss.full: whether Stirling's approximation of `log(target!)` is counted too
PoissonNLLLoss.eps: added to the mean before its logarithm is taken
SmoothL1Loss.beta: the difference at which the square becomes a line
TripletMarginLoss.p: the degree of the norm
TripletMarginLoss.eps: added to each difference
TripletMarginLoss.swap: whether the distance of positive and negative counts where it is the smaller one
TripletMarginWithDistanceLoss.swap: whether the distance of positive and negative counts where it is the
    smaller one
TripletMarginWithDistanceLoss.distance_function: of two batches of vectors; by default their Euclidean
    distance
LinearCrossEntropyLoss.num_classes: the number of classes
LinearCrossEntropyLoss.out_features: further sizes of the scores, behind that of the classes
LinearCrossEntropyLoss.bias: whether the linear layer has a bias
LinearCrossEntropyLoss.weight: a weight for each class
LinearCrossEntropyLoss.ignore_index: the target that counts for nothing; None for none
LinearCrossEntropyLoss.options: a `LinearCrossEntropyOptions`
LinearCrossEntropyOptions.allow_retain_graph: whether backward may be called twice; it always may
LinearCrossEntropyOptions.batch_chunk_size: examples per chunk
LinearCrossEntropyOptions.chunking_method: "auto", or "aspect_ratio" with by choice a number behind a colon
LinearCrossEntropyOptions.acc_policy: "auto", "accurate", "balanced" or "compact"
LinearCrossEntropyOptions.acc_dtype: the dtype of sums
"""

_SHAPES: Final = """
Module: what `forward` takes and gives
_InPlace, _AlongDim, _Shrink, _DropoutNd, GELU, LogSigmoid, Sigmoid, Softplus, Softsign, Tanh, Tanhshrink:
    input `(*)`, of any shape; result of the same shape
GLU: input `(*, 2n, *)`; result `(*, n, *)`, halved at `dim`
PReLU: input `(N, C, *)`, or any shape with one slope; result of the same shape; `weight` `(num_parameters,)`
Softmax2d: input `(N, C, H, W)` or `(C, H, W)`; result of the same shape
MultiheadAttention: query `(L, N, embed_dim)`, key `(S, N, kdim)`, value `(S, N, vdim)`, with `batch_first`
    the batch first, or all without `N`; result of the query's shape, and weights `(N, L, S)`, or `(N,
    num_heads, L, S)` with `average_attn_weights=False`
AdaptiveLogSoftmaxWithLoss: input `(N, in_features)` or `(in_features,)`; target `(N,)` or `()`; result
    `output` of the target's shape, and `loss` `()`

BatchNorm1d: input `(N, C)` or `(N, C, L)`; result of the same shape; `weight`, `bias`, `running_mean` and
    `running_var` `(C,)`
_BatchNorm: input `(N, C, {sizes})`; result of the same shape; `weight`, `bias`, `running_mean` and
    `running_var` `(C,)`
SyncBatchNorm: input `(N, C, *)`; result of the same shape; `weight`, `bias`, `running_mean` and
    `running_var` `(C,)`
_InstanceNorm: input `(N, C, {sizes})` or `(C, {sizes})`; result of the same shape; `weight` and `bias` `(C,)`
LayerNorm: input `(*, normalized_shape)`; result of the same shape; `weight` and `bias` `normalized_shape`
RMSNorm: input `(*, normalized_shape)`; result of the same shape; `weight` `normalized_shape`
GroupNorm: input `(N, num_channels, *)`; result of the same shape; `weight` and `bias` `(num_channels,)`
LocalResponseNorm: input `(N, C, *)`; result of the same shape
CrossMapLRN2d: input `(N, C, H, W)`; result of the same shape

_Convolution: input `(N, in_channels, {sizes})` or `(in_channels, {sizes})`; result `(N, out_channels,
    {results})` or `(out_channels, {results})`, each size `(size + 2 * padding - dilation * (kernel_size -
    1) - 1) // stride + 1`; `weight` `(out_channels, in_channels // groups, *kernel_size)`; `bias`
    `(out_channels,)`
_ConvTransposeNd: input `(N, in_channels, {sizes})` or `(in_channels, {sizes})`; result `(N, out_channels,
    {results})` or `(out_channels, {results})`, each size `(size - 1) * stride - 2 * padding + dilation *
    (kernel_size - 1) + output_padding + 1`; `weight` `(in_channels, out_channels // groups, *kernel_size)`;
    `bias` `(out_channels,)`
CosineSimilarity: two inputs `(*, D, *)`, with `D` at `dim`; result `(*, *)`, without it
PairwiseDistance: two inputs `(N, D)` or `(D,)`; result `(N,)` or `()`, or with `keepdim` `(N, 1)` or `(1,)`
Dropout1d: input `(N, C, L)` or `(C, L)`; result of the same shape
Dropout2d: input `(N, C, H, W)` or `(N, C, L)`; result of the same shape
Dropout3d: input `(N, C, D, H, W)` or `(C, D, H, W)`; result of the same shape
FeatureAlphaDropout: input `(N, C, *)`; result of the same shape
Flatten: input `(N, *)`; result `(N, product of *)`
Unflatten: input `(*, n, *)`, with `n` at `dim`; result `(*, *unflattened_size, *)`
Unfold: input `(N, C, H, W)` or `(C, H, W)`; result `(N, C * window, count)` or `(C * window, count)`, a
    column for each of `count` windows
Fold: input `(N, C * window, count)` or `(C * window, count)`; result `(N, C, *output_size)` or `(C,
    *output_size)`
ChannelShuffle: input `(N, C, *)`; result of the same shape
PixelShuffle: input `(*, C * r * r, H, W)`; result `(*, C, H * r, W * r)`, where `r` is `upscale_factor`
PixelUnshuffle: input `(*, C, H * r, W * r)`; result `(*, C * r * r, H, W)`, where `r` is `downscale_factor`
Linear: input `(*, in_features)`; result `(*, out_features)`; `weight` `(out_features, in_features)`; `bias`
    `(out_features,)`
Bilinear: inputs `(*, in1_features)` and `(*, in2_features)`; result `(*, out_features)`; `weight`
    `(out_features, in1_features, in2_features)`; `bias` `(out_features,)`
Identity: any input; the same as result
Sequential: what the first module takes; what the last one gives
ModuleList: none: it holds modules, and is not called
ModuleDict: none: it holds modules, and is not called
ParameterList: none: it holds parameters, and is not called
ParameterDict: none: it holds parameters, and is not called
DataParallel: what `module` takes and gives

_PadNd: input `(N, C, {sizes})` or `(C, {sizes})`; result of the same dimensions, each size `before + size +
    after`
_MaxPoolNd: input `(N, C, {sizes})` or `(C, {sizes})`; result `(N, C, {results})` or `(C, {results})`, each
    size `(size + 2 * padding - dilation * (kernel_size - 1) - 1) / stride + 1`, rounded down, or up with
    `ceil_mode`; with `return_indices` also indices of the result's shape
_FractionalMaxPoolNd: input `(N, C, {sizes})` or `(C, {sizes})`; result `(N, C, *output_size)` or `(C,
    *output_size)`; with `return_indices` also indices of the result's shape
_MaxUnpoolNd: input and indices `(N, C, {sizes})` or `(C, {sizes})`; result `(N, C, {results})` or `(C,
    {results})`, each size `(size - 1) * stride - 2 * padding + kernel_size` unless forward is given an
    `output_size`
AvgPool1d: input `(N, C, {sizes})` or `(C, {sizes})`; result `(N, C, {results})` or `(C, {results})`, each
    size `(size + 2 * padding - kernel_size) / stride + 1`, rounded down, or up with `ceil_mode`
_AvgPoolNd: input `(N, C, {sizes})` or `(C, {sizes})`; result `(N, C, {results})` or `(C, {results})`, each
    size `(size + 2 * padding - kernel_size) / stride + 1`, rounded down, or up with `ceil_mode`
_LPPoolNd: input `(N, C, {sizes})` or `(C, {sizes})`; result `(N, C, {results})` or `(C, {results})`, each
    size `(size - kernel_size) / stride + 1`, rounded down, or up with `ceil_mode`
_AdaptiveAvgPoolNd: input `(N, C, {sizes})` or `(C, {sizes})`; result `(N, C, *output_size)` or `(C,
    *output_size)`
_AdaptiveMaxPoolNd: input `(N, C, {sizes})` or `(C, {sizes})`; result `(N, C, *output_size)` or `(C,
    *output_size)`; with `return_indices` also indices of the result's shape

RNNBase: input `(L, N, input_size)`, with `batch_first` `(N, L, input_size)`, `(L, input_size)`, or a packed
    sequence; state `(layers, N, hidden_size)`, zeros if left out, where `layers` is `num_layers`, twice
    that if `bidirectional`; result `(L, N, hidden_size)`, the states of the last layer and each direction
    side by side, and the last state of each layer
LSTM: input `(L, N, input_size)`, with `batch_first` `(N, L, input_size)`, `(L, input_size)`, or a packed
    sequence; state a pair: hidden `(layers, N, proj_size or hidden_size)` and cell `(layers, N,
    hidden_size)`, zeros if left out, where `layers` is `num_layers`, twice that if `bidirectional`; result
    `(L, N, proj_size or hidden_size)`, the states of the last layer and each direction side by side, and
    the pair of last states
RNNCellBase: input `(N, input_size)` or `(input_size,)`; state `(N, hidden_size)` or `(hidden_size,)`, zeros
    if left out; result the next state
LSTMCell: input `(N, input_size)` or `(input_size,)`; state a pair of `(N, hidden_size)` or
    `(hidden_size,)`, zeros if left out; result the next pair
Embedding: input `(*)`, integers; result `(*, embedding_dim)`; `weight` `(num_embeddings, embedding_dim)`
EmbeddingBag: input `(B, n)`, a bag a row, or `(n,)` with offsets `(B,)` where bags begin, integers; result
    `(B, embedding_dim)`; `weight` `(num_embeddings, embedding_dim)`
Transformer: source `(S, N, d_model)` and target `(T, N, d_model)`, with `batch_first` the batch first, or
    without `N`; masks `(S, S)`, `(T, T)`, `(T, S)`, of padding `(N, S)`, `(N, T)`; result of the target's
    shape
TransformerEncoder: source `(S, N, d_model)`, with `batch_first` the batch first, or `(S, d_model)`; mask
    `(S, S)`, of padding `(N, S)`; result of the source's shape
TransformerEncoderLayer: source `(S, N, d_model)`, with `batch_first` the batch first, or `(S, d_model)`;
    mask `(S, S)`, of padding `(N, S)`; result of the source's shape
TransformerDecoder: target `(T, N, d_model)` and memory `(S, N, d_model)`, with `batch_first` the batch
    first, or without `N`; masks `(T, T)`, `(T, S)`, of padding `(N, T)`, `(N, S)`; result of the target's
    shape
TransformerDecoderLayer: target `(T, N, d_model)` and memory `(S, N, d_model)`, with `batch_first` the batch
    first, or without `N`; masks `(T, T)`, `(T, S)`, of padding `(N, T)`, `(N, S)`; result of the target's
    shape
Upsample: input `(N, C, L)`, `(N, C, H, W)` or `(N, C, D, H, W)`; result of the same dimensions, each size
    `size` or `floor(size * scale_factor)`
UpsamplingNearest2d: input `(N, C, H, W)`; result of the same dimensions, each size `size` or `floor(size *
    scale_factor)`
UpsamplingBilinear2d: input `(N, C, H, W)`; result of the same dimensions, each size `size` or `floor(size *
    scale_factor)`

_Loss: input `(*)` and target of the same shape; result `()`, or with `reduction="none"` of the input's shape
NLLLoss: input `(N, C)`, `(N, C, d1, d2, ...)` or `(C,)`, log-probabilities; target, integers, without the
    dimension `C`; result `()`, or with `reduction="none"` of the target's shape
CrossEntropyLoss: input `(N, C)`, `(N, C, d1, d2, ...)` or `(C,)`, any numbers; target, integers without the
    dimension `C`, or probabilities of the input's shape; result `()`, or with `reduction="none"` the
    input's shape without `C`
LinearCrossEntropyLoss: input `(N, in_features)` or `(in_features,)`; target `(N, *out_features)`, integers,
    or probabilities `(N, num_classes, *out_features)`; result `()`, or with `reduction="none"` `(N,
    *out_features)`
LinearCrossEntropyOptions: none: it is given to a loss
GaussianNLLLoss: input and target `(N, *)`; variance of the same shape, or with a last dimension of 1 or
    without it; result `()`, or with `reduction="none"` of the input's shape
CosineEmbeddingLoss: two inputs `(N, D)` or `(D,)`; target `(N,)` or `()`, 1 or -1; result `()`, or with
    `reduction="none"` of the target's shape
MarginRankingLoss: two inputs `(N,)` or `()`; target of the same shape, 1 or -1; result `()`, or with
    `reduction="none"` of the target's shape
HingeEmbeddingLoss: input `(*)`; target of the same shape, 1 or -1; result `()`, or with `reduction="none"`
    of the input's shape
SoftMarginLoss: input `(*)`; target of the same shape, 1 or -1; result `()`, or with `reduction="none"` of
    the input's shape
MultiLabelMarginLoss: input `(N, C)` or `(C,)`; target of the same shape, the right classes first, then -1;
    result `()`, or with `reduction="none"` `(N,)`
MultiLabelSoftMarginLoss: input and target `(N, C)`, targets 0 or 1; result `()`, or with `reduction="none"`
    `(N,)`
MultiMarginLoss: input `(N, C)` or `(C,)`; target `(N,)` or `()`, integers; result `()`, or with
    `reduction="none"` of the target's shape
TripletMarginLoss: anchor, positive and negative `(N, D)` or `(D,)`; result `()`, or with `reduction="none"`
    `(N,)` or `()`
TripletMarginWithDistanceLoss: anchor, positive and negative `(N, *)`; result `()`, or with
    `reduction="none"` the shape of the distances
CTCLoss: log-probabilities `(T, N, C)` or `(T, C)`; targets `(N, S)`, or all behind one another `(sum of
    lengths,)`; lengths of inputs and targets `(N,)` or `()`; result `()`, or with `reduction="none"` `(N,)`
"""


def _table(text: str) -> dict[str, str]:
    rows = (line.split(": ", 1) for line in text.replace("\n    ", " ").splitlines() if line)
    return {name: said for names, said in rows for name in names.split(", ")}


ARGUMENTS: Final = _table(_ARGUMENTS)
"""What an argument means, by `argument` or `Class.argument`."""
SHAPES: Final = _table(_SHAPES)
"""What a class takes and gives, and the shapes of its parameters, by the name of the class or a base."""
_SIZES = {"1": "L", "2": "H, W", "3": "D, H, W"}


def argument(kind: type, name: str) -> str | None:
    """What an argument of a class means."""
    named = (f"{base.__name__}.{name}" for base in kind.__mro__)
    return next((ARGUMENTS[key] for key in named if key in ARGUMENTS), ARGUMENTS.get(name))


def shapes(kind: type) -> str | None:
    """The shapes that a class takes and gives, with those of its number of dimensions filled in."""
    text = next((SHAPES[base.__name__] for base in kind.__mro__ if base.__name__ in SHAPES), None)
    sizes = _SIZES.get(kind.__name__[-2:-1], "*")
    results = ", ".join(f"{size}_out" for size in sizes.split(", "))
    return text and text.replace("{sizes}", sizes).replace("{results}", results)


def described_arguments(kind: type) -> dict[str, str | None]:
    """The arguments that users give, and what each means."""
    code = kind.__init__.__code__  # type: ignore[misc]  # much faster than a signature
    named = code.co_argcount + code.co_kwonlyargcount
    known = {name: argument(kind, name) for name in code.co_varnames[1:named]}
    if code.co_flags & inspect.CO_VARARGS and argument(kind, "args"):
        known["args"] = argument(kind, "args")
    return {name: text for name, text in known.items() if not name.startswith("_")}


def description(kind: type) -> str:
    """The docstring of a class, from its short one: that, its arguments, the shapes, the example."""
    head, mark, example = inspect.cleandoc(kind.__doc__ or "").partition("\n>>> ")
    arguments = [f"- `{name}`: {text}" for name, text in described_arguments(kind).items()]
    parts = [head.strip(), "Arguments:" if arguments else "Arguments: none."]
    parts += ["\n".join(arguments)] if arguments else []
    parts += ["Shapes:", "\n".join(f"- {part}" for part in (shapes(kind) or "").split("; "))]
    return "\n\n".join([*parts, mark.lstrip() + example] if mark else parts) + "\n"


def describe(kinds: list[type]) -> None:
    """Has the docstrings of layers say what is known of them."""
    for kind in kinds:
        if kind.__doc__ is not None:  # there are none under -OO
            kind.__doc__ = description(kind)
