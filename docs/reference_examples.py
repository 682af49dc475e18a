"""Examples of the reference that stand in no docstring.

Takes a public name; gives statements with what they print, as at Python's prompt. One idea: statements are
written down, here by family where a family is used in one way, and run when the page is made.
"""

from __future__ import annotations

import ast
import contextlib
import io
import linecache
import warnings

import weft

DISTRIBUTIONS = """
Bernoulli: probs=weft.tensor([0.2, 0.8])
Beta: 2.0, 3.0
Binomial: 10, probs=weft.tensor([0.2, 0.8])
Categorical: probs=weft.tensor([0.2, 0.3, 0.5])
Cauchy: 0.0, 1.0
Chi2: 3.0
ContinuousBernoulli: probs=0.3
Dirichlet: weft.ones(3)
Exponential: 2.0
FisherSnedecor: 4.0, 6.0
Gamma: 2.0, 1.0
GeneralizedPareto: 0.0, 1.0, 0.1
Geometric: probs=0.3
Gumbel: 0.0, 1.0
HalfCauchy: 1.0
HalfNormal: 1.0
Independent: D.Normal(weft.zeros(2), 1.0), 1
InverseGamma: 3.0, 2.0
Kumaraswamy: 2.0, 3.0
LKJCholesky: 2, 1.5
Laplace: 0.0, 1.0
LogNormal: 0.0, 0.5
LogisticNormal: weft.zeros(2), weft.ones(2)
LowRankMultivariateNormal: weft.zeros(2), weft.ones(2, 1), weft.ones(2)
MixtureSameFamily: D.Categorical(weft.ones(2)), D.Normal(weft.tensor([-1.0, 1.0]), 0.2)
Multinomial: 5, probs=weft.tensor([0.2, 0.3, 0.5])
MultivariateNormal: weft.zeros(2), covariance_matrix=weft.eye(2)
NegativeBinomial: 3, probs=0.4
Normal: 0.0, weft.tensor([1.0, 2.0])
OneHotCategorical: probs=weft.tensor([0.2, 0.3, 0.5])
OneHotCategoricalStraightThrough: probs=weft.tensor([0.2, 0.3, 0.5])
Pareto: 1.0, 3.0
Poisson: weft.tensor([1.0, 5.0])
RelaxedBernoulli: 0.5, probs=0.3
RelaxedOneHotCategorical: 0.5, probs=weft.tensor([0.2, 0.3, 0.5])
StudentT: 4.0
TransformedDistribution: D.Normal(0.0, 1.0), D.ExpTransform()
Uniform: 0.0, 2.0
VonMises: 0.0, 2.0
Weibull: 1.0, 2.0
Wishart: 3.0, covariance_matrix=weft.eye(2)
"""
"""How each is made; all are sampled, and asked for the logarithm of the sample's density."""

TRANSFORMS = """
AbsTransform: , weft.tensor([-1.0, 2.0])
AffineTransform: 1.0, 2.0, weft.tensor([-1.0, 2.0])
CatTransform: [D.ExpTransform(), D.TanhTransform()], dim=0, lengths=[1, 1], weft.tensor([-1.0, 2.0])
ComposeTransform: [D.ExpTransform(), D.AffineTransform(0.0, 2.0)], weft.tensor([-1.0, 2.0])
CorrCholeskyTransform: , weft.tensor([0.5])
CumulativeDistributionTransform: D.Normal(0.0, 1.0), weft.tensor([-1.0, 2.0])
ExpTransform: , weft.tensor([-1.0, 2.0])
IndependentTransform: D.ExpTransform(), 1, weft.tensor([-1.0, 2.0])
LowerCholeskyTransform: , weft.tensor([[1.0, 0.0], [0.5, 2.0]])
PositiveDefiniteTransform: , weft.tensor([[1.0, 0.0], [0.5, 2.0]])
PowerTransform: 2.0, weft.tensor([1.0, 2.0])
ReshapeTransform: (4,), (2, 2), weft.tensor([1.0, 2.0, 3.0, 4.0])
SigmoidTransform: , weft.tensor([-1.0, 2.0])
SoftmaxTransform: , weft.tensor([-1.0, 2.0])
SoftplusTransform: , weft.tensor([-1.0, 2.0])
StackTransform: [D.ExpTransform(), D.TanhTransform()], dim=0, weft.tensor([-1.0, 2.0])
StickBreakingTransform: , weft.tensor([-1.0, 2.0])
TanhTransform: , weft.tensor([-1.0, 2.0])
"""
"""How each is made, and what it is called with."""

