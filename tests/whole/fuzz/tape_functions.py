"""Custom Functions for random programs: every part of the contract, by chance.

Takes a source of chance; gives the text of a class and how to call it. One idea: a Function is a forward
formula with what it saves, times the many ways to save it, to hand it back and to misbehave.
"""

from __future__ import annotations

import random

FORMULAS = [
    # forward of x, y and k; gradients from g and what was saved
    ("x * y * k", ("g * y * k", "g * x * k")),
    ("x.sin() + y * k", ("g * x.cos()", "g * k")),
    ("x * k - y.exp().clamp(max=3.0)", ("g * k", "-g * y.exp()")),
    ("(x - y).relu() * k", ("g * ((x - y) > 0) * k", "-g * ((x - y) > 0) * k")),
]
EFFECTS = [
    "LOG.append('{place}')",
    "global COUNT\n        COUNT += 1",
    "HISTORY.append(x.detach().clone())",
    "STATE['{place}'] = STATE.get('{place}', 0) + 1",
]


def plain(chance: random.Random, name: str) -> str:
    """Saved tensors or attributes, numbers in the context, effects, needs_input_grad, None."""
    formula, (first, second) = chance.choice(FORMULAS)
    lines = [f"class {name}(weft.autograd.Function):", "    @staticmethod"]
    apart = chance.random() < 0.25
    saving = chance.choice(
        ("ctx.save_for_backward(x, y)", "ctx.save_for_backward(x, y)", "ctx.x, ctx.y = x, y")
    )
    reading = "x, y = ctx.saved_tensors" if "save" in saving else "x, y = ctx.x, ctx.y"
    lines.append(f"    def forward({'x, y, k' if apart else 'ctx, x, y, k'}):")
    if chance.random() < 0.35:
        lines.append("        " + chance.choice(EFFECTS).format(place="forward"))
    if not apart:
        lines += [f"        {saving}", "        ctx.k = k"]
    lines.append(f"        return {formula}")
    if apart:
        lines += [
            "    @staticmethod",
            "    def setup_context(ctx, inputs, output):",
            "        x, y, k = inputs",
        ]
        lines += [f"        {saving}", "        ctx.k = k"]
    lines.append("    @staticmethod")
    if chance.random() < 0.1:
        lines.append("    @weft.autograd.function.once_differentiable")
    lines += ["    def backward(ctx, g):", f"        {reading}", "        k = ctx.k"]
    if chance.random() < 0.35:
        lines.append("        " + chance.choice(EFFECTS).format(place="backward"))
    if chance.random() < 0.1:
        lines.append("        print('backward', ctx.needs_input_grad)")
    if chance.random() < 0.08:
        lines.append("        if k > 1.0:\n            raise ValueError('backward')")
    if chance.random() < 0.2:
        first, second = (
            f"({first}) if ctx.needs_input_grad[0] else None",
            f"({second}) if ctx.needs_input_grad[1] else None",
        )
    if chance.random() < 0.15:
        second = "None"
    tail = ", None" if chance.random() < 0.95 else ""
    lines.append(f"        return {first}, {second}{tail}")
    return "\n".join(lines)


DIRTY = """\
class {name}(weft.autograd.Function):
    @staticmethod
    def forward(ctx, x, y, k):
        x.mul_(k)
        ctx.mark_dirty(x)
        ctx.k = k
        return x
    @staticmethod
    def backward(ctx, g):
        return g * ctx.k, None, None"""
SORTED = """\
class {name}(weft.autograd.Function):
    @staticmethod
    def forward(ctx, x, y, k):
        values, index = x.sort()
        ctx.mark_non_differentiable(index)
        ctx.save_for_backward(index)
        return values * k, index
    @staticmethod
    def backward(ctx, g, unused):
        (index,) = ctx.saved_tensors
        return weft.zeros_like(g).scatter(-1, index, g), None, None"""
SEVERAL = """\
class {name}(weft.autograd.Function):
    @staticmethod
    def forward(ctx, x, y, k):
        ctx.set_materialize_grads({materialize})
        result = x * k
        ctx.save_for_backward(x, result)
        return result, y * 2
    @staticmethod
    def backward(ctx, g, h):
        x, result = ctx.saved_tensors
        LOG.append((g is None, h is None))
        first = None if g is None else g * result.detach().sign()
        return first, None if h is None else h * 2, None"""
THROUGH = """\
class {name}(weft.autograd.Function):
    @staticmethod
    def forward(ctx, x, y, k):
        return {given}
    @staticmethod
    def backward(ctx, g):
        return g * 2, None, None"""


def custom_function(chance: random.Random, name: str) -> tuple[str, dict[str, list[str]], list[str]]:
    """The class's text, expressions by type that use it, and statements."""
    kind = chance.choice(("plain", "plain", "plain", "plain", "dirty", "sorted", "several", "through"))
    call = f"{name}.apply($V, $V, $float)"
    wide = f"{name}.apply($T, $T, $float)"
    if kind == "plain":
        return plain(chance, name), {"V": [call], "T": [wide]}, [f"$new_V = {name}.apply($V, $var_W, 2.0)"]
    if kind == "dirty":
        statements = [
            f"@v = $V.clone()\n$new_V = {name}.apply(@v, $V, $float)",
            f"$new_V = {name}.apply($set_V, $V, 2.0)",
        ]
        return DIRTY.format(name=name), {}, statements
    if kind == "sorted":
        return (
            SORTED.format(name=name),
            {"V": [f"{call}[0]"]},
            [f"$new_V, @i = {call}\nLOG.append(@i.tolist())"],
        )
    if kind == "several":
        text = SEVERAL.format(name=name, materialize=chance.random() < 0.5)
        return text, {"V": [f"{call}[0]", f"{call}[1]"]}, [f"$new_V, $new_V = {call}"]
    given = chance.choice(("x.round()", "x.view_as(x)", "x", "x.detach() * k", "x[:]"))
    return THROUGH.format(name=name, given=given), {"V": [call]}, [f"$new_V = {call}"]
