"""Train two encoders on pairs with a contrastive loss."""

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


def encoder(inputs, width, outputs):
    return nn.Sequential(
        nn.Linear(inputs, width),
        nn.LayerNorm(width),
        nn.GELU(),
        nn.Linear(width, width),
        nn.LayerNorm(width),
        nn.GELU(),
        nn.Linear(width, outputs),
    )


def contrastive(a, b, temperature):
    a, b = F.normalize(a, dim=1), F.normalize(b, dim=1)
    loss = 0.0
    for i in range(len(a)):
        similar = (a[i] * b).sum(1) / temperature
        loss = loss + torch.logsumexp(similar, 0) - similar[i]
    return loss / len(a)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--small", action="store_true")
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    batch, inputs, width, outputs = (8, 16, 32, 8) if args.small else (128, 1024, 4096, 256)

    texts = torch.randn(8 * batch, inputs, device=device)
    images = torch.randn(8 * batch, inputs, device=device)
    model = nn.ModuleDict({"text": encoder(inputs, width, outputs), "image": encoder(inputs, width, outputs)})
    model.to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for step in range(WARMUP + args.steps):
        picks = torch.randint(len(texts), (batch,), device=device)
        loss = contrastive(model["text"](texts[picks]), model["image"](images[picks]), 0.07)
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
