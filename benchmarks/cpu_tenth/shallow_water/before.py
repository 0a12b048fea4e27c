"""Physics-informed network for the sloshing of a closed basin.

The network maps (x, y, t) to (h, u, v), surface elevation and velocities. The
loss is the residual of the shallow-water equations with Coriolis term at
random collocation points, plus closed walls and the initial tilt.
"""
import argparse
import math

import torch
from torch import nn

LENGTH, WIDTH, TIME = 2.0, 1.0, 1.5
DEPTH, GRAVITY, CORIOLIS = 1.0, 1.0, 0.4


def build_network(width=72, depth=5):
    layers = [nn.Linear(3, width), nn.Tanh()]
    for _ in range(depth - 1):
        layers += [nn.Linear(width, width), nn.Tanh()]
    layers.append(nn.Linear(width, 3))
    net = nn.Sequential(*layers)
    for m in net:
        if isinstance(m, nn.Linear):
            nn.init.xavier_normal_(m.weight)
            nn.init.zeros_(m.bias)
    return net


def sample_interior(n, gen):
    pts = torch.rand(n, 3, generator=gen) * torch.tensor([LENGTH, WIDTH, TIME])
    x, y, t = (c.contiguous().requires_grad_() for c in pts.split(1, dim=1))
    return x, y, t


def sample_walls(n, gen):
    """Points on the walls x = 0 and x = L (first half), y = 0 and y = W (second)."""
    pts = torch.rand(n, 3, generator=gen)
    half = n // 2
    pts[:half, 0] = pts[:half, 0].round()
    pts[half:, 1] = pts[half:, 1].round()
    return pts * torch.tensor([LENGTH, WIDTH, TIME]), half


def sample_start(n, gen):
    pts = torch.rand(n, 3, generator=gen) * torch.tensor([LENGTH, WIDTH, 0.0])
    tilt = 0.1 * torch.cos(math.pi * pts[:, 0] / LENGTH)
    return pts, torch.stack([tilt, torch.zeros_like(tilt), torch.zeros_like(tilt)], dim=1)


def derivative(f, wrt):
    return torch.autograd.grad(f, wrt, grad_outputs=torch.ones_like(f), create_graph=True)[0]


def shallow_water_residual(net, x, y, t):
    h, u, v = net(torch.cat([x, y, t], dim=1)).split(1, dim=1)

    h_x = derivative(h, x)
    h_y = derivative(h, y)
    h_t = derivative(h, t)
    u_x = derivative(u, x)
    u_y = derivative(u, y)
    u_t = derivative(u, t)
    v_x = derivative(v, x)
    v_y = derivative(v, y)
    v_t = derivative(v, t)

    mass = h_t + (DEPTH + h) * (u_x + v_y) + u * h_x + v * h_y
    momentum_x = u_t + u * u_x + v * u_y - CORIOLIS * v + GRAVITY * h_x
    momentum_y = v_t + u * v_x + v * v_y + CORIOLIS * u + GRAVITY * h_y
    return mass, momentum_x, momentum_y


def total_loss(net, gen, n_interior, n_boundary):
    residuals = shallow_water_residual(net, *sample_interior(n_interior, gen))
    loss = sum(r.square().mean() for r in residuals)

    walls, half = sample_walls(n_boundary, gen)
    out = net(walls)
    loss = loss + out[:half, 1].square().mean() + out[half:, 2].square().mean()

    start, target = sample_start(n_boundary, gen)
    loss = loss + 10 * (net(start) - target).square().mean()
    return loss


def train(steps, n_interior=1000, n_boundary=200):
    torch.manual_seed(0)
    gen = torch.Generator().manual_seed(1)
    net = build_network()
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3, fused=True)
    history = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = total_loss(net, gen, n_interior, n_boundary)
        loss.backward()
        optimizer.step()
        history.append(loss.detach())
    return torch.stack(history)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    args = parser.parse_args()
    history = train(args.steps)
    print(f"steps {args.steps}  loss {history[-10:].mean().item():.4f}")


if __name__ == "__main__":
    main()
