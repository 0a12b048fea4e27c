"""Regress a molecular property with a GINE network and random-walk node encodings."""
import argparse
import itertools
import json
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_geometric.transforms as T
from torch.utils.data import Dataset
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import GINEConv, global_add_pool

N_ATOMS = 28
N_BONDS = 4


def random_molecule(rng, n_atoms):
    """A chain with branches and a few ring closures, both directions of each bond."""
    back = np.minimum(rng.integers(1, 4, n_atoms - 1), np.arange(1, n_atoms))
    a = np.arange(1, n_atoms)
    b = a - back
    ring_a = rng.integers(5, n_atoms, 3)
    ring_b = ring_a - 5
    src = np.concatenate([a, ring_a])
    dst = np.concatenate([b, ring_b])
    bond = rng.integers(0, N_BONDS, src.shape[0])
    edge_index = np.stack([np.concatenate([src, dst]), np.concatenate([dst, src])])
    return Data(
        x=torch.from_numpy(rng.integers(0, N_ATOMS, n_atoms)),
        edge_index=torch.from_numpy(edge_index),
        edge_attr=torch.from_numpy(np.concatenate([bond, bond])),
        y=torch.tensor([float(rng.normal())]),
    )


class MoleculeDataset(Dataset):
    def __init__(self, n_graphs, pre_transform=None, seed=0):
        rng = np.random.default_rng(seed)
        self.graphs = [random_molecule(rng, int(n)) for n in rng.integers(14, 38, n_graphs)]
        if pre_transform is not None:
            self.graphs = [pre_transform(graph) for graph in self.graphs]

    def __len__(self):
        return len(self.graphs)

    def __getitem__(self, i):
        return self.graphs[i]


class PropertyNet(nn.Module):
    def __init__(self, hidden, pe_in, pe_dim, layers):
        super().__init__()
        self.atom = nn.Embedding(N_ATOMS, hidden - pe_dim)
        self.bond = nn.Embedding(N_BONDS, hidden)
        self.pe_norm = nn.BatchNorm1d(pe_in)
        self.pe = nn.Linear(pe_in, pe_dim)
        self.convs = nn.ModuleList()
        self.norms = nn.ModuleList()
        for _ in range(layers):
            mlp = nn.Sequential(nn.Linear(hidden, 2 * hidden), nn.ReLU(), nn.Linear(2 * hidden, hidden))
            self.convs.append(GINEConv(mlp, train_eps=True))
            self.norms.append(nn.BatchNorm1d(hidden))
        self.head = nn.Sequential(nn.Linear(hidden, hidden // 2), nn.ReLU(), nn.Linear(hidden // 2, 1))

    def forward(self, data, n_graphs):
        h = torch.cat([self.atom(data.x), self.pe(self.pe_norm(data.pe))], dim=-1)
        e = self.bond(data.edge_attr)
        for conv, norm in zip(self.convs, self.norms):
            h = h + F.relu(norm(conv(h, data.edge_index, e)))
        return self.head(global_add_pool(h, data.batch, size=n_graphs)).squeeze(-1)


def batches(loader, n):
    epochs = itertools.chain.from_iterable(loader for _ in itertools.count())
    return itertools.islice(epochs, n)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--small", action="store_true")
    opt = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

    n_graphs = 64 if opt.small else 2400
    batch_size = 8 if opt.small else 96
    walk = 20
    encode = T.AddRandomWalkPE(walk_length=walk, attr_name="pe")
    molecules = MoleculeDataset(n_graphs, pre_transform=encode)
    loader = DataLoader(
        molecules,
        batch_size=batch_size,
        shuffle=True,
        drop_last=True,
        num_workers=2 if opt.small else 4,
        persistent_workers=True,
        pin_memory=device.type == "cuda",
    )

    model = PropertyNet(
        hidden=32 if opt.small else 192,
        pe_in=walk,
        pe_dim=8 if opt.small else 32,
        layers=2 if opt.small else 8,
    ).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=device.type == "cuda")

    total = torch.zeros((), device=device)
    start = time.perf_counter()
    for step, data in enumerate(batches(loader, opt.steps + 10)):
        if step == 10:
            if device.type == "cuda":
                torch.cuda.synchronize()
            start = time.perf_counter()
        data = data.to(device, non_blocking=True)
        loss = F.l1_loss(model(data, batch_size), data.y)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        total += loss.detach()
    if device.type == "cuda":
        torch.cuda.synchronize()
    seconds = time.perf_counter() - start

    print("mean loss:", (total / (opt.steps + 10)).item())
    peak = torch.cuda.max_memory_allocated() / 2**20 if device.type == "cuda" else 0
    print(json.dumps({"ms": 1000 * seconds / opt.steps, "peak_mb": peak}))


if __name__ == "__main__":
    main()
