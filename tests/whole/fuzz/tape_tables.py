"""The grammar of random programs that differentiate, as data: expressions, statements, hooks, nets.

Takes nothing; gives tables of templates that `tape_programs.py` expands. One idea: as in grammar.py (see Note
[Holes] there), with two more kinds of names: `W` is a leaf of three elements that requires gradients, `Q` one
of three by three, both always in scope, so every program has something to differentiate by. Writes go to
`$set_` names, which leaves are not, so that few programs raise where they did not mean to.
"""

from __future__ import annotations

Templates = list[str | tuple[float, str]]

EXPRESSIONS: dict[str, dict[str, Templates]] = {
    "math": {
        "T": [
            (3, "$T + $T"),
            (3, "$T * $var_W"),
            (2, "$T @ $var_Q"),
            (2, "$T * $V"),
            "$T * $T",
            "$T.sin()",
            "$T.tanh() * $float",
            "$T - $T.mean(0)",
            "weft.where($T > $float, $T, $T * $float)",
            "$T / ($T.abs() + 1.0)",
            "$T.softmax(-1)",
            "nn.functional.layer_norm($T, (3,))",
            "nn.functional.linear($T, $var_Q, $V)",
            "weft.relu($T)",
            "$T.clamp(-1.0, 2.0)",
            "$T.sigmoid() + $S",
            "$T.detach()",
            "$T.clone()",
            "nn.functional.gelu($T)",
            "$T.pow(2)",
            "weft.exp($T.clamp(max=1.0))",
            "$T.cumsum(0)",
            "weft.maximum($T, $V)",
            "weft.roll($T, 1, 0)",
        ],
        "V": [
            (3, "$V + $V"),
            (3, "$V * $var_W"),
            (2, "$var_W"),
            "$V * $V",
            "$V.sin()",
            "$V.cos() * $S",
            "$T.sum(0)",
            "$T.mean(0)",
            "$var_Q @ $V",
            "$V ** 2",
            "$V.sigmoid()",
            "weft.tanh($V)",
            "$V.softmax(-1)",
            "$V.detach()",
            "$V.clone()",
            "$V / ($V.abs() + 0.5)",
            "$V.cumsum(0)",
            "$V.sort().values",
            "weft.max($T, 0).values",
            "$V - $V.mean()",
            "$V * $float",
            "weft.outer($V, $V)[$idx]",
            "($V if $bool else $V)",
            "$V.prod() * $V",
            "$V.norm() * $V",
            "nn.functional.softplus($V)",
        ],
        "S": [
            (2, "$T.sum()"),
            (2, "($V * $var_W).sum()"),
            "$V.mean()",
            "$V[$idx]",
            "$V @ $V",
            "($T @ $var_Q).mean()",
            "$S + $S",
            "$S * $float",
            "$V.pow(2).sum()",
            "nn.functional.mse_loss($T, $T.detach())",
            "weft.logsumexp($V, 0)",
            "$V.max()",
            "$V.norm()",
        ],
    },
    "views": {
        "T": [
            "$T.view(-1, 3)",
            "$T[:]",
            "$T.t().t()",
            "$T.reshape(-1).view(-1, 3)",
            "$V.expand(2, 3)",
            "$V.unsqueeze(0).expand(2, 3)",
            "weft.stack([$V, $V])",
            "weft.cat([$T[:1], $T[1:]])",
            "$T.transpose(0, 1).transpose(1, 0)",
            "$T.flip(0)",
            "$T.unsqueeze(0).squeeze(0)",
            "$T.view_as($T)",
            "$T.contiguous()",
        ],
        "V": [
            (2, "$T[$idx]"),
            "$T.unbind(0)[$idx]",
            "$T.select(0, 0)",
            "$T.narrow(0, 0, 1)[0]",
            "$V.view(3)",
            "$V[:]",
            "$V.flip(0)",
            "weft.cat([$V[:1], $V[1:]])",
            "$T.chunk(2)[0][0]",
            "$T.diagonal()[:1].expand(3)",
            "$V.view(1, 3)[0]",
            "$V.unsqueeze(1).squeeze(1)",
            "$T.split(1)[0].squeeze(0)",
            "$V.reshape(3, 1).t()[0]",
            "$var_Q[$idx]",
            "$var_Q.t()[0]",
            "$var_Q.diagonal()",
            "$V.as_strided((3,), (1,))",
        ],
        "S": ["$V.select(0, 1)", "$T[0, 1]", "$V[-1].view(())"],
    },
    "random": {
        "T": ["nn.functional.dropout($T, 0.5)", "$T * weft.rand(3)", "$T + weft.randn_like($T)"],
        "V": ["nn.functional.dropout($V, 0.25)", "$V * weft.rand(3)", "weft.randn(3) * $var_W"],
        "S": ["weft.rand(()) * $S"],
    },
    "transforms": {
        "V": [
            "weft.func.grad(lambda @v: ($V@v * @v).sum())($V)",
            "weft.func.grad(lambda @v: (@v * @v * $var_W).sum())($V)",
            "weft.func.vmap(lambda @v: @v * $float)($V)",
            "weft.func.vmap(lambda @v: (@v * $var_W).sum())($T)[:1].expand(3)",
            "weft.func.jvp(lambda @v: @v.sin() * $var_W, ($V,), ($V,))[1]",
            "weft.func.vjp(lambda @v: @v * $V@v, $V)[1]($V)[0]",
            "weft.func.jacrev(lambda @v: @v * @v)($V).sum(0)",
            "weft.func.jacfwd(lambda @v: @v.sin())($V).sum(1)",
            "weft.func.hessian(lambda @v: (@v ** 3).sum())($V)[$idx]",
            "weft.func.grad(weft.func.grad(lambda @v: @v.sin()))($S) * $V",
        ],
        "S": ["weft.func.grad_and_value(lambda @v: (@v * $V).sum())($V)[1]"],
    },
    "checkpoints": {
        "T": ["weft.utils.checkpoint.checkpoint(lambda @v: (@v * $var_W).sin(), $T, use_reentrant=False)"],
        "V": ["weft.utils.checkpoint.checkpoint(lambda @v: @v.tanh() * $V, $V, use_reentrant=False)"],
    },
}

