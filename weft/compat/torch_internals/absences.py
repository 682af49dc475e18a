"""The names of PyTorch's inner parts that its test files import, and that Weft has nothing behind.

By path, in one text each. They are placeholders (`absent.py`), so that a file of a hundred tests can be
imported though three of them look into PyTorch's compiler. What programs use is not listed here: a name that
Weft lacks is an ImportError there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

EMPTY: Final = """
    functorch.experimental._cond functorch._src functorch._src.config
    torch._functorch._aot_autograd.utils torch._functorch.predispatch torch._C._dynamo.eval_frame
    torch._dispatch torch._library torch._library.triton torch._vmap_internals
    torch._export torch._export.utils torch.export._trace torch.ao torch.utils._sympy torch.utils._stats
    torch.utils._content_store torch.fx.experimental._config torch.fx.passes.infra
    torch._higher_order_ops.utils torch._higher_order_ops.schema torch._higher_order_ops.triton_kernel_wrap
    torch._higher_order_ops.effects torch._dynamo.variables.iter torch._dynamo.variables.higher_order_ops
    torch._dynamo.variables.misc torch._dynamo.variables.user_defined torch._dynamo.bytecode_analysis
    torch._dynamo.functional_export torch._dynamo.polyfills torch._dynamo.resume_execution
    torch._dynamo.profiler torch._dynamo.logging torch._dynamo.repro torch._dynamo.repro.after_aot
    torch._dynamo.aot_compile torch._dynamo.pgo torch._dynamo.backends.tvm torch._dynamo.backends.cudagraphs
    torch._inductor.virtualized torch._inductor.cpu_vec_isa torch._inductor.scheduler
    torch._inductor.pattern_matcher torch.testing._internal.hop_db
    torch.testing._internal.autograd_function_db torch.testing._internal.custom_op_db
    torch.testing._internal.custom_tensor torch.testing._internal.composite_compliance
    torch.testing._internal.common_distributed torch.testing._internal.distributed
    torch.testing._internal.distributed.fake_pg torch.testing._internal.py312_intrinsics
