"""Skip-gram word embeddings with negative sampling on a news-like corpus."""
import argparse
import statistics
import time

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

VOCAB = 80_000
DIM = 100


def zipf_corpus(tokens=400_000, seed=2):
    rng = np.random.default_rng(seed)
    ranks = np.arange(1, VOCAB + 1)
    p = 1.0 / ranks ** 1.05
    p /= p.sum()
    return rng.choice(VOCAB, size=tokens, p=p), p


def subsample(corpus, p, rng, t=1e-4):
    keep = np.minimum(1.0, np.sqrt(t / p[corpus]))
    return corpus[rng.random(len(corpus)) < keep]


def pair_batches(corpus, p, batch=4096, window=5, negatives=5, seed=9):
    """Endless generator of (centre, context, negatives) index tensors."""
    rng = np.random.default_rng(seed)
    noise = p ** 0.75
    table = torch.from_numpy(rng.choice(VOCAB, size=2_000_000, p=noise / noise.sum()))
    gen = torch.Generator().manual_seed(seed)
    while True:
        words = torch.from_numpy(subsample(corpus, p, rng))
        n = len(words)
        order = torch.randperm(n - 2 * window, generator=gen) + window
        for chunk in order.split(batch):
            if len(chunk) < batch:
                break
            offset = torch.randint(1, window + 1, (batch,), generator=gen)
            sign = torch.randint(0, 2, (batch,), generator=gen) * 2 - 1
            neg = table[torch.randint(0, len(table), (batch, negatives), generator=gen)]
            yield words[chunk], words[chunk + offset * sign], neg


class SkipGram(nn.Module):
    def __init__(self, vocab, dim):
        super().__init__()
        self.centre = nn.Embedding(vocab, dim)
        self.context = nn.Embedding(vocab, dim)
        nn.init.uniform_(self.centre.weight, -0.5 / dim, 0.5 / dim)
        nn.init.uniform_(self.context.weight, -0.5 / dim, 0.5 / dim)

    def forward(self, c, o, neg):
        v = self.centre(c)
        pos = (v * self.context(o)).sum(-1)
        negs = torch.bmm(self.context(neg), v.unsqueeze(2)).squeeze(2)
        return -(F.logsigmoid(pos) + F.logsigmoid(-negs).sum(-1)).mean()


def train(model, batches, opt, sched, steps, seconds):
    times, start = [], time.perf_counter()
    while len(times) < steps or (seconds and time.perf_counter() - start < seconds):
        t0 = time.perf_counter()
        c, o, neg = next(batches)
        opt.zero_grad()
        loss = model(c, o, neg)
        loss.backward()
        opt.step()
        sched.step()
        times.append(time.perf_counter() - t0)
    return times, loss


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=60)
    ap.add_argument("--seconds", type=float)
    args = ap.parse_args()
    torch.manual_seed(0)
    corpus, p = zipf_corpus()
    model = SkipGram(VOCAB, DIM)
    opt = torch.optim.SGD(model.parameters(), lr=50.0)
    sched = torch.optim.lr_scheduler.LambdaLR(opt, lambda s: max(0.05, 1 - s / 20_000))
    times, loss = train(model, pair_batches(corpus, p), opt, sched, args.steps, args.seconds)
    print(f"step_ms {statistics.median(times[5:]) * 1000:.3f}")
    return loss.item()


if __name__ == "__main__":
    main()
