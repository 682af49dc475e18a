"""pytorch_optimizer: optimizers, three steps each, and losses."""

import pytorch_optimizer
from common import fill, say, torch, wave

x, y = wave(8, 3), wave(8, 2, phase=1.0)
DRAW = {"alice", "gravity", "kron", "lorarite", "magma"}
"""These begin with random numbers."""
ran = []
for name in sorted(pytorch_optimizer.get_supported_optimizers())[:80]:
    net = fill(torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2)))
    try:
        optimizer = pytorch_optimizer.load_optimizer(name)(net.parameters(), lr=0.01)
        for _ in range(3):
            optimizer.zero_grad()
            (net(x) - y).square().mean().backward()
            optimizer.step()
    except Exception as error:
        say(name, type(error).__name__)
        continue
    if name not in DRAW:
        say(name, [parameter.detach().sum() for parameter in net.parameters()])
    ran.append(name)
say("ran", " ".join(ran))
for loss in ("BCEFocalLoss", "FocalLoss", "JaccardLoss", "DiceLoss", "TverskyLoss", "LovaszHingeLoss"):
    found = getattr(pytorch_optimizer, loss, None)
    if found is not None and loss in ("BCEFocalLoss", "FocalLoss"):
        say(loss, found()(wave(6).sigmoid(), (wave(6) > 0).float()))