"""
"""Modules that are imported whole: no name in them is asked for as such."""
ABSENT: Final[Mapping[str, str]] = {
    "functorch.compile": "get_aot_compilation_context draw_graph",
    "torch._functorch.aot_autograd": "aot_export_module aot_export_joint_simple make_boxed_func",
    "torch._functorch.utils": "enable_single_level_autograd_function",
    "torch._functorch.partitioners": "min_cut_rematerialization_partition",
    "torch._functorch.compilers": "aot_module",
    "torch._ops": "OpOverloadPacket",
    "torch._subclasses": "FakeTensorMode UnsupportedFakeTensorException DynamicOutputShapeException",
    "torch._subclasses.fake_tensor": "FakeTensorMode FakeTensor DataDependentOutputException "
    "DynamicOutputShapeException UnsupportedOperatorException FakeTensorConfig extract_tensor_metadata",
    "torch._subclasses.functional_tensor": "FunctionalTensor FunctionalTensorMode",
    "torch._subclasses.meta_utils": "MetaConverter",
    "torch._C": "_ExcludeDispatchKeyGuard _IncludeDispatchKeyGuard DispatchKey DispatchKeySet parse_ir "
    "_jit_pass_create_autodiff_subgraphs _len_torch_function_stack _dynamo _profiler "
    "_AutoDispatchBelowAutograd _get_dispatch_mode TensorType _len_torch_dispatch_stack",
    "torch._C._dynamo": "guards",
    "torch._C._dynamo.guards": "GuardManager RootGuardManager",
    "torch._dispatch.python": "enable_python_dispatcher",
    "torch._guards": "tracing TracingContext CompileId CompileContext detect_fake_mode",
    "torch._library.opaque_object": "register_opaque_type make_opaque",
    "torch._logging._internal": "trace_log LazyTraceHandler structured_logging_overhead",
    "torch._opaque_base": "OpaqueBase",
    "torch.export": "export Dim ExportedProgram",
    "torch.package": "PackageExporter PackageImporter",
    "torch.sparse": "SparseSemiStructuredTensor to_sparse_semi_structured",
    "torch.ao.quantization": "MinMaxObserver",
    "torch.ao.quantization.fake_quantize": "FakeQuantize",
    "torch.ao.quantization.qconfig": "QConfig",
    "torch.ao.quantization.quantize_fx": "prepare_qat_fx",
    "torch.utils._python_dispatch": "TorchDispatchMode BaseTorchDispatchMode return_and_correct_aliasing "
    "_disable_current_modes is_traceable_wrapper_subclass _get_current_dispatch_mode",
    "torch.utils._sympy.functions": "FloorDiv Mod",
    "torch.utils._mode_utils": "no_dispatch",
    "torch.utils.cpp_extension": "load_inline load CppExtension BuildExtension CUDA_HOME",
    "torch.utils.weak": "TensorWeakRef WeakIdRef WeakIdKeyDictionary WeakTensorKeyDictionary",
    "torch.nn.attention.flex_attention": "flex_attention create_block_mask BlockMask "
    "create_nested_block_mask",
    "torch.nn.attention.bias": "CausalBias CausalVariant causal_lower_right causal_upper_left",
    "torch.fx.experimental": "_config",
    "torch.fx.experimental.recording": "NotEqualError replay_shape_env_events ShapeEnvEvent",
    "torch.fx.experimental.sym_node": "method_to_operator magic_methods",
    "torch.fx.experimental.validator": "translation_validation_enabled",
    "torch.fx.experimental.proxy_tensor": "_ModuleStackTracer get_proxy_mode maybe_disable_thunkify "
    "maybe_enable_thunkify PythonKeyTracer ProxyTorchDispatchMode",
    "torch.fx.experimental.symbolic_shapes": "_constrain_range_for_size constrain_range constrain_unify "
    "ConstraintViolationError expect_true guard_or_false guard_or_true guard_size_oblivious ShapeEnv "
    "DimDynamic StatelessSymbolicContext StatefulSymbolicContext DimConstraints "
    "GuardOnDataDependentSymNode definitely_true statically_known_true has_free_symbols free_symbols "
    "is_symbolic sym_and sym_or",
    "torch.fx.graph": "CodeGen",
    "torch.fx.operator_schemas": "normalize_function",
    "torch.fx.passes.runtime_assert": "insert_deferred_runtime_asserts",
    "torch.fx.passes.fake_tensor_prop": "FakeTensorProp",
    "torch.fx.passes.graph_drawer": "FxGraphDrawer",
    "torch.fx.passes.infra.partitioner": "CapabilityBasedPartitioner",
    "torch.fx.passes.operator_support": "OperatorSupport",
    "torch._higher_order_ops": "invoke_subgraph associative_scan",
    "torch._higher_order_ops.wrap": "wrap_with_set_grad_enabled tag_activation_checkpoint "
    "dynamo_bypassing_wrapper",
    "torch._higher_order_ops.invoke_subgraph": "invoke_subgraph",
    "torch._higher_order_ops.associative_scan": "associative_scan",
    "torch._higher_order_ops.base_hop": "BaseHOP",
    "torch._higher_order_ops.hints_wrap": "hints_wrapper",
    "torch._higher_order_ops.out_dtype": "out_dtype",
    "torch._higher_order_ops.flex_attention": "flex_attention",
    "torch._dynamo": "export leaf_function replay skip",
    "torch._dynamo.testing": "extract_graph_and_tracker extract_graph_backend load_guards_from_bytes "
    "named_parameters_for_optimized_module named_buffers_for_optimized_module debug_dump debug_dir "
    "debug_insert_nops",
    "torch._dynamo.utils": "CompileTimeInstructionCounter dynamo_timed get_metrics_context "
    "CompilationMetrics "
    "detect_fake_mode import_submodule deepcopy_to_fake_tensor get_debug_dir fp64_floor compile_times "
    "CleanupHook hashable _get_fake_tensor get_chromium_event_logger nnmodule_has_hooks "
    "checkpoint_params timed get_traced_code lazy_format_graph_code to_subclass get_first_attr "
    "LazyString is_wrapper_or_member_descriptor cuda_synchronize get_fake_value torchscript "
    "RecentlyUsedDict ExactWeakKeyDictionary get_custom_getattr GLOBAL_KEY_PREFIX NP_SUPPORTED_MODULES",
    "torch._dynamo.exc": "unimplemented unimplemented_v2 ShortenTraceback CondOpArgsMismatchError "
    "StepUnsupported get_exc_message",
    "torch._dynamo.eval_frame": "TorchPatcher innermost_fn _debug_get_precompile_entries set_eval_frame "
    "DisableContext _is_in_optimized_module argument_names always_optimize_code_objects",
    "torch._dynamo.source": "ConstantSource GetItemSource LocalSource AttrSource GlobalSource Source",
    "torch._dynamo.variables": "ConstantVariable builder SkipFunctionVariable UserDefinedObjectVariable "
    "TorchInGraphFunctionVariable UserFunctionVariable TensorVariable ListVariable",
    "torch._dynamo.variables.lists": "RangeVariable",
    "torch._dynamo.variables.base": "VariableTracker",
    "torch._dynamo.variables.builder": "VariableBuilder",
    "torch._dynamo.variables.constant": "ConstantVariable",
    "torch._dynamo.variables.dicts": "ConstDictVariable",
    "torch._dynamo.variables.functions": "UserFunctionVariable",
    "torch._dynamo.variables.tensor": "TensorVariable",
    "torch._dynamo.variables.torch_function": "TensorWithTFOverrideVariable",
    "torch._dynamo.mutation_guard": "GenerationTracker",
    "torch._dynamo.bytecode_transformation": "Instruction transform_code_object create_instruction",
    "torch._dynamo.symbolic_convert": "SpeculationLog SpeculationLogDivergence InstructionTranslator",
    "torch._dynamo.side_effects": "SideEffects",
    "torch._dynamo.convert_frame": "register_bytecode_hook compile_frame ConvertFrameAssert",
    "torch._dynamo.guards": "CheckFunctionManager GuardedCode GuardBuilder CLOSURE_VARS",
    "torch._dynamo.trace_rules": "_as_posix_path is_aten_op_or_tensor_method lookup",
    "torch._dynamo.graph_bytecode_inputs": "reset_user_object_tracking",
    "torch._dynamo.package": "DynamoCache CompilePackage",
    "torch._dynamo.output_graph": "OutputGraph",
    "torch._dynamo.code_context": "code_context",
    "torch._dynamo.codegen": "PyCodegen",
    "torch._dynamo.graph_deduplication": "apply_graph_deduplication",
    "torch._dynamo.graph_utils": "_detect_cycles",
    "torch._dynamo._trace_wrapped_higher_order_op": "mod_index",
    "torch._dynamo.backends.registry": "CompiledFn",
    "torch._inductor.codecache": "WritableTempFile FxGraphCache PyCodeCache",
    "torch._inductor.utils": "run_and_get_code run_and_get_triton_code run_fw_bw_and_get_code "
    "run_and_get_cpp_code gen_gm_and_inputs",
    "torch._inductor.custom_graph_pass": "CustomGraphPass",
    "torch._inductor.compiler_bisector": "CompilerBisector",
    "torch.testing._internal.subclasses": "WrapperSubclass",
    "torch.testing._internal.common_quantization": "skipIfNoTorchVision",
    "torch.testing._internal.common_methods_invocations": "sample_inputs_take_along_dim wrapper_set_seed",
    "torch.autograd": "_calculate_shape",
    "torch.autograd.graph": "_engine_run_backward",
    "torch.autograd.profiler_util": "_format_time FunctionEvent FunctionEventAvg",
    "torch.testing._comparison": "assert_equal TensorLikePair BooleanPair UnsupportedInputs ObjectPair "
    "not_close_error_metas NumberPair NonePair ErrorMeta default_tolerances",
    "torch.utils.checkpoint": "get_device_states set_device_states",
    "torch.utils._device": "set_device",
    "torch.utils._foreach_utils": "_group_tensors_by_device_and_dtype",
    "torch.nn.utils._expanded_weights": "ExpandedWeight",
    "torch.nn.parallel._functions": "Broadcast",
    "torch.nn.functional": "ScalingType",
    "torch.optim": "SparseAdam",
    "torch.optim.optimizer": "_foreach_supported_types _get_foreach_kernels_supported_devices",
    "torch.multiprocessing.reductions": "StorageWeakRef reduce_tensor",
    "torch._prims_common": "corresponding_real_dtype",
    "torch._utils_internal": "get_file_path_2",
    "torch._utils": "_rebuild_tensor",
    "torch.storage": "_StorageBase",
    "torch.func": "functionalize",
    "torch.serialization": "safe_globals add_safe_globals",
    "torch.library": "triton_op",
    "torch.masked": "masked_tensor",
    "torch._functorch.autograd_function": "custom_function_call",
    **dict.fromkeys(EMPTY.split(), ""),
}
