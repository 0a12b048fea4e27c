"""Forecast electrical load of several feeders with a patched transformer, trained by Lightning."""
import argparse
import json
import logging
import tempfile
import time
import warnings

import lightning as L
import torch
import torch.nn as nn
import torch.nn.functional as F
from lightning.pytorch.loggers import CSVLogger
from lightning.pytorch.utilities import grad_norm
from torch.utils.data import DataLoader, Dataset

warnings.filterwarnings("ignore")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)


class LoadWindows(Dataset):
    """Sliding windows over hourly load of all feeders."""

    def __init__(self, n_windows, feeders, lookback, horizon):
        g = torch.Generator().manual_seed(11)
        hours = 6000
        t = torch.arange(hours).unsqueeze(1)
        day = torch.sin(2 * torch.pi * t / 24 + torch.rand(feeders, generator=g) * 6)
        week = torch.sin(2 * torch.pi * t / 168 + torch.rand(feeders, generator=g) * 6)
        self.series = day + 0.5 * week + 0.2 * torch.randn(hours, feeders, generator=g)
        self.starts = torch.randint(0, hours - lookback - horizon, (n_windows,), generator=g).tolist()
        self.lookback = lookback
        self.horizon = horizon

    def __len__(self):
        return len(self.starts)

    def __getitem__(self, i):
        a = self.starts[i]
        b = a + self.lookback
        return self.series[a:b], self.series[b:b + self.horizon]


class PatchTransformer(nn.Module):
    def __init__(self, lookback, horizon, patch, width, heads, layers):
        super().__init__()
        self.patch = patch
        n_patches = lookback // patch
        self.embed = nn.Linear(patch, width)
        self.position = nn.Parameter(0.02 * torch.randn(n_patches, width))
        layer = nn.TransformerEncoderLayer(
            width, heads, 4 * width, dropout=0.1, activation="gelu", batch_first=True, norm_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(n_patches * width, horizon)

    def forward(self, x):
        b, t, c = x.shape
        mean = x.mean(dim=1, keepdim=True)
        std = x.std(dim=1, keepdim=True) + 1e-5
        x = ((x - mean) / std).transpose(1, 2).reshape(b * c, t // self.patch, self.patch)
        h = self.norm(self.encoder(self.embed(x) + self.position))
        y = self.head(h.flatten(1)).view(b, c, -1).transpose(1, 2)
        return y * std + mean


class Forecaster(L.LightningModule):
    def __init__(self, net, lr):
        super().__init__()
        self.net = net
        self.lr = lr

    def training_step(self, batch, batch_idx):
        past, future = batch
        loss = F.huber_loss(self.net(past), future)
        self.log("train/loss", loss)
        return loss

    def on_before_optimizer_step(self, optimizer):
        if (self.trainer.global_step + 1) % self.trainer.log_every_n_steps == 0:
            self.log_dict(grad_norm(self.net, norm_type=2))

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=self.lr, weight_decay=0.01)


class StepClock(L.Callback):
    def __init__(self, warmup):
        self.warmup = warmup
        self.seconds = 0.0

    @staticmethod
    def _now():
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        return time.perf_counter()

    def on_train_batch_start(self, trainer, module, batch, batch_idx):
        if batch_idx == self.warmup:
            self._start = self._now()

    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        if trainer.global_step == trainer.max_steps:
            self.seconds = self._now() - self._start


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--small", action="store_true")
    opt = parser.parse_args()
    L.seed_everything(4, verbose=False)
    torch.set_float32_matmul_precision("high")
    on_gpu = torch.cuda.is_available()

    batch = 8 if opt.small else 224
    feeders = 2 if opt.small else 8
    lookback, horizon = (96, 24) if opt.small else (504, 96)
    windows = LoadWindows((opt.steps + 10) * batch, feeders, lookback, horizon)
    loader = DataLoader(
        windows,
        batch_size=batch,
        shuffle=True,
        num_workers=0 if opt.small else 4,
        pin_memory=on_gpu,
        drop_last=True,
    )

    net = PatchTransformer(
        lookback,
        horizon,
        patch=12,
        width=32 if opt.small else 256,
        heads=4 if opt.small else 8,
        layers=2 if opt.small else 8,
    )
    module = Forecaster(net, lr=3e-4)
    clock = StepClock(warmup=10)
    with tempfile.TemporaryDirectory() as folder:
        trainer = L.Trainer(
            max_steps=opt.steps + 10,
            max_epochs=-1,
            accelerator="gpu" if on_gpu else "cpu",
            devices=1,
            precision="bf16-mixed" if on_gpu else "32-true",
            logger=CSVLogger(folder),
            callbacks=[clock],
            gradient_clip_val=1.0,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
        )
        trainer.fit(module, loader)

    peak = torch.cuda.max_memory_allocated() / 2**20 if on_gpu else 0
    print(json.dumps({"ms": 1000 * clock.seconds / opt.steps, "peak_mb": peak}))


if __name__ == "__main__":
    main()
