"""Review rating: transformer encoder over word ids, masked mean pooling."""
import argparse
import json
import statistics
import sys
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

VOCAB = 6000
PAD = 0
MAX_LEN = 128
CLASSES = 5
BATCH = 32


class Reviews:
    """Synthetic reviews: each rating prefers its own slice of the vocabulary."""

    def __init__(self, n, seed):
        rng = np.random.default_rng(seed)
        self.labels = rng.integers(0, CLASSES, n)
        lengths = np.clip(rng.lognormal(3.3, 0.35, n).astype(int), 6, MAX_LEN)
        self.tokens = []
        for label, length in zip(self.labels, lengths):
            words = rng.zipf(1.3, length) % (VOCAB - 1) + 1
            tone = rng.random(length) < 0.12
            words[tone] = 3000 + label * 200 + rng.integers(0, 200, tone.sum())
            self.tokens.append(words.tolist())

    def __len__(self):
        return len(self.tokens)

    def __getitem__(self, i):
        return self.tokens[i], int(self.labels[i])


def collate(items):
    """Pads the token lists and returns ids, padding mask and labels."""
    width = MAX_LEN
    ids = torch.full((len(items), width), PAD, dtype=torch.long)
    for row, (tokens, _) in enumerate(items):
        ids[row, :len(tokens)] = torch.tensor(tokens)
    labels = torch.tensor([label for _, label in items])
    return ids, ids == PAD, labels


class EncoderLayer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)
        self.norm2 = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x, keep):
        b, t, w = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, t, 3, self.heads, w // self.heads).permute(2, 0, 3, 1, 4)
        a = F.scaled_dot_product_attention(q, k, v, attn_mask=keep)
        x = x + self.proj(a.transpose(1, 2).reshape(b, t, w))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class ReviewEncoder(nn.Module):
    def __init__(self, width=96, heads=4, layers=2):
        super().__init__()
        self.words = nn.Embedding(VOCAB, width, padding_idx=PAD)
        self.positions = nn.Embedding(MAX_LEN, width)
        self.layers = nn.ModuleList(EncoderLayer(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, CLASSES)

    def forward(self, ids, padding):
        x = self.words(ids) + self.positions.weight[:ids.shape[1]]
        keep = ~padding[:, None, None, :]
        for layer in self.layers:
            x = layer(x, keep)
        weight = (~padding).unsqueeze(-1).float()
        pooled = (self.norm(x) * weight).sum(1) / weight.sum(1)
        return self.head(pooled)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=100)
    args = parser.parse_args()

    torch.manual_seed(0)
    data = Reviews(4000, seed=0)
    loader = torch.utils.data.DataLoader(data, BATCH, shuffle=True, drop_last=True, collate_fn=collate)
    model = ReviewEncoder()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    times = []
    step = 0
    correct = 0.2
    while step < args.steps:
        batches = iter(loader)
        while step < args.steps:
            t0 = time.perf_counter()
            batch = next(batches, None)
            if batch is None:
                break
            ids, padding, labels = batch
            logits = model(ids, padding)
            loss = F.cross_entropy(logits, labels)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            correct = 0.95 * correct + 0.05 * (logits.argmax(1) == labels).float().mean().item()
            step += 1
            times.append((time.perf_counter() - t0) * 1000)
            if step % 20 == 0:
                print(f"step {step} loss {loss.item():.5f} acc {correct:.4f}", file=sys.stderr)

    timed = times[5:] or times
    print(json.dumps({"ms": statistics.median(timed), "steps": args.steps}))


if __name__ == "__main__":
    main()
