"""Physics-informed network for the heat equation on the unit square."""

import argparse
import math

import torch
from torch import nn

DIFFUSIVITY = 0.05


class HeatField(nn.Module):
    """u(t, x, y) as a tanh network."""

    def __init__(self, width=64, depth=4):
        super().__init__()
        sizes = [3] + [width] * depth
        self.hidden = nn.ModuleList(nn.Linear(a, b) for a, b in zip(sizes, sizes[1:]))
        self.out = nn.Linear(width, 1)

    def forward(self, points):
        h = points
        for layer in self.hidden:
            h = torch.tanh(layer(h))
        return self.out(h)


def gradient(values, points):
    return torch.autograd.grad(values.sum(), points, create_graph=True)[0]


def heat_residual(model, points):
    """u_t - a (u_xx + u_yy) at the given (t, x, y)."""
    points = points.requires_grad_()
    u = model(points)
    u_t, u_x, u_y = gradient(u, points).unbind(dim=1)
    u_xx = gradient(u_x, points)[:, 1]
    u_yy = gradient(u_y, points)[:, 2]
    return u_t - DIFFUSIVITY * (u_xx + u_yy)


def initial_state(places):
    return torch.sin(math.pi * places[:, 0]) * torch.sin(math.pi * places[:, 1])


class Sampler:
    """Random points inside the domain, at time zero and on the walls."""

    def __init__(self, seed):
        self.rng = torch.Generator().manual_seed(seed)

    def interior(self, count):
        return torch.rand(count, 3, generator=self.rng)

    def start(self, count):
        points = torch.rand(count, 3, generator=self.rng)
        points[:, 0] = 0
        return points

    def walls(self, count):
        points = torch.rand(count, 3, generator=self.rng)
        axis = torch.randint(1, 3, (count,), generator=self.rng)
        side = torch.randint(0, 2, (count,), generator=self.rng).float()
        points[torch.arange(count), axis] = side
        return points


def total_loss(model, sampler, interior, border):
    residual = heat_residual(model, sampler.interior(interior))
    start = sampler.start(border)
    walls = sampler.walls(border)
    edge = model(torch.cat([start, walls])).squeeze(1)
    start_error = edge[:border] - initial_state(start[:, 1:])
    wall_error = edge[border:]
    return residual.square().mean() + 5 * start_error.square().mean() + wall_error.square().mean()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--interior", type=int, default=2400)
    parser.add_argument("--border", type=int, default=200)
    args = parser.parse_args()

    torch.manual_seed(51)
    model = HeatField()
    sampler = Sampler(seed=15)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    loss = None
    for _ in range(args.steps):
        loss = total_loss(model, sampler, args.interior, args.border)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"final loss {loss.item():.6f}")


if __name__ == "__main__":
    main()
