"""Code search: a bi-encoder for docstrings and functions, trained against a bank of past functions."""
import argparse
import statistics
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

VOCAB = 6000
CODE_LEN = 48
QUERY_LEN = 16
BANK_SIZE = 32768


def make_pairs(count, rng):
    """Functions drawn from topics; the docstring reuses some tokens of its function."""
    topics = rng.integers(1, VOCAB, (300, 120))
    topic = rng.integers(0, len(topics), count)
    code = topics[topic[:, None], rng.integers(0, 120, (count, CODE_LEN))]
    picks = rng.integers(0, CODE_LEN, (count, QUERY_LEN))
    query = np.take_along_axis(code, picks, axis=1)
    noise = rng.random((count, QUERY_LEN)) < 0.2
    query[noise] = rng.integers(1, VOCAB, noise.sum())
    return torch.from_numpy(query), torch.from_numpy(code)


class Encoder(nn.Module):
    def __init__(self, embedding, length, dim=128, heads=4, layers=2):
        super().__init__()
        self.embedding = embedding
        self.position = nn.Parameter(0.02 * torch.randn(length, dim))
        block = nn.TransformerEncoderLayer(
            dim, heads, dim_feedforward=2 * dim, dropout=0.0, batch_first=True, norm_first=True
        )
        self.blocks = nn.TransformerEncoder(block, layers, enable_nested_tensor=False)
        self.project = nn.Linear(dim, dim)

    def forward(self, tokens):
        h = self.blocks(self.embedding(tokens) + self.position)
        return F.normalize(self.project(h.mean(dim=1)), dim=-1)


class BiEncoder(nn.Module):
    def __init__(self, dim=128):
        super().__init__()
        self.embedding = nn.Embedding(VOCAB, dim)
        self.query_encoder = Encoder(self.embedding, QUERY_LEN, dim)
        self.code_encoder = Encoder(self.embedding, CODE_LEN, dim)
        self.log_temperature = nn.Parameter(torch.tensor(2.5))

    def forward(self, query, code):
        return self.query_encoder(query), self.code_encoder(code)


class CodeBank:
    """Ring of embeddings of recently seen functions, used as extra negatives."""

    def __init__(self, size, dim):
        self.vectors = F.normalize(torch.randn(size, dim), dim=-1)
        self.cursor = 0

    def push(self, vectors):
        end = self.cursor + len(vectors)
        if end > len(self.vectors):
            self.cursor, end = 0, len(vectors)
        self.vectors[self.cursor:end] = vectors
        self.cursor = end


def ranking_metrics(scores, target, k=10):
    """Mean reciprocal rank and recall@k of the true function among all candidates."""
    rank = (scores > scores.gather(1, target.unsqueeze(1))).sum(dim=1) + 1
    return (1.0 / rank).mean(), (rank <= k).float().mean()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--seed", type=int, default=5)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    rng = np.random.default_rng(args.seed)
    queries, codes = make_pairs(12_000, rng)

    model = BiEncoder()
    bank = CodeBank(BANK_SIZE, 128)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=0.01)
    target = torch.arange(args.batch_size)
    mrr_sum, recall_sum = torch.zeros(()), torch.zeros(())

    times = []
    model.train()
    for step in range(args.steps):
        start = time.perf_counter()
        idx = torch.randint(len(queries), (args.batch_size,))
        q, c = model(queries[idx], codes[idx])
        candidates = torch.cat([c, bank.vectors])
        logits = model.log_temperature.exp() * (q @ candidates.T)
        loss = F.cross_entropy(logits, target)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        bank.push(c.detach())

        mrr, recall = ranking_metrics(logits.detach(), target)
        mrr_sum += mrr
        recall_sum += recall
        times.append(time.perf_counter() - start)
        if step % 10 == 0 or step == args.steps - 1:
            seen = step + 1
            print(
                f"step {step:3d}  loss {loss.item():.4f}  "
                f"mrr {mrr_sum.item() / seen:.4f}  recall@10 {recall_sum.item() / seen:.4f}"
            )

    print(f"step_ms: {1000 * statistics.median(times):.1f}")


if __name__ == "__main__":
    main()
