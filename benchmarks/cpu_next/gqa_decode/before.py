"""Batched greedy decoding with a small grouped-query-attention language model."""
import argparse
import math
import time
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class Config:
    vocab: int = 8192
    dim: int = 640
    layers: int = 6
    heads: int = 16
    kv_heads: int = 4
    head_dim: int = 40
    context: int = 2048


class RMSNorm(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight


class KVCache:
    def __init__(self, cfg, batch):
        shape = (cfg.layers, batch, cfg.kv_heads, cfg.context, cfg.head_dim)
        self.k, self.v = torch.zeros(shape), torch.zeros(shape)

    def append(self, layer, pos, k, v):
        end = pos + k.shape[2]
        self.k[layer, :, :, pos:end] = k
        self.v[layer, :, :, pos:end] = v
        return self.k[layer, :, :, :end], self.v[layer, :, :, :end]


class Attention(nn.Module):
    def __init__(self, cfg, layer):
        super().__init__()
        self.cfg, self.layer = cfg, layer
        self.groups = cfg.heads // cfg.kv_heads
        self.q = nn.Linear(cfg.dim, cfg.heads * cfg.head_dim, bias=False)
        self.kv = nn.Linear(cfg.dim, 2 * cfg.kv_heads * cfg.head_dim, bias=False)
        self.out = nn.Linear(cfg.heads * cfg.head_dim, cfg.dim, bias=False)

    def forward(self, x, cache, pos):
        b, t, _ = x.shape
        c = self.cfg
        q = self.q(x).view(b, t, c.heads, c.head_dim).transpose(1, 2)
        k, v = self.kv(x).view(b, t, 2, c.kv_heads, c.head_dim).permute(2, 0, 3, 1, 4)
        k, v = cache.append(self.layer, pos, k, v)
        k = k.repeat_interleave(self.groups, dim=1)
        v = v.repeat_interleave(self.groups, dim=1)
        scores = q @ k.transpose(-1, -2) / math.sqrt(c.head_dim)
        y = scores.softmax(-1) @ v
        y = y.view(b, c.heads, t, c.head_dim).transpose(1, 2)
        return self.out(y.reshape(b, t, -1))


class Block(nn.Module):
    def __init__(self, cfg, layer):
        super().__init__()
        self.n1, self.n2 = RMSNorm(cfg.dim), RMSNorm(cfg.dim)
        self.attn = Attention(cfg, layer)
        self.up = nn.Linear(cfg.dim, 3 * cfg.dim, bias=False)
        self.down = nn.Linear(3 * cfg.dim, cfg.dim, bias=False)

    def forward(self, x, cache, pos):
        x = x + self.attn(self.n1(x), cache, pos)
        return x + self.down(F.silu(self.up(self.n2(x))))


class LM(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.tok = nn.Embedding(cfg.vocab, cfg.dim)
        self.pos = nn.Embedding(cfg.context, cfg.dim)
        self.blocks = nn.ModuleList(Block(cfg, i) for i in range(cfg.layers))
        self.norm = RMSNorm(cfg.dim)
        self.head = nn.Linear(cfg.dim, cfg.vocab, bias=False)

    def forward(self, tokens, cache, pos):
        where = torch.arange(pos, pos + tokens.shape[1])
        x = self.tok(tokens) + self.pos(where)
        for block in self.blocks:
            x = block(x, cache, pos)
        return self.head(self.norm(x[:, -1]))


@torch.inference_mode()
def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=60)
    ap.add_argument("--batch", type=int, default=4)
    ap.add_argument("--shared-prefix", type=int, default=1024, help="length of the stored prefix")
    args = ap.parse_args()
    torch.manual_seed(0)
    cfg = Config(context=args.shared_prefix + args.steps + 1)
    model, cache = LM(cfg).eval(), KVCache(cfg, args.batch)
    gen = torch.Generator().manual_seed(1)
    cache.k[..., : args.shared_prefix, :].normal_(generator=gen)
    cache.v[..., : args.shared_prefix, :].normal_(generator=gen)

    tokens, produced = torch.randint(cfg.vocab, (args.batch, 1), generator=gen), []
    began = time.perf_counter()
    for step in range(args.steps):
        if step == 5:
            began = time.perf_counter()
        logits = model(tokens, cache, args.shared_prefix + step)
        tokens = logits.argmax(-1, keepdim=True)
        produced.append(tokens)
    mean = (time.perf_counter() - began) / max(1, args.steps - 5)
    print("tokens", torch.cat(produced, 1)[0, :12].tolist())
    print(f"mean step {mean * 1000:.2f} ms")


if __name__ == "__main__":
    main()
