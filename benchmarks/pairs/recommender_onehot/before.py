"""Train a click predictor on categorical features."""

import argparse
import json
import time

import torch
from torch import nn
from torch.nn import functional as F

WARMUP = 10


def now(device):
    if device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


class Clicks(nn.Module):
    def __init__(self, fields, vocabulary, width, hidden):
        super().__init__()
        self.vocabulary = vocabulary
        self.tables = nn.ModuleList(nn.Linear(vocabulary, width, bias=False) for _ in range(fields))
        self.top = nn.Sequential(
            nn.Linear(fields * width, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, 1)
        )

    def forward(self, ids):
        parts = []
        for field, table in enumerate(self.tables):
            parts.append(table(F.one_hot(ids[:, field], self.vocabulary).float()))
        return self.top(torch.cat(parts, 1)).squeeze(1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--small", action="store_true")
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    batch, fields, vocabulary, width, hidden = (16, 3, 40, 8, 16) if args.small else (8192, 12, 8000, 64, 1024)

    ids = torch.randint(vocabulary, (8 * batch, fields), device=device)
    clicks = torch.randint(2, (8 * batch,), device=device).float()
    model = Clicks(fields, vocabulary, width, hidden).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for step in range(WARMUP + args.steps):
        first = step % 8 * batch
        logits = model(ids[first : first + batch])
        loss = F.binary_cross_entropy_with_logits(logits, clicks[first : first + batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step + 1 == WARMUP:
            begin = now(device)
    ms = (now(device) - begin) / args.steps * 1e3
    peak = torch.cuda.max_memory_allocated() / 2**20 if device.type == "cuda" else 0.0
    print(json.dumps({"ms": round(ms, 3), "peak_mb": round(peak, 1)}))


if __name__ == "__main__":
    main()
