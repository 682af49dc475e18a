"""opt_einsum: contractions of tensors along optimised paths."""

import opt_einsum
from common import say, torch, wave

a, b, c = wave(3, 4).requires_grad_(), wave(4, 5, 6, phase=1.0).requires_grad_(), wave(6, 3, phase=2.0)
for optimize in ("greedy", "optimal", "dp"):
    result = opt_einsum.contract("ij,jkl,li->k", a, b, c, optimize=optimize)
    say(f"{optimize}", [result, *torch.autograd.grad(result.square().sum(), (a, b))])
expression = opt_einsum.contract_expression("ij,jkl,li->ik", a.shape, b.shape, c.shape)
say("expression", expression(a, b, c))
with opt_einsum.shared_intermediates():
    say(
        "shared",
        [opt_einsum.contract("ij,jk->ik", a, b[:, :, 0]), opt_einsum.contract("ij,jk->k", a, b[:, :, 0])],
    )
