"""Node classification on a citation-style graph with a two-hop GCN."""

import argparse
import json
import statistics
import time

import torch
import torch.nn as nn
import torch.nn.functional as F


class Graph:
    def __init__(self, num_nodes=3000, avg_degree=12, num_features=96, num_classes=7, seed=5):
        g = torch.Generator().manual_seed(seed)
        self.num_nodes = num_nodes
        self.num_classes = num_classes
        self.y = torch.randint(0, num_classes, (num_nodes,), generator=g)
        m = num_nodes * avg_degree // 2
        src = torch.randint(0, num_nodes, (m,), generator=g)
        # half of the edges stay inside the class
        order = torch.argsort(self.y)
        rank = torch.empty_like(order)
        rank[order] = torch.arange(num_nodes)
        near = (rank[src] + torch.randint(-100, 100, (m,), generator=g)).clamp(0, num_nodes - 1)
        far = torch.randint(0, num_nodes, (m,), generator=g)
        dst = torch.where(torch.rand(m, generator=g) < 0.5, order[near], far)
        self.edge_index = torch.cat([torch.stack([src, dst]), torch.stack([dst, src])], dim=1)
        centers = torch.randn(num_classes, num_features, generator=g)
        self.x = centers[self.y] * 0.3 + torch.randn(num_nodes, num_features, generator=g)
        self.train_mask = torch.rand(num_nodes, generator=g) < 0.5


class GCNConv(nn.Module):
    def __init__(self, in_dim, out_dim):
        super().__init__()
        self.lin = nn.Linear(in_dim, out_dim, bias=False)
        self.bias = nn.Parameter(torch.zeros(out_dim))
        self.adj = None

    def normalized_adjacency(self, edge_index, num_nodes):
        loops = torch.arange(num_nodes).repeat(2, 1)
        index = torch.cat([edge_index, loops], dim=1)
        index = torch.unique(index, dim=1)
        deg = torch.zeros(num_nodes).scatter_add_(0, index[0], torch.ones(index.size(1)))
        inv = deg.pow(-0.5)
        values = inv[index[0]] * inv[index[1]]
        adj = torch.sparse_coo_tensor(index, values, (num_nodes, num_nodes))
        return adj.coalesce()

    def forward(self, x, edge_index):
        if self.adj is None:
            self.adj = self.normalized_adjacency(edge_index, x.size(0))
        return torch.sparse.mm(self.adj, self.lin(x)) + self.bias


class GCN(nn.Module):
    def __init__(self, in_dim, hidden, out_dim, dropout=0.5):
        super().__init__()
        self.conv1 = GCNConv(in_dim, hidden)
        self.conv2 = GCNConv(hidden, hidden)
        self.conv3 = GCNConv(hidden, out_dim)
        self.dropout = dropout

    def forward(self, x, edge_index):
        x = F.relu(self.conv1(x, edge_index))
        x = F.dropout(x, self.dropout, self.training)
        x = F.relu(self.conv2(x, edge_index))
        x = F.dropout(x, self.dropout, self.training)
        return self.conv3(x, edge_index)


def train_step(model, graph, optimizer):
    model.train()
    optimizer.zero_grad()
    out = model(graph.x, graph.edge_index)
    loss = F.cross_entropy(out[graph.train_mask], graph.y[graph.train_mask])
    loss.backward()
    optimizer.step()
    return loss.item()


@torch.no_grad()
def test(model, graph):
    model.eval()
    pred = model(graph.x, graph.edge_index).argmax(dim=1)
    hit = pred == graph.y
    return hit[graph.train_mask].float().mean().item(), hit[~graph.train_mask].float().mean().item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=40, help="full-batch epochs")
    parser.add_argument("--hidden", type=int, default=128)
    args = parser.parse_args()
    torch.manual_seed(0)

    graph = Graph()
    model = GCN(graph.x.size(1), args.hidden, graph.num_classes)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
    times = []
    for epoch in range(args.steps):
        t0 = time.perf_counter()
        loss = train_step(model, graph, optimizer)
        times.append(1e3 * (time.perf_counter() - t0))
        if (epoch + 1) % 20 == 0:
            train_acc, test_acc = test(model, graph)
            print(f"epoch {epoch + 1:03d} loss {loss:.4f} train {train_acc:.3f} test {test_acc:.3f}")
    print(json.dumps({"ms": round(statistics.median(times[5:] or times), 3)}))


if __name__ == "__main__":
    main()
