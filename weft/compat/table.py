"""The table: which Weft module stands behind which path of PyTorch's.

Takes nothing; gives, for a dotted path under `torch`, a `Place`. Three kinds: the same module object under
another name, an object that plays a module, or a gathering of names that PyTorch keeps together and Weft does
not. One idea: only names stand here; for modules that only PyTorch's own tests import the room
`torch_internals` has a table of its own. Where a path differs for printers too,
`weft.graph.names.TORCH_PATHS` says so, and is read from there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from weft.graph.names import TORCH_PATHS

INTERNAL: Final = frozenset(
    {"aot", "capture", "cli", "compat", "core", "data", "graph", "native", "report", "tensor", "trace"}
)
"""Packages under `weft` that are no part of PyTorch's namespace."""
TORCH_INTERNALS: Final = "weft.compat.torch_internals"
"""The room of what PyTorch's own test files need: loaded when a name that lies there is asked for."""
OF_TESTS: Final = ("torch.testing._internal", "torch._dynamo.test_case", "torch._inductor.test_case")
"""Modules that only PyTorch's own tests import, with all below them: the room has a table for these."""


@dataclass(frozen=True)
class Place:
    """What stands at a path: `same`, a module or `module:object`; else names gathered from `search` and
    `names` (name: `module:object`).
    """

    same: str = ""
    search: tuple[str, ...] = ()
    names: Mapping[str, str] = field(default_factory=dict)


def same(path: str) -> Place:
    return Place(same=path)


def gather(*search: str, **names: str) -> Place:
    return Place(search=search, names=names)


_EXCEPTIONS: Final = {
    name: where
    for where, names in {
        "weft.compiler:Unsupported": "Unsupported UserError UncapturedHigherOrderOpError",
        "weft.compiler:CompilerError": "TorchDynamoException TorchRuntimeError ResetRequired SkipFrame "
        "ObservedException ObservedKeyError ObservedAttributeError ObservedUserStopIteration RestartAnalysis "
        "SkipCodeRecursiveException PackageError ArgsMismatchError InfiniteGeneratorError",
        "weft.compiler:CaptureFailed": "InternalTorchDynamoError",
        "weft.compiler:BackendCompilerFailed": "BackendCompilerFailed",
        "weft.compiler:RecompileLimitExceeded": "RecompileLimitExceeded FailOnRecompileLimitHit",
        "weft.compiler:InvalidBackend": "InvalidBackend",
        f"{TORCH_INTERNALS}.configs:RecompileError": "RecompileError",
        f"{TORCH_INTERNALS}.dynamo_utils:UserErrorType": "UserErrorType",
    }.items()
    for name in names.split()
}
"""What PyTorch's exceptions are here, several the same."""
_COMPILING: Final = {
    name: f"{TORCH_INTERNALS}.compiling:{name}"
    for name in (
        "on_compile_start", "on_compile_end", "error_on_graph_break", "skip_frame", "substitute_in_graph",
        "dont_skip_tracing", "patch_dynamo_config",
    )
}  # fmt: skip
_MODULES_AS_FUNCTIONS: Final = f"{TORCH_INTERNALS}.functional_modules"

_DISTRIBUTIONS: Final = """
    bernoulli beta binomial categorical cauchy chi2 continuous_bernoulli dirichlet exp_family exponential
    fishersnedecor gamma generalized_pareto geometric gumbel half_cauchy half_normal independent inverse_gamma
    kumaraswamy laplace lkj_cholesky log_normal logistic_normal lowrank_multivariate_normal
    mixture_same_family multinomial multivariate_normal negative_binomial normal one_hot_categorical pareto
    poisson studentT transformed_distribution uniform von_mises weibull wishart
"""
_LIBRARIES: Final = ("cuda", "cudnn", "mkl", "mkldnn", "mps", "openmp", "opt_einsum", "quantized")
_QUANTIZATION: Final = ("fake_quantize", "observer", "qconfig")
_FUNCTIONAL: Final = ("", ".apis", ".functional_call", ".vmap")
_EMPTY: Final = """
    torch._utils torch._functorch.autograd_function torch._functorch._aot_autograd torch.fx.experimental
    torch.fx.passes torch._dynamo.backends torch._dynamo.symbolic_convert torch._dynamo.variables
"""
"""Paths where nothing is but what is asked for by name."""