STATEMENTS: dict[str, Templates] = {
    "math": [
        (2, "$new_T = $T + $T"),
        (2, "$new_T = $T * $V"),
        (2, "$new_T = $T.clone()"),
        (1, "$new_T = $T.sin() * $T"),
        (2, "$new_V = $V + $V"),
        (2, "$new_V = $V * $float"),
        (2, "$new_V = $V.clone()"),
        (1, "$new_V = $V.cos() * $V"),
        (3, "$new_S = $S * $float"),
        (0.5, "$new_T = $T"),
        (0.5, "$new_V = $V"),
        (3, "$new_V = $V * $var_W"),
        (2, "$new_T = $T @ $var_Q"),
        (1, "$set_V = $V"),
        (1, "LOG.append($int)"),
        (0.5, "LOG.append(tuple($T.shape))"),
        (0.5, "LOG.append(($var_V.requires_grad, $var_V.is_leaf))"),
        (0.3, "HISTORY.append($V.detach())"),
    ],
    "flow": [
        "if $bool:\n    $block\nelse:\n    $block",
        "for $new_int in range(2):\n    $block",
        "try:\n    $block\nexcept RuntimeError as @e:\n    LOG.append(str(@e)[:40])",
        "with weft.no_grad():\n    $block",
        "with weft.enable_grad():\n    $block",
        "if $var_V.requires_grad:\n    $block",
        (0.5, "weft.set_grad_enabled(False)\n$new_V = $V\nweft.set_grad_enabled(True)"),
        (0.5, "with weft.inference_mode():\n    $new_V = $V + 1"),
    ],
    "writes": [
        (2, "$new_V = $V.clone()\n$new_V = $V"),
        (2, "$set_V.mul_($float)"),
        (2, "$set_V.add_($V)"),
        (2, "$set_T.add_($T)"),
        "$set_T.mul_($V)",
        "$set_V.copy_($V)",
        "$set_V[$idx] = $S",
        "$set_T[0] = $V",
        "$set_T[:, 1] = $float",
        "$set_V.zero_()",
        "$set_V.sin_()",
        "$set_T.relu_()",
        "$set_T.masked_fill_($T > 0.5, $float)",
        "$set_V.sub_($V.detach())",
        "$set_V += $V",
        "$set_T *= $float",
        "with weft.no_grad():\n    $var_W.add_($float)",
        "with weft.no_grad():\n    $var_Q.mul_(0.5)",
        "$set_V.data.mul_(2)",
        "$set_V.detach_()",
        (0.3, "$set_V.requires_grad_()"),
        (0.3, "$var_W.mul_(2)"),
        (0.3, "weft.add($V.detach(), 1, out=$set_V)"),
        "$set_V.index_add_(0, weft.tensor([0, 2]), $V[:2])",
        "$set_V.clamp_(min=0.0)",
    ],
    "views": [
        (2, "@v = $set_T[0]\n@v.add_($V)\n$new_V = @v"),
        (2, "@v = $set_T[0]\n$set_T.mul_($float)\n$new_V = @v * 2"),
        "@v = $set_V.view(3)\n@v.mul_($V)\n$new_V = @v",
        "@v = $set_T.t()\n@v[0].mul_($float)\n$new_S = @v.sum()",
        "@v = $set_V[1:]\n@v.copy_($V[:2])\n$new_S = @v.sum()",
        "$set_T[0].mul_($V)",
        "$set_T[:, 1].add_($float)",
        "$set_T.view(-1)[0] = $float",
        "$set_T.diagonal().fill_($float)",
        "@v = $set_V.detach()\n@v.add_(1)\n$new_V = @v",
        "@a, @b = $set_T[:2].unbind(0)\n$new_V = @a * @b",
        (0.3, "@a, @b = $set_T[:2].unbind(0)\n@a.add_(1)"),
        "@a = $set_T[:1]\n@b = @a[0]\n@b.add_($V)\n@a.mul_(2)\n$new_V = @b",
        "@v = $set_V.expand(2, 3)\n$set_V.add_(1)\n$new_T = @v * 1",
        (0.2, "with weft.no_grad():\n    @v = $set_V.view(3)\n@v.mul_(2)"),
        "@v = $set_V[:2]\nwith weft.no_grad():\n    @v.add_(1)\n$new_S = @v.sum()",
        "@v = $set_T[0]\n@w = $set_T[:, 0]\n@v.add_(1)\n@w.mul_(2)\n$new_V = @v",
        "@v = $set_V\n@v.transpose_(0, 0)\n$new_V = @v",
        "@v = $set_V.view(1, 3)\n@v.squeeze_(0)\n@v.mul_(2)\n$new_V = @v",
    ],
    "inside": [
        (1, "(($V * $var_W).sum() + $S).backward()"),
        (2, "(($V * $var_W).sum() + $S).backward(retain_graph=True)"),
        (
            2,
            "@w = $var_W\n(@g,) = weft.autograd.grad(($V * @w).sum(), [@w], retain_graph=True)\n$new_V = @g",
        ),
        (
            2,
            "@w = $var_W\n@g = weft.autograd.grad((@w * @w * $V).sum(), @w, create_graph=True)[0]\n"
            "$new_V = @g",
        ),
        "@w = $var_W\n@g = weft.autograd.grad((@w.sin() * $V).sum(), @w, create_graph=True)[0]\n"
        "@h = weft.autograd.grad((@g * @g).sum(), @w)[0]\n$new_V = @h",
        "@w = $var_W\n@g = weft.autograd.grad((@w ** 3).sum(), @w, create_graph=True)[0]\n"
        "(@g * $V).sum().backward()",
        "@l = ($V.detach() * $var_W).sum()\n@l.backward(retain_graph=True)\n@l.backward()",
        (0.2, "@l = ($V * $var_W).sin().sum()\n@l.backward()\n@l.backward()"),
        "$new_V = $V * $var_W\n@v = $var_V\n"
        "@v.sum().backward() if @v.requires_grad else LOG.append('no grad')",
        "@v = $V * $var_W\n@v.backward($V.detach(), retain_graph=True)\n$new_V = @v",
        "@v = $V.detach().requires_grad_()\n(@v * $V).sum().backward()\n$new_any = @v.grad",
        "@v = $V * $var_W\n@v.retain_grad()\n(@v * @v).sum().backward(retain_graph=True)\n$new_any = @v.grad",
        "weft.autograd.backward([($V.detach() * $var_W).sum(), ($var_W * 2).sum()])",
        "@l = ($V * $var_W).sum()\n"
        "(@g, @h) = weft.autograd.grad(@l, [$var_W, $var_Q], allow_unused=True, retain_graph=True)\n"
        "LOG.append((@g is None, @h is None))",
        "@w = $var_W\nweft.autograd.backward(($V.detach() * @w).sum(), inputs=[@w])",
        "$var_W.grad = None",
        "LOG.append($var_W.grad is None)",
        "if $var_W.grad is not None:\n    $new_V = $var_W.grad * 2",
        "if $var_W.grad is not None:\n    $var_W.grad.mul_($float)",
        "$var_W.grad = $V.detach().clone()",
        "$new_any = $var_W.grad",
        (0.4, "if $var_S.requires_grad:\n    $var_S.backward(retain_graph=True)"),
        "with weft.no_grad():\n    if $var_W.grad is not None:\n        $var_W.sub_($var_W.grad * 0.1)\n"
        "        $var_W.grad = None",
        "@w = $var_W\n@g = weft.autograd.grad([(@w * $V), @w.sin().sum()], [@w], [$V.detach(), None])",
        "@w = $var_W\n@g = (@w.sin() * $V.detach()).sum()\nfor @i in range(3):\n"
        "    (@g,) = weft.autograd.grad(@g.sum(), @w, create_graph=True)\n$new_V = @g",
        "@w = $var_W\nfor @i in range(2):\n    (@w * @w * $V.detach()).sum().backward()",
        "$new_V = weft.autograd.functional.vjp(lambda @v: @v * $var_W, $V, $V)[1]",
        "$new_V = weft.autograd.functional.hvp(lambda @v: (@v ** 3).sum(), $V, $V)[1]",
        "@w = $var_W\n(@w * 2).sum().backward()\n@g = @w.grad\n@w.grad = None\n$new_V = @g * 2",
        "@w = $var_W\n@g = weft.autograd.grad((@w * $V).sum(), @w, retain_graph=True)[0]\n"
        "@w.grad = @g if @w.grad is None else @w.grad + @g",
    ],
    "saved": [
        "with weft.autograd.graph.saved_tensors_hooks(lambda @t: @t * 1, lambda @t: @t):\n    $block",
        "@p = lambda @t: (LOG.append('pack'), @t)[1]\n"
        "with weft.autograd.graph.saved_tensors_hooks(@p, lambda @t: @t):\n    $new_V = $V * $var_W",
        "with weft.autograd.graph.save_on_cpu():\n    $new_V = $V.sin() * $var_W",
        "with weft.autocast('cpu', dtype=weft.bfloat16):\n    $new_T = ($T @ $var_Q).float()",
        "with weft.autocast('cpu', dtype=weft.bfloat16):\n    $block",
    ],
    "hooks": [
        (2, "$new_V = $V * $var_W\n@v = $var_W * $V\n@v.register_hook($hook)\n$new_V = @v * $V"),
        (2, "@v = $V * $var_W\n@v.register_hook($hook)\n$new_V = @v"),
        "@h = $var_W.register_hook($hook)\n$new_V = $V * $var_W\nHANDLES.append(@h)",
        "@h = $var_W.register_hook($hook)\n@h.remove()",
        "@v = $T @ $var_Q\n@h = @v.register_hook($hook)\n$new_T = @v * 2\nif $bool:\n    @h.remove()",
        "HANDLES.append($var_W.register_post_accumulate_grad_hook($post))",
        "if HANDLES:\n    HANDLES.pop().remove()",
        "@v = $V * $var_W\n@v.register_hook(lambda @v: @v * $V@v)\n$new_V = @v",
        "@v = $V * $var_W\n@v.register_hook($hook)\n@v.register_hook($hook)\n$new_V = @v\n$new_S = @v.sum()",
        "@v = $V * $var_W\n@v.retain_grad()\nHISTORY.append(@v)\n$new_V = @v * 2",
        "@v = $V.detach().requires_grad_()\n@v.register_hook($hook)\n$new_V = @v * 2",
        "@v = $V * $var_W\n@v.grad_fn.register_hook(lambda @g, @h: LOG.append((len(@g), len(@h))))\n"
        "$new_V = @v",
        "@v = $V * $var_W\n@v.grad_fn.register_prehook(lambda @g: (@g[0] * 0.5,))\n$new_V = @v",
        "HANDLES.append(weft.autograd.graph.register_multi_grad_hook(\n"
        "    [$var_W, $var_Q], lambda @g: LOG.append([@h is None for @h in @g])))",
    ],
    "failing": [
        "$new_S = $V[$int]",
        "$new_V = $V[INDEX]",
        "$new_V = weft.gather($V, 0, INDEX)",
        "assert $S > $float - 20.0, 'small'",
        "if weft.isnan($S):\n    raise ValueError('not a number')",
        "if ($V > 50.0).any():\n    raise OverflowError(str($int))",
        (0.3, "$new_V = $V.view(7)"),
        (0.2, "$new_T = $T @ $T"),
        "$new_S = nn.functional.nll_loss($T, weft.zeros($T.shape[0], dtype=weft.int64) + INDEX[0])",
        "$new_V = nn.functional.embedding(INDEX, $var_Q)[0]",
        "$new_V = weft.linalg.solve($var_Q, $V)",
        "try:\n    $new_V = $V[INDEX]\nexcept IndexError as @e:\n    LOG.append(str(@e))",
        "try:\n    @l = ($V * $var_W).sin().sum()\n    @l.backward()\n    @l.backward()\n"
        "except RuntimeError as @e:\n    LOG.append(str(@e)[:30])",
        "if $S.item() > 30.0:\n    raise ArithmeticError($int)",
        (0.2, "$new_V = $V.backward()"),
    ],
    "breaks": ["weft.compiler.graph_break()", "print($int, $str)"],
    "transforms": ["$new_V = $V"],
    "random": [],
    "checkpoints": [],
}

