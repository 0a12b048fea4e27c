"""Graph isomorphism network that predicts a property of small molecules."""
import argparse
import random
import time
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F

NUM_ATOM_TYPES = 12


@dataclass
class Graph:
    atoms: torch.Tensor
    edge_index: torch.Tensor
    y: float


@dataclass
class Batch:
    atoms: torch.Tensor
    edge_index: torch.Tensor
    batch: torch.Tensor
    y: torch.Tensor
    num_graphs: int


def random_molecule(rng):
    n = rng.randint(12, 36)
    atoms = torch.tensor([rng.randrange(NUM_ATOM_TYPES) for _ in range(n)])
    bonds = [(rng.randrange(max(0, i - 4), i), i) for i in range(1, n)]
    for _ in range(n // 6):
        i = rng.randrange(n - 5)
        bonds.append((i, i + 5))
    src, dst = zip(*bonds)
    edge_index = torch.tensor([src + dst, dst + src])
    ring = len(bonds) - n + 1
    y = 0.3 * ring + (atoms % 3 == 0).float().mean().item() + rng.gauss(0, 0.05)
    return Graph(atoms, edge_index, y)


def collate(graphs):
    atoms, edges, index = [], [], []
    offset = 0
    for i, g in enumerate(graphs):
        atoms.append(g.atoms)
        edges.append(g.edge_index + offset)
        index.append(torch.full((len(g.atoms),), i))
        offset += len(g.atoms)
    y = torch.tensor([g.y for g in graphs])
    return Batch(torch.cat(atoms), torch.cat(edges, dim=1), torch.cat(index), y, len(graphs))


class GINLayer(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.eps = nn.Parameter(torch.zeros(1))
        self.mlp = nn.Sequential(
            nn.Linear(dim, 2 * dim), nn.BatchNorm1d(2 * dim), nn.ReLU(), nn.Linear(2 * dim, dim)
        )

    def forward(self, x, edge_index):
        src, dst = edge_index
        agg = torch.zeros_like(x).index_add_(0, dst, x[src])
        return F.relu(self.mlp((1 + self.eps) * x + agg))


def global_mean_pool(x, batch, num_graphs):
    total = x.new_zeros(num_graphs, x.size(1)).index_add_(0, batch, x)
    count = torch.bincount(batch, minlength=num_graphs)
    return total / count.unsqueeze(1)


class GIN(nn.Module):
    def __init__(self, dim=64, num_layers=4):
        super().__init__()
        self.embed = nn.Embedding(NUM_ATOM_TYPES, dim)
        self.layers = nn.ModuleList(GINLayer(dim) for _ in range(num_layers))
        self.head = nn.Sequential(nn.Linear(dim, dim), nn.ReLU(), nn.Linear(dim, 1))

    def forward(self, data):
        x = self.embed(data.atoms)
        for layer in self.layers:
            x = x + layer(x, data.edge_index)
        pooled = global_mean_pool(x, data.batch, data.num_graphs)
        return self.head(pooled).squeeze(-1)


def iterate(graphs, batch_size, rng):
    order = list(range(len(graphs)))
    rng.shuffle(order)
    for i in range(0, len(order) - batch_size + 1, batch_size):
        yield collate([graphs[j] for j in order[i:i + batch_size]])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--graphs", type=int, default=1280)
    parser.add_argument("--lr", type=float, default=2e-4)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    rng = random.Random(args.seed)
    graphs = [random_molecule(rng) for _ in range(args.graphs)]
    model = GIN()
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)

    step, epoch = 0, 0
    history = []
    while step < args.steps:
        epoch += 1
        start = time.time()
        for data in iterate(graphs, args.batch_size, rng):
            pred = model(data)
            loss = F.mse_loss(pred, data.y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            history.append(loss.item())
            step += 1
            if step >= args.steps:
                break
        print(f"epoch {epoch:3d}  mse {history[-1]:.4f}  time {time.time() - start:.2f}s")
    tail = history[-20:]
    print(f"final mse {sum(tail) / len(tail):.2f}")


if __name__ == "__main__":
    main()
