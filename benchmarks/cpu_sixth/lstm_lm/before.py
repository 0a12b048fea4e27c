"""Character language model: two-layer LSTM trained with truncated BPTT."""
import argparse
import math
import os
import statistics
import time

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn


class RecurrentLM(nn.Module):
    """Embedding -> two LSTM layers -> vocabulary scores."""

    def __init__(self, vocab, dim=128, hidden=128, dropout=0.0):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.cell1 = nn.LSTMCell(dim, hidden)
        self.cell2 = nn.LSTMCell(hidden, hidden)
        self.drop = nn.Dropout(dropout)
        self.out = nn.Linear(hidden, vocab)
        self.hidden = hidden

    def initial_state(self, batch):
        zeros = torch.zeros(2, batch, self.hidden)
        return zeros, zeros.clone()

    def forward(self, tokens, state):
        x = self.embed(tokens)
        h, c = state
        h1, h2 = h.unbind(0)
        c1, c2 = c.unbind(0)
        outputs = []
        for t in range(tokens.shape[1]):
            h1, c1 = self.cell1(x[:, t], (h1, c1))
            h2, c2 = self.cell2(h1, (h2, c2))
            outputs.append(h2)
        y = torch.stack(outputs, dim=1)
        return self.out(self.drop(y)), (torch.stack([h1, h2]), torch.stack([c1, c2]))


def make_text(length, vocab, seed):
    """Second-order Markov text, so there is something to learn."""
    rng = np.random.default_rng(seed)
    table = rng.integers(0, vocab, (vocab, vocab, 4))
    choice = rng.integers(0, 4, length)
    text = np.zeros(length, dtype=np.int64)
    for i in range(2, length):
        text[i] = table[text[i - 2], text[i - 1], choice[i]]
    return torch.from_numpy(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch-size", type=int, default=24)
    parser.add_argument("--bptt", type=int, default=70)
    parser.add_argument("--vocab", type=int, default=64)
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--clip", type=float, default=0.25)
    parser.add_argument("--steps", type=int, default=int(os.environ.get("STEPS", 70)))
    parser.add_argument("--seed", type=int, default=1111)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    text = make_text(200_000, args.vocab, args.seed)
    columns = text[: len(text) // args.batch_size * args.batch_size].view(args.batch_size, -1)
    model = RecurrentLM(args.vocab)
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    state = model.initial_state(args.batch_size)

    times, position, total = [], 0, 0.0
    model.train()
    for step in range(1, args.steps + 1):
        start = time.perf_counter()
        if position + args.bptt + 1 > columns.shape[1]:
            position, state = 0, model.initial_state(args.batch_size)
        x = columns[:, position:position + args.bptt]
        y = columns[:, position + 1:position + args.bptt + 1]
        position += args.bptt
        state = tuple(s.detach() for s in state)  # truncate the history here

        logits, state = model(x, state)
        loss = F.cross_entropy(logits.flatten(0, 1), y.flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), args.clip)
        optimizer.step()
        total += loss.item()
        times.append(time.perf_counter() - start)
        if step % 50 == 0:
            print(f"step {step:4d} loss {total / 50:.6f} ppl {math.exp(total / 50):.2f}")
            total = 0.0
    print(f"last loss {loss.item():.6f}")
    print(f"step {statistics.median(times[5:]) * 1000:.2f} ms")


if __name__ == "__main__":
    main()
