"""Semi-supervised node classification on a citation graph with a 3-layer GCN."""
import argparse
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

from layers import GCNConv


def make_citation_graph(num_nodes, avg_degree, num_features, num_classes, seed):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, num_classes, num_nodes)
    by_class = np.argsort(y, kind="stable")
    offsets = np.searchsorted(y[by_class], np.arange(num_classes + 1))

    n_edges = num_nodes * avg_degree // 2
    src = rng.integers(0, num_nodes, n_edges)
    # most citations stay inside the field of the paper
    low, high = offsets[y[src]], offsets[y[src] + 1]
    inside = by_class[(low + rng.random(n_edges) * (high - low)).astype(np.int64)]
    anywhere = rng.integers(0, num_nodes, n_edges)
    dst = np.where(rng.random(n_edges) < 0.7, inside, anywhere)
    pairs = np.stack([src, dst])
    pairs = pairs[:, src != dst]
    pairs = np.unique(np.concatenate([pairs, pairs[::-1]], axis=1), axis=1)

    centers = rng.normal(size=(num_classes, num_features)) * 0.3
    x = centers[y] + rng.normal(size=(num_nodes, num_features))
    return (
        torch.tensor(x, dtype=torch.float32),
        torch.from_numpy(np.ascontiguousarray(pairs)),
        torch.from_numpy(y),
    )


def split_masks(num_nodes, train_fraction, val_fraction):
    perm = torch.randperm(num_nodes)
    n_train = int(train_fraction * num_nodes)
    n_val = int(val_fraction * num_nodes)
    return perm[:n_train], perm[n_train:n_train + n_val]


class GCN(nn.Module):
    def __init__(self, in_features, hidden, num_classes):
        super().__init__()
        self.conv1 = GCNConv(in_features, hidden)
        self.conv2 = GCNConv(hidden, hidden)
        self.conv3 = GCNConv(hidden, num_classes)

    def forward(self, x, edge_index):
        x = F.relu(self.conv1(x, edge_index))
        x = F.relu(self.conv2(x, edge_index))
        return self.conv3(x, edge_index)


def train_epoch(model, optimizer, x, edge_index, y, train_idx):
    model.train()
    optimizer.zero_grad()
    out = model(x, edge_index)
    loss = F.cross_entropy(out[train_idx], y[train_idx])
    loss.backward()
    optimizer.step()
    return loss.item()


@torch.no_grad()
def accuracy(model, x, edge_index, y, idx):
    model.eval()
    pred = model(x, edge_index)[idx].argmax(dim=1)
    return (pred == y[idx]).float().mean().item()


def parse_args():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--nodes", type=int, default=12000)
    parser.add_argument("--degree", type=int, default=16)
    parser.add_argument("--hidden", type=int, default=128)
    parser.add_argument("--lr", type=float, default=0.01)
    return parser.parse_args()


def main():
    args = parse_args()
    torch.manual_seed(7)
    num_classes = 12
    x, edge_index, y = make_citation_graph(args.nodes, args.degree, 128, num_classes, seed=7)
    train_idx, val_idx = split_masks(args.nodes, 0.1, 0.2)
    print(f"{args.nodes} nodes, {edge_index.size(1)} edges")

    model = GCN(x.size(1), args.hidden, num_classes)
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr, weight_decay=5e-4)

    times = []
    for epoch in range(1, args.steps + 1):
        begin = time.perf_counter()
        loss = train_epoch(model, optimizer, x, edge_index, y, train_idx)
        times.append(time.perf_counter() - begin)
        if epoch == 1 or epoch % 20 == 0:
            acc = accuracy(model, x, edge_index, y, val_idx)
            print(f"epoch {epoch:3d}: loss {loss:.4f}, val acc {acc:.4f}")
    print(f"step_ms: {1000 * float(np.median(times)):.2f}")


if __name__ == "__main__":
    main()