# Module-level functions that hooks are chosen from; each is one that eager calls with a gradient.
HOOKS: dict[str, str] = {
    "noting": "def noting(grad):\n    LOG.append(('grad', tuple(grad.shape)))",
    "halving": "def halving(grad):\n    return grad * 0.5",
    "counting": "def counting(grad):\n    global COUNT\n    COUNT += 1\n    return grad + COUNT",
    "telling": "def telling(grad):\n    print('grad', grad.dim())",
    "keeping": "def keeping(grad):\n    HISTORY.append(grad.clone())",
    "holding": "def holding(grad):\n    HISTORY.append(grad)",
    "clipping": "def clipping(grad):\n    return grad.clamp(-0.5, 0.5)",
    "bending": "def bending(grad):\n    return grad * W.detach().sum()",
    "refusing": "def refusing(grad):\n    if COUNT > 1:\n        raise ValueError('hook')",
}
POSTS: dict[str, str] = {
    "noted": "def noted(leaf):\n    LOG.append(('post', leaf.grad is not None))",
    "stepping": "def stepping(leaf):\n    with weft.no_grad():\n        leaf.sub_(leaf.grad * 0.1)\n"
    "    leaf.grad = None",
    "scaling": "def scaling(leaf):\n    leaf.grad.mul_(0.5)",
}
MODULE_HOOKS: list[str] = [
    "NET.register_forward_hook(lambda net, args, out: LOG.append('forward'))",
    "NET.register_forward_hook(lambda net, args, out: out * 0.5)",
    "NET.register_forward_pre_hook(lambda net, args: (args[0] + 1.0,))",
    "NET.register_full_backward_hook(lambda net, gi, go: LOG.append(('backward', len(gi), len(go))))",
    "NET.register_full_backward_hook(lambda net, gi, go: (None if gi[0] is None else gi[0] * 2.0,))",
    "NET.register_full_backward_pre_hook(lambda net, go: (go[0] * 0.5,))",
    "next(NET.parameters()).register_hook(lambda grad: grad * 0.5)",
    "next(NET.parameters()).register_post_accumulate_grad_hook(lambda leaf: LOG.append('post'))",
]
NETS: list[str] = [
    "NET = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 3))",
    "NET = nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4), nn.ReLU(), nn.Linear(4, 3, bias=False))",
    "NET = nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5), nn.GELU())",
    """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(3, 3)
        self.scale = nn.Parameter(weft.ones(3))
        self.register_buffer('seen', weft.zeros(()))
        self.calls = 0
    def forward(self, x):
        self.calls += 1
        self.seen.add_(1)
        return self.first(x).tanh() * self.scale + x
NET = Net()""",
    """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(3, 3)
        self.second = nn.Linear(3, 3)
        self.second.weight = self.first.weight
        self.register_buffer('mean', weft.zeros(3))
    def forward(self, x):
        with weft.no_grad():
            self.mean.mul_(0.9).add_(x.mean(0) * 0.1)
        hidden = self.first(x - self.mean).sigmoid()
        LOG.append(tuple(hidden.shape))
        return self.second(hidden)
NET = Net()""",
    "NET = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))",
]
OPTIMIZERS: list[str] = [
    "weft.optim.SGD({parameters}, lr=0.1)",
    "weft.optim.SGD({parameters}, lr=0.1, momentum=0.9)",
    "weft.optim.SGD({parameters}, lr=0.05, momentum=0.9, nesterov=True, weight_decay=0.01)",
    "weft.optim.Adam({parameters}, lr=0.01)",
    "weft.optim.Adam({parameters}, lr=0.01, weight_decay=0.1, amsgrad=True)",
    "weft.optim.AdamW({parameters}, lr=0.01)",
    "weft.optim.RMSprop({parameters}, lr=0.01)",
]
LOSSES: list[str] = [
    "((out - y) ** 2).mean()",
    "nn.functional.mse_loss(out, y)",
    "nn.functional.cross_entropy(out, y.argmax(-1))",
    "nn.functional.l1_loss(out, y, reduction='sum')",
    "(out * y).sum()",
    "nn.functional.smooth_l1_loss(out, y) + 0.01 * sum(p.pow(2).sum() for p in NET.parameters())",
]
CLIPS: list[str] = [
    "for p, q in zip(NET.parameters(), EMA):\n    q.mul_(0.9).add_(p.detach() * 0.1)",
    # (what is nothing but rounding, such as the gradient of a bias before a norm, counts as none)
    "LOG.append(sum(p.grad.norm().item() > 1e-4 for p in NET.parameters() if p.grad is not None))",
    "nn.utils.clip_grad_norm_(NET.parameters(), 1.0)",
    "LOG.append(nn.utils.clip_grad_norm_(list(NET.parameters()), 0.1).detach())",
    "nn.utils.clip_grad_value_(NET.parameters(), 0.5)",
    "for p in NET.parameters():\n    if p.grad is not None:\n        p.grad.clamp_(-0.1, 0.1)",
    "if weft.isnan(loss):\n    raise ValueError('loss')",
    "assert not weft.isinf(loss)",
]

