"""diffusers: a toy UNet, trained to see noise, and schedulers that take it away."""

from common import fill, say, torch, train, wave
from diffusers import (
    AutoencoderKL,
    DDIMScheduler,
    DDPMScheduler,
    DPMSolverMultistepScheduler,
    EulerDiscreteScheduler,
    UNet2DConditionModel,
    UNet2DModel,
)  # fmt: skip

net = UNet2DModel(
    sample_size=8, in_channels=3, out_channels=3, layers_per_block=1, block_out_channels=(8, 16),
    norm_num_groups=4,
    down_block_types=("DownBlock2D", "AttnDownBlock2D"), up_block_types=("AttnUpBlock2D", "UpBlock2D"),
)  # fmt: skip
fill(net).eval()
images, noise, times = wave(2, 3, 8, 8), wave(2, 3, 8, 8, phase=2.0), torch.tensor([3, 40])
schedule = DDPMScheduler(num_train_timesteps=50)
noisy = schedule.add_noise(images, noise, times)
say("noisy", noisy)
train(net, lambda: (net(noisy, times).sample - noise).square().mean(), 2)
for kind in (DDIMScheduler, DPMSolverMultistepScheduler, EulerDiscreteScheduler):
    schedule = kind(num_train_timesteps=50)
    schedule.set_timesteps(4)
    sample = noise * schedule.init_noise_sigma
    with torch.no_grad():
        for step in schedule.timesteps:
            given = schedule.scale_model_input(sample, step)
            sample = schedule.step(net(given, step).sample, step, sample).prev_sample
    say(kind.__name__, sample)
conditional = UNet2DConditionModel(
    sample_size=8, in_channels=4, out_channels=4, layers_per_block=1, block_out_channels=(8, 16),
    norm_num_groups=4,
    down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"), up_block_types=("UpBlock2D",
    "CrossAttnUpBlock2D"),
    cross_attention_dim=8, attention_head_dim=4,
)  # fmt: skip
fill(conditional).eval()
say("conditional", conditional(wave(1, 4, 8, 8), 7, wave(1, 5, 8)).sample)
coder = fill(
    AutoencoderKL(block_out_channels=(8,), norm_num_groups=4, latent_channels=2, sample_size=8)
).eval()
say("coder", [coder.encode(images).latent_dist.mean, coder.decode(wave(2, 2, 8, 8)).sample])
