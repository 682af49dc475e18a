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

from weft.core.settings import settings


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

        target.setUpClass = classmethod(setUpClass)  # type: ignore[attr-defined]
        target.tearDownClass = classmethod(tearDownClass)  # type: ignore[attr-defined]
        return target


class Config(ModuleType):
    """One module of settings."""

    def __init__(self, name: str, ours: dict[str, str], **defaults: Any) -> None:
        super().__init__(name, "Settings that tests patch.")
        object.__setattr__(self, "_ours", ours)
        object.__setattr__(self, "_defaults", copy.deepcopy(defaults))
        self.__dict__.update(defaults)

    def __getattr__(self, name: str) -> Any:
        ours = self.__dict__.get("_ours", {})
        if name in ours:
            return getattr(settings, ours[name])
        raise AttributeError(f"{self.__name__}.{name} does not exist")

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self._ours:
            setattr(settings, self._ours[name], value)
        elif name in self._defaults or name.startswith("__"):
            self.__dict__[name] = value
        else:
            raise AttributeError(f"{self.__name__}.{name} does not exist")

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
    accumulated_recompile_limit=256, accumulated_cache_size_limit=256, allow_rnn=False,
    allow_unspec_int_on_nn_module=False, assume_static_by_default=True, automatic_dynamic_shapes=True,
    capture_dynamic_output_shape_ops=False, capture_func_transforms=True, capture_scalar_outputs=False,
    caching_precompile=False, debug_dir_root="", dead_code_elimination=True,
    do_not_emit_runtime_asserts=False,
    dont_skip_tracing=False, dynamic_shapes=True, enable_compiler_collectives=False,
    enable_faithful_generator_behavior=True, enable_trace_contextlib=True, enable_trace_unittest=False,
    error_on_nested_fx_trace=True, error_on_nested_jit_trace=True, error_on_recompile=False,
    fail_on_cache_limit_hit=False, fail_on_recompile_limit_hit=False, fake_tensor_cache_enabled=True,
    force_nn_module_property_static_shapes=True, force_parameter_static_shapes=True,
    force_unspec_int_unbacked_size_like_on_torchrec_kjt=False, graph_break_on_nn_param_ctor=True,
    guard_nn_modules=True, inline_inbuilt_nn_modules=True, install_free_tensors=False,
    inline_torch_dispatch_torch_compile=True, minimum_call_count=1, nested_graph_breaks=False,
    numpy_default_complex="complex128", numpy_default_float="float64", numpy_default_int="int64",
    optimize_ddp=True, prefer_deferred_runtime_asserts_over_guards=False, print_graph_breaks=False,
    raise_on_ctx_manager_usage=True, raise_on_unsafe_aot_autograd=False, record_runtime_overhead=True,
    replay_record_enabled=False, repro_after=None, report_guard_failures=True, skip_fsdp_hooks=True,
    skip_nnmodule_hook_guards=True, specialize_float=False, specialize_int=False, strict_precompile=False,
    suppress_errors=False, trace_numpy=True, traceable_tensor_subclasses=set(), use_graph_deduplication=False,
    use_numpy_random_stream=False, use_recursive_dict_tags_for_guards=True, verbose=False,
    verify_correctness=False,
    wrap_top_frame=False, track_nodes_for_deduplication=False, allow_ignore_mark_dynamic=False,
)  # fmt: skip
inductor = Config(
    "torch._inductor.config",
    {},
    allow_buffer_reuse=True, benchmark_kernel=False, cpp_wrapper=False, debug=False, dce=False,
    emulate_precision_casts=False, fallback_random=False, force_disable_caches=False,
    force_fuse_int_mm_with_mul=False,
    freezing=False, fx_graph_cache=True, implicit_fallbacks=True, keep_output_stride=True, max_autotune=False,
    max_autotune_gemm=False, pattern_matcher=True, size_asserts=True, split_reductions=True,
    triton=None, cpp=None, trace=None,
)  # fmt: skip
functorch = Config(
    "torch._functorch.config",
    {},
    activation_memory_budget=1.0, ban_recompute_used_far_apart=True, cse=True, debug_assert=False,
    debug_partitioner=False, donated_buffer=False, enable_autograd_cache=True, fake_tensor_allow_meta=True,
    functionalize_rng_ops=False, recompute_views=False, treat_parameters_as_free_to_save=True,
    view_replay_for_aliased_outputs=True, unlift_effect_tokens=False, guess_tangent_strides_as_outputs=False,
)  # fmt: skip
compiler = Config(
    "torch.compiler.config",
    {"recompile_limit": "recompile_limit"},
    accumulated_recompile_limit=256, job_id=None, verbose=False, force_disable_caches=False,
    dynamic_sources="", unbacked_sources="", cache_key_tag="",
)  # fmt: skip