# What is done with a result outside of compiled code; `found` are its tensors that require gradients.
AFTER: list[tuple[float, str]] = [
    (4, "sum((t * t).sum() for t in found).backward()"),
    (2, "found[0].sum().backward()"),
    (2, "found[-1].backward(weft.ones_like(found[-1]))"),
    (1, "total = sum(t.sum() for t in found)\ntotal.backward(retain_graph=True)\ntotal.backward()"),
    (0.3, "total = sum(t.sum() for t in found)\ntotal.backward()\ntotal.backward()"),
    (
        4,
        "total = sum((t * t).sum() for t in found)\n"
        "grads = weft.autograd.grad(total, LEAVES, create_graph=True, allow_unused=True)\n"
        "later = [g for g in grads if g is not None and g.requires_grad]\n"
        "if later:\n    sum((g * g).sum() for g in later).backward()\n"
        "return grads",
    ),
    (
        2,
        "grads = weft.autograd.grad(found[0].sum(), LEAVES, create_graph=True, allow_unused=True)\n"
        "later = [g for g in grads if g is not None and g.requires_grad]\n"
        "if later:\n"
        "    return weft.autograd.grad(sum(g.sin().sum() for g in later), LEAVES, allow_unused=True)",
    ),
    (1, "return weft.autograd.grad([t.sum() for t in found], LEAVES, allow_unused=True)"),
    (1, "with weft.no_grad():\n    found[0].add_(1)\nsum(t.sum() for t in found).backward()"),
    (1, "found[0].mul_(2)\nfound[0].sum().backward()"),
    (1, "found[0].register_hook(lambda grad: LOG.append('outside'))\nfound[0].sum().backward()"),
    (0.5, "with weft.no_grad():\n    W.add_(1)\nsum(t.sum() for t in found).backward()"),
    (0.5, "found[0].view(-1)[0] = 0.0\nsum(t.sum() for t in found).backward()"),
    (0.5, "del result\nfound = found[-1:]\nfound[0].sum().backward()"),
]