MODULES: Final[Mapping[str, Place]] = {
    "torch": same("weft"),
    **dict.fromkeys(_EMPTY.split(), gather()),
    "torch.torch_version": same("weft.torch_version"),
    # -- the tensor library ---------------------------------------------------------------------------------
    "torch._C": gather(
        f"{TORCH_INTERNALS}.bindings",
        FileCheck=f"{TORCH_INTERNALS}.filecheck:FileCheck",
        _LinAlgError="weft.core.errors:LinAlgError",
        _TensorMeta="builtins:type",
        _log_api_usage_once="weft.backends:_log_api_usage_once",
        Generator="weft:Generator",
        Size="weft:Size",
    ),
    "torch._C._autograd": gather(f"{TORCH_INTERNALS}.engine"),
    "torch._C._functions": gather(
        AccumulateGrad=f"{TORCH_INTERNALS}.engine:AccumulateGrad",
        DelayedError=f"{TORCH_INTERNALS}.engine:DelayedError",
        UndefinedGrad=f"{TORCH_INTERNALS}.engine:UndefinedGrad",
    ),
    "torch._C._functorch": gather(f"{TORCH_INTERNALS}.bindings"),
    "torch._C._nn": gather("weft.nn.functional", _parse_to="weft.nn.modules.moving:_parse_to"),
    "torch._tensor": gather(Tensor="weft:Tensor"),
    "torch._ops": gather(
        OpOverload="weft.tensor.schema:Overload",
        OpOverloadPacket="weft.tensor.schema:OverloadPacket",
        HigherOrderOperator=f"{TORCH_INTERNALS}.operators:HigherOrderOperator",
        PyOperator=f"{TORCH_INTERNALS}.operators:PyOperator",
    ),
    "torch._prims_common": gather(f"{TORCH_INTERNALS}.numbers"),
    "torch._decomp": gather(f"{TORCH_INTERNALS}.outside"),
    "torch.onnx": gather(is_in_onnx_export=f"{TORCH_INTERNALS}.outside:is_in_onnx_export"),
    "torch.onnx.operators": gather(f"{TORCH_INTERNALS}.outside"),
    "torch.utils._triton": gather(f"{TORCH_INTERNALS}.outside"),
    "torch._refs": gather("weft"),
    "torch._lowrank": gather("weft"),
    "torch._higher_order_ops": gather(
        cond="weft:cond", while_loop="weft:while_loop", scan="weft:scan", map="weft:map"
    ),
    "torch._higher_order_ops.cond": gather(cond="weft:cond"),
    "torch._higher_order_ops.while_loop": gather(while_loop="weft:while_loop"),
    "torch._higher_order_ops.scan": gather(scan="weft:scan"),
    "torch._higher_order_ops.wrap": gather(wrap="weft.autograd.control_flow:wrap_call"),
    "torch._higher_order_ops.invoke_subgraph": gather(
        mark_compile_region="weft.compiler:nested_compile_region"
    ),
    "torch._higher_order_ops.map": gather(map="weft:map"),
    "torch._subclasses": gather(FakeTensor="weft:Tensor"),
    "torch.version": gather("weft.torch_version", __version__="weft.torch_version:__version__"),
    "torch.functional": gather("weft"),
    "torch.return_types": same("weft.ops.return_types"),
    **{f"torch.distributions.{name}": gather("weft.distributions") for name in _DISTRIBUTIONS.split()},
    "torch.distributions.relaxed_bernoulli": gather("weft.distributions.transformed"),
    "torch.distributions.relaxed_categorical": gather("weft.distributions.transformed"),
    "torch.storage": gather("weft.tensor.storage"),
    "torch.types": gather(f"{TORCH_INTERNALS}.numbers", Tensor="weft:Tensor"),
    "torch.autograd.anomaly_mode": same("weft.autograd.anomaly"),
    "torch.autograd.variable": gather(Variable="weft.autograd.variable:Variable"),
    "torch.autograd.profiler": same("weft.profiler"),
    "torch.autograd.profiler_util": gather("weft.profiler.events"),
    **{f"torch._functorch{part}": gather("weft.func") for part in _FUNCTIONAL},
    "torch._functorch.eager_transforms": gather(
        "weft.func", _slice_argnums=f"{TORCH_INTERNALS}.functional_modules:_slice_argnums"
    ),
    "torch._functorch.config": same(f"{TORCH_INTERNALS}.configs:functorch"),
    "torch._functorch.aot_autograd": gather(f"{TORCH_INTERNALS}.ahead", "weft.aot.backends"),
    "functorch.compile": gather(f"{TORCH_INTERNALS}.ahead", config=f"{TORCH_INTERNALS}.configs:functorch"),
    "torch._functorch._aot_autograd.autograd_cache": gather(
        AOTAutogradCache=f"{TORCH_INTERNALS}.ahead:AOTAutogradCache"
    ),
    "functorch": gather(
        "weft.compat.functorch_apis", "weft.func", _MODULES_AS_FUNCTIONS, make_fx="weft.trace.make_fx:make_fx"
    ),
    "functorch.experimental": gather(_MODULES_AS_FUNCTIONS),
    "functorch.experimental.control_flow": gather(cond="weft:cond", map="weft:map"),
    "torch._functorch.make_functional": gather(_MODULES_AS_FUNCTIONS),
    "torch._functorch.batch_norm_replacement": gather(_MODULES_AS_FUNCTIONS),
    "torch._vmap_internals": gather(vmap="weft.func:vmap", _vmap="weft.func:vmap"),
    "torch.nn.modules._functions": same("weft.nn.modules._functions"),
    "torch.nn.utils.stateless": gather(
        _functional_call="weft.func:functional_call", functional_call="weft.func:functional_call"
    ),
    "torch.utils.dlpack": gather(from_dlpack="weft:from_dlpack", to_dlpack="weft:to_dlpack"),
    "torch.serialization": gather(
        "weft.files.serialization", "weft.files", load="weft:load", save="weft:save"
    ),
    "torch.hub": same("weft.files.hub"),
    "torch.utils.model_zoo": gather(
        load_url="weft.files.hub:load_url", load_state_dict_from_url="weft.files.hub:load_url"
    ),
    "torch.futures": same("weft.utils.futures"),
    "torch.ao": gather(),
    **{
        f"torch.{path}": gather("weft.quantization")
        for path in (
            "quantization",
            "ao.quantization",
            *[f"ao.quantization.{name}" for name in _QUANTIZATION],
        )
    },
    "torch.__config__": gather(show="weft.backends:show", parallel_info="weft.backends:parallel_info"),
    "torch.nn.attention.flex_attention": same("weft.nn.flex_attention"),
    "torch.nn.parallel.distributed": gather("weft.nn.parallel"),
    "torch.nn.parallel.data_parallel": gather("weft.nn.parallel"),
    "torch.nn.parallel.parallel_apply": gather("weft.nn.parallel"),
    "torch.nn.parallel.replicate": gather("weft.nn.parallel"),
    "torch.nn.parallel.scatter_gather": gather("weft.nn.parallel"),
    "torch.distributed.device_mesh": gather(
        DeviceMesh="weft.distributed:DeviceMesh", init_device_mesh="weft.distributed:init_process_group"
    ),
    "torch.distributed.tensor": gather(DTensor="weft.distributed:DTensor"),
    "torch.distributed._tensor": gather(DTensor="weft.distributed:DTensor"),
    "torch.distributed.elastic": gather(),
    "torch.distributed.elastic.multiprocessing": gather(),
    "torch.distributed.elastic.multiprocessing.errors": gather(record="weft.distributed:record"),
    "torch.distributed.autograd": gather(
        is_available="weft.distributed:is_available", context="weft.distributed:ProcessGroup"
    ),
    "torch.distributed.rpc": gather(is_available="weft.distributed:is_available"),
    "torch.utils._foreach_utils": gather("weft.optim.grouping"),
    "torch.multiprocessing": gather("multiprocessing"),
    "torch.jit.frontend": gather("weft.jit.errors"),
    "torch.cuda.amp": same("weft.amp.cuda"),
    "torch.cuda.random": same("weft.cuda"),
    "torch.cpu.amp": same("weft.amp.cpu"),
    **{f"torch.backends.{name}": same(f"weft.backends:{name}") for name in _LIBRARIES},
    # -- graphs ---------------------------------------------------------------------------------------------
    "torch.fx.graph": gather("weft.graph.graph", "weft.fx"),
    "torch.fx.node": gather("weft.graph.node", "weft.fx"),
    "torch.fx.graph_module": gather("weft.trace.module", "weft.fx"),
    "torch.fx.interpreter": gather("weft.fx"),
    "torch.fx.proxy": gather("weft.fx"),
    "torch.fx._symbolic_trace": gather("weft.fx", is_fx_tracing=f"{TORCH_INTERNALS}.outside:is_fx_tracing"),
    "torch.fx.traceback": gather(f"{TORCH_INTERNALS}.outside"),
    "torch.fx.subgraph_rewriter": gather("weft.fx"),
    "torch.fx.immutable_collections": gather(immutable_list="builtins:list", immutable_dict="builtins:dict"),
    "torch.fx.experimental.proxy_tensor": gather(make_fx="weft.trace.make_fx:make_fx"),
    "torch.fx.experimental.symbolic_shapes": gather(f"{TORCH_INTERNALS}.numbers"),
    "torch.fx.passes.split_module": gather("weft.trace.splitting"),
    "torch.fx.passes.shape_prop": gather("weft.trace.shape_prop"),
    # -- the compiler ---------------------------------------------------------------------------------------
    "torch._dynamo": gather(
        "weft.compiler",
        OptimizedModule="weft.compiler:OptimizedModule",
        is_dynamo_supported=f"{TORCH_INTERNALS}.dynamo_utils:is_dynamo_supported",
        is_inductor_supported=f"{TORCH_INTERNALS}.dynamo_utils:is_inductor_supported",
        reset_code_caches="weft.compiler:reset",
        mark_static_address="weft.compiler:mark_static",
        forbid_in_graph="weft.compiler:disallow_in_graph",
        nonstrict_trace="weft.compiler:allow_in_graph",
        **_COMPILING,
    ),
    "torch._dynamo.testing": gather(
        "weft.testing",
        "weft.testing.backends",
        "weft.testing.programs",
        f"{TORCH_INTERNALS}.dynamo_testing",
        f"{TORCH_INTERNALS}.dynamo_utils",
        reset="weft.compiler:reset",
        optimize_assert="weft.compiler:optimize_assert",
    ),
    "torch._dynamo.utils": gather(
        f"{TORCH_INTERNALS}.dynamo_utils", counters="weft.core.counters:counters", same="weft.testing:same"
    ),
    "torch._dynamo.exc": Place(names=_EXCEPTIONS),
    "torch._dynamo.config": same(f"{TORCH_INTERNALS}.configs:dynamo"),
    "torch._dynamo.compiled_autograd": same("weft.aot.compiled_autograd"),
    "torch._dynamo._trace_wrapped_higher_order_op": gather(
        trace_wrapped="weft.autograd.trace_wrapped:trace_wrapped",
        TransformGetItemToIndex="weft.autograd.trace_wrapped:TransformGetItemToIndex",
    ),
    "torch._dynamo.external_utils": gather("weft.autograd.compiled_calls"),
    "torch._dynamo.eval_frame": gather(
        "weft.compiler",
        unsupported="weft.testing.programs:unsupported",
        _debug_get_cache_entry_list=f"{TORCH_INTERNALS}.compiling:_debug_get_cache_entry_list",
    ),
    "torch._dynamo.decorators": gather(
        "weft.compiler",
        mark_static_address="weft.compiler:mark_static",
        mark_unbacked="weft.compiler:mark_dynamic",
        **_COMPILING,
    ),
    "torch._dynamo.callback": gather(f"{TORCH_INTERNALS}.compiling"),
    "torch._dynamo.comptime": gather(comptime=f"{TORCH_INTERNALS}.compiling:comptime"),
    "torch._dynamo.debug_utils": gather(same_two_models="weft.testing:same"),
    "torch._dynamo.backends.common": gather(aot_autograd="weft.compiler:aot"),
    "torch._dynamo.backends.debugging": gather(
        "weft.testing.backends",
        f"{TORCH_INTERNALS}.dynamo_testing",
        ExplainWithBackend="weft.compiler:explain",
        aot_eager="weft.aot.backends:aot_eager",
    ),
    "torch._dynamo.backends.registry": gather("weft.compiler"),
    "torch._inductor": gather(compile="weft.compiler:native"),
    "torch._inductor.config": same(f"{TORCH_INTERNALS}.configs:inductor"),
    "torch._inductor.utils": gather(f"{TORCH_INTERNALS}.numbers", f"{TORCH_INTERNALS}.outside"),
    "torch._inductor.compile_fx": gather(
        compile_fx="weft.compiler:native", compile_fx_inner="weft.compiler:native"
    ),
    "torch._logging": gather(set_logs=f"{TORCH_INTERNALS}.log_records:set_logs_by_name"),
    "torch.testing._comparison": gather("weft.testing.comparison"),
}
"""Paths beyond the rule that `torch.a.b` is `weft.a.b`."""


