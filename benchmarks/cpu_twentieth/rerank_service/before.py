"""Passage re-ranking service: a causal language model asked yes or no for each candidate."""
import argparse
import json
import statistics
import sys
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

VOCAB = 12000
PAD, SEP, ASK, YES, NO = 0, 1, 2, 3, 4
CONTEXT = 64
CANDIDATES = 20


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)
        self.norm2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        b, t, w = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, t, 3, self.heads, w // self.heads).permute(2, 0, 3, 1, 4)
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(a.transpose(1, 2).reshape(b, t, w))
        return x + self.mlp(self.norm2(x))


class CausalLM(nn.Module):
    def __init__(self, width=192, heads=6, layers=4):
        super().__init__()
        self.tokens = nn.Embedding(VOCAB, width)
        self.positions = nn.Embedding(CONTEXT, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, VOCAB, bias=False)

    def hidden(self, ids):
        x = self.tokens(ids) + self.positions.weight[:ids.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.norm(x)

    def forward(self, ids):
        return self.head(self.hidden(ids))


class Reranker:
    def __init__(self, model):
        self.model = model.eval()

    def prompts(self, query, passages):
        """Right-padded prompts and the position of each one's last token."""
        room = CONTEXT - len(query) - 2
        rows = [[*query, SEP, *passage[:room], ASK] for passage in passages]
        last = torch.tensor([len(row) - 1 for row in rows])
        ids = torch.full((len(rows), int(last.max()) + 1), PAD, dtype=torch.long)
        for i, row in enumerate(rows):
            ids[i, :len(row)] = torch.tensor(row)
        return ids, last

    @torch.inference_mode()
    def rank(self, query, passages):
        ids, last = self.prompts(query, passages)
        rows = torch.arange(len(ids))
        answer = self.model(ids)[rows, last]
        score = answer[:, [YES, NO]].log_softmax(1)[:, 0]
        order = score.argsort(descending=True)
        return order.tolist(), score[order].tolist()


class Requests:
    """Synthetic queries with candidate passages, as a retriever would hand them over."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def words(self, n):
        return (self.rng.zipf(1.25, n) % (VOCAB - 5) + 5).tolist()

    def __iter__(self):
        while True:
            query = self.words(int(self.rng.integers(4, 10)))
            lengths = np.clip(self.rng.normal(36, 8, CANDIDATES).astype(int), 12, 60)
            yield query, [self.words(int(n)) for n in lengths]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=140)
    args = parser.parse_args()

    torch.manual_seed(0)
    service = Reranker(CausalLM())
    requests = iter(Requests(seed=0))

    times = []
    checksum = 0.0
    for step in range(args.steps):
        query, passages = next(requests)
        t0 = time.perf_counter()
        order, scores = service.rank(query, passages)
        checksum += scores[0] - scores[-1]
        times.append((time.perf_counter() - t0) * 1000)
        if (step + 1) % 20 == 0:
            print(f"request {step + 1} best {order[0]} score {scores[0]:.5f} spread {checksum / (step + 1):.5f}",
                  file=sys.stderr)

    timed = times[5:] or times
    print(json.dumps({"ms": statistics.median(timed), "steps": args.steps}))


if __name__ == "__main__":
    main()