# What may be asked of the compiled function itself, where it only computes; `run` is that function.
OF_COMPILED: list[tuple[float, str]] = [
    (2, "return weft.func.grad(lambda a: run(a, *args[1:])[-1].sum())(args[0].detach())"),
    (
        1,
        "first = args[0].detach()\n"
        "return weft.func.vmap(lambda a: run(a, *args[1:])[-1])(weft.stack([first, first * 2]))",
    ),
    (1, "return weft.func.jacrev(lambda a: run(a, *args[1:])[-1].sum(0))(args[0].detach())"),
    (1, "return weft.func.jacfwd(lambda a: run(a, *args[1:])[-1].sum())(args[0].detach())"),
    (1, "return weft.func.hessian(lambda a: run(a, *args[1:])[-1].sum())(args[0].detach())"),
    (1, "return weft.func.jvp(lambda a: run(a, *args[1:])[-1], (args[0].detach(),), (args[0].detach(),))"),
    (1, "return weft.func.vjp(lambda a: run(a, *args[1:])[0], args[0].detach())[1](result[0].detach() * 1)"),
    (
        1,
        "g = weft.autograd.grad(run(*args)[-1].sum(), W, create_graph=True, allow_unused=True)[0]\n"
        "for _ in range(2):\n"
        "    if g is None or not g.requires_grad:\n        return g\n"
        "    g = weft.autograd.grad(g.sum(), W, create_graph=True, allow_unused=True)[0]\n"
        "return g",
    ),
]

