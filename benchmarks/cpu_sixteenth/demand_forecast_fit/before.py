"""Quantile forecasts of shop demand with a compact temporal-fusion network, run by the in-house trainer."""
import argparse
import tempfile

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from strider import DataModule, EarlyStopping, ModelCheckpoint, ProgressPrinter, StriderModule, Trainer

QUANTILES = (0.1, 0.5, 0.9)
FEATURES = ("sales", "price", "promo", "temperature", "weekday_sin", "weekday_cos", "stock", "footfall")


class GatedResidual(nn.Module):
    def __init__(self, d_in, d, d_out=None, dropout=0.1):
        super().__init__()
        d_out = d_out or d
        self.fc1, self.fc2 = nn.Linear(d_in, d), nn.Linear(d, d)
        self.gate = nn.Linear(d, 2 * d_out)
        self.skip = nn.Linear(d_in, d_out) if d_in != d_out else nn.Identity()
        self.norm, self.drop = nn.LayerNorm(d_out), nn.Dropout(dropout)

    def forward(self, x):
        h = self.drop(self.fc2(F.elu(self.fc1(x))))
        return self.norm(self.skip(x) + F.glu(self.gate(h), -1))


class VariableSelection(nn.Module):
    def __init__(self, n_vars, d):
        super().__init__()
        self.embed = nn.ModuleList(nn.Linear(1, d) for _ in range(n_vars))
        self.grns = nn.ModuleList(GatedResidual(d, d) for _ in range(n_vars))
        self.weight = GatedResidual(n_vars * d, d, n_vars)

    def forward(self, x):
        parts = [emb(x[..., i: i + 1]) for i, emb in enumerate(self.embed)]
        w = self.weight(torch.cat(parts, -1)).softmax(-1)
        done = torch.stack([g(p) for g, p in zip(self.grns, parts)], -1)
        return (done * w.unsqueeze(-2)).sum(-1)


class DecayCell(nn.Module):
    """GRU-like cell with a learnt decay of the state between shop days."""

    def __init__(self, d):
        super().__init__()
        self.x, self.h = nn.Linear(d, 3 * d), nn.Linear(d, 3 * d)
        self.decay = nn.Parameter(torch.zeros(d))

    def forward(self, x_proj, h):
        h = h * torch.exp(-F.softplus(self.decay))
        xr, xz, xn = x_proj.chunk(3, -1)
        hr, hz, hn = self.h(h).chunk(3, -1)
        r, z = torch.sigmoid(xr + hr), torch.sigmoid(xz + hz)
        n = torch.tanh(xn + r * hn)
        return (1 - z) * n + z * h


class DemandForecaster(StriderModule):
    def __init__(self, d=24, horizon=7, lr=3e-3, steps=40):
        super().__init__()
        self.lr, self.steps, self.horizon = lr, steps, horizon
        self.select = VariableSelection(len(FEATURES), d)
        self.cell = DecayCell(d)
        self.attn = nn.MultiheadAttention(d, 2, batch_first=True)
        self.post = GatedResidual(d, d)
        self.out = nn.Linear(d, horizon * len(QUANTILES))

    def forward(self, x):
        v = self.select(x)
        proj = self.cell.x(v)
        h, states = torch.zeros_like(v[:, 0]), []
        for step in proj.unbind(1):
            h = self.cell(step, h)
            states.append(h)
        seq = torch.stack(states, 1)
        ctx, _ = self.attn(seq[:, -1:], seq, seq, need_weights=False)
        return self.out(self.post(ctx[:, 0] + h)).view(-1, self.horizon, len(QUANTILES))

    def quantile_loss(self, pred, y):
        q = torch.tensor(QUANTILES)
        err = y.unsqueeze(-1) - pred
        return torch.maximum(q * err, (q - 1) * err).mean()

    def training_step(self, batch, batch_idx):
        x, y = batch
        loss = self.quantile_loss(self(x), y)
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch, batch_idx):
        x, y = batch
        pred = self(x)
        self.log("val_loss", self.quantile_loss(pred, y))
        self.log("val_cover", ((y > pred[..., 0]) & (y < pred[..., 2])).float().mean())

    def configure_optimizers(self):
        opt = torch.optim.AdamW(self.parameters(), lr=self.lr, weight_decay=1e-3, foreach=True)
        return opt, torch.optim.lr_scheduler.CosineAnnealingLR(opt, self.steps)


class ShopData(DataModule):
    def __init__(self, shops=60, days=220, history=42, horizon=7, batch_size=64):
        self.shops, self.days, self.history, self.horizon, self.bs = shops, days, history, horizon, batch_size

    def setup(self):
        rng = np.random.default_rng(0)
        t = np.arange(self.days)
        xs, ys = [], []
        for _ in range(self.shops):
            promo = (rng.random(self.days) < 0.1).astype(float)
            price = 1 + 0.1 * rng.standard_normal(self.days) - 0.2 * promo
            temp = np.sin(2 * np.pi * t / 365 + rng.random()) + 0.2 * rng.standard_normal(self.days)
            week = np.stack([np.sin(2 * np.pi * t / 7), np.cos(2 * np.pi * t / 7)])
            sales = 1 + 0.5 * week[0] + 0.7 * promo - 0.6 * (price - 1) + 0.2 * temp + 0.1 * rng.standard_normal(self.days)
            stock, foot = rng.random(self.days), sales + 0.3 * rng.standard_normal(self.days)
            f = np.stack([sales, price, promo, temp, *week, stock, foot], 1)
            for s in range(0, self.days - self.history - self.horizon, 3):
                xs.append(f[s: s + self.history])
                ys.append(sales[s + self.history: s + self.history + self.horizon])
        x = torch.tensor(np.array(xs), dtype=torch.float32)
        y = torch.tensor(np.array(ys), dtype=torch.float32)
        perm = torch.randperm(len(x), generator=torch.Generator().manual_seed(0))
        cut = int(0.8 * len(x))
        self.train = TensorDataset(x[perm[:cut]], y[perm[:cut]])
        self.val = TensorDataset(x[perm[cut:]], y[perm[cut:]])

    def train_dataloader(self):
        return DataLoader(self.train, self.bs, shuffle=True, drop_last=True)

    def val_dataloader(self):
        return DataLoader(self.val, 256)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--max-steps", type=int, default=42)
    ap.add_argument("--max-epochs", type=int, default=3)
    ap.add_argument("--lr", type=float, default=3e-3)
    args = ap.parse_args()
    torch.manual_seed(0)

    workdir = tempfile.mkdtemp()
    checkpoint = ModelCheckpoint(workdir, monitor="val_loss")
    trainer = Trainer(
        max_epochs=args.max_epochs,
        max_steps=args.max_steps,
        gradient_clip_val=1.0,
        detect_anomaly=True,
        limit_val_batches=2,
        callbacks=[ProgressPrinter(14), checkpoint, EarlyStopping("val_loss", patience=3)],
    )
    trainer.fit(DemandForecaster(lr=args.lr, steps=args.max_steps), ShopData())
    print(f"best val loss {checkpoint.best:.4f}")


if __name__ == "__main__":
    main()
