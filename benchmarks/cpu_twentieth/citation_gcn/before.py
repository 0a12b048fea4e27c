"""Node classification on a synthetic citation graph: full-batch two-layer GCN."""
import argparse
import json
import statistics
import sys
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

NODES = 3000
FEATURES = 400
CLASSES = 7


def make_graph(seed):
    """A planted-partition graph with bag-of-words features."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, CLASSES, NODES)
    order = np.argsort(labels, kind="stable")
    starts = np.searchsorted(labels[order], np.arange(CLASSES + 1))
    src = rng.integers(0, NODES, 18000)
    same = rng.random(len(src)) < 0.7
    low, high = starts[labels[src]], starts[labels[src] + 1]
    friend = order[(low + rng.random(len(src)) * (high - low)).astype(int)]
    dst = np.where(same, friend, rng.integers(0, NODES, len(src)))
    pairs = np.unique(np.stack([np.minimum(src, dst), np.maximum(src, dst)], 1), axis=0)
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    loops = np.repeat(np.arange(NODES)[:, None], 2, 1)
    edges = np.concatenate([pairs, pairs[:, ::-1], loops]).T.copy()

    topic = rng.random((CLASSES, FEATURES)) ** 6
    words = (rng.random((NODES, FEATURES)) < 0.02 + 0.05 * topic[labels]).astype(np.float32)
    words /= np.maximum(words.sum(1, keepdims=True), 1.0)
    train = rng.random(NODES) < 0.1
    return (torch.from_numpy(words), torch.from_numpy(edges),
            torch.from_numpy(labels), torch.from_numpy(train))


def gcn_weights(edges, n):
    degree = torch.zeros(n).index_add_(0, edges[1], torch.ones(edges.shape[1]))
    inv = degree.rsqrt()
    return inv[edges[0]] * inv[edges[1]]


class GraphConv(nn.Module):
    def __init__(self, n_in, n_out):
        super().__init__()
        self.lin = nn.Linear(n_in, n_out, bias=False)
        self.bias = nn.Parameter(torch.zeros(n_out))

    def propagate(self, x, edges, weights):
        messages = x[edges[0]] * weights.unsqueeze(1)
        return torch.zeros_like(x).index_add(0, edges[1], messages)

    def forward(self, x, edges, weights):
        return self.lin(self.propagate(x, edges, weights)) + self.bias


class GCN(nn.Module):
    def __init__(self, hidden=64):
        super().__init__()
        self.conv1 = GraphConv(FEATURES, hidden)
        self.conv2 = GraphConv(hidden, CLASSES)

    def forward(self, x, edges, weights):
        x = F.relu(self.conv1(x, edges, weights))
        x = F.dropout(x, 0.5, self.training)
        return self.conv2(x, edges, weights)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=100)
    args = parser.parse_args()

    torch.manual_seed(0)
    x, edges, labels, train = make_graph(seed=0)
    weights = gcn_weights(edges, NODES)
    model = GCN()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)

    times = []
    for step in range(args.steps):
        t0 = time.perf_counter()
        logits = model(x, edges, weights)
        loss = F.cross_entropy(logits[train], labels[train])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        times.append((time.perf_counter() - t0) * 1000)
        if (step + 1) % 20 == 0:
            acc = (logits.argmax(1) == labels)[~train].float().mean().item()
            print(f"step {step + 1} loss {loss.item():.5f} held-out {acc:.4f}", file=sys.stderr)

    timed = times[5:] or times
    print(json.dumps({"ms": statistics.median(timed), "steps": args.steps}))


if __name__ == "__main__":
    main()