BETWEEN: list[str] = [
    "W.grad = None",
    "Q.grad = None",
    "W.requires_grad_(False)",
    "W.requires_grad_(True)",
    "W.grad = weft.ones(3)",
    "HANDLES.append(W.register_hook(halving))",
    "HANDLES.append(W.register_hook(noting))",
    "HANDLES.append(Q.register_hook(lambda grad: grad * 2))",
    "HANDLES.append(W.register_post_accumulate_grad_hook(noted))",
    "HANDLES and HANDLES.pop().remove()",
    "COUNT += 1",
    "HISTORY.clear()",
    "weft.set_grad_enabled(False)",
    "weft.set_grad_enabled(True)",
    "W = weft.tensor([0.3, -0.7, 1.1], requires_grad=True)",
    "INDEX = weft.tensor([0, 5, 1])",
    "INDEX = weft.tensor([2, 1, 0])",
    "weft.manual_seed(3)",
]
BETWEEN_NET: list[str] = [
    "NET.eval()",
    "NET.train()",
    "NET.zero_grad()",
    "next(NET.parameters()).requires_grad_(False)",
    "HANDLES.append(NET.register_forward_hook(lambda net, args, out: out * 2))",
    "HANDLES.append(NET.register_full_backward_hook(lambda net, gi, go: LOG.append('late')))",
    "OPT.param_groups[0]['lr'] = 0.5",
    "OPT.zero_grad(set_to_none=False)",
    "SCHEDULE.step()",
    "OPT.param_groups[0]['weight_decay'] = 0.1",
    "OPT.load_state_dict(OPT.state_dict())",
]