def moved() -> dict[str, dict[str, str]]:
    """By path of PyTorch's, what the printers' table says lies there: name, `module:object`."""
    found: dict[str, dict[str, str]] = {}
    for ours, theirs in TORCH_PATHS.items():
        module, _, name = theirs.rpartition(".")
        home, _, own = ours.rpartition(".")
        if module in MODULES and home != "weft":
            found.setdefault(module, {})[name] = f"{home}:{own}"
    return found


EXTRA: Final[Mapping[str, Mapping[str, str]]] = {
    "torch": {
        "GradScaler": "weft.amp:GradScaler",
        "PyTorchFileReader": "weft.files.serialization:PyTorchFileReader",
        "SymInt": "weft.trace.scalars:SymInt",
        "SymFloat": "weft.trace.scalars:SymFloat",
        "SymBool": "weft.trace.scalars:SymBool",
        "Stream": "weft.cuda:Stream",
        "Event": "weft.cuda:Event",
        "sym_int": "builtins:int",
        "sym_float": "builtins:float",
        "sym_max": "builtins:max",
        "sym_min": "builtins:min",
        "sym_not": "operator:not_",
        "sym_sum": "builtins:sum",
    },
    "torch._C": {
        name: f"{TORCH_INTERNALS}.engine:{name}"
        for name in (
            "_WeakTensorRef",
            "_current_graph_task_execution_order",
            "_current_graph_task_id",
            "_will_engine_execute_node",
        )
    },  # fmt: skip
    "torch.overrides": {
        "has_torch_function_unary": f"{TORCH_INTERNALS}.bindings:has_torch_function_unary",
        "has_torch_function_variadic": f"{TORCH_INTERNALS}.bindings:has_torch_function_variadic",
    },
    "torch.linalg": {"LinAlgError": "weft.core.errors:LinAlgError"},
    "torch.testing": {"FileCheck": f"{TORCH_INTERNALS}.scripts:FileCheck"},
    "torch.compiler": {"config": f"{TORCH_INTERNALS}.configs:compiler"},
    "torch.autograd": {
        "Variable": "weft.autograd.variable:Variable",
        "SavedTensor": "weft.tensor.saved:SavedTensor",
    },
    "torch.utils": {"_pytree": "weft.utils._pytree"},
}
"""Names that PyTorch's module has beside those of the Weft module that stands for it."""

