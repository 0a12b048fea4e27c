"""Physics-informed network for unsteady flow past a cylinder, from sparse probes."""
import argparse
import json
import time

import torch
import torch.nn as nn

WARMUP = 10
REYNOLDS = 100.0


class FlowNet(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        layers = [nn.Linear(3, width), nn.Tanh()]
        for _ in range(depth - 1):
            layers += [nn.Linear(width, width), nn.Tanh()]
        layers.append(nn.Linear(width, 3))
        self.net = nn.Sequential(*layers)
        for module in self.net:
            if isinstance(module, nn.Linear):
                nn.init.xavier_normal_(module.weight)
                nn.init.zeros_(module.bias)

    def forward(self, t, x, y):
        out = self.net(torch.cat([t, x / 4.0 - 1.0, y / 2.0], dim=1))
        return out[:, 0:1], out[:, 1:2], out[:, 2:3]


def gradient(f, z):
    return torch.autograd.grad(f, z, grad_outputs=torch.ones_like(f), create_graph=True)[0]


def residuals(net, t, x, y):
    u, v, p = net(t, x, y)
    u_t = gradient(u, t)
    u_x = gradient(u, x)
    u_y = gradient(u, y)
    v_t = gradient(v, t)
    v_x = gradient(v, x)
    v_y = gradient(v, y)
    p_x = gradient(p, x)
    p_y = gradient(p, y)
    u_xx = gradient(u_x, x)
    u_yy = gradient(u_y, y)
    v_xx = gradient(v_x, x)
    v_yy = gradient(v_y, y)
    momentum_x = u_t + u * u_x + v * u_y + p_x - (u_xx + u_yy) / REYNOLDS
    momentum_y = v_t + u * v_x + v * v_y + p_y - (v_xx + v_yy) / REYNOLDS
    return momentum_x, momentum_y, u_x + v_y


class Collocation:
    """Fresh uniform points in the channel outside the cylinder's bounding box."""

    def __init__(self, count, device):
        self.count, self.device = count, device

    def draw(self):
        z = torch.rand(3, self.count, 1, device=self.device)
        t = (z[0] * 2 - 1).requires_grad_(True)
        x = (1.0 + 7.0 * z[1]).requires_grad_(True)
        y = (4.0 * z[2] - 2.0).requires_grad_(True)
        return t, x, y


def make_probes(count, device):
    t = torch.rand(count, 1, device=device) * 2 - 1
    x = 1.0 + 7.0 * torch.rand(count, 1, device=device)
    y = 4.0 * torch.rand(count, 1, device=device) - 2.0
    wake = torch.exp(-y ** 2) * torch.sin(2 * x - 6 * t)
    return t, x, y, 1.0 - 0.5 * torch.exp(-y ** 2) + 0.2 * wake, 0.3 * wake


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--small", action="store_true")
    args = parser.parse_args()
    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"

    points, probes, width, depth = (64, 16, 16, 3) if args.small else (20000, 2000, 192, 7)
    net = FlowNet(width, depth).to(device)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9998)
    sampler = Collocation(points, device)
    probe_t, probe_x, probe_y, probe_u, probe_v = make_probes(probes, device)
    running = torch.zeros((), device=device)

    for step in range(WARMUP + args.steps):
        if step == WARMUP:
            if device == "cuda":
                torch.cuda.synchronize()
            start = time.perf_counter()
        momentum_x, momentum_y, continuity = residuals(net, *sampler.draw())
        physics = momentum_x.square().mean() + momentum_y.square().mean() + continuity.square().mean()
        u, v, _ = net(probe_t, probe_x, probe_y)
        data = (u - probe_u).square().mean() + (v - probe_v).square().mean()
        loss = data + 0.5 * physics
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        schedule.step()
        running.lerp_(loss.detach(), 0.1)

    if device == "cuda":
        torch.cuda.synchronize()
    elapsed = time.perf_counter() - start

    print(f"running loss {running.item():.5f}")
    peak = torch.cuda.max_memory_allocated() / 2**20 if device == "cuda" else 0
    print(json.dumps({"ms": elapsed / args.steps * 1e3, "peak_mb": peak}))


if __name__ == "__main__":
    main()
