"""Evaluate a query encoder by searching a corpus of passage embeddings: MRR and recall."""

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


class Layer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        b, n, c = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, n, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v)
        x = x + self.out(y.transpose(1, 2).reshape(b, n, c))
        return x + self.mlp(self.norm2(x))


class QueryEncoder(nn.Module):
    def __init__(self, vocabulary, length, width, depth, heads, dim):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.position = nn.Parameter(torch.randn(length, width) * 0.02)
        self.layers = nn.Sequential(*[Layer(width, heads) for _ in range(depth)])
        self.project = nn.Linear(width, dim)

    def forward(self, ids):
        x = self.layers(self.tokens(ids) + self.position)
        return F.normalize(self.project(x.mean(1)), dim=-1)


class PassageIndex:
    def __init__(self, vectors):
        self.vectors = F.normalize(vectors.float(), dim=-1).to(vectors.dtype)

    def scores(self, queries):
        return (queries.to(self.vectors.dtype) @ self.vectors.T).float()


class RankMetrics:
    """Mean reciprocal rank and recall at several depths, added up over batches."""

    def __init__(self, depths, device):
        self.depths = torch.tensor(depths, device=device)
        self.reciprocal = torch.zeros((), device=device)
        self.hits = torch.zeros(len(depths), device=device)
        self.seen = 0

    def ranks(self, scores, gold):
        ordering = scores.argsort(dim=1, descending=True)
        return (ordering == gold[:, None]).int().argmax(1)

    def update(self, scores, gold):
        rank = self.ranks(scores, gold)
        self.reciprocal += (1.0 / (rank + 1)).sum()
        self.hits += (rank[:, None] < self.depths).float().sum(0)
        self.seen += len(gold)

    def compute(self):
        return {
            "mrr": self.reciprocal.item() / self.seen,
            "recall": dict(zip(self.depths.tolist(), (self.hits / self.seen).tolist(), strict=False)),
        }


@torch.inference_mode()
def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--small", action="store_true")
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    sizes = (8, 16, 32, 2, 2, 16, 500) if args.small else (256, 32, 768, 12, 12, 256, 150_000)
    batch, length, width, depth, heads, dim, passages = sizes

    encoder = QueryEncoder(30_000, length, width, depth, heads, dim).to(device).eval()
    index = PassageIndex(torch.randn(passages, dim, device=device, dtype=torch.bfloat16))
    metrics = RankMetrics([1, 10, 100, 1000], device)
    queries = torch.randint(30_000, (WARMUP + args.steps, batch, length)).to(device)
    golds = torch.randint(passages, (WARMUP + args.steps, batch)).to(device)
    for step in range(WARMUP + args.steps):
        with torch.autocast(device.type, torch.bfloat16):
            embedded = encoder(queries[step])
        metrics.update(index.scores(embedded), golds[step])
        if step + 1 == WARMUP:
            begin = now(device)
    ms = (now(device) - begin) / args.steps * 1e3
    print(metrics.compute())
    peak = torch.cuda.max_memory_allocated() / 2**20 if device.type == "cuda" else 0.0
    print(json.dumps({"ms": round(ms, 3), "peak_mb": round(peak, 1)}))


if __name__ == "__main__":
    main()