CLASSES: Final[Mapping[str, str]] = {
    "weft.tensor.base.Tensor": "torch",
    "weft.nn.parameter.Parameter": "torch.nn.parameter",
    "weft.autograd.function_context": "torch.autograd.function",
    "weft.tensor": "torch",
    "weft.core": "torch",
    "weft.capture.forms.OptimizedModule": "torch._dynamo.eval_frame",
    "weft.compiler.OptimizedModule": "torch._dynamo.eval_frame",
    "weft.capture.kinds": "torch._dynamo.exc",
    "weft.capture.runtime": "torch._dynamo.exc",
    "weft.trace.module": "torch.fx.graph_module",
    "weft.trace.proxy": "torch.fx.proxy",
    "weft.trace.fx": "torch.fx.interpreter",
    "weft.graph.graph": "torch.fx.graph",
    "weft.graph.node": "torch.fx.node",
    "weft.testing.cases": "torch.testing._internal.common_utils",
    f"{TORCH_INTERNALS}.common": "torch.testing._internal.common_utils",
    f"{TORCH_INTERNALS}.compiling": "torch._dynamo.callback",
    f"{TORCH_INTERNALS}.configs.RecompileError": "torch._dynamo.exc",
    f"{TORCH_INTERNALS}.devices": "torch.testing._internal.common_device_type",
    f"{TORCH_INTERNALS}.dynamo_testing": "torch._dynamo.testing",
    f"{TORCH_INTERNALS}.dynamo_utils": "torch._dynamo.utils",
    f"{TORCH_INTERNALS}.filecheck": "torch._C",
    f"{TORCH_INTERNALS}.logging_tensor": "torch.testing._internal.logging_tensor",
    f"{TORCH_INTERNALS}.layer_cases": "torch.testing._internal.common_nn",
    f"{TORCH_INTERNALS}.log_records": "torch.testing._internal.logging_utils",
    f"{TORCH_INTERNALS}.outside": "torch.testing._internal.dynamo_pytree_test_utils",
    f"{TORCH_INTERNALS}.scripts": "torch.testing._internal.jit_utils",
    f"{TORCH_INTERNALS}.two_tensor": "torch.testing._internal.two_tensor",
    "weft.autograd.hooks": "torch.utils.hooks",
    "weft.optim.schedule": "torch.optim.lr_scheduler",
    "weft.optim.cycles": "torch.optim.lr_scheduler",
    "weft.core.errors.LinAlgError": "torch._C:_LinAlgError",
    "weft.core.generator.Generator": "torch._C",
}
"""Where a class says that it lies (and, after a colon, what it is called), by its path or by that of its
module; others by the rule."""
