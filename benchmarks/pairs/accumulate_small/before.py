"""Fine-tune a sequence classifier with gradient accumulation."""

import argparse
import json
import time

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

WARMUP = 10


def now(device):
    if device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


BATCH, ACCUMULATE = 2, 16


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        b, n, c = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, n, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v)
        x = x + self.out(y.transpose(1, 2).reshape(b, n, c))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Classifier(nn.Module):
    def __init__(self, words, length, width, depth, heads, classes):
        super().__init__()
        self.tokens = nn.Embedding(words, width)
        self.position = nn.Parameter(torch.randn(1, length, width) * 0.02)
        self.blocks = nn.Sequential(*[Block(width, heads) for _ in range(depth)])
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, classes)

    def forward(self, ids):
        return self.head(self.norm(self.blocks(self.tokens(ids) + self.position)).mean(1))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--small", action="store_true")
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    words, length, width, depth, heads = (50, 16, 32, 2, 2) if args.small else (20000, 128, 512, 6, 8)

    count = BATCH * ACCUMULATE * (WARMUP + args.steps)
    data = TensorDataset(torch.randint(words, (count, length)), torch.randint(4, (count,)))
    loader = DataLoader(data, batch_size=BATCH, shuffle=True, num_workers=2, pin_memory=device.type == "cuda")
    model = Classifier(words, length, width, depth, heads, 4).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for index, (ids, labels) in enumerate(loader):
        ids, labels = ids.to(device, non_blocking=True), labels.to(device, non_blocking=True)
        with torch.autocast(device.type, torch.bfloat16):
            loss = F.cross_entropy(model(ids), labels) / ACCUMULATE
        loss.backward()
        if (index + 1) % ACCUMULATE == 0:
            step = index // ACCUMULATE
            optimizer.step()
            optimizer.zero_grad()
            if step + 1 == WARMUP:
                begin = now(device)
    ms = (now(device) - begin) / args.steps * 1e3
    peak = torch.cuda.max_memory_allocated() / 2**20 if device.type == "cuda" else 0.0
    print(json.dumps({"ms": round(ms, 3), "peak_mb": round(peak, 1)}))


if __name__ == "__main__":
    main()
