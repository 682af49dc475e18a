"""Random programs of tensor code whose calls bring other sizes and numbers each time.

Takes a seed; gives source text of the form that compare.py runs. One idea: these are the programs of
native_programs.py, with numbers among their arguments, and with the same sizes exchanged for others wherever
they stand, 0 and 1 among them: what does not fit then is refused in eager's words, and has written nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

from tests.whole.fuzz.native_programs import LAYOUTS, MOST, Maker, is_float

FLOATS = (0.5, 1.5, -0.25, 2.0, 3.25, 0.0, 1.0, -1.0, 0.3)
WHOLES = (2, 3, 5, 4, 7, 1, 0, -1)
SIZES = (2, 3, 4, 5, 6, 7, 8, 9, 12, 16, 17, 33, 40, 1, 0)
NUMBERED = (
    "@ * r", "@ + n", "@ - r * n", "@ / (abs(r) + 1)", "r - @", "weft.add(@, @, alpha=r)",
    "weft.addcmul(@, @, @, value=r)", "weft.lerp(@, @ * 2, r)", "@.clamp(-abs(r), abs(r) + 1)",
    "@.clamp(max=r)", "@.clamp(n - 2, n + 2)", "weft.where(@ > 0, @, r)", "@.masked_fill(@ < 0, r)",
    "weft.full(@.shape, r)", "weft.full_like(@, r)", "@ ** abs(n)", "(@.abs() + 0.5) ** r",
    "F.leaky_relu(@, r)", "F.elu(@, abs(r) + 0.1)", "F.softplus(@, abs(r) + 0.5)",
    "F.hardtanh(@, -1 - abs(r), 1 + abs(r))", "F.threshold(@, r, n)",
    "F.huber_loss(@, @ * 0.5, delta=abs(r) + 0.1)", "F.smooth_l1_loss(@, @ * 0.5, beta=abs(r))",
    "@.norm(abs(r) + 1)", "@.sum() / (n or 1)", "@.mean() * @.numel()", "weft.arange(abs(n) + 1) * r",
    "weft.linspace(r, n, 5)", "@.reshape(-1)[abs(n):]", "@.reshape(-1)[: n + 1] * 2",
    "@.reshape(-1).roll(n)", "@.reshape(-1).repeat(abs(n) + 1)", "F.pad(@, (abs(n) % 3, 1), value=r)",
    "weft.zeros(abs(n), 2) + r", "@.reshape(-1).view(-1, 1) * weft.ones(1, abs(n))",
    "@.sum() if n > 2 else @.mean()", "@ * 2 if r > 0.4 else @ * 3",
    "@ * @.shape[0] if @.dim() else @ * r", "F.layer_norm(@, @.shape[-1:], eps=abs(r) + 0.1)",
    "F.dropout(@, 0.25 * (abs(n) % 3), training=False)", "weft.nan_to_num(@, nan=r)",
    "F.softshrink(@, abs(r))", "weft.heaviside(@, weft.tensor(r))",
    "F.cross_entropy(@.reshape(1, -1), weft.zeros(1, dtype=weft.int64), label_smoothing=abs(r) % 1)",
    "weft.normal(r, abs(n) + 0.5, (3,)) * 0 + @.sum()",
)  # fmt: skip
"""Lines that say what the numbers are for."""


class VaryingMaker(Maker):
    """A program that takes a float and a whole number behind its tensors."""

    numbers = ("r", "n")

    def inputs(self) -> None:
        super().inputs()
        self.names["r"], self.names["n"] = FLOATS[0], WHOLES[0]

    def expression(self) -> tuple[str, bool] | None:
        value = self.some(is_float) if self.chance.random() < 0.3 else None
        return (
            super().expression()
            if value is None
            else (self.chance.choice(NUMBERED).replace("@", value), False)
        )

    def number(self, hole: str, value: str, made: Callable[[], Any]) -> Any:
        """Often a number of the call, or a size."""
        chance, tensor = self.chance, self.names[value]
        if hole == "number" and chance.random() < 0.6:
            return chance.choice(("r", "r", "n", "(r + 1)", "(n * 2)", "(n / 2)", f"{value}.numel()"))
        if hole == "small" and chance.random() < 0.4:
            return chance.choice(("n", "(n % 3)", "abs(n)"))
        if hole == "last" and tensor.dim() and chance.random() < 0.8:
            return f"{value}.shape[-1]"
        if hole == "size" and tensor.dim() and chance.random() < 0.5:
            return f"{value}.shape[{chance.randrange(tensor.dim())}]"
        return made()

    def arguments(self, inputs: list[str]) -> list[str]:
        chance = self.chance
        lines = ["def arguments():"]
        changing = [size for size in set(self.sizes) if chance.random() < 0.7] or self.sizes[:1]
        vary_numbers = chance.random() < 0.7
        sizes = [size for size in SIZES if size > 1 or chance.random() < 0.3]
        for call in range(chance.choice((4, 5, 6))):
            changed = {size: chance.choice(sizes) for size in changing} if call else {}
            shapes = {name: tuple(changed.get(n, n) for n in shape) for name, shape in self.shapes.items()}
            if any(prod(shape) > MOST for shape in shapes.values()):
                shapes = self.shapes
            layout = chance.choice(LAYOUTS) if chance.random() < 0.15 else "plain"
            values = [self.input(name, call * 100, shapes[name], layout) for name in inputs]
            varied = call and vary_numbers
            numbers = [str(chance.choice(each) if varied else each[0]) for each in (FLOATS, WHOLES)]
            lines.append(f"    yield ({', '.join((*values, *numbers))}), {{}}")
        return lines

    def options(self) -> str:
        dynamic = self.chance.choice((None, None, True))
        return f"\nOPTIONS = {{'backend': 'native', 'dynamic': {dynamic}}}"


def program(seed: int) -> str:
    """The source text of the program numbered `seed`."""
    return VaryingMaker(seed).program()
