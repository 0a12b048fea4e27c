"""Train a small Transformer on (synthetic) news headlines and snippets."""

import argparse
import json
import math
import random
import statistics
import time

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

PAD_ID = 0
MAX_LEN = 128
VOCAB = 12000
CLASSES = ["world", "sports", "business", "science"]


class HeadlineDataset(Dataset):
    def __init__(self, n=4000, seed=1):
        rng = random.Random(seed)
        self.items = []
        for _ in range(n):
            label = rng.randrange(len(CLASSES))
            length = max(6, min(MAX_LEN, int(rng.lognormvariate(3.0, 0.35))))
            lo = 1 + label * (VOCAB // len(CLASSES))
            ids = [
                rng.randrange(lo, lo + VOCAB // len(CLASSES) - 1) if rng.random() < 0.4 else rng.randrange(1, VOCAB)
                for _ in range(length)
            ]
            self.items.append((ids, label))

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        ids, label = self.items[i]
        return torch.tensor(ids, dtype=torch.long), label


def collate(batch):
    labels = torch.tensor([label for _, label in batch])
    width = MAX_LEN
    tokens = torch.full((len(batch), width), PAD_ID, dtype=torch.long)
    for row, (ids, _) in enumerate(batch):
        tokens[row, : len(ids)] = ids
    return tokens, labels


class PositionalEncoding(nn.Module):
    def __init__(self, dim, max_len=MAX_LEN):
        super().__init__()
        pos = torch.arange(max_len).unsqueeze(1)
        freq = torch.exp(torch.arange(0, dim, 2) * (-math.log(10000.0) / dim))
        table = torch.zeros(max_len, dim)
        table[:, 0::2] = torch.sin(pos * freq)
        table[:, 1::2] = torch.cos(pos * freq)
        self.register_buffer("table", table)

    def forward(self, x):
        return x + self.table[: x.size(1)]


class NewsClassifier(nn.Module):
    def __init__(self, dim=128, heads=4, layers=2):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, dim, padding_idx=PAD_ID)
        self.position = PositionalEncoding(dim)
        layer = nn.TransformerEncoderLayer(dim, heads, dim * 4, dropout=0.1, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers)
        self.out = nn.Linear(dim, len(CLASSES))

    def forward(self, tokens):
        pad = tokens == PAD_ID
        x = self.position(self.embed(tokens))
        x = self.encoder(x, src_key_padding_mask=pad)
        keep = (~pad).unsqueeze(-1).to(x.dtype)
        return self.out((x * keep).sum(1) / keep.sum(1))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--batch-size", type=int, default=24)
    parser.add_argument("--lr", type=float, default=5e-4)
    args = parser.parse_args()
    torch.manual_seed(0)

    loader = DataLoader(HeadlineDataset(), batch_size=args.batch_size, shuffle=True, collate_fn=collate)
    model = NewsClassifier()
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=max(args.steps, 1))

    model.train()
    times, correct, seen = [], 0, 0
    batches = iter(loader)
    for step in range(args.steps):
        t0 = time.perf_counter()
        try:
            tokens, labels = next(batches)
        except StopIteration:
            batches = iter(loader)
            tokens, labels = next(batches)
        logits = model(tokens)
        loss = F.cross_entropy(logits, labels)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        times.append((time.perf_counter() - t0) * 1000)
        correct += (logits.argmax(1) == labels).sum().item()
        seen += len(labels)
        if (step + 1) % 10 == 0:
            print(f"step {step + 1}: loss={loss.item():.3f} acc={correct / seen:.3f}")
    print(json.dumps({"ms": round(statistics.median(times[5:] or times), 3)}))


if __name__ == "__main__":
    main()
