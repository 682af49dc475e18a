"""torchopt: functional optimizers, differentiable ones, and gradients through their steps."""

import torchopt
from common import fill, say, torch, wave

x, y = wave(8, 3), wave(8, 2, phase=1.0)
net = fill(torch.nn.Linear(3, 2))
for name in ("adam", "adamw", "sgd", "rmsprop", "adagrad", "adadelta", "adamax", "radam"):
    parameters = {key: value.detach().clone().requires_grad_() for key, value in net.named_parameters()}
    optimizer = getattr(torchopt, name)(lr=0.1)
    state = optimizer.init(parameters)
    for _ in range(3):
        loss = (torch.func.functional_call(net, parameters, (x,)) - y).square().mean()
        gradients = dict(zip(parameters, torch.autograd.grad(loss, list(parameters.values())), strict=True))
        updates, state = optimizer.update(gradients, state, params=parameters)
        parameters = torchopt.apply_updates(parameters, updates)
    say(name, list(parameters.values()))
weight = torch.nn.Parameter(torch.ones(()))
optimizer = torchopt.MetaAdam(net, lr=0.1)
for _ in range(2):
    optimizer.step((weight * (net(x) - y).square()).mean())
outer = (net(x) - y).square().mean()
say("meta", [outer, *torch.autograd.grad(outer, weight)])
other = fill(torch.nn.Linear(3, 2))
optimizer = torchopt.Adam(other.parameters(), lr=0.1)
for _ in range(3):
    loss = (other(x) - y).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
say("object", list(other.parameters()))