SCHEDULES = """
ConstantLR: optimizer, factor=0.5, total_iters=2
CosineAnnealingLR: optimizer, T_max=4
CosineAnnealingWarmRestarts: optimizer, T_0=3
CyclicLR: optimizer, base_lr=0.1, max_lr=0.5, step_size_up=2
ExponentialLR: optimizer, gamma=0.5
LambdaLR: optimizer, lambda epoch: 1 / (1 + epoch)
LinearLR: optimizer, start_factor=0.25, total_iters=3
MultiStepLR: optimizer, milestones=[1, 3]
MultiplicativeLR: optimizer, lambda epoch: 0.9
OneCycleLR: optimizer, max_lr=1.0, total_steps=5
PolynomialLR: optimizer, total_iters=4
StepLR: optimizer, step_size=2
"""
"""How each is made; all are asked for the rates of five steps."""

FILLED = {
    "constant": ", 0.5", "dirac": "", "eye": "", "kaiming_normal": ", nonlinearity='relu'",
    "kaiming_uniform": ", nonlinearity='relu'", "normal": ", std=0.02", "ones": "", "orthogonal": "",
    "sparse": ", sparsity=0.5", "trunc_normal": ", std=0.02", "uniform": ", -0.1, 0.1", "xavier_normal": "",
    "xavier_uniform": "", "zeros": "",
}  # fmt: skip
"""What each of `weft.nn.init` is given besides the tensor."""

