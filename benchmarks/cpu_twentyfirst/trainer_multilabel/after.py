"""Multi-label tagging of sensor records with a small trainer and callbacks."""
import argparse
import json
import statistics
import sys
import time
from collections import deque

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

N_FEATURES, N_TAGS = 96, 12
BATCH = 256


class Records:
    """Records whose tags depend on a few random nonlinear projections."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.project = self.rng.normal(0, 1, (N_FEATURES, 24)) / np.sqrt(N_FEATURES)
        self.mix = self.rng.normal(0, 1, (24, N_TAGS))

    def __iter__(self):
        while True:
            x = self.rng.normal(0, 1, (BATCH, N_FEATURES))
            score = np.tanh(2 * x @ self.project) @ self.mix
            y = score + self.rng.normal(0, 0.5, score.shape) > 1.5
            yield torch.from_numpy(x).float(), torch.from_numpy(y).float()


class Tagger(nn.Module):
    """Residual MLP; the trainer calls training_step and configure_optimizers."""

    def __init__(self, width=160, depth=2):
        super().__init__()
        self.stem = nn.Linear(N_FEATURES, width)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.GELU(),
                          nn.Dropout(0.1), nn.Linear(2 * width, width)) for _ in range(depth))
        self.head = nn.Linear(width, N_TAGS)

    def forward(self, x):
        h = self.stem(x)
        for block in self.blocks:
            h = h + block(h)
        return self.head(h)

    def training_step(self, batch):
        x, y = batch
        logits = self(x)
        loss = F.binary_cross_entropy_with_logits(logits, y)
        return {"loss": loss, "logits": logits.detach(), "target": y}

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3, weight_decay=0.01)


class MeanAveragePrecision:
    """Average precision per tag over the most recent batches, averaged over tags."""

    def __init__(self, window):
        self.scores, self.targets = deque(maxlen=window), deque(maxlen=window)

    def update(self, scores, targets):
        self.scores.append(scores)
        self.targets.append(targets)

    def compute(self):
        scores, targets = torch.cat(list(self.scores)), torch.cat(list(self.targets))
        order = scores.argsort(dim=0, descending=True)
        hits = targets.gather(0, order)
        ranks = torch.arange(1, len(hits) + 1).unsqueeze(1)
        precision = hits.cumsum(0) / ranks
        return ((precision * hits).sum(0) / hits.sum(0).clamp(min=1)).mean().item()


class Callback:
    def on_train_start(self, trainer): ...
    def on_batch_start(self, trainer): ...
    def on_batch_end(self, trainer, outputs): ...


class MetricsCallback(Callback):
    def __init__(self, every, window=100):
        self.every = every
        self.metric = MeanAveragePrecision(window)

    def on_batch_end(self, trainer, outputs):
        self.metric.update(outputs["logits"].sigmoid(), outputs["target"])
        trainer.logged["loss"] = outputs["loss"].item()
        if (trainer.step + 1) % self.every == 0:
            trainer.logged["map"] = self.metric.compute()


class WarmupCallback(Callback):
    def __init__(self, steps, lr):
        self.steps, self.lr = steps, lr

    def on_batch_start(self, trainer):
        for group in trainer.optimizer.param_groups:
            group["lr"] = self.lr * min(1.0, (trainer.step + 1) / self.steps)


class ProgressCallback(Callback):
    def __init__(self, every):
        self.every = every

    def on_batch_end(self, trainer, outputs):
        if (trainer.step + 1) % self.every == 0:
            print(f"step {trainer.step + 1} loss {trainer.logged['loss']:.5f} "
                  f"map {trainer.logged['map']:.5f}", file=sys.stderr)


class Trainer:
    def __init__(self, max_steps, callbacks, clip=1.0):
        self.max_steps, self.callbacks, self.clip = max_steps, callbacks, clip
        self.step, self.logged, self.times = 0, {}, []

    def call(self, hook, *args):
        for callback in self.callbacks:
            getattr(callback, hook)(self, *args)

    def fit(self, model, data):
        self.optimizer = model.configure_optimizers()
        self.call("on_train_start")
        batches = iter(data)
        for self.step in range(self.max_steps):
            t0 = time.perf_counter()
            self.call("on_batch_start")
            outputs = model.training_step(next(batches))
            self.optimizer.zero_grad()
            outputs["loss"].backward()
            nn.utils.clip_grad_norm_(model.parameters(), self.clip)
            self.optimizer.step()
            self.call("on_batch_end", outputs)
            self.times.append((time.perf_counter() - t0) * 1000)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=250)
    args = parser.parse_args()

    torch.manual_seed(0)
    trainer = Trainer(args.steps, [
        WarmupCallback(20, 1e-3), MetricsCallback(every=20), ProgressCallback(every=20)])
    trainer.fit(Tagger(), Records(seed=0))

    timed = trainer.times[5:] or trainer.times
    print(json.dumps({"ms": statistics.median(timed), "steps": args.steps}))


if __name__ == "__main__":
    main()
