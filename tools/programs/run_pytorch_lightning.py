"""pytorch-lightning: a fitted module with validation, callbacks and a checkpoint."""

import tempfile

import pytorch_lightning as lightning
from common import fill, say, torch, wave


class Net(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.save_hyperparameters()
        self.net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))
        fill(self)

    def training_step(self, batch, place):
        loss = (self.net(batch[0]) - batch[1]).square().mean()
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch, place):
        self.log("val_loss", (self.net(batch[0]) - batch[1]).square().mean())

    def configure_optimizers(self):
        optimizer = torch.optim.Adam(self.parameters(), lr=0.05)
        return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 1)]


data = torch.utils.data.TensorDataset(wave(8, 3), wave(8, 1, phase=1.0))
loader = torch.utils.data.DataLoader(data, batch_size=2)
folder = tempfile.mkdtemp()
keep = lightning.callbacks.ModelCheckpoint(dirpath=folder, monitor="val_loss", filename="best")
trainer = lightning.Trainer(
    max_epochs=3, accelerator="cpu", logger=False, enable_progress_bar=False, enable_model_summary=False,
    callbacks=[keep, lightning.callbacks.EarlyStopping("val_loss")], gradient_clip_val=0.5,
    default_root_dir=folder,
)  # fmt: skip
module = Net()
trainer.fit(module, loader, loader)
say("parameters", list(module.parameters()))
say("told", [value for _, value in sorted(trainer.callback_metrics.items())])
say("validated", [torch.tensor(each["val_loss"]) for each in trainer.validate(module, loader, verbose=False)])
again = Net.load_from_checkpoint(f"{folder}/best.ckpt")
say("loaded", list(again.parameters()))
