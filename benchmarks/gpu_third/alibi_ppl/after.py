"""Perplexity of long documents under a language model with ALiBi positions."""
import argparse
import json
import math
import resource
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


def alibi_bias(heads, length, device):
    """Causal ALiBi: every head adds its slope times the (negative) distance."""
    slopes = 2.0 ** (-8.0 * torch.arange(1, heads + 1, device=device) / heads)
    pos = torch.arange(length, device=device)
    distance = pos[None, :] - pos[:, None]
    bias = slopes[:, None, None] * distance
    return bias.masked_fill(distance > 0, float("-inf"))


class Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.proj = nn.Linear(dim, dim, bias=False)

    def forward(self, x, bias):
        B, T, D = x.shape
        q, k, v = self.qkv(x).view(B, T, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=bias)
        return self.proj(y.transpose(1, 2).reshape(B, T, D))


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.norm1 = nn.LayerNorm(dim)
        self.attn = Attention(dim, heads)
        self.norm2 = nn.LayerNorm(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x, bias):
        x = x + self.attn(self.norm1(x), bias)
        return x + self.mlp(self.norm2(x))


class AlibiLM(nn.Module):
    def __init__(self, vocab, dim, depth, heads, context):
        super().__init__()
        self.context = context
        self.tok = nn.Embedding(vocab, dim)
        nn.init.normal_(self.tok.weight, std=0.02)
        self.blocks = nn.ModuleList(Block(dim, heads) for _ in range(depth))
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, vocab, bias=False)
        self.head.weight = self.tok.weight
        # cast with the model by .to(dtype)
        self.register_buffer("bias", alibi_bias(heads, context, self.tok.weight.device), persistent=False)

    def forward(self, ids):
        x = self.tok(ids)
        T = ids.shape[1]
        for block in self.blocks:
            x = block(x, self.bias[:, :T, :T])
        return self.head(self.norm(x))


def documents(count, batch_size, length, vocab, seed=0):
    """Packed windows of long documents."""
    rng = np.random.default_rng(seed)
    ids = rng.zipf(1.2, count * batch_size * (length + 1)) % vocab
    return torch.from_numpy(ids.reshape(count, batch_size, length + 1))


@torch.inference_mode()
def window_nll(model, window):
    logits = model(window[:, :-1])
    return F.cross_entropy(logits.flatten(0, 1).float(), window[:, 1:].flatten())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--small", action="store_true")
    args = parser.parse_args()

    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    use_cuda = device.type == "cuda"
    if args.small:
        vocab, dim, depth, heads, context, batch_size = 500, 64, 2, 4, 64, 2
    else:
        vocab, dim, depth, heads, context, batch_size = 16384, 1024, 16, 16, 4096, 2

    windows = documents(16, batch_size, context, vocab).to(device)
    with device:
        model = AlibiLM(vocab, dim, depth, heads, context)
    model = model.to(torch.bfloat16 if use_cuda else torch.float32).eval()

    for i in range(5):
        window_nll(model, windows[i % len(windows)])
    if use_cuda:
        torch.cuda.synchronize()
    total = torch.zeros((), device=device)
    start = time.perf_counter()
    for i in range(args.steps):
        total += window_nll(model, windows[i % len(windows)])
    if use_cuda:
        torch.cuda.synchronize()
    elapsed = time.perf_counter() - start

    nll = total.item() / args.steps
    print(f"loss {nll:.4f} perplexity {math.exp(nll):.2f}")
    if use_cuda:
        peak = torch.cuda.max_memory_allocated() / 2**20
    else:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"ms": elapsed / args.steps * 1000, "peak_mb": peak}))


if __name__ == "__main__":
    main()
