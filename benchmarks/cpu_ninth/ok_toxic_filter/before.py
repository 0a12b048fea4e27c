"""Scoring forum comments for toxicity: batched inference sorted by length."""
import argparse
import itertools
import random
import statistics
import time

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.rnn import pad_sequence

VOCAB, PAD, LABELS = 6000, 0, 4


def comments(n=1920, seed=29):
    rng = random.Random(seed)
    return [torch.tensor([rng.randrange(1, VOCAB) for _ in range(int(min(128, max(6, rng.lognormvariate(3.7, 0.6)))))])
            for _ in range(n)]


def bucketed_batches(rows, batch=32):
    """Sort by length once, pad to the longest of each batch, then visit the batches in random order."""
    order = sorted(range(len(rows)), key=lambda i: len(rows[i]))
    batches = [order[i:i + batch] for i in range(0, len(order), batch)]
    random.Random(0).shuffle(batches)
    for index in batches:
        yield index, pad_sequence([rows[i] for i in index], batch_first=True, padding_value=PAD)


class Layer(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.heads = heads
        self.n1, self.n2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.qkv, self.proj = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.ff = nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d))

    def forward(self, x, mask):
        b, t, d = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        a = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        x = x + self.proj(a.transpose(1, 2).reshape(b, t, d))
        return x + self.ff(self.n2(x))


class ToxicNet(nn.Module):
    def __init__(self, d=128, heads=4, layers=3):
        super().__init__()
        self.emb, self.pos = nn.Embedding(VOCAB, d, padding_idx=PAD), nn.Embedding(128, d)
        self.layers = nn.ModuleList(Layer(d, heads) for _ in range(layers))
        self.head = nn.Linear(d, LABELS)

    def forward(self, tokens):
        keep = tokens != PAD
        x = self.emb(tokens) + self.pos.weight[:tokens.size(1)]
        mask = keep[:, None, None, :]
        for layer in self.layers:
            x = layer(x, mask)
        w = keep.unsqueeze(-1).to(x.dtype)
        return self.head((x * w).sum(1) / w.sum(1))


@torch.inference_mode()
def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=60)
    ap.add_argument("--seconds", type=float)
    args = ap.parse_args()
    torch.manual_seed(0)
    rows = comments()
    model = ToxicNet().eval()
    scores = torch.zeros(len(rows), LABELS)
    times, start = [], time.perf_counter()
    t0 = start
    for index, tokens in itertools.chain.from_iterable(bucketed_batches(rows) for _ in itertools.count()):
        scores[index] = model(tokens).sigmoid()
        now = time.perf_counter()
        times.append(now - t0)
        if len(times) >= args.steps and now - start >= (args.seconds or 0):
            break
        t0 = time.perf_counter()
    print(f"step_ms {statistics.median(times[5:]) * 1000:.3f}")
    return scores.sum().item()


if __name__ == "__main__":
    main()
