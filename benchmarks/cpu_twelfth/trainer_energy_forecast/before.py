"""Day-ahead load forecasting with a small home-grown trainer (module / callbacks / logger)."""
import argparse
import json
import tempfile
from pathlib import Path

import torch
import torch.nn as nn
import torch.nn.functional as F


# ------------------------------------------------------------------ data
class LoadDataModule:
    """Hourly load of 32 substations: two weeks of history in, the next day out."""

    def __init__(self, hours=6000, sites=32, window=336, horizon=24, batch_size=512):
        g = torch.Generator().manual_seed(5)
        t = torch.arange(hours, dtype=torch.float32)
        phase = torch.rand(sites, 1, generator=g) * 6.28
        daily = torch.sin(2 * torch.pi * t / 24 + phase)
        weekly = 0.5 * torch.sin(2 * torch.pi * t / 168 + 2 * phase)
        self.series = daily + weekly + 0.2 * torch.randn(sites, hours, generator=g)
        self.windows = self.series.unfold(1, window + horizon, 1)
        self.window, self.batch_size = window, batch_size

    def batches(self):
        g = torch.Generator().manual_seed(6)
        sites, starts, _ = self.windows.shape
        while True:
            s = torch.randint(sites, (self.batch_size,), generator=g)
            i = torch.randint(starts, (self.batch_size,), generator=g)
            chunk = self.windows[s, i]
            yield chunk[:, :self.window], chunk[:, self.window:]


# ------------------------------------------------------------------ module
class Forecaster(nn.Module):
    def __init__(self, window=336, horizon=24, width=256, blocks=3):
        super().__init__()
        self.inp = nn.Linear(window, width)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width), nn.GELU(), nn.Linear(width, width))
            for _ in range(blocks))
        self.out = nn.Linear(width, horizon)

    def forward(self, x):
        x = self.inp(x)
        for block in self.blocks:
            x = x + block(x)
        return self.out(x)

    def training_step(self, batch):
        x, y = batch
        return F.smooth_l1_loss(self(x), y)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=3e-4, fused=True)


# ------------------------------------------------------------------ logger and callbacks
class JsonLogger:
    def __init__(self, path, every_n_steps):
        self.path, self.every_n_steps = Path(path), every_n_steps
        self.rows = 0

    def log_metrics(self, metrics, step):
        if step % self.every_n_steps != 0:
            return
        with self.path.open("a") as f:
            f.write(json.dumps({"step": step, **metrics}) + "\n")
        self.rows += 1


class Callback:
    def on_fit_start(self, trainer, module): ...
    def on_after_backward(self, trainer, module): ...
    def on_train_batch_end(self, trainer, module, loss): ...


class LossTracker(Callback):
    def __init__(self, beta=0.95):
        self.beta, self.value = beta, None

    def on_train_batch_end(self, trainer, module, loss):
        v = loss.item()
        self.value = v if self.value is None else self.beta * self.value + (1 - self.beta) * v
        trainer.logger.log_metrics({"train_loss": self.value}, trainer.global_step)


class ParameterSummary(Callback):
    """Distribution of weights and size of gradients per layer, for the run dashboard."""

    def __init__(self, probs=(0.05, 0.5, 0.95)):
        self.probs = torch.tensor(probs)

    def _describe(self, t):
        q = torch.quantile(t.flatten(), self.probs).tolist()
        return {"mean": t.mean().item(), "std": t.std().item(), "p05": q[0], "p50": q[1], "p95": q[2]}

    @torch.no_grad()
    def on_after_backward(self, trainer, module):
        summary = {}
        for name, p in module.named_parameters():
            if p.dim() < 2:
                continue
            summary[f"weight/{name}"] = self._describe(p)
            summary[f"grad_norm/{name}"] = p.grad.norm().item()
        trainer.logger.log_metrics(summary, trainer.global_step)


# ------------------------------------------------------------------ trainer
class Trainer:
    def __init__(self, max_steps, logger, callbacks):
        self.max_steps, self.logger, self.callbacks = max_steps, logger, callbacks
        self.global_step = 0

    def call(self, hook, *args):
        for cb in self.callbacks:
            getattr(cb, hook)(self, *args)

    def fit(self, module, datamodule):
        optimizer = module.configure_optimizers()
        module.train()
        self.call("on_fit_start", module)
        batches = datamodule.batches()
        while self.global_step < self.max_steps:
            loss = module.training_step(next(batches))
            optimizer.zero_grad()
            loss.backward()
            self.call("on_after_backward", module)
            optimizer.step()
            self.call("on_train_batch_end", module, loss)
            self.global_step += 1


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--log-every", type=int, default=20)
    args = parser.parse_args()

    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as tmp:
        logger = JsonLogger(Path(tmp) / "metrics.jsonl", args.log_every)
        tracker = LossTracker()
        trainer = Trainer(args.steps, logger, [tracker, ParameterSummary()])
        trainer.fit(Forecaster(), LoadDataModule())
        loss = float("nan") if tracker.value is None else tracker.value
        print(f"steps={trainer.global_step} train_loss={loss:.4f} logged_rows={logger.rows}")


if __name__ == "__main__":
    main()
