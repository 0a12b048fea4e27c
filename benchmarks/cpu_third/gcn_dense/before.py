"""Semi-supervised node classification on a citation-like graph with a three-layer GCN."""
import argparse
import time

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--steps", type=int, default=60)
parser.add_argument("--nodes", type=int, default=2700)
parser.add_argument("--features", type=int, default=600)
parser.add_argument("--hidden", type=int, default=64)
parser.add_argument("--dropout", type=float, default=0.5)
parser.add_argument("--weight-decay", type=float, default=5e-4)


def citation_graph(nodes, features, classes, rng):
    """Planted communities; every paper cites a few others, mostly of its own field."""
    label = rng.integers(classes, size=nodes)
    members = [np.flatnonzero(label == c) for c in range(classes)]
    edges = []
    for paper in range(nodes):
        for _ in range(rng.integers(1, 4)):
            same = rng.random() < 0.8
            cited = rng.choice(members[label[paper]]) if same else rng.integers(nodes)
            if cited != paper:
                edges.append((paper, int(cited)))
    words = rng.random((classes, features)) * 0.06
    bag = (rng.random((nodes, features)) < words[label]).astype(np.float32)
    return np.array(edges), bag, label


def normalise(edges, nodes):
    """D^-1/2 (A + I) D^-1/2, symmetric."""
    adj = np.eye(nodes, dtype=np.float32)
    adj[edges[:, 0], edges[:, 1]] = 1
    adj[edges[:, 1], edges[:, 0]] = 1
    d = 1 / np.sqrt(adj.sum(1))
    return torch.from_numpy(adj * d[:, None] * d[None, :])


class GraphConvolution(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(inputs, outputs))
        self.bias = nn.Parameter(torch.zeros(outputs))
        nn.init.xavier_uniform_(self.weight)

    def forward(self, x, adj):
        support = torch.mm(x, self.weight)
        return torch.mm(adj, support) + self.bias


class GCN(nn.Module):
    def __init__(self, inputs, hidden, classes, dropout):
        super().__init__()
        self.gc1 = GraphConvolution(inputs, hidden)
        self.gc2 = GraphConvolution(hidden, hidden)
        self.gc3 = GraphConvolution(hidden, classes)
        self.dropout = dropout

    def forward(self, x, adj):
        x = F.relu(self.gc1(x, adj))
        x = F.dropout(x, self.dropout, self.training)
        x = F.relu(self.gc2(x, adj))
        x = F.dropout(x, self.dropout, self.training)
        return self.gc3(x, adj)


def main():
    args = parser.parse_args()
    torch.manual_seed(42)
    rng = np.random.default_rng(42)
    classes = 7
    edges, bag, label = citation_graph(args.nodes, args.features, classes, rng)
    adj = normalise(edges, args.nodes)
    features = F.normalize(torch.from_numpy(bag), p=1, dim=1)
    labels = torch.from_numpy(label)
    train_ids = torch.from_numpy(rng.permutation(args.nodes)[: classes * 40])

    model = GCN(args.features, args.hidden, classes, args.dropout)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=args.weight_decay)
    model.train()
    t0 = time.time()
    for epoch in range(args.steps):
        if epoch == 5:
            t0 = time.time()
        optimizer.zero_grad()
        output = model(features, adj)
        loss = F.cross_entropy(output[train_ids], labels[train_ids])
        loss.backward()
        optimizer.step()
        if epoch % 10 == 0:
            acc = (output[train_ids].argmax(1) == labels[train_ids]).float().mean().item()
            print(f"epoch {epoch:3d} loss {loss.item():.5f} train acc {acc:.3f}")
    print(f"mean step {1000 * (time.time() - t0) / max(1, args.steps - 5):.2f} ms")


if __name__ == "__main__":
    main()
