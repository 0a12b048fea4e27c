"""Person re-identification: batch-hard triplet training on part descriptors."""
import argparse
import time

import torch
from torch import nn


class PKSampler:
    """Batches of P identities with K shots each."""

    def __init__(self, labels, p, k, generator):
        self.p, self.k, self.generator = p, k, generator
        order = torch.argsort(labels, stable=True)
        self.by_id = order.view(labels.max().item() + 1, -1)

    def __iter__(self):
        while True:
            ids = torch.randperm(len(self.by_id), generator=self.generator)[: self.p]
            shots = torch.randint(self.by_id.shape[1], (self.p, self.k), generator=self.generator)
            yield self.by_id[ids.unsqueeze(1), shots].flatten()


class PartEmbedder(nn.Module):
    """Embeds six body-part descriptors and fuses them into one vector."""

    def __init__(self, parts=6, dim_in=192, hidden=256, dim_out=160):
        super().__init__()
        self.part = nn.Sequential(
            nn.Linear(dim_in, hidden), nn.LayerNorm(hidden), nn.GELU(),
            nn.Linear(hidden, hidden), nn.GELU(),
        )
        self.fuse = nn.Sequential(
            nn.Linear(hidden * parts, 512), nn.BatchNorm1d(512), nn.GELU(), nn.Linear(512, dim_out)
        )

    def forward(self, x):
        return self.fuse(self.part(x).flatten(1))


class BatchHardTriplet(nn.Module):
    def __init__(self, margin=0.3):
        super().__init__()
        self.margin = margin

    @staticmethod
    def distances(emb):
        norm = emb.pow(2).sum(1)
        squared = norm.unsqueeze(1) + norm.unsqueeze(0) - 2 * emb @ emb.t()
        return squared.clamp_min(1e-6).sqrt()

    def forward(self, emb, labels):
        dist = self.distances(emb)
        same = labels.unsqueeze(0) == labels.unsqueeze(1)
        hardest_pos = dist.masked_fill(~same, float("-inf")).amax(1)
        hardest_neg = dist.masked_fill(same, float("inf")).amin(1)
        return torch.relu(hardest_pos - hardest_neg + self.margin).mean()


def synthetic_gallery(ids, shots, parts, dim):
    centre = torch.randn(ids, 1, parts, dim)
    feats = centre + 0.9 * torch.randn(ids, shots, parts, dim)
    return feats.flatten(0, 1), torch.arange(ids).repeat_interleave(shots)


class Experiment:
    def __init__(self, args):
        torch.manual_seed(3)
        self.feats, self.labels = synthetic_gallery(120, 12, 6, 192)
        gen = torch.Generator().manual_seed(4)
        self.batches = iter(PKSampler(self.labels, args.ids, args.shots, gen))
        self.model = PartEmbedder()
        self.criterion = BatchHardTriplet()
        self.opt = torch.optim.AdamW(self.model.parameters(), lr=3e-4)

    def train_step(self):
        idx = next(self.batches)
        emb = self.model(self.feats[idx])
        loss = self.criterion(emb, self.labels[idx])
        self.opt.zero_grad(set_to_none=True)
        loss.backward()
        self.opt.step()
        return loss.detach()

    def run(self, steps):
        began = time.perf_counter()
        for step in range(steps):
            if step == 5:
                began = time.perf_counter()
            loss = self.train_step()
            if (step + 1) % 20 == 0:
                print(f"[{step + 1}] triplet {loss.item():.4f}")
        return (time.perf_counter() - began) / max(1, steps - 5)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--ids", type=int, default=32)
    parser.add_argument("--shots", type=int, default=8)
    opts = parser.parse_args()
    print(f"mean step {Experiment(opts).run(opts.steps) * 1000:.2f} ms")
