"""Skip-gram with negative sampling on a synthetic topical corpus."""
import argparse
import time

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn


def make_corpus(vocab, topics, length, rng):
    """A stream of word ids whose topic drifts; word frequencies are Zipfian inside a topic."""
    topic = rng.integers(topics, size=length // 50 + 1).repeat(50)[:length]
    rank = np.minimum(rng.zipf(1.3, size=length) - 1, vocab // topics - 1)
    return rank * topics + topic


def noise_distribution(corpus, vocab, power=0.75):
    counts = np.bincount(corpus, minlength=vocab).astype(np.float64)
    weights = (counts + 1) ** power
    return weights / weights.sum()


class PairSampler:
    """Draws windows around random centre words, with negatives for each context word."""

    def __init__(self, corpus, vocab, window, negatives, seed):
        self.corpus = corpus
        self.vocab = vocab
        self.window = window
        self.negatives = negatives
        self.noise = noise_distribution(corpus, vocab)
        self.rng = np.random.default_rng(seed)

    def batch(self, size):
        positions = self.rng.integers(self.window, len(self.corpus) - self.window, size=size)
        spans = self.rng.integers(1, self.window + 1, size=size)
        centers, contexts, negatives = [], [], []
        for pos, span in zip(positions, spans):
            left = self.corpus[pos - span:pos]
            right = self.corpus[pos + 1:pos + span + 1]
            context = np.concatenate([left, right])
            shape = (len(context), self.negatives)
            negative = self.rng.choice(self.vocab, size=shape, p=self.noise)
            centers.append(np.full(len(context), self.corpus[pos]))
            contexts.append(context)
            negatives.append(negative)
        return (
            torch.from_numpy(np.concatenate(centers)),
            torch.from_numpy(np.concatenate(contexts)),
            torch.from_numpy(np.concatenate(negatives)),
        )


class SkipGram(nn.Module):
    def __init__(self, vocab, dim):
        super().__init__()
        self.inputs = nn.Embedding(vocab, dim, sparse=True)
        self.outputs = nn.Embedding(vocab, dim, sparse=True)
        nn.init.uniform_(self.inputs.weight, -0.5 / dim, 0.5 / dim)
        nn.init.normal_(self.outputs.weight, std=0.05)

    def forward(self, center, context, negative):
        v = self.inputs(center)
        pos = (v * self.outputs(context)).sum(-1)
        neg = torch.bmm(self.outputs(negative), v.unsqueeze(-1)).squeeze(-1)
        return -(F.logsigmoid(pos) + F.logsigmoid(-neg).sum(-1)).mean()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--centers", type=int, default=256)
    parser.add_argument("--vocab", type=int, default=10000)
    parser.add_argument("--dim", type=int, default=128)
    parser.add_argument("--window", type=int, default=5)
    parser.add_argument("--negatives", type=int, default=8)
    args = parser.parse_args()

    torch.manual_seed(3)
    corpus = make_corpus(args.vocab, 20, 400_000, np.random.default_rng(3))
    sampler = PairSampler(corpus, args.vocab, args.window, args.negatives, seed=4)
    model = SkipGram(args.vocab, args.dim)
    optimizer = torch.optim.SparseAdam(model.parameters(), lr=2e-3)

    durations = []
    for step in range(args.steps):
        tick = time.perf_counter()
        loss = model(*sampler.batch(args.centers))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        durations.append(time.perf_counter() - tick)
        if step % 10 == 0:
            print(f"step {step} loss {loss.item():.5f}")
    kept = durations[5:] or durations
    print(f"mean step {1000 * sum(kept) / len(kept):.2f} ms")


if __name__ == "__main__":
    main()
