"""Density model of card transactions: a RealNVP flow over account features.

Low likelihood under the flow is used downstream as the fraud score.
"""
import argparse
import statistics
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.distributions import MultivariateNormal

FEATURES = 64
SEGMENTS = 6


def make_transactions(count, rng):
    """Correlated, skewed features with a customer segment for each row."""
    segment = rng.integers(0, SEGMENTS, count)
    centres = rng.normal(0, 1.5, (SEGMENTS, FEATURES))
    mixing = rng.normal(0, 1 / np.sqrt(FEATURES), (FEATURES, FEATURES))
    latent = rng.normal(0, 1, (count, FEATURES))
    x = centres[segment] + latent @ mixing
    x[:, ::3] = np.sinh(0.5 * x[:, ::3])
    x = (x - x.mean(0)) / x.std(0)
    return torch.from_numpy(x.astype(np.float32)), torch.from_numpy(segment)


class AffineCoupling(nn.Module):
    def __init__(self, dim, hidden, flip):
        super().__init__()
        self.flip = flip
        half = dim // 2
        self.net = nn.Sequential(
            nn.Linear(half, hidden), nn.SiLU(),
            nn.Linear(hidden, hidden), nn.SiLU(),
            nn.Linear(hidden, 2 * half),
        )
        nn.init.zeros_(self.net[-1].weight)
        nn.init.zeros_(self.net[-1].bias)

    def forward(self, x):
        a, b = x.chunk(2, dim=-1)
        if self.flip:
            a, b = b, a
        log_scale, shift = self.net(a).chunk(2, dim=-1)
        log_scale = 1.5 * torch.tanh(log_scale)
        b = b * log_scale.exp() + shift
        out = torch.cat((b, a) if self.flip else (a, b), dim=-1)
        return out, log_scale.sum(dim=-1)


class SegmentPrior(nn.Module):
    """Gaussian base: one mean per customer segment, one covariance for all of them."""

    def __init__(self, segments, dim):
        super().__init__()
        self.dim = dim
        self.means = nn.Parameter(torch.zeros(segments, dim))
        self.factor = nn.Parameter(0.02 * torch.randn(dim, dim))
        self.log_var = nn.Parameter(torch.zeros(dim))

    def covariance(self):
        return self.factor @ self.factor.T + torch.diag(F.softplus(self.log_var) + 1e-3)

    def log_prob(self, z, segment):
        base = MultivariateNormal(self.means[segment], covariance_matrix=self.covariance())
        return base.log_prob(z)


class TransactionFlow(nn.Module):
    def __init__(self, dim=FEATURES, hidden=256, depth=8):
        super().__init__()
        self.layers = nn.ModuleList(AffineCoupling(dim, hidden, flip=i % 2 == 1) for i in range(depth))
        self.prior = SegmentPrior(SEGMENTS, dim)

    def log_likelihood(self, x, segment):
        log_det = x.new_zeros(x.shape[0])
        for layer in self.layers:
            x, ld = layer(x)
            log_det = log_det + ld
        return self.prior.log_prob(x, segment) + log_det


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--batch-size", type=int, default=512)
    parser.add_argument("--lr", type=float, default=5e-4)
    parser.add_argument("--seed", type=int, default=11)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    rng = np.random.default_rng(args.seed)
    features, segments = make_transactions(40_000, rng)
    holdout, holdout_seg = features[-1024:], segments[-1024:]
    features, segments = features[:-1024], segments[:-1024]

    flow = TransactionFlow()
    optimizer = torch.optim.Adam(flow.parameters(), lr=args.lr)
    running = None

    times = []
    for step in range(args.steps):
        start = time.perf_counter()
        idx = torch.randint(len(features), (args.batch_size,))
        x = features[idx] + 0.01 * torch.randn(args.batch_size, FEATURES)
        loss = -flow.log_likelihood(x, segments[idx]).mean() / FEATURES
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(flow.parameters(), 5.0)
        optimizer.step()
        running = loss.detach() if running is None else running.lerp(loss.detach(), 0.1)
        times.append(time.perf_counter() - start)
        if step % 10 == 0 or step == args.steps - 1:
            print(f"step {step:3d}  nll/dim {loss.item():.4f}  smoothed {running.item():.4f}")

    with torch.no_grad():
        score = flow.log_likelihood(holdout, holdout_seg)
    print(f"holdout nll/dim {-score.mean().item() / FEATURES:.4f}")
    print(f"step_ms: {1000 * statistics.median(times):.1f}")


if __name__ == "__main__":
    main()
