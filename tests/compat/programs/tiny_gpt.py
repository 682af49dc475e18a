"""A transformer of two blocks with a causal mask: attention by hand, then the library's."""

import json
import math
import sys

import numpy as np
import torch
import torch.nn as nn
from torch.nn import functional as F


class Attention(nn.Module):
    def __init__(self, width, heads, length, fused):
        super().__init__()
        self.heads, self.fused = heads, fused
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.proj = nn.Linear(width, width)
        self.register_buffer("mask", torch.tril(torch.ones(length, length)).view(1, 1, length, length))

    def forward(self, x):
        batch, length, width = x.size()
        query, key, value = (
            part.view(batch, length, self.heads, width // self.heads).transpose(1, 2)
            for part in self.qkv(x).split(width, dim=2)
        )
        if self.fused:
            out = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        else:
            scores = query @ key.transpose(-2, -1) / math.sqrt(key.size(-1))
            scores = scores.masked_fill(self.mask[:, :, :length, :length] == 0, float("-inf"))
            out = F.softmax(scores, dim=-1) @ value
        return self.proj(out.transpose(1, 2).contiguous().view(batch, length, width))


class Block(nn.Module):
    def __init__(self, width, heads, length, fused):
        super().__init__()
        self.ln_1 = nn.LayerNorm(width)
        self.attention = Attention(width, heads, length, fused)
        self.ln_2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(approximate="tanh"), nn.Linear(4 * width, width)
        )

    def forward(self, x):
        x = x + self.attention(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class GPT(nn.Module):
    def __init__(self, vocabulary=17, width=32, heads=4, length=16):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.places = nn.Embedding(length, width)
        self.blocks = nn.ModuleList([Block(width, heads, length, fused) for fused in (False, True)])
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.tokens.weight
        self.apply(self.start)

    def start(self, module):
        if isinstance(module, (nn.Linear, nn.Embedding)):
            generator = np.random.default_rng(module.weight.numel())
            values = generator.normal(0, 0.1, tuple(module.weight.shape))
            module.weight.data.copy_(torch.as_tensor(values))
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)

    def forward(self, index, targets=None):
        x = self.tokens(index) + self.places(torch.arange(index.size(1), device=index.device))
        for block in self.blocks:
            x = block(x)
        scores = self.head(self.norm(x))
        if targets is None:
            return scores, None
        return scores, F.cross_entropy(scores.flatten(0, 1), targets.flatten(), ignore_index=-1)

    @torch.no_grad()
    def generate(self, index, count):
        for _ in range(count):
            scores, _ = self(index[:, -16:])
            index = torch.cat([index, scores[:, -1].argmax(-1, keepdim=True)], dim=1)
        return index


def groups(model, decay):
    matrices = [p for p in model.parameters() if p.requires_grad and p.dim() >= 2]
    others = [p for p in model.parameters() if p.requires_grad and p.dim() < 2]
    return [{"params": matrices, "weight_decay": decay}, {"params": others, "weight_decay": 0.0}]


def main(steps=10):
    torch.manual_seed(0)
    model = GPT()
    data = np.random.default_rng(5).integers(0, 17, (steps, 4, 17))
    data[:, :, 1::2] = (data[:, :, :-1:2] * 3 + 1) % 17
    optimizer = torch.optim.AdamW(groups(model, 0.1), lr=3e-3, betas=(0.9, 0.95))
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min(1.0, (step + 1) / 3) * 0.5 * (1 + math.cos(math.pi * step / steps))
    )
    losses = []
    for batch in data:
        tokens = torch.from_numpy(batch)
        _, loss = model(tokens[:, :-1], tokens[:, 1:])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    model.eval()
    losses += model.generate(torch.tensor([[1, 4]]), 6)[0].float().tolist()
    losses.append(float(sum(p.numel() for p in model.parameters())))
    return losses


if __name__ == "__main__":
    json.dump(main(), sys.stdout)
