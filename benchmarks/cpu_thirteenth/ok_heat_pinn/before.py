"""A physics-informed network for the one-dimensional heat equation u_t = a u_xx."""
import argparse
import math

import torch
import torch.nn as nn

DIFFUSIVITY = 0.1


def exact(x, t):
    return torch.exp(-DIFFUSIVITY * math.pi**2 * t) * torch.sin(math.pi * x)


class Field(nn.Module):
    """u(x, t); the factor x (1 - x) makes the boundary values vanish."""

    def __init__(self, width=96, depth=4):
        super().__init__()
        dims = [2] + [width] * depth
        self.hidden = nn.ModuleList([nn.Linear(a, b) for a, b in zip(dims, dims[1:])])
        self.out = nn.Linear(width, 1)

    def forward(self, x, t):
        h = torch.cat([x, t], dim=1)
        for layer in self.hidden:
            h = torch.tanh(layer(h))
        return x * (1 - x) * self.out(h)


def grad(y, x):
    return torch.autograd.grad(y.sum(), x, create_graph=True)


def residual(field, x, t):
    x.requires_grad_(True)
    t.requires_grad_(True)
    u = field(x, t)
    u_x, u_t = grad(u, (x, t))
    (u_xx,) = grad(u_x, x)
    return u_t - DIFFUSIVITY * u_xx


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--points", type=int, default=2048)
    args = parser.parse_args()
    torch.manual_seed(0)

    field = Field()
    optimizer = torch.optim.Adam(field.parameters(), lr=2e-3, fused=True)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=max(args.steps, 1))
    x0 = torch.linspace(0, 1, 256).unsqueeze(1)
    t0 = torch.zeros_like(x0)
    u0 = exact(x0, t0)

    for step in range(args.steps):
        # fresh collocation points every step
        x, t = torch.rand(2, args.points, 1).unbind(0)
        physics = residual(field, x, t).square().mean()
        initial = (field(x0, t0) - u0).square().mean()
        loss = physics + 10 * initial
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        if step % 20 == 19 and not math.isfinite(loss.item()):
            raise RuntimeError("diverged")

    with torch.no_grad():
        x, t = torch.rand(2, 4000, 1).unbind(0)
        error = (field(x, t) - exact(x, t)).norm() / exact(x, t).norm()
    print(f"loss {loss.item():.4f}  relative error {error.item():.4f}")


if __name__ == "__main__":
    main()
