#!/usr/bin/env python3
"""Batch prediction of LaTeX token sequences for rendered formula images.

Reads a checkpoint, decodes the test set greedily, writes predictions.jsonl and
reports the token edit distance. Without --checkpoint a synthetic one is made.
"""
import argparse
import json
import math
import os
import tempfile
import time
from typing import List, Optional, Tuple

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

BOS, EOS, PAD = 0, 1, 2
VOCAB = ["<s>", "</s>", "<pad>"] + list("abcdefghijklmnopqrstuvwxyz0123456789+-=()[]{}^_|<>,.") + [
    "\\frac", "\\sqrt", "\\sum", "\\int", "\\alpha", "\\beta", "\\gamma", "\\theta", "\\cdot", "\\left", "\\right",
    "\\partial", "\\infty", "\\le", "\\ge", "\\times"]


def split_heads(x: torch.Tensor, heads: int) -> torch.Tensor:
    b, t, d = x.shape
    return x.view(b, t, heads, d // heads).transpose(1, 2)


def merge_heads(x: torch.Tensor) -> torch.Tensor:
    b, h, t, d = x.shape
    return x.transpose(1, 2).reshape(b, t, h * d)


class KVCache:
    """Keys and values of the tokens decoded so far, one preallocated slab per layer."""

    def __init__(self, layers: int, batch: int, heads: int, max_len: int, head_dim: int):
        self.k = torch.zeros(layers, batch, heads, max_len, head_dim)
        self.v = torch.zeros(layers, batch, heads, max_len, head_dim)
        self.length = 0

    def append(self, layer: int, k: torch.Tensor, v: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor]:
        self.k[layer, :, :, self.length] = k[:, :, 0]
        self.v[layer, :, :, self.length] = v[:, :, 0]
        return self.k[layer, :, :, : self.length + 1], self.v[layer, :, :, : self.length + 1]


class SelfAttention(nn.Module):
    def __init__(self, dim: int, heads: int):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)

    def forward(self, x, cache: KVCache, layer: int):
        q, k, v = (split_heads(t, self.heads) for t in self.qkv(x).chunk(3, dim=-1))
        k, v = cache.append(layer, k, v)
        return self.out(merge_heads(F.scaled_dot_product_attention(q, k, v)))


class CrossAttention(nn.Module):
    def __init__(self, dim: int, heads: int):
        super().__init__()
        self.heads = heads
        self.q = nn.Linear(dim, dim)
        self.kv = nn.Linear(dim, 2 * dim)
        self.out = nn.Linear(dim, dim)

    def forward(self, x, memory):
        q = split_heads(self.q(x), self.heads)
        k, v = (split_heads(t, self.heads) for t in self.kv(memory).chunk(2, dim=-1))
        return self.out(merge_heads(F.scaled_dot_product_attention(q, k, v)))


class DecoderLayer(nn.Module):
    def __init__(self, dim: int, heads: int, ffn: int):
        super().__init__()
        self.self_attn = SelfAttention(dim, heads)
        self.cross_attn = CrossAttention(dim, heads)
        self.ffn = nn.Sequential(nn.Linear(dim, ffn), nn.ReLU(), nn.Linear(ffn, dim))
        self.n1, self.n2, self.n3 = nn.LayerNorm(dim), nn.LayerNorm(dim), nn.LayerNorm(dim)

    def forward(self, x, memory, cache, layer):
        x = x + self.self_attn(self.n1(x), cache, layer)
        x = x + self.cross_attn(self.n2(x), memory)
        return x + self.ffn(self.n3(x))