OTHERS = """
## weft.autograd.Function
class Double(weft.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2
    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2
x = weft.ones(2, requires_grad=True)
Double.apply(x).sum().backward()
x.grad
## weft.autograd.GradcheckError
x = weft.ones(2, dtype=weft.float64, requires_grad=True)
try:
    weft.autograd.gradcheck(lambda x: x.detach() * 2 + x, x)
except weft.autograd.GradcheckError as error:
    print(str(error).splitlines()[0])
## weft.autograd.backward
x = weft.tensor([1.0, 2.0], requires_grad=True)
weft.autograd.backward([x.sum(), (x * x).sum()])
x.grad
## weft.autograd.detect_anomaly
import warnings
warnings.simplefilter("ignore")
x = weft.zeros(2, requires_grad=True)
with weft.autograd.detect_anomaly():
    try:
        (x.sqrt() * 0).sum().backward()
    except RuntimeError as error:
        print(error)
## weft.autograd.enable_grad
x = weft.ones(2, requires_grad=True)
with weft.no_grad(), weft.autograd.enable_grad():
    y = x * 2
y.requires_grad
## weft.autograd.grad
x = weft.tensor([1.0, 2.0], requires_grad=True)
(slope,) = weft.autograd.grad((x**3).sum(), x, create_graph=True)
weft.autograd.grad(slope.sum(), x)
## weft.autograd.gradcheck
x = weft.tensor([0.3, 0.7], dtype=weft.float64, requires_grad=True)
weft.autograd.gradcheck(weft.sin, x)
## weft.autograd.gradgradcheck
x = weft.tensor([0.3, 0.7], dtype=weft.float64, requires_grad=True)
weft.autograd.gradgradcheck(weft.sin, x)
## weft.autograd.inference_mode
with weft.autograd.inference_mode():
    y = weft.ones(2) * 2
y.is_inference()
## weft.autograd.no_grad
x = weft.ones(2, requires_grad=True)
with weft.autograd.no_grad():
    y = x * 2
y.requires_grad
## weft.autograd.set_detect_anomaly
with weft.autograd.set_detect_anomaly(True):
    weft.is_anomaly_enabled()
## weft.autograd.set_grad_enabled
x = weft.ones(2, requires_grad=True)
with weft.autograd.set_grad_enabled(False):
    y = x * 2
y.requires_grad
## weft.autograd.set_multithreading_enabled
with weft.autograd.set_multithreading_enabled(False):
    weft.ones(2, requires_grad=True).sum().backward()
## weft.autograd.is_multithreading_enabled
weft.autograd.is_multithreading_enabled()
## weft.autograd.kineto_available
weft.autograd.kineto_available()
## weft.data.DataChunk
weft.data.DataChunk([1, 2, 3])
## weft.data.DFIterDataPipe
issubclass(weft.data.DFIterDataPipe, weft.data.IterDataPipe)
## weft.data.functional_datapipe
@weft.data.functional_datapipe("halved")
class Halves(weft.data.MapDataPipe):
    def __init__(self, source):
        self.source = source
    def __getitem__(self, key):
        return self.source[key] / 2
class Numbers(weft.data.MapDataPipe):
    def __getitem__(self, key):
        return key
Numbers().halved()[5]
## weft.data.MapDataPipe
class Squares(weft.data.MapDataPipe):
    def __getitem__(self, key):
        return key * key
    def __len__(self):
        return 3
[batch.tolist() for batch in weft.data.DataLoader(Squares(), batch_size=2)]
## weft.nn.functional.assert_int_or_pair
weft.nn.functional.assert_int_or_pair((1, 2), "stride", "stride takes an int or two")
## weft.nn.functional.boolean_dispatch
total = weft.nn.functional.boolean_dispatch(
    "mean", 1, False, lambda x, mean=False: x.mean(), lambda x, mean=False: x.sum(), "example", "total"
)
total(weft.ones(3)), total(weft.ones(3), mean=True)
## weft.profiler.emit_itt
with weft.profiler.emit_itt(enabled=False):
    weft.ones(2).sum()
## weft.profiler.emit_nvtx
with weft.profiler.emit_nvtx(enabled=False):
    weft.ones(2).sum()
## weft.profiler.kineto_available
weft.profiler.kineto_available()
## weft.profiler.tensorboard_trace_handler
import os, tempfile
with tempfile.TemporaryDirectory() as folder:
    with weft.profiler.profile(on_trace_ready=weft.profiler.tensorboard_trace_handler(folder, "one")):
        weft.ones(2).sum()
    print(len(os.listdir(folder)))
## weft.func.functional_call
net = weft.nn.Linear(2, 1)
weights = {"weight": weft.ones(1, 2), "bias": weft.zeros(1)}
weft.func.functional_call(net, weights, (weft.tensor([3.0, 4.0]),))
## weft.func.grad
weft.func.grad(lambda x: (x**3).sum())(weft.tensor([1.0, 2.0]))
## weft.func.grad_and_value
weft.func.grad_and_value(lambda x: (x**3).sum())(weft.tensor([1.0, 2.0]))
## weft.func.hessian
weft.func.hessian(lambda x: x.prod())(weft.tensor([1.0, 2.0]))
## weft.func.jacfwd
weft.func.jacfwd(lambda x: x**2)(weft.tensor([1.0, 2.0]))
## weft.func.jacrev
weft.func.jacrev(lambda x: x**2)(weft.tensor([1.0, 2.0]))
## weft.func.jvp
weft.func.jvp(weft.sin, (weft.zeros(2),), (weft.tensor([1.0, 2.0]),))
## weft.func.linearize
value, along = weft.func.linearize(weft.sin, weft.zeros(2))
along(weft.tensor([1.0, 2.0]))
## weft.func.replace_all_batch_norm_modules_
net = weft.nn.Sequential(weft.nn.BatchNorm1d(2))
weft.func.replace_all_batch_norm_modules_(net)[0].track_running_stats
## weft.func.stack_module_state
parameters, buffers = weft.func.stack_module_state([weft.nn.Linear(2, 1) for _ in range(3)])
parameters["weight"].shape
## weft.func.vjp
value, back = weft.func.vjp(weft.sin, weft.zeros(2))
back(weft.ones(2))
## weft.func.vmap
weft.func.vmap(weft.dot)(weft.ones(3, 2), weft.arange(6.0).reshape(3, 2))
## weft.compiler.BackendCompilerFailed
def failing(graph, inputs):
    raise ValueError("no looms today")
try:
    weft.compile(lambda x: x + 1, backend=failing)(weft.ones(2))
except weft.compiler.BackendCompilerFailed as error:
    print(str(error).splitlines()[-1])
## weft.compiler.CaptureFailed
issubclass(weft.compiler.CaptureFailed, weft.compiler.CompilerError)
## weft.compiler.CompilerError
issubclass(weft.compiler.CompilerError, RuntimeError)
## weft.compiler.ExplainOutput
found = weft.compiler.explain(lambda x: x.sin().sum())(weft.ones(3))
type(found).__name__, found.graph_count, found.op_count, found.graph_break_count
## weft.compiler.InvalidBackend
try:
    weft.compile(lambda x: x + 1, backend="loom")(weft.ones(2))
except weft.compiler.InvalidBackend as error:
    print(str(error).splitlines()[0])
## weft.compiler.NotCompiled
weft.compiler.settings.strict = True
f = weft.compile(lambda x, axis: x.sum(axis))
try:
    for axis in range(5):
        total = f(weft.ones(2, 2, 2, 2, 2), axis)
except weft.compiler.NotCompiled as error:
    print(str(error).partition(" within")[0])
weft.compiler.settings.strict = False
## weft.compiler.OptimizedModule
net = weft.compile(weft.nn.Linear(2, 1))
type(net).__name__, type(net._orig_mod).__name__
## weft.compiler.RecompileLimitExceeded
issubclass(weft.compiler.RecompileLimitExceeded, RuntimeError)
## weft.compiler.Unsupported
def picky(x):
    return x + 1 if x.sum() > 0 else x
try:
    weft.compile(picky, fullgraph=True)(weft.ones(2))
except weft.compiler.Unsupported as error:
    print(error.kind)
## weft.compiler.allow_in_graph
@weft.compiler.allow_in_graph
def whole(x):
    return x.sin() + 1
weft.compiler.explain(lambda x: whole(x) * 2, backend="eager")(weft.ones(2)).op_count
## weft.compiler.aot
def shown(graph, inputs):
    print([node.name for node in graph.graph.nodes])
    return graph
f = weft.compile(lambda x: x.sin(), backend=weft.compiler.aot(shown))
f(weft.zeros(2))
## weft.compiler.assume_constant_result
@weft.compiler.assume_constant_result
def factor():
    return 3
weft.compile(lambda x: x * factor(), fullgraph=True)(weft.ones(2))
## weft.compiler.compile
@weft.compiler.compile(fullgraph=True)
def step(x, scale):
    return (x * scale).sum()
step(weft.ones(3), 2.0)
## weft.compiler.cudagraph_mark_step_begin
weft.compiler.cudagraph_mark_step_begin()
## weft.compiler.disable
@weft.compiler.disable
def as_written(x):
    return x + 1
weft.compiler.explain(lambda x: as_written(x * 2) * 3)(weft.ones(2)).graph_count
## weft.compiler.disallow_in_graph
found = weft.compiler.disallow_in_graph(weft.sin)
weft.compiler.explain(lambda x: weft.sin(x) + 1)(weft.ones(2)).graph_break_count
found = weft.compiler.allow_in_graph(weft.sin)
## weft.compiler.explain
found = weft.compiler.explain(lambda x: x.sin().sum())(weft.ones(3))
found.graph_count, found.graph_break_count, found.op_count
## weft.compiler.graph_break
def parted(x):
    y = x * 2
    weft.compiler.graph_break()
    return y + 1
weft.compiler.explain(parted)(weft.ones(2)).graph_count
## weft.compiler.is_compiling
f = weft.compile(lambda x: x + 1 if weft.compiler.is_compiling() else x)
f(weft.ones(2)), weft.compiler.is_compiling()
## weft.compiler.is_dynamo_compiling
weft.compiler.is_dynamo_compiling()
## weft.compiler.is_exporting
weft.compiler.is_exporting()
## weft.compiler.list_backends
"native" in weft.compiler.list_backends()
## weft.compiler.lookup_backend
callable(weft.compiler.lookup_backend("native"))
## weft.compiler.mark_dynamic
x = weft.ones(4, 3)
weft.compiler.mark_dynamic(x, 0)
f = weft.compile(lambda x: x.sum(1), backend="eager")
f(x).shape, f(weft.ones(7, 3)).shape
## weft.compiler.mark_static
x = weft.ones(4, 3)
weft.compiler.mark_static(x)
weft.compile(lambda x: x.sum(1))(x)
## weft.compiler.maybe_mark_dynamic
x = weft.ones(4, 3)
weft.compiler.maybe_mark_dynamic(x, 0)
weft.compile(lambda x: x.sum(1))(x)
## weft.compiler.nested_compile_region
@weft.compiler.nested_compile_region
def layer(x):
    return x.sin() * 2
weft.compile(lambda x: layer(layer(x)), fullgraph=True)(weft.zeros(2))
## weft.compiler.optimize
weft.compiler.optimize("eager")(lambda x: x + 1)(weft.ones(2))
## weft.compiler.optimize_assert
weft.compiler.optimize_assert("eager")(lambda x: x + 1)(weft.ones(2))
## weft.compiler.register_backend
@weft.compiler.register_backend(name="counting")
def counting(graph, inputs):
    print(len(inputs), "inputs")
    return graph.forward
weft.compile(lambda x: x + 1, backend="counting")(weft.ones(2))
## weft.compiler.reset
weft.compiler.reset()
## weft.compiler.run
f = weft.compile(lambda x: x * 5)
f(weft.ones(2))
weft.compiler.run(f)(weft.ones(2))
## weft.compiler.set_logs
weft.compiler.set_logs("breaks", "recompiles")
weft.compiler.set_logs()
## weft.compiler.set_stance
with weft.compiler.set_stance("force_eager"):
    weft.compile(lambda x: x + 1)(weft.ones(2))
## weft.amp.GradScaler
scaler = weft.amp.GradScaler("cpu", init_scale=1024.0)
w = weft.ones(2, requires_grad=True)
optimizer = weft.optim.SGD([w], lr=0.5)
scaler.scale(w.sum()).backward()
scaler.step(optimizer)
scaler.update()
w
## weft.amp.autocast
with weft.amp.autocast("cpu", dtype=weft.bfloat16):
    (weft.ones(2, 2) @ weft.ones(2, 2)).dtype
## weft.amp.custom_bwd
@weft.amp.custom_bwd(device_type="cpu")
def backward(ctx, gradient):
    return gradient * 2
callable(backward)
## weft.amp.custom_fwd
@weft.amp.custom_fwd(device_type="cpu", cast_inputs=weft.float32)
def forward(ctx, x):
    return x * 2
callable(forward)
## weft.amp.is_autocast_available
weft.amp.is_autocast_available("cpu")
## weft.optim.Optimizer
class Halving(weft.optim.Optimizer):
    def step(self):
        with weft.no_grad():
            for group in self.param_groups:
                for p in group["params"]:
                    p.mul_(group["factor"])
w = weft.nn.Parameter(weft.ones(2))
Halving([w], {"factor": 0.5}).step()
w
## weft.optim.lr_scheduler.ChainedScheduler
optimizer = weft.optim.SGD([weft.zeros(1, requires_grad=True)], lr=0.5)
L = weft.optim.lr_scheduler
schedule = L.ChainedScheduler([L.ExponentialLR(optimizer, 0.5), L.ConstantLR(optimizer, 0.1, 1)])
schedule.get_last_lr()
## weft.optim.lr_scheduler.LRScheduler
class Halved(weft.optim.lr_scheduler.LRScheduler):
    def get_lr(self):
        return [rate / 2**self.last_epoch for rate in self.base_lrs]
optimizer = weft.optim.SGD([weft.zeros(1, requires_grad=True)], lr=0.5)
schedule = Halved(optimizer)
optimizer.step()
schedule.step()
schedule.get_last_lr()
## weft.optim.lr_scheduler.ReduceLROnPlateau
optimizer = weft.optim.SGD([weft.zeros(1, requires_grad=True)], lr=0.5)
schedule = weft.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=1, factor=0.1)
for loss in (3.0, 2.0, 2.0, 2.0):
    schedule.step(loss)
schedule.get_last_lr()
## weft.optim.lr_scheduler.SequentialLR
optimizer = weft.optim.SGD([weft.zeros(1, requires_grad=True)], lr=0.5)
L = weft.optim.lr_scheduler
parts = [L.LinearLR(optimizer, 0.1, total_iters=2), L.ExponentialLR(optimizer, 0.5)]
schedule = L.SequentialLR(optimizer, parts, milestones=[2])
for _ in range(4):
    optimizer.step()
    schedule.step()
schedule.get_last_lr()
## weft.nn.utils.clip_grad_norm_
w = weft.nn.Parameter(weft.zeros(2))
w.grad = weft.tensor([3.0, 4.0])
weft.nn.utils.clip_grad_norm_([w], 1.0)
w.grad
## weft.nn.utils.clip_grad_value_
w = weft.nn.Parameter(weft.zeros(2))
w.grad = weft.tensor([3.0, -0.5])
weft.nn.utils.clip_grad_value_([w], 1.0)
w.grad
## weft.nn.utils.get_total_norm
weft.nn.utils.get_total_norm([weft.tensor([3.0]), weft.tensor([4.0])])
## weft.nn.utils.parameters_to_vector
weft.nn.utils.parameters_to_vector(weft.nn.Linear(2, 1).parameters()).shape
## weft.nn.utils.vector_to_parameters
net = weft.nn.Linear(2, 1)
weft.nn.utils.vector_to_parameters(weft.tensor([1.0, 2.0, 3.0]), net.parameters())
net.bias
## weft.nn.utils.spectral_norm
net = weft.nn.utils.spectral_norm(weft.nn.Linear(2, 3))
net(weft.ones(2)).shape
## weft.nn.utils.weight_norm
net = weft.nn.utils.weight_norm(weft.nn.Linear(2, 3))
net.weight_g.shape
## weft.nn.utils.remove_weight_norm
net = weft.nn.utils.remove_weight_norm(weft.nn.utils.weight_norm(weft.nn.Linear(2, 3)))
[name for name, _ in net.named_parameters()]
## weft.nn.utils.skip_init
weft.nn.utils.skip_init(weft.nn.Linear, 2, 3).weight.shape
## weft.as_tensor
weft.as_tensor([1.0, 2.0])
## weft.from_numpy
import numpy
shared = numpy.zeros(2, numpy.float32)
weft.from_numpy(shared).add_(1)
shared
## weft.Generator
generator = weft.Generator().manual_seed(3)
bool((weft.rand(2, generator=generator) != weft.rand(2, generator=generator)).all())
## weft.cond
weft.cond(weft.tensor(True), lambda x: x + 1, lambda x: x - 1, (weft.ones(2),))
## weft.manual_seed
first = (weft.manual_seed(1), weft.rand(2))[1]
second = (weft.manual_seed(1), weft.rand(2))[1]
bool((first == second).all())
## weft.Tensor.backward
x = weft.ones(2, requires_grad=True)
(x * x).sum().backward()
x.grad
## weft.Tensor.detach
weft.ones(2, requires_grad=True).detach().requires_grad
## weft.Tensor.item
weft.tensor(3.0).item()
## weft.Tensor.dim
weft.ones(2, 3).dim()
## weft.Tensor.numel
weft.ones(2, 3).numel()
## weft.Tensor.copy_
weft.zeros(2).copy_(weft.tensor([1, 2]))
## weft.Tensor.fill_
weft.zeros(2).fill_(3)
## weft.Tensor.split
weft.arange(5).split(2)
## weft.Tensor.where
weft.tensor([1, -2]).where(weft.tensor([True, False]), 0)
## weft.testing.assert_close
weft.testing.assert_close(weft.tensor([0.1 + 0.2]), weft.tensor([0.3]))
## weft.testing.make_tensor
weft.testing.make_tensor((2, 3), dtype=weft.float32, device="cpu").shape
## weft.nn.init.calculate_gain
weft.nn.init.calculate_gain("tanh")
## weft.distributions.Distribution
d = weft.distributions.Normal(weft.zeros(3), 1.0)
isinstance(d, weft.distributions.Distribution), d.batch_shape, d.event_shape
## weft.distributions.ExponentialFamily
isinstance(weft.distributions.Gamma(2.0, 1.0), weft.distributions.ExponentialFamily)
## weft.distributions.Transform
t = weft.distributions.ExpTransform()
isinstance(t, weft.distributions.Transform), t.bijective
## weft.distributions.biject_to
weft.distributions.biject_to(weft.distributions.constraints.positive)(weft.zeros(2))
## weft.distributions.identity_transform
weft.distributions.identity_transform(weft.ones(2))
## weft.distributions.kl_divergence
weft.distributions.kl_divergence(weft.distributions.Normal(0.0, 1.0), weft.distributions.Normal(1.0, 1.0))
## weft.distributions.register_kl
class Point(weft.distributions.Normal):
    pass
@weft.distributions.register_kl(Point, Point)
def between(p, q):
    return (p.loc - q.loc).abs()
weft.distributions.kl_divergence(Point(0.0, 1.0), Point(3.0, 1.0))
## weft.distributions.transform_to
weft.distributions.transform_to(weft.distributions.constraints.simplex)(weft.zeros(2))
"""

