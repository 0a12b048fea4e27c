"""Back-test of a probabilistic electricity-load forecaster."""
import argparse
import math
import time

import torch
import torch.nn as nn


class LoadForecaster(nn.Module):
    def __init__(self, covs, hidden=48, layers=2):
        super().__init__()
        self.rnn = nn.GRU(1 + covs, hidden, layers, batch_first=True)
        self.mu = nn.Linear(hidden, 1)
        self.sigma = nn.Linear(hidden, 1)

    def head(self, h):
        return self.mu(h), nn.functional.softplus(self.sigma(h)) + 1e-3

    def sample_paths(self, past, past_cov, future_cov, num_samples):
        """Returns sampled trajectories, (batch, num_samples, horizon)."""
        scale = past.abs().mean(1, keepdim=True) + 1.0
        batch, horizon = future_cov.shape[:2]
        past = past / scale
        future_cov = future_cov.repeat_interleave(num_samples, 0)

        out, state = self.rnn(torch.cat([past.unsqueeze(-1), past_cov], -1))
        out = out[:, -1:].repeat_interleave(num_samples, 0)
        state = state.repeat_interleave(num_samples, 1)
        mu, sigma = self.head(out)
        path = []
        for t in range(horizon):
            value = torch.normal(mu, sigma)
            path.append(value)
            if t + 1 < horizon:
                step = torch.cat([value, future_cov[:, t:t + 1]], -1)
                out, state = self.rnn(step, state)
                mu, sigma = self.head(out)
        path = torch.cat(path, 1).squeeze(-1).view(batch, num_samples, horizon)
        return path * scale.unsqueeze(-1)


def make_series(n, hours, gen):
    t = torch.arange(hours)
    level = 20 + 60 * torch.rand(n, 1, generator=gen)
    daily = torch.sin(2 * math.pi * (t / 24 + torch.rand(n, 1, generator=gen)))
    weekly = torch.cos(2 * math.pi * t / 168)
    noise = torch.randn(n, hours, generator=gen).cumsum(1) * 0.01
    return level * (1 + 0.3 * daily + 0.1 * weekly + noise.clamp(-0.3, 0.3))


def calendar(t):
    day, week = 2 * math.pi * t / 24, 2 * math.pi * t / 168
    return torch.stack([day.sin(), day.cos(), week.sin(), week.cos()], -1)


def crps(samples, truth):
    """Energy form of the CRPS over the sample axis, fair estimator."""
    n = samples.shape[1]
    err = (samples - truth.unsqueeze(1)).abs().mean(1)
    ordered = samples.sort(1).values
    weight = (2 * torch.arange(1, n + 1) - n - 1).view(1, n, 1)
    spread = (weight * ordered).sum(1) / (n * (n - 1))
    return (err - spread).mean()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=60)
    ap.add_argument("--batch-size", type=int, default=6)
    ap.add_argument("--samples", type=int, default=40)
    ap.add_argument("--context", type=int, default=72)
    ap.add_argument("--horizon", type=int, default=24)
    args = ap.parse_args()
    torch.manual_seed(41)
    gen = torch.Generator().manual_seed(14)

    series = make_series(200, 2000, gen)
    cov = calendar(torch.arange(2000).float())
    model = LoadForecaster(cov.shape[-1]).eval()

    times, scores, cover = [], [], []
    window = args.context + args.horizon
    with torch.inference_mode():
        for step in range(args.steps):
            t0 = time.perf_counter()
            rows = torch.randint(0, len(series), (args.batch_size,), generator=gen)
            start = torch.randint(0, 2000 - window, (args.batch_size,), generator=gen)
            at = start[:, None] + torch.arange(window)
            values, covs = series[rows[:, None], at], cov[at]
            past, truth = values.split([args.context, args.horizon], 1)
            past_cov, future_cov = covs.split([args.context, args.horizon], 1)
            paths = model.sample_paths(past, past_cov, future_cov, args.samples)
            scores.append(crps(paths, truth))
            low, high = paths.quantile(torch.tensor([0.1, 0.9]), 1)
            cover.append(((truth >= low) & (truth <= high)).float().mean())
            times.append(time.perf_counter() - t0)
    print(f"CRPS {torch.stack(scores).mean().item():.4f} 80% coverage {torch.stack(cover).mean().item():.3f}")
    kept = times[5:] or times
    print(f"mean step {1000 * sum(kept) / len(kept):.2f} ms")


if __name__ == "__main__":
    main()
