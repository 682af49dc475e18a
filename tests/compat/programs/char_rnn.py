"""A recurrent model of characters: an embedding, an LSTM that keeps its state between chunks, SGD."""

import json
import sys

import numpy as np
import torch
from torch import nn

TEXT = "the weaver throws the weft through the warp; the warp holds, the weft turns, and cloth comes. " * 4


class CharRNN(nn.Module):
    def __init__(self, letters, width):
        super().__init__()
        self.embedding = nn.Embedding(letters, width)
        self.rnn = nn.LSTM(width, width, num_layers=2, batch_first=True)
        self.output = nn.Linear(width, letters)

    def forward(self, tokens, state=None):
        hidden, state = self.rnn(self.embedding(tokens), state)
        return self.output(hidden), state


def fill(module, seed):
    generator = np.random.default_rng(seed)
    for parameter in module.parameters():
        values = generator.uniform(-0.2, 0.2, tuple(parameter.shape)).astype(np.float32)
        parameter.data = torch.tensor(values)


def main(steps=12, length=16):
    letters = sorted(set(TEXT))
    index = {letter: number for number, letter in enumerate(letters)}
    data = torch.tensor([index[letter] for letter in TEXT], dtype=torch.long)
    rows = data[: len(data) // 4 * 4].view(4, -1)
    model = CharRNN(len(letters), 24)
    fill(model, 3)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9, nesterov=True)
    losses, state = [], None
    for step in range(steps):
        start = step * length % (rows.size(1) - length - 1)
        inputs, targets = rows[:, start : start + length], rows[:, start + 1 : start + length + 1]
        if state is not None:
            state = tuple(part.detach() for part in state)
        scores, state = model(inputs, state)
        loss = criterion(scores.reshape(-1, len(letters)), targets.reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_value_(model.parameters(), 0.5)
        optimizer.step()
        losses.append(loss.item())
    with torch.no_grad():
        scores, _ = model(rows[:1, :8])
        losses.append(torch.softmax(scores[0, -1], dim=0).max().item())
    return losses


if __name__ == "__main__":
    json.dump(main(), sys.stdout)
