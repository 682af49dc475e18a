"""torch-optimizer: every optimizer it has, three steps each."""

import torch_optimizer
from common import fill, say, torch, wave

x, y = wave(8, 3), wave(8, 2, phase=1.0)
ran = []
for name in sorted(torch_optimizer._NAME_OPTIM_MAP if hasattr(torch_optimizer, "_NAME_OPTIM_MAP") else []):
    cls = torch_optimizer._NAME_OPTIM_MAP[name]
    net = fill(torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2)))
    try:
        optimizer = cls(net.parameters(), lr=0.01)
        for _ in range(3):
            optimizer.zero_grad()
            (net(x) - y).square().mean().backward(create_graph=name == "adahessian")
            optimizer.step()
    except Exception as error:
        say(name, type(error).__name__)
        continue
    if name != "adahessian":  # it draws
        say(name, [parameter.detach().sum() for parameter in net.parameters()])
    ran.append(name)
say("ran", " ".join(ran))
