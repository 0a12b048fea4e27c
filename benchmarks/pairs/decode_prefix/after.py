"""Generate text for a set of prompts."""

import argparse
import json
import time

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader

WARMUP = 10


def now(device):
    if device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)

    def forward(self, x, cache):
        b, n, c = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        if cache is not None:
            if "k" in cache:
                k, v = torch.cat([cache["k"], k], 2), torch.cat([cache["v"], v], 2)
            cache["k"], cache["v"] = k, v
        y = F.scaled_dot_product_attention(q, k, v, is_causal=n > 1)
        return self.out(y.transpose(1, 2).reshape(b, n, c))


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x, cache):
        x = x + self.attention(self.norm1(x), cache)
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    def __init__(self, words, width, depth, heads, context):
        super().__init__()
        self.tokens = nn.Embedding(words, width)
        self.positions = nn.Embedding(context, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(depth))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, words, bias=False)

    def forward(self, ids, first=0, caches=None):
        x = self.tokens(ids) + self.positions(torch.arange(first, first + ids.shape[1], device=ids.device))
        for index, block in enumerate(self.blocks):
            x = block(x, caches[index] if caches else None)
        return self.head(self.norm(x[:, -1]))


@torch.no_grad()
def generate(model, ids, count):
    caches = [{} for _ in model.blocks]
    logits = model(ids, 0, caches)
    for _ in range(count):
        ids = torch.cat([ids, logits.argmax(-1, keepdim=True)], 1)
        logits = model(ids[:, -1:], ids.shape[1] - 1, caches)
    return ids


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--small", action="store_true")
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if args.small:
        batch, prompt, new, words, width, depth, heads = 2, 8, 4, 64, 32, 2, 2
    else:
        batch, prompt, new, words, width, depth, heads = 16, 480, 32, 16384, 1024, 8, 16

    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    prompts = torch.randint(words, (batch * (WARMUP + args.steps), prompt))
    loader = DataLoader(prompts, batch_size=batch, pin_memory=device.type == "cuda")
    model = GPT(words, width, depth, heads, prompt + new).to(device, dtype).eval()
    for step, ids in enumerate(loader):
        generate(model, ids.to(device, non_blocking=True), new)
        if step + 1 == WARMUP:
            begin = now(device)
    ms = (now(device) - begin) / args.steps * 1e3
    peak = torch.cuda.max_memory_allocated() / 2**20 if device.type == "cuda" else 0.0
    print(json.dumps({"ms": round(ms, 3), "peak_mb": round(peak, 1)}))


if __name__ == "__main__":
    main()
