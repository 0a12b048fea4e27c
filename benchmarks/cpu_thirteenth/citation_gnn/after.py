"""Full-graph node classification with mean-aggregating message passing."""
import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F


def make_graph(n_nodes=4000, n_edges=80_000, n_feats=96, n_classes=7, seed=4):
    """Stochastic block model: papers cite their own field four times in five."""
    g = torch.Generator().manual_seed(seed)
    labels = torch.randint(n_classes, (n_nodes,), generator=g)
    order = torch.argsort(labels, stable=True)
    counts = torch.bincount(labels, minlength=n_classes)
    first = torch.cumsum(counts, 0) - counts

    src = torch.randint(n_nodes, (n_edges,), generator=g)
    field = labels[src]
    offset = (torch.rand(n_edges, generator=g) * counts[field]).long()
    same = order[first[field] + offset]
    anywhere = torch.randint(n_nodes, (n_edges,), generator=g)
    dst = torch.where(torch.rand(n_edges, generator=g) < 0.8, same, anywhere)

    centres = torch.randn(n_classes, n_feats, generator=g)
    feats = 0.12 * centres[labels] + torch.randn(n_nodes, n_feats, generator=g)
    return feats, torch.stack([src, dst]), labels


class MessagePassing(nn.Module):
    """Mean over the incoming messages, joined with the node's own state."""

    def __init__(self, dim_in, dim_out):
        super().__init__()
        self.lin_msg = nn.Linear(dim_in, dim_out)
        self.lin_self = nn.Linear(dim_in, dim_out)

    def message(self, x):
        return F.relu(self.lin_msg(x))

    def aggregate(self, messages, dst, inv_degree):
        out = messages.new_zeros(inv_degree.numel(), messages.shape[1])
        out = out.index_add(0, dst, messages)
        return out * inv_degree.unsqueeze(1)

    def forward(self, x, edge_index, inv_degree):
        src, dst = edge_index
        messages = self.message(x).index_select(0, src)
        return self.lin_self(x) + self.aggregate(messages, dst, inv_degree)


class CitationNet(nn.Module):
    def __init__(self, n_feats, hidden, n_classes, n_layers=2, dropout=0.3):
        super().__init__()
        dims = [n_feats] + [hidden] * n_layers
        self.layers = nn.ModuleList([MessagePassing(a, b) for a, b in zip(dims, dims[1:])])
        self.norms = nn.ModuleList([nn.LayerNorm(hidden) for _ in range(n_layers)])
        self.head = nn.Linear(hidden, n_classes)
        self.dropout = dropout

    def forward(self, x, edge_index, inv_degree):
        for layer, norm in zip(self.layers, self.norms):
            x = F.relu(norm(layer(x, edge_index, inv_degree)))
            x = F.dropout(x, self.dropout, self.training)
        return self.head(x)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--hidden", type=int, default=64)
    args = parser.parse_args()
    torch.manual_seed(0)

    feats, edge_index, labels = make_graph()
    degree = torch.bincount(edge_index[1], minlength=len(labels)).clamp(min=1)
    inv_degree = 1.0 / degree.float()

    split = torch.randperm(len(labels))
    train_idx, test_idx = split[:1200], split[1200:]

    model = CitationNet(feats.shape[1], args.hidden, 7)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)

    model.train()
    for step in range(args.steps):
        logits = model(feats, edge_index, inv_degree)
        loss = F.cross_entropy(logits[train_idx], labels[train_idx])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    model.eval()
    with torch.no_grad():
        logits = model(feats, edge_index, inv_degree)
        accuracy = (logits[test_idx].argmax(1) == labels[test_idx]).float().mean()
    print(f"train loss {loss.item():.3f}  test accuracy {accuracy.item():.3f}")


if __name__ == "__main__":
    main()
