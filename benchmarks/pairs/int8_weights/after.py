"""Score texts with a language model whose weights are stored as int8."""

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


class Int8Linear(nn.Module):
    def __init__(self, inputs, outputs, device, dtype):
        super().__init__()
        weight = torch.randint(-127, 128, (outputs, inputs), dtype=torch.int8, device=device)
        scale = torch.full((outputs, 1), 0.02 / 127, dtype=dtype, device=device)
        self.register_buffer("weight", weight.to(dtype) * scale)

    def forward(self, x):
        return F.linear(x, self.weight)


class Block(nn.Module):
    def __init__(self, width, heads, device, dtype):
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(width, device=device, dtype=dtype)
        self.norm2 = nn.LayerNorm(width, device=device, dtype=dtype)
        self.qkv = Int8Linear(width, 3 * width, device, dtype)
        self.out = Int8Linear(width, width, device, dtype)
        self.up = Int8Linear(width, 4 * width, device, dtype)
        self.down = Int8Linear(4 * width, width, device, dtype)

    def forward(self, x):
        b, n, c = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, n, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, n, c))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Scorer(nn.Module):
    def __init__(self, words, width, depth, heads, device, dtype):
        super().__init__()
        self.tokens = nn.Embedding(words, width, device=device, dtype=dtype)
        self.blocks = nn.Sequential(*[Block(width, heads, device, dtype) for _ in range(depth)])
        self.norm = nn.LayerNorm(width, device=device, dtype=dtype)
        self.head = nn.Linear(width, words, device=device, dtype=dtype)

    def forward(self, ids):
        return self.head(self.norm(self.blocks(self.tokens(ids))))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--small", action="store_true")
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    batch, length, words, width, depth, heads = (2, 8, 50, 32, 2, 2) if args.small else (4, 128, 8192, 4096, 16, 32)

    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    texts = torch.randint(words, (batch * (WARMUP + args.steps), length))
    loader = DataLoader(texts, batch_size=batch, pin_memory=device.type == "cuda")
    model = Scorer(words, width, depth, heads, device, dtype).eval()
    scores = []
    with torch.inference_mode():
        for step, ids in enumerate(loader):
            ids = ids.to(device, non_blocking=True)
            logits = model(ids)
            scores.append(-F.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten()))
            if step + 1 == WARMUP:
                begin = now(device)
    print(f"mean score {torch.stack(scores).mean():.4f}")
    ms = (now(device) - begin) / args.steps * 1e3
    peak = torch.cuda.max_memory_allocated() / 2**20 if device.type == "cuda" else 0.0
    print(json.dumps({"ms": round(ms, 3), "peak_mb": round(peak, 1)}))


if __name__ == "__main__":
    main()