RECURRENT = """
cell = weft.nn.{kind}(3, 4, batch_first=True)
x, h = weft.randn(2, 5, 3), weft.zeros(1, 2, 4)
found = weft.{name}(x, {state}, cell._flat_weights, True, 1, 0.0, False, False, True)
[each.shape for each in found]
"""
LAYERS = {"gru": "GRU", "lstm": "LSTM", "rnn_tanh": "RNN", "rnn_relu": "RNN"}
OPTIMIZERS = {"Adam": "lr=0.1", "AdamW": "lr=0.1", "RMSprop": "lr=0.1", "SGD": "lr=0.1, momentum=0.9"}


def rows(text: str) -> dict[str, str]:
    """`name: arguments`, a line each."""
    return dict(line.split(": ", 1) for line in text.strip().splitlines())


def sections(text: str) -> dict[str, str]:
    """Statements under the heads `## name`."""
    parts = (part.split("\n", 1) for part in text.strip().removeprefix("## ").split("\n## "))
    return {part[0]: part[1] for part in parts}


def written(module: str, name: str) -> str:
    """The statements of an example; empty where there is none."""
    full = f"{module}.{name}"
    if full in (known := sections(OTHERS)):
        return known[full]
    if module == "weft.distributions":
        given = (rows(DISTRIBUTIONS) | rows(TRANSFORMS)).get(name, "")
        short = "D = weft.distributions\n" if "D." in given else ""
        if name in rows(DISTRIBUTIONS):
            return f"{short}d = {full}({given})\nx = d.sample()\nx\nd.log_prob(x)"
        if name in rows(TRANSFORMS):
            cut = given.rindex(", weft.tensor(")
            return f"{short}t = {full}({given[:cut]})\ny = t({given[cut + 2 :]})\ny\nt.inv(y)"
    if module == "weft.optim.lr_scheduler" and (given := rows(SCHEDULES).get(name)):
        lines = [
            "optimizer = weft.optim.SGD([weft.zeros(1, requires_grad=True)], lr=0.5, momentum=0.5)",
            f"schedule = {full}({given})", "rates = []", "for _ in range(5):",
            "    rates += schedule.get_last_lr()", "    optimizer.step()", "    schedule.step()",
            "[round(rate, 4) for rate in rates]",
        ]  # fmt: skip
        return "\n".join(lines)
    if module == "weft.nn.init" and (rest := FILLED.get(name.removesuffix("_"))) is not None:
        shape = "2, 2, 3" if name.startswith("dirac") else "2, 3"
        return f"{full.removesuffix('_')}_(weft.empty({shape}){rest})"
    if module == "weft.optim" and name in OPTIMIZERS:
        lines = [
            "w = weft.tensor([1.0, -2.0], requires_grad=True)",
            f"optimizer = {full}([w], {OPTIMIZERS[name]})",
            "for _ in range(10):", "    optimizer.zero_grad()", "    w.square().sum().backward()",
            "    optimizer.step()", "w.detach()",
        ]  # fmt: skip
        return "\n".join(lines)
    if module == "weft" and name in LAYERS:
        state = "(h, h)" if name == "lstm" else "h"
        kind = LAYERS[name]
        found = RECURRENT.format(kind=kind, name=name, state=state).strip()
        return found.replace(
            "batch_first=True)", "nonlinearity='relu', batch_first=True)", name == "rnn_relu"
        )
    return ""


def shown(module: str, name: str) -> str:
    """The example at Python's prompt, with what it prints; empty where there is none."""
    code = written(module, name)
    if not code:
        return ""
    file = f"<example of {module}.{name}>"
    linecache.cache[file] = (len(code), None, code.splitlines(keepends=True), file)
    space: dict[str, object] = {"weft": weft, "__name__": "__main__"}
    lines: list[str] = []
    weft.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for statement in ast.parse(code).body:
            first = min(
                [statement.lineno, *(each.lineno for each in getattr(statement, "decorator_list", []))]
            )
            text = code.splitlines()[first - 1 : statement.end_lineno]
            lines += [f">>> {text[0]}", *(f"... {line}" for line in text[1:])]
            lines += ["..."] * (len(text) > 1)
            said = io.StringIO()
            with contextlib.redirect_stdout(said):
                tree = ast.Interactive([statement])
                exec(compile(tree, file, "single"), space)
            lines += said.getvalue().splitlines()
    return "\n".join(lines)
