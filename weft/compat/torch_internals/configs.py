"""Settings under the names that PyTorch's tests patch: `config.patch(recompile_limit=1)`.

Takes names and values; a few stand for settings of Weft's, the rest are kept and change nothing. One idea: an
object that plays a module, whose `patch` is a decorator and a context manager.
"""

from __future__ import annotations

import contextlib
import copy
import functools
from collections.abc import Callable
from types import ModuleType
from typing import Any

from weft.capture.runtime import CompilerError
from weft.core import logs
from weft.core.settings import settings


class RecompileError(CompilerError):
    """Something is compiled again while `error_on_recompile` is set."""


def _on_miss(event: str, *facts: Any) -> None:
    if event == "miss":
        code, reasons = facts
        raise RecompileError(
            f"Recompiling function {code.co_name} in {code.co_filename}:{code.co_firstlineno}\n"
            "    triggered by the following guard failure(s):\n    - " + "\n    - ".join(reasons)
        )


def _refuse_recompiling(wanted: bool) -> None:
    """Whether compiling again is an error from now on."""
    while _on_miss in logs.observers:
        logs.observers.remove(_on_miss)
    if wanted:
        logs.observers.append(_on_miss)


class Patch(contextlib.ContextDecorator):
    """Values for a while: a context manager, and a decorator of functions and of test classes."""

    def __init__(self, config: Config, values: dict[str, Any]) -> None:
        self.config, self.values = config, values
        self.before: list[dict[str, Any]] = []

    def __enter__(self) -> None:
        self.before.append({name: getattr(self.config, name) for name in self.values})
        for name, value in self.values.items():
            setattr(self.config, name, value)

    def __exit__(self, *_error: Any) -> None:
        for name, value in self.before.pop().items():
            setattr(self.config, name, value)

    def __call__(self, target: Any) -> Any:
        if not isinstance(target, type):
            return super().__call__(target)
        own = target.__dict__.get("setUpClass")
        end = target.__dict__.get("tearDownClass")
        patch = self
        parent: Any = target.__mro__[1]

        def setUpClass(cls: Any) -> None:
            patch.__enter__()
            (own or parent.setUpClass).__func__(cls)

        def tearDownClass(cls: Any) -> None:
            try:
                (end or parent.tearDownClass).__func__(cls)
            finally:
                patch.__exit__()

        changed: Any = target
        changed.setUpClass, changed.tearDownClass = classmethod(setUpClass), classmethod(tearDownClass)
        return target


class Config(ModuleType):
    """One module of settings."""

    def __init__(self, name: str, ours: dict[str, str], **defaults: Any) -> None:
        super().__init__(name, "Settings that tests patch.")
        object.__setattr__(self, "_ours", ours)
        object.__setattr__(self, "_deleted", set())
        object.__setattr__(self, "_defaults", copy.deepcopy(defaults))
        self.__dict__.update(defaults)

    def __getattr__(self, name: str) -> Any:
        ours = self.__dict__.get("_ours", {})
        if name in ours and name not in self._deleted:
            return getattr(settings, ours[name])
        raise AttributeError(f"{self.__name__}.{name} does not exist")

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "error_on_recompile":
            _refuse_recompiling(bool(value))
        if name in self._ours:
            self._deleted.discard(name)
            setattr(settings, self._ours[name], value)
        elif name in self._defaults or name.startswith("__"):
            self.__dict__[name] = value
        else:
            raise AttributeError(f"{self.__name__}.{name} does not exist")

    def __delattr__(self, name: str) -> None:
        """`unittest.mock` deletes what it patched, and sets it again where it is missing then."""
        if name in self._ours:
            self._deleted.add(name)
        else:
            super().__delattr__(name)

    def patch(self, *args: Any, **values: Any) -> Patch:
        """`patch(name=value)`, `patch("name", value)` or `patch({"name": value})`."""
        if len(args) == 2:
            values = {args[0]: args[1]}
        elif args and isinstance(args[0], dict):
            values = args[0]
        for name in values:
            getattr(self, name)  # raises where there is no such setting
        return Patch(self, values)

    def _make_closure_patcher(self, **values: Any) -> Callable[[], Any]:
        return functools.partial(self.patch, **values)

    def save_config(self) -> dict[str, Any]:
        """All values."""
        return {name: getattr(self, name) for name in (*self._ours, *self._defaults)}

    get_config_copy = shallow_copy_dict = save_config

    def load_config(self, values: dict[str, Any]) -> None:
        """Sets values that `save_config` gave."""
        for name, value in values.items():
            setattr(self, name, value)


