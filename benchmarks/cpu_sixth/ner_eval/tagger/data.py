"""Synthetic newswire: sentences of word ids with BIO tags."""
import numpy as np
import torch

TAGS = ["O", "B-PER", "I-PER", "B-ORG", "I-ORG", "B-LOC", "I-LOC", "B-MISC", "I-MISC"]
IGNORE = -100


def make_corpus(sentences, vocab, seed):
    rng = np.random.default_rng(seed)
    corpus = []
    for _ in range(sentences):
        n = int(rng.integers(20, 65))
        words = rng.integers(1, vocab, n)
        tags = np.where(rng.random(n) < 0.8, 0, rng.integers(1, len(TAGS), n))
        corpus.append((words, tags))
    # similar lengths side by side keep padding low
    corpus.sort(key=lambda s: len(s[0]))
    return corpus


def make_batches(corpus, batch_size):
    for start in range(0, len(corpus), batch_size):
        chunk = corpus[start:start + batch_size]
        width = max(len(w) for w, _ in chunk)
        tokens = torch.zeros(len(chunk), width, dtype=torch.long)
        labels = torch.full((len(chunk), width), IGNORE)
        for row, (words, tags) in enumerate(chunk):
            tokens[row, : len(words)] = torch.from_numpy(words)
            labels[row, : len(tags)] = torch.from_numpy(tags)
        yield tokens, labels
