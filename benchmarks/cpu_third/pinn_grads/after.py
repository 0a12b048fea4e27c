"""Physics-informed network for the two-dimensional incompressible Euler equations, unsteady."""
import argparse
import math
import time

import torch
from torch import nn


def mlp(inputs, hidden, depth, outputs):
    layers = [nn.Linear(inputs, hidden), nn.Tanh()]
    for _ in range(depth - 1):
        layers += [nn.Linear(hidden, hidden), nn.Tanh()]
    return nn.Sequential(*layers, nn.Linear(hidden, outputs))


def gradient(field, coords):
    """The derivatives of a field along x, y and t, differentiable again."""
    grad, = torch.autograd.grad(field, coords, torch.ones_like(field), create_graph=True)
    return grad.unbind(1)


class DriftingVortex:
    """A vortex drifting with a mean wind; its exact solution gives the initial and wall data."""

    def __init__(self, wind):
        self.wind = wind

    def exact(self, c):
        x, y, t = c.unbind(1)
        x = x - self.wind * t
        u = self.wind + torch.sin(x) * torch.cos(y)
        v = -torch.cos(x) * torch.sin(y)
        p = 0.25 * (torch.cos(2 * x) + torch.cos(2 * y))
        return torch.stack([u, v, p], 1)

    def residual(self, net, coords):
        out = net(coords)
        u, v, p = out[:, 0], out[:, 1], out[:, 2]
        u_x, u_y, u_t = gradient(u, coords)
        v_x, v_y, v_t = gradient(v, coords)
        p_x, p_y, _ = gradient(p, coords)
        momentum_x = u_t + u * u_x + v * u_y + p_x
        momentum_y = v_t + u * v_x + v * v_y + p_y
        return momentum_x, momentum_y, u_x + v_y


def sample(count, generator):
    c = torch.rand(count, 3, generator=generator)
    return c * torch.tensor([2 * math.pi, 2 * math.pi, 1.0])


def sample_walls(count, generator):
    c = sample(count, generator)
    third = count // 3
    c[:third, 2] = 0
    c[third:2 * third, 0] = 0
    c[2 * third:, 1] = 2 * math.pi
    return c


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--points", type=int, default=1536)
    parser.add_argument("--hidden", type=int, default=64)
    parser.add_argument("--depth", type=int, default=4)
    args = parser.parse_args()

    torch.manual_seed(1)
    g = torch.Generator().manual_seed(2)
    flow = DriftingVortex(wind=0.3)
    net = mlp(3, args.hidden, args.depth, 3)
    optimizer = torch.optim.Adam(net.parameters(), lr=2e-3)

    start = time.perf_counter()
    for step in range(args.steps):
        if step == 5:
            start = time.perf_counter()
        interior = sample(args.points, g).requires_grad_(True)
        walls = sample_walls(args.points // 2, g)
        physics = sum(r.square().mean() for r in flow.residual(net, interior))
        data = (net(walls) - flow.exact(walls)).square().mean()
        loss = physics + 10 * data
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 10 == 0:
            print(f"iter {step} physics {physics.item():.5f} data {data.item():.5f}")
    print(f"mean step {1000 * (time.perf_counter() - start) / max(1, args.steps - 5):.2f} ms")


if __name__ == "__main__":
    main()
