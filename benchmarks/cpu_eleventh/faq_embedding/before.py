"""Embed a help-centre corpus with a small sentence encoder and report how tightly topics cluster."""
import argparse
import math
import random

import torch
import torch.nn as nn
import torch.nn.functional as F

VOCAB = 8000
BATCH_SIZE = 16
N_TOPICS = 12
MAX_TOKENS = 256


def make_corpus(n_docs, seed=23):
    """Documents as token ids, with lengths like those of real help pages."""
    rng = random.Random(seed)
    docs, topics = [], []
    for _ in range(n_docs):
        topic = rng.randrange(N_TOPICS)
        length = int(min(max(rng.lognormvariate(3.5, 0.65), 5), MAX_TOKENS))
        base = 100 + topic * 600
        docs.append(
            [rng.randrange(base, base + 600) if rng.random() < 0.6 else rng.randrange(100, VOCAB)
             for _ in range(length)]
        )
        topics.append(topic)
    return docs, torch.tensor(topics)


class EncoderLayer(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.fc1, self.fc2 = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)

    def forward(self, x, mask):
        b, n, d = x.shape
        qkv = self.qkv(x).view(b, n, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        q, k, v = qkv.unbind(0)
        h = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        x = self.norm1(x + self.proj(h.transpose(1, 2).reshape(b, n, d)))
        return self.norm2(x + self.fc2(F.gelu(self.fc1(x))))


class SentenceEncoder(nn.Module):
    def __init__(self, dim=160, heads=4, depth=4):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, dim, padding_idx=0)
        position = torch.arange(MAX_TOKENS).unsqueeze(1)
        rate = torch.exp(torch.arange(0, dim, 2) * (-math.log(10000.0) / dim))
        table = torch.zeros(MAX_TOKENS, dim)
        table[:, 0::2] = torch.sin(position * rate)
        table[:, 1::2] = torch.cos(position * rate)
        self.register_buffer("position", 0.1 * table)
        self.layers = nn.ModuleList(EncoderLayer(dim, heads) for _ in range(depth))

    def forward(self, ids, keep):
        x = self.embed(ids) + self.position[: ids.size(1)]
        mask = keep[:, None, None, :]
        for layer in self.layers:
            x = layer(x, mask)
        weight = keep.unsqueeze(-1).to(x.dtype)
        pooled = (x * weight).sum(dim=1) / weight.sum(dim=1)
        return F.normalize(pooled, dim=1)


def collate(docs):
    ids = nn.utils.rnn.pad_sequence([torch.tensor(d) for d in docs], batch_first=True)
    return ids, ids != 0


def batches(docs, size):
    for start in range(0, len(docs), size):
        yield collate(docs[start : start + size])


@torch.inference_mode()
def encode(model, docs):
    model.eval()
    vectors = [model(ids, keep) for ids, keep in batches(docs, BATCH_SIZE)]
    return torch.cat(vectors)


def topic_margin(vectors, topics):
    """Mean similarity to the own topic centroid minus that to the others."""
    onehot = F.one_hot(topics, N_TOPICS).float()
    centroids = F.normalize(onehot.T @ vectors, dim=1)
    sims = vectors @ centroids.T
    own = (sims * onehot).sum(dim=1)
    other = (sims.sum(dim=1) - own) / (N_TOPICS - 1)
    return (own - other).mean().item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60, help="number of batches to encode")
    args = parser.parse_args()

    torch.manual_seed(0)
    docs, topics = make_corpus(args.steps * BATCH_SIZE)
    model = SentenceEncoder()
    vectors = encode(model, docs)
    print(f"{len(docs)} documents, topic margin {topic_margin(vectors, topics):.5f}")


if __name__ == "__main__":
    main()
