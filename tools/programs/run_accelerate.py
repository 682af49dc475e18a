"""accelerate: a loop with accumulation, clipping, a schedule, and saved state."""

import tempfile

from accelerate import Accelerator, init_empty_weights
from accelerate.utils import set_seed
from common import fill, say, torch, wave

set_seed(0)
accelerator = Accelerator(gradient_accumulation_steps=2, cpu=True)
net = fill(torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1)))
optimizer = torch.optim.AdamW(net.parameters(), lr=0.05)
schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 / (1 + step))
data = torch.utils.data.TensorDataset(wave(8, 3), wave(8, 1, phase=1.0))
loader = torch.utils.data.DataLoader(data, batch_size=2)
net, optimizer, loader, schedule = accelerator.prepare(net, optimizer, loader, schedule)
for x, y in loader:
    with accelerator.accumulate(net):
        loss = (net(x) - y).square().mean()
        accelerator.backward(loss)
        if accelerator.sync_gradients:
            say("norm", accelerator.clip_grad_norm_(net.parameters(), 0.1))
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
say("parameters", list(net.parameters()))
say("gathered", accelerator.gather_for_metrics(loss.detach()))
folder = tempfile.mkdtemp()
accelerator.save_state(folder)
fill(net)
accelerator.load_state(folder)
say("loaded", list(accelerator.unwrap_model(net).parameters()))
with init_empty_weights():
    empty = torch.nn.Linear(1000, 1000)
say("device", str(empty.weight.device))