class Im2Latex(nn.Module):
    def __init__(self, dim: int = 128, heads: int = 4, layers: int = 3, ffn: int = 256, max_len: int = 64):
        super().__init__()
        self.dim, self.heads, self.max_len = dim, heads, max_len
        self.backbone = nn.Sequential(
            nn.Conv2d(1, 24, 5, stride=2, padding=2), nn.ReLU(),
            nn.Conv2d(24, 48, 3, stride=2, padding=1), nn.ReLU(),
            nn.Conv2d(48, dim, 3, stride=2, padding=1), nn.ReLU())
        self.embed = nn.Embedding(len(VOCAB), dim)
        self.register_buffer("pe", self._sinusoid(1024, dim), persistent=False)
        self.layers = nn.ModuleList(DecoderLayer(dim, heads, ffn) for _ in range(layers))
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, len(VOCAB))

    @staticmethod
    def _sinusoid(n: int, dim: int) -> torch.Tensor:
        pos = torch.arange(n)[:, None]
        freq = torch.exp(torch.arange(0, dim, 2) * (-math.log(10000.0) / dim))
        pe = torch.zeros(n, dim)
        pe[:, 0::2], pe[:, 1::2] = torch.sin(pos * freq), torch.cos(pos * freq)
        return pe

    def encode(self, images: torch.Tensor) -> torch.Tensor:
        f = self.backbone(images).flatten(2).transpose(1, 2)
        return f + self.pe[: f.shape[1]]

    def new_cache(self, batch: int) -> KVCache:
        return KVCache(len(self.layers), batch, self.heads, self.max_len, self.dim // self.heads)

    def decode_step(self, token: torch.Tensor, memory: torch.Tensor, cache: KVCache) -> torch.Tensor:
        x = self.embed(token)[:, None] * math.sqrt(self.dim) + self.pe[cache.length]
        for i, layer in enumerate(self.layers):
            x = layer(x, memory, cache, i)
        cache.length += 1
        return self.head(self.norm(x[:, 0]))


@torch.inference_mode()
def greedy_decode(model: Im2Latex, images: torch.Tensor, max_len: int):
    memory = model.encode(images)
    cache = model.new_cache(len(images))
    token = torch.full((len(images),), BOS)
    alive = torch.ones(len(images), dtype=torch.bool)
    out, score = [], torch.zeros(len(images))
    for _ in range(max_len):
        logp = model.decode_step(token, memory, cache).log_softmax(dim=-1)
        best, token = logp.max(dim=-1)
        token = torch.where(alive, token, PAD)
        score += torch.where(alive, best, 0.0)
        out.append(token)
        alive &= token != EOS
        if not alive.any():
            break
    return torch.stack(out, dim=1), score


def detokenize(ids: List[int]) -> List[str]:
    words = []
    for i in ids:
        if i == EOS:
            break
        if i > PAD:
            words.append(VOCAB[i])
    return words


def edit_distance(a: List[str], b: List[str]) -> int:
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        prev, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            prev, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, prev + (x != y))
    return row[-1]


def make_checkpoint(path: str, seed: int) -> None:
    torch.manual_seed(seed)
    torch.save({"model": Im2Latex().state_dict(), "epoch": 40}, path)


def make_test_set(n: int, height: int, width: int, seed: int):
    """Blocks of ink on white paper plus a reference token list each."""
    rng = np.random.default_rng(seed)
    images = np.ones((n, 1, height, width), np.float32)
    refs = []
    for i in range(n):
        length = int(rng.integers(12, 40))
        refs.append([VOCAB[t] for t in rng.integers(3, len(VOCAB), size=length)])
        for g in range(length):
            x, y = int(4 + g * (width - 12) / length), int(rng.integers(8, height - 20))
            images[i, 0, y:y + 12, x:x + 5] = rng.random((12, 5)) < 0.4
    return torch.from_numpy(images), refs


def main(argv: Optional[List[str]] = None) -> None:
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--checkpoint")
    ap.add_argument("--images", type=int, default=320)
    ap.add_argument("--batch-size", type=int, default=8)
    ap.add_argument("--max-len", type=int, default=32)
    ap.add_argument("--height", type=int, default=48)
    ap.add_argument("--width", type=int, default=256)
    ap.add_argument("--seed", type=int, default=9)
    args = ap.parse_args(argv)

    workdir = tempfile.mkdtemp(prefix="im2latex_")
    ckpt = args.checkpoint or os.path.join(workdir, "checkpoint.pt")
    if not args.checkpoint:
        make_checkpoint(ckpt, args.seed)
    model = Im2Latex()
    model.load_state_dict(torch.load(ckpt, map_location="cpu", weights_only=True)["model"])
    model.eval()
    images, refs = make_test_set(args.images, args.height, args.width, args.seed)

    errors = tokens = 0
    total_score, n_batches = 0.0, math.ceil(args.images / args.batch_size)
    started = time.monotonic()
    with open(os.path.join(workdir, "predictions.jsonl"), "w") as f:
        for b in range(n_batches):
            lo = b * args.batch_size
            ids, score = greedy_decode(model, images[lo:lo + args.batch_size], args.max_len)
            for k, row in enumerate(ids.tolist()):
                pred = detokenize(row)
                errors += edit_distance(pred, refs[lo + k])
                tokens += len(refs[lo + k])
                f.write(json.dumps({"id": lo + k, "pred": " ".join(pred), "score": round(float(score[k]), 4)}) + "\n")
            total_score += score.sum().item()
            if (b + 1) % 10 == 0:
                rate = (lo + len(ids)) / (time.monotonic() - started)
                print(f"batch {b + 1}/{n_batches}: {rate:.1f} images/s, token error rate {errors / tokens:.3f}")
    print(f"token error rate {errors / tokens:.4f}, mean log-probability {total_score / args.images:.4f}, "
          f"results in {workdir}")


if __name__ == "__main__":
    main()
