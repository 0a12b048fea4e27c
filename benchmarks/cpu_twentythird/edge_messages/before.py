"""Message passing on a neighbour graph: predict a smoothed field at every node."""

import argparse

import torch
import torch.nn.functional as F
from torch import nn


def neighbour_graph(points, k):
    """Edges from the k nearest neighbours of every point, sorted by receiver."""
    distance = torch.cdist(points, points)
    distance.fill_diagonal_(float("inf"))
    sender = distance.topk(k, largest=False).indices.reshape(-1)
    receiver = torch.arange(len(points)).repeat_interleave(k)
    return sender, receiver


def radial_features(points, sender, receiver, count=8):
    length = (points[sender] - points[receiver]).norm(dim=1, keepdim=True)
    centres = torch.linspace(0, float(length.max()), count)
    return torch.exp(-((length - centres) / centres[1]) ** 2)


class MessageLayer(nn.Module):
    """x_i <- x_i + update(mean over j of mlp([x_i, x_j, e_ij]))."""

    def __init__(self, dim, edge_dim):
        super().__init__()
        self.dim = dim
        self.edge_dim = edge_dim
        self.inner = nn.Linear(2 * dim + edge_dim, dim)
        self.outer = nn.Linear(dim, dim)
        self.update = nn.Linear(dim, dim)
        self.norm = nn.LayerNorm(dim)

    def forward(self, x, sender, receiver, edge_attr, degree):
        pair = torch.cat([x[receiver], x[sender], edge_attr], dim=1)
        message = self.outer(F.relu(self.inner(pair)))
        total = torch.zeros_like(x).index_add_(0, receiver, message)
        return x + F.relu(self.update(self.norm(total / degree)))


class FieldNet(nn.Module):
    def __init__(self, channels, edge_dim, dim=64, depth=2):
        super().__init__()
        self.encode = nn.Linear(channels, dim)
        self.layers = nn.ModuleList(MessageLayer(dim, edge_dim) for _ in range(depth))
        self.decode = nn.Linear(dim, 1)

    def forward(self, field, sender, receiver, edge_attr, degree):
        x = F.relu(self.encode(field))
        for layer in self.layers:
            x = layer(x, sender, receiver, edge_attr, degree)
        return self.decode(x).squeeze(1)


class FieldSource:
    """Random fields on the points and their neighbourhood means."""

    def __init__(self, points, sender, receiver, degree, seed):
        self.points = points
        self.sender, self.receiver, self.degree = sender, receiver, degree
        self.rng = torch.Generator().manual_seed(seed)

    def sample(self, channels=6):
        waves = torch.randn(3, channels, generator=self.rng) * 4
        phase = torch.rand(channels, generator=self.rng) * 6.28
        field = torch.sin(self.points @ waves + phase)
        first = field[:, 0] * field[:, 1]
        target = torch.zeros_like(first).index_add_(0, self.receiver, first[self.sender])
        return field, target / self.degree.squeeze(1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--nodes", type=int, default=1500)
    parser.add_argument("--neighbours", type=int, default=12)
    args = parser.parse_args()

    torch.manual_seed(2)
    points = torch.rand(args.nodes, 3)
    sender, receiver = neighbour_graph(points, args.neighbours)
    edge_attr = radial_features(points, sender, receiver)
    degree = torch.full((args.nodes, 1), float(args.neighbours))
    source = FieldSource(points, sender, receiver, degree, seed=4)

    model = FieldNet(channels=6, edge_dim=edge_attr.shape[1])
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-4)
    loss = None
    for _ in range(args.steps):
        field, target = source.sample()
        prediction = model(field, sender, receiver, edge_attr, degree)
        loss = F.mse_loss(prediction, target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"final loss {loss.item():.6f}")


if __name__ == "__main__":
    main()
