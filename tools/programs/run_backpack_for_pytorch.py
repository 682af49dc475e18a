"""backpack: quantities beside gradients, by extended backward passes."""

from backpack import backpack, extend, extensions
from common import fill, say, torch, wave

x, y = wave(6, 1, 8, 8), torch.arange(6) % 3
net = torch.nn.Sequential(
    torch.nn.Conv2d(1, 2, 3), torch.nn.ReLU(), torch.nn.MaxPool2d(2), torch.nn.Flatten(), torch.nn.Linear(18,
    5),
    torch.nn.Sigmoid(), torch.nn.Linear(5, 3),
)  # fmt: skip
net, loss = extend(fill(net)), extend(torch.nn.CrossEntropyLoss())
wanted = {
    "grad_batch": extensions.BatchGrad(),
    "batch_l2": extensions.BatchL2Grad(),
    "variance": extensions.Variance(),
    "sum_grad_squared": extensions.SumGradSquared(),
    "diag_ggn_exact": extensions.DiagGGNExact(),
    "kflr": extensions.KFLR(),
    "kfra": extensions.KFRA(),
    "diag_h": extensions.DiagHessian(),
}
for name, extension in wanted.items():
    net.zero_grad()
    try:
        with backpack(extension):
            loss(net(x), y).backward()
        for place, parameter in enumerate(net.parameters()):
            say(f"{name}{place}", getattr(parameter, name))
    except NotImplementedError as error:
        say(name, type(error).__name__)
say("gradients", [parameter.grad for parameter in net.parameters()])
