"""Small GPT on a generated corpus, with a byte-pair tokenizer trained at start-up."""
import argparse
import json
import statistics
import sys
import time
from collections import Counter

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

N_MERGES = 200
CONTEXT = 96
BATCH = 12
END = "</w>"


class Corpus:
    """Zipf-distributed words built from syllables, strung together into documents."""

    def __init__(self, seed, n_words=1500):
        self.rng = np.random.default_rng(seed)
        onsets = ["b", "d", "k", "l", "m", "n", "p", "r", "s", "t", "st", "tr", "v", "sh"]
        nuclei = ["a", "e", "i", "o", "u", "ai", "ou"]
        codas = ["", "", "n", "r", "s", "l", "nt"]
        pick = lambda xs: xs[int(self.rng.integers(len(xs)))]
        self.words = [
            "".join(pick(onsets) + pick(nuclei) + pick(codas) for _ in range(int(self.rng.integers(1, 4))))
            for _ in range(n_words)
        ]
        weights = 1.0 / np.arange(3, n_words + 3)
        self.p = weights / weights.sum()

    def document(self, n):
        return " ".join(self.words[k] for k in self.rng.choice(len(self.words), n, p=self.p))


class BPETokenizer:
    def __init__(self):
        self.merges = []
        self.ranks = {}
        self.vocab = {}

    def train(self, text, n_merges):
        words = {tuple(w) + (END,): c for w, c in Counter(text.split()).items()}
        symbols = sorted({s for w in words for s in w} | set("abcdefghijklmnopqrstuvwxyz"))
        for _ in range(n_merges):
            pairs = Counter()
            for w, c in words.items():
                for pair in zip(w, w[1:]):
                    pairs[pair] += c
            best = max(pairs, key=lambda p: (pairs[p], p))
            self.merges.append(best)
            words = {self.merge(w, best): c for w, c in words.items()}
        self.ranks = {pair: i for i, pair in enumerate(self.merges)}
        symbols += [a + b for a, b in self.merges]
        self.vocab = {s: i for i, s in enumerate(dict.fromkeys(symbols))}

    @staticmethod
    def merge(word, pair):
        out, i = [], 0
        while i < len(word):
            if i + 1 < len(word) and (word[i], word[i + 1]) == pair:
                out.append(word[i] + word[i + 1])
                i += 2
            else:
                out.append(word[i])
                i += 1
        return tuple(out)

    def encode_word(self, word):
        parts = tuple(word) + (END,)
        while len(parts) > 1:
            known = [p for p in zip(parts, parts[1:]) if p in self.ranks]
            if not known:
                break
            parts = self.merge(parts, min(known, key=self.ranks.get))
        return [self.vocab[s] for s in parts]

    def encode(self, text):
        ids = []
        for word in text.split():
            ids.extend(self.encode_word(word))
        return ids


def make_batch(corpus, tokenizer):
    rows = []
    for _ in range(BATCH):
        ids = tokenizer.encode(corpus.document(36))
        while len(ids) < CONTEXT + 1:
            ids += tokenizer.encode(corpus.document(8))
        rows.append(ids[:CONTEXT + 1])
    ids = torch.tensor(rows)
    return ids[:, :-1], ids[:, 1:]


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(a.transpose(1, 2).reshape(b, t, d))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    def __init__(self, vocab, dim=128, depth=2, heads=4):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocab, dim), nn.Embedding(CONTEXT, dim)
        self.blocks = nn.Sequential(*(Block(dim, heads) for _ in range(depth)))
        self.norm, self.head = nn.LayerNorm(dim), nn.Linear(dim, vocab, bias=False)

    def forward(self, ids):
        x = self.tokens(ids) + self.positions.weight[:ids.shape[1]]
        return self.head(self.norm(self.blocks(x)))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=100)
    args = parser.parse_args()

    torch.manual_seed(0)
    corpus = Corpus(seed=0)
    tokenizer = BPETokenizer()
    tokenizer.train(corpus.document(6000), N_MERGES)
    model = GPT(len(tokenizer.vocab))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.05)

    times = []
    for step in range(args.steps):
        t0 = time.perf_counter()
        x, y = make_batch(corpus, tokenizer)
        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        times.append((time.perf_counter() - t0) * 1000)
        if (step + 1) % 20 == 0:
            print(f"step {step + 1} loss {loss.item():.5f}", file=sys.stderr)

    timed = times[5:] or times
    print(json.dumps({"ms": statistics.median(timed), "steps": args.steps}))


if __name__ == "__main__":
    main()
