"""safetensors.torch: files of tensors, of models with shared weights, and pieces of them."""

import tempfile

from common import fill, say, torch, wave
from safetensors import safe_open
from safetensors.torch import load, load_file, load_model, save, save_file, save_model

folder = tempfile.mkdtemp()
kinds = (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.float8_e4m3fn)
tensors = {f"x{place}": wave(3, 4).to(kind) for place, kind in enumerate(kinds)}
tensors |= {"whole": torch.arange(5), "flags": torch.arange(5) > 2}
save_file(tensors, f"{folder}/x.safetensors", metadata={"format": "pt"})
for name, value in load_file(f"{folder}/x.safetensors").items():
    say(name, value.float())
say("bytes", load(save({"x": wave(2, 2)}))["x"])
with safe_open(f"{folder}/x.safetensors", framework="pt") as file:
    say("slice", file.get_slice("x0")[1:, :2])
    say("keys", " ".join(sorted(file.keys())))
net = fill(torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Linear(3, 3)))
net[1].weight = net[0].weight
save_model(net, f"{folder}/net.safetensors")
other = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Linear(3, 3))
other[1].weight = other[0].weight
load_model(other, f"{folder}/net.safetensors")
say("model", [value for _, value in sorted(other.state_dict().items())])
