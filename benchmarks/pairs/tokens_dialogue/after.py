"""Continue training a small causal language model on dialogues with extra role tokens."""

import argparse
import json
import math
import time

import torch
from torch import nn
from torch.nn import functional as F

WARMUP = 10
ROLES = ["<pad>", "<system>", "<user>", "<assistant>", "<tool>", "<result>", "<end>"]


def now(device):
    if device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


def rotate(x, cos, sin):
    a, b = x.chunk(2, -1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)


class SwiGLU(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.gate, self.up = nn.Linear(width, hidden, bias=False), nn.Linear(width, hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)

    def forward(self, x):
        return self.down(F.silu(self.gate(x)) * self.up(x))


class Layer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.before_attention, self.before_mlp = nn.RMSNorm(width), nn.RMSNorm(width)
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.mlp = SwiGLU(width, 8 * width // 3 // 64 * 64 or 64)

    def forward(self, x, cos, sin):
        b, n, c = x.shape
        q, k, v = self.qkv(self.before_attention(x)).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, n, c))
        return x + self.mlp(self.before_mlp(x))


class CausalLM(nn.Module):
    def __init__(self, vocabulary, width, depth, heads, context):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        nn.init.normal_(self.embed.weight, std=0.02)
        self.layers = nn.ModuleList(Layer(width, heads) for _ in range(depth))
        self.norm = nn.RMSNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.embed.weight
        half = width // heads // 2
        angles = torch.outer(torch.arange(context), torch.exp(-math.log(1e4) * torch.arange(half) / half))
        self.register_buffer("cos", angles.cos().bfloat16(), persistent=False)
        self.register_buffer("sin", angles.sin().bfloat16(), persistent=False)

    def forward(self, tokens):
        x = self.embed(tokens)
        cos, sin = self.cos[: tokens.shape[1]], self.sin[: tokens.shape[1]]
        for layer in self.layers:
            x = layer(x, cos, sin)
        return self.head(self.norm(x))


def add_tokens(model, names):
    """Make room for new tokens in the tied embedding and output layer."""
    old = model.embed.weight.data
    rows = (old.shape[0] + len(names) + 63) // 64 * 64
    table = nn.Embedding(rows, old.shape[1])
    nn.init.normal_(table.weight, std=0.02)
    table.weight.data[: old.shape[0]] = old
    model.embed = table
    model.head = nn.Linear(old.shape[1], rows, bias=False)
    model.head.weight = table.weight
    return {name: old.shape[0] + i for i, name in enumerate(names)}


def train_step(model, optimizer, tokens, pad):
    with torch.autocast(tokens.device.type, torch.bfloat16):
        logits = model(tokens[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten(), ignore_index=pad)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    return loss.detach()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--small", action="store_true")
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    vocabulary, width, depth, heads, context, batch = (
        (640, 64, 2, 2, 32, 2) if args.small else (32000, 768, 4, 12, 1024, 12)
    )

    model = CausalLM(vocabulary, width, depth, heads, context)
    ids = add_tokens(model, ROLES)
    model.to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, weight_decay=0.1, fused=device.type == "cuda")
    generator = torch.Generator().manual_seed(1)
    corpus = torch.randint(vocabulary, (16, batch, context + 1), generator=generator)
    corpus[:, :, 0] = ids["<user>"]
    corpus[:, :, context // 2] = ids["<assistant>"]
    corpus = corpus.to(device)
    for step in range(WARMUP + args.steps):
        loss = train_step(model, optimizer, corpus[step % len(corpus)], ids["<pad>"])
        if step + 1 == WARMUP:
            begin = now(device)
    ms = (now(device) - begin) / args.steps * 1e3
    peak = torch.cuda.max_memory_allocated() / 2**20 if device.type == "cuda" else 0.0
    print(f"last loss {loss.item():.4f}")
    print(json.dumps({"ms": round(ms, 3), "peak_mb": round(peak, 1)}))


if __name__ == "__main__":
    main()
