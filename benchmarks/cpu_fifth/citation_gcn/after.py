"""Semi-supervised node classification on a citation graph with a two-layer GCN."""
import argparse
import statistics
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


def make_citation_graph(n_nodes, n_classes, n_feat, rng, mean_degree=8):
    """Papers cite mostly papers of their own field; features stand for embeddings of the abstracts."""
    fields = rng.integers(0, n_classes, n_nodes)
    by_field = [np.flatnonzero(fields == c) for c in range(n_classes)]
    src = rng.integers(0, n_nodes, n_nodes * mean_degree // 2)
    same = rng.random(len(src)) < 0.8
    dst = np.array([rng.choice(by_field[fields[s]]) if k else rng.integers(0, n_nodes) for s, k in zip(src, same)])
    keep = src != dst
    edges = np.stack([src[keep], dst[keep]])
    centres = rng.normal(0, 1, (n_classes, n_feat)) / np.sqrt(n_feat)
    abstracts = (centres[fields] + rng.normal(0, 4, (n_nodes, n_feat)) / np.sqrt(n_feat)).astype(np.float32)
    return torch.from_numpy(abstracts), torch.from_numpy(edges), torch.from_numpy(fields)


def normalized_adjacency(edges, n_nodes):
    """D^-1/2 (A + I) D^-1/2 of the undirected graph."""
    adj = torch.zeros(n_nodes, n_nodes)
    adj[edges[0], edges[1]] = 1.0
    adj[edges[1], edges[0]] = 1.0
    adj.fill_diagonal_(1.0)
    inv_sqrt = adj.sum(1).rsqrt()
    return (inv_sqrt[:, None] * adj * inv_sqrt[None, :]).to_sparse_csr()


class GraphConvolution(nn.Module):
    def __init__(self, in_features, out_features):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(in_features, out_features))
        self.bias = nn.Parameter(torch.zeros(out_features))
        nn.init.xavier_uniform_(self.weight)

    def forward(self, x, adj):
        support = x @ self.weight
        return adj @ support + self.bias


class GCN(nn.Module):
    def __init__(self, n_feat, n_hidden, n_classes, dropout):
        super().__init__()
        self.gc1 = GraphConvolution(n_feat, n_hidden)
        self.gc2 = GraphConvolution(n_hidden, n_classes)
        self.dropout = dropout

    def forward(self, x, adj):
        x = F.relu(self.gc1(x, adj))
        x = F.dropout(x, self.dropout, training=self.training)
        return self.gc2(x, adj)


@torch.no_grad()
def accuracy(model, features, adj, labels, index):
    model.eval()
    return (model(features, adj)[index].argmax(1) == labels[index]).float().mean().item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--nodes", type=int, default=2000)
    parser.add_argument("--features", type=int, default=768)
    parser.add_argument("--hidden", type=int, default=256)
    parser.add_argument("--classes", type=int, default=7)
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--weight-decay", type=float, default=5e-4)
    parser.add_argument("--dropout", type=float, default=0.5)
    args = parser.parse_args()

    torch.manual_seed(42)
    torch.set_num_threads(1)
    rng = np.random.default_rng(42)

    features, edges, labels = make_citation_graph(args.nodes, args.classes, args.features, rng)
    adj = normalized_adjacency(edges, args.nodes)
    order = torch.randperm(args.nodes)
    idx_train, idx_test = order[:args.nodes // 5], order[args.nodes // 5:]

    model = GCN(args.features, args.hidden, args.classes, args.dropout)
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr, weight_decay=args.weight_decay, fused=True)

    times, losses = [], []
    for epoch in range(args.steps):
        tick = time.perf_counter()
        model.train()
        optimizer.zero_grad(set_to_none=True)
        logits = model(features, adj)
        loss = F.cross_entropy(logits[idx_train], labels[idx_train])
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
        times.append(time.perf_counter() - tick)

    print(f"test accuracy {accuracy(model, features, adj, labels, idx_test):.4f}")
    print(f"loss {losses[-1].item():.4f}")
    print(f"step {1000 * statistics.median(times[5:]):.2f} ms")


if __name__ == "__main__":
    main()
