"""Multi-label findings from tabular and embedding features, with a small trainer of our own."""
import argparse
import json
import statistics
import sys
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

FINDINGS = 12
FEATURES = 256
BATCH = 512


class Metric:
    """Base of running metrics: update() adds a batch, compute() gives the value so far."""

    def __call__(self, *batch):
        self.update(*batch)
        return self.compute()


class MultilabelAUROC(Metric):
    def __init__(self):
        self.reset()

    def reset(self):
        self.scores, self.targets = [], []

    def update(self, scores, targets):
        self.scores.append(scores.detach())
        self.targets.append(targets)

    def compute(self):
        scores, targets = torch.cat(self.scores), torch.cat(self.targets)
        ranks = scores.argsort(0).argsort(0).double() + 1
        positive = targets.sum(0).double()
        negative = len(targets) - positive
        area = ((ranks * targets).sum(0) - positive * (positive + 1) / 2) / (positive * negative)
        return area.nanmean()


class Progress:
    """Prints the logged values every few steps."""

    def __init__(self, every=20):
        self.every = every

    def on_step_end(self, trainer):
        if trainer.step % self.every:
            return
        shown = []
        for name, value in trainer.logged.items():
            if isinstance(value, Metric):
                value = value.compute()
            shown.append(f"{name} {float(value):.5f}")
        print(f"step {trainer.step} " + " ".join(shown), file=sys.stderr)


class StepTimer:
    def __init__(self):
        self.times = []

    def on_step_start(self, trainer):
        self.t0 = time.perf_counter()

    def on_step_end(self, trainer):
        self.times.append((time.perf_counter() - self.t0) * 1000)


class Trainer:
    def __init__(self, max_steps, callbacks):
        self.max_steps = max_steps
        self.callbacks = callbacks
        self.logged = {}
        self.step = 0

    def call(self, hook):
        for callback in self.callbacks:
            getattr(callback, hook, lambda trainer: None)(self)

    def fit(self, module, loader):
        module.trainer = self
        optimizer = module.configure_optimizer()
        while self.step < self.max_steps:
            self.call("on_step_start")
            loss = module.training_step(loader())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            self.step += 1
            self.call("on_step_end")


class FindingsModule(nn.Module):
    def __init__(self, width=512):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(FEATURES, width), nn.LayerNorm(width), nn.GELU(),
            nn.Linear(width, width), nn.LayerNorm(width), nn.GELU(),
            nn.Linear(width, width), nn.LayerNorm(width), nn.GELU(),
            nn.Linear(width, FINDINGS),
        )
        self.auroc = MultilabelAUROC()

    def log(self, name, value):
        self.trainer.logged[name] = value

    def training_step(self, batch):
        x, y = batch
        logits = self.net(x)
        loss = F.binary_cross_entropy_with_logits(logits, y)
        self.log("loss", loss.detach())
        self.log("auroc", self.auroc(logits, y))
        return loss

    def configure_optimizer(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3)


class Studies:
    def __init__(self, seed):
        self.rng = torch.Generator().manual_seed(seed)
        self.truth = torch.randn(FEATURES, FINDINGS, generator=self.rng) / FEATURES ** 0.5

    def __call__(self):
        x = torch.randn(BATCH, FEATURES, generator=self.rng)
        noise = torch.randn(BATCH, FINDINGS, generator=self.rng)
        return x, (torch.tanh(2 * x) @ self.truth + 0.7 * noise > 0.8).float()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=120)
    args = parser.parse_args()

    torch.manual_seed(0)
    timer = StepTimer()
    trainer = Trainer(args.steps, [timer, Progress()])
    trainer.fit(FindingsModule(), Studies(seed=1))

    timed = timer.times[5:] or timer.times
    print(json.dumps({"ms": statistics.median(timed), "steps": args.steps}))


if __name__ == "__main__":
    main()
