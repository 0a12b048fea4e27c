"""Train a translation model."""

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


def clip_gradients(parameters, limit):
    total = 0.0
    for p in parameters:
        if p.grad is not None:
            total += p.grad.norm().item() ** 2
    total = total**0.5
    if total > limit:
        for p in parameters:
            if p.grad is not None:
                p.grad.mul_(limit / (total + 1e-6))


class Translator(nn.Module):
    def __init__(self, words, width, heads, depth, length):
        super().__init__()
        self.tokens = nn.Embedding(words, width)
        self.positions = nn.Embedding(length, width)
        self.transformer = nn.Transformer(
            width, heads, depth, depth, 4 * width, dropout=0.1, batch_first=True, norm_first=True
        )
        self.head = nn.Linear(width, words)

    def embed(self, ids):
        return self.tokens(ids) + self.positions(torch.arange(ids.shape[1], device=ids.device))

    def forward(self, source, target):
        mask = nn.Transformer.generate_square_subsequent_mask(target.shape[1], device=target.device)
        return self.head(self.transformer(self.embed(source), self.embed(target), tgt_mask=mask, tgt_is_causal=True))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--small", action="store_true")
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    batch, length, words, width, heads, depth = (2, 8, 50, 32, 2, 2) if args.small else (64, 64, 8192, 512, 8, 8)

    sources = torch.randint(words, (4 * batch, length), device=device)
    targets = torch.randint(words, (4 * batch, length + 1), device=device)
    model = Translator(words, width, heads, depth, length).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for step in range(WARMUP + args.steps):
        picks = torch.randint(len(sources), (batch,), device=device)
        source, target = sources[picks], targets[picks]
        with torch.autocast(device.type, torch.bfloat16):
            logits = model(source, target[:, :-1])
            loss = F.cross_entropy(logits.flatten(0, 1), target[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        clip_gradients(list(model.parameters()), 1.0)
        optimizer.step()
        if step + 1 == WARMUP:
            begin = now(device)
    ms = (now(device) - begin) / args.steps * 1e3
    peak = torch.cuda.max_memory_allocated() / 2**20 if device.type == "cuda" else 0.0
    print(json.dumps({"ms": round(ms, 3), "peak_mb": round(peak, 1)}))


if __name__ == "__main__":
    main()
