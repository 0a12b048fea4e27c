"""Fit the hyperparameters of an exact Gaussian process by its marginal likelihood."""
import argparse
import json
import math
import resource
import time

import torch
import torch.nn as nn
import torch.nn.functional as F


class ARDKernel(nn.Module):
    """Squared exponential kernel with one length scale per input dimension."""

    def __init__(self, dims):
        super().__init__()
        self.raw_lengthscale = nn.Parameter(torch.full((dims,), 1.0))
        self.raw_outputscale = nn.Parameter(torch.tensor(0.5))

    def forward(self, a, b):
        lengthscale = F.softplus(self.raw_lengthscale)
        a, b = a / lengthscale, b / lengthscale
        sq = a.square().sum(-1)[:, None] + b.square().sum(-1)[None] - 2 * a @ b.T
        return F.softplus(self.raw_outputscale) * torch.exp(-0.5 * sq.clamp_min(0))


class ExactGP(nn.Module):
    def __init__(self, x, y):
        super().__init__()
        self.register_buffer("x", x)
        self.register_buffer("y", y)
        self.kernel = ARDKernel(x.shape[1])
        self.mean = nn.Parameter(torch.zeros(()))
        self.raw_noise = nn.Parameter(torch.tensor(-2.0))

    def covariance(self):
        noise = F.softplus(self.raw_noise) + 1e-4
        eye = torch.eye(len(self.x), device=self.x.device, dtype=self.x.dtype)
        return self.kernel(self.x, self.x) + noise * eye

    def neg_log_likelihood(self):
        residual = (self.y - self.mean).unsqueeze(-1)
        K = self.covariance()
        L = torch.linalg.cholesky(K)
        alpha = torch.cholesky_solve(residual, L)
        data_fit = (residual * alpha).sum()
        log_det = 2 * L.diagonal().log().sum()
        n = len(self.x)
        return 0.5 * (data_fit + log_det + n * math.log(2 * math.pi)) / n


def robot_arm_data(n, dims, device):
    """Joint angles and velocities against a torque, in the manner of SARCOS."""
    x = torch.randn(n, dims)
    w = torch.randn(dims) / math.sqrt(dims)
    y = torch.sin(2 * x @ w) + 0.3 * x[:, 0] * x[:, 1] + 0.1 * torch.randn(n)
    y = (y - y.mean()) / y.std()
    return x.to(device), y.to(device)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--lr", type=float, default=0.02)
    args = parser.parse_args()

    torch.manual_seed(0)
    torch.set_default_dtype(torch.float64)  # the covariance is too ill-conditioned for float32
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    use_cuda = device.type == "cuda"
    n, dims = (200, 5) if args.small else (4096, 21)

    x, y = robot_arm_data(n, dims, device)
    gp = ExactGP(x, y).to(device)
    optimizer = torch.optim.Adam(gp.parameters(), lr=args.lr)

    def train_step():
        optimizer.zero_grad(set_to_none=True)
        loss = gp.neg_log_likelihood()
        loss.backward()
        optimizer.step()
        return loss.detach()

    for _ in range(3):
        train_step()
    if use_cuda:
        torch.cuda.synchronize()
    losses = []
    start = time.perf_counter()
    for _ in range(args.steps):
        losses.append(train_step())
    if use_cuda:
        torch.cuda.synchronize()
    elapsed = time.perf_counter() - start

    losses = torch.stack(losses).cpu()
    print(f"nll first {losses[0]:.6f} last {losses[-1]:.6f} mean {losses.mean():.6f}")
    if use_cuda:
        peak = torch.cuda.max_memory_allocated() / 2**20
    else:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"ms": elapsed / args.steps * 1000, "peak_mb": peak}))


if __name__ == "__main__":
    main()
