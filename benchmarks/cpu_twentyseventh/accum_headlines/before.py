"""Next word model on headlines, trained with gradient accumulation to an effective batch of 16."""
import argparse
import time
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset


@dataclass
class TrainConfig:
    vocab_size: int = 3000
    seq_len: int = 24
    d_model: int = 160
    n_heads: int = 4
    n_layers: int = 3
    micro_batch_size: int = 2
    effective_batch_size: int = 16
    lr: float = 3e-4
    max_grad_norm: float = 1.0
    seed: int = 11

    @property
    def accumulation_steps(self):
        return self.effective_batch_size // self.micro_batch_size


class Headlines(Dataset):
    """Word ids with a Zipf distribution and a preferred successor for each word."""

    def __init__(self, n, config):
        rng = np.random.default_rng(config.seed)
        successor = rng.permutation(config.vocab_size)
        ids = np.minimum(rng.zipf(1.3, (n, config.seq_len + 1)), config.vocab_size - 1)
        follow = rng.random((n, config.seq_len)) < 0.5
        for t in range(config.seq_len):
            ids[:, t + 1] = np.where(follow[:, t], successor[ids[:, t]], ids[:, t + 1])
        self.ids = torch.from_numpy(ids.astype(np.int64))

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, index):
        row = self.ids[index]
        return row[:-1], row[1:]


class Layer(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.norm1 = nn.LayerNorm(d_model)
        self.norm2 = nn.LayerNorm(d_model)
        self.qkv = nn.Linear(d_model, 3 * d_model)
        self.out = nn.Linear(d_model, d_model)
        self.ff = nn.Sequential(
            nn.Linear(d_model, 4 * d_model), nn.GELU(), nn.Linear(4 * d_model, d_model)
        )

    def forward(self, x):
        b, t, d = x.shape
        qkv = self.qkv(self.norm1(x)).view(b, t, 3, self.n_heads, d // self.n_heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, d))
        return x + self.ff(self.norm2(x))


class HeadlineModel(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.embed = nn.Embedding(config.vocab_size, config.d_model)
        self.pos = nn.Parameter(torch.zeros(config.seq_len, config.d_model))
        self.layers = nn.ModuleList(
            Layer(config.d_model, config.n_heads) for _ in range(config.n_layers)
        )
        self.norm = nn.LayerNorm(config.d_model)
        nn.init.normal_(self.embed.weight, std=0.02)

    def forward(self, ids):
        x = self.embed(ids) + self.pos
        for layer in self.layers:
            x = layer(x)
        return F.linear(self.norm(x), self.embed.weight)


def infinite(loader):
    while True:
        yield from loader


class Trainer:
    def __init__(self, config, dataset):
        self.config = config
        self.model = HeadlineModel(config)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=config.lr)
        self.loader = DataLoader(dataset, batch_size=config.micro_batch_size, shuffle=True,
                                 generator=torch.Generator().manual_seed(config.seed))

    def optimizer_step(self, batches):
        total = 0.0
        for _ in range(self.config.accumulation_steps):
            ids, targets = next(batches)
            logits = self.model(ids)
            loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten())
            loss = loss / self.config.accumulation_steps
            loss.backward()
            total += loss.item()
        nn.utils.clip_grad_norm_(self.model.parameters(), self.config.max_grad_norm)
        self.optimizer.step()
        self.optimizer.zero_grad()
        return total

    def fit(self, steps):
        batches = infinite(self.loader)
        losses = []
        start = time.time()
        for step in range(1, steps + 1):
            losses.append(self.optimizer_step(batches))
            if step % 25 == 0:
                print(f"step {step} loss {losses[-1]:.3f} elapsed {time.time() - start:.1f}s")
        return losses


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=180)
    args = parser.parse_args()
    config = TrainConfig()
    torch.manual_seed(config.seed)
    trainer = Trainer(config, Headlines(1600, config))
    losses = trainer.fit(args.steps)
    print(f"final loss {np.mean(losses[-20:]):.3f}")


if __name__ == "__main__":
    main()
