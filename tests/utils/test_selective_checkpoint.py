"""Selective checkpoints: gradients are those without any, and the policy says what runs again."""

from __future__ import annotations

from functools import partial

import pytest

import weft
from tests.handlers import Through
from weft.ops import aten
from weft.utils.checkpoint import (
    CheckpointPolicy,
    SelectiveCheckpointContext,
    checkpoint,
    create_selective_checkpoint_contexts,
)


def program(x, w):
    return (((x @ w).sin() @ w).exp() @ w).sum()


def run(policy, **options):
    """Gradients of a checkpointed program, and the operators of its backward."""
    weft.manual_seed(0)
    x, w = weft.randn(3, 3, requires_grad=True), weft.randn(3, 3, requires_grad=True)
    contexts = partial(create_selective_checkpoint_contexts, policy, **options)
    loss = checkpoint(program, x, w, use_reentrant=False, context_fn=contexts)
    with Through() as mode:
        grads = weft.autograd.grad(loss, [x, w], retain_graph=True)
    for given, wanted in zip(grads, weft.autograd.grad(program(x, w), [x, w]), strict=True):
        weft.testing.assert_close(given, wanted)
    return loss, (x, w), mode.seen


def keep_products(context, func, *args, **kwargs):
    products = func is aten.mm.default
    return CheckpointPolicy.MUST_SAVE if products else CheckpointPolicy.PREFER_RECOMPUTE


def test_what_is_kept_does_not_run_again():
    _, _, whole = run(lambda *_args, **_kwargs: CheckpointPolicy.MUST_RECOMPUTE)
    for policy in (
        keep_products,
        [aten.mm.default],
        lambda context, func, *_a, **_k: func is aten.mm.default,
    ):
        _, _, seen = run(policy)
        assert (whole.count("aten.mm.default"), seen.count("aten.mm.default")) == (9, 6)  # three in forward
        assert seen.count("aten.sin.default") == whole.count("aten.sin.default")


def test_policies_are_told_of_recomputation_and_results():
    told = []

    def policy(context, func, *args, **kwargs):
        told.append((context.is_recompute, type(context.op_output)))
        return CheckpointPolicy.PREFER_SAVE

    run(policy)
    assert (False, weft.Tensor) in told and (True, type(None)) in told
    assert isinstance(SelectiveCheckpointContext(is_recompute=True), SelectiveCheckpointContext)


def test_a_second_backward_is_refused():
    loss, leaves, _ = run(keep_products)
    with pytest.raises(RuntimeError, match="Trying to backward an extra time"):
        weft.autograd.grad(loss, leaves)


def test_another_policy_when_recomputing_is_found():
    def policy(context, func, *args, **kwargs):
        return context.is_recompute and func is aten.mm.default

    with pytest.raises(RuntimeError, match="aten.mm.default encountered during backward, but not found"):
        run(policy)


def test_writes_to_what_is_kept():
    def program(x):
        y = x.sin()
        y.mul_(2)
        return y.exp().sum()

    def gradient(**options):
        x = weft.ones(2, requires_grad=True)
        contexts = partial(create_selective_checkpoint_contexts, [aten.sin.default], **options)
        checkpoint(program, x, use_reentrant=False, context_fn=contexts).backward()

    with pytest.raises(RuntimeError, match="cached during selective activation checkpoint has been mutated"):
        gradient()
    gradient(allow_cache_entry_mutation=True)


def test_what_is_no_policy():
    with pytest.raises(TypeError, match="must be either a function or a list of ops"):
        create_selective_checkpoint_contexts(3)
    with pytest.raises(ValueError, match="to be an OpOverload but got: aten.mm"):
        create_selective_checkpoint_contexts([aten.mm])
