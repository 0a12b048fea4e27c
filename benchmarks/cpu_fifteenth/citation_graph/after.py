"""Node classification on a citation graph with a three-layer GCN."""
import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F

NODES = 3000
CLASSES = 7
FEATURES = 128


def make_graph(seed):
    """Stochastic block model with bag-of-words features, about 6 citations per paper."""
    gen = torch.Generator().manual_seed(seed)
    labels = torch.randint(CLASSES, (NODES,), generator=gen)
    by_class = [torch.nonzero(labels == c).flatten() for c in range(CLASSES)]
    src, dst = [], []
    for node in range(NODES):
        for _ in range(3):
            if torch.rand(1, generator=gen).item() < 0.75:
                pool = by_class[labels[node]]
                other = pool[torch.randint(len(pool), (1,), generator=gen)].item()
            else:
                other = torch.randint(NODES, (1,), generator=gen).item()
            if other != node:
                src += [node, other]
                dst += [other, node]
    edge_index = torch.unique(torch.tensor([src, dst]), dim=1)
    topics = torch.rand(CLASSES, FEATURES, generator=gen) * 0.1
    x = (torch.rand(NODES, FEATURES, generator=gen) < topics[labels] + 0.02).float()
    x = x / x.sum(1, keepdim=True).clamp(min=1)
    return x, edge_index, labels


def normalized_adjacency(edge_index, num_nodes):
    """D^-1/2 (A + I) D^-1/2, Kipf & Welling 2017."""
    loops = torch.arange(num_nodes).repeat(2, 1)
    index = torch.cat([edge_index, loops], dim=1)
    d = torch.bincount(index[0], minlength=num_nodes).float().pow(-0.5)
    weight = d[index[0]] * d[index[1]]
    return torch.sparse_coo_tensor(index, weight, (num_nodes, num_nodes)).coalesce().to_sparse_csr()


class GraphConv(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        self.linear = nn.Linear(cin, cout, bias=False)
        self.bias = nn.Parameter(torch.zeros(cout))

    def forward(self, x, adj):
        return adj @ self.linear(x) + self.bias


class GCN(nn.Module):
    def __init__(self, hidden=96, dropout=0.5):
        super().__init__()
        self.conv1 = GraphConv(FEATURES, hidden)
        self.conv2 = GraphConv(hidden, hidden)
        self.conv3 = GraphConv(hidden, CLASSES)
        self.norm1 = nn.LayerNorm(hidden)
        self.norm2 = nn.LayerNorm(hidden)
        self.dropout = dropout

    def forward(self, x, adj):
        x = F.dropout(x, self.dropout, self.training)
        x = F.relu(self.norm1(self.conv1(x, adj)))
        x = F.dropout(x, self.dropout, self.training)
        x = x + F.relu(self.norm2(self.conv2(x, adj)))
        x = F.dropout(x, self.dropout, self.training)
        return self.conv3(x, adj)


def split(num_nodes, seed):
    gen = torch.Generator().manual_seed(seed)
    order = torch.randperm(num_nodes, generator=gen)
    return order[:600], order[600:1100], order[1100:]


@torch.no_grad()
def accuracy(model, x, adj, labels, index):
    model.eval()
    pred = model(x, adj)[index].argmax(1)
    return (pred == labels[index]).float().mean().item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--lr", type=float, default=0.01)
    args = parser.parse_args()
    torch.manual_seed(0)

    x, edge_index, labels = make_graph(seed=0)
    adj = normalized_adjacency(edge_index, NODES)
    train_idx, val_idx, test_idx = split(NODES, seed=1)

    model = GCN()
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr, weight_decay=5e-4)

    for epoch in range(args.steps):
        model.train()
        logits = model(x, adj)
        loss = F.cross_entropy(logits[train_idx], labels[train_idx])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    print(f"loss {loss.item():.3f}, val {accuracy(model, x, adj, labels, val_idx):.3f}, "
          f"test {accuracy(model, x, adj, labels, test_idx):.3f}")


if __name__ == "__main__":
    main()
