"""Pre-train a small text encoder by filling in masked words (made-up corpus)."""

import argparse

import torch
import torch.nn.functional as F
from torch import nn

VOCAB = 4000
MASK_ID = 1
PAD_LABEL = -100


class Corpus:
    """Sentences in which every word follows from the one before, with some noise."""

    def __init__(self, length, seed):
        self.length = length
        self.rng = torch.Generator().manual_seed(seed)
        self.successor = torch.randint(2, VOCAB, (VOCAB,), generator=self.rng)

    def batch(self, size):
        words = torch.empty(size, self.length, dtype=torch.long)
        words[:, 0] = torch.randint(2, VOCAB, (size,), generator=self.rng)
        noise = torch.rand(size, self.length, generator=self.rng) < 0.2
        spare = torch.randint(2, VOCAB, (size, self.length), generator=self.rng)
        for i in range(1, self.length):
            words[:, i] = torch.where(noise[:, i], spare[:, i], self.successor[words[:, i - 1]])
        return words

    def masked_batch(self, size, rate=0.15):
        words = self.batch(size)
        chosen = torch.rand(words.shape, generator=self.rng) < rate
        chosen[:, 0] = True
        inputs = words.masked_fill(chosen, MASK_ID)
        labels = words.masked_fill(~chosen, PAD_LABEL)
        return inputs, labels


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)
        self.norm2 = nn.LayerNorm(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v)
        x = x + self.out(mixed.transpose(1, 2).reshape(b, n, d))
        return x + self.mlp(self.norm2(x))


class WordHead(nn.Module):
    """Transforms hidden states and scores them against the (tied) word table."""

    def __init__(self, dim, table):
        super().__init__()
        self.dense = nn.Linear(dim, dim)
        self.norm = nn.LayerNorm(dim)
        self.table = table
        self.bias = nn.Parameter(torch.zeros(VOCAB))

    def forward(self, hidden):
        hidden = self.norm(F.gelu(self.dense(hidden)))
        return F.linear(hidden, self.table.weight, self.bias)


class MaskedWordModel(nn.Module):
    def __init__(self, length, dim=128, heads=4, depth=3):
        super().__init__()
        self.words = nn.Embedding(VOCAB, dim)
        nn.init.normal_(self.words.weight, std=0.05)
        self.places = nn.Parameter(torch.randn(length, dim) * 0.05)
        self.blocks = nn.ModuleList(Block(dim, heads) for _ in range(depth))
        self.norm = nn.LayerNorm(dim)
        self.head = WordHead(dim, self.words)

    def forward(self, inputs, labels):
        x = self.words(inputs) + self.places
        for block in self.blocks:
            x = block(x)
        hidden = self.norm(x)
        asked = labels != PAD_LABEL
        logits = self.head(hidden[asked])
        return F.cross_entropy(logits, labels[asked])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--batch", type=int, default=12)
    parser.add_argument("--length", type=int, default=48)
    args = parser.parse_args()

    torch.manual_seed(0)
    corpus = Corpus(args.length, seed=5)
    model = MaskedWordModel(args.length)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4, fused=True)
    loss = None
    for _ in range(args.steps):
        inputs, labels = corpus.masked_batch(args.batch)
        loss = model(inputs, labels)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    print(f"final loss {loss.item():.6f}")


if __name__ == "__main__":
    main()
