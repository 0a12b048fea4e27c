"""Predict the subcellular localisation of every protein of a proteome."""
import argparse
import random
import statistics
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

AMINO = "ACDEFGHIKLMNPQRSTVWY"
PLACES = ["nucleus", "cytoplasm", "membrane", "mitochondrion", "secreted", "peroxisome"]
PAD = 0


class Tokenizer:
    def __init__(self, max_length=512):
        self.ids = {a: i + 1 for i, a in enumerate(AMINO)}
        self.max_length = max_length

    def __call__(self, sequences):
        rows = [[self.ids[a] for a in s[:self.max_length]] for s in sequences]
        length = max(len(r) for r in rows)
        tokens = torch.full((len(rows), length), PAD)
        for i, r in enumerate(rows):
            tokens[i, :len(r)] = torch.tensor(r)
        return tokens


class Proteome(Dataset):
    def __init__(self, n=800, seed=21):
        rng = random.Random(seed)
        self.items = []
        for i in range(n):
            k = int(min(900, max(40, rng.lognormvariate(5.0, 0.5))))
            self.items.append((f"P{i:05d}", "".join(rng.choices(AMINO, k=k))))

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


class Localizer(nn.Module):
    def __init__(self, d=96, heads=4, layers=3, max_length=512):
        super().__init__()
        self.emb = nn.Embedding(len(AMINO) + 1, d, padding_idx=PAD)
        self.pos = nn.Parameter(torch.randn(max_length, d) * 0.02)
        layer = nn.TransformerEncoderLayer(d, heads, 4 * d, batch_first=True, norm_first=True, activation="gelu")
        self.encoder = nn.TransformerEncoder(layer, layers, norm=nn.LayerNorm(d), enable_nested_tensor=False)
        self.head = nn.Linear(d, len(PLACES))

    def forward(self, tokens):
        pad = tokens == PAD
        h = self.emb(tokens) + self.pos[:tokens.size(1)]
        h = self.encoder(h, src_key_padding_mask=pad)
        keep = (~pad).unsqueeze(-1).float()
        pooled = (h * keep).sum(1) / keep.sum(1)
        return self.head(pooled)


def make_collate(tokenizer):
    def collate(items):
        names, seqs = zip(*items)
        return names, tokenizer(seqs)
    return collate


def predictions(model, loader):
    """Endless stream of (names, place indices, probabilities)."""
    while True:
        for names, tokens in loader:
            with torch.inference_mode():
                prob = model(tokens).softmax(-1)
            conf, place = prob.max(-1)
            yield names, place, conf


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=60)
    ap.add_argument("--seconds", type=float)
    args = ap.parse_args()
    torch.manual_seed(0)
    model = Localizer().eval()
    loader = DataLoader(Proteome(), batch_size=8, collate_fn=make_collate(Tokenizer()))

    results, times, total = {}, [], 0.0
    start = t0 = time.perf_counter()
    for names, place, conf in predictions(model, loader):
        for name, p, c in zip(names, place.tolist(), conf.tolist()):
            results[name] = (PLACES[p], c)
            total += c
        now = time.perf_counter()
        times.append(now - t0)
        if len(times) >= args.steps and now - start >= (args.seconds or 0):
            break
        t0 = time.perf_counter()
    print(f"step_ms {statistics.median(times[5:]) * 1000:.3f}")
    return total


if __name__ == "__main__":
    main()
