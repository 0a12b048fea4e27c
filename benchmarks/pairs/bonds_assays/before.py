"""Train a graph network on molecules with several partly labelled assays."""

import argparse
import json
import time

import torch
from torch import nn
from torch.nn import functional as F

WARMUP = 10
ATOMS, BONDS = 119, 24


def now(device):
    if device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


def molecules(count, atoms, tasks, generator):
    """One batch of random molecules: chains with branches and ring closures."""
    sizes = torch.randint(atoms // 2, atoms + atoms // 2, (count,), generator=generator)
    graph = torch.repeat_interleave(torch.arange(count), sizes)
    first = torch.repeat_interleave(sizes.cumsum(0) - sizes, sizes)
    total = int(sizes.sum())
    place = torch.arange(total) - first
    parent = first + (place - 1 - torch.randint(2, (total,), generator=generator)).clamp(min=0)
    node = torch.arange(total)
    keep = place > 0
    a, b = node[keep], parent[keep]
    ring = torch.randint(len(a), (total // 10,), generator=generator)
    a, b = torch.cat((a, a[ring])), torch.cat((b, first[a[ring]]))
    weights = 1.0 / torch.arange(1, BONDS + 1)
    kind = torch.multinomial(weights, len(a), replacement=True, generator=generator)
    return {
        "atom": torch.randint(ATOMS, (total,), generator=generator),
        "source": torch.cat((a, b)),
        "target": torch.cat((b, a)),
        "kind": torch.cat((kind, kind)),
        "graph": graph,
        "sizes": sizes,
        "labels": torch.randint(2, (count, tasks), generator=generator).float(),
        "known": (torch.rand(count, tasks, generator=generator) < 0.6).float(),
    }


class EdgeConv(nn.Module):
    """Graph isomorphism layer whose messages carry a learned vector of the bond."""

    def __init__(self, width):
        super().__init__()
        self.epsilon = nn.Parameter(torch.zeros(1))
        self.bond = nn.Parameter(torch.randn(BONDS, width) * 0.1)
        self.mlp = nn.Sequential(
            nn.Linear(width, 2 * width), nn.BatchNorm1d(2 * width), nn.ReLU(), nn.Linear(2 * width, width)
        )

    def message(self, x, source, kind):
        return F.relu(x.index_select(0, source) + self.bond[kind])

    def forward(self, x, source, target, kind):
        total = torch.zeros_like(x).index_add(0, target, self.message(x, source, kind))
        return self.mlp((1 + self.epsilon) * x + total)


class MoleculeNet(nn.Module):
    def __init__(self, width, depth, tasks):
        super().__init__()
        self.atom = nn.Embedding(ATOMS, width)
        self.layers = nn.ModuleList(EdgeConv(width) for _ in range(depth))
        self.norms = nn.ModuleList(nn.BatchNorm1d(width) for _ in range(depth))
        self.head = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, tasks))

    def forward(self, batch):
        x = self.atom(batch["atom"])
        for layer, norm in zip(self.layers, self.norms):
            x = x + F.relu(norm(layer(x, batch["source"], batch["target"], batch["kind"])))
        pooled = x.new_zeros(len(batch["sizes"]), x.shape[1]).index_add(0, batch["graph"], x)
        return self.head(pooled / batch["sizes"].unsqueeze(1))


def assay_loss(logits, labels, known):
    loss = F.binary_cross_entropy_with_logits(logits, labels, reduction="none")
    per_task = (loss * known).sum(0) / known.sum(0).clamp(min=1)
    return per_task.mean()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--small", action="store_true")
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    count, atoms, width, depth, tasks = (8, 10, 16, 2, 3) if args.small else (1024, 26, 128, 4, 12)

    generator = torch.Generator().manual_seed(1)
    batches = [molecules(count, atoms, tasks, generator) for _ in range(8)]
    batches = [{name: value.to(device) for name, value in batch.items()} for batch in batches]
    model = MoleculeNet(width, depth, tasks).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=device.type == "cuda")
    for step in range(WARMUP + args.steps):
        batch = batches[step % len(batches)]
        loss = assay_loss(model(batch), batch["labels"], batch["known"])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step + 1 == WARMUP:
            begin = now(device)
    ms = (now(device) - begin) / args.steps * 1e3
    peak = torch.cuda.max_memory_allocated() / 2**20 if device.type == "cuda" else 0.0
    print(f"last loss {loss.item():.4f}")
    print(json.dumps({"ms": round(ms, 3), "peak_mb": round(peak, 1)}))


if __name__ == "__main__":
    main()
