"""Flood forecasting: an LSTM reads 96 hours of rain and river level, predicts quantiles of the next 12."""
import argparse

import torch
import torch.nn as nn

HISTORY, HORIZON, FEATURES = 96, 12, 6
QUANTILES = (0.1, 0.5, 0.9)


def make_catchments(n=24, hours=3000, seed=41):
    """Rain bursts routed through a leaky reservoir per catchment."""
    g = torch.Generator().manual_seed(seed)
    burst = torch.rand(n, hours, generator=g) < 0.03
    rain = burst * torch.empty(n, hours).exponential_(0.5, generator=g)
    decay = 0.9 + 0.08 * torch.rand(n, 1, generator=g)
    kernel_t = torch.arange(120, dtype=torch.float32)
    kernel = (decay ** kernel_t) * (1 - torch.exp(-kernel_t / 6))
    padded = nn.functional.pad(rain, (119, 0))
    level = nn.functional.conv1d(padded[None], kernel.flip(1)[:, None], groups=n)[0]
    level = level / level.std(dim=1, keepdim=True) + 0.05 * torch.randn(n, hours, generator=g)
    t = torch.arange(hours, dtype=torch.float32).expand(n, hours)
    features = torch.stack([
        rain, level, torch.sin(2 * torch.pi * t / 24), torch.cos(2 * torch.pi * t / 24),
        decay.expand(n, hours), nn.functional.avg_pool1d(padded[:, None], 24, 1)[:, 0, -hours:],
    ], dim=-1)
    return features, level


class WindowSampler:
    def __init__(self, features, level, batch_size, seed=42):
        self.features, self.level, self.batch_size = features, level, batch_size
        self.g = torch.Generator().manual_seed(seed)
        self.past = torch.arange(HISTORY)
        self.future = torch.arange(HISTORY, HISTORY + HORIZON)

    def next(self):
        n, hours = self.level.shape
        site = torch.randint(n, (self.batch_size, 1), generator=self.g)
        start = torch.randint(hours - HISTORY - HORIZON, (self.batch_size, 1), generator=self.g)
        return self.features[site, start + self.past], self.level[site, start + self.future]


class QuantileLSTM(nn.Module):
    def __init__(self, hidden=96, layers=2):
        super().__init__()
        self.lstm = nn.LSTM(FEATURES, hidden, num_layers=layers, batch_first=True)
        self.head = nn.Sequential(nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, HORIZON * len(QUANTILES)))

    def forward(self, x):
        _, (h, _) = self.lstm(x)
        return self.head(h[-1]).view(-1, HORIZON, len(QUANTILES))


class PinballLoss(nn.Module):
    def __init__(self, quantiles):
        super().__init__()
        self.register_buffer("q", torch.tensor(quantiles))

    def forward(self, pred, target):
        error = target.unsqueeze(-1) - pred
        return torch.maximum(self.q * error, (self.q - 1) * error).mean()


@torch.no_grad()
def coverage(model, sampler, batches=2):
    """Share of observations inside the 10-90 % band."""
    model.eval()
    inside = []
    for _ in range(batches):
        x, y = sampler.next()
        low, _, high = model(x).unbind(-1)
        inside.append(((y >= low) & (y <= high)).float().mean())
    model.train()
    return torch.stack(inside).mean().item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--batch-size", type=int, default=48)
    parser.add_argument("--lr", type=float, default=2e-3)
    args = parser.parse_args()

    torch.manual_seed(0)
    features, level = make_catchments()
    sampler = WindowSampler(features, level, args.batch_size)
    model = QuantileLSTM()
    criterion = PinballLoss(QUANTILES)
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr, fused=True)

    smooth = None
    for _ in range(args.steps):
        x, y = sampler.next()
        loss = criterion(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        value = loss.item()
        smooth = value if smooth is None else 0.9 * smooth + 0.1 * value
    if smooth is not None:
        print(f"pinball {smooth:.4f} coverage {coverage(model, sampler):.3f}")


if __name__ == "__main__":
    main()
