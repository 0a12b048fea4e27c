"""Greedy decoding with an int8 encoder-decoder (random weights, made-up text)."""

import argparse
import warnings

import torch
import torch.nn.functional as F
from torch import nn

VOCAB = 3000
START = 1


def split_heads(x, heads):
    b, n, d = x.shape
    return x.view(b, n, heads, d // heads).transpose(1, 2)


def merge_heads(x):
    b, h, n, d = x.shape
    return x.transpose(1, 2).reshape(b, n, h * d)


class Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.o = (nn.Linear(dim, dim) for _ in range(4))

    def project(self, source):
        return split_heads(self.k(source), self.heads), split_heads(self.v(source), self.heads)

    def attend(self, x, keys, values):
        query = split_heads(self.q(x), self.heads)
        return self.o(merge_heads(F.scaled_dot_product_attention(query, keys, values)))


class EncoderLayer(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attention = Attention(dim, heads)
        self.mlp = nn.Sequential(nn.Linear(dim, 2 * dim), nn.ReLU(), nn.Linear(2 * dim, dim))

    def forward(self, x):
        y = self.norm1(x)
        x = x + self.attention.attend(y, *self.attention.project(y))
        return x + self.mlp(self.norm2(x))


class DecoderLayer(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.norm1, self.norm2, self.norm3 = (nn.LayerNorm(dim) for _ in range(3))
        self.own = Attention(dim, heads)
        self.cross = Attention(dim, heads)
        self.mlp = nn.Sequential(nn.Linear(dim, 2 * dim), nn.ReLU(), nn.Linear(2 * dim, dim))

    def forward(self, x, memory, cache):
        """One new position per call; `cache` holds what earlier calls left."""
        y = self.norm1(x)
        keys, values = self.own.project(y)
        if "own" in cache:
            keys = torch.cat([cache["own"][0], keys], dim=2)
            values = torch.cat([cache["own"][1], values], dim=2)
        cache["own"] = keys, values
        x = x + self.own.attend(y, keys, values)
        if "cross" not in cache:
            cache["cross"] = self.cross.project(memory)
        x = x + self.cross.attend(self.norm2(x), *cache["cross"])
        return x + self.mlp(self.norm3(x))


class Translator(nn.Module):
    def __init__(self, dim=256, heads=4, depth=3, longest=128):
        super().__init__()
        self.words = nn.Embedding(VOCAB, dim)
        self.places = nn.Embedding(longest, dim)
        self.encoder = nn.ModuleList(EncoderLayer(dim, heads) for _ in range(depth))
        self.decoder = nn.ModuleList(DecoderLayer(dim, heads) for _ in range(depth))
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, VOCAB)

    def encode(self, source):
        x = self.words(source) + self.places.weight[:source.shape[1]]
        for layer in self.encoder:
            x = layer(x)
        return x

    def generate(self, source, length):
        memory = self.encode(source)
        caches = [{} for _ in self.decoder]
        word = torch.full((len(source),), START)
        score = torch.zeros(len(source))
        for position in range(length):
            x = (self.words(word) + self.places.weight[position])[:, None]
            for layer, cache in zip(self.decoder, caches):
                x = layer(x, memory, cache)
            best, word = self.head(self.norm(x[:, 0])).log_softmax(1).max(1)
            score += best
        return score


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--source", type=int, default=80)
    parser.add_argument("--length", type=int, default=24)
    args = parser.parse_args()
    warnings.filterwarnings("ignore", message=r"(?s).*deprecated")

    torch.manual_seed(61)
    model = torch.ao.quantization.quantize_dynamic(Translator().eval(), {nn.Linear}, dtype=torch.qint8)
    rng = torch.Generator().manual_seed(16)
    total = 0.0
    with torch.inference_mode():
        for _ in range(args.steps):
            source = torch.randint(2, VOCAB, (args.batch, args.source), generator=rng)
            total += model.generate(source, args.length).mean().item()
    print(f"final score {total / args.steps:.6f}")


if __name__ == "__main__":
    main()
