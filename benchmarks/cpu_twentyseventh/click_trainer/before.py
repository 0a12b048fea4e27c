"""Click prediction with a factorisation machine plus MLP, run by the small trainer package."""
import argparse

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from before_pkg import BinaryAUROC, BinaryLogLoss, ProgressLogger, TaskModule, Trainer
from torch.utils.data import BatchSampler, DataLoader, Dataset, RandomSampler

FIELD_SIZES = [50, 200, 1000, 24, 7, 400, 90, 12]
NUM_DENSE = 10


class ClickLog(Dataset):
    def __init__(self, n, seed):
        rng = np.random.default_rng(seed)
        fields = np.stack([rng.integers(0, s, n) for s in FIELD_SIZES], axis=1)
        dense = rng.normal(size=(n, NUM_DENSE)).astype(np.float32)
        logit = dense[:, 0] - 0.7 * dense[:, 1] * dense[:, 2] - 1.0
        for i, size in enumerate(FIELD_SIZES):
            logit = logit + rng.normal(0, 0.5, size)[fields[:, i]]
        clicks = (rng.random(n) < 1 / (1 + np.exp(-logit))).astype(np.float32)
        offsets = np.concatenate([[0], np.cumsum(FIELD_SIZES)[:-1]])
        self.fields = torch.from_numpy(fields + offsets)
        self.dense = torch.from_numpy(dense)
        self.clicks = torch.from_numpy(clicks)

    def __len__(self):
        return len(self.clicks)

    def __getitem__(self, index):
        return self.fields[index], self.dense[index], self.clicks[index]


class ClickModule(TaskModule):
    def __init__(self, dim=8, hidden=96, lr=2e-3, max_steps=1000):
        super().__init__()
        self.lr = lr
        self.max_steps = max_steps
        self.embed = nn.Embedding(sum(FIELD_SIZES), dim)
        self.linear = nn.Embedding(sum(FIELD_SIZES), 1)
        self.mlp = nn.Sequential(
            nn.Linear(len(FIELD_SIZES) * dim + NUM_DENSE, hidden), nn.ReLU(),
            nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, 1),
        )
        nn.init.normal_(self.embed.weight, std=0.05)
        nn.init.zeros_(self.linear.weight)

    def forward(self, fields, dense):
        e = self.embed(fields)
        square = e.sum(1).pow(2).sum(1) - e.pow(2).sum((1, 2))
        deep = self.mlp(torch.cat([e.flatten(1), dense], dim=1)).squeeze(1)
        return self.linear(fields).sum((1, 2)) + 0.5 * square + deep

    def training_step(self, batch, batch_idx):
        fields, dense, clicks = batch
        scores = self(fields, dense)
        loss = F.binary_cross_entropy_with_logits(scores, clicks)
        self.log("loss", loss.item())
        return {"loss": loss, "scores": scores, "targets": clicks}

    def train_metrics(self):
        return {"auroc": BinaryAUROC(), "logloss": BinaryLogLoss()}

    def configure_optimizers(self):
        optimizer = torch.optim.Adam(self.parameters(), lr=self.lr)
        return optimizer, torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.1, self.max_steps)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=2500)
    parser.add_argument("--batch-size", type=int, default=768)
    parser.add_argument("--rows", type=int, default=30000)
    args = parser.parse_args()
    torch.manual_seed(17)
    dataset = ClickLog(args.rows, seed=17)
    sampler = BatchSampler(RandomSampler(dataset), args.batch_size, drop_last=True)
    loader = DataLoader(dataset, sampler=sampler, batch_size=None)
    module = ClickModule(max_steps=args.steps)
    trainer = Trainer(args.steps, callbacks=[ProgressLogger(every_n_steps=100)])
    trainer.fit(module, loader)
    print(f"final auroc {module.logged['auroc_epoch']:.4f} "
          f"logloss {module.logged['logloss_epoch']:.4f}")


if __name__ == "__main__":
    main()
