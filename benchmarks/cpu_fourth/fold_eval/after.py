"""Evaluation of a protein fold classifier: top-k accuracy and calibration."""
import argparse
import time

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

RESIDUES, PAD, FOLDS = 20, 20, 32


class ProteinDataset(Dataset):
    def __init__(self, count, max_len, seed):
        gen = torch.Generator().manual_seed(seed)
        raw = torch.exp(4.5 + 0.45 * torch.randn(count, generator=gen))
        self.lengths = raw.long().clamp(30, max_len).tolist()
        self.folds = torch.randint(0, FOLDS, (count,), generator=gen)
        usage = torch.softmax(torch.randn(FOLDS, RESIDUES, generator=gen), 1)
        self.chains = [torch.multinomial(usage[f], n, replacement=True, generator=gen)
                       for f, n in zip(self.folds, self.lengths)]

    def __len__(self):
        return len(self.chains)

    def __getitem__(self, i):
        return self.chains[i], self.folds[i]


class Collator:
    def __init__(self, max_len):
        self.max_len = max_len

    def __call__(self, items):
        width = max(len(chain) for chain, _ in items)
        chains = torch.full((len(items), width), PAD)
        for row, (chain, _) in enumerate(items):
            chains[row, :len(chain)] = chain
        return chains, torch.stack([fold for _, fold in items])


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.fc1, self.fc2 = nn.Linear(dim, 3 * dim), nn.Linear(3 * dim, dim)

    def forward(self, x, mask):
        b, s, d = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, s, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        x = x + self.proj(y.transpose(1, 2).reshape(b, s, d))
        return x + self.fc2(F.gelu(self.fc1(self.n2(x))))


class FoldClassifier(nn.Module):
    def __init__(self, dim=96, depth=2, heads=4, max_len=320):
        super().__init__()
        self.embed = nn.Embedding(RESIDUES + 1, dim, padding_idx=PAD)
        self.pos = nn.Parameter(0.02 * torch.randn(max_len, dim))
        self.blocks = nn.ModuleList(Block(dim, heads) for _ in range(depth))
        self.norm, self.out = nn.LayerNorm(dim), nn.Linear(dim, FOLDS)

    def forward(self, chains):
        real = chains != PAD
        x = self.embed(chains) + self.pos[:chains.shape[1]]
        for block in self.blocks:
            x = block(x, real[:, None, None, :])
        w = real.unsqueeze(-1).float()
        return self.out((self.norm(x) * w).sum(1) / w.sum(1))


class Scores:
    def __init__(self, bins=10):
        self.hits, self.seen, self.nll = torch.zeros(2), 0, 0.0
        self.bins = torch.zeros(3, bins)

    def update(self, logits, folds):
        logp = F.log_softmax(logits, -1)
        self.nll += F.nll_loss(logp, folds, reduction="sum").item()
        match = logp.topk(5, -1).indices == folds[:, None]
        self.hits += torch.stack([match[:, 0].sum(), match.any(1).sum()])
        conf = logp.max(-1).values.exp()
        b = (conf * self.bins.shape[1]).long().clamp(max=self.bins.shape[1] - 1)
        self.bins.index_add_(1, b, torch.stack([torch.ones_like(conf), conf, match[:, 0].float()]))
        self.seen += len(folds)

    def report(self):
        ece = (self.bins[1] - self.bins[2]).abs().sum() / self.seen
        top1, top5 = (self.hits / self.seen).tolist()
        return f"nll {self.nll / self.seen:.5f} top1 {top1:.4f} top5 {top5:.4f} ece {ece.item():.4f}"


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=60)
    ap.add_argument("--batch-size", type=int, default=8)
    ap.add_argument("--max-len", type=int, default=320)
    args = ap.parse_args()
    torch.manual_seed(37)

    data = ProteinDataset(args.steps * args.batch_size, args.max_len, seed=16)
    loader = DataLoader(data, batch_size=args.batch_size, collate_fn=Collator(args.max_len))
    model, scores, times = FoldClassifier(max_len=args.max_len).eval(), Scores(), []
    with torch.inference_mode():
        batches = iter(loader)
        for _ in range(args.steps):
            t0 = time.perf_counter()
            chains, folds = next(batches)
            scores.update(model(chains), folds)
            times.append(time.perf_counter() - t0)
    print(scores.report())
    kept = times[5:] or times
    print(f"mean step {1000 * sum(kept) / len(kept):.2f} ms")


if __name__ == "__main__":
    main()
