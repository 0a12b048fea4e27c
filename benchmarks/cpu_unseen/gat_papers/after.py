"""Graph attention network on a synthetic citation graph (semi-supervised node labels)."""
import argparse
import time

import torch
import torch.nn as nn
import torch.nn.functional as F


def make_graph(nodes, classes, features, seed=1):
    """A stochastic block model: papers of one field cite each other more often."""
    g = torch.Generator().manual_seed(seed)
    labels = torch.randint(0, classes, (nodes,), generator=g)
    same = labels[:, None] == labels[None, :]
    prob = torch.where(same, 0.04, 0.004)
    adj = (torch.rand(nodes, nodes, generator=g) < prob).float()
    adj = ((adj + adj.t()) > 0).float()
    adj.fill_diagonal_(1.0)
    centers = torch.randn(classes, features, generator=g)
    x = 0.5 * centers[labels] + torch.randn(nodes, features, generator=g)
    return x, adj, labels


class GraphAttentionLayer(nn.Module):
    def __init__(self, in_features, out_features, alpha=0.2, concat=True):
        super().__init__()
        self.out_features = out_features
        self.concat = concat
        self.W = nn.Parameter(torch.empty(in_features, out_features))
        self.a = nn.Parameter(torch.empty(2 * out_features, 1))
        nn.init.xavier_uniform_(self.W, gain=1.414)
        nn.init.xavier_uniform_(self.a, gain=1.414)
        self.leakyrelu = nn.LeakyReLU(alpha)

    def forward(self, h, adj):
        wh = h @ self.W
        scores = self.leakyrelu(self.scores(wh))
        scores = scores.masked_fill(adj == 0, -9e15)
        attention = F.softmax(scores, dim=1)
        out = attention @ wh
        return F.elu(out) if self.concat else out

    def scores(self, wh):
        left = wh @ self.a[:self.out_features]
        right = wh @ self.a[self.out_features:]
        return left + right.t()


class GAT(nn.Module):
    def __init__(self, features, hidden, classes, heads):
        super().__init__()
        self.heads = nn.ModuleList(
            GraphAttentionLayer(features, hidden) for _ in range(heads))
        self.out = GraphAttentionLayer(hidden * heads, classes, concat=False)

    def forward(self, x, adj):
        x = torch.cat([head(x, adj) for head in self.heads], dim=1)
        return F.log_softmax(F.elu(self.out(x, adj)), dim=1)


def accuracy(log_probs, labels):
    return (log_probs.argmax(1) == labels).float().mean().item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--nodes", type=int, default=400)
    parser.add_argument("--hidden", type=int, default=16)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--lr", type=float, default=0.005)
    args = parser.parse_args()
    torch.manual_seed(0)

    classes = 7
    x, adj, labels = make_graph(args.nodes, classes, features=256)
    train_idx = torch.randperm(args.nodes)[: args.nodes // 3]
    model = GAT(x.size(1), args.hidden, classes, args.heads)
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr, weight_decay=5e-4)

    start = time.perf_counter()
    for epoch in range(args.steps):
        if epoch == 5:
            start = time.perf_counter()
        optimizer.zero_grad()
        output = model(x, adj)
        loss = F.nll_loss(output[train_idx], labels[train_idx])
        loss.backward()
        optimizer.step()
        if (epoch + 1) % 20 == 0:
            acc = accuracy(output[train_idx].detach(), labels[train_idx])
            print(f"epoch {epoch + 1}: loss {loss.item():.4f} train acc {acc:.3f}")
    elapsed = time.perf_counter() - start

    print(f"final loss {loss.item():.5f}")
    print(f"mean step {1000 * elapsed / max(1, args.steps - 5):.2f} ms")


if __name__ == "__main__":
    main()
