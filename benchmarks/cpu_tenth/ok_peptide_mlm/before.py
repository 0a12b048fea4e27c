"""Masked-residue pretraining of a small peptide transformer."""
import argparse
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn

RESIDUES = "ACDEFGHIKLMNPQRSTVWY"
MASK = len(RESIDUES)


@dataclass
class PeptideConfig:
    length: int = 96
    dim: int = 128
    heads: int = 4
    layers: int = 3
    batch: int = 16
    masked: int = 14      # residues hidden per peptide
    lr: float = 1e-3


class Attention(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.heads = cfg.heads
        self.qkv = nn.Linear(cfg.dim, 3 * cfg.dim)
        self.out = nn.Linear(cfg.dim, cfg.dim)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v)
        return self.out(y.transpose(1, 2).reshape(b, t, d))


class Layer(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(cfg.dim), nn.LayerNorm(cfg.dim)
        self.attention = Attention(cfg)
        self.mlp = nn.Sequential(nn.Linear(cfg.dim, 4 * cfg.dim), nn.GELU(), nn.Linear(4 * cfg.dim, cfg.dim))

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class PeptideModel(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.embed = nn.Embedding(len(RESIDUES) + 1, cfg.dim)
        self.position = nn.Parameter(0.02 * torch.randn(cfg.length, cfg.dim))
        self.layers = nn.Sequential(*[Layer(cfg) for _ in range(cfg.layers)])
        self.norm = nn.LayerNorm(cfg.dim)
        self.head = nn.Linear(cfg.dim, len(RESIDUES))

    def forward(self, tokens, where):
        """Logits of the positions listed in where, (batch, masked, residues)."""
        x = self.layers(self.embed(tokens) + self.position)
        x = x.gather(1, where.unsqueeze(2).expand(-1, -1, x.shape[2]))
        return self.head(self.norm(x))


class PeptideSource:
    """Peptides from a first-order chain, so that neighbours are informative."""

    def __init__(self, cfg, n=2000, seed=12):
        self.cfg = cfg
        self.gen = torch.Generator().manual_seed(seed)
        chain = torch.rand(len(RESIDUES), len(RESIDUES), generator=self.gen).pow(6)
        rows = [torch.randint(0, len(RESIDUES), (n,), generator=self.gen)]
        for _ in range(cfg.length - 1):
            rows.append(torch.multinomial(chain[rows[-1]], 1, generator=self.gen).squeeze(1))
        self.peptides = torch.stack(rows, dim=1)

    def __iter__(self):
        cfg = self.cfg
        while True:
            pick = torch.randint(0, len(self.peptides), (cfg.batch,), generator=self.gen)
            clean = self.peptides[pick]
            where = torch.rand(clean.shape, generator=self.gen).topk(cfg.masked, dim=1).indices
            yield clean.scatter(1, where, MASK), where, clean.gather(1, where)


class Pretrainer:
    def __init__(self, cfg):
        torch.manual_seed(0)
        self.model = PeptideModel(cfg)
        self.source = PeptideSource(cfg)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=cfg.lr, fused=True)

    def step(self, tokens, where, target):
        logits = self.model(tokens, where)
        loss = F.cross_entropy(logits.flatten(0, 1), target.flatten())
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def run(self, steps):
        losses = [self.step(*batch) for _, batch in zip(range(steps), self.source)]
        return torch.stack(losses[-10:]).mean().item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    args = parser.parse_args()
    loss = Pretrainer(PeptideConfig()).run(args.steps)
    print(f"steps {args.steps}  masked-residue loss {loss:.4f}")


if __name__ == "__main__":
    main()
