"""einops: patterns and layers."""

from common import fill, say, torch, train, wave
from einops import einsum, pack, rearrange, reduce, repeat, unpack
from einops.layers.torch import EinMix, Rearrange, Reduce

x = wave(2, 3, 4, 6).requires_grad_()
y = rearrange(x, "b c (h k) (w l) -> b (h w) (c k l)", k=2, l=3)
z = reduce(repeat(y, "b n d -> b n r d", r=2), "b n r d -> b d", "mean")
say("values", [y, z, einsum(y, y, "b n d, b m d -> b n m")])
say("gradient", torch.autograd.grad(z.square().sum(), x))
joined, shapes = pack([wave(2, 3), wave(2, 4, 5)], "b *")
say("packed", [joined, *unpack(joined, shapes, "b *")])
net = torch.nn.Sequential(
    Rearrange("b c h w -> b (h w) c"), EinMix("b n c -> b n d", weight_shape="c d", bias_shape="d", c=3, d=5),
    torch.nn.GELU(), Reduce("b n d -> b d", "max"),
)  # fmt: skip
train(fill(net), lambda: net(x.detach()).square().mean())
