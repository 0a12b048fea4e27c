"""Load forecasting with a small trainer that has callbacks and a LightningModule-like API."""
import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F

WINDOW = 96
AHEAD = 24


# ---------------------------------------------------------------- trainer
class Callback:
    def on_fit_start(self, trainer, module):
        pass

    def on_batch_end(self, trainer, module, loss):
        pass

    def on_fit_end(self, trainer, module):
        pass


class LossHistory(Callback):
    def __init__(self):
        self.values = []

    def on_batch_end(self, trainer, module, loss):
        self.values.append(loss.detach())

    def on_fit_end(self, trainer, module):
        self.mean = torch.stack(self.values[-10:]).mean().item()


class WarmupLR(Callback):
    def __init__(self, warmup):
        self.warmup = warmup

    def on_fit_start(self, trainer, module):
        self.base = [g["lr"] for g in trainer.optimizer.param_groups]
        self._apply(trainer, 1)

    def on_batch_end(self, trainer, module, loss):
        self._apply(trainer, trainer.global_step + 1)

    def _apply(self, trainer, step):
        for group, base in zip(trainer.optimizer.param_groups, self.base):
            group["lr"] = base * min(1.0, step / self.warmup)


class Trainer:
    def __init__(self, max_steps, callbacks=(), gradient_clip_val=None, detect_anomaly=False):
        self.max_steps = max_steps
        self.callbacks = list(callbacks)
        self.gradient_clip_val = gradient_clip_val
        self.detect_anomaly = detect_anomaly
        self.global_step = 0

    def _call(self, hook, *args):
        for callback in self.callbacks:
            getattr(callback, hook)(self, *args)

    def fit(self, module, loader):
        self.optimizer = module.configure_optimizers()
        self._call("on_fit_start", module)
        module.train()
        with torch.autograd.set_detect_anomaly(self.detect_anomaly):
            while self.global_step < self.max_steps:
                for batch in loader:
                    loss = module.training_step(batch)
                    self.optimizer.zero_grad()
                    loss.backward()
                    if self.gradient_clip_val:
                        nn.utils.clip_grad_norm_(module.parameters(), self.gradient_clip_val)
                    self.optimizer.step()
                    self.global_step += 1
                    self._call("on_batch_end", module, loss)
                    if self.global_step == self.max_steps:
                        break
        self._call("on_fit_end", module)


# ---------------------------------------------------------------- model
class GatedCell(nn.Module):
    """Minimal gated unit with layer norm on the pre-activations."""

    def __init__(self, width):
        super().__init__()
        self.hidden = nn.Linear(width, 2 * width, bias=False)
        self.norm = nn.LayerNorm(2 * width)

    def forward(self, x_proj, h):
        gate, cand = (x_proj + self.norm(self.hidden(h))).chunk(2, dim=-1)
        gate = torch.sigmoid(gate)
        return gate * h + (1 - gate) * torch.tanh(cand)


class LoadForecaster(nn.Module):
    def __init__(self, width=128, patch=4, lr=3e-3):
        super().__init__()
        self.patch, self.width, self.lr = patch, width, lr
        self.embed = nn.Linear(patch, 2 * width)
        self.cell = GatedCell(width)
        self.head = nn.Linear(width, AHEAD)

    def forward(self, x):
        steps = self.embed(x.unflatten(1, (-1, self.patch)))
        h = x.new_zeros(x.shape[0], self.width)
        for x_proj in steps.unbind(dim=1):
            h = self.cell(x_proj, h)
        return x[:, -AHEAD:] + self.head(h)

    def training_step(self, batch):
        x, y = batch
        return F.smooth_l1_loss(self(x), y)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=self.lr)


# ---------------------------------------------------------------- data
class LoadSeries(torch.utils.data.Dataset):
    """Hourly load with a daily and a weekly rhythm."""

    def __init__(self, hours=4000, seed=3):
        gen = torch.Generator().manual_seed(seed)
        t = torch.arange(hours)
        day = torch.sin(2 * torch.pi * t / 24)
        week = torch.cos(2 * torch.pi * t / 168)
        self.load = day + 0.4 * week + 0.1 * torch.randn(hours, generator=gen)

    def __len__(self):
        return len(self.load) - WINDOW - AHEAD

    def __getitem__(self, i):
        return self.load[i:i + WINDOW], self.load[i + WINDOW:i + WINDOW + AHEAD]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    args = parser.parse_args()

    torch.manual_seed(0)
    loader = torch.utils.data.DataLoader(
        LoadSeries(), batch_size=32, shuffle=True, drop_last=True,
        generator=torch.Generator().manual_seed(1),
    )
    history = LossHistory()
    trainer = Trainer(
        max_steps=args.steps,
        callbacks=[history, WarmupLR(20)],
        gradient_clip_val=1.0,
        detect_anomaly=False,
    )
    trainer.fit(LoadForecaster(), loader)
    print(f"steps {args.steps} mean of the last losses {history.mean:.5f}")


if __name__ == "__main__":
    main()
