"""Pretrain a small GPT on a long token stream."""
import argparse
import json
import resource
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.proj = nn.Linear(dim, dim, bias=False)
        self.norm2 = nn.LayerNorm(dim)
        self.up = nn.Linear(dim, 4 * dim, bias=False)
        self.down = nn.Linear(4 * dim, dim, bias=False)

    def forward(self, x):
        B, T, D = x.shape
        q, k, v = self.qkv(self.norm1(x)).chunk(3, dim=-1)
        q, k, v = (t.view(B, T, self.heads, -1).transpose(1, 2) for t in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).reshape(B, T, D))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class GPT(nn.Module):
    def __init__(self, vocab, dim, depth, heads, context):
        super().__init__()
        self.tok = nn.Embedding(vocab, dim)
        self.pos = nn.Embedding(context, dim)
        self.blocks = nn.ModuleList(Block(dim, heads) for _ in range(depth))
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, vocab, bias=False)
        self.head.weight = self.tok.weight
        self.apply(self.init_weights)

    @staticmethod
    def init_weights(m):
        if isinstance(m, (nn.Linear, nn.Embedding)):
            nn.init.normal_(m.weight, std=0.02)

    def forward(self, idx, targets):
        pos = torch.arange(idx.shape[1], device=idx.device)
        x = self.tok(idx) + self.pos(pos)
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())


class TokenStream:
    """Random windows from one long token array, copied to the device asynchronously."""

    def __init__(self, tokens, batch_size, context, device, seed=0):
        self.tokens, self.batch_size, self.context = tokens, batch_size, context
        self.device = device
        self.rng = np.random.default_rng(seed)
        self.offsets = np.arange(context + 1)

    def next(self):
        starts = self.rng.integers(0, len(self.tokens) - self.context - 1, self.batch_size)
        window = torch.from_numpy(self.tokens[starts[:, None] + self.offsets].astype(np.int64))
        if self.device.type == "cuda":
            window = window.pin_memory()
        window = window.to(self.device, non_blocking=True)
        return window[:, :-1], window[:, 1:]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--lr", type=float, default=3e-4)
    args = parser.parse_args()

    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    use_cuda = device.type == "cuda"
    if args.small:
        vocab, dim, depth, heads, context, batch_size = 512, 64, 2, 2, 64, 4
    else:
        vocab, dim, depth, heads, context, batch_size = 16384, 1024, 4, 8, 1024, 32

    rng = np.random.default_rng(0)
    tokens = (rng.zipf(1.2, 2_000_000 if use_cuda else 50_000) % vocab).astype(np.uint16)
    stream = TokenStream(tokens, batch_size, context, device)

    with device:
        model = GPT(vocab, dim, depth, heads, context)
    decay = [p for p in model.parameters() if p.dim() >= 2]
    no_decay = [p for p in model.parameters() if p.dim() < 2]
    optimizer = torch.optim.AdamW(
        [{"params": decay, "weight_decay": 0.1}, {"params": no_decay, "weight_decay": 0.0}],
        lr=args.lr, betas=(0.9, 0.95), fused=use_cuda)
    params = decay + no_decay
    train_model = torch.compile(model) if use_cuda else model

    def train_step(x, y):
        with torch.autocast(device.type, dtype=torch.bfloat16, enabled=use_cuda):
            loss = train_model(x, y)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(params, 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.detach()

    batch = stream.next()
    for _ in range(10):
        train_step(*batch)
        batch = stream.next()

    if use_cuda:
        torch.cuda.synchronize()
    losses = []
    start = time.perf_counter()
    for _ in range(args.steps):
        losses.append(train_step(*batch))
        batch = stream.next()
    if use_cuda:
        torch.cuda.synchronize()
    elapsed = time.perf_counter() - start

    losses = torch.stack(losses).cpu()
    print(f"loss first {losses[0]:.4f} last {losses[-1]:.4f} mean {losses.mean():.4f}")
    if use_cuda:
        peak = torch.cuda.max_memory_allocated() / 2**20
    else:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"ms": elapsed / args.steps * 1000, "peak_mb": peak}))


if __name__ == "__main__":
    main()
