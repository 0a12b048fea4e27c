"""Physics-informed identification of viscosity from a 2-D unsteady flow.

A network (t, x, y) -> (u, v, p) is fitted to scattered velocity samples of the Taylor-Green
vortex while the Navier-Stokes residual, with two unknown coefficients, is driven to zero:

    u_t + l1 (u u_x + v u_y) + p_x - l2 (u_xx + u_yy) = 0      (same for v)
    u_x + v_y = 0
"""
import argparse
import math
import time

import torch
import torch.nn as nn

NU = 0.05


def taylor_green(t, x, y):
    decay = torch.exp(-2 * NU * t)
    u = -torch.cos(x) * torch.sin(y) * decay
    v = torch.sin(x) * torch.cos(y) * decay
    p = -0.25 * (torch.cos(2 * x) + torch.cos(2 * y)) * decay ** 2
    return u, v, p


def sample_domain(n, generator):
    t = 2.0 * torch.rand(n, 1, generator=generator)
    x = math.pi * torch.rand(n, 1, generator=generator)
    y = math.pi * torch.rand(n, 1, generator=generator)
    return t, x, y


def gradient(out, *var):
    return torch.autograd.grad(out, var, grad_outputs=torch.ones_like(out), create_graph=True)


class Net(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        dims = [3] + [width] * depth + [3]
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in zip(dims, dims[1:]))
        for lin in self.layers:
            nn.init.xavier_normal_(lin.weight)
            nn.init.zeros_(lin.bias)
        self.register_buffer("center", torch.tensor([1.0, math.pi / 2, math.pi / 2]))
        self.register_buffer("scale", torch.tensor([1.0, math.pi / 2, math.pi / 2]))

    def forward(self, t, x, y):
        h = (torch.cat([t, x, y], dim=1) - self.center) / self.scale
        for lin in self.layers[:-1]:
            h = torch.tanh(lin(h))
        return self.layers[-1](h).split(1, dim=1)


class PINN(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.net = Net(width, depth)
        self.lambda_1 = nn.Parameter(torch.zeros(1))
        self.lambda_2 = nn.Parameter(torch.zeros(1))

    def residuals(self, t, x, y):
        t, x, y = (a.clone().requires_grad_() for a in (t, x, y))
        u, v, p = self.net(t, x, y)

        u_t, u_x, u_y = gradient(u, t, x, y)
        v_t, v_x, v_y = gradient(v, t, x, y)
        p_x, p_y = gradient(p, x, y)

        u_xx, = gradient(u_x, x)
        u_yy, = gradient(u_y, y)
        v_xx, = gradient(v_x, x)
        v_yy, = gradient(v_y, y)

        f = u_t + self.lambda_1 * (u * u_x + v * u_y) + p_x - self.lambda_2 * (u_xx + u_yy)
        g = v_t + self.lambda_1 * (u * v_x + v * v_y) + p_y - self.lambda_2 * (v_xx + v_yy)
        div = u_x + v_y
        return f, g, div

    def losses(self, data, colloc):
        t, x, y, u, v = data
        u_hat, v_hat, _ = self.net(t, x, y)
        fit = (u - u_hat).pow(2).mean() + (v - v_hat).pow(2).mean()
        f, g, div = self.residuals(*colloc)
        phys = f.pow(2).mean() + g.pow(2).mean() + div.pow(2).mean()
        return fit, phys


@torch.no_grad()
def relative_error(model, n=4000):
    g = torch.Generator().manual_seed(99)
    pts = sample_domain(n, g)
    u, v, _ = taylor_green(*pts)
    uh, vh, _ = model.net(*pts)
    return ((u - uh).norm() / u.norm()).item(), ((v - vh).norm() / v.norm()).item()


def train(model, args):
    g = torch.Generator().manual_seed(args.seed)
    t, x, y = sample_domain(args.n_data, g)
    u, v, _ = taylor_green(t, x, y)
    noise = args.noise
    u = u + noise * u.std() * torch.randn(u.shape, generator=g)
    v = v + noise * v.std() * torch.randn(v.shape, generator=g)
    data = (t, x, y, u, v)
    opt = torch.optim.Adam([
        {"params": model.net.parameters(), "lr": args.lr},
        {"params": [model.lambda_1, model.lambda_2], "lr": 5 * args.lr}])
    sched = torch.optim.lr_scheduler.ExponentialLR(opt, 0.99)
    history = []
    start = time.time()
    for it in range(args.iters):
        colloc = sample_domain(args.n_colloc, g)
        fit, phys = model.losses(data, colloc)
        loss = fit + args.weight * phys
        opt.zero_grad()
        loss.backward()
        opt.step()
        sched.step()
        history.append(loss.item())
        if it % 10 == 0:
            elapsed, start = time.time() - start, time.time()
            print("It: %d, Loss: %.5e, l1: %.4f, l2: %.5f, Time: %.2f"
                  % (it, loss.item(), model.lambda_1.item(), model.lambda_2.item(), elapsed))
    return history


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--width", type=int, default=40)
    ap.add_argument("--depth", type=int, default=5)
    ap.add_argument("--n-data", type=int, default=1000)
    ap.add_argument("--n-colloc", type=int, default=5000)
    ap.add_argument("--iters", type=int, default=45)
    ap.add_argument("--lr", type=float, default=3e-3)
    ap.add_argument("--weight", type=float, default=1.0)
    ap.add_argument("--noise", type=float, default=0.01)
    ap.add_argument("--seed", type=int, default=1234)
    args = ap.parse_args()
    torch.manual_seed(args.seed)
    model = PINN(args.width, args.depth)
    n_params = sum(p.numel() for p in model.parameters())
    print(f"{n_params} parameters")
    history = train(model, args)
    eu, ev = relative_error(model)
    print("final loss %.5e, error u %.4f, error v %.4f" % (history[-1], eu, ev))


if __name__ == "__main__":
    main()
