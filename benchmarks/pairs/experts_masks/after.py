"""Train a language model with a mixture of experts."""

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


class Experts(nn.Module):
    def __init__(self, width, count):
        super().__init__()
        self.router = nn.Linear(width, count)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)) for _ in range(count)
        )

    def forward(self, x):
        tokens = x.flatten(0, 1)
        gate, choice = self.router(tokens).softmax(-1).max(-1)
        order = choice.argsort()
        counts = torch.bincount(choice, minlength=len(self.experts)).tolist()
        parts = [expert(part) for expert, part in zip(self.experts, tokens[order].split(counts), strict=True)]
        out = torch.cat(parts)[order.argsort()]
        return (gate[:, None] * out).view_as(x)


class Block(nn.Module):
    def __init__(self, width, heads, experts):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.experts = Experts(width, experts)

    def forward(self, x):
        b, n, c = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, n, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, n, c))
        return x + self.experts(self.norm2(x))


class LanguageModel(nn.Module):
    def __init__(self, words, length, width, depth, heads, experts):
        super().__init__()
        self.tokens = nn.Embedding(words, width)
        self.position = nn.Parameter(torch.randn(1, length, width) * 0.02)
        self.blocks = nn.Sequential(*[Block(width, heads, experts) for _ in range(depth)])
        self.head = nn.Linear(width, words, bias=False)

    def forward(self, ids):
        return self.head(self.blocks(self.tokens(ids) + self.position))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--small", action="store_true")
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if args.small:
        batch, length, words, width, depth, heads, experts = 2, 16, 50, 32, 2, 2, 3
    else:
        batch, length, words, width, depth, heads, experts = 16, 512, 8192, 512, 6, 8, 8

    corpus = torch.randint(words, (8 * batch, length + 1), device=device)
    model = LanguageModel(words, length, width, depth, heads, experts).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=device.type == "cuda")
    for step in range(WARMUP + args.steps):
        ids = corpus[torch.randint(len(corpus), (batch,), device=device)]
        with torch.autocast(device.type, torch.bfloat16):
            logits = model(ids[:, :-1])
            loss = F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
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
