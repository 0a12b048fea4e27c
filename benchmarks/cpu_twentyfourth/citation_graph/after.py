"""Node classification on a citation-like graph with mean-aggregating message passing."""
import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F


class Graph:
    def __init__(self, x, y, edge_index, train_mask):
        self.x, self.y = x, y
        self.edge_index = edge_index
        self.train_mask = train_mask

    @property
    def num_nodes(self):
        return self.x.size(0)


def make_graph(num_nodes, num_edges, num_features, num_classes, seed=0):
    """Stochastic block model with class-dependent sparse features."""
    gen = torch.Generator().manual_seed(seed)
    y = torch.randint(num_classes, (num_nodes,), generator=gen)
    src = torch.randint(num_nodes, (4 * num_edges,), generator=gen)
    dst = torch.randint(num_nodes, (4 * num_edges,), generator=gen)
    same = y[src] == y[dst]
    keep = (same | (torch.rand(len(src), generator=gen) < 0.15)) & (src != dst)
    src, dst = src[keep][:num_edges], dst[keep][:num_edges]
    prototypes = torch.rand(num_classes, num_features, generator=gen) < 0.1
    noise = torch.rand(num_nodes, num_features, generator=gen)
    x = ((prototypes[y] & (noise < 0.4)) | (noise > 0.97)).float()
    x = x / x.sum(1, keepdim=True).clamp_min(1.0)
    train_mask = torch.rand(num_nodes, generator=gen) < 0.3
    return Graph(x, y, torch.stack([src, dst]), train_mask)


def drop_edges(edge_index, p, gen):
    keep = torch.rand(edge_index.size(1), generator=gen) >= p
    return edge_index[:, keep]


class MessagePassing(nn.Module):
    """Mean aggregation; subclasses say what travels along an edge and what a node does with it."""

    def message(self, x_j):
        return x_j

    def update(self, aggregated, x):
        raise NotImplementedError

    def propagate(self, x, edge_index):
        src, dst = edge_index
        messages = self.message(x.index_select(0, src))
        out = messages.new_zeros(x.size(0), messages.size(1))
        out = out.index_add(0, dst, messages)
        degree = torch.bincount(dst, minlength=x.size(0)).clamp_min(1)
        return out / degree.unsqueeze(1)

    def forward(self, x, edge_index):
        return self.update(self.propagate(x, edge_index), x)


class SageConv(MessagePassing):
    def __init__(self, dim_in, dim_out):
        super().__init__()
        self.lin_neighbour = nn.Linear(dim_in, dim_out)
        self.lin_self = nn.Linear(dim_in, dim_out, bias=False)

    def update(self, aggregated, x):
        return aggregated + self.lin_self(x)

    def forward(self, x, edge_index):
        return self.update(self.propagate(self.lin_neighbour(x), edge_index), x)


class SageNet(nn.Module):
    def __init__(self, num_features, hidden, num_classes, layers=2):
        super().__init__()
        self.encoder = nn.Linear(num_features, hidden)
        self.convs = nn.ModuleList(SageConv(hidden, hidden) for _ in range(layers))
        self.norms = nn.ModuleList(nn.LayerNorm(hidden) for _ in range(layers))
        self.classifier = nn.Linear(hidden, num_classes)

    def forward(self, x, edge_index):
        h = F.relu(self.encoder(x))
        for conv, norm in zip(self.convs, self.norms):
            h = h + F.relu(norm(conv(h, edge_index)))
        return self.classifier(h)


def train_step(model, graph, optimizer, gen):
    edges = drop_edges(graph.edge_index, 0.1, gen)
    logits = model(graph.x, edges)
    loss = F.cross_entropy(logits[graph.train_mask], graph.y[graph.train_mask])
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    return loss.item()


@torch.no_grad()
def evaluate(model, graph):
    model.eval()
    logits = model(graph.x, graph.edge_index)
    loss = F.cross_entropy(logits[~graph.train_mask], graph.y[~graph.train_mask])
    model.train()
    return loss.item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--nodes", type=int, default=1600)
    parser.add_argument("--edges", type=int, default=18000)
    parser.add_argument("--hidden", type=int, default=96)
    parser.add_argument("--lr", type=float, default=3e-3)
    args = parser.parse_args()

    torch.manual_seed(0)
    torch.set_num_threads(1)
    graph = make_graph(args.nodes, args.edges, 128, 7)
    model = SageNet(128, args.hidden, 7)
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr, weight_decay=5e-4)
    gen = torch.Generator().manual_seed(2)
    for _ in range(args.steps):
        train_step(model, graph, optimizer, gen)
    print(f"{evaluate(model, graph):.5f}")


if __name__ == "__main__":
    main()
