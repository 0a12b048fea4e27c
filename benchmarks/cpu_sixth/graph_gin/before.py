"""Molecular property classification with a gated graph network."""
import argparse
import os
import statistics
import time

import numpy as np
import torch
from torch import nn

# a few seeds gave NaN losses early on, so keep an eye on the gradients
torch.autograd.set_detect_anomaly(True)


def random_molecule(rng, num_types):
    """Ring/chain graph with a few extra bonds; label: has a rare triple."""
    n = int(rng.integers(10, 30))
    chain = np.stack([np.arange(n - 1), np.arange(1, n)])
    extra = rng.integers(0, n, (2, max(1, n // 6)))
    edges = np.concatenate([chain, extra], axis=1)
    edges = np.concatenate([edges, edges[::-1]], axis=1)
    types = rng.integers(0, num_types, n)
    label = float((types < 3).sum() > n * 0.3)
    return types, edges, label


def collate(graphs):
    """Disjoint union of the graphs of a batch."""
    types, edges, owner, labels, offset = [], [], [], [], 0
    for k, (t, e, y) in enumerate(graphs):
        types.append(t)
        edges.append(e + offset)
        owner.append(np.full(len(t), k))
        labels.append(y)
        offset += len(t)
    return (torch.from_numpy(np.concatenate(types)),
            torch.from_numpy(np.concatenate(edges, axis=1)),
            torch.from_numpy(np.concatenate(owner)),
            torch.tensor(labels))


class GatedLayer(nn.Module):
    """Gated residual message passing."""

    def __init__(self, dim):
        super().__init__()
        self.message = nn.Linear(dim, dim)
        self.gate = nn.Linear(2 * dim, dim)
        self.candidate = nn.Linear(2 * dim, dim)
        self.norm = nn.LayerNorm(dim)

    def forward(self, h, src, dst, inv_deg):
        msg = self.message(h).index_select(0, src)
        agg = torch.zeros_like(h).index_add(0, dst, msg) * inv_deg
        both = torch.cat([h, agg], dim=1)
        z = torch.sigmoid(self.gate(both))
        c = torch.tanh(self.candidate(both))
        return self.norm(h + z * (c - h))


class MoleculeNet(nn.Module):
    def __init__(self, num_types, dim=32, layers=8):
        super().__init__()
        self.embed = nn.Embedding(num_types, dim)
        self.layers = nn.ModuleList([GatedLayer(dim) for _ in range(layers)])
        self.head = nn.Sequential(nn.Linear(dim, dim), nn.ReLU(), nn.Linear(dim, 1))

    def forward(self, types, edges, owner, num_graphs):
        src, dst = edges
        h = self.embed(types)
        ones = torch.ones(len(dst), 1)
        deg = torch.zeros(len(h), 1).index_add(0, dst, ones).clamp(min=1)
        inv_deg = deg.reciprocal()
        for layer in self.layers:
            h = layer(h, src, dst, inv_deg)
        pooled = torch.zeros(num_graphs, h.shape[1]).index_add(0, owner, h)
        return self.head(pooled).squeeze(1)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--graphs", type=int, default=2000)
    parser.add_argument("--types", type=int, default=12)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--steps", type=int, default=int(os.environ.get("STEPS", 300)))
    args = parser.parse_args()

    torch.manual_seed(42)
    rng = np.random.default_rng(42)
    graphs = [random_molecule(rng, args.types) for _ in range(args.graphs)]
    # the batches never change, so build them once
    batches = [collate(graphs[i:i + args.batch_size])
               for i in range(0, args.graphs - args.batch_size + 1, args.batch_size)]
    model = MoleculeNet(args.types)
    criterion = nn.BCEWithLogitsLoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)

    step, epoch, seconds = 0, 0, []
    while step < args.steps:
        epoch_loss, correct, total = 0.0, 0, 0
        for k in torch.randperm(len(batches)).tolist():
            tick = time.perf_counter()
            types, edges, owner, labels = batches[k]
            logits = model(types, edges, owner, len(labels))
            loss = criterion(logits, labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            epoch_loss += loss.item() * len(labels)
            correct += ((logits > 0) == (labels > 0.5)).sum().item()
            total += len(labels)
            seconds.append(time.perf_counter() - tick)
            step += 1
            if step >= args.steps:
                break
        epoch += 1
        print(f"epoch {epoch:2d} loss {epoch_loss / total:.6f} acc {correct / total:.3f}")
    print(f"step {statistics.median(seconds[5:]) * 1000:.2f} ms")


if __name__ == "__main__":
    main()
