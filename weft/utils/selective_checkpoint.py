"""Selective checkpoints: which results of operators are kept, and which are computed again in backward.

    contexts = partial(create_selective_checkpoint_contexts, policy)
    checkpoint(function, x, use_reentrant=False, context_fn=contexts)

One idea: forward runs under a mode that keeps the results that the policy wants, in their order;
recomputation under another that gives them out in place of the operators' calls.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any, Final

from weft.core.trees import tree_map
from weft.tensor.base import Tensor
from weft.tensor.overloads import aten
from weft.tensor.schema import Overload
from weft.utils._python_dispatch import TorchDispatchMode

__all__ = [
    "SAC_IGNORED_OPS",
    "CheckpointPolicy",
    "SelectiveCheckpointContext",
    "create_selective_checkpoint_contexts",
]

SAC_IGNORED_OPS: Final = {aten.detach.default}
"""Operators that policies are not asked about: checkpoints call them themselves."""


class CheckpointPolicy(Enum):
    """What becomes of a result: those that MUST are kept or computed again whatever a compiler thinks."""

    MUST_SAVE = 0
    PREFER_SAVE = 1
    MUST_RECOMPUTE = 2
    PREFER_RECOMPUTE = 3
    MUST_CPU_OFFLOAD = 4
    PREFER_CPU_OFFLOAD = 5


_KEPT: Final = frozenset(CheckpointPolicy) - {
    CheckpointPolicy.MUST_RECOMPUTE,
    CheckpointPolicy.PREFER_RECOMPUTE,
}
"""Where there is no other memory than the processor's, what is to go there is kept."""


class SelectiveCheckpointContext:
    """What a policy is told beside the operator: whether this is the recomputation, and the result."""

    def __init__(self, *, is_recompute: bool, op_output: Any = None) -> None:
        self.is_recompute, self.op_output = is_recompute, op_output


Policy = Callable[..., Any]


class _Result:
    """One result that was kept, and its version then."""

    __slots__ = ("value", "version")

    def __init__(self, value: Any) -> None:
        self.value = value.detach() if isinstance(value, Tensor) else value
        self.version = self.value._version if isinstance(value, Tensor) else None

    def given(self, mutable: bool) -> Any:
        """The result; RuntimeError if somebody has written to it since."""
        if self.version is not None and not mutable and self.value._version != self.version:
            raise RuntimeError("Tensor cached during selective activation checkpoint has been mutated")
        return self.value


Storage = dict[Any, list[Any]]


def _wants(policy: Policy, context: SelectiveCheckpointContext, func: Any, args: Any, kwargs: Any) -> bool:
    answer = policy(context, func, *args, **kwargs)
    if isinstance(answer, bool):
        return answer
    return answer in _KEPT


class _Keeping(TorchDispatchMode):
    """Forward: keeps what the policy wants."""

    def __init__(self, policy: Policy, storage: Storage) -> None:
        super().__init__()
        self.policy, self.storage = policy, storage

    def __torch_dispatch__(
        self, func: Any, types: tuple[type, ...], args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        if func in SAC_IGNORED_OPS:
            return result
        context = SelectiveCheckpointContext(is_recompute=False, op_output=result)
        if _wants(self.policy, context, func, args, kwargs):
            self.storage.setdefault(func, []).append(tree_map(_Result, result))
        return result


class _Giving(TorchDispatchMode):
    """Recomputation: gives what was kept."""

    def __init__(self, policy: Policy, storage: Storage, mutable: bool) -> None:
        super().__init__()
        self.policy, self.storage, self.mutable = policy, storage, mutable

    def __torch_dispatch__(
        self, func: Any, types: tuple[type, ...], args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if func in SAC_IGNORED_OPS:
            return func(*args, **kwargs)
        context = SelectiveCheckpointContext(is_recompute=True)
        if not _wants(self.policy, context, func, args, kwargs):
            return func(*args, **kwargs)
        kept = self.storage.get(func)
        if kept is None:
            raise RuntimeError(f"{func} encountered during backward, but not found in storage")
        if not kept:
            raise RuntimeError(
                "Trying to backward an extra time. You are only allowed to backward once on any region "
                "computed under selective activation checkpoint."
            )
        return tree_map(lambda result: result.given(self.mutable), kept.pop(0))


def create_selective_checkpoint_contexts(
    policy_fn_or_list: Any, allow_cache_entry_mutation: bool = False
) -> tuple[TorchDispatchMode, TorchDispatchMode]:
    """The two contexts of a checkpoint that keeps some results: what `context_fn` is to give.

    The policy is called with a `SelectiveCheckpointContext`, the operator and its arguments, and gives a
    `CheckpointPolicy` (or whether to keep the result); a list names the operators whose results are kept.
    """
    if isinstance(policy_fn_or_list, list):
        policy = _of_list(policy_fn_or_list)
    elif callable(policy_fn_or_list):
        policy = policy_fn_or_list
    else:
        raise TypeError("policy_fn_or_list must be either a function or a list of ops.")
    storage: Storage = {}
    return _Keeping(policy, storage), _Giving(policy, storage, allow_cache_entry_mutation)


def _of_list(operators: list[Any]) -> Policy:
    for operator in operators:
        if not isinstance(operator, Overload):
            raise ValueError(
                f"Expected op in `op_list` to be an OpOverload but got: {operator} of type {type(operator)}. "
                "Please update the OpOverloadPacket to a specific OpOverload. For example, if you have "
                "`torch.ops.aten.mm`, replace it with `torch.ops.aten.mm.default`."
            )
    wanted = set(operators)

    def policy(context: SelectiveCheckpointContext, func: Any, *_args: Any, **_kwargs: Any) -> Any:
        return CheckpointPolicy.MUST_SAVE if func in wanted else CheckpointPolicy.PREFER_RECOMPUTE

    return policy
