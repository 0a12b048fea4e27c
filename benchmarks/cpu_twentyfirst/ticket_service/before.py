"""Inference service: routes support tickets to teams, batching whatever is waiting."""
import argparse
import json
import statistics
import sys
import time
import zlib
from collections import Counter, deque
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

VOCAB = 4000
PAD, CLS = 0, 1
MAX_LEN = 192
MAX_BATCH = 16
TEAMS = ["billing", "shipping", "returns", "accounts", "technical", "sales"]


@dataclass
class Ticket:
    number: int
    text: str
    team: str = ""
    confidence: float = 0.0


class TicketStream:
    """Simulated users; ticket lengths are log-normal, most are a few sentences."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        letters = "abcdefghijklmnopqrstuvwxyz"
        self.words = ["".join(letters[k] for k in self.rng.integers(0, 26, int(self.rng.integers(2, 9))))
                      for _ in range(3000)]
        self.number = 0

    def arrivals(self):
        tickets = []
        for _ in range(int(self.rng.poisson(MAX_BATCH))):
            n = int(np.clip(self.rng.lognormal(3.2, 0.4), 4, 400))
            picks = self.rng.zipf(1.3, n) % len(self.words)
            tickets.append(Ticket(self.number, " ".join(self.words[k] for k in picks)))
            self.number += 1
        return tickets


class Tokenizer:
    def encode(self, text):
        ids = [zlib.crc32(w.encode()) % (VOCAB - 2) + 2 for w in text.lower().split()]
        return [CLS] + ids[:MAX_LEN - 1]

    def pad(self, sequences):
        ids = torch.full((len(sequences), MAX_LEN), PAD)
        for row, seq in enumerate(sequences):
            ids[row, :len(seq)] = torch.tensor(seq)
        return ids, ids != PAD


class Layer(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.up, self.down = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)

    def forward(self, x, mask):
        b, t, d = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        a = F.scaled_dot_product_attention(q, k, v, attn_mask=mask[:, None, None, :])
        x = x + self.out(a.transpose(1, 2).reshape(b, t, d))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Router(nn.Module):
    def __init__(self, dim=128, depth=3, heads=4):
        super().__init__()
        self.tokens = nn.Embedding(VOCAB, dim)
        self.positions = nn.Embedding(MAX_LEN, dim)
        self.layers = nn.ModuleList(Layer(dim, heads) for _ in range(depth))
        self.norm, self.head = nn.LayerNorm(dim), nn.Linear(dim, len(TEAMS))

    def forward(self, ids, mask):
        x = self.tokens(ids) + self.positions.weight[:ids.shape[1]]
        for layer in self.layers:
            x = layer(x, mask)
        weights = mask.unsqueeze(2).float()
        pooled = (self.norm(x) * weights).sum(1) / weights.sum(1)
        return self.head(pooled)


class Service:
    def __init__(self, model, tokenizer):
        self.model, self.tokenizer = model.eval(), tokenizer
        self.waiting = deque()
        self.routed = Counter()

    def submit(self, tickets):
        self.waiting.extend(tickets)

    @torch.inference_mode()
    def serve_batch(self):
        tickets = [self.waiting.popleft() for _ in range(min(MAX_BATCH, len(self.waiting)))]
        if not tickets:
            return []
        ids, mask = self.tokenizer.pad([self.tokenizer.encode(t.text) for t in tickets])
        confidence, best = self.model(ids, mask).softmax(1).max(1)
        for ticket, c, k in zip(tickets, confidence.tolist(), best.tolist()):
            ticket.team, ticket.confidence = TEAMS[k], c
            self.routed[ticket.team] += 1
        return tickets


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=120)
    args = parser.parse_args()

    torch.manual_seed(0)
    stream = TicketStream(seed=0)
    service = Service(Router(), Tokenizer())

    times, confidences = [], []
    for step in range(args.steps):
        service.submit(stream.arrivals())
        t0 = time.perf_counter()
        done = service.serve_batch()
        times.append((time.perf_counter() - t0) * 1000)
        confidences.extend(t.confidence for t in done)
        if (step + 1) % 20 == 0:
            print(f"step {step + 1} served {len(confidences)} confidence {np.mean(confidences):.6f} "
                  f"{dict(sorted(service.routed.items()))}", file=sys.stderr)

    timed = times[5:] or times
    print(json.dumps({"ms": statistics.median(timed), "steps": args.steps}))


if __name__ == "__main__":
    main()
