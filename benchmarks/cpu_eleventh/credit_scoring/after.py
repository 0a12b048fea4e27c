"""Default-risk model on loan applications: numeric columns plus a few categorical codes."""
import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, TensorDataset

N_ROWS = 120_000
N_NUMERIC = 36
CARDINALITIES = [12, 51, 7, 240, 24, 5]
BATCH_SIZE = 2048


def make_applications(seed=11):
    """Synthetic loan book with a planted non-linear risk score."""
    g = torch.Generator().manual_seed(seed)
    numeric = torch.randn(N_ROWS, N_NUMERIC, generator=g)
    numeric[:, :6] = numeric[:, :6].exp().clamp(max=8.0)
    codes = torch.stack(
        [torch.randint(0, c, (N_ROWS,), generator=g) for c in CARDINALITIES], dim=1
    )
    w = torch.randn(N_NUMERIC, generator=g) / N_NUMERIC ** 0.5
    shift = torch.randn(CARDINALITIES[1], generator=g) * 0.6
    score = numeric @ w + shift[codes[:, 1]] + 0.5 * numeric[:, 7] * numeric[:, 8] - 1.2
    noise = torch.rand(N_ROWS, generator=g)
    default = (noise < torch.sigmoid(score)).float()
    return numeric, codes, default


def standardise(numeric):
    mean, std = numeric.mean(dim=0), numeric.std(dim=0)
    return (numeric - mean) / std.clamp(min=1e-6)


class RiskNet(nn.Module):
    def __init__(self, cardinalities, n_numeric, hidden=256):
        super().__init__()
        dims = [min(24, (c + 1) // 2) for c in cardinalities]
        self.embeddings = nn.ModuleList(
            nn.Embedding(c, d) for c, d in zip(cardinalities, dims)
        )
        self.mlp = nn.Sequential(
            nn.Linear(n_numeric + sum(dims), hidden),
            nn.ReLU(),
            nn.LayerNorm(hidden),
            nn.Linear(hidden, hidden),
            nn.ReLU(),
            nn.LayerNorm(hidden),
            nn.Linear(hidden, 1),
        )

    def forward(self, numeric, codes):
        parts = [emb(codes[:, i]) for i, emb in enumerate(self.embeddings)]
        return self.mlp(torch.cat([numeric, *parts], dim=1)).squeeze(1)


def build_loader(numeric, codes, default, seed=5):
    dataset = TensorDataset(numeric, codes, default)
    generator = torch.Generator().manual_seed(seed)
    order = RandomSampler(dataset, generator=generator)
    return DataLoader(
        dataset,
        batch_size=None,
        sampler=BatchSampler(order, BATCH_SIZE, drop_last=True),
        generator=generator,
    )


def train(model, loader, optimizer, steps):
    model.train()
    running, step = 0.0, 0
    while step < steps:
        for numeric, codes, default in loader:
            logits = model(numeric, codes)
            loss = F.binary_cross_entropy_with_logits(logits, default)

            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

            running = loss.item() if step == 0 else 0.95 * running + 0.05 * loss.item()
            step += 1
            if step == steps:
                break
    return running


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    args = parser.parse_args()

    torch.manual_seed(0)
    numeric, codes, default = make_applications()
    loader = build_loader(standardise(numeric), codes, default)

    model = RiskNet(CARDINALITIES, N_NUMERIC)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=1e-4, fused=True)

    loss = train(model, loader, optimizer, args.steps)
    print(f"running loss after {args.steps} steps: {loss:.4f}")


if __name__ == "__main__":
    main()
