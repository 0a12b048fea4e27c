"""Perplexity of a character-level GRU language model on held-out text."""

import argparse
import json
import math
import random
import statistics
import time

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

WORDS = [
    "the",
    "quick",
    "brown",
    "fox",
    "jumps",
    "over",
    "a",
    "lazy",
    "dog",
    "while",
    "seven",
    "old",
    "sailors",
    "drink",
    "bitter",
    "tea",
    "near",
    "their",
    "broken",
    "ship",
    "and",
    "sing",
    "about",
    "winter",
    "storms",
    "money",
    "love",
    "rain",
    "and",
    "far",
    "away",
    "islands",
]


class Corpus:
    def __init__(self, characters, seed=3):
        rng = random.Random(seed)
        pieces, length = [], 0
        while length < characters:
            n = rng.randint(4, 12)
            sentence = " ".join(rng.choice(WORDS) for _ in range(n)).capitalize() + ". "
            pieces.append(sentence)
            length += len(sentence)
        self.text = "".join(pieces)[:characters]
        self.alphabet = sorted(set(self.text))
        lookup = {c: i for i, c in enumerate(self.alphabet)}
        self.ids = torch.tensor([lookup[c] for c in self.text])


class WindowDataset(Dataset):
    """Non-overlapping windows of `length` characters and their successors."""

    def __init__(self, ids, length):
        self.ids, self.length = ids, length

    def __len__(self):
        return (len(self.ids) - 1) // self.length

    def __getitem__(self, i):
        start = i * self.length
        window = self.ids[start : start + self.length + 1]
        return window[:-1], window[1:]


class CharGRU(nn.Module):
    def __init__(self, characters, embedding=64, hidden=128, layers=2, dropout=0.2):
        super().__init__()
        self.embed = nn.Embedding(characters, embedding)
        self.rnn = nn.GRU(embedding, hidden, layers, batch_first=True, dropout=dropout)
        self.proj = nn.Linear(hidden, characters)

    def forward(self, x, state=None):
        y, state = self.rnn(self.embed(x), state)
        return self.proj(y), state


def load_model(characters, path=None):
    torch.manual_seed(0)
    model = CharGRU(characters)
    if path:
        model.load_state_dict(torch.load(path, map_location="cpu"))
    return model


def evaluate(model, loader, max_batches):
    model.eval()
    total_nll, total_chars, total_hits = 0.0, 0, 0
    times = []
    start = time.perf_counter()
    for i, (inputs, targets) in enumerate(loader):
        logits, _ = model(inputs)
        nll = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="sum")
        total_nll += nll.item()
        total_hits += (logits.argmax(dim=-1) == targets).sum().item()
        total_chars += targets.numel()
        now = time.perf_counter()
        times.append((now - start) * 1e3)
        start = now
        if i + 1 >= max_batches:
            break
    nats = total_nll / total_chars
    return {"nll": nats, "ppl": math.exp(nats), "bpc": nats / math.log(2), "top1": total_hits / total_chars}, times


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=40, help="evaluation batches")
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--length", type=int, default=192)
    parser.add_argument("--checkpoint", default=None)
    args = parser.parse_args()

    corpus = Corpus(args.steps * args.batch_size * args.length + 1)
    model = load_model(len(corpus.alphabet), args.checkpoint)
    loader = DataLoader(WindowDataset(corpus.ids, args.length), batch_size=args.batch_size)
    summary, times = evaluate(model, loader, args.steps)
    print("  ".join(f"{k} {v:.4f}" for k, v in summary.items()))
    print(json.dumps({"ms": round(statistics.median(times[5:] or times), 3)}))


if __name__ == "__main__":
    main()
