"""Evaluate a Transformer sentiment model over a held-out set of reviews."""

import argparse
import json
import random
import statistics
import time

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset

PAD = 0
VOCAB = 10000


class ReviewDataset(Dataset):
    def __init__(self, n=2560, seed=7):
        rng = random.Random(seed)
        self.rows = []
        for _ in range(n):
            length = min(160, max(8, int(rng.lognormvariate(3.9, 0.5))))
            self.rows.append((torch.tensor([rng.randrange(1, VOCAB) for _ in range(length)]), rng.randrange(2)))

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return self.rows[i]


def collate(batch):
    tokens = pad_sequence([t for t, _ in batch], batch_first=True, padding_value=PAD)
    return tokens, torch.tensor([y for _, y in batch])


class SentimentModel(nn.Module):
    def __init__(self, dim=128, heads=4, layers=3, max_len=160):
        super().__init__()
        self.tokens = nn.Embedding(VOCAB, dim, padding_idx=PAD)
        self.positions = nn.Embedding(max_len, dim)
        layer = nn.TransformerEncoderLayer(dim, heads, 4 * dim, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers)
        self.norm = nn.LayerNorm(dim)
        self.classifier = nn.Linear(dim, 2)

    def forward(self, ids):
        pad = ids == PAD
        x = self.tokens(ids) + self.positions(torch.arange(ids.size(1)))
        x = self.encoder(x, src_key_padding_mask=pad)
        x = x.masked_fill(pad.unsqueeze(-1), 0.0).sum(1) / (~pad).sum(1, keepdim=True)
        return self.classifier(self.norm(x))


class Meter:
    """Loss, accuracy and F1 over an evaluation run."""

    def __init__(self):
        self.loss = 0.0
        self.n = 0
        self.tp = self.fp = self.fn = self.hits = 0

    def update(self, logits, labels):
        pred = logits.argmax(dim=1)
        self.loss += F.cross_entropy(logits, labels, reduction="sum").item()
        self.n += len(labels)
        self.hits += int((pred == labels).sum())
        self.tp += int(((pred == 1) & (labels == 1)).sum())
        self.fp += int(((pred == 1) & (labels == 0)).sum())
        self.fn += int(((pred == 0) & (labels == 1)).sum())

    def summary(self):
        f1 = 2 * self.tp / max(1, 2 * self.tp + self.fp + self.fn)
        return {"loss": self.loss / self.n, "accuracy": self.hits / self.n, "f1": f1}


def load_model(path=None):
    torch.manual_seed(0)
    model = SentimentModel()
    if path:
        model.load_state_dict(torch.load(path, map_location="cpu"))
    return model


@torch.no_grad()
def evaluate(model, loader, max_batches):
    meter, times = Meter(), []
    model.eval()
    start = time.perf_counter()
    for i, (ids, labels) in enumerate(loader):
        logits = model(ids)
        meter.update(logits, labels)
        now = time.perf_counter()
        times.append((now - start) * 1e3)
        start = now
        if i + 1 >= max_batches:
            break
    return meter.summary(), times


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=40, help="evaluation batches")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--checkpoint", default=None)
    args = parser.parse_args()

    model = load_model(args.checkpoint)
    loader = DataLoader(ReviewDataset(args.steps * args.batch_size), batch_size=args.batch_size, collate_fn=collate)
    summary, times = evaluate(model, loader, args.steps)
    print("  ".join(f"{k} {v:.4f}" for k, v in summary.items()))
    print(json.dumps({"ms": round(statistics.median(times[5:] or times), 3)}))


if __name__ == "__main__":
    main()
