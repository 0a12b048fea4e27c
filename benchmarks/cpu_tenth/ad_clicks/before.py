"""Click-through prediction, trained online on a log of ad impressions."""
import argparse

import torch
import torch.nn.functional as F
from torch import nn

FIELDS = (500, 2000, 24, 7, 40, 300)   # ad, site, hour, weekday, device, campaign
DENSE = 8
BATCH = 4096


class ImpressionLog:
    """Synthetic stream of impressions with a hidden linear click model."""

    def __init__(self, seed=1):
        self.gen = torch.Generator().manual_seed(seed)
        self.effects = [torch.randn(n, generator=self.gen) * 0.5 for n in FIELDS]
        self.slope = torch.randn(DENSE, generator=self.gen) * 0.4

    def batch(self):
        cats = torch.stack([torch.randint(0, n, (BATCH,), generator=self.gen) for n in FIELDS], dim=1)
        dense = torch.randn(BATCH, DENSE, generator=self.gen)
        logit = dense @ self.slope - 2.0
        for k, effect in enumerate(self.effects):
            logit = logit + effect[cats[:, k]]
        clicks = (torch.rand(BATCH, generator=self.gen) < logit.sigmoid()).float()
        return cats, dense, clicks


class ClickModel(nn.Module):
    def __init__(self, dim=16, hidden=128):
        super().__init__()
        # all fields share one table, each with its own range of rows
        self.table = nn.Embedding(sum(FIELDS), dim)
        nn.init.normal_(self.table.weight, std=0.05)
        offsets = torch.tensor((0,) + FIELDS[:-1]).cumsum(0)
        self.register_buffer("offsets", offsets)
        width = dim * len(FIELDS) + DENSE
        self.mlp = nn.Sequential(nn.Linear(width, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, 1))

    def forward(self, cats, dense):
        emb = self.table(cats + self.offsets).flatten(1)
        return self.mlp(torch.cat([emb, dense], dim=1)).squeeze(1)


class RocAuc:
    """Area under the ROC curve over everything seen since reset()."""

    def __init__(self):
        self.reset()

    def reset(self):
        self.scores, self.targets = [], []

    def update(self, scores, targets):
        self.scores.append(scores)
        self.targets.append(targets)

    def compute(self):
        scores, targets = torch.cat(self.scores), torch.cat(self.targets)
        _, inverse, count = torch.unique(scores, return_inverse=True, return_counts=True)
        upper = count.cumsum(0).double()
        rank = (upper - (count.double() - 1) / 2)[inverse]
        pos = targets.sum().double()
        neg = len(targets) - pos
        return (((rank * targets).sum() - pos * (pos + 1) / 2) / (pos * neg)).item()


class Callback:
    def on_train_begin(self, logs): ...
    def on_batch_end(self, logs): ...
    def on_train_end(self, logs): ...


class ProgressiveAuc(Callback):
    """Progressive validation: predictions made before the update, scored against the outcome."""

    def __init__(self):
        self.metric = RocAuc()

    def on_train_begin(self, logs):
        self.metric.reset()

    def on_batch_end(self, logs):
        self.metric.update(logs["scores"], logs["clicks"])
        logs["auc"] = self.metric.compute()


class SmoothedLoss(Callback):
    def on_train_begin(self, logs):
        logs["smooth"] = torch.zeros(())

    def on_batch_end(self, logs):
        logs["smooth"] = 0.95 * logs["smooth"] + 0.05 * logs["loss"]


def train(model, log, callbacks, steps):
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3, fused=True)
    logs = {}
    for cb in callbacks:
        cb.on_train_begin(logs)
    for _ in range(steps):
        cats, dense, clicks = log.batch()
        logits = model(cats, dense)
        loss = F.binary_cross_entropy_with_logits(logits, clicks)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        logs.update(loss=loss.detach(), scores=logits.detach(), clicks=clicks)
        for cb in callbacks:
            cb.on_batch_end(logs)
    for cb in callbacks:
        cb.on_train_end(logs)
    return logs


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    args = parser.parse_args()
    torch.manual_seed(0)
    logs = train(ClickModel(), ImpressionLog(), [SmoothedLoss(), ProgressiveAuc()], args.steps)
    print(f"batches {args.steps}  smoothed loss {logs['smooth'].item():.4f}  progressive auc {logs['auc']:.5f}")


if __name__ == "__main__":
    main()
