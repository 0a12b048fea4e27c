"""Physics-informed network for Burgers' equation u_t + u u_x = nu u_xx on [-1, 1] x [0, 1]."""
import math
import time

import torch
import torch.nn as nn

torch.set_num_threads(2)
torch.manual_seed(91)

NU = 0.01 / math.pi
INSIDE = 2000
EDGE = 200
WIDTH = 64
DEPTH = 4
STEPS = 200
WARMUP = 4
REFRESH = 50        # steps between new collocation points


def derivative(y, x):
    return torch.autograd.grad(y, x, torch.ones_like(y), create_graph=True)[0]


class Burgers(nn.Module):
    def __init__(self):
        super().__init__()
        layers, width = [], 2
        for _ in range(DEPTH):
            layers += [nn.Linear(width, WIDTH), nn.Tanh()]
            width = WIDTH
        self.net = nn.Sequential(*layers, nn.Linear(width, 1))
        for m in self.net:
            if isinstance(m, nn.Linear):
                nn.init.xavier_normal_(m.weight)
                nn.init.zeros_(m.bias)

    def u(self, x, t):
        return self.net(torch.cat([x, t], dim=1))

    def u_x(self, x, t):
        return derivative(self.u(x, t), x)

    def u_t(self, x, t):
        return derivative(self.u(x, t), t)

    def u_xx(self, x, t):
        return derivative(self.u_x(x, t), x)

    def residual(self, x, t):
        return self.u_t(x, t) + self.u(x, t) * self.u_x(x, t) - NU * self.u_xx(x, t)


class Points:
    def __init__(self):
        self.g = torch.Generator().manual_seed(13)
        x0 = torch.rand(EDGE, 1, generator=self.g) * 2 - 1
        tb = torch.rand(EDGE, 1, generator=self.g)
        side = torch.where(torch.rand(EDGE, 1, generator=self.g) < 0.5, -1.0, 1.0)
        self.x = torch.cat([x0, side])
        self.t = torch.cat([torch.zeros(EDGE, 1), tb])
        self.value = torch.cat([-torch.sin(math.pi * x0), torch.zeros(EDGE, 1)])

    def inside(self):
        x = torch.rand(INSIDE, 1, generator=self.g) * 2 - 1
        t = torch.rand(INSIDE, 1, generator=self.g)
        return x.requires_grad_(), t.requires_grad_()


def main():
    points = Points()
    model = Burgers()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.995)
    times = []
    x, t = points.inside()
    for step in range(STEPS):
        start = time.perf_counter()
        if step and step % REFRESH == 0:
            x, t = points.inside()
        optimizer.zero_grad()
        physics = model.residual(x, t).pow(2).mean()
        known = (model.u(points.x, points.t) - points.value).pow(2).mean()
        loss = physics + 5.0 * known
        loss.backward()
        optimizer.step()
        schedule.step()
        times.append(time.perf_counter() - start)
        if step % 50 == 0:
            print(f"step {step:3d}  loss {loss.item():.5f}  physics {physics.item():.5f}  known {known.item():.5f}")
    with torch.no_grad():
        grid = torch.linspace(-1, 1, 9).unsqueeze(1)
        profile = model.u(grid, torch.full_like(grid, 0.5)).squeeze(1)
    mean = sum(times[WARMUP:]) / len(times[WARMUP:])
    print("u(x, 0.5):", " ".join(f"{v:+.3f}" for v in profile.tolist()))
    print(f"final loss {loss.item():.6f}")
    print(f"mean step time {mean * 1000:.2f} ms")


if __name__ == "__main__":
    main()
