"""e3nn: representations of rotations, tensor products made by fx, spherical harmonics, a small net."""

from common import fill, say, torch, wave
from e3nn import o3
from e3nn.nn import FullyConnectedNet, Gate

x = wave(5, 3)
say("harmonics", o3.spherical_harmonics([0, 1, 2, 3], x, normalize=True, normalization="component"))
say("rotation", [o3.wigner_3j(1, 1, 2), o3.Irreps("1o + 2e").D_from_angles(*wave(3, 1).unbind(0))])
first, second = o3.Irreps("4x0e + 3x1o"), o3.Irreps("0e + 1o + 2e")
for product in (o3.FullyConnectedTensorProduct(first, second, "3x0e + 2x1o"), o3.FullTensorProduct(first,
second),
                o3.ElementwiseTensorProduct("2x0e + 2x1o", "2x1o + 2x0e")):  # fmt: skip
    fill(product)
    one, two = wave(5, product.irreps_in1.dim).requires_grad_(), wave(5, product.irreps_in2.dim, phase=1.0)
    out = product(one, two)
    say(type(product).__name__, [out, *torch.autograd.grad(out.square().sum(), one)])
linear = fill(o3.Linear("4x0e + 3x1o", "2x0e + 5x1o"))
say("linear", linear(wave(5, 13)))
gate = Gate("2x0e", [torch.tanh], "3x0e", [torch.sigmoid], "3x1o")
say("gate", gate(wave(5, gate.irreps_in.dim)))
net = fill(FullyConnectedNet([3, 8, 4], torch.nn.functional.silu))
say("net", net(x))
say("norm", o3.Norm("2x0e + 2x1o")(wave(5, 8)))
