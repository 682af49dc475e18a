"""A small GPT over characters: the model that the demo trains.

Takes a text; gives a model, batches and samples. One idea: it is what anybody would write for PyTorch, with
nothing in it that is there for the compiler.
"""

from __future__ import annotations

from typing import Any

import weft
from weft import nn
from weft.nn import functional
from weft.tensor.base import Tensor


class Block(nn.Module):
    """Attention to what came before, then two layers for each place."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before_attention, self.before_layers = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention, self.joined = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        parts = self.attention(self.before_attention(x)).view(
            batch, length, 3, self.heads, width // self.heads
        )
        query, key, value = parts.permute(2, 0, 3, 1, 4).unbind(0)
        seen = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.joined(seen.transpose(1, 2).reshape(batch, length, width))
        more: Tensor = self.narrow(functional.gelu(self.wide(self.before_layers(x))))
        return x + more


class GPT(nn.Module):
    """Which character comes next, for each place of a text."""

    def __init__(self, characters: int, length: int, width: int, heads: int, layers: int) -> None:
        super().__init__()
        self.length = length
        self.characters, self.places = nn.Embedding(characters, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList([Block(width, heads) for _ in range(layers)])
        self.last, self.scores = nn.LayerNorm(width), nn.Linear(width, characters)
        for module in self.modules():
            if isinstance(module, (nn.Linear, nn.Embedding)):
                nn.init.normal_(module.weight, std=0.02)

    def forward(self, text: Tensor) -> Tensor:
        x = self.characters(text) + self.places(weft.arange(text.shape[1]))
        for block in self.blocks:
            x = block(x)
        scores: Tensor = self.scores(self.last(x))
        return scores

    def size(self) -> int:
        return sum(parameter.numel() for parameter in self.parameters())


class Text:
    """A text as numbers, and numbers as text."""

    def __init__(self, text: str) -> None:
        self.alphabet = sorted(set(text))
        numbers = {character: number for number, character in enumerate(self.alphabet)}
        self.numbers = weft.tensor([numbers[character] for character in text])
        self.known = numbers

    def batch(self, size: int, length: int) -> tuple[Tensor, Tensor]:
        """Pieces of the text, and the same one character on."""
        starts = weft.randint(0, len(self.numbers) - length - 1, (size, 1))
        places = starts + weft.arange(length)
        return self.numbers[places], self.numbers[places + 1]

    def written(self, numbers: Any) -> str:
        return "".join(self.alphabet[int(number)] for number in numbers)


def sample(model: GPT, text: Text, start: str, count: int, temperature: float = 0.8) -> str:
    """What the model writes behind a beginning."""
    numbers = [text.known[character] for character in start if character in text.known] or [0]

    def chances(seen: Tensor, last: Tensor) -> Tensor:
        with weft.no_grad():
            return functional.softmax(model(seen)[0, last] / temperature, dim=-1)

    compiled = weft.compile(chances, fullgraph=True)
    for _ in range(count):
        latest = numbers[-model.length :]
        filled = [*latest, *[0] * (model.length - len(latest))]  # of one size; what comes later is not seen
        found = compiled(weft.tensor([filled]), weft.tensor(len(latest) - 1))
        numbers.append(int(weft.multinomial(found, 1)))
    return text.written(numbers)