dynamo = Config(
    "torch._dynamo.config",
    {
        "recompile_limit": "recompile_limit", "cache_size_limit": "recompile_limit",
        "compiled_autograd": "compiled_autograd",
    },
    TYPE_CHECKING=False, accumulated_cache_size_limit=256, accumulated_recompile_limit=256,
    allow_empty_graphs=False, allow_ignore_mark_dynamic=False, allow_rnn=False,
    allow_unspec_int_on_nn_module=False, assume_dunder_attributes_remain_unchanged=True,
    assume_static_by_default=True, automatic_dynamic_exclusion_guard=False, automatic_dynamic_local_pgo=True,
    automatic_dynamic_remote_pgo=None, automatic_dynamic_shapes=True,
    automatic_dynamic_shapes_mark_as="dynamic", base_dir="", caching_precompile=False,
    capture_autograd_function=True, capture_dynamic_output_shape_ops=False, capture_func_transforms=True,
    capture_profiler_record_function=False, capture_scalar_outputs=False, capture_sparse_compute=True,
    constant_fold_autograd_profiler_enabled=False, cprofile=False,
    cudagraph_backend_keep_input_mutation=False, cudagraph_backend_support_input_mutation=False,
    dead_code_elimination=True, debug_backend_override="", debug_dir_root="",
    debug_disable_compile_counter=False, debug_dynamo_config_override="",
    debug_force_graph_break_on_leaf_return=False, debug_force_nested_calls=False,
    debug_inductor_config_override="", disable=False, do_not_emit_runtime_asserts=False,
    dont_skip_tracing=False, dynamic_shapes=True, dynamo_profiler=False, enable_aot_compile=True,
    enable_compiler_collectives=False, enable_cpp_framelocals_guard_eval=True, enable_cpp_guard_manager=True,
    enable_cpp_symbolic_shape_guards=False, enable_dynamo_decompositions=True,
    enable_faithful_generator_behavior=True, enable_invoke_subgraph_regional_compile=False,
    enable_p2p_compilation=False, enable_trace_contextlib=True, enable_trace_load_build_class=False,
    enable_trace_unittest=False, error_on_dynamo_callback_in_fullgraph_compiled_code=False,
    error_on_nested_fx_trace=True, error_on_nested_jit_trace=True, error_on_recompile=False,
    fail_on_cache_limit_hit=False, fail_on_recompile_limit_hit=False,
    fake_tensor_cache_crosscheck_enabled=False, fake_tensor_cache_enabled=True,
    fake_tensor_disable_inference_mode=True, force_compile_during_fx_trace=False,
    force_nn_module_property_static_shapes=True, force_parameter_static_shapes=True,
    force_unspec_int_unbacked_size_like_on_torchrec_kjt=False, generate_pycode=False,
    graph_break_on_nn_param_ctor=True, graph_deduplication_lint=False, guard_nn_modules=True,
    guard_nn_modules_using_dict_tags=True, inject_BUILD_SET_unimplemented_TESTING_ONLY=False,
    inline_inbuilt_nn_modules=True, inline_invoke_subgraph=False, inline_single_use_invoke_subgraph=True,
    inline_torch_dispatch_torch_compile=True, install_free_tensors=False,
    install_free_tensors_for_export=True, invalidate_compile_context_weakrefs=None, issue_3_13_0_warning=True,
    leaf_function_check_escaped_gradients=False, leaf_function_validate_outputs=False,
    log_compilation_metrics=True, log_file_name=None, log_graph_in_out_metadata=False,
    max_saved_pointers_for_recursive_dict_tags_check=256, minimum_call_count=1, nested_graph_breaks=False,
    numpy_default_complex="complex128", numpy_default_float="float64", numpy_default_int="int64",
    only_allow_pt2_compliant_ops=False, optimize_ddp=True, optimize_ddp_lazy_compile=False,
    prefer_deferred_runtime_asserts_over_guards=False, prepare_freezing=False, print_graph_breaks=False,
    pt2_compile_id_prefix=None, raise_on_ctx_manager_usage=True, raise_on_unsafe_aot_autograd=False,
    record_compile_time_instruction_count=False, record_runtime_overhead=True, replay_record_enabled=False,
    replay_side_effects=True, report_guard_failures=True, repro_after=None, repro_forward_only=False,
    repro_ignore_non_fp=False, repro_level=2, repro_tolerance=0.001, rewrite_assert_with_torch_assert=True,
    run_gc_after_compile=True, same_two_models_use_fp64=True, side_effect_replay_policy="info",
    skip_code_recursive_on_cache_limit_hit=True, skip_code_recursive_on_recompile_limit_hit=True,
    skip_fsdp_guards=True, skip_fsdp_hooks=True, skip_fwd_side_effects_in_bwd_under_checkpoint=False,
    skip_guards_on_constant_func_defaults=False, skip_nnmodule_hook_guards=True,
    skip_no_tensor_aliasing_guards_on_parameters=True, skip_tensor_guards_with_matching_dict_tags=True,
    skip_torchrec=True, specialize_float=False, specialize_int=False, strict_precompile=False,
    suppress_errors=False, trace_autograd_ops=False, trace_numpy=True, traceable_tensor_subclasses=set(),
    track_nodes_for_deduplication=False, use_graph_deduplication=False,
    use_lamba_guard_for_object_aliasing=True, use_lazy_graph_module=True, use_numpy_random_stream=False,
    use_recursive_dict_tags_for_guards=True, verbose=False, verify_correctness=False, wrap_top_frame=False,
)  # fmt: skip
inductor = Config(
    "torch._inductor.config",
    {},
    TYPE_CHECKING=False, add_pre_grad_passes=None, aggressive_fusion=False, align_random_eager=False,
    alignment_asserts=True, allow_buffer_reuse=True, always_keep_tensor_constants=False,
    annotate_training=False, apply_gumbel_max_trick=True, assert_indirect_indexing=True,
    assume_32bit_indexing=False, assume_aligned_inputs=False, assume_unaligned_fallback_output=False,
    autoheuristic_log_path="DEFAULT", autotune_fallback_to_aten=False, autotune_in_subproc=False,
    autotune_local_cache=True, autotune_multi_device=False, autotune_num_choices_displayed=10,
    autotune_remote_cache=None, b2b_gemm_pass=False, batch_fusion=True, batch_invariant=False,
    benchmark_combo_kernel=False, benchmark_epilogue_fusion=True, benchmark_fusion=False,
    benchmark_harness=True, benchmark_kernel=False, bucket_all_gathers_bucket_mode="default",
    bucket_all_gathers_fx="none", bucket_all_gathers_fx_bucket_size_determinator=None,
    bucket_all_reduces_fx="none", bucket_all_reduces_fx_bucket_size_determinator=None,
    bucket_reduce_scatters_bucket_mode="default", bucket_reduce_scatters_fx="none",
    bucket_reduce_scatters_fx_bucket_size_determinator=None, bundle_triton_into_fx_graph_cache=True,
    bundled_autotune_remote_cache=None, bw_outputs_user_visible=True, cache_sdpa_constraint=False,
    can_inplace_pad_graph_input=False, check_stack_no_cycles_TESTING_ONLY=False,
    collective_benchmark_nruns=50, collective_benchmark_timeout=30.0, combo_kernel_allow_mixed_sizes=1,
    combo_kernel_autotune_grouping=True, combo_kernel_foreach_dynamic_shapes=True,
    combo_kernel_max_distance=-1, combo_kernel_max_num_args=250, combo_kernel_max_num_nodes=8,
    combo_kernel_peak_memory_increase_gb=None, combo_kernel_peak_memory_pct_threshold=0.05,
    combo_kernel_per_subkernel_blocks=False, combo_kernels=False, combo_kernels_autotune=1,
    combo_kernels_pointwise_only=False, comment_origin=False, compile_threads=2,
    compile_worker_wait_timeout=0, comprehensive_padding=True, compute_all_bounds=False,
    constant_and_index_propagation=True, conv_1x1_as_mm=False, coordinate_descent_check_all_directions=False,
    coordinate_descent_search_radius=1, coordinate_descent_tuning=False, cpp=None,
    cpp_cache_precompile_headers=True, cpp_wrapper=False, cpp_wrapper_build_separate=False, cpu_backend="cpp",
    cpu_gpu_bw=50.0, cuda_backend="triton", cudagraph_policy=None, custom_partitioner_fn=None,
    cutedsl_enable_autotuning=False, dce=False, debug=False, debug_fusion=False, debug_index_asserts=False,
    debug_ir_traceback=False, decompose_mem_bound_mm=False, dedup_reduce_scatters=False,
    delay_realize_cheap_outputs=True, deterministic=False, developer_warnings=False,
    disable_cpp_codegen=False, disable_padding_cpu=True, disable_progress=True, disabled_passes="",
    distributed_max_autotune_gemm=False, do_not_emit_runtime_assertions=False, dynamic_scale_rblock=True,
    efficient_conv_bn_eval_fx_passes=False, emulate_precision_casts=False,
    emulate_precision_casts_on_saved_tensors=True, enable_auto_functionalized_v2=True,
    enable_autograd_for_aot=False, enable_caching_generated_triton_templates=True,
    enable_linear_binary_folding=False, enabled_metric_tables="", epilogue_fusion=True,
    epilogue_fusion_first=False, epilogue_fusion_user_defined_triton_kernel=False,
    epilogue_fusion_with_atomic_add=False, estimate_op_runtime="default",
    expand_dimension_for_pointwise_nodes=False, fallback_by_default=False,
    fallback_embedding_bag_byte_unpack=False, fallback_random=False, file_lock_timeout=600,
    force_disable_caches=False, force_disable_cudagraph_TESTING_ONLY=False, force_fuse_int_mm_with_mul=False,
    force_layout_optimization=False, force_pointwise_cat=False, force_shape_pad=False, freezing=False,
    freezing_discard_parameters=False, fx_graph_cache=True, fx_graph_remote_cache=None, fx_wrapper=False,
    generate_intermediate_hooks=False, global_cache_dir=None, graph_partition=True, group_fusion=False,
    implicit_fallbacks=True, incremental_autotune=False, inductor_choices_class=None,
    inductor_default_autotune_rep=100, inductor_default_autotune_warmup=25, inplace_buffers=True,
    inplace_padding=True, inter_node_bw=None, intra_node_bw=None, is_nightly_or_source=False,
    is_predispatch=False, joint_custom_post_pass=None, joint_custom_pre_pass=None,
    joint_graph_constant_folding=True, keep_addmm_fused_for_half_dtypes=True, keep_output_stride=True,
    keep_static_cubin_raw=False, kernel_name_max_ops=10, layout_opt_default="1", layout_optimization=True,
    log_tlparse=False, loop_index_inversion_in_fusion=True, loop_ordering_after_fusion=True,
    loop_reindexing_after_fusion=True, max_autotune=False, max_autotune_allow_flexible_layouts=False,
    max_autotune_conv_backends="ATEN,TRITON", max_autotune_conv_bwd_input_backends="ATEN",
    max_autotune_conv_bwd_weight_backends="ATEN", max_autotune_flex_search_space="DEFAULT",
    max_autotune_gemm=False, max_autotune_gemm_backends="ATEN,TRITON,CPP",
    max_autotune_gemm_search_space="DEFAULT", max_autotune_pointwise=False,
    max_autotune_prune_choices_based_on_shared_mem=False, max_autotune_report_choices_stats=True,
    max_autotune_subproc_graceful_timeout_seconds=0.0, max_autotune_subproc_result_timeout_seconds=60.0,
    max_autotune_subproc_terminate_timeout_seconds=0.0, max_complex_pointwise_cat_inputs=8,
    max_epilogue_benchmarked_choices=1, max_fusion_buffer_group_pairwise_attempts=64, max_fusion_size=64,
    max_fusion_unique_io_buffers=None, max_pointwise_cat_inputs=8, memory_planning=False,
    memory_pool="intermediates", min_num_split=0, min_overlap_ratio=1.1, mixed_mm_choice="heuristic",
    nan_asserts=False, non_blocking_remote_cache_write=True, nvgemm_max_profiling_configs=5,
    nvgemm_supplement_configs=False, online_softmax=True, optimize_scatter_upon_const_tensor=True,
    pad_channels_last=False, pad_dynamic_shapes=False, pad_outputs=False, padding_alignment_bytes=128,
    padding_stride_threshold=1024, partitioned_scatter_enabled=False, partitioned_scatter_max_partitions=128,
    partitioned_scatter_memory_budget=0.1, partitioned_scatter_min_partitions=2, pattern_matcher=True,
    permute_fusion=False, pick_loop_orders=True, pipeline_max_autotune_gemm=False,
    post_grad_custom_post_pass=None, post_grad_custom_pre_pass=None, pre_grad_custom_pass=None,
    pre_grad_pass_timing="default", precompilation_timeout_seconds=300, profile_bandwidth=False,
    profile_bandwidth_output=None, profile_bandwidth_regex="",
    profile_bandwidth_with_do_bench_using_profiling=False, profiler_mark_wrapper_call=False,
    prologue_fusion=True, quiesce_async_compile_pool=True, quiesce_async_compile_time=60,
    realize_acc_reads_size_threshold=None, realize_acc_reads_threshold=None,
    realize_cpu_acc_reads_threshold=12, realize_cpu_opcount_threshold=50, realize_opcount_threshold=None,
    realize_reads_threshold=4, remote_gemm_autotune_cache=False, remove_pre_grad_passes=None,
    reorder_for_compute_comm_overlap=False, reorder_for_locality=True, reorder_for_peak_memory=True,
    reorder_for_peak_memory_debug=False, reorder_prefetch_limit=None, run_jit_post_compile_hook=False,
    runtime_estimations_mms_benchmark=False, runtime_triton_nan_asserts=False, save_args=False,
    scalar_asserts=True, score_fusion_memory_threshold=10, search_autotune_cache=False,
    selective_decompose=False, shape_padding=True, size_asserts=True,
    size_threshold_for_succ_based_strategy=0, sleep_sec_TESTING_ONLY=None,
    small_memory_access_threshold=16777216, split_cat_fx_passes=True, split_reductions=True,
    static_launch_user_defined_triton_kernels=False, static_weight_shapes=True,
    strict_static_cuda_launcher=False, strict_static_triton_launcher=False, torchinductor_worker_logpath="",
    tpu_backend="pallas", trace=None, triton=None, triton_disable_device_detection=False,
    triton_kernel_default_layout_constraint="needs_fixed_stride_order", unbacked_symint_fallback=8192,
    unroll_reductions_threshold=8, unsafe_ignore_unsupported_triton_autotune_args=False,
    unsafe_skip_cache_dynamic_shape_guards=False, use_dce=True, use_experimental_benchmarker=True,
    use_fast_math=False, use_fast_triton_launcher=True, use_joint_graph_passes=True,
    use_launch_metadata_schema=True, use_mixed_mm=True, use_post_grad_passes=True, use_pre_grad_passes=True,
    use_static_cuda_launcher=True, use_static_triton_launcher=True, use_torch_profiler_benchmarker=False,
    verbose_progress=False, warn_mix_layout=False, worker_log_path=None, worker_start_method="subprocess",
    worker_suppress_logging=True, wrap_inductor_compiled_regions=False,
    write_are_deterministic_algorithms_enabled=True, xpu_backend="triton",
)  # fmt: skip
functorch = Config(
    "torch._functorch.config",
    {},
    TYPE_CHECKING=False, activation_memory_budget=1.0, activation_memory_budget_runtime_estimator="flops",
    activation_memory_budget_solver="dp", activation_offload_cpu_gpu_bw=50.0,
    activation_offload_separate_stream=False, activation_offload_sink_wait=False,
    activation_reload_prefetch=False, aggressive_recomputation=False,
    autograd_cache_allow_custom_autograd_functions=False, autograd_cache_normalize_inputs=True,
    backward_pass_autocast="same_as_forward", ban_recompute_long_fusible_chains=True,
    ban_recompute_materialized_backward=True, ban_recompute_not_in_allowlist=True,
    ban_recompute_reductions=True, ban_recompute_used_far_apart=True, bundled_autograd_cache=False,
    bypass_autograd_cache_key=False, check_custom_op_aliasing=True, cse=True,
    custom_op_default_layout_constraint="needs_exact_strides", debug_assert=False, debug_partitioner=False,
    decompose_custom_triton_ops=True, disable_guess_zero_tangent_for_mutated_input_subclass=False,
    donated_buffer=False, enable_activation_offloading=False, enable_autograd_cache=True,
    enable_complex_wrapper=False, enable_remote_autograd_cache=None, error_on_custom_op_aliasing=False,
    fake_tensor_allow_meta=True, fake_tensor_allow_unsafe_data_ptr_access=True, fake_tensor_crossref=False,
    fake_tensor_prefer_device_type=None, fake_tensor_propagate_real_tensors=False, force_autograd_cache=False,
    force_non_lazy_backward_lowering=False, functionalize_rng_ops=False,
    generate_fake_kernels_from_real_mismatches=False, graphsafe_rng_functionalization=True,
    guess_tangent_strides_as_outputs=False, is_non_builtin_to_include=False, joint_custom_pass=None,
    max_dist_from_bw=1000, memory_budget_pareto_dir=None, recompute_views=False,
    remat_using_tags_for_fwd_loss_bwd_graph=True, saved_tensors_hooks_filtering_mode="donated",
    selective_decompose=False, static_weight_shapes=True, strict_autograd_cache=False,
    torch_compile_graph_format="svg", treat_parameters_as_free_to_save=True, unlift_effect_tokens=False,
    unsafe_allow_optimization_of_collectives=False, unsafe_treat_script_objects_as_zero_size=False,
    view_replay_for_aliased_outputs=True, visualize_memory_budget_pareto=False,
)  # fmt: skip
compiler = Config(
    "torch.compiler.config",
    {"recompile_limit": "recompile_limit"},
    accumulated_recompile_limit=256, job_id=None, verbose=False, force_disable_caches=False,
    dynamic_sources="", unbacked_sources="", cache_key_tag="",
)  # fmt: skip
