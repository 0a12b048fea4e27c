"""Sentiment classification of product reviews with a small Transformer encoder."""
import argparse
import random
import statistics
import time
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn as nn

PAD, UNK = 0, 1


@dataclass
class Config:
    vocab_size: int = 5000
    max_len: int = 256
    d_model: int = 96
    n_heads: int = 4
    n_layers: int = 2
    d_ff: int = 256
    n_classes: int = 2
    batch_size: int = 32
    n_reviews: int = 3000
    lr: float = 3e-4
    seed: int = 13


def synthetic_reviews(cfg):
    rng = np.random.default_rng(cfg.seed)
    words = np.array([f"w{i}" for i in range(cfg.vocab_size)])
    texts, labels = [], []
    for _ in range(cfg.n_reviews):
        length = int(np.clip(rng.lognormal(3.7, 0.45), 5, 400))
        label = int(rng.integers(0, 2))
        ids = rng.zipf(1.25, size=length) % (cfg.vocab_size // 2) * 2
        hint = rng.random(length) < 0.1
        ids = np.where(hint, ids + label, ids)
        texts.append(" ".join(words[ids]))
        labels.append(label)
    return texts, labels


class Tokenizer:
    def __init__(self, texts, vocab_size, max_len):
        counts = {}
        for text in texts:
            for word in text.split():
                counts[word] = counts.get(word, 0) + 1
        most_common = sorted(counts, key=lambda w: (-counts[w], w))[:vocab_size - 2]
        self.vocab = {word: i + 2 for i, word in enumerate(most_common)}
        self.max_len = max_len

    def encode(self, text):
        ids = [self.vocab.get(word, UNK) for word in text.split()][:self.max_len]
        return ids + [PAD] * (self.max_len - len(ids))


def batch_iterator(encoded, labels, batch_size):
    order = list(range(len(encoded)))
    while True:
        random.shuffle(order)
        for i in range(0, len(order) - batch_size + 1, batch_size):
            chunk = order[i:i + batch_size]
            ids = torch.tensor([encoded[j] for j in chunk])
            target = torch.tensor([labels[j] for j in chunk])
            yield ids, target


class ReviewClassifier(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.tokens = nn.Embedding(cfg.vocab_size, cfg.d_model, padding_idx=PAD)
        self.positions = nn.Parameter(torch.randn(cfg.max_len, cfg.d_model) * 0.02)
        layer = nn.TransformerEncoderLayer(
            cfg.d_model, cfg.n_heads, cfg.d_ff, dropout=0.0, batch_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, cfg.n_layers)
        self.head = nn.Linear(cfg.d_model, cfg.n_classes)

    def forward(self, ids):
        padding = ids == PAD
        x = self.tokens(ids) + self.positions[:ids.size(1)]
        x = self.encoder(x, src_key_padding_mask=padding)
        keep = (~padding).unsqueeze(-1).to(x.dtype)
        pooled = (x * keep).sum(dim=1) / keep.sum(dim=1).clamp(min=1.0)
        return self.head(pooled)


def train(cfg, steps):
    texts, labels = synthetic_reviews(cfg)
    tokenizer = Tokenizer(texts, cfg.vocab_size, cfg.max_len)
    encoded = [tokenizer.encode(text) for text in texts]

    model = ReviewClassifier(cfg)
    optimizer = torch.optim.AdamW(model.parameters(), lr=cfg.lr)
    criterion = nn.CrossEntropyLoss()
    batches = batch_iterator(encoded, labels, cfg.batch_size)

    durations = []
    for step in range(1, steps + 1):
        tic = time.perf_counter()
        ids, target = next(batches)
        logits = model(ids)
        loss = criterion(logits, target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        durations.append(time.perf_counter() - tic)
        if step == 1 or step % 10 == 0:
            acc = (logits.argmax(1) == target).float().mean().item()
            print(f"step {step:3d} | loss {loss.item():.4f} | acc {acc:.3f}")
    return durations


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--batch-size", type=int, default=Config.batch_size)
    args = parser.parse_args()

    cfg = Config(batch_size=args.batch_size)
    random.seed(cfg.seed)
    torch.manual_seed(cfg.seed)
    durations = train(cfg, args.steps)
    print(f"step_ms: {statistics.median(durations) * 1000:.2f}")


if __name__ == "__main__":
    main()
