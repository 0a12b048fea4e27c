"""Graph isomorphism network predicting a property of generated molecules."""
import argparse
import json
import statistics
import sys
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

ATOMS = ["C", "N", "O", "F", "S", "Cl"]
VALENCE = [4, 3, 2, 1, 2, 1]
BATCH = 64


class Molecules:
    """Random valence-respecting skeletons: a tree of heavy atoms with some rings closed."""

    def __init__(self, n, seed):
        self.rng = np.random.default_rng(seed)
        self.items = [self.generate() for _ in range(n)]

    def generate(self):
        n = int(self.rng.integers(12, 30))
        kinds = self.rng.choice(len(ATOMS), n, p=[0.66, 0.12, 0.12, 0.03, 0.04, 0.03])
        kinds[:2] = 0
        free = [VALENCE[k] for k in kinds]
        bonds = []
        for i in range(1, n):
            open_atoms = [j for j in range(i) if free[j] > 0]
            if not open_atoms or free[i] == 0:
                kinds[i], free[i] = 0, 4
                open_atoms = open_atoms or [i - 1]
            j = int(self.rng.choice(open_atoms[-5:]))
            bonds.append((i, j))
            free[i] -= 1
            free[j] -= 1
        rings = 0
        for _ in range(3):
            i, j = (int(v) for v in self.rng.integers(0, n, 2))
            if abs(i - j) > 3 and free[i] > 0 and free[j] > 0 and (i, j) not in bonds:
                bonds.append((i, j))
                free[i] -= 1
                free[j] -= 1
                rings += 1
        polar = int(np.isin(kinds, [1, 2]).sum())
        target = 0.25 * n - 0.6 * polar + 0.8 * rings + self.rng.normal(0, 0.1)
        adjacency = torch.zeros(n, n)
        for i, j in bonds:
            adjacency[i, j] = adjacency[j, i] = 1.0
        degree = adjacency.sum(1).long()
        return {"atoms": torch.from_numpy(kinds), "degree": degree, "adjacency": adjacency, "target": target}

    def batch(self, size):
        rows = self.rng.integers(0, len(self.items), size)
        return collate([self.items[r] for r in rows])


def collate(molecules):
    """Joins molecules into one disconnected graph."""
    sizes = torch.tensor([len(m["atoms"]) for m in molecules])
    return {
        "atoms": torch.cat([m["atoms"] for m in molecules]),
        "degree": torch.cat([m["degree"] for m in molecules]),
        "adjacency": torch.block_diag(*[m["adjacency"] for m in molecules]),
        "graph": torch.repeat_interleave(torch.arange(len(molecules)), sizes),
        "sizes": sizes,
        "target": torch.tensor([m["target"] for m in molecules], dtype=torch.float32),
    }


class GINLayer(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.eps = nn.Parameter(torch.zeros(1))
        self.mlp = nn.Sequential(nn.Linear(dim, 2 * dim), nn.ReLU(), nn.Linear(2 * dim, dim))
        self.norm = nn.LayerNorm(dim)

    def forward(self, h, adjacency):
        messages = adjacency @ h
        return h + F.relu(self.norm(self.mlp((1 + self.eps) * h + messages)))


class GIN(nn.Module):
    def __init__(self, dim=64, depth=4):
        super().__init__()
        self.atom = nn.Embedding(len(ATOMS), dim)
        self.degree = nn.Embedding(8, dim)
        self.layers = nn.ModuleList(GINLayer(dim) for _ in range(depth))
        self.readout = nn.Sequential(nn.Linear(2 * dim, dim), nn.ReLU(), nn.Linear(dim, 1))

    def forward(self, batch):
        h = self.atom(batch["atoms"]) + self.degree(batch["degree"])
        for layer in self.layers:
            h = layer(h, batch["adjacency"])
        total = torch.zeros(len(batch["sizes"]), h.shape[1]).index_add(0, batch["graph"], h)
        pooled = torch.cat([total / 20, total / batch["sizes"].unsqueeze(1)], 1)
        return self.readout(pooled).squeeze(1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=200)
    args = parser.parse_args()

    torch.manual_seed(0)
    data = Molecules(1200, seed=0)
    model = GIN()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    times = []
    mae = 0.0
    for step in range(args.steps):
        t0 = time.perf_counter()
        batch = data.batch(BATCH)
        prediction = model(batch)
        loss = F.smooth_l1_loss(prediction, batch["target"])
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        mae = 0.9 * mae + 0.1 * (prediction.detach() - batch["target"]).abs().mean().item()
        times.append((time.perf_counter() - t0) * 1000)
        if (step + 1) % 20 == 0:
            print(f"step {step + 1} loss {loss.item():.5f} mae {mae:.4f}", file=sys.stderr)

    timed = times[5:] or times
    print(json.dumps({"ms": statistics.median(timed), "steps": args.steps}))


if __name__ == "__main__":
    main()
