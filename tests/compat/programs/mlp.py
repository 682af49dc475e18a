"""A small network on two spirals: data and weights from NumPy, Adam with a schedule."""

import json
import sys

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.optim.lr_scheduler import StepLR


def spirals(count, generator):
    turns = generator.random(count) * 3.0
    label = generator.integers(0, 2, count)
    angle = turns * 2.0 + label * np.pi
    points = np.stack([turns * np.cos(angle), turns * np.sin(angle)], axis=1)
    points += generator.normal(0, 0.05, points.shape)
    return torch.from_numpy(points.astype(np.float32)), torch.from_numpy(label.astype(np.int64))


class Classifier(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(2, width, bias=False),
            nn.BatchNorm1d(width),
            nn.ReLU(),
            nn.Linear(width, width),
            nn.LayerNorm(width),
            nn.GELU(),
        )
        self.head = nn.Linear(width, 2)

    def forward(self, x):
        return self.head(self.layers(x))


def fill(module, seed):
    generator = np.random.default_rng(seed)
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            if parameter.dim() > 1:
                scale = 1.0 / np.sqrt(parameter.shape[-1])
                values = generator.normal(0, scale, tuple(parameter.shape)).astype(np.float32)
                parameter.copy_(torch.from_numpy(values))
            elif name.endswith("bias"):
                parameter.zero_()


def main(epochs=4):
    generator = np.random.default_rng(0)
    points, labels = spirals(256, generator)
    model = Classifier(32)
    fill(model, 1)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model.to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-2, weight_decay=1e-2)
    scheduler = StepLR(optimizer, step_size=2, gamma=0.5)
    losses = []
    for _ in range(epochs):
        model.train()
        for batch in torch.from_numpy(generator.permutation(len(points))).split(64):
            optimizer.zero_grad(set_to_none=True)
            loss = F.cross_entropy(model(points[batch].to(device)), labels[batch].to(device))
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
            optimizer.step()
            losses.append(loss.item())
        scheduler.step()
    model.eval()
    with torch.no_grad():
        whole = F.cross_entropy(model(points), labels, label_smoothing=0.1)
    losses += [whole.item(), scheduler.get_last_lr()[0]]
    return losses


if __name__ == "__main__":
    json.dump(main(), sys.stdout)
